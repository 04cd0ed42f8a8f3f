/* resgraph_hwloc.c - a machine, as hwloc detects it or reads it from XML, as one node (see the
 * header).
 *
 *    vertex    hwloc
 *    socket    packages; none: the machine is one
 *    core      cores, else processing units, by logical index; only those this process may use
 *    gpu       PCI devices of class display (0x03xx) of NVIDIA and AMD, of Intel without VGA, and
 *              any other PCI device with a co-processor behind it (cuda0, rsmi0, ze0...)
 *    memory    sum of the NUMA nodes
 *
 * Gpus are counted as PCI devices because the console of a server is not a gpu, and because a
 * driver may make several devices of one card.
 *
 * Discovery uses only the components of hwloc for CPUs, memory and PCI: components that load
 * drivers of vendors take long and can hang.
 *
 * Failure: EIO or EINVAL with an error message; a machine in which hwloc finds no core is an error.
 */
#include <errno.h>
#include <hwloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "reshwloc_check.h"
#include "reshwloc_cores.h"
#include "libutil/fdutil.h"
#include "libutil/filetrust.h"
#include "resgraph_hwloc.h"

#define XML_MAX (16u * 1024 * 1024)

enum { VENDOR_NVIDIA = 0x10de, VENDOR_AMD = 0x1002, VENDOR_INTEL = 0x8086 };
enum { CLASS_DISPLAY = 0x03, CLASS_VGA = 0x0300 };

struct found {
    idset_t *cores;
    idset_t *gpus;
    idset_t **sockets;
    size_t nsockets;
    uint64_t memory;
};

static void found_clear(struct found *f)
{
    int saved = errno;

    idset_destroy(f->cores);
    idset_destroy(f->gpus);
    for (size_t i = 0; i < f->nsockets; i++)
        idset_destroy(f->sockets[i]);
    free(f->sockets);
    errno = saved;
}

static int no_memory(errmsg_t *err)
{
    return errmsg_fail(err, ENOMEM, "out of memory for an inventory of resources");
}

/* --- gpus --- */

/* Does the PCI device have a co-processor below it? */
static bool has_coprocessor(hwloc_obj_t pci)
{
    for (hwloc_obj_t o = pci->io_first_child; o; o = o->next_sibling) {
        if (o->type == HWLOC_OBJ_OS_DEVICE && o->attr &&
            o->attr->osdev.type == HWLOC_OBJ_OSDEV_COPROC)
            return true;
    }
    return false;
}

static bool is_gpu(hwloc_obj_t pci)
{
    unsigned class, vendor;

    if (!pci->attr)
        return false;
    class = pci->attr->pcidev.class_id;
    vendor = pci->attr->pcidev.vendor_id;
    if (class >> 8 == CLASS_DISPLAY && (vendor == VENDOR_NVIDIA || vendor == VENDOR_AMD ||
                                        (vendor == VENDOR_INTEL && class != CLASS_VGA)))
        return true;
    return has_coprocessor(pci);
}

static int find_gpus(hwloc_topology_t t, struct found *f)
{
    uint32_t n = 0;

    for (hwloc_obj_t o = hwloc_get_next_pcidev(t, NULL); o; o = hwloc_get_next_pcidev(t, o)) {
        if (is_gpu(o) && n < RESGRAPH_CORES_MAX && idset_set(f->gpus, n++) < 0)
            return -1;
    }
    return 0;
}

/* --- cores --- */

static bool within(hwloc_obj_t o, hwloc_const_cpuset_t set)
{
    return !set || !o->cpuset || hwloc_bitmap_intersects(o->cpuset, set);
}

static int find_cores(hwloc_topology_t t, hwloc_obj_t below, hwloc_const_cpuset_t bound,
                      idset_t *cores)
{
    hwloc_obj_type_t type = reshwloc_cores_type(t);

    for (hwloc_obj_t o = hwloc_get_next_obj_by_type(t, type, NULL); o;
         o = hwloc_get_next_obj_by_type(t, type, o)) {
        if (o->logical_index >= RESGRAPH_CORES_MAX || !within(o, bound))
            continue;
        if (below &&
            (!below->cpuset || !o->cpuset || !hwloc_bitmap_intersects(o->cpuset, below->cpuset)))
            continue;
        if (idset_set(cores, o->logical_index) < 0)
            return -1;
    }
    return 0;
}

/* Find the packages with cores that this process may use.  If a core is in no package, or in two,
 * the whole machine is one socket. */
static int find_sockets(hwloc_topology_t t, hwloc_const_cpuset_t bound, struct found *f)
{
    int n = hwloc_get_nbobjs_by_type(t, HWLOC_OBJ_PACKAGE);
    size_t cores = 0;

    if (n <= 1 || !(f->sockets = calloc((size_t)n, sizeof(*f->sockets))))
        return n <= 1 ? 0 : -1;
    for (int i = 0; i < n; i++) {
        idset_t *ids = idset_create();

        if (!ids)
            return -1;
        if (find_cores(t, hwloc_get_obj_by_type(t, HWLOC_OBJ_PACKAGE, (unsigned)i), bound, ids) <
            0) {
            idset_destroy(ids);
            return -1;
        }
        if (idset_empty(ids)) {
            idset_destroy(ids);
            continue;
        }
        cores += idset_count(ids);
        f->sockets[f->nsockets++] = ids;
    }
    if (cores != idset_count(f->cores)) {
        while (f->nsockets > 0)
            idset_destroy(f->sockets[--f->nsockets]);
    }
    return 0;
}

static uint64_t find_memory(hwloc_topology_t t)
{
    uint64_t bytes = 0;

    for (hwloc_obj_t o = hwloc_get_next_obj_by_type(t, HWLOC_OBJ_NUMANODE, NULL); o;
         o = hwloc_get_next_obj_by_type(t, HWLOC_OBJ_NUMANODE, o)) {
        uint64_t more = o->attr ? o->attr->numanode.local_memory : 0;

        bytes = more > UINT64_MAX - bytes ? UINT64_MAX : bytes + more;
    }
    return bytes >> 20;
}

/* --- one node --- */

static const char *host_of(hwloc_topology_t t, uint32_t rank, char *buf, size_t size)
{
    const char *name = hwloc_obj_get_info_by_name(hwloc_get_root_obj(t), "HostName");

    if (name && rreq_name_valid(name))
        return name;
    snprintf(buf, size, "node%u", rank);
    return buf;
}

static resgraph_t *build(hwloc_topology_t t, uint32_t rank, const char *host,
                         hwloc_const_cpuset_t bound, errmsg_t *err)
{
    struct found f = {.cores = idset_create(), .gpus = idset_create()};
    idset_t *ranks = idset_create_range(rank, rank);
    resgraph_t *g = resgraph_create();
    struct resgraph_node desc;
    char buf[32];
    int rc = -1;

    if (!g || !ranks || !f.cores || !f.gpus || find_cores(t, NULL, bound, f.cores) < 0 ||
        find_sockets(t, bound, &f) < 0 || find_gpus(t, &f) < 0) {
        no_memory(err);
        goto out;
    }
    if (idset_empty(f.cores)) {
        errmsg_fail(err, EINVAL, "hwloc finds no core%s",
                    bound ? " that this process may use" : "");
        goto out;
    }
    desc = (struct resgraph_node){.cores = f.cores,
                                  .gpus = f.gpus,
                                  .sockets = (const idset_t *const *)f.sockets,
                                  .nsockets = f.nsockets,
                                  .memory = find_memory(t)};
    if (desc.memory > RREQ_QUANTITY_MAX)
        desc.memory = RREQ_QUANTITY_MAX;
    rc = resgraph_add(g, ranks, host ? host : host_of(t, rank, buf, sizeof(buf)), &desc, err);
out:
    found_clear(&f);
    idset_destroy(ranks);
    if (rc == 0)
        return g;
    resgraph_destroy(g);
    return NULL;
}

static int keep_types(hwloc_topology_t t)
{
    if (reshwloc_cores_filter(t) < 0)
        return -1;
    return hwloc_topology_set_io_types_filter(t, HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
}

static int load_failed(hwloc_topology_t t, const char *what, errmsg_t *err)
{
    int errnum = errno ? errno : EIO;

    hwloc_topology_destroy(t);
    return errmsg_fail(err, errnum, "hwloc cannot read %s: %s", what, strerror(errnum));
}

resgraph_t *resgraph_from_hwloc(uint32_t rank, const char *host, errmsg_t *err)
{
    static const char *const slow[] = {"opencl", "gl", "cuda", "nvml", "rsmi", "levelzero"};
    hwloc_bitmap_t bound = hwloc_bitmap_alloc();
    hwloc_topology_t t;
    resgraph_t *g;

    if (!bound || hwloc_topology_init(&t) < 0) {
        hwloc_bitmap_free(bound);
        no_memory(err);
        return NULL;
    }
    for (size_t i = 0; i < sizeof(slow) / sizeof(slow[0]); i++)
        hwloc_topology_set_components(t, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, slow[i]);
    errno = 0;
    if (keep_types(t) < 0 || hwloc_topology_load(t) < 0) {
        hwloc_bitmap_free(bound);
        load_failed(t, "this machine", err);
        return NULL;
    }
    if (hwloc_get_cpubind(t, bound, HWLOC_CPUBIND_THREAD) < 0 || hwloc_bitmap_iszero(bound)) {
        hwloc_bitmap_free(bound); /* the binding is not known: use all cores */
        bound = NULL;
    }
    g = build(t, rank, host, bound, err);
    hwloc_bitmap_free(bound);
    hwloc_topology_destroy(t);
    return g;
}

resgraph_t *resgraph_from_xml_text(const char *xml, size_t len, uint32_t rank, const char *host,
                                   errmsg_t *err)
{
    hwloc_topology_t t;
    resgraph_t *g;
    char *copy;

    if (len >= XML_MAX) {
        errmsg_fail(err, EFBIG, "the XML is too long");
        return NULL;
    }
    if (reshwloc_check(xml, len, err) < 0)
        return NULL;
    if (!(copy = malloc(len + 1)) || hwloc_topology_init(&t) < 0) {
        free(copy);
        no_memory(err);
        return NULL;
    }
    memcpy(copy, xml, len);
    copy[len] = '\0';
    errno = 0;
    if (keep_types(t) < 0 || hwloc_topology_set_xmlbuffer(t, copy, (int)len + 1) < 0 ||
        hwloc_topology_load(t) < 0) {
        errno = EINVAL;
        load_failed(t, "the XML: it is not in the format of lstopo", err);
        free(copy);
        return NULL;
    }
    g = build(t, rank, host, NULL, err);
    hwloc_topology_destroy(t);
    free(copy);
    return g;
}

resgraph_t *resgraph_from_xml(const char *path, uint32_t rank, const char *host, errmsg_t *err)
{
    errmsg_t why;
    resgraph_t *g;
    char *text;
    size_t len;

    if (!file_is_trusted(path, &why)) {
        errmsg_fail(err, errno, "%s", why.text);
        return NULL;
    }
    if (file_read_all(path, XML_MAX - 1, &text, &len) < 0) {
        errmsg_fail(err, errno, "cannot read %s: %s", path, strerror(errno));
        return NULL;
    }
    if (!(g = resgraph_from_xml_text(text, len, rank, host, &why)))
        errmsg_fail(err, errno, "%s: %s", path, why.text);
    free(text);
    return g;
}

char *resgraph_hwloc_xml(errmsg_t *err)
{
    hwloc_topology_t t;
    char *buffer, *text = NULL;
    int len;

    if (hwloc_topology_init(&t) < 0) {
        no_memory(err);
        return NULL;
    }
    errno = 0;
    if (hwloc_topology_set_io_types_filter(t, HWLOC_TYPE_FILTER_KEEP_IMPORTANT) < 0 ||
        hwloc_topology_load(t) < 0) {
        load_failed(t, "this machine", err);
        return NULL;
    }
    if (hwloc_topology_export_xmlbuffer(t, &buffer, &len, 0) < 0) {
        load_failed(t, "the topology that it has found", err);
        return NULL;
    }
    if (!(text = strndup(buffer, (size_t)len)))
        no_memory(err);
    hwloc_free_xmlbuffer(t, buffer);
    hwloc_topology_destroy(t);
    return text;
}

/* resrc_find.c - the resources of this broker.
 *
 *    the broker is                                     source of its resources
 *    a task of a job (FLUX_JOB_ID, FLUX_TASK_CORES)    its share, from the environment: the parent
 *                                                      session bounds what the child may use
 *    the only broker of its host, or the first one     flux-inventory, which asks hwloc
 *    another broker of that host and session           those of the first broker; no program is run
 *
 * hwloc takes milliseconds, which would dominate the start of many brokers on one host.  So these
 * brokers elect one of them: the broker that creates the symbolic link RUNDIR/0/inventory-TOKEN
 * (with its rank as target) asks hwloc; the others report "like RANK", and the root copies.  TOKEN
 * is a digest of the host's name and of the CPUs that this broker may use, because brokers of one
 * host may be bound to different CPUs.  The directory is that of rank 0, which is always removed at
 * the end of the session.  Brokers on other hosts than rank 0's do not have it, and each asks
 * hwloc.
 *
 * Failure: if hwloc gives no answer, the kernel's numbers of cores and memory are used, and a
 * warning is logged.  If the elected broker is lost, the root sends resrc.find, and another broker
 * takes over the link.
 */
#include "config.h"
#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "libutil/fnv.h"
#include "libutil/strutil.h"
#include "resrc.h"

#define LINK_MAX_LEN 4096
#define MIB (1024u * 1024)

struct find {
    struct ctx *ctx;
    setup_t *setup;
    char *rundir;
    probe_t *probe;
    idset_t *lost;
    char host[256];
    char link[LINK_MAX_LEN];
    bool ours; /* this rank created the link */
};

/* Report the resources of this rank.  mark: NULL, or a property that only the root uses
 * (resrc_share.c). */
static void tell(struct find *f, const idset_t *cores, const idset_t *gpus, uint64_t memory,
                 const char *mark)
{
    resgraph_t *g = resgraph_create();
    idset_t *ranks = idset_create_range(f->ctx->rank, f->ctx->rank);
    struct resgraph_node desc = {.cores = cores,
                                 .gpus = gpus,
                                 .memory = memory,
                                 .properties = mark ? &mark : NULL,
                                 .nproperties = mark ? 1 : 0};
    errmsg_t err = {"no memory"};

    if (g && ranks && resgraph_add(g, ranks, f->host, &desc, &err) == 0)
        resrc_found(f->ctx, g);
    else
        flux_log(f->ctx->h, LOG_ERR, "what rank %u has cannot be said: %s", f->ctx->rank, err.text);
    idset_destroy(ranks);
    resgraph_destroy(g);
}

/* --- in a job --- */

/* Report the share of a task.  False: this broker is not a task with a share of its own. */
static bool find_share(struct find *f)
{
    const char *cores_text = getenv("FLUX_TASK_CORES"), *gpus_text = getenv("FLUX_TASK_GPUS");
    const char *memory_text = getenv("FLUX_TASK_MEMORY"), *name = getenv("FLUX_NODE_NAME");
    idset_t *cores = NULL, *gpus = NULL;
    uint64_t memory = 0, task = 0;
    char mark[40];
    errmsg_t err;

    if (!getenv("FLUX_JOB_ID") || !cores_text || !*cores_text)
        return false;
    if (!(cores = idset_parse(cores_text, &err)) || idset_empty(cores)) {
        flux_log(f->ctx->h, LOG_ERR, "FLUX_TASK_CORES=%s is not a set of cores", cores_text);
        idset_destroy(cores);
        return false;
    }
    if (gpus_text && !(gpus = idset_parse(gpus_text, &err)))
        flux_log(f->ctx->h, LOG_ERR, "FLUX_TASK_GPUS=%s is not a set of gpus", gpus_text);
    if (memory_text && str2u64(memory_text, &memory) < 0)
        flux_log(f->ctx->h, LOG_ERR, "FLUX_TASK_MEMORY=%s is not a number of MiB", memory_text);
    if (name && rreq_name_valid(name))
        snprintf(f->host, sizeof(f->host), "%s", name);
    str2u64(getenv("FLUX_TASK_RANK"), &task);
    snprintf(mark, sizeof(mark), "task.%" PRIu64, task);
    tell(f, cores, gpus, memory, mark);
    idset_destroy(cores);
    idset_destroy(gpus);
    return true;
}

/* --- on a machine --- */

static void find_plain(struct find *f)
{
    long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);
    cpu_set_t set;
    int n = sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 1;
    idset_t *cores = idset_create_range(0, (uint32_t)(n > 0 ? n : 1) - 1);

    if (cores)
        tell(f, cores, NULL, pages > 0 && size > 0 ? (uint64_t)pages * (uint64_t)size / MIB : 0,
             NULL);
    idset_destroy(cores);
}

static void probe_cb(probe_t *p, const char *text, size_t len, const char *error, void *arg)
{
    struct find *f = arg;
    errmsg_t err;
    resgraph_t *g = text ? resgraph_parse(text, len, &err) : NULL;

    if (g) {
        resrc_found(f->ctx, g);
    } else {
        flux_log(f->ctx->h, LOG_WARNING, "hwloc cannot say what rank %u has: %s", f->ctx->rank,
                 text ? err.text : error);
        find_plain(f);
    }
    resgraph_destroy(g);
    resrc_probe_destroy(f->probe);
    f->probe = NULL;
}

static void find_here(struct find *f)
{
    char rank[32], host[sizeof(f->host) + 8];
    errmsg_t err;

    if (f->probe)
        return;
    snprintf(rank, sizeof(rank), "--rank=%u", f->ctx->rank);
    snprintf(host, sizeof(host), "--host=%s", f->host);
    if (!(f->probe = resrc_probe_start(f->ctx->h, rank, host, probe_cb, f, &err))) {
        flux_log(f->ctx->h, LOG_WARNING, "hwloc cannot be asked what rank %u has: %s", f->ctx->rank,
                 err.text);
        find_plain(f);
    }
}

/* True: another rank, *who, has created the link.  False: this rank has, or the link is
 * unusable. */
static bool other_looks(struct find *f, uint32_t *who)
{
    char text[16];
    ssize_t n;

    for (int i = 0; i < 2; i++) {
        snprintf(text, sizeof(text), "%u", f->ctx->rank);
        if (symlink(text, f->link) == 0) {
            f->ours = true;
            return false;
        }
        if (errno != EEXIST || (n = readlink(f->link, text, sizeof(text) - 1)) <= 0)
            return false;
        text[n] = '\0';
        if (str2u32(text, who) < 0 || *who == f->ctx->rank || *who >= f->ctx->size)
            return false;
        if (!idset_test(f->lost, *who))
            return true;
        unlink(f->link);
    }
    return false;
}

static void find_machine(struct find *f)
{
    idset_t *self = idset_create_range(f->ctx->rank, f->ctx->rank);
    uint32_t who;

    if (self && f->link[0] && other_looks(f, &who))
        resrc_found_like(f->ctx, who, self);
    else
        find_here(f);
    idset_destroy(self);
}

static void make_link_name(struct find *f)
{
    uint64_t hash = fnv64_text(FNV64_BASIS, f->host);
    cpu_set_t set;

    CPU_ZERO(&set);
    if (sched_getaffinity(0, sizeof(set), &set) < 0)
        return; /* more CPUs than the set can hold: this rank asks hwloc itself */
    for (int i = 0; i < CPU_SETSIZE; i++) {
        if (CPU_ISSET(i, &set))
            hash = fnv64_word(hash, (uint64_t)i);
    }
    if ((size_t)snprintf(f->link, sizeof(f->link), "%s/0/inventory-%016" PRIx64, f->rundir, hash) >=
        sizeof(f->link))
        f->link[0] = '\0';
}

/* --- settings --- */

static void look(struct find *f)
{
    if (!find_share(f))
        find_machine(f);
}

static void ready(void *arg)
{
    struct find *f = arg;

    if (f->rundir)
        make_link_name(f);
    look(f);
}

static void refused(void *arg, const char *sentence)
{
    struct find *f = arg;

    flux_log(f->ctx->h, LOG_ERR, "%s", sentence);
}

static const struct setup_row rows[] = {
    SETUP_TEXT("rundir", struct find, rundir),
    SETUP_END,
};
static const struct setup_table settings = {"resrc", rows, ready, refused};

/* --- life --- */

struct find *resrc_find_create(struct ctx *ctx)
{
    struct find *f = calloc(1, sizeof(*f));

    if (!f)
        return NULL;
    f->ctx = ctx;
    if (gethostname(f->host, sizeof(f->host) - 1) < 0 || !rreq_name_valid(f->host))
        snprintf(f->host, sizeof(f->host), "node%u", ctx->rank);
    if (!(f->setup = setup_create(ctx->h, &settings, f, 0, NULL, NULL))) {
        resrc_find_destroy(f);
        return NULL;
    }
    return f;
}

void resrc_find_again(struct find *f, const idset_t *lost)
{
    idset_destroy(f->lost);
    f->lost = lost ? idset_copy(lost) : NULL;
    if (setup_known(f->setup))
        look(f);
}

void resrc_find_destroy(struct find *f)
{
    if (!f)
        return;
    if (f->ours)
        unlink(f->link);
    setup_destroy(f->setup);
    free(f->rundir);
    resrc_probe_destroy(f->probe);
    idset_destroy(f->lost);
    free(f);
}

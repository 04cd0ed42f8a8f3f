/* flux-inventory - prints the resources of a machine or of a configuration file as JSON.
 *
 *    flux-inventory [--rank=N] [--host=NAME]     this machine, as found by hwloc
 *    flux-inventory --config=FILE                section `resource` of a configuration file
 *    flux-inventory --file=FILE.xml              a machine described by hwloc XML
 *    flux-inventory --topology=FILE              a file of switches, unchanged
 *    flux-inventory --xml                        this machine in full, as hwloc XML
 *
 * Purpose: the module resrc runs this program, so that no broker keeps hwloc, its plugins and Lua
 * in memory, and a configuration file that computes for long does not block a broker.
 *
 * Standard output: JSON (libresource/resgraph.h; null if the file has no section `resource`), XML,
 * or the file of switches.
 *
 * Failure: no output, an error message on standard error, and exit code 1; 2 after a usage error.
 */
#include "config.h"
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "libresource/resgraph_hwloc.h"
#include "libresource/resgraph_lua.h"
#include "libutil/fdutil.h"
#include "libutil/filetrust.h"
#include "libutil/strutil.h"

#define TOPOLOGY_MAX_BYTES ((size_t)16 << 20)

struct options {
    const char *config;
    const char *file;
    const char *topology;
    const char *host;
    uint32_t rank;
    bool xml;
};

static int usage(void)
{
    fprintf(stderr, "usage: flux-inventory [--rank=N] [--host=NAME] [--config=FILE | --file=XML | "
                    "--topology=FILE | --xml]\n");
    return 2;
}

static int parse(int argc, char **argv, struct options *o)
{
    static const struct option opts[] = {
        {"config", required_argument, NULL, 'c'},
        {"file", required_argument, NULL, 'f'},
        {"host", required_argument, NULL, 'h'},
        {"rank", required_argument, NULL, 'r'},
        {"topology", required_argument, NULL, 't'},
        {"xml", no_argument, NULL, 'x'},
        {NULL, 0, NULL, 0},
    };
    int key;

    while ((key = getopt_long(argc, argv, "", opts, NULL)) != -1) {
        if (key == 'c')
            o->config = optarg;
        else if (key == 'f')
            o->file = optarg;
        else if (key == 'h')
            o->host = optarg;
        else if (key == 't')
            o->topology = optarg;
        else if (key == 'x')
            o->xml = true;
        else if (key != 'r' || str2u32(optarg, &o->rank) < 0 || o->rank > RSET_RANK_MAX)
            return -1;
    }
    return optind == argc ? 0 : -1;
}

/* The text of a file, which the caller of this program parses. */
static char *read_topology(const char *path, errmsg_t *err)
{
    char *text;
    size_t len;
    errmsg_t why;

    if (!file_is_trusted(path, &why) && errno != ENOENT) {
        errmsg_fail(err, errno, "%s is not used: %.180s", path, why.text);
        return NULL;
    }
    if (file_read_all(path, TOPOLOGY_MAX_BYTES, &text, &len) < 0) {
        errmsg_fail(err, errno, "%s cannot be read: %s", path, strerror(errno));
        return NULL;
    }
    if (len > 0 && memchr(text, '\0', len)) {
        errmsg_fail(err, EINVAL, "%s is not a text", path);
        free(text);
        return NULL;
    }
    return text;
}

static char *make(const struct options *o, errmsg_t *err)
{
    char self[256] = "localhost";
    resgraph_t *g;
    char *text;

    if (o->topology)
        return read_topology(o->topology, err);
    if (o->xml)
        return resgraph_hwloc_xml(err);
    gethostname(self, sizeof(self) - 1);
    if (o->config)
        g = resgraph_from_lua(o->config, resgraph_from_xml, err);
    else if (o->file)
        g = resgraph_from_xml(o->file, o->rank, o->host, err);
    else
        g = resgraph_from_hwloc(o->rank, o->host ? o->host : self, err);
    if (!g && o->config && errno == ENODATA)
        return strdup("null");
    if (!g)
        return NULL;
    if (!(text = resgraph_format(g)))
        errmsg_fail(err, ENOMEM, "out of memory");
    resgraph_destroy(g);
    return text;
}

int main(int argc, char **argv)
{
    struct options o = {0};
    errmsg_t err;
    char *text;
    int code = 0;

    if (parse(argc, argv, &o) < 0)
        return usage();
    if (!(text = make(&o, &err))) {
        fprintf(stderr, "%s\n", err.text);
        code = 1;
    } else if (fd_write_all(STDOUT_FILENO, text, strlen(text)) < 0) {
        fprintf(stderr, "cannot write: %s\n", strerror(errno));
        code = 1;
    }
    free(text);
    /* _exit(): libraries that hwloc has loaded and unloaded leave memory behind, which a sanitizer
     * would report as a leak of this program. */
    _exit(code);
}

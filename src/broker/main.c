/* main.c - the program flux-broker.
 *
 *    flux-broker [OPTION...] [--] [COMMAND [ARG...]]
 *      -S, --set=NAME=VALUE   set an attribute (repeatable)
 *      --nursery=N            be the N brokers of a session on this host, by forking
 *      -v, --verbose          say on standard error what happens
 *
 * Usually started by `flux start`, which see for the meaning.  Exit code: that of the initial
 * program (rank 0), 0 for other ranks after an orderly end, 1 for a broker that could not start, 2
 * for wrong use.
 */
#include "config.h"
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "boot_nursery.h"
#include "broker.h"
#include "libsettings/settings.h"
#include "libutil/duration.h"
#include "libutil/fdutil.h"
#include "libutil/strutil.h"

static const char usage[] =
    "Usage: flux-broker [OPTION...] [--] [COMMAND [ARG...]]\n"
    "Run one broker of a session; 'flux start' is the usual way to get there.\n"
    "  -S, --set=NAME=VALUE   set an attribute (repeatable)\n"
    "      --nursery=N        be the N brokers of a session on this host\n"
    "  -v, --verbose          say on standard error what happens\n"
    "  -V, --version          print the version and exit\n"
    "  -h, --help             print this text and exit\n"
    "Exit code: that of COMMAND (rank 0); 1 when the broker cannot start; 2 for wrong use.\n";

enum { OPT_NURSERY = 256 };

static const struct option options[] = {
    {"set", required_argument, NULL, 'S'}, {"nursery", required_argument, NULL, OPT_NURSERY},
    {"verbose", no_argument, NULL, 'v'},   {"version", no_argument, NULL, 'V'},
    {"help", no_argument, NULL, 'h'},      {NULL, 0, NULL, 0},
};

static int set_attr(attrs_t *attrs, char *arg)
{
    char *eq = strchr(arg, '=');
    errmsg_t err;

    if (!eq || eq == arg) {
        fprintf(stderr, "flux-broker: --set=%s: NAME=VALUE is needed\n", arg);
        return -1;
    }
    *eq = '\0';
    if (settings_check(arg, eq + 1, &err) < 0) {
        fprintf(stderr, "flux-broker: --set: %s\n", err.text);
        return -1;
    }
    if (attrs_set(attrs, arg, eq + 1, false) < 0 || attrs_set_source(attrs, arg, "--set") < 0) {
        fprintf(stderr, "flux-broker: attribute '%s' cannot be set: %s\n", arg, strerror(errno));
        return -1;
    }
    return 0;
}

/* -1: be a broker; else the exit code of a session that has been. */
static int nursery(attrs_t *attrs, uint32_t size, bool verbose)
{
    const char *grace = attrs_get(attrs, "shutdown.grace");
    struct nursery_config nc = {.size = size,
                                .rundir = attrs_get(attrs, "rundir"),
                                .prefix = "flux start",
                                .tolerant = attrs_get(attrs, "quorum") != NULL,
                                .verbose = verbose};
    struct nursery_place place = {.exit_code = 1};
    errmsg_t err = {""};

    if (grace && duration_parse(grace, &nc.grace, &err) < 0) {
        fprintf(stderr, "flux-broker: attribute shutdown.grace=%s: %s\n", grace, err.text);
        return 1;
    }
    switch (nursery_run(&nc, &place, &err)) {
    case 0:
        return place.exit_code;
    case 1:
        if (attrs_set(attrs, "rundir", place.rundir, false) == 0 &&
            attrs_set(attrs, "boot.method", "pmi", false) == 0)
            return -1;
        fprintf(stderr, "flux-broker: out of memory\n");
        return 1;
    default:
        fprintf(stderr, "flux start: %s\n", err.text);
        return 1;
    }
}

int main(int argc, char **argv)
{
    attrs_t *attrs = attrs_create();
    uint32_t size = 0;
    bool verbose = false;
    int rc = -1;
    int opt;

    fd_reserve_standard();
    if (!attrs) {
        fprintf(stderr, "flux-broker: out of memory\n");
        return 1;
    }
    while ((opt = getopt_long(argc, argv, "+S:vVh", options, NULL)) >= 0) {
        switch (opt) {
        case 'S':
            if (set_attr(attrs, optarg) < 0)
                rc = 2;
            break;
        case OPT_NURSERY:
            if (str2u32(optarg, &size) < 0 || size == 0) {
                fprintf(stderr, "flux-broker: --nursery=%s is not a number from 1 up\n", optarg);
                rc = 2;
            }
            break;
        case 'v':
            verbose = true;
            break;
        case 'V':
            printf("flux-broker %s\n", PACKAGE_VERSION);
            rc = 0;
            goto done;
        case 'h':
            fputs(usage, stdout);
            rc = 0;
            goto done;
        default:
            fprintf(stderr, "Try 'flux-broker --help'.\n");
            rc = 2;
            break;
        }
    }
    if (rc >= 0)
        goto done;
    if (size > 0)
        rc = nursery(attrs, size, verbose);
    if (rc < 0)
        rc = broker_run(attrs, argv + optind, verbose);
done:
    attrs_destroy(attrs);
    return rc;
}

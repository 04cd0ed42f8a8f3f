/* main.c - the program flux-broker.
 *
 *    flux-broker [OPTION...] [--] [COMMAND [ARG...]]
 *      -S, --set=NAME=VALUE   set an attribute (repeatable)
 *      --nursery=N            fork the N brokers of a session on this host
 *      --hosts=LIST           start the brokers of a session on these hosts
 *      --ssh=PROGRAM          with --hosts: reach other hosts by PROGRAM
 *      --remote               be one of them, with the settings from standard input
 *      --restart              brokers that fail are started again: by the nursery, or by others
 *      --wrap=RANKS:COMMAND   run these brokers under a debugger or a checker (wrap.h)
 *      -v, --verbose          print progress messages to standard error
 *      -V, --version          print the version
 *      -h, --help             print the usage
 *
 * Usually started by `flux start`, whose manual explains the options.  Exit code: that of the
 * initial program (rank 0); 0 for other ranks after an orderly end; 1 for a broker that could not
 * start; 2 on a usage error.
 */
#include "config.h"
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "boot.h"
#include "boot_nursery.h"
#include "boot_remote.h"
#include "broker.h"
#include "libsettings/settings.h"
#include "libutil/duration.h"
#include "libutil/fdutil.h"
#include "libutil/strutil.h"
#include "reserve.h"
#include "wrap.h"

static const char usage[] =
    "Usage: flux-broker [OPTION...] [--] [COMMAND [ARG...]]\n"
    "Run one broker of a session.  Brokers are usually started by 'flux start'.\n"
    "  -S, --set=NAME=VALUE   set an attribute (repeatable)\n"
    "      --nursery=N        fork the N brokers of a session on this host\n"
    "      --hosts=LIST       start the brokers of a session on these hosts; ranks beyond\n"
    "                         them, up to --nursery, have no host yet\n"
    "      --ssh=PROGRAM      with --hosts: reach other hosts by PROGRAM (default: ssh)\n"
    "      --remote           be a broker that --hosts of another host starts\n"
    "      --restart          with --nursery: restart brokers that have failed\n"
    "      --wrap=RANKS:COMMAND   run the brokers of these ranks under COMMAND\n"
    "  -v, --verbose          print progress messages to standard error\n"
    "  -V, --version          print the version and exit\n"
    "  -h, --help             print this text and exit\n"
    "Exit code: that of COMMAND (rank 0); 1 when the broker cannot start; 2 on a usage error.\n";

enum { OPT_NURSERY = 256, OPT_HOSTS, OPT_REMOTE, OPT_RESTART, OPT_SSH, OPT_WRAP };

static const struct option options[] = {
    {"set", required_argument, NULL, 'S'},
    {"nursery", required_argument, NULL, OPT_NURSERY},
    {"restart", no_argument, NULL, OPT_RESTART},
    {"verbose", no_argument, NULL, 'v'},
    {"version", no_argument, NULL, 'V'},
    {"help", no_argument, NULL, 'h'},
    {"wrap", required_argument, NULL, OPT_WRAP},
    {"hosts", required_argument, NULL, OPT_HOSTS},
    {"ssh", required_argument, NULL, OPT_SSH},
    {"remote", no_argument, NULL, OPT_REMOTE},
    {NULL, 0, NULL, 0},
};

struct arguments {
    attrs_t *attrs;
    strvec_t *again; /* -1: continue as a broker; else the exit code of a session that has ended. */
    wrap_t *wrap;    /* NULL: no broker is wrapped */
    preload_t *preload;
    uint32_t size;       /* of the nursery; 0: none */
    boot_hosts_t *hosts; /* of the nursery, which have the first ranks; NULL: this one */
    const char *ssh;
    bool remote;
    bool restart;
    bool verbose;
};

static int set_attr(struct arguments *a, char *arg)
{
    char *eq = strchr(arg, '=');
    errmsg_t err;

    if (!eq || eq == arg) {
        fprintf(stderr, "flux-broker: --set=%s: expected NAME=VALUE\n", arg);
        return -1;
    }
    if (strvec_addf(a->again, "--set=%s", arg) < 0) {
        fprintf(stderr, "flux-broker: out of memory\n");
        return -1;
    }
    *eq = '\0';
    if (settings_check_here(arg, eq + 1, &err) < 0) {
        fprintf(stderr, "flux-broker: --set: %s\n", err.text);
        return -1;
    }
    if (attrs_set(a->attrs, arg, eq + 1, false) < 0 ||
        attrs_set_source(a->attrs, arg, "--set") < 0) {
        fprintf(stderr, "flux-broker: attribute '%s' cannot be set: %s\n", arg, strerror(errno));
        return -1;
    }
    return 0;
}

static int set_wrap(struct arguments *a, const char *text)
{
    errmsg_t err;

    wrap_destroy(a->wrap);
    if ((a->wrap = wrap_parse(text, &err)))
        return 0;
    fprintf(stderr, "flux-broker: --wrap: %s\n", err.text);
    return -1;
}

static int set_size(struct arguments *a, const char *text)
{
    if (str2u32(text, &a->size) == 0 && a->size > 0)
        return 0;
    fprintf(stderr, "flux-broker: --nursery=%s is not a number from 1 up\n", text);
    return -1;
}

static int set_hosts(struct arguments *a, const char *list)
{
    char self[HOST_NAME_MAX + 1] = "";
    errmsg_t err;

    gethostname(self, sizeof(self) - 1);
    boot_hosts_destroy(a->hosts);
    if ((a->hosts = boot_hosts_create(list, self, &err)))
        return 0;
    fprintf(stderr, "flux start: --hosts=%.100s: %s\n", list, err.text);
    return -1;
}

/* Ranks beyond the list of hosts have none yet. */
static int set_vacant(struct arguments *a)
{
    uint32_t listed = boot_hosts_size(a->hosts);
    errmsg_t err = {"out of memory"};
    char text[16];

    if (a->size == 0)
        a->size = listed;
    snprintf(text, sizeof(text), "%u", listed);
    if (boot_hosts_reserve(a->hosts, a->size, &err) == 0 &&
        (a->size == listed || (attrs_set(a->attrs, "boot.hosts", text, false) == 0 &&
                               strvec_addf(a->again, "--set=boot.hosts=%s", text) == 0)))
        return 0;
    fprintf(stderr, "flux start: %s\n", err.text);
    return -1;
}

/* -1: go on; else the exit code. */
static int parse(struct arguments *a, int argc, char **argv)
{
    int rc = -1;
    int opt;

    while ((opt = getopt_long(argc, argv, "+S:vVh", options, NULL)) >= 0) {
        int ok = 0;

        switch (opt) {
        case 'S':
            ok = set_attr(a, optarg);
            break;
        case OPT_NURSERY:
            ok = set_size(a, optarg);
            break;
        case OPT_HOSTS:
            ok = set_hosts(a, optarg);
            break;
        case OPT_SSH:
            a->ssh = optarg;
            break;
        case OPT_REMOTE:
            a->remote = true;
            break;
        case OPT_RESTART:
            a->restart = true;
            ok = strvec_add(a->again, "--restart");
            break;
        case OPT_WRAP:
            ok = set_wrap(a, optarg);
            break;
        case 'v':
            a->verbose = true;
            ok = strvec_add(a->again, "--verbose");
            break;
        case 'V':
            printf("flux-broker %s\n", PACKAGE_VERSION);
            return 0;
        case 'h':
            fputs(usage, stdout);
            return 0;
        default:
            fprintf(stderr, "Try 'flux-broker --help'.\n");
            ok = -1;
            break;
        }
        if (ok < 0)
            rc = 2;
    }
    if (rc < 0 && a->hosts && set_vacant(a) < 0)
        rc = 2;
    if (rc < 0 && a->wrap && idset_last(wrap_ranks(a->wrap)) >= (a->size ? a->size : 1)) {
        fprintf(stderr, "flux-broker: --wrap: rank %u is not in the session\n",
                idset_last(wrap_ranks(a->wrap)));
        rc = 2;
    }
    return rc;
}

/* Does the configuration file have a section that would be ignored?  -1: no; else the exit code. */
static int check_config(const struct arguments *a)
{
    const char *path = attrs_get(a->attrs, "config.file");
    const char *method = attrs_get(a->attrs, "boot.method");
    errmsg_t err;

    if (!path || (a->size == 0 && (!method || strcmp(method, "config") == 0)))
        return -1;
    switch (boot_config_unused(path, &err)) {
    case 0:
        return -1;
    case 1:
        fprintf(stderr,
                "flux-broker: %s: the section session has no effect in a session that is started "
                "with --size, --hosts or --boot=%s: leave that out, or the section; set attributes "
                "with "
                "--set\n",
                path, method ? method : "pmi");
        return 2;
    default:
        fprintf(stderr, "flux-broker: %s\n", err.text);
        return 1;
    }
}

/* A broker that is started again has to listen where its predecessor did, but lacks its secret key:
 * the others can reach it only by UNIX sockets. */
static int check_restart(const struct arguments *a)
{
    const char *transport = attrs_get(a->attrs, "link.transport");
    const char *name = !transport_restarts(transport)         ? "link.transport"
                       : attrs_get(a->attrs, "tcp.address")   ? "tcp.address"
                       : attrs_get(a->attrs, "tcp.interface") ? "tcp.interface"
                                                              : NULL;

    if (!a->restart || !name)
        return 0;
    fprintf(stderr,
            "flux-broker: --restart cannot be used with attribute %s=%s: brokers are started again "
            "only if they are connected by UNIX sockets\n",
            name, attrs_get(a->attrs, name));
    return -1;
}

/* In the broker of a nursery, or one that --remote has forked. */
static int set_place(struct arguments *a, const char *rundir)
{
    if (attrs_set(a->attrs, "rundir", rundir, false) == 0 &&
        attrs_set(a->attrs, "boot.method", "pmi", false) == 0 &&
        strvec_addf(a->again, "--set=rundir=%s", rundir) == 0 &&
        strvec_add(a->again, "--set=boot.method=pmi") == 0)
        return -1;
    fprintf(stderr, "flux-broker: out of memory\n");
    return 1;
}

/* Have brokers to listen at the address that names their host? */
static bool addresses(const struct arguments *a)
{
    return !attrs_get(a->attrs, "tcp.address") && !attrs_get(a->attrs, "tcp.interface");
}

/* Of how many brokers does a session consist at least, if hosts are absent?  0: of all.  Mistakes
 * are left to rank 0, which reads the attributes in any case, and has a default of boot.timeout. */
static uint32_t quorum(const struct arguments *a)
{
    const char *timeout = attrs_get(a->attrs, "boot.timeout");
    const char *text = attrs_get(a->attrs, "quorum");
    double seconds;
    uint32_t n;

    if (timeout && (duration_parse(timeout, &seconds, NULL) < 0 || seconds <= 0.))
        return 0;
    return text && str2u32(text, &n) == 0 ? n : 0;
}

/* -1: be a broker, of the rank that is stored; else the exit code of a session that has been. */
static int nursery(struct arguments *a, uint32_t *rank)
{
    const char *grace = attrs_get(a->attrs, "shutdown.grace");
    struct nursery_config nc = {.size = a->size,
                                .rundir = attrs_get(a->attrs, "rundir"),
                                .prefix = "flux start",
                                .tolerant = attrs_get(a->attrs, "quorum") != NULL,
                                .restart = a->restart,
                                .quorum = quorum(a),
                                .verbose = a->verbose,
                                .foreground = a->wrap ? wrap_ranks(a->wrap) : NULL};
    struct nursery_place place = {.exit_code = 1};
    struct boot_ssh_config ssh = {.hosts = a->hosts,
                                  .program = a->ssh ? a->ssh : "ssh",
                                  .options = a->again,
                                  .addresses = addresses(a),
                                  .verbose = a->verbose};
    const char *address;
    errmsg_t err = {""};

    if (a->hosts && (a->restart || a->wrap)) {
        fprintf(stderr, "flux-broker: --hosts cannot be combined with --restart or --wrap\n");
        return 2;
    }
    if (a->hosts && a->size == 1)
        return attrs_set(a->attrs, "boot.method", "single", false) < 0 ? 1 : -1;
    if (a->hosts)
        nc.ssh = &ssh;
    if (check_restart(a) < 0)
        return 2;
    if (grace && duration_parse(grace, &nc.grace, &err) < 0) {
        fprintf(stderr, "flux-broker: attribute shutdown.grace=%s: %s\n", grace, err.text);
        return 1;
    }
    a->preload = broker_preload(a->attrs);
    switch (boot_nursery_run(&nc, &place, &err)) {
    case 0:
        return place.exit_code;
    case 1:
        *rank = place.rank;
        address = a->hosts && ssh.addresses ? boot_hosts_address(a->hosts, *rank) : NULL;
        if (address && attrs_set(a->attrs, "tcp.address", address, false) < 0) {
            fprintf(stderr, "flux-broker: out of memory\n");
            return 1;
        }
        return set_place(a, place.rundir);
    default:
        fprintf(stderr, "flux start: %s\n", err.text);
        return 1;
    }
}

/* As nursery(), for one broker, whose starter sends the options. */
static int remote(struct arguments *a)
{
    struct boot_remote_args far = {0};
    struct boot_remote_place place = {.exit_code = 1};
    errmsg_t err = {""};
    int rc = boot_remote_open(&far, &err);

    if (rc == 0) {
        strvec_t *argv = strvec_create();

        rc = strvec_add(argv, "flux-broker");
        for (size_t i = 0; rc == 0 && i < strvec_count(far.options); i++)
            rc = strvec_add(argv, strvec_at(far.options, i));
        optind = 0;
        if (rc == 0)
            rc = parse(a, (int)strvec_count(argv), strvec_argv(argv)) < 0 ? 0 : -1;
        strvec_destroy(argv);
        if (rc == 0)
            rc = boot_remote_run(&far, attrs_get(a->attrs, "rundir"), &place, &err);
    }
    strvec_destroy(far.options);
    if (rc == 1)
        return set_place(a, place.rundir);
    if (rc < 0 && err.text[0])
        fprintf(stderr, "flux-broker: %s\n", err.text);
    return place.exit_code;
}

/* Does not return when it works. */
static int start_anew(struct arguments *a, char **command)
{
    errmsg_t err;
    int rc = strvec_add(a->again, "--");

    for (; rc == 0 && *command; command++)
        rc = strvec_add(a->again, *command);
    if (rc < 0)
        fprintf(stderr, "flux-broker: out of memory\n");
    else if (wrap_exec(a->wrap, a->again, &err) < 0)
        fprintf(stderr, "flux-broker: --wrap: %s\n", err.text);
    return 1;
}

int main(int argc, char **argv)
{
    struct arguments a = {.attrs = attrs_create(), .again = strvec_create()};
    char **command;
    uint32_t rank = 0;
    int rc;

    reserve_libraries();
    fd_reserve_standard();
    if (!a.attrs || !a.again) {
        fprintf(stderr, "flux-broker: out of memory\n");
        return 1;
    }
    rc = parse(&a, argc, argv);
    command = argv + optind;
    if (rc < 0)
        rc = check_config(&a);
    if (rc < 0 && a.remote)
        rc = remote(&a);
    else if (rc < 0 && a.size > 0)
        rc = nursery(&a, &rank);
    if (rc < 0 && a.wrap && idset_test(wrap_ranks(a.wrap), rank))
        rc = start_anew(&a, command);
    if (rc < 0)
        rc = broker_run(a.attrs, command, a.verbose, a.restart, a.preload);
    else
        preload_destroy(a.preload);
    wrap_destroy(a.wrap);
    boot_hosts_destroy(a.hosts);
    strvec_destroy(a.again);
    attrs_destroy(a.attrs);
    return rc;
}

/* cmd_start.c - flux start: start a session.
 *
 *    --size=N            N brokers on this host:        exec flux-broker --nursery=N
 *    --hosts=LIST        a broker on each host:     exec flux-broker --hosts=LIST --ssh=PROGRAM
 *    --size=1, or        one broker, in this process:   exec flux-broker
 *    no option
 *    under a launcher    one broker, in this process, which finds the others by PMI
 *    --config=FILE       one broker, in this process, which finds the others by the file
 *
 * This program replaces itself by the broker (or the nursery, boot_nursery.h), so that no process
 * in between has to forward signals and exit codes.  It checks the command line itself, so that a
 * mistake results in a single error message and not in one per broker.
 */
#include "config.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../cmd_all.h"
#include "libflux/paths.h"
#include "libidset/hostlist.h"
#include "libsettings/settings.h"
#include "libtopology/topology.h"
#include "libutil/strvec.h"

#define SIZE_MAX_HERE 65536 /* brokers on one host */

enum {
    OPT_BOOT = CMD_KEY(0),
    OPT_CONFIG,
    OPT_HOSTS,
    OPT_RESTART,
    OPT_RUNDIR,
    OPT_SHARE,
    OPT_SSH,
    OPT_STATEDIR,
    OPT_TRACE,
    OPT_WRAP
};

static const struct cmd_opt opts[] = {
    {'s', "size", "N",
     "start N brokers on this host; with --hosts: the session can have\n"
     "N brokers (flux overlay add)"},
    {'t', "topology", "SPEC", "shape of the tree: kary:K, binary, flat, chain, or a file"},
    {'S', "set", "NAME=VALUE", "set an attribute of all brokers (repeatable)"},
    {OPT_BOOT, "boot", "METHOD",
     "how brokers find each other: pmi, config or single (default:\n"
     "chosen automatically)"},
    {OPT_CONFIG, "config", "FILE", "configuration file that lists the hosts"},
    {OPT_HOSTS, "hosts", "LIST", "start a broker on each of these hosts: node[0-3,7]"},
    {OPT_RESTART, "restart", NULL,
     "with --size: restart brokers that have failed, other than that of\n"
     "rank 0"},
    {OPT_RUNDIR, "rundir", "DIR", "directory for sockets (default: a new one)"},
    {OPT_SHARE, "share-connections", NULL,
     "let all streams between two hosts share one connection"},
    {OPT_SSH, "ssh", "[PROGRAM]",
     "with --hosts: how to reach other hosts (default: $FLUX_SSH, or\n"
     "ssh)"},
    {OPT_STATEDIR, "statedir", "DIR", "directory for state that outlives the session"},
    {OPT_TRACE, "trace", "FILE", "write each message that passes through a broker to FILE"},
    {OPT_WRAP, "wrap", "RANKS:COMMAND",
     "with --size: run the brokers of these ranks under COMMAND, such as\n"
     "gdb, rr or valgrind"},
    {'v', "verbose", NULL, "print progress messages on standard error"},
    CMD_OPT_END,
};

static const struct cmd_usage usage = {
    "[OPTION...] [COMMAND [ARGUMENT...]]",
    "Start a session and run COMMAND, or a shell, in it. When the command ends, the session is "
    "shut\n"
    "down. Without --size, processes that another launcher started (mpiexec, srun, flux wreckrun)\n"
    "form one session; otherwise the session has a single broker.",
    opts,
    "Exit code: that of COMMAND, or 128 + N when signal N ended it; 1 when the session could not\n"
    "be started. SIGINT, SIGTERM and SIGHUP shut the session down in order, a second signal ends\n"
    "it immediately.",
    CMD_STOP,
};

struct start {
    uint32_t size; /* 0: not said */
    const char *topology;
    const char *wrap;
    const char *hosts; /* NULL: not said */
    size_t count;      /* ... and their number */
    const char *ssh;   /* "": the default; NULL: not said */
    const char *boot;
    bool restart;
    strvec_t *args;
};

static int set_attr(struct cmd *c, struct start *st, const char *name, const char *value)
{
    if (strvec_addf(st->args, "--set=%s=%s", name, value) < 0)
        return cmd_error(c, "out of memory");
    return CMD_OK;
}

/* Brokers change to other directories, so they get a whole path. */
static int trace_to(struct cmd *c, struct start *st, const char *file)
{
    char cwd[4096];
    char *path = NULL;
    int rc;

    if (file[0] != '/' && (!getcwd(cwd, sizeof(cwd)) || asprintf(&path, "%s/%s", cwd, file) < 0))
        return cmd_error(c, "--trace=%s: %s", file, strerror(errno));
    rc = set_attr(c, st, "trace.file", path ? path : file);
    free(path);
    return rc;
}

static int option(struct cmd *c, struct start *st, int key, const char *val)
{
    char name[128];
    errmsg_t err;

    switch (key) {
    case 's':
        if (cmd_parse_u32(c, "--size", val, &st->size) < 0)
            return CMD_USAGE;
        if (st->size == 0 || st->size > SIZE_MAX_HERE)
            return cmd_usage_error(c, "--size=%s: expected a number of brokers from 1 to %d", val,
                                   SIZE_MAX_HERE);
        return CMD_OK;
    case 't':
        st->topology = val;
        return set_attr(c, st, "topology", val);
    case 'S':
        if (!strchr(val, '=') || val[0] == '=')
            return cmd_usage_error(c, "--set=%s: expected NAME=VALUE", val);
        snprintf(name, sizeof(name), "%.*s", (int)strcspn(val, "="), val);
        if (settings_check(name, strchr(val, '=') + 1, &err) < 0)
            return cmd_usage_error(c, "--set: %s", err.text);
        if (strvec_addf(st->args, "--set=%s", val) < 0)
            return cmd_error(c, "out of memory");
        return CMD_OK;
    case OPT_BOOT:
        if (strcmp(val, "pmi") != 0 && strcmp(val, "config") != 0 && strcmp(val, "single") != 0)
            return cmd_usage_error(c, "--boot=%s: expected pmi, config or single", val);
        st->boot = val;
        return set_attr(c, st, "boot.method", val);
    case OPT_HOSTS:
        if (hostlist_check(val, &st->count, &err) < 0)
            return cmd_usage_error(c, "--hosts=%s: %s", val, err.text);
        st->hosts = val;
        return CMD_OK;
    case OPT_SSH:
        st->ssh = val ? val : "";
        return CMD_OK;
    case OPT_CONFIG:
        return set_attr(c, st, "config.file", val);
    case OPT_RESTART:
        st->restart = true;
        return strvec_add(st->args, "--restart") < 0 ? cmd_error(c, "out of memory") : CMD_OK;
    case OPT_RUNDIR:
        return set_attr(c, st, "rundir", val);
    case OPT_SHARE:
        return set_attr(c, st, "stream.share", "yes");
    case OPT_STATEDIR:
        return set_attr(c, st, "statedir", val);
    case OPT_TRACE:
        return trace_to(c, st, val);
    case OPT_WRAP:
        st->wrap = val;
        return strvec_addf(st->args, "--wrap=%s", val) < 0 ? cmd_error(c, "out of memory") : CMD_OK;
    default:
        return strvec_add(st->args, "--verbose") < 0 ? cmd_error(c, "out of memory") : CMD_OK;
    }
}

static int check(struct cmd *c, const struct start *st)
{
    topology_t *topo;
    errmsg_t err;

    if (st->ssh && !st->hosts)
        return cmd_usage_error(c, "--ssh requires --hosts: it is how other hosts are reached");
    if (st->hosts && st->boot)
        return cmd_usage_error(c, "--hosts cannot be combined with --boot");
    if (st->hosts && (st->wrap || st->restart))
        return cmd_usage_error(c, "--hosts cannot be combined with --%s",
                               st->wrap ? "wrap" : "restart");
    if (st->hosts && st->size > 0 && st->size < st->count)
        return cmd_usage_error(c, "--size=%u is less than the number of hosts (--hosts), %zu",
                               st->size, st->count);
    if (st->wrap && st->size == 0)
        return cmd_usage_error(
            c, "--wrap requires --size: it applies to brokers that this command starts");
    if (st->restart && st->size == 0)
        return cmd_usage_error(
            c, "--restart requires --size: it applies to brokers that this command starts");
    if (!st->topology || st->size == 0)
        return CMD_OK;
    if (!(topo = topology_create(st->topology, st->size, &err)))
        return cmd_error(c, "--topology=%s: %s", st->topology, err.text);
    topology_destroy(topo);
    return CMD_OK;
}

static int become_broker(struct cmd *c, struct start *st, char **command)
{
    const char *ssh = st->ssh;
    errmsg_t err;
    char *path;
    int rc = 0;

    if (st->hosts) {
        if (!ssh || !*ssh)
            ssh = getenv("FLUX_SSH");
        rc = strvec_addf(st->args, "--hosts=%s", st->hosts);
        if (rc == 0 && st->size > 0)
            rc = strvec_addf(st->args, "--nursery=%u", st->size);
        if (rc == 0)
            rc = strvec_addf(st->args, "--ssh=%s", ssh && *ssh ? ssh : "ssh");
    } else if (st->size > 1)
        rc = strvec_addf(st->args, "--nursery=%u", st->size);
    else if (st->size == 1)
        rc = strvec_add(st->args, "--set=boot.method=single");
    if (rc == 0)
        rc = strvec_add(st->args, "--");
    for (; rc == 0 && *command; command++)
        rc = strvec_add(st->args, *command);
    if (rc < 0)
        return cmd_error(c, "out of memory");
    if (!(path = flux_path_exec("flux-broker", &err)))
        return cmd_error(c, "%s", err.text);
    execv(path, strvec_argv(st->args));
    rc = cmd_error(c, "cannot run %s: %s", path, strerror(errno));
    free(path);
    return rc;
}

int cmd_start(struct cmd *c, int argc, char **argv)
{
    struct start st = {.args = strvec_create()};
    const char *val;
    int key = 0, rc = CMD_OK;

    if (strvec_add(st.args, "flux-broker") < 0)
        rc = cmd_error(c, "out of memory");
    while (rc == CMD_OK && (key = cmd_option(c, &usage, argc, argv, &val)) != 0)
        rc = key > 0 ? option(c, &st, key, val) : -1;
    if (rc < 0)
        rc = cmd_option_exit(key);
    else if (rc == CMD_OK && (rc = check(c, &st)) == CMD_OK)
        rc = become_broker(c, &st, argv + c->optind);
    strvec_destroy(st.args);
    return rc;
}

/* cmd_start.c - flux start: start a session.
 *
 *    --size=N            N brokers on this host:   exec flux-broker --nursery=N
 *    --size=1, or        one broker, in place:     exec flux-broker
 *    nothing said
 *    under a launcher    one broker, in place; PMI tells it about the others
 *    --config=FILE       one broker, in place; the file tells
 *
 * This program becomes the broker (or the nursery, boot_nursery.h): there is no process in between
 * that would have to pass on signals and exit codes.  What it does itself is to look at what the
 * user said, so that a mistake is one sentence and not one per broker.
 */
#include "config.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd_all.h"
#include "libflux/paths.h"
#include "libsettings/settings.h"
#include "libtopology/topology.h"
#include "libutil/strvec.h"

#define SIZE_MAX_HERE 65536 /* brokers on one host */

enum { OPT_BOOT = CMD_KEY(0), OPT_CONFIG, OPT_RUNDIR, OPT_STATEDIR };

static const struct cmd_opt opts[] = {
    {'s', "size", "N", "start N brokers on this host"},
    {'t', "topology", "SPEC", "shape of the tree: kary:K, binary, flat, chain, or a FILE"},
    {'S', "set", "NAME=VALUE", "set an attribute of all brokers (repeatable)"},
    {OPT_BOOT, "boot", "METHOD", "pmi, config or single; default: what fits"},
    {OPT_CONFIG, "config", "FILE", "configuration file that names the hosts"},
    {OPT_RUNDIR, "rundir", "DIR", "directory for sockets; default: a fresh one"},
    {OPT_STATEDIR, "statedir", "DIR", "directory for what is to outlive the session"},
    {'v', "verbose", NULL, "say on standard error what happens"},
    CMD_OPT_END,
};

static const struct cmd_usage usage = {
    "[OPTION...] [COMMAND [ARGUMENT...]]",
    "Start a session and run COMMAND in it, or a shell. The session ends with it.\n"
    "Without --size, brokers that another launcher started (mpiexec, srun, flux wreckrun)\n"
    "form one session; a single one is a session of its own.",
    opts,
    "The exit code is COMMAND's, 128 + N when signal N killed it; 1 when the session could not\n"
    "start. SIGINT, SIGTERM and SIGHUP end the session in order, a second one at once.",
    CMD_STOP,
};

struct start {
    uint32_t size; /* 0: not said */
    const char *topology;
    bool verbose;
    strvec_t *args;
};

static int set_attr(struct cmd *c, struct start *st, const char *name, const char *value)
{
    if (strvec_addf(st->args, "--set=%s=%s", name, value) < 0)
        return cmd_error(c, "out of memory");
    return CMD_OK;
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
            return cmd_usage_error(c, "--size=%s: 1 to %d brokers can be started", val,
                                   SIZE_MAX_HERE);
        return CMD_OK;
    case 't':
        st->topology = val;
        return set_attr(c, st, "topology", val);
    case 'S':
        if (!strchr(val, '=') || val[0] == '=')
            return cmd_usage_error(c, "--set=%s: NAME=VALUE is needed", val);
        snprintf(name, sizeof(name), "%.*s", (int)strcspn(val, "="), val);
        if (settings_check(name, strchr(val, '=') + 1, &err) < 0)
            return cmd_usage_error(c, "--set: %s", err.text);
        if (strvec_addf(st->args, "--set=%s", val) < 0)
            return cmd_error(c, "out of memory");
        return CMD_OK;
    case OPT_BOOT:
        if (strcmp(val, "pmi") != 0 && strcmp(val, "config") != 0 && strcmp(val, "single") != 0)
            return cmd_usage_error(c, "--boot=%s: pmi, config or single is wanted", val);
        return set_attr(c, st, "boot.method", val);
    case OPT_CONFIG:
        return set_attr(c, st, "config.file", val);
    case OPT_RUNDIR:
        return set_attr(c, st, "rundir", val);
    case OPT_STATEDIR:
        return set_attr(c, st, "statedir", val);
    default:
        st->verbose = true;
        return strvec_add(st->args, "--verbose") < 0 ? cmd_error(c, "out of memory") : CMD_OK;
    }
}

static int check(struct cmd *c, const struct start *st)
{
    topology_t *topo;
    errmsg_t err;

    if (!st->topology || st->size == 0)
        return CMD_OK;
    if (!(topo = topology_create(st->topology, st->size, &err)))
        return cmd_error(c, "--topology=%s: %s", st->topology, err.text);
    topology_destroy(topo);
    return CMD_OK;
}

static int become_broker(struct cmd *c, struct start *st, char **command)
{
    errmsg_t err;
    char *path;
    int rc = 0;

    if (st->size > 1)
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

/* sim_derive.c - flux sim derive: derive a workload for another machine from a log.
 *
 * The output is SWF, with the command line as comments at its head; numbers of nodes are in the
 * processor fields.  trace_edit.c describes the changes to the jobs.
 */
#include "config.h"
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sim.h"

enum {
    OPT_FROM = CMD_KEY(0),
    OPT_DAYS,
    OPT_MAX,
    OPT_MACHINE,
    OPT_LOAD,
    OPT_MULT,
    OPT_OUTPUT,
};

static const struct cmd_opt opts[] = {
    {SIM_OPT_PPN, "ppn", "N", "processors of a node, for logs in SWF (1)"},
    {OPT_FROM, "from-day", "D", "begin D days after the first job (0)"},
    {OPT_DAYS, "days", "D", "take the jobs of D days (all)"},
    {OPT_MAX, "max-nodes", "N", "cut the nodes of a job to N"},
    {OPT_MACHINE, "machine", "N", "the machine that --load is meant for has N nodes"},
    {OPT_LOAD, "load", "X", "stretch the submit times so that the offered load is X"},
    {OPT_MULT, "mult", "N", "then multiply the nodes of each job by N (1)"},
    {OPT_OUTPUT, "output", "FILE", "write to FILE instead of standard output"},
    CMD_OPT_END,
};
static const struct cmd_usage usage = {
    "[OPTION...] --machine=N --load=X TRACE",
    "Make a workload for another machine out of a log of jobs: some days of it, with sizes cut "
    "and\n"
    "the submit times stretched or pressed to an offered load. Estimates and runtimes are cut to "
    "a\n"
    "day. Prints a log in SWF whose processors are nodes.",
    opts,
    "Exit code: 0 on success, 1 if a file cannot be read or written, 2 on a usage error.",
    0,
};

static int load_option(struct cmd *c, const char *val, double *out)
{
    char *end;

    errno = 0;
    *out = strtod(val, &end);
    if (errno || end == val || *end || !isfinite(*out) || *out <= 0 || *out > 1000)
        return cmd_usage_error(c, "--load is a number above 0 and at most 1000, not '%s'", val);
    return CMD_OK;
}

static int count_option(struct cmd *c, const char *what, const char *val, uint32_t least,
                        int64_t *out)
{
    uint32_t n;

    if (cmd_parse_u32(c, what, val, &n) < 0)
        return CMD_USAGE;
    if (n < least || n > 10 * FATTREE_NODES_MAX)
        return cmd_usage_error(c, "%s is between %u and %u", what, least, 10 * FATTREE_NODES_MAX);
    *out = n;
    return CMD_OK;
}

struct derive {
    struct trace_derive d;
    int64_t ppn;
    const char *output;
};

static int option(struct cmd *c, struct derive *o, int key, const char *val)
{
    switch (key) {
    case SIM_OPT_PPN:
        return count_option(c, "--ppn", val, 1, &o->ppn);
    case OPT_FROM:
        return count_option(c, "--from-day", val, 0, &o->d.from_day);
    case OPT_DAYS:
        return count_option(c, "--days", val, 1, &o->d.days);
    case OPT_MAX:
        return count_option(c, "--max-nodes", val, 1, &o->d.max_nodes);
    case OPT_MACHINE:
        return count_option(c, "--machine", val, 1, &o->d.machine);
    case OPT_MULT:
        return count_option(c, "--mult", val, 1, &o->d.mult);
    case OPT_LOAD:
        return load_option(c, val, &o->d.load);
    default:
        o->output = val;
        return CMD_OK;
    }
}

static int write_trace(const struct derive *o, const char *path, const trace_t *t, FILE *f)
{
    const char *base = strrchr(path, '/');

    fprintf(f,
            "; made by flux sim derive from %s\n"
            "; from-day %" PRId64 ", days %" PRId64 ", max-nodes %" PRId64 ", machine %" PRId64
            ", load %g, mult %" PRId64 ", ppn %" PRId64 "\n"
            "; MaxJobs: %zu\n",
            base ? base + 1 : path, o->d.from_day, o->d.days, o->d.max_nodes, o->d.machine,
            o->d.load, o->d.mult, o->ppn, trace_count(t));
    return trace_write_swf(t, f);
}

static int derive(struct cmd *c, const struct derive *o, const char *path)
{
    errmsg_t err;
    struct sim_out out;
    int rc = CMD_OK;
    trace_t *t = trace_read(path, (uint32_t)o->ppn, &err);

    if (!t)
        return cmd_error(c, "%s", err.text);
    if (trace_derive(t, &o->d, &err) < 0)
        rc = cmd_error(c, "%s: %s", path, err.text);
    else if (!o->output)
        rc = write_trace(o, path, t, stdout) < 0
                 ? cmd_error(c, "cannot write to standard output: %s", strerror(errno))
                 : CMD_OK;
    else if (sim_out_open(&out, o->output, &err) < 0 ||
             sim_out_close(&out, write_trace(o, path, t, out.f) == 0, &err) < 0)
        rc = cmd_error(c, "%s", err.text);
    trace_destroy(t);
    return rc;
}

int sim_derive(struct cmd *c, int argc, char **argv)
{
    struct derive o = {
        .d = {.days = TRACE_VALUE_MAX, .max_nodes = FATTREE_NODES_MAX, .mult = 1},
        .ppn = 1,
    };
    const char *val;
    int key, rc = CMD_OK;

    while (rc == CMD_OK && (key = cmd_option(c, &usage, argc, argv, &val)) != 0) {
        if (key < 0)
            return cmd_option_exit(key);
        rc = option(c, &o, key, val);
    }
    if (rc != CMD_OK)
        return rc;
    if (argc - c->optind != 1)
        return cmd_usage_error(c, "expected one TRACE");
    if (o.d.machine == 0 || !(o.d.load > 0))
        return cmd_usage_error(c, "--machine and --load are required");
    return derive(c, &o, argv[c->optind]);
}

/* export.c - flux stream export: the steps of a stream in another session.
 *
 * One process is a reader in the session from which a stream is exported, and all writers of a
 * stream in the session to which it is.  So neither session has to know of the other one, all that
 * acts on a stream (policies, pauses, counters) acts in each of them, and the data take the way
 * that is best for each end: this process may be the only one that reaches both.  A step has the
 * same number in both sessions, and the same variables of the same ranks, byte by byte.
 *
 *    what happens in the first session          in the other one
 *    a step while nobody reads there            nothing is got, and its number is passed over
 *    the stream ends, or SIGINT, SIGTERM        the stream ends
 *    a writer dies; this process fails          the writers fail
 *    this process dies                          the writers die
 *    with --stay: writers are restarted         the writers leave, and come back: the epoch rises
 *
 * Invariants:
 *  1. All writers of the exported stream have the same next step, above those before it.  It is
 *     the one of the first session, unless that is lower: then the stream there has begun anew, and
 *     the numbers go on here.
 *
 * Failure: a sentence and exit code 1.  When steps cannot be read, or written, any more, readers of
 * the exported stream get an error, as those of the first session do, and not the end.
 */
#include "config.h"
#include <stdlib.h>
#include <string.h>

#include "libflux/attr.h"
#include "export.h"
#include "transfer_private.h"

static const struct cmd_opt export_opts[] = {
    {'T', "to", "SESSION", "parent, or the address of a session, as 'flux uri' prints it"},
    {'F', "from", "SESSION", "read NAME there, and not in this session"},
    {'A', "as", "NAME", "name of the stream in the other session (default: the same)"},
    STREAM_OPT_STAY,
    STREAM_OPT_START('a'),
    {'k', "keep", "N", "keep the last N steps for readers that come later"},
    STREAM_OPT_COUNT,
    STREAM_OPT_POLICY,
    STREAM_OPT_TIMEOUT,
    CMD_OPT_END,
};
static const struct cmd_usage export_usage = {
    "[OPTION...] NAME",
    "Let a stream be read in another session, until its writers close it, or until SIGINT or "
    "SIGTERM.\n--to, --from, or both are required; what is left out is this session.",
    export_opts,
    NULL,
    0,
};

struct export
{
    struct transfer t;
    const char *from; /* NULL: this session */
    const char *to;   /* the same */
    const char *name;
    const char *as;
    flux_t *opened[2]; /* connections to other sessions */
    unsigned nopened;
    uint64_t epoch; /* of the steps that were read; 0: none was */
};

/* Connect to a session.  NULL after an error message. */
static flux_t *session(struct export *x, const char *which)
{
    flux_t *own = !which || strcmp(which, "parent") == 0 ? cmd_handle(x->t.c) : NULL;
    char *parent = NULL;
    errmsg_t err;
    flux_t *h;

    if (!which || (strcmp(which, "parent") == 0 && !own))
        return own;
    if (own && !(parent = flux_attr_get(own, "parent-uri", NULL))) {
        cmd_error(x->t.c, "this session has no parent: it is not a job");
        return NULL;
    }
    h = flux_open(parent ? parent : which, NULL, &err);
    free(parent);
    if (h)
        x->opened[x->nopened++] = h;
    else
        cmd_error(x->t.c, "%s", err.text);
    return h;
}

static int sessions_open(struct export *x)
{
    if (!(x->t.h = session(x, x->from)) || !(x->t.to = session(x, x->to)))
        return CMD_FAIL;
    if (x->to) /* the job of this process is not one of that session */
        unsetenv("FLUX_TASK_RANK");
    return CMD_OK;
}

/* Follow the epochs of the stream. */
static int epoch_follow(struct export *x)
{
    uint64_t epoch = flux_stream_epoch(x->t.in);
    uint64_t before = x->epoch;

    if (epoch == before)
        return CMD_OK;
    x->epoch = epoch;
    if (before > 0) {
        transfer_outs_close(&x->t);
        if (transfer_outs_open(&x->t, x->as) != CMD_OK)
            return CMD_FAIL;
    }
    return transfer_define(&x->t, x->name);
}

static int skip(struct export *x, uint64_t step)
{
    errmsg_t err;

    for (uint32_t i = 0; i < x->t.nouts; i++) {
        if (flux_stream_skip(x->t.outs[i], step, &err) < 0)
            return cmd_error(x->t.c, "%s", err.text);
    }
    return CMD_OK;
}

/* The number that a step gets: invariant 1. */
static uint64_t number(const struct export *x, uint64_t step)
{
    for (uint32_t i = 0; i < x->t.nouts; i++) {
        if (flux_stream_step(x->t.outs[i]) > step)
            step = flux_stream_step(x->t.outs[i]);
    }
    return step;
}

static bool wanted(const struct export *x)
{
    for (uint32_t i = 0; i < x->t.nouts; i++) {
        if (flux_stream_wanted(x->t.outs[i]))
            return true;
    }
    return false;
}

static int export_step(struct export *x, uint64_t step)
{
    if (epoch_follow(x) != CMD_OK)
        return CMD_FAIL;
    step = number(x, step);
    if (!wanted(x))
        return skip(x, step + 1);
    if (skip(x, step) != CMD_OK)
        return CMD_FAIL;
    return transfer_outs_step(&x->t);
}

static int export_run(struct export *x)
{
    uint64_t step;
    int got = 0;
    int rc = CMD_OK;

    for (uint32_t n = 1; rc == CMD_OK && (got = transfer_next(&x->t, &step)) == 1; n++) {
        rc = export_step(x, step);
        flux_stream_end_step(x->t.in, 0., NULL);
        if (n == x->t.count)
            break;
    }
    return got < 0 ? CMD_FAIL : rc;
}

static int export_options(struct export *x, int argc, char **argv)
{
    const char *val;
    int key;
    int rc = CMD_OK;

    while (rc == CMD_OK && (key = cmd_option(x->t.c, &export_usage, argc, argv, &val)) > 0) {
        if (key == 'T')
            x->to = val;
        else if (key == 'F')
            x->from = val;
        else if (key == 'A')
            x->as = val;
        else if (key == 'K')
            x->t.stay = true;
        else if (key == 'k')
            rc = cmd_parse_u32(x->t.c, "--keep", val, &x->t.keep) < 0 ? CMD_USAGE : CMD_OK;
        else
            rc = transfer_option(&x->t, key, val);
    }
    if (rc != CMD_OK)
        return rc;
    return key < 0 ? key : CMD_OK;
}

int stream_export(struct cmd *c, int argc, char **argv)
{
    struct export x = {.t = {.c = c, .timeout = -1., .start = "append"}};
    int rc = export_options(&x, argc, argv);

    if (rc < 0)
        return cmd_option_exit(rc);
    if (rc != CMD_OK)
        return rc;
    if (argc - c->optind != 1)
        return cmd_usage_error(c, "one NAME is required");
    if (!x.to && !x.from)
        return cmd_usage_error(c, "--to or --from is required: the other session");
    x.name = argv[c->optind];
    if (!x.as)
        x.as = x.name;
    if ((rc = sessions_open(&x)) == CMD_OK && (rc = transfer_in_open(&x.t, x.name)) == CMD_OK &&
        (rc = transfer_outs_open(&x.t, x.as)) == CMD_OK &&
        (rc = transfer_define(&x.t, x.name)) == CMD_OK) {
        transfer_signals(&x.t);
        rc = export_run(&x);
    }
    transfer_close(&x.t, rc);
    while (x.nopened > 0)
        flux_close(x.opened[--x.nopened]);
    return rc;
}

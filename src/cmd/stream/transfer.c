/* transfer.c - flux stream record, replay and tee.
 *
 * Each reads steps, from a stream or from a recording, and passes them on, to a recording or to a
 * stream.  This one process is then all writers of that stream: a step has the same variables of
 * the same ranks, byte by byte.
 *
 * SIGINT and SIGTERM end the work as the end of the steps does, so that readers get the end of the
 * stream, and the recording its index.  They are blocked, and looked for at least every SLICE
 * seconds.
 *
 * Failure: a sentence and exit code 1.  What was recorded before stays in the file, which does not
 * count as complete; readers of a stream that is written are told that its writers have failed.
 */
#include "config.h"
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "libstream/stream_file.h"
#include "libstream/stream_wire.h"
#include "libutil/clock.h"
#include "libutil/strutil.h"
#include "transfer_private.h"

#define TIMEOUT 60.
#define SLICE TRANSFER_SLICE

/* --- signals --- */

void transfer_signals(struct transfer *t)
{
    static const int signals[] = {SIGINT, SIGTERM};

    sigemptyset(&t->stop);
    for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++) {
        struct sigaction sa;

        if (sigaction(signals[i], NULL, &sa) == 0 && sa.sa_handler != SIG_IGN)
            sigaddset(&t->stop, signals[i]);
    }
    sigprocmask(SIG_BLOCK, &t->stop, NULL);
}

bool transfer_stopped(struct transfer *t, double seconds)
{
    double until = clock_now() + seconds;

    do {
        double left = until - clock_now();
        struct timespec ts = {0, 0};

        if (left > 0.) {
            ts.tv_sec = (time_t)left;
            ts.tv_nsec = (long)((left - (double)ts.tv_sec) * 1e9);
        }
        t->stopped = t->stopped || sigtimedwait(&t->stop, NULL, &ts) > 0;
    } while (!t->stopped && clock_now() < until);
    return t->stopped;
}

/* --- steps --- */

/* Report to the module of the stream that is written, and hear from it, although no step comes.  -1
 * after a sentence: the stream was removed. */
static int outs_serve(struct transfer *t)
{
    errmsg_t err;

    for (uint32_t i = 0; i < t->nouts; i++) {
        if (flux_stream_skip(t->outs[i], 0, &err) < 0)
            return cmd_error(t->c, "%s", err.text), -1;
    }
    return 0;
}

int transfer_next(struct transfer *t, uint64_t *step)
{
    double until = t->timeout < 0. ? INFINITY : clock_now() + t->timeout;
    errmsg_t err;

    while (!transfer_stopped(t, 0.)) {
        double left = until - clock_now();
        int rc = flux_stream_begin_step(t->in, FLUX_STREAM_NEXT,
                                        left > SLICE ? SLICE
                                        : left > 0.  ? left
                                                     : 0.,
                                        step, &err);

        if (rc >= 0)
            return rc;
        if (errno != ETIMEDOUT)
            return cmd_error(t->c, "%s", err.text), -1;
        if (left <= 0.)
            return cmd_error(t->c, "no step has come within %g s", t->timeout), -1;
        if (outs_serve(t) < 0)
            return -1;
    }
    return 0;
}

char *transfer_format(struct transfer *t, const char *name)
{
    struct stream_ask_format in = {name, NULL};
    flux_future_t *f = flux_rpc_struct(t->h, "stream.format", &stream_ask_format_schema, &in,
                                       FLUX_NODEID_ANY, FLUX_MSGF_IDEMPOTENT);
    struct stream_text text;
    char *format = NULL;

    if (f && flux_rpc_wait_struct(f, TIMEOUT, &stream_text_schema, &text, NULL) == 0 &&
        *text.format)
        format = strdup(text.format);
    flux_future_destroy(f);
    return format;
}

int transfer_define(struct transfer *t, const char *name)
{
    char *format = transfer_format(t, name);
    errmsg_t err;
    int rc = CMD_OK;

    if (format && flux_stream_define(t->outs[0], format, &err) < 0)
        rc = cmd_error(t->c, "%s", err.text);
    free(format);
    return rc;
}

int transfer_in_open(struct transfer *t, const char *name)
{
    struct flux_stream_opts opts = {
        .policy = t->policy, .stay = t->stay, .timeout = t->timeout == 0. ? 1e-3 : t->timeout};
    errmsg_t err;

    if (!t->h && !(t->h = cmd_handle(t->c)))
        return CMD_FAIL;
    if (!(t->in = flux_stream_open(t->h, name, FLUX_STREAM_READ, &opts, &err)))
        return cmd_error(t->c, "%s", err.text);
    return CMD_OK;
}

int transfer_outs_open(struct transfer *t, const char *name)
{
    uint32_t n = flux_stream_writers(t->in);
    errmsg_t err;

    if (!(t->outs = calloc(n, sizeof(flux_stream_t *))))
        return cmd_error(t->c, "out of memory for %u writers", n);
    for (; t->nouts < n; t->nouts++) {
        struct flux_stream_opts opts = {.rank = t->nouts,
                                        .size = n,
                                        .keep = t->keep,
                                        .start = t->start,
                                        .timeout = t->timeout == 0. ? 1e-3 : t->timeout};

        t->outs[t->nouts] =
            flux_stream_open(t->to ? t->to : t->h, name, FLUX_STREAM_WRITE, &opts, &err);
        if (!t->outs[t->nouts])
            return cmd_error(t->c, "%s", err.text);
    }
    return CMD_OK;
}

/* Wait until readers have come to all writers, to which they connect in any order; there is a time
 * limit for that, or a signal. */
static int outs_wait(struct transfer *t, uint32_t readers)
{
    double until = t->timeout < 0. ? INFINITY : clock_now() + t->timeout;
    errmsg_t err;

    for (uint32_t i = 0; i < t->nouts && !transfer_stopped(t, 0.);) {
        if (flux_stream_wait_readers(t->outs[i], readers, SLICE, &err) == 0)
            i++;
        else if (errno != ETIMEDOUT)
            return cmd_error(t->c, "%s", err.text);
        else if (clock_now() > until)
            return cmd_error(t->c, "fewer than %u readers joined within %g s", readers, t->timeout);
    }
    return CMD_OK;
}

int transfer_outs_step(struct transfer *t)
{
    errmsg_t err;

    for (uint32_t i = 0; i < t->nouts; i++) {
        if (flux_stream_put_all(t->outs[i], t->in, i, &err) < 0)
            return cmd_error(t->c, "%s", err.text);
    }
    for (uint32_t i = 0; i < t->nouts; i++) {
        while (!transfer_stopped(t, 0.) && flux_stream_end_step(t->outs[i], SLICE, &err) < 0) {
            if (errno != ETIMEDOUT)
                return cmd_error(t->c, "%s", err.text);
        }
    }
    return CMD_OK;
}

void transfer_outs_close(struct transfer *t)
{
    for (uint32_t i = 0; i < t->nouts; i++)
        flux_stream_close(t->outs[i]);
    free(t->outs);
    t->outs = NULL;
    t->nouts = 0;
}

void transfer_close(struct transfer *t, int rc)
{
    for (uint32_t i = 0; rc != CMD_OK && i < t->nouts; i++)
        flux_stream_fail(t->outs[i]);
    transfer_outs_close(t);
    flux_stream_close(t->in);
}

/* --- options --- */

int transfer_option(struct transfer *t, int key, const char *val)
{
    switch (key) {
    case 'c':
        return cmd_parse_u32(t->c, "--count", val, &t->count) < 0 ? CMD_USAGE : CMD_OK;
    case 't':
        if (cmd_parse_duration(t->c, "--timeout", val, &t->timeout) < 0)
            return CMD_USAGE;
        if (isinf(t->timeout))
            t->timeout = -1.;
        return CMD_OK;
    case 'p':
        t->policy = val;
        break;
    case 'a':
        t->start = "append";
        break;
    case 'N':
        t->start = "anew";
    }
    return CMD_OK;
}

/* --- record --- */

static const struct cmd_opt record_opts[] = {
    {'a', "append", NULL, "continue the file, if it exists"},
    STREAM_OPT_COUNT,
    STREAM_OPT_POLICY,
    STREAM_OPT_TIMEOUT,
    CMD_OPT_END,
};
static const struct cmd_usage record_usage = {
    "[OPTION...] NAME FILE",
    "Write the steps of a stream to a file, until its writers close it, or until SIGINT or "
    "SIGTERM.",
    record_opts,
    NULL,
    0,
};

/* Write the format, unless that was done. */
static int record_format(struct transfer *t, const char *name, tape_write_t *w, bool *known)
{
    char *format = *known ? NULL : transfer_format(t, name);
    errmsg_t err;
    int rc = CMD_OK;

    if (format) {
        *known = true;
        if (*format && tape_write_format(w, format, &err) < 0)
            rc = cmd_error(t->c, "%s", err.text);
    }
    free(format);
    return rc;
}

static int record_run(struct transfer *t, const char *name, tape_write_t *w)
{
    bool known = false;
    errmsg_t err;
    uint64_t step;
    int got = 0;
    int rc = CMD_OK;

    for (uint32_t n = 1; rc == CMD_OK && (got = transfer_next(t, &step)) == 1; n++) {
        if (n == 1)
            rc = record_format(t, name, w, &known);
        if (rc == CMD_OK && stream_file_record(t->in, w, &err) < 0)
            rc = cmd_error(t->c, "%s", err.text);
        flux_stream_end_step(t->in, 0., NULL);
        if (n == t->count)
            break;
    }
    if (rc == CMD_OK)
        rc = record_format(t, name, w, &known);
    /* If writers have failed, or steps are missing, the file is not complete. */
    if ((got < 0 || rc != CMD_OK ? tape_write_sync : tape_write_end)(w, &err) < 0)
        rc = cmd_error(t->c, "%s", err.text);
    return got < 0 ? CMD_FAIL : rc;
}

int transfer_record(struct cmd *c, int argc, char **argv)
{
    struct transfer t = {.c = c, .timeout = -1.};
    tape_write_t *w;
    bool append = false;
    const char *val;
    errmsg_t err;
    int rc = CMD_OK;
    int key;

    while ((key = cmd_option(c, &record_usage, argc, argv, &val)) > 0) {
        if (key == 'a')
            append = true;
        else if (transfer_option(&t, key, val) != CMD_OK)
            return CMD_USAGE;
    }
    if (key < 0)
        return cmd_option_exit(key);
    argv += c->optind;
    if (argc - c->optind != 2)
        return cmd_usage_error(c, "NAME and FILE are required");
    if (!append && access(argv[1], F_OK) == 0)
        return cmd_error(c, "%s exists: --append continues it", argv[1]);
    if ((rc = transfer_in_open(&t, argv[0])) == CMD_OK) {
        transfer_signals(&t);
        if (!(w = tape_write_open(argv[1], argv[0], flux_stream_writers(t.in), append, &err)))
            rc = cmd_error(c, "%s", err.text);
        else
            rc = record_run(&t, argv[0], w);
        tape_write_destroy(w);
    }
    transfer_close(&t, rc);
    return rc;
}

/* --- replay --- */

static const struct cmd_opt replay_opts[] = {
    {'n', "name", "NAME", "write this stream, not the one that was recorded"},
    {'r', "rate", "N",
     "steps a second; max: as fast as readers take them (default: as\n"
     "they came when they were recorded)"},
    {'R', "readers", "N", "wait for N readers first (default: 1)"},
    STREAM_OPT_START('a'),
    STREAM_OPT_COUNT,
    {'t', "timeout", "DURATION", "give up when the readers do not come for this time"},
    CMD_OPT_END,
};
static const struct cmd_usage replay_usage = {
    "[OPTION...] FILE",
    "Write a stream with the steps of a file that 'flux stream record' has made.",
    replay_opts,
    NULL,
    0,
};

int transfer_rate(const char *text, double *rate)
{
    char *end;

    *rate = strtod(text, &end);
    return *rate > 0. && isfinite(*rate) && !*end ? 0 : -1;
}

static int replay_run(struct transfer *t, uint32_t count, double rate)
{
    double begin = clock_now();
    double first = 0.;
    errmsg_t err;
    int rc = CMD_OK;

    for (uint32_t n = 0; rc == CMD_OK && !t->stopped; n++) {
        uint64_t number;
        double time;
        double due;

        if ((count > 0 && n == count) || flux_stream_file_step(t->in, n, &number, &time) < 0)
            break;
        if (n == 0)
            first = time;
        due = rate > 0. ? n / rate : time - first; /* n / INFINITY is 0 */
        if (transfer_stopped(t, begin + due - clock_now()))
            break;
        if (flux_stream_begin_step(t->in, number, 0., NULL, &err) < 0)
            return cmd_error(t->c, "%s", err.text);
        rc = transfer_outs_step(t);
        flux_stream_end_step(t->in, 0., NULL);
    }
    return rc;
}

int transfer_replay(struct cmd *c, int argc, char **argv)
{
    struct transfer t = {.c = c, .timeout = -1.};
    struct flux_stream_file info;
    const char *name = NULL;
    uint32_t readers = 1;
    double rate = 0.;
    const char *val;
    errmsg_t err;
    int rc;
    int key;

    while ((key = cmd_option(c, &replay_usage, argc, argv, &val)) > 0) {
        if (key == 'n')
            name = val;
        else if (key == 'r') {
            if (strcmp(val, "max") == 0)
                rate = INFINITY;
            else if (transfer_rate(val, &rate) < 0)
                return cmd_usage_error(c, "--rate is a number of steps a second above 0, or max");
        } else if (key == 'R') {
            if (cmd_parse_u32(c, "--readers", val, &readers) < 0)
                return CMD_USAGE;
        } else if (transfer_option(&t, key, val) != CMD_OK)
            return CMD_USAGE;
    }
    if (key < 0)
        return cmd_option_exit(key);
    if (argc - c->optind != 1)
        return cmd_usage_error(c, "one FILE is required");
    if (!(t.in = flux_stream_open_file(argv[c->optind], &err)))
        return cmd_error(c, "%s", err.text);
    flux_stream_file(t.in, &info);
    if (!(t.h = cmd_handle(c)))
        rc = CMD_FAIL;
    else if ((rc = transfer_outs_open(&t, name ? name : info.name)) == CMD_OK) {
        transfer_signals(&t);
        if (info.format && flux_stream_define(t.outs[0], info.format, &err) < 0)
            rc = cmd_error(c, "%s", err.text);
        else if ((rc = outs_wait(&t, readers)) == CMD_OK)
            rc = replay_run(&t, t.count, rate);
    }
    transfer_close(&t, rc);
    return rc;
}

/* --- tee --- */

static const struct cmd_opt tee_opts[] = {
    STREAM_OPT_COUNT,
    STREAM_OPT_POLICY,
    {'R', "readers", "N", "wait for N readers of NEW first (default: 0)"},
    STREAM_OPT_START('a'),
    {'t', "timeout", "DURATION", "give up when no step, or reader, comes for this time"},
    CMD_OPT_END,
};
static const struct cmd_usage tee_usage = {
    "[OPTION...] NAME NEW",
    "Read a stream, and write another one, NEW, with the same steps, until the writers close it,\n"
    "or until SIGINT or SIGTERM.",
    tee_opts,
    NULL,
    0,
};

static int tee_run(struct transfer *t, const char *name)
{
    uint64_t step;
    int got = 0;
    int rc = CMD_OK;

    for (uint32_t n = 1; rc == CMD_OK && (got = transfer_next(t, &step)) == 1; n++) {
        if (n == 1)
            rc = transfer_define(t, name);
        if (rc == CMD_OK)
            rc = transfer_outs_step(t);
        flux_stream_end_step(t->in, 0., NULL);
        if (n == t->count)
            break;
    }
    return got < 0 ? CMD_FAIL : rc;
}

int transfer_tee(struct cmd *c, int argc, char **argv)
{
    struct transfer t = {.c = c, .timeout = -1.};
    uint32_t readers = 0;
    const char *val;
    int rc;
    int key;

    while ((key = cmd_option(c, &tee_usage, argc, argv, &val)) > 0) {
        if (key == 'R') {
            if (cmd_parse_u32(c, "--readers", val, &readers) < 0)
                return CMD_USAGE;
        } else if (transfer_option(&t, key, val) != CMD_OK)
            return CMD_USAGE;
    }
    if (key < 0)
        return cmd_option_exit(key);
    argv += c->optind;
    if (argc - c->optind != 2)
        return cmd_usage_error(c, "NAME and NEW are required");
    if ((rc = transfer_in_open(&t, argv[0])) == CMD_OK &&
        (rc = transfer_outs_open(&t, argv[1])) == CMD_OK) {
        transfer_signals(&t);
        if ((rc = outs_wait(&t, readers)) == CMD_OK)
            rc = tee_run(&t, argv[0]);
    }
    transfer_close(&t, rc);
    return rc;
}

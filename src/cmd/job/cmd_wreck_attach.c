/* cmd_wreck_attach.c - flux wreck attach: the output of a job, from its beginning until it ends.
 *
 * Any number of clients may be attached to a job, at any time, also when it has ended: all see the
 * same, since it stands in the key-value store.  Output that goes to files or to a flux wreckrun is
 * not there; then it is said where it is, and only the end is waited for.
 *
 *    SIGINT            says how to leave
 *    another, in 2 s   leaves; the job goes on
 */
#include "config.h"
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd_wreck.h"
#include "job_args.h"
#include "jobfollow.h"
#include "job_waitline.h"
#include "libjob/jobspec_build.h"
#include "libutil/strbuf.h"

#define SECOND_INTERRUPT 2.0

static const struct cmd_opt opts[] = {
    {'l', "label-io", NULL, "put the number of its task before each line"},
    {'q', "quiet", NULL, "do not say where output is that is not here, nor why the job ended"},
    CMD_OPT_END,
};
static const struct cmd_usage usage = {
    "[OPTION...] ID",
    "Print the output of a job from its beginning, and go on until it ends.\n"
    "^C twice within 2 s leaves; the job goes on.",
    opts, "Exit code: that of the job; 130 when it was left.\n", 0};

struct attach {
    struct cmd *c;
    flux_t *h;
    uint64_t id;
    bool label, quiet;
    jobfollow_t *jf;
    double interrupted;
    int code;
    job_waitline_t *tell; /* until some output came */
};

static void on_ended(void *arg, const struct job_ended *e)
{
    struct attach *a = arg;

    job_waitline_stop(a->tell);
    a->tell = NULL;
    a->code = e->error ? CMD_FAIL : e->code;
    if (e->error || !a->quiet)
        job_waitline_ended(a->c, e, NULL, JOBTELL_TASKS);
}

static void on_output(void *arg, uint64_t id)
{
    struct attach *a = arg;

    job_waitline_stop(a->tell);
    a->tell = NULL;
}

static void on_interrupt(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    struct attach *a = arg;
    double now = flux_now(a->h);

    if (a->interrupted > 0. && now - a->interrupted < SECOND_INTERRUPT) {
        a->code = 128 + SIGINT;
        jobfollow_stop(a->jf);
        return;
    }
    a->interrupted = now;
    cmd_error(a->c,
              "once more within 2 s leaves job %" PRIu64 ", which goes on; 'flux cancel %" PRIu64
              "' ends it",
              a->id, a->id);
}

/* Where is the output?  1: in the store; 0: elsewhere, which was said; -1 after a sentence. */
static int find_output(struct attach *a)
{
    flux_future_t *f = wreck_ask(a->h, a->id, "jobspec");
    flux_future_t *g = wreck_ask(a->h, a->id, "eventlog");
    char *spec = wreck_value(a->c, f, a->id, "jobspec", NULL, NULL), *log = NULL;
    char *out = NULL;
    bool client = false;
    json_t *o = NULL;
    size_t len;
    int rc = -1;

    if (!spec) {
        flux_future_destroy(g);
        return -1;
    }
    if ((log = wreck_value(a->c, g, a->id, "eventlog", &len, NULL))) {
        struct job_log jl;
        struct job_event ev;
        errmsg_t err;

        job_log_init(&jl, log, len);
        client = job_log_next(&jl, &ev, &err) == 1 && ev.event == JOB_EV_SUBMIT &&
                 ev.flags & JOB_FLAG_CLIENT;
        job_log_done(&jl);
        o = json_loads(spec, 0, NULL);
        out = jobspec_text_get(json_object_get(
            json_object_get(
                json_object_get(json_object_get(json_object_get(o, "attributes"), "system"),
                                "shell"),
                "options"),
            "output"));
        rc = !out && !client;
        if (out && !a->quiet) {
            char *file = wreck_file(a->id, out);

            cmd_error(a->c, "output of job %" PRIu64 " goes to %s", a->id, file ? file : out);
            free(file);
        } else if (client && !a->quiet)
            cmd_error(a->c, "output of job %" PRIu64 " goes to the flux wreckrun that started it",
                      a->id);
    }
    json_decref(o);
    free(out);
    free(spec);
    free(log);
    return rc;
}

static int follow(struct attach *a, bool output)
{
    const struct jobfollow_cb cb = {on_ended, on_output, a};
    flux_reactor_t *r = flux_get_reactor(a->h);
    int flags =
        JOBFOLLOW_SILENT | (output ? JOBFOLLOW_OUTPUT | (a->label ? JOBFOLLOW_LABEL : 0) : 0);
    flux_watcher_t *sig = flux_signal_watcher_create(r, SIGINT, on_interrupt, a);
    int code = CMD_FAIL;

    if (!sig || !(a->jf = jobfollow_create(a->c, a->h, flags, &cb)))
        goto out;
    if (jobfollow_add(a->jf, a->id) < 0)
        goto out;
    flux_watcher_start(sig);
    a->tell = job_waitline_start(a->c, a->h, a->id, "^C twice leaves it");
    if (jobfollow_run(a->jf) == 0)
        code = a->code;
    else if (errno == EPIPE)
        code = 128 + SIGPIPE;
out:
    job_waitline_stop(a->tell);
    flux_watcher_destroy(sig);
    jobfollow_destroy(a->jf);
    return code;
}

/* What is missing in the output, as the job's events have it. */
static void tell_lost(struct attach *a)
{
    struct job_log jl;
    struct job_event ev;
    errmsg_t err;
    size_t len;
    char *log, *text;
    strbuf_t *sb;

    if (wreck_sync(a->c, a->h) < 0 || !(log = wreck_value(a->c, wreck_ask(a->h, a->id, "eventlog"),
                                                          a->id, "eventlog", &len, NULL)))
        return;
    job_log_init(&jl, log, len);
    sb = strbuf_create(0);
    while (job_log_next(&jl, &ev, &err) == 1)
        if (ev.event == JOB_EV_EXCEPTION && !strcmp(ev.type, "output") && ev.note)
            strbuf_addf(sb, "%s%s", strbuf_len(sb) ? "; " : "", ev.note);
    job_log_done(&jl);
    if ((text = strbuf_take(sb)) && text[0])
        cmd_error(a->c, "job %" PRIu64 ": %s", a->id, text);
    free(text);
    free(log);
}

int wreck_attach(struct cmd *c, int argc, char **argv)
{
    struct attach a = {.c = c};
    const char *val;
    int key, where;

    while ((key = cmd_option(c, &usage, argc, argv, &val)) > 0) {
        a.label |= key == 'l';
        a.quiet |= key == 'q';
    }
    if (key < 0)
        return cmd_option_exit(key);
    if (job_args_id(c, argc - c->optind, argv + c->optind, &a.id) < 0)
        return CMD_USAGE;
    if (!(a.h = cmd_handle_signals(c)) || wreck_sync(c, a.h) < 0 || (where = find_output(&a)) < 0)
        return CMD_FAIL;
    key = follow(&a, where == 1);
    if (where == 1 && !a.quiet)
        tell_lost(&a);
    return key;
}

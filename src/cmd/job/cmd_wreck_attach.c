/* cmd_wreck_attach.c - flux wreck attach: print the output of a job from its beginning to its end.
 *
 * Any number of clients can attach to a job at any time, even after its end.  All of them see the
 * same output, because it is in the key-value store.  Output that goes to files or to a flux
 * wreckrun is not in the store; the command then prints where it goes, and waits for the end of
 * the job.
 *
 *    SIGINT                    prints how to detach
 *    another one within 2 s    detaches; the job continues
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
    {'l', "label-io", NULL, "prefix each line with its task number"},
    {'q', "quiet", NULL,
     "suppress the messages that say where the output is and why the\n"
     "job ended"},
    CMD_OPT_END,
};
static const struct cmd_usage usage = {
    "[OPTION...] ID",
    "Print the output of a job from its beginning until it ends.\n"
    "^C twice within 2 s detaches; the job continues.",
    opts, "Exit code: that of the job; 130 after detaching.\n", 0};

struct attach {
    struct cmd *c;
    flux_t *h;
    uint64_t id;
    bool label, quiet;
    bool left;
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
        a->left = true;
        flux_reactor_stop(r, 0);
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
    idset_t *ids = idset_create();
    int code = CMD_FAIL;

    if (!sig || !ids || idset_set(ids, (uint32_t)a->id) < 0) {
        cmd_error(a->c, "out of memory");
    } else {
        flux_watcher_start(sig);
        a->tell = job_waitline_start(a->c, a->h, a->id, "^C twice detaches");
        code = jobfollow_run(a->c, a->h, ids, flags, &cb);
    }
    job_waitline_stop(a->tell);
    flux_watcher_destroy(sig);
    idset_destroy(ids);
    return a->left ? 128 + SIGINT : code == CMD_OK ? a->code : code;
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
    cmd_returns(c);
    if (!(a.h = cmd_handle_signals(c)) || wreck_sync(c, a.h) < 0 || (where = find_output(&a)) < 0)
        return CMD_FAIL;
    key = follow(&a, where == 1);
    if (where == 1 && !a.quiet && !a.left)
        tell_lost(&a);
    return key;
}

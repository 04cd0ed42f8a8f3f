/* cmd_wreck_info.c - flux wreck status, timing, eventlog: print the record of a job.
 *
 * The record is in the key-value store, under job.ID: `jobspec`, `eventlog` and other keys;
 * job.list adds the state of a job that the service still knows.
 *
 *    from - to in the event log    phase
 *    submit - depend               waits for dependencies, for its begin time, or to be released
 *    depend - alloc                waits for resources
 *    alloc - started               launch: until the last task was started
 *    started - exited              run: until the last task had exited
 *    exited - clean                cleanup: epilogs, reports, and the release of resources
 *
 * `started` and `exited` are fields of the event `finish`; for a job without them, the times of
 * the events `start` and `finish` are used.
 */
#include "config.h"
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cmd_wreck.h"
#include "job_args.h"
#include "jobs_table.h"
#include "libjob/jobspec_build.h"
#include "libkvs/kvs.h"
#include "libsubprocess/spawn.h"
#include "libutil/duration.h"
#include "libutil/size.h"
#include "libutil/strbuf.h"

#define KEY_TIME CMD_KEY(0)

int wreck_sync(struct cmd *c, flux_t *h)
{
    flux_future_t *f = flux_kvs_commit(h, NULL, NULL);
    int rc = cmd_wait(c, f, -1., "the key-value store");

    flux_future_destroy(f);
    return rc;
}

flux_future_t *wreck_ask(flux_t *h, uint64_t id, const char *what)
{
    char key[FLUX_JOB_KEY_MAX];

    return flux_kvs_lookup(h, NULL, flux_job_key(id, what, key, sizeof(key)), 0, NULL);
}

char *wreck_value(struct cmd *c, flux_future_t *f, uint64_t id, const char *what, size_t *len,
                  bool *absent)
{
    const char *data;
    char *copy = NULL;
    errmsg_t err;
    size_t n;

    if (absent)
        *absent = false;
    if (!f) {
        cmd_error(c, "out of memory");
        return NULL;
    }
    while (!flux_future_ready(f) && flux_future_wait(f, 2.) < 0 && errno == ETIMEDOUT)
        cmd_progress(c, "waiting for the key-value store");
    cmd_progress_end(c);
    if (flux_kvs_lookup_get(f, &data, &n, &err) == 0) {
        if (!(copy = malloc(n + 1))) {
            cmd_error(c, "out of memory");
        } else {
            memcpy(copy, data, n);
            copy[n] = '\0';
            if (len)
                *len = n;
        }
    } else if (errno == ENOENT && absent) {
        *absent = true;
    } else if (errno == ENOENT) {
        cmd_error(c, "job %" PRIu64 " has no %s on record: there is no such job, or it was purged",
                  id, what);
    } else {
        cmd_error(c, "job %" PRIu64 ": %s", id, err.text);
    }
    flux_future_destroy(f);
    return copy;
}

char *wreck_file(uint64_t id, const char *name)
{
    static const char mark[] = "{{id}}";
    strbuf_t *sb = strbuf_create(0);
    const char *at;

    for (; (at = strstr(name, mark)); name = at + strlen(mark)) {
        strbuf_addn(sb, name, (size_t)(at - name));
        strbuf_addf(sb, "%" PRIu64, id);
    }
    strbuf_add(sb, name);
    return strbuf_take(sb);
}

/* Text of a time in seconds since 1970 as local time, with milliseconds. */
static char *wreck_clock(double t, char *buf, size_t size)
{
    time_t sec;
    struct tm tm;
    size_t n;

    if (!(t >= 0. && t <= JOBS_TIME_MAX)) {
        snprintf(buf, size, "never");
        return buf;
    }
    sec = (time_t)t;
    if (!localtime_r(&sec, &tm))
        memset(&tm, 0, sizeof(tm));
    n = strftime(buf, size, "%Y-%m-%dT%H:%M:%S", &tm);
    snprintf(buf + n, size - n, ".%03d", (int)((t - (double)sec) * 1000.));
    return buf;
}

/* --- status --- */

struct status {
    struct cmd *c;
    flux_t *h;
    json_t *array; /* with --json */
    idset_t *missing;
    size_t shown;
};

static void line(const char *name, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void line(const char *name, const char *fmt, ...)
{
    char text[2048];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    for (char *p = text; *p; p++) {
        if ((unsigned char)*p < 0x20 || *p == 0x7f)
            *p = '?';
    }
    printf("  %-11s%s\n", name, text);
}

static void line_clock(const char *name, double t)
{
    char buf[64];

    if (t > 0.)
        line(name, "%s", wreck_clock(t, buf, sizeof(buf)));
}

static void add_words(strbuf_t *sb, const json_t *argv)
{
    json_t *word;
    size_t i;

    json_array_foreach(argv, i, word)
    {
        char *s = jobspec_text_get(word);
        bool quote = s && (*s == '\0' || strpbrk(s, " \t\n\"'\\$`*?[]#~&;|<>(){}!"));

        if (s)
            strbuf_addf(sb, quote ? "%s'%s'" : "%s%s", i ? " " : "", s);
        free(s);
    }
}

static void print_command(const json_t *spec)
{
    strbuf_t *sb = strbuf_create(0);
    json_t *program;
    size_t i;

    json_array_foreach(json_object_get(spec, "tasks"), i, program)
    {
        if (i)
            strbuf_add(sb, " : ");
        add_words(sb, json_object_get(program, "command"));
    }
    if (sb && strbuf_len(sb) > 0)
        line("command", "%s", strbuf_str(sb));
    strbuf_destroy(sb);
}

/* To be freed; NULL: there is none. */
static char *spec_text(const json_t *spec, const char *a, const char *b, const char *c)
{
    const json_t *o = json_object_get(json_object_get(spec, "attributes"), "system");

    if (a)
        o = json_object_get(o, a);
    if (b)
        o = json_object_get(o, b);
    return jobspec_text_get(json_object_get(o, c));
}

static void line_file(const char *what, uint64_t id, const char *name)
{
    char *file = name ? wreck_file(id, name) : NULL;

    if (file)
        line(what, "%s", file);
    free(file);
}

static void print_output(struct status *s, const struct job_info *i, const json_t *spec)
{
    char *out = spec_text(spec, "shell", "options", "output");
    char *err = spec_text(spec, "shell", "options", "error");
    char key[FLUX_JOB_KEY_MAX], size[32];
    struct flux_kvs_info info;
    flux_future_t *f;
    errmsg_t msg;

    line_file("output", i->id, out);
    line_file("error", i->id, err);
    free(out);
    free(err);
    f = flux_kvs_lookup(s->h, NULL, flux_job_key(i->id, "output", key, sizeof(key)), FLUX_KVS_INFO,
                        NULL);
    if (f && flux_future_wait(f, 10.) == 0 && flux_kvs_lookup_get_info(f, &info, &msg) == 0)
        line("output", "%s in the key-value store (flux wreck attach %" PRIu64 ")",
             size_format_short(info.size, size, sizeof(size)), i->id);
    flux_future_destroy(f);
}

static void print_failed(const struct job_info *i)
{
    size_t count = job_failed_count(i->failed), n = 0;
    struct job_failed f;
    char text[128];

    for (; job_failed_at(i->failed, n, &f) == 0; n++)
        line("failed", "task %u on %s (rank %u): %s", f.task, f.host[0] ? f.host : "its node",
             f.rank, spawn_status_text(f.status, text, sizeof(text)));
    if (n > 0 && count > n)
        line("failed", "%zu more", count - n);
}

static void print_job(struct status *s, const struct job_info *i, const json_t *spec)
{
    char buf[128];
    char *cwd = spec_text(spec, NULL, NULL, "cwd");

    printf("%sjob %" PRIu64 "\n", s->shown ? "\n" : "", i->id);
    if (i->name)
        line("name", "%s", i->name);
    print_command(spec);
    line("user", "%s", jobs_user_name(i->uid, buf, sizeof(buf)));
    line("state", "%s", flux_job_state_word(i));
    if (i->result)
        line("exit code", "%d", i->code);
    if (i->exception)
        line("exception", "%s%s%s", i->exception, i->note ? ": " : "", i->note ? i->note : "");
    if (i->canceled_by >= 0)
        line("canceled", "by %s", jobs_user_name((uint32_t)i->canceled_by, buf, sizeof(buf)));
    print_failed(i);
    if (i->warning)
        line("warning", "%s", i->warning);
    if (!i->result)
        line("urgency", "%d", i->urgency);
    if (i->dependency)
        line("waits for", "%s", i->dependency);
    if (i->why)
        line("why", "%s", i->why);
    if (i->t_run <= 0. && !i->result)
        line_clock("expected", i->t_estimate);
    line("size", "%u task%s, %u core%s%s", i->ntasks, i->ntasks == 1 ? "" : "s", i->ncores,
         i->ncores == 1 ? "" : "s", i->nnodes ? "" : ", any node");
    if (i->nnodes)
        line("nodes", "%u%s%s%s%s", i->nnodes, i->nodelist ? ": " : "",
             i->nodelist ? i->nodelist : "", i->ranks ? ", ranks " : "", i->ranks ? i->ranks : "");
    line_clock("submitted", i->t_submit);
    line_clock("started", i->t_run);
    line_clock("ended", i->t_cleanup > 0. ? i->t_cleanup : i->t_inactive);
    if (i->duration > 0.)
        line("limit", "%s", duration_format(i->duration, buf, sizeof(buf)));
    if (!i->result)
        line_clock("expires", i->expiration);
    if (cwd)
        line("directory", "%s", cwd);
    free(cwd);
    if (i->uri)
        line("session", "%s", i->uri);
    print_output(s, i, spec);
    s->shown++;
}

static int take_status(void *arg, const struct job_info *info, json_t *json)
{
    struct status *s = arg;
    json_t *spec = NULL;
    char *text;
    bool absent;
    int rc = 0;

    idset_clear(s->missing, (uint32_t)info->id);
    text =
        wreck_value(s->c, wreck_ask(s->h, info->id, "jobspec"), info->id, "jobspec", NULL, &absent);
    if (!text && !absent)
        return -1;
    spec = text ? json_loads(text, 0, NULL) : NULL;
    if (!s->array)
        print_job(s, info, spec);
    else if ((spec && json_object_set(json, "jobspec", spec) < 0) || jobs_json(json, info) < 0 ||
             json_array_append(s->array, json) < 0)
        rc = (cmd_error(s->c, "out of memory"), -1);
    json_decref(spec);
    free(text);
    return rc;
}

int wreck_status(struct cmd *c, int argc, char **argv)
{
    static const struct cmd_opt opts[] = {
        {'j', "json", NULL, "print a JSON array with everything about each job, and its jobspec"},
        CMD_OPT_END,
    };
    static const struct cmd_usage usage = {
        "[-j] ID...", "Print everything that is known about jobs.", opts, NULL, 0};
    struct status s = {.c = c};
    struct job_list query;
    char *text = NULL, *missing;
    bool json = false;
    const char *val;
    int key, code = CMD_FAIL;

    while ((key = cmd_option(c, &usage, argc, argv, &val)) > 0)
        json = true;
    if (key < 0)
        return cmd_option_exit(key);
    if (!(s.missing = job_args_ids(c, argc - c->optind, argv + c->optind)))
        return CMD_USAGE;
    flux_job_list_init(&query);
    query.estimates = true;
    if (!(text = job_args_format(c, s.missing)) || !(s.h = cmd_handle(c)) ||
        wreck_sync(c, s.h) < 0 || (json && !(s.array = json_array())))
        goto out;
    query.ids = text;
    if (job_args_list(c, s.h, &query, take_status, &s) == 0) {
        code = json ? cmd_print_json(c, json_incref(s.array)) : CMD_OK;
        if (!idset_empty(s.missing) && (missing = idset_format(s.missing, 0))) {
            code = cmd_error(c, "there is no job %s", missing);
            free(missing);
        }
    }
out:
    json_decref(s.array);
    idset_destroy(s.missing);
    free(text);
    return code;
}

/* --- timing --- */

static void span(table_t *t, double from, double to)
{
    if (from > 0. && to > 0.)
        table_real(t, to > from ? to - from : 0., 6);
    else
        table_null(t);
}

static int read_times(struct cmd *c, uint64_t id, const char *text, size_t len, struct jobstate *s,
                      double *finish)
{
    struct job_log log;
    struct job_event ev;
    errmsg_t err;
    int rc;

    *finish = 0.;
    job_log_init(&log, text, len);
    while ((rc = job_log_next(&log, &ev, &err)) == 1) {
        if (jobstate_apply(s, &ev, &err) < 0) {
            rc = -1;
            break;
        }
        if (ev.event == JOB_EV_FINISH)
            *finish = ev.timestamp;
    }
    job_log_done(&log);
    if (rc < 0)
        cmd_error(c, "the event log of job %" PRIu64 ": %s", id, err.text);
    return rc;
}

int wreck_timing(struct cmd *c, int argc, char **argv)
{
    static const struct cmd_opt opts[] = {
        {'j', "json", NULL, "print JSON"},
        CMD_OPT_END,
    };
    static const struct cmd_usage usage = {
        "[-j] ID...",
        "Print the time in seconds that jobs spent in each phase: until their dependencies were\n"
        "satisfied (READY), until resources were allocated (QUEUED), until the last task was "
        "started\n"
        "(LAUNCH), until the last task had exited (RUN), until all resources were released "
        "(CLEANUP).",
        opts, NULL, 0};
    table_t *t = table_create();
    idset_t *ids = NULL;
    bool json = false;
    const char *val;
    int key, rc = -1;
    flux_t *h;

    while ((key = cmd_option(c, &usage, argc, argv, &val)) > 0)
        json = true;
    if (key < 0) {
        table_destroy(t);
        return cmd_option_exit(key);
    }
    if (!(ids = job_args_ids(c, argc - c->optind, argv + c->optind))) {
        table_destroy(t);
        return CMD_USAGE;
    }
    table_column(t, "id", "ID", TABLE_RIGHT);
    table_column(t, "ready", "READY", TABLE_RIGHT);
    table_column(t, "queued", "QUEUED", TABLE_RIGHT);
    table_column(t, "launch", "LAUNCH", TABLE_RIGHT);
    table_column(t, "run", "RUN", TABLE_RIGHT);
    table_column(t, "cleanup", "CLEANUP", TABLE_RIGHT);
    table_column(t, "total", "TOTAL", TABLE_RIGHT);
    if ((h = cmd_handle(c)))
        rc = wreck_sync(c, h);
    for (uint32_t id = idset_first(ids); rc == 0 && id != IDSET_NONE; id = idset_next(ids, id)) {
        struct jobstate s = {0};
        double finish, begin, end;
        size_t len;
        char *text = wreck_value(c, wreck_ask(h, id, "eventlog"), id, "eventlog", &len, NULL);

        if (!text || read_times(c, id, text, len, &s, &finish) < 0) {
            rc = -1;
        } else {
            table_row(t);
            table_u64(t, id);
            span(t, s.t_submit, s.t_depend);
            span(t, s.t_depend, s.t_run);
            begin = s.t_started > 0. ? s.t_started : s.t_start;
            end = s.t_exited > 0. ? s.t_exited : finish;
            span(t, s.t_run, begin);
            span(t, begin, end);
            span(t, end > 0. ? end : s.t_cleanup, s.t_inactive);
            span(t, s.t_submit, s.t_inactive);
        }
        free(text);
    }
    idset_destroy(ids);
    if (rc < 0) {
        table_destroy(t);
        return CMD_FAIL;
    }
    return cmd_print_table(c, t, json);
}

/* --- eventlog --- */

enum time_form { TIME_OFFSET, TIME_CLOCK, TIME_RAW };

struct eventlog {
    struct cmd *c;
    uint64_t id;
    enum time_form form;
    bool json;
    double first;
    strbuf_t *part; /* of a line that is not complete */
    bool over;
};

static void print_value(const json_t *v)
{
    char *s = json_is_string(v) ? NULL : json_dumps(v, JSON_ENCODE_ANY | JSON_COMPACT);
    const char *p = s ? s : json_string_value(v);
    bool quote = !s && p && (!*p || strpbrk(p, " \""));

    printf(quote ? "\"" : "");
    for (; p && *p; p++)
        putchar((unsigned char)*p < 0x20 || *p == 0x7f ? '?' : *p);
    printf(quote ? "\"" : "");
    free(s);
}

static int print_event(struct eventlog *e, const char *text, size_t len)
{
    struct job_event ev;
    errmsg_t err;
    json_t *owner = job_event_read(text, len, &ev, &err);
    const char *key;
    char buf[64];
    json_t *v;

    if (!owner)
        return cmd_error(e->c, "the event log of job %" PRIu64 ": %s", e->id, err.text), -1;
    if (e->first <= 0.)
        e->first = ev.timestamp;
    if (e->json) {
        printf("%.*s\n", (int)len, text);
    } else {
        if (e->form == TIME_OFFSET)
            printf("%12.6f", ev.timestamp - e->first);
        else if (e->form == TIME_RAW)
            printf("%.6f", ev.timestamp);
        else
            printf("%s", wreck_clock(ev.timestamp, buf, sizeof(buf)));
        printf(" %s", ev.name);
        json_object_foreach(ev.context, key, v)
        {
            printf(" %s=", key);
            print_value(v);
        }
        putchar('\n');
    }
    e->over |= ev.event == JOB_EV_CLEAN;
    json_decref(owner);
    return 0;
}

static int print_events(struct eventlog *e, const char *text, size_t len)
{
    const char *end = text + len, *nl;

    while (text < end && (nl = memchr(text, '\n', (size_t)(end - text)))) {
        int rc;

        strbuf_addn(e->part, text, (size_t)(nl - text));
        rc = print_event(e, strbuf_str(e->part), strbuf_len(e->part));
        strbuf_trunc(e->part, 0);
        if (rc < 0)
            return -1;
        text = nl + 1;
    }
    strbuf_addn(e->part, text, (size_t)(end - text));
    fflush(stdout);
    return 0;
}

static int follow_events(struct eventlog *e, flux_t *h)
{
    char key[FLUX_JOB_KEY_MAX];
    flux_future_t *f = flux_kvs_watch(h, NULL, flux_job_key(e->id, "eventlog", key, sizeof(key)),
                                      FLUX_KVS_WATCH_APPEND);
    const char *data;
    errmsg_t err;
    size_t len;
    int rc = f ? 0 : (cmd_error(e->c, "out of memory"), -1);

    while (rc == 0 && !e->over) {
        if (flux_future_wait(f, -1.) < 0)
            rc = (cmd_error(e->c, "the connection to the broker was lost"), -1);
        else if (flux_kvs_watch_absent(f))
            rc = (cmd_error(e->c,
                            "job %" PRIu64 " has no event log: there is no such job, or it "
                            "was purged",
                            e->id),
                  -1);
        else if (flux_kvs_lookup_get(f, &data, &len, &err) < 0)
            rc = (cmd_error(e->c, "%s", err.text), -1);
        else if ((rc = print_events(e, data, len)) == 0 && flux_future_next(f) < 0)
            break;
    }
    flux_future_destroy(f);
    return rc;
}

int wreck_eventlog(struct cmd *c, int argc, char **argv)
{
    static const struct cmd_opt opts[] = {
        {'f', "follow", NULL, "continue until the job has ended"},
        {KEY_TIME, "time", "FORM",
         "form of times: offset (seconds since submission, the default),\n"
         "clock, raw (seconds since 1970)"},
        {'j', "json", NULL, "print each event as recorded, one JSON object per line"},
        CMD_OPT_END,
    };
    static const struct cmd_usage usage = {"[OPTION...] ID", "Print the events of a job.", opts,
                                           NULL, 0};
    struct eventlog e = {.c = c, .part = strbuf_create(0)};
    bool follow = false;
    const char *val;
    char *text = NULL;
    int key, rc = -1;
    size_t len;
    flux_t *h;

    while ((key = cmd_option(c, &usage, argc, argv, &val)) > 0) {
        if (key == 'f')
            follow = true;
        else if (key == 'j')
            e.json = true;
        else if (strcmp(val, "clock") == 0)
            e.form = TIME_CLOCK;
        else if (strcmp(val, "raw") == 0)
            e.form = TIME_RAW;
        else if (strcmp(val, "offset") != 0)
            key = (cmd_usage_error(c, "--time: '%s' is not one of offset, clock, raw", val), -2);
        if (key < 0)
            break;
    }
    if (key < 0) {
        strbuf_destroy(e.part);
        return cmd_option_exit(key);
    }
    if (job_args_id(c, argc - c->optind, argv + c->optind, &e.id) < 0) {
        strbuf_destroy(e.part);
        return CMD_USAGE;
    }
    if ((h = cmd_handle(c)) && wreck_sync(c, h) == 0) {
        if (follow)
            rc = follow_events(&e, h);
        else if ((text =
                      wreck_value(c, wreck_ask(h, e.id, "eventlog"), e.id, "eventlog", &len, NULL)))
            rc = print_events(&e, text, len);
    }
    free(text);
    strbuf_destroy(e.part);
    return rc < 0 ? CMD_FAIL : CMD_OK;
}

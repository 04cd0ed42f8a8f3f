/* cmd_jobs.c - flux jobs: list jobs.
 *
 *    what                     how
 *    once, as text            rows are gathered page by page, since widths need all of them
 *    once, as JSON            an array with what the service says of each job
 *    --watch on a terminal    the same text, drawn again: at most as often as the eye follows, when
 *                             a job has changed its state, and once a second, since times go on
 *    --watch elsewhere        a line for each change: TIME ID STATE
 *
 * Live: one list is asked for at a time; changes that come meanwhile make it be asked for again.
 *
 * Failure: the sentence of the service ends it; the terminal is put back as it was.
 */
#include "config.h"
#include "cmd_jobs.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "../cmd_all.h"
#include "job_args.h"
#include "jobs_table.h"
#include "libutil/clock.h"

#define COLUMNS "id,user,name:.24,state,ntasks,nnodes,time,info"
#define COLUMNS_WHY "id,user,name:.24,state,ntasks,nnodes,urgency,wait,expected,why"
#define DRAW_STEP 0.2
#define DRAW_AT_LEAST 1.0

#define KEY_WHY CMD_KEY(0)
#define KEY_WATCH CMD_KEY(1)
#define KEY_SINCE CMD_KEY(2)
#define KEY_NAME CMD_KEY(3)
#define KEY_COLOR CMD_KEY(4)

static const struct cmd_opt opts[] = {
    {'a', "all", NULL, "include ended jobs"},
    {'A', "all-users", NULL, "list the jobs of all users (default: your own)"},
    {'u', "user", "USER", "list the jobs of this user, or of 'all' users"},
    {'s', "states", "STATES",
     "list the jobs in these states: words of the column STATE\n"
     "(depend, held, pending, running, ending, completed, failed,\n"
     "canceled, timeout); queued (have no resources yet), active,\n"
     "inactive, all; or names of states in the event log:\n"
     "priority, sched, run, cleanup"},
    {KEY_NAME, "name", "NAME", "list the jobs with this name"},
    {'c', "count", "N", "list at most N jobs"},
    {KEY_SINCE, "since", "DURATION", "of the ended jobs, only those that ended within this time"},
    {'o', "format", "COLUMNS",
     "columns: id,name,state; +why adds a column to the default;\n"
     "'{id:>6} {name:20.20} {state}' is a template; 'help' lists\n"
     "the columns"},
    {'n', "no-header", NULL, "do not print the header line"},
    {'n', "suppress-header", NULL, NULL},
    {KEY_WHY, "why", NULL,
     "list pending jobs with the reason why they wait and the expected\n"
     "start time"},
    {KEY_WATCH, "watch", NULL, "update the list until interrupted"},
    {KEY_COLOR, "color", "WHEN", "use colors: auto (on terminals, the default), always, never"},
    {'j', "json", NULL, "print a JSON array with everything about each job"},
    CMD_OPT_END,
};
static const struct cmd_usage usage = {
    "[OPTION...] [ID...]",
    "List pending and running jobs, in the order of the queue. With ids (7, 1-10), list these\n"
    "jobs, including those that have ended.",
    opts,
    "Exit code 1 also when a job given by its id does not exist.",
    0,
};

struct jobs {
    struct cmd *c;
    flux_t *h;
    struct job_list query;
    struct job_args_shown shown;
    uint32_t max; /* to be shown; 0: all */
    const char *format;
    bool all, why, watch, json, header, colors;
    jobs_table_t *table;
    json_t *array;
    idset_t *missing; /* named and not seen yet */
    uint32_t taken;
    double now;
    /* live */
    flux_future_t *list, *changes;
    flux_watcher_t *timer;
    double drawn;
    bool dirty;
    int code;
};

static void screen(unsigned *width, unsigned *height)
{
    struct winsize ws;

    *width = *height = 0;
    if (isatty(STDOUT_FILENO) && ioctl(STDOUT_FILENO, TIOCGWINSZ, &ws) == 0) {
        *width = ws.ws_col;
        *height = ws.ws_row;
    }
}

/* --- once --- */

static int take_job(void *arg, const struct job_info *info, json_t *json)
{
    struct jobs *j = arg;

    if (j->missing && idset_clear(j->missing, (uint32_t)info->id) < 0)
        return cmd_error(j->c, "out of memory"), -1;
    if (!job_args_shown(&j->shown, info))
        return 0;
    /* More than were asked for are not shown, whatever the service says. */
    if (j->max && j->taken++ >= j->max)
        return 0;
    if (j->array) {
        if (jobs_json(json, info) < 0 || json_array_append(j->array, json) < 0)
            return cmd_error(j->c, "out of memory"), -1;
        return 0;
    }
    if (jobs_table_add(j->table, info, j->now) < 0)
        return cmd_error(j->c, "out of memory"), -1;
    return 0;
}

/* Of those that were named: say which are not there.  What other options leave out may be. */
static int tell_missing(struct jobs *j)
{
    bool some = j->max || j->query.name || j->query.since > 0. ||
                (j->query.states && j->query.states != JOB_STATES_ALL);
    char *missing = NULL;
    int code = CMD_OK;

    if (!idset_empty(j->missing) && !some && (missing = idset_format(j->missing, 0)))
        code = cmd_error(j->c, "there is no job %s", missing);
    free(missing);
    return code;
}

static int list_once(struct jobs *j)
{
    struct jobs_print p = {.header = j->header, .colors = j->colors};
    unsigned height;
    int code = CMD_OK;

    screen(&p.width, &height);
    if (j->json && !(j->array = json_array()))
        return cmd_error(j->c, "out of memory");
    if (j->query.ids && !(j->missing = idset_parse(j->query.ids, NULL)))
        return cmd_error(j->c, "out of memory");
    j->now = clock_wall();
    if (job_args_list(j->c, j->h, &j->query, take_job, j) < 0)
        return CMD_FAIL;
    if (j->json)
        code = cmd_print_json(j->c, json_incref(j->array));
    else
        jobs_table_print(j->table, stdout, &p);
    return tell_missing(j) == CMD_OK ? code : CMD_FAIL;
}

/* --- live --- */

static int see_job(void *arg, const struct job_info *info, json_t *json)
{
    struct jobs *j = arg;

    if (idset_clear(j->missing, (uint32_t)info->id) < 0)
        return cmd_error(j->c, "out of memory"), -1;
    return 0;
}

/* Nothing would ever be reported of a job that does not exist. */
static int find_named(struct jobs *j)
{
    struct job_list q;

    if (!j->query.ids)
        return CMD_OK;
    flux_job_list_init(&q);
    q.ids = j->query.ids;
    if (!(j->missing = idset_parse(j->query.ids, NULL)))
        return cmd_error(j->c, "out of memory");
    if (job_args_list(j->c, j->h, &q, see_job, j) < 0)
        return CMD_FAIL;
    return tell_missing(j);
}

static void live_stop(struct jobs *j, int code)
{
    j->code = code;
    flux_reactor_stop(flux_get_reactor(j->h), 0);
}

static void live_fail(struct jobs *j, const char *text)
{
    live_stop(j, cmd_error(j->c, "%s", text));
}

static void draw(struct jobs *j)
{
    struct jobs_print p = {.header = j->header, .colors = j->colors, .tail = "\033[K"};
    unsigned height;
    char when[64];
    time_t sec = (time_t)j->now;
    struct tm tm;

    screen(&p.width, &height);
    localtime_r(&sec, &tm);
    strftime(when, sizeof(when), "%H:%M:%S", &tm);
    printf("\033[H%s  %zu job%s\033[K\n", when, jobs_table_rows(j->table),
           jobs_table_rows(j->table) == 1 ? "" : "s");
    if (height > 4)
        p.rows = height - 3;
    jobs_table_print(j->table, stdout, &p);
    fputs("\033[J", stdout);
    fflush(stdout);
    j->drawn = j->now;
}

static void ask_list(struct jobs *j);

static void list_cb(flux_future_t *f, void *arg)
{
    struct jobs *j = arg;
    const json_t *jobs;
    errmsg_t err;

    if (flux_future_errnum(f) == ENODATA) {
        j->now = clock_wall();
        draw(j);
        flux_future_destroy(f);
        j->list = NULL;
        return;
    }
    if (flux_job_list_get(f, &jobs, &err) < 0) {
        live_fail(j, err.text);
        return;
    }
    for (size_t i = 0; i < json_array_size(jobs); i++) {
        struct job_info info = {0};

        if (flux_job_list_at(jobs, i, &info, &err) < 0 ||
            (job_args_shown(&j->shown, &info) && (!j->max || j->taken++ < j->max) &&
             jobs_table_add(j->table, &info, j->now) < 0)) {
            live_fail(j, errno == ENOMEM ? "out of memory" : err.text);
            return;
        }
    }
    flux_future_next(f);
}

static void ask_list(struct jobs *j)
{
    j->dirty = false;
    j->taken = 0;
    j->now = clock_wall();
    jobs_table_clear(j->table);
    if (!(j->list = flux_job_list(j->h, &j->query)) ||
        flux_future_then(j->list, -1., list_cb, j) < 0)
        live_fail(j, "out of memory");
}

static void timer_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    struct jobs *j = arg;

    if (!j->list && (j->dirty || clock_wall() - j->drawn >= DRAW_AT_LEAST))
        ask_list(j);
}

/* Elsewhere than on a terminal. */
static void print_changes(struct jobs *j, const json_t *transitions)
{
    for (size_t i = 0; i < json_array_size(transitions); i++) {
        enum job_state state;
        uint64_t id;
        double t;
        errmsg_t err;
        struct job_info info = {.urgency = JOB_URGENCY_DEFAULT};

        if (flux_job_watch_at(transitions, i, &id, &state, &t, &err) < 0) {
            live_fail(j, err.text);
            return;
        }
        if (j->query.states && !(j->query.states & JOB_STATE_BIT(state)))
            continue;
        info.state = job_state_name(state);
        if (state != JOB_STATE_INACTIVE && !job_args_shown(&j->shown, &info))
            continue;
        printf("%.6f %" PRIu64 " %s\n", t, id, flux_job_state_word(&info));
    }
    fflush(stdout);
    if (ferror(stdout))
        live_stop(j, CMD_FAIL);
}

static void changes_cb(flux_future_t *f, void *arg)
{
    struct jobs *j = arg;
    const json_t *transitions;
    errmsg_t err;

    if (flux_job_watch_get(f, &transitions, &err) < 0) {
        if (errno == ENODATA)
            live_stop(j, CMD_OK);
        else
            live_fail(j, err.text);
        return;
    }
    j->dirty = true;
    if (!j->timer)
        print_changes(j, transitions);
    flux_future_next(f);
}

static void interrupted_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    live_stop(arg, CMD_OK);
}

static int live(struct jobs *j)
{
    flux_reactor_t *r = flux_get_reactor(j->h);
    flux_watcher_t *sig[2] = {flux_signal_watcher_create(r, SIGINT, interrupted_cb, j),
                              flux_signal_watcher_create(r, SIGTERM, interrupted_cb, j)};
    bool tty = isatty(STDOUT_FILENO);

    j->changes = flux_job_watch(j->h, j->query.ids);
    if (tty)
        j->timer = flux_timer_create(r, timer_cb, j);
    if (!sig[0] || !sig[1] || !j->changes || (tty && !j->timer) ||
        flux_future_then(j->changes, -1., changes_cb, j) < 0) {
        j->code = cmd_error(j->c, "out of memory");
    } else {
        flux_watcher_start(sig[0]);
        flux_watcher_start(sig[1]);
        if (tty) {
            /* a second screen, without cursor: what was there comes back */
            fputs("\033[?1049h\033[?25l\033[H\033[J", stdout);
            flux_timer_start(j->timer, 0., DRAW_STEP);
        }
        bool lost = flux_run(j->h) < 0;
        if (tty) {
            fputs("\033[?25h\033[?1049l", stdout);
            fflush(stdout);
        }
        if (lost)
            j->code = cmd_error(j->c, "the connection to the broker was lost");
    }
    flux_watcher_destroy(sig[0]);
    flux_watcher_destroy(sig[1]);
    flux_watcher_destroy(j->timer);
    flux_future_destroy(j->list);
    flux_future_destroy(j->changes);
    return j->code;
}

/* --- options --- */

static int take_option(struct jobs *j, int key, const char *val)
{
    double since;

    switch (key) {
    case 'a':
        j->all = true;
        return 0;
    case 'A':
        j->query.user = -1;
        return 0;
    case 'u':
        return job_args_user(j->c, "--user", val, &j->query.user);
    case 's':
        return job_args_states(j->c, "--states", val, &j->query.states, &j->shown);
    case KEY_NAME:
        j->query.name = val;
        return 0;
    case 'c':
        return cmd_parse_u32(j->c, "--count", val, &j->max);
    case KEY_SINCE:
        /* "-15m", relative to now, says the same. */
        if (cmd_parse_duration(j->c, "--since", val + (*val == '-'), &since) < 0)
            return -1;
        j->query.since = since < clock_wall() ? clock_wall() - since : 0.;
        j->all = true;
        return 0;
    case 'o':
        j->format = val;
        return 0;
    case 'n':
        j->header = false;
        return 0;
    case KEY_WHY:
        j->why = true;
        return 0;
    case KEY_WATCH:
        j->watch = true;
        return 0;
    case KEY_COLOR:
        if (strcmp(val, "auto") == 0)
            return 0;
        j->colors = strcmp(val, "always") == 0;
        if (!j->colors && strcmp(val, "never") != 0)
            return cmd_usage_error(j->c, "--color: '%s' is not one of auto, always, never", val),
                   -1;
        return 0;
    default:
        j->json = true;
        return 0;
    }
}

static int run(struct jobs *j)
{
    const char *spec = j->format ? j->format : j->why ? COLUMNS_WHY : COLUMNS;
    errmsg_t err;

    if (!(j->table = jobs_table_create(spec, j->why ? COLUMNS_WHY : COLUMNS, &err)))
        return cmd_usage_error(j->c, "--format: %s", err.text);
    j->query.estimates = j->why || jobs_table_estimates(j->table);
    j->query.max = job_args_exact(&j->shown) ? j->max : 0; /* the service does not know all words */
    if (j->why && !j->query.states && !j->query.ids && !j->all)
        j->query.states = JOB_STATES_PENDING;
    if (j->all && !j->query.states)
        j->query.states = JOB_STATES_ALL;
    if (j->watch)
        cmd_returns(j->c);
    if (!(j->h = j->watch ? cmd_handle_signals(j->c) : cmd_handle(j->c)))
        return CMD_FAIL;
    if (!j->watch)
        return list_once(j);
    return find_named(j) == CMD_OK ? live(j) : CMD_FAIL;
}

int jobs_main(struct cmd *c, int argc, char **argv, bool all)
{
    struct jobs j = {.c = c, .all = all, .header = true};
    const char *val, *no_color = getenv("NO_COLOR");
    idset_t *ids = NULL;
    char *text = NULL;
    int key, code;

    flux_job_list_init(&j.query);
    j.query.user = getuid();
    j.colors = isatty(STDOUT_FILENO) && !(no_color && *no_color);
    while ((key = cmd_option(c, &usage, argc, argv, &val)) > 0) {
        if (take_option(&j, key, val) < 0)
            return CMD_USAGE;
    }
    if (key < 0)
        return cmd_option_exit(key);
    if (j.format && strcmp(j.format, "help") == 0) {
        jobs_table_help(stdout);
        return CMD_OK;
    }
    if (j.watch && j.json)
        return cmd_usage_error(c, "--watch cannot be combined with --json");
    argc -= c->optind, argv += c->optind;
    if (argc > 0) {
        if (!(ids = job_args_ids(c, argc, argv)))
            return CMD_USAGE;
        text = job_args_format(c, ids);
        idset_destroy(ids);
        if (!text)
            return CMD_FAIL;
        j.query.ids = text;
        j.query.user = -1;
    }
    code = run(&j);
    jobs_table_destroy(j.table);
    json_decref(j.array);
    idset_destroy(j.missing);
    free(text);
    return code;
}

int cmd_jobs(struct cmd *c, int argc, char **argv)
{
    return jobs_main(c, argc, argv, false);
}

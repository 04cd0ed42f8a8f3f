/* jobs_columns.c - the columns of a list of jobs.
 *
 * A table maps the name of a column to the function that writes its cell.  Cells are text for
 * users; flux jobs --json prints the values themselves.
 */
#include "config.h"
#include "jobs_columns.h"

#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "jobs_table.h"
#include "libsubprocess/spawn.h"
#include "libutil/duration.h"

/* --- texts --- */

const char *jobs_user_name(uint32_t uid, char *buf, size_t size)
{
    struct passwd *pw = getpwuid(uid);

    if (pw)
        snprintf(buf, size, "%s", pw->pw_name);
    else
        snprintf(buf, size, "%u", uid);
    return buf;
}

int jobs_json(json_t *json, const struct job_info *info)
{
    const char *word = flux_job_state_word(info);
    char buf[64];

    /* `state` last: info->state is a part of the JSON that it replaces. */
    if (json_object_set_new(json, "user",
                            json_string(jobs_user_name(info->uid, buf, sizeof(buf)))) < 0 ||
        (info->state && json_object_set_new(json, "rawstate", json_string(info->state)) < 0))
        return -1;
    return json_object_set_new(json, "state", json_string(word));
}

char *jobs_time_text(double seconds, char *buf, size_t size)
{
    uint64_t s = seconds > 0. ? (uint64_t)seconds : 0;
    unsigned d = (unsigned)(s / 86400), h = s / 3600 % 24, m = s / 60 % 60, sec = s % 60;

    if (seconds > 1e12)
        snprintf(buf, size, "inf");
    else if (seconds < 10.)
        snprintf(buf, size, "%.2fs", seconds > 0. ? seconds : 0.);
    else if (s < 60)
        snprintf(buf, size, "%us", sec);
    else if (s < 3600)
        snprintf(buf, size, "%u:%02u", m, sec);
    else if (d == 0)
        snprintf(buf, size, "%u:%02u:%02u", h, m, sec);
    else
        snprintf(buf, size, "%ud%02u:%02u", d, h, m);
    return buf;
}

/* --- cells: write to `buf`, which holds "" --- */

static void put(struct jobs_cell *c, const char *s)
{
    snprintf(c->text, sizeof(c->text), "%s", s ? s : "");
}

static void put_clock(struct jobs_cell *c, double t)
{
    time_t sec, now = (time_t)c->now;
    struct tm tm, today;

    if (t <= 0.)
        return;
    if (!(t <= JOBS_TIME_MAX)) {
        put(c, "never");
        return;
    }
    sec = (time_t)t;
    if (!localtime_r(&sec, &tm) || !localtime_r(&now, &today))
        return;
    if (tm.tm_year == today.tm_year && tm.tm_yday == today.tm_yday)
        strftime(c->text, sizeof(c->text), "%H:%M:%S", &tm);
    else
        strftime(c->text, sizeof(c->text), "%Y-%m-%dT%H:%M", &tm);
}

static void put_time(struct jobs_cell *c, double seconds)
{
    jobs_time_text(seconds, c->text, sizeof(c->text));
}

static void put_u64(struct jobs_cell *c, uint64_t n)
{
    snprintf(c->text, sizeof(c->text), "%llu", (unsigned long long)n);
}

#define CELL(name) static void cell_##name(struct jobs_cell *c, const struct job_info *i)
#define CELL_U64(name, member) \
    CELL(name)                 \
    {                          \
        put_u64(c, i->member); \
    }
#define CELL_STR(name, member) \
    CELL(name)                 \
    {                          \
        put(c, i->member);     \
    }
#define CELL_CLOCK(name, member) \
    CELL(name)                   \
    {                            \
        put_clock(c, i->member); \
    }

CELL_U64(id, id)
CELL_U64(uid, uid)
CELL_U64(nnodes, nnodes)
CELL_U64(ntasks, ntasks)
CELL_U64(ncores, ncores)
CELL_STR(name, name)
CELL_STR(rawstate, state)
CELL_STR(ranks, ranks)
CELL_STR(nodelist, nodelist)
CELL_STR(switches, switches)
CELL_STR(result, result)
CELL_STR(exception, exception)
CELL_STR(note, note)
CELL_STR(uri, uri)
CELL_STR(dependency, dependency)
CELL_CLOCK(t_submit, t_submit)
CELL_CLOCK(t_depend, t_depend)
CELL_CLOCK(t_run, t_run)
CELL_CLOCK(t_cleanup, t_cleanup)
CELL_CLOCK(t_inactive, t_inactive)
CELL_CLOCK(expiration, expiration)

CELL(hops)
{
    if (i->switches)
        snprintf(c->text, sizeof(c->text), "%.2f", i->hops);
}

CELL(urgency)
{
    put_u64(c, i->urgency > 0 ? (uint64_t)i->urgency : 0);
}

CELL(priority)
{
    snprintf(c->text, sizeof(c->text), "%lld", (long long)i->priority);
}

CELL(user)
{
    if (!c->has_user || c->uid != i->uid) {
        jobs_user_name(i->uid, c->user, sizeof(c->user));
        c->uid = i->uid;
        c->has_user = true;
    }
    put(c, c->user);
}

CELL(state)
{
    put(c, flux_job_state_word(i));
}

/* As other versions of Flux abbreviate it. */
CELL(abbrev)
{
    static const char *const results[][2] = {
        {"completed", "CD"}, {"failed", "F"}, {"canceled", "CA"}, {"timeout", "TO"}};
    int state = i->state ? job_state_parse(i->state) : -1;

    if (state < 0)
        put(c, "?");
    else if (JOB_STATE_BIT(state) & JOB_STATES_PENDING)
        put(c, "PD");
    else if (JOB_STATE_BIT(state) & JOB_STATES_RUNNING)
        put(c, "R");
    for (size_t k = 0; i->result && k < sizeof(results) / sizeof(*results); k++) {
        if (strcmp(i->result, results[k][0]) == 0)
            put(c, results[k][1]);
    }
}

CELL(code)
{
    if (i->result)
        snprintf(c->text, sizeof(c->text), "%d", i->code);
}

CELL(limit)
{
    if (i->duration > 0.)
        duration_format(i->duration, c->text, sizeof(c->text));
}

CELL(time)
{
    double end = i->t_cleanup > 0. ? i->t_cleanup : i->t_inactive > 0. ? i->t_inactive : c->now;

    if (i->t_run > 0.)
        put_time(c, end - i->t_run);
}

CELL(wait)
{
    double end = i->t_run > 0. ? i->t_run : i->t_inactive > 0. ? i->t_inactive : c->now;

    if (i->t_submit > 0.)
        put_time(c, end - i->t_submit);
}

CELL(left)
{
    if (i->expiration > 0. && !i->result)
        put_time(c, i->expiration - c->now);
}

CELL(expected)
{
    if (i->t_estimate > 0. && i->t_run <= 0. && !i->result) {
        if (i->t_estimate - c->now < 1.)
            put(c, "now");
        else
            put_clock(c, i->t_estimate);
    }
}

/* "afterok:7,begin-time:1795268515.2": print the number as a time. */
static void put_dependency(struct jobs_cell *c, const char *text)
{
    static const char scheme[] = "begin-time:";
    const char *at = strstr(text, scheme);
    char when[32], *end;

    if (at) {
        put_clock(c, strtod(at + sizeof(scheme) - 1, &end));
        snprintf(when, sizeof(when), "%.31s", c->text);
        snprintf(c->text, sizeof(c->text), "waits for %.*sbegin-time %s%s", (int)(at - text), text,
                 when, end);
    } else {
        snprintf(c->text, sizeof(c->text), "waits for %s", text);
    }
}

CELL(why)
{
    if (i->dependency && i->t_run <= 0. && !i->result)
        put_dependency(c, i->dependency);
    else
        put(c, i->why);
}

CELL(canceled_by)
{
    if (i->canceled_by >= 0)
        jobs_user_name((uint32_t)i->canceled_by, c->text, sizeof(c->text));
}

/* The first that failed, and how many more did. */
CELL(failed)
{
    size_t count = job_failed_count(i->failed);
    struct job_failed f;
    char more[40] = "", text[128];

    if (job_failed_at(i->failed, 0, &f) < 0)
        return;
    if (count > 1)
        snprintf(more, sizeof(more), ", and %zu more", count - 1);
    snprintf(c->text, sizeof(c->text), "task %u on %.255s: %s%s", f.task,
             f.host[0] ? f.host : "its node", spawn_status_text(f.status, text, sizeof(text)),
             more);
}

/* What matters most of the job, in its state. */
CELL(info)
{
    char name[64];

    if (i->why && i->t_run > 0.) /* nothing that it says of the job is on record */
        put(c, i->why);
    else if (i->canceled_by >= 0 && i->result)
        snprintf(c->text, sizeof(c->text), "%s by %s%s%s", i->exception ? i->exception : "cancel",
                 jobs_user_name((uint32_t)i->canceled_by, name, sizeof(name)), i->note ? ": " : "",
                 i->note ? i->note : "");
    else if (i->exception && i->result && strcmp(i->result, "completed") != 0)
        snprintf(c->text, sizeof(c->text), "%s%s%s", i->exception, i->note ? ": " : "",
                 i->note ? i->note : "");
    else if (i->result && i->code)
        snprintf(c->text, sizeof(c->text), "exit code %d", i->code);
    else if (i->nodelist)
        put(c, i->nodelist);
    else if (i->ranks)
        put(c, i->ranks);
    else
        cell_why(c, i);
}

static const struct jobs_column columns[] = {
    {"id", "ID", true, cell_id, "id of the job", false},
    {"id.f58", "ID", true, cell_id, "the same, for workflow tools", false},
    {"user", "USER", false, cell_user, "user who submitted it", false},
    {"uid", "UID", true, cell_uid, "user number", false},
    {"name", "NAME", false, cell_name, "name of the job, or of its program", false},
    {"state", "STATE", false, cell_state, "depend, held, pending, running, ending, or the result",
     false},
    {"status_abbrev", "ST", false, cell_abbrev, "state or result as PD, R, CD, F, CA, TO", false},
    {"rawstate", "RAWSTATE", false, cell_rawstate,
     "state in the event log: DEPEND, PRIORITY, SCHED, RUN, CLEANUP, INACTIVE", false},
    {"ntasks", "TASKS", true, cell_ntasks, "number of tasks", false},
    {"nnodes", "NODES", true, cell_nnodes, "number of nodes", false},
    {"ncores", "CORES", true, cell_ncores, "number of cores", false},
    {"time", "TIME", true, cell_time, "time that it has run", false},
    {"wait", "WAIT", true, cell_wait, "time that it has waited", false},
    {"limit", "LIMIT", true, cell_limit, "time limit", false},
    {"left", "LEFT", true, cell_left, "time left until the time limit", false},
    {"urgency", "URG", true, cell_urgency, "0 (held) to 31", false},
    {"priority", "PRI", true, cell_priority, "priority in the queue", false},
    {"submitted", "SUBMITTED", false, cell_t_submit, "time of submission", false},
    {"ready", "READY", false, cell_t_depend, "time at which its dependencies were satisfied",
     false},
    {"started", "STARTED", false, cell_t_run, "time at which its resources were allocated", false},
    {"finished", "FINISHED", false, cell_t_cleanup, "time at which its tasks had ended", false},
    {"ended", "ENDED", false, cell_t_inactive, "time at which its resources were released", false},
    {"expires", "EXPIRES", false, cell_expiration, "time at which its time limit is reached",
     false},
    {"expected", "EXPECTED", false, cell_expected, "expected start time", true},
    {"why", "WHY", false, cell_why, "reason why it waits", true},
    {"dependency", "DEPENDENCY", false, cell_dependency, "dependencies that are not satisfied",
     false},
    {"ranks", "RANKS", false, cell_ranks, "ranks of its nodes", false},
    {"nodelist", "NODELIST", false, cell_nodelist, "names of its nodes", false},
    {"switches", "SWITCHES", false, cell_switches, "leaf switches that its nodes are on", false},
    {"hops", "HOPS", true, cell_hops, "mean hops between two of its nodes", false},
    {"result", "RESULT", false, cell_result, "completed, failed, canceled, timeout", false},
    {"code", "CODE", true, cell_code, "exit code", false},
    {"exception", "EXCEPTION", false, cell_exception, "type of the exception that ended it", false},
    {"note", "NOTE", false, cell_note, "description of that exception", false},
    {"canceled_by", "CANCELED_BY", false, cell_canceled_by, "user who canceled it", false},
    {"failed", "FAILED", false, cell_failed, "first task that failed", false},
    {"uri", "URI", false, cell_uri, "address of the session that the job is", false},
    {"info", "INFO", false, cell_info, "nodes, reason why it waits, or how it ended", true},
};
#define NCOLUMNS (sizeof(columns) / sizeof(*columns))

void jobs_table_help(FILE *f)
{
    for (size_t i = 0; i < NCOLUMNS; i++)
        fprintf(f, "  %-14s%s\n", columns[i].name, columns[i].help);
}

const struct jobs_column *jobs_column_find(const char *name, size_t len)
{
    for (size_t i = 0; i < NCOLUMNS; i++) {
        if (strlen(columns[i].name) == len && strncasecmp(columns[i].name, name, len) == 0)
            return &columns[i];
    }
    return NULL;
}

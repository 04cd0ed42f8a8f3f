/* jobs_table.c - a list of jobs as text.
 *
 * A table maps names of columns to functions that write a cell.  Cells are kept as text, in one
 * growing buffer, since widths are known only when all rows are there.
 *
 * What services say about jobs (names, notes) is the users': control characters and malformed UTF-8
 * become '?', so that a name cannot paint on somebody's terminal.
 */
#include "config.h"
#include "jobs_table.h"

#include <errno.h>
#include <math.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "libutil/duration.h"
#include "libutil/strbuf.h"
#include "libutil/strutil.h"

#define COLUMNS_MAX 64
#define CELL_MAX 1024

/* --- texts --- */

const char *jobs_state_text(const struct job_info *info)
{
    int state = info->state ? job_state_parse(info->state) : -1;

    switch (state) {
    case JOB_STATE_DEPEND:
        return "depend";
    case JOB_STATE_PRIORITY:
        return "held";
    case JOB_STATE_SCHED:
        return info->urgency == JOB_URGENCY_HOLD ? "held" : "pending";
    case JOB_STATE_RUN:
        return "running";
    case JOB_STATE_CLEANUP:
        return "ending";
    case JOB_STATE_INACTIVE:
        return info->result ? info->result : "ended";
    default:
        return info->state ? info->state : "?";
    }
}

const char *jobs_user_name(uint32_t uid, char *buf, size_t size)
{
    struct passwd *pw = getpwuid(uid);

    if (pw)
        snprintf(buf, size, "%s", pw->pw_name);
    else
        snprintf(buf, size, "%u", uid);
    return buf;
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

struct cell {
    char text[CELL_MAX];
    double now;
    /* the last user that was looked up */
    bool has_user;
    uint32_t uid;
    char user[64];
};

static void put(struct cell *c, const char *s)
{
    snprintf(c->text, sizeof(c->text), "%s", s ? s : "");
}

static void put_clock(struct cell *c, double t)
{
    time_t sec = (time_t)t;
    struct tm tm, today;
    time_t now = (time_t)c->now;

    if (t <= 0.)
        return;
    localtime_r(&sec, &tm);
    localtime_r(&now, &today);
    if (tm.tm_year == today.tm_year && tm.tm_yday == today.tm_yday)
        strftime(c->text, sizeof(c->text), "%H:%M:%S", &tm);
    else
        strftime(c->text, sizeof(c->text), "%Y-%m-%dT%H:%M", &tm);
}

static void put_time(struct cell *c, double seconds)
{
    jobs_time_text(seconds, c->text, sizeof(c->text));
}

static void put_u64(struct cell *c, uint64_t n)
{
    snprintf(c->text, sizeof(c->text), "%llu", (unsigned long long)n);
}

#define CELL(name) static void cell_##name(struct cell *c, const struct job_info *i)
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
    put(c, jobs_state_text(i));
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

/* "afterok:7,begin-time:1795268515.2": the time is told as one. */
static void put_dependency(struct cell *c, const char *text)
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
    if (i->t_run > 0. || i->result)
        return;
    if (i->dependency)
        put_dependency(c, i->dependency);
    else
        put(c, i->why);
}

/* What matters most of the job, in its state. */
CELL(info)
{
    if (i->exception && i->result && strcmp(i->result, "completed") != 0)
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

static const struct column {
    const char *name;
    const char *title;
    bool right;
    void (*fill)(struct cell *c, const struct job_info *i);
    const char *help;
    bool estimates;
} columns[] = {
    {"id", "ID", true, cell_id, "number of the job", false},
    {"user", "USER", false, cell_user, "who submitted it", false},
    {"uid", "UID", true, cell_uid, "his number", false},
    {"name", "NAME", false, cell_name, "its name, or the program's", false},
    {"state", "STATE", false, cell_state, "depend, held, pending, running, ending, or how it ended",
     false},
    {"rawstate", "RAWSTATE", false, cell_rawstate,
     "DEPEND, PRIORITY, SCHED, RUN, CLEANUP, INACTIVE", false},
    {"ntasks", "TASKS", true, cell_ntasks, "tasks", false},
    {"nnodes", "NODES", true, cell_nnodes, "nodes", false},
    {"ncores", "CORES", true, cell_ncores, "cores", false},
    {"time", "TIME", true, cell_time, "how long it has run", false},
    {"wait", "WAIT", true, cell_wait, "how long it waited", false},
    {"limit", "LIMIT", true, cell_limit, "its time limit", false},
    {"left", "LEFT", true, cell_left, "how much of that is left", false},
    {"urgency", "URG", true, cell_urgency, "0 (held) to 31", false},
    {"priority", "PRI", true, cell_priority, "priority in the queue", false},
    {"submitted", "SUBMITTED", false, cell_t_submit, "when it was submitted", false},
    {"ready", "READY", false, cell_t_depend, "when it waited for other jobs no longer", false},
    {"started", "STARTED", false, cell_t_run, "when it got its resources", false},
    {"finished", "FINISHED", false, cell_t_cleanup, "when its tasks had ended", false},
    {"ended", "ENDED", false, cell_t_inactive, "when it was over", false},
    {"expires", "EXPIRES", false, cell_expiration, "when its time is up", false},
    {"expected", "EXPECTED", false, cell_expected, "when it is expected to start", true},
    {"why", "WHY", false, cell_why, "why it waits", true},
    {"dependency", "DEPENDENCY", false, cell_dependency, "what it still waits for", false},
    {"ranks", "RANKS", false, cell_ranks, "numbers of its nodes", false},
    {"nodelist", "NODELIST", false, cell_nodelist, "names of its nodes", false},
    {"result", "RESULT", false, cell_result, "completed, failed, canceled, timeout", false},
    {"code", "CODE", true, cell_code, "its exit code", false},
    {"exception", "EXCEPTION", false, cell_exception, "kind of what ended it", false},
    {"note", "NOTE", false, cell_note, "the sentence to that", false},
    {"uri", "URI", false, cell_uri, "of the session that it is", false},
    {"info", "INFO", false, cell_info, "its nodes, why it waits, or how it ended", true},
};
#define NCOLUMNS (sizeof(columns) / sizeof(*columns))

void jobs_table_help(FILE *f)
{
    for (size_t i = 0; i < NCOLUMNS; i++)
        fprintf(f, "  %-12s%s\n", columns[i].name, columns[i].help);
}

/* --- the format --- */

struct part {
    const struct column *column;
    bool right;
    bool fixed; /* width is given: not as wide as the widest */
    unsigned width;
    unsigned max; /* 0: not cut */
    char *before; /* what stands before it; NULL: two blanks, unless it is the first */
};

struct jobs_table {
    struct part part[COLUMNS_MAX];
    size_t nparts;
    char *after; /* what stands behind the last part */
    bool template;
    /* cells: offsets into `text`, nparts each row; states for colours */
    struct cell c;
    strbuf_t *text;
    size_t *cell;
    const struct colour **colour;
    size_t nrows, room;
};

struct colour {
    const char *state;
    const char *code;
};
static const struct colour colours[] = {
    {"running", "\033[32m"}, {"ending", "\033[36m"},   {"failed", "\033[31m"},
    {"timeout", "\033[31m"}, {"canceled", "\033[33m"}, {"completed", "\033[2m"},
    {"depend", "\033[34m"},  {"held", "\033[35m"},
};

static const struct colour *find_colour(const char *state)
{
    for (size_t i = 0; i < sizeof(colours) / sizeof(*colours); i++) {
        if (strcmp(colours[i].state, state) == 0)
            return &colours[i];
    }
    return NULL;
}

static int add_part(jobs_table_t *t, const char *name, size_t len, errmsg_t *err)
{
    if (t->nparts == COLUMNS_MAX)
        return errmsg_fail(err, EINVAL, "more than %d columns", COLUMNS_MAX);
    for (size_t i = 0; i < NCOLUMNS; i++) {
        struct part *p = &t->part[t->nparts];

        if (strlen(columns[i].name) != len || strncasecmp(columns[i].name, name, len) != 0)
            continue;
        p->column = &columns[i];
        p->right = columns[i].right;
        t->nparts++;
        return 0;
    }
    return errmsg_fail(err, EINVAL, "there is no column '%.*s'; 'flux jobs -o help' lists them",
                       len > 40 ? 40 : (int)len, name);
}

/* "[<>]WIDTH[.MAX]" */
static int parse_width(struct part *p, const char *s, const char *end, errmsg_t *err)
{
    char *after;

    if (*s == '<' || *s == '>')
        p->right = *s++ == '>';
    if (s < end && *s >= '0' && *s <= '9') {
        p->width = (unsigned)strtoul(s, &after, 10);
        s = after;
    }
    if (s < end && *s == '.') {
        p->max = (unsigned)strtoul(s + 1, &after, 10);
        s = after;
    }
    if (s != end || p->width > CELL_MAX || p->max > CELL_MAX)
        return errmsg_fail(err, EINVAL, "'%s' has a width that is not [<>]WIDTH[.MAX]",
                           p->column->name);
    return 0;
}

static int parse_list(jobs_table_t *t, const char *spec, errmsg_t *err)
{
    while (*spec) {
        size_t len = strcspn(spec, ","), name = strcspn(spec, ",:");

        if (add_part(t, spec, name, err) < 0 ||
            (name < len &&
             parse_width(&t->part[t->nparts - 1], spec + name + 1, spec + len, err) < 0))
            return -1;
        spec += len + (spec[len] == ',');
    }
    return t->nparts ? 0 : errmsg_fail(err, EINVAL, "no column is named");
}

static int parse_template(jobs_table_t *t, const char *spec, errmsg_t *err)
{
    t->template = true;
    while (*spec) {
        const char *open = strchr(spec, '{'), *close = open ? strchr(open, '}') : NULL, *colon;
        char *lead = strndup(spec, open ? (size_t)(open - spec) : strlen(spec));

        if (!lead)
            return errmsg_fail(err, ENOMEM, "out of memory");
        if (!open) {
            t->after = lead;
            break;
        }
        if (!close) {
            free(lead);
            return errmsg_fail(err, EINVAL, "a '{' is not closed");
        }
        colon = memchr(open, ':', (size_t)(close - open));
        if (add_part(t, open + 1, (size_t)((colon ? colon : close) - open - 1), err) < 0) {
            free(lead);
            return -1;
        }
        struct part *p = &t->part[t->nparts - 1];
        p->before = lead;
        p->fixed = true;
        if (colon && parse_width(p, colon + 1, close, err) < 0)
            return -1;
        spec = close + 1;
    }
    return t->nparts ? 0 : errmsg_fail(err, EINVAL, "no column is named");
}

jobs_table_t *jobs_table_create(const char *spec, const char *defaults, errmsg_t *err)
{
    jobs_table_t *t = calloc(1, sizeof(*t));
    int rc;

    if (!t || !(t->text = strbuf_create(0))) {
        free(t);
        errmsg_fail(err, ENOMEM, "out of memory");
        return NULL;
    }
    if (strchr(spec, '{'))
        rc = parse_template(t, spec, err);
    else if (*spec == '+')
        rc = parse_list(t, defaults, err) < 0 ? -1 : parse_list(t, spec + 1, err);
    else
        rc = parse_list(t, spec, err);
    if (rc < 0) {
        jobs_table_destroy(t);
        return NULL;
    }
    return t;
}

void jobs_table_destroy(jobs_table_t *t)
{
    int saved = errno;

    if (!t)
        return;
    for (size_t i = 0; i < t->nparts; i++)
        free(t->part[i].before);
    free(t->after);
    strbuf_destroy(t->text);
    free(t->cell);
    free(t->colour);
    free(t);
    errno = saved;
}

void jobs_table_clear(jobs_table_t *t)
{
    strbuf_trunc(t->text, 0);
    t->nrows = 0;
}

size_t jobs_table_rows(const jobs_table_t *t)
{
    return t->nrows;
}

bool jobs_table_estimates(const jobs_table_t *t)
{
    for (size_t i = 0; i < t->nparts; i++) {
        if (t->part[i].column->estimates)
            return true;
    }
    return false;
}

/* --- rows --- */

/* Nothing that a terminal takes for a command. */
static void clean(char *s)
{
    size_t len = strlen(s), good;

    while ((good = str_utf8_span(s, len)) < len) {
        s[good] = '?';
    }
    for (unsigned char *p = (unsigned char *)s; *p; p++) {
        if (*p < 0x20 || *p == 0x7f)
            *p = '?';
        else if (*p == 0xc2 && p[1] >= 0x80 && p[1] < 0xa0)
            p[0] = p[1] = '?';
    }
}

static unsigned columns_of(const char *s)
{
    unsigned n = 0;

    for (; *s; s++)
        n += ((unsigned char)*s & 0xc0) != 0x80;
    return n;
}

int jobs_table_add(jobs_table_t *t, const struct job_info *info, double now)
{
    struct cell *c = &t->c;

    c->now = now;
    if (t->nrows == t->room) {
        size_t room = t->room ? 2 * t->room : 64;
        size_t *cell = realloc(t->cell, room * t->nparts * sizeof(*cell));
        const struct colour **colour;

        if (!cell)
            return -1;
        t->cell = cell;
        if (!(colour = realloc(t->colour, room * sizeof(*colour))))
            return -1;
        t->colour = colour;
        t->room = room;
    }
    for (size_t i = 0; i < t->nparts; i++) {
        c->text[0] = '\0';
        t->part[i].column->fill(c, info);
        clean(c->text);
        t->cell[t->nrows * t->nparts + i] = strbuf_len(t->text);
        if (strbuf_addn(t->text, c->text, strlen(c->text) + 1) < 0)
            return -1;
    }
    t->colour[t->nrows++] = find_colour(jobs_state_text(info));
    return 0;
}

/* --- printing --- */

/* Where a line stands; what is beyond the screen is not written. */
struct line {
    FILE *f;
    unsigned at, width;
    unsigned blanks; /* written only when something follows */
};

static void line_blanks(struct line *l, unsigned n)
{
    l->blanks += n;
}

static void line_text(struct line *l, const char *s, unsigned max, const char *colour)
{
    unsigned n = 0;
    const char *p = s;

    if (!*s || (l->width && l->at + l->blanks >= l->width))
        return;
    for (; l->blanks > 0; l->blanks--, l->at++) {
        fputc(' ', l->f);
    }
    while (*p) { /* up to the first letter that does not fit */
        if (((unsigned char)*p & 0xc0) != 0x80) {
            if ((max && n == max) || (l->width && l->at == l->width))
                break;
            n++;
            l->at++;
        }
        p++;
    }
    if (p > s)
        fprintf(l->f, "%s%.*s%s", colour ? colour : "", (int)(p - s), s, colour ? "\033[0m" : "");
}

static void print_cell(const jobs_table_t *t, struct line *l, size_t i, unsigned width,
                       const char *text, const char *colour)
{
    const struct part *p = &t->part[i];
    unsigned max = p->max, n = columns_of(text);

    if (p->before)
        line_text(l, p->before, 0, NULL);
    else if (i > 0)
        line_blanks(l, 2);
    if (max && n > max)
        n = max;
    if (p->right && n < width)
        line_blanks(l, width - n);
    line_text(l, text, max, colour);
    if (!p->right && n < width)
        line_blanks(l, width - n);
}

static void line_end(const jobs_table_t *t, struct line *l, const char *tail)
{
    if (t->after)
        line_text(l, t->after, 0, NULL);
    fprintf(l->f, "%s\n", tail ? tail : "");
}

void jobs_table_print(const jobs_table_t *t, FILE *f, const struct jobs_print *p)
{
    const char *text = strbuf_str(t->text);
    unsigned width[COLUMNS_MAX];
    size_t rows = p->rows && p->rows < t->nrows ? p->rows : t->nrows;

    for (size_t i = 0; i < t->nparts; i++) {
        width[i] = t->part[i].width;
        if (t->part[i].fixed)
            continue;
        if (p->header)
            width[i] = columns_of(t->part[i].column->title);
        for (size_t row = 0; row < rows; row++) {
            unsigned n = columns_of(text + t->cell[row * t->nparts + i]);

            if (t->part[i].max && n > t->part[i].max)
                n = t->part[i].max;
            if (n > width[i])
                width[i] = n;
        }
    }
    if (p->header) {
        struct line l = {.f = f, .width = p->width};

        for (size_t i = 0; i < t->nparts; i++)
            print_cell(t, &l, i, width[i], t->part[i].column->title, NULL);
        line_end(t, &l, p->tail);
    }
    for (size_t row = 0; row < rows; row++) {
        struct line l = {.f = f, .width = p->width};

        for (size_t i = 0; i < t->nparts; i++) {
            const char *cell = text + t->cell[row * t->nparts + i];
            bool paint = p->colours && t->colour[row] && t->part[i].column->fill == cell_state;

            if (!*cell && !t->template)
                cell = "-";
            print_cell(t, &l, i, width[i], cell, paint ? t->colour[row]->code : NULL);
        }
        line_end(t, &l, p->tail);
    }
}

/* topview.c - see topview.h.
 *
 *    line 0      session, level, brokers, time
 *    line 1, 2   nodes and cores: bars
 *    line 3      number of jobs in each state
 *    line 4      (blank)
 *    line 5      titles of the table
 *    line 6...   jobs
 *    last        that the connection is lost, a message, or keys
 *
 * On a small screen, the first lines are shown, and the table scrolls to the selected row.
 */
#include "topview.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define HEAD_LINES 6
#define LABEL_WIDTH 7

char *topview_time(double seconds, char *buf, size_t size)
{
    unsigned long long s = seconds > 0 ? (unsigned long long)seconds : 0;

    if (s >= 100 * 3600)
        snprintf(buf, size, "%llud%02lluh", s / 86400, s / 3600 % 24);
    else if (s >= 3600)
        snprintf(buf, size, "%llu:%02llu:%02llu", s / 3600, s / 60 % 60, s % 60);
    else
        snprintf(buf, size, "%llu:%02llu", s / 60, s % 60);
    return buf;
}

struct screen {
    struct topline *lines;
    size_t n, rows, cols;
};

/* Bytes of `s` that take at most `cols` columns: a character is taken for one column. */
static size_t fit(const char *s, size_t cols)
{
    size_t i = 0;

    for (; s[i]; i++) {
        if (((unsigned char)s[i] & 0xc0) != 0x80 && cols-- == 0)
            break;
    }
    return i;
}

static void line(struct screen *sc, enum top_style style, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
static void line(struct screen *sc, enum top_style style, const char *fmt, ...)
{
    struct topline *l;
    va_list ap;

    if (sc->n == sc->rows)
        return;
    l = &sc->lines[sc->n++];
    l->style = style;
    va_start(ap, fmt);
    vsnprintf(l->text, sizeof(l->text), fmt, ap);
    va_end(ap);
    l->text[fit(l->text, sc->cols)] = '\0';
    for (unsigned char *p = (unsigned char *)l->text; *p; p++) {
        if (*p < 0x20 || *p == 0x7f)
            *p = '?';
    }
}

static void bar(struct screen *sc, const char *label, uint32_t used, uint32_t total)
{
    char numbers[48], fill[300];
    size_t width;

    if (total == 0) {
        line(sc, TOP_PLAIN, "%-*s-", LABEL_WIDTH, label);
        return;
    }
    snprintf(numbers, sizeof(numbers), " %u of %u used", used, total);
    width = sc->cols > LABEL_WIDTH + 2 + strlen(numbers) + 4
                ? sc->cols - LABEL_WIDTH - 2 - strlen(numbers)
                : 4;
    if (width > 60)
        width = 60;
    for (size_t i = 0; i < width; i++)
        fill[i] = i < (uint64_t)used * width / total || (i == 0 && used > 0) ? '|' : ' ';
    fill[width] = '\0';
    line(sc, TOP_PLAIN, "%-*s[%s]%s", LABEL_WIDTH, label, fill, numbers);
}

static void title(struct screen *sc, const struct topmodel *m)
{
    char left[256], clock[32] = "";
    time_t t = (time_t)m->now;
    struct tm tm;
    size_t len;

    snprintf(left, sizeof(left), "flux top: %s%s%s, %u broker%s, level %u",
             m->path[0] ? "session of job " : "session", m->path, "", m->size,
             m->size == 1 ? "" : "s", m->level);
    if (localtime_r(&t, &tm))
        strftime(clock, sizeof(clock), "%H:%M:%S", &tm);
    len = strlen(left);
    if (len + 2 + strlen(clock) <= sc->cols)
        line(sc, TOP_TITLE, "%s%*s", left, (int)(sc->cols - len), clock);
    else
        line(sc, TOP_TITLE, "%s", left);
}

/* By the words of flux_job_state_word(); only the first two when there are none. */
static const char *active_counts(const struct topmodel *m, char *text, size_t size)
{
    const struct {
        uint32_t n;
        const char *word;
    } counts[] = {{m->run, "running"},
                  {m->sched - m->held, "pending"},
                  {m->priority + m->held, "held"},
                  {m->depend, "depend"},
                  {m->cleanup, "ending"}};
    size_t len = 0;

    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++)
        if (i < 2 || counts[i].n)
            len += (size_t)snprintf(text + len, size - len, "%u %s, ", counts[i].n, counts[i].word);
    return text;
}

static void summary(struct screen *sc, const struct topmodel *m)
{
    char text[128]; /* five numbers of at most 10 digits, and words */

    if (!m->known) {
        line(sc, TOP_PLAIN, "%-*s-", LABEL_WIDTH, "jobs");
        return;
    }
    line(sc, TOP_PLAIN, "%-*s%s%" PRIu64 " ended%s%s", LABEL_WIDTH, "jobs",
         active_counts(m, text, sizeof(text)), m->inactive,
         m->scheduling ? "" : "; the queue is stopped",
         m->accepting ? "" : "; jobs are not accepted");
}

static void row(struct screen *sc, const struct topmodel *m, const struct toprow *r, bool selected)
{
    char took[24] = "-", left[24] = "-", cores[16] = "-";

    if (r->t_run > 0) {
        topview_time(m->now - r->t_run, took, sizeof(took));
        if (r->expiration > 0)
            topview_time(r->expiration - m->now, left, sizeof(left));
    }
    if (r->ncores)
        snprintf(cores, sizeof(cores), "%u", r->ncores);
    line(sc,
         selected       ? TOP_SELECTED
         : r->t_run > 0 ? TOP_PLAIN
                        : TOP_DIM,
         "%8" PRIu64 " %c %-8s %6u %7s %9s %9s  %s%s%s", r->id, r->session ? '>' : ' ', r->state,
         r->nnodes, cores, took, left, r->name, r->why[0] ? ": " : "", r->why);
}

static void bottom(struct screen *sc, const struct topmodel *m)
{
    if (m->away)
        line(sc, TOP_ERROR, "connection lost, trying again");
    else if (m->message[0])
        line(sc, TOP_ERROR, "%s", m->message);
    else if (m->help)
        line(sc, TOP_DIM,
             "up, down: select  Enter: open session  left: parent  p: pending  q: quit");
    else
        line(sc, TOP_DIM, "q quit  ? keys%s",
             m->path[0] ? "  left: return to the parent session" : "");
}

size_t topview_render(const struct topmodel *m, struct topline *lines, size_t rows, size_t cols)
{
    struct screen sc = {lines, 0, rows ? rows : 1, cols ? cols : 1};
    size_t room, first = 0, shown;

    if (sc.cols > sizeof(lines->text) - 1)
        sc.cols = sizeof(lines->text) - 1;
    title(&sc, m);
    bar(&sc, "nodes", m->nodes_used, m->nodes_total);
    bar(&sc, "cores", m->cores_used, m->cores_total);
    summary(&sc, m);
    line(&sc, TOP_PLAIN, "%s", "");
    line(&sc, TOP_HEADER, "%8s   %-8s %6s %7s %9s %9s  %s", "ID", "STATE", "NODES", "CORES", "TIME",
         "LEFT", "NAME");
    room = sc.rows > HEAD_LINES + 1 ? sc.rows - HEAD_LINES - 1 : 0;
    if (m->selected >= room)
        first = m->selected - room + 1;
    if (m->selected >= m->nrows)
        first = 0;
    shown = m->nrows - first < room ? m->nrows - first : room;
    for (size_t i = first; i < first + shown; i++)
        row(&sc, m, &m->rows[i], i == m->selected);
    if (m->more > 0 && shown < room)
        line(&sc, TOP_DIM, "%8s   %zu more pending jobs", "...", m->more);
    bottom(&sc, m);
    return sc.n;
}

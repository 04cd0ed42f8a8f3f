/* jobs_table.c - a list of jobs as text.
 *
 * jobs_columns.c provides the cells.  They are kept as text in one growing buffer, because the
 * widths are known only after the last row.
 *
 * Names and notes come from users: control characters and malformed UTF-8 are replaced by '?', so
 * that a name cannot send control sequences to somebody else's terminal.
 */
#include "config.h"
#include "jobs_table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "jobs_columns.h"
#include "libutil/strbuf.h"
#include "libutil/strutil.h"

#define COLUMNS_MAX 64

/* --- the format --- */

struct part {
    const struct jobs_column *column;
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
    /* cells: offsets into `text`, nparts each row; states for colors */
    struct jobs_cell c;
    strbuf_t *text;
    size_t *cell;
    const struct color **color;
    size_t nrows, room;
};

struct color {
    const char *state;
    const char *code;
};
static const struct color colors[] = {
    {"running", "\033[32m"}, {"ending", "\033[36m"},   {"failed", "\033[31m"},
    {"timeout", "\033[31m"}, {"canceled", "\033[33m"}, {"completed", "\033[2m"},
    {"depend", "\033[34m"},  {"held", "\033[35m"},
};

static const struct color *find_color(const char *state)
{
    for (size_t i = 0; i < sizeof(colors) / sizeof(*colors); i++) {
        if (strcmp(colors[i].state, state) == 0)
            return &colors[i];
    }
    return NULL;
}

static int add_part(jobs_table_t *t, const char *name, size_t len, errmsg_t *err)
{
    const struct jobs_column *column;

    if (t->nparts == COLUMNS_MAX)
        return errmsg_fail(err, EINVAL, "more than %d columns", COLUMNS_MAX);
    if (!(column = jobs_column_find(name, len)))
        return errmsg_fail(err, EINVAL,
                           "there is no column '%.*s'; 'flux jobs -o help' lists the columns",
                           len > 40 ? 40 : (int)len, name);
    t->part[t->nparts].column = column;
    t->part[t->nparts++].right = column->right;
    return 0;
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
    if (s != end || p->width > JOBS_CELL_MAX || p->max > JOBS_CELL_MAX)
        return errmsg_fail(err, EINVAL, "'%s': the width is not of the form [<>]WIDTH[.MAX]",
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
    return t->nparts ? 0 : errmsg_fail(err, EINVAL, "the list of columns is empty");
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
    return t->nparts ? 0 : errmsg_fail(err, EINVAL, "the list of columns is empty");
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
    free(t->color);
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
    struct jobs_cell *c = &t->c;

    c->now = now;
    if (t->nrows == t->room) {
        size_t room = t->room ? 2 * t->room : 64;
        size_t *cell = realloc(t->cell, room * t->nparts * sizeof(*cell));
        const struct color **color;

        if (!cell)
            return -1;
        t->cell = cell;
        if (!(color = realloc(t->color, room * sizeof(*color))))
            return -1;
        t->color = color;
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
    t->color[t->nrows++] = find_color(flux_job_state_word(info));
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

static void line_text(struct line *l, const char *s, unsigned max, const char *color)
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
        fprintf(l->f, "%s%.*s%s", color ? color : "", (int)(p - s), s, color ? "\033[0m" : "");
}

static void print_cell(const jobs_table_t *t, struct line *l, size_t i, unsigned width,
                       const char *text, const char *color)
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
    line_text(l, text, max, color);
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
            bool paint =
                p->colors && t->color[row] && strcmp(t->part[i].column->name, "state") == 0;

            if (!*cell && !t->template)
                cell = "-";
            print_cell(t, &l, i, width[i], cell, paint ? t->color[row]->code : NULL);
        }
        line_end(t, &l, p->tail);
    }
}

/* sim_schedule.c - read the file of flux sim --schedule.
 *
 * Format: lines of fields with commas between them; the first line names the columns, which may be
 * in any order: job,submit,start,end,nodes,nodelist.  A list of nodes is "0-17|20".
 *
 * Failure: an error message with file and line.
 */
#include "config.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "libutil/fdutil.h"
#include "sim_schedule.h"

#define FILE_MAX ((size_t)1 << 32)
#define NONE SIZE_MAX

static const char *const columns[NCOLUMNS] = {"job", "submit", "start", "end", "nodes", "nodelist"};

struct reading {
    struct cmd *c;
    const char *path;
    struct sim_schedule *s;
};

static int bad(struct reading *k, size_t line, const char *what)
{
    return cmd_error(k->c, "%s, line %zu: %s", k->path, line, what);
}

static bool number(const char **s, int64_t *out)
{
    char *end;

    if (**s != '-' && (**s < '0' || **s > '9'))
        return false;
    errno = 0;
    *out = strtoll(*s, &end, 10);
    *s = end;
    return errno == 0 && *out <= TRACE_VALUE_MAX && *out >= -TRACE_VALUE_MAX;
}

void *sim_schedule_grow(void *array, size_t *space, size_t n, size_t size)
{
    size_t more = *space ? *space * 2 : 16;
    void *p;

    if (n < *space)
        return array;
    if ((p = reallocarray(array, more, size)))
        *space = more;
    return p;
}

static int add_range(struct reading *k, uint32_t first, uint32_t last)
{
    struct sim_schedule_range *p =
        sim_schedule_grow(k->s->ranges, &k->s->ranges_space, k->s->nranges, sizeof(*p));

    if (!p)
        return -1;
    k->s->ranges = p;
    k->s->ranges[k->s->nranges++] = (struct sim_schedule_range){first, last};
    return 0;
}

static int add_row(struct reading *k, const struct sim_schedule_row *r)
{
    struct sim_schedule_row *p =
        sim_schedule_grow(k->s->rows, &k->s->rows_space, k->s->nrows, sizeof(*p));

    if (!p)
        return -1;
    k->s->rows = p;
    k->s->rows[k->s->nrows++] = *r;
    return 0;
}

/* "0-17|20"; 1: not one, -1: ENOMEM. */
static int read_list(struct reading *k, struct sim_schedule_row *r, const char *s)
{
    r->at = k->s->nranges;
    r->n = 0;
    while (*s) {
        int64_t first, last;

        if (!number(&s, &first))
            return 1;
        last = first;
        if (*s == '-' && (s++, !number(&s, &last)))
            return 1;
        if (first < 0 || last < first || last > UINT32_MAX || (*s && *s != '|') ||
            (*s == '|' && !s[1]))
            return 1;
        if (*s)
            s++;
        if (add_range(k, (uint32_t)first, (uint32_t)last) < 0)
            return -1;
        r->n++;
    }
    return 0;
}

/* Split a line at its commas: the number of fields, at most `max`. */
static size_t split(char *line, char **field, size_t max)
{
    size_t n = 0;

    for (char *s = line; s && n < max;) {
        field[n++] = s;
        if ((s = strchr(s, ',')))
            *s++ = '\0';
    }
    return n;
}

#define FIELDS_MAX 32

static int read_header(struct reading *k, char *line, size_t column[NCOLUMNS])
{
    char *field[FIELDS_MAX];
    size_t n = split(line, field, FIELDS_MAX);

    for (int i = 0; i < NCOLUMNS; i++) {
        column[i] = NONE;
        for (size_t f = 0; f < n; f++)
            if (strcmp(field[f], columns[i]) == 0)
                column[i] = f;
        if (column[i] == NONE)
            return bad(k, 1, "expected a line job,submit,start,end,nodes,nodelist");
    }
    return CMD_OK;
}

static int read_row(struct reading *k, char *line, size_t at, const size_t column[NCOLUMNS])
{
    char *field[FIELDS_MAX];
    size_t n = split(line, field, FIELDS_MAX);
    struct sim_schedule_row r = {.line = at};
    int rc;

    for (int i = 0; i < NCOLUMNS; i++)
        if (column[i] >= n)
            return bad(k, at, "the line is too short");
    for (int i = 0; i < LIST; i++) {
        const char *s = field[column[i]];

        if (!number(&s, &r.value[i]) || *s)
            return cmd_error(k->c, "%s, line %zu: %s '%.40s' is not a number in range", k->path, at,
                             columns[i], field[column[i]]);
    }
    if ((rc = read_list(k, &r, field[column[LIST]])) > 0)
        return cmd_error(k->c, "%s, line %zu: '%.40s' is not a list of nodes", k->path, at,
                         field[column[LIST]]);
    return rc < 0 || add_row(k, &r) < 0 ? cmd_error(k->c, "out of memory") : CMD_OK;
}

int sim_schedule_read(struct cmd *c, const char *path, struct sim_schedule *out)
{
    struct reading reading = {c, path, out}, *k = &reading;
    size_t len, column[NCOLUMNS], at = 0;
    int rc;

    if (file_read_all(k->path, FILE_MAX, &k->s->text, &len) < 0)
        return cmd_error(k->c, "cannot read %s: %s", k->path, strerror(errno));
    if (strlen(k->s->text) != len)
        return cmd_error(k->c, "%s holds a NUL byte: it is not a schedule", k->path);
    for (char *line = k->s->text, *next; line && *line; line = next) {
        if ((next = strchr(line, '\n')))
            *next++ = '\0';
        line[strcspn(line, "\r")] = '\0';
        at++;
        rc = at == 1 ? read_header(k, line, column) : read_row(k, line, at, column);
        if (rc != CMD_OK)
            return rc;
    }
    if (at == 0)
        return bad(k, 1, "the file is empty");
    return CMD_OK;
}

void sim_schedule_clear(struct sim_schedule *s)
{
    free(s->rows);
    free(s->ranges);
    free(s->text);
}

/* table.c - rows as aligned text or as JSON.
 *
 * Every cell is stored twice: as a JSON value and as text.  Text is cleaned on input: whatever
 * bytes a host or a user put into a name, each row is one line, the terminal gets no control
 * sequence, and the JSON is valid UTF-8.
 *
 * Invariants:
 *  1. `cells` holds nrows * ncols cells, row by row; an omitted cell has value == NULL, text ==
 *     NULL.
 *  2. The first error is kept in `errnum`; printing then fails instead of showing half a table.
 *  3. Column widths count code points, not bytes.
 *
 * Failure: -1 or NULL with the first error; then nothing was written.
 */
#include "config.h"
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "duration.h"
#include "size.h"
#include "strbuf.h"
#include "strutil.h"
#include "table.h"

#define GAP 2

struct column {
    char *key;
    char *title;
    enum table_align align;
};

struct cell {
    json_t *value;
    char *text;
};

struct table {
    struct column *cols;
    size_t ncols;
    struct cell *cells;
    size_t nrows;
    size_t cap; /* rows that fit */
    size_t col; /* next cell of the last row */
    int errnum;
};

static int fail(table_t *t, int errnum)
{
    if (t && !t->errnum)
        t->errnum = errnum;
    errno = t ? t->errnum : ENOMEM;
    return -1;
}

table_t *table_create(void)
{
    return calloc(1, sizeof(table_t));
}

void table_destroy(table_t *t)
{
    int saved = errno;

    if (t) {
        for (size_t i = 0; i < t->nrows * t->ncols; i++) {
            json_decref(t->cells[i].value);
            free(t->cells[i].text);
        }
        for (size_t i = 0; i < t->ncols; i++) {
            free(t->cols[i].key);
            free(t->cols[i].title);
        }
        free(t->cells);
        free(t->cols);
        free(t);
    }
    errno = saved;
}

/* A copy of `s` in well-formed UTF-8; with `printable` also without control characters. */
static char *clean(const char *s, bool printable)
{
    size_t len = strlen(s);
    char *copy = malloc(len + 1);
    size_t pos = 0;

    if (!copy)
        return NULL;
    memcpy(copy, s, len + 1);
    while ((pos += str_utf8_span(copy + pos, len - pos)) < len)
        copy[pos] = '?';
    for (size_t i = 0; printable && i < len; i++) {
        unsigned char c = (unsigned char)copy[i];
        unsigned char next = (unsigned char)copy[i + 1];

        if (c < 0x20 || c == 0x7f)
            copy[i] = '?';
        else if (c == 0xc2 && next < 0xa0) /* U+0080..9F: control characters too */
            copy[i] = copy[i + 1] = '?';
    }
    return copy;
}

int table_column(table_t *t, const char *key, const char *title, enum table_align align)
{
    struct column *cols;
    struct column c = {.align = align};

    if (!t || t->errnum)
        return fail(t, ENOMEM);
    if (t->nrows > 0)
        return fail(t, EINVAL);
    cols = reallocarray(t->cols, t->ncols + 1, sizeof(*cols));
    if (!cols)
        return fail(t, ENOMEM);
    t->cols = cols;
    c.key = clean(key, false);
    c.title = clean(title, true);
    if (!c.key || !c.title) {
        free(c.key);
        free(c.title);
        return fail(t, ENOMEM);
    }
    t->cols[t->ncols++] = c;
    return 0;
}

int table_row(table_t *t)
{
    if (!t || t->errnum)
        return fail(t, ENOMEM);
    if (t->ncols == 0)
        return fail(t, EINVAL);
    if (t->nrows == t->cap) {
        size_t cap = t->cap ? t->cap * 2 : 16;
        struct cell *cells = reallocarray(t->cells, cap, t->ncols * sizeof(*cells));

        if (!cells)
            return fail(t, ENOMEM);
        t->cells = cells;
        t->cap = cap;
    }
    memset(&t->cells[t->nrows * t->ncols], 0, t->ncols * sizeof(struct cell));
    t->nrows++;
    t->col = 0;
    return 0;
}

int table_cell(table_t *t, json_t *value, const char *text)
{
    char *copy;

    if (!t || t->errnum || !value || !text) {
        json_decref(value);
        return fail(t, !value ? ENOMEM : EINVAL);
    }
    copy = clean(text, true);
    if (!copy || t->nrows == 0 || t->col == t->ncols) {
        json_decref(value);
        free(copy);
        return fail(t, !copy ? ENOMEM : EINVAL);
    }
    t->cells[(t->nrows - 1) * t->ncols + t->col++] = (struct cell){value, copy};
    return 0;
}

int table_null(table_t *t)
{
    if (!t || t->errnum || t->nrows == 0 || t->col == t->ncols)
        return fail(t, EINVAL);
    t->col++;
    return 0;
}

int table_str(table_t *t, const char *s)
{
    char *utf8;
    int rc;

    if (!s)
        return table_null(t);
    utf8 = clean(s, false);
    if (!utf8)
        return fail(t, ENOMEM);
    rc = table_cell(t, json_string(utf8), s);
    free(utf8);
    return rc;
}

int table_i64(table_t *t, int64_t n)
{
    char text[32];

    snprintf(text, sizeof(text), "%" PRId64, n);
    return table_cell(t, json_integer(n), text);
}

static json_t *json_u64(uint64_t n)
{
    return n <= INT64_MAX ? json_integer((json_int_t)n) : json_real((double)n);
}

int table_u64(table_t *t, uint64_t n)
{
    char text[32];

    snprintf(text, sizeof(text), "%" PRIu64, n);
    return table_cell(t, json_u64(n), text);
}

int table_real(table_t *t, double x, int decimals)
{
    char text[400];

    snprintf(text, sizeof(text), "%.*f", decimals, x);
    return table_cell(t, isfinite(x) ? json_real(x) : json_null(), text);
}

int table_duration(table_t *t, double seconds)
{
    char text[32];

    duration_format(seconds, text, sizeof(text));
    return table_cell(t, isfinite(seconds) ? json_real(seconds) : json_null(), text);
}

int table_size(table_t *t, uint64_t bytes)
{
    char text[32];

    size_format_short(bytes, text, sizeof(text));
    return table_cell(t, json_u64(bytes), text);
}

json_t *table_to_json(const table_t *t)
{
    json_t *array;
    int rc = 0;

    if (!t || t->errnum) {
        errno = t ? t->errnum : ENOMEM;
        return NULL;
    }
    array = json_array();
    for (size_t i = 0; array && rc == 0 && i < t->nrows; i++) {
        json_t *row = json_object();

        for (size_t c = 0; rc == 0 && c < t->ncols; c++) {
            json_t *value = t->cells[i * t->ncols + c].value;

            rc = json_object_set_new(row, t->cols[c].key, value ? json_incref(value) : json_null());
        }
        if (json_array_append_new(array, row) < 0)
            rc = -1;
    }
    if (rc < 0) {
        json_decref(array);
        array = NULL;
    }
    if (!array)
        errno = ENOMEM;
    return array;
}

/* Number of code points in well-formed UTF-8. */
static size_t text_width(const char *s)
{
    size_t n = 0;

    for (; *s; s++)
        n += ((unsigned char)*s & 0xc0) != 0x80;
    return n;
}

static const char *cell_text(const table_t *t, size_t row, size_t col)
{
    const char *s = t->cells[row * t->ncols + col].text;

    return s ? s : "-";
}

static void add_padded(strbuf_t *sb, const char *s, size_t width, enum table_align align, bool last)
{
    size_t pad = width - text_width(s);

    if (align == TABLE_RIGHT)
        strbuf_addf(sb, "%*s", (int)pad, "");
    strbuf_add(sb, s);
    if (align == TABLE_LEFT && !last)
        strbuf_addf(sb, "%*s", (int)pad, "");
    strbuf_addf(sb, "%*s", last ? 0 : GAP, "");
}

/* End a line, removing the blanks of padding or an empty last cell. */
static void end_line(strbuf_t *sb)
{
    size_t len = strbuf_len(sb);

    while (len > 0 && strbuf_str(sb)[len - 1] == ' ')
        len--;
    strbuf_trunc(sb, len);
    strbuf_addc(sb, '\n');
}

static char *format_text(const table_t *t, bool header)
{
    strbuf_t *sb = strbuf_create(0);
    size_t *width = calloc(t->ncols + 1, sizeof(*width));

    if (!width) {
        strbuf_destroy(sb);
        return NULL;
    }
    for (size_t c = 0; c < t->ncols; c++) {
        width[c] = header ? text_width(t->cols[c].title) : 0;
        for (size_t r = 0; r < t->nrows; r++) {
            size_t w = text_width(cell_text(t, r, c));

            if (w > width[c])
                width[c] = w;
        }
    }
    if (header) {
        for (size_t c = 0; c < t->ncols; c++)
            add_padded(sb, t->cols[c].title, width[c], t->cols[c].align, c + 1 == t->ncols);
        end_line(sb);
    }
    for (size_t r = 0; r < t->nrows; r++) {
        for (size_t c = 0; c < t->ncols; c++)
            add_padded(sb, cell_text(t, r, c), width[c], t->cols[c].align, c + 1 == t->ncols);
        end_line(sb);
    }
    free(width);
    return strbuf_take(sb);
}

int table_print(const table_t *t, FILE *f, int flags)
{
    char *text = NULL;
    int rc;

    if (!t || t->errnum) {
        errno = t ? t->errnum : ENOMEM;
        return -1;
    }
    if (flags & TABLE_JSON) {
        json_t *array = table_to_json(t);

        text = array ? json_dumps(array, JSON_INDENT(2)) : NULL;
        json_decref(array);
    } else {
        text = format_text(t, !(flags & TABLE_NO_HEADER));
    }
    if (!text) {
        errno = ENOMEM;
        return -1;
    }
    rc = fputs(text, f) < 0 ? -1 : 0;
    if (rc == 0 && (flags & TABLE_JSON))
        rc = fputc('\n', f) < 0 ? -1 : 0;
    free(text);
    if (rc < 0)
        errno = EIO;
    return rc;
}

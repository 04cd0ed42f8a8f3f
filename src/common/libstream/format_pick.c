/* format_pick.c - formats made from others: for this host, and of some of the fields.
 *
 * A new format is built from tables (format.h), one for each record inside the old one, so that it
 * is checked and laid out like any other.  A record of which only some fields are picked has a
 * table for each place in which it is, since other fields may be picked there; a record that is
 * picked as a whole has one table, also if it points to itself.
 *
 * Invariants:
 *  1. No two tables have the same name: one with picked fields gets a number if its name is taken.
 *  2. At most STREAM_RECORDS_MAX tables are made.
 *
 * Failure: the error message names the format and the field.
 */
#include "config.h"
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "format_private.h"

struct tables {
    struct stream_table table[STREAM_RECORDS_MAX];
    const stream_format_t *whole[STREAM_RECORDS_MAX]; /* of which it is; NULL: fields are picked */
    char name[STREAM_RECORDS_MAX][STREAM_NAME_MAX + 1];
    size_t n;
    errmsg_t *err;
};

/* A new table of `f`, with room for all its rows: NULL with an error message. */
static struct stream_table *table_add(struct tables *x, const stream_format_t *f, bool whole)
{
    struct stream_table *t = &x->table[x->n];
    struct stream_row *rows;

    if (x->n == STREAM_RECORDS_MAX) {
        errmsg_fail(x->err, E2BIG, "there are more than %d formats inside a format",
                    STREAM_RECORDS_MAX);
        return NULL;
    }
    if (!(rows = calloc(f->nfields + 1, sizeof(*rows)))) {
        errmsg_fail(x->err, ENOMEM, "out of memory for a format");
        return NULL;
    }
    x->whole[x->n] = whole ? f : NULL;
    strcpy(x->name[x->n], f->name);
    *t = (struct stream_table){.name = x->name[x->n], .rows = rows, .attrs = f->attrs};
    x->n++;
    return t;
}

/* A row that describes a field, without `of`. */
static struct stream_row row_of(const stream_format_t *f, const struct stream_field *fd)
{
    struct stream_row r = {
        .name = fd->name, .type = fd->type, .flags = fd->flags, .attrs = fd->attrs};

    for (unsigned d = 0; d < fd->ndims; d++) {
        if (fd->dims[d].fixed)
            r.dims[d].fixed = fd->dims[d].fixed;
        else
            r.dims[d].field = f->fields[fd->dims[d].field].name;
    }
    return r;
}

/* The table of all fields. */
static const struct stream_table *whole_table(struct tables *x, const stream_format_t *f)
{
    struct stream_table *t;
    struct stream_row *rows;

    for (size_t i = 0; i < x->n; i++)
        if (x->whole[i] == f)
            return &x->table[i];
    if (!(t = table_add(x, f, true)))
        return NULL;
    rows = (struct stream_row *)t->rows;
    for (size_t i = 0; i < f->nfields; i++) {
        rows[i] = row_of(f, &f->fields[i]);
        if (f->fields[i].of && !(rows[i].of = whole_table(x, f->fields[i].of)))
            return NULL;
    }
    return t;
}

/* --- some of the fields --- */

/* Does a path begin with this name?  Returns what follows it: "" at the end of the path. */
static const char *behind(const char *path, const char *name)
{
    size_t len = strlen(name);

    if (strncmp(path, name, len) != 0 || (path[len] != '.' && path[len] != '\0'))
        return NULL;
    return path[len] ? path + len + 1 : path + len;
}

/* Is there a field for each path? */
static int paths_check(struct tables *x, const stream_format_t *f, const char *const *paths,
                       size_t n)
{
    if (n == 0)
        return errmsg_fail(x->err, EINVAL, "no field of format %s is picked", f->name);
    for (size_t k = 0; k < n; k++) {
        const struct stream_field *fd = NULL;
        const char *rest = NULL;

        for (size_t i = 0; !rest && i < f->nfields; i++) {
            fd = &f->fields[i];
            rest = behind(paths[k], fd->name);
        }
        if (!rest)
            return errmsg_fail(x->err, ENOENT, "records of format %s have no field '%.*s'", f->name,
                               (int)strcspn(paths[k], "."), paths[k]);
        if (!fd->of && paths[k][strlen(fd->name)] == '.')
            return errmsg_fail(x->err, EINVAL, "field %s.%s is not a record", f->name, fd->name);
    }
    return 0;
}

static const struct stream_table *picked_table(struct tables *x, const stream_format_t *f,
                                               const char *const *paths, size_t n, unsigned depth);

/* Set the table of a nested record: some of its fields, or all of them. */
static int pick_nested(struct tables *x, const struct stream_field *fd, struct stream_row *r,
                       const char *const *paths, size_t n, unsigned depth)
{
    const char **rest = calloc(n, sizeof(*rest));
    bool whole = false;
    size_t nrest = 0;

    if (!rest)
        return errmsg_fail(x->err, ENOMEM, "out of memory for a format");
    for (size_t k = 0; k < n; k++) {
        const char *tail = behind(paths[k], fd->name);

        if (tail)
            rest[nrest++] = tail;
        whole |= tail && paths[k][strlen(fd->name)] == '\0';
    }
    r->of = whole ? whole_table(x, fd->of) : picked_table(x, fd->of, rest, nrest, depth + 1);
    free(rest);
    return r->of ? 0 : -1;
}

static const struct stream_table *picked_table(struct tables *x, const stream_format_t *f,
                                               const char *const *paths, size_t n, unsigned depth)
{
    bool *picked = calloc(f->nfields, sizeof(*picked));
    struct stream_table *t = NULL;
    struct stream_row *r;

    if (!picked)
        errmsg_fail(x->err, ENOMEM, "out of memory for a format");
    else if (depth == STREAM_NEST_MAX)
        errmsg_fail(x->err, E2BIG, "a path of fields is longer than %d", STREAM_NEST_MAX);
    else if (paths_check(x, f, paths, n) == 0)
        t = table_add(x, f, false);
    for (size_t i = 0; t && i < f->nfields; i++) {
        const struct stream_field *fd = &f->fields[i];

        for (size_t k = 0; k < n && !picked[i]; k++)
            picked[i] = behind(paths[k], fd->name) != NULL;
    }
    for (size_t i = 0; t && i < f->nfields; i++) /* an array needs its sizes, which have none */
        for (unsigned d = 0; picked[i] && d < f->fields[i].ndims; d++)
            if (!f->fields[i].dims[d].fixed)
                picked[f->fields[i].dims[d].field] = true;
    r = t ? (struct stream_row *)t->rows : NULL;
    for (size_t i = 0; t && i < f->nfields; i++) {
        if (!picked[i])
            continue;
        *r = row_of(f, &f->fields[i]);
        if (f->fields[i].of && pick_nested(x, &f->fields[i], r, paths, n, depth) < 0)
            t = NULL;
        r++;
    }
    free(picked);
    return t;
}

static bool name_taken(const struct tables *x, size_t but, const char *name)
{
    for (size_t i = 0; i < x->n; i++)
        if (i != but && strcmp(x->name[i], name) == 0)
            return true;
    return false;
}

/* Let the names of tables differ. */
static void names_make(struct tables *x)
{
    for (size_t i = x->n; i-- > 0;) { /* the outermost record is the last to lose its name */
        char base[STREAM_NAME_MAX + 1];

        if (x->whole[i])
            continue;
        strcpy(base, x->name[i]);
        for (unsigned k = 1; name_taken(x, i, x->name[i]); k++)
            snprintf(x->name[i], sizeof(x->name[i]), "%.*s_%u", STREAM_NAME_MAX - 11, base, k);
    }
}

/* --- the formats --- */

static stream_format_t *finish(struct tables *x, const struct stream_table *t)
{
    stream_format_t *out = t ? stream_format_create(t, x->err) : NULL;
    int saved = errno;

    for (size_t i = 0; i < x->n; i++)
        free((void *)x->table[i].rows);
    free(x);
    errno = saved;
    return out;
}

static struct tables *begin(errmsg_t *err)
{
    struct tables *x = malloc(sizeof(*x));

    if (!x) {
        errmsg_fail(err, ENOMEM, "out of memory for a format");
        return NULL;
    }
    x->n = 0;
    x->err = err;
    return x;
}

stream_format_t *stream_format_native(const stream_format_t *f, errmsg_t *err)
{
    struct tables *x = begin(err);

    return x ? finish(x, whole_table(x, f)) : NULL;
}

stream_format_t *stream_format_pick(const stream_format_t *f, const char *const *paths, size_t n,
                                    errmsg_t *err)
{
    struct tables *x = begin(err);
    const struct stream_table *t = x ? picked_table(x, f, paths, n, 0) : NULL;

    if (t)
        names_make(x);
    return x ? finish(x, t) : NULL;
}

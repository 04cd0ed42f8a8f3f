/* format.c - formats of records: built from tables, checked, laid out.
 *
 * A table is converted to a format with all formats inside it, the innermost first; a table that is
 * used twice becomes one format.  The parser of text (format_text.c) makes tables, too, so that all
 * formats are checked in one place.
 *
 * Invariants:
 *  1. The fields of a format are within its size and do not overlap; the holes are the remaining
 *     bytes.
 *  2. Fields that are sizes of arrays are scalar integers in place.
 *  3. A format owns a reference to each format inside it, but none to itself: records that point
 *     to records of their own format are the only cycle.
 *
 * Failure: nothing is left, and the error message names format and field.
 */
#include "config.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "format_private.h"
#include "libutil/invariant.h"
#include "libutil/strutil.h"

/* Formats that have been built, and those being built. */
struct build {
    const struct stream_table *tables[STREAM_RECORDS_MAX];
    stream_format_t *formats[STREAM_RECORDS_MAX]; /* borrowed */
    size_t n;
    const struct stream_table *outer[STREAM_NEST_MAX];
    stream_format_t *outer_formats[STREAM_NEST_MAX];
    size_t pointer;
    errmsg_t *err;
};

/* --- lists of attributes --- */

static void attrs_destroy(struct stream_attr *attrs)
{
    if (!attrs)
        return;
    for (struct stream_attr *a = attrs; a->name; a++) {
        free((char *)a->name);
        free((char *)a->value);
    }
    free(attrs);
}

static bool name_valid(const char *name)
{
    size_t len = strlen(name);

    return len > 0 && len <= STREAM_NAME_MAX && (name[0] < '0' || name[0] > '9') &&
           strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") == len;
}

/* A copy of a list that may be NULL.  `of`: the owner of the list, for messages. */
static struct stream_attr *attrs_copy(const struct stream_attr *from, const char *of, errmsg_t *err)
{
    struct stream_attr *attrs;
    size_t n = 0;

    while (from && from[n].name)
        n++;
    if (n > STREAM_FIELDS_MAX) {
        errmsg_fail(err, E2BIG, "%s has more than %d attributes", of, STREAM_FIELDS_MAX);
        return NULL;
    }
    if (!(attrs = calloc(n + 1, sizeof(*attrs))))
        goto nomem;
    for (size_t i = 0; i < n; i++) {
        const char *value = from[i].value;

        if (!name_valid(from[i].name)) {
            errmsg_fail(err, EINVAL, "%s: '%.64s' is not a valid name of an attribute", of,
                        from[i].name);
            goto fail;
        }
        if (!value || str_utf8_span(value, strlen(value)) != strlen(value)) {
            errmsg_fail(err, EINVAL, "%s: the value of attribute '%s' is not UTF-8", of,
                        from[i].name);
            goto fail;
        }
        if (stream_format_lookup(attrs, from[i].name)) {
            errmsg_fail(err, EINVAL, "%s has two attributes '%s'", of, from[i].name);
            goto fail;
        }
        attrs[i].value = strdup(value);
        attrs[i].name = strdup(from[i].name);
        if (!attrs[i].value || !attrs[i].name) {
            free((char *)attrs[i].value);
            attrs[i].value = NULL;
            goto nomem;
        }
    }
    return attrs;
nomem:
    errmsg_fail(err, ENOMEM, "out of memory for a format");
fail:
    attrs_destroy(attrs);
    return NULL;
}

/* --- fields --- */

/* Fail with an error message about a field. */
#define FIELD_FAIL(b, f, fd, errnum, what, ...) \
    errmsg_fail((b)->err, errnum, "field %s.%s " what, (f)->name, (fd)->name, ##__VA_ARGS__)

static size_t field_width(const stream_format_t *f, const struct stream_field *fd)
{
    return fd->slot ? f->pointer : fd->elem * fd->count;
}

static size_t field_align(const stream_format_t *f, const struct stream_field *fd)
{
    if (fd->slot || fd->pointers)
        return f->pointer;
    if (fd->type == STREAM_RECORD)
        return fd->of->align;
    if (fd->type == STREAM_C64 || fd->type == STREAM_C128)
        return fd->elem / 2;
    return fd->elem;
}

static int check_type(struct build *b, const stream_format_t *f, const struct stream_row *r,
                      const struct stream_field *fd)
{
    bool record = r->type == STREAM_RECORD;

    if (r->type < STREAM_I8 || r->type > STREAM_RECORD)
        return FIELD_FAIL(b, f, fd, EINVAL, "has an unknown type, %d", (int)r->type);
    if (r->flags & ~(unsigned)(STREAM_OPTIONAL | STREAM_POINTER))
        return FIELD_FAIL(b, f, fd, EINVAL, "has unknown flags, 0x%x", r->flags);
    if (record != (r->of != NULL))
        return FIELD_FAIL(b, f, fd, EINVAL, "%s a format of its elements",
                          record ? "is of records and needs" : "is not of records and cannot have");
    if ((r->flags & STREAM_POINTER) && !record)
        return FIELD_FAIL(b, f, fd, EINVAL, "has pointers to elements that are not records");
    if ((r->flags & STREAM_OPTIONAL) && record && fd->ndims == 0)
        return FIELD_FAIL(
            b, f, fd, EINVAL,
            "is one record that may be absent: make it a pointer, without 'optional'");
    return 0;
}

/* Check the default value, which scalar fields of most types may have. */
static int check_default(struct build *b, const stream_format_t *f, const struct stream_field *fd)
{
    const char *text = stream_format_lookup(fd->attrs, "default");
    char value[16];

    if (!text)
        return 0;
    if (fd->ndims > 0 || (fd->flags & STREAM_OPTIONAL))
        return FIELD_FAIL(b, f, fd, EINVAL,
                          "cannot have a default: it is an array, or it may be absent");
    if (fd->type == STREAM_STRING || stream_elem_parse(fd->type, text, value) == 0)
        return 0;
    if (errno == ENOMEM)
        return FIELD_FAIL(b, f, fd, ENOMEM, "has a default, but memory is out");
    return FIELD_FAIL(b, f, fd, EINVAL, "cannot have the default '%.64s', not a value of type %s",
                      text, stream_elem_name(fd->type));
}

static stream_format_t *build(struct build *b, const struct stream_table *t, unsigned depth);

/* Build the format of the elements. */
static int field_of(struct build *b, stream_format_t *f, const struct stream_row *r,
                    struct stream_field *fd, unsigned depth)
{
    if (r->of == b->outer[depth]) {
        if (!(r->flags & STREAM_POINTER))
            return FIELD_FAIL(b, f, fd, EINVAL, "has records of its own format inside it");
        fd->of = f;
        return 0;
    }
    for (unsigned i = 0; i < depth; i++)
        if (r->of == b->outer[i])
            return FIELD_FAIL(b, f, fd, EINVAL, "makes a cycle of formats, through format %s",
                              b->outer_formats[i]->name);
    if (depth + 1 == STREAM_NEST_MAX)
        return FIELD_FAIL(b, f, fd, E2BIG, "is inside more than %d formats", STREAM_NEST_MAX - 1);
    if (!(fd->of = build(b, r->of, depth + 1)))
        return -1;
    if (fd->of->depth + 1 > f->depth)
        f->depth = fd->of->depth + 1;
    return 0;
}

static int field_shape(struct build *b, const stream_format_t *f, const struct stream_row *r,
                       struct stream_field *fd)
{
    while (fd->ndims < STREAM_DIMS_MAX &&
           (r->dims[fd->ndims].fixed > 0 || r->dims[fd->ndims].field)) {
        const struct stream_dim *d = &r->dims[fd->ndims];

        if (d->field)
            fd->variable = true; /* the size fields are found when all fields are known */
        else if (d->fixed > STREAM_SIZE_MAX || fd->count * d->fixed > STREAM_SIZE_MAX)
            return FIELD_FAIL(b, f, fd, E2BIG, "has more than %zu elements", STREAM_SIZE_MAX);
        else
            fd->count *= d->fixed;
        fd->dims[fd->ndims++].fixed = d->field ? 0 : d->fixed;
    }
    return 0;
}

static int add_field(struct build *b, stream_format_t *f, const struct stream_row *r,
                     unsigned depth)
{
    struct stream_field *fd = &f->fields[f->nfields];
    char of[2 * STREAM_NAME_MAX + 10];

    if (!name_valid(r->name))
        return errmsg_fail(b->err, EINVAL, "format %s: '%.64s' is not a valid name of a field",
                           f->name, r->name);
    if (!(fd->name = strdup(r->name)))
        return errmsg_fail(b->err, ENOMEM, "out of memory for a format");
    f->nfields++;
    fd->type = r->type;
    fd->flags = r->flags;
    fd->offset = r->offset;
    fd->count = 1;
    if (hmap_get(f->index, fd->name))
        return FIELD_FAIL(b, f, fd, EINVAL, "is there twice");
    if (hmap_put(f->index, fd->name, fd) < 0)
        return errmsg_fail(b->err, ENOMEM, "out of memory for a format");
    snprintf(of, sizeof(of), "field %s.%s", f->name, fd->name);
    if (field_shape(b, f, r, fd) < 0 || check_type(b, f, r, fd) < 0 ||
        !(fd->attrs = attrs_copy(r->attrs, of, b->err)) || check_default(b, f, fd) < 0)
        return -1;
    if (r->of && field_of(b, f, r, fd, depth) < 0)
        return -1;
    fd->pointers = fd->type == STREAM_STRING || (fd->flags & STREAM_POINTER);
    fd->slot = fd->variable ||
               ((fd->flags & STREAM_OPTIONAL) && !(fd->type == STREAM_STRING && fd->ndims == 0));
    fd->elem = fd->pointers                ? f->pointer
               : fd->type == STREAM_RECORD ? fd->of->size
                                           : stream_elem_size(fd->type);
    if (fd->count * fd->elem > STREAM_SIZE_MAX)
        return FIELD_FAIL(b, f, fd, E2BIG, "has more than %zu bytes", STREAM_SIZE_MAX);
    if (fd->slot || fd->pointers || (fd->of && !fd->of->flat))
        f->flat = f->plain = false;
    else if (fd->of && !fd->of->plain)
        f->plain = false;
    if (!fd->slot && (fd->type == STREAM_BOOL || (fd->of && !fd->pointers && fd->of->truth)))
        f->truth = true;
    return 0;
}

/* Find the fields that are sizes of arrays. */
static int find_sizes(struct build *b, stream_format_t *f, const struct stream_row *r,
                      struct stream_field *fd)
{
    for (unsigned d = 0; d < fd->ndims; d++) {
        const struct stream_field *size;
        unsigned i = 0;

        if (!r->dims[d].field)
            continue;
        size = stream_format_find(f, r->dims[d].field);
        if (!size || !stream_elem_integer(size->type) || size->ndims > 0 || size->flags)
            return FIELD_FAIL(b, f, fd, EINVAL,
                              "has the size '%.64s', which is not an integer field of the record",
                              r->dims[d].field);
        fd->dims[d].field = (size_t)(size - f->fields);
        while (i < f->nsizes && f->sizes[i] != fd->dims[d].field)
            i++;
        if (i == STREAM_SIZES_MAX)
            return errmsg_fail(b->err, E2BIG, "format %s has more than %d fields that are sizes",
                               f->name, STREAM_SIZES_MAX);
        f->sizes[i] = fd->dims[d].field;
        if (i == f->nsizes)
            f->nsizes++;
    }
    return 0;
}

/* --- layout --- */

static int by_offset(const void *a, const void *b)
{
    const struct stream_field *x = *(const struct stream_field *const *)a;
    const struct stream_field *y = *(const struct stream_field *const *)b;

    return (x->offset > y->offset) - (x->offset < y->offset);
}

static void add_hole(stream_format_t *f, size_t from, size_t to)
{
    if (to > from) {
        f->holes[f->nholes++] = (struct stream_hole){from, to - from};
        f->plain = false;
    }
}

/* Check the offsets, and find the holes. */
static int check_layout(struct build *b, stream_format_t *f)
{
    const struct stream_field **sorted = calloc(f->nfields, sizeof(*sorted));
    size_t end = 0;
    int rc = -1;

    f->holes = calloc(f->nfields + 1, sizeof(*f->holes));
    if (!sorted || !f->holes) {
        errmsg_fail(b->err, ENOMEM, "out of memory for a format");
        goto out;
    }
    for (size_t i = 0; i < f->nfields; i++)
        sorted[i] = &f->fields[i];
    qsort(sorted, f->nfields, sizeof(*sorted), by_offset);
    for (size_t i = 0; i < f->nfields; i++) {
        const struct stream_field *fd = sorted[i];
        size_t width = field_width(f, fd);

        if (fd->offset > f->size || width > f->size - fd->offset) {
            FIELD_FAIL(b, f, fd, EINVAL, "ends beyond the %zu bytes of the record", f->size);
            goto out;
        }
        if (fd->offset < end) {
            FIELD_FAIL(b, f, fd, EINVAL, "overlaps field %s", sorted[i - 1]->name);
            goto out;
        }
        add_hole(f, end, fd->offset);
        end = fd->offset + width;
    }
    add_hole(f, end, f->size);
    INVARIANT(1, end <= f->size);
    rc = 0;
out:
    free(sorted);
    return rc;
}

/* Lay out the fields in sequence, aligned. */
static int make_layout(struct build *b, stream_format_t *f)
{
    f->align = 1;
    for (size_t i = 0; i < f->nfields; i++) {
        struct stream_field *fd = &f->fields[i];
        size_t align = field_align(f, fd);

        fd->offset = (f->size + align - 1) & ~(align - 1);
        f->size = fd->offset + field_width(f, fd);
        if (align > f->align)
            f->align = align;
        if (f->size > STREAM_SIZE_MAX)
            break;
    }
    f->size = (f->size + f->align - 1) & ~(f->align - 1);
    if (f->size > STREAM_SIZE_MAX)
        return errmsg_fail(b->err, E2BIG, "format %s has more than %zu bytes", f->name,
                           STREAM_SIZE_MAX);
    return 0;
}

static int lay_out(struct build *b, stream_format_t *f, const struct stream_table *t)
{
    if (t->size == 0) {
        if (make_layout(b, f) < 0)
            return -1;
    } else {
        f->size = t->size;
        f->align = t->align;
        if (f->size > STREAM_SIZE_MAX)
            return errmsg_fail(b->err, E2BIG, "format %s has more than %zu bytes", f->name,
                               STREAM_SIZE_MAX);
        if (f->align == 0 || f->align > 8 || (f->align & (f->align - 1)) || f->size % f->align)
            return errmsg_fail(b->err, EINVAL,
                               "format %s of %zu bytes cannot be aligned to %zu bytes", f->name,
                               f->size, f->align);
    }
    return check_layout(b, f);
}

/* --- formats --- */

static int check_name(struct build *b, const char *name, unsigned depth)
{
    bool taken = false;

    if (!name || !name_valid(name) || stream_elem_by_name(name) || strcmp(name, "record") == 0)
        return errmsg_fail(b->err, EINVAL, "'%.64s' is not a valid name of a format",
                           name ? name : "");
    for (size_t i = 0; i < b->n; i++)
        taken |= strcmp(b->formats[i]->name, name) == 0;
    for (unsigned i = 0; i < depth; i++)
        taken |= strcmp(b->outer_formats[i]->name, name) == 0;
    if (taken)
        return errmsg_fail(b->err, EINVAL, "two formats are named '%s'", name);
    return 0;
}

static int fill(struct build *b, stream_format_t *f, const struct stream_table *t, unsigned depth)
{
    char of[STREAM_NAME_MAX + 10];
    size_t n = 0;

    f->refs = 1;
    f->depth = 1;
    f->flat = f->plain = true;
    f->pointer = b->pointer;
    if (check_name(b, t->name, depth) < 0)
        return -1;
    if (!(f->name = strdup(t->name)) || !(f->index = hmap_create_str(NULL)))
        return errmsg_fail(b->err, ENOMEM, "out of memory for a format");
    snprintf(of, sizeof(of), "format %s", f->name);
    b->outer[depth] = t;
    b->outer_formats[depth] = f;
    while (n <= STREAM_FIELDS_MAX && t->rows && t->rows[n].name)
        n++;
    if (n == 0 || n > STREAM_FIELDS_MAX)
        return errmsg_fail(b->err, n == 0 ? EINVAL : E2BIG,
                           "format %s has no fields, or more than %d", f->name, STREAM_FIELDS_MAX);
    if ((t->pointer ? t->pointer : sizeof(void *)) != f->pointer)
        return errmsg_fail(b->err, EINVAL, "format %s has pointers of another size than others",
                           f->name);
    if (!(f->fields = calloc(n, sizeof(*f->fields))))
        return errmsg_fail(b->err, ENOMEM, "out of memory for a format");
    if (!(f->attrs = attrs_copy(t->attrs, of, b->err)))
        return -1;
    for (size_t i = 0; i < n; i++)
        if (add_field(b, f, &t->rows[i], depth) < 0)
            return -1;
    for (size_t i = 0; i < n; i++)
        if (find_sizes(b, f, &t->rows[i], &f->fields[i]) < 0)
            return -1;
    if (f->depth > STREAM_NEST_MAX)
        return errmsg_fail(b->err, E2BIG, "format %s has formats inside it to a depth above %d",
                           f->name, STREAM_NEST_MAX);
    return lay_out(b, f, t);
}

static stream_format_t *build(struct build *b, const struct stream_table *t, unsigned depth)
{
    stream_format_t *f;

    for (size_t i = 0; i < b->n; i++)
        if (b->tables[i] == t)
            return stream_format_incref(b->formats[i]);
    if (!(f = calloc(1, sizeof(*f)))) {
        errmsg_fail(b->err, ENOMEM, "out of memory for a format");
        return NULL;
    }
    if (fill(b, f, t, depth) < 0) {
        stream_format_destroy(f);
        return NULL;
    }
    if (b->n == STREAM_RECORDS_MAX) {
        errmsg_fail(b->err, E2BIG, "there are more than %d formats inside a format",
                    STREAM_RECORDS_MAX);
        stream_format_destroy(f);
        return NULL;
    }
    b->tables[b->n] = t;
    b->formats[b->n++] = f;
    return f;
}

stream_format_t *stream_format_create(const struct stream_table *table, errmsg_t *err)
{
    struct build b;
    stream_format_t *f;

    b.n = 0;
    b.err = err;
    b.pointer = table->pointer ? table->pointer : sizeof(void *);
    if (b.pointer != 4 && b.pointer != 8) {
        errmsg_fail(err, EINVAL, "a format cannot have pointers of %zu bytes", b.pointer);
        return NULL;
    }
    if (!(f = build(&b, table, 0)))
        return NULL;
    if (stream_format_text_make(f, err) < 0) {
        stream_format_destroy(f);
        return NULL;
    }
    return f;
}

/* --- references --- */

stream_format_t *stream_format_incref(const stream_format_t *f)
{
    stream_format_t *mine = (stream_format_t *)f;

    __atomic_add_fetch(&mine->refs, 1, __ATOMIC_RELAXED);
    return mine;
}

void stream_format_destroy(stream_format_t *f)
{
    int saved_errno = errno;

    if (!f || __atomic_sub_fetch(&f->refs, 1, __ATOMIC_ACQ_REL) > 0)
        return;
    for (size_t i = 0; i < f->nfields; i++) {
        struct stream_field *fd = &f->fields[i];

        free((char *)fd->name);
        attrs_destroy((struct stream_attr *)fd->attrs);
        if (fd->of != f)
            stream_format_destroy((stream_format_t *)fd->of);
    }
    attrs_destroy(f->attrs);
    hmap_destroy(f->index);
    free(f->fields);
    free(f->holes);
    free(f->name);
    free(f->text);
    free(f);
    errno = saved_errno;
}

/* --- queries --- */

const char *stream_format_name(const stream_format_t *f)
{
    return f->name;
}

size_t stream_format_size(const stream_format_t *f)
{
    return f->size;
}

size_t stream_format_align(const stream_format_t *f)
{
    return f->align;
}

size_t stream_format_pointer(const stream_format_t *f)
{
    return f->pointer;
}

bool stream_format_flat(const stream_format_t *f)
{
    return f->flat;
}

size_t stream_format_count(const stream_format_t *f)
{
    return f->nfields;
}

const struct stream_field *stream_format_field(const stream_format_t *f, size_t i)
{
    return i < f->nfields ? &f->fields[i] : NULL;
}

const struct stream_field *stream_format_find(const stream_format_t *f, const char *name)
{
    return hmap_get(f->index, name);
}

const char *stream_format_lookup(const struct stream_attr *attrs, const char *name)
{
    for (const struct stream_attr *a = attrs; a->name; a++)
        if (strcmp(a->name, name) == 0)
            return a->value;
    return NULL;
}

const struct stream_attr *stream_format_attrs(const stream_format_t *f)
{
    return f->attrs;
}

const char *stream_format_attr(const stream_format_t *f, const char *name)
{
    return stream_format_lookup(f->attrs, name);
}

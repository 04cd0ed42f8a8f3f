/* convert.c - plans the conversion of records of one format to another.
 *
 * A pair is a record of the writer's format and the corresponding record of the reader's format.
 * For each pair, a convert_record lists the operations, with offsets, loops and nested pairs
 * resolved, so that convert_run.c makes no decision that depends on the formats alone.  A pair with
 * only one side describes how to skip a record, or how to fill one that the writer does not have.
 *
 * Invariants:
 *  1. A pair has one convert_record, so the construction ends also for formats that point to
 *     themselves.
 *  2. Every field of the reader is in exactly one of the lists, and every field of the writer that
 *     has blocks in the body is a part, in its place in the order.
 *  3. The result for a reader's field is a value of its type.
 *
 * Failure: EINVAL, with the name of the field.
 */
#include "config.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "convert_private.h"

struct plan {
    stream_convert_t *c;
    hmap_t *pairs; /* two pointers -> struct convert_record */
    errmsg_t *err;
};

struct pair {
    const stream_format_t *from, *to;
};

#define FIELD_FAIL(p, f, fd, what, ...) \
    errmsg_fail((p)->err, EINVAL, "field %s.%s " what, (f)->name, (fd)->name, ##__VA_ARGS__)

static int no_memory(struct plan *p)
{
    return errmsg_fail(p->err, ENOMEM, "out of memory for a conversion");
}

static const struct convert_record *pair(struct plan *p, const stream_format_t *from,
                                         const stream_format_t *to);

/* --- layouts that agree --- */

/* Is a flat record the same bytes in both formats, except for truth values that have to be
 * checked? */
static bool same_bytes(const stream_format_t *a, const stream_format_t *b, enum stream_order order)
{
    if (!a->flat || !b->flat || a->size != b->size || a->nfields != b->nfields)
        return false;
    for (size_t i = 0; i < a->nfields; i++) {
        const struct stream_field *x = &a->fields[i];
        const struct stream_field *y = stream_format_find(b, x->name);

        if (!y || x->type != y->type || x->offset != y->offset || x->ndims != y->ndims ||
            memcmp(x->dims, y->dims, x->ndims * sizeof(x->dims[0])) != 0)
            return false;
        if (x->of ? !same_bytes(x->of, y->of, order)
                  : !(x->type == STREAM_BOOL || stream_elem_copies(x->type, order, y->type)))
            return false;
    }
    return true;
}

/* Can the record be copied without any check? */
static bool same_layout(const stream_format_t *a, const stream_format_t *b, enum stream_order order)
{
    return !a->truth && same_bytes(a, b, order);
}

/* --- fields without a writer --- */

/* Determine the value of a field without a writer. */
static int make_fill(struct plan *p, const struct convert_record *r, const struct stream_field *b,
                     struct convert_fill *fill)
{
    const char *text = stream_format_lookup(b->attrs, "default");

    if (b->flags & (STREAM_OPTIONAL | STREAM_POINTER))
        return 0;
    if (b->type == STREAM_STRING)
        fill->string = text ? text : "";
    else if (b->type == STREAM_RECORD) {
        if (!(fill->record = pair(p, NULL, b->of)))
            return -1;
    } else if (!text)
        return 0;
    else if (stream_elem_parse(b->type, text, fill->value) < 0)
        return errno == ENOMEM ? no_memory(p) : FIELD_FAIL(p, r->to, b, "has an invalid default");
    fill->to = b;
    return 0;
}

/* An array without a writer has no elements: is one of its sizes 0 because it has no writer
 * either? */
static bool has_no_elements(const struct convert_record *r, const struct stream_field *b)
{
    for (unsigned d = 0; d < b->ndims; d++) {
        const struct stream_field *size = &r->to->fields[b->dims[d].field];

        if (!b->dims[d].fixed && !(r->from && stream_format_find(r->from, size->name)) &&
            !stream_format_lookup(size->attrs, "default"))
            return true;
    }
    return false;
}

static int add_fill(struct plan *p, struct convert_record *r, const struct stream_field *b)
{
    if (b->variable && !(b->flags & STREAM_OPTIONAL) && !has_no_elements(r, b))
        return FIELD_FAIL(p, r->to, b, "is an array that the writer does not have: only its size");
    if (b->variable)
        return 0; /* NULL */
    if (make_fill(p, r, b, &r->fills[r->nfills]) < 0)
        return -1;
    r->nfills += r->fills[r->nfills].to != NULL;
    return 0;
}

/* --- fields of both --- */

static int check_dims(struct plan *p, const struct convert_record *r, const struct stream_field *a,
                      const struct stream_field *b)
{
    bool equal = a->ndims == b->ndims;

    for (unsigned d = 0; equal && d < a->ndims; d++) {
        const struct stream_extent *x = &a->dims[d], *y = &b->dims[d];

        equal = x->fixed == y->fixed && (x->fixed || strcmp(r->from->fields[x->field].name,
                                                            r->to->fields[y->field].name) == 0);
    }
    if (!equal)
        return FIELD_FAIL(p, r->to, b, "has other dimensions at the writer");
    if (a->variable && (a->flags & STREAM_OPTIONAL) && !(b->flags & STREAM_OPTIONAL))
        return FIELD_FAIL(p, r->to, b, "may be absent at the writer, but not here");
    return 0;
}

static int check_types(struct plan *p, const struct convert_record *r, const struct stream_field *a,
                       const struct stream_field *b)
{
    bool fits = a->type == STREAM_RECORD || a->type == STREAM_STRING
                    ? a->type == b->type
                    : stream_elem_converter(a->type, p->c->order, b->type) != NULL;

    if (!fits)
        return FIELD_FAIL(p, r->to, b,
                          "is of type %s, and of type %s at the writer: "
                          "there is no conversion without loss",
                          stream_elem_name(b->type), stream_elem_name(a->type));
    return 0;
}

/* Add bytes to copy, joined with the preceding copy if they follow it on both sides. */
static void add_move(struct convert_record *r, size_t from, size_t to, size_t len)
{
    struct convert_move *last = r->nmoves > 0 ? &r->moves[r->nmoves - 1] : NULL;

    if (last && last->from + last->len == from && last->to + last->len == to)
        last->len += len;
    else
        r->moves[r->nmoves++] = (struct convert_move){from, to, len};
}

/* Add a field of the writer that has blocks, or whose field at the reader has blocks; `to` may be
 * NULL. */
static int add_part(struct plan *p, struct convert_record *r, const struct stream_field *from,
                    const struct stream_field *to)
{
    struct convert_part *part = &r->parts[r->nparts++];

    *part = (struct convert_part){.from = from, .to = to};
    if (from->type == STREAM_RECORD) {
        if (!(part->record = pair(p, from->of, to ? to->of : NULL)))
            return -1;
    } else if (to && from->type != STREAM_STRING) {
        part->convert = stream_elem_converter(from->type, p->c->order, to->type);
        part->copies = stream_elem_copies(from->type, p->c->order, to->type);
    }
    if (to && !to->variable && make_fill(p, r, to, &part->absent) < 0)
        return -1;
    /* An element that is null, although the field is present. */
    if (from->type == STREAM_RECORD && from->pointers && to && !to->pointers &&
        !part->absent.record && !(part->absent.record = pair(p, NULL, to->of)))
        return -1;
    return 0;
}

static int add_both(struct plan *p, struct convert_record *r, const struct stream_field *a,
                    const struct stream_field *b)
{
    if (check_types(p, r, a, b) < 0 || check_dims(p, r, a, b) < 0)
        return -1;
    if (a->slot || a->pointers || b->slot || b->pointers)
        return add_part(p, r, a, b);
    if (a->type == STREAM_RECORD) {
        if (!same_layout(a->of, b->of, p->c->order))
            return add_part(p, r, a, b);
        add_move(r, a->offset, b->offset, a->elem * a->count);
    } else if (stream_elem_copies(a->type, p->c->order, b->type)) {
        add_move(r, a->offset, b->offset, a->elem * a->count);
    } else {
        r->loops[r->nloops++] =
            (struct convert_loop){.from = a,
                                  .to = b->offset,
                                  .bytes = b->elem * b->count,
                                  .convert = stream_elem_converter(a->type, p->c->order, b->type)};
    }
    return 0;
}

/* --- records --- */

/* Number of bytes of the reader's record that moves and loops write. */
static size_t covered(const struct convert_record *r)
{
    size_t n = 0;

    for (size_t i = 0; i < r->nmoves; i++)
        n += r->moves[i].len;
    for (size_t i = 0; i < r->nloops; i++)
        n += r->loops[i].bytes;
    return n;
}

static int compile(struct plan *p, struct convert_record *r)
{
    size_t nfrom = r->from ? r->from->nfields : 0;
    size_t nto = r->to ? r->to->nfields : 0;

    r->moves = calloc(nto + 1, sizeof(*r->moves));
    r->loops = calloc(nto + 1, sizeof(*r->loops));
    r->fills = calloc(nto + 1, sizeof(*r->fills));
    r->parts = calloc(nfrom + 1, sizeof(*r->parts));
    if (!r->moves || !r->loops || !r->fills || !r->parts)
        return no_memory(p);
    r->same = r->from && r->to && same_layout(r->from, r->to, p->c->order);
    for (size_t i = 0; i < nfrom; i++) {
        const struct stream_field *a = &r->from->fields[i];
        const struct stream_field *b = r->to ? stream_format_find(r->to, a->name) : NULL;

        if (b) {
            if (add_both(p, r, a, b) < 0)
                return -1;
        } else if ((a->slot || a->pointers || (a->of && !a->of->flat)) &&
                   add_part(p, r, a, NULL) < 0) {
            return -1;
        }
    }
    for (size_t i = 0; i < nto; i++)
        if (!(r->from && stream_format_find(r->from, r->to->fields[i].name)) &&
            add_fill(p, r, &r->to->fields[i]) < 0)
            return -1;
    for (unsigned s = 0; r->from && s < r->from->nsizes; s++) {
        r->sizes[s].from = &r->from->fields[r->from->sizes[s]];
        r->sizes[s].to = r->to ? stream_format_find(r->to, r->sizes[s].from->name) : NULL;
    }
    r->quiet = (!r->from || r->from->flat) && (!r->to || r->to->flat) &&
               !(r->from && r->to && r->from->truth);
    r->full = r->to && covered(r) == r->to->size;
    r->flat = r->from && r->to && r->nparts == 0 && r->nfills == 0;
    return 0;
}

static const struct convert_record *pair(struct plan *p, const stream_format_t *from,
                                         const stream_format_t *to)
{
    const struct pair key = {from, to};
    struct convert_record *r = hmap_get(p->pairs, &key);

    if (r)
        return r;
    if (!(r = calloc(1, sizeof(*r)))) {
        no_memory(p);
        return NULL;
    }
    r->from = from;
    r->to = to;
    r->next = p->c->records;
    p->c->records = r;
    if (hmap_put(p->pairs, &key, r) < 0) {
        no_memory(p);
        return NULL;
    }
    return compile(p, r) < 0 ? NULL : r;
}

stream_convert_t *stream_convert_create(const stream_format_t *from, enum stream_order order,
                                        const stream_format_t *to, errmsg_t *err)
{
    struct plan p = {.err = err};

    if (to->pointer != sizeof(void *)) {
        errmsg_fail(err, EINVAL,
                    "format %s has pointers of %zu bytes: structs of this host have "
                    "others",
                    to->name, to->pointer);
        return NULL;
    }
    p.c = calloc(1, sizeof(*p.c));
    p.pairs = hmap_create_bin(sizeof(struct pair), NULL);
    if (!p.c || !p.pairs) {
        no_memory(&p);
        goto fail;
    }
    p.c->from = stream_format_incref(from);
    p.c->to = stream_format_incref(to);
    p.c->order = order;
    p.c->in_place = same_bytes(from, to, order);
    if (!(p.c->top = (struct convert_record *)pair(&p, from, to)))
        goto fail;
    hmap_destroy(p.pairs);
    return p.c;
fail:
    hmap_destroy(p.pairs);
    stream_convert_destroy(p.c);
    return NULL;
}

void stream_convert_destroy(stream_convert_t *c)
{
    int saved_errno = errno;

    if (!c)
        return;
    while (c->records) {
        struct convert_record *r = c->records;

        c->records = r->next;
        free(r->moves);
        free(r->loops);
        free(r->parts);
        free(r->fills);
        free(r);
    }
    stream_format_destroy(c->from);
    stream_format_destroy(c->to);
    free(c);
    errno = saved_errno;
}

bool stream_convert_in_place(const stream_convert_t *c)
{
    return c->in_place;
}

/* value.c - random formats, random records, and an encoder that is written after the documentation.
 */
#include "config.h"
#include <check.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "value.h"

uint64_t chance(struct chance *c, uint64_t n)
{
    c->seed = c->seed * 6364136223846793005u + 1442695040888963407u;
    return (c->seed >> 20) % n;
}

struct block {
    struct block *next;
    max_align_t data[];
};

static struct block *blocks;

void *value_alloc(size_t bytes)
{
    struct block *b = calloc(1, sizeof(*b) + bytes + 1);

    ck_assert_ptr_nonnull(b);
    b->next = blocks;
    blocks = b;
    return b->data;
}

void value_free_all(void)
{
    while (blocks) {
        struct block *b = blocks;

        blocks = b->next;
        free(b);
    }
}

static char *text(const char *fmt, uint64_t n)
{
    char *s = value_alloc(64);

    snprintf(s, 64, fmt, (unsigned long long)n);
    return s;
}

/* --- formats --- */

struct tables {
    struct stream_table *t[32];
    size_t n;
};

static struct stream_table *table(struct chance *c, struct tables *all, unsigned depth);

static const struct stream_attr *attrs(struct chance *c)
{
    static const struct stream_attr units[] = {{"units", "a\"\\b\n\x7f\xc3\xa9"}, {"x", ""}, {0}};

    return chance(c, 4) == 0 ? units : NULL;
}

static void random_dims(struct chance *c, struct stream_row *r, const struct stream_row *rows,
                        size_t n)
{
    unsigned nd = chance(c, 2) ? 0 : 1 + (unsigned)chance(c, 3);

    for (unsigned d = 0; d < nd; d++) {
        const struct stream_row *size = &rows[n > 0 ? chance(c, n) : 0];

        if (n > 0 && chance(c, 2) && stream_elem_integer(size->type) && !size->flags &&
            !size->dims[0].fixed && !size->dims[0].field)
            r->dims[d].field = size->name;
        else
            r->dims[d].fixed = 1 + chance(c, 3);
    }
}

static void random_row(struct chance *c, struct tables *all, const struct stream_table *self,
                       struct stream_row *rows, size_t n, unsigned depth)
{
    struct stream_row *r = &rows[n];

    r->name = text("f%llu", n);
    r->type = n == 0 || chance(c, 3) == 0 ? STREAM_I8 + chance(c, 8) : STREAM_I8 + chance(c, 17);
    r->attrs = attrs(c);
    if (n > 0)
        random_dims(c, r, rows, n);
    if (r->type == STREAM_RECORD) {
        bool own = chance(c, 4) == 0;

        if (chance(c, 2) || own)
            r->flags |= STREAM_POINTER;
        if (own)
            r->of = self;
        else if (all->n > 0 && chance(c, 3) == 0)
            r->of = all->t[chance(c, all->n)];
        else if (depth < 3)
            r->of = table(c, all, depth + 1);
        else
            *r = (struct stream_row){.name = r->name, .type = STREAM_STRING};
    }
    if (n > 0 && chance(c, 4) == 0 &&
        !(r->type == STREAM_RECORD && !r->dims[0].fixed && !r->dims[0].field))
        r->flags |= STREAM_OPTIONAL;
}

static struct stream_table *table(struct chance *c, struct tables *all, unsigned depth)
{
    struct stream_table *t = value_alloc(sizeof(*t));
    size_t n = 1 + chance(c, 7);
    struct stream_row *rows = value_alloc((n + 1) * sizeof(*rows));
    static unsigned count;

    t->name = text("r%llu", count++);
    t->rows = rows;
    t->attrs = attrs(c);
    for (size_t i = 0; i < n; i++)
        random_row(c, all, t, rows, i, depth);
    if (all->n < 32) /* complete: others may have it inside them */
        all->t[all->n++] = t;
    return t;
}

/* Give a table, and those inside it, offsets of its own: in disorder, and with holes. */
static void scatter(struct chance *c, struct stream_table *t, size_t pointer)
{
    struct stream_row *rows = (struct stream_row *)t->rows;
    stream_format_t *f;
    size_t at = 0, n = 0;

    if (t->size || t->pointer)
        return;
    t->pointer = pointer;
    for (n = 0; rows[n].name; n++)
        if (rows[n].of && rows[n].of != t)
            scatter(c, (struct stream_table *)rows[n].of, pointer);
    f = stream_format_create(t, NULL);
    ck_assert_ptr_nonnull(f);
    for (size_t k = 0, first = chance(c, n); k < n; k++) {
        size_t i = (first + k) % n;
        const struct stream_field *fd = stream_format_field(f, i);

        at += chance(c, 3);
        rows[i].offset = at;
        at += fd->slot ? pointer : fd->elem * fd->count;
    }
    t->align = (size_t)1 << chance(c, 4);
    t->size = (at + chance(c, 5) + t->align - 1) / t->align * t->align;
    stream_format_destroy(f);
}

struct stream_table *value_table(struct chance *c)
{
    for (;;) {
        struct tables all = {.n = 0};
        struct stream_table *t = table(c, &all, 0);
        stream_format_t *f = stream_format_create(t, NULL);

        if (!f) /* too many sizes, or the like */
            continue;
        if (stream_format_size(f) < 100000) {
            stream_format_destroy(f);
            if (chance(c, 2))
                scatter(c, t, chance(c, 2) ? 4 : 8);
            return t;
        }
        stream_format_destroy(f);
    }
}

struct later {
    const struct stream_table *from[32];
    struct stream_table *to[32];
    size_t n;
};

static struct stream_table *later(struct chance *c, struct later *l, const struct stream_table *t)
{
    static const struct stream_attr seven[] = {{"default", "7"}, {0}};
    static const struct stream_attr word[] = {{"default", "word"}, {0}};
    struct stream_table *out = value_alloc(sizeof(*out));
    struct stream_row *rows;
    size_t n = 0, k = 0;

    for (size_t i = 0; i < l->n; i++)
        if (l->from[i] == t)
            return l->to[i];
    while (t->rows[n].name)
        n++;
    rows = value_alloc((n + 4) * sizeof(*rows));
    if (l->n < 32) {
        l->from[l->n] = t;
        l->to[l->n++] = out;
    }
    *out = (struct stream_table){.name = t->name, .rows = rows};
    if (chance(c, 2))
        rows[k++] = (struct stream_row){.name = "new_number", .type = STREAM_I16, .attrs = seven};
    for (size_t i = n; i-- > 0;) {
        struct stream_row r = t->rows[i];

        if (chance(c, 5) == 0)
            continue;
        r.attrs = NULL;
        if (r.of)
            r.of = later(c, l, r.of);
        else if (r.type != STREAM_STRING && chance(c, 2))
            do
                r.type = STREAM_I8 + chance(c, 15);
            while (!stream_elem_converter(t->rows[i].type, STREAM_NATIVE, r.type));
        if (chance(c, 5) == 0 && r.type != STREAM_RECORD)
            r.flags ^= STREAM_OPTIONAL;
        else if (r.type == STREAM_RECORD && r.of != out && chance(c, 4) == 0)
            r.flags ^= STREAM_POINTER;
        rows[k++] = r;
    }
    if (chance(c, 2) || k == 0)
        rows[k++] = (struct stream_row){.name = "new_text", .type = STREAM_STRING, .attrs = word};
    if (chance(c, 2))
        rows[k++] =
            (struct stream_row){.name = "new_option", .type = STREAM_F64, .flags = STREAM_OPTIONAL};
    return out;
}

struct stream_table *value_later(struct chance *c, const struct stream_table *t)
{
    struct later l = {.n = 0};

    return later(c, &l, t);
}

/* --- records --- */

static uint64_t size_of(const struct record *r, size_t field)
{
    uint64_t v = 0;

    ck_assert(stream_elem_size_value(stream_format_field(r->f, field)->type, STREAM_NATIVE,
                                     r->values[field].bytes, &v));
    return v;
}

static struct record *make(struct chance *c, const stream_format_t *f, unsigned depth, int *left);

/* Languages without f32 do not keep the bits of what is not a number, and some have no u64. */
static void make_plain(const struct stream_field *fd, struct value *v)
{
    size_t word = fd->type == STREAM_F32 || fd->type == STREAM_C64 ? 4 : 8;
    size_t len = v->n * stream_elem_size(fd->type);

    if (word == 8 && fd->type != STREAM_U64)
        return;
    for (size_t k = 0; k < len; k += word)
        v->bytes[k + (STREAM_NATIVE == STREAM_LITTLE ? word - 1 : 0)] &= word == 4 ? 0xbf : 0x7f;
}

static void make_value(struct chance *c, struct record *r, size_t i, unsigned depth, int *left)
{
    const struct stream_field *fd = stream_format_field(r->f, i);
    struct value *v = &r->values[i];

    v->n = fd->count;
    for (unsigned d = 0; d < fd->ndims; d++)
        if (!fd->dims[d].fixed)
            v->n *= size_of(r, fd->dims[d].field);
    if ((fd->flags & STREAM_OPTIONAL) && chance(c, 3) == 0)
        v->absent = true;
    if (v->n == 0 && fd->slot)
        v->absent = true;
    if (v->absent)
        return;
    v->strings = value_alloc(v->n * sizeof(char *));
    v->records = value_alloc(v->n * sizeof(struct record *));
    v->bytes = value_alloc(v->n * stream_elem_size(fd->type));
    for (size_t b = 0; b < v->n * stream_elem_size(fd->type); b++)
        v->bytes[b] = (uint8_t)(fd->type == STREAM_BOOL ? chance(c, 2) : chance(c, 256));
    if (c->plain)
        make_plain(fd, v);
    for (uint64_t k = 0; k < v->n; k++) {
        if (fd->type == STREAM_STRING)
            v->strings[k] = text(chance(c, 3) ? "string %llu" : "", chance(c, 100000));
        if (fd->type == STREAM_RECORD &&
            (!fd->pointers || (chance(c, 3) && depth < 6 && *left > 0)))
            v->records[k] = make(c, fd->of, depth + 1, left);
    }
}

/* `left`: about how many records there may be more. */
static struct record *make(struct chance *c, const stream_format_t *f, unsigned depth, int *left)
{
    struct record *r = value_alloc(sizeof(*r));
    size_t n = stream_format_count(f);

    --*left;
    r->f = f;
    r->values = value_alloc(n * sizeof(*r->values));
    for (size_t i = 0; i < n; i++) { /* sizes first */
        const struct stream_field *fd = stream_format_field(f, i);

        if (stream_elem_integer(fd->type) && fd->ndims == 0 && !fd->flags) {
            r->values[i].n = 1;
            r->values[i].bytes = value_alloc(8);
            stream_elem_size_put(fd->type, r->values[i].bytes, chance(c, 4));
        }
    }
    for (size_t i = 0; i < n; i++)
        if (!r->values[i].bytes)
            make_value(c, r, i, depth, left);
    return r;
}

struct record *value_record(struct chance *c, const stream_format_t *f)
{
    int left = 200;

    return make(c, f, 0, &left);
}

/* --- the encoder --- */

struct out {
    uint8_t *data;
    size_t len;
    enum stream_order order;
    size_t pointer;
};

static size_t add(struct out *o, size_t bytes, size_t align)
{
    size_t at = (o->len + align - 1) / align * align;

    o->data = realloc(o->data, at + bytes + 1);
    ck_assert_ptr_nonnull(o->data);
    memset(o->data + o->len, 0, at + bytes - o->len);
    o->len = at + bytes;
    return at;
}

/* A word in the byte order of the output. */
static void put_word(struct out *o, size_t at, const uint8_t *native, size_t len)
{
    for (size_t i = 0; i < len; i++)
        o->data[at + (o->order == STREAM_NATIVE ? i : len - 1 - i)] = native[i];
}

static void put_offset(struct out *o, size_t at, uint64_t v)
{
    uint32_t small = (uint32_t)v;

    put_word(o, at, o->pointer == 4 ? (uint8_t *)&small : (uint8_t *)&v, o->pointer);
}

static void encode(struct out *o, const struct record *r, const stream_format_t *f, size_t at);

static void encode_value(struct out *o, const struct value *v, const struct stream_field *fd,
                         size_t at)
{
    size_t elem = stream_elem_size(fd->type);
    size_t word = fd->type == STREAM_C64 || fd->type == STREAM_C128 ? elem / 2 : elem;

    if (fd->slot && v->absent)
        return;
    if (fd->slot) {
        size_t block = add(o, v->n * fd->elem, 8);

        put_offset(o, at, block);
        at = block;
    }
    for (size_t b = 0; elem && b < v->n * elem; b += word)
        put_word(o, at + b, v->bytes + b, word);
    for (uint64_t k = 0; fd->type == STREAM_STRING && !v->absent && k < v->n; k++) {
        size_t block = add(o, strlen(v->strings[k]) + 1, 1);

        memcpy(o->data + block, v->strings[k], strlen(v->strings[k]));
        put_offset(o, at + k * fd->elem, block);
    }
    for (uint64_t k = 0; fd->type == STREAM_RECORD && k < v->n; k++) {
        size_t block = at + k * fd->elem;

        if (!v->records[k])
            continue;
        if (fd->pointers) {
            block = add(o, stream_format_size(fd->of), 8);
            put_offset(o, at + k * fd->elem, block);
        }
        encode(o, v->records[k], fd->of, block);
    }
}

static void encode(struct out *o, const struct record *r, const stream_format_t *f, size_t at)
{
    for (size_t i = 0; i < stream_format_count(f); i++) {
        const struct stream_field *fd = stream_format_field(f, i);

        encode_value(o, &r->values[i], fd, at + fd->offset);
    }
}

uint8_t *value_encode_array(struct record *const *r, size_t n, const stream_format_t *f,
                            enum stream_order order, size_t *len)
{
    struct out o = {.order = order, .pointer = stream_format_pointer(f)};
    size_t at = add(&o, n * stream_format_size(f), 8);

    for (size_t i = 0; i < n; i++)
        encode(&o, r[i], f, at + i * stream_format_size(f));
    *len = o.len;
    return o.data;
}

uint8_t *value_encode(const struct record *r, const stream_format_t *f, enum stream_order order,
                      size_t *len)
{
    return value_encode_array((struct record *const *)&r, 1, f, order, len);
}

/* --- structs --- */

static void fill(const struct record *r, const stream_format_t *f, uint8_t *mem);

static void fill_value(const struct value *v, const struct stream_field *fd, uint8_t *at)
{
    if (v->absent)
        return;
    if (fd->slot) {
        uint8_t *block = value_alloc(v->n * fd->elem);

        memcpy(at, &block, sizeof(block));
        at = block;
    }
    if (stream_elem_size(fd->type))
        memcpy(at, v->bytes, v->n * fd->elem);
    for (uint64_t k = 0; k < v->n && !stream_elem_size(fd->type); k++, at += fd->elem) {
        uint8_t *p;

        if (fd->type == STREAM_STRING) {
            memcpy(at, &v->strings[k], sizeof(char *));
        } else if (!fd->pointers) {
            fill(v->records[k], fd->of, at);
        } else if (v->records[k]) {
            p = value_struct(v->records[k], fd->of);
            memcpy(at, &p, sizeof(p));
        }
    }
}

static void fill(const struct record *r, const stream_format_t *f, uint8_t *mem)
{
    memset(mem, 0xee, stream_format_size(f)); /* what is in no field has any value */
    for (size_t i = 0; i < stream_format_count(f); i++) {
        const struct stream_field *fd = stream_format_field(f, i);

        memset(mem + fd->offset, 0, fd->slot ? sizeof(void *) : fd->elem * fd->count);
        fill_value(&r->values[i], fd, mem + fd->offset);
    }
}

void *value_structs(struct record *const *r, size_t n, const stream_format_t *f)
{
    uint8_t *mem = value_alloc(n * stream_format_size(f));

    for (size_t i = 0; i < n; i++)
        fill(r[i], f, mem + i * stream_format_size(f));
    return mem;
}

void *value_struct(const struct record *r, const stream_format_t *f)
{
    return value_structs((struct record *const *)&r, 1, f);
}

/* --- what a reader gets --- */

static const uint8_t *pointer_at(const uint8_t *at)
{
    const uint8_t *p;

    memcpy(&p, at, sizeof(p));
    return p;
}

/* A field that nobody wrote, or that is absent. */
static void check_nothing(const struct stream_field *fd, const uint8_t *at)
{
    const char *def = stream_format_lookup(fd->attrs, "default");
    uint8_t value[16] = {0};

    if (fd->slot || (fd->pointers && fd->type == STREAM_RECORD) ||
        (fd->type == STREAM_STRING && (fd->flags & STREAM_OPTIONAL))) {
        for (uint64_t k = 0; k < (fd->slot ? 1 : fd->count); k++)
            ck_assert_ptr_null(pointer_at(at + k * sizeof(void *)));
        return;
    }
    for (uint64_t k = 0; k < fd->count; k++, at += fd->elem) {
        if (fd->type == STREAM_STRING) {
            ck_assert_str_eq((const char *)pointer_at(at), def ? def : "");
        } else if (fd->type == STREAM_RECORD) {
            value_check(NULL, fd->of, at);
        } else {
            if (def)
                ck_assert_int_eq(stream_elem_parse(fd->type, def, value), 0);
            ck_assert_mem_eq(at, value, fd->elem);
        }
    }
}

static void check_value(const struct value *v, const struct stream_field *from,
                        const struct stream_field *to, const uint8_t *at)
{
    if (v->absent) {
        check_nothing(to, at);
        return;
    }
    if (to->slot)
        at = pointer_at(at);
    ck_assert_ptr_nonnull(at);
    if (stream_elem_size(from->type)) {
        uint8_t *want = value_alloc(v->n * to->elem);

        stream_elem_converter(from->type, STREAM_NATIVE, to->type)(want, v->bytes, v->n);
        ck_assert_mem_eq(at, want, v->n * to->elem);
        return;
    }
    for (uint64_t k = 0; k < v->n; k++, at += to->elem) {
        if (from->type == STREAM_STRING)
            ck_assert_str_eq((const char *)pointer_at(at), v->strings[k]);
        else if (to->pointers && !v->records[k])
            ck_assert_ptr_null(pointer_at(at));
        else
            value_check(v->records[k], to->of, to->pointers ? pointer_at(at) : at);
    }
}

void value_check(const struct record *r, const stream_format_t *f, const uint8_t *mem)
{
    ck_assert_ptr_nonnull(mem);
    for (size_t i = 0; i < stream_format_count(f); i++) {
        const struct stream_field *to = stream_format_field(f, i);
        const struct stream_field *from = r ? stream_format_find(r->f, to->name) : NULL;

        if (from)
            check_value(&r->values[from - stream_format_field(r->f, 0)], from, to,
                        mem + to->offset);
        else
            check_nothing(to, mem + to->offset);
    }
}

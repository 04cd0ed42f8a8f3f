/* check_convert.c - records as bytes and back: random formats and values against an encoder that is
 * written after the documentation, programs of different versions, bytes that are not records,
 * memory that runs out.
 */
#include "config.h"
#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libutil/test/fail_at.h"
#include "libstream/convert.h"
#include "libutil/test/suite.h"
#include "value.h"

#define FORMATS 50 /* of one test, of which there are 8 */

/* --- random formats and values --- */

static const enum stream_order orders[] = {STREAM_LITTLE, STREAM_BIG};

/* An aligned copy, beyond which memory is not to be read. */
static uint8_t *exactly(const uint8_t *data, size_t len)
{
    uint8_t *p = malloc(len ? len : 1);

    ck_assert_ptr_nonnull(p);
    if (len)
        memcpy(p, data, len);
    return p;
}

static void check_both_ways(const struct record *r, const stream_format_t *f,
                            const stream_format_t *native)
{
    errmsg_t err = {""};
    size_t len;

    for (int o = 0; o < 2; o++) {
        uint8_t *plain = value_encode(r, f, orders[o], &len);
        uint8_t *body = exactly(plain, len);
        stream_convert_t *c = stream_convert_create(f, orders[o], native, &err);
        void *out;
        size_t need;

        ck_assert_msg(c != NULL, "%s", err.text);
        ck_assert_msg(stream_convert_check(c, body, len, &need, &err) == 0, "%s", err.text);
        out = stream_convert(c, body, len, need, 0, &err);
        ck_assert_msg(out != NULL, "%s", err.text);
        value_check(r, native, out);
        if (stream_convert_in_place(c))
            value_check(r, native, body);
        free(out);
        ck_assert_ptr_null(stream_convert(c, body, len, need - 1, 0, &err));
        ck_assert_int_eq(errno, EMSGSIZE);
        out = stream_convert(c, body, len, need, STREAM_BORROW, &err);
        ck_assert_msg(out != NULL, "%s", err.text);
        value_check(r, native, out);
        free(out);
        stream_convert_destroy(c);
        free(body);
        free(plain);
    }
}

static void check_encoder(const struct record *r, const stream_format_t *native)
{
    void *mem = value_struct(r, native);
    errmsg_t err = {""};
    struct stream_header head;
    size_t len, need, want;
    uint8_t *plain = value_encode(r, native, STREAM_NATIVE, &want), *buf;

    ck_assert_msg(stream_encode_size(native, mem, &need, &err) == 0, "%s", err.text);
    buf = malloc(need);
    ck_assert_int_eq(stream_encode(native, mem, buf, need - 1, &len, &err), -1);
    ck_assert_int_eq(errno, ENOBUFS);
    ck_assert_msg(stream_encode(native, mem, buf, need, &len, &err) == 0, "%s", err.text);
    ck_assert_uint_eq(len, need);
    ck_assert_int_eq(stream_encode_open(buf, len, &head, &err), 0);
    ck_assert_int_eq(head.id == stream_format_id(native), 1);
    ck_assert_int_eq(head.order, STREAM_NATIVE);
    ck_assert_uint_eq(head.pointer, sizeof(void *));
    ck_assert_uint_eq(head.len, want);
    ck_assert_mem_eq(head.body, plain, want);
    free(buf);
    free(plain);
}

static void check_random(uint64_t seed)
{
    struct chance c = {.seed = seed};
    errmsg_t err = {""};
    stream_format_t *f = stream_format_create(value_table(&c), &err), *native, *parsed;

    ck_assert_msg(f != NULL, "%s", err.text);
    native = stream_format_native(f, &err);
    ck_assert_msg(native != NULL, "%s", err.text);
    for (int i = 0; i < 4; i++) {
        struct record *r = value_record(&c, f);

        check_both_ways(r, f, native);
        check_encoder(r, native);
    }
    parsed = stream_format_parse(stream_format_text(f), strlen(stream_format_text(f)), &err);
    ck_assert_msg(parsed != NULL, "%s", err.text);
    ck_assert_mem_eq(stream_format_hash(f), stream_format_hash(parsed), 32);
    stream_format_destroy(parsed);
    stream_format_destroy(native);
    stream_format_destroy(f);
}

START_TEST(test_random)
{
    for (uint64_t i = 0; i < FORMATS; i++)
        check_random((uint64_t)_i * FORMATS + i + 0);
}
END_TEST

/* Programs of different versions. */
static void check_later(uint64_t seed)
{
    struct chance c = {.seed = seed};
    errmsg_t err = {""};
    struct stream_table *t = value_table(&c);
    stream_format_t *f = stream_format_create(t, &err);

    ck_assert_msg(f != NULL, "%s", err.text);
    for (int i = 0; i < 20; i++) {
        stream_format_t *to = stream_format_create(value_later(&c, t), &err);
        enum stream_order order = orders[chance(&c, 2)];
        stream_convert_t *conv;
        struct record *r;
        uint8_t *body;
        size_t len;
        void *out;

        if (!to) /* a size is missing now, or the like */
            continue;
        if ((conv = stream_convert_create(f, order, to, &err))) {
            r = value_record(&c, f);
            body = value_encode(r, f, order, &len);
            out = stream_convert(conv, body, len, 1 << 24, 0, &err);
            ck_assert_msg(out != NULL, "%s", err.text);
            value_check(r, to, out);
            free(out);
            free(body);
        } else {
            ck_assert_int_eq(errno, EINVAL);
        }
        stream_convert_destroy(conv);
        stream_format_destroy(to);
    }
    stream_format_destroy(f);
}

START_TEST(test_later)
{
    for (uint64_t i = 0; i < FORMATS / 4; i++)
        check_later((uint64_t)_i * FORMATS / 4 + i + 100000);
}
END_TEST

/* What was read can be written, and that read and written again. */
static void check_again(const stream_format_t *f, const void *rec)
{
    stream_convert_t *c = stream_convert_create(f, STREAM_NATIVE, f, NULL);
    errmsg_t err = {""};
    size_t len;
    uint8_t *buf, *again;
    void *out;

    ck_assert_msg(stream_encode_size(f, rec, &len, &err) == 0, "%s", err.text);
    buf = malloc(len);
    again = malloc(len);
    ck_assert_int_eq(stream_encode(f, rec, buf, len, &len, NULL), 0);
    out = stream_convert(c, buf + STREAM_HEADER, len - STREAM_HEADER, 1 << 24, 0, &err);
    ck_assert_msg(out != NULL, "%s", err.text);
    ck_assert_int_eq(stream_encode(f, out, again, len, &len, NULL), 0);
    ck_assert_mem_eq(buf, again, len);
    free(out);
    free(buf);
    free(again);
    stream_convert_destroy(c);
}

/* Whatever is changed in a body, reading it ends, within its bytes. */
static void check_changed(uint64_t seed)
{
    struct chance c = {.seed = seed};
    stream_format_t *f = stream_format_create(value_table(&c), NULL);
    stream_format_t *native = stream_format_native(f, NULL);
    enum stream_order order = orders[chance(&c, 2)];
    stream_convert_t *conv = stream_convert_create(f, order, native, NULL);
    size_t whole;
    uint8_t *plain = value_encode(value_record(&c, f), f, order, &whole);

    for (int i = 0; i < 200; i++) {
        size_t len = chance(&c, 4) ? whole : chance(&c, whole + 1);
        uint8_t *body = exactly(plain, len);
        errmsg_t err = {""};
        void *out;

        for (int k = 0; len > 0 && k < 3; k++)
            body[chance(&c, len)] = (uint8_t)chance(&c, chance(&c, 2) ? 256 : 2);
        errno = 0;
        out = stream_convert(conv, body, len, 1 << 24, 0, &err);
        if (!out) {
            ck_assert(errno == EPROTO || errno == EMSGSIZE);
            ck_assert_str_ne(err.text, "");
        }
        if (out)
            check_again(native, out);
        free(out);
        free(body);
    }
    free(plain);
    stream_convert_destroy(conv);
    stream_format_destroy(native);
    stream_format_destroy(f);
}

START_TEST(test_changed)
{
    for (uint64_t i = 0; i < FORMATS / 4; i++)
        check_changed((uint64_t)_i * FORMATS / 4 + i + 200000);
}
END_TEST

/* --- one struct --- */

struct node {
    int32_t n;
    bool yes;
    double *x;
    char *name;
    char *note; /* optional */
    struct node *left, *right;
};
static const struct stream_table node_table;
static const struct stream_attr unknown[] = {{"default", "unknown"}, {NULL, NULL}};
static const struct stream_row node_rows[] = {
    STREAM_SCALAR(struct node, n, I32),
    STREAM_SCALAR(struct node, yes, BOOL),
    STREAM_VECTOR(struct node, x, F64, n),
    STREAM_TEXT(struct node, name, 0, .attrs = unknown),
    STREAM_TEXT(struct node, note, STREAM_OPTIONAL),
    STREAM_LINK(struct node, left, struct node, &node_table),
    STREAM_LINK(struct node, right, struct node, &node_table),
    STREAM_ROW_END,
};
static const struct stream_table node_table = STREAM_TABLE(struct node, "node", node_rows);

static stream_format_t *node_format(void)
{
    errmsg_t err = {""};
    stream_format_t *f = stream_format_create(&node_table, &err);

    ck_assert_msg(f != NULL, "%s", err.text);
    return f;
}

START_TEST(test_tree)
{
    double x[] = {1, 2, 3};
    struct node right = {.n = 3, .x = x, .name = "right", .note = "more"};
    struct node left = {.name = "left", .yes = true};
    struct node top = {.n = 1, .x = x + 1, .name = "", .left = &left, .right = &right};
    stream_format_t *f = node_format();
    stream_convert_t *c = stream_convert_create(f, STREAM_NATIVE, f, NULL);
    uint64_t buf[100];
    struct stream_header head;
    struct node *out;
    size_t len;

    ck_assert_int_eq(stream_encode(f, &top, buf, sizeof(buf), &len, NULL), 0);
    ck_assert_int_eq(stream_encode_open(buf, len, &head, NULL), 0);
    ck_assert(!stream_convert_in_place(c));
    out = stream_convert(c, head.body, head.len, 10000, STREAM_BORROW, NULL);
    ck_assert_ptr_nonnull(out);
    ck_assert(out->x[0] == 2. && out->right->x[2] == 3.);
    ck_assert_ptr_eq(out->right->x, memmem(buf, sizeof(buf), x, sizeof(x)));
    ck_assert_str_eq(out->left->name, "left");
    ck_assert(out->left->yes && !out->left->x && !out->left->left);
    ck_assert_ptr_null(out->note);
    ck_assert_str_eq(out->right->note, "more");
    free(out);
    stream_convert_destroy(c);
    stream_format_destroy(f);
}
END_TEST

/* Structs that are not records. */
START_TEST(test_encode_refused)
{
    struct node top = {.name = "top"}, a = {.name = "a"}, b = {.name = "b"};
    struct node *chain = value_alloc(300 * sizeof(*chain));
    stream_format_t *f = node_format();
    errmsg_t err;
    size_t len;

#define REFUSED(errnum, words)                                          \
    do {                                                                \
        ck_assert_int_eq(stream_encode_size(f, &top, &len, &err), -1);  \
        ck_assert_int_eq(errno, errnum);                                \
        ck_assert_msg(strstr(err.text, words) != NULL, "%s", err.text); \
    } while (0)
    top.left = top.right = &a;
    REFUSED(EINVAL, "field node.right points to a struct that another pointer points to");
    top.right = NULL;
    a.left = &b;
    b.right = &top;
    REFUSED(EINVAL, "field node.right");
    b.right = &a;
    REFUSED(EINVAL, "field node.right");
    b.right = NULL;
    a.name = NULL;
    REFUSED(EINVAL, "field node.name");
    a.name = "a";
    a.n = -1;
    REFUSED(EINVAL, "field node.n");
    a.n = 1;
    REFUSED(EINVAL, "field node.x is NULL");
    a.n = 0;
    for (int i = 0; i < 300; i++)
        chain[i] = (struct node){.name = "", .left = i < 299 ? &chain[i + 1] : NULL};
    top.left = &chain[300 - STREAM_VALUE_DEPTH];
    REFUSED(E2BIG, "more than 256");
    top.left = &chain[301 - STREAM_VALUE_DEPTH];
    ck_assert_int_eq(stream_encode_size(f, &top, &len, &err), 0);
    stream_format_destroy(f);
}
END_TEST

/* --- many records --- */

struct particle {
    double x;
    uint16_t charge[2];
    bool yes;
    uint32_t kind;
};
struct cloud {
    uint32_t n;
    struct particle *all;
};
static const struct stream_row particle_rows[] = {
    STREAM_SCALAR(struct particle, x, F64),
    STREAM_FIXED(struct particle, charge, U16, 2),
    STREAM_SCALAR(struct particle, yes, BOOL),
    STREAM_SCALAR(struct particle, kind, U32),
    STREAM_ROW_END,
};
static const struct stream_table particle_table =
    STREAM_TABLE(struct particle, "particle", particle_rows);
static const struct stream_row cloud_rows[] = {
    STREAM_SCALAR(struct cloud, n, U32),
    STREAM_NESTED_VECTOR(struct cloud, all, struct particle, &particle_table, n),
    STREAM_ROW_END,
};
static const struct stream_table cloud_table = STREAM_TABLE(struct cloud, "cloud", cloud_rows);

/* What a later version has. */
struct later {
    uint64_t kind;
    bool yes;
    double x;
    int32_t charge[2];
};
struct later_cloud {
    uint64_t n;
    struct later *all;
};
static const struct stream_row later_rows[] = {
    STREAM_SCALAR(struct later, kind, U64),
    STREAM_SCALAR(struct later, yes, BOOL),
    STREAM_SCALAR(struct later, x, F64),
    STREAM_FIXED(struct later, charge, I32, 2),
    STREAM_ROW_END,
};
static const struct stream_table later_table = STREAM_TABLE(struct later, "particle", later_rows);
static const struct stream_row later_cloud_rows[] = {
    STREAM_SCALAR(struct later_cloud, n, U64),
    STREAM_NESTED_VECTOR(struct later_cloud, all, struct later, &later_table, n),
    STREAM_ROW_END,
};
static const struct stream_table later_cloud_table =
    STREAM_TABLE(struct later_cloud, "cloud", later_cloud_rows);

#define PARTICLES 200u

START_TEST(test_many)
{
    stream_format_t *f = stream_format_create(&cloud_table, NULL);
    stream_format_t *to = stream_format_create(&later_cloud_table, NULL);
    stream_convert_t *c = stream_convert_create(f, STREAM_NATIVE, to, NULL);
    struct particle all[PARTICLES];
    struct cloud cloud = {PARTICLES, all};
    struct later_cloud *out;
    uint64_t buf[PARTICLES * sizeof(all[0]) / 8 + 16];
    errmsg_t err = {""};
    uint8_t *body = (uint8_t *)buf + STREAM_HEADER;
    size_t len;

    for (uint16_t i = 0; i < PARTICLES; i++)
        all[i] = (struct particle){i * 1.5, {i, (uint16_t)(i + 1)}, i % 3 == 0, i * 1000000u};
    ck_assert_int_eq(stream_encode(f, &cloud, buf, sizeof(buf), &len, NULL), 0);
    out = stream_convert(c, body, len - STREAM_HEADER, 100000, 0, &err);
    ck_assert_msg(out != NULL, "%s", err.text);
    ck_assert_uint_eq(out->n, PARTICLES);
    for (unsigned i = 0; i < PARTICLES; i++) {
        ck_assert(out->all[i].x == i * 1.5 && out->all[i].yes == (i % 3 == 0));
        ck_assert(out->all[i].kind == i * 1000000u);
        ck_assert(out->all[i].charge[0] == (int)i && out->all[i].charge[1] == (int)i + 1);
    }
    free(out);
    out = malloc(100000);
    memset(out, 0xee, 100000);
    ck_assert_int_eq(stream_convert_into(c, body, len - STREAM_HEADER, out, 100000, 0, &err), 0);
    for (unsigned i = 0; i < PARTICLES; i++) /* what is in no field is 0 */
        for (size_t b = offsetof(struct later, yes) + 1; b < offsetof(struct later, x); b++)
            ck_assert_int_eq(((uint8_t *)&out->all[i])[b], 0);
    free(out);
    /* A truth value that is none, past the first ones. */
    body[sizeof(cloud) + 150 * sizeof(all[0]) + offsetof(struct particle, yes)] = 2;
    ck_assert_ptr_null(stream_convert(c, body, len - STREAM_HEADER, 100000, 0, &err));
    ck_assert_int_eq(errno, EPROTO);
    ck_assert_msg(strstr(err.text, "field particle.yes") != NULL, "%s", err.text);
    out = malloc(100000);
    ck_assert_int_eq(stream_convert_into(c, body, len - STREAM_HEADER, out, 100000, 0, &err), -1);
    ck_assert_int_eq(errno, EPROTO);
    free(out);
    stream_convert_destroy(c);
    stream_format_destroy(to);
    stream_format_destroy(f);
}
END_TEST

/* --- records in place --- */

struct inner {
    uint32_t a;
    bool yes;
};
struct outer {
    struct inner x[2];
};
static const struct stream_row inner_rows[] = {
    STREAM_SCALAR(struct inner, a, U32),
    STREAM_SCALAR(struct inner, yes, BOOL),
    STREAM_ROW_END,
};
static const struct stream_table inner_table = STREAM_TABLE(struct inner, "inner", inner_rows);
static const struct stream_row outer_rows[] = {
    {.name = "x", .type = STREAM_RECORD, .of = &inner_table, .dims = {{2, NULL}}},
    STREAM_ROW_END,
};
static const struct stream_table outer_table = STREAM_TABLE(struct outer, "outer", outer_rows);

/* Their holes are filled with zeros, and their truth values are checked. */
START_TEST(test_inner)
{
    stream_format_t *f = stream_format_create(&outer_table, NULL);
    stream_convert_t *c = stream_convert_create(f, STREAM_NATIVE, f, NULL);
    uint64_t buf[STREAM_HEADER / 8 + sizeof(struct outer) / 8];
    struct outer o, *body = (struct outer *)((uint8_t *)buf + STREAM_HEADER);
    struct outer want;
    errmsg_t err = {""};
    size_t len, need;

    memset(&o, 0xee, sizeof(o));
    memset(&want, 0, sizeof(want));
    for (int i = 0; i < 2; i++) {
        o.x[i].a = want.x[i].a = 7;
        o.x[i].yes = want.x[i].yes = true;
    }
    ck_assert_int_eq(stream_encode(f, &o, buf, sizeof(buf), &len, NULL), 0);
    ck_assert_mem_eq(body, &want, sizeof(want));
    ck_assert(stream_convert_in_place(c));
    ck_assert_int_eq(stream_convert_check(c, body, sizeof(*body), &need, &err), 0);
    *((uint8_t *)body + sizeof(struct inner) + offsetof(struct inner, yes)) = 2;
    ck_assert_int_eq(stream_convert_check(c, body, sizeof(*body), &need, &err), -1);
    ck_assert_int_eq(errno, EPROTO);
    ck_assert_msg(strstr(err.text, "field inner.yes") != NULL, "%s", err.text);
    stream_convert_destroy(c);
    stream_format_destroy(f);
}
END_TEST

/* --- conversions that are refused --- */

struct versions {
    struct stream_row from[3], to[3];
    const char *error; /* NULL: none */
};
static const struct stream_attr bad_default[] = {{"default", "5"}, {NULL, NULL}};
static const struct versions versions[] = {
    {{{"a", .type = STREAM_I32}}, {{"a", .type = STREAM_I16}}, "field t.a is of type i16, and of"},
    {{{"a", .type = STREAM_I32}}, {{"a", .type = STREAM_STRING}}, "field t.a is of type string"},
    {{{"a", .type = STREAM_I32, .dims = {{3, NULL}}}},
     {{"a", .type = STREAM_I32, .dims = {{4, NULL}}}},
     "field t.a has other dimensions"},
    {{{"a", .type = STREAM_I32}}, {{"a", .type = STREAM_I32, .dims = {{1, NULL}}}}, "dimensions"},
    {{{"n", .type = STREAM_U8}},
     {{"n", .type = STREAM_U8}, {"a", .type = STREAM_I32, .dims = {{0, "n"}}}},
     "field t.a is an array that the writer does not have"},
    {{{"n", .type = STREAM_U8}},
     {{"m", .type = STREAM_U8}, {"a", .type = STREAM_I32, .dims = {{0, "m"}}}},
     NULL},
    {{{"n", .type = STREAM_U8}},
     {{"m", .type = STREAM_U8, .attrs = bad_default},
      {"a", .type = STREAM_I32, .dims = {{0, "m"}}}},
     "field t.a is an array"},
    {{{"n", .type = STREAM_U8},
      {"a", .type = STREAM_I32, .flags = STREAM_OPTIONAL, .dims = {{0, "n"}}}},
     {{"n", .type = STREAM_U8}, {"a", .type = STREAM_I32, .dims = {{0, "n"}}}},
     "field t.a may be absent at the writer"},
};

START_TEST(test_versions)
{
    struct stream_table from = {.name = "t", .rows = versions[_i].from};
    struct stream_table to = {.name = "t", .rows = versions[_i].to};
    errmsg_t err = {""};
    stream_format_t *f = stream_format_create(&from, NULL), *t = stream_format_create(&to, NULL);
    stream_convert_t *c = stream_convert_create(f, STREAM_NATIVE, t, &err);

    ck_assert_int_eq(c != NULL, versions[_i].error == NULL);
    if (!c) {
        ck_assert_int_eq(errno, EINVAL);
        ck_assert_msg(strstr(err.text, versions[_i].error) != NULL, "%s", err.text);
    }
    stream_convert_destroy(c);
    stream_format_destroy(f);
    stream_format_destroy(t);
}
END_TEST

START_TEST(test_other_host)
{
    struct stream_table small = node_table;
    stream_format_t *f, *native;
    errmsg_t err;
    size_t len;

    small.size = 0;
    small.pointer = 12 - sizeof(void *);
    struct stream_row rows[sizeof(node_rows) / sizeof(node_rows[0])];
    memcpy(rows, node_rows, sizeof(rows));
    rows[5].of = rows[6].of = &small;
    small.rows = rows;
    f = stream_format_create(&small, &err);
    ck_assert_msg(f != NULL, "%s", err.text);
    ck_assert_int_eq(stream_encode_size(f, &len, &len, &err), -1);
    ck_assert_int_eq(errno, EINVAL);
    ck_assert_ptr_null(stream_convert_create(f, STREAM_NATIVE, f, &err));
    ck_assert_int_eq(errno, EINVAL);
    native = stream_format_native(f, &err);
    ck_assert_uint_eq(stream_format_size(native), sizeof(struct node));
    stream_format_destroy(native);
    stream_format_destroy(f);
}
END_TEST

/* --- headers --- */

START_TEST(test_header)
{
    struct node top = {.name = "top"};
    stream_format_t *f = node_format();
    uint64_t aligned[32];
    uint8_t *buf = (uint8_t *)aligned;
    struct stream_header head;
    errmsg_t err;
    size_t len;

    ck_assert_int_eq(stream_encode(f, &top, buf, sizeof(aligned), &len, &err), 0);
    ck_assert_int_eq(stream_encode_open(buf, len, &head, &err), 0);
    for (size_t cut = 0; cut < len; cut++)
        ck_assert_int_eq(stream_encode_open(buf, cut, &head, &err), -1);
    for (size_t i = 0; i < STREAM_HEADER; i++) {
        bool id = i >= 8 && i < 16;

        buf[i] ^= 0x40;
        errno = 0;
        ck_assert_int_eq(stream_encode_open(buf, len, &head, &err), id ? 0 : -1);
        ck_assert(errno == (id ? 0 : EPROTO));
        ck_assert(!id || head.id != stream_format_id(f));
        buf[i] ^= 0x40;
    }
    stream_format_destroy(f);
}
END_TEST

/* --- memory --- */

START_TEST(test_no_memory)
{
    double x[] = {1, 2, 3};
    struct node left = {.n = 3, .x = x, .name = "left"}, top = {.name = "top", .left = &left};
    stream_format_t *f = node_format();
    uint64_t buf[100];
    uint8_t *body = (uint8_t *)buf + STREAM_HEADER;
    size_t len;
    bool all = false;

    for (unsigned k = 1; !all; k++) {
        int rc, errnum;

        fail_at = k;
        rc = stream_encode(f, &top, buf, sizeof(buf), &len, NULL);
        errnum = errno;
        all = stop_failing() > 0;
        ck_assert(all ? rc == 0 : rc == -1 && errnum == ENOMEM);
    }
    all = false;
    for (unsigned k = 1; !all; k++) {
        stream_convert_t *c;
        void *out = NULL;
        int errnum;

        fail_at = k;
        c = stream_convert_create(f, STREAM_NATIVE, f, NULL);
        if (c)
            out = stream_convert(c, body, len - STREAM_HEADER, 10000, 0, NULL);
        errnum = errno;
        stream_convert_destroy(c);
        all = stop_failing() > 0;
        ck_assert(all ? out != NULL : !out && errnum == ENOMEM);
        free(out);
    }
    stream_format_destroy(f);
}
END_TEST

/* An array that is said to be large costs nothing. */
START_TEST(test_large)
{
    struct node top = {.name = "top"};
    stream_format_t *f = node_format();
    stream_convert_t *c = stream_convert_create(f, STREAM_NATIVE, f, NULL);
    uint64_t buf[32];
    size_t len;
    void *out;
    int errnum;

    ck_assert_int_eq(stream_encode(f, &top, buf, sizeof(buf), &len, NULL), 0);
    buf[STREAM_HEADER / 8] = INT32_MAX;
    buf[STREAM_HEADER / 8 + 1] = sizeof(struct node);
    fail_at = 1;
    out = stream_convert(c, buf + STREAM_HEADER / 8, len - STREAM_HEADER, SIZE_MAX / 4, 0, NULL);
    errnum = errno;
    ck_assert_uint_eq(stop_failing(), 1);
    ck_assert(!out && errnum == EPROTO);
    stream_convert_destroy(c);
    stream_format_destroy(f);
}
END_TEST

/* Elements that are null, for a reader that has the records in place. */
struct atom {
    uint32_t id;
};
struct by_pointers {
    uint32_t n;
    struct atom **many;
    struct atom *three[3];
};
struct in_place {
    uint32_t n;
    struct atom *many;
    struct atom *three;
};
static const struct stream_row atom_rows[] = {
    STREAM_SCALAR(struct atom, id, U32),
    STREAM_ROW_END,
};
static const struct stream_table atom_table = STREAM_TABLE(struct atom, "atom", atom_rows);
static const struct stream_row by_pointers_rows[] = {
    STREAM_SCALAR(struct by_pointers, n, U32),
    STREAM_NESTED_VECTOR(struct by_pointers, many, struct atom *, &atom_table, n,
                         .flags = STREAM_POINTER),
    {.name = "three",
     .type = STREAM_RECORD,
     .flags = STREAM_POINTER,
     .of = &atom_table,
     .dims = {{3, NULL}},
     .offset = offsetof(struct by_pointers, three)},
    STREAM_ROW_END,
};
static const struct stream_table by_pointers_table =
    STREAM_TABLE(struct by_pointers, "atoms", by_pointers_rows);
static const struct stream_row in_place_rows[] = {
    STREAM_SCALAR(struct in_place, n, U32),
    STREAM_NESTED_VECTOR(struct in_place, many, struct atom, &atom_table, n),
    {.name = "three",
     .type = STREAM_RECORD,
     .flags = STREAM_OPTIONAL,
     .of = &atom_table,
     .dims = {{3, NULL}},
     .offset = offsetof(struct in_place, three)},
    STREAM_ROW_END,
};
static const struct stream_table in_place_table =
    STREAM_TABLE(struct in_place, "atoms", in_place_rows);

START_TEST(test_null_elements)
{
    stream_format_t *f = stream_format_create(&by_pointers_table, NULL);
    stream_format_t *to = stream_format_create(&in_place_table, NULL);
    stream_convert_t *c = stream_convert_create(f, STREAM_NATIVE, to, NULL);
    struct atom a = {7};
    struct atom b = {8};
    struct by_pointers in = {2, (struct atom *[]){&a, NULL}, {NULL, &b, NULL}};
    struct in_place *out;
    uint64_t buf[64];
    errmsg_t err = {""};
    size_t len;

    ck_assert_int_eq(stream_encode(f, &in, buf, sizeof(buf), &len, &err), 0);
    out = stream_convert(c, (uint8_t *)buf + STREAM_HEADER, len - STREAM_HEADER, 1000, 0, &err);
    ck_assert_msg(out != NULL, "%s", err.text);
    ck_assert(out->n == 2 && out->many[0].id == 7 && out->many[1].id == 0);
    ck_assert(out->three[0].id == 0 && out->three[1].id == 8 && out->three[2].id == 0);
    free(out);
    stream_convert_destroy(c);
    stream_format_destroy(f);
    stream_format_destroy(to);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("convert");

    tcase_set_timeout(tc, 60);
    tcase_add_checked_fixture(tc, NULL, value_free_all);
    tcase_add_loop_test(tc, test_random, 0, 8);
    tcase_add_loop_test(tc, test_later, 0, 8);
    tcase_add_loop_test(tc, test_changed, 0, 8);
    tcase_add_test(tc, test_tree);
    tcase_add_test(tc, test_encode_refused);
    tcase_add_test(tc, test_many);
    tcase_add_test(tc, test_null_elements);
    tcase_add_test(tc, test_inner);
    tcase_add_loop_test(tc, test_versions, 0, sizeof(versions) / sizeof(versions[0]));
    tcase_add_test(tc, test_other_host);
    tcase_add_test(tc, test_header);
    tcase_add_test(tc, test_no_memory);
    tcase_add_test(tc, test_large);
    return run_case("convert", tc);
}

/* check_format.c - formats: tables, texts, what is refused; the examples of the documentation. */
#include "config.h"
#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libutil/test/fail_at.h"
#include "libstream/convert.h"
#include "libutil/hex.h"
#include "libutil/test/suite.h"

char *__real_strdup(const char *s);
char *__real_strndup(const char *s, size_t n);
char *__wrap_strdup(const char *s);
char *__wrap_strndup(const char *s, size_t n);

char *__wrap_strdup(const char *s)
{
    return fails(strlen(s)) ? NULL : __real_strdup(s);
}
char *__wrap_strndup(const char *s, size_t n)
{
    return fails(n) ? NULL : __real_strndup(s, n);
}

/* --- the example of doc/stream-format.rst --- */

struct point {
    double x, y, z;
};
struct atom {
    uint64_t id;
    uint32_t n;
    uint8_t kind;
    struct point at;
    uint64_t *near;
    const double *mass;
    char *name;
    struct atom *next;
};

static const struct stream_table atom_table;
static const struct stream_attr nanometers[] = {{"units", "nm"}, {NULL, NULL}};
static const struct stream_attr one[] = {{"default", "1"}, {NULL, NULL}};
static const struct stream_attr demo[] = {{"code", "demo 1.0"}, {NULL, NULL}};
static const struct stream_row point_rows[] = {
    STREAM_SCALAR(struct point, x, F64, .attrs = nanometers),
    STREAM_SCALAR(struct point, y, F64),
    STREAM_SCALAR(struct point, z, F64),
    STREAM_ROW_END,
};
static const struct stream_table point_table = STREAM_TABLE(struct point, "point", point_rows);
static const struct stream_row atom_rows[] = {
    STREAM_SCALAR(struct atom, id, U64),
    STREAM_SCALAR(struct atom, n, U32),
    STREAM_SCALAR(struct atom, kind, U8, .attrs = one),
    STREAM_NESTED(struct atom, at, struct point, &point_table),
    STREAM_VECTOR(struct atom, near, U64, n),
    STREAM_OPTION(struct atom, mass, F64),
    STREAM_TEXT(struct atom, name, 0),
    STREAM_LINK(struct atom, next, struct atom, &atom_table),
    STREAM_ROW_END,
};
static const struct stream_table atom_table =
    STREAM_TABLE(struct atom, "atom", atom_rows, .attrs = demo);

static const char atom_text[] = "flux-format 1 pointers 8\n"
                                "record point size 24 align 8\n"
                                "field x f64 at 0\n"
                                "attr units \"nm\"\n"
                                "field y f64 at 8\n"
                                "field z f64 at 16\n"
                                "record atom size 72 align 8\n"
                                "attr code \"demo 1.0\"\n"
                                "field id u64 at 0\n"
                                "field n u32 at 8\n"
                                "field kind u8 at 12\n"
                                "attr default \"1\"\n"
                                "field at point at 16\n"
                                "field near u64[n] at 40\n"
                                "field mass f64 optional at 48\n"
                                "field name string at 56\n"
                                "field next *atom at 64\n";

static stream_format_t *create(const struct stream_table *t)
{
    errmsg_t err = {""};
    stream_format_t *f = stream_format_create(t, &err);

    ck_assert_msg(f != NULL, "%s", err.text);
    return f;
}

static stream_format_t *parse(const char *text)
{
    errmsg_t err = {""};
    stream_format_t *f = stream_format_parse(text, strlen(text), &err);

    ck_assert_msg(f != NULL, "%s", err.text);
    ck_assert_str_eq(stream_format_text(f), text);
    return f;
}

START_TEST(test_example)
{
    stream_format_t *f = parse(atom_text), *mine = create(&atom_table), *native;
    const struct stream_field *fd;

    ck_assert_uint_eq(stream_format_id(f), 0xa129d01d6b0e4dceu);
    native = stream_format_native(f, NULL);
    if (sizeof(void *) == 8) {
        ck_assert_str_eq(stream_format_text(mine), atom_text);
        ck_assert_str_eq(stream_format_text(native), atom_text);
    }
    ck_assert_str_eq(stream_format_name(f), "atom");
    ck_assert_str_eq(stream_format_attr(f, "code"), "demo 1.0");
    ck_assert_ptr_null(stream_format_attr(f, "other"));
    ck_assert_uint_eq(stream_format_size(f), 72);
    ck_assert_uint_eq(stream_format_align(f), 8);
    ck_assert_uint_eq(stream_format_count(f), 8);
    ck_assert(!stream_format_flat(f));
    fd = stream_format_find(f, "near");
    ck_assert_ptr_eq(fd, stream_format_field(f, 4));
    ck_assert(fd->variable && fd->slot && !fd->pointers && fd->elem == 8);
    ck_assert(fd->ndims == 1 && fd->dims[0].field == 1 && fd->dims[0].fixed == 0);
    fd = stream_format_find(f, "at");
    ck_assert(stream_format_flat(fd->of) && fd->elem == 24);
    ck_assert_str_eq(stream_format_lookup(stream_format_field(fd->of, 0)->attrs, "units"), "nm");
    fd = stream_format_find(f, "next");
    ck_assert(fd->of == f && fd->pointers && !fd->slot);
    ck_assert_ptr_null(stream_format_find(f, "none"));
    ck_assert_ptr_null(stream_format_field(f, 8));
    stream_format_destroy(native);
    stream_format_destroy(mine);
    stream_format_destroy(f);
}
END_TEST

/* Encoded records, in files of hexadecimal digits with comments. */
static size_t read_golden(const char *name, uint8_t *out)
{
    char path[4096], line[256];
    size_t len = 0;
    FILE *file;

    snprintf(path, sizeof(path), "%s/%s", GOLDEN_DIR, name);
    ck_assert_msg((file = fopen(path, "r")) != NULL, "%s", path);
    while (fgets(line, sizeof(line), file))
        for (char *p = line; hex_value(p[0]) >= 0 && hex_value(p[1]) >= 0; p += 2 + (p[2] == ' '))
            ck_assert_int_eq(hex_decode(out + len++, p, 1), 0);
    fclose(file);
    return len;
}

static void check_golden(const char *name, const char *text)
{
    const uint64_t near[] = {8, 9};
    const double mass = 63.5;
    struct atom next = {.id = 8, .kind = 2, .mass = &mass, .name = ""};
    struct atom atom = {7, 2, 1, {1.5, 2.5, 3.5}, (uint64_t *)near, NULL, "Cu", &next};
    uint64_t aligned[64], mine[64];
    size_t len = read_golden(name, (uint8_t *)aligned), my_len;
    stream_format_t *f = parse(text), *native = create(&atom_table);
    struct stream_header head;
    errmsg_t err = {""};
    stream_convert_t *c;
    struct atom *out;

    ck_assert_msg(stream_encode_open(aligned, len, &head, &err) == 0, "%s", err.text);
    ck_assert_uint_eq(head.id, stream_format_id(f));
    c = stream_convert_create(f, head.order, native, &err);
    ck_assert_msg(c != NULL, "%s", err.text);
    out = stream_convert(c, head.body, head.len, 4096, 0, &err);
    ck_assert_msg(out != NULL, "%s", err.text);
    ck_assert(out->id == 7 && out->n == 2 && out->kind == 1 && out->at.x == 1.5);
    ck_assert(out->at.y == 2.5 && out->at.z == 3.5 && out->near[0] == 8 && out->near[1] == 9);
    ck_assert(!out->mass && strcmp(out->name, "Cu") == 0);
    ck_assert(out->next->id == 8 && *out->next->mass == 63.5 && out->next->n == 0);
    ck_assert(!out->next->near && !out->next->next && out->next->kind == 2);
    ck_assert_str_eq(out->next->name, "");
    if (head.order == STREAM_NATIVE && head.id == stream_format_id(native)) {
        ck_assert_int_eq(stream_encode(native, &atom, mine, sizeof(mine), &my_len, NULL), 0);
        ck_assert_uint_eq(my_len, len);
        ck_assert_mem_eq(mine, aligned, len);
    }
    free(out);
    stream_convert_destroy(c);
    stream_format_destroy(native);
    stream_format_destroy(f);
}

START_TEST(test_golden)
{
    check_golden("golden_little.hex", atom_text);
    check_golden("golden_big.hex", atom_text);
    check_golden("golden_big32.hex", "flux-format 1 pointers 4\n"
                                     "record point size 24 align 4\n"
                                     "field x f64 at 0\n"
                                     "field y f64 at 8\n"
                                     "field z f64 at 16\n"
                                     "record atom size 56 align 4\n"
                                     "field id u64 at 0\n"
                                     "field n u32 at 8\n"
                                     "field kind u8 at 12\n"
                                     "field at point at 16\n"
                                     "field near u64[n] at 40\n"
                                     "field mass f64 optional at 44\n"
                                     "field name string at 48\n"
                                     "field next *atom at 52\n");
}
END_TEST

/* --- other members --- */

struct all {
    int8_t i8;
    char label[5];
    float grid[2][3];
    double _Complex wave;
    float _Complex small;
    uint16_t rows, columns;
    const float *table;
    bool yes[3];
    uint8_t *raw;
    struct point *points;
    const char *note;
};
static const struct stream_row all_rows[] = {
    STREAM_SCALAR(struct all, i8, I8),
    STREAM_FIXED(struct all, label, CHAR, 5),
    STREAM_FIXED2(struct all, grid, F32, 2, 3),
    STREAM_SCALAR(struct all, wave, C128),
    STREAM_SCALAR(struct all, small, C64),
    STREAM_SCALAR(struct all, rows, U16),
    STREAM_SCALAR(struct all, columns, U16),
    STREAM_MATRIX(struct all, table, F32, rows, columns),
    STREAM_FIXED(struct all, yes, BOOL, 3),
    STREAM_VECTOR(struct all, raw, BYTES, rows),
    STREAM_NESTED_VECTOR(struct all, points, struct point, &point_table, columns),
    STREAM_TEXT(struct all, note, STREAM_OPTIONAL),
    STREAM_ROW_END,
};
static const struct stream_table all_table = STREAM_TABLE(struct all, "all", all_rows);

/* Fields are laid out as the compiler does it. */
START_TEST(test_layout)
{
    stream_format_t *f = create(&all_table), *native = stream_format_native(f, NULL);

    ck_assert_str_eq(stream_format_text(f), stream_format_text(native));
    stream_format_destroy(native);
    stream_format_destroy(f);
}
END_TEST

/* --- what is refused --- */

#define LONG "a123456789012345678901234567890123456789012345678901234567890123"

static const struct stream_attr same_twice[] = {{"a", ""}, {"a", ""}, {NULL, NULL}};
static const struct stream_attr no_utf8[] = {{"a", "\xc3"}, {NULL, NULL}};
static const struct stream_attr no_name[] = {{"a b", ""}, {NULL, NULL}};
static const struct stream_attr big_default[] = {{"default", "256"}, {NULL, NULL}};

static const struct {
    struct stream_row rows[3];
    size_t size, align;
    int errnum;
    const char *error;
} bad[] = {
    {{{.name = NULL}}, 0, 0, EINVAL, "format t has no fields"},
    {{{"", .type = STREAM_I8}}, 0, 0, EINVAL, "'' is not a valid name"},
    {{{"1a", .type = STREAM_I8}}, 0, 0, EINVAL, "'1a' is not a valid name"},
    {{{"a-b", .type = STREAM_I8}}, 0, 0, EINVAL, "'a-b' is not a valid name"},
    {{{LONG, .type = STREAM_I8}}, 0, 0, EINVAL, "is not a valid name"},
    {{{"a", .type = STREAM_I8}, {"a", .type = STREAM_I8}},
     0,
     0,
     EINVAL,
     "field t.a is there twice"},
    {{{"a", .type = (enum stream_type)0}}, 0, 0, EINVAL, "unknown type, 0"},
    {{{"a", .type = (enum stream_type)18}}, 0, 0, EINVAL, "unknown type, 18"},
    {{{"a", .type = STREAM_I8, 4}}, 0, 0, EINVAL, "unknown flags"},
    {{{"a", .type = STREAM_I8, STREAM_POINTER}}, 0, 0, EINVAL, "elements that are not records"},
    {{{"a", .type = STREAM_RECORD}}, 0, 0, EINVAL, "needs a format"},
    {{{"a", .type = STREAM_I8, .of = &point_table}}, 0, 0, EINVAL, "cannot have a format"},
    {{{"a", .type = STREAM_RECORD, STREAM_OPTIONAL, .of = &point_table}},
     0,
     0,
     EINVAL,
     "make it a pointer"},
    {{{"a", .type = STREAM_I8, .dims = {{.fixed = (uint64_t)1 << 31}}}}, 0, 0, E2BIG, "elements"},
    {{{"a", .type = STREAM_I8, .dims = {{.fixed = 1 << 20}, {.fixed = 1 << 20}}}},
     0,
     0,
     E2BIG,
     "elements"},
    {{{"a", .type = STREAM_I64, .dims = {{.fixed = 1 << 30}}}}, 0, 0, E2BIG, "bytes"},
    {{{"a", .type = STREAM_I8, .dims = {{.fixed = 1 << 29}}},
      {"b", .type = STREAM_I8, .dims = {{.fixed = 1 << 30}}}},
     0,
     0,
     E2BIG,
     "bytes"},
    {{{"a", .type = STREAM_I8, .dims = {{0, "n"}}}}, 0, 0, EINVAL, "the size 'n'"},
    {{{"a", .type = STREAM_I8, .dims = {{0, "a"}}}}, 0, 0, EINVAL, "the size 'a'"},
    {{{"a", .type = STREAM_I8, .dims = {{0, "n"}}}, {"n", .type = STREAM_F32}},
     0,
     0,
     EINVAL,
     "the size 'n'"},
    {{{"a", .type = STREAM_I8, .dims = {{0, "n"}}}, {"n", .type = STREAM_I8, STREAM_OPTIONAL}},
     0,
     0,
     EINVAL,
     "the size 'n'"},
    {{{"a", .type = STREAM_I8, .attrs = same_twice}}, 0, 0, EINVAL, "two attributes 'a'"},
    {{{"a", .type = STREAM_I8, .attrs = no_utf8}}, 0, 0, EINVAL, "not UTF-8"},
    {{{"a", .type = STREAM_I8, .attrs = no_name}}, 0, 0, EINVAL, "'a b' is not a valid name"},
    {{{"a", .type = STREAM_U8, .attrs = big_default}}, 0, 0, EINVAL, "the default '256'"},
    {{{"a", .type = STREAM_U16, .dims = {{.fixed = 2}}, .attrs = big_default}},
     0,
     0,
     EINVAL,
     "have a default"},
    {{{"a", .type = STREAM_C64, .attrs = big_default}}, 0, 0, EINVAL, "the default '256'"},
    {{{"a", .type = STREAM_I32, .offset = 1}}, 4, 4, EINVAL, "field t.a ends beyond the 4 bytes"},
    {{{"a", .type = STREAM_I32, .offset = SIZE_MAX}}, 4, 4, EINVAL, "ends beyond"},
    {{{"a", .type = STREAM_I32}, {"b", .type = STREAM_I8, .offset = 3}},
     8,
     4,
     EINVAL,
     "field t.b overlaps field a"},
    {{{"a", .type = STREAM_I32}}, 4, 3, EINVAL, "cannot be aligned to 3"},
    {{{"a", .type = STREAM_I32}}, 4, 0, EINVAL, "cannot be aligned to 0"},
    {{{"a", .type = STREAM_I32}}, 16, 16, EINVAL, "cannot be aligned to 16"},
    {{{"a", .type = STREAM_I32}}, 6, 4, EINVAL, "cannot be aligned to 4"},
    {{{"a", .type = STREAM_I32}}, STREAM_SIZE_MAX + 8, 4, E2BIG, "format t has more than"},
};

START_TEST(test_bad_table)
{
    struct stream_row rows[4] = {{.name = NULL}};
    struct stream_table t = {"t", rows, bad[_i].size, bad[_i].align, 0, NULL};
    errmsg_t err = {""};

    memcpy(rows, bad[_i].rows, sizeof(bad[_i].rows));
    ck_assert_ptr_null(stream_format_create(&t, &err));
    ck_assert_int_eq(errno, bad[_i].errnum);
    ck_assert_msg(strstr(err.text, bad[_i].error) != NULL, "%s", err.text);
}
END_TEST

START_TEST(test_bad_names)
{
    static const char *const names[] = {"", "f64", "record", "string", "a b", NULL};
    errmsg_t err;

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        struct stream_table t = {.name = names[i], .rows = point_rows};

        ck_assert_ptr_null(stream_format_create(&t, &err));
        ck_assert_int_eq(errno, EINVAL);
    }
}
END_TEST

/* Formats inside each other: how deep, names, cycles. */
START_TEST(test_nesting)
{
    struct stream_table t[STREAM_NEST_MAX + 2];
    struct stream_row rows[STREAM_NEST_MAX + 2][3];
    char names[STREAM_NEST_MAX + 2][16];
    stream_format_t *f;
    errmsg_t err;

    memset(t, 0, sizeof(t));
    memset(rows, 0, sizeof(rows));
    for (int i = 0; i < STREAM_NEST_MAX + 2; i++) {
        snprintf(names[i], sizeof(names[i]), "t%d", i);
        t[i].name = names[i];
        t[i].rows = rows[i];
        rows[i][0] = (struct stream_row){.name = "a", .type = STREAM_I8};
        if (i > 0)
            rows[i][1] = (struct stream_row){.name = "b", .type = STREAM_RECORD, .of = &t[i - 1]};
    }
    f = create(&t[STREAM_NEST_MAX - 1]);
    stream_format_destroy(parse(stream_format_text(f)));
    stream_format_destroy(f);
    ck_assert_ptr_null(stream_format_create(&t[STREAM_NEST_MAX], &err));
    ck_assert_int_eq(errno, E2BIG);
    t[0].name = "t1";
    ck_assert_ptr_null(stream_format_create(&t[1], &err));
    ck_assert_msg(strstr(err.text, "two formats are named 't1'") != NULL, "%s", err.text);
    t[0].name = "t0";
    rows[0][1] = (struct stream_row){.name = "c", .type = STREAM_RECORD, .of = &t[0]};
    ck_assert_ptr_null(stream_format_create(&t[0], &err));
    ck_assert_msg(strstr(err.text, "field t0.c has records of its own format") != NULL, "%s",
                  err.text);
    rows[0][1].of = &t[1];
    rows[0][1].flags = STREAM_POINTER;
    ck_assert_ptr_null(stream_format_create(&t[1], &err));
    ck_assert_msg(strstr(err.text, "field t0.c makes a cycle of formats") != NULL, "%s", err.text);
    t[0].pointer = 12 - sizeof(void *);
    rows[0][1].name = NULL;
    ck_assert_ptr_null(stream_format_create(&t[1], &err));
    ck_assert_msg(strstr(err.text, "pointers of another size") != NULL, "%s", err.text);
    t[0].pointer = 2;
    ck_assert_ptr_null(stream_format_create(&t[0], &err));
    ck_assert_int_eq(errno, EINVAL);
}
END_TEST

/* A format that is met again is the same one, and counts where it is met. */
START_TEST(test_shared)
{
    const struct stream_row pair_rows[] = {
        {.name = "a", .type = STREAM_RECORD, .of = &point_table},
        STREAM_ROW_END,
    };
    const struct stream_table pair = {.name = "pair", .rows = pair_rows};
    const struct stream_row top_rows[] = {
        {.name = "a", .type = STREAM_RECORD, .of = &point_table},
        {.name = "b", .type = STREAM_RECORD, .of = &point_table},
        {.name = "c", .type = STREAM_RECORD, .of = &pair},
        STREAM_ROW_END,
    };
    const struct stream_table top = {.name = "top", .rows = top_rows};
    struct stream_row rows[STREAM_NEST_MAX + 1][3];
    struct stream_table t[STREAM_NEST_MAX + 1];
    char names[STREAM_NEST_MAX + 1][16];
    stream_format_t *f = create(&top);
    errmsg_t err;

    stream_format_destroy(parse(stream_format_text(f)));
    ck_assert_ptr_eq(stream_format_field(f, 0)->of, stream_format_field(f, 1)->of);
    stream_format_destroy(f);
    /* Half of the formats are known, at depth 2, when they are met below the other half. */
    memset(t, 0, sizeof(t));
    memset(rows, 0, sizeof(rows));
    for (int i = 0; i < STREAM_NEST_MAX + 1; i++) {
        snprintf(names[i], sizeof(names[i]), "t%d", i);
        t[i].name = names[i];
        t[i].rows = rows[i];
        rows[i][0] = (struct stream_row){.name = "a", .type = STREAM_I8};
        if (i > 0)
            rows[i][1] = (struct stream_row){.name = "b", .type = STREAM_RECORD, .of = &t[i - 1]};
    }
    rows[STREAM_NEST_MAX][0] =
        (struct stream_row){.name = "a", .type = STREAM_RECORD, .of = &t[STREAM_NEST_MAX / 2]};
    ck_assert_ptr_null(stream_format_create(&t[STREAM_NEST_MAX], &err));
    ck_assert_int_eq(errno, E2BIG);
    ck_assert_msg(strstr(err.text, "to a depth above 16") != NULL, "%s", err.text);
}
END_TEST

#define HEAD "flux-format 1 pointers 8\nrecord t size 8 align 8\n"

static const struct {
    const char *text, *error;
} bad_texts[] = {
    {"", "line 1"},
    {"flux-format 2 pointers 8\n", "line 1"},
    {"flux-format 1 pointers 6\n", "line 1"},
    {"flux-format 1 pointers 8", "line 1"},
    {"flux-format 1 pointers 8\n", "there is no record"},
    {"flux-format 1 pointers 8\nrecord t size 0 align 8\n", "line 2"},
    {"flux-format 1 pointers 8\nrecord t size 8 align 8", "line 2"},
    {"flux-format 1 pointers 8\nfield a u8 at 0\n", "has to follow its record"},
    {"flux-format 1 pointers 8\nattr a \"\"\n", "has to follow a record"},
    {HEAD, "format t has no fields"},
    {HEAD "field a u64 at 0", "line 3"},
    {HEAD "field a u64 at 0\n\n", "line 4 of the text of a format: expected 'record'"},
    {HEAD "field a u64 at 00\n", "not the canonical one"},
    {HEAD "field a  u64 at 0\n", "line 3"},
    {HEAD "field a u64  at 0\n", "line 3"},
    {HEAD "field a u64 at 0 \n", "line 3"},
    {HEAD "field a u65 at 0\n", "the type is not known"},
    {HEAD "field a *u64 at 0\n", "elements that are not records"},
    {HEAD "field a **t at 0\n", "the type is not known"},
    {HEAD "field a record at 0\n", "the type is not known"},
    {HEAD "field a u8[] at 0\n", "line 3"},
    {HEAD "field a u8[0] at 0\n", "line 3"},
    {HEAD "field a u8[2 at 0\n", "line 3"},
    {HEAD "field a u8[02] at 0\n", "not the canonical one"},
    {HEAD "field a u8[2]x at 0\n", "line 3"},
    {HEAD "field a u8[1][1][1][1][1][1][1][1][1] at 0\n", "line 3"},
    {HEAD "field a u8[x] at 0\n", "the size 'x'"},
    {HEAD "field a t at 0\n", "records of its own format"},
    {HEAD "field a u64 at 1\n", "ends beyond"},
    {HEAD "field a u64 at 18446744073709551616\n", "line 3"},
    {HEAD "field a u64 optional optional at 0\n", "line 3"},
    {HEAD "field a u64 at 0\nrecord t size 8 align 8\n", "of that name"},
    {HEAD "field a u64 at 0\nrecord s size 8 align 8\nfield a u64 at 0\n", "not the canonical one"},
    {HEAD "field a u64 at 0\nattr a \"\nattr b \"\"\n", "does not end"},
    {HEAD "field a u64 at 0\nattr a \"\\n\"\n", "escape"},
    {HEAD "field a u64 at 0\nattr a \"\\x00\"\n", "escape"},
    {HEAD "field a u64 at 0\nattr a \"\\x41\"\n", "not the canonical one"},
    {HEAD "field a u64 at 0\nattr a \"\\x0", "escape"},
    {HEAD "field a u64 at 0\nattr a \"\xff\"\n", "not UTF-8"},
    {HEAD "field a u64 at 0\nattr a \"\" \n", "does not end"},
};

START_TEST(test_bad_text)
{
    size_t len = strlen(bad_texts[_i].text);
    char *text = malloc(len + 1);
    errmsg_t err = {""};

    memcpy(text, bad_texts[_i].text, len); /* without its NUL */
    ck_assert_ptr_null(stream_format_parse(text, len, &err));
    ck_assert_int_eq(errno, EPROTO);
    ck_assert_msg(strstr(err.text, bad_texts[_i].error) != NULL, "%s", err.text);
    free(text);
}
END_TEST

/* No text with another byte, one less, or one more is one of the same format. */
START_TEST(test_changed_text)
{
    size_t len = sizeof(atom_text) - 1;
    char text[sizeof(atom_text)];

    for (size_t i = 0; i < len; i++)
        for (int what = 0; what < 4; what++) {
            size_t n = what == 1 ? len - 1 : len;
            stream_format_t *f;

            memcpy(text, atom_text, sizeof(text));
            if (what == 1)
                memmove(text + i, text + i + 1, len - i);
            else
                text[i] = what == 0 ? (char)(text[i] + 1) : what == 2 ? ' ' : '\0';
            errno = 0;
            if ((f = stream_format_parse(text, n, NULL))) {
                ck_assert_uint_eq(strlen(stream_format_text(f)), n);
                ck_assert_mem_eq(stream_format_text(f), text, n);
            } else {
                ck_assert_int_eq(errno, EPROTO);
            }
            stream_format_destroy(f);
        }
}
END_TEST

/* --- memory --- */

START_TEST(test_no_memory)
{
    static const struct stream_table *const tables[] = {&atom_table, &all_table};

    for (int way = 0; way < 5; way++) {
        stream_format_t *whole = create(tables[way % 2]), *f;
        const char *text = stream_format_text(whole);
        bool all = false;

        for (unsigned k = 1; !all; k++) {
            int errnum;

            fail_at = k;
            f = way < 2 ? stream_format_parse(text, strlen(text), NULL)
                : way < 4
                    ? stream_format_native(whole, NULL)
                    : stream_format_pick(whole, (const char *[]){"next.at.x", "near"}, 2, NULL);
            errnum = errno;
            all = stop_failing() > 0;
            ck_assert(all ? f != NULL : !f && errnum == ENOMEM);
            stream_format_destroy(f);
        }
        stream_format_destroy(whole);
    }
}
END_TEST

/* However a text wastes its lines, memory is in proportion to it. */
START_TEST(test_bounded)
{
    static const char *const lines[] = {"field a u8 at 0\n", "attr a \"\"\n", "field \n", "\n",
                                        "record a size 1 align 1\nfield a u8 at 0\n"};
    char *text = malloc(STREAM_TEXT_MAX + 64);

    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        size_t len = (size_t)sprintf(text, HEAD), used;

        while (len + strlen(lines[i]) <= STREAM_TEXT_MAX)
            len += (size_t)sprintf(text + len, "%s", lines[i]);
        allocated = 0;
        ck_assert_ptr_null(stream_format_parse(text, len, NULL));
        ck_assert_int_eq(errno, EPROTO);
        used = allocated;
        ck_assert_uint_lt(used, 40 * (size_t)STREAM_TEXT_MAX);
        allocated = 0;
        ck_assert_ptr_null(stream_format_parse(text, STREAM_TEXT_MAX + 1, NULL));
        used = allocated;
        ck_assert_uint_lt(used, 1000);
    }
    free(text);
}
END_TEST

/* --- sketches --- */

/* A sketch has the format of the table that says the same, and so has the canonical text. */
START_TEST(test_sketch)
{
    static const char sketch[] = "record point\n"
                                 "  field x f64\n"
                                 "\tattr units \"nm\"\n"
                                 "  field y f64\n"
                                 "  field z f64\n"
                                 "\n"
                                 "record atom\n"
                                 "  attr code \"demo 1.0\"\n"
                                 "  field id u64\n"
                                 "  field n u32\n"
                                 "  field kind u8\n"
                                 "  attr default \"1\"\n"
                                 "  field at point\n"
                                 "  field near u64[n]\n"
                                 "  field mass f64 optional\n"
                                 "  field name string\n"
                                 "  field next *atom"; /* the end of the last line may be missing */
    errmsg_t err = {""};
    stream_format_t *f = stream_format_create(&atom_table, &err);
    stream_format_t *s = stream_format_sketch(sketch, &err);
    stream_format_t *t = stream_format_sketch(stream_format_text(f), &err);

    ck_assert_msg(s != NULL, "%s", err.text);
    ck_assert_str_eq(stream_format_text(s), stream_format_text(f));
    ck_assert_str_eq(stream_format_text(t), stream_format_text(f));
    stream_format_destroy(f);
    stream_format_destroy(s);
    stream_format_destroy(t);
}
END_TEST

static const struct {
    const char *text, *why;
} bad_sketches[] = {
    {"", "no record"},
    {"field x f64\n", "line 1 "},
    {"record r\n\n  field x f6\n", "line 3 "},
    {"record r\nfield x f64 optionally\n", "'optional', or the end"},
    {"record r\nfield x f64[n]\n", "size 'n'"},
    {"record r sized 3\nfield x f64\n", "expected 'record NAME'"},
    {"flux-format 2 pointers 8\nrecord r\nfield x f64\n", "line 1 "},
};

START_TEST(test_bad_sketch)
{
    errmsg_t err = {""};

    ck_assert_ptr_null(stream_format_sketch(bad_sketches[_i].text, &err));
    ck_assert_int_eq(errno, EINVAL);
    ck_assert_msg(strstr(err.text, bad_sketches[_i].why) != NULL, "%s", err.text);
    ck_assert_ptr_null(stream_format_parse("record r\nfield x f64\n", 21, &err));
    ck_assert_int_eq(errno, EPROTO);
}
END_TEST

/* Formats of some of the fields: the paths, separated by blanks, and what is made of them. */
static const struct {
    const char *paths;
    const char *text; /* a sketch; NULL: it fails */
    const char *why;
} picks[] = {
    {"id", "record atom\nattr code \"demo 1.0\"\nfield id u64\n", NULL},
    {"kind id",
     "record atom\nattr code \"demo 1.0\"\nfield id u64\nfield kind u8\nattr default \"1\"\n",
     NULL},
    {"near", "record atom\nattr code \"demo 1.0\"\nfield n u32\nfield near u64[n]\n", NULL},
    {"at.z at.x",
     "record point\nfield x f64\nattr units \"nm\"\nfield z f64\n"
     "record atom\nattr code \"demo 1.0\"\nfield at point\n",
     NULL},
    {"at at.x mass",
     "record point\nfield x f64\nattr units \"nm\"\nfield y f64\nfield z f64\n"
     "record atom\nattr code \"demo 1.0\"\nfield at point\nfield mass f64 optional\n",
     NULL},
    {"id next.at.y next.next.name",
     "record point\nfield y f64\n"
     "record atom_1\nattr code \"demo 1.0\"\nfield name string\n"
     "record atom_2\nattr code \"demo 1.0\"\nfield at point\nfield next *atom_1\n"
     "record atom\nattr code \"demo 1.0\"\nfield id u64\nfield next *atom_2\n",
     NULL},
    {"", NULL, "no field of format atom"},
    {"none", NULL, "records of format atom have no field 'none'"},
    {"at.none", NULL, "records of format point have no field 'none'"},
    {"i", NULL, "records of format atom have no field 'i'"},
    {"id.x", NULL, "field atom.id is not a record"},
    {"at.", NULL, "records of format point have no field ''"},
    {"next.next.next.next.next.next.next.next.next.next.next.next.next.next.next.next.id", NULL,
     "longer than 16"},
};

START_TEST(test_pick)
{
    stream_format_t *f = parse(atom_text), *got, *want;
    char copy[200];
    const char *paths[8];
    char *rest = copy;
    size_t n = 0;
    errmsg_t err = {""};

    strcpy(copy, picks[_i].paths);
    while (*copy && (paths[n] = strsep(&rest, " ")))
        n++;
    got = stream_format_pick(f, paths, n, &err);
    if (picks[_i].text) {
        ck_assert_msg(got != NULL, "%s", err.text);
        want = stream_format_sketch(picks[_i].text, &err);
        ck_assert_msg(want != NULL, "%s", err.text);
        ck_assert_str_eq(stream_format_text(got), stream_format_text(want));
        stream_format_destroy(want);
    } else {
        ck_assert_ptr_null(got);
        ck_assert_msg(strstr(err.text, picks[_i].why) != NULL, "%s", err.text);
    }
    stream_format_destroy(got);
    stream_format_destroy(f);
}
END_TEST

/* A record that is picked as a whole keeps its name; one with picked fields gets another. */
START_TEST(test_pick_whole)
{
    static const char *const paths[] = {"next", "id"};
    stream_format_t *f = parse(atom_text), *got = stream_format_pick(f, paths, 2, NULL);

    ck_assert_ptr_nonnull(got);
    ck_assert_str_eq(stream_format_name(got), "atom_1");
    ck_assert_uint_eq(stream_format_count(got), 2);
    ck_assert_uint_eq(stream_format_count(stream_format_find(got, "next")->of), 8);
    stream_format_destroy(got);
    stream_format_destroy(f);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("format");

    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, test_example);
    tcase_add_test(tc, test_golden);
    tcase_add_test(tc, test_layout);
    tcase_add_loop_test(tc, test_bad_table, 0, sizeof(bad) / sizeof(bad[0]));
    tcase_add_test(tc, test_bad_names);
    tcase_add_test(tc, test_nesting);
    tcase_add_test(tc, test_shared);
    tcase_add_loop_test(tc, test_bad_text, 0, sizeof(bad_texts) / sizeof(bad_texts[0]));
    tcase_add_test(tc, test_changed_text);
    tcase_add_test(tc, test_no_memory);
    tcase_add_test(tc, test_bounded);
    tcase_add_test(tc, test_sketch);
    tcase_add_loop_test(tc, test_bad_sketch, 0, sizeof(bad_sketches) / sizeof(bad_sketches[0]));
    tcase_add_loop_test(tc, test_pick, 0, sizeof(picks) / sizeof(picks[0]));
    tcase_add_test(tc, test_pick_whole);
    return run_case("format", tc);
}

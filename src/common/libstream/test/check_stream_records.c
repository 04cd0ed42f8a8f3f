/* check_stream_records.c - records as variables of a stream, with random formats and values: from a
 * writer, on a handle of the test's own where the test is the module; and from a recording, which
 * has both byte orders, and pointers of both sizes. */
#include "config.h"
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <unistd.h>

#include "inlet_next.h"
#include "libflux/test/fake.h"
#include "libstream/array.h"
#include "libstream/block.h"
#include "libstream/convert.h"
#include "libstream/stream.h"
#include "libstream/stream_file.h"
#include "libutil/hex.h"
#include "libutil/test/suite.h"
#include "value.h"

#define ROUNDS 100
#define RECORDS_MAX 4

static errmsg_t err;

static void fails(int rc, int errnum, const char *text)
{
    ck_assert_int_eq(rc, -1);
    ck_assert_msg(errno == errnum, "%s: %s", strerror(errno), err.text);
    ck_assert_msg(strstr(err.text, text) != NULL, "%s: expected %s", err.text, text);
}

/* --- a writer --- */

struct bed {
    struct fake *f;
    flux_stream_t *s;
    inlet_t *in;
    unsigned defined;
};

static const char written[] = "{\"writer\":3,\"step\":0,\"epoch\":1,\"paused\":false,\"limit\":0,"
                              "\"readers\":[],\"gone\":[]}";

static void module_hook(struct fake *f, flux_msg_t *msg)
{
    struct bed *b = f->user;

    fake_keep(f, msg);
    if (f->inbox_first == f->inbox_count)
        f->inbox_first = f->inbox_count = 0;
    if (strcmp(flux_msg_topic(msg), "stream.write") == 0)
        fake_inbox(f, fake_answer(f, 0, 0, FLUX_MSGF_STREAMING, written));
    else if (!flux_msg_has_flag(msg, FLUX_MSGF_NORESPONSE))
        fake_inbox(f, fake_answer(f, f->nsent - 1, 0, 0, NULL));
    b->defined += strcmp(flux_msg_topic(msg), "stream.define") == 0;
}

static void bed_init(struct bed *b)
{
    const struct flux_stream_opts opts = {.transport = "ring"};
    unsigned char key[KNOCK_KEY_LEN];
    struct knock_want want;
    json_t *o;

    *b = (struct bed){.f = fake_create()};
    b->f->hook = module_hook;
    b->f->user = b;
    b->s = flux_stream_open(b->f->h, "s", FLUX_STREAM_WRITE, &opts, &err);
    ck_assert_msg(b->s != NULL, "%s", err.text);
    o = json_loads(flux_msg_json(b->f->sent[0]), 0, NULL);
    ck_assert_int_ge(hex_decode(key, json_string_value(json_object_get(o, "key")), sizeof(key)), 0);
    knock_want_init(&want);
    b->in = inlet_connect(json_string_value(json_object_get(o, "address")), key, &want, 10., &err);
    ck_assert_msg(b->in != NULL, "%s", err.text);
    json_decref(o);
}

static void bed_free(struct bed *b)
{
    inlet_destroy(b->in);
    flux_stream_close(b->s);
    fake_free(b->f);
}

static struct inlet_step next_step(struct bed *b)
{
    struct inlet_step step;

    ck_assert_msg(inlet_next(b->in, 30., &step, &err) == 1, "%s", err.text);
    return step;
}

static stream_format_t *random_format(struct chance *c)
{
    struct stream_table *t = value_table(c);
    stream_format_t *f;

    ck_assert_ptr_nonnull(f = stream_format_create(t, &err));
    return f;
}

static stream_format_t *native_of(const stream_format_t *f)
{
    stream_format_t *native = stream_format_native(f, &err);

    ck_assert_ptr_nonnull(native);
    return native;
}

/* Check the variable "r" of the next step. */
static void taken(struct bed *b, const stream_format_t *f, struct record *const *r, uint64_t n,
                  bool one)
{
    struct inlet_step step = next_step(b);
    block_t *block = block_read(step.data, step.len, &err);
    const struct block_var *v = block ? block_find(block, "r") : NULL;
    stream_array_t *a = v ? stream_array_decode(v->desc, v->desc_len, &err) : NULL;
    stream_convert_t *c = stream_convert_create(f, STREAM_NATIVE, f, &err);
    const uint8_t *body = (const uint8_t *)step.data + v->off;
    uint8_t *out;

    ck_assert_ptr_nonnull(a);
    ck_assert_ptr_nonnull(c);
    ck_assert_int_eq(stream_array_shape(a)->type, STREAM_RECORD);
    ck_assert_int_eq(stream_array_shape(a)->kind, one ? STREAM_VALUE : STREAM_LOCAL);
    ck_assert_uint_eq(stream_array_shape(a)->id, stream_format_id(f));
    ck_assert_uint_eq(stream_array_count(a) > 0 ? stream_array_piece(a, 0).elems : 0, n);
    ck_assert_ptr_nonnull(out = stream_convert_array(c, n, body, v->len, 1 << 24, 0, &err));
    for (uint64_t i = 0; i < n; i++)
        value_check(r[i], f, out + i * stream_format_size(f));
    free(out);
    stream_convert_destroy(c);
    stream_array_destroy(a);
    block_destroy(block);
    inlet_release(b->in, &step);
}

/* A format is defined once; records are encoded when the step ends. */
START_TEST(writer)
{
    struct chance c = {.seed = 7};
    struct bed b;

    bed_init(&b);
    for (int round = 0; round < ROUNDS; round++) {
        stream_format_t *any = random_format(&c), *f = native_of(any);
        bool one = chance(&c, 3) == 0;
        uint64_t n = one ? 1 : chance(&c, RECORDS_MAX + 1);
        struct record *r[RECORDS_MAX];
        const struct flux_stream_array a = {.format = f, .ndims = !one, .count = &n};

        for (uint64_t i = 0; i < n; i++)
            r[i] = value_record(&c, f);
        for (int twice = 0; twice < 2; twice++) {
            void *mem = value_structs(r, n, f);

            ck_assert_msg(flux_stream_put_array(b.s, "r", &a, mem, &err) == 0, "%s", err.text);
            ck_assert_uint_eq(b.defined, (unsigned)round + 1);
            if (chance(&c, 2))
                ck_assert_msg(flux_stream_end_step(b.s, 10., &err) == 0, "%s", err.text);
            else
                ck_assert_msg(flux_stream_end_step_async(b.s, &err) == 1, "%s", err.text);
            taken(&b, f, r, n, one);
        }
        stream_format_destroy(f);
        stream_format_destroy(any);
        value_free_all();
    }
    bed_free(&b);
}
END_TEST

struct item {
    uint32_t n;
    double *x;
};
static const struct stream_row item_rows[] = {
    STREAM_SCALAR(struct item, n, U32),
    STREAM_VECTOR(struct item, x, F64, n),
    STREAM_ROW_END,
};
static const struct stream_table item_table = STREAM_TABLE(struct item, "item", item_rows);
struct point {
    float x, y;
};
static const struct stream_row point_rows[] = {
    STREAM_SCALAR(struct point, x, F32),
    STREAM_SCALAR(struct point, y, F32),
    STREAM_ROW_END,
};
static const struct stream_table point_table = STREAM_TABLE(struct point, "point", point_rows);

/* Errors name the variable and the field; the step is forgotten, and the stream goes on.  Flat
 * records can be made in their place, and pinned ones are encoded for the pin block as well. */
START_TEST(writer_errors)
{
    stream_format_t *item = stream_format_create(&item_table, &err);
    stream_format_t *point = stream_format_create(&point_table, &err);
    const uint64_t two = 2;
    struct flux_stream_array a = {
        .format = item, .ndims = 1, .count = &two, .shape = &two, .offset = &(uint64_t){0}};
    double x[] = {1., 2.};
    struct item items[] = {{1, x}, {2, NULL}};
    struct inlet_step step;
    struct point *p;
    struct bed b;

    bed_init(&b);
    fails(flux_stream_put_array(b.s, "r", &a, items, &err), EOPNOTSUPP, "global array");
    a.shape = a.offset = NULL;
    fails(flux_stream_put_array(b.s, "r", &a, NULL, &err), EINVAL, "in their place");
    for (int way = 0; way < 3; way++) {
        ck_assert_int_eq(flux_stream_put_array(b.s, "r", &a, items, &err), 0);
        fails(way == 0   ? flux_stream_end_step(b.s, 10., &err)
              : way == 1 ? flux_stream_place(b.s, 10., &err)
                         : flux_stream_end_step_async(b.s, &err),
              EINVAL, "'r' of step 0 of stream 's': field item.x is NULL, but has elements");
    }
    ck_assert_int_eq(flux_stream_pin(b.s, "r", &err), 0);
    items[1].x = x;
    ck_assert_int_eq(flux_stream_put_array(b.s, "r", &a, items, &err), 0);
    ck_assert_msg(flux_stream_end_step(b.s, 10., &err) == 0, "%s", err.text);
    step = next_step(&b);
    ck_assert_uint_gt(step.pinned_len, 0);
    ck_assert_uint_eq(step.pinned_len, step.len);
    ck_assert_int_eq(memcmp(step.pinned, step.data, step.len), 0);
    inlet_release(b.in, &step);
    a.format = point;
    ck_assert_int_eq(flux_stream_put_array(b.s, "p", &a, NULL, &err), 0);
    ck_assert_msg(flux_stream_place(b.s, 10., &err) == 0, "%s", err.text);
    p = flux_stream_at(b.s, "p");
    p[1] = (struct point){3.F, 4.F};
    ck_assert_msg(flux_stream_end_step(b.s, 10., &err) == 0, "%s", err.text);
    ck_assert_uint_eq(b.defined, 2);
    bed_free(&b);
    stream_format_destroy(item);
    stream_format_destroy(point);
}
END_TEST

/* --- a recording --- */

struct bytes {
    block_t *b;
    uint8_t *value[2];
    size_t len[2];
};

static void put(struct bytes *x, const char *name, const stream_format_t *f,
                enum stream_order order, struct record *const *r, uint64_t n)
{
    const struct stream_shape shape = {.name = name,
                                       .kind = STREAM_LOCAL,
                                       .type = STREAM_RECORD,
                                       .order = order,
                                       .memory = STREAM_ROWS,
                                       .id = stream_format_id(f),
                                       .elem = stream_format_size(f),
                                       .ndims = 1};
    stream_array_t *a = stream_array_create(&shape, &err);
    uint8_t desc[BLOCK_DESC_MAX];
    size_t i = block_count(x->b);

    ck_assert_msg(a != NULL, "%s", err.text);
    if (n > 0)
        ck_assert_int_eq(stream_array_add(a, 0, NULL, &n, &err), 0);
    ck_assert_int_eq(stream_array_seal(a, &err), 0);
    stream_array_encode(a, desc);
    x->value[i] = value_encode_array(r, n, f, order, &x->len[i]);
    ck_assert_int_eq(block_add(x->b, name, desc, stream_array_encoded(a), x->len[i]), 0);
    stream_array_destroy(a);
}

static void record(tape_write_t *w, uint64_t step, struct bytes *x)
{
    size_t size = block_size(x->b);
    uint8_t *data = calloc(1, size + 64);
    uint8_t *at = data + (64 - (uintptr_t)data % 64) % 64;
    const struct tape_block block = {at, size};

    block_write(x->b, at);
    for (size_t i = 0; i < block_count(x->b); i++)
        memcpy(at + block_at(x->b, i)->off, x->value[i], x->len[i]);
    ck_assert_msg(tape_write_step(w, step, 0, &block, &err) == 0, "%s", err.text);
    free(data);
    free(x->value[0]);
    free(x->value[1]);
    block_destroy(x->b);
}

/* Were they read?  A random later version may have fields that cannot be converted. */
static bool read_step(flux_stream_t *s, const char *var, struct record *const *r, uint64_t n,
                      const stream_format_t *mine, bool later)
{
    const uint8_t *recs, *again;
    size_t got;

    if (later && flux_stream_get_records(s, 0, var, mine, (const void **)&recs, &got, &err) < 0 &&
        errno == EINVAL) {
        ck_assert_ptr_nonnull(strstr(err.text, ": field r"));
        return false;
    }
    ck_assert_msg(flux_stream_get_records(s, 0, var, mine, (const void **)&recs, &got, &err) == 0,
                  "%s", err.text);
    ck_assert_int_eq(flux_stream_get_records(s, 0, var, mine, (const void **)&again, &got, &err),
                     0);
    ck_assert_uint_eq(got, n);
    for (uint64_t i = 0; i < n; i++) {
        value_check(r[i], mine, recs + i * stream_format_size(mine));
        value_check(r[i], mine, again + i * stream_format_size(mine));
    }
    return true;
}

/* Two variables of a step, in both byte orders, are read as structs of this host, and by a later
 * version of the program. */
START_TEST(recording)
{
    struct chance c = {.seed = 11};
    const char *path = "check_stream_records.rec";
    struct chance again = c;
    unsigned converted = 0;
    tape_write_t *w;
    flux_stream_t *s = NULL;

    unlink(path);
    ck_assert_ptr_nonnull(w = tape_write_open(path, "s", 1, false, &err));
    for (int round = 0; round < 2 * ROUNDS; round++) {
        struct stream_table *t;
        struct record *r[RECORDS_MAX];
        stream_format_t *f;
        uint64_t n;

        if (round == ROUNDS) { /* the same again, to be compared */
            ck_assert_msg(tape_write_end(w, &err) == 0, "%s", err.text);
            tape_write_destroy(w);
            ck_assert_ptr_nonnull(s = flux_stream_open_file(path, &err));
            c = again;
        }
        t = value_table(&c);
        ck_assert_ptr_nonnull(f = stream_format_create(t, &err));
        n = chance(&c, RECORDS_MAX + 1);
        for (uint64_t i = 0; i < n; i++)
            r[i] = value_record(&c, f);
        if (round < ROUNDS) {
            struct bytes x = {.b = block_create()};

            ck_assert_int_eq(
                tape_write_records(w, stream_format_id(f), stream_format_text(f), &err), 0);
            put(&x, "little", f, STREAM_LITTLE, r, n);
            put(&x, "big", f, STREAM_BIG, r, n);
            record(w, (uint64_t)round, &x);
            value_later(&c, t);
        } else {
            stream_format_t *native = native_of(f);
            stream_format_t *later = stream_format_create(value_later(&c, t), &err);

            ck_assert_int_eq(flux_stream_begin_step(s, FLUX_STREAM_NEXT, 0., NULL, &err), 1);
            for (int big = 0; big < 2; big++) {
                const char *var = big ? "big" : "little";

                ck_assert_msg(flux_stream_format(s, var, &err) != NULL, "%s", err.text);
                read_step(s, var, r, n, native, false);
                converted += later && read_step(s, var, r, n, later, true);
            }
            ck_assert_int_eq(flux_stream_end_step(s, 0., &err), 0);
            stream_format_destroy(native);
            stream_format_destroy(later);
        }
        stream_format_destroy(f);
        value_free_all();
    }
    ck_assert_uint_gt(converted, ROUNDS / 2);
    flux_stream_close(s);
    unlink(path);
}
END_TEST

/* A variable that is not records; one whose format the recording does not have; and one whose
 * format has another id, or another size, than it says. */
START_TEST(unknown)
{
    const char *path = "check_stream_unknown.rec";
    stream_format_t *f = stream_format_create(&point_table, &err);
    stream_format_t *item = stream_format_create(&item_table, &err);
    uint64_t id = stream_format_id(f);

    for (int way = 0; way < 3; way++) {
        struct bytes x = {.b = block_create()};
        struct chance c = {.seed = 3};
        struct record *r = value_record(&c, f);
        tape_write_t *w;
        flux_stream_t *s;
        const void *recs;
        size_t n;

        unlink(path);
        ck_assert_ptr_nonnull(w = tape_write_open(path, "s", 1, false, &err));
        if (way == 1)
            ck_assert_int_eq(tape_write_records(w, id, stream_format_text(item), &err), 0);
        if (way == 2)
            ck_assert_int_eq(tape_write_records(w, id, "no format", &err), 0);
        put(&x, "p", f, STREAM_NATIVE, &r, 1);
        ck_assert_int_eq(block_add(x.b, "plain", NULL, 0, 0), 0);
        x.value[1] = calloc(1, 1);
        record(w, 0, &x);
        ck_assert_int_eq(tape_write_end(w, &err), 0);
        tape_write_destroy(w);
        ck_assert_ptr_nonnull(s = flux_stream_open_file(path, &err));
        ck_assert_int_eq(flux_stream_begin_step(s, FLUX_STREAM_NEXT, 0., NULL, &err), 1);
        fails(flux_stream_get_records(s, 0, "p", f, &recs, &n, &err), way == 0 ? ENODATA : EPROTO,
              way == 0   ? "does not have format"
              : way == 1 ? "does not have the id"
                         : "text of a format");
        fails(flux_stream_get_records(s, 0, "plain", f, &recs, &n, &err), ENOENT, "described");
        flux_stream_close(s);
        value_free_all();
    }
    unlink(path);
    stream_format_destroy(f);
    stream_format_destroy(item);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("stream records");

    tcase_set_timeout(tc, 120);
    tcase_add_test(tc, writer);
    tcase_add_test(tc, writer_errors);
    tcase_add_test(tc, recording);
    tcase_add_test(tc, unknown);
    return run_case("stream records", tc);
}

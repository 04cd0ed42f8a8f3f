/* check_stream_sift.c - transforms of a writer: on a handle of the test's own, where the test is
 * the module, and a reader. */
#include "config.h"
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <unistd.h>

#include "inlet_next.h"
#include "libflux/test/fake.h"
#include "libstream/block.h"
#include "libstream/stream.h"
#include "libutil/hex.h"
#include "libutil/test/suite.h"

struct bed {
    struct fake *f;
    flux_stream_t *s;
    inlet_t *in;
    const char *attached; /* what the module says of transforms, or "" */
};

static errmsg_t err;
static char dir[] = "/tmp/flux-sift-XXXXXX";
static char path[64]; /* of the transform */

/* What outlet_wanted() says of its next calls: bits, the first one is the lowest. */
static unsigned unwanted;

bool __real_outlet_wanted(const void *o);
bool __wrap_outlet_wanted(const void *o);
bool __wrap_outlet_wanted(const void *o)
{
    bool no = unwanted & 1;

    unwanted >>= 1;
    return !no && __real_outlet_wanted(o);
}

static void module_hook(struct fake *f, flux_msg_t *msg)
{
    const struct bed *b = f->user;
    char text[512];

    fake_keep(f, msg);
    if (f->inbox_first == f->inbox_count)
        f->inbox_first = f->inbox_count = 0;
    snprintf(text, sizeof(text),
             "{\"writer\":3,\"step\":0,\"epoch\":1,\"paused\":false,\"limit\":0,%s"
             "\"readers\":[],\"gone\":[]}",
             b->attached);
    if (strcmp(flux_msg_topic(msg), "stream.write") == 0)
        fake_inbox(f, fake_answer(f, f->nsent - 1, 0, FLUX_MSGF_STREAMING, text));
    else if (!flux_msg_has_flag(msg, FLUX_MSGF_NORESPONSE))
        fake_inbox(f, fake_answer(f, f->nsent - 1, 0, 0, NULL));
}

static void bed_init(struct bed *b, const char *transforms, const char *attached)
{
    const struct flux_stream_opts opts = {.transport = "ring", .transforms = transforms};
    unsigned char key[KNOCK_KEY_LEN];
    struct knock_want want;
    json_t *o;

    *b = (struct bed){.f = fake_create(), .attached = attached};
    b->f->hook = module_hook;
    b->f->user = b;
    unwanted = 0;
    b->s = flux_stream_open(b->f->h, "s", FLUX_STREAM_WRITE, &opts, &err);
    ck_assert_msg(b->s != NULL, "%s", err.text);
    o = json_loads(flux_msg_json(b->f->sent[0]), 0, NULL);
    ck_assert_int_ge(hex_decode(key, json_string_value(json_object_get(o, "key")), sizeof(key)), 0);
    knock_want_init(&want);
    b->in = inlet_connect(json_string_value(json_object_get(o, "address")), key, &want, 10., &err);
    ck_assert_msg(b->in != NULL, "%s", err.text);
    ck_assert_msg(flux_stream_wait_readers(b->s, 1, 30., &err) == 0, "%s", err.text);
    json_decref(o);
}

static void bed_free(struct bed *b)
{
    inlet_destroy(b->in);
    flux_stream_close(b->s);
    fake_free(b->f);
}

static void file_write(const char *text)
{
    FILE *f = fopen(path, "w");

    ck_assert(f && fprintf(f, "transform(function(s)\n%s\nend)", text) > 0 && fclose(f) == 0);
}

/* A step with the number `x`, and its number as "n"; in their place or not. */
static void put(struct bed *b, double x, bool place)
{
    static const struct flux_stream_array value = {.type = "f64"};
    static uint64_t n;
    static double mine;

    n = flux_stream_step(b->s);
    mine = x;
    ck_assert_int_eq(flux_stream_put_array(b->s, "x", &value, place ? NULL : &mine, &err), 0);
    ck_assert_int_eq(flux_stream_put(b->s, "n", &n, sizeof(n), &err), 0);
    if (place) {
        ck_assert_msg(flux_stream_place(b->s, 30., &err) == 0, "%s", err.text);
        memcpy(flux_stream_at(b->s, "x"), &x, sizeof(x));
    }
}

static void write_step(struct bed *b, double x, bool place)
{
    put(b, x, place);
    ck_assert_msg(flux_stream_end_step(b->s, 30., &err) == 0, "%s", err.text);
}

/* The next step, which has the number `x`, and "n" or not. */
static void take(struct bed *b, uint64_t step, double x, bool kept)
{
    const struct block_var *v;
    struct inlet_step s;
    block_t *block;
    double got;

    ck_assert_msg(inlet_next(b->in, 30., &s, &err) == 1, "%s", err.text);
    ck_assert_uint_eq(s.step, step);
    ck_assert_ptr_nonnull(block = block_read(s.data, s.len, &err));
    ck_assert_uint_eq(block_count(block), 1u + kept);
    ck_assert_ptr_nonnull(v = block_find(block, "x"));
    ck_assert_uint_eq(v->len, sizeof(got));
    memcpy(&got, (const char *)s.data + v->off, sizeof(got));
    ck_assert(got == x);
    if (kept) {
        ck_assert_ptr_nonnull(v = block_find(block, "n"));
        ck_assert(memcmp((const char *)s.data + v->off, &step, sizeof(step)) == 0);
    }
    block_destroy(block);
    ck_assert_int_eq(inlet_release(b->in, &s), 0);
}

/* The result takes the place of what was put, whatever way that is. */
START_TEST(result)
{
    struct bed b;

    file_write("if s.number % 3 == 2 then return false end\n"
               "if s.number % 2 == 0 then s:keep('n') end\ns:put('x', s:get('x'):scale(2))");
    bed_init(&b, path, "");
    for (int i = 0; i < 12; i++) {
        write_step(&b, i, i % 4 > 1);
        if (i % 3 != 2)
            take(&b, (uint64_t)i, 2. * i, i % 2 == 0);
    }
    ck_assert_uint_eq(flux_stream_step(b.s), 12);
    ck_assert_ptr_null(flux_stream_fault(b.s));
    bed_free(&b);
}
END_TEST

/* A reader that comes while a step is ended sees it as a whole, or not at all. */
START_TEST(wanted_late)
{
    struct bed b;

    file_write("s:keep('n') s:put('x', s:get('x'):scale(2))");
    for (unsigned calls = 0; calls < 4; calls++) {
        bed_init(&b, path, "");
        put(&b, 1., false);
        unwanted = (1u << calls) - 1;
        ck_assert_msg(flux_stream_end_step(b.s, 30., &err) == 0, "%s", err.text);
        unwanted = 0;
        if (calls == 0)
            take(&b, 0, 2., true);
        write_step(&b, 2., false);
        take(&b, 1, 4., true);
        bed_free(&b);
    }
}
END_TEST

/* A chain that fails is detached, with the step as it was put. */
START_TEST(fault)
{
    struct bed b;

    file_write("s:put('x', s:get(s.number < 1 and 'x' or 'none'):scale(2))");
    bed_init(&b, path, "");
    for (int place = 0; place < 2; place++) {
        if (place == 1)
            bed_init(&b, path, "");
        write_step(&b, 1., place);
        take(&b, 0, 2., false);
        for (int i = 1; i < 3; i++) {
            write_step(&b, i, place);
            take(&b, (uint64_t)i, i, true);
        }
        ck_assert_ptr_nonnull(strstr(flux_stream_fault(b.s), "step 1 of stream 's': "));
        ck_assert_ptr_nonnull(strstr(flux_stream_fault(b.s), "t.lua:2: "));
        bed_free(&b);
    }
}
END_TEST

/* The module attaches transforms, in place of those of the program, or takes them away. */
START_TEST(attached)
{
    char says[256];
    struct bed b;

    file_write("s:put('x', s:get('x'):scale(3))");
    snprintf(says, sizeof(says), "\"attached\":4,\"transforms\":\"%s\",", path);
    bed_init(&b, NULL, says);
    write_step(&b, 1., false);
    take(&b, 0, 3., false);
    bed_free(&b);
    bed_init(&b, path, "\"attached\":1,\"transforms\":\"\",");
    write_step(&b, 1., true);
    take(&b, 0, 1., true);
    bed_free(&b);
    bed_init(&b, path, "\"attached\":1,\"transforms\":\"/none/x.so\",");
    write_step(&b, 1., true);
    take(&b, 0, 3., false); /* what it has stays */
    ck_assert_ptr_nonnull(strstr(flux_stream_fault(b.s), "/none/x.so"));
    bed_free(&b);
}
END_TEST

static void setup(void)
{
    strcpy(dir + strlen(dir) - 6, "XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
    snprintf(path, sizeof(path), "%s/t.lua", dir);
}

static void teardown(void)
{
    unlink(path);
    ck_assert_int_eq(rmdir(dir), 0);
}

int main(void)
{
    TCase *tc = tcase_create("stream_sift");

    tcase_set_timeout(tc, 60);
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, result);
    tcase_add_test(tc, wanted_late);
    tcase_add_test(tc, fault);
    tcase_add_test(tc, attached);
    return run_case("stream_sift", tc);
}

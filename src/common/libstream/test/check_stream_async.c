/* check_stream_async.c - steps that are ended without waiting: a writer on a handle of the test's
 * own, where the test is the module, and a reader whose queue has one step. */
#include "config.h"
#include <inttypes.h>
#include <jansson.h>
#include <poll.h>
#include <stdio.h>

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
};

static errmsg_t err;

static const char *written(bool paused)
{
    return paused ? "{\"writer\":3,\"step\":5,\"epoch\":1,\"paused\":true,\"limit\":0,"
                    "\"readers\":[],\"gone\":[]}"
                  : "{\"writer\":3,\"step\":5,\"epoch\":1,\"paused\":false,\"limit\":0,"
                    "\"readers\":[],\"gone\":[]}";
}

static void module_hook(struct fake *f, flux_msg_t *msg)
{
    fake_keep(f, msg);
    if (strcmp(flux_msg_topic(msg), "stream.write") == 0)
        fake_inbox(f, fake_answer(f, 0, 0, FLUX_MSGF_STREAMING, written(false)));
    else if (strcmp(flux_msg_topic(msg), "stream.count") == 0 &&
             !flux_msg_has_flag(msg, FLUX_MSGF_NORESPONSE))
        fake_inbox(f, fake_answer(f, f->nsent - 1, 0, 0, NULL));
}

static struct bed bed_create(void)
{
    const struct flux_stream_opts opts = {.transport = "ring"};
    struct bed b = {.f = fake_create()};
    unsigned char key[KNOCK_KEY_LEN];
    struct knock_want want;
    json_t *o;

    b.f->hook = module_hook;
    b.s = flux_stream_open(b.f->h, "s", FLUX_STREAM_WRITE, &opts, &err);
    ck_assert_msg(b.s != NULL, "%s", err.text);
    o = json_loads(flux_msg_json(b.f->sent[0]), 0, NULL);
    ck_assert_int_ge(hex_decode(key, json_string_value(json_object_get(o, "key")), sizeof(key)), 0);
    knock_want_init(&want);
    want.depth = 1;
    b.in = inlet_connect(json_string_value(json_object_get(o, "address")), key, &want, 10., &err);
    ck_assert_msg(b.in != NULL, "%s", err.text);
    json_decref(o);
    return b;
}

static void bed_free(struct bed *b)
{
    inlet_destroy(b->in);
    flux_stream_close(b->s);
    fake_free(b->f);
}

/* End a step whose variable "n" is its number; the memory of it is used again at once. */
static int end_step(struct bed *b)
{
    uint64_t n = flux_stream_step(b->s);
    int rc;

    ck_assert_msg(flux_stream_put(b->s, "n", &n, sizeof(n), &err) == 0, "%s", err.text);
    rc = flux_stream_end_step_async(b->s, &err);
    n = 0;
    return rc;
}

static void take(struct bed *b, uint64_t step)
{
    struct inlet_step s;
    const struct block_var *v;
    block_t *block;
    uint64_t n;

    ck_assert_msg(inlet_next(b->in, 30., &s, &err) == 1, "%s", err.text);
    ck_assert_uint_eq(s.step, step);
    ck_assert_ptr_nonnull(block = block_read(s.data, s.len, &err));
    ck_assert_ptr_nonnull(v = block_find(block, "n"));
    memcpy(&n, (const char *)s.data + v->off, sizeof(n));
    ck_assert_uint_eq(n, step);
    block_destroy(block);
    ck_assert_int_eq(inlet_release(b->in, &s), 0);
}

static void fails(int rc, int errnum)
{
    ck_assert_int_eq(rc, -1);
    ck_assert_msg(errno == errnum, "%s", err.text);
}

/* A step waits for room, one at a time, and a loop finds out when it is published. */
START_TEST(room)
{
    struct bed b = bed_create();
    struct pollfd p = {.events = POLLIN};
    uint64_t n;

    fails(flux_stream_pollfd(b.s, &err), EAGAIN);
    ck_assert_int_eq(flux_stream_wait_step(b.s, 0., &err), 0);
    ck_assert_int_eq(end_step(&b), 1);
    ck_assert_int_eq(end_step(&b), 0);
    n = flux_stream_step(b.s);
    ck_assert_uint_eq(n, 7);
    ck_assert_int_ge(p.fd = flux_stream_pollfd(b.s, &err), 0);
    ck_assert_int_eq(poll(&p, 1, 0), 0);
    fails(flux_stream_wait_step(b.s, 0., &err), ETIMEDOUT);
    ck_assert_int_eq(flux_stream_put(b.s, "n", &n, sizeof(n), &err), 0);
    fails(flux_stream_end_step_async(b.s, &err), EBUSY);
    fails(flux_stream_place(b.s, 0., &err), ETIMEDOUT);
    fails(flux_stream_end_step(b.s, 0., &err), ETIMEDOUT);
    take(&b, 5);
    ck_assert_int_eq(poll(&p, 1, 30000), 1);
    ck_assert_int_eq(flux_stream_wait_step(b.s, 0., &err), 0);
    fails(flux_stream_pollfd(b.s, &err), EAGAIN);
    ck_assert_int_eq(flux_stream_end_step_async(b.s, &err), 0);
    take(&b, 6);
    take(&b, 7);
    ck_assert_int_eq(flux_stream_wait_step(b.s, 30., &err), 0);
    bed_free(&b);
}
END_TEST

/* The same, and the value is made in its place. */
static int end_placed(struct bed *b)
{
    uint64_t n = flux_stream_step(b->s);

    ck_assert_int_eq(flux_stream_put(b->s, "n", NULL, sizeof(n), &err), 0);
    fails(flux_stream_end_step_async(b->s, &err), EINVAL);
    ck_assert_msg(flux_stream_place(b->s, 30., &err) == 0, "%s", err.text);
    memcpy(flux_stream_at(b->s, "n"), &n, sizeof(n));
    return flux_stream_end_step_async(b->s, &err);
}

/* A step waits while the stream is paused, which a writer finds out when it ends steps; also one
 * that has its place already. */
START_TEST(paused)
{
    int (*end)(struct bed *) = _i == 0 ? end_step : end_placed;
    struct bed b = bed_create();

    fake_respond(b.f, 0, 0, FLUX_MSGF_STREAMING, written(true));
    while (end(&b) == 1)
        take(&b, flux_stream_step(b.s) - 1);
    fails(flux_stream_wait_step(b.s, 0., &err), ETIMEDOUT);
    fake_respond(b.f, 0, 0, FLUX_MSGF_STREAMING, written(false));
    ck_assert_int_eq(flux_stream_wait_step(b.s, 30., &err), 0);
    take(&b, flux_stream_step(b.s) - 1);
    bed_free(&b);
}
END_TEST

/* A step that waits is lost with its stream, which the call that waits for it reports once. */
START_TEST(removed)
{
    struct bed b = bed_create();

    ck_assert_int_eq(end_step(&b), 1);
    ck_assert_int_eq(end_step(&b), 0);
    fake_respond(b.f, 0, ECANCELED, 0, "stream 's' was removed");
    if (_i == 0)
        fails(flux_stream_wait_step(b.s, 30., &err), ECANCELED);
    else {
        ck_assert_int_eq(flux_stream_put(b.s, "n", "", 1, &err), 0);
        fails(flux_stream_end_step(b.s, 30., &err), ECANCELED);
        ck_assert_int_eq(flux_stream_put(b.s, "n", "", 1, &err), 0);
    }
    ck_assert_int_eq(flux_stream_wait_step(b.s, 0., &err), 0);
    bed_free(&b);
}
END_TEST

/* Closing the stream, after its reader has gone, does not wait. */
START_TEST(closed)
{
    struct bed b = bed_create();

    ck_assert_int_eq(end_step(&b), 1);
    ck_assert_int_eq(end_step(&b), 0);
    bed_free(&b);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("stream async");

    tcase_add_test(tc, room);
    tcase_add_loop_test(tc, paused, 0, 2);
    tcase_add_loop_test(tc, removed, 0, 2);
    tcase_add_test(tc, closed);
    return run_case("stream async", tc);
}

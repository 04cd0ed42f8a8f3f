/* check_stream_close.c - a writer that closes its stream tells the module its last step for sure.
 * The module is in this process, and does not always have time. */
#include "config.h"
#include <jansson.h>

#include "libflux/test/fake.h"
#include "libstream/stream.h"
#include "libutil/test/suite.h"

#define WRITTEN(id)    \
    "{\"writer\":" #id \
    ",\"step\":5,\"epoch\":1,\"paused\":false,\"limit\":0,\"readers\":[],\"gone\":[]}"

/* What the module says to each count that wants an answer. */
enum says { DONE, BUSY, RELOADED, UNKNOWN, REMOVED };

struct module {
    const enum says *script;
    size_t counts;
    json_int_t writer, step; /* of the last count, */
    bool failed;             /* and this */
};

static void answer_count(struct fake *f, size_t i)
{
    struct module *m = f->user;
    json_t *o = json_loads(flux_msg_json(f->sent[i]), 0, NULL);

    m->writer = json_integer_value(json_object_get(o, "writer"));
    m->step = json_integer_value(json_object_get(o, "step"));
    m->failed = json_is_true(json_object_get(o, "failed"));
    json_decref(o);
    switch (m->script[m->counts++]) {
    case DONE:
        fake_inbox(f, fake_answer(f, i, 0, 0, NULL));
        break;
    case BUSY:
        fake_inbox(f, fake_answer(f, i, EAGAIN, 0, "too many wait"));
        break;
    case RELOADED: /* another instance has got the request of the writer */
        fake_inbox(f, fake_answer(f, 0, 0, FLUX_MSGF_STREAMING, WRITTEN(9)));
        fake_inbox(f, fake_answer(f, i, ENOENT, 0, "no such writer"));
        break;
    case UNKNOWN:
        fake_inbox(f, fake_answer(f, i, ENOENT, 0, "no such writer"));
        break;
    case REMOVED:
        fake_inbox(f, fake_answer(f, 0, ECANCELED, 0, "the stream was removed"));
        fake_inbox(f, fake_answer(f, i, ENOENT, 0, "no such stream"));
        break;
    }
}

static void module_hook(struct fake *f, flux_msg_t *msg)
{
    const char *topic = flux_msg_topic(msg);

    fake_keep(f, msg);
    if (strcmp(topic, "stream.write") == 0)
        fake_inbox(f, fake_answer(f, 0, 0, FLUX_MSGF_STREAMING, WRITTEN(3)));
    else if (strcmp(topic, "stream.count") == 0 && !flux_msg_has_flag(msg, FLUX_MSGF_NORESPONSE))
        answer_count(f, f->nsent - 1);
}

/* Write two steps, the sixth and the seventh, begin another one, and close the stream. */
static void write_and_close(struct fake *f, struct module *m, bool fail, bool leave)
{
    const struct flux_stream_opts opts = {.transport = "ring"};
    flux_stream_t *s;
    errmsg_t err;
    char *at;

    f->user = m;
    f->hook = module_hook;
    s = flux_stream_open(f->h, "s", FLUX_STREAM_WRITE, &opts, &err);
    ck_assert_msg(s != NULL, "%s", err.text);
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(flux_stream_put(s, "x", "abc", 3, &err), 0);
        ck_assert_int_eq(flux_stream_end_step(s, 10., &err), 0);
    }
    ck_assert_int_eq(flux_stream_put(s, "x", NULL, 3, &err), 0);
    ck_assert(!flux_stream_lasting(s));
    ck_assert_int_eq(flux_stream_place(s, 10., &err), 0);
    ck_assert(flux_stream_lasting(s));
    at = flux_stream_at(s, "x");
    errno = ENXIO;
    if (fail)
        flux_stream_fail(s);
    if (leave) {
        size_t counts = m->counts;

        flux_stream_leave(s);
        ck_assert_uint_gt(m->counts, counts);
        memcpy(at, "abc", 3); /* still mapped */
    }
    flux_stream_close(s);
    ck_assert_int_eq(errno, ENXIO);
}

static const struct {
    enum says script[4];
    size_t counts;
    json_int_t writer;
} cases[] = {
    {{DONE}, 1, 3},           {{BUSY, DONE}, 2, 3},
    {{RELOADED, DONE}, 2, 9}, {{BUSY, RELOADED, BUSY, DONE}, 4, 9},
    {{UNKNOWN}, 1, 3},        {{REMOVED}, 1, 3},
};

START_TEST(counted)
{
    struct fake *f = fake_create();
    struct module m = {.script = cases[_i].script};

    write_and_close(f, &m, _i % 2 == 1, _i % 3 == 0);
    ck_assert(m.failed == (_i % 2 == 1));
    ck_assert_uint_eq(m.counts, cases[_i].counts);
    ck_assert_int_eq(m.writer, cases[_i].writer);
    ck_assert_int_eq(m.step, 7);
    ck_assert_uint_eq(f->inbox_first, f->inbox_count);
    /* it leaves after that, unless it was sent away */
    ck_assert_str_eq(flux_msg_topic(f->sent[f->nsent - 1]),
                     cases[_i].script[0] == REMOVED ? "stream.count" : "stream.cancel");
    fake_free(f);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("stream close");

    tcase_add_loop_test(tc, counted, 0, sizeof(cases) / sizeof(cases[0]));
    return run_case("stream close", tc);
}

/* check_sched_module.c - what the scheduler's module tells the job module, and takes from whom:
 * an instance on a handle of the test's own, of whose requests only resrc.watch is answered by
 * the tests. */
#include "config.h"
#include <stdio.h>

#include "libflux/test/fake.h"
#include "libutil/test/suite.h"
#include "modules/sched/sched_module.h"

extern const struct flux_module flux_module_sched;

#define FIRST (1u << 28 | 7) /* routes: who asks */
#define SECOND (1u << 28 | 8)
#define UPDATE                                                                                 \
    "{\"inventory\":{\"nodes\":[{\"ranks\":\"0-3\",\"hosts\":\"n[0-3]\",\"cores\":\"0-3\"}]}," \
    "\"up\":\"0-3\",\"drained\":\"\",\"version\":1}"

struct bed {
    struct fake f;
    struct ctx *ctx;
    flux_watcher_t *stop;
    flux_msg_t *watch; /* resrc.watch, to be answered */
    uint32_t tag;
    uint32_t roles;  /* of who asks; 0: a broker */
    int errnum;      /* of the last response, and what it says */
    char text[4096]; /* all responses to the first client since it was cleared */
    unsigned logged;
};

static void sent(struct fake *f, flux_msg_t *msg)
{
    struct bed *b = f->user;
    size_t len, have = strlen(b->text);

    if (flux_msg_type(msg) == FLUX_MSG_RESPONSE) {
        const char *text = flux_msg_payload(msg, &len);

        b->errnum = flux_msg_errnum(msg);
        snprintf(b->text + have, sizeof(b->text) - have, "%.*s\n", text ? (int)len : 0,
                 text ? text : "");
    } else if (strcmp(flux_msg_topic(msg), "resrc.watch") == 0) {
        ck_assert_ptr_null(b->watch);
        b->watch = msg;
        return;
    } else if (strcmp(flux_msg_topic(msg), "attr.get") == 0) {
        flux_handle_deliver(f->h, flux_msg_response_create(msg, ENOENT));
    } else {
        b->logged += strcmp(flux_msg_topic(msg), "log.append") == 0;
    }
    flux_msg_destroy(msg);
}

static void stop_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    flux_reactor_stop(r, 0);
}

/* Let it do what it has put off. */
static void settle(struct bed *b)
{
    flux_timer_start(b->stop, 0.01, 0.);
    flux_reactor_run(b->f.r);
}

static struct bed *bed_with(int argc, char **argv, errmsg_t *err)
{
    struct bed *b = calloc(1, sizeof(*b));
    void *ctx;

    (void)fake_ops;
    ck_assert_ptr_nonnull(b);
    b->f.user = b;
    b->f.hook = sent;
    b->errnum = -1;
    ck_assert_ptr_nonnull(b->f.r = flux_reactor_create(false));
    ck_assert_ptr_nonnull(b->f.h = flux_handle_create(&fake_nowait_ops, &b->f, b->f.r, 0, 4, 42));
    ck_assert_ptr_nonnull(b->stop = flux_timer_create(b->f.r, stop_cb, b));
    if (flux_module_sched.init(b->f.h, argc, argv, &ctx, err) == 0)
        b->ctx = ctx;
    return b;
}

static struct bed *bed_create(void)
{
    errmsg_t err = {""};
    struct bed *b = bed_with(0, NULL, &err);

    ck_assert_msg(b->ctx != NULL, "%s", err.text);
    settle(b);
    return b;
}

static void bed_free(struct bed *b)
{
    if (b->ctx)
        flux_module_sched.fini(b->f.h, b->ctx);
    flux_msg_destroy(b->watch);
    flux_watcher_destroy(b->stop);
    flux_close(b->f.h);
    flux_reactor_destroy(b->f.r);
    free(b);
}

/* The errno of the answer that came at once, -1: none.  `flags` of the request. */
static int ask(struct bed *b, uint32_t sender, const char *topic, unsigned flags, const char *json)
{
    flux_msg_t *msg = flux_msg_create(FLUX_MSG_REQUEST, topic);

    flux_msg_set_cred(msg, 0, b->roles ? b->roles : FLUX_ROLE_OWNER | FLUX_ROLE_BROKER);
    flux_msg_set_flags(msg, flags);
    flux_msg_set_matchtag(msg, ++b->tag);
    flux_msg_route_push(msg, sender);
    flux_msg_set_json(msg, json);
    b->errnum = -1;
    b->text[0] = '\0';
    flux_handle_deliver(b->f.h, msg);
    return b->errnum;
}

static uint32_t attach(struct bed *b, uint32_t sender)
{
    ck_assert_int_eq(ask(b, sender, "sched.attach", FLUX_MSGF_STREAMING, "{\"estimates\":10}"), 0);
    ck_assert_ptr_nonnull(strstr(b->text, "\"attached\":"));
    return b->tag;
}

static int feed(struct bed *b, uint32_t sender, uint64_t generation, const char *rest)
{
    char json[2048];

    snprintf(json, sizeof(json), "{\"generation\":%ju%s}", (uintmax_t)generation, rest);
    return ask(b, sender, "sched.feed", 0, json);
}

static int feed_job(struct bed *b, unsigned id, unsigned cores)
{
    char rest[300];

    snprintf(rest, sizeof(rest),
             ",\"add\":[{\"id\":%u,\"urgency\":16,\"t_submit\":1.0,\"uid\":0,"
             "\"req\":{\"nslots\":1,\"cores\":%u}}]",
             id, cores);
    return feed(b, FIRST, b->ctx->generation, rest);
}

/* The answer to resrc.watch, which is a stream unless it fails. */
static void resources(struct bed *b, int errnum, const char *json)
{
    flux_msg_t *resp;

    ck_assert_ptr_nonnull(b->watch);
    resp = flux_msg_response_create(b->watch, errnum);
    flux_msg_set_json(resp, json);
    if (errnum == 0) {
        flux_msg_set_flags(resp, FLUX_MSGF_STREAMING);
    } else {
        flux_msg_destroy(b->watch);
        b->watch = NULL;
    }
    flux_handle_deliver(b->f.h, resp);
    settle(b);
}

/* Wait until it asks. */
static void asks_again(struct bed *b)
{
    while (!b->watch)
        settle(b);
}

static size_t count(const struct bed *b, const char *word)
{
    size_t n = 0;

    for (const char *p = b->text; (p = strstr(p, word)); p += strlen(word))
        n++;
    return n;
}

static struct sched_stats stats(struct bed *b)
{
    struct sched_stats st;

    sched_get_stats(b->ctx->s, &st);
    return st;
}

/* Who may feed, and what ends that. */
START_TEST(attached)
{
    struct bed *b = bed_create();
    char cancel[64];
    uint32_t tag;

    ck_assert_int_eq(feed(b, FIRST, 1, ""), ENOTCONN);
    ck_assert_int_eq(ask(b, FIRST, "sched.attach", 0, "{}"), EPROTO);
    tag = attach(b, FIRST);
    ck_assert_int_eq(feed(b, SECOND, b->ctx->generation, ""), EPERM);
    ck_assert_int_eq(feed_job(b, 1, 1), 0);
    ck_assert_uint_eq(stats(b).queued, 1);
    /* What an earlier instance of the job module said does not count. */
    ck_assert_int_eq(feed(b, FIRST, b->ctx->generation + 1, ",\"remove\":[1]"), 0);
    ck_assert_uint_eq(stats(b).queued, 1);
    /* Another's cancel, another tag, nonsense. */
    snprintf(cancel, sizeof(cancel), "{\"matchtag\":%u}", tag);
    ck_assert_int_eq(ask(b, SECOND, "sched.cancel", FLUX_MSGF_NORESPONSE, cancel), -1);
    ck_assert_int_eq(ask(b, FIRST, "sched.cancel", FLUX_MSGF_NORESPONSE, "{\"matchtag\":99}"), -1);
    ck_assert_int_eq(ask(b, FIRST, "sched.cancel", 0, "{\"matchtag\":\"x\"}"), EPROTO);
    ask(b, SECOND, "sched.disconnect", FLUX_MSGF_NORESPONSE, "{}");
    ck_assert_ptr_nonnull(b->ctx->attach);
    ck_assert_uint_eq(stats(b).queued, 1);
    ck_assert_int_eq(ask(b, FIRST, "sched.cancel", FLUX_MSGF_NORESPONSE, cancel), ENODATA);
    ck_assert_ptr_null(b->ctx->attach);
    ck_assert_uint_eq(stats(b).queued, 0);
    /* The second one that attaches ends the stream of the first. */
    attach(b, FIRST);
    ck_assert_int_eq(ask(b, SECOND, "sched.attach", FLUX_MSGF_STREAMING, "{}"), 0);
    ck_assert_ptr_nonnull(strstr(b->text, "another job module has attached"));
    ck_assert_int_eq(feed(b, FIRST, b->ctx->generation, ""), EPERM);
    ask(b, SECOND, "sched.disconnect", FLUX_MSGF_NORESPONSE, "{}");
    ck_assert_ptr_null(b->ctx->attach);
    bed_free(b);
}
END_TEST

/* How many estimates are told is bounded, whatever is asked for. */
START_TEST(estimates_bounded)
{
    struct bed *b = bed_create();

    ck_assert_int_eq(
        ask(b, FIRST, "sched.attach", FLUX_MSGF_STREAMING, "{\"estimates\":4294967295}"), 0);
    ck_assert_uint_eq(b->ctx->estimates, 1000);
    ck_assert_int_eq(ask(b, FIRST, "sched.attach", FLUX_MSGF_STREAMING, "{\"estimates\":3}"), 0);
    ck_assert_uint_eq(b->ctx->estimates, 3);
    bed_free(b);
}
END_TEST

/* Estimates are told when they have changed, and all of them when the wall clock was set. */
START_TEST(estimates_changed)
{
    struct bed *b = bed_create();

    resources(b, 0, UPDATE);
    attach(b, FIRST);
    ck_assert(!flux_watcher_active(b->ctx->estimate_timer));
    ck_assert_int_eq(feed_job(b, 1, 4), 0);
    ck_assert(flux_watcher_active(b->ctx->estimate_timer));
    ck_assert_int_eq(feed_job(b, 2, 4), 0);
    b->text[0] = '\0';
    sched_feed_estimates(b->ctx);
    ck_assert_ptr_nonnull(strstr(b->text, "\"estimate\":[[1,"));
    ck_assert_uint_eq(b->ctx->nsent, 2);
    b->text[0] = '\0';
    sched_feed_estimates(b->ctx);
    ck_assert_str_eq(b->text, "");
    b->ctx->sent_shift += 100.;
    sched_feed_estimates(b->ctx);
    ck_assert_ptr_nonnull(strstr(b->text, "\"estimate\":[[1,"));
    ck_assert_uint_eq(b->ctx->nsent, 2);
    b->text[0] = '\0';
    ck_assert_int_eq(feed_job(b, 3, 4), 0);
    b->text[0] = '\0';
    sched_feed_estimates(b->ctx);
    ck_assert_ptr_nonnull(strstr(b->text, "\"estimate\":[[3,"));
    /* An allocation changes what others can expect. */
    flux_watcher_stop(b->ctx->estimate_timer);
    ck_assert_int_eq(feed(b, FIRST, b->ctx->generation, ",\"enabled\":true"), 0);
    flux_watcher_stop(b->ctx->estimate_timer);
    b->text[0] = '\0';
    settle(b);
    ck_assert_uint_eq(count(b, "\"R\":"), 3);
    ck_assert(flux_watcher_active(b->ctx->estimate_timer));
    bed_free(b);
}
END_TEST

/* Answers that could not be written down: it begins anew, once, and goes on. */
START_TEST(begins_anew)
{
    struct bed *b = bed_create();
    uint64_t generation;

    resources(b, 0, UPDATE);
    attach(b, FIRST);
    generation = b->ctx->generation;
    ck_assert_int_eq(feed_job(b, 1, 1), 0);
    b->ctx->broken = true;
    b->text[0] = '\0';
    sched_feed_answer(b->ctx);
    ck_assert_uint_eq(b->logged, 1);
    ck_assert_uint_ne(b->ctx->generation, generation);
    ck_assert_uint_eq(count(b, "\"attached\":"), 1);
    ck_assert_uint_eq(stats(b).queued, 0);
    ck_assert(!b->ctx->broken && !b->ctx->enabled);
    sched_feed_answer(b->ctx);
    ck_assert_uint_eq(b->logged, 1);
    ck_assert_int_eq(feed_job(b, 1, 1), 0);
    ck_assert_int_eq(feed(b, FIRST, b->ctx->generation, ",\"enabled\":true"), 0);
    settle(b);
    ck_assert_uint_eq(count(b, "\"R\":"), 1);
    bed_free(b);
}
END_TEST

/* A job that is there already is said, and no reason to forget the others. */
START_TEST(job_twice)
{
    struct bed *b = bed_create();
    uint64_t generation;

    attach(b, FIRST);
    generation = b->ctx->generation;
    ck_assert_int_eq(feed_job(b, 1, 1), 0);
    ck_assert_uint_eq(b->logged, 0);
    ck_assert_int_eq(feed_job(b, 1, 1), 0);
    ck_assert_uint_eq(b->logged, 1);
    ck_assert_uint_eq(stats(b).queued, 1);
    ck_assert_uint_eq(b->ctx->generation, generation);
    ck_assert_int_eq(feed(b, FIRST, generation, ",\"remove\":[\"x\"]"), EPROTO);
    ck_assert_uint_eq(b->ctx->refused_feeds, 1);
    bed_free(b);
}
END_TEST

/* While nobody tells what is up, nothing is started; it is asked for again. */
START_TEST(resources_unknown)
{
    struct bed *b = bed_create();

    resources(b, 0, UPDATE);
    ck_assert_uint_eq(stats(b).nodes_up, 4);
    resources(b, ENOSYS, "no resrc");
    ck_assert_uint_eq(stats(b).nodes, 4);
    ck_assert_uint_eq(stats(b).nodes_up, 0);
    ck_assert_uint_eq(b->logged, 0);
    attach(b, FIRST);
    ck_assert_int_eq(feed_job(b, 1, 1), 0);
    ck_assert_int_eq(feed(b, FIRST, b->ctx->generation, ",\"enabled\":true"), 0);
    settle(b);
    ck_assert_uint_eq(count(b, "\"R\":"), 0);
    for (int i = 0; i < 5; i++) {
        asks_again(b);
        resources(b, ENOSYS, "no resrc");
        ck_assert_uint_eq(b->logged, i >= 3); /* once, when it has failed five times */
    }
    asks_again(b);
    b->text[0] = '\0';
    resources(b, 0, UPDATE);
    ck_assert(!b->ctx->watch_failed);
    ck_assert_uint_eq(count(b, "\"R\":"), 1);
    bed_free(b);
}
END_TEST

/* Another user may look, and no more, whatever is sent. */
START_TEST(guests)
{
    static const char *const payloads[] = {
        "7", "[1,2]", "null", "{}", "{\"no such field\":1}", "{\"", "{\"expiration\":0}"};
    static const char *const owners[] = {"sched.attach", "sched.feed", "sched.policy",
                                         "sched.expiration", "sched.disconnect"};
    static const char *const anybodys[] = {"sched.status", "sched.stats", "sched.resources"};
    struct bed *b = bed_create();
    uint64_t generation;

    attach(b, FIRST);
    generation = b->ctx->generation;
    ck_assert_int_eq(feed_job(b, 1, 1), 0);
    b->roles = FLUX_ROLE_USER;
    for (size_t i = 0; i < sizeof(payloads) / sizeof(payloads[0]); i++) {
        for (size_t k = 0; k < sizeof(owners) / sizeof(owners[0]); k++) {
            ck_assert_int_eq(ask(b, FIRST, owners[k], 0, payloads[i]), EPERM);
            ck_assert_int_eq(ask(b, FIRST, owners[k], FLUX_MSGF_STREAMING, payloads[i]), EPERM);
            ck_assert_int_eq(ask(b, FIRST, owners[k], FLUX_MSGF_NORESPONSE, payloads[i]), -1);
        }
        for (size_t k = 0; k < sizeof(anybodys) / sizeof(anybodys[0]); k++)
            ck_assert_int_eq(ask(b, SECOND, anybodys[k], 0, payloads[i]), 0);
        ck_assert_int_eq(ask(b, SECOND, "sched.cancel", 0, payloads[i]), EPROTO);
        ck_assert_int_eq(ask(b, SECOND, "sched.why", 0, payloads[i]), EPROTO);
    }
    ck_assert_ptr_nonnull(b->ctx->attach);
    ck_assert_uint_eq(b->ctx->generation, generation);
    ck_assert_uint_eq(stats(b).queued, 1);
    bed_free(b);
}
END_TEST

/* When the resources go. */
START_TEST(expiration)
{
    static char *bad[] = {(char *)"expiration=1h", (char *)"expiration=", (char *)"expiration=-1"};
    static char good[] = "expiration=4000000000";
    char *argv[] = {good};
    errmsg_t err = {""};
    struct bed *b;

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        b = bed_with(1, &bad[i], &err);
        ck_assert_ptr_null(b->ctx);
        ck_assert_int_eq(errno, EINVAL);
        ck_assert_ptr_nonnull(strstr(err.text, "is not a time in seconds since 1970"));
        bed_free(b);
    }
    b = bed_with(1, argv, &err);
    ck_assert_ptr_nonnull(b->ctx);
    ck_assert(sched_policies_expiration(b->ctx) == 4000000000.);
    ck_assert_int_eq(ask(b, FIRST, "sched.expiration", 0, "{\"expiration\":0}"), 0);
    ck_assert(sched_policies_expiration(b->ctx) == 0.);
    /* Long ago is not never. */
    ck_assert_int_eq(ask(b, FIRST, "sched.expiration", 0, "{\"expiration\":1000}"), 0);
    ck_assert(sched_expiration(b->ctx->s) > 0.);
    ck_assert_int_eq(ask(b, FIRST, "sched.expiration", 0, "{\"expiration\":-1}"), EINVAL);
    bed_free(b);
}
END_TEST

int main(void)
{
    RUN_SUITE("sched_module", attached, estimates_bounded, estimates_changed, begins_anew,
              job_twice, resources_unknown, guests, expiration);
}

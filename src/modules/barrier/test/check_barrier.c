/* check_barrier.c - what the barrier module does when events were lost, of which ranks it knows,
 * and what counts when brokers between die: an instance on a handle of the test's own. */
#include "config.h"
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "libflux/module.h"
#include "libflux/route.h"
#include "libflux/test/fake.h"
#include "libflux/test/sparing.h"
#include "libutil/test/steps.h"
#include "libutil/test/suite.h"

extern const struct flux_module flux_module_barrier;

struct bed {
    struct fake f;
    void *ctx;
    flux_watcher_t *stop;
    int errnum; /* of the last response to a participant, -1: none */
    char text[256];
    flux_msg_t *asked; /* overlay.status, to be answered */
    unsigned aborted;  /* responses that a participant went away, */
    unsigned until;    /* of which this many end the run */
    bool ends;         /* the list ends the run */
    unsigned pages;
    size_t listed;
    flux_msg_t *join; /* barrier.join, to be answered */
    unsigned joins;
    char done[80];  /* the last release */
    char said[200]; /* in the last barrier.join or barrier.abort */
};

static void sent(struct fake *f, flux_msg_t *msg)
{
    struct bed *b = f->user;
    size_t len;

    if (flux_msg_type(msg) == FLUX_MSG_RESPONSE) {
        const char *text = flux_msg_payload(msg, &len);
        b->errnum = flux_msg_errnum(msg);
        if (flux_msg_has_flag(msg, FLUX_MSGF_STREAMING)) {
            b->pages++;
            for (const char *p = text; (p = strstr(p, "\"nprocs\":3,\"entered\":1,")); p++)
                b->listed++;
        }
        if (text && strstr(text, "\"done\":true"))
            snprintf(b->done, sizeof(b->done), "%s", text);
        b->aborted += text && strstr(text, "a participant of rank 0 went away");
        if (b->ends ? b->errnum == ENODATA : b->until && b->aborted == b->until)
            flux_reactor_stop(b->f.r, 0);
        snprintf(b->text, sizeof(b->text), "%.*s", text ? (int)len : 0, text ? text : "");
    } else if (strcmp(flux_msg_topic(msg), "overlay.status") == 0) {
        ck_assert_ptr_null(b->asked);
        b->asked = msg;
        return;
    } else if (strcmp(flux_msg_topic(msg), "barrier.join") == 0) {
        snprintf(b->said, sizeof(b->said), "%s", flux_msg_json(msg));
        flux_msg_destroy(b->join);
        b->join = msg;
        b->joins++;
        return;
    } else if (strcmp(flux_msg_topic(msg), "barrier.abort") == 0) {
        snprintf(b->said, sizeof(b->said), "%s", flux_msg_json(msg));
    }
    flux_msg_destroy(msg);
}

static void sent_sparing(struct fake *f, flux_msg_t *msg)
{
    sparing++;
    sent(f, msg);
    sparing--;
}

static void stop_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    flux_reactor_stop(r, 0);
}

static struct bed *bed_create_at(uint32_t rank)
{
    struct bed *b = calloc(1, sizeof(*b));
    errmsg_t err;

    ck_assert_ptr_nonnull(b);
    b->f.user = b;
    b->f.hook = sent_sparing;
    b->errnum = -1;
    ck_assert_ptr_nonnull(b->f.r = flux_reactor_create(false));
    ck_assert_ptr_nonnull(b->f.h =
                              flux_handle_create(&fake_nowait_ops, &b->f, b->f.r, rank, 8, 42));
    (void)fake_ops;
    ck_assert_ptr_nonnull(b->stop = flux_timer_create(b->f.r, stop_cb, b));
    ck_assert_int_eq(flux_module_barrier.init(b->f.h, 0, NULL, &b->ctx, &err), 0);
    return b;
}

static struct bed *bed_create(void)
{
    return bed_create_at(0);
}

static void bed_free(struct bed *b)
{
    flux_module_barrier.fini(b->f.h, b->ctx);
    flux_msg_destroy(b->asked);
    flux_msg_destroy(b->join);
    flux_watcher_destroy(b->stop);
    flux_close(b->f.h);
    flux_reactor_destroy(b->f.r);
    free(b->f.sent);
    free(b);
}

static void ask(struct bed *b, const char *topic, uint32_t sender, uint32_t roles, const char *json)
{
    flux_msg_t *msg = flux_msg_create(FLUX_MSG_REQUEST, topic);
    static uint32_t tag;

    flux_msg_set_cred(msg, 0, roles);
    flux_msg_set_matchtag(msg, ++tag);
    flux_msg_route_push(msg, sender);
    flux_msg_set_json(msg, json);
    b->errnum = -1;
    flux_handle_deliver(b->f.h, msg);
}

static void event(struct bed *b, const char *topic, const char *json)
{
    flux_msg_t *msg = flux_msg_create(FLUX_MSG_EVENT, topic);

    flux_msg_set_json(msg, json);
    flux_handle_deliver(b->f.h, msg);
}

/* What overlay.status says when it is asked. */
static void lost_ranks(struct bed *b, const char *lost)
{
    char json[300];
    flux_msg_t *resp;

    ck_assert_ptr_nonnull(b->asked);
    resp = flux_msg_response_create(b->asked, 0);
    flux_msg_destroy(b->asked);
    b->asked = NULL;
    snprintf(json, sizeof(json),
             "{\"rank\":0,\"size\":4,\"state\":\"up\",\"up\":\"0-1,3\",\"lost\":\"%s\","
             "\"topology\":\"kary:2\"}",
             lost);
    flux_msg_set_json(resp, json);
    flux_handle_deliver(b->f.h, resp);
    flux_timer_start(b->stop, 0.005, 0.);
    flux_reactor_run(b->f.r);
}

#define CLIENT (1u << 28 | 7)

/* The list has n barriers of three, with one participant each. */
static void list(struct bed *b, size_t n)
{
    flux_msg_t *msg = flux_msg_create(FLUX_MSG_REQUEST, "barrier.list");

    flux_msg_set_cred(msg, 0, FLUX_ROLE_OWNER);
    flux_msg_set_matchtag(msg, 1u << 20);
    flux_msg_route_push(msg, CLIENT + 2);
    flux_msg_set_flags(msg, FLUX_MSGF_STREAMING);
    b->listed = 0;
    b->ends = true;
    flux_handle_deliver(b->f.h, msg);
    flux_reactor_run(b->f.r);
    ck_assert_uint_eq(b->listed, n);
}

/* The event that told of the loss of a rank is one of those that were lost. */
START_TEST(loss_unheard)
{
    struct bed *b = bed_create();

    ask(b, "barrier.enter", CLIENT, FLUX_ROLE_OWNER,
        "{\"name\":\"x\",\"nprocs\":4,\"ranks\":\"0-3\"}");
    event(b, "event.lost", "{\"from\":3,\"to\":7}");
    lost_ranks(b, "");
    ck_assert_int_eq(b->errnum, -1);
    event(b, "event.lost", "{\"from\":8,\"to\":9}");
    lost_ranks(b, "2");
    ck_assert_int_eq(b->errnum, ECONNABORTED);
    ck_assert_ptr_nonnull(strstr(b->text, "rank 2 is lost"));
    bed_free(b);
}
END_TEST

/* Ranks are those that the participants name, here or below. */
START_TEST(ranks_of_participants)
{
    struct bed *b = bed_create();
    const uint32_t owner = FLUX_ROLE_OWNER;

    ask(b, "barrier.enter", CLIENT, owner, "{\"name\":\"x\",\"nprocs\":3,\"ranks\":\"0-1\"}");
    event(b, "overlay.down", "{\"ranks\":\"3\"}");
    ck_assert_int_eq(b->errnum, -1);
    ask(b, "barrier.join", 1, FLUX_ROLE_BROKER,
        "{\"name\":\"x\",\"nprocs\":3,\"seq\":1,\"after\":0,\"entries\":\"1:1\","
        "\"ranks\":\"2-3\"}");
    ck_assert_int_eq(b->errnum, ECONNABORTED);
    ck_assert_ptr_nonnull(strstr(b->text, "rank 3 is lost"));
    ask(b, "barrier.enter", CLIENT, owner, "{\"name\":\"x\",\"nprocs\":3,\"ranks\":\"3\"}");
    ck_assert_int_eq(b->errnum, ECONNABORTED);
    ask(b, "barrier.enter", CLIENT, owner, "{\"name\":\"x\",\"nprocs\":1,\"ranks\":\"0\"}");
    ck_assert_int_eq(b->errnum, 0);
    ask(b, "barrier.enter", CLIENT, owner, "{\"name\":\"x\",\"nprocs\":1,\"ranks\":\"8\"}");
    ck_assert_int_eq(b->errnum, EINVAL);
    ask(b, "barrier.enter", CLIENT, owner, "{\"name\":\"x\",\"nprocs\":1,\"ranks\":\"a\"}");
    ck_assert_int_eq(b->errnum, EINVAL);
    bed_free(b);
}
END_TEST

/* Who goes away takes down the barriers that it has entered, and no others. */
START_TEST(participant_gone)
{
    struct bed *b = bed_create();
    const uint32_t owner = FLUX_ROLE_OWNER;

    ask(b, "barrier.enter", CLIENT, owner, "{\"name\":\"x\",\"nprocs\":3,\"ranks\":\"0\"}");
    ask(b, "barrier.enter", CLIENT, owner, "{\"name\":\"y\",\"nprocs\":3,\"ranks\":\"0\"}");
    ask(b, "barrier.enter", CLIENT + 1, owner, "{\"name\":\"z\",\"nprocs\":3,\"ranks\":\"0\"}");
    ask(b, "barrier.disconnect", CLIENT, FLUX_ROLE_BROKER, "{}");
    /* They have failed before their names are used again. */
    ask(b, "barrier.enter", CLIENT + 1, owner, "{\"name\":\"x\",\"nprocs\":1,\"ranks\":\"0\"}");
    ck_assert_int_eq(b->errnum, 0);
    list(b, 1);
    ck_assert_uint_eq(b->aborted, 2);
    bed_free(b);
}
END_TEST

/* A long list has several pages. */
START_TEST(list_slices)
{
    enum { MANY = 3000 };
    struct bed *b = bed_create();
    char json[80];

    list(b, 0);
    ck_assert_uint_eq(b->pages, 1);
    for (int i = 0; i < MANY; i++) {
        snprintf(json, sizeof(json), "{\"name\":\"b%d\",\"nprocs\":3,\"ranks\":\"0\"}", i);
        ask(b, "barrier.enter", CLIENT, FLUX_ROLE_OWNER, json);
    }
    b->pages = 0;
    step_ns = 500000;
    list(b, MANY);
    step_ns = 0;
    ck_assert_uint_gt(b->pages, MANY / 100);
    /* Its end fails them all, in slices. */
    step_ns = 500000;
    ask(b, "barrier.disconnect", CLIENT, FLUX_ROLE_BROKER, "{}");
    ck_assert_uint_eq(b->aborted, 0);
    list(b, 0);
    ck_assert_uint_lt(b->aborted, MANY);
    step_ns = 0;
    b->ends = false;
    b->until = MANY;
    flux_reactor_run(b->f.r);
    ck_assert_uint_eq(b->aborted, MANY);
    bed_free(b);
}
END_TEST

/* --- instances below, and brokers between that die --- */

/* The instance at this rank, below this one, asks. */
static void ask_from(struct bed *b, uint32_t rank, const char *topic, const char *json)
{
    flux_msg_t *msg = flux_msg_create(FLUX_MSG_REQUEST, topic);
    static uint32_t tag;

    flux_msg_set_cred(msg, 0, FLUX_ROLE_BROKER);
    flux_msg_set_matchtag(msg, ++tag);
    flux_msg_route_push(msg, CLIENT + 10);
    flux_msg_route_push(msg, flux_route_make(FLUX_ROUTE_TREE, rank));
    flux_msg_set_json(msg, json);
    b->errnum = -1;
    flux_handle_deliver(b->f.h, msg);
}

static void join(struct bed *b, uint32_t rank, unsigned seq, unsigned after, const char *entries)
{
    char json[200];

    snprintf(json, sizeof(json),
             "{\"name\":\"x\",\"nprocs\":4,\"seq\":%u,\"after\":%u,\"entries\":\"%s\","
             "\"ranks\":\"0,2-3\"}",
             seq, after, entries);
    ask_from(b, rank, "barrier.join", json);
}

static void enter(struct bed *b, uint32_t client)
{
    ask(b, "barrier.enter", CLIENT + client, FLUX_ROLE_OWNER,
        "{\"name\":\"x\",\"nprocs\":4,\"ranks\":\"0,2-3\"}");
}

static void expect_done(struct bed *b, const char *use)
{
    ck_assert_int_eq(b->errnum, 0);
    ck_assert_msg(strstr(b->done, use) != NULL, "'%s' is not in: %s", use, b->done);
    b->done[0] = '\0';
}

static void expect_text(struct bed *b, int errnum, const char *says)
{
    ck_assert_int_eq(b->errnum, errnum);
    ck_assert_msg(strstr(b->text, says) != NULL, "'%s' is not in: %s", says, b->text);
}

/* Rank 1 dies, which has reported entries at ranks 2 and 3; these report again, and count once. */
START_TEST(reported_again)
{
    struct bed *b = bed_create();

    enter(b, 0);
    join(b, 1, 1, 0, "2:1");
    join(b, 1, 2, 0, "3:1");
    expect_text(b, 0, "false");
    ask_from(b, 1, "barrier.disconnect", "{}");
    ck_assert_int_eq(b->errnum, -1);
    join(b, 2, 2, 0, "2:1");
    join(b, 3, 2, 0, "3:1");
    ck_assert_int_eq(b->errnum, -1);
    join(b, 3, 3, 0, "2:1,3:1"); /* nothing of this is new */
    expect_text(b, 0, "false");
    enter(b, 1);
    expect_done(b, "\"use\":1");
    bed_free(b);
}
END_TEST

/* The loss of the broker between fails nothing; that of a rank where a participant has entered
 * does, and names it. */
START_TEST(between_or_not)
{
    struct bed *b = bed_create();

    enter(b, 0);
    join(b, 1, 1, 0, "2-3:1");
    ask_from(b, 1, "barrier.disconnect", "{}");
    event(b, "overlay.down", "{\"ranks\":\"4\"}");
    ck_assert_int_eq(b->errnum, -1);
    event(b, "overlay.down", "{\"ranks\":\"3\"}");
    expect_text(b, ECONNABORTED, "rank 3 is lost");
    /* Rank 2 has not heard of that, and comes by another way. */
    join(b, 2, 2, 0, "2:1");
    expect_text(b, ECONNABORTED, "rank 3 is lost");
    bed_free(b);
}
END_TEST

/* The release was under way through the broker that died. */
START_TEST(release_unheard)
{
    struct bed *b = bed_create();

    enter(b, 0);
    enter(b, 1);
    join(b, 1, 1, 0, "2-3:1");
    expect_done(b, "\"use\":1");
    ask_from(b, 1, "barrier.disconnect", "{}");
    enter(b, 0); /* the next use of the name has begun here */
    join(b, 2, 2, 0, "2:1");
    expect_done(b, "\"use\":1");
    /* Rank 3 has heard of it, and joins the next one. */
    join(b, 3, 2, 1, "3:1");
    ck_assert_int_eq(b->errnum, -1);
    join(b, 2, 1, 1, "2:1");
    ck_assert_int_eq(b->errnum, -1);
    enter(b, 1);
    expect_done(b, "\"use\":2");
    bed_free(b);
}
END_TEST

/* What was reported only to the broker that died begins here. */
START_TEST(never_reported)
{
    struct bed *b = bed_create();

    join(b, 2, 3, 0, "2:2");
    ck_assert_int_eq(b->errnum, -1);
    enter(b, 0);
    enter(b, 1);
    expect_done(b, "\"use\":1");
    /* A participant there leaves, whose entry has come by the broker that died. */
    join(b, 1, 1, 1, "2-3:1");
    ask_from(b, 1, "barrier.disconnect", "{}");
    enter(b, 0);
    ck_assert_int_eq(b->errnum, -1);
    ask_from(b, 3, "barrier.abort",
             "{\"name\":\"x\",\"errnum\":103,\"reason\":\"it left\",\"ranks\":\"3\"}");
    ck_assert_int_eq(b->errnum, 0); /* the abort */
    join(b, 2, 2, 1, "2:1");
    expect_text(b, ECONNABORTED, "it left");
    bed_free(b);
}
END_TEST

static void leaves(struct bed *b, uint32_t rank, unsigned after, const char *why)
{
    char entries[20], json[200];

    snprintf(entries, sizeof(entries), "%u:1", rank);
    join(b, rank, 1, after, entries);
    snprintf(json, sizeof(json),
             "{\"name\":\"x\",\"errnum\":103,\"reason\":\"%s\",\"ranks\":\"%u\"}", why, rank);
    ask_from(b, rank, "barrier.abort", json);
}

/* A join is on its way while two uses of the name end: it belongs to the first one, and begins
 * none. */
START_TEST(ended_before)
{
    struct bed *b = bed_create();

    join(b, 2, 1, 0, "2:1");
    leaves(b, 3, 0, "the first has failed");
    leaves(b, 4, 0, "the second has failed");
    join(b, 2, 2, 0, "2:2");
    expect_text(b, ECONNABORTED, "the first has failed");
    for (unsigned after = 2; after < 12; after++)
        leaves(b, 4, after, "later ones, too");
    leaves(b, 5, 0, "and another one");
    join(b, 4, 2, 2, "4:2");
    expect_text(b, ECONNABORTED, "later ones, too");
    join(b, 2, 3, 0, "2:3");
    expect_text(b, ECONNABORTED, "the first has failed");
    /* The number of ends of a name that are stored is limited. */
    for (unsigned rank = 6; rank < 14; rank++)
        leaves(b, rank, 20, "of others");
    join(b, 2, 4, 0, "2:3");
    ck_assert_int_eq(b->errnum, -1);
    bed_free(b);
}
END_TEST

static void not_entries(struct bed *b, const char *text)
{
    join(b, 2, 1, 0, text);
    expect_text(b, ECONNABORTED, "does not say who has entered");
}

START_TEST(bad_entries)
{
    static const char *const bad[] = {"1",    "1:",       "1:0",     ":1",      "2-1:1",
                                      "1:1,", "8:1",      "1:1;2:1", "1-:1",    "x",
                                      "-1:1", "1:1,,2:1", "1: 1",    "1-2-3:1", "0-99:1",
                                      "1:x",  "1:1x",     ",1:1",    "1:-1",    "1:4294967297"};

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct bed *b = bed_create();
        not_entries(b, bad[i]);
        bed_free(b);
    }
}
END_TEST

/* The largest number is read, and is more than there are participants. */
START_TEST(largest_number)
{
    struct bed *b = bed_create();

    join(b, 1, 1, 0, "1:2147483647");
    ck_assert_int_eq(b->errnum, EINVAL);
    ck_assert_ptr_nonnull(strstr(b->text, "more than its 4 participants"));
    bed_free(b);
}
END_TEST

/* --- an instance that is not the root's --- */

static void turn(struct bed *b)
{
    flux_timer_start(b->stop, 0., 0.);
    flux_reactor_run(b->f.r);
}

static void refuse_join(struct bed *b, int errnum, const char *why)
{
    flux_msg_t *resp = flux_msg_response_create(b->join, errnum);

    flux_msg_set_json(resp, why);
    flux_msg_destroy(b->join);
    b->join = NULL;
    flux_handle_deliver(b->f.h, resp);
    turn(b);
}

static void unreachable(struct bed *b)
{
    refuse_join(b, EHOSTUNREACH, "rank 1 was lost");
}

static void respond(struct bed *b, const flux_msg_t *join, const char *json)
{
    flux_msg_t *resp = flux_msg_response_create(join, 0);

    flux_msg_set_json(resp, json);
    flux_handle_deliver(b->f.h, resp);
    turn(b);
}

/* It reports again all that it knows, as often as ranks move, but not for ever. */
START_TEST(parent_lost)
{
    struct bed *b = bed_create_at(3);
    unsigned n;

    enter(b, 0);
    turn(b);
    ck_assert_ptr_nonnull(strstr(b->said, "\"entries\":\"3:1\""));
    join(b, 7, 1, 0, "7:2");
    turn(b);
    ck_assert_uint_eq(b->joins, 2);
    ck_assert_ptr_nonnull(strstr(b->said, "\"entries\":\"7:2\""));
    unreachable(b);
    ck_assert_uint_eq(b->joins, 3);
    ck_assert_ptr_nonnull(strstr(b->said, "\"entries\":\"3:1,7:2\""));
    for (unsigned i = 0; i < 10; i++) {
        event(b, "overlay.moved", "{\"rank\":3,\"parent\":0,\"move\":65537,\"map\":9}");
        for (unsigned k = 0; k < 5; k++)
            unreachable(b);
    }
    ck_assert_uint_eq(b->joins, 53);
    b->errnum = -1;
    for (n = 0; n < 100 && b->errnum < 0; n++)
        unreachable(b);
    ck_assert_uint_lt(n, 100);
    expect_text(b, ECONNABORTED, "rank 1 was lost");
    bed_free(b);
}
END_TEST

/* A broker on the way answers, and those above, who have heard of entries before, are told. */
START_TEST(refused_on_the_way)
{
    struct bed *b = bed_create_at(3);

    enter(b, 0);
    turn(b);
    ck_assert_uint_eq(b->joins, 1);
    b->errnum = -1;
    refuse_join(b, ENOMEM, "the broker of rank 1 is out of memory");
    expect_text(b, ECONNABORTED, "the broker of rank 1 is out of memory");
    ck_assert_ptr_nonnull(strstr(b->said, "\"ranks\":\"3\""));
    ck_assert_ptr_nonnull(strstr(b->said, "\"errnum\":103"));
    bed_free(b);
}
END_TEST

/* One allocation fails while a participant enters, or is reported again: it waits, and those above
 * know of it, or it has an error, and those above know of that.  With memory again, the next
 * barrier of this name is as any other.  Returns false if nothing has failed. */
static bool report_without_memory(unsigned k)
{
    struct bed *b = bed_create_at(3);
    unsigned left;

    fail_at = k;
    enter(b, 0);
    turn(b);
    if (b->join)
        unreachable(b);
    left = stop_failing();
    turn(b);
    if (b->errnum < 0) {
        ck_assert_msg(b->join && strstr(b->said, "\"entries\":\"3:1\""), "allocation %u: %s", k,
                      b->said);
    } else {
        ck_assert_msg(b->errnum == ENOMEM || b->errnum == ECONNABORTED, "allocation %u: error %d",
                      k, b->errnum);
        ck_assert_msg(b->joins == 0 || strstr(b->said, "\"reason\""), "allocation %u: %s", k,
                      b->said);
        flux_msg_destroy(b->join);
        b->join = NULL;
        enter(b, 1);
        turn(b);
        ck_assert_msg(b->join != NULL, "allocation %u: error %d", k, b->errnum);
    }
    respond(b, b->join, "{\"done\":true,\"use\":2}");
    ck_assert_msg(b->errnum == 0, "allocation %u: error %d: %s", k, b->errnum, b->text);
    bed_free(b);
    return left == 0;
}

START_TEST(no_memory_to_report)
{
    unsigned k = 1;

    while (report_without_memory(k))
        k++;
    ck_assert_uint_gt(k, 20); /* that many are made */
}
END_TEST

/* Without the instance the participants get errors: those elsewhere hear of it, unless another one
 * follows it. */
START_TEST(stopped)
{
    for (int reload = 0; reload <= 1; reload++) {
        struct bed *b = bed_create_at(3);
        errmsg_t err;

        enter(b, 0);
        turn(b);
        b->said[0] = '\0';
        if (reload)
            ck_assert_int_eq(flux_module_barrier.hand_over(b->f.h, b->ctx, NULL, &err), 0);
        ck_assert(flux_module_barrier.stop(b->f.h, b->ctx));
        ck_assert_int_eq(strstr(b->said, "barrier was stopped at rank 3") != NULL, !reload);
        bed_free(b);
    }
}
END_TEST

/* --- a subtree returns to its place --- */

/* The instance of rank 3 reports by another way, while the earlier one still has a join of it that
 * is answered at the end: two more joins may wait, and one release ends it all. */
START_TEST(other_way)
{
    struct bed *b = bed_create_at(3);
    flux_msg_t *first;

    enter(b, 0);
    turn(b);
    ck_assert_uint_eq(b->joins, 1);
    first = flux_msg_incref(b->join);
    join(b, 7, 1, 0, "7:1");
    turn(b);
    join(b, 7, 2, 0, "6:1");
    turn(b);
    ck_assert_uint_eq(b->joins, 2); /* more would be too many */
    event(b, "overlay.moved", "{\"rank\":3,\"parent\":1,\"move\":65537,\"map\":9}");
    turn(b);
    ck_assert_uint_eq(b->joins, 3);
    ck_assert_ptr_nonnull(strstr(b->said, "\"entries\":\"6:1\""));
    b->errnum = -1;
    respond(b, first, "{\"done\":true,\"use\":1}");
    expect_text(b, 0, "");
    expect_done(b, "\"use\":1"); /* rank 7 */
    enter(b, 0);
    turn(b);
    ck_assert_uint_eq(b->joins, 4);
    ck_assert_ptr_nonnull(strstr(b->said, "\"seq\":1,"));
    flux_msg_destroy(first);
    bed_free(b);
}
END_TEST

/* Rank 3 is the new parent of rank 7, which has reported one entry to those above already, and
 * counts it again: what those above know ends there, though all are below rank 3. */
START_TEST(known_above)
{
    struct bed *b = bed_create_at(3);

    join(b, 7, 2, 0, "7:4");
    turn(b);
    ck_assert_int_eq(b->errnum, -1);
    ck_assert_uint_eq(b->joins, 1);
    ck_assert_ptr_nonnull(strstr(b->said, "\"seq\":2,"));
    ck_assert_ptr_nonnull(strstr(b->said, "\"entries\":\"7:4\""));
    respond(b, b->join, "{\"done\":true,\"use\":1}");
    expect_done(b, "\"use\":1");
    bed_free(b);
}
END_TEST

/* It fails at rank 7, which has reported it by another way: those above hear of it. */
START_TEST(abort_above)
{
    struct bed *b = bed_create_at(3);

    ask_from(b, 7, "barrier.abort",
             "{\"name\":\"x\",\"errnum\":103,\"reason\":\"it left\",\"ranks\":\"7\"}");
    turn(b);
    ck_assert_int_eq(b->errnum, 0);
    ck_assert_ptr_nonnull(strstr(b->said, "\"reason\":\"it left\",\"ranks\":\"7\""));
    b->said[0] = '\0';
    bed_free(b);
    b = bed_create(); /* nobody is above */
    enter(b, 0);
    event(b, "overlay.moved", "{\"rank\":7,\"parent\":3,\"move\":65537,\"map\":9}");
    turn(b);
    ck_assert_uint_eq(b->joins, 0);
    ask_from(b, 7, "barrier.abort",
             "{\"name\":\"x\",\"errnum\":103,\"reason\":\"it left\",\"ranks\":\"7\"}");
    turn(b);
    ck_assert_int_eq(b->errnum, 0);
    ck_assert_str_eq(b->said, "");
    bed_free(b);
}
END_TEST

int main(void)
{
    sparing = 1; /* the test itself */
    RUN_SUITE("barrier", loss_unheard, ranks_of_participants, participant_gone, list_slices,
              reported_again, between_or_not, release_unheard, never_reported, ended_before,
              bad_entries, largest_number, parent_lost, refused_on_the_way, no_memory_to_report,
              stopped, other_way, known_above, abort_above);
}

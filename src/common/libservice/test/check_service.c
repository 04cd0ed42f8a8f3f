/* check_service.c - session facts, streams that are reopened, early requests, operations after a
 * loss, lists, claims.  Settings are in check_setup.c.
 */
#include "config.h"
#include <stdio.h>

#include "bed.h"
#include "libflux/module.h"
#include "libflux/route.h"
#include "libservice/claim.h"
#include "libservice/early.h"
#include "libservice/follow.h"
#include "libschema/jsonout.h"
#include "libservice/grace.h"
#include "libservice/longlist.h"
#include "libservice/presence.h"
#include "libservice/session.h"
#include "libutil/test/suite.h"

/* --- streams --- */

struct told {
    unsigned taken, ended, tries;
    int errnum;
    bool refuse;
    follow_t *fo;
};

static int take(void *arg, flux_future_t *f, errmsg_t *err)
{
    struct told *t = arg;

    t->taken++;
    return t->refuse ? errmsg_fail(err, EPROTO, "not that") : 0;
}

static void ended(void *arg, int errnum, const char *why, unsigned tries)
{
    struct told *t = arg;

    t->ended++;
    t->tries = tries;
    t->errnum = errnum;
}

static const struct follow_ops stream = {"other.watch", 0.5, 1.5, NULL, take, ended};

START_TEST(test_follow)
{
    static const double pauses[] = {0.5, 1., 1.5, 1.5};
    struct clock c;
    struct fake *f = bed_create(&c, 0);
    struct told t = {0};
    follow_t *fo = follow_create(f->h, &stream, &t);

    ck_assert_ptr_nonnull(fo);
    ck_assert_uint_eq(f->nsent, 0);
    follow_open(fo);
    ck_assert_uint_eq(f->nsent, 1);
    fake_respond(f, 0, 0, FLUX_MSGF_STREAMING, "{}");
    fake_respond(f, 0, 0, FLUX_MSGF_STREAMING, "{}");
    ck_assert_uint_eq(t.taken, 2);
    /* The pause grows up to the bound while streams bring nothing. */
    for (size_t i = 0; i < 4; i++) {
        fake_respond(f, f->nsent - 1, ENOSYS, 0, "there is no such service");
        ck_assert_uint_eq(t.tries, i + 1);
        ck_assert_int_eq(t.errnum, ENOSYS);
        ck_assert_ptr_nonnull(c.timer);
        ck_assert(c.at == 100. + pauses[i]);
        ck_assert_uint_eq(f->nsent, 1 + i);
        flux_watcher_fire(c.timer);
        ck_assert_uint_eq(f->nsent, 2 + i);
    }
    /* One that brings something begins anew. */
    fake_respond(f, 4, 0, FLUX_MSGF_STREAMING, "{}");
    fake_respond(f, 4, ENODATA, 0, "it was ended");
    ck_assert_uint_eq(t.tries, 1);
    ck_assert(c.at == 100.5);
    follow_destroy(fo);
    ck_assert_uint_eq(f->nsent, 5);
    fake_free(f);
}
END_TEST

/* What cannot be used ends the stream, which is canceled there. */
START_TEST(test_follow_refused)
{
    struct clock c;
    struct fake *f = bed_create(&c, 0);
    struct told t = {.refuse = true};
    follow_t *fo = follow_create(f->h, &stream, &t);

    follow_open(fo);
    fake_respond(f, 0, 0, FLUX_MSGF_STREAMING, "{}");
    ck_assert_uint_eq(t.ended, 1);
    ck_assert_int_eq(t.errnum, EPROTO);
    ck_assert_uint_eq(f->nsent, 2);
    ck_assert_str_eq(flux_msg_topic(f->sent[1]), "other.cancel");
    ck_assert_ptr_nonnull(c.timer);
    follow_destroy(fo);
    fake_free(f);
}
END_TEST

static bool may_open(void *arg)
{
    struct told *t = arg;

    return !t->refuse;
}

static int take_anew(void *arg, flux_future_t *f, errmsg_t *err)
{
    struct told *t = arg;

    if (++t->taken == 2)
        follow_open(t->fo);
    return 0;
}

/* It is opened when that is permitted, and its user may close it, and have it begin anew. */
START_TEST(test_follow_user)
{
    static const struct follow_ops ops = {"other.watch", 0.5, 0.5, may_open, take_anew, ended};
    struct clock c;
    struct fake *f = bed_create(&c, 0);
    struct told t = {.refuse = true};

    ck_assert_ptr_nonnull(t.fo = follow_create(f->h, &ops, &t));
    follow_open(t.fo);
    follow_end(t.fo, EPROTO, "it is not open");
    ck_assert_uint_eq(f->nsent, 0);
    ck_assert(c.at == 100.5);
    t.refuse = false;
    flux_watcher_fire(c.timer);
    ck_assert_uint_eq(f->nsent, 1);
    /* The second response of a stream opens another. */
    fake_respond(f, 0, 0, FLUX_MSGF_STREAMING, "{}");
    fake_respond(f, 0, 0, FLUX_MSGF_STREAMING, "{}");
    ck_assert_uint_eq(f->nsent, 3);
    ck_assert_str_eq(flux_msg_topic(f->sent[1]), "other.watch");
    ck_assert_str_eq(flux_msg_topic(f->sent[2]), "other.cancel");
    fake_respond(f, 1, 0, FLUX_MSGF_STREAMING, "{}");
    ck_assert_uint_eq(t.taken, 3);
    ck_assert_uint_eq(t.ended, 0);
    follow_end(t.fo, EPROTO, "its user does not like it");
    ck_assert_uint_eq(t.ended, 1);
    ck_assert_int_eq(t.errnum, EPROTO);
    ck_assert_uint_eq(f->nsent, 4);
    ck_assert_str_eq(flux_msg_topic(f->sent[3]), "other.cancel");
    flux_watcher_fire(c.timer);
    ck_assert_uint_eq(f->nsent, 5);
    follow_destroy(t.fo);
    fake_free(f);
}
END_TEST

/* --- session facts --- */

struct seen {
    unsigned lost, lost_now, back, status, runs, trees, no_trees;
    bool refuse;
    uint32_t rank;
};

static void on_lost(void *arg, const idset_t *ranks, bool now)
{
    struct seen *s = arg;

    s->lost++;
    s->lost_now += now;
    s->rank = idset_first(ranks);
}

static void on_status(void *arg, const struct overlay_status *st)
{
    ((struct seen *)arg)->status += st != NULL;
}

static void on_runs(void *arg)
{
    ((struct seen *)arg)->runs++;
}

static void event(struct fake *f, const char *topic, const char *json)
{
    flux_msg_t *msg = flux_msg_create(FLUX_MSG_EVENT, topic);

    ck_assert_int_eq(flux_msg_set_json(msg, json), 0);
    flux_handle_deliver(f->h, msg);
}

static size_t last(const struct fake *f, const char *topic)
{
    for (size_t i = f->nsent; i-- > 0;) {
        if (strcmp(flux_msg_topic(f->sent[i]), topic) == 0)
            return i;
    }
    ck_abort_msg("%s was not sent", topic);
    return 0;
}

#define STATUS(state, lost)                                                          \
    "{\"rank\":0,\"size\":8,\"state\":\"" state "\",\"up\":\"0-7\",\"lost\":\"" lost \
    "\",\"topology\":\"kary:2\"}"

#define STATUS_AT(lost, map)                                                 \
    "{\"rank\":0,\"size\":8,\"state\":\"run\",\"up\":\"0\",\"lost\":\"" lost \
    "\",\"topology\":\"kary:2\",\"map\":" map "}"

START_TEST(test_session_lost)
{
    static const struct session_ops ops = {.lost = on_lost};
    struct clock c;
    struct fake *f = bed_create(&c, 1);
    struct seen seen = {0};
    session_t *s = session_create(f->h, &ops, &seen);

    ck_assert_ptr_nonnull(s);
    ck_assert_uint_eq(f->nsent, 1);
    ck_assert_ptr_nonnull(strstr(flux_msg_payload(f->sent[0], &(size_t){0}), "overlay."));
    fake_respond(f, 0, 0, 0, "{}");
    event(f, "overlay.down", "{\"ranks\":\"3\"}");
    ck_assert_uint_eq(seen.lost, 1);
    ck_assert_uint_eq(seen.rank, 3);
    event(f, "overlay.down", "{\"ranks\":7}"); /* malformed: passed over */
    ck_assert_uint_eq(seen.lost, 1);
    /* Of what was missed rank 0 tells. */
    event(f, "event.lost", "{\"from\":1,\"to\":2}");
    fake_respond(f, last(f, "overlay.status"), 0, 0, STATUS("run", "3,5"));
    ck_assert_uint_eq(seen.lost, 2);
    ck_assert_uint_eq(seen.lost_now, 1);
    ck_assert_uint_eq(idset_count(session_lost(s)), 2);
    /* Rank 0 counts this rank, 1, as lost: it is cut off, maybe together with 4 and 6. */
    event(f, "event.lost", "{\"from\":3,\"to\":4}");
    fake_respond(f, last(f, "overlay.status"), 0, 0, STATUS("run", "1,3-6"));
    ck_assert_uint_eq(seen.lost, 2);
    ck_assert_uint_eq(idset_count(session_lost(s)), 2);
    session_destroy(s);
    fake_free(f);
}
END_TEST

static void on_back(void *arg, const idset_t *ranks)
{
    struct seen *s = arg;

    s->back++;
    s->rank = idset_first(ranks);
}

#define UP(ranks, lost, map) \
    "{\"ranks\":\"" ranks "\",\"incarnation\":2,\"lost\":\"" lost "\",\"map\":" map "}"
#define DOWN(ranks, map) "{\"ranks\":\"" ranks "\",\"state\":\"lost\",\"map\":" map "}"

/* Ranks that come back; and news that arrive in another order than they were made. */
START_TEST(test_session_back)
{
    static const struct session_ops ops = {.lost = on_lost, .back = on_back};
    struct clock c;
    struct fake *f = bed_create(&c, 1);
    struct seen seen = {0};
    session_t *s = session_create(f->h, &ops, &seen);
    size_t asked;

    ck_assert_ptr_nonnull(s);
    fake_respond(f, 0, 0, 0, "{}");
    /* It has joined a session that has lost ranks. */
    event(f, "overlay.up", UP("1", "3,5", "7"));
    ck_assert_uint_eq(seen.lost, 1);
    ck_assert_uint_eq(seen.lost_now, 0);
    ck_assert_uint_eq(seen.back, 0);
    ck_assert_uint_eq(idset_count(session_lost(s)), 2);
    event(f, "overlay.up", UP("5", "3", "8"));
    ck_assert_uint_eq(seen.back, 1);
    ck_assert_uint_eq(seen.rank, 5);
    event(f, "overlay.down", DOWN("6", "9"));
    ck_assert_uint_eq(seen.lost, 2);
    ck_assert_uint_eq(seen.lost_now, 1);
    event(f, "overlay.up", "{\"ranks\":\"3\"}"); /* malformed: passed over */
    ck_assert_uint_eq(seen.back, 1);
    /* An answer that is newer than the events that follow, and one that is older than the last. */
    session_ask_lost(s);
    fake_respond(f, last(f, "overlay.status"), 0, 0, STATUS_AT("3", "11"));
    ck_assert_uint_eq(seen.back, 2);
    ck_assert_uint_eq(seen.rank, 6);
    event(f, "overlay.up", UP("6", "3,7", "10"));
    event(f, "overlay.down", DOWN("7", "11"));
    ck_assert_uint_eq(seen.lost, 2);
    ck_assert(!idset_test(session_lost(s), 7));
    session_ask_lost(s);
    asked = last(f, "overlay.status");
    event(f, "overlay.up", UP("3", "", "12"));
    ck_assert_uint_eq(seen.back, 3);
    fake_respond(f, asked, 0, 0, STATUS_AT("3", "11"));
    ck_assert(idset_empty(session_lost(s)));
    ck_assert_uint_gt(last(f, "overlay.status"), asked); /* asked again */
    fake_respond(f, last(f, "overlay.status"), 0, 0, STATUS_AT("2", "13"));
    ck_assert_uint_eq(seen.lost, 3);
    ck_assert(idset_test(session_lost(s), 2));
    session_destroy(s);
    fake_free(f);
}
END_TEST

START_TEST(test_session_status)
{
    static const struct session_ops ops = {.status = on_status};
    struct clock c;
    struct fake *f = bed_create(&c, 0);
    struct seen seen = {0};
    session_t *s = session_create(f->h, &ops, &seen);

    ck_assert_ptr_nonnull(s);
    ck_assert_uint_eq(f->nsent, 2);
    event(f, "overlay.down", "{\"ranks\":\"3\"}");
    event(f, "overlay.run", "{\"up\":7}");
    ck_assert_uint_eq(f->nsent, 2); /* one at a time */
    fake_respond(f, 1, 0, 0, STATUS("run", ""));
    ck_assert_uint_eq(seen.status, 1);
    ck_assert_uint_eq(f->nsent, 3); /* and once more */
    fake_respond(f, 2, 0, 0, STATUS("run", "3"));
    ck_assert_uint_eq(seen.status, 2);
    ck_assert_uint_eq(f->nsent, 3);
    session_destroy(s);
    fake_free(f);
}
END_TEST

/* The state is asked for when somebody needs it, and it is not the current one once an event came
 * after the request. */
START_TEST(test_session_current)
{
    static const struct session_ops ops = {.status = on_status, .on_demand = true};
    struct clock c;
    struct fake *f = bed_create(&c, 0);
    struct seen seen = {0};
    session_t *s = session_create(f->h, &ops, &seen);

    ck_assert_ptr_nonnull(s);
    event(f, "overlay.down", "{\"ranks\":\"3\"}");
    ck_assert_uint_eq(f->nsent, 1);
    ck_assert(!session_current(s));
    ck_assert(!session_current(s));
    ck_assert_uint_eq(f->nsent, 2);
    fake_respond(f, 1, ENOMEM, 0, "no memory");
    ck_assert_uint_eq(f->nsent, 3); /* the log */
    ck_assert_uint_eq(seen.status, 0);
    ck_assert(!session_current(s));
    ck_assert_uint_eq(f->nsent, 4);
    event(f, "overlay.down", "{\"ranks\":\"2\"}");
    fake_respond(f, 3, 0, 0, STATUS("run", "3"));
    ck_assert_uint_eq(seen.status, 1);
    ck_assert_uint_eq(f->nsent, 4);
    ck_assert(!session_current(s));
    ck_assert_uint_eq(f->nsent, 5);
    fake_respond(f, 4, 0, 0, STATUS("run", "2-3"));
    ck_assert_uint_eq(seen.status, 2);
    ck_assert(session_current(s));
    ck_assert_uint_eq(f->nsent, 5);
    event(f, "overlay.down", "{\"ranks\":\"1\"}");
    ck_assert(!session_current(s));
    session_destroy(s);
    fake_free(f);
}
END_TEST

static int on_tree(void *arg, int errnum, const char *why)
{
    struct seen *s = arg;

    s->trees += errnum == 0;
    s->no_trees += errnum != 0;
    errno = ENOMEM;
    return s->refuse ? -1 : 0;
}

#define TREE_OF(size, topology, file, moved) \
    "{\"topology\":\"" topology "\",\"size\":" size ",\"file\":\"" file "\",\"moved\":" moved "}"
#define TREE(topology, file, moved) TREE_OF("8", topology, file, moved)
#define MOVED(rank, parent) "{\"rank\":" rank ",\"parent\":" parent ",\"move\":1,\"map\":3}"

START_TEST(test_session_tree)
{
    static const struct session_ops ops = {.tree = on_tree};
    struct clock c;
    struct fake *f = bed_create(&c, 1);
    struct seen seen = {0};
    session_t *s = session_create(f->h, &ops, &seen);
    size_t asked;

    ck_assert_ptr_nonnull(s);
    fake_respond(f, 0, 0, 0, "{}");
    event(f, "overlay.moved", MOVED("3", "0")); /* nobody needs the tree */
    ck_assert_uint_eq(f->nsent, 1);
    session_ask_tree(s);
    session_ask_tree(s);
    ck_assert_uint_eq(f->nsent, 2);
    fake_respond(f, 1, ENOSYS, 0, NULL);
    ck_assert_uint_eq(seen.no_trees, 1);
    ck_assert_ptr_null(session_tree(s));
    session_ask_tree(s);
    fake_respond(f, last(f, "overlay.topology"), 0, 0, TREE("kary:2", "", "false"));
    ck_assert_uint_eq(seen.trees, 1);
    ck_assert_uint_eq(topology_parent(session_tree(s), 3), 1);
    event(f, "overlay.moved", MOVED("3", "0"));
    ck_assert_uint_eq(topology_parent(session_tree(s), 3), 0);
    /* A change that is refused is learned later, and so is what was missed. */
    asked = f->nsent;
    seen.refuse = true;
    event(f, "overlay.moved", MOVED("4", "2"));
    ck_assert_uint_eq(topology_parent(session_tree(s), 4), 1);
    seen.refuse = false;
    event(f, "event.lost", "{\"from\":1,\"to\":2}");
    ck_assert_uint_eq(f->nsent, asked + 2);
    fake_respond(f, last(f, "overlay.topology"), 0, 0,
                 TREE("kary:2", "0: 1-3\\n2: 4-7\\n", "true"));
    ck_assert_uint_eq(topology_parent(session_tree(s), 4), 2);
    session_destroy(s);
    fake_free(f);
}
END_TEST

/* A tree of another size is none, also when the ranks that moved are in it. */
START_TEST(test_session_tree_size)
{
    static const struct session_ops ops = {.tree = on_tree};
    static const char *const wrong[] = {
        TREE_OF("5", "kary:2", "", "false"),         TREE_OF("9", "kary:2", "", "false"),
        TREE_OF("0", "kary:2", "", "false"),         TREE_OF("4294967295", "flat", "", "false"),
        TREE_OF("5", "kary:2", "0: 1-4\\n", "true"), TREE_OF("9", "file:x", "0: 1-8\\n", "false"),
    };
    struct clock c;
    struct fake *f = bed_create(&c, 1);
    struct seen seen = {0};
    session_t *s = session_create(f->h, &ops, &seen);
    unsigned n = sizeof(wrong) / sizeof(wrong[0]);

    ck_assert_ptr_nonnull(s);
    fake_respond(f, 0, 0, 0, "{}");
    for (unsigned i = 0; i < n; i++) {
        session_ask_tree(s);
        fake_respond(f, last(f, "overlay.topology"), 0, 0, wrong[i]);
        ck_assert_ptr_null(session_tree(s));
        ck_assert_uint_eq(seen.no_trees, i + 1);
    }
    session_ask_tree(s);
    fake_respond(f, last(f, "overlay.topology"), 0, 0, TREE("kary:2", "", "false"));
    ck_assert_uint_eq(seen.trees, 1);
    /* The tree that is known stays in use. */
    event(f, "event.lost", "{\"from\":1,\"to\":2}");
    fake_respond(f, last(f, "overlay.topology"), 0, 0, wrong[0]);
    ck_assert_uint_eq(seen.no_trees, n + 1);
    ck_assert_uint_eq(topology_size(session_tree(s)), 8);
    session_destroy(s);
    fake_free(f);
}
END_TEST

/* It is said once, by the event or by the answer. */
START_TEST(test_session_runs)
{
    static const struct session_ops ops = {.runs = on_runs};
    struct clock c;
    struct fake *f = bed_create(&c, 0);
    struct seen seen = {0};
    session_t *s = session_create(f->h, &ops, &seen);

    ck_assert_ptr_nonnull(s);
    fake_respond(f, 0, 0, 0, "{}");
    if (_i == 0) {
        fake_respond(f, 1, 0, 0, STATUS("wired", ""));
        ck_assert_uint_eq(seen.runs, 0);
        event(f, "overlay.run", "{\"up\":8}");
    } else {
        fake_respond(f, 1, 0, 0, STATUS("run", ""));
    }
    ck_assert_uint_eq(seen.runs, 1);
    event(f, "overlay.run", "{\"up\":8}");
    ck_assert_uint_eq(seen.runs, 1);
    session_destroy(s);
    fake_free(f);
}
END_TEST

/* --- early requests --- */

static void serve(flux_t *h, const flux_msg_t *req, void *arg)
{
    char *log = arg;

    strncat(log, flux_msg_topic(req), 20);
    flux_respond(h, req, "{}");
}

START_TEST(test_early)
{
    struct clock c;
    struct fake *f = bed_create(&c, 0);
    early_t *e = early_create(f->h, NULL, 2);
    flux_msg_t *a = fake_request("x.a", "{}", 1), *b = fake_request("x.b", "{}", 1);
    char log[100] = "";

    early_put(e, a, serve, log);
    early_put(e, b, serve, log);
    ck_assert_uint_eq(f->nsent, 0);
    early_put(e, a, serve, log); /* no room */
    ck_assert_uint_eq(f->nsent, 1);
    ck_assert_int_eq(flux_msg_errnum(f->sent[0]), EAGAIN);
    early_serve(e);
    ck_assert_str_eq(log, "x.ax.b");
    ck_assert_uint_eq(f->nsent, 3);
    early_put(e, a, serve, log);
    early_destroy(e); /* not answered */
    ck_assert_uint_eq(f->nsent, 3);
    flux_msg_destroy(a);
    flux_msg_destroy(b);
    settle(&c);
    fake_free(f);
}
END_TEST

static early_t *again;

static void put_again(flux_t *h, const flux_msg_t *req, void *arg)
{
    ++*(unsigned *)arg;
    early_put(again, req, put_again, arg);
}

/* A request ends with its client, and one that still has to wait is served the next time. */
START_TEST(test_early_gone)
{
    struct clock c;
    struct fake *f = bed_create(&c, 0);
    struct claims *claims = claims_create();
    flux_msg_t *a = fake_request("x.a", "{}", 1), *b = fake_request("x.b", "{}", 2);
    unsigned served = 0;

    again = early_create(f->h, claims, 2);
    ck_assert(early_put(again, a, put_again, &served));
    flux_msg_set_flags(b, FLUX_MSGF_NORESPONSE);
    flux_msg_set_matchtag(b, 0);
    ck_assert(early_put(again, b, put_again, &served));
    early_serve(again);
    ck_assert_uint_eq(served, 2);
    claims_cancel(claims, a, 77);
    ck_assert_uint_eq(f->nsent, 1);
    ck_assert_int_eq(flux_msg_errnum(f->sent[0]), ENODATA);
    ck_assert_uint_eq(early_count(again), 1);
    claims_disconnect(claims, b);
    early_serve(again); /* this one wants no response */
    ck_assert_uint_eq(served, 3);
    ck_assert_uint_eq(early_count(again), 1);
    early_fail(again, EIO, "it is over");
    ck_assert_uint_eq(early_count(again), 0);
    early_destroy(again);
    claims_destroy(claims);
    flux_msg_destroy(a);
    flux_msg_destroy(b);
    fake_free(f);
}
END_TEST

/* --- senders whose way was lost --- */

static void gone(void *arg, const flux_msg_t *notice)
{
    char sender[FLUX_SENDER_MAX], *log = arg;

    strcat(log, flux_msg_sender(notice, sender, sizeof(sender)));
    strcat(log, " ");
}

static flux_msg_t *notice_of(uint32_t rank, uint32_t endpoint)
{
    flux_msg_t *msg = flux_msg_create(FLUX_MSG_REQUEST, "x.disconnect");

    flux_msg_route_push(msg, flux_route_make(FLUX_ROUTE_ENDPOINT, endpoint));
    if (rank > 0)
        flux_msg_route_push(msg, flux_route_make(FLUX_ROUTE_TREE, rank));
    return msg;
}

static void ask_of(presence_t *p, uint32_t rank, uint32_t endpoint)
{
    flux_msg_t *msg = notice_of(rank, endpoint);

    ck_assert_int_eq(presence_ask(p, msg), 0);
    flux_msg_destroy(msg);
}

START_TEST(test_presence)
{
    struct clock c;
    struct fake *f = bed_create(&c, 0);
    char log[100] = "";
    presence_t *p = presence_create(f->h, gone, log);

    ask_of(p, 0, 9); /* here: its way cannot have been lost */
    ck_assert_uint_eq(f->nsent, 0);
    ask_of(p, 7, 9);
    ask_of(p, 7, 9); /* known already */
    ask_of(p, 7, 10);
    ck_assert_uint_eq(f->nsent, 2);
    ck_assert_str_eq(flux_msg_topic(f->sent[0]), "overlay.sender");
    ck_assert_uint_eq(flux_msg_nodeid(f->sent[0]), 7);
    ck_assert(flux_msg_has_flag(f->sent[0], FLUX_MSGF_IDEMPOTENT));
    ck_assert_str_eq(flux_msg_json(f->sent[0]), "{\"endpoint\":9}");
    fake_respond(f, 0, 0, 0, "{\"present\":true}");
    fake_respond(f, 1, 0, 0, "{\"present\":false}");
    ck_assert_str_eq(log, "7.10 ");
    ask_of(p, 7, 10); /* the next loss of a way */
    ck_assert_uint_eq(f->nsent, 3);
    for (size_t i = 2; i < 122; i++) {
        ck_assert_str_eq(log, "7.10 ");
        ck_assert_uint_eq(f->nsent, i + 1);
        fake_respond(f, i, i % 2 ? EHOSTUNREACH : 0, 0, "there is no way");
        if (i < 121)
            flux_watcher_fire(c.timer);
    }
    ck_assert_str_eq(log, "7.10 7.10 ");
    presence_destroy(p);
    fake_free(f);
}
END_TEST

static void drop_sent(struct fake *f, flux_msg_t *msg)
{
    ck_assert_str_eq(flux_msg_topic(msg), "overlay.sender");
    ++*(unsigned *)f->user;
    flux_msg_destroy(msg);
}

/* The next instance asks again. */
START_TEST(test_presence_reload)
{
    struct clock c;
    struct fake *f = bed_create(&c, 0);
    char log[100] = "";
    presence_t *p = presence_create(f->h, gone, log);
    flux_handover_t *o = flux_handover_create();
    unsigned asked = 0;

    f->user = &asked;
    f->hook = drop_sent;
    ask_of(p, 7, 9);
    ask_of(p, 8, 9);
    presence_save(p, o);
    presence_destroy(p);
    ck_assert_uint_eq(asked, 2);
    p = presence_create(f->h, gone, log);
    presence_load(p, o);
    ck_assert_int_eq(flux_handover_end(o, NULL), 0);
    ck_assert_uint_eq(asked, 4);
    ck_assert_str_eq(log, "");
    presence_destroy(p);
    flux_handover_destroy(o);
    fake_free(f);
}
END_TEST

/* --- operations after a loss --- */

static void on_grace(void *arg, const char *lost)
{
    snprintf(arg, 32, "%s", lost);
}

static void lose(grace_t *g, uint32_t rank)
{
    idset_t *ranks = idset_create_range(rank, rank);

    grace_lost(g, ranks);
    idset_destroy(ranks);
}

START_TEST(test_grace)
{
    struct clock c;
    struct fake *f = bed_create(&c, 0);
    double seconds = 5.;
    grace_t *g = grace_create(f->h, &seconds);
    grace_wait_t *w = NULL;
    idset_t *ranks = idset_create_range(3, 3);
    char lost[32] = "";

    ck_assert_ptr_null(grace_recent(g));
    lose(g, 3);
    ck_assert(idset_equal(grace_recent(g), ranks));
    c.now += 4.;
    lose(g, 5);
    ck_assert_uint_eq(idset_count(grace_recent(g)), 2);
    c.now += 5.;
    ck_assert_ptr_null(grace_recent(g));
    lose(g, 3);
    ck_assert(idset_equal(grace_recent(g), ranks));
    /* Each loss starts the timer anew. */
    ck_assert_ptr_null(grace_suspects(w));
    ck_assert_int_eq(grace_suspect(g, &w, ranks, on_grace, lost), 0);
    ck_assert(c.timer && c.at == c.now + 5.);
    c.now += 2.;
    idset_set(ranks, 6);
    ck_assert_int_eq(grace_suspect(g, &w, ranks, on_grace, lost), 0);
    ck_assert(c.timer && c.at == c.now + 5.);
    ck_assert(idset_equal(grace_suspects(w), ranks));
    flux_watcher_fire(c.timer);
    ck_assert_str_eq(lost, "3,6");
    grace_wait_destroy(w);
    grace_wait_destroy(NULL);
    grace_destroy(g);
    grace_destroy(NULL);
    idset_destroy(ranks);
    fake_free(f);
}
END_TEST

/* --- lists --- */

struct thing {
    struct longlist_place place;
    unsigned n;
};

static void put_thing(strbuf_t *sb, const struct longlist_place *p, const flux_msg_t *req)
{
    const struct thing *t = list_entry(p, struct thing, place);

    if (t->n % 2 == 0 || strcmp(flux_msg_topic(req), "x.even") != 0)
        jsonout_uint(sb, NULL, t->n);
}

static uint64_t sum_of(const flux_msg_t *msg)
{
    const char *text = flux_msg_payload(msg, NULL);
    uint64_t sum = 0;
    json_t *o, *val;
    size_t i;

    ck_assert_ptr_nonnull(o = json_loads(text, 0, NULL));
    json_array_foreach(json_object_get(o, "things"), i, val) sum +=
        (uint64_t)json_integer_value(val);
    json_decref(o);
    return sum;
}

/* The pages from message number `at` on up to ENODATA, and the sum of what is in them. */
static size_t pages(const struct fake *f, size_t at, uint64_t *sum)
{
    size_t n = 0;

    for (*sum = 0; flux_msg_errnum(f->sent[at + n]) == 0; n++) {
        ck_assert(flux_msg_has_flag(f->sent[at + n], FLUX_MSGF_STREAMING));
        *sum += sum_of(f->sent[at + n]);
    }
    ck_assert_int_eq(flux_msg_errnum(f->sent[at + n]), ENODATA);
    ck_assert_uint_eq(at + n + 1, f->nsent);
    return n;
}

static flux_msg_t *list_request(const char *topic, uint32_t matchtag)
{
    flux_msg_t *req = fake_request(topic, "{}", FLUX_ROLE_OWNER);

    flux_msg_set_flags(req, FLUX_MSGF_STREAMING);
    flux_msg_set_matchtag(req, matchtag);
    return req;
}

/* What was deferred before it. */
static void pass(struct clock *c)
{
    size_t n = c->ndeferred;
    flux_watcher_t *now[8];

    memcpy(now, c->deferred, sizeof(now));
    c->ndeferred = 0;
    for (size_t i = 0; i < n; i++) {
        if (now[i])
            flux_watcher_fire(now[i]);
    }
}

START_TEST(test_longlist)
{
    enum { MANY = 10000 };
    static struct thing things[MANY + 1];
    struct clock c;
    struct fake *f = bed_create(&c, 0);
    struct claims *claims = claims_create();
    longlist_t *l = longlist_create(f->h, claims, "things", put_thing);
    flux_msg_t *all = list_request("x.all", 1), *even = list_request("x.even", 2);
    flux_msg_t *plain = fake_request("x.all", "{}", FLUX_ROLE_OWNER);
    uint64_t sum, expected = 0;
    size_t at;

    /* None: one page. */
    at = f->nsent;
    longlist_answer(l, all);
    pass(&c);
    ck_assert_uint_eq(pages(f, at, &sum), 1);
    ck_assert_uint_eq(sum, 0);
    for (unsigned i = 0; i < MANY; i++) {
        things[i].n = i;
        longlist_add(l, &things[i].place);
        expected += i;
    }
    /* Many: several, with what is still there, and nothing that is new. */
    at = f->nsent;
    longlist_answer(l, all);
    pass(&c);
    ck_assert_uint_eq(f->nsent, at + 1);
    longlist_remove(&things[0].place);
    longlist_remove(&things[MANY - 1].place);
    longlist_remove(&things[MANY - 1].place);
    things[MANY].n = MANY;
    longlist_add(l, &things[MANY].place);
    for (int i = 0; i < 10; i++)
        pass(&c);
    ck_assert_uint_gt(pages(f, at, &sum), 1);
    ck_assert_uint_eq(sum, expected - (MANY - 1));
    /* Only some of them. */
    at = f->nsent;
    longlist_answer(l, even);
    for (int i = 0; i < 10; i++)
        pass(&c);
    pages(f, at, &sum);
    ck_assert_uint_eq(sum, (uint64_t)MANY * (MANY + 2) / 4);
    /* All in one response, each of which is made before the next. */
    at = f->nsent;
    longlist_answer(l, plain);
    longlist_answer(l, plain);
    for (int i = 0; i < 10; i++) {
        ck_assert_uint_le(f->nsent, at + (i >= 3) + (i >= 6));
        pass(&c);
    }
    ck_assert_uint_eq(f->nsent, at + 2);
    for (size_t i = at; i < f->nsent; i++) {
        ck_assert(!flux_msg_has_flag(f->sent[i], FLUX_MSGF_STREAMING));
        ck_assert_uint_eq(sum_of(f->sent[i]), expected - (MANY - 1) + MANY);
    }
    /* Clients that cancel, or go away. */
    at = f->nsent;
    longlist_answer(l, all);
    longlist_answer(l, even);
    pass(&c);
    ck_assert_uint_eq(f->nsent, at + 1); /* the slice was over after one */
    claims_cancel(claims, all, flux_msg_matchtag(all));
    ck_assert_uint_eq(f->nsent, at + 2);
    ck_assert_int_eq(flux_msg_errnum(f->sent[at + 1]), ENODATA);
    claims_disconnect(claims, even);
    for (int i = 0; i < 10; i++)
        pass(&c);
    ck_assert_uint_eq(f->nsent, at + 2);
    /* The end of the service: not answered. */
    longlist_answer(l, all);
    for (unsigned i = 0; i <= MANY; i++)
        longlist_remove(&things[i].place);
    longlist_destroy(l);
    longlist_destroy(NULL);
    ck_assert_uint_eq(f->nsent, at + 2);
    claims_destroy(claims);
    flux_msg_destroy(all);
    flux_msg_destroy(even);
    flux_msg_destroy(plain);
    fake_free(f);
}
END_TEST

/* --- claims --- */

static void claim_ended(struct claim *c, bool canceled)
{
    (void)canceled;
    c->weight = 1; /* a claim that has ended needs none */
}

/* A request, or a notice, of the same sender at rank 9, by way of rank `by`. */
static flux_msg_t *came_by(uint32_t by, const char *topic, unsigned flags)
{
    flux_msg_t *msg = flux_msg_create(FLUX_MSG_REQUEST, topic);

    ck_assert_ptr_nonnull(msg);
    flux_msg_set_matchtag(msg, 5);
    flux_msg_set_flags(msg, flags);
    flux_msg_route_push(msg, flux_route_make(FLUX_ROUTE_ENDPOINT, 3));
    flux_msg_route_push(msg, flux_route_make(FLUX_ROUTE_TREE, 9));
    flux_msg_route_push(msg, flux_route_make(FLUX_ROUTE_TREE, by));
    return msg;
}

/* The notice that a way was lost may come after the request has come again by another way. */
START_TEST(test_claims_way)
{
    struct claims *claims = claims_create();
    struct claim old = {0}, fresh = {0}, lasting = {0};
    flux_msg_t *a = came_by(1, "x.watch", FLUX_MSGF_STREAMING | FLUX_MSGF_IDEMPOTENT);
    flux_msg_t *b = came_by(2, "x.watch", FLUX_MSGF_STREAMING | FLUX_MSGF_IDEMPOTENT);
    flux_msg_t *lost = came_by(1, "x.disconnect", FLUX_MSGF_NORESPONSE | FLUX_MSGF_IDEMPOTENT);
    flux_msg_t *gone = came_by(1, "x.disconnect", FLUX_MSGF_NORESPONSE);

    ck_assert_int_eq(claim_take(claims, &old, a, claim_ended), 0);
    ck_assert_int_eq(claim_take(claims, &fresh, b, claim_ended), 0);
    ck_assert_int_eq(claim_take_sender(claims, &lasting, b, claim_ended), 0);
    claims_disconnect(claims, lost);
    ck_assert_uint_eq(old.weight, 1);
    ck_assert_uint_eq(lasting.weight, 1);
    ck_assert_uint_eq(fresh.weight, 0);
    ck_assert_uint_eq(claims_of_sender(claims, a), 1);
    ck_assert(flux_request_ended(a, lost) && !flux_request_ended(b, lost));
    /* A sender that is gone has no way. */
    ck_assert(flux_request_ended(a, gone) && flux_request_ended(b, gone));
    claims_disconnect(claims, gone);
    ck_assert_uint_eq(fresh.weight, 1);
    ck_assert_uint_eq(claims_count(claims), 0);
    claims_destroy(claims);
    flux_msg_destroy(a);
    flux_msg_destroy(b);
    flux_msg_destroy(lost);
    flux_msg_destroy(gone);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("service");

    (void)fake_create;
    tcase_add_test(tc, test_follow);
    tcase_add_test(tc, test_follow_refused);
    tcase_add_test(tc, test_follow_user);
    tcase_add_test(tc, test_session_lost);
    tcase_add_test(tc, test_session_back);
    tcase_add_test(tc, test_session_tree);
    tcase_add_test(tc, test_session_tree_size);
    tcase_add_test(tc, test_session_status);
    tcase_add_test(tc, test_session_current);
    tcase_add_loop_test(tc, test_session_runs, 0, 2);
    tcase_add_test(tc, test_early);
    tcase_add_test(tc, test_early_gone);
    tcase_add_test(tc, test_presence);
    tcase_add_test(tc, test_presence_reload);
    tcase_add_test(tc, test_grace);
    tcase_add_test(tc, test_longlist);
    tcase_add_test(tc, test_claims_way);
    return run_case("service", tc);
}

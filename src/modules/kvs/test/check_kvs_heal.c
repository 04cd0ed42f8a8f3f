/* check_kvs_heal.c - fences in sessions that lose brokers: instances of kvs at all ranks of a tree,
 * joined by links of the test's own.
 *
 * A broker of this test keeps of each request the way that it took, as those of flux do
 * (broker/core_inflight.c): when one on the way dies, the sender gets EHOSTUNREACH, the receiver a
 * notice that the sender is gone, and a response that comes later finds no way back.  The brokers
 * below the dead one have its parent as theirs at once.  What travels, what instances do in their
 * deferrals, when they hear of a loss, who calls and who dies at what moment is the seed's choice.
 *
 * Each participant appends its letter to one key and puts a key of its own, in several fences of
 * one name.  Whoever dies, all get the same result of each fence; if nobody is lost who takes part,
 * it is applied, and holds each call once.
 */
#include "config.h"
#include <stdio.h>

#include "libflux/module.h"
#include "libflux/route.h"
#include "libflux/test/fake.h"
#include "libkvs/kvs_txn.h"
#include "libkvs/kvs_wire.h"
#include "libutil/test/suite.h"
#include "modules/kvs/km_private.h"

extern const struct flux_module flux_module_kvs;

#define RANKS 8
#define CLIENTS 10
#define ROUNDS 3
#define SEEDS 300
#define NONE UINT32_MAX

enum kind { REQUEST, RESPONSE, NOTICE };

/* A request, and the brokers that it has passed. */
struct flight {
    uint32_t from, to, tag;
    flux_msg_t *msg;
    uint32_t path[64];
    bool known[64]; /* the broker at this place of the path waits for the response */
    unsigned len;
    struct flight *next;
};

struct item {
    enum kind kind;
    struct flight *fl;
    flux_msg_t *msg; /* a response */
    unsigned at;     /* its place in the path */
    struct item *next;
};

struct queue {
    struct item *first, **last;
};

struct client {
    uint32_t rank;
    unsigned round; /* that it has called for, from 1; 0: none */
    bool waits;
    int results[ROUNDS];
};

struct node {
    struct fake f;
    struct world *w;
    uint32_t rank;
    void *ctx;
    bool dead;
    uint32_t parent;
    flux_watcher_t *deferred[16];
    unsigned ndeferred;
    flux_msg_t *events[32];
    unsigned nevents, heard;
    flux_msg_t *own[64]; /* answers of its own broker */
    unsigned nsent;
};

struct world {
    uint64_t seed;
    bool chain;
    struct node nodes[RANKS];
    struct queue links[RANKS][RANKS];
    struct flight *flights;
    struct client clients[CLIENTS];
    unsigned nclients;
    unsigned kills; /* to come */
    bool anybody;   /* may be killed; else only who takes no part */
    bool named;     /* calls name the ranks of participants */
    char ranks[64];
    bool lost; /* a participant is */
    double now;
    uint32_t map;
};

static uint32_t choose(struct world *w, uint32_t n)
{
    w->seed = w->seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(w->seed >> 33) % n;
}

/* --- the clock and the deferrals of an instance --- */

static double engine_now(void *impl)
{
    return ((struct node *)impl)->w->now;
}

static int timer_set(void *impl, flux_watcher_t *w, double at)
{
    return 0; /* it waits for ever: nothing here is decided by time */
}

static void timer_clear(void *impl, flux_watcher_t *w)
{
}

static int defer(void *impl, flux_watcher_t *w)
{
    struct node *n = impl;

    for (unsigned i = 0; i < n->ndeferred; i++) {
        if (n->deferred[i] == w)
            return 0;
    }
    ck_assert_uint_lt(n->ndeferred, 16);
    n->deferred[n->ndeferred++] = w;
    return 0;
}

static void defer_clear(void *impl, flux_watcher_t *w)
{
    struct node *n = impl;

    for (unsigned i = 0; i < n->ndeferred; i++) {
        if (n->deferred[i] == w)
            n->deferred[i] = n->deferred[--n->ndeferred];
    }
}

static const struct flux_reactor_ops engine = {
    .now = engine_now,
    .timer_set = timer_set,
    .timer_clear = timer_clear,
    .defer = defer,
    .defer_clear = defer_clear,
};

/* --- the tree --- */

static uint32_t shape_parent(const struct world *w, uint32_t rank)
{
    return w->chain ? rank - 1 : (rank - 1) / 2;
}

static uint32_t hop(const struct world *w, uint32_t from, uint32_t to)
{
    for (uint32_t r = to; r != 0; r = w->nodes[r].parent) {
        if (w->nodes[r].parent == from)
            return r;
    }
    return w->nodes[from].parent;
}

static void enqueue(struct world *w, uint32_t from, uint32_t to, struct item *it)
{
    struct queue *q = &w->links[from][to];

    it->next = NULL;
    *q->last = it;
    q->last = &it->next;
}

static struct item *item_new(enum kind kind, struct flight *fl, flux_msg_t *msg, unsigned at)
{
    struct item *it = calloc(1, sizeof(*it));

    ck_assert_ptr_nonnull(it);
    it->kind = kind;
    it->fl = fl;
    it->msg = msg;
    it->at = at;
    return it;
}

static void item_free(struct item *it)
{
    flux_msg_destroy(it->msg);
    free(it);
}

/* A response passes the broker at this place of the path. */
static void respond_at(struct world *w, struct item *it)
{
    struct flight *fl = it->fl;

    if (!fl->known[it->at]) {
        item_free(it);
        return;
    }
    fl->known[it->at] = false;
    if (it->at == 0) {
        flux_msg_t *msg = it->msg;

        it->msg = NULL;
        item_free(it);
        flux_msg_route_clear(msg);
        flux_handle_deliver(w->nodes[fl->from].f.h, msg);
        return;
    }
    it->at--;
    enqueue(w, fl->path[it->at + 1], fl->path[it->at], it);
}

static void fail_at(struct world *w, struct flight *fl, unsigned at)
{
    flux_msg_t *resp = flux_msg_response_create(fl->msg, EHOSTUNREACH);

    flux_msg_set_json(resp, "a rank was lost");
    respond_at(w, item_new(RESPONSE, fl, resp, at));
}

static void deliver_notice(struct node *n, const struct flight *fl)
{
    flux_msg_t *msg = flux_msg_create(FLUX_MSG_REQUEST, "kvs.disconnect");

    flux_msg_set_cred(msg, 0, FLUX_ROLE_BROKER);
    flux_msg_set_flags(msg, FLUX_MSGF_NORESPONSE);
    flux_msg_route_push(msg, flux_route_make(FLUX_ROUTE_ENDPOINT, 1));
    flux_msg_route_push(msg, flux_route_make(FLUX_ROUTE_TREE, fl->from));
    flux_handle_deliver(n->f.h, msg);
}

/* Something arrives at a broker. */
static void arrive(struct world *w, uint32_t rank, struct item *it)
{
    struct flight *fl = it->fl;
    struct node *n = &w->nodes[rank];

    if (it->kind == RESPONSE) {
        respond_at(w, it);
        return;
    }
    if (it->kind == REQUEST) {
        ck_assert_uint_lt(fl->len, 64);
        fl->path[fl->len] = rank;
        fl->known[fl->len++] = true;
    } else {
        for (unsigned i = 0; i < fl->len; i++) {
            if (fl->path[i] == rank)
                fl->known[i] = false;
        }
    }
    if (rank == fl->to) {
        if (it->kind == NOTICE)
            deliver_notice(n, fl);
        else
            flux_handle_deliver(n->f.h, flux_msg_copy(fl->msg));
        item_free(it);
    } else if (w->nodes[fl->to].dead) {
        if (it->kind == REQUEST)
            fail_at(w, fl, fl->len - 1);
        item_free(it);
    } else {
        enqueue(w, rank, hop(w, rank, fl->to), it);
    }
}

/* --- what instances send --- */

static void answer_own(struct node *n, flux_msg_t *req)
{
    bool attr = strcmp(flux_msg_topic(req), "attr.get") == 0;
    flux_msg_t *resp = flux_msg_response_create(req, attr ? ENOENT : 0);
    char text[100];

    snprintf(text, sizeof(text), "{\"seq\":1}");
    if (attr)
        snprintf(text, sizeof(text), "no such attribute");
    if (strcmp(flux_msg_topic(req), "overlay.topology") == 0)
        snprintf(text, sizeof(text), "{\"topology\":\"%s\",\"size\":%d,\"file\":\"\"}",
                 n->w->chain ? "chain" : "kary:2", RANKS);
    flux_msg_set_json(resp, text);
    flux_msg_destroy(req);
    ck_assert_uint_lt(n->nsent, 64);
    n->own[n->nsent++] = resp;
}

static void send_request(struct node *n, flux_msg_t *msg)
{
    struct world *w = n->w;
    struct flight *fl = calloc(1, sizeof(*fl));

    ck_assert_ptr_nonnull(fl);
    fl->from = n->rank;
    fl->to = flux_msg_has_flag(msg, FLUX_MSGF_UPSTREAM) ? n->parent : flux_msg_nodeid(msg);
    fl->tag = flux_msg_matchtag(msg);
    fl->msg = msg;
    flux_msg_set_cred(msg, 0, FLUX_ROLE_BROKER);
    flux_msg_route_push(msg, flux_route_make(FLUX_ROUTE_ENDPOINT, 1));
    flux_msg_route_push(msg, flux_route_make(FLUX_ROUTE_TREE, n->rank));
    fl->next = w->flights;
    w->flights = fl;
    enqueue(w, n->rank, n->rank, item_new(REQUEST, fl, NULL, 0));
}

static void client_answered(struct world *w, flux_msg_t *msg)
{
    struct client *c = &w->clients[flux_msg_matchtag(msg) % CLIENTS];
    int errnum = flux_msg_errnum(msg);

    ck_assert(c->waits);
    c->waits = false;
    c->results[c->round - 1] = errnum;
    flux_msg_destroy(msg);
}

static void sent(struct fake *f, flux_msg_t *msg)
{
    struct node *n = f->user;
    struct world *w = n->w;

    if (!n->dead && flux_msg_type(msg) == FLUX_MSG_RESPONSE) {
        struct flight *fl = w->flights;

        if (flux_msg_route_count(msg) == 1) {
            client_answered(w, msg);
            return;
        }
        while (fl && (fl->from != flux_route_value(flux_msg_route_at(msg, 1)) ||
                      fl->tag != flux_msg_matchtag(msg) || fl->to != n->rank))
            fl = fl->next;
        ck_assert_ptr_nonnull(fl);
        enqueue(w, n->rank, n->rank, item_new(RESPONSE, fl, msg, fl->len - 1));
    } else if (n->dead || flux_msg_type(msg) != FLUX_MSG_REQUEST ||
               flux_msg_has_flag(msg, FLUX_MSGF_NORESPONSE)) {
        flux_msg_destroy(msg);
    } else if (strncmp(flux_msg_topic(msg), "kvs.", 4) == 0) {
        send_request(n, msg);
    } else {
        answer_own(n, msg);
    }
}

/* --- who dies --- */

static void event_all(struct world *w, const char *topic, const char *text)
{
    for (uint32_t r = 0; r < RANKS; r++) {
        struct node *n = &w->nodes[r];
        flux_msg_t *msg;

        if (n->dead)
            continue;
        ck_assert_uint_lt(n->nevents, 32);
        msg = flux_msg_create(FLUX_MSG_EVENT, topic);
        flux_msg_set_json(msg, text);
        n->events[n->nevents++] = msg;
    }
}

static void node_end(struct node *n)
{
    if (!n->ctx)
        return;
    n->dead = true; /* whatever it says now, nobody hears */
    flux_module_kvs.fini(n->f.h, n->ctx);
    n->ctx = NULL;
    flux_close(n->f.h);
    flux_reactor_destroy(n->f.r);
    for (unsigned i = n->heard; i < n->nevents; i++)
        flux_msg_destroy(n->events[i]);
    for (unsigned i = 0; i < n->nsent; i++)
        flux_msg_destroy(n->own[i]);
    n->nevents = n->heard = n->nsent = n->ndeferred = 0;
}

static void queue_clear(struct queue *q)
{
    struct item *it;

    while ((it = q->first)) {
        q->first = it->next;
        item_free(it);
    }
    q->last = &q->first;
}

static void forget_links(struct world *w, uint32_t rank)
{
    for (uint32_t r = 0; r < RANKS; r++) {
        /* What has left a broker for the dead one is known there. */
        for (struct item *it = w->links[r][rank].first; it && r != rank; it = it->next) {
            if (it->kind == REQUEST)
                fail_at(w, it->fl, it->fl->len - 1);
        }
        queue_clear(&w->links[r][rank]);
        queue_clear(&w->links[rank][r]);
    }
}

static void flight_broken(struct world *w, struct flight *fl, uint32_t rank)
{
    for (unsigned k = 0; k < fl->len; k++) {
        if (fl->path[k] != rank)
            continue;
        fl->known[k] = false;
        if (k + 1 < fl->len && fl->known[k + 1] && !w->nodes[fl->path[k + 1]].dead)
            enqueue(w, fl->path[k + 1], fl->path[k + 1], item_new(NOTICE, fl, NULL, 0));
        if (k > 0)
            fail_at(w, fl, k - 1);
        return;
    }
}

static void kill_rank(struct world *w, uint32_t rank)
{
    struct node *n = &w->nodes[rank];
    char text[100];

    for (unsigned i = 0; i < w->nclients; i++)
        w->lost |= w->clients[i].rank == rank;
    n->dead = true;
    for (struct flight *fl = w->flights; fl; fl = fl->next)
        flight_broken(w, fl, rank);
    forget_links(w, rank);
    node_end(n);
    snprintf(text, sizeof(text), "{\"ranks\":\"%u\",\"map\":%u}", rank, ++w->map);
    event_all(w, "overlay.down", text);
    for (uint32_t r = 0; r < RANKS; r++) {
        struct node *c = &w->nodes[r];

        if (c->dead || c->parent != rank || r == 0)
            continue;
        c->parent = n->parent;
        snprintf(text, sizeof(text), "{\"rank\":%u,\"parent\":%u,\"move\":%u,\"map\":%u}", r,
                 c->parent, w->map + 1, w->map + 1);
        w->map++;
        event_all(w, "overlay.moved", text);
    }
}

static bool takes_part(const struct world *w, uint32_t rank)
{
    for (unsigned i = 0; i < w->nclients; i++) {
        if (w->clients[i].rank == rank)
            return true;
    }
    return false;
}

static void kill_one(struct world *w)
{
    uint32_t rank = 1 + choose(w, RANKS - 1);

    if (w->kills == 0)
        return;
    w->kills--;
    if (!w->nodes[rank].dead && (w->anybody || !takes_part(w, rank)))
        kill_rank(w, rank);
}

/* --- clients --- */

static void put_call(struct kvs_txn_buf *txn, unsigned client, unsigned round)
{
    char key[32], letter = (char)('a' + client);

    snprintf(key, sizeof(key), "own.%u.%u", client, round);
    ck_assert_int_eq(kvs_txn_buf_add(txn, KVS_OP_PUT, 0, key, strlen(key), "v", 1, NULL), 0);
    if (client % 3 == 0)
        return; /* only puts */
    snprintf(key, sizeof(key), "all.%u", round);
    ck_assert_int_eq(kvs_txn_buf_add(txn, KVS_OP_APPEND, 0, key, strlen(key), &letter, 1, NULL), 0);
}

static void call(struct world *w, unsigned i)
{
    struct client *c = &w->clients[i];
    struct kvs_txn_buf txn = {0};
    struct kvs_fence_req q = {.nprocs = w->nclients,
                              .count = 1,
                              .rank = c->rank,
                              .ns = "primary",
                              .nslen = 7,
                              .name = "meet",
                              .namelen = 4,
                              .ranks = w->named ? w->ranks : ""};
    flux_msg_t *msg = flux_msg_create(FLUX_MSG_REQUEST, "kvs.fence");
    uint8_t buf[1024];

    put_call(&txn, i, ++c->round);
    q.rankslen = strlen(q.ranks);
    q.txn = txn.data;
    q.txnlen = txn.len;
    ck_assert_uint_le(kvs_fence_req_size(&q), sizeof(buf));
    kvs_fence_req_encode(&q, buf);
    flux_msg_set_raw(msg, buf, kvs_fence_req_size(&q));
    flux_msg_set_cred(msg, 0, FLUX_ROLE_OWNER);
    flux_msg_set_matchtag(msg, c->round * CLIENTS + i);
    flux_msg_route_push(msg, flux_route_make(FLUX_ROUTE_ENDPOINT, 100 + i));
    kvs_txn_buf_clear(&txn);
    c->waits = true;
    flux_handle_deliver(w->nodes[c->rank].f.h, msg);
}

static bool may_call(const struct world *w, const struct client *c)
{
    return !c->waits && c->round < ROUNDS && !w->nodes[c->rank].dead &&
           (c->round == 0 || c->results[c->round - 1] == 0);
}

/* --- the run --- */

/* One thing that may happen now, of the `n` there are; NULL: count them. */
static unsigned things(struct world *w, const unsigned *nth)
{
    unsigned n = 0;

    for (uint32_t a = 0; a < RANKS; a++) {
        struct node *nd = &w->nodes[a];

        for (uint32_t b = 0; b < RANKS; b++) {
            struct queue *q = &w->links[a][b];
            struct item *it = q->first;

            if (!it || (n++, !nth) || n - 1 != *nth)
                continue;
            if (!(q->first = it->next))
                q->last = &q->first;
            arrive(w, b, it);
            return n;
        }
        if (nd->dead)
            continue;
        if (nd->nsent > 0 && (n++, nth) && n - 1 == *nth) {
            flux_msg_t *msg = nd->own[0];

            memmove(nd->own, nd->own + 1, --nd->nsent * sizeof(nd->own[0]));
            flux_handle_deliver(nd->f.h, msg);
            return n;
        }
        if (nd->heard < nd->nevents && (n++, nth) && n - 1 == *nth) {
            flux_handle_deliver(nd->f.h, nd->events[nd->heard++]);
            return n;
        }
        if (nd->ndeferred > 0 && (n++, nth) && n - 1 == *nth) {
            flux_watcher_t *dw = nd->deferred[0];

            memmove(nd->deferred, nd->deferred + 1, --nd->ndeferred * sizeof(nd->deferred[0]));
            flux_watcher_fire(dw);
            return n;
        }
    }
    return n;
}

static bool step(struct world *w)
{
    unsigned n = things(w, NULL), nth;

    w->now += 0.001;
    if (n == 0)
        return false;
    nth = choose(w, n);
    things(w, &nth);
    return true;
}

static void run(struct world *w)
{
    unsigned idle = 0;

    while (step(w))
        ; /* all have a root */
    while (idle < 2) {
        unsigned i = choose(w, w->nclients);

        if (choose(w, 8) == 0 && may_call(w, &w->clients[i]))
            call(w, i);
        if (choose(w, 60) == 0)
            kill_one(w);
        if (step(w)) {
            idle = 0;
            continue;
        }
        for (i = 0; i < w->nclients && !may_call(w, &w->clients[i]); i++)
            ;
        if (i < w->nclients)
            call(w, i);
        else
            idle++;
    }
}

/* --- the proof --- */

/* What is at a key of the master; "": nothing. */
static void text_of(struct world *w, const char *key, char *out, size_t size)
{
    struct km *k = w->nodes[0].ctx;
    struct km_ns *ns = k->primary;
    struct treeobj_entry e;
    errmsg_t err;

    out[0] = '\0';
    if (kvswalk_find(ns->content, ns->root, key, strlen(key), 0, &e, NULL, km_load_miss_begin(k),
                     &err) == 0) {
        ck_assert_int_eq(e.type, TREEOBJ_VALUE);
        snprintf(out, size, "%.*s", (int)e.len, (const char *)e.data);
    }
}

static void expect_applied(struct world *w, unsigned round)
{
    char key[32], text[64], *p;
    size_t n = 0;

    snprintf(key, sizeof(key), "all.%u", round);
    text_of(w, key, text, sizeof(text));
    for (unsigned i = 0; i < w->nclients; i++) {
        char own[8];

        if (i % 3 != 0) {
            n++;
            p = strchr(text, 'a' + (int)i);
            ck_assert_msg(p && !strchr(p + 1, *p), "client %u: '%s'", i, text);
        }
        snprintf(key, sizeof(key), "own.%u.%u", i, round);
        text_of(w, key, own, sizeof(own));
        ck_assert_str_eq(own, "v");
    }
    ck_assert_uint_eq(strlen(text), n);
}

static void expect_not_applied(struct world *w, unsigned round)
{
    char key[32], text[64];

    for (unsigned i = 0; i < w->nclients; i++) {
        snprintf(key, sizeof(key), "own.%u.%u", i, round);
        text_of(w, key, text, sizeof(text));
        ck_assert_str_eq(text, "");
    }
}

static void prove_round(struct world *w, unsigned round)
{
    int result = -1;

    for (unsigned i = 0; i < w->nclients; i++) {
        const struct client *c = &w->clients[i];

        if (w->nodes[c->rank].dead || c->round < round)
            continue;
        ck_assert_msg(!c->waits || c->round > round, "client %u waits", i);
        if (result < 0)
            result = c->results[round - 1];
        ck_assert_int_eq(c->results[round - 1], result);
    }
    if (!w->lost)
        ck_assert_int_eq(result, 0);
    if (result == 0)
        expect_applied(w, round);
    else if (result > 0) {
        ck_assert_int_eq(result, ECONNABORTED);
        expect_not_applied(w, round);
    }
}

static void prove(struct world *w)
{
    const struct km *k = w->nodes[0].ctx;

    for (unsigned round = 1; round <= ROUNDS; round++)
        prove_round(w, round);
    if (!w->lost)
        ck_assert_uint_eq(k->primary->st.root_changes, ROUNDS);
    for (uint32_t r = 0; r < RANKS; r++) {
        const struct km *at = w->nodes[r].ctx;

        if (!w->nodes[r].dead)
            ck_assert_uint_eq(km_fence_count(at->primary), 0);
    }
}

/* --- a world --- */

static void node_start(struct world *w, uint32_t rank)
{
    struct node *n = &w->nodes[rank];
    errmsg_t err;

    n->w = w;
    n->rank = rank;
    n->parent = rank ? shape_parent(w, rank) : NONE;
    n->f.user = n;
    n->f.hook = sent;
    ck_assert_ptr_nonnull(n->f.r = flux_reactor_create_ops(&engine, n));
    ck_assert_ptr_nonnull(n->f.h =
                              flux_handle_create(&fake_nowait_ops, &n->f, n->f.r, rank, RANKS, 42));
    ck_assert_int_eq(flux_module_kvs.init(n->f.h, 0, NULL, &n->ctx, &err), 0);
}

static void world_make(struct world *w, uint64_t seed)
{
    memset(w, 0, sizeof(*w));
    w->seed = seed * 2654435761u;
    w->now = 1000.;
    w->chain = choose(w, 3) == 0;
    w->kills = choose(w, 4);
    w->anybody = choose(w, 3) == 0;
    w->named = w->anybody || choose(w, 2);
    w->nclients = 2 + choose(w, CLIENTS - 1);
    for (uint32_t a = 0; a < RANKS; a++) {
        for (uint32_t b = 0; b < RANKS; b++)
            queue_clear(&w->links[a][b]);
    }
    for (unsigned i = 0; i < w->nclients; i++) {
        size_t len = strlen(w->ranks);

        w->clients[i].rank = choose(w, 3) ? RANKS / 2 + choose(w, RANKS / 2) : choose(w, RANKS);
        snprintf(w->ranks + len, sizeof(w->ranks) - len, "%s%u", len ? "," : "",
                 w->clients[i].rank);
    }
    for (uint32_t r = 0; r < RANKS; r++)
        node_start(w, r);
}

static void world_end(struct world *w)
{
    struct flight *fl;

    for (uint32_t r = 0; r < RANKS; r++)
        node_end(&w->nodes[r]);
    for (uint32_t a = 0; a < RANKS; a++) {
        for (uint32_t b = 0; b < RANKS; b++)
            queue_clear(&w->links[a][b]);
    }
    while ((fl = w->flights)) {
        w->flights = fl->next;
        flux_msg_destroy(fl->msg);
        free(fl);
    }
}

/* FLUX_TEST_SEED: begin with that one. */
START_TEST(seeds)
{
    const char *first = getenv("FLUX_TEST_SEED");
    static struct world w;

    (void)fake_ops;
    for (unsigned i = 0; i < SEEDS; i++) {
        uint64_t seed = (first ? strtoull(first, NULL, 10) : 1) + i;

        fprintf(stderr, "\rseed %llu ", (unsigned long long)seed);
        world_make(&w, seed);
        run(&w);
        prove(&w);
        world_end(&w);
    }
    fprintf(stderr, "\n");
}
END_TEST

int main(void)
{
    RUN_SUITE("kvs_heal", seeds);
}

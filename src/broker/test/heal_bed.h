/* heal_bed.h - what the tests of broken and restored trees share, on a session in one thread. */
#ifndef BROKER_TEST_HEAL_BED_H
#define BROKER_TEST_HEAL_BED_H

#include "cluster.h"
#include "src/broker/core_private.h"
#include "libidset/idset.h"

#define TIMEOUT 5.

static inline void healing(void)
{
    cl_heal_timeout = TIMEOUT;
    cl_settle = 0.;
    cl_fanout_max = 0;
    cl_event_buffer = 1000;
}

static inline void expect_ranks(const idset_t *ids, const char *want)
{
    char *s = idset_format(ids, 0);

    ck_assert_str_eq(s, want);
    free(s);
}

static inline void expect_running(struct cluster *cl)
{
    for (uint32_t r = 0; r < cl->size; r++) {
        if (!cl->nodes[r].dead)
            ck_assert_msg(core_state(cl->nodes[r].core) == CORE_RUN, "rank %u: %s", r,
                          core_state_name(core_state(cl->nodes[r].core)));
    }
}

/* The link between a broker and its parent is bad, and the parent knows that the broker lives. */
static inline void bad_link(struct cluster *cl, uint32_t child, uint32_t parent)
{
    control(cl, parent, child, "overlay.deaf", "{\"deaf\":true}");
    core_peer_lost(cl->nodes[child].core, CORE_TREE, parent, "it is silent");
}

/* The connection breaks, and both live: the parent notices it first. */
static inline void disconnect(struct cluster *cl, uint32_t parent, uint32_t child)
{
    core_peer_lost(cl->nodes[parent].core, CORE_TREE, child, "the connection was lost");
    core_peer_lost(cl->nodes[child].core, CORE_TREE, parent, "the connection was lost");
}

/* Such a child moves to another parent. */
static inline void move_away(struct cluster *cl, uint32_t child, uint32_t parent, uint32_t to)
{
    bad_link(cl, child, parent);
    cl_sleep(cl, 2.);
    ck_assert_uint_eq(cl->nodes[child].parent, to);
}

/* Remove the module and the client of each rank that has a client. */
static inline void remove_parties(struct cluster *cl, struct party **m, struct party **c)
{
    for (uint32_t r = 0; r < cl->size; r++) {
        if (!c[r])
            continue;
        core_endpoint_remove(m[r]->ep, ENOSYS, "over");
        core_endpoint_remove(c[r]->ep, 0, "");
        party_free(m[r]);
        party_free(c[r]);
    }
    cl_pump(cl);
}

/* A request from each living rank to each is answered, one to a dead rank fails, and nothing is
 * left of either but what was in flight before. */
static inline void expect_routes_beside(struct cluster *cl, uint64_t inflight)
{
    struct party *m[MAX_NODES] = {NULL};
    struct party *c[MAX_NODES] = {NULL};

    for (uint32_t r = 0; r < cl->size; r++) {
        if (cl->nodes[r].dead)
            continue;
        m[r] = module(cl, r, "there");
        c[r] = client(cl, r);
    }
    for (uint32_t from = 0; from < cl->size; from++) {
        for (uint32_t to = 0; c[from] && to < cl->size; to++) {
            size_t n = c[from]->n;

            ask(c[from], "there.it", to);
            cl_pump(cl);
            if (m[to]) {
                ck_assert_msg(m[to]->n == 1, "rank %u does not reach rank %u", from, to);
                answer(m[to], 0, 0, 0, "1");
                cl_pump(cl);
                party_clear(m[to]);
            }
            ck_assert_msg(c[from]->n == n + 1, "rank %u to rank %u: %zu answers", from, to,
                          c[from]->n - n);
            ck_assert_int_eq(flux_msg_errnum(c[from]->kept[n]), m[to] ? 0 : EHOSTUNREACH);
        }
    }
    ck_assert_uint_eq(cl_inflight(cl), inflight);
    remove_parties(cl, m, c);
}

static inline void expect_routes(struct cluster *cl)
{
    expect_routes_beside(cl, 0);
}

/* All that live run, and reach each other. */
static inline void expect_whole(struct cluster *cl)
{
    expect_running(cl);
    expect_routes(cl);
}

/* Rank 0 counts as up those that live, and no others, and they have all events. */
static inline void expect_counted(struct cluster *cl)
{
    const core_t *root = cl->nodes[0].core;

    for (uint32_t r = 0; r < cl->size; r++) {
        ck_assert_msg(idset_test(core_ranks_up(root), r) == !cl->nodes[r].dead, "rank %u: %s", r,
                      cl->nodes[0].log);
        if (!cl->nodes[r].dead)
            ck_assert_uint_eq(core_event_seq(cl->nodes[r].core), core_event_seq(root));
    }
}

/* The module has one request, and answers: that is the first answer that the client gets. */
static inline void expect_served(struct cluster *cl, struct party *m, struct party *c)
{
    ck_assert_uint_eq(m->n, 1);
    answer(m, 0, 0, 0, "1");
    cl_pump(cl);
    expect_answer(c, 1, 0, NULL);
}

/* The last request that the module has is low.it: its answer is the second one of the client. */
static inline void answer_low_it(struct cluster *cl, struct party *m, struct party *c)
{
    ck_assert_str_eq(flux_msg_topic(m->kept[m->n - 1]), "low.it");
    answer(m, m->n - 1, 0, 0, "1");
    cl_pump(cl);
    expect_answer(c, 2, 0, NULL);
}

/* An orphan of a chain says hello, as a broker of this session or of another one. */
static inline void hello(struct cluster *cl, uint32_t to, uint32_t from, const char *below,
                         unsigned incarnation, bool foreign)
{
    unsigned long long session = cl->nodes[to].core->session + foreign;
    char json[200];

    snprintf(json, sizeof(json),
             "{\"rank\":%u,\"size\":%u,\"topology\":\"chain\",\"version\":1,\"below\":\"%s\","
             "\"incarnation\":%u,\"move\":%u,\"session\":%llu}",
             from, cl->size, below, incarnation, incarnation << 16 | 1, session);
    control(cl, to, from, "overlay.hello", json);
}

/* The test speaks for a dead broker of a chain: it connects, and says what is below it. */
static inline void connect_as(struct cluster *cl, uint32_t rank, uint32_t to, const char *below)
{
    core_t *above = cl->nodes[to].core;

    ck_assert(core_peer_adopt(above, rank));
    core_peer_back(above, CORE_TREE, rank);
    core_child_event_up(above, rank);
    hello(cl, to, rank, below, 1, false);
}

static inline uint32_t parent_of(struct cluster *cl, uint32_t at, uint32_t rank)
{
    struct party *c = client(cl, at);
    json_t *o;
    const char *text;
    topology_t *t;
    uint32_t parent;

    ask(c, "overlay.topology", at);
    ck_assert_uint_eq(c->n, 1);
    o = json_loads(flux_msg_json(c->kept[0]), 0, NULL);
    text = json_string_value(json_object_get(o, "file"));
    ck_assert_ptr_nonnull(t = topology_create_text(text, strlen(text), "tree", cl->size, NULL));
    parent = topology_parent(t, rank);
    topology_destroy(t);
    json_decref(o);
    party_leave(c);
    return parent;
}

static inline void expect_parents(struct cluster *cl, uint32_t rank, uint32_t parent)
{
    for (uint32_t r = 0; r < cl->size; r++) {
        if (!cl->nodes[r].dead)
            ck_assert_msg(parent_of(cl, r, rank) == parent, "rank %u knows another parent of %u", r,
                          rank);
    }
}

static inline void publish(struct cluster *cl)
{
    struct party *c = client(cl, 0);
    flux_msg_t *ev = flux_msg_create(FLUX_MSG_EVENT, "some.thing");
    flux_msg_t *req = flux_msg_create(FLUX_MSG_REQUEST, "event.publish");
    size_t len = flux_msg_encoded_size(ev);
    void *buf = malloc(len + 1);

    flux_msg_encode(ev, buf);
    flux_msg_set_nodeid(req, 0);
    flux_msg_set_matchtag(req, 1);
    ck_assert_int_eq(flux_msg_take_raw(req, buf, len), 0);
    core_endpoint_input(c->ep, req);
    ck_assert_uint_eq(c->n, 1);
    ck_assert_int_eq(flux_msg_errnum(c->kept[0]), 0);
    party_leave(c);
    flux_msg_destroy(ev);
}

static inline struct party *subscriber(struct cluster *cl, uint32_t rank)
{
    struct party *p = client(cl, rank);

    ask_flags(p, "event.subscribe", FLUX_NODEID_ANY, 0, "{\"prefix\":\"some.\"}");
    ck_assert_uint_eq(p->n, 1);
    party_clear(p);
    return p;
}

static inline void start_again(struct cluster *cl, uint32_t rank)
{
    cl_restart(cl, rank);
    cl_pump(cl);
    core_local_ready(cl->nodes[rank].core);
    cl_pump(cl);
}

/* A broker dies, all have noticed that, and the next one of its rank is there. */
static inline void replace(struct cluster *cl, uint32_t rank)
{
    cl_kill(cl, rank);
    cl_sleep(cl, 1.);
    start_again(cl, rank);
}

static inline uint64_t next(uint64_t *seed)
{
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    return *seed;
}

/* By chance, a broker dies, with less than `frames` frames, and perhaps some time, after that; or a
 * dead one whose parent runs is started again, with `rest` seconds after that.  Then an event is
 * published. */
static inline void chance_step(struct cluster *cl, uint64_t *seed, uint64_t frames, double rest)
{
    uint32_t r = 1 + next(seed) % (cl->size - 1);
    uint32_t up = topology_parent(core_topology(cl->nodes[0].core), r);

    if (!cl->nodes[r].dead) {
        cl_kill(cl, r);
        for (uint64_t n = next(seed) % frames; n > 0; n--)
            cl_step(cl);
        if (next(seed) % 2)
            cl_sleep(cl, (double)(next(seed) % 700) / 100.);
    } else if (!cl->nodes[up].dead && core_state(cl->nodes[up].core) == CORE_RUN) {
        cl_sleep(cl, 1.);
        start_again(cl, r);
        cl_sleep(cl, rest);
    }
    publish(cl);
}

#endif

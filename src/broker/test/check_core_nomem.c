/* check_core_nomem.c - brokers without memory while a tree heals: each allocation of the core fails
 * once, in a run of its own, while a broker dies, while a parent with too many children spreads
 * them, and while a broker leaves.  What was lost may then be known to some brokers only, which is
 * what the reserve of a broker prevents (reserve.c); but a broker runs, or one has said that it is
 * out of memory; requests are answered, no event comes again or is missing unless its subscriber
 * was told, nothing is leaked, and the session goes on.
 *
 * Where a subtree returns to its place, a broker joins, a link is bad, or events are missed, a lost
 * message ends a connection only (core_broken.c): all is whole again afterwards.  A broker that did
 * not run yet may have ended, and is started again. */
#include "config.h"

#include <jansson.h>

#include "heal_bed.h"
#include "libutil/test/fail_at.h"
#include "libutil/test/suite.h"

#define SIZE 7

static void spare(bool yes)
{
    sparing += yes ? 1 : -1u;
}

/* An assertion of the test that holds allocates, too. */
void __real__mark_point(const char *file, int line);
void __wrap__mark_point(const char *file, int line);

void __wrap__mark_point(const char *file, int line)
{
    spare(true);
    __real__mark_point(file, line);
    spare(false);
}

static void setup(void)
{
    healing();
    cl_spare = spare;
    cl_hangs_up = true;
    json_set_alloc_funcs(__wrap_malloc, free);
}

/* The root runs, and each request between brokers that run is answered once. */
static void expect_service(struct cluster *cl, unsigned k)
{
    struct party *m[SIZE] = {NULL}, *c[SIZE] = {NULL};

    ck_assert_msg(core_state(cl->nodes[0].core) == CORE_RUN, "allocation %u: rank 0: %s", k,
                  core_state_name(core_state(cl->nodes[0].core)));
    for (uint32_t r = 0; r < SIZE; r++) {
        bool runs = !cl->nodes[r].dead && core_state(cl->nodes[r].core) == CORE_RUN;

        if (!runs)
            continue;
        m[r] = module(cl, r, "there");
        c[r] = client(cl, r);
    }
    for (uint32_t i = 0; i < SIZE * SIZE; i++) {
        uint32_t from = i / SIZE, to = i % SIZE;
        size_t n = c[from] ? c[from]->n : 0;

        if (!c[from])
            continue;
        ask(c[from], "there.it", to);
        cl_pump(cl);
        if (m[to] && m[to]->n > 0)
            answer(m[to], 0, 0, 0, "1");
        cl_pump(cl);
        if (m[to])
            party_clear(m[to]);
        ck_assert_msg(c[from]->n == n + 1, "allocation %u: rank %u to rank %u: %zu answers", k,
                      from, to, c[from]->n - n);
        if (!m[to])
            ck_assert_int_ne(flux_msg_errnum(c[from]->kept[n]), 0);
    }
    ck_assert_uint_eq(cl_inflight(cl), 0);
    remove_parties(cl, m, c);
}

static bool out_of_memory(const struct cluster *cl)
{
    for (uint32_t r = 0; r < SIZE; r++) {
        if (strstr(cl->nodes[r].log, "out of memory"))
            return true;
    }
    return false;
}

/* All brokers run but the one that was to end, or one has said why not.  Those that have ended are
 * gone. */
static void expect_states(struct cluster *cl, uint32_t ends, unsigned k)
{
    for (uint32_t r = 0; r < SIZE; r++) {
        struct node *nd = &cl->nodes[r];
        enum core_state state = core_state(nd->core);

        if (nd->dead || state == CORE_RUN)
            continue;
        ck_assert_msg(r == ends || out_of_memory(cl),
                      "allocation %u: rank %u: %s: %s--- of rank 0: %s", k, r,
                      core_state_name(state), nd->log, cl->nodes[0].log);
        if (state == CORE_EXIT)
            cl_kill(cl, r);
    }
    cl_sleep(cl, 3. * TIMEOUT);
}

/* The events that a subscriber has got are consecutive, but for those that are lost, as it was
 * told.  It has the last one, unless a broker was out of memory. */
static void expect_events(struct cluster *cl, const struct party *s, unsigned k)
{
    unsigned long long last = 0, from, to;

    for (size_t i = 0; i < s->n; i++) {
        const flux_msg_t *msg = s->kept[i];

        if (flux_msg_type(msg) != FLUX_MSG_EVENT)
            continue;
        from = to = flux_msg_seq(msg);
        if (strcmp(flux_msg_topic(msg), "event.lost") == 0)
            ck_assert_int_eq(sscanf(flux_msg_json(msg), "{\"from\":%llu,\"to\":%llu}", &from, &to),
                             2);
        ck_assert_msg(last == 0 || from == last + 1, "allocation %u: event %llu comes after %llu",
                      k, from, last);
        last = to;
    }
    ck_assert_msg(last == core_event_seq(cl->nodes[0].core) || out_of_memory(cl),
                  "allocation %u: event %llu is the last one", k, last);
}

static void die(struct cluster *cl)
{
    cl_kill(cl, 1);
    cl_sleep(cl, 1.);
}

static void leave(struct cluster *cl)
{
    core_leave(cl->nodes[2].core, 0, "enough");
    cl_sleep(cl, 1.);
}

/* What brokers do while an allocation fails. */
static const struct change {
    uint32_t fanout_max;
    uint32_t ends; /* this rank */
    void (*happens)(struct cluster *cl);
} changes[] = {{0, 1, die}, {2, 1, die}, {0, 2, leave}};

/* Returns whether the allocation was reached. */
static bool change_without(const struct change *ch, unsigned k)
{
    struct cluster *cl;
    struct party *s;
    bool reached;

    cl_fanout_max = ch->fanout_max;
    cl = cl_up(SIZE, "kary:2");
    s = client(cl, 3);
    ask_flags(s, "event.subscribe", FLUX_NODEID_ANY, 0, "{\"prefix\":\"\"}");
    publish(cl);
    cl_pump(cl);

    fail_at = k;
    ch->happens(cl);
    reached = stop_failing() == 0;
    cl_sleep(cl, 3. * TIMEOUT);
    expect_states(cl, ch->ends, k);
    expect_service(cl, k);
    publish(cl);
    cl_sleep(cl, TIMEOUT);
    if (!cl->nodes[3].dead)
        expect_events(cl, s, k);
    cl_free(cl);
    return reached;
}

START_TEST(change)
{
    unsigned k = 1;

    while (change_without(&changes[_i], k))
        k += suite_stride();
    ck_assert_uint_gt(k, 300);
}
END_TEST

/* --- the session is whole again --- */

#define FAR 4 /* its client and its module are not those of a broker that changes */

/* The children of rank 1 are below rank 0, and it is back. */
static void returned(struct cluster *cl)
{
    replace(cl, 1);
}

static void give_back(struct cluster *cl)
{
    struct party *c;

    spare(true);
    c = client(cl, 0);
    ask_flags(c, "overlay.restore", 0, 0, "{\"ranks\":\"0-6\"}");
    spare(false);
    cl_sleep(cl, 12.); /* longer than a move may take */
    spare(true);
    party_leave(c);
    spare(false);
}

/* Rank 1 has died, and the next broker of its rank has just said hello. */
static void started(struct cluster *cl)
{
    cl_kill(cl, 1);
    cl_sleep(cl, 1.);
    cl_restart(cl, 1);
}

/* The one that has been started is ready when it has joined. */
static void joins(struct cluster *cl, uint32_t rank)
{
    cl_sleep(cl, 3.);
    if (core_state(cl->nodes[rank].core) == CORE_WIRED)
        core_local_ready(cl->nodes[rank].core);
    cl_sleep(cl, 3.);
}

static void join(struct cluster *cl)
{
    joins(cl, 1);
}

static void started_late(struct cluster *cl)
{
    cl_kill(cl, 1);
    cl_kill(cl, 3);
    cl_sleep(cl, 2. * TIMEOUT);
    cl_restart_as(cl, 3, false);
}

static void join_late(struct cluster *cl)
{
    joins(cl, 3);
}

static void nothing(struct cluster *cl)
{
    (void)cl;
}

/* Rank 3 does not hear its parent, and says so. */
static void deafen(struct cluster *cl)
{
    core_peer_slow(cl->nodes[3].core, CORE_TREE, 1, true);
    cl_pump(cl);
    core_peer_lost(cl->nodes[1].core, CORE_TREE, 3, "it is silent");
    cl_pump(cl);
    core_peer_lost(cl->nodes[3].core, CORE_TREE, 1, "it is silent");
    cl_sleep(cl, 1.);
}

/* Ranks 1 and 3 do not hear each other, but rank 2 hears both. */
static void doubt(struct cluster *cl)
{
    cl->nodes[1].ago[3] = 2.6;
    cl->nodes[2].ago[3] = 1.;
    cl->nodes[4].ago[3] = 2.6;
    core_peer_slow(cl->nodes[1].core, CORE_TREE, 3, true);
    cl_sleep(cl, 0.6);
    core_peer_lost(cl->nodes[1].core, CORE_TREE, 3, "it is silent");
    cl_pump(cl);
    core_peer_lost(cl->nodes[3].core, CORE_TREE, 1, "it is silent");
    cl_sleep(cl, 1.);
}

/* Rank 1, and what is below it, have missed events. */
static void missed(struct cluster *cl)
{
    cl->nodes[1].deaf_to_events = true;
    publish(cl);
    publish(cl);
    cl_pump(cl);
    cl->nodes[1].deaf_to_events = false;
}

static void catch_up(struct cluster *cl)
{
    spare(true);
    publish(cl);
    spare(false);
    cl_sleep(cl, 3.);
}

static const struct mended {
    const char *name;
    uint32_t starts; /* rank that joins, and is started again if it ends; else
                      TOPOLOGY_NONE */
    uint32_t dead;   /* ... and this one */
    unsigned least;  /* number of allocations */
    void (*before)(struct cluster *cl);
    void (*happens)(struct cluster *cl);
} mended[] = {
    {"restore", TOPOLOGY_NONE, TOPOLOGY_NONE, 100, returned, give_back},
    {"join", 1, TOPOLOGY_NONE, 50, started, join},
    {"late", 3, 1, 50, started_late, join_late},
    {"deaf", 3, TOPOLOGY_NONE, 50, nothing, deafen},
    {"third", 3, TOPOLOGY_NONE, 50, nothing, doubt},
    {"events", TOPOLOGY_NONE, TOPOLOGY_NONE, 4, missed, catch_up},
};

/* A broker that has ended, or that was counted as lost, is started again. Its modules are loaded
 * when it has joined. */
static void mend(struct cluster *cl, uint32_t rank, unsigned k)
{
    for (uint32_t r = 0; r < SIZE; r++) {
        struct node *nd = &cl->nodes[r];

        if (nd->dead || core_state(nd->core) == CORE_RUN)
            continue;
        if (core_state(nd->core) == CORE_WIRED) { /* it has joined late */
            core_local_ready(nd->core);
            cl_sleep(cl, TIMEOUT);
            if (core_state(nd->core) == CORE_RUN)
                continue;
        }
        /* It has ended, or has lost its parent before it ran, and is to end (orphan_timeout). */
        ck_assert_msg(r == rank, "allocation %u: rank %u: %s: %s", k, r,
                      core_state_name(core_state(nd->core)), nd->log);
        ck_assert_int_ne(core_state(nd->core), CORE_JOIN);
        cl_kill(cl, r);
        cl_sleep(cl, 3. * TIMEOUT);
        if (!cl->nodes[topology_parent(core_topology(nd->core), r)].dead)
            start_again(cl, r);
        else {
            cl_restart_as(cl, r, false);
            cl_sleep(cl, 3.);
            core_local_ready(cl->nodes[r].core);
        }
        cl_sleep(cl, TIMEOUT);
    }
}

/* Each request that came before is answered once. */
static void expect_one_answer(struct cluster *cl, struct party *m, struct party *c, unsigned k)
{
    for (size_t i = 0; i < m->n; i++) {
        if (flux_msg_type(m->kept[i]) == FLUX_MSG_REQUEST &&
            strcmp(flux_msg_topic(m->kept[i]), "far.it") == 0)
            answer(m, i, 0, 0, "1");
    }
    cl_pump(cl);
    ck_assert_msg(c->n == 1, "allocation %u: %zu answers", k, c->n);
}

/* Returns whether the allocation was reached. */
static bool mended_without(const struct mended *md, unsigned k)
{
    struct cluster *cl;
    struct party *s, *m0, *c0, *m4, *c4;
    bool reached;

    cl = cl_up(SIZE, "kary:2");
    s = client(cl, FAR);
    ask_flags(s, "event.subscribe", FLUX_NODEID_ANY, 0, "{\"prefix\":\"\"}");
    publish(cl);
    cl_pump(cl);
    md->before(cl);
    m0 = module(cl, 0, "far");
    m4 = module(cl, FAR, "far");
    c0 = client(cl, 0);
    c4 = client(cl, FAR);
    ask(c0, "far.it", FAR);
    ask(c4, "far.it", 0);

    fail_at = k;
    md->happens(cl);
    reached = stop_failing() == 0;
    cl_sleep(cl, 3. * TIMEOUT);
    mend(cl, md->starts, k);
    expect_one_answer(cl, m0, c4, k);
    expect_one_answer(cl, m4, c0, k);
    publish(cl);
    cl_sleep(cl, TIMEOUT);
    for (uint32_t r = 0; r < SIZE; r++)
        ck_assert_msg(cl->nodes[r].dead == (r == md->dead), "allocation %u: rank %u", k, r);
    expect_running(cl);
    /* A request of a broker is left if there was no memory for its answer. */
    expect_routes_beside(cl, cl_inflight(cl));
    expect_counted(cl);
    expect_events(cl, s, k);
    cl_free(cl);
    return reached;
}

START_TEST(whole_again)
{
    const struct mended *md = &mended[_i];
    unsigned k = 1;

    cl_fanout_max = 0;
    while (mended_without(md, k))
        k += suite_stride();
    ck_assert_msg(k > md->least, "%s: %u allocations", md->name, k);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("memory");

    tcase_add_checked_fixture(tc, setup, NULL);
    tcase_set_timeout(tc, 180.);
    tcase_add_loop_test(tc, change, 0, sizeof(changes) / sizeof(changes[0]));
    tcase_add_loop_test(tc, whole_again, 0, sizeof(mended) / sizeof(mended[0]));
    return run_case("core_nomem", tc);
}

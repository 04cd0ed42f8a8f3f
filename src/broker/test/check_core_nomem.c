/* check_core_nomem.c - brokers without memory while a tree heals: each allocation of the core fails
 * once, in a run of its own, while a broker dies, while a parent with too many children spreads
 * them, and while a broker leaves.  What was lost may then be known to some brokers only, which is
 * what the reserve of a broker prevents (reserve.c); but a broker runs, or one has said that it is
 * out of memory; requests are answered, no event comes again or is missing unless its subscriber
 * was told, nothing is leaked, and the session goes on. */
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
        k++;
    ck_assert_uint_gt(k, 300);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("memory");

    tcase_add_checked_fixture(tc, setup, NULL);
    tcase_set_timeout(tc, 180.);
    tcase_add_loop_test(tc, change, 0, sizeof(changes) / sizeof(changes[0]));
    return run_case("core_nomem", tc);
}

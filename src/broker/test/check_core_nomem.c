/* check_core_nomem.c - brokers without memory while a tree heals: each allocation of the core fails
 * once, in a run of its own.  What was lost may then be known to some brokers only, which is what
 * the reserve of a broker prevents (reserve.c); but requests are answered, events come in order,
 * nothing is leaked, and the session goes on. */
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

/* The events that a subscriber has got are consecutive, up to the last one or to one that says that
 * some are lost. */
static void expect_events(const struct party *s, unsigned k)
{
    uint64_t last = 0;

    for (size_t i = 0; i < s->n; i++) {
        const flux_msg_t *msg = s->kept[i];

        if (flux_msg_type(msg) != FLUX_MSG_EVENT)
            continue;
        if (strcmp(flux_msg_topic(msg), "event.lost") == 0) {
            last = 0;
            continue;
        }
        ck_assert_msg(last == 0 || flux_msg_seq(msg) > last, "allocation %u: an event comes again",
                      k);
        last = flux_msg_seq(msg);
    }
}

/* Returns whether the allocation was reached. */
static bool heal_without(unsigned k)
{
    struct cluster *cl = cl_up(SIZE, "kary:2");
    struct party *s = client(cl, 3);
    bool reached;

    ask_flags(s, "event.subscribe", FLUX_NODEID_ANY, 0, "{\"prefix\":\"\"}");

    fail_at = k;
    cl_kill(cl, 1);
    cl_sleep(cl, 0.1);
    reached = stop_failing() == 0;
    cl_sleep(cl, 3. * TIMEOUT);
    expect_service(cl, k);
    expect_events(s, k);
    cl_free(cl);
    return reached;
}

START_TEST(heal)
{
    unsigned k = 1;

    while (heal_without(k))
        k++;
    ck_assert_uint_gt(k, 50);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("memory");

    tcase_add_checked_fixture(tc, setup, NULL);
    tcase_set_timeout(tc, 60.);
    tcase_add_test(tc, heal);
    return run_case("core_nomem", tc);
}

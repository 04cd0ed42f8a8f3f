/* fuzz_sched.c - the scheduler, driven by bytes: each is one thing that happens.  Whatever does,
 * no core is given to two jobs. */
#include "config.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz_must.h"
#include "libsched/sched.h"

#define NODES 5
#define CORES 4
#define JOBS 64

struct state {
    sched_t *s;
    uint64_t owner[NODES][CORES];
    bool running[JOBS];
    double now;
    unsigned next;
};

static void die(const char *what)
{
    fprintf(stderr, "fuzz_sched: %s\n", what);
    abort();
}

static void alloc_cb(uint64_t id, rset_t *R, double now, double end, void *arg)
{
    struct state *st = arg;
    struct rset_node rn;

    for (size_t i = 0; rset_node(R, i, &rn); i++) {
        for (uint32_t c = idset_first(rn.cores); c != IDSET_NONE; c = idset_next(rn.cores, c)) {
            if (rn.rank >= NODES || c >= CORES || st->owner[rn.rank][c])
                die("a core is given to two jobs");
            st->owner[rn.rank][c] = id;
        }
    }
    st->running[id % JOBS] = true;
    rset_destroy(R);
}

static void deny_cb(uint64_t id, const char *note, void *arg)
{
}

static void give_back(struct state *st, uint64_t id)
{
    for (unsigned n = 0; n < NODES; n++) {
        for (unsigned c = 0; c < CORES; c++) {
            if (st->owner[n][c] == id)
                st->owner[n][c] = 0;
        }
    }
    st->running[id] = false;
    if (sched_free(st->s, id, st->now) < 0)
        die("a job that runs is not known");
}

static void add(struct state *st, uint8_t a, uint8_t b)
{
    struct rreq r = {.nnodes = a % 4,
                     .nslots = 1 + (a >> 2) % 4,
                     .cores = (a >> 4) % 3,
                     .gpus = (a >> 6) == 3,
                     .memory = b % 5 == 0 ? b : 0,
                     .exclusive = b % 7 == 0,
                     .duration = b % 11 == 0 ? 0. : b};
    struct sched_job job = {++st->next, (b >> 3) % 32, 0, st->now, &r};

    if (st->next < JOBS) {
        if (b % 13 == 0)
            rreq_add_pool(&r, "power", 1 + b % 10, NULL);
        sched_add(st->s, &job, st->now, NULL);
        rreq_clear(&r);
    }
}

static void set_nodes(struct state *st, uint8_t a)
{
    idset_t *up = idset_create();
    idset_t *drained = idset_create();

    for (unsigned n = 0; n < NODES; n++) {
        if ((a >> n) & 1)
            idset_set(up, n);
    }
    if (a & 0x80)
        idset_set(drained, a % NODES);
    sched_nodes(st->s, up, drained, NULL);
    idset_destroy(up);
    idset_destroy(drained);
}

static void set_policy(struct state *st, uint8_t a)
{
    static const char *const queues[] = {"fcfs", "easy", "conservative"};
    static const char *const nodes[] = {"first-fit", "best-fit", "spread"};

    sched_policy_set_queue(st->s, sched_builtin(queues[a % 3]), NULL, NULL);
    sched_policy_set_nodes(st->s, sched_builtin(nodes[a / 3 % 3]), NULL, NULL);
}

static void inventory(struct state *st, bool gpus)
{
    char json[300];
    resgraph_t *g;
    idset_t *up;

    snprintf(json, sizeof(json),
             "{\"nodes\":[{\"ranks\":\"0-%d\",\"hosts\":\"n[0-%d]\",\"cores\":\"0-%d\",%s"
             "\"memory\":200}],\"pools\":[{\"name\":\"power\",\"count\":20}]}",
             NODES - 1, NODES - 1, CORES - 1, gpus ? "\"gpus\":\"0-1\"," : "");
    if (!(g = resgraph_parse(json, strlen(json), NULL)))
        die("no inventory");
    up = resgraph_ranks(g);
    sched_inventory(st->s, g, up, NULL, NULL);
    idset_destroy(up);
    resgraph_destroy(g);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct state st = {.now = 1000.};
    struct sched_ops ops = {alloc_cb, deny_cb, &st};
    char why[SCHED_REASON_MAX];
    double t;

    if (!(st.s = sched_create()))
        return 0;
    inventory(&st, true);
    for (size_t i = 0; i + 2 < size; i += 3) {
        uint8_t a = data[i + 1];
        uint8_t b = data[i + 2];

        switch (data[i] % 10) {
        case 0:
        case 1:
        case 2:
            add(&st, a, b);
            break;
        case 3:
            sched_pass(st.s, st.now, 1 + a, &ops);
            break;
        case 4:
            for (unsigned n = 0; n < JOBS; n++) {
                unsigned id = (a + n) % JOBS;

                if (st.running[id]) {
                    give_back(&st, id);
                    break;
                }
            }
            break;
        case 5:
            st.now += a;
            sched_pass(st.s, st.now, 1000000, &ops);
            break;
        case 6:
            sched_urgency(st.s, a % JOBS, b % 32, st.now);
            break;
        case 7:
            if (b % 2)
                sched_remove(st.s, a % JOBS);
            else
                sched_why_estimate(st.s, a % JOBS, st.now, 0, &t, why);
            break;
        case 8:
            set_nodes(&st, a);
            break;
        default:
            if (b % 2)
                set_policy(&st, a);
            else
                inventory(&st, a % 2);
        }
    }
    sched_destroy(st.s);
    return 0;
}

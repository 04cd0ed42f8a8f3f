/* check_sched_random.c - random workloads, against a scheduler that knows every core by itself.
 *
 * The reference keeps who owns each core and gpu, and the sums of memory and pools, in plain
 * arrays, and finds out everything by trying.  After each pass it checks:
 *
 *    always        what was allocated is what was asked for, on nodes that may be used, and nobody
 *                  else's
 *    fcfs          jobs start in the order of the queue; the first that waits does not fit
 *    easy          the first that waits does not fit; its earliest start (by the limits of those
 *                  that run) never becomes later; nobody waits who fits and would end before that
 *    conservative  nobody's expected start ever becomes later, and everybody starts by then
 *
 * In some runs the resources are available only until a certain time: no job starts that could run
 * longer, a job that cannot start in time delays no other job, and estimates agree with that.
 *
 * To see that it would notice, faults are planted: a policy that is not what it is taken for, a job
 * that is said to have ended while it runs, one that runs longer than it may, a scheduler that does
 * not know that nodes are drained, or when the resources go, or believes in more of a pool than
 * there is.  Each has to be found.
 */
#include "config.h"
#include <check.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libsched/sched.h"
#include "libutil/test/suite.h"

#define NODES 12
#define CORES 8
#define GPUS 2
#define JOBS 160
#define EPS 1e-3
#define TOO_LATE 1.5e-5

enum expect { ANY, FCFS, EASY, CONSERVATIVE };
enum plant {
    NONE,
    EARLY_FREE, /* the scheduler hears of an end that has not happened */
    OVERDUE,    /* jobs run longer than they may */
    DEAF,       /* it does not hear of drained nodes */
    RICH,       /* it believes in twice the pool */
    FOREVER,    /* it does not hear when the resources go */
};

struct mjob {
    struct rreq req;
    uint64_t id;
    uint32_t urgency;
    double submit, start, limit_end, end;
    enum { TO_COME, QUEUED, RUNNING, DONE, DENIED } state;
    bool early;    /* planted: its end was told already */
    bool hopeless; /* was not expected to start in time: lost its place, and has no promise */
    double promised;
    uint32_t share[NODES]; /* memory on each node */
    unsigned slots[NODES];
};

struct model {
    uint64_t seed;
    unsigned nnodes, ncores, ngpus;
    uint64_t memory, pool;
    bool usable[NODES], big[NODES];
    uint64_t core_owner[NODES][CORES], gpu_owner[NODES][GPUS];
    uint64_t memory_used[NODES], pool_used;
    unsigned holders[NODES];
    struct mjob jobs[JOBS + 1];
    unsigned njobs;
    double now, expiration; /* expiration: HUGE_VAL: none */
    enum expect expect;
    enum plant plant;
    bool sliced, forget, whole;
    sched_t *s;
    uint64_t head;
    double shadow;
    uint64_t last_started_key; /* fcfs */
    char violation[256];
    unsigned started, denied;
};

static uint64_t rnd(struct model *m)
{
    m->seed ^= m->seed << 13;
    m->seed ^= m->seed >> 7;
    m->seed ^= m->seed << 17;
    return m->seed * UINT64_C(0x2545f4914f6cdd1d) >> 16;
}

static unsigned upto(struct model *m, unsigned n)
{
    return (unsigned)(rnd(m) % n);
}

static void violate(struct model *m, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void violate(struct model *m, const char *fmt, ...)
{
    va_list ap;

    if (m->violation[0])
        return;
    va_start(ap, fmt);
    vsnprintf(m->violation, sizeof(m->violation), fmt, ap);
    va_end(ap);
}

/* --- the reference --- */

struct world {
    unsigned cores[NODES], gpus[NODES];
    uint64_t memory[NODES], pool;
    bool empty[NODES];
};

static struct world world_now(const struct model *m)
{
    struct world w = {.pool = m->pool - m->pool_used};

    for (unsigned n = 0; n < m->nnodes; n++) {
        for (unsigned c = 0; c < m->ncores; c++)
            w.cores[n] += m->core_owner[n][c] == 0;
        for (unsigned g = 0; g < m->ngpus; g++)
            w.gpus[n] += m->gpu_owner[n][g] == 0;
        w.memory[n] = m->memory - m->memory_used[n];
        w.empty[n] = m->holders[n] == 0;
    }
    return w;
}

static bool node_allowed(const struct model *m, const struct mjob *j, unsigned n)
{
    if (!m->usable[n] || (j->req.ranks && !idset_test(j->req.ranks, n)))
        return false;
    return !j->req.properties || (strcmp(j->req.properties[0], "big") == 0) == m->big[n];
}

static unsigned slots_in(const struct model *m, const struct world *w, const struct mjob *j,
                         unsigned n)
{
    unsigned cores = j->req.cores;
    unsigned slots = 0;

    if (!node_allowed(m, j, n) || (j->req.exclusive && !w->empty[n]))
        return 0;
    if (cores == 0 && j->req.gpus == 0)
        cores = 1;
    while ((slots + 1) * cores <= w->cores[n] && (slots + 1) * j->req.gpus <= w->gpus[n] &&
           (slots + 1) * j->req.memory <= w->memory[n])
        slots++;
    return slots;
}

static bool fits(const struct model *m, const struct world *w, const struct mjob *j)
{
    unsigned per_node = j->req.nslots ? j->req.nslots : 1;
    unsigned found = 0;

    if (j->req.npools > 0 && j->req.pools[0].count > w->pool)
        return false;
    for (unsigned n = 0; n < m->nnodes; n++) {
        unsigned slots = slots_in(m, w, j, n);

        found += j->req.nnodes > 0 ? slots >= per_node : slots;
    }
    return found >= (j->req.nnodes > 0 ? j->req.nnodes : per_node);
}

static bool fits_when_empty(const struct model *m, const struct mjob *j)
{
    struct world w = {.pool = m->pool};

    for (unsigned n = 0; n < m->nnodes; n++) {
        w.cores[n] = m->ncores;
        w.gpus[n] = m->ngpus;
        w.memory[n] = m->memory;
        w.empty[n] = true;
    }
    return fits(m, &w, j);
}

static void give_back(const struct model *m, const struct mjob *j, struct world *w)
{
    for (unsigned n = 0; n < m->nnodes; n++) {
        for (unsigned c = 0; c < m->ncores; c++)
            w->cores[n] += m->core_owner[n][c] == j->id;
        for (unsigned g = 0; g < m->ngpus; g++)
            w->gpus[n] += m->gpu_owner[n][g] == j->id;
        w->memory[n] += j->share[n];
    }
    if (j->req.npools > 0)
        w->pool += j->req.pools[0].count;
}

/* When the job could start if all that run ended by their limits. */
static double earliest(const struct model *m, const struct mjob *j)
{
    struct world w = world_now(m);
    double t = m->now;
    bool gone[JOBS + 1] = {false};

    for (;;) {
        const struct mjob *next = NULL;

        for (unsigned n = 0; n < m->nnodes; n++) {
            w.empty[n] = true;
            for (unsigned i = 1; i <= m->njobs; i++) {
                if (m->jobs[i].state == RUNNING && !gone[i] && m->jobs[i].slots[n] > 0)
                    w.empty[n] = false;
            }
        }
        if (fits(m, &w, j))
            return t;
        for (unsigned i = 1; i <= m->njobs; i++) {
            const struct mjob *r = &m->jobs[i];

            if (r->state == RUNNING && !gone[i] && (!next || r->limit_end < next->limit_end))
                next = r;
        }
        if (!next)
            return HUGE_VAL;
        gone[next->id] = true;
        give_back(m, next, &w);
        if (next->limit_end > t)
            t = next->limit_end;
    }
}

static double latest(const struct model *m, const struct mjob *j)
{
    return j->req.duration > 0. ? m->expiration - j->req.duration : HUGE_VAL;
}

/* Is a before b in the queue? */
static bool before(const struct mjob *a, const struct mjob *b)
{
    return a->urgency != b->urgency ? a->urgency > b->urgency : a->id < b->id;
}

/* The first that can start in time; `planned`: as far as is known now. */
static struct mjob *first_waiting(struct model *m, bool planned)
{
    struct mjob *first = NULL;

    for (unsigned i = 1; i <= m->njobs; i++) {
        struct mjob *j = &m->jobs[i];

        if (j->state == QUEUED && j->urgency > 0 && fits_when_empty(m, j) &&
            m->now <= latest(m, j) + TOO_LATE && (!first || before(j, first)) &&
            (!planned || earliest(m, j) <= latest(m, j) + EPS))
            first = j;
    }
    return first;
}

/* --- what the scheduler says --- */

static void take_node(struct model *m, struct mjob *j, const struct rset_node *rn)
{
    unsigned n = rn->rank;
    unsigned per_slot = j->req.cores || j->req.gpus ? j->req.cores : 1;
    size_t cores = idset_count(rn->cores);
    size_t gpus = idset_count(rn->gpus);

    if (n >= m->nnodes || !node_allowed(m, j, n)) {
        violate(m, "job %ju is on node %u, which it may not have", (uintmax_t)j->id, n);
        return;
    }
    if (j->req.exclusive && (m->holders[n] > 0 || cores != m->ncores || gpus != m->ngpus))
        violate(m, "job %ju has not the whole of node %u", (uintmax_t)j->id, n);
    m->holders[n]++;
    j->slots[n] = per_slot ? (unsigned)(cores / per_slot) : (unsigned)(gpus / j->req.gpus);
    if (!j->req.exclusive &&
        (cores != (size_t)j->slots[n] * per_slot || gpus != (size_t)j->slots[n] * j->req.gpus ||
         rn->memory != j->slots[n] * j->req.memory))
        violate(m, "job %ju has no whole slots on node %u", (uintmax_t)j->id, n);
    for (uint32_t c = idset_first(rn->cores); c != IDSET_NONE; c = idset_next(rn->cores, c)) {
        if (c >= m->ncores || m->core_owner[n][c] != 0) {
            violate(m, "job %ju has core %u of node %u, which is another's", (uintmax_t)j->id, c,
                    n);
            continue;
        }
        m->core_owner[n][c] = j->id;
    }
    for (uint32_t g = idset_first(rn->gpus); g != IDSET_NONE; g = idset_next(rn->gpus, g)) {
        if (g >= m->ngpus || m->gpu_owner[n][g] != 0) {
            violate(m, "job %ju has gpu %u of node %u, which is another's", (uintmax_t)j->id, g, n);
            continue;
        }
        m->gpu_owner[n][g] = j->id;
    }
    j->share[n] = (uint32_t)rn->memory;
    m->memory_used[n] += rn->memory;
    if (m->memory_used[n] > m->memory)
        violate(m, "node %u has no more memory for job %ju", n, (uintmax_t)j->id);
}

static void check_count(struct model *m, const struct mjob *j, size_t nodes)
{
    unsigned want = j->req.nslots ? j->req.nslots : 1;
    unsigned slots = 0;

    for (unsigned n = 0; n < m->nnodes; n++) {
        slots += j->slots[n];
        if (!j->req.exclusive && j->req.nnodes > 0 && j->slots[n] > 0 && j->slots[n] != want)
            violate(m, "job %ju has %u slots on node %u", (uintmax_t)j->id, j->slots[n], n);
    }
    if (j->req.nnodes > 0  ? nodes != j->req.nnodes
        : j->req.exclusive ? slots < want
                           : slots != want)
        violate(m, "job %ju has %zu nodes, %u slots", (uintmax_t)j->id, nodes, slots);
}

static void alloc_cb(uint64_t id, rset_t *R, double now, double end, void *arg)
{
    struct model *m = arg;
    struct mjob *j = &m->jobs[id];
    struct rset_node rn;

    if (id > m->njobs || j->state != QUEUED || j->urgency == 0) {
        violate(m, "job %ju starts, which does not wait", (uintmax_t)id);
        rset_destroy(R);
        return;
    }
    if (m->head && before(j, &m->jobs[m->head]))
        m->head = 0; /* more urgent, come in later */
    if (m->expect == FCFS && !m->sliced && first_waiting(m, false) != j)
        violate(m, "job %ju starts before its turn", (uintmax_t)id);
    if (m->now > latest(m, j) + EPS)
        violate(m, "job %ju starts at %.3f, and would end after the resources go", (uintmax_t)id,
                m->now);
    if (m->expect == CONSERVATIVE && j->promised > 0. && m->now > j->promised + EPS)
        violate(m, "job %ju starts at %.3f, %.3f was promised", (uintmax_t)id, m->now, j->promised);
    for (size_t i = 0; rset_node(R, i, &rn); i++)
        take_node(m, j, &rn);
    check_count(m, j, rset_nnodes(R));
    if (j->req.npools > 0)
        m->pool_used += j->req.pools[0].count;
    if (m->pool_used > m->pool ||
        rset_pool_count(R, "power") != (j->req.npools ? j->req.pools[0].count : 0))
        violate(m, "more of the pool is used than there is");
    rset_destroy(R);
    j->state = RUNNING;
    j->start = m->now;
    j->limit_end = m->now + (j->req.duration > 0. ? j->req.duration : SCHED_HORIZON);
    j->end = m->now + (j->req.duration > 0. ? ceil(j->req.duration * (1 + upto(m, 4)) / 4.)
                                            : 1. + upto(m, 60));
    if (m->plant == OVERDUE && j->req.duration > 0. && upto(m, 4) == 0)
        j->end = m->now + 3. * j->req.duration;
    m->started++;
}

static void deny_cb(uint64_t id, const char *note, void *arg)
{
    struct model *m = arg;
    bool usable[NODES];

    memcpy(usable, m->usable, sizeof(usable));
    memset(m->usable, true, sizeof(m->usable));
    if (fits_when_empty(m, &m->jobs[id]))
        violate(m, "job %ju is denied, but could run: %s", (uintmax_t)id, note);
    memcpy(m->usable, usable, sizeof(usable));
    m->jobs[id].state = DENIED;
    m->denied++;
}

static void job_over(struct model *m, struct mjob *j)
{
    for (unsigned n = 0; n < m->nnodes; n++) {
        for (unsigned c = 0; c < m->ncores; c++) {
            if (m->core_owner[n][c] == j->id)
                m->core_owner[n][c] = 0;
        }
        for (unsigned g = 0; g < m->ngpus; g++) {
            if (m->gpu_owner[n][g] == j->id)
                m->gpu_owner[n][g] = 0;
        }
        m->memory_used[n] -= j->share[n];
        m->holders[n] -= j->slots[n] > 0;
    }
    if (j->req.npools > 0)
        m->pool_used -= j->req.pools[0].count;
    j->state = DONE;
    if (!j->early && sched_free(m->s, j->id, m->now) < 0)
        violate(m, "job %ju ends, but does not run", (uintmax_t)j->id);
}

/* --- after a pass --- */

static void check_easy(struct model *m, const struct mjob *head)
{
    double shadow = earliest(m, head);
    struct world w = world_now(m);
    char why[SCHED_REASON_MAX];
    double t;

    if (m->head == head->id && shadow > m->shadow + EPS)
        violate(m, "job %ju could have started at %.3f, and now at %.3f", (uintmax_t)head->id,
                m->shadow, shadow);
    m->head = head->id;
    m->shadow = shadow;
    if (m->plant == NONE && shadow < m->now + 1e6 &&
        (sched_why_estimate(m->s, head->id, m->now, 0, &t, why) < 0 || fabs(t - shadow) > EPS))
        violate(m, "job %ju is expected at %.3f, but could start at %.3f (%s)", (uintmax_t)head->id,
                t, shadow, why);
    for (unsigned i = 1; i <= m->njobs; i++) {
        const struct mjob *j = &m->jobs[i];

        if (j->state == QUEUED && j != head && j->urgency > 0 && j->req.duration > 0. &&
            m->now + j->req.duration <= shadow && m->now <= latest(m, j) - EPS && fits(m, &w, j))
            violate(m, "job %ju waits, but fits and would end by %.3f", (uintmax_t)j->id, shadow);
    }
}

/* Expected start, or -1. */
static double expected(struct model *m, const struct mjob *j)
{
    bool late = m->now > latest(m, j);
    char why[SCHED_REASON_MAX];
    double t;

    if (sched_why_estimate(m->s, j->id, m->now, 0, &t, why) < 0) {
        violate(m, "job %ju is not known", (uintmax_t)j->id);
        return -1.;
    }
    if (fabs(m->now - latest(m, j)) > EPS && m->plant != FOREVER &&
        late != (strstr(why, "can never run: its time limit") != NULL))
        violate(m, "job %ju may start until %.3f, but %s", (uintmax_t)j->id, latest(m, j), why);
    if (t > latest(m, j) + EPS)
        violate(m, "job %ju is expected at %.3f, too late to end", (uintmax_t)j->id, t);
    return t;
}

static void check_promises(struct model *m)
{
    for (unsigned i = 1; i <= m->njobs; i++) {
        struct mjob *j = &m->jobs[i];
        double t;

        if (j->state != QUEUED || j->urgency == 0 || !fits_when_empty(m, j))
            continue;
        t = expected(m, j);
        j->hopeless |= t < 0. && m->expiration < HUGE_VAL;
        if (t < 0. || j->hopeless)
            continue;
        if (j->promised > 0. && t > j->promised + EPS)
            violate(m, "job %ju was promised %.3f, and now %.3f", (uintmax_t)j->id, j->promised, t);
        j->promised = t;
    }
}

static void check_after(struct model *m)
{
    struct mjob *head = first_waiting(m, false);
    struct world w = world_now(m);

    if (head && (m->expect == FCFS || m->expect == EASY) && !head->hopeless && fits(m, &w, head))
        violate(m, "job %ju is the first, and fits, but waits", (uintmax_t)head->id);
    if (m->expect == EASY && (head = first_waiting(m, true))) {
        /* Those before it have lost their place. */
        for (unsigned i = 1; i <= m->njobs; i++)
            m->jobs[i].hopeless |= m->jobs[i].state == QUEUED && before(&m->jobs[i], head);
        if (!head->hopeless)
            check_easy(m, head);
    }
    if (m->expect == CONSERVATIVE)
        check_promises(m);
}

/* --- the workload --- */

static void make_job(struct model *m, struct mjob *j, bool equal)
{
    static const char *const props[] = {"big", "^big"};
    char ranks[16];

    j->req.nnodes = upto(m, 3) || m->whole ? 1 + upto(m, m->nnodes + (upto(m, 20) == 0)) : 0;
    j->req.nslots = 1 + upto(m, j->req.nnodes ? 3 : 3 * m->nnodes);
    j->req.cores = upto(m, 4);
    j->req.gpus = upto(m, 5) == 0 ? upto(m, m->ngpus + 1) : 0;
    j->req.memory = upto(m, 4) == 0 ? 1 + upto(m, (unsigned)m->memory) : 0;
    j->req.exclusive = upto(m, 5) == 0;
    j->req.duration = upto(m, 8) || m->expect == CONSERVATIVE ? 1. + upto(m, 100) : 0.;
    if (upto(m, 6) == 0)
        ck_assert_int_eq(rreq_add_pool(&j->req, "power", 1 + upto(m, (unsigned)m->pool), NULL), 0);
    if (upto(m, 10) == 0) {
        snprintf(ranks, sizeof(ranks), "0-%u", upto(m, m->nnodes));
        j->req.ranks = idset_parse(ranks, NULL);
    }
    if (upto(m, 10) == 0)
        ck_assert_int_eq(rreq_add_property(&j->req, props[upto(m, 2)], NULL), 0);
    j->urgency = equal || upto(m, 3) ? 16 : upto(m, 32);
}

static resgraph_t *make_graph(const struct model *m, uint64_t pool)
{
    resgraph_t *g = resgraph_create();
    const char *const big[] = {"big"};
    idset_t *cores = idset_create_range(0, m->ncores - 1);
    idset_t *gpus = m->ngpus ? idset_create_range(0, m->ngpus - 1) : idset_create();
    errmsg_t err;

    for (unsigned n = 0; n < m->nnodes; n++) {
        idset_t *rank = idset_create_range(n, n);
        char host[16];
        struct resgraph_node desc = {.cores = cores,
                                     .gpus = gpus,
                                     .memory = m->memory,
                                     .properties = m->big[n] ? big : NULL,
                                     .nproperties = m->big[n]};

        snprintf(host, sizeof(host), "n%u", n);
        ck_assert_msg(resgraph_add(g, rank, host, &desc, &err) == 0, "%s", err.text);
        idset_destroy(rank);
    }
    ck_assert_int_eq(resgraph_add_pool(g, "power", pool, NULL, NULL), 0);
    idset_destroy(cores);
    idset_destroy(gpus);
    return g;
}

static void change_nodes(struct model *m)
{
    idset_t *up = idset_create();
    idset_t *drained = idset_create();

    for (unsigned n = 0; n < m->nnodes; n++) {
        bool is_up = upto(m, 8) != 0;
        bool is_drained = upto(m, 8) == 0;

        m->usable[n] = is_up && !is_drained;
        if (is_up || m->plant == DEAF)
            idset_set(up, n);
        if (is_drained && m->plant != DEAF)
            idset_set(drained, n);
    }
    ck_assert_int_eq(sched_nodes(m->s, up, drained, NULL), 0);
    if (m->expiration < HUGE_VAL) {
        m->expiration = m->now + upto(m, 300);
        ck_assert_int_eq(sched_set_expiration(m->s, m->expiration), 0);
    }
    idset_destroy(up);
    idset_destroy(drained);
    m->head = 0;
    for (unsigned i = 1; i <= m->njobs; i++) {
        m->jobs[i].promised = 0.;
        m->jobs[i].hopeless = false;
    }
}

static void submit(struct model *m, struct mjob *j)
{
    struct sched_job job = {j->id, j->urgency, 0, m->now, &j->req};
    errmsg_t err;

    ck_assert_msg(sched_add(m->s, &job, m->now, &err) == 0, "%s", err.text);
    j->state = QUEUED;
}

/* Whatever is due now; while a pass is under way, too. */
static void happen(struct model *m)
{
    for (unsigned i = 1; i <= m->njobs; i++) {
        struct mjob *j = &m->jobs[i];

        if (j->state == TO_COME && j->submit <= m->now)
            submit(m, j);
        if (j->state == RUNNING && j->end <= m->now)
            job_over(m, j);
        else if (j->state == RUNNING && m->plant == EARLY_FREE && !j->early && upto(m, 20) == 0) {
            j->early = true;
            sched_free(m->s, j->id, m->now);
        }
    }
}

static void decide(struct model *m)
{
    struct sched_ops ops = {alloc_cb, deny_cb, m};

    happen(m);
    /* Reservations are checked in each pass, whether something has changed or not. */
    if (m->whole)
        sched_set_expiration(m->s, sched_expiration(m->s));
    if (m->forget) {
        idset_t *up = idset_create_range(0, m->nnodes - 1);

        ck_assert_int_eq(sched_nodes(m->s, up, NULL, NULL), 0);
        idset_destroy(up);
    }
    while (sched_pass(m->s, m->now, m->sliced ? 1 + upto(m, 30) : 1000000, &ops)) {
        if (m->sliced && upto(m, 3) == 0)
            happen(m);
    }
    happen(m);
    while (sched_pass(m->s, m->now, 1000000, &ops))
        ;
    check_after(m);
}

static double next_event(const struct model *m)
{
    double timer = sched_pass_next_time(m->s);
    double next = HUGE_VAL;

    if (timer > m->now)
        next = timer;
    for (unsigned i = 1; i <= m->njobs; i++) {
        const struct mjob *j = &m->jobs[i];

        if (j->state == TO_COME && j->submit < next)
            next = j->submit;
        if (j->state == RUNNING && j->end < next)
            next = j->end;
    }
    return next;
}

struct setup {
    const char *queue, *arg, *node;
    const struct sched_policy *policy; /* instead of `queue` */
    enum expect expect;
    enum plant plant;
    bool sliced, nodes_change, equal, expires;
    bool forget; /* let the scheduler look at everything anew in each pass */
    bool whole;  /* jobs want counts of nodes */
};

static void model_init(struct model *m, const struct setup *setup, uint64_t seed)
{
    resgraph_t *g;
    idset_t *up;

    memset(m, 0, sizeof(*m));
    m->seed = (seed + 1) * UINT64_C(0x9e3779b97f4a7c15);
    for (unsigned i = 0; i < 4; i++)
        rnd(m);
    m->expect = setup->expect;
    m->plant = setup->plant;
    m->sliced = setup->sliced;
    m->forget = setup->forget;
    m->whole = setup->whole;
    m->nnodes = 1 + upto(m, NODES);
    m->ncores = 1 + upto(m, CORES);
    m->ngpus = upto(m, GPUS + 1);
    m->memory = 10 + upto(m, 100);
    m->pool = 1 + upto(m, 20);
    m->njobs = 20 + upto(m, JOBS - 19);
    m->now = 1000.;
    m->expiration = setup->expires ? 1100. + upto(m, 1500) : HUGE_VAL;
    for (unsigned n = 0; n < m->nnodes; n++) {
        m->usable[n] = true;
        m->big[n] = upto(m, 2);
    }
    for (unsigned i = 1; i <= m->njobs; i++) {
        m->jobs[i].id = i;
        m->jobs[i].submit = i == 1 ? 1000. : m->jobs[i - 1].submit + upto(m, 3) * upto(m, 10);
        make_job(m, &m->jobs[i], setup->equal);
    }
    m->s = sched_create();
    ck_assert_ptr_nonnull(m->s);
    ck_assert_int_eq(
        sched_policy_set_queue(m->s, setup->policy ? setup->policy : sched_builtin(setup->queue),
                               setup->arg, NULL),
        0);
    ck_assert_int_eq(sched_policy_set_nodes(m->s, sched_builtin(setup->node), NULL, NULL), 0);
    g = make_graph(m, setup->plant == RICH ? 2 * m->pool : m->pool);
    up = resgraph_ranks(g);
    ck_assert_int_eq(sched_inventory(m->s, g, up, NULL, NULL), 0);
    if (setup->expires && setup->plant != FOREVER)
        ck_assert_int_eq(sched_set_expiration(m->s, m->expiration), 0);
    idset_destroy(up);
    resgraph_destroy(g);
}

static void model_run(struct model *m, const struct setup *setup)
{
    double t;

    while (!m->violation[0] && (t = next_event(m)) < 1e7) {
        m->now = t;
        if (setup->nodes_change && upto(m, 30) == 0)
            change_nodes(m);
        if (upto(m, 20) == 0) {
            struct mjob *j = &m->jobs[1 + upto(m, m->njobs)];

            if (j->state == QUEUED && setup->expect != CONSERVATIVE && upto(m, 2)) {
                j->urgency = upto(m, 32);
                ck_assert_int_eq(sched_urgency(m->s, j->id, j->urgency, m->now), 0);
                m->head = 0;
            } else if (j->state == QUEUED) {
                ck_assert_int_eq(sched_remove(m->s, j->id), 0);
                j->state = DONE;
            }
        }
        if (m->head && m->jobs[m->head].state != QUEUED)
            m->head = 0;
        decide(m);
    }
    /* All up, nothing held: now everything has to end. */
    if (!m->violation[0] && m->plant == NONE && setup->nodes_change) {
        idset_t *up = idset_create_range(0, m->nnodes - 1);

        memset(m->usable, true, sizeof(m->usable));
        sched_nodes(m->s, up, NULL, NULL);
        ck_assert_int_eq(sched_set_expiration(m->s, 0.), 0);
        idset_destroy(up);
        m->expiration = HUGE_VAL;
        m->expect = ANY;
        decide(m);
        while ((t = next_event(m)) < 1e7) {
            m->now = t;
            decide(m);
        }
    }
    for (unsigned i = 1; i <= m->njobs && !m->violation[0] && m->plant == NONE; i++) {
        const struct mjob *j = &m->jobs[i];

        if (j->state == QUEUED && j->urgency > 0 && m->now <= latest(m, j) + TOO_LATE)
            violate(m, "job %u never started", i);
    }
}

static void model_end(struct model *m)
{
    for (unsigned i = 1; i <= m->njobs; i++)
        rreq_clear(&m->jobs[i].req);
    sched_destroy(m->s);
}

/* Number of runs in which something was found; the error message of the first. */
static unsigned runs(const struct setup *setup, unsigned count, char *found, size_t size)
{
    struct model *m = calloc(1, sizeof(*m));
    unsigned bad = 0;
    unsigned started = 0;

    ck_assert_ptr_nonnull(m);
    for (unsigned seed = 0; seed < count; seed++) {
        model_init(m, setup, seed);
        model_run(m, setup);
        if (m->violation[0] && bad++ == 0)
            snprintf(found, size, "seed %u: %s", seed, m->violation);
        started += m->started;
        model_end(m);
    }
    ck_assert_uint_gt(started, count);
    free(m);
    return bad;
}

static const char *const nodes[] = {"first-fit", "best-fit", "spread"};

static void holds(const char *queue, const char *arg, enum expect expect)
{
    for (unsigned i = 0; i < 24; i++) {
        struct setup setup = {.queue = queue,
                              .arg = arg,
                              .node = nodes[i % 3],
                              .expect = expect,
                              .sliced = (i / 6) % 2,
                              .expires = i >= 12,
                              .nodes_change = (i / 3) % 2,
                              .equal = expect == CONSERVATIVE};
        char found[300] = "";

        ck_assert_msg(runs(&setup, suite_runs(12), found, sizeof(found)) == 0,
                      "%s, %s, variant %u: %s", queue, setup.node, i, found);
    }
}

START_TEST(fcfs_holds)
{
    holds("fcfs", NULL, FCFS);
}
END_TEST

START_TEST(easy_holds)
{
    holds("easy", NULL, EASY);
}
END_TEST

START_TEST(conservative_holds)
{
    holds("conservative", "1000", CONSERVATIVE);
}
END_TEST

/* With fewer reservations than jobs: no promises, but all else. */
START_TEST(shallow_holds)
{
    holds("conservative", "3", ANY);
}
END_TEST

static void finds(const struct setup *setup, const char *what)
{
    char found[300] = "";

    ck_assert_msg(runs(setup, 60, found, sizeof(found)) > 0, "%s: nothing was noticed", what);
    ck_assert_msg(strstr(found, what) != NULL, "expected '%s', got '%s'", what, found);
}

static enum sched_blocked always_backfill(void *state, const struct sched_plugin_job *job,
                                          uint32_t reserved, double now)
{
    return SCHED_BLOCKED_BACKFILL;
}

START_TEST(planted)
{
    static const struct sched_queue_policy greedy = {.blocked = always_backfill};
    static const struct sched_policy policy = {SCHED_PLUGIN_ABI, "greedy", &greedy, NULL};
    static const struct {
        struct setup setup;
        const char *found;
    } tests[] = {
        {{.queue = "easy", .expect = FCFS}, "before its turn"},
        {{.policy = &policy, .expect = EASY}, "could have started at"},
        {{.queue = "fcfs", .expect = EASY}, "waits, but fits"},
        {{.queue = "easy", .expect = CONSERVATIVE, .equal = true}, "promised"},
        {{.queue = "easy", .expect = ANY, .plant = EARLY_FREE}, "of node"},
        {{.queue = "easy", .expect = EASY, .plant = OVERDUE}, "could have started at"},
        {{.queue = "conservative",
          .arg = "1000",
          .expect = CONSERVATIVE,
          .plant = OVERDUE,
          .equal = true},
         "promised"},
        {{.queue = "easy", .expect = ANY, .plant = DEAF, .nodes_change = true}, "may not have"},
        {{.queue = "easy", .expect = ANY, .plant = RICH}, "pool"},
        {{.queue = "easy", .expect = ANY, .plant = FOREVER, .expires = true}, "resources go"},
    };

    for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++) {
        struct setup setup = tests[i].setup;

        setup.node = "first-fit";
        finds(&setup, tests[i].found);
    }
}
END_TEST

/* Do two runs decide the same? */
static void same(const struct setup *a, const struct setup *b, unsigned count)
{
    struct model *m = calloc(2, sizeof(*m));

    ck_assert_ptr_nonnull(m);
    for (unsigned seed = 0; seed < suite_runs(count); seed++) {
        for (unsigned i = 0; i < 2; i++) {
            model_init(&m[i], i ? b : a, seed);
            model_run(&m[i], i ? b : a);
        }
        ck_assert_uint_eq(m[0].started, m[1].started);
        for (unsigned i = 1; i <= m[0].njobs; i++) {
            ck_assert(m[0].jobs[i].start == m[1].jobs[i].start);
            ck_assert(memcmp(m[0].jobs[i].slots, m[1].jobs[i].slots, sizeof(m[0].jobs[i].slots)) ==
                      0);
        }
        model_end(&m[0]);
        model_end(&m[1]);
    }
    free(m);
}

/* The same calls give the same decisions. */
START_TEST(deterministic)
{
    struct setup setup = {.queue = "conservative", .arg = "50", .node = "best-fit", .expect = ANY};

    same(&setup, &setup, 20);
}
END_TEST

/* What the scheduler keeps in order not to look at it again makes no difference. */
START_TEST(remembers)
{
    for (unsigned i = 0; i < 4; i++) {
        struct setup setup = {.queue = "conservative",
                              .arg = i % 2 ? "4" : "1000",
                              .node = nodes[i % 3],
                              .expect = ANY,
                              .expires = i >= 2,
                              .whole = true};
        struct setup forget = setup;

        forget.forget = true;
        same(&setup, &forget, 20);
    }
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("properties");

    tcase_add_test(tc, fcfs_holds);
    tcase_add_test(tc, easy_holds);
    tcase_add_test(tc, conservative_holds);
    tcase_add_test(tc, shallow_holds);
    tcase_add_test(tc, planted);
    tcase_add_test(tc, deterministic);
    tcase_add_test(tc, remembers);
    tcase_set_timeout(tc, 60.);
    return run_case("sched_random", tc);
}

/* audit.c - the checks of audit.h.
 *
 * Each job is checked by itself when it comes: its log through the table of libjob, its R against
 * its jobspec.  What jobs have to do with one another is checked at the end: the times at which
 * resources were given and taken back are sorted, and one walk over them keeps who has each core
 * and gpu, and how much of each pool and of each node's memory is given.
 *
 * A job that is queued again has several attempts.  What an earlier one had is in the event that
 * ended it, what the last one has is R.
 *
 * Invariants:
 *  1. A violation is told once, with the id of the job; with that of the other one, too, when two
 *     jobs have the same thing.
 *  2. At equal times what is given back comes before what is given: a scheduler may do both in one
 *     pass.
 */
#include "config.h"
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "audit.h"
#include "audit_links.h"
#include "libjob/jobspec.h"
#include "libresource/resgraph.h"
#include "libutil/hmap.h"

#define GPU (UINT64_C(1) << 31)
#define CLOCK_TOLERANCE 1e-3

struct attempt {
    const struct job *j;
    double t_alloc;
    double t_free; /* < 0: it has what it was given */
    double hops;   /* on record; < 0: not */
    rset_t *R;     /* NULL: not known */
};

struct job {
    uint64_t id;
    struct jobstate st;
    struct attempt *tries;
    size_t ntries;
    double t_start; /* of the first attempt that was started; 0: none was */
    bool loss;      /* the present attempt has lost a node, or is on one that leaves */
    bool ended;     /* ... and ended as if it had not */
    bool sound;     /* the log was read to its end */
    struct jobspec_dep *deps;
    size_t ndeps;
    double begin;
    bool expected;
    enum job_result result;
    int code;
    bool present;
};

struct amount {
    uint64_t given;
    uint64_t there;
    bool told;
};

struct audit {
    hmap_t *jobs; /* id -> struct job */
    resgraph_t *inventory;
    rset_t *all;
    hmap_t *holders; /* rank, core -> struct attempt */
    hmap_t *memory;  /* rank -> struct amount */
    hmap_t *pools;   /* name -> struct amount */
    char **told;     /* violations found before audit_run() */
    size_t ntold;
    int violations;
    bool nomem;
    bool clock_set; /* times say nothing */
    size_t njobs, nallocs, nattempts, now, peak;
    audit_links_t *links; /* NULL: not asked for */
    size_t nreach[4];
    void (*tell)(const char *sentence, void *arg);
    void *arg;
};

static void job_free(void *p)
{
    struct job *j = p;

    for (size_t i = 0; i < j->ntries; i++)
        rset_destroy(j->tries[i].R);
    free(j->tries);
    free(j->deps);
    free(j);
}

audit_t *audit_create(void)
{
    audit_t *a = calloc(1, sizeof(*a));

    if (!a)
        return NULL;
    a->jobs = hmap_create_u64(job_free);
    a->holders = hmap_create_u64(NULL);
    a->memory = hmap_create_u64(free);
    a->pools = hmap_create_str(free);
    if (!a->jobs || !a->holders || !a->memory || !a->pools) {
        audit_destroy(a);
        errno = ENOMEM;
        return NULL;
    }
    return a;
}

void audit_destroy(audit_t *a)
{
    int saved = errno;

    if (!a)
        return;
    hmap_destroy(a->jobs);
    hmap_destroy(a->holders);
    hmap_destroy(a->memory);
    hmap_destroy(a->pools);
    audit_links_destroy(a->links);
    resgraph_destroy(a->inventory);
    rset_destroy(a->all);
    for (size_t i = 0; i < a->ntold; i++)
        free(a->told[i]);
    free(a->told);
    free(a);
    errno = saved;
}

/* Tell a violation, or keep it until somebody listens. */
static void violation(audit_t *a, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void violation(audit_t *a, const char *fmt, ...)
{
    char text[512], **told;
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    if (a->tell) {
        a->violations++;
        a->tell(text, a->arg);
        return;
    }
    if (!(told = realloc(a->told, (a->ntold + 1) * sizeof(*told))) ||
        !(told[a->ntold] = strdup(text))) {
        a->told = told ? told : a->told;
        a->nomem = true;
        return;
    }
    a->told = told;
    a->ntold++;
}

void audit_clock_set(audit_t *a)
{
    a->clock_set = true;
}

int audit_tree(audit_t *a, uint32_t leaves, uint32_t nodes)
{
    return (a->links = audit_links_create(leaves, nodes)) ? 0 : -1;
}

#define ID(j) ((unsigned long long)(j)->id)

int audit_inventory(audit_t *a, const char *text, size_t len, errmsg_t *err)
{
    if (!(a->inventory = resgraph_parse(text, len, err)))
        return -1;
    if (!(a->all = resgraph_rset(a->inventory, NULL)))
        return errmsg_fail(err, ENOMEM, "out of memory for the inventory");
    return 0;
}

/* --- one job by itself --- */

/* submit <= alloc <= started <= exited <= finish; libjob knows that started <= exited. */
static void check_times(audit_t *a, const struct job *j, double finish)
{
    if (!(j->st.t_started > 0) || a->clock_set)
        return;
    if (j->st.t_started < j->st.t_run - CLOCK_TOLERANCE)
        violation(a, "job %llu: its tasks were started before it was given resources", ID(j));
    if (j->st.t_exited > finish + CLOCK_TOLERANCE)
        violation(a, "job %llu: finished before its tasks had exited", ID(j));
}

/* --- attempts --- */

static struct attempt *present_attempt(const struct job *j)
{
    struct attempt *t = j->ntries ? &j->tries[j->ntries - 1] : NULL;

    return t && t->t_free < 0. ? t : NULL;
}

static void attempt_begins(audit_t *a, struct job *j, const struct job_event *ev)
{
    struct attempt *p = realloc(j->tries, (j->ntries + 1) * sizeof(*p));

    j->loss = false;
    if (!p) {
        a->nomem = true;
        return;
    }
    j->tries = p;
    j->tries[j->ntries++] = (struct attempt){
        .j = j, .t_alloc = ev->timestamp, .t_free = -1., .hops = ev->switches ? ev->hops : -1.};
    a->nattempts++;
}

static bool is_loss(const struct job_event *ev)
{
    return ev->severity == 1 && (!strcmp(ev->type, "node-lost") || !strcmp(ev->type, "node-left"));
}

/* The event requeue: there was a reason, and it says what is given back. */
static void attempt_is_over(audit_t *a, struct job *j, const struct job_event *ev)
{
    struct attempt *t = present_attempt(j);
    errmsg_t err = {"it is not on record"};

    if (!j->loss)
        violation(a, "job %llu: attempt %u was ended, and no loss of a node is on record", ID(j),
                  ev->count);
    if (!t)
        return;
    t->t_free = ev->timestamp;
    if (!ev->R || !(t->R = rset_from_json(ev->R, &err)))
        violation(a, "job %llu: R of attempt %u is bad: %s", ID(j), ev->count, err.text);
}

static void note_event(audit_t *a, struct job *j, const struct job_event *ev)
{
    struct attempt *t = present_attempt(j);

    switch (ev->event) {
    case JOB_EV_ALLOC:
        attempt_begins(a, j, ev);
        break;
    case JOB_EV_START:
        j->t_start = j->t_start > 0. ? j->t_start : ev->timestamp;
        break;
    case JOB_EV_EXCEPTION:
        j->loss = j->loss || is_loss(ev);
        break;
    case JOB_EV_REQUEUE:
        attempt_is_over(a, j, ev);
        break;
    case JOB_EV_FREE:
        if (t)
            t->t_free = ev->timestamp;
        break;
    case JOB_EV_FINISH:
        j->ended = j->loss && !j->st.fatal;
        check_times(a, j, ev->timestamp);
        break;
    default:
        break;
    }
}

static void read_log(audit_t *a, struct job *j, const struct audit_job *job)
{
    struct job_log log;
    struct job_event ev;
    errmsg_t err;
    double before = 0;
    int rc;

    job_log_init(&log, job->log, job->log_len);
    while ((rc = job_log_next(&log, &ev, &err)) == 1) {
        if (ev.timestamp < before - CLOCK_TOLERANCE && !a->clock_set)
            violation(a, "job %llu: line %u: event '%s' is older than the one before it", ID(j),
                      log.line, ev.name);
        before = ev.timestamp;
        if (jobstate_apply(&j->st, &ev, &err) < 0) {
            violation(a, "job %llu: line %u: %s", ID(j), log.line, err.text);
            break;
        }
        note_event(a, j, &ev);
    }
    if (rc < 0)
        violation(a, "job %llu: %s", ID(j), err.text);
    j->sound = rc == 0;
    job_log_done(&log);
    if (j->sound && j->st.state == JOB_STATE_NEW)
        violation(a, "job %llu: its log has no event 'submit'", ID(j));
}

static uint64_t total(const rset_t *rs, bool gpus)
{
    return gpus ? rset_ngpus(rs) : rset_ncores(rs);
}

/* Has R what the jobspec asks for? */
static void check_enough(audit_t *a, const struct job *j, const rset_t *R, const jobspec_t *js)
{
    const struct rreq *req = jobspec_rreq(js);
    uint64_t slots = jobspec_nslots(js);
    size_t nodes = rset_nnodes(R);

    if (req->nnodes && nodes != req->nnodes)
        violation(a, "job %llu: asks for %u nodes and got %zu", ID(j), req->nnodes, nodes);
    if (total(R, false) < slots * req->cores)
        violation(a, "job %llu: asks for %llu cores and got %llu", ID(j),
                  (unsigned long long)(slots * req->cores), (unsigned long long)total(R, false));
    if (total(R, true) < slots * req->gpus)
        violation(a, "job %llu: asks for %llu gpus and got %llu", ID(j),
                  (unsigned long long)(slots * req->gpus), (unsigned long long)total(R, true));
    for (size_t i = 0; i < req->npools; i++) {
        uint64_t got = rset_pool_count(R, req->pools[i].name);

        if (got != req->pools[i].count)
            violation(a, "job %llu: asks for %llu of pool %s and got %llu", ID(j),
                      (unsigned long long)req->pools[i].count, req->pools[i].name,
                      (unsigned long long)got);
    }
}

static void read_jobspec(audit_t *a, struct job *j, const struct audit_job *job)
{
    errmsg_t err;
    jobspec_t *js;
    const struct jobspec_dep *deps;

    if (!(js = jobspec_parse(job->jobspec, job->jobspec_len, &err))) {
        violation(a, "job %llu: its jobspec is bad: %s", ID(j), err.text);
        return;
    }
    deps = jobspec_dependencies(js, &j->ndeps);
    if (j->ndeps && (j->deps = calloc(j->ndeps, sizeof(*deps))))
        memcpy(j->deps, deps, j->ndeps * sizeof(*deps));
    else if (j->ndeps)
        a->nomem = true;
    j->begin = jobspec_begin(js);
    for (size_t i = 0; i < j->ntries; i++)
        if (j->tries[i].R)
            check_enough(a, j, j->tries[i].R, js);
    if (j->st.requeues && !jobspec_options(js)->requeue)
        violation(a, "job %llu: was queued again, for which it does not ask", ID(j));
    if (j->ended && jobspec_options(js)->requeue)
        violation(a, "job %llu: lost a node, and was not queued again", ID(j));
    jobspec_destroy(js);
}

static struct job *find(audit_t *a, uint64_t id)
{
    struct job *j = hmap_get_u64(a->jobs, id);

    if (j || !(j = calloc(1, sizeof(*j))))
        return j;
    j->id = id;
    j->code = -1;
    if (hmap_put_u64(a->jobs, id, j) < 0) {
        free(j);
        return NULL;
    }
    return j;
}

/* Is all of `part` in `whole`? */
static bool within(audit_t *a, const rset_t *part, const rset_t *whole)
{
    rset_t *rest = rset_diff(part, whole);
    bool yes = rest && rset_nnodes(rest) == 0 && rset_npools(rest) == 0;

    a->nomem = a->nomem || !rest;
    rset_destroy(rest);
    return yes;
}

/* R on record is that of the last attempt, also when that one is over. */
static void read_R(audit_t *a, struct job *j, const struct audit_job *job)
{
    struct attempt *last = j->ntries ? &j->tries[j->ntries - 1] : NULL;
    rset_t *R = NULL;
    errmsg_t err;

    if (job->R && !(R = rset_parse(job->R, job->R_len, &err)))
        violation(a, "job %llu: its R is bad: %s", ID(j), err.text);
    if (last && !job->R)
        violation(a, "job %llu: was given resources and has no R", ID(j));
    if (last && !last->R)
        last->R = R;
    else
        rset_destroy(R);
    for (size_t i = 0; a->all && i < j->ntries; i++)
        if (j->tries[i].R && !within(a, j->tries[i].R, a->all))
            violation(a, "job %llu: was given resources that are not in the inventory", ID(j));
    if (last)
        a->nallocs++;
}

int audit_job(audit_t *a, const struct audit_job *job)
{
    struct job *j = find(a, job->id);

    if (!j)
        return -1;
    if (j->present) {
        errno = EEXIST;
        return -1;
    }
    j->present = true;
    a->njobs++;
    if (job->log)
        read_log(a, j, job);
    else
        violation(a, "job %llu: has no event log", ID(j));
    read_R(a, j, job);
    if (job->jobspec)
        read_jobspec(a, j, job);
    else
        violation(a, "job %llu: has no jobspec", ID(j));
    return a->nomem ? (errno = ENOMEM, -1) : 0;
}

int audit_expect(audit_t *a, uint64_t id, enum job_result result, int code)
{
    struct job *j = find(a, id);

    if (!j)
        return -1;
    j->expected = true;
    j->result = result;
    j->code = code;
    return 0;
}

static void check_end(audit_t *a, const struct job *j, int flags)
{
    enum job_result result = jobstate_result(&j->st);
    int code = jobstate_code(&j->st);

    if (!j->present) {
        violation(a, "job %llu: was accepted, and is not there", ID(j));
        return;
    }
    if (!j->sound)
        return;
    if (j->st.state != JOB_STATE_INACTIVE) {
        if (!(flags & AUDIT_ACTIVE_OK) && j->st.state != JOB_STATE_NEW)
            violation(a, "job %llu: has not ended: it is in state %s", ID(j),
                      job_state_name(j->st.state));
        return;
    }
    if (!j->expected)
        return;
    if (j->result && j->result != result)
        violation(a, "job %llu: ended as '%s', expected was '%s'", ID(j), job_result_name(result),
                  job_result_name(j->result));
    if (j->code >= 0 && j->code != code)
        violation(a, "job %llu: ended with exit code %d, expected was %d", ID(j), code, j->code);
}

/* --- dependencies --- */

static const char *unmet(const struct job *j, const struct jobspec_dep *dep, const struct job *on)
{
    enum job_result r = jobstate_result(&on->st);
    double end = on->st.t_cleanup, given = j->tries[0].t_alloc;

    if (dep->scheme == JOB_DEP_AFTER) {
        double start = on->t_start > 0 ? on->t_start : end;
        return !(start > 0) || start > given + CLOCK_TOLERANCE ? "had not started" : NULL;
    }
    if (!(end > 0) || end > given + CLOCK_TOLERANCE)
        return "had not ended";
    if (dep->scheme == JOB_DEP_AFTEROK && r != JOB_RESULT_COMPLETED)
        return "did not succeed";
    return dep->scheme == JOB_DEP_AFTERNOTOK && r == JOB_RESULT_COMPLETED ? "succeeded" : NULL;
}

static void check_begin(audit_t *a, const struct job *j)
{
    if (!j->present || j->ntries == 0)
        return;
    if (j->begin > j->tries[0].t_alloc + CLOCK_TOLERANCE)
        violation(a, "job %llu: was given resources before its begin time", ID(j));
    for (size_t i = 0; j->deps && i < j->ndeps; i++) {
        const struct job *on = hmap_get_u64(a->jobs, j->deps[i].id);
        const char *why = on && on->present && on->sound ? unmet(j, &j->deps[i], on) : NULL;

        if (why)
            violation(a, "job %llu: was given resources, though job %llu of %s:%llu %s", ID(j),
                      ID(on), job_dep_name(j->deps[i].scheme), ID(on), why);
    }
}

/* --- who has what, when --- */

struct point {
    double t;
    bool give;
    struct attempt *who;
};

static int by_time(const void *pa, const void *pb)
{
    const struct point *a = pa, *b = pb;

    if (a->t != b->t)
        return a->t < b->t ? -1 : 1;
    if (a->give != b->give)
        return a->give ? 1 : -1;
    return a->who->j->id < b->who->j->id ? -1 : a->who->j->id > b->who->j->id;
}

static void hold_ids(audit_t *a, struct attempt *t, uint32_t rank, const idset_t *ids,
                     uint64_t kind, bool give)
{
    for (uint32_t id = idset_first(ids); id != IDSET_NONE; id = idset_next(ids, id)) {
        uint64_t key = (uint64_t)rank << 32 | kind | id;
        const struct attempt *has = hmap_get_u64(a->holders, key);

        if (!give) {
            if (has == t)
                hmap_del_u64(a->holders, key);
            continue;
        }
        if (has)
            violation(a, "job %llu: was given %s %u of node %u, which job %llu had", ID(t->j),
                      kind ? "gpu" : "core", id, rank, ID(has->j));
        if (hmap_put_u64(a->holders, key, t) < 0)
            a->nomem = true;
    }
}

static void hold_amount(audit_t *a, const struct job *j, struct amount *am, const char *what,
                        uint64_t count, bool give)
{
    if (!am) {
        a->nomem = true;
        return;
    }
    am->given = give ? am->given + count : am->given - count;
    if (give && am->given > am->there && !am->told) {
        am->told = true;
        violation(a, "job %llu: was given %llu of %s, of which %llu of %llu are given then", ID(j),
                  (unsigned long long)count, what, (unsigned long long)am->given,
                  (unsigned long long)am->there);
    }
}

static struct amount *memory_of(audit_t *a, uint32_t rank)
{
    struct amount *am = hmap_get_u64(a->memory, rank);
    struct rset_node node;

    if (am || !(am = calloc(1, sizeof(*am))))
        return am;
    am->there = rset_find(a->all, rank, &node) ? node.memory : 0;
    if (hmap_put_u64(a->memory, rank, am) < 0) {
        free(am);
        return NULL;
    }
    return am;
}

static struct amount *pool_of(audit_t *a, const char *name)
{
    struct amount *am = hmap_get(a->pools, name);

    if (am || !(am = calloc(1, sizeof(*am))))
        return am;
    am->there = rset_pool_count(a->all, name);
    if (hmap_put(a->pools, name, am) < 0) {
        free(am);
        return NULL;
    }
    return am;
}

struct sharing {
    audit_t *a;
    const struct job *j;
};

static void shared(const char *level, uint32_t number, uint64_t other, void *arg)
{
    const struct sharing *s = arg;

    violation(s->a, "job %llu: may send over the uplinks of %s %u, as may job %llu", ID(s->j),
              level, number, (unsigned long long)other);
}

static void hold_links(audit_t *a, const struct attempt *t, bool give)
{
    const struct job *j = t->j;
    idset_t *ranks = rset_ranks(t->R);
    struct sharing s = {a, j};
    double hops = ranks ? audit_links_hops(a->links, ranks) : 0.;
    int reach;

    if (!ranks) {
        a->nomem = true;
        return;
    }
    if (!give) {
        audit_links_give(a->links, j->id, ranks);
    } else if ((reach = audit_links_take(a->links, j->id, ranks, shared, &s)) < 0) {
        a->nomem = true;
    } else {
        a->nreach[reach]++;
        if (t->hops < 0.)
            violation(a, "job %llu: its switches are not on record", ID(j));
        else if (fabs(t->hops - hops) > 1e-5)
            violation(a, "job %llu: has %g hops on record instead of %g", ID(j), t->hops, hops);
    }
    idset_destroy(ranks);
}

static void hold(audit_t *a, struct attempt *t, bool give)
{
    struct rset_node node;
    const char *name;
    uint64_t count;
    char what[64];

    for (size_t i = 0; rset_node(t->R, i, &node); i++) {
        hold_ids(a, t, node.rank, node.cores, 0, give);
        hold_ids(a, t, node.rank, node.gpus, GPU, give);
        if (node.memory && a->all) {
            snprintf(what, sizeof(what), "memory of node %u", node.rank);
            hold_amount(a, t->j, memory_of(a, node.rank), what, node.memory, give);
        }
    }
    for (size_t i = 0; a->all && (name = rset_pool(t->R, i, &count)); i++) {
        snprintf(what, sizeof(what), "pool %.50s", name);
        hold_amount(a, t->j, pool_of(a, name), what, count, give);
    }
    if (a->links)
        hold_links(a, t, give);
    a->now = give ? a->now + 1 : a->now - 1;
    if (a->now > a->peak)
        a->peak = a->now;
}

static int walk_times(audit_t *a)
{
    struct point *points = calloc(2 * (a->nattempts + 1), sizeof(*points));
    size_t n = 0, pos = 0;
    void *val;

    if (!points)
        return -1;
    while (hmap_next(a->jobs, &pos, NULL, NULL, &val)) {
        const struct job *j = val;

        for (struct attempt *t = j->tries; t < j->tries + j->ntries; t++) {
            if (!t->R || (t->t_free >= 0 && t->t_free <= t->t_alloc))
                continue;
            points[n++] = (struct point){t->t_alloc, true, t};
            if (t->t_free >= 0)
                points[n++] = (struct point){t->t_free, false, t};
        }
    }
    qsort(points, n, sizeof(*points), by_time);
    for (size_t i = 0; i < n; i++)
        hold(a, points[i].who, points[i].give);
    free(points);
    return 0;
}

int audit_run(audit_t *a, int flags, void (*tell)(const char *sentence, void *arg), void *arg)
{
    size_t pos = 0;
    void *val;

    a->tell = tell;
    a->arg = arg;
    for (size_t i = 0; i < a->ntold; i++)
        violation(a, "%s", a->told[i]);
    while (hmap_next(a->jobs, &pos, NULL, NULL, &val)) {
        check_end(a, val, flags);
        if (!a->clock_set)
            check_begin(a, val);
    }
    if ((!a->clock_set && walk_times(a) < 0) || a->nomem) {
        errno = ENOMEM;
        return -1;
    }
    return a->violations;
}

size_t audit_njobs(const audit_t *a)
{
    return a->njobs;
}

size_t audit_nallocs(const audit_t *a)
{
    return a->nallocs;
}

size_t audit_nattempts(const audit_t *a)
{
    return a->nattempts;
}

size_t audit_peak(const audit_t *a)
{
    return a->peak;
}

size_t audit_nreach(const audit_t *a, int reach)
{
    return reach > 0 && reach < 4 ? a->nreach[reach] : 0;
}

/* jm_list.c - job.list: the jobs, page by page.
 *
 * First the ids of the requested jobs are collected, then pages are made from the current state of
 * these jobs.  Each pass of the reactor does so for one slice (libflux/slice.h), for the requests
 * in turn.  A long list thus costs eight bytes a job (sixteen while it is sorted), and delays no
 * other request by more than a slice.
 *
 *    phase of a request   what is done                               left when (by)
 *    ACTIVE               active jobs are visited, by ascending id   there is no other
 *                                                                    (visit_active)
 *    HEAP, SORT           heapsort of those that are wanted          they are in order (heap_step,
 *                                                                    begin_ended)
 *    ENDED                ended jobs are visited, newest first       there is no other, or enough
 *                                                                    (visit_ended), or none is
 *                                                                    wanted (begin_ended)
 *    PAGES                pages are sent                             all are
 *
 * Order: queued jobs by urgency and id, then running jobs by id, then ended jobs, newest first.
 * For a list with a limit, only the ids to be shown are kept and sorted, and no more ended jobs
 * are visited.  If the request wants them, reasons for waiting and expected starts are requested
 * from the scheduler first.
 *
 * Invariants:
 *  1. At most LISTINGS_MAX requests are in progress.
 *  2. A list has each job once.  A job that ends after it was visited while active is in `moved`,
 *     and is skipped among the ended jobs.
 *  3. The next job to be visited exists: when it is dropped, the following one takes its place.
 *  4. The phase changes by the transitions of `moves` only.
 *
 * Failure: a job that was purged between two pages is left out.  Without a scheduler, lists have no
 * reasons and estimates.
 */
#include "config.h"
#include "jm_private.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libjob/job_wire.h"
#include "libsched/sched_wire.h"
#include "libschema/jsonout.h"
#include "libutil/invariant.h"

#define PAGE 1000
#define LISTINGS_MAX 256
#define STRIDE 32 /* jobs between two readings of the clock */

struct jm_list {
    struct list_node listings; /* struct listing */
    size_t n;
};

/* A job's place in the list. */
struct order {
    uint64_t id;
    int rank;
};

enum phase { ACTIVE, HEAP, SORT, ENDED, PAGES };

struct listing {
    enum phase phase;
    const struct jm_job *job;     /* ACTIVE: the next */
    const struct jm_ended *ended; /* ENDED: the next; or */
    uint32_t id;                  /* of `ids`, the next, */
    bool by_id;                   /* if these are looked up */
    struct order *order;          /* requested active jobs */
    size_t n, cap, at;            /* in `order`; at: progress of the sort */
    idset_t *moved;               /* NULL: none */
    unsigned steps;
    struct claim claim;
    struct list_node node;
    struct jm *jm;
    flux_msg_t *req;
    flux_future_t *why; /* sched.why */
    struct job_list q;
    char *name;
    idset_t *ids;
    struct jm_ids found;
    size_t next;
};

static void listing_free(struct listing *l)
{
    claim_drop(l->jm->senders, &l->claim);
    list_remove(&l->node);
    l->jm->list->n--;
    flux_future_destroy(l->why);
    flux_msg_destroy(l->req);
    free(l->name);
    idset_destroy(l->ids);
    idset_destroy(l->moved);
    free(l->order);
    jm_ids_clear(&l->found);
    free(l);
}

static void fail(struct listing *l)
{
    flux_respond_error(l->jm->h, l->req, ENOMEM, "the job module is out of memory");
    listing_free(l);
}

static void gone(struct claim *c, bool canceled)
{
    struct listing *l = list_entry(c, struct listing, claim);

    if (canceled)
        flux_respond_error(l->jm->h, l->req, ENODATA, "canceled");
    listing_free(l);
}

/* --- a job in a page --- */

/* Text in the format of job_info_schema, without members that are 0 or absent, which most are. */
static void put_time(strbuf_t *sb, const char *name, double t)
{
    if (t > 0)
        jsonout_time(sb, name, t);
}

static void put_text(strbuf_t *sb, const char *name, const char *text)
{
    if (text && text[0])
        jm_json_text(sb, name, text);
}

/* `failed`: the member of that name, as JSON text. */
static void put_info(strbuf_t *sb, const struct job_info *i, const char *failed)
{
    jsonout_object(sb, NULL);
    jsonout_uint(sb, "id", i->id);
    jsonout_uint(sb, "uid", i->uid);
    jsonout_int(sb, "urgency", i->urgency);
    jsonout_int(sb, "priority", i->priority);
    jsonout_str(sb, "state", i->state);
    jsonout_uint(sb, "nnodes", i->nnodes);
    jsonout_uint(sb, "ntasks", i->ntasks);
    jsonout_uint(sb, "ncores", i->ncores);
    put_text(sb, "name", i->name);
    put_time(sb, "duration", i->duration);
    put_time(sb, "t_submit", i->t_submit);
    put_time(sb, "t_depend", i->t_depend);
    put_time(sb, "t_run", i->t_run);
    put_time(sb, "t_cleanup", i->t_cleanup);
    put_time(sb, "t_inactive", i->t_inactive);
    put_time(sb, "t_estimate", i->t_estimate);
    put_time(sb, "expiration", i->expiration);
    put_text(sb, "ranks", i->ranks);
    put_text(sb, "nodelist", i->nodelist);
    put_text(sb, "switches", i->switches);
    if (i->switches && i->switches[0])
        jsonout_time(sb, "hops", i->hops);
    put_text(sb, "result", i->result);
    if (i->result)
        jsonout_int(sb, "code", i->code);
    put_text(sb, "exception", i->exception);
    put_text(sb, "note", i->note);
    if (i->canceled_by >= 0)
        jsonout_int(sb, "canceled_by", i->canceled_by);
    if (failed && failed[0])
        jsonout_text(sb, "failed", failed);
    put_text(sb, "warning", i->warning);
    put_text(sb, "why", i->why);
    put_text(sb, "uri", i->uri);
    put_text(sb, "dependency", i->dependency);
    jsonout_object_end(sb);
}

/* `made` receives a sentence that is allocated here, for the caller to free. */
static const char *why_waits(const struct jm_job *j, const char *depends, char **made)
{
    const struct jm *jm = j->jm;
    const char *text;

    /* A job is neither acted upon nor reported before it is recorded. */
    if ((text = jm_store_failure(j)))
        return asprintf(made, "cannot be put on record: %s", text) < 0
                   ? (*made = NULL, "cannot be put on record")
                   : *made;
    if (j->st.state >= JOB_STATE_RUN)
        return NULL;
    if (depends)
        return "waits for its dependencies";
    if (j->st.urgency == JOB_URGENCY_HOLD)
        return "held";
    if (!jm_queue_stopped(jm, &text))
        return jm_sched_why(j);
    if (!text || asprintf(made, "the queue is stopped: %s", text) < 0) {
        *made = NULL;
        return "the queue is stopped";
    }
    return *made;
}

static void put_active(strbuf_t *sb, struct jm_job *j)
{
    const struct jobstate *st = &j->st;
    struct job_info info = {.id = j->id,
                            .uid = st->userid,
                            .urgency = st->urgency,
                            .priority = st->priority,
                            .state = job_state_name(st->state),
                            .name = j->spec->name,
                            .nnodes = j->r ? (uint32_t)rset_nnodes(j->r) : j->spec->nnodes,
                            .ntasks = j->spec->ntasks,
                            .ncores = j->r ? (uint32_t)rset_ncores(j->r) : j->spec->ncores,
                            .duration = j->spec->req.duration,
                            .t_submit = st->t_submit,
                            .t_depend = st->t_depend,
                            .t_run = st->t_run,
                            .t_cleanup = st->t_cleanup,
                            .t_inactive = st->t_inactive,
                            .t_estimate = jm_sched_estimate(j),
                            .expiration = j->expiration,
                            .exception = j->end.type,
                            .note = j->end.type ? j->end.note : NULL,
                            .canceled_by = j->end.canceled_by,
                            .switches = j->switches,
                            .hops = j->hops,
                            .warning = j->warning,
                            .uri = jm_control_uri(j)};
    idset_t *set = j->r ? rset_ranks(j->r) : NULL;
    char *ranks = set ? idset_format(set, 0) : NULL;
    char *hosts = j->r ? rset_hosts(j->r) : NULL;
    char *depends = jm_depend_text(j);
    char *made = NULL;

    info.ranks = ranks;
    info.nodelist = hosts;
    info.dependency = depends;
    info.why = why_waits(j, depends, &made);
    if (st->state == JOB_STATE_INACTIVE) {
        info.result = job_result_name(jobstate_result(st));
        info.code = jobstate_code(st);
    }
    put_info(sb, &info, j->end.failed);
    idset_destroy(set);
    free(ranks);
    free(hosts);
    free(depends);
    free(made);
}

static void put_ended(strbuf_t *sb, const struct jm_ended *e)
{
    struct job_info info = {.id = e->id,
                            .uid = e->uid,
                            .urgency = e->urgency,
                            .priority = e->urgency,
                            .state = job_state_name(JOB_STATE_INACTIVE),
                            .name = jm_ended_text(e, JM_TEXT_NAME),
                            .nnodes = e->nnodes,
                            .ntasks = e->ntasks,
                            .ncores = e->ncores,
                            .duration = e->duration,
                            .t_submit = e->t_submit,
                            .t_depend = e->t_depend,
                            .t_run = e->t_run,
                            .t_cleanup = e->t_cleanup,
                            .t_inactive = e->t_inactive,
                            .ranks = jm_ended_text(e, JM_TEXT_RANKS),
                            .nodelist = jm_ended_text(e, JM_TEXT_HOSTS),
                            .result = job_result_name(e->result),
                            .code = e->code,
                            .exception = jm_ended_text(e, JM_TEXT_TYPE),
                            .note = jm_ended_text(e, JM_TEXT_NOTE),
                            .canceled_by = e->canceled_by,
                            .switches = jm_ended_text(e, JM_TEXT_SWITCHES),
                            .hops = e->hops,
                            .warning = jm_ended_text(e, JM_TEXT_WARNING),
                            .uri = jm_ended_text(e, JM_TEXT_URI)};

    put_info(sb, &info, jm_ended_text(e, JM_TEXT_FAILED));
}

/* --- the selection of jobs --- */

static bool wanted_active(const struct listing *l, const struct jm_job *j)
{
    return (l->q.states & JOB_STATE_BIT(j->st.state)) &&
           (!l->ids || idset_test(l->ids, (uint32_t)j->id)) &&
           (l->q.user < 0 || (uint32_t)l->q.user == j->st.userid) &&
           (!l->name || strcmp(l->name, j->spec->name) == 0);
}

static bool wanted_ended(const struct listing *l, const struct jm_ended *e)
{
    return (!l->ids || idset_test(l->ids, (uint32_t)e->id)) && e->t_inactive >= l->q.since &&
           (l->q.user < 0 || (uint32_t)l->q.user == e->uid) &&
           (!l->name || strcmp(l->name, jm_ended_text(e, JM_TEXT_NAME)) == 0);
}

static int by_order(const void *a, const void *b)
{
    const struct order *x = a, *y = b;

    if (x->rank != y->rank)
        return x->rank < y->rank ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

/* The root of the heap is the last of the kept jobs. */
static void sift(struct order *v, size_t n, size_t i)
{
    struct order x = v[i];

    for (size_t c; (c = 2 * i + 1) < n; i = c) {
        if (c + 1 < n && by_order(&v[c], &v[c + 1]) < 0)
            c++;
        if (by_order(&x, &v[c]) >= 0)
            break;
        v[i] = v[c];
    }
    v[i] = x;
}

/* Keep a job: if the list has a limit, only the first jobs are kept. */
static int keep(struct listing *l, const struct order *o)
{
    size_t max = l->q.max;
    struct order *v = l->order;

    if (max && l->n == max) {
        if (by_order(o, &v[0]) < 0) {
            v[0] = *o;
            sift(v, l->n, 0);
        }
        return 0;
    }
    if (l->n == l->cap) {
        size_t cap = l->cap ? 2 * l->cap : 64;

        if (!(v = realloc(v, cap * sizeof(*v))))
            return -1;
        l->order = v;
        l->cap = cap;
    }
    v[l->n++] = *o;
    if (max && l->n == max)
        for (size_t i = l->n / 2; i-- > 0;)
            sift(v, l->n, i);
    return 0;
}

static const struct transition moves[] = {
    {ACTIVE, HEAP, "visit_active"},
    {HEAP, SORT, "heap_step"},
    {SORT, ENDED, "begin_ended"},
    {ENDED, PAGES, "begin_ended, visit_ended"},
    TRANSITION_END,
};

static void set_phase(struct listing *l, enum phase phase)
{
    TRANSITION(4, moves, l->phase, phase);
    l->phase = phase;
}

static int visit_active(struct listing *l)
{
    const struct jm_job *j = l->job;
    struct order o;

    if (!j) {
        set_phase(l, HEAP);
        l->at = l->n / 2;
        return 0;
    }
    l->job = jm_job_next(j);
    if (!wanted_active(l, j))
        return 0;
    o.id = j->id;
    o.rank = j->st.state < JOB_STATE_RUN ? JOB_URGENCY_MAX - j->st.urgency
                                         : JOB_URGENCY_MAX + (int)j->st.state;
    return keep(l, &o);
}

static int heap_step(struct listing *l)
{
    if (l->at > 0) {
        l->at--;
        sift(l->order, l->n, l->at);
    } else {
        set_phase(l, SORT);
        l->at = l->n;
    }
    return 0;
}

static void begin_ended(struct listing *l)
{
    struct jm *jm = l->jm;

    set_phase(l, ENDED);
    l->by_id = l->ids && idset_count(l->ids) < jm_ended_count(jm) / 4;
    if (l->by_id)
        l->id = idset_last(l->ids);
    else
        l->ended = jm_ended_last(jm);
    if (!(l->q.states & JOB_STATE_BIT(JOB_STATE_INACTIVE)))
        set_phase(l, PAGES);
}

/* Move the last job behind the heap; at the end, take over the ids in order. */
static int sort_step(struct listing *l)
{
    struct order *v = l->order, last;

    if (l->at > 1) {
        last = v[0];
        v[0] = v[--l->at];
        v[l->at] = last;
        sift(v, l->at, 0);
        return 0;
    }
    if (l->found.n < l->n)
        return jm_ids_add(&l->found, v[l->found.n].id);
    free(l->order);
    l->order = NULL;
    begin_ended(l);
    return 0;
}

static int visit_ended(struct listing *l)
{
    struct jm *jm = l->jm;
    const struct jm_ended *e = l->ended;
    bool end = l->q.max && l->found.n >= l->q.max;

    if (l->by_id) {
        end |= l->id == IDSET_NONE;
        e = end ? NULL : jm_ended_find(jm, l->id);
        if (!end)
            l->id = idset_prev(l->ids, l->id);
    } else {
        end |= !e || e->t_inactive < l->q.since;
        if (!end)
            l->ended = jm_ended_prev(jm, e);
    }
    if (end) {
        set_phase(l, PAGES);
        return 0;
    }
    if (!e || !wanted_ended(l, e) || (l->moved && idset_test(l->moved, (uint32_t)e->id)))
        return 0;
    return jm_ids_add(&l->found, e->id);
}

static int (*const gather_steps[])(struct listing *l) = {
    [ACTIVE] = visit_active, [HEAP] = heap_step, [SORT] = sort_step, [ENDED] = visit_ended};

/* Collect ids until the slice is over.  -1 with ENOMEM. */
static int gather(struct listing *l, struct flux_slice *slice)
{
    while (l->phase != PAGES && (l->steps++ % STRIDE || flux_slice_more(slice)))
        if (gather_steps[l->phase](l) < 0)
            return -1;
    return 0;
}

void jm_list_job_gone(const struct jm_job *j)
{
    struct jm *jm = j->jm;

    if (!jm->list)
        return;
    LIST_FOREACH_SAFE(it, tmp, &jm->list->listings)
    {
        struct listing *l = list_entry(it, struct listing, node);

        if (l->phase == PAGES)
            continue;
        if (l->phase == ACTIVE && l->job == j)
            l->job = jm_job_next(j);
        else if (l->phase != ACTIVE || !l->job || j->id < l->job->id) {
            if ((!l->moved && !(l->moved = idset_create())) ||
                idset_set(l->moved, (uint32_t)j->id) < 0)
                fail(l);
        }
    }
}

void jm_list_ended_gone(struct jm *jm, const struct jm_ended *e)
{
    if (!jm->list)
        return;
    LIST_FOREACH(it, &jm->list->listings)
    {
        struct listing *l = list_entry(it, struct listing, node);

        if (l->phase == ENDED && l->ended == e)
            l->ended = jm_ended_prev(jm, e);
    }
}

/* --- pages --- */

/* At least one job; fewer than PAGE when they take long, as jobs on thousands of nodes do. */
static void send_page(struct listing *l, struct flux_slice *slice)
{
    struct jm *jm = l->jm;
    strbuf_t *sb = strbuf_create(0);
    char *json;
    size_t n = 0;

    jsonout_object(sb, NULL);
    jsonout_array(sb, "jobs");
    for (; n < PAGE && l->next < l->found.n && (n == 0 || flux_slice_more(slice)); l->next++) {
        struct jm_job *j = jm_job_find(jm, l->found.ids[l->next]);
        struct jm_ended *e = j ? NULL : jm_ended_find(jm, l->found.ids[l->next]);

        if (!j && !e)
            continue;
        n++;
        if (j)
            put_active(sb, j);
        else
            put_ended(sb, e);
    }
    jsonout_array_end(sb);
    jsonout_object_end(sb);
    if (sb && (json = strbuf_take(sb))) {
        if (n > 0)
            flux_respond_more(jm->h, l->req, json);
        free(json);
    }
}

/* --- reasons --- */

static void why_cb(flux_future_t *f, void *arg)
{
    struct listing *l = arg;
    struct jm *jm = l->jm;
    struct sched_reasons r = {0};
    errmsg_t err;

    if (flux_rpc_get_struct(f, &sched_reasons_schema, &r, &err) == 0) {
        for (size_t i = 0; i < json_array_size(r.why); i++) {
            struct jm_job *j;
            const char *reason;
            uint64_t id;
            double t;

            if (sched_wire_estimate_decode(json_array_get(r.why, i), &id, &t, &reason, &err) < 0 ||
                !(j = jm_job_find(jm, id)))
                continue;
            jm_sched_set_why(j, reason, t);
        }
    }
    flux_future_destroy(l->why);
    l->why = NULL;
    jm_module_kick(jm);
}

static void ask_why(struct listing *l)
{
    struct jm *jm = l->jm;
    strbuf_t *sb;
    char *json;
    size_t n = 0;

    if (!l->q.estimates || !jm_sched_attached(jm))
        return;
    sb = strbuf_create(0);
    jsonout_object(sb, NULL);
    jsonout_array(sb, "ids");
    for (size_t i = 0; i < l->found.n && n < SCHED_WHY_MAX; i++) {
        const struct jm_job *j = jm_job_find(jm, l->found.ids[i]);

        if (j && jm_sched_fed(j)) {
            jsonout_uint(sb, NULL, j->id);
            n++;
        }
    }
    jsonout_array_end(sb);
    jsonout_object_end(sb);
    json = sb ? strbuf_take(sb) : NULL;
    if (n && json && (l->why = flux_rpc(jm->h, "sched.why", json, FLUX_NODEID_ANY, 0)) &&
        flux_future_then(l->why, 5., why_cb, l) < 0) {
        flux_future_destroy(l->why);
        l->why = NULL;
    }
    free(json);
}

void jm_list_pass(struct jm *jm)
{
    struct flux_slice slice;

    flux_slice_begin(&slice, jm->r, FLUX_SLICE_SECONDS, 4 * PAGE);
    LIST_FOREACH_SAFE(it, tmp, &jm->list->listings)
    {
        struct listing *l = list_entry(it, struct listing, node);
        bool gathering = l->phase != PAGES;

        if (l->why)
            continue;
        if (!flux_slice_more(&slice)) {
            jm_module_kick(jm);
            break;
        }
        if (gathering && gather(l, &slice) < 0) {
            fail(l);
            continue;
        }
        if (gathering && l->phase == PAGES)
            ask_why(l);
        if (l->why)
            continue;
        if (l->phase == PAGES)
            send_page(l, &slice);
        if (l->phase == PAGES && l->next >= l->found.n) {
            flux_respond_error(jm->h, l->req, ENODATA, "that is all");
            listing_free(l);
        } else {
            list_remove(it);
            list_append(&jm->list->listings, it);
            jm_module_kick(jm);
        }
    }
}

/* --- the request --- */

static void start(struct jm *jm, const flux_msg_t *req, const struct job_list *q)
{
    struct listing *l = calloc(1, sizeof(*l));

    if (!l) {
        flux_respond_error(jm->h, req, ENOMEM, "the job module is out of memory");
        return;
    }
    l->jm = jm;
    l->q = *q;
    l->req = flux_msg_incref(req);
    list_init(&l->node);
    list_append(&jm->list->listings, &l->node);
    jm->list->n++;
    if (q->ids && !(l->ids = jm_request_ids(jm, req, q->ids))) {
        listing_free(l);
        return;
    }
    if ((q->name && !(l->name = strdup(q->name))) ||
        claim_take(jm->senders, &l->claim, req, gone) < 0) {
        flux_respond_error(jm->h, req, ENOMEM, "the job module is out of memory");
        listing_free(l);
        return;
    }
    if (l->q.states == 0)
        l->q.states = l->ids ? JOB_STATES_ALL : JOB_STATES_ACTIVE;
    l->job = jm_job_first(jm);
    jm_module_kick(jm);
}

void jm_list_cb(flux_t *h, const flux_msg_t *req, void *arg)
{
    struct jm *jm = arg;
    struct job_list q = {.user = -1};
    json_t *owner;

    if (jm_request_early(jm, req, jm_list_cb) ||
        flux_request_decode(h, req, &job_list_schema, &q, &owner) < 0)
        return;
    if (!flux_msg_has_flag(req, FLUX_MSGF_STREAMING))
        flux_respond_error(h, req, EPROTO, "job.list has to be a streaming request");
    else if (jm->list->n >= LISTINGS_MAX)
        flux_respond_error(h, req, EAGAIN, "%d job lists are in progress: try again later",
                           LISTINGS_MAX);
    else
        start(jm, req, &q);
    json_decref(owner);
}

int jm_list_create(struct jm *jm)
{
    struct jm_list *p = calloc(1, sizeof(*p));

    if (!p)
        return -1;
    jm->list = p;
    list_init(&p->listings);
    return 0;
}

void jm_list_destroy(struct jm *jm)
{
    struct jm_list *p = jm->list;
    struct list_node *n;

    if (!p)
        return;
    while ((n = list_first(&p->listings)))
        listing_free(list_entry(n, struct listing, node));
    free(p);
    jm->list = NULL;
}

/* jm_list.c - job.list: what there is, page by page.
 *
 * The ids of the jobs that are asked for are gathered when the request comes; each pass of the
 * reactor makes pages for one slice (libflux/slice.h), of the requests in turn, from what the jobs
 * are then.  So a long list costs eight bytes a job, and delays nobody by more than a slice.
 * Order: queued ones by urgency and id, then those that run, by id, then ended ones, newest first.
 * Of a list with a limit only those that are shown are kept and sorted; of ended jobs no more are
 * looked at.  Why jobs wait and when they are expected to start is asked of the scheduler first,
 * when that is wanted.
 *
 * Invariant: at most LISTINGS_MAX requests are under way.
 *
 * Failure: a job that was purged between two pages is left out.  Without a scheduler lists have no
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

#define PAGE 1000
#define LISTINGS_MAX 256

struct jm_list {
    struct list_node listings; /* struct listing */
    size_t n;
};

struct listing {
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
    jm_ids_clear(&l->found);
    free(l);
}

static void gone(struct claim *c, bool canceled)
{
    struct listing *l = list_entry(c, struct listing, claim);

    if (canceled)
        flux_respond_error(l->jm->h, l->req, ENODATA, "canceled");
    listing_free(l);
}

/* --- a job in a page --- */

/* Text as job_info_schema reads it, without what is 0 or not there: that is most of it. */
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

/* `failed`: its member of that name, as JSON already. */
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
    put_text(sb, "result", i->result);
    if (i->result)
        jsonout_int(sb, "code", i->code);
    put_text(sb, "exception", i->exception);
    put_text(sb, "note", i->note);
    if (i->canceled_by >= 0)
        jsonout_int(sb, "canceled_by", i->canceled_by);
    if (failed && failed[0])
        jsonout_text(sb, "failed", failed);
    put_text(sb, "why", i->why);
    put_text(sb, "uri", i->uri);
    put_text(sb, "dependency", i->dependency);
    jsonout_object_end(sb);
}

/* A sentence that is made here is the caller's to free, by `made`. */
static const char *why_waits(const struct jm_job *j, const char *depends, char **made)
{
    const struct jm *jm = j->jm;
    const char *text;

    /* Nothing of a job is acted upon or told before it is on record. */
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
        return j->sched.why;
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
                            .t_estimate = j->sched.estimate,
                            .expiration = j->expiration,
                            .exception = j->end.type,
                            .note = j->end.type ? j->end.note : NULL,
                            .canceled_by = j->end.canceled_by,
                            .uri = j->uri};
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
                            .uri = jm_ended_text(e, JM_TEXT_URI)};

    put_info(sb, &info, jm_ended_text(e, JM_TEXT_FAILED));
}

/* --- which jobs --- */

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

struct order {
    uint64_t id;
    int rank;
};

static int by_order(const void *a, const void *b)
{
    const struct order *x = a, *y = b;

    if (x->rank != y->rank)
        return x->rank < y->rank ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

/* The heap's root is what comes last of those kept. */
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

/* Of `n` jobs that are kept in v, `max` at most, and one more: those that come first. */
static size_t keep(struct order *v, size_t n, size_t max, const struct order *o)
{
    if (n < max) {
        v[n++] = *o;
        for (size_t i = n == max ? n / 2 : 0; i-- > 0;)
            sift(v, n, i);
    } else if (by_order(o, &v[0]) < 0) {
        v[0] = *o;
        sift(v, n, 0);
    }
    return n;
}

/* Only as many are sorted and shown as are asked for: the rest is looked at once. */
static int gather_active(struct listing *l)
{
    struct jm *jm = l->jm;
    size_t max = jm_job_count(jm), n = 0;
    struct order *all;
    int rc = 0;

    if (max == 0)
        return 0;
    if (l->q.max && l->q.max < max)
        max = l->q.max;
    if (!(all = malloc(max * sizeof(*all))))
        return -1;
    for (const struct jm_job *j = jm_job_first(jm); j; j = jm_job_next(j)) {
        struct order o = {.id = j->id};

        if (!wanted_active(l, j))
            continue;
        o.rank = j->st.state < JOB_STATE_RUN ? JOB_URGENCY_MAX - j->st.urgency
                                             : JOB_URGENCY_MAX + (int)j->st.state;
        n = keep(all, n, max, &o);
    }
    qsort(all, n, sizeof(*all), by_order);
    for (size_t i = 0; i < n && rc == 0; i++)
        rc = jm_ids_add(&l->found, all[i].id);
    free(all);
    return rc;
}

static int gather_ended(struct listing *l)
{
    struct jm *jm = l->jm;
    size_t max = l->q.max;

    if (!(l->q.states & JOB_STATE_BIT(JOB_STATE_INACTIVE)))
        return 0;
    if (max && l->found.n >= max)
        return 0;
    if (l->ids && idset_count(l->ids) < jm_ended_count(jm) / 4) {
        for (uint32_t id = idset_last(l->ids); id != IDSET_NONE; id = idset_prev(l->ids, id)) {
            struct jm_ended *e = jm_ended_find(jm, id);

            if (max && l->found.n >= max)
                break;
            if (e && wanted_ended(l, e) && jm_ids_add(&l->found, id) < 0)
                return -1;
        }
        return 0;
    }
    for (struct jm_ended *e = jm_ended_last(jm); e; e = jm_ended_prev(jm, e)) {
        if ((max && l->found.n >= max) || e->t_inactive < l->q.since)
            break;
        if (wanted_ended(l, e) && jm_ids_add(&l->found, e->id) < 0)
            return -1;
    }
    return 0;
}

/* --- pages --- */

static void send_page(struct listing *l)
{
    struct jm *jm = l->jm;
    strbuf_t *sb = strbuf_create(0);
    char *json;
    size_t n = 0;

    jsonout_object(sb, NULL);
    jsonout_array(sb, "jobs");
    for (; n < PAGE && l->next < l->found.n; l->next++) {
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

void jm_list_pass(struct jm *jm)
{
    struct flux_slice slice;

    flux_slice_begin(&slice, jm->r, FLUX_SLICE_SECONDS, 4);
    LIST_FOREACH_SAFE(it, tmp, &jm->list->listings)
    {
        struct listing *l = list_entry(it, struct listing, node);

        if (l->why)
            continue;
        if (!flux_slice_more(&slice)) {
            jm_module_kick(jm);
            break;
        }
        send_page(l);
        if (l->next >= l->found.n) {
            flux_respond_error(jm->h, l->req, ENODATA, "that is all");
            listing_free(l);
        } else {
            list_remove(it);
            list_append(&jm->list->listings, it);
            jm_module_kick(jm);
        }
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

            if (sched_estimate_decode(json_array_get(r.why, i), &id, &t, &reason, &err) < 0 ||
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

        if (j && j->sched.fed) {
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

/* --- the request --- */

static int begin(struct listing *l, errmsg_t *err)
{
    if (l->q.states == 0)
        l->q.states = l->ids ? JOB_STATES_ALL : JOB_STATES_ACTIVE;
    if (gather_active(l) < 0 || gather_ended(l) < 0)
        return errmsg_fail(err, ENOMEM, "the job module is out of memory");
    return 0;
}

static void start(struct jm *jm, const flux_msg_t *req, const struct job_list *q)
{
    struct listing *l = calloc(1, sizeof(*l));
    errmsg_t err;

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
    if (begin(l, &err) < 0) {
        flux_respond_error(jm->h, req, errno, "%s", err.text);
        listing_free(l);
        return;
    }
    ask_why(l);
    jm_module_kick(jm);
}

void jm_list_cb(flux_t *h, const flux_msg_t *req, void *arg)
{
    struct jm *jm = arg;
    struct job_list q = {.user = -1};
    json_t *owner;

    if (jm_hold(jm, req, jm_list_cb) ||
        flux_request_decode(h, req, &job_list_schema, &q, &owner) < 0)
        return;
    if (!flux_msg_has_flag(req, FLUX_MSGF_STREAMING))
        flux_respond_error(h, req, EPROTO, "job.list has to be a streaming request");
    else if (jm->list->n >= LISTINGS_MAX)
        flux_respond_error(h, req, EAGAIN, "%d lists are being made already: try again",
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

/* watch.c - job.watch: transitions of jobs as they go on record.
 *
 * Who watches all jobs shares one text with all others who do; who watches some has a set of ids
 * that each transition is looked up in.  Transitions are told together, when the transaction that
 * has them is done.  While nobody watches none are kept.
 *
 * Invariants:
 *  1. A watcher is told the present state of each active job (that it names) first, as it is on
 *     record or is about to be, and then every later transition once, in order.
 *
 * Failure: without memory transitions are lost for those who watch, who are told by the end of the
 * stream with ENOMEM.
 */
#include "config.h"
#include "job.h"

#include <errno.h>
#include <stdlib.h>

#include "libjob/job_wire.h"

#define WATCHERS_MAX 1000

struct watcher {
    struct km_claim claim;
    struct list_node node;
    struct jm *jm;
    flux_msg_t *req;
    idset_t *ids;           /* NULL: all */
    strbuf_t *out, *sent;   /* of some */
    size_t skip, sent_skip; /* of all: bytes of the shared text from before it came */
};

static void watcher_free(struct watcher *w)
{
    km_claim_drop(w->jm->senders, &w->claim);
    list_remove(&w->node);
    w->jm->nwatchers--;
    w->jm->nchoosy -= w->ids != NULL;
    idset_destroy(w->ids);
    flux_msg_destroy(w->req);
    strbuf_destroy(w->out);
    strbuf_destroy(w->sent);
    free(w);
}

static void gone(struct km_claim *c, bool cancelled)
{
    struct watcher *w = list_entry(c, struct watcher, claim);

    if (cancelled)
        flux_respond_error(w->jm->h, w->req, ENODATA, "cancelled");
    watcher_free(w);
}

static double entered_at(const struct jobstate *st)
{
    switch (st->state) {
    case JOB_STATE_DEPEND:
        return st->t_submit;
    case JOB_STATE_PRIORITY:
    case JOB_STATE_SCHED:
        return st->t_depend;
    case JOB_STATE_RUN:
        return st->t_run;
    case JOB_STATE_CLEANUP:
        return st->t_cleanup;
    case JOB_STATE_INACTIVE:
        return st->t_inactive;
    default:
        return 0.;
    }
}

static void add(strbuf_t **sb, uint64_t id, enum job_state state, double t)
{
    if (!*sb)
        *sb = strbuf_create(0);
    strbuf_addf(*sb, "%s[%llu,\"%s\",%.6f]", *sb && strbuf_len(*sb) ? "," : "",
                (unsigned long long)id, job_state_name(state), t);
}

void jm_watch_transition(struct jm_job *j)
{
    struct jm *jm = j->jm;

    if (list_empty(&jm->watchers))
        return;
    add(&jm->transitions, j->id, j->st.state, entered_at(&j->st));
    if (jm->nchoosy == 0)
        return;
    LIST_FOREACH(it, &jm->watchers)
    {
        struct watcher *w = list_entry(it, struct watcher, node);

        if (w->ids && idset_test(w->ids, (uint32_t)j->id))
            add(&w->out, j->id, j->st.state, entered_at(&j->st));
    }
}

static void append(strbuf_t **to, strbuf_t **from)
{
    if (!*from)
        return;
    if (!*to) {
        *to = *from;
    } else {
        strbuf_addc(*to, ',');
        strbuf_addn(*to, strbuf_str(*from), strbuf_len(*from));
        strbuf_destroy(*from);
    }
    *from = NULL;
}

void jm_watch_sent(struct jm *jm)
{
    size_t before = jm->transitions_sent ? strbuf_len(jm->transitions_sent) + 1 : 0;

    LIST_FOREACH(it, &jm->watchers)
    {
        struct watcher *w = list_entry(it, struct watcher, node);

        if (w->skip)
            w->sent_skip = before + w->skip;
        w->skip = 0;
        append(&w->sent, &w->out);
    }
    append(&jm->transitions_sent, &jm->transitions);
}

static void send(struct watcher *w, const char *list)
{
    strbuf_t *sb = strbuf_create(0);
    char *json;

    strbuf_addf(sb, "{\"transitions\":[");
    strbuf_add(sb, list);
    strbuf_add(sb, "]}");
    if (sb && (json = strbuf_take(sb))) {
        flux_respond_more(w->jm->h, w->req, json);
        free(json);
    } else {
        flux_respond_error(w->jm->h, w->req, ENOMEM, "the job module is out of memory");
        watcher_free(w);
    }
}

void jm_watch_recorded(struct jm *jm)
{
    strbuf_t *all = jm->transitions_sent;

    jm->transitions_sent = NULL;
    LIST_FOREACH_SAFE(it, tmp, &jm->watchers)
    {
        struct watcher *w = list_entry(it, struct watcher, node);
        size_t skip = w->sent_skip;
        strbuf_t *own = w->sent;

        w->sent_skip = 0;
        w->sent = NULL;
        if (own)
            send(w, strbuf_str(own));
        else if (!w->ids && all && skip < strbuf_len(all))
            send(w, strbuf_str(all) + skip + (skip > 0));
        strbuf_destroy(own);
    }
    strbuf_destroy(all);
}

/* --- who watches --- */

static void tell_present(struct watcher *w)
{
    struct jm *jm = w->jm;
    strbuf_t *sb = NULL;

    if (w->ids && idset_count(w->ids) < hmap_count(jm->active)) {
        for (uint32_t id = idset_first(w->ids); id != IDSET_NONE; id = idset_next(w->ids, id)) {
            const struct jm_job *j = jm_job_find(jm, id);

            if (j)
                add(&sb, id, j->st.state, entered_at(&j->st));
        }
    } else {
        LIST_FOREACH(it, &jm->jobs)
        {
            const struct jm_job *j = list_entry(it, struct jm_job, node);

            if (!w->ids || idset_test(w->ids, (uint32_t)j->id))
                add(&sb, j->id, j->st.state, entered_at(&j->st));
        }
    }
    send(w, sb ? strbuf_str(sb) : "");
    strbuf_destroy(sb);
}

static void watch(struct jm *jm, const flux_msg_t *req, idset_t *ids)
{
    struct watcher *w = calloc(1, sizeof(*w));

    if (!w) {
        idset_destroy(ids);
        flux_respond_error(jm->h, req, ENOMEM, "the job module is out of memory");
        return;
    }
    w->jm = jm;
    w->ids = ids;
    w->req = flux_msg_incref(req);
    if (jm->transitions)
        w->skip = strbuf_len(jm->transitions);
    if (jm->transitions_sent)
        w->sent_skip = strbuf_len(jm->transitions_sent);
    list_init(&w->node);
    list_append(&jm->watchers, &w->node);
    jm->nwatchers++;
    jm->nchoosy += ids != NULL;
    if (km_claim(jm->senders, &w->claim, req, gone) < 0) {
        flux_respond_error(jm->h, req, ENOMEM, "the job module is out of memory");
        watcher_free(w);
        return;
    }
    tell_present(w);
}

void jm_watch_cb(flux_t *h, const flux_msg_t *req, void *arg)
{
    struct jm *jm = arg;
    struct job_ids in = {0};
    idset_t *ids = NULL;
    json_t *owner;

    if (jm_hold(jm, req, jm_watch_cb) ||
        flux_request_decode(h, req, &job_ids_schema, &in, &owner) < 0)
        return;
    if (!flux_msg_has_flag(req, FLUX_MSGF_STREAMING))
        flux_respond_error(h, req, EPROTO, "job.watch has to be a streaming request");
    else if (jm->nwatchers >= WATCHERS_MAX)
        flux_respond_error(h, req, EAGAIN, "%d watch jobs already", WATCHERS_MAX);
    else if (!in.ids || (ids = jm_request_ids(jm, req, in.ids)))
        watch(jm, req, ids);
    json_decref(owner);
}

void jm_watch_fini(struct jm *jm)
{
    struct list_node *n;

    while ((n = list_first(&jm->watchers)))
        watcher_free(list_entry(n, struct watcher, node));
    strbuf_destroy(jm->transitions);
    strbuf_destroy(jm->transitions_sent);
}

/* jm_watch.c - job.watch: the transitions of jobs, as they are recorded.
 *
 * Purpose: all watchers of all jobs share one text.  A watcher of some jobs has a set of ids, in
 * which each transition is looked up.  Transitions are sent together, when the transaction that
 * contains them is done.  Without watchers, none are kept.
 *
 * A new watcher first gets the present states of its jobs, in pages by ascending id; each pass of
 * the reactor has one slice (libflux/slice.h) for the watchers that wait for pages, in turn.
 * Transitions of a job are not sent before its present state, which includes them.
 *
 * Invariants:
 *  1. A watcher first gets the state of each active job (that it names), as it is recorded or about
 *     to be, and then every later transition of that job once, in order.
 *  2. No text is kept of states that were not sent yet: a page is made when it is sent.
 *
 * Failure: without memory a watcher loses transitions; its stream ends with ENOMEM.
 */
#include "config.h"
#include "jm_private.h"

#include <errno.h>
#include <stdlib.h>

#include "libflux/slice.h"
#include "libjob/job_wire.h"
#include "libschema/jsonout.h"

#define WATCHERS_MAX 1000
#define PAGE 250
/* Others wait for several passes, one for each step of what they want. */
#define SLICE_SECONDS (FLUX_SLICE_SECONDS / 4)

struct jm_watch {
    struct list_node watchers; /* struct watcher */
    struct list_node replays;  /* those of them that are still being told present states */
    size_t n;
    size_t nchoosy;                           /* those that are not told the same as all others */
    strbuf_t *transitions, *transitions_sent; /* not yet told: [id,"STATE",t],... */
};

struct watcher {
    struct claim claim;
    struct list_node node;
    struct list_node replay; /* in jm.replays: not all present states have been told */
    bool replaying;
    uint64_t told;     /* ... but those of ids below this */
    bool all;          /* all jobs are looked at, not the ids that it names, */
    struct jm_job *at; /* and this is the last of those told; NULL: none yet */
    struct jm *jm;
    flux_msg_t *req;
    idset_t *ids;           /* NULL: all */
    strbuf_t *out, *sent;   /* of some, and while present states are told */
    size_t skip, sent_skip; /* of all: bytes of the shared text from before it came */
};

/* Do its transitions differ from those that all others are told? */
static bool is_choosy(const struct watcher *w)
{
    return w->ids || w->replaying;
}

static void watcher_free(struct watcher *w)
{
    claim_drop(w->jm->senders, &w->claim);
    list_remove(&w->node);
    list_remove(&w->replay);
    w->jm->watch->n--;
    w->jm->watch->nchoosy -= is_choosy(w);
    idset_destroy(w->ids);
    flux_msg_destroy(w->req);
    strbuf_destroy(w->out);
    strbuf_destroy(w->sent);
    free(w);
}

static void gone(struct claim *c, bool canceled)
{
    struct watcher *w = list_entry(c, struct watcher, claim);

    if (canceled)
        flux_respond_error(w->jm->h, w->req, ENODATA, "canceled");
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
    jsonout_array(*sb, NULL);
    jsonout_uint(*sb, NULL, id);
    jsonout_str(*sb, NULL, job_state_name(state));
    jsonout_time(*sb, NULL, t);
    jsonout_array_end(*sb);
}

void jm_watch_transition(struct jm_job *j)
{
    struct jm *jm = j->jm;

    if (list_empty(&jm->watch->watchers))
        return;
    add(&jm->watch->transitions, j->id, j->st.state, entered_at(&j->st));
    if (jm->watch->nchoosy == 0)
        return;
    LIST_FOREACH(it, &jm->watch->watchers)
    {
        struct watcher *w = list_entry(it, struct watcher, node);

        if (is_choosy(w) && (!w->ids || idset_test(w->ids, (uint32_t)j->id)) &&
            (!w->replaying || j->id < w->told))
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
        jsonout_text(*to, NULL, strbuf_str(*from));
        strbuf_destroy(*from);
    }
    *from = NULL;
}

void jm_watch_sent(struct jm *jm)
{
    size_t before = jm->watch->transitions_sent ? strbuf_len(jm->watch->transitions_sent) + 1 : 0;

    LIST_FOREACH(it, &jm->watch->watchers)
    {
        struct watcher *w = list_entry(it, struct watcher, node);

        if (w->skip)
            w->sent_skip = before + w->skip;
        w->skip = 0;
        append(&w->sent, &w->out);
    }
    append(&jm->watch->transitions_sent, &jm->watch->transitions);
}

/* False: it had to be freed. */
static bool send(struct watcher *w, const char *list)
{
    strbuf_t *sb = strbuf_create(0);
    char *json;

    jsonout_object(sb, NULL);
    jsonout_array(sb, "transitions");
    jsonout_text(sb, NULL, list);
    jsonout_array_end(sb);
    jsonout_object_end(sb);
    if (sb && (json = strbuf_take(sb))) {
        flux_respond_more(w->jm->h, w->req, json);
        free(json);
        return true;
    }
    flux_respond_error(w->jm->h, w->req, ENOMEM, "the job module is out of memory");
    watcher_free(w);
    return false;
}

void jm_watch_recorded(struct jm *jm)
{
    strbuf_t *all = jm->watch->transitions_sent;

    jm->watch->transitions_sent = NULL;
    LIST_FOREACH_SAFE(it, tmp, &jm->watch->watchers)
    {
        struct watcher *w = list_entry(it, struct watcher, node);
        size_t skip = w->sent_skip;
        strbuf_t *own = w->sent;

        w->sent_skip = 0;
        w->sent = NULL;
        /* What is its own is older: it comes from when it was told the present. */
        bool lives = !own || send(w, strbuf_str(own));

        if (lives && !is_choosy(w) && all && skip < strbuf_len(all))
            send(w, strbuf_str(all) + skip + (skip > 0));
        strbuf_destroy(own);
    }
    strbuf_destroy(all);
}

/* --- who watches --- */

static void add_state(strbuf_t **sb, const struct jm_job *j)
{
    add(sb, j->id, j->st.state, entered_at(&j->st));
}

/* A page of those that it names: false when that was the last. */
static bool some_named(struct watcher *w, strbuf_t **sb)
{
    uint32_t id = w->told == 0 ? idset_first(w->ids) : idset_next(w->ids, (uint32_t)(w->told - 1));

    for (unsigned n = 0; n < PAGE && id != IDSET_NONE; n++) {
        const struct jm_job *j = jm_job_find(w->jm, id);

        if (j)
            add_state(sb, j);
        w->told = (uint64_t)id + 1;
        id = idset_next(w->ids, id);
    }
    return id != IDSET_NONE;
}

/* The same of all jobs. */
static bool some_active(struct watcher *w, strbuf_t **sb)
{
    struct jm_job *j = w->at ? jm_job_next(w->at) : jm_job_first(w->jm);

    for (unsigned n = 0; n < PAGE && j; n++) {
        if (!w->ids || idset_test(w->ids, (uint32_t)j->id))
            add_state(sb, j);
        w->told = j->id + 1;
        w->at = j;
        j = jm_job_next(j);
    }
    return j;
}

static void replayed(struct watcher *w)
{
    struct jm *jm = w->jm;

    list_remove(&w->replay);
    jm->watch->nchoosy -= is_choosy(w);
    w->replaying = false;
    jm->watch->nchoosy += is_choosy(w);
    /* What is in the shared text by now it has been told, or has of its own. */
    w->skip = jm->watch->transitions ? strbuf_len(jm->watch->transitions) : 0;
    w->sent_skip = jm->watch->transitions_sent ? strbuf_len(jm->watch->transitions_sent) : 0;
}

static void tell_page(struct watcher *w)
{
    strbuf_t *sb = NULL;
    bool more = w->all ? some_active(w, &sb) : some_named(w, &sb);

    if (!more)
        replayed(w);
    else {
        list_remove(&w->replay);
        list_append(&w->jm->watch->replays, &w->replay);
    }
    send(w, sb ? strbuf_str(sb) : "");
    strbuf_destroy(sb);
}

void jm_watch_pass(struct jm *jm)
{
    struct flux_slice slice;
    struct list_node *n;

    flux_slice_begin(&slice, jm->r, SLICE_SECONDS, 4);
    while ((n = list_first(&jm->watch->replays))) {
        if (!flux_slice_more(&slice)) {
            jm_module_kick(jm);
            break;
        }
        tell_page(list_entry(n, struct watcher, replay));
    }
}

void jm_watch_forget(struct jm_job *j)
{
    if (!j->jm->watch)
        return;
    LIST_FOREACH(it, &j->jm->watch->replays)
    {
        struct watcher *w = list_entry(it, struct watcher, replay);

        if (w->at == j)
            w->at = jm_job_prev(j);
    }
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
    list_init(&w->node);
    list_init(&w->replay);
    list_append(&jm->watch->watchers, &w->node);
    list_append(&jm->watch->replays, &w->replay);
    w->replaying = true;
    w->all = !ids || idset_count(ids) >= jm_job_count(jm);
    jm->watch->n++;
    jm->watch->nchoosy++;
    if (claim_take(jm->senders, &w->claim, req, gone) < 0) {
        flux_respond_error(jm->h, req, ENOMEM, "the job module is out of memory");
        watcher_free(w);
        return;
    }
    jm_module_kick(jm);
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
    else if (jm->watch->n >= WATCHERS_MAX)
        flux_respond_error(h, req, EAGAIN, "%d watch jobs already", WATCHERS_MAX);
    else if (!in.ids || (ids = jm_request_ids(jm, req, in.ids)))
        watch(jm, req, ids);
    json_decref(owner);
}

int jm_watch_create(struct jm *jm)
{
    struct jm_watch *p = calloc(1, sizeof(*p));

    if (!p)
        return -1;
    jm->watch = p;
    list_init(&p->watchers);
    list_init(&p->replays);
    return 0;
}

void jm_watch_destroy(struct jm *jm)
{
    struct jm_watch *p = jm->watch;
    struct list_node *n;

    if (!p)
        return;
    while ((n = list_first(&p->watchers)))
        watcher_free(list_entry(n, struct watcher, node));
    strbuf_destroy(p->transitions);
    strbuf_destroy(p->transitions_sent);
    free(p);
    jm->watch = NULL;
}

void jm_watch_stats(const struct jm *jm, struct jm_stats *st)
{
    st->watchers = (uint32_t)jm->watch->n;
    st->choosy = (uint32_t)jm->watch->nchoosy;
}

/* jm_watch.c - job.watch: the transitions of jobs, as they are recorded.
 *
 * Purpose: all watchers of all jobs share one text, in which each has a position.  A watcher of
 * some jobs has a set of ids, in which each transition is looked up, and a text of its own.
 * Without watchers, no text is kept.
 *
 *    part of the shared text      transitions in it                    moves up one row when
 *    before `recorded`            recorded: they may be sent           -
 *    from `recorded` to `sent`    in the transaction under way         the transaction is done
 *    from `sent`                  later ones                           the next transaction begins
 *
 * A new watcher first gets the present states of its jobs, in pages by ascending id.  Transitions
 * of a job are not sent before its present state, which includes them.
 *
 * Both are sent in slices (libflux/slice.h), one in each pass of the reactor: first new
 * transitions, to the watchers in turn, then pages to the watchers that wait for them, in turn.
 * The work is limited to a share of the time (libutil/budget.h): other requests do not wait until
 * hundreds of watchers are notified.  Under that limit, watchers are notified later, and of several
 * transactions together.
 *
 * Invariants:
 *  1. A watcher first gets the recorded state (or the one being recorded) of each active job that
 *     it names, and then every later transition of that job once, in order.
 *  2. Present states are not kept as text: a page is made when it is sent.
 *  3. Positions are offsets in all text that was ever written; the text begins at `base`, and no
 *     position of a watcher that shares the text is before `base`.
 *
 * Failure: if memory is short, a watcher loses transitions, and its stream ends with ENOMEM.
 */
#include "config.h"
#include "jm_private.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "libflux/slice.h"
#include "libschema/jsonout.h"
#include "libutil/budget.h"
#include "libutil/invariant.h"

#define WATCHERS_MAX 1000
#define PAGE 250
/* Other requests wait for several passes, one for each of their steps. */
#define SLICE_SECONDS (FLUX_SLICE_SECONDS / 8)
#define SHARE 0.1  /* of the time, for all watchers */
#define BURST 0.01 /* seconds: about ten thousand states */
#define TRIM 65536 /* bytes of text that were sent to all watchers */

struct jm_watch {
    struct list_node watchers; /* struct watcher; in the order in which they are served */
    struct list_node owners;   /* watchers that have, or may get, a text of their own */
    struct list_node replays;  /* watchers to which present states are still being sent */
    size_t n;
    size_t nchoosy; /* number of watchers that do not get the same as all others */
    size_t left;    /* number of `watchers`, from the head on, for which there may be new
                  * transitions */
    strbuf_t *text; /* [id,"STATE",t],... */
    uint64_t base, recorded, sent;
    struct budget budget;
    flux_watcher_t *wait; /* until the budget has time again */
};

struct watcher {
    struct claim claim;
    struct list_node node;
    struct list_node owner;  /* in jm_watch.owners */
    struct list_node replay; /* in jm_watch.replays: not all present states have been sent */
    bool replaying;
    uint64_t replay_pos; /* ... but those of ids below this were sent */
    bool all;            /* the watcher has all jobs, not a set of ids, */
    struct jm_job *at;   /* and this is the last job that was sent; NULL: none yet */
    struct jm *jm;
    flux_msg_t *req;
    idset_t *ids; /* NULL: all */
    uint64_t pos; /* not choosy: the shared text before this was sent, or is not for it */
    strbuf_t *due, *sent, *out; /* the three parts of its own text */
};

/* Do its transitions differ from those that all others get? */
static bool is_choosy(const struct watcher *w)
{
    return w->ids || w->replaying;
}

static void watcher_free(struct watcher *w)
{
    struct jm_watch *p = w->jm->watch;

    claim_drop(w->jm->senders, &w->claim);
    list_remove(&w->node);
    list_remove(&w->owner);
    list_remove(&w->replay);
    p->n--;
    p->nchoosy -= is_choosy(w);
    if (p->left > p->n)
        p->left = p->n;
    idset_destroy(w->ids);
    flux_msg_destroy(w->req);
    strbuf_destroy(w->due);
    strbuf_destroy(w->sent);
    strbuf_destroy(w->out);
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

static uint64_t end_of_text(const struct jm_watch *p)
{
    return p->base + (p->text ? strbuf_len(p->text) : 0);
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
    struct jm_watch *p = j->jm->watch;

    if (list_empty(&p->watchers))
        return;
    add(&p->text, j->id, j->st.state, entered_at(&j->st));
    LIST_FOREACH(it, &p->owners)
    {
        struct watcher *w = list_entry(it, struct watcher, owner);

        if (is_choosy(w) && (!w->ids || idset_test(w->ids, (uint32_t)j->id)) &&
            (!w->replaying || j->id < w->replay_pos))
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
    struct jm_watch *p = jm->watch;

    p->sent = end_of_text(p);
    LIST_FOREACH(it, &p->owners)
    {
        struct watcher *w = list_entry(it, struct watcher, owner);

        append(&w->sent, &w->out);
    }
}

void jm_watch_recorded(struct jm *jm)
{
    struct jm_watch *p = jm->watch;

    p->recorded = p->sent;
    p->left = p->n;
    LIST_FOREACH_SAFE(it, tmp, &p->owners)
    {
        struct watcher *w = list_entry(it, struct watcher, owner);

        append(&w->due, &w->sent);
        if (!is_choosy(w) && !w->out)
            list_remove(&w->owner);
    }
    jm_module_kick(jm);
}

static void out_of_memory(struct watcher *w)
{
    flux_respond_error(w->jm->h, w->req, ENOMEM, "the job module is out of memory");
    watcher_free(w);
}

/* Send a list.  False: the watcher had to be freed. */
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
    out_of_memory(w);
    return false;
}

/* The part of the shared text that is new to the watcher; malloc'd. */
static char *news_of(const struct watcher *w)
{
    const struct jm_watch *p = w->jm->watch;
    const char *all = strbuf_str(p->text), *from = all + (w->pos - p->base);

    INVARIANT(3, w->pos >= p->base);
    from += *from == ',';
    return strndup(from, (size_t)(p->recorded - p->base) - (size_t)(from - all));
}

static void tell_news(struct watcher *w)
{
    uint64_t recorded = w->jm->watch->recorded;
    strbuf_t *own = w->due;
    bool behind = !is_choosy(w) && w->pos < recorded;
    char *news = behind ? news_of(w) : NULL;

    w->due = NULL;
    if (behind)
        w->pos = recorded;
    /* Its own text is older: it begins with the present states. */
    if (!own || send(w, strbuf_str(own))) {
        if (news)
            (void)send(w, news);
        else if (behind)
            out_of_memory(w);
    }
    strbuf_destroy(own);
    free(news);
}

/* Drop text that has been sent to all watchers. */
static void trim(struct jm_watch *p)
{
    strbuf_t *rest;
    size_t len;

    if (p->left > 0 || !p->text)
        return;
    if (p->recorded == end_of_text(p)) {
        strbuf_destroy(p->text);
        p->text = NULL;
        p->base = p->recorded;
    } else if ((len = (size_t)(p->recorded - p->base)) >= TRIM && (rest = strbuf_create(0))) {
        if (strbuf_add(rest, strbuf_str(p->text) + len) == 0) {
            strbuf_destroy(p->text);
            p->text = rest;
            p->base = p->recorded;
        } else
            strbuf_destroy(rest);
    }
}

/* --- present states --- */

static void add_state(strbuf_t **sb, const struct jm_job *j)
{
    add(sb, j->id, j->st.state, entered_at(&j->st));
}

/* A page of the jobs that it names: false when that was the last page. */
static bool some_named(struct watcher *w, strbuf_t **sb)
{
    uint32_t id = w->replay_pos == 0 ? idset_first(w->ids)
                                     : idset_next(w->ids, (uint32_t)(w->replay_pos - 1));

    for (unsigned n = 0; n < PAGE && id != IDSET_NONE; n++) {
        const struct jm_job *j = jm_job_find(w->jm, id);

        if (j)
            add_state(sb, j);
        w->replay_pos = (uint64_t)id + 1;
        id = idset_next(w->ids, id);
    }
    return id != IDSET_NONE;
}

/* The same for all jobs. */
static bool some_active(struct watcher *w, strbuf_t **sb)
{
    struct jm_job *j = w->at ? jm_job_next(w->at) : jm_job_first(w->jm);

    for (unsigned n = 0; n < PAGE && j; n++) {
        if (!w->ids || idset_test(w->ids, (uint32_t)j->id))
            add_state(sb, j);
        w->replay_pos = j->id + 1;
        w->at = j;
        j = jm_job_next(j);
    }
    return j;
}

static void replayed(struct watcher *w)
{
    struct jm *jm = w->jm;

    list_remove(&w->replay);
    w->replaying = false;
    if (!is_choosy(w))
        jm->watch->nchoosy--;
    /* The shared text so far was sent to it, or is in its own text. */
    w->pos = end_of_text(jm->watch);
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

/* Serve the watchers with new transitions, in turn: a served watcher moves to the end. */
static void tell_some(struct jm *jm)
{
    struct jm_watch *p = jm->watch;
    struct flux_slice slice;

    flux_slice_begin(&slice, jm->r, SLICE_SECONDS, FLUX_SLICE_THINGS);
    while (p->left > 0 && flux_slice_more(&slice)) {
        struct watcher *w = list_entry(list_first(&p->watchers), struct watcher, node);

        p->left--;
        list_remove(&w->node);
        list_append(&p->watchers, &w->node);
        tell_news(w);
    }
    trim(p);
}

static void tell_pages(struct jm *jm)
{
    struct jm_watch *p = jm->watch;
    struct flux_slice slice;
    struct list_node *n;

    flux_slice_begin(&slice, jm->r, SLICE_SECONDS, 4);
    while ((n = list_first(&p->replays)) && flux_slice_more(&slice))
        tell_page(list_entry(n, struct watcher, replay));
}

void jm_watch_pass(struct jm *jm)
{
    struct jm_watch *p = jm->watch;
    double begin, wait, used;

    if (p->left == 0 && list_empty(&p->replays))
        return;
    begin = flux_reactor_clock(jm->r);
    if ((wait = budget_wait(&p->budget, begin)) > 0.) {
        flux_timer_start(p->wait, wait, 0.);
        return;
    }
    tell_some(jm);
    tell_pages(jm);
    /* This may include time of other threads on the same processor. */
    used = flux_reactor_clock(jm->r) - begin;
    budget_use(&p->budget, used < 4 * SLICE_SECONDS ? used : 4 * SLICE_SECONDS);
    if (p->left > 0 || !list_empty(&p->replays))
        jm_module_kick(jm);
}

static void wait_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    jm_module_kick(arg);
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
    list_init(&w->owner);
    list_init(&w->replay);
    list_append(&jm->watch->watchers, &w->node);
    list_append(&jm->watch->owners, &w->owner);
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
    idset_t *ids;

    if (jm_request_stream(jm, req, jm_watch_cb, jm->watch->n, WATCHERS_MAX, &ids))
        watch(jm, req, ids);
}

int jm_watch_create(struct jm *jm)
{
    struct jm_watch *p = calloc(1, sizeof(*p));

    if (!p)
        return -1;
    jm->watch = p;
    list_init(&p->watchers);
    list_init(&p->owners);
    list_init(&p->replays);
    budget_init(&p->budget, SHARE, BURST, flux_reactor_clock(jm->r));
    return (p->wait = flux_timer_create(jm->r, wait_cb, jm)) ? 0 : -1;
}

void jm_watch_destroy(struct jm *jm)
{
    struct jm_watch *p = jm->watch;
    struct list_node *n;

    if (!p)
        return;
    while ((n = list_first(&p->watchers)))
        watcher_free(list_entry(n, struct watcher, node));
    flux_watcher_destroy(p->wait);
    strbuf_destroy(p->text);
    free(p);
    jm->watch = NULL;
}

void jm_watch_stats(const struct jm *jm, struct job_stats *st)
{
    st->watchers = (uint32_t)jm->watch->n;
}

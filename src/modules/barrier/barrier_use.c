/* barrier_use.c - one use of the name of a barrier at one instance: its parties, the joins that
 * report it to the instance above, and its end.
 *
 * Purpose: barrier.c, whose essay describes the messages and has the numbered invariants, decides
 * on requests; this file holds what results from them.
 *
 *    a use           while                                   and ends by
 *    collects        it has fewer entries than participants  the last entry: released, where it is
 *                                                            the root's or was never reported
 *    is reported     seq > 0                                 the response of the instance above
 *    fails           gone: a participant is                  the next deferral: failed
 *
 * Failure: without memory for a join, the barrier fails for all.  Without memory for an abort, or
 * for the record of an end, that is logged.
 */
#include "config.h"
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "barrier_private.h"
#include "libflux/slice.h"
#include "libutil/strutil.h"

#define JOINS_MAX 2 /* unanswered, per barrier */
#define TRIES 16

/* --- parties --- */

static void party_free(void *val)
{
    struct party *p = val;

    claim_drop(p->b->ctx->senders, &p->claim);
    flux_msg_destroy(p->req);
    free(p);
}

/* The rank in a sender's text "RANK.NUMBER"; FLUX_NODEID_ANY for one at this broker. */
uint32_t barrier_sender_rank(const char *sender)
{
    char digits[16];
    size_t n = strcspn(sender, ".");
    uint32_t rank;

    if (n >= sizeof(digits))
        return FLUX_NODEID_ANY;
    memcpy(digits, sender, n);
    digits[n] = '\0';
    return str2u32(digits, &rank) < 0 ? FLUX_NODEID_ANY : rank;
}

static void party_gone(struct claim *c, bool canceled);

/* Store a participant with its request.  NULL with ENOMEM. */
struct party *barrier_party_add(struct barrier *b, const char *sender, const flux_msg_t *req,
                                bool child)
{
    size_t len = strlen(sender);
    struct party *p = calloc(1, sizeof(*p) + len + 1);

    if (!p)
        return NULL;
    memcpy(p->sender, sender, len + 1);
    p->b = b;
    p->rank = barrier_sender_rank(sender);
    p->child = child;
    if (claim_take_sender(b->ctx->senders, &p->claim, req, party_gone) < 0 ||
        hmap_put(b->parties, sender, p) < 0) {
        party_free(p);
        return NULL;
    }
    p->req = flux_msg_incref(req);
    b->here += !child;
    return p;
}

/* --- barriers --- */

void barrier_free(void *val)
{
    struct barrier *b = val;

    LIST_FOREACH_SAFE(it, tmp, &b->joins)
    {
        struct join *j = list_entry(it, struct join, node);
        flux_future_destroy(j->f);
        free(j);
    }
    list_remove(&b->dirty);
    longlist_remove(&b->place);
    hmap_destroy(b->parties);
    entries_destroy(b->entries);
    idset_destroy(b->ranks);
    grace_wait_destroy(b->grace);
    free(b->name);
    free(b);
}

struct barrier *barrier_create(struct ctx *ctx, const char *name, uint32_t nprocs)
{
    const struct ended *last = ended_get(ctx->ended, name);
    struct barrier *b = calloc(1, sizeof(*b));

    if (!b)
        return NULL;
    b->after = last ? last->use : 0;
    list_init(&b->joins);
    list_init(&b->dirty);
    b->ctx = ctx;
    b->nprocs = nprocs;
    b->since = flux_now(ctx->h);
    if (!(b->name = strdup(name)) || !(b->parties = hmap_create_str(party_free)) ||
        !(b->ranks = idset_create()) || !(b->entries = entries_create()) ||
        hmap_put(ctx->barriers, name, b) < 0) {
        barrier_free(b);
        errno = ENOMEM;
        return NULL;
    }
    longlist_add(ctx->longlist, &b->place);
    if (grace_recent(ctx->grace))
        barrier_suspect(b, grace_recent(ctx->grace));
    return b;
}

/* Store the end, of which instances below may not be notified.  `use`: its number, `why`: NULL if
 * it was released. */
static void remember_end(struct barrier *b, uint64_t use, int errnum, const char *why)
{
    struct ended e = {use, b->shared ? idset_copy(entries_ranks(b->entries)) : NULL, errnum, why};
    size_t pos = 0;
    void *val;
    int rc = e.ranks ? 0 : -1;

    if (!b->shared)
        return;
    while (rc == 0 && hmap_next(b->parties, &pos, NULL, NULL, &val)) {
        const struct party *p = val;
        if (p->child)
            rc = idset_set(e.ranks, p->rank);
    }
    if (rc < 0)
        idset_destroy(e.ranks);
    if (rc < 0 || ended_put(b->ctx->ended, b->name, &e) < 0)
        flux_log(b->ctx->h, LOG_ERR, "no memory to store the end of barrier '%s'", b->name);
}

/* All participants have entered: answer all requests, and destroy the barrier. */
static void barrier_release(struct barrier *b, uint64_t use)
{
    struct ctx *ctx = b->ctx;
    const struct barrier_joined done = {true, use};
    size_t pos = 0;
    void *val;

    INVARIANT(1, hmap_get(ctx->barriers, b->name) == b);
    hmap_take(ctx->barriers, b->name);
    ctx->completed++;
    remember_end(b, use, 0, NULL);
    while (hmap_next(b->parties, &pos, NULL, NULL, &val)) {
        struct party *p = val;
        if (p->child)
            flux_respond_struct(ctx->h, p->req, &barrier_joined_schema, &done);
        else
            flux_respond(ctx->h, p->req, NULL);
    }
    barrier_free(b);
}

/* Tell the instance above that a barrier failed here or below.  `last`: this instance ends. */
void barrier_send_abort(struct ctx *ctx, const struct barrier_abort *a, bool last)
{
    char *json = flux_schema_encode(&barrier_abort_schema, a);

    if (last) {
        if (json)
            flux_future_destroy(flux_rpc(ctx->h, "barrier.abort", json, FLUX_NODEID_ANY,
                                         FLUX_MSGF_UPSTREAM | FLUX_MSGF_NORESPONSE));
        free(json);
    } else if (!json || courier_post_json(ctx->courier, "barrier.abort", FLUX_NODEID_ANY, json) < 0)
        flux_log(ctx->h, LOG_ERR, "no memory to tell above that barrier '%s' was aborted", a->name);
}

void barrier_abort_above(struct barrier *b, int errnum, const char *reason, bool last)
{
    char *ranks = idset_format(entries_ranks(b->entries), 0);
    const struct barrier_abort a = {b->name, errnum, reason, ranks};

    if (ranks)
        barrier_send_abort(b->ctx, &a, last);
    free(ranks);
}

/* End the barrier for all below, and for all above unless the end came from there. */
void barrier_fail(struct barrier *b, bool from_above, int errnum, const char *reason)
{
    struct ctx *ctx = b->ctx;
    size_t pos = 0;
    void *val;

    INVARIANT(4, hmap_get(ctx->barriers, b->name) == b);
    hmap_take(ctx->barriers, b->name);
    ctx->failed++;
    remember_end(b, b->after + 1, errnum, reason);
    while (hmap_next(b->parties, &pos, NULL, NULL, &val))
        flux_respond_error(ctx->h, ((struct party *)val)->req, errnum, "%s", reason);
    if (!from_above && b->seq > 0)
        barrier_abort_above(b, errnum, reason, false);
    barrier_free(b);
}

void barrier_failf(struct barrier *b, bool from_above, int errnum, const char *fmt, ...)
{
    char text[400];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    barrier_fail(b, from_above, errnum, text);
}

static void grace_cb(void *arg, const char *lost)
{
    struct barrier *b = arg;

    if (idset_empty(b->ranks)) /* else the loss of a participant has failed it */
        barrier_failf(b, false, ECONNABORTED,
                      "barrier '%s' was aborted: %u of %u processes entered, and others may have "
                      "been at ranks %.100s, which are lost",
                      b->name, (unsigned)entries_total(b->entries), b->nprocs, lost);
}

/* Lost ranks may have had participants, unless these have announced their ranks. */
void barrier_suspect(struct barrier *b, const idset_t *lost)
{
    flux_t *h = b->ctx->h;

    if (!flux_is_root(h))
        return;
    if (grace_suspect(b->ctx->grace, &b->grace, lost, grace_cb, b) < 0)
        flux_log(h, LOG_ERR, "out of memory to watch barrier '%s' after a broker was lost",
                 b->name);
}

/* A broker in between, or the parent, was lost: in a session that heals, there will be another
 * path.  True: all entries are to be reported again. */
static bool join_again(struct barrier *b)
{
    if (b->moves != b->ctx->moves)
        b->tries = 0;
    b->moves = b->ctx->moves;
    if (b->tries++ >= TRIES || entries_renew(b->entries) < 0)
        return false;
    barrier_news(b);
    return true;
}

static void join_over(struct join *j)
{
    INVARIANT(2, j->before || (j->b->njoins > 0 && j->b->njoins <= JOINS_MAX));
    list_remove(&j->node);
    j->b->njoins -= !j->before;
    flux_future_destroy(j->f);
    free(j);
}

static void join_cb(flux_future_t *f, void *arg)
{
    struct join *j = arg;
    struct barrier *b = j->b;
    struct barrier_joined reply;
    errmsg_t err;
    int errnum = flux_future_errnum(f);

    if (errnum == 0 && flux_rpc_get_struct(f, &barrier_joined_schema, &reply, &err) < 0) {
        barrier_failf(b, false, ECONNABORTED, "barrier '%s' was aborted: %s", b->name, err.text);
        return;
    }
    if (errnum == EINVAL || errnum == ECONNABORTED) {
        barrier_failf(b, true, errnum, "%s", flux_future_error(f));
        return;
    }
    if (errnum == EHOSTUNREACH && join_again(b)) {
        join_over(j);
        return;
    }
    if (errnum != 0) {
        /* A broker has answered, for instance one without memory: the instance above may wait. */
        barrier_failf(b, false, ECONNABORTED,
                      "barrier '%s' was aborted: rank %u cannot reach the instance above: %s",
                      b->name, flux_rank(b->ctx->h), flux_future_error(f));
        return;
    }
    if (reply.done) {
        barrier_release(b, reply.use);
        return;
    }
    join_over(j);
    if (entries_news(b->entries))
        barrier_news(b);
}

/* Report new entries to the instance above. */
static void barrier_tell(struct barrier *b)
{
    struct ctx *ctx = b->ctx;
    char *ranks = idset_format(b->ranks, 0), *entries = entries_format_news(b->entries);
    struct barrier_join m = {b->name, b->nprocs, b->seq + 1, b->after, entries, ranks};
    struct join *j = calloc(1, sizeof(*j));

    if (!j || !ranks || !entries) {
        free(j);
        goto nomem;
    }
    list_init(&j->node);
    j->b = b;
    if (!(j->f = flux_rpc_struct(ctx->h, "barrier.join", &barrier_join_schema, &m, FLUX_NODEID_ANY,
                                 FLUX_MSGF_UPSTREAM)) ||
        flux_future_then(j->f, -1., join_cb, j) < 0) {
        flux_future_destroy(j->f);
        free(j);
        goto nomem;
    }
    list_append(&b->joins, &j->node);
    b->njoins++;
    b->seq++;
    b->shared = true;
    entries_reported(b->entries);
    INVARIANT(2, b->njoins <= JOINS_MAX);
    ctx->joins++;
    free(ranks);
    free(entries);
    return;
nomem:
    free(ranks);
    free(entries);
    barrier_failf(b, false, ECONNABORTED, "barrier '%s' was aborted: rank %u is out of memory",
                  b->name, flux_rank(ctx->h));
}

void barrier_news(struct barrier *b)
{
    if (!list_empty(&b->dirty))
        return;
    list_append(&b->ctx->dirty, &b->dirty);
    flux_watcher_start(b->ctx->defer);
}

static void party_gone(struct claim *c, bool canceled)
{
    struct party *p = list_entry(c, struct party, claim);
    struct barrier *b = p->b;

    if (p->child) {
        /* The instance is lost with its broker; its reported entries stay, and the instances below
         * it join elsewhere. */
        hmap_del(b->parties, p->sender);
        return;
    }
    b->gone = true;
    b->gone_rank = p->rank == FLUX_NODEID_ANY ? flux_rank(b->ctx->h) : p->rank;
    barrier_news(b);
}

void barrier_gone(struct barrier *b)
{
    barrier_failf(b, false, ECONNABORTED,
                  "barrier '%s' was aborted: a participant of rank %u went away", b->name,
                  b->gone_rank);
}

void barrier_flush_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    struct ctx *ctx = arg;
    struct flux_slice slice;
    struct list_node *n;

    flux_slice_begin(&slice, r, FLUX_SLICE_SECONDS, FLUX_SLICE_THINGS);
    while ((n = list_first(&ctx->dirty)) && flux_slice_more(&slice)) {
        struct barrier *b = list_entry(n, struct barrier, dirty);
        list_remove(n);
        if (b->gone)
            barrier_gone(b);
        else if (entries_news(b->entries) && b->njoins < JOINS_MAX)
            barrier_tell(b);
    }
    if (n)
        flux_watcher_start(ctx->defer);
}

/* There are new entries: release, fail, or report to the instance above. */
void barrier_advance(struct barrier *b)
{
    bool top = flux_is_root(b->ctx->h);
    uint64_t total = entries_total(b->entries);

    if (total > b->nprocs)
        barrier_failf(b, false, EINVAL, "barrier '%s': more than its %u participants entered",
                      b->name, b->nprocs);
    else if (total == b->nprocs && (top || b->seq == 0))
        barrier_release(b, b->after + 1);
    else if (!top && entries_news(b->entries))
        barrier_news(b);
}

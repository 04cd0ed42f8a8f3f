/* barrier.c - named barriers, reduced on the way up the tree.
 *
 * A participant sends "barrier.enter" {"name","nprocs"} to the instance at its own broker.  It gets
 * its response (no payload) when nprocs participants have entered anywhere in the session.
 * Instances report the entries of their subtree to the next instance above:
 *
 *    barrier.join   {"name","nprocs","seq","after","entries","ranks"}  upstream; answered
 *                   {"done":bool,"use"}
 *    barrier.abort  {"name","errnum","reason","ranks"} -> {}  upstream, by courier: it failed below
 *
 * Reduction.  `entries` has the number of participants that have entered at each rank, as far as it
 * was not reported before (entries.h); `seq` counts the joins of one use of the name, from 1.  A
 * join is answered {"done":true} at the release, with an error when the barrier fails, or
 * {"done":false} as soon as the next join of the same sender arrives.  So the release is a response
 * that is due anyway: it needs no event, and only brokers on the paths to participants see any
 * message.
 *
 * Number of messages.  An instance sends all entries of a pass of the reactor in one join, from a
 * deferral, never after a wait, and holds further entries while two joins are unanswered; the
 * lowest instance that has all participants below it completes the barrier.  The messages on the E
 * tree edges between them:
 *
 *    entries below an edge come together     E up, E down: the minimum
 *    all enter at once, equal hop times      sum over these edges of 1 + height of the lower end
 *    in any case                             a join per edge and entry below it, and its response
 *
 * Loss of a broker in between.  The entries that it has reported still count for their ranks.  The
 * instances below get EHOSTUNREACH for their joins, and join again with all their entries, which
 * the core sends to the new parent; there they count once, regardless of earlier reports.  The
 * barrier may have ended meanwhile without a message to these instances.  So instances store the
 * last ends of each name (ended.h), with a number that is greater than that of any end that its
 * participants knew of (`after`).  An instance that continues an unknown barrier, took part in one
 * of these, and does not know of its end, gets that end as its response.
 *
 * Ranks also move while the old way still carries answers (a subtree returns to its place): the
 * instance above, which has got a join by it, answers that at the end, and later joins go to
 * another one.  That one may be between the two, and not know what is known above it: it passes on
 * what continues something, and aborts of barriers that it does not know.
 *
 * Invariants:
 *  1. The root's barrier has at most nprocs entries.  A barrier with nprocs entries that is the
 *     root's, or was never reported upwards, does not exist: it was released.
 *  2. At most two joins of a barrier that were sent since a rank last moved are unanswered here,
 *     and of those of one child one.
 *  3. A join with seq > 1 of a sender that is not known continues something: what has ended, as is
 *     remembered, or what is known above, or begins here, since it was reported to a broker that
 *     has died, or to an instance that was reloaded.  It is reported upwards with seq > 1.
 *  4. Every enter and join is answered exactly once: released, or failed with an error message.
 *  5. The parties of a sender, and its requests for lists, are claims (libservice/claim.h), so what
 *     ends with it is found without a walk through all barriers.  Its barriers are failed in
 *     slices (libflux/slice.h): one that waits for that (`gone`) is in the list of those with news,
 *     and has failed before anybody else enters under its name.  So are joins sent, and lists made
 *     (libservice/longlist.h).  Only the loss and the move of a rank visit all barriers at once.
 *
 * Failure.  Entries that disagree about nprocs, or one entry too many, fail the barrier for all
 * with EINVAL.  A second entry of one sender is refused with EEXIST and changes nothing.  A barrier
 * fails for all with ECONNABORTED, and the reason, in these cases: a participant disconnects
 * ("barrier.disconnect"); a rank where participants have entered is lost (event overlay.down); an
 * instance is unloaded; the instance above cannot be reached, although this one has tried again
 * TRIES times since a rank last moved.  An instance below that disconnects was lost with its
 * broker, which does not fail the barrier.
 *
 * A participant that is lost before it entered is known only by its rank: `ranks` of an enter names
 * the ranks of the participants, and joins report the union of these sets.  The loss of one of
 * these ranks, before or after its participants entered, fails the barrier for all.  If no
 * participant has announced ranks, a lost rank may have had a participant whose entry was lost with
 * it.  So the instance at rank 0, which knows every incomplete barrier, starts a timer (attribute
 * barrier.grace) when a rank is lost while such a barrier waits, or was lost within that time
 * before the barrier began.  If the barrier is still incomplete when the timer ends, it fails for
 * all; the list shows the lost ranks until then.
 */
#include "config.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "barrier_private.h"
#include "libflux/cancel_wire.h"
#include "libschema/jsonout.h"

#define NAME_MAX_LEN 128
#define BARRIERS_MAX 16384

/* --- finding and failing --- */

/* The barrier of this name, or NULL. */
static struct barrier *barrier_find(struct ctx *ctx, const char *name)
{
    struct barrier *b = hmap_get(ctx->barriers, name);

    if (!b || !b->gone)
        return b;
    barrier_gone(b);
    return NULL;
}

/* The barrier of a request, created if it does not exist.  NULL when the request was answered. */
static struct barrier *barrier_for(struct ctx *ctx, const flux_msg_t *req, const char *name,
                                   uint32_t nprocs)
{
    struct barrier *b = barrier_find(ctx, name);
    size_t len = strlen(name);

    if (b && b->nprocs != nprocs) {
        errmsg_t err;
        errmsg_set(&err, "barrier '%s': participants disagree about their number: %u and %u", name,
                   b->nprocs, nprocs);
        flux_respond_error(ctx->h, req, EINVAL, "%s", err.text);
        barrier_fail(b, false, EINVAL, err.text);
        return NULL;
    }
    if (b)
        return b;
    if (len == 0 || len > NAME_MAX_LEN)
        flux_respond_error(ctx->h, req, EINVAL,
                           "the name of a barrier has 1 to %d bytes, this one has %zu",
                           NAME_MAX_LEN, len);
    else if (nprocs == 0)
        flux_respond_error(ctx->h, req, EINVAL, "barrier '%s': nprocs must be at least 1", name);
    else if (hmap_count(ctx->barriers) >= BARRIERS_MAX)
        flux_respond_error(ctx->h, req, ENOSPC,
                           "barrier '%s': rank %u has %d unfinished barriers already", name,
                           flux_rank(ctx->h), BARRIERS_MAX);
    else if (!(b = barrier_create(ctx, name, nprocs)))
        flux_respond_error(ctx->h, req, ENOMEM, "barrier '%s': rank %u is out of memory", name,
                           flux_rank(ctx->h));
    return b;
}

/* Add announced ranks of participants.  -1 after answering, and failing the barrier for all. */
static int barrier_ranks(struct barrier *b, const flux_msg_t *req, const idset_t *ranks)
{
    struct ctx *ctx = b->ctx;
    char text[200] = "";
    idset_t *lost;

    if (idset_add(b->ranks, ranks) < 0) {
        snprintf(text, sizeof(text), "barrier '%s' was aborted: rank %u is out of memory", b->name,
                 flux_rank(ctx->h));
    } else if (idset_intersects(session_lost(ctx->session), ranks) &&
               (lost = idset_intersect(session_lost(ctx->session), ranks))) {
        snprintf(text, sizeof(text), "barrier '%s' was aborted: rank %u is lost", b->name,
                 idset_first(lost));
        idset_destroy(lost);
    }
    if (!*text)
        return 0;
    flux_respond_error(ctx->h, req, ECONNABORTED, "%s", text);
    barrier_fail(b, false, ECONNABORTED, text);
    return -1;
}

/* One of these ranks whose loss fails the barrier, FLUX_NODEID_ANY: none. */
static uint32_t lost_party(const struct barrier *b, const idset_t *ranks)
{
    const idset_t *at = entries_ranks(b->entries);
    size_t pos = 0;
    void *val;

    while (hmap_next(b->parties, &pos, NULL, NULL, &val)) {
        const struct party *p = val;
        if (!p->child && p->rank != FLUX_NODEID_ANY && idset_test(ranks, p->rank))
            return p->rank;
    }
    if (idset_intersects(b->ranks, ranks) || idset_intersects(at, ranks)) {
        for (uint32_t r = idset_first(ranks); r != IDSET_NONE; r = idset_next(ranks, r)) {
            if (idset_test(b->ranks, r) || idset_test(at, r))
                return r;
        }
    }
    return FLUX_NODEID_ANY;
}

/* Fail the barrier if participants have entered at one of these lost ranks, or announced it. */
static bool fail_lost(struct barrier *b, const idset_t *ranks)
{
    uint32_t rank = lost_party(b, ranks);

    if (rank == FLUX_NODEID_ANY)
        return false;
    barrier_failf(b, false, ECONNABORTED, "barrier '%s' was aborted: rank %u is lost", b->name,
                  rank);
    return true;
}

/* Destroy a barrier without entries, after memory for its first entry was short. */
static void forget_empty(struct barrier *b)
{
    if (entries_total(b->entries) > 0)
        return;
    hmap_take(b->ctx->barriers, b->name);
    barrier_free(b);
}

/* --- requests --- */

static void enter_cb(flux_t *h, const flux_msg_t *req, void *arg)
{
    struct ctx *ctx = arg;
    char sender[FLUX_SENDER_MAX];
    struct barrier *b;
    struct barrier_enter in = {.ranks = ""};
    idset_t *ranks;
    errmsg_t err;
    json_t *owner;

    if (flux_request_decode(h, req, &barrier_enter_schema, &in, &owner) < 0)
        return;
    flux_msg_sender(req, sender, sizeof(sender));
    if (!(ranks = idset_parse(in.ranks, &err)))
        flux_respond_error(h, req, errno, "ranks of a barrier: %s", err.text);
    else if (!idset_empty(ranks) && idset_last(ranks) >= flux_size(h))
        flux_respond_error(h, req, EINVAL,
                           "ranks of a barrier: rank %u does not exist: the session has ranks 0-%u",
                           idset_last(ranks), flux_size(h) - 1);
    else if ((b = barrier_find(ctx, in.name)) && hmap_get(b->parties, sender))
        flux_respond_error(h, req, EEXIST, "barrier '%s': this process has entered it already",
                           in.name);
    else if ((b = barrier_for(ctx, req, in.name, in.nprocs)) && barrier_ranks(b, req, ranks) == 0) {
        struct party *p = barrier_party_add(b, sender, req, false);
        if (p && entries_add(b->entries, flux_rank(h)) == 0) {
            ctx->entered++;
            barrier_advance(b);
        } else {
            flux_respond_error(h, req, ENOMEM, "barrier '%s': rank %u is out of memory", in.name,
                               flux_rank(h));
            b->here -= p != NULL;
            if (p)
                hmap_del(b->parties, sender);
            forget_empty(b);
        }
    }
    idset_destroy(ranks);
    json_decref(owner);
}

/* The join is the newest one of its sender: answer the one before.  -1 after answering. */
static int join_party(struct barrier *b, const flux_msg_t *req, const char *sender)
{
    struct party *p = hmap_get(b->parties, sender);
    flux_t *h = b->ctx->h;

    if (p && p->child) {
        const struct barrier_joined more = {false, 0};
        flux_respond_struct(h, p->req, &barrier_joined_schema, &more);
        flux_msg_destroy(p->req);
        p->req = flux_msg_incref(req);
    } else if (p || !barrier_party_add(b, sender, req, true)) {
        flux_respond_error(h, req, p ? EPROTO : ENOMEM, "barrier '%s': rank %u %s", b->name,
                           flux_rank(h), p ? "got a join from a participant" : "is out of memory");
        forget_empty(b);
        return -1;
    }
    b->shared = true;
    return 0;
}

static void join_request_cb(flux_t *h, const flux_msg_t *req, void *arg)
{
    struct ctx *ctx = arg;
    char sender[FLUX_SENDER_MAX];
    struct barrier_join in;
    struct barrier *b;
    json_t *owner;
    idset_t *ranks;
    bool continues;
    errmsg_t err;

    if (flux_request_decode(h, req, &barrier_join_schema, &in, &owner) < 0)
        return;
    flux_msg_sender(req, sender, sizeof(sender));
    if (!(ranks = idset_parse(in.ranks, &err))) {
        flux_respond_error(h, req, errno, "ranks of a barrier: %s", err.text);
        goto done;
    }
    b = barrier_find(ctx, in.name);
    continues = in.seq > 1 && !(b && hmap_get(b->parties, sender));
    if (continues && ended_answer(ctx->ended, h, req, barrier_sender_rank(sender), &in))
        goto done;
    if (!(b = barrier_for(ctx, req, in.name, in.nprocs)) || barrier_ranks(b, req, ranks) < 0 ||
        join_party(b, req, sender) < 0)
        goto done;
    if (in.after > b->after)
        b->after = in.after;
    b->seq += continues && b->seq == 0 && !flux_is_root(h);
    if (entries_merge(b->entries, in.entries, flux_size(h), &err) < 0)
        barrier_failf(b, false, ECONNABORTED, "barrier '%s' was aborted: %s", in.name, err.text);
    else if (!fail_lost(b, session_lost(ctx->session)))
        barrier_advance(b);
done:
    idset_destroy(ranks);
    json_decref(owner);
}

static void abort_cb(flux_t *h, const flux_msg_t *req, void *arg)
{
    struct ctx *ctx = arg;
    struct barrier_abort in;
    struct barrier *b;
    idset_t *ranks;
    json_t *owner;

    if (flux_request_decode(h, req, &barrier_abort_schema, &in, &owner) < 0)
        return;
    ranks = idset_parse(in.ranks, NULL);
    /* One that has lost its parent is not known here, but what has come in by that is. */
    if ((b = barrier_find(ctx, in.name)) && ranks &&
        idset_intersects(entries_ranks(b->entries), ranks))
        barrier_failf(b, false, in.errnum == EINVAL ? EINVAL : ECONNABORTED, "%s", in.reason);
    else if (!flux_is_root(h))
        barrier_send_abort(ctx, &in, false); /* those above may know it by another way */
    idset_destroy(ranks);
    flux_respond(h, req, NULL);
    json_decref(owner);
}

static void disconnect_cb(flux_t *h, const flux_msg_t *req, void *arg)
{
    struct ctx *ctx = arg;

    claims_disconnect(ctx->senders, req);
}

/* Ends only requests for lists: a participant leaves a barrier by disconnecting. */
static void cancel_cb(flux_t *h, const flux_msg_t *req, void *arg)
{
    struct ctx *ctx = arg;
    uint32_t matchtag;

    if (cancel_decode(h, req, &matchtag) < 0)
        return;
    claims_cancel(ctx->senders, req, matchtag);
    flux_respond(h, req, NULL);
}

/* Those of these ranks that were not known to be lost; they are stored for barriers that begin
 * soon. NULL with ENOMEM, which was logged. */
static idset_t *lost_anew(struct ctx *ctx, const idset_t *ranks)
{
    idset_t *anew = idset_difference(ranks, ctx->lost);

    if (!anew || idset_add(ctx->lost, anew) < 0) {
        flux_log(ctx->h, LOG_ERR, "out of memory for the ranks that were lost");
        idset_destroy(anew);
        return NULL;
    }
    if (!idset_empty(anew))
        grace_lost(ctx->grace, anew);
    return anew;
}

static void ranks_lost(void *arg, const idset_t *ranks, bool now)
{
    struct ctx *ctx = arg;
    idset_t *anew = lost_anew(ctx, ranks);
    size_t pos = 0;
    void *val;

    while (hmap_next(ctx->barriers, &pos, NULL, NULL, &val)) {
        struct barrier *b = val;
        if (!fail_lost(b, ranks) && !idset_empty(anew))
            barrier_suspect(b, anew);
    }
    claims_lost(ctx->senders, ranks);
    idset_destroy(anew);
}

static void ranks_back(void *arg, const idset_t *ranks)
{
    struct ctx *ctx = arg;

    if (idset_subtract(ctx->lost, ranks) < 0)
        flux_log(ctx->h, LOG_ERR, "out of memory for the ranks that came back");
}

static void moved_cb(flux_t *h, const flux_msg_t *event, void *arg)
{
    struct ctx *ctx = arg;
    size_t pos = 0;
    void *val;

    ctx->moves++;
    while (!flux_is_root(h) && hmap_next(ctx->barriers, &pos, NULL, NULL, &val)) {
        struct barrier *b = val;

        LIST_FOREACH(it, &b->joins) /* the end may be all that answers them */
        list_entry(it, struct join, node)->before = true;
        b->njoins = 0;
        if (entries_news(b->entries))
            barrier_news(b);
    }
}

static const struct session_ops session_ops = {.lost = ranks_lost, .back = ranks_back};

static void put_barrier(strbuf_t *sb, const struct longlist_place *p, const flux_msg_t *req)
{
    const struct barrier *b = list_entry(p, struct barrier, place);
    struct barrier_item item = {b->name, b->nprocs, b->here, NULL, flux_now(b->ctx->h) - b->since};
    const idset_t *suspects = grace_suspects(b->grace);
    const idset_t *known = idset_empty(b->ranks) && suspects ? suspects : b->ranks;
    char *ranks;

    if (b->gone)
        return;
    ranks = idset_format(known, 0);
    item.ranks = ranks;
    if (ranks)
        jsonout_struct(sb, NULL, &barrier_item_schema, &item);
    else
        strbuf_fail(sb, ENOMEM);
    free(ranks);
}

static void list_cb(flux_t *h, const flux_msg_t *req, void *arg)
{
    struct ctx *ctx = arg;

    longlist_answer(ctx->longlist, req);
}

static void stats_cb(flux_t *h, const flux_msg_t *req, void *arg)
{
    struct ctx *ctx = arg;
    struct barrier_stats st = {hmap_count(ctx->barriers), ctx->entered, ctx->joins, ctx->completed,
                               ctx->failed};

    flux_respond_struct(h, req, &barrier_stats_schema, &st);
}

#define ANYBODY (FLUX_ROLE_OWNER | FLUX_ROLE_USER | FLUX_ROLE_BROKER)

static const struct flux_handler handlers[] = {
    {FLUX_MSG_REQUEST, "barrier.enter", enter_cb, 0},
    {FLUX_MSG_REQUEST, "barrier.join", join_request_cb, FLUX_ROLE_BROKER},
    {FLUX_MSG_REQUEST, "barrier.abort", abort_cb, FLUX_ROLE_BROKER},
    {FLUX_MSG_REQUEST, "barrier.disconnect", disconnect_cb, ANYBODY},
    {FLUX_MSG_REQUEST, "barrier.cancel", cancel_cb, ANYBODY},
    {FLUX_MSG_REQUEST, "barrier.list", list_cb, ANYBODY},
    {FLUX_MSG_REQUEST, "barrier.stats", stats_cb, ANYBODY},
    {FLUX_MSG_EVENT, "overlay.moved", moved_cb, 0},
    FLUX_HANDLER_END,
};

/* --- life --- */

static int barrier_hand_over(flux_t *h, void *arg, flux_handover_t *o, errmsg_t *err)
{
    struct ctx *ctx = arg;

    ctx->reloads = true; /* the next instance gets the waiting requests */
    return 0;
}

/* Fail the barriers with participants here: otherwise the instances above would not be notified. */
static bool barrier_stop(flux_t *h, void *arg)
{
    struct ctx *ctx = arg;
    char text[200];
    size_t pos = 0;
    void *val;

    while (!ctx->reloads && hmap_next(ctx->barriers, &pos, NULL, NULL, &val)) {
        struct barrier *b = val;

        snprintf(text, sizeof(text), "barrier '%s' was aborted: barrier was stopped at rank %u",
                 b->name, flux_rank(h));
        if (b->seq > 0)
            barrier_abort_above(b, ECONNABORTED, text, true);
    }
    return true;
}

static void barrier_fini(flux_t *h, void *arg)
{
    struct ctx *ctx = arg;

    /* Waiting requests are not answered: the host answers them, or hands them to the next
     * instance. */
    session_destroy(ctx->session);
    setup_destroy(ctx->setup);
    flux_handlers_remove(ctx->handlers);
    flux_watcher_destroy(ctx->defer);
    hmap_destroy(ctx->barriers);
    longlist_destroy(ctx->longlist);
    claims_destroy(ctx->senders);
    courier_destroy(ctx->courier);
    grace_destroy(ctx->grace);
    idset_destroy(ctx->lost);
    ended_destroy(ctx->ended);
    free(ctx);
}

static void refused(void *arg, const char *sentence)
{
    struct ctx *ctx = arg;

    flux_log(ctx->h, LOG_ERR, "%s", sentence);
}

static const struct setup_row rows[] = {
    SETUP_SECONDS("barrier.grace", struct ctx, grace_seconds),
    SETUP_END,
};
static const struct setup_table settings = {"barrier", rows, NULL, refused};

static int barrier_init(flux_t *h, int argc, char **argv, void **arg, errmsg_t *err)
{
    struct ctx *ctx;

    if (setup_no_arguments("barrier", argc, argv, err) < 0)
        return -1;
    if (!(ctx = calloc(1, sizeof(*ctx))))
        return errmsg_fail(err, ENOMEM, "the barrier module is out of memory");
    ctx->h = h;
    list_init(&ctx->dirty);
    if (!(ctx->lost = idset_create()) || !(ctx->ended = ended_create()) ||
        !(ctx->grace = grace_create(h, &ctx->grace_seconds)) ||
        !(ctx->barriers = hmap_create_str(barrier_free)) || !(ctx->senders = claims_create()) ||
        !(ctx->longlist = longlist_create(h, ctx->senders, "barriers", put_barrier)) ||
        !(ctx->courier =
              courier_create(h, FLUX_MSGF_UPSTREAM | FLUX_MSGF_IDEMPOTENT, NULL, NULL)) ||
        !(ctx->defer = flux_defer_create(flux_get_reactor(h), barrier_flush_cb, ctx)) ||
        !(ctx->handlers = flux_handlers_add(h, handlers, ctx)) ||
        !(ctx->session = session_create(h, &session_ops, ctx)) ||
        (flux_is_root(h) && !(ctx->setup = setup_create(h, &settings, ctx, 0, NULL, err)))) {
        barrier_fini(h, ctx);
        return errmsg_fail(err, ENOMEM, "the barrier module is out of memory");
    }
    if (flux_module_reloaded(h)) /* its predecessor knew the lost ranks */
        session_ask_lost(ctx->session);
    *arg = ctx;
    return 0;
}

FLUX_MODULE(barrier, barrier_init, barrier_fini, .place = FLUX_PLACE_LOOP, .stop = barrier_stop,
            .hand_over = barrier_hand_over);

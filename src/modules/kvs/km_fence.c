/* km_fence.c - fences: transactions of many participants, merged on the way up the tree, and
 * applied as one root change.
 *
 * Terms: a call is the request of one participant.  An instance reports the calls that it has
 * merged; its reports to the next instance towards the master are called messages here.
 *
 * Purpose: an instance merges the calls of local clients and the messages of instances below
 * until it has read all messages that have arrived.  Then it sends the merged calls upstream in
 * one message, with their number:
 *
 *    first message     kvs.fence, instance       answered when the fence has ended, with the root
 *                                                or an error
 *    later messages    kvs.fence, instance+add   answered at once; the next message waits for
 *                                                this answer
 *
 * There is no timer, and the number of messages per call falls as the load of the tree rises.  The
 * master applies the fence when it has `nprocs` calls.  Each instance on the way down takes the new
 * root before it answers.
 *
 * state       what happens                          left when (by)
 * gathering   calls are merged, and sent upstream   all calls are here (master: proceed), the first
 *                                                   message was answered (over_cb), or a
 *                                                   participant is gone (km_fence_abort)
 * applying    the fence is in the master's queue    it was applied or refused (km_fence_done)
 * over        all participants have been answered   at once: it is freed
 *
 * Size of messages: the merged transaction is a set of operations.  A message contains each key
 * once and each value once, even if several earlier messages contained them (km_merge.c), so that
 * its size does not grow with the number of equal calls.
 *
 * Lost participants: a client that disconnects ends the fence for all participants.
 * kvs.fence-abort goes up to the master, and the answers to the first messages come down.  The loss
 * of a rank where a call was made has the same effect: messages name these ranks (`callers`), and
 * the master ends the fence (km_fence_lost.c).  A participant whose broker died before its call
 * arrived is known only if the callers name the ranks of all participants (`ranks`); messages carry
 * the union of these ranks up.
 *
 * Lost brokers: the loss of a broker between a participant and the master does not end a fence, and
 * every call still counts once (km_fence_part.c).  Instances on either side of the broker act:
 *
 *    above it    the instance counts again without the calls from the lost broker, and sends the
 *                result, which replaces its earlier messages (kvs.fence, instance+anew: answered
 *                at once)
 *    below it    the instance sends all its calls to the master itself, as the first message of
 *                a new number (instance+again), since the lost broker may have held the only
 *                record of its earlier messages.  If the fence has ended and only its answer was
 *                lost, the master finds the stored end and answers again (km_fence_end.c)
 *
 * Reuse of names: a name may be used for a new fence while messages of an old one are under way.
 * So each instance numbers its fences, and its later messages (more calls, an abort) carry the
 * number of their fence; a message that arrives after the end of its fence matches no number.  An
 * instance other than the master passes such a message on towards the master: a subtree that has
 * returned to its place in the tree has sent its first message by another way, and an instance on
 * that way still waits for the answer.
 *
 * Generations: the number that the master gives to a fence is its generation, and answers carry it.
 * When a client has received the answer to an aborted fence, its instance sends that generation
 * with its next call (`after`), so that the master does not take this call for a late call to the
 * aborted fence (km_tombstone.c).  Instances other than the master keep calls with different
 * `after` apart.  A first message also carries the last generation whose end its sender knows
 * (`heard`).  If that generation is later than the last one known when the fence open here began,
 * the open fence has ended already, and the message begins a new fence of that name.  The master
 * has only one fence of a name at a time.
 *
 *    kvs.fence-abort  {"namespace","name","nprocs","rank","number","reason"} -> {}, by courier
 *                     number 0: the sender has sent no message about the fence
 *    kvs.fence-told   {"namespace","name","nprocs","count"} -> {}, by courier, to the master: this
 *                     many calls, which the master did not receive, were answered with the error
 *                     of an aborted fence
 *
 * Invariants:
 *  1. count is the number of calls in all messages and calls merged here; count <= nprocs.
 *  2. `unsent` is the number of calls in the next message: merged calls that were not sent, or
 *     that are sent anew.  unsent <= count; without a first message unsent == count.
 *  3. All parts are answered exactly once, unless their sender has gone.
 *  4. The first message of an instance is in km_fence_table.parts by (rank, number) until it is
 *     answered.
 *
 * Failure: a call that does not fit (another nprocs, a malformed transaction, too many calls) is
 * refused, and the fence goes on.  An error on the way up ends the fence for all participants
 * below.  An unreachable next instance is such an error only after TRIES messages have failed since
 * a rank last moved in the tree.
 */
#include "config.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "km_fence.h"
#include "km_tombstone.h"
#include "libutil/invariant.h"

#define KEY_MAX (8 + KVS_FENCE_NAME_MAX + 1)
/* Bounds for one namespace at one instance: an excess of calls is refused where the calls are
 * made. */
#define FENCES_MAX 65536
#define PARTS_MAX (4u << 20)
#define TRIES 16

struct km_fence_table *km_fence_table_create(uint32_t first)
{
    struct km_fence_table *fs = calloc(1, sizeof(*fs));
    if (!fs)
        return NULL;
    fs->last = first;
    list_init(&fs->all);
    list_init(&fs->busy);
    fs->by_name = hmap_create_str(NULL);
    fs->parts = hmap_create_u64(NULL);
    if (!fs->by_name || !fs->parts || km_fence_ends_create(fs) < 0) {
        km_fence_table_destroy(fs);
        return NULL;
    }
    return fs;
}

size_t km_fence_count(const struct km_ns *ns)
{
    return ns->fences->nfences;
}

uint64_t km_fence_calls(const struct km_ns *ns)
{
    uint64_t n = 0;

    LIST_FOREACH(it, &ns->fences->all)
    n += list_entry(it, struct km_fence, all_node)->count;
    return n;
}

void km_fence_free(struct km_fence *f)
{
    if (f->key && hmap_get(f->ns->fences->by_name, f->key) == f)
        (void)hmap_take(f->ns->fences->by_name, f->key);
    if (!list_empty(&f->all_node))
        f->ns->fences->nfences--;
    list_remove(&f->all_node);
    list_remove(&f->node);
    longlist_remove(&f->place);
    LIST_FOREACH_SAFE(n, tmp, &f->parts)
    km_fence_part_free(list_entry(n, struct km_fence_part, node));
    km_merge_clear(&f->merge);
    flux_future_destroy(f->first);
    flux_future_destroy(f->add);
    idset_destroy(f->ranks);
    idset_destroy(f->callers);
    idset_destroy(f->fresh);
    idset_destroy(f->missing);
    grace_wait_destroy(f->grace);
    grace_wait_destroy(f->absent);
    free(f->over);
    free(f->name);
    free(f->key);
    free(f);
}

static uint32_t next_number(struct km_fence_table *fs)
{
    return ++fs->last ? fs->last : ++fs->last; /* 0 is none */
}

static void make_key(const char *name, uint32_t after, char key[KEY_MAX])
{
    snprintf(key, KEY_MAX, "%08x%s", after, name);
}

static struct km_fence *fence_new(struct km_ns *ns, const char *name, uint32_t nprocs,
                                  uint32_t after)
{
    struct km_fence *f = calloc(1, sizeof(*f));
    char key[KEY_MAX];
    if (!f)
        return NULL;
    make_key(name, after, key);
    f->ns = ns;
    f->nprocs = nprocs;
    f->after = after;
    f->since = flux_now(ns->h);
    f->number = next_number(ns->fences);
    list_init(&f->parts);
    list_init(&f->node);
    list_init(&f->all_node);
    f->name = strdup(name);
    f->key = strdup(key);
    f->callers = idset_create();
    f->fresh = idset_create();
    f->missing = idset_create();
    if (!f->name || !f->key || !f->callers || !f->fresh || !f->missing ||
        hmap_put(ns->fences->by_name, key, f) < 0) {
        km_fence_free(f);
        return NULL;
    }
    list_append(&ns->fences->all, &f->all_node);
    ns->fences->nfences++;
    longlist_add(ns->k->fences, &f->place);
    return f;
}

void km_fence_txn(const struct km_fence *f, const void **txn, size_t *len)
{
    *txn = f->merge.pack;
    *len = f->merge.packlen;
}

bool km_fence_mixed(const struct km_fence *f)
{
    return f->merge.mixed;
}

/* --- the end --- */

/* Answer one participant with the end that the master has decided on. */
static void answer_end(struct km_ns *ns, const flux_msg_t *req, const char *name, bool instance,
                       const struct km_fence_end *e, const uint8_t *data, size_t len)
{
    if (instance) {
        flux_respond_raw(ns->h, req, data, len);
        return;
    }
    if (e->errnum == ECONNABORTED)
        km_tombstone_note_known(ns, name, req, e->generation);
    if (e->errnum)
        flux_respond_error(ns->h, req, e->errnum, "%s", e->why.text);
    else
        flux_respond_raw(ns->h, req, data + KM_FENCE_END_HEADER, len - KM_FENCE_END_HEADER);
}

static void fence_end(struct km_fence *f, const struct km_fence_end *e)
{
    struct km_ns *ns = f->ns;
    uint8_t data[KM_FENCE_END_MAX];
    size_t len = km_fence_end_encode(e, data);
    LIST_FOREACH(n, &f->parts)
    {
        struct km_fence_part *p = list_entry(n, struct km_fence_part, node);
        answer_end(ns, p->req, f->name, p->instance, e, data, len);
    }
    if (f->shared || !ns->master)
        km_fence_end_note(f, e, data, len);
    km_fence_free(f);
}

void km_fence_done(struct km_ns *ns, struct km_fence *f, int errnum, const char *error)
{
    struct km_fence_end e = {.generation = f->number, .errnum = errnum};
    if (errnum == 0)
        km_tombstone_remove(ns, f->name);
    if (errnum)
        errmsg_set(&e.why, "%s", error);
    else
        km_ns_root_fill(ns, &e.root);
    fence_end(f, &e);
}

/* The fence ends at this instance: answer its participants here and below, and nothing upstream. */
static void fence_fail(struct km_fence *f, int errnum, const char *error)
{
    LIST_FOREACH(n, &f->parts)
    flux_respond_error(f->ns->h, list_entry(n, struct km_fence_part, node)->req, errnum, "%s",
                       error);
    km_fence_free(f);
}

static void answer_aborted(struct km_ns *ns, const flux_msg_t *req, const char *name, bool instance,
                           uint32_t generation, const char *why)
{
    struct km_fence_end e = {.generation = generation, .errnum = ECONNABORTED};
    uint8_t data[KM_FENCE_END_MAX];
    errmsg_set(&e.why, "%s", why);
    answer_end(ns, req, name, instance, &e, data, km_fence_end_encode(&e, data));
}

/* This many calls were answered before the master received them: the tombstone need not wait for
 * them. */
static void calls_notified(struct km_ns *ns, const char *name, uint32_t nprocs, uint32_t count)
{
    struct km_wire_told out = {ns->name, name, nprocs, count};
    if (ns->master)
        km_tombstone_discount(ns, name, nprocs, count);
    else if (km_ns_upstream_post(ns, "kvs.fence-told", &km_wire_told_schema, &out, true) < 0)
        flux_log(ns->h, LOG_ERR,
                 "no memory to report to the master of namespace '%s' which calls to fence '%s' "
                 "were answered",
                 ns->name, name);
}

static void pass_abort(struct km_ns *ns, const struct km_wire_abort *out, bool direct)
{
    /* A courier cannot wait for answers while the instance ends: then each message is sent at
     * once. */
    if (ns->k->ending)
        flux_future_destroy(
            km_ns_upstream_struct(ns, "kvs.fence-abort", &km_wire_abort_schema, out, direct, 0));
    else if (km_ns_upstream_post(ns, "kvs.fence-abort", &km_wire_abort_schema, out, direct) < 0)
        flux_log(ns->h, LOG_ERR, "no memory to report upstream that fence '%s' was aborted",
                 out->name);
}

static void send_abort(struct km_ns *ns, const char *name, uint32_t nprocs, uint32_t number,
                       bool direct, const char *why)
{
    struct km_wire_abort out = {ns->name, name, nprocs, flux_rank(ns->h), number, why};

    pass_abort(ns, &out, direct);
}

static int flush(struct km_fence *f);

void km_fence_abort(struct km_fence *f, const char *why)
{
    struct km_ns *ns = f->ns;
    if (ns->master) {
        if (!f->applying) {
            struct km_fence_end e = {.generation = f->number, .errnum = ECONNABORTED};
            errmsg_set(&e.why, "%s", why);
            km_tombstone_add(ns, f->name, f->nprocs, f->nprocs - f->count, f->number, why);
            fence_end(f, &e);
        }
        return;
    }
    list_remove(&f->node);
    if (flush(f) < 0)
        return;
    send_abort(ns, f->name, f->nprocs, f->first ? f->number : 0, f->direct, why);
    if (!f->first)
        fence_fail(f, ECONNABORTED, why);
    else if (!f->over)
        f->over = strdup(why); /* NULL without memory: a lost abort is not repeated then */
}

/* --- upstream --- */

/* Does the fence contain no calls, and is it unknown above?  Then it ends here: senders that
 * reported calls here before report them again by another way. */
static bool nothing_left(struct km_fence *f)
{
    if (f->count > 0 || f->first || f->applying)
        return false;
    fence_fail(f, EHOSTUNREACH, "the calls that were reported here do not count any more");
    return true;
}

/* A message was lost: count the calls again.  False: the fence is to be given up. */
static bool count_again(struct km_fence *f)
{
    uint64_t moves = km_route_moves(f->ns->k->route);
    errmsg_t err;
    if (f->moves != moves)
        f->tries = 0;
    f->moves = moves;
    return f->tries++ < TRIES && km_fence_recount(f, &err) == 0;
}

/* A later message failed, and may or may not have reached the instance that has the first message:
 * send all calls anew.  The first message still gets its own answer.  False: the fence is to be
 * given up. */
static bool report_anew(struct km_fence *f)
{
    if (!count_again(f))
        return false;
    km_fence_proceed(f);
    return true;
}

/* The first message failed, since a broker on its way to the master was lost: send all calls to the
 * master itself, under a new number.  False: the fence is to be given up. */
static bool send_again(struct km_fence *f)
{
    struct km_ns *ns = f->ns;
    if (!count_again(f))
        return false;
    flux_future_destroy(f->first);
    flux_future_destroy(f->add);
    f->first = f->add = NULL;
    if (nothing_left(f))
        return true;
    f->before = f->number;
    f->number = next_number(ns->fences);
    f->direct = true;
    list_remove(&f->node);
    if (flush(f) == 0 && f->over)
        send_abort(ns, f->name, f->nprocs, f->number, true, f->over);
    return true;
}

static void over_cb(flux_future_t *fut, void *arg)
{
    struct km_fence *f = arg;
    struct km_ns *ns = f->ns;
    struct km_fence_end e;
    const void *data;
    size_t len;
    errmsg_t err;
    int rc = flux_rpc_get_raw(fut, &data, &len, &err);
    if (rc < 0 && errno == EHOSTUNREACH && send_again(f))
        return;
    if (rc < 0 || km_fence_end_decode(data, len, &e, &err) < 0 ||
        (e.errnum == 0 && km_ns_root_heard(ns, &e.root, &err) < 0)) {
        fence_fail(f, errno, err.text);
        return;
    }
    if (e.errnum == ECONNABORTED && !f->anew && f->unsent > 0)
        calls_notified(ns, f->name, f->nprocs, f->unsent);
    fence_end(f, &e);
}

static void added_cb(flux_future_t *fut, void *arg)
{
    struct km_fence *f = arg;
    errmsg_t err;
    int errnum = flux_rpc_get(fut, &err) < 0 ? errno : 0;
    f->add = NULL;
    flux_future_destroy(fut);
    if (errnum == EHOSTUNREACH && report_anew(f))
        return;
    /* ECONNABORTED: the fence is over.  The answer to the first message says so too, and says
     * more. */
    if (errnum == 0) {
        (void)flush(f);
    } else if (errnum != ECONNABORTED) {
        /* The calls sent before count above: abort the fence there, as no more calls come from
         * here. */
        send_abort(f->ns, f->name, f->nprocs, f->number, f->direct, err.text);
        fence_fail(f, errnum, err.text);
    }
}

static flux_future_t *send_merged(struct km_fence *f)
{
    struct km_ns *ns = f->ns;
    struct kvs_fence_req q = {.nprocs = f->nprocs,
                              .count = f->unsent,
                              .rank = flux_rank(ns->h),
                              .number = f->number,
                              .after = f->after,
                              .heard = f->heard,
                              .before = f->before,
                              .ns = ns->name,
                              .nslen = strlen(ns->name),
                              .name = f->name,
                              .namelen = strlen(f->name)};
    size_t size;
    char *ranks = f->ranks_unsent ? idset_format(f->ranks, 0) : strdup("");
    char *callers = idset_format(f->fresh, 0);
    uint8_t *buf = NULL;
    flux_future_t *fut;
    if (f->first)
        q.flags = f->anew ? KVS_FENCE_ANEW : KVS_FENCE_ADD;
    else if (f->before)
        q.flags = KVS_FENCE_AGAIN;
    if (ranks && callers) {
        q.ranks = ranks;
        q.rankslen = strlen(ranks);
        q.callers = callers;
        q.callerslen = strlen(callers);
        buf = km_merge_message(&f->merge, &q, &size);
    }
    free(ranks);
    free(callers);
    fut = buf ? km_ns_upstream(ns, "kvs.fence", buf, size, f->direct, 0) : NULL;
    free(buf);
    return fut;
}

/* Send the merged calls, unless an earlier message waits for its answer.  -1: the fence has
 * ended. */
static int flush(struct km_fence *f)
{
    struct km_ns *ns = f->ns;
    flux_future_t *fut;
    if (f->add || (f->unsent == 0 && !(f->anew && f->first)))
        return 0;
    if (!f->first)
        f->direct = f->before || km_ns_next_is_master(ns);
    fut = send_merged(f);
    if (!fut || flux_future_then(fut, -1., f->first ? added_cb : over_cb, f) < 0) {
        flux_future_destroy(fut);
        fence_fail(f, ENOMEM, "an instance of kvs is out of memory for a fence");
        return -1;
    }
    if (f->first)
        f->add = fut;
    else
        f->first = fut;
    f->unsent = 0;
    f->ranks_unsent = f->anew = false;
    (void)idset_range_clear(f->fresh, 0, IDSET_MAX); /* else ranks are sent twice: harmless */
    return 0;
}

void km_fence_work(struct km_ns *ns)
{
    struct list_node *n;
    while ((n = list_first(&ns->fences->busy))) {
        list_remove(n);
        (void)flush(list_entry(n, struct km_fence, node));
    }
}

/* --- requests --- */

/* Add the ranks of participants to the fence.  -1 with ENOMEM. */
static int add_ranks(struct km_fence *f, const idset_t *ranks, errmsg_t *err)
{
    size_t n = f->ranks ? idset_count(f->ranks) : 0;
    if (idset_empty(ranks))
        return 0;
    if ((!f->ranks && !(f->ranks = idset_create())) || idset_add(f->ranks, ranks) < 0)
        return errmsg_fail(err, ENOMEM, "rank %u is out of memory for a fence",
                           flux_rank(f->ns->h));
    if (idset_count(f->ranks) > n)
        f->ranks_unsent = true;
    return 0;
}

void km_fence_proceed(struct km_fence *f)
{
    struct km_ns *ns = f->ns;
    if (nothing_left(f))
        return;
    if (!ns->master) {
        if (list_empty(&f->node))
            list_append(&ns->fences->busy, &f->node);
        km_ns_poke(ns);
    } else if (km_fence_lost_end(f, session_lost(ns->k->session))) {
        return;
    } else if (f->count == f->nprocs) {
        f->applying = true;
        if (km_merge_finish(&f->merge) < 0 || km_commit_fence(ns, f) < 0)
            km_fence_done(ns, f, ENOMEM, "the master is out of memory for a fence");
    } else if (!f->grace && grace_recent(ns->k->grace)) {
        km_fence_lost_suspect(f, grace_recent(ns->k->grace));
    }
}

static int merge(struct km_fence *f, const struct kvs_fence_req *q, const idset_t *ranks,
                 const idset_t *callers, errmsg_t *err)
{
    if (add_ranks(f, ranks, err) < 0 || km_fence_callers(f, callers, err) < 0 ||
        km_merge_add(&f->merge, q, err) < 0)
        return -1;
    f->count += q->count;
    f->unsent += q->count;
    INVARIANT(1, f->count <= f->nprocs);
    INVARIANT(2, f->unsent <= f->count);
    INVARIANT(2, f->first || f->unsent == f->count);
    return 0;
}

/* Do calls from one of these ranks already count, reported by another way? */
static bool known_callers(const struct km_fence *f, const struct kvs_fence_req *q,
                          const idset_t *callers)
{
    return q->flags & KVS_FENCE_INSTANCE && idset_intersects(f->callers, callers);
}

/* A first message that was sent again replaces the part of the message that its sender sent
 * before. */
static void forget_before(const struct km_fence *f, const struct kvs_fence_req *q)
{
    struct km_fence_part *p =
        q->flags & KVS_FENCE_AGAIN ? km_fence_part_find(f->ns, q->rank, q->before) : NULL;
    if (!p || p->f != f)
        return;
    flux_respond_error(f->ns->h, p->req, EHOSTUNREACH, "the calls were reported again");
    km_fence_part_free(p);
}

/* A call, or the first message of an instance.  `callers` is taken over. */
static void first_message(struct km_fence *f, const flux_msg_t *msg, const struct kvs_fence_req *q,
                          const idset_t *ranks, idset_t *callers)
{
    struct km_ns *ns = f->ns;
    bool known = known_callers(f, q, callers);
    struct km_fence_part *p;
    errmsg_t err;
    int rc;
    forget_before(f, q);
    f->again |= (q->flags & KVS_FENCE_AGAIN) != 0;
    f->shared |= (q->flags & KVS_FENCE_INSTANCE) != 0;
    if (!(p = km_fence_part_create(f, msg, q, callers, &err))) {
        flux_respond_error(ns->h, msg, errno, "%s", err.text);
        if (errno == EMSGSIZE)
            km_fence_abort(f, err.text);
        else if (list_empty(&f->parts) && f->count == 0)
            km_fence_free(f);
        return;
    }
    if (f->applying) { /* its calls are in the fence already */
        p->stale = true;
        return;
    }
    rc = known ? add_ranks(f, ranks, &err) < 0 ? -1 : km_fence_recount(f, &err)
               : merge(f, q, ranks, p->callers, &err);
    if (rc < 0) /* the part is merged in part: the fence has to end, and must not become complete */
        km_fence_abort(f, err.text);
    else
        km_fence_proceed(f);
}

/* A message that continues the first message of an instance (add), or replaces it (anew). */
static void later_message(struct km_fence_part *p, const flux_msg_t *msg,
                          const struct kvs_fence_req *q, const idset_t *ranks,
                          const idset_t *callers)
{
    struct km_fence *f = p->f;
    struct km_ns *ns = f->ns;
    bool anew = q->flags & KVS_FENCE_ANEW;
    bool known = known_callers(f, q, callers);
    errmsg_t err;
    int rc = 0;
    if (f->applying) { /* its calls are in the fence already, by another way */
        flux_respond_raw(ns->h, msg, NULL, 0);
        return;
    }
    /* Ranks that this message names no longer have made calls, which will be reported by another
     * way. */
    if (anew && !p->stale)
        rc = km_fence_lost_absent(f, p->callers, &err);
    if (rc == 0)
        rc = km_fence_part_keep(p, msg, q, callers, &err);
    if (rc == 0 && (anew || known))
        rc = add_ranks(f, ranks, &err) < 0 ? -1 : km_fence_recount(f, &err);
    else if (rc == 0 && !p->stale)
        rc = merge(f, q, ranks, callers, &err);
    if (rc < 0) {
        flux_respond_error(ns->h, msg, errno, "%s", err.text);
        km_fence_abort(f, err.text);
        return;
    }
    flux_respond_raw(ns->h, msg, NULL, 0);
    km_fence_proceed(f);
}

/* Parse the ranks of participants or callers in a call; the caller destroys the set.  NULL with
 * EINVAL or ENOMEM. */
static idset_t *call_ranks(struct km_ns *ns, const char *s, size_t len, errmsg_t *err)
{
    char *text = strndup(s, len);
    idset_t *ranks = text ? idset_parse(text, err) : NULL;
    if (!text) {
        errmsg_fail(err, ENOMEM, "rank %u is out of memory for a fence", flux_rank(ns->h));
    } else if (ranks && !idset_empty(ranks) && idset_last(ranks) >= flux_size(ns->h)) {
        errmsg_fail(err, EINVAL, "ranks of a fence: rank %u does not exist: ranks are 0-%u",
                    idset_last(ranks), flux_size(ns->h) - 1);
        idset_destroy(ranks);
        ranks = NULL;
        errno = EINVAL;
    }
    free(text);
    return ranks;
}

static idset_t *call_callers(struct km_ns *ns, const struct kvs_fence_req *q, errmsg_t *err)
{
    idset_t *own;
    if (q->flags & KVS_FENCE_INSTANCE)
        return call_ranks(ns, q->callers, q->callerslen, err);
    if (!(own = idset_create_range(flux_rank(ns->h), flux_rank(ns->h))))
        errmsg_fail(err, ENOMEM, "rank %u is out of memory for a fence", flux_rank(ns->h));
    return own;
}

/* Is the message for a later fence of the name than `f`?  An instance that reports to the master by
 * another way may receive the end of a fence before this instance does. */
static bool later_use(const struct km_fence *f, const struct kvs_fence_req *q)
{
    return !f->ns->master && q->heard && (f->heard == 0 || (int32_t)(q->heard - f->heard) > 0);
}

/* The fence of a call, or of the first message of an instance; a new one if none is open.  NULL:
 * the message was answered. */
static struct km_fence *find_fence(struct km_ns *ns, const flux_msg_t *msg, const char *name,
                                   const struct kvs_fence_req *q, const idset_t *callers)
{
    bool instance = q->flags & KVS_FENCE_INSTANCE;
    char key[KEY_MAX];
    uint32_t after = instance ? q->after : km_tombstone_take_known(ns, name, msg);
    if (ns->master) {
        uint32_t generation;
        if (instance && km_fence_end_answers(ns, msg, name, q, callers))
            return NULL;
        const char *why = km_tombstone_refuse(ns, name, q->nprocs, q->count, after, &generation);
        if (why) {
            answer_aborted(ns, msg, name, instance, generation, why);
            return NULL;
        }
        after = 0;
    }
    make_key(name, after, key);
    struct km_fence *f = hmap_get(ns->fences->by_name, key);
    if (f && later_use(f, q)) {
        (void)hmap_take(ns->fences->by_name, key);
        f = NULL;
    }
    if (f)
        return f;
    if (ns->fences->nfences >= FENCES_MAX) {
        flux_respond_error(ns->h, msg, EAGAIN, "%d fences are open at rank %u: too many",
                           FENCES_MAX, flux_rank(ns->h));
        return NULL;
    }
    ns->st.fences++;
    if (!(f = fence_new(ns, name, q->nprocs, after))) {
        flux_respond_error(ns->h, msg, ENOMEM, "out of memory for a fence");
        return NULL;
    }
    f->heard = q->heard ? q->heard : km_fence_end_heard(ns, name);
    return f;
}

/* Does the message fit the fence?  If not, it is answered with an error. */
static bool fits(const struct km_fence *f, const flux_msg_t *msg, const struct kvs_fence_req *q,
                 bool counts_anew)
{
    struct km_ns *ns = f->ns;
    if (f->nprocs != q->nprocs)
        flux_respond_error(ns->h, msg, EINVAL, "fence '%s' has %u participants, not %u", f->name,
                           f->nprocs, q->nprocs);
    else if (!counts_anew && q->count > f->nprocs - f->count)
        flux_respond_error(ns->h, msg, EINVAL,
                           "fence '%s' of %u has been called more often than that", f->name,
                           f->nprocs);
    else if (ns->fences->nparts >= PARTS_MAX)
        flux_respond_error(ns->h, msg, EAGAIN, "%u calls to fences wait at rank %u: too many",
                           PARTS_MAX, flux_rank(ns->h));
    else
        return true;
    return false;
}

/* Did the message come from the instance to which this one would send it?  Both know the tree
 * differently, or the message was for an earlier broker of this rank.  The sender sends its calls
 * to the master then.  Otherwise they would count twice, or wait for ever. */
static bool goes_back(const struct km_ns *ns, const struct kvs_fence_req *q)
{
    return q->flags & KVS_FENCE_INSTANCE && !ns->master && ns->rank != FLUX_NODEID_ROOT &&
           km_route_hop(ns->k->route, ns->rank) == q->rank;
}

static void refuse_back(struct km_ns *ns, const flux_msg_t *msg, const struct kvs_fence_req *q)
{
    flux_respond_error(ns->h, msg, EHOSTUNREACH,
                       "the way from rank %u to the master of '%s' leads back to rank %u",
                       flux_rank(ns->h), ns->name, q->rank);
}

/* `callers` is taken over. */
static void called(struct km_ns *ns, const flux_msg_t *msg, const struct kvs_fence_req *q,
                   const idset_t *ranks, idset_t *callers)
{
    char name[KVS_FENCE_NAME_MAX + 1];
    struct km_fence_part *p;
    struct km_fence *f;
    memcpy(name, q->name, q->namelen);
    name[q->namelen] = '\0';
    if (!(q->flags & (KVS_FENCE_ADD | KVS_FENCE_ANEW)) && goes_back(ns, q)) {
        refuse_back(ns, msg, q);
    } else if (!(q->flags & (KVS_FENCE_ADD | KVS_FENCE_ANEW))) {
        f = find_fence(ns, msg, name, q, callers);
        if (f && fits(f, msg, q, known_callers(f, q, callers))) {
            first_message(f, msg, q, ranks, callers);
            return;
        }
    } else if ((p = km_fence_part_find(ns, q->rank, q->number))) {
        if (fits(p->f, msg, q,
                 q->flags & KVS_FENCE_ANEW || p->stale || known_callers(p->f, q, callers)))
            later_message(p, msg, q, ranks, callers);
    } else if (goes_back(ns, q)) {
        refuse_back(ns, msg, q);
    } else if (!ns->master) {
        km_relay_up(ns, msg); /* its first message went by another way, or the fence is over */
    } else {
        if (q->flags & KVS_FENCE_ADD) /* the clients receive the answer to the first message */
            calls_notified(ns, name, q->nprocs, q->count);
        flux_respond_error(ns->h, msg, ECONNABORTED, "fence '%s' is over", name);
    }
    idset_destroy(callers);
}

void km_fence_cb(flux_t *h, const flux_msg_t *msg, void *arg)
{
    struct km_ns *ns;
    struct kvs_fence_req q;
    errmsg_t err;
    size_t len;
    const void *data = flux_msg_payload(msg, &len);
    if (kvs_fence_req_decode(data, len, &q, &err) < 0 ||
        (!(q.flags & KVS_FENCE_INSTANCE) && km_merge_check(&q, &err) < 0)) {
        flux_respond_error(h, msg, errno, "%s", err.text);
        return;
    }
    if (!(ns = km_space_request_ready(arg, msg, q.ns, q.nslen, km_fence_cb)))
        return;
    if (q.flags && !(flux_msg_rolemask(msg) & FLUX_ROLE_BROKER)) {
        flux_respond_error(h, msg, EPERM, "only an instance of kvs may call a fence for others");
        return;
    }
    if (q.flags & KVS_FENCE_INSTANCE) {
        ns->st.fence_msgs_in++;
        ns->st.fence_bytes_in += len;
    } else {
        ns->st.fence_bytes_local += len;
    }
    idset_t *ranks = call_ranks(ns, q.ranks, q.rankslen, &err);
    idset_t *callers = ranks ? call_callers(ns, &q, &err) : NULL;
    if (callers)
        called(ns, msg, &q, ranks, callers);
    else
        flux_respond_error(h, msg, errno, "%s", err.text);
    idset_destroy(ranks);
}

/* An abort with number 0: an instance could not merge its first calls, so it has sent no message
 * about the fence. */
static void abort_by_name(struct km_ns *ns, const struct km_wire_abort *in)
{
    char key[KEY_MAX];
    if (!ns->master) {
        send_abort(ns, in->name, in->nprocs, 0, false, in->reason);
        return;
    }
    make_key(in->name, 0, key);
    struct km_fence *f = hmap_get(ns->fences->by_name, key);
    if (f && f->nprocs == in->nprocs)
        km_fence_abort(f, in->reason);
    else if (!f)
        km_tombstone_add(ns, in->name, in->nprocs, in->nprocs, ++ns->fences->last, in->reason);
}

void km_fence_abort_cb(flux_t *h, const flux_msg_t *msg, void *arg)
{
    struct km_ns *ns;
    struct km_wire_abort in;
    json_t *owner;
    if (flux_request_decode(h, msg, &km_wire_abort_schema, &in, &owner) < 0)
        return;
    if (!(ns = km_space_request_ready(arg, msg, in.namespace, strlen(in.namespace),
                                      km_fence_abort_cb))) {
        json_decref(owner);
        return;
    }
    if (in.number) {
        struct km_fence_part *p = km_fence_part_find(ns, in.rank, in.number);
        if (p)
            km_fence_abort(p->f, in.reason);
        else if (!ns->master) /* as in called() */
            pass_abort(ns, &in, false);
    } else {
        abort_by_name(ns, &in);
    }
    flux_respond(h, msg, NULL);
    json_decref(owner);
}

void km_fence_notified_cb(flux_t *h, const flux_msg_t *msg, void *arg)
{
    struct km_wire_told in;
    struct km_ns *ns;
    json_t *owner;
    if (flux_request_decode(h, msg, &km_wire_told_schema, &in, &owner) < 0)
        return;
    ns = km_space_request_ready(arg, msg, in.namespace, strlen(in.namespace), km_fence_notified_cb);
    if (ns) {
        calls_notified(ns, in.name, in.nprocs, in.count);
        flux_respond(h, msg, NULL);
    }
    json_decref(owner);
}

/* --- the end of the instance --- */

void km_fence_shut(struct km_ns *ns, int errnum, const char *why)
{
    struct km_fence_table *fs = ns->fences;
    errmsg_t stopped;
    /* The next instance cannot continue the fences: it does not know which calls were sent
     * upstream. */
    errmsg_set(&stopped, "the fence was aborted: kvs was stopped at rank %u", flux_rank(ns->h));
    LIST_FOREACH_SAFE(n, tmp, &fs->all)
    {
        struct km_fence *f = list_entry(n, struct km_fence, all_node);
        if (f->first && !errnum)
            send_abort(ns, f->name, f->nprocs, f->number, f->direct, stopped.text);
        fence_fail(f, errnum ? errnum : ECONNABORTED, errnum ? why : stopped.text);
    }
}

void km_fence_table_destroy(struct km_fence_table *fs)
{
    if (!fs)
        return;
    hmap_destroy(fs->by_name);
    hmap_destroy(fs->parts);
    km_fence_ends_destroy(fs);
    free(fs);
}

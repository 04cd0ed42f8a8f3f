/* km_commit.c - commits, and the root changes that they cause at the master.
 *
 * Terms: a commit is a request with one transaction.  The master applies transactions in root
 * changes: a root change applies one or more transactions, and results in one new root.
 *
 * Forwarding: an instance that is not the master passes a commit on (km_forward.c), with a number
 * by which the master recognizes it if it arrives again because a broker on the way has died
 * (km_once.c): the copy gets the outcome of the commit, and is not applied.
 *
 * Root changes: the master puts commits and complete fences in a queue, and works on the queue when
 * it has handled all messages that have arrived.  An idle master makes one root change per entry; a
 * busy master applies all entries of the queue in one root change.  A root change takes turns of
 * one slice of time each.  If its turn is over before it is complete, the root change stays open
 * and goes on in the next pass of the reactor, together with the commits that have arrived
 * meanwhile.  Readers see the old root until the root change ends.
 *
 * Disk: if the namespace is kept on disk (km_keep.c), a root change becomes a row of the journal.
 * With kvs.sync=commit the root change is visible and answered when its row is durable; meanwhile
 * the queue for the next root change grows.  With kvs.sync=interval it is visible and answered at
 * once, except for commits that ask for durability (KVS_NS_DURABLE): their answers wait for the
 * row.
 *
 * Event: after the answers, the master has the event kvs.setroot published (primary namespace).  It
 * publishes no further event before the event has its sequence number.  So events do not fall
 * behind the root changes: the next event carries the newest root.
 *
 * Drawing (commit): a commit of a client at rank 1, with kvs.sync=commit.
 *
 *     client           kvs, rank 1                   kvs, rank 0 (master)             disk
 *       |                  |                             |                             |
 *       | kvs.commit       |                             |                             |
 *       |----------------->| kvs.commit                  |                             |
 *       |                  |---------------------------->| apply: new root             |
 *       |                  |                             | row of the journal          |
 *       |                  |                             |---------------------------->|
 *       |                  |                             |<----------------------------|
 *       |                  |     response: new root      | durable                     |
 *       |                  |<----------------------------|                             |
 *       | response         | takes the root first        |                             |
 *       |<-----------------|                             |                             |
 *       |                  |     event kvs.setroot       |                             |
 *       |                  |<----------------------------| to all ranks                |
 *
 * Invariants:
 *  1. Each transaction is applied once and as a whole, or refused with an error to its sender,
 *     however often it arrives.
 *  2. Answers are sent after the root that they carry is in place, and in the order of the queue,
 *     except for the later answers to durable commits with kvs.sync=interval.
 *  3. Events carry increasing versions, and after the last root change the last event carries the
 *     last version.
 *  4. While a root change is open (km_commits.change), the first commit of the queue may be applied
 *     in part.  That commit stays the first until it is applied or refused, and the root change
 *     does not end before.
 *
 * Failure: a refused transaction does not affect the other transactions of its root change.  If
 * memory is exhausted at the end of a root change, all its transactions are refused.  If the store
 * returns to an earlier root while a root change is open, the root change is given up, and its
 * commits go back to the front of the queue.  If an event cannot be published, a message is logged,
 * and the event is published with the next work for the namespace, or by the timer of the module.
 */
#include "config.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "km_commit.h"
#include "km_disk.h"
#include "km_once.h"
#include "libflux/slice.h"
#include "libkvs/kvs_pack.h"
#include "libkvs/kvsdisk.h"

/* Bounds of the commits that wait here, to be applied or for an answer from upstream: a flood is
 * refused at its source. */
#define WAITING_MAX 262144
#define WAITING_BYTES (256u * 1024 * 1024)
/* Bounds of a root change, so that answers do not wait without end in a flood: the time of its
 * turns (a transaction takes anything from a microsecond on), and the number and bytes of the
 * transactions in its row on disk. */
#define BATCH_SECONDS 0.02
#define BATCH_TXNS 4096
#define BATCH_BYTES (16u * 1024 * 1024)
#define SENDERS_MAX 4096 /* instances whose numbers are kept, besides 4 for each rank */
#define TURN_LOOKS 512   /* readings of the clock in a turn, if the clock is virtual */
/* Number of garbage objects collected after each root change (a commit leaves about five); the rest
 * is collected when the master is idle.  The bound is a number, not a time, since each object takes
 * about a microsecond or two. */
#define COLLECT 256

/* --- commits that wait --- */

static bool has_room(const struct km_ns *ns, size_t size)
{
    return ns->commit->nwaiting < WAITING_MAX && ns->commit->waiting_bytes + size <= WAITING_BYTES;
}

void km_commit_waits(struct km_ns *ns, size_t size)
{
    ns->commit->nwaiting++;
    ns->commit->waiting_bytes += size;
}

void km_commit_waits_no_more(struct km_ns *ns, size_t size)
{
    ns->commit->nwaiting--;
    ns->commit->waiting_bytes -= size;
}

/* --- the queue of the master --- */

struct commit {
    struct list_node node;  /* in km_commits.queue, then in km_commit_change.commits */
    flux_msg_t *req;        /* the request of a commit, or NULL for */
    struct km_fence *fence; /* a complete fence */
    const void *txn;        /* in the request; NULL for a fence */
    size_t len;
    bool durable;            /* KVS_NS_DURABLE */
    uint64_t sender, number; /* with KVS_NS_NUMBERED, else 0 */
    flux_msg_t **again;      /* the same commit, sent again */
    size_t nagain;
    int errnum;
    errmsg_t err;
};

/* A root change: the transactions that were applied together, and their new root. */
struct km_commit_change {
    struct list_node commits;
    size_t bytes; /* of the transactions in `commits` */
    unsigned n;
    double seconds;   /* duration of its turns so far */
    bool partly;      /* the first commit of the queue is applied in part */
    bool ending;      /* no more transactions are applied */
    uint64_t version; /* the version of the new root */
    uint8_t root[BLOBREF_DIGEST_MAX];
    bool changed; /* false: no transaction was applied, the root is the old one */
    bool early;   /* its root is visible, and commits wait until it is durable */
};

static struct commit *enqueue(struct km_ns *ns, const flux_msg_t *msg, const struct kvs_ns_req *q,
                              struct km_fence *fence)
{
    struct commit *c = calloc(1, sizeof(*c));
    if (!c)
        return NULL;
    if (q) {
        c->txn = q->body;
        c->len = q->len;
        c->durable = q->flags & KVS_NS_DURABLE;
    }
    c->req = msg ? flux_msg_incref(msg) : NULL;
    c->fence = fence;
    list_init(&c->node);
    list_append(&ns->commit->queue, &c->node);
    km_commit_waits(ns, c->len);
    km_ns_poke(ns);
    return c;
}

int km_commit_fence(struct km_ns *ns, struct km_fence *f)
{
    return enqueue(ns, NULL, NULL, f) ? 0 : -1;
}

static void commit_free(struct km_ns *ns, struct commit *c)
{
    list_remove(&c->node);
    km_commit_waits_no_more(ns, c->len);
    for (size_t i = 0; i < c->nagain; i++)
        flux_msg_destroy(c->again[i]);
    free(c->again);
    flux_msg_destroy(c->req);
    free(c);
}

/* --- numbered commits (km_once.c) --- */

static void no_room(struct km_ns *ns, const flux_msg_t *msg)
{
    flux_respond_error(ns->h, msg, EAGAIN, "too many commits wait at rank %u: try again later",
                       flux_rank(ns->h));
}

static void no_memory(struct km_ns *ns, const flux_msg_t *msg)
{
    flux_respond_error(ns->h, msg, ENOMEM, "the master is out of memory for a commit");
}

static void respond_root(struct km_ns *ns, const flux_msg_t *req, uint64_t version,
                         const uint8_t *digest)
{
    struct kvs_root root = {.version = version};
    uint8_t buf[KVS_ROOT_WIRE_MAX];

    snprintf(root.ns, sizeof(root.ns), "%s", ns->name);
    blobref_format(ns->k->blobref, digest, root.ref);
    flux_respond_raw(ns->h, req, buf, kvs_root_encode(&root, buf));
}

static void respond_outcome(struct km_ns *ns, const flux_msg_t *req, const struct km_outcome *o)
{
    if (o->errnum)
        flux_respond_error(ns->h, req, o->errnum, "%s", o->text);
    else
        respond_root(ns, req, o->version, o->root);
}

/* The same commit has arrived again while it is in progress: all its requests get its outcome. */
static void add_request(struct km_ns *ns, struct commit *c, const flux_msg_t *msg)
{
    flux_msg_t **again = realloc(c->again, (c->nagain + 1) * sizeof(*again));

    if (!again) {
        no_memory(ns, msg);
        return;
    }
    c->again = again;
    c->again[c->nagain++] = flux_msg_incref(msg);
}

static void begin_numbered(struct km_ns *ns, const flux_msg_t *msg, const struct kvs_ns_req *q)
{
    struct commit *c = enqueue(ns, msg, q, NULL);

    if (!c || km_once_begin(ns->commit->once, q, c) < 0) {
        if (c)
            commit_free(ns, c);
        no_memory(ns, msg);
        return;
    }
    c->sender = q->sender;
    c->number = q->number;
}

static void take_numbered(struct km_ns *ns, const flux_msg_t *msg, const struct kvs_ns_req *q)
{
    struct km_once_found found;
    size_t max = SENDERS_MAX + 4 * (size_t)flux_size(ns->h);

    if (!ns->commit->once && !(ns->commit->once = km_once_create(max))) {
        no_memory(ns, msg);
        return;
    }
    switch (km_once_look(ns->commit->once, q, &found)) {
    case KM_ONCE_NEW:
        /* To refuse one copy would not stop another, which may still arrive. */
        if (q->flags & KVS_NS_AGAIN || has_room(ns, q->len))
            begin_numbered(ns, msg, q);
        else
            no_room(ns, msg);
        break;
    case KM_ONCE_PENDING:
        ns->st.commits_again++;
        add_request(ns, found.pending, msg);
        break;
    case KM_ONCE_OVER:
        ns->st.commits_again++;
        respond_outcome(ns, msg, found.outcome);
        break;
    case KM_ONCE_MISSING:
        flux_respond_error(ns->h, msg, ESTALE,
                           "an earlier commit of the same rank was lost on the way");
        break;
    case KM_ONCE_UNKNOWN:
        flux_respond_error(ns->h, msg, ECONNABORTED,
                           "a broker was lost while a commit was on its way, and the master was "
                           "reloaded: look whether the commit took effect");
        break;
    case KM_ONCE_PAST:
        ns->st.commits_again++;
        flux_respond_error(ns->h, msg, EHOSTUNREACH, "a commit has arrived again after its answer");
        break;
    }
}

/* The outcome of a commit, which is the same for all commits of a root change: the root of now,
 * unless that change was visible early, since newer roots may not be durable.  NULL without
 * memory. */
static struct km_outcome *good_outcome(struct km_ns *ns, const struct km_commit_change *ch)
{
    struct km_outcome *o = ns->commit->outcome;
    bool early = ch && ch->early;
    uint64_t version = early ? ch->version : ns->version;
    const uint8_t *root = early ? ch->root : ns->root;

    if (o && o->version == version && memcmp(o->root, root, sizeof(o->root)) == 0)
        return km_once_ref(o);
    if (!(o = km_once_outcome(0, NULL)))
        return NULL;
    o->version = version;
    memcpy(o->root, root, sizeof(o->root));
    km_once_unref(ns->commit->outcome);
    ns->commit->outcome = km_once_ref(o);
    return o;
}

static void end_numbered(struct km_ns *ns, const struct km_commit_change *ch,
                         const struct commit *c)
{
    struct km_outcome *o =
        c->errnum ? km_once_outcome(c->errnum, c->err.text) : good_outcome(ns, ch);

    km_once_end(ns->commit->once, c->sender, c->number, o);
    km_once_unref(o);
}

void km_commit_cb(flux_t *h, const flux_msg_t *msg, void *arg)
{
    struct km_ns *ns;
    struct kvs_ns_req q;
    if (km_space_decode(h, msg, &q) < 0 ||
        !(ns = km_space_request_ready(arg, msg, q.ns, q.nslen, km_commit_cb)))
        return;
    ns->st.commits++;
    if (ns->master && q.flags & KVS_NS_NUMBERED)
        take_numbered(ns, msg, &q);
    else if (!has_room(ns, q.len))
        no_room(ns, msg);
    else if (!ns->master)
        km_forward_commit(ns, msg, &q);
    else if (!enqueue(ns, msg, &q, NULL))
        no_memory(ns, msg);
}

static void commit_txn(const struct commit *c, const void **txn, size_t *len)
{
    *txn = c->txn;
    *len = c->len;
    if (c->fence)
        km_fence_txn(c->fence, txn, len);
}

static void answer(struct km_ns *ns, const struct km_commit_change *ch, const struct commit *c,
                   const flux_msg_t *req)
{
    if (c->errnum)
        flux_respond_error(ns->h, req, c->errnum, "%s", c->err.text);
    else if (ch && ch->early) /* as in good_outcome() */
        respond_root(ns, req, ch->version, ch->root);
    else
        km_ns_respond_root(ns, req);
}

static void commit_end(struct km_ns *ns, const struct km_commit_change *ch, struct commit *c)
{
    if (c->number)
        end_numbered(ns, ch, c);
    if (c->fence)
        km_fence_done(ns, c->fence, c->errnum, c->err.text);
    else
        answer(ns, ch, c, c->req);
    for (size_t i = 0; i < c->nagain; i++)
        answer(ns, ch, c, c->again[i]);
    commit_free(ns, c);
}

/* --- root changes --- */

/* The change is done (errnum 0): its root becomes visible, its commits are answered, and km_ns.c
 * has the root published.  Or (errnum != 0) the change was undone, and its commits fail. */
void km_commit_change_done(struct km_ns *ns, struct km_commit_change *ch, int errnum,
                           const char *error)
{
    struct list_node *n;
    if (ch->changed && errnum == 0)
        km_ns_root_set(ns, ch->version, ch->root);
    while ((n = list_first(&ch->commits))) {
        struct commit *c = list_entry(n, struct commit, node);
        if (errnum && c->errnum == 0) {
            c->errnum = errnum;
            errmsg_set(&c->err, "%s", error);
        }
        commit_end(ns, ch, c);
    }
    free(ch);
}

bool km_commit_change_early(struct km_ns *ns, struct km_commit_change *ch)
{
    bool left = false;
    if (ch->changed)
        km_ns_root_set(ns, ch->version, ch->root);
    ch->changed = false;
    LIST_FOREACH_SAFE(n, tmp, &ch->commits)
    {
        struct commit *c = list_entry(n, struct commit, node);
        if (c->durable && c->errnum == 0)
            left = true;
        else
            commit_end(ns, ch, c);
    }
    ch->early = true;
    ch->version = ns->version;
    memcpy(ch->root, ns->root, sizeof(ch->root));
    return left;
}

static int keep_op_chunks(struct km_ns *ns, const struct kvs_op *op)
{
    struct kvs_op_chunks c;
    if (op->type != KVS_OP_PUTCHUNKS)
        return 0;
    kvs_op_get_chunks(op, &c);
    return km_checkpoint_chunks(ns->keep, c.digests, c.n);
}

static int keep_pack_chunks(struct km_ns *ns, const void *pack, size_t len)
{
    struct kvs_pack_iter it;
    struct kvs_op op;
    uint32_t value;
    int rc = kvs_pack_open(&it, pack, len, NULL, NULL);
    if (rc < 0)
        return -1;
    while (rc == 0 && kvs_pack_next(&it, &op, &value, NULL) == 1)
        rc = keep_op_chunks(ns, &op);
    kvs_pack_close(&it);
    return rc;
}

/* Write the chunks to which a transaction refers: they have to be on disk before its row.  -1 with
 * ENOMEM. */
static int keep_chunks(struct km_ns *ns, const struct commit *c, const void *txn, size_t len)
{
    struct kvs_txn_iter it;
    struct kvs_op op;
    int rc = 0;
    if (kvs_pack_is(txn, len))
        return !c->fence || km_fence_mixed(c->fence) ? keep_pack_chunks(ns, txn, len) : 0;
    if (!kvs_txn_has(txn, len, KVS_OP_PUTCHUNKS) || kvs_txn_open(&it, txn, len, NULL, NULL) < 0)
        return 0;
    while (rc == 0 && kvs_txn_next(&it, &op, NULL) == 1)
        rc = keep_op_chunks(ns, &op);
    return rc;
}

/* The row of the journal with all transactions that were applied.  NULL with ENOMEM. */
static uint8_t *change_row(struct km_ns *ns, struct km_commit_change *ch, size_t *size)
{
    const void *txn;
    size_t len;
    uint32_t n = 0;
    *size = KVSDISK_ROW_HEADER;
    LIST_FOREACH(it, &ch->commits)
    {
        const struct commit *c = list_entry(it, struct commit, node);
        if (c->errnum)
            continue;
        commit_txn(c, &txn, &len);
        if (keep_chunks(ns, c, txn, len) < 0)
            return NULL;
        *size += KVSDISK_ROW_TXN + len;
        n++;
    }
    uint8_t *row = malloc(*size), *p = row;
    if (!row)
        return NULL;
    kvsdisk_row_header(p, n);
    p += KVSDISK_ROW_HEADER;
    LIST_FOREACH(it, &ch->commits)
    {
        const struct commit *c = list_entry(it, struct commit, node);
        if (c->errnum)
            continue;
        commit_txn(c, &txn, &len);
        kvsdisk_row_txn(p, (uint32_t)len);
        memcpy(p + KVSDISK_ROW_TXN, txn, len);
        p += KVSDISK_ROW_TXN + len;
    }
    return row;
}

/* The change is in the store: have it written to the journal, or (a namespace that is not kept on
 * disk) end it. */
static void change_applied(struct km_ns *ns, struct km_commit_change *ch)
{
    uint8_t *row = NULL;
    size_t size = 0;
    if (!ns->keep) {
        km_commit_change_done(ns, ch, 0, NULL);
        return;
    }
    if (ch->changed)
        row = change_row(ns, ch, &size);
    km_keep_change(ns->keep, ch, ch->changed ? ch->version : 0, ch->root, row, size);
}

/* --- bytes that are on disk only --- */

static void stall_over(struct km_load_wait *w)
{
    struct km_ns *ns = w->ns;
    if (w->errnum && !list_empty(&ns->commit->queue)) {
        struct commit *c = list_entry(list_first(&ns->commit->queue), struct commit, node);
        c->errnum = w->errnum;
        errmsg_set(&c->err, "%s", w->error);
        commit_end(ns, NULL, c);
    }
    km_ns_poke(ns);
}

/* Load the bytes that the first commit of the queue needs.  -1 with errno if they cannot be
 * loaded. */
static int stall(struct km_ns *ns)
{
    if (!ns->commit->stall) {
        if (!(ns->commit->stall = malloc(sizeof(*ns->commit->stall))))
            return -1;
        km_load_wait_init(ns->commit->stall, ns, stall_over);
    }
    /* Objects that have arrived before are held until the commit is applied. */
    return km_load_wait_for(ns->commit->stall, kvsstore_missing(ns->store));
}

static bool stalled(const struct km_ns *ns)
{
    return ns->commit->stall && ns->commit->stall->waiting > 0;
}

static void unstall(struct km_ns *ns)
{
    if (ns->commit->stall)
        km_load_wait_clear(ns->commit->stall);
    free(ns->commit->stall);
    ns->commit->stall = NULL;
}

/* --- turns of a root change --- */

static void change_begin(struct km_ns *ns)
{
    struct km_commit_change *ch = calloc(1, sizeof(*ch));
    if (!ch)
        return; /* the commits wait: there may be memory later */
    list_init(&ch->commits);
    if (kvsstore_begin(ns->store) == 0) {
        ns->commit->change = ch;
        return;
    }
    int errnum = errno;
    struct list_node *n = list_first(&ns->commit->queue);
    list_remove(n);
    list_append(&ch->commits, n);
    km_commit_change_done(ns, ch, errnum, "the master is out of memory for a root change");
}

static bool change_has_room(const struct km_commit_change *ch)
{
    return ch->bytes < BATCH_BYTES && ch->n < BATCH_TXNS && ch->seconds < BATCH_SECONDS;
}

/* Apply the queue, within the bounds of a root change.  False: the turn is over, and the first
 * commit of the queue is applied in part. */
static bool change_apply(struct km_ns *ns, struct km_commit_change *ch)
{
    struct list_node *n;
    while ((n = list_first(&ns->commit->queue)) && (ch->partly || change_has_room(ch))) {
        struct commit *c = list_entry(n, struct commit, node);
        const void *txn;
        size_t len;
        commit_txn(c, &txn, &len);
        int rc = kvsstore_apply(ns->store, txn, len, &c->err);
        ch->partly = rc == KVSSTORE_MORE;
        if (ch->partly)
            return false;
        c->errnum = rc < 0 ? errno : 0;
        if (c->errnum == ENODATA && stall(ns) == 0) {
            c->errnum = 0;
            break;
        }
        list_remove(n);
        list_append(&ch->commits, n);
        ch->bytes += len;
        ch->n++;
    }
    if (!stalled(ns))
        unstall(ns);
    return true;
}

static void change_end(struct km_ns *ns, struct km_commit_change *ch)
{
    errmsg_t err;
    int rc = kvsstore_end(ns->store, &err);
    if (rc == KVSSTORE_MORE)
        return;
    ns->commit->change = NULL;
    if (rc < 0) {
        km_commit_change_done(ns, ch, errno, err.text);
        return;
    }
    if (rc == 1) {
        ns->st.root_changes++;
        ch->changed = true;
        ch->version = kvsstore_version(ns->store);
        memcpy(ch->root, kvsstore_root(ns->store), blobref_size(ns->k->blobref));
    }
    change_applied(ns, ch);
}

static bool more_time(void *arg)
{
    return flux_slice_more(arg);
}

static void change_turn(struct km_ns *ns)
{
    flux_reactor_t *r = flux_get_reactor(ns->h);
    double begin = flux_reactor_clock(r);
    struct km_commit_change *ch;
    if (!ns->commit->change)
        change_begin(ns);
    if (!(ch = ns->commit->change))
        return;
    if (!ch->ending)
        ch->ending = change_apply(ns, ch);
    ch->seconds += flux_reactor_clock(r) - begin;
    if (ch->ending)
        change_end(ns, ch);
}

void km_commit_give_up(struct km_ns *ns)
{
    struct km_commit_change *ch = ns->commit->change;
    struct list_node head;
    if (!ch)
        return;
    ns->commit->change = NULL;
    kvsstore_cancel(ns->store);
    list_init(&head);
    list_splice(&head, &ch->commits);
    list_splice(&head, &ns->commit->queue);
    list_splice(&ns->commit->queue, &head);
    free(ch);
}

/* May a root change begin?  Not while the first commit waits for bytes, or the namespace for the
 * disk: a poke follows the end of either wait. */
static bool may_change(struct km_ns *ns)
{
    struct list_node *n;
    errmsg_t err;
    if (stalled(ns))
        return false;
    if (!ns->keep || km_keep_ready(ns->keep, &err) == 0)
        return true;
    int errnum = errno;
    while (errnum != EAGAIN && (n = list_first(&ns->commit->queue))) {
        struct commit *c = list_entry(n, struct commit, node);
        c->errnum = errnum;
        c->err = err;
        commit_end(ns, NULL, c);
    }
    return false;
}

/* Is there a change to be made now?  Garbage does not pile up in a flood, since no change begins
 * before most of it is collected. */
static bool has_change(struct km_ns *ns)
{
    return ns->commit->change || (!list_empty(&ns->commit->queue) &&
                                  !kvsstore_collect_first(ns->store) && may_change(ns));
}

void km_commit_work(struct km_ns *ns)
{
    flux_reactor_t *r = flux_get_reactor(ns->h);
    struct flux_slice slice;
    if (!ns->store)
        return;
    kvsstore_pace(ns->store, more_time, &slice);
    flux_slice_begin(&slice, r, FLUX_SLICE_SECONDS, TURN_LOOKS);
    if (has_change(ns))
        change_turn(ns);
    flux_slice_begin(&slice, r, FLUX_SLICE_SECONDS, TURN_LOOKS);
    /* Not while the journal is replayed: a later row may need objects that are garbage now. */
    bool left = ns->ready && kvsstore_collect(ns->store, COLLECT);
    kvsstore_pace(ns->store, NULL, NULL);
    bool more = has_change(ns);
    km_gc_work(ns, &left);
    if (left || more)
        km_ns_poke(ns);
}

/* The root is announced later: by the next work for the namespace, or by the timer.  Log one
 * message until a root is announced. */
static void publish_failed(struct km_ns *ns, const char *why)
{
    if (!ns->commit->unannounced)
        flux_log(ns->h, LOG_ERR, "root version %llu could not be announced yet: %s",
                 (unsigned long long)ns->version, why);
    ns->commit->unannounced = true;
    ns->commit->announcing = false;
}

static void published_cb(flux_future_t *f, void *arg)
{
    struct km_ns *ns = arg;
    bool failed = flux_future_errnum(f) != 0;
    if (failed)
        publish_failed(ns, flux_future_error(f));
    ns->commit->publish = NULL;
    flux_future_destroy(f);
    if (failed)
        return;
    ns->commit->unannounced = false;
    km_commit_publish(ns);
}

void km_commit_publish(struct km_ns *ns)
{
    if (ns != ns->k->primary) {
        km_ns_poke(ns); /* followers are notified */
        return;
    }
    if (ns->commit->publish || (ns->commit->announcing && ns->commit->published >= ns->version))
        return;
    uint8_t buf[KVS_ROOT_WIRE_MAX];
    struct kvs_root root;
    km_ns_root_fill(ns, &root);
    ns->commit->publish =
        flux_event_publish_raw(ns->h, "kvs.setroot", buf, kvs_root_encode(&root, buf));
    if (!ns->commit->publish || flux_future_then(ns->commit->publish, -1., published_cb, ns) < 0) {
        flux_future_destroy(ns->commit->publish);
        ns->commit->publish = NULL;
        publish_failed(ns, "out of memory");
        return;
    }
    ns->commit->announcing = true;
    ns->commit->published = ns->version;
}

void km_commit_shut(struct km_ns *ns, int errnum, const char *why)
{
    unstall(ns);
    km_commit_give_up(ns);
    LIST_FOREACH_SAFE(n, tmp, &ns->commit->queue)
    {
        struct commit *c = list_entry(n, struct commit, node);
        if (errnum && c->req) { /* km_fence_shut() has ended its fence */
            c->errnum = errnum;
            errmsg_set(&c->err, "%s", why);
            answer(ns, NULL, c, c->req);
            for (size_t i = 0; i < c->nagain; i++)
                answer(ns, NULL, c, c->again[i]);
        }
        commit_free(ns, c);
    }
    flux_future_destroy(ns->commit->publish);
    ns->commit->publish = NULL;
}

/* --- life --- */

struct km_commits *km_commit_create(void)
{
    struct km_commits *x = calloc(1, sizeof(*x));

    if (!x)
        return NULL;
    list_init(&x->queue);
    return x;
}

void km_commit_destroy(struct km_commits *x)
{
    int saved = errno;

    if (!x)
        return;
    free(x->stall);
    km_once_destroy(x->once);
    km_once_unref(x->outcome);
    free(x);
    errno = saved;
}

bool km_commit_queued(const struct km_ns *ns)
{
    return !list_empty(&ns->commit->queue);
}

bool km_commit_open(const struct km_ns *ns)
{
    return ns->commit->change != NULL;
}

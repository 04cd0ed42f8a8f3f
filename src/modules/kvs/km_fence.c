/* km_fence.c - fences: transactions of many participants, merged on the way up the tree, and
 * applied as one root change.
 *
 * Purpose: what arrives for a fence (calls of local clients, messages of instances below) is merged
 * until all messages that have arrived have been read.  Then it goes upstream as one message, with
 * the number of calls in it:
 *
 *    first message     kvs.fence, instance       answered with the root or an error when the fence
 *                                                has ended
 *    later messages    kvs.fence, instance+add   answered at once; the next one waits for that
 *
 * So there is no timer, and the busier the tree is, the fewer messages there are per call.  The
 * master applies the whole when it has `nprocs` calls.  Each instance on the way down takes the new
 * root before it answers.
 *
 * state       what happens                          left when (by)
 * gathering   calls are merged, and sent upstream   all calls are here (master: join), the first
 *                                                   message was answered (over_cb), or a
 *                                                   participant is gone (km_fence_abort)
 * applying    the fence is in the master's queue    it was applied or refused (km_fence_done)
 * over        all participants have been answered   at once: it is freed
 *
 * What is merged is a set, and what goes upstream is packed: equal keys once, and equal values
 * once, also when they are in several messages (km_merge.c).  So messages do not grow with the
 * number of calls that say the same.
 *
 * A participant that disconnects (a client that died; an instance below whose broker is lost, since
 * its first message has no answer) ends the fence for all: kvs.fence-abort goes up, and the answer
 * to the first messages comes down.  A participant whose broker died before its call arrived is
 * known only by its rank: callers may name the ranks of all participants, messages carry the union
 * of these up, and when one of these ranks is lost, the master ends the fence (km_fence_lost.c).
 *
 * Names are used again while messages are under way.  So each instance numbers its fences, and its
 * later messages about one (more calls, an abort) carry that number; a message that comes too late
 * matches none.  One that matches none is passed on to the master, since a subtree that returns to
 * its place has sent its first message by another way, whose instance still waits for the answer.
 * The master numbers fences, too: the answer to an aborted fence carries its generation, and a call
 * from a client that has seen this answer is not taken for a late one (km_tombstone.c).  An
 * instance that is not the master distinguishes calls by the generation that their clients know of;
 * the master has only one fence of a name.
 *
 *    kvs.fence-abort  {"namespace","name","nprocs","rank","number","reason"} -> {}, by courier
 *                     number 0: nothing of it was sent before
 *    kvs.fence-told   {"namespace","name","nprocs","count"} -> {}, by courier, to the master: this
 *                     many calls, which it did not see, were answered with an aborted fence
 *
 * Invariants:
 *  1. count is the number of calls in everything that was merged here; count <= nprocs.
 *  2. Calls in `unsent` were merged but not sent; first == NULL implies that nothing was sent.
 *  3. All parts are answered exactly once, unless their sender has gone.
 *  4. A first message of an instance is in `parts` by (rank, number) as long as it has no answer.
 *
 * Failure: a call that does not fit (another nprocs, a malformed transaction, too many calls) is
 * refused alone.  An error on the way up ends the fence for all participants below.
 */
#include "config.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "km_fence.h"
#include "km_tombstone.h"
#include "libutil/le.h"
#include "libutil/invariant.h"

#define ABORTED_HEADER 12
#define KEY_MAX (8 + KVS_FENCE_NAME_MAX + 1)
/* Of a namespace at an instance: a flood is refused at its source. */
#define FENCES_MAX 65536
#define PARTS_MAX (4u << 20)

static uint64_t part_key(uint32_t rank, uint32_t number)
{
    return (uint64_t)rank << 32 | number;
}

struct km_fence_table *km_fence_table_create(uint32_t first)
{
    struct km_fence_table *fs = calloc(1, sizeof(*fs));
    if (!fs)
        return NULL;
    fs->last = first;
    list_init(&fs->busy);
    fs->by_name = hmap_create_str(NULL);
    fs->parts = hmap_create_u64(NULL);
    if (!fs->by_name || !fs->parts) {
        km_fence_table_destroy(fs);
        return NULL;
    }
    return fs;
}

size_t km_fence_count(const struct km_ns *ns)
{
    return hmap_count(ns->fences->by_name);
}

uint64_t km_fence_calls(const struct km_ns *ns)
{
    uint64_t n = 0;
    size_t pos = 0;
    void *val;

    while (hmap_next(ns->fences->by_name, &pos, NULL, NULL, &val))
        n += ((struct km_fence *)val)->count;
    return n;
}

static void part_free(struct km_fence_part *p)
{
    struct km_ns *ns = p->f->ns;
    INVARIANT(3, ns->fences->nparts > 0);
    ns->fences->nparts--;
    p->f->here -= !p->instance;
    list_remove(&p->node);
    claim_drop(ns->k->senders, &p->claim);
    if (p->instance && hmap_get_u64(ns->fences->parts, p->key) == p)
        (void)hmap_take_u64(ns->fences->parts, p->key);
    flux_msg_destroy(p->req);
    free(p);
}

static void fence_free(struct km_fence *f)
{
    if (f->key && hmap_get(f->ns->fences->by_name, f->key) == f)
        (void)hmap_take(f->ns->fences->by_name, f->key);
    list_remove(&f->node);
    longlist_remove(&f->place);
    LIST_FOREACH_SAFE(n, tmp, &f->parts)
    part_free(list_entry(n, struct km_fence_part, node));
    km_merge_clear(&f->merge);
    flux_future_destroy(f->first);
    flux_future_destroy(f->add);
    idset_destroy(f->ranks);
    grace_wait_destroy(f->grace);
    free(f->name);
    free(f->key);
    free(f);
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
    f->number = ++ns->fences->last ? ns->fences->last : ++ns->fences->last; /* 0 is none */
    list_init(&f->parts);
    list_init(&f->node);
    f->name = strdup(name);
    f->key = strdup(key);
    if (!f->name || !f->key || hmap_put(ns->fences->by_name, key, f) < 0) {
        fence_free(f);
        return NULL;
    }
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

void km_fence_done(struct km_ns *ns, struct km_fence *f, int errnum, const char *error)
{
    if (errnum == 0 && f->applying)
        km_tombstone_remove(ns, f->name);
    LIST_FOREACH(n, &f->parts)
    {
        struct km_fence_part *p = list_entry(n, struct km_fence_part, node);
        if (errnum)
            flux_respond_error(ns->h, p->req, errnum, "%s", error);
        else
            km_ns_respond_root(ns, p->req);
    }
    fence_free(f);
}

/* It was aborted, whoever asks: an instance gets the generation, and so do its clients. */
static void answer_aborted(struct km_ns *ns, const flux_msg_t *req, const char *name, bool instance,
                           uint32_t generation, const char *why)
{
    uint8_t buf[ABORTED_HEADER + sizeof(errmsg_t)];
    size_t len = strnlen(why, sizeof(errmsg_t));
    if (!instance) {
        km_tombstone_note_known(ns, name, req, generation);
        flux_respond_error(ns->h, req, ECONNABORTED, "%s", why);
        return;
    }
    le_put64(buf, UINT64_MAX);
    le_put32(buf + 8, generation);
    memcpy(buf + ABORTED_HEADER, why, len);
    flux_respond_raw(ns->h, req, buf, ABORTED_HEADER + len);
}

/* Calls that the master will not see have been answered: it need not wait for late ones. */
static void calls_notified(struct km_ns *ns, const char *name, uint32_t nprocs, uint32_t count)
{
    struct km_wire_told out = {ns->name, name, nprocs, count};
    if (ns->master)
        km_tombstone_discount(ns, name, nprocs, count);
    else if (km_ns_upstream_post(ns, "kvs.fence-told", &km_wire_told_schema, &out, true) < 0)
        flux_log(ns->h, LOG_ERR,
                 "no memory to tell the master of namespace '%s' who heard of the "
                 "end of fence '%s'",
                 ns->name, name);
}

static void fence_aborted(struct km_fence *f, uint32_t generation, const char *why)
{
    if (!f->ns->master && f->unsent > 0)
        calls_notified(f->ns, f->name, f->nprocs, f->unsent);
    LIST_FOREACH(n, &f->parts)
    {
        struct km_fence_part *p = list_entry(n, struct km_fence_part, node);
        answer_aborted(f->ns, p->req, f->name, p->instance, generation, why);
    }
    fence_free(f);
}

static void pass_abort(struct km_ns *ns, const struct km_wire_abort *out)
{
    /* A courier cannot wait for an answer once the instance ends: each one is sent at once then.
     * One that is lost costs the reason only: with the end of this instance its broker says above
     * that the sender of the first message is gone (part_gone()), which ends the fence too. */
    if (ns->k->ending)
        flux_future_destroy(
            km_ns_upstream_struct(ns, "kvs.fence-abort", &km_wire_abort_schema, out, false, 0));
    else if (km_ns_upstream_post(ns, "kvs.fence-abort", &km_wire_abort_schema, out, false) < 0)
        flux_log(ns->h, LOG_ERR, "no memory to tell above that fence '%s' was aborted", out->name);
}

static void send_abort(struct km_ns *ns, const char *name, uint32_t nprocs, uint32_t number,
                       const char *why)
{
    struct km_wire_abort out = {ns->name, name, nprocs, flux_rank(ns->h), number, why};

    pass_abort(ns, &out);
}

static int flush(struct km_fence *f);

void km_fence_abort(struct km_fence *f, const char *why)
{
    struct km_ns *ns = f->ns;
    if (ns->master) {
        if (!f->applying) {
            km_tombstone_add(ns, f->name, f->nprocs, f->nprocs - f->count, f->number, why);
            fence_aborted(f, f->number, why);
        }
        return;
    }
    if (f->unsent > 0) {
        list_remove(&f->node);
        if (flush(f) < 0)
            return;
    }
    send_abort(ns, f->name, f->nprocs, f->first ? f->number : 0, why);
    if (!f->first)
        km_fence_done(ns, f, ECONNABORTED, why);
}

/* --- upstream --- */

/* The answer to an instance's first message when the fence was aborted; false: another one. */
static bool is_aborted(const void *data, size_t len, uint32_t *generation, errmsg_t *why)
{
    if (len < ABORTED_HEADER || le_get64(data) != UINT64_MAX)
        return false;
    *generation = le_get32((const uint8_t *)data + 8);
    errmsg_set(why, "%.*s", (int)(len - ABORTED_HEADER), (const char *)data + ABORTED_HEADER);
    return true;
}

static void over_cb(flux_future_t *fut, void *arg)
{
    struct km_fence *f = arg;
    struct km_ns *ns = f->ns;
    const void *data;
    size_t len;
    errmsg_t err;
    struct kvs_root root;
    uint32_t generation;
    int rc = flux_rpc_get_raw(fut, &data, &len, &err);
    if (rc == 0 && is_aborted(data, len, &generation, &err)) {
        fence_aborted(f, generation, err.text);
        return;
    }
    if (rc < 0 || kvs_root_decode(data, len, &root, &err) < 0 ||
        km_ns_root_heard(ns, &root, &err) < 0) {
        km_fence_done(ns, f, errno, err.text);
        return;
    }
    LIST_FOREACH(n, &f->parts)
    {
        flux_respond_raw(ns->h, list_entry(n, struct km_fence_part, node)->req, data, len);
    }
    fence_free(f);
}

static void added_cb(flux_future_t *fut, void *arg)
{
    struct km_fence *f = arg;
    errmsg_t err;
    int errnum = flux_rpc_get(fut, &err) < 0 ? errno : 0;
    f->add = NULL;
    flux_future_destroy(fut);
    /* That it is over says more when the first message says it, which is answered too. */
    if (errnum == 0) {
        (void)flush(f);
    } else if (errnum != ECONNABORTED) {
        /* What was sent before counts above: nobody is to wait there for what ends here. */
        send_abort(f->ns, f->name, f->nprocs, f->number, err.text);
        km_fence_done(f->ns, f, errnum, err.text);
    }
}

/* Send what was merged, unless an earlier message waits for its answer.  -1: the fence is over. */
static int flush(struct km_fence *f)
{
    struct km_ns *ns = f->ns;
    if (f->unsent == 0 || f->add)
        return 0;
    struct kvs_fence_req q = {.nprocs = f->nprocs,
                              .count = f->unsent,
                              .rank = flux_rank(ns->h),
                              .number = f->number,
                              .after = f->after,
                              .flags = f->first ? KVS_FENCE_ADD : 0,
                              .ns = ns->name,
                              .nslen = strlen(ns->name),
                              .name = f->name,
                              .namelen = strlen(f->name)};
    size_t size;
    char *ranks = f->ranks_unsent ? idset_format(f->ranks, 0) : NULL;
    uint8_t *buf = NULL;
    if (ranks || !f->ranks_unsent) {
        q.ranks = ranks ? ranks : "";
        q.rankslen = ranks ? strlen(ranks) : 0;
        buf = km_merge_message(&f->merge, &q, &size);
    }
    free(ranks);
    flux_future_t *fut = buf ? km_ns_upstream(ns, "kvs.fence", buf, size, false, 0) : NULL;
    free(buf);
    if (!fut || flux_future_then(fut, -1., f->first ? added_cb : over_cb, f) < 0) {
        flux_future_destroy(fut);
        km_fence_done(ns, f, ENOMEM, "an instance of kvs is out of memory for a fence");
        return -1;
    }
    if (f->first)
        f->add = fut;
    else
        f->first = fut;
    f->unsent = 0;
    f->ranks_unsent = false;
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

static void part_gone(struct claim *c, bool canceled)
{
    struct km_fence_part *p = list_entry(c, struct km_fence_part, claim);
    struct km_fence *f = p->f;
    errmsg_t why;
    if (canceled)
        return; /* no stream: the call was made */
    if (p->instance)
        errmsg_set(&why,
                   "fence '%.128s' was aborted: rank %u disconnected, with the participants at or "
                   "below it",
                   f->name, (uint32_t)(p->key >> 32));
    else
        errmsg_set(&why, "fence '%.128s' was aborted: a participant at rank %u disconnected",
                   f->name, flux_rank(f->ns->h));
    flux_respond_error(f->ns->h, p->req, ECONNABORTED, "%s", why.text);
    part_free(p);
    km_fence_abort(f, why.text);
}

static int part_new(struct km_fence *f, const flux_msg_t *msg, const struct kvs_fence_req *q)
{
    struct km_ns *ns = f->ns;
    struct km_fence_part *p = calloc(1, sizeof(*p));
    if (!p || claim_take(ns->k->senders, &p->claim, msg, part_gone) < 0) {
        free(p);
        return -1;
    }
    p->f = f;
    p->instance = q->flags & KVS_FENCE_INSTANCE;
    p->key = part_key(q->rank, q->number);
    p->req = flux_msg_incref(msg);
    list_init(&p->node);
    list_append(&f->parts, &p->node);
    ns->fences->nparts++;
    f->here += !p->instance;
    if (p->instance && hmap_put_u64(ns->fences->parts, p->key, p) < 0) {
        part_free(p);
        return -1;
    }
    return 0;
}

/* Some participants are at these ranks.  -1 with ENOMEM. */
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

static void join(struct km_ns *ns, const flux_msg_t *msg, struct km_fence *f,
                 const struct kvs_fence_req *q, const idset_t *ranks)
{
    errmsg_t err;
    bool add = q->flags & KVS_FENCE_ADD;
    if (!add && part_new(f, msg, q) < 0) {
        flux_respond_error(ns->h, msg, ENOMEM, "out of memory for a fence");
        if (list_empty(&f->parts) && f->count == 0)
            fence_free(f);
        return;
    }
    f->count += q->count;
    f->unsent += q->count;
    INVARIANT(1, f->count <= f->nprocs);
    INVARIANT(2, f->unsent <= f->count);
    INVARIANT(2, f->first || f->unsent == f->count);
    if (add_ranks(f, ranks, &err) < 0 || km_merge_add(&f->merge, q, &err) < 0) {
        /* Half merged: it can only end, and must not be complete without this one. */
        if (add)
            flux_respond_error(ns->h, msg, errno, "%s", err.text);
        f->count -= q->count;
        f->unsent -= q->count;
        km_fence_abort(f, err.text);
        return;
    }
    if (add)
        flux_respond_raw(ns->h, msg, NULL, 0);
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

/* The ranks that a call names, to be destroyed.  NULL with EINVAL or ENOMEM. */
static idset_t *call_ranks(struct km_ns *ns, const struct kvs_fence_req *q, errmsg_t *err)
{
    char *text = strndup(q->ranks, q->rankslen);
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

/* The fence that a call is for.  NULL when it was answered. */
static struct km_fence *find_fence(struct km_ns *ns, const flux_msg_t *msg, const char *name,
                                   const struct kvs_fence_req *q)
{
    bool instance = q->flags & KVS_FENCE_INSTANCE;
    char key[KEY_MAX];
    if (q->flags & KVS_FENCE_ADD) {
        struct km_fence_part *p = hmap_get_u64(ns->fences->parts, part_key(q->rank, q->number));
        if (p)
            return p->f;
        if (!ns->master) {
            km_relay_up(ns, msg); /* its first message has gone by another way, or it is over */
            return NULL;
        }
        calls_notified(ns, name, q->nprocs, q->count); /* by the answer to their first message */
        flux_respond_error(ns->h, msg, ECONNABORTED, "fence '%s' is over", name);
        return NULL;
    }
    uint32_t after = instance ? q->after : km_tombstone_take_known(ns, name, msg);
    if (ns->master) {
        uint32_t generation;
        const char *why = km_tombstone_refuse(ns, name, q->nprocs, q->count, after, &generation);
        if (why) {
            answer_aborted(ns, msg, name, instance, generation, why);
            return NULL;
        }
        after = 0;
    }
    make_key(name, after, key);
    struct km_fence *f = hmap_get(ns->fences->by_name, key);
    if (f)
        return f;
    if (hmap_count(ns->fences->by_name) >= FENCES_MAX) {
        flux_respond_error(ns->h, msg, EAGAIN, "%d fences are open at rank %u: too many",
                           FENCES_MAX, flux_rank(ns->h));
        return NULL;
    }
    ns->st.fences++;
    if (!(f = fence_new(ns, name, q->nprocs, after)))
        flux_respond_error(ns->h, msg, ENOMEM, "out of memory for a fence");
    return f;
}

void km_fence_cb(flux_t *h, const flux_msg_t *msg, void *arg)
{
    struct km_ns *ns;
    struct kvs_fence_req q;
    errmsg_t err;
    size_t len;
    const void *data = flux_msg_payload(msg, &len);
    char name[KVS_FENCE_NAME_MAX + 1];
    if (kvs_fence_req_decode(data, len, &q, &err) < 0 ||
        (!(q.flags & KVS_FENCE_INSTANCE) && km_merge_check(&q, &err) < 0)) {
        flux_respond_error(h, msg, errno, "%s", err.text);
        return;
    }
    if (!(ns = km_space_request_ready(arg, msg, q.ns, q.nslen, km_fence_cb)))
        return;
    memcpy(name, q.name, q.namelen);
    name[q.namelen] = '\0';
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
    idset_t *ranks = call_ranks(ns, &q, &err);
    if (!ranks) {
        flux_respond_error(h, msg, errno, "%s", err.text);
        return;
    }
    struct km_fence *f = find_fence(ns, msg, name, &q);
    if (!f) {
        idset_destroy(ranks);
        return;
    }
    if (f->nprocs != q.nprocs)
        flux_respond_error(h, msg, EINVAL, "fence '%s' is one of %u, not of %u", name, f->nprocs,
                           q.nprocs);
    else if (q.count > f->nprocs - f->count)
        flux_respond_error(h, msg, EINVAL, "fence '%s' of %u has been called more often than that",
                           name, f->nprocs);
    else if (ns->fences->nparts >= PARTS_MAX)
        flux_respond_error(h, msg, EAGAIN, "%u calls to fences wait at rank %u: too many",
                           PARTS_MAX, flux_rank(h));
    else
        join(ns, msg, f, &q, ranks);
    idset_destroy(ranks);
}

/* An instance could not merge the first calls it had, so it has sent nothing. */
static void abort_by_name(struct km_ns *ns, const struct km_wire_abort *in)
{
    char key[KEY_MAX];
    if (!ns->master) {
        send_abort(ns, in->name, in->nprocs, 0, in->reason);
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
        struct km_fence_part *p = hmap_get_u64(ns->fences->parts, part_key(in.rank, in.number));
        if (p)
            km_fence_abort(p->f, in.reason);
        else if (!ns->master) /* as above */
            pass_abort(ns, &in);
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
    size_t pos = 0;
    void *val;
    /* The next instance could not go on: it does not know what was sent on and what was not. */
    errmsg_set(&stopped, "the fence was aborted: kvs was stopped at rank %u", flux_rank(ns->h));
    while (hmap_next(fs->by_name, &pos, NULL, NULL, &val)) {
        struct km_fence *f = val;
        if (f->first && !errnum)
            send_abort(ns, f->name, f->nprocs, f->number, stopped.text);
        km_fence_done(ns, f, errnum ? errnum : ECONNABORTED, errnum ? why : stopped.text);
    }
}

void km_fence_table_destroy(struct km_fence_table *fs)
{
    if (!fs)
        return;
    hmap_destroy(fs->by_name);
    hmap_destroy(fs->parts);
    free(fs);
}

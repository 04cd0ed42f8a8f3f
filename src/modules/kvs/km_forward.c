/* km_forward.c - commits on their way to the master, at the instances that pass them on.
 *
 * Purpose: an instance that is not the master passes a commit on to the next instance upstream at
 * once.  The answer carries the new root, which each instance on the way takes before it passes the
 * answer down.  So a client that has the answer finds at least that version at each of these
 * instances.
 *
 * Numbers: the first instance, that of the client, gives the commit a number (KVS_NS_NUMBERED).
 * When a broker on the way dies, the commit may or may not have been applied.  The first instance
 * then sends it again with the same number, to the master itself, which applies it once and repeats
 * the answer (km_once.c).  Instances in between pass numbered commits on as they are, and pass an
 * error back.
 *
 * Order: the commits of one instance are applied in the order in which they were first sent.  Those
 * that come after a lost one are refused by the master with ESTALE until the lost one has arrived,
 * and are sent again, too.
 *
 * Invariants:
 *  1. `own` has the commits with numbers of this instance that wait for an answer, in the order of
 *     their numbers; `passed` has those with numbers of other instances.
 *  2. A commit of a client ends with EHOSTUNREACH only after TRIES attempts since a rank last moved
 *     in the tree.
 *  3. At most NUMBERS_MAX numbers follow the first one that waits for an answer, so the master
 *     keeps no more.
 *
 * Failure: the sender gets the error of the commit that was passed on.  When the instance is
 * stopped, clients of its own get ECONNABORTED, since the next instance numbers anew; commits that
 * were passed on are left to the next instance, which passes them on again.
 */
#include "config.h"
#include <errno.h>
#include <stdlib.h>

#include "km_commit.h"
#include "km_private.h"
#include "libutil/invariant.h"

#define TRIES 16
#define NUMBERS_MAX 262144

struct km_forwards {
    struct list_node own, passed;
    uint64_t sender; /* identifies this instance of the namespace, and its numbers */
    uint64_t last;   /* the last number */
};

struct forward {
    struct list_node node; /* in km_forwards.own or .passed */
    struct km_ns *ns;
    flux_msg_t *req;
    size_t size;
    flux_future_t *f;
    uint64_t number; /* 0: of another instance */
    uint64_t moves;  /* as at the last attempt */
    unsigned tries;  /* that have failed since then */
    bool unsure;     /* a copy may have been applied */
};

static void forward_free(struct forward *w)
{
    list_remove(&w->node);
    km_commit_waits_no_more(w->ns, w->size);
    flux_future_destroy(w->f);
    flux_msg_destroy(w->req);
    free(w);
}

static struct forward *first_of(const struct list_node *list)
{
    return list_entry(list_first(list), struct forward, node);
}

/* --- sending --- */

static void forwarded_cb(flux_future_t *f, void *arg);

/* A copy of the client's request with its number. */
static flux_future_t *send_numbered(struct forward *w, bool again)
{
    const struct km_forwards *fw = w->ns->forwards;
    struct kvs_ns_req q;
    size_t len;
    const void *data = flux_msg_payload(w->req, &len);
    uint8_t *buf;

    if (kvs_ns_req_decode(data, len, &q, NULL) < 0)
        return NULL;
    q.flags |= KVS_NS_NUMBERED | (w->unsure ? KVS_NS_AGAIN : 0);
    q.sender = fw->sender;
    q.number = w->number;
    q.after = w->node.prev == &fw->own ? 0 : list_entry(w->node.prev, struct forward, node)->number;
    q.answered = first_of(&fw->own)->number - 1;
    if (!(buf = malloc(kvs_ns_req_size(&q) + 1)))
        return NULL;
    kvs_ns_req_encode(&q, buf);
    return km_ns_upstream_take(w->ns, "kvs.commit", buf, kvs_ns_req_size(&q), again);
}

static int send_it(struct forward *w, bool again)
{
    size_t len;
    const void *data = flux_msg_payload(w->req, &len);

    flux_future_destroy(w->f);
    w->f = w->number ? send_numbered(w, again)
                     : km_ns_upstream(w->ns, "kvs.commit", data, len, false, 0);
    return w->f ? flux_future_then(w->f, -1., forwarded_cb, w) : -1;
}

/* A broker on the way was lost (EHOSTUNREACH), perhaps only with an earlier commit (ESTALE).
 * False: the commit is to be given up. */
static bool send_again(struct forward *w, int errnum)
{
    uint64_t moves = km_route_moves(w->ns->k->route);

    if (errnum != EHOSTUNREACH && errnum != ESTALE)
        return false;
    w->unsure |= errnum == EHOSTUNREACH;
    if (w->moves != moves)
        w->tries = 0;
    w->moves = moves;
    return w->number && w->tries++ < TRIES && send_it(w, true) == 0;
}

/* The commit failed.  An error of one copy may say nothing about another one. */
static void fail(struct forward *w, int errnum, const char *text)
{
    bool vague = errnum == EAGAIN || errnum == ENOMEM || errnum == ENOSYS || errnum == ESTALE;

    if (w->number && w->unsure && vague)
        flux_respond_error(w->ns->h, w->req, ECONNABORTED,
                           "a broker was lost while a commit was on its way: look whether it took "
                           "effect (%s)",
                           text);
    else
        flux_respond_error(w->ns->h, w->req, w->number && errnum == ESTALE ? EHOSTUNREACH : errnum,
                           "%s", text);
    forward_free(w);
}

static void forwarded_cb(flux_future_t *f, void *arg)
{
    struct forward *w = arg;
    struct km_ns *ns = w->ns;
    const void *data;
    size_t len;
    errmsg_t err;
    struct kvs_root root;

    if (flux_rpc_get_raw(f, &data, &len, &err) < 0) {
        int errnum = errno;
        if (!send_again(w, errnum))
            fail(w, errnum, err.text);
        return;
    }
    if (kvs_root_decode(data, len, &root, &err) < 0 || km_ns_root_heard(ns, &root, &err) < 0)
        flux_respond_error(ns->h, w->req, errno, "%s", err.text);
    else
        flux_respond_raw(ns->h, w->req, data, len);
    forward_free(w);
}

/* --- requests --- */

static bool number_free(const struct km_forwards *fw)
{
    return list_empty(&fw->own) || fw->last - first_of(&fw->own)->number < NUMBERS_MAX;
}

void km_forward_commit(struct km_ns *ns, const flux_msg_t *msg, const struct kvs_ns_req *q)
{
    struct km_forwards *fw = ns->forwards;
    struct forward *w;
    size_t size;

    (void)flux_msg_payload(msg, &size);
    if (!(q->flags & KVS_NS_NUMBERED) && !number_free(fw)) {
        flux_respond_error(ns->h, msg, EAGAIN,
                           "too many commits have followed one that waits at rank %u: try again "
                           "later",
                           flux_rank(ns->h));
        return;
    }
    if ((w = calloc(1, sizeof(*w)))) {
        w->ns = ns;
        w->req = flux_msg_incref(msg);
        w->size = size;
        w->moves = km_route_moves(ns->k->route);
        km_commit_waits(ns, w->size);
        list_init(&w->node);
        if (q->flags & KVS_NS_NUMBERED) {
            list_append(&fw->passed, &w->node);
        } else {
            w->number = ++fw->last;
            list_append(&fw->own, &w->node);
        }
        INVARIANT(3, list_empty(&fw->own) || fw->last - first_of(&fw->own)->number <= NUMBERS_MAX);
        if (send_it(w, false) == 0)
            return;
        forward_free(w);
    }
    flux_respond_error(ns->h, msg, ENOMEM, "rank %u is out of memory for a commit",
                       flux_rank(ns->h));
}

/* --- life --- */

static void shut(struct list_node *list, int errnum, const char *why)
{
    LIST_FOREACH_SAFE(n, tmp, list)
    {
        struct forward *w = list_entry(n, struct forward, node);

        if (errnum)
            flux_respond_error(w->ns->h, w->req, errnum, "%s", why);
        else if (w->number)
            flux_respond_error(w->ns->h, w->req, ECONNABORTED,
                               "kvs was stopped at rank %u while a commit was on its way: look "
                               "whether it took effect",
                               flux_rank(w->ns->h));
        forward_free(w);
    }
}

void km_forward_shut(struct km_ns *ns, int errnum, const char *why)
{
    shut(&ns->forwards->own, errnum, why);
    shut(&ns->forwards->passed, errnum, why);
}

bool km_forward_busy(const struct km_ns *ns)
{
    return !list_empty(&ns->forwards->own) || !list_empty(&ns->forwards->passed);
}

struct km_forwards *km_forward_create(uint64_t sender)
{
    struct km_forwards *fw = calloc(1, sizeof(*fw));

    if (!fw)
        return NULL;
    list_init(&fw->own);
    list_init(&fw->passed);
    fw->sender = sender ? sender : 1; /* 0 is none */
    return fw;
}

void km_forward_destroy(struct km_forwards *fw)
{
    free(fw);
}

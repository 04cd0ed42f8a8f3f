/* session.c - the knowledge of a module about its session: lost ranks, the tree, the overlay.
 *
 *    operation   subscription    is called with
 *    lost, back  overlay.        the events overlay.down and overlay.up; the answer of rank 0 to
 *                                overlay.status, which session_ask_lost() requests, also after
 *                                missed events (event.lost)
 *    status      overlay.        each answer of the own broker, which is asked at first and after
 *                                each of these events, or when session_current() needs an answer
 *    tree        overlay.moved   the answer of the own broker to overlay.topology, which
 *                                session_ask_tree() requests, also after missed events; the event
 *    runs        overlay.run     the event, or an answer of the own broker after the subscription
 *
 * Invariants:
 *  1. `runs` is called at most once.
 *  2. At most one request to the own broker is unanswered; an event meanwhile causes another
 *     request (on demand: when it is needed), and the answer is not the current state.
 *  3. The own rank is never among the lost ones.  Rank 0 counts it among them when the own broker,
 *     or one above it, was cut off and still reaches rank 0 along the ring.  Then the other ranks
 *     in the list may be in the same part of the tree and serve this rank as before, so the list of
 *     rank 0 is ignored.  The part ends at its orphan.timeout.
 *  4. Each change has a number, that of the session map.  An event that is older than the present
 *     state changes nothing; after an older answer, the request is repeated.  A new broker learns
 *     from the event overlay.up, which names it, which ranks are lost.
 *
 * Failure: requests and subscriptions that fail are logged.  A tree that has more or fewer ranks
 * than the session is an answer that failed.
 */
#include "config.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "libflux/dispatch.h"
#include "libflux/event.h"
#include "libflux/future.h"
#include "libflux/log.h"
#include "libutil/invariant.h"
#include "libutil/strutil.h"
#include "session.h"

struct session {
    flux_t *h;
    const struct session_ops *ops;
    void *arg;
    flux_handlers_t *handlers;
    idset_t *lost;
    uint64_t map; /* number of the newest change that is included */
    flux_future_t *lost_f;
    flux_future_t *status_f;
    flux_future_t *sub_f;
    topology_t *tree;
    topology_t *base; /* `tree` is over this one, since ranks have moved; NULL: none has */
    flux_future_t *tree_f;
    bool stale;   /* an event came after the request for the status was sent */
    bool current; /* no event came after the last answered request was sent */
    bool runs;
};

static void ask_status(session_t *s);

static void complain(session_t *s, const char *why)
{
    flux_log(s->h, LOG_ERR, "cannot find out which ranks are lost: %s", why);
}

/* --- lost ranks --- */

static void ranks_lost(session_t *s, const char *text, bool now)
{
    idset_t *ranks = idset_parse(text, NULL);

    if (ranks && !idset_empty(ranks) && !idset_test(ranks, flux_rank(s->h))) {
        if (idset_add(s->lost, ranks) < 0)
            complain(s, "out of memory");
        INVARIANT(3, !idset_test(s->lost, flux_rank(s->h)));
        s->ops->lost(s->arg, ranks, now);
    }
    idset_destroy(ranks);
}

/* According to rank 0, exactly these ranks are lost in the map of this number. */
static void set_lost(session_t *s, const char *text, uint64_t map)
{
    idset_t *lost = idset_parse(text, NULL);
    idset_t *anew = NULL;
    idset_t *back = NULL;

    if (!lost || idset_test(lost, flux_rank(s->h))) {
        idset_destroy(lost);
        return;
    }
    anew = idset_difference(lost, s->lost);
    back = idset_difference(s->lost, lost);
    if (anew && back) {
        idset_destroy(s->lost);
        s->lost = lost;
        s->map = map;
        INVARIANT(3, !idset_test(s->lost, flux_rank(s->h)));
        if (!idset_empty(back) && s->ops->back)
            s->ops->back(s->arg, back);
        if (!idset_empty(anew))
            s->ops->lost(s->arg, anew, false);
    } else {
        complain(s, "out of memory");
        idset_destroy(lost);
    }
    idset_destroy(anew);
    idset_destroy(back);
}

static void up_cb(flux_t *h, const flux_msg_t *event, void *arg)
{
    session_t *s = arg;
    size_t len;
    const char *json = flux_msg_payload(event, &len);
    struct overlay_up in;
    json_t *owner =
        json && s->ops->lost ? flux_schema_decode(&overlay_up_schema, json, len, &in, NULL) : NULL;

    if (owner && in.map > s->map)
        set_lost(s, in.lost, in.map);
    json_decref(owner);
}

static void down_cb(flux_t *h, const flux_msg_t *event, void *arg)
{
    session_t *s = arg;
    size_t len;
    const char *json = flux_msg_payload(event, &len);
    struct overlay_down in = {0};
    json_t *owner = json && s->ops->lost
                        ? flux_schema_decode(&overlay_down_schema, json, len, &in, NULL)
                        : NULL;

    if (owner && (in.map == 0 || in.map > s->map)) {
        s->map = in.map > 0 ? in.map : s->map;
        ranks_lost(s, in.ranks, true);
    }
    json_decref(owner);
}

static void lost_cb(flux_future_t *f, void *arg)
{
    session_t *s = arg;
    struct overlay_status st = {0};
    errmsg_t err;
    int rc = flux_rpc_get_struct(f, &overlay_status_schema, &st, &err);

    s->lost_f = NULL;
    if (rc < 0)
        complain(s, err.text);
    else if (st.map < s->map)
        session_ask_lost(s);
    else
        set_lost(s, st.lost, st.map);
    flux_future_destroy(f);
}

void session_ask_lost(session_t *s)
{
    flux_future_destroy(s->lost_f);
    if (!(s->lost_f =
              flux_rpc(s->h, "overlay.status", NULL, FLUX_NODEID_ROOT, FLUX_MSGF_IDEMPOTENT)) ||
        flux_future_then(s->lost_f, -1., lost_cb, s) < 0) {
        complain(s, "out of memory");
        flux_future_destroy(s->lost_f);
        s->lost_f = NULL;
    }
}

const idset_t *session_lost(const session_t *s)
{
    return s->lost;
}

/* --- state --- */

static void begin(session_t *s)
{
    if (s->runs || !s->ops->runs)
        return;
    s->runs = true;
    s->ops->runs(s->arg);
}

static void status_cb(flux_future_t *f, void *arg)
{
    session_t *s = arg;
    struct overlay_status st = {0};
    errmsg_t err;
    int rc = flux_rpc_get_struct(f, &overlay_status_schema, &st, &err);

    INVARIANT(2, s->status_f == f);
    s->status_f = NULL;
    if (rc < 0)
        flux_log(s->h, LOG_ERR, "cannot find out which ranks are up: %s", err.text);
    s->current = rc == 0 && !s->stale;
    if (s->ops->status)
        s->ops->status(s->arg, rc == 0 ? &st : NULL);
    if (rc == 0 && strcmp(st.state, "run") == 0)
        begin(s);
    flux_future_destroy(f);
    if (s->stale && !s->ops->on_demand)
        ask_status(s);
}

static void ask_status(session_t *s)
{
    if (s->status_f)
        return;
    s->status_f = flux_rpc(s->h, "overlay.status", NULL, FLUX_NODEID_ANY, FLUX_MSGF_IDEMPOTENT);
    if (s->status_f && flux_future_then(s->status_f, -1., status_cb, s) == 0) {
        s->stale = false;
        return;
    }
    flux_future_destroy(s->status_f);
    s->status_f = NULL;
}

static void changed(session_t *s)
{
    s->stale = true;
    s->current = false;
    if (!s->ops->on_demand)
        ask_status(s);
}

bool session_current(session_t *s)
{
    if (!s->current)
        ask_status(s);
    return s->current;
}

/* --- tree --- */

const topology_t *session_tree(const session_t *s)
{
    return s->tree;
}

int session_set_tree(session_t *s, topology_t *tree)
{
    topology_t *before = s->tree;

    s->tree = tree;
    if (s->ops->tree(s->arg, 0, "") < 0) {
        s->tree = before;
        topology_destroy(tree);
        return -1;
    }
    topology_destroy(before);
    topology_destroy(s->base);
    s->base = NULL;
    return 0;
}

static void no_tree(session_t *s, int errnum, const char *why)
{
    flux_log(s->h, LOG_ERR, "cannot learn the tree of the session: %s", why);
    (void)s->ops->tree(s->arg, errnum, why);
}

static topology_t *create_tree(const struct overlay_shape *in, uint32_t size, errmsg_t *err)
{
    if (in->size != size) {
        errmsg_fail(err, EPROTO, "it has %u ranks, and the session has %u", in->size, size);
        return NULL;
    }
    /* The topology file is at the root, and need not exist here. */
    if (in->moved || str_starts(in->topology, "file:"))
        return topology_create_text(in->file, strlen(in->file), "the tree of the session", size,
                                    err);
    return topology_create(in->topology, size, err);
}

static void tree_cb(flux_future_t *f, void *arg)
{
    session_t *s = arg;
    struct overlay_shape in = {0};
    topology_t *tree = NULL;
    errmsg_t err;

    s->tree_f = NULL;
    if (flux_rpc_get_struct(f, &overlay_shape_schema, &in, &err) == 0)
        tree = create_tree(&in, flux_size(s->h), &err);
    if (!tree)
        no_tree(s, errno, err.text);
    else if (session_set_tree(s, tree) < 0)
        no_tree(s, errno, strerror(errno));
    flux_future_destroy(f);
}

static void ask_tree(session_t *s)
{
    flux_future_destroy(s->tree_f);
    s->tree_f = flux_rpc(s->h, "overlay.topology", NULL, flux_rank(s->h), FLUX_MSGF_IDEMPOTENT);
    if (s->tree_f && flux_future_then(s->tree_f, -1., tree_cb, s) == 0)
        return;
    flux_future_destroy(s->tree_f);
    s->tree_f = NULL;
    no_tree(s, ENOMEM, "out of memory");
}

void session_ask_tree(session_t *s)
{
    if (!s->tree && !s->tree_f)
        ask_tree(s);
}

/* If memory for the change is short, the former tree stays in use until the broker has answered. */
static void move(session_t *s, uint32_t rank, uint32_t parent)
{
    uint32_t before = topology_parent(s->tree, rank);
    topology_t *over = s->base ? NULL : topology_create_over(s->tree);

    if (over) {
        s->base = s->tree;
        s->tree = over;
    }
    if (s->base && topology_move(s->tree, rank, parent) == 0) {
        if (s->ops->tree(s->arg, 0, "") == 0)
            return;
        (void)topology_move(s->tree, rank, before);
    }
    ask_tree(s);
}

/* --- events --- */

static void moved_cb(flux_t *h, const flux_msg_t *event, void *arg)
{
    session_t *s = arg;
    size_t len;
    const char *json = flux_msg_payload(event, &len);
    struct overlay_moved in;
    /* An answer that is awaited will include the change. */
    json_t *owner =
        json && s->tree ? flux_schema_decode(&overlay_moved_schema, json, len, &in, NULL) : NULL;

    if (owner)
        move(s, in.rank, in.parent);
    json_decref(owner);
}

static void missed_cb(flux_t *h, const flux_msg_t *event, void *arg)
{
    session_t *s = arg;

    if (s->ops->lost)
        session_ask_lost(s);
    if (s->tree)
        ask_tree(s);
    if (s->ops->status || s->ops->runs)
        changed(s);
}

static void changed_cb(flux_t *h, const flux_msg_t *event, void *arg)
{
    session_t *s = arg;

    if (s->ops->status)
        changed(s);
}

static void run_cb(flux_t *h, const flux_msg_t *event, void *arg)
{
    begin(arg);
}

/* Only subscribed events arrive. */
static const struct flux_handler handlers[] = {
    {FLUX_MSG_EVENT, "event.lost", missed_cb, 0},
    {FLUX_MSG_EVENT, "overlay.down", down_cb, 0},
    {FLUX_MSG_EVENT, "overlay.up", up_cb, 0},
    {FLUX_MSG_EVENT, "overlay.run", run_cb, 0},
    {FLUX_MSG_EVENT, "overlay.moved", moved_cb, 0},
    {FLUX_MSG_EVENT, "overlay.", changed_cb, 0},
    FLUX_HANDLER_END,
};

static void subscribed_cb(flux_future_t *f, void *arg)
{
    session_t *s = arg;

    if (flux_future_errnum(f) != 0)
        complain(s, flux_future_error(f));
    s->sub_f = NULL;
    flux_future_destroy(f);
    if (s->ops->runs && !s->ops->status)
        ask_status(s);
}

/* --- life --- */

static const char *prefix(const struct session_ops *ops)
{
    return ops->status || ops->lost ? "overlay." : ops->tree ? "overlay.moved" : "overlay.run";
}

session_t *session_create(flux_t *h, const struct session_ops *ops, void *arg)
{
    session_t *s = calloc(1, sizeof(*s));

    if (!s)
        return NULL;
    s->h = h;
    s->ops = ops;
    s->arg = arg;
    if (!(s->lost = idset_create()) || !(s->handlers = flux_handlers_add(h, handlers, s)) ||
        !(s->sub_f = flux_event_subscribe(h, prefix(ops))) ||
        flux_future_then(s->sub_f, -1., subscribed_cb, s) < 0) {
        session_destroy(s);
        errno = ENOMEM;
        return NULL;
    }
    if (ops->status && !ops->on_demand)
        ask_status(s);
    return s;
}

void session_destroy(session_t *s)
{
    int saved = errno;

    if (!s)
        return;
    flux_handlers_remove(s->handlers);
    flux_future_destroy(s->sub_f);
    flux_future_destroy(s->status_f);
    flux_future_destroy(s->lost_f);
    flux_future_destroy(s->tree_f);
    topology_destroy(s->tree);
    topology_destroy(s->base);
    idset_destroy(s->lost);
    free(s);
    errno = saved;
}

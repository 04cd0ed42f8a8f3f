/* core_overlay.c - neighbours, and the life of a session.
 *
 * Control messages on the tree plane (JSON payload, strict):
 *
 *    up    overlay.hello    {"rank","size","topology","version"}   first word of a child
 *    down  overlay.welcome  {"seq","state"}      you are in; events after seq are yours
 *    down  overlay.refused  {"reason"}           you are not; the child gives up
 *    up    overlay.ready    {"ranks"}            these ranks of my subtree are ready
 *    up    overlay.lost     {"ranks"}            these were lost
 *    down  overlay.shutdown {"rc","reason"}      go down, children first
 *    up    overlay.goodbye  {}                   my subtree is down
 *    event.replay, event.skip, event.replayed, event.last, event.cut    see core_event.c
 *
 * Events of the root: "overlay.run" {"up"} when all ranks are ready; "overlay.down" {"ranks"} when
 * some were lost.
 *
 * Ready ranks are reported once per subtree: a broker waits until all of its subtree that is not
 * lost is ready; only after REPORT_LATE seconds does it report what it has, so that the root can
 * say who is missing.  Bring-up so costs 3(N-1) control messages on the tree and N-1 events.
 *
 * Losing a child loses its whole subtree to those above, though its members may live on for a
 * while. A broker that lost its parent serves its own subtree until orphan_timeout, then takes it
 * down.
 *
 * Invariants:
 *  1. up and lost are disjoint; at the root they are the truth about the session.
 *  2. A child is welcomed at most once; a lost one does not come back under the same connection.
 *  3. CORE_DOWN ends within shutdown_grace of its last child's silence.
 *
 * Failure: a bad control message is logged and dropped.
 */
#include "config.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core_private.h"
#include "libflux/overlay_wire.h"
#include "libutil/invariant.h"

#define REPORT_LATE 2.
#define PROTOCOL_VERSION 1

struct hello {
    uint32_t rank;
    uint32_t size;
    const char *topology;
    int version;
};
static const struct flux_field hello_fields[] = {
    FLUX_FIELD_U32(struct hello, rank, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U32(struct hello, size, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_STR(struct hello, topology, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_INT(struct hello, version, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_END,
};
static const struct flux_schema hello_schema = FLUX_SCHEMA(struct hello, hello_fields);

struct number {
    uint64_t seq;
    uint64_t from;
    uint64_t to;
    uint64_t last;
    int state;
};
static const struct flux_field welcome_fields[] = {
    FLUX_FIELD_U64(struct number, seq, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_INT(struct number, state, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_END,
};
static const struct flux_schema welcome_schema = FLUX_SCHEMA(struct number, welcome_fields);
static const struct flux_field from_fields[] = {
    FLUX_FIELD_U64(struct number, from, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_END,
};
static const struct flux_schema from_schema = FLUX_SCHEMA(struct number, from_fields);
static const struct flux_field to_fields[] = {
    FLUX_FIELD_U64(struct number, to, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_END,
};
static const struct flux_schema to_schema = FLUX_SCHEMA(struct number, to_fields);
static const struct flux_field last_fields[] = {
    FLUX_FIELD_U64(struct number, last, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_END,
};
static const struct flux_schema last_schema = FLUX_SCHEMA(struct number, last_fields);

struct text {
    const char *ranks;
    const char *reason;
};
static const struct flux_field ranks_fields[] = {
    FLUX_FIELD_STR(struct text, ranks, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_END,
};
static const struct flux_schema ranks_schema = FLUX_SCHEMA(struct text, ranks_fields);
static const struct flux_field reason_fields[] = {
    FLUX_FIELD_STR(struct text, reason, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_END,
};
static const struct flux_schema reason_schema = FLUX_SCHEMA(struct text, reason_fields);

static int send_control(core_t *c, struct peer *p, const char *topic,
                        const struct flux_schema *desc, const void *in)
{
    flux_msg_t *msg = flux_msg_create(FLUX_MSG_CONTROL, topic);
    char *json = desc ? flux_schema_encode(desc, in) : strdup("{}");

    if (!msg || !json || flux_msg_set_json(msg, json) < 0) {
        free(json);
        flux_msg_destroy(msg);
        core_log(c, LOG_ERR, "rank %u is out of memory for %s", c->cfg.rank, topic);
        return -1;
    }
    free(json);
    return route_control(c, p, msg);
}

struct peer *overlay_tree_peer(core_t *c, uint32_t rank)
{
    if (c->parent && c->parent->rank == rank)
        return c->parent;
    return hmap_get_u64(c->child_by_rank, rank);
}

/* --- ready --- */

/* All of this subtree that is not lost is ready. */
static bool subtree_complete(core_t *c)
{
    return idset_count(c->up) + idset_count(c->lost) >=
           topology_subtree_count(c->topo, c->cfg.rank);
}

/* Root: all ranks that are not lost are ready, let them run. */
static void check_run(core_t *c)
{
    struct overlay_run body = {idset_count(c->up)};
    char *json;

    if (!core_is_root(c) || c->state != CORE_WIRED || !subtree_complete(c))
        return;
    core_set_state(c, CORE_READY);
    if ((json = flux_schema_encode(&overlay_run_schema, &body)))
        event_publish_json(c, "overlay.run", json);
    free(json);
}

static void report_ready(core_t *c)
{
    char *ranks;

    if (c->state == CORE_JOIN || idset_empty(c->unreported))
        return;
    if (core_is_root(c)) {
        idset_subtract(c->unreported, c->unreported);
        check_run(c);
        return;
    }
    if (!(subtree_complete(c) || c->report_now) || c->parent->lost)
        return;
    if (!(ranks = idset_format(c->unreported, 0)))
        return;
    struct text t = {.ranks = ranks};
    if (send_control(c, c->parent, "overlay.ready", &ranks_schema, &t) == 0)
        idset_subtract(c->unreported, c->unreported);
    free(ranks);
    if (c->state == CORE_WIRED && subtree_complete(c))
        core_set_state(c, CORE_READY);
}

static void add_ready(core_t *c, const idset_t *ranks)
{
    if (idset_add(c->up, ranks) < 0 || idset_add(c->unreported, ranks) < 0)
        core_log(c, LOG_ERR, "rank %u is out of memory to note ready ranks", c->cfg.rank);
    INVARIANT(1, !idset_intersects(c->up, c->lost));
    report_ready(c);
}

void core_local_ready(core_t *c)
{
    idset_t *me = idset_create_range(c->cfg.rank, c->cfg.rank);

    c->local_ready = true;
    if (me)
        add_ready(c, me);
    idset_destroy(me);
}

static void report_late_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    core_t *c = arg;

    c->report_now = true;
    report_ready(c);
}

static void tell_lost(core_t *c, const idset_t *ranks)
{
    struct text t = {0};
    char *text;

    if (core_is_root(c) || c->parent->lost || !c->parent->up || idset_empty(ranks))
        return;
    if (!(text = idset_format(ranks, 0))) {
        core_log(c, LOG_ERR, "rank %u is out of memory for overlay.lost", c->cfg.rank);
        return;
    }
    t.ranks = text;
    send_control(c, c->parent, "overlay.lost", &ranks_schema, &t);
    free(text);
}

/* `seq`: the last event before this broker was in. */
static void wired(core_t *c, uint64_t seq)
{
    core_set_state(c, CORE_WIRED);
    /* Before any child is welcomed: it is told to begin where this broker is. */
    event_set_last(c, seq);
    flux_timer_start(c->report_timer, REPORT_LATE, 0.);
    tell_lost(c, c->lost); /* those that were lost before there was a parent to tell */
    for (uint32_t i = 0; i < c->nchildren; i++) {
        flux_msg_t *hello = c->children[i].hello;
        if (hello) {
            c->children[i].hello = NULL;
            overlay_control(c, &c->children[i], hello);
            flux_msg_destroy(hello);
        }
    }
    route_held(c, &c->ring_next);
    if (c->parent)
        route_held(c, c->parent);
    report_ready(c);
}

/* --- loss --- */

static void children_gone(core_t *c);

/* `ranks` are lost: tell the root, or, being it, everybody. */
static void ranks_lost(core_t *c, const idset_t *ranks)
{
    idset_t *fresh = idset_difference(ranks, c->lost);
    char *text;

    if (!fresh || idset_empty(fresh) || !(text = idset_format(fresh, 0))) {
        idset_destroy(fresh);
        return;
    }
    idset_add(c->lost, fresh);
    idset_subtract(c->up, fresh);
    idset_subtract(c->unreported, fresh);
    INVARIANT(1, !idset_intersects(c->up, c->lost));
    if (core_is_root(c)) {
        const struct overlay_down body = {text};
        char *json = flux_schema_encode(&overlay_down_schema, &body);

        if (json)
            event_publish_json(c, "overlay.down", json);
        free(json);
        core_log(c, LOG_ERR, "ranks %s are lost", text);
    } else
        tell_lost(c, fresh);
    free(text);
    idset_destroy(fresh);
    report_ready(c);
    /* A loss may have been all that a complete subtree waited for. */
    check_run(c);
}

static void orphan_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    core_t *c = arg;

    core_log(c, LOG_ERR, "rank %u has been without its parent, rank %u, for %.0f s: going down",
             c->cfg.rank, c->parent->rank, c->cfg.orphan_timeout);
    overlay_shutdown(c, 1, "the parent was lost");
}

static void peer_gone(core_t *c, struct peer *p, const char *why)
{
    char text[200];

    p->lost = true;
    p->up = false;
    p->event_up = false;
    flux_msg_destroy(p->hello);
    p->hello = NULL;
    snprintf(text, sizeof(text), "rank %u was lost while the request was in flight: %s", p->rank,
             why);
    inflight_fail(c, &p->to, EHOSTUNREACH, text);
    inflight_forget(c, &p->from, true);
    route_held(c, p);
}

void core_peer_lost(core_t *c, enum core_plane plane, uint32_t rank, const char *why)
{
    struct peer *p;

    if (plane == CORE_RING) {
        p = c->ring_next.rank == rank && !c->ring_next.lost ? &c->ring_next : &c->ring_prev;
        if (p->rank == rank && !p->lost && c->cfg.size > 1) {
            peer_gone(c, p, why);
            if (p == &c->ring_next && c->cfg.size == 2 && c->ring_prev.rank == rank &&
                !c->ring_prev.lost)
                peer_gone(c, &c->ring_prev, why);
        }
        return;
    }
    if (!(p = overlay_tree_peer(c, rank)) || p->lost)
        return;
    if (p == c->parent) {
        if (c->state == CORE_JOIN)
            core_log(c, LOG_CRIT, "rank %u cannot join through its parent, rank %u: %s",
                     c->cfg.rank, rank, why);
        else if (c->state < CORE_DOWN)
            core_log(c, LOG_ERR, "rank %u lost its parent, rank %u: %s", c->cfg.rank, rank, why);
        peer_gone(c, p, why);
        if (c->down_asked) {
            /* Whoever was asked cannot answer any more. */
            overlay_shutdown(c, c->exit_code, "the parent was lost while the session goes down");
            return;
        }
        if (c->state < CORE_DOWN)
            event_cut(c, 0);
        if (c->state == CORE_JOIN) { /* there is nothing to serve meanwhile */
            overlay_shutdown(c, 1, why);
            return;
        }
        if (c->state < CORE_DOWN && c->cfg.orphan_timeout >= 0.)
            flux_timer_start(c->orphan_timer, c->cfg.orphan_timeout, 0.);
        return;
    }
    if (p->gone) {
        p->event_up = false;
        return;
    }
    peer_gone(c, p, why);
    if (c->state < CORE_DOWN) {
        idset_t *sub = topology_subtree(c->topo, rank);
        if (sub)
            ranks_lost(c, sub);
        idset_destroy(sub);
    } else
        children_gone(c);
}

/* --- going down --- */

static bool any_child(const core_t *c)
{
    for (uint32_t i = 0; i < c->nchildren; i++) {
        const struct peer *p = &c->children[i];
        if (p->up && !p->lost && !p->gone)
            return true;
    }
    return false;
}

static void children_gone(core_t *c)
{
    if (c->state != CORE_DOWN || c->down_local || any_child(c))
        return;
    c->down_local = true;
    flux_watcher_stop(c->down_timer);
    if (c->cbs.state)
        c->cbs.state(c, CORE_DOWN, c->cbs_arg);
}

/* More the higher up, so that a hung leaf costs its parent's patience and no other's. */
static double down_patience(const core_t *c)
{
    return c->cfg.shutdown_grace *
           (1 + topology_max_depth(c->topo) - topology_depth(c->topo, c->cfg.rank));
}

static void down_timer_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    core_t *c = arg;

    for (uint32_t i = 0; i < c->nchildren; i++) {
        struct peer *p = &c->children[i];
        if (p->up && !p->lost && !p->gone) {
            core_log(c, LOG_ERR, "rank %u did not go down within %.1f s: left behind", p->rank,
                     down_patience(c));
            peer_gone(c, p, "it did not go down in time");
        }
    }
    children_gone(c);
}

void overlay_shutdown(core_t *c, int rc, const char *reason)
{
    struct shutdown_order s = {rc, reason};

    if (c->state >= CORE_DOWN)
        return;
    c->exit_code = rc;
    flux_watcher_stop(c->orphan_timer);
    flux_watcher_stop(c->join_timer);
    core_set_state(c, CORE_DOWN);
    for (uint32_t i = 0; i < c->nchildren; i++) {
        struct peer *p = &c->children[i];
        if (p->up && !p->lost && !p->gone)
            send_control(c, p, "overlay.shutdown", &shutdown_order_schema, &s);
    }
    flux_timer_start(c->down_timer, down_patience(c), 0.);
    children_gone(c);
}

void core_local_down_done(core_t *c)
{
    if (c->state != CORE_DOWN || !c->down_local)
        return;
    if (c->parent && c->parent->up && !c->parent->lost)
        send_control(c, c->parent, "overlay.goodbye", NULL, NULL);
    core_set_state(c, CORE_EXIT);
}

/* --- control messages --- */

static void refuse(core_t *c, struct peer *p, const char *reason)
{
    struct text t = {.reason = reason};

    core_log(c, LOG_ERR, "rank %u was refused: %s", p->rank, reason);
    send_control(c, p, "overlay.refused", &reason_schema, &t);
}

static void hello_cb(core_t *c, struct peer *p, const void *in, const flux_msg_t *msg)
{
    const struct hello *h = in;
    struct number n = {.seq = core_event_seq(c), .state = c->state};
    char why[160];

    if (c->state == CORE_JOIN) {
        flux_msg_destroy(p->hello);
        p->hello = flux_msg_incref(msg);
        return;
    }
    if (h->version != PROTOCOL_VERSION)
        snprintf(why, sizeof(why), "it speaks version %d of the protocol, rank %u version %d",
                 h->version, c->cfg.rank, PROTOCOL_VERSION);
    else if (h->rank != p->rank)
        snprintf(why, sizeof(why), "it says that it is rank %u", h->rank);
    else if (h->size != c->cfg.size || strcmp(h->topology, topology_spec(c->topo)) != 0)
        snprintf(why, sizeof(why),
                 "it was started with size %u and topology %.40s, not %u and %.40s", h->size,
                 h->topology, c->cfg.size, topology_spec(c->topo));
    else if (c->state >= CORE_DOWN)
        snprintf(why, sizeof(why), "the session is going down");
    else if (p->up || p->lost || p->gone)
        snprintf(why, sizeof(why), "a rank cannot join twice");
    else {
        p->up = true;
        send_control(c, p, "overlay.welcome", &welcome_schema, &n);
        route_held(c, p);
        return;
    }
    refuse(c, p, why);
}

static void welcome_cb(core_t *c, struct peer *p, const void *in, const flux_msg_t *msg)
{
    const struct number *n = in;

    if (c->state != CORE_JOIN)
        return;
    p->up = true;
    flux_watcher_stop(c->join_timer);
    c->ring_next.up = c->ring_prev.up = c->cfg.size > 1;
    wired(c, n->seq);
}

static void refused_cb(core_t *c, struct peer *p, const void *in, const flux_msg_t *msg)
{
    const struct text *t = in;

    /* Once in, it is not meant: another one has said hello in its name. */
    if (c->state != CORE_JOIN)
        return;
    core_log(c, LOG_CRIT, "rank %u was refused by its parent, rank %u: %s", c->cfg.rank, p->rank,
             t->reason);
    overlay_shutdown(c, 1, t->reason);
}

static idset_t *parse_subtree_ranks(core_t *c, struct peer *p, const char *text)
{
    errmsg_t err;
    idset_t *ids = idset_parse(text, &err);
    idset_t *sub = topology_subtree(c->topo, p->rank);

    if (ids && sub && idset_subset(ids, sub)) {
        idset_destroy(sub);
        return ids;
    }
    core_log(c, LOG_ERR, "rank %u spoke for ranks that are not in its subtree", p->rank);
    idset_destroy(sub);
    idset_destroy(ids);
    return NULL;
}

static void ready_cb(core_t *c, struct peer *p, const void *in, const flux_msg_t *msg)
{
    const struct text *t = in;
    idset_t *ids = parse_subtree_ranks(c, p, t->ranks);

    if (ids)
        add_ready(c, ids);
    idset_destroy(ids);
}

static void lost_cb(core_t *c, struct peer *p, const void *in, const flux_msg_t *msg)
{
    const struct text *t = in;
    idset_t *ids = parse_subtree_ranks(c, p, t->ranks);

    if (ids)
        ranks_lost(c, ids);
    idset_destroy(ids);
}

static void shutdown_cb(core_t *c, struct peer *p, const void *in, const flux_msg_t *msg)
{
    const struct shutdown_order *s = in;

    if (c->state < CORE_DOWN)
        c->down_told = true;
    overlay_shutdown(c, s->rc, s->reason);
}

static void goodbye_cb(core_t *c, struct peer *p, const void *in, const flux_msg_t *msg)
{
    char text[80];

    p->gone = true;
    p->event_up = false;
    snprintf(text, sizeof(text), "rank %u has left the session", p->rank);
    inflight_fail(c, &p->to, EHOSTUNREACH, text);
    inflight_forget(c, &p->from, true);
    route_held(c, p);
    if (c->state < CORE_DOWN) {
        idset_t *sub = topology_subtree(c->topo, p->rank);
        if (sub)
            ranks_lost(c, sub);
        idset_destroy(sub);
    }
    if (c->link->drop)
        c->link->drop(c->link_arg, CORE_TREE, p->rank);
    children_gone(c);
}

static void replay_cb(core_t *c, struct peer *p, const void *in, const flux_msg_t *msg)
{
    event_replay(c, p, ((const struct number *)in)->from);
}

static void skip_cb(core_t *c, struct peer *p, const void *in, const flux_msg_t *msg)
{
    event_skip(c, ((const struct number *)in)->to);
}

static void replayed_cb(core_t *c, struct peer *p, const void *in, const flux_msg_t *msg)
{
    event_replayed(c, ((const struct number *)in)->last);
}

static void last_cb(core_t *c, struct peer *p, const void *in, const flux_msg_t *msg)
{
    event_expect(c, ((const struct number *)in)->last);
}

static void cut_cb(core_t *c, struct peer *p, const void *in, const flux_msg_t *msg)
{
    event_cut(c, ((const struct number *)in)->last);
}

static const struct flux_field empty_fields[] = {FLUX_FIELD_END};
static const struct flux_schema empty_schema = {empty_fields};

static const struct control {
    const char *topic;
    bool from_child;
    const struct flux_schema *desc;
    void (*cb)(core_t *c, struct peer *from, const void *in, const flux_msg_t *msg);
} controls[] = {
    {"overlay.hello", true, &hello_schema, hello_cb},
    {"overlay.ready", true, &ranks_schema, ready_cb},
    {"overlay.lost", true, &ranks_schema, lost_cb},
    {"overlay.goodbye", true, &empty_schema, goodbye_cb},
    {"event.replay", true, &from_schema, replay_cb},
    {"overlay.welcome", false, &welcome_schema, welcome_cb},
    {"overlay.refused", false, &reason_schema, refused_cb},
    {"overlay.shutdown", false, &shutdown_order_schema, shutdown_cb},
    {"event.skip", false, &to_schema, skip_cb},
    {"event.replayed", false, &last_schema, replayed_cb},
    {"event.last", false, &last_schema, last_cb},
    {"event.cut", false, &last_schema, cut_cb},
};

void overlay_control(core_t *c, struct peer *from, const flux_msg_t *msg)
{
    const char *topic = flux_msg_topic(msg);
    size_t len;
    const char *json = flux_msg_payload(msg, &len);
    union {
        struct hello hello;
        struct number number;
        struct text text;
        struct shutdown_order shutdown;
    } in;
    errmsg_t err = {"it is unknown"};

    for (size_t i = 0; i < sizeof(controls) / sizeof(controls[0]); i++) {
        const struct control *ctl = &controls[i];
        json_t *owner;
        if (strcmp(ctl->topic, topic) != 0 || ctl->from_child != from->is_child)
            continue;
        if (!(owner = flux_schema_decode(ctl->desc, json ? json : "", len, &in, &err)))
            break;
        ctl->cb(c, from, &in, msg);
        json_decref(owner);
        return;
    }
    core_log(c, LOG_ERR, "control message %s from rank %u was dropped: %s", topic, from->rank,
             err.text);
    c->stats.dropped++;
}

/* The session's own events. */
void overlay_event(core_t *c, const flux_msg_t *event)
{
    if (strcmp(flux_msg_topic(event), "overlay.run") == 0 && c->state < CORE_RUN &&
        c->state > CORE_JOIN) {
        flux_watcher_stop(c->join_timer);
        flux_watcher_stop(c->report_timer);
        c->report_now = true;
        core_set_state(c, CORE_RUN);
    }
}

void core_child_event_up(core_t *c, uint32_t rank)
{
    struct peer *p = hmap_get_u64(c->child_by_rank, rank);

    if (p && !p->lost && !p->gone)
        p->event_up = true;
}

/* --- begin and end --- */

static void join_timer_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    core_t *c = arg;

    if (core_is_root(c)) {
        idset_t *all = idset_create_range(0, c->cfg.size - 1);
        char *text = NULL;
        if (all && idset_subtract(all, c->up) == 0)
            text = idset_format(all, 0);
        core_log(c, LOG_ERR, "ranks %s have not joined within %.0f s", text ? text : "?",
                 c->cfg.join_timeout);
        free(text);
        idset_destroy(all);
        return;
    }
    core_log(c, LOG_CRIT,
             "rank %u got no welcome from its parent, rank %u, within %.0f s (join.timeout): "
             "giving up",
             c->cfg.rank, c->parent->rank, c->cfg.join_timeout);
    overlay_shutdown(c, 1, "no welcome");
}

static void peer_init(struct peer *p, uint32_t rank, enum core_plane plane)
{
    p->rank = rank;
    p->plane = plane;
    list_init(&p->to);
    list_init(&p->from);
    list_init(&p->held);
}

int overlay_init(core_t *c)
{
    uint32_t me = c->cfg.rank;

    c->nchildren = topology_nchildren(c->topo, me);
    if (!(c->child_by_rank = hmap_create_u64(NULL)) ||
        (c->nchildren > 0 && !(c->children = calloc(c->nchildren, sizeof(*c->children)))))
        return -1;
    for (uint32_t i = 0; i < c->nchildren; i++) {
        struct peer *p = &c->children[i];
        peer_init(p, topology_child_at(c->topo, me, i), CORE_TREE);
        p->is_child = true;
        if (hmap_put_u64(c->child_by_rank, p->rank, p) < 0)
            return -1;
    }
    if (me > 0) {
        if (!(c->parent = calloc(1, sizeof(*c->parent))))
            return -1;
        peer_init(c->parent, topology_parent(c->topo, me), CORE_TREE);
    }
    peer_init(&c->ring_next, topology_ring_next(c->topo, me), CORE_RING);
    peer_init(&c->ring_prev, topology_ring_prev(c->topo, me), CORE_RING);
    if (!(c->up = idset_create()) || !(c->lost = idset_create()) ||
        !(c->unreported = idset_create()) ||
        !(c->join_timer = flux_timer_create(c->r, join_timer_cb, c)) ||
        !(c->report_timer = flux_timer_create(c->r, report_late_cb, c)) ||
        !(c->orphan_timer = flux_timer_create(c->r, orphan_cb, c)) ||
        !(c->down_timer = flux_timer_create(c->r, down_timer_cb, c)))
        return -1;
    return 0;
}

void overlay_destroy(core_t *c)
{
    for (uint32_t i = 0; i < c->nchildren && c->children; i++) {
        flux_msg_destroy(c->children[i].hello);
        route_held_destroy(c, &c->children[i]);
    }
    if (c->parent)
        route_held_destroy(c, c->parent);
    if (c->ring_next.held.next)
        route_held_destroy(c, &c->ring_next);
    flux_watcher_destroy(c->join_timer);
    flux_watcher_destroy(c->report_timer);
    flux_watcher_destroy(c->orphan_timer);
    flux_watcher_destroy(c->down_timer);
    idset_destroy(c->up);
    idset_destroy(c->lost);
    idset_destroy(c->unreported);
    hmap_destroy(c->child_by_rank);
    free(c->children);
    free(c->parent);
}

int core_start(core_t *c)
{
    struct hello h = {.rank = c->cfg.rank,
                      .size = c->cfg.size,
                      .topology = topology_spec(c->topo),
                      .version = PROTOCOL_VERSION};

    if (c->started || !c->link) {
        errno = EINVAL;
        return -1;
    }
    c->started = true;
    if (c->cfg.join_timeout > 0.)
        flux_timer_start(c->join_timer, c->cfg.join_timeout, 0.);
    if (core_is_root(c)) {
        c->ring_next.up = c->ring_prev.up = c->cfg.size > 1;
        wired(c, core_event_seq(c));
        return 0;
    }
    return send_control(c, c->parent, "overlay.hello", &hello_schema, &h);
}

/* core.c - the life of a broker core, its endpoints, and the entry points for all input.
 *
 * See core.h for the states, and core_private.h for the other files of the core.
 *
 * Invariants:
 *  1. All work happens in calls of core.h and in timers: the core does not have a thread, socket or
 *     clock of its own.
 *  2. The credential, the term and the route of a message from an endpoint are set here, whatever
 *     the message contains.
 *  3. The number of an endpoint is not reused until 2^28 others were assigned.
 *  4. Only these transitions change the state:
 *
 *     from                      to       by
 *     join                      wired    wired() (core_join.c)
 *     wired                     ready    check_run(), join_report()
 *     wired, ready              run      join_run()
 *     all but down and exit     down     go_down(), for overlay_shutdown() and core_leave()
 *     down                      exit     core_local_down_done()
 *
 *  5. Of a child that was not welcomed only the hello is received.
 *
 * Failure: a bad message is answered with an error if it has a sender that expects an answer, and
 * otherwise counted and dropped.
 */
#include "config.h"
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core_private.h"
#include "libutil/le.h"
#include "libflux/courier.h"
#include "libutil/invariant.h"

#define USED_MAX 65536

void core_config_init(struct core_config *cfg)
{
    *cfg = (struct core_config){
        .size = 1,
        .topology = "kary:16",
        .join_timeout = 60.,
        .orphan_timeout = 30.,
        .shutdown_grace = 5.,
        .beat = 1.,
        .event_buffer = 4 * 1024 * 1024,
        .event_backlog = 64 * 1024 * 1024,
        .inflight_max = 65536,
    };
}

void core_log(core_t *c, int level, const char *fmt, ...)
{
    char text[320];
    va_list ap;

    if (!c->cbs.log)
        return;
    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    c->cbs.log(c, level, text, c->cbs_arg);
}

void core_say(core_t *c, int level, const char *text)
{
    core_log(c, level, "%s", text);
}

static const struct transition moves[] = {
    {CORE_JOIN, CORE_WIRED, "wired"},
    {CORE_WIRED, CORE_READY, "check_run, join_report"},
    {CORE_WIRED, CORE_RUN, "join_run"},
    {CORE_READY, CORE_RUN, "join_run"},
    {CORE_JOIN, CORE_DOWN, "go_down"},
    {CORE_WIRED, CORE_DOWN, "go_down"},
    {CORE_READY, CORE_DOWN, "go_down"},
    {CORE_RUN, CORE_DOWN, "go_down"},
    {CORE_DOWN, CORE_EXIT, "core_local_down_done"},
    TRANSITION_END,
};

void core_set_state(core_t *c, enum core_state state)
{
    TRANSITION(4, moves, c->state, state);
    c->state = state;
    if (state == CORE_RUN)
        c->incarnation = census_incarnation(c, c->cfg.rank);
    if (c->cbs.state)
        c->cbs.state(c, state, c->cbs_arg);
}

const char *core_state_name(enum core_state s)
{
    static const char *const names[] = {"join", "wired", "ready", "run", "down", "exit"};

    return (size_t)s < sizeof(names) / sizeof(names[0]) ? names[s] : "?";
}

bool core_is_root(const core_t *c)
{
    return c->cfg.rank == FLUX_NODEID_ROOT;
}

/* Send a message to the core's own handle, which delivers it without a queue. */
static int self_send(void *impl, flux_msg_t *msg)
{
    core_t *c = impl;

    core_endpoint_input(c->self, msg);
    return 0;
}

static const struct flux_handle_ops self_handle_ops = {.send = self_send};

static void self_deliver(void *arg, flux_msg_t *msg)
{
    core_t *c = arg;

    flux_handle_deliver(c->h, msg);
}

static const struct endpoint_ops self_endpoint_ops = {.send = self_deliver};

core_t *core_create(const struct core_config *cfg, flux_reactor_t *r,
                    const struct core_callbacks *cbs, void *arg, errmsg_t *err)
{
    core_t *c;

    if (cfg->size < 1 || cfg->size > FLUX_RANK_MAX || cfg->rank >= cfg->size) {
        errmsg_fail(err, EINVAL, "rank %u of %u is not a rank of a session", cfg->rank, cfg->size);
        return NULL;
    }
    if (!(c = calloc(1, sizeof(*c))))
        goto nomem;
    c->cfg = *cfg;
    c->r = r;
    c->term = FLUX_TERM_FIRST;
    if (cbs)
        c->cbs = *cbs;
    c->cbs_arg = arg;
    c->hash_seed = cfg->seed ^ 0x5bd1e9955bd1e995u;
    if (core_is_root(c)) /* JSON has signed integers */
        c->session = (cfg->seed * 0x9e3779b97f4a7c15u) >> 1 | 1;
    list_init(&c->subscribers);
    list_init(&c->formers);
    if (!(c->topo = topology_create(cfg->topology, cfg->size, err))) {
        core_destroy(c);
        return NULL;
    }
    c->cfg.topology = topology_spec(c->topo);
    if (!(c->endpoints = hmap_create_u64(NULL)) || !(c->accounts = hmap_create_u64(free)) ||
        !(c->services = hmap_create_str(NULL)) || !(c->inflight = hmap_create_u64(NULL)) ||
        join_init(c) < 0 || overlay_init(c) < 0 || live_init(c) < 0 || third_init(c) < 0 ||
        broken_init(c) < 0 || census_init(c) < 0 || moves_init(c) < 0 || heal_init(c) < 0 ||
        keys_init(c) < 0 || cards_init(c) < 0 || stale_init(c) < 0 || restore_init(c) < 0 ||
        late_init(c) < 0 || event_init(c) < 0 ||
        !(c->h = flux_handle_create(&self_handle_ops, c, r, cfg->rank, cfg->size,
                                    cfg->seed + cfg->rank)) ||
        !(c->self = core_endpoint_add(c, ENDPOINT_BROKER, "broker", cfg->userid,
                                      FLUX_ROLE_OWNER | FLUX_ROLE_BROKER, &self_endpoint_ops, c)) ||
        service_init(c) < 0) {
        core_destroy(c);
        goto nomem;
    }
    return c;
nomem:
    errmsg_fail(err, ENOMEM, "out of memory for a broker of rank %u", cfg->rank);
    return NULL;
}

static void endpoint_free(endpoint_t *ep)
{
    event_unsubscribe_all(ep);
    account_leave(ep->core, ep->account);
    hmap_destroy(ep->used);
    free(ep->name);
    free(ep);
}

void core_destroy(core_t *c)
{
    if (c) {
        int saved = errno;
        size_t pos = 0;
        void *val;

        service_destroy(c);
        third_destroy(c);
        broken_destroy(c);
        successor_destroy(c);
        courier_destroy(c->orders);
        flux_close(c->h);
        c->h = NULL;
        pos = 0;
        while (c->inflight && hmap_next(c->inflight, &pos, NULL, NULL, &val)) {
            struct inflight *f = val;
            inflight_remove(c, f);
        }
        inflight_pool_destroy(c);
        pos = 0;
        while (c->endpoints && hmap_next(c->endpoints, &pos, NULL, NULL, &val))
            endpoint_free(val);
        event_destroy(c);
        live_destroy(c);
        restore_destroy(c);
        late_destroy(c);
        overlay_destroy(c);
        join_destroy(c);
        heal_destroy(c);
        moves_destroy(c);
        census_destroy(c);
        stale_destroy(c);
        keys_destroy(c);
        cards_destroy(c);
        hmap_destroy(c->inflight);
        hmap_destroy(c->services);
        hmap_destroy(c->endpoints);
        hmap_destroy(c->accounts);
        topology_destroy(c->topo);
        free(c);
        errno = saved;
    }
}

void core_set_link(core_t *c, const struct core_link_ops *ops, void *arg)
{
    c->link = ops;
    c->link_arg = arg;
}

/* The root cannot be reached, or has refused the request: shut down this subtree. */
static void order_failed(void *arg, const char *topic, int errnum, const char *why)
{
    core_t *c = arg;

    if (c->state >= CORE_DOWN)
        return;
    core_log(c, LOG_ERR, "rank 0 could not be asked to shut the session down: %s", why);
    overlay_shutdown(c, c->exit_code, "rank 0 could not be asked to shut the session down");
}

static void ask_root(core_t *c, const struct shutdown_order *s)
{
    const struct courier_callbacks cbs = {.failed = order_failed};
    char *json = flux_schema_encode(&shutdown_order_schema, s);

    if (!c->orders)
        c->orders = courier_create(c->h, 0, &cbs, c);
    if (!json || !c->orders ||
        courier_post_json(c->orders, "broker.shutdown", FLUX_NODEID_ROOT, json) < 0)
        order_failed(c, "broker.shutdown", ENOMEM, "out of memory");
}

void core_shutdown(core_t *c, int rc, const char *reason)
{
    struct shutdown_order s = {rc, reason};

    if (c->held)
        return;
    if (core_is_root(c) && c->state == CORE_RUN && c->cbs.hold) {
        c->held = true;
        c->exit_code = rc;
        if (c->cbs.hold(c, rc, reason, c->cbs_arg))
            return;
        c->held = false;
    }
    if (core_is_root(c) || !c->parent->up || c->parent->lost) {
        overlay_shutdown(c, rc, reason);
        return;
    }
    /* The root shuts down the whole session, and with it this rank. */
    c->down_asked = true;
    c->exit_code = rc;
    ask_root(c, &s);
}

void core_shutdown_now(core_t *c)
{
    if (c->held)
        overlay_shutdown(c, c->exit_code, "the session has ended");
}

/* --- input from the link --- */

/* Refuse a message of another term: its sender follows another root, or does not know the new one
 * yet. */
static void refuse_term(core_t *c, struct peer *p, flux_msg_t *msg)
{
    uint32_t term = flux_msg_term(msg);

    if (!p->other_term)
        core_log(c, LOG_ERR,
                 "rank %u sends messages of term %u, and rank %u is in term %u: they are refused",
                 p->rank, term, c->cfg.rank, c->term);
    p->other_term = true;
    c->stats.dropped++;
    if (flux_msg_type(msg) == FLUX_MSG_REQUEST &&
        flux_msg_route_push(
            msg, flux_route_make(p->plane == CORE_RING ? FLUX_ROUTE_RING : FLUX_ROUTE_TREE,
                                 p->rank)) == 0)
        route_error(c, msg, ESTALE, "%s: the request is of term %u, and rank %u is in term %u",
                    flux_msg_topic(msg), term, c->cfg.rank, c->term);
    flux_msg_destroy(msg);
}

/* Returns whether this child was not welcomed, so that only messages are received which say who it
 * is: it may be an earlier broker of its rank, which the session has counted as lost. */
static bool is_stranger(const struct peer *p, const flux_msg_t *msg)
{
    return p->is_child && !p->up && !p->arriving && !p->former &&
           !(flux_msg_type(msg) == FLUX_MSG_CONTROL &&
             (strcmp(flux_msg_topic(msg), control_up[CONTROL_HELLO].topic) == 0 ||
              strcmp(flux_msg_topic(msg), control_up[CONTROL_LIVES].topic) == 0));
}

void core_link_input(core_t *c, enum core_plane plane, uint32_t from, flux_msg_t *msg)
{
    struct peer *p;

    if (plane == CORE_EVENT || flux_msg_type(msg) == FLUX_MSG_EVENT) {
        if (flux_msg_type(msg) == FLUX_MSG_EVENT && c->parent && from == c->parent->rank) {
            if (flux_msg_term(msg) == c->term)
                event_input(c, msg);
            else
                refuse_term(c, c->parent, msg);
            return;
        }
        if (flux_msg_type(msg) == FLUX_MSG_EVENT)
            change_ahead(c, from, flux_msg_seq(msg));
        goto drop;
    }
    if (plane == CORE_RING)
        p = flux_msg_type(msg) == FLUX_MSG_RESPONSE ? &c->ring_next : &c->ring_prev;
    else
        p = overlay_tree_peer(c, from);
    if (!p || p->rank != from || p->lost || p->broken || is_stranger(p, msg))
        goto drop;
    if (flux_msg_term(msg) != c->term) {
        refuse_term(c, p, msg);
        return;
    }
    switch (flux_msg_type(msg)) {
    case FLUX_MSG_REQUEST:
        route_request(c, msg, NULL, p);
        return;
    case FLUX_MSG_RESPONSE:
        route_response(c, msg);
        return;
    case FLUX_MSG_CONTROL:
        if (plane != CORE_TREE)
            goto drop;
        overlay_control(c, p, msg);
        flux_msg_destroy(msg);
        return;
    default:
        break;
    }
drop:
    c->stats.dropped++;
    flux_msg_destroy(msg);
}

void core_peer_writable(core_t *c, uint32_t rank)
{
    struct peer *p = overlay_tree_peer(c, rank);

    if (p)
        route_held(c, p);
    if (c->ring_next.rank == rank)
        route_held(c, &c->ring_next);
}

/* --- endpoints --- */

endpoint_t *core_endpoint_add(core_t *c, enum endpoint_kind kind, const char *name, uint32_t userid,
                              uint32_t rolemask, const struct endpoint_ops *ops, void *arg)
{
    endpoint_t *ep = calloc(1, sizeof(*ep));

    if (!ep)
        return NULL;
    list_init(&ep->to);
    list_init(&ep->from);
    list_init(&ep->subs);
    list_init(&ep->sub_node);
    ep->core = c;
    ep->kind = kind;
    ep->userid = userid;
    ep->rolemask = rolemask;
    ep->ops = ops;
    ep->arg = arg;
    do {
        c->last_endpoint = (c->last_endpoint + 1) & 0x0fffffff;
    } while (c->last_endpoint == 0 || hmap_get_u64(c->endpoints, c->last_endpoint));
    ep->id = c->last_endpoint;
    if (!(ep->name = strdup(name)) ||
        (kind == ENDPOINT_CLIENT && !(ep->account = account_join(c, ACCOUNT_OWN | ep->id))) ||
        hmap_put_u64(c->endpoints, ep->id, ep) < 0) {
        endpoint_free(ep);
        errno = ENOMEM;
        return NULL;
    }
    return ep;
}

int core_endpoint_set_process(endpoint_t *ep, uint32_t pid)
{
    struct account *a = account_join(ep->core, pid);

    if (!a)
        return -1;
    account_leave(ep->core, ep->account);
    ep->account = a;
    return 0;
}

static uint64_t used_key(const char *name, size_t len, uint32_t nodeid, unsigned flags)
{
    uint64_t k = 0xcbf29ce484222325u ^ nodeid ^ (uint64_t)flags << 40;

    for (size_t i = 0; i < len; i++)
        k = (k ^ (unsigned char)name[i]) * 0x100000001b3u;
    return k;
}

static void used_free(void *val)
{
    struct used_service *u = val;

    free(u->tags);
    free(u);
}

/* Remember the services that a sender uses: they get a notice when the sender is gone. */
static void note_used(endpoint_t *ep, const flux_msg_t *msg)
{
    const char *topic = flux_msg_topic(msg);
    size_t len = topic_service_len(topic);
    unsigned flags = flux_msg_flags(msg) & (FLUX_MSGF_UPSTREAM | FLUX_MSGF_RING);
    uint64_t key = used_key(topic, len, flux_msg_nodeid(msg), flags);
    struct used_service *u;

    if (!ep->used && !(ep->used = hmap_create_u64(used_free)))
        return;
    if (hmap_get_u64(ep->used, key) || hmap_count(ep->used) >= USED_MAX)
        return;
    if (!(u = malloc(sizeof(*u) + len + 1)))
        return;
    u->nodeid = flux_msg_nodeid(msg);
    u->flags = flags;
    u->tags = NULL;
    u->ntags = 0;
    memcpy(u->name, topic, len);
    u->name[len] = '\0';
    if (hmap_put_u64(ep->used, key, u) < 0)
        free(u);
}

static void endpoint_request(endpoint_t *ep, flux_msg_t *msg)
{
    core_t *c = ep->core;
    unsigned flags = flux_msg_flags(msg);
    uint32_t id = flux_route_make(FLUX_ROUTE_ENDPOINT, ep->id);

    flux_msg_route_clear(msg);
    flux_msg_set_incarnation(msg, c->incarnation);
    flux_msg_set_cred(msg, ep->userid, ep->rolemask);
    if (ep->inflight >= c->cfg.inflight_max && !(flags & FLUX_MSGF_NORESPONSE)) {
        if (flux_msg_route_push(msg, id) == 0)
            route_error(c, msg, EAGAIN,
                        "%u requests are unanswered: read answers before sending more",
                        ep->inflight);
        flux_msg_destroy(msg);
        return;
    }
    if ((flags & FLUX_MSGF_UPSTREAM) && flux_msg_nodeid(msg) != FLUX_NODEID_ANY) {
        if (flux_msg_route_push(msg, id) == 0)
            route_error(c, msg, EINVAL, "%s: an upstream request cannot name a rank",
                        flux_msg_topic(msg));
        flux_msg_destroy(msg);
        return;
    }
    if (ep->kind != ENDPOINT_BROKER)
        note_used(ep, msg);
    route_request(c, msg, ep, NULL);
}

void core_endpoint_input(endpoint_t *ep, flux_msg_t *msg)
{
    flux_msg_set_term(msg, ep->core->term);
    switch (flux_msg_type(msg)) {
    case FLUX_MSG_REQUEST:
        endpoint_request(ep, msg);
        return;
    case FLUX_MSG_RESPONSE:
        if (ep->kind != ENDPOINT_CLIENT) {
            route_response(ep->core, msg);
            return;
        }
        break;
    default:
        break;
    }
    ep->core->stats.dropped++;
    flux_msg_destroy(msg);
}

static int append_tag(struct used_service *u, uint32_t tag)
{
    uint8_t *tags;

    /* Room for 1, 2, 4, 8... tags. */
    if ((u->ntags & (u->ntags - 1)) == 0) {
        if (!(tags = realloc(u->tags, INFLIGHT_TAG * (u->ntags ? 2 * u->ntags : 1))))
            return -1;
        u->tags = tags;
    }
    le_put32(u->tags + INFLIGHT_TAG * u->ntags++, tag);
    return 0;
}

/* Note which requests to services of other brokers are pending.  Those that do not fit into memory
 * stay with the brokers on the way until they are answered. */
static void note_pending(const endpoint_t *ep)
{
    LIST_FOREACH(it, &ep->from)
    {
        const struct inflight *f = list_entry(it, struct inflight, from_node);
        const char *topic = flux_msg_topic(f->req);
        size_t len = topic_service_len(topic);
        uint32_t nodeid = flux_msg_nodeid(f->req);
        unsigned flags = flux_msg_flags(f->req) & FLUX_MSGF_RING;
        struct used_service *u;

        if (!f->to_peer || !ep->used)
            continue;
        if (!(u = hmap_get_u64(ep->used, used_key(topic, len, nodeid, flags))) &&
            !(u = hmap_get_u64(ep->used, used_key(topic, len, nodeid, flags | FLUX_MSGF_UPSTREAM))))
            continue;
        if (append_tag(u, flux_msg_matchtag(f->req)) < 0)
            return;
    }
}

static void disconnect_services(endpoint_t *ep)
{
    core_t *c = ep->core;
    size_t pos = 0;
    void *val;

    while (ep->used && hmap_next(ep->used, &pos, NULL, NULL, &val)) {
        struct used_service *u = val;
        char topic[FLUX_MSG_TOPIC_MAX + 16];
        flux_msg_t *msg;

        /* The services of the broker itself do not keep state per sender. */
        if (hmap_get(c->services, u->name) == c->self)
            continue;
        /* At shutdown, services of other brokers do not need a notice, because they end too. */
        if (c->state >= CORE_DOWN && ((u->flags & FLUX_MSGF_UPSTREAM) ||
                                      (u->nodeid != FLUX_NODEID_ANY && u->nodeid != c->cfg.rank) ||
                                      !hmap_get(c->services, u->name)))
            continue;
        snprintf(topic, sizeof(topic), "%s.disconnect", u->name);
        if (!(msg = flux_msg_create(FLUX_MSG_REQUEST, topic)))
            continue;
        flux_msg_set_nodeid(msg, u->nodeid);
        if (u->ntags > 0)
            (void)flux_msg_set_raw(msg, u->tags, INFLIGHT_TAG * u->ntags);
        flux_msg_set_flags(msg, u->flags | FLUX_MSGF_NORESPONSE);
        flux_msg_set_term(msg, c->term);
        flux_msg_set_cred(msg, c->cfg.userid, FLUX_ROLE_BROKER);
        route_request(c, msg, ep, NULL);
    }
}

static void remove_services(endpoint_t *ep)
{
    core_t *c = ep->core;
    size_t pos = 0;
    const void *key;
    void *val;

    while (hmap_next(c->services, &pos, &key, NULL, &val)) {
        if (val == ep)
            hmap_del(c->services, key);
    }
}

void core_endpoint_remove(endpoint_t *ep, int errnum, const char *why)
{
    if (ep) {
        core_t *c = ep->core;
        int saved = errno;

        remove_services(ep);
        event_unsubscribe_all(ep);
        inflight_fail(c, &ep->to, errnum, why);
        note_pending(ep);
        inflight_forget(c, &ep->from, false);
        disconnect_services(ep);
        hmap_del_u64(c->endpoints, ep->id);
        endpoint_free(ep);
        errno = saved;
    }
}

static void move_asked(endpoint_t *old, endpoint_t *fresh)
{
    struct list_node *n;

    while ((n = list_first(&old->from))) {
        list_remove(n);
        list_entry(n, struct inflight, from_node)->from_ep = fresh;
        list_append(&fresh->from, n);
        old->inflight--;
        fresh->inflight++;
    }
}

void core_endpoint_replace(endpoint_t *old, endpoint_t *fresh, bool whole)
{
    core_t *c = old->core;
    uint32_t id = old->id;
    hmap_t *used = old->used;
    struct list_node *n;
    size_t pos = 0;
    const void *key;
    void *val;

    while (hmap_next(c->services, &pos, &key, NULL, &val)) {
        if (val == old)
            hmap_put(c->services, key, fresh);
    }
    /* Both endpoints are in the table, so exchanging them allocates no memory. */
    hmap_put_u64(c->endpoints, id, fresh);
    hmap_put_u64(c->endpoints, fresh->id, old);
    old->id = fresh->id;
    fresh->id = id;
    old->used = fresh->used;
    fresh->used = used;
    if (whole)
        move_asked(old, fresh);
    inflight_forget(c, &old->from, false);
    while ((n = list_first(&old->to))) {
        struct inflight *f = list_entry(n, struct inflight, to_node);
        list_remove(n);
        f->to_ep = fresh;
        list_append(&fresh->to, &f->to_node);
        if (!whole)
            fresh->ops->send(fresh->arg, flux_msg_incref(f->req));
    }
}

unsigned core_endpoint_inflight(const endpoint_t *ep)
{
    return ep->inflight;
}

int core_service_add(core_t *c, const char *name, endpoint_t *ep)
{
    if (hmap_get(c->services, name)) {
        errno = EEXIST;
        return -1;
    }
    return hmap_put(c->services, name, ep);
}

int core_service_add_self(core_t *c, const char *name)
{
    return core_service_add(c, name, c->self);
}

/* --- queries --- */

flux_t *core_handle(core_t *c)
{
    return c->h;
}

enum core_state core_state(const core_t *c)
{
    return c->state;
}

bool core_session_runs(const core_t *c)
{
    return c->state == CORE_RUN || c->joined_late;
}

uint32_t core_rank(const core_t *c)
{
    return c->cfg.rank;
}

uint32_t core_size(const core_t *c)
{
    return c->cfg.size;
}

uint32_t core_userid(const core_t *c)
{
    return c->cfg.userid;
}

const topology_t *core_topology(const core_t *c)
{
    return c->topo;
}

flux_reactor_t *core_reactor(core_t *c)
{
    return c->r;
}

int core_exit_code(const core_t *c)
{
    return c->exit_code;
}

bool core_down_announced(const core_t *c)
{
    return c->down_announced;
}

bool core_parent_gone(const core_t *c)
{
    return c->parent_left || c->counted_lost ||
           (c->parent && c->parent->lost && !c->down_announced);
}

bool core_left_for_good(const core_t *c)
{
    return c->left_for_good;
}

const idset_t *core_ranks_up(const core_t *c)
{
    return c->up;
}

const idset_t *core_ranks_lost(const core_t *c)
{
    return c->lost;
}

const sessmap_t *core_map(const core_t *c)
{
    return c->map;
}

void core_get_stats(const core_t *c, struct core_stats *st)
{
    *st = c->stats;
    st->link_bytes_max = c->link && c->link->peak ? c->link->peak(c->link_arg) : 0;
}

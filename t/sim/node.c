/* node.c - one broker of a simulated session, with its modules and clients.
 *
 * A client or module is a flux handle whose messages pass through the clock on their way to the
 * core and back, first in first out, each with a small delay.  Here everything is checked that a
 * client can see, whatever the scenario does:
 *
 *  1. A request that wants an answer gets exactly one last response: a second one, or one that
 *     nobody waits for, is a violation at once; a missing one is found by sim_check_quiet().
 *  2. A subscriber to everything sees consecutive event numbers, until an event.lost says that no
 *     more will come, because a broker above was lost.
 *  3. An event number stands for the same event at all ranks.
 *  4. A broker's states only go forward; another broker of its rank begins anew.
 */
#include "config.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "broker/control_wire.h"
#include "engine.h"
#include "libflux/event_wire.h"
#include "sim.h"

static uint64_t hash_bytes(uint64_t h, const void *data, size_t len)
{
    const unsigned char *p = data;

    for (size_t i = 0; i < len; i++)
        h = (h ^ p[i]) * UINT64_C(0x100000001b3);
    return h;
}

static uint64_t hash_event(const flux_msg_t *msg)
{
    size_t len;
    const void *data = flux_msg_payload(msg, &len);
    uint64_t h =
        hash_bytes(UINT64_C(0xcbf29ce484222325), flux_msg_topic(msg), strlen(flux_msg_topic(msg)));

    return hash_bytes(h + flux_msg_nodeid(msg), data, len) | 1;
}

/* No event may be lost but those that follow the loss of a broker above: no buffer of a simulated
 * session is too small for what is missed meanwhile, and rank 0 has had all events. */
static void check_lost(struct sim_ep *e, const flux_msg_t *msg)
{
    sim_t *s = e->broker->sim;
    struct event_lost lost;
    errmsg_t err;
    size_t len;
    const char *json = flux_msg_payload(msg, &len);
    json_t *obj = flux_schema_decode(&event_lost_schema, json, len, &lost, &err);

    if (!obj)
        sim_fail(s, "rank %u: event.lost cannot be read: %s", e->broker->rank, err.text);
    else if (s->faults == 0 || lost.to != 0)
        sim_fail(s, "rank %u: events %llu to %llu are said to be lost, after %llu faults",
                 e->broker->rank, (unsigned long long)lost.from, (unsigned long long)lost.to,
                 (unsigned long long)s->faults);
    else if (e->all_events && e->last_event > 0 && lost.from != e->last_event + 1)
        sim_fail(s, "rank %u: events from %llu on are said to be lost, after event %llu",
                 e->broker->rank, (unsigned long long)lost.from, (unsigned long long)e->last_event);
    e->cut_off = true;
    json_decref(obj);
}

static void check_event(struct sim_ep *e, const flux_msg_t *msg)
{
    sim_t *s = e->broker->sim;
    uint64_t seq = flux_msg_seq(msg);
    uint64_t hash = hash_event(msg);
    void *seen;

    if (strcmp(flux_msg_topic(msg), "event.lost") == 0) {
        check_lost(e, msg);
        return;
    }
    if (e->cut_off)
        sim_fail(s, "rank %u: event %llu (%s) came after all further ones were said to be lost",
                 e->broker->rank, (unsigned long long)seq, flux_msg_topic(msg));
    seen = hmap_get_u64(s->events, seq);
    if (!seen)
        hmap_put_u64(s->events, seq, (void *)(uintptr_t)hash);
    else if ((uint64_t)(uintptr_t)seen != hash)
        sim_fail(s, "rank %u: event %llu is not the one that others saw (%s)", e->broker->rank,
                 (unsigned long long)seq, flux_msg_topic(msg));
    if (e->all_events) {
        if (e->last_event > 0 && seq != e->last_event + 1)
            sim_fail(s, "rank %u: event %llu (%s) came after event %llu", e->broker->rank,
                     (unsigned long long)seq, flux_msg_topic(msg),
                     (unsigned long long)e->last_event);
        e->last_event = seq;
    }
}

static void check_response(struct sim_ep *e, const flux_msg_t *msg)
{
    uint32_t tag = flux_msg_matchtag(msg);

    if (!hmap_get_u64(e->waiting, tag) && e->succeeds)
        return; /* its predecessor has asked */
    if (!hmap_get_u64(e->waiting, tag))
        sim_fail(e->broker->sim,
                 "rank %u: %s got a response to %s (tag %u, errnum %d) that it does not wait for",
                 e->broker->rank, e->name, flux_msg_topic(msg), tag, flux_msg_errnum(msg));
    else if (!flux_msg_has_flag(msg, FLUX_MSGF_STREAMING))
        hmap_del_u64(e->waiting, tag);
}

/* --- a store that fails --- */

/* Is this commit of the job module to be refused, or what it was answered to be hidden? */
static bool store_fails(struct sim_ep *e, const flux_msg_t *msg)
{
    sim_t *s = e->broker->sim;

    return s->store_fails > 0. && e->kind == ENDPOINT_MODULE && strcmp(e->name, "job") == 0 &&
           strcmp(flux_msg_topic(msg), "kvs.commit") == 0 && rng_chance(&s->rng, s->store_fails);
}

/* The message is taken over. */
static flux_msg_t *refused(sim_t *s, flux_msg_t *msg)
{
    flux_msg_t *r = flux_msg_type(msg) == FLUX_MSG_REQUEST ? flux_msg_response_create(msg, ENOSPC)
                                                           : flux_msg_copy(msg);

    if (!r) {
        sim_fail(s, "out of memory");
        return msg;
    }
    flux_msg_set_errnum(r, ENOSPC);
    flux_msg_set_raw(r, NULL, 0);
    flux_msg_destroy(msg);
    s->faults++;
    return r;
}

/* --- handles --- */

static void to_core(void *arg, void *data)
{
    struct sim_ep *e = arg;

    if (e->gone || e->broker->state != NODE_ON)
        flux_msg_destroy(data);
    else
        core_endpoint_input(e->ep, data);
}

/* What a module's successor gets although nobody waits for an answer. */
static bool is_mail(const flux_msg_t *msg)
{
    return flux_msg_type(msg) == FLUX_MSG_REQUEST && flux_msg_has_flag(msg, FLUX_MSGF_NORESPONSE);
}

static int put_off(struct sim_ep *e, int64_t *last, vevent_f cb, flux_msg_t *msg);

static void to_handle(void *arg, void *data)
{
    struct sim_ep *e = arg;
    flux_msg_t *msg = data;
    sim_t *s = e->broker->sim;

    if (e->successor && is_mail(msg)) { /* behind the requests that its predecessor left */
        if (put_off(e->successor, &e->successor->last_out, to_handle, msg) < 0)
            flux_msg_destroy(msg);
        return;
    }
    if (e->gone || !e->h || e->broker->state != NODE_ON) {
        flux_msg_destroy(msg);
        return;
    }
    s->messages++;
    if (s->cfg.plant != PLANT_NONE)
        msg = plant_message(e, msg);
    if (flux_msg_type(msg) == FLUX_MSG_RESPONSE && store_fails(e, msg))
        msg = refused(s, msg);
    sim_trace_add(s, (uint64_t)flux_msg_type(msg) << 32 | e->broker->rank,
                  (uint64_t)flux_msg_matchtag(msg) << 32 ^ (uint64_t)flux_msg_errnum(msg) << 16 ^
                      flux_msg_seq(msg));
    if (flux_msg_type(msg) == FLUX_MSG_EVENT)
        check_event(e, msg);
    else if (flux_msg_type(msg) == FLUX_MSG_RESPONSE)
        check_response(e, msg);
    if (s->failed)
        flux_msg_destroy(msg);
    else
        flux_handle_deliver(e->h, msg);
}

static int put_off(struct sim_ep *e, int64_t *last, vevent_f cb, flux_msg_t *msg)
{
    sim_t *s = e->broker->sim;
    int64_t at = sim_now(s) + sim_draw(s, &s->local_delay);

    if (at < *last)
        at = *last;
    *last = at;
    return vclock_add(s->clock, &e->broker->owner, at, false, cb, e, msg) ? 0 : -1;
}

static int handle_send(void *impl, flux_msg_t *msg)
{
    struct sim_ep *e = impl;
    int rc;

    if (e->gone || e->broker->state != NODE_ON) {
        flux_msg_destroy(msg);
        errno = EPIPE;
        return -1;
    }
    if (flux_msg_type(msg) == FLUX_MSG_REQUEST && !flux_msg_has_flag(msg, FLUX_MSGF_NORESPONSE)) {
        flux_msg_t *ref = flux_msg_incref(msg);
        if (hmap_put_u64(e->waiting, flux_msg_matchtag(msg), ref) < 0)
            flux_msg_destroy(ref);
    }
    if (flux_msg_type(msg) == FLUX_MSG_REQUEST && store_fails(e, msg)) {
        msg = refused(e->broker->sim, msg);
        rc = put_off(e, &e->last_out, to_handle, msg);
    } else {
        rc = put_off(e, &e->last_in, to_core, msg);
    }
    if (rc < 0)
        flux_msg_destroy(msg);
    return rc;
}

void node_deliver(struct sim_ep *e, flux_msg_t *msg)
{
    if (e->gone || put_off(e, &e->last_out, to_handle, msg) < 0)
        flux_msg_destroy(msg);
}

static void endpoint_send(void *arg, flux_msg_t *msg)
{
    node_deliver(arg, msg);
}

static const struct flux_handle_ops handle_ops = {.send = handle_send};
static const struct endpoint_ops endpoint_ops = {.send = endpoint_send};

void node_discard(vevent_f cb, void *data)
{
    if (cb == to_core || cb == to_handle)
        flux_msg_destroy(data);
}

static void free_msg(void *val)
{
    flux_msg_destroy(val);
}

struct sim_ep *node_ep_add(struct node *n, enum endpoint_kind kind, const char *name)
{
    sim_t *s = n->sim;
    struct sim_ep *e = calloc(1, sizeof(*e));
    uint32_t role = kind == ENDPOINT_CLIENT ? FLUX_ROLE_OWNER : FLUX_ROLE_OWNER | FLUX_ROLE_BROKER;

    if (!e)
        return NULL;
    list_init(&e->node);
    list_append(&n->eps, &e->node);
    e->broker = n;
    e->kind = kind;
    snprintf(e->name, sizeof(e->name), "%s", name);
    if ((e->waiting = hmap_create_u64(free_msg)) &&
        (e->h = flux_handle_create(&handle_ops, e, n->reactor, n->rank, s->cfg.size,
                                   rng_next(&s->rng))) &&
        (e->ep =
             core_endpoint_add(n->core, kind, name, core_userid(n->core), role, &endpoint_ops, e)))
        return e;
    sim_fail(s, "out of memory for %s at rank %u", name, n->rank);
    e->gone = true;
    return NULL;
}

struct sim_ep *sim_client_add(sim_t *s, uint32_t rank, const char *name)
{
    return node_ep_add(&s->nodes[rank], ENDPOINT_CLIENT, name);
}

/* Close its handle; what it still sends goes nowhere. */
static void ep_close(struct sim_ep *e)
{
    e->gone = true;
    if (e->module && e->module_ctx)
        e->module->fini(e->h, e->module_ctx);
    e->module_ctx = NULL;
    flux_close(e->h);
    e->h = NULL;
}

void sim_client_remove(struct sim_ep *e)
{
    if (e->gone)
        return;
    ep_close(e);
    core_endpoint_remove(e->ep, EHOSTUNREACH, "the broker has ended before it answered");
    e->ep = NULL;
}

/* --- life --- */

static void node_end(struct node *n, enum node_state state)
{
    n->state = state;
    LIST_FOREACH(it, &n->eps)
    {
        struct sim_ep *e = list_entry(it, struct sim_ep, node);
        if (!e->gone)
            ep_close(e);
        e->ep = NULL;
    }
    live_stop(n);
    core_destroy(n->core);
    n->core = NULL;
}

void node_kill(struct node *n)
{
    if (n->state != NODE_ON && n->state != NODE_OFF)
        return;
    if (n->sim->cfg.trace)
        printf("%14.6f  %u dies\n", 1e-9 * (double)sim_now(n->sim), n->rank);
    if (n->start_at > sim_now(n->sim))
        n->start_at = sim_now(n->sim);
    node_end(n, NODE_DEAD);
    vowner_continue(n->sim->clock, &n->owner);
    net_lost(n, false);
}

void node_free(struct node *n)
{
    if (n->core)
        node_end(n, NODE_DEAD);
    LIST_FOREACH_SAFE(it, tmp, &n->eps)
    {
        struct sim_ep *e = list_entry(it, struct sim_ep, node);
        flux_close(e->h);
        hmap_destroy(e->waiting);
        free(e);
    }
    flux_reactor_destroy(n->reactor);
}

static void exited(void *arg, void *data)
{
    struct node *n = arg;

    if (n->state == NODE_ON) {
        n->exit_code = core_exit_code(n->core);
        node_end(n, NODE_EXITED);
        net_lost(n, true);
    }
}

static void unload(void *arg, void *data)
{
    struct node *n = arg;

    if (n->state != NODE_ON)
        return;
    LIST_FOREACH(it, &n->eps)
    {
        struct sim_ep *e = list_entry(it, struct sim_ep, node);
        if (e->kind == ENDPOINT_MODULE)
            sim_client_remove(e);
    }
    core_local_down_done(n->core);
}

static void state_cb(core_t *c, enum core_state state, void *arg)
{
    struct node *n = arg;
    sim_t *s = n->sim;

    if (s->cfg.trace)
        printf("%14.6f  %u is in state %s\n", 1e-9 * (double)sim_now(s), n->rank,
               core_state_name(state));
    sim_trace_add(s, 3, (uint64_t)n->rank << 8 | state);
    if (state < n->last_state)
        sim_fail(s, "rank %u went back from state %s to %s", n->rank,
                 core_state_name(n->last_state), core_state_name(state));
    if (state == CORE_DOWN && n->last_state == CORE_DOWN)
        vclock_add(s->clock, &n->owner, sim_now(s) + sim_draw(s, &s->local_delay), false, unload, n,
                   NULL);
    if (state == CORE_RUN)
        n->run_at = sim_now(s);
    if (state == CORE_EXIT)
        vclock_add(s->clock, &n->owner, sim_now(s), false, exited, n, NULL);
    n->last_state = state;
}

static void log_cb(core_t *c, int level, const char *text, void *arg)
{
    struct node *n = arg;

    if (n->sim->cfg.trace)
        printf("%14.6f  %u says: %s\n", 1e-9 * (double)sim_now(n->sim), n->rank, text);
}

static void local_ready(void *arg, void *data)
{
    struct node *n = arg;

    if (n->state == NODE_ON)
        core_local_ready(n->core);
}

static void add_ancestors(struct node *n)
{
    struct control_card card = {.tree = "", .event = "", .key = "", .ticket = ""};

    for (card.rank = topology_parent(n->sim->topo, n->rank); card.rank != TOPOLOGY_NONE;
         card.rank = topology_parent(n->sim->topo, card.rank))
        if (core_ancestor_add(n->core, &card) < 0)
            sim_fail(n->sim, "out of memory");
}

void node_start(struct node *n)
{
    static const struct core_callbacks cbs = {.state = state_cb, .log = log_cb};
    sim_t *s = n->sim;
    struct core_config cfg;
    errmsg_t err = {""};

    if (n->state != NODE_OFF)
        return;
    core_config_init(&cfg);
    cfg.rank = n->rank;
    cfg.size = s->cfg.size;
    cfg.topology = s->cfg.topology;
    cfg.userid = 1000;
    cfg.seed = s->cfg.seed + s->sessions;
    cfg.heal_timeout = s->cfg.heal;
    cfg.settle = s->cfg.settle;
    cfg.fanout_max = s->cfg.fanout_max;
    if (s->event_buffer)
        cfg.event_buffer = s->event_buffer;
    if (!(n->reactor = engine_create(s->clock, &n->owner, &n->wall, n->rate)) ||
        !(n->core = core_create(&cfg, n->reactor, &cbs, n, &err))) {
        sim_fail(s, "rank %u was not created: %s", n->rank, err.text);
        return;
    }
    n->state = NODE_ON;
    snprintf(n->address, sizeof(n->address), "sim://%u.%u", n->rank, ++n->starts);
    core_set_link(n->core, &sim_link_ops, n);
    if (s->cfg.heal > 0.)
        add_ancestors(n);
    sim_modules_load(n);
    if (core_start(n->core) < 0)
        sim_fail(s, "rank %u did not start: %s", n->rank, strerror(errno));
    net_started(n);
    live_start(n);
    vclock_add(s->clock, &n->owner, sim_now(s) + sim_draw(s, &s->local_delay), false, local_ready,
               n, NULL);
}

void node_restart(struct node *n)
{
    if (n->state != NODE_DEAD && n->state != NODE_EXITED)
        return;
    flux_reactor_destroy(n->reactor);
    n->reactor = NULL;
    n->state = NODE_OFF;
    n->leaves = false;
    n->last_state = CORE_JOIN;
    n->start_at = sim_now(n->sim);
    net_back(n);
    node_start(n);
}

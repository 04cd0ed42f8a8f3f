/* ledger.c - a service at rank 0 that writes down who has asked, as a service with a state would.
 *
 * Clients at all ranks write: "ledger.write", a raw struct entry.  The service learns from events
 * which ranks are lost, and which are up again, as every service does.  Of what it gets it
 * requires:
 *
 *  1. A rank that was announced as lost does not write before it is announced as up.
 *  2. Then another broker of the rank writes, and none of those before it.
 *  3. What a client writes arrives once, and in order; some of it may not arrive.  What comes along
 *     the ring, because the tree is cut, may be overtaken by what comes when it has healed.
 *  4. Each broker of a rank is announced as the next incarnation of the rank.
 *  5. A broker moves up in the tree at most once for each connection to a parent that has ended.
 *
 * So a zombie is noticed here: a broker that the session has counted as lost, and that goes on.
 */
#include "config.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ledger.h"
#include "libflux/overlay_wire.h"

/* What is known of a rank. */
struct page {
    bool lost;
    bool fresh;      /* it is up, and has not written since */
    unsigned broker; /* that has written last */
    uint32_t number; /* of its last entry */
    uint32_t incarnation;
    uint32_t parent;
    unsigned climbs; /* moves to a parent above its parent */
    unsigned given;  /* moves to a parent that is not above it in the shape */
    /* Of the client that writes next. */
    struct sim_ep *client;
    unsigned client_of; /* the broker */
    uint32_t written;
};

struct ledger {
    sim_t *s;
    flux_handlers_t *handlers;
    flux_future_t *subscribed;
    struct page *pages; /* by rank */
};

/* --- the service --- */

static void write_cb(flux_t *h, const flux_msg_t *req, void *arg)
{
    struct ledger *l = arg;
    size_t len;
    const void *data = flux_msg_payload(req, &len);
    bool ring = flux_msg_has_flag(req, FLUX_MSGF_RING);
    struct ledger_entry e;
    struct page *p;

    if (len != sizeof(e)) {
        flux_respond_error(h, req, EPROTO, "that is not an entry");
        return;
    }
    memcpy(&e, data, sizeof(e));
    p = &l->pages[e.rank];
    if (p->lost)
        sim_fail(l->s, "rank %u, which was announced as lost, has written", e.rank);
    else if (e.broker < p->broker || (p->fresh && e.broker == p->broker))
        sim_fail(l->s, "broker %u of rank %u has written, which was announced as lost", e.broker,
                 e.rank);
    else if (!ring && e.broker == p->broker && e.number <= p->number)
        sim_fail(l->s, "entry %u of rank %u came after entry %u", e.number, e.rank, p->number);
    if (e.broker != p->broker)
        p->number = 0;
    if (!ring)
        p->number = e.number;
    p->fresh = false;
    p->broker = e.broker;
    flux_respond_raw(h, req, NULL, 0);
}

static void note_down(struct ledger *l, const char *text)
{
    idset_t *ranks = idset_parse(text, NULL);

    for (uint32_t r = ranks ? idset_first(ranks) : IDSET_NONE; r != IDSET_NONE;
         r = idset_next(ranks, r))
        l->pages[r].lost = true;
    idset_destroy(ranks);
}

static void down_cb(flux_t *h, const flux_msg_t *msg, void *arg)
{
    struct overlay_down d = {0};
    const char *json = flux_msg_json(msg);
    json_t *o =
        json ? flux_schema_decode(&overlay_down_schema, json, strlen(json), &d, NULL) : NULL;

    if (o)
        note_down(arg, d.ranks);
    json_decref(o);
}

static void note_up(struct ledger *l, const struct overlay_up *u)
{
    idset_t *ranks = idset_parse(u->ranks, NULL);

    for (uint32_t r = ranks ? idset_first(ranks) : IDSET_NONE; r != IDSET_NONE;
         r = idset_next(ranks, r)) {
        struct page *p = &l->pages[r];

        if (u->incarnation != p->incarnation + 1)
            sim_fail(l->s, "rank %u is up as incarnation %u, after incarnation %u", r,
                     u->incarnation, p->incarnation);
        p->incarnation = u->incarnation;
        p->parent = r > 0 ? topology_parent(l->s->topo, r) : 0;
        p->fresh = p->lost;
        p->lost = false;
    }
    idset_destroy(ranks);
}

static void up_cb(flux_t *h, const flux_msg_t *msg, void *arg)
{
    struct overlay_up u = {0};
    const char *json = flux_msg_json(msg);
    json_t *o = json ? flux_schema_decode(&overlay_up_schema, json, strlen(json), &u, NULL) : NULL;

    if (o)
        note_up(arg, &u);
    json_decref(o);
}

static void note_moved(struct ledger *l, const struct overlay_moved *m)
{
    const sim_t *s = l->s;
    struct page *p = &l->pages[m->rank];

    /* A host gives it up again. */
    if (!topology_is_ancestor(s->topo, m->parent, m->rank) &&
        ++p->given > p->climbs + 1 + s->faults)
        sim_fail(l->s, "rank %u was given to others %u times, after %llu faults", m->rank, p->given,
                 (unsigned long long)s->faults);
    if (topology_is_ancestor(s->topo, m->parent, p->parent) && m->parent != p->parent &&
        ++p->climbs > s->nodes[m->rank].ends + p->given)
        sim_fail(l->s,
                 "rank %u has moved up %u times, lost its parent %u times, and was given to "
                 "others %u times",
                 m->rank, p->climbs, s->nodes[m->rank].ends, p->given);
    p->parent = m->parent;
}

static void moved_cb(flux_t *h, const flux_msg_t *msg, void *arg)
{
    struct overlay_moved m = {0};
    const char *json = flux_msg_json(msg);
    json_t *o =
        json ? flux_schema_decode(&overlay_moved_schema, json, strlen(json), &m, NULL) : NULL;

    if (o)
        note_moved(arg, &m);
    json_decref(o);
}

static const struct flux_handler handlers[] = {
    {FLUX_MSG_REQUEST, "ledger.write", write_cb, 0},
    {FLUX_MSG_EVENT, "overlay.down", down_cb, 0},
    {FLUX_MSG_EVENT, "overlay.up", up_cb, 0},
    {FLUX_MSG_EVENT, "overlay.moved", moved_cb, 0},
    FLUX_HANDLER_END,
};

static void ledger_fini(flux_t *h, void *arg)
{
    struct ledger *l = arg;

    (void)h;
    flux_future_destroy(l->subscribed);
    flux_handlers_remove(l->handlers);
    free(l->pages);
    free(l);
}

static int ledger_init(flux_t *h, int argc, char **argv, void **arg, errmsg_t *err)
{
    const struct sim_ep *e = flux_handle_impl(h);
    sim_t *s = e->broker->sim;
    struct ledger *l = calloc(1, sizeof(*l));

    (void)argc, (void)argv;
    if (!l || !(l->pages = calloc(s->cfg.size, sizeof(*l->pages))) ||
        !(l->handlers = flux_handlers_add(h, handlers, l)) ||
        !(l->subscribed = flux_event_subscribe(h, "overlay."))) {
        if (l)
            ledger_fini(h, l);
        return errmsg_fail(err, ENOMEM, "out of memory");
    }
    l->s = s;
    for (uint32_t r = 0; r < s->cfg.size; r++)
        l->pages[r] = (struct page){.broker = s->nodes[r].starts,
                                    .incarnation = 1,
                                    .parent = r > 0 ? topology_parent(s->topo, r) : 0};
    *arg = l;
    return 0;
}

FLUX_MODULE(ledger, ledger_init, ledger_fini);

/* --- those who write --- */

void ledger_start(sim_t *s)
{
    sim_module_add(s, 0, &flux_module_ledger, NULL);
}

static struct ledger *find(const sim_t *s)
{
    const struct sim_ep *service = sim_module_find((sim_t *)s, 0, "ledger");

    return service ? service->module_ctx : NULL;
}

uint32_t ledger_incarnation(const sim_t *s, uint32_t rank)
{
    const struct ledger *l = find(s);

    return l ? l->pages[rank].incarnation : 0;
}

static void written_cb(flux_future_t *f, void *arg)
{
    (void)arg; /* it may have failed: brokers die */
    flux_future_destroy(f);
}

void ledger_write(sim_t *s, uint32_t rank)
{
    const struct ledger *l = find(s);
    struct node *n = &s->nodes[rank];
    struct page *p = l ? &l->pages[rank] : NULL;
    flux_future_t *f;

    if (!p || n->state != NODE_ON || core_state(n->core) != CORE_RUN)
        return;
    if (!p->client || p->client_of != n->starts) {
        if (!(p->client = sim_client_add(s, rank, "writer")))
            return;
        p->client_of = n->starts;
        p->written = 0;
    }
    const struct ledger_entry e = {rank, n->starts, ++p->written};
    f = flux_rpc_raw(p->client->h, "ledger.write", &e, sizeof(e), 0, 0);
    if (!f || flux_future_then(f, -1., written_cb, NULL) < 0)
        sim_fail(s, "out of memory");
}

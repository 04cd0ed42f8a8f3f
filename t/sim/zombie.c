/* zombie.c - a broker that was counted as lost goes on, before or after another one of its rank is
 * up.
 *
 * In truth it is dead.  What it would send, had it only been cut off, is given to a broker above
 * its parent, as if it had come by a connection to that: a broker that has lost its parent looks
 * for one.  Nothing of it may have an effect: its rank is lost, or its hello names an earlier
 * incarnation, and nothing else is received before a welcome.
 *
 * With a planted fault (PLANT_STALE) the hello names the present incarnation, or (PLANT_ZOMBIE)
 * what it writes comes by the connection of the broker that is up.
 */
#include "config.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "broker/control_wire.h"
#include "broker/core_private.h"
#include "ledger.h"

static flux_msg_t *control(const struct flux_method *m, const void *in)
{
    flux_msg_t *msg = flux_msg_create(FLUX_MSG_CONTROL, m->topic);
    char *json = flux_schema_encode(m->request, in);

    if (msg && json && flux_msg_set_json(msg, json) == 0) {
        flux_msg_set_term(msg, 1);
        free(json);
        return msg;
    }
    free(json);
    flux_msg_destroy(msg);
    return NULL;
}

static flux_msg_t *entry(const struct node *n, uint32_t broker)
{
    const struct ledger_entry e = {n->rank, broker, UINT32_MAX};
    flux_msg_t *msg = flux_msg_create(FLUX_MSG_REQUEST, "ledger.write");

    if (!msg || flux_msg_set_raw(msg, &e, sizeof(e)) < 0) {
        flux_msg_destroy(msg);
        return NULL;
    }
    flux_msg_set_cred(msg, 1000, FLUX_ROLE_OWNER);
    flux_msg_set_nodeid(msg, 0);
    flux_msg_set_flags(msg, FLUX_MSGF_NORESPONSE);
    flux_msg_set_term(msg, 1);
    return msg;
}

static void give(struct node *to, uint32_t from, flux_msg_t *msg)
{
    if (msg)
        core_link_input(to->core, CORE_TREE, from, msg);
    else
        sim_fail(to->sim, "out of memory");
}

/* One above the parent of `n` that lets it connect; NULL: there is none. */
static struct node *above(const struct node *n)
{
    sim_t *s = n->sim;
    uint32_t r = topology_parent(s->topo, n->rank);

    while (r != 0) {
        struct node *to = &s->nodes[r = topology_parent(s->topo, r)];

        if (to->state == NODE_ON && !net_connects(n, to) && core_peer_adopt(to->core, n->rank))
            return to;
    }
    return NULL;
}

static void gone(void *arg, void *data)
{
    struct node *to = arg;
    const struct node *n = data;

    if (to->state == NODE_ON && !net_connects(n, to))
        core_peer_lost(to->core, CORE_TREE, n->rank, "a zombie has gone");
}

void zombie_visit(sim_t *s, uint32_t rank)
{
    struct node *n = &s->nodes[rank];
    uint32_t incarnation = ledger_incarnation(s, rank);
    struct node *to;
    char own[16];

    if (incarnation == 0 || (n->state == NODE_ON ? incarnation < 2 : n->state != NODE_DEAD))
        return;
    if (s->cfg.plant == PLANT_ZOMBIE && n->state == NODE_ON) {
        s->broke++;
        give(sim_parent(n), rank, entry(n, n->starts - 1));
        return;
    }
    if (!(to = above(n)))
        return;
    s->faults++;
    sim_trace_add(s, 14, rank);
    if (n->state == NODE_ON && s->cfg.plant == PLANT_STALE)
        s->broke++;
    else if (n->state == NODE_ON)
        incarnation--;
    snprintf(own, sizeof(own), "%u", rank);
    const struct control_hello h = {.rank = rank,
                                    .size = s->cfg.size,
                                    .topology = topology_spec(s->topo),
                                    .version = 1,
                                    .below = own,
                                    .incarnation = incarnation,
                                    .move = incarnation << 16 | 0xff,
                                    .session = to->core->session};
    const struct control_text lost = {.ranks = own, .by = rank, .why = "a zombie says so"};

    core_peer_back(to->core, CORE_TREE, rank);
    give(to, rank, control(&control_up[CONTROL_HELLO], &h));
    give(to, rank, entry(n, n->starts - (n->state == NODE_ON)));
    give(to, rank, control(&control_up[CONTROL_LOST], &lost));
    /* A hello that is accepted waits for the end of the earlier way. */
    sim_at(s, sim_now(s) + 2 * SIM_S, gone, to, n);
}

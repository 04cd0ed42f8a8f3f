/* plant_heal.c - faults planted in what brokers and services say while a session heals, to see
 * whether they are noticed.
 *
 * Each is what an error of the healing would look like to those who get the message.
 */
#include "config.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim.h"

static bool has_moved(const struct node *n)
{
    return n->way && n->way->up.to->rank != topology_parent(n->sim->topo, n->rank);
}

/* Deliver it once more. */
static void again(struct sim_ep *e, const flux_msg_t *msg)
{
    flux_msg_t *copy = flux_msg_copy(msg);

    if (copy) {
        e->broker->sim->broke++;
        node_deliver(e, copy);
    }
}

/* Replace a string in the payload, which is an object.  The message is taken over. */
static flux_msg_t *with_text(sim_t *s, flux_msg_t *msg, const char *name, const char *text)
{
    json_t *m = json_loads(flux_msg_json(msg), 0, NULL);
    flux_msg_t *copy = flux_msg_copy(msg);
    char *json = NULL;

    if (m && copy && json_object_set_new(m, name, json_string(text)) == 0 &&
        (json = json_dumps(m, JSON_COMPACT)) && flux_msg_set_json(copy, json) == 0) {
        s->broke++;
        flux_msg_destroy(msg);
        msg = copy;
        copy = NULL;
    }
    flux_msg_destroy(copy);
    free(json);
    json_decref(m);
    return msg;
}

/* A string of the payload, to be freed; NULL: there is none. */
static char *text_of(const flux_msg_t *msg, const char *name)
{
    const char *json = flux_msg_json(msg);
    json_t *m = json ? json_loads(json, 0, NULL) : NULL;
    const char *value = json_string_value(json_object_get(m, name));
    char *text = value ? strdup(value) : NULL;

    json_decref(m);
    return text;
}

/* What was reported last to an instance of the barrier is not among the entries. */
static flux_msg_t *forget(struct sim_ep *e, flux_msg_t *msg)
{
    char *entries = text_of(msg, "entries");
    char *last = entries ? strrchr(entries, ',') : NULL;

    if (last) {
        *last = '\0';
        msg = with_text(e->broker->sim, msg, "entries", entries);
    }
    free(entries);
    return msg;
}

flux_msg_t *plant_heal_message(struct sim_ep *e, flux_msg_t *msg)
{
    sim_t *s = e->broker->sim;
    enum flux_msg_type type = flux_msg_type(msg);

    if (s->faults == 0)
        return msg;
    if (s->cfg.plant == PLANT_EVENT_TWICE && type == FLUX_MSG_EVENT && e->all_events &&
        has_moved(e->broker) && rng_chance(&s->rng, 0.1))
        again(e, msg);
    if (s->cfg.plant == PLANT_ANSWER_TWICE && type == FLUX_MSG_RESPONSE &&
        !flux_msg_has_flag(msg, FLUX_MSGF_STREAMING) && rng_chance(&s->rng, 0.1))
        again(e, msg);
    if (s->cfg.plant == PLANT_FORGET && type == FLUX_MSG_REQUEST &&
        strcmp(flux_msg_topic(msg), "barrier.join") == 0)
        msg = forget(e, msg);
    return msg;
}

/* One rank less, or one of its subtree that is dead. */
static bool change(const struct node *n, idset_t *below)
{
    sim_t *s = n->sim;

    if (s->cfg.plant == PLANT_LYING)
        return idset_count(below) > 1 && idset_clear(below, idset_last(below)) == 0;
    for (uint32_t r = n->rank + 1; r < s->cfg.size; r++) {
        if (s->nodes[r].state == NODE_DEAD && topology_is_ancestor(s->topo, n->rank, r))
            return idset_set(below, r) == 0;
    }
    return false;
}

flux_msg_t *plant_heal_control(struct node *n, flux_msg_t *msg)
{
    sim_t *s = n->sim;
    char *text = NULL, *changed = NULL;
    idset_t *below = NULL;

    if ((s->cfg.plant != PLANT_LYING && s->cfg.plant != PLANT_BOASTING) ||
        strcmp(flux_msg_topic(msg), "overlay.hello") != 0)
        return msg;
    text = text_of(msg, "below");
    below = text ? idset_parse(text, NULL) : NULL;
    if (below && change(n, below) && (changed = idset_format(below, 0))) {
        msg = with_text(s, msg, "below", changed);
        if (s->cfg.plant == PLANT_BOASTING) /* otherwise it is not believed */
            msg = with_text(s, msg, "joined", changed);
    }
    free(changed);
    free(text);
    idset_destroy(below);
    return msg;
}

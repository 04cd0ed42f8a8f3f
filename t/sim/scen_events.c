/* scen_events.c - one order of events everywhere.
 *
 * Clients at random ranks publish; others subscribe to everything.  node.c looks for gaps and for a
 * number that stands for two events; here every publisher's number must be the one under which its
 * event arrives, and at the end everybody who has a way to the root must have seen all: also when
 * messages on the event plane are lost, and must be filled in from the parent.
 */
#include "config.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim.h"

#define PUBLISHERS 8
#define EVENTS 6
#define SUBSCRIBERS_MAX 48

struct events {
    sim_t *s;
    bool faults;
    unsigned left;
    uint64_t seq[PUBLISHERS][EVENTS]; /* the number of each, once somebody has seen it */
    struct sim_ep *subs[SUBSCRIBERS_MAX];
    unsigned nsubs;
    unsigned confirmed;
    uint64_t target;
    uint32_t behind; /* who has not seen all */
};

struct publish {
    struct events *ev;
    struct sim_ep *client;
    unsigned p, i;
};

static void note_seq(struct events *ev, unsigned p, unsigned i, uint64_t seq, uint32_t rank)
{
    if (ev->seq[p][i] == 0)
        ev->seq[p][i] = seq;
    else if (ev->seq[p][i] != seq)
        sim_fail(ev->s, "rank %u: event %u of publisher %u has number %llu, others say %llu", rank,
                 i, p, (unsigned long long)seq, (unsigned long long)ev->seq[p][i]);
}

static void event_cb(flux_t *h, const flux_msg_t *msg, void *arg)
{
    struct events *ev = arg;
    unsigned p, i;

    if (sscanf(flux_msg_topic(msg), "test.%u.%u", &p, &i) == 2 && p < PUBLISHERS && i < EVENTS)
        note_seq(ev, p, i, flux_msg_seq(msg), flux_rank(h));
}

static const struct flux_handler handlers[] = {
    {FLUX_MSG_EVENT, "", event_cb, 0},
    FLUX_HANDLER_END,
};

static void subscribed_cb(flux_future_t *f, void *arg)
{
    struct events *ev = arg;

    ev->confirmed++;
    flux_future_destroy(f);
}

static void published_cb(flux_future_t *f, void *arg)
{
    struct publish *p = arg;
    uint64_t seq;
    errmsg_t err;

    if (flux_event_get_seq(f, &seq, &err) == 0)
        note_seq(p->ev, p->p, p->i, seq, p->client->broker->rank);
    else if (!(errno == EHOSTUNREACH && p->ev->faults) &&
             !(errno == EAGAIN && p->ev->s->queue_max > 0))
        sim_fail(p->ev->s, "rank %u: publishing failed: %s", p->client->broker->rank, err.text);
    flux_future_destroy(f);
}

static void publish(void *arg, void *data)
{
    struct publish *p = arg;
    char topic[40];
    flux_future_t *f;

    p->ev->left--;
    if (p->client->gone)
        return;
    snprintf(topic, sizeof(topic), "test.%u.%u", p->p, p->i);
    if (!(f = flux_event_publish(p->client->h, topic, "{\"some\":\"thing\"}")) ||
        flux_future_then(f, -1., published_cb, p) < 0)
        sim_fail(p->ev->s, "out of memory");
}

static bool all_published(sim_t *s, void *arg)
{
    return ((struct events *)arg)->left == 0;
}

static bool all_confirmed(sim_t *s, void *arg)
{
    struct events *ev = arg;

    return ev->confirmed == ev->nsubs;
}

static bool all_seen(sim_t *s, void *arg)
{
    struct events *ev = arg;

    for (; ev->behind < s->cfg.size; ev->behind++) {
        if (sim_connected(s, ev->behind) && core_event_seq(s->nodes[ev->behind].core) < ev->target)
            return false;
    }
    for (unsigned i = 0; i < ev->nsubs; i++) {
        struct sim_ep *e = ev->subs[i];
        if (!e->gone && sim_connected(s, e->broker->rank) && e->last_event < ev->target)
            return false;
    }
    return true;
}

static void subscribe(struct events *ev)
{
    sim_t *s = ev->s;
    unsigned n = s->cfg.size < SUBSCRIBERS_MAX ? s->cfg.size : SUBSCRIBERS_MAX;

    for (unsigned i = 0; i < n && !s->failed; i++) {
        uint32_t rank = n == s->cfg.size ? i : rng_below(&s->rng, s->cfg.size);
        struct sim_ep *e = sim_client_add(s, rank, "listener");
        flux_future_t *f;
        if (!e || !flux_handlers_add(e->h, handlers, ev) || !(f = flux_event_subscribe(e->h, "")) ||
            flux_future_then(f, -1., subscribed_cb, ev) < 0)
            return;
        e->all_events = true;
        ev->subs[ev->nsubs++] = e;
    }
}

static void events_run(sim_t *s)
{
    struct events *ev = sim_alloc(s, sizeof(*ev));
    struct sim_ep *root;

    if (!sim_boot(s))
        return;
    ev->s = s;
    ev->faults = rng_chance(&s->rng, 0.5);
    subscribe(ev);
    if (!sim_run_until(s, all_confirmed, ev, SIM_S))
        sim_fail(s, "a subscription was not confirmed");
    if (rng_chance(&s->rng, 0.5))
        s->event_loss = 0.3 * rng_real(&s->rng);
    if (ev->faults)
        sim_faults(s, FAULT_ALL, rng_range(&s->rng, 1, 6), 200 * SIM_MS);
    for (unsigned i = 0; i < PUBLISHERS; i++) {
        struct sim_ep *client = sim_client_add(s, sim_random_alive(s), "publisher");
        for (unsigned k = 0; client && k < EVENTS; k++) {
            struct publish *p = sim_alloc(s, sizeof(*p));
            *p = (struct publish){ev, client, i, k};
            ev->left++;
            sim_at(s, sim_now(s) + rng_below(&s->rng, 200) * SIM_MS, publish, p, NULL);
        }
    }
    sim_run_until(s, all_published, ev, SIM_S);
    sim_run_for(s, 2 * SIM_S + sim_max_delay(s) * 4 * s->cfg.size);
    sim_check_quiet(s);
    /* The last ones may be lost without anybody seeing the gap: one more shows it. */
    s->event_loss = 0.;
    if ((root = sim_client_add(s, 0, "closer")))
        flux_event_send(root->h, "test.end", NULL);
    sim_run_for(s, 50 * SIM_MS);
    if (!s->failed) {
        ev->target = core_event_seq(s->nodes[0].core);
        if (!sim_run_until(s, all_seen, ev, 5 * SIM_S + sim_max_delay(s) * 4 * s->cfg.size))
            sim_fail(s, "rank %u or a listener has not seen event %llu", ev->behind,
                     (unsigned long long)ev->target);
    }
}

const struct scenario scenario_events = {
    "events", "every rank sees the same events in the same order, none left out", events_run, NULL};

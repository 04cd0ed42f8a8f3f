/* live.c - signs of life between the brokers of a simulated session.
 *
 * What the links do with src/broker/link/silence.h is done here for each channel that ends at a
 * broker: it is watched from the first thing on that has come by it.  Signs of life take as long as
 * messages, and are counted nowhere.  Where events have connections of their own
 * (sim_config.event_lines), a parent is slow, or lost, if its events are.
 */
#include "config.h"

#include "sim.h"

void live_heard(struct chan *ch)
{
    struct node *n = ch->to;

    /* Where events and words share a connection, the former are signs of life for both. */
    if (ch->plane == CORE_EVENT && !n->sim->cfg.event_lines)
        ch = &ch->way->down;
    if (!n->silence)
        return;
    if (!ch->begun)
        silence_begin(n->silence, &ch->line);
    ch->begun = true;
    silence_heard(n->silence, &ch->line);
}

/* From the parent, words and events come by two channels: the other one of these; NULL. */
static const struct chan *other(const struct chan *ch)
{
    if (!ch->way || ch == &ch->way->up || !ch->to->sim->cfg.event_lines)
        return NULL;
    return ch == &ch->way->down ? &ch->way->event : &ch->way->down;
}

static void judge(struct node *n, struct chan *ch, bool probe)
{
    sim_t *s = n->sim;
    uint32_t rank = ch->from->rank;
    enum core_plane plane = ch->plane == CORE_RING ? CORE_RING : CORE_TREE;
    const struct chan *beside = other(ch);
    enum silence_verdict v = SILENCE_FINE;

    if (ch->way && ch != &ch->way->up ? ch->way->up.closed : ch->back->closed)
        return; /* it is over, and this broker knows */
    if (ch->begun && !ch->cut)
        v = silence_judge(n->silence, &ch->line, core_peer_patient(n->core, plane, rank));
    if ((v == SILENCE_SLOW || v == SILENCE_LOST) && s->accused)
        s->accused(s, n, ch, v == SILENCE_LOST);
    if (v == SILENCE_LOST) {
        sim_trace_add(s, 11, (uint64_t)n->rank << 32 | rank);
        net_give_up(ch->plane == CORE_EVENT ? &ch->way->down : ch);
        return;
    }
    if (v != SILENCE_FINE && !(beside && beside->begun && beside->line.slow))
        core_peer_slow(n->core, plane, rank, v == SILENCE_SLOW);
    if (probe && ch->back)
        net_sign(ch->back);
}

/* The parent, or a second one.  Its events are not awaited once those of another one come. */
static void judge_above(struct node *n, struct way *w, bool probe)
{
    judge(n, &w->down, probe);
    if (n->sim->cfg.event_lines && !w->quiet)
        judge(n, &w->event, false);
}

static void judge_below(struct node *n, struct way *w, bool probe)
{
    judge(n, &w->up, probe);
    if (n->sim->cfg.event_lines && probe && w->event_link && !w->quiet)
        net_sign(&w->event);
}

static void round_cb(void *arg, bool probe)
{
    struct node *n = arg;
    sim_t *s = n->sim;

    if (n->way)
        judge_above(n, n->way, probe);
    LIST_FOREACH_SAFE(it, tmp, &n->others)
    judge_above(n, list_entry(it, struct way, other), probe);
    LIST_FOREACH_SAFE(it, tmp, &n->children)
    judge_below(n, list_entry(it, struct way, child), probe);
    if (s->cfg.size > 1) {
        judge(n, n->ring_next.back, probe);
        judge(n, n->ring_prev.back, probe);
    }
}

void live_start(struct node *n)
{
    const struct silence_limits *lim = n->sim->cfg.live;

    if (!lim)
        return;
    if (!(n->silence = silence_create(n->reactor, lim, round_cb, n)))
        sim_fail(n->sim, "out of memory");
    else
        silence_start(n->silence);
}

void live_stop(struct node *n)
{
    silence_destroy(n->silence);
    n->silence = NULL;
}

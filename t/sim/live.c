/* live.c - signs of life between the brokers of a simulated session.
 *
 * What the links do with src/broker/link/silence.h is done here for each channel that ends at a
 * broker: it is watched from the first thing on that has come by it.  Signs of life take as long as
 * messages, and are counted nowhere.
 */
#include "config.h"

#include "sim.h"

void live_heard(struct chan *ch)
{
    struct node *n = ch->to;

    /* Events come from the parent by a channel of their own, and count as if by the other one. */
    if (ch->plane == CORE_EVENT)
        ch = &ch->way->down;
    if (!n->silence)
        return;
    if (!ch->begun)
        silence_begin(n->silence, &ch->line);
    ch->begun = true;
    silence_heard(n->silence, &ch->line);
}

static void judge(struct node *n, struct chan *ch, bool probe)
{
    sim_t *s = n->sim;
    uint32_t rank = ch->from->rank;
    enum silence_verdict v = SILENCE_FINE;

    if (ch->back->closed) /* it is over, and this broker knows */
        return;
    if (ch->begun && !ch->cut)
        v = silence_judge(n->silence, &ch->line, core_peer_patient(n->core, ch->plane, rank));
    if ((v == SILENCE_SLOW || v == SILENCE_LOST) && s->accused)
        s->accused(s, n, ch, v == SILENCE_LOST);
    if (v == SILENCE_LOST) {
        sim_trace_add(s, 11, (uint64_t)n->rank << 32 | rank);
        net_give_up(ch);
        return;
    }
    if (v != SILENCE_FINE)
        core_peer_slow(n->core, ch->plane, rank, v == SILENCE_SLOW);
    if (probe)
        net_sign(ch->back);
}

static void round_cb(void *arg, bool probe)
{
    struct node *n = arg;
    sim_t *s = n->sim;

    if (n->way)
        judge(n, &n->way->down, probe);
    LIST_FOREACH_SAFE(it, tmp, &n->others)
    judge(n, &list_entry(it, struct way, other)->down, probe);
    LIST_FOREACH_SAFE(it, tmp, &n->children)
    judge(n, &list_entry(it, struct way, child)->up, probe);
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

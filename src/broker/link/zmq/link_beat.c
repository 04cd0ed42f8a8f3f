/* Signs of life between neighbors.
 *
 * Purpose: find a neighbor that is silent although its connections are open.  In each interval of
 * `beat_every` seconds a broker sends at least one frame to each neighbor: an empty frame if it has
 * nothing else to send.  A neighbor from which nothing has come for peer_timeout plus two intervals
 * is lost.  All brokers of a session have the same peer_timeout.
 *
 * Invariants:
 *  1. Only received frames count.  Data that waits to be sent plays no part, so no queue towards a
 *     peer, in this process or in the kernel, can hide that the peer is dead.  ZeroMQ's own
 *     heartbeats fail here: they wait behind stuck data, and end sound connections after both ends
 *     were stopped (link.c).
 *  2. A peer that was stopped for less than peer_timeout is not lost: it had sent something within
 *     the two intervals before it stopped (at the start of the first one, say, which then counts
 *     for the second one).
 *  3. Time during which this broker itself was stopped does not count: frames that its neighbors
 *     sent meanwhile may not have been read yet.
 *  4. A peer is watched from its first frame on.  Until then the core's join_timeout applies to
 *     neighbors in the tree.  The next broker of the ring, which nothing else watches, is watched
 *     from the handshake on; otherwise requests to one that stops early would wait for ever.
 */
#include <stdio.h>

#include "link_private.h"

#define BEATS 10. /* number of intervals in peer_timeout */
#define BEAT_MIN 0.02
#define BEAT_MAX 5.

static void beat_peer(struct link_peer *p, double now, double stopped)
{
    link_t *l = p->l;
    double limit = l->peer_timeout + 2. * l->beat_every;

    if (p->state != LINK_UP && !(p->state == LINK_NEW && p->plane == CORE_RING && p->handshaken))
        return;
    p->heard += stopped;
    if (now - p->heard > limit) {
        char why[64];

        snprintf(why, sizeof(why), "it sent nothing for %.1f s", now - p->heard);
        link_peer_fail(p, why);
        return;
    }
    if (p->state == LINK_NEW)
        return;
    /* Queued messages will serve as the sign of life once the peer reads again. */
    if (!p->sent && p->queue.count == 0)
        link_send_word(p, "");
    p->sent = false;
}

static void on_beat(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    link_t *l = arg;
    double now = flux_reactor_now(r), stopped = now - l->beat_last - l->beat_every;
    size_t pos = 0;
    void *val;

    (void)w, (void)revents;
    l->beat_last = now;
    if (stopped < l->beat_every)
        stopped = 0.;
    if (l->parent)
        beat_peer(l->parent, now, stopped);
    if (l->next)
        beat_peer(l->next, now, stopped);
    while (hmap_next(l->inbound, &pos, NULL, NULL, &val))
        beat_peer(val, now, stopped);
    flux_watcher_start(l->flush); /* to check the sockets that were used (rule 1 of link_io.c) */
}

int link_beat_start(link_t *l)
{
    if (l->peer_timeout <= 0.)
        return 0;
    l->beat_every = l->peer_timeout / BEATS;
    if (l->beat_every < BEAT_MIN)
        l->beat_every = BEAT_MIN;
    if (l->beat_every > BEAT_MAX)
        l->beat_every = BEAT_MAX;
    if (!(l->beat = flux_timer_create(l->r, on_beat, l)))
        return -1;
    l->beat_last = flux_reactor_now(l->r);
    flux_timer_start(l->beat, l->beat_every, l->beat_every);
    return 0;
}

void link_beat_stop(link_t *l)
{
    flux_watcher_destroy(l->beat);
    l->beat = NULL;
}

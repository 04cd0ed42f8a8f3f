/* Signs of life between neighbours.
 *
 * Each broker sends something to each neighbour at least every `beat_every` seconds: an empty frame
 * where it has nothing else.  A neighbour of which nothing has come for peer_timeout and one such
 * interval is lost.
 *
 * 1. Only what comes in counts.  Nothing that is or could not be sent takes part, so no queue
 *    towards a peer, in this process or in the kernel, can hide that it is dead: ZeroMQ's own
 *    heartbeats do not leave while data before them is stuck, and end sound connections after
 *    both ends were stopped (link.c).
 * 2. A peer that was stopped for less than peer_timeout is not lost: before that it had sent
 *    something within the last interval.
 * 3. The time during which this broker was stopped itself does not count: what its neighbours sent
 *    meanwhile may not have been read yet.
 * 4. A peer is watched from its first frame on; before that it is the core's affair (join_timeout).
 *
 * Brokers of one session have the same peer_timeout.
 */
#include <stdio.h>

#include "link_private.h"

#define BEATS 10. /* intervals in peer_timeout */
#define BEAT_MIN 0.02
#define BEAT_MAX 5.

static void beat_peer(struct link_peer *p, double now, double stopped)
{
    link_t *l = p->l;
    double limit = l->peer_timeout + l->beat_every;

    if (p->state != LINK_UP)
        return;
    p->heard += stopped;
    if (now - p->heard > limit) {
        char why[64];

        snprintf(why, sizeof(why), "nothing was heard of it for %.1f s", now - p->heard);
        link_peer_doom(p, why);
        return;
    }
    /* What waits for a peer to read is something that it will hear. */
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
    flux_watcher_start(l->flush); /* to look at the sockets that were used */
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

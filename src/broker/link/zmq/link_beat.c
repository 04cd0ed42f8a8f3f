/* link_beat.c - signs of life between neighbors.
 *
 * Purpose: detect a neighbor that is silent although its connections are open (silence.h).  A sign
 * of life is an empty frame.  Each end sends it on the connection of the tree and on that of the
 * ring.  A parent sends it with its events as well, whose connection may break alone.
 *
 * Invariants:
 *  1. Only received frames count.  Data that wait to be sent do not affect the verdict, so no queue
 *     towards a peer, in this process or in the kernel, can hide that the peer is dead.  The
 *     heartbeats of ZeroMQ fail here: they wait behind stuck data, and end sound connections after
 *     both ends were stopped (link.c).
 *  2. A large message on its way is not silence.  ZeroMQ hands it over when it is complete, so the
 *     kernel is asked for the time of the last data, where it knows the time (TCP).  Data that
 *     ZeroMQ does not read do not count: it leaves a connection open on which a message was
 *     altered or repeated (by somebody between the two brokers), and reads no further.
 *  3. A peer is watched from its first frame on, and its events from the first event on.  Until
 *     then the core's join_timeout applies to neighbors in the tree.  The next broker of the ring,
 *     to which no other limit applies, is watched from the handshake on; otherwise requests to a
 *     broker that stops early would wait forever.
 *  4. A parent is slow while one of its two lines is.  So its child can tell it on the other one
 *     that it hears nothing (core_third.c) before it ends the connection, and is not lost.
 *
 * Failure: where the kernel does not report the time of the last data, only complete frames count.
 */
#include <linux/sockios.h>
#include <linux/tcp.h> /* that of glibc has no tcpi_bytes_received */
#include <netinet/in.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "link_private.h"

/* Ask the kernel for the time of the last data (invariant 2).  `taken`: what ZeroMQ had read when
 * this was asked before.  The monitor reports a connection that has ended, whatever the descriptor
 * refers to now. */
static void ask_kernel(const link_t *l, struct silence_line *line, int fd, uint64_t *taken)
{
    struct tcp_info info = {0};
    socklen_t len = sizeof(info);
    uint64_t now;
    int waits;

    if (silence_length(l->silence, line) < l->live.slow ||
        getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len) < 0 || ioctl(fd, SIOCINQ, &waits) < 0)
        return;
    now = info.tcpi_bytes_received - (uint64_t)waits;
    if (now != *taken)
        silence_heard_ago(l->silence, line, 1e-3 * info.tcpi_last_data_recv);
    *taken = now;
}

/* The parent is slow while its words on the tree or its events are late: say when that begins and
 * ends.  `other`: the other line of the two, NULL for another peer. */
static void tell_slow(const struct link_peer *p, const struct silence_line *other, bool slow)
{
    if (!other || !other->slow)
        core_peer_slow(p->l->core, p->plane, p->rank, slow);
}

/* `out`: NULL for a peer that has connected to this broker. */
static void judge_peer(struct link_peer *p, const struct link_out *out, bool probe)
{
    const struct silence_line *events = out && out->event_heard ? &out->event_line : NULL;
    link_t *l = p->l;
    char why[64];

    if (p->state != LINK_UP && !(p->state == LINK_NEW && p->plane == CORE_RING && p->handshaken))
        return;
    if (p->state == LINK_UP)
        ask_kernel(l, &p->line, p->fd, &p->taken);
    switch (silence_judge(l->silence, &p->line,
                          p->state == LINK_NEW || core_peer_patient(l->core, p->plane, p->rank))) {
    case SILENCE_LOST:
        snprintf(why, sizeof(why), "it sent nothing for %.1f s",
                 silence_length(l->silence, &p->line));
        link_peer_fail(p, why);
        return;
    case SILENCE_SLOW:
        tell_slow(p, events, true);
        break;
    case SILENCE_HEARD:
        tell_slow(p, events, false);
        break;
    case SILENCE_FINE:
        break;
    }
    /* Queued messages will serve as the sign of life once the peer reads again. */
    if (probe && p->state == LINK_UP && p->queue.count == 0)
        link_send_word(p, "");
}

static void judge_events(struct link_out *out)
{
    struct link_peer *parent = out->peer;
    link_t *l = parent->l;
    char why[64];

    if (parent->state != LINK_UP || !out->event_heard || !out->events.sock)
        return;
    ask_kernel(l, &out->event_line, out->event_fd, &out->event_taken);
    switch (silence_judge(l->silence, &out->event_line,
                          core_peer_patient(l->core, CORE_TREE, parent->rank))) {
    case SILENCE_LOST:
        snprintf(why, sizeof(why), "no event and no sign of life came for %.1f s",
                 silence_length(l->silence, &out->event_line));
        link_peer_fail(parent, why);
        break;
    case SILENCE_SLOW:
        tell_slow(parent, &parent->line, true);
        break;
    case SILENCE_HEARD:
        tell_slow(parent, &parent->line, false);
        break;
    case SILENCE_FINE:
        break;
    }
}

static void round_cb(void *arg, bool probe)
{
    link_t *l = arg;
    size_t pos = 0;
    void *val;

    LIST_FOREACH(it, &l->outs)
    {
        struct link_out *out = list_entry(it, struct link_out, node);

        judge_peer(out->peer, out, probe);
        judge_events(out);
    }
    while (hmap_next(l->inbound, &pos, NULL, NULL, &val))
        judge_peer(val, NULL, probe);
    if (probe && l->event_up > 0 && l->events.count == 0)
        (void)zmq_send(l->src[SRC_PUB].sock, "", 0, ZMQ_DONTWAIT);
    flux_watcher_start(l->flush); /* check the sockets that were used (invariant 1 of link_io.c) */
}

int link_beat_start(link_t *l)
{
    if (!(l->silence = silence_create(l->r, &l->live, round_cb, l)))
        return -1;
    silence_start(l->silence);
    return 0;
}

void link_beat_stop(link_t *l)
{
    silence_destroy(l->silence);
    l->silence = NULL;
}

/* link_sock.c - sockets of ZeroMQ, with the options that they share.
 *
 * Purpose: all sockets of the link are opened and closed here, so that limits on queues, frames and
 * handshakes, keys and keepalives are in one place.
 *
 * Invariants:
 *  1. A leaf of a large session must stay small: the limits on frames that wait (HWM) are low,
 *     because a frame holds many messages.
 *  2. Subscriptions for a parent that is gone need not be delivered; other sockets that are closed
 *     have LINGER_MS to send what waits.
 *
 * Failure: a socket that cannot be opened leaves errno of ZeroMQ.
 */
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

#include "link_private.h"

#define HWM_FRAMES 64
#define HWM_EVENT_FRAMES 256
#define LINGER_MS 1000
#define HANDSHAKE_MS 120000 /* long: at bring-up, many brokers may share few cores */
#define FRAME_SLACK 1024    /* more than the bytes that CURVE adds to a frame */
#define KEEPALIVE_MAX 3600. /* seconds */

int link_set_int(void *sock, int option, int value)
{
    return zmq_setsockopt(sock, option, &value, sizeof(value));
}

int link_set_keepalive(const link_t *l, void *sock)
{
    double patience = l->live.lost > 0. ? l->live.patience / 2. : 0.;
    int sec = patience > KEEPALIVE_MAX ? (int)KEEPALIVE_MAX : (int)patience;

    if (patience <= 0.)
        return 0;
    if (sec < 1)
        sec = 1;
    if (link_set_int(sock, ZMQ_TCP_KEEPALIVE, 1) < 0 ||
        link_set_int(sock, ZMQ_TCP_KEEPALIVE_IDLE, sec) < 0 ||
        link_set_int(sock, ZMQ_TCP_KEEPALIVE_INTVL, (sec + 3) / 4) < 0 ||
        link_set_int(sock, ZMQ_TCP_KEEPALIVE_CNT, 4) < 0)
        return -1;
    /* This limit applies while data wait for an acknowledgment, when the kernel sends no
     * keepalives.  It is longer because a peer may be stopped, and read nothing, for nearly
     * live.patience. */
    return link_set_int(sock, ZMQ_TCP_MAXRT, 4000 * sec);
}

struct link_source *link_source_open(link_t *l, struct link_source *src, int type,
                                     void (*drain)(struct link_source *))
{
    bool events = type == ZMQ_XPUB || type == ZMQ_SUB;
    /* This limit holds before a peer is authenticated, and after. */
    int64_t max = LINK_FRAME_MAX + FRAME_SLACK;

    src->l = l;
    src->drain = drain;
    if (!(src->sock = zmq_socket(l->ctx, type)))
        return NULL;
    if (link_set_int(src->sock, ZMQ_LINGER, type == ZMQ_SUB ? 0 : LINGER_MS) < 0 ||
        link_set_int(src->sock, ZMQ_SNDHWM, events ? HWM_EVENT_FRAMES : HWM_FRAMES) < 0 ||
        link_set_int(src->sock, ZMQ_RCVHWM, events ? HWM_EVENT_FRAMES : HWM_FRAMES) < 0 ||
        link_set_int(src->sock, ZMQ_HANDSHAKE_IVL, HANDSHAKE_MS) < 0 ||
        zmq_setsockopt(src->sock, ZMQ_MAXMSGSIZE, &max, sizeof(max)) < 0)
        return NULL;
    return src;
}

int link_set_ipv6(void *sock, const char *uri)
{
    return strchr(uri, '[') ? link_set_int(sock, ZMQ_IPV6, 1) : 0;
}

int link_secure_server(const link_t *l, void *sock)
{
    if (!l->curve)
        return 0;
    if (link_set_int(sock, ZMQ_CURVE_SERVER, 1) < 0 ||
        zmq_setsockopt(sock, ZMQ_CURVE_SECRETKEY, l->secret_key, ZAP_KEY_SIZE) < 0 ||
        zmq_setsockopt(sock, ZMQ_ZAP_DOMAIN, "flux", 4) < 0)
        return -1;
    return 0;
}

int link_secure_client(const link_t *l, void *sock, const char *server_key)
{
    if (!l->curve)
        return 0;
    if (zmq_setsockopt(sock, ZMQ_CURVE_SERVERKEY, server_key, ZAP_KEY_SIZE) < 0 ||
        zmq_setsockopt(sock, ZMQ_CURVE_PUBLICKEY, l->public_key, ZAP_KEY_SIZE) < 0 ||
        zmq_setsockopt(sock, ZMQ_CURVE_SECRETKEY, l->secret_key, ZAP_KEY_SIZE) < 0)
        return -1;
    return 0;
}

void link_source_close(struct link_source *src)
{
    flux_watcher_destroy(src->w);
    src->w = NULL;
    src->again = false;
    if (src->sock && src->drain != link_drain_zap)
        zmq_close(src->sock);
    src->sock = NULL;
    free(src->uri);
    src->uri = NULL;
}

void link_source_discard(struct link_source *src)
{
    if (src->sock)
        (void)link_set_int(src->sock, ZMQ_LINGER, 0);
    link_source_close(src);
}

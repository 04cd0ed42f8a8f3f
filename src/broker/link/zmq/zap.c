/* zap.c - a handler of ZAP, the authentication protocol of ZeroMQ.
 *
 * Format: a request has the frames
 *
 *     version "1.0", request id, domain, peer address, peer routing id, mechanism, key (32 bytes)
 *
 * behind the envelope of the ROUTER socket (an identity and an empty frame).  The answer has the
 * frames
 *
 *     version, request id, status code, status text, user id, metadata.
 *
 * Invariants:
 *  1. A message other than such a request for mechanism CURVE is refused with status 400 if it has
 *     an envelope and a request id, and dropped otherwise.  Requests come from ZeroMQ itself, not
 *     from the peer, so this protects against other versions, not against attacks.
 *  2. A key is admitted only if zap_allow() has named it, or the owner knows it.
 *  3. Refusals are counted, and logged at most LOG_MAX times in LOG_PERIOD seconds, so that a
 *     stranger who keeps connecting cannot fill a log.
 *
 * Failure: an answer that cannot be sent (the session of ZeroMQ has ended) is dropped.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

#include "libutil/hmap.h"
#include "../linklog.h"
#include "zap.h"

#define ZAP_ADDRESS "inproc://zeromq.zap.01"
#define KEY_BYTES 32
#define LOG_MAX 5
#define LOG_PERIOD 60.
#define SAME_PERIOD 1. /* a broker that is refused has two connections: they get one line */
#define TEXT_SIZE 448

enum {
    F_IDENTITY,
    F_EMPTY,
    F_VERSION,
    F_REQUEST,
    F_DOMAIN,
    F_ADDRESS,
    F_ROUTING,
    F_MECHANISM,
    F_KEY,
    F_COUNT,
};

struct zap {
    void *sock;
    hmap_t *keys; /* key of 32 bytes -> the same key in Z85 */
    struct zap_callbacks cb;
    void *arg;
    uint64_t refused;
    struct linkpace pace;
    char said[TEXT_SIZE]; /* the latest refusal ... */
    double said_at;       /* ... and its time */
};

zap_t *zap_create(void *ctx, const struct zap_callbacks *cb, void *arg, errmsg_t *err)
{
    zap_t *z = calloc(1, sizeof(*z));
    int zero = 0;

    if (!z || !(z->keys = hmap_create_bin(KEY_BYTES, free))) {
        errmsg_fail(err, ENOMEM, "out of memory while preparing authentication");
        zap_destroy(z);
        return NULL;
    }
    z->cb = *cb;
    z->arg = arg;
    z->sock = zmq_socket(ctx, ZMQ_ROUTER);
    if (!z->sock || zmq_setsockopt(z->sock, ZMQ_LINGER, &zero, sizeof(zero)) < 0 ||
        zmq_bind(z->sock, ZAP_ADDRESS) < 0) {
        errmsg_fail(err, errno, "cannot serve authentication: %s", zmq_strerror(errno));
        zap_destroy(z);
        return NULL;
    }
    return z;
}

void zap_destroy(zap_t *z)
{
    int saved = errno;

    if (!z)
        return;
    if (z->sock)
        zmq_close(z->sock);
    hmap_destroy(z->keys);
    free(z);
    errno = saved;
}

int zap_allow(zap_t *z, const char *key)
{
    uint8_t bin[KEY_BYTES];
    char *text;

    if (!key || strlen(key) != ZAP_KEY_SIZE || !zmq_z85_decode(bin, key)) {
        errno = EINVAL;
        return -1;
    }
    if (!(text = strdup(key)))
        return -1;
    if (hmap_put(z->keys, bin, text) < 0) {
        free(text);
        errno = ENOMEM;
        return -1;
    }
    return 0;
}

void *zap_socket(zap_t *z)
{
    return z->sock;
}

static bool frame_is(zmq_msg_t *frame, const char *text)
{
    size_t len = strlen(text);

    return zmq_msg_size(frame) == len && memcmp(zmq_msg_data(frame), text, len) == 0;
}

static void say_refused(zap_t *z, zmq_msg_t *address, const char *why, double now)
{
    char text[TEXT_SIZE], count[48];
    int len = (int)zmq_msg_size(address);

    if (!z->cb.log)
        return;
    snprintf(text, sizeof(text) - sizeof(count), "refused a connection from %.*s: %s",
             len > 64 ? 64 : len, (const char *)zmq_msg_data(address), why);
    if (now - z->said_at < SAME_PERIOD && strcmp(text, z->said) == 0)
        return;
    if (!linkpace_may(&z->pace, now, LOG_PERIOD, LOG_MAX))
        return;
    strcpy(z->said, text);
    z->said_at = now;
    snprintf(count, sizeof(count), " (%llu refused so far)", (unsigned long long)z->refused);
    strcat(text, count);
    z->cb.log(z->arg, text);
}

static void say_admitted(zap_t *z, zmq_msg_t *address)
{
    char host[80];
    size_t len = zmq_msg_size(address);

    if (!z->cb.admitted || len >= sizeof(host))
        return;
    memcpy(host, zmq_msg_data(address), len);
    host[len] = '\0';
    host[strcspn(host, "%")] = '\0'; /* the interface of a link-local address */
    z->cb.admitted(z->arg, host);
}

static int send_text(void *sock, const char *text, int flags)
{
    return zmq_send(sock, text, strlen(text), flags | ZMQ_DONTWAIT);
}

static void answer(zap_t *z, zmq_msg_t *frames, const char *code, const char *text,
                   const char *user)
{
    const char *rest[] = {code, text, user};

    for (int i = F_IDENTITY; i <= F_REQUEST; i++) {
        if (zmq_msg_send(&frames[i], z->sock, ZMQ_SNDMORE | ZMQ_DONTWAIT) < 0)
            return;
    }
    for (int i = 0; i < 3; i++) {
        if (send_text(z->sock, rest[i], ZMQ_SNDMORE) < 0)
            return;
    }
    send_text(z->sock, "", 0);
}

static void decide(zap_t *z, zmq_msg_t *frames, int count, double now)
{
    const char *user = NULL, *why = NULL;
    char text[256] = "", key[ZAP_KEY_SIZE + 1];

    if (count <= F_REQUEST || zmq_msg_size(&frames[F_EMPTY]) != 0)
        return;
    if (count != F_COUNT || !frame_is(&frames[F_VERSION], "1.0") ||
        !frame_is(&frames[F_MECHANISM], "CURVE") || zmq_msg_size(&frames[F_KEY]) != KEY_BYTES)
        why = "it does not use CURVE, which this broker requires: use the same configuration at "
              "all ranks";
    else if (!(user = hmap_get(z->keys, zmq_msg_data(&frames[F_KEY]))) &&
             zmq_z85_encode(key, zmq_msg_data(&frames[F_KEY]), KEY_BYTES)) {
        if (z->cb.known && z->cb.known(z->arg, key))
            user = key;
        else
            snprintf(text, sizeof(text),
                     "its public key, %s, is not that of a neighbor: start it with the key of its "
                     "own rank (session.keyfile)",
                     key);
    }
    if (!why && !user)
        why = text;
    if (why) {
        z->refused++;
        if (count > F_ADDRESS)
            say_refused(z, &frames[F_ADDRESS], why, now);
        answer(z, frames, "400", "refused", "");
        return;
    }
    say_admitted(z, &frames[F_ADDRESS]);
    answer(z, frames, "200", "OK", user);
}

/* Receive one complete request; frames in excess are read and discarded.  Returns the number of
 * frames, or 0 when there is no request. */
static int receive(zap_t *z, zmq_msg_t *frames)
{
    int count = 0;
    bool more = true;

    while (more) {
        zmq_msg_t extra, *frame = count < F_COUNT ? &frames[count] : &extra;

        zmq_msg_init(frame);
        if (zmq_msg_recv(frame, z->sock, ZMQ_DONTWAIT) < 0) {
            zmq_msg_close(frame);
            break;
        }
        more = zmq_msg_more(frame);
        if (count >= F_COUNT)
            zmq_msg_close(frame);
        count++;
    }
    return count;
}

int zap_serve(zap_t *z, double now, int max)
{
    zmq_msg_t frames[F_COUNT];
    int served, count;

    for (served = 0; served < max && (count = receive(z, frames)) > 0; served++) {
        decide(z, frames, count, now);
        for (int i = 0; i < count && i < F_COUNT; i++)
            zmq_msg_close(&frames[i]);
    }
    return served;
}

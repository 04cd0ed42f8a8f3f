/* far_link.c - a connection between hosts, plain or encrypted.
 *
 * Without encryption this is the socket.  With it, each direction is a sequence of records:
 *
 *    bytes 0..3   n, the number of bytes of data, 1 to FAR_RECORD_MAX, little-endian
 *    then         n encrypted bytes, and 16 that authenticate them and the length
 *
 * The cipher is ChaCha20-Poly1305 (RFC 8439) of libsodium.  Its nonce is the number of the record,
 * from 0 on, 8 bytes little-endian and four zeros: each direction of a connection has a key of its
 * own, which is never used again, so no nonce repeats.  A record that is missing, repeated, moved
 * or changed is detected.
 *
 * Invariants:
 *  1. At most one sealed record waits to be sent; until then no further data are accepted.
 *  2. The bytes open_at..open_len of the last decrypted record have not yet been returned by
 *     far_link_recv(); no other record is opened until they have.
 *
 * Failure: a record that is not authentic ends the connection (EBADMSG).
 */
#include "config.h"
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "libstream/far_link.h"
#include "libutil/invariant.h"
#include "libutil/le.h"

#define HEAD 4
#define TAG crypto_aead_chacha20poly1305_ietf_ABYTES
#define KEY crypto_aead_chacha20poly1305_ietf_KEYBYTES
#define NONCE crypto_aead_chacha20poly1305_ietf_NPUBBYTES
#define RECORD (HEAD + FAR_RECORD_MAX + TAG)

/* One direction of an encrypted connection. */
struct cipher {
    unsigned char key[KEY];
    uint64_t number; /* of the next record */
    size_t at;       /* bytes of `record` that were sent or received */
    size_t len;      /* size of the record, when sending */
    size_t open_at, open_len;
    unsigned char record[RECORD];
    unsigned char plain[FAR_RECORD_MAX]; /* sending: data gathered for the next record; receiving:
                                          * the last decrypted one */
};

struct far_link {
    int fd;
    uint64_t sent;
    bool later;              /* data that are sent now can wait, */
    bool held;               /* and the last ones may do so */
    struct cipher *out, *in; /* NULL: not encrypted */
};

far_link_t *far_link_create(int fd)
{
    far_link_t *l = calloc(1, sizeof(*l));

    if (l)
        l->fd = fd;
    return l;
}

static void cipher_destroy(struct cipher *c)
{
    if (c)
        sodium_memzero(c->key, sizeof(c->key));
    free(c);
}

void far_link_destroy(far_link_t *l)
{
    int saved = errno;

    if (!l)
        return;
    close(l->fd);
    cipher_destroy(l->out);
    cipher_destroy(l->in);
    free(l);
    errno = saved;
}

int far_link_fd(const far_link_t *l)
{
    return l->fd;
}

uint64_t far_link_sent(const far_link_t *l)
{
    return l->sent;
}

static struct cipher *cipher_create(const unsigned char *key)
{
    struct cipher *c = calloc(1, sizeof(*c));

    if (c)
        memcpy(c->key, key, KEY);
    return c;
}

int far_link_secure(far_link_t *l, const unsigned char *send_key, const unsigned char *recv_key)
{
    if (sodium_init() < 0) { /* without it, the ciphers are slow; it may be called more than once */
        errno = ENOSYS;
        return -1;
    }
    if (!(l->out = cipher_create(send_key)) || !(l->in = cipher_create(recv_key))) {
        errno = ENOMEM;
        return -1;
    }
    return 0;
}

static void nonce_next(struct cipher *c, unsigned char nonce[NONCE])
{
    memset(nonce, 0, NONCE);
    le_put64(nonce, c->number++);
}

/* --- sending --- */

static ssize_t plain_send(far_link_t *l, const struct iovec *iov, size_t count)
{
    struct msghdr msg = {.msg_iov = (struct iovec *)iov, .msg_iovlen = count};
    ssize_t n;

    do
        n = sendmsg(l->fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL | (l->later ? MSG_MORE : 0));
    while (n < 0 && errno == EINTR);
    if (n > 0) {
        l->sent += (uint64_t)n;
        l->held = l->later;
    }
    return n;
}

bool far_link_waits(const far_link_t *l)
{
    return l->out && l->out->at < l->out->len;
}

int far_link_flush(far_link_t *l)
{
    struct cipher *c = l->out;

    while (far_link_waits(l)) {
        struct iovec iov = {c->record + c->at, c->len - c->at};
        ssize_t n = plain_send(l, &iov, 1);

        if (n < 0)
            return -1;
        c->at += (size_t)n;
    }
    return 0;
}

static void seal(struct cipher *c, const unsigned char *data, size_t len)
{
    unsigned char nonce[NONCE];

    INVARIANT(1, c->at == c->len && len > 0 && len <= FAR_RECORD_MAX);
    nonce_next(c, nonce);
    le_put32(c->record, (uint32_t)len);
    crypto_aead_chacha20poly1305_ietf_encrypt(c->record + HEAD, NULL, data, len, c->record, HEAD,
                                              NULL, nonce, c->key);
    c->at = 0;
    c->len = HEAD + len + TAG;
}

/* The next bytes of `iov`, from its byte `skip` on: in place, or gathered. */
static const unsigned char *gather(struct cipher *c, const struct iovec *iov, size_t count,
                                   size_t skip, size_t *len)
{
    size_t n = 0;
    size_t i;

    for (i = 0; i < count && skip >= iov[i].iov_len; i++)
        skip -= iov[i].iov_len;
    *len = i < count ? iov[i].iov_len - skip : 0;
    if (*len >= FAR_RECORD_MAX || i + 1 >= count) {
        if (*len > FAR_RECORD_MAX)
            *len = FAR_RECORD_MAX;
        return *len > 0 ? (const unsigned char *)iov[i].iov_base + skip : NULL;
    }
    for (; i < count && n < FAR_RECORD_MAX; i++, skip = 0) {
        size_t part = iov[i].iov_len - skip;

        if (part > FAR_RECORD_MAX - n)
            part = FAR_RECORD_MAX - n;
        if (part > 0)
            memcpy(c->plain + n, (const char *)iov[i].iov_base + skip, part);
        n += part;
    }
    *len = n;
    return c->plain;
}

ssize_t far_link_send(far_link_t *l, const struct iovec *iov, size_t count)
{
    size_t done = 0;

    if (!l->out)
        return plain_send(l, iov, count);
    for (;;) {
        const unsigned char *data;
        size_t len;

        if (far_link_flush(l) < 0)
            return done > 0 ? (ssize_t)done : -1;
        data = gather(l->out, iov, count, done, &len);
        if (len == 0)
            return (ssize_t)done;
        seal(l->out, data, len);
        done += len;
    }
}

ssize_t far_link_send_later(far_link_t *l, const struct iovec *iov, size_t count)
{
    ssize_t n;

    l->later = true;
    n = far_link_send(l, iov, count);
    l->later = false;
    return n;
}

void far_link_push(far_link_t *l)
{
    int on = 1;

    /* This sends what MSG_MORE holds back: tcp(7). */
    if (l->held)
        setsockopt(l->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    l->held = false;
}

/* --- receiving --- */

static ssize_t plain_recv(far_link_t *l, void *buf, size_t len)
{
    ssize_t n;

    do
        n = recv(l->fd, buf, len, MSG_DONTWAIT);
    while (n < 0 && errno == EINTR);
    return n;
}

/* The number of bytes of the record that are needed next; its length may not be known yet. */
static size_t record_need(const struct cipher *c)
{
    return c->at < HEAD ? HEAD : HEAD + le_get32(c->record) + TAG;
}

/* Receive until the record is complete: 1; 0 at the end; -1. */
static int record_recv(far_link_t *l)
{
    struct cipher *c = l->in;

    while (c->at < HEAD || c->at < record_need(c)) {
        ssize_t n = plain_recv(l, c->record + c->at, record_need(c) - c->at);

        if (n <= 0)
            return (int)n;
        c->at += (size_t)n;
        if (c->at == HEAD && (le_get32(c->record) == 0 || le_get32(c->record) > FAR_RECORD_MAX)) {
            errno = EBADMSG;
            return -1;
        }
    }
    return 1;
}

ssize_t far_link_recv(far_link_t *l, void *buf, size_t len)
{
    struct cipher *c = l->in;
    unsigned char nonce[NONCE];
    bool direct;
    size_t n;
    int rc;

    if (!c)
        return plain_recv(l, buf, len);
    if (c->open_at == c->open_len) {
        if ((rc = record_recv(l)) <= 0)
            return rc;
        n = le_get32(c->record);
        direct = len >= n;
        nonce_next(c, nonce);
        c->at = 0;
        if (crypto_aead_chacha20poly1305_ietf_decrypt(direct ? buf : c->plain, NULL, NULL,
                                                      c->record + HEAD, n + TAG, c->record, HEAD,
                                                      nonce, c->key) != 0) {
            errno = EBADMSG;
            return -1;
        }
        if (direct)
            return (ssize_t)n;
        c->open_at = 0;
        c->open_len = n;
    }
    n = c->open_len - c->open_at;
    if (n > len)
        n = len;
    memcpy(buf, c->plain + c->open_at, n);
    c->open_at += n;
    INVARIANT(2, c->open_at <= c->open_len);
    return (ssize_t)n;
}

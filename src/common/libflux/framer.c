/* framer.c - messages over a stream socket.
 *
 * Input: a read goes into scratch memory that all connections of a thread share, and messages are
 * decoded there.  Only the head of an incomplete frame is kept per connection, so thousands of idle
 * clients use little memory.  A frame larger than the scratch memory gets a block of its exact
 * size, into which the rest is read.  If it has a large raw payload, the block holds only the
 * payload and becomes the message's, so the payload is never copied.
 *
 *    kept           large          the next read goes
 *    -              -              to the start of the scratch memory
 *    head of frame  -              behind the kept bytes, which are copied to its start
 *    -              under way      into the block
 *    -              complete       nowhere, until the message is handed out
 *
 * A text request over the limit of framer_set_text_max() is under way like a large frame, but its
 * payload is read into the scratch memory and discarded.
 *
 * Output: frames are encoded into chunks, many of which are written with one system call.
 *
 * Invariants:
 *  1. Every byte read is handed out exactly once, in order, as part of a message.  After EPROTO
 *     nothing more is handed out.
 *  2. Memory per connection is less than one frame for input, plus what framer_park() had to copy;
 *     and for output what is queued, rounded up to a chunk.
 *  3. A descriptor that comes with the bytes is kept if one is wanted, and none is kept yet; others
 *     are dropped by the kernel.
 *  4. A size announced by the other side is limited to what a message may have, and its memory is
 *     touched only as bytes arrive.
 *
 * Failure: ENOMEM from framer_next() means that bytes are lost, so the connection must end.
 */
#include "config.h"
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "framer.h"
#include "libutil/fdpass.h"
#include "libutil/list.h"

/* Raw payloads from this size on are read directly to their final place. */
#define DIRECT_MIN 16384
#define CHUNK_SIZE 16384
#define IOV_BATCH 32
/* A message up to this size that can be written at once is encoded on the stack. */
#define SEND_STACK 8192

struct framer {
    const uint8_t *p; /* bytes read but not yet consumed: in the scratch memory or in `kept` */
    size_t len;
    uint8_t *kept;
    size_t kept_len; /* 0 while p points elsewhere */
    bool in_kept;    /* p points into `kept` */
    bool broken;
    /* the current large frame: */
    uint8_t *large;      /* the frame, or its payload */
    size_t large_size;   /* its full size */
    size_t large_have;   /* bytes read so far */
    flux_msg_t *pending; /* the message without payload, if `large` is the payload or the payload is
                     discarded */
    size_t skip;         /* bytes of a discarded payload that are still to come */
    size_t text_max;     /* 0: no limit */
    size_t dropping;     /* size of the payload that is being discarded */
    size_t dropped;      /* the same for the last message handed out */
    size_t read_max;     /* see framer_set_read_max() */
    bool wants_fd;       /* a descriptor that comes with the bytes is kept */
    int fd;              /* ... this one; -1: none */
};

framer_t *framer_create(void)
{
    framer_t *f = calloc(1, sizeof(*f));

    if (f)
        f->fd = -1;
    return f;
}

void framer_destroy(framer_t *f)
{
    if (f) {
        int saved = errno;
        free(f->kept);
        free(f->large);
        flux_msg_destroy(f->pending);
        if (f->fd >= 0)
            close(f->fd);
        free(f);
        errno = saved;
    }
}

void framer_set_text_max(framer_t *f, size_t max)
{
    f->text_max = max;
}

void framer_set_read_max(framer_t *f, size_t most)
{
    f->read_max = most;
}

size_t framer_dropped(const framer_t *f)
{
    return f->dropped;
}

void framer_want_fd(framer_t *f)
{
    f->wants_fd = true;
}

int framer_take_fd(framer_t *f)
{
    int fd = f->fd;

    f->wants_fd = false;
    f->fd = -1;
    return fd;
}

/* Receive bytes; the descriptor that comes with them is kept if one is wanted. */
static ssize_t receive(framer_t *f, int fd, void *buf, size_t size, int flags)
{
    int passed;
    ssize_t n;

    if (!f->wants_fd || f->fd >= 0)
        return recv(fd, buf, size, flags);
    n = fdpass_recv_any(fd, buf, size, &passed, flags);
    f->fd = passed;
    return n;
}

ssize_t framer_read(framer_t *f, int fd, void *scratch, size_t size, bool wait)
{
    int flags = wait ? 0 : MSG_DONTWAIT;
    size_t room;
    ssize_t n;

    if (framer_pending(f)) { /* unconsumed bytes are left, which a read would overwrite */
        errno = EAGAIN;
        return -1;
    }
    if (f->skip > 0) {
        n = recv(fd, scratch, size < f->skip ? size : f->skip, flags);
        if (n > 0)
            f->skip -= (size_t)n;
        return n;
    }
    if (f->large) {
        n = recv(fd, f->large + f->large_have, f->large_size - f->large_have, flags);
        if (n > 0)
            f->large_have += (size_t)n;
        return n;
    }
    /* Kept bytes are fewer than a frame that fits, so there is room behind them. */
    room = size - f->kept_len;
    if (f->read_max > 0 && f->read_max < room)
        room = f->read_max;
    n = receive(f, fd, (uint8_t *)scratch + f->kept_len, room, flags);
    if (n > 0) {
        if (f->kept_len > 0)
            memcpy(scratch, f->kept, f->kept_len);
        f->p = scratch;
        f->len = f->kept_len + (size_t)n;
        free(f->kept);
        f->kept = NULL;
        f->kept_len = 0;
    }
    return n;
}

static size_t payload_size(const framer_t *f)
{
    return f->p[36] | (size_t)f->p[37] << 8 | (size_t)f->p[38] << 16 | (size_t)f->p[39] << 24;
}

/* Make the message without its payload.  The header is checked as that of a frame without
 * payload. */
static int begin_head(framer_t *f, size_t head_len, errmsg_t *err)
{
    uint8_t head[FLUX_MSG_HEADER_SIZE + 4 * FLUX_MSG_ROUTES_MAX + FLUX_MSG_TOPIC_MAX];

    memcpy(head, f->p, head_len);
    memset(head + 36, 0, 4);
    return (f->pending = flux_msg_decode(head, head_len, err)) ? 0 : -1;
}

size_t framer_memory(const framer_t *f)
{
    return (f->in_kept ? f->len : f->kept_len) + f->large_size;
}

/* A large raw payload: make the message, and a block into which the payload is read. */
static int begin_direct(framer_t *f, size_t frame, errmsg_t *err)
{
    size_t payload = payload_size(f);
    size_t head_len = frame - payload;

    if (begin_head(f, head_len, err) < 0)
        return -1;
    if (!(f->large = malloc(payload + 1))) {
        errmsg_set(err, "out of memory for a message of %zu bytes", frame);
        return -1;
    }
    f->large_size = payload;
    f->large_have = f->len - head_len;
    memcpy(f->large, f->p + head_len, f->large_have);
    return 0;
}

static int begin_large(framer_t *f, size_t frame, errmsg_t *err)
{
    if (!(f->large = malloc(frame))) {
        errmsg_set(err, "out of memory for a message of %zu bytes", frame);
        return -1;
    }
    f->large_size = frame;
    f->large_have = f->len;
    memcpy(f->large, f->p, f->len);
    return 0;
}

/* Is this a text request over the limit, whose head has been read? */
static bool is_too_large(const framer_t *f, size_t frame)
{
    return f->text_max > 0 && f->p[2] == FLUX_MSG_REQUEST && !(f->p[3] & FLUX_MSGF_RAW) &&
           payload_size(f) > f->text_max && f->len >= frame - payload_size(f);
}

/* All bytes that were read are now elsewhere. */
static void drop_input(framer_t *f)
{
    if (f->in_kept) {
        free(f->kept);
        f->kept = NULL;
        f->in_kept = false;
    }
    f->p = NULL;
    f->len = 0;
}

int framer_park(framer_t *f)
{
    uint8_t *copy;

    if (f->len == 0 || f->in_kept)
        return 0;
    if (!(copy = malloc(f->len))) {
        f->broken = true;
        return -1;
    }
    memcpy(copy, f->p, f->len);
    f->kept = copy;
    f->p = copy;
    f->in_kept = true;
    return 0;
}

/* Has the last byte of a large frame come, and framer_next() not been called since? */
static bool large_is_complete(const framer_t *f)
{
    if (f->large)
        return f->large_have == f->large_size;
    return f->dropping > 0 && f->skip == 0;
}

bool framer_pending(const framer_t *f)
{
    return f->len > 0 || large_is_complete(f);
}

/* Keep an incomplete head of a frame until the next read. */
static int keep_head(framer_t *f, errmsg_t *err)
{
    size_t len = f->len;
    uint8_t *copy;

    if (len == 0) {
        drop_input(f);
        return 0;
    }
    if (!(copy = malloc(len))) {
        errmsg_set(err, "out of memory for %zu bytes of a message", len);
        return -1;
    }
    memcpy(copy, f->p, len);
    drop_input(f);
    f->kept = copy;
    f->kept_len = len;
    return 0;
}

/* Discard as much of the payload as has been read. */
static int begin_drop(framer_t *f, size_t frame, errmsg_t *err)
{
    size_t payload = payload_size(f);

    if (begin_head(f, frame - payload, err) < 0)
        return -1;
    f->dropping = payload;
    if (f->len > frame) {
        f->p += frame;
        f->len -= frame;
    } else {
        f->skip = frame - f->len;
        drop_input(f);
    }
    return 0;
}

static flux_msg_t *finish_drop(framer_t *f)
{
    flux_msg_t *msg = f->pending;

    f->pending = NULL;
    f->dropped = f->dropping;
    f->dropping = 0;
    return msg;
}

static flux_msg_t *finish_large(framer_t *f, errmsg_t *err)
{
    flux_msg_t *msg;

    if (f->pending) {
        msg = f->pending;
        f->pending = NULL;
        if (flux_msg_take_raw(msg, f->large, f->large_size) < 0) {
            errmsg_set(err, "out of memory for a message");
            flux_msg_destroy(msg);
            msg = NULL;
        }
    } else {
        msg = flux_msg_decode(f->large, f->large_size, err);
        free(f->large);
    }
    f->large = NULL;
    f->large_have = f->large_size = 0;
    return msg;
}

static flux_msg_t *next(framer_t *f, errmsg_t *err)
{
    ssize_t frame;
    flux_msg_t *msg;

    f->dropped = 0;
    if (f->dropping > 0 || f->large) {
        if (large_is_complete(f))
            return f->large ? finish_large(f, err) : finish_drop(f);
        errno = EAGAIN;
        return NULL;
    }
    if (f->kept_len > 0 || f->len == 0) {
        errno = EAGAIN;
        return NULL;
    }
    if ((frame = flux_msg_frame_size(f->p, f->len, err)) < 0)
        return NULL;
    if (frame > 0 && is_too_large(f, (size_t)frame)) {
        if (begin_drop(f, (size_t)frame, err) < 0)
            return NULL;
        if (f->skip == 0)
            return finish_drop(f);
        errno = EAGAIN;
        return NULL;
    }
    if (frame > 0 && (size_t)frame <= f->len) {
        if (!(msg = flux_msg_decode(f->p, (size_t)frame, err)))
            return NULL;
        f->p += frame;
        f->len -= (size_t)frame;
        if (f->len == 0)
            drop_input(f);
        return msg;
    }
    if (frame > DIRECT_MIN) {
        size_t head = FLUX_MSG_HEADER_SIZE + 4 * (f->p[34] | (size_t)f->p[35] << 8) +
                      (f->p[32] | (size_t)f->p[33] << 8);
        bool raw = f->p[3] & FLUX_MSGF_RAW;

        if (f->len >= head) {
            if ((raw ? begin_direct(f, (size_t)frame, err) : begin_large(f, (size_t)frame, err)) <
                0)
                return NULL;
            drop_input(f);
            errno = EAGAIN;
            return NULL;
        }
    }
    if (keep_head(f, err) < 0)
        return NULL;
    errno = EAGAIN;
    return NULL;
}

flux_msg_t *framer_next(framer_t *f, errmsg_t *err)
{
    flux_msg_t *msg;

    if (f->broken) {
        errmsg_fail(err, EPROTO, "the stream has failed before");
        return NULL;
    }
    msg = next(f, err);
    if (!msg && errno != EAGAIN)
        f->broken = true;
    return msg;
}

/* --- out --- */

struct chunk {
    struct list_node node;
    size_t off;
    size_t len;
    size_t cap;
    size_t messages;
    uint8_t data[];
};

struct outq {
    struct list_node chunks;
    size_t bytes;
    size_t messages;
};

outq_t *outq_create(void)
{
    outq_t *q = calloc(1, sizeof(*q));

    if (q)
        list_init(&q->chunks);
    return q;
}

static void chunk_free(outq_t *q, struct chunk *ch)
{
    q->messages -= ch->messages;
    list_remove(&ch->node);
    free(ch);
}

void outq_destroy(outq_t *q)
{
    if (q) {
        int saved = errno;
        LIST_FOREACH_SAFE(it, tmp, &q->chunks)
        {
            chunk_free(q, list_entry(it, struct chunk, node));
        }
        free(q);
        errno = saved;
    }
}

/* Make room for `size` bytes at the end of the queue. */
static struct chunk *tail(outq_t *q, size_t size)
{
    struct chunk *ch;
    size_t cap = size > CHUNK_SIZE / 2 ? size : CHUNK_SIZE;

    if (!list_empty(&q->chunks)) {
        ch = list_entry(q->chunks.prev, struct chunk, node);
        if (ch->cap - ch->len >= size)
            return ch;
    }
    if (!(ch = malloc(sizeof(*ch) + cap)))
        return NULL;
    ch->off = ch->len = ch->messages = 0;
    ch->cap = cap;
    list_append(&q->chunks, &ch->node);
    return ch;
}

int outq_add(outq_t *q, const flux_msg_t *msg)
{
    size_t size = flux_msg_encoded_size(msg);
    struct chunk *ch = tail(q, size);

    if (!ch)
        return -1;
    flux_msg_encode(msg, ch->data + ch->len);
    ch->len += size;
    ch->messages++;
    q->messages++;
    q->bytes += size;
    return 0;
}

int outq_send(outq_t *q, int fd, const flux_msg_t *msg)
{
    return outq_send_fd(q, fd, msg, -1);
}

int outq_send_fd(outq_t *q, int fd, const flux_msg_t *msg, int pass)
{
    size_t size = flux_msg_encoded_size(msg);
    uint8_t buf[SEND_STACK];
    struct chunk *ch;
    ssize_t n;

    if (q->bytes > 0 || size > sizeof(buf))
        return outq_add(q, msg) < 0 || outq_flush(q, fd) < 0 ? -1 : 0;
    flux_msg_encode(msg, buf);
    n = pass >= 0 ? fdpass_send(fd, buf, size, pass) : -1;
    while (n < 0) {
        n = send(fd, buf, size, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n < 0 && errno != EINTR)
            break;
    }
    if (n == (ssize_t)size)
        return 0;
    if (n < 0 && errno != EAGAIN)
        return -1;
    if (n < 0)
        n = 0;
    if (!(ch = tail(q, size - (size_t)n)))
        return -1;
    memcpy(ch->data + ch->len, buf + n, size - (size_t)n);
    ch->len += size - (size_t)n;
    ch->messages++;
    q->messages++;
    q->bytes += size - (size_t)n;
    return 0;
}

/* Remove `n` bytes that were written. */
static void consume(outq_t *q, size_t n)
{
    q->bytes -= n;
    while (n > 0) {
        struct chunk *ch = list_entry(list_first(&q->chunks), struct chunk, node);
        size_t part = ch->len - ch->off < n ? ch->len - ch->off : n;

        ch->off += part;
        n -= part;
        if (ch->off == ch->len)
            chunk_free(q, ch);
    }
}

int outq_flush(outq_t *q, int fd)
{
    while (q->bytes > 0) {
        struct iovec iov[IOV_BATCH];
        struct msghdr hdr = {.msg_iov = iov};
        size_t total = 0;
        ssize_t n;

        LIST_FOREACH(it, &q->chunks)
        {
            struct chunk *ch = list_entry(it, struct chunk, node);
            if (hdr.msg_iovlen == IOV_BATCH)
                break;
            iov[hdr.msg_iovlen].iov_base = ch->data + ch->off;
            iov[hdr.msg_iovlen++].iov_len = ch->len - ch->off;
            total += ch->len - ch->off;
        }
        n = sendmsg(fd, &hdr, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            return 1;
        if (n < 0)
            return -1;
        consume(q, (size_t)n);
        if ((size_t)n < total)
            return 1;
    }
    return 0;
}

size_t outq_bytes(const outq_t *q)
{
    return q->bytes;
}

size_t outq_messages(const outq_t *q)
{
    return q->messages;
}

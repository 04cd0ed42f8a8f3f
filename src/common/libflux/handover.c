/* handover.c - the state that one instance of a module leaves to the next: see handover.h.
 *
 * Format: a sequence of items, each a byte for its kind and 8 bytes, little-endian:
 *
 *    'n'  a number
 *    'd'  length of the bytes that follow
 *    's'  length of the string that follows, including its NUL
 *    'k'  the same: a mark
 *    '0'  no string, descriptor or message (the 8 bytes are 0)
 *    'f'  index of a descriptor in `fds`
 *    'm'  index of a message in `msgs`
 *
 * Invariants:
 *  1. A get takes exactly one complete item of its kind, or sets `errnum` and takes nothing.
 *  2. Each descriptor and message is taken at most once; those left are closed and destroyed here.
 *
 * Failure: `errnum` is set once and stays.
 */
#include "config.h"
#include "handover.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "libutil/buf.h"
#include "libutil/le.h"

#define ITEM 9

struct flux_handover {
    buf_t *bytes;
    size_t pos; /* of the next item */
    int fds[FLUX_HANDOVER_FDS_MAX];
    size_t nfds;
    flux_msg_t **msgs;
    size_t nmsgs, cap;
    int errnum;
};

flux_handover_t *flux_handover_create(void)
{
    flux_handover_t *o = calloc(1, sizeof(*o));

    if (o && !(o->bytes = buf_create(FLUX_HANDOVER_MAX))) {
        free(o);
        o = NULL;
    }
    return o;
}

void flux_handover_destroy(flux_handover_t *o)
{
    int saved = errno;

    if (!o)
        return;
    for (size_t i = 0; i < o->nfds; i++)
        if (o->fds[i] >= 0)
            close(o->fds[i]);
    for (size_t i = 0; i < o->nmsgs; i++)
        flux_msg_destroy(o->msgs[i]);
    free(o->msgs);
    buf_destroy(o->bytes);
    free(o);
    errno = saved;
}

void flux_handover_fail(flux_handover_t *o, int errnum)
{
    if (!o->errnum)
        o->errnum = errnum ? errnum : EIO;
}

bool flux_handover_ok(const flux_handover_t *o)
{
    return !o->errnum;
}

int flux_handover_end(const flux_handover_t *o, errmsg_t *err)
{
    if (o->errnum == EPROTO || (!o->errnum && o->pos > 0 && o->pos < buf_len(o->bytes)))
        return errmsg_fail(
            err, EPROTO, "the previous instance left data in a form that this one does not expect");
    if (o->errnum == EFBIG)
        return errmsg_fail(err, EFBIG, "its state exceeds the %u MiB that can be handed over",
                           FLUX_HANDOVER_MAX >> 20);
    if (o->errnum)
        return errmsg_fail(err, o->errnum, "its state cannot be handed over: %s",
                           strerror(o->errnum));
    return 0;
}

/* --- put --- */

static void put(flux_handover_t *o, char kind, uint64_t value, const void *data, size_t len)
{
    uint8_t *p;

    if (o->errnum)
        return;
    if (!(p = buf_reserve(o->bytes, ITEM + len))) {
        flux_handover_fail(o, errno == ENOBUFS ? EFBIG : ENOMEM);
        return;
    }
    p[0] = (uint8_t)kind;
    le_put64(p + 1, value);
    if (len)
        memcpy(p + ITEM, data, len);
    buf_commit(o->bytes, ITEM + len);
}

void flux_handover_put_mark(flux_handover_t *o, const char *name)
{
    size_t len = strlen(name) + 1;

    put(o, 'k', len, name, len);
}

void flux_handover_put(flux_handover_t *o, uint64_t value)
{
    put(o, 'n', value, NULL, 0);
}

void flux_handover_put_data(flux_handover_t *o, const void *data, size_t len)
{
    put(o, 'd', len, data, len);
}

void flux_handover_put_str(flux_handover_t *o, const char *s)
{
    size_t len = s ? strlen(s) + 1 : 0;

    put(o, s ? 's' : '0', len, s, len);
}

void flux_handover_put_fd(flux_handover_t *o, int fd)
{
    int copy;

    if (fd < 0 || o->errnum) {
        put(o, '0', 0, NULL, 0);
        return;
    }
    if (o->nfds == FLUX_HANDOVER_FDS_MAX)
        flux_handover_fail(o, EFBIG);
    else if ((copy = fcntl(fd, F_DUPFD_CLOEXEC, 0)) < 0)
        flux_handover_fail(o, errno);
    else {
        put(o, 'f', o->nfds, NULL, 0);
        o->fds[o->nfds++] = copy;
    }
}

void flux_handover_put_msg(flux_handover_t *o, const flux_msg_t *msg)
{
    if (!msg || o->errnum) {
        put(o, '0', 0, NULL, 0);
        return;
    }
    if (o->nmsgs == FLUX_HANDOVER_MSGS_MAX) {
        flux_handover_fail(o, EFBIG);
        return;
    }
    if (o->nmsgs == o->cap) {
        size_t cap = o->cap ? 2 * o->cap : 16;
        flux_msg_t **v = realloc(o->msgs, cap * sizeof(*v));

        if (!v) {
            flux_handover_fail(o, ENOMEM);
            return;
        }
        o->msgs = v;
        o->cap = cap;
    }
    put(o, 'm', o->nmsgs, NULL, 0);
    o->msgs[o->nmsgs++] = flux_msg_incref(msg);
}

/* --- get --- */

/* Take the next item if it is of this kind, or (optional) '0': its number, and what follows. */
static bool get(flux_handover_t *o, char kind, bool optional, uint64_t *value, const char **data)
{
    const char *p = buf_data(o->bytes);
    size_t left = buf_len(o->bytes) - o->pos;
    bool body = (kind == 'd' || kind == 's' || kind == 'k');
    bool none;

    *value = 0;
    if (o->errnum)
        return false;
    if (left < ITEM) {
        flux_handover_fail(o, EPROTO);
        return false;
    }
    p += o->pos;
    *value = le_get64(p + 1);
    none = (optional && p[0] == '0' && *value == 0);
    if (!none && (p[0] != kind || (body && *value > left - ITEM))) {
        flux_handover_fail(o, EPROTO);
        *value = 0;
        return false;
    }
    if (data)
        *data = p + ITEM;
    o->pos += ITEM + (body ? (size_t)*value : 0);
    return !none;
}

uint64_t flux_handover_get(flux_handover_t *o, uint64_t max)
{
    uint64_t value;

    if (get(o, 'n', false, &value, NULL) && value <= max)
        return value;
    flux_handover_fail(o, EPROTO);
    return 0;
}

const void *flux_handover_get_data(flux_handover_t *o, size_t *len)
{
    const char *data = "";
    uint64_t n;

    (void)get(o, 'd', false, &n, &data);
    *len = (size_t)n;
    return data;
}

/* A string ends with its first NUL. */
static const char *get_string(flux_handover_t *o, char kind, bool optional)
{
    const char *s;
    uint64_t len;

    if (!get(o, kind, optional, &len, &s))
        return NULL;
    if (len > 0 && memchr(s, '\0', (size_t)len) == s + len - 1)
        return s;
    flux_handover_fail(o, EPROTO);
    return NULL;
}

const char *flux_handover_get_str(flux_handover_t *o)
{
    return get_string(o, 's', true);
}

void flux_handover_get_mark(flux_handover_t *o, const char *name)
{
    const char *s = get_string(o, 'k', false);

    if (s && strcmp(s, name) != 0)
        flux_handover_fail(o, EPROTO);
}

int flux_handover_get_fd(flux_handover_t *o)
{
    uint64_t i;
    int fd;

    if (!get(o, 'f', true, &i, NULL))
        return -1;
    if (i >= o->nfds || o->fds[i] < 0) {
        flux_handover_fail(o, EPROTO);
        return -1;
    }
    fd = o->fds[i];
    o->fds[i] = -1;
    return fd;
}

flux_msg_t *flux_handover_get_msg(flux_handover_t *o)
{
    flux_msg_t *msg;
    uint64_t i;

    if (!get(o, 'm', true, &i, NULL))
        return NULL;
    if (i >= o->nmsgs || !o->msgs[i]) {
        flux_handover_fail(o, EPROTO);
        return NULL;
    }
    msg = o->msgs[i];
    o->msgs[i] = NULL;
    return msg;
}

/* retain.c - frames kept until they are acknowledged (interface: retain.h).
 *
 * Format: the frames follow one another in a buffer, each with a head:
 *
 *    u32 length, u32 type (both in the byte order of the machine), payload
 *
 *         first                   at
 *     ... | acknowledged: dropped | sent, not acknowledged | to be sent |
 *
 * Invariants:
 *  1. The first frame of the buffer has the number `first`, and the frame at the offset `at` the
 *     number `next`; first <= next <= first + count.
 *  2. A number is given once, also when the frame is sent again.
 *
 * Bounds: the caller adds output only as far as its source has credit, which it gives back for
 * acknowledged frames only.
 *
 * Failure: a frame for which there is no memory is not added.
 */
#include "config.h"
#include "retain.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "libutil/buf.h"
#include "libutil/invariant.h"

struct head {
    uint32_t len;
    uint32_t type;
};

struct retain {
    buf_t *b;
    uint64_t first;
    uint64_t next;
    size_t at;
    size_t count;
};

retain_t *retain_create(void)
{
    retain_t *r = calloc(1, sizeof(*r));

    if (!r || !(r->b = buf_create(0))) {
        free(r);
        errno = ENOMEM;
        return NULL;
    }
    r->first = r->next = 1;
    return r;
}

void retain_destroy(retain_t *r)
{
    if (!r)
        return;
    buf_destroy(r->b);
    free(r);
}

static struct head head_at(const retain_t *r, size_t at)
{
    struct head h;

    memcpy(&h, (const uint8_t *)buf_data(r->b) + at, sizeof(h));
    return h;
}

int retain_add(retain_t *r, enum wire_type type, const void *data, size_t len)
{
    struct head h = {(uint32_t)len, type};
    uint8_t *p = buf_reserve(r->b, sizeof(h) + len);

    if (!p)
        return -1;
    memcpy(p, &h, sizeof(h));
    if (len)
        memcpy(p + sizeof(h), data, len);
    buf_commit(r->b, sizeof(h) + len);
    r->count++;
    return 0;
}

bool retain_next(const retain_t *r, struct retained *f)
{
    struct head h;

    INVARIANT(1, r->first <= r->next && r->next <= r->first + r->count);
    if (r->at == buf_len(r->b))
        return false;
    h = head_at(r, r->at);
    *f = (struct retained){.number = r->next,
                           .type = (enum wire_type)h.type,
                           .len = h.len,
                           .data = (const uint8_t *)buf_data(r->b) + r->at + sizeof(h)};
    return true;
}

void retain_sent(retain_t *r)
{
    if (r->at == buf_len(r->b))
        return;
    r->at += sizeof(struct head) + head_at(r, r->at).len;
    r->next++;
}

void retain_rewind(retain_t *r)
{
    r->at = 0;
    r->next = r->first;
}

size_t retain_ack(retain_t *r, uint64_t number)
{
    size_t bytes = 0, off = 0;

    while (r->count > 0 && r->first <= number) {
        uint32_t len = head_at(r, off).len;

        off += sizeof(struct head) + len;
        bytes += len;
        r->first++;
        r->count--;
    }
    /* Frames that are about to be sent again may be among them. */
    r->at = r->at > off ? r->at - off : 0;
    if (r->next < r->first)
        r->next = r->first;
    buf_consume(r->b, off);
    INVARIANT(1, r->next <= r->first + r->count);
    return bytes;
}

size_t retain_bytes(const retain_t *r)
{
    return buf_len(r->b);
}

void retain_save(const retain_t *r, flux_handover_t *o)
{
    flux_handover_put(o, r->first);
    flux_handover_put(o, r->next - r->first);
    flux_handover_put_data(o, buf_data(r->b), buf_len(r->b));
}

void retain_load(retain_t *r, flux_handover_t *o)
{
    uint64_t first = flux_handover_get(o, UINT64_MAX), sent = flux_handover_get(o, UINT64_MAX);
    size_t len;
    const uint8_t *data = flux_handover_get_data(o, &len);

    while (len > 0) {
        struct head h = {0};

        if (len >= sizeof(h))
            memcpy(&h, data, sizeof(h));
        if (len < sizeof(h) || h.len > len - sizeof(h)) {
            flux_handover_fail(o, EPROTO);
            return;
        }
        if (retain_add(r, (enum wire_type)h.type, data + sizeof(h), h.len) < 0) {
            flux_handover_fail(o, ENOMEM);
            return;
        }
        data += sizeof(h) + h.len;
        len -= sizeof(h) + h.len;
    }
    r->first = r->next = first;
    if (sent > r->count)
        flux_handover_fail(o, EPROTO);
    for (; flux_handover_ok(o) && sent > 0; sent--)
        retain_sent(r);
}

/* kvs_wire.c - encoding and strict decoding of raw payloads.  kvs_wire.h defines their layouts.
 *
 * Failure: EPROTO, or the error of the key, with an error message.
 */
#include "config.h"
#include <errno.h>
#include <string.h>

#include "kvs_key.h"
#include "kvs_wire.h"
#include "libutil/le.h"

/* Append `len` bytes at p.  Returns the end. */
static uint8_t *put(uint8_t *p, const void *data, size_t len)
{
    if (len)
        memcpy(p, data, len);
    return p + len;
}

static bool printable(const char *p, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (p[i] <= ' ' || p[i] > '~')
            return false;
    }
    return true;
}

/* --- root --- */

size_t kvs_root_encode(const struct kvs_root *r, uint8_t buf[KVS_ROOT_WIRE_MAX])
{
    size_t nslen = strlen(r->ns), reflen = strlen(r->ref);
    le_put64(buf, r->version);
    buf[8] = (uint8_t)nslen;
    buf[9] = (uint8_t)reflen;
    le_put16(buf + 10, 0);
    uint8_t *p = put(buf + KVS_ROOT_HEADER, r->ns, nslen);
    return (size_t)(put(p, r->ref, reflen) - buf);
}

int kvs_root_decode(const void *data, size_t len, struct kvs_root *r, errmsg_t *err)
{
    const uint8_t *p = data;
    if (len < KVS_ROOT_HEADER || len != (size_t)KVS_ROOT_HEADER + p[8] + p[9] ||
        le_get16(p + 10) != 0 || p[9] == 0 || p[9] >= sizeof(r->ref))
        return errmsg_fail(err, EPROTO, "message of %zu bytes is not a root of the key-value store",
                           len);
    const char *ns = (const char *)p + KVS_ROOT_HEADER, *ref = ns + p[8];
    if (kvs_ns_check(ns, p[8], err) < 0) {
        errno = EPROTO;
        return -1;
    }
    if (!printable(ref, p[9]))
        return errmsg_fail(err, EPROTO,
                           "the reference of a root of the key-value store is invalid");
    r->version = le_get64(p);
    memcpy(r->ns, ns, p[8]);
    r->ns[p[8]] = '\0';
    memcpy(r->ref, ref, p[9]);
    r->ref[p[9]] = '\0';
    return 0;
}

/* --- payloads for a namespace --- */

#define NS_NUMBERS 32 /* bytes of the numbers of a commit */

/* Bytes between the name of the namespace and the body. */
static size_t ns_extra(unsigned flags)
{
    return (flags & KVS_NS_CLIENT ? 4u : 0) + (flags & KVS_NS_NUMBERED ? NS_NUMBERS : 0);
}

size_t kvs_ns_req_size(const struct kvs_ns_req *q)
{
    return KVS_NS_HEADER + q->nslen + ns_extra(q->flags) + q->len;
}

void kvs_ns_req_encode(const struct kvs_ns_req *q, uint8_t *buf)
{
    memset(buf, 0, KVS_NS_HEADER);
    buf[0] = (uint8_t)q->nslen;
    buf[1] = q->flags;
    buf = put(buf + KVS_NS_HEADER, q->ns, q->nslen);
    if (q->flags & KVS_NS_CLIENT) {
        le_put32(buf, q->client);
        buf += 4;
    }
    if (q->flags & KVS_NS_NUMBERED) {
        le_put64(buf, q->sender);
        le_put64(buf + 8, q->number);
        le_put64(buf + 16, q->after);
        le_put64(buf + 24, q->answered);
        buf += NS_NUMBERS;
    }
    put(buf, q->body, q->len);
}

static int get_numbers(const uint8_t *p, struct kvs_ns_req *q)
{
    q->sender = le_get64(p);
    q->number = le_get64(p + 8);
    q->after = le_get64(p + 16);
    q->answered = le_get64(p + 24);
    return q->sender && q->answered < q->number && q->after < q->number &&
                   (q->after == 0 || q->after > q->answered)
               ? 0
               : -1;
}

int kvs_ns_req_decode(const void *data, size_t len, struct kvs_ns_req *q, errmsg_t *err)
{
    const uint8_t *p = data;
    size_t more = len >= KVS_NS_HEADER ? ns_extra(p[1]) : 0;
    if (len < KVS_NS_HEADER || len < KVS_NS_HEADER + p[0] + more ||
        p[1] & ~(KVS_NS_DURABLE | KVS_NS_CLIENT | KVS_NS_NUMBERED | KVS_NS_AGAIN) || p[2] || p[3] ||
        (p[1] & KVS_NS_AGAIN && !(p[1] & KVS_NS_NUMBERED)))
        return errmsg_fail(err, EPROTO, "request of %zu bytes names no namespace", len);
    *q = (struct kvs_ns_req){.flags = p[1], .ns = (const char *)p + KVS_NS_HEADER, .nslen = p[0]};
    p += KVS_NS_HEADER + q->nslen;
    q->body = p + more;
    q->len = len - KVS_NS_HEADER - q->nslen - more;
    if (q->flags & KVS_NS_CLIENT) {
        q->client = le_get32(p);
        p += 4;
    }
    if (q->flags & KVS_NS_NUMBERED && get_numbers(p, q) < 0)
        return errmsg_fail(err, EPROTO, "the numbers of a commit contradict each other");
    return kvs_ns_check(q->ns, q->nslen, err);
}

int kvs_store_answer_decode(const void *data, size_t len, const uint8_t **digests, size_t *n,
                            size_t *dsize, errmsg_t *err)
{
    const uint8_t *p = data;
    if (len < KVS_STORE_HEADER || p[0] == 0 || p[0] > KVS_DIGEST_MAX || p[1] || p[2] || p[3] ||
        (len - KVS_STORE_HEADER) % p[0] != 0)
        return errmsg_fail(err, EPROTO, "message of %zu bytes is not a list of digests", len);
    *dsize = p[0];
    *digests = p + KVS_STORE_HEADER;
    *n = (len - KVS_STORE_HEADER) / p[0];
    return 0;
}

/* --- lookup --- */

size_t kvs_lookup_req_size(const struct kvs_lookup_req *q)
{
    return KVS_REQ_HEADER + q->nslen + q->reflen + q->keylen + q->cursorlen;
}

void kvs_lookup_req_encode(const struct kvs_lookup_req *q, uint8_t *buf)
{
    le_put16(buf, (uint16_t)q->flags);
    buf[2] = (uint8_t)q->nslen;
    buf[3] = (uint8_t)q->reflen;
    le_put16(buf + 4, (uint16_t)q->keylen);
    le_put16(buf + 6, (uint16_t)q->cursorlen);
    le_put32(buf + 8, q->count);
    le_put32(buf + 12, 0);
    le_put64(buf + 16, q->offset);
    uint8_t *p = put(buf + KVS_REQ_HEADER, q->ns, q->nslen);
    p = put(p, q->ref, q->reflen);
    p = put(p, q->key, q->keylen);
    put(p, q->cursor, q->cursorlen);
}

/* Check that fields which the flags do not request are empty, and that the flags are compatible. */
static int check_flags(const struct kvs_lookup_req *q, errmsg_t *err)
{
    const unsigned all = KVS_REQ_READLINK | KVS_REQ_VALUES | KVS_REQ_TAG | KVS_REQ_RANGE |
                         KVS_REQ_PAGE | KVS_REQ_APPEND | KVS_REQ_DIFF;
    unsigned kind = q->flags & (KVS_REQ_RANGE | KVS_REQ_PAGE | KVS_REQ_APPEND | KVS_REQ_DIFF);
    if (q->flags & ~all)
        return errmsg_fail(err, EPROTO, "a look-up has unknown flags %#x", q->flags);
    if (kind & (kind - 1))
        return errmsg_fail(err, EPROTO, "flags %#x of a look-up exclude each other", q->flags);
    if ((q->offset && !(kind & KVS_REQ_RANGE) &&
         (!(q->flags & KVS_REQ_VALUES) || kind & (KVS_REQ_APPEND | KVS_REQ_DIFF))) ||
        (q->cursorlen && !(kind & KVS_REQ_PAGE)) ||
        (q->count && !(kind & (KVS_REQ_RANGE | KVS_REQ_PAGE))))
        return errmsg_fail(err, EPROTO, "flags %#x of a look-up do not match its fields", q->flags);
    if (kind & KVS_REQ_RANGE && q->count > KVS_RANGE_MAX)
        return errmsg_fail(err, EINVAL, "a look-up of %u bytes is too long: the limit is %u",
                           q->count, KVS_RANGE_MAX);
    if (kind & KVS_REQ_PAGE && q->count == 0)
        return errmsg_fail(err, EINVAL, "a page of a directory must have room for an entry");
    return 0;
}

int kvs_lookup_req_decode(const void *data, size_t len, struct kvs_lookup_req *q, errmsg_t *err)
{
    const uint8_t *p = data;
    if (len < KVS_REQ_HEADER ||
        len != (size_t)KVS_REQ_HEADER + p[2] + p[3] + le_get16(p + 4) + le_get16(p + 6) ||
        le_get32(p + 12) != 0)
        return errmsg_fail(err, EPROTO, "request of %zu bytes is not a look-up", len);
    q->flags = le_get16(p);
    q->nslen = p[2];
    q->reflen = p[3];
    q->keylen = le_get16(p + 4);
    q->cursorlen = le_get16(p + 6);
    q->count = le_get32(p + 8);
    q->offset = le_get64(p + 16);
    q->ns = (const char *)p + KVS_REQ_HEADER;
    q->ref = q->ns + q->nslen;
    q->key = q->ref + q->reflen;
    q->cursor = q->key + q->keylen;
    if (check_flags(q, err) < 0 || kvs_ns_check(q->ns, q->nslen, err) < 0)
        return -1;
    if (q->cursorlen &&
        (kvs_key_check(q->cursor, q->cursorlen, err) < 0 || memchr(q->cursor, '.', q->cursorlen)))
        return errmsg_fail(err, EINVAL, "the cursor of a look-up is not a name in a directory");
    if (kvs_key_is_root(q->key, q->keylen))
        return 0;
    return kvs_key_check(q->key, q->keylen, err);
}

void kvs_answer_encode_header(const struct kvs_answer *a, uint8_t buf[KVS_ANSWER_HEADER])
{
    memset(buf, 0, KVS_ANSWER_HEADER);
    buf[0] = a->type;
    buf[1] = a->flags;
    le_put32(buf + 4, a->count);
    le_put64(buf + 8, a->version);
    le_put64(buf + 16, a->size);
}

int kvs_answer_decode(const void *data, size_t len, struct kvs_answer *a, errmsg_t *err)
{
    const uint8_t *p = data;
    const unsigned all = KVS_ANSWER_TAG | KVS_ANSWER_MORE | KVS_ANSWER_WHOLE | KVS_ANSWER_DIFF;
    size_t head = KVS_ANSWER_HEADER;
    if (len >= head && p[1] & KVS_ANSWER_TAG)
        head += KVS_TAG_SIZE;
    if (len < head || p[1] & ~all || le_get16(p + 2))
        return errmsg_fail(err, EPROTO, "message of %zu bytes is not a response to a look-up", len);
    a->type = p[0];
    a->flags = p[1];
    a->count = le_get32(p + 4);
    a->version = le_get64(p + 8);
    a->size = le_get64(p + 16);
    a->tag = p[1] & KVS_ANSWER_TAG ? p + KVS_ANSWER_HEADER : NULL;
    a->body = p + head;
    a->len = len - head;
    return 0;
}

void kvs_answer_entry_encode_header(const struct kvs_answer_entry *e,
                                    uint8_t buf[KVS_ANSWER_ENTRY_HEADER])
{
    memset(buf, 0, KVS_ANSWER_ENTRY_HEADER);
    buf[0] = e->type;
    buf[1] = e->change;
    le_put16(buf + 2, e->namelen);
    buf[4] = e->has_data;
    le_put64(buf + 8, e->size);
}

int kvs_answer_next(const struct kvs_answer *a, size_t *pos, struct kvs_answer_entry *e,
                    errmsg_t *err)
{
    size_t left = a->len - *pos;
    if (left == 0)
        return 0;
    const uint8_t *p = a->body + *pos;
    if (left < KVS_ANSWER_ENTRY_HEADER)
        goto bad;
    left -= KVS_ANSWER_ENTRY_HEADER;
    e->type = p[0];
    e->change = p[1];
    e->namelen = le_get16(p + 2);
    e->has_data = p[4] != 0;
    e->size = le_get64(p + 8);
    if (left < e->namelen || (e->has_data && left - e->namelen < e->size) || p[4] > 1 || p[5] ||
        p[6] || p[7] || e->change > KVS_CHANGE_REMOVED || e->namelen == 0)
        goto bad;
    e->name = (const char *)p + KVS_ANSWER_ENTRY_HEADER;
    e->data = e->has_data ? p + KVS_ANSWER_ENTRY_HEADER + e->namelen : NULL;
    *pos += KVS_ANSWER_ENTRY_HEADER + (size_t)e->namelen + (e->has_data ? (size_t)e->size : 0);
    return 1;
bad:
    return errmsg_fail(err, EPROTO, "an entry of a directory listing is malformed");
}

/* --- fence --- */

size_t kvs_fence_req_size(const struct kvs_fence_req *q)
{
    return KVS_FENCE_HEADER + q->nslen + q->namelen + q->rankslen + q->callerslen + q->txnlen;
}

void kvs_fence_req_encode(const struct kvs_fence_req *q, uint8_t *buf)
{
    le_put32(buf, q->nprocs);
    le_put32(buf + 4, q->count);
    le_put32(buf + 8, q->rank);
    le_put32(buf + 12, q->number);
    le_put32(buf + 16, q->after);
    buf[20] = q->flags;
    buf[21] = (uint8_t)q->namelen;
    buf[22] = (uint8_t)q->nslen;
    buf[23] = 0;
    le_put32(buf + 24, (uint32_t)q->rankslen);
    le_put32(buf + 28, (uint32_t)q->callerslen);
    le_put32(buf + 32, q->heard);
    le_put32(buf + 36, q->before);
    buf = put(put(buf + KVS_FENCE_HEADER, q->ns, q->nslen), q->name, q->namelen);
    buf = put(put(buf, q->ranks, q->rankslen), q->callers, q->callerslen);
    put(buf, q->txn, q->txnlen);
}

int kvs_fence_req_decode(const void *data, size_t len, struct kvs_fence_req *q, errmsg_t *err)
{
    const uint8_t *p = data;
    size_t head = KVS_FENCE_HEADER;
    if (len >= head)
        head += (size_t)p[21] + p[22] + le_get32(p + 24) + le_get32(p + 28);
    if (len < head || p[23] || le_get32(p + 24) > KVS_FENCE_RANKS_MAX ||
        le_get32(p + 28) > KVS_FENCE_RANKS_MAX)
        return errmsg_fail(err, EPROTO, "request of %zu bytes is not a fence", len);
    q->nprocs = le_get32(p);
    q->count = le_get32(p + 4);
    q->rank = le_get32(p + 8);
    q->number = le_get32(p + 12);
    q->after = le_get32(p + 16);
    q->flags = p[20];
    q->namelen = p[21];
    q->nslen = p[22];
    q->ns = (const char *)p + KVS_FENCE_HEADER;
    q->name = q->ns + q->nslen;
    q->ranks = q->name + q->namelen;
    q->rankslen = le_get32(p + 24);
    q->callers = q->ranks + q->rankslen;
    q->callerslen = le_get32(p + 28);
    q->heard = le_get32(p + 32);
    q->before = le_get32(p + 36);
    q->txn = (const uint8_t *)q->callers + q->callerslen;
    q->txnlen = len - head;
    bool instance = q->flags & KVS_FENCE_INSTANCE, anew = q->flags & KVS_FENCE_ANEW;
    unsigned kind = q->flags & (KVS_FENCE_ADD | KVS_FENCE_ANEW | KVS_FENCE_AGAIN);
    if (q->flags & ~(KVS_FENCE_INSTANCE | KVS_FENCE_PACKED | kind) || kind & (kind - 1) ||
        (q->flags && !instance))
        return errmsg_fail(err, EPROTO, "a fence has unknown flags %#x", q->flags);
    if (kvs_ns_check(q->ns, q->nslen, err) < 0)
        return -1;
    if (q->namelen == 0)
        return errmsg_fail(err, EINVAL, "a fence needs a name");
    if (!printable(q->name, q->namelen))
        return errmsg_fail(err, EINVAL,
                           "the name of a fence contains a character that is not printable ASCII");
    if ((q->count == 0 && !anew) || q->count > q->nprocs)
        return errmsg_fail(err, EINVAL, "fence of %u: %u calls cannot take part", q->nprocs,
                           q->count);
    if (!instance &&
        (q->count != 1 || q->number || q->after || q->heard || q->before || q->callerslen))
        return errmsg_fail(err, EPROTO, "a client's call to a fence counts for %u", q->count);
    return 0;
}

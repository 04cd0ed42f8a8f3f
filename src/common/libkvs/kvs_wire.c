/* kvs_wire.c - encoding and strict decoding of what kvs clients and instances send each other.
 *
 * The layouts stand in kvs_wire.h.  Integers are little-endian.  Unused bytes are zero, and nothing
 * may follow what a layout says.
 *
 * Failure: EPROTO, or the key's error, with a sentence.
 */
#include "config.h"
#include <endian.h>
#include <errno.h>
#include <string.h>

#include "kvs_key.h"
#include "kvs_wire.h"

uint16_t kvs_get16(const void *p)
{
    uint16_t v;
    memcpy(&v, p, sizeof(v));
    return le16toh(v);
}

uint32_t kvs_get32(const void *p)
{
    uint32_t v;
    memcpy(&v, p, sizeof(v));
    return le32toh(v);
}

uint64_t kvs_get64(const void *p)
{
    uint64_t v;
    memcpy(&v, p, sizeof(v));
    return le64toh(v);
}

void kvs_put16(void *p, uint16_t v)
{
    v = htole16(v);
    memcpy(p, &v, sizeof(v));
}

void kvs_put32(void *p, uint32_t v)
{
    v = htole32(v);
    memcpy(p, &v, sizeof(v));
}

void kvs_put64(void *p, uint64_t v)
{
    v = htole64(v);
    memcpy(p, &v, sizeof(v));
}

/* --- root --- */

size_t kvs_root_encode(const struct kvs_root *r, uint8_t buf[KVS_ROOT_WIRE_MAX])
{
    size_t n = strlen(r->ref);
    kvs_put64(buf, r->version);
    memcpy(buf + 8, r->ref, n);
    return 8 + n;
}

int kvs_root_decode(const void *data, size_t len, struct kvs_root *r, errmsg_t *err)
{
    const char *p = data;
    if (len < 9 || len - 8 >= sizeof(r->ref))
        return errmsg_fail(err, EPROTO, "message of %zu bytes is no root of the key-value store",
                           len);
    for (size_t i = 8; i < len; i++) {
        if (p[i] <= ' ' || p[i] > '~')
            return errmsg_fail(err, EPROTO,
                               "root of the key-value store has no readable reference");
    }
    r->version = kvs_get64(p);
    memcpy(r->ref, p + 8, len - 8);
    r->ref[len - 8] = '\0';
    return 0;
}

/* --- lookup --- */

size_t kvs_lookup_req_size(const struct kvs_lookup_req *q)
{
    return 4 + q->reflen + q->keylen;
}

void kvs_lookup_req_encode(const struct kvs_lookup_req *q, uint8_t *buf)
{
    buf[0] = (uint8_t)q->flags;
    buf[1] = (uint8_t)q->reflen;
    kvs_put16(buf + 2, (uint16_t)q->keylen);
    if (q->reflen)
        memcpy(buf + 4, q->ref, q->reflen);
    memcpy(buf + 4 + q->reflen, q->key, q->keylen);
}

int kvs_lookup_req_decode(const void *data, size_t len, struct kvs_lookup_req *q, errmsg_t *err)
{
    const uint8_t *p = data;
    if (len < 4 || len != 4u + p[1] + kvs_get16(p + 2))
        return errmsg_fail(err, EPROTO, "request of %zu bytes is no look-up", len);
    q->flags = p[0];
    q->reflen = p[1];
    q->keylen = kvs_get16(p + 2);
    q->ref = (const char *)p + 4;
    q->key = (const char *)p + 4 + q->reflen;
    if (q->flags & ~(unsigned)(KVS_REQ_READLINK | KVS_REQ_VALUES))
        return errmsg_fail(err, EPROTO, "flags %#x of a look-up are not known", q->flags);
    if (kvs_key_is_root(q->key, q->keylen))
        return 0;
    return kvs_key_check(q->key, q->keylen, err);
}

void kvs_answer_encode_header(const struct kvs_answer *a, uint8_t buf[KVS_ANSWER_HEADER])
{
    memset(buf, 0, KVS_ANSWER_HEADER);
    buf[0] = a->type;
    kvs_put32(buf + 4, a->count);
    kvs_put64(buf + 8, a->version);
}

int kvs_answer_decode(const void *data, size_t len, struct kvs_answer *a, errmsg_t *err)
{
    const uint8_t *p = data;
    if (len < KVS_ANSWER_HEADER || p[1] || p[2] || p[3])
        return errmsg_fail(err, EPROTO, "message of %zu bytes is no answer to a look-up", len);
    a->type = p[0];
    a->count = kvs_get32(p + 4);
    a->version = kvs_get64(p + 8);
    a->body = p + KVS_ANSWER_HEADER;
    a->len = len - KVS_ANSWER_HEADER;
    return 0;
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
    e->type = p[0];
    e->namelen = p[1];
    e->has_data = p[2] != 0;
    e->size = kvs_get32(p + 4);
    size_t size = KVS_ANSWER_ENTRY_HEADER + (size_t)e->namelen + (e->has_data ? e->size : 0);
    if (left < size || p[2] > 1 || p[3] || e->namelen == 0)
        goto bad;
    e->name = (const char *)p + KVS_ANSWER_ENTRY_HEADER;
    e->data = e->has_data ? p + KVS_ANSWER_ENTRY_HEADER + e->namelen : NULL;
    *pos += size;
    return 1;
bad:
    return errmsg_fail(err, EPROTO, "an entry of a directory listing is malformed");
}

/* --- fence --- */

size_t kvs_fence_req_size(const struct kvs_fence_req *q)
{
    return KVS_FENCE_HEADER + q->namelen + q->txnlen;
}

void kvs_fence_req_encode(const struct kvs_fence_req *q, uint8_t *buf)
{
    kvs_put32(buf, q->nprocs);
    kvs_put32(buf + 4, q->count);
    kvs_put32(buf + 8, q->rank);
    buf[12] = q->flags;
    buf[13] = (uint8_t)q->namelen;
    kvs_put16(buf + 14, 0);
    memcpy(buf + KVS_FENCE_HEADER, q->name, q->namelen);
    if (q->txnlen)
        memcpy(buf + KVS_FENCE_HEADER + q->namelen, q->txn, q->txnlen);
}

int kvs_fence_req_decode(const void *data, size_t len, struct kvs_fence_req *q, errmsg_t *err)
{
    const uint8_t *p = data;
    if (len < KVS_FENCE_HEADER || len < KVS_FENCE_HEADER + (size_t)p[13] || kvs_get16(p + 14) != 0)
        return errmsg_fail(err, EPROTO, "request of %zu bytes is no fence", len);
    q->nprocs = kvs_get32(p);
    q->count = kvs_get32(p + 4);
    q->rank = kvs_get32(p + 8);
    q->flags = p[12];
    q->namelen = p[13];
    q->name = (const char *)p + KVS_FENCE_HEADER;
    q->txn = p + KVS_FENCE_HEADER + q->namelen;
    q->txnlen = len - KVS_FENCE_HEADER - q->namelen;
    if (q->flags & ~(KVS_FENCE_INSTANCE | KVS_FENCE_ADD) || q->flags == KVS_FENCE_ADD)
        return errmsg_fail(err, EPROTO, "flags %#x of a fence are not known", q->flags);
    if (q->namelen == 0)
        return errmsg_fail(err, EINVAL, "a fence needs a name");
    for (size_t i = 0; i < q->namelen; i++) {
        if (q->name[i] <= ' ' || q->name[i] > '~')
            return errmsg_fail(err, EINVAL,
                               "the name of a fence has a character that is not printable ASCII");
    }
    if (q->count == 0 || q->count > q->nprocs)
        return errmsg_fail(err, EINVAL, "fence of %u: %u calls cannot take part", q->nprocs,
                           q->count);
    if (!(q->flags & KVS_FENCE_INSTANCE) && q->count != 1)
        return errmsg_fail(err, EPROTO, "a client's call to a fence counts for %u", q->count);
    return 0;
}

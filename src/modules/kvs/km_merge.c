/* km_merge.c - the merged calls of a fence, and the messages that carry them.
 *
 * Format: clients send transactions.  Instances send packs: the operations merged since their last
 * message.  A value that was sent once is only named by later packs of the same instance for the
 * same fence (libkvs/kvs_dict.h).  So both ends of such a stream of packs keep a dictionary, from
 * the first message (which begins a new dictionary) to the end of the fence.
 *
 * Invariants:
 *  1. The dictionary of the stream upstream, and its counterpart at the receiver, have processed
 *     the same packs.
 *  2. The set contains no operation that was sent.
 *
 * Failure: an error of a set or a stream ends its fence.
 */
#include "config.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "km_merge.h"
#include "libkvs/kvs_pack.h"

static void free_dict(void *val)
{
    kvs_dict_destroy(val);
}

void km_merge_clear(struct km_merge *m)
{
    kvs_set_destroy(m->set);
    kvs_dict_destroy(m->up);
    hmap_destroy(m->streams);
    free(m->pack);
    memset(m, 0, sizeof(*m));
}

static int out_of_memory(errmsg_t *err)
{
    return errmsg_fail(err, ENOMEM, "out of memory for the changes of a fence");
}

static uint64_t stream_key(const struct kvs_fence_req *q)
{
    return (uint64_t)q->rank << 32 | q->number;
}

/* *dict: the dictionary of the stream to which this message belongs; NULL: the call of a client. */
static int find_stream(struct km_merge *m, const struct kvs_fence_req *q, kvs_dict_t **dict,
                       errmsg_t *err)
{
    *dict = NULL;
    if (!(q->flags & KVS_FENCE_PACKED))
        return 0;
    if (!m->streams && !(m->streams = hmap_create_u64(free_dict)))
        return out_of_memory(err);
    if (!(q->flags & KVS_FENCE_ADD)) {
        if (!(*dict = kvs_dict_create()) || hmap_put_u64(m->streams, stream_key(q), *dict) < 0) {
            kvs_dict_destroy(*dict);
            return out_of_memory(err);
        }
    } else if (!(*dict = hmap_get_u64(m->streams, stream_key(q)))) {
        return errmsg_fail(err, EPROTO, "rank %u continues a message that it has not begun",
                           q->rank);
    }
    return 0;
}

int km_merge_check(const struct kvs_fence_req *q, errmsg_t *err)
{
    if (kvs_pack_is(q->txn, q->txnlen))
        return errmsg_fail(err, EPROTO, "a client's call to a fence needs a transaction");
    return kvs_pack_check(q->txn, q->txnlen, NULL, NULL, err);
}

int km_merge_add(struct km_merge *m, const struct kvs_fence_req *q, errmsg_t *err)
{
    kvs_dict_t *dict;
    bool packed = q->flags & KVS_FENCE_PACKED;
    if (packed != kvs_pack_is(q->txn, q->txnlen))
        return errmsg_fail(err, EPROTO,
                           "the transaction of a call to a fence does not match its flags");
    if (!m->set && !(m->set = kvs_set_create()))
        return out_of_memory(err);
    if (find_stream(m, q, &dict, err) < 0)
        return -1;
    return kvs_set_merge(m->set, q->txn, q->txnlen, dict, err);
}

uint8_t *km_merge_message(struct km_merge *m, struct kvs_fence_req *q, size_t *len)
{
    uint8_t *buf;
    size_t head;
    q->flags |= KVS_FENCE_INSTANCE | KVS_FENCE_PACKED;
    q->txnlen = 0;
    head = kvs_fence_req_size(q);
    if ((!m->set && !(m->set = kvs_set_create())) || (!m->up && !(m->up = kvs_dict_create())) ||
        kvs_set_encode(m->set, m->up, head, &buf, &q->txnlen) < 0)
        return NULL;
    *len = head + q->txnlen;
    q->txnlen = 0;
    kvs_fence_req_encode(q, buf);
    kvs_set_clear(m->set);
    return buf;
}

int km_merge_finish(struct km_merge *m)
{
    if (!m->set && !(m->set = kvs_set_create()))
        return -1;
    if (kvs_set_encode(m->set, NULL, 0, &m->pack, &m->packlen) < 0)
        return -1;
    m->mixed = kvs_set_rest(m->set) > 0;
    kvs_set_clear(m->set);
    return 0;
}

/* km_merge.h - the merged calls of a fence at one instance: a set of operations (libkvs/kvs_set.h),
 * and the dictionaries of the streams of packs from the instances below and to the instance above.
 *
 * Thread rules: those of the handle.
 */
#ifndef KM_MERGE_H
#define KM_MERGE_H

#include <stdbool.h>

#include "libkvs/kvs_set.h"
#include "libkvs/kvs_wire.h"
#include "libutil/hmap.h"

/* All zeros: empty. */
struct km_merge {
    kvs_set_t *set;
    kvs_dict_t *up;  /* dictionary of the stream upstream */
    hmap_t *streams; /* rank and number of an instance below -> its dictionary */
    uint8_t *pack;   /* the result of km_merge_finish() */
    size_t packlen;
    bool mixed; /* the pack contains operations other than puts */
};

void km_merge_clear(struct km_merge *m);

/* Check the transaction of a client.  -1 with errno and an error message. */
int km_merge_check(const struct kvs_fence_req *q, errmsg_t *err);
/* Merge the transaction or pack of a message.  -1 with an error message: a part of it may have been
 * merged. */
int km_merge_add(struct km_merge *m, const struct kvs_fence_req *q, errmsg_t *err);
/* The message upstream with all operations merged since the last message, malloc'd; sets the flags
 * and the transaction of *q.  NULL with ENOMEM: the stream cannot go on. */
uint8_t *km_merge_message(struct km_merge *m, struct kvs_fence_req *q, size_t *len);
/* After the last call: encode all operations as one pack, in m->pack.  -1 with ENOMEM. */
int km_merge_finish(struct km_merge *m);

#endif

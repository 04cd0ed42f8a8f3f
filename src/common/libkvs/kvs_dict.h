/* The dictionary of a stream of packs (kvs_pack.h) between two instances: values that both ends
 * remember, so that each crosses the stream once, however many packs contain it.
 *
 * Both ends process the same packs in the same order, and so remember the same values: each new
 * value of at least KVS_DICT_MIN bytes, while there are at most KVS_DICT_MAX of them and
 * KVS_DICT_BYTES in all.
 *
 * Thread rules: a dictionary belongs to one thread.
 */
#ifndef KVS_DICT_H
#define KVS_DICT_H

#include <stddef.h>
#include <stdint.h>

#define KVS_DICT_MIN 32
#define KVS_DICT_MAX 256
#define KVS_DICT_BYTES (4u * 1024 * 1024)

typedef struct kvs_dict kvs_dict_t;

kvs_dict_t *kvs_dict_create(void);    /* NULL with ENOMEM */
void kvs_dict_destroy(kvs_dict_t *d); /* NULL-safe, keeps errno */

/* These functions accept NULL for an empty dictionary. */
uint32_t kvs_dict_count(const kvs_dict_t *d);
/* Value number i < count. */
const uint8_t *kvs_dict_value(const kvs_dict_t *d, uint32_t i, uint32_t *len);
/* The number of a value, or UINT32_MAX if the dictionary does not have it. */
uint32_t kvs_dict_find(const kvs_dict_t *d, const void *data, uint32_t len);

/* A new value has crossed the stream: remember a copy of it, if it is one of those that both ends
 * remember.  -1 with ENOMEM: the dictionaries of both ends now differ. */
int kvs_dict_learn(kvs_dict_t *d, const void *data, uint32_t len);

#endif

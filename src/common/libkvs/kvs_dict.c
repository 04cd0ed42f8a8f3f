/* kvs_dict.c - values that both ends of a stream of packs remember.
 *
 * Invariants:
 *  1. The contents depend only on the values that crossed the stream, and on their order.
 *  2. Numbers do not change; no value is removed.
 *
 * Failure: only ENOMEM, after which the stream cannot be continued.
 */
#include "config.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "kvs_dict.h"
#include "libutil/siphash.h"

#define CHAINS 64
#define NONE UINT32_MAX

struct value {
    uint32_t len;
    uint32_t hash;
    uint32_t next;
    uint8_t *data;
};

struct kvs_dict {
    struct siphash_key hash_key;
    struct value values[KVS_DICT_MAX];
    uint32_t count;
    uint32_t bytes;
    uint32_t heads[CHAINS];
};

kvs_dict_t *kvs_dict_create(void)
{
    kvs_dict_t *d = calloc(1, sizeof(*d));
    if (d) {
        siphash_key_random(&d->hash_key, (uintptr_t)d);
        memset(d->heads, 0xff, sizeof(d->heads));
    }
    return d;
}

void kvs_dict_destroy(kvs_dict_t *d)
{
    if (!d)
        return;
    int saved = errno;
    for (uint32_t i = 0; i < d->count; i++)
        free(d->values[i].data);
    free(d);
    errno = saved;
}

static uint32_t hash(const kvs_dict_t *d, const uint8_t *p, uint32_t len)
{
    uint64_t h = siphash(&d->hash_key, p, len);
    return (uint32_t)(h ^ h >> 32);
}

uint32_t kvs_dict_count(const kvs_dict_t *d)
{
    return d ? d->count : 0;
}

const uint8_t *kvs_dict_value(const kvs_dict_t *d, uint32_t i, uint32_t *len)
{
    *len = d->values[i].len;
    return d->values[i].data;
}

uint32_t kvs_dict_find(const kvs_dict_t *d, const void *data, uint32_t len)
{
    if (!d || d->count == 0 || len < KVS_DICT_MIN)
        return NONE;
    uint32_t h = hash(d, data, len), i = d->heads[h % CHAINS];
    for (; i != NONE; i = d->values[i].next) {
        const struct value *v = &d->values[i];
        if (v->hash == h && v->len == len && memcmp(v->data, data, len) == 0)
            break;
    }
    return i;
}

int kvs_dict_learn(kvs_dict_t *d, const void *data, uint32_t len)
{
    if (!d || len < KVS_DICT_MIN || d->count == KVS_DICT_MAX || len > KVS_DICT_BYTES - d->bytes)
        return 0;
    struct value *v = &d->values[d->count];
    if (!(v->data = malloc(len)))
        return -1;
    memcpy(v->data, data, len);
    v->len = len;
    v->hash = hash(d, data, len);
    v->next = d->heads[v->hash % CHAINS];
    d->heads[v->hash % CHAINS] = d->count++;
    d->bytes += len;
    return 0;
}

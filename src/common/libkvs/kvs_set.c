/* kvs_set.c - merge the changes of many clients.
 *
 * Two hash tables with chains: keys, each with the number of its value, and values, each with the
 * number of keys that have it.  Equal values are found by hash and compared by bytes; a value
 * without keys is freed.  Keys are stored in blocks that are freed together.
 *
 * Invariants:
 *  1. Every key has one value; `refs` of a value is the number of its keys, and a value in the
 *     table has at least one.
 *  2. `bytes` is the sum of 8 + length over keys and values.  With the header and the rest it is an
 *     upper bound of the size of the pack, and stays within KVS_TXN_MAX.
 *  3. Each set has a random hash key, so that a client cannot choose keys or values that collide;
 *     the encoding does not depend on it.
 *
 * Failure: a change that does not fit is refused with an error message.  The set stays consistent,
 * but may contain a part of the changes that were to be merged.
 */
#include "config.h"
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "arena.h"
#include "kvs_pack.h"
#include "kvs_set.h"
#include "libutil/siphash.h"

#define OVERHEAD 8
#define NONE UINT32_MAX
#define FIRST_SIZE 64
#define LOCAL_VALUES 16

struct key {
    const char *name;
    uint32_t value;
    uint32_t hash;
    uint32_t next; /* in its chain */
    uint16_t len;
};

struct value {
    uint32_t hash;
    uint32_t next; /* in its chain, or in the list of free values */
    uint32_t refs;
    uint32_t len;
    uint8_t *data;
};

struct kvs_set {
    struct siphash_key hash_key;
    arena_t *arena;
    struct key *keys;
    uint32_t nkeys, keys_cap;
    struct value *values;
    uint32_t nvalues, values_cap; /* used, some of them free */
    uint32_t live, free;
    uint32_t *key_heads, *value_heads;
    uint32_t nkey_heads, nvalue_heads; /* powers of two, or 0 */
    size_t bytes;
    struct kvs_txn_buf rest;
};

/* --- hashing --- */

static uint32_t hash_bytes(const kvs_set_t *s, const void *data, size_t len)
{
    uint64_t h = siphash(&s->hash_key, data, len);
    return (uint32_t)(h ^ h >> 32);
}

/* --- life --- */

kvs_set_t *kvs_set_create(void)
{
    kvs_set_t *s = calloc(1, sizeof(*s));
    if (!s)
        return NULL;
    s->free = NONE;
    siphash_key_random(&s->hash_key, (uintptr_t)s);
    if (!(s->arena = arena_create())) {
        free(s);
        return NULL;
    }
    return s;
}

static void free_all(kvs_set_t *s)
{
    for (uint32_t i = 0; i < s->nvalues; i++)
        free(s->values[i].data);
    free(s->keys);
    free(s->values);
    free(s->key_heads);
    free(s->value_heads);
    kvs_txn_buf_clear(&s->rest);
}

void kvs_set_clear(kvs_set_t *s)
{
    arena_t *arena = s->arena;
    free_all(s);
    memset(s, 0, sizeof(*s));
    s->free = NONE;
    s->arena = arena;
    arena_reset(arena);
    siphash_key_random(&s->hash_key, (uintptr_t)s);
}

void kvs_set_destroy(kvs_set_t *s)
{
    if (!s)
        return;
    int saved = errno;
    free_all(s);
    arena_destroy(s->arena);
    free(s);
    errno = saved;
}

uint32_t kvs_set_rest(const kvs_set_t *s)
{
    return s->rest.nops;
}

size_t kvs_set_bytes(const kvs_set_t *s)
{
    return s->bytes + s->rest.len;
}

/* --- tables --- */

static int out_of_memory(errmsg_t *err)
{
    return errmsg_fail(err, ENOMEM, "out of memory for the changes of a fence");
}

static void *grow(void *array, uint32_t *cap, size_t size)
{
    uint32_t fresh = *cap ? *cap * 2 : FIRST_SIZE;
    void *p = realloc(array, fresh * size);
    if (p)
        *cap = fresh;
    return p;
}

static uint32_t *new_heads(uint32_t n)
{
    uint32_t *heads = malloc(n * sizeof(*heads));
    if (heads)
        memset(heads, 0xff, n * sizeof(*heads));
    return heads;
}

/* Make room for one more key. */
static int key_room(kvs_set_t *s)
{
    if (s->nkeys == s->keys_cap) {
        struct key *p = grow(s->keys, &s->keys_cap, sizeof(*p));
        if (!p)
            return -1;
        s->keys = p;
    }
    if (s->nkeys < s->nkey_heads)
        return 0;
    uint32_t n = s->nkey_heads ? s->nkey_heads * 2 : FIRST_SIZE;
    uint32_t *heads = new_heads(n);
    if (!heads)
        return -1;
    for (uint32_t i = 0; i < s->nkeys; i++) {
        uint32_t *head = &heads[s->keys[i].hash & (n - 1)];
        s->keys[i].next = *head;
        *head = i;
    }
    free(s->key_heads);
    s->key_heads = heads;
    s->nkey_heads = n;
    return 0;
}

static int value_room(kvs_set_t *s)
{
    if (s->free == NONE && s->nvalues == s->values_cap) {
        struct value *p = grow(s->values, &s->values_cap, sizeof(*p));
        if (!p)
            return -1;
        s->values = p;
    }
    if (s->live < s->nvalue_heads)
        return 0;
    uint32_t n = s->nvalue_heads ? s->nvalue_heads * 2 : FIRST_SIZE;
    uint32_t *heads = new_heads(n);
    if (!heads)
        return -1;
    for (uint32_t i = 0; i < s->nvalues; i++) {
        if (s->values[i].refs == 0)
            continue;
        uint32_t *head = &heads[s->values[i].hash & (n - 1)];
        s->values[i].next = *head;
        *head = i;
    }
    free(s->value_heads);
    s->value_heads = heads;
    s->nvalue_heads = n;
    return 0;
}

static int check_bytes(const kvs_set_t *s, size_t more, errmsg_t *err)
{
    if (KVS_PACK_HEADER + kvs_set_bytes(s) + more > KVS_TXN_MAX)
        return errmsg_fail(err, EMSGSIZE,
                           "the changes of all participants exceed %u bytes: commit in parts",
                           KVS_TXN_MAX);
    return 0;
}

/* Find or add the value, and count one more key that has it. */
static int value_ref(kvs_set_t *s, const uint8_t *data, uint32_t len, uint32_t *out, errmsg_t *err)
{
    uint32_t hash = hash_bytes(s, data, len), i;
    if (s->nvalue_heads > 0) {
        for (i = s->value_heads[hash & (s->nvalue_heads - 1)]; i != NONE; i = s->values[i].next) {
            struct value *v = &s->values[i];
            if (v->hash == hash && v->len == len && (len == 0 || memcmp(v->data, data, len) == 0)) {
                v->refs++;
                *out = i;
                return 0;
            }
        }
    }
    if (check_bytes(s, OVERHEAD + len, err) < 0)
        return -1;
    uint8_t *copy = value_room(s) < 0 ? NULL : malloc(len + 1u);
    if (!copy)
        return out_of_memory(err);
    if (len)
        memcpy(copy, data, len);
    if ((i = s->free) != NONE)
        s->free = s->values[i].next;
    else
        i = s->nvalues++;
    uint32_t *head = &s->value_heads[hash & (s->nvalue_heads - 1)];
    s->values[i] = (struct value){hash, *head, 1, len, copy};
    *head = i;
    s->live++;
    s->bytes += OVERHEAD + len;
    *out = i;
    return 0;
}

static void value_unref(kvs_set_t *s, uint32_t i)
{
    struct value *v = &s->values[i];
    if (--v->refs > 0)
        return;
    uint32_t *at = &s->value_heads[v->hash & (s->nvalue_heads - 1)];
    while (*at != i)
        at = &s->values[*at].next;
    *at = v->next;
    s->bytes -= OVERHEAD + v->len;
    free(v->data);
    v->data = NULL;
    v->len = 0; /* where all values are examined, a free one counts as empty */
    v->next = s->free;
    s->free = i;
    s->live--;
}

/* Put a key.  Takes over one reference to the value, also on failure. */
static int key_put(kvs_set_t *s, const char *name, uint16_t len, uint32_t value, errmsg_t *err)
{
    uint32_t hash = hash_bytes(s, name, len);
    if (s->nkey_heads > 0) {
        uint32_t i = s->key_heads[hash & (s->nkey_heads - 1)];
        for (; i != NONE; i = s->keys[i].next) {
            struct key *k = &s->keys[i];
            if (k->hash == hash && k->len == len && memcmp(k->name, name, len) == 0) {
                value_unref(s, k->value);
                k->value = value;
                return 0;
            }
        }
    }
    int rc = check_bytes(s, OVERHEAD + len, err);
    if (rc == 0 && s->nkeys + s->rest.nops >= KVS_TXN_OPS_MAX)
        rc = errmsg_fail(err, EMSGSIZE,
                         "the changes of all participants exceed %u operations: commit in parts",
                         KVS_TXN_OPS_MAX);
    char *copy = rc < 0 || key_room(s) < 0 ? NULL : arena_alloc(s->arena, len);
    if (!copy) {
        if (rc == 0)
            rc = out_of_memory(err);
        int saved = errno;
        value_unref(s, value);
        errno = saved;
        return rc;
    }
    memcpy(copy, name, len);
    uint32_t *head = &s->key_heads[hash & (s->nkey_heads - 1)];
    s->keys[s->nkeys] = (struct key){copy, value, hash, *head, len};
    *head = s->nkeys++;
    s->bytes += OVERHEAD + len;
    return 0;
}

/* --- merging --- */

static int add_rest(kvs_set_t *s, const struct kvs_op *op, errmsg_t *err)
{
    if (check_bytes(s, op->size + KVS_TXN_HEADER, err) < 0)
        return -1;
    if (s->nkeys + s->rest.nops >= KVS_TXN_OPS_MAX)
        return errmsg_fail(err, EMSGSIZE,
                           "the changes of all participants exceed %u operations: commit in parts",
                           KVS_TXN_OPS_MAX);
    return kvs_txn_buf_copy(&s->rest, op, err);
}

static bool is_plain(const struct kvs_op *op)
{
    return op->type == KVS_OP_PUT && op->flags == 0;
}

static int merge_txn(kvs_set_t *s, const void *data, size_t len, errmsg_t *err)
{
    struct kvs_txn_iter it;
    struct kvs_op op;
    bool plain = true;
    int rc = kvs_txn_open(&it, data, len, NULL, err);
    while (rc >= 0 && (rc = kvs_txn_next(&it, &op, err)) == 1)
        plain = plain && is_plain(&op);
    if (rc == 0)
        rc = kvs_txn_open(&it, data, len, NULL, err);
    while (rc >= 0 && (rc = kvs_txn_next(&it, &op, err)) == 1) {
        uint32_t value;
        if (!plain)
            rc = add_rest(s, &op, err);
        else if ((rc = value_ref(s, op.value, op.len, &value, err)) == 0)
            rc = key_put(s, op.key, op.keylen, value, err);
    }
    return rc;
}

/* Each value of the pack is looked up once; the map holds a reference to each until the end. */
static int merge_ops(kvs_set_t *s, struct kvs_pack_iter *it, uint32_t *map, errmsg_t *err)
{
    struct kvs_op op;
    uint32_t number;
    int rc;
    while ((rc = kvs_pack_next(it, &op, &number, err)) == 1) {
        if (number == KVS_PACK_NO_VALUE) {
            rc = add_rest(s, &op, err);
        } else {
            if (map[number] == NONE && (rc = value_ref(s, op.value, op.len, &map[number], err)) < 0)
                break;
            s->values[map[number]].refs++;
            rc = key_put(s, op.key, op.keylen, map[number], err);
        }
        if (rc < 0)
            break;
    }
    return rc;
}

static int merge_pack(kvs_set_t *s, const void *data, size_t len, kvs_dict_t *dict, errmsg_t *err)
{
    struct kvs_pack_iter it;
    uint32_t local[LOCAL_VALUES], *map = local;
    int rc = kvs_pack_open(&it, data, len, dict, err);
    if (rc < 0)
        return -1;
    if (it.nvalues > LOCAL_VALUES && !(map = malloc(it.nvalues * sizeof(*map)))) {
        kvs_pack_close(&it);
        return out_of_memory(err);
    }
    memset(map, 0xff, (it.nvalues > LOCAL_VALUES ? it.nvalues : LOCAL_VALUES) * sizeof(*map));
    rc = merge_ops(s, &it, map, err);
    if (rc == 0 && kvs_pack_learn(&it, dict) < 0)
        rc = out_of_memory(err);
    int saved = errno;
    for (uint32_t i = 0; i < it.nvalues; i++) {
        if (map[i] != NONE)
            value_unref(s, map[i]);
    }
    if (map != local)
        free(map);
    kvs_pack_close(&it);
    errno = saved;
    return rc;
}

int kvs_set_merge(kvs_set_t *s, const void *data, size_t len, kvs_dict_t *dict, errmsg_t *err)
{
    if (kvs_pack_is(data, len))
        return merge_pack(s, data, len, dict, err);
    return merge_txn(s, data, len, err);
}

/* --- encoding --- */

int kvs_set_encode(const kvs_set_t *s, kvs_dict_t *dict, size_t head, uint8_t **buf, size_t *len)
{
    struct kvs_pack_put *puts = malloc((s->nkeys + 1u) * sizeof(*puts));
    struct kvs_pack_bytes *values = malloc((s->nvalues + 1u) * sizeof(*values));
    int rc = -1;
    if (puts && values) {
        for (uint32_t i = 0; i < s->nkeys; i++) {
            const struct key *k = &s->keys[i];
            puts[i] = (struct kvs_pack_put){k->name, k->value, k->len};
        }
        for (uint32_t i = 0; i < s->nvalues; i++) {
            const struct value *v = &s->values[i];
            values[i] = (struct kvs_pack_bytes){v->data, v->len, v->refs};
        }
        rc = kvs_pack_write(puts, s->nkeys, values, s->nvalues, s->rest.data, s->rest.len, dict,
                            head, buf, len);
    }
    free(puts);
    free(values);
    if (rc < 0)
        errno = ENOMEM;
    return rc;
}

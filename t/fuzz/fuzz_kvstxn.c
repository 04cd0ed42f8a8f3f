/* fuzz_kvstxn.c - transactions: bytes as one, and as a program for the store.
 *
 * An input that begins with 'T' is decoded as a transaction; what passes must encode to the same
 * bytes, and is applied to a store.  Any other input is a list of small operations (three bytes
 * each), applied one root change at a time to one store and all in one root change to another: both
 * must end at the same root, and every object of it must pass the decoder.
 */
#include "config.h"
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz_must.h"
#include "libkvs/kvs_txn.h"
#include "libkvs/kvsstore.h"
#include "libkvs/treeobj.h"
#include "libkvs/test/store_mem.h"
#include "libutil/hmap.h"

struct sounding {
    content_t *c;
    hmap_t *seen; /* a directory copied into itself is seen many times */
};

static int sound_below(const uint8_t *digest, void *arg)
{
    struct sounding *x = arg;
    struct content_obj *o = content_get(x->c, digest);

    if (hmap_get(x->seen, digest))
        return 0;
    MUST(o && treeobj_check(o->data, o->len, 32, NULL) == 0);
    MUST(hmap_put(x->seen, digest, o) == 0);
    return treeobj_refs(o->data, 32, sound_below, x);
}

static void sound(const uint8_t *root, content_t *c)
{
    struct sounding x = {c, hmap_create_bin(32, NULL)};

    MUST(x.seen && sound_below(root, &x) == 0);
    hmap_destroy(x.seen);
}

static int apply(struct store *st, const void *txn, size_t len)
{
    errmsg_t err = {""};

    if (kvsstore_apply(st->s, txn, len, &err) < 0) {
        MUST(errno != 0 && err.text[0]);
        return -1;
    }
    return 0;
}

static void finish(struct store *st)
{
    MUST(kvsstore_end(st->s, NULL) >= 0);
    while (kvsstore_collect(st->s, 5))
        ;
}

static void as_bytes(const uint8_t *data, size_t size)
{
    struct kvs_txn_iter it;
    struct kvs_op op;
    struct kvs_txn_buf copy = {0};
    errmsg_t err = {""};
    int rc = kvs_txn_open(&it, data, size, NULL, &err);

    while (rc >= 0 && (rc = kvs_txn_next(&it, &op, &err)) == 1)
        MUST(kvs_txn_buf_add(&copy, op.type, op.flags, op.key, op.keylen, op.value, op.len, NULL) ==
             0);
    if (rc < 0)
        MUST(errno != 0 && err.text[0]);
    else if (copy.nops > 0)
        MUST(copy.len == size && memcmp(copy.data, data, size) == 0);
    kvs_txn_buf_clear(&copy);

    struct store st;
    MUST(store_open(&st, "sha256"));
    MUST(kvsstore_begin(st.s) == 0);
    MUST((apply(&st, data, size) < 0) == (rc < 0) || rc >= 0);
    finish(&st);
    sound(kvsstore_root(st.s), st.c);
    store_close(&st);
}

/* The operation that three bytes say. */
static void program_op(struct kvs_txn_buf *b, const uint8_t *data)
{
    static const char *const dirs[] = {"", "a.", "b.", "a.c.", "l.", "a.l.", "b.d.e.", "big."};
    static const uint8_t types[] = {KVS_OP_PUT,    KVS_OP_PUT,    KVS_OP_PUT,   KVS_OP_PUT,
                                    KVS_OP_UNLINK, KVS_OP_UNLINK, KVS_OP_MKDIR, KVS_OP_SYMLINK};
    static const uint8_t more[] = {KVS_OP_APPEND, KVS_OP_APPEND, KVS_OP_COPY, KVS_OP_MOVE,
                                   KVS_OP_APPEND, KVS_OP_COPY,   KVS_OP_MOVE, KVS_OP_GUARD};
    static uint8_t value[600 * 64];
    const void *val = value;
    char key[64], from[64];
    uint8_t type = data[0] >> 6 == 3 ? more[data[0] & 7] : types[data[0] & 7];
    size_t len = type == KVS_OP_PUT || type == KVS_OP_APPEND ? data[2] * 2u : 0;
    unsigned flags = type == KVS_OP_UNLINK ? data[2] & 3u : 0;

    snprintf(key, sizeof(key), "%sk%u", dirs[data[0] >> 3 & 7], data[1]);
    if (data[1] > 250)
        snprintf(key, sizeof(key), "%.*s", (int)strlen(dirs[data[2] % 7 + 1]) - 1,
                 dirs[data[2] % 7 + 1]);
    memset(value, data[1], sizeof(value));
    if (type == KVS_OP_APPEND && (data[1] & 7) == 3)
        len *= 64;
    if (type == KVS_OP_SYMLINK) {
        val = data[2] & 1 ? "a.c" : "b";
        len = strlen(val);
    } else if (type == KVS_OP_COPY || type == KVS_OP_MOVE) {
        if (data[2] < 128)
            len = (size_t)snprintf(from, sizeof(from), "%sk%u", dirs[data[2] & 7], data[2] >> 3);
        else if (data[2] < 240 || type == KVS_OP_MOVE)
            len = (size_t)snprintf(from, sizeof(from), "%.*s",
                                   (int)strlen(dirs[data[2] % 7 + 1]) - 1, dirs[data[2] % 7 + 1]);
        else
            len = (size_t)snprintf(from, sizeof(from), ".");
        val = from;
    } else if (type == KVS_OP_GUARD) {
        flags = data[2] & 1 ? KVS_OP_ABSENT : 0;
        value[0] = data[2] & 2 ? KVS_TAG_DIR : data[2] & 4 ? KVS_TAG_LINK : KVS_TAG_VALUE;
        len = flags ? 0 : KVS_TAG_SIZE;
    }
    MUST(kvs_txn_buf_add(b, type, flags, key, strlen(key), val, len, NULL) == 0);
}

static void as_program(const uint8_t *data, size_t size)
{
    struct kvs_txn_buf ops[256];
    size_t n = 0;
    struct store one, all;

    for (; size >= 3 && n < 256; data += 3, size -= 3) {
        memset(&ops[n], 0, sizeof(ops[n]));
        program_op(&ops[n++], data);
    }
    MUST(store_open(&one, "sha256"));
    MUST(store_open(&all, "sha256"));
    MUST(kvsstore_begin(all.s) == 0);
    for (size_t i = 0; i < n; i++) {
        MUST(kvsstore_begin(one.s) == 0);
        int a = apply(&one, ops[i].data, ops[i].len);
        finish(&one);
        MUST(apply(&all, ops[i].data, ops[i].len) == a);
    }
    finish(&all);
    MUST(memcmp(kvsstore_root(one.s), kvsstore_root(all.s), 32) == 0);
    sound(kvsstore_root(one.s), one.c);
    struct content_stats x, y;
    content_get_stats(one.c, &x);
    content_get_stats(all.c, &y);
    MUST(x.objects == y.objects && x.bytes == y.bytes);
    for (size_t i = 0; i < n; i++)
        kvs_txn_buf_clear(&ops[i]);
    store_close(&all);
    store_close(&one);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size > 0 && data[0] == 'T')
        as_bytes(data, size);
    else
        as_program(data, size);
    return 0;
}

/* fuzz_kvsdisk.c - what a restart reads: rows of a journal, and the objects of a store.
 *
 * An input that begins with 'J' is a row: it is looked through, and replayed on an empty store as
 * if it had made any root.  Any other input is a list of objects (u16 length, bytes;
 * little-endian): each is loaded under its own hash, if it is an object, and then each in turn is
 * taken as a root.  What is refused is refused with a sentence; a root that is taken can be walked
 * and changed, and what remains collected.
 */
#include "config.h"
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz_must.h"
#include "libkvs/kvs_txn.h"
#include "libkvs/kvsdisk.h"
#include "libkvs/treeobj.h"
#include "libkvs/test/store_mem.h"
#include "libutil/le.h"

#define DSIZE 20
#define OBJECTS_MAX 64

static void as_row(const uint8_t *data, size_t size)
{
    struct kvsdisk_row row;
    struct kvsdisk_replay r;
    struct store st;
    uint8_t root[DSIZE] = {0};
    errmsg_t err = {""};
    const void *txn;
    size_t len, sum = KVSDISK_ROW_HEADER;
    int rc = kvsdisk_row_open(&row, data, size, &err);

    while (rc >= 0 && (rc = kvsdisk_row_next(&row, &txn, &len, &err)) == 1)
        sum += KVSDISK_ROW_TXN + len;
    MUST(rc == 0 ? sum == size : errno == EPROTO && err.text[0]);
    MUST(store_open(&st, "sha1"));
    err.text[0] = '\0';
    rc = kvsdisk_replay_begin(&r, st.s, 1, root, DSIZE, data, size, &err);
    if (rc == 0)
        rc = kvsdisk_replay_step(&r, &err);
    MUST(rc < 0 && errno != 0 && err.text[0]); /* no row makes a root of zeros */
    store_close(&st);
}

/* Load all objects into a store; their digests, their number. */
static unsigned load(struct store *st, const uint8_t *data, size_t size,
                     uint8_t (*digest)[BLOBREF_DIGEST_MAX])
{
    unsigned n = 0;
    errmsg_t err = {""};

    while (size >= 2 && n < OBJECTS_MAX) {
        size_t len = le_get16(data);
        data += 2;
        size -= 2;
        len = len < size ? len : size;
        MUST(blobref_hash(st->b, data, len, digest[n]) == 0);
        if (kvsstore_load(st->s, digest[n], data, len, &err) == 0)
            n++;
        else
            MUST(errno != 0 && err.text[0]);
        data += len;
        size -= len;
    }
    return n;
}

static void use(struct store *st)
{
    struct kvs_txn_buf b = {0};
    errmsg_t err = {""};

    MUST(kvs_txn_buf_add(&b, KVS_OP_PUT, 0, "a.b", 3, "x", 1, NULL) == 0);
    if (kvsstore_begin(st->s) == 0) {
        if (kvsstore_apply(st->s, b.data, b.len, &err) < 0)
            MUST(errno != 0 && err.text[0]);
        (void)kvsstore_end(st->s, &err);
    }
    while (kvsstore_collect(st->s, 10))
        ;
    kvs_txn_buf_clear(&b);
}

static void as_objects(const uint8_t *data, size_t size)
{
    static uint8_t digest[OBJECTS_MAX][BLOBREF_DIGEST_MAX];
    unsigned n = 1;

    for (unsigned i = 0; i < n && i < 8; i++) {
        struct store st;
        errmsg_t err = {""};
        MUST(store_open(&st, "sha1"));
        n = load(&st, data, size, digest);
        if (n > 0 && kvsstore_load_root(st.s, digest[i], i + 1, &err) == 0) {
            MUST(kvsstore_version(st.s) == i + 1);
            use(&st);
        } else if (n > 0) {
            MUST(errno != 0 && err.text[0]);
        }
        store_close(&st);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size > 0 && data[0] == 'J')
        as_row(data, size);
    else
        as_objects(data, size);
    return 0;
}

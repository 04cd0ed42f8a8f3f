/* The journal of a store: a row for each root change, and the replay of rows.
 *
 * A row holds the transactions that were applied together, as the store received them, without
 * those that were refused.  Applied again to the preceding root, they result in the same root: so a
 * store is recovered after a crash, and the recovery is verified.
 *
 *    u8 'J'  u8 1 (format)  u16 0  u32 number of transactions
 *    for each: u32 length, transaction (kvs_txn.h)
 *
 * Numbers are little-endian.
 *
 * Thread rules: any thread; a replay has those of its store.
 */
#ifndef KVS_KVSDISK_H
#define KVS_KVSDISK_H

#include "kvsstore.h"

#define KVSDISK_ROW_HEADER 8
#define KVSDISK_ROW_TXN 4 /* before each transaction */

/* A row is written in pieces, so that transactions need not be copied. */
void kvsdisk_row_header(uint8_t buf[KVSDISK_ROW_HEADER], uint32_t ntxns);
void kvsdisk_row_txn(uint8_t buf[KVSDISK_ROW_TXN], uint32_t len);

/* Iterate over a row, whose bytes are borrowed. */
struct kvsdisk_row {
    const uint8_t *p, *end;
    uint32_t left;
};
/* 0, or -1 with EPROTO and an error message. */
int kvsdisk_row_open(struct kvsdisk_row *r, const void *data, size_t len, errmsg_t *err);
/* 1 with a transaction, 0 after the last, -1 with EPROTO and an error message. */
int kvsdisk_row_next(struct kvsdisk_row *r, const void **txn, size_t *len, errmsg_t *err);

/* Replay of one row. */
struct kvsdisk_replay {
    kvsstore_t *store;
    uint64_t version;
    const uint8_t *root;
    size_t dsize;
    /* private */
    struct kvsdisk_row row;
    const void *txn; /* the next transaction to apply; NULL: all are applied */
    size_t len;
    errmsg_t why; /* why the transaction was refused, while its changes are undone in slices */
};
/* Begin: `version` and `root` (`dsize` bytes) are those that the row names; root and row must stay
 * unchanged until the end.  0, or -1 with EIO (not the next version, not a row) or ENOMEM; the
 * store is unchanged. */
int kvsdisk_replay_begin(struct kvsdisk_replay *r, kvsstore_t *store, uint64_t version,
                         const uint8_t *root, size_t dsize, const void *row, size_t len,
                         errmsg_t *err);
/* Continue.  0: complete, the store has that version and root.  KVSSTORE_MORE: a slice of time is
 * over (kvsstore_pace()), call again.  -1 with ENODATA: bytes of values are needed, see
 * kvsstore_missing(); supply and hold them and call again.  -1 with EIO (a transaction is refused,
 * or the result is another root) or ENOMEM and an error message: the store must not be used any
 * more. */
int kvsdisk_replay_step(struct kvsdisk_replay *r, errmsg_t *err);

#endif

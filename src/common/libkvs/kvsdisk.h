/* The journal of a store: rows that say by which transactions a root was made, and their replay.
 *
 * A row holds the transactions that were applied together, as the store got them; those that were
 * refused are not in it.  Applied again to the root before it they make the same root again: that
 * is how a store comes back that was killed, and how it is known to have come back right.
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

/* A row is written in pieces, so that transactions stay where they are. */
void kvsdisk_row_header(uint8_t buf[KVSDISK_ROW_HEADER], uint32_t ntxns);
void kvsdisk_row_txn(uint8_t buf[KVSDISK_ROW_TXN], uint32_t len);

/* Look through a row, whose bytes are borrowed. */
struct kvsdisk_row {
    const uint8_t *p, *end;
    uint32_t left;
};
/* 0, or -1 with EPROTO and a sentence. */
int kvsdisk_row_open(struct kvsdisk_row *r, const void *data, size_t len, errmsg_t *err);
/* 1 with a transaction, 0 after the last, -1 with EPROTO and a sentence. */
int kvsdisk_row_next(struct kvsdisk_row *r, const void **txn, size_t *len, errmsg_t *err);

/* Replay of one row. */
struct kvsdisk_replay {
    kvsstore_t *store;
    uint64_t version;
    const uint8_t *root;
    size_t dsize;
    /* private */
    struct kvsdisk_row row;
    const void *txn; /* to be applied next */
    size_t len;
};
/* Begin: `version` and `root` (`dsize` bytes) are what the row says it made; root and row stay as
 * they are until the end.
 * 0, or -1 with EIO (not the version that comes next, no row), ENOMEM; the store is untouched. */
int kvsdisk_replay_begin(struct kvsdisk_replay *r, kvsstore_t *store, uint64_t version,
                         const uint8_t *root, size_t dsize, const void *row, size_t len,
                         errmsg_t *err);
/* Go on.  0: done, the store has that version and root.  -1 with ENODATA: bytes of values are
 * needed, see kvsstore_missing(); supply and hold them and call again.  -1 with EIO (a transaction
 * is refused, another root comes out) or ENOMEM and a sentence: the store is not to be used any
 * more. */
int kvsdisk_replay_step(struct kvsdisk_replay *r, errmsg_t *err);

#endif

/* Transactions in bytes: what clients build, instances merge and the master applies.
 *
 * Thread rules: any thread.
 */
#ifndef KVS_TXN_H
#define KVS_TXN_H

#include <stdbool.h>
#include <stdint.h>

#include "kvs_key.h"
#include "libutil/errmsg.h"

#define KVS_VALUE_MAX (16u * 1024 * 1024)
#define KVS_TXN_MAX (64u * 1024 * 1024)
#define KVS_TXN_OPS_MAX (1u << 20)
#define KVS_TXN_HEADER 8

enum kvs_op_type {
    KVS_OP_PUT = 1,     /* value: the bytes */
    KVS_OP_UNLINK = 2,  /* no value */
    KVS_OP_MKDIR = 3,   /* no value */
    KVS_OP_SYMLINK = 4, /* value: the key pointed at */
    /* 5 (append) and 6 (guard) are reserved. */
};
enum {
    KVS_OP_RECURSIVE = 1, /* unlink: a directory with all in it */
    KVS_OP_MUST = 2,      /* unlink: fail with ENOENT when it is not there */
};

struct kvs_op {
    uint8_t type;
    uint8_t flags;
    uint16_t keylen;
    uint32_t len;
    const char *key;
    const uint8_t *value;
    /* The whole encoded operation. */
    const uint8_t *start;
    size_t size;
};

/* Look through an encoded transaction: header checked here, each operation by next().  The bytes
 * are borrowed. */
struct kvs_txn_iter {
    const uint8_t *p, *end;
    uint32_t left;
};
/* 0 with *nops, or -1 with EPROTO or EMSGSIZE and a sentence. */
int kvs_txn_open(struct kvs_txn_iter *it, const void *data, size_t len, uint32_t *nops,
                 errmsg_t *err);
/* 1 with *op; 0 after the last, when no byte is left; -1 with EPROTO, EINVAL, ENAMETOOLONG or
 * EMSGSIZE. */
int kvs_txn_next(struct kvs_txn_iter *it, struct kvs_op *op, errmsg_t *err);

/* Under construction. */
struct kvs_txn_buf {
    uint8_t *data; /* encoded, always complete; NULL when there is nothing yet */
    size_t len, cap;
    uint32_t nops;
};
void kvs_txn_buf_clear(struct kvs_txn_buf *b); /* frees; keeps errno */
/* Append; checks the key and value as the decoder will.  -1 as kvs_txn_next() or with ENOMEM. */
int kvs_txn_buf_add(struct kvs_txn_buf *b, enum kvs_op_type type, unsigned flags, const char *key,
                    size_t keylen, const void *value, size_t len, errmsg_t *err);
/* Append an operation that kvs_txn_next() yielded. */
int kvs_txn_buf_copy(struct kvs_txn_buf *b, const struct kvs_op *op, errmsg_t *err);

#endif

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

#define KVS_VALUE_MAX (16u * 1024 * 1024) /* bytes of a value in one piece */
#define KVS_CHUNK 32768u                  /* a longer value is kept in chunks of this size */
#define KVS_SIZE_MAX (UINT64_C(1) << 40)  /* bytes of a value in chunks */
#define KVS_TXN_MAX (64u * 1024 * 1024)
#define KVS_TXN_OPS_MAX (1u << 20)
#define KVS_TXN_HEADER 8

enum kvs_op_type {
    KVS_OP_PUT = 1,     /* value: the bytes */
    KVS_OP_UNLINK = 2,  /* no value */
    KVS_OP_MKDIR = 3,   /* no value */
    KVS_OP_SYMLINK = 4, /* value: the key pointed at */
    KVS_OP_APPEND = 5,  /* value: bytes that are appended to the present value */
    KVS_OP_GUARD = 6,   /* value: the tag the key must have; none with KVS_OP_ABSENT */
    KVS_OP_COPY = 7,    /* value: the key (or ".") that is copied to this key */
    KVS_OP_MOVE = 8,    /* value: the key that becomes this key */
    /* value: u64 size, digests of chunks of KVS_CHUNK bytes (the last may be shorter), which the
     * store must have */
    KVS_OP_PUTCHUNKS = 9,
};
enum {
    KVS_OP_RECURSIVE = 1, /* unlink: a directory with all its contents */
    KVS_OP_MUST = 2,      /* unlink: fail with ENOENT when the key does not exist */
    KVS_OP_ABSENT = 4,    /* guard: the key must not exist */
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

/* The chunks to which a KVS_OP_PUTCHUNKS from kvs_txn_next() refers. */
struct kvs_op_chunks {
    uint64_t size;
    size_t n;     /* chunks */
    size_t dsize; /* bytes of a digest */
    const uint8_t *digests;
};
void kvs_op_get_chunks(const struct kvs_op *op, struct kvs_op_chunks *ch);

/* A tag identifies a version of a key.  One byte is the type of the entry (KVS_TAG_...); 32 bytes,
 * padded with zeros, are the digest of its object, if it is a directory or a value of more than 256
 * bytes, else the hash of the bytes of the value or link.  As text: "value-", "dir-" or "link-" and
 * 64 hexadecimal digits, or 40 when the others are zero. */
#define KVS_DIGEST_MAX 32
#define KVS_TAG_SIZE (1 + KVS_DIGEST_MAX)
#define KVS_TAG_TEXT_MAX 72 /* with its NUL */
enum { KVS_TAG_VALUE = 1, KVS_TAG_DIR = 4, KVS_TAG_LINK = 5 };
/* Format a well-formed tag.  `buf` has KVS_TAG_TEXT_MAX bytes; returns buf. */
char *kvs_tag_format(const uint8_t tag[KVS_TAG_SIZE], char *buf);
/* 0, or -1 with EINVAL and an error message. */
int kvs_tag_parse(const char *text, size_t len, uint8_t tag[KVS_TAG_SIZE], errmsg_t *err);

/* Iterate over an encoded transaction: open() checks the header, next() each operation.  The bytes
 * are borrowed. */
struct kvs_txn_iter {
    const uint8_t *p, *end;
    uint32_t left;
};
/* 0 with *nops, or -1 with EPROTO or EMSGSIZE and an error message. */
int kvs_txn_open(struct kvs_txn_iter *it, const void *data, size_t len, uint32_t *nops,
                 errmsg_t *err);
/* 1 with *op; 0 after the last, when no byte is left; -1 with EPROTO, EINVAL, ENAMETOOLONG or
 * EMSGSIZE. */
int kvs_txn_next(struct kvs_txn_iter *it, struct kvs_op *op, errmsg_t *err);

/* Does a checked transaction have an operation of this type?  Much faster than a search with
 * next(). */
bool kvs_txn_has(const void *data, size_t len, enum kvs_op_type type);

/* A transaction that is being built. */
struct kvs_txn_buf {
    uint8_t *data; /* encoded, always complete; NULL while it is empty */
    size_t len, cap;
    uint32_t nops;
};
void kvs_txn_buf_clear(struct kvs_txn_buf *b); /* frees; keeps errno */
/* Append an operation.  Checks the key and value as the decoder does.  -1 with the errors of
 * kvs_txn_next(), or ENOMEM. */
int kvs_txn_buf_add(struct kvs_txn_buf *b, enum kvs_op_type type, unsigned flags, const char *key,
                    size_t keylen, const void *value, size_t len, errmsg_t *err);
/* Append a KVS_OP_PUTCHUNKS of `n` digests of `dsize` (20 or 32) bytes each, one after the other.
 * Errors as kvs_txn_buf_add(). */
int kvs_txn_buf_add_chunks(struct kvs_txn_buf *b, const char *key, size_t keylen, uint64_t size,
                           const uint8_t *digests, size_t n, size_t dsize, errmsg_t *err);
/* Append an operation that came from kvs_txn_next(). */
int kvs_txn_buf_copy(struct kvs_txn_buf *b, const struct kvs_op *op, errmsg_t *err);

#endif

/* What kvs clients and instances send each other, in bytes.  JSON is spoken where people look
 * (kvs.version, kvs.stats); here is what carries keys, values and roots.
 *
 * Thread rules: any thread.
 */
#ifndef KVS_WIRE_H
#define KVS_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "libutil/errmsg.h"

#define KVS_ROOTREF_MAX 80 /* text with NUL: "sha256-..." */
#define KVS_FENCE_NAME_MAX 255
#define KVS_LOAD_MAX 256 /* digests in one kvs.load */
#define KVS_DIGEST_MAX 32

/* Little-endian numbers at any address. */
uint16_t kvs_get16(const void *p);
uint32_t kvs_get32(const void *p);
uint64_t kvs_get64(const void *p);
void kvs_put16(void *p, uint16_t v);
void kvs_put32(void *p, uint32_t v);
void kvs_put64(void *p, uint64_t v);

/* A root: answers to kvs.commit, kvs.fence, kvs.getroot; event kvs.setroot.   u64 version,
 * reference text */
struct kvs_root {
    uint64_t version;
    char ref[KVS_ROOTREF_MAX];
};
#define KVS_ROOT_WIRE_MAX (8 + KVS_ROOTREF_MAX)
size_t kvs_root_encode(const struct kvs_root *r, uint8_t buf[KVS_ROOT_WIRE_MAX]);
int kvs_root_decode(const void *data, size_t len, struct kvs_root *r, errmsg_t *err);

/* kvs.lookup, kvs.readdir, kvs.watch.   u8 flags, u8 length of reference, u16 length of key,
 * reference, key */
enum {
    KVS_REQ_READLINK = 1,
    KVS_REQ_VALUES = 2,
};
struct kvs_lookup_req {
    unsigned flags;
    const char *ref; /* not NUL-terminated; reflen 0: the current root */
    size_t reflen;
    const char *key; /* not NUL-terminated; valid, or "." */
    size_t keylen;
};
size_t kvs_lookup_req_size(const struct kvs_lookup_req *q);
void kvs_lookup_req_encode(const struct kvs_lookup_req *q, uint8_t *buf);
int kvs_lookup_req_decode(const void *data, size_t len, struct kvs_lookup_req *q, errmsg_t *err);

/* Answers to these.   u8 type (0: not there), 3 x u8 0, u32 number of entries, u64 version, then
 * value, target, or entries:  u8 type, u8 length of name, u8 1: data follows, u8 0, u32 size, name,
 * data */
#define KVS_ANSWER_HEADER 16
struct kvs_answer {
    uint8_t type;
    uint32_t count;
    uint64_t version;
    const uint8_t *body;
    size_t len;
};
void kvs_answer_encode_header(const struct kvs_answer *a, uint8_t buf[KVS_ANSWER_HEADER]);
int kvs_answer_decode(const void *data, size_t len, struct kvs_answer *a, errmsg_t *err);
struct kvs_answer_entry {
    uint8_t type;
    uint8_t namelen;
    bool has_data;
    uint32_t size;
    const char *name;
    const uint8_t *data;
};
#define KVS_ANSWER_ENTRY_HEADER 8
/* The entry at *pos (0: first) of a directory answer, *pos moved on.  1, 0 at the end, -1 with
 * EPROTO. */
int kvs_answer_next(const struct kvs_answer *a, size_t *pos, struct kvs_answer_entry *e,
                    errmsg_t *err);

/* kvs.fence.   u32 nprocs, u32 calls merged in this one, u32 rank, u8 flags, u8 length of name, u16
 * 0, name, transaction */
enum {
    KVS_FENCE_INSTANCE = 1, /* comes from an instance of the service, for several calls */
    KVS_FENCE_ADD = 2,      /* more of what it sent before: is answered at once, without a root */
};
#define KVS_FENCE_HEADER 16
struct kvs_fence_req {
    uint32_t nprocs;
    uint32_t count;
    uint32_t rank;
    uint8_t flags;
    const char *name; /* not NUL-terminated */
    size_t namelen;
    const uint8_t *txn;
    size_t txnlen;
};
size_t kvs_fence_req_size(const struct kvs_fence_req *q);
void kvs_fence_req_encode(const struct kvs_fence_req *q, uint8_t *buf);
int kvs_fence_req_decode(const void *data, size_t len, struct kvs_fence_req *q, errmsg_t *err);

#endif

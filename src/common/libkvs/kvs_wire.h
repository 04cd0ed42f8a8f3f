/* Raw payloads of the service "kvs": those with keys, values and roots.  The others are JSON
 * (kvs_json_wire.h).
 *
 * All numbers are little-endian, unused bytes and bits are zero, and no bytes follow the layout:
 * anything else is refused with EPROTO.  `ns` is the name of a namespace, always present.
 *
 * Thread rules: any thread.
 */
#ifndef KVS_WIRE_H
#define KVS_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kvs_txn.h"
#include "libutil/errmsg.h"

#define KVS_ROOTREF_MAX 80 /* text with NUL: "sha256-..." */
#define KVS_FENCE_NAME_MAX 255
#define KVS_LOAD_MAX 256             /* digests in one kvs.load */
#define KVS_STORE_MAX (1024u * 1024) /* bytes in one kvs.store */
#define KVS_RANGE_MAX (1024u * 1024) /* bytes that a look-up of a range may request */
#define KVS_LOOKUP_MAX (16u << 20)   /* bytes of a value in one response to any other look-up */

/* A root: answers to kvs.commit, kvs.fence, kvs.getroot, kvs.snapshot and kvs.follow; event
 * kvs.setroot.   u64 version, u8 length of ns, u8 length of reference, u16 0, ns, reference text */
struct kvs_root {
    uint64_t version;
    char ns[KVS_NS_MAX + 1];
    char ref[KVS_ROOTREF_MAX];
};
#define KVS_ROOT_HEADER 12
#define KVS_ROOT_WIRE_MAX (KVS_ROOT_HEADER + KVS_NS_MAX + KVS_ROOTREF_MAX)
size_t kvs_root_encode(const struct kvs_root *r, uint8_t buf[KVS_ROOT_WIRE_MAX]);
int kvs_root_decode(const void *data, size_t len, struct kvs_root *r, errmsg_t *err);

/* A payload for a namespace: kvs.commit (body: a transaction), kvs.load (body: digests), kvs.store
 * (body: bytes of a value; each 32 KiB of it a chunk, the last may be shorter). u8 length of ns, u8
 * flags, 2 x u8 0, ns, u32 client (with KVS_NS_CLIENT only), u64 sender, u64 number, u64 after, u64
 * answered (with KVS_NS_NUMBERED only), body */
#define KVS_NS_HEADER 4
enum {
    KVS_NS_DURABLE = 1, /* kvs.commit: the answer waits for the disk, also with kvs.sync=interval */
    KVS_NS_CLIENT = 2,  /* kvs.store: an instance forwards the request of one of its clients */
    KVS_NS_NUMBERED = 4, /* kvs.commit: the same for a commit, with a number by which the master
                          * recognizes the commit when it is sent again */
    KVS_NS_AGAIN = 8,    /* with KVS_NS_NUMBERED: an earlier copy of the commit may have arrived */
};
struct kvs_ns_req {
    uint8_t flags;
    uint32_t client; /* the number of the client at the instance; 0 without KVS_NS_CLIENT */
    /* 0 without KVS_NS_NUMBERED */
    uint64_t sender;   /* the instance that has numbered the commit; never 0 */
    uint64_t number;   /* counts from 1 */
    uint64_t after;    /* the previous commit of the sender that has no answer yet, or 0 */
    uint64_t answered; /* all commits up to this one have answers */
    const char *ns;    /* not NUL-terminated */
    size_t nslen;
    const uint8_t *body;
    size_t len;
};
size_t kvs_ns_req_size(const struct kvs_ns_req *q);
void kvs_ns_req_encode(const struct kvs_ns_req *q, uint8_t *buf);
int kvs_ns_req_decode(const void *data, size_t len, struct kvs_ns_req *q, errmsg_t *err);

/* Answer to kvs.store:   u8 size of a digest, 3 x u8 0, digests of the chunks in their order */
#define KVS_STORE_HEADER 4
int kvs_store_answer_decode(const void *data, size_t len, const uint8_t **digests, size_t *n,
                            size_t *dsize, errmsg_t *err);

/* kvs.lookup, kvs.readdir, kvs.watch.   u16 flags, u8 length of ns, u8 length of reference, u16
 * length of key, u16 length of cursor, u32 count, u32 0, u64 offset, ns, reference, key, cursor */
enum {
    KVS_REQ_READLINK = 1, /* if the key is a link, the response is the link */
    KVS_REQ_VALUES = 2,   /* readdir, watch: entries with values of at most `offset` bytes */
    KVS_REQ_TAG = 4,      /* lookup: the response has the tag of the key */
    KVS_REQ_RANGE = 8,    /* lookup: `count` bytes of the value from `offset` on */
    KVS_REQ_PAGE = 16,    /* readdir: at most `count` entries, those after `cursor` */
    KVS_REQ_APPEND = 32,  /* watch: only the appended bytes */
    KVS_REQ_DIFF = 64,    /* watch: the changes below a directory, at any depth */
};
#define KVS_REQ_HEADER 24
struct kvs_lookup_req {
    unsigned flags;
    const char *ns; /* texts are not NUL-terminated */
    size_t nslen;
    const char *ref; /* reflen 0: the current root */
    size_t reflen;
    const char *key; /* valid, or "." */
    size_t keylen;
    const char *cursor; /* a name in the directory; cursorlen 0: from the beginning */
    size_t cursorlen;
    uint32_t count;
    uint64_t offset;
};
#define KVS_REQ_MAX (KVS_REQ_HEADER + KVS_NS_MAX + KVS_ROOTREF_MAX + KVS_KEY_MAX + KVS_NAME_MAX)
size_t kvs_lookup_req_size(const struct kvs_lookup_req *q);
void kvs_lookup_req_encode(const struct kvs_lookup_req *q, uint8_t *buf);
int kvs_lookup_req_decode(const void *data, size_t len, struct kvs_lookup_req *q, errmsg_t *err);

/* Answers to these.   u8 type (0: not there), u8 flags, u16 0, u32 number of entries, u64 version,
 * u64 size, the tag if there is one, then value, target, or entries:
 * u8 type, u8 change, u16 length of name, u8 1: data follows, 3 x u8 0, u64 size, name, data */
enum {
    KVS_ANSWER_TAG = 1,   /* a tag follows the header */
    KVS_ANSWER_MORE = 2,  /* there are entries after the last of this page */
    KVS_ANSWER_WHOLE = 4, /* append-watch: the result is the value from its beginning */
    KVS_ANSWER_DIFF = 8,  /* entries are changes; names are keys from the watched directory on */
};
enum { KVS_CHANGE_NONE = 0, KVS_CHANGE_ADDED, KVS_CHANGE_CHANGED, KVS_CHANGE_REMOVED };
#define KVS_ANSWER_HEADER 24
struct kvs_answer {
    uint8_t type;
    uint8_t flags;
    uint32_t count;
    uint64_t version;
    uint64_t size; /* bytes of the whole value or target; number of entries of the whole
                    * directory */
    const uint8_t *tag;
    const uint8_t *body;
    size_t len;
};
void kvs_answer_encode_header(const struct kvs_answer *a, uint8_t buf[KVS_ANSWER_HEADER]);
int kvs_answer_decode(const void *data, size_t len, struct kvs_answer *a, errmsg_t *err);
struct kvs_answer_entry {
    uint8_t type;
    uint8_t change;
    uint16_t namelen;
    bool has_data;
    uint64_t size;
    const char *name;
    const uint8_t *data;
};
#define KVS_ANSWER_ENTRY_HEADER 16
void kvs_answer_entry_encode_header(const struct kvs_answer_entry *e,
                                    uint8_t buf[KVS_ANSWER_ENTRY_HEADER]);
/* Get the entry at *pos (0: the first) of a directory response, and advance *pos.  1; 0 at the end;
 * -1 with EPROTO. */
int kvs_answer_next(const struct kvs_answer *a, size_t *pos, struct kvs_answer_entry *e,
                    errmsg_t *err);

/* kvs.fence.   u32 nprocs, u32 calls merged in this one, u32 rank, u32 number, u32 after, u8 flags,
 * u8 length of name, u8 length of ns, u8 0, u32 length of ranks, u32 length of callers, u32 heard,
 * u32 before, ns, name, ranks, callers, transaction
 * Answer to a client: a root.  To an instance: u32 generation, u32 error, then a root or (error
 * other than 0) the reason as text; ECONNABORTED: the fence was aborted. */
enum {
    KVS_FENCE_INSTANCE = 1, /* the request comes from an instance of the service, for several
                             * calls */
    KVS_FENCE_ADD = 2, /* an addition to an earlier request: is answered at once, without a root */
    KVS_FENCE_PACKED = 4, /* the transaction is packed (kvs_pack.h) */
    KVS_FENCE_ANEW = 8,   /* the request replaces the earlier ones: is answered at once, too */
    KVS_FENCE_AGAIN = 16, /* the earlier way was lost: the fence may be known, and may be over */
};
#define KVS_FENCE_HEADER 40
#define KVS_FENCE_RANKS_MAX (1u << 20)
struct kvs_fence_req {
    uint32_t nprocs;
    uint32_t count;
    uint32_t rank;
    uint32_t number; /* the number of this fence at that instance; 0 from a client */
    uint32_t after;  /* the last generation of this name that the callers know to be over, or 0 */
    uint32_t heard;  /* the last generation whose end the instance had heard before this fence
                      * began, or 0 */
    uint32_t before; /* with KVS_FENCE_AGAIN: the earlier number of this fence */
    uint8_t flags;
    const char *ns; /* these are not NUL-terminated */
    size_t nslen;
    const char *name;
    size_t namelen;
    const char *ranks; /* ranks of the participants, as far as the callers know them; an idset, or
                        * empty */
    size_t rankslen;
    const char *callers; /* from an instance: the ranks of the calls, but for those of earlier
                          * requests; an idset, or empty */
    size_t callerslen;
    const uint8_t *txn;
    size_t txnlen;
};
size_t kvs_fence_req_size(const struct kvs_fence_req *q);
void kvs_fence_req_encode(const struct kvs_fence_req *q, uint8_t *buf);
int kvs_fence_req_decode(const void *data, size_t len, struct kvs_fence_req *q, errmsg_t *err);

#endif

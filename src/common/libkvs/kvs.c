/* kvs.c - the client side of the key-value store.
 *
 * The functions build requests (kvs_wire.h) and decode responses.  A transaction is kept in
 * encoded form, so that sending it takes one copy.  There is no state between calls: the meaning
 * of a result is in its bytes.
 *
 * Failure: an invalid key or argument is detected here, before anything is sent.  A response that
 * violates the protocol is EPROTO.
 */
#include "config.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kvs.h"
#include "kvs_json_wire.h"
#include "kvs_key.h"
#include "kvs_txn.h"
#include "kvs_wire.h"

struct flux_kvs_txn {
    struct kvs_txn_buf buf;
};

static const uint8_t empty_txn[KVS_TXN_HEADER] = {'T', 1};

flux_kvs_txn_t *flux_kvs_txn_create(void)
{
    return calloc(1, sizeof(flux_kvs_txn_t));
}

void flux_kvs_txn_destroy(flux_kvs_txn_t *txn)
{
    if (!txn)
        return;
    int saved = errno;
    kvs_txn_buf_clear(&txn->buf);
    free(txn);
    errno = saved;
}

void flux_kvs_txn_clear(flux_kvs_txn_t *txn)
{
    kvs_txn_buf_clear(&txn->buf);
}

size_t flux_kvs_txn_count(const flux_kvs_txn_t *txn)
{
    return txn->buf.nops;
}

static int add(flux_kvs_txn_t *txn, enum kvs_op_type type, int flags, const char *key,
               const void *data, size_t len, errmsg_t *err)
{
    if (!txn || !key || (len && !data))
        return errmsg_fail(err, EINVAL, "an operation requires a transaction, a key and a value");
    return kvs_txn_buf_add(&txn->buf, type, (unsigned)flags, key, strlen(key), data, len, err);
}

int flux_kvs_txn_put(flux_kvs_txn_t *txn, const char *key, const char *value, errmsg_t *err)
{
    return add(txn, KVS_OP_PUT, 0, key, value, value ? strlen(value) : 0, err);
}

int flux_kvs_txn_put_raw(flux_kvs_txn_t *txn, const char *key, const void *data, size_t len,
                         errmsg_t *err)
{
    return add(txn, KVS_OP_PUT, 0, key, data, len, err);
}

int flux_kvs_txn_unlink(flux_kvs_txn_t *txn, const char *key, int flags, errmsg_t *err)
{
    if (flags & ~(FLUX_KVS_RECURSIVE | FLUX_KVS_MUST_EXIST))
        return errmsg_fail(err, EINVAL, "unlink has unknown flags %#x", (unsigned)flags);
    return add(txn, KVS_OP_UNLINK, flags, key, NULL, 0, err);
}

int flux_kvs_txn_mkdir(flux_kvs_txn_t *txn, const char *key, errmsg_t *err)
{
    return add(txn, KVS_OP_MKDIR, 0, key, NULL, 0, err);
}

int flux_kvs_txn_symlink(flux_kvs_txn_t *txn, const char *key, const char *target, errmsg_t *err)
{
    return add(txn, KVS_OP_SYMLINK, 0, key, target, target ? strlen(target) : 0, err);
}

int flux_kvs_txn_append(flux_kvs_txn_t *txn, const char *key, const void *data, size_t len,
                        errmsg_t *err)
{
    return add(txn, KVS_OP_APPEND, 0, key, data, len, err);
}

int flux_kvs_txn_copy(flux_kvs_txn_t *txn, const char *from, const char *to, errmsg_t *err)
{
    return add(txn, KVS_OP_COPY, 0, to, from, from ? strlen(from) : 0, err);
}

int flux_kvs_txn_move(flux_kvs_txn_t *txn, const char *from, const char *to, errmsg_t *err)
{
    return add(txn, KVS_OP_MOVE, 0, to, from, from ? strlen(from) : 0, err);
}

int flux_kvs_txn_guard(flux_kvs_txn_t *txn, const char *key, const char *tag, errmsg_t *err)
{
    uint8_t bytes[KVS_TAG_SIZE];
    if (!tag)
        return add(txn, KVS_OP_GUARD, KVS_OP_ABSENT, key, NULL, 0, err);
    if (kvs_tag_parse(tag, strlen(tag), bytes, err) < 0)
        return -1;
    return add(txn, KVS_OP_GUARD, 0, key, bytes, sizeof(bytes), err);
}

int flux_kvs_txn_put_chunks(flux_kvs_txn_t *txn, const char *key, uint64_t size,
                            const void *digests, size_t n, size_t dsize, errmsg_t *err)
{
    if (!txn || !key || (n && !digests))
        return errmsg_fail(err, EINVAL, "an operation requires a transaction, a key and a value");
    return kvs_txn_buf_add_chunks(&txn->buf, key, strlen(key), size, digests, n, dsize, err);
}

static void txn_bytes(const flux_kvs_txn_t *txn, const uint8_t **data, size_t *len)
{
    bool empty = !txn || txn->buf.len == 0;
    *data = empty ? empty_txn : txn->buf.data;
    *len = empty ? sizeof(empty_txn) : txn->buf.len;
}

/* The name of the namespace, or NULL with EINVAL. */
static const char *ns_name(const char *ns)
{
    if (!ns)
        return KVS_NS_PRIMARY;
    return kvs_ns_check(ns, strlen(ns), NULL) < 0 ? NULL : ns;
}

/* A request with `len` bytes of payload still to be filled in (*p). */
static flux_msg_t *raw_request(const char *topic, uint32_t nodeid, size_t len, uint8_t **p)
{
    flux_msg_t *msg = flux_msg_create(FLUX_MSG_REQUEST, topic);
    *p = msg ? malloc(len + 1) : NULL; /* the message takes it over, including its NUL */
    if (!*p) {
        flux_msg_destroy(msg);
        errno = ENOMEM;
        return NULL;
    }
    flux_msg_set_nodeid(msg, nodeid);
    return msg;
}

static flux_future_t *send_raw(flux_t *h, flux_msg_t *msg, uint8_t *payload, size_t len)
{
    if (flux_msg_take_raw(msg, payload, len) < 0) {
        flux_msg_destroy(msg);
        return NULL;
    }
    return flux_rpc_msg(h, msg);
}

/* Send bytes to a namespace (kvs_ns_req in kvs_wire.h); they are copied once. */
static flux_future_t *ns_request(flux_t *h, const char *topic, const char *ns, uint8_t flags,
                                 const void *data, size_t len)
{
    struct kvs_ns_req q = {.flags = flags, .ns = ns_name(ns), .body = data, .len = len};
    uint8_t *p;
    if (!q.ns)
        return NULL;
    q.nslen = strlen(q.ns);
    flux_msg_t *msg = raw_request(topic, FLUX_NODEID_ANY, kvs_ns_req_size(&q), &p);
    if (!msg)
        return NULL;
    if (data == empty_txn) /* the transaction is empty: the call only waits */
        flux_msg_set_flags(msg, FLUX_MSGF_IDEMPOTENT);
    kvs_ns_req_encode(&q, p);
    return send_raw(h, msg, p, kvs_ns_req_size(&q));
}

flux_future_t *flux_kvs_commit(flux_t *h, const char *ns, const flux_kvs_txn_t *txn)
{
    const uint8_t *data;
    size_t len;
    txn_bytes(txn, &data, &len);
    return ns_request(h, "kvs.commit", ns, 0, data, len);
}

flux_future_t *flux_kvs_commit_durable(flux_t *h, const char *ns, const flux_kvs_txn_t *txn)
{
    const uint8_t *data;
    size_t len;
    txn_bytes(txn, &data, &len);
    return ns_request(h, "kvs.commit", ns, KVS_NS_DURABLE, data, len);
}

flux_future_t *flux_kvs_fence(flux_t *h, const char *ns, const char *name, uint32_t nprocs,
                              const flux_kvs_txn_t *txn)
{
    return flux_kvs_fence_ranks(h, ns, name, nprocs, NULL, txn);
}

flux_future_t *flux_kvs_fence_ranks(flux_t *h, const char *ns, const char *name, uint32_t nprocs,
                                    const char *ranks, const flux_kvs_txn_t *txn)
{
    struct kvs_fence_req q = {
        .nprocs = nprocs, .count = 1, .rank = flux_rank(h), .ns = ns_name(ns), .name = name};
    uint8_t *p;
    q.ranks = ranks ? ranks : "";
    q.rankslen = strlen(q.ranks);
    if (!q.ns || !name || !*name || strlen(name) > KVS_FENCE_NAME_MAX || nprocs == 0 ||
        q.rankslen > KVS_FENCE_RANKS_MAX) {
        errno = EINVAL;
        return NULL;
    }
    q.nslen = strlen(q.ns);
    q.namelen = strlen(name);
    txn_bytes(txn, &q.txn, &q.txnlen);
    flux_msg_t *msg = raw_request("kvs.fence", FLUX_NODEID_ANY, kvs_fence_req_size(&q), &p);
    if (!msg)
        return NULL;
    kvs_fence_req_encode(&q, p);
    return send_raw(h, msg, p, kvs_fence_req_size(&q));
}

/* --- versions --- */

int flux_kvs_commit_get(flux_future_t *f, uint64_t *version, const char **rootref, errmsg_t *err)
{
    const flux_msg_t *msg = flux_rpc_get_msg(f);
    const void *data;
    size_t len;
    if (msg && flux_msg_errnum(msg) == 0 && !flux_msg_has_flag(msg, FLUX_MSGF_RAW)) {
        struct kvs_version_answer r;
        if (flux_rpc_get_struct(f, &kvs_version_answer_schema, &r, err) < 0)
            return -1;
        if (version)
            *version = r.version;
        if (rootref)
            *rootref = r.rootref;
        return 0;
    }
    struct kvs_root root;
    if (flux_rpc_get_raw(f, &data, &len, err) < 0 || kvs_root_decode(data, len, &root, err) < 0)
        return -1;
    if (version)
        *version = root.version;
    if (rootref) /* it comes last, and the message's payload is followed by a NUL */
        *rootref = (const char *)data + len - strlen(root.ref);
    return 0;
}

flux_future_t *flux_kvs_version(flux_t *h, const char *ns)
{
    struct kvs_ns_only q = {.namespace = ns_name(ns)};
    return q.namespace ? flux_rpc_struct(h, "kvs.version", &kvs_ns_only_schema, &q, FLUX_NODEID_ANY,
                                         FLUX_MSGF_IDEMPOTENT)
                       : NULL;
}

flux_future_t *flux_kvs_wait_version(flux_t *h, const char *ns, uint64_t version)
{
    struct kvs_ns_version q = {.namespace = ns_name(ns), .version = version};
    if (!q.namespace || version > INT64_MAX) {
        errno = EINVAL;
        return NULL;
    }
    /* A stream of one, so that destroying the future tells the service. */
    return flux_rpc_struct(h, "kvs.wait-version", &kvs_ns_version_schema, &q, FLUX_NODEID_ANY,
                           FLUX_MSGF_STREAMING | FLUX_MSGF_IDEMPOTENT);
}

flux_future_t *flux_kvs_snapshot(flux_t *h, const char *ns, const char *rootref)
{
    struct kvs_ns_rootref q = {.namespace = ns_name(ns), .rootref = rootref ? rootref : ""};
    if (!q.namespace || strlen(q.rootref) >= KVS_ROOTREF_MAX) {
        errno = EINVAL;
        return NULL;
    }
    return flux_rpc_struct(h, "kvs.snapshot", &kvs_ns_rootref_schema, &q, FLUX_NODEID_ANY,
                           FLUX_MSGF_STREAMING | FLUX_MSGF_IDEMPOTENT | FLUX_MSGF_WHOLE);
}

/* --- reading --- */

/* `q` lacks its namespace, key and reference.  They are set here. */
static flux_future_t *request(flux_t *h, const char *topic, struct kvs_lookup_req *q,
                              const char *ns, const char *key, const char *rootref,
                              unsigned msgflags)
{
    uint8_t buf[KVS_REQ_MAX];
    q->ns = ns_name(ns);
    q->key = key;
    q->keylen = key ? strlen(key) : 0;
    q->ref = rootref;
    q->reflen = rootref ? strlen(rootref) : 0;
    if (!q->ns || !key || (rootref && !*rootref) || q->reflen >= KVS_ROOTREF_MAX) {
        errno = EINVAL;
        return NULL;
    }
    q->nslen = strlen(q->ns);
    if (!kvs_key_is_root(key, q->keylen) && kvs_key_check(key, q->keylen, NULL) < 0)
        return NULL;
    kvs_lookup_req_encode(q, buf);
    return flux_rpc_raw(h, topic, buf, kvs_lookup_req_size(q), FLUX_NODEID_ANY, msgflags);
}

/* Are all flags in the mask?  The other flags of the protocol are not for callers. */
static bool allowed(int flags, int mask)
{
    if (!(flags & ~mask))
        return true;
    errno = EINVAL;
    return false;
}

flux_future_t *flux_kvs_lookup(flux_t *h, const char *ns, const char *key, int flags,
                               const char *rootref)
{
    struct kvs_lookup_req q = {.flags = (unsigned)flags};
    /* FLUX_KVS_INFO is KVS_REQ_RANGE, of no bytes. */
    if (!allowed(flags, FLUX_KVS_READLINK | FLUX_KVS_TAG | FLUX_KVS_INFO))
        return NULL;
    return request(h, "kvs.lookup", &q, ns, key, rootref, FLUX_MSGF_IDEMPOTENT);
}

flux_future_t *flux_kvs_lookup_range(flux_t *h, const char *ns, const char *key,
                                     const char *rootref, uint64_t offset, uint32_t len)
{
    struct kvs_lookup_req q = {.flags = KVS_REQ_RANGE, .offset = offset, .count = len};
    if (len > KVS_RANGE_MAX) {
        errno = EINVAL;
        return NULL;
    }
    return request(h, "kvs.lookup", &q, ns, key, rootref, FLUX_MSGF_IDEMPOTENT);
}

flux_future_t *flux_kvs_readdir(flux_t *h, const char *ns, const char *key, int flags,
                                const char *rootref)
{
    struct kvs_lookup_req q = {.flags = (unsigned)flags};
    if (!allowed(flags, FLUX_KVS_VALUES))
        return NULL;
    return request(h, "kvs.readdir", &q, ns, key, rootref, FLUX_MSGF_IDEMPOTENT);
}

flux_future_t *flux_kvs_readdir_small(flux_t *h, const char *ns, const char *key, uint32_t max,
                                      const char *rootref)
{
    struct kvs_lookup_req q = {.flags = FLUX_KVS_VALUES, .offset = max};
    if (max == 0) {
        errno = EINVAL;
        return NULL;
    }
    return request(h, "kvs.readdir", &q, ns, key, rootref, FLUX_MSGF_IDEMPOTENT);
}

flux_future_t *flux_kvs_readdir_page(flux_t *h, const char *ns, const char *key, int flags,
                                     const char *rootref, const char *after, uint32_t count)
{
    struct kvs_lookup_req q = {.flags = (unsigned)flags | KVS_REQ_PAGE,
                               .cursor = after,
                               .cursorlen = after ? strlen(after) : 0,
                               .count = count};
    if (!allowed(flags, FLUX_KVS_VALUES))
        return NULL;
    if (count == 0 || (after && !*after) || q.cursorlen > KVS_NAME_MAX) {
        errno = EINVAL;
        return NULL;
    }
    return request(h, "kvs.readdir", &q, ns, key, rootref, FLUX_MSGF_IDEMPOTENT);
}

flux_future_t *flux_kvs_watch(flux_t *h, const char *ns, const char *key, int flags)
{
    struct kvs_lookup_req q = {.flags = (unsigned)flags};
    if (!allowed(flags, FLUX_KVS_VALUES | FLUX_KVS_WATCH_APPEND | FLUX_KVS_WATCH_DIFF))
        return NULL;
    if (flags & FLUX_KVS_WATCH_APPEND && flags & FLUX_KVS_WATCH_DIFF) {
        errno = EINVAL;
        return NULL;
    }
    return request(h, "kvs.watch", &q, ns, key, NULL, FLUX_MSGF_STREAMING | FLUX_MSGF_IDEMPOTENT);
}

static int answer(flux_future_t *f, struct kvs_answer *a, errmsg_t *err)
{
    const void *data;
    size_t len;
    if (flux_rpc_get_raw(f, &data, &len, err) < 0 || kvs_answer_decode(data, len, a, err) < 0)
        return -1;
    if (a->type == 0)
        return errmsg_fail(err, ENOENT, "no such key");
    return 0;
}

int flux_kvs_lookup_get(flux_future_t *f, const char **data, size_t *len, errmsg_t *err)
{
    struct kvs_answer a;
    if (answer(f, &a, err) < 0)
        return -1;
    if (a.type == FLUX_KVS_DIR)
        return errmsg_fail(err, EISDIR, "it is a directory");
    if (data)
        *data = (const char *)a.body;
    if (len)
        *len = a.len;
    return 0;
}

int flux_kvs_lookup_get_info(flux_future_t *f, struct flux_kvs_info *info, errmsg_t *err)
{
    struct kvs_answer a;
    if (answer(f, &a, err) < 0)
        return -1;
    info->type = a.type;
    info->version = a.version;
    info->size = a.size;
    info->tag[0] = '\0';
    if (a.tag)
        kvs_tag_format(a.tag, info->tag);
    return 0;
}

static int dir_answer(flux_future_t *f, struct kvs_answer *a, bool diff, errmsg_t *err)
{
    if (answer(f, a, err) < 0)
        return -1;
    if (a->type != FLUX_KVS_DIR)
        return errmsg_fail(err, ENOTDIR, "it is not a directory");
    if (diff != !!(a->flags & KVS_ANSWER_DIFF))
        return errmsg_fail(err, EINVAL, "the result has %s",
                           diff ? "entries, not changes" : "changes, not entries");
    return 0;
}

/* The next entry, whose name has less than `size` bytes. */
static int next_entry(flux_future_t *f, size_t *pos, bool diff, struct kvs_answer_entry *w,
                      char *name, size_t size, errmsg_t *err)
{
    struct kvs_answer a;
    if (dir_answer(f, &a, diff, err) < 0)
        return -1;
    if (*pos > a.len)
        return errmsg_fail(err, EINVAL, "the position is beyond the end of the directory");
    int rc = kvs_answer_next(&a, pos, w, err);
    if (rc <= 0)
        return rc;
    if (w->namelen >= size)
        return errmsg_fail(err, EPROTO, "an entry of a directory listing is malformed");
    memcpy(name, w->name, w->namelen);
    name[w->namelen] = '\0';
    return 1;
}

int flux_kvs_readdir_next(flux_future_t *f, size_t *pos, struct flux_kvs_dirent *e, errmsg_t *err)
{
    struct kvs_answer_entry w;
    int rc = next_entry(f, pos, false, &w, e->name, sizeof(e->name), err);
    if (rc == 1) {
        e->type = w.type;
        e->size = w.size;
        e->data = (const char *)w.data;
    }
    return rc;
}

int flux_kvs_change_next(flux_future_t *f, size_t *pos, struct flux_kvs_change *c, errmsg_t *err)
{
    struct kvs_answer_entry w;
    int rc = next_entry(f, pos, true, &w, c->key, sizeof(c->key), err);
    if (rc == 1) {
        c->change = (enum flux_kvs_change_type)w.change;
        c->type = w.type;
        c->size = w.size;
        c->data = (const char *)w.data;
    }
    return rc;
}

ssize_t flux_kvs_readdir_count(flux_future_t *f, errmsg_t *err)
{
    struct kvs_answer a;
    if (dir_answer(f, &a, false, err) < 0)
        return -1;
    return (ssize_t)a.count;
}

/* True if there is a result and it has this flag. */
static bool answer_has(flux_future_t *f, unsigned flag)
{
    struct kvs_answer a;
    return answer(f, &a, NULL) == 0 && a.flags & flag;
}

bool flux_kvs_readdir_more(flux_future_t *f)
{
    return answer_has(f, KVS_ANSWER_MORE);
}

bool flux_kvs_watch_whole(flux_future_t *f)
{
    return answer_has(f, KVS_ANSWER_WHOLE);
}

bool flux_kvs_watch_absent(flux_future_t *f)
{
    const flux_msg_t *msg = flux_rpc_get_msg(f);
    struct kvs_answer a;
    size_t len;
    if (!msg || flux_msg_errnum(msg) != 0)
        return false;
    const void *data = flux_msg_payload(msg, &len);
    return data && kvs_answer_decode(data, len, &a, NULL) == 0 && a.type == 0;
}

/* --- large values --- */

flux_future_t *flux_kvs_store(flux_t *h, const char *ns, const void *data, size_t len)
{
    if (len == 0 || len > KVS_STORE_MAX) {
        errno = EINVAL;
        return NULL;
    }
    return ns_request(h, "kvs.store", ns, 0, data, len);
}

int flux_kvs_store_get(flux_future_t *f, const uint8_t **digests, size_t *n, size_t *dsize,
                       errmsg_t *err)
{
    const void *data;
    size_t len;
    if (flux_rpc_get_raw(f, &data, &len, err) < 0)
        return -1;
    return kvs_store_answer_decode(data, len, digests, n, dsize, err);
}

/* --- namespaces --- */

flux_future_t *flux_kvs_namespace_create(flux_t *h, const char *ns, uint32_t owner, uint32_t rank)
{
    struct kvs_ns_create q = {.namespace = ns_name(ns), .owner = owner, .rank = rank};
    if (!q.namespace || rank >= flux_size(h)) {
        errno = EINVAL;
        return NULL;
    }
    return flux_rpc_struct(h, "kvs.namespace-create", &kvs_ns_create_schema, &q, FLUX_NODEID_ANY,
                           0);
}

flux_future_t *flux_kvs_namespace_remove(flux_t *h, const char *ns)
{
    struct kvs_ns_only q = {.namespace = ns_name(ns)};
    return q.namespace ? flux_rpc_struct(h, "kvs.namespace-remove", &kvs_ns_only_schema, &q,
                                         FLUX_NODEID_ANY, 0)
                       : NULL;
}

flux_future_t *flux_kvs_namespace_list(flux_t *h)
{
    return flux_rpc(h, "kvs.namespace-list", NULL, FLUX_NODEID_ANY, FLUX_MSGF_IDEMPOTENT);
}

int flux_kvs_namespace_next(flux_future_t *f, size_t *pos, struct flux_kvs_namespace *n,
                            errmsg_t *err)
{
    struct kvs_ns_list list;
    struct kvs_ns_item item;
    if (flux_rpc_get_struct(f, &kvs_ns_list_schema, &list, err) < 0)
        return -1;
    json_t *o = json_array_get(list.namespaces, *pos);
    if (!o)
        return 0;
    if (flux_schema_decode_json(&kvs_ns_item_schema, o, &item, err) < 0)
        return -1;
    snprintf(n->name, sizeof(n->name), "%s", item.namespace);
    n->owner = item.owner;
    n->rank = item.rank;
    n->lost = item.lost;
    ++*pos;
    return 1;
}

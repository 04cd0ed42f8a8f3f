/* kvs.c - the clients' end of the key-value store.
 *
 * Builds requests (kvs_wire.h) and looks into answers.  A transaction is kept encoded, so that
 * sending it is one copy.  Nothing is remembered between calls: what a result means is in its
 * bytes.
 *
 * Failure: a bad key or argument is found here, before anything is sent.  Answers that are not what
 * the service promises are EPROTO.
 */
#include "config.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kvs.h"
#include "kvs_key.h"
#include "kvs_txn.h"
#include "kvs_wire.h"
#include "libutil/strutil.h"

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
        return errmsg_fail(err, EINVAL, "an operation needs a transaction, a key and its value");
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
        return errmsg_fail(err, EINVAL, "flags %#x of unlink are not known", (unsigned)flags);
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

static void txn_bytes(const flux_kvs_txn_t *txn, const uint8_t **data, size_t *len)
{
    bool empty = !txn || txn->buf.len == 0;
    *data = empty ? empty_txn : txn->buf.data;
    *len = empty ? sizeof(empty_txn) : txn->buf.len;
}

flux_future_t *flux_kvs_commit(flux_t *h, const flux_kvs_txn_t *txn)
{
    const uint8_t *data;
    size_t len;
    txn_bytes(txn, &data, &len);
    return flux_rpc_raw(h, "kvs.commit", data, len, FLUX_NODEID_ANY, 0);
}

flux_future_t *flux_kvs_fence(flux_t *h, const char *name, uint32_t nprocs,
                              const flux_kvs_txn_t *txn)
{
    struct kvs_fence_req q = {.nprocs = nprocs, .count = 1, .rank = flux_rank(h), .name = name};
    if (!name || !*name || strlen(name) > KVS_FENCE_NAME_MAX || nprocs == 0) {
        errno = EINVAL;
        return NULL;
    }
    q.namelen = strlen(name);
    txn_bytes(txn, &q.txn, &q.txnlen);
    size_t size = kvs_fence_req_size(&q);
    uint8_t *buf = malloc(size + 1); /* the message takes it over, with its NUL */
    flux_msg_t *msg = flux_msg_create(FLUX_MSG_REQUEST, "kvs.fence");
    if (!buf || !msg) {
        free(buf);
        flux_msg_destroy(msg);
        errno = ENOMEM;
        return NULL;
    }
    kvs_fence_req_encode(&q, buf);
    flux_msg_set_nodeid(msg, FLUX_NODEID_ANY);
    if (flux_msg_take_raw(msg, buf, size) < 0) {
        flux_msg_destroy(msg);
        return NULL;
    }
    return flux_rpc_msg(h, msg);
}

/* --- versions --- */

struct version_reply {
    uint64_t version;
    const char *rootref;
};
static const struct flux_field version_fields[] = {
    FLUX_FIELD_U64(struct version_reply, version, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_STR(struct version_reply, rootref, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_END,
};
static const struct flux_schema version_schema = FLUX_SCHEMA(struct version_reply, version_fields);

int flux_kvs_commit_get(flux_future_t *f, uint64_t *version, const char **rootref, errmsg_t *err)
{
    const flux_msg_t *msg = flux_rpc_get_msg(f);
    const void *data;
    size_t len;
    if (msg && flux_msg_errnum(msg) == 0 && !flux_msg_has_flag(msg, FLUX_MSGF_RAW)) {
        struct version_reply r;
        if (flux_rpc_get_struct(f, &version_schema, &r, err) < 0)
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
    if (rootref)
        *rootref = (const char *)data + 8; /* the message's payload is followed by a NUL */
    return 0;
}

flux_future_t *flux_kvs_version(flux_t *h)
{
    return flux_rpc(h, "kvs.version", NULL, FLUX_NODEID_ANY, 0);
}

flux_future_t *flux_kvs_wait_version(flux_t *h, uint64_t version)
{
    char json[48];
    if (version > INT64_MAX) {
        errno = EINVAL;
        return NULL;
    }
    snprintf(json, sizeof(json), "{\"version\":%llu}", (unsigned long long)version);
    /* A stream of one, so that destroying the future tells the service. */
    return flux_rpc(h, "kvs.wait-version", json, FLUX_NODEID_ANY, FLUX_MSGF_STREAMING);
}

/* --- reading --- */

static flux_future_t *request(flux_t *h, const char *topic, const char *key, unsigned flags,
                              const char *rootref, unsigned msgflags)
{
    uint8_t buf[4 + KVS_ROOTREF_MAX + KVS_KEY_MAX];
    struct kvs_lookup_req q = {.flags = flags, .key = key, .ref = rootref};
    q.keylen = key ? strlen(key) : 0;
    q.reflen = rootref ? strlen(rootref) : 0;
    if (!key || q.reflen > KVS_ROOTREF_MAX) {
        errno = EINVAL;
        return NULL;
    }
    if (!kvs_key_is_root(key, q.keylen) && kvs_key_check(key, q.keylen, NULL) < 0)
        return NULL;
    kvs_lookup_req_encode(&q, buf);
    return flux_rpc_raw(h, topic, buf, kvs_lookup_req_size(&q), FLUX_NODEID_ANY, msgflags);
}

flux_future_t *flux_kvs_lookup(flux_t *h, const char *key, int flags, const char *rootref)
{
    return request(h, "kvs.lookup", key, (unsigned)flags, rootref, 0);
}

flux_future_t *flux_kvs_readdir(flux_t *h, const char *key, int flags, const char *rootref)
{
    return request(h, "kvs.readdir", key, (unsigned)flags, rootref, 0);
}

flux_future_t *flux_kvs_watch(flux_t *h, const char *key, int flags)
{
    return request(h, "kvs.watch", key, (unsigned)flags, NULL, FLUX_MSGF_STREAMING);
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

int flux_kvs_lookup_get_type(flux_future_t *f, enum flux_kvs_type *type, uint64_t *version,
                             errmsg_t *err)
{
    struct kvs_answer a;
    if (answer(f, &a, err) < 0)
        return -1;
    if (type)
        *type = a.type;
    if (version)
        *version = a.version;
    return 0;
}

static int dir_answer(flux_future_t *f, struct kvs_answer *a, errmsg_t *err)
{
    if (answer(f, a, err) < 0)
        return -1;
    if (a->type != FLUX_KVS_DIR)
        return errmsg_fail(err, ENOTDIR, "it is not a directory");
    return 0;
}

int flux_kvs_readdir_next(flux_future_t *f, size_t *pos, struct flux_kvs_dirent *e, errmsg_t *err)
{
    struct kvs_answer a;
    struct kvs_answer_entry w;
    if (dir_answer(f, &a, err) < 0)
        return -1;
    if (*pos > a.len)
        return errmsg_fail(err, EINVAL, "position is beyond the directory");
    int rc = kvs_answer_next(&a, pos, &w, err);
    if (rc <= 0)
        return rc;
    memcpy(e->name, w.name, w.namelen);
    e->name[w.namelen] = '\0';
    e->type = w.type;
    e->size = w.size;
    e->data = (const char *)w.data;
    return 1;
}

ssize_t flux_kvs_readdir_count(flux_future_t *f, errmsg_t *err)
{
    struct kvs_answer a;
    if (dir_answer(f, &a, err) < 0)
        return -1;
    return (ssize_t)a.count;
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

/* kvsdisk.c - rows of the journal, and their replay.
 *
 * Invariants:
 *  1. One list of transactions has one encoding; no bytes follow the last transaction.
 *  2. A replay ends with the version and the root that the row names, or fails.
 *
 * Failure: a damaged row cannot be skipped, since later rows build on its root: the error message
 * of a failed replay names the version, and the store must not be used.  ENODATA is not a failure:
 * the caller supplies the missing bytes and continues.
 */
#include "config.h"
#include <errno.h>
#include <string.h>

#include "kvsdisk.h"
#include "libutil/le.h"

#define FORMAT 1

void kvsdisk_row_header(uint8_t buf[KVSDISK_ROW_HEADER], uint32_t ntxns)
{
    buf[0] = 'J';
    buf[1] = FORMAT;
    le_put16(buf + 2, 0);
    le_put32(buf + 4, ntxns);
}

void kvsdisk_row_txn(uint8_t buf[KVSDISK_ROW_TXN], uint32_t len)
{
    le_put32(buf, len);
}

int kvsdisk_row_open(struct kvsdisk_row *r, const void *data, size_t len, errmsg_t *err)
{
    const uint8_t *p = data;

    if (len < KVSDISK_ROW_HEADER || p[0] != 'J' || p[1] != FORMAT || le_get16(p + 2) != 0)
        return errmsg_fail(err, EPROTO, "%zu bytes are not a row of a journal", len);
    r->left = le_get32(p + 4);
    r->p = p + KVSDISK_ROW_HEADER;
    r->end = p + len;
    if (r->left == 0 || r->left > (size_t)(r->end - r->p) / KVSDISK_ROW_TXN)
        return errmsg_fail(err, EPROTO, "a row of a journal cannot have %u transactions", r->left);
    return 0;
}

int kvsdisk_row_next(struct kvsdisk_row *r, const void **txn, size_t *len, errmsg_t *err)
{
    size_t room = (size_t)(r->end - r->p);

    if (r->left == 0 && room == 0)
        return 0;
    if (r->left == 0)
        return errmsg_fail(err, EPROTO, "%zu bytes follow the last transaction of a row", room);
    if (room < KVSDISK_ROW_TXN || room - KVSDISK_ROW_TXN < le_get32(r->p))
        return errmsg_fail(err, EPROTO, "a row of a journal ends before its transactions");
    *len = le_get32(r->p);
    *txn = r->p + KVSDISK_ROW_TXN;
    r->p += KVSDISK_ROW_TXN + *len;
    r->left--;
    return 1;
}

/* Report the failure `why`, with the version of the row in the error message. */
static int fail(const struct kvsdisk_replay *r, errmsg_t *err, const errmsg_t *why)
{
    int errnum = errno == ENOMEM ? ENOMEM : EIO;

    return errmsg_fail(err, errnum, "journal, version %llu: %.200s", (unsigned long long)r->version,
                       why->text);
}

int kvsdisk_replay_begin(struct kvsdisk_replay *r, kvsstore_t *store, uint64_t version,
                         const uint8_t *root, size_t dsize, const void *row, size_t len,
                         errmsg_t *err)
{
    errmsg_t why;

    *r = (struct kvsdisk_replay){.store = store, .version = version, .root = root, .dsize = dsize};
    errno = 0;
    if (version != kvsstore_version(store) + 1) {
        errmsg_set(&why, "the next version must be %llu",
                   (unsigned long long)kvsstore_version(store) + 1);
        return fail(r, err, &why);
    }
    if (kvsdisk_row_open(&r->row, row, len, &why) < 0 ||
        kvsdisk_row_next(&r->row, &r->txn, &r->len, &why) < 0)
        return fail(r, err, &why);
    if (kvsstore_begin(store) < 0) {
        errmsg_set(&why, "%s", errno == ENOMEM ? "out of memory" : "the root before it is damaged");
        return fail(r, err, &why);
    }
    return 0;
}

static int replay_step(struct kvsdisk_replay *r, errmsg_t *err)
{
    int rc;

    while (r->txn) {
        rc = kvsstore_apply(r->store, r->txn, r->len, &r->why);
        if (rc == KVSSTORE_MORE)
            return rc;
        if (rc < 0 && errno == ENODATA) {
            errmsg_set(err, "%s", r->why.text);
            return -1;
        }
        if (rc < 0 || (rc = kvsdisk_row_next(&r->row, &r->txn, &r->len, &r->why)) < 0)
            return fail(r, err, &r->why);
        if (rc == 0)
            r->txn = NULL;
    }
    rc = kvsstore_end(r->store, &r->why);
    if (rc == KVSSTORE_MORE)
        return rc;
    if (rc < 0)
        return fail(r, err, &r->why);
    if (kvsstore_version(r->store) != r->version ||
        memcmp(kvsstore_root(r->store), r->root, r->dsize) != 0) {
        errno = EIO;
        errmsg_set(&r->why, "its transactions do not result in its root");
        return fail(r, err, &r->why);
    }
    return 0;
}

int kvsdisk_replay_step(struct kvsdisk_replay *r, errmsg_t *err)
{
    kvsstore_allow_long_keys(r->store, true);
    int rc = replay_step(r, err);
    kvsstore_allow_long_keys(r->store, false);
    return rc;
}

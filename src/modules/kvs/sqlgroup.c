/* sqlgroup.c - the requests of the module, executed on the file, many writes in one transaction.
 *
 * Reads of a group are executed one by one.  Its writes are one transaction (a large group has
 * several), whose commit makes them durable with one fdatasync if one of the writes must be
 * durable.  A commit that begins a new log, after the old log was written back, takes two, since
 * the header is synced first.
 *
 * state of a write     where it is              left when                                by
 * in the group         the group                its turn comes                           write_one
 * in a transaction     `open`                   commit; or rollback: all of them fail    tx_end
 * done                 deliver()
 *
 * Invariants:
 *  1. Requests take effect in order: a read sees the writes before it.
 *  2. After a failed write all writes fail until RESUME, so that no write is kept without the
 *     writes on which it builds.
 *  3. Each request of a group is delivered once; a write not before its transaction was committed.
 *  4. No transaction is committed to a file that has lost its name: i-node numbers are compared
 *     before a transaction begins and before it is committed.  If the file or its log was removed,
 *     the file is written anew from the open one, also at the end.  A file that has taken its place
 *     is not touched.
 *
 * Failure: see kvs_storage.h.  If tidying fails, the file stays as it is, and the next write
 * reports the error.
 */
#include "config.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "libutil/fdutil.h"
#include "libutil/filetrust.h"
#include "libutil/holdpoint.h"
#include "sqlfile.h"
#include "sqlgroup.h"

#define GROUP_BYTES (16u * 1024 * 1024) /* a larger group is committed in several transactions */
#define PAGE_BYTES (1024 * 1024)        /* bytes of records in a page, if the read does not say */
#define REC_HEADER (4 + 4 + 8 + 4 + 4 + BLOBREF_DIGEST_MAX)

struct sqlgroup {
    char *path;
    char *dir;
    char hash[16];
    void (*deliver)(void *arg, struct list_node *done);
    void *arg;
    sqlfile_t *file;
    struct list_node open; /* writes of the open transaction */
    bool in_tx;
    size_t tx_bytes;
    int failed; /* errno of the write that failed, or 0 */
    errmsg_t failure;
    struct sqlgroup_counts counts;
    struct holdpoint hold;
};

/* --- the records of reads --- */

struct page {
    struct kvs_storage_req *req;
    size_t dsize;
    size_t cap;
    size_t max;
};

static int page_add(const struct kvs_storage_rec *rec, void *arg)
{
    struct page *p = arg;
    struct kvs_storage_req *q = p->req;
    size_t size = REC_HEADER + rec->len;
    uint32_t has_root = rec->root != NULL;
    uint32_t len = (uint32_t)rec->len;

    if (q->len + size > p->cap) {
        size_t cap = (q->len + size) * 3 / 2;
        uint8_t *data = realloc(q->data, cap);
        if (!data)
            return errmsg_fail(&q->err, ENOMEM, "out of memory to read the store");
        q->data = data;
        p->cap = cap;
    }
    uint8_t *to = q->data + q->len;
    memset(to, 0, REC_HEADER);
    memcpy(to, &rec->ns, 4);
    memcpy(to + 4, &rec->owner, 4);
    memcpy(to + 8, &rec->version, 8);
    memcpy(to + 16, &len, 4);
    memcpy(to + 20, &has_root, 4);
    if (rec->root)
        memcpy(to + 24, rec->root, p->dsize);
    if (rec->len)
        memcpy(to + REC_HEADER, rec->data, rec->len);
    q->len += size;
    return q->len >= p->max;
}

bool sqlgroup_next(const struct kvs_storage_req *q, size_t *pos, struct kvs_storage_rec *rec)
{
    const uint8_t *p = q->data + *pos;
    uint32_t len, has_root;

    if (*pos >= q->len)
        return false;
    memcpy(&rec->ns, p, 4);
    memcpy(&rec->owner, p + 4, 4);
    memcpy(&rec->version, p + 8, 8);
    memcpy(&len, p + 16, 4);
    memcpy(&has_root, p + 20, 4);
    rec->root = has_root ? p + 24 : NULL;
    rec->data = p + REC_HEADER;
    rec->len = len;
    *pos += REC_HEADER + len;
    return true;
}

/* --- one request --- */

static void finish(struct kvs_storage_req *q, int errnum, const errmsg_t *err)
{
    q->errnum = errnum;
    if (errnum && err != &q->err)
        q->err = *err;
}

/* A user who can write to the directory, or to a file that SQLite opens in it, decides on the
 * contents of the store, and thereby on the programs that run as the owner of the session. */
static bool trusted(const sqlgroup_t *s, errmsg_t *err)
{
    static const char *const suffixes[] = {"", "-wal", "-shm", "-journal"};
    char path[4096];
    struct stat st;
    errmsg_t why;

    if (!file_is_trusted(s->dir, &why)) {
        errmsg_fail(err, errno, "statedir %s", why.text);
        return false;
    }
    for (size_t i = 0; i < sizeof(suffixes) / sizeof(suffixes[0]); i++) {
        if (snprintf(path, sizeof(path), "%s%s", s->path, suffixes[i]) >= (int)sizeof(path)) {
            errmsg_fail(err, ENAMETOOLONG, "the name '%.100s' is too long", s->path);
            return false;
        }
        if (lstat(path, &st) == 0 && !file_is_trusted(path, &why)) {
            errmsg_fail(err, errno, "statedir: %s", why.text);
            return false;
        }
    }
    return true;
}

static void do_open(sqlgroup_t *s, struct kvs_storage_req *q)
{
    int rc = -1;

    if (s->file)
        errmsg_fail(&q->err, EINVAL, "'%.120s' is open", s->path);
    else if (dir_create_parents(s->dir, 0700) < 0)
        errmsg_fail(&q->err, errno, "cannot make the directory '%.120s': %s", s->dir,
                    strerror(errno));
    else if (trusted(s, &q->err) &&
             (s->file = sqlfile_open(s->path, s->hash, SQLFILE_MAKE, &q->err)))
        rc = 0;
    if (rc == 0)
        HOLD_POINT(&s->hold, "storage-opened");
    finish(q, rc < 0 ? errno : 0, &q->err);
    if (rc < 0) {
        s->failed = q->errnum;
        s->failure = q->err;
    }
}

static void do_read(sqlgroup_t *s, struct kvs_storage_req *q)
{
    struct page p = {q, sqlfile_dsize(s->file), 0, q->max ? q->max : PAGE_BYTES};
    int rc = -1;

    q->data = NULL;
    q->len = 0;
    switch (q->op) {
    case KVS_STORAGE_NAMESPACES:
        p.max = SIZE_MAX;
        rc = sqlfile_namespaces(s->file, page_add, &p, &q->err);
        break;
    case KVS_STORAGE_NODES:
        rc = sqlfile_nodes(s->file, q->ns, &q->after, page_add, &p, &q->err);
        break;
    case KVS_STORAGE_BLOBS:
        rc = sqlfile_blobs(s->file, q->ns, q->inline_below, q->after_digest, page_add, &p, &q->err);
        break;
    case KVS_STORAGE_ROWS:
        rc = sqlfile_rows(s->file, q->ns, &q->after, page_add, &p, &q->err);
        break;
    default: /* LOAD */
        rc = sqlfile_load(s->file, q->ns, q->objs, &q->data, &q->len, &q->err);
        break;
    }
    q->more = rc == 1;
    finish(q, rc < 0 ? errno : 0, &q->err);
    if (rc < 0) {
        free(q->data);
        q->data = NULL;
        q->len = 0;
    }
}

static int do_write(sqlgroup_t *s, struct kvs_storage_req *q)
{
    int rc = 0;

    switch (q->op) {
    case KVS_STORAGE_CREATE:
        return sqlfile_create_ns(s->file, q->name, q->owner, q->version, q->root, &q->ns, &q->err);
    case KVS_STORAGE_REMOVE:
        return sqlfile_remove_ns(s->file, q->ns, &q->err);
    case KVS_STORAGE_JOURNAL:
        return sqlfile_journal(s->file, q->ns, q->version, q->root, q->iov, q->niov, &q->err);
    case KVS_STORAGE_CHECKPOINT:
        return sqlfile_checkpoint(s->file, q->ns, q->version, q->root, &q->err);
    case KVS_STORAGE_STORE:
        for (size_t i = 0; i < q->nobjs && rc == 0; i++)
            rc = sqlfile_store(s->file, q->ns, &q->objs[i], &q->err);
        return rc;
    default: /* DELETE */
        for (size_t i = 0; i < q->nobjs && rc == 0; i++)
            rc = sqlfile_delete(s->file, q->ns, &q->objs[i], &q->err);
        return rc;
    }
}

/* --- a group --- */

static bool is_durable(const struct kvs_storage_req *q)
{
    return kvs_storage_is_write(q->op) && q->op != KVS_STORAGE_STORE && q->op != KVS_STORAGE_DELETE;
}

/* All writes of the transaction fail, and so do later ones.  `unknown`: the file may contain the
 * transaction after a crash, but not the later writes. */
static void tx_fail(sqlgroup_t *s, int errnum, const errmsg_t *err, bool unknown)
{
    if (s->in_tx)
        sqlfile_rollback(s->file);
    s->in_tx = false;
    s->failed = errnum;
    s->failure = *err;
    LIST_FOREACH(n, &s->open)
    finish(list_entry(n, struct kvs_storage_req, node), unknown ? KVS_STORAGE_UNKNOWN : errnum,
           err);
    s->counts.failures++;
}

/* Called before a transaction and before its commit: is the file under its name?  If not, write all
 * committed contents anew; or, within a transaction, fail. */
static int look_after_file(sqlgroup_t *s, errmsg_t *err)
{
    bool failed;

    if (sqlfile_is_there(s->file))
        return 0;
    if (s->in_tx)
        return errmsg_fail(err, EIO, "'%.120s' was removed or replaced under the session", s->path);
    if (dir_create_parents(s->dir, 0700) < 0)
        return errmsg_fail(err, errno, "cannot make the directory '%.120s' again: %s", s->dir,
                           strerror(errno));
    s->file = sqlfile_write_anew(s->file, &failed, err);
    if (failed)
        return -1;
    s->counts.anew++;
    return 0;
}

/* Commit the transaction, if there is one, and deliver its requests. */
static void tx_end(sqlgroup_t *s, bool durable)
{
    errmsg_t err;
    uint64_t n = 0;
    bool unknown = false;

    if (s->in_tx && (look_after_file(s, &err) < 0 || sqlfile_commit(s->file, &unknown, &err) < 0)) {
        tx_fail(s, errno, &err, unknown);
    } else if (s->in_tx) {
        HOLD_POINT(&s->hold, "storage-committed");
        LIST_FOREACH(it, &s->open)
        n++;
        s->counts.commits++;
        s->counts.syncs += durable;
        s->counts.writes += n;
    }
    s->in_tx = false;
    s->tx_bytes = 0;
    s->deliver(s->arg, &s->open);
}

static void write_one(sqlgroup_t *s, struct kvs_storage_req *q, bool durable)
{
    list_append(&s->open, &q->node);
    if (s->failed) {
        finish(q, s->failed, &s->failure);
        return;
    }
    if (!s->in_tx) {
        if (look_after_file(s, &q->err) < 0 || sqlfile_begin(s->file, durable, &q->err) < 0) {
            tx_fail(s, errno, &q->err, false);
            return;
        }
        s->in_tx = true;
    }
    q->errnum = 0;
    s->tx_bytes += q->cost;
    if (do_write(s, q) < 0) {
        errmsg_t err = q->err;
        tx_fail(s, errno, &err, false);
    } else {
        HOLD_POINT(&s->hold, "storage-written");
    }
}

static void do_group(sqlgroup_t *s, struct list_node *group)
{
    struct list_node done;
    struct list_node *n;
    bool durable = false;

    LIST_FOREACH(it, group)
    durable = durable || is_durable(list_entry(it, struct kvs_storage_req, node));
    while ((n = list_first(group))) {
        struct kvs_storage_req *q = list_entry(n, struct kvs_storage_req, node);
        list_remove(n);
        list_init(&done);
        if (kvs_storage_is_write(q->op)) {
            write_one(s, q, durable);
            if (s->tx_bytes > GROUP_BYTES)
                tx_end(s, durable);
            continue;
        }
        if (q->op == KVS_STORAGE_OPEN) {
            do_open(s, q);
        } else if (!s->file) {
            finish(q, s->failed ? s->failed : EINVAL, &s->failure);
        } else if (q->op == KVS_STORAGE_RESUME) {
            tx_end(s, durable);
            s->failed = 0;
            q->errnum = 0;
        } else {
            do_read(s, q);
        }
        list_append(&done, &q->node);
        s->deliver(s->arg, &done);
    }
    tx_end(s, durable);
}

/* --- life --- */

bool sqlgroup_run(sqlgroup_t *s, struct list_node *group)
{
    errmsg_t err;

    do_group(s, group);
    return s->file && sqlfile_bound_wal(s->file, &err) == 0 && !s->failed;
}

enum sqlgroup_leisure sqlgroup_tidy(sqlgroup_t *s, enum sqlgroup_leisure what)
{
    errmsg_t err;
    int rc;

    if (what == SQLGROUP_TIDY) {
        rc = sqlfile_tidy(s->file, &err);
        if (rc >= 0 && sqlfile_bound_wal(s->file, &err) < 0)
            rc = -1;
        return rc > 0 ? SQLGROUP_TIDY : rc == 0 ? SQLGROUP_PAUSE : SQLGROUP_NOTHING;
    }
    return sqlfile_shrink(s->file, &err) > 0 ? SQLGROUP_SHRINK : SQLGROUP_NOTHING;
}

const struct sqlgroup_counts *sqlgroup_counts(const sqlgroup_t *s)
{
    return &s->counts;
}

bool sqlgroup_sizes(sqlgroup_t *s, uint64_t *file, uint64_t *wal, uint64_t *unused)
{
    if (s->file)
        sqlfile_sizes(s->file, file, wal, unused);
    return s->file != NULL;
}

sqlgroup_t *sqlgroup_create(const char *dir, const char *hash,
                            void (*deliver)(void *arg, struct list_node *done), void *arg)
{
    sqlgroup_t *s = calloc(1, sizeof(*s));

    if (!s)
        return NULL;
    list_init(&s->open);
    HOLD_POINT_INIT(&s->hold);
    s->deliver = deliver;
    s->arg = arg;
    snprintf(s->hash, sizeof(s->hash), "%s", hash);
    if (!(s->dir = strdup(dir)) || asprintf(&s->path, "%s/%s", dir, KVS_STORAGE_FILE) < 0) {
        free(s->dir);
        free(s);
        errno = ENOMEM;
        return NULL;
    }
    return s;
}

void sqlgroup_destroy(sqlgroup_t *s)
{
    int saved = errno;
    errmsg_t err;

    if (!s)
        return;
    if (s->file && look_after_file(s, &err) < 0)
        fprintf(stderr, "flux: the store is lost: %s\n", err.text);
    sqlfile_close(s->file);
    free(s->path);
    free(s->dir);
    free(s);
    errno = saved;
}

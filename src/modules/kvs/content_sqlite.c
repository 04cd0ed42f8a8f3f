/* content_sqlite.c - the driver: a thread that executes the requests of the module, many writes in
 * one transaction.
 *
 *    module's thread           submit() -> `queue` -> the driver's thread -> `ready` -> dispatch()
 *                                         cond                            eventfd
 *
 * Groups: the thread takes all requests of the queue as one group.  It executes reads one by one.
 * The writes of a group are one transaction (a large group has several), whose commit makes them
 * durable with one fdatasync if one of the writes must be durable.  A commit that begins a new log,
 * after the old log was written back, takes two, since the header is synced first.  The next group
 * gathers meanwhile.  So groups grow with the load, and a single writer waits only for its own
 * write.
 *
 * state of a request   where it is              left when                                by
 * waiting              `queue`                  the thread takes the queue               take
 * in a transaction     the group, then `open`   commit; or rollback: all of them fail    tx_end
 * done                 `ready`                  its done() is called                     dispatch()
 *
 * Tidying: when the thread is idle, or after BUSY_GROUPS groups without a pause, it deletes a
 * bounded number of obsolete journal rows and objects of removed namespaces.  After IDLE_MS without
 * requests it returns unused space to the file system.
 *
 * Invariants:
 *  1. The file belongs to the thread; `lock` protects the queues, the counters and `leisure`.
 *  2. Requests take effect in order: a read sees the writes before it, and a group is a contiguous
 *     part of the queue.
 *  3. After a failed write all writes fail until RESUME, so that no write is kept without the
 *     writes on which it builds.
 *  4. done() is called once for each request that submit() accepted, from dispatch() or destroy().
 *  5. The queue holds at most max_bytes, plus one request, plus reads, which have no payload.
 *  6. No transaction is committed to a file that has lost its name: i-node numbers are compared
 *     before a transaction begins and before it is committed.  If the file or its log was removed,
 *     the file is written anew from the open one, also at the end.  A file that has taken its place
 *     is not touched.
 *
 * Failure: see kvs_storage.h.  If tidying fails, the file stays as it is, and the next write
 * reports the error.
 */
#include "config.h"
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "sqlfile.h"
#include "libutil/fdutil.h"
#include "libutil/filetrust.h"
#include "libutil/holdpoint.h"

#define IDLE_MS 500
#define STACK_SIZE (512 * 1024)
#define GROUP_BYTES (16u * 1024 * 1024) /* a larger group is committed in several transactions */
#define BUSY_GROUPS 16                  /* groups between steps of tidying under load */
#define REQ_COST 256                    /* cost of a request in the queue beside its bytes */
#define PAGE_BYTES (1024 * 1024)        /* bytes of records in a page, if the read does not say */
#define REC_HEADER (4 + 4 + 8 + 4 + 4 + BLOBREF_DIGEST_MAX)

/* The work of the thread when no request waits. */
enum leisure { NOTHING, TIDY, PAUSE, SHRINK };

struct kvs_storage {
    char *path;
    char *dir;
    char hash[16];
    size_t max_bytes;
    int fd;
    bool started;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t cond;
    /* under `lock` */
    struct list_node queue;
    struct list_node ready;
    bool closing;
    enum leisure leisure;
    struct kvs_storage_stats st;
    /* owned by the thread */
    sqlfile_t *file;
    struct list_node open; /* writes of the open transaction */
    bool in_tx;
    size_t tx_bytes;
    int failed; /* errno of the write that failed, or 0 */
    errmsg_t failure;
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

static bool storage_next(const struct kvs_storage_req *q, size_t *pos, struct kvs_storage_rec *rec)
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

/* --- in the driver's thread: one request --- */

static void finish(struct kvs_storage_req *q, int errnum, const errmsg_t *err)
{
    q->errnum = errnum;
    if (errnum && err != &q->err)
        q->err = *err;
}

/* A user who can write to the directory, or to a file that SQLite opens in it, decides on the
 * contents of the store, and thereby on the programs that run as the owner of the session. */
static bool trusted(const kvs_storage_t *s, errmsg_t *err)
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

static void do_open(kvs_storage_t *s, struct kvs_storage_req *q)
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

static void do_read(kvs_storage_t *s, struct kvs_storage_req *q)
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

static int do_write(kvs_storage_t *s, struct kvs_storage_req *q)
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

/* --- in the driver's thread: a group --- */

static bool is_write(const struct kvs_storage_req *q)
{
    return q->op >= KVS_STORAGE_CREATE && q->op <= KVS_STORAGE_CHECKPOINT;
}

static bool is_durable(const struct kvs_storage_req *q)
{
    return is_write(q) && q->op != KVS_STORAGE_STORE && q->op != KVS_STORAGE_DELETE;
}

/* All writes of the transaction fail, and so do later ones.  `unknown`: the file may contain the
 * transaction after a crash, but not the later writes. */
static void tx_fail(kvs_storage_t *s, int errnum, const errmsg_t *err, bool unknown)
{
    if (s->in_tx)
        sqlfile_rollback(s->file);
    s->in_tx = false;
    s->failed = errnum;
    s->failure = *err;
    LIST_FOREACH(n, &s->open)
    finish(list_entry(n, struct kvs_storage_req, node), unknown ? KVS_STORAGE_UNKNOWN : errnum,
           err);
    pthread_mutex_lock(&s->lock);
    s->st.failures++;
    pthread_mutex_unlock(&s->lock);
}

static void splice(struct list_node *to, struct list_node *from)
{
    struct list_node *n;

    while ((n = list_first(from))) {
        list_remove(n);
        list_append(to, n);
    }
}

/* Hand executed requests to the module's thread. */
static void deliver(kvs_storage_t *s, struct list_node *done)
{
    const uint64_t one = 1;
    bool wake;

    if (list_empty(done))
        return;
    pthread_mutex_lock(&s->lock);
    wake = list_empty(&s->ready);
    splice(&s->ready, done);
    pthread_mutex_unlock(&s->lock);
    if (wake)
        (void)!write(s->fd, &one, sizeof(one));
}

/* Called before a transaction and before its commit: is the file under its name?  If not, write all
 * committed contents anew; or, within a transaction, fail. */
static int look_after_file(kvs_storage_t *s, errmsg_t *err)
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
    pthread_mutex_lock(&s->lock);
    s->st.anew++;
    pthread_mutex_unlock(&s->lock);
    return 0;
}

/* Commit the transaction, if there is one, and deliver its requests. */
static void tx_end(kvs_storage_t *s, bool durable)
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
        pthread_mutex_lock(&s->lock);
        s->st.commits++;
        s->st.syncs += durable;
        s->st.writes += n;
        pthread_mutex_unlock(&s->lock);
    }
    s->in_tx = false;
    s->tx_bytes = 0;
    deliver(s, &s->open);
}

static void write_one(kvs_storage_t *s, struct kvs_storage_req *q, bool durable)
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

static void do_group(kvs_storage_t *s, struct list_node *group)
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
        if (is_write(q)) {
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
        deliver(s, &done);
    }
    tx_end(s, durable);
}

/* --- in the driver's thread: life --- */

static void wait_idle(kvs_storage_t *s)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    t.tv_nsec += IDLE_MS * 1000000L;
    t.tv_sec += t.tv_nsec / 1000000000;
    t.tv_nsec %= 1000000000;
    while (list_empty(&s->queue) && !s->closing &&
           pthread_cond_timedwait(&s->cond, &s->lock, &t) != ETIMEDOUT)
        ;
}

/* Do one step of `what`; the next work. */
static enum leisure tidy(kvs_storage_t *s, enum leisure what)
{
    errmsg_t err;
    int rc;

    if (what == TIDY) {
        rc = sqlfile_tidy(s->file, &err);
        if (rc >= 0 && sqlfile_bound_wal(s->file, &err) < 0)
            rc = -1;
        return rc > 0 ? TIDY : rc == 0 ? PAUSE : NOTHING;
    }
    return sqlfile_shrink(s->file, &err) > 0 ? SHRINK : NOTHING;
}

static void note_sizes(kvs_storage_t *s)
{
    uint64_t file, wal, unused;

    if (!s->file)
        return;
    sqlfile_sizes(s->file, &file, &wal, &unused);
    pthread_mutex_lock(&s->lock);
    s->st.file_bytes = file;
    s->st.wal_bytes = wal;
    s->st.free_bytes = unused;
    pthread_mutex_unlock(&s->lock);
}

/* Take all requests of the queue as a group, which may be empty.  False: the driver is closed. */
static bool take(kvs_storage_t *s, struct list_node *group, enum leisure *what)
{
    bool more;

    pthread_mutex_lock(&s->lock);
    s->leisure = *what;
    while (list_empty(&s->queue) && !s->closing && *what == NOTHING)
        pthread_cond_wait(&s->cond, &s->lock);
    if (*what == PAUSE) {
        wait_idle(s);
        *what = SHRINK;
    }
    splice(group, &s->queue);
    more = !s->closing || !list_empty(group);
    pthread_mutex_unlock(&s->lock);
    return more;
}

static void *thread_main(void *arg)
{
    kvs_storage_t *s = arg;
    enum leisure what = NOTHING;
    struct list_node group;
    unsigned groups = 0; /* groups since the last step of tidying */
    errmsg_t err;

    list_init(&group);
    while (take(s, &group, &what)) {
        bool idle = list_empty(&group);
        if (!idle) {
            do_group(s, &group);
            if (!s->file || sqlfile_bound_wal(s->file, &err) < 0 || s->failed)
                what = NOTHING;
            else
                what = TIDY;
        }
        if (idle || (what != NOTHING && ++groups >= BUSY_GROUPS)) {
            what = tidy(s, what);
            groups = 0;
            HOLD_POINT(&s->hold, "storage-tidied");
        }
        if (idle && what != TIDY)
            note_sizes(s);
    }
    if (s->file && look_after_file(s, &err) < 0)
        fprintf(stderr, "flux: the store is lost: %s\n", err.text);
    sqlfile_close(s->file);
    return NULL;
}

/* --- in the module's thread --- */

static void storage_destroy(kvs_storage_t *s);

static int start(kvs_storage_t *s)
{
    pthread_attr_t attr;
    sigset_t all, old;

    sigfillset(&all);
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, STACK_SIZE);
    pthread_sigmask(SIG_BLOCK, &all, &old);
    int rc = pthread_create(&s->thread, &attr, thread_main, s);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    pthread_attr_destroy(&attr);
    s->started = rc == 0;
    errno = rc;
    return rc ? -1 : 0;
}

static int init_sync(kvs_storage_t *s)
{
    pthread_condattr_t attr;

    pthread_mutex_init(&s->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&s->cond, &attr);
    pthread_condattr_destroy(&attr);
    return eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
}

static kvs_storage_t *storage_create(const char *dir, const char *hash, size_t max_bytes,
                                     errmsg_t *err)
{
    kvs_storage_t *s = calloc(1, sizeof(*s));

    if (!s) {
        errmsg_fail(err, ENOMEM, "out of memory to keep the store in '%.120s'", dir);
        return NULL;
    }
    list_init(&s->queue);
    list_init(&s->ready);
    list_init(&s->open);
    s->max_bytes = max_bytes;
    HOLD_POINT_INIT(&s->hold);
    snprintf(s->hash, sizeof(s->hash), "%s", hash);
    s->fd = init_sync(s);
    s->dir = strdup(dir);
    if (s->fd < 0 || !s->dir || asprintf(&s->path, "%s/%s", dir, KVS_STORAGE_FILE) < 0) {
        s->path = s->dir ? s->path : NULL;
        errmsg_fail(err, s->fd < 0 ? errno : ENOMEM, "cannot keep the store in '%.120s': %s", dir,
                    strerror(s->fd < 0 ? errno : ENOMEM));
    } else if (start(s) < 0) {
        errmsg_fail(err, errno, "cannot start the thread that keeps the store in '%.120s': %s", dir,
                    strerror(errno));
    } else {
        return s;
    }
    storage_destroy(s);
    return NULL;
}

static int storage_fd(kvs_storage_t *s)
{
    return s->fd;
}

static void storage_dispatch(kvs_storage_t *s)
{
    struct list_node done;
    struct list_node *n;
    uint64_t count;

    list_init(&done);
    (void)!read(s->fd, &count, sizeof(count));
    pthread_mutex_lock(&s->lock);
    splice(&done, &s->ready);
    LIST_FOREACH(it, &done)
    {
        s->st.queued--;
        s->st.queued_bytes -= list_entry(it, struct kvs_storage_req, node)->cost;
    }
    pthread_mutex_unlock(&s->lock);
    while ((n = list_first(&done))) {
        struct kvs_storage_req *q = list_entry(n, struct kvs_storage_req, node);
        list_remove(n);
        q->done(q);
    }
}

static void storage_destroy(kvs_storage_t *s)
{
    if (!s)
        return;
    int saved = errno;
    if (s->started) {
        pthread_mutex_lock(&s->lock);
        s->closing = true;
        pthread_cond_signal(&s->cond);
        pthread_mutex_unlock(&s->lock);
        pthread_join(s->thread, NULL);
        storage_dispatch(s);
    }
    if (s->fd >= 0)
        close(s->fd);
    pthread_cond_destroy(&s->cond);
    pthread_mutex_destroy(&s->lock);
    free(s->path);
    free(s->dir);
    free(s);
    errno = saved;
}

static size_t cost_of(const struct kvs_storage_req *q)
{
    size_t cost = REQ_COST;

    for (size_t i = 0; i < q->niov; i++)
        cost += q->iov[i].iov_len;
    for (size_t i = 0; i < q->nobjs; i++)
        cost += q->objs[i].data ? q->objs[i].len + REQ_COST : REQ_COST;
    return cost;
}

static int storage_submit(kvs_storage_t *s, struct kvs_storage_req *q)
{
    bool refused;

    q->cost = is_write(q) ? cost_of(q) : 0;
    q->data = NULL;
    q->len = 0;
    q->more = false;
    q->errnum = 0;
    list_init(&q->node);
    pthread_mutex_lock(&s->lock);
    refused = s->closing ||
              (q->cost && s->st.queued_bytes && s->st.queued_bytes + q->cost > s->max_bytes);
    if (!refused) {
        s->st.queued++;
        s->st.queued_bytes += q->cost;
        list_append(&s->queue, &q->node);
        pthread_cond_signal(&s->cond);
    }
    pthread_mutex_unlock(&s->lock);
    if (refused)
        errno = EAGAIN;
    return refused ? -1 : 0;
}

static bool storage_busy(kvs_storage_t *s)
{
    bool busy;

    pthread_mutex_lock(&s->lock);
    busy = s->leisure != NOTHING || s->st.queued > 0;
    pthread_mutex_unlock(&s->lock);
    return busy;
}

static void storage_stats(kvs_storage_t *s, struct kvs_storage_stats *st)
{
    pthread_mutex_lock(&s->lock);
    *st = s->st;
    pthread_mutex_unlock(&s->lock);
}

const struct kvs_storage_driver kvs_storage_driver = {
    .abi = KVS_STORAGE_ABI,
    .name = "content-sqlite",
    .create = storage_create,
    .destroy = storage_destroy,
    .fd = storage_fd,
    .dispatch = storage_dispatch,
    .submit = storage_submit,
    .busy = storage_busy,
    .stats = storage_stats,
    .next = storage_next,
};

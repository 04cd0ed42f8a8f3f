/* content_sqlite.c - the driver: a thread that executes the requests of the module, many writes in
 * one transaction.
 *
 *    module's thread           submit() -> `queue` -> the driver's thread -> `ready` -> dispatch()
 *                                         cond                            eventfd
 *
 * Groups: the thread takes all requests of the queue as one group, which sqlgroup.c executes.  The
 * next group gathers meanwhile.  So groups grow with the load, and a single writer waits only for
 * its own write.
 *
 * state of a request   where it is              left when                                by
 * waiting              `queue`                  the thread takes the queue               take
 * being executed       sqlgroup.c               it is executed                           deliver
 * done                 `ready`                  its done() is called                     dispatch()
 *
 * Tidying: when the thread is idle, or after BUSY_GROUPS groups without a pause, it deletes a
 * bounded number of obsolete journal rows and objects of removed namespaces.  After IDLE_MS without
 * requests it returns unused space to the file system.
 *
 * Invariants:
 *  1. The group belongs to the thread; `lock` protects the queues, the counters and `leisure`.
 *  2. Requests take effect in order: a group is a contiguous part of the queue.
 *  3. done() is called once for each request that submit() accepted, from dispatch() or destroy().
 *  4. The queue holds at most max_bytes, plus one request, plus reads, which have no payload.
 *
 * Failure: see kvs_storage.h.
 */
#include "config.h"
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "libutil/holdpoint.h"
#include "sqlgroup.h"

#define IDLE_MS 500
#define STACK_SIZE (512 * 1024)
#define BUSY_GROUPS 16 /* groups between steps of tidying under load */
#define REQ_COST 256   /* cost of a request in the queue beside its bytes */

struct kvs_storage {
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
    enum sqlgroup_leisure leisure;
    struct kvs_storage_stats st;
    sqlgroup_t *group; /* owned by the thread */
    struct holdpoint hold;
};

/* --- in the driver's thread --- */

/* Hand executed requests to the module's thread. */
static void deliver(void *arg, struct list_node *done)
{
    kvs_storage_t *s = arg;
    const struct sqlgroup_counts *n = sqlgroup_counts(s->group);
    const uint64_t one = 1;
    bool wake;

    if (list_empty(done))
        return;
    pthread_mutex_lock(&s->lock);
    wake = list_empty(&s->ready);
    list_splice(&s->ready, done);
    s->st.commits = n->commits;
    s->st.syncs = n->syncs;
    s->st.writes = n->writes;
    s->st.failures = n->failures;
    s->st.anew = n->anew;
    pthread_mutex_unlock(&s->lock);
    if (wake)
        (void)!write(s->fd, &one, sizeof(one));
}

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

static void note_sizes(kvs_storage_t *s)
{
    uint64_t file, wal, unused;

    if (!sqlgroup_sizes(s->group, &file, &wal, &unused))
        return;
    pthread_mutex_lock(&s->lock);
    s->st.file_bytes = file;
    s->st.wal_bytes = wal;
    s->st.free_bytes = unused;
    pthread_mutex_unlock(&s->lock);
}

/* Take all requests of the queue as a group, which may be empty.  False: the driver is closed. */
static bool take(kvs_storage_t *s, struct list_node *group, enum sqlgroup_leisure *what)
{
    bool more;

    pthread_mutex_lock(&s->lock);
    s->leisure = *what;
    while (list_empty(&s->queue) && !s->closing && *what == SQLGROUP_NOTHING)
        pthread_cond_wait(&s->cond, &s->lock);
    if (*what == SQLGROUP_PAUSE) {
        wait_idle(s);
        *what = SQLGROUP_SHRINK;
    }
    list_splice(group, &s->queue);
    more = !s->closing || !list_empty(group);
    pthread_mutex_unlock(&s->lock);
    return more;
}

static void *thread_main(void *arg)
{
    kvs_storage_t *s = arg;
    enum sqlgroup_leisure what = SQLGROUP_NOTHING;
    struct list_node group;
    unsigned groups = 0; /* groups since the last step of tidying */

    list_init(&group);
    while (take(s, &group, &what)) {
        bool idle = list_empty(&group);
        if (!idle)
            what = sqlgroup_run(s->group, &group) ? SQLGROUP_TIDY : SQLGROUP_NOTHING;
        if (idle || (what != SQLGROUP_NOTHING && ++groups >= BUSY_GROUPS)) {
            what = sqlgroup_tidy(s->group, what);
            groups = 0;
            HOLD_POINT(&s->hold, "storage-tidied");
        }
        if (idle && what != SQLGROUP_TIDY)
            note_sizes(s);
    }
    sqlgroup_destroy(s->group);
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
    s->max_bytes = max_bytes;
    HOLD_POINT_INIT(&s->hold);
    s->fd = init_sync(s);
    if (s->fd < 0 || !(s->group = sqlgroup_create(dir, hash, deliver, s))) {
        errmsg_fail(err, errno, "cannot keep the store in '%.120s': %s", dir, strerror(errno));
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
    list_splice(&done, &s->ready);
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
    } else {
        sqlgroup_destroy(s->group);
    }
    if (s->fd >= 0)
        close(s->fd);
    pthread_cond_destroy(&s->cond);
    pthread_mutex_destroy(&s->lock);
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

    q->cost = kvs_storage_is_write(q->op) ? cost_of(q) : 0;
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
    busy = s->leisure != SQLGROUP_NOTHING || s->st.queued > 0;
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
    .next = sqlgroup_next,
};

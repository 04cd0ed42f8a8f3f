/* Threads that start tasks, one of which has the loop.
 *
 * To start a task is to touch what is its user's: the working directory, the program, the files of
 * its streams.  On a file system that hangs each of these may take for ever.  It is done in a child
 * that shares memory with the thread that makes it, and for which that thread alone waits (spawn.h).
 *
 * state of a thread   meaning                                    left when
 * leading             it runs the loop, and starts tasks in      the launcher ends, or it was so long
 *                     between, between rounds only               in a request that another leads
 * standing by         it waits for the alarm                     the leader hangs: it leads
 * hanging             another leads; it still has its request    that is done: it tells the leader, and
 *                                                                stands by
 *
 * So a task that starts as it should costs no change of threads, and one that hangs keeps the loop
 * for STUCK.  The loop makes a request (launcher_task.c) and adds it to the batch of its job:
 *
 *    todo of the batch  ->  a thread has it  ->  done  ->  the loop: job_started()
 *
 *  1. One thread at a time serves a batch, in order, and stops at the first that fails; batches
 *     take turns, in slices of time.
 *  2. All of the launcher's data are the leader's, but for what a request points to.  That stays
 *     until it came back: a job that has ended meanwhile is kept, as a ghost (launcher_job.c).
 *  3. One thread at least stands by when a task is started.  When THREADS_MAX - 1 hang, or another
 *     cannot be made, no task is started until one of them is done.
 *  4. A thread ends with the launcher only: the kernel kills the children of a thread that ends,
 *     as they asked for (PR_SET_PDEATHSIG).
 *  5. The number of a child is known before it runs, so one that ends at once, and is reaped before
 *     its request is done, is told from an orphan.
 *  6. What threads share is under `lock`; nobody who holds it waits for anything.
 *
 * Failure: a child that SIGKILL does not end is left behind with its thread.  While nothing hangs,
 * tasks are started even if no thread can be made to stand by.
 */
#include "config.h"
#include "launcher.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#define THREADS_MAX 256
#define STUCK 50000 /* microseconds */
#define SLICE 2000  /* ... of starting tasks at a time */
#define STACK_SIZE \
    (8 << 20) /* as the main thread's: hooks in Lua run on it; what is not touched costs nothing */
#define BUSY_TRIES 20 /* a millisecond each */

struct starter {
    struct starters *all;
    struct list_node node;
    pthread_t thread;
    struct request *now; /* NULL: none */
    uint64_t since;
    pid_t pid;    /* of its child, written by the kernel */
    pid_t reaped; /* one that the loop has reaped, with this status */
    int status;
};

struct starters {
    struct launcher *l;
    void (*before)(struct launcher *l);
    void (*after)(struct launcher *l);
    struct source src;
    pthread_mutex_t lock;
    struct list_node threads;
    struct list_node queue; /* batches */
    struct list_node done;  /* requests */
    struct starter *leader;
    unsigned count;
    unsigned idle; /* stand by */
    int alarm;     /* timerfd */
    bool armed;
    bool full; /* the leader's own: all that can be hang */
    bool over;
    bool stuck;      /* over, but a thread is not */
    bool collecting; /* the leader's own */
};

static uint64_t now_us(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000 + (uint64_t)ts.tv_nsec / 1000;
}

/* --- one request --- */

/* A child that another thread makes has, for an instant, all that the loop has open: that may be
 * the file that is to be executed, just when it was written. */
static pid_t spawn(struct request *r)
{
    const struct timespec moment = {0, 1000000};
    pid_t pid = spawn_process(&r->sp, &r->err);

    for (int i = 0; pid < 0 && errno == ETXTBSY && i < BUSY_TRIES; i++) {
        nanosleep(&moment, NULL);
        pid = spawn_process(&r->sp, &r->err);
    }
    return pid;
}

static void set_alarm(struct starters *a, uint64_t us)
{
    struct itimerspec its = {
        .it_value = {.tv_sec = (time_t)(us / 1000000), .tv_nsec = (long)(us % 1000000) * 1000 + 1}};

    a->armed = (timerfd_settime(a->alarm, 0, &its, NULL) == 0);
}

/* Called and left with the lock held. */
static void serve_one(struct starter *s, struct request *r)
{
    struct starters *a = s->all;

    s->now = r;
    s->since = now_us();
    s->reaped = 0;
    r->sp.pid = &s->pid;
    if (!a->armed)
        set_alarm(a, STUCK);
    pthread_mutex_unlock(&a->lock);
    r->pid = spawn(r);
    r->errnum = errno;
    request_close(r);
    pthread_mutex_lock(&a->lock);
    r->reaped = (r->pid > 0 && s->reaped == r->pid);
    r->status = s->status;
    s->now = NULL;
    __atomic_store_n(&s->pid, 0, __ATOMIC_SEQ_CST);
    list_append(&a->done, &r->node);
}

static void tell(const struct starters *a)
{
    static const uint64_t one = 1;
    ssize_t n;

    do
        n = write(a->src.fd, &one, sizeof(one));
    while (n < 0 && errno == EINTR);
}

/* One of the first batch; the lock is held. */
static void serve_batch(struct starter *s)
{
    struct starters *a = s->all;
    struct batch *b = list_entry(list_first(&a->queue), struct batch, node);
    struct request *r = list_entry(list_first(&b->todo), struct request, node);

    list_remove(&b->node);
    list_remove(&r->node);
    b->ntodo--;
    b->busy = true;
    serve_one(s, r);
    b->busy = false;
    b->stop |= (r->pid < 0);
    if (!b->stop && b->ntodo > 0) { /* its own turn is not over */
        if (a->leader == s)
            list_push(&a->queue, &b->node);
        else
            list_append(&a->queue, &b->node);
    }
    if (a->leader != s)
        tell(a);
}

static int add_thread(struct starters *a);

/* See that a thread stands by. */
static void prepare(struct starters *a)
{
    unsigned hanging = a->count - a->idle - 1;

    a->full = a->idle == 0 && (a->count == THREADS_MAX || add_thread(a) < 0) && hanging > 0;
}

/* What waits, for a slice; false: another leads. */
static bool serve(struct starter *s)
{
    struct starters *a = s->all;
    uint64_t end = 0;
    bool leads = true, any;

    pthread_mutex_lock(&a->lock);
    any = !list_empty(&a->queue);
    if (any)
        prepare(a);
    while (leads && !a->full && !list_empty(&a->queue) && (!end || now_us() < end)) {
        if (!end)
            end = now_us() + SLICE;
        serve_batch(s);
        leads = (a->leader == s);
    }
    /* The next batch has its turn. */
    if (leads && !list_empty(&a->queue)) {
        struct list_node *first = list_first(&a->queue);

        list_remove(first);
        list_append(&a->queue, first);
    }
    pthread_mutex_unlock(&a->lock);
    if (leads && any)
        starters_collect(a->l);
    return leads;
}

/* --- threads --- */

/* Until the launcher is to end (true), or another leads. */
static bool lead(struct starter *s)
{
    struct starters *a = s->all;
    struct launcher *l = a->l;

    starters_collect(l); /* what the leader before has done */
    for (;;) {
        a->after(l);
        if (l->stop)
            return true;
        a->before(l);
        if (!serve(s))
            return false;
    }
}

/* Does the leader hang?  If not, the alarm is set anew when there is something to wait for. */
static bool leader_hangs(struct starters *a)
{
    uint64_t now = now_us(), end = a->leader->since + STUCK;

    if (!a->leader->now)
        return false;
    if (end <= now)
        return true;
    set_alarm(a, end - now);
    return false;
}

static void stand_by(struct starter *s)
{
    struct starters *a = s->all;
    uint64_t n;

    pthread_mutex_lock(&a->lock);
    while (!a->over) {
        bool alarmed;

        pthread_mutex_unlock(&a->lock);
        alarmed = (read(a->alarm, &n, sizeof(n)) == sizeof(n));
        pthread_mutex_lock(&a->lock);
        if (!alarmed || a->over)
            continue;
        a->armed = false;
        if (!leader_hangs(a))
            continue;
        a->leader = s;
        a->idle--;
        pthread_mutex_unlock(&a->lock);
        if (lead(s))
            launcher_end(a->l);
        pthread_mutex_lock(&a->lock);
        a->idle++;
    }
    pthread_mutex_unlock(&a->lock);
}

static void *starter_main(void *arg)
{
    stand_by(arg);
    return NULL;
}

static struct starter *starter_create(struct starters *a)
{
    struct starter *s = calloc(1, sizeof(*s));

    if (!s)
        return NULL;
    s->all = a;
    list_append(&a->threads, &s->node);
    a->count++;
    return s;
}

static void starter_free(struct starter *s)
{
    list_remove(&s->node);
    s->all->count--;
    free(s);
}

static int add_thread(struct starters *a)
{
    struct starter *s = starter_create(a);
    pthread_attr_t attr;
    sigset_t all, old;
    int rc;

    if (!s)
        return -1;
    sigfillset(&all);
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, STACK_SIZE);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    rc = pthread_create(&s->thread, &attr, starter_main, s);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    pthread_attr_destroy(&attr);
    if (rc != 0) {
        starter_free(s);
        return -1;
    }
    a->idle++;
    return 0;
}

/* --- the loop's side --- */

bool starters_wait(const struct launcher *l)
{
    struct starters *a = l->starters;
    bool some;

    pthread_mutex_lock(&a->lock);
    some = !list_empty(&a->queue) && !a->full;
    pthread_mutex_unlock(&a->lock);
    return some;
}

void batch_add(struct launcher *l, struct batch *b, struct request *r)
{
    struct starters *a = l->starters;

    pthread_mutex_lock(&a->lock);
    list_append(&b->todo, &r->node);
    b->ntodo++;
    if (!b->busy && !b->stop && list_empty(&b->node))
        list_append(&a->queue, &b->node);
    pthread_mutex_unlock(&a->lock);
}

void batch_init(struct batch *b)
{
    list_init(&b->todo);
    list_init(&b->node);
}

unsigned batch_drop(struct launcher *l, struct batch *b)
{
    struct starters *a = l->starters;
    unsigned n = 0;

    pthread_mutex_lock(&a->lock);
    b->stop = true;
    b->ntodo = 0;
    list_remove(&b->node);
    LIST_FOREACH_SAFE(it, tmp, &b->todo)
    {
        list_remove(it);
        request_free(list_entry(it, struct request, node));
        n++;
    }
    pthread_mutex_unlock(&a->lock);
    return n;
}

pid_t batch_kill(struct launcher *l, struct batch *b)
{
    struct starters *a = l->starters;
    pid_t found = 0;

    pthread_mutex_lock(&a->lock);
    LIST_FOREACH(it, &a->threads)
    {
        struct starter *s = list_entry(it, struct starter, node);
        pid_t pid = __atomic_load_n(&s->pid, __ATOMIC_SEQ_CST);

        if (s->now && s->now->batch == b && pid > 0) {
            found = pid;
            if (s->reaped != pid)
                kill(pid, SIGKILL);
        }
    }
    pthread_mutex_unlock(&a->lock);
    return found;
}

void starters_collect(struct launcher *l)
{
    struct starters *a = l->starters;
    struct list_node *it;

    if (a->collecting)
        return;
    a->collecting = true;
    for (;;) {
        pthread_mutex_lock(&a->lock);
        if ((it = list_first(&a->done)))
            list_remove(it);
        pthread_mutex_unlock(&a->lock);
        if (!it)
            break;
        job_started(list_entry(it, struct request, node));
    }
    a->collecting = false;
}

static void done_ready(struct source *src, uint32_t events)
{
    struct starters *a = (struct starters *)((char *)src - offsetof(struct starters, src));
    uint64_t n;

    a->full = false;
    if (read(src->fd, &n, sizeof(n)) == sizeof(n))
        starters_collect(a->l);
}

static struct starter *of_pid(struct starters *a, pid_t pid)
{
    LIST_FOREACH(it, &a->threads)
    {
        struct starter *s = list_entry(it, struct starter, node);

        if (s->now && __atomic_load_n(&s->pid, __ATOMIC_SEQ_CST) == pid)
            return s;
    }
    return NULL;
}

bool starters_reaped(struct launcher *l, pid_t pid, int status)
{
    struct starters *a = l->starters;
    struct starter *s;
    bool known = false;

    pthread_mutex_lock(&a->lock);
    if ((s = of_pid(a, pid))) {
        s->reaped = pid;
        s->status = status;
        known = true;
    }
    /* Its thread may have said a moment ago that it is done with it. */
    LIST_FOREACH(it, &a->done)
    {
        struct request *r = list_entry(it, struct request, node);

        if (r->pid == pid && !r->reaped) {
            r->reaped = true;
            r->status = status;
            known = true;
        }
    }
    pthread_mutex_unlock(&a->lock);
    return known;
}

bool starters_have(struct launcher *l, pid_t pid)
{
    struct starters *a = l->starters;
    bool have;

    pthread_mutex_lock(&a->lock);
    have = (of_pid(a, pid) != NULL);
    LIST_FOREACH(it, &a->done)
    have |= (list_entry(it, struct request, node)->pid == pid);
    pthread_mutex_unlock(&a->lock);
    return have;
}

/* --- life --- */

int starters_init(struct launcher *l)
{
    struct starters *a = calloc(1, sizeof(*a));

    if (!a)
        return -1;
    a->l = l;
    list_init(&a->threads);
    list_init(&a->queue);
    list_init(&a->done);
    pthread_mutex_init(&a->lock, NULL);
    l->starters = a;
    a->alarm = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
    if (a->alarm < 0)
        return -1;
    return source_start(l, &a->src, eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), EPOLLIN, done_ready);
}

int starters_run(struct launcher *l, void (*before)(struct launcher *),
                 void (*after)(struct launcher *))
{
    struct starters *a = l->starters;
    struct starter *s = starter_create(a);

    if (!s)
        return -1;
    s->thread = pthread_self();
    a->before = before;
    a->after = after;
    a->leader = s;
    if (lead(s)) {
        launcher_end(l);
        return 0;
    }
    pthread_mutex_lock(&a->lock);
    a->idle++;
    pthread_mutex_unlock(&a->lock);
    stand_by(s);
    return 0;
}

void starters_stop(struct launcher *l)
{
    const struct itimerspec often = {.it_value = {.tv_nsec = 1},
                                     .it_interval = {.tv_nsec = 1000000}};
    struct starters *a = l->starters;

    if (!a)
        return;
    pthread_mutex_lock(&a->lock);
    a->over = true;
    timerfd_settime(a->alarm, 0, &often, NULL);
    LIST_FOREACH(it, &a->threads)
    a->stuck |= (list_entry(it, struct starter, node)->now != NULL);
    pthread_mutex_unlock(&a->lock);
    if (a->stuck) /* it goes with the process */
        return;
    LIST_FOREACH_SAFE(it, tmp, &a->threads)
    {
        struct starter *s = list_entry(it, struct starter, node);

        pthread_join(s->thread, NULL);
        starter_free(s);
    }
}

void starters_fini(struct launcher *l)
{
    struct starters *a = l->starters;

    if (!a || a->stuck)
        return;
    source_close(l, &a->src);
    close(a->alarm);
    pthread_mutex_destroy(&a->lock);
    free(a);
}

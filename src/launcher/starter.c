/* starter.c - the threads that perform operations which may hang; one of them runs the loop.
 *
 * Purpose: an operation on a file that does not belong to the launcher may hang with its file
 * system: the working directory, program and streams of a task, the directory of a job, the
 * programs of the site.  Each such operation is a `struct work`.  A program is started in a child
 * that shares memory with the thread that creates it, and only this thread waits for the child
 * (spawn.h); other operations are performed by the thread itself.
 *
 *    state of a thread   meaning                              left when (by)
 *    leading             it runs the loop, and performs       the launcher ends (lead), or another
 *                        works between rounds only            thread leads because a work took too
 *                                                             long
 *    standing by         it waits for the alarm               the leader hangs: it leads (stand_by)
 *    hanging             another thread leads; it still       the work is done: it notifies the
 *                        performs its work                    leader, and stands by (serve_batch)
 *
 * So a work that does not hang costs no change of threads, and a work that hangs blocks the loop
 * for STUCK only.  The loop creates a work and adds it to a batch, of which a job has two
 * (launcher.h):
 *
 *    todo of the batch  ->  a thread performs it: run()  ->  done  ->  the loop: done()
 *
 * Invariants:
 *  1. One thread at a time serves a batch, in order, and stops at the first failure.  Batches take
 *     turns, in slices of time.
 *  2. All data of the launcher belong to the leader, except the data to which a work points.  These
 *     stay until the work comes back: a job that has ended in the meantime is kept, as a ghost
 *     (nodejob.c).
 *  3. At least one thread stands by while works are performed.  If the maximum number of threads
 *     (wrexec.hung-max) hangs, or no thread can be created, works that start something are refused
 *     with an error message; works that end something wait until a thread is free.
 *  4. A thread ends only with the launcher: the kernel kills the children of a thread that ends,
 *     because they asked for that (PR_SET_PDEATHSIG).
 *  5. The pid of a child is known before the child runs.  So a child that ends at once, and is
 *     reaped before its work is done, is not mistaken for an orphan.
 *  6. Data shared by threads are under `lock`; a thread that holds it never waits.
 *
 * Failure: a child that SIGKILL does not end, and a thread that hangs, are left behind.  While
 * nothing hangs, works are performed even if no thread can be created to stand by.
 */
#include "config.h"
#include "launcher.h"
#include "libutil/clock.h"
#include "libutil/invariant.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#define STUCK 50000 /* microseconds */
#define SLICE 2000  /* microseconds in which tasks are started at a time */
#define STACK_SIZE \
    (8 << 20) /* as for the main thread, since Lua hooks run on it; untouched pages cost nothing */

struct starter {
    struct starters *all;
    struct list_node node;
    pthread_t thread;
    struct work *now; /* the present work; NULL: none */
    uint64_t since;
    pid_t pid;    /* pid of its child, written by the kernel */
    pid_t reaped; /* pid of a child that the loop has reaped, with this status */
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
    struct list_node done;  /* works */
    struct starter *leader;
    unsigned count;
    unsigned idle; /* number of threads that stand by */
    int alarm;     /* timerfd */
    bool armed;
    bool full; /* the maximum number of threads hangs; used by the leader only */
    bool over;
    bool stuck;      /* the launcher is over, but a thread hangs */
    bool collecting; /* used by the leader only */
};

/* --- a work --- */

#define BUSY_TRIES 20 /* a millisecond each */

/* Start the program of a work.  For an instant, a child of another thread has all files open that
 * the loop has open.  One of them may be the program, which has just been written: execve(2) then
 * fails with ETXTBSY, and is tried again. */
void starter_spawn(struct work *w, struct spawn_params *sp, pid_t *pid)
{
    const struct timespec moment = {0, 1000000};

    sp->pid = pid;
    w->pid = spawn_process(sp, &w->err);
    for (int i = 0; w->pid < 0 && errno == ETXTBSY && i < BUSY_TRIES; i++) {
        nanosleep(&moment, NULL);
        w->pid = spawn_process(sp, &w->err);
    }
    w->errnum = errno;
    w->failed = w->pid < 0;
}

static void set_alarm(struct starters *a, uint64_t us)
{
    struct itimerspec its = {
        .it_value = {.tv_sec = (time_t)(us / 1000000), .tv_nsec = (long)(us % 1000000) * 1000 + 1}};

    a->armed = (timerfd_settime(a->alarm, 0, &its, NULL) == 0);
}

/* Perform one work.  Called, and left, with the lock held. */
static void serve_one(struct starter *s, struct work *w)
{
    struct starters *a = s->all;

    INVARIANT(6, !s->now);
    s->now = w;
    s->since = clock_now_us();
    s->reaped = 0;
    if (!a->armed)
        set_alarm(a, STUCK);
    pthread_mutex_unlock(&a->lock);
    w->run(w, &s->pid);
    pthread_mutex_lock(&a->lock);
    w->reaped = (w->pid > 0 && s->reaped == w->pid);
    w->status = s->status;
    s->now = NULL;
    __atomic_store_n(&s->pid, 0, __ATOMIC_SEQ_CST);
    list_append(&a->done, &w->node);
}

static void tell(const struct starters *a)
{
    static const uint64_t one = 1;
    ssize_t n;

    do
        n = write(a->src.fd, &one, sizeof(one));
    while (n < 0 && errno == EINTR);
}

static struct work *take(struct batch *b)
{
    struct work *w = list_entry(list_first(&b->todo), struct work, node);

    INVARIANT(1, b->ntodo > 0 && !list_empty(&b->todo));
    list_remove(&b->node);
    list_remove(&w->node);
    b->ntodo--;
    return w;
}

/* Perform one work of the first batch, with the lock held. */
static void serve_batch(struct starter *s)
{
    struct starters *a = s->all;
    struct batch *b = list_entry(list_first(&a->queue), struct batch, node);
    struct work *w = take(b);

    INVARIANT(1, !b->busy);
    b->busy = true;
    serve_one(s, w);
    b->busy = false;
    b->stop |= w->failed;
    if (!b->stop && b->ntodo > 0) { /* the turn of this batch is not over */
        if (a->leader == s)
            list_push(&a->queue, &b->node);
        else
            list_append(&a->queue, &b->node);
    }
    if (a->leader != s)
        tell(a);
}

/* Refuse the works that start something while the maximum number of threads hangs.  Called with the
 * lock held. */
static void refuse_all(struct starters *a)
{
    LIST_FOREACH_SAFE(it, tmp, &a->queue)
    {
        struct batch *b = list_entry(it, struct batch, node);
        struct work *w;

        if (!b->begins)
            continue;
        w = take(b);
        b->stop = w->failed = true;
        w->pid = -1;
        w->errnum = EAGAIN;
        errmsg_set(&w->err,
                   "%u calls to file systems that do not answer hang on %s, and no more are made "
                   "there (wrexec.hung-max): find out which does not answer, or use other nodes",
                   a->count - a->idle - 1, a->l->hostname);
        list_append(&a->done, &w->node);
    }
}

static int add_thread(struct starters *a);

/* Make sure that a thread stands by. */
static void prepare(struct starters *a)
{
    unsigned hanging = a->count - a->idle - 1;

    a->full = a->idle == 0 && (hanging >= a->l->hung_max || add_thread(a) < 0) && hanging > 0;
}

/* Perform waiting works, for a slice of time.  Returns false if another thread leads now. */
static bool serve(struct starter *s)
{
    struct starters *a = s->all;
    uint64_t end = 0;
    bool leads = true, any;

    pthread_mutex_lock(&a->lock);
    any = !list_empty(&a->queue);
    if (any)
        prepare(a);
    if (a->full)
        refuse_all(a);
    while (leads && !a->full && !list_empty(&a->queue) && (!end || clock_now_us() < end)) {
        if (!end)
            end = clock_now_us() + SLICE;
        serve_batch(s);
        leads = (a->leader == s);
    }
    /* It is the turn of the next batch. */
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

/* Run the loop until the launcher is to end (true), or another thread leads (false). */
static bool lead(struct starter *s)
{
    struct starters *a = s->all;
    struct launcher *l = a->l;

    starters_collect(l); /* works that were done under the previous leader */
    for (;;) {
        a->after(l);
        if (l->over)
            return true;
        a->before(l);
        if (!serve(s))
            return false;
    }
}

/* Returns whether the leader hangs.  If it performs a work, but does not hang, the alarm is set
 * again. */
static bool leader_hangs(struct starters *a)
{
    uint64_t now = clock_now_us(), end = a->leader->since + STUCK;

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
        INVARIANT(3, a->idle > 0 && a->idle <= a->count);
        a->leader = s;
        a->idle--;
        pthread_mutex_unlock(&a->lock);
        if (lead(s))
            orphans_over(a->l);
        pthread_mutex_lock(&a->lock);
        a->idle++;
    }
    pthread_mutex_unlock(&a->lock);
}

/* Give this thread a umask of its own, since the umask differs from job to job. */
static void own_umask(void)
{
    (void)unshare(CLONE_FS);
}

static void *starter_main(void *arg)
{
    own_umask();
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
    sigdelset(&all, SIGALRM); /* the signal that ends a plugin's hook */
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
    if (a->full)
        LIST_FOREACH(it, &a->queue)
    some |= list_entry(it, struct batch, node)->begins;
    pthread_mutex_unlock(&a->lock);
    return some;
}

void starter_batch_add(struct launcher *l, struct batch *b, struct work *w)
{
    struct starters *a = l->starters;

    w->batch = b;
    pthread_mutex_lock(&a->lock);
    list_append(&b->todo, &w->node);
    b->ntodo++;
    if (!b->busy && !b->stop && list_empty(&b->node))
        list_append(&a->queue, &b->node);
    pthread_mutex_unlock(&a->lock);
}

void starter_batch_init(struct batch *b, bool begins)
{
    b->begins = begins;
    list_init(&b->todo);
    list_init(&b->node);
}

unsigned starter_batch_drop(struct launcher *l, struct batch *b)
{
    struct starters *a = l->starters;
    unsigned n = 0;

    pthread_mutex_lock(&a->lock);
    b->stop = true;
    b->ntodo = 0;
    list_remove(&b->node);
    LIST_FOREACH_SAFE(it, tmp, &b->todo)
    {
        struct work *w = list_entry(it, struct work, node);

        list_remove(it);
        w->drop(w);
        n++;
    }
    pthread_mutex_unlock(&a->lock);
    return n;
}

pid_t starter_batch_kill(struct launcher *l, struct batch *b)
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
        struct work *w = list_entry(it, struct work, node);

        if (w->job)
            nodejob_worked(w);
        else
            w->done(w);
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
    /* Its thread may have put the work into `done` a moment ago. */
    LIST_FOREACH(it, &a->done)
    {
        struct work *w = list_entry(it, struct work, node);

        if (w->pid == pid && !w->reaped) {
            w->reaped = true;
            w->status = status;
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
    have |= (list_entry(it, struct work, node)->pid == pid);
    pthread_mutex_unlock(&a->lock);
    return have;
}

/* --- start and end --- */

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
    return launcher_source_start(l, &a->src, eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), EPOLLIN,
                                 done_ready);
}

int starters_run(struct launcher *l, void (*before)(struct launcher *),
                 void (*after)(struct launcher *))
{
    struct starters *a = l->starters;
    struct starter *s = starter_create(a);

    if (!s)
        return -1;
    own_umask();
    s->thread = pthread_self();
    a->before = before;
    a->after = after;
    a->leader = s;
    if (lead(s)) {
        orphans_over(l);
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
    if (a->stuck) /* it is freed with the process */
        return;
    LIST_FOREACH_SAFE(it, tmp, &a->threads)
    {
        struct starter *s = list_entry(it, struct starter, node);

        pthread_join(s->thread, NULL);
        starter_free(s);
    }
}

bool starters_stuck(const struct launcher *l)
{
    return l->starters && l->starters->stuck;
}

void starters_fini(struct launcher *l)
{
    struct starters *a = l->starters;

    if (!a || a->stuck)
        return;
    launcher_source_close(l, &a->src);
    close(a->alarm);
    pthread_mutex_destroy(&a->lock);
    free(a);
}

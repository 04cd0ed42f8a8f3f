/* modhost_thread.c - modules with a thread of their own.
 *
 * The thread's reactor delivers messages from the module's mailbox to its handle.  Messages sent
 * with the handle go to the broker's mailbox.  Envelopes without message report the module's
 * progress (enum code); EXITED is the last one, after which nothing is sent.
 *
 * Waking: a module is woken when the broker's thread has passed on the messages of one pass, or
 * WAKE_AFTER of them, so that it does not start with the first alone while others follow.  The
 * module wakes the broker in the same way.
 *
 * Failure: if memory for an envelope that must not be lost is short, the thread waits for some.
 */
#include "config.h"
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>

#include "modhost_private.h"

#define WAKE_AFTER 16
#define STACK_SIZE (1024 * 1024)

/* Wake the broker; called before the thread sleeps, and occasionally while it works. */
static void thread_tell(void *arg)
{
    struct module *m = arg;

    if (m->said > 0) {
        m->said = 0;
        mailbox_wake(m->mh->outbox);
    }
}

static int thread_send(void *impl, flux_msg_t *msg)
{
    struct module *m = impl;
    int rc = -1;

    /* The host forgets a module after its last envelope: messages sent when its handle is closed
     * after that would have no sender. */
    if (m->leaves) {
        flux_msg_destroy(msg);
        return 0;
    }
    if (m->said_exit || (rc = mailbox_post(m->mh->outbox, m, msg, 0, 0)) < 0) {
        flux_msg_destroy(msg);
        return -1;
    }
    if (rc == 1 && ++m->said >= WAKE_AFTER)
        thread_tell(m);
    return 0;
}

static const struct flux_handle_ops thread_ops = {.send = thread_send};

/* Send a small envelope that must not be lost; otherwise a module would never be joined, or a
 * request never answered. */
static void thread_report(struct module *m, enum code code)
{
    while (mailbox_put(m->mh->outbox, m, NULL, code, 0) < 0)
        sched_yield();
}

/* While so few requests wait that no client can be held up, the broker is not woken: it reads the
 * report with the next message.  (The thread cannot be misled by an old value: a request is counted
 * before it is put in the mailbox.)  If memory is short, the thread waits for some, since an
 * unreported request would count against its client forever. */
static void thread_took(struct module *m, uint32_t from, unsigned weight)
{
    int rc;

    while ((rc = mailbox_post(m->mh->outbox, (void *)(uintptr_t)from, NULL, CODE_TOOK + (int)weight,
                              0)) < 0)
        sched_yield();
    if (rc == 1 && atomic_load(&m->mh->queued) > CORE_QUEUED_LOW)
        m->said++;
}

static void thread_inbox_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    struct module *m = arg;

    switch (modhost_serve(m)) {
    case SERVE_STOP:
        if (!flux_reactor_stopped(r, NULL))
            flux_reactor_stop(r, 0);
        break;
    case SERVE_MORE:
        mailbox_again(m->inbox);
        break;
    case SERVE_NEVER:
        flux_watcher_stop(w);
        break;
    case SERVE_IDLE:
        break;
    }
}

static void thread_exit(void *arg)
{
    struct module *m = arg;

    if (!m->said_exit) {
        m->said_exit = true;
        thread_report(m, CODE_EXITED);
    }
}

static void thread_run(struct module *m)
{
    if (modhost_serve_open(m, flux_reactor_create(false), &thread_ops) == 0 &&
        (m->w =
             flux_fd_watcher_create(m->r, mailbox_fd(m->inbox), FLUX_POLLIN, thread_inbox_cb, m)) &&
        flux_reactor_before_sleep(m->r, thread_tell, m) == 0) {
        flux_watcher_start(m->w);
        if (modhost_serve_init(m) == 0)
            modhost_serve_fini(m, flux_reactor_run(m->r));
    } else {
        m->errnum = ENOMEM;
        errmsg_set(&m->error, "out of memory");
    }
    modhost_serve_close(m);
}

static void *thread_main(void *arg)
{
    /* The last envelope is sent even if the module ends its own thread. */
    pthread_cleanup_push(thread_exit, arg);
    thread_run(arg);
    pthread_cleanup_pop(1);
    return NULL;
}

/* --- in the broker's thread --- */

static int thread_start(struct module *m, errmsg_t *err)
{
    pthread_attr_t attr;
    sigset_t all;
    sigset_t old;
    int rc;

    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, STACK_SIZE);
    /* Signals are handled by the main thread. */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    rc = pthread_create(&m->thread, &attr, thread_main, m);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    pthread_attr_destroy(&attr);
    if (rc != 0)
        return errmsg_fail(err, rc, "module %s: no thread: %s", m->name, strerror(rc));
    return 0;
}

static void thread_wake(struct module *m)
{
    m->posted = 0;
    mailbox_wake(m->inbox);
}

static bool thread_posted(struct module *m)
{
    return ++m->posted >= WAKE_AFTER;
}

static void thread_join(struct module *m)
{
    pthread_join(m->thread, NULL);
    modhost_serve_close(m); /* if the module has ended its own thread */
}

const struct module_place modhost_in_thread = {
    .name = "thread",
    .sleeps = true,
    .start = thread_start,
    .posted = thread_posted,
    .wake = thread_wake,
    .took = thread_took,
    .report = thread_report,
    .join = thread_join,
};

/* modhost_thread.c - the module's side of the module host: what runs in its thread.
 *
 * Its reactor delivers what the broker puts into the module's mailbox to the module's handle, and
 * what is sent with that handle goes to the broker's mailbox.  Letters without message say how far
 * the module is (enum code); EXITED is the last one, after which nothing is sent.
 *
 * What comes is looked at by sender (fairq.c), so that a client waits for a few requests of each other one,
 * however many these have sent; in slices, between which the module's timers and files have their turn.
 *
 * A module that hands over is mute from then on: what its handle sends is dropped, until the thread
 * has ended.
 *
 * Failure: init's, or the reactor's, is left in `errnum` and `error`, which the broker's thread
 * reads after EXITED.
 */
#include "config.h"
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "libflux/route.h"
#include "libflux/slice.h"
#include "modhost_private.h"

/* A client hears so early that more of its requests fit in. */
#define RUN_WEIGHT 64
#define TALLIES 8
/* Letters of each that are looked at in one pass when several wait: so long does one of them wait for what the
 * module puts off to the end of the pass. */
#define PER_GROUP 8
#define MODULES 0x80000000u /* beside a CORE_ACCOUNT_RANK: not its clients, but its modules */

/* Before the thread sleeps, and now and then while it works. */
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

    /* The host forgets a module at its last envelope: what its handle still has to say when it is
     * closed after that has no sender. */
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

/* An envelope of a few bytes that must not get lost, or a module would never be joined, or a request
 * never answered. */
static void thread_report(struct module *m, enum code code)
{
    while (mailbox_put(m->mh->outbox, m, NULL, code, 0) < 0)
        sched_yield();
}

/* As hand_over in libflux/module.h. */
static int hand_over(struct module *m, errmsg_t *err)
{
    flux_handover_t *o = flux_handover_create();
    int rc;

    if (!o)
        return errmsg_fail(err, ENOMEM, "out of memory");
    if ((rc = m->desc->hand_over(m->h, m->ctx, o, err)) == 1)
        m->leaves = o;
    else
        flux_handover_destroy(o);
    return rc;
}

static bool agrees(struct module *m, int code)
{
    errmsg_t err = {""};
    int rc = code == CODE_ASK_RELOAD && m->desc->hand_over ? hand_over(m, &err) : 0;

    if (rc == 1 || (rc == 0 && (!m->desc->may_stop || m->desc->may_stop(m->h, m->ctx, &err) == 0)))
        return true;
    m->refusal = errno ? errno : EBUSY;
    m->refused = err;
    thread_report(m, CODE_REFUSED);
    return false;
}

/* --- what comes --- */

/* Requests of one account that were taken, and of which the broker is to be told. */
struct tally {
    uint32_t from;
    unsigned weight;
};
struct tallies {
    struct tally of[TALLIES];
    size_t n;
};

/* The broker is not woken for it while so little waits that no client can be held up: it hears of it
 * when something else is said.  (Who finds little when it takes the last of what waits is right: what
 * a client is held up for is counted before it is put in the mailbox.)
 * Without memory for it the thread waits for some: what is not said would count against the client
 * for ever. */
static void tell_tally(struct module *m, struct tally *t)
{
    int rc;

    if (t->weight == 0)
        return;
    while ((rc = mailbox_post(m->mh->outbox, (void *)(uintptr_t)t->from, NULL,
                              CODE_TOOK + (int)t->weight, 0)) < 0)
        sched_yield();
    if (rc == 1 && atomic_load(&m->mh->queued) > CORE_QUEUED_LOW)
        m->said++;
    t->weight = 0;
}

static void tell_tallies(struct module *m, struct tallies *ts)
{
    for (size_t i = 0; i < ts->n; i++)
        tell_tally(m, &ts->of[i]);
    ts->n = 0;
}

static void took(struct module *m, struct tallies *ts, const struct envelope *l)
{
    uint32_t from = (uint32_t)(uintptr_t)l->from;
    size_t i = 0;

    if (!from)
        return;
    while (i < ts->n && ts->of[i].from != from)
        i++;
    if (i == TALLIES) {
        tell_tallies(m, ts);
        i = 0;
    }
    if (i == ts->n)
        ts->of[ts->n++] = (struct tally){.from = from};
    ts->of[i].weight += core_request_weight(l->msg);
    if (ts->of[i].weight >= RUN_WEIGHT)
        tell_tally(m, &ts->of[i]);
}

/* Whose turn an envelope waits for.  Answers, events, and requests of this broker and its modules are looked at
 * before what clients want, in their order.  A client of this rank is one of its process, which has a turn; the
 * clients of another rank have one together, and its modules another.  That a client is gone comes after
 * what it has left here; it is said with a broker's role, and not known to the client's group when nothing
 * of it is left. */
static uint32_t group_of(const struct module *m, const struct envelope *l, uint32_t *sender)
{
    uint32_t from = (uint32_t)(uintptr_t)l->from;
    const flux_msg_t *msg = l->msg;
    size_t n = flux_msg_route_count(msg);
    uint32_t clients;

    *sender = 0;
    if (flux_msg_type(msg) != FLUX_MSG_REQUEST || n == 0)
        return FAIRQ_FIRST;
    *sender = flux_msg_route_at(msg, 0);
    if (n == 1)
        return from ? from : FAIRQ_FIRST;
    clients = CORE_ACCOUNT_RANK | flux_route_value(flux_msg_route_at(msg, 1));
    if (!(flux_msg_rolemask(msg) & FLUX_ROLE_BROKER) || fairq_has(m->queue, clients, *sender))
        return clients;
    return MODULES | clients;
}

/* Put what has come in the queue, up to an envelope that asks the module to stop: what came before that is
 * looked at before it.  What there is no memory for stays where it is. */
static void sort_mail(struct module *m)
{
    if (m->nrest == 0 && mailbox_has_new(m->inbox))
        m->rest = mailbox_take(m->inbox, &m->nrest);
    if (m->nrest == 1 && fairq_count(m->queue) == 0)
        return; /* it is its turn anyway */
    while (m->nrest > 0 && m->rest->msg) {
        uint32_t sender;
        uint32_t group = group_of(m, m->rest, &sender);

        if (fairq_put(m->queue, group, sender, core_request_weight(m->rest->msg), m->rest) < 0)
            break;
        mailbox_set_aside(m->inbox, 1, flux_msg_encoded_size(m->rest->msg));
        m->rest++;
        m->nrest--;
    }
}

bool modhost_next_envelope(struct module *m, struct envelope *l)
{
    if (fairq_next(m->queue, l)) {
        mailbox_done(m->inbox, 1, flux_msg_encoded_size(l->msg));
        return true;
    }
    if (m->nrest == 0)
        return false;
    *l = *m->rest++;
    m->nrest--;
    return true;
}

/* How many envelopes are looked at before the module does what it put off to the end of a pass: what waits now,
 * but when several wait, a few of each. */
static size_t pass_limit(const struct module *m, size_t limit)
{
    size_t few = PER_GROUP * fairq_groups(m->queue);

    return few > PER_GROUP && few < limit ? few : limit;
}

static void thread_inbox_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    struct module *m = arg;
    struct tallies tallies = {.n = 0};
    struct flux_slice s;
    bool stop = false;
    size_t limit;

    if (m->nrest == 0)
        m->rest = mailbox_take(m->inbox, &m->nrest);
    sort_mail(m);
    limit = pass_limit(m, fairq_count(m->queue) + m->nrest);
    flux_slice_begin(&s, r, FLUX_SLICE_SECONDS, FLUX_SLICE_THINGS);
    for (size_t n = 0; !stop && n < limit && flux_slice_more(&s); n++) {
        struct envelope l;

        if (!modhost_next_envelope(m, &l))
            break;
        if (l.msg) {
            took(m, &tallies, &l);
            flux_handle_deliver(m->h, l.msg);
        } else
            stop = l.code == CODE_STOP || agrees(m, l.code);
        if (!stop && (m->nrest > 0 || mailbox_has_new(m->inbox))) {
            sort_mail(m);
            limit = pass_limit(m, limit);
        }
    }
    tell_tallies(m, &tallies);
    if (stop)
        flux_reactor_stop(r, 0);
    else if (fairq_count(m->queue) > 0 || m->nrest > 0)
        mailbox_again(m->inbox);
}

static void thread_exit(void *arg)
{
    struct module *m = arg;

    if (!m->said_exit) {
        m->said_exit = true;
        thread_report(m, CODE_EXITED);
    }
}

static void run_reactor(struct module *m)
{
    errmsg_t *why;
    int rc = flux_reactor_run(m->r);

    if (rc >= 0)
        return;
    m->errnum = errno ? errno : EIO;
    if ((why = flux_aux_get(m->h, "module::fail")))
        m->error = *why;
    else
        errmsg_set(&m->error, "it stopped with an error");
}

static void thread_fail(struct module *m, int errnum, const char *text)
{
    m->errnum = errnum ? errnum : EIO;
    if (m->error.text[0] == '\0')
        errmsg_set(&m->error, "%s", text);
}

static void thread_started(void *arg)
{
    thread_report(arg, CODE_READY);
}

static void thread_serve(struct module *m)
{
    int rc;

    flux_log_set_source(m->h, m->name);
    flux_watcher_start(m->w);
    m->host = (struct flux_module_host){.started = thread_started, .arg = m};
    if ((m->inherited && flux_aux_set(m->h, "module::inherited", m->inherited, NULL) < 0) ||
        flux_aux_set(m->h, "module::host", &m->host, NULL) < 0 ||
        (m->successor && flux_aux_set(m->h, "module::reloaded", m, NULL) < 0)) {
        thread_fail(m, ENOMEM, "out of memory");
        return;
    }
    rc = m->desc->init(m->h, m->argc, m->argv, &m->ctx, &m->error);
    if (rc < 0)
        thread_fail(m, errno, strerror(errno));
    if (m->inherited) {
        (void)flux_aux_set(m->h, "module::inherited", NULL, NULL);
        flux_handover_destroy(m->inherited);
        m->inherited = NULL;
    }
    if (rc < 0)
        return;
    m->error.text[0] = '\0';
    if (!m->host.starting)
        thread_started(m);
    run_reactor(m);
    m->desc->fini(m->h, m->ctx);
}

void modhost_thread_close(struct module *m)
{
    flux_watcher_destroy(m->w);
    flux_close(m->h);
    flux_reactor_destroy(m->r);
    m->w = NULL;
    m->h = NULL;
    m->r = NULL;
}

static void thread_run(struct module *m)
{
    m->errnum = 0;
    if (!(m->r = flux_reactor_create(false)) ||
        !(m->h = flux_handle_create(&thread_ops, m, m->r, core_rank(m->mh->core),
                                    core_size(m->mh->core), m->seed)) ||
        !(m->w =
              flux_fd_watcher_create(m->r, mailbox_fd(m->inbox), FLUX_POLLIN, thread_inbox_cb, m)))
        thread_fail(m, ENOMEM, "out of memory");
    else if (flux_reactor_before_sleep(m->r, thread_tell, m) < 0)
        thread_fail(m, errno, strerror(errno));
    else
        thread_serve(m);
    modhost_thread_close(m);
}

void *modhost_thread_main(void *arg)
{
    /* The envelope goes out even when the module ends its thread behind our back. */
    pthread_cleanup_push(thread_exit, arg);
    thread_run(arg);
    pthread_cleanup_pop(1);
    return NULL;
}

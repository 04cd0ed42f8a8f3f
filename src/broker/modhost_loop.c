/* modhost_loop.c - modules on the broker's own loop.
 *
 * A request is then a function call away: no thread is woken, and what the module sends goes
 * straight to the core.  The module has a part of the broker's reactor (flux_reactor_create_part),
 * so its timers and files are watched by the same loop.
 *
 * Messages to the module still wait in its mailbox until the broker has read what came in in this
 * pass: clients are served by turns, and the core never calls a module while it is at work itself.
 *
 * Drawing (way): a request to a module on the loop and back: two wake-ups, five system calls.
 *
 *     client                            broker
 *        |                                |
 *        | send                           | (asleep in epoll_wait)
 *        |------------------------------->| wakes up
 *        | recv                           | recv: all that has come
 *        | (asleep)                       |
 *        |                                |---> core: mailbox of the module
 *        |                                |---> module: handler, response
 *        |                                |---> core: output of the client
 *        |                                |
 *        | wakes up                       | send
 *        |<-------------------------------|
 *        |                                | epoll_wait
 *
 * A module is in one of three states:
 *
 *    state      the module's turn (loop_wake)   then (by)
 *    new        init                            running (begin), or over, without fini (end)
 *    running    messages, for one slice         over when it was asked to stop, or has stopped its
 *                                               reactor (end)
 *    over       fini, then EXITED to the host   the module is freed (modhost_exited)
 *
 * Invariants:
 *  1. Code of the module runs only from the loop: in loop_wake() and in callbacks of its watchers.
 *     So the host may free it in loop_wake().
 *  2. A report of the module (ready, refused) reaches the host at the beginning of its next turn,
 *     after the module's code has returned.
 *  3. A module ends once.
 *
 * Failure: as in a thread, except that a module that blocks also blocks the broker, and a module
 * that ends its thread ends the broker.  Hence modules of a site run in threads unless they request
 * the loop.
 */
#include "config.h"
#include <errno.h>
#include <string.h>

#include "libutil/invariant.h"
#include "modhost_private.h"

static int loop_send(void *impl, flux_msg_t *msg)
{
    struct module *m = impl;

    /* See `leaves`; and the host forgets the module after its end. */
    if (m->leaves || m->said_exit) {
        flux_msg_destroy(msg);
        return m->leaves ? 0 : -1;
    }
    m->sent++;
    core_endpoint_input(m->ep, msg);
    return 0;
}

static const struct flux_handle_ops loop_ops = {.send = loop_send};

static void loop_report(struct module *m, enum code code)
{
    if (code == CODE_READY)
        m->ready = true;
    else
        m->refuses = true;
    modhost_wake_later(m);
}

static void loop_took(struct module *m, uint32_t from, unsigned weight)
{
    modhost_taken(m->mh, from, weight);
}

static void stopped(void *arg)
{
    struct module *m = arg;

    m->errnum = errno;
    modhost_wake_later(m);
}

static void turn(void *arg, const char *what, flux_watcher_f cb, double seconds)
{
    modhost_serve_turn(arg, what, NULL, cb, seconds);
}

static const struct flux_reactor_part_ops part_ops = {stopped, turn};

static int loop_start(struct module *m, errmsg_t *err)
{
    modhost_wake_later(m);
    return 0;
}

static bool loop_posted(struct module *m)
{
    return false; /* the others of this pass come first */
}

static int begin(struct module *m)
{
    double start = flux_reactor_clock(core_reactor(m->mh->core));

    if (modhost_serve_open(m, flux_reactor_create_part(core_reactor(m->mh->core), &part_ops, m),
                           &loop_ops) < 0 ||
        modhost_serve_init(m) < 0)
        return -1;
    m->begun = true;
    modhost_serve_turn(m, "init", NULL, NULL, flux_reactor_clock(m->r) - start);
    return 0;
}

static void end(struct module *m)
{
    int rc = 0;

    if (m->begun) {
        (void)flux_reactor_stopped(m->r, &rc);
        errno = m->errnum;
        m->errnum = 0;
        modhost_serve_fini(m, rc);
    }
    modhost_serve_close(m);
    INVARIANT(3, !m->said_exit);
    m->said_exit = true;
    modhost_exited(m);
}

static void report(struct module *m)
{
    if (m->ready) {
        m->ready = false;
        modhost_ready(m);
    }
    if (m->refuses) {
        m->refuses = false;
        modhost_refused(m);
    }
}

static void loop_wake(struct module *m)
{
    if (!m->begun) {
        if (begin(m) < 0)
            end(m);
        else
            modhost_wake_later(m); /* a successor has messages already */
        return;
    }
    report(m);
    if (flux_reactor_stopped(m->r, NULL)) {
        end(m);
        return;
    }
    switch (modhost_serve(m)) {
    case SERVE_STOP:
        end(m);
        break;
    case SERVE_MORE:
        modhost_wake_later(m);
        break;
    case SERVE_IDLE:
    case SERVE_NEVER:
        break;
    }
}

static void loop_join(struct module *m)
{
}

const struct module_place modhost_on_loop = {
    .name = "loop",
    .start = loop_start,
    .posted = loop_posted,
    .wake = loop_wake,
    .took = loop_took,
    .report = loop_report,
    .join = loop_join,
};

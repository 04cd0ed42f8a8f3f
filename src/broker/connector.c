/* connector.c - the local clients of a broker: admission, chores, the end.  connector_client.c
 * handles each connection.
 *
 * Admission: the kernel reports the user of a client (SO_PEERCRED).  The owner of the session and
 * root are admitted; others get an error frame.
 *
 * Invariants:
 *  1. Chores (accepting clients, serving waiting clients, writing to many clients, freeing dead
 *     ones) are done in portions (chores.c).
 *  2. A client and its endpoint end only in deferrals, never inside a call of the core.
 *  3. If accepting fails for lack of descriptors, it is retried when a client has left, or after
 *     RETRY seconds, without a busy loop.
 *
 * Failure: the failure of one client never harms another client, or the broker.
 */
#include "config.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "connector_private.h"
#include "connector_wire.h"
#include "libflux/local_proto.h"

/* Connections that are accepted, and clients that are freed, in one pass.  They are few, since each
 * costs as much as several requests.  More clients may be freed than accepted, and dead ones are
 * freed in larger portions when there are many, so they do not pile up. */
#define ACCEPT_BATCH 4
#define FREE_BATCH 8
#define DEAD_MANY 64 /* from this number on, they are always freed by ordinary portions */
#define RELIEVED 8

/* --- life of a client --- */

/* Wake only a few clients at a time: the first ones may use up the room, and thousands may wait if
 * a process keeps connecting. */
static void relieve(connector_t *cn)
{
    unsigned n = 0;

    cn->relief = false;
    LIST_FOREACH(it, &cn->clients)
    {
        struct client *cl = list_entry(it, struct client, node);

        if (cl->state != CLIENT_OPEN || !cl->paused)
            continue;
        connector_client_update_pause(cl);
        if (!cl->paused && ++n == RELIEVED) {
            cn->relief = true;
            flux_watcher_start(cn->sweep);
            return;
        }
    }
}

/* Write this client's output as a chore?  While the loop hurries, after the first few clients. */
static bool put_off(struct client *cl, unsigned *writes)
{
    connector_t *cn = cl->cn;

    if (cl->urgent || !flux_reactor_hurries(cn->r) || ++*writes <= WRITE_FEW)
        return false;
    list_remove(&cl->dirty_node); /* taking input may have marked it again */
    list_append(&cn->full, &cl->dirty_node);
    cl->put_off = true;
    chores_wake(cn->chores);
    return true;
}

static void later_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    connector_t *cn = arg;
    struct list_node *n;

    if (flux_reactor_deferred(r) > 0) {
        flux_watcher_start(w); /* keeps the loop running */
        return;
    }
    while ((n = list_first(&cn->held))) {
        struct client *cl = list_entry(n, struct client, held);

        list_remove(n);
        if (cl->state != CLIENT_DEAD && list_empty(&cl->dirty_node))
            connector_client_mark(cl);
    }
}

/* After a pass: write queued output, and continue with paused clients. */
static void sweep_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    connector_t *cn = arg;
    unsigned writes = 0;
    struct list_node now;
    struct list_node *n;

    if (cn->relief)
        relieve(cn);
    list_init(&now);
    while ((n = list_first(&cn->dirty))) {
        list_remove(n);
        list_append(&now, n);
    }
    while ((n = list_first(&now))) {
        struct client *cl = list_entry(n, struct client, dirty_node);

        list_remove(n);
        if (connector_client_has_more(cl) && !turns_waits(&cl->turn))
            connector_client_take_input(cl);
        if (cl->state != CLIENT_DEAD && !cl->blocked && outq_bytes(cl->out) > 0 &&
            !put_off(cl, &writes))
            connector_client_flush(cl);
        if (cl->state == CLIENT_CLOSING)
            connector_client_remove_endpoint(cl);
        if (cl->state == CLIENT_DEAD) {
            list_remove(&cl->dirty_node);
            list_append(&cn->dead, &cl->dirty_node);
            cn->ndead++;
            chores_wake(cn->chores);
        }
    }
}

/* --- chores --- */

static void accept_some(connector_t *cn, unsigned left);

/* Discard a portion of the input of a dead client: closing a socket with hundreds of unread
 * messages takes as long as serving dozens of clients.  True if there may be more. */
static bool throw_away(struct client *cl)
{
    if (!cl->shut)
        (void)shutdown(cl->fd, SHUT_RDWR);
    cl->shut = true;
    return recv(cl->fd, cl->cn->scratch, READ_SEVERAL, MSG_DONTWAIT) == READ_SEVERAL;
}

static void free_one(connector_t *cn, bool hurries)
{
    struct client *cl = list_entry(list_first(&cn->dead), struct client, dirty_node);

    connector_client_remove_endpoint(cl);
    if (hurries && throw_away(cl)) {
        list_remove(&cl->dirty_node);
        list_append(&cn->dead, &cl->dirty_node);
        return;
    }
    connector_client_free(cl);
    cn->ndead--;
    cn->stats.clients--;
    if (cn->starved) {
        cn->starved = false;
        listener_start(cn->listener);
    }
}

static bool accept_pending(void *arg)
{
    const connector_t *cn = arg;

    return cn->knocks;
}

static void accept_chore(void *arg, bool hurries)
{
    connector_t *cn = arg;

    cn->knocks = false; /* set again if there are clients left */
    accept_some(cn, hurries ? 1 : ACCEPT_BATCH);
}

static bool serve_pending(void *arg)
{
    const connector_t *cn = arg;

    return turns_pending(cn->turns);
}

static void serve_chore(void *arg, bool hurries)
{
    connector_t *cn = arg;
    bool several = turns_several(cn->turns, flux_reactor_now(cn->r));
    unsigned few = hurries ? TURNS_LEAN : several ? TURNS_FEW : TURNS_MANY;
    struct turn *turn;

    for (unsigned n = 0; n < few && (turn = turns_next(cn->turns)); n++) {
        struct client *cl = list_entry(turn, struct client, turn);

        if (cl->state == CLIENT_OPEN && !cl->paused)
            n += connector_client_read(cl, few - n);
        if (connector_client_has_more(cl))
            turns_wait(cn->turns, turn);
        else if (cl->state != CLIENT_DEAD)
            connector_client_set_events(cl);
    }
}

static bool write_pending(void *arg)
{
    const connector_t *cn = arg;

    return !list_empty(&cn->full);
}

static void write_chore(void *arg, bool hurries)
{
    connector_t *cn = arg;

    for (unsigned n = 0; write_pending(cn) && (!hurries || n < WRITE_FEW); n++) {
        struct client *cl = list_entry(list_first(&cn->full), struct client, dirty_node);

        list_remove(&cl->dirty_node);
        cl->put_off = false;
        if (!cl->blocked)
            connector_client_flush(cl);
    }
}

static bool free_pending(void *arg)
{
    const connector_t *cn = arg;

    return !list_empty(&cn->dead);
}

static void free_chore(void *arg, bool hurries)
{
    connector_t *cn = arg;

    bool small = hurries && cn->ndead <= DEAD_MANY;

    for (unsigned n = small ? 1 : FREE_BATCH; n > 0 && free_pending(cn); n--)
        free_one(cn, small);
}

static const struct chore chores[] = {
    {accept_pending, accept_chore},
    {serve_pending, serve_chore},
    {write_pending, write_chore},
    {free_pending, free_chore},
};

/* A client that has already sent a message does not wait for the greeting (FLUX_O_NOWAIT in
 * libflux/handle.h): it should be woken only once, so the greeting is sent together with the
 * response. */
static int send_hello(struct client *cl)
{
    connector_t *cn = cl->cn;
    const struct local_hello hello = {LOCAL_PROTOCOL, core_rank(cn->core), core_size(cn->core),
                                      cn->life};
    char byte;

    if (!cn->hello && /* the same for all clients */
        !(cn->hello = connector_control(LOCAL_HELLO, &local_hello_schema, &hello)))
        return -1;
    if (recv(cl->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 1)
        return outq_add(cl->out, cn->hello) < 0 ? -1 : (connector_client_hold(cl), 0);
    if (outq_send(cl->out, cl->fd, cn->hello) < 0)
        return -1;
    cl->blocked = outq_bytes(cl->out) > 0;
    return 0;
}

static int admit(struct client *cl, errmsg_t *err)
{
    connector_t *cn = cl->cn;
    struct connector_room room;
    struct ucred cred;
    socklen_t len = sizeof(cred);
    char name[32];

    if (getsockopt(cl->fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) < 0)
        return errmsg_fail(err, errno, "cannot identify the client: %s", strerror(errno));
    cl->pid = cred.pid;
    if (cred.uid != core_userid(cn->core) && cred.uid != 0) {
        errmsg_t why;
        errmsg_fail(&why, EPERM, "this session belongs to user %u: user %u may not use it",
                    core_userid(cn->core), cred.uid);
        cn->stats.refused++;
        core_log(cn->core, LOG_WARNING, "a client was refused: %s", why.text);
        connector_client_close(cl, EPERM, why.text);
        return errmsg_fail(err, EPERM, "%s", why.text);
    }
    room = (struct connector_room){core_rank(cn->core), cn->stats.clients, cl->pid,
                                   turns_clients(cn->turns, cl->pid), cl->fd};
    if (connector_check_room(&cn->limits, &room, err) < 0) {
        int errnum = errno;
        cn->stats.refused++;
        if (!cn->crowded)
            core_log(cn->core, LOG_ERR, "a client was refused: %s", err->text);
        cn->crowded = true;
        connector_client_close(cl, errnum, err->text);
        errno = EPERM; /* the client got an error message */
        return -1;
    }
    cn->crowded = false;
    snprintf(name, sizeof(name), "client-%d", (int)cred.pid);
    if (turns_join(cn->turns, &cl->turn, cl->pid) == 0)
        cl->ep = core_endpoint_add(cn->core, ENDPOINT_CLIENT, name, cred.uid, FLUX_ROLE_OWNER,
                                   &connector_client_ops, cl);
    if (!cl->ep || (cl->pid > 0 && core_endpoint_set_process(cl->ep, (uint32_t)cl->pid) < 0))
        return errmsg_fail(err, ENOMEM, "out of memory for a client");
    if (send_hello(cl) < 0)
        return errmsg_fail(err, errno, "the client has gone away");
    connector_client_set_events(cl);
    connector_client_update_pause(cl);
    return 0;
}

int connector_adopt(connector_t *cn, int fd, errmsg_t *err)
{
    struct client *cl = calloc(1, sizeof(*cl));
    int errnum;

    if (!cl) {
        connector_say_poor(cn, fd);
        close(fd);
        return errmsg_fail(err, ENOMEM, "out of memory for a client");
    }
    cl->cn = cn;
    cl->fd = fd;
    cl->pass = -1.;
    list_init(&cl->node);
    list_init(&cl->dirty_node);
    list_init(&cl->held);
    turns_init(&cl->turn);
    if (!(cl->in = framer_create()) || !(cl->out = outq_create()) ||
        !(cl->io = flux_fd_watcher_create(cn->r, fd, FLUX_POLLIN, connector_client_cb, cl))) {
        errmsg_set(err, "cannot serve a client: %s", strerror(errno));
        if (errno == ENOMEM)
            connector_say_poor(cn, fd);
        connector_client_free(cl);
        return -1;
    }
    framer_set_text_max(cl->in, cn->limits.json_bytes);
    list_append(&cn->clients, &cl->node);
    cn->stats.clients++;
    cn->stats.accepted++;
    flux_watcher_start(cl->io);
    if (admit(cl, err) == 0)
        return 0;
    errnum = errno;
    if (errnum == ENOMEM)
        connector_client_starve(cl, "out of memory for a client");
    else if (cl->state == CLIENT_OPEN)
        connector_client_kill(cl, "the client could not be served");
    errno = errnum;
    return -1;
}

/* --- listening --- */

static void accept_some(connector_t *cn, unsigned left)
{
    while (left-- > 0) {
        int fd = listener_accept(cn->listener);
        errmsg_t err;

        if (fd < 0) {
            if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) {
                if (!cn->starved_logged)
                    core_log(cn->core, LOG_ERR,
                             "no more clients can be served (%s): raise the limit "
                             "on open files, or close connections",
                             strerror(errno));
                cn->starved = cn->starved_logged = true;
                listener_stop(cn->listener);
                flux_timer_start(cn->retry, RETRY, 0.);
            }
            return;
        }
        cn->starved_logged = false;
        if (connector_adopt(cn, fd, &err) < 0 && errno != EPERM && errno != EPIPE)
            core_log(cn->core, LOG_ERR, "a client was not served: %s", err.text);
    }
}

static void accept_cb(void *arg)
{
    connector_t *cn = arg;

    cn->knocks = true;
    chores_wake(cn->chores);
}

/* A client with thousands of requests that stay unanswered for long (because it watches many keys)
 * is read occasionally, because it may want to cancel some.  The core has a bound of its own.
 */
static void retry_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    connector_t *cn = arg;
    const struct connector_limits *lim = &cn->limits;
    bool again = false;

    if (cn->starved) {
        listener_start(cn->listener);
        cn->starved = false;
    }
    LIST_FOREACH(it, &cn->clients)
    {
        struct client *cl = list_entry(it, struct client, node);
        if (cl->state != CLIENT_OPEN || !cl->paused)
            continue;
        again = true;
        if (outq_bytes(cl->out) > lim->pause_bytes / 2 ||
            outq_messages(cl->out) > lim->pause_messages / 2 || core_endpoint_congested(cl->ep))
            continue;
        cl->paused = false;
        cl->grace = true;
        connector_client_set_events(cl);
        if (framer_pending(cl->in))
            connector_client_mark(cl);
    }
    if (again)
        flux_timer_start(cn->retry, RETRY, 0.);
}

/* Neighbors or modules accept requests again: continue with the paused clients after this pass. */
static void relief_cb(void *arg)
{
    connector_t *cn = arg;

    cn->relief = true;
    flux_watcher_start(cn->sweep);
}

int connector_relisten(connector_t *cn, errmsg_t *err)
{
    uint64_t accepted;

    if (!cn->listener || listener_has_name(cn->listener))
        return 0;
    /* Accept the clients that connected before the name was removed. */
    do {
        accepted = cn->stats.accepted;
        accept_some(cn, ACCEPT_BATCH);
    } while (cn->stats.accepted != accepted && !cn->starved);
    return listener_renew(cn->listener, err) < 0 ? -1 : 1;
}

connector_t *connector_create(core_t *core, const char *path, const struct connector_limits *limits,
                              errmsg_t *err)
{
    connector_t *cn = calloc(1, sizeof(*cn));
    errmsg_t poor;

    if (!cn) {
        errmsg_set(err, "out of memory for the local connector");
        return NULL;
    }
    cn->core = core;
    cn->r = core_reactor(core);
    list_init(&cn->clients);
    list_init(&cn->dirty);
    list_init(&cn->dead);
    list_init(&cn->full);
    list_init(&cn->held);
    cn->limits = *limits;
    cn->life = flux_random(core_handle(core)) >> 1;
    connector_no_memory(cn, &poor);
    if (!(cn->turns = turns_create()) || !(cn->scratch = malloc(SCRATCH_SIZE)) ||
        !(cn->poor = connector_control(LOCAL_ERROR, &local_error_schema,
                                       &(struct local_error){ENOMEM, poor.text})) ||
        !(cn->sweep = flux_defer_create(cn->r, sweep_cb, cn)) ||
        !(cn->later = flux_defer_create(cn->r, later_cb, cn)) ||
        !(cn->chores = chores_create(cn->r, chores, sizeof(chores) / sizeof(chores[0]), cn)) ||
        !(cn->retry = flux_timer_create(cn->r, retry_cb, cn))) {
        errmsg_set(err, "cannot create the local connector: %s", strerror(errno));
        goto error;
    }
    if (path && !(cn->listener = listener_create(core, path, accept_cb, cn, err)))
        goto error;
    core_on_relief(core, relief_cb, cn);
    return cn;
error:
    connector_destroy(cn);
    return NULL;
}

void connector_ending(connector_t *cn)
{
    flux_msg_t *msg = flux_msg_create(FLUX_MSG_CONTROL, LOCAL_ENDING);

    LIST_FOREACH(it, &cn->clients)
    {
        struct client *cl = list_entry(it, struct client, node);

        if (msg && cl->state == CLIENT_OPEN && outq_add(cl->out, msg) == 0)
            connector_client_mark(cl);
    }
    flux_msg_destroy(msg);
}

void connector_destroy(connector_t *cn)
{
    if (cn) {
        int saved = errno;
        struct list_node *n;

        core_on_relief(cn->core, NULL, NULL);
        flux_watcher_destroy(cn->retry);
        /* Try once more to write queued output. */
        LIST_FOREACH(it, &cn->clients)
        {
            struct client *cl = list_entry(it, struct client, node);
            if (cl->state != CLIENT_DEAD)
                (void)outq_flush(cl->out, cl->fd);
        }
        LIST_FOREACH_SAFE(it, tmp, &cn->clients)
        {
            connector_client_kill(list_entry(it, struct client, node),
                                  "the broker is shutting down");
        }
        LIST_FOREACH(it, &cn->clients)
        {
            connector_client_remove_endpoint(list_entry(it, struct client, node));
        }
        while ((n = list_first(&cn->clients)))
            connector_client_free(list_entry(n, struct client, node));
        flux_watcher_destroy(cn->sweep);
        flux_watcher_destroy(cn->later);
        chores_destroy(cn->chores);
        listener_destroy(cn->listener);
        turns_destroy(cn->turns);
        flux_msg_destroy(cn->hello);
        flux_msg_destroy(cn->poor);
        free(cn->scratch);
        free(cn);
        errno = saved;
    }
}

void connector_get_stats(const connector_t *cn, struct connector_stats *st)
{
    *st = cn->stats;
    st->queued = st->reading = 0;
    LIST_FOREACH(it, &cn->clients)
    {
        const struct client *cl = list_entry(it, struct client, node);

        st->queued += outq_bytes(cl->out);
        st->reading += framer_memory(cl->in);
    }
}

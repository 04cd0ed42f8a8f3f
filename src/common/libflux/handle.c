/* handle.c - a program's or module's end of its connection to the broker.
 *
 * A handle combines a transport (flux_handle_ops), a reactor, the table of pending requests
 * (pending.c), and the table of handlers (dispatch.c).  An incoming message goes to one of these
 * tables.
 *
 * Invariants:
 *  1. A message given to flux_send() or flux_handle_deliver() is freed exactly once, by them.
 *  2. After flux_handle_lost() all pending requests were answered with EPIPE, new ones are answered
 *     with it at once, and the lost handler was called once.
 *  3. The handle's random numbers depend on its seed only.
 *  4. The size is 0 until the broker has greeted a handle with FLUX_O_NOWAIT, and rank and size are
 *     known from then on.
 *  5. Between flux_handle_away() and flux_handle_back() nothing is given to the transport.
 *
 * Failure: flux_open() returns NULL with errno and an error message, and leaves nothing open.
 */
#include "config.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "conn_local.h"
#include "handle_private.h"

struct aux {
    struct list_node node;
    char *name;
    void *val;
    void (*free_fn)(void *);
};

struct flux_handle {
    const struct flux_handle_ops *ops;
    void *impl;
    flux_reactor_t *r;
    bool own_reactor;
    uint32_t rank;
    uint32_t size;
    uint64_t rng;
    struct dispatch *dispatch;
    struct pending_table *pending;
    struct list_node aux;
    struct renew *renew; /* FLUX_O_RECONNECT; else NULL */
    bool away;
    bool lost;
    char *refused; /* the reason why the broker did not greet it; the futures refer to this text */
    flux_lost_f lost_cb;
    void *lost_arg;
    flux_back_f back_cb;
    void *back_arg;
    flux_away_f away_cb;
    void *away_arg;
};

flux_t *flux_handle_create(const struct flux_handle_ops *ops, void *impl, flux_reactor_t *r,
                           uint32_t rank, uint32_t size, uint64_t seed)
{
    flux_t *h = calloc(1, sizeof(*h));

    if (!h)
        return NULL;
    list_init(&h->aux);
    h->ops = ops;
    h->impl = impl;
    h->r = r;
    h->rank = rank;
    h->size = size;
    h->rng = seed;
    if (!(h->dispatch = dispatch_create()) || !(h->pending = pending_table_create())) {
        h->ops = NULL; /* the transport still belongs to the caller */
        flux_close(h);
        errno = ENOMEM;
        return NULL;
    }
    return h;
}

const char *flux_default_uri(void)
{
    const char *uri = getenv("FLUX_URI");

    if (!uri && access(FLUX_SYSTEM_SOCKET, F_OK) == 0)
        uri = "local://" FLUX_SYSTEM_SOCKET;
    return uri;
}

flux_t *flux_open(const char *uri, flux_reactor_t *r, errmsg_t *err)
{
    return flux_open_flags(uri, r, 0, err);
}

flux_t *flux_open_flags(const char *uri, flux_reactor_t *r, unsigned flags, errmsg_t *err)
{
    flux_reactor_t *own = NULL;
    flux_t *h;

    if (flags & ~(FLUX_O_RECONNECT | FLUX_O_NOWAIT)) {
        errmsg_fail(err, EINVAL, "a handle cannot be opened with the flags %#x", flags);
        return NULL;
    }
    if (!uri && !(uri = flux_default_uri())) {
        errmsg_fail(err, ENOENT,
                    "not inside a session: FLUX_URI is not set, and there is no system session at "
                    "%s; try 'flux start'",
                    FLUX_SYSTEM_SOCKET);
        return NULL;
    }
    if (!r && !(own = r = flux_reactor_create(false))) {
        errmsg_set(err, "cannot create an event loop: %s", strerror(errno));
        return NULL;
    }
    if (!(h = flux_local_open(uri, r, flags, err))) {
        flux_reactor_destroy(own);
        return NULL;
    }
    h->own_reactor = own != NULL;
    if ((flags & FLUX_O_RECONNECT) && !(h->renew = renew_create())) {
        errmsg_set(err, "out of memory for a connection");
        flux_close(h);
        errno = ENOMEM;
        return NULL;
    }
    return h;
}

void flux_close(flux_t *h)
{
    if (h) {
        int saved = errno;
        LIST_FOREACH_SAFE(it, tmp, &h->aux)
        {
            struct aux *a = list_entry(it, struct aux, node);
            list_remove(&a->node);
            if (a->free_fn)
                a->free_fn(a->val);
            free(a->name);
            free(a);
        }
        pending_table_destroy(h->pending);
        dispatch_destroy(h->dispatch);
        renew_destroy(h->renew);
        if (h->ops && h->ops->destroy)
            h->ops->destroy(h->impl);
        if (h->own_reactor)
            flux_reactor_destroy(h->r);
        free(h->refused);
        free(h);
        errno = saved;
    }
}

flux_reactor_t *flux_get_reactor(flux_t *h)
{
    return h->r;
}

double flux_now(flux_t *h)
{
    return flux_reactor_now(h->r);
}

double flux_wall(flux_t *h)
{
    return flux_reactor_wall(h->r);
}

/* splitmix64: one addition and three xor-shift-multiply steps; full period over the 64-bit
 * state. */
uint64_t flux_random(flux_t *h)
{
    uint64_t z = (h->rng += 0x9e3779b97f4a7c15u);

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* Wait for the greeting, in a handle with FLUX_O_NOWAIT. */
static void await_greeting(flux_t *h)
{
    while (h->size == 0 && flux_handle_wait(h, -1.) == 0)
        ;
}

uint32_t flux_rank(flux_t *h)
{
    if (h->size == 0)
        await_greeting(h);
    return h->rank;
}

uint32_t flux_size(flux_t *h)
{
    if (h->size == 0)
        await_greeting(h);
    return h->size;
}

bool flux_is_root(flux_t *h)
{
    return flux_rank(h) == FLUX_NODEID_ROOT;
}

int flux_send(flux_t *h, flux_msg_t *msg)
{
    if (h->lost) {
        flux_msg_destroy(msg);
        errno = EPIPE;
        return -1;
    }
    if (h->away) {
        flux_msg_destroy(msg);
        errno = ECONNRESET;
        return -1;
    }
    return h->ops->send(h->impl, msg);
}

int flux_run(flux_t *h)
{
    int rc = 0;

    /* The connection was lost earlier, during a wait for a future: no event would stop the
     * reactor. */
    if (!h->lost || h->lost_cb)
        rc = flux_reactor_run(h->r);
    if (h->lost && !h->lost_cb) {
        errno = EPIPE;
        return -1;
    }
    return rc;
}

void flux_set_lost_handler(flux_t *h, flux_lost_f cb, void *arg)
{
    h->lost_cb = cb;
    h->lost_arg = arg;
}

static struct aux *aux_find(flux_t *h, const char *name)
{
    LIST_FOREACH(it, &h->aux)
    {
        struct aux *a = list_entry(it, struct aux, node);
        if (strcmp(a->name, name) == 0)
            return a;
    }
    return NULL;
}

int flux_aux_set(flux_t *h, const char *name, void *val, void (*free_fn)(void *))
{
    struct aux *a = aux_find(h, name);

    if (a) {
        if (a->free_fn)
            a->free_fn(a->val);
    } else {
        if (!(a = calloc(1, sizeof(*a))) || !(a->name = strdup(name))) {
            free(a);
            errno = ENOMEM;
            return -1;
        }
        list_push(&h->aux, &a->node);
    }
    a->val = val;
    a->free_fn = free_fn;
    return 0;
}

void *flux_aux_get(flux_t *h, const char *name)
{
    struct aux *a = aux_find(h, name);

    return a ? a->val : NULL;
}

void flux_handle_deliver(flux_t *h, flux_msg_t *msg)
{
    if (h->lost) {
        flux_msg_destroy(msg);
        return;
    }
    switch (flux_msg_type(msg)) {
    case FLUX_MSG_RESPONSE:
        pending_deliver(h->pending, msg);
        return;
    case FLUX_MSG_REQUEST:
    case FLUX_MSG_EVENT:
        dispatch_deliver(h->dispatch, h, msg);
        break;
    case FLUX_MSG_CONTROL: /* the transport handles these itself */
        break;
    }
    flux_msg_destroy(msg);
}

void flux_handle_lost(flux_t *h, const char *why)
{
    if (h->lost)
        return;
    h->lost = true;
    h->away = false;
    if (h->size == 0)
        h->refused = strdup(why);
    pending_fail_all(h->pending, EPIPE,
                     h->refused ? h->refused : "the connection to the broker was lost");
    if (h->lost_cb)
        h->lost_cb(h, h->lost_arg);
    else
        flux_reactor_stop(h->r, -1);
}

void flux_set_back_handler(flux_t *h, flux_back_f cb, void *arg)
{
    h->back_cb = cb;
    h->back_arg = arg;
}

void flux_set_away_handler(flux_t *h, flux_away_f cb, void *arg)
{
    h->away_cb = cb;
    h->away_arg = arg;
}

void flux_handle_greeted(flux_t *h, uint32_t rank, uint32_t size)
{
    h->rank = rank;
    h->size = size;
}

void flux_handle_away(flux_t *h)
{
    if (h->lost)
        return;
    h->away = true;
    pending_away(h->pending);
    if (h->away_cb)
        h->away_cb(h, h->away_arg);
}

void flux_handle_back(flux_t *h, uint32_t size)
{
    if (h->lost)
        return;
    h->away = false;
    h->size = size;
    renew_take(h->renew);
    if (h->back_cb)
        h->back_cb(h, h->back_arg);
    renew_subscribe(h->renew, h);
    pending_back(h->pending);
}

void *flux_handle_impl(flux_t *h)
{
    return h->impl;
}

struct dispatch *flux_handle_dispatch(flux_t *h)
{
    return h->dispatch;
}

struct pending_table *flux_handle_pending(flux_t *h)
{
    return h->pending;
}

bool flux_handle_is_lost(flux_t *h)
{
    return h->lost;
}

bool flux_handle_is_away(flux_t *h)
{
    return h->away;
}

struct renew *flux_handle_renew(flux_t *h)
{
    return h->renew;
}

int flux_handle_wait(flux_t *h, double timeout)
{
    if (h->lost) {
        errno = EPIPE;
        return -1;
    }
    if (!h->ops->wait) {
        errno = EDEADLK;
        return -1;
    }
    return h->ops->wait(h->impl, timeout);
}

int flux_handle_pollfd(flux_t *h, int *events)
{
    if (h->lost) {
        errno = EPIPE;
        return -1;
    }
    if (!h->ops->pollfd) {
        errno = ENOTSUP;
        return -1;
    }
    return h->ops->pollfd(h->impl, events);
}

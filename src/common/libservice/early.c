/* early.c - requests that wait until a module is ready.
 *
 * Invariants:
 *  1. `count` is the number of requests in the list, and at most `max`; their payloads have at most
 *     BYTES_MAX bytes together.
 *  2. Requests are served in the order in which they came.  One that is queued while others are
 *     served waits for the next time.
 *  3. A request whose client has disconnected is answered with an error and not served.  One that
 *     expects no response is served nevertheless: it is complete without its client.
 *
 * Failure: a request that cannot be queued is answered with an error.
 */
#include "config.h"
#include <errno.h>
#include <stdlib.h>

#include "early.h"
#include "libutil/invariant.h"
#include "libutil/list.h"

#define BYTES_MAX (256u << 20)

struct early {
    flux_t *h;
    struct claims *claims;
    size_t max;
    size_t count, bytes;
    struct list_node list;
};

struct waiting {
    struct list_node node;
    struct claim claim;
    early_t *e;
    flux_msg_t *req;
    flux_handler_f cb;
    void *arg;
};

early_t *early_create(flux_t *h, struct claims *claims, size_t max)
{
    early_t *e = calloc(1, sizeof(*e));

    if (!e)
        return NULL;
    e->h = h;
    e->claims = claims;
    e->max = max;
    list_init(&e->list);
    return e;
}

static size_t payload_size(const flux_msg_t *req)
{
    size_t len;

    return flux_msg_payload(req, &len) ? len : 0;
}

/* Take the first request out.  NULL: there is none. */
static flux_msg_t *take(early_t *e, flux_handler_f *cb, void **arg)
{
    struct list_node *n = list_first(&e->list);
    struct waiting *w;
    flux_msg_t *req;

    if (!n)
        return NULL;
    w = list_entry(n, struct waiting, node);
    INVARIANT(1, e->count > 0);
    list_remove(n);
    if (e->claims)
        claim_drop(e->claims, &w->claim);
    req = w->req;
    *cb = w->cb;
    *arg = w->arg;
    e->count--;
    e->bytes -= payload_size(req);
    free(w);
    return req;
}

void early_destroy(early_t *e)
{
    int saved = errno;
    flux_handler_f cb;
    flux_msg_t *req;
    void *arg;

    if (!e)
        return;
    while ((req = take(e, &cb, &arg)))
        flux_msg_destroy(req);
    INVARIANT(1, e->count == 0 && e->bytes == 0);
    free(e);
    errno = saved;
}

static void gone(struct claim *c, bool canceled)
{
    struct waiting *w = list_entry(c, struct waiting, claim);
    early_t *e = w->e;

    if (flux_msg_has_flag(w->req, FLUX_MSGF_NORESPONSE))
        return;
    flux_respond_error(e->h, w->req, ENODATA, "the request %s", claim_gone_why(canceled));
    list_remove(&w->node);
    e->count--;
    e->bytes -= payload_size(w->req);
    flux_msg_destroy(w->req);
    free(w);
}

bool early_put(early_t *e, const flux_msg_t *req, flux_handler_f cb, void *arg)
{
    size_t bytes = payload_size(req);
    struct waiting *w;

    if (e->count >= e->max || e->bytes + bytes > BYTES_MAX) {
        flux_respond_error(e->h, req, EAGAIN,
                           "%s: rank %u is not ready, and cannot keep more requests: try again "
                           "later",
                           flux_msg_topic(req), flux_rank(e->h));
        return false;
    }
    if (!(w = calloc(1, sizeof(*w))) ||
        (e->claims && claim_take(e->claims, &w->claim, req, gone) < 0)) {
        free(w);
        flux_respond_error(e->h, req, ENOMEM, "%s: out of memory at rank %u", flux_msg_topic(req),
                           flux_rank(e->h));
        return false;
    }
    w->e = e;
    w->req = flux_msg_incref(req);
    w->cb = cb;
    w->arg = arg;
    list_append(&e->list, &w->node);
    e->count++;
    e->bytes += bytes;
    INVARIANT(1, e->count <= e->max);
    return true;
}

void early_serve(early_t *e)
{
    flux_handler_f cb;
    flux_msg_t *req;
    void *arg;

    for (size_t n = e->count; n > 0 && (req = take(e, &cb, &arg)); n--) {
        cb(e->h, req, arg);
        flux_msg_destroy(req);
    }
}

void early_fail(early_t *e, int errnum, const char *error)
{
    flux_handler_f cb;
    flux_msg_t *req;
    void *arg;

    while ((req = take(e, &cb, &arg))) {
        flux_respond_error(e->h, req, errnum, "%s", error);
        flux_msg_destroy(req);
    }
}

size_t early_count(const early_t *e)
{
    return e->count;
}

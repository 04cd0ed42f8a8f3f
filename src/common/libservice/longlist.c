/* longlist.c - long lists in pages.
 *
 * Objects are in one list, in the order in which they were added; each has a number.  A pending
 * request has a place in the same list, behind the last object that its pages have included, so it
 * need not be updated when objects are added or removed.  Each pass of the reactor makes one page
 * for each request in turn, until its slice is over.  A request without the streaming flag gets all
 * objects in one response, which grows from pass to pass; it is completed before the next request
 * has its turn, so there is one such response at a time.
 *
 * Invariants:
 *  1. The numbers of objects in the list ascend, and are not 0.
 *  2. At most REQUESTS_MAX requests are pending.
 *  3. Each request is answered once: by at least one page and ENODATA, by one response, or by an
 *     error.  A request whose sender has disconnected gets no response.
 *  4. A pass visits at least STRIDE places, and ends at the first reading of the clock after its
 *     slice.
 *
 * Failure: if memory for a page is short, the request ends with ENOMEM.
 */
#include "config.h"
#include <errno.h>
#include <stdlib.h>

#include "libflux/dispatch.h"
#include "libflux/slice.h"
#include "libschema/jsonout.h"
#include "longlist.h"

#define PAGE_BYTES (256 * 1024)
#define REQUESTS_MAX 256
#define STRIDE 8 /* places between two readings of the clock */

struct longlist {
    flux_t *h;
    struct claims *senders;
    const char *array;
    longlist_put_f put;
    flux_watcher_t *defer;
    struct list_node things;
    struct list_node requests; /* struct asked */
    unsigned nrequests;
    uint64_t last; /* number */
};

struct asked {
    struct list_node node;
    struct longlist_place place;
    struct claim claim;
    struct longlist *l;
    flux_msg_t *req;
    uint64_t until; /* number of the last object in its list */
    bool answered;
    bool one;     /* all objects in one response */
    strbuf_t *sb; /* that response as far as it is made, or NULL */
};

static void asked_free(struct asked *a)
{
    claim_drop(a->l->senders, &a->claim);
    list_remove(&a->node);
    list_remove(&a->place.node);
    a->l->nrequests--;
    strbuf_destroy(a->sb);
    flux_msg_destroy(a->req);
    free(a);
}

static void gone(struct claim *c, bool canceled)
{
    struct asked *a = list_entry(c, struct asked, claim);

    if (canceled)
        flux_respond_error(a->l->h, a->req, ENODATA, "canceled");
    asked_free(a);
}

/* The next object for this request; NULL: there are no more. */
static struct longlist_place *next(struct asked *a)
{
    struct list_node *n = a->place.node.next;
    struct longlist_place *p;

    if (n == &a->l->things)
        return NULL;
    p = list_entry(n, struct longlist_place, node);
    if (p->number > a->until)
        return NULL;
    list_remove(&a->place.node);
    list_push(n, &a->place.node);
    return p;
}

/* Append objects for this request until the slice is over or the page is full.  True: there are
 * more. */
static bool fill(struct asked *a, strbuf_t *sb, struct flux_slice *slice)
{
    struct longlist_place *p = NULL;
    unsigned steps = 0;

    while ((++steps % STRIDE != 0 || flux_slice_more(slice)) &&
           (a->one || strbuf_len(sb) < PAGE_BYTES)) {
        if (!(p = next(a)))
            return false;
        if (p->number)
            a->l->put(sb, p, a->req);
    }
    return true;
}

/* Send the text of `sb`, which is taken over.  -1 with ENOMEM. */
static int send(struct asked *a, strbuf_t *sb)
{
    char *json;

    jsonout_array_end(sb);
    jsonout_object_end(sb);
    if (!(json = strbuf_take(sb)))
        return -1;
    if (a->one)
        flux_respond(a->l->h, a->req, json);
    else
        flux_respond_more(a->l->h, a->req, json);
    free(json);
    a->answered = true;
    return 0;
}

/* Make one page, or a part of the single response, or the end.  True: there is more. */
static bool page(struct asked *a, struct flux_slice *slice)
{
    struct longlist *l = a->l;
    strbuf_t *sb = a->sb;
    size_t empty;
    bool more;

    a->sb = NULL;
    if (!sb) {
        sb = strbuf_create(0);
        jsonout_object(sb, NULL);
        jsonout_array(sb, l->array);
    }
    empty = strbuf_len(sb);
    more = fill(a, sb, slice);
    if (a->one && more && sb) {
        a->sb = sb;
        return true;
    }
    if (!a->one && strbuf_len(sb) == empty && (more || a->answered)) {
        strbuf_destroy(sb);
    } else if (send(a, sb) < 0) {
        flux_respond_error(l->h, a->req, ENOMEM, "%s: rank %u is out of memory for a list",
                           flux_msg_topic(a->req), flux_rank(l->h));
        asked_free(a);
        return false;
    }
    if (more)
        return true;
    if (!a->one)
        flux_respond_error(l->h, a->req, ENODATA, "that is all");
    asked_free(a);
    return false;
}

static void defer_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    struct longlist *l = arg;
    struct flux_slice slice;
    struct asked *a;
    bool more = false;

    flux_slice_begin(&slice, r, FLUX_SLICE_SECONDS, FLUX_SLICE_THINGS);
    for (unsigned n = l->nrequests; n > 0; n--) {
        struct list_node *it = list_first(&l->requests);

        if (!flux_slice_more(&slice)) {
            more = true;
            break;
        }
        a = list_entry(it, struct asked, node);
        if (!page(a, &slice))
            continue;
        more = true;
        if (a->one)
            break;
        list_remove(it);
        list_append(&l->requests, it);
    }
    if (more)
        flux_watcher_start(l->defer);
}

void longlist_add(longlist_t *l, struct longlist_place *p)
{
    p->number = ++l->last;
    list_append(&l->things, &p->node);
}

void longlist_remove(struct longlist_place *p)
{
    if (p->number)
        list_remove(&p->node);
    p->number = 0;
}

void longlist_answer(longlist_t *l, const flux_msg_t *req)
{
    const char *topic = flux_msg_topic(req);
    struct asked *a;

    if (l->nrequests >= REQUESTS_MAX) {
        flux_respond_error(l->h, req, EAGAIN, "%s: %d lists are being made already: try again",
                           topic, REQUESTS_MAX);
        return;
    }
    if (!(a = calloc(1, sizeof(*a))) || claim_take(l->senders, &a->claim, req, gone) < 0) {
        flux_respond_error(l->h, req, ENOMEM, "%s: rank %u is out of memory for a list", topic,
                           flux_rank(l->h));
        free(a);
        return;
    }
    a->l = l;
    a->req = flux_msg_incref(req);
    a->until = l->last;
    a->one = !flux_msg_has_flag(req, FLUX_MSGF_STREAMING);
    list_push(&l->things, &a->place.node);
    list_append(&l->requests, &a->node);
    l->nrequests++;
    flux_watcher_start(l->defer);
}

longlist_t *longlist_create(flux_t *h, struct claims *senders, const char *array,
                            longlist_put_f put)
{
    longlist_t *l = calloc(1, sizeof(*l));

    if (!l)
        return NULL;
    *l = (longlist_t){.h = h, .senders = senders, .array = array, .put = put};
    list_init(&l->things);
    list_init(&l->requests);
    if (!(l->defer = flux_defer_create(flux_get_reactor(h), defer_cb, l))) {
        free(l);
        errno = ENOMEM;
        return NULL;
    }
    return l;
}

void longlist_destroy(longlist_t *l)
{
    int saved = errno;
    struct list_node *n;

    if (!l)
        return;
    while ((n = list_first(&l->requests)))
        asked_free(list_entry(n, struct asked, node));
    flux_watcher_destroy(l->defer);
    free(l);
    errno = saved;
}

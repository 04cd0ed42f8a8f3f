/* link_patience.c - the time that a connection from an address may take until its peer is
 * identified.
 *
 *    entry of an address           created or changed by         limit of its next connection
 *    none                          -                             first
 *    limit                         a connection that timed out   min(2 * its limit, most)
 *    known until a time            a neighbor proved its key     most, until that time
 *
 * Invariants:
 *  1. Limits are between `first` and `most`.
 *  2. Connections that had the same limit, and timed out together, raise it once.
 *  3. There are at most HOSTS_MAX entries: a new one replaces the entry with the oldest change.  An
 *     entry is forgotten FORGET_AFTER seconds after its last change.
 *
 * Failure: without memory for an entry its address keeps `first`.
 */
#include "link_patience.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "libutil/hmap.h"
#include "libutil/list.h"

#define HOSTS_MAX 1024
#define FORGET_AFTER 600.

struct host {
    struct list_node node; /* in link_patience.order */
    double limit;
    double known_until; /* 0: no neighbor has proved its key there */
    double changed;
    char name[];
};

struct link_patience {
    double first, most;
    hmap_t *hosts;
    struct list_node order; /* the entry with the oldest change first */
};

link_patience_t *link_patience_create(double first, double most)
{
    link_patience_t *p = calloc(1, sizeof(*p));

    if (!p)
        return NULL;
    p->first = first;
    p->most = most;
    list_init(&p->order);
    if (!(p->hosts = hmap_create_str(free))) {
        free(p);
        errno = ENOMEM;
        return NULL;
    }
    return p;
}

void link_patience_destroy(link_patience_t *p)
{
    int saved = errno;

    if (!p)
        return;
    hmap_destroy(p->hosts);
    free(p);
    errno = saved;
}

static void forget(link_patience_t *p, struct host *h)
{
    list_remove(&h->node);
    free(hmap_take(p->hosts, h->name));
}

/* Return the entry of `host`, created if necessary, with the time of its change set to now.
 * Returns NULL with ENOMEM. */
static struct host *change(link_patience_t *p, const char *host, double now)
{
    struct host *h = hmap_get(p->hosts, host);
    size_t len = strlen(host) + 1;

    if (!h) {
        if (hmap_count(p->hosts) >= HOSTS_MAX)
            forget(p, list_entry(list_first(&p->order), struct host, node));
        if (!(h = calloc(1, sizeof(*h) + len)))
            return NULL;
        memcpy(h->name, host, len);
        list_init(&h->node);
        h->limit = p->first;
        if (hmap_put(p->hosts, h->name, h) < 0) {
            free(h);
            return NULL;
        }
    }
    list_remove(&h->node);
    list_append(&p->order, &h->node);
    h->changed = now;
    return h;
}

double link_patience_limit(link_patience_t *p, const char *host, double now)
{
    struct host *h = hmap_get(p->hosts, host);

    if (!h)
        return p->first;
    if (now - h->changed > FORGET_AFTER) {
        forget(p, h);
        return p->first;
    }
    return now < h->known_until ? p->most : h->limit;
}

void link_patience_over(link_patience_t *p, const char *host, double limit, double now)
{
    struct host *h = change(p, host, now);

    if (h && 2 * limit > h->limit)
        h->limit = 2 * limit < p->most ? 2 * limit : p->most;
}

void link_patience_known(link_patience_t *p, const char *host, double now)
{
    struct host *h = change(p, host, now);

    if (h)
        h->known_until = now + p->most;
}

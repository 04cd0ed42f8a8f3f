/* km_cache.c - the size and age of the caches of an instance.
 *
 * Purpose: the attribute content.cache-limit bounds the caches of all namespaces of an instance
 * together.  Each namespace may use the whole of this memory as long as there is room.  When there
 * is no room, a namespace that does work drops the excess over its fair share, and a timer does the
 * same for the other namespaces soon afterwards.  Objects that were not used for content.expire
 * (default 5 minutes; "inf": never) are dropped in any case.
 *
 *    kvs.dropcache  {"namespace"}, or nothing  -> {"dropped"}: drop the objects that can be loaded
 *                   again; answered when all objects that were cached at its arrival are dropped,
 *                   slice by slice
 *
 * Invariants:
 *  1. km_caches.bytes is the sum of all km_cache.cached, which are updated when a namespace does
 *     work.
 *  2. Objects in use are not dropped.
 *
 * Failure: kvs.dropcache without memory is answered with ENOMEM.
 */
#include "config.h"
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "km_private.h"
#include "libflux/slice.h"

#define PIECE 64          /* objects between two readings of the clock */
#define PERIOD_MAX 16.    /* seconds: a multiple of the usual hb.period */
#define SHARE_SECONDS 0.5 /* until all namespaces are brought to their share */

struct km_caches {
    size_t bytes;          /* of cached objects that are not in use, in all namespaces */
    flux_watcher_t *share; /* timer: bring all namespaces down to their fair share */
};

struct km_cache {
    struct list_node drops; /* kvs.dropcache */
    size_t cached;          /* the share of this namespace in km_caches.bytes */
    bool stale;             /* there may be objects that were not used since `stale_before` */
    uint32_t stale_before;
};

static size_t cached(const struct km_ns *ns)
{
    struct content_stats st;

    content_get_stats(ns->content, &st);
    return st.free_bytes;
}

static void count(struct km_ns *ns)
{
    size_t now = cached(ns);

    ns->k->caches->bytes += now - ns->cache->cached;
    ns->cache->cached = now;
}

/* Bring the cache of a namespace down to `bytes`. */
static void shrink(struct km_ns *ns, size_t bytes)
{
    content_set_limit(ns->content, bytes);
    content_trim(ns->content);
    content_set_limit(ns->content, ns->k->cache_limit);
    count(ns);
}

/* Drop objects that are too old, in pieces, for a slice of time. */
static void expire(struct km_ns *ns)
{
    struct flux_slice s;

    if (!ns->cache->stale || km_commit_open(ns))
        return;
    flux_slice_begin(&s, flux_get_reactor(ns->h), FLUX_SLICE_SECONDS, FLUX_SLICE_THINGS);
    while (ns->cache->stale && flux_slice_more(&s))
        ns->cache->stale = content_expire(ns->content, ns->cache->stale_before, PIECE) == PIECE;
    if (ns->cache->stale)
        km_ns_poke(ns);
}

/* --- kvs.dropcache --- */

struct drop {
    struct list_node node; /* in km_cache.drops */
    struct claim claim;
    struct km_ns *ns;
    flux_msg_t *req;
    size_t left; /* objects to consider: at first, all that were cached at its arrival */
    size_t dropped;
};

static void drop_free(struct drop *d)
{
    list_remove(&d->node);
    claim_drop(d->ns->k->senders, &d->claim);
    flux_msg_destroy(d->req);
    free(d);
}

static void drop_gone(struct claim *c, bool canceled)
{
    struct drop *d = list_entry(c, struct drop, claim);

    flux_respond_error(d->ns->h, d->req, ENODATA, "the request %s", claim_gone_why(canceled));
    drop_free(d);
}

/* Drop objects for a slice of time.  Is the request done? */
static bool drop_some(struct drop *d, struct flux_slice *s)
{
    while (d->left > 0 && flux_slice_more(s)) {
        size_t want = d->left < PIECE ? d->left : PIECE;
        size_t n = content_drop(d->ns->content, want);

        d->dropped += n;
        d->left = n < want ? 0 : d->left - n;
    }
    return d->left == 0;
}

static void drop_work(struct km_ns *ns)
{
    struct flux_slice s;
    struct list_node *n;

    if (list_empty(&ns->cache->drops) || km_commit_open(ns))
        return; /* nothing can be dropped before the root change ends; then work goes on */
    flux_slice_begin(&s, flux_get_reactor(ns->h), FLUX_SLICE_SECONDS, FLUX_SLICE_THINGS);
    while ((n = list_first(&ns->cache->drops))) {
        struct drop *d = list_entry(n, struct drop, node);

        if (!drop_some(d, &s)) {
            km_ns_poke(ns);
            return;
        }
        flux_respond_struct(ns->h, d->req, &kvs_dropped_schema,
                            &(struct kvs_dropped){.dropped = d->dropped});
        drop_free(d);
    }
}

void km_cache_drop_cb(flux_t *h, const flux_msg_t *msg, void *arg)
{
    struct km_ns *ns = km_stats_request(arg, msg, km_cache_drop_cb);
    struct content_stats st;
    struct drop *d;

    if (!ns)
        return;
    if (!(d = calloc(1, sizeof(*d))) || claim_take(ns->k->senders, &d->claim, msg, drop_gone) < 0) {
        free(d);
        flux_respond_error(h, msg, ENOMEM, "rank %u is out of memory", flux_rank(h));
        return;
    }
    content_get_stats(ns->content, &st);
    d->ns = ns;
    d->req = flux_msg_incref(msg);
    d->left = st.free_objects;
    list_init(&d->node);
    list_append(&ns->cache->drops, &d->node);
    drop_work(ns);
}

void km_cache_shut(struct km_ns *ns, int errnum, const char *why)
{
    LIST_FOREACH_SAFE(n, tmp, &ns->cache->drops)
    {
        struct drop *d = list_entry(n, struct drop, node);

        if (errnum)
            flux_respond_error(ns->h, d->req, errnum, "%s", why);
        drop_free(d);
    }
}

/* --- the bound --- */

static size_t fair(const struct km *k)
{
    return k->cache_limit / hmap_count(k->spaces);
}

/* Bring all namespaces down to their fair share. */
static void share_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    struct km *k = arg;
    size_t share = fair(k);
    size_t pos = 0;
    void *val;

    while (hmap_next(k->spaces, &pos, NULL, NULL, &val)) {
        struct km_ns *ns = val;
        if (!ns->content)
            continue;
        count(ns);
        if (ns->cache->cached > share)
            shrink(ns, share);
    }
}

void km_cache_work(struct km_ns *ns)
{
    struct km *k = ns->k;
    struct km_caches *all = k->caches;
    size_t over, share;

    content_set_clock(ns->content, km_module_clock(k));
    content_trim(ns->content); /* at most as many objects as have arrived since */
    expire(ns);
    drop_work(ns);
    count(ns);
    if (all->bytes <= k->cache_limit || hmap_count(k->spaces) < 2)
        return;
    over = all->bytes - k->cache_limit;
    share = fair(k);
    if (ns->cache->cached > share)
        shrink(ns, ns->cache->cached - share > over ? ns->cache->cached - over : share);
    if (all->bytes > k->cache_limit && !flux_watcher_active(all->share))
        flux_timer_start(all->share, SHARE_SECONDS, 0.);
}

void km_cache_forget(struct km_ns *ns)
{
    ns->k->caches->bytes -= ns->cache->cached;
    ns->cache->cached = 0;
}

void km_cache_expire(struct km *k)
{
    uint32_t now = km_module_clock(k);
    size_t pos = 0;
    void *val;

    while (hmap_next(k->spaces, &pos, NULL, NULL, &val)) {
        struct km_ns *ns = val;
        if (!ns->content)
            continue;
        content_set_clock(ns->content, now);
        if (isfinite(k->expire) && now > k->expire) {
            ns->cache->stale_before = now - (uint32_t)k->expire;
            ns->cache->stale = km_commit_open(ns) ||
                               content_expire(ns->content, ns->cache->stale_before, PIECE) == PIECE;
        }
        if (ns->cache->stale)
            km_ns_poke(ns);
        count(ns);
    }
}

double km_cache_period(const struct km *k)
{
    double period = k->expire / 4;

    return period > PERIOD_MAX ? PERIOD_MAX : period < 1. ? 1. : period;
}

/* --- life --- */

struct km_cache *km_cache_create(void)
{
    struct km_cache *x = calloc(1, sizeof(*x));

    if (!x)
        return NULL;
    list_init(&x->drops);
    return x;
}

void km_cache_destroy(struct km_cache *x)
{
    free(x);
}

struct km_caches *km_cache_all_create(struct km *k)
{
    struct km_caches *all = calloc(1, sizeof(*all));

    if (!all)
        return NULL;
    if (!(all->share = flux_timer_create(flux_get_reactor(k->h), share_cb, k))) {
        free(all);
        return NULL;
    }
    return all;
}

void km_cache_all_destroy(struct km_caches *all)
{
    if (!all)
        return;
    flux_watcher_destroy(all->share);
    free(all);
}

size_t km_cache_all_bytes(const struct km_caches *all)
{
    return all->bytes;
}

bool km_cache_busy(const struct km_ns *ns)
{
    return !list_empty(&ns->cache->drops);
}

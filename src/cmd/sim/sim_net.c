/* sim_net.c - flows through a fat tree, as rates.
 *
 * Links, in this order; each direction is a link of its own:
 *    node up, node down                      N each
 *    leaf up, leaf down                      leaves * K each
 *    level-2 up, level-2 down                pods * K * K each
 *
 * Rates are found by progressive filling.  A link's share is its remaining capacity divided by its
 * flows without a rate.  The link with the smallest share gives that rate to these flows, and their
 * other links lose it.  Shares only grow meanwhile, so the links are in a heap, and a link at its
 * top whose share has grown is put back.
 *
 * Invariants:
 *  1. left[l] is the capacity of link l minus the rates assigned in this round; open[l] is the
 *     number of its active flows without a rate.
 *  2. A flow uses at most 6 links.
 *
 * Failure: ENOMEM.
 */
#include "config.h"
#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "sim_net.h"

#define PATH_MAX_LINKS 6

struct flow {
    uint32_t link[PATH_MAX_LINKS];
    uint32_t nlinks;
    double left, rate; /* rate < 0: none in this round */
};

struct waiting {
    double share;
    uint32_t link;
};

struct sim_net {
    uint32_t pods, leaves, k, nodes, nlinks;
    struct flow *flows;
    size_t n, space;
    size_t *active, nactive;
    size_t *first; /* of each link, in `on`; one more than there are links */
    uint32_t *on;  /* flows by link */
    double *left;  /* of each link */
    uint32_t *open;
    struct waiting *heap;
    size_t nheap;
};

sim_net_t *sim_net_create(uint32_t pods, uint32_t leaves, uint32_t k)
{
    sim_net_t *n = calloc(1, sizeof(*n));

    if (!n)
        return NULL;
    n->pods = pods;
    n->leaves = leaves;
    n->k = k;
    n->nodes = pods * leaves * k;
    n->nlinks = 2 * (n->nodes + pods * leaves * k + pods * k * k);
    n->left = calloc(n->nlinks, sizeof(*n->left));
    n->open = calloc(n->nlinks, sizeof(*n->open));
    n->heap = calloc(n->nlinks, sizeof(*n->heap));
    if (!n->left || !n->open || !n->heap) {
        sim_net_destroy(n);
        return NULL;
    }
    return n;
}

void sim_net_destroy(sim_net_t *n)
{
    int saved = errno;

    if (n) {
        free(n->flows);
        free(n->active);
        free(n->first);
        free(n->on);
        free(n->left);
        free(n->open);
        free(n->heap);
    }
    free(n);
    errno = saved;
}

/* --- routes --- */

static void route(const sim_net_t *n, struct flow *f, uint32_t from, uint32_t to)
{
    uint32_t k = n->k, leaf_links = n->pods * n->leaves * k, pod_links = n->pods * k * k;
    uint32_t leaf_up = 2 * n->nodes, leaf_down = leaf_up + leaf_links;
    uint32_t pod_up = leaf_down + leaf_links, pod_down = pod_up + pod_links;
    uint32_t a = from / k, b = to / k, p = a / n->leaves, q = b / n->leaves;
    uint32_t up = to % k, core = to / k % k;

    f->nlinks = 0;
    if (from == to)
        return;
    f->link[f->nlinks++] = from;
    if (a != b)
        f->link[f->nlinks++] = leaf_up + a * k + up;
    if (p != q) {
        f->link[f->nlinks++] = pod_up + (p * k + up) * k + core;
        f->link[f->nlinks++] = pod_down + (q * k + up) * k + core;
    }
    if (a != b)
        f->link[f->nlinks++] = leaf_down + b * k + up;
    f->link[f->nlinks++] = n->nodes + to;
}

size_t sim_net_add(sim_net_t *n, uint32_t from, uint32_t to, double size)
{
    struct flow *f;

    if (n->n == n->space) {
        size_t space = n->space ? n->space * 2 : 1024;

        if (!(f = reallocarray(n->flows, space, sizeof(*f))))
            return SIZE_MAX;
        n->flows = f;
        n->space = space;
    }
    f = &n->flows[n->n];
    route(n, f, from, to);
    f->left = size;
    return n->n++;
}

size_t sim_net_count(const sim_net_t *n)
{
    return n->n;
}

/* --- rates --- */

static void heap_down(sim_net_t *n, size_t i)
{
    struct waiting x = n->heap[i];

    for (size_t c; (c = 2 * i + 1) < n->nheap; i = c) {
        if (c + 1 < n->nheap && n->heap[c + 1].share < n->heap[c].share)
            c++;
        if (x.share <= n->heap[c].share)
            break;
        n->heap[i] = n->heap[c];
    }
    n->heap[i] = x;
}

static double share(const sim_net_t *n, uint32_t link)
{
    return n->left[link] / n->open[link];
}

static void give_rate(sim_net_t *n, struct flow *f, double rate)
{
    /* Rounding must not leave a flow without a rate. */
    f->rate = rate > 1e-9 ? rate : 1e-9;
    for (uint32_t i = 0; i < f->nlinks; i++) {
        double left = n->left[f->link[i]] - rate;

        n->left[f->link[i]] = left > 0 ? left : 0;
        n->open[f->link[i]]--;
    }
}

static void set_rates(sim_net_t *n)
{
    for (uint32_t l = 0; l < n->nlinks; l++) {
        n->left[l] = 1;
        n->open[l] = 0;
    }
    for (size_t i = 0; i < n->nactive; i++) {
        struct flow *f = &n->flows[n->active[i]];

        f->rate = -1;
        for (uint32_t k = 0; k < f->nlinks; k++)
            n->open[f->link[k]]++;
    }
    n->nheap = 0;
    for (uint32_t l = 0; l < n->nlinks; l++)
        if (n->open[l] > 0)
            n->heap[n->nheap++] = (struct waiting){share(n, l), l};
    for (size_t i = n->nheap / 2; i-- > 0;)
        heap_down(n, i);
    while (n->nheap > 0) {
        uint32_t l = n->heap[0].link;
        double rate;

        if (n->open[l] > 0 && (rate = share(n, l)) > n->heap[0].share * (1 + 1e-12)) {
            n->heap[0].share = rate;
            heap_down(n, 0);
            continue;
        }
        if (n->open[l] > 0) {
            rate = share(n, l);
            for (size_t i = n->first[l]; i < n->first[l + 1]; i++) {
                struct flow *f = &n->flows[n->on[i]];

                if (f->left > 0 && f->rate < 0)
                    give_rate(n, f, rate);
            }
        }
        n->heap[0] = n->heap[--n->nheap];
        if (n->nheap > 0)
            heap_down(n, 0);
    }
}

/* --- time --- */

/* Which flows are on a link. */
static int index_links(sim_net_t *n)
{
    size_t total = 0;

    free(n->first);
    free(n->on);
    free(n->active);
    n->first = calloc((size_t)n->nlinks + 1, sizeof(*n->first));
    n->active = calloc(n->n ? n->n : 1, sizeof(*n->active));
    for (size_t i = 0; i < n->n; i++)
        total += n->flows[i].nlinks;
    n->on = calloc(total ? total : 1, sizeof(*n->on));
    if (!n->first || !n->on || !n->active)
        return -1;
    for (size_t i = 0; i < n->n; i++)
        for (uint32_t k = 0; k < n->flows[i].nlinks; k++)
            n->first[n->flows[i].link[k] + 1]++;
    for (uint32_t l = 0; l < n->nlinks; l++)
        n->first[l + 1] += n->first[l];
    /* Fill the part of each link; `open` counts the entries so far. */
    memset(n->open, 0, n->nlinks * sizeof(*n->open));
    for (size_t i = 0; i < n->n; i++)
        for (uint32_t k = 0; k < n->flows[i].nlinks; k++) {
            uint32_t l = n->flows[i].link[k];
            n->on[n->first[l] + n->open[l]++] = (uint32_t)i;
        }
    return 0;
}

/* Advance from `now` to `until`, and remove the flows that end by then. */
static void advance(sim_net_t *n, double now, double until, double *finish)
{
    size_t left = 0;

    for (size_t i = 0; i < n->nactive; i++) {
        struct flow *f = &n->flows[n->active[i]];
        double end = now + f->left / f->rate;

        if (end <= until) {
            finish[n->active[i]] = end;
            f->left = 0;
        } else {
            f->left -= f->rate * (until - now);
            n->active[left++] = n->active[i];
        }
    }
    n->nactive = left;
}

int sim_net_run(sim_net_t *n, double grain, double *finish,
                void (*progress)(size_t done, size_t nflows, void *arg), void *arg)
{
    double now = 0;

    if (index_links(n) < 0) {
        errno = ENOMEM;
        return -1;
    }
    n->nactive = 0;
    for (size_t i = 0; i < n->n; i++) {
        finish[i] = 0;
        if (n->flows[i].nlinks > 0 && n->flows[i].left > 0)
            n->active[n->nactive++] = i;
    }
    while (n->nactive > 0) {
        double next = INFINITY, until;

        set_rates(n);
        for (size_t i = 0; i < n->nactive; i++) {
            const struct flow *f = &n->flows[n->active[i]];
            double end = now + f->left / f->rate;

            if (end < next)
                next = end;
        }
        /* The first end is always included; rounding must not leave a remainder of its flow. */
        until = fmax(next * (1 + 1e-12), next * (1 + grain));
        advance(n, now, until, finish);
        now = until;
        if (progress)
            progress(n->n - n->nactive, n->n, arg);
    }
    return 0;
}

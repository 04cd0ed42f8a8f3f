/* pmixd_exchange.c - exchange of data among a group of nodes, by a fence of the job's namespace.
 *
 * Format: the namespace "job-ID".  The first server to need it makes it, with its own rank as
 * master; rank 0 removes it with the job.  PMI-1 uses the same one (wrexec's subjob_pmi.c).
 *
 *    x.NAME.NODE     the contribution of a node; NAME consists of a digest (of the operation and
 *                    its participants) and the number of earlier exchanges with this digest
 *
 * NAME is also the name of the fence.  Each node puts its contribution and enters the fence; after
 * the fence it reads the directory x.NAME.
 *
 *    state of an exchange   its future         next                   by
 *    waiting                (the namespace)    fencing                exchange_go
 *    fencing                the fence          reading                fenced_cb
 *    reading                the directory      over: it is freed      exchange_over
 *
 * A node that enters an exchange of a group has read the previous one, and a fence is over when all
 * nodes have entered.  So the contribution of the first node also removes the directory before the
 * previous one; however many exchanges a job makes, each group keeps the data of two.
 *
 * A group on this node alone gets its own contribution back, without the store.
 *
 * Failure: `done` is called with an error message.
 */
#include "config.h"
#include "pmixd.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME_MAX_LEN 64

struct exchange {
    struct pmixd *pd;
    struct waiting wait;
    char name[NAME_MAX_LEN];
    uint32_t nnodes;
    flux_kvs_txn_t *txn;
    flux_future_t *f;
    exchange_f done;
    void *arg;
};

/* --- the namespace --- */

static void go_all(struct pmixd *pd)
{
    struct list_node *n;

    while (pd->ns_ready && (n = list_first(&pd->waiting))) {
        struct waiting *w = list_entry(n, struct waiting, node);

        list_remove(n);
        w->go(w->arg);
    }
}

static void made_cb(flux_future_t *f, void *arg)
{
    struct pmixd *pd = arg;
    errmsg_t err;

    if (flux_rpc_get(f, &err) < 0 && errno != EEXIST) {
        pmixd_nodes_fail(pd, 1, -1, "the PMIx server has no namespace: %s", err.text);
        return;
    }
    pd->ns_ready = true;
    go_all(pd);
}

void pmixd_exchange_when_ready(struct pmixd *pd, struct waiting *w)
{
    errmsg_t err = {"out of memory"};
    flux_t *h;

    list_append(&pd->waiting, &w->node);
    if (pd->ns_ready) {
        go_all(pd);
        return;
    }
    if (pd->ns_asked)
        return;
    pd->ns_asked = true;
    h = pmixd_handle(pd, &err);
    pd->ns_made =
        h ? flux_kvs_namespace_create(h, pd->ns, FLUX_KVS_OWNER_SELF, flux_rank(h)) : NULL;
    if (!pd->ns_made || flux_future_then(pd->ns_made, -1., made_cb, pd) < 0)
        pmixd_nodes_fail(pd, 1, -1, "the PMIx server has no namespace: %s", err.text);
}

static void committed_cb(flux_future_t *f, void *arg)
{
    struct pmixd *pd = arg;
    errmsg_t err;

    if (flux_kvs_commit_get(f, NULL, NULL, &err) < 0)
        pmixd_nodes_fail(pd, 1, -1, "the PMIx server cannot tell other nodes: %s", err.text);
    flux_future_destroy(f);
}

void pmixd_exchange_commit(struct pmixd *pd, flux_kvs_txn_t *txn, const char *what)
{
    flux_t *h = pmixd_handle(pd, NULL);
    flux_future_t *f = h && txn ? flux_kvs_commit(h, pd->ns, txn) : NULL;

    if (f && flux_future_then(f, -1., committed_cb, pd) == 0)
        return;
    flux_future_destroy(f);
    pmixd_nodes_fail(pd, 1, -1, "the PMIx server has no memory for %s", what);
}

/* --- who takes part --- */

static int add_ranks(struct pmixd *pd, const pmix_proc_t *p, idset_t *ranks)
{
    const struct pmixd *g = pmixd_family_group_of_nspace(pd, p->nspace);

    if (!g) {
        errno = pmixd_family_may_be_ours(pd, p->nspace) && !pd->late ? ENOENT : EINVAL;
        return -1;
    }
    if (p->rank == PMIX_RANK_WILDCARD)
        return idset_range_set(ranks, g->first, g->first + g->ntasks - 1);
    if (p->rank < g->ntasks)
        return idset_set(ranks, g->first + p->rank);
    errno = EINVAL;
    return -1;
}

idset_t *pmixd_exchange_nodes_of(struct pmixd *pd, const pmix_proc_t *procs, size_t n,
                                 idset_t **out)
{
    idset_t *ranks = idset_create(), *nodes = idset_create();
    bool bad = !ranks || !nodes || n == 0;
    int errnum = EINVAL;

    for (size_t i = 0; !bad && i < n; i++)
        if ((bad = add_ranks(pd, &procs[i], ranks) < 0))
            errnum = errno;
    for (uint32_t r = bad ? IDSET_NONE : idset_first(ranks); r != IDSET_NONE;
         r = idset_next(ranks, r))
        bad |= idset_set(nodes, pmixd_family_seat_of(pd, r)) < 0;
    if (bad || !out) {
        idset_destroy(ranks);
        ranks = NULL;
    }
    if (bad) {
        idset_destroy(nodes);
        nodes = NULL;
        errno = errnum;
    }
    if (out)
        *out = ranks;
    return nodes;
}

/* --- an exchange --- */

static void exchange_over(struct exchange *x, const char *error, const void *data, size_t len)
{
    x->done(x->arg, error, data, len);
    list_remove(&x->wait.node);
    flux_kvs_txn_destroy(x->txn);
    flux_future_destroy(x->f);
    free(x);
}

static void read_cb(flux_future_t *f, void *arg)
{
    struct exchange *x = arg;
    struct flux_kvs_dirent e;
    buf_t *all = buf_create(0);
    size_t pos = 0;
    errmsg_t err;
    int rc = 0;

    /* Without any contribution there is no directory. */
    if (flux_future_errnum(f) != ENOENT) {
        while ((rc = flux_kvs_readdir_next(f, &pos, &e, &err)) == 1)
            if (!all || !e.data || buf_append(all, e.data, e.size) < 0) {
                errmsg_set(&err, "out of memory");
                rc = -1;
                break;
            }
    }
    if (rc == 0 && all)
        exchange_over(x, NULL, buf_data(all), buf_len(all));
    else
        exchange_over(x, all ? err.text : "out of memory", NULL, 0);
    buf_destroy(all);
}

static void fenced_cb(flux_future_t *f, void *arg)
{
    struct exchange *x = arg;
    char dir[NAME_MAX_LEN + 2];
    errmsg_t err;

    if (flux_kvs_commit_get(f, NULL, NULL, &err) < 0) {
        exchange_over(x, err.text, NULL, 0);
        return;
    }
    flux_future_destroy(f);
    snprintf(dir, sizeof(dir), "x.%s", x->name);
    x->f = flux_kvs_readdir(x->pd->h, x->pd->ns, dir, FLUX_KVS_VALUES, NULL);
    if (!x->f || flux_future_then(x->f, -1., read_cb, x) < 0)
        exchange_over(x, "out of memory", NULL, 0);
}

static void exchange_go(void *arg)
{
    struct exchange *x = arg;
    char rank[16];

    /* Its own rank is named so that the loss of a broker outside the job does not end the fence
     * (kvs.fence-grace); the loss of one of the job's nodes ends the job. */
    snprintf(rank, sizeof(rank), "%u", flux_rank(x->pd->h));
    x->f = flux_kvs_fence_ranks(x->pd->h, x->pd->ns, x->name, x->nnodes, rank, x->txn);
    if (!x->f || flux_future_then(x->f, -1., fenced_cb, x) < 0)
        exchange_over(x, "out of memory", NULL, 0);
}

/* Two 64-bit FNV-1a digests (Fowler, Noll, Vo), with different offsets, the second of ~text. */
static void digest(const char *text, char out[33])
{
    uint64_t a = 0xcbf29ce484222325u, b = 0x6c62272e07bb0142u;

    for (; *text; text++) {
        a = (a ^ (uint8_t)*text) * 0x100000001b3u;
        b = (b ^ (uint8_t) ~*text) * 0x100000001b3u;
    }
    snprintf(out, 33, "%016" PRIx64 "%016" PRIx64, a, b);
}

/* The number of earlier exchanges of this name; counts this one. */
static int64_t take_number(struct pmixd *pd, const char *name)
{
    uintptr_t n = (uintptr_t)hmap_get(pd->seqs, name);

    if (hmap_put(pd->seqs, name, (void *)(n + 1)) < 0)
        return -1;
    return (int64_t)n;
}

static int exchange_fill(struct exchange *x, const char *what, const idset_t *nodes,
                         const void *data, size_t len, errmsg_t *err)
{
    char name[33], key[NAME_MAX_LEN + 24];
    int64_t num;

    digest(what, name);
    num = take_number(x->pd, name);
    if (num < 0 || !x->txn)
        return errmsg_fail(err, ENOMEM, "out of memory");
    snprintf(x->name, sizeof(x->name), "%s-%" PRId64, name, num);
    snprintf(key, sizeof(key), "x.%s.%u", x->name, x->pd->seat);
    if (len && flux_kvs_txn_put_raw(x->txn, key, data, len, err) < 0)
        return -1;
    snprintf(key, sizeof(key), "x.%s-%" PRId64, name, num - 2);
    if (num >= 2 && idset_first(nodes) == x->pd->seat &&
        flux_kvs_txn_unlink(x->txn, key, FLUX_KVS_RECURSIVE, err) < 0)
        return -1;
    return 0;
}

void pmixd_exchange(struct pmixd *pd, const char *what, const idset_t *nodes, const void *data,
                    size_t len, exchange_f done, void *arg)
{
    struct exchange *x;
    errmsg_t err;

    if (idset_count(nodes) == 1) {
        done(arg, NULL, data, len);
        return;
    }
    if (!(x = calloc(1, sizeof(*x)))) {
        done(arg, "out of memory", NULL, 0);
        return;
    }
    list_init(&x->wait.node);
    x->pd = pd;
    x->nnodes = (uint32_t)idset_count(nodes);
    x->txn = flux_kvs_txn_create();
    x->done = done;
    x->arg = arg;
    x->wait.go = exchange_go;
    x->wait.arg = x;
    if (exchange_fill(x, what, nodes, data, len, &err) < 0)
        exchange_over(x, err.text, NULL, 0);
    else
        pmixd_exchange_when_ready(pd, &x->wait);
}

/* pmixd_family.c - the groups of tasks of a job, each with its own PMIx servers and PMIx namespace.
 *
 * The groups are the tasks that the job was started with, and those that they have spawned
 * (pmixd_spawn.c).  All use the job's namespace of the store, with numbers that are unique in the
 * job: a task has the number rank + `first` of its group; a server has the seat node + `first`,
 * which is unique because no group has more nodes than tasks.
 *
 * Format:
 *
 *    g.FIRST    the description of a group: u32 tasks, u32 nodes, then strings with their NULs:
 *               PMIx namespace, placement, programs
 *
 * A spawned group puts this before its first tasks start: its server of node 0 is not ready until
 * it has.  So the description exists when the spawn is answered, however soon the tasks leave.
 * Other groups put theirs when one of their tasks spawns.  The servers that deal with other groups
 * watch the directory: those of a job with several nodes from the start, the only server of a job
 * when its tasks spawn, and those of spawned groups.
 *
 * A group that appears is registered with the library; then the calls that have waited for it go
 * on.  They wait PATIENCE seconds at most: a group is described before its name is known to
 * anybody, so a name without a description belongs to another job.
 *
 * Failure: a directory that cannot be read, or a group that the library refuses, fails the job.
 */
#include "config.h"
#include "pmixd.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libutil/le.h"
#include "libutil/strutil.h"
#include "libexec/exec_wire.h"

#define HEAD 8
#define PATIENCE 60.
#define SPAWNED_FROM (1ull << 53) /* JOB_SPAWN_BIT */

struct family {
    struct list_node node;
    struct pmixd pd; /* its description, as if it were this server's group */
    char *body;
};

const struct pmixd *pmixd_family_group_of_nspace(struct pmixd *pd, const char *nspace)
{
    if (PMIX_CHECK_NSPACE(nspace, pd->nspace))
        return pd;
    LIST_FOREACH(it, &pd->families)
    {
        const struct family *f = list_entry(it, struct family, node);

        if (PMIX_CHECK_NSPACE(nspace, f->pd.nspace))
            return &f->pd;
    }
    return NULL;
}

const struct pmixd *pmixd_family_group_of(struct pmixd *pd, uint32_t number)
{
    if (number >= pd->first && number - pd->first < pd->ntasks)
        return pd;
    LIST_FOREACH(it, &pd->families)
    {
        const struct family *f = list_entry(it, struct family, node);

        if (number >= f->pd.first && number - f->pd.first < f->pd.ntasks)
            return &f->pd;
    }
    return NULL;
}

uint32_t pmixd_family_seat_of(struct pmixd *pd, uint32_t number)
{
    const struct pmixd *g = pmixd_family_group_of(pd, number);

    return g ? g->first + (uint32_t)pmi_mapping_node(g->map, number - g->first) : UINT32_MAX;
}

/* flux-job.ID.NONCE */
bool pmixd_family_may_be_ours(const struct pmixd *pd, const char *nspace)
{
    unsigned long long id;

    return sscanf(nspace, PMIXD_NSPACE_PREFIX "job.%llu.", &id) == 1 &&
           (id == pd->top || id >= SPAWNED_FROM);
}

/* --- what others say --- */

static void family_free(struct family *f)
{
    if (!f)
        return;
    pmi_mapping_destroy(f->pd.map);
    free(f->pd.app_first);
    free(f->body);
    free(f);
}

static struct family *family_read(struct pmixd *pd, uint32_t first, const void *data, size_t len,
                                  errmsg_t *err)
{
    struct family *f = calloc(1, sizeof(*f));
    const char *p;

    if (!f || len < HEAD || !(f->body = malloc(len))) {
        errmsg_fail(err, EPROTO, "what a group says of itself is cut off");
        goto fail;
    }
    memcpy(f->body, data, len);
    p = f->body + HEAD;
    if (!exec_wire_strings_ok(p, len - HEAD, 3)) {
        errmsg_fail(err, EPROTO, "what a group says of itself has damaged strings");
        goto fail;
    }
    list_init(&f->node);
    f->pd.id = pd->id;
    f->pd.top = pd->top;
    f->pd.universe = pd->universe;
    f->pd.first = first;
    f->pd.ntasks = le_get32(f->body);
    f->pd.nnodes = le_get32(f->body + 4);
    snprintf(f->pd.nspace, sizeof(f->pd.nspace), "%s", p);
    f->pd.mapping = p += strlen(p) + 1;
    f->pd.apps = p + strlen(p) + 1;
    f->pd.map = pmi_mapping_parse(f->pd.mapping, f->pd.ntasks);
    if (!f->pd.map) {
        errmsg_fail(err, EPROTO, "'%s' is not a placement of %u tasks", f->pd.mapping,
                    f->pd.ntasks);
        goto fail;
    }
    if (pmixd_read_apps(&f->pd, err) < 0)
        goto fail;
    return f;
fail:
    family_free(f);
    return NULL;
}

static void go_on(struct pmixd *pd)
{
    struct list_node round, *n;

    list_init(&round);
    list_splice(&round, &pd->strangers);
    while ((n = list_first(&round))) {
        struct call *c = list_entry(n, struct call, node);

        list_remove(n);
        c->run(pd, c);
    }
}

static void patience_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    struct pmixd *pd = arg;

    pd->late = true;
    go_on(pd);
    pd->late = false;
}

void pmixd_family_await(struct pmixd *pd, struct call *c)
{
    list_append(&pd->strangers, &c->node);
    if (!pd->patience && !(pd->patience = flux_timer_create(pd->r, patience_cb, pd)))
        pmixd_nodes_fail(pd, 1, -1, "the PMIx server has no memory to wait for spawned tasks");
    else
        flux_timer_start(pd->patience, PATIENCE, 0.);
}

static void appeared(struct pmixd *pd, const char *key, const void *data, size_t len)
{
    struct family *f;
    uint32_t first;
    errmsg_t err;

    if (str2u32(key, &first) < 0 || first == pd->first || pmixd_family_group_of(pd, first))
        return;
    if (!(f = family_read(pd, first, data, len, &err)) || pmixd_job_register(&f->pd, &err) < 0) {
        family_free(f);
        pmixd_nodes_fail(pd, 1, -1, "the PMIx server cannot take in a group of tasks: %s",
                         err.text);
        return;
    }
    list_append(&pd->families, &f->node);
    /* Spawned tasks may request data of this node, so their servers have to know its group. */
    pmixd_family_tell(pd);
    go_on(pd);
}

static void watch_cb(flux_future_t *f, void *arg)
{
    struct pmixd *pd = arg;
    struct flux_kvs_change c;
    size_t pos = 0;
    errmsg_t err;
    int rc = 0;

    if (!flux_kvs_watch_absent(f))
        while ((rc = flux_kvs_change_next(f, &pos, &c, &err)) == 1)
            if (c.change != FLUX_KVS_REMOVED && c.type == FLUX_KVS_VALUE && c.data)
                appeared(pd, c.key, c.data, c.size);
    if (rc < 0)
        pmixd_nodes_fail(pd, 1, -1, "the PMIx server cannot hear of spawned tasks: %s", err.text);
    else
        flux_future_next(f);
}

static void watch(void *arg)
{
    struct pmixd *pd = arg;

    pd->family_watch = flux_kvs_watch(pd->h, pd->ns, "g", FLUX_KVS_VALUES | FLUX_KVS_WATCH_DIFF);
    if (!pd->family_watch || flux_future_then(pd->family_watch, -1., watch_cb, pd) < 0)
        pmixd_nodes_fail(pd, 1, -1, "the PMIx server has no memory to hear of spawned tasks");
}

void pmixd_family_watch(struct pmixd *pd)
{
    if (pd->watching)
        return;
    pd->watching = true;
    pd->open_family = (struct waiting){.go = watch, .arg = pd};
    list_init(&pd->open_family.node);
    pmixd_exchange_when_ready(pd, &pd->open_family);
    pmixd_modex_init(pd);
}

/* --- what we say --- */

static void reported_cb(flux_future_t *f, void *arg)
{
    struct pmixd *pd = arg;
    errmsg_t err;

    if (flux_kvs_commit_get(f, NULL, NULL, &err) < 0)
        pmixd_nodes_fail(pd, 1, -1, "the PMIx server cannot tell of its tasks: %s", err.text);
    else if (pd->first && pd->node == 0)
        pmixd_nodes_ready(pd);
    flux_future_destroy(f);
}

static void tell(void *arg)
{
    struct pmixd *pd = arg;
    flux_future_t *f;
    flux_kvs_txn_t *txn = flux_kvs_txn_create();
    const char *strings[3] = {pd->nspace, pd->mapping, pd->apps ? pd->apps : ""};
    buf_t *b = buf_create(0);
    uint8_t head[HEAD];
    char key[32];
    int rc;

    le_put32(head, pd->ntasks);
    le_put32(head + 4, pd->nnodes);
    rc = b ? buf_append(b, head, sizeof(head)) : -1;
    for (int i = 0; rc == 0 && i < 3; i++)
        rc = buf_append(b, strings[i], strlen(strings[i]) + 1);
    snprintf(key, sizeof(key), "g.%u", pd->first);
    if (rc == 0 && txn)
        rc = flux_kvs_txn_put_raw(txn, key, buf_data(b), buf_len(b), NULL);
    f = rc == 0 && txn ? flux_kvs_commit(pd->h, pd->ns, txn) : NULL;
    if (!f || flux_future_then(f, -1., reported_cb, pd) < 0) {
        flux_future_destroy(f);
        pmixd_nodes_fail(pd, 1, -1, "the PMIx server has no memory to tell of its tasks");
    }
    flux_kvs_txn_destroy(txn);
    buf_destroy(b);
}

void pmixd_family_tell(struct pmixd *pd)
{
    if (pd->reported)
        return;
    pd->reported = true;
    pd->tell_family = (struct waiting){.go = tell, .arg = pd};
    list_init(&pd->tell_family.node);
    pmixd_exchange_when_ready(pd, &pd->tell_family);
}

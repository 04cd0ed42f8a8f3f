/* subjob_pmi.c - PMI barriers across the nodes of a job, by the key-value store.
 *
 * Purpose: exchange the pairs that tasks put, between the nodes of a job.  Each job has a namespace
 * "job-ID", whose master is at the first rank of the job that lives, so the root of the session
 * handles only the name.  Each node asks for the namespace at its first barrier; the first request
 * creates it, and rank 0 removes it after the job (coord_job.c).  A job on one node does not use
 * the store.
 *
 * Format: the pairs that the tasks of a node have put since the last barrier form one value:
 *
 *    NUM.NODE      NUM: number of the barrier in the job, from 0
 *    NUM.NODE-K    further segments of the blob (pmi_pack.h), K from 1, since the store limits the
 *                  size of a value
 *
 * Barrier: the fence "NUM" of a node, in which all nodes of the job take part, puts the value.  The
 * store merges the fences on the way to one change of the root.  Then each node reads the directory
 * NUM once and passes it to its launcher, which answers all its tasks from it.  So P tasks cost one
 * fence, and one directory read per node, instead of P times P look-ups.
 *
 *    step of a barrier   its future                 next (by)
 *    NAMING              creation of the namespace  FENCING (fence_enter), at once if the
 *                                                   namespace exists
 *    FENCING             the fence                  READING (fenced_cb)
 *    READING             the directory              over: it is freed (fence_done)
 *
 * After a reload the next instance waits for the same answer.  Requests about names and for further
 * tasks use the same structure, in the steps ASKING and SPAWNING.
 *
 * Tasks that leave: tasks that end without taking part in MPI would make the tasks of other nodes
 * wait forever.  So a node reports once, up the tree, that it has begun (its first barrier; with
 * PMIx its first client).  If a part of the job ends without having begun while another part has
 * begun, the job fails.  The launcher does the same for the tasks of one node.  Jobs without MPI
 * send nothing.
 *
 * Invariants:
 *  1. The step of a barrier changes by the transitions of `moves` only.
 *  2. A request that fails because a broker on its way was lost is sent again after a moment,
 *     except a fence, which the store carries on by itself.
 *
 * Failure: the tasks get the error message of the store, as the barrier failed, and the job fails.
 * The job also fails if the pairs of all nodes exceed a frame to the launcher (WIRE_PMI_MAX).  The
 * PMI server of a node bounds the pairs of that node.
 */
#include "config.h"
#include "wrexec.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libkvs/kvs.h"
#include "libpmi/pmi_pack.h"
#include "libutil/buf.h"
#include "libutil/invariant.h"
#include "libutil/le.h"
#include "libexec/wrexec_names.h"
#include "libexec/exec_result.h"

/* A barrier under way, a request about a name (subjob_pmi_name()), or a request for further tasks
 * (subjob_pmi_spawn()). */
enum step { NAMING, FENCING, READING, ASKING, SPAWNING, STEPS };
struct fence {
    struct list_node node;
    struct subjob *job;
    enum step step;
    uint32_t num;    /* number of the barrier; or of the task that asks; or the tag of its answer */
    uint32_t serial; /* SPAWNING: tells this request from the others of this rank */
    void *pairs;     /* pairs of this node, while NAMING; the frame, while ASKING or SPAWNING */
    size_t len;
    flux_future_t *f;      /* NULL: it is sent again in a moment */
    flux_watcher_t *again; /* NULL: no broker on its way was lost so far */
};

#define AGAIN 0.05 /* seconds */

static const struct transition moves[] = {
    {NAMING, FENCING, "fence_enter"},
    {FENCING, READING, "fenced_cb"},
    TRANSITION_END,
};

static void set_step(struct fence *fe, enum step step)
{
    TRANSITION(1, moves, fe->step, step);
    fe->step = step;
}

static void fence_free(struct fence *fe)
{
    list_remove(&fe->node);
    flux_future_destroy(fe->f);
    flux_watcher_destroy(fe->again);
    free(fe->pairs);
    free(fe);
}

static void send_again(struct fence *fe);

static void again_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    send_again(arg);
}

/* Start the pause before a request is sent again.  Returns false with ENOMEM. */
static bool pause_begin(struct fence *fe)
{
    if (!fe->again &&
        !(fe->again = flux_timer_create(flux_get_reactor(fe->job->ctx->h), again_cb, fe)))
        return false;
    flux_timer_start(fe->again, AGAIN, 0.);
    return true;
}

/* Returns whether the request has failed because a broker on its way was lost, and is sent again:
 * it may take another way by then.  The job ends this if a node of it was lost as well. */
static bool is_repeated(struct fence *fe)
{
    if (flux_future_errnum(fe->f) != EHOSTUNREACH || !pause_begin(fe))
        return false;
    flux_future_destroy(fe->f);
    fe->f = NULL;
    return true;
}

/* The rank of the namespace of a job. */
static uint32_t master(const struct subjob *j)
{
    uint32_t r = idset_first(j->ranks);

    while (r != IDSET_NONE && idset_test(j->dead, r))
        r = idset_next(j->ranks, r);
    return r;
}

void subjob_pmi_namespace(uint64_t id, char name[JOB_NAMESPACE_MAX])
{
    snprintf(name, JOB_NAMESPACE_MAX, "job-%" PRIu64, id);
}

void subjob_pmi_free(struct subjob *j)
{
    struct list_node *n;

    while ((n = list_first(&j->fences)))
        fence_free(list_entry(n, struct fence, node));
}

static void fence_failed(struct fence *fe, const char *what, const char *why);

static void fence_done(struct fence *fe, const void *data, size_t len)
{
    struct subjob *j = fe->job;
    int32_t code = 0;

    if (launchlink_try_send(j->ctx->exec, WIRE_PMI_DONE, j->id, &code, sizeof(code), data, len) < 0)
        fence_failed(fe, "could not be passed on to the launcher", strerror(errno));
    else
        fence_free(fe);
}

static void fence_failed(struct fence *fe, const char *what, const char *why)
{
    struct subjob *j = fe->job;
    int errnum = fe->f ? flux_future_errnum(fe->f) : 0;
    /* A fence is aborted when a node of it is lost; the namespace is lost with the first node. */
    bool lost = (fe->step == FENCING && errnum == ECONNABORTED) || errnum == EHOSTUNREACH;
    int32_t code = -1;
    char text[400];

    snprintf(text, sizeof(text), "PMI barrier %u %s: %s (rank %u)", fe->num, what, why,
             j->ctx->rank);
    launchlink_send(j->ctx->exec, WIRE_PMI_DONE, j->id, &code, sizeof(code), text, strlen(text));
    fence_free(fe);
    subjob_fail(j, lost ? JOB_LOST_CODE : 1, text);
}

static void read_cb(flux_future_t *f, void *arg)
{
    struct fence *fe = arg;
    struct flux_kvs_dirent e;
    buf_t *all = NULL;
    size_t pos = 0;
    errmsg_t err;
    int rc;

    if (master(fe->job) == idset_first(fe->job->ranks) && is_repeated(fe))
        return;
    /* Without any pairs there is no directory. */
    if (flux_future_errnum(f) == ENOENT) {
        fence_done(fe, NULL, 0);
        return;
    }
    all = buf_create(WIRE_PMI_MAX);
    while ((rc = flux_kvs_readdir_next(f, &pos, &e, &err)) == 1)
        if (!all || !e.data || buf_append(all, e.data, e.size) < 0) {
            if (all && errno == ENOBUFS)
                errmsg_set(&err, "the pairs of all nodes are more than %u MiB",
                           WIRE_PAYLOAD_MAX >> 20);
            else
                errmsg_set(&err, "out of memory");
            break;
        }
    if (rc == 0)
        fence_done(fe, buf_data(all), buf_len(all));
    else
        fence_failed(fe, "could not be read", err.text);
    buf_destroy(all);
}

static void read_pairs(struct fence *fe)
{
    char ns[JOB_NAMESPACE_MAX], key[16];

    subjob_pmi_namespace(fe->job->id, ns);
    snprintf(key, sizeof(key), "%u", fe->num);
    fe->f = flux_kvs_readdir(fe->job->ctx->h, ns, key, FLUX_KVS_VALUES, NULL);
    if (!fe->f || flux_future_then(fe->f, -1., read_cb, fe) < 0)
        fence_failed(fe, "could not be read", strerror(errno));
}

static void fenced_cb(flux_future_t *f, void *arg)
{
    struct fence *fe = arg;
    errmsg_t err;

    if (flux_kvs_commit_get(f, NULL, NULL, &err) < 0) {
        fence_failed(fe, "failed", err.text);
        return;
    }
    flux_future_destroy(f);
    set_step(fe, READING);
    read_pairs(fe);
}

static flux_kvs_txn_t *pairs_txn(struct subjob *j, uint32_t num, const void *blob, size_t len,
                                 errmsg_t *err)
{
    flux_kvs_txn_t *txn = flux_kvs_txn_create();
    const uint8_t *p = blob;
    size_t n = 0, k = 0;
    char key[64];

    if (!txn)
        errmsg_fail(err, ENOMEM, "out of memory");
    for (; txn && len > 0; p += n, len -= n, k++) {
        n = pmi_segment_len(p, len);
        if (k == 0)
            snprintf(key, sizeof(key), "%u.%u", num, j->node);
        else
            snprintf(key, sizeof(key), "%u.%u-%zu", num, j->node, k);
        if (n == 0)
            errmsg_fail(err, EPROTO, "the launcher's pairs cannot be read");
        if (n == 0 || flux_kvs_txn_put_raw(txn, key, p, n, err) < 0) {
            flux_kvs_txn_destroy(txn);
            txn = NULL;
        }
    }
    return txn;
}

/* Enter the fence with the pairs of this node. */
static void fence_enter(struct fence *fe, const void *pairs, size_t len)
{
    struct subjob *j = fe->job;
    char ns[JOB_NAMESPACE_MAX], name[16], rank[16];
    errmsg_t err = {"out of memory"};
    flux_kvs_txn_t *txn = pairs_txn(j, fe->num, pairs, len, &err);

    if (!txn) {
        fence_failed(fe, "could not be entered", err.text);
        return;
    }
    subjob_pmi_namespace(j->id, ns);
    snprintf(name, sizeof(name), "%u", fe->num);
    set_step(fe, FENCING);
    /* The fence names this rank, so that the loss of a broker outside the job does not end the
     * fence (kvs.fence-grace); the loss of a node of the job ends the job. */
    snprintf(rank, sizeof(rank), "%u", j->ctx->rank);
    fe->f = flux_kvs_fence_ranks(j->ctx->h, ns, name, j->nnodes, rank, txn);
    flux_kvs_txn_destroy(txn);
    if (!fe->f || flux_future_then(fe->f, -1., fenced_cb, fe) < 0)
        fence_failed(fe, "could not be entered", strerror(errno));
}

static void named_cb(flux_future_t *f, void *arg)
{
    struct fence *fe = arg;
    errmsg_t err;
    void *pairs;

    if (is_repeated(fe))
        return;
    if (flux_rpc_get(f, &err) < 0 && errno != EEXIST) {
        fence_failed(fe, "could not be entered", err.text);
        return;
    }
    flux_future_destroy(f);
    fe->f = NULL;
    fe->job->named = true;
    pairs = fe->pairs;
    fe->pairs = NULL;
    fence_enter(fe, pairs, fe->len);
    free(pairs);
}

static void name_space(struct fence *fe)
{
    struct subjob *j = fe->job;
    char ns[JOB_NAMESPACE_MAX];

    subjob_pmi_namespace(j->id, ns);
    fe->f = flux_kvs_namespace_create(j->ctx->h, ns, FLUX_KVS_OWNER_SELF, master(j));
    if (!fe->f || flux_future_then(fe->f, -1., named_cb, fe) < 0)
        fence_failed(fe, "could not be entered", strerror(errno));
}

/* --- nodes that have begun --- */

static void left_too_early(struct subjob *j, const idset_t *ranks)
{
    char *text = ranks ? idset_format(ranks, 0) : NULL, sentence[400];
    int code = exec_result_worst(j->result);

    snprintf(sentence, sizeof(sentence),
             "the tasks on rank%s %s left before MPI_Init, so the other tasks would wait forever",
             idset_count(ranks) == 1 ? "" : "s", text ? text : "?");
    free(text);
    subjob_fail(j, code ? code : 1, sentence);
}

void subjob_pmi_check_begun(struct subjob *j)
{
    idset_t *ranks = NULL;

    if (!j->begun || j->finished)
        return;
    if (j->node != JOB_LOCAL && j->local_done && !j->local_begun) {
        j->local_begun = true; /* so that this is reported once */
        ranks = idset_create_range(j->ctx->rank, j->ctx->rank);
        left_too_early(j, ranks);
        idset_destroy(ranks);
    }
    for (uint32_t i = 0; i < j->nparts; i++) {
        struct part *p = j->parts[i];

        if (!p->done || p->begun)
            continue;
        p->begun = true;
        left_too_early(j, p->ranks);
    }
}

void subjob_pmi_begun(struct subjob *j, struct part *p)
{
    bool first = !j->begun;

    j->begun = true;
    if (p)
        p->begun = true;
    else
        j->local_begun = true;
    if (first && !j->rj)
        subjob_send_up(j, WIRE_BEGUN, NULL, 0, NULL, 0);
    subjob_pmi_check_begun(j);
}

/* --- barriers --- */

void subjob_pmi_fence(struct subjob *j, uint32_t num, const void *blob, size_t len)
{
    struct fence *fe = calloc(1, sizeof(*fe));

    if (!fe) {
        subjob_fail(j, 1, "out of memory for a PMI barrier");
        return;
    }
    if (!j->local_begun && j->nnodes > 1)
        subjob_pmi_begun(j, NULL);
    fe->job = j;
    fe->num = num;
    list_append(&j->fences, &fe->node);
    if (j->named) {
        fence_enter(fe, blob, len);
        return;
    }
    if (!(fe->pairs = malloc(len + 1))) {
        fence_failed(fe, "could not be entered", "out of memory");
        return;
    }
    memcpy(fe->pairs, blob, len);
    fe->len = len;
    name_space(fe);
}

/* --- names --- */

static void named(struct fence *fe, int rc, const char *text)
{
    struct subjob *j = fe->job;
    int32_t fixed[2] = {(int32_t)fe->num, rc};
    size_t len = strlen(text);

    launchlink_send(j->ctx->exec, WIRE_PMI_NAMED, j->id, fixed, sizeof(fixed), text,
                    len < WIRE_NAME_MAX ? len : WIRE_NAME_MAX);
    fence_free(fe);
}

static void name_cb(flux_future_t *f, void *arg)
{
    struct fence *fe = arg;
    struct wrexec_named res = {0};
    errmsg_t err;

    if (is_repeated(fe))
        return;
    if (flux_future_errnum(f))
        named(fe, flux_future_errnum(f), flux_future_error(f));
    else if (flux_rpc_get_struct(f, &wrexec_named_schema, &res, &err) < 0)
        named(fe, 0, ""); /* no removal was needed */
    else if (strlen(res.port) > WIRE_NAME_MAX)
        named(fe, EMSGSIZE, "the port is too long for PMI-1");
    else
        named(fe, 0, res.port);
}

static void ask_name(struct fence *fe)
{
    static const char *const ops[] = {"publish", "lookup", "unpublish"};
    const char *service = (const char *)fe->pairs + 8;
    uint32_t op = exec_wire_u32((const char *)fe->pairs + 4);
    struct wrexec_name req = {.id = fe->job->id,
                              .op = ops[op - WIRE_NAME_PUBLISH],
                              .service = service,
                              .repeated = fe->again != NULL};

    if (op == WIRE_NAME_PUBLISH)
        req.port = service + strlen(service) + 1;
    fe->f = flux_rpc_struct(fe->job->ctx->h, "wrexec.name", &wrexec_name_schema, &req,
                            FLUX_NODEID_ROOT, 0);
    if (!fe->f)
        named(fe, errno, errno == EINVAL ? "names need to be UTF-8" : "out of memory");
    else if (flux_future_then(fe->f, -1., name_cb, fe) < 0)
        named(fe, errno, "out of memory");
}

/* Create the state of a request that a task makes, with a copy of its frame.  NULL with ENOMEM. */
static struct fence *asked(struct subjob *j, enum step step, const void *payload, size_t len)
{
    struct fence *fe = calloc(1, sizeof(*fe));

    if (!fe || !(fe->pairs = malloc(len + 1))) {
        free(fe);
        return NULL;
    }
    memcpy(fe->pairs, payload, len);
    fe->len = len;
    fe->job = j;
    fe->step = step;
    fe->num = exec_wire_u32(payload);
    list_append(&j->fences, &fe->node);
    return fe;
}

void subjob_pmi_name(struct subjob *j, const void *payload, size_t len)
{
    uint32_t op = exec_wire_u32((const char *)payload + 4);
    bool good = op >= WIRE_NAME_PUBLISH && op <= WIRE_NAME_UNPUBLISH &&
                exec_wire_strings_ok((const char *)payload + 8, len - 8, 2);
    struct fence *fe = good ? asked(j, ASKING, payload, len) : NULL;

    if (fe)
        ask_name(fe);
    else
        subjob_fail(j, 1, "a name that a task publishes or looks up cannot be passed on");
}

/* --- requests for further tasks --- */

static void spawned(struct fence *fe, int rc, const char *text)
{
    int32_t fixed[2] = {(int32_t)fe->num, rc};
    size_t len = strlen(text);

    launchlink_send(fe->job->ctx->exec, WIRE_SPAWNED, fe->job->id, fixed, sizeof(fixed), text,
                    len < WIRE_NAME_MAX ? len : WIRE_NAME_MAX);
    fence_free(fe);
}

static void spawn_cb(flux_future_t *f, void *arg)
{
    struct wrexec_spawned res = {0};
    errmsg_t err;

    if (is_repeated(arg))
        return;
    if (flux_rpc_get_struct(f, &wrexec_spawned_schema, &res, &err) < 0)
        spawned(arg, errno, err.text);
    else
        spawned(arg, 0, res.name);
}

static void ask_spawn(struct fence *fe)
{
    struct ctx *ctx = fe->job->ctx;
    const uint8_t *frame = fe->pairs;
    size_t len = WREXEC_SPAWN_HEAD + fe->len - WIRE_SPAWN_HEAD;
    uint8_t *req = malloc(len);

    if (!req) {
        spawned(fe, ENOMEM, "out of memory");
        return;
    }
    le_put64(req, fe->job->id);
    le_put32(req + 8, ((fe->num & WIRE_SPAWN_PMIX) ? WREXEC_SPAWN_PMIX : 0) |
                          (fe->again ? WREXEC_SPAWN_REPEATED : 0));
    le_put64(req + 12, (uint64_t)ctx->rank << 32 | fe->serial);
    le_put32(req + 20, exec_wire_u32(frame + 4));
    le_put32(req + 24, exec_wire_u32(frame + 8));
    memcpy(req + WREXEC_SPAWN_HEAD, frame + WIRE_SPAWN_HEAD, fe->len - WIRE_SPAWN_HEAD);
    fe->f = flux_rpc_raw(ctx->h, "wrexec.spawn", req, len, FLUX_NODEID_ROOT, 0);
    free(req);
    if (!fe->f || flux_future_then(fe->f, -1., spawn_cb, fe) < 0)
        spawned(fe, errno, "out of memory");
}

void subjob_pmi_spawn(struct subjob *j, const void *payload, size_t len)
{
    struct fence *fe = asked(j, SPAWNING, payload, len);

    if (!fe) {
        subjob_fail(j, 1, "out of memory for a spawn");
        return;
    }
    fe->serial = ++j->ctx->rounds;
    ask_spawn(fe);
}

static void send_again(struct fence *fe)
{
    switch (fe->step) {
    case NAMING:
        name_space(fe);
        break;
    case READING:
        read_pairs(fe);
        break;
    case ASKING:
        ask_name(fe);
        break;
    case SPAWNING:
        ask_spawn(fe);
        break;
    default:
        break;
    }
}

/* --- reload --- */

void subjob_pmi_save(const struct subjob *j, flux_handover_t *o)
{
    LIST_FOREACH(it, &j->fences)
    {
        const struct fence *fe = list_entry(it, struct fence, node);

        flux_handover_put(o, 1);
        flux_handover_put(o, fe->step);
        flux_handover_put(o, fe->num);
        flux_handover_put(o, fe->serial);
        flux_handover_put_data(o, fe->pairs, fe->len * (fe->pairs != NULL));
        flux_handover_put(o, fe->again != NULL);
        flux_handover_put(o, fe->f != NULL);
        flux_handover_put(o, fe->f ? flux_rpc_tag(fe->f) : 0);
    }
    flux_handover_put(o, 0);
}

static int fence_load(struct subjob *j, flux_handover_t *o)
{
    static const flux_future_f after[STEPS] = {named_cb, fenced_cb, read_cb, name_cb, spawn_cb};
    struct fence *fe = calloc(1, sizeof(*fe));
    const void *data;
    bool again, sent;
    uint32_t tag;

    if (!fe)
        return -1;
    fe->job = j;
    list_append(&j->fences, &fe->node);
    fe->step = (enum step)flux_handover_get(o, STEPS - 1);
    fe->num = (uint32_t)flux_handover_get(o, UINT32_MAX);
    fe->serial = (uint32_t)flux_handover_get(o, UINT32_MAX);
    data = flux_handover_get_data(o, &fe->len);
    if (!(fe->pairs = malloc(fe->len + 1)))
        return -1;
    memcpy(fe->pairs, data, fe->len);
    again = flux_handover_get(o, 1);
    sent = flux_handover_get(o, 1);
    tag = (uint32_t)flux_handover_get(o, UINT32_MAX);
    if (again && !pause_begin(fe))
        return -1;
    if (!sent)
        return again ? 0 : -1;
    flux_watcher_stop(fe->again);
    fe->f = flux_rpc_resume(j->ctx->h, "", 0, 0, tag);
    return fe->f ? flux_future_then(fe->f, -1., after[fe->step], fe) : -1;
}

void subjob_pmi_load(struct subjob *j, flux_handover_t *o)
{
    while (flux_handover_get(o, 1) == 1) {
        if (fence_load(j, o) == 0)
            continue;
        flux_handover_fail(o, ENOMEM);
        return;
    }
}

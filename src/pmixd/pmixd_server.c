/* pmixd_server.c - the callbacks of the PMIx library, in its own thread (see pmixd.c, 1).
 *
 *   call                 handled by
 *   client_connected     the launcher is notified
 *   client_finalized     the launcher is notified, then the task goes on
 *   abort                the launcher is notified, and the job fails; no answer (see abort_run())
 *   fence, (dis)connect  an exchange among the nodes of the participants
 *   group                an exchange; the group's first node assigns the context id; name and
 *                        members are part of the answer
 *   job_control          a signal to the whole job, by the job module
 *   spawn                pmixd_spawn.c
 *
 * A context id is NODE + NNODES * n, for n from 1 on, so no two groups of a job get the same one,
 * whichever nodes assign them.  For spawned tasks it is SEAT + 2^32 * n.
 */
#include "config.h"
#include "pmixd.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "libjob/job.h"
#include "pmixd_wire.h"

/* --- clients --- */

struct client_call {
    struct call call;
    pmix_op_cbfunc_t cb;
    void *cbdata;
};

static void client_run(struct pmixd *pd, struct call *call)
{
    struct client_call *c = (struct client_call *)(void *)call;

    c->cb(PMIX_SUCCESS, c->cbdata);
    free(c);
}

/* Tells the launcher in this thread: libpmix 4.2 lets a task that has connected go on without
 * waiting for an answer. */
static pmix_status_t client_post(const pmix_proc_t *proc, uint32_t what, pmix_op_cbfunc_t cb,
                                 void *cbdata)
{
    struct client_call *c = cb ? calloc(1, sizeof(*c)) : NULL;

    if (cb && !c)
        return PMIX_ERR_NOMEM;
    pmixd_nodes_tell_client(pmixd_self(), proc->rank, what);
    if (!c)
        return PMIX_SUCCESS;
    *c = (struct client_call){{.run = client_run}, cb, cbdata};
    pmixd_post(pmixd_self(), &c->call);
    return PMIX_SUCCESS;
}

static pmix_status_t client_connected(const pmix_proc_t *proc, void *object, pmix_info_t info[],
                                      size_t ninfo, pmix_op_cbfunc_t cb, void *cbdata)
{
    return client_post(proc, PMIXD_CONNECTED, cb, cbdata);
}

static pmix_status_t client_finalized(const pmix_proc_t *proc, void *object, pmix_op_cbfunc_t cb,
                                      void *cbdata)
{
    return client_post(proc, PMIXD_FINALIZED, cb, cbdata);
}

/* --- abort --- */

struct abort_call {
    struct call call;
    pmix_rank_t rank;
    int status;
    char text[256];
};

/* A task that aborts gets no answer, only the signal that ends the job.  After an answer it would
 * exit; tasks of other nodes would find their connections closed and abort too, and their messages
 * could reach the root before this one. */
static void abort_run(struct pmixd *pd, struct call *call)
{
    struct abort_call *c = (struct abort_call *)(void *)call;
    int code = c->status & 255;

    if (c->status && !code)
        code = 1; /* an exit code has 8 bits: 256 must not become 0 */
    pmixd_nodes_fail(pd, code, c->rank, "task %u aborted the job%s%s", pd->first + c->rank,
                     c->text[0] ? ": " : "", c->text);
    free(c);
}

static pmix_status_t server_abort(const pmix_proc_t *proc, void *object, int status,
                                  const char msg[], pmix_proc_t procs[], size_t nprocs,
                                  pmix_op_cbfunc_t cb, void *cbdata)
{
    struct abort_call *c = calloc(1, sizeof(*c));

    if (!c)
        return PMIX_ERR_NOMEM;
    c->call.run = abort_run;
    c->rank = proc->rank;
    c->status = status;
    if (msg)
        snprintf(c->text, sizeof(c->text), "%s", msg);
    pmixd_post(pmixd_self(), &c->call);
    return PMIX_SUCCESS;
}

/* --- fence, connect, groups --- */

enum join { JOIN_FENCE, JOIN_CONNECT, JOIN_GROUP, JOIN_UNGROUP };

struct join_call {
    struct call call;
    enum join kind;
    const char *what;
    char name[PMIX_MAX_KEYLEN + 16];
    pmix_proc_t *procs;
    size_t nprocs;
    char *data; /* malloc'd */
    size_t len;
    bool context;   /* the group wants an id */
    idset_t *ranks; /* the participants, once they are known */
    pmix_modex_cbfunc_t modex;
    pmix_op_cbfunc_t op;
    pmix_info_cbfunc_t info;
    void *cbdata;
};

static void join_free(struct join_call *c)
{
    idset_destroy(c->ranks);
    free(c->procs);
    free(c->data);
    free(c);
}

static void release(void *arg)
{
    free(arg);
}

static void release_infos(void *arg)
{
    pmix_data_array_t *array = arg;

    PMIX_DATA_ARRAY_DESTRUCT(array);
    free(array);
}

/* Members and name of a new group: libraries from version 5 on pass them on to the tasks, whose
 * library fails without them. */
static int add_group(struct join_call *c, void *list)
{
    pmix_data_array_t members;
    pmix_proc_t *p;
    pmix_status_t rc;

    PMIX_DATA_ARRAY_CONSTRUCT(&members, idset_count(c->ranks), PMIX_PROC);
    if (!(p = members.array))
        return -1;
    for (uint32_t r = idset_first(c->ranks); r != IDSET_NONE; r = idset_next(c->ranks, r)) {
        const struct pmixd *g = pmixd_family_group_of(pmixd_self(), r);

        PMIX_LOAD_PROCID(p, g->nspace, r - g->first);
        p++;
    }
    rc = PMIx_Info_list_add(list, PMIX_GROUP_ID, c->name, PMIX_STRING);
    if (rc == PMIX_SUCCESS)
        rc = PMIx_Info_list_add(list, PMIX_GROUP_MEMBERSHIP, &members, PMIX_DATA_ARRAY);
    PMIX_DATA_ARRAY_DESTRUCT(&members);
    return rc == PMIX_SUCCESS ? 0 : -1;
}

static void group_answer(struct join_call *c, const void *data, size_t len)
{
    buf_t *endpoints = buf_create(0);
    pmix_data_array_t *array = calloc(1, sizeof(*array));
    void *list = PMIx_Info_list_start();
    struct group_part part;
    pmix_byte_object_t bo;
    pmix_status_t rc;
    size_t id = 0;
    int more = 0;

    if (!endpoints || !array || !list)
        goto fail;
    while ((more = pmixd_wire_group_part_next(&data, &len, &part)) == 1) {
        if (part.context)
            id = part.context;
        if (buf_append(endpoints, part.data, part.len) < 0)
            goto fail;
    }
    if (more < 0 || (c->kind == JOIN_GROUP && add_group(c, list) < 0))
        goto fail;
    if (id)
        PMIx_Info_list_add(list, PMIX_GROUP_CONTEXT_ID, &id, PMIX_SIZE);
    if (buf_len(endpoints) > 0) {
        bo.bytes = (char *)buf_data(endpoints);
        bo.size = buf_len(endpoints);
        PMIx_Info_list_add(list, PMIX_GROUP_ENDPT_DATA, &bo, PMIX_BYTE_OBJECT);
    }
    rc = PMIx_Info_list_convert(list, array);
    if (rc == PMIX_ERR_EMPTY)
        c->info(PMIX_SUCCESS, NULL, 0, c->cbdata, NULL, NULL);
    else if (rc == PMIX_SUCCESS)
        c->info(PMIX_SUCCESS, array->array, array->size, c->cbdata, release_infos, array);
    else
        goto fail;
    if (rc == PMIX_ERR_EMPTY)
        free(array);
    PMIx_Info_list_release(list);
    buf_destroy(endpoints);
    return;
fail:
    c->info(PMIX_ERROR, NULL, 0, c->cbdata, NULL, NULL);
    if (list)
        PMIx_Info_list_release(list);
    free(array);
    buf_destroy(endpoints);
}

static void fence_answer(struct join_call *c, const void *data, size_t len)
{
    char *copy = malloc(len + 1);

    if (!copy) {
        c->modex(PMIX_ERR_NOMEM, NULL, 0, c->cbdata, NULL, NULL);
        return;
    }
    if (len)
        memcpy(copy, data, len);
    c->modex(PMIX_SUCCESS, copy, len, c->cbdata, release, copy);
}

static void join_done(void *arg, const char *error, const void *data, size_t len)
{
    struct join_call *c = arg;

    if (error)
        pmixd_nodes_fail(pmixd_self(), 1, -1, "a PMIx %s failed: %s", c->what, error);
    if (c->kind == JOIN_CONNECT)
        c->op(error ? PMIX_ERROR : PMIX_SUCCESS, c->cbdata);
    else if (error && c->kind == JOIN_FENCE)
        c->modex(PMIX_ERROR, NULL, 0, c->cbdata, NULL, NULL);
    else if (error)
        c->info(PMIX_ERROR, NULL, 0, c->cbdata, NULL, NULL);
    else if (c->kind == JOIN_FENCE)
        fence_answer(c, data, len);
    else
        group_answer(c, data, len);
    join_free(c);
}

/* The head of this node's contribution: the first node of the group gives the id. */
static void group_head(struct pmixd *pd, struct join_call *c, const idset_t *nodes)
{
    uint64_t id = 0;

    if (c->context && idset_first(nodes) == pd->seat && pd->first == 0)
        id = pd->node + (uint64_t)pd->nnodes * ++pd->contexts;
    else if (c->context && idset_first(nodes) == pd->seat)
        id = pd->seat + (++pd->contexts << 32);
    pmixd_wire_group_part_head(c->data, id, (uint32_t)(c->len - GROUP_HEAD));
}

static void join_run(struct pmixd *pd, struct call *call)
{
    struct join_call *c = (struct join_call *)(void *)call;
    idset_t *nodes = pmixd_exchange_nodes_of(pd, c->procs, c->nprocs, &c->ranks);
    char *text = c->ranks ? idset_format(c->ranks, 0) : NULL;
    char *full = NULL;

    if (!nodes && errno == ENOENT) {
        pmixd_family_await(pd, call); /* for the description of a spawned group */
        return;
    }
    if (!nodes || !text || !idset_test(nodes, pd->seat)) {
        join_done(c, "it has processes that are not of this job", NULL, 0);
    } else if (asprintf(&full, "%s %s %s", c->what, c->name, text) < 0) {
        join_done(c, "out of memory", NULL, 0);
    } else {
        if (c->kind == JOIN_GROUP || c->kind == JOIN_UNGROUP)
            group_head(pd, c, nodes);
        pmixd_exchange(pd, full, nodes, c->data, c->len, join_done, c);
        free(full);
    }
    free(text);
    idset_destroy(nodes);
}

static struct join_call *join_create(enum join kind, const char *what, const pmix_proc_t procs[],
                                     size_t nprocs)
{
    struct join_call *c = calloc(1, sizeof(*c));

    if (!c || !(c->procs = calloc(nprocs ? nprocs : 1, sizeof(*procs)))) {
        free(c);
        return NULL;
    }
    c->call.run = join_run;
    c->kind = kind;
    c->what = what;
    c->nprocs = nprocs;
    memcpy(c->procs, procs, nprocs * sizeof(*procs));
    return c;
}

static pmix_status_t server_fence(const pmix_proc_t procs[], size_t nprocs,
                                  const pmix_info_t info[], size_t ninfo, char *data, size_t ndata,
                                  pmix_modex_cbfunc_t cb, void *cbdata)
{
    struct join_call *c = join_create(JOIN_FENCE, "fence", procs, nprocs);

    if (!c)
        return PMIX_ERR_NOMEM;
    c->data = data; /* ours now */
    c->len = ndata;
    c->modex = cb;
    c->cbdata = cbdata;
    pmixd_post(pmixd_self(), &c->call);
    return PMIX_SUCCESS;
}

static pmix_status_t connect_post(const char *what, const pmix_proc_t procs[], size_t nprocs,
                                  pmix_op_cbfunc_t cb, void *cbdata)
{
    struct join_call *c;

    for (size_t i = 0; i < nprocs; i++)
        if (!pmixd_family_may_be_ours(pmixd_self(), procs[i].nspace))
            return PMIX_ERR_NOT_SUPPORTED; /* another job */
    if (!(c = join_create(JOIN_CONNECT, what, procs, nprocs)))
        return PMIX_ERR_NOMEM;
    c->op = cb;
    c->cbdata = cbdata;
    pmixd_post(pmixd_self(), &c->call);
    return PMIX_SUCCESS;
}

static pmix_status_t server_connect(const pmix_proc_t procs[], size_t nprocs,
                                    const pmix_info_t info[], size_t ninfo, pmix_op_cbfunc_t cb,
                                    void *cbdata)
{
    return connect_post("connect", procs, nprocs, cb, cbdata);
}

static pmix_status_t server_disconnect(const pmix_proc_t procs[], size_t nprocs,
                                       const pmix_info_t info[], size_t ninfo, pmix_op_cbfunc_t cb,
                                       void *cbdata)
{
    return connect_post("disconnect", procs, nprocs, cb, cbdata);
}

/* Are all these processes on this node?  From any thread: the data that it reads do not change. */
static bool all_here(const pmix_proc_t procs[], size_t n)
{
    struct pmixd *pd = pmixd_self();
    idset_t *nodes = pmixd_exchange_nodes_of(pd, procs, n, NULL);
    bool here = nodes && idset_count(nodes) == 1 && idset_test(nodes, pd->seat);

    idset_destroy(nodes);
    return here;
}

static pmix_status_t server_group(pmix_group_operation_t op, char grp[], const pmix_proc_t procs[],
                                  size_t nprocs, const pmix_info_t directives[], size_t ndirs,
                                  pmix_info_cbfunc_t cb, void *cbdata)
{
    struct join_call *c;
    const pmix_byte_object_t *bo = NULL;

    if (op != PMIX_GROUP_CONSTRUCT && op != PMIX_GROUP_DESTRUCT)
        return PMIX_ERR_NOT_SUPPORTED;
    /* Answered at once: there is nothing to do, and libpmix 5.0 calls twice for a request that is
     * answered later, and frees its data twice. */
    if (op == PMIX_GROUP_DESTRUCT && all_here(procs, nprocs))
        return PMIX_OPERATION_SUCCEEDED;
    c = op == PMIX_GROUP_CONSTRUCT ? join_create(JOIN_GROUP, "group", procs, nprocs)
                                   : join_create(JOIN_UNGROUP, "ungroup", procs, nprocs);
    if (!c)
        return PMIX_ERR_NOMEM;
    for (size_t i = 0; i < ndirs; i++) {
        if (PMIX_CHECK_KEY(&directives[i], PMIX_GROUP_ASSIGN_CONTEXT_ID))
            c->context = PMIX_INFO_TRUE(&directives[i]);
        else if (PMIX_CHECK_KEY(&directives[i], PMIX_GROUP_ENDPT_DATA) &&
                 directives[i].value.type == PMIX_BYTE_OBJECT)
            bo = &directives[i].value.data.bo;
    }
    c->len = GROUP_HEAD + (bo ? bo->size : 0);
    if (!(c->data = calloc(1, c->len))) {
        join_free(c);
        return PMIX_ERR_NOMEM;
    }
    if (bo && bo->size)
        memcpy(c->data + GROUP_HEAD, bo->bytes, bo->size);
    snprintf(c->name, sizeof(c->name), "%s", grp ? grp : "");
    c->info = cb;
    c->cbdata = cbdata;
    pmixd_post(pmixd_self(), &c->call);
    return PMIX_SUCCESS;
}

/* --- job control --- */

struct control_call {
    struct call call;
    int signum;
    pmix_info_cbfunc_t cb;
    void *cbdata;
    flux_future_t *f;
};

static void control_cb(flux_future_t *f, void *arg)
{
    struct control_call *c = arg;

    c->cb(flux_future_errnum(f) ? PMIX_ERROR : PMIX_SUCCESS, NULL, 0, c->cbdata, NULL, NULL);
    flux_future_destroy(f);
    free(c);
}

static void control_run(struct pmixd *pd, struct call *call)
{
    struct control_call *c = (struct control_call *)(void *)call;
    char ids[32];
    flux_t *h = pmixd_handle(pd, NULL);

    snprintf(ids, sizeof(ids), "%" PRIu64, pd->id);
    c->f = h ? flux_job_kill(h, ids, c->signum) : NULL;
    if (c->f && flux_future_then(c->f, -1., control_cb, c) == 0)
        return;
    c->cb(PMIX_ERR_UNREACH, NULL, 0, c->cbdata, NULL, NULL);
    flux_future_destroy(c->f);
    free(c);
}

static pmix_status_t server_job_control(const pmix_proc_t *requestor, const pmix_proc_t targets[],
                                        size_t ntargets, const pmix_info_t directives[],
                                        size_t ndirs, pmix_info_cbfunc_t cb, void *cbdata)
{
    struct control_call *c;
    int signum = 0;

    for (size_t i = 0; i < ntargets; i++)
        if (!PMIX_CHECK_NSPACE(targets[i].nspace, pmixd_self()->nspace) ||
            targets[i].rank != PMIX_RANK_WILDCARD)
            return PMIX_ERR_NOT_SUPPORTED;
    for (size_t i = 0; i < ndirs; i++) {
        if (PMIX_CHECK_KEY(&directives[i], PMIX_JOB_CTRL_KILL))
            signum = SIGKILL;
        else if (PMIX_CHECK_KEY(&directives[i], PMIX_JOB_CTRL_TERMINATE))
            signum = SIGTERM;
        else if (PMIX_CHECK_KEY(&directives[i], PMIX_JOB_CTRL_SIGNAL) &&
                 directives[i].value.type == PMIX_INT)
            signum = directives[i].value.data.integer;
    }
    if (signum <= 0 || signum > SIGRTMAX || !cb)
        return PMIX_ERR_NOT_SUPPORTED;
    if (!(c = calloc(1, sizeof(*c))))
        return PMIX_ERR_NOMEM;
    *c = (struct control_call){{.run = control_run}, signum, cb, cbdata, NULL};
    pmixd_post(pmixd_self(), &c->call);
    return PMIX_SUCCESS;
}

/* The library delivers the events of a task to its own node; other nodes do not get them. */
static pmix_status_t server_notify(pmix_status_t code, const pmix_proc_t *source,
                                   pmix_data_range_t range, pmix_info_t info[], size_t ninfo,
                                   pmix_op_cbfunc_t cb, void *cbdata)
{
    return range == PMIX_RANGE_LOCAL || range == PMIX_RANGE_PROC_LOCAL ? PMIX_OPERATION_SUCCEEDED
                                                                       : PMIX_ERR_NOT_SUPPORTED;
}

static pmix_status_t server_register_events(pmix_status_t *codes, size_t ncodes,
                                            const pmix_info_t info[], size_t ninfo,
                                            pmix_op_cbfunc_t cb, void *cbdata)
{
    return PMIX_OPERATION_SUCCEEDED;
}

static pmix_status_t server_deregister_events(pmix_status_t *codes, size_t ncodes,
                                              pmix_op_cbfunc_t cb, void *cbdata)
{
    return PMIX_OPERATION_SUCCEEDED;
}

pmix_server_module_t *pmixd_server_module(struct pmixd *pd)
{
    static pmix_server_module_t module = {
        .client_connected2 = client_connected,
        .client_finalized = client_finalized,
        .abort = server_abort,
        .fence_nb = server_fence,
        .direct_modex = pmixd_modex_direct,
        .publish = pmixd_names_publish,
        .lookup = pmixd_names_lookup,
        .unpublish = pmixd_names_unpublish,
        .spawn = pmixd_spawn,
        .connect = server_connect,
        .disconnect = server_disconnect,
        .register_events = server_register_events,
        .deregister_events = server_deregister_events,
        .notify_event = server_notify,
        .job_control = server_job_control,
        .group = server_group,
    };

    return &module;
}

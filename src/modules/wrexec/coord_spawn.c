/* coord_spawn.c - wrexec.spawn: tasks that the tasks of a job ask for (MPI_Comm_spawn, by PMI-1 or
 * PMIx).
 *
 * Purpose: start these tasks as a group, on the nodes of the job and in the same way as a job.  A
 * group has a number of its own (JOB_SPAWN_BIT), ranks from 0 on, and a namespace of its own.  It
 * shares all other properties with the job: id, environment, output, directory, limits of time and
 * memory, signals and end (coord_job.c).  In output and statuses its tasks continue the numbering
 * of the job.
 *
 * Resources: a node has room for one task per core that the job has there, but at least for the
 * number of tasks with which the job was started there; with --overcommit, for as many tasks as a
 * node may have.  The tasks of the job itself take up room until all of them have ended, and the
 * tasks of a group until all tasks of the group have ended.  A group fills the nodes in the order
 * of their ranks; with --overcommit it is spread evenly.
 *
 *     state of a group   meaning                                  left when (by)
 *     starting           spawn_req awaits its answer              all nodes said STARTED
 *                                                                 (coord_spawn_started); or a
 *                                                                 failure: refused
 *                                                                 (coord_spawn_refuse)
 *     running            its failures are those of the job        all its tasks have ended
 *                                                                 (coord_spawn_over)
 *     refused            the tasks that were started are killed   all its tasks have ended
 *                                                                 (coord_spawn_over)
 *
 * Invariants:
 *  1. Every request gets one answer.  If all tasks run, the answer is the name of the namespace.
 *     Otherwise it is an error, no task of the group remains, and the job does not fail.
 *  2. A request is refused if the job is ending or has GROUPS_MAX groups.
 *  3. A request whose answer was lost with a broker comes again.  Then no second group is started:
 *     the answer of the first one follows, or is given again.
 *  4. The infos `wdir`, `path` and `env` (NAME=VALUE, repeatable) are used; other infos are
 *     ignored.
 */
#include "config.h"
#include "coord.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "libidset/hostlist.h"
#include "libpmi/pmi_spawn.h"
#include "libutil/le.h"
#include "libutil/strbuf.h"

#define GROUPS_MAX 4096
#define ANSWERS_MAX 1024 /* that are kept; a task has one request under way */

struct answer {
    struct list_node node;
    uint64_t asker;
    int errnum; /* 0: the name of the group */
    char text[];
};

/* A decoded request. */
struct asked {
    uint64_t id;
    bool pmix; /* the request was made by PMIx */
    bool repeated;
    uint64_t asker;
    struct pmi_spawn_request req;
    const char *fixed[WIRE_STRINGS];
    const char *env;
    size_t env_len;
};

static int read_request(const flux_msg_t *msg, struct asked *a, errmsg_t *err)
{
    size_t len, n;
    const uint8_t *p = flux_msg_payload(msg, &len);
    const char *strings;
    uint32_t envc;

    if (!p || len < WREXEC_SPAWN_HEAD || (n = le_get32(p + 20)) > len - WREXEC_SPAWN_HEAD)
        return errmsg_fail(err, EPROTO, "a request to spawn is cut off");
    a->id = le_get64(p);
    a->pmix = (le_get32(p + 8) & WREXEC_SPAWN_PMIX) != 0;
    a->repeated = (le_get32(p + 8) & WREXEC_SPAWN_REPEATED) != 0;
    a->asker = le_get64(p + 12);
    envc = le_get32(p + 24);
    strings = (const char *)p + WREXEC_SPAWN_HEAD + n;
    len -= WREXEC_SPAWN_HEAD + n;
    if (!exec_wire_strings_ok(strings, len, (size_t)WIRE_STRINGS + envc))
        return errmsg_fail(err, EPROTO, "the strings of a request to spawn are damaged");
    for (int i = 0; i < WIRE_STRINGS; i++) {
        a->fixed[i] = strings;
        len -= strlen(strings) + 1;
        strings += strlen(strings) + 1;
    }
    a->env = strings;
    a->env_len = len;
    return pmi_spawn_request_get(p + WREXEC_SPAWN_HEAD, n, &a->req, err);
}

/* --- placement --- */

/* Return the number of further tasks that fit on each node of the job, malloc'd, or NULL with
 * ENOMEM. */
static uint32_t *room_left(const struct coord_job *top)
{
    const struct subjob *j = top->j;
    uint32_t *room = calloc(j->nnodes, sizeof(*room)), node = 0;

    if (!room)
        return NULL;
    for (uint32_t r = idset_first(j->ranks); r != IDSET_NONE; r = idset_next(j->ranks, r), node++) {
        uint32_t used = j->finished ? 0 : exec_layout_count(j->spec->layout, node);

        LIST_FOREACH(it, &top->groups)
        {
            const struct subjob *g = list_entry(it, struct coord_job, group)->j;
            struct exec_spec_node n;

            if (!idset_test(g->ranks, r))
                continue;
            exec_spec_node(g->spec, r, &n);
            used += n.count;
        }
        room[node] = exec_spec_room(j->spec, r);
        room[node] -= used < room[node] ? used : room[node];
    }
    return room;
}

/* Replace the room of each node by its share of the `want` tasks. */
static int place(const struct coord_job *top, uint32_t *room, uint32_t want, errmsg_t *err)
{
    bool spread = top->j->spec->w.overcommit;
    uint32_t n = top->j->nnodes;
    uint64_t all = 0;

    for (uint32_t i = 0; i < n; i++)
        all += room[i];
    if (want > all)
        return errmsg_fail(err, ENOSPC,
                           "%u task%s cannot be spawned: job %" PRIu64 " has room for %" PRIu64
                           " more (one a core; give it cores with -c, or --overcommit)",
                           want, want == 1 ? "" : "s", top->j->id, all);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t part = spread ? (want + (n - i) - 1) / (n - i) : want;

        room[i] = part < room[i] ? part : room[i];
        want -= room[i];
    }
    /* The even distribution had no room for these tasks. */
    if (want > 0)
        return errmsg_fail(err, ENOSPC, "that many tasks cannot be spread over %u nodes", n);
    return 0;
}

static int add_node(json_t *nodes, const struct coord_job *top, const idset_t *ranks,
                    uint32_t count)
{
    char *text = idset_format(ranks, 0);
    struct exec_spec_node n;
    int rc = -1;

    exec_spec_node(top->j->spec, idset_first(ranks), &n);
    if (text)
        rc = json_array_append_new(nodes, json_pack("[s, I, s, s, I]", text, (json_int_t)count,
                                                    n.cores, n.gpus, (json_int_t)n.memory));
    free(text);
    return rc;
}

/* Returns whether two nodes differ only in their names. */
static bool alike(const struct spec *s, uint32_t a, uint32_t b)
{
    struct exec_spec_node x, y;

    exec_spec_node(s, a, &x);
    exec_spec_node(s, b, &y);
    return x.cores == y.cores && x.gpus == y.gpus;
}

/* Return `nodes` of wrexec.launch, with equal neighbors merged, and the names of all nodes. */
static json_t *nodes_of(const struct coord_job *top, const uint32_t *count, char **names)
{
    const struct subjob *j = top->j;
    idset_t *run = idset_create();
    hostlist_t *hosts = j->spec->w.names ? hostlist_create() : NULL;
    json_t *nodes = json_array();
    uint32_t node = 0, each = 0;
    bool ok = run && nodes && (hosts || !j->spec->w.names);

    for (uint32_t r = idset_first(j->ranks); ok && r != IDSET_NONE;
         r = idset_next(j->ranks, r), node++) {
        if (count[node] == 0)
            continue;
        if (hosts) {
            struct exec_spec_node n;

            exec_spec_node(j->spec, r, &n);
            ok = hostlist_append(hosts, n.name, NULL) == 0;
        }
        if (!idset_empty(run) && (count[node] != each || !alike(j->spec, idset_first(run), r))) {
            ok = ok && add_node(nodes, top, run, each) == 0;
            idset_destroy(run);
            ok = (run = idset_create()) && ok;
        }
        each = count[node];
        ok = ok && idset_set(run, r) == 0;
    }
    ok = ok && !idset_empty(run) && add_node(nodes, top, run, each) == 0;
    if (ok && hosts)
        ok = (*names = hostlist_format(hosts)) != NULL;
    idset_destroy(run);
    hostlist_destroy(hosts);
    if (ok)
        return nodes;
    json_decref(nodes);
    return NULL;
}

/* --- the launch of a group --- */

static void add_string(strbuf_t *sb, const char *s)
{
    strbuf_addn(sb, s, strlen(s) + 1);
}

/* Append the words of a command (struct wire_run).  Returns their number. */
static uint32_t add_command(strbuf_t *sb, const struct asked *a, const struct pmi_spawn_command *c,
                            uint32_t *nenv)
{
    const char *dir = pmi_spawn_info(c, "wdir"), *path = pmi_spawn_info(c, "path"), *p = c->argv;

    /* A relative directory starts at the working directory of the job. */
    if (dir && dir[0] != '/' && a->fixed[WIRE_S_CWD][0])
        strbuf_addf(sb, "%s/", a->fixed[WIRE_S_CWD]);
    add_string(sb, dir ? dir : "");
    add_string(sb, path ? path : "");
    for (uint32_t i = 0; i < c->argc; i++, p += strlen(p) + 1)
        add_string(sb, p);
    for (uint32_t i = 0; i < c->ninfo; i++) {
        const char *value = p + strlen(p) + 1;

        if (strcmp(p, "env") == 0 && strchr(value, '=') && value[0] != '=') {
            add_string(sb, value);
            (*nenv)++;
        }
        p = value + strlen(value) + 1;
    }
    return WIRE_COMMAND_ARGV + c->argc;
}

/* Append the strings as in a launch.  Returns the table of commands. */
static json_t *commands_of(const struct asked *a, strbuf_t *sb, uint32_t *argc)
{
    json_t *commands = json_array();

    for (int i = 0; i < WIRE_STRINGS; i++)
        add_string(sb, a->fixed[i]);
    strbuf_addn(sb, a->req.pairs, a->req.pairs_len);
    for (uint32_t i = 0; i < a->req.ncommands; i++) {
        const struct pmi_spawn_command *c = &a->req.commands[i];
        uint32_t nenv = 0, n = add_command(sb, a, c, &nenv);

        if (json_array_append_new(commands, json_pack("[I, I, I]", (json_int_t)c->nprocs,
                                                      (json_int_t)n, (json_int_t)nenv)) < 0) {
            json_decref(commands);
            return NULL;
        }
        *argc += n + nenv;
    }
    return commands;
}

static void start(struct coord *r, struct coord_job *top, const flux_msg_t *msg, uint64_t asker,
                  struct spec *spec, const struct launchrec *rec)
{
    errmsg_t err = {"out of memory"};
    struct launchrec placed = *rec;
    struct subjob *j = NULL;
    char *json = NULL;

    if (coord_hosts_tell(r->hosts, &spec, &placed, &json, &err) < 0)
        exec_spec_destroy(spec);
    else
        j = subjob_create(r->ctx, spec, &err);
    if (j && !(j->rj = coord_job_create(r, j))) {
        subjob_free(j);
        j = NULL;
    }
    if (!j) {
        flux_respond_error(r->ctx->h, msg, ENOMEM, "%s", err.text);
        free(json);
        return;
    }
    j->nonce = flux_random(r->ctx->h);
    j->rj->parent = top;
    j->rj->spawn_req = flux_msg_incref(msg);
    j->rj->asker = asker;
    list_append(&top->groups, &j->rj->group);
    top->spawned += exec_layout_ntasks(spec->layout);
    subjob_launch(j, j->ranks, &placed);
    free(json);
    subjob_check(j);
}

static int launch(struct coord *r, struct coord_job *top, const flux_msg_t *msg,
                  const struct asked *a, const uint32_t *count, errmsg_t *err)
{
    struct wrexec_launch w = top->j->spec->w;
    struct launchrec rec = {.nfiles = a->req.npairs, .env = a->env, .env_len = a->env_len};
    char *names = NULL, *json = NULL;
    strbuf_t *sb = strbuf_create(0);
    struct spec *spec = NULL;
    uint64_t id;

    w.id = JOB_SPAWN_BIT + r->next_spawn++;
    w.parent = top->j->id;
    w.first = exec_layout_ntasks(top->j->spec->layout) + top->spawned;
    w.universe = top->j->spec->universe;
    w.layout = "block";
    w.input = "none";
    /* If the job offers both interfaces, spawned tasks use the one of the task that spawns them. */
    if (top->j->spec->flags & (WIRE_F_MPI_BOTH | WIRE_F_MPI_PMIX))
        w.mpi = a->pmix ? "pmix" : "pmi";
    /* The cores of a task already belong to running tasks, so bind to the cores of the node. */
    if (top->j->spec->flags & WIRE_F_BIND_TASK)
        w.affinity = "on";
    w.nodes = nodes_of(top, count, &names);
    w.names = names;
    w.hosts = NULL;
    w.commands = sb ? commands_of(a, sb, &rec.argc) : NULL;
    if (w.nodes && w.commands)
        json = flux_schema_encode(&wrexec_launch_schema, &w);
    rec.json = json;
    rec.json_len = json ? strlen(json) : 0;
    rec.strings_len = sb ? strbuf_len(sb) : 0;
    rec.strings = sb ? strbuf_str(sb) : "";
    for (const char *p = a->env; p < a->env + a->env_len; p += strlen(p) + 1)
        rec.envc++;
    if (!json || !exec_wire_strings_ok(rec.strings, rec.strings_len,
                                       (size_t)WIRE_STRINGS + 2ull * rec.nfiles + rec.argc))
        errmsg_fail(err, ENOMEM, "out of memory for a spawn");
    else if ((spec = exec_spec_create(json, rec.json_len, r->ctx->size, &id, err)))
        start(r, top, msg, a->asker, spec, &rec);
    json_decref(w.nodes);
    json_decref(w.commands);
    free(names);
    free(json);
    strbuf_destroy(sb);
    return spec ? 0 : -1;
}

/* Answer a request, with an error and an error message, or (errnum 0) with the name of a group. */
static void respond(flux_t *h, const flux_msg_t *req, int errnum, const char *text)
{
    struct wrexec_spawned res = {.name = text};

    if (errnum)
        flux_respond_error(h, req, errnum, "%s", text);
    else
        flux_respond_struct(h, req, &wrexec_spawned_schema, &res);
}

/* Returns whether an earlier copy of the request has started a group: this one gets its answer. */
static bool take_repeated(struct coord_job *top, const flux_msg_t *msg, uint64_t asker)
{
    LIST_FOREACH(it, &top->groups)
    {
        struct coord_job *g = list_entry(it, struct coord_job, group);

        if (g->asker != asker || !g->spawn_req)
            continue;
        flux_msg_destroy(g->spawn_req); /* its requester has got an error */
        g->spawn_req = flux_msg_incref(msg);
        return true;
    }
    LIST_FOREACH(it, &top->answers)
    {
        const struct answer *a = list_entry(it, struct answer, node);

        if (a->asker != asker)
            continue;
        respond(top->coord->ctx->h, msg, a->errnum, a->text);
        return true;
    }
    return false;
}

static int try_spawn(struct coord *r, const flux_msg_t *msg, struct asked *a, errmsg_t *err)
{
    struct subjob *j;
    struct coord_job *top;
    size_t ngroups = 0;
    uint32_t *count;
    int rc = -1;

    if (read_request(msg, a, err) < 0)
        return -1;
    j = hmap_get_u64(r->ctx->jobs, a->id);
    top = j && j->rj ? (j->rj->parent ? j->rj->parent : j->rj) : NULL;
    if (top && a->repeated && take_repeated(top, msg, a->asker))
        return 0;
    if (!top || top->exec || coord_job_over(top))
        return errmsg_fail(err, ESRCH, "the job that spawns tasks is not running");
    if (top->terminating || top->failed || top->signaled || top->j->killed || j->rj->refused)
        return errmsg_fail(err, ECANCELED, "job %" PRIu64 " is ending", top->j->id);
    LIST_FOREACH(it, &top->groups)
    ngroups++;
    if (ngroups >= GROUPS_MAX)
        return errmsg_fail(err, EAGAIN, "job %" PRIu64 " has %d groups of spawned tasks already",
                           top->j->id, GROUPS_MAX);
    if (!(count = room_left(top)))
        return errmsg_fail(err, ENOMEM, "out of memory for a spawn");
    if (place(top, count, a->req.nprocs, err) == 0)
        rc = launch(r, top, msg, a, count, err);
    free(count);
    return rc;
}

void coord_spawn_request(flux_t *h, const flux_msg_t *req, void *arg)
{
    struct ctx *ctx = arg;
    struct asked a = {0};
    errmsg_t err;

    if (!ctx->coord)
        flux_respond_error(h, req, EINVAL, "tasks are spawned by rank 0, not by rank %u",
                           ctx->rank);
    else if (try_spawn(ctx->coord, req, &a, &err) < 0)
        flux_respond_error(h, req, errno, "%s", err.text);
    pmi_spawn_request_clear(&a.req);
}

/* --- the life of a group --- */

static void drop_answer(struct coord_job *top, struct list_node *n)
{
    list_remove(n);
    free(list_entry(n, struct answer, node));
    top->nanswers--;
}

/* Keep an answer, which may be lost with a broker. */
static int keep_answer(struct coord_job *top, uint64_t asker, int errnum, const char *text)
{
    struct answer *a = malloc(sizeof(*a) + strlen(text) + 1);

    if (!a)
        return -1;
    a->asker = asker;
    a->errnum = errnum;
    memcpy(a->text, text, strlen(text) + 1);
    list_append(&top->answers, &a->node);
    if (++top->nanswers > ANSWERS_MAX)
        drop_answer(top, list_first(&top->answers));
    return 0;
}

/* Answer the request for a group: see respond(). */
static void coord_spawn_answer(struct coord_job *g, int errnum, const char *text)
{
    if (!g->spawn_req)
        return;
    /* Without memory, a request that is repeated starts a second group. */
    (void)keep_answer(g->parent, g->asker, errnum, text);
    respond(g->coord->ctx->h, g->spawn_req, errnum, text);
    flux_msg_destroy(g->spawn_req);
    g->spawn_req = NULL;
}

void coord_spawn_refuse(struct coord_job *g, int errnum, const char *text)
{
    g->refused = true;
    coord_spawn_answer(g, errnum, text);
    if (g->j->finished)
        return;
    g->j->killed = true;
    subjob_signal(g->j, SIGKILL);
}

void coord_spawn_started(struct subjob *j, uint32_t node)
{
    struct coord_job *g = j->rj;
    char name[WIRE_JOB_NAME_MAX];

    if (!g->parent || !g->spawn_req || node >= j->nnodes)
        return;
    if ((!g->started && !(g->started = idset_create())) || idset_set(g->started, node) < 0) {
        coord_spawn_refuse(g, ENOMEM, "out of memory for spawned tasks");
        return;
    }
    if (idset_count(g->started) < j->nnodes)
        return;
    exec_wire_job_name(name, j->id, j->nonce);
    coord_spawn_answer(g, 0, name);
}

/* Merge the statuses of a group into those of the job. */
static void merge(struct coord_job *g, json_t *failed)
{
    struct coord_job *top = g->parent;
    size_t len;
    void *data = exec_result_pack(g->j->result, &len);
    errmsg_t err = {"out of memory"};

    if (!data || exec_result_unpack(top->j->result, data, len, &err) < 0)
        coord_job_failed(top->j, 1, err.text);
    free(data);
    if (failed && (top->failed_tasks || (top->failed_tasks = json_array())) &&
        json_array_size(top->failed_tasks) < 8)
        (void)json_array_extend(top->failed_tasks, failed);
}

void coord_spawn_over(struct coord_job *g, json_t *failed)
{
    struct coord_job *top = g->parent;

    if (g->spawn_req)
        coord_spawn_refuse(g, ECANCELED, "the spawned tasks ended before all of them were started");
    if (!g->refused)
        merge(g, failed);
    list_remove(&g->group);
    g->parent = NULL;
    if (top->j->finished)
        coord_job_finished(top->j);
}

void coord_spawn_free(struct coord_job *rj)
{
    struct list_node *n;

    flux_msg_destroy(rj->spawn_req);
    idset_destroy(rj->started);
    while ((n = list_first(&rj->answers)))
        drop_answer(rj, n);
}

/* --- reload --- */

void coord_spawn_save(const struct coord_job *rj, flux_handover_t *o)
{
    char *failed = rj->failed_tasks ? json_dumps(rj->failed_tasks, JSON_COMPACT) : NULL;

    flux_handover_put(o, rj->spawned);
    flux_handover_put_str(o, failed);
    free(failed);
    flux_handover_put(o, rj->parent ? rj->parent->j->id : 0);
    flux_handover_put_msg(o, rj->spawn_req);
    handover_put_set(o, rj->started);
    flux_handover_put(o, rj->refused);
    flux_handover_put(o, rj->asker);
    LIST_FOREACH(it, &rj->answers)
    {
        const struct answer *a = list_entry(it, struct answer, node);

        flux_handover_put_str(o, a->text);
        flux_handover_put(o, a->asker);
        flux_handover_put(o, (uint64_t)a->errnum);
    }
    flux_handover_put_str(o, NULL);
}

void coord_spawn_load(struct coord_job *rj, flux_handover_t *o)
{
    const char *failed, *text;

    rj->spawned = (uint32_t)flux_handover_get(o, UINT32_MAX);
    if ((failed = flux_handover_get_str(o)) && !(rj->failed_tasks = json_loads(failed, 0, NULL)))
        flux_handover_fail(o, EPROTO);
    rj->parent_id = flux_handover_get(o, UINT64_MAX);
    rj->spawn_req = flux_handover_get_msg(o);
    rj->started = handover_get_set(o);
    rj->refused = flux_handover_get(o, 1);
    rj->asker = flux_handover_get(o, UINT64_MAX);
    while ((text = flux_handover_get_str(o))) {
        uint64_t asker = flux_handover_get(o, UINT64_MAX);

        if (keep_answer(rj, asker, (int)flux_handover_get(o, INT32_MAX), text) < 0)
            flux_handover_fail(o, ENOMEM);
    }
}

void coord_spawn_link(struct coord *r, flux_handover_t *o)
{
    size_t pos = 0;
    void *val;

    while (hmap_next(r->ctx->jobs, &pos, NULL, NULL, &val)) {
        struct coord_job *g = ((struct subjob *)val)->rj;
        struct subjob *top = g && g->parent_id ? hmap_get_u64(r->ctx->jobs, g->parent_id) : NULL;

        if (!g || !g->parent_id)
            continue;
        if (!top || !top->rj || top->rj->parent_id) {
            flux_handover_fail(o, EPROTO);
            return;
        }
        g->parent = top->rj;
        list_append(&top->rj->groups, &g->group);
    }
}

/* jm_launch.c - the launch request to wrexec, from the jobspec and the resources of a job.
 *
 *  - Tasks: with tasks per slot, each slot has that number.  A total T is divided among the nodes
 *    if the job requests nodes, else among the slots: each of the S slots has T / S, and the first
 *    T % S one more.  A node has nslots slots if nodes were requested, else the number of slots
 *    that its cores (or gpus) allow.  A nested session has one task on each node; nodes without
 *    tasks are omitted.
 *  - Ranks: those of R.  In an emulated inventory, whose ranks are numbers of nodes, the rank is
 *    taken modulo the size of the session; nodes of the same broker become one, with all their
 *    tasks.
 *  - Programs: if there are several, or one with its own environment, they become the commands of
 *    the launch request: the words of all programs, one after the other.
 *  - Environment: as submitted, with the changes of the jobspec.
 *
 * Failure: errno and an error message; then nothing was added.
 */
#include "config.h"
#include "jm_private.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "libexec/wrexec_wire.h"
#include "libidset/hostlist.h"

struct place {
    uint32_t rank;
    uint64_t ntasks;
    const idset_t *cores, *gpus;
    idset_t *own_cores, *own_gpus; /* common to several nodes */
    uint64_t memory;
    size_t node; /* number in R of the first of them */
};

struct plan {
    struct place *places;
    size_t n;
    uint64_t slots_left, slot, nslots;
};

static void plan_free(struct plan *p)
{
    for (size_t i = 0; i < p->n; i++) {
        idset_destroy(p->places[i].own_cores);
        idset_destroy(p->places[i].own_gpus);
    }
    free(p->places);
}

/* --- tasks --- */

static uint64_t slots_on(const struct jm_spec *spec, const struct rset_node *node)
{
    const struct rreq *req = &spec->req;

    if (req->nnodes > 0)
        return req->nslots ? req->nslots : 1;
    if (req->cores > 0)
        return idset_count(node->cores) / req->cores;
    if (req->gpus > 0)
        return idset_count(node->gpus) / req->gpus;
    return 1;
}

/* Number of tasks of the slots before number `slot`. */
static uint64_t tasks_before(const struct jm_spec *spec, uint64_t nslots, uint64_t slot)
{
    uint64_t total = spec->ntasks, per = jobspec_per_slot(spec->js);

    if (per > 0)
        return slot * per;
    return slot * (total / nslots) + (slot < total % nslots ? slot : total % nslots);
}

static uint64_t tasks_on(struct plan *p, const struct jm_spec *spec, const struct rset_node *node)
{
    uint64_t n = slots_on(spec, node), first = p->slot;

    if (n > p->slots_left)
        n = p->slots_left;
    p->slot += n;
    p->slots_left -= n;
    if (spec->req.nnodes > 0 && jobspec_per_slot(spec->js) == 0) {
        /* A total is divided among all nodes: each has at least one task. */
        uint64_t nodes = spec->req.nnodes, total = spec->ntasks;

        return total / nodes + (n > 0 && first / n < total % nodes);
    }
    return tasks_before(spec, p->nslots, p->slot) - tasks_before(spec, p->nslots, first);
}

/* --- places --- */

static int merge_set(const idset_t **set, idset_t **own, const idset_t *more)
{
    if (!*own && !(*own = idset_copy(*set)))
        return -1;
    *set = *own;
    return idset_add(*own, more);
}

static int merge(struct place *to, const struct place *more)
{
    to->ntasks += more->ntasks;
    to->memory += more->memory;
    if (merge_set(&to->cores, &to->own_cores, more->cores) < 0 ||
        merge_set(&to->gpus, &to->own_gpus, more->gpus) < 0)
        return -1;
    return 0;
}

static int by_rank(const void *a, const void *b)
{
    const struct place *x = a, *y = b;

    if (x->rank != y->rank)
        return x->rank < y->rank ? -1 : 1;
    return x->node < y->node ? -1 : x->node > y->node;
}

/* Join nodes of an emulated inventory that belong to the same broker. */
static int fold(struct plan *p)
{
    size_t n = 0;

    qsort(p->places, p->n, sizeof(p->places[0]), by_rank);
    for (size_t i = 0; i < p->n; i++) {
        if (n > 0 && p->places[n - 1].rank == p->places[i].rank) {
            if (merge(&p->places[n - 1], &p->places[i]) < 0)
                return -1;
        } else {
            p->places[n++] = p->places[i];
        }
    }
    p->n = n;
    return 0;
}

static int make_plan(struct jm_job *j, struct plan *p, bool *emulated)
{
    uint32_t size = flux_size(j->jm->h);
    size_t n = rset_nnodes(j->r);
    /* A nested session has one broker on each node, regardless of the slots. */
    bool nested = jobspec_options(j->spec->js)->nested;
    const resgraph_t *inv = jm_resources_inventory(j->jm);
    struct rset_node node;

    *emulated = inv && resgraph_emulated(inv);
    p->nslots = 0;
    for (size_t i = 0; i < n && rset_node(j->r, i, &node); i++)
        p->nslots += slots_on(j->spec, &node);
    if (p->nslots > jobspec_nslots(j->spec->js))
        p->nslots = jobspec_nslots(j->spec->js);
    p->slots_left = p->nslots;
    if (!(p->places = calloc(n ? n : 1, sizeof(*p->places))))
        return -1;
    for (size_t i = 0; i < n && rset_node(j->r, i, &node); i++) {
        struct place pl = {.rank = *emulated ? node.rank % size : node.rank,
                           .ntasks = nested ? 1 : tasks_on(p, j->spec, &node),
                           .cores = node.cores,
                           .gpus = node.gpus,
                           .memory = node.memory,
                           .node = i};

        if (pl.ntasks > 0)
            p->places[p->n++] = pl;
    }
    if (*emulated && fold(p) < 0)
        return -1;
    for (size_t i = 0; nested && i < p->n; i++)
        p->places[i].ntasks = 1;
    return 0;
}

/* Names of the nodes, or NULL for all: then those of R are used. */
static char *names_of(struct jm_job *j, const struct plan *p)
{
    hostlist_t *hl = hostlist_create();
    struct rset_node node;
    char *text;

    for (size_t i = 0; hl && i < p->n; i++) {
        if (rset_node(j->r, p->places[i].node, &node) && node.host[0] &&
            hostlist_append(hl, node.host, NULL) < 0)
            break;
    }
    text = hl && hostlist_count(hl) == p->n ? hostlist_format(hl) : NULL;
    hostlist_destroy(hl);
    return text;
}

static bool same(const struct place *a, const struct place *b)
{
    return a->ntasks == b->ntasks && a->memory == b->memory &&
           (a->cores == b->cores || idset_equal(a->cores, b->cores)) &&
           (a->gpus == b->gpus || idset_equal(a->gpus, b->gpus));
}

static json_t *entry(const struct place *pl, const idset_t *ranks)
{
    char *texts[] = {idset_format(ranks, 0), idset_format(pl->cores, 0), idset_format(pl->gpus, 0)};
    json_t *a = json_array();

    if (json_array_append_new(a, json_string(texts[0])) < 0 ||
        json_array_append_new(a, json_integer((json_int_t)pl->ntasks)) < 0 ||
        json_array_append_new(a, json_string(texts[1])) < 0 ||
        json_array_append_new(a, json_string(texts[2])) < 0 ||
        json_array_append_new(a, json_integer((json_int_t)pl->memory)) < 0) {
        json_decref(a);
        a = NULL;
    }
    for (size_t i = 0; i < 3; i++)
        free(texts[i]);
    return a;
}

/* Equal neighbors share one entry. */
static json_t *nodes_of(const struct plan *p)
{
    json_t *nodes = json_array();

    for (size_t i = 0, next; nodes && i < p->n; i = next) {
        idset_t *ranks = idset_create();
        int rc = ranks ? 0 : -1;

        for (next = i; rc == 0 && next < p->n && same(&p->places[i], &p->places[next]); next++)
            rc = idset_set(ranks, p->places[next].rank);
        if (rc < 0 || json_array_append_new(nodes, entry(&p->places[i], ranks)) < 0) {
            json_decref(nodes);
            nodes = NULL;
            next = p->n;
        }
        idset_destroy(ranks);
    }
    return nodes;
}

/* --- environment, files, limits --- */

static bool overridden(const json_t *env, const char *entry_text)
{
    const char *eq = strchr(entry_text, '=');

    return eq && json_object_getn(env, entry_text, (size_t)(eq - entry_text));
}

/* malloc'd; *len its length. */
static char *merged_env(const struct jm_env *base, const json_t *env, size_t *len)
{
    strbuf_t *sb = strbuf_create(0);
    const char *name;
    json_t *value;
    size_t left = base ? base->len : 0;

    for (const char *p = base ? base->data : NULL; left > 0;) {
        size_t n = strlen(p) + 1;

        if (!overridden(env, p))
            strbuf_addn(sb, p, n);
        p += n;
        left -= n;
    }
    json_object_foreach((json_t *)env, name, value)
    {
        if (json_is_string(value)) {
            strbuf_addf(sb, "%s=%s", name, json_string_value(value));
            strbuf_addc(sb, '\0');
        }
    }
    *len = sb ? strbuf_len(sb) : 0;
    return sb ? strbuf_take(sb) : NULL;
}

/* NAME=text or NAME, which is to be unset; malloc'd. */
static char *change_of(const char *name, const json_t *value)
{
    char *s = NULL;

    if (!json_is_string(value))
        return strdup(name);
    return asprintf(&s, "%s=%s", name, json_string_value(value)) < 0 ? NULL : s;
}

/* Words of commands: see struct wire_command.  Those of changes are malloc'd. */
struct words {
    char **v; /* NULL-terminated */
    size_t n;
    char **changes;
    size_t nchanges;
    json_t *commands;
};

static void words_free(struct words *w)
{
    for (size_t i = 0; i < w->nchanges; i++)
        free(w->changes[i]);
    free(w->changes);
    free(w->v);
    json_decref(w->commands);
}

static void words_add(struct words *w, const char *word)
{
    w->v[w->n++] = (char *)word;
}

static int add_command(struct words *w, const struct jobspec_program *p)
{
    size_t before = w->n, words;
    const char *name;
    json_t *value;

    for (int i = 0; i < WIRE_COMMAND_ARGV; i++)
        words_add(w, "");
    for (size_t i = 0; p->argv[i]; i++)
        words_add(w, p->argv[i]);
    words = w->n - before;
    json_object_foreach((json_t *)p->env, name, value)
    {
        char *change = change_of(name, value);

        if (!change)
            return -1;
        words_add(w, w->changes[w->nchanges++] = change);
    }
    return json_array_append_new(w->commands,
                                 json_pack("[I, I, I]", (json_int_t)p->ntasks, (json_int_t)words,
                                           (json_int_t)(w->n - before - words)));
}

/* Empty for a plain job. */
static int commands_of(const jobspec_t *js, struct words *w)
{
    size_t n, nwords = 1, nchanges = 0;
    const struct jobspec_program *p = jobspec_programs(js, &n);

    if (n == 1 && !p[0].env)
        return 0;
    for (size_t i = 0; i < n; i++) {
        for (size_t k = 0; p[i].argv[k]; k++)
            nwords++;
        nwords += WIRE_COMMAND_ARGV;
        nchanges += json_object_size(p[i].env);
    }
    w->v = calloc(nwords + nchanges, sizeof(*w->v));
    w->changes = calloc(nchanges + 1, sizeof(*w->changes));
    w->commands = json_array();
    if (!w->v || !w->changes || !w->commands)
        return -1;
    for (size_t i = 0; i < n; i++)
        if (add_command(w, &p[i]) < 0)
            return -1;
    return 0;
}

static const char **files_of(const json_t *files, size_t *n)
{
    const char **list;
    const char *name;
    json_t *text;

    *n = 0;
    if (!(list = calloc(2 * json_object_size(files) + 1, sizeof(*list))))
        return NULL;
    json_object_foreach((json_t *)files, name, text)
    {
        list[2 * *n] = name;
        list[2 * *n + 1] = json_string_value(text);
        (*n)++;
    }
    return list;
}

static json_t *limits_of(const struct job_rlimit *v, size_t n)
{
    json_t *obj = json_object();

    for (size_t i = 0; obj && i < n; i++) {
        const struct job_rlimit *l = &v[i];

        if (json_object_set_new(
                obj, l->name,
                json_integer(l->value == JOBSPEC_NO_LIMIT ? -1 : (json_int_t)l->value)) < 0) {
            json_decref(obj);
            obj = NULL;
        }
    }
    return obj;
}

/* --- the whole request --- */

/* Are its cores those of other nodes, too? */
static bool on_shared(const struct jm_job *j, const struct plan *p)
{
    const idset_t *shared = jm_resources_shared(j->jm);

    for (size_t i = 0; shared && i < p->n; i++)
        if (idset_test(shared, p->places[i].rank))
            return true;
    return false;
}

static void options_into(struct wrexec_launch *l, const struct jm_job *j,
                         const struct joboptions *o, bool emulated, bool shared)
{
    bool unbound = emulated || (shared && o->cpu_affinity == JOB_AFFINITY_ON);

    l->layout = job_layout_name(o->layout);
    l->input = job_stdin_name(o->stdin_mode);
    l->output = (j->st.flags & JOB_FLAG_CLIENT) ? "client" : "kvs";
    l->affinity = unbound ? "off" : job_affinity_name(o->cpu_affinity);
    l->gpuaffinity = job_affinity_name(o->gpu_affinity);
    l->mpi = job_mpi_name(o->mpi);
    l->label = o->label;
    /* More tasks than slots are allowed if the number of slots is a range, or was not requested. */
    l->overcommit =
        j->spec->min_slots > 0 || (jobspec_per_slot(j->spec->js) == 0 && j->spec->req.nslots <= 1);
    l->mask = o->umask + 1;
    l->killbad = o->kill_on_bad_exit;
    l->survive = o->survive_node_loss;
    l->attempt = j->st.requeues + 1;
    l->nested = o->nested;
    l->crowded = emulated || shared;
    l->memlimit = j->spec->req.memory > 0;
    l->grace = o->grace >= 0 ? o->grace : j->jm->grace;
    l->outputlimit = o->output_limit == JOBSPEC_NO_LIMIT ? 0 : o->output_limit + 1;
    l->expiration = rset_expiration(j->r);
}

int jm_launch_add(struct jm_job *j, struct launchbuf *buf, errmsg_t *err)
{
    struct wrexec_launch l = {.id = j->id, .uid = j->st.userid, .name = j->spec->name};
    struct launchreq req = {.launch = &l};
    const struct joboptions *o;
    const json_t *env;
    struct plan p = {0};
    struct words words = {0};
    bool emulated = false;
    char *names = NULL, *envbuf = NULL;
    const char **files = NULL;
    int rc = -1, saved;

    if (jm_spec_parse(j->jm, j->spec, err) < 0)
        return -1;
    o = jobspec_options(j->spec->js);
    env = jobspec_env(j->spec->js);
    if (commands_of(j->spec->js, &words) < 0 || make_plan(j, &p, &emulated) < 0 ||
        !(l.nodes = nodes_of(&p)) ||
        (o->nrlimits && !(l.rlimits = limits_of(o->rlimits, o->nrlimits))) ||
        (o->nsoftlimits && !(l.softlimits = limits_of(o->softlimits, o->nsoftlimits))) ||
        (env && !(envbuf = merged_env(j->env, env, &req.envlen))) ||
        (jobspec_files(j->spec->js) &&
         !(files = files_of(jobspec_files(j->spec->js), &req.nfiles)))) {
        errmsg_fail(err, ENOMEM, "out of memory for a launch");
        goto out;
    }
    if (p.n == 0) {
        errmsg_fail(err, EINVAL, "its resources hold no task");
        goto out;
    }
    l.names = names = names_of(j, &p);
    options_into(&l, j, o, emulated, on_shared(j, &p));
    req.fixed[WIRE_S_CWD] = jobspec_cwd(j->spec->js);
    req.fixed[WIRE_S_IN] = o->input;
    req.fixed[WIRE_S_OUT] = o->output;
    req.fixed[WIRE_S_ERR] = o->error;
    req.files = files;
    l.commands = words.commands;
    req.argv = words.v ? words.v : (char *const *)jobspec_command(j->spec->js, NULL);
    if (envbuf) {
        req.env = envbuf;
    } else if (j->env) {
        req.env = j->env->data;
        req.envlen = j->env->len;
    }
    if ((rc = exec_launchbuf_add((launchbuf_t *)buf, &req)) < 0)
        errmsg_set(err, "wrexec cannot be notified of it: %s", strerror(errno));
out:
    saved = errno;
    json_decref(l.nodes);
    json_decref(l.rlimits);
    json_decref(l.softlimits);
    plan_free(&p);
    words_free(&words);
    free(names);
    free(envbuf);
    free(files);
    errno = saved;
    return rc;
}

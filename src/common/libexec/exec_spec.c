/* exec_spec.c - parsing of a job: see exec_spec.h.
 *
 * Invariants:
 *  1. Every error is found here, by a single instance, rank 0, before anything is started; the
 *     instances below read the same bytes.
 *  2. The groups of equal nodes can interleave.  Node numbers follow ranks, so the layout
 *     consists of the ranges of all groups, sorted.
 */
#include "config.h"
#include "exec_spec.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "libidset/hostlist.h"
#include "libutil/rlimits.h"

struct spec_group {
    idset_t *ranks;
    uint32_t each;
    const char *cores;
    const char *gpus;
    uint64_t memory;
};

struct word {
    const char *word;
    uint32_t value;
};

static const struct word layouts[] = {{"block", 0}, {"cyclic", WIRE_F_CYCLIC}, {NULL, 0}};
static const struct word inputs[] = {
    {"none", WIRE_F_STDIN_NONE}, {"first", 0}, {"all", WIRE_F_STDIN_ALL}, {NULL, 0}};
static const struct word outputs[] = {{"kvs", SPEC_OUTPUT_KVS},
                                      {"client", SPEC_OUTPUT_CLIENT},
                                      {"none", SPEC_OUTPUT_NONE},
                                      {NULL, 0}};
static const struct word affinities[] = {
    {"off", 0}, {"on", WIRE_F_BIND}, {"per-task", WIRE_F_BIND_TASK}, {NULL, 0}};
static const struct word gpus[] = {
    {"per-task", 0}, {"on", WIRE_F_GPU_ALL}, {"off", WIRE_F_GPU_OFF}, {NULL, 0}};
static const struct word mpis[] = {{"both", WIRE_F_MPI_BOTH},
                                   {"pmi", 0},
                                   {"pmix", WIRE_F_MPI_PMIX},
                                   {"none", WIRE_F_MPI_NONE},
                                   {NULL, 0}};

/* The first word of each table is the default. */
static int choose(const struct word *tab, const char *what, const char *word, uint32_t *value,
                  errmsg_t *err)
{
    for (*value = tab->value; word && tab->word; tab++) {
        if (strcmp(tab->word, word) == 0) {
            *value = tab->value;
            return 0;
        }
    }
    return word ? errmsg_fail(err, EINVAL, "%s: '%s' is unknown", what, word) : 0;
}

static int read_words(struct spec *s, errmsg_t *err)
{
    const struct wrexec_launch *w = &s->w;
    uint32_t v, out = 0;

    if (choose(layouts, "layout", w->layout, &v, err) < 0)
        return -1;
    s->flags |= v;
    if (choose(inputs, "stdin", w->input, &v, err) < 0)
        return -1;
    s->flags |= v;
    if (choose(affinities, "cpu-affinity", w->affinity, &v, err) < 0)
        return -1;
    s->flags |= v;
    if (choose(gpus, "gpu-affinity", w->gpuaffinity, &v, err) < 0)
        return -1;
    s->flags |= v;
    if (choose(mpis, "mpi", w->mpi, &v, err) < 0)
        return -1;
    s->flags |= v;
    if (choose(outputs, "output", w->output, &out, err) < 0)
        return -1;
    s->output = (enum spec_output)out;
    /* No client could send input, and no reader needs standard error apart from standard output. */
    if (out != SPEC_OUTPUT_CLIENT)
        s->flags |= WIRE_F_STDIN_NONE | WIRE_F_JOIN;
    s->flags |= (out == SPEC_OUTPUT_NONE ? WIRE_F_OUTPUT_NONE : 0) | (w->label ? WIRE_F_LABEL : 0) |
                (w->killbad ? WIRE_F_KILLBAD : 0) | (w->nested ? WIRE_F_NESTED : 0) |
                (w->memlimit ? WIRE_F_MEMORY : 0) | (w->crowded ? WIRE_F_CROWDED : 0) |
                (w->exec ? WIRE_F_EXEC | WIRE_F_MPI_NONE : 0);
    return 0;
}

static int read_limits(struct spec *s, const json_t *limits, bool carried, errmsg_t *err)
{
    const char *key;
    json_t *val;

    json_object_foreach((json_t *)limits, key, val)
    {
        json_int_t n = json_integer_value(val);
        int resource = rlimit_parse(key);

        if (resource < 0)
            return errmsg_fail(err, EINVAL, "rlimits: '%s' is unknown", key);
        if (!json_is_integer(val) || n < -1)
            return errmsg_fail(err, EINVAL, "rlimits: %s must be a number, or -1 for no limit",
                               key);
        if (s->nlimits == WIRE_LIMITS_MAX)
            return errmsg_fail(err, EINVAL, "rlimits: there are too many");
        s->limits[s->nlimits++] = (struct wire_limit){.resource = (uint32_t)resource,
                                                      .carried = carried,
                                                      .soft = n < 0 ? RLIM_INFINITY : (uint64_t)n};
    }
    return 0;
}

/* --- nodes --- */

static int ill(errmsg_t *err)
{
    return errmsg_fail(err, EPROTO, "nodes: each must be [ranks, tasks, cores, gpus, MiB]");
}

static int read_group(struct spec_group *g, const json_t *item, errmsg_t *err)
{
    const char *ranks = json_string_value(json_array_get(item, 0));
    json_int_t each = json_integer_value(json_array_get(item, 1));
    json_int_t memory = json_integer_value(json_array_get(item, 4));

    g->cores = json_string_value(json_array_get(item, 2));
    g->gpus = json_string_value(json_array_get(item, 3));
    if (json_array_size(item) != 5 || !ranks || !g->cores || !g->gpus || memory < 0 || each < 1 ||
        each > WIRE_TASKS_MAX)
        return ill(err);
    g->each = (uint32_t)each;
    g->memory = (uint64_t)memory;
    if (!(g->ranks = idset_parse(ranks, err)))
        return -1;
    return idset_empty(g->ranks) ? ill(err) : 0;
}

struct range {
    uint32_t lo, hi, each;
};

static int by_lo(const void *a, const void *b)
{
    const struct range *x = a, *y = b;

    return x->lo < y->lo ? -1 : x->lo > y->lo;
}

static int make_layout(struct spec *s, errmsg_t *err)
{
    size_t n = 0, cap = 0, pos;
    struct range *v = NULL;
    struct layout_run *runs = NULL;
    uint32_t lo, hi;
    int rc = -1;

    for (size_t i = 0; i < s->ngroups; i++)
        for (pos = 0; idset_next_range(s->groups[i].ranks, &pos, &lo, &hi);)
            cap++;
    if (!(v = calloc(cap, sizeof(*v))) || !(runs = calloc(cap, sizeof(*runs)))) {
        errmsg_fail(err, ENOMEM, "out of memory for a job");
        goto out;
    }
    for (size_t i = 0; i < s->ngroups; i++)
        for (pos = 0; idset_next_range(s->groups[i].ranks, &pos, &lo, &hi);)
            v[n++] = (struct range){lo, hi, s->groups[i].each};
    qsort(v, n, sizeof(*v), by_lo);
    for (size_t i = 0; i < n; i++) {
        if (i > 0 && v[i].lo <= v[i - 1].hi) {
            errmsg_fail(err, EPROTO, "nodes: rank %u occurs twice", v[i].lo);
            goto out;
        }
        runs[i] = (struct layout_run){v[i].hi - v[i].lo + 1, v[i].each};
    }
    s->layout =
        exec_layout_create(s->flags & WIRE_F_CYCLIC ? LAYOUT_CYCLIC : LAYOUT_BLOCK, runs, n, err);
    rc = s->layout ? 0 : -1;
out:
    free(v);
    free(runs);
    return rc;
}

static int read_nodes(struct spec *s, uint32_t size, errmsg_t *err)
{
    size_t n = json_array_size(s->w.nodes);

    if (n == 0)
        return ill(err);
    if (!(s->groups = calloc(n, sizeof(*s->groups))) || !(s->ranks = idset_create()))
        return errmsg_fail(err, ENOMEM, "out of memory for a job");
    for (; s->ngroups < n; s->ngroups++) {
        struct spec_group *g = &s->groups[s->ngroups];

        if (read_group(g, json_array_get(s->w.nodes, s->ngroups), err) < 0) {
            idset_destroy(g->ranks);
            return -1;
        }
        if (idset_add(s->ranks, g->ranks) < 0) {
            idset_destroy(g->ranks);
            return errmsg_fail(err, ENOMEM, "out of memory for a job");
        }
    }
    if (idset_last(s->ranks) >= size)
        return errmsg_fail(err, EINVAL, "nodes: there is no rank %u", idset_last(s->ranks));
    return make_layout(s, err);
}

/* --- room --- */

static uint32_t room_of(const struct spec_group *g)
{
    idset_t *cores = g->cores[0] ? idset_parse(g->cores, NULL) : NULL;
    size_t n = idset_count(cores);

    idset_destroy(cores);
    return n > g->each ? (n < WIRE_TASKS_MAX ? (uint32_t)n : WIRE_TASKS_MAX) : g->each;
}

uint32_t exec_spec_room(const struct spec *s, uint32_t rank)
{
    const struct spec_group *g = s->groups;

    if (s->w.overcommit)
        return WIRE_TASKS_MAX;
    while (!idset_test(g->ranks, rank) && g + 1 < s->groups + s->ngroups)
        g++;
    return room_of(g);
}

static uint32_t universe(const struct spec *s)
{
    uint64_t n = 0;

    if (s->w.parent)
        return s->w.universe;
    for (size_t i = 0; i < s->ngroups; i++)
        n += (uint64_t)room_of(&s->groups[i]) * idset_count(s->groups[i].ranks);
    return n < LAYOUT_TASKS_MAX ? (uint32_t)n : LAYOUT_TASKS_MAX;
}

/* --- several programs, and spawned tasks --- */

/* A number of an entry; 0 if it is not a number or above `max`. */
static uint32_t number(const json_t *item, size_t i, json_int_t max)
{
    json_int_t n = json_integer_value(json_array_get(item, i));

    return n < 0 || n > max ? 0 : (uint32_t)n;
}

static int read_commands(struct spec *s, errmsg_t *err)
{
    size_t n = json_array_size(s->w.commands);
    uint64_t tasks = 0;

    if (n > WIRE_COMMANDS_MAX || (s->w.parent ? n == 0 : s->w.first > 0))
        return errmsg_fail(err, EPROTO,
                           "commands: there must be at most %u, and at least one for spawned tasks",
                           WIRE_COMMANDS_MAX);
    if (n > 0 && !(s->commands = calloc(n, sizeof(*s->commands))))
        return errmsg_fail(err, ENOMEM, "out of memory for a job");
    for (; s->ncommands < n; s->ncommands++) {
        const json_t *item = json_array_get(s->w.commands, s->ncommands);
        struct wire_command *c = &s->commands[s->ncommands];

        *c = (struct wire_command){.ntasks = number(item, 0, LAYOUT_TASKS_MAX),
                                   .argc = number(item, 1, UINT32_MAX),
                                   .envc = number(item, 2, UINT32_MAX)};
        if (json_array_size(item) != 3 || c->ntasks == 0 || c->argc <= WIRE_COMMAND_ARGV)
            return errmsg_fail(err, EPROTO, "commands: each must be [tasks, words, changes]");
        tasks += c->ntasks;
    }
    if (n > 0 && tasks != exec_layout_ntasks(s->layout))
        return errmsg_fail(err, EPROTO, "commands: they have %" PRIu64 " tasks, and the nodes %u",
                           tasks, exec_layout_ntasks(s->layout));
    return 0;
}

struct spec *exec_spec_create(const char *json, size_t len, uint32_t size, uint64_t *id,
                              errmsg_t *err)
{
    struct spec *s = calloc(1, sizeof(*s));

    *id = 0;
    if (!s) {
        errmsg_fail(err, ENOMEM, "out of memory for a job");
        return NULL;
    }
    if (!(s->owner = flux_schema_decode(&wrexec_launch_schema, json, len, &s->w, err)))
        goto fail;
    *id = s->id = s->w.id;
    if (s->id == 0) {
        errmsg_fail(err, EPROTO, "id: must be greater than 0");
        goto fail;
    }
    if (read_words(s, err) < 0 || read_limits(s, s->w.rlimits, false, err) < 0 ||
        read_limits(s, s->w.softlimits, true, err) < 0 || read_nodes(s, size, err) < 0 ||
        read_commands(s, err) < 0)
        goto fail;
    s->universe = universe(s);
    if (s->w.mask < 0 || s->w.mask > 0777 + 1) {
        errmsg_fail(err, EINVAL, "mask: must be 0 to 512");
        goto fail;
    }
    if (!(s->w.grace >= 0 && s->w.grace < 1e6)) {
        errmsg_fail(err, EINVAL, "grace: must be a number of seconds");
        goto fail;
    }
    if (!(s->w.expiration >= 0 && s->w.expiration < 1e12)) {
        errmsg_fail(err, EINVAL, "expiration: must be in seconds since 1970");
        goto fail;
    }
    return s;
fail:
    exec_spec_destroy(s);
    return NULL;
}

void exec_spec_destroy(struct spec *s)
{
    int errnum = errno;

    if (!s)
        return;
    for (size_t i = 0; i < s->ngroups; i++)
        idset_destroy(s->groups[i].ranks);
    free(s->groups);
    free(s->commands);
    idset_destroy(s->ranks);
    exec_layout_destroy(s->layout);
    json_decref(s->owner);
    free(s);
    errno = errnum;
}

/* How many members are below `rank`. */
static uint32_t place(const idset_t *ranks, uint32_t rank)
{
    uint32_t n = 0, lo, hi;
    size_t pos = 0;

    while (idset_next_range(ranks, &pos, &lo, &hi) && lo < rank)
        n += (hi < rank ? hi + 1 : rank) - lo;
    return n;
}

void exec_spec_node(const struct spec *s, uint32_t rank, struct exec_spec_node *n)
{
    const struct spec_group *g = s->groups;

    while (!idset_test(g->ranks, rank) && g + 1 < s->groups + s->ngroups)
        g++;
    *n = (struct exec_spec_node){.node = place(s->ranks, rank),
                                 .count = g->each,
                                 .cores = g->cores,
                                 .gpus = g->gpus,
                                 .memory = g->memory};
    if (s->w.names) {
        hostlist_t *hl = hostlist_parse(s->w.names, NULL);

        if (!hl || !hostlist_nth(hl, n->node, n->name, sizeof(n->name)))
            n->name[0] = '\0';
        hostlist_destroy(hl);
    }
}

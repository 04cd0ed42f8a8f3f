/* bind.c - binds tasks to cores.
 *
 * Purpose: hwloc reports the processors of each core, with the core numbers of the inventory.  The
 * shared object with hwloc (hwloc_map.c) is mapped for the first job whose tasks are to be bound,
 * read once, and unmapped; the launcher keeps one set of processors per core.
 *
 * Core numbers that this machine does not have mean that a configuration gives the resources of the
 * session: the tasks are then not bound, and the job does not fail.
 *
 * Failure: while hwloc reports nothing, tasks are not bound, and each job concerned gets a note;
 * the next job tries again.
 */
#include "config.h"
#include "launcher.h"

#include <dlfcn.h>
#include <stdlib.h>

#include "hwloc_map.h"

#define OBJECT "launcher-hwloc.so"

struct bind {
    cpu_set_t *cores;
    size_t n;
};

static cpu_set_t *read_cores(size_t *n, errmsg_t *err)
{
    void *dl = object_open(OBJECT, err);
    const struct hwloc_map *map;
    cpu_set_t *cores = NULL;

    if (!dl)
        return NULL;
    map = dlsym(dl, HWLOC_MAP_SYMBOL);
    if (!map || map->abi != HWLOC_MAP_ABI)
        errmsg_set(err, OBJECT " is of another version");
    else
        cores = map->read(NULL, n, err->text, sizeof(err->text));
    dlclose(dl);
    return cores;
}

static struct bind *bind_create(errmsg_t *err)
{
    struct bind *b = calloc(1, sizeof(*b));

    if (!b)
        errmsg_set(err, "no memory");
    else if (!(b->cores = read_cores(&b->n, err))) {
        free(b);
        b = NULL;
    }
    return b;
}

void bind_destroy(struct bind *b)
{
    if (!b)
        return;
    free(b->cores);
    free(b);
}

static const cpu_set_t *cpus_of(struct nodejob *j, const idset_t *cores)
{
    const struct bind *b = j->l->bind;

    if (idset_empty(cores) || idset_last(cores) >= b->n)
        return NULL;
    CPU_ZERO(&j->cpus);
    for (uint32_t c = idset_first(cores); c != IDSET_NONE; c = idset_next(cores, c))
        CPU_OR(&j->cpus, &j->cpus, &b->cores[c]);
    return CPU_COUNT(&j->cpus) ? &j->cpus : NULL;
}

static bool bind_ready(struct nodejob *j)
{
    struct launcher *l = j->l;
    errmsg_t err;

    if (l->bind || j->unbound)
        return l->bind && !j->unbound;
    if ((l->bind = bind_create(&err)))
        return true;
    j->unbound = true;
    launcher_send_note(j, "tasks are not bound to cores on %s: %s", nodejob_node_name(j), err.text);
    return false;
}

const cpu_set_t *bind_task(struct nodejob *j, const struct task *t)
{
    const cpu_set_t *set;
    idset_t *share;

    if (!(j->run.flags & (WIRE_F_BIND | WIRE_F_BIND_TASK)) || idset_empty(j->cores) ||
        !bind_ready(j))
        return NULL;
    if (j->run.flags & WIRE_F_BIND)
        return t == j->tasks || !CPU_COUNT(&j->cpus) ? cpus_of(j, j->cores) : &j->cpus;
    share = env_task_cores(j, t);
    set = cpus_of(j, share);
    idset_destroy(share);
    return set;
}

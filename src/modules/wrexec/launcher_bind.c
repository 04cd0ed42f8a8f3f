/* Binding tasks to cores.
 *
 * Cores are numbered as hwloc numbers them: by package, and in it by their first processor; only
 * those count that the process may use at all.  A core's set has all its hardware threads.  The
 * topology is read from /sys at the first job that is to be bound.
 *
 * Numbers of cores that this machine does not have mean that the resources of the session are
 * emulated: then nothing is bound, and nothing fails.
 */
#include "config.h"
#include "launcher.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libutil/fdutil.h"
#include "libutil/strutil.h"

struct core {
    int package;
    int id;    /* the first of all its processors: the kernel's core_id may be there once a die */
    int first; /* its first processor that may be used */
    cpu_set_t cpus;
};

struct bind {
    struct core *cores;
    size_t n;
};

static int read_number(int cpu, const char *name)
{
    char path[128], *text;
    size_t len;
    int val = -1;

    snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%d/topology/%s", cpu, name);
    if (file_read_all(path, 64, &text, &len) < 0)
        return -1;
    if (sscanf(text, "%d", &val) != 1)
        val = -1;
    free(text);
    return val;
}

/* What the machine allows, whatever we were bound to by whoever started us. */
static int allowed(cpu_set_t *set)
{
    cpu_set_t own, all;
    int rc;

    if (sched_getaffinity(0, sizeof(own), &own) < 0)
        return -1;
    memset(&all, 0xff, sizeof(all));
    rc = sched_setaffinity(0, sizeof(all), &all);
    if (sched_getaffinity(0, sizeof(*set), set) < 0)
        *set = own;
    if (rc == 0)
        sched_setaffinity(0, sizeof(own), &own);
    return 0;
}

static int by_place(const void *a, const void *b)
{
    const struct core *x = a, *y = b;

    if (x->package != y->package)
        return x->package < y->package ? -1 : 1;
    return x->first < y->first ? -1 : x->first > y->first;
}

static struct bind *bind_create(void)
{
    struct bind *b = calloc(1, sizeof(*b));
    cpu_set_t set;
    int count;

    if (!b || allowed(&set) < 0 || (count = CPU_COUNT(&set)) == 0 ||
        !(b->cores = calloc((size_t)count, sizeof(*b->cores)))) {
        bind_destroy(b);
        return NULL;
    }
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        int package, id;
        size_t i = 0;

        if (!CPU_ISSET(cpu, &set))
            continue;
        package = read_number(cpu, "physical_package_id");
        id = read_number(cpu, "thread_siblings_list");
        while (i < b->n && (id < 0 || b->cores[i].package != package || b->cores[i].id != id))
            i++;
        if (i == b->n)
            b->cores[b->n++] = (struct core){.package = package, .id = id, .first = cpu};
        CPU_SET(cpu, &b->cores[i].cpus);
    }
    qsort(b->cores, b->n, sizeof(*b->cores), by_place);
    return b;
}

void bind_destroy(struct bind *b)
{
    if (!b)
        return;
    free(b->cores);
    free(b);
}

static const cpu_set_t *cpus_of(struct job *j, const idset_t *cores)
{
    const struct bind *b = j->l->bind;

    if (idset_empty(cores) || idset_last(cores) >= b->n)
        return NULL;
    CPU_ZERO(&j->cpus);
    for (uint32_t c = idset_first(cores); c != IDSET_NONE; c = idset_next(cores, c))
        CPU_OR(&j->cpus, &j->cpus, &b->cores[c].cpus);
    return &j->cpus;
}

const cpu_set_t *bind_task(struct job *j, const struct task *t)
{
    const cpu_set_t *set;
    idset_t *share;

    if (!(j->run.flags & (WIRE_F_BIND | WIRE_F_BIND_TASK)) || idset_empty(j->cores))
        return NULL;
    if (!j->l->bind && !(j->l->bind = bind_create()))
        return NULL;
    if (j->run.flags & WIRE_F_BIND)
        return t == j->tasks || !CPU_COUNT(&j->cpus) ? cpus_of(j, j->cores) : &j->cpus;
    share = env_task_cores(j, t);
    set = cpus_of(j, share);
    idset_destroy(share);
    return set;
}

/* check_hwloc_map.c - the processors of a core: numbered as hwloc numbers cores, whatever the
 * numbers of processors, and determined by this machine alone. */
#include "config.h"
#include <hwloc.h>
#include <stdlib.h>
#include <string.h>

#include "libutil/test/suite.h"
#include "../hwloc_map.h"

extern const struct hwloc_map flux_launcher_hwloc_map;

static cpu_set_t *machine(const char *synthetic, size_t *n)
{
    char err[256] = "";
    cpu_set_t *cores = flux_launcher_hwloc_map.read(synthetic, n, err, sizeof(err));

    ck_assert_msg(cores != NULL, "%s", err);
    return cores;
}

/* Format the processors of the cores, one core after the other: "0,4 2,6 ...". */
static void text_of(const cpu_set_t *cores, size_t n, char *buf)
{
    *buf = '\0';
    for (size_t i = 0; i < n; i++) {
        const char *sep = i ? " " : "";

        for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
            if (CPU_ISSET(cpu, &cores[i])) {
                buf += sprintf(buf, "%s%d", sep, cpu);
                sep = ",";
            }
        }
    }
}

static const struct {
    const char *synthetic, *cores;
} orders[] = {
    {"pack:2 core:2 pu:1", "0 1 2 3"},
    {"pack:2 core:2 pu:1(indexes=0,2,1,3)", "0 2 1 3"},
    {"pack:2 core:2 pu:2(indexes=0,4,2,6,1,5,3,7)", "0,4 2,6 1,5 3,7"},
    {"pack:1 die:2 core:2 pu:1(indexes=0,2,1,3)", "0 2 1 3"},
    {"pack:1 l3:2 core:2 pu:1(indexes=0,2,1,3)", "0 2 1 3"},
    {"pack:2 group:2 [numa] core:2 pu:1(indexes=0,2,1,3,4,6,5,7)", "0 2 1 3 4 6 5 7"},
    {"pack:2 pu:2(indexes=0,2,1,3)", "0 2 1 3"}, /* without cores, processors count as cores */
};

START_TEST(order)
{
    char text[256];
    size_t n;

    for (size_t i = 0; i < sizeof(orders) / sizeof(orders[0]); i++) {
        cpu_set_t *cores = machine(orders[i].synthetic, &n);

        text_of(cores, n, text);
        ck_assert_msg(strcmp(text, orders[i].cores) == 0, "%s: %s", orders[i].synthetic, text);
        free(cores);
    }
}
END_TEST

/* The number of a core is the one that lstopo shows: the logical index of hwloc when nothing is
 * left out. */
START_TEST(logical)
{
    for (size_t i = 0; i < sizeof(orders) / sizeof(orders[0]); i++) {
        hwloc_obj_type_t type;
        hwloc_topology_t t;
        cpu_set_t *cores;
        size_t n;

        ck_assert_int_eq(hwloc_topology_init(&t), 0);
        ck_assert_int_eq(hwloc_topology_set_synthetic(t, orders[i].synthetic), 0);
        ck_assert_int_eq(hwloc_topology_load(t), 0);
        type = strstr(orders[i].synthetic, "core") ? HWLOC_OBJ_CORE : HWLOC_OBJ_PU;
        cores = machine(orders[i].synthetic, &n);
        ck_assert_uint_eq(n, (size_t)hwloc_get_nbobjs_by_type(t, type));
        for (unsigned c = 0; c < n; c++) {
            hwloc_const_cpuset_t set = hwloc_get_obj_by_type(t, type, c)->cpuset;

            ck_assert_int_eq(CPU_COUNT(&cores[c]), hwloc_bitmap_weight(set));
            for (int cpu = hwloc_bitmap_first(set); cpu >= 0; cpu = hwloc_bitmap_next(set, cpu))
                ck_assert(CPU_ISSET(cpu, &cores[c]));
        }
        free(cores);
        hwloc_topology_destroy(t);
    }
}
END_TEST

START_TEST(refused)
{
    char err[256] = "";
    size_t n;

    ck_assert_ptr_null(flux_launcher_hwloc_map.read("no machine", &n, err, sizeof(err)));
    ck_assert_msg(strstr(err, "cannot read no machine: ") != NULL, "%s", err);
}
END_TEST

/* On this machine each processor that the process may use belongs to one core.  Variables do not
 * change that, and are there afterwards. */
START_TEST(live)
{
    static const char *const names[] = {"HWLOC_XMLFILE", "HWLOC_SYNTHETIC", "HWLOC_FSROOT",
                                        "HWLOC_COMPONENTS", "HWLOC_PLUGINS_PATH"};
    static const char *const values[] = {"/nowhere.xml", "pack:1 core:77 pu:1", "/nowhere",
                                         "synthetic,stop", "/nowhere"};
    cpu_set_t own, *cores, *again;
    size_t n, m;

    ck_assert_int_eq(sched_getaffinity(0, sizeof(own), &own), 0);
    cores = machine(NULL, &n);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        int in = 0;

        for (size_t i = 0; i < n; i++)
            in += CPU_ISSET(cpu, &cores[i]) ? 1 : 0;
        ck_assert_int_le(in, 1);
        ck_assert(in || !CPU_ISSET(cpu, &own));
    }
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        ck_assert_int_eq(setenv(names[i], values[i], 1), 0);
    again = machine(NULL, &m);
    ck_assert_uint_eq(n, m);
    ck_assert_mem_eq(cores, again, n * sizeof(*cores));
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        ck_assert_str_eq(getenv(names[i]), values[i]);
    free(again);
    free(cores);
}
END_TEST

/* A process bound to one processor keeps the numbers of cores, and of its own core the processor
 * that it may use. */
START_TEST(bound)
{
    cpu_set_t own, one, *cores, *now;
    size_t n, m, at;
    int cpu = 0;

    cores = machine(NULL, &n);
    ck_assert_int_eq(sched_getaffinity(0, sizeof(own), &own), 0);
    for (int i = 0; i < CPU_SETSIZE; i++)
        if (CPU_ISSET(i, &own))
            cpu = i;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    ck_assert_int_eq(sched_setaffinity(0, sizeof(one), &one), 0);
    now = machine(NULL, &m);
    ck_assert_int_eq(sched_setaffinity(0, sizeof(own), &own), 0);
    ck_assert_uint_eq(n, m);
    for (at = 0; at < n && !CPU_ISSET(cpu, &cores[at]); at++)
        ;
    ck_assert_uint_lt(at, n);
    ck_assert(CPU_EQUAL(&now[at], &one));
    for (size_t i = 0; i < n; i++)
        ck_assert(i == at || CPU_COUNT(&now[i]) >= CPU_COUNT(&cores[i]));
    free(cores);
    free(now);
}
END_TEST

int main(void)
{
    RUN_SUITE("hwloc_map", order, logical, refused, live, bound);
}

/* check_resgraph_topology.c - switches as places of an inventory. */
#include "config.h"
#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "libresource/resgraph_switches.h"
#include "libresource/resgraph_topology.h"
#include "libutil/test/suite.h"

static resgraph_t *inventory(const char *ranks, const char *hosts)
{
    idset_t *ids = idset_parse(ranks, NULL);
    idset_t *cores = idset_create_range(0, 1);
    struct resgraph_node desc = {.cores = cores};
    resgraph_t *g = resgraph_create();
    errmsg_t err = {""};

    ck_assert_msg(resgraph_add(g, ids, hosts, &desc, &err) == 0, "%s", err.text);
    idset_destroy(ids);
    idset_destroy(cores);
    return g;
}

static void leaf_is(const resgraph_t *g, uint32_t rank, const char *name, const char *pod)
{
    ssize_t at = resgraph_place_of(g, "leaf", rank);
    struct resgraph_place p, up;

    ck_assert(at >= 0 && resgraph_place(g, (size_t)at, &p));
    ck_assert_str_eq(p.name, name);
    ck_assert(p.parent >= 0 && resgraph_place(g, (size_t)p.parent, &up));
    ck_assert_str_eq(up.level, "pod");
    ck_assert_str_eq(up.name, pod);
}

/* Ranks keep their places whether the others are there or not. */
START_TEST(regular)
{
    resgraph_t *g = inventory("0-3,6,8-17", "n[0-14]");
    errmsg_t err = {""};
    fattree_t *t = fattree_parse("2,3,3", &err);

    ck_assert_msg(resgraph_set_topology(g, t, "2,3,3", &err) == 0, "%s", err.text);
    leaf_is(g, 3, "leaf1", "pod0");
    leaf_is(g, 6, "leaf2", "pod0");
    leaf_is(g, 17, "leaf5", "pod1");
    /* Once more: they are replaced. */
    ck_assert_msg(resgraph_set_topology(g, t, "2,3,3", &err) == 0, "%s", err.text);
    ck_assert_uint_eq(resgraph_nplaces(g), 1 + 2 + 6);
    fattree_destroy(t);
    t = fattree_parse("2,2,4", &err);
    ck_assert_int_eq(resgraph_set_topology(g, t, "2,2,4", &err), -1);
    ck_assert_int_eq(errno, EINVAL);
    ck_assert_str_eq(err.text, "the tree 2,2,4 has 16 nodes: there is no place for rank 16");
    ck_assert_uint_eq(resgraph_nplaces(g), 0);
    fattree_destroy(t);
    resgraph_destroy(g);
}
END_TEST

static const char conf[] = "SwitchName=s0 Nodes=n[0-1]\nSwitchName=s1 Nodes=n[2-3]\n"
                           "SwitchName=s2 Nodes=x[0-9]\nSwitchName=p0 Switches=s[0-1]\n"
                           "SwitchName=p1 Switches=s2\nSwitchName=top Switches=p[0-1]\n";

/* By hosts; those that the session does not have are passed over. */
START_TEST(from_a_file)
{
    resgraph_t *g = inventory("0-4", "n[0-3,0]");
    struct resgraph_switches sw;
    struct resgraph_place p = {.level = "rack", .name = "r0", .parent = -1};
    errmsg_t err = {""};
    fattree_t *t = fattree_parse_conf(conf, strlen(conf), "t.conf", &err);

    ck_assert_msg(t != NULL, "%s", err.text);
    ck_assert_int_eq(resgraph_add_place(g, &p, &err), 0);
    ck_assert_msg(resgraph_set_topology(g, t, "t.conf", &err) == 0, "%s", err.text);
    leaf_is(g, 0, "s0", "p0");
    leaf_is(g, 3, "s1", "p0");
    leaf_is(g, 4, "s0", "p0");
    ck_assert_int_eq(resgraph_find_place(g, "leaf", "s2"), -1);
    ck_assert_int_ge(resgraph_find_place(g, "rack", "r0"), 0);
    ck_assert_int_eq(resgraph_switches(g, &sw), 0);
    ck_assert_uint_eq(sw.nleaves, 2);
    ck_assert_uint_eq(sw.npods, 1);
    ck_assert_uint_eq(sw.leaf[4], 0);
    resgraph_switches_clear(&sw);
    resgraph_destroy(g);
    g = inventory("0-1", "n[3-4]");
    ck_assert_int_eq(resgraph_set_topology(g, t, "t.conf", &err), -1);
    ck_assert_str_eq(err.text, "t.conf: node n4 (rank 1) is not connected to a switch");
    resgraph_destroy(g);
    fattree_destroy(t);
}
END_TEST

int main(void)
{
    RUN_SUITE("resgraph_topology", regular, from_a_file);
}

/* check_fattree.c - regular machines, and topology.conf: what is taken, and what is refused with
 * which line. */
#include "config.h"
#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "libtopology/fattree.h"
#include "libutil/fdutil.h"
#include "libutil/test/suite.h"

static fattree_t *conf(const char *text, errmsg_t *err)
{
    return fattree_parse_conf(text, strlen(text), "test.conf", err);
}

START_TEST(regular)
{
    errmsg_t err;
    fattree_t *t = fattree_parse("2,3,4", &err);

    ck_assert_ptr_nonnull(t);
    ck_assert_uint_eq(fattree_nnodes(t), 24);
    ck_assert_uint_eq(fattree_nleaves(t), 6);
    ck_assert_uint_eq(fattree_npods(t), 2);
    ck_assert_uint_eq(fattree_leaf_max(t), 4);
    for (uint32_t n = 0; n < 24; n++) {
        ck_assert_uint_eq(fattree_leaf(t, n), n / 4);
        ck_assert_uint_eq(fattree_pod(t, n / 4), n / 12);
    }
    ck_assert_uint_eq(fattree_leaf(t, 24), FATTREE_NONE);
    ck_assert_uint_eq(fattree_pod(t, 6), FATTREE_NONE);
    ck_assert_ptr_null(fattree_node_name(t, 0));
    fattree_destroy(t);
    fattree_destroy(NULL);
}
END_TEST

START_TEST(bad_specs)
{
    static const char *const bad[] = {"",
                                      "4",
                                      "4,18",
                                      "4,18,18,1",
                                      "4,18,",
                                      "0,1,1",
                                      "1,0,1",
                                      "1,1,0",
                                      "-1,2,3",
                                      "a,b,c",
                                      "4, 2,1",
                                      "1,1,1x",
                                      "4294967296,1,1",
                                      "65536,65536,65536",
                                      "2,1024,1024"};
    errmsg_t err;

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        errno = 0;
        ck_assert_msg(fattree_parse(bad[i], &err) == NULL, "%s", bad[i]);
        ck_assert_int_eq(errno, EINVAL);
    }
    ck_assert_ptr_null(fattree_parse("x", NULL));
}
END_TEST

/* Unequal leaves and pods, keywords in any case, comments, continuations, CR LF; the children of
 * the root are described after it, and not in its order. */
static const char unequal[] = "# a machine\r\n"
                              "\r\n"
                              "switchname=core SWITCHES=p[1-2]\r\n"
                              "SwitchName=p2 Switches=s3 # one leaf\n"
                              "SwitchName=s1 Nodes=n[4-5] LinkSpeed=100\n"
                              "SwitchName=p1 \\\n"
                              "   Switches=s2,s1\n"
                              "SwitchName=s3 nodes=x,n[1-3],y\n"
                              "SwitchName=s2 Nodes=z";

START_TEST(unequal_file)
{
    static const char *const nodes[] = {"z", "n4", "n5", "x", "n1", "n2", "n3", "y"};
    static const uint32_t leaves[] = {0, 1, 1, 2, 2, 2, 2, 2};
    struct fattree_switch sw;
    errmsg_t err = {""};
    fattree_t *t = conf(unequal, &err);

    ck_assert_msg(t != NULL, "%s", err.text);
    ck_assert_uint_eq(fattree_nnodes(t), 8);
    ck_assert_uint_eq(fattree_nleaves(t), 3);
    ck_assert_uint_eq(fattree_npods(t), 2);
    ck_assert_uint_eq(fattree_leaf_max(t), 5);
    for (uint32_t n = 0; n < 8; n++) {
        ck_assert_str_eq(fattree_node_name(t, n), nodes[n]);
        ck_assert_uint_eq(fattree_find(t, nodes[n]), n);
        ck_assert_uint_eq(fattree_leaf(t, n), leaves[n]);
    }
    ck_assert_uint_eq(fattree_find(t, "n6"), FATTREE_NONE);
    ck_assert_str_eq(fattree_leaf_name(t, 0), "s2");
    ck_assert_str_eq(fattree_leaf_name(t, 2), "s3");
    ck_assert_str_eq(fattree_pod_name(t, 0), "p1");
    ck_assert_str_eq(fattree_pod_name(t, 1), "p2");
    ck_assert_uint_eq(fattree_pod(t, 1), 0);
    ck_assert_uint_eq(fattree_pod(t, 2), 1);
    ck_assert(fattree_switch(t, 0, &sw));
    ck_assert_str_eq(sw.name, "core");
    ck_assert_uint_eq(sw.level, 2);
    ck_assert_uint_eq(sw.nnodes, 8);
    ck_assert_uint_eq(sw.parent, FATTREE_NONE);
    ck_assert(fattree_switch(t, 3, &sw));
    ck_assert_str_eq(sw.name, "s1");
    ck_assert_uint_eq(sw.speed, 100);
    ck_assert_uint_eq(sw.parent, 1);
    ck_assert_uint_eq(sw.leaf, 1);
    ck_assert(!fattree_switch(t, 6, &sw));
    fattree_destroy(t);
}
END_TEST

/* The switch right above a leaf is its pod, whatever else hangs there, and pods are numbered as
 * the walk meets them. */
START_TEST(pods)
{
    errmsg_t err = {""};
    fattree_t *t = conf("SwitchName=only Nodes=a,b\n", &err);

    ck_assert_msg(t != NULL, "%s", err.text);
    ck_assert_uint_eq(fattree_npods(t), 1);
    ck_assert_uint_eq(fattree_nleaves(t), 1);
    ck_assert_str_eq(fattree_pod_name(t, 0), "only");
    fattree_destroy(t);
    t = conf("SwitchName=top Switches=s[1-2]\nSwitchName=s1 Nodes=a\nSwitchName=s2 Nodes=b\n",
             &err);
    ck_assert_uint_eq(fattree_npods(t), 1);
    ck_assert_str_eq(fattree_pod_name(t, 0), "top");
    fattree_destroy(t);
    t = conf("SwitchName=top Switches=q,s9\nSwitchName=q Switches=r,s1\nSwitchName=r Switches=s0\n"
             "SwitchName=s0 Nodes=a\nSwitchName=s1 Nodes=b\nSwitchName=s9 Nodes=c\n",
             &err);
    ck_assert_msg(t != NULL, "%s", err.text);
    ck_assert_uint_eq(fattree_npods(t), 3);
    ck_assert_str_eq(fattree_pod_name(t, 0), "top");
    ck_assert_str_eq(fattree_pod_name(t, 1), "q");
    ck_assert_str_eq(fattree_pod_name(t, 2), "r");
    ck_assert_uint_eq(fattree_pod(t, fattree_leaf(t, fattree_find(t, "a"))), 2);
    ck_assert_uint_eq(fattree_pod(t, fattree_leaf(t, fattree_find(t, "c"))), 0);
    fattree_destroy(t);
}
END_TEST

START_TEST(bad_files)
{
    static const struct {
        const char *text, *says;
    } bad[] = {
        {"", "no switch"},
        {"# nothing\n\n", "no switch"},
        {"SwitchName=a Nodes=n1\nSwitchName=a Nodes=n2\n", "line 2: switch a is described"},
        {"SwitchName=a\n", "line 1: switch a has neither"},
        {"\nSwitchName=a Nodes=n Switches=b\n", "line 2: switch a has both"},
        {"Nodes=n1\n", "line 1: there is no SwitchName"},
        {"SwitchName=a Nodes\n", "line 1: 'Nodes' is not KEYWORD=VALUE"},
        {"SwitchName=a Nodes=\n", "line 1: Nodes has no value"},
        {"SwitchName=a Nodes=n1 Nodes=n2\n", "line 1: Nodes occurs twice"},
        {"SwitchName=a Ports=3\n", "line 1: 'Ports' is not a keyword"},
        {"SwitchName=a[1-2] Nodes=n1\n", "is not the name of one switch"},
        {"SwitchName=a Nodes=n[1-\n", "line 1: "},
        {"SwitchName=a Nodes=n[1-99999999]\n", "line 1: "},
        {"SwitchName=a Nodes=n1 LinkSpeed=fast\n", "line 1: LinkSpeed 'fast'"},
        {"SwitchName=a Nodes=n1,n1\n", "line 1: node n1 is below the same switch"},
        {"SwitchName=r Switches=a,b\nSwitchName=a Nodes=n1\nSwitchName=b Nodes=n2,n1\n",
         "line 3: node n1 is below switch a already"},
        {"SwitchName=r Switches=a,b\nSwitchName=a Nodes=n1\n", "line 1: switch b, below r, is not"},
        {"SwitchName=r Switches=a\nSwitchName=q Switches=a\nSwitchName=a Nodes=n1\n",
         "line 2: switch a is below r already"},
        {"SwitchName=a Nodes=n1\n\\\n\nSwitchName=b Nodes=n2\n",
         "line 4: switches a and b are both"},
        {"SwitchName=a Switches=b\nSwitchName=b Switches=a\n", "line 1: there is no root"},
        {"SwitchName=r Nodes=n1\nSwitchName=a Switches=b\nSwitchName=b Switches=a\n",
         "line 2: switch a is in a cycle"},
        {"SwitchName=a Switches=a\n", "line 1: there is no root"},
        {"SwitchName=a \\\nNodes=n1 \\\nLinkSpeed=x\n", "line 1: LinkSpeed"},
    };
    errmsg_t err;

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        errno = 0;
        err.text[0] = '\0';
        ck_assert_msg(conf(bad[i].text, &err) == NULL, "%s", bad[i].text);
        ck_assert_int_eq(errno, EINVAL);
        ck_assert_msg(strstr(err.text, bad[i].says) != NULL, "'%s' does not say '%s'", err.text,
                      bad[i].says);
        ck_assert_msg(strstr(err.text, "test.conf") != NULL, "%s", err.text);
        ck_assert_ptr_null(conf(bad[i].text, NULL));
    }
    ck_assert_ptr_null(fattree_parse_conf("a\0b", 3, "test.conf", &err));
    ck_assert_ptr_null(fattree_read_conf("/nonexistent/topology.conf", &err));
    ck_assert_int_eq(errno, ENOENT);
}
END_TEST

/* A chain of 20000 switches: no recursion. */
START_TEST(deep)
{
    size_t room = 2000000;
    char *text = malloc(room);
    size_t len = 0;
    errmsg_t err = {""};
    fattree_t *t;

    for (int i = 0; i < 20000; i++)
        len += (size_t)snprintf(text + len, room - len, "SwitchName=s%d Switches=s%d\n", i, i + 1);
    len += (size_t)snprintf(text + len, room - len, "SwitchName=s20000 Nodes=n[0-9]\n");
    t = fattree_parse_conf(text, len, "deep", &err);
    ck_assert_msg(t != NULL, "%s", err.text);
    ck_assert_str_eq(fattree_pod_name(t, 0), "s19999");
    fattree_destroy(t);
    free(text);
}
END_TEST

START_TEST(by_path)
{
    char path[] = "/tmp/fattree.XXXXXX";
    int fd = mkstemp(path);
    errmsg_t err = {""};
    fattree_t *t;

    ck_assert_int_eq(fd_write_all(fd, unequal, sizeof(unequal) - 1), 0);
    close(fd);
    t = fattree_read_conf(path, &err);
    ck_assert_msg(t != NULL, "%s", err.text);
    ck_assert_uint_eq(fattree_nnodes(t), 8);
    fattree_destroy(t);
    unlink(path);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("core");

    tcase_add_test(tc, regular);
    tcase_add_test(tc, bad_specs);
    tcase_add_test(tc, unequal_file);
    tcase_add_test(tc, pods);
    tcase_add_test(tc, bad_files);
    tcase_add_test(tc, deep);
    tcase_add_test(tc, by_path);
    return run_case("fattree", tc);
}

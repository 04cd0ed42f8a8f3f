/* check_resgraph_source.c - where inventories come from: configuration in Lua, and hwloc. */
#include "config.h"
#include <check.h>
#include <errno.h>
#include <hwloc.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "libresource/resgraph_hwloc.h"
#include "libresource/resgraph_lua.h"
#include "libutil/test/suite.h"
#include "libutil/test/text_file.h"

static resgraph_t *load(const char *text, errmsg_t *err)
{
    char path[] = TEXT_FILE;
    resgraph_t *g;
    int saved;

    text_file_create(path, text, strlen(text));
    g = resgraph_from_lua(path, NULL, err);
    saved = errno;
    unlink(path);
    errno = saved;
    return g;
}

START_TEST(lua_emulation)
{
    errmsg_t err = {""};
    resgraph_t *g =
        load("resource { nodes = 'node[0-4095]', cores = 16, sockets = 2, memory = '64G',"
             " gpus = 1, properties = 'b,a', pools = { power = '1000 kW', lic = 3 },"
             " emulate = true }",
             &err);
    char *text;

    ck_assert_msg(g != NULL, "%s", err.text);
    text = resgraph_format(g);
    ck_assert_str_eq(text, "{\"nodes\":[{\"ranks\":\"0-4095\",\"hosts\":\"node[0-4095]\","
                           "\"cores\":\"0-15\",\"gpus\":\"0\",\"memory\":65536,"
                           "\"sockets\":[\"0-7\",\"8-15\"],\"properties\":[\"a\",\"b\"]}],"
                           "\"pools\":[{\"name\":\"lic\",\"count\":3},"
                           "{\"name\":\"power\",\"count\":1000,\"unit\":\"kW\"}],"
                           "\"emulated\":true}");
    free(text);
    resgraph_destroy(g);
}
END_TEST

START_TEST(lua_groups)
{
    errmsg_t err = {""};
    resgraph_t *g = load("session { hosts = 'a', whatever = { 1, 2 } }\n"
                         "resource { { nodes = 'n[0-1]', cores = 4 },"
                         "           { nodes = 'fat1', cores = 3, sockets = 2, memory = 100 } }",
                         &err);
    struct resgraph_node n;

    ck_assert_msg(g != NULL, "%s", err.text);
    ck_assert_uint_eq(resgraph_nnodes(g), 3);
    ck_assert(resgraph_node(g, 2, &n));
    ck_assert_str_eq(n.host, "fat1");
    ck_assert_uint_eq(n.memory, 100);
    ck_assert_uint_eq(n.nsockets, 2);
    ck_assert_uint_eq(idset_count(n.sockets[0]), 1);
    ck_assert_uint_eq(idset_count(n.sockets[1]), 2);
    resgraph_destroy(g);
    g = load("resource { pools = { lic = 7 } }", &err);
    ck_assert_msg(g != NULL, "%s", err.text);
    ck_assert_uint_eq(resgraph_nnodes(g), 0);
    resgraph_destroy(g);
}
END_TEST

/* Levels that have nothing to do with each other, and a name that two levels have. */
START_TEST(lua_places)
{
    resgraph_t *g, *back;
    struct resgraph_place p;
    idset_t *ids;
    errmsg_t err;
    char *text;

    g = load("resource { nodes = 'n[0-3]', cores = 1, pools = { power = '10 kW' } } "
             "places { { level = 'row', name = 'a' }, "
             "{ level = 'rack', name = 'a', within = 'row a', nodes = 'n[0-1]', pools = 'power' }, "
             "{ level = 'rack', name = 'b', within = 'row a', nodes = 'n[2-3]' }, "
             "{ level = 'leaf', name = 's0', nodes = 'n[1-2]' } }",
             &err);
    ck_assert_msg(g != NULL, "%s", err.text);
    ck_assert_uint_eq(resgraph_nplaces(g), 4);
    ck_assert(resgraph_place(g, 1, &p));
    ck_assert_str_eq(p.level, "rack");
    ck_assert_int_eq(p.parent, 0);
    ck_assert_uint_eq(p.npools, 1);
    ck_assert_str_eq(p.pools[0], "power");
    ids = resgraph_ranks_below(g, 0);
    text = idset_format(ids, 0);
    ck_assert_str_eq(text, "0-3");
    free(text);
    idset_destroy(ids);
    ck_assert_int_eq(resgraph_place_of(g, "rack", 2), 2);
    ck_assert_int_eq(resgraph_place_of(g, "leaf", 2), 3);
    ck_assert_int_eq(resgraph_place_of(g, "leaf", 0), -1);
    text = resgraph_format(g);
    back = resgraph_parse(text, strlen(text), &err);
    ck_assert_msg(back != NULL, "%s", err.text);
    ck_assert_uint_eq(resgraph_nplaces(back), 4);
    free(text);
    resgraph_destroy(back);
    resgraph_destroy(g);
}
END_TEST

/* Racks for nodes that are found later, by host: several ranks of one, and one without a rack. */
START_TEST(lua_named_places)
{
    resgraph_t *named, *back, *found;
    idset_t *core = idset_create_range(0, 0);
    struct resgraph_node desc = {.cores = core};
    errmsg_t err;
    char *text;

    named = load("resource { pools = { power = 7 } } "
                 "places { { level = 'row', name = 'row0' }, "
                 "{ level = 'rack', name = 'r0', within = 'row0', nodes = 'n[0-2]' }, "
                 "{ level = 'rack', name = 'r1', within = 'row0', nodes = 'n[3-5]', pools = "
                 "'power' }, "
                 "{ level = 'leaf', name = 's0', nodes = 'n[2-3]' } }",
                 &err);
    ck_assert_msg(named != NULL, "%s", err.text);
    ck_assert(resgraph_named(named));
    text = resgraph_format(named);
    back = resgraph_parse(text, strlen(text), &err);
    ck_assert_msg(back != NULL, "%s", err.text);
    ck_assert(resgraph_named(back));
    free(text);
    found = resgraph_create();
    ck_assert_ptr_nonnull(found);
    /* Twice: with more nodes, all places are made anew. */
    for (uint32_t from = 0; from < 6; from += 3) {
        static const char *const hosts[] = {"n3,n2,n3", "x,n0,n5"};
        idset_t *ranks = idset_create_range(from, from + 2);

        ck_assert_int_eq(resgraph_add(found, ranks, hosts[from / 3], &desc, &err), 0);
        if (from == 0)
            ck_assert_int_eq(resgraph_add_pool(found, "power", 7, NULL, &err), 0);
        ck_assert_msg(resgraph_take_named(found, back, &err) == 0, "%s", err.text);
        ck_assert_uint_eq(resgraph_nplaces(found), 4);
        idset_destroy(ranks);
    }
    ck_assert(!resgraph_named(found));
    ck_assert_int_eq(resgraph_place_of(found, "rack", 0), 2);
    ck_assert_int_eq(resgraph_place_of(found, "rack", 1), 1);
    ck_assert_int_eq(resgraph_place_of(found, "rack", 2), 2);
    ck_assert_int_eq(resgraph_place_of(found, "rack", 3), -1);
    ck_assert_int_eq(resgraph_place_of(found, "rack", 4), 1);
    ck_assert_int_eq(resgraph_place_of(found, "rack", 5), 2);
    ck_assert_int_eq(resgraph_place_of(found, "leaf", 1), 3);
    ck_assert_int_eq(resgraph_place_of(found, "leaf", 4), -1);
    resgraph_destroy(found);
    resgraph_destroy(named);
    resgraph_destroy(back);
    idset_destroy(core);
}
END_TEST

#define ONE "resource { nodes = 'a', cores = 1 } "

START_TEST(lua_refused)
{
    static const struct {
        const char *text;
        const char *word;
        int errnum;
    } tests[] = {
        {"", "has no section", ENODATA},
        {"resource { nodes = 'a' }", "cores is missing", EINVAL},
        {"resource { cores = 3 }", "nodes is missing", EINVAL},
        {"resource { emulate = true }", "no nodes", EINVAL},
        {"resource { nodes = 'a', cores = 1.5 }", "cores must be a whole", EINVAL},
        {"resource { nodes = 'a', cores = 70000 }", "65536", EINVAL},
        {"resource { nodes = 'a', cores = 2, sockets = 3 }", "sockets", EINVAL},
        {"resource { nodes = 'a', cores = 2, memory = 'lots' }", "memory", EINVAL},
        {"resource { nodes = 'a', cores = 2, memory = -1 }", "memory", EINVAL},
        {"resource { nodes = 'a[', cores = 2 }", "nodes", EINVAL},
        {"resource { nodes = '', cores = 2 }", "nodes is empty", EINVAL},
        {"resource { nodes = 'a', cores = 2, properties = 'x,,y' }", "property", EINVAL},
        {"resource { nodes = 'a', cores = 2, color = 1 }", "color", EINVAL},
        {"resource { nodes = 'a', xml = '/nowhere' }", "xml", EINVAL},
        {"resource { { cores = 2 } }", "resource[1].nodes is missing", EINVAL},
        {"resource { pools = { x = 'much' } }", "pool x", EINVAL},
        {"resource { pools = { x = -4 } }", "pool x", EINVAL},
        {"while true do end", "too long", EINVAL},
        {"places { { level = 'rack', name = 'r', nodes = 'a[' } }", "places[1]: ", EINVAL},
        {"places { { level = 'rack', name = 'r', pools = 'p' } }", "pool p", EINVAL},
        {"places { { level = 'rack', name = 'r', nodes = 'a' }, "
         "{ level = 'rack', name = 's', nodes = 'a' } }",
         "places[2]: node a is already in rack r", EINVAL},
        {"resource { emulate = true } places { { level = 'rack', name = 'r', nodes = 'a' } }",
         "no nodes", EINVAL},
        {ONE "places { level = 'rack' }", "a list of tables", EINVAL},
        {ONE "places { { level = 'rack' } }", "places[1].name is missing", EINVAL},
        {ONE "places { { level = 'rack', name = 'r 0' } }", "places[1]: a place must have", EINVAL},
        {ONE "places { { level = 'rack', name = 'r', within = 'x' } }", "no place 'x'", EINVAL},
        {ONE "places { { level = 'rack', name = 'r' }, { level = 'rack', name = 'r' } }",
         "places[2]: rack r occurs twice", EINVAL},
        {ONE "places { { level = 'rack', name = 'a' }, { level = 'row', name = 'a' }, "
             "{ level = 'leaf', name = 'l', within = 'a' } }",
         "several places", EINVAL},
        {ONE "places { { level = 'rack', name = 'r', nodes = 'b' } }", "b", EINVAL},
        {ONE "places { { level = 'rack', name = 'r', pools = 'p' } }", "pool p", EINVAL},
        {ONE "places { { level = 'rack', name = 'r', nodes = 'a' }, "
             "{ level = 'rack', name = 's', nodes = 'a' } }",
         "rank 0 is already in rack r", EINVAL},
    };

    for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++) {
        errmsg_t err = {""};

        ck_assert_msg(!load(tests[i].text, &err), "%s", tests[i].text);
        ck_assert_msg(errno == tests[i].errnum, "%s: errno %d", tests[i].text, errno);
        ck_assert_msg(strstr(err.text, tests[i].word) != NULL, "%s: %s", tests[i].text, err.text);
        ck_assert_msg(strncmp(err.text, "/tmp/flux-text-", 15) == 0, "%s", err.text);
    }
}
END_TEST

/* As lstopo writes it, shortened: two packages of two cores, an NVIDIA card, a console, a BMC. */
static const char xml[] =
    "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
    "<!DOCTYPE topology SYSTEM \"hwloc2.dtd\">\n"
    "<topology version=\"2.0\">\n"
    " <object type=\"Machine\" os_index=\"0\" cpuset=\"0x0000000f\" complete_cpuset=\"0x0000000f\""
    " allowed_cpuset=\"0x0000000f\" nodeset=\"0x00000003\" complete_nodeset=\"0x00000003\""
    " allowed_nodeset=\"0x00000003\" gp_index=\"1\">\n"
    "  <info name=\"HostName\" value=\"testbox\"/>\n"
    "  <object type=\"Package\" os_index=\"0\" cpuset=\"0x00000003\" complete_cpuset=\"0x00000003\""
    " nodeset=\"0x00000001\" complete_nodeset=\"0x00000001\" gp_index=\"2\">\n"
    "   <object type=\"NUMANode\" os_index=\"0\" cpuset=\"0x00000003\""
    " complete_cpuset=\"0x00000003\" nodeset=\"0x00000001\" complete_nodeset=\"0x00000001\""
    " gp_index=\"3\" local_memory=\"1073741824\"/>\n"
    "   <object type=\"Core\" os_index=\"0\" cpuset=\"0x00000001\" complete_cpuset=\"0x00000001\""
    " nodeset=\"0x00000001\" complete_nodeset=\"0x00000001\" gp_index=\"4\">\n"
    "    <object type=\"PU\" os_index=\"0\" cpuset=\"0x00000001\" complete_cpuset=\"0x00000001\""
    " nodeset=\"0x00000001\" complete_nodeset=\"0x00000001\" gp_index=\"5\"/>\n"
    "   </object>\n"
    "   <object type=\"Core\" os_index=\"1\" cpuset=\"0x00000002\" complete_cpuset=\"0x00000002\""
    " nodeset=\"0x00000001\" complete_nodeset=\"0x00000001\" gp_index=\"6\">\n"
    "    <object type=\"PU\" os_index=\"1\" cpuset=\"0x00000002\" complete_cpuset=\"0x00000002\""
    " nodeset=\"0x00000001\" complete_nodeset=\"0x00000001\" gp_index=\"7\"/>\n"
    "   </object>\n"
    "   <object type=\"Bridge\" gp_index=\"20\" bridge_type=\"0-1\" depth=\"0\""
    " bridge_pci=\"0000:[00-ff]\">\n"
    "    <object type=\"PCIDev\" gp_index=\"21\" pci_busid=\"0000:01:00.0\""
    " pci_type=\"0302 [10de:20b0] [10de:1463] a1\" pci_link_speed=\"0.000000\"/>\n"
    "    <object type=\"PCIDev\" gp_index=\"22\" pci_busid=\"0000:02:00.0\""
    " pci_type=\"0300 [1a03:2000] [1a03:2000] 41\" pci_link_speed=\"0.000000\"/>\n"
    "   </object>\n"
    "  </object>\n"
    "  <object type=\"Package\" os_index=\"1\" cpuset=\"0x0000000c\" complete_cpuset=\"0x0000000c\""
    " nodeset=\"0x00000002\" complete_nodeset=\"0x00000002\" gp_index=\"8\">\n"
    "   <object type=\"NUMANode\" os_index=\"1\" cpuset=\"0x0000000c\""
    " complete_cpuset=\"0x0000000c\" nodeset=\"0x00000002\" complete_nodeset=\"0x00000002\""
    " gp_index=\"9\" local_memory=\"2147483648\"/>\n"
    "   <object type=\"Core\" os_index=\"0\" cpuset=\"0x00000004\" complete_cpuset=\"0x00000004\""
    " nodeset=\"0x00000002\" complete_nodeset=\"0x00000002\" gp_index=\"10\">\n"
    "    <object type=\"PU\" os_index=\"2\" cpuset=\"0x00000004\" complete_cpuset=\"0x00000004\""
    " nodeset=\"0x00000002\" complete_nodeset=\"0x00000002\" gp_index=\"11\"/>\n"
    "   </object>\n"
    "   <object type=\"Core\" os_index=\"1\" cpuset=\"0x00000008\" complete_cpuset=\"0x00000008\""
    " nodeset=\"0x00000002\" complete_nodeset=\"0x00000002\" gp_index=\"12\">\n"
    "    <object type=\"PU\" os_index=\"3\" cpuset=\"0x00000008\" complete_cpuset=\"0x00000008\""
    " nodeset=\"0x00000002\" complete_nodeset=\"0x00000002\" gp_index=\"13\"/>\n"
    "   </object>\n"
    "  </object>\n"
    " </object>\n"
    "</topology>\n";

START_TEST(hwloc_xml)
{
    errmsg_t err = {""};
    static const char *const bad[] = {
        "",
        "text",
        "<what/>",
        "<topology version=\"1.0\"/>",
        "<topology version=\"2.0\">",
        "<topology version=\"2.0\"></topology>",
        "<topology version=\"2.0\"><object/></topology>",
        "<topology version=\"2.0\"><object type=\"Machine\" gp_index=\"1\"/></topology>",
        ("<topology version=\"2.0\"><object type=\"Machine\" gp_index=\"1\" cpuset=\"0x1\" "
         "complete_cpuset=\"0x1\" nodeset=\",0x1\" complete_nodeset=\"0x1\"/></topology>"),
        ("<topology version=\"2.0\"><object type=\"Machine\" gp_index=\"1\" cpuset=\"0x3\" "
         "complete_cpuset=\"0x3\" nodeset=\"0x1\" complete_nodeset=\"0x1\">"
         "<object type=\"Core\" gp_index=\"2\" cpuset=\"0x4\" complete_cpuset=\"0x1\" "
         "nodeset=\"0x1\" complete_nodeset=\"0x1\"/></object></topology>"),
        ("<topology version=\"2.0\"><object type=\"Machine\" gp_index=\"1\" cpuset=\"0x3\" "
         "complete_cpuset=\"0x3\" nodeset=\"0x1\" complete_nodeset=\"0x1\">"
         "<object type=\"Misc\" gp_index=\"2\"><object type=\"Core\" gp_index=\"3\" "
         "cpuset=\"0x1\" complete_cpuset=\"0x1\" nodeset=\"0x1\" complete_nodeset=\"0x1\"/>"
         "</object></object></topology>"),
        "<topology version=\"2.0\"><x></topology></x>",
        "<topology version=\"2.0\"><x a=\"1\" a=\"2\"/></topology>",
        "<topology version=\"2.0\"><x a=1/></topology>",
    };
    resgraph_t *g = resgraph_from_xml_text(xml, strlen(xml), 7, NULL, &err);
    struct resgraph_node n;

    ck_assert_msg(g != NULL, "%s", err.text);
    ck_assert(resgraph_node(g, 0, &n));
    ck_assert_uint_eq(n.rank, 7);
    ck_assert_str_eq(n.host, "testbox");
    ck_assert_uint_eq(idset_count(n.cores), 4);
    ck_assert_uint_eq(n.nsockets, 2);
    ck_assert(idset_test(n.sockets[1], 2) && idset_test(n.sockets[1], 3));
    ck_assert_uint_eq(n.memory, 3072);
    ck_assert_uint_eq(idset_count(n.gpus), 1);
    resgraph_destroy(g);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        err.text[0] = '\0';
        ck_assert_msg(!resgraph_from_xml_text(bad[i], strlen(bad[i]), 0, NULL, &err), "%s", bad[i]);
        ck_assert_int_eq(errno, EINVAL);
        ck_assert(strstr(err.text, "XML: ") != NULL);
    }
    ck_assert_ptr_null(resgraph_from_xml("/nowhere/x.xml", 0, NULL, &err));
    ck_assert_int_eq(errno, ENOENT);
}
END_TEST

/* Machines of many shapes, as hwloc itself writes them down. */
START_TEST(hwloc_shapes)
{
    static const struct {
        const char *synthetic;
        unsigned cores;
    } shapes[] = {{"core:1 pu:1", 1},
                  {"pack:2 core:4 pu:2", 8},
                  {"pack:2 die:2 l3:1 core:2 pu:1(indexes=0,4,1,5,2,6,3,7)", 8},
                  {"pack:2 [numa(memory=1GB)] [numa(memory=2GB)] l2:2 core:1 pu:4", 4},
                  {"group:2 pack:2 [numa] group:2 l3:2 core:8 pu:2", 128}};
    errmsg_t err = {""};

    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
        struct resgraph_node n;
        hwloc_topology_t t;
        resgraph_t *g;
        char *text;
        int len;

        ck_assert_int_eq(hwloc_topology_init(&t), 0);
        ck_assert_int_eq(hwloc_topology_set_synthetic(t, shapes[i].synthetic), 0);
        ck_assert_int_eq(hwloc_topology_load(t), 0);
        ck_assert_int_eq(hwloc_topology_export_xmlbuffer(t, &text, &len, 0), 0);
        g = resgraph_from_xml_text(text, strlen(text), 0, "me", &err);
        ck_assert_msg(g != NULL, "%s: %s", shapes[i].synthetic, err.text);
        ck_assert(resgraph_node(g, 0, &n));
        ck_assert_uint_eq(idset_count(n.cores), shapes[i].cores);
        resgraph_destroy(g);
        hwloc_free_xmlbuffer(t, text);
        hwloc_topology_destroy(t);
    }
}
END_TEST

/* Libraries that hwloc loads to look at the machine leave memory behind when they are unloaded: not
 * our leak.  There when the leak sanitizer is. */
void __lsan_disable(void) __attribute__((weak));
void __lsan_enable(void) __attribute__((weak));

START_TEST(hwloc_live)
{
    errmsg_t err = {""};
    resgraph_t *g, *again;
    struct resgraph_node n, m;
    char *text;

    if (__lsan_disable)
        __lsan_disable();
    g = resgraph_from_hwloc(3, "me", &err);
    ck_assert_msg(g != NULL, "%s", err.text);
    ck_assert(resgraph_node(g, 0, &n));
    ck_assert_uint_eq(n.rank, 3);
    ck_assert_str_eq(n.host, "me");
    ck_assert(!idset_empty(n.cores));
    /* What it says in full, read back, is no less. */
    ck_assert_ptr_nonnull(text = resgraph_hwloc_xml(&err));
    again = resgraph_from_xml_text(text, strlen(text), 3, "me", &err);
    ck_assert_msg(again != NULL, "%s", err.text);
    ck_assert(resgraph_node(again, 0, &m));
    ck_assert(idset_subset(n.cores, m.cores));
    ck_assert_uint_eq(n.memory, m.memory);
    if (__lsan_enable)
        __lsan_enable();
    free(text);
    resgraph_destroy(again);
    resgraph_destroy(g);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("core");

    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, lua_emulation);
    tcase_add_test(tc, lua_groups);
    tcase_add_test(tc, lua_places);
    tcase_add_test(tc, lua_named_places);
    tcase_add_test(tc, lua_refused);
    tcase_add_test(tc, hwloc_xml);
    tcase_add_test(tc, hwloc_shapes);
    tcase_add_test(tc, hwloc_live);
    return run_case("resgraph_source", tc);
}

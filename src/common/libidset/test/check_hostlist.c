/* check_hostlist.c - host lists against a naive list of strings. */
#include "config.h"
#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libidset/hostlist.h"
#include "libutil/strvec.h"
#include "libutil/test/suite.h"

/* Every host in order, separated by blanks. */
static char *expand(const hostlist_t *hl)
{
    strvec_t *v = strvec_create();
    char name[HOSTLIST_NAME_MAX + 1];
    char *s;

    for (size_t i = 0; hostlist_nth(hl, i, name, sizeof(name)); i++)
        strvec_add(v, name);
    ck_assert_int_eq(errno, ENOENT);
    ck_assert_uint_eq(strvec_count(v), hostlist_count(hl));
    s = strvec_join(v, " ");
    strvec_destroy(v);
    return s;
}

static void expect(const hostlist_t *hl, const char *hosts)
{
    char *s = expand(hl);

    ck_assert_str_eq(s, hosts);
    free(s);
}

static void expect_text(const hostlist_t *hl, const char *text)
{
    char *s = hostlist_format(hl);

    ck_assert_str_eq(s, text);
    free(s);
}

START_TEST(parse_good)
{
    static const struct {
        const char *text;
        const char *hosts;
        const char *canonical;
    } tests[] = {
        {"", "", ""},
        {"login1", "login1", "login1"},
        {"localhost", "localhost", "localhost"},
        {"node[0-3],login1", "node0 node1 node2 node3 login1", "node[0-3],login1"},
        {"n[01-03]", "n01 n02 n03", "n[01-03]"},
        {"n[08-11]", "n08 n09 n10 n11", "n[08-11]"},
        {"n[98-101]", "n98 n99 n100 n101", "n[98-101]"},
        {"n[098-101]", "n098 n099 n100 n101", "n[098-101]"},
        {"n[99-101],n[099-101]", "n99 n100 n101 n099 n100 n101", "n[99-101,099-101]"},
        {"n[1,3,5-6]", "n1 n3 n5 n6", "n[1,3,5-6]"},
        {"n1,n2,n3", "n1 n2 n3", "n[1-3]"},
        {"n1,n02,n3", "n1 n02 n3", "n[1,02,3]"},
        {"n3,n2,n1", "n3 n2 n1", "n[3,2,1]"},
        {"n1,n1", "n1 n1", "n[1,1]"},
        {"n9,n10", "n9 n10", "n[9-10]"},
        {"n09,n10", "n09 n10", "n[09-10]"},
        {"n[0-0]", "n0", "n0"},
        {"n00", "n00", "n00"},
        {"r[1-2]n[01-02]", "r1n01 r1n02 r2n01 r2n02", "r1n[01-02],r2n[01-02]"},
        {"n[1-3].cluster", "n1.cluster n2.cluster n3.cluster", "n[1-3].cluster"},
        {"n[1-2].c2", "n1.c2 n2.c2", "n1.c2,n2.c2"},
        {"[1-2]", "1 2", "[1-2]"},
        {"[a]", NULL, NULL},
        {"a-b_c.D9", "a-b_c.D9", "a-b_c.D9"},
        {"x1234567890123[4-5]", "x12345678901234 x12345678901235", "x12345[678901234-678901235]"},
        {"n999999999,n1000000000", "n999999999 n1000000000", "n999999999,n1000000000"},
    };

    for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++) {
        hostlist_t *hl = hostlist_parse(tests[i].text, NULL);
        hostlist_t *back;
        char *s;

        if (!tests[i].hosts) {
            ck_assert_ptr_null(hl);
            continue;
        }
        ck_assert_msg(hl != NULL, "\"%s\"", tests[i].text);
        expect(hl, tests[i].hosts);
        expect_text(hl, tests[i].canonical);
        s = hostlist_format(hl);
        back = hostlist_parse(s, NULL);
        expect(back, tests[i].hosts);
        free(s);
        hostlist_destroy(back);
        hostlist_destroy(hl);
    }
}
END_TEST

START_TEST(parse_bad)
{
    static const char *tests[] = {
        ",",
        "a,",
        ",a",
        "a,,b",
        "a b",
        " a",
        "a\n",
        "n[",
        "n]",
        "n[]",
        "n[1",
        "n[1]]",
        "n[[1]]",
        "n[1-]",
        "n[-1]",
        "n[2-1]",
        "n[1,]",
        "n[,1]",
        "n[1,,2]",
        "n[1-2-3]",
        "n[01-5]",
        "n[1-05]",
        "n[a-b]",
        "n[1 ]",
        "n[0x1]",
        "-a",
        ".a",
        "a/b",
        "a:1",
        "a;b",
        "$(x)",
        "\xc3\xb6",
        "n[1234567890]",
        "n[1]]x",
        "a,n[1",
        "n[1-2]n[",
        "[1][1][1][1][1][1][1][1][1]",
    };

    for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++) {
        errmsg_t err = {""};

        errno = 0;
        ck_assert_msg(hostlist_parse(tests[i], &err) == NULL, "\"%s\" was taken", tests[i]);
        ck_assert_int_eq(errno, EINVAL);
        ck_assert_uint_gt(strlen(err.text), 10);
    }
    ck_assert_ptr_null(hostlist_parse(NULL, NULL));
    ck_assert_int_eq(errno, EINVAL);
}
END_TEST

/* A few bytes of text must not become gigabytes or minutes. */
START_TEST(hostile)
{
    static const char *tests[] = {
        "n[0-999999999]",
        "n[0-1048576]",
        "n[0-1023]m[0-1024]",
        "[0-9][0-9][0-9][0-9][0-9][0-9][0-9][0-9]",
        "n[0-1048575],x",
        "[0-1048575]aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa1",
    };
    char longname[HOSTLIST_NAME_MAX + 2];
    hostlist_t *hl;

    for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++) {
        errmsg_t err = {""};

        errno = 0;
        ck_assert_msg(hostlist_parse(tests[i], &err) == NULL, "\"%s\" was taken", tests[i]);
        ck_assert_int_eq(errno, E2BIG);
        ck_assert_uint_gt(strlen(err.text), 10);
    }
    memset(longname, 'a', sizeof(longname));
    longname[HOSTLIST_NAME_MAX + 1] = '\0';
    ck_assert_ptr_null(hostlist_parse(longname, NULL));
    ck_assert_int_eq(errno, EINVAL);
    longname[HOSTLIST_NAME_MAX] = '\0';
    hl = hostlist_parse(longname, NULL);
    expect(hl, longname);
    hostlist_destroy(hl);
    memcpy(longname + HOSTLIST_NAME_MAX - 7, "[9-10]", 7);
    ck_assert_ptr_nonnull(hl = hostlist_parse(longname, NULL));
    hostlist_destroy(hl);
    hl = hostlist_parse("n[0-1048575]", NULL);
    ck_assert_uint_eq(hostlist_count(hl), HOSTLIST_MAX);
    ck_assert_str_eq(hostlist_nth(hl, 1048575, longname, sizeof(longname)), "n1048575");
    ck_assert_int_eq(hostlist_append(hl, "x", NULL), -1);
    ck_assert_int_eq(errno, E2BIG);
    ck_assert_uint_eq(hostlist_count(hl), HOSTLIST_MAX);
    hostlist_destroy(hl);
}
END_TEST

START_TEST(append)
{
    hostlist_t *hl = hostlist_create();

    ck_assert_int_eq(hostlist_append(hl, "n[1-3]", NULL), 0);
    /* Fails after it has extended the last group and added others: all of that is undone. */
    ck_assert_int_eq(hostlist_append(hl, "n[4-9],m[1-3],o[", NULL), -1);
    expect_text(hl, "n[1-3]");
    ck_assert_uint_eq(hostlist_count(hl), 3);
    ck_assert_int_eq(hostlist_append(hl, "", NULL), 0);
    ck_assert_int_eq(hostlist_append(hl, "n4,x", NULL), 0);
    expect_text(hl, "n[1-4],x");
    hostlist_destroy(hl);
    /* 0 follows nothing, and a lone wrap-around must not fold. */
    hl = hostlist_parse("n0,n0,n1", NULL);
    expect_text(hl, "n[0,0-1]");
    ck_assert_int_eq(hostlist_append(NULL, "x", NULL), -1);
    hostlist_destroy(hl);
}
END_TEST

START_TEST(nth)
{
    hostlist_t *hl = hostlist_parse("a[1-3],b,a[05-06],b", NULL);
    char name[HOSTLIST_NAME_MAX + 1];

    ck_assert_str_eq(hostlist_nth(hl, 4, name, sizeof(name)), "a05");
    ck_assert_ptr_null(hostlist_nth(hl, 7, name, sizeof(name)));
    ck_assert_int_eq(errno, ENOENT);
    ck_assert_ptr_null(hostlist_nth(hl, 4, name, 3));
    ck_assert_int_eq(errno, ENOSPC);
    ck_assert_ptr_null(hostlist_nth(NULL, 0, name, sizeof(name)));
    errno = 42;
    hostlist_destroy(hl);
    hostlist_destroy(NULL);
    ck_assert_int_eq(errno, 42);
}
END_TEST

START_TEST(unique)
{
    hostlist_t *hl = hostlist_parse("n10,n2,n[1-3],m,n02,n2,m5,l9", NULL);

    ck_assert_int_eq(hostlist_unique(hl), 0);
    expect(hl, "n10 n2 n1 n3 m n02 m5 l9");
    ck_assert_int_eq(hostlist_unique(hl), 0);
    expect_text(hl, "n[10,2,1,3],m,n02,m5,l9");
    hostlist_destroy(hl);
}
END_TEST

static char *random_name(char *name)
{
    static const char *prefixes[] = {"a", "a1b", "", "x-"};
    static const char *suffixes[] = {"", "", ".c"};
    static const char *formats[] = {"%s%ld%s", "%s%02ld%s", "%s%03ld%s"};

    do {
        if (random() % 10 == 0)
            sprintf(name, "h%s", random() % 2 ? "" : "-");
        else
            sprintf(name, formats[random() % 3], prefixes[random() % 4], random() % 20,
                    suffixes[random() % 3]);
    } while (*name == '-' || *name == '.');
    return name;
}

START_TEST(random_model)
{
    srandom(_i + 1);
    for (int round = 0; round < 200; round++) {
        hostlist_t *hl = hostlist_create();
        strvec_t *model = strvec_create();
        char name[64];
        char *a;
        char *b;
        hostlist_t *back;

        for (int step = 0; step < 100; step++) {
            random_name(name);
            ck_assert_int_eq(hostlist_append(hl, name, NULL), 0);
            strvec_add(model, name);
        }
        a = expand(hl);
        b = strvec_join(model, " ");
        ck_assert_str_eq(a, b);
        free(a);
        a = hostlist_format(hl);
        back = hostlist_parse(a, NULL);
        ck_assert_msg(back != NULL, "%s", a);
        free(a);
        a = expand(back);
        ck_assert_str_eq(a, b);
        free(a);
        free(b);
        hostlist_destroy(back);
        strvec_destroy(model);
        hostlist_destroy(hl);
    }
}
END_TEST

static const struct {
    const char *text;
    size_t count;
    int errnum;
} counted[] = {
    {"", 0, 0},
    {"a,b", 2, 0},
    {"n[0-15],login1,rack[1-2]n[01-16]", 49, 0},
    {"x[1,1,1][1-10]", 30, 0},
    {"x[1-1000000]", 1000000, 0},
    {"x[1-1000000],y[1-1000000]", 0, E2BIG},
    {"x[1-1000][1-1000][1-1000][1-1000]", 0, E2BIG},
    {"x[0-999999999]", 0, E2BIG},
    {"x[1", 0, EINVAL},
    {"x[1-]", 0, EINVAL},
    {"x[2-1]", 0, EINVAL},
    {"x[]", 0, EINVAL},
    {"a,,b", 0, EINVAL},
    {"a b", 0, EINVAL},
    {"[1][1][1][1][1][1][1][1][1]", 0, EINVAL},
    {"x[1;2]", 0, EINVAL},
};

START_TEST(check_counts)
{
    for (size_t i = 0; i < sizeof(counted) / sizeof(counted[0]); i++) {
        size_t n = 0;
        errmsg_t err = {""};
        int rc = hostlist_check(counted[i].text, &n, &err);
        hostlist_t *hl;

        ck_assert_msg(rc == (counted[i].errnum ? -1 : 0), "%s", counted[i].text);
        if (rc < 0) {
            ck_assert_int_eq(errno, counted[i].errnum);
            ck_assert_str_ne(err.text, "");
        } else {
            ck_assert_uint_eq(n, counted[i].count);
        }
        /* What it says is what the whole list would have been. */
        hl = hostlist_parse(counted[i].text, NULL);
        ck_assert(!hl == (rc < 0));
        ck_assert(!hl || hostlist_count(hl) == n);
        hostlist_destroy(hl);
    }
}
END_TEST

static int count_some(const char *name, void *arg)
{
    size_t *n = arg;

    if (strcmp(name, "x4") == 0) {
        errno = ENOENT;
        return -1;
    }
    ++*n;
    return 0;
}

START_TEST(walk_stops)
{
    size_t n = 0;
    errmsg_t err;

    ck_assert_int_eq(hostlist_walk("a,b[1-2]c[1-3]", count_some, &n, &err), 0);
    ck_assert_uint_eq(n, 7);
    n = 0;
    ck_assert_int_eq(hostlist_walk("x[1-1000000]", count_some, &n, &err), -1);
    ck_assert_int_eq(errno, ENOENT);
    ck_assert_uint_eq(n, 3);
    ck_assert_int_eq(hostlist_walk("a,[", count_some, &n, &err), -1);
    ck_assert_int_eq(errno, EINVAL);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("core");

    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, parse_good);
    tcase_add_test(tc, parse_bad);
    tcase_add_test(tc, hostile);
    tcase_add_test(tc, append);
    tcase_add_test(tc, nth);
    tcase_add_test(tc, unique);
    tcase_add_loop_test(tc, random_model, 0, 4);
    tcase_add_test(tc, check_counts);
    tcase_add_test(tc, walk_stops);
    return run_case("hostlist", tc);
}

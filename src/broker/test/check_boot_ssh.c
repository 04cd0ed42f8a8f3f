/* Sessions that are started through ssh: which rank runs where, the dialog over the connection, and
 * what is said if ssh fails. */
#include "config.h"
#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "broker/boot_hosts.h"
#include "broker/boot_private.h"
#include "broker/boot_roster.h"
#include "broker/boot_ssh_wire.h"
#include "libutil/buf.h"
#include "libutil/test/suite.h"

/* boot_addr.c asks for attributes when it chooses an address, which is not done here. */
const char *boot_attr(const boot_t *b, const char *name)
{
    (void)b, (void)name;
    return NULL;
}

static void check_hosts(const char *list, const char *self, const char *want)
{
    errmsg_t err = {""};
    boot_hosts_t *h = boot_hosts_create(list, self, &err);
    char text[512] = "";

    ck_assert_msg(h != NULL, "%s: %s", list, err.text);
    for (uint32_t i = 0; i < boot_hosts_size(h); i++)
        snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%s%s", i ? " " : "",
                 boot_hosts_name(h, i), boot_hosts_here(h, i) ? "*" : "");
    ck_assert_str_eq(text, want);
    boot_hosts_destroy(h);
}

static void adds(boot_hosts_t *h, const char *host, int errnum, uint32_t want, const char *why)
{
    errmsg_t err = {""};
    uint32_t rank;
    int rc = boot_hosts_add(h, host, &rank, &err);

    ck_assert_int_eq(rc, errnum ? -1 : 0);
    if (errnum)
        ck_assert_int_eq(errno, errnum);
    if (errnum == 0 || errnum == EEXIST)
        ck_assert_uint_eq(rank, want);
    ck_assert_msg(strstr(err.text, why) != NULL, "%s", err.text);
}

/* Ranks without a host get one. */
START_TEST(test_added)
{
    errmsg_t err = {""};
    boot_hosts_t *h = boot_hosts_create("a,b", "b", &err);

    ck_assert_ptr_nonnull(h);
    ck_assert_int_eq(boot_hosts_reserve(h, 1, &err), -1);
    ck_assert_int_eq(errno, EINVAL);
    ck_assert_int_eq(boot_hosts_reserve(h, BOOT_HOSTS_MAX + 1, &err), -1);
    ck_assert_int_eq(errno, E2BIG);
    ck_assert_int_eq(boot_hosts_reserve(h, 2, &err), 0);
    adds(h, "c", ENOSPC, 0, "all 2 ranks of the session have a host");
    ck_assert_int_eq(boot_hosts_reserve(h, 4, &err), 0);
    ck_assert_uint_eq(boot_hosts_size(h), 4);
    ck_assert_uint_eq(boot_hosts_listed(h), 2);
    ck_assert_ptr_null(boot_hosts_name(h, 2));
    ck_assert(!boot_hosts_here(h, 2));
    ck_assert_ptr_null(boot_hosts_address(h, 2));
    adds(h, "c", 0, 2, "");
    adds(h, "10.0.0.4", 0, 3, "");
    ck_assert_str_eq(boot_hosts_name(h, 2), "c");
    ck_assert_str_eq(boot_hosts_address(h, 3), "10.0.0.4");
    adds(h, "C", EEXIST, 2, "host C is rank 2 of the session already");
    adds(h, "b", EEXIST, 0, "host b is rank 0");
    adds(h, "d", ENOSPC, 0, "all 4 ranks");
    boot_hosts_remove(h, 2);
    adds(h, "b", EEXIST, 0, "host b is rank 0");
    adds(h, "-oProxyCommand=x", EINVAL, 0, "is not the name of a host");
    adds(h, "d[1-2]", EINVAL, 0, "is not the name of a host");
    adds(h, "d[1]", EINVAL, 0, "is not the name of a host");
    adds(h, "", EINVAL, 0, "is not the name of a host");
    adds(h, "d", 0, 2, "");
    boot_hosts_destroy(h);

    /* One host alone: others may come. */
    ck_assert_ptr_nonnull(h = boot_hosts_create("a", "a", &err));
    ck_assert(!boot_hosts_several(h));
    ck_assert_int_eq(boot_hosts_reserve(h, 2, &err), 0);
    ck_assert(boot_hosts_several(h));
    boot_hosts_destroy(h);
}
END_TEST

/* Hosts a and b, which a configuration file lists, in a session of this many ranks. */
static boot_hosts_t *listed(uint32_t size)
{
    errmsg_t err = {""};
    hostlist_t *list = hostlist_parse("a,b", &err);
    boot_hosts_t *h;

    ck_assert_ptr_nonnull(list);
    ck_assert_ptr_nonnull(h = boot_hosts_list(list, &err));
    ck_assert_int_eq(boot_hosts_reserve(h, size, &err), 0);
    hostlist_destroy(list);
    return h;
}

#define ROSTER_DIR "/tmp/roster.XXXXXX"

/* A state directory, and the path of the file in it. */
static void make_state(char dir[sizeof(ROSTER_DIR)], char path[sizeof(ROSTER_DIR) + 8])
{
    ck_assert_ptr_nonnull(mkdtemp(dir));
    snprintf(path, sizeof(ROSTER_DIR) + 8, "%s/hosts", dir);
}

/* A host is found by its name with or without the domain, and by its address. */
START_TEST(test_found)
{
    boot_hosts_t *h = listed(7);
    static const struct {
        const char *host;
        uint32_t rank;
    } cases[] = {{"A", 0},        {"b.one", 1},    {"c", 2},     {"C.two", 3},
                 {"c.three", 7},  {"10.0.0.4", 4}, {"10", 7},    {"10.0.0.5", 7},
                 {"d.domain", 5}, {"d", 5},        {"d.two", 7}, {"", 7}};
    char name[HOSTLIST_NAME_MAX + 2];

    adds(h, "c.one", 0, 2, "");
    adds(h, "c.two", 0, 3, "");
    adds(h, "10.0.0.4", 0, 4, "");
    adds(h, "d.domain", 0, 5, "");
    memset(name, 'e', sizeof(name));
    name[HOSTLIST_NAME_MAX] = '\0';
    adds(h, name, 0, 6, "");
    ck_assert_uint_eq(boot_hosts_find(h, name), 6);
    name[HOSTLIST_NAME_MAX] = 'e'; /* longer than a name may be */
    name[HOSTLIST_NAME_MAX + 1] = '\0';
    ck_assert_uint_eq(boot_hosts_find(h, name), 7);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        ck_assert_msg(boot_hosts_find(h, cases[i].host) == cases[i].rank, "%s: %u", cases[i].host,
                      boot_hosts_find(h, cases[i].host));
    boot_hosts_remove(h, 2);
    ck_assert_uint_eq(boot_hosts_find(h, "c.one"), 7);
    boot_hosts_remove(h, 5);
    ck_assert_uint_eq(boot_hosts_find(h, "d"), 7);
    boot_hosts_destroy(h);
}
END_TEST

/* Those that are added to a session by configuration file are kept in its state directory. */
START_TEST(test_roster)
{
    char dir[] = ROSTER_DIR, path[sizeof(dir) + 8], text[64] = "";
    errmsg_t err = {""};
    boot_hosts_t *h = listed(4);
    boot_roster_t *r;
    uint32_t rank;
    FILE *f;

    make_state(dir, path);
    ck_assert_ptr_nonnull(r = boot_roster_create(h, dir, &err));
    ck_assert_int_eq(boot_roster_admit(r, 2, "c", &err), -1);
    ck_assert_int_eq(errno, EPERM);
    ck_assert_ptr_nonnull(strstr(err.text, "host c has not been added"));
    ck_assert_int_eq(boot_roster_add(r, "c", &rank, &err), 0);
    ck_assert_uint_eq(rank, 2);
    ck_assert_int_eq(boot_roster_admit(r, 2, "c", &err), -1);
    ck_assert_ptr_nonnull(strstr(err.text, "host c has not been added"));
    ck_assert_int_eq(boot_roster_save(r, &err), 0);
    ck_assert_int_eq(boot_roster_admit(r, 2, "c.domain", &err), 0);
    ck_assert_int_eq(boot_roster_admit(r, 1, "b", &err), 0);
    ck_assert_int_eq(boot_roster_admit(r, 2, "d", &err), -1);
    ck_assert_ptr_nonnull(strstr(err.text, "rank 2 is for host c, and host d has not been"));
    ck_assert_int_eq(boot_roster_admit(r, 3, "c", &err), -1);
    ck_assert_int_eq(errno, EPERM);
    ck_assert_ptr_nonnull(strstr(err.text, "host c was added as rank 2, not as rank 3: start its"));
    ck_assert_int_eq(boot_roster_admit(r, 3, "b", &err), -1);
    ck_assert_ptr_nonnull(strstr(err.text, "host b is listed as rank 1, not as rank 3: start its"));
    ck_assert_int_eq(boot_roster_admit(r, 3, "C.domain", &err), -1);
    ck_assert_ptr_nonnull(strstr(err.text, "host C.domain was added as rank 2, not as rank 3"));
    ck_assert_int_eq(boot_roster_admit(r, 9, "d", &err), -1);
    ck_assert_int_eq(boot_roster_add(r, "two words", &rank, &err), -1);
    ck_assert_int_eq(boot_roster_add(r, "b", &rank, &err), -1);
    ck_assert_int_eq(errno, EEXIST);
    boot_roster_destroy(r);
    boot_hosts_destroy(h);

    h = listed(4);
    ck_assert_ptr_nonnull(r = boot_roster_create(h, dir, &err));
    ck_assert_int_eq(boot_roster_admit(r, 2, "c", &err), 0);
    /* Those that cannot be recorded have no rank. */
    snprintf(text, sizeof(text), "%s/hosts.new", dir);
    ck_assert_int_eq(mkdir(text, 0700), 0);
    ck_assert_int_eq(boot_roster_add(r, "e", &rank, &err), 0);
    ck_assert_int_eq(boot_roster_save(r, &err), -1);
    ck_assert_int_eq(errno, EISDIR);
    ck_assert_ptr_nonnull(strstr(err.text, "/hosts cannot be written: Is a directory"));
    ck_assert_int_eq(boot_roster_admit(r, 3, "e", &err), -1);
    rmdir(text);
    memset(text, 0, sizeof(text));
    ck_assert_int_eq(boot_roster_add(r, "d", &rank, &err), 0);
    ck_assert_uint_eq(rank, 3);
    ck_assert_int_eq(boot_roster_save(r, &err), 0);
    ck_assert_int_eq(boot_roster_save(r, &err), 0); /* there is nothing to record */
    ck_assert_int_eq(boot_roster_add(r, "e", &rank, &err), -1);
    ck_assert_int_eq(errno, ENOSPC);
    boot_roster_destroy(r);
    boot_hosts_destroy(h);
    ck_assert_ptr_nonnull(f = fopen(path, "r"));
    ck_assert_uint_eq(fread(text, 1, sizeof(text) - 1, f), strlen("2 c\n3 d\n"));
    ck_assert_str_eq(text, "2 c\n3 d\n");
    fclose(f);

#define TEXT(s) s, sizeof(s) - 1
    static const struct {
        const char *text;
        size_t len;
        const char *why;
    } bad[] = {
        {TEXT("2 c"), ":1: the line has no end"},
        {TEXT("2\n"), ":1: expected 'RANK HOST'"},
        {TEXT("2 c\0d\n"), ":1: there is a zero byte"},
        {TEXT("2 c\n4 d\n"), ":2: host d was added as rank 4, but the session has ranks 0 to 3"},
        {TEXT("1 c\n"), ":1: host c was added as rank 1, but session.hosts has b in its place"},
        {TEXT("2 a\n"), ":1: host a is rank 0 of the session already"},
        {TEXT("2 c\n3 C\n"), ":2: host C is rank 2 of the session already"},
        {TEXT("2 -x\n"), ":1: '-x' is not the name of a host"}};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        ck_assert_ptr_nonnull(f = fopen(path, "w"));
        ck_assert_uint_eq(fwrite(bad[i].text, 1, bad[i].len, f), bad[i].len);
        fclose(f);
        h = listed(4);
        ck_assert_ptr_null(boot_roster_create(h, dir, &err));
        ck_assert_int_eq(errno, EINVAL);
        ck_assert_msg(strstr(err.text, bad[i].why) != NULL, "%s", err.text);
        boot_hosts_destroy(h);
    }
    unlink(path);
    rmdir(dir);
}
END_TEST

/* No host is compared with all others. */
START_TEST(test_roster_large)
{
    char dir[] = ROSTER_DIR, path[sizeof(dir) + 8];
    errmsg_t err = {""};
    boot_hosts_t *h = listed(BOOT_HOSTS_MAX);
    boot_roster_t *r;
    uint32_t rank;
    FILE *f;

    make_state(dir, path);
    ck_assert_ptr_nonnull(f = fopen(path, "w"));
    for (rank = 2; rank < BOOT_HOSTS_MAX - 1; rank++)
        fprintf(f, "%u node%u\n", rank, rank);
    fclose(f);
    ck_assert_ptr_nonnull(r = boot_roster_create(h, dir, &err));
    ck_assert_int_eq(boot_roster_admit(r, 60000, "node60000", &err), 0);
    ck_assert_int_eq(boot_roster_admit(r, 5, "NODE60000.domain", &err), -1);
    ck_assert_ptr_nonnull(strstr(err.text, "NODE60000.domain was added as rank 60000, not as"));
    ck_assert_int_eq(boot_roster_add(r, "NODE60000", &rank, &err), -1);
    ck_assert_int_eq(errno, EEXIST);
    ck_assert_uint_eq(rank, 60000);
    ck_assert_int_eq(boot_roster_add(r, "last", &rank, &err), 0);
    ck_assert_uint_eq(rank, BOOT_HOSTS_MAX - 1);
    ck_assert_int_eq(boot_roster_save(r, &err), 0);
    boot_roster_destroy(r);
    boot_hosts_destroy(h);
    unlink(path);
    rmdir(dir);
}
END_TEST

START_TEST(test_hosts)
{
    boot_hosts_t *h;
    errmsg_t err;

    check_hosts("node[0-3]", "node0", "node0* node1 node2 node3");
    check_hosts("node[0-3]", "node2", "node2* node0 node1 node3");
    check_hosts("a,b,a", "b", "b* a a");
    check_hosts("a,b,b,c", "b", "b* a b* c");
    check_hosts("n0.site,n1.site", "n1", "n1.site* n0.site");
    check_hosts("n0,n1", "n1.site", "n1* n0");
    check_hosts("x,LocalHost", "a", "LocalHost* x");
    check_hosts("127.0.0.[1-3]", "a", "127.0.0.1* 127.0.0.2 127.0.0.3");

    ck_assert_ptr_null(boot_hosts_create("n0.site", "n0.other", &err));
    ck_assert_int_eq(errno, EADDRNOTAVAIL);
    ck_assert_ptr_null(boot_hosts_create("n10,n11", "n1", &err));
    ck_assert_int_eq(errno, EADDRNOTAVAIL);
    ck_assert_ptr_nonnull(strstr(err.text, "this host, n1, is not in the list"));
    ck_assert_ptr_null(boot_hosts_create("", "n1", &err));
    ck_assert_int_eq(errno, EINVAL);
    ck_assert_ptr_null(boot_hosts_create("n[1-", "n1", &err));
    ck_assert_int_eq(errno, EINVAL);
    ck_assert_ptr_null(boot_hosts_create("n[0-99999]", "n1", &err));
    ck_assert_int_eq(errno, E2BIG);

    h = boot_hosts_create("127.0.0.1,b,127.0.0.1", "b", NULL);
    ck_assert_str_eq(boot_hosts_address(h, 0), "127.0.0.1");
    ck_assert_ptr_null(boot_hosts_address(h, 1));
    ck_assert(boot_hosts_several(h));
    boot_hosts_destroy(h);
    h = boot_hosts_create("127.0.0.1,127.0.0.1", "b", NULL);
    ck_assert_ptr_null(boot_hosts_address(h, 0));
    ck_assert(!boot_hosts_several(h));
    boot_hosts_destroy(h);
}
END_TEST

START_TEST(test_frames)
{
    buf_t *b = buf_create(0);
    char header[BOOT_FRAME_HEADER];
    struct boot_frame f;
    size_t used;

    boot_frame_header(header, BOOT_FRAME_PMI, 4);
    buf_append(b, header, sizeof(header));
    buf_append(b, "data", 4);
    boot_frame_header(header, BOOT_FRAME_PMI_END, 0);
    buf_append(b, header, sizeof(header));
    for (size_t n = 0; n < BOOT_FRAME_HEADER + 4; n++)
        ck_assert_int_eq(boot_frame_first(buf_data(b), n, &f, &used), 0);
    ck_assert_int_eq(boot_frame_first(buf_data(b), buf_len(b), &f, &used), 1);
    ck_assert_int_eq(f.type, BOOT_FRAME_PMI);
    ck_assert_uint_eq(f.len, 4);
    ck_assert_mem_eq(f.data, "data", 4);
    buf_consume(b, used);
    ck_assert_int_eq(boot_frame_first(buf_data(b), buf_len(b), &f, &used), 1);
    ck_assert_int_eq(f.type, BOOT_FRAME_PMI_END);
    ck_assert_uint_eq(f.len, 0);
    buf_destroy(b);

    ck_assert_int_eq(boot_frame_first("X\0\0\0\0", 5, &f, &used), -1);
    ck_assert_int_eq(errno, EPROTO);
    ck_assert_int_eq(boot_frame_first("\0\0\0\0\0", 5, &f, &used), -1);
    ck_assert_int_eq(boot_frame_first("P\1\0\2\0", 5, &f, &used), -1);
    ck_assert_int_eq(boot_frame_first("P\0\0\2\0", 5, &f, &used), 0);
}
END_TEST

START_TEST(test_greeting)
{
    char version[8], text[256];
    char *noise = calloc(1, BOOT_GREETING_NOISE + 1);
    size_t used, len;

    snprintf(text, sizeof(text), "Welcome to n1%sP", boot_greeting());
    len = strlen(text);
    for (size_t n = 0; n < len - 1; n++)
        ck_assert_int_eq(boot_greeting_find(text, n, version, sizeof(version), &used), 0);
    ck_assert_int_eq(boot_greeting_find(text, len, version, sizeof(version), &used), 1);
    ck_assert_uint_eq(used, len - 1);
    ck_assert_str_eq(version, PACKAGE_VERSION);
    snprintf(text, sizeof(text), "\nflux-broker --remote 12345678.90\n");
    ck_assert_int_eq(boot_greeting_find(text, strlen(text), version, sizeof(version), &used), 1);
    ck_assert_str_eq(version, "1234567");
    memset(noise, 'x', BOOT_GREETING_NOISE + 1);
    ck_assert_int_eq(boot_greeting_find(noise, BOOT_GREETING_NOISE, version, 8, &used), 0);
    ck_assert_int_eq(boot_greeting_find(noise, BOOT_GREETING_NOISE + 1, version, 8, &used), -1);
    ck_assert_int_eq(errno, EPROTO);
    free(noise);
}
END_TEST

START_TEST(test_args)
{
    struct boot_remote_args a = {.dir = "/home/u", .rank = 3, .size = 4, .again = 1}, b;
    char *big = calloc(1, BOOT_FRAME_MAX + 1);
    char *data;
    size_t len;

    a.options = strvec_create();
    strvec_add(a.options, "--set=a=b\nc");
    strvec_add(a.options, "");
    data = boot_remote_args_encode(&a, &len);
    ck_assert_ptr_nonnull(data);
    ck_assert_int_eq(boot_remote_args_decode(data, len, &b), 0);
    ck_assert_str_eq(b.dir, "/home/u");
    ck_assert_uint_eq(b.rank, 3);
    ck_assert_uint_eq(b.size, 4);
    ck_assert_uint_eq(b.again, 1);
    ck_assert_uint_eq(strvec_count(b.options), 2);
    ck_assert_str_eq(strvec_at(b.options, 0), "--set=a=b\nc");
    ck_assert_str_eq(strvec_at(b.options, 1), "");
    strvec_destroy(b.options);
    for (size_t n = 0; n < len - 14; n++) /* the options may be fewer */
        ck_assert_int_eq(boot_remote_args_decode(data, n, &b), -1);
    free(data);
    ck_assert_int_eq(boot_remote_args_decode("/\0003\0003\0000\0", 8, &b), -1);
    ck_assert_int_eq(errno, EPROTO);
    ck_assert_int_eq(boot_remote_args_decode("/\000x\0003\0000\0", 8, &b), -1);
    ck_assert_int_eq(boot_remote_args_decode("/\0002\0003\0002\0", 8, &b), -1);
    memset(big, 'x', BOOT_FRAME_MAX);
    strvec_add(a.options, big);
    ck_assert_ptr_null(boot_remote_args_encode(&a, &len));
    ck_assert_int_eq(errno, E2BIG);
    free(big);
    strvec_destroy(a.options);
}
END_TEST

START_TEST(test_explain)
{
    static const struct {
        int code;
        const char *line;
        int errnum;
        const char *want;
    } cases[] = {
        {255, "u@n1: Permission denied (publickey,password).", EACCES,
         "host n1 does not let ssh in without a password: set up a key (ssh-copy-id n1)"},
        {255, "Host key verification failed.", EACCES, "connect once with 'ssh n1'"},
        {255, "ssh: connect to host n1 port 22: Connection refused", EHOSTUNREACH,
         "host n1 cannot be reached: ssh: connect to host n1 port 22: Connection refused"},
        {255, "", EHOSTUNREACH, "host n1 cannot be reached: ssh does not say why"},
        {127, "bash: line 1: exec: /b: not found", ENOENT, "host n1 cannot run /b: install"},
        {126, "", ENOENT, "host n1 cannot run /b: install"},
        {1, "This account is currently not available.", EPROTO,
         "host n1 did not start a broker (exit code 1): This account is currently not available."},
        {2, "", EPROTO, "host n1 did not start a broker (exit code 2)"},
    };
    errmsg_t err;

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        ck_assert_int_eq(boot_ssh_explain("n1", cases[i].code, cases[i].line, "/b", &err), -1);
        ck_assert_int_eq(errno, cases[i].errnum);
        ck_assert_msg(strstr(err.text, cases[i].want) != NULL, "%s", err.text);
    }
}
END_TEST

int main(void)
{
    RUN_SUITE("boot_ssh", test_hosts, test_added, test_found, test_roster, test_roster_large,
              test_frames, test_greeting, test_args, test_explain);
}

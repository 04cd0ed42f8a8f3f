/* check_pmi_client.c - the client against a scripted server, and alone. */
#include "config.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "libpmi/pmi_client.h"
#include "libutil/test/suite.h"

#define HELLO                                                    \
    "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n" \
    "|cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=1024\n" \
    "|cmd=my_kvsname kvsname=kvs_x\n"

/* A process that answers the n-th line with the n-th part of `script` (parts end with '|'), byte by
 * byte, and closes at its end. */
static int serve(const char *script)
{
    int sv[2];

    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, sv), 0);
    if (fork() == 0) {
        char c;

        close(sv[0]);
        while (*script && read(sv[1], &c, 1) == 1) {
            if (c != '\n')
                continue;
            for (; *script && *script != '|'; script++) {
                if (write(sv[1], script, 1) != 1)
                    _exit(1);
            }
            if (*script == '|')
                script++;
        }
        _exit(0);
    }
    close(sv[1]);
    return sv[0];
}

START_TEST(scripted)
{
    int fd = serve(HELLO "|cmd=put_result rc=0 msg=success\n"
                         "|cmd=barrier_out\n"
                         "|cmd=get_result rc=0 msg=success value=a b c\n"
                         "|cmd=get_result rc=-1 msg=no value=unknown\n"
                         "|cmd=get_result rc=0 msg=success value=12345678\n"
                         "|cmd=universe_size size=9\n"
                         "|cmd=appnum appnum=1\n"
                         "|cmd=publish_result info=ok\n"
                         "|cmd=lookup_result info=ok port=p q\n"
                         "|cmd=unpublish_result info=no rc=-1 msg=none\n"
                         "|cmd=finalize_ack\n");
    struct pmi_client *c;
    char value[16];
    errmsg_t e;
    int n;

    fcntl(fd, F_SETFL, O_NONBLOCK);
    c = pmi_client_create_fd(fd, 2, 5, &e);
    ck_assert_msg(c != NULL, "%s", e.text);
    ck_assert_int_eq(pmi_client_rank(c), 2);
    ck_assert_int_eq(pmi_client_size(c), 5);
    ck_assert(!pmi_client_is_singleton(c));
    ck_assert_str_eq(pmi_client_kvsname(c), "kvs_x");
    ck_assert_uint_eq(pmi_client_value_max(c), 1024);
    ck_assert_int_eq(pmi_client_put(c, "k", "v", &e), 0);
    ck_assert_int_eq(pmi_client_put(c, "k k", "v", &e), -1);
    ck_assert_int_eq(errno, EINVAL);
    ck_assert_int_eq(pmi_client_put(c, "k", "v\nw", &e), -1);
    ck_assert_int_eq(pmi_client_barrier(c, &e), 0);
    ck_assert_int_eq(pmi_client_get(c, "k", value, sizeof(value), &e), 0);
    ck_assert_str_eq(value, "a b c");
    ck_assert_int_eq(pmi_client_get(c, "k", value, sizeof(value), &e), -1);
    ck_assert_int_eq(errno, ENOENT);
    ck_assert_int_eq(pmi_client_get(c, "k", value, 8, &e), -1);
    ck_assert_int_eq(errno, ERANGE);
    ck_assert_int_eq(pmi_client_universe_size(c, &n, &e), 0);
    ck_assert_int_eq(n, 9);
    ck_assert_int_eq(pmi_client_appnum(c, &n, &e), 0);
    ck_assert_int_eq(pmi_client_publish(c, "s", "p q", &e), 0);
    ck_assert_int_eq(pmi_client_lookup(c, "s", value, sizeof(value), &e), 0);
    ck_assert_str_eq(value, "p q");
    ck_assert_int_eq(pmi_client_unpublish(c, "s", &e), -1);
    ck_assert_int_eq(errno, EREMOTEIO);
    ck_assert_int_eq(pmi_client_finalize(c, &e), 0);
    ck_assert_int_eq(pmi_client_barrier(c, &e), -1);
    pmi_client_destroy(c);
    pmi_client_destroy(NULL);
    wait(NULL);
}
END_TEST

START_TEST(bad_servers)
{
    static const char *const greetings[] = {"", "hello\n", "cmd=maxes\n",
                                            "cmd=response_to_init rc=-1 msg=no\n",
                                            "cmd=response_to_init rc=0\n|cmd=maxes\n"};
    struct pmi_client *c;
    errmsg_t e;

    for (size_t i = 0; i < sizeof(greetings) / sizeof(greetings[0]); i++) {
        e.text[0] = '\0';
        ck_assert_ptr_null(pmi_client_create_fd(serve(greetings[i]), 0, 1, &e));
        ck_assert_str_ne(e.text, "");
        wait(NULL);
    }
    c = pmi_client_create_fd(serve(HELLO "|cmd=put_result rc=0\n"), 0, 1, &e);
    ck_assert_ptr_nonnull(c);
    ck_assert_int_eq(pmi_client_barrier(c, &e), -1);
    ck_assert_int_eq(errno, EPROTO);
    ck_assert_int_eq(pmi_client_put(c, "k", "v", &e), -1);
    ck_assert_int_eq(errno, EPROTO);
    pmi_client_destroy(c);
    wait(NULL);
    c = pmi_client_create_fd(serve(HELLO), 0, 1, &e);
    wait(NULL);
    ck_assert_int_eq(pmi_client_barrier(c, &e), -1);
    ck_assert(errno == EPIPE || errno == ECONNRESET);
    pmi_client_destroy(c);
    ck_assert_ptr_null(pmi_client_create_fd(0, 3, 3, &e));
    ck_assert_int_eq(errno, EINVAL);
}
END_TEST

START_TEST(singleton)
{
    struct pmi_client *c;
    char value[9000], big[8193];
    errmsg_t e;
    int n;

    unsetenv("PMI_FD");
    unsetenv("PMI_PORT");
    c = pmi_client_create_env(&e);
    ck_assert_msg(c != NULL, "%s", e.text);
    ck_assert(pmi_client_is_singleton(c));
    ck_assert_int_eq(pmi_client_size(c), 1);
    memset(big, 'b', sizeof(big));
    big[8192] = '\0';
    ck_assert_uint_eq(pmi_client_value_max(c), 8192);
    ck_assert_int_eq(pmi_client_put(c, "big", big, &e), 0);
    ck_assert_int_eq(pmi_client_barrier(c, &e), 0);
    ck_assert_int_eq(pmi_client_get(c, "big", value, sizeof(value), &e), 0);
    ck_assert_str_eq(value, big);
    ck_assert_int_eq(pmi_client_get(c, "none", value, sizeof(value), &e), -1);
    ck_assert_int_eq(errno, ENOENT);
    ck_assert_int_eq(pmi_client_get(c, "PMI_process_mapping", value, sizeof(value), &e), 0);
    ck_assert_str_eq(value, "(vector,(0,1,1))");
    ck_assert_int_eq(pmi_client_universe_size(c, &n, &e), 0);
    ck_assert_int_eq(pmi_client_publish(c, "s", "p", &e), -1);
    ck_assert_int_eq(pmi_client_finalize(c, &e), 0);
    pmi_client_destroy(c);
}
END_TEST

/* Longer than a line of any server, and what only looks like that. */
START_TEST(long_values)
{
    static char big[300001], value[300001];
    struct pmi_client *c;
    char key[65];
    errmsg_t e;

    c = pmi_client_create_singleton(&e);
    ck_assert_msg(c != NULL, "%s", e.text);
    for (size_t i = 0; i < sizeof(big) - 1; i++)
        big[i] = (char)('a' + i % 26);
    ck_assert_int_eq(pmi_client_put(c, "big", big, &e), 0);
    ck_assert_int_eq(pmi_client_get(c, "big", value, sizeof(value), &e), 0);
    ck_assert_str_eq(value, big);
    ck_assert_int_eq(pmi_client_get(c, "big", value, sizeof(value) - 1, &e), -1);
    ck_assert_int_eq(errno, ERANGE);
    /* One who puts them as MPICH does. */
    ck_assert_int_eq(pmi_client_get(c, "big-seg-1/37", value, sizeof(value), &e), 0);
    ck_assert_int_eq(strncmp(value, big, 8192), 0);
    ck_assert_int_eq(pmi_client_put(c, "odd", "segments=7", &e), 0);
    ck_assert_int_eq(pmi_client_get(c, "odd", value, sizeof(value), &e), 0);
    ck_assert_str_eq(value, "segments=7");
    ck_assert_int_eq(pmi_client_put(c, "odd", "segments=7", &e), 0);
    ck_assert_int_eq(pmi_client_put(c, "odd2", "segments=x", &e), 0);
    ck_assert_int_eq(pmi_client_get(c, "odd2", value, sizeof(value), &e), 0);
    ck_assert_str_eq(value, "segments=x");
    memset(key, 'k', 64);
    key[64] = '\0';
    ck_assert_int_eq(pmi_client_put(c, key, "v", &e), 0);
    key[0] = 'l';
    ck_assert_int_eq(pmi_client_put(c, key, big, &e), -1);
    ck_assert_int_eq(errno, EINVAL);
    ck_assert_ptr_nonnull(strstr(e.text, "too long"));
    pmi_client_destroy(c);
}
END_TEST

/* A server that takes little, and has lost a piece. */
START_TEST(segments)
{
    int fd = serve("cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n"
                   "|cmd=maxes kvsname_max=256 keylen_max=32 vallen_max=4\n"
                   "|cmd=my_kvsname kvsname=kvs_x\n"
                   "|cmd=put_result rc=0 msg=success\n|cmd=put_result rc=0 msg=success\n"
                   "|cmd=put_result rc=0 msg=success\n"
                   "|cmd=get_result rc=0 msg=success value=segments=2\n"
                   "|cmd=get_result rc=0 msg=success value=1234\n"
                   "|cmd=get_result rc=-1 msg=no value=unknown\n"
                   "|cmd=finalize_ack\n");
    struct pmi_client *c;
    char value[16];
    errmsg_t e;

    c = pmi_client_create_fd(fd, 0, 1, &e);
    ck_assert_msg(c != NULL, "%s", e.text);
    ck_assert_int_eq(pmi_client_put(c, "k", "12345", &e), 0);
    ck_assert_int_eq(pmi_client_get(c, "k", value, sizeof(value), &e), -1);
    ck_assert_int_eq(errno, EREMOTEIO);
    ck_assert_ptr_nonnull(strstr(e.text, "segment 2 of 2"));
    ck_assert_int_eq(pmi_client_finalize(c, &e), 0);
    pmi_client_destroy(c);
    wait(NULL);
}
END_TEST

START_TEST(spawn)
{
    static const char *const args[] = {"-a", "b c", NULL}, *const info[] = {"host", "x", "wd", "/"};
    static const char *const many[] = {"key", "value"};
    struct pmi_client_command cmds[] = {{"prog", args, 2, 2, info}, {"other", NULL, 1, 0, NULL}};
    struct pmi_client *c;
    errmsg_t e;

    c = pmi_client_create_singleton(&e);
    ck_assert_int_eq(pmi_client_spawn(c, cmds, 2, many, 1, &e), -1);
    ck_assert_int_eq(errno, EREMOTEIO);
    ck_assert_ptr_nonnull(strstr(e.text, "spawn_is_not_supported"));
    ck_assert_int_eq(pmi_client_spawn(c, cmds, 0, NULL, 0, &e), -1);
    ck_assert_int_eq(errno, EINVAL);
    cmds[0].program = "a\nb";
    ck_assert_int_eq(pmi_client_spawn(c, cmds, 1, NULL, 0, &e), -1);
    ck_assert_int_eq(errno, EINVAL);
    /* It lives on. */
    ck_assert_int_eq(pmi_client_barrier(c, &e), 0);
    ck_assert_int_eq(pmi_client_finalize(c, &e), 0);
    pmi_client_destroy(c);
}
END_TEST

START_TEST(environment)
{
    static const char *const bad[][3] = {
        {"x", "0", "1"}, {"99", NULL, "1"}, {"99", "0", NULL}, {"99", "1", "1"}, {"99", "0", "1 "}};
    errmsg_t e;

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        static const char *const names[3] = {"PMI_FD", "PMI_RANK", "PMI_SIZE"};

        for (int k = 0; k < 3; k++) {
            if (bad[i][k])
                setenv(names[k], bad[i][k], 1);
            else
                unsetenv(names[k]);
        }
        ck_assert_ptr_null(pmi_client_create_env(&e));
        ck_assert_int_eq(errno, EINVAL);
    }
    unsetenv("PMI_FD");
    setenv("PMI_PORT", "nowhere", 1);
    unsetenv("PMI_ID");
    ck_assert_ptr_null(pmi_client_create_env(&e));
    setenv("PMI_ID", "0", 1);
    ck_assert_ptr_null(pmi_client_create_env(&e));
    ck_assert_int_eq(errno, EINVAL);
    setenv("PMI_PORT", "127.0.0.1:1", 1);
    ck_assert_ptr_null(pmi_client_create_env(&e));
    ck_assert_int_eq(errno, ECONNREFUSED);
}
END_TEST

int main(void)
{
    RUN_SUITE("pmi_client", scripted, bad_servers, singleton, long_values, segments, spawn,
              environment);
}

/* check_connector_nomem.c - a client for which there is no memory is told so. */
#include "config.h"
#include <check.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "alone.h"
#include "libutil/test/fail_at.h"
#include "libutil/test/suite.h"
#include "src/broker/connector.h"

/* Accept a client while the k-th allocation fails.  Returns false if none has failed. */
static bool accept_without(connector_t *cn, unsigned k)
{
    errmsg_t err = {""};
    char buf[1024];
    int fds[2], rc, errnum;
    unsigned left;
    ssize_t n;

    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds), 0);
    sparing--;
    fail_at = k;
    rc = connector_adopt(cn, fds[0], &err);
    errnum = errno;
    left = stop_failing();
    sparing++;
    n = recv(fds[1], buf, sizeof(buf), 0);
    ck_assert_msg(n > 0, "allocation %u: nothing was sent (%s)", k, err.text);
    if (rc < 0) {
        ck_assert_int_eq(errnum, ENOMEM);
        ck_assert_msg(memmem(buf, (size_t)n, "rank 0 is out of memory", 23) != NULL,
                      "allocation %u: %s", k, err.text);
    }
    ck_assert(rc < 0 || left > 0);
    close(fds[1]);
    return left == 0;
}

START_TEST(client_without_memory)
{
    flux_reactor_t *r = flux_reactor_create(false);
    struct core_config cfg;
    errmsg_t err = {""};
    connector_t *cn;
    core_t *core;
    unsigned k = 1;

    core_config_init(&cfg);
    cfg.userid = geteuid();
    ck_assert_ptr_nonnull(core = core_create(&cfg, r, NULL, NULL, &err));
    core_set_link(core, &alone_ops, NULL);
    ck_assert_ptr_nonnull(cn = connector_create(core, NULL, &connector_limits_default, &err));
    ck_assert_int_eq(core_start(core), 0);
    while (accept_without(cn, k))
        k++;
    ck_assert_uint_gt(k, 5);
    connector_destroy(cn);
    core_destroy(core);
    flux_reactor_destroy(r);
}
END_TEST

int main(void)
{
    sparing = 1; /* the test itself */
    RUN_SUITE("connector_nomem", client_without_memory);
}

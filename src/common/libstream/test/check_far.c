/* check_far.c - streams between hosts: what a reader is told of steps that do not come, changes of
 * its policy, releases, and writers that end.  What a reader asks for is in check_far_ask.c, who is
 * not admitted in check_far_strangers.c, and what goes over the wire in check_far_msg.c. */
#include "config.h"
#include <errno.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ends.h"
#include "libstream/lane.h"
#include "libutil/test/suite.h"

/* Until the writer has told that no step before `floor` comes. */
static void wait_floor(inlet_t *i, uint64_t floor)
{
    struct inlet_step s;

    while (inlet_floor(i) != floor) {
        ck_assert_int_eq(inlet_take(i, &s, &err), 0);
        if (inlet_floor(i) != floor && inlet_sleep(i))
            poll(&(struct pollfd){.fd = inlet_fd(i), .events = POLLIN}, 1, -1);
        inlet_wake(i);
    }
}

/* A reader knows which steps do not come: those before it has joined, all while it is off, and
 * those before it was turned on. */
START_TEST(floors)
{
    struct knock_want w;
    struct inlet_step s;
    outlet_t *o;
    inlet_t *i;

    ends_way = (enum way)_i;
    o = writer(0., 0);
    put(o, 1);
    i = reader(o, "block", 0);
    wait_floor(i, 2);
    knock_want_init(&w);
    w.reader = ends_way == RING ? 0 : 7; /* of the tests' readers */
    w.off = true;
    outlet_want(o, &w, 1);
    wait_floor(i, UINT64_MAX);
    put(o, 4);
    outlet_pass(o, 9); /* steps that nobody wants */
    w.off = false;
    outlet_want(o, &w, 1);
    wait_floor(i, 9);
    put(o, 9);
    ck_assert_int_eq(inlet_next(i, 30., &s, &err), 1);
    ck_assert_uint_eq(s.step, 9);
    ck_assert_int_eq(inlet_release(i, &s), 0);
    inlet_destroy(i);
    outlet_destroy(o);
}
END_TEST

/* A policy that is changed while a reader reads: steps that it does not ask for are taken back. */
START_TEST(policy)
{
    struct knock_want w;
    struct inlet_step s;
    uint64_t got = 0;
    outlet_t *o;
    inlet_t *i;

    ends_way = (enum way)_i;
    o = writer(0., 0);
    i = reader(o, "block", 0);
    put(o, 1);
    get_release(i, 1);
    knock_want_init(&w);
    w.reader = 7; /* of the tests' readers */
    w.policy = KNOCK_LATEST;
    outlet_want(o, &w, 1);
    for (uint64_t step = 2; step <= 40; step++)
        put(o, step);
    ck_assert_int_eq(inlet_next(i, 30., &s, &err), 1);
    for (; s.step < 40; got++) { /* the writer's thread had not seen the change yet */
        ck_assert_int_eq(inlet_release(i, &s), 0);
        ck_assert_int_eq(inlet_next(i, 30., &s, &err), 1);
    }
    ck_assert_uint_eq(stats(o).dropped + got, 38);
    ck_assert_uint_lt(got, 38);
    inlet_destroy(i);
    outlet_destroy(o);
}
END_TEST

/* --- releases --- */

static struct tcp_info sent_by(const inlet_t *i)
{
    struct tcp_info info = {0};
    socklen_t len = sizeof(info);

    ck_assert_int_eq(getsockopt(inlet_fd(i), IPPROTO_TCP, TCP_INFO, &info, &len), 0);
    return info;
}

/* Take `steps` steps, and then release them all.  Returns the number of segments in which that was
 * said. */
static uint32_t release_all(outlet_t *o, inlet_t *i, uint64_t first, uint64_t steps)
{
    struct inlet_step s[LANE_SLOTS];
    uint32_t before;

    for (uint64_t n = 0; n < steps; n++) {
        put(o, first + n);
        s[n] = get(i, first + n);
    }
    before = sent_by(i).tcpi_data_segs_out;
    for (uint64_t n = 0; n < steps; n++)
        ck_assert_int_eq(inlet_release(i, &s[n]), 0);
    return sent_by(i).tcpi_data_segs_out - before;
}

/* While the writer has room, releases go together, and before the reader sleeps; or, if it does
 * nothing, soon. */
START_TEST(releases)
{
    outlet_t *o;
    inlet_t *i;

    ends_way = (enum way)_i;
    o = writer(0., 0);
    i = reader(o, "block", 0);
    ck_assert_uint_lt(release_all(o, i, 0, 50), 25);
    ck_assert(inlet_sleep(i));
    ck_assert_uint_eq(sent_by(i).tcpi_notsent_bytes, 0);
    wait_live(o, 0);
    inlet_destroy(i);
    i = reader(o, "block", 0);
    ck_assert_uint_lt(release_all(o, i, 50, 50), 25);
    wait_live(o, 0);
    inlet_destroy(i);
    i = reader(o, "block", 3); /* a queue that is soon full */
    ck_assert_uint_eq(release_all(o, i, 100, 3), 3);
    wait_live(o, 0);
    inlet_destroy(i);
    i = reader(o, "drop-newest", 0); /* a writer that would drop steps */
    ck_assert_uint_eq(release_all(o, i, 103, 4), 4);
    wait_live(o, 0);
    inlet_destroy(i);
    outlet_destroy(o);
}
END_TEST

/* --- ends --- */

static void *read_late(void *arg)
{
    inlet_t *i = arg;

    for (uint64_t step = 1; step <= 5; step++)
        get_release(i, step);
    get_error(i, ENODATA);
    return NULL;
}

/* A writer that is closed waits for what its readers have not got. */
START_TEST(lingers)
{
    char text[FAR_ADDR_MAX];
    struct outlet_opts opts = {.key = ends_key, .space = 64 << 20, .far = {.stream = "test"}};
    struct knock_want w;
    pthread_t t;
    outlet_t *o;
    inlet_t *i;

    ends_way = (enum way)_i;
    ck_assert_int_ge(opts.far.listen = far_addr_listen("127.0.0.1", NULL, text, &err), 0);
    ck_assert_ptr_nonnull(o = outlet_create(&opts, &err));
    knock_want_init(&w);
    ck_assert_msg((i = reader_try(text, &w)) != NULL, "%s", err.text);
    for (uint64_t step = 1; step <= 5; step++)
        put(o, step);
    ck_assert_int_eq(pthread_create(&t, NULL, read_late, i), 0);
    outlet_destroy(o);
    pthread_join(t, NULL);
    inlet_destroy(i);
}
END_TEST

/* It does not wait for one that it has evicted. */
START_TEST(evicted)
{
    char text[FAR_ADDR_MAX];
    struct outlet_opts opts = {.key = ends_key,
                               .space = 64 << 20,
                               .evict = 0.01,
                               .far = {.stream = "test", .linger = 1000.}};
    struct knock_want w;
    outlet_t *o;
    inlet_t *i;

    ends_way = (enum way)_i;
    ck_assert_int_ge(opts.far.listen = far_addr_listen("127.0.0.1", NULL, text, &err), 0);
    ck_assert_ptr_nonnull(o = outlet_create(&opts, &err));
    knock_want_init(&w);
    w.depth = 2;
    ck_assert_msg((i = reader_try(text, &w)) != NULL, "%s", err.text);
    for (uint64_t step = 1; step <= 3; step++)
        ck_assert_msg(put_wait(o, step, -1.) == 0, "%s", err.text);
    ck_assert_uint_eq(stats(o).evicted, 1);
    outlet_destroy(o);
    inlet_destroy(i);
}
END_TEST

/* A writer dies: what is here can be used, what is not is an error, and so is the next step. */
START_TEST(writer_dies)
{
    struct inlet_value v = {0, 0, STEP_LEN - 1};
    char address[FAR_ADDR_MAX] = "";
    struct inlet_step s;
    struct inlet_step small;
    struct knock_want w;
    int fds[2];
    inlet_t *i;
    pid_t pid;
    char c;

    ends_way = (enum way)_i;
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    ck_assert_int_ge(pid = fork(), 0);
    if (pid == 0) {
        outlet_t *o = writer(0., 0);
        void *buf;

        if (write(fds[1], writer_address(o), FAR_ADDR_MAX) < 0)
            _exit(1);
        wait_readers(o, 1);
        put(o, 1);
        outlet_begin(o, 2, 10, 0., &buf, &err);
        memcpy(buf, "ten bytes.", 10);
        outlet_commit(o, 10);
        if (read(fds[1], &c, 1) == 1)
            raise(SIGKILL);
        _exit(1);
    }
    ck_assert_int_eq(recv(fds[0], address, sizeof(address), MSG_WAITALL), sizeof(address));
    knock_want_init(&w);
    ck_assert_msg((i = reader_try(address, &w)) != NULL, "%s", err.text);
    ck_assert_int_eq(inlet_next(i, 30., &s, &err), 1);
    ck_assert_int_eq(inlet_next(i, 30., &small, &err), 1);
    ck_assert_int_eq(write(fds[0], "x", 1), 1);
    ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
    ck_assert_int_eq(inlet_fetch(i, &small, &(struct inlet_value){0, 0, 10}, &err), 0);
    ck_assert_mem_eq(small.data, "ten bytes.", 10);
    ck_assert_int_eq(inlet_fetch(i, &s, &v, &err), -1);
    ck_assert_msg(errno == ECONNRESET, "%s", err.text);
    get_error(i, ECONNRESET);
    ck_assert_int_eq(inlet_release(i, &s), 0);
    inlet_destroy(i);
    ck_assert_ptr_null(reader_try(address, &w));
    ck_assert_int_eq(errno, ECONNREFUSED);
    close(fds[0]);
    close(fds[1]);
}
END_TEST

int main(void)
{
    const TTest *const tcp[] = {policy, releases, lingers, evicted, writer_dies};
    TCase *tc = tcase_create("far");

    tcase_set_timeout(tc, 60);
    for (size_t i = 0; i < sizeof(tcp) / sizeof(tcp[0]); i++)
        tcase_add_loop_test(tc, tcp[i], TCP, WAYS);
    tcase_add_loop_test(tc, floors, 0, WAYS);
    return run_case("far", tc);
}

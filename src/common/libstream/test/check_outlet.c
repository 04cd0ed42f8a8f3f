/* check_outlet.c - a writer and its readers: policies, deaths, strangers, leftovers.  What has to
 * be the same on one host and between hosts is tested in both ways. */
#include "config.h"
#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ends.h"
#include "libstream/lane.h"
#include "libutil/test/suite.h"

/* Mappings of streams that a core file would contain, which would take long. */
static unsigned dumped(void)
{
    FILE *f = fopen("/proc/self/smaps", "r");
    char line[512];
    bool ours = false;
    unsigned n = 0;

    while (fgets(line, sizeof(line), f)) {
        if (strstr(line, "memfd:"))
            ours = strstr(line, "flux-stream ") != NULL;
        else if (strncmp(line, "VmFlags:", 8) == 0 && ours) {
            n += strstr(line, " dd") == NULL;
            ours = false;
        }
    }
    fclose(f);
    return n;
}

/* A writer whose readers come by this way. */
static outlet_t *writer_by(int way, double evict, uint32_t keep)
{
    ends_way = (enum way)way;
    return writer(evict, keep);
}

START_TEST(steps)
{
    outlet_t *o = writer(0., 0);
    inlet_t *a;
    inlet_t *b;
    struct inlet_step s;
    void *buf;

    ck_assert(!outlet_wanted(o));
    a = reader(o, "block", 0);
    b = reader(o, "block", 0);
    wait_readers(o, 2);
    ck_assert(outlet_wanted(o));
    ck_assert_uint_eq(dumped(), 0);
    get_error(a, ETIMEDOUT);
    put(o, 3);
    put(o, 4);
    s = get(a, 3);
    get_release(a, 4);
    get_release(b, 3);
    /* The reader's view cannot be made writable. */
    ck_assert_int_eq(
        mprotect((void *)((uintptr_t)s.data & ~(uintptr_t)4095), 4096, PROT_READ | PROT_WRITE), -1);
    ck_assert_int_eq(errno, EACCES);
    ck_assert_int_eq(inlet_release(a, &s), 0);
    ck_assert_int_eq(inlet_release(a, &s), -1);
    ck_assert_int_eq(outlet_begin(o, 4, 1, 0., &buf, &err), -1);
    ck_assert_int_eq(errno, EINVAL);
    ck_assert_str_eq(err.text, "step 4 is not larger than the last one");
    ck_assert_int_eq(outlet_begin(o, 5, 10, 0., &buf, &err), 0);
    ck_assert_int_eq(outlet_begin(o, 6, 10, 0., &buf, &err), -1);
    ck_assert_int_eq(outlet_commit(o, 11), -1);
    outlet_abort(o);
    ck_assert_int_eq(outlet_commit(o, 1), -1);
    get_error(a, ETIMEDOUT);
    ck_assert_int_eq(outlet_begin(o, 5, (uint64_t)1 << 40, 0., &buf, &err), -1);
    ck_assert_int_eq(errno, ENOSPC);
    put(o, 5);
    get_release(a, 5);
    get_release(b, 4);
    get_release(b, 5);
    ck_assert_uint_eq(stats(o).live, 0);
    ck_assert_uint_eq(stats(o).steps, 3);
    ck_assert_uint_eq(stats(o).offered, 6);
    /* What was offered before the end is still read. */
    put(o, 6);
    outlet_destroy(o);
    get_release(a, 6);
    get_error(a, ENODATA);
    get_release(b, 6);
    get_error(b, ENODATA);
    inlet_destroy(a);
    inlet_destroy(b);
}
END_TEST

START_TEST(policies)
{
    outlet_t *o = writer_by(_i, 0., 0);
    inlet_t *oldest = reader(o, "drop-oldest", 3);
    inlet_t *newest = reader(o, "drop-newest", 3);
    inlet_t *latest = reader(o, "latest", 3);
    inlet_t *sample = reader(o, "sample:4", 3);
    struct inlet_step s;

    wait_readers(o, 4);
    put(o, 1);
    s = get(latest, 1);
    for (uint64_t step = 2; step <= 9; step++)
        put(o, step);
    for (uint64_t step = 7; step <= 9; step++)
        get_release(oldest, step);
    for (uint64_t step = 1; step <= 3; step++)
        get_release(newest, step);
    check(&s, 1);
    inlet_release(latest, &s);
    get_release(latest, 9);
    get_release(sample, 4);
    get_release(sample, 8);
    ck_assert_uint_eq(stats(o).dropped, 6 + 6 + 7);
    wait_live(o, 0);
    for (uint64_t step = 10; step <= 12; step++)
        put(o, step);
    get_release(newest, 10);
    get_release(sample, 12);
    outlet_destroy(o);
    inlet_destroy(oldest);
    inlet_destroy(newest);
    inlet_destroy(latest);
    inlet_destroy(sample);
}
END_TEST

static void *release_later(void *arg)
{
    inlet_t *i = arg;

    for (uint64_t step = 1; step <= 200; step++)
        get_release(i, step);
    return NULL;
}

/* A writer waits for a reader that blocks it, and is woken. */
START_TEST(block)
{
    outlet_t *o = writer_by(_i, 0., 0);
    inlet_t *i = reader(o, "block", 2);
    struct knock_want w;
    inlet_t *bytes;
    pthread_t t;

    wait_readers(o, 1);
    put(o, 1);
    put(o, 2);
    ck_assert_int_eq(put_wait(o, 3, 0.001), -1);
    ck_assert_int_eq(errno, ETIMEDOUT);
    ck_assert_int_eq(pthread_create(&t, NULL, release_later, i), 0);
    for (uint64_t step = 3; step <= 200; step++)
        ck_assert_int_eq(put_wait(o, step, -1.), 0);
    pthread_join(t, NULL);
    inlet_destroy(i);
    wait_readers(o, 0);
    /* By bytes: at least two steps, however large. */
    knock_want_init(&w);
    w.bytes = STEP_LEN * 3;
    bytes = reader_try(writer_address(o), &w);
    wait_readers(o, 1);
    for (uint64_t step = 201; step <= 203; step++)
        put(o, step);
    ck_assert_int_eq(put_wait(o, 204, 0.), -1);
    inlet_destroy(bytes);
    wait_readers(o, 0);
    w.bytes = 1;
    bytes = reader_try(writer_address(o), &w);
    wait_readers(o, 1);
    put(o, 204);
    put(o, 205);
    ck_assert_int_eq(put_wait(o, 206, 0.), -1);
    inlet_destroy(bytes);
    outlet_destroy(o);
}
END_TEST

/* The queue of one reader cannot take all the memory, whatever it asks for. */
START_TEST(greedy)
{
    outlet_t *o = writer_by(_i, 0., 0);
    struct knock_want w;
    inlet_t *i;
    uint64_t step = 1;

    knock_want_init(&w);
    w.bytes = UINT64_MAX;
    i = reader_try(writer_address(o), &w);
    wait_readers(o, 1);
    while (put_wait(o, step, 0.) == 0)
        step++;
    ck_assert_msg(errno == ETIMEDOUT, "%s", err.text);
    get_release(i, 1);
    ck_assert_int_eq(put_wait(o, step, -1.), 0);
    inlet_destroy(i);
    outlet_destroy(o);
}
END_TEST

static int put_small(outlet_t *o, uint64_t step, uint64_t len, double timeout)
{
    void *buf;
    int rc = outlet_begin(o, step, len, timeout, &buf, &err);

    if (rc == 0) {
        memset(buf, 0, len);
        ck_assert_int_eq(outlet_commit(o, len), 0);
    }
    return rc;
}

static struct inlet_step get_small(inlet_t *i, uint64_t step)
{
    struct inlet_step s;

    ck_assert_msg(inlet_next(i, 30., &s, &err) == 1, "%s", err.text);
    ck_assert_uint_eq(s.step, step);
    return s;
}

/* A lane whose slots are used up by steps that were dropped behind one that is held: when its
 * reader blocks, the writer waits until that one is released. */
START_TEST(slots)
{
    outlet_t *o = writer_by(RING, 0., 0);
    struct inlet_step held;
    struct knock_want w;
    inlet_t *i;

    knock_want_init(&w);
    w.policy = KNOCK_DROP_OLDEST;
    w.bytes = 31; /* 3 steps of 8 bytes, and one of 7 */
    ck_assert_msg((i = reader_try(writer_address(o), &w)) != NULL, "%s", err.text);
    ck_assert_int_eq(put_small(o, 1, 8, 0.), 0);
    held = get_small(i, 1);
    for (uint64_t step = 2; step <= LANE_SLOTS; step++)
        ck_assert_int_eq(put_small(o, step, 8, 0.), 0);
    w.policy = KNOCK_BLOCK;
    outlet_want(o, &w, 1);
    ck_assert_int_eq(put_small(o, LANE_SLOTS + 1, 7, 0.), -1);
    ck_assert_int_eq(errno, ETIMEDOUT);
    ck_assert_int_eq(inlet_release(i, &held), 0);
    ck_assert_int_eq(put_small(o, LANE_SLOTS + 1, 7, 0.), 0);
    for (uint64_t step = LANE_SLOTS - 1; step <= LANE_SLOTS + 1; step++)
        get_small(i, step);
    inlet_destroy(i);
    outlet_destroy(o);
}
END_TEST

/* A wish is for readers that join later too, until its number is forgotten. */
START_TEST(forgotten)
{
    outlet_t *o = writer_by(RING, 0., 0);
    struct knock_want w;
    inlet_t *off, *first, *second;

    knock_want_init(&w); /* with the number of the tests' readers */
    w.off = true;
    outlet_want(o, &w, 1);
    off = reader(o, "block", 0);
    wait_readers(o, 1);
    ck_assert(!outlet_wanted(o));
    outlet_forget(o, w.reader);
    first = reader(o, "block", 0);
    wait_readers(o, 2);
    ck_assert(outlet_wanted(o));
    outlet_want(o, &w, 1);
    ck_assert(!outlet_wanted(o));
    outlet_forget_all(o);
    second = reader(o, "block", 0);
    wait_readers(o, 3);
    put(o, 1);
    get_release(second, 1);
    ck_assert_uint_eq(stats(o).offered, 1);
    inlet_destroy(off);
    inlet_destroy(first);
    inlet_destroy(second);
    outlet_destroy(o);
}
END_TEST

static void pin(outlet_t *o, char byte, uint64_t len)
{
    void *buf;

    ck_assert_msg(outlet_pin_begin(o, len, &buf, &err) == 0, "%s", err.text);
    ck_assert_int_eq(outlet_pin_begin(o, len, &buf, &err), -1);
    ck_assert_int_eq(errno, EINVAL);
    memset(buf, byte, len);
    outlet_pin_commit(o);
}

static void check_pinned(const struct inlet_step *s, char byte, uint64_t len)
{
    const char *p = s->pinned;

    ck_assert_uint_gt(s->pin, 0);
    ck_assert_uint_eq(s->pinned_len, len);
    ck_assert(p[0] == byte && p[len / 2] == byte && p[len - 1] == byte);
}

/* What is pinned goes with each step after it, as of that step, and stays as long as one of these
 * steps does; a reader that joins later finds it, and so does one that gets a kept step. */
START_TEST(pinned)
{
    outlet_t *o = writer_by(_i, 0., 2);
    inlet_t *first = reader(o, "block", 0);
    struct inlet_step s[6];
    inlet_t *late;
    void *buf;

    wait_readers(o, 1);
    put(o, 1);
    pin(o, 'a', 10);
    put(o, 2);
    put(o, 3);
    pin(o, 'b', 200000);
    put(o, 4);
    ck_assert_int_eq(outlet_pin_begin(o, 0, &buf, &err), -1);
    ck_assert_int_eq(errno, EINVAL);
    late = reader(o, "latest", 0);
    wait_readers(o, 2);
    s[0] = get(late, 4);
    check_pinned(&s[0], 'b', 200000);
    for (uint64_t step = 1; step <= 4; step++)
        s[step] = get(first, step);
    ck_assert_uint_eq(s[1].pin, 0);
    check_pinned(&s[2], 'a', 10);
    check_pinned(&s[4], 'b', 200000);
    ck_assert(s[2].pin == s[3].pin && s[2].pinned == s[3].pinned);
    ck_assert_uint_eq(stats(o).pinned, 200010);
    put(o, 5);
    put(o, 6); /* the last of them, and the one before, are kept */
    for (uint64_t step = 1; step <= 4; step++)
        ck_assert_int_eq(inlet_release(first, &s[step]), 0);
    ck_assert_int_eq(inlet_release(late, &s[0]), 0);
    get_release(first, 5);
    s[0] = get(first, 6);
    check_pinned(&s[0], 'b', 200000);
    ck_assert_int_eq(inlet_release(first, &s[0]), 0);
    wait_live(o, 2 * STEP_LEN - 11);
    ck_assert_uint_eq(stats(o).pinned, 200000);
    inlet_destroy(first);
    inlet_destroy(late);
    outlet_destroy(o);
}
END_TEST

/* What each reader means for the writer: the queue as it is, and the rest since the last call.
 * Readers for which there is no room are returned by the next call. */
START_TEST(queues)
{
    outlet_t *o = writer_by(_i, 0., 0);
    inlet_t *slow = reader(o, "block", 2);
    inlet_t *newest;
    struct outlet_queue q[4];
    const uint64_t two = 2 * STEP_LEN - 1 - 2;

    wait_readers(o, 1);
    newest = reader(o, "drop-newest", 2);
    wait_readers(o, 2);
    ck_assert_uint_eq(outlet_get_queues(o, q, 4), 0);
    put(o, 1);
    put(o, 2);
    ck_assert_int_eq(put_wait(o, 3, 0.01), -1);
    ck_assert_uint_eq(outlet_get_queues(o, q, 4), 2);
    ck_assert(q[0].bytes == two && q[0].dropped == 0 && q[0].blocked > 0.);
    ck_assert(q[1].bytes == two && q[1].dropped == 0 && q[1].blocked == 0.);
    get_release(slow, 1);
    ck_assert_msg(put_wait(o, 3, -1.) == 0, "%s", err.text);
    memset(q, 0, sizeof(q));
    ck_assert_uint_eq(outlet_get_queues(o, q, 1), 1);
    ck_assert(q[0].bytes == two - (STEP_LEN - 1) + STEP_LEN - 3 && q[0].dropped == 0);
    ck_assert_uint_eq(outlet_get_queues(o, q, 1), 1);
    ck_assert(q[0].bytes == two && q[0].dropped == 1 && q[0].blocked == 0.);
    get_release(slow, 2);
    get_release(slow, 3);
    get_release(newest, 1);
    get_release(newest, 2);
    wait_live(o, 0);
    ck_assert_uint_eq(outlet_get_queues(o, q, 4), 2);
    ck_assert(q[0].bytes == 0 && q[1].bytes == 0 && q[1].dropped == 0);
    ck_assert_uint_eq(outlet_get_queues(o, q, 4), 0);
    ck_assert_uint_eq(stats(o).connections, _i == RING ? 0 : 2);
    inlet_destroy(slow);
    inlet_destroy(newest);
    outlet_destroy(o);
}
END_TEST

/* A reader that holds its steps for too long is told; what it holds stays as it is. */
START_TEST(evict)
{
    outlet_t *o = writer_by(_i, _i == RING ? 0.01 : 0.3, 0);
    inlet_t *slow = reader(o, "block", 2);
    inlet_t *good = reader(o, "block", 2);
    struct inlet_step s;

    wait_readers(o, 2);
    put(o, 1);
    s = get(slow, 1);
    get_release(good, 1);
    for (uint64_t step = 2; step <= 60; step++) {
        ck_assert_msg(put_wait(o, step, -1.) == 0, "%s", err.text);
        get_release(good, step);
    }
    ck_assert_uint_eq(stats(o).evicted, 1);
    check(&s, 1);
    if (_i != RING) /* it was told of this one before, and releases it behind one that it holds */
        get_release(slow, 2);
    get_error(slow, ESTALE);
    wait_live(o, _i == RING ? STEP_LEN - 1 : 2 * STEP_LEN - 3);
    ck_assert_int_eq(inlet_release(slow, &s), 0);
    inlet_destroy(slow);
    wait_readers(o, 1);
    ck_assert_uint_eq(stats(o).live, 0);
    outlet_destroy(o);
    inlet_destroy(good);
}
END_TEST

START_TEST(keep)
{
    outlet_t *o = writer_by(_i, 0., 3);
    inlet_t *other;
    inlet_t *i;

    ck_assert(outlet_wanted(o));
    for (uint64_t step = 1; step <= 10; step++)
        put(o, step);
    i = reader(o, "block", 0);
    for (uint64_t step = 8; step <= 10; step++)
        get_release(i, step);
    put(o, 11);
    get_release(i, 11);
    wait_live(o, 3 * STEP_LEN - 9 - 10 - 11);
    inlet_destroy(i);
    wait_readers(o, 0);
    /* More than the queue of a reader holds: none is lost; a reader that does not block gets as
     * many as that. */
    i = reader(o, "block", 2);
    other = reader(o, "drop-newest", 2);
    wait_readers(o, 2);
    ck_assert_int_eq(put_wait(o, 12, 0.), -1);
    ck_assert_int_eq(errno, ETIMEDOUT);
    for (uint64_t step = 9; step <= 10; step++)
        get_release(other, step);
    for (uint64_t step = 9; step <= 11; step++)
        get_release(i, step);
    ck_assert_int_eq(put_wait(o, 12, -1.), 0);
    get_release(i, 12);
    get_release(other, 12);
    ck_assert_uint_eq(stats(o).dropped, 1);
    outlet_destroy(o);
    inlet_destroy(i);
    inlet_destroy(other);
}
END_TEST

static void *join_later(void *arg)
{
    inlet_t **i = arg;

    i[1] = reader((outlet_t *)i[0], "block", 0);
    return NULL;
}

/* A writer waits for readers. */
START_TEST(rendezvous)
{
    outlet_t *o = writer_by(_i, 0., 0);
    inlet_t *i[2] = {(inlet_t *)o, NULL};
    inlet_t *first;
    pthread_t t;

    ck_assert_int_eq(outlet_wait(o, 0, 0., &err), 0);
    ck_assert_int_eq(outlet_wait(o, 1, 0.001, &err), -1);
    ck_assert_int_eq(errno, ETIMEDOUT);
    ck_assert_str_eq(err.text, "0 of 1 readers have come within 0.001 s");
    first = reader(o, "block", 0);
    ck_assert_int_eq(outlet_wait(o, 1, 30., &err), 0);
    ck_assert_int_eq(pthread_create(&t, NULL, join_later, i), 0);
    ck_assert_int_eq(outlet_wait(o, 2, -1., &err), 0);
    pthread_join(t, NULL);
    inlet_destroy(first);
    inlet_destroy(i[1]);
    outlet_destroy(o);
}
END_TEST

/* A reader that has joined gets the next step, however soon that is. */
START_TEST(joins)
{
    for (int n = 0; n < 200; n++) {
        outlet_t *o = writer_by(_i, 0., 0);
        inlet_t *i = reader(o, "block", 0);

        ck_assert(outlet_wanted(o));
        inlet_destroy(i);
        outlet_destroy(o);
    }
}
END_TEST

/* A reader that has joined finds all steps that were kept, even if it runs before the thread that
 * let it in. */
START_TEST(joins_kept)
{
    enum { KEPT = 32 };
    outlet_t *o;
    cpu_set_t one;

    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    ck_assert_int_eq(sched_setaffinity(0, sizeof(one), &one), 0);
    o = writer(0., KEPT);
    for (uint64_t step = 1; step <= KEPT; step++)
        put(o, step);
    for (int n = 0; n < 200; n++) {
        inlet_t *i = reader(o, "block", KEPT);

        for (uint64_t step = 1; step <= KEPT; step++) {
            struct inlet_step s;

            ck_assert_int_eq(inlet_take(i, &s, &err), 1);
            ck_assert_uint_eq(s.step, step);
            ck_assert_int_eq(inlet_release(i, &s), 0);
        }
        inlet_destroy(i);
    }
    outlet_destroy(o);
}
END_TEST

/* A writer dies while it writes a step: what it has committed is read, and nothing else. */
START_TEST(writer_dies)
{
    int fds[2];
    char name[64] = "";
    struct knock_want w;
    inlet_t *i;
    pid_t pid;
    int status;

    ck_assert_int_eq(pipe(fds), 0);
    ck_assert_int_ge(pid = fork(), 0);
    if (pid == 0) {
        outlet_t *o = writer(0., 0);
        void *buf;

        if (write(fds[1], outlet_name(o), strlen(outlet_name(o))) < 0)
            _exit(1);
        wait_readers(o, 1);
        put(o, 1);
        put(o, 2);
        outlet_begin(o, 3, STEP_LEN, 0., &buf, &err);
        memset(buf, 3, STEP_LEN / 2);
        raise(SIGKILL);
    }
    ck_assert_int_gt(read(fds[0], name, sizeof(name) - 1), 0);
    knock_want_init(&w);
    i = inlet_connect(name, ends_key, &w, 30., &err);
    ck_assert_msg(i != NULL, "%s", err.text);
    get_release(i, 1);
    get_release(i, 2);
    get_error(i, ECONNRESET);
    ck_assert_str_eq(err.text, "the writer of the stream has died");
    inlet_destroy(i);
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_ptr_null(inlet_connect(name, ends_key, &w, 30., &err));
    ck_assert_int_eq(errno, ECONNREFUSED);
    close(fds[0]);
    close(fds[1]);
}
END_TEST

/* A reader dies while it holds steps, and the writer waits for it. */
START_TEST(reader_dies)
{
    outlet_t *o = writer_by(_i, 0., 0);
    int fds[2];
    char c;
    pid_t pid;

    ck_assert_int_eq(pipe(fds), 0);
    ck_assert_int_ge(pid = fork(), 0);
    if (pid == 0) {
        inlet_t *i = reader(o, "block", 2);

        get(i, 1);
        if (write(fds[1], "x", 1) != 1)
            _exit(1);
        pause();
    }
    wait_readers(o, 1);
    put(o, 1);
    put(o, 2);
    ck_assert_int_eq(read(fds[0], &c, 1), 1);
    ck_assert_int_eq(kill(pid, SIGKILL), 0);
    ck_assert_msg(put_wait(o, 3, -1.) == 0, "%s", err.text);
    ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
    wait_readers(o, 0);
    ck_assert_uint_eq(stats(o).live, 0);
    outlet_destroy(o);
    close(fds[0]);
    close(fds[1]);
}
END_TEST

static int dial(const char *name)
{
    struct sockaddr_un sun = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

    memcpy(sun.sun_path + 1, name, strlen(name));
    ck_assert_int_eq(
        connect(fd, (struct sockaddr *)&sun,
                (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(name))),
        0);
    return fd;
}

/* Whoever does not know the capability, or says anything else, gets nothing. */
START_TEST(strangers)
{
    outlet_t *o = writer(0., 0);
    unsigned char wrong[KNOCK_KEY_LEN] = "the capability of this stream..";
    struct knock_want w;
    struct knock_welcome welcome;
    unsigned char buf[200];
    int silent[80];
    inlet_t *i;
    int fd;

    knock_want_init(&w);
    ck_assert_ptr_null(inlet_connect(outlet_name(o), wrong, &w, 30., &err));
    ck_assert_int_eq(errno, EACCES);
    for (size_t len = 1; len <= sizeof(buf); len += 13) {
        fd = dial(outlet_name(o));
        memset(buf, (int)len, len);
        ck_assert_int_eq(send(fd, buf, len, MSG_NOSIGNAL), (ssize_t)len);
        ck_assert_int_eq(recv(fd, buf, sizeof(buf), 0), KNOCK_WELCOME_LEN);
        ck_assert_int_eq(knock_welcome_decode(buf, KNOCK_WELCOME_LEN, &welcome), 0);
        ck_assert_int_eq(welcome.errnum, EPROTO);
        ck_assert_int_eq(recv(fd, buf, sizeof(buf), 0), 0);
        close(fd);
    }
    /* Those who say nothing: the last ones are closed at once. */
    for (int k = 0; k < 80; k++)
        silent[k] = dial(outlet_name(o));
    ck_assert_int_eq(recv(silent[79], buf, sizeof(buf), 0), 0);
    for (int k = 0; k < 80; k++)
        close(silent[k]);
    ck_assert_uint_eq(stats(o).readers, 0);
    while (!(i = inlet_connect(outlet_name(o), ends_key, &w, 30., &err)))
        ; /* until the closed ones are noticed */
    put(o, 1);
    get_release(i, 1);
    /* A reader that talks is dropped. */
    ck_assert_int_eq(send(inlet_fd(i), "hello", 5, 0), 5);
    wait_readers(o, 0);
    get_error(i, ECONNRESET);
    inlet_destroy(i);
    outlet_destroy(o);
}
END_TEST

enum { NOTHING_CAME, ANSWERED, NOT_ANOTHER };

/* As another user: connect to a writer and tell its capability. */
static int ask_as_nobody(const char *name)
{
    unsigned char buf[KNOCK_MAX];
    struct knock k = {.key = {0}};
    ssize_t n;
    int fd;

    if (setresgid(65534, 65534, 65534) < 0 || setresuid(65534, 65534, 65534) < 0)
        return NOT_ANOTHER; /* a user namespace that has one user only */
    memcpy(k.key, ends_key, sizeof(k.key));
    knock_want_init(&k.want);
    fd = dial(name);
    (void)send(fd, buf, knock_encode(&k, buf), MSG_NOSIGNAL); /* EPIPE if it is closed already */
    n = recv(fd, buf, sizeof(buf), 0);
    close(fd);
    return n > 0 ? ANSWERED : NOTHING_CAME;
}

/* A process of another user gets nothing, though it knows the capability and steps are kept. */
START_TEST(another_user)
{
    outlet_t *o;
    inlet_t *i;
    pid_t pid;
    int status;

    if (geteuid() != 0)
        return; /* only root can become somebody else */
    o = writer(0., 2);
    put(o, 1);
    ck_assert_int_ge(pid = fork(), 0);
    if (pid == 0)
        _exit(ask_as_nobody(outlet_name(o)));
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert(WIFEXITED(status));
    if (WEXITSTATUS(status) == NOT_ANOTHER) {
        outlet_destroy(o);
        return;
    }
    ck_assert_int_eq(WEXITSTATUS(status), NOTHING_CAME);
    while (stats(o).refused != 1)
        poll(NULL, 0, 1);
    ck_assert_uint_eq(stats(o).readers, 0);
    i = reader(o, "block", 0); /* the stream goes on */
    get_release(i, 1);
    put(o, 2);
    get_release(i, 2);
    inlet_destroy(i);
    outlet_destroy(o);
}
END_TEST

static unsigned entries(const char *dir)
{
    DIR *d = opendir(dir);
    unsigned n = 0;

    while (readdir(d))
        n++;
    closedir(d);
    return n;
}

/* No descriptor, thread or mapping is left. */
START_TEST(leftovers)
{
    unsigned fds = entries("/proc/self/fd");
    unsigned threads = 0;
    char line[512];
    FILE *f;

    for (int k = 0; k < 20; k++) {
        outlet_t *o = writer(0., 2);
        inlet_t *i = reader(o, "latest", 0);

        put(o, 1);
        get(i, 1);
        if (k % 2) {
            inlet_destroy(i);
            outlet_destroy(o);
        } else {
            outlet_destroy(o);
            inlet_destroy(i);
        }
        if (k == 0) /* a sanitizer's own thread begins with the first */
            threads = entries("/proc/self/task");
    }
    outlet_destroy(NULL);
    inlet_destroy(NULL);
    ck_assert_uint_eq(entries("/proc/self/fd"), fds);
    while (entries("/proc/self/task") > threads)
        poll(NULL, 0, 1);
    f = fopen("/proc/self/maps", "r");
    while (fgets(line, sizeof(line), f))
        ck_assert_msg(!strstr(line, "flux-stream"), "%s", line);
    fclose(f);
}
END_TEST

/* The state of a process, as proc(5) has it. */
static char state_of(pid_t pid)
{
    char path[40];
    char line[400] = "";
    FILE *f;

    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    if ((f = fopen(path, "r"))) {
        if (!fgets(line, sizeof(line), f))
            line[0] = '\0';
        fclose(f);
    }
    return strrchr(line, ')') ? strrchr(line, ')')[2] : '?';
}

/* A reader that is stopped and continued while it waits for its welcome goes on waiting. */
START_TEST(stopped)
{
    static const char name[] = "flux-check-outlet-stopped";
    struct sockaddr_un sun = {.sun_family = AF_UNIX};
    unsigned char buf[KNOCK_MAX];
    struct knock_welcome w = {.errnum = EBUSY};
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    struct knock_want want;
    int status;
    pid_t pid;
    int conn;

    snprintf(sun.sun_path + 1, sizeof(sun.sun_path) - 1, "%s-%d", name, (int)getpid());
    ck_assert_int_eq(
        bind(fd, (struct sockaddr *)&sun,
             (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(sun.sun_path + 1))),
        0);
    ck_assert_int_eq(listen(fd, 1), 0);
    knock_want_init(&want);
    if ((pid = fork()) == 0)
        _exit(!inlet_connect(sun.sun_path + 1, ends_key, &want, 30., &err) && errno == EBUSY ? 0
                                                                                             : 1);
    ck_assert_int_gt(pid, 0);
    ck_assert_int_ge(conn = accept(fd, NULL, NULL), 0);
    ck_assert_int_gt(recv(conn, buf, sizeof(buf), 0), 0);
    while (state_of(pid) != 'S')
        poll(NULL, 0, 1);
    ck_assert_int_eq(kill(pid, SIGSTOP), 0);
    ck_assert_int_eq(waitpid(pid, &status, WUNTRACED), pid);
    ck_assert_int_eq(kill(pid, SIGCONT), 0);
    while (state_of(pid) == 'T')
        poll(NULL, 0, 1);
    knock_welcome_encode(&w, buf);
    ck_assert_int_eq(send(conn, buf, KNOCK_WELCOME_LEN, MSG_NOSIGNAL), KNOCK_WELCOME_LEN);
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(status, 0);
    close(conn);
    close(fd);
}
END_TEST

int main(void)
{
    const TTest *const both[] = {policies,   block, evict,       keep,   greedy,
                                 rendezvous, joins, reader_dies, pinned, queues};
    const TTest *const ring[] = {stopped,    steps,       slots,     forgotten, another_user,
                                 joins_kept, writer_dies, strangers, leftovers};
    TCase *tc = tcase_create("outlet");

    tcase_set_timeout(tc, 60);
    for (size_t i = 0; i < sizeof(both) / sizeof(both[0]); i++)
        tcase_add_loop_test(tc, both[i], RING, WAYS);
    for (size_t i = 0; i < sizeof(ring) / sizeof(ring[0]); i++)
        tcase_add_test(tc, ring[i]);
    return run_case("outlet", tc);
}

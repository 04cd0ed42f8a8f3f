/* check_far.c - streams between hosts: slices, strangers, addresses of other processes, and ends
 * that come too early.  What goes over the wire is in check_far_msg.c. */
#include "config.h"
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ends.h"
#include "far_connect.h"
#include "libstream/array.h"
#include "libstream/block.h"
#include "libstream/far_link.h"
#include "libstream/far_msg.h"
#include "libstream/lane.h"
#include "libutil/clock.h"
#include "libutil/le.h"
#include "libutil/test/suite.h"

static unsigned char secret[FAR_KEY_LEN] = "what the module has told";

/* --- slices --- */

#define ROWS 500
#define COLUMNS 400

/* The table of a step with a number and a global array, of which this writer has all. */
static block_t *array_block(enum stream_memory memory)
{
    struct stream_shape shape = {.name = "T",
                                 .kind = STREAM_GLOBAL,
                                 .type = STREAM_F64,
                                 .order = STREAM_NATIVE,
                                 .memory = memory,
                                 .ndims = 2,
                                 .extents = {ROWS, COLUMNS}};
    uint64_t none[] = {0, 0};
    stream_array_t *a = stream_array_create(&shape, NULL);
    block_t *b = block_create();
    uint8_t desc[BLOCK_DESC_MAX];

    ck_assert_int_eq(stream_array_add(a, 0, none, shape.extents, NULL), 0);
    ck_assert_int_eq(stream_array_seal(a, NULL), 0);
    stream_array_encode(a, desc);
    ck_assert_int_eq(block_add(b, "n", NULL, 0, 8), 0);
    ck_assert_int_eq(
        block_add(b, "T", desc, stream_array_encoded(a), ROWS * COLUMNS * sizeof(double)), 0);
    stream_array_destroy(a);
    return b;
}

/* Such a step. */
static void put_array(outlet_t *o, uint64_t step, enum stream_memory memory)
{
    block_t *b = array_block(memory);
    double *t;
    void *buf;

    ck_assert_msg(outlet_begin(o, step, block_size(b), -1., &buf, &err) == 0, "%s", err.text);
    block_write(b, buf);
    t = (double *)((char *)buf + block_at(b, 1)->off);
    for (uint64_t i = 0; i < ROWS * COLUMNS; i++)
        t[i] = (double)(step * 1000000 + i);
    ck_assert_int_eq(outlet_commit(o, block_size(b)), 0);
    block_destroy(b);
}

/* The box of a step, copied the way that stream_schedule.c does it. */
static int get_box(inlet_t *i, const struct inlet_step *s, const struct stream_box *box, double *to)
{
    static const struct stream_want want;
    block_t *b = block_read(s->data, s->len, &err);
    const struct block_var *v = block_at(b, 1);
    stream_array_t *a = stream_array_decode(v->desc, v->desc_len, &err);
    struct inlet_value val = {1, v->off, v->len};
    struct stream_part part;
    int rc = -1;

    ck_assert(stream_select_piece(a, 0, box, &want, &part));
    if (inlet_ask(i, s, &val, box, &part, to, &err) == 0)
        rc = inlet_answer(i, &err);
    stream_array_destroy(a);
    block_destroy(b);
    return rc;
}

/* Each box has its elements, and no more bytes than 1.05 times these are moved. */
START_TEST(slices)
{
    static const struct stream_box boxes[] = {
        {2, {0, 0}, {ROWS, COLUMNS}, {1, 1}},             /* all */
        {2, {100, 0}, {62, COLUMNS}, {1, 1}},             /* rows */
        {2, {0, 100}, {ROWS, 50}, {1, 1}},                /* columns */
        {2, {0, 100}, {ROWS, 150}, {1, 1}},               /* columns in long runs */
        {2, {1, 3}, {ROWS / 3, COLUMNS / 2 - 2}, {3, 2}}, /* strides */
    };
    static double to[ROWS * COLUMNS];
    outlet_t *o;
    inlet_t *i;

    ends_way = (enum way)(_i % WAYS);
    o = writer(0., 0);
    i = reader(o, "block", 0);
    for (size_t k = 0; k < sizeof(boxes) / sizeof(boxes[0]); k++) {
        const struct stream_box *box = &boxes[k];
        enum stream_memory memory = _i < WAYS ? STREAM_ROWS : STREAM_COLUMNS;
        uint64_t bytes = box->count[0] * box->count[1] * sizeof(double);
        uint64_t before = stats(o).sent;
        uint64_t asked = stats(o).asked;
        unsigned differ = 0;
        struct inlet_step s;

        put_array(o, k, memory);
        ck_assert_int_eq(inlet_next(i, 30., &s, &err), 1);
        ck_assert_msg(get_box(i, &s, box, to) == 0, "%s", err.text);
        for (uint64_t r = 0; r < box->count[0]; r++) {
            for (uint64_t c = 0; c < box->count[1]; c++) {
                uint64_t row = box->start[0] + r * box->stride[0];
                uint64_t column = box->start[1] + c * box->stride[1];
                uint64_t at = memory == STREAM_ROWS ? r * box->count[1] + c : c * box->count[0] + r;
                uint64_t n = memory == STREAM_ROWS ? row * COLUMNS + column : column * ROWS + row;

                differ += to[at] != (double)(k * 1000000 + n);
            }
        }
        ck_assert_msg(differ == 0, "box %zu", k);
        ck_assert_int_eq(inlet_release(i, &s), 0);
        wait_live(o, 0);
        if (ends_way != RING) {
            ck_assert_uint_ge(stats(o).sent - before, bytes);
            ck_assert_msg((double)(stats(o).sent - before) <= 1.05 * (double)bytes,
                          "box %zu: %lu bytes for %lu", k, (unsigned long)(stats(o).sent - before),
                          (unsigned long)bytes);
            ck_assert_uint_eq(stats(o).asked - asked, bytes);
        }
    }
    inlet_destroy(i);
    outlet_destroy(o);
}
END_TEST

/* A value comes once; one of two questions that nobody waits for is forgotten; a step that is
 * released with a question open stays whole until the answer has gone. */
START_TEST(questions)
{
    static const struct stream_box all = {2, {0, 0}, {ROWS, COLUMNS}, {1, 1}};
    static const struct stream_want want;
    static double to[ROWS * COLUMNS];
    outlet_t *o;
    inlet_t *i;
    struct inlet_step s;
    struct inlet_value v;
    struct stream_part part;
    stream_array_t *a;
    block_t *b;

    ends_way = (enum way)_i;
    o = writer(0., 0);
    i = reader(o, "block", 0);
    put_array(o, 1, STREAM_ROWS);
    ck_assert_int_eq(inlet_next(i, 30., &s, &err), 1);
    b = block_read(s.data, s.len, &err);
    v = (struct inlet_value){1, block_at(b, 1)->off, block_at(b, 1)->len};
    a = stream_array_decode(block_at(b, 1)->desc, block_at(b, 1)->desc_len, &err);
    ck_assert(stream_select_piece(a, 0, &all, &want, &part));
    ck_assert_int_eq(inlet_ask(i, &s, &v, &all, &part, to, &err), 0);
    inlet_forget(i);
    memset(to, 0, sizeof(to));
    ck_assert_int_eq(inlet_fetch(i, &s, &v, &err), 0);
    ck_assert_mem_eq((const char *)s.data + v.off + 8, &(double){1000001.}, 8);
    ck_assert(to[1] == 0.);
    ck_assert_int_eq(inlet_fetch(i, &s, &v, &err), 0);
    ck_assert_int_eq(get_box(i, &s, &all, to), 0);
    ck_assert(to[1] == 1000001.);
    ck_assert_uint_eq(stats(o).asked, 2 * v.len);
    v.len = s.len;
    ck_assert_int_eq(inlet_fetch(i, &s, &v, &err), -1);
    ck_assert_int_eq(errno, EINVAL);
    ck_assert_int_eq(inlet_release(i, &s), 0);
    ck_assert_int_eq(inlet_release(i, &s), -1);
    ck_assert_int_eq(inlet_fetch(i, &s, &v, &err), -1);
    put_array(o, 2, STREAM_ROWS);
    ck_assert_int_eq(inlet_next(i, 30., &s, &err), 1);
    v.len = block_at(b, 1)->len;
    ck_assert_int_eq(inlet_ask(i, &s, &v, &all, &part, to, &err), 0);
    ck_assert_int_eq(inlet_release(i, &s), 0);
    wait_live(o, 0);
    ck_assert_uint_eq(stats(o).asked, 3 * v.len);
    put_array(o, 3, STREAM_ROWS);
    ck_assert_int_eq(inlet_next(i, 30., &s, &err), 1);
    ck_assert_int_eq(get_box(i, &s, &all, to), 0);
    ck_assert(to[1] == 3000001.);
    ck_assert_int_eq(inlet_fetch_all(i, &s, &err), 0);
    ck_assert_mem_eq((const char *)s.data + v.off + 8, &(double){3000001.}, 8);
    ck_assert_uint_le(stats(o).asked, 5 * v.len + 64 + 64);
    ck_assert_int_eq(inlet_fetch_all(i, &s, &err), 0);
    ck_assert_int_eq(inlet_fetch(i, &s, &v, &err), 0);
    ck_assert_uint_le(stats(o).asked, 5 * v.len + 64 + 64);
    block_destroy(b);
    stream_array_destroy(a);
    inlet_destroy(i);
    outlet_destroy(o);
}
END_TEST

/* More requests than may be open at a time, in rows and in columns, are answered in their order;
 * some may be forgotten, with or without the step. */
START_TEST(questions_many)
{
    static const struct stream_want want;
    static double to[3 * FAR_QUESTIONS][ROWS];
    struct inlet_step s[2];
    struct inlet_value v;
    stream_array_t *a;
    block_t *b;
    outlet_t *o;
    inlet_t *i;

    ends_way = (enum way)_i;
    o = writer(0., 0);
    i = reader(o, "block", 0);
    put_array(o, 0, STREAM_ROWS);
    put_array(o, 1, STREAM_ROWS);
    ck_assert_int_eq(inlet_next(i, 30., &s[0], &err), 1);
    ck_assert_int_eq(inlet_next(i, 30., &s[1], &err), 1);
    b = block_read(s[0].data, s[0].len, &err);
    v = (struct inlet_value){1, block_at(b, 1)->off, block_at(b, 1)->len};
    a = stream_array_decode(block_at(b, 1)->desc, block_at(b, 1)->desc_len, &err);
    for (unsigned round = 0; round < 3; round++) {
        for (unsigned k = 0; k < 3 * FAR_QUESTIONS; k++) {
            const struct stream_box column = {2, {0, k}, {1 + k, 2}, {1, 3}};
            const struct stream_box row = {2, {k, 0}, {1, 300}, {1, 1}};
            const struct stream_box *box = k % 2 ? &column : &row;
            struct stream_part part;

            to[k][1] = -1.;
            ck_assert(stream_select_piece(a, 0, box, &want, &part));
            ck_assert_int_eq(inlet_ask(i, &s[k % 3 == 0], &v, box, &part, to[k], &err), 0);
        }
        if (round == 1)
            inlet_forget(i);
        else if (round == 2) {
            ck_assert_int_eq(inlet_release(i, &s[1]), 0);
            ck_assert_int_eq(inlet_ask_value(i, &s[0], &v, &err), 0);
            ck_assert_int_eq(inlet_ask_value(i, &s[0], &v, &err), 0);
        }
        ck_assert_msg(inlet_answer(i, &err) == 0, "%s", err.text);
        for (unsigned k = 0; k < 3 * FAR_QUESTIONS && round != 1; k++) {
            if (round == 0 || k % 3)
                ck_assert_double_eq(to[k][1], (k % 3 == 0 ? 1e6 : 0.) + /* the second element */
                                                  (k % 2 ? k + 3 : k * COLUMNS + 1));
        }
    }
    ck_assert_int_eq(inlet_fetch(i, &s[0], &v, &err), 0); /* it is there */
    ck_assert_mem_eq((const char *)s[0].data + v.off + 8, &(double){1.}, 8);
    ck_assert_int_eq(inlet_release(i, &s[0]), 0);
    wait_live(o, 0);
    stream_array_destroy(a);
    block_destroy(b);
    inlet_destroy(i);
    outlet_destroy(o);
}
END_TEST

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

/* --- strangers --- */

static int dial(const char *address)
{
    int fd = far_connect(address);

    ck_assert_msg(fd >= 0, "%s: %s", address, strerror(errno));
    return fd;
}

/* From another address of this host. */
static int dial_from(const char *address, const char *from)
{
    struct sockaddr_in in = {.sin_family = AF_INET};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    inet_pton(AF_INET, from, &in.sin_addr);
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&in, sizeof(in)), 0);
    inet_pton(AF_INET, "127.0.0.1", &in.sin_addr);
    in.sin_port = htons((uint16_t)strtoul(strrchr(address, ':') + 1, NULL, 10));
    ck_assert_int_eq(connect(fd, (struct sockaddr *)&in, sizeof(in)), 0);
    return fd;
}

/* Receive until the end, at most 30 s: how many bytes came. */
static size_t drain(int fd)
{
    unsigned char buf[1000];
    struct pollfd p = {.fd = fd, .events = POLLIN};
    size_t got = 0;
    ssize_t n;

    while (poll(&p, 1, 30000) == 1 && (n = recv(fd, buf, sizeof(buf), 0)) > 0)
        got += (size_t)n;
    ck_assert_msg(n == 0 || errno == ECONNRESET, "a stranger is not disconnected");
    close(fd);
    return got;
}

static void wrong(const char *address, struct far_grant g, const unsigned char *key)
{
    struct inlet_far_opts far = {
        .address = address, .secret = secret, .reader = 7, .expires = g.expires};
    struct knock_want w;

    knock_want_init(&w);
    far_key_grant(secret, key, &g);
    ck_assert_ptr_null(inlet_connect_far(&far, &w, 30., &err));
    ck_assert_msg(errno == EACCES, "%s", err.text);
}

/* Whoever does not know the capability, or says anything else, gets a greeting and nothing. */
START_TEST(strangers)
{
    static const unsigned char other[FAR_KEY_LEN] = "of another writer";
    uint64_t now = (uint64_t)clock_wall();
    unsigned char buf[2 * FAR_HELLO_LEN];
    const char *at;
    outlet_t *o;

    ends_way = (enum way)_i;
    o = writer(0., 0);
    at = writer_address(o);
    wrong(at, (struct far_grant){"test", 7, now - 2}, ends_key);   /* old */
    wrong(at, (struct far_grant){"test", 8, now + 60}, ends_key);  /* another reader */
    wrong(at, (struct far_grant){"tests", 7, now + 60}, ends_key); /* stream */
    wrong(at, (struct far_grant){"test", 7, now + 60}, other);
    for (size_t len = 1; len <= sizeof(buf); len += 51) {
        int fd = dial(at);

        memset(buf, (int)len, len);
        ck_assert_int_eq(send(fd, buf, len, MSG_NOSIGNAL), (ssize_t)len);
        if (len < FAR_HELLO_LEN)
            shutdown(fd, SHUT_WR);
        ck_assert_uint_le(drain(fd), FAR_GREETING_LEN);
    }
    ck_assert_uint_ge(stats(o).refused, 5);
    ck_assert_uint_eq(stats(o).readers, 0);
    outlet_destroy(o);
}
END_TEST

/* Grants expire by the clock of the module, as the writer was told it last; a message that was read
 * late does not set it back. */
START_TEST(clocks)
{
    const double first[] = {1e6, 5e9};
    struct knock_want w;
    outlet_t *o;

    ends_way = (enum way)_i;
    knock_want_init(&w);
    for (size_t k = 0; k < 2; k++) {
        struct far_grant g = {"test", 7, (uint64_t)first[k] + 60};
        struct inlet_far_opts far = {.secret = secret, .reader = 7, .expires = g.expires};
        inlet_t *i;

        o = writer(0., 0);
        far.address = writer_address(o);
        outlet_set_clock(o, first[k]);
        outlet_set_clock(o, first[k] - 30);
        wrong(far.address, (struct far_grant){"test", 7, (uint64_t)first[k] - 2}, ends_key);
        far_key_grant(secret, ends_key, &g);
        ck_assert_ptr_nonnull(i = inlet_connect_far(&far, &w, 30., &err));
        inlet_destroy(i);
        outlet_set_clock(o, first[k] + 100);
        wrong(far.address, g, ends_key);
        outlet_set_clock(o, first[k]); /* another module */
        far_key_grant(secret, ends_key, &g);
        ck_assert_ptr_nonnull(i = inlet_connect_far(&far, &w, 30., &err));
        inlet_destroy(i);
        outlet_destroy(o);
    }
}
END_TEST

/* A connection that is greeted, and has said nothing. */
static int greeted(int fd, unsigned char *greeting)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};

    poll(&p, 1, 30000);
    ck_assert_int_eq(recv(fd, greeting, FAR_GREETING_LEN, 0), FAR_GREETING_LEN);
    return fd;
}

/* It says what it wants: how it is welcomed. */
static struct far_welcome welcomed(int fd, const unsigned char *greeting,
                                   const struct knock_want *want, struct far_keys *keys)
{
    struct far_grant g = {"test", 7, (uint64_t)clock_wall() + 60};
    struct far_hello h = {.want = *want, .reader = g.reader, .expires = g.expires};
    struct pollfd p = {.fd = fd, .events = POLLIN};
    unsigned char hello[FAR_HELLO_LEN];
    unsigned char welcome[FAR_WELCOME_LEN];
    struct far_welcome w;

    far_key_grant(secret, ends_key, &g);
    far_hello_make(hello, &h, secret, greeting);
    ck_assert_int_eq(send(fd, hello, sizeof(hello), 0), sizeof(hello));
    poll(&p, 1, 30000);
    ck_assert_int_eq(recv(fd, welcome, sizeof(welcome), 0), sizeof(welcome));
    ck_assert_int_eq(far_welcome_read(welcome, &w, secret, hello), 0);
    far_keys_make(keys, secret, hello, greeting);
    return w;
}

/* More silent strangers than may knock do not keep anybody out, of another host or of theirs. */
START_TEST(crowd)
{
    char text[FAR_ADDR_MAX];
    struct outlet_opts opts = {.key = ends_key,
                               .space = 64 << 20,
                               .knock = 1000.,
                               .far = {.stream = "test", .linger = 0.01}};
    unsigned char greeting[FAR_GREETING_LEN];
    unsigned char last[FAR_GREETING_LEN];
    struct far_keys keys;
    struct knock_want w;
    int silent[160];
    outlet_t *o;
    inlet_t *i;
    int fd;

    ends_way = TCP;
    ck_assert_int_ge(opts.far.listen = far_addr_listen("127.0.0.1", NULL, text, &err), 0);
    ck_assert_ptr_nonnull(o = outlet_create(&opts, &err));
    for (int k = 0; k < 80; k++)
        silent[k] = dial(text);
    fd = greeted(dial_from(text, "127.0.0.2"), greeting);
    for (int k = 80; k < 160; k++)
        silent[k] = dial(text);
    /* They are greeted one after the other; as many as may stay are the last of their address. */
    greeted(silent[159], last);
    ck_assert_uint_eq(stats(o).refused, 160 + 1 - 64);
    for (int k = 0; k < 160 - 63; k++)
        ck_assert_uint_le(drain(silent[k]), FAR_GREETING_LEN);
    knock_want_init(&w);
    ck_assert_int_eq(welcomed(fd, greeting, &w, &keys).errnum, 0);
    i = reader_try(text, &w);
    ck_assert_msg(i != NULL, "%s", err.text);
    close(fd);
    wait_readers(o, 1);
    put(o, 1);
    get_release(i, 1);
    for (int k = 160 - 63; k < 160; k++)
        close(silent[k]);
    inlet_destroy(i);
    outlet_destroy(o);
}
END_TEST

static void *destroy(void *o)
{
    outlet_destroy(o);
    return NULL;
}

/* Whoever has knocked before the writer closes the stream, and wants to be in a group afterwards,
 * is not admitted. */
START_TEST(late_member)
{
    char text[FAR_ADDR_MAX];
    struct outlet_opts opts = {
        .key = ends_key, .space = 64 << 20, .keep = 1, .far = {.stream = "test", .linger = 1000.}};
    unsigned char greeting[FAR_GREETING_LEN];
    struct far_keys keys;
    struct inlet_step s;
    struct knock_want w;
    pthread_t t;
    outlet_t *o;
    inlet_t *i;
    int fd;

    ends_way = (enum way)_i;
    ck_assert_int_ge(opts.far.listen = far_addr_listen("127.0.0.1", NULL, text, &err), 0);
    ck_assert_ptr_nonnull(o = outlet_create(&opts, &err));
    knock_want_init(&w);
    ck_assert_msg((i = reader_try(text, &w)) != NULL, "%s", err.text);
    put(o, 1);
    s = get(i, 1);
    fd = greeted(dial(text), greeting);
    ck_assert_int_eq(pthread_create(&t, NULL, destroy, o), 0);
    get_error(i, ENODATA);
    ck_assert_int_eq(knock_group_set(&w, "late", NULL, &err), 0);
    ck_assert_int_eq(welcomed(fd, greeting, &w, &keys).errnum, ECONNRESET);
    ck_assert_int_eq(inlet_release(i, &s), 0);
    pthread_join(t, NULL);
    inlet_destroy(i);
    close(fd);
}
END_TEST

/* A reader that is admitted, byte by byte: what it must not say. */
static far_link_t *admitted(const char *address)
{
    unsigned char greeting[FAR_GREETING_LEN];
    int fd = greeted(dial(address), greeting);
    struct knock_want want;
    struct far_welcome w;
    struct far_keys keys;
    far_link_t *l;

    knock_want_init(&want);
    w = welcomed(fd, greeting, &want, &keys);
    ck_assert_ptr_nonnull(l = far_link_create(fd));
    if (w.secure)
        ck_assert_int_eq(far_link_secure(l, keys.to_writer, keys.to_reader), 0);
    return l;
}

START_TEST(talkers)
{
    static const struct far_msg bad[] = {
        {.type = FAR_RELEASE, .number = 1},                        /* not held */
        {.type = FAR_BYTES, .number = 1, .step = 0, .len = 8},     /* not held */
        {.type = FAR_BYTES, .number = 1, .step = 1, .len = ~0ull}, /* too long: 2 is held */
        {.type = FAR_BOX, .number = 1, .step = 0},                 /* not a box */
        {.type = FAR_BOX, .number = 1, .step = 99},
        {.type = FAR_END, .number = 1}, /* a writer's */
    };
    outlet_t *o;

    ends_way = (enum way)_i;
    o = writer(0., 0);
    for (size_t k = 0; k < sizeof(bad) / sizeof(bad[0]); k++) {
        far_link_t *l = admitted(writer_address(o));
        unsigned char head[FAR_HEAD_LEN];
        struct iovec iov = {head, sizeof(head)};

        wait_readers(o, 1);
        if (k >= 2)
            put(o, k);
        far_msg_encode(&bad[k], head);
        ck_assert_int_eq(far_link_send(l, &iov, 1), sizeof(head));
        wait_readers(o, 0);
        ck_assert_uint_eq(stats(o).live, 0);
        far_link_destroy(l);
    }
    outlet_destroy(o);
}
END_TEST

/* Accept a reader, as a writer does, and return its connection. */
static int receive(int l)
{
    int fd = accept(l, NULL, NULL);
    unsigned char greeting[FAR_GREETING_LEN];
    unsigned char hello[FAR_HELLO_LEN];
    unsigned char welcome[FAR_WELCOME_LEN];
    struct far_welcome w = {0};

    far_greeting_make(greeting);
    ck_assert_int_eq(send(fd, greeting, sizeof(greeting), MSG_NOSIGNAL), sizeof(greeting));
    ck_assert_int_eq(recv(fd, hello, sizeof(hello), MSG_WAITALL), sizeof(hello));
    far_welcome_make(welcome, &w, secret, hello);
    ck_assert_int_eq(send(fd, welcome, sizeof(welcome), MSG_NOSIGNAL), sizeof(welcome));
    return fd;
}

/* A writer that says what a writer does not say, to a reader that is joined. */
static void *lie(void *arg)
{
    int fd = receive(*(int *)arg);
    unsigned char c;

    ck_assert_int_eq(send(fd, (int *)arg + 1, FAR_HEAD_LEN, MSG_NOSIGNAL), FAR_HEAD_LEN);
    while (recv(fd, &c, 1, 0) > 0)
        ;
    close(fd);
    return NULL;
}

#define TOGETHER 8 /* questions */
#define ANSWER 24

/* A writer that answers when it has been asked TOGETHER questions, each for 3 elements. */
static void *patient(void *arg)
{
    struct {
        unsigned char head[FAR_HEAD_LEN];
        unsigned char box[48];
    } q[TOGETHER];
    const struct far_msg data = {.type = FAR_DATA, .number = 1, .len = ANSWER};
    unsigned char answer[FAR_HEAD_LEN + ANSWER] = {0};
    block_t *b = array_block(STREAM_ROWS);
    struct far_msg step = {.type = FAR_STEP, .number = 1};
    unsigned char head[FAR_HEAD_LEN];
    char *table;
    int fd;

    step.len = block_size(b);
    table = calloc(1, step.len);
    block_write(b, table);
    step.payload = (uint32_t)block_head_size(table, step.len);
    fd = receive(*(int *)arg);
    far_msg_encode(&step, head);
    ck_assert_int_eq(send(fd, head, sizeof(head), MSG_NOSIGNAL), sizeof(head));
    ck_assert_int_eq(send(fd, table, step.payload, MSG_NOSIGNAL), step.payload);
    ck_assert_int_eq(recv(fd, q, sizeof(q), MSG_WAITALL), sizeof(q));
    far_msg_encode(&data, answer);
    for (unsigned k = 0; k < TOGETHER; k++)
        ck_assert_int_eq(send(fd, answer, sizeof(answer), MSG_NOSIGNAL), sizeof(answer));
    while (recv(fd, head, 1, 0) > 0)
        ;
    close(fd);
    free(table);
    block_destroy(b);
    return NULL;
}

/* What a writer is asked before an answer is awaited goes in one exchange. */
START_TEST(questions_together)
{
    static const struct stream_want want;
    static const struct stream_box box = {2, {7, 0}, {1, 3}, {1, 1}};
    char text[FAR_ADDR_MAX];
    struct inlet_far_opts far = {.address = text, .secret = secret};
    int l = far_addr_listen("127.0.0.1", NULL, text, &err);
    double to[TOGETHER][3] = {{1.}};
    struct inlet_step s;
    struct knock_want w;
    struct inlet_value v;
    struct stream_part part;
    stream_array_t *a;
    pthread_t t;
    block_t *b;
    inlet_t *i;

    ck_assert_int_eq(fcntl(l, F_SETFL, 0), 0);
    ck_assert_int_eq(pthread_create(&t, NULL, patient, &l), 0);
    knock_want_init(&w);
    ck_assert_msg((i = inlet_connect_far(&far, &w, 30., &err)) != NULL, "%s", err.text);
    ck_assert_int_eq(inlet_next(i, 30., &s, &err), 1);
    b = block_read(s.data, s.len, &err);
    v = (struct inlet_value){1, block_at(b, 1)->off, block_at(b, 1)->len};
    a = stream_array_decode(block_at(b, 1)->desc, block_at(b, 1)->desc_len, &err);
    ck_assert(stream_select_piece(a, 0, &box, &want, &part));
    for (unsigned k = 0; k < TOGETHER; k++)
        ck_assert_int_eq(inlet_ask(i, &s, &v, &box, &part, to[k], &err), 0);
    ck_assert_msg(inlet_answer(i, &err) == 0, "%s", err.text);
    ck_assert_double_eq(to[0][0], 0.);
    stream_array_destroy(a);
    block_destroy(b);
    inlet_destroy(i);
    pthread_join(t, NULL);
    close(l);
}
END_TEST

/* A writer that resets two connections, and refuses who comes by the third. */
static void *hang_up(void *arg)
{
    for (int k = 0; k < 3; k++) {
        const struct linger reset = {.l_onoff = k < 2};
        int fd = accept(*(int *)arg, NULL, NULL);
        unsigned char greeting[FAR_GREETING_LEN];
        unsigned char hello[FAR_HELLO_LEN];

        far_greeting_make(greeting);
        ck_assert_int_eq(send(fd, greeting, sizeof(greeting), MSG_NOSIGNAL), sizeof(greeting));
        if (k > 0)
            ck_assert_int_eq(recv(fd, hello, sizeof(hello), MSG_WAITALL), sizeof(hello));
        setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
        close(fd);
    }
    close(*(int *)arg);
    return NULL;
}

/* A reader that was not heard tries again; one that is refused does not. */
START_TEST(unheard)
{
    char text[FAR_ADDR_MAX];
    struct inlet_far_opts far = {.address = text, .secret = secret};
    int l = far_addr_listen("127.0.0.1", NULL, text, &err);
    struct knock_want w;
    pthread_t t;

    ck_assert_int_eq(fcntl(l, F_SETFL, 0), 0);
    ck_assert_int_eq(pthread_create(&t, NULL, hang_up, &l), 0);
    knock_want_init(&w);
    ck_assert_ptr_null(inlet_connect_far(&far, &w, 30., &err));
    ck_assert_msg(errno == EACCES, "%s", err.text);
    pthread_join(t, NULL);
}
END_TEST

/* A process of another kind: it answers with what no writer says; or just hangs up. */
struct other {
    int listen;
    bool talks;
};

static void *other(void *arg)
{
    static const unsigned char hi[FAR_GREETING_LEN] = "220 mail.example.org";
    const struct other *o = arg;
    int fd = accept(o->listen, NULL, NULL);

    if (o->talks)
        ck_assert_int_eq(send(fd, hi, sizeof(hi), MSG_NOSIGNAL), sizeof(hi));
    close(fd);
    close(o->listen);
    return NULL;
}

/* A reader finds the writer at its second address when somebody else is at the first: a program of
 * another kind, or the writer of another stream. */
START_TEST(addresses_taken)
{
    char text[FAR_ADDR_MAX];
    char both[2 * FAR_ADDR_MAX];
    unsigned char another[FAR_KEY_LEN] = "another key";
    struct outlet_opts opts = {.key = another, .space = 64 << 20};
    struct knock_want w;
    struct inlet_step s;
    outlet_t *taker = NULL;
    outlet_t *o;
    inlet_t *i;
    pthread_t t;
    struct other arg = {far_addr_listen("127.0.0.1", NULL, text, &err), _i == 0};

    ck_assert_msg(arg.listen >= 0, "%s", err.text);
    if (_i < 2) {
        ck_assert_int_eq(fcntl(arg.listen, F_SETFL, 0), 0);
        ck_assert_int_eq(pthread_create(&t, NULL, other, &arg), 0);
    } else {
        opts.far =
            (struct outlet_far_opts){.listen = arg.listen, .stream = "other", .linger = 0.01};
        ck_assert_msg((taker = outlet_create(&opts, &err)) != NULL, "%s", err.text);
    }
    ends_way = TCP;
    o = writer(0., 1);
    snprintf(both, sizeof(both), "tcp://127.0.0.1:1,%s,%s", text, writer_address(o));
    knock_want_init(&w);
    ck_assert_msg((i = reader_try(both, &w)) != NULL, "%s", err.text);
    put(o, 3);
    ck_assert_int_eq(inlet_next(i, 30., &s, &err), 1);
    ck_assert_uint_eq(s.step, 3);
    inlet_destroy(i);
    if (_i < 2)
        pthread_join(t, NULL);
    else { /* the error that is told is that of the process which has come closest */
        snprintf(both, sizeof(both), "%s,tcp://127.0.0.1:1", text);
        ck_assert_ptr_null(reader_try(both, &w));
        ck_assert_msg(errno == EACCES && strstr(err.text, text), "%s", err.text);
    }
    outlet_destroy(taker);
    outlet_destroy(o);
}
END_TEST

START_TEST(liars)
{
    static const struct far_msg says[] = {
        {.type = FAR_DATA, .number = 1, .len = 1ull << 32}, /* not asked for */
        {.type = FAR_AGAIN, .number = 1, .len = 10},        /* as which one? */
        {.type = FAR_STEP, .number = 0, .len = 10},         /* numbers rise from 1 on */
        {.type = FAR_STEP, .number = 1, .len = 1ull << 60}, /* no such addresses */
        {.type = FAR_STEP,
         .number = 1,
         .len = 5000,
         .payload = 4000}, /* half a step, and silence */
    };
    char text[FAR_ADDR_MAX];
    struct {
        int listen;
        unsigned char head[FAR_HEAD_LEN];
    } arg;

    arg.listen = far_addr_listen("127.0.0.1", NULL, text, &err);
    ck_assert_int_eq(fcntl(arg.listen, F_SETFL, 0), 0);
    for (size_t k = 0; k < sizeof(says) / sizeof(says[0]); k++) {
        struct inlet_far_opts far = {.address = text, .secret = secret};
        struct knock_want w;
        struct inlet_step s;
        pthread_t t;
        inlet_t *i;
        int rc;

        far_msg_encode(&says[k], arg.head);
        ck_assert_int_eq(pthread_create(&t, NULL, lie, &arg), 0);
        knock_want_init(&w);
        ck_assert_msg((i = inlet_connect_far(&far, &w, 30., &err)) != NULL, "%s", err.text);
        rc = inlet_next(i, k == 4 ? 0.01 : 30., &s, &err);
        ck_assert_int_eq(rc, -1);
        ck_assert_msg(errno == (k == 3   ? ENOSPC
                                : k == 4 ? ETIMEDOUT
                                         : EPROTO),
                      "%zu: %s", k, err.text);
        inlet_destroy(i);
        pthread_join(t, NULL);
    }
    close(arg.listen);
}
END_TEST

int main(void)
{
    const TTest *const tcp[] = {questions,   policy,    releases,    lingers, evicted,
                                writer_dies, strangers, late_member, talkers, clocks};
    const TTest *const once[] = {crowd, unheard, liars, questions_together};
    TCase *tc = tcase_create("far");

    tcase_set_timeout(tc, 60);
    for (size_t i = 0; i < sizeof(once) / sizeof(once[0]); i++)
        tcase_add_test(tc, once[i]);
    for (size_t i = 0; i < sizeof(tcp) / sizeof(tcp[0]); i++)
        tcase_add_loop_test(tc, tcp[i], TCP, WAYS);
    tcase_add_loop_test(tc, addresses_taken, 0, 3);
    tcase_add_loop_test(tc, questions_many, 0, WAYS);
    tcase_add_loop_test(tc, floors, 0, WAYS);
    tcase_add_loop_test(tc, slices, 0, 2 * WAYS);
    return run_case("far", tc);
}

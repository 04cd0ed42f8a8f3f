/* check_far_ask.c - streams between hosts: what a reader asks a writer for, boxes of arrays and
 * whole values, in order, together, or to be forgotten. */
#include "config.h"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "ends.h"
#include "libstream/array.h"
#include "libstream/block.h"
#include "libstream/far_msg.h"
#include "libutil/test/suite.h"

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

static unsigned char secret[FAR_KEY_LEN] = "what the module has told";

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
    fd = accept_reader(*(int *)arg, secret);
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

int main(void)
{
    TCase *tc = tcase_create("far_ask");

    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, questions_together);
    tcase_add_loop_test(tc, questions, TCP, WAYS);
    tcase_add_loop_test(tc, questions_many, 0, WAYS);
    tcase_add_loop_test(tc, slices, 0, 2 * WAYS);
    return run_case("far_ask", tc);
}

/* check_stream_wrong.c - what programs do wrong with streams: each time errno, and a sentence with
 * the stream, the variable and the step; and the step that a reader asks for when writers are not
 * at the same one. */
#include "config.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "two_writers.h"

/* Put the rows of a writer: `count` of 3 elements, from `offset` on, of `rows`. */
static int put_rows(flux_stream_t *w, const char *type, uint64_t rows, uint64_t offset,
                    uint64_t count)
{
    static const double data[30];
    const uint64_t shape[] = {rows, 3};
    const uint64_t at[] = {offset, 0};
    const uint64_t n[] = {count, 3};
    const struct flux_stream_array a = {type, 2, shape, at, n, false, NULL};

    return flux_stream_put_array(w, "T", &a, data, &err);
}

static void launched(const char *rank, const char *size, const char *rank2, const char *size2)
{
    setenv("FLUX_TASK_RANK", rank, 1);
    setenv("FLUX_JOB_SIZE", size, 1);
    setenv("OMPI_COMM_WORLD_RANK", rank2, 1);
    setenv("OMPI_COMM_WORLD_SIZE", size2, 1);
}

/* The environment says the rank of a writer that does not. */
START_TEST(ranks)
{
    const struct flux_stream_opts one = {.transport = "ring", .rank = 1};
    struct bed b = {.n = 0};
    struct fake *f = party(&b);
    uint32_t rank, size;

    works(flux_stream_rank(&rank, &size, &err));
    ck_assert(rank == 0 && size == 1);
    ck_assert_ptr_null(flux_stream_open(f->h, "s", FLUX_STREAM_WRITE, &one, &err));
    fails(-1, EINVAL, "stream 's': the option rank, 1, needs the option size");
    launched("3", "4", "1", "2");
    works(flux_stream_rank(&rank, &size, &err));
    ck_assert(rank == 3 && size == 4);
    launched("0", "1", "1", "2"); /* mpirun in a job with one task */
    works(flux_stream_rank(&rank, &size, &err));
    ck_assert(rank == 1 && size == 2);
    launched("4", "4", "1", "2");
    fails(flux_stream_rank(&rank, &size, &err), EINVAL,
          "FLUX_TASK_RANK=4 and FLUX_JOB_SIZE=4 in the environment are not the rank of a process "
          "and a larger number of processes");
    unsetenv("FLUX_TASK_RANK"); /* what a task starts, such as a session */
    works(flux_stream_rank(&rank, &size, &err));
    ck_assert(rank == 1 && size == 2);
    launched("1", "x", "1", "2");
    ck_assert_ptr_null(flux_stream_open(f->h, "s", FLUX_STREAM_WRITE, NULL, &err));
    fails(-1, EINVAL,
          "stream 's': FLUX_TASK_RANK=1 and FLUX_JOB_SIZE=x in the environment are not the rank of "
          "a process and a larger number of processes");
    ck_assert_uint_eq(f->nsent, 0);
    fake_free(f);
}
END_TEST

START_TEST(writing)
{
    struct bed b;
    flux_stream_t *w;
    const void *p;
    size_t len;

    bed_init(&b, NULL, 0);
    w = b.w[0];
    works(flux_stream_put(w, "n", "1234", 4, &err));
    fails(flux_stream_put(w, "n", "1234", 4, &err), EEXIST,
          "variable 'n' of step 0 of stream 's': the step has this variable already");
    fails(flux_stream_put(w, "a b", "1234", 4, &err), EINVAL,
          "variable 'a b' of step 0 of stream 's': a name has 1 to 127 printable characters "
          "without blanks");
    fails(put_rows(w, "f65", 2, 0, 1), EINVAL,
          "step 0 of stream 's': variable 'T': type 'f65' with 2 dimensions is not possible");
    fails(put_rows(w, "f64", 2, 1, 2), EINVAL,
          "step 0 of stream 's': a piece of variable 'T' of rank 0 is not inside the array in "
          "dimension 0");
    works(put_rows(w, "f64", 2, 0, 1));
    fails(put_rows(w, "f64", 2, 1, 1), EEXIST,
          "variable 'T' of step 0 of stream 's': the step has this variable already");
    fails(flux_stream_skip(w, 5, &err), EINVAL, "step 0 of stream 's' was begun, or is pending");
    works(flux_stream_place(w, 1., &err));
    fails(flux_stream_place(w, 1., &err), EINVAL, "step 0 of stream 's' has its place already");
    fails(flux_stream_put(w, "m", "1234", 4, &err), EINVAL,
          "step 0 of stream 's' has its place already");
    fails(flux_stream_begin_step(w, FLUX_STREAM_NEXT, 0., NULL, &err), EINVAL,
          "step 0 of stream 's' is written, not read");
    works(flux_stream_end_step(w, 1., &err));
    fails(flux_stream_put(b.r, "n", "1234", 4, &err), EINVAL, "stream 's' was opened for reading");
    fails(flux_stream_get(b.r, 0, "n", &p, &len, &err), EINVAL,
          "stream 's' has no step that was begun to get data of rank 0");
    bed_free(&b);
}
END_TEST

START_TEST(reading)
{
    static double box[30];
    struct bed b;
    struct flux_stream_info info;
    const void *p;
    size_t len;
    uint64_t start[] = {1, 0};
    uint64_t count[] = {9, 3};

    bed_init(&b, NULL, 0);
    fails(begin(&b, FLUX_STREAM_NEXT), ETIMEDOUT, "stream 's' has had no step within 0 s");
    works(put_rows(b.w[0], "f64", 9, 0, 4));
    works(put_rows(b.w[1], "f64", 9, 5, 4));
    works(flux_stream_put(b.w[1], "n", "1234", 4, &err));
    end(&b);
    ck_assert_int_eq(begin(&b, FLUX_STREAM_NEXT), 1);
    fails(begin(&b, FLUX_STREAM_NEXT), EINVAL, "step 0 of stream 's' was not ended");
    fails(flux_stream_get(b.r, 0, "n", &p, &len, &err), ENOENT,
          "step 0 of stream 's' has no variable 'n' of rank 0");
    fails(flux_stream_get(b.r, 2, "n", &p, &len, &err), EINVAL,
          "stream 's' has no writer of rank 2");
    fails(flux_stream_get_box(b.r, "T", start, count, NULL, box, sizeof(box), &err), ERANGE,
          "step 0 of stream 's': a box of variable 'T' ends outside the array in dimension 0, "
          "which has 9 elements");
    count[0] = 3;
    fails(flux_stream_get_box(b.r, "T", start, count, NULL, box, 71, &err), ENOBUFS,
          "variable 'T' in step 0 of stream 's': 9 elements need more than 71 bytes");
    works(flux_stream_get_box(b.r, "T", start, count, NULL, box, 72, &err));
    count[0] = 5;
    fails(flux_stream_get_box(b.r, "T", start, count, NULL, box, sizeof(box), &err), ENODATA,
          "variable 'T' in step 0 of stream 's': no writer has 3 of the 15 elements");
    fails(flux_stream_get_box(b.r, "n", NULL, NULL, NULL, box, sizeof(box), &err), ENOENT,
          "step 0 of stream 's' has no variable 'n' that is described");
    works(flux_stream_end_step(b.r, 0., &err));
    fails(flux_stream_end_step(b.r, 0., &err), EINVAL, "stream 's' has no step that was begun");
    for (int i = 1; i <= 3; i++) { /* types, extents, and pieces of two writers that do not fit */
        works(put_rows(b.w[0], "f64", 9, 0, 4));
        works(put_rows(b.w[1], i == 1 ? "f32" : "f64", i == 2 ? 8 : 9, 3 + (i < 3), 4));
        end(&b);
        ck_assert_int_eq(begin(&b, FLUX_STREAM_NEXT), 1);
        if (i < 3) {
            char text[120];

            snprintf(text, sizeof(text),
                     "the writers of stream 's' do not agree about variable 'T' in step %d: rank 1 "
                     "describes another array",
                     i);
            fails(flux_stream_inquire(b.r, FLUX_STREAM_ALL, "T", &info, &err), EPROTO, text);
        } else {
            ck_assert_int_eq(flux_stream_inquire(b.r, FLUX_STREAM_ALL, "T", &info, &err), -1);
            ck_assert_int_eq(errno, EPROTO);
            ck_assert_ptr_nonnull(strstr(err.text, "overlap"));
        }
        works(flux_stream_end_step(b.r, 0., &err));
    }
    bed_free(&b);
}
END_TEST

/* Put the records of a writer: 4 of a global array of 8. */
static int put_records(struct bed *b, uint32_t k, const stream_format_t *f)
{
    static const struct {
        uint64_t id;
        double x;
    } recs[4];
    const uint64_t shape = 8, at = 4 * k, n = 4;
    const struct flux_stream_array a = {NULL, 1, &shape, &at, &n, false, f};

    return flux_stream_put_array(b->w[k], "R", &a, recs, &err);
}

static stream_format_t *sketch(const char *text)
{
    stream_format_t *f = stream_format_sketch(text, &err);

    ck_assert_msg(f != NULL, "%s", err.text);
    return f;
}

START_TEST(reading_records)
{
    stream_format_t *f = sketch("record r\nfield id u64\nfield x f64\n");
    stream_format_t *narrow = sketch("record r\nfield id u32\n");
    stream_format_t *text = sketch("record r\nfield name string\n");
    const uint64_t start = 5, count = 4;
    static char box[8 * 16];
    struct bed b;
    const void *p;
    size_t n;

    bed_init(&b, NULL, 0);
    works(put_records(&b, 0, f));
    works(put_records(&b, 1, f));
    works(put_rows(b.w[0], "f64", 9, 0, 4));
    end(&b);
    ck_assert_int_eq(begin(&b, FLUX_STREAM_NEXT), 1);
    works(flux_stream_get_record_box(b.r, "R", NULL, NULL, NULL, f, box, sizeof(box), &err));
    fails(flux_stream_get_record_box(b.r, "R", &start, &count, NULL, f, box, sizeof(box), &err),
          ERANGE,
          "step 0 of stream 's': a box of variable 'R' ends outside the array in dimension 0, "
          "which has 8 elements");
    fails(flux_stream_get_record_box(b.r, "R", NULL, NULL, NULL, f, box, 127, &err), ENOBUFS,
          "variable 'R' in step 0 of stream 's': 8 records need more than 127 bytes");
    fails(flux_stream_get_record_box(b.r, "R", NULL, NULL, NULL, text, box, sizeof(box), &err),
          EINVAL, "variable 'R' in step 0 of stream 's': records of a box have no pointers");
    fails(flux_stream_get_records(b.r, 0, "R", narrow, &p, &n, &err), EINVAL,
          "variable 'R' in step 0 of stream 's': field r.id is of type u32, and of type u64 at the "
          "writer: there is no conversion without loss");
    fails(flux_stream_get_records(b.r, 0, "T", f, &p, &n, &err), EINVAL,
          "variable 'T' in step 0 of stream 's' has elements of type f64, not records");
    fails(flux_stream_get_records(b.r, 0, "none", f, &p, &n, &err), ENOENT,
          "step 0 of stream 's' has no variable 'none' that is described");
    fails(flux_stream_get_records(b.r, 2, "R", f, &p, &n, &err), EINVAL,
          "stream 's' has no writer of rank 2");
    works(flux_stream_end_step(b.r, 0., &err));
    works(put_records(&b, 0, f));
    works(put_records(&b, 1, narrow));
    end(&b);
    ck_assert_int_eq(begin(&b, FLUX_STREAM_NEXT), 1);
    fails(flux_stream_get_records(b.r, 0, "R", f, &p, &n, &err), EPROTO,
          "the writers of stream 's' do not agree about variable 'R' in step 1: rank 1 describes "
          "another array");
    works(flux_stream_end_step(b.r, 0., &err));
    bed_free(&b);
    stream_format_destroy(text);
    stream_format_destroy(narrow);
    stream_format_destroy(f);
}
END_TEST

/* A reader asks for a format once, however many steps, writers and calls need it. */
START_TEST(format_once)
{
    stream_format_t *f = sketch("record r\nfield id u64\nfield x f64\n");
    stream_format_t *g = sketch("record r\nfield id u64\nfield y f64\n");
    static char box[8 * 16];
    struct bed b;
    const void *p;
    size_t n;

    bed_init(&b, NULL, 0);
    for (int step = 0; step < 40; step++) {
        const stream_format_t *now = step % 2 ? g : f;

        works(put_records(&b, 0, now));
        works(put_records(&b, 1, now));
        end(&b);
        ck_assert_int_eq(begin(&b, FLUX_STREAM_NEXT), 1);
        ck_assert_ptr_nonnull(flux_stream_format(b.r, "R", &err));
        for (uint32_t k = 0; k < 2; k++)
            works(flux_stream_get_records(b.r, k, "R", f, &p, &n, &err));
        works(flux_stream_get_record_box(b.r, "R", NULL, NULL, NULL, g, box, sizeof(box), &err));
        works(flux_stream_end_step(b.r, 0., &err));
        ck_assert_uint_eq(b.asked, step == 0 ? 1 : 2);
    }
    bed_free(&b);
    stream_format_destroy(g);
    stream_format_destroy(f);
}
END_TEST

static int schedule(struct bed *b, const char *var, uint32_t writer,
                    const struct flux_stream_box *box, double *buf, size_t n)
{
    return flux_stream_schedule(b->r, var, writer, box, buf, n * sizeof(*buf), &err);
}

/* Several requests are performed at once, or not at all; the end of the step forgets them. */
START_TEST(scheduled)
{
    static const double rows[] = {0, 1, 2, 10, 11, 12, 20, 21, 22, 30, 31, 32};
    const uint64_t shape[] = {9, 3}, at[][2] = {{0, 0}, {5, 0}}, n[] = {4, 3}, own[] = {5};
    const uint64_t one[] = {1, 1}, start[] = {2, 1}, count[] = {2, 2}, gap[] = {5, 1};
    const uint64_t stride[] = {2, 2}, nothing[] = {0, 0};
    const struct flux_stream_box box = {start, count, one}, holes = {start, gap, NULL};
    const struct flux_stream_box strides = {NULL, NULL, stride}, both = {start, count, NULL};
    const struct flux_stream_box still = {NULL, NULL, nothing};
    double a[4], piece[12], part[5], list[3], value[1];
    struct bed b;

    bed_init(&b, NULL, 0);
    for (int step = 0; step < 3; step++) {
        for (int k = 0; k < 2; k++) {
            const struct flux_stream_array T = {"f64", 2, shape, at[k], n, false, NULL};
            const struct flux_stream_array L = {"f64", 1, NULL, NULL, own, false, NULL};
            const struct flux_stream_array V = {"f64", 0, NULL, NULL, NULL, false, NULL};

            works(flux_stream_put_array(b.w[k], "T", &T, rows, &err));
            works(flux_stream_put_array(b.w[k], "L", &L, rows + 3 * k, &err));
            works(flux_stream_put_array(b.w[k], "V", &V, rows + 3 + k, &err));
        }
        end(&b);
    }
    ck_assert_int_eq(begin(&b, FLUX_STREAM_NEXT), 1);
    works(flux_stream_perform(b.r, &err)); /* nothing */
    works(schedule(&b, "T", FLUX_STREAM_ALL, &box, a, 4));
    works(schedule(&b, "T", 1, NULL, piece, 12));
    works(schedule(&b, "T", 1, &strides, part, 4));
    works(schedule(&b, "L", 1, &strides, list, 3));
    works(schedule(&b, "V", 1, NULL, value, 1));
    works(flux_stream_perform(b.r, &err));
    ck_assert(a[0] == 21 && a[1] == 22 && a[2] == 31 && a[3] == 32);
    ck_assert_mem_eq(piece, rows, sizeof(rows));
    ck_assert(part[0] == 0 && part[1] == 2 && part[2] == 20 && part[3] == 22);
    ck_assert(list[0] == 10 && list[1] == 12 && list[2] == 21 && value[0] == 11);
    fails(schedule(&b, "L", FLUX_STREAM_ALL, NULL, list, 3), EINVAL,
          "variable 'L' in step 0 of stream 's' is not a global array");
    fails(schedule(&b, "T", 1, &both, a, 4), EINVAL,
          "step 0 of stream 's': of variable 'T' a box is requested, or what one writer has, not "
          "both");
    fails(schedule(&b, "T", 1, NULL, piece, 11), ENOBUFS,
          "variable 'T' in step 0 of stream 's': 12 elements need more than 88 bytes");
    ck_assert_int_eq(schedule(&b, "T", 1, &still, piece, 12), -1);
    ck_assert_int_eq(errno, EINVAL);
    ck_assert_int_eq(schedule(&b, "T", 2, NULL, piece, 12), -1);
    ck_assert_int_eq(errno, ENOENT);
    /* All others are there when elements are missing; and what was performed is not kept. */
    memset(piece, 0, sizeof(piece));
    works(schedule(&b, "T", FLUX_STREAM_ALL, &holes, part, 5));
    works(schedule(&b, "T", 0, NULL, piece, 12));
    fails(flux_stream_perform(b.r, &err), ENODATA,
          "variable 'T' in step 0 of stream 's': no writer has 1 of the 5 elements");
    ck_assert_mem_eq(piece, rows, sizeof(rows));
    works(flux_stream_perform(b.r, &err));
    memset(a, 0, sizeof(a));
    works(schedule(&b, "T", FLUX_STREAM_ALL, &box, a, 4));
    works(flux_stream_end_step(b.r, 0., &err));
    ck_assert_int_eq(begin(&b, FLUX_STREAM_NEXT), 1);
    works(flux_stream_perform(b.r, &err));
    ck_assert(a[0] == 0);
    for (int i = 0; i < 4096; i++)
        works(schedule(&b, "T", FLUX_STREAM_ALL, &box, a, 4));
    fails(schedule(&b, "T", FLUX_STREAM_ALL, &box, a, 4), E2BIG,
          "step 1 of stream 's' has 4096 requests already");
    works(flux_stream_perform(b.r, &err));
    ck_assert(a[3] == 32);
    works(schedule(&b, "T", FLUX_STREAM_ALL, &box, a, 4)); /* never performed */
    bed_free(&b);
}
END_TEST

static int view(struct bed *b, uint64_t row, uint64_t column, uint64_t rows, uint64_t columns,
                uint64_t by, struct flux_stream_view *at)
{
    const uint64_t start[] = {row, column}, count[] = {rows, columns}, stride[] = {by, 2};
    const struct flux_stream_box box = {start, count, stride};

    return flux_stream_view_box(b->r, "T", &box, at, &err);
}

/* A box that one writer has is found in the memory of this writer; one of several, or with holes,
 * is nowhere as a whole. */
START_TEST(in_place)
{
    static const double rows[] = {0, 1, 2, 10, 11, 12, 20, 21, 22, 30, 31, 32};
    const uint64_t shape[] = {9, 3}, at[][2] = {{0, 0}, {4, 0}}, n[] = {4, 3};
    struct flux_stream_view v;
    const void *p;
    struct bed b;
    size_t len;

    bed_init(&b, NULL, 0);
    for (int k = 0; k < 2; k++) {
        const struct flux_stream_array T = {"f64", 2, shape, at[k], n, false, NULL};
        const struct flux_stream_array L = {"f64", 1, NULL, NULL, n, false, NULL};

        works(flux_stream_put_array(b.w[k], "T", &T, rows, &err));
        works(flux_stream_put_array(b.w[k], "L", &L, rows, &err));
    }
    end(&b);
    ck_assert_int_eq(begin(&b, FLUX_STREAM_NEXT), 1);
    works(flux_stream_get(b.r, 1, "T", &p, &len, &err));
    ck_assert_int_eq(view(&b, 5, 0, 2, 2, 2, &v), 1);
    ck_assert_ptr_eq(v.data, (const double *)p + 3);
    ck_assert_uint_eq(v.stride[0], 6 * sizeof(double));
    ck_assert_uint_eq(v.stride[1], 2 * sizeof(double));
    ck_assert_int_eq(view(&b, 7, 2, 1, 1, UINT64_MAX / 2, &v), 1);
    ck_assert_ptr_eq(v.data, (const double *)p + 11);
    ck_assert_int_eq(view(&b, 3, 0, 2, 1, 1, &v), 0); /* both writers have some */
    ck_assert_int_eq(view(&b, 7, 0, 2, 1, 1, &v), 0); /* nobody has the last row */
    ck_assert_int_eq(view(&b, 8, 0, 1, 1, 1, &v), 0);
    ck_assert_int_eq(view(&b, 5, 0, 0, 1, 1, &v), 0);
    ck_assert_int_eq(flux_stream_view_box(b.r, "T", NULL, &v, &err), 0);
    ck_assert_int_eq(view(&b, 8, 0, 2, 1, 1, &v), -1);
    ck_assert_int_eq(errno, ERANGE);
    fails(flux_stream_view_box(b.r, "L", NULL, &v, &err), EINVAL,
          "variable 'L' in step 0 of stream 's' is not a global array");
    bed_free(&b);
}
END_TEST

/* A step by its number, and the newest one, of writers that are at different steps. */
START_TEST(exact)
{
    struct bed b;

    bed_init(&b, NULL, 0);
    for (int i = 0; i < 6; i++)
        put_number(&b, 0);
    for (int i = 0; i < 4; i++)
        put_number(&b, 1);
    ck_assert_int_eq(begin(&b, 1), 1);
    has(&b, 1);
    fails(begin(&b, 4), ETIMEDOUT, "stream 's' has had no step within 0 s");
    put_number(&b, 1); /* step 4 */
    ck_assert_int_eq(begin(&b, 4), 1);
    has(&b, 4);
    fails(begin(&b, 4), ENOENT, "step 4 of stream 's' cannot come any more");
    fails(begin(&b, 3), ENOENT, "step 3 of stream 's' cannot come any more");
    ck_assert_uint_eq(flux_stream_step(b.r), 4);
    put_number(&b, 1);
    fails(begin(&b, 3), ENOENT, "step 3 of stream 's' cannot come any more");
    ck_assert_int_eq(begin(&b, FLUX_STREAM_NEXT), 1); /* what was found instead is not lost */
    has(&b, 5);
    fails(begin(&b, 5), ENOENT, "step 5 of stream 's' cannot come any more"); /* all is read */
    fails(begin(&b, 6), ETIMEDOUT, "stream 's' has had no step within 0 s");
    for (int i = 0; i < 3; i++)
        put_number(&b, 1);
    for (int i = 0; i < 5; i++)
        put_number(&b, 0);
    ck_assert_int_eq(begin(&b, FLUX_STREAM_NEWEST), 1);
    has(&b, 8);
    fails(begin(&b, FLUX_STREAM_NEWEST), ETIMEDOUT, "stream 's' has had no step within 0 s");
    bed_free(&b);
}
END_TEST

/* The same with policies by which each writer drops other steps: a step that one of them has
 * dropped cannot come. */
START_TEST(dropped)
{
    static const char *const policies[] = {"drop-newest", "drop-oldest", "latest"};
    struct bed b;

    bed_init(&b, policies[_i], 2);
    for (int i = 0; i < 5; i++)
        put_number(&b, 0);
    for (int i = 0; i < 3; i++)
        put_number(&b, 1);
    /* Rank 0 has kept 0 and 1, 3 and 4, or 4; and rank 1 has 0 and 1, 1 and 2, or 2. */
    if (_i == 0) {
        ck_assert_int_eq(begin(&b, 1), 1);
        has(&b, 1);
        fails(begin(&b, 2), ETIMEDOUT, "stream 's' has had no step within 0 s");
        put_number(&b, 0); /* step 5 */
        for (int i = 0; i < 3; i++)
            put_number(&b, 1);
        fails(begin(&b, 2), ENOENT, "step 2 of stream 's' cannot come any more");
    } else { /* rank 0 has dropped it, which is known before rank 1 has a later step */
        fails(begin(&b, 2), ENOENT, "step 2 of stream 's' cannot come any more");
        put_number(&b, 1);
        put_number(&b, 1); /* step 4 */
        fails(begin(&b, 2), ENOENT, "step 2 of stream 's' cannot come any more");
        ck_assert_int_eq(begin(&b, FLUX_STREAM_NEWEST), 1);
        has(&b, 4);
    }
    bed_free(&b);
}
END_TEST

/* A reader joins when rank 1 has passed steps that rank 0 has not: it does not keep these from rank
 * 0, which would wait for it. */
START_TEST(joined_apart)
{
    const struct flux_stream_opts opts = {.depth = 2};
    struct bed b;

    bed_init(&b, NULL, 2);
    flux_stream_close(b.r);
    works(flux_stream_skip(b.w[1], 5, &err));
    ck_assert_msg((b.r = reader_open(&b, &opts)) != NULL, "%s", err.text);
    for (int k = 0; k < 2; k++)
        works(flux_stream_wait_readers(b.w[k], 1, 30., &err));
    for (int i = 0; i < 6; i++) {
        put_number(&b, 0);
        if (i < 5)
            fails(begin(&b, FLUX_STREAM_NEXT), ETIMEDOUT, "stream 's' has had no step within 0 s");
    }
    put_number(&b, 1);
    ck_assert_int_eq(begin(&b, FLUX_STREAM_NEXT), 1);
    has(&b, 5);
    bed_free(&b);
}
END_TEST

/* What is closed in the middle of a step: a writer has not written it, and a reader has not
 * released it, which delays nobody. */
START_TEST(closed)
{
    struct bed b;
    const void *p;
    size_t len;

    bed_init(&b, NULL, 1);
    put_number(&b, 0);
    put_number(&b, 1);
    ck_assert_int_eq(begin(&b, FLUX_STREAM_NEXT), 1);
    works(flux_stream_put(b.w[1], "n", "1234", 4, &err));
    works(flux_stream_put(b.w[0], "n", "1234", 4, &err));
    fails(flux_stream_end_step(b.w[0], 0., &err), ETIMEDOUT,
          "step 1 of stream 's' has waited 0 s for a reader that does not keep up");
    flux_stream_close(b.w[1]);
    b.w[1] = NULL;
    works(flux_stream_get(b.r, 1, "n", &p, &len, &err));
    ck_assert_mem_eq(p, "\0\0\0\0\0\0\0\0", 8);
    flux_stream_close(b.r);
    b.r = NULL;
    works(flux_stream_end_step(b.w[0], 30., &err));
    put_number(&b, 0);
    bed_free(&b);
}
END_TEST

int main(void)
{
    const TTest *const once[] = {writing,   reading,  reading_records, format_once,  ranks,
                                 scheduled, in_place, exact,           joined_apart, closed};
    TCase *tc = tcase_create("stream_wrong");

    for (size_t i = 0; i < sizeof(once) / sizeof(once[0]); i++)
        tcase_add_test(tc, once[i]);
    tcase_add_loop_test(tc, dropped, 0, 3);
    return run_case("stream_wrong", tc);
}

/* check_tape.c - recordings: round trips, files that were cut off anywhere, every change of a byte,
 * and every allocation that fails. */
#include "config.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "libstream/block.h"
#include "libstream/stream.h"
#include "libstream/tape_write.h"
#include "libutil/fdutil.h"
#include "libutil/test/fail_at.h"
#include "libutil/test/suite.h"

#define WRITERS 2
#define STEPS 3
#define SIZE_MAX_FILE 8192
#define RECORDS_LEN 128 /* bytes of a format of records, in front of each step but the first */

static char dir[32];
static char path[64];
static errmsg_t err;

/* What was synchronized last; nothing else comes of it. */
static ino_t synced;

int fsync(int fd)
{
    struct stat st;

    ck_assert_int_eq(fstat(fd, &st), 0);
    synced = st.st_ino;
    return 0;
}

static void setup(void)
{
    strcpy(dir, "/tmp/check_tape.XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
    snprintf(path, sizeof(path), "%s/a.rec", dir);
}

static void teardown(void)
{
    dir_remove_tree(dir);
}

/* What a writer puts into a step; the lengths of the values differ. */
static uint64_t block_make(unsigned char *buf, uint64_t step, uint32_t writer)
{
    block_t *b = block_create();
    uint64_t len = 5 + 30 * writer + step;

    ck_assert_int_eq(block_add(b, "x", "about x", 7, len), 0);
    memset(buf, 0, block_size(b));
    block_write(b, buf);
    memset(buf + block_at(b, 0)->off, (int)(65 + step), len);
    len = block_size(b);
    block_destroy(b);
    return len;
}

static int put_step(tape_write_t *w, uint64_t step)
{
    static unsigned char data[WRITERS][1024];
    struct tape_block blocks[WRITERS];

    for (uint32_t i = 0; i < WRITERS; i++)
        blocks[i] = (struct tape_block){data[i], block_make(data[i], step, i)};
    return tape_write_step(w, step, 1000 + step, blocks, &err);
}

/* A recording of the steps 10, 11, 12; ended or not. */
static void make(bool end)
{
    tape_write_t *w;

    unlink(path);
    ck_assert_ptr_nonnull(w = tape_write_open(path, "heat", WRITERS, false, &err));
    ck_assert_int_eq(tape_write_format(w, "x bytes", &err), 0);
    for (uint64_t i = 0; i < STEPS; i++) {
        if (i > 0)
            ck_assert_int_eq(tape_write_records(w, i, i == 1 ? "one" : "two", &err), 0);
        ck_assert_int_eq(put_step(w, 10 + i), 0);
    }
    if (end)
        ck_assert_int_eq(tape_write_end(w, &err), 0);
    tape_write_destroy(w);
}

/* The formats of records that `make` has written before the last of `n` steps. */
static void check_records(const tape_t *t, size_t n)
{
    uint64_t id, sum = 0;
    size_t pos = 0;

    if (n > 1)
        ck_assert_str_eq(tape_record_format(t, 1), "one");
    if (n > 2)
        ck_assert_str_eq(tape_record_format(t, 2), "two");
    ck_assert_ptr_null(tape_record_format(t, 3));
    while (tape_record_next(t, &pos, &id))
        sum += id;
    ck_assert_uint_ge(sum, n > 2 ? 3 : n > 1 ? 1 : 0);
    ck_assert_uint_le(sum, 3);
}

/* Verify the steps of a recording, which are 10 and those that follow. */
static void check_steps(tape_t *t, size_t n)
{
    ck_assert_uint_eq(tape_count(t), n);
    for (size_t i = 0; i < n; i++) {
        struct tape_block blocks[WRITERS];

        ck_assert_uint_eq(tape_at(t, i).number, 10 + i);
        ck_assert_uint_eq(tape_at(t, i).time, 1010 + i);
        ck_assert_uint_eq(tape_find(t, 10 + i), i);
        ck_assert_int_eq(tape_blocks(t, i, blocks, &err), 0);
        for (uint32_t w = 0; w < WRITERS; w++) {
            static unsigned char want[1024];

            ck_assert_uint_eq(blocks[w].len, block_make(want, 10 + i, w));
            ck_assert_int_eq(memcmp(blocks[w].data, want, blocks[w].len), 0);
            ck_assert_uint_eq((uintptr_t)blocks[w].data % 64, 0);
        }
    }
    ck_assert_uint_eq(tape_find(t, 0), 0);
    ck_assert_uint_eq(tape_find(t, 10 + n), n);
}

/* The steps that a loss of power leaves are in a file that has a name. */
START_TEST(named)
{
    struct stat st;

    ck_assert_int_eq(stat(dir, &st), 0);
    make(true);
    ck_assert(synced == st.st_ino);
}
END_TEST

START_TEST(round_trip)
{
    for (int end = 0; end < 2; end++) {
        tape_t *t;

        make(end);
        ck_assert_ptr_nonnull(t = tape_open(path, &err));
        ck_assert_str_eq(tape_info(t)->name, "heat");
        ck_assert_str_eq(tape_info(t)->format, "x bytes");
        ck_assert_uint_eq(tape_info(t)->writers, WRITERS);
        ck_assert_int_eq(tape_info(t)->complete, end);
        check_steps(t, STEPS);
        check_records(t, STEPS);
        tape_destroy(t);
    }
}
END_TEST

static size_t file_read(unsigned char *buf)
{
    char *data;
    size_t len;

    ck_assert_int_eq(file_read_all(path, SIZE_MAX_FILE, &data, &len), 0);
    memcpy(buf, data, len);
    free(data);
    return len;
}

static void file_write(const unsigned char *buf, size_t len)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(fd_write_all(fd, buf, len), 0);
    close(fd);
}

/* Cut off at any byte, a recording has the steps before; and it can be continued. */
START_TEST(cut_off)
{
    static _Alignas(64) unsigned char buf[SIZE_MAX_FILE];
    uint64_t ends[STEPS];
    size_t size;
    tape_t *t;

    make(false);
    ends[STEPS - 1] = file_read(buf);
    ck_assert_ptr_nonnull(t = tape_read(buf, ends[STEPS - 1], "memory", &err));
    for (size_t i = 0; i + 1 < STEPS; i++)
        ends[i] = tape_at(t, i + 1).at - RECORDS_LEN;
    tape_destroy(t);
    make(true);
    size = file_read(buf);
    for (size_t len = 0; len < size; len++) {
        tape_write_t *w;
        size_t n = 0;

        while (n < STEPS && ends[n] <= len)
            n++;
        t = tape_read(buf, len, "memory", &err);
        if (len < 256) {
            ck_assert(!t && errno == EPROTO);
            continue;
        }
        ck_assert_ptr_nonnull(t);
        ck_assert(!tape_info(t)->complete && tape_info(t)->end <= len);
        check_steps(t, n);
        check_records(t, n);
        tape_destroy(t);
        if (len % 61 > 0)
            continue;
        file_write(buf, len);
        ck_assert_ptr_nonnull(w = tape_write_open(path, "heat", WRITERS, true, &err));
        ck_assert_int_eq(tape_write_records(w, 1, "one", &err), 0);
        ck_assert_int_eq(tape_write_records(w, 2, "two", &err), 0);
        for (size_t i = n; i < STEPS + 2; i++)
            ck_assert_int_eq(put_step(w, 10 + i), 0);
        ck_assert_int_eq(tape_write_end(w, &err), 0);
        tape_write_destroy(w);
        ck_assert_ptr_nonnull(t = tape_open(path, &err));
        ck_assert(tape_info(t)->complete);
        check_steps(t, STEPS + 2);
        check_records(t, STEPS + 2);
        tape_destroy(t);
    }
}
END_TEST

/* What each writer has pinned as of step 10 + i. */
static const char *const pinned[WRITERS][STEPS + 1] = {{"first", "first", "later", NULL},
                                                       {NULL, NULL, "mesh", "mesh"}};

static int put_pins(tape_write_t *w, size_t i, uint64_t owner)
{
    static _Alignas(64) char data[WRITERS][64];
    struct tape_pin pins[WRITERS] = {{{NULL, 0}, 0}, {{NULL, 0}, 0}};
    uint64_t owners[WRITERS];

    for (uint32_t k = 0; k < WRITERS; k++)
        owners[k] = owner + k;
    for (uint32_t k = 0; k < WRITERS; k++) {
        if (!pinned[k][i])
            continue;
        strcpy(data[k], pinned[k][i]);
        pins[k] = (struct tape_pin){{data[k], strlen(data[k])}, strlen(data[k]) + data[k][0]};
    }
    return tape_write_pins(w, pins, owners, &err);
}

static void check_pins(const tape_t *t, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct tape_pin pins[WRITERS];

        ck_assert_msg(tape_pins(t, i, pins, &err) == 0, "%s", err.text);
        for (uint32_t k = 0; k < WRITERS; k++) {
            const struct tape_block *b = &pins[k].block;

            ck_assert_uint_eq(b->len, pinned[k][i] ? strlen(pinned[k][i]) : 0);
            ck_assert(b->len == 0 || memcmp(b->data, pinned[k][i], b->len) == 0);
            ck_assert_uint_eq((uintptr_t)b->data % 64, 0);
            ck_assert_uint_eq(pins[k].number > 0, b->len > 0);
        }
    }
}

static size_t make_pinned(size_t steps, size_t *ends)
{
    tape_write_t *w;
    struct stat st;

    unlink(path);
    ck_assert_ptr_nonnull(w = tape_write_open(path, "heat", WRITERS, false, &err));
    for (size_t i = 0; i < steps; i++) {
        ck_assert_int_eq(put_pins(w, i, 7), 0);
        ck_assert_int_eq(put_step(w, 10 + i), 0);
        ck_assert_int_eq(stat(path, &st), 0);
        ends[i] = (size_t)st.st_size;
    }
    ck_assert_int_eq(tape_write_end(w, &err), 0);
    tape_write_destroy(w);
    return steps;
}

/* What is pinned is found with each step, wherever the file was cut off, and it is stored once. */
START_TEST(pins)
{
    static _Alignas(64) unsigned char buf[SIZE_MAX_FILE];
    size_t ends[STEPS + 1];
    size_t count = make_pinned(STEPS + 1, ends);
    size_t size = file_read(buf);
    tape_t *t;

    ck_assert_ptr_nonnull(t = tape_open(path, &err));
    ck_assert(tape_info(t)->complete);
    check_steps(t, count);
    check_pins(t, count);
    tape_destroy(t);
    for (const char *const *p = (const char *[]){"first", "later", "mesh", NULL}; *p; p++) {
        unsigned char *at = memmem(buf, size, *p, strlen(*p));

        ck_assert_ptr_nonnull(at);
        ck_assert_ptr_null(memmem(at + 1, size - (size_t)(at + 1 - buf), *p, strlen(*p)));
    }
    for (size_t len = 256; len < size; len++) {
        size_t n = 0;

        while (n < count && ends[n] <= len)
            n++;
        ck_assert_ptr_nonnull(t = tape_read(buf, len, "memory", &err));
        check_steps(t, n);
        check_pins(t, n);
        tape_destroy(t);
    }
    for (size_t i = 256; i < ends[count - 1]; i++) { /* the whole file without its index */
        size_t n = 0;

        while (n < count && ends[n] <= i)
            n++;
        buf[i] ^= 0x10;
        ck_assert_ptr_nonnull(t = tape_read(buf, ends[count - 1], "memory", &err));
        ck_assert_uint_eq(tape_count(t), n);
        check_pins(t, n);
        tape_destroy(t);
        buf[i] ^= 0x10;
    }
}
END_TEST

/* One that goes on writes again what is pinned; without that, nothing is. */
START_TEST(pins_continued)
{
    size_t ends[STEPS + 1];
    struct tape_pin found[WRITERS];
    tape_write_t *w;
    tape_t *t;

    make_pinned(1, ends);
    ck_assert_ptr_nonnull(w = tape_write_open(path, "heat", WRITERS, true, &err));
    ck_assert_int_eq(put_step(w, 11), 0);
    ck_assert_int_eq(put_pins(w, 2, 7), 0);
    ck_assert_int_eq(put_step(w, 12), 0);
    tape_write_destroy(w);
    ck_assert_ptr_nonnull(t = tape_open(path, &err));
    check_steps(t, 3);
    check_pins(t, 1);
    ck_assert_int_eq(tape_pins(t, 1, found, &err), 0);
    ck_assert_uint_eq(found[0].block.len, 0);
    ck_assert_int_eq(tape_pins(t, 2, found, &err), 0);
    ck_assert_uint_eq(found[1].block.len, strlen("mesh"));
    tape_destroy(t);
}
END_TEST

/* Any byte of one that was interrupted is changed: only steps that are before it are seen. */
START_TEST(changed)
{
    static _Alignas(64) unsigned char buf[SIZE_MAX_FILE];
    size_t size;
    tape_t *t;

    make(false);
    size = file_read(buf);
    for (size_t i = 0; i < size; i++) {
        size_t before = 0;

        ck_assert_ptr_nonnull(t = tape_read(buf, size, "memory", &err));
        while (before + 1 < STEPS && tape_at(t, before + 1).at - RECORDS_LEN <= i)
            before++;
        tape_destroy(t);
        buf[i] ^= 0x40;
        t = tape_read(buf, size, "memory", &err);
        if (i < 256)
            ck_assert(!t && errno == EPROTO);
        else {
            ck_assert_ptr_nonnull(t);
            check_steps(t, before);
            check_records(t, before);
        }
        tape_destroy(t);
        buf[i] ^= 0x40;
    }
}
END_TEST

/* The same of one that was ended, where blocks are not verified: no place outside is used. */
START_TEST(changed_index)
{
    static _Alignas(64) unsigned char buf[SIZE_MAX_FILE];
    size_t size;

    make(true);
    size = file_read(buf);
    for (size_t i = 256; i < size; i++) {
        tape_t *t;

        buf[i] ^= 0x40;
        ck_assert_ptr_nonnull(t = tape_read(buf, size, "memory", &err));
        ck_assert_uint_le(tape_count(t), STEPS);
        for (size_t k = 0; k < tape_count(t); k++) {
            struct tape_block blocks[WRITERS];

            if (tape_blocks(t, k, blocks, &err) < 0) {
                ck_assert_int_eq(errno, EPROTO);
                continue;
            }
            for (uint32_t w = 0; w < WRITERS; w++)
                ck_assert(blocks[w].data >= (void *)buf &&
                          (const unsigned char *)blocks[w].data + blocks[w].len <= buf + size);
        }
        tape_destroy(t);
        buf[i] ^= 0x40;
    }
}
END_TEST

static void refused(const char *name, uint32_t writers, bool append, int errnum)
{
    ck_assert_ptr_null(tape_write_open(path, name, writers, append, &err));
    ck_assert_int_eq(errno, errnum);
    ck_assert_ptr_nonnull(strstr(err.text, errnum == EINVAL ? "" : path));
}

START_TEST(refusals)
{
    tape_write_t *w;
    struct stat st;

    make(true);
    refused("heat", WRITERS, false, EEXIST);
    refused("cold", WRITERS, true, EINVAL);
    refused("heat", WRITERS + 1, true, EINVAL);
    refused("heat", 0, true, EINVAL);
    ck_assert_ptr_nonnull(w = tape_write_open(path, "heat", WRITERS, true, &err));
    refused("heat", WRITERS, true, EWOULDBLOCK);
    ck_assert_int_eq(put_step(w, 12), -1);
    ck_assert_int_eq(errno, EEXIST);
    ck_assert_int_eq(tape_write_format(w, "", &err), -1);
    ck_assert_int_eq(errno, EINVAL);
    ck_assert_int_eq(tape_write_records(w, 7, "", &err), -1);
    ck_assert_int_eq(errno, EINVAL);
    ck_assert_int_eq(tape_write_records(w, 1, "one", &err), 0);
    ck_assert(tape_write_knows(w, 1) && !tape_write_knows(w, 7));
    ck_assert_int_eq(stat(path, &st), 0);
    ck_assert_int_eq(tape_write_format(w, "x bytes", &err), 0);
    tape_write_destroy(w);
    ck_assert_int_eq(truncate(path, st.st_size), 0); /* the format was known */
    unlink(path);
    refused(
        "a name of a stream that is longer than the 128 bytes that a name has at most, since it "
        "was made for this purpose, and goes on for a while",
        WRITERS, false, EINVAL);
    file_write((const unsigned char *)"This is not a recording.", 24);
    refused("heat", WRITERS, true, EPROTO);
    ck_assert_ptr_null(tape_open(dir, &err));
    ck_assert_int_eq(errno, EPROTO);
}
END_TEST

/* A step for which there is no room is not in the file, and a smaller one is. */
START_TEST(no_room)
{
    static unsigned char large[SIZE_MAX_FILE];
    struct tape_block blocks[WRITERS] = {{large, sizeof(large)}, {large, 0}};
    struct rlimit lim;
    struct rlimit small;
    tape_write_t *w;
    tape_t *t;

    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &lim);
    small = lim;
    small.rlim_cur = SIZE_MAX_FILE;
    setrlimit(RLIMIT_FSIZE, &small);
    ck_assert_ptr_nonnull(w = tape_write_open(path, "heat", WRITERS, false, &err));
    ck_assert_int_eq(put_step(w, 10), 0);
    ck_assert_int_eq(tape_write_step(w, 11, 1, blocks, &err), -1);
    ck_assert_int_eq(errno, EFBIG);
    ck_assert_ptr_nonnull(strstr(err.text, path));
    ck_assert_int_eq(put_step(w, 11), 0);
    ck_assert_int_eq(tape_write_end(w, &err), 0);
    tape_write_destroy(w);
    setrlimit(RLIMIT_FSIZE, &lim);
    ck_assert_ptr_nonnull(t = tape_open(path, &err));
    check_steps(t, 2);
    tape_destroy(t);
}
END_TEST

/* A recording without a format, and without a step; and more writers than one call writes. */
START_TEST(extremes)
{
    enum { MANY = 1500 };
    static struct tape_block blocks[MANY];
    tape_write_t *w;
    tape_t *t;

    ck_assert_ptr_nonnull(w = tape_write_open(path, "heat", 1, false, &err));
    ck_assert_int_eq(tape_write_end(w, &err), 0);
    tape_write_destroy(w);
    ck_assert_ptr_nonnull(t = tape_open(path, &err));
    ck_assert(tape_info(t)->complete && !tape_info(t)->format && tape_count(t) == 0);
    tape_destroy(t);
    unlink(path);
    for (size_t i = 0; i < MANY; i++)
        blocks[i] = (struct tape_block){"0123456789", i % 11};
    ck_assert_ptr_nonnull(w = tape_write_open(path, "heat", MANY, false, &err));
    ck_assert_int_eq(tape_write_step(w, 7, 8, blocks, &err), 0);
    tape_write_destroy(w);
    ck_assert_ptr_nonnull(t = tape_open(path, &err));
    ck_assert_uint_eq(tape_count(t), 1);
    ck_assert_int_eq(tape_blocks(t, 0, blocks, &err), 0);
    for (size_t i = 0; i < MANY; i++)
        ck_assert(blocks[i].len == i % 11 && memcmp(blocks[i].data, "0123456789", i % 11) == 0);
    tape_destroy(t);
}
END_TEST

/* The example of doc/stream-format.rst: 16 bytes in each row, without rows of zeros. */
START_TEST(golden)
{
    static const struct {
        size_t at;
        const char *hex;
    } rows[] = {
        {0, "464c5558544150450100000001000000"},   {16, "04000000000000006865617400000000"},
        {240, "0000000000000000486c0e66836b5f99"}, {256, "46534301000000000000000000000000"},
        {272, "00000000000000000700000000000000"}, {288, "c0bb2f32229920be0000000000000000"},
        {304, "0000000000000000a67218466619b340"}, {320, "78206279746573000000000000000000"},
        {384, "46534302000000000700000000000000"}, {400, "08070605040302018000000000000000"},
        {416, "8c28e1121177120e0000000000000000"}, {432, "00000000000000006efa297597c6ab3e"},
        {448, "0a00000000000000330896838e7d3058"}, {512, "30313233343536373839000000000000"},
        {576, "46534303000000000100000000000000"}, {592, "00010000000000001800000000000000"},
        {608, "07bd03aa669d30cd0000000000000000"}, {624, "00000000000000002aa3e29bd839adce"},
        {640, "07000000000000000807060504030201"}, {656, "80010000000000000000000000000000"},
        {704, "46534304000000004002000000000000"}, {736, "d70077739d4b921e0000000000000000"},
        {752, "0000000000000000874825b3e2868f28"},
    };
    struct tape_block block = {"0123456789", 10};
    static unsigned char buf[SIZE_MAX_FILE];
    tape_write_t *w;
    size_t len;

    ck_assert_ptr_nonnull(w = tape_write_open(path, "heat", 1, false, &err));
    ck_assert_int_eq(tape_write_format(w, "x bytes", &err), 0);
    ck_assert_int_eq(tape_write_step(w, 7, 0x0102030405060708, &block, &err), 0);
    ck_assert_int_eq(tape_write_end(w, &err), 0);
    tape_write_destroy(w);
    len = file_read(buf);
    for (size_t i = 0; i < len; i += 16) {
        char row[33];
        size_t k = 0;

        for (size_t b = 0; b < 16; b++)
            snprintf(row + 2 * b, 3, "%02x", buf[i + b]);
        while (k < sizeof(rows) / sizeof(rows[0]) && rows[k].at != i)
            k++;
        ck_assert_str_eq(row, k < sizeof(rows) / sizeof(rows[0])
                                  ? rows[k].hex
                                  : "00000000000000000000000000000000");
    }
    ck_assert_uint_eq(len, 768);
}
END_TEST

/* A recording is opened, and a value of it is read, while each allocation fails once. */
START_TEST(no_memory)
{
    bool all = false;

    make(true);
    for (unsigned k = 1; !all; k++) {
        flux_stream_t *s;
        const void *data;
        size_t len;
        int errnum;
        int rc = -1;

        fail_at = k;
        if ((s = flux_stream_open_file(path, &err)) &&
            (rc = flux_stream_begin_step(s, FLUX_STREAM_NEXT, 0., NULL, &err)) == 1)
            rc = flux_stream_get(s, 1, "x", &data, &len, &err);
        errnum = errno;
        all = stop_failing() > 0;
        ck_assert_msg(all ? rc == 0 : rc == -1 && errnum == ENOMEM, "%u: %s", k, err.text);
        flux_stream_close(s);
    }
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {named,   round_trip, cut_off, changed, changed_index,  refusals,
                                  no_room, extremes,   golden,  pins,    pins_continued, no_memory};
    TCase *tc = tcase_create("tape");

    tcase_set_timeout(tc, 60);
    tcase_add_checked_fixture(tc, setup, teardown);
    for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++)
        tcase_add_test(tc, tests[i]);
    return run_case("tape", tc);
}

/* check_array.c - variables, pieces and boxes: random ones against a loop over every element,
 * pieces that overlap, descriptions as bytes, what is refused, memory that runs out.
 */
#include "config.h"
#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libutil/test/fail_at.h"
#include "libstream/copy.h"
#include "libutil/hex.h"
#include "libutil/test/suite.h"

#define ROUNDS 150 /* of one test, of which there are 4 */

static uint64_t seed;
static uint64_t chance(uint64_t n)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (seed >> 20) % n;
}

/* --- random arrays --- */

static const enum stream_type types[] = {STREAM_U8,  STREAM_U16,  STREAM_U32,
                                         STREAM_U64, STREAM_C128, STREAM_RECORD};

static stream_array_t *random_array(void)
{
    struct stream_shape s = {.name = "T", .kind = STREAM_GLOBAL, .order = STREAM_NATIVE};
    errmsg_t err = {""};
    stream_array_t *a;

    s.type = types[chance(6)];
    s.elem = s.type == STREAM_RECORD ? 3 : 0;
    s.memory = chance(2) ? STREAM_ROWS : STREAM_COLUMNS;
    s.ndims = 1 + (unsigned)chance(4);
    for (unsigned d = 0; d < s.ndims; d++)
        s.extents[d] = 1 + chance(s.ndims < 3 ? 20 : 8);
    a = stream_array_create(&s, &err);
    ck_assert_msg(a != NULL, "%s", err.text);
    return a;
}

/* Cut a box into pieces, of which some are left out. */
static void cut(stream_array_t *a, const uint64_t *offset, const uint64_t *count)
{
    unsigned nd = stream_array_shape(a)->ndims, d = (unsigned)chance(nd);
    uint64_t o[STREAM_NDIMS_MAX], c[STREAM_NDIMS_MAX], k;

    if (count[d] == 1 || chance(4) == 0) {
        if (chance(6))
            ck_assert_int_eq(stream_array_add(a, (uint32_t)chance(5), offset, count, NULL), 0);
        return;
    }
    memcpy(o, offset, nd * sizeof(o[0]));
    memcpy(c, count, nd * sizeof(c[0]));
    k = 1 + chance(count[d] - 1);
    c[d] = k;
    cut(a, o, c);
    o[d] += k;
    c[d] = count[d] - k;
    cut(a, o, c);
}

/* Byte `b` of the element at `at`. */
static uint8_t byte_at(const struct stream_shape *s, const uint64_t *at, size_t b)
{
    uint64_t h = b + 1;

    for (unsigned d = 0; d < s->ndims; d++)
        h = (h * 31 + at[d]) * 2654435761u;
    return (uint8_t)(h >> 13);
}

/* Where an element is in a box without gaps, in elements. */
static uint64_t place(enum stream_memory memory, unsigned nd, const uint64_t *at,
                      const uint64_t *count)
{
    uint64_t p = 0;

    for (unsigned i = 0; i < nd; i++) {
        unsigned d = memory == STREAM_ROWS ? i : nd - 1 - i;

        p = p * count[d] + at[d];
    }
    return p;
}

/* The next index of a box; false after the last one. */
static bool next(unsigned nd, uint64_t *at, const uint64_t *count)
{
    for (unsigned d = 0; d < nd; d++) {
        if (++at[d] < count[d])
            return true;
        at[d] = 0;
    }
    return false;
}

static uint8_t *memory_of(const stream_array_t *a, size_t i)
{
    const struct stream_shape *s = stream_array_shape(a);
    struct stream_piece p = stream_array_piece(a, i);
    uint8_t *mem = malloc(p.elems * s->elem);
    uint64_t at[STREAM_NDIMS_MAX] = {0}, where[STREAM_NDIMS_MAX];

    do {
        uint8_t *e = mem + place(s->memory, s->ndims, at, p.count) * s->elem;

        for (unsigned d = 0; d < s->ndims; d++)
            where[d] = p.offset[d] + at[d];
        for (size_t b = 0; b < s->elem; b++)
            e[b] = byte_at(s, where, b);
    } while (next(s->ndims, at, p.count));
    return mem;
}

static bool in_piece(const struct stream_piece *p, unsigned nd, const uint64_t *at)
{
    for (unsigned d = 0; d < nd; d++)
        if (at[d] < p->offset[d] || at[d] >= p->offset[d] + p->count[d])
            return false;
    return true;
}

/* --- boxes --- */

static void random_box(const struct stream_shape *s, struct stream_box *box)
{
    box->ndims = s->ndims;
    for (unsigned d = 0; d < s->ndims; d++) {
        uint64_t most;

        box->start[d] = chance(s->extents[d]);
        box->stride[d] = chance(2) ? 1 : 1 + chance(5);
        most = (s->extents[d] - 1 - box->start[d]) / box->stride[d] + 1;
        box->count[d] = chance(3) ? 1 + chance(most) : most;
        if (chance(40) == 0)
            box->count[d] = 0;
    }
}

/* What the box has to be, element by element.  Returns how many are missing. */
static uint64_t slow(const stream_array_t *a, const struct stream_box *box,
                     enum stream_memory memory, uint8_t *out)
{
    const struct stream_shape *s = stream_array_shape(a);
    uint64_t at[STREAM_NDIMS_MAX] = {0}, where[STREAM_NDIMS_MAX], missing = 0;

    do {
        uint8_t *e = out + place(memory, s->ndims, at, box->count) * s->elem;
        bool there = false;

        for (unsigned d = 0; d < s->ndims; d++)
            where[d] = box->start[d] + at[d] * box->stride[d];
        for (size_t i = 0; i < stream_array_count(a) && !there; i++) {
            struct stream_piece p = stream_array_piece(a, i);

            there = in_piece(&p, s->ndims, where);
        }
        missing += !there;
        for (size_t b = 0; b < s->elem; b++)
            e[b] = there ? byte_at(s, where, b) : 0xee;
    } while (next(s->ndims, at, box->count));
    return missing;
}

/* Write the runs of a part one after the other: the packed elements. */
static void pack(const struct stream_part *p, const void *mem, void *packed)
{
    struct stream_runs at = {.end = false};
    struct iovec iov[3];
    size_t n, done = 0;

    while ((n = stream_copy_runs(p, mem, &at, iov, 1 + chance(3))) > 0)
        for (size_t i = 0; i < n; i++) {
            ck_assert_uint_eq(iov[i].iov_len, stream_copy_run(p));
            ck_assert_uint_le(done + iov[i].iov_len, p->elems * p->from_elem);
            memcpy((uint8_t *)packed + done, iov[i].iov_base, iov[i].iov_len);
            done += iov[i].iov_len;
        }
    ck_assert_uint_eq(done, p->elems * p->from_elem);
}

static void check_box(const stream_array_t *a, const struct stream_box *box,
                      enum stream_memory memory, uint8_t *const *mem)
{
    const struct stream_shape *s = stream_array_shape(a);
    const struct stream_want want = {.memory = memory};
    enum stream_memory to = memory ? memory : s->memory;
    errmsg_t err = {""};
    stream_select_t *sel = stream_select_create(a, box, &want, &err);
    uint64_t elems = 1, moved = 0;
    uint8_t *direct, *packed, *expect;

    ck_assert_msg(sel != NULL, "%s", err.text);
    for (unsigned d = 0; d < box->ndims; d++)
        elems *= box->count[d];
    ck_assert_uint_eq(stream_select_elems(sel), elems);
    if (elems == 0) {
        ck_assert_uint_eq(stream_select_count(sel), 0);
        stream_select_destroy(sel);
        return;
    }
    direct = malloc(elems * s->elem);
    packed = malloc(elems * s->elem);
    expect = malloc(elems * s->elem);
    memset(direct, 0xee, elems * s->elem);
    memset(packed, 0xee, elems * s->elem);
    for (size_t i = 0; i < stream_select_count(sel); i++) {
        const struct stream_part *p = stream_select_part(sel, i);
        uint8_t *buf = malloc(p->elems * s->elem);
        struct stream_part same;

        ck_assert(i == 0 || p->piece > p[-1].piece);
        ck_assert_uint_eq(p->rank, stream_array_piece(a, p->piece).rank);
        ck_assert(stream_select_piece(a, p->piece, box, &want, &same));
        ck_assert_uint_eq(same.elems, p->elems);
        moved += p->elems;
        stream_copy(p, mem[p->piece], direct);
        pack(p, mem[p->piece], buf);
        stream_copy_unpack(p, buf, packed);
        free(buf);
    }
    ck_assert_uint_eq(stream_select_missing(sel), slow(a, box, to, expect));
    ck_assert_uint_eq(moved + stream_select_missing(sel), elems);
    ck_assert_mem_eq(direct, expect, elems * s->elem);
    ck_assert_mem_eq(packed, expect, elems * s->elem);
    free(direct);
    free(packed);
    free(expect);
    stream_select_destroy(sel);
}

START_TEST(test_boxes)
{
    static const enum stream_memory memories[] = {(enum stream_memory)0, STREAM_ROWS,
                                                  STREAM_COLUMNS};

    for (int round = 0; round < ROUNDS; round++) {
        stream_array_t *a;
        const struct stream_shape *s;
        uint64_t zero[STREAM_NDIMS_MAX] = {0};
        uint8_t **mem;
        errmsg_t err = {""};

        seed = (uint64_t)(_i * ROUNDS + round);
        a = random_array();
        s = stream_array_shape(a);
        cut(a, zero, s->extents);
        ck_assert_msg(stream_array_seal(a, &err) == 0, "%s", err.text);
        mem = calloc(stream_array_count(a) + 1, sizeof(*mem));
        for (size_t i = 0; i < stream_array_count(a); i++)
            mem[i] = memory_of(a, i);
        for (int i = 0; i < 8; i++) {
            struct stream_box box, back;
            uint8_t buf[24 * STREAM_NDIMS_MAX];

            memset(&box, 0, sizeof(box));
            memset(&back, 0, sizeof(back));
            random_box(s, &box);
            stream_select_encode(&box, buf);
            ck_assert_int_eq(stream_select_decode(s, buf, 24 * s->ndims, &back, NULL), 0);
            ck_assert_mem_eq(&box, &back, sizeof(box));
            check_box(a, &box, memories[chance(3)], mem);
        }
        for (size_t i = 0; i < stream_array_count(a); i++)
            free(mem[i]);
        free(mem);
        stream_array_destroy(a);
    }
}
END_TEST

/* More elements than a tile has. */
START_TEST(test_tiles)
{
    struct stream_shape s = {.name = "T",
                             .kind = STREAM_GLOBAL,
                             .type = STREAM_U16,
                             .order = STREAM_NATIVE,
                             .memory = STREAM_ROWS,
                             .ndims = 3,
                             .extents = {300, 3, 45}};
    stream_array_t *a = stream_array_create(&s, NULL);
    struct stream_box box = {3, {1, 0, 2}, {299, 3, 43}, {1, 1, 1}};
    uint64_t zero[3] = {0};
    uint8_t *mem;

    seed = 1;
    ck_assert_int_eq(stream_array_add(a, 0, zero, s.extents, NULL), 0);
    ck_assert_int_eq(stream_array_seal(a, NULL), 0);
    mem = memory_of(a, 0);
    check_box(a, &box, STREAM_COLUMNS, &mem);
    box.stride[0] = 2;
    box.count[0] = 149;
    check_box(a, &box, STREAM_COLUMNS, &mem);
    free(mem);
    stream_array_destroy(a);
}
END_TEST

/* --- pieces that overlap --- */

static bool slow_overlap(const stream_array_t *a)
{
    unsigned nd = stream_array_shape(a)->ndims;

    for (size_t i = 0; i < stream_array_count(a); i++)
        for (size_t j = 0; j < i; j++) {
            struct stream_piece p = stream_array_piece(a, i), q = stream_array_piece(a, j);
            uint64_t at[STREAM_NDIMS_MAX] = {0}, where[STREAM_NDIMS_MAX];

            do {
                for (unsigned d = 0; d < nd; d++)
                    where[d] = p.offset[d] + at[d];
                if (in_piece(&q, nd, where))
                    return true;
            } while (next(nd, at, p.count));
        }
    return false;
}

START_TEST(test_overlap)
{
    unsigned found = 0;

    for (int round = 0; round < ROUNDS; round++) {
        stream_array_t *a;
        const struct stream_shape *s;
        uint64_t zero[STREAM_NDIMS_MAX] = {0}, offset[STREAM_NDIMS_MAX], count[STREAM_NDIMS_MAX];
        errmsg_t err = {""};
        bool want;

        seed = (uint64_t)(_i * ROUNDS + round + 1000000);
        a = random_array();
        s = stream_array_shape(a);
        cut(a, zero, s->extents);
        for (unsigned d = 0; d < s->ndims; d++) {
            offset[d] = chance(s->extents[d]);
            count[d] = 1 + (chance(3) ? 0 : chance(s->extents[d] - offset[d]));
        }
        ck_assert_int_eq(stream_array_add(a, 7, offset, count, &err), 0);
        want = slow_overlap(a);
        found += want;
        errno = 0;
        ck_assert_int_eq(stream_array_seal(a, &err), want ? -1 : 0);
        if (want) {
            ck_assert_int_eq(errno, EINVAL);
            ck_assert_msg(strstr(err.text, "and 7 of variable 'T' overlap") != NULL, "%s",
                          err.text);
        }
        stream_array_destroy(a);
    }
    ck_assert_uint_gt(found, 0);
    ck_assert_uint_lt(found, ROUNDS);
}
END_TEST

/* Pieces of as many writers as there may be are sorted out at once; hostile ones are refused. */
START_TEST(test_many)
{
    struct stream_shape s = {.name = "T",
                             .kind = STREAM_GLOBAL,
                             .type = STREAM_F64,
                             .order = STREAM_NATIVE,
                             .memory = STREAM_ROWS,
                             .ndims = 2,
                             .extents = {512, 512}};
    stream_array_t *a = stream_array_create(&s, NULL);
    struct stream_box box = {2, {0, 17}, {512, 1}, {1, 1}};
    const struct stream_want want = {.elem = 0};
    stream_select_t *sel;
    errmsg_t err = {""};
    uint64_t ones[] = {1, 1};

    for (uint64_t i = 0; i < STREAM_PIECES_MAX; i++)
        ck_assert_int_eq(stream_array_add(a, (uint32_t)i, (uint64_t[]){i / 256 * 2, i % 256 * 2},
                                          (uint64_t[]){2, 2}, NULL),
                         0);
    ck_assert_int_eq(stream_array_add(a, 0, (uint64_t[]){0, 0}, ones, &err), -1);
    ck_assert_int_eq(errno, E2BIG);
    ck_assert_msg(stream_array_seal(a, &err) == 0, "%s", err.text);
    sel = stream_select_create(a, &box, &want, &err);
    ck_assert_uint_eq(stream_select_count(sel), 256);
    ck_assert_uint_eq(stream_select_missing(sel), 0);
    stream_select_destroy(sel);
    stream_array_destroy(a);
    /* Half of them are rows, and half columns: a sweep takes too long along both axes. */
    s.extents[0] = s.extents[1] = STREAM_PIECES_MAX;
    a = stream_array_create(&s, NULL);
    for (uint64_t i = 0, half = STREAM_PIECES_MAX / 2; i < half; i++) {
        ck_assert_int_eq(
            stream_array_add(a, 0, (uint64_t[]){i, 0}, (uint64_t[]){1, 2 * half}, NULL), 0);
        ck_assert_int_eq(stream_array_add(a, 0, (uint64_t[]){half, i}, (uint64_t[]){half, 1}, NULL),
                         0);
    }
    ck_assert_int_eq(stream_array_seal(a, &err), -1);
    ck_assert_int_eq(errno, E2BIG);
    stream_array_destroy(a);
    /* One kind alone is sorted out. */
    a = stream_array_create(&s, NULL);
    for (uint64_t i = 0; i < STREAM_PIECES_MAX; i++)
        ck_assert_int_eq(
            stream_array_add(a, 0, (uint64_t[]){0, i}, (uint64_t[]){STREAM_PIECES_MAX, 1}, NULL),
            0);
    ck_assert_msg(stream_array_seal(a, &err) == 0, "%s", err.text);
    stream_array_destroy(a);
}
END_TEST

/* --- descriptions --- */

static uint8_t *encode(const stream_array_t *a, size_t *len)
{
    uint8_t *buf;

    *len = stream_array_encoded(a);
    buf = malloc(*len);
    memset(buf, 0xee, *len);
    stream_array_encode(a, buf);
    return buf;
}

START_TEST(test_bytes)
{
    for (int round = 0; round < ROUNDS; round++) {
        stream_array_t *a, *b;
        uint64_t zero[STREAM_NDIMS_MAX] = {0};
        errmsg_t err = {""};
        uint8_t *buf, *again;
        size_t len, len2;

        seed = (uint64_t)(_i * ROUNDS + round + 2000000);
        a = random_array();
        cut(a, zero, stream_array_shape(a)->extents);
        ck_assert_int_eq(stream_array_seal(a, NULL), 0);
        buf = encode(a, &len);
        b = stream_array_decode(buf, len, &err);
        ck_assert_msg(b != NULL, "%s", err.text);
        again = encode(b, &len2);
        ck_assert_uint_eq(len, len2);
        ck_assert_mem_eq(buf, again, len);
        free(again);
        stream_array_destroy(b);
        for (size_t n = 0; n < len; n++) { /* cut off, in memory of that size */
            uint8_t *part = malloc(n ? n : 1);

            memcpy(part, buf, n);
            ck_assert_ptr_null(stream_array_decode(part, n, NULL));
            ck_assert_int_eq(errno, EPROTO);
            free(part);
            if (n > 100)
                n += chance(100);
        }
        for (int i = 0; i < 20; i++) { /* changed: refused, or another description */
            size_t k = chance(len);
            uint8_t old = buf[k];

            buf[k] = (uint8_t)chance(256);
            if ((b = stream_array_decode(buf, len, NULL))) {
                again = encode(b, &len2);
                ck_assert_uint_eq(len, len2);
                ck_assert_mem_eq(buf, again, len);
                free(again);
            } else {
                ck_assert_int_eq(errno, EPROTO);
            }
            stream_array_destroy(b);
            buf[k] = old;
        }
        free(buf);
        stream_array_destroy(a);
    }
}
END_TEST

/* The example of doc/stream-format.rst. */
START_TEST(test_example)
{
    static const char hex[] = "46535601030a0101020100000200000000000000000000000800000000000000"
                              "0400000000000000060000000000000054000000000000000000000000000000"
                              "0000000000000000000000000000000002000000000000000600000000000000"
                              "0100000000000000020000000000000000000000000000000200000000000000"
                              "0600000000000000";
    const struct stream_shape shape = {.name = "T",
                                       .kind = STREAM_GLOBAL,
                                       .type = STREAM_F64,
                                       .order = STREAM_LITTLE,
                                       .memory = STREAM_ROWS,
                                       .ndims = 2,
                                       .extents = {4, 6}};
    stream_array_t *a = stream_array_create(&shape, NULL);
    uint8_t want[sizeof(hex) / 2], *buf;
    size_t len;

    ck_assert_int_eq(hex_decode(want, hex, sizeof(want)), 0);
    ck_assert_int_eq(stream_array_add(a, 0, (uint64_t[]){0, 0}, (uint64_t[]){2, 6}, NULL), 0);
    ck_assert_int_eq(stream_array_add(a, 1, (uint64_t[]){2, 0}, (uint64_t[]){2, 6}, NULL), 0);
    ck_assert_int_eq(stream_array_seal(a, NULL), 0);
    buf = encode(a, &len);
    ck_assert_uint_eq(len, sizeof(want));
    ck_assert_mem_eq(buf, want, len);
    free(buf);
    stream_array_destroy(a);
}
END_TEST

START_TEST(test_other_kinds)
{
    struct stream_shape s = {.name = "\xc3\xa9/x y",
                             .kind = STREAM_VALUE,
                             .type = STREAM_RECORD,
                             .order = STREAM_BIG,
                             .memory = STREAM_ROWS,
                             .id = 0x0102030405060708,
                             .elem = 72};
    errmsg_t err = {""};

    for (int local = 0; local < 2; local++) {
        stream_array_t *a, *b;
        uint8_t *buf;
        size_t len;

        if (local) {
            s.kind = STREAM_LOCAL;
            s.ndims = 2;
        }
        a = stream_array_create(&s, &err);
        ck_assert_msg(a != NULL, "%s", err.text);
        for (uint32_t r = 3; r > 0; r--)
            ck_assert_int_eq(stream_array_add(a, r, NULL, (uint64_t[]){r, 2}, &err), 0);
        ck_assert_int_eq(stream_array_seal(a, &err), 0);
        buf = encode(a, &len);
        b = stream_array_decode(buf, len, &err);
        ck_assert_msg(b != NULL, "%s", err.text);
        ck_assert_str_eq(stream_array_shape(b)->name, s.name);
        ck_assert(stream_array_shape(b)->id == s.id && stream_array_shape(b)->elem == 72);
        ck_assert_uint_eq(stream_array_count(b), 3);
        ck_assert_uint_eq(stream_array_piece(b, 0).rank, 3);
        ck_assert_uint_eq(stream_array_piece(b, 0).elems, local ? 6 : 1);
        ck_assert_ptr_null(stream_array_piece(b, 0).offset);
        free(buf);
        stream_array_destroy(b);
        stream_array_destroy(a);
        a = stream_array_create(&s, &err);
        for (int i = 0; i < 2; i++)
            ck_assert_int_eq(stream_array_add(a, 5, NULL, (uint64_t[]){1, 2}, &err), 0);
        ck_assert_int_eq(stream_array_seal(a, &err), -1);
        ck_assert_int_eq(errno, EINVAL);
        ck_assert_msg(strstr(err.text, "rank 5 has two") != NULL, "%s", err.text);
        stream_array_destroy(a);
    }
}
END_TEST

/* --- what is refused --- */

static const struct stream_shape good = {.name = "T",
                                         .kind = STREAM_GLOBAL,
                                         .type = STREAM_F64,
                                         .order = STREAM_NATIVE,
                                         .memory = STREAM_ROWS,
                                         .ndims = 2,
                                         .extents = {4, 6}};

START_TEST(test_refused)
{
    struct stream_shape s;
    errmsg_t err;

#define REFUSED(errnum, change)                            \
    do {                                                   \
        s = good;                                          \
        change;                                            \
        ck_assert_ptr_null(stream_array_create(&s, &err)); \
        ck_assert_int_eq(errno, errnum);                   \
    } while (0)
    REFUSED(EINVAL, s.name = "");
    REFUSED(EINVAL, s.name = "a\n");
    REFUSED(EINVAL, s.name = "\xff");
    REFUSED(EINVAL, s.kind = 0);
    REFUSED(EINVAL, s.kind = 4);
    REFUSED(EINVAL, s.kind = STREAM_VALUE);
    REFUSED(EINVAL, s.type = 0);
    REFUSED(EINVAL, s.type = STREAM_STRING);
    REFUSED(EINVAL, s.type = STREAM_RECORD);
    REFUSED(EINVAL, s.elem = 4);
    REFUSED(EINVAL, s.id = 1);
    REFUSED(EINVAL, s.order = 3);
    REFUSED(EINVAL, s.memory = 0);
    REFUSED(EINVAL, s.ndims = 0);
    REFUSED(EINVAL, s.ndims = 17);
    REFUSED(E2BIG, s.extents[0] = UINT64_MAX);
    REFUSED(E2BIG, s.extents[0] = s.extents[1] = (uint64_t)1 << 30);
}
END_TEST

START_TEST(test_refused_pieces)
{
    stream_array_t *a = stream_array_create(&good, NULL);
    static const uint64_t bad[][4] = {{0, 0, 0, 1}, {0, 0, 5, 1}, {4, 0, 1, 1},
                                      {5, 0, 1, 1}, {1, 6, 1, 1}, {1, 1, 1, UINT64_MAX}};
    struct stream_shape s = good;

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        ck_assert_int_eq(stream_array_add(a, 0, bad[i], bad[i] + 2, NULL), -1);
        ck_assert_int_eq(errno, EINVAL);
    }
    stream_array_destroy(a);
    s.kind = STREAM_LOCAL;
    a = stream_array_create(&s, NULL);
    ck_assert_int_eq(stream_array_add(a, 0, NULL, (uint64_t[]){1 << 30, 1 << 30}, NULL), -1);
    ck_assert_int_eq(errno, E2BIG);
    stream_array_destroy(a);
}
END_TEST

START_TEST(test_refused_boxes)
{
    struct stream_shape s = good;
    struct stream_box box;
    uint8_t buf[48];

#define BOX(errnum, ...)                                                                  \
    do {                                                                                  \
        box = (struct stream_box){2, __VA_ARGS__};                                        \
        errno = 0;                                                                        \
        ck_assert_int_eq(stream_select_check(&s, &box, NULL), errnum ? -1 : 0);           \
        ck_assert_int_eq(errno, errnum);                                                  \
        stream_select_encode(&box, buf);                                                  \
        ck_assert_int_eq(stream_select_decode(&s, buf, 48, &box, NULL), errnum ? -1 : 0); \
        ck_assert_int_eq(errno, errnum ? EPROTO : 0);                                     \
    } while (0)
    BOX(0, {0, 0}, {4, 6}, {1, 1});
    BOX(0, {3, 0}, {1, 3}, {UINT64_MAX, 2});
    BOX(0, {9, 0}, {0, 6}, {1, 1});
    BOX(EINVAL, {0, 0}, {4, 6}, {1, 0});
    BOX(ERANGE, {1, 0}, {4, 6}, {1, 1});
    BOX(ERANGE, {0, 6}, {4, 1}, {1, 1});
    BOX(ERANGE, {0, 1}, {4, 3}, {1, 3});
    BOX(ERANGE, {0, 0}, {4, 3}, {1, UINT64_MAX});
    BOX(ERANGE, {UINT64_MAX, 0}, {2, 3}, {1, 1});
    ck_assert_int_eq(stream_select_decode(&s, buf, 47, &box, NULL), -1);
    ck_assert_int_eq(errno, EPROTO);
    box.ndims = 1;
    ck_assert_int_eq(stream_select_check(&s, &box, NULL), -1);
    ck_assert_int_eq(errno, EINVAL);
    s.type = STREAM_U8;
    s.elem = 1;
    s.extents[0] = s.extents[1] = (uint64_t)1 << 30;
    BOX(E2BIG, {0, 0}, {1 << 30, 1 << 30}, {1, 1});
}
END_TEST

/* A box of one element, whose stride leads nowhere, is in one piece only. */
START_TEST(test_large_stride)
{
    const struct stream_want want = {.elem = 0};
    struct stream_box box = {2, {0, 0}, {1, 6}, {UINT64_MAX, 1}};
    stream_array_t *a = stream_array_create(&good, NULL);
    struct stream_part p;

    ck_assert_int_eq(stream_array_add(a, 0, (uint64_t[]){0, 0}, (uint64_t[]){2, 6}, NULL), 0);
    ck_assert_int_eq(stream_array_add(a, 1, (uint64_t[]){2, 0}, (uint64_t[]){2, 6}, NULL), 0);
    ck_assert_int_eq(stream_array_seal(a, NULL), 0);
    ck_assert(stream_select_piece(a, 0, &box, &want, &p));
    ck_assert(p.from == 0 && p.to == 0 && p.elems == 6);
    ck_assert(!stream_select_piece(a, 1, &box, &want, &p));
    stream_array_destroy(a);
}
END_TEST

START_TEST(test_no_memory)
{
    const struct stream_want want = {.elem = 0};
    struct stream_box box = {2, {0, 0}, {4, 6}, {1, 1}};
    bool all = false;

    for (unsigned k = 1; !all; k++) {
        stream_array_t *a, *b = NULL;
        stream_select_t *sel = NULL;
        uint8_t buf[1000];
        int errnum;

        fail_at = k;
        if ((a = stream_array_create(&good, NULL)) &&
            stream_array_add(a, 0, (uint64_t[]){0, 0}, (uint64_t[]){2, 6}, NULL) == 0 &&
            stream_array_seal(a, NULL) == 0) {
            stream_array_encode(a, buf);
            if ((b = stream_array_decode(buf, stream_array_encoded(a), NULL)))
                sel = stream_select_create(b, &box, &want, NULL);
        }
        errnum = errno;
        all = stop_failing() > 0;
        ck_assert(all ? sel != NULL : !sel && errnum == ENOMEM);
        stream_select_destroy(sel);
        stream_array_destroy(b);
        stream_array_destroy(a);
    }
}
END_TEST

/* --- a reader that converts --- */

START_TEST(test_convert)
{
    struct stream_shape s = good;
    const struct stream_want want = {.memory = STREAM_COLUMNS, .elem = sizeof(double)};
    struct stream_box box = {2, {1, 0}, {2, 3}, {2, 2}};
    uint16_t piece[24];
    double packed[6], out[6];
    struct stream_part p;
    stream_array_t *a;

    s.type = STREAM_U16;
    a = stream_array_create(&s, NULL);
    for (uint16_t i = 0; i < 24; i++)
        piece[i] = i;
    ck_assert_int_eq(stream_array_add(a, 0, (uint64_t[]){0, 0}, (uint64_t[]){4, 6}, NULL), 0);
    ck_assert_int_eq(stream_array_seal(a, NULL), 0);
    ck_assert(stream_select_piece(a, 0, &box, &want, &p));
    uint16_t narrow[6];
    pack(&p, piece, narrow);
    ck_assert(stream_elem_converter(STREAM_U16, STREAM_NATIVE, STREAM_F64)(packed, narrow, 6));
    stream_copy_unpack(&p, packed, out);
    ck_assert(out[0] == 6. && out[1] == 18. && out[2] == 8. && out[5] == 22.);
    stream_array_destroy(a);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("array");

    tcase_set_timeout(tc, 60);
    tcase_add_loop_test(tc, test_boxes, 0, 4);
    tcase_add_test(tc, test_tiles);
    tcase_add_loop_test(tc, test_overlap, 0, 2);
    tcase_add_test(tc, test_many);
    tcase_add_loop_test(tc, test_bytes, 0, 2);
    tcase_add_test(tc, test_example);
    tcase_add_test(tc, test_other_kinds);
    tcase_add_test(tc, test_refused);
    tcase_add_test(tc, test_refused_pieces);
    tcase_add_test(tc, test_refused_boxes);
    tcase_add_test(tc, test_large_stride);
    tcase_add_test(tc, test_no_memory);
    tcase_add_test(tc, test_convert);
    return run_case("array", tc);
}

/* check_block.c - the layout of a step: round trips, golden bytes, and every change of a byte. */
#include "config.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libstream/block.h"
#include "libutil/test/suite.h"

static const char *const names[] = {"T", "position", "a.very_long/name[17]"};
static const char *const descs[] = {"a piece", "", "something that is longer"};
static const uint64_t lens[] = {100, 0, 64};

static unsigned char *make(uint64_t *len)
{
    block_t *b = block_create();
    unsigned char *buf;

    for (unsigned i = 0; i < 3; i++)
        ck_assert_int_eq(block_add(b, names[i], descs[i], strlen(descs[i]), lens[i]), 0);
    *len = block_size(b);
    buf = calloc(1, *len);
    block_write(b, buf);
    for (unsigned i = 0; i < 3; i++)
        memset(buf + block_at(b, i)->off, (int)(65 + i), lens[i]);
    block_destroy(b);
    return buf;
}

START_TEST(round_trip)
{
    uint64_t len;
    unsigned char *buf = make(&len);
    block_t *b = block_read(buf, len, NULL);

    ck_assert_ptr_nonnull(b);
    ck_assert_uint_eq(block_count(b), 3);
    for (unsigned i = 0; i < 3; i++) {
        const struct block_var *v = block_find(b, names[i]);

        ck_assert_ptr_eq(v, block_at(b, i));
        ck_assert_uint_eq(v->desc_len, strlen(descs[i]));
        ck_assert_int_eq(memcmp(v->desc_len > 0 ? (char *)v->desc : "", descs[i], v->desc_len), 0);
        ck_assert_uint_eq(v->len, lens[i]);
        ck_assert_uint_eq(v->off % 64, 0);
        if (v->len > 0)
            ck_assert(buf[v->off] == 65 + i && buf[v->off + v->len - 1] == 65 + i);
    }
    ck_assert_ptr_null(block_find(b, "none"));
    ck_assert_ptr_null(block_at(b, 3));
    block_destroy(b);
    free(buf);
}
END_TEST

START_TEST(golden)
{
    static const unsigned char head[64] = "FLUXSTEP\1\0\0\0\3\0\0\0\x88\0\0\0\0\0\0\0"
                                          "\300\0\0\0\0\0\0\0\144\0\0\0\0\0\0\0\7\0\0\0\1Ta piece";
    uint64_t len;
    unsigned char *buf = make(&len);

    ck_assert_mem_eq(buf, head, 24 + 32);
    ck_assert_uint_eq(len, 192 + 128 + 64);
    free(buf);
}
END_TEST

START_TEST(usage_error)
{
    block_t *b = block_create();
    char longest[BLOCK_NAME_MAX + 2] = "";
    char name[16];

    memset(longest, 'x', BLOCK_NAME_MAX + 1);
    ck_assert_int_eq(block_add(b, "", NULL, 0, 1), -1);
    ck_assert_int_eq(errno, EINVAL);
    ck_assert_int_eq(block_add(b, "a b", NULL, 0, 1), -1);
    ck_assert_int_eq(errno, EINVAL);
    ck_assert_int_eq(block_add(b, longest, NULL, 0, 1), -1);
    ck_assert_int_eq(errno, EINVAL);
    ck_assert_int_eq(block_add(b, longest + 1, NULL, 0, 1), 0);
    ck_assert_int_eq(block_add(b, longest + 1, NULL, 0, 1), -1);
    ck_assert_int_eq(errno, EEXIST);
    ck_assert_int_eq(block_add(b, "huge", NULL, 0, UINT64_MAX), -1);
    ck_assert_int_eq(errno, E2BIG);
    block_clear(b);
    ck_assert_uint_eq(block_count(b), 0);
    for (int i = 0; i < BLOCK_VARS_MAX; i++) {
        snprintf(name, sizeof(name), "v%d", i);
        if (block_add(b, name, NULL, 0, 1) < 0)
            ck_abort_msg("variable %d", i);
    }
    ck_assert_int_eq(block_add(b, "more", NULL, 0, 1), -1);
    ck_assert_int_eq(errno, E2BIG);
    block_destroy(b);
    block_destroy(NULL);
}
END_TEST

/* Whatever byte of the table is changed, and however short the step is: an error, or values within
 * the step. */
START_TEST(changed)
{
    uint64_t len;
    unsigned char *buf = make(&len);
    errmsg_t err;
    unsigned wrong = 0;

    for (uint64_t short_len = 0; short_len < 256; short_len++)
        wrong += block_read(buf, short_len, &err) != NULL;
    for (uint64_t i = 0; i < 192; i++) {
        for (unsigned change = 1; change < 256; change += 6) {
            block_t *b;

            buf[i] ^= (unsigned char)change;
            b = block_read(buf, len, &err);
            for (size_t k = 0; b && k < block_count(b); k++)
                wrong +=
                    block_at(b, k)->off > len || block_at(b, k)->len > len - block_at(b, k)->off;
            block_destroy(b);
            buf[i] ^= (unsigned char)change;
        }
    }
    ck_assert_uint_eq(wrong, 0);
    free(buf);
}
END_TEST

int main(void)
{
    RUN_SUITE("block", round_trip, golden, usage_error, changed);
}

/* check_pmi_pack.c - blobs there and back, joined, cut, and bent; and the table fed from them. */
#include "config.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libpmi/pmi_pack.h"
#include "libpmi/pmi_table.h"
#include "libutil/test/suite.h"

static void add(struct pmi_pack *pk, const char *key, const char *value)
{
    ck_assert_int_eq(pmi_pack_add(pk, &(struct pmi_pair){key, strlen(key), value, strlen(value)}),
                     0);
}

static void check_next(struct pmi_unpack *u, const char *key, const char *value)
{
    struct pmi_pair p;

    ck_assert_int_eq(pmi_unpack_next(u, &p), 1);
    ck_assert_uint_eq(p.keylen, strlen(key));
    ck_assert_uint_eq(p.valuelen, strlen(value));
    ck_assert_int_eq(memcmp(p.key, key, p.keylen), 0);
    ck_assert_int_eq(memcmp(p.value, value, p.valuelen), 0);
}

/* Two blobs one after the other: three pairs. */
static char *joined(size_t *len)
{
    struct pmi_pack *a = pmi_pack_create(0), *b = pmi_pack_create(0);
    size_t alen, blen;
    const void *pa, *pb;
    char *blob;

    add(a, "k1", "v1");
    add(a, "k2", "");
    add(b, "k3", "value three");
    pa = pmi_pack_data(a, &alen);
    pb = pmi_pack_data(b, &blen);
    *len = alen + blen;
    blob = malloc(*len);
    memcpy(blob, pa, alen);
    memcpy(blob + alen, pb, blen);
    pmi_pack_destroy(a);
    pmi_pack_destroy(b);
    return blob;
}

START_TEST(round_trip)
{
    size_t len, count;
    char *blob = joined(&len);
    struct pmi_unpack u;
    struct pmi_pair p;

    ck_assert_int_eq(pmi_unpack_check(blob, len, &count), 0);
    ck_assert_uint_eq(count, 3);
    pmi_unpack_init(&u, blob, len);
    check_next(&u, "k1", "v1");
    check_next(&u, "k2", "");
    check_next(&u, "k3", "value three");
    ck_assert_int_eq(pmi_unpack_next(&u, &p), 0);
    ck_assert_int_eq(pmi_unpack_check("", 0, &count), 0);
    ck_assert_uint_eq(count, 0);
    free(blob);
}
END_TEST

START_TEST(damage)
{
    size_t len, first = 12 + 6 + 4 + 6 + 2;
    char *blob = joined(&len);

    for (size_t cut = 1; cut < len; cut++) {
        char *part = malloc(cut);

        memcpy(part, blob, cut);
        ck_assert_int_eq(pmi_unpack_check(part, cut, NULL), cut == first ? 0 : -1);
        free(part);
    }
    /* a bit in a header or a length must not go unnoticed */
    for (size_t i = 0; i < 12 + 6; i++) {
        for (int bit = 0; bit < 8; bit++) {
            blob[i] ^= (char)(1 << bit);
            ck_assert_int_eq(pmi_unpack_check(blob, len, NULL), -1);
            ck_assert_int_eq(errno, EPROTO);
            blob[i] ^= (char)(1 << bit);
        }
    }
    free(blob);
}
END_TEST

START_TEST(bounds)
{
    struct pmi_pack *pk = pmi_pack_create(64);
    static char big[PMI_PACK_KEY_MAX + 2];
    size_t len;

    memset(big, 'k', sizeof(big));
    ck_assert_int_eq(pmi_pack_add(pk, &(struct pmi_pair){big, 0, "", 0}), -1);
    ck_assert_int_eq(errno, EINVAL);
    ck_assert_int_eq(pmi_pack_add(pk, &(struct pmi_pair){big, sizeof(big), "", 0}), -1);
    ck_assert_int_eq(pmi_pack_add(pk, &(struct pmi_pair){"a\0b", 3, "", 0}), -1);
    ck_assert_int_eq(pmi_pack_add(pk, &(struct pmi_pair){big, 60, "", 0}), -1);
    ck_assert_int_eq(errno, ENOBUFS);
    ck_assert_uint_eq(pmi_pack_count(pk), 0);
    (void)pmi_pack_data(pk, &len);
    ck_assert_uint_eq(len, 0);
    add(pk, "a", "b");
    pmi_pack_reset(pk);
    ck_assert_uint_eq(pmi_pack_count(pk), 0);
    add(pk, "c", "d");
    ck_assert_int_eq(pmi_unpack_check(pmi_pack_data(pk, &len), len, NULL), 0);
    pmi_pack_destroy(pk);
    pmi_pack_destroy(NULL);
}
END_TEST

START_TEST(several_segments)
{
    struct pmi_pack *pk = pmi_pack_create(0);
    static char value[PMI_PACK_VALUE_MAX];
    size_t len, n, count, total = 0, segments = 0, want = 3 * PMI_SEGMENT_MAX / sizeof(value);
    char key[32];
    const uint8_t *p;

    memset(value, 'v', sizeof(value));
    for (size_t i = 0; i < want; i++) {
        struct pmi_pair pair = {key, (size_t)snprintf(key, sizeof(key), "k%zu", i), value,
                                sizeof(value)};

        ck_assert_int_eq(pmi_pack_add(pk, &pair), 0);
    }
    ck_assert_uint_eq(pmi_pack_count(pk), want);
    p = pmi_pack_data(pk, &len);
    ck_assert_int_eq(pmi_unpack_check(p, len, &count), 0);
    ck_assert_uint_eq(count, want);
    /* Each is a blob by itself. */
    for (; len > 0; p += n, len -= n, segments++) {
        n = pmi_segment_len(p, len);
        ck_assert_uint_gt(n, 0);
        ck_assert_uint_le(n, PMI_SEGMENT_MAX);
        ck_assert_uint_eq(pmi_segment_len(p, n - 1), 0);
        ck_assert_int_eq(pmi_unpack_check(p, n, &count), 0);
        total += count;
    }
    ck_assert_uint_ge(segments, 3);
    ck_assert_uint_eq(total, want);
    ck_assert_uint_eq(pmi_segment_len("PMB1", 4), 0);
    pmi_pack_reset(pk);
    pmi_pack_data(pk, &len);
    ck_assert_uint_eq(len, 0);
    pmi_pack_destroy(pk);
}
END_TEST

START_TEST(table)
{
    struct pmi_table *t = pmi_table_create(5000);
    size_t len;
    char *blob = joined(&len);
    struct pmi_pair p = {"k1", 2, "old", 3};
    static char big[4000];

    ck_assert_int_eq(pmi_table_put(t, &p), 0);
    ck_assert_int_eq(pmi_table_merge(t, blob, len), 0);
    ck_assert_int_eq(pmi_table_get(t, "k1xx", 2, &p), 0);
    ck_assert_int_eq(memcmp(p.value, "v1", 2), 0);
    ck_assert_int_eq(pmi_table_get(t, "k", 1, &p), -1);
    ck_assert_int_eq(errno, ENOENT);
    ck_assert_int_eq(pmi_table_merge(t, blob, len - 1), -1);
    ck_assert_int_eq(errno, EPROTO);
    p = (struct pmi_pair){"b1", 2, big, sizeof(big)};
    ck_assert_int_eq(pmi_table_put(t, &p), 0);
    p = (struct pmi_pair){"b2", 2, big, sizeof(big)};
    ck_assert_int_eq(pmi_table_put(t, &p), -1);
    ck_assert_int_eq(errno, ENOSPC);
    ck_assert_int_eq(pmi_table_get(t, "b2", 2, &p), -1);
    ck_assert_int_eq(errno, ENOENT);
    pmi_table_destroy(t);
    pmi_table_destroy(NULL);
    free(blob);
}
END_TEST

START_TEST(table_large)
{
    struct pmi_table *t = pmi_table_create(0);
    char key[32], value[64];
    struct pmi_pair p;

    for (int i = 0; i < 65536; i++) {
        int k = snprintf(key, sizeof(key), "job-%d-key%d", i / 256, i % 256);
        int v = snprintf(value, sizeof(value), "value of %d", i);

        ck_assert_int_eq(pmi_table_put(t, &(struct pmi_pair){key, (size_t)k, value, (size_t)v}), 0);
    }
    for (int i = 65535; i >= 0; i--) {
        int k = snprintf(key, sizeof(key), "job-%d-key%d", i / 256, i % 256);
        int v = snprintf(value, sizeof(value), "value of %d", i);

        ck_assert_int_eq(pmi_table_get(t, key, (size_t)k, &p), 0);
        ck_assert_uint_eq(p.valuelen, (size_t)v);
        ck_assert_int_eq(memcmp(p.value, value, (size_t)v), 0);
    }
    pmi_table_destroy(t);
}
END_TEST

int main(void)
{
    RUN_SUITE("pmi_pack", several_segments, round_trip, damage, bounds, table, table_large);
}

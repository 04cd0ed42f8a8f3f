/* fuzz_kvspack.c - bytes as a packed transaction, and sets merged from what comes in.
 *
 * An input that begins with 'P' is decoded; what passes is merged into a set and packed again: that
 * says the same, and packing it once more gives the same bytes.  Any other input is a list of small
 * puts (three bytes each) for a few participants, merged in one set, and by way of two packs of a
 * stream each: both must pack to the same bytes.
 */
#include "config.h"
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz_must.h"
#include "libkvs/kvs_pack.h"
#include "libkvs/kvs_set.h"

#define PARTS 4

static void encode(kvs_set_t *s, uint8_t **buf, size_t *len)
{
    MUST(kvs_set_encode(s, NULL, 0, buf, len) == 0);
    MUST(kvs_pack_check(*buf, *len, NULL, NULL, NULL) == 0);
}

/* What came before on the stream: an input may say that there were two values. */
static kvs_dict_t *dict_for(const uint8_t *data, size_t size)
{
    static const uint8_t a[32] = {1}, b[40] = {2};
    kvs_dict_t *d = kvs_dict_create();
    MUST(d != NULL);
    if (size >= 4 && data[2] == 2 && data[3] == 0)
        MUST(kvs_dict_learn(d, a, sizeof(a)) == 0 && kvs_dict_learn(d, b, sizeof(b)) == 0);
    return d;
}

static void as_bytes(const uint8_t *data, size_t size)
{
    errmsg_t err = {""};
    uint32_t n;
    if (size >= 8 &&
        (data[6] | data[7]) != 0) /* 65536 puts take their time, and find nothing new */
        return;
    kvs_dict_t *d = dict_for(data, size);
    if (kvs_pack_check(data, size, d, &n, &err) < 0) {
        MUST(errno != 0 && err.text[0]);
        kvs_dict_destroy(d);
        return;
    }
    kvs_set_t *s = kvs_set_create(), *t = kvs_set_create();
    uint8_t *one, *two;
    size_t one_len, two_len;
    MUST(s && t);
    MUST(kvs_set_merge(s, data, size, d, &err) == 0);
    MUST(kvs_set_rest(s) <= n);
    encode(s, &one, &one_len);
    MUST(kvs_set_merge(t, one, one_len, NULL, &err) == 0);
    MUST(kvs_set_rest(s) == kvs_set_rest(t));
    encode(t, &two, &two_len);
    MUST(one_len == two_len && memcmp(one, two, one_len) == 0);
    free(one);
    free(two);
    kvs_set_destroy(s);
    kvs_set_destroy(t);
    kvs_dict_destroy(d);
}

static void add(struct kvs_txn_buf *b, const uint8_t *op)
{
    char key[64], value[300];
    unsigned n = op[1] * (1 + (op[0] >> 6) * 97u);
    size_t len = op[2] & 0x40 ? 300 : 1;
    switch (op[0] >> 2 & 3) {
    case 0:
        snprintf(key, sizeof(key), "k%u", n);
        break;
    case 1:
        snprintf(key, sizeof(key), "a.%03u.x", n);
        break;
    case 2:
        snprintf(key, sizeof(key), "%02u", n);
        break;
    default:
        snprintf(key, sizeof(key), "n%u.m%u", n / 7, n % 7);
    }
    memset(value, op[2] & 0x80 ? op[1] : op[2], sizeof(value));
    MUST(kvs_txn_buf_add(b, KVS_OP_PUT, 0, key, strlen(key), value, len, NULL) == 0);
}

static void as_program(const uint8_t *data, size_t size)
{
    kvs_set_t *flat = kvs_set_create(), *top = kvs_set_create(), *part[PARTS];
    kvs_dict_t *up[PARTS], *down[PARTS];
    uint8_t *one, *two;
    size_t one_len, two_len, cut = size / 6 * 3;
    MUST(flat && top);
    for (unsigned i = 0; i < PARTS; i++) {
        part[i] = kvs_set_create();
        up[i] = kvs_dict_create();
        down[i] = kvs_dict_create();
        MUST(part[i] && up[i] && down[i]);
    }
    for (unsigned half = 0; half < 2; half++) {
        /* In the order in which they will be in the flat one: by participant. */
        for (unsigned i = 0; i < PARTS; i++) {
            const uint8_t *end = half ? data + size : data + cut;
            for (const uint8_t *p = half ? data + cut : data; end - p >= 3; p += 3) {
                struct kvs_txn_buf txn = {0};
                if (p[0] % PARTS != i)
                    continue;
                add(&txn, p);
                MUST(kvs_set_merge(flat, txn.data, txn.len, NULL, NULL) == 0);
                MUST(kvs_set_merge(part[i], txn.data, txn.len, NULL, NULL) == 0);
                kvs_txn_buf_clear(&txn);
            }
            MUST(kvs_set_encode(part[i], up[i], 0, &one, &one_len) == 0);
            MUST(kvs_pack_check(one, one_len, down[i], NULL, NULL) == 0);
            MUST(kvs_set_merge(top, one, one_len, down[i], NULL) == 0);
            MUST(kvs_dict_count(up[i]) == kvs_dict_count(down[i]));
            free(one);
            kvs_set_clear(part[i]);
        }
    }
    encode(flat, &one, &one_len);
    encode(top, &two, &two_len);
    MUST(one_len == two_len && memcmp(one, two, one_len) == 0);
    free(one);
    free(two);
    for (unsigned i = 0; i < PARTS; i++) {
        kvs_set_destroy(part[i]);
        kvs_dict_destroy(up[i]);
        kvs_dict_destroy(down[i]);
    }
    kvs_set_destroy(flat);
    kvs_set_destroy(top);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size > 0 && data[0] == 'P')
        as_bytes(data, size);
    else
        as_program(data, size);
    return 0;
}

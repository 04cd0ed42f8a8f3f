/* fuzz_kvspack.c - bytes as a packed transaction, and sets merged from what comes in.
 *
 * An input that begins with 'P' is decoded; what passes is merged into a set and packed again: that
 * says the same, and packing it once more gives the same bytes.  Any other input is a list of small
 * puts (three bytes each) for a few participants, merged in one set and by way of packs: both must
 * pack to the same bytes.
 */
#include "config.h"
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libkvs/kvs_pack.h"
#include "libkvs/kvs_set.h"

#define PARTS 4

static void check(int ok)
{
    if (!ok)
        abort();
}

static void encode(kvs_set_t *s, uint8_t **buf, size_t *len)
{
    check(kvs_set_encode(s, NULL, 0, buf, len) == 0);
    check(kvs_pack_check(*buf, *len, NULL, NULL, NULL) == 0);
}

static void as_bytes(const uint8_t *data, size_t size)
{
    errmsg_t err = {""};
    uint32_t n;
    if (size >= 8 &&
        (data[6] | data[7]) != 0) /* 65536 puts take their time, and find nothing new */
        return;
    if (kvs_pack_check(data, size, NULL, &n, &err) < 0) {
        check(errno != 0 && err.text[0]);
        return;
    }
    kvs_set_t *s = kvs_set_create(), *t = kvs_set_create();
    uint8_t *one, *two;
    size_t one_len, two_len;
    check(s && t);
    check(kvs_set_merge(s, data, size, NULL, &err) == 0);
    check(kvs_set_puts(s) + kvs_set_rest(s) <= n);
    encode(s, &one, &one_len);
    check(kvs_set_merge(t, one, one_len, NULL, &err) == 0);
    check(kvs_set_puts(s) == kvs_set_puts(t) && kvs_set_values(s) == kvs_set_values(t) &&
          kvs_set_rest(s) == kvs_set_rest(t));
    encode(t, &two, &two_len);
    check(one_len == two_len && memcmp(one, two, one_len) == 0);
    free(one);
    free(two);
    kvs_set_destroy(s);
    kvs_set_destroy(t);
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
    check(kvs_txn_buf_add(b, KVS_OP_PUT, 0, key, strlen(key), value, len, NULL) == 0);
}

static void as_program(const uint8_t *data, size_t size)
{
    kvs_set_t *flat = kvs_set_create(), *top = kvs_set_create();
    struct kvs_txn_buf txn[PARTS] = {{0}};
    uint8_t *one, *two;
    size_t one_len, two_len;
    check(flat && top);
    for (; size >= 3; data += 3, size -= 3)
        add(&txn[data[0] % PARTS], data);
    for (unsigned i = 0; i < PARTS; i++) {
        kvs_set_t *s = kvs_set_create();
        check(s != NULL);
        if (txn[i].data) {
            check(kvs_set_merge(flat, txn[i].data, txn[i].len, NULL, NULL) == 0);
            check(kvs_set_merge(s, txn[i].data, txn[i].len, NULL, NULL) == 0);
        }
        encode(s, &one, &one_len);
        check(kvs_set_merge(top, one, one_len, NULL, NULL) == 0);
        free(one);
        kvs_set_destroy(s);
        kvs_txn_buf_clear(&txn[i]);
    }
    encode(flat, &one, &one_len);
    encode(top, &two, &two_len);
    check(one_len == two_len && memcmp(one, two, one_len) == 0);
    free(one);
    free(two);
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

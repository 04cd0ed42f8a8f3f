/* fuzz_kvswire.c - bytes as what clients and instances of kvs send each other.
 *
 * The first byte chooses the kind.  What decodes must encode to the same bytes.
 */
#include "config.h"
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz_must.h"
#include "libkvs/kvs_wire.h"

static void refused(const errmsg_t *err)
{
    MUST(errno != 0 && err->text[0]);
}

static void root(const uint8_t *data, size_t size)
{
    struct kvs_root r;
    uint8_t buf[KVS_ROOT_WIRE_MAX];
    errmsg_t err = {""};

    if (kvs_root_decode(data, size, &r, &err) < 0)
        refused(&err);
    else
        MUST(kvs_root_encode(&r, buf) == size && memcmp(buf, data, size) == 0);
}

static void lookup(const uint8_t *data, size_t size)
{
    struct kvs_lookup_req q;
    errmsg_t err = {""};

    if (kvs_lookup_req_decode(data, size, &q, &err) < 0) {
        refused(&err);
        return;
    }
    uint8_t *buf = malloc(size);
    MUST(buf && kvs_lookup_req_size(&q) == size);
    kvs_lookup_req_encode(&q, buf);
    MUST(memcmp(buf, data, size) == 0);
    free(buf);
}

/* What was read counts for something. */
volatile unsigned touched;

static void answer(const uint8_t *data, size_t size)
{
    struct kvs_answer a;
    struct kvs_answer_entry e;
    errmsg_t err = {""};
    size_t pos = 0, sum = 0;
    int rc;

    if (kvs_answer_decode(data, size, &a, &err) < 0) {
        refused(&err);
        return;
    }
    while ((rc = kvs_answer_next(&a, &pos, &e, &err)) == 1) {
        MUST(pos <= a.len);
        for (size_t i = 0; i < e.namelen; i++)
            sum += (uint8_t)e.name[i];
        for (size_t i = 0; e.data && i < e.size; i++)
            sum += e.data[i];
    }
    MUST(rc == 0 || err.text[0]);
    MUST(sum < SIZE_MAX);
}

static void fence(const uint8_t *data, size_t size)
{
    struct kvs_fence_req q;
    errmsg_t err = {""};

    if (kvs_fence_req_decode(data, size, &q, &err) < 0) {
        refused(&err);
        return;
    }
    uint8_t *buf = malloc(size);
    MUST(buf && kvs_fence_req_size(&q) == size);
    kvs_fence_req_encode(&q, buf);
    MUST(memcmp(buf, data, size) == 0);
    free(buf);
}

static void ns_request(const uint8_t *data, size_t size)
{
    struct kvs_ns_req q;
    errmsg_t err = {""};

    if (kvs_ns_req_decode(data, size, &q, &err) < 0) {
        refused(&err);
        return;
    }
    uint8_t *buf = malloc(size);
    MUST(buf && kvs_ns_req_size(&q) == size);
    kvs_ns_req_encode(&q, buf);
    MUST(memcmp(buf, data, size) == 0);
    free(buf);
}

static void stored(const uint8_t *data, size_t size)
{
    const uint8_t *d;
    size_t n, dsize;
    errmsg_t err = {""};

    if (kvs_store_answer_decode(data, size, &d, &n, &dsize, &err) < 0)
        refused(&err);
    else
        MUST(n * dsize + KVS_STORE_HEADER == size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static void (*const kinds[])(const uint8_t *, size_t) = {root,  lookup,     answer,
                                                             fence, ns_request, stored};

    if (size > 0)
        kinds[data[0] % 6](data + 1, size - 1);
    return 0;
}

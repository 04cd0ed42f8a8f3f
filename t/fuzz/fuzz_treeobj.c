/* fuzz_treeobj.c - bytes as a tree object: the decoder, the accessors, and readers led by them.
 *
 * What passes the check must encode to the same bytes again (one content, one encoding), name every
 * entry where a look-up finds it, and be safe to walk, also when it refers to objects that are not
 * there.
 */
#include "config.h"
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz_must.h"
#include "libkvs/kvsdiff.h"
#include "libkvs/kvsvalue.h"
#include "libkvs/kvswalk.h"

#define DSIZE 32

static void check_leaf(const uint8_t *data, size_t size)
{
    uint32_t n = treeobj_count(data, DSIZE);
    struct treeobj_entry *e = calloc(n + 1, sizeof(*e)), found;
    uint8_t *buf = malloc(size + 1);

    MUST(e && buf);
    for (uint32_t i = 0; i < n; i++) {
        treeobj_leaf_entry(data, DSIZE, i, &e[i]);
        MUST(treeobj_leaf_find(data, DSIZE, e[i].name, e[i].namelen, &found));
        MUST(found.name == e[i].name && found.type == e[i].type);
    }
    MUST(treeobj_leaf_size(e, n, DSIZE) == size);
    treeobj_leaf_encode(buf, e, n, DSIZE, treeobj_depth(data));
    MUST(memcmp(buf, data, size) == 0);
    free(buf);
    free(e);
}

static void check_branch(const uint8_t *data, size_t size)
{
    struct treeobj_child child[TREEOBJ_FAN] = {{NULL, 0}};
    uint8_t buf[TREEOBJ_HEADER + TREEOBJ_FAN * (4 + DSIZE)];
    uint64_t sum = 0;

    for (unsigned i = 0; i < TREEOBJ_FAN; i++) {
        (void)treeobj_branch_child(data, DSIZE, i, &child[i].digest, &child[i].count);
        sum += child[i].count;
    }
    MUST(sum == treeobj_count(data, DSIZE));
    MUST(treeobj_branch_size(child, DSIZE) == size);
    treeobj_branch_encode(buf, child, DSIZE, treeobj_depth(data));
    MUST(memcmp(buf, data, size) == 0);
}

static int count_ref(const uint8_t *digest, void *arg)
{
    ++*(uint32_t *)arg;
    return digest ? 0 : 1;
}

static void check_index(const uint8_t *data, size_t size)
{
    uint32_t n, refs = 0;
    const uint8_t *digests = treeobj_index(data, &n);
    uint8_t buf[TREEOBJ_HEADER + TREEOBJ_INDEX_FAN * DSIZE];

    MUST(size == TREEOBJ_HEADER + (size_t)n * DSIZE && size <= sizeof(buf));
    treeobj_index_header(buf, DSIZE, treeobj_depth(data), n);
    memcpy(buf + TREEOBJ_HEADER, digests, (size_t)n * DSIZE);
    MUST(memcmp(buf, data, size) == 0);
    MUST(treeobj_refs(data, DSIZE, count_ref, &refs) == 0 && refs == n);
}

/* Read, append to and compare a value with this as its top object, whatever it is. */
static void read_value(content_t *c, const uint8_t *digest, const uint8_t *data, size_t size,
                       struct kvsmiss *miss)
{
    static const uint64_t sizes[] = {300,     32768,   32769,      65536,     100000,
                                     4194304, 4194305, 1ull << 29, 1ull << 40};
    uint8_t buf[64];

    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        struct treeobj_entry e = {.name = "n",
                                  .namelen = 1,
                                  .type = sizes[i] > 32768 ? TREEOBJ_CHUNKED : TREEOBJ_REF,
                                  .len = sizes[i],
                                  .digest = digest};
        struct treeobj_entry old = {
            .name = "n", .namelen = 1, .type = TREEOBJ_VALUE, .len = size < 256 ? size : 256};
        old.data = data;
        miss->n = 0;
        (void)kvsvalue_read(c, &e, 0, sizeof(buf), buf, miss, NULL);
        (void)kvsvalue_read(c, &e, sizes[i] - sizeof(buf), sizeof(buf), buf, miss, NULL);
        (void)kvsvalue_can_append(c, &e, miss, NULL);
        (void)kvsvalue_begins_with(c, &e, &old, miss, NULL);
        old = e;
        old.len -= 1;
        old.type = old.len > 32768 ? TREEOBJ_CHUNKED : TREEOBJ_REF;
        (void)kvsvalue_begins_with(c, &e, &old, miss, NULL);
    }
}

static int diff_seen(const struct kvsdiff_item *d, void *arg)
{
    MUST(d->keylen > 0 && (d->old || d->now));
    return arg ? 0 : 1;
}

struct reading {
    content_t *c;
    struct kvsmiss *miss;
};

static int seen(const struct treeobj_entry *e, void *arg)
{
    struct reading *r = arg;

    if (e->type == TREEOBJ_VALUE || e->type == TREEOBJ_REF)
        (void)kvsvalue_read(r->c, e, 0, e->len, NULL, r->miss, NULL);
    return 0;
}

/* In short runs, so that the walk is interrupted everywhere. */
static void compare(content_t *c, kvsdiff_t *d, struct kvsmiss *miss)
{
    errmsg_t err;

    MUST(d != NULL);
    while (kvsdiff_run(d, 5, diff_seen, c, miss, &err) == KVSDIFF_MORE)
        ;
    kvsdiff_destroy(d);
}

/* Use it as a root. */
static void read_it(const uint8_t *data, size_t size)
{
    static struct kvsmiss miss;
    blobref_t *b = blobref_create("sha256", NULL);
    content_t *c = b ? content_create(b, 1 << 20) : NULL;
    struct content_obj *o = c ? content_add(c, data, size) : NULL;
    struct treeobj_entry e;
    errmsg_t err;

    MUST(o != NULL);
    miss.n = 0;
    (void)kvswalk_find(c, o->digest, "a.b", 3, 0, &e, NULL, &miss, &err);
    (void)kvswalk_find(c, o->digest, "a", 1, KVSWALK_NOFOLLOW, &e, NULL, &miss, &err);
    if (treeobj_kind(data) == TREEOBJ_LEAF && treeobj_depth(data) == 0) {
        uint32_t n = treeobj_count(data, DSIZE);
        for (uint32_t i = 0; i < n; i++) {
            treeobj_leaf_entry(o->data, DSIZE, i, &e);
            MUST(kvswalk_find(c, o->digest, e.name, e.namelen, KVSWALK_NOFOLLOW, &e, NULL, &miss,
                              &err) == 0);
        }
    }
    struct reading r = {c, &miss};
    (void)kvswalk_dir(c, o->digest, seen, &r, &miss, &err);
    MUST(miss.n <= KVSMISS_MAX);
    bool more;
    for (uint32_t count = 1; count < 40; count += 13)
        (void)kvswalk_page(c, o->digest, "abc", count % 4, count, seen, &r, &more, &miss, &err);
    compare(c, kvsdiff_create(c, NULL, o->digest, KVSDIFF_RECURSIVE), &miss);
    compare(c, kvsdiff_create(c, o->digest, NULL, 0), &miss);
    read_value(c, o->digest, data, size, &miss);
    MUST(miss.n <= KVSMISS_MAX);
    content_destroy(c);
    blobref_destroy(b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    errmsg_t err = {""};

    if (treeobj_check(data, size, DSIZE, &err) < 0) {
        MUST(errno == EPROTO && err.text[0]);
        return 0;
    }
    if (treeobj_kind(data) == TREEOBJ_LEAF)
        check_leaf(data, size);
    else if (treeobj_kind(data) == TREEOBJ_BRANCH)
        check_branch(data, size);
    else if (treeobj_kind(data) == TREEOBJ_INDEX)
        check_index(data, size);
    read_it(data, size);
    return 0;
}

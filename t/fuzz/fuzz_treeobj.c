/* fuzz_treeobj.c - bytes as a tree object: the decoder, the accessors, and readers led by them.
 *
 * What passes the check must encode to the same bytes again (one content, one encoding), name every
 * entry where a look-up finds it, and be safe to walk, also when it refers to objects that are not there.
 */
#include "config.h"
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "libkvs/kvswalk.h"

#define DSIZE 32

static void check(int ok)
{
    if (!ok)
        abort();
}

static void check_leaf(const uint8_t *data, size_t size)
{
    uint32_t n = treeobj_count(data, DSIZE);
    struct treeobj_entry *e = calloc(n + 1, sizeof(*e)), found;
    uint8_t *buf = malloc(size + 1);

    check(e && buf);
    for (uint32_t i = 0; i < n; i++) {
        treeobj_leaf_entry(data, DSIZE, i, &e[i]);
        check(treeobj_leaf_find(data, DSIZE, e[i].name, e[i].namelen, &found));
        check(found.name == e[i].name && found.type == e[i].type);
    }
    check(treeobj_leaf_size(e, n, DSIZE) == size);
    treeobj_leaf_encode(buf, e, n, DSIZE, treeobj_depth(data));
    check(memcmp(buf, data, size) == 0);
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
    check(sum == treeobj_count(data, DSIZE));
    check(treeobj_branch_size(child, DSIZE) == size);
    treeobj_branch_encode(buf, child, DSIZE, treeobj_depth(data));
    check(memcmp(buf, data, size) == 0);
}

struct reading {
    content_t *c;
    struct kvsmiss *miss;
};

static int seen(const struct treeobj_entry *e, void *arg)
{
    struct reading *r = arg;
    const uint8_t *value;
    size_t len;

    if (e->type == TREEOBJ_VALUE || e->type == TREEOBJ_REF)
        (void)kvswalk_value(r->c, e, &value, &len, r->miss, NULL);
    return 0;
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

    check(o != NULL);
    miss.n = 0;
    (void)kvswalk_find(c, o->digest, "a.b", 3, 0, &e, NULL, &miss, &err);
    (void)kvswalk_find(c, o->digest, "a", 1, KVSWALK_NOFOLLOW, &e, NULL, &miss, &err);
    if (treeobj_kind(data) == TREEOBJ_LEAF && treeobj_depth(data) == 0) {
        uint32_t n = treeobj_count(data, DSIZE);
        for (uint32_t i = 0; i < n; i++) {
            treeobj_leaf_entry(o->data, DSIZE, i, &e);
            check(kvswalk_find(c, o->digest, e.name, e.namelen, KVSWALK_NOFOLLOW, &e, NULL, &miss,
                               &err) == 0);
        }
    }
    struct reading r = {c, &miss};
    (void)kvswalk_dir(c, o->digest, seen, &r, &miss, &err);
    check(miss.n <= KVSMISS_MAX);
    content_destroy(c);
    blobref_destroy(b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    errmsg_t err = {""};

    if (treeobj_check(data, size, DSIZE, &err) < 0) {
        check(errno == EPROTO && err.text[0]);
        return 0;
    }
    if (treeobj_kind(data) == TREEOBJ_LEAF)
        check_leaf(data, size);
    else if (treeobj_kind(data) == TREEOBJ_BRANCH)
        check_branch(data, size);
    read_it(data, size);
    return 0;
}

/* bench_kvsstore.c - the engine of the key-value store alone: no messages, no threads.
 *
 * Each line: what, time per operation, and beside it the time that hashing and copying the bytes of the changed
 * objects takes at least, with the ratio.
 */
#include "config.h"
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "libkvs/kvs_txn.h"
#include "libkvs/kvsstore.h"
#include "libkvs/kvswalk.h"

static double now(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

struct bench {
    blobref_t *b;
    content_t *c;
    kvsstore_t *s;
    struct kvsmiss miss;
};

static void die(const char *what)
{
    fprintf(stderr, "bench_kvsstore: %s\n", what);
    exit(1);
}

static void put(struct kvs_txn_buf *t, const char *key, const void *val, size_t len)
{
    if (kvs_txn_buf_add(t, KVS_OP_PUT, 0, key, strlen(key), val, len, NULL) < 0)
        die("a put was refused");
}

static void commit(struct bench *x, struct kvs_txn_buf *t)
{
    errmsg_t err = {"no memory"};

    if (kvsstore_begin(x->s) < 0 || kvsstore_apply(x->s, t->data, t->len, &err) < 0 ||
        kvsstore_end(x->s, &err) < 0)
        die(err.text);
    kvs_txn_buf_clear(t);
    (void)kvsstore_collect(x->s, 256);
}

/* Fill directory `dir` with `n` small keys, `batch` in one commit. */
static void fill(struct bench *x, const char *dir, unsigned n, unsigned batch)
{
    struct kvs_txn_buf t = {0};
    char key[64];

    for (unsigned i = 0; i < n; i++) {
        snprintf(key, sizeof(key), "%s.key-%u", dir, i);
        put(&t, key, "12345678", 8);
        if (t.nops == batch || i == n - 1)
            commit(x, &t);
    }
}

/* Time to hash and copy `bytes`, in pieces of 600. */
static double floor_of(struct bench *x, size_t bytes)
{
    static uint8_t from[600], to[600];
    uint8_t digest[BLOBREF_DIGEST_MAX];
    double t = now();

    for (int i = 0; i < 100000; i++) {
        memcpy(to, from, sizeof(to));
        from[0] = (uint8_t)i;
        if (blobref_hash(x->b, to, sizeof(to), digest) < 0)
            die("the hash failed");
    }
    return (now() - t) / 100000 * (double)bytes / sizeof(from);
}

/* Bytes of the objects from the root to the leaf where a name belongs. */
static size_t path_bytes(struct bench *x, const char *dir, const char *name)
{
    struct treeobj_entry e;
    size_t sum = content_get(x->c, kvsstore_root(x->s))->len;
    uint64_t hash = treeobj_hash(name, strlen(name));

    x->miss.n = 0;
    if (kvswalk_find(x->c, kvsstore_root(x->s), dir, strlen(dir), 0, &e, NULL, &x->miss, NULL) < 0)
        die("the directory is not there");
    const uint8_t *d = e.digest;
    for (unsigned depth = 0;; depth++) {
        struct content_obj *o = content_get(x->c, d);
        sum += o->len;
        if (treeobj_kind(o->data) == TREEOBJ_LEAF ||
            !treeobj_branch_child(o->data, blobref_size(x->b), treeobj_slot(hash, depth), &d, NULL))
            return sum;
    }
}

static void bench_commit(struct bench *x, const char *dir, unsigned keys)
{
    enum { N = 20000 };
    struct kvs_txn_buf t = {0};
    char key[64], val[16];
    double begin = now();

    for (unsigned i = 0; i < N; i++) {
        snprintf(key, sizeof(key), "%s.key-%u", dir, (i * 7919u) % keys);
        snprintf(val, sizeof(val), "%08u", i);
        put(&t, key, val, 8);
        commit(x, &t);
    }
    double each = (now() - begin) / N;
    snprintf(key, sizeof(key), "key-%u", keys / 2);
    double least = floor_of(x, path_bytes(x, dir, key));
    printf("put+commit, directory of %7u keys: %6.2f us   hash and copy alone %5.2f us   %4.1fx\n",
           keys, each * 1e6, least * 1e6, each / least);
}

static void bench_lookup(struct bench *x, const char *dir, unsigned keys)
{
    enum { N = 500000 };
    char key[64];
    struct treeobj_entry e;
    double begin = now();

    for (unsigned i = 0; i < N; i++) {
        int len = snprintf(key, sizeof(key), "%s.key-%u", dir, (i * 7919u) % keys);
        x->miss.n = 0;
        if (kvswalk_find(x->c, kvsstore_root(x->s), key, (size_t)len, 0, &e, NULL, &x->miss, NULL) <
            0)
            die("a key is not there");
    }
    printf("lookup,     directory of %7u keys: %6.2f us\n", keys, (now() - begin) / N * 1e6);
}

static void bench_batch(struct bench *x, unsigned batch)
{
    enum { N = 200000 };
    double begin = now();

    fill(x, "batch", N, batch);
    printf("new keys, %6u in a commit: %9.0f per second\n", batch, N / (now() - begin));
    struct kvs_txn_buf t = {0};
    if (kvs_txn_buf_add(&t, KVS_OP_UNLINK, KVS_OP_RECURSIVE, "batch", 5, NULL, 0, NULL) < 0)
        die("an unlink was refused");
    commit(x, &t);
    while (kvsstore_collect(x->s, 1000))
        ;
}

static size_t heap(void)
{
    malloc_trim(0);
    struct mallinfo2 m = mallinfo2();
    return m.uordblks + m.hblkhd;
}

int main(void)
{
    static const unsigned sizes[] = {10, 100, 5000, 100000, 1000000};
    static struct bench x;
    char dir[32];

    x.b = blobref_create("sha256", NULL);
    x.c = x.b ? content_create(x.b, 4 << 20) : NULL;
    x.s = x.c ? kvsstore_create(x.c) : NULL;
    if (!x.s)
        die("no memory");
    size_t empty = heap();
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        snprintf(dir, sizeof(dir), "d%u", sizes[i]);
        size_t before = heap();
        fill(&x, dir, sizes[i], 1000);
        if (sizes[i] == 1000000)
            printf("memory of 1000000 small keys: %.0f MiB\n", (double)(heap() - before) / 1048576);
        bench_commit(&x, dir, sizes[i]);
        bench_lookup(&x, dir, sizes[i]);
    }
    for (unsigned batch = 1; batch <= 10000; batch *= 100)
        bench_batch(&x, batch);
    struct kvs_txn_buf t = {0};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        snprintf(dir, sizeof(dir), "d%u", sizes[i]);
        if (kvs_txn_buf_add(&t, KVS_OP_UNLINK, KVS_OP_RECURSIVE, dir, strlen(dir), NULL, 0, NULL) <
            0)
            die("an unlink was refused");
    }
    double begin = now(), worst = 0;
    commit(&x, &t);
    printf("unlink of 1105110 keys: %.2f ms", (now() - begin) * 1e3);
    bool more = true;
    while (more) {
        double step = now();
        more = kvsstore_collect(x.s, 256);
        step = now() - step;
        worst = step > worst ? step : worst;
    }
    printf(", giving them back: %.0f ms in steps of at most %.2f ms\n", (now() - begin) * 1e3,
           worst * 1e3);
    printf("memory that stays: %.1f MiB\n", ((double)heap() - (double)empty) / 1048576);
    kvsstore_destroy(x.s);
    content_destroy(x.c);
    blobref_destroy(x.b);
    return 0;
}

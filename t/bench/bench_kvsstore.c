/* bench_kvsstore.c - the engine of the key-value store alone: no messages, no threads.
 *
 * Each line: what, time per operation, and beside it the time that hashing and copying the bytes of
 * the changed objects takes at least, with the ratio.  Memory is what the system counts as
 * resident.  Arguments choose sections (see main()); without, all are run, each in a process of its
 * own.
 */
#include "config.h"
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "libkvs/kvs_txn.h"
#include "libkvs/kvsdiff.h"
#include "libkvs/kvsstore.h"
#include "libkvs/kvswalk.h"

/* Processor time: nothing here waits, and other programs do not count. */
static double now(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
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
    static unsigned turn; /* values differ from those that may be there */
    struct kvs_txn_buf t = {0};
    char key[64], val[16];

    turn++;
    for (unsigned i = 0; i < n; i++) {
        snprintf(key, sizeof(key), "%s.key-%u", dir, i);
        snprintf(val, sizeof(val), "%08u", i + turn);
        put(&t, key, val, 8);
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

static void collect_all(struct bench *x);
static void unlink_all(struct bench *x, const char *dir);

static void bench_batch(struct bench *x, unsigned batch)
{
    unsigned n = batch < 100 ? 50000 : 200000;
    double begin = now();

    fill(x, "batch", n, batch);
    printf("new keys, %6u in a commit: %9.0f per second\n", batch, n / (now() - begin));
    begin = now();
    for (unsigned i = 0; i < n; i += 10000)
        fill(x, "some", 10000, batch);
    printf("overwrites of 10000 keys, %6u in a commit: %9.0f per second\n", batch,
           n / (now() - begin));
    unlink_all(x, "batch");
    unlink_all(x, "some");
    collect_all(x);
}

/* Resident memory in bytes. */
static double rss(void)
{
    long pages = 0;
    FILE *f = fopen("/proc/self/statm", "r");

    if (!f || fscanf(f, "%*d %ld", &pages) != 1)
        die("no /proc/self/statm");
    fclose(f);
    return (double)pages * (double)sysconf(_SC_PAGESIZE);
}

static void collect_all(struct bench *x)
{
    while (kvsstore_collect(x->s, 1000))
        ;
}

/* What nobody uses expires: as the service does after a while. */
static void expire_all(struct bench *x)
{
    content_set_clock(x->c, 1);
    content_expire(x->c, UINT32_MAX, SIZE_MAX);
    content_set_clock(x->c, 0);
}

static void unlink_all(struct bench *x, const char *dir)
{
    struct kvs_txn_buf t = {0};

    if (kvs_txn_buf_add(&t, KVS_OP_UNLINK, KVS_OP_RECURSIVE, dir, strlen(dir), NULL, 0, NULL) < 0)
        die("an unlink was refused");
    commit(x, &t);
}

static void section_commit(struct bench *x)
{
    static const unsigned sizes[] = {10, 100, 5000, 100000, 1000000};
    char dir[32];

    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        snprintf(dir, sizeof(dir), "d%u", sizes[i]);
        fill(x, dir, sizes[i], 1000);
        bench_commit(x, dir, sizes[i]);
        bench_lookup(x, dir, sizes[i]);
    }
    struct kvs_txn_buf t = {0};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        snprintf(dir, sizeof(dir), "d%u", sizes[i]);
        if (kvs_txn_buf_add(&t, KVS_OP_UNLINK, KVS_OP_RECURSIVE, dir, strlen(dir), NULL, 0, NULL) <
            0)
            die("an unlink was refused");
    }
    double begin = now(), worst = 0;
    commit(x, &t);
    printf("unlink of 1105110 keys: %.2f ms", (now() - begin) * 1e3);
    bool more = true;
    while (more) {
        double step = now();
        more = kvsstore_collect(x->s, 256);
        step = now() - step;
        if (more) /* the last one gives memory back to the system */
            worst = step > worst ? step : worst;
    }
    printf(", giving them back: %.0f ms in steps of at most %.2f ms\n", (now() - begin) * 1e3,
           worst * 1e3);
}

static void section_batch(struct bench *x)
{
    for (unsigned batch = 1; batch <= 10000; batch *= 10)
        bench_batch(x, batch);
}

/* `format` makes a key of a number. */
static void memory(struct bench *x, const char *what, const char *format)
{
    enum { N = 1000000 };
    struct kvs_txn_buf t = {0};
    char key[64], val[40];
    double before = rss();

    for (unsigned i = 0; i < N; i++) {
        snprintf(key, sizeof(key), format, i); /* NOLINT: one of two below */
        snprintf(val, sizeof(val), "%08u.abcdefghijklmnopqrstuvwxyz", i);
        put(&t, key, val, 8 + i % 25);
        if (t.nops == 1000)
            commit(x, &t);
    }
    collect_all(x);
    double most = rss();
    printf("memory of 1000000 %s: %.0f MiB", what, (most - before) / 1048576);
    unlink_all(x, "job");
    collect_all(x);
    printf(", when all are gone: %.1f MiB", (rss() - before) / 1048576);
    expire_all(x);
    printf(", and expired: %.1f MiB\n", (rss() - before) / 1048576);
}

static void section_memory(struct bench *x)
{
    memory(x, "keys in one directory", "job.%06u-x");
}

static void section_memory2(struct bench *x)
{
    memory(x, "directories with one key", "job.%06u.x");
}

static void section_garbage(struct bench *x)
{
    enum { N = 1000000 };
    struct kvs_txn_buf t = {0};
    char key[64], val[16];
    double before, begin, most = 0;

    fill(x, "some", 1000, 1000);
    before = rss();
    begin = now();
    for (unsigned i = 0; i < N; i++) {
        snprintf(val, sizeof(val), "%08u", i);
        put(&t, "some.key-1", val, 8);
        commit(x, &t);
        if (i % 1000 == 0)
            most = rss() > most ? rss() : most;
    }
    collect_all(x);
    printf("1000000 overwrites of one key: %.2f us each, memory %+.1f MiB, most %+.1f MiB\n",
           (now() - begin) / N * 1e6, (rss() - before) / 1048576, (most - before) / 1048576);
    before = rss();
    begin = now();
    for (unsigned i = 0; i < N; i++) {
        snprintf(key, sizeof(key), "some.key-%u", i);
        put(&t, key, "12345678", 8);
        if (t.nops == 1000)
            commit(x, &t);
    }
    for (unsigned i = 0; i < N; i++) {
        int len = snprintf(key, sizeof(key), "some.key-%u", i);
        if (kvs_txn_buf_add(&t, KVS_OP_UNLINK, 0, key, (size_t)len, NULL, 0, NULL) < 0)
            die("an unlink was refused");
        if (t.nops == 1000)
            commit(x, &t);
    }
    collect_all(x);
    printf("1000000 keys created and deleted: %.2f us each, memory %+.1f MiB",
           (now() - begin) / N * 1e6, (rss() - before) / 1048576);
    expire_all(x);
    printf(", and expired: %+.1f MiB\n", (rss() - before) / 1048576);
}

static void section_values(struct bench *x)
{
    static char data[1 << 20];
    struct kvs_txn_buf t = {0};
    double begin;

    for (size_t mib = 0; mib < 1024; mib++) {
        if (kvs_txn_buf_add(&t, KVS_OP_APPEND, 0, "v", 1, data, sizeof(data), NULL) < 0)
            die("an append was refused");
        memcpy(data, &mib, sizeof(mib));
        commit(x, &t);
        if (mib != 0 && mib != 15 && mib != 1023)
            continue;
        begin = now();
        for (int i = 0; i < 1000; i++) {
            if (kvs_txn_buf_add(&t, KVS_OP_APPEND, 0, "v", 1, "0123456789", 10, NULL) < 0)
                die("an append was refused");
            commit(x, &t);
        }
        printf("append 10 bytes to %4zu MiB: %6.2f us\n", mib + 1, (now() - begin) / 1000 * 1e6);
    }
    fill(x, "big", 1000000, 1000);
    begin = now();
    for (int i = 0; i < 1000; i++) {
        char to[32];
        int len = snprintf(to, sizeof(to), "copy%d", i);
        if (kvs_txn_buf_add(&t, KVS_OP_COPY, 0, to, (size_t)len, "big", 3, NULL) < 0)
            die("a copy was refused");
        commit(x, &t);
    }
    printf("copy of a directory of 1000000 keys: %.2f us\n", (now() - begin) / 1000 * 1e6);
}

struct paging {
    char last[256];
    size_t len, n;
};

static int page_entry(const struct treeobj_entry *e, void *arg)
{
    struct paging *p = arg;

    memcpy(p->last, e->name, e->namelen);
    p->len = e->namelen;
    p->n++;
    return 0;
}

static int count_diff(const struct kvsdiff_item *d, void *arg)
{
    ++*(unsigned *)arg;
    return d->key ? 0 : 1;
}

static void section_walk(struct bench *x)
{
    struct treeobj_entry e;
    struct paging p = {.len = 0};
    bool more = true;
    double worst = 0;
    unsigned pages = 0, n = 0;
    uint8_t old[BLOBREF_DIGEST_MAX];

    fill(x, "big", 1000000, 1000);
    x->miss.n = 0;
    if (kvswalk_find(x->c, kvsstore_root(x->s), "big", 3, 0, &e, NULL, &x->miss, NULL) < 0)
        die("the directory is not there");
    double begin = now();
    for (; more; pages++) {
        char cursor[256];
        size_t len = p.len;
        double step = now();
        memcpy(cursor, p.last, len);
        if (kvswalk_page(x->c, e.digest, cursor, len, 1000, page_entry, &p, &more, &x->miss, NULL) <
            0)
            die("a page failed");
        step = now() - step;
        worst = step > worst ? step : worst;
    }
    printf("listing of %zu keys in %u pages: %.0f ms, a page takes %.0f us at most\n", p.n, pages,
           (now() - begin) * 1e3, worst * 1e6);
    memcpy(old, kvsstore_root(x->s), sizeof(old));
    if (kvsstore_hold_root(x->s, old, NULL) < 0)
        die("the root is gone");
    struct kvs_txn_buf t = {0};
    for (int i = 0; i < 100; i++) {
        char key[64];
        snprintf(key, sizeof(key), "big.key-%d", i * 9973);
        put(&t, key, "new", 3);
    }
    commit(x, &t);
    begin = now();
    kvsdiff_t *diff = kvsdiff_create(x->c, old, kvsstore_root(x->s), KVSDIFF_RECURSIVE);
    if (!diff || kvsdiff_run(diff, UINT_MAX, count_diff, &n, &x->miss, NULL) != 0)
        die("the difference failed");
    kvsdiff_destroy(diff);
    printf("%u differences among 1000000 keys: %.0f us\n", n, (now() - begin) * 1e6);
}

static const struct {
    const char *name;
    void (*run)(struct bench *x);
} sections[] = {
    {"commit", section_commit},   {"batch", section_batch},     {"memory", section_memory},
    {"memory2", section_memory2}, {"garbage", section_garbage}, {"values", section_values},
    {"walk", section_walk},
};

static void run(void (*section)(struct bench *x))
{
    static struct bench x;

    x.b = blobref_create("sha256", NULL);
    x.c = x.b ? content_create(x.b, 4 << 20) : NULL;
    x.s = x.c ? kvsstore_create(x.c) : NULL;
    if (!x.s)
        die("no memory");
    section(&x);
    kvsstore_destroy(x.s);
    content_destroy(x.c);
    blobref_destroy(x.b);
}

int main(int argc, char **argv)
{
    int failed = 0;

    for (size_t i = 0; i < sizeof(sections) / sizeof(sections[0]); i++) {
        bool chosen = argc == 1;
        for (int k = 1; k < argc; k++)
            chosen |= strcmp(argv[k], sections[i].name) == 0;
        if (!chosen)
            continue;
        fflush(stdout);
        pid_t pid = fork();
        int status = 1;
        if (pid == 0) {
            run(sections[i].run);
            exit(0);
        }
        failed |= pid < 0 || waitpid(pid, &status, 0) < 0 || status != 0;
    }
    return failed;
}

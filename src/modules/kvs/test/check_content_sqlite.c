/* check_content_sqlite.c - the driver alone: what was durable comes back, groups, errors, space. */
#include "config.h"
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "libutil/fdutil.h"
#include "libutil/test/put_file.h"
#include "libutil/test/suite.h"
#include "../sqlfile.h"

#define D (&kvs_storage_driver)
#define MAX_BYTES (4u * 1024 * 1024)

static char dir[64];
static char path[128];
static kvs_storage_t *s;

/* This many more calls to fsync() and fdatasync() fail; -1: all. */
static atomic_int bad_syncs; /* the writer's thread reads it */
/* ... after this many that succeed. */
static atomic_int good_syncs;
static atomic_int syncs; /* calls until now */

static int sync_fd(long call, int fd)
{
    int left = atomic_load(&bad_syncs);

    atomic_fetch_add(&syncs, 1);
    if (left != 0 && atomic_load(&good_syncs) > 0) {
        atomic_fetch_sub(&good_syncs, 1);
        left = 0;
    }
    if (left == 0)
        return (int)syscall(call, fd);
    if (left > 0)
        atomic_fetch_sub(&bad_syncs, 1);
    errno = EIO;
    return -1;
}

int fsync(int fd)
{
    return sync_fd(SYS_fsync, fd);
}

int fdatasync(int fd)
{
    return sync_fd(SYS_fdatasync, fd);
}

static void setup(void)
{
    snprintf(dir, sizeof(dir), "/tmp/check-sqlite-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
    snprintf(path, sizeof(path), "%s/%s", dir, KVS_STORAGE_FILE);
}

static void teardown(void)
{
    bad_syncs = good_syncs = 0;
    D->destroy(s);
    s = NULL;
    ck_assert_int_eq(dir_remove_tree(dir), 0);
}

struct wait {
    bool done;
};

static void done_cb(struct kvs_storage_req *q)
{
    ((struct wait *)q->arg)->done = true;
}

static void submit(struct kvs_storage_req *q, struct wait *w)
{
    w->done = false;
    q->done = done_cb;
    q->arg = w;
    ck_assert_int_eq(D->submit(s, q), 0);
}

static int finish(struct kvs_storage_req *q, struct wait *w)
{
    while (!w->done) {
        struct pollfd p = {.fd = D->fd(s), .events = POLLIN};
        ck_assert_int_eq(poll(&p, 1, 10000), 1);
        D->dispatch(s);
    }
    if (q->errnum)
        ck_assert_str_ne(q->err.text, "");
    return q->errnum;
}

static int call(struct kvs_storage_req *q)
{
    struct wait w;

    submit(q, &w);
    return finish(q, &w);
}

static int open_storage(const char *hash, struct kvs_storage_req *q)
{
    errmsg_t err;

    s = D->create(dir, hash, MAX_BYTES, &err);
    ck_assert_ptr_nonnull(s);
    *q = (struct kvs_storage_req){.op = KVS_STORAGE_OPEN};
    return call(q);
}

static void reopen(void)
{
    struct kvs_storage_req q;

    D->destroy(s);
    ck_assert_int_eq(open_storage("sha256", &q), 0);
}

static uint32_t create_ns(const char *name)
{
    struct kvs_storage_req q = {.op = KVS_STORAGE_CREATE, .name = name, .owner = 1000};

    ck_assert_int_eq(call(&q), 0);
    ck_assert_uint_ne(q.ns, 0);
    return q.ns;
}

/* Any 32 bytes will do as a digest: the driver does not look at what it keeps. */
static const uint8_t *digest(unsigned n)
{
    static uint8_t d[64][32];
    uint8_t *p = d[n % 64];

    memset(p, (int)(n % 251), 32);
    memcpy(p, &n, sizeof(n));
    return p;
}

static int journal(uint32_t ns, uint64_t version, const void *row, size_t len)
{
    struct iovec iov[2] = {{(void *)(uintptr_t)row, len / 2},
                           {(char *)(uintptr_t)row + len / 2, len - len / 2}};
    struct kvs_storage_req q = {.op = KVS_STORAGE_JOURNAL,
                                .ns = ns,
                                .version = version,
                                .root = digest((unsigned)version),
                                .iov = iov,
                                .niov = 2};

    return call(&q);
}

static int resume(void)
{
    struct kvs_storage_req q = {.op = KVS_STORAGE_RESUME};

    return call(&q);
}

static int store(uint32_t ns, enum kvs_storage_op op, unsigned n, const void *data, size_t len,
                 bool blob)
{
    struct kvs_storage_obj o = {digest(n), data, len, blob};
    struct kvs_storage_req q = {.op = op, .ns = ns, .objs = &o, .nobjs = 1};

    return call(&q);
}

/* Number of records of a read, all pages; what is in the last of them. */
static unsigned count(enum kvs_storage_op op, uint32_t ns, size_t max, struct kvs_storage_rec *last,
                      unsigned *pages)
{
    static uint8_t *kept;
    struct kvs_storage_req q = {.op = op, .ns = ns, .max = max};
    struct kvs_storage_rec rec;
    unsigned n = 0;

    if (pages)
        *pages = 0;
    do {
        ck_assert_int_eq(call(&q), 0);
        size_t pos = 0;
        while (D->next(&q, &pos, &rec)) {
            n++;
            if (last)
                *last = rec;
        }
        if (pages)
            ++*pages;
        free(kept);
        kept = q.data;
    } while (q.more);
    return n;
}

START_TEST(comes_back)
{
    struct kvs_storage_req q;
    struct kvs_storage_rec rec;
    char big[40000];
    unsigned pages;

    ck_assert_int_eq(open_storage("sha256", &q), 0);
    ck_assert_uint_eq(count(KVS_STORAGE_NAMESPACES, 0, 0, NULL, NULL), 0);
    uint32_t a = create_ns("primary"), b = create_ns("other");
    ck_assert_uint_ne(a, b);
    struct kvs_storage_req again = {.op = KVS_STORAGE_CREATE, .name = "other"};
    ck_assert_int_ne(call(&again), 0);
    ck_assert_int_eq(resume(), 0);
    ck_assert_int_eq(journal(a, 1, "one", 3), 0);
    ck_assert_int_eq(journal(a, 2, "two", 3), 0);
    ck_assert_int_eq(journal(b, 1, "else", 4), 0);
    memset(big, 'x', sizeof(big));
    ck_assert_int_eq(store(a, KVS_STORAGE_STORE, 1, "node", 4, false), 0);
    ck_assert_int_eq(store(a, KVS_STORAGE_STORE, 1, "node", 4, false), 0);
    ck_assert_int_eq(store(b, KVS_STORAGE_STORE, 1, "noise", 5, false), 0);
    for (unsigned i = 2; i < 12; i++)
        ck_assert_int_eq(store(a, KVS_STORAGE_STORE, i, big, sizeof(big), true), 0);
    ck_assert_int_eq(store(a, KVS_STORAGE_DELETE, 5, NULL, 0, true), 0);
    ck_assert_int_eq(journal(a, 3, big, sizeof(big)), 0);

    reopen();
    ck_assert_uint_eq(count(KVS_STORAGE_NAMESPACES, 0, 0, &rec, NULL), 2);
    ck_assert_uint_eq(rec.ns, b);
    ck_assert_uint_eq(rec.owner, 1000);
    ck_assert_uint_eq(rec.version, 0);
    ck_assert_ptr_null(rec.root);
    ck_assert(rec.len == 5 && memcmp(rec.data, "other", 5) == 0);
    ck_assert_uint_eq(count(KVS_STORAGE_ROWS, a, 0, &rec, NULL), 3);
    ck_assert_uint_eq(rec.version, 3);
    ck_assert(memcmp(rec.root, digest(3), 32) == 0);
    ck_assert(rec.len == sizeof(big) && memcmp(rec.data, big, sizeof(big)) == 0);
    ck_assert_uint_eq(count(KVS_STORAGE_ROWS, a, 1, NULL, &pages), 3);
    ck_assert_uint_ge(pages, 3);
    ck_assert_uint_eq(count(KVS_STORAGE_ROWS, b, 0, NULL, NULL), 1);
    ck_assert_uint_eq(count(KVS_STORAGE_NODES, a, 0, &rec, NULL), 1);
    ck_assert(rec.len == 4 && memcmp(rec.data, "node", 4) == 0);
    ck_assert_uint_eq(count(KVS_STORAGE_BLOBS, a, 0, &rec, NULL), 9);
    ck_assert_uint_eq(rec.version, sizeof(big));
    ck_assert_uint_eq(count(KVS_STORAGE_BLOBS, a, 100, NULL, &pages), 9);
    ck_assert_uint_gt(pages, 2);

    struct kvs_storage_obj o = {.digest = digest(4), .blob = true};
    q = (struct kvs_storage_req){.op = KVS_STORAGE_LOAD, .ns = a, .objs = &o, .nobjs = 1};
    ck_assert_int_eq(call(&q), 0);
    ck_assert(q.len == sizeof(big) && memcmp(q.data, big, sizeof(big)) == 0);
    free(q.data);
    o.digest = digest(5);
    ck_assert_int_eq(call(&q), ENOENT);

    /* Roots that are checkpoints make rows void. */
    q = (struct kvs_storage_req){
        .op = KVS_STORAGE_CHECKPOINT, .ns = a, .version = 2, .root = digest(7)};
    ck_assert_int_eq(call(&q), 0);
    ck_assert_uint_eq(count(KVS_STORAGE_ROWS, a, 0, NULL, NULL), 1);
    reopen();
    ck_assert_uint_eq(count(KVS_STORAGE_ROWS, a, 0, NULL, NULL), 1);
    q = (struct kvs_storage_req){.op = KVS_STORAGE_REMOVE, .ns = b};
    ck_assert_int_eq(call(&q), 0);
    ck_assert_uint_eq(count(KVS_STORAGE_NAMESPACES, 0, 0, &rec, NULL), 1);
    ck_assert(rec.version == 2 && memcmp(rec.root, digest(7), 32) == 0);
    (void)create_ns("other"); /* the name is free */
}
END_TEST

/* A commit that is alone waits for the disk once. */
START_TEST(one_sync)
{
    struct kvs_storage_req q;

    ck_assert_int_eq(open_storage("sha256", &q), 0);
    uint32_t ns = create_ns("primary");
    for (unsigned version = 1; version <= 20; version++) {
        int before = atomic_load(&syncs);
        ck_assert_int_eq(journal(ns, version, "row", 3), 0);
        ck_assert_int_eq(atomic_load(&syncs) - before, 1);
    }
}
END_TEST

START_TEST(groups)
{
    enum { N = 2000 };
    struct kvs_storage_req q, *reqs = calloc(N, sizeof(*reqs));
    struct wait *w = calloc(N, sizeof(*w));
    struct kvs_storage_stats st;
    struct iovec iov = {(void *)(uintptr_t) "row", 3};
    const uint8_t *root = digest(3);

    ck_assert_int_eq(open_storage("sha256", &q), 0);
    uint32_t ns = create_ns("primary");
    for (unsigned i = 0; i < N; i++) {
        reqs[i] = (struct kvs_storage_req){.op = KVS_STORAGE_JOURNAL,
                                           .ns = ns,
                                           .version = i + 1,
                                           .root = root,
                                           .iov = &iov,
                                           .niov = 1};
        submit(&reqs[i], &w[i]);
    }
    for (unsigned i = 0; i < N; i++)
        ck_assert_int_eq(finish(&reqs[i], &w[i]), 0);
    D->stats(s, &st);
    ck_assert_uint_eq(st.queued, 0);
    ck_assert_uint_eq(st.queued_bytes, 0);
    ck_assert_uint_eq(st.writes, N + 1);
    ck_assert_uint_lt(st.syncs, N / 4);
    ck_assert_uint_eq(count(KVS_STORAGE_ROWS, ns, 0, NULL, NULL), N);
    free(reqs);
    free(w);
}
END_TEST

START_TEST(back_pressure)
{
    static char big[MAX_BYTES / 2];
    struct kvs_storage_req q, r[8];
    struct wait w[8];
    struct kvs_storage_obj o[8];
    unsigned n = 0;

    ck_assert_int_eq(open_storage("sha256", &q), 0);
    uint32_t ns = create_ns("primary");
    for (; n < 8; n++) {
        o[n] = (struct kvs_storage_obj){digest(n), big, sizeof(big), true};
        r[n] = (struct kvs_storage_req){.op = KVS_STORAGE_STORE,
                                        .ns = ns,
                                        .objs = &o[n],
                                        .nobjs = 1,
                                        .done = done_cb,
                                        .arg = &w[n]};
        w[n].done = false;
        if (D->submit(s, &r[n]) < 0)
            break;
    }
    ck_assert_int_eq(errno, EAGAIN);
    ck_assert_uint_lt(n, 3);
    /* Reads pass. */
    ck_assert_uint_eq(count(KVS_STORAGE_NAMESPACES, 0, 0, NULL, NULL), 1);
    for (unsigned i = 0; i < n; i++)
        ck_assert_int_eq(finish(&r[i], &w[i]), 0);
    submit(&r[n], &w[n]);
    ck_assert_int_eq(finish(&r[n], &w[n]), 0);
    /* One that is too large for the bound goes alone. */
    static char huge[MAX_BYTES + 1000];
    ck_assert_int_eq(store(ns, KVS_STORAGE_STORE, 20, huge, sizeof(huge), true), 0);
}
END_TEST

/* What is submitted is done before destroy() ends, and told. */
START_TEST(end_in_order)
{
    struct kvs_storage_req q;
    struct wait w;
    struct iovec iov = {(void *)(uintptr_t) "row", 3};

    ck_assert_int_eq(open_storage("sha256", &q), 0);
    uint32_t ns = create_ns("primary");
    q = (struct kvs_storage_req){.op = KVS_STORAGE_JOURNAL,
                                 .ns = ns,
                                 .version = 1,
                                 .root = digest(1),
                                 .iov = &iov,
                                 .niov = 1};
    submit(&q, &w);
    D->destroy(s);
    s = NULL;
    ck_assert(w.done);
    ck_assert_int_eq(q.errnum, 0);
    reopen();
    ck_assert_uint_eq(count(KVS_STORAGE_ROWS, ns, 0, NULL, NULL), 1);
}
END_TEST

/* A process that is killed: what it was told is durable is there. */
START_TEST(killed)
{
    struct kvs_storage_req q;
    struct kvs_storage_rec rec;
    uint32_t ns = 0;

    for (int round = 0; round < 10; round++) {
        int p[2];
        uint64_t told = 0, last;
        ck_assert_int_eq(pipe(p), 0);
        pid_t pid = fork();
        if (pid == 0) {
            if (open_storage("sha256", &q) != 0)
                _exit(1);
            if (round == 0)
                ns = create_ns("primary");
            else
                ns = 1;
            uint64_t v = count(KVS_STORAGE_ROWS, ns, 0, &rec, NULL) ? rec.version : 0;
            for (;;) {
                if (journal(ns, ++v, "a row of some bytes", 19) != 0)
                    _exit(2);
                (void)!write(p[1], &v, sizeof(v));
            }
        }
        close(p[1]);
        for (int i = 0; i < 20 + round; i++)
            ck_assert_int_eq(read(p[0], &told, sizeof(told)), sizeof(told));
        kill(pid, SIGKILL);
        while (read(p[0], &last, sizeof(last)) == sizeof(last))
            told = last;
        waitpid(pid, NULL, 0);
        close(p[0]);
        ck_assert_int_eq(open_storage("sha256", &q), 0);
        unsigned n = count(KVS_STORAGE_ROWS, 1, 0, &rec, NULL);
        ck_assert_uint_ge(n, told);
        ck_assert_uint_eq(n, rec.version);
        D->destroy(s);
        s = NULL;
    }
}
END_TEST

START_TEST(locked)
{
    struct kvs_storage_req q;
    kvs_storage_t *first;

    ck_assert_int_eq(open_storage("sha256", &q), 0);
    first = s;
    ck_assert_int_eq(open_storage("sha256", &q), EBUSY);
    ck_assert_ptr_nonnull(strstr(q.err.text, "in use"));
    ck_assert_ptr_nonnull(strstr(q.err.text, path));
    /* Whatever is asked of it has the same answer. */
    q = (struct kvs_storage_req){.op = KVS_STORAGE_NAMESPACES};
    ck_assert_int_eq(call(&q), EBUSY);
    ck_assert_int_eq(journal(1, 1, "x", 1), EBUSY);
    ck_assert_int_eq(resume(), EBUSY);
    D->destroy(s);
    s = first;
}
END_TEST

START_TEST(wrong_file)
{
    struct kvs_storage_req q;

    ck_assert_int_eq(open_storage("sha256", &q), 0);
    D->destroy(s);
    ck_assert_int_eq(open_storage("sha1", &q), EINVAL);
    ck_assert_ptr_nonnull(strstr(q.err.text, "content.hash=sha256"));
    D->destroy(s);
    ck_assert_int_eq(unlink(path), 0);
    put_file(path, "this is not a database at all, but a text", 38, 0600);
    ck_assert_int_eq(open_storage("sha256", &q), EINVAL);
    D->destroy(s);
    ck_assert_int_eq(unlink(path), 0);
    ck_assert_int_eq(mkdir(path, 0700), 0);
    ck_assert_int_ne(open_storage("sha256", &q), 0);
    D->destroy(s);
    ck_assert_int_eq(rmdir(path), 0);
    /* The directory is a file. */
    char other[200];
    snprintf(other, sizeof(other), "%s/file", dir);
    put_file(other, "", 0, 0600);
    s = D->create(other, "sha256", MAX_BYTES, NULL);
    q = (struct kvs_storage_req){.op = KVS_STORAGE_OPEN};
    ck_assert_int_ne(call(&q), 0);
    /* It is made with those above it. */
    D->destroy(s);
    snprintf(other, sizeof(other), "%s/a/b", dir);
    s = D->create(other, "sha256", MAX_BYTES, NULL);
    q = (struct kvs_storage_req){.op = KVS_STORAGE_OPEN};
    ck_assert_int_eq(call(&q), 0);
    struct stat st;
    snprintf(other, sizeof(other), "%s/a/b/%s", dir, KVS_STORAGE_FILE);
    ck_assert_int_eq(stat(other, &st), 0);
    ck_assert_uint_eq(st.st_mode & 0777, 0600);
}
END_TEST

/* Overwrite some of the file. */
static void damage(off_t at, size_t n)
{
    char junk[8192];
    int fd = open(path, O_RDWR);

    ck_assert_int_ge(fd, 0);
    memset(junk, 0xa5, sizeof(junk));
    ck_assert_int_eq(pwrite(fd, junk, n, at), (ssize_t)n);
    close(fd);
}

START_TEST(damaged)
{
    struct kvs_storage_req q;
    char data[2000];
    errmsg_t err;

    memset(data, 'x', sizeof(data));
    ck_assert_int_eq(open_storage("sha256", &q), 0);
    uint32_t ns = create_ns("primary");
    for (unsigned i = 0; i < 200; i++)
        ck_assert_int_eq(store(ns, KVS_STORAGE_STORE, i, data, sizeof(data), false), 0);
    ck_assert_int_eq(journal(ns, 1, "x", 1), 0);
    D->destroy(s);
    s = NULL;
    sqlfile_t *f = sqlfile_open(path, NULL, SQLFILE_LOOK, &err);
    ck_assert_ptr_nonnull(f);
    ck_assert_str_eq(sqlfile_hash(f), "sha256");
    ck_assert_int_eq(sqlfile_check(f, &err), 0);
    sqlfile_close(f);
    for (int page = 10; page < 100; page++)
        damage(page * 4096, 4096);
    f = sqlfile_open(path, NULL, SQLFILE_LOOK, &err);
    ck_assert_ptr_nonnull(f);
    ck_assert_int_eq(sqlfile_check(f, &err), -1);
    ck_assert_int_eq(errno, EIO);
    sqlfile_close(f);
    ck_assert_int_eq(open_storage("sha256", &q), 0);
    q = (struct kvs_storage_req){.op = KVS_STORAGE_NODES, .ns = ns, .max = 100000000};
    ck_assert_int_eq(call(&q), EIO);
    ck_assert_ptr_nonnull(strstr(q.err.text, "damaged"));
    D->destroy(s);
    s = NULL;
    damage(0, 4096);
    ck_assert_int_eq(open_storage("sha256", &q), EINVAL);
}
END_TEST

static void limit_files(rlim_t size)
{
    struct rlimit r;

    ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &r), 0);
    r.rlim_cur = size;
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &r), 0);
}

/* Files that may not grow stand for a disk that is full. */
START_TEST(no_room_left)
{
    static char big[200000];
    struct kvs_storage_req q, r[3];
    struct wait w[3];
    struct kvs_storage_rec rec;
    struct kvs_storage_obj o = {digest(9), big, sizeof(big), true};
    struct iovec iov = {(void *)(uintptr_t) "row", 3};
    unsigned version = 0;

    signal(SIGXFSZ, SIG_IGN);
    ck_assert_int_eq(open_storage("sha256", &q), 0);
    uint32_t ns = create_ns("primary");
    while (version < 10)
        ck_assert_int_eq(journal(ns, ++version, "x", 1), 0);
    limit_files(300000);
    int rc;
    while ((rc = journal(ns, ++version, big, 30000)) == 0)
        ck_assert_uint_lt(version, 100);
    ck_assert_int_eq(rc, ENOSPC);
    /* What was built on it goes with it, and nothing is done until somebody resumes. */
    limit_files(RLIM_INFINITY);
    ck_assert_int_eq(journal(ns, version + 1, "y", 1), ENOSPC);
    ck_assert_uint_eq(count(KVS_STORAGE_ROWS, ns, 0, &rec, NULL), version - 1);
    ck_assert_int_eq(resume(), 0);
    ck_assert_int_eq(journal(ns, version, "y", 1), 0);

    /* All in a transaction fail. */
    limit_files(300000);
    r[0] = (struct kvs_storage_req){.op = KVS_STORAGE_STORE, .ns = ns, .objs = &o, .nobjs = 1};
    r[1] = (struct kvs_storage_req){.op = KVS_STORAGE_JOURNAL,
                                    .ns = ns,
                                    .version = version + 1,
                                    .root = digest(1),
                                    .iov = &iov,
                                    .niov = 1};
    r[2] = (struct kvs_storage_req){.op = KVS_STORAGE_NAMESPACES};
    for (int i = 0; i < 3; i++)
        submit(&r[i], &w[i]);
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(finish(&r[i], &w[i]), i < 2 ? ENOSPC : 0);
    free(r[2].data);
    limit_files(RLIM_INFINITY);
    reopen();
    ck_assert_uint_eq(count(KVS_STORAGE_ROWS, ns, 0, &rec, NULL), version);
    ck_assert_uint_eq(count(KVS_STORAGE_BLOBS, ns, 0, NULL, NULL), 0);
}
END_TEST

static void copy_file(const char *from, const char *to, const char *name)
{
    char a[128], b[128], buf[65536];
    ssize_t n;

    snprintf(a, sizeof(a), "%s/%s", from, name);
    snprintf(b, sizeof(b), "%s/%s", to, name);
    int in = open(a, O_RDONLY), out = open(b, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    ck_assert(in >= 0 && out >= 0);
    while ((n = read(in, buf, sizeof(buf))) > 0)
        ck_assert_int_eq(write(out, buf, (size_t)n), n);
    close(in);
    close(out);
}

/* Rows that would be there if this process were killed now. */
static unsigned rows_after_kill(uint32_t ns)
{
    char here[64], there[64] = "/tmp/check-sqlite-XXXXXX";
    struct kvs_storage_req q;
    struct kvs_storage_rec rec;
    kvs_storage_t *live = s;

    ck_assert_ptr_nonnull(mkdtemp(there));
    copy_file(dir, there, KVS_STORAGE_FILE);
    copy_file(dir, there, KVS_STORAGE_FILE "-wal");
    memcpy(here, dir, sizeof(here));
    memcpy(dir, there, sizeof(dir));
    ck_assert_int_eq(open_storage("sha256", &q), 0);
    unsigned n = (unsigned)count(KVS_STORAGE_ROWS, ns, 0, &rec, NULL);
    D->destroy(s);
    s = live;
    memcpy(dir, here, sizeof(dir));
    ck_assert_int_eq(dir_remove_tree(there), 0);
    return n;
}

/* What was refused because it could not be made durable does not come back; when that cannot be
 * had, the outcome is not known, but that of what was not tried is. */
START_TEST(sync_fails)
{
    static char big[30000];
    struct kvs_storage_req q;
    struct kvs_storage_rec rec;

    ck_assert_int_eq(open_storage("sha256", &q), 0);
    uint32_t ns = create_ns("primary");
    ck_assert_int_eq(journal(ns, 1, "a", 1), 0);
    ck_assert_uint_eq(rows_after_kill(ns), 1);
    for (size_t len = 1; len <= sizeof(big); len *= sizeof(big)) { /* one frame, and several */
        bad_syncs = 1;
        ck_assert_int_eq(journal(ns, 2, big, len), EIO);
        ck_assert_int_eq(bad_syncs, 0);
        ck_assert_uint_eq(rows_after_kill(ns), 1);
        ck_assert_int_eq(resume(), 0);
        if (len == sizeof(big))
            break;
    }
    bad_syncs = -1;
    ck_assert_int_eq(journal(ns, 2, "b", 1), KVS_STORAGE_UNKNOWN);
    ck_assert_int_eq(journal(ns, 3, "c", 1), EIO);
    bad_syncs = 0;
    ck_assert_int_eq(resume(), 0);
    ck_assert_uint_eq(count(KVS_STORAGE_ROWS, ns, 0, &rec, NULL), 1);
    ck_assert_int_eq(journal(ns, 2, "d", 1), 0);
    ck_assert_uint_eq(rows_after_kill(ns), 2);
}
END_TEST

/* The directory was removed under the session, and one of the steps that make all durable again
 * fails: what is not durable is refused, and it is all done again the next time. */
START_TEST(removed_and_sync_fails)
{
    struct kvs_storage_req q;
    uint64_t version = 0;
    bool failed = true;

    ck_assert_int_eq(open_storage("sha256", &q), 0);
    uint32_t ns = create_ns("primary");
    for (int step = 0; failed; step++) {
        ck_assert_int_lt(step, 50);
        ck_assert_int_eq(dir_remove_tree(dir), 0);
        good_syncs = step;
        bad_syncs = 1;
        failed = journal(ns, ++version, "a", 1) != 0;
        bad_syncs = good_syncs = 0;
        if (failed) {
            ck_assert_int_eq(resume(), 0);
            ck_assert_int_eq(journal(ns, version, "b", 1), 0);
        }
        ck_assert_uint_eq(rows_after_kill(ns), version);
    }
}
END_TEST

static void settle(void)
{
    for (int i = 0; i < 1000 && D->busy(s); i++)
        poll(NULL, 0, 10);
    ck_assert(!D->busy(s));
}

/* Space comes back to the file system: rows, objects, namespaces, the log. */
START_TEST(space)
{
    static char big[100000];
    struct kvs_storage_req q;
    struct kvs_storage_stats before, most, after;
    unsigned version = 0;

    ck_assert_int_eq(open_storage("sha256", &q), 0);
    uint32_t ns = create_ns("primary"), gone = create_ns("gone");
    settle();
    D->stats(s, &before);
    for (int i = 0; i < 100; i++) {
        ck_assert_int_eq(journal(ns, ++version, big, sizeof(big)), 0);
        ck_assert_int_eq(journal(gone, version, big, sizeof(big)), 0);
        ck_assert_int_eq(store(ns, KVS_STORAGE_STORE, version, big, sizeof(big), true), 0);
        ck_assert_int_eq(store(gone, KVS_STORAGE_STORE, version, big, sizeof(big), i & 1), 0);
    }
    settle();
    D->stats(s, &most);
    ck_assert_uint_gt(most.file_bytes, 40000000);
    ck_assert_uint_lt(most.wal_bytes, 8000000);
    for (unsigned i = 1; i <= version; i++)
        ck_assert_int_eq(store(ns, KVS_STORAGE_DELETE, i, NULL, 0, true), 0);
    q = (struct kvs_storage_req){.op = KVS_STORAGE_REMOVE, .ns = gone};
    ck_assert_int_eq(call(&q), 0);
    q = (struct kvs_storage_req){
        .op = KVS_STORAGE_CHECKPOINT, .ns = ns, .version = version, .root = digest(1)};
    ck_assert_int_eq(call(&q), 0);
    settle();
    D->stats(s, &after);
    ck_assert_uint_le(after.file_bytes, before.file_bytes + 100000);
    ck_assert_uint_le(after.wal_bytes, 5000000);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("content_sqlite");

    tcase_set_timeout(tc, 60);
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, comes_back);
    tcase_add_test(tc, one_sync);
    tcase_add_test(tc, groups);
    tcase_add_test(tc, back_pressure);
    tcase_add_test(tc, end_in_order);
    tcase_add_test(tc, killed);
    tcase_add_test(tc, locked);
    tcase_add_test(tc, wrong_file);
    tcase_add_test(tc, damaged);
    tcase_add_test(tc, no_room_left);
    tcase_add_test(tc, sync_fails);
    tcase_add_test(tc, removed_and_sync_fails);
    tcase_add_test(tc, space);
    return run_case("content_sqlite", tc);
}

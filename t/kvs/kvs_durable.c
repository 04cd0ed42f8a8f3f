/* kvs_durable.c - commits that must survive, and the check that they did.
 *
 *    kvs_durable run DIR SEED CLIENTS [COMMITS]   check, then commit, for ever or so often
 *    kvs_durable check DIR SEED CLIENTS           check only
 *
 * Each client is a process.  What its commit number n does is a function of the seed, the client
 * and n, so what its part of the store has to look like after n commits can be computed.  In
 * DIR/CLIENT it keeps two numbers: of the last commit that it sent, and of the last that was
 * acknowledged; they are written before it sends, and before it goes on, and stay when it is
 * killed.  Each commit puts its number into key `seq`, along with the rest of it.  The check reads
 * that number, s: it has to be between the acknowledged and the sent one, and all that the client
 * has must be what it is after s commits.
 *
 * Even clients use the primary namespace, odd ones have one of their own.  Client 0 has one commit
 * under way, the others several.
 *
 * When client 0 has checked and begins to commit, the file DIR/working is made.  A check that
 * fails writes a sentence to DIR/failed and on standard error; exit code 1.
 */
#include "config.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "libflux/flux.h"
#include "libkvs/kvs.h"

#define KEYS 12
#define LOG_MAX 64 /* commits between removals of the log */
#define WINDOW 8
#define VALUE_MAX 120000

struct value {
    uint64_t origin; /* commit that made it; 0: there is none */
    size_t len;
};

struct model {
    struct value k[KEYS];
    uint64_t log[LOG_MAX];
    size_t nlog;
    uint64_t m; /* commit that wrote m.a, m.b, m.c */
    int link;   /* key that `l` leads to, or -1 */
};

struct client {
    unsigned id;
    uint64_t seed;
    const char *dir;
    const char *ns;
    char nsbuf[16];
    int fd;
    struct {
        uint64_t sent, acked, made;
    } rec;
    flux_t *h;
    struct model model;
};

static char buf[VALUE_MAX + 16], want[LOG_MAX * 9000 + VALUE_MAX];

/* Add to a file in the directory. */
static void note(const struct client *c, const char *name, const char *text)
{
    char path[300];

    snprintf(path, sizeof(path), "%s/%s", c->dir, name);
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND, 0600);
    if (fd >= 0) {
        (void)!write(fd, text, strlen(text));
        close(fd);
    }
}

__attribute__((format(printf, 2, 3), noreturn)) static void fail(const struct client *c,
                                                                 const char *fmt, ...)
{
    char text[512];
    va_list ap;
    int n = snprintf(text, 64, "client %u: ", c->id);

    va_start(ap, fmt);
    vsnprintf(text + n, sizeof(text) - 80, fmt, ap);
    va_end(ap);
    strcat(text, "\n");
    note(c, "failed", text);
    fputs(text, stderr);
    _exit(1);
}

/* The session is gone: that is what we are here for. */
static void lost(void)
{
    _exit(0);
}

static void check_future(const struct client *c, flux_future_t *f, const char *what)
{
    if (!f)
        lost();
    (void)flux_future_wait(f, -1.);
    int errnum = flux_future_errnum(f);
    if (errnum == EPIPE || errnum == ECONNRESET || errnum == EHOSTUNREACH ||
        errnum == ECONNABORTED || errnum == ENOSYS)
        lost();
    if (errnum)
        fail(c, "%s: %s", what, flux_future_error(f));
}

/* --- what commit n does --- */

static uint64_t mix(uint64_t x)
{
    x ^= x >> 33;
    x *= UINT64_C(0xff51afd7ed558ccd);
    x ^= x >> 33;
    x *= UINT64_C(0xc4ceb9fe1a85ec53);
    return x ^ x >> 33;
}

static uint64_t dice(const struct client *c, uint64_t n, unsigned what)
{
    return mix(c->seed * 1000003 + c->id * 7919 + n * 64 + what);
}

static void fill(char *p, const struct client *c, uint64_t origin, size_t len)
{
    int n = snprintf(p, 64, "%u.%" PRIu64 ".", c->id, origin);

    for (size_t i = (size_t)n; i < len; i++)
        p[i] = (char)(origin * 31 + i * 7 + (i >> 8));
}

static const char *key(const struct client *c, const char *name, int i)
{
    static char bufs[4][64];
    static unsigned turn;
    char *p = bufs[turn++ % 4];

    if (i >= 0)
        snprintf(p, 64, "c%u.%s%d", c->id, name, i);
    else
        snprintf(p, 64, "c%u.%s", c->id, name);
    return p;
}

static size_t log_len(const struct client *c, uint64_t n)
{
    return dice(c, n, 5) % 6 == 0 ? 9000 : 40;
}

static flux_future_t *store(struct client *c, size_t len)
{
    return flux_kvs_store(c->h, c->ns, buf, len);
}

static void put_chunks(struct client *c, flux_kvs_txn_t *txn, const char *k, size_t len)
{
    flux_future_t *f = store(c, len);
    const uint8_t *digests;
    size_t n, dsize;

    check_future(c, f, "store");
    if (flux_kvs_store_get(f, &digests, &n, &dsize, NULL) < 0 ||
        flux_kvs_txn_put_chunks(txn, k, len, digests, n, dsize, NULL) < 0)
        fail(c, "chunks cannot be put");
    flux_future_destroy(f);
}

/* Advance the model by commit n; put it into the transaction if there is one. */
static void step(struct client *c, uint64_t n, flux_kvs_txn_t *txn)
{
    struct model *m = &c->model;
    int i = (int)(dice(c, n, 1) % KEYS), j = (int)(dice(c, n, 2) % KEYS);
    unsigned op = dice(c, n, 3) % 18;
    size_t len = 1;
    char text[32];
    int rc = 0;

    if (op >= 10 && op <= 11 && (!m->k[i].origin || i == j))
        op = 0;
    switch (op) {
    case 10:
    case 11: /* move, copy */
        if (txn && m->k[j].origin)
            rc |= flux_kvs_txn_unlink(txn, key(c, "k", j), 0, NULL);
        if (txn)
            rc |= op == 10 ? flux_kvs_txn_move(txn, key(c, "k", i), key(c, "k", j), NULL)
                           : flux_kvs_txn_copy(txn, key(c, "k", i), key(c, "k", j), NULL);
        m->k[j] = m->k[i];
        if (op == 10)
            m->k[i].origin = 0;
        break;
    case 9:
        if (txn)
            rc |= flux_kvs_txn_unlink(txn, key(c, "k", i), 0, NULL);
        m->k[i].origin = 0;
        break;
    case 7:
    case 8:
    case 12: /* append */
        if (m->nlog == LOG_MAX) {
            if (txn)
                rc |= flux_kvs_txn_unlink(txn, key(c, "log", -1), 0, NULL);
            m->nlog = 0;
        }
        m->log[m->nlog++] = n;
        if (txn)
            fill(buf, c, n, log_len(c, n));
        if (txn)
            rc |= flux_kvs_txn_append(txn, key(c, "log", -1), buf, log_len(c, n), NULL);
        break;
    case 13:
        snprintf(text, sizeof(text), "%" PRIu64, n);
        if (txn)
            rc |= flux_kvs_txn_put(txn, key(c, "m.a", -1), text, NULL) |
                  flux_kvs_txn_put(txn, key(c, "m.d.b", -1), text, NULL) |
                  flux_kvs_txn_put(txn, key(c, "m.c", -1), text, NULL);
        m->m = n;
        break;
    case 14:
        if (txn)
            rc |= flux_kvs_txn_symlink(txn, key(c, "l", -1), key(c, "k", i), NULL);
        m->link = i;
        break;
    default: /* put: small, middling, large, in chunks */
        len = op < 4 ? 12 + dice(c, n, 4) % 200 : 300 + dice(c, n, 4) % 5000;
        if (op >= 15)
            len = 33000 + dice(c, n, 4) % (VALUE_MAX - 33000);
        if (txn)
            fill(buf, c, n, len);
        if (txn && !m->k[i].origin)
            rc |= flux_kvs_txn_guard(txn, key(c, "k", i), NULL, NULL);
        if (txn && op == 17)
            put_chunks(c, txn, key(c, "k", i), len);
        else if (txn)
            rc |= flux_kvs_txn_put_raw(txn, key(c, "k", i), buf, len, NULL);
        m->k[i] = (struct value){n, len};
        break;
    }
    snprintf(text, sizeof(text), "%" PRIu64, n);
    if (txn)
        rc |= flux_kvs_txn_put(txn, key(c, "seq", -1), text, NULL);
    if (rc)
        fail(c, "commit %" PRIu64 " cannot be made", n);
}

/* --- the check --- */

/* NULL: it is not there. */
static const char *look(struct client *c, const char *k, int flags, size_t *len, flux_future_t **f)
{
    const char *data;
    errmsg_t err;

    *f = flux_kvs_lookup(c->h, c->ns, k, flags, NULL);
    if (!*f)
        lost();
    (void)flux_future_wait(*f, -1.);
    if (flux_kvs_lookup_get(*f, &data, len, &err) == 0)
        return data;
    if (errno == ENOENT && !strstr(err.text, "namespace"))
        return NULL;
    check_future(c, *f, k);
    return NULL;
}

static void same(struct client *c, uint64_t s, const char *k, int flags, const char *w, size_t wlen)
{
    flux_future_t *f;
    size_t len = 0;
    const char *got = look(c, k, flags, &len, &f);

    if (!w && got)
        fail(c, "after commit %" PRIu64 ": %s is there, and should not be", s, k);
    if (w && !got)
        fail(c, "after commit %" PRIu64 ": %s is not there", s, k);
    if (w && (len != wlen || memcmp(got, w, len) != 0))
        fail(c, "after commit %" PRIu64 ": %s is another (%zu bytes '%.12s', not %zu '%.12s')", s,
             k, len, got, wlen, w);
    flux_future_destroy(f);
}

static uint64_t check(struct client *c)
{
    struct model *m = &c->model;
    flux_future_t *f;
    char text[32];
    size_t len;
    const char *got = look(c, key(c, "seq", -1), 0, &len, &f);
    uint64_t s = got ? strtoull(got, NULL, 10) : 0;

    flux_future_destroy(f);
    if (s < c->rec.acked || s > c->rec.sent)
        fail(c, "commit %" PRIu64 " was acknowledged, %" PRIu64 " sent; %" PRIu64 " is there",
             c->rec.acked, c->rec.sent, s);
    memset(m, 0, sizeof(*m));
    m->link = -1;
    for (uint64_t n = 1; n <= s; n++)
        step(c, n, NULL);
    for (int i = 0; i < KEYS; i++) {
        if (m->k[i].origin)
            fill(want, c, m->k[i].origin, m->k[i].len);
        same(c, s, key(c, "k", i), 0, m->k[i].origin ? want : NULL, m->k[i].len);
    }
    len = 0;
    for (size_t i = 0; i < m->nlog; i++) {
        fill(want + len, c, m->log[i], log_len(c, m->log[i]));
        len += log_len(c, m->log[i]);
    }
    same(c, s, key(c, "log", -1), 0, m->nlog ? want : NULL, len);
    snprintf(text, sizeof(text), "%" PRIu64, m->m);
    same(c, s, key(c, "m.a", -1), 0, m->m ? text : NULL, strlen(text));
    same(c, s, key(c, "m.d.b", -1), 0, m->m ? text : NULL, strlen(text));
    same(c, s, key(c, "m.c", -1), 0, m->m ? text : NULL, strlen(text));
    if (m->link >= 0)
        same(c, s, key(c, "l", -1), FLUX_KVS_READLINK, key(c, "k", m->link),
             strlen(key(c, "k", m->link)));
    return s;
}

/* --- the work --- */

static void record(struct client *c)
{
    if (pwrite(c->fd, &c->rec, sizeof(c->rec), 0) != sizeof(c->rec))
        fail(c, "cannot write %s/%u: %s", c->dir, c->id, strerror(errno));
}

static void work(struct client *c, uint64_t n, uint64_t commits)
{
    flux_future_t *window[WINDOW] = {NULL};
    uint64_t size = c->id == 0 ? 1 : WINDOW, first = n + 1;

    for (uint64_t end = n + commits + size; ++n <= end;) {
        flux_future_t **slot = &window[n % size];
        if (*slot) {
            check_future(c, *slot, "commit");
            flux_future_destroy(*slot);
            *slot = NULL;
            c->rec.acked = n - size;
            record(c);
        }
        if (n - first >= commits)
            continue;
        flux_kvs_txn_t *txn = flux_kvs_txn_create();
        c->rec.sent = n;
        record(c);
        step(c, n, txn);
        *slot = flux_kvs_commit(c->h, c->ns, txn);
        flux_kvs_txn_destroy(txn);
    }
}

static void make_ns(struct client *c)
{
    flux_future_t *f;
    errmsg_t err;

    if (c->id % 2 == 0)
        return;
    snprintf(c->nsbuf, sizeof(c->nsbuf), "own%u", c->id);
    c->ns = c->nsbuf;
    f = flux_kvs_namespace_create(c->h, c->ns, FLUX_KVS_OWNER_SELF, 0);
    if (!f)
        lost();
    if (flux_future_wait(f, -1.) < 0 || flux_rpc_get(f, &err) < 0) {
        if (flux_future_errnum(f) != EEXIST)
            check_future(c, f, "namespace");
    } else if (c->rec.made) {
        fail(c, "namespace %s is not there any more", c->ns);
    }
    flux_future_destroy(f);
    c->rec.made = 1;
    record(c);
}

static void client(struct client *c, bool working, uint64_t commits)
{
    char path[300];
    errmsg_t err;

    snprintf(path, sizeof(path), "%s/%u", c->dir, c->id);
    if ((c->fd = open(path, O_RDWR | O_CREAT, 0600)) < 0 ||
        pread(c->fd, &c->rec, sizeof(c->rec), 0) < 0)
        fail(c, "cannot open %s: %s", path, strerror(errno));
    if (!(c->h = flux_open(NULL, NULL, &err)))
        lost();
    make_ns(c);
    uint64_t n = check(c);
    c->rec.sent = c->rec.acked = n;
    record(c);
    if (working) {
        if (c->id == 0)
            note(c, "working", "");
        work(c, n, commits);
    }
    flux_close(c->h);
    _exit(0);
}

int main(int argc, char **argv)
{
    struct client c = {.dir = argc > 2 ? argv[2] : NULL};
    unsigned clients;
    int status, rc = 0;

    if (argc < 5) {
        fputs("usage: kvs_durable run|check DIR SEED CLIENTS [COMMITS]\n", stderr);
        return 2;
    }
    c.seed = strtoull(argv[3], NULL, 10);
    clients = (unsigned)strtoul(argv[4], NULL, 10);
    for (c.id = 0; c.id < clients; c.id++) {
        if (fork() == 0)
            client(&c, strcmp(argv[1], "run") == 0,
                   argc > 5 ? strtoull(argv[5], NULL, 10) : 1u << 30);
    }
    while (wait(&status) > 0)
        rc |= status != 0;
    return rc;
}

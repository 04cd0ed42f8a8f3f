/* bench_client.c - what clients of other servers share, and the client of the key-value store.
 *
 * A socket is written to at once, with one system call for an operation, and read when the reactor
 * says so: what a plain client in an event loop does.
 */
#include "config.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bench.h"
#include "bench_client.h"
#include "libkvs/kvs.h"

#define IN_MIN 65536

/* --- sockets --- */

static void in_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    struct bench_sock *s = arg;
    size_t used = 0;
    size_t step;
    ssize_t n;

    if (s->cap - s->len < IN_MIN) {
        s->cap = s->cap * 2 + 2 * IN_MIN;
        if (!(s->in = realloc(s->in, s->cap)))
            bench_die("out of memory");
    }
    n = recv(s->fd, s->in + s->len, s->cap - s->len, MSG_DONTWAIT);
    if (n < 0 && errno == EAGAIN)
        return;
    if (n <= 0)
        bench_die("a server has closed a connection: %s", n < 0 ? strerror(errno) : "end of file");
    s->len += (size_t)n;
    while (used < s->len && (step = s->parse(s->arg, s->in + used, s->len - used)) > 0)
        used += step;
    memmove(s->in, s->in + used, s->len - used);
    s->len -= used;
}

void bench_sock_open(struct bench_sock *s, flux_reactor_t *r, int fd)
{
    s->fd = fd;
    if (!(s->w = flux_fd_watcher_create(r, fd, FLUX_POLLIN, in_cb, s)))
        bench_die("out of memory");
    flux_watcher_start(s->w);
}

void bench_sock_close(struct bench_sock *s)
{
    flux_watcher_destroy(s->w);
    close(s->fd);
    free(s->in);
}

void bench_sock_write(struct bench_sock *s, const void *data, size_t len)
{
    const char *p = data;

    while (len > 0) {
        ssize_t n = send(s->fd, p, len, MSG_NOSIGNAL);
        if (n < 0)
            bench_die("cannot write to a server: %s", strerror(errno));
        p += n;
        len -= (size_t)n;
    }
}

/* --- the key-value store --- */

struct bench_client {
    flux_t *h;
};

struct op {
    bench_done_f done;
    void *arg;
    size_t expect;
};

static struct op *op_new(size_t expect, bench_done_f done, void *arg)
{
    struct op *op = malloc(sizeof(*op));

    if (!op)
        bench_die("out of memory");
    *op = (struct op){done, arg, expect};
    return op;
}

static void op_done(struct op *op)
{
    bench_done_f done = op->done;
    void *arg = op->arg;

    free(op);
    done(arg);
}

static struct bench_client *flux_client_open(flux_reactor_t *r, const char *where)
{
    struct bench_client *c = calloc(1, sizeof(*c));
    errmsg_t err;

    if (!c)
        bench_die("out of memory");
    if (!(c->h = flux_open(where, r, &err)))
        bench_die("%s", err.text);
    return c;
}

static void flux_client_close(struct bench_client *c)
{
    flux_close(c->h);
    free(c);
}

static void got_cb(flux_future_t *f, void *arg)
{
    struct op *op = arg;
    const char *data;
    errmsg_t err;
    size_t len;

    if (flux_kvs_lookup_get(f, &data, &len, &err) < 0)
        bench_die("get: %s", err.text);
    if (len != op->expect)
        bench_die("get: %zu bytes, not %zu", len, op->expect);
    flux_future_destroy(f);
    op_done(op);
}

static void flux_client_get(struct bench_client *c, const char *key, size_t expect,
                            bench_done_f done, void *arg)
{
    flux_future_t *f = flux_kvs_lookup(c->h, NULL, key, 0, NULL);

    if (!f || flux_future_then(f, 0., got_cb, op_new(expect, done, arg)) < 0)
        bench_die("get: %s", strerror(errno));
}

static void committed_cb(flux_future_t *f, void *arg)
{
    errmsg_t err;

    if (flux_kvs_commit_get(f, NULL, NULL, &err) < 0)
        bench_die("commit: %s", err.text);
    flux_future_destroy(f);
    op_done(arg);
}

static void commit(struct bench_client *c, flux_kvs_txn_t *txn, bench_done_f done, void *arg)
{
    flux_future_t *f = flux_kvs_commit(c->h, NULL, txn);

    flux_kvs_txn_destroy(txn);
    if (!f || flux_future_then(f, 0., committed_cb, op_new(0, done, arg)) < 0)
        bench_die("commit: %s", strerror(errno));
}

static void flux_client_put(struct bench_client *c, const char *key, const char *value, size_t len,
                            bench_done_f done, void *arg)
{
    flux_kvs_txn_t *txn = flux_kvs_txn_create();
    errmsg_t err = {"out of memory"};

    if (!txn || flux_kvs_txn_put_raw(txn, key, value, len, &err) < 0)
        bench_die("put: %s", err.text);
    commit(c, txn, done, arg);
}

static void flux_client_put_many(struct bench_client *c, const char *prefix, unsigned n,
                                 unsigned value, bench_done_f done, void *arg)
{
    flux_kvs_txn_t *txn = flux_kvs_txn_create();
    errmsg_t err = {"out of memory"};
    char key[64];
    char text[16];

    for (unsigned i = 0; i < n; i++) {
        snprintf(key, sizeof(key), "%s%u", prefix, i);
        snprintf(text, sizeof(text), "%08x", value + i);
        if (!txn || flux_kvs_txn_put(txn, key, text, &err) < 0)
            bench_die("put: %s", err.text);
    }
    commit(c, txn, done, arg);
}

const struct bench_client_ops bench_flux = {
    .name = "flux",
    .open = flux_client_open,
    .get = flux_client_get,
    .put = flux_client_put,
    .put_many = flux_client_put_many,
    .close = flux_client_close,
};

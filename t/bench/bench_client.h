/* Clients of different servers, alike: each is one connection on the reactor of the process with
 * one operation under way (the one of flux may have more), and tells when that is done.
 *
 * A broken connection or an answer that says an error ends the benchmark with a sentence.
 */
#ifndef BENCH_CLIENT_H
#define BENCH_CLIENT_H

#include <stddef.h>

#include "libflux/reactor.h"

struct bench_client;
typedef void (*bench_done_f)(void *arg);

struct bench_client_ops {
    const char *name;
    /* `where`: path of a UNIX socket, port on the loopback, URI of a broker */
    struct bench_client *(*open)(flux_reactor_t *r, const char *where);
    /* Start an operation; done(arg) follows from the reactor.  `key` and `value` are copied. */
    void (*get)(struct bench_client *c, const char *key, size_t expect, bench_done_f done,
                void *arg);
    void (*put)(struct bench_client *c, const char *key, const char *value, size_t len,
                bench_done_f done, void *arg);
    /* `n` small values at once, keys PREFIX0 to PREFIX(n-1): done when all are there. */
    void (*put_many)(struct bench_client *c, const char *prefix, unsigned n, unsigned value,
                     bench_done_f done, void *arg);
    void (*close)(struct bench_client *c);
};
extern const struct bench_client_ops bench_flux;  /* bench_client.c */
extern const struct bench_client_ops bench_redis; /* bench_redis.c */
extern const struct bench_client_ops bench_etcd;  /* bench_etcd.c: put only */

/* A stream socket with a buffer for what comes in, for those that speak a protocol themselves. */
struct bench_sock {
    int fd;
    flux_watcher_t *w;
    char *in;
    size_t len;
    size_t cap;
    /* Bytes used of `in`; 0: more are needed. */
    size_t (*parse)(void *arg, const char *in, size_t len);
    void *arg;
};
void bench_sock_open(struct bench_sock *s, flux_reactor_t *r, int fd);
void bench_sock_close(struct bench_sock *s);
/* Blocks only when the other end does not read. */
void bench_sock_write(struct bench_sock *s, const void *data, size_t len);

#endif

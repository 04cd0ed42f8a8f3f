/* bench_redis.c - a client of Redis on a UNIX socket (RESP 2): GET and SET, one at a time, and many
 * SET at once for what a batch costs there. */
#include "config.h"
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "bench.h"
#include "bench_client.h"

struct bench_client {
    struct bench_sock sock;
    char *out;
    size_t cap;
    unsigned waiting; /* answers */
    size_t expect;    /* bytes of each; SIZE_MAX: "+OK" */
    bench_done_f done;
    void *arg;
};

static void answered(struct bench_client *c, size_t len)
{
    if (c->waiting == 0 || len != c->expect)
        bench_die("Redis has sent an answer that nobody asked for");
    if (--c->waiting == 0)
        c->done(c->arg);
}

static size_t parse(void *arg, const char *in, size_t len)
{
    struct bench_client *c = arg;
    const char *end = memchr(in, '\n', len);
    size_t line = end ? (size_t)(end - in) + 1 : 0;
    size_t n;

    if (line == 0)
        return 0;
    if (in[0] == '+') {
        answered(c, SIZE_MAX);
        return line;
    }
    if (in[0] != '$' || in[1] == '-')
        bench_die("Redis says: %.*s", (int)line, in);
    n = strtoul(in + 1, NULL, 10);
    if (len < line + n + 2)
        return 0;
    answered(c, n);
    return line + n + 2;
}

static struct bench_client *redis_open(flux_reactor_t *r, const char *where)
{
    struct bench_client *c = calloc(1, sizeof(*c));
    struct sockaddr_un sun = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (!c)
        bench_die("out of memory");
    snprintf(sun.sun_path, sizeof(sun.sun_path), "%s", where);
    if (fd < 0 || connect(fd, (struct sockaddr *)&sun, sizeof(sun)) < 0)
        bench_die("cannot connect to %s: %s", where, strerror(errno));
    c->sock.parse = parse;
    c->sock.arg = c;
    bench_sock_open(&c->sock, r, fd);
    return c;
}

static void redis_close(struct bench_client *c)
{
    bench_sock_close(&c->sock);
    free(c->out);
    free(c);
}

static char *room(struct bench_client *c, size_t len)
{
    if (len > c->cap) {
        free(c->out);
        c->cap = len;
        if (!(c->out = malloc(len)))
            bench_die("out of memory");
    }
    return c->out;
}

static void expect(struct bench_client *c, unsigned n, size_t bytes, bench_done_f done, void *arg)
{
    c->waiting = n;
    c->expect = bytes;
    c->done = done;
    c->arg = arg;
}

static size_t add_set(char *p, const char *key, const char *value, size_t len)
{
    size_t n =
        (size_t)sprintf(p, "*3\r\n$3\r\nSET\r\n$%zu\r\n%s\r\n$%zu\r\n", strlen(key), key, len);

    memcpy(p + n, value, len);
    memcpy(p + n + len, "\r\n", 2);
    return n + len + 2;
}

static void redis_get(struct bench_client *c, const char *key, size_t bytes, bench_done_f done,
                      void *arg)
{
    char *p = room(c, strlen(key) + 64);
    int n = sprintf(p, "*2\r\n$3\r\nGET\r\n$%zu\r\n%s\r\n", strlen(key), key);

    expect(c, 1, bytes, done, arg);
    bench_sock_write(&c->sock, p, (size_t)n);
}

static void redis_put(struct bench_client *c, const char *key, const char *value, size_t len,
                      bench_done_f done, void *arg)
{
    char *p = room(c, strlen(key) + len + 128);

    expect(c, 1, SIZE_MAX, done, arg);
    bench_sock_write(&c->sock, p, add_set(p, key, value, len));
}

static void redis_put_many(struct bench_client *c, const char *prefix, unsigned n, unsigned value,
                           bench_done_f done, void *arg)
{
    char *begin = room(c, n * (strlen(prefix) + 128));
    char *p = begin;
    char key[64];
    char text[16];

    for (unsigned i = 0; i < n; i++) {
        snprintf(key, sizeof(key), "%s%u", prefix, i);
        snprintf(text, sizeof(text), "%08x", value + i);
        p += add_set(p, key, text, 8);
    }
    expect(c, n, SIZE_MAX, done, arg);
    bench_sock_write(&c->sock, begin, (size_t)(p - begin));
}

const struct bench_client_ops bench_redis = {
    .name = "Redis",
    .open = redis_open,
    .get = redis_get,
    .put = redis_put,
    .put_many = redis_put_many,
    .close = redis_close,
};

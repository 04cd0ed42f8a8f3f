/* bench_etcd.c - a client of etcd: Put by gRPC, as etcd's own clients send it, over TCP on the
 * loopback.
 *
 * As much of HTTP/2 (RFC 9113) as one unary call at a time takes: preface, SETTINGS, and for each
 * call HEADERS and DATA on a stream of its own; header fields go literally (RFC 7541, 6.2.2), and
 * those of the answer are ignored: an answer with a message in it is a success, one with
 * trailers alone an error.  Flow control: the window for what comes is opened widely once; a
 * call's bytes stay far below the window that the server gives and renews.
 */
#include "config.h"
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "bench.h"
#include "bench_client.h"

enum { DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH, PING, GOAWAY, WINDOW_UPDATE };
#define END_STREAM 1
#define ACK 1
#define END_HEADERS 4
#define FRAME_HEAD 9
#define OUT_MAX (48 * 1024)
#define VALUE_MAX (32 * 1024)

struct bench_client {
    struct bench_sock sock;
    uint32_t stream; /* of the call under way */
    bool message;    /* came for it */
    uint8_t headers[256];
    size_t headers_len;
    bench_done_f done;
    void *arg;
    uint8_t out[OUT_MAX];
};

static uint8_t *frame(uint8_t *p, size_t len, uint8_t type, uint8_t flags, uint32_t stream)
{
    uint8_t head[FRAME_HEAD] = {
        (uint8_t)(len >> 16),
        (uint8_t)(len >> 8),
        (uint8_t)len,
        type,
        flags,
        (uint8_t)(stream >> 24),
        (uint8_t)(stream >> 16),
        (uint8_t)(stream >> 8),
        (uint8_t)stream,
    };

    memcpy(p, head, sizeof(head));
    return p + sizeof(head);
}

static uint8_t *add_string(uint8_t *p, const char *s)
{
    *p++ = (uint8_t)strlen(s); /* less than 127: one byte */
    return mempcpy(p, s, strlen(s));
}

static void make_headers(struct bench_client *c, const char *port)
{
    char authority[32];
    const char *const fields[][2] = {
        {":method", "POST"},       {":scheme", "http"}, {":path", "/etcdserverpb.KV/Put"},
        {":authority", authority}, {"te", "trailers"},  {"content-type", "application/grpc"},
    };
    uint8_t *p = c->headers;

    snprintf(authority, sizeof(authority), "127.0.0.1:%s", port);
    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
        *p++ = 0; /* literal, not indexed, new name */
        p = add_string(p, fields[i][0]);
        p = add_string(p, fields[i][1]);
    }
    c->headers_len = (size_t)(p - c->headers);
}

static void answered(struct bench_client *c)
{
    if (!c->message)
        bench_die("etcd has refused a put");
    c->message = false;
    c->stream += 2;
    c->done(c->arg);
}

static size_t parse(void *arg, const char *in, size_t len)
{
    struct bench_client *c = arg;
    const uint8_t *p = (const uint8_t *)in;
    uint8_t out[FRAME_HEAD + 8];
    size_t size;

    if (len < FRAME_HEAD)
        return 0;
    size = FRAME_HEAD + ((size_t)p[0] << 16 | (size_t)p[1] << 8 | p[2]);
    if (len < size)
        return 0;
    switch (p[3]) {
    case DATA:
        c->message = true;
        break;
    case HEADERS:
        if (p[4] & END_STREAM)
            answered(c);
        break;
    case SETTINGS:
        if (!(p[4] & ACK))
            bench_sock_write(&c->sock, out, (size_t)(frame(out, 0, SETTINGS, ACK, 0) - out));
        break;
    case PING:
        if (!(p[4] & ACK) && size == FRAME_HEAD + 8) {
            memcpy(frame(out, 8, PING, ACK, 0), p + FRAME_HEAD, 8);
            bench_sock_write(&c->sock, out, sizeof(out));
        }
        break;
    case RST_STREAM:
    case GOAWAY:
        bench_die("etcd has ended a connection");
    default:
        break;
    }
    return size;
}

static struct bench_client *etcd_open(flux_reactor_t *r, const char *where)
{
    static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    static const uint8_t window[4] = {0x3f, 0xff, 0, 0};
    struct bench_client *c = calloc(1, sizeof(*c));
    struct sockaddr_in sin = {.sin_family = AF_INET};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int one = 1;
    uint8_t *p;

    if (!c)
        bench_die("out of memory");
    sin.sin_port = htons((uint16_t)atoi(where));
    sin.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (fd < 0 || connect(fd, (struct sockaddr *)&sin, sizeof(sin)) < 0 ||
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)) < 0)
        bench_die("cannot connect to port %s: %s", where, strerror(errno));
    c->stream = 1;
    make_headers(c, where);
    c->sock.parse = parse;
    c->sock.arg = c;
    bench_sock_open(&c->sock, r, fd);
    p = mempcpy(c->out, preface, sizeof(preface) - 1);
    p = frame(p, 0, SETTINGS, 0, 0);
    p = mempcpy(frame(p, sizeof(window), WINDOW_UPDATE, 0, 0), window, sizeof(window));
    bench_sock_write(&c->sock, c->out, (size_t)(p - c->out));
    return c;
}

static void etcd_close(struct bench_client *c)
{
    bench_sock_close(&c->sock);
    free(c);
}

static uint8_t *add_varint(uint8_t *p, size_t v)
{
    for (; v >= 0x80; v >>= 7)
        *p++ = (uint8_t)(v | 0x80);
    *p++ = (uint8_t)v;
    return p;
}

static uint8_t *add_bytes(uint8_t *p, unsigned field, const char *data, size_t len)
{
    *p++ = (uint8_t)(field << 3 | 2);
    return mempcpy(add_varint(p, len), data, len);
}

/* etcdserverpb.PutRequest: bytes key = 1, bytes value = 2. */
static void etcd_put(struct bench_client *c, const char *key, const char *value, size_t len,
                     bench_done_f done, void *arg)
{
    static const size_t max_frame = 16384;
    uint8_t *p = frame(c->out, c->headers_len, HEADERS, END_HEADERS, c->stream);
    uint8_t body[VALUE_MAX + 512];
    uint8_t *end = body + 5; /* gRPC: not compressed, length */
    uint32_t n;

    if (len > VALUE_MAX || strlen(key) > 256)
        bench_die("too much for one put");
    c->done = done;
    c->arg = arg;
    p = mempcpy(p, c->headers, c->headers_len);
    end = add_bytes(end, 1, key, strlen(key));
    end = add_bytes(end, 2, value, len);
    n = htonl((uint32_t)(end - body - 5));
    body[0] = 0;
    memcpy(body + 1, &n, 4);
    for (const uint8_t *b = body; b < end;) {
        size_t part = (size_t)(end - b) > max_frame ? max_frame : (size_t)(end - b);
        bool last = b + part == end;
        p = mempcpy(frame(p, part, DATA, last ? END_STREAM : 0, c->stream), b, part);
        b += part;
    }
    bench_sock_write(&c->sock, c->out, (size_t)(p - c->out));
}

const struct bench_client_ops bench_etcd = {
    .name = "etcd",
    .open = etcd_open,
    .put = etcd_put,
    .close = etcd_close,
};

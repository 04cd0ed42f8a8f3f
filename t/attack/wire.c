/* wire.c - frames and connections of the hostile client. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "wire.h"

void put(uint8_t *p, uint64_t v, int bytes)
{
    for (int i = 0; i < bytes; i++)
        p[i] = (uint8_t)(v >> (8 * i));
}

uint64_t get(const uint8_t *p, int bytes)
{
    uint64_t v = 0;

    for (int i = 0; i < bytes; i++)
        v |= (uint64_t)p[i] << (8 * i);
    return v;
}

uint8_t *encode(const struct frame *f, size_t *len)
{
    size_t topic = strlen(f->topic);
    uint8_t *buf = calloc(1, *len = HEADER + 4 * (size_t)f->routes + topic + f->len);

    if (!buf)
        exit(3);
    buf[0] = 0xf1;
    buf[1] = 2;
    buf[2] = f->type;
    buf[3] = f->flags;
    put(buf + 4, f->userid, 4);
    put(buf + 8, f->roles, 4);
    put(buf + 12, f->nodeid, 4);
    put(buf + 16, f->tag, 4);
    put(buf + 20, f->errnum, 4);
    put(buf + 24, f->seq, 8);
    put(buf + 32, topic, 2);
    put(buf + 34, f->routes, 2);
    put(buf + 36, f->len, 4);
    memcpy(buf + HEADER + 4 * (size_t)f->routes, f->topic, topic);
    if (f->len)
        memcpy(buf + HEADER + 4 * (size_t)f->routes + topic, f->payload, f->len);
    return buf;
}

int dial(const char *path)
{
    struct sockaddr_un sun = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    strcpy(sun.sun_path, path);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&sun, sizeof(sun)) < 0) {
        close(fd);
        return -1;
    }
    return fd;
}

/* All of it, unless the other end closes, or takes nothing for `ms`. */
bool send_bytes(int fd, const uint8_t *buf, size_t len, int ms)
{
    while (len > 0) {
        struct pollfd pfd = {.fd = fd, .events = POLLOUT};
        ssize_t n = send(fd, buf, len, MSG_NOSIGNAL | MSG_DONTWAIT);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && (errno != EAGAIN || poll(&pfd, 1, ms) <= 0))
            return false;
        if (n > 0) {
            buf += n;
            len -= (size_t)n;
        }
    }
    return true;
}

bool send_frame(int fd, const struct frame *f, int ms)
{
    size_t len;
    uint8_t *buf = encode(f, &len);
    bool ok = send_bytes(fd, buf, len, ms);

    free(buf);
    return ok;
}

bool read_bytes(int fd, void *buf, size_t len, int ms)
{
    uint8_t *p = buf;

    while (len > 0) {
        struct pollfd pfd = {.fd = fd, .events = POLLIN};
        ssize_t n;

        if (poll(&pfd, 1, ms) <= 0) {
            errno = ETIMEDOUT;
            return false;
        }
        if ((n = read(fd, p, len)) < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            errno = ECONNRESET;
            return false;
        }
        p += n;
        len -= (size_t)n;
    }
    return true;
}

/* The next message: its header, with the rest thrown away. */
bool read_header(int fd, uint8_t head[HEADER], int ms)
{
    uint8_t junk[4096];
    uint64_t rest;

    if (!read_bytes(fd, head, HEADER, ms))
        return false;
    rest = 4 * get(head + 34, 2) + get(head + 32, 2) + get(head + 36, 4);
    while (rest > 0) {
        size_t part = rest < sizeof(junk) ? (size_t)rest : sizeof(junk);

        if (!read_bytes(fd, junk, part, ms))
            return false;
        rest -= part;
    }
    return true;
}

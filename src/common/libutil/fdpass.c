/* fdpass.c - see the header. */
#include "libutil/fdpass.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>

union control {
    char buf[CMSG_SPACE(sizeof(int))];
    struct cmsghdr align;
};

ssize_t fdpass_send(int fd, const void *data, size_t len, int pass)
{
    union control u = {.buf = {0}};
    struct iovec iov = {(void *)data, len};
    struct msghdr m = {
        .msg_iov = &iov, .msg_iovlen = 1, .msg_control = u.buf, .msg_controllen = sizeof(u.buf)};
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);
    ssize_t n;

    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(c), &pass, sizeof(int));
    do
        n = sendmsg(fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT);
    while (n < 0 && errno == EINTR);
    return n;
}

/* *lost: a descriptor came, and this process may open no more. */
static ssize_t receive(int fd, void *data, size_t len, int *pass, int flags, bool *lost)
{
    union control u;
    struct iovec iov = {data, len};
    /* Not CMSG_SPACE(): its padding has room for a second one, which nobody would close. */
    struct msghdr m = {.msg_iov = &iov,
                       .msg_iovlen = 1,
                       .msg_control = u.buf,
                       .msg_controllen = CMSG_LEN(sizeof(int))};
    ssize_t n = recvmsg(fd, &m, flags | MSG_CMSG_CLOEXEC);
    struct cmsghdr *c = n > 0 ? CMSG_FIRSTHDR(&m) : NULL;

    *pass = -1;
    if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS &&
        c->cmsg_len == CMSG_LEN(sizeof(int)))
        memcpy(pass, CMSG_DATA(c), sizeof(int));
    *lost = n > 0 && *pass < 0 && (m.msg_flags & MSG_CTRUNC);
    return n;
}

ssize_t fdpass_recv(int fd, void *data, size_t len, int *pass, int flags)
{
    bool lost;
    ssize_t n = receive(fd, data, len, pass, flags, &lost);

    if (!lost)
        return n;
    errno = EMFILE;
    return -1;
}

ssize_t fdpass_recv_any(int fd, void *data, size_t len, int *pass, int flags)
{
    bool lost;

    return receive(fd, data, len, pass, flags, &lost);
}

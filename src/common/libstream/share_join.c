/* share_join.c - writers and readers at the relay of their host.
 *
 * The relay listens at a name in the abstract namespace of UNIX sockets, which contains the user;
 * the namespace is that of the network, so that hosts that are network namespaces have relays of
 * their own.  Requests have a fixed size (doc/stream-format.rst).
 *
 * The address of a writer is "share://TOKEN@IP:PORT": 16 hexadecimal digits, which the relay has
 * chosen at random, and where the relay listens for others.
 *
 * Failure: errno and a sentence.
 */
#include "config.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "libstream/share.h"
#include "libstream/share_private.h"
#include "libutil/fdutil.h"
#include "libutil/le.h"
#include "libutil/strutil.h"

#define TCP_PREFIX "tcp://"
#define ANSWER_SECONDS 10

void share_request_encode(const struct share_request *r, unsigned char *buf)
{
    memset(buf, 0, SHARE_REQUEST_LEN);
    memcpy(buf, SHARE_MAGIC, 8);
    le_put32(buf + 8, (uint32_t)r->kind);
    le_put64(buf + 16, r->token);
    memcpy(buf + 24, r->address, strlen(r->address));
}

int share_request_decode(const unsigned char *buf, struct share_request *r)
{
    uint32_t kind = le_get32(buf + 8);

    errno = EPROTO;
    if (memcmp(buf, SHARE_MAGIC, 8) != 0 || (kind != SHARE_REGISTER && kind != SHARE_CONNECT) ||
        le_get32(buf + 12) != 0 || buf[24 + FAR_ADDR_MAX - 1] != '\0')
        return -1;
    r->kind = (enum share_kind)kind;
    r->token = le_get64(buf + 16);
    memcpy(r->address, buf + 24, FAR_ADDR_MAX);
    return 0;
}

socklen_t share_name(struct sockaddr_un *sun)
{
    int n;

    memset(sun, 0, sizeof(*sun));
    sun->sun_family = AF_UNIX;
    n = snprintf(sun->sun_path + 1, sizeof(sun->sun_path) - 1, "flux-stream-relay-%u",
                 (unsigned)geteuid());
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
}

/* Connect to the relay, and send a request. */
static int ask(const struct share_request *r, errmsg_t *err)
{
    const struct timeval tv = {.tv_sec = ANSWER_SECONDS};
    unsigned char buf[SHARE_REQUEST_LEN];
    struct sockaddr_un sun;
    socklen_t len = share_name(&sun);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int saved;

    share_request_encode(r, buf);
    if (fd < 0)
        return errmsg_fail(err, errno, "cannot open a socket to the relay of this host: %s",
                           strerror(errno));
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv));
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &tv, sizeof(tv));
    if (connect(fd, (struct sockaddr *)&sun, len) < 0) {
        errmsg_fail(err, errno == ECONNREFUSED ? ENOENT : errno,
                    "connections are to be shared, and there is no relay on this host: start "
                    "'flux stream relay', or turn FLUX_STREAM_SHARE off");
        goto fail;
    }
    if (fd_check_peer(fd, "the relay of this host", err) < 0)
        goto fail;
    if (send(fd, buf, sizeof(buf), MSG_NOSIGNAL) == (ssize_t)sizeof(buf))
        return fd;
    errmsg_fail(err, errno, "cannot write to the relay of this host: %s", strerror(errno));
fail:
    saved = errno;
    close(fd);
    errno = saved;
    return -1;
}

static int nonblocking(int fd)
{
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
    return fd;
}

int share_register(char text[FAR_ADDR_MAX], errmsg_t *err)
{
    struct share_request r = {.kind = SHARE_REGISTER};
    unsigned char buf[SHARE_REQUEST_LEN];
    int fd = ask(&r, err);

    if (fd < 0)
        return -1;
    if (recv(fd, buf, sizeof(buf), MSG_WAITALL) != (ssize_t)sizeof(buf) ||
        share_request_decode(buf, &r) < 0 || !str_starts(r.address, TCP_PREFIX)) {
        close(fd);
        return errmsg_fail(err, EPROTO, "the relay of this host does not register the writer");
    }
    snprintf(text, FAR_ADDR_MAX, SHARE_PREFIX "%016" PRIx64 "@%.200s", r.token,
             r.address + strlen(TCP_PREFIX));
    return nonblocking(fd);
}

int share_connect(const char *text, errmsg_t *err)
{
    struct share_request r = {.kind = SHARE_CONNECT};
    const char *token = text + strlen(SHARE_PREFIX);
    char *end;
    int fd;

    if (!str_starts(text, SHARE_PREFIX) || strspn(token, "0123456789abcdef") != 16 ||
        token[16] != '@' || strlen(token) > 200)
        return errmsg_fail(err, EINVAL, "the address of a stream's writer is malformed: %.100s",
                           text);
    r.token = strtoull(token, &end, 16);
    snprintf(r.address, sizeof(r.address), TCP_PREFIX "%.200s", end + 1);
    if ((fd = ask(&r, err)) < 0)
        return -1;
    return nonblocking(fd);
}

/* far_addr.c - sockets between hosts.
 *
 * A writer publishes the addresses of its host that are up and not link-local, those of IPv4 first;
 * a reader tries them in this order, with an equal share of the timeout for each
 * (inlet_far_join.c).  Several hosts may have the same address, so another process may answer
 * there.
 *
 * A host that has crashed sends nothing.  On an idle connection the kernel probes the peer
 * (SO_KEEPALIVE).  While data are unacknowledged it would retransmit for a quarter of an hour;
 * TCP_USER_TIMEOUT shortens that, but would also end the connection of a reader that is stopped and
 * reads nothing, although its host answers.  So only readers, which send little, set it; writers
 * detect silence with far_addr_silent().
 *
 * Failure: errno and a sentence.
 */
#include "config.h"
#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <linux/tcp.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "libstream/far_addr.h"
#include "libutil/clock.h"
#include "libutil/strutil.h"

#define BACKLOG 128
#define PROBES 3 /* unanswered probes until a host counts as gone */
#define PREFIX "tcp://"

union address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
};

static socklen_t address_len(const union address *a)
{
    return a->any.sa_family == AF_INET ? sizeof(a->v4) : sizeof(a->v6);
}

/* --- listening --- */

/* Append an address to the text; false: there is no room. */
static bool text_add(char *text, const struct sockaddr *sa, unsigned port)
{
    const union address *a = (const union address *)(const void *)sa;
    bool v6 = sa->sa_family == AF_INET6;
    char host[INET6_ADDRSTRLEN];
    size_t len = strlen(text);
    int n;

    inet_ntop(sa->sa_family, v6 ? (const void *)&a->v6.sin6_addr : (const void *)&a->v4.sin_addr,
              host, sizeof(host));
    n = snprintf(text + len, FAR_ADDR_MAX - len, v6 ? "%s" PREFIX "[%s]:%u" : "%s" PREFIX "%s:%u",
                 len > 0 ? "," : "", host, port);
    if ((size_t)n < FAR_ADDR_MAX - len)
        return true;
    text[len] = '\0';
    return false;
}

static bool usable(const struct ifaddrs *ifa, const char *interface, int family, bool loopback)
{
    const union address *a = (const union address *)(const void *)ifa->ifa_addr;

    if (!a || a->any.sa_family != family || !(ifa->ifa_flags & IFF_UP) ||
        (family == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&a->v6.sin6_addr)))
        return false;
    if (interface)
        return strcmp(ifa->ifa_name, interface) == 0;
    return !(ifa->ifa_flags & IFF_LOOPBACK) == !loopback;
}

/* Write the addresses of this host; "" if there are none. */
static int text_of_host(char *text, const char *interface, unsigned port, bool v6, errmsg_t *err)
{
    struct ifaddrs *list;

    if (getifaddrs(&list) < 0)
        return errmsg_fail(err, errno, "cannot list network interfaces: %s", strerror(errno));
    for (int loopback = 0; loopback < 2 && !*text; loopback++) {
        for (int family = 0; family <= v6; family++) {
            for (struct ifaddrs *ifa = list; ifa; ifa = ifa->ifa_next) {
                if (usable(ifa, interface, family ? AF_INET6 : AF_INET, loopback) &&
                    !text_add(text, ifa->ifa_addr, port))
                    break;
            }
        }
    }
    freeifaddrs(list);
    return 0;
}

/* Listen on IPv6 and IPv4, or only on IPv4 if the kernel has no IPv6.  *port: 0, any one, which is
 * set. */
static int listen_any(bool *v6, unsigned *port)
{
    union address a = {.v6 = {.sin6_family = AF_INET6,
                              .sin6_addr = IN6ADDR_ANY_INIT,
                              .sin6_port = htons((uint16_t)*port)}};
    socklen_t len = sizeof(a);
    int off = 0;
    int on = 1;
    int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    /* Old connections are not in the way of far_addr_listen_again(). */
    *v6 = fd >= 0 && setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off)) == 0 &&
          setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) == 0 &&
          bind(fd, &a.any, sizeof(a.v6)) == 0;
    if (!*v6) {
        if (fd >= 0)
            close(fd);
        a.v4 = (struct sockaddr_in){.sin_family = AF_INET,
                                    .sin_addr = {htonl(INADDR_ANY)},
                                    .sin_port = htons((uint16_t)*port)};
        fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0 ||
            bind(fd, &a.any, sizeof(a.v4)) < 0)
            goto fail;
    }
    if (listen(fd, BACKLOG) < 0 || getsockname(fd, &a.any, &len) < 0)
        goto fail;
    *port = ntohs(*v6 ? a.v6.sin6_port : a.v4.sin_port);
    return fd;
fail:
    if (fd >= 0) {
        int saved = errno;

        close(fd);
        errno = saved;
    }
    return -1;
}

bool far_addr_is_ip(const char *text)
{
    struct in6_addr any;

    return inet_pton(strchr(text, ':') ? AF_INET6 : AF_INET, text, &any) == 1;
}

int far_addr_listen(const char *address, const char *interface, char text[FAR_ADDR_MAX],
                    errmsg_t *err)
{
    unsigned port = 0;
    bool v6;
    int fd = listen_any(&v6, &port);

    if (fd < 0)
        return errmsg_fail(err, errno, "a stream cannot listen for readers of other hosts: %s",
                           strerror(errno));
    *text = '\0';
    if (address)
        snprintf(text, FAR_ADDR_MAX, strchr(address, ':') ? PREFIX "[%.60s]:%u" : PREFIX "%.60s:%u",
                 address, port);
    else if (text_of_host(text, interface, port, v6, err) < 0) {
        int saved = errno;

        close(fd);
        errno = saved;
        return -1;
    }
    return fd;
}

/* --- connecting --- */

static int address_read(const char *text, union address *a)
{
    char buf[FAR_ADDR_MAX];
    uint32_t port;
    char *host = buf + strlen(PREFIX);
    char *colon;

    if ((size_t)snprintf(buf, sizeof(buf), "%s", text) >= sizeof(buf))
        return -1;
    if (!str_starts(buf, PREFIX) || !(colon = strrchr(host, ':')) ||
        str2u32(colon + 1, &port) < 0 || port == 0 || port > 65535)
        return -1;
    *colon = '\0';
    memset(a, 0, sizeof(*a));
    if (*host == '[' && colon[-1] == ']') {
        colon[-1] = '\0';
        a->v6.sin6_family = AF_INET6;
        a->v6.sin6_port = htons((uint16_t)port);
        return inet_pton(AF_INET6, host + 1, &a->v6.sin6_addr) == 1 ? 0 : -1;
    }
    a->v4.sin_family = AF_INET;
    a->v4.sin_port = htons((uint16_t)port);
    return inet_pton(AF_INET, host, &a->v4.sin_addr) == 1 ? 0 : -1;
}

int far_addr_listen_again(const char *text)
{
    union address a;
    unsigned port;
    bool v6;

    if (address_read(text, &a) < 0) {
        errno = EINVAL;
        return -1;
    }
    port = ntohs(a.any.sa_family == AF_INET6 ? a.v6.sin6_port : a.v4.sin_port);
    return listen_any(&v6, &port);
}

bool far_addr_next(const char **text, char one[FAR_ADDR_MAX])
{
    size_t len = strcspn(*text, ",");

    if (!**text)
        return false;
    snprintf(one, FAR_ADDR_MAX, "%.*s", (int)len, *text);
    *text += len + ((*text)[len] == ',');
    return true;
}

int far_addr_begin(const char *text)
{
    union address a;
    int fd;

    if (address_read(text, &a) < 0) {
        errno = EINVAL;
        return -1;
    }
    fd = socket(a.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || connect(fd, &a.any, address_len(&a)) == 0 || errno == EINPROGRESS)
        return fd;
    close(fd);
    return -1;
}

int far_addr_connected(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLOUT};
    socklen_t len = sizeof(int);
    int errnum = 0;

    if (poll(&p, 1, 0) <= 0)
        return 0;
    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &errnum, &len) < 0)
        return -1;
    errno = errnum;
    return errnum == 0 ? 1 : -1;
}

/* --- silence --- */

static void option(int fd, int name, unsigned value)
{
    setsockopt(fd, IPPROTO_TCP, name, &value, sizeof(value));
}

void far_addr_setup(int fd, double silence, bool sending)
{
    unsigned each = silence > PROBES + 1 ? (unsigned)(silence / (PROBES + 1)) : 1;
    int on = 1;

    option(fd, TCP_NODELAY, 1);
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
    option(fd, TCP_KEEPIDLE, each);
    option(fd, TCP_KEEPINTVL, each);
    option(fd, TCP_KEEPCNT, PROBES);
    if (sending)
        option(fd, TCP_USER_TIMEOUT, (unsigned)(silence * 1e3));
}

bool far_addr_silent(int fd, double silence)
{
    struct tcp_info i = {0};
    socklen_t len = sizeof(i);

    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &i, &len) < 0)
        return false;
    /* Either data are unacknowledged; or the reader's window is full, and its host does not answer
     * the window probes, of which the kernel sends at least one in two minutes. */
    return (i.tcpi_unacked > 0 || i.tcpi_probes >= 2) && i.tcpi_last_ack_recv > silence * 1e3;
}

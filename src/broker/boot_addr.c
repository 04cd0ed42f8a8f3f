/* Addresses of this host, and of other hosts.
 *
 * All results are numeric.  The link identifies connections by the address to which it connected,
 * and if a name changed its meaning while ZeroMQ retries, a session would connect to a stranger
 * (which refuses it, but the session would hang).  A lookup may block, since the reactor does not
 * run yet.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "boot_private.h"
#include "libutil/strutil.h"

/* Format an address for a URI.  0, or -1 if it does not fit. */
static int format_address(const struct sockaddr *sa, char *buf, size_t size)
{
    char host[INET6_ADDRSTRLEN];
    bool v6 = sa->sa_family == AF_INET6;
    const void *addr =
        v6 ? (const void *)&((const struct sockaddr_in6 *)(const void *)sa)->sin6_addr
           : (const void *)&((const struct sockaddr_in *)(const void *)sa)->sin_addr;

    if (!inet_ntop(sa->sa_family, addr, host, sizeof(host)))
        return -1;
    return snprintf(buf, size, v6 ? "[%s]" : "%s", host) < (int)size ? 0 : -1;
}

/* Rate the suitability of an address; 0: unsuitable. */
static int rate(const struct ifaddrs *ifa, const char *interface)
{
    const struct sockaddr_in6 *sin6;
    bool loopback = ifa->ifa_flags & IFF_LOOPBACK;

    if (!ifa->ifa_addr || !(ifa->ifa_flags & IFF_UP))
        return 0;
    if (interface ? strcmp(ifa->ifa_name, interface) != 0 : loopback)
        return 0;
    if (ifa->ifa_addr->sa_family == AF_INET)
        return 2;
    if (ifa->ifa_addr->sa_family != AF_INET6)
        return 0;
    sin6 = (const struct sockaddr_in6 *)(const void *)ifa->ifa_addr;
    return IN6_IS_ADDR_LINKLOCAL(&sin6->sin6_addr) ? 0 : 1;
}

int boot_address(const boot_t *b, char *buf, size_t size, errmsg_t *err)
{
    const char *address = boot_attr(b, "tcp.address");
    const char *interface = boot_attr(b, "tcp.interface");
    struct ifaddrs *list;
    unsigned char bin[16];
    int best = 0;

    if (address) {
        bool v6 = inet_pton(AF_INET6, address, bin) == 1;

        if (!v6 && inet_pton(AF_INET, address, bin) != 1)
            return errmsg_fail(err, EINVAL, "tcp.address=%s is not a numeric IPv4 or IPv6 address",
                               address);
        snprintf(buf, size, v6 ? "[%s]" : "%s", address);
        return 0;
    }
    if (getifaddrs(&list) < 0)
        return errmsg_fail(err, errno, "cannot list network interfaces: %s", strerror(errno));
    for (struct ifaddrs *ifa = list; ifa; ifa = ifa->ifa_next) {
        int n = rate(ifa, interface);

        if (n > best && format_address(ifa->ifa_addr, buf, size) == 0)
            best = n;
    }
    freeifaddrs(list);
    if (best == 0 && interface)
        return errmsg_fail(
            err, EADDRNOTAVAIL,
            "tcp.interface=%s: there is no such interface, or it has no usable address", interface);
    if (best == 0)
        snprintf(buf, size, "127.0.0.1");
    return 0;
}

int boot_addr_resolve(const char *uri, char *buf, size_t size, errmsg_t *err)
{
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM}, *res;
    char host[256], addr[BOOT_ADDR_MAX];
    const char *start, *colon;
    size_t len;
    uint32_t port;
    int rc;

    if (!str_starts(uri, "tcp://") || !(colon = strrchr(uri + 6, ':')) ||
        str2u32(colon + 1, &port) < 0 || port == 0 || port > 65535)
        return errmsg_fail(err, EINVAL, "\"%s\" is not of the form tcp://HOST:PORT", uri);
    start = uri + 6;
    len = colon - start;
    if (len >= 2 && start[0] == '[' && start[len - 1] == ']') {
        start++;
        len -= 2;
    }
    if (len == 0 || len >= sizeof(host))
        return errmsg_fail(err, EINVAL, "\"%s\" is not of the form tcp://HOST:PORT", uri);
    memcpy(host, start, len);
    host[len] = '\0';
    if ((rc = getaddrinfo(host, NULL, &hints, &res)) != 0)
        return errmsg_fail(err, EHOSTUNREACH, "cannot find the address of host %s: %s", host,
                           gai_strerror(rc));
    rc = format_address(res->ai_addr, addr, sizeof(addr));
    freeaddrinfo(res);
    if (rc < 0 || snprintf(buf, size, "tcp://%s:%u", addr, port) >= (int)size)
        return errmsg_fail(err, EINVAL, "the address of host %s is of a kind that cannot be used",
                           host);
    return 0;
}

/* Is the address also the source address of packets that are sent to it?  That is true only for
 * addresses of this network namespace, but for all of 127.0.0.0/8.  A successful bind to the
 * address proves nothing: see net.ipv4.ip_nonlocal_bind. */
static bool reaches_itself(const struct sockaddr *sa, socklen_t len)
{
    const struct sockaddr_in *sin = (const struct sockaddr_in *)(const void *)sa;
    struct sockaddr_storage own;
    socklen_t ownlen = sizeof(own);
    char there[INET6_ADDRSTRLEN + 2], here[INET6_ADDRSTRLEN + 2];
    bool same = false;
    int fd;

    if (sa->sa_family == AF_INET && ntohl(sin->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET)
        return true;
    if ((fd = socket(sa->sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0)) < 0)
        return false;
    if (connect(fd, sa, len) == 0 && getsockname(fd, (struct sockaddr *)&own, &ownlen) == 0 &&
        format_address(sa, there, sizeof(there)) == 0 &&
        format_address((const struct sockaddr *)&own, here, sizeof(here)) == 0)
        same = strcmp(there, here) == 0;
    close(fd);
    return same;
}

bool boot_addr_is_here(const char *uri)
{
    struct addrinfo hints = {.ai_flags = AI_NUMERICHOST, .ai_socktype = SOCK_DGRAM}, *res;
    const char *start = uri + strlen("tcp://"), *colon;
    char host[BOOT_ADDR_MAX];
    bool here = false;
    size_t len;

    if (!str_starts(uri, "tcp://") || !(colon = strrchr(start, ':')))
        return false;
    len = (size_t)(colon - start);
    if (len >= 2 && start[0] == '[') {
        start++;
        len -= 2;
    }
    if (len == 0 || len >= sizeof(host))
        return false;
    memcpy(host, start, len);
    host[len] = '\0';
    /* Nothing is sent to the port. */
    if (getaddrinfo(host, "9", &hints, &res) != 0)
        return false;
    here = reaches_itself(res->ai_addr, res->ai_addrlen);
    freeaddrinfo(res);
    return here;
}

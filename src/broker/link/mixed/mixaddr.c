/* mixaddr.c - addresses of brokers that use UNIX sockets and ZeroMQ (mixlink.c).
 *
 * Format: REMOTE+LOCAL@PLACE, for example "tcp://10.1.2.3:4567+unix:///run/f/0/tree@9e.f2".  LOCAL
 * is "unix://PATH" or "unix://@NAME" (ulink.h).  PLACE is equal for brokers of one host and one
 * network namespace (hostnet_get() of libutil/hostmark.h).  "+LOCAL@PLACE" may be absent.
 *
 * Failure: an address that cannot be resolved is one at which nobody listens.
 */
#include "config.h"
#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "libutil/hostmark.h"
#include "libutil/strutil.h"
#include "src/broker/link/mixed/mixaddr.h"
#include "src/broker/link/unix/ulink.h"

#define LOCAL "+" ULINK_SCHEME

bool mixaddr_is(const char *uri)
{
    return str_starts(uri, "tcp://") && strstr(uri, LOCAL);
}

bool mixaddr_compose(const struct transport_place *where, char *tree_uri, char *event_uri)
{
    char place[HOSTNET_SIZE];
    int len;

    if (!where->remote || !str_starts(where->remote, "tcp://") || (!where->dir && !where->name))
        return false;
    hostnet_get(place);
    len = snprintf(tree_uri, where->size, "%s" LOCAL "%s%s@%s", where->remote,
                   where->dir ? where->dir : "@", where->dir ? "/tree" : where->name, place);
    snprintf(event_uri, TRANSPORT_URI_MAX, "%s", where->remote);
    return len >= 0 && (size_t)len < where->size;
}

void mixaddr_clear(struct mixaddr *a)
{
    free(a->remote);
    free(a->local);
    free(a->place);
    *a = (struct mixaddr){NULL, NULL, NULL};
}

int mixaddr_parse(const char *uri, struct mixaddr *a, errmsg_t *err)
{
    const char *local = strstr(uri, LOCAL);
    const char *at = local ? strrchr(local, '@') : NULL; /* a path may contain '@', too */

    *a = (struct mixaddr){NULL, NULL, NULL};
    a->remote = strndup(uri, at ? (size_t)(local - uri) : strlen(uri));
    if (at) {
        a->local = strndup(local + 1, (size_t)(at - local - 1));
        a->place = strdup(at + 1);
    }
    if (!a->remote || (at && (!a->local || !a->place)))
        return errmsg_fail(err, ENOMEM, "out of memory for the address %.100s", uri);
    return 0;
}

bool mixaddr_listens(const char *uri)
{
    struct addrinfo hints = {.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV,
                             .ai_socktype = SOCK_STREAM},
                    *ai;
    const char *start = uri + strlen("tcp://"), *colon = strrchr(start, ':');
    bool bracket = start[0] == '[', there = false;
    struct pollfd pfd = {.fd = -1, .events = POLLOUT};
    struct sockaddr_storage own = {0};
    socklen_t len = sizeof(int), ownlen = sizeof(own);
    int error = 0;
    char *host;

    host = colon ? strndup(start + bracket, (size_t)(colon - start) - 2 * bracket) : NULL;
    if (!host || getaddrinfo(host, colon + 1, &hints, &ai) != 0) {
        free(host);
        return false;
    }
    free(host);
    pfd.fd = socket(ai->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    /* Within a host a connection takes no time; if the queue has no room for it now, it will have
     * room. */
    if (pfd.fd >= 0 && connect(pfd.fd, ai->ai_addr, ai->ai_addrlen) == 0)
        there = true;
    else if (pfd.fd >= 0 && errno == EINPROGRESS)
        there = poll(&pfd, 1, 0) == 1 &&
                getsockopt(pfd.fd, SOL_SOCKET, SO_ERROR, &error, &len) == 0 && error == 0;
    /* An unused port may have been given to this very socket, which then reaches itself. */
    if (there && getsockname(pfd.fd, (struct sockaddr *)&own, &ownlen) == 0)
        there = memcmp(&own, ai->ai_addr, ai->ai_addrlen) != 0;
    if (pfd.fd >= 0)
        close(pfd.fd);
    freeaddrinfo(ai);
    return there;
}

/* pmixd_door.c - the library's listening socket, if the launcher listens in its place.
 *
 * Purpose: the tasks of a job with --mpi=both know an address before there is a server.  The
 * launcher listens there.  At the first connection it starts this program with one end of a socket
 * pair, the door, through which it passes that connection and all later ones (launcher/offer.c).
 * The library insists on listening itself, so the linker gives it the following functions in place
 * of libc's:
 *
 *    bind         makes the library's first IPv4 socket the door
 *    listen       on the door: does nothing
 *    getsockname  of the door: returns the address that the tasks know
 *    accept       on the door: returns the next passed connection.  It first waits, in a thread
 *                 that does nothing else, until the library knows the job; before that the library
 *                 would turn the tasks away
 *
 * For other sockets, and without --door, they do what the system does.
 */
#include "config.h"
#include "pmixd.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "libutil/fdpass.h"
#include "libutil/strutil.h"

int pmixd_door_address(struct pmixd *pd, const char *text)
{
    const char *colon = strrchr(text, ':');
    char host[INET_ADDRSTRLEN];
    uint32_t port;

    if (!colon || (size_t)(colon - text) >= sizeof(host) || str2u32(colon + 1, &port) < 0 ||
        port > 65535)
        return -1;
    memcpy(host, text, (size_t)(colon - text));
    host[colon - text] = '\0';
    pd->address = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    return inet_pton(AF_INET, host, &pd->address.sin_addr) == 1 ? 0 : -1;
}

static bool is_door(struct pmixd *pd, int fd)
{
    bool is = false;

    if (pd) {
        pthread_mutex_lock(&pd->lock);
        is = pd->listener >= 0 && fd == pd->listener;
        pthread_mutex_unlock(&pd->lock);
    }
    return is;
}

static int give_address(struct sockaddr *addr, socklen_t *len, const struct sockaddr_in *sin)
{
    memcpy(addr, sin, *len < sizeof(*sin) ? *len : sizeof(*sin));
    *len = sizeof(*sin);
    return 0;
}

int bind(int fd, __CONST_SOCKADDR_ARG addr, socklen_t len)
{
    struct pmixd *pd = pmixd_self();
    int door = -1;

    if (pd && addr.__sockaddr__->sa_family == AF_INET) {
        pthread_mutex_lock(&pd->lock);
        door = pd->door;
        pd->door = -1;
        if (door >= 0)
            pd->listener = fd;
        pthread_mutex_unlock(&pd->lock);
    }
    if (door >= 0) {
        int rc = dup3(door, fd, O_CLOEXEC) < 0 ? -1 : 0;

        close(door);
        return rc;
    }
    return (int)syscall(SYS_bind, fd, addr.__sockaddr__, len);
}

int listen(int fd, int n)
{
    return is_door(pmixd_self(), fd) ? 0 : (int)syscall(SYS_listen, fd, n);
}

int getsockname(int fd, __SOCKADDR_ARG addr, socklen_t *restrict len)
{
    struct pmixd *pd = pmixd_self();

    if (is_door(pd, fd))
        return give_address(addr.__sockaddr__, len, &pd->address);
    return (int)syscall(SYS_getsockname, fd, addr.__sockaddr__, len);
}

static int take_passed(int door)
{
    uint8_t byte;
    int fd;
    ssize_t n = fdpass_recv(door, &byte, 1, &fd, 0);

    if (n == 0)
        errno = ECONNABORTED; /* the launcher is lost, so this program is about to end */
    return fd;
}

int accept(int fd, __SOCKADDR_ARG addr, socklen_t *restrict len)
{
    struct sockaddr_in peer = {.sin_family = AF_INET};
    struct pmixd *pd = pmixd_self();
    socklen_t size = sizeof(peer);
    int taken;

    if (!is_door(pd, fd))
        return (int)syscall(SYS_accept4, fd, addr.__sockaddr__, len, 0);
    pthread_mutex_lock(&pd->lock);
    while (!pd->open)
        pthread_cond_wait(&pd->opened, &pd->lock);
    pthread_mutex_unlock(&pd->lock);
    if ((taken = take_passed(fd)) < 0)
        return -1;
    if (addr.__sockaddr__ && len) {
        (void)getpeername(taken, (struct sockaddr *)&peer, &size);
        give_address(addr.__sockaddr__, len, &peer);
    }
    return taken;
}

void pmixd_door_open(struct pmixd *pd)
{
    pthread_mutex_lock(&pd->lock);
    pd->open = true;
    pthread_cond_broadcast(&pd->opened);
    pthread_mutex_unlock(&pd->lock);
}

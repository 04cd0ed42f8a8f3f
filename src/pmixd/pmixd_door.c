/* The socket on which tasks connect, when the launcher made it.
 *
 * A job that may use PMIx, or not, is told an address before there is a server; the launcher
 * listens there, and at the first connection starts this program with the socket.  The library
 * wants to make its own, so the two calls by which it does that are ours here, which the linker
 * gives it:
 *
 *    bind      its first socket becomes the launcher's, with the connections that wait in it: the
 *              address that it then asks for is the one that the tasks have
 *    accept    on that socket: not before the job is known to the library, which otherwise turns away
 *              whom it does not know.  The caller is a thread that does nothing else
 *
 * All other sockets get what the system does.  Without --door so does the library's.
 */
#include "config.h"
#include "pmixd.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

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

int accept(int fd, __SOCKADDR_ARG addr, socklen_t *restrict len)
{
    struct pmixd *pd = pmixd_self();

    if (pd) {
        pthread_mutex_lock(&pd->lock);
        while (fd == pd->listener && !pd->open)
            pthread_cond_wait(&pd->opened, &pd->lock);
        pthread_mutex_unlock(&pd->lock);
    }
    return (int)syscall(SYS_accept4, fd, addr.__sockaddr__, len, 0);
}

void pmixd_door_open(struct pmixd *pd)
{
    pthread_mutex_lock(&pd->lock);
    pd->open = true;
    pthread_cond_broadcast(&pd->opened);
    pthread_mutex_unlock(&pd->lock);
}

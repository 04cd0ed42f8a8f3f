/* listener.c - a UNIX socket with a name in the file system.
 *
 * Invariants:
 *  1. Only the socket's own name is removed: the one with its device and inode.
 *  2. An earlier listening socket is closed only once a new one works.
 *
 * Failure: errno and an error message; the socket stays as it was.
 */
#include "config.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "core_private.h"
#include "listener.h"

#define BACKLOG 4096

struct listener {
    core_t *core;
    int fd;
    char *path;
    dev_t dev; /* of the socket's file */
    ino_t ino;
    flux_watcher_t *watcher;
    listener_f cb;
    void *arg;
};

/* Does a living process listen at this socket? */
static bool is_alive(const struct sockaddr_un *sun)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int rc;

    if (fd < 0)
        return true; /* unknown: leave it alone */
    rc = connect(fd, (const struct sockaddr *)sun, sizeof(*sun));
    if (rc < 0 && errno != ECONNREFUSED && errno != ENOENT)
        rc = 0; /* EAGAIN: alive and busy; other errors: not ours to remove */
    close(fd);
    return rc == 0;
}

/* Bind `fd` to the path, replacing the socket of a dead broker. */
static int bind_name(listener_t *l, int fd, errmsg_t *err)
{
    struct sockaddr_un sun = {.sun_family = AF_UNIX};
    const char *path = l->path;
    struct stat st;

    if (strlen(path) >= sizeof(sun.sun_path))
        return errmsg_fail(err, ENAMETOOLONG,
                           "socket path %s has %zu bytes, %zu at most: choose a shorter rundir",
                           path, strlen(path), sizeof(sun.sun_path) - 1);
    strcpy(sun.sun_path, path);
    if (bind(fd, (struct sockaddr *)&sun, sizeof(sun)) == 0)
        return 0;
    if (errno != EADDRINUSE)
        return errmsg_fail(err, errno, "cannot create socket %s: %s", path, strerror(errno));
    if (lstat(path, &st) == 0 && !S_ISSOCK(st.st_mode))
        return errmsg_fail(err, EADDRINUSE, "%s exists and is not a socket: remove it", path);
    if (is_alive(&sun))
        return errmsg_fail(err, EADDRINUSE, "another broker listens at %s: choose another rundir",
                           path);
    if (unlink(path) < 0 && errno != ENOENT)
        return errmsg_fail(err, errno, "cannot remove the stale socket %s: %s", path,
                           strerror(errno));
    if (bind(fd, (struct sockaddr *)&sun, sizeof(sun)) < 0)
        return errmsg_fail(err, errno, "cannot create socket %s: %s", path, strerror(errno));
    core_log(l->core, LOG_INFO, "the socket of a dead broker was replaced: %s", path);
    return 0;
}

static void ready_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    listener_t *l = arg;

    l->cb(l->arg);
}

static int listen_at_path(listener_t *l, errmsg_t *err)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    flux_watcher_t *watcher = NULL;
    struct stat st;

    if (fd < 0)
        return errmsg_fail(err, errno, "cannot create a socket: %s", strerror(errno));
    if (bind_name(l, fd, err) < 0)
        goto error;
    if (listen(fd, BACKLOG) < 0 || lstat(l->path, &st) < 0) {
        errmsg_fail(err, errno, "cannot listen at %s: %s", l->path, strerror(errno));
        goto error;
    }
    if (!(watcher = flux_fd_watcher_create(core_reactor(l->core), fd, FLUX_POLLIN, ready_cb, l))) {
        errmsg_fail(err, ENOMEM, "out of memory for socket %s", l->path);
        goto error;
    }
    flux_watcher_destroy(l->watcher);
    if (l->fd >= 0)
        close(l->fd);
    l->fd = fd;
    l->dev = st.st_dev;
    l->ino = st.st_ino;
    l->watcher = watcher;
    flux_watcher_start(l->watcher);
    return 0;
error:;
    int saved = errno;
    close(fd);
    errno = saved;
    return -1;
}

bool listener_has_name(const listener_t *l)
{
    struct stat st;

    return lstat(l->path, &st) == 0 && st.st_dev == l->dev && st.st_ino == l->ino;
}

listener_t *listener_create(core_t *core, const char *path, listener_f cb, void *arg, errmsg_t *err)
{
    listener_t *l = calloc(1, sizeof(*l));

    if (!l || !(l->path = strdup(path))) {
        free(l);
        errmsg_fail(err, ENOMEM, "out of memory for socket %s", path);
        return NULL;
    }
    l->core = core;
    l->fd = -1;
    l->cb = cb;
    l->arg = arg;
    if (listen_at_path(l, err) < 0) {
        listener_destroy(l);
        return NULL;
    }
    return l;
}

void listener_destroy(listener_t *l)
{
    if (l) {
        int saved = errno;

        flux_watcher_destroy(l->watcher);
        if (l->fd >= 0) {
            close(l->fd);
            if (listener_has_name(l))
                (void)unlink(l->path);
        }
        free(l->path);
        free(l);
        errno = saved;
    }
}

int listener_renew(listener_t *l, errmsg_t *err)
{
    return listen_at_path(l, err);
}

int listener_accept(listener_t *l)
{
    return accept4(l->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
}

void listener_stop(listener_t *l)
{
    flux_watcher_stop(l->watcher);
}

void listener_start(listener_t *l)
{
    flux_watcher_start(l->watcher);
}

/* sockwatch.c - notice when others remove files of a broker's own directory.
 *
 * Purpose: programs that tidy up temporary directories remove the sockets of sessions that have run
 * for days.  Existing connections survive, but no new client can connect.  The kernel reports
 * (inotify) when the directory, the one above it, or a file in one of them is removed.  The owner
 * then checks what is missing and creates it again.
 *
 *    state      what happens                              left when                    by
 *    watching   waits for a report of the kernel          one came: settling           readable_cb
 *    settling   waits SETTLE seconds, so that whoever     they are over: the           timer_cb
 *               removes a whole tree has finished         callback; watching, or
 *                                                         polling if it fails
 *    polling    calls the callback every POLL seconds     it succeeds, and the         timer_cb
 *                                                         kernel reports again:
 *                                                         watching
 *
 * Invariants:
 *  1. The watch is renewed before the callback checks the files, so later removals are reported.
 *  2. The callback is not called more often than every SETTLE seconds (then twice if the watch had
 *     to be renewed twice), whatever others do to the directory.
 *
 * Failure: if the user has no inotify watches left, the callback is called every POLL seconds.
 */
#include "config.h"
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "sockwatch.h"

#define SETTLE 0.1 /* seconds */
#define POLL 15.   /* seconds */
#define EVENTS \
    (IN_DELETE | IN_MOVED_FROM | IN_DELETE_SELF | IN_MOVE_SELF | IN_ONLYDIR | IN_DONT_FOLLOW)

struct sockwatch {
    char *dir, *above;
    sockwatch_f cb;
    void *arg;
    int fd; /* -1: the kernel cannot report */
    flux_watcher_t *readable, *timer;
};

/* The directory above `dir`, malloc'd; NULL with ENOMEM. */
static char *parent_of(const char *dir)
{
    const char *slash = strrchr(dir, '/');

    return strndup(dir, slash && slash > dir ? (size_t)(slash - dir) : 1);
}

/* Watch the directories as they are now. */
static bool watch(const sockwatch_t *sw)
{
    return sw->fd >= 0 && inotify_add_watch(sw->fd, sw->above, EVENTS) >= 0 &&
           inotify_add_watch(sw->fd, sw->dir, EVENTS) >= 0;
}

static void readable_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    sockwatch_t *sw = arg;
    char buf[sizeof(struct inotify_event) + NAME_MAX + 1];

    while (read(sw->fd, buf, sizeof(buf)) > 0)
        ; /* the callback checks all files, whichever it was */
    flux_watcher_stop(sw->readable);
    flux_timer_start(sw->timer, SETTLE, 0.);
}

static void timer_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    sockwatch_t *sw = arg;
    bool reported = watch(sw);
    bool whole = sw->cb(sw->arg) == 0;

    if (!reported)
        reported = watch(sw) && sw->cb(sw->arg) == 0;
    if (sw->fd >= 0)
        flux_watcher_start(sw->readable);
    if (!reported || !whole)
        flux_timer_start(sw->timer, POLL, 0.);
}

sockwatch_t *sockwatch_create(flux_reactor_t *r, const char *dir, sockwatch_f cb, void *arg)
{
    sockwatch_t *sw = calloc(1, sizeof(*sw));

    if (!sw)
        return NULL;
    sw->cb = cb;
    sw->arg = arg;
    sw->fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    if (!(sw->dir = strdup(dir)) || !(sw->above = parent_of(dir)) ||
        !(sw->timer = flux_timer_create(r, timer_cb, sw)) ||
        (sw->fd >= 0 &&
         !(sw->readable = flux_fd_watcher_create(r, sw->fd, FLUX_POLLIN, readable_cb, sw)))) {
        sockwatch_destroy(sw);
        errno = ENOMEM;
        return NULL;
    }
    if (sw->fd >= 0)
        flux_watcher_start(sw->readable);
    if (!watch(sw))
        flux_timer_start(sw->timer, POLL, 0.);
    return sw;
}

void sockwatch_destroy(sockwatch_t *sw)
{
    if (sw) {
        int saved = errno;

        flux_watcher_destroy(sw->readable);
        flux_watcher_destroy(sw->timer);
        if (sw->fd >= 0)
            close(sw->fd);
        free(sw->above);
        free(sw->dir);
        free(sw);
        errno = saved;
    }
}

/* nestlink.c - see nestlink.h.
 *
 * A socket is accepted as that of the session only if its listener runs as this user or root: on
 * another host, the same path may belong to anybody.
 *
 * A broker sends hello immediately: one that does not within HELLO_TIMEOUT is stopped or hangs.
 *
 * Failure: NULL, with an error message that names the job or the address.
 */
#include "config.h"
#include "nestlink.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "libutil/fdutil.h"
#include "nesturi.h"
#include "relay.h"

#define LOOK_AGAIN 0.1      /* seconds */
#define HELLO_TIMEOUT 10000 /* milliseconds */

struct nestlink {
    flux_t *h;
    relay_t *relay;
    char uri[160];
};

/* Connected, and to somebody of this user; -1: not. */
static int connect_direct(const char *path)
{
    struct sockaddr_un sun = {.sun_family = AF_UNIX};
    int fd;

    if (strlen(path) >= sizeof(sun.sun_path))
        return -1;
    strcpy(sun.sun_path, path);
    if ((fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) < 0)
        return -1;
    if (connect(fd, (struct sockaddr *)&sun, sizeof(sun)) < 0 ||
        fd_check_peer(fd, "the session", NULL) < 0) {
        close(fd);
        return -1;
    }
    return fd;
}

static int open_fd(nestlink_t *l, int fd, flux_reactor_t *r, errmsg_t *err)
{
    struct pollfd pfd = {.fd = fd, .events = POLLIN};
    char uri[32];

    if (poll(&pfd, 1, HELLO_TIMEOUT) == 0) {
        close(fd);
        return errmsg_fail(err, ETIMEDOUT, "its broker does not respond");
    }
    snprintf(uri, sizeof(uri), "fd://%d", fd);
    return (l->h = flux_open(uri, r, err)) ? 0 : -1; /* closes it when it fails */
}

static int open_relay(nestlink_t *l, const char *parent_uri, const struct nesturi *u,
                      flux_reactor_t *r, errmsg_t *err)
{
    int fd;

    if (!(l->relay = relay_start(parent_uri, u->rank, u->path, err)))
        return -1;
    snprintf(l->uri, sizeof(l->uri), "%s", relay_uri(l->relay));
    if ((fd = connect_direct(l->uri + strlen("local://"))) < 0)
        return errmsg_fail(err, ECONNREFUSED, "the relay has ended unexpectedly");
    return open_fd(l, fd, r, err);
}

static int open_any(nestlink_t *l, const char *parent_uri, const struct nesturi *u, bool relay,
                    flux_reactor_t *r, errmsg_t *err)
{
    int fd = relay ? -1 : connect_direct(u->path);

    if (fd < 0)
        return open_relay(l, parent_uri, u, r, err);
    snprintf(l->uri, sizeof(l->uri), "local://%s", u->path);
    return open_fd(l, fd, r, err);
}

nestlink_t *nestlink_open(const char *parent_uri, const char *address, bool relay,
                          flux_reactor_t *r, errmsg_t *err)
{
    nestlink_t *l;
    struct nesturi u;

    if (nesturi_parse(address, &u, err) < 0)
        return NULL;
    if (!(l = calloc(1, sizeof(*l)))) {
        errmsg_fail(err, ENOMEM, "out of memory");
        return NULL;
    }
    if (open_any(l, parent_uri, &u, relay, r, err) < 0) {
        nestlink_close(l);
        return NULL;
    }
    return l;
}

void nestlink_close(nestlink_t *l)
{
    if (l) {
        flux_close(l->h);
        relay_stop(l->relay);
        free(l);
    }
}

flux_t *nestlink_handle(const nestlink_t *l)
{
    return l->h;
}

const char *nestlink_uri(const nestlink_t *l)
{
    return l->uri;
}

bool nestlink_relayed(const nestlink_t *l)
{
    return l->relay != NULL;
}

/* --- where is a job? --- */

static char *address_of(const struct job_info *info, errmsg_t *err)
{
    int state = info->state ? job_state_parse(info->state) : -1;
    char *address;

    if (state == JOB_STATE_INACTIVE || state == JOB_STATE_CLEANUP)
        errmsg_fail(err, ESRCH, "job %" PRIu64 " has ended", info->id);
    else if (state != JOB_STATE_RUN)
        errmsg_fail(err, EAGAIN, "job %" PRIu64 " has not started yet", info->id);
    else if (!info->uri)
        errmsg_fail(err, EAGAIN, "job %" PRIu64 " is not a session, or it is not up yet", info->id);
    else if (!(address = strdup(info->uri)))
        errmsg_fail(err, ENOMEM, "out of memory");
    else
        return address;
    return NULL;
}

char *nestlink_find(flux_t *h, uint64_t id, errmsg_t *err)
{
    struct job_list query;
    struct job_info info = {0};
    const json_t *jobs;
    char text[32], *address = NULL;
    flux_future_t *f;

    snprintf(text, sizeof(text), "%" PRIu64, id);
    flux_job_list_init(&query);
    query.ids = text;
    if (!(f = flux_job_list(h, &query))) {
        errmsg_fail(err, errno, "cannot look up job %s: %s", text, strerror(errno));
        return NULL;
    }
    if (flux_future_wait(f, -1.) < 0)
        errmsg_fail(err, errno, "the connection to the broker was lost");
    else if (flux_future_errnum(f) == ENODATA)
        errmsg_fail(err, ENOENT, "there is no job %s", text);
    else if (flux_job_list_get(f, &jobs, err) == 0) {
        if (json_array_size(jobs) == 0)
            errmsg_fail(err, ENOENT, "there is no job %s", text);
        else if (flux_job_list_at(jobs, 0, &info, err) == 0)
            address = address_of(&info, err);
    }
    flux_future_destroy(f);
    return address;
}

/* --- several levels --- */

static void stop_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    flux_reactor_stop(r, 0);
}

static int pause_a_moment(flux_t *h)
{
    flux_reactor_t *r = flux_get_reactor(h);
    flux_watcher_t *w = flux_timer_create(r, stop_cb, NULL);
    int rc;

    if (!w)
        return -1;
    flux_timer_start(w, LOOK_AGAIN, 0.);
    rc = flux_run(h);
    flux_watcher_destroy(w);
    return rc < 0 ? -1 : 0;
}

static char *find_in_time(flux_t *h, uint64_t id, double wait, errmsg_t *err)
{
    double end;
    char *address;

    flux_reactor_update(flux_get_reactor(h));
    end = flux_now(h) + wait;
    while (!(address = nestlink_find(h, id, err)) && errno == EAGAIN &&
           (wait < 0 || flux_now(h) < end)) {
        if (pause_a_moment(h) < 0) {
            errmsg_fail(err, EPIPE, "the connection to the broker was lost");
            break;
        }
    }
    return address;
}

int nestchain_open(struct nestchain *ch, flux_t *h, const uint64_t *ids, size_t n, bool relay,
                   double wait, errmsg_t *err)
{
    const char *parent = flux_default_uri();

    ch->n = 0;
    if (!(ch->links = calloc(n, sizeof(*ch->links))))
        return errmsg_fail(err, ENOMEM, "out of memory");
    while (ch->n < n) {
        char *address = find_in_time(h, ids[ch->n], wait, err);
        nestlink_t *l = address ? nestlink_open(parent, address, relay, NULL, err) : NULL;
        int saved = errno;

        free(address);
        if (!l) {
            nestchain_close(ch);
            errno = saved;
            return -1;
        }
        ch->links[ch->n++] = l;
        parent = nestlink_uri(l);
        h = nestlink_handle(l);
    }
    return 0;
}

void nestchain_close(struct nestchain *ch)
{
    int saved = errno;

    while (ch->n > 0)
        nestlink_close(ch->links[--ch->n]);
    free(ch->links);
    ch->links = NULL;
    errno = saved;
}

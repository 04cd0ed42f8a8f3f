/* boot_add.c - hosts that are added to a running session (see the header).
 *
 * Purpose: `flux start --hosts` has started the brokers, and waits for their end.  It can start
 * more of them, for ranks that have no host yet, but has no connection to the session; its child,
 * the broker of rank 0, has a socketpair to it for that purpose.
 *
 *     flux overlay add      rank 0                       flux start             new broker
 *          | overlay.add        |                             |                      |
 *          |------------------->| ADD                         |                      |
 *          |                    |---------------------------->| ssh                  |
 *          |                    |                             |--------------------->|
 *          |                    |                       ADDED |<---- greeting -------|
 *          |                    |<----------------------------|                      |
 *          |                    |                             |         joins as any broker that
 *          |                 is |                             |         comes late (core_late.c)
 *          |<---------------- up|                             |
 *          |                    |                             |         or ends before that
 *          |                    |           ADDED, with error |<---------------------|
 *          |<-------------error |<----------------------------|
 *
 * A host whose broker has died is added again, as the same rank.  `flux start` knows of the death
 * when ssh has ended, which may be later than the loss of the rank.  Until then it refuses the host
 * with EEXIST, and rank 0 says to try again.
 *
 * In a session by configuration file each host starts its broker itself.  Rank 0 has the list of
 * hosts (boot_roster.h), and answers overlay.add with the rank of the host when that is on disk.
 * The broker waits for the disk, so requests that arrive together are recorded together.  The
 * parent of a broker that joins at such a rank asks rank 0 whether it may (overlay.admit,
 * core_admit.c).
 *
 * Invariants:
 *  1. Each request is answered once: when the rank of its host is up, by an error from `flux
 *     start`, or with an error when the connection ends.
 *  2. At most WAITING_MAX requests wait, and `flux start` has at most PASSED_MAX of them without a
 *     result; the others are passed on in turn.
 *  3. `flux start` decides: it knows which ranks have hosts.
 *  4. Of each child, one question is open (core_admit.c), so there are as many as children at most.
 *
 * Failure: a frame that cannot be read ends the connection; the session goes on without it.
 */
#include "config.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <syslog.h>
#include <unistd.h>

#include "boot_add.h"
#include "boot_ssh_wire.h"
#include "libflux/dispatch.h"
#include "libflux/future.h"
#include "libflux/overlay_wire.h"
#include "libutil/buf.h"
#include "libutil/list.h"

#define WAITING_MAX 1024
#define PASSED_MAX 64 /* requests without a result from flux start: the socket has room for these */
#define ADMIT_PATIENCE 10. /* seconds for rank 0 to answer whether a broker may join */
#define READ_SIZE 4096

struct waiting {
    struct list_node node;
    flux_msg_t *req;
    char *host;
    uint32_t id;
    uint32_t rank; /* of its broker, which has been started; FLUX_NODEID_ANY: it has not */
    bool passed;   /* to flux start, which has sent no result */
};

/* Whether a child may join: asked of rank 0. */
struct question {
    struct list_node node;
    boot_add_t *a;
    flux_future_t *f;
    uint32_t rank;
    uint32_t number;
};

struct boot_add {
    core_t *core;
    int fd; /* -1: none, or it has ended */
    flux_watcher_t *w;
    flux_handlers_t *handlers;
    buf_t *in;
    boot_roster_t *roster;
    flux_watcher_t *record;     /* fires when hosts are to be recorded */
    struct list_node recording; /* requests for these */
    struct list_node questions;
    struct list_node unsent;  /* requests for flux start, in turn ... */
    struct list_node waiting; /* ... and those that it has */
    unsigned passed;          /* number of these without a result */
    unsigned count;           /* in all lists */
    uint32_t last;            /* id of a request */
};

/* --- the connection --- */

static const struct flux_field request_fields[] = {
    FLUX_FIELD_U32(struct boot_add_request, id, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_STR(struct boot_add_request, host, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_END,
};
const struct flux_schema boot_add_request_schema =
    FLUX_SCHEMA(struct boot_add_request, request_fields);

static const struct flux_field result_fields[] = {
    FLUX_FIELD_U32(struct boot_add_result, id, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U32(struct boot_add_result, rank, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_INT(struct boot_add_result, errnum, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_STR(struct boot_add_result, text, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_END,
};
const struct flux_schema boot_add_result_schema =
    FLUX_SCHEMA(struct boot_add_result, result_fields);

int boot_add_send(int fd, char type, const struct flux_schema *schema, const void *in)
{
    char header[BOOT_FRAME_HEADER];
    char *json = flux_schema_encode(schema, in);
    struct iovec iov[2] = {{header, sizeof(header)}, {json, json ? strlen(json) : 0}};
    struct msghdr msg = {.msg_iov = iov, .msg_iovlen = 2};
    ssize_t n = -1;

    if (json && iov[1].iov_len > BOOT_ADD_FRAME_MAX)
        errno = EMSGSIZE;
    else if (json) {
        boot_frame_header(header, type, iov[1].iov_len);
        n = sendmsg(fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
    }
    if (n >= 0 && (size_t)n < sizeof(header) + iov[1].iov_len) {
        shutdown(fd, SHUT_RDWR); /* the rest cannot follow */
        errno = EPIPE;
        n = -1;
    }
    free(json);
    return n < 0 ? -1 : 0;
}

/* --- requests --- */

static void forget(boot_add_t *a, struct waiting *w)
{
    list_remove(&w->node);
    a->count--;
    flux_msg_destroy(w->req);
    free(w->host);
    free(w);
}

static struct waiting *keep(boot_add_t *a, struct list_node *list, const flux_msg_t *req,
                            const char *host)
{
    struct waiting *w = calloc(1, sizeof(*w));

    if (!w || !(w->host = strdup(host))) {
        free(w);
        flux_respond_error(core_handle(a->core), req, ENOMEM,
                           "rank 0 is out of memory for host %.64s", host);
        return NULL;
    }
    w->req = flux_msg_incref((flux_msg_t *)req);
    w->rank = FLUX_NODEID_ANY;
    list_init(&w->node);
    list_append(list, &w->node);
    a->count++;
    return w;
}

static void close_connection(boot_add_t *a)
{
    struct list_node *n;

    flux_watcher_destroy(a->w);
    a->w = NULL;
    if (a->fd >= 0)
        close(a->fd);
    a->fd = -1;
    a->passed = 0;
    while ((n = list_first(&a->waiting)) || (n = list_first(&a->unsent))) {
        struct waiting *w = list_entry(n, struct waiting, node);

        flux_respond_error(core_handle(a->core), w->req, EHOSTUNREACH,
                           w->rank == FLUX_NODEID_ANY
                               ? "host %.64s was not added: flux start does not answer any longer"
                               : "host %.64s: its broker was started, but flux start does not say "
                                 "any longer what becomes of it",
                           w->host);
        forget(a, w);
    }
}

/* Answer those whose ranks are up. */
static void up_cb(void *arg)
{
    boot_add_t *a = arg;

    LIST_FOREACH_SAFE(n, tmp, &a->waiting)
    {
        struct waiting *w = list_entry(n, struct waiting, node);
        const struct overlay_added out = {.rank = w->rank};

        if (w->rank == FLUX_NODEID_ANY || !idset_test(core_ranks_up(a->core), w->rank))
            continue;
        flux_respond_struct(core_handle(a->core), w->req, &overlay_added_schema, &out);
        forget(a, w);
    }
}

static void pass_on(boot_add_t *a)
{
    struct list_node *n;

    while (a->passed < PASSED_MAX && (n = list_first(&a->unsent))) {
        struct waiting *w = list_entry(n, struct waiting, node);
        const struct boot_add_request out = {.id = w->id, .host = w->host};

        if (boot_add_send(a->fd, BOOT_FRAME_ADD, &boot_add_request_schema, &out) < 0) {
            flux_respond_error(core_handle(a->core), w->req, errno, "host %.64s was not added: %s",
                               w->host, strerror(errno));
            forget(a, w);
            continue;
        }
        list_remove(&w->node);
        list_append(&a->waiting, &w->node);
        w->passed = true;
        a->passed++;
    }
}

static void refuse(boot_add_t *a, const struct waiting *w, const struct boot_add_result *res)
{
    flux_t *h = core_handle(a->core);

    if (res->errnum == EEXIST && idset_test(core_ranks_lost(a->core), res->rank))
        flux_respond_error(h, w->req, EAGAIN,
                           "host %.64s is rank %u of the session already, which is lost, but flux "
                           "start has not seen its broker end yet: try again",
                           w->host, res->rank);
    else
        flux_respond_error(h, w->req, res->errnum, "%s", res->text);
}

static void result(boot_add_t *a, const struct boot_add_result *res)
{
    LIST_FOREACH_SAFE(n, tmp, &a->waiting)
    {
        struct waiting *w = list_entry(n, struct waiting, node);

        if (w->id != res->id)
            continue;
        w->rank = res->rank;
        a->passed -= w->passed;
        w->passed = false;
        if (res->errnum) {
            refuse(a, w, res);
            forget(a, w);
        }
        break;
    }
    up_cb(a);
    pass_on(a);
}

/* -1: it cannot be read. */
static int take_frame(boot_add_t *a, const struct boot_frame *f)
{
    struct boot_add_result res = {0};
    errmsg_t err;
    json_t *owner = f->type == BOOT_FRAME_ADDED
                        ? flux_schema_decode(&boot_add_result_schema, f->data, f->len, &res, &err)
                        : NULL;

    if (owner)
        result(a, &res);
    json_decref(owner);
    return owner ? 0 : -1;
}

static void readable_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    boot_add_t *a = arg;
    void *p = buf_reserve(a->in, READ_SIZE);
    ssize_t n = p ? read(a->fd, p, READ_SIZE) : -1;
    struct boot_frame f;
    size_t used;
    int rc = n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR)) ? 0 : -1;

    (void)r, (void)w, (void)revents;
    if (n > 0)
        buf_commit(a->in, (size_t)n);
    while (rc >= 0 && (rc = boot_frame_first(buf_data(a->in), buf_len(a->in), &f, &used)) == 1) {
        rc = take_frame(a, &f);
        buf_consume(a->in, used);
    }
    if (rc < 0)
        close_connection(a);
}

/* In a session by configuration file: nothing is started here. */
static void add_listed(boot_add_t *a, const flux_msg_t *req, const char *host)
{
    struct waiting *w = keep(a, &a->recording, req, host);
    errmsg_t err;

    if (!w)
        return;
    if (boot_roster_add(a->roster, host, &w->rank, &err) < 0) {
        flux_respond_error(core_handle(a->core), req, errno, "%s", err.text);
        forget(a, w);
        return;
    }
    flux_timer_start(a->record, 0., 0.);
}

static void record_cb(flux_reactor_t *r, flux_watcher_t *watcher, int revents, void *arg)
{
    boot_add_t *a = arg;
    flux_t *h = core_handle(a->core);
    errmsg_t err;
    int errnum = boot_roster_save(a->roster, &err) < 0 ? errno : 0;

    (void)r, (void)watcher, (void)revents;
    LIST_FOREACH_SAFE(n, tmp, &a->recording)
    {
        struct waiting *w = list_entry(n, struct waiting, node);
        const struct overlay_added out = {.rank = w->rank, .waits = true};
        char text[128];

        if (errnum) {
            flux_respond_error(h, w->req, errnum, "host %.64s was not added, since %s", w->host,
                               err.text);
        } else {
            snprintf(text, sizeof(text), "host %.64s was added as rank %u", w->host, w->rank);
            core_say(a->core, LOG_NOTICE, text);
            flux_respond_struct(h, w->req, &overlay_added_schema, &out);
        }
        forget(a, w);
    }
}

static void add_cb(flux_t *h, const flux_msg_t *req, void *arg)
{
    boot_add_t *a = arg;
    struct overlay_add in = {NULL};
    struct waiting *w;
    json_t *owner;

    if (flux_request_decode(h, req, &overlay_add_schema, &in, &owner) < 0)
        return;
    if (!core_is_root(a->core))
        flux_respond_error(h, req, EINVAL, "hosts are added at rank 0, not at rank %u",
                           core_rank(a->core));
    else if (!a->roster && a->fd < 0)
        flux_respond_error(h, req, ENOTSUP,
                           "no host can be added to this session: it was not started by flux start "
                           "with --hosts and a larger --size, nor by a configuration file with a "
                           "session.size above the number of its hosts");
    else if (a->count >= WAITING_MAX)
        flux_respond_error(h, req, EAGAIN, "%u hosts are being added: try again later", a->count);
    else if (a->roster)
        add_listed(a, req, in.host);
    else if ((w = keep(a, &a->unsent, req, in.host))) {
        w->id = ++a->last > 0 ? a->last : ++a->last;
        pass_on(a);
    }
    json_decref(owner);
}

/* --- whether a broker may join --- */

static void admit_cb(flux_t *h, const flux_msg_t *req, void *arg)
{
    boot_add_t *a = arg;
    struct overlay_admit in = {0};
    errmsg_t err;
    json_t *owner;

    if (flux_request_decode(h, req, &overlay_admit_schema, &in, &owner) < 0)
        return;
    if (!core_is_root(a->core))
        flux_respond_error(h, req, EINVAL, "rank 0 knows the hosts of the session, not rank %u",
                           core_rank(a->core));
    else if (a->roster && boot_roster_admit(a->roster, in.rank, in.host, &err) < 0)
        flux_respond_error(h, req, errno, "%s", err.text);
    else
        flux_respond(h, req, NULL);
    json_decref(owner);
}

static void question_free(struct question *q)
{
    list_remove(&q->node);
    flux_future_destroy(q->f);
    free(q);
}

static void answer_cb(flux_future_t *f, void *arg)
{
    struct question *q = arg;
    errmsg_t err = {"rank 0 does not answer whether it may join"};
    int errnum = flux_rpc_get(f, &err) < 0 ? errno : 0;

    core_admitted(q->a->core, q->rank, q->number, errnum, err.text);
    question_free(q);
}

static int ask(boot_add_t *a, uint32_t rank, const char *host, uint32_t number)
{
    const struct overlay_admit in = {.rank = rank, .host = host};
    struct question *q = calloc(1, sizeof(*q));

    if (!q)
        return -1;
    *q = (struct question){.a = a, .rank = rank, .number = number};
    list_init(&q->node);
    list_append(&a->questions, &q->node);
    q->f = flux_rpc_struct(core_handle(a->core), "overlay.admit", &overlay_admit_schema, &in,
                           FLUX_NODEID_ROOT, FLUX_MSGF_IDEMPOTENT);
    if (q->f && flux_future_then(q->f, ADMIT_PATIENCE, answer_cb, q) == 0)
        return 0;
    question_free(q);
    return -1;
}

void boot_add_admit(boot_add_t *a, uint32_t rank, const char *host, uint32_t number)
{
    errmsg_t err = {""};
    int errnum = 0;

    if (!core_is_root(a->core)) {
        if (ask(a, rank, host, number) < 0)
            core_admitted(a->core, rank, number, EHOSTUNREACH,
                          "its parent is out of memory to ask rank 0 whether it may join");
        return;
    }
    if (a->roster && boot_roster_admit(a->roster, rank, host, &err) < 0)
        errnum = errno;
    core_admitted(a->core, rank, number, errnum, err.text);
}

/* --- start and end --- */

boot_add_t *boot_add_create(core_t *core, int fd, boot_roster_t *roster)
{
    static const struct flux_handler handlers[] = {
        {FLUX_MSG_REQUEST, "overlay.add", add_cb, 0},
        {FLUX_MSG_REQUEST, "overlay.admit", admit_cb, 0},
        FLUX_HANDLER_END,
    };
    boot_add_t *a = calloc(1, sizeof(*a));

    if (!a) {
        if (fd >= 0)
            close(fd);
        boot_roster_destroy(roster);
        errno = ENOMEM;
        return NULL;
    }
    a->core = core;
    a->fd = fd;
    a->roster = roster;
    list_init(&a->unsent);
    list_init(&a->waiting);
    list_init(&a->recording);
    list_init(&a->questions);
    if (!(a->in = buf_create(0)) ||
        (roster && !(a->record = flux_timer_create(core_reactor(core), record_cb, a))) ||
        !(a->handlers = flux_handlers_add(core_handle(core), handlers, a)) ||
        (fd >= 0 &&
         !(a->w = flux_fd_watcher_create(core_reactor(core), fd, FLUX_POLLIN, readable_cb, a)))) {
        boot_add_destroy(a);
        errno = ENOMEM;
        return NULL;
    }
    if (a->w)
        flux_watcher_start(a->w);
    core_on_up(core, up_cb, a);
    return a;
}

void boot_add_destroy(boot_add_t *a)
{
    int saved = errno;

    if (!a)
        return;
    core_on_up(a->core, NULL, NULL);
    close_connection(a);
    if (!list_empty(&a->recording))
        record_cb(NULL, NULL, 0, a);
    flux_watcher_destroy(a->record);
    while (!list_empty(&a->questions))
        question_free(list_entry(list_first(&a->questions), struct question, node));
    boot_roster_destroy(a->roster);
    flux_handlers_remove(a->handlers);
    buf_destroy(a->in);
    free(a);
    errno = saved;
}

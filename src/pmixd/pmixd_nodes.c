/* pmixd_nodes.c - the launchers of the nodes whose tasks this server serves.
 *
 * These are the first one, which has started the server, and on a host with several brokers those
 * of other nodes of the job, which join through the first (launcher/share.c).  Frames about a task
 * go to the launcher of its node, frames about the job to the first:
 *
 *    PMIX_READY, PMIX_CLIENT, SPAWN, SPAWNED    each; the very first PMIX_CLIENT also the first
 *    FAIL, PMIX_JOIN, PMIX_LEAVE                the first
 *
 *    state of a node   left when                                                     by
 *    joined            its launcher hangs up, because its tasks have ended; if       served_cb
 *                      this is the first launcher, the program ends
 *    left              never
 *
 * After PMIX_LEAVE the program ends when all followers have joined and left; until then further
 * tasks may come.
 *
 * Invariants:
 *  1. A task has one node.
 *  2. A launcher lets its tasks connect once it has received PMIX_READY, so their node is known.
 *  3. The library's thread tells a task's launcher that the task has connected or finalized, before
 *     the task goes on.  `speaking` guards the data that this thread uses.
 *
 * Failure: a malformed frame of the first launcher, or a follower that claims a task of another
 * node, ends the program, and the launcher fails the job.  A malformed frame of a follower makes it
 * leave.
 */
#include "config.h"
#include "pmixd.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "libexec/exec_wire.h"
#include "libutil/fdpass.h"
#include "libutil/fdutil.h"

#define READ_SIZE 65536

struct served {
    struct list_node node;
    struct pmixd *pd;
    int fd;
    buf_t *in;
    flux_watcher_t *w;
    uint32_t *ranks;
    size_t nranks;
};

static struct served *first_of(struct pmixd *pd)
{
    return list_entry(list_first(&pd->served), struct served, node);
}

static void served_free(struct served *s)
{
    if (!s)
        return;
    pthread_mutex_lock(&s->pd->speaking);
    for (size_t i = 0; i < s->nranks; i++)
        s->pd->served_by[s->ranks[i]] = NULL;
    pthread_mutex_unlock(&s->pd->speaking);
    list_remove(&s->node);
    flux_watcher_destroy(s->w);
    buf_destroy(s->in);
    free(s->ranks);
    if (s->fd != s->pd->fd) /* pmixd_nodes_fail() writes to that one to the end */
        close(s->fd);
    free(s);
}

/* --- what is said --- */

/* An error of a write is ignored: the next read finds that the other end is gone. */
static void say(struct pmixd *pd, int fd, enum wire_type type, const void *fixed, size_t fixedlen,
                const void *data, size_t len)
{
    uint8_t head[WIRE_HEADER];

    exec_wire_header(head, type, pd->id, (uint32_t)(fixedlen + len));
    if (fd_write_all(fd, head, sizeof(head)) == 0 && fd_write_all(fd, fixed, fixedlen) == 0 && len)
        (void)fd_write_all(fd, data, len);
}

static void tell(struct pmixd *pd, int fd, enum wire_type type, const void *fixed, size_t fixedlen,
                 const void *data, size_t len)
{
    pthread_mutex_lock(&pd->speaking);
    say(pd, fd, type, fixed, fixedlen, data, len);
    pthread_mutex_unlock(&pd->speaking);
}

void pmixd_nodes_fail(struct pmixd *pd, int code, int64_t rank, const char *fmt, ...)
{
    int32_t fixed[3] = {code, (int32_t)rank, rank >= 0};
    char text[512];
    va_list ap;
    int n;

    if (pd->failed)
        return;
    pd->failed = true;
    va_start(ap, fmt);
    n = vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    if (n >= (int)sizeof(text))
        n = sizeof(text) - 1;
    tell(pd, pd->fd, WIRE_FAIL, fixed, sizeof(fixed), text, n < 0 ? 0 : (size_t)n);
}

static void tell_ready(struct served *s)
{
    struct pmixd *pd = s->pd;
    uint32_t fixed[2];
    errmsg_t err;
    buf_t *env = pmixd_job_environment(pd, s->ranks, s->nranks, &fixed[0], &fixed[1], &err);

    if (env)
        tell(pd, s->fd, WIRE_PMIX_READY, fixed, sizeof(fixed), buf_data(env), buf_len(env));
    else
        pmixd_nodes_fail(pd, 1, -1, "the PMIx server of node %u cannot start: %s", pd->node,
                         err.text);
    buf_destroy(env);
}

void pmixd_nodes_ready(struct pmixd *pd)
{
    pd->ready = true;
    LIST_FOREACH(it, &pd->served)
    {
        tell_ready(list_entry(it, struct served, node));
    }
}

/* --- what they say --- */

static struct served *served_create(struct pmixd *pd, int fd, const uint32_t *ranks, size_t n);

static void check_end(struct pmixd *pd)
{
    struct list_node *first = list_first(&pd->served);

    if (pd->leaving && pd->joined == pd->followers && first && first->next == &pd->served)
        flux_reactor_stop(pd->r, 0);
}

/* Takes `fd`. */
static int join(struct pmixd *pd, const struct wire_frame *f, int fd)
{
    size_t n = f->len / 4 - 1;
    const uint8_t *p = f->payload;
    uint32_t *ranks = calloc(n + 1, sizeof(*ranks));
    struct served *s = NULL;

    for (size_t i = 0; ranks && i < n; i++)
        ranks[i] = exec_wire_u32(p + 4 * (i + 1));
    if (ranks && n > 0 && fd >= 0)
        s = served_create(pd, fd, ranks, n);
    else if (fd >= 0)
        close(fd);
    free(ranks);
    if (!s)
        return -1;
    pd->joined++;
    if (pd->ready)
        tell_ready(s);
    return 0;
}

static void spawned(struct pmixd *pd, const struct wire_frame *f)
{
    char name[PMIX_MAX_NSLEN + 1];

    snprintf(name, sizeof(name), "%.*s", (int)f->len - 8, (const char *)f->payload + 8);
    pmixd_spawned(pd, exec_wire_u32(f->payload), exec_wire_i32(f->payload + 4), name);
}

static int handle(struct served *s, const struct wire_frame *f)
{
    struct pmixd *pd = s->pd;
    int fd;

    if (f->type == WIRE_SPAWNED)
        spawned(pd, f);
    if (s != first_of(pd))
        return 0;
    if (f->type == WIRE_PMIX_JOIN) {
        fd = pd->passed;
        pd->passed = -1;
        return join(pd, f, fd);
    }
    if (f->type == WIRE_PMIX_LEAVE)
        pd->leaving = true;
    return 0;
}

/* Keep a received descriptor for the next PMIX_JOIN.  A long frame may arrive in parts, the last of
 * them together with the start of the next frame, so one more descriptor may be at hand. */
static void take_passed(struct pmixd *pd, int *fd)
{
    if (pd->passed >= 0 || *fd < 0)
        return;
    pd->passed = *fd;
    *fd = -1;
}

/* Read and handle the available frames.  False at the end of the connection. */
static bool read_served(struct served *s)
{
    struct pmixd *pd = s->pd;
    struct wire_frame frame;
    ptrdiff_t used = 0;
    errmsg_t err;

    for (;;) {
        void *p = buf_reserve(s->in, READ_SIZE);
        int fd = -1;
        ssize_t n = p ? fdpass_recv(s->fd, p, READ_SIZE, &fd, MSG_DONTWAIT) : 0;

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            return true;
        if (n <= 0)
            return false;
        buf_commit(s->in, (size_t)n);
        take_passed(pd, &fd);
        while ((used = exec_wire_parse(buf_data(s->in), buf_len(s->in), &frame, &err)) > 0) {
            int rc = handle(s, &frame);

            buf_consume(s->in, (size_t)used);
            take_passed(pd, &fd);
            if (rc < 0)
                used = rc;
            if (rc < 0)
                break;
        }
        if (fd >= 0) /* no frame has come for this descriptor */
            close(fd);
        if (used < 0)
            return false;
    }
}

static void served_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    struct served *s = arg;
    struct pmixd *pd = s->pd;

    if (!read_served(s)) {
        if (s == first_of(pd)) {
            flux_reactor_stop(r, 0);
            return;
        }
        served_free(s);
    }
    check_end(pd);
}

/* Takes `fd`. */
static struct served *served_create(struct pmixd *pd, int fd, const uint32_t *ranks, size_t n)
{
    struct served *s = calloc(1, sizeof(*s));

    if (!s) {
        if (fd != pd->fd)
            close(fd);
        return NULL;
    }
    s->pd = pd;
    s->fd = fd;
    list_append(&pd->served, &s->node);
    s->in = buf_create(0);
    s->ranks = malloc(n * sizeof(*ranks));
    s->w = flux_fd_watcher_create(pd->r, fd, FLUX_POLLIN, served_cb, s);
    if (!s->in || !s->ranks || !s->w)
        goto fail;
    for (; s->nranks < n; s->nranks++) {
        uint32_t rank = ranks[s->nranks];

        if (rank >= pd->ntasks || pd->served_by[rank])
            goto fail;
        s->ranks[s->nranks] = rank;
        pthread_mutex_lock(&pd->speaking);
        pd->served_by[rank] = s;
        pthread_mutex_unlock(&pd->speaking);
    }
    flux_watcher_start(s->w);
    return s;
fail:
    served_free(s);
    return NULL;
}

/* --- for the others --- */

int pmixd_nodes_init(struct pmixd *pd, errmsg_t *err)
{
    idset_t *ids = pd->ranks ? idset_parse(pd->ranks, err) : NULL;
    uint32_t *ranks = ids ? calloc(idset_count(ids) + 1, sizeof(*ranks)) : NULL;
    struct served *s = NULL;
    size_t n = 0;

    if (pd->ranks && !ids)
        return -1;
    for (uint32_t r = ranks ? idset_first(ids) : IDSET_NONE; r != IDSET_NONE;
         r = idset_next(ids, r))
        ranks[n++] = r;
    pd->served_by = calloc(pd->ntasks, sizeof(struct served *));
    if (pd->served_by && (ranks || !pd->ranks))
        s = ranks ? served_create(pd, pd->fd, ranks, n)
                  : served_create(pd, pd->fd, pd->local, pd->nlocal);
    idset_destroy(ids);
    free(ranks);
    return s ? 0 : errmsg_fail(err, ENOMEM, "out of memory");
}

void pmixd_nodes_tell_client(struct pmixd *pd, uint32_t rank, uint32_t what)
{
    uint32_t fixed[2] = {rank, what};

    pthread_mutex_lock(&pd->speaking);
    if (rank < pd->ntasks && pd->served_by[rank]) {
        int fd = pd->served_by[rank]->fd;

        say(pd, fd, WIRE_PMIX_CLIENT, fixed, sizeof(fixed), NULL, 0);
        if (!pd->begun && fd != pd->fd) /* so that the first launcher knows that MPI is in use */
            say(pd, pd->fd, WIRE_PMIX_CLIENT, fixed, sizeof(fixed), NULL, 0);
        pd->begun = true;
    }
    pthread_mutex_unlock(&pd->speaking);
}

void pmixd_nodes_ask_spawn(struct pmixd *pd, uint32_t rank, uint32_t tag, const void *request,
                           size_t len)
{
    if (rank < pd->ntasks && pd->served_by[rank])
        tell(pd, pd->served_by[rank]->fd, WIRE_SPAWN, &tag, sizeof(tag), request, len);
}

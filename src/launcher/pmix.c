/* pmix.c - PMIx for the tasks of a job: the launcher's end of flux-pmixd (pmixd.c), which
 * pmix_server.c starts.
 *
 *    state      of the server of a job                          left when (by)
 *    offered    with PMI-1 (WIRE_F_MPI_BOTH): tasks run, with   the first task connects
 *               an address on which the launcher listens        (pmix_wanted)
 *               (offer.c)
 *    starting   a starter starts it, or it runs; without an     PMIX_READY arrives (handle)
 *               offer the tasks wait (JOB_STARTING)
 *    serving    tasks run; without an offer, with the           the last task was reaped
 *               variables of PMIX_READY in their environment    (pmix_end)
 *    leaving    it still serves other nodes of this host        it ends, after all of them have
 *               (share.c), and knows that this node is done     joined and left (pmix_reaped); or
 *                                                               the job is killed (pmix_end)
 *    over       it was killed; DONE waits for its end           it is reaped (pmix_reaped)
 *
 * End: at the end of a job the server is killed rather than asked to end: its only remaining work
 * would be to remove its directory, which is removed with the directory of the job.
 *
 * Failure: if the server ends earlier, the job fails.  A task that has connected and ends without
 * finalizing makes the other tasks wait, so the job fails.  The job also fails for a task that ends
 * without connecting if other tasks of this node have connected, or connect later, since their
 * first fence would wait for it.  The notice that a node has begun travels up the tree, for the
 * nodes where no task has connected (subjob_pmi.c of wrexec).
 */
#include "config.h"
#include "pmix_private.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "libexec/exec_layout.h"
#include "libsubprocess/spawn.h"
#include "libutil/fdpass.h"

#define READ_SIZE 65536

enum { CONNECTED = 1, FINALIZED };

/* --- start --- */

static void pmix_ready(struct source *s, uint32_t events);

void pmix_job_name(const struct nodejob *j, char buf[PMIX_JOB_NAME_MAX])
{
    char name[WIRE_JOB_NAME_MAX];

    exec_wire_job_name(name, j->id, j->run.nonce);
    snprintf(buf, PMIX_JOB_NAME_MAX, "flux-%s", name);
}

static struct pmix *pmix_create(struct nodejob *j)
{
    struct pmix *px = calloc(1, sizeof(*px));

    if (!px)
        return NULL;
    px->job = j;
    px->src.fd = -1;
    px->gate = -1;
    j->pmix = px;
    return px;
}

/* Allocate the tables for the messages of a server. */
static int make_room(struct pmix *px)
{
    px->in = buf_create(WIRE_PAYLOAD_MAX + WIRE_HEADER + READ_SIZE);
    px->clients = calloc(px->job->ntasks, 1);
    return px->in && px->clients ? 0 : -1;
}

/* Set the environment from strings with their NULs: `common` strings, and then `each` strings for
 * every task. */
static int set_environment(struct pmix *px, const char *text, size_t len, uint32_t common,
                           uint32_t each)
{
    size_t n = common + (size_t)each * px->job->ntasks;
    const char *p;

    px->body = malloc(len + 1);
    px->env = calloc(n + 1, sizeof(*px->env));
    if (!px->body || !px->env)
        return -1;
    memcpy(px->body, text, len);
    p = px->body;
    for (size_t i = 0; i < n; i++, p += strlen(p) + 1)
        px->env[i] = (char *)p;
    px->common = common;
    px->each = each;
    return 0;
}

static int start_server(struct pmix *px, int door, errmsg_t *err)
{
    struct launcher *l = px->job->l;
    int sv[2];

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sv) < 0)
        return errmsg_fail(err, errno, "cannot start a PMIx server: %s", strerror(errno));
    if (launcher_source_start(l, &px->src, sv[0], EPOLLIN, pmix_ready) < 0) {
        close(sv[0]);
        close(sv[1]);
        px->src.fd = -1;
        return errmsg_fail(err, errno, "cannot start a PMIx server: %s", strerror(errno));
    }
    if (!share_leads(px->job->share) ? share_ask(px->job->share, sv[1], px->offer != NULL, err) < 0
                                     : pmix_server_spawn(px, sv[1], door, err) < 0) {
        launcher_source_close(l, &px->src);
        return -1;
    }
    return 0;
}

/* --- tasks that have connected --- */

static void left_early(struct nodejob *j, const struct task *t)
{
    int code = spawn_status_to_code(t->status);
    char text[128];

    launcher_send_fail(j, code ? code : 1, (int32_t)t->rank, 1,
                       "task %u left before MPI_Init (%s), so the other tasks would wait forever",
                       t->rank, spawn_status_text(t->status, text, sizeof(text)));
}

/* Note that the first task has connected. */
static void begin(struct pmix *px)
{
    struct nodejob *j = px->job;

    px->begun = true;
    if (j->run.nnodes > 1)
        launcher_send_frame(j->l, WIRE_BEGUN, j->id, NULL, 0, NULL, 0);
    for (uint32_t i = 0; i < j->ntasks; i++)
        if (task_has_ended(&j->tasks[i]) && px->clients[i] == 0) {
            left_early(j, &j->tasks[i]);
            return;
        }
}

/* --- a server that is offered beside PMI-1 --- */

int pmix_wanted(struct nodejob *j, int door, errmsg_t *err)
{
    if (make_room(j->pmix) < 0)
        return errmsg_fail(err, ENOMEM, "no memory to start a PMIx server");
    if (start_server(j->pmix, door, err) < 0)
        return -1;
    /* A leader that has left without a server cannot report it: the nodes above detect it. */
    if (!share_leads(j->share))
        begin(j->pmix);
    return 0;
}

/* Open the gate for the tasks of a follower once it has arrived and the server knows their
 * launcher. */
static void let_in(struct pmix *px)
{
    if (px->gate < 0 || !px->known)
        return;
    offer_answered(px->offer, px->gate);
    px->gate = -1;
}

void pmix_answered(struct nodejob *j, int fd)
{
    struct pmix *px = j->pmix;

    if (!px || !px->offer || px->over || px->gate >= 0) {
        close(fd);
        return;
    }
    px->gate = fd;
    let_in(px);
}

/* The payload is u32 node, and then the ranks of its tasks; the descriptor goes with it. */
int pmix_join(struct nodejob *j, uint32_t node, int fd, int *gate, errmsg_t *err)
{
    uint32_t n = exec_layout_count(j->layout, node), *payload;
    struct pmix *px = j->pmix;
    size_t len = 4 * (1 + (size_t)n);
    uint8_t *frame;
    ssize_t sent;

    *gate = -1;
    if (!px || px->over)
        return errmsg_fail(err, ESRCH, "there is none");
    if (px->offer && (*gate = offer_gate(px->offer)) < 0)
        return errmsg_fail(err, ESRCH, "it could not be started");
    if (!(frame = malloc(WIRE_HEADER + len)) || !(payload = malloc(len))) {
        free(frame);
        return errmsg_fail(err, ENOMEM, "out of memory");
    }
    payload[0] = node;
    for (uint32_t i = 0; i < n; i++)
        payload[1 + i] = exec_layout_task(j->layout, node, i);
    exec_wire_header(frame, WIRE_PMIX_JOIN, j->id, (uint32_t)len);
    memcpy(frame + WIRE_HEADER, payload, len);
    sent = fdpass_send(px->src.fd, frame, WIRE_HEADER + len, fd);
    free(frame);
    free(payload);
    if (sent < 0 && (errno == EPIPE || errno == ECONNRESET || errno == EBADF))
        return 0; /* the loss of the server is reported when it is reaped */
    if (sent != (ssize_t)(WIRE_HEADER + len))
        return errmsg_fail(err, EAGAIN, "it takes nothing");
    return 0;
}

/* Make an offer.  Without an offer the job continues, because it may not need PMIx; but a leader
 * without a server must refuse the other nodes of this host (pmix_join()). */
static int offer(struct nodejob *j, errmsg_t *err)
{
    struct pmix *px = NULL;

    if (j->l->pmixd == 0) {
        char *path = pmix_server_path();

        j->l->pmixd = path && access(path, X_OK) == 0 ? 1 : -1;
        free(path);
    }
    if (j->l->pmixd < 0)
        return 0;
    if (share_create(j, err) < 0)
        return -1;
    if (!j->dir)
        return 0;
    if (!(px = pmix_create(j)) || !(px->offer = offer_create(j))) {
        launcher_send_note(j, "there is no PMIx for the tasks of node %u: %s", j->run.node,
                           strerror(errno));
        pmix_destroy(j);
        return 0;
    }
    px->ready = true;
    return 0;
}

int pmix_begin(struct nodejob *j, errmsg_t *err)
{
    const char *lib;
    bool both = (j->run.flags & WIRE_F_MPI_BOTH) != 0;

    if (j->run.flags & (WIRE_F_EXEC | WIRE_F_NESTED))
        return 0;
    /* A job that names a library will use it, and gets the errors of the check. */
    if (both && !pmix_server_library(j, &lib))
        return offer(j, err);
    if (!both && !(j->run.flags & WIRE_F_MPI_PMIX))
        return 0;
    if (!j->dir)
        return errmsg_fail(err, EIO, "no directory for the PMIx server can be made");
    if (share_create(j, err) < 0)
        return -1;
    if (!pmix_create(j) || make_room(j->pmix) < 0)
        return errmsg_fail(err, ENOMEM, "no memory to start a PMIx server");
    return start_server(j->pmix, -1, err) < 0 ? -1 : 1;
}

/* --- frames of the server --- */

static int take_environment(struct pmix *px, const struct wire_frame *f)
{
    size_t len = f->len - 8;
    uint32_t common = exec_wire_u32(f->payload), each = exec_wire_u32(f->payload + 4);
    const char *p = (const char *)f->payload + 8;

    if (common > 4096 || each > 64 || px->ready ||
        !exec_wire_strings_ok(p, len, common + (size_t)each * px->job->ntasks))
        return -1;
    return set_environment(px, p, len, common, each);
}

static void handle(struct pmix *px, const struct wire_frame *f)
{
    struct nodejob *j = px->job;

    if (f->type == WIRE_PMIX_READY && px->offer) {
        px->known = true; /* the tasks already have these variables, from the offer */
        let_in(px);
    } else if (f->type == WIRE_PMIX_READY) {
        if (take_environment(px, f) < 0) {
            launcher_send_fail(j, 1, -1, 0, "the PMIx server gave no environment for tasks");
            nodejob_kill(j);
        } else if (j->state == JOB_STARTING) {
            px->ready = true;
            nodejob_start(j);
        }
    } else if (f->type == WIRE_PMIX_CLIENT) {
        uint32_t rank = exec_wire_u32(f->payload), what = exec_wire_u32(f->payload + 4);

        /* The first task that connects is reported here too, even if it is on another node. */
        for (uint32_t i = 0; i < j->ntasks; i++)
            if (j->tasks[i].rank == rank)
                px->clients[i] = (uint8_t)what;
        if (!px->begun)
            begin(px);
    } else if (f->type == WIRE_SPAWN) {
        size_t len = exec_wire_u32(f->payload + 4);

        if (len > f->len - WIRE_SPAWN_HEAD ||
            pmi_ask_spawn(j, exec_wire_u32(f->payload), f->payload + WIRE_SPAWN_HEAD, len) < 0)
            launcher_send_fail(j, 1, -1, 0, "a spawn of the PMIx server cannot be passed on");
    } else if (f->type == WIRE_FAIL) {
        launcher_send_fail(j, exec_wire_i32(f->payload), exec_wire_i32(f->payload + 4),
                           exec_wire_u32(f->payload + 8), "%.*s", (int)f->len - 12,
                           (const char *)f->payload + 12);
        if (j->state == JOB_STARTING)
            nodejob_kill(j);
    }
}

/* Close the connection to the server.  The reason of its end is reported when it is reaped. */
static void hang_up(struct pmix *px)
{
    /* Kill the server first: when its connection ends, it takes the launcher for dead. */
    if (px->pid > 0)
        kill(px->pid, SIGKILL);
    launcher_source_close(px->job->l, &px->src);
}

static void pmix_read(struct pmix *px)
{
    struct wire_frame f;
    ptrdiff_t used = 0;
    errmsg_t err;
    void *p = buf_reserve(px->in, READ_SIZE);
    ssize_t n = p ? recv(px->src.fd, p, READ_SIZE, MSG_DONTWAIT) : 0;

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0) {
        hang_up(px);
        return;
    }
    buf_commit(px->in, (size_t)n);
    while (px->src.fd >= 0 &&
           (used = exec_wire_parse(buf_data(px->in), buf_len(px->in), &f, &err)) > 0) {
        handle(px, &f);
        buf_consume(px->in, (size_t)used);
    }
    if (used < 0)
        hang_up(px);
}

/* Read and handle the available frames. */
static void drain(struct pmix *px)
{
    char c;

    while (px->src.fd >= 0 && recv(px->src.fd, &c, 1, MSG_DONTWAIT | MSG_PEEK) > 0)
        pmix_read(px);
}

static void pmix_ready(struct source *s, uint32_t events)
{
    pmix_read((struct pmix *)((char *)s - offsetof(struct pmix, src)));
}

/* Send a frame.  Frames are small and the server always reads, so a full socket means that the
 * server is lost. */
static int send_frame(struct pmix *px, enum wire_type type, const void *payload, size_t len)
{
    uint8_t frame[WIRE_HEADER + 8 + WIRE_NAME_MAX];

    if (px->src.fd < 0 || len > 8 + WIRE_NAME_MAX)
        return -1;
    exec_wire_header(frame, type, px->job->id, (uint32_t)len);
    if (len)
        memcpy(frame + WIRE_HEADER, payload, len);
    if (send(px->src.fd, frame, WIRE_HEADER + len, MSG_NOSIGNAL | MSG_DONTWAIT) ==
        (ssize_t)(WIRE_HEADER + len))
        return 0;
    hang_up(px);
    return -1;
}

void pmix_spawned(struct nodejob *j, const void *payload, size_t len)
{
    if (j->pmix)
        (void)send_frame(j->pmix, WIRE_SPAWNED, payload, len);
}

/* --- functions for nodejob.c --- */

size_t pmix_env(struct nodejob *j, char **vars)
{
    struct pmix *px = j->pmix;

    if (!px || !px->ready)
        return 0;
    if (px->offer)
        return offer_env(px->offer, vars);
    memcpy(vars, px->env, px->common * sizeof(*vars));
    return px->common;
}

size_t pmix_env_max(const struct nodejob *j)
{
    if (!j->pmix)
        return 0;
    return j->pmix->offer ? offer_env_max() : (size_t)j->pmix->common + j->pmix->each;
}

size_t pmix_task_env(struct nodejob *j, const struct task *t, char **vars)
{
    struct pmix *px = j->pmix;

    if (!px || !px->ready)
        return 0;
    if (px->offer) {
        vars[0] = offer_task_env(px->offer, t);
        return 1;
    }
    memcpy(vars, px->env + px->common + px->each * (size_t)(t - j->tasks),
           px->each * sizeof(*vars));
    return px->each;
}

void pmix_task_ended(struct task *t)
{
    struct nodejob *j = t->job;
    struct pmix *px = j->pmix;
    size_t idx = (size_t)(t - j->tasks);
    char text[128];
    int code;

    if (!px || px->over || !px->clients)
        return;
    /* The last frame of the server about the task may still be in the socket. */
    drain(px);
    if (px->clients[idx] == 0 && j->run.parent && t->status) {
        pmi_spawned_in_vain(t);
        return;
    }
    if (!px->begun || px->clients[idx] == FINALIZED)
        return;
    if (px->clients[idx] == 0) {
        left_early(j, t);
        return;
    }
    code = spawn_status_to_code(t->status);
    launcher_send_fail(
        j, code ? code : 1, (int32_t)t->rank, 1,
        "task %u left without MPI_Finalize (%s), so the other tasks would wait forever", t->rank,
        spawn_status_text(t->status, text, sizeof(text)));
}

bool pmix_within(const struct nodejob *j, uint32_t i)
{
    return j->pmix && j->pmix->clients && j->pmix->clients[i] == CONNECTED;
}

void pmix_end(struct nodejob *j)
{
    struct pmix *px = j->pmix;

    if (!px || px->over)
        return;
    /* Other nodes of this host may still need the server. */
    if (px->pid > 0 && share_followers(j->share) && !j->killed) {
        if (!px->leaving && send_frame(px, WIRE_PMIX_LEAVE, NULL, 0) == 0)
            px->leaving = true;
        if (px->leaving)
            return;
    }
    px->over = true;
    hang_up(px);
    offer_close(px->offer);
    share_destroy(j);
}

bool pmix_gone(const struct nodejob *j)
{
    return !j->pmix || j->pmix->pid == 0;
}

bool pmix_is(const struct launcher *l, pid_t pid)
{
    return hmap_get_u64(l->servers, (uint64_t)pid) != NULL;
}

bool pmix_reaped(struct launcher *l, pid_t pid, int status)
{
    struct pmix *px = hmap_take_u64(l->servers, (uint64_t)pid);
    char text[128];
    struct nodejob *j;

    if (!px)
        return false;
    j = px->job;
    px->pid = 0;
    drain(px);
    launcher_source_close(l, &px->src);
    if (px->over)
        return true;
    if (px->leaving && status == 0) {
        pmix_end(j); /* the other nodes have left, too */
        return true;
    }
    launcher_send_fail(j, 1, -1, 0, "the PMIx server of node %u was lost (%s)", j->run.node,
                       spawn_status_text(status, text, sizeof(text)));
    nodejob_kill(j);
    return true;
}

void pmix_destroy(struct nodejob *j)
{
    struct pmix *px = j->pmix;

    if (!px)
        return;
    if (px->pid > 0) {
        kill(px->pid, SIGKILL);
        hmap_take_u64(j->l->servers, (uint64_t)px->pid);
    }
    launcher_source_close(j->l, &px->src);
    if (px->gate >= 0)
        close(px->gate);
    offer_destroy(px->offer);
    buf_destroy(px->in);
    free(px->body);
    free(px->env);
    free(px->clients);
    free(px);
    j->pmix = NULL;
}

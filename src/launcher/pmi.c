/* pmi.c - PMI-1 for the tasks of a job: the state machine of libpmi, with one socket per task.
 *
 * Purpose: a job whose tasks do not use PMI costs only a socket pair per task: the server is
 * created when the first byte arrives.  If all tasks are on this node, a barrier is complete when
 * all tasks are in it, and the pairs are sent up for the record only.
 *
 * Failure: a task that has sent init and ends without finalize would make the other tasks wait, so
 * the job fails (FAIL).  The end of the process of the task counts, not that of its connection,
 * since only the process has a status.
 */
#include "config.h"
#include "launcher.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "libsubprocess/spawn.h"

#define PMI_READ 65536

static int pmi_flush(struct task *t)
{
    while (t->pmiout && buf_len(t->pmiout) > 0) {
        ssize_t n =
            send(t->pmi.fd, buf_data(t->pmiout), buf_len(t->pmiout), MSG_NOSIGNAL | MSG_DONTWAIT);

        if (n >= 0)
            buf_consume(t->pmiout, (size_t)n);
        else if (errno == EAGAIN)
            return 1;
        else if (errno != EINTR)
            return -1;
    }
    return 0;
}

static void pmi_watch(struct task *t, uint32_t events)
{
    if (t->pmi.fd < 0 || t->pmi.events == events)
        return;
    launcher_source_pause(t->job->l, &t->pmi);
    t->pmi.events = events;
    launcher_source_resume(t->job->l, &t->pmi);
}

static int op_send(void *arg, size_t idx, const void *data, size_t len)
{
    struct nodejob *j = arg;
    struct task *t = &j->tasks[idx];
    const uint8_t *p = data;

    if (t->pmi.fd < 0)
        return -1;
    /* Write to the socket directly if no earlier answer waits. */
    while (len > 0 && (!t->pmiout || buf_len(t->pmiout) == 0)) {
        ssize_t n = send(t->pmi.fd, p, len, MSG_NOSIGNAL | MSG_DONTWAIT);

        if (n >= 0) {
            p += n;
            len -= (size_t)n;
        } else if (errno == EAGAIN) {
            break;
        } else if (errno != EINTR) {
            return -1;
        }
    }
    if (len == 0)
        return 0;
    if (!t->pmiout && !(t->pmiout = buf_create(0)))
        return -1;
    if (buf_append(t->pmiout, p, len) < 0)
        return -1;
    /* Read from the task again once it has read its answers. */
    pmi_watch(t, EPOLLOUT);
    return 0;
}

static void op_barrier(void *arg, const void *blob, size_t len, size_t npairs)
{
    struct nodejob *j = arg;
    uint32_t num = j->barriers++;

    if (j->run.nnodes > 1) {
        launcher_send_frame(j->l, WIRE_PMI_FENCE, j->id, &num, sizeof(num), blob, len);
        return;
    }
    pmi_server_barrier_done(j->pmi, 0, NULL);
}

static void op_put(void *arg, size_t idx, const struct pmi_pair *pair)
{
    shm_put(arg, pair);
}

static void op_abort(void *arg, size_t idx, int exitcode, const char *msg)
{
    struct nodejob *j = arg;
    int code = exitcode & 255;

    /* 0 is the code of the message, and the exit code of other launchers; 256 is an error whose
     * code is lost. */
    if (exitcode && !code)
        code = 1;
    launcher_send_fail(j, code, (int32_t)j->tasks[idx].rank, 1, "task %u aborted the job%s%s",
                       task_number(&j->tasks[idx]), msg && msg[0] ? ": " : "", msg ? msg : "");
}

static void op_client_error(void *arg, size_t idx, const char *text)
{
    struct nodejob *j = arg;

    launcher_send_fail(j, 1, (int32_t)j->tasks[idx].rank, 1, "%s", text);
}

/* Names are visible to other jobs, so rank 0 keeps them (names.c of wrexec). */
static int send_name(struct nodejob *j, size_t idx, enum wire_name op, const char *service,
                     const char *port)
{
    size_t a = strlen(service) + 1, b = strlen(port) + 1;
    uint32_t fixed[2] = {(uint32_t)idx, op};
    char text[2 * (WIRE_NAME_MAX + 1)];

    if (a + b > sizeof(text))
        return -1;
    memcpy(text, service, a);
    memcpy(text + a, port, b);
    launcher_send_frame(j->l, WIRE_PMI_NAME, j->id, fixed, sizeof(fixed), text, a + b);
    return 0;
}

static int op_publish(void *arg, size_t idx, const char *service, const char *port)
{
    return send_name(arg, idx, WIRE_NAME_PUBLISH, service, port);
}

static int op_lookup(void *arg, size_t idx, const char *service)
{
    return send_name(arg, idx, WIRE_NAME_LOOKUP, service, "");
}

static int op_unpublish(void *arg, size_t idx, const char *service)
{
    return send_name(arg, idx, WIRE_NAME_UNPUBLISH, service, "");
}

/* The directory, files and environment of the job, which the new tasks share, are sent with the
 * request, because the module does not keep them. */
int pmi_ask_spawn(struct nodejob *j, uint32_t tag, const void *request, size_t len)
{
    const char *end = j->run.strings + j->run.strings_len, *env = j->run.envc ? j->env[0] : end;
    const char *fixed[WIRE_STRINGS] = {
        [WIRE_S_CWD] = j->fixed[WIRE_S_CWD],
        [WIRE_S_IN] = "",
        [WIRE_S_OUT] = j->fixed[WIRE_S_OUT],
        [WIRE_S_ERR] = j->fixed[WIRE_S_ERR],
    };
    uint32_t head[3] = {tag, (uint32_t)len, j->run.envc};
    buf_t *b = buf_create(WIRE_PAYLOAD_MAX - sizeof(head));
    int rc = b ? buf_append(b, request, len) : -1;

    for (int i = 0; rc == 0 && i < WIRE_STRINGS; i++)
        rc = buf_append(b, fixed[i], strlen(fixed[i]) + 1);
    if (rc == 0 && (rc = buf_append(b, env, (size_t)(end - env))) == 0)
        launcher_send_frame(j->l, WIRE_SPAWN, j->id, head, sizeof(head), buf_data(b), buf_len(b));
    buf_destroy(b);
    return rc;
}

static int op_spawn(void *arg, size_t idx, const void *request, size_t len)
{
    return pmi_ask_spawn(arg, (uint32_t)idx, request, len);
}

static const struct pmi_server_ops server_ops = {
    .send = op_send,
    .barrier = op_barrier,
    .put = op_put,
    .abort = op_abort,
    .client_error = op_client_error,
    .publish = op_publish,
    .lookup = op_lookup,
    .unpublish = op_unpublish,
    .spawn = op_spawn,
};

/* Libraries use this name for the objects that they create on the host, so it names this launch
 * alone. */
void pmi_job_name(const struct nodejob *j, char *buf, size_t size)
{
    char name[WIRE_JOB_NAME_MAX];

    exec_wire_job_name(name, j->id, j->run.nonce);
    snprintf(buf, size, "%s", name);
}

/* Store the pairs that the spawning tasks have passed to these tasks.  A pair that the store cannot
 * take is left out: a task that gets its key receives the error. */
static int preset_pairs(struct nodejob *j)
{
    for (uint32_t i = 0; j->run.parent && i < j->run.nfiles; i++)
        if (pmi_server_preset(j->pmi, j->files[2 * i], j->files[2 * i + 1]) < 0 && errno == ENOMEM)
            return -1;
    return 0;
}

static int server_start(struct nodejob *j)
{
    char name[64], *mapping = NULL;
    struct pmi_server_params p = {.kvsname = name,
                                  .size = j->run.ntasks,
                                  .universe_size = j->run.universe > j->run.ntasks ? j->run.universe
                                                                                   : j->run.ntasks,
                                  .nlocal = j->ntasks,
                                  .batch_max = j->run.nnodes > 1 ? WIRE_PMI_MAX : 0};
    uint32_t *ranks = calloc(j->ntasks, sizeof(*ranks));
    int *appnums = calloc(j->ntasks, sizeof(*appnums));
    errmsg_t err;

    if (!ranks || !appnums)
        goto out;
    for (uint32_t i = 0; i < j->ntasks; i++) {
        ranks[i] = j->tasks[i].rank;
        if (j->run.ncommands)
            appnums[i] = (int)(task_command(j, ranks[i]) - j->commands);
    }
    pmi_job_name(j, name, sizeof(name));
    p.ranks = ranks;
    p.appnums = appnums;
    mapping = hosts_mapping(j);
    if (!mapping)
        goto out;
    j->pmi = pmi_server_create(&server_ops, j, &p, &err);
    if (j->pmi &&
        ((pmi_server_preset(j->pmi, "PMI_process_mapping", mapping) < 0 && errno == ENOMEM) ||
         preset_pairs(j) < 0)) {
        pmi_server_destroy(j->pmi);
        j->pmi = NULL;
    }
    for (uint32_t i = 0; j->pmi && i < j->ntasks; i++)
        if (task_has_ended(&j->tasks[i]))
            pmi_server_eof(j->pmi, i); /* the task ended without finalize */
out:
    free(ranks);
    free(appnums);
    free(mapping);
    return j->pmi ? 0 : -1;
}

void pmi_ready(struct source *s, uint32_t events)
{
    struct task *t = (struct task *)((char *)s - offsetof(struct task, pmi));
    struct nodejob *j = t->job;
    size_t idx = (size_t)(t - j->tasks);
    char data[PMI_READ];
    ssize_t n;
    int rc;

    if (s->events & EPOLLOUT) {
        rc = pmi_flush(t);
        if (rc < 0)
            launcher_source_close(j->l, s);
        else if (rc == 0)
            pmi_watch(t, EPOLLIN);
        return;
    }
    n = recv(s->fd, data, sizeof(data), MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0) {
        /* The end of the process decides whether this is an error. */
        launcher_source_close(j->l, s);
        return;
    }
    if (!j->pmi && server_start(j) < 0) {
        launcher_send_fail(j, 1, (int32_t)t->rank, 1,
                           "no memory to serve PMI to %u tasks on one node", j->ntasks);
        launcher_source_close(j->l, s);
        return;
    }
    if (pmi_server_input(j->pmi, idx, data, (size_t)n) < 0)
        launcher_source_close(j->l, s);
}

void pmi_done(struct nodejob *j, const void *payload, size_t len)
{
    const char *p = payload;
    int rc = exec_wire_i32(p);
    char text[256];

    if (!j->pmi)
        return;
    if (rc == 0 && pmi_server_merge(j->pmi, p + 4, len - 4) < 0) {
        snprintf(text, sizeof(text), "the PMI pairs of other nodes cannot be taken in: %s",
                 strerror(errno));
        pmi_server_barrier_done(j->pmi, -1, text);
        launcher_send_fail(j, 1, -1, 0, "%s", text);
        return;
    }
    snprintf(text, sizeof(text), "%.*s", rc ? (int)(len - 4) : 0, p + 4);
    pmi_server_barrier_done(j->pmi, rc, rc ? text : NULL);
}

void pmi_named(struct nodejob *j, const void *payload, size_t len)
{
    const char *p = payload;
    uint32_t task = exec_wire_u32(p);
    int rc = exec_wire_i32(p + 4);
    char text[WIRE_NAME_MAX + 1];

    if (!j->pmi || task >= j->ntasks)
        return;
    snprintf(text, sizeof(text), "%.*s", (int)(len - 8), p + 8);
    pmi_server_name_done(j->pmi, task, rc, rc ? NULL : text, rc ? text : NULL);
}

void pmi_spawned(struct nodejob *j, const void *payload, size_t len)
{
    const char *p = payload;
    int rc = exec_wire_i32(p + 4);
    char text[WIRE_NAME_MAX + 1];

    if (exec_wire_u32(p) & WIRE_SPAWN_PMIX)
        pmix_spawned(j, payload, len);
    if (!j->pmi || (exec_wire_u32(p) & WIRE_SPAWN_PMIX))
        return;
    snprintf(text, sizeof(text), "%.*s", (int)(len - 8), p + 8);
    pmi_server_spawn_done(j->pmi, exec_wire_u32(p), rc, rc ? NULL : text, rc ? text : NULL);
}

/* Fail the job if a spawned task ends before it connects: the tasks that spawned it wait for the
 * connection, which is made when it begins with MPI. */
void pmi_spawned_in_vain(struct task *t)
{
    int code = spawn_status_to_code(t->status);
    char text[128];

    launcher_send_fail(
        t->job, code ? code : 1, (int32_t)t->rank, 1,
        "spawned task %u ended before MPI_Init (%s), so the tasks that spawned it would wait "
        "forever",
        task_number(t), spawn_status_text(t->status, text, sizeof(text)));
}

void pmi_task_ended(struct task *t)
{
    struct nodejob *j = t->job;
    size_t idx = (size_t)(t - j->tasks);
    char text[128];
    int code;

    if (!j->pmi) {
        if (j->run.parent && task_has_pmi(j))
            pmi_spawned_in_vain(t);
        return;
    }
    /* The last requests of the task may still be in the socket. */
    while (t->pmi.fd >= 0 && (t->pmi.events & EPOLLIN)) {
        char data[4096];
        ssize_t n = recv(t->pmi.fd, data, sizeof(data), MSG_DONTWAIT);

        if (n <= 0 || pmi_server_input(j->pmi, idx, data, (size_t)n) < 0)
            break;
    }
    launcher_source_close(j->l, &t->pmi);
    if (!pmi_server_initialized(j->pmi, idx)) {
        if (j->run.parent)
            pmi_spawned_in_vain(t);
        pmi_server_eof(j->pmi, idx); /* an error if other tasks wait for this one */
        return;
    }
    if (pmi_server_finalized(j->pmi, idx))
        return;
    code = spawn_status_to_code(t->status);
    launcher_send_fail(
        j, code ? code : 1, (int32_t)t->rank, 1,
        "task %u left without MPI_Finalize (%s), so the other tasks would wait forever",
        task_number(t), spawn_status_text(t->status, text, sizeof(text)));
}

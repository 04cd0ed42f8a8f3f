/* The process object: a thin layer over spawn_process(). */
#include "libsubprocess/process.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

struct process {
    pid_t pid;
    int pidfd;
    int fds[3];
    bool group; /* it leads a process group */
    bool ended;
    int status;
};

static void close_fd(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

process_t *process_create(const struct process_params *pp, errmsg_t *err)
{
    struct spawn_params sp = pp->spawn;
    struct spawn_fd fds[SPAWN_FDS_MAX];
    int theirs[3] = {-1, -1, -1}, errnum;
    process_t *p = calloc(1, sizeof(*p));

    if (!p) {
        errmsg_fail(err, ENOMEM, "no memory to start '%s'", sp.path);
        return NULL;
    }
    p->pidfd = p->fds[0] = p->fds[1] = p->fds[2] = -1;
    if (sp.nfds > SPAWN_FDS_MAX - 3) {
        errmsg_fail(err, EINVAL, "too many descriptors for '%s'", sp.path);
        goto fail;
    }
    if (sp.nfds)
        memcpy(fds, sp.fds, sp.nfds * sizeof(*fds));
    for (int i = 0; i < 3; i++) {
        int ends[2];

        if (!(pp->pipes & (1u << i)))
            continue;
        if (pipe2(ends, O_CLOEXEC) < 0) {
            errmsg_set(err, "cannot make a pipe for '%s': %s", sp.path, strerror(errno));
            goto fail;
        }
        p->fds[i] = ends[i == 0];
        theirs[i] = ends[i != 0];
        if (fcntl(p->fds[i], F_SETFL, O_NONBLOCK) < 0) {
            errmsg_set(err, "cannot make a pipe for '%s': %s", sp.path, strerror(errno));
            goto fail;
        }
        fds[sp.nfds++] = (struct spawn_fd){theirs[i], i};
    }
    sp.fds = fds;
    sp.pidfd = &p->pidfd;
    p->pid = spawn_process(&sp, err);
    if (p->pid < 0)
        goto fail;
    p->group = (sp.flags & (SPAWN_PGRP | SPAWN_SESSION)) != 0;
    for (int i = 0; i < 3; i++)
        close_fd(&theirs[i]);
    return p;
fail:
    errnum = errno;
    for (int i = 0; i < 3; i++) {
        close_fd(&theirs[i]);
        close_fd(&p->fds[i]);
    }
    free(p);
    errno = errnum;
    return NULL;
}

void process_destroy(process_t *p)
{
    int errnum = errno;

    if (!p)
        return;
    for (int i = 0; i < 3; i++)
        close_fd(&p->fds[i]);
    if (!p->ended && process_reap(p, &p->status) == 0) {
        process_kill(p, SIGKILL);
        while (waitpid(p->pid, NULL, 0) < 0 && errno == EINTR)
            ;
    }
    close_fd(&p->pidfd);
    free(p);
    errno = errnum;
}

int process_pidfd(const process_t *p)
{
    return p->pidfd;
}

int process_fd(const process_t *p, int stream)
{
    return stream >= 0 && stream < 3 ? p->fds[stream] : -1;
}

void process_close(process_t *p, int stream)
{
    if (stream >= 0 && stream < 3)
        close_fd(&p->fds[stream]);
}

int process_kill(process_t *p, int signum)
{
    if (p->ended) {
        errno = ESRCH;
        return -1;
    }
    return kill(p->group ? -p->pid : p->pid, signum);
}

int process_reap(process_t *p, int *status)
{
    pid_t pid;

    if (!p->ended) {
        while ((pid = waitpid(p->pid, &p->status, WNOHANG)) < 0 && errno == EINTR)
            ;
        if (pid == 0)
            return 0;
        p->ended = true;
        if (pid < 0) {
            p->status = 0;
            return -1;
        }
    }
    *status = p->status;
    return 1;
}

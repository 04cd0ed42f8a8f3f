/* Prolog and epilog: programs of the site that run on each node before the tasks of a job, and
 * after all of it is gone.
 *
 * state of a job    meaning                                         left when
 * JOB_PROLOG        the prolog runs, no task does                   it was reaped
 * JOB_ENDING        and hook_epilog() says true: the epilog runs    it was reaped
 *
 *  1. A hook leads a process group, which is killed when its time is over, when the job is killed
 *     (the prolog only), and when it has ended.
 *  2. It has the job's environment without that of tasks, /dev/null as input, and / as directory.
 *     The first OUTPUT_KEPT bytes of what it writes are part of the sentence when it fails.
 *  3. Once a job has begun with its prolog its epilog is run, however the job ends: before a
 *     launcher that is told to leave does so, and by the next launcher after one that was lost
 *     (launcher_record.c).
 *
 * Failure: a prolog that cannot be run, fails or takes too long fails the job; an epilog that
 * does is told as a note.
 */
#include "config.h"
#include "launcher.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "libsubprocess/spawn.h"
#include "libutil/filetrust.h"

#define OUTPUT_KEPT 400
#define TIMEOUT 60.

struct hook {
    struct job *job;
    const char *what; /* "prolog", "epilog" */
    const char *program;
    pid_t pid; /* 0: reaped */
    struct source timer;
    struct source out;
    char text[OUTPUT_KEPT + 1];
    size_t len;
    bool late;
    bool epilog;
    bool done;
};

static void hook_stop(struct hook *k)
{
    struct launcher *l = k->job->l;

    source_close(l, &k->timer);
    source_close(l, &k->out);
}

static void timer_ready(struct source *s, uint32_t events)
{
    struct hook *k = (struct hook *)((char *)s - offsetof(struct hook, timer));

    source_close(k->job->l, s);
    k->late = true;
    if (k->pid > 0)
        kill(-k->pid, SIGKILL);
}

static bool out_read(struct hook *k)
{
    char data[4096];
    ssize_t n = read(k->out.fd, data, sizeof(data));
    size_t room = OUTPUT_KEPT - k->len;

    if (n <= 0)
        return n < 0 && (errno == EAGAIN || errno == EINTR);
    if (room > (size_t)n)
        room = (size_t)n;
    memcpy(k->text + k->len, data, room);
    k->len += room;
    return true;
}

static void out_ready(struct source *s, uint32_t events)
{
    struct hook *k = (struct hook *)((char *)s - offsetof(struct hook, out));

    if (!out_read(k))
        source_close(k->job->l, s);
}

static double limit(const struct launcher *l)
{
    return l->hook_timeout > 0 ? l->hook_timeout : TIMEOUT;
}

static int arm(struct hook *k)
{
    double t = limit(k->job->l);
    struct itimerspec its = {
        .it_value = {.tv_sec = (time_t)t, .tv_nsec = (long)(fmod(t, 1.) * 1e9) + 1}};
    int fd;

    if (!(t < 1e9))
        return 0;
    if (its.it_value.tv_nsec >= 1000000000L)
        its.it_value.tv_nsec = 999999999L;
    fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    if (fd >= 0 && timerfd_settime(fd, 0, &its, NULL) == 0 &&
        source_start(k->job->l, &k->timer, fd, EPOLLIN, timer_ready) == 0)
        return 0;
    if (fd >= 0)
        close(fd);
    k->timer.fd = -1;
    return -1;
}

static int spawn(struct hook *k, errmsg_t *err)
{
    struct job *j = k->job;
    char *argv[] = {(char *)k->program, NULL};
    struct env env = {0};
    int ends[2], rc = -1;
    errmsg_t why;

    if (!file_is_trusted(k->program, &why))
        return errmsg_fail(err, errno, "the %s %s", k->what, why.text);
    if (env_build(&env, j) < 0 || pipe2(ends, O_CLOEXEC) < 0) {
        errmsg_fail(err, errno, "the %s cannot be run: %s", k->what, strerror(errno));
        env_free(&env);
        return -1;
    }
    env_compact(&env);
    struct spawn_fd fds[] = {{j->l->nullfd, 0}, {ends[1], 1}, {ends[1], 2}};
    struct rlimit rl;
    struct spawn_limit tag = {RLIMIT_LOCKS, &rl};
    struct spawn_params sp = {.path = k->program,
                              .argv = argv,
                              .envp = env.vars,
                              .cwd = "/",
                              .fds = fds,
                              .nfds = 3,
                              .flags = SPAWN_PGRP | SPAWN_PLAIN_SIGNALS,
                              .limits = &tag,
                              .nlimits = tag_limit(j, &rl),
                              .pdeathsig = SIGKILL};

    if (fcntl(ends[0], F_SETFL, O_NONBLOCK) == 0 &&
        source_start(j->l, &k->out, ends[0], EPOLLIN, out_ready) == 0 && arm(k) == 0) {
        k->pid = spawn_process(&sp, err);
        rc = k->pid > 0 ? 0 : -1;
    } else {
        errmsg_fail(err, errno, "the %s cannot be run: %s", k->what, strerror(errno));
    }
    close(ends[1]);
    if (rc < 0) {
        k->pid = 0;
        if (k->out.fd < 0)
            close(ends[0]);
        hook_stop(k);
    }
    env_free(&env);
    return rc;
}

static struct hook *hook_create(struct job *j, const char *what, const char *program, errmsg_t *err)
{
    struct hook *k = calloc(1, sizeof(*k));

    if (!k) {
        errmsg_fail(err, ENOMEM, "no memory to run the %s", what);
        return NULL;
    }
    k->job = j;
    k->what = what;
    k->program = program;
    k->timer.fd = k->out.fd = -1;
    if (spawn(k, err) == 0 && hmap_put_u64(j->l->hooks, (uint64_t)k->pid, k) == 0)
        return k;
    if (k->pid > 0) {
        kill(-k->pid, SIGKILL);
        errmsg_fail(err, ENOMEM, "no memory to run the %s", what);
    }
    hook_stop(k);
    free(k);
    return NULL;
}

/* Why a hook failed, with what it wrote, on one line. */
static void explain(struct hook *k, int status, char *buf, size_t size)
{
    char why[128], *nl;

    while (k->out.fd >= 0 && k->len < OUTPUT_KEPT) {
        size_t before = k->len;

        if (!out_read(k) || k->len == before)
            break;
    }
    k->text[k->len] = '\0';
    while (k->len && (k->text[k->len - 1] == '\n' || k->text[k->len - 1] == ' '))
        k->text[--k->len] = '\0';
    while ((nl = strchr(k->text, '\n')))
        *nl = ' ';
    if (k->late)
        snprintf(why, sizeof(why), "it took longer than %g s", limit(k->job->l));
    else
        spawn_status_text(status, why, sizeof(why));
    snprintf(buf, size, "the %s %s failed on %s: %s%s%s%s", k->what, k->program,
             job_node_name(k->job), why, k->len ? " (" : "", k->text, k->len ? ")" : "");
}

/* Nobody but the log of the broker is left to be told when the job was of a launcher before. */
static void tell(struct job *j, const char *text)
{
    if (j->heir)
        fprintf(stderr, "flux-launcher: job %" PRIu64 ": %s\n", j->id, text);
    else
        send_note(j, "%s", text);
}

int hook_prolog(struct job *j, errmsg_t *err)
{
    if (!j->l->prolog || (j->run.flags & WIRE_F_EXEC))
        return 0;
    if (!(j->hook = hook_create(j, "prolog", j->l->prolog, err)))
        return -1;
    j->state = JOB_PROLOG;
    return 1;
}

bool hook_epilog(struct job *j)
{
    errmsg_t err;

    if (j->hook && j->hook->epilog)
        return !j->hook->done;
    if (!j->l->epilog || (j->run.flags & WIRE_F_EXEC) || j->host)
        return false;
    hook_destroy(j);
    if (!(j->hook = hook_create(j, "epilog", j->l->epilog, &err))) {
        tell(j, err.text);
        return false;
    }
    j->hook->epilog = true;
    return true;
}

void hook_kill(struct job *j)
{
    if (j->hook && !j->hook->epilog && j->hook->pid > 0)
        kill(-j->hook->pid, SIGKILL);
}

void hook_interrupt(struct job *j)
{
    if (j->hook && !(j->hook->epilog && j->hook->done))
        hook_destroy(j);
}

void hooks_epilogs(struct launcher *l)
{
    size_t pos = 0;
    void *val;

    while (hmap_next(l->jobs, &pos, NULL, NULL, &val))
        (void)hook_epilog(val);
    while (hmap_count(l->hooks) > 0)
        launcher_events(l, -1);
    for (pos = 0; hmap_next(l->jobs, &pos, NULL, NULL, &val);)
        record_remove(val);
}

bool hook_is(const struct launcher *l, pid_t pid)
{
    return hmap_get_u64(l->hooks, (uint64_t)pid) != NULL;
}

bool hook_reaped(struct launcher *l, pid_t pid, int status)
{
    struct hook *k = hmap_take_u64(l->hooks, (uint64_t)pid);
    char text[OUTPUT_KEPT + 512];

    if (!k)
        return false;
    k->pid = 0;
    k->done = true;
    if (status)
        explain(k, status, text, sizeof(text));
    hook_stop(k);
    if (k->epilog) {
        if (status)
            tell(k->job, text);
        return true;
    }
    job_prolog_done(k->job, status ? text : NULL);
    return true;
}

void hook_destroy(struct job *j)
{
    if (!j->hook)
        return;
    if (j->hook->pid > 0) {
        hmap_take_u64(j->l->hooks, (uint64_t)j->hook->pid);
        kill(-j->hook->pid, SIGKILL);
    }
    hook_stop(j->hook);
    free(j->hook);
    j->hook = NULL;
}

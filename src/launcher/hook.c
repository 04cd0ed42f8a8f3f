/* hook.c - prolog and epilog: programs of the site that run on each node before the tasks of a job,
 * and after all its processes are gone.
 *
 *    state of a job  meaning                                   left when                by
 *    JOB_NEW         a starter may be starting the prolog      the starter comes back   started
 *    JOB_PROLOG      the prolog runs, no task does             the prolog was reaped    hook_reaped
 *    JOB_ENDING      while hook_epilog() is true: the epilog   the epilog was reaped    hook_reaped
 *                    is being started, or runs
 *
 * Invariants:
 *  1. A hook leads a process group, which is killed after the time limit and, in the case of the
 *     prolog, when the job is killed.  Processes that a hook leaves behind end with the job
 *     (hunt.c).
 *  2. A hook has the environment of the job without the variables of tasks, /dev/null as input, and
 *     / as working directory.  If it fails, the error message contains the first OUTPUT_KEPT bytes
 *     of its output.
 *  3. A job whose prolog has begun gets its epilog, however the job ends: a launcher that is about
 *     to end runs the epilog first, and the successor of a lost launcher runs it (record.c).
 *  4. The program may be on a file system that hangs; the time limit includes this delay.  A child
 *     that cannot be killed at the end of the limit is left behind after GIVE_UP; the work that
 *     starts it keeps its data.
 *
 * Failure: a prolog that cannot be run, fails or exceeds its time limit fails the job; such a
 * failure of an epilog is reported as a note.
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
#define GIVE_UP 2. /* seconds */

struct hook {
    struct nodejob *job;
    const char *what; /* "prolog", "epilog" */
    const char *program;
    pid_t pid; /* 0: not started yet, or reaped */
    struct starting *starting;
    struct source timer;
    struct source out;
    char text[OUTPUT_KEPT + 1];
    size_t len;
    bool late;
    bool hung; /* its start hangs, and its time limit has passed */
    bool epilog;
    bool done;
};

/* The work that starts a hook. */
struct starting {
    struct work w;
    struct hook *hook; /* NULL: the hook was given up */
    const char *what;
    char *argv[2];
    struct env env;
    struct rlimit rl;
    struct spawn_limit tag;
    struct spawn_fd fds[3];
    struct spawn_params sp;
    int out; /* descriptor of the output of the child */
};

static int arm(struct hook *k, double t);
static void failed(struct hook *k, const char *why);
static void explain(struct hook *k, int status, char *buf, size_t size);

static void hook_stop(struct hook *k)
{
    struct launcher *l = k->job->l;

    launcher_source_close(l, &k->timer);
    launcher_source_close(l, &k->out);
}

static void timer_ready(struct source *s, uint32_t events)
{
    struct hook *k = (struct hook *)((char *)s - offsetof(struct hook, timer));

    struct nodejob *j = k->job;
    char text[OUTPUT_KEPT + 512];

    launcher_source_close(j->l, s);
    if (k->pid > 0) {
        kill(-k->pid, SIGKILL);
    } else if (k->starting && !k->late && arm(k, GIVE_UP) == 0) {
        k->hung = true;
        starter_batch_kill(j->l, k->starting->w.batch);
    } else if (k->starting) {
        k->late = k->hung = true;
        explain(k, 0, text, sizeof(text));
        failed(k, text);
        return;
    }
    k->late = true;
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
        launcher_source_close(k->job->l, s);
}

static double limit(const struct launcher *l)
{
    return l->hook_timeout > 0 ? l->hook_timeout : TIMEOUT;
}

static int arm(struct hook *k, double t)
{
    struct itimerspec its = {
        .it_value = {.tv_sec = (time_t)t, .tv_nsec = (long)(fmod(t, 1.) * 1e9) + 1}};
    int fd;

    if (!(t < 1e9))
        return 0;
    if (its.it_value.tv_nsec >= 1000000000L)
        its.it_value.tv_nsec = 999999999L;
    fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    if (fd >= 0 && timerfd_settime(fd, 0, &its, NULL) == 0 &&
        launcher_source_start(k->job->l, &k->timer, fd, EPOLLIN, timer_ready) == 0)
        return 0;
    if (fd >= 0)
        close(fd);
    k->timer.fd = -1;
    return -1;
}

/* --- start --- */

static void starting_free(struct work *w)
{
    struct starting *st = (struct starting *)w;

    if (st->hook)
        st->hook->starting = NULL;
    if (st->out >= 0)
        close(st->out);
    env_free(&st->env);
    free(st);
}

static void start(struct work *w, pid_t *pid)
{
    struct starting *st = (struct starting *)w;
    errmsg_t why;

    if (file_is_trusted(st->sp.path, &why))
        starter_spawn(w, &st->sp, pid);
    else
        w->failed = errmsg_fail(&w->err, errno, "the %s %s", st->what, why.text) < 0;
    close(st->out);
    st->out = -1;
}

static void started(struct work *w)
{
    struct starting *st = (struct starting *)w;
    struct hook *k = st->hook;
    struct launcher *l = w->job->l;
    bool late = k && k->late;
    char text[OUTPUT_KEPT + 512];

    if (k && !k->epilog && w->job->state != JOB_NEW)
        k = NULL;
    if (k && !w->failed && hmap_put_u64(l->hooks, (uint64_t)w->pid, k) == 0) {
        k->pid = w->pid;
        if (!k->epilog)
            nodejob_prolog_runs(w->job);
        if (late)
            kill(-k->pid, SIGKILL);
        if (w->reaped)
            (void)hook_reaped(l, w->pid, w->status);
    } else if (!w->failed && !w->reaped) {
        kill(-w->pid, SIGKILL); /* it is reaped as an adopted child */
        errmsg_set(&w->err, "no memory to run the %s", st->what);
    }
    if (k && !k->pid && !k->done) {
        if (late)
            explain(k, 0, text, sizeof(text));
        failed(k, late ? text : w->err.text);
    }
    starting_free(w);
}

static int spawn(struct hook *k, errmsg_t *err)
{
    struct nodejob *j = k->job;
    struct starting *st = calloc(1, sizeof(*st));
    int ends[2];

    if (!st || env_build(&st->env, j) < 0 || pipe2(ends, O_CLOEXEC) < 0) {
        errmsg_fail(err, errno, "the %s cannot be run: %s", k->what, strerror(errno));
        if (st)
            env_free(&st->env);
        free(st);
        return -1;
    }
    env_compact(&st->env);
    st->w = (struct work){.run = start, .done = started, .drop = starting_free};
    st->what = k->what;
    st->argv[0] = (char *)k->program;
    st->out = ends[1];
    st->fds[0] = (struct spawn_fd){j->l->nullfd, 0};
    st->fds[1] = (struct spawn_fd){ends[1], 1};
    st->fds[2] = (struct spawn_fd){ends[1], 2};
    st->tag = (struct spawn_limit){RLIMIT_LOCKS, &st->rl};
    st->sp = (struct spawn_params){.path = k->program,
                                   .argv = st->argv,
                                   .envp = st->env.vars,
                                   .cwd = "/",
                                   .fds = st->fds,
                                   .nfds = 3,
                                   .flags = SPAWN_PGRP | SPAWN_PLAIN_SIGNALS,
                                   .limits = &st->tag,
                                   .nlimits = tag_limit(j, &st->rl),
                                   .pdeathsig = SIGKILL};
    if (fcntl(ends[0], F_SETFL, O_NONBLOCK) < 0 ||
        launcher_source_start(j->l, &k->out, ends[0], EPOLLIN, out_ready) < 0 ||
        arm(k, limit(j->l)) < 0) {
        errmsg_fail(err, errno, "the %s cannot be run: %s", k->what, strerror(errno));
        if (k->out.fd < 0)
            close(ends[0]);
        hook_stop(k);
        starting_free(&st->w);
        return -1;
    }
    st->hook = k;
    k->starting = st;
    nodejob_work(j, k->epilog ? &j->last : &j->first, &st->w);
    return 0;
}

static struct hook *hook_create(struct nodejob *j, bool epilog, errmsg_t *err)
{
    struct hook *k = calloc(1, sizeof(*k));

    if (!k) {
        errmsg_fail(err, ENOMEM, "no memory to run the %s", epilog ? "epilog" : "prolog");
        return NULL;
    }
    k->job = j;
    k->what = epilog ? "epilog" : "prolog";
    k->program = epilog ? j->l->epilog : j->l->prolog;
    k->epilog = epilog;
    k->timer.fd = k->out.fd = -1;
    if (spawn(k, err) == 0)
        return k;
    hook_stop(k);
    free(k);
    return NULL;
}

/* Write the reason why a hook failed, with its output, on one line. */
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
    if (k->hung)
        snprintf(why, sizeof(why), "it was not started within %g s: a file system may not respond",
                 limit(k->job->l));
    else if (k->late)
        snprintf(why, sizeof(why), "it took longer than %g s", limit(k->job->l));
    else
        spawn_status_text(status, why, sizeof(why));
    snprintf(buf, size, "the %s %s failed on %s: %s%s%s%s", k->what, k->program,
             nodejob_node_name(k->job), why, k->len ? " (" : "", k->text, k->len ? ")" : "");
}

/* The module does not know a job of a lost launcher: only the log of the broker is left. */
static void tell(struct nodejob *j, const char *text)
{
    if (j->heir)
        fprintf(stderr, "flux-launcher: job %" PRIu64 ": %s\n", j->id, text);
    else
        launcher_send_note(j, "%s", text);
}

/* Handle a hook that could not be started. */
static void failed(struct hook *k, const char *why)
{
    k->done = true;
    hook_stop(k);
    if (k->starting)
        k->starting->hook = NULL;
    k->starting = NULL;
    if (k->epilog)
        tell(k->job, why);
    else
        nodejob_prolog_done(k->job, why);
}

int hook_prolog(struct nodejob *j, errmsg_t *err)
{
    if (!j->l->prolog || (j->run.flags & WIRE_F_EXEC))
        return 0;
    if (!(j->hook = hook_create(j, false, err)))
        return -1;
    return 1;
}

bool hook_epilog(struct nodejob *j)
{
    errmsg_t err;

    if (j->hook && j->hook->epilog)
        return !j->hook->done;
    if (!j->l->epilog || j->epilogged || (j->run.flags & WIRE_F_EXEC) || j->host)
        return false;
    hook_destroy(j);
    j->epilogged = true;
    if (!(j->hook = hook_create(j, true, &err))) {
        tell(j, err.text);
        return false;
    }
    return true;
}

void hook_kill(struct nodejob *j)
{
    if (j->hook && !j->hook->epilog && j->hook->pid > 0)
        kill(-j->hook->pid, SIGKILL);
}

void hook_interrupt(struct nodejob *j)
{
    if (j->hook && j->hook->epilog && j->hook->starting) {
        failed(j->hook, "the epilog hangs, and is left behind");
    } else if (j->hook && !(j->hook->epilog && j->hook->done)) {
        hook_destroy(j);
        j->epilogged = false;
    }
}

bool hooks_epilogs(struct launcher *l)
{
    size_t pos = 0;
    void *val;
    bool any = false;

    while (hmap_next(l->jobs, &pos, NULL, NULL, &val))
        any |= hook_epilog(val);
    for (pos = 0; !any && hmap_next(l->jobs, &pos, NULL, NULL, &val);)
        record_remove(val);
    return any;
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
    nodejob_prolog_done(k->job, status ? text : NULL);
    return true;
}

void hook_destroy(struct nodejob *j)
{
    if (!j->hook)
        return;
    if (j->hook->pid > 0) {
        hmap_take_u64(j->l->hooks, (uint64_t)j->hook->pid);
        kill(-j->hook->pid, SIGKILL);
    }
    if (j->hook->starting)
        j->hook->starting->hook = NULL;
    hook_stop(j->hook);
    free(j->hook);
    j->hook = NULL;
}

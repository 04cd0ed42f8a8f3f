/* task.c - starts the tasks of a job.
 *
 * Purpose: one request of the module starts all tasks of a job on this node.  The loop prepares
 * them one by one, in slices of time between which it serves other jobs.  The environment is built
 * once; a task costs two pipes and a socket pair.  A starter performs the rest (starter.c), so this
 * file never accesses the files of the user: the child enters the working directory, searches for
 * the program and opens the files.  Up to BATCH_MAX tasks of a job are prepared at a time; the path
 * of the program that was found for the first task is used for the others.  A task leads a process
 * group of its own, and a session too, unless tasks share cores.
 *
 * Output files: tasks write to them directly; only labeled output goes through the launcher
 * (file.c).  A file that no other node can have (its name contains {{task}} or {{node}}, or the job
 * has one node) is truncated when the job first opens it; output to a file that nodes share is
 * appended.
 */
#include "config.h"
#include "launcher.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "libsubprocess/spawn.h"
#include "libutil/clock.h"
#include "libutil/strbuf.h"
#include "libutil/strutil.h"

#define NAME_MAX_LEN 4096
#define ARG_MAX_LEN (1u << 20)
#define SLICE 2e-3 /* seconds in which tasks of one job are started at a time */

/* A program, as found for the first task that runs it. */
struct program {
    const struct command *cmd; /* NULL: the only command of the job */
    char **argv;
    bool templates; /* argv contains templates */
    char *path;     /* path as given, expanded; NULL: no task on this node runs it */
    char *found;    /* NULL: not found yet */
    const char *search;
    const char *cwd; /* NULL: the directory of the launcher */
};

struct start {
    struct nodejob *j;
    struct env env;
    struct program *programs;
    uint32_t nprograms;
    uint32_t next; /* the next task to be prepared */
    uint32_t ends; /* number of tasks to be started */
    int code;      /* exit code for the tasks from `ends` on */
    errmsg_t why;
    struct rlimit limits[WIRE_LIMITS_MAX + 2]; /* the first is RLIMIT_NOFILE */
    struct spawn_limit spawn_limits[WIRE_LIMITS_MAX + 2];
    size_t nlimits;
};

const struct command *task_command(const struct nodejob *j, uint32_t rank)
{
    uint32_t lo = 0, hi = j->run.ncommands;

    while (hi - lo > 1) {
        uint32_t mid = lo + (hi - lo) / 2;

        if (j->commands[mid].first <= rank)
            lo = mid;
        else
            hi = mid;
    }
    return &j->commands[lo];
}

static struct program *program_of(struct start *st, const struct task *t)
{
    const struct nodejob *j = st->j;

    return &st->programs[j->run.ncommands ? task_command(j, t->rank) - j->commands : 0];
}

uint64_t task_job_number(const struct nodejob *j)
{
    return j->run.parent ? j->run.parent : j->id;
}

uint32_t task_number(const struct task *t)
{
    return t->job->run.first + t->rank;
}

bool task_has_ended(const struct task *t)
{
    return t->pid == 0 && t->leader > 0;
}

/* With --mpi=pmix the tasks get a socket for PMI-1 as well: the tasks of a program that speaks only
 * PMI-1 would otherwise silently be jobs of one rank each.  Spawned tasks find the tasks that
 * spawned them only through the interface of the latter. */
bool task_has_pmi(const struct nodejob *j)
{
    if (j->run.parent && (j->run.flags & WIRE_F_MPI_PMIX))
        return false;
    return !(j->run.flags & (WIRE_F_EXEC | WIRE_F_MPI_NONE));
}

/* --- templates --- */

static const char *value_of(const struct nodejob *j, const char *name, uint32_t task, char *buf,
                            size_t size)
{
    if (str_starts(name, "{{id}}"))
        snprintf(buf, size, "%" PRIu64, task_job_number(j));
    else if (str_starts(name, "{{task}}"))
        snprintf(buf, size, "%u", j->run.first + task);
    else if (str_starts(name, "{{node}}"))
        snprintf(buf, size, "%u", j->run.node);
    else if (str_starts(name, "{{name}}"))
        return j->name;
    else if (str_starts(name, "{{tmpdir}}"))
        return j->dir ? j->dir : "/tmp";
    else
        return NULL;
    return buf;
}

/* Return text with its {{...}} replaced, malloc'd, of at most `max` bytes, or NULL with errno. */
static char *task_expand(const struct nodejob *j, const char *text, uint32_t task, size_t max)
{
    strbuf_t *sb = strbuf_create(max);
    const char *val, *p;
    char buf[32];

    while ((p = strstr(text, "{{"))) {
        strbuf_addn(sb, text, (size_t)(p - text));
        if ((val = value_of(j, p, task, buf, sizeof(buf)))) {
            strbuf_add(sb, val);
            text = strstr(p, "}}") + 2;
        } else {
            strbuf_add(sb, "{{");
            text = p + 2;
        }
    }
    strbuf_add(sb, text);
    return strbuf_take(sb);
}

static char **expand_argv(const struct nodejob *j, char *const *argv, uint32_t task)
{
    size_t argc = 0;
    char **v;

    while (argv[argc])
        argc++;
    v = calloc(argc + 1, sizeof(*v));
    for (size_t i = 0; v && i < argc; i++) {
        if (!(v[i] = task_expand(j, argv[i], task, ARG_MAX_LEN))) {
            env_strv_free(v);
            return NULL;
        }
    }
    return v;
}

/* --- files --- */

/* Returns whether the job opens this file for the first time. */
static bool first_open(struct nodejob *j, const char *name)
{
    if (!j->opened && !(j->opened = hmap_create_str(NULL)))
        return false;
    if (hmap_get(j->opened, name))
        return false;
    return hmap_put(j->opened, name, j) == 0;
}

static bool is_private(const struct nodejob *j, const char *path)
{
    if (j->run.parent) /* tasks of the spawning job may have the file open already */
        return strstr(path, "{{task}}") != NULL;
    return j->run.nnodes == 1 || strstr(path, "{{task}}") || strstr(path, "{{node}}");
}

/* Relative names start at the working directory of the job. */
int task_file(struct nodejob *j, const char *path, uint32_t task, int flags, struct spawn_file *f)
{
    const char *cwd = j->fixed[WIRE_S_CWD];
    char *name = task_expand(j, path, task, NAME_MAX_LEN), *full = NULL;

    if (name && (name[0] == '/' || !cwd[0]))
        full = strdup(name);
    else if (name && asprintf(&full, "%s/%s", cwd, name) < 0)
        full = NULL;
    if (!full) {
        free(name);
        errno = ENOMEM;
        return -1;
    }
    if ((flags & O_CREAT) && is_private(j, path) && first_open(j, full))
        flags |= O_TRUNC;
    f->path = full;
    f->name = name;
    f->flags = flags;
    return 0;
}

/* --- streams --- */

/* Make a pipe.  The launcher's end goes into `src`; returns the end of the task. */
static int make_pipe(struct launcher *l, struct source *src, int ours, uint32_t events,
                     void (*ready)(struct source *, uint32_t), errmsg_t *err)
{
    int ends[2];

    if (pipe2(ends, O_CLOEXEC) < 0)
        return errmsg_fail(err, errno, "cannot make a pipe: %s", strerror(errno));
    if (fcntl(ends[ours], F_SETFL, O_NONBLOCK) < 0 ||
        launcher_source_start(l, src, ends[ours], events, ready) < 0) {
        errmsg_set(err, "cannot make a pipe: %s", strerror(errno));
        close(ends[0]);
        close(ends[1]);
        src->fd = -1;
        return -1;
    }
    return ends[!ours];
}

/* Descriptor `num` of the task becomes `src`; `own`: the launcher closes `src` afterwards. */
static int give(struct request *r, int num, int src, bool own)
{
    if (src < 0)
        return -1;
    r->own[r->nfds] = own;
    r->fds[r->nfds++] = (struct spawn_fd){src, num};
    return 0;
}

static int give_file(struct request *r, int num, const char *path, int flags, errmsg_t *err)
{
    struct spawn_file *f = &r->files[r->nfiles];

    if (task_file(r->task->job, path, r->task->rank, flags, f) < 0)
        return errmsg_fail(err, ENOMEM, "no memory to open '%s'", path);
    f->dst = num;
    r->nfiles++;
    return 0;
}

static int task_stdin(struct request *r, errmsg_t *err)
{
    struct task *t = r->task;
    struct nodejob *j = t->job;
    const char *in = j->fixed[WIRE_S_IN];
    bool all = (j->run.flags & WIRE_F_STDIN_ALL) != 0;

    if (in[0]) {
        if (all || t->rank == 0 || strstr(in, "{{task}}"))
            return give_file(r, 0, in, O_RDONLY, err);
    } else if (!(j->run.flags & WIRE_F_STDIN_NONE) && (all || t->rank == 0)) {
        return give(r, 0, make_pipe(j->l, &t->in, 1, 0, NULL, err), true);
    }
    return give(r, 0, j->l->nullfd, false);
}

static int task_output(struct request *r, int num, errmsg_t *err)
{
    struct task *t = r->task;
    struct nodejob *j = t->job;
    const char *file = j->fixed[num == 1 ? WIRE_S_OUT : WIRE_S_ERR];
    struct stream *s = &t->out[num - 1];

    s->task = t;
    s->num = num;
    if (num == 2 && !file[0] && (j->run.flags & WIRE_F_JOIN))
        file = j->fixed[WIRE_S_OUT];
    if (file[0] && !(j->run.flags & WIRE_F_LABEL))
        return give_file(r, num, file, O_WRONLY | O_CREAT | O_APPEND, err);
    if (!file[0] && (j->run.flags & WIRE_F_OUTPUT_NONE))
        return give(r, num, j->l->nullfd, false);
    if (file[0] && file_attach(s, file, err) < 0)
        return -1;
    return give(r, num, make_pipe(j->l, &s->src, 0, EPOLLIN, stream_ready, err), true);
}

static int task_pmi(struct nodejob *j, struct task *t, errmsg_t *err)
{
    int sv[2];

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sv) < 0)
        return errmsg_fail(err, errno, "cannot make a socket pair: %s", strerror(errno));
    if (launcher_source_start(j->l, &t->pmi, sv[0], EPOLLIN, pmi_ready) < 0) {
        close(sv[0]);
        close(sv[1]);
        t->pmi.fd = -1;
        return -1;
    }
    return sv[1];
}

/* --- limits --- */

static int set_limits(struct start *st, errmsg_t *err)
{
    struct nodejob *j = st->j;

    st->limits[0] = j->l->files;
    st->spawn_limits[0] = (struct spawn_limit){RLIMIT_NOFILE, &st->limits[0]};
    st->nlimits = 1;
    if (tag_limit(j, &st->limits[1]))
        st->spawn_limits[st->nlimits++] = (struct spawn_limit){RLIMIT_LOCKS, &st->limits[1]};
    for (uint32_t i = 0; i < j->run.nlimits; i++) {
        struct wire_limit wl;
        struct rlimit *rl = &st->limits[st->nlimits];

        memcpy(&wl, (const uint8_t *)j->run.limits + i * sizeof(wl), sizeof(wl));
        if (wl.resource == RLIMIT_LOCKS) /* this limit holds the tag */
            continue;
        if (wl.resource == RLIMIT_NOFILE)
            rl = &st->limits[0];
        else if (getrlimit((__rlimit_resource_t)wl.resource, rl) < 0)
            return errmsg_fail(err, errno, "limit %u is not known here", wl.resource);
        if (wl.carried) {
            rlim_t soft = wl.soft < rl->rlim_max ? wl.soft : rl->rlim_max;

            if (soft != rl->rlim_cur && wl.resource != RLIMIT_NOFILE)
                st->spawn_limits[st->nlimits++] = (struct spawn_limit){(int)wl.resource, rl};
            rl->rlim_cur = soft;
            continue;
        }
        if (wl.soft > rl->rlim_max && rl->rlim_max != RLIM_INFINITY)
            return errmsg_fail(
                err, EPERM, "a limit of %" PRIu64 " is above what this node allows (%" PRIu64 ")",
                (uint64_t)wl.soft, (uint64_t)rl->rlim_max);
        rl->rlim_cur = wl.soft;
        /* The hard limit is set too, since a task may raise the soft limit up to the hard one. */
        if (wl.soft != RLIM_INFINITY)
            rl->rlim_max = wl.soft;
        if (wl.resource != RLIMIT_NOFILE)
            st->spawn_limits[st->nlimits++] = (struct spawn_limit){(int)wl.resource, rl};
    }
    return 0;
}

/* --- requests --- */

static void request_close(struct request *r)
{
    for (size_t i = 0; i < r->nfds; i++) {
        if (r->own[i])
            close(r->fds[i].src);
        r->own[i] = false;
    }
    if (r->cgroup >= 0)
        close(r->cgroup);
    r->cgroup = -1;
}

void task_request_free(struct request *r)
{
    if (!r)
        return;
    request_close(r);
    for (size_t i = 0; i < r->nfiles; i++) {
        free((char *)r->files[i].path);
        free((char *)r->files[i].name);
    }
    env_strv_free(r->argv);
    free(r->envp);
    free(r->texts);
    env_changes_clear(&r->changes);
    env_changes_clear(&r->plugged);
    free(r->found);
    free(r);
}

static void request_run(struct work *w, pid_t *pid)
{
    struct request *r = (struct request *)w;

    if (lua_task_start(r) == 0) {
        starter_spawn(w, &r->sp, pid);
    } else {
        w->pid = -1;
        w->failed = true;
    }
    request_close(r);
}

static void request_drop(struct work *w)
{
    task_request_free((struct request *)w);
}

static int set_process(struct start *st, struct request *r, errmsg_t *err)
{
    struct task *t = r->task;
    struct nodejob *j = st->j;
    struct program *p = program_of(st, t);
    const cpu_set_t *cpus;

    if (p->templates && !(r->argv = expand_argv(j, p->argv, t->rank)))
        return errmsg_fail(err, ENOMEM, "no memory to start task %u", t->rank);
    env_task(&st->env, j, t);
    if (p->cmd && env_changes_of_command(&r->changes, p->cmd) < 0)
        return errmsg_fail(err, ENOMEM, "no memory to start task %u", t->rank);
    if (!(r->envp = env_copy(&st->env, &r->changes, &r->texts)))
        return errmsg_fail(err, ENOMEM, "no memory to start task %u", t->rank);
    if ((cpus = bind_task(j, t)))
        r->cpus = *cpus;
    /* The descriptor is a duplicate, since a thread that hangs may come back when that of the job
     * is closed. */
    if (cgroup_procs(j) && (r->cgroup = fcntl(*cgroup_procs(j), F_DUPFD_CLOEXEC, 0)) < 0)
        return errmsg_fail(err, errno, "cannot limit the memory of task %u: %s", t->rank,
                           strerror(errno));
    r->sp = (struct spawn_params){
        .path = p->found ? p->found : p->path,
        .search = p->found ? NULL : p->search,
        .argv = r->argv ? r->argv : p->argv,
        .envp = r->envp,
        .cwd = p->cwd,
        .fds = r->fds,
        .nfds = r->nfds,
        .files = r->files,
        .nfiles = r->nfiles,
        .mask = j->run.mask,
        /* A session, not just a process group: where the kernel divides time among sessions
         * (autogroup), all tasks of a node would otherwise get the share of one session.  But
         * sched_yield() yields within a session only: tasks that share cores stay in the session of
         * the launcher. */
        .flags = (env_shares_cores(j) ? SPAWN_PGRP : SPAWN_SESSION) | SPAWN_PLAIN_SIGNALS,
        .pdeathsig = SIGKILL,
        .limits = st->spawn_limits,
        .nlimits = st->nlimits,
        .cpus = cpus ? &r->cpus : NULL,
        .cgroup = r->cgroup >= 0 ? &r->cgroup : NULL,
        .found = &r->found,
        .lost = &r->lost,
    };
    return 0;
}

static void close_streams(struct task *t)
{
    struct launcher *l = t->job->l;

    for (int i = 0; i < 2; i++)
        launcher_source_close(l, &t->out[i].src);
    launcher_source_close(l, &t->in);
    launcher_source_close(l, &t->pmi);
}

static int ask(struct start *st, struct task *t, errmsg_t *err)
{
    struct nodejob *j = st->j;
    struct request *r = calloc(1, sizeof(*r));

    if (!r)
        return errmsg_fail(err, ENOMEM, "no memory to start task %u", t->rank);
    r->w = (struct work){.run = request_run, .done = nodejob_started, .drop = request_drop};
    r->cgroup = -1;
    r->task = t;
    if (task_stdin(r, err) < 0 || task_output(r, 1, err) < 0 || task_output(r, 2, err) < 0 ||
        (task_has_pmi(j) && give(r, PMI_TASK_FD, task_pmi(j, t, err), true) < 0) ||
        set_process(st, r, err) < 0)
        goto fail;
    nodejob_work(j, &j->first, &r->w);
    return 0;
fail:
    task_request_free(r);
    close_streams(t);
    return -1;
}

static bool has_templates(char *const *argv)
{
    for (; *argv; argv++)
        if (strstr(*argv, "{{"))
            return true;
    return false;
}

/* Return a variable of the environment of the tasks of a command, or NULL if it is not set. */
static const char *command_env(const struct command *cmd, char *const *env, const char *name)
{
    size_t n = strlen(name);

    for (char **v = cmd ? cmd->changes : NULL; v && *v; v++)
        if (strncmp(*v, name, n) == 0 && ((*v)[n] == '=' || !(*v)[n]))
            return (*v)[n] ? *v + n + 1 : NULL;
    return env_get(env, name);
}

/* Prepare the first task of a program.  Returns 0, or the exit code for a failure. */
static int prepare_program(struct start *st, struct program *p, const struct task *t, errmsg_t *err)
{
    struct nodejob *j = st->j;
    const struct command *cmd = j->run.ncommands ? task_command(j, t->rank) : NULL;
    const char *cwd = cmd && cmd->dir[0] ? cmd->dir : j->fixed[WIRE_S_CWD];

    p->cmd = cmd;
    p->argv = cmd ? cmd->argv : j->argv;
    p->cwd = cwd[0] ? cwd : NULL;
    p->templates = !(j->run.flags & WIRE_F_EXEC) && !j->run.parent && has_templates(p->argv);
    p->path = p->templates ? task_expand(j, p->argv[0], t->rank, ARG_MAX_LEN) : strdup(p->argv[0]);
    if (!p->path) {
        errmsg_set(err, "no memory to start %u tasks", j->ntasks);
        return 126;
    }
    p->search = cmd && cmd->search[0] ? cmd->search : command_env(cmd, st->env.vars, "PATH");
    if (!p->search)
        p->search = SPAWN_DEFAULT_PATH;
    if (!p->path[0]) {
        errmsg_set(err, "the command is an empty word");
        return 127;
    }
    return 0;
}

static int prepare(struct start *st, errmsg_t *err)
{
    struct nodejob *j = st->j;
    int code;

    st->ends = j->ntasks;
    st->programs = calloc(j->run.ncommands ? j->run.ncommands : 1, sizeof(*st->programs));
    if (st->programs)
        st->nprograms = j->run.ncommands ? j->run.ncommands : 1;
    if (!st->programs || env_build(&st->env, j) < 0) {
        errmsg_set(err, "no memory to start %u tasks", j->ntasks);
        return 126;
    }
    for (uint32_t i = 0; i < j->ntasks; i++) {
        struct program *p = program_of(st, &j->tasks[i]);

        if (!p->path && (code = prepare_program(st, p, &j->tasks[i], err)))
            return code;
        if (!j->run.ncommands)
            break;
    }
    return set_limits(st, err) < 0 ? 126 : 0;
}

int tasks_prepare(struct nodejob *j, errmsg_t *err)
{
    struct start *st = calloc(1, sizeof(*st));

    if (!st) {
        errmsg_set(err, "no memory to start %u tasks", j->ntasks);
        return 126;
    }
    st->j = j;
    j->start = st;
    return prepare(st, err);
}

bool tasks_more(struct nodejob *j)
{
    struct start *st = j->start;
    double end = clock_now() + SLICE;

    while (st->next < st->ends && j->asked_first < BATCH_MAX) {
        if (ask(st, &j->tasks[st->next], &st->why) < 0) {
            st->ends = st->next;
            st->code = 126;
        } else if (++st->next < st->ends && clock_now() >= end) {
            return true;
        }
    }
    return false;
}

bool tasks_all(const struct nodejob *j, int *code, errmsg_t *why)
{
    *code = j->start->code;
    *why = j->start->why;
    return j->nspawned >= j->start->ends;
}

int tasks_started(struct request *r, errmsg_t *err)
{
    struct task *t = r->task;
    struct nodejob *j = t->job;
    struct program *p = program_of(j->start, t);

    if (r->w.failed) {
        close_streams(t);
        *err = r->w.err;
        return r->lost ? spawn_errno_to_code(r->w.errnum) : 126;
    }
    if (!r->w.reaped && hmap_put_u64(j->l->pids, (uint64_t)r->w.pid, t) < 0) {
        kill(r->w.pid, SIGKILL); /* it is reaped as an adopted child */
        close_streams(t);
        errmsg_set(err, "no memory for another task");
        return 126;
    }
    if (!p->found) {
        p->found = r->found;
        r->found = NULL;
    }
    t->pid = t->leader = r->w.pid;
    j->running++;
    j->nspawned++;
    return 0;
}

void tasks_forget(struct nodejob *j)
{
    if (!j->start || j->asked_first)
        return;
    for (uint32_t i = 0; i < j->start->nprograms; i++) {
        free(j->start->programs[i].path);
        free(j->start->programs[i].found);
    }
    free(j->start->programs);
    env_free(&j->start->env);
    free(j->start);
    j->start = NULL;
}

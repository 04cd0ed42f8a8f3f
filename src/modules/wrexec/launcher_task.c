/* Starting the tasks of a job.
 *
 * All tasks of a job here are started from one request, in slices of time between which the loop
 * serves other jobs: the program is looked up once, the
 * environment is built once, and each task costs two pipes, a socket pair and one clone.  A task
 * leads a session, and so a process group, of its own.
 *
 * Output files are opened here and written to by the tasks themselves; only labelled ones go
 * through the launcher (launcher_file.c).  A file that no other node can have (its name has
 * {{task}} or {{node}} in it, or the job has one node) is emptied when the job opens it first;
 * one that nodes share is appended to.
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
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "libsubprocess/spawn.h"
#include "libutil/strbuf.h"
#include "libutil/strutil.h"

#define NAME_MAX_LEN 4096
#define ARG_MAX_LEN (1u << 20)
#define SLICE 2e-3 /* seconds that tasks of one job are started for at a time */

struct start {
    struct job *j;
    struct env env;
    char **argv;
    bool templates; /* in argv */
    char *program;
    struct rlimit limits[WIRE_LIMITS_MAX + 2]; /* the first is RLIMIT_NOFILE */
    struct spawn_limit spawn_limits[WIRE_LIMITS_MAX + 2];
    size_t nlimits;
};

bool job_has_pmi(const struct job *j)
{
    return !(j->run.flags & (WIRE_F_EXEC | WIRE_F_MPI_NONE | WIRE_F_MPI_PMIX));
}

/* --- templates --- */

static const char *value_of(const struct job *j, const char *name, uint32_t task, char *buf,
                            size_t size)
{
    if (str_starts(name, "{{id}}"))
        snprintf(buf, size, "%" PRIu64, j->id);
    else if (str_starts(name, "{{task}}"))
        snprintf(buf, size, "%u", task);
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

char *job_expand(const struct job *j, const char *text, uint32_t task, size_t max)
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

static char **expand_argv(const struct job *j, uint32_t task)
{
    char **v = calloc(j->run.argc + 1, sizeof(*v));

    for (uint32_t i = 0; v && i < j->run.argc; i++) {
        if (!(v[i] = job_expand(j, j->argv[i], task, ARG_MAX_LEN))) {
            strv_free(v);
            return NULL;
        }
    }
    return v;
}

/* --- files --- */

/* The first time in this job? */
static bool first_open(struct job *j, const char *name)
{
    if (!j->opened && !(j->opened = hmap_create_str(NULL)))
        return false;
    if (hmap_get(j->opened, name))
        return false;
    return hmap_put(j->opened, name, j) == 0;
}

static bool is_private(const struct job *j, const char *path)
{
    return j->run.nnodes == 1 || strstr(path, "{{task}}") || strstr(path, "{{node}}");
}

/* Relative names start at the job's working directory.  *name_out (may be NULL) receives the
 * file's name. */
int job_open_file(struct job *j, const char *path, uint32_t task, int flags, char **name_out,
                  errmsg_t *err)
{
    const char *cwd = j->fixed[WIRE_S_CWD];
    char *name = job_expand(j, path, task, NAME_MAX_LEN), *full = NULL;
    int fd = -1, errnum = ENOMEM;

    if (name && name[0] != '/' && cwd[0] && asprintf(&full, "%s/%s", cwd, name) < 0)
        full = NULL;
    else if (name && (name[0] == '/' || !cwd[0]))
        full = strdup(name);
    if (full) {
        if ((flags & O_CREAT) && is_private(j, path) && first_open(j, full))
            flags |= O_TRUNC;
        /* A fifo that nobody reads must not stop the launcher. */
        fd = open(full, flags | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0666);
        errnum = errno;
    }
    if (fd >= 0)
        fcntl(fd, F_SETFL, flags & O_APPEND);
    else
        errmsg_fail(err, errnum, "cannot open '%s': %s", name ? name : path,
                    errnum == ENXIO ? "nobody reads from it" : strerror(errnum));
    if (name_out) {
        *name_out = fd >= 0 ? full : NULL;
        if (fd >= 0)
            full = NULL;
    }
    free(name);
    free(full);
    errno = errnum;
    return fd;
}

/* --- streams --- */

/* Our end of a pipe into src, the task's returned. */
static int make_pipe(struct launcher *l, struct source *src, int ours, uint32_t events,
                     void (*ready)(struct source *, uint32_t), errmsg_t *err)
{
    int ends[2];

    if (pipe2(ends, O_CLOEXEC) < 0)
        return errmsg_fail(err, errno, "cannot make a pipe: %s", strerror(errno));
    if (fcntl(ends[ours], F_SETFL, O_NONBLOCK) < 0 ||
        source_start(l, src, ends[ours], events, ready) < 0) {
        errmsg_set(err, "cannot make a pipe: %s", strerror(errno));
        close(ends[0]);
        close(ends[1]);
        src->fd = -1;
        return -1;
    }
    return ends[!ours];
}

/* In all of these: the task's descriptor; *own: it is to be closed here afterwards. */
static int task_stdin(struct start *st, struct task *t, bool *own, errmsg_t *err)
{
    struct job *j = st->j;
    const char *in = j->fixed[WIRE_S_IN];
    bool all = (j->run.flags & WIRE_F_STDIN_ALL) != 0;

    *own = true;
    if (in[0]) {
        if (all || t->rank == 0 || strstr(in, "{{task}}"))
            return job_open_file(j, in, t->rank, O_RDONLY, NULL, err);
    } else if (!(j->run.flags & WIRE_F_STDIN_NONE) && (all || t->rank == 0)) {
        return make_pipe(j->l, &t->in, 1, 0, NULL, err);
    }
    *own = false;
    return j->l->nullfd;
}

static int task_output(struct start *st, struct task *t, int num, bool *own, errmsg_t *err)
{
    struct job *j = st->j;
    const char *file = j->fixed[num == 1 ? WIRE_S_OUT : WIRE_S_ERR];
    struct stream *s = &t->out[num - 1];

    s->task = t;
    s->num = num;
    *own = true;
    if (num == 2 && !file[0] && (j->run.flags & WIRE_F_JOIN))
        file = j->fixed[WIRE_S_OUT];
    if (file[0] && !(j->run.flags & WIRE_F_LABEL))
        return job_open_file(j, file, t->rank, O_WRONLY | O_CREAT | O_APPEND, NULL, err);
    if (!file[0] && (j->run.flags & WIRE_F_OUTPUT_NONE)) {
        *own = false;
        return j->l->nullfd;
    }
    if (file[0] && file_attach(s, file, err) < 0)
        return -1;
    return make_pipe(j->l, &s->src, 0, EPOLLIN, stream_ready, err);
}

static int task_pmi(struct job *j, struct task *t, errmsg_t *err)
{
    int sv[2];

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sv) < 0)
        return errmsg_fail(err, errno, "cannot make a socket pair: %s", strerror(errno));
    if (source_start(j->l, &t->pmi, sv[0], EPOLLIN, pmi_ready) < 0) {
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
    struct job *j = st->j;

    st->limits[0] = j->l->files;
    st->spawn_limits[0] = (struct spawn_limit){RLIMIT_NOFILE, &st->limits[0]};
    st->nlimits = 1;
    if (tag_limit(j, &st->limits[1]))
        st->spawn_limits[st->nlimits++] = (struct spawn_limit){RLIMIT_LOCKS, &st->limits[1]};
    for (uint32_t i = 0; i < j->run.nlimits; i++) {
        struct wire_limit wl;
        struct rlimit *rl = &st->limits[st->nlimits];

        memcpy(&wl, (const uint8_t *)j->run.limits + i * sizeof(wl), sizeof(wl));
        if (wl.resource == RLIMIT_LOCKS) /* is the tag, and limits nothing */
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
        /* So that it is one: a task may raise the soft limit up to the hard one. */
        if (wl.soft != RLIM_INFINITY)
            rl->rlim_max = wl.soft;
        if (wl.resource != RLIMIT_NOFILE)
            st->spawn_limits[st->nlimits++] = (struct spawn_limit){(int)wl.resource, rl};
    }
    return 0;
}

/* --- tasks --- */

static int task_start(struct start *st, struct task *t, errmsg_t *err)
{
    struct job *j = st->j;
    struct spawn_fd fds[4] = {{-1, 0}, {-1, 1}, {-1, 2}, {-1, PMI_TASK_FD}};
    bool own[4] = {false, false, false, false};
    char **argv = NULL, **envp = NULL;
    struct changes changes = {NULL, 0};
    size_t nfds = 3;
    pid_t pid = -1;
    int errnum;

    if ((fds[0].src = task_stdin(st, t, &own[0], err)) < 0 ||
        (fds[1].src = task_output(st, t, 1, &own[1], err)) < 0 ||
        (fds[2].src = task_output(st, t, 2, &own[2], err)) < 0)
        goto out;
    if (job_has_pmi(j)) {
        if ((fds[3].src = task_pmi(j, t, err)) < 0)
            goto out;
        own[3] = true;
        nfds = 4;
    }
    if (st->templates && !(argv = expand_argv(j, t->rank))) {
        errmsg_fail(err, ENOMEM, "no memory to start task %u", t->rank);
        goto out;
    }
    env_task(&st->env, j, t);
    if (lua_task_start(j, t, st->env.vars, &changes, err) < 0)
        goto out;
    if (changes.n && !(envp = changes_apply(&changes, st->env.vars))) {
        errmsg_fail(err, ENOMEM, "no memory to start task %u", t->rank);
        goto out;
    }
    struct spawn_params sp = {
        .path = st->program,
        .argv = argv ? argv : st->argv,
        .envp = envp ? envp : st->env.vars,
        .cwd = j->fixed[WIRE_S_CWD][0] ? j->fixed[WIRE_S_CWD] : NULL,
        .fds = fds,
        .nfds = nfds,
        /* A session, not just a process group: where the kernel divides time between sessions
         * (autogroup), all tasks of a node would have the part of one. */
        .flags = SPAWN_SESSION | SPAWN_PLAIN_SIGNALS,
        .pdeathsig = SIGKILL,
        .limits = st->spawn_limits,
        .nlimits = st->nlimits,
        .cpus = bind_task(j, t),
        .cgroup = cgroup_procs(j),
    };
    pid = spawn_process(&sp, err);
    if (pid > 0 && hmap_put_u64(j->l->pids, (uint64_t)pid, t) < 0) {
        kill(pid, SIGKILL); /* it is reaped as an adopted one */
        errmsg_set(err, "no memory for another task");
        pid = -1;
        errno = ENOMEM;
    }
out:
    errnum = errno;
    strv_free(argv);
    free(envp);
    changes_clear(&changes);
    for (size_t i = 0; i < 4; i++)
        if (own[i] && fds[i].src >= 0)
            close(fds[i].src);
    if (pid > 0) {
        t->pid = t->leader = pid;
        j->running++;
        return 0;
    }
    for (int i = 0; i < 2; i++)
        source_close(j->l, &t->out[i].src);
    source_close(j->l, &t->in);
    source_close(j->l, &t->pmi);
    errno = errnum;
    return -1;
}

static bool has_templates(char *const *argv)
{
    for (; *argv; argv++)
        if (strstr(*argv, "{{"))
            return true;
    return false;
}

/* What the first task needs; the exit code that stands for a failure. */
static int prepare(struct start *st, errmsg_t *err)
{
    struct job *j = st->j;
    const char *cwd = j->fixed[WIRE_S_CWD];
    char *name = NULL;
    int code = 0;

    st->argv = j->argv;
    st->templates = !(j->run.flags & WIRE_F_EXEC) && has_templates(j->argv);
    if (env_build(&st->env, j) < 0 ||
        (st->templates && !(name = job_expand(j, j->argv[0], j->tasks[0].rank, ARG_MAX_LEN)))) {
        errmsg_set(err, "no memory to start %u tasks", j->ntasks);
        return 126;
    }
    if (set_limits(st, err) < 0) {
        code = 126;
    } else if (!(st->program =
                     spawn_find_program(name ? name : j->argv[0], env_get(st->env.vars, "PATH"),
                                        cwd[0] ? cwd : NULL, err))) {
        code = spawn_errno_to_code(errno);
        /* A missing directory is the better reason. */
        if (cwd[0] && access(cwd, X_OK) < 0) {
            errmsg_set(err, "cannot enter the working directory '%s': %s", cwd, strerror(errno));
            code = 126;
        }
    }
    free(name);
    return code;
}

int tasks_prepare(struct job *j, errmsg_t *err)
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

static double now(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

bool tasks_more(struct job *j, uint32_t *started, int *code, errmsg_t *err)
{
    double end = now() + SLICE;
    /* Of the files that are opened for them, and of the tasks. */
    mode_t before = umask(0077);
    bool more = false;

    umask(j->run.mask ? (mode_t)(j->run.mask - 1) & 0777 : before);
    *code = 0;
    while (!more && *code == 0 && *started < j->ntasks) {
        if (task_start(j->start, &j->tasks[*started], err) < 0)
            *code = 126;
        else
            more = ++*started < j->ntasks && now() >= end;
    }
    umask(before);
    return more;
}

void tasks_forget(struct job *j)
{
    if (!j->start)
        return;
    free(j->start->program);
    env_free(&j->start->env);
    free(j->start);
    j->start = NULL;
}

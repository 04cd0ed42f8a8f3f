/* Jobs of a launcher: start, signal, reap, end.
 *
 * All tasks of a job here are started from one request: the program is looked up once, the
 * environment is built once, with places that change from task to task, and each task costs two
 * pipes, a socket pair and one clone.  A task leads a process group of its own.
 *
 * End of a job: when its last task was reaped, all that is left of it is killed.  What is left are
 * adopted children (and theirs, which we get when these are gone), told apart by the mark in
 * their environment or by their process group; one that hides both is taken for ours if no other
 * job runs, else with the last job.  Only when nothing is left and the pipes are drained does DONE
 * go out; so when a job is over, no process of it runs.
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
#include <sys/wait.h>
#include <unistd.h>

#include "layout.h"
#include "libsubprocess/proctree.h"
#include "libsubprocess/spawn.h"
#include "libutil/strbuf.h"
#include "libutil/strutil.h"

#define PMI_TASK_FD 3
#define TRIES 50 /* a millisecond each */

/* Of the client's environment these do not apply to a task; prefixes end in '*'. */
static const char *const dropped[] = {
    "PMI_*",
    "PMIX_*",
    "OMPI_MCA_pmix",
    "FLUX_URI",
    "FLUX_JOB_*",
    "FLUX_TASK_*",
    "FLUX_NODE_ID",
    "FLUX_PMI_LIBRARY_PATH",
    "OMPI_MCA_orte_tmpdir_base",
    "FLUX_LAUNCHER_*",
    "OMPI_MCA_btl_vader_backing_directory",
    "OMPI_MCA_btl_sm_backing_directory",
    "HYDI_CONTROL_FD",
};

struct env {
    char **vars;
    size_t n;
    char *owned[16];
    size_t nowned;
    char rank[40], local[40], pmirank[40]; /* change from task to task */
    char **pmix;                           /* places that pmix_task_env() fills */
};

static bool is_dropped(const char *var)
{
    for (size_t i = 0; i < sizeof(dropped) / sizeof(*dropped); i++) {
        size_t n = strlen(dropped[i]);

        if (var[0] != dropped[i][0])
            continue;
        if (dropped[i][n - 1] == '*' ? strncmp(var, dropped[i], n - 1) == 0
                                     : strncmp(var, dropped[i], n) == 0 && var[n] == '=')
            return true;
    }
    return false;
}

static int env_add(struct env *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static int env_add(struct env *e, const char *fmt, ...)
{
    va_list ap;
    char *s;
    int n;

    va_start(ap, fmt);
    n = vasprintf(&s, fmt, ap);
    va_end(ap);
    if (n < 0)
        return -1;
    e->owned[e->nowned++] = s;
    e->vars[e->n++] = s;
    return 0;
}

static void env_free(struct env *e)
{
    for (size_t i = 0; i < e->nowned; i++)
        free(e->owned[i]);
    free(e->vars);
}

/* How deep a session would be that a task starts: the launcher's own environment says where this
 * one is. */
static unsigned long job_level(void)
{
    const char *s = getenv("FLUX_JOB_LEVEL");

    return (s && getenv("FLUX_JOB_ID") ? strtoul(s, NULL, 10) : 0) + 1;
}

/* Does a socket for PMI-1 wait for each task? */
static bool has_pmi(const struct job *j)
{
    return !(j->run.flags & (WIRE_F_EXEC | WIRE_F_MPI_NONE | WIRE_F_MPI_PMIX));
}

static int env_build(struct env *e, struct job *j, char *const *client)
{
    struct launcher *l = j->l;
    char *dir = NULL;
    int rc = 0;

    e->vars = calloc(j->run.envc + 24 + pmix_env_max(j), sizeof(*e->vars));
    if (!e->vars)
        return -1;
    for (uint32_t i = 0; i < j->run.envc; i++)
        if (!is_dropped(client[i]))
            e->vars[e->n++] = client[i];
    rc |= env_add(e, "FLUX_LAUNCHER_TOKEN=%s", l->token);
    e->vars[e->n++] = j->mark;
    if (l->uri)
        rc |= env_add(e, "FLUX_URI=%s", l->uri);
    e->vars[e->n++] = e->rank;
    e->vars[e->n++] = e->local;
    if (j->run.flags & WIRE_F_EXEC)
        return rc;
    dir = backing_path(l, j->id);
    rc |= env_add(e, "FLUX_JOB_ID=%" PRIu64, j->id);
    rc |= env_add(e, "FLUX_JOB_LEVEL=%lu", job_level());
    rc |= env_add(e, "FLUX_JOB_NNODES=%u", j->run.nnodes);
    rc |= env_add(e, "FLUX_JOB_SIZE=%u", j->run.ntasks);
    rc |= env_add(e, "FLUX_NODE_ID=%u", j->run.node);
    if (dir && !(j->run.flags & WIRE_F_MPI_NONE)) {
        rc |= env_add(e, "OMPI_MCA_btl_vader_backing_directory=%s", dir);
        rc |= env_add(e, "OMPI_MCA_btl_sm_backing_directory=%s", dir);
        rc |= env_add(e, "OMPI_MCA_orte_tmpdir_base=%s", dir);
    }
    free(dir);
    if (has_pmi(j)) {
        rc |= env_add(e, "PMI_SIZE=%u", j->run.ntasks);
        rc |= env_add(e, "PMI_FD=%d", PMI_TASK_FD);
        if (l->libpmi)
            rc |= env_add(e, "FLUX_PMI_LIBRARY_PATH=%s", l->libpmi);
        e->vars[e->n++] = e->pmirank;
    }
    e->n += pmix_env(j, e->vars + e->n);
    e->pmix = e->vars + e->n;
    return rc;
}

/* --- files instead of pipes --- */

static int is_template(const char *path, const char *name)
{
    return strstr(path, name) != NULL;
}

static char *expand(const struct job *j, const char *path, uint32_t task)
{
    strbuf_t *sb = strbuf_create(4096);

    while (*path) {
        if (str_starts(path, "{{id}}")) {
            strbuf_addf(sb, "%" PRIu64, j->id);
            path += 6;
        } else if (str_starts(path, "{{task}}")) {
            strbuf_addf(sb, "%u", task);
            path += 8;
        } else if (str_starts(path, "{{node}}")) {
            strbuf_addf(sb, "%u", j->run.node);
            path += 8;
        } else {
            strbuf_addc(sb, *path++);
        }
    }
    return strbuf_take(sb);
}

/* Relative names start at the job's working directory. */
static int open_file(const struct job *j, const char *path, uint32_t task, int flags,
                     const char *cwd, errmsg_t *err)
{
    char *name = expand(j, path, task), *full = NULL;
    int fd = -1, errnum;

    if (name && name[0] != '/' && cwd[0] && asprintf(&full, "%s/%s", cwd, name) < 0)
        full = NULL;
    else if (name && (name[0] == '/' || !cwd[0]))
        full = strdup(name);
    if (full)
        fd = open(full, flags | O_CLOEXEC | O_NOCTTY, 0666);
    errnum = full ? errno : ENOMEM;
    if (fd < 0)
        errmsg_fail(err, errnum, "cannot open '%s': %s", name ? name : path, strerror(errnum));
    free(name);
    free(full);
    errno = errnum;
    return fd;
}

/* --- start --- */

struct start {
    struct job *j;
    const char *cwd, *in, *out, *err;
    struct env env;
    char **argv;
    char *program;
};

/* Our end of a pipe into src, the task's returned. */
static int make_pipe(struct launcher *l, struct source *src, int ours, uint32_t events,
                     void (*ready)(struct source *, uint32_t))
{
    int ends[2];

    if (pipe2(ends, O_CLOEXEC) < 0)
        return -1;
    if (fcntl(ends[ours], F_SETFL, O_NONBLOCK) < 0 ||
        source_start(l, src, ends[ours], events, ready) < 0) {
        close(ends[0]);
        close(ends[1]);
        src->fd = -1;
        return -1;
    }
    return ends[!ours];
}

static int task_stdin(struct start *st, struct task *t, errmsg_t *err)
{
    struct job *j = st->j;
    bool reads = (j->run.flags & WIRE_F_STDIN_ALL) || t->rank == 0;
    int fd;

    if (st->in[0]) {
        if (t->rank == 0 || is_template(st->in, "{{task}}") || (j->run.flags & WIRE_F_STDIN_ALL))
            return open_file(j, st->in, t->rank, O_RDONLY, st->cwd, err);
        return fcntl(j->l->nullfd, F_DUPFD_CLOEXEC, 0);
    }
    if ((j->run.flags & WIRE_F_STDIN_NONE) || !reads)
        return fcntl(j->l->nullfd, F_DUPFD_CLOEXEC, 0);
    fd = make_pipe(j->l, &t->in, 1, 0, NULL);
    if (fd < 0)
        errmsg_set(err, "cannot make a pipe: %s", strerror(errno));
    return fd;
}

static int task_output(struct start *st, struct task *t, int num, errmsg_t *err)
{
    const char *file = num == 1 ? st->out : st->err;
    struct stream *s = &t->out[num - 1];
    int fd;

    s->task = t;
    s->num = num;
    if (file[0]) {
        /* A file that is this task's alone starts empty; one that is shared is appended to. */
        bool own = is_template(file, "{{task}}") && !(num == 2 && strcmp(st->out, file) == 0);

        return open_file(st->j, file, t->rank, O_WRONLY | O_CREAT | O_APPEND | (own ? O_TRUNC : 0),
                         st->cwd, err);
    }
    fd = make_pipe(st->j->l, &s->src, 0, EPOLLIN, stream_ready);
    if (fd < 0)
        errmsg_set(err, "cannot make a pipe: %s", strerror(errno));
    return fd;
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

static int task_start(struct start *st, struct task *t, errmsg_t *err)
{
    struct job *j = st->j;
    struct spawn_fd fds[4] = {{-1, 0}, {-1, 1}, {-1, 2}, {-1, PMI_TASK_FD}};
    size_t nfds = 3;
    pid_t pid = -1;
    int errnum;

    if ((fds[0].src = task_stdin(st, t, err)) < 0 ||
        (fds[1].src = task_output(st, t, 1, err)) < 0 ||
        (fds[2].src = task_output(st, t, 2, err)) < 0)
        goto out;
    if (has_pmi(j)) {
        nfds = 4;
        if ((fds[3].src = task_pmi(j, t, err)) < 0)
            goto out;
    }
    snprintf(st->env.rank, sizeof(st->env.rank), "FLUX_TASK_RANK=%u", t->rank);
    snprintf(st->env.local, sizeof(st->env.local), "FLUX_TASK_LOCAL_ID=%u", t->rank - j->first);
    snprintf(st->env.pmirank, sizeof(st->env.pmirank), "PMI_RANK=%u", t->rank);
    pmix_task_env(j, t, st->env.pmix);
    struct spawn_params sp = {
        .path = st->program,
        .argv = st->argv,
        .envp = st->env.vars,
        .cwd = st->cwd[0] ? st->cwd : NULL,
        .fds = fds,
        .nfds = nfds,
        .flags = SPAWN_PGRP,
        .pdeathsig = SIGKILL,
        .nofile = &j->l->files,
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
    for (size_t i = 0; i < 4; i++)
        if (fds[i].src >= 0)
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

static void job_ending(struct job *j)
{
    j->state = JOB_ENDING;
    list_append(&j->l->ending, &j->ending);
}

static const char *next_string(const char **p)
{
    const char *s = *p;

    *p += strlen(s) + 1;
    return s;
}

/* Cut the strings into vectors.  Returns the block that holds them. */
static char **split(struct job *j, struct start *st, char ***env)
{
    const char *p = j->run.strings;
    char **v = calloc((size_t)j->run.argc + j->run.envc + 2, sizeof(*v));

    if (!v)
        return NULL;
    st->cwd = next_string(&p);
    st->in = next_string(&p);
    st->out = next_string(&p);
    st->err = next_string(&p);
    st->argv = v;
    for (uint32_t i = 0; i < j->run.argc; i++)
        v[i] = (char *)next_string(&p);
    *env = v + j->run.argc + 1;
    for (uint32_t i = 0; i < j->run.envc; i++)
        (*env)[i] = (char *)next_string(&p);
    return v;
}

static const char *getvar(char *const *env, const char *name)
{
    size_t n = strlen(name);

    for (; *env; env++)
        if (strncmp(*env, name, n) == 0 && (*env)[n] == '=')
            return *env + n + 1;
    return NULL;
}

void job_start(struct job *j)
{
    struct start st = {.j = j};
    char **env = NULL, **block = split(j, &st, &env);
    int code = 126;
    errmsg_t err;
    uint32_t i = 0;

    if (!block || env_build(&st.env, j, env) < 0) {
        errmsg_set(&err, "no memory to start %u tasks", j->ntasks);
    } else if ((st.program = spawn_find_program(st.argv[0], getvar(env, "PATH"),
                                                st.cwd[0] ? st.cwd : NULL, &err))) {
        while (i < j->ntasks && task_start(&st, &j->tasks[i], &err) == 0)
            i++;
    } else {
        code = spawn_errno_to_code(errno);
        /* A missing directory is the better reason. */
        if (st.cwd[0] && access(st.cwd, X_OK) < 0) {
            errmsg_set(&err, "cannot enter the working directory '%s': %s", st.cwd,
                       strerror(errno));
            code = 126;
        }
    }
    if (i < j->ntasks) {
        send_fail(j, code, (int32_t)(j->first + i), j->ntasks - i, "%s", err.text);
        for (; i < j->ntasks; i++)
            j->tasks[i].status = code << 8;
        job_kill(j);
    }
    free(st.program);
    env_free(&st.env);
    free(block);
    if (j->running == 0)
        job_ending(j);
}

void job_run(struct launcher *l, uint64_t id, const void *payload, size_t len)
{
    static const int32_t refused = 126 << 8;
    struct job *j;
    errmsg_t err;
    int waits;

    if (hmap_get_u64(l->jobs, id))
        return;
    j = calloc(1, sizeof(*j));
    if (!j || !(j->body = malloc(len)))
        goto fail;
    j->l = l;
    j->id = id;
    list_init(&j->ending);
    memcpy(j->body, payload, len);
    if (wire_run_get(j->body, len, &j->run, &err) < 0) {
        fprintf(stderr, "flux-launcher: job %" PRIu64 ": %s\n", id, err.text);
        goto fail;
    }
    j->first = layout_first(j->run.ntasks, j->run.nnodes, j->run.node);
    j->ntasks = layout_count(j->run.ntasks, j->run.nnodes, j->run.node);
    j->credit = j->run.window;
    snprintf(j->mark, sizeof(j->mark), "FLUX_LAUNCHER_JOB=%s.%" PRIu64, l->token, id);
    if (!(j->tasks = calloc(j->ntasks, sizeof(*j->tasks))))
        goto fail;
    for (uint32_t i = 0; i < j->ntasks; i++) {
        struct task *t = &j->tasks[i];

        t->job = j;
        t->rank = j->first + i;
        t->in.fd = t->pmi.fd = t->out[0].src.fd = t->out[1].src.fd = -1;
    }
    if (hmap_put_u64(l->jobs, id, j) < 0)
        goto fail;
    waits = pmix_begin(j, &err);
    if (waits == 0) {
        j->state = JOB_RUNNING;
        job_start(j);
    } else if (waits < 0) {
        send_fail(j, 126, -1, 0, "%s", err.text);
        job_kill(j);
    }
    return;
fail:
    if (j) {
        free(j->tasks);
        free(j->body);
        free(j);
    }
    /* One status stands for all: the module knows how many there should have been. */
    send_frame(l, WIRE_DONE, id, &refused, sizeof(refused), NULL, 0);
}

void job_destroy(void *arg)
{
    struct job *j = arg;

    if (!j)
        return;
    for (uint32_t i = 0; i < j->ntasks; i++) {
        struct task *t = &j->tasks[i];

        source_close(j->l, &t->out[0].src);
        source_close(j->l, &t->out[1].src);
        source_close(j->l, &t->pmi);
        stdin_close(t);
        buf_destroy(t->pmiout);
    }
    pmi_server_destroy(j->pmi);
    pmix_destroy(j);
    backing_remove(j);
    list_remove(&j->ending);
    free(j->tasks);
    free(j->body);
    free(j);
}

/* --- signals and ends --- */

void job_signal(struct job *j, int signum)
{
    for (uint32_t i = 0; i < j->ntasks; i++)
        if (j->tasks[i].pid > 0)
            kill(-j->tasks[i].pid, signum);
}

void job_kill(struct job *j)
{
    if (j->state == JOB_STARTING) {
        for (uint32_t i = 0; i < j->ntasks; i++)
            j->tasks[i].status = SIGKILL;
        job_ending(j);
    }
    job_signal(j, SIGKILL);
}

void jobs_reap(struct launcher *l)
{
    pid_t pid;
    int status;

    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        struct task *t = hmap_take_u64(l->pids, (uint64_t)pid);
        struct job *j;

        if (!t) {
            pmix_reaped(l, pid, status);
            continue;
        }
        j = t->job;
        t->pid = 0;
        t->status = status;
        j->running--;
        /* The leader is gone, and its number free; the rest of its group is found as adopted. */
        stdin_close(t);
        pmi_task_ended(t);
        pmix_task_ended(t);
        if (j->running == 0 && j->state == JOB_RUNNING)
            job_ending(j);
    }
}

struct hunt {
    struct job *j;
    bool alone; /* no other job is here */
    bool found;
    bool unsure;
};

/* In the process group of one of its tasks?  No other can have that number while it exists. */
static bool in_group(const struct job *j, pid_t pid)
{
    pid_t group = getpgid(pid);

    for (uint32_t i = 0; group > 0 && i < j->ntasks; i++)
        if (j->tasks[i].leader == group)
            return true;
    return false;
}

static int hunt_one(pid_t pid, void *arg)
{
    struct hunt *h = arg;
    int mine;

    if (hmap_get_u64(h->j->l->pids, (uint64_t)pid) || pmix_is(h->j->l, pid))
        return 0;
    mine = h->alone || in_group(h->j, pid) ? 1 : proctree_has_env(pid, h->j->mark);
    if (mine < 0 && errno == EAGAIN && !proctree_dead(pid))
        h->unsure = true;
    if (mine == 1) {
        h->found = true;
        kill(pid, SIGKILL);
    }
    return 0;
}

/* Kill what the job left behind: true when there was something, whose end is to be waited for. */
static bool leftovers(struct job *j)
{
    struct hunt h = {j, hmap_count(j->l->jobs) == 1, false, false};

    proctree_children(hunt_one, &h);
    if (h.unsure && !h.found && j->tries++ < TRIES) {
        j->l->again = true;
        return true;
    }
    return h.found;
}

static void job_done(struct job *j)
{
    struct launcher *l = j->l;
    int32_t *status = calloc(j->ntasks, sizeof(*status));

    if (!status) {
        l->stop = true;
        return;
    }
    for (uint32_t i = 0; i < j->ntasks; i++)
        status[i] = j->tasks[i].status;
    backing_remove(j);
    send_frame(l, WIRE_DONE, j->id, status, j->ntasks * sizeof(*status), NULL, 0);
    free(status);
    hmap_del_u64(l->jobs, j->id);
}

void jobs_step(struct launcher *l)
{
    l->again = false;
    LIST_FOREACH_SAFE(it, tmp, &l->ending)
    {
        struct job *j = list_entry(it, struct job, ending);

        /* Zombies are reaped first, so that a child found here is alive or will give a signal. */
        jobs_reap(l);
        if (leftovers(j) || !job_drain(j))
            continue;
        pmix_end(j);
        if (pmix_gone(j))
            job_done(j);
    }
}

static int kill_one(pid_t pid, void *arg)
{
    kill(pid, SIGKILL);
    return 0;
}

void jobs_kill_all(struct launcher *l)
{
    size_t pos = 0;
    void *val;

    while (hmap_next(l->jobs, &pos, NULL, NULL, &val))
        job_kill(val);
    do
        proctree_children(kill_one, NULL);
    while (waitpid(-1, NULL, 0) > 0 || errno == EINTR);
}

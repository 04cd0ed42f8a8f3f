/* flux-launcher - the parent of all tasks that run on the node of a broker.
 *
 *    flux-launcher --fd=N --rank=R [--sweep=TOKEN] --token=TOKEN
 *
 * Purpose: the wrexec module starts a launcher for its first job, and exchanges frames with it over
 * descriptor N (exec_wire.h).  The launcher is small and does not handle messages: it starts a
 * process at little more than the cost of the kernel, and the broker, with its threads and memory,
 * never forks.
 *
 * Invariants:
 *  1. The loop blocks only in epoll_wait(), with two short exceptions: to identify a process that
 *     has just begun to execute, and to see whether a hanging process dies.  The module measures
 *     the grace periods of tasks.  Operations on the files of the user, which may hang, are works
 *     of starters, the threads that share the loop (starter.c).
 *  2. The launcher is a child subreaper: a process that a task leaves behind becomes its child, and
 *     ends with the job.
 *  3. When the connection ends, because the broker or the module is gone, the launcher kills all
 *     processes, waits for them, runs the epilogs, removes its directories, and exits.
 *  4. When the launcher is killed, tasks die by their parent-death signal.  The next launcher,
 *     which is given --sweep=TOKEN, finds their descendants by the tag, or by the token in the
 *     environment, and runs the epilogs of the lost jobs.
 *  5. Memory is bounded: output by the credit of its job, standard input by its window, PMI by the
 *     bounds of the server.  The requests of a task that does not read its PMI answers are not
 *     read.
 *
 *    nodejob.c  the life of a job on this node    pmi.c      PMI-1; shm.c its shared memory
 *    task.c     prepares tasks                    pmix.c     PMIx; pmix_server.c starts its server
 *    starter.c  threads that start tasks          offer.c    lets tasks connect to it on demand
 *    env.c      environments of tasks             share.c    one server for the brokers of a host
 *    bind.c     binds tasks to cores              hook.c     runs prolog and epilog
 *    stream.c   moves output and input            record.c   records the epilogs that are due
 *    file.c     writes labeled output to files    lua.c      runs plugins
 *    tag.c      identifies the job of a process   object.c   maps shared objects on demand
 *    orphan.c   detects processes that are left   backing.c  directories of jobs
 *    hunt.c     ends these processes              cgroup.c   limits memory
 *
 * Failure: an error at the start, or a lack of memory for a frame, ends the launcher, and with it
 * its jobs (4).
 */
#include "config.h"
#include "launcher.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "libsubprocess/proctree.h"
#include "libutil/clock.h"
#include "libutil/fdutil.h"
#include "libutil/strutil.h"

extern char **environ;

#define EVENTS 64
#define READ_SIZE 65536
#define LEAVE 2000000 /* microseconds for the removal of directories at the end */
#define SWEEPS 2000   /* at least a millisecond each */
#define SWEEPS_UNSURE 100
#define HUNG_MAX 255
#define NOTES_MAX 100 /* per job on this node: the job's event log keeps each note */

/* --- sources of events --- */

static int source_ctl(struct launcher *l, struct source *s, int op)
{
    struct epoll_event ev = {.events = s->events, .data.ptr = s};

    return epoll_ctl(l->epfd, op, s->fd, &ev);
}

int launcher_source_start(struct launcher *l, struct source *s, int fd, uint32_t events,
                          void (*ready)(struct source *, uint32_t))
{
    s->fd = fd;
    s->events = events;
    s->ready = ready;
    s->armed = false;
    if (events && source_ctl(l, s, EPOLL_CTL_ADD) < 0)
        return -1;
    s->armed = (events != 0);
    return 0;
}

/* The source is removed, because epoll would report a hang-up of a muted source repeatedly. */
void launcher_source_pause(struct launcher *l, struct source *s)
{
    if (s->fd >= 0 && s->armed)
        source_ctl(l, s, EPOLL_CTL_DEL);
    s->armed = false;
}

void launcher_source_resume(struct launcher *l, struct source *s)
{
    if (s->fd >= 0 && !s->armed)
        s->armed = (source_ctl(l, s, EPOLL_CTL_ADD) == 0);
}

void launcher_source_close(struct launcher *l, struct source *s)
{
    if (s->fd < 0)
        return;
    launcher_source_pause(l, s);
    close(s->fd);
    s->fd = -1;
}

/* --- the connection to the module --- */

static void control_flush(struct launcher *l)
{
    uint32_t want;

    while (buf_len(l->out) > 0 && !l->stop) {
        ssize_t n = send(l->control.fd, buf_data(l->out), buf_len(l->out), MSG_NOSIGNAL);

        if (n > 0)
            buf_consume(l->out, (size_t)n);
        else if (n < 0 && errno == EINTR)
            continue;
        else if (n < 0 && errno == EAGAIN)
            break;
        else
            l->stop = true;
    }
    want = EPOLLIN | (buf_len(l->out) > 0 ? (uint32_t)EPOLLOUT : 0);
    if (want != l->control.events) {
        l->control.events = want;
        source_ctl(l, &l->control, EPOLL_CTL_MOD);
    }
}

void launcher_send_frame(struct launcher *l, enum wire_type type, uint64_t job, const void *fixed,
                         size_t fixedlen, const void *data, size_t len)
{
    const struct iovec parts[] = {{(void *)(uintptr_t)fixed, fixedlen},
                                  {(void *)(uintptr_t)data, len}};

    /* If a frame were dropped, the module would wait forever: without memory the launcher ends. */
    if (exec_wire_put(l->out, type, job, parts, 2) < 0)
        l->stop = true;
}

void launcher_send_fail(struct nodejob *j, int code, int32_t first, uint32_t count, const char *fmt,
                        ...)
{
    int32_t fixed[3] = {code, first, (int32_t)count};
    char text[1024];
    va_list ap;
    int n;

    if (j->failed)
        return;
    j->failed = true;
    va_start(ap, fmt);
    n = vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    if (n < 0)
        n = 0;
    if ((size_t)n >= sizeof(text))
        n = sizeof(text) - 1;
    launcher_send_frame(j->l, WIRE_FAIL, j->id, fixed, sizeof(fixed), text, (size_t)n);
}

static void send_remark(struct nodejob *j, enum wire_type type, const char *fmt, va_list ap)
{
    char text[1024];
    int n;

    if (j->notes > NOTES_MAX)
        return;
    n = vsnprintf(text, sizeof(text), fmt, ap);
    if (++j->notes > NOTES_MAX)
        n = snprintf(text, sizeof(text), "further messages about this job are suppressed (%s)",
                     nodejob_node_name(j));
    if (n >= (int)sizeof(text))
        n = sizeof(text) - 1;
    if (n > 0)
        launcher_send_frame(j->l, type, j->id, NULL, 0, text, (size_t)n);
}

void launcher_send_note(struct nodejob *j, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    send_remark(j, WIRE_NOTE, fmt, ap);
    va_end(ap);
}

void launcher_send_warning(struct nodejob *j, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    send_remark(j, WIRE_WARNING, fmt, ap);
    va_end(ap);
}

static const char *or_null(const char *s)
{
    return s[0] ? s : NULL;
}

static void set_config(struct launcher *l, const struct wire_frame *f)
{
    const char *s[WIRE_CONFIG_STRINGS], *p;

    if (l->config || !exec_wire_strings_ok((const char *)f->payload, f->len, WIRE_CONFIG_STRINGS) ||
        !(l->config = malloc(f->len))) {
        l->stop = true;
        return;
    }
    memcpy(l->config, f->payload, f->len);
    p = l->config;
    for (int i = 0; i < WIRE_CONFIG_STRINGS; i++, p += strlen(p) + 1)
        s[i] = p;
    l->uri = or_null(s[WIRE_C_URI]);
    l->libpmi = or_null(s[WIRE_C_LIBPMI]);
    l->prolog = or_null(s[WIRE_C_PROLOG]);
    l->epilog = or_null(s[WIRE_C_EPILOG]);
    l->hook_timeout = strtod(s[WIRE_C_HOOK_TIMEOUT], NULL);
    l->luapath = or_null(s[WIRE_C_LUA_PATH]);
    l->tmpdir = or_null(s[WIRE_C_TMPDIR]);
    l->cgroup = or_null(s[WIRE_C_CGROUP]);
    if (str2u32(s[WIRE_C_HUNG_MAX], &l->hung_max) < 0 || l->hung_max < 1 || l->hung_max > HUNG_MAX)
        l->hung_max = HUNG_MAX;
    l->separate_hosts = strcmp(s[WIRE_C_SHARE_HOSTS], "no") == 0;
    l->configured = true;
}

static void handle_frame(struct launcher *l, const struct wire_frame *f)
{
    struct nodejob *j = hmap_get_u64(l->jobs, f->job);

    if (f->type == WIRE_RUN || (f->type == WIRE_BAD && f->said == WIRE_RUN)) {
        nodejob_run(l, f->job, f->payload, f->len); /* the job refuses a malformed request */
        return;
    }
    if (f->type == WIRE_CONFIG) {
        set_config(l, f);
        return;
    }
    if (!j || j->state == JOB_OVER)
        return;
    switch (f->type) {
    case WIRE_BAD:
        launcher_send_fail(j, 1, -1, 0,
                           "the broker sent a frame that is not valid (type %u, %u bytes)", f->said,
                           f->len);
        nodejob_kill(j);
        break;
    case WIRE_SIGNAL:
        nodejob_signal(j, exec_wire_i32(f->payload));
        break;
    case WIRE_KILL:
        nodejob_kill(j);
        break;
    case WIRE_STDIN:
        stream_stdin(j, exec_wire_u32(f->payload), f->payload + 4, f->len - 4);
        break;
    case WIRE_CREDIT:
        stream_credit(j, exec_wire_u32(f->payload));
        break;
    case WIRE_PMI_DONE:
        pmi_done(j, f->payload, f->len);
        break;
    case WIRE_PMI_NAMED:
        pmi_named(j, f->payload, f->len);
        break;
    case WIRE_SPAWNED:
        pmi_spawned(j, f->payload, f->len);
        break;
    case WIRE_ASK_END:
        nodejob_ask_end(j, exec_wire_u32(f->payload));
        break;
    default:
        break;
    }
}

static void control_ready(struct source *s, uint32_t events)
{
    struct launcher *l = (struct launcher *)((char *)s - offsetof(struct launcher, control));
    struct wire_frame f;
    ptrdiff_t used = 0;
    errmsg_t err;

    if (events & (EPOLLIN | EPOLLHUP | EPOLLERR)) {
        void *p = buf_reserve(l->in, READ_SIZE);
        ssize_t n = p ? recv(s->fd, p, READ_SIZE, MSG_DONTWAIT) : -1;

        if (n > 0)
            buf_commit(l->in, (size_t)n);
        else if (n == 0 || !p || (errno != EAGAIN && errno != EINTR))
            l->stop = true;
    }
    while (!l->stop && (used = exec_wire_parse(buf_data(l->in), buf_len(l->in), &f, &err)) > 0) {
        handle_frame(l, &f);
        buf_consume(l->in, (size_t)used);
    }
    if (used < 0) {
        fprintf(stderr, "flux-launcher: the broker sent %s; leaving\n", err.text);
        l->stop = true;
    }
}

static void signals_ready(struct source *s, uint32_t events)
{
    struct launcher *l = (struct launcher *)((char *)s - offsetof(struct launcher, signals));
    struct signalfd_siginfo si[8];
    ssize_t n = read(s->fd, si, sizeof(si));

    for (size_t i = 0; n > 0 && i < (size_t)n / sizeof(*si); i++)
        if (si[i].ssi_signo != SIGCHLD)
            l->stop = true;
    nodejobs_reap(l);
}

/* --- the processes of a lost launcher --- */

struct sweep {
    const char *token;
    char mark[64];
    uint32_t found;
    bool unsure;
};

/* Returns whether a process is a kernel thread, which never has an environment; other processes
 * lack one for a moment of execve(2). */
static bool kernels_own(pid_t pid)
{
    char path[64], exe[1];

    snprintf(path, sizeof(path), "/proc/%d/exe", (int)pid);
    return readlink(path, exe, sizeof(exe)) < 0 && errno == ENOENT;
}

/* Returns whether a process may be an orphan of a lost launcher.  Such an orphan goes to the next
 * subreaper above the lost launcher, which is above this launcher too.  Init is left out, because
 * it has the orphans of all users. */
static bool is_adopted(pid_t pid)
{
    pid_t parent = proctree_parent(pid);

    for (pid_t p = getppid(); p > 1 && parent > 1; p = proctree_parent(p))
        if (p == parent)
            return true;
    return false;
}

static int sweep_one(pid_t pid, void *arg)
{
    struct sweep *s = arg;
    int theirs, fd;

    if (pid == getpid() || (fd = pidfd_open(pid, 0)) < 0)
        return 0;
    theirs = tag_of_launcher(pid, s->token) ? 1 : proctree_has_env(pid, s->mark);
    if (theirs < 0 && errno == EAGAIN && !proctree_dead(pid) && !kernels_own(pid))
        s->unsure = true;
    if (theirs != 1 && tag_dropped(pid) && is_adopted(pid))
        theirs = 1;
    if (theirs == 1 && !proctree_dead(pid) && pidfd_send_signal(fd, SIGKILL, NULL, 0) == 0)
        s->found++;
    close(fd);
    return 0;
}

/* Find the marks of the launchers of the sessions around this one, if the session is a job. */
static int find_outer(struct launcher *l)
{
    size_t n = 0;

    for (char **v = environ; *v; v++)
        n += str_starts(*v, LAUNCHER_MARK);
    if (n > 0 && !(l->outer = calloc(n, sizeof(*l->outer))))
        return -1;
    for (char **v = environ; *v; v++)
        if (str_starts(*v, LAUNCHER_MARK))
            l->outer[l->nouter++] = *v;
    return 0;
}

/* Kill the processes of the lost launcher.  The sweep is repeated after a moment while it finds
 * processes, because a process may be forking or executing a program.  The number of sweeps is
 * limited, because a process may be unkillable, or have no environment at all. */
static void sweep(struct launcher *l)
{
    struct sweep s = {.token = l->lost};

    snprintf(s.mark, sizeof(s.mark), LAUNCHER_MARK "%s=", l->lost);
    proctree_all(sweep_one, &s);
    l->remain = s.found;
    l->sweeps--;
    if (!s.found && (!s.unsure || --l->unsure <= 0))
        l->sweeps = 0;
}

/* Forget the lost launcher: no process of it can make files in its directory any longer, so the
 * directory is removed. */
static void forget_lost(struct launcher *l)
{
    launcher_send_frame(l, WIRE_SWEPT, 0, &l->remain, sizeof(l->remain), NULL, 0);
    backing_sweep(l, l->lost);
    l->lost = NULL;
    records_run(l);
}

/* --- start and end --- */

static int raise_limit(struct launcher *l)
{
    struct rlimit rl;

    if (getrlimit(RLIMIT_NOFILE, &l->files) < 0)
        return -1;
    rl = l->files;
    rl.rlim_cur = rl.rlim_max;
    setrlimit(RLIMIT_NOFILE, &rl);
    return 0;
}

static int launcher_init(struct launcher *l, int fd)
{
    sigset_t set;

    list_init(&l->ending);
    list_init(&l->spawning);
    list_init(&l->cutting);
    starter_batch_init(&l->chores, false);
    /* SPAWN_PLAIN_SIGNALS requires default dispositions. */
    for (int sig = 1; sig < _NSIG; sig++)
        signal(sig, SIG_DFL);
    signal(SIGPIPE, SIG_IGN);
    if (gethostname(l->hostname, sizeof(l->hostname) - 1) < 0)
        l->hostname[0] = '\0';
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    sigaddset(&set, SIGTERM);
    sigprocmask(SIG_SETMASK, &set, NULL);
    if (prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) < 0 || raise_limit(l) < 0 ||
        fd_set_cloexec(fd, 1) < 0 || fd_set_nonblock(fd, 1) < 0)
        return -1;
    l->epfd = epoll_create1(EPOLL_CLOEXEC);
    l->nullfd = open("/dev/null", O_RDWR | O_CLOEXEC);
    l->in = buf_create(WIRE_PAYLOAD_MAX + WIRE_HEADER + READ_SIZE);
    l->out = buf_create(0);
    l->jobs = hmap_create_u64(nodejob_destroy);
    l->pids = hmap_create_u64(NULL);
    l->servers = hmap_create_u64(NULL);
    l->hooks = hmap_create_u64(NULL);
    l->tags = hmap_create_u64(NULL);
    tag_init(l);
    if (l->epfd < 0 || l->nullfd < 0 || !l->in || !l->out || !l->jobs || !l->pids || !l->servers ||
        !l->hooks || !l->tags)
        return -1;
    if (launcher_source_start(l, &l->control, fd, EPOLLIN, control_ready) < 0 ||
        launcher_source_start(l, &l->signals, signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK),
                              EPOLLIN, signals_ready) < 0)
        return -1;
    return starters_init(l);
}

/* Return the longest time to wait for events, in milliseconds; -1: without limit. */
static int patience(const struct launcher *l)
{
    if (!list_empty(&l->spawning) || starters_wait(l))
        return 0;
    if (l->again || l->sweeps > 0 || (l->lost && l->configured))
        return 1;
    return l->wake < 1000000000 ? (int)(l->wake / 1000) + 1 : -1;
}

/* Handle one round of events.  Waits at most this number of milliseconds, or without limit (-1). */
static void launcher_events(struct launcher *l, int ms)
{
    struct epoll_event ev[EVENTS];
    int n = epoll_wait(l->epfd, ev, EVENTS, ms);

    /* A source that an earlier event of this round has closed has descriptor -1; its memory is
     * freed with its job, in nodejobs_step(). */
    for (int i = 0; i < n; i++) {
        struct source *s = ev[i].data.ptr;

        if (s->fd >= 0 && s->armed)
            s->ready(s, ev[i].events);
    }
}

enum { NOT_LEAVING, EPILOGS, REMOVING };

/* Do the next step of the end of the launcher; each step may have to wait. */
static void leave(struct launcher *l)
{
    l->wake = UINT64_MAX;
    if (l->leaving == NOT_LEAVING) {
        launcher_source_pause(l, &l->control);
        if (l->lost)
            forget_lost(l);
        nodejobs_kill_all(l);
        l->leaving = EPILOGS;
    }
    if (l->leaving == EPILOGS) {
        if (hooks_epilogs(l))
            return;
        nodejobs_kill_children(l);
        l->leave_by = clock_now_us() + LEAVE;
        l->leaving = REMOVING;
    }
    if (backing_leave(l) && clock_now_us() < l->leave_by)
        l->wake = 10000;
    else
        l->over = true;
}

static void before(struct launcher *l)
{
    launcher_events(l, patience(l));
    nodejobs_spawn(l);
}

static void after(struct launcher *l)
{
    if (l->stop) {
        leave(l);
        return;
    }
    nodejobs_step(l);
    control_flush(l);
    if (l->sweeps > 0)
        sweep(l);
    else if (l->lost && l->configured)
        forget_lost(l);
    if (l->stop)
        leave(l);
}

static void run(struct launcher *l)
{
    if (starters_run(l, before, after) < 0)
        orphans_over(l);
}

/* Give up the terminal of the broker, for this process and its children only.  A task that does not
 * lead a session of its own would be stopped when it reads from the terminal. */
static void drop_terminal(void)
{
    int fd = open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY);

    if (fd < 0)
        return;
    if (getsid(0) != getpid())
        (void)ioctl(fd, TIOCNOTTY);
    close(fd);
}

int main(int argc, char **argv)
{
    static const struct option opts[] = {
        {"fd", required_argument, NULL, 'f'},
        {"rank", required_argument, NULL, 'r'},
        {"token", required_argument, NULL, 't'},
        {"sweep", required_argument, NULL, 's'},
        {NULL, 0, NULL, 0},
    };
    struct launcher l = {
        .rank = "0", .dirlock = -1, .dirmutex = PTHREAD_MUTEX_INITIALIZER, .hung_max = HUNG_MAX};
    int c, fd = -1, rc;

    while ((c = getopt_long(argc, argv, "", opts, NULL)) != -1) {
        switch (c) {
        case 'f':
            if (str2i32(optarg, &fd) < 0)
                fd = -1;
            break;
        case 'r':
            l.rank = optarg;
            break;
        case 't':
            snprintf(l.token, sizeof(l.token), "%s", optarg);
            break;
        case 's':
            l.lost = optarg;
            l.sweeps = SWEEPS;
            l.unsure = SWEEPS_UNSURE;
            break;
        default:
            return 2;
        }
    }
    if (fd < 0 || !l.token[0]) {
        fprintf(stderr, "flux-launcher: is started by a broker, not by hand\n");
        return 2;
    }
    drop_terminal();
    if (find_outer(&l) < 0 || launcher_init(&l, fd) < 0) {
        fprintf(stderr, "flux-launcher: cannot start: %s\n", strerror(errno));
        return 1;
    }
    rc = orphans_watch(&l, run);
    if (starters_stuck(&l))
        _exit(rc);
    starters_collect(&l);
    hmap_destroy(l.jobs);
    starters_fini(&l);
    hmap_destroy(l.pids);
    hmap_destroy(l.servers);
    hmap_destroy(l.hooks);
    hmap_destroy(l.tags);
    buf_destroy(l.in);
    buf_destroy(l.out);
    offers_destroy(&l);
    cgroups_destroy(&l);
    backing_fini(&l);
    bind_destroy(l.bind);
    free(l.config);
    free(l.outer);
    return rc;
}

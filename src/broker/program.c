/* program.c - the initial program, and its keeper.
 *
 * The broker forks a keeper, which forks the program.  The keeper only waits: for the program, for
 * orders of the broker on a pipe (each one byte, a signal number), and for the end of that pipe,
 * which means that the broker is gone.  It adopts all descendants of the program, so it can kill
 * them all.
 *
 *    event                               the keeper
 *    the program ends by itself          ends with its code; descendants keep running
 *    a signal is ordered                 sends it to the program
 *    the program ends after an order     kills all descendants, ends with its code
 *    SIGKILL is ordered                  kills all
 *    the broker is gone                  kills all
 *
 * The broker forks no other processes: the launcher starts tasks.  Keeper and program stay in the
 * broker's process group, so the terminal's foreground process group does not change.  A failed
 * exec is reported through a close-on-exec pipe.
 *
 * Failure: ENOENT, EACCES and others, with an error message; no process is left.
 */
#include "config.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "libflux/paths.h"
#include "libsubprocess/proctree.h"
#include "program.h"

extern char **environ;

struct program {
    pid_t pid; /* of the keeper */
    int orders;
    bool running;
    flux_watcher_t *watcher;
    program_done_f done;
    void *arg;
};

/* Should the program inherit this variable?  Not if it would make the program regard itself as a
 * task of the broker's own launcher. */
static bool inherited(const char *var)
{
    static const char *const no[] = {"PMI_",
                                     "PMIX_",
                                     "FLUX_URI=",
                                     "FLUX_JOB_",
                                     "FLUX_TASK_",
                                     "FLUX_NODE_",
                                     "FLUX_PMI_LIBRARY_PATH=",
                                     "PATH=",
                                     "OMPI_MCA_btl_vader_backing_directory=",
                                     "HYDI_",
                                     "MPI_LOCAL"};
    /* Variables by which the program of a job learns about that job: its number (FLUX_JOB_CC: its
     * index among copies), size and expiration. */
    static const char *const job[] = {
        "FLUX_JOB_ID=", "FLUX_JOB_NNODES=", "FLUX_JOB_EXPIRATION=", "FLUX_JOB_CC="};

    for (size_t i = 0; i < sizeof(job) / sizeof(job[0]); i++) {
        if (strncmp(var, job[i], strlen(job[i])) == 0)
            return true;
    }
    for (size_t i = 0; i < sizeof(no) / sizeof(no[0]); i++) {
        if (strncmp(var, no[i], strlen(no[i])) == 0)
            return false;
    }
    return true;
}

/* Do two NAME=VALUE strings have the same name? */
static bool same_name(const char *a, const char *b)
{
    size_t n = strcspn(a, "=");

    return strncmp(a, b, n + 1) == 0;
}

/* The array owns the new strings, which come first. */
#define OWN_VARS 4

static void free_env(char **env)
{
    if (env) {
        for (int i = 0; i < OWN_VARS; i++)
            free(env[i]);
        free(env);
    }
}

static char **make_env(const char *uri)
{
    const char *path = getenv("PATH");
    char *bindir = flux_path_bindir();
    size_t n = 0;
    char **env;

    while (environ[n])
        n++;
    if (!(env = calloc(n + OWN_VARS + 1, sizeof(*env))))
        goto error;
    if (asprintf(&env[0], "FLUX_URI=%s", uri) < 0) {
        env[0] = NULL;
        goto error;
    }
    if (asprintf(&env[1], "PATH=%s%s%s", bindir ? bindir : "", bindir ? ":" : "",
                 path ? path : "/usr/local/bin:/usr/bin:/bin") < 0) {
        env[1] = NULL;
        goto error;
    }
    if (!(env[2] = flux_path_lua_env()) || !(env[3] = flux_path_python_env()))
        goto error;
    n = OWN_VARS;
    for (char **e = environ; *e; e++) {
        if (inherited(*e) && !same_name(env[2], *e) && !same_name(env[3], *e))
            env[n++] = *e;
    }
    free(bindir);
    return env;
error:
    free_env(env);
    free(bindir);
    errno = ENOMEM;
    return NULL;
}

static void child_cb(flux_reactor_t *r, flux_watcher_t *w, int status, void *arg)
{
    program_t *p = arg;

    p->running = false;
    p->done(p, WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status), p->arg);
}

/* --- in the keeper --- */

static void exec_child(char *const argv[], char **env, int errfd, pid_t parent)
{
    sigset_t none;
    int errnum;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
    for (int s = 1; s < NSIG; s++)
        signal(s, SIG_DFL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    environ = env; /* execvp() searches its PATH */
    execvp(argv[0], argv);
    errnum = errno;
    if (write(errfd, &errnum, sizeof(errnum)) < 0)
        _exit(126);
    _exit(127);
}

static int kill_one(pid_t pid, void *arg)
{
    (void)arg;
    kill(pid, SIGKILL);
    return 0;
}

/* Kill all descendants: those that lose their parent become children of the keeper. */
static void kill_all(void)
{
    int status;

    do {
        proctree_children(kill_one, NULL);
    } while (waitpid(-1, &status, 0) > 0 || errno == EINTR);
}

/* Reap children.  True if the program was among them. */
static bool reap(pid_t program, int *code)
{
    bool over = false;
    int status;
    pid_t pid;

    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        if (pid == program) {
            over = true;
            *code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
        }
    }
    return over;
}

static int keep(pid_t program, int orders, int sigfd)
{
    struct pollfd fds[] = {{orders, POLLIN, 0}, {sigfd, POLLIN, 0}};
    struct signalfd_siginfo info;
    bool ordered = false;
    unsigned char signum;
    int code = 1;
    ssize_t n;

    for (;;) {
        if (poll(fds, 2, -1) < 0 && errno != EINTR)
            break;
        if (fds[1].revents) {
            while (read(sigfd, &info, sizeof(info)) == sizeof(info))
                ;
            if (reap(program, &code)) {
                if (ordered)
                    kill_all();
                return code;
            }
        }
        if (!fds[0].revents)
            continue;
        n = read(orders, &signum, 1);
        if (n <= 0 || signum == SIGKILL)
            break;
        ordered = true;
        kill(program, signum);
    }
    kill_all();
    return 128 + SIGKILL;
}

/* Close all descriptors but these and the standard ones: the broker's sockets must close when the
 * broker ends. */
static void close_others(int a, int b)
{
    int lo = a < b ? a : b;
    int hi = a < b ? b : a;

    if (lo > 3)
        syscall(SYS_close_range, 3u, (unsigned)lo - 1, 0u);
    if (hi > lo + 1)
        syscall(SYS_close_range, (unsigned)lo + 1, (unsigned)hi - 1, 0u);
    syscall(SYS_close_range, (unsigned)hi + 1, ~0u, 0u);
}

static void keeper(program_t *p, char *const argv[], char **env, int errfd, int orders)
{
    sigset_t all;
    pid_t self = getpid();
    pid_t pid;
    int sigfd;

    prctl(PR_SET_CHILD_SUBREAPER, 1);
    prctl(PR_SET_NAME, "flux-keeper");
    close_others(errfd, orders);
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    signal(SIGCHLD, SIG_DFL);
    sigemptyset(&all);
    sigaddset(&all, SIGCHLD);
    sigfd = signalfd(-1, &all, SFD_CLOEXEC | SFD_NONBLOCK);
    if (sigfd < 0 || (pid = fork()) < 0) {
        int errnum = errno;
        if (write(errfd, &errnum, sizeof(errnum)) < 0)
            _exit(126);
        _exit(127);
    }
    if (pid == 0)
        exec_child(argv, env, errfd, self);
    close(errfd);
    free_env(env);
    free(p);
    _exit(keep(pid, orders, sigfd));
}

/* --- in the broker --- */

program_t *program_start(flux_reactor_t *r, char *const argv[], const char *uri,
                         program_done_f done, void *arg, errmsg_t *err)
{
    const char *shell = getenv("SHELL");
    char *const shell_argv[] = {(char *)(shell ? shell : "/bin/sh"), NULL};
    char *const *av = argv && argv[0] ? argv : shell_argv;
    program_t *p = calloc(1, sizeof(*p));
    char **env = make_env(uri);
    int err_pipe[2] = {-1, -1};
    int order_pipe[2] = {-1, -1};
    int errnum = 0;

    if (!p || !env || pipe2(err_pipe, O_CLOEXEC) < 0 || pipe2(order_pipe, O_CLOEXEC) < 0) {
        errmsg_fail(err, errno, "cannot start %s: %s", av[0], strerror(errno));
        goto error;
    }
    if ((p->pid = fork()) == 0)
        keeper(p, av, env, err_pipe[1], order_pipe[0]);
    close(err_pipe[1]);
    close(order_pipe[0]);
    err_pipe[1] = order_pipe[0] = -1;
    if (p->pid < 0) {
        errmsg_fail(err, errno, "cannot start %s: %s", av[0], strerror(errno));
        goto error;
    }
    if (read(err_pipe[0], &errnum, sizeof(errnum)) == sizeof(errnum)) {
        while (waitpid(p->pid, NULL, 0) < 0 && errno == EINTR)
            ;
        errmsg_fail(err, errnum, "cannot start %s: %s", av[0], strerror(errnum));
        goto error;
    }
    close(err_pipe[0]);
    err_pipe[0] = -1;
    free_env(env);
    env = NULL;
    p->orders = order_pipe[1];
    p->done = done;
    p->arg = arg;
    p->running = true;
    if (!(p->watcher = flux_child_watcher_create(r, p->pid, child_cb, p))) {
        errmsg_set(err, "cannot watch %s: %s", av[0], strerror(errno));
        goto error; /* closing the pipe ends the program */
    }
    flux_watcher_start(p->watcher);
    return p;
error:
    errnum = errno;
    for (int i = 0; i < 2; i++) {
        if (err_pipe[i] >= 0)
            close(err_pipe[i]);
        if (order_pipe[i] >= 0)
            close(order_pipe[i]);
    }
    free_env(env);
    free(p);
    errno = errnum;
    return NULL;
}

void program_destroy(program_t *p)
{
    if (p) {
        int saved = errno;
        flux_watcher_destroy(p->watcher);
        close(p->orders);
        free(p);
        errno = saved;
    }
}

void program_signal(program_t *p, int signum)
{
    unsigned char order = (unsigned char)signum;

    /* If the pipe is full, a further order has no effect. */
    if (p && p->running && write(p->orders, &order, 1) < 0)
        errno = 0;
}

/* program.c - the initial program, a child of rank 0's broker.
 *
 * It is the one process a broker forks itself: tasks are the launcher's business.  The child stays
 * in the broker's process group, so that a terminal's foreground stays what it was, and is told to
 * hang up when the broker dies.
 *
 * Between fork and exec only async-signal-safe calls are made, since modules have threads; a failed
 * exec is reported through a close-on-exec pipe.
 *
 * Failure: ENOENT, EACCES... with a sentence; nothing is left behind.
 */
#include "config.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "libflux/paths.h"
#include "program.h"

extern char **environ;

struct program {
    pid_t pid;
    bool running;
    flux_watcher_t *watcher;
    program_done_f done;
    void *arg;
};

/* What belongs to the launcher that started the broker and would mislead what it starts. */
static bool inherited(const char *var)
{
    static const char *const no[] = {"PMI_",
                                     "PMIX_",
                                     "FLUX_URI=",
                                     "FLUX_JOB_ID=",
                                     "FLUX_TASK_",
                                     "FLUX_NODE_",
                                     "FLUX_PMI_LIBRARY_PATH=",
                                     "PATH=",
                                     "OMPI_MCA_btl_vader_backing_directory=",
                                     "HYDI_",
                                     "MPI_LOCAL"};

    for (size_t i = 0; i < sizeof(no) / sizeof(no[0]); i++) {
        if (strncmp(var, no[i], strlen(no[i])) == 0)
            return false;
    }
    return true;
}

static char **make_env(const char *uri)
{
    const char *path = getenv("PATH");
    char *bindir = flux_path_bindir();
    size_t n = 0;
    char **env;

    while (environ[n])
        n++;
    if (!(env = calloc(n + 3, sizeof(*env))))
        goto error;
    /* Only the two strings made here are owned by the array: they come first. */
    if (asprintf(&env[0], "FLUX_URI=%s", uri) < 0) {
        env[0] = NULL;
        goto error;
    }
    if (asprintf(&env[1], "PATH=%s%s%s", bindir ? bindir : "", bindir ? ":" : "",
                 path ? path : "/usr/local/bin:/usr/bin:/bin") < 0) {
        env[1] = NULL;
        goto error;
    }
    n = 2;
    for (char **e = environ; *e; e++) {
        if (inherited(*e))
            env[n++] = *e;
    }
    free(bindir);
    return env;
error:
    if (env)
        free(env[0]);
    free(env);
    free(bindir);
    errno = ENOMEM;
    return NULL;
}

static void free_env(char **env)
{
    if (env) {
        free(env[0]);
        free(env[1]);
        free(env);
    }
}

static void child_cb(flux_reactor_t *r, flux_watcher_t *w, int status, void *arg)
{
    program_t *p = arg;

    p->running = false;
    p->done(p, WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status), p->arg);
}

static void exec_child(char *const argv[], char **env, int errfd, pid_t parent)
{
    sigset_t none;
    int errnum;

    prctl(PR_SET_PDEATHSIG, SIGHUP);
    if (getppid() != parent)
        _exit(1);
    for (int s = 1; s < NSIG; s++)
        signal(s, SIG_DFL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    execvpe(argv[0], argv, env);
    errnum = errno;
    if (write(errfd, &errnum, sizeof(errnum)) < 0)
        _exit(126);
    _exit(127);
}

program_t *program_start(flux_reactor_t *r, char *const argv[], const char *uri,
                         program_done_f done, void *arg, errmsg_t *err)
{
    const char *shell = getenv("SHELL");
    char *const shell_argv[] = {(char *)(shell ? shell : "/bin/sh"), NULL};
    char *const *av = argv && argv[0] ? argv : shell_argv;
    program_t *p = calloc(1, sizeof(*p));
    char **env = make_env(uri);
    pid_t self = getpid();
    int fds[2] = {-1, -1};
    int errnum = 0;

    if (!p || !env || pipe2(fds, O_CLOEXEC) < 0) {
        errmsg_fail(err, errno, "cannot start %s: %s", av[0], strerror(errno));
        goto error;
    }
    if ((p->pid = fork()) == 0)
        exec_child(av, env, fds[1], self);
    close(fds[1]);
    fds[1] = -1;
    if (p->pid < 0) {
        errmsg_fail(err, errno, "cannot start %s: %s", av[0], strerror(errno));
        goto error;
    }
    if (read(fds[0], &errnum, sizeof(errnum)) == sizeof(errnum)) {
        while (waitpid(p->pid, NULL, 0) < 0 && errno == EINTR)
            ;
        errmsg_fail(err, errnum, "cannot start %s: %s", av[0], strerror(errnum));
        goto error;
    }
    close(fds[0]);
    fds[0] = -1;
    free_env(env);
    env = NULL;
    p->done = done;
    p->arg = arg;
    p->running = true;
    if (!(p->watcher = flux_child_watcher_create(r, p->pid, child_cb, p))) {
        errmsg_set(err, "cannot watch %s: %s", av[0], strerror(errno));
        kill(p->pid, SIGKILL);
        goto error;
    }
    flux_watcher_start(p->watcher);
    return p;
error:
    errnum = errno;
    if (fds[0] >= 0)
        close(fds[0]);
    if (fds[1] >= 0)
        close(fds[1]);
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
        free(p);
        errno = saved;
    }
}

void program_signal(program_t *p, int signum)
{
    if (p && p->running)
        kill(p->pid, signum);
}

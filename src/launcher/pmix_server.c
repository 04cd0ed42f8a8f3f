/* pmix_server.c - starts flux-pmixd, the PMIx server of the tasks of a job on this node.
 *
 * Purpose: a server for which the tasks wait is started by a starter (starter.c), since the library
 * that the job names may be on a file system that hangs.  A server to which a task has connected
 * already (offer.c) is started at once.
 *
 * Environment: the server has the environment of the launcher and the mark of the job (hunt.c), and
 * two descriptors besides the standard ones: the connection to the launcher, and, with an offer,
 * the door through which the connections of tasks come.
 *
 * Failure: the job fails, with an error message.
 */
#include "config.h"
#include "pmix_private.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "libsubprocess/spawn.h"
#include "libutil/filetrust.h"
#include "libutil/strbuf.h"

#define PMIXD_FD 3
#define PMIXD_DOOR_FD 4

extern char **environ;

/* --- the command line --- */

/* Return the path of the server: beside the launcher if it is installed, in a directory of its own
 * in the build directory. */
char *pmix_server_path(void)
{
    char self[4096], *slash, *path;
    ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

    if (n <= 0)
        return NULL;
    self[n] = '\0';
    slash = strrchr(self, '/');
    if (!slash)
        return NULL;
    *slash = '\0';
    if (asprintf(&path, "%s/flux-pmixd", self) < 0)
        return NULL;
    if (access(path, X_OK) == 0)
        return path;
    free(path);
    return asprintf(&path, "%s/../pmixd/flux-pmixd", self) < 0 ? NULL : path;
}

static char *option(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static char *option(const char *fmt, ...)
{
    char *s = NULL;
    va_list ap;

    va_start(ap, fmt);
    if (vasprintf(&s, fmt, ap) < 0)
        s = NULL;
    va_end(ap);
    return s;
}

bool pmix_server_library(const struct nodejob *j, const char **lib)
{
    if (!env_changes_find(&j->changes, "FLUX_PMIX_LIBRARY", lib))
        *lib = env_get(j->env, "FLUX_PMIX_LIBRARY");
    return *lib && **lib;
}

/* Find the library that the tasks of the job use, if the job names it: a server should not be older
 * than its clients.  Each library of this name is compatible with a program that was linked with
 * one of them.  *lib: the library; NULL: none.  Returns -1 with an error message. */
static int choose_library(const struct nodejob *j, const char **lib, errmsg_t *err)
{
    if (!pmix_server_library(j, lib))
        *lib = NULL;
    else if (**lib != '/' || (*lib)[strcspn(*lib, " :")])
        return errmsg_fail(err, EINVAL,
                           "FLUX_PMIX_LIBRARY=%s: expected the absolute path of a libpmix.so.2, "
                           "without blanks or colons",
                           *lib);
    return 0;
}

#define NOPTIONS 18

/* Return the option with the tasks of each program. */
static char *apps_option(const struct nodejob *j)
{
    strbuf_t *sb = strbuf_create(0);

    strbuf_add(sb, "--apps=");
    for (uint32_t i = 0; i < j->run.ncommands; i++)
        strbuf_addf(sb, i ? ",%u" : "%u",
                    (i + 1 < j->run.ncommands ? j->commands[i + 1].first : j->run.ntasks) -
                        j->commands[i].first);
    if (!j->run.ncommands)
        strbuf_addf(sb, "%u", j->run.ntasks);
    return strbuf_take(sb);
}

/* Return the option with the tasks of this node, if the tasks of other nodes use the same
 * server. */
static char *ranks_option(const struct nodejob *j)
{
    strbuf_t *sb = strbuf_create(0);

    for (uint32_t i = 0; i < j->ntasks; i++)
        strbuf_addf(sb, i ? ",%u" : "--ranks=%u", j->tasks[i].rank);
    return strbuf_take(sb);
}

/* The work that starts a server. */
struct serving {
    struct work w;
    char *argv[NOPTIONS + 1];
    char **envp;
    char *path, *mark, *preload;
    const char *lib; /* NULL: none */
    int fd;          /* descriptor of the child for the connection */
    struct rlimit rl;
    struct spawn_limit tag;
    struct spawn_fd fds[5];
    struct spawn_params sp;
};

static void serving_free(struct work *w)
{
    struct serving *sv = (struct serving *)w;

    for (int i = 0; i < NOPTIONS; i++)
        free(sv->argv[i]);
    free(sv->envp);
    free(sv->path);
    free(sv->mark);
    free(sv->preload);
    if (sv->fd >= 0)
        close(sv->fd);
    free(sv);
}

static void serve(struct work *w, pid_t *pid)
{
    struct serving *sv = (struct serving *)w;
    errmsg_t why;

    if (access(sv->path, X_OK) < 0)
        w->failed = errmsg_fail(&w->err, ENOENT,
                                "this Flux was built without a PMIx server (libpmix was not "
                                "there): use --mpi=pmi, or build it with libpmix") < 0;
    else if (sv->lib && access(sv->lib, R_OK) < 0)
        w->failed =
            errmsg_fail(&w->err, errno, "FLUX_PMIX_LIBRARY=%s: %s", sv->lib, strerror(errno)) < 0;
    else if (sv->lib && !file_is_trusted(sv->lib, &why))
        w->failed = errmsg_fail(&w->err, errno, "FLUX_PMIX_LIBRARY: %s", why.text) < 0;
    else
        starter_spawn(w, &sv->sp, pid);
    close(sv->fd);
    sv->fd = -1;
}

static void served(struct work *w)
{
    struct nodejob *j = w->job;
    struct launcher *l = j->l;
    struct pmix *px = j->pmix;

    if (!w->failed && px && !px->over && !j->killed_early && !j->ghost) {
        if (hmap_put_u64(l->servers, (uint64_t)w->pid, px) == 0) {
            px->pid = w->pid;
            if (w->reaped)
                (void)pmix_reaped(l, w->pid, w->status);
            serving_free(w);
            return;
        }
        w->failed = true;
        errmsg_set(&w->err, "no memory to start a PMIx server");
    }
    if (w->pid > 0 && !w->reaped)
        kill(w->pid, SIGKILL); /* it is reaped as an adopted child */
    if (px)
        launcher_source_close(l, &px->src);
    if (j->state == JOB_STARTING)
        nodejob_server_failed(j, w->err.text);
    serving_free(w);
}

static int add_options(struct serving *sv, const struct nodejob *j, int door)
{
    char *mapping = hosts_mapping(j);
    char name[PMIX_JOB_NAME_MAX];
    int n = 0;

    pmix_job_name(j, name);
    sv->argv[n++] = option("flux-pmixd");
    sv->argv[n++] = option("--fd=%d", PMIXD_FD);
    sv->argv[n++] = option("--job=%" PRIu64, j->id);
    sv->argv[n++] = option("--nspace=%s", name);
    sv->argv[n++] = option("--node=%u", share_host(j));
    sv->argv[n++] = option("--nnodes=%u", share_hosts(j));
    sv->argv[n++] = option("--ntasks=%u", j->run.ntasks);
    sv->argv[n++] = mapping ? option("--mapping=%s", mapping) : NULL;
    sv->argv[n++] = option("--dir=%s/pmix%.0u", j->dir, j->run.first);
    sv->argv[n++] = option("--uri=%s", j->l->uri ? j->l->uri : "");
    sv->argv[n++] = apps_option(j);
    sv->argv[n++] = option("--top=%" PRIu64, task_job_number(j));
    sv->argv[n++] = option("--first=%u", j->run.first);
    sv->argv[n++] = option("--universe=%u", j->run.universe);
    if (door >= 0) {
        offer_address(j->pmix->offer, name, sizeof(name));
        sv->argv[n++] = option("--door=%d", PMIXD_DOOR_FD);
        sv->argv[n++] = option("--address=%s", name);
    }
    if (share_followers(j->share)) {
        sv->argv[n++] = ranks_option(j);
        sv->argv[n++] = option("--followers=%u", share_followers(j->share));
    }
    free(mapping);
    for (int i = 0; i < n; i++)
        if (!sv->argv[i])
            return -1;
    return 0;
}

/* Start the server without a starter: the launcher itself needs all its files, and the starters may
 * be busy with tasks for some time. */
static int spawn_now(struct pmix *px, struct serving *sv, errmsg_t *err)
{
    px->pid = spawn_process(&sv->sp, err);
    serving_free(&sv->w);
    if (px->pid > 0 && hmap_put_u64(px->job->l->servers, (uint64_t)px->pid, px) < 0) {
        kill(px->pid, SIGKILL); /* it is reaped as an adopted child */
        px->pid = 0;
        return errmsg_fail(err, ENOMEM, "no memory to start a PMIx server");
    }
    if (px->pid < 0) {
        px->pid = 0;
        return -1;
    }
    return 0;
}

int pmix_server_spawn(struct pmix *px, int fd, int door, errmsg_t *err)
{
    struct nodejob *j = px->job;
    struct serving *sv = calloc(1, sizeof(*sv));
    size_t nenv = 0;

    if (!sv) {
        close(fd);
        return errmsg_fail(err, ENOMEM, "no memory to start a PMIx server");
    }
    sv->w = (struct work){.run = serve, .done = served, .drop = serving_free};
    sv->fd = fd;
    if (choose_library(j, &sv->lib, err) < 0) {
        serving_free(&sv->w);
        return -1;
    }
    while (environ[nenv])
        nenv++;
    sv->path = pmix_server_path();
    sv->mark = option("%s", j->mark);
    sv->preload = sv->lib ? option("LD_PRELOAD=%s", sv->lib) : NULL;
    sv->envp = calloc(nenv + 3, sizeof(*sv->envp));
    if (add_options(sv, j, door) < 0 || !sv->path || !sv->mark || !sv->envp ||
        (sv->lib && !sv->preload)) {
        serving_free(&sv->w);
        return errmsg_fail(err, ENOMEM, "no memory to start a PMIx server");
    }
    memcpy(sv->envp, environ, nenv * sizeof(*sv->envp));
    sv->envp[nenv] = sv->mark;
    sv->envp[nenv + 1] = sv->preload;
    sv->fds[0] = (struct spawn_fd){j->l->nullfd, 0};
    sv->fds[1] = (struct spawn_fd){2, 1};
    sv->fds[2] = (struct spawn_fd){2, 2};
    sv->fds[3] = (struct spawn_fd){fd, PMIXD_FD};
    sv->fds[4] = (struct spawn_fd){door, PMIXD_DOOR_FD};
    sv->tag = (struct spawn_limit){RLIMIT_LOCKS, &sv->rl};
    sv->sp = (struct spawn_params){.path = sv->path,
                                   .argv = sv->argv,
                                   .envp = sv->envp,
                                   .cwd = "/",
                                   .fds = sv->fds,
                                   .nfds = door >= 0 ? 5 : 4,
                                   .limits = &sv->tag,
                                   .nlimits = tag_limit(j, &sv->rl),
                                   .flags = SPAWN_SESSION};
    if (door >= 0)
        return spawn_now(px, sv, err);
    nodejob_work(j, &j->first, &sv->w);
    return 0;
}

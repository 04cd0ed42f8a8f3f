/* PMIx for the tasks of a job: the launcher's end of flux-pmixd (pmixd.c).
 *
 * state      of a job's server                                        left when
 * starting   it runs; the job's tasks do not yet (JOB_STARTING)       PMIX_READY
 * serving    tasks run, with what it said in their environment        the last task was reaped
 * over       it was killed; DONE waits until it is reaped             it is reaped
 *
 * The server is killed, not asked, at the end of the job: all that it could do then is to remove
 * its directory, which goes with that of the job.  When it ends before that, the job fails.
 *
 * A task that said it was there and ends without having finalized leaves the others waiting: the
 * job fails.  So does one that ends without a word while others of this node have begun, or begin
 * later, since their first fence would wait for it.  That a node has begun is told up the tree, for
 * those of other nodes that do not (pmi.c).
 */
#include "config.h"
#include "launcher.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "libpmi/pmi_mapping.h"
#include "libsubprocess/spawn.h"
#include "libutil/strbuf.h"

#define READ_SIZE 65536
#define PMIXD_FD 3

struct pmix {
    struct job *job;
    struct source src;
    pid_t pid; /* 0: reaped */
    bool ready;
    bool over;
    buf_t *in;
    char *body; /* of PMIX_READY */
    char **env; /* all strings in it */
    uint32_t common;
    uint32_t each;
    uint8_t *clients; /* by local number: what was said last, PMIXD_* or 0 */
    bool begun;       /* some task has connected */
};

enum { CONNECTED = 1, FINALIZED };

extern char **environ;

/* --- start --- */

/* Beside our own file: in the build directory and where we are installed. */
static char *server_path(void)
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
    return asprintf(&path, "%s/flux-pmixd", self) < 0 ? NULL : path;
}

static void pmix_ready(struct source *s, uint32_t events);

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

/* The library that the job's tasks use, when the job says so: a server should not be older than its
 * clients.  All that has this name fits the program that was linked with one of it.  *preload is
 * malloc'd, NULL: none; -1 with a sentence. */
static int choose_library(const struct job *j, char **preload, errmsg_t *err)
{
    const char *lib;

    if (!changes_find(&j->changes, "FLUX_PMIX_LIBRARY", &lib))
        lib = env_get(j->env, "FLUX_PMIX_LIBRARY");
    *preload = NULL;
    if (!lib || !*lib)
        return 0;
    if (*lib != '/' || lib[strcspn(lib, " :")])
        return errmsg_fail(err, EINVAL,
                           "FLUX_PMIX_LIBRARY=%s: the absolute path of a libpmix.so.2 without "
                           "blanks or colons is wanted",
                           lib);
    if (access(lib, R_OK) < 0)
        return errmsg_fail(err, errno, "FLUX_PMIX_LIBRARY=%s: %s", lib, strerror(errno));
    if (!(*preload = option("LD_PRELOAD=%s", lib)))
        return errmsg_fail(err, ENOMEM, "no memory to start a PMIx server");
    return 0;
}

#define NOPTIONS 11

/* Tasks of each program. */
static char *apps_option(const struct job *j)
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

static int spawn_server(struct pmix *px, int fd, errmsg_t *err)
{
    struct job *j = px->job;
    char *mapping = pmi_job_mapping(j), *path = server_path(), *token = NULL;
    char *apps = apps_option(j);
    char *argv[NOPTIONS + 1] = {NULL}, **envp = NULL, *preload = NULL;
    char name[64];
    size_t nenv = 0;
    int argc = 0, rc = -1;

    pmi_job_name(j, name, sizeof(name));
    argv[argc++] = option("flux-pmixd");
    argv[argc++] = option("--fd=%d", PMIXD_FD);
    argv[argc++] = option("--job=%" PRIu64, j->id);
    argv[argc++] = option("--nspace=flux-%s", name);
    argv[argc++] = option("--node=%u", j->run.node);
    argv[argc++] = option("--nnodes=%u", j->run.nnodes);
    argv[argc++] = option("--ntasks=%u", j->run.ntasks);
    argv[argc++] = option("--mapping=%s", mapping ? mapping : "");
    argv[argc++] = option("--dir=%s/pmix", j->dir ? j->dir : "");
    argv[argc++] = option("--uri=%s", j->l->uri ? j->l->uri : "");
    argv[argc++] = apps;
    token = option("%s", j->mark);
    if (choose_library(j, &preload, err) < 0)
        goto out;
    errmsg_set(err, "no memory to start a PMIx server");
    for (int i = 0; i < argc; i++)
        if (!argv[i])
            goto out;
    while (environ[nenv])
        nenv++;
    envp = calloc(nenv + 3, sizeof(*envp));
    if (!mapping || !path || !token || !j->dir || !envp)
        goto out;
    memcpy(envp, environ, nenv * sizeof(*envp));
    envp[nenv] = token;
    envp[nenv + 1] = preload;
    if (access(path, X_OK) < 0) {
        errmsg_set(err, "this Flux was built without a PMIx server (libpmix was not there): use "
                        "--mpi=pmi, or build it with libpmix");
        goto out;
    }
    struct spawn_fd fds[] = {{j->l->nullfd, 0}, {2, 1}, {2, 2}, {fd, PMIXD_FD}};
    struct rlimit rl;
    struct spawn_limit tag = {RLIMIT_LOCKS, &rl};
    struct spawn_params sp = {.path = path,
                              .argv = argv,
                              .envp = envp,
                              .cwd = "/",
                              .fds = fds,
                              .nfds = 4,
                              .limits = &tag,
                              .nlimits = tag_limit(j, &rl),
                              .flags = SPAWN_SESSION};

    px->pid = spawn_process(&sp, err);
    rc = px->pid > 0 ? 0 : -1;
out:
    for (int i = 0; i < argc; i++)
        free(argv[i]);
    free(envp);
    free(mapping);
    free(path);
    free(token);
    free(preload);
    return rc;
}

static struct pmix *pmix_create(struct job *j)
{
    struct pmix *px = calloc(1, sizeof(*px));

    if (!px)
        return NULL;
    px->job = j;
    px->src.fd = -1;
    px->in = buf_create(WIRE_PAYLOAD_MAX + WIRE_HEADER + READ_SIZE);
    px->clients = calloc(j->ntasks, 1);
    j->pmix = px;
    return px->in && px->clients ? px : NULL;
}

int pmix_begin(struct job *j, errmsg_t *err)
{
    int sv[2] = {-1, -1}, rc = -1;
    struct pmix *px;

    if (!(j->run.flags & WIRE_F_MPI_PMIX) || (j->run.flags & WIRE_F_EXEC))
        return 0;
    backing_make(j);
    if (!j->dir)
        return errmsg_fail(err, EIO, "no directory for the PMIx server can be made");
    if (!(px = pmix_create(j)) || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sv) < 0)
        return errmsg_fail(err, ENOMEM, "cannot start a PMIx server: %s", strerror(errno));
    if (spawn_server(px, sv[1], err) < 0) {
        close(sv[0]);
    } else if (source_start(j->l, &px->src, sv[0], EPOLLIN, pmix_ready) < 0 ||
               hmap_put_u64(j->l->servers, (uint64_t)px->pid, px) < 0) {
        kill(px->pid, SIGKILL); /* reaped as an adopted one */
        px->pid = 0;
        source_close(j->l, &px->src);
        errmsg_fail(err, ENOMEM, "no memory to start a PMIx server");
    } else {
        rc = 1;
    }
    close(sv[1]);
    return rc;
}

/* --- what it says --- */

static int take_environment(struct pmix *px, const struct wire_frame *f)
{
    size_t n, len = f->len - 8;
    const char *p;

    px->common = wire_u32(f->payload);
    px->each = wire_u32(f->payload + 4);
    n = px->common + (size_t)px->each * px->job->ntasks;
    if (px->common > 4096 || px->each > 64 || px->ready ||
        !wire_strings_ok((const char *)f->payload + 8, len, n))
        return -1;
    px->body = malloc(len + 1);
    px->env = calloc(n + 1, sizeof(*px->env));
    if (!px->body || !px->env)
        return -1;
    memcpy(px->body, f->payload + 8, len);
    p = px->body;
    for (size_t i = 0; i < n; i++, p += strlen(p) + 1)
        px->env[i] = (char *)p;
    return 0;
}

static void left_early(struct job *j, const struct task *t)
{
    int code = spawn_status_to_code(t->status);
    char text[128];

    send_fail(j, code ? code : 1, (int32_t)t->rank, 1,
              "task %u left before MPI_Init (%s), so the others would wait for ever", t->rank,
              spawn_status_text(t->status, text, sizeof(text)));
}

/* The first task has connected. */
static void begin(struct pmix *px)
{
    struct job *j = px->job;

    px->begun = true;
    if (j->run.nnodes > 1)
        send_frame(j->l, WIRE_BEGUN, j->id, NULL, 0, NULL, 0);
    for (uint32_t i = 0; i < j->ntasks; i++)
        if (j->tasks[i].pid == 0 && j->tasks[i].leader > 0 && px->clients[i] == 0) {
            left_early(j, &j->tasks[i]);
            return;
        }
}

static void handle(struct pmix *px, const struct wire_frame *f)
{
    struct job *j = px->job;

    if (f->type == WIRE_PMIX_READY) {
        if (take_environment(px, f) < 0) {
            send_fail(j, 1, -1, 0, "the PMIx server gave no environment for tasks");
            job_kill(j);
        } else if (j->state == JOB_STARTING) {
            px->ready = true;
            job_start(j);
        }
    } else if (f->type == WIRE_PMIX_CLIENT) {
        uint32_t rank = wire_u32(f->payload), what = wire_u32(f->payload + 4);

        for (uint32_t i = 0; i < j->ntasks; i++)
            if (j->tasks[i].rank == rank)
                px->clients[i] = (uint8_t)what;
        if (!px->begun)
            begin(px);
    } else if (f->type == WIRE_FAIL) {
        send_fail(j, wire_i32(f->payload), wire_i32(f->payload + 4), wire_u32(f->payload + 8),
                  "%.*s", (int)f->len - 12, (const char *)f->payload + 12);
        if (j->state == JOB_STARTING)
            job_kill(j);
    }
}

/* Its end; why is told when it is reaped. */
static void hang_up(struct pmix *px)
{
    /* In this order: a server that sees the connection end takes the launcher for dead. */
    if (px->pid > 0)
        kill(px->pid, SIGKILL);
    source_close(px->job->l, &px->src);
}

static void pmix_read(struct pmix *px)
{
    struct wire_frame f;
    ptrdiff_t used = 0;
    errmsg_t err;
    void *p = buf_reserve(px->in, READ_SIZE);
    ssize_t n = p ? recv(px->src.fd, p, READ_SIZE, MSG_DONTWAIT) : 0;

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0) {
        hang_up(px);
        return;
    }
    buf_commit(px->in, (size_t)n);
    while (px->src.fd >= 0 &&
           (used = wire_parse(buf_data(px->in), buf_len(px->in), &f, &err)) > 0) {
        handle(px, &f);
        buf_consume(px->in, (size_t)used);
    }
    if (used < 0)
        hang_up(px);
}

/* What is there now. */
static void drain(struct pmix *px)
{
    char c;

    while (px->src.fd >= 0 && recv(px->src.fd, &c, 1, MSG_DONTWAIT | MSG_PEEK) > 0)
        pmix_read(px);
}

static void pmix_ready(struct source *s, uint32_t events)
{
    pmix_read((struct pmix *)((char *)s - offsetof(struct pmix, src)));
}

/* --- for launcher_job.c --- */

size_t pmix_env(struct job *j, char **vars)
{
    struct pmix *px = j->pmix;

    if (!px || !px->ready)
        return 0;
    memcpy(vars, px->env, px->common * sizeof(*vars));
    return px->common;
}

size_t pmix_env_max(const struct job *j)
{
    return j->pmix ? (size_t)j->pmix->common + j->pmix->each : 0;
}

size_t pmix_task_env(struct job *j, const struct task *t, char **vars)
{
    struct pmix *px = j->pmix;

    if (!px || !px->ready)
        return 0;
    memcpy(vars, px->env + px->common + px->each * (size_t)(t - j->tasks),
           px->each * sizeof(*vars));
    return px->each;
}

void pmix_task_ended(struct task *t)
{
    struct job *j = t->job;
    struct pmix *px = j->pmix;
    size_t idx = (size_t)(t - j->tasks);
    char text[128];
    int code;

    if (!px || px->over)
        return;
    /* What it told the server last may still be on its way here. */
    drain(px);
    if (!px->begun || px->clients[idx] == FINALIZED)
        return;
    if (px->clients[idx] == 0) {
        left_early(j, t);
        return;
    }
    code = spawn_status_to_code(t->status);
    send_fail(j, code ? code : 1, (int32_t)t->rank, 1,
              "task %u left without MPI_Finalize (%s), so the others would wait for ever", t->rank,
              spawn_status_text(t->status, text, sizeof(text)));
}

void pmix_end(struct job *j)
{
    struct pmix *px = j->pmix;

    if (!px || px->over)
        return;
    px->over = true;
    hang_up(px);
}

bool pmix_gone(const struct job *j)
{
    return !j->pmix || j->pmix->pid == 0;
}

bool pmix_is(const struct launcher *l, pid_t pid)
{
    return hmap_get_u64(l->servers, (uint64_t)pid) != NULL;
}

bool pmix_reaped(struct launcher *l, pid_t pid, int status)
{
    struct pmix *px = hmap_take_u64(l->servers, (uint64_t)pid);
    char text[128];
    struct job *j;

    if (!px)
        return false;
    j = px->job;
    px->pid = 0;
    drain(px);
    source_close(l, &px->src);
    if (px->over)
        return true;
    send_fail(j, 1, -1, 0, "the PMIx server of node %u was lost (%s)", j->run.node,
              spawn_status_text(status, text, sizeof(text)));
    job_kill(j);
    return true;
}

void pmix_destroy(struct job *j)
{
    struct pmix *px = j->pmix;

    if (!px)
        return;
    if (px->pid > 0) {
        kill(px->pid, SIGKILL);
        hmap_take_u64(j->l->servers, (uint64_t)px->pid);
    }
    source_close(j->l, &px->src);
    buf_destroy(px->in);
    free(px->body);
    free(px->env);
    free(px->clients);
    free(px);
    j->pmix = NULL;
}

/* flux-pmixd - a PMIx server for the tasks of one job on one host.
 *
 *    flux-pmixd --fd=3 --job=ID --nspace=NAME --node=N --nnodes=N --ntasks=N --mapping=MAP
 *               --dir=DIR --uri=URI [--hosts=NAMES] [--apps=COUNTS] [--top=ID] [--first=N]
 *               [--universe=N] [--door=4 --address=ADDRESS:PORT] [--ranks=RANKS --followers=N]
 *
 * Purpose: run the PMIx library, with its threads, in a process of its own.  The launcher starts
 * it: with --mpi=pmix before the tasks, with --mpi=both when the first task connects to the address
 * on which the launcher listens (pmixd_door.c).  For the operations that concern other nodes or
 * jobs, the server is a client of the local broker:
 *
 *    fence, connect, groups    pmixd_exchange.c: a fence of the key-value store
 *    direct modex              pmixd_modex.c: requests and answers in the store
 *    publish, look up          pmixd_names.c: the names service of the wrexec module
 *    abort, job control        the launcher, or the job module
 *    spawn                     pmixd_spawn.c: the launcher; pmixd_family.c: the groups of the job
 *    query, tools...           refused as not supported
 *
 * Format: descriptor 3 carries frames of exec_wire.h.  The server sends PMIX_READY (with the
 * environment of the tasks), PMIX_CLIENT, FAIL and SPAWN; it receives SPAWNED, PMIX_JOIN,
 * PMIX_LEAVE and the end of the connection.  If several nodes of the job are brokers of one host,
 * they share one server, and --node, --nnodes and --mapping count hosts: --ranks are the tasks of
 * the launcher that started the server, and --followers other nodes may join with their launchers
 * (pmixd_nodes.c).
 *
 * Invariants:
 *  1. The library calls back in its own thread.  Such a call copies its arguments and passes to the
 *     main thread (pmixd_post()), which also gives the answer; the library allows that.  Pending
 *     calls are bounded by the local tasks, each of which waits for its answer.
 *  2. The launcher is notified that a task has connected or finalized before the task goes on, in
 *     the library's thread; so it knows that before the task ends.
 *  3. When the connection to the launcher ends, this program removes the job's directory and exits.
 *     At the end of a job the launcher kills it and removes the directory itself.
 *
 * Failure: the job fails with an error message (FAIL).  If this program is lost, the launcher
 * reports that.
 */
#include "config.h"
#include "pmixd.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "libutil/fdutil.h"
#include "libutil/strutil.h"
#include "libutil/strvec.h"
#include "libexec/exec_wire.h"

#define READ_SIZE 4096

/* The library's callbacks have no argument of ours.  Set once, before the library is started. */
static struct pmixd *self;

struct pmixd *pmixd_self(void)
{
    return self;
}

/* --- calls from the library's thread --- */

void pmixd_post(struct pmixd *pd, struct call *c)
{
    uint64_t one = 1;
    ssize_t n;

    pthread_mutex_lock(&pd->lock);
    list_append(&pd->calls, &c->node);
    pthread_mutex_unlock(&pd->lock);
    n = write(pd->wake, &one, sizeof(one));
    (void)n; /* a counter at its maximum wakes the main thread as well */
}

static struct call *next_call(struct pmixd *pd)
{
    struct list_node *n;

    pthread_mutex_lock(&pd->lock);
    if ((n = list_first(&pd->calls)))
        list_remove(n);
    pthread_mutex_unlock(&pd->lock);
    return n ? list_entry(n, struct call, node) : NULL;
}

static void wake_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    struct pmixd *pd = arg;
    struct call *c;
    uint64_t count;
    ssize_t n = read(pd->wake, &count, sizeof(count));

    (void)n;
    while ((c = next_call(pd)))
        c->run(pd, c);
}

/* --- the broker --- */

static void lost_cb(flux_t *h, void *arg)
{
    struct pmixd *pd = arg;

    pmixd_nodes_fail(pd, 1, -1, "the PMIx server lost its connection to the broker");
    flux_reactor_stop(pd->r, 1);
}

flux_t *pmixd_handle(struct pmixd *pd, errmsg_t *err)
{
    if (!pd->h) {
        pd->h = flux_open(pd->uri, pd->r, err);
        if (pd->h)
            flux_set_lost_handler(pd->h, lost_cb, pd);
    }
    return pd->h;
}

/* --- life --- */

static int parse_options(struct pmixd *pd, int argc, char **argv)
{
    static const struct option opts[] = {
        {"fd", required_argument, NULL, 'f'},
        {"job", required_argument, NULL, 'j'},
        {"node", required_argument, NULL, 'n'},
        {"nnodes", required_argument, NULL, 'N'},
        {"ntasks", required_argument, NULL, 't'},
        {"mapping", required_argument, NULL, 'm'},
        {"dir", required_argument, NULL, 'd'},
        {"uri", required_argument, NULL, 'u'},
        {"hosts", required_argument, NULL, 'h'},
        {"apps", required_argument, NULL, 'a'},
        {"nspace", required_argument, NULL, 's'},
        {"top", required_argument, NULL, 'T'},
        {"first", required_argument, NULL, 'F'},
        {"universe", required_argument, NULL, 'U'},
        {"door", required_argument, NULL, 'D'},
        {"address", required_argument, NULL, 'A'},
        {"ranks", required_argument, NULL, 'r'},
        {"followers", required_argument, NULL, 'w'},
        {NULL, 0, NULL, 0},
    };
    int c, bad = 0;

    while ((c = getopt_long(argc, argv, "", opts, NULL)) != -1) {
        if (c == 'f')
            bad |= str2i32(optarg, &pd->fd);
        else if (c == 'j')
            bad |= str2u64(optarg, &pd->id);
        else if (c == 'n')
            bad |= str2u32(optarg, &pd->node);
        else if (c == 'N')
            bad |= str2u32(optarg, &pd->nnodes);
        else if (c == 't')
            bad |= str2u32(optarg, &pd->ntasks);
        else if (c == 'm')
            pd->mapping = optarg;
        else if (c == 'd')
            pd->dir = optarg;
        else if (c == 'u')
            pd->uri = optarg;
        else if (c == 's')
            snprintf(pd->nspace, sizeof(pd->nspace), "%s", optarg);
        else if (c == 'D')
            bad |= str2i32(optarg, &pd->door);
        else if (c == 'A')
            bad |= pmixd_door_address(pd, optarg);
        else if (c == 'h')
            pd->hosts = optarg;
        else if (c == 'a')
            pd->apps = optarg;
        else if (c == 'T')
            bad |= str2u64(optarg, &pd->top);
        else if (c == 'F')
            bad |= str2u32(optarg, &pd->first);
        else if (c == 'r')
            pd->ranks = optarg;
        else if (c == 'w')
            bad |= str2u32(optarg, &pd->followers);
        else if (c == 'U')
            bad |= str2u32(optarg, &pd->universe);
        else
            return -1;
    }
    return bad || pd->fd < 0 || !pd->nspace[0] || !pd->mapping || !pd->dir || !pd->ntasks ? -1 : 0;
}

/* The programs of the job, whose tasks have consecutive ranks. */
int pmixd_read_apps(struct pmixd *pd, errmsg_t *err)
{
    strvec_t *v = pd->apps ? strvec_split(pd->apps, ',') : NULL;
    size_t n = v ? strvec_count(v) : 1;
    uint64_t next = 0;

    if ((pd->apps && !v) || !(pd->app_first = calloc(n + 1, sizeof(*pd->app_first)))) {
        strvec_destroy(v);
        return errmsg_fail(err, ENOMEM, "out of memory");
    }
    for (; pd->napps < n; pd->napps++) {
        uint32_t count = pd->ntasks;

        if (v && str2u32(strvec_at(v, pd->napps), &count) < 0)
            count = 0;
        pd->app_first[pd->napps] = (uint32_t)next;
        next += count;
        if (count == 0 || next > pd->ntasks)
            break;
    }
    strvec_destroy(v);
    if (pd->napps < n || next != pd->ntasks)
        return errmsg_fail(err, EINVAL, "'%s' are not the programs of %u tasks", pd->apps,
                           pd->ntasks);
    pd->app_first[n] = pd->ntasks;
    return 0;
}

static int prepare(struct pmixd *pd, errmsg_t *err)
{
    pd->map = pmi_mapping_parse(pd->mapping, pd->ntasks);
    if (!pd->map)
        return errmsg_fail(err, EINVAL, "'%s' is not a placement of %u tasks", pd->mapping,
                           pd->ntasks);
    if (pmixd_read_apps(pd, err) < 0)
        return -1;
    pd->local = pmi_mapping_ranks(pd->map, pd->node, &pd->nlocal);
    if (pd->nlocal == 0)
        return errmsg_fail(err, EINVAL, "node %u has no task", pd->node);
    if (!pd->top)
        pd->top = pd->id;
    pd->seat = pd->first + pd->node;
    snprintf(pd->ns, sizeof(pd->ns), "job-%" PRIu64, pd->top);
    pd->r = flux_reactor_create(true);
    pd->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    pd->seqs = hmap_create_str(NULL);
    pd->modex = hmap_create_u64(NULL);
    pd->spawns = hmap_create_u64(NULL);
    if (!pd->r || pd->wake < 0 || !pd->seqs || !pd->modex || !pd->spawns)
        return errmsg_fail(err, ENOMEM, "out of memory");
    if (pmixd_nodes_init(pd, err) < 0)
        return -1;
    if (mkdir(pd->dir, 0700) < 0 && errno != EEXIST)
        return errmsg_fail(err, errno, "cannot make the directory %s: %s", pd->dir,
                           strerror(errno));
    return 0;
}

static int serve(struct pmixd *pd, errmsg_t *err)
{
    flux_watcher_t *wake = flux_fd_watcher_create(pd->r, pd->wake, FLUX_POLLIN, wake_cb, pd);
    int rc = -1;

    if (!wake) {
        errmsg_fail(err, ENOMEM, "out of memory");
        goto out;
    }
    flux_watcher_start(wake);
    if (pmixd_job_start(pd, pmixd_server_module(pd), err) < 0)
        goto out;
    pmixd_door_open(pd);
    if (!pd->first || pd->node > 0)
        pmixd_nodes_ready(pd);
    if (pd->nnodes > 1 || pd->first)
        pmixd_family_watch(pd);
    if (pd->first && pd->node == 0)
        pmixd_family_tell(pd);
    flux_reactor_run(pd->r);
    rc = 0;
out:
    flux_watcher_destroy(wake);
    return rc;
}

/* Remove the server's directory.  If the launcher is lost, remove the job's directory around it
 * too, and the launcher's directory above that if it is empty then. */
static void remove_directories(const char *dir, pid_t launcher)
{
    char path[4096], *slash;

    dir_remove_tree(dir);
    for (int level = 0; getppid() != launcher && level < 2; level++) {
        if ((size_t)snprintf(path, sizeof(path), "%s", dir) >= sizeof(path))
            return;
        for (int i = 0; i <= level; i++)
            if ((slash = strrchr(path, '/')) && slash != path)
                *slash = '\0';
        if (level == 0)
            dir_remove_tree(path);
        else
            rmdir(path);
    }
}

int main(int argc, char **argv)
{
    struct pmixd pd = {.fd = -1,
                       .wake = -1,
                       .nnodes = 1,
                       .door = -1,
                       .passed = -1,
                       .listener = -1,
                       .lock = PTHREAD_MUTEX_INITIALIZER,
                       .speaking = PTHREAD_MUTEX_INITIALIZER,
                       .opened = PTHREAD_COND_INITIALIZER};
    pid_t launcher = getppid();
    errmsg_t err = {""};

    list_init(&pd.calls);
    list_init(&pd.waiting);
    list_init(&pd.families);
    list_init(&pd.strangers);
    list_init(&pd.served);
    self = &pd;
    signal(SIGPIPE, SIG_IGN);
    if (parse_options(&pd, argc, argv) < 0) {
        fprintf(stderr, "flux-pmixd: is started by a launcher, not by hand\n");
        return 2;
    }
    if (prepare(&pd, &err) < 0 || serve(&pd, &err) < 0)
        pmixd_nodes_fail(&pd, 1, -1, "the PMIx server of node %u cannot start: %s", pd.node,
                         err.text);
    /* _exit(): the library's own cleanup may wait for clients. */
    remove_directories(pd.dir, launcher);
    _exit(0);
}

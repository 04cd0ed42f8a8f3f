/* cgroup.c - the memory that a job asked for, as a limit that the kernel enforces.
 *
 * Format:
 *
 *    BASE/flux-UID-MARK-TOKEN-JOB    MARK: identifies the host and its last boot
 *                                    TOKEN: of the launcher
 *
 * Purpose: a job with --mem gets a cgroup for its tasks on this node.  Its limit is the memory that
 * all these tasks asked for together.  A task enters the cgroup before it executes its program, so
 * the cgroup contains every process that the task starts.
 *
 * BASE is determined for the first such job:
 *
 *    attribute wrexec.cgroup              a directory; "none": no limits
 *    version 2, delegated to the user     the cgroup of this process if it is marked as delegated
 *    (systemd: Delegate=yes)              (xattr user.delegate or trusted.delegate); or its parent,
 *                                         if that is marked, or if the cgroup is our LEAF
 *    version 1                            the cgroup of this process in the hierarchy of "memory",
 *                                         if it is writable
 *
 * In version 2 a cgroup that enables controllers for its children must not contain processes.  The
 * processes of a delegated cgroup, which belong to the session, therefore move once to a leaf
 * inside it, LEAF.
 *
 * Invariants:
 *  1. A job that did not ask for memory, or asked for all memory of the host, costs nothing here.
 *  2. Every process that a job starts stays in the cgroup of the job.  A session in a job (flux
 *     batch, flux alloc) may divide this cgroup, because it is marked as delegated.
 *  3. The cgroup is removed when no process of the job is left.  The cgroups of a lost launcher are
 *     removed when another launcher runs its first such job: their names contain the token of the
 *     launcher, and a launcher that runs has locked its directory of that name (backing.c).
 *  4. If a task fails and the kernel has killed a process for the limit since the last such
 *     failure, the limit is the reason, and the job ends.
 *
 * Failure: without BASE, or after an error in it, the job runs without a limit; the first node of
 * the job reports this as a warning.
 */
#include "config.h"
#include "launcher.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <mntent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "libsubprocess/spawn.h"
#include "libutil/fdutil.h"
#include "libutil/hostmark.h"
#include "libutil/size.h"
#include "libutil/strutil.h"

#define LEAF "flux-session"
#define MOVES 100 /* a process that forks during a move is moved in the next try */
#define FILE_MAX_LEN 65536
#define DEPTH 8 /* levels of sessions inside a job */

struct cgroups {
    char *base; /* NULL: there is none, for the reason in `why` */
    bool v1;
    errmsg_t why;
};

struct jobcgroup {
    char *dir;
    int procs;         /* the file cgroup.procs, to which children write */
    uint64_t reported; /* number of kills by the kernel that have been reported */
};

static const struct names {
    const char *limit, *swap, *events;
} names[2] = {
    {"memory.max", "memory.swap.max", "memory.events"},
    {"memory.limit_in_bytes", "memory.memsw.limit_in_bytes", "memory.oom_control"},
};

/* --- files --- */

/* Read the file DIR/NAME as text, which the caller frees.  Returns NULL with errno. */
static char *get(const char *dir, const char *name)
{
    char *path, *text = NULL;
    size_t len;

    if (asprintf(&path, "%s/%s", dir, name) < 0)
        return NULL;
    if (file_read_all(path, FILE_MAX_LEN, &text, &len) < 0)
        text = NULL;
    free(path);
    return text;
}

static int put(const char *dir, const char *name, const char *text)
{
    char *path;
    int fd, rc = -1, errnum = ENOMEM;

    if (asprintf(&path, "%s/%s", dir, name) < 0)
        goto out;
    if ((fd = open(path, O_WRONLY | O_CLOEXEC)) >= 0) {
        rc = write(fd, text, strlen(text)) < 0 ? -1 : 0;
        errnum = errno;
        close(fd);
    } else {
        errnum = errno;
    }
    free(path);
out:
    errno = errnum;
    return rc;
}

/* Returns whether a text of words between blanks or newlines contains a word. */
static bool has_word(const char *text, const char *word)
{
    size_t n = strlen(word);

    for (const char *p = text; p && (p = strstr(p, word)); p += n)
        if ((p == text || strchr(" \n", p[-1])) && strchr(" \n", p[n]))
            return true;
    return false;
}

static bool file_has(const char *dir, const char *name, const char *word)
{
    char *text = get(dir, name);
    bool has = has_word(text, word);

    free(text);
    return has;
}

/* --- where cgroups can be created --- */

/* Return the mount point of the hierarchy with "memory", which the caller frees, or NULL if there
 * is none. */
static char *find_mount(bool v1)
{
    FILE *f = setmntent("/proc/self/mounts", "re");
    struct mntent *m;
    char *dir = NULL;

    while (f && !dir && (m = getmntent(f)))
        if (v1 ? strcmp(m->mnt_type, "cgroup") == 0 && hasmntopt(m, "memory")
               : strcmp(m->mnt_type, "cgroup2") == 0)
            dir = strdup(m->mnt_dir);
    if (f)
        endmntent(f);
    return dir;
}

/* Return the cgroup of this process in that hierarchy, which the caller frees. */
static char *own_cgroup(const char *mount, bool v1)
{
    char *text = get("/proc/self", "cgroup"), *dir = NULL, *save, *line;

    /* a line is "0::/PATH", or "4:cpu,memory:/PATH" */
    for (line = text ? strtok_r(text, "\n", &save) : NULL; line && !dir;
         line = strtok_r(NULL, "\n", &save)) {
        char *set = strchr(line, ':'), *path = set ? strchr(set + 1, ':') : NULL;

        if (!path)
            continue;
        *path++ = '\0';
        for (char *c = ++set; *c; c++)
            *c = *c == ',' ? ' ' : *c;
        if ((v1 ? has_word(set, "memory") : strcmp(line, "0:") == 0) &&
            asprintf(&dir, "%s%s", mount, strcmp(path, "/") == 0 ? "" : path) < 0)
            dir = NULL;
    }
    free(text);
    return dir;
}

static bool is_delegated(const char *dir)
{
    char val[4];

    return (getxattr(dir, "user.delegate", val, sizeof(val)) == 1 && val[0] == '1') ||
           (getxattr(dir, "trusted.delegate", val, sizeof(val)) == 1 && val[0] == '1');
}

/* Move all processes of a cgroup to its leaf. */
static int move_all(const char *dir, const char *leaf)
{
    char *pids = get(dir, "cgroup.procs"), *save, *pid;

    for (pid = pids ? strtok_r(pids, "\n", &save) : NULL; pid; pid = strtok_r(NULL, "\n", &save))
        if (put(leaf, "cgroup.procs", pid) < 0 && errno != ESRCH)
            break;
    free(pids);
    return pids && !pid ? 0 : -1;
}

/* Enable the memory controller for the children of a cgroup. */
static int enable(const char *dir, bool empty, errmsg_t *err)
{
    char *leaf = NULL;
    int tries = empty ? MOVES : 1, rc;

    if (file_has(dir, "cgroup.subtree_control", "memory"))
        return 0;
    if (!file_has(dir, "cgroup.controllers", "memory"))
        return errmsg_fail(err, ENOTSUP, "%s has no controller of memory", dir);
    if (empty &&
        (asprintf(&leaf, "%s/" LEAF, dir) < 0 || (mkdir(leaf, 0755) < 0 && errno != EEXIST)))
        return errmsg_fail(err, errno, "cannot make a cgroup in %s: %s", dir, strerror(errno));
    while ((rc = put(dir, "cgroup.subtree_control", "+memory")) < 0 && errno == EBUSY &&
           tries-- > 0 && leaf && move_all(dir, leaf) == 0)
        ;
    free(leaf);
    return rc == 0 ? 0
                   : errmsg_fail(err, errno, "%s: cannot enable memory: %s", dir, strerror(errno));
}

/* Returns whether this is the name of a cgroup that a launcher of this user has made for a job. */
static bool is_of_job(const char *name)
{
    char prefix[24];

    snprintf(prefix, sizeof(prefix), "flux-%u-", (unsigned)getuid());
    return str_starts(name, prefix);
}

/* Version 2: find the cgroup that this user may divide. */
static char *find_v2(errmsg_t *err)
{
    char *mount = find_mount(false), *own = mount ? own_cgroup(mount, false) : NULL;
    char *slash = own ? strrchr(own, '/') : NULL;
    bool leaf = slash && strcmp(slash, "/" LEAF) == 0, empty = false;

    if (!own) {
        errmsg_set(err, "cgroup version 2 is not mounted");
        goto none;
    }
    if (is_delegated(own)) {
        empty = true;
    } else {
        bool inside = slash && is_of_job(slash + 1); /* the outer limit holds as well */

        *slash = '\0';
        if (inside || strlen(own) < strlen(mount) || (!leaf && !is_delegated(own))) {
            errmsg_set(err, "no cgroup is delegated to the session");
            goto none;
        }
    }
    if (enable(own, empty, err) < 0)
        goto none;
    free(mount);
    return own;
none:
    free(mount);
    free(own);
    return NULL;
}

static char *find_v1(void)
{
    char *mount = find_mount(true), *own = mount ? own_cgroup(mount, true) : NULL;

    free(mount);
    if (own && access(own, W_OK | X_OK) < 0) {
        free(own);
        own = NULL;
    }
    return own;
}

static void find_base(struct cgroups *cg, const char *setting)
{
    char *limit = NULL;

    if (!setting || !setting[0]) {
        if ((cg->base = find_v2(&cg->why)))
            return;
        cg->v1 = (cg->base = find_v1()) != NULL;
    } else if (strcmp(setting, "none") == 0) {
        errmsg_set(&cg->why, "wrexec.cgroup is none");
    } else if (setting[0] != '/') {
        errmsg_set(&cg->why, "wrexec.cgroup='%s' is not a directory's whole name", setting);
    } else if ((limit = get(setting, names[1].limit))) {
        cg->v1 = true;
        cg->base = strdup(setting);
    } else if (enable(setting, false, &cg->why) == 0) {
        cg->base = strdup(setting);
    }
    free(limit);
}

/* --- cgroups of lost launchers --- */

static void remove_stale(const struct launcher *l, const char *base)
{
    char mark[HOSTMARK_SIZE], prefix[64], token[17], *path;
    DIR *dir = opendir(base);
    struct dirent *de;

    hostmark_get(mark);
    snprintf(prefix, sizeof(prefix), "flux-%u-%s-", (unsigned)getuid(), mark);
    while (dir && (de = readdir(dir))) {
        if (!str_starts(de->d_name, prefix))
            continue;
        snprintf(token, sizeof(token), "%s", de->d_name + strlen(prefix));
        if (strcmp(token, l->token) == 0 || backing_held(l, token) ||
            asprintf(&path, "%s/%s", base, de->d_name) < 0)
            continue;
        rmdir(path);
        free(path);
    }
    if (dir)
        closedir(dir);
}

static struct cgroups *cgroups_get(struct launcher *l)
{
    struct cgroups *cg = l->cgroups;

    if (cg || !(cg = calloc(1, sizeof(*cg))))
        return cg;
    errmsg_set(&cg->why, "no cgroup can be written to");
    find_base(cg, l->cgroup);
    if (cg->base)
        remove_stale(l, cg->base);
    return l->cgroups = cg;
}

void cgroups_destroy(struct launcher *l)
{
    if (l->cgroups)
        free(l->cgroups->base);
    free(l->cgroups);
    l->cgroups = NULL;
}

/* --- the cgroup of a job --- */

static uint64_t count_kills(const struct nodejob *j)
{
    char *text = get(j->cgroup->dir, names[j->l->cgroups->v1].events);
    const char *at = text ? strstr(text, "oom_kill ") : NULL;
    uint64_t n = at ? strtoull(at + strlen("oom_kill "), NULL, 10) : 0;

    free(text);
    return n;
}

/* Return the memory of the host in MiB. */
static uint64_t host_memory(void)
{
    struct sysinfo si;

    return sysinfo(&si) == 0 ? (uint64_t)si.totalram * si.mem_unit >> 20 : UINT64_MAX;
}

static int make(struct nodejob *j, const struct cgroups *cg, errmsg_t *err)
{
    const struct names *n = &names[cg->v1];
    struct jobcgroup *c = j->cgroup;
    char mark[HOSTMARK_SIZE], text[24], *procs = NULL;

    hostmark_get(mark);
    if (asprintf(&c->dir, "%s/flux-%u-%s-%s-%" PRIu64, cg->base, (unsigned)getuid(), mark,
                 j->l->token, j->id) < 0) {
        c->dir = NULL;
        return errmsg_fail(err, ENOMEM, "out of memory");
    }
    if (mkdir(c->dir, 0755) < 0 && errno != EEXIST)
        return errmsg_fail(err, errno, "cannot make %s: %s", c->dir, strerror(errno));
    snprintf(text, sizeof(text), "%" PRIu64, j->run.memory << 20);
    if (put(c->dir, n->limit, text) < 0)
        return errmsg_fail(err, errno, "cannot write %s of %s: %s", n->limit, c->dir,
                           strerror(errno));
    /* Swapped memory would not count against the limit; kernels without swap do not have this
     * file. */
    (void)put(c->dir, n->swap, cg->v1 ? text : "0");
    /* A session divides its own cgroup, and all its jobs stay below the limit. */
    if (j->run.flags & WIRE_F_NESTED)
        (void)setxattr(c->dir, "user.delegate", "1", 1, 0);
    if (asprintf(&procs, "%s/cgroup.procs", c->dir) < 0)
        return errmsg_fail(err, ENOMEM, "out of memory");
    c->procs = open(procs, O_WRONLY | O_CLOEXEC);
    free(procs);
    return c->procs >= 0
               ? 0
               : errmsg_fail(err, errno, "%s cannot be entered: %s", c->dir, strerror(errno));
}

void cgroup_make(struct nodejob *j)
{
    const struct cgroups *cg;
    errmsg_t err = {"out of memory"};
    char size[32];

    if (!(j->run.flags & WIRE_F_MEMORY) || !j->run.memory || j->run.memory >= host_memory())
        return;
    if (!(cg = cgroups_get(j->l)))
        goto fail;
    if (!cg->base) {
        err = cg->why;
        goto fail;
    }
    if (!(j->cgroup = calloc(1, sizeof(*j->cgroup))))
        goto fail;
    j->cgroup->procs = -1;
    if (make(j, cg, &err) == 0)
        return;
    cgroup_remove(j);
fail:
    /* The nodes of a job are mostly alike: the first one reports it for all. */
    if (j->run.node == 0)
        launcher_send_warning(j, "memory is counted but not limited to %s on %s: %s",
                              size_format(j->run.memory << 20, size, sizeof(size)),
                              nodejob_node_name(j), err.text);
}

/* Spawned tasks are in the cgroup of the job that spawned them. */
const int *cgroup_procs(const struct nodejob *j)
{
    if (j->host)
        j = j->host;
    return j->cgroup ? &j->cgroup->procs : NULL;
}

void cgroup_task_ended(struct task *t)
{
    struct nodejob *j = t->job, *owner = j->host ? j->host : j;
    struct jobcgroup *c = owner->cgroup;
    char size[32], text[128];
    uint64_t kills;

    if (!c || t->status == 0 || (kills = count_kills(owner)) == c->reported)
        return;
    c->reported = kills;
    size_format(j->run.memory << 20, size, sizeof(size));
    if (WIFSIGNALED(t->status) && WTERMSIG(t->status) == SIGKILL)
        launcher_send_fail(j, spawn_status_to_code(t->status), (int32_t)t->rank, 1,
                           "task %u was killed: the job exceeded its memory limit of %s on %s",
                           t->rank, size, nodejob_node_name(j));
    else
        launcher_send_fail(
            j, spawn_status_to_code(t->status), (int32_t)t->rank, 1,
            "task %u failed (%s) after one of its processes was killed: the job exceeded its "
            "memory limit of %s on %s",
            t->rank, spawn_status_text(t->status, text, sizeof(text)), size, nodejob_node_name(j));
}

/* Remove a cgroup, after the cgroups of sessions inside it. */
static int remove_tree(const char *path, int depth)
{
    struct dirent *de;
    char *sub;
    DIR *dir;

    if (rmdir(path) == 0 || errno == ENOENT)
        return 0;
    if (depth == 0 || !(dir = opendir(path)))
        return -1;
    while ((de = readdir(dir))) {
        if (de->d_type != DT_DIR || de->d_name[0] == '.' ||
            asprintf(&sub, "%s/%s", path, de->d_name) < 0)
            continue;
        (void)remove_tree(sub, depth - 1);
        free(sub);
    }
    closedir(dir);
    return rmdir(path);
}

void cgroup_remove(struct nodejob *j)
{
    struct jobcgroup *c = j->cgroup;

    if (!c)
        return;
    if (c->procs >= 0)
        close(c->procs);
    if (c->dir && remove_tree(c->dir, DEPTH) < 0)
        fprintf(stderr, "flux-launcher: cannot remove %s: %s\n", c->dir, strerror(errno));
    free(c->dir);
    free(c);
    j->cgroup = NULL;
}

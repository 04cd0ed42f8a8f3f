/* hunt.c - ends the processes of a job that are not tasks, but were started by tasks.
 *
 * SIGTERM: while a job runs, SIGTERM, which asks a job to end, is the only signal that goes to
 * these processes too (hunt_terminate()): once per round of the loop, in one walk through /proc for
 * all jobs concerned.  Members of the process groups of tasks have received it before.  The
 * programs of a session inside the job are left out, because a session ends its own jobs; so are
 * the processes that they have started, which have another tag.
 *
 * End: after its last task, the remaining processes of a job are children of the launcher, which is
 * a subreaper, and the descendants of these processes become its children in turn.  They are killed
 * at once, or after the grace period of a job that got SIGTERM.  The job ends when no process is
 * left (hunt_leftovers()).
 *
 * Assignment: the tag of a process names its job (tag.c).  Without a tag, its process group or the
 * mark in its environment decides.  A process that shows none of these has dropped them on purpose:
 * it has lowered the limit that holds the tag.  Since its parent is gone as well, its job cannot be
 * determined.  It ends with the first job that ends and is not younger than the process, which is
 * its own job at the latest.
 *
 * Races: a child keeps its pid until this thread reaps it, so a signal to the pid cannot reach
 * another process.  Processes that are not children are held by a descriptor while they are
 * examined.
 */
#include "config.h"
#include "launcher.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/pidfd.h>
#include <unistd.h>

#include "libsubprocess/proctree.h"
#include "libutil/clock.h"
#include "libutil/strutil.h"

#define TRIES 50 /* at least a millisecond each */

/* --- one process --- */

/* Returns whether a process is in the group of a task of the job.  The id of a live group is not
 * reused. */
static bool in_group(const struct nodejob *j, pid_t pid)
{
    pid_t group = getpgid(pid);

    for (uint32_t i = 0; group > 0 && i < j->ntasks; i++)
        if (j->tasks[i].leader == group)
            return true;
    return false;
}

/* Returns 1 if a process belongs to this job, 0 if not, or -1 with EAGAIN if its environment is not
 * there yet. */
static int is_of(struct nodejob *j, pid_t pid)
{
    struct nodejob *owner;

    if (tag_job(j->l, pid, &owner) && owner)
        return owner == j;
    return in_group(j, pid) ? 1 : proctree_has_env(pid, j->mark);
}

static bool is_ours(struct launcher *l, pid_t pid)
{
    return hmap_get_u64(l->pids, (uint64_t)pid) || pmix_is(l, pid) || hook_is(l, pid) ||
           starters_have(l, pid);
}

/* --- processes that are left at the end --- */

struct hunt {
    struct nodejob *j;
    bool alone; /* the launcher has only this job */
    bool spare; /* a process may still end by itself */
    bool found;
    bool unsure;
    bool patient; /* a process without an environment counts as having none */
};

/* Returns whether nothing names the job of an orphan although every job has a tag.  A job without a
 * tag may have processes that have cleared their environment, so no process counts as hidden while
 * such a job runs. */
static bool is_hidden(const struct hunt *h, pid_t pid)
{
    struct launcher *l = h->j->l;
    struct nodejob *owner;
    size_t pos = 0;
    void *val;
    int mine;

    if (hmap_count(l->tags) < hmap_count(l->jobs) || tag_job(l, pid, &owner))
        return false;
    while (hmap_next(l->jobs, &pos, NULL, NULL, &val))
        if ((mine = is_of(val, pid)) > 0 || (mine < 0 && !h->patient))
            return false;
    return !proctree_dead(pid);
}

static int hunt_one(pid_t pid, void *arg)
{
    struct hunt *h = arg;
    struct nodejob *owner;
    int mine;

    if (is_ours(h->j->l, pid))
        return 0;
    if (tag_job(h->j->l, pid, &owner) && !owner) {
        kill(pid, SIGKILL); /* its job ended before the process became a child */
        return 0;
    }
    mine = h->alone ? 1 : is_of(h->j, pid);
    if (mine < 0 && errno == EAGAIN && !proctree_dead(pid))
        h->unsure = true;
    if (mine <= 0 && !proctree_older(pid, &h->j->began) && is_hidden(h, pid))
        mine = 1;
    if (mine == 1) {
        h->found = true;
        if (!h->spare)
            kill(pid, SIGKILL);
    }
    return 0;
}

bool hunt_leftovers(struct nodejob *j)
{
    struct launcher *l = j->l;
    struct hunt h = {.j = j, .alone = hmap_count(l->jobs) == 1, .patient = j->tries >= TRIES};
    uint64_t now = j->mercy ? clock_now_us() : 0;

    h.spare = j->mercy > now;
    proctree_children(hunt_one, &h);
    if (h.spare && h.found && j->mercy - now < l->wake)
        l->wake = j->mercy - now;
    if (h.unsure && !h.found && j->tries++ < TRIES) {
        l->again = true;
        return true;
    }
    return h.found;
}

/* --- SIGTERM to all --- */

/* Returns whether a process is part of a session, which ends its processes in an order of its
 * own. */
static bool is_session(pid_t pid)
{
    char path[64], exe[4096];
    const char *name;
    ssize_t n;

    snprintf(path, sizeof(path), "/proc/%d/exe", (int)pid);
    n = readlink(path, exe, sizeof(exe) - 1);
    if (n <= 0)
        return false;
    exe[n] = '\0';
    name = strrchr(exe, '/') ? strrchr(exe, '/') + 1 : exe;
    return strcmp(name, "flux-broker") == 0 || strcmp(name, "flux-launcher") == 0 ||
           strcmp(name, "flux-pmixd") == 0 || str_starts(name, "lt-flux-");
}

static bool needs_signal(struct launcher *l, pid_t pid)
{
    struct nodejob *j;

    return tag_job(l, pid, &j) && j && j->tell && !in_group(j, pid) && !is_ours(l, pid) &&
           !is_session(pid);
}

static int tell_one(pid_t pid, void *arg)
{
    struct launcher *l = arg;
    int fd;

    if (!needs_signal(l, pid))
        return 0;
    /* The pid may have been reused by now; the descriptor keeps referring to one process. */
    if ((fd = pidfd_open(pid, 0)) < 0)
        return 0;
    if (needs_signal(l, pid))
        pidfd_send_signal(fd, SIGTERM, NULL, 0);
    close(fd);
    return 0;
}

void hunt_terminate(struct nodejob *j)
{
    if (j->run.grace)
        j->mercy = clock_now_us() + j->run.grace;
    if (j->run.flags & WIRE_F_NESTED)
        return;
    j->tell = true;
    j->l->tell = true;
}

void hunt_tell(struct launcher *l)
{
    size_t pos = 0;
    void *val;

    if (!l->tell)
        return;
    l->tell = false;
    proctree_all(tell_one, l);
    while (hmap_next(l->jobs, &pos, NULL, NULL, &val))
        ((struct nodejob *)val)->tell = false;
}

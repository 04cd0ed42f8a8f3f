/* hunt.c - ends the processes of a job that are not tasks, but were started by tasks.
 *
 * While a job runs, only SIGTERM, which tells a job to end, goes to these processes too
 * (hunt_terminate()): once per round of the loop, in one walk through /proc for all jobs concerned.
 * Members of the process groups of tasks have received it before.  The programs of a session inside
 * the job are left out, because a session ends its own jobs; so are the processes that they have
 * started, which have another tag.
 *
 * After its last task, the remaining processes of a job are children of the launcher, a subreaper,
 * and their children will be.  They are killed, at once or after the grace period of a job that got
 * SIGTERM; the job ends when none are left (hunt_leftovers()).
 *
 * A process is assigned to a job by its tag (tag.c).  Without a tag, its process group or the mark
 * in its environment decides.  A process may have got rid of all of these, but only on purpose: it
 * has lowered the limit that holds the tag.  As it has lost its parent, too, nothing tells which
 * job it belongs to.  It ends with the first job that ends and that is not younger than the
 * process: at the latest, thus, with its own.
 *
 * A child keeps its pid until this thread reaps it, so a signal to the pid cannot hit another
 * process.  Other processes are held by a descriptor while they are examined.
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

#define TRIES 50 /* a millisecond each */

/* --- one process --- */

/* Is a process in the group of one of the job's tasks?  The id of a live group is not reused. */
static bool in_group(const struct nodejob *j, pid_t pid)
{
    pid_t group = getpgid(pid);

    for (uint32_t i = 0; group > 0 && i < j->ntasks; i++)
        if (j->tasks[i].leader == group)
            return true;
    return false;
}

/* Does a process belong to this job?  1, 0, or -1 with EAGAIN: it has no environment yet. */
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

/* --- what is left at the end --- */

struct hunt {
    struct nodejob *j;
    bool alone; /* no other job is here */
    bool spare; /* it may end by itself yet */
    bool found;
    bool unsure;
    bool patient; /* who has no environment by now has none */
};

/* Does nothing tell the job of an orphan, although every job has a tag?  A job without a tag may
 * have processes that have cleared their environment, so none is taken for hidden as long as it
 * runs. */
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

/* Is a process part of a session?  A session ends its processes in an order of its own. */
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

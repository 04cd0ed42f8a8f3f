/* Processes of a job that are not tasks: what tasks have started.
 *
 * While a job runs they are nobody's business, but for one signal: SIGTERM, by which a job is told
 * to end, goes to all of them (hunt_terminate), once a round of the loop, by one walk through /proc
 * for all jobs that got it.  Those in the process group of a task have it by then.  A session that
 * runs inside the job ends its own jobs, so its programs are left out, as are what these started
 * (they have another tag).
 *
 * When the last task of a job is gone, those that are left are children of the launcher, a
 * subreaper (and theirs will be).  They are killed, at once or when the period of grace of a job
 * that got SIGTERM is over; the job ends when there are none (hunt_leftovers).
 *
 * Whose one is: its tag (tag.c) says it.  Where there is none, the mark in its environment
 * or its process group; one that hides all of these is taken for a job's if no other job runs.
 *
 * Children stay until they are reaped, by this same thread, so a signal by their number cannot hit
 * another process; the others are held by a descriptor before they are looked at.
 */
#include "config.h"
#include "launcher.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/pidfd.h>
#include <time.h>
#include <unistd.h>

#include "libsubprocess/proctree.h"
#include "libutil/strutil.h"

#define TRIES 50 /* a millisecond each */

/* --- one process --- */

/* In the process group of one of its tasks?  No other can have that number while it exists. */
static bool in_group(const struct nodejob *j, pid_t pid)
{
    pid_t group = getpgid(pid);

    for (uint32_t i = 0; group > 0 && i < j->ntasks; i++)
        if (j->tasks[i].leader == group)
            return true;
    return false;
}

/* Is it of this job?  1, 0, or -1 with EAGAIN: it has no environment at this moment. */
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
};

static int hunt_one(pid_t pid, void *arg)
{
    struct hunt *h = arg;
    struct nodejob *owner;
    int mine;

    if (is_ours(h->j->l, pid))
        return 0;
    if (tag_job(h->j->l, pid, &owner) && !owner) {
        kill(pid, SIGKILL); /* its job was over before it came here */
        return 0;
    }
    mine = h->alone ? 1 : is_of(h->j, pid);
    if (mine < 0 && errno == EAGAIN && !proctree_dead(pid))
        h->unsure = true;
    if (mine == 1) {
        h->found = true;
        if (!h->spare)
            kill(pid, SIGKILL);
    }
    return 0;
}

static uint64_t now_us(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000 + (uint64_t)ts.tv_nsec / 1000;
}

bool hunt_leftovers(struct nodejob *j)
{
    struct launcher *l = j->l;
    struct hunt h = {.j = j, .alone = hmap_count(l->jobs) == 1};
    uint64_t now = j->mercy ? now_us() : 0;

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

/* Of a session: it ends in an order of its own. */
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

static bool to_be_told(struct launcher *l, pid_t pid)
{
    struct nodejob *j;

    return tag_job(l, pid, &j) && j && j->tell && !in_group(j, pid) && !is_ours(l, pid) &&
           !is_session(pid);
}

static int tell_one(pid_t pid, void *arg)
{
    struct launcher *l = arg;
    int fd;

    if (!to_be_told(l, pid))
        return 0;
    /* The number may be another process's by now: not that which the descriptor leads to. */
    if ((fd = pidfd_open(pid, 0)) < 0)
        return 0;
    if (to_be_told(l, pid))
        pidfd_send_signal(fd, SIGTERM, NULL, 0);
    close(fd);
    return 0;
}

void hunt_terminate(struct nodejob *j)
{
    if (j->run.grace)
        j->mercy = now_us() + j->run.grace;
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

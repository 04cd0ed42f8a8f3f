/* orphan.c - detects whether a task has left a process behind.
 *
 * Purpose: a subreaper gets the orphans of its tasks as children.  To find out whether there are
 * any, it would have to read all of /proc at each end of a job.  But the kernel lists children by
 * the thread that created them, gives orphans to the first live thread of the process, and lists
 * the children of one thread in /proc/self/task/TID/children.  So other threads do all work and
 * create all tasks (starter.c).  The first thread creates no child, and one system call on a file
 * that stays open tells whether it has children.  Only then are the children examined.
 *
 * Where the kernel does not have this file, the first thread calls waitid(2) with __WNOTHREAD,
 * which considers only the children of the calling thread.
 */
#include "config.h"
#include "launcher.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef __WNOTHREAD
#define __WNOTHREAD 0x20000000
#endif

struct orphans {
    struct launcher *l;
    void (*fn)(struct launcher *l);
    int fd; /* list of the children of the first thread; -1: no such file */
    sem_t ask, answer;
    bool over;
    bool there;
};

static void *work(void *arg)
{
    struct orphans *o = arg;

    o->fn(o->l);
    return NULL;
}

void orphans_over(struct launcher *l)
{
    l->orphans->over = true;
    sem_post(&l->orphans->ask);
}

static void wait_for(sem_t *s)
{
    while (sem_wait(s) < 0 && errno == EINTR)
        ;
}

bool orphans_there(struct launcher *l)
{
    struct orphans *o = l->orphans;

    char c;

    if (l->childless)
        return false;
    if (o->fd >= 0)
        return pread(o->fd, &c, 1, 0) != 0;
    sem_post(&o->ask);
    wait_for(&o->answer);
    return o->there;
}

int orphans_watch(struct launcher *l, void (*fn)(struct launcher *l))
{
    struct orphans o = {.l = l, .fn = fn};
    pthread_t thread;
    char path[64];

    snprintf(path, sizeof(path), "/proc/self/task/%d/children", (int)getpid());
    o.fd = open(path, O_RDONLY | O_CLOEXEC);
    if (sem_init(&o.ask, 0, 0) < 0 || sem_init(&o.answer, 0, 0) < 0)
        return 1;
    l->orphans = &o;
    if (pthread_create(&thread, NULL, work, &o) != 0)
        return 1;
    for (;;) {
        siginfo_t si;

        wait_for(&o.ask);
        if (o.over)
            break;
        o.there = !(waitid(P_ALL, 0, &si, WEXITED | WNOHANG | WNOWAIT | __WNOTHREAD) < 0 &&
                    errno == ECHILD);
        sem_post(&o.answer);
    }
    starters_stop(l);
    if (o.fd >= 0)
        close(o.fd);
    sem_destroy(&o.ask);
    sem_destroy(&o.answer);
    return 0;
}

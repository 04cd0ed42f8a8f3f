/* turns.c - whose input the connector passes on next.
 *
 *    a client is    while                                              what is passed on
 *    alone          no other one has sent for SEVERAL seconds          all that one read brings
 *    light          others send, and its process has had less than     at once, as far as that goes
 *                   TURNS_FEW messages in this pass, and does not wait
 *    waiting        its process has had more                           when the turn is its process's
 *
 * In each pass of the reactor TURNS_FEW messages of those who wait are passed on, whoever and however many
 * they are, and then sockets are looked at again.  So a light client waits for TURNS_FEW messages of others
 * at most; without that it would wait for so many of each client that floods.
 *
 * Processes wait in a list, and the clients of each in another one.  This is deficit round robin with a place in
 * front for flows that are sparse, as in FQ-CoDel (RFC 8290), but for one thing: a flow that was sparse is
 * not sent to the end of the list when it falls silent.  Those who wait are served in every pass, whatever
 * the light ones send, so nobody can be starved in that way.
 *
 * Invariants:
 *  1. A process is in the list of those that wait exactly while one of its clients waits.
 *  2. A process is here exactly while it has clients.
 *  3. All takes the same time however many wait.
 *
 * Failure: without memory a client cannot join.
 */
#include "config.h"
#include <errno.h>
#include <limits.h>
#include <stdlib.h>

#include "libutil/hmap.h"
#include "turns.h"

#define SEVERAL 0.001 /* seconds between messages of two that send at the same time */

struct turns_process {
    struct list_node node;    /* in turns.waiting */
    struct list_node waiting; /* struct turn */
    pid_t pid;
    unsigned clients;
    unsigned used; /* messages in the pass that began at `pass` */
    double pass;
};

struct turns {
    hmap_t *processes; /* pid -> struct turns_process */
    struct list_node waiting;
    const struct turn *last; /* who has sent last, to compare */
    double several;          /* until then several send */
};

turns_t *turns_create(void)
{
    turns_t *t = calloc(1, sizeof(*t));

    if (!t)
        return NULL;
    list_init(&t->waiting);
    if (!(t->processes = hmap_create_u64(free))) {
        free(t);
        errno = ENOMEM;
        return NULL;
    }
    return t;
}

void turns_destroy(turns_t *t)
{
    if (t) {
        int saved = errno;

        hmap_destroy(t->processes);
        free(t);
        errno = saved;
    }
}

void turns_init(struct turn *turn)
{
    list_init(&turn->node);
    turn->process = NULL;
}

int turns_join(turns_t *t, struct turn *turn, pid_t pid)
{
    struct turns_process *p = hmap_get_u64(t->processes, (uint64_t)pid);

    if (!p) {
        if (!(p = calloc(1, sizeof(*p))))
            return -1;
        list_init(&p->node);
        list_init(&p->waiting);
        p->pid = pid;
        p->pass = -1.;
        if (hmap_put_u64(t->processes, (uint64_t)pid, p) < 0) {
            free(p);
            errno = ENOMEM;
            return -1;
        }
    }
    p->clients++;
    turn->process = p;
    return 0;
}

static void stop_waiting(struct turn *turn)
{
    struct turns_process *p = turn->process;

    list_remove(&turn->node);
    if (list_empty(&p->waiting))
        list_remove(&p->node);
}

void turns_leave(turns_t *t, struct turn *turn)
{
    struct turns_process *p = turn->process;

    if (!p)
        return;
    stop_waiting(turn);
    if (t->last == turn)
        t->last = NULL;
    turn->process = NULL;
    if (--p->clients == 0)
        hmap_del_u64(t->processes, (uint64_t)p->pid);
}

unsigned turns_clients(const turns_t *t, pid_t pid)
{
    const struct turns_process *p = hmap_get_u64(t->processes, (uint64_t)pid);

    return p ? p->clients : 0;
}

unsigned turns_share(turns_t *t, struct turn *turn, double now)
{
    struct turns_process *p = turn->process;

    if (t->last != turn) {
        t->several = now + SEVERAL;
        t->last = turn;
    }
    if (now >= t->several)
        return UINT_MAX;
    if (p->pass != now) {
        p->pass = now;
        p->used = 0;
    }
    return list_empty(&p->waiting) && p->used < TURNS_FEW ? TURNS_FEW - p->used : 0;
}

void turns_used(struct turn *turn, unsigned messages)
{
    turn->process->used += messages;
}

void turns_wait(turns_t *t, struct turn *turn)
{
    struct turns_process *p = turn->process;

    if (turns_waits(turn))
        return;
    if (list_empty(&p->waiting))
        list_append(&t->waiting, &p->node);
    list_append(&p->waiting, &turn->node);
}

struct turn *turns_next(turns_t *t)
{
    struct list_node *n = list_first(&t->waiting);
    struct turns_process *p;
    struct turn *turn;

    if (!n)
        return NULL;
    p = list_entry(n, struct turns_process, node);
    turn = list_entry(list_first(&p->waiting), struct turn, node);
    list_remove(&p->node);
    list_remove(&turn->node);
    if (!list_empty(&p->waiting))
        list_append(&t->waiting, &p->node);
    return turn;
}

bool turns_waits(const struct turn *turn)
{
    return !list_empty(&turn->node);
}

bool turns_pending(const turns_t *t)
{
    return !list_empty(&t->waiting);
}

bool turns_several(const turns_t *t, double now)
{
    return now < t->several;
}

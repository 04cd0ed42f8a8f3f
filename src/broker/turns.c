/* turns.c - the order in which the connector passes on messages of clients.
 *
 *    a client is   when                                               its messages are passed on
 *    alone         no other process has sent anything for SEVERAL s,  all of one read, until its
 *                  nor in this pass of the reactor or the one before  process has had TURNS_MANY
 *    light         others send; its process has had less than         at once, until its process
 *                  TURNS_FEW messages in this pass of the reactor,    has had TURNS_FEW
 *                  and does not wait
 *    waiting       its process has had more                           when its process has a turn
 *
 * Each pass of the reactor passes on a total of TURNS_FEW messages of waiting clients, however many
 * clients wait, and of TURNS_LEAN while the loop hurries for a light client.  Then the sockets are
 * polled again.  A light client thus waits for at most that number of messages, not for that number
 * from each client that floods.
 *
 * Waiting processes have turns in a list, and so have the clients of each process.  This is deficit
 * round robin with priority for sparse flows, as in FQ-CoDel (RFC 8290), with one difference: a
 * sparse flow that falls silent does not move to the end of the list.  Waiting clients are served
 * in each pass, whatever light clients send, so this starves nobody.
 *
 * Invariants:
 *  1. A process is in the list of waiting processes if and only if one of its clients waits.
 *  2. A process has an entry if and only if it has clients.
 *  3. Each call takes the same time, however many clients wait.
 *
 * Failure: if memory is short, a client cannot join.
 */
#include "config.h"
#include <errno.h>
#include <limits.h>
#include <stdlib.h>

#include "libutil/hmap.h"
#include "turns.h"

#define SEVERAL 0.001 /* seconds between messages of two processes that send at the same time */

struct turns_process {
    struct list_node node;    /* in turns.waiting */
    struct list_node waiting; /* struct turn */
    pid_t pid;
    unsigned clients;
    unsigned used; /* messages passed on in the pass of the reactor that began at `pass` */
    double pass;
};

struct turns {
    hmap_t *processes; /* pid -> struct turns_process */
    struct list_node waiting;
    const struct turns_process *last; /* the process that sent last; compared only */
    double several;                   /* several processes send until this time, and: */
    double several_pass;              /* in the pass that began then, and in the next one */
    double pass, previous;            /* the last two passes in which a function was called */
};

turns_t *turns_create(void)
{
    turns_t *t = calloc(1, sizeof(*t));

    if (!t)
        return NULL;
    list_init(&t->waiting);
    t->several_pass = t->pass = t->previous = -1.;
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
    turn->process = NULL;
    if (--p->clients > 0)
        return;
    if (t->last == p)
        t->last = NULL;
    hmap_del_u64(t->processes, (uint64_t)p->pid);
}

unsigned turns_clients(const turns_t *t, pid_t pid)
{
    const struct turns_process *p = hmap_get_u64(t->processes, (uint64_t)pid);

    return p ? p->clients : 0;
}

bool turns_several(turns_t *t, double now)
{
    if (t->pass != now) {
        t->previous = t->pass;
        t->pass = now;
    }
    /* A busy broker's passes may be longer than SEVERAL. */
    return now < t->several || t->several_pass == t->pass || t->several_pass == t->previous;
}

unsigned turns_share(turns_t *t, struct turn *turn, double now)
{
    struct turns_process *p = turn->process;

    if (t->last != p) {
        t->several = now + SEVERAL;
        t->several_pass = now;
        t->last = p;
    }
    if (p->pass != now) {
        p->pass = now;
        p->used = 0;
    }
    if (!turns_several(t, now))
        return list_empty(&p->waiting) && p->used < TURNS_MANY ? UINT_MAX : 0;
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

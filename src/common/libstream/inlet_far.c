/* inlet_far.c - the reader's end of a stream whose writer is on another host.
 *
 * The messages are those of doc/stream-format.rst; inlet_far_io.c reads and sends them,
 * inlet_far_ask.c requests values, and inlet_far_join.c makes the connection.  Each step has a
 * place in memory of this process, as large as the step, of which only the bytes that have arrived
 * are ever touched: so a variable has the same offset as in the writer's memory.  Places are
 * reused, so the kernel does not have to clear their pages again.
 *
 * If the policy of the queue never takes back a step that was offered, the writer announces steps
 * as they come, and they wait here.  Otherwise (`asks`), this end requests each step when it needs
 * it, so that the writer can still take back waiting steps.
 *
 * Each message wakes the writer's thread.  So a release goes with what this end says next, such as
 * the request for values of the next step, as long as the writer has room without it; when this end
 * sleeps, it is sent before, and the kernel does not hold it back for more than a fraction of a
 * second.
 *
 * Invariants:
 *  1. steps[number % LANE_SLOTS] is the step of this number, announced and not released.  Steps in
 *     `queue` were not yet taken.
 *
 * Failure: any invalid message ends this inlet, and so does the end of the connection, unless that
 * went through relays and is resumed (inlet_far_join.c).  Steps that were announced before can
 * still be taken, and values that have arrived stay; other values are an error.
 */
#include "config.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "libstream/inlet_far_private.h"
#include "libutil/invariant.h"

#define TAKE_SECONDS 0.1 /* maximum time that inlet_far_take() waits for a response */

/* --- memory --- */

int inlet_far_memory_open(inlet_far_t *f, errmsg_t *err)
{
    void *p;

    f->size = EXTENT_SPACE;
    while ((p = mmap(NULL, f->size, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)) == MAP_FAILED &&
           f->size > EXTENT_SPACE_LEAST)
        f->size /= 2;
    if (p == MAP_FAILED)
        return errmsg_fail(err, errno, "a reader of a stream has no addresses for its steps: %s",
                           strerror(errno));
    f->base = p;
    if (!(f->pool = extent_pool_create(f->size)))
        return errmsg_fail(err, ENOMEM, "out of memory");
    return 0;
}

struct inlet_far_step *inlet_far_step_find(inlet_far_t *f, uint64_t number)
{
    struct inlet_far_step *st = f->steps[number % LANE_SLOTS];

    return st && st->number == number ? st : NULL;
}

void inlet_far_pin_unref(inlet_far_t *f, struct inlet_far_pin *p)
{
    if (!p || --p->refs > 0)
        return;
    extent_give(f->pool, p->e);
    free(p);
}

void inlet_far_step_free(inlet_far_t *f, struct inlet_far_step *st)
{
    list_remove(&st->node);
    f->live.steps--;
    f->live.bytes -= st->len;
    if (f->arriving != st)
        f->steps[st->number % LANE_SLOTS] = NULL;
    extent_give(f->pool, st->e);
    inlet_far_pin_unref(f, st->pin);
    free(st);
}

void inlet_far_destroy(inlet_far_t *f)
{
    int saved = errno;

    if (!f)
        return;
    if (f->arriving)
        inlet_far_step_free(f, f->arriving);
    f->arriving = NULL;
    for (unsigned i = 0; i < LANE_SLOTS; i++) {
        if (f->steps[i])
            inlet_far_step_free(f, f->steps[i]);
    }
    inlet_far_pin_unref(f, f->pin);
    far_link_destroy(f->link);
    extent_pool_destroy(f->pool);
    if (f->base)
        munmap(f->base, f->size);
    if (f->wait_fd >= 0)
        close(f->wait_fd);
    if (f->timer_fd >= 0)
        close(f->timer_fd);
    free(f->search);
    free(f->address);
    free(f->first);
    free(f->pending);
    free(f->packed);
    free(f->buf);
    free(f);
    errno = saved;
}

void inlet_far_leave(inlet_far_t *f)
{
    f->left_it = true;
    if (f->link)
        shutdown(far_link_fd(f->link), SHUT_RDWR);
}

void inlet_far_hollow(inlet_far_t *f)
{
    madvise(f->base, f->size, MADV_DONTNEED);
}

uint64_t inlet_far_received(const inlet_far_t *f)
{
    return f->moved;
}

bool inlet_far_lost(const inlet_far_t *f)
{
    return f->gave_up;
}

int inlet_far_fd(const inlet_far_t *f)
{
    return f->wait_fd >= 0 ? f->wait_fd : far_link_fd(f->link);
}

/* --- steps --- */

int inlet_far_ended(const inlet_far_t *f, errmsg_t *err)
{
    if (f->end == LANE_CLOSED)
        return errmsg_fail(err, ENODATA, "the writer has closed the stream");
    if (f->end == LANE_FAILED)
        return errmsg_fail(err, ECONNRESET, "the writer of the stream has failed");
    if (f->end == LANE_EVICTED)
        return errmsg_fail(err, ESTALE,
                           "the writer has evicted this reader, which did not keep "
                           "up: release steps earlier, or choose another policy");
    if (f->gave_up)
        return errmsg_fail(err, ECONNRESET,
                           "a relay has ended, and the writer cannot be reached again: %s",
                           f->why.text);
    if (f->errnum == ECONNRESET || f->errnum == EPIPE)
        return errmsg_fail(err, ECONNRESET, "the writer of the stream has died");
    if (f->errnum == ETIMEDOUT || f->errnum == EHOSTUNREACH || f->errnum == ENETUNREACH)
        return errmsg_fail(err, ECONNRESET,
                           "the host of the writer of the stream does not answer any more");
    if (f->errnum == EPROTO || f->errnum == EBADMSG)
        return errmsg_fail(err, EPROTO, "the writer of the stream says something malformed");
    return errmsg_fail(err, f->errnum, "the connection to the writer of the stream has failed: %s",
                       strerror(f->errnum));
}

static bool answered(const inlet_far_t *f)
{
    return !f->asked || !list_empty(&f->queue) || f->end != LANE_OPEN;
}

int inlet_far_take(inlet_far_t *f, struct inlet_step *s, errmsg_t *err)
{
    static const struct far_msg take = {.type = FAR_TAKE};
    struct inlet_far_step *st;

    if (f->asks && list_empty(&f->queue) && f->end == LANE_OPEN && !f->waits) {
        if (!f->asked && inlet_far_say(f, &take, NULL) == 0)
            f->asked = true;
        inlet_far_pump_until(f, answered, TAKE_SECONDS);
    } else if (list_empty(&f->queue))
        inlet_far_pump(f, NULL);
    if (list_empty(&f->queue))
        return f->end == LANE_OPEN && f->errnum == 0 ? 0 : inlet_far_ended(f, err);
    st = list_entry(list_first(&f->queue), struct inlet_far_step, node);
    INVARIANT(1, inlet_far_step_find(f, st->number) == st);
    list_remove(&st->node);
    *s = (struct inlet_step){
        .number = st->number, .step = st->step, .data = f->base + st->e->off, .len = st->len};
    s->parts = st->parts;
    if (st->pin) {
        s->pin = st->pin->number;
        s->pinned = f->base + st->pin->e->off;
        s->pinned_len = st->pin->len;
    }
    return 1;
}

bool inlet_far_sleep(inlet_far_t *f)
{
    static const struct far_msg wait = {.type = FAR_WAIT};

    inlet_far_pump(f, NULL);
    if (!list_empty(&f->queue) || f->end != LANE_OPEN || f->errnum > 0 || f->noted) {
        f->noted = false;
        return false;
    }
    if (!f->asked && !f->waits) /* whatever the policy is now */
        f->waits = inlet_far_say(f, &wait, NULL) == 0;
    else
        inlet_far_push(f);
    return f->errnum == 0;
}

void inlet_far_wake(inlet_far_t *f)
{
    inlet_far_pump(f, NULL);
}

/* Can the writer learn of a release later, since it has room for other steps, and drops none?  A
 * quarter of the steps may be in use, and half of the bytes: a short queue is not made shorter. */
static bool has_room(const inlet_far_t *f)
{
    return f->want.policy == KNOCK_BLOCK && f->want.group[0] == '\0' &&
           (f->live.steps + f->unsaid.steps) * 4 <= f->want.depth &&
           (f->live.bytes + f->unsaid.bytes) * 2 <= f->want.bytes;
}

int inlet_far_release(inlet_far_t *f, const struct inlet_step *s)
{
    struct inlet_far_step *st = inlet_far_step_find(f, s->number);

    if (!st || !list_empty(&st->node)) {
        errno = EINVAL;
        return -1;
    }
    inlet_far_ask_drop(f, s->number);
    inlet_far_say_release(f, st, has_room(f));
    inlet_far_step_free(f, st);
    return 0;
}

uint64_t inlet_far_floor(const inlet_far_t *f)
{
    return f->floor;
}

bool inlet_far_missing(const inlet_far_t *f, uint64_t step)
{
    return f->missing == step + 1;
}

void inlet_far_claim(inlet_far_t *f, const struct knock_claim *c)
{
    struct far_msg m = {.type = FAR_CLAIM, .step = c->step, .len = c->floor};

    f->claim = *c;
    f->claims = true;
    /* A writer that has ended does not wait for claims: what it has said counts, not that it cannot
     * be reached any more. */
    inlet_far_pump(f, NULL);
    if (f->end == LANE_OPEN)
        inlet_far_say(f, &m, NULL);
}

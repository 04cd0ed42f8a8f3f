/* outlet.c - the writer's end of a stream: the memory of its steps, and the readers that need them.
 *
 * One descriptor of anonymous memory (memfd_create(2)) holds the steps of a writer, each in a piece
 * of it (extent.c).  It is sealed: it keeps its size, and later mappings of it cannot be writable.
 * A step is written in its place; committing it puts its description into the lane of each reader
 * (lane.c), and counts these.  The count is decremented when a reader releases the step, loses it
 * by its policy, or is gone; at 0 the piece is used again.  No byte is ever copied.  Readers on
 * other hosts have lanes, too (outlet_far.c).
 *
 * The queue of a reader consists of the steps that it was offered and has not released.
 * outlet_begin() waits while the queue of a blocking reader has no room for another step of this
 * size; outlet_commit() applies the other policies, and never waits:
 *
 *    policy       the queue is full
 *    block        begin waits, also if the lane has no slot, since the reader holds an old step;
 *                 evicts after opts.evict seconds without a release
 *    sample       the same, for one step of `every`; the others are not offered
 *    drop-oldest  waiting steps are taken back until there is room; else as drop-newest
 *    drop-newest  the step is not offered
 *    latest       all waiting steps are taken back in any case; else as drop-newest
 *
 * A reader that is off is offered no steps, and its waiting steps are taken back when it is turned
 * off.  If all readers are off, no step is wanted.  A reader that is off, joins, or is turned on is
 * told the least number of the steps that come to it (the floor of its lane): if it reads several
 * writers, which are turned on one after the other, those that are on do not wait until it has
 * ended steps which the others do not offer it.
 *
 * A blocking reader is offered the kept steps, and a step that was begun before it joined, even
 * beyond the bound of its queue: then the next step waits.
 *
 * The members of a team are offered the same steps: outlet_team.c.
 *
 * The members of a group have one queue, which waits as `block` does: outlet_group.c, and
 * outlet_follow.c for the writers of ranks above 0.  A writer that takes the place of another one
 * awaits their members: outlet_await.c.
 *
 * A pin block (stream_pin.c) is a piece of the same memory.  Each step refers to the pin block that
 * was current when the step was committed, so that all readers of the step find the same pinned
 * values with it, at any time.  The piece is used again when the last of these steps was freed, and
 * another pin block is current.
 *
 * An evicted reader is notified, and what it holds stays as it is until its connection ends.
 *
 * Invariants:
 *  1. refs of a step = lanes in which it is live, groups in which it waits, and 1 while it is kept;
 *     at 0 nobody can see it.
 *  2. A reader is in `readers` until its connection has ended, and is freed by whoever notices that
 *     last: the door's thread, or the writer that waits for it (pins).
 *  3. refs of a pin block = number of steps that are not freed and refer to it, and 1 while it is
 *     current.
 *  4. Memory of a piece is there before it is written (fallocate(2)): a lack of it is ENOMEM here,
 *     not a signal in the caller's loop.
 *
 * Failure: when this process ends, however it ends, the kernel closes the connections, which
 * readers notice at once; they continue with the committed steps.  The memory exists until the last
 * reader has unmapped it.  Nothing is left in any file system.  A forked child that does not call
 * exec(3) also has the connections, so they end only with that child.
 */
#include "config.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "libstream/outlet_private.h"
#include "libutil/clock.h"
#include "libutil/invariant.h"

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

#define SILENCE 20. /* seconds: see struct outlet_far_opts */
#define LINGER 30.
#define KNOCK 2. /* seconds: see struct outlet_opts */

/* --- memory --- */

static int memory_open(outlet_t *o, uint64_t space, errmsg_t *err)
{
    struct rlimit lim;
    void *p;

    /* A write beyond this limit would cause a signal. */
    if (getrlimit(RLIMIT_FSIZE, &lim) == 0 && lim.rlim_cur < space)
        space = lim.rlim_cur;
    space -= space % EXTENT_MIN;
    if (space == 0)
        return errmsg_fail(err, EFBIG, "the limit of file sizes leaves no room for a stream");
    while ((p = mmap(NULL, space, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)) ==
               MAP_FAILED &&
           space > EXTENT_SPACE_LEAST)
        space = space / 2 - space / 2 % EXTENT_MIN;
    if (p == MAP_FAILED)
        return errmsg_fail(err, errno, "a stream cannot have %" PRIu64 " bytes of addresses: %s",
                           space, strerror(errno));
    o->base = p;
    o->size = space;
    if ((o->mem = memfd_create("flux-stream", MFD_CLOEXEC | MFD_ALLOW_SEALING)) < 0 ||
        ftruncate(o->mem, (off_t)space) < 0 ||
        mmap(p, space, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE | MAP_FIXED, o->mem, 0) ==
            MAP_FAILED ||
        madvise(p, space, MADV_DONTDUMP) < 0 || /* a core file would visit every page */
        fcntl(o->mem, F_ADD_SEALS,
              F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL) < 0)
        return errmsg_fail(err, errno, "cannot make the shared memory of a stream: %s",
                           strerror(errno));
    return 0;
}

/* Allocate memory for the first `len` bytes of a piece. */
static int memory_ready(outlet_t *o, struct extent *e, uint64_t len)
{
    int rc;

    if (len <= e->ready)
        return 0;
    do
        rc = fallocate(o->mem, 0, (off_t)(e->off + e->ready), (off_t)(len - e->ready));
    while (rc < 0 && errno == EINTR);
    if (rc == 0)
        e->ready = len;
    return rc;
}

/* --- steps --- */

static void pin_unref(outlet_t *o, struct outlet_pin *p)
{
    if (!p)
        return;
    INVARIANT(3, p->refs > 0);
    if (--p->refs > 0)
        return;
    o->stats.pinned -= p->len;
    extent_give(o->pool, p->e);
    free(p);
}

void outlet_unref(outlet_t *o, struct outlet_step *s)
{
    INVARIANT(1, s->refs > 0);
    if (--s->refs > 0)
        return;
    o->stats.live -= s->len;
    extent_give(o->pool, s->e);
    pin_unref(o, s->pin);
    free(s);
}

void outlet_reap(outlet_t *o)
{
    LIST_FOREACH(it, &o->readers)
    {
        struct outlet_conn *c = list_entry(it, struct outlet_conn, node);
        struct outlet_step *s;

        if (c->group) {
            outlet_group_reap(o, c);
            continue;
        }
        while ((s = lane_tx_reap(c->lane))) {
            outlet_unref(o, s);
            if (c->pins > 0)
                lane_tx_kick(c->lane);
        }
    }
}

bool outlet_full(const struct outlet_conn *c, uint64_t size)
{
    unsigned live = lane_tx_live(c->lane);

    return live >= c->want.depth ||
           (live >= 2 && (size > c->want.bytes || lane_tx_bytes(c->lane) > c->want.bytes - size));
}

static void count_dropped(outlet_t *o, struct outlet_conn *c)
{
    o->stats.dropped++;
    c->counts.dropped++;
}

/* Take back the oldest waiting step of a reader.  false: no step waits. */
static bool drop(outlet_t *o, struct outlet_conn *c)
{
    struct outlet_step *s = lane_tx_drop(c->lane);

    if (!s)
        return false;
    outlet_unref(o, s);
    count_dropped(o, c);
    return true;
}

void outlet_bell(outlet_t *o, struct outlet_conn *c)
{
    static const uint64_t one = 1;

    if (!lane_tx_asleep(c->lane))
        return;
    o->stats.bells++;
    if (!c->far)
        send(c->fd, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
    else if (write(o->bell_fd, &one, sizeof(one)) < 0)
        return; /* its queue cannot be full */
}

struct lane_item outlet_item(const struct outlet_step *s)
{
    struct lane_item item = {.step = s->step, .off = s->e->off, .len = s->len};

    if (s->pin) {
        item.pin = s->pin->number;
        item.pin_off = s->pin->e->off;
        item.pin_len = s->pin->len;
    }
    return item;
}

/* Make room for a step as the policy of the reader has it.  false: it is not offered. */
static bool make_room(outlet_t *o, struct outlet_conn *c, const struct outlet_step *s)
{
    bool waits = c->want.policy == KNOCK_BLOCK || c->want.policy == KNOCK_SAMPLE;

    if (c->team) {
        if (!c->team->takes && outlet_team_wants(c->team, s->step))
            count_dropped(o, c);
        return c->team->takes;
    }
    if (c->want.policy == KNOCK_SAMPLE && s->step % c->want.every != 0)
        return false;
    if (c->want.policy == KNOCK_LATEST)
        while (drop(o, c))
            ;
    else if (c->want.policy == KNOCK_DROP_OLDEST)
        while (outlet_full(c, s->len) && drop(o, c))
            ;
    if (!waits && outlet_full(c, s->len)) {
        count_dropped(o, c);
        return false;
    }
    return true;
}

static void offer(outlet_t *o, struct outlet_conn *c, struct outlet_step *s)
{
    struct lane_item item = outlet_item(s);

    if (c->group || c->evicted || c->gone || c->want.off || !make_room(o, c, s))
        return;
    if (!lane_tx_offer(c->lane, &item, s)) {
        /* The page is full of steps that were taken back, behind a step that is held. */
        while (drop(o, c))
            ;
        if (!lane_tx_offer(c->lane, &item, s)) {
            count_dropped(o, c);
            return;
        }
    }
    s->refs++;
    o->stats.offered++;
    outlet_bell(o, c);
}

/* --- readers --- */

void outlet_set_wanted(outlet_t *o)
{
    atomic_store(&o->wanted, o->nreaders > o->noff || o->keep > 0 || hmap_count(o->awaits) > 0 ||
                                 outlet_follow_wants(o) || outlet_groups_held(o));
}

/* Adopt the present options of a reader. */
static void want(outlet_t *o, struct outlet_conn *c, const struct knock_want *w)
{
    c->want.policy = w->policy;
    c->want.every = w->every;
    if (c->team)
        outlet_team_want(c->team, w);
    if (c->want.off == w->off)
        return;
    c->want.off = w->off;
    if (c->team)
        outlet_team_off(c->team, w->off);
    o->noff += w->off ? 1 : -1u;
    while (w->off && !c->team && drop(o, c))
        ;
    if (c->pins > 0)
        lane_tx_kick(c->lane);
}

/* Tell a reader the least number of the steps that it may get. */
static void tell_floor(outlet_t *o, struct outlet_conn *c)
{
    uint64_t at = atomic_load_explicit(&o->at, memory_order_relaxed);

    if (!c->group && !c->team)
        lane_tx_floor(c->lane, c->want.off ? UINT64_MAX : at > o->next_step ? at : o->next_step);
}

void outlet_want(outlet_t *o, const struct knock_want *wants, size_t n)
{
    pthread_mutex_lock(&o->lock);
    for (size_t i = 0; i < n; i++) {
        struct knock_want *copy = malloc(sizeof(*copy));

        LIST_FOREACH(it, &o->readers)
        {
            struct outlet_conn *c = list_entry(it, struct outlet_conn, node);

            if (c->want.reader == wants[i].reader && !c->gone && !c->group) {
                want(o, c, &wants[i]);
                tell_floor(o, c);
                outlet_bell(o, c);
            }
        }
        if (copy)
            *copy = wants[i];
        if (copy && hmap_put_u64(o->wants, wants[i].reader, copy) < 0)
            free(copy);
    }
    outlet_set_wanted(o);
    pthread_mutex_unlock(&o->lock);
}

void outlet_forget(outlet_t *o, uint64_t reader)
{
    pthread_mutex_lock(&o->lock);
    hmap_del_u64(o->wants, reader);
    outlet_await_end(o, reader);
    pthread_mutex_unlock(&o->lock);
}

void outlet_forget_all(outlet_t *o)
{
    uint64_t reader;
    size_t pos = 0;
    void *val;

    pthread_mutex_lock(&o->lock);
    while (hmap_next(o->wants, &pos, NULL, &reader, &val))
        hmap_del_u64(o->wants, reader);
    outlet_await_drop(o, NULL);
    pthread_mutex_unlock(&o->lock);
}

/* Offer the kept steps to a reader, or to all members of a team that begins. */
static void offer_kept(outlet_t *o, struct outlet_conn *c, bool begins)
{
    uint64_t n = o->nkept < o->keep ? o->nkept : o->keep;

    if (c->team && c->want.policy == KNOCK_LATEST && n > 1)
        n = 1; /* nothing is taken back */
    for (uint64_t i = o->nkept - n; i < o->nkept; i++) {
        struct outlet_step *s = o->kept[i % o->keep];

        if (c->team)
            outlet_team_decide(c->team, s);
        if (!begins) {
            offer(o, c, s);
            continue;
        }
        LIST_FOREACH(it, &c->team->members)
        {
            offer(o, list_entry(it, struct outlet_conn, team_node), s);
        }
    }
}

static enum lane_end closed_how(const outlet_t *o)
{
    return o->failed ? LANE_FAILED : LANE_CLOSED;
}

void outlet_joined(outlet_t *o, struct outlet_conn *c)
{
    const struct knock_want *w;
    bool begins;

    if (o->ended)
        lane_tx_end(c->lane, closed_how(o));
    list_append(&o->readers, &c->node);
    o->nreaders++;
    o->noff += c->want.off;
    begins = c->team && outlet_team_joined(c);
    if ((w = hmap_get_u64(o->wants, c->want.reader)) && !c->group)
        want(o, c, w);
    if (o->seen < c->want.seen && !c->group)
        o->seen = c->want.seen;
    pthread_cond_signal(&o->joined);
    if (c->group)
        outlet_group_joined(o, c);
    outlet_await_end(o, c->want.reader);
    outlet_set_wanted(o);
    offer_kept(o, c, begins);
    tell_floor(o, c); /* behind the kept steps, which are below it */
}

static void reader_free(outlet_t *o, struct outlet_conn *c)
{
    struct outlet_step *s;

    outlet_group_leave(o, c);
    outlet_team_leave(c);
    while ((s = lane_tx_forget(c->lane)))
        outlet_unref(o, s);
    list_remove(&c->node);
    outlet_conn_free(c);
}

void outlet_gone(outlet_t *o, struct outlet_conn *c)
{
    c->gone = true;
    outlet_team_leave(c);
    o->nreaders--;
    o->noff -= c->want.off;
    lane_tx_kick(c->lane);
    if (c->pins == 0)
        reader_free(o, c);
    outlet_set_wanted(o); /* its group may be held */
}

static void evict(outlet_t *o, struct outlet_conn *c)
{
    struct outlet_step *s;

    while ((s = lane_tx_drop(c->lane)))
        outlet_unref(o, s);
    c->evicted = true;
    lane_tx_end(c->lane, LANE_EVICTED);
    o->stats.evicted++;
    outlet_bell(o, c);
}

/* A reader for which a step of this size has to wait, or NULL. */
static struct outlet_conn *blocked_by(outlet_t *o, uint64_t step, uint64_t size)
{
    LIST_FOREACH(it, &o->readers)
    {
        struct outlet_conn *c = list_entry(it, struct outlet_conn, node);

        if ((c->want.policy == KNOCK_BLOCK ||
             (c->want.policy == KNOCK_SAMPLE && step % c->want.every == 0)) &&
            !c->group && !c->evicted && !c->gone && !c->want.off &&
            (!c->team || outlet_team_wants(c->team, step)) &&
            (outlet_full(c, size) || !lane_tx_room(c->lane)))
            return c;
        c->since = 0.;
    }
    return NULL;
}

/* Wait for `c` until `until`; returns the time.  The lock is released meanwhile. */
static double wait_for(outlet_t *o, struct outlet_conn *c, double now, double until)
{
    double seconds = until - now < 3600. ? until - now : 3600.;
    uint32_t seen;
    bool sleep = lane_tx_sleep(c->lane, &seen); /* with the lock: others kick with it */

    if (c->since == 0. || lane_tx_live(c->lane) < c->live)
        c->since = now;
    c->live = lane_tx_live(c->lane);
    if (o->evict > 0. && seconds > c->since + o->evict - now)
        seconds = c->since + o->evict - now;
    c->pins++;
    pthread_mutex_unlock(&o->lock);
    if (sleep && seconds > 0.)
        lane_tx_wait(c->lane, seen, seconds);
    pthread_mutex_lock(&o->lock);
    INVARIANT(2, c->pins == 1);
    c->pins--;
    o->stats.blocked += clock_now() - now;
    c->counts.blocked += clock_now() - now;
    now = clock_now();
    if (c->gone)
        reader_free(o, c);
    else if (o->evict > 0. && now >= c->since + o->evict) {
        outlet_reap(o);
        if (lane_tx_live(c->lane) >= c->live)
            evict(o, c);
    }
    return now;
}

/* --- writing --- */

bool outlet_wanted(const outlet_t *o)
{
    return atomic_load_explicit(&o->wanted, memory_order_relaxed);
}

void outlet_cond_wait(outlet_t *o, pthread_cond_t *cond, double until)
{
    double seconds = until - clock_now();
    struct timespec ts;

    if (seconds > 3600.) /* callers wait in a loop */
        until = clock_now() + 3600.;
    ts.tv_sec = (time_t)until;
    ts.tv_nsec = (long)((until - (double)ts.tv_sec) * 1e9);
    pthread_cond_timedwait(cond, &o->lock, &ts);
}

int outlet_wait(outlet_t *o, unsigned readers, double timeout, errmsg_t *err)
{
    double until = timeout < 0. ? INFINITY : clock_now() + timeout;
    unsigned waiting;
    unsigned there;

    pthread_mutex_lock(&o->lock);
    while (waiting = outlet_teams_waiting(o), there = o->nreaders - waiting,
           there < readers && clock_now() < until)
        outlet_cond_wait(o, &o->joined, until);
    pthread_mutex_unlock(&o->lock);
    if (there >= readers)
        return 0;
    if (waiting > 0)
        return errmsg_fail(err, ETIMEDOUT,
                           "%u of %u readers, and %u members of teams that are not complete, have "
                           "come within %g s",
                           there, readers, waiting, timeout);
    return errmsg_fail(err, ETIMEDOUT, "%u of %u readers have come within %g s", there, readers,
                       timeout);
}

void outlet_pass(outlet_t *o, uint64_t step)
{
    atomic_store_explicit(&o->at, step, memory_order_relaxed);
}

int outlet_begin(outlet_t *o, uint64_t step, uint64_t size, double timeout, void **buf,
                 errmsg_t *err)
{
    double now = 0.;
    double until = INFINITY;
    struct outlet_step *s;
    struct outlet_conn *c;
    struct outlet_group *g = NULL;

    if (o->open || step < o->next_step)
        return errmsg_fail(err, EINVAL,
                           o->open ? "step %" PRIu64 " is begun before the last one ends"
                                   : "step %" PRIu64 " is not larger than the last one",
                           step);
    if (!(s = calloc(1, sizeof(*s))))
        return errmsg_fail(err, ENOMEM, "out of memory for step %" PRIu64, step);
    pthread_mutex_lock(&o->lock);
    for (outlet_reap(o); (c = blocked_by(o, step, size)) || (g = outlet_group_full(o, step, size));
         outlet_reap(o)) {
        if (now == 0.) {
            now = clock_now();
            if (timeout >= 0.)
                until = now + timeout;
        }
        if (now >= until) {
            errmsg_fail(err, ETIMEDOUT,
                        "step %" PRIu64 " has waited %g s for a reader that does not keep up", step,
                        timeout);
            goto fail;
        }
        now = c ? wait_for(o, c, now, until) : outlet_group_wait(o, g, now, until);
    }
    if (!(s->e = extent_take(o->pool, size > 0 ? size : 1))) {
        errmsg_fail(err, errno, "there is no room for the %" PRIu64 " bytes of step %" PRIu64, size,
                    step);
        goto fail;
    }
    pthread_mutex_unlock(&o->lock);
    if (memory_ready(o, s->e, size) < 0) {
        errmsg_fail(err, errno == ENOSPC ? ENOMEM : errno,
                    "there is not enough shared memory for the %" PRIu64 " bytes of step %" PRIu64
                    ": %s",
                    size, step, strerror(errno));
        pthread_mutex_lock(&o->lock);
        extent_give(o->pool, s->e);
        goto fail;
    }
    s->step = step;
    o->open = s;
    o->open_size = size;
    *buf = o->base + s->e->off;
    return 0;
fail:
    pthread_mutex_unlock(&o->lock);
    free(s);
    return -1;
}

static void keep(outlet_t *o, struct outlet_step *s)
{
    struct outlet_step **place = &o->kept[o->nkept % o->keep];

    if (o->nkept++ >= o->keep)
        outlet_unref(o, *place);
    *place = s;
    s->refs++;
}

int outlet_commit(outlet_t *o, uint64_t len)
{
    struct outlet_step *s = o->open;

    if (!s || len > o->open_size) {
        errno = EINVAL;
        return -1;
    }
    o->open = NULL;
    s->len = len;
    pthread_mutex_lock(&o->lock);
    s->refs = 1; /* this function's */
    if ((s->pin = o->pin))
        s->pin->refs++;
    o->stats.live += len;
    o->stats.steps++;
    o->stats.bytes += len;
    o->next_step = s->step + 1;
    if (o->keep > 0)
        keep(o, s);
    outlet_teams_decide(o, s);
    LIST_FOREACH(it, &o->readers)
    {
        offer(o, list_entry(it, struct outlet_conn, node), s);
    }
    outlet_group_offer(o, s);
    outlet_unref(o, s);
    pthread_mutex_unlock(&o->lock);
    return 0;
}

void outlet_abort(outlet_t *o)
{
    struct outlet_step *s = o->open;

    if (!s && !o->pin_open)
        return;
    pthread_mutex_lock(&o->lock);
    if (s)
        extent_give(o->pool, s->e);
    if (o->pin_open) {
        extent_give(o->pool, o->pin_open->e);
        free(o->pin_open);
    }
    pthread_mutex_unlock(&o->lock);
    o->open = NULL;
    o->pin_open = NULL;
    free(s);
}

int outlet_pin_begin(outlet_t *o, uint64_t size, void **buf, errmsg_t *err)
{
    struct outlet_pin *p;

    if (o->pin_open || size == 0)
        return errmsg_fail(err, EINVAL, "what is pinned is begun twice, or empty");
    if (!(p = calloc(1, sizeof(*p))))
        return errmsg_fail(err, ENOMEM, "out of memory for what is pinned");
    pthread_mutex_lock(&o->lock);
    p->e = extent_take(o->pool, size);
    pthread_mutex_unlock(&o->lock);
    if (!p->e || memory_ready(o, p->e, size) < 0) {
        int errnum = p->e && errno == ENOSPC ? ENOMEM : errno;

        pthread_mutex_lock(&o->lock);
        if (p->e)
            extent_give(o->pool, p->e);
        pthread_mutex_unlock(&o->lock);
        free(p);
        return errmsg_fail(err, errnum,
                           "there is no room for the %" PRIu64 " bytes that are pinned: %s", size,
                           strerror(errnum));
    }
    p->len = size;
    p->refs = 1;
    o->pin_open = p;
    *buf = o->base + p->e->off;
    return 0;
}

void outlet_pin_commit(outlet_t *o)
{
    pthread_mutex_lock(&o->lock);
    pin_unref(o, o->pin);
    o->pin = o->pin_open;
    o->pin->number = ++o->npins;
    o->stats.pinned += o->pin->len;
    pthread_mutex_unlock(&o->lock);
    o->pin_open = NULL;
}

/* --- the whole --- */

const char *outlet_name(const outlet_t *o)
{
    return o->name;
}

void outlet_fail(outlet_t *o)
{
    pthread_mutex_lock(&o->lock);
    o->failed = true;
    pthread_mutex_unlock(&o->lock);
}

void *outlet_leave_memory(outlet_t *o, size_t *len)
{
    o->left = true;
    *len = o->size;
    return o->base;
}

void outlet_destroy(outlet_t *o)
{
    int saved = errno;

    if (!o)
        return;
    outlet_abort(o);
    pthread_mutex_lock(&o->lock);
    o->ended = true;
    outlet_groups_close(o);
    LIST_FOREACH(it, &o->readers)
    {
        struct outlet_conn *c = list_entry(it, struct outlet_conn, node);

        if (!c->evicted)
            lane_tx_end(c->lane, closed_how(o));
        outlet_bell(o, c);
    }
    pthread_mutex_unlock(&o->lock);
    outlet_door_close(o);
    LIST_FOREACH_SAFE(it, tmp, &o->readers)
    {
        reader_free(o, list_entry(it, struct outlet_conn, node));
    }
    for (uint64_t i = 0; i < o->keep && i < o->nkept; i++)
        outlet_unref(o, o->kept[i]);
    free(o->kept);
    pin_unref(o, o->pin);
    pin_unref(o, o->pin_open);
    free((char *)o->far.stream);
    hmap_destroy(o->wants);
    hmap_destroy(o->awaits);
    extent_pool_destroy(o->pool);
    if (o->base && !o->left)
        munmap(o->base, o->size);
    if (o->mem >= 0)
        close(o->mem);
    pthread_cond_destroy(&o->joined);
    pthread_cond_destroy(&o->moved);
    pthread_mutex_destroy(&o->lock);
    free(o);
    errno = saved;
}

static struct outlet_far_opts far_opts(const struct outlet_far_opts *in)
{
    struct outlet_far_opts far = *in;

    if (far.listen == 0)
        far.listen = -1;
    if (far.share == 0)
        far.share = -1;
    if (far.silence <= 0.)
        far.silence = SILENCE;
    if (far.linger <= 0.)
        far.linger = LINGER;
    far.stream = strdup(in->stream ? in->stream : "");
    return far;
}

outlet_t *outlet_create(const struct outlet_opts *opts, errmsg_t *err)
{
    outlet_t *o = calloc(1, sizeof(*o));
    pthread_condattr_t attr;

    if (!o) {
        if (opts->far.listen > 0)
            close(opts->far.listen);
        if (opts->far.share > 0)
            close(opts->far.share);
        errmsg_fail(err, ENOMEM, "out of memory");
        return NULL;
    }
    o->mem = o->listen_fd = o->epoll_fd = o->stop_fd = o->bell_fd = -1;
    o->far = far_opts(&opts->far);
    atomic_init(&o->ahead, clock_wall() - clock_boot());
    list_init(&o->readers);
    list_init(&o->groups);
    list_init(&o->teams);
    list_init(&o->fars);
    list_init(&o->knocking);
    pthread_mutex_init(&o->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&o->joined, &attr);
    pthread_cond_init(&o->moved, &attr);
    pthread_condattr_destroy(&attr);
    memcpy(o->key, opts->key, KNOCK_KEY_LEN);
    o->evict = opts->evict;
    o->knock = opts->knock > 0. ? opts->knock : KNOCK;
    o->keep = opts->keep;
    o->depth = opts->depth;
    if (o->keep > LANE_SLOTS / 2)
        errmsg_fail(err, EINVAL, "a stream keeps at most %d steps", LANE_SLOTS / 2);
    else if (memory_open(o, opts->space > 0 ? opts->space : EXTENT_SPACE, err) == 0) {
        if (!o->far.stream || !(o->wants = hmap_create_u64(free)) ||
            !(o->awaits = hmap_create_u64(NULL)) || !(o->pool = extent_pool_create(o->size)) ||
            (o->keep > 0 && !(o->kept = calloc(o->keep, sizeof(*o->kept)))))
            errmsg_fail(err, ENOMEM, "out of memory");
        else {
            outlet_set_wanted(o);
            if (outlet_door_open(o, err) == 0)
                return o;
        }
    }
    outlet_destroy(o);
    return NULL;
}

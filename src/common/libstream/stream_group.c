/* stream_group.c - a member of a group whose stream has several writers.
 *
 * The writer of rank 0 gives steps to this member; the member claims each of them from the other
 * writers, by number, and begins it when all have given it (outlet_follow.c).
 *
 *    answer of a writer         then
 *    the step                   it is the head of this source
 *    the step is missing        it was done before, or cannot be complete: this member releases it
 *                               at all writers, and takes the next one
 *    none yet                   the member waits
 *    the writer has ended       if it has given this step with all that it had, it is the head;
 *                               else it is missing, or, behind all that the writer had, the stream
 *                               has ended
 *    the writer has died        an error
 *
 * If the reader stays, a writer that has died, or has ended and has not given this step with all
 * that it had, is replaced by the next writer of its rank, from which the step is claimed.  What it
 * has given stays parked: another member may die while it has one of these steps.
 *
 * All answers are awaited before a step is passed over, so that none comes later.
 *
 * A writer that ends gives each member all steps that it still keeps.  They are parked here: the
 * member looks there first.  They are released when the floor of the group has passed them.
 *
 * If members divide the steps, this one may be given other parts of a step that it has ended, so
 * that a step of the other writers is parked as well until the floor has passed it.
 *
 * A step is released at rank 0 first.  If the member dies between that and the other releases, the
 * others learn from the floor that it is done.
 *
 * Invariants:
 *  1. The head of a writer that follows has the number of the head of rank 0.
 *  2. A source that is `closed` has no steps but those that are parked.
 *
 * Failure: see flux_stream_begin_step().
 */
#include "config.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "libstream/stream_private.h"
#include "libutil/invariant.h"

#define NO_STEP KNOCK_NO_STEP

static void unpark(struct stream_source *src, size_t i)
{
    src->nparked--;
    memmove(src->parked + i, src->parked + i + 1, (src->nparked - i) * sizeof(*src->parked));
}

static int park(struct stream_source *src, errmsg_t *err)
{
    if (src->nparked == src->parked_room) {
        size_t room = 2 * src->parked_room + 4;
        struct stream_parked *more = realloc(src->parked, room * sizeof(*more));

        if (!more)
            return errmsg_fail(err, ENOMEM, "out of memory for steps of a group");
        src->parked = more;
        src->parked_room = room;
    }
    src->parked[src->nparked++] = (struct stream_parked){src->from, src->steps[0]};
    return 0;
}

/* Make a step that is parked the head.  false: it is not. */
static bool unpark_head(struct stream_source *src, uint64_t step)
{
    for (size_t i = 0; i < src->nparked; i++) {
        if (src->parked[i].step.step == step) {
            stream_reader_from(src, src->parked[i].in);
            src->steps[0] = src->parked[i].step;
            unpark(src, i);
            return src->has[0] = true;
        }
    }
    return false;
}

void stream_group_keep(flux_stream_t *s)
{
    for (uint32_t i = 1; i < s->nsources; i++) {
        struct stream_source *src = &s->sources[i];

        if (!src->has[0] || park(src, NULL) < 0) /* then it is claimed again */
            continue;
        block_destroy(src->block);
        src->block = NULL;
        src->has[0] = false;
    }
}

void stream_group_reset(struct stream_source *src)
{
    src->claimed = src->told = 0;
    src->closed = false;
}

/* The floor never falls, not even when the writer of rank 0 is replaced. */
static uint64_t floor_of(const flux_stream_t *s)
{
    uint64_t floor = s->sources[0].in ? inlet_floor(s->sources[0].in) : 0;

    return s->floor > floor ? s->floor : floor;
}

void stream_group_leave(flux_stream_t *s, struct stream_source *src)
{
    if (src == s->sources)
        s->floor = floor_of(s);
    if (src->nparked > 0)
        src->old = src->in;
    else
        inlet_hollow(src->in);
    src->in = NULL;
    stream_group_reset(src);
}

/* Free memory of a writer that is gone, when no step of it is needed any more. */
static void hollow(struct stream_source *src)
{
    if (src->old && src->nparked == 0 && (!src->has[0] || src->from != src->old)) {
        inlet_hollow(src->old);
        src->old = NULL;
    }
}

/* Claim a step, or only pass on the floor. */
static void claim(struct stream_source *src, uint64_t step, uint64_t floor)
{
    struct knock_claim c = {.step = step, .floor = floor};

    if (step != NO_STEP)
        src->claimed = step + 1;
    src->told = floor;
    inlet_claim(src->in, &c);
}

void stream_group_tell(flux_stream_t *s)
{
    uint64_t floor = floor_of(s);

    for (uint32_t i = 1; i < s->nsources; i++) {
        struct stream_source *src = &s->sources[i];

        for (size_t k = src->nparked; k-- > 0;) {
            if (src->parked[k].step.step < floor) {
                inlet_release(src->parked[k].in, &src->parked[k].step);
                unpark(src, k);
            }
        }
        hollow(src);
        if (src->in && src->told < floor && src->claimed == 0 && !src->closed)
            claim(src, NO_STEP, floor);
    }
}

/* Is a step that a writer does not have behind all that it had? */
static bool beyond(const struct stream_source *src, uint64_t step)
{
    for (size_t i = 0; i < src->nparked; i++) {
        if (src->parked[i].step.step < step)
            return false;
    }
    return step >= src->last;
}

/* Take what has come from a writer that follows, until it is `step`.  1; 0: that has not come, and
 * may be missing, or the writer has ended (`closed`); -1. */
static int follow_take(flux_stream_t *s, struct stream_source *src, uint64_t step, errmsg_t *err)
{
    int rc;

    if (src->has[0] || unpark_head(src, step))
        return 1;
    while (!src->closed && (rc = stream_reader_take(s, src, 0, err)) != 0) {
        if (rc < 0 && errno == ENODATA)
            src->closed = true;
        else if (rc < 0)
            return -1;
        else if (src->steps[0].step == step)
            return 1;
        else {
            src->has[0] = false;
            if (park(src, err) < 0)
                return -1;
        }
    }
    /* There will be another writer, which is to have this step. */
    if (s->stay && src->closed && (src->nparked == 0 || (step != NO_STEP && step >= src->last)) &&
        stream_reader_lost(s, src, err) < 0)
        return -1;
    return 0;
}

/* Ask all writers that follow for a step.  1: they have it, or `*missing`; 0: not yet; -1. */
static int ask(flux_stream_t *s, uint64_t step, bool *missing, errmsg_t *err)
{
    uint64_t floor = floor_of(s);
    bool waits = false;
    bool over = false;

    *missing = false;
    for (uint32_t i = 1; i < s->nsources; i++) {
        struct stream_source *src = &s->sources[i];
        int rc;

        if (!src->has[0] && !unpark_head(src, step) && src->in && !src->closed &&
            src->claimed != step + 1)
            claim(src, step, floor);
        if ((rc = follow_take(s, src, step, err)) < 0)
            return -1;
        if (rc == 1)
            continue;
        if (src->closed)
            over |= beyond(src, step);
        if (src->closed || (src->in && inlet_missing(src->in, step)))
            *missing = true;
        else
            waits = true;
    }
    if (over)
        return errmsg_fail(err, ENODATA, "the stream has ended");
    return !waits;
}

/* Release the step of rank 0, and what the others have given of it.  Keeps errno. */
static void pass_over(flux_stream_t *s)
{
    int saved = errno;

    for (uint32_t i = 0; i < s->nsources; i++) {
        stream_reader_release(&s->sources[i]);
        s->sources[i].claimed = 0;
    }
    errno = saved;
}

/* Rank 0 has given no step: notice whether the others have ended.  0; -1: one has died, or, with
 * ENODATA, has ended, and no step of it is left. */
static int look(flux_stream_t *s, errmsg_t *err)
{
    for (uint32_t i = 1; i < s->nsources; i++) {
        struct stream_source *src = &s->sources[i];

        if (follow_take(s, src, NO_STEP, err) < 0)
            return -1;
        INVARIANT(2, !src->closed || !src->has[0]);
        if (src->closed && src->nparked == 0)
            return errmsg_fail(err, ENODATA, "the stream has ended");
    }
    return 0;
}

int stream_group_agree(flux_stream_t *s, errmsg_t *err)
{
    struct stream_source *first = &s->sources[0];
    bool missing;
    int rc;

    for (;;) {
        if ((rc = stream_reader_take(s, first, 0, err)) < 0)
            return -1;
        stream_group_tell(s);
        if (rc == 0)
            return look(s, err);
        if ((rc = ask(s, first->steps[0].step, &missing, err)) < 0) {
            if (errno == ENODATA)
                pass_over(s);
            return -1;
        }
        if (rc == 0)
            return 0;
        if (!missing)
            break;
        pass_over(s);
    }
    for (uint32_t i = 1; i < s->nsources; i++) {
        INVARIANT(1, s->sources[i].steps[0].step == first->steps[0].step);
        s->sources[i].claimed = 0;
    }
    return 1;
}

/* stream_meet.c - a reader that meets a second stream: its transforms get the steps that both have.
 *
 * The second stream has a reader of its own, on the same handle, with the same options.  The steps
 * that the program sees are those of the first stream whose number the second one has, too: when a
 * step is begun, that of this number is begun there, and both end together.  Only transforms read
 * the second one, as their second input.
 *
 * Invariants:
 *  1. Between two calls of the program, the second reader has begun a step only if the first has,
 *     and it is the one of the same number.
 *
 * Failure: the error of the second stream, which names it.  If its step has not come in time, the
 * first stream is as before the call, and the next one goes on; so is a stream that ends, the end
 * of both.
 */
#include "config.h"
#include <errno.h>
#include <math.h>

#include "libstream/stream_private.h"
#include "libutil/clock.h"
#include "libutil/invariant.h"

#define HEAR_SECONDS 0.5 /* between two looks at what the module says of the first stream */
#define PEEK_SECONDS 1e-6

int stream_meet_open(flux_stream_t *s, const struct flux_stream_opts *opts, errmsg_t *err)
{
    struct flux_stream_opts own = *opts;

    if (opts->group || opts->team)
        return errmsg_fail(err, EINVAL,
                           "stream '%s': a member of a group or team does not join another stream",
                           s->name);
    own.join = own.transforms = NULL;
    s->other = flux_stream_open(s->h, opts->join, FLUX_STREAM_READ, &own, err);
    return s->other ? 0 : -1;
}

/* The step of the second stream with the number of the one that was begun: as
 * flux_stream_begin_step(). */
static int wait_other(flux_stream_t *s, double until, errmsg_t *err)
{
    for (;;) {
        double left = until - clock_now();
        int rc = flux_stream_begin_step(s->other, s->step,
                                        left > HEAR_SECONDS ? HEAR_SECONDS
                                        : left > 0.         ? left
                                                            : 0.,
                                        NULL, err);

        if (rc >= 0 || errno != ETIMEDOUT || left <= HEAR_SECONDS)
            return rc;
        if (stream_reader_hear(s, PEEK_SECONDS) < 0 && errno == ECANCELED)
            return 0;
    }
}

int stream_meet_begin(flux_stream_t *s, uint64_t which, double until, errmsg_t *err)
{
    int errnum;
    int rc;

    INVARIANT(1, s->begun && !s->other->begun);
    rc = wait_other(s, until, err);
    s->meets = rc < 0 && errno == ETIMEDOUT;
    if (rc == 1)
        return 1;
    if (s->meets) {
        s->begun = false;
        s->took.steps--;
        errno = ETIMEDOUT;
        return -1;
    }
    errnum = errno;
    stream_reader_end(s, NULL);
    if (rc < 0 && errnum == ENOENT && which >= FLUX_STREAM_NEWEST)
        return STREAM_MEET_AGAIN;
    errno = errnum;
    return rc;
}

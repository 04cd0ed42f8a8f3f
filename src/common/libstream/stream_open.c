/* stream_open.c - a process opens a stream to read it.
 *
 * Purpose: the options become what the reader wants of each writer (knock.h), and the request
 * stream.read (stream_join.c), whose responses name the writers.  The reader connects to those of
 * each response (stream_connect.c), until it is connected to all writers of a run.
 *
 *  State             Event                           What the reader does
 *  no writers        response without writers        wait for the next one
 *                    response with writers           connect to them
 *  some writers      response                        connect to those that are new
 *                    response with another number    begin with the writers of this run
 *                    of writers
 *                    all are connected               the stream is open
 *  any               a writer cannot be reached      ask anew (below)
 *                    the request is lost on its way  send it again (stream_join.c)
 *
 * A writer that cannot be reached may have left just then: the module is asked again, after pauses
 * that double, and opening fails only if it names such a writer for STREAM_WHY_SECONDS.
 *
 * Failure: an errno and a message that names the stream.  What was connected until then is freed
 * when the stream is closed, as flux_stream_open() does then.
 */
#include "config.h"
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "libstream/stream_private.h"
#include "libstream/stream_wire.h"
#include "libutil/clock.h"

#define PAUSE_LEAST 0.01  /* before the module is asked again which writers there are */
#define LOOK_SECONDS 0.25 /* between checks whether opening was interrupted */

static int want_all(flux_stream_t *s, const struct flux_stream_opts *opts, errmsg_t *err)
{
    knock_want_init(&s->want);
    if (opts->policy && knock_policy_parse(&s->want, opts->policy, err) < 0)
        return -1;
    if (opts->depth > s->want.depth)
        return errmsg_fail(err, EINVAL, "the queue of a stream has at most %u steps",
                           s->want.depth);
    if (opts->key && !opts->group)
        return errmsg_fail(err, EINVAL, "a key is for the members of a group");
    if (opts->onoff && opts->group)
        return errmsg_fail(err, EINVAL, "a member of a group has no switch");
    if (opts->team && opts->group)
        return errmsg_fail(err, EINVAL, "a member of a team has no group: each has all steps");
    if (!opts->team && (opts->rank > 0 || opts->size > 1))
        return errmsg_fail(err, EINVAL, "readers with a rank and a size have the name of a team");
    if (opts->team && knock_team_set(&s->want, opts->team, opts->rank, opts->size, err) < 0)
        return -1;
    if (!(opts->resume >= 0. && opts->resume <= KNOCK_HOLD_MAX) ||
        (opts->resume > 0. && !opts->group))
        return errmsg_fail(
            err, EINVAL, "the option resume is a time of at most %d s, and of a member of a group",
            KNOCK_HOLD_MAX);
    s->want.hold = (uint32_t)opts->resume; /* whole seconds, rounded up */
    s->want.hold += s->want.hold < opts->resume;
    if (opts->group && knock_group_set(&s->want, opts->group, opts->key, err) < 0)
        return -1;
    if (opts->by && knock_by_set(&s->want, opts->by, err) < 0)
        return -1;
    if (s->want.by_record && !opts->group)
        return errmsg_fail(err, EINVAL, "only the members of a group share the work by record");
    if (s->want.by_record && opts->stay)
        return errmsg_fail(err, EINVAL,
                           "members that share by record cannot stay: a restarted writer does not "
                           "know which records are done; share by step, or open the stream again "
                           "when its writer has left");
    if (opts->depth > 0)
        s->want.depth = opts->depth;
    if (opts->bytes > 0)
        s->want.bytes = opts->bytes;
    return 0;
}

static int want(flux_stream_t *s, const struct flux_stream_opts *opts, errmsg_t *err)
{
    errmsg_t why;

    if (want_all(s, opts, &why) < 0)
        return errmsg_fail(err, errno, "stream '%s': %s", s->name, why.text);
    return 0;
}

/* A number that no other reader has, and that JSON represents exactly. */
static uint64_t reader_number(void)
{
    uint64_t n;

    while (getrandom(&n, sizeof(n), 0) != (ssize_t)sizeof(n)) /* only signals delay it */
        ;
    return n >> 12;
}

/* Process a response while this reader waits for writers.  Returns how many have not come. */
static int members_take(flux_stream_t *s, const struct stream_members *ms, double left,
                        errmsg_t *err)
{
    int missing;

    if (!s->sources && json_array_size(ms->writers) == 0) { /* there is none yet */
        stream_attach_heard(s, ms->attached, ms->transforms);
        return 1;
    }
    missing = stream_connect_all(s, ms, left > 30. ? 30. : left > 0.001 ? left : 0.001, err);
    if (missing >= 0)
        stream_reader_gone(s, ms);
    return missing;
}

/* How long a reader still asks for other writers than one that it cannot reach. */
struct patience {
    double pause; /* 0: it has reached all that were named last */
    double end;
};

/* A writer could not be reached.  It may have left after the module has named it: ask again which
 * writers there are, after a pause in which the module may say that it has left.  1, or -1 with the
 * errno of connecting. */
static int ask_anew(flux_stream_t *s, struct patience *p, double until)
{
    int errnum = errno;
    double now = clock_now();

    if (p->pause == 0.)
        p->end = now + STREAM_WHY_SECONDS < until ? now + STREAM_WHY_SECONDS : until;
    p->pause = p->pause == 0. ? PAUSE_LEAST : 2. * p->pause;
    if ((errnum == ECONNRESET || errnum == ECONNREFUSED || errnum == EACCES) &&
        now + p->pause < p->end && flux_future_next(s->f) == 0) {
        (void)flux_future_wait(s->f, p->pause);
        if (stream_join_anew(s) == 0)
            return 1;
    }
    errno = errnum;
    return -1;
}

/* Wait until the module says something, or a wait is over that is so short because the program may
 * interrupt it.  1, 0, or -1. */
static int writers_wait(flux_stream_t *s, const struct flux_stream_opts *opts, double timeout,
                        double left, errmsg_t *err)
{
    double wait = opts->interrupted && left > LOOK_SECONDS ? LOOK_SECONDS : left;

    if (flux_future_wait(s->f, isinf(wait) ? 0. : wait > 1e-6 ? wait : 1e-6) == 0)
        return 1;
    if (errno == ETIMEDOUT && wait < left)
        return opts->interrupted(opts->arg)
                   ? errmsg_fail(err, EINTR, "opening stream '%s' was interrupted", s->name)
                   : 0;
    if (errno == ETIMEDOUT)
        return errmsg_fail(err, ETIMEDOUT,
                           s->sources ? "not all writers of stream '%s' have come within %g s"
                                      : "nobody has written stream '%s' within %g s",
                           s->name, timeout);
    return errmsg_fail(err, errno, "stream '%s' cannot be opened: %s", s->name, strerror(errno));
}

int stream_reader_open(flux_stream_t *s, const struct flux_stream_opts *opts, errmsg_t *err)
{
    char host[256] = "";
    char policy[16 + KNOCK_GROUP_MAX];
    struct stream_read r = {.name = s->name,
                            .reader = reader_number(),
                            .place = s->way.place,
                            .host = host,
                            .pid = (uint32_t)getpid(),
                            .policy = policy,
                            .onoff = opts->onoff ? opts->onoff : "",
                            .stay = opts->stay};
    double timeout = opts->timeout != 0. ? opts->timeout : STREAM_OPEN_TIMEOUT;
    double until = timeout < 0. ? INFINITY : clock_now() + timeout;
    struct patience patience = {.pause = 0.};
    errmsg_t why;
    uint32_t task;
    int missing = 1;

    stream_join_task(&r.job, &task);
    if (want(s, opts, err) < 0)
        return -1;
    if (stream_way_get(&s->way, s->h, opts, &why) < 0)
        return errmsg_fail(err, errno, "stream '%s' cannot be opened: %s", s->name, why.text);
    s->id = s->want.reader = r.reader;
    s->secure = opts->secure;
    s->encrypts = -1;
    r.far = s->way.tcp;
    s->stay = opts->stay;
    gethostname(host, sizeof(host) - 1);
    snprintf(policy, sizeof(policy), "%s%s", opts->group ? "group:" : "",
             opts->group    ? opts->group
             : opts->policy ? opts->policy
                            : "block");
    if (stream_join(s, &stream_read_schema, &r, err) < 0)
        return -1;
    while (missing > 0) {
        struct stream_members ms = {.attached = 0};
        double left = until - clock_now();
        int rc = writers_wait(s, opts, timeout, left, err);

        if (rc < 0)
            return -1;
        if (rc == 0 || stream_join_again(s))
            continue;
        stream_join_answered(s);
        if (flux_rpc_get_struct(s->f, &stream_members_schema, &ms, err) < 0)
            return -1;
        if ((missing = members_take(s, &ms, left, err)) < 0) {
            if ((missing = ask_anew(s, &patience, until)) < 0)
                return -1;
            continue;
        }
        patience.pause = 0.;
        if (flux_future_next(s->f) < 0)
            return errmsg_fail(err, ECANCELED, "stream '%s' was removed", s->name);
    }
    s->counted = clock_now();
    if (stream_group_shared(s))
        stream_group_tell(s);
    return 0;
}

/* stream_reader.c - a process that reads a stream.
 *
 * The module `stream` names the writers; this process connects to each of them (stream_open.c),
 * through memory or by TCP as determined by the module, and then needs the module only to learn why
 * a writer has left.  This reader reports its position to the module when it ends a step, at most
 * once in COUNT_SECONDS.  Each writer's steps come in rising order, so the steps that all writers
 * have are found like equal numbers in sorted lists: the largest number at the head of any list is
 * the next candidate; steps with smaller numbers cannot be complete any more, and are released.  A
 * writer without a step tells the least number that can come from it (outlet.c): that of a reader
 * which has joined it later than the others, or is still off there.
 *
 * Invariants:
 *  1. The head of a source is a step that was taken and not released.  While a step is begun, the
 *     heads of all sources have its number.
 *  2. The number of a begun step is larger than all before; but in a group, a step may come that
 *     another member had before; or, if members share by record, the same one with other records.
 *
 * A member of a group acknowledges a step by releasing it.  If there are several writers, that of
 * rank 0 has given it the step, and the others are asked for it (stream_group.c).  It therefore
 * releases only ended steps, also when the stream is closed: after the end of the connection,
 * another member gets the others.
 *
 * A reader that stays does not end with a writer.  It reads the remaining steps of that writer, and
 * then waits, with the steps of the others, until the module names a writer that has taken the
 * rank.  A writer that has died may have published more steps than it has counted.  Its successor
 * learns the last complete step from this reader, when the reader joins; a successor that has begun
 * before may publish numbers that were read already.  Such steps are skipped: invariant 2.  A
 * member of a group tells the last step that it was given instead, and the successor awaits it
 * (outlet_await.c).  When all writers have gone, the next ones may be more, or fewer; then it gets
 * other sources (stream_connect.c) as soon as one of the present ones has nothing more.
 *
 * If the reader has transforms, a step that was begun is shown as these make it: stream_view.c.
 *
 * Failure: see flux_stream_begin_step().  When one of several writers has closed its end, no
 * further step can be complete: this is the end of the stream.  A reader that does not stay leaves
 * the other writers when one has died, before it asks for the cause, and says the same again.
 */
#include "config.h"
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "libstream/stream_private.h"
#include "libstream/stream_wire.h"
#include "libutil/clock.h"
#include "libutil/invariant.h"

#define COUNT_SECONDS 1.
#define PEEK_SECONDS 1e-6 /* enough to read messages that have arrived */

enum { HEAD, NEXT };

static void release(struct stream_source *src, int slot)
{
    if (!src->has[slot])
        return;
    if (slot == HEAD) {
        block_destroy(src->block);
        src->block = NULL;
    }
    src->has[slot] = false;
    if (src->from) /* else the steps are in a file */
        inlet_release(slot == HEAD ? src->from : src->in, &src->steps[slot]);
}

void stream_reader_release(struct stream_source *src)
{
    release(src, HEAD);
}

void stream_reader_drop(struct stream_source *src)
{
    release(src, NEXT);
    release(src, HEAD);
}

void stream_reader_from(struct stream_source *src, inlet_t *in)
{
    if (src->from == in)
        return;
    src->from = in;
    block_destroy(src->pinned); /* another writer has other ones with the same numbers */
    src->pinned = NULL;
}

/* Make the step that follows the head, if there is one, the head. */
static void shift(struct stream_source *src)
{
    release(src, HEAD);
    src->steps[HEAD] = src->steps[NEXT];
    src->has[HEAD] = src->has[NEXT];
    src->has[NEXT] = false;
}

void stream_reader_leave(flux_stream_t *s)
{
    for (uint32_t i = 0; i < s->nsources; i++) {
        if (s->sources[i].in)
            inlet_leave(s->sources[i].in);
    }
    if (s->other)
        stream_reader_leave(s->other);
    flux_future_destroy(s->f);
    s->f = NULL;
}

void stream_reader_forget(flux_stream_t *s)
{
    for (uint32_t i = 0; i < s->nsources; i++) {
        block_destroy(s->sources[i].block);
        block_destroy(s->sources[i].pinned);
        inlet_destroy(s->sources[i].in);
        free(s->sources[i].parked);
        free(s->sources[i].address);
        free(s->sources[i].gone);
        json_decref(s->sources[i].next);
    }
    free(s->sources);
    s->sources = NULL;
    s->nsources = 0;
}

void stream_reader_close(flux_stream_t *s)
{
    stream_reader_forget(s);
    flux_stream_close(s->other);
    json_decref(s->coming);
    while (s->nleft > 0)
        inlet_destroy(s->left[--s->nleft]);
    free(s->left);
    if (s->poll_fd > 0)
        close(s->poll_fd - 1);
    hmap_destroy(s->arrays);
}

/* --- steps --- */

void stream_reader_known(flux_stream_t *s, const struct stream_member *m)
{
    s->sources[m->rank].writer = m->writer;
    s->sources[m->rank].run = s->took.run = m->run;
}

void stream_reader_instance(flux_stream_t *s, const struct stream_members *ms)
{
    if (s->born != 0 && s->born != ms->born) {
        s->took.run = 0;
        for (uint32_t i = 0; i < s->nsources; i++)
            s->sources[i].run = 0;
    }
    s->born = ms->born;
}

void stream_reader_gone(flux_stream_t *s, const struct stream_members *ms)
{
    struct stream_gone g;
    json_t *item;
    size_t i;

    json_array_foreach(ms->gone, i, item)
    {
        if (flux_schema_decode_json(&stream_gone_schema, item, &g, NULL) < 0)
            continue;
        for (uint32_t k = 0; k < s->nsources; k++) {
            struct stream_source *src = &s->sources[k];

            if (src->writer != g.writer || (src->gone && !src->more))
                continue;
            free(src->gone);
            src->gone = strdup(g.why);
            src->more = g.more;
        }
    }
}

/* This reader stays, and a run of another size has begun, or `size` is that of the present one:
 * forget those before, which have ended.  `coming` is an array for the writers of such a run, or
 * NULL, also without memory: the reader then waits for writers. */
static void note_size(flux_stream_t *s, uint32_t size)
{
    if (s->coming && s->ncoming == size)
        return;
    json_decref(s->coming);
    s->coming = size != s->nsources ? json_array() : NULL;
    s->ncoming = size;
    for (uint32_t i = 0; s->coming && i < s->nsources; i++) {
        json_decref(s->sources[i].next);
        s->sources[i].next = NULL;
    }
}

/* Process a message of the module: which writers have left.  Another instance of the module, which
 * has got this reader's request, gives writers other numbers. */
static void note(flux_stream_t *s, const struct stream_members *ms)
{
    struct stream_member m;
    json_t *item;
    size_t i;

    stream_reader_instance(s, ms);
    stream_attach_heard(s, ms->attached, ms->transforms);
    if (s->stay && json_array_size(ms->writers) > 0)
        note_size(s, ms->size);
    if (s->coming)
        json_array_extend(s->coming, ms->writers);
    json_array_foreach(ms->writers, i, item)
    {
        struct stream_source *src;

        if (s->coming || flux_schema_decode_json(&stream_member_schema, item, &m, NULL) < 0 ||
            m.rank >= s->nsources)
            continue;
        src = &s->sources[m.rank];
        if (src->address && strcmp(m.address, src->address) == 0) {
            /* It may have been called gone while the module could not reach it. */
            stream_reader_known(s, &m);
            free(src->gone);
            src->gone = NULL;
            src->more = false;
        } else if (s->stay) {
            json_decref(src->next);
            src->next = json_incref(item);
        }
    }
    stream_reader_gone(s, ms);
}

int stream_reader_hear(flux_stream_t *s, double seconds)
{
    struct stream_members ms = {.attached = 0};
    int errnum;

    if (flux_future_wait(s->f, seconds) < 0) {
        if (errno == ENODATA && s->heard_end) /* another caller has read it */
            errno = s->heard_end;
        return -1;
    }
    if (stream_join_again(s))
        return 0;
    errnum = flux_future_errnum(s->f);
    if (flux_rpc_get_struct(s->f, &stream_members_schema, &ms, NULL) == 0) {
        stream_join_answered(s);
        note(s, &ms);
    }
    if (flux_future_next(s->f) < 0) {
        errno = s->heard_end = errnum;
        return -1;
    }
    return 0;
}

/* Count what has come by TCP, from writers that are gone, too. */
static void count_far(flux_stream_t *s)
{
    struct inlet_stats st;

    s->took.received = 0;
    s->took.connections = 0;
    for (uint32_t i = 0; i < s->nsources; i++) {
        if (!s->sources[i].in)
            continue;
        inlet_get_stats(s->sources[i].in, &st);
        s->took.received += st.received;
        s->took.connections += st.far;
    }
    for (size_t i = 0; i < s->nleft; i++) {
        inlet_get_stats(s->left[i], &st);
        s->took.received += st.received;
    }
}

/* Report the position of this reader to the module. */
static void count(flux_stream_t *s)
{
    count_far(s);
    s->took.name = s->name;
    s->took.reader = s->id;
    flux_future_destroy(flux_rpc_struct(s->h, "stream.took", &stream_took_schema, &s->took,
                                        FLUX_NODEID_ANY, FLUX_MSGF_NORESPONSE));
}

/* Report to the module and read its messages, if it is time for that. */
static void report(flux_stream_t *s)
{
    double now = clock_now();

    if (!s->f || now < s->counted + COUNT_SECONDS)
        return;
    s->counted = now;
    while (stream_reader_hear(s, PEEK_SECONDS) == 0)
        ;
    count(s);
}

/* Say of which writer, and in which step, something is the matter. */
static void whose(const flux_stream_t *s, const struct stream_source *src, const errmsg_t *what,
                  errmsg_t *err)
{
    errmsg_set(err, "stream '%s', step %" PRIu64 ", rank %u of the writers: %s", s->name, src->last,
               (uint32_t)(src - s->sources), what->text);
}

/* The other writers need not wait for this reader, which has no further step. */
static void leave_others(flux_stream_t *s, const struct stream_source *dead)
{
    for (uint32_t i = 0; i < s->nsources; i++) {
        if (&s->sources[i] != dead && s->sources[i].in)
            inlet_leave(s->sources[i].in);
    }
}

/* Say why the connection to a writer was lost, for a reader that does not stay: what the module
 * says about the writer, if it says something in time; and in which step that was, the one behind
 * the last that this reader was offered.  If the connection has gone through a relay that has
 * ended, the writer may have gone later, and for another reason. */
static void why(flux_stream_t *s, struct stream_source *src, const errmsg_t *lost, errmsg_t *err)
{
    struct inlet_stats st;
    double left;

    if (src->why_until == 0.)
        src->why_until = clock_now() + STREAM_WHY_SECONDS;
    while ((!src->gone || src->more) && (left = src->why_until - clock_now()) > 0. &&
           stream_reader_hear(s, left) == 0)
        ;
    inlet_get_stats(src->in, &st);
    if (st.lost && src->gone)
        errmsg_set(err, "stream '%s': a relay has ended in step %" PRIu64 ", and by now %s",
                   s->name, src->last, src->gone);
    else if (st.lost)
        errmsg_set(err, "stream '%s', step %" PRIu64 ": %s", s->name, src->last, lost->text);
    else if (src->gone && src->last > 0)
        errmsg_set(err, "stream '%s': %s in step %" PRIu64, s->name, src->gone, src->last);
    else if (src->gone)
        errmsg_set(err, "stream '%s': %s", s->name, src->gone);
    else
        whose(s, src, lost, err);
}

/* Memory of the former writer stays mapped, and as it is while steps of it are parked. */
int stream_reader_lost(flux_stream_t *s, struct stream_source *src, errmsg_t *err)
{
    inlet_t **more = realloc(s->left, (s->nleft + 1) * sizeof(inlet_t *));

    if (!more)
        return errmsg_fail(err, ENOMEM, "out of memory for the writers of stream '%s'", s->name);
    s->left = more;
    s->left[s->nleft++] = src->in;
    stream_group_leave(s, src);
    src->from = NULL;
    block_destroy(src->pinned);
    src->pinned = NULL;
    free(src->gone);
    src->gone = NULL;
    src->more = false;
    count(s);
    return 0;
}

/* Connect to the writer that has taken the rank of one that is gone.  0, or -1. */
static int source_next(flux_stream_t *s, struct stream_source *src, errmsg_t *err)
{
    struct stream_member m;
    json_t *next = src->next;
    int rc = 0;

    src->next = NULL;
    if (flux_schema_decode_json(&stream_member_schema, next, &m, err) < 0)
        rc = -1;
    else if (stream_connect_one(s, &m, STREAM_OPEN_TIMEOUT, err) < 0)
        /* This writer may be gone as well. */
        rc = errno == ECONNREFUSED || errno == ECONNRESET || errno == EACCES ? 0 : -1;
    json_decref(next);
    return rc;
}

/* If writers are gone, connect to those that have taken their ranks, or to those of a run of
 * another size; if there are none yet, wait for a message of the module, at most `seconds`.  1; 0:
 * no writer is gone; -1. */
static int sources_next(flux_stream_t *s, double seconds, errmsg_t *err)
{
    bool missing = false;
    bool came = false;

    for (uint32_t i = 0; s->coming && i < s->nsources; i++) {
        if (!s->sources[i].in && stream_connect_resize(s, err) < 0)
            return -1;
    }
    for (uint32_t i = 0; i < s->nsources; i++) {
        struct stream_source *src = &s->sources[i];

        if (src->in)
            continue;
        missing = true;
        if (src->next) {
            came = true;
            if (source_next(s, src, err) < 0)
                return -1;
        }
    }
    if (seconds > 1e6)
        seconds = 1e6;
    if (missing && !came &&
        stream_reader_hear(s, seconds > PEEK_SECONDS ? seconds : PEEK_SECONDS) < 0 &&
        errno != ETIMEDOUT)
        return errmsg_fail(err, errno, "stream '%s': nobody tells any more who writes it: %s",
                           s->name, strerror(errno));
    return missing;
}

int stream_reader_take(flux_stream_t *s, struct stream_source *src, int slot, errmsg_t *err)
{
    errmsg_t lost;
    int rc;

    if (!src->has[HEAD])
        shift(src);
    if (src->has[slot])
        return 1;
    if (!src->in)
        return 0;
    if (slot == HEAD)
        stream_reader_from(src, src->in);
    if ((rc = inlet_take(src->in, &src->steps[slot], &lost)) < 0 && err)
        *err = lost;
    if (rc < 0 && s->stay && slot == HEAD &&
        (errno == ECONNRESET || (errno == ENODATA && src->nparked == 0)))
        return stream_reader_lost(s, src, err);
    if (rc < 0 && errno == ECONNRESET && slot == HEAD) {
        leave_others(s, src);
        why(s, src, &lost, &s->died);
        return errmsg_fail(err, ECONNRESET, "%s", s->died.text);
    }
    if (rc < 0 && errno != ENODATA)
        whose(s, src, &lost, err);
    src->has[slot] = rc == 1;
    if (rc == 1 && src->last <= src->steps[slot].step) /* they may fall in a group */
        src->last = src->steps[slot].step + 1;
    return rc;
}

/* Wait, at most `seconds`, until a source without a head has a step, or one without a writer may
 * have a writer. */
static int sources_wait(flux_stream_t *s, double seconds, errmsg_t *err)
{
    struct pollfd *p;
    double begin = clock_now();
    bool sleep = true;
    int rc;

    if ((rc = sources_next(s, seconds, err)) != 0) {
        s->took.waited += clock_now() - begin;
        return rc < 0 ? -1 : 0;
    }
    if (!(p = calloc(s->nsources, sizeof(*p))))
        return errmsg_fail(err, ENOMEM, "out of memory for the %u writers of stream '%s'",
                           s->nsources, s->name);
    for (uint32_t i = 0; i < s->nsources; i++) {
        struct stream_source *src = &s->sources[i];

        p[i].fd = src->has[HEAD] || src->closed ? -1 : inlet_fd(src->in);
        p[i].events = POLLIN;
        if (p[i].fd >= 0 && !inlet_sleep(src->in))
            sleep = false;
    }
    if (sleep)
        poll(p, s->nsources, clock_poll_ms(seconds));
    for (uint32_t i = 0; i < s->nsources; i++) {
        if (p[i].fd >= 0)
            inlet_wake(s->sources[i].in);
    }
    free(p);
    s->took.waited += clock_now() - begin;
    return 0;
}

int flux_stream_pollfd(flux_stream_t *s, errmsg_t *err)
{
    if (s->mode == FLUX_STREAM_WRITE)
        return stream_async_fd(s, err);
    if (s->tape || s->begun)
        return errmsg_fail(err, EINVAL, "stream '%s' does not wait for a step", s->name);
    if (s->meets)
        return flux_stream_pollfd(s->other, err);
    if (s->stay)
        return errmsg_fail(err, EINVAL, "a reader that stays has no descriptor: stream '%s'",
                           s->name);
    if (s->poll_fd == 0 && (s->poll_fd = epoll_create1(EPOLL_CLOEXEC) + 1) == 0)
        return errmsg_fail(err, errno, "stream '%s': %s", s->name, strerror(errno));
    for (uint32_t i = 0; i < s->nsources; i++) {
        struct stream_source *src = &s->sources[i];
        struct epoll_event ev = {.events = EPOLLIN};
        bool wait = !src->has[HEAD] && !src->closed;

        /* Sources that have a step are not in the set: the end of their connection would be
         * reported repeatedly. */
        if (src->polled != wait &&
            epoll_ctl(s->poll_fd - 1, src->polled ? EPOLL_CTL_DEL : EPOLL_CTL_ADD,
                      inlet_fd(src->in), &ev) < 0)
            return errmsg_fail(err, errno, "stream '%s': %s", s->name, strerror(errno));
        src->polled = wait;
        if (src->polled && !inlet_sleep(src->in))
            return errmsg_fail(err, EAGAIN, "stream '%s' may have a step", s->name);
    }
    return s->poll_fd - 1;
}

/* The least number of the steps that come from a source, beside those that wait there. */
static uint64_t floor_of(const flux_stream_t *s, const struct stream_source *src)
{
    bool counts = s->want.group[0] == '\0' && s->want.team[0] == '\0' && src->run == s->took.run;

    return src->in && counts ? inlet_floor(src->in) : 0;
}

/* Make the heads of all sources, or the steps that follow these, the same step, of at least number
 * `least`.  1; 0: not now; -1.  For heads, 0 means that each source was examined: those without a
 * head have no step, and have not ended, so the caller can only wait for these. */
static int agree(flux_stream_t *s, int slot, uint64_t least, errmsg_t *err)
{
    uint64_t target = least;
    uint32_t same = 0;
    uint32_t waits = 0;

    for (uint32_t i = 0; same + waits < s->nsources; i = (i + 1) % s->nsources) {
        struct stream_source *src = &s->sources[i];
        uint64_t floor;
        int rc;

        do { /* the floor counts if no step has come since it was read */
            floor = floor_of(s, src);
            while ((rc = stream_reader_take(s, src, slot, err)) == 1 &&
                   (src->steps[slot].step < target || src->run < s->took.run))
                release(src, slot);
        } while (rc == 0 && floor_of(s, src) != floor);
        if (rc < 0 || (rc == 0 && slot == NEXT))
            return rc;
        if (rc == 0) {
            if (floor > target) {
                target = floor;
                same = waits = 0;
            }
            waits++;
            continue;
        }
        if (src->steps[slot].step > target) {
            target = src->steps[slot].step;
            same = waits = 0;
        }
        same++;
    }
    return waits > 0 ? 0 : 1;
}

/* Can a step of this number not come any more?  A later one was begun, or a writer has one. */
static bool passed(const flux_stream_t *s, uint64_t which)
{
    if (which < s->took.step)
        return true;
    for (uint32_t i = 0; i < s->nsources; i++) {
        if (s->sources[i].has[HEAD] && s->sources[i].steps[HEAD].step > which)
            return true;
    }
    return false;
}

/* The least number of the step to begin: if the reader stays, above what it has had of the run. */
static uint64_t least(const flux_stream_t *s, uint64_t which)
{
    uint64_t before = s->stay && s->want.group[0] == '\0' ? s->took.step : 0;

    return which >= FLUX_STREAM_NEWEST || which < before ? before : which;
}

/* Begin a step as it has come. */
static int begin(flux_stream_t *s, uint64_t which, double until, double timeout, uint64_t *step,
                 errmsg_t *err)
{
    bool exact = which < FLUX_STREAM_NEWEST;
    bool last = false;
    int rc;

    if (s->tape)
        return stream_file_begin(s, which, step, err);
    if (s->want.group[0] != '\0' && which != FLUX_STREAM_NEXT)
        return errmsg_fail(err, EINVAL, "a member of a group of stream '%s' reads the next step",
                           s->name);
    while ((rc = stream_group_shared(s) ? stream_group_agree(s, err)
                                        : agree(s, HEAD, least(s, which), err)) == 0) {
        double left = until - clock_now();

        if (exact && passed(s, which))
            break;
        if (last)
            return errmsg_fail(err, ETIMEDOUT, "stream '%s' has had no step within %g s", s->name,
                               timeout);
        if (sources_wait(s, left, err) < 0)
            return s->stay && errno == ECANCELED ? 0 : -1;
        last = left <= 0.;
    }
    if (rc < 0 && errno == ENODATA)
        return 0;
    if (rc < 0)
        return -1;
    if (exact && passed(s, which))
        return errmsg_fail(err, ENOENT, "step %" PRIu64 " of stream '%s' cannot come any more",
                           which, s->name);
    while (which == FLUX_STREAM_NEWEST && agree(s, NEXT, 0, NULL) == 1) {
        for (uint32_t i = 0; i < s->nsources; i++)
            shift(&s->sources[i]);
    }
    s->step = s->sources[0].steps[HEAD].step;
    for (uint32_t i = 0; i < s->nsources; i++) {
        if (s->epoch < s->sources[i].epoch)
            s->epoch = s->sources[i].epoch;
    }
    s->begun = true;
    s->took.steps++;
    if (step)
        *step = s->step;
    return 1;
}

int flux_stream_begin_step(flux_stream_t *s, uint64_t which, double timeout, uint64_t *step,
                           errmsg_t *err)
{
    double until = timeout < 0. ? INFINITY : clock_now() + timeout;
    int rc;

    if (s->mode != FLUX_STREAM_READ || s->begun)
        return errmsg_fail(err, EINVAL,
                           s->begun ? "step %" PRIu64 " of stream '%s' was not ended"
                                    : "step %" PRIu64 " of stream '%s' is written, not read",
                           s->step, s->name);
    if (stream_view_failed(s, err) < 0)
        return -1;
    if (s->died.text[0])
        return errmsg_fail(err, ECONNRESET, "%s", s->died.text);
    stream_attach_use(s);
    s->meets = false;
    while ((rc = begin(s, which, until, timeout, step, err)) == 1 && (s->other || s->chain)) {
        if (s->other && (rc = stream_meet_begin(s, which, until, err)) == STREAM_MEET_AGAIN)
            continue;
        if (rc != 1 || !s->chain || (rc = stream_view_begin(s, err)) != 0)
            return rc;
        if (which < FLUX_STREAM_NEWEST)
            return errmsg_fail(err, ENOENT,
                               "step %" PRIu64 " of stream '%s' was dropped by a transform", which,
                               s->name);
    }
    return rc;
}

int stream_reader_end(flux_stream_t *s, errmsg_t *err)
{
    if (!s->begun)
        return errmsg_fail(err, EINVAL, "stream '%s' has no step that was begun", s->name);
    s->begun = false;
    stream_view_end(s);
    stream_records_release(s);
    stream_schedule_forget(s);
    if (s->want.by_record)
        stream_group_keep(s);
    for (uint32_t i = 0; i < s->nsources; i++)
        release(&s->sources[i], HEAD);
    s->took.step = s->step + 1;
    report(s);
    if (s->other && s->other->begun)
        stream_reader_end(s->other, NULL);
    return 0;
}

/* --- the content of a step --- */

uint32_t flux_stream_writers(const flux_stream_t *s)
{
    return s->nsources;
}

block_t *stream_reader_block(flux_stream_t *s, uint32_t writer, errmsg_t *err)
{
    struct stream_source *src;

    if (!s->begun || writer >= s->nsources) {
        errmsg_fail(err, EINVAL,
                    s->begun ? "stream '%s' has no writer of rank %u"
                             : "stream '%s' has no step that was begun to get data of rank %u",
                    s->name, writer);
        return NULL;
    }
    src = &s->sources[writer];
    INVARIANT(1, src->has[HEAD] && src->steps[HEAD].step == s->step);
    if (!src->block)
        src->block = block_read(src->steps[HEAD].data, src->steps[HEAD].len, err);
    return src->block;
}

int stream_reader_find(flux_stream_t *s, uint32_t writer, const char *var, struct stream_found *f,
                       errmsg_t *err)
{
    block_t *b = stream_reader_block(s, writer, err);
    struct stream_source *src;
    int rc;

    if (!b)
        return -1;
    if (stream_view_find(s, writer, var, f, &rc))
        return rc;
    src = &s->sources[writer];
    *f = (struct stream_found){
        .var = block_find(b, var), .step = &src->steps[HEAD], .in = src->from};
    if (!f->var) {
        if ((rc = stream_pin_read(src, err)) <= 0)
            return rc;
        b = src->pinned;
        *f = (struct stream_found){.var = block_find(b, var), .step = &src->pin};
    }
    if (!f->var)
        return 0;
    f->val = (struct inlet_value){(uint32_t)(f->var - block_at(b, 0)), f->var->off, f->var->len};
    return 1;
}

block_t *stream_reader_whole(flux_stream_t *s, uint32_t writer, errmsg_t *err)
{
    block_t *b = stream_reader_block(s, writer, err);
    errmsg_t why;

    if (b && inlet_fetch_all(s->sources[writer].from, &s->sources[writer].steps[HEAD], &why) < 0) {
        errmsg_fail(err, errno, "step %" PRIu64 " of stream '%s', rank %u of the writers: %s",
                    s->step, s->name, writer, why.text);
        return NULL;
    }
    return b;
}

const char *flux_stream_var(flux_stream_t *s, uint32_t writer, size_t i)
{
    block_t *b = stream_reader_block(s, writer, NULL);
    const struct block_var *v;

    if (b && stream_view_on(s))
        return stream_view_name(s, writer, i);
    v = b ? block_at(b, i) : NULL;
    return v ? v->name : NULL;
}

int stream_reader_unread(flux_stream_t *s, uint32_t writer, const char *var, const errmsg_t *lost,
                         errmsg_t *err)
{
    errmsg_t text;

    if (errno == ECONNRESET && !s->stay) {
        why(s, &s->sources[writer], lost, &text);
        return errmsg_fail(err, ECONNRESET, "variable '%s' in step %" PRIu64 " was not read: %s",
                           var, s->step, text.text);
    }
    return errmsg_fail(err, errno,
                       "variable '%s' in step %" PRIu64 " of stream '%s', rank %u of the writers: "
                       "%s",
                       var, s->step, s->name, writer, lost->text);
}

int flux_stream_get(flux_stream_t *s, uint32_t writer, const char *var, const void **data,
                    size_t *len, errmsg_t *err)
{
    struct stream_found f;
    struct inlet_stats st = {.far = false};
    int rc = stream_reader_find(s, writer, var, &f, err);
    errmsg_t why;

    if (rc < 0)
        return -1;
    if (rc == 0)
        return errmsg_fail(err, ENOENT,
                           "step %" PRIu64 " of stream '%s' has no variable '%.127s' of rank %u",
                           s->step, s->name, var, writer);
    if (inlet_fetch(f.in, f.step, &f.val, &why) < 0)
        return stream_reader_unread(s, writer, var, &why, err);
    *len = f.val.len;
    *data = (const char *)f.step->data + f.val.off;
    if (s->sources[writer].from && !f.made) /* else it is a file, or here */
        inlet_get_stats(s->sources[writer].from, &st);
    stream_reader_asked(s, *len, st.far ? *len : 0);
    return 0;
}

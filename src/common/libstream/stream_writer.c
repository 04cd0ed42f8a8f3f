/* stream_writer.c - a process that writes a stream.
 *
 * It has an outlet (outlet.h), whose address and capability the module `stream` sends to readers.
 * Putting a variable only records it; the end of the step copies all variables, once, into the
 * memory of the outlet.  A step that no reader would see is only counted.
 *
 * While steps are ended, and while one waits, this writer reports its progress to the module, at
 * most once in COUNT_SECONDS; and the writer checks, at most once in LISTEN_SECONDS, whether the
 * stream was removed, paused, resumed or throttled.  A step that is ended while the stream is
 * paused, or before the time that the limit permits, waits with its data, before it waits for
 * readers.
 *
 * If the writer has transforms, these come first: stream_sift.c.
 *
 * A step that is pending (stream_async.c) comes before all that is done with the next one.
 *
 * A writer that was killed has not counted its last steps.  Readers that stay know the last one
 * that was complete, and tell the writer that they join next; so a writer that waits for them as it
 * is opened begins with the step after it.  The only writer of a stream waits for all readers that
 * stay, but not for long; when one of them joins later, the step after the present one has a number
 * above those that this reader has had.  One of several writers goes on counting, since its steps
 * belong to the steps of the others that have the same numbers.  If members of groups stay, the
 * writer awaits them (outlet_await.c), and begins with the first step that they may need.
 *
 * The last count is answered, at most CLOSE_SECONDS are spent on that: the writers after this one
 * begin with the step that it says.
 *
 * Failure: see flux_stream_end_step().  The loss of the broker does not stop the stream: data do
 * not pass through it, and connected readers continue; a pause or limit ends with it.
 */
#include "config.h"
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include "libstream/encode.h"
#include "libstream/stream_private.h"
#include "libstream/stream_wire.h"
#include "libutil/clock.h"
#include "libutil/hex.h"
#include "libutil/strutil.h"

#define COUNT_SECONDS 1.
#define LISTEN_SECONDS 0.1
#define GROUP "group:" /* and a name: the policy of a member */
#define CLOSE_SECONDS 10.
#define STAY_SECONDS 2. /* that a restarted writer gives readers that stay to connect */
#define STEP_MAX (((uint64_t)1 << 53) - 1) /* JSON represents all numbers up to it */
#define PEEK_SECONDS 1e-6                  /* enough to read messages that have arrived */

/* Await a member of a group that may have steps of a writer whose place this one takes. */
static void await(flux_stream_t *s, const struct stream_demand *w)
{
    if (!s->opening)
        return;
    s->named++;
    if (s->epoch > 1)
        outlet_await(s->out, w->reader, w->policy + strlen(GROUP), s->rank > 0);
}

/* Adopt the policies of readers from the module.  Those from another instance of it, for which this
 * writer had another number, are void. */
static void readers_want(flux_stream_t *s, const struct stream_written *out)
{
    struct knock_want *wants = calloc(json_array_size(out->readers) + 1, sizeof(*wants));
    json_t *item;
    size_t n = 0;
    size_t i;

    if (s->id != out->writer) {
        outlet_forget_all(s->out);
        stream_records_repeat(s);
    }
    json_array_foreach(out->gone, i, item)
    {
        outlet_forget(s->out, (uint64_t)json_integer_value(item));
    }
    json_array_foreach(out->readers, i, item)
    {
        struct stream_demand w;

        if (!wants || flux_schema_decode_json(&stream_demand_schema, item, &w, NULL) < 0)
            continue;
        if (str_starts(w.policy, GROUP))
            await(s, &w);
        else if (knock_policy_parse(&wants[n], w.policy, NULL) == 0) {
            wants[n].reader = w.reader;
            wants[n++].off = w.off;
        }
    }
    if (wants)
        outlet_want(s->out, wants, n);
    free(wants);
    if (out->clock > 0.)
        outlet_set_clock(s->out, out->clock);
    s->shares = out->shares;
    s->id = out->writer;
}

static int heard(flux_stream_t *s, double seconds, errmsg_t *err);

/* Hear the rest, if the module has not named all members of groups in its first response. */
static int hear_members(flux_stream_t *s, errmsg_t *err)
{
    double until = clock_now() + STAY_SECONDS;

    while (s->named < s->shares && clock_now() < until) {
        if (heard(s, LISTEN_SECONDS, err) < 0)
            return -1;
    }
    s->opening = false;
    return 0;
}

static int wait_readers(flux_stream_t *s, uint32_t readers, double timeout, errmsg_t *err)
{
    errmsg_t why;

    if (outlet_wait(s->out, readers, timeout, &why) < 0)
        return errmsg_fail(err, errno, "stream '%s': %s", s->name, why.text);
    return 0;
}

int stream_writer_open(flux_stream_t *s, const struct flux_stream_opts *opts, errmsg_t *err)
{
    unsigned char key[KNOCK_KEY_LEN];
    char digits[2 * KNOCK_KEY_LEN + 1];
    char host[256] = "";
    char far[FAR_ADDR_MAX];
    struct outlet_opts o = {
        .key = key, .evict = opts->evict, .keep = opts->keep, .depth = opts->depth};
    struct stream_way way;
    struct stream_write w = {.name = s->name,
                             .rank = opts->rank,
                             .size = opts->size,
                             .launched = s->launched,
                             .start = opts->start ? opts->start : "",
                             .host = host,
                             .place = way.place,
                             .far = far,
                             .key = digits};
    double timeout = opts->timeout != 0. ? opts->timeout : STREAM_OPEN_TIMEOUT;
    struct stream_written out = {.stays = 0};
    errmsg_t why;

    if (getrandom(key, sizeof(key), 0) != (ssize_t)sizeof(key) ||
        gethostname(host, sizeof(host) - 1) < 0)
        return errmsg_fail(err, errno, "stream '%s' cannot be opened: %s", s->name,
                           strerror(errno));
    *hex_encode(digits, key, sizeof(key)) = '\0';
    if (!(s->vars = block_create()))
        return errmsg_fail(err, ENOMEM, "out of memory");
    if (!(opts->evict >= 0.))
        return errmsg_fail(err, EINVAL, "stream '%s': the option evict is a time, not below 0 s",
                           s->name);
    if (stream_way_get(&way, s->h, opts, &why) < 0 ||
        stream_way_listen(&way, s->h, s->name, opts, &o.far, far, &why) < 0 ||
        !(s->out = outlet_create(&o, &why)))
        return errmsg_fail(err, errno, "stream '%s' cannot be opened: %s", s->name, why.text);
    w.address = outlet_name(s->out);
    s->alone = w.size == 1;
    s->rank = w.rank;
    stream_join_task(&w.job, &w.task);
    if (stream_join(s, &stream_write_schema, &w, err) < 0)
        return -1;
    if (flux_rpc_wait_struct(s->f, timeout < 0. ? 0. : timeout, &stream_written_schema, &out, err) <
        0)
        return -1;
    stream_join_answered(s);
    s->opening = true;
    s->step = out.step;
    s->epoch = out.epoch;
    s->paused = out.paused;
    s->limit = out.limit;
    stream_attach_heard(s, out.attached, out.transforms);
    readers_want(s, &out);
    s->counted = s->listened = clock_now();
    if (flux_future_next(s->f) < 0)
        return errmsg_fail(err, ECANCELED, "stream '%s' was removed", s->name);
    if (hear_members(s, err) < 0 || wait_readers(s, opts->readers, timeout, err) < 0)
        return -1;
    if (s->alone && out.epoch > 1 && out.stays > opts->readers)
        (void)outlet_wait(s->out, out.stays, STAY_SECONDS, NULL);
    if (s->step < outlet_seen(s->out) && (s->alone || s->named == 0))
        s->step = outlet_seen(s->out);
    return 0;
}

/* The number of the next step is above those that readers which have joined meanwhile have had. */
static void pass_seen(flux_stream_t *s)
{
    uint64_t seen = s->alone && !s->placed ? outlet_seen(s->out) : 0;

    if (s->step < seen)
        s->step = seen;
}

int flux_stream_wait_readers(flux_stream_t *s, uint32_t readers, double timeout, errmsg_t *err)
{
    if (s->mode != FLUX_STREAM_WRITE)
        return errmsg_fail(err, EINVAL, "stream '%s' was opened for reading", s->name);
    if (wait_readers(s, readers, timeout, err) < 0)
        return -1;
    pass_seen(s);
    return 0;
}

/* Why a variable cannot be added to a step. */
static const char *why_not(int errnum)
{
    return errnum == EEXIST   ? "the step has this variable already"
           : errnum == EINVAL ? "a name has 1 to 127 printable characters without blanks"
           : errnum == E2BIG  ? "the step has too many variables, or becomes too large"
                              : strerror(errnum);
}

static int put(flux_stream_t *s, const char *var, const void *desc, size_t desc_len,
               const struct stream_put *put, size_t len, errmsg_t *err)
{
    size_t n = block_count(s->vars);

    if (s->placed)
        return errmsg_fail(err, EINVAL, "step %" PRIu64 " of stream '%s' has its place already",
                           s->step, s->name);
    if (n == s->room) {
        size_t room = n > 0 ? 2 * n : 8;
        struct stream_put *more = realloc(s->put, room * sizeof(*more));

        if (!more)
            return errmsg_fail(err, ENOMEM, "out of memory for step %" PRIu64 " of stream '%s'",
                               s->step, s->name);
        s->put = more;
        s->room = room;
    }
    if (block_add(s->vars, var, desc, desc_len, len) < 0)
        return errmsg_fail(err, errno, "variable '%.127s' of step %" PRIu64 " of stream '%s': %s",
                           var, s->step, s->name, why_not(errno));
    s->put[n] = *put;
    s->reserved += !put->data && len > 0;
    return 0;
}

int stream_writer_put(flux_stream_t *s, const char *var, const void *desc, size_t desc_len,
                      const void *data, size_t len, errmsg_t *err)
{
    return put(s, var, desc, desc_len, &(struct stream_put){.data = data}, len, err);
}

int stream_writer_put_records(flux_stream_t *s, const char *var, const void *desc, size_t desc_len,
                              const stream_format_t *f, const void *recs, uint64_t n, errmsg_t *err)
{
    return put(s, var, desc, desc_len, &(struct stream_put){recs, f, n}, 0, err);
}

int flux_stream_put(flux_stream_t *s, const char *var, const void *data, size_t len, errmsg_t *err)
{
    if (s->mode != FLUX_STREAM_WRITE)
        return errmsg_fail(err, EINVAL, "stream '%s' was opened for reading", s->name);
    return stream_writer_put(s, var, NULL, 0, data, len, err);
}

/* The readers of which the module is to know.  NULL with ENOMEM. */
static json_t *queues(flux_stream_t *s)
{
    struct outlet_queue q[STREAM_QUEUES_MAX];
    size_t n = outlet_get_queues(s->out, q, STREAM_QUEUES_MAX);
    json_t *all = json_array();

    for (size_t i = 0; i < n; i++) {
        const struct stream_queue one = {q[i].reader, q[i].bytes, q[i].dropped, q[i].blocked};

        if (json_array_append_new(all, flux_schema_encode_json(&stream_queue_schema, &one)) < 0) {
            json_decref(all);
            errno = ENOMEM;
            return NULL;
        }
    }
    return all;
}

/* Report the progress of this writer to the module.  NULL with errno. */
static flux_future_t *count(flux_stream_t *s, int flags)
{
    struct outlet_stats st;
    struct stream_count c = {.name = s->name, .writer = s->id, .step = s->step, .epoch = s->epoch};
    flux_future_t *f;

    outlet_get_stats(s->out, &st);
    c.need = outlet_need(s->out, s->step);
    c.steps = st.steps;
    c.bytes = st.bytes;
    c.copied = s->copied;
    c.dropped = st.dropped;
    c.queue = st.live;
    c.pinned = st.pinned;
    c.blocked = st.blocked;
    c.held = s->held;
    c.faults = s->faults;
    c.sent = st.sent;
    c.connections = st.connections;
    c.failed = s->failed;
    if (!(c.queues = queues(s)))
        return NULL;
    f = flux_rpc_struct(s->h, "stream.count", &stream_count_schema, &c, FLUX_NODEID_ANY, flags);
    json_decref(c.queues);
    return f;
}

/* Nobody could end a pause, or a limit, any more. */
static void unheard(flux_stream_t *s)
{
    s->paused = false;
    s->limit = 0.;
    stream_async_update(s, 0);
}

/* Another instance of the module, which has got this writer's request, gives it another number. */
int stream_writer_take(flux_stream_t *s, errmsg_t *err)
{
    while (flux_future_ready(s->f)) {
        struct stream_written w = {.stays = 0};

        if (flux_future_errnum(s->f) == ECANCELED) {
            s->id = 0;
            stream_async_update(s, ECANCELED);
            return errmsg_fail(err, ECANCELED, "%s", flux_future_error(s->f));
        }
        if (stream_join_again(s))
            break;
        if (flux_rpc_get_struct(s->f, &stream_written_schema, &w, NULL) == 0) {
            stream_join_answered(s);
            s->paused = w.paused;
            if (s->limit != w.limit)
                s->due = 0.;
            s->limit = w.limit;
            stream_attach_heard(s, w.attached, w.transforms);
            readers_want(s, &w);
            stream_async_update(s, 0);
        }
        if (flux_future_next(s->f) < 0) {
            unheard(s);
            break;
        }
    }
    return 0;
}

/* Read what the module says within `seconds`: -1 if the stream was removed. */
static int heard(flux_stream_t *s, double seconds, errmsg_t *err)
{
    for (; flux_future_wait(s->f, seconds) == 0; seconds = PEEK_SECONDS) {
        if (stream_writer_take(s, err) < 0)
            return -1;
    }
    if (errno != ETIMEDOUT)
        unheard(s);
    return 0;
}

/* Report the last count, and wait for the response.  The report is repeated when the module has too
 * much to do, or when another instance of it gives this writer another number.  Inside a module,
 * which does not wait, it is sent once. */
static void count_last(flux_stream_t *s)
{
    double until = clock_now() + CLOSE_SECONDS, left = CLOSE_SECONDS, pause = PEEK_SECONDS;
    uint64_t id = 0;

    while (left > 0. && heard(s, pause, NULL) == 0 && s->id != id) {
        flux_future_t *f = count(s, 0);
        errmsg_t err;
        int rc = f ? flux_rpc_wait_struct(f, left, NULL, NULL, &err) : 0;
        bool busy = rc < 0 && errno == EAGAIN;

        if (rc == 0 || (!busy && errno != ENOENT)) {
            flux_future_destroy(f);
            break;
        }
        flux_future_destroy(f);
        id = busy ? 0 : s->id;
        pause = busy ? LISTEN_SECONDS : PEEK_SECONDS;
        left = until - clock_now();
    }
}

void flux_stream_fail(flux_stream_t *s)
{
    if (s)
        s->failed = s->mode == FLUX_STREAM_WRITE;
}

static void writer_end(flux_stream_t *s)
{
    if (!s->out)
        return;
    stream_async_close(s, CLOSE_SECONDS);
    if (s->id > 0)
        count_last(s);
    /* New readers are not notified of this writer while it waits for those that are connected. */
    flux_future_destroy(s->f);
    s->f = NULL;
    flux_handle_wait(s->h, 0.); /* sends it now; not inside a module, which does not wait */
    if (s->failed && s->id > 0) /* the stream was not removed */
        outlet_fail(s->out);
    outlet_destroy(s->out);
    s->out = NULL;
}

void stream_writer_leave(flux_stream_t *s)
{
    if (s->out) {
        s->memory = outlet_leave_memory(s->out, &s->memory_len);
        writer_end(s);
    }
}

void stream_writer_close(flux_stream_t *s)
{
    writer_end(s);
    if (s->memory)
        munmap(s->memory, s->memory_len);
    free(s->own);
    block_destroy(s->vars);
    block_destroy(s->pinned);
    hmap_destroy(s->pins);
    free(s->put);
}

int stream_writer_report(flux_stream_t *s, errmsg_t *err)
{
    double now = clock_now();

    if (now < s->listened + LISTEN_SECONDS)
        return 0;
    s->listened = now;
    if (heard(s, PEEK_SECONDS, err) < 0)
        return -1;
    if (now >= s->counted + COUNT_SECONDS) {
        s->counted = now;
        flux_future_destroy(count(s, FLUX_MSGF_NORESPONSE));
    }
    return 0;
}

double stream_writer_due(flux_stream_t *s)
{
    double now = clock_now();
    double due = s->due > now ? s->due : now;

    s->due = (now - s->due < 1. / s->limit ? s->due : now) + 1. / s->limit;
    return due;
}

/* Wait until a step may be published; what is left of *timeout.  0, or -1 with ETIMEDOUT or
 * ECANCELED. */
static int hold(flux_stream_t *s, double *timeout, errmsg_t *err)
{
    double now = clock_now();
    double until = *timeout < 0. ? INFINITY : now + *timeout;

    while (s->paused || (s->limit > 0. && now < s->due)) {
        double wake = now + COUNT_SECONDS;

        if (now >= until)
            return errmsg_fail(err, ETIMEDOUT,
                               "step %" PRIu64 " of stream '%s' has waited %g s: it is %s", s->step,
                               s->name, *timeout, s->paused ? "paused" : "throttled");
        if (!s->paused && wake > s->due)
            wake = s->due;
        if (wake > until)
            wake = until;
        if (heard(s, wake - now > PEEK_SECONDS ? wake - now : PEEK_SECONDS, err) < 0 ||
            stream_writer_report(s, err) < 0)
            return -1;
        wake = clock_now();
        s->held += wake - now;
        now = wake;
    }
    if (s->limit > 0.)
        stream_writer_due(s);
    if (*timeout > 0.)
        *timeout = until > now ? until - now : 0.;
    s->cleared = true;
    return 0;
}

bool flux_stream_wanted(const flux_stream_t *s)
{
    return s->mode == FLUX_STREAM_WRITE && outlet_wanted(s->out);
}

int flux_stream_skip(flux_stream_t *s, uint64_t step, errmsg_t *err)
{
    if (s->mode != FLUX_STREAM_WRITE)
        return errmsg_fail(err, EINVAL, "stream '%s' was opened for reading", s->name);
    if (s->placed || s->pending || block_count(s->vars) > 0)
        return errmsg_fail(err, EINVAL, "step %" PRIu64 " of stream '%s' was begun, or is pending",
                           s->step, s->name);
    if (step > STEP_MAX)
        return errmsg_fail(err, EINVAL, "step %" PRIu64 " of stream '%s': the last one is %" PRIu64,
                           step, s->name, STEP_MAX);
    if (s->step < step)
        s->step = step;
    outlet_pass(s->out, s->step);
    return stream_writer_report(s, err);
}

/* Make room for the step; reports to the module and reads its messages while it waits for
 * readers. */
static int begin(flux_stream_t *s, uint64_t size, double timeout, void **buf, errmsg_t *err)
{
    double until = timeout < 0. ? INFINITY : clock_now() + timeout;
    double left = timeout < 0. ? INFINITY : timeout;
    errmsg_t why;

    while (outlet_begin(s->out, s->step, size, left < LISTEN_SECONDS ? left : LISTEN_SECONDS, buf,
                        &why) < 0) {
        if (errno != ETIMEDOUT)
            return errmsg_fail(err, errno, "stream '%s': %s", s->name, why.text);
        if (stream_writer_report(s, err) < 0)
            return -1;
        if ((left = until - clock_now()) <= 0.)
            return errmsg_fail(err, ETIMEDOUT,
                               "step %" PRIu64 " of stream '%s' has waited %g s for a reader that "
                               "does not keep up",
                               s->step, s->name, timeout);
    }
    return 0;
}

/* Drop the variables of the step. */
static void forget(flux_stream_t *s)
{
    s->placed = NULL;
    s->reserved = 0;
    s->sifted = false;
    free(s->own);
    s->own = NULL;
    block_clear(s->vars);
}

void stream_writer_forget(flux_stream_t *s)
{
    int saved = errno;

    outlet_abort(s->out);
    forget(s);
    s->copied_pin = 0;
    errno = saved;
}

int stream_writer_settle(flux_stream_t *s, double *timeout, errmsg_t *err)
{
    double begin = clock_now();

    if (!s->pending)
        return 0;
    if (stream_async_wait(s, *timeout, err) < 0) {
        if (errno != ETIMEDOUT)
            stream_writer_forget(s);
        return -1;
    }
    if (*timeout > 0.) {
        *timeout -= clock_now() - begin;
        if (*timeout < 0.)
            *timeout = 0.;
    }
    return 0;
}

int stream_writer_measure(flux_stream_t *s, errmsg_t *err)
{
    errmsg_t why;

    for (size_t i = 0; i < block_count(s->vars); i++) {
        const struct stream_put *p = &s->put[i];
        size_t len;

        if (!p->format)
            continue;
        if (stream_encode_array_size(p->format, p->data, p->n, &len, &why) < 0)
            return errmsg_fail(err, errno, "variable '%s' of step %" PRIu64 " of stream '%s': %s",
                               block_at(s->vars, i)->name, s->step, s->name, why.text);
        if (len != block_at(s->vars, i)->len)
            block_resize(s->vars, i, len);
    }
    return 0;
}

int stream_writer_value(flux_stream_t *s, size_t i, void *to, errmsg_t *err)
{
    const struct block_var *v = block_at(s->vars, i);
    const struct stream_put *p = &s->put[i];
    errmsg_t why = {"it has become shorter"};
    size_t len;

    s->copied += v->len;
    if (!p->format) {
        memcpy(to, p->data, v->len);
        return 0;
    }
    errno = ENOBUFS;
    if (stream_encode_array(p->format, p->data, p->n, to, v->len, &len, &why) < 0 || len != v->len)
        return errmsg_fail(err, errno == ENOBUFS ? EINVAL : errno,
                           "variable '%s' of step %" PRIu64
                           " of stream '%s' has changed since it was put: %s",
                           v->name, s->step, s->name, why.text);
    return 0;
}

/* Write the bytes of the step, as far as its variables have data. */
static int fill(flux_stream_t *s, char *buf, errmsg_t *err)
{
    block_write(s->vars, buf);
    for (size_t i = 0; i < block_count(s->vars); i++) {
        const struct block_var *v = block_at(s->vars, i);

        if (v->len > 0 && s->put[i].data && stream_writer_value(s, i, buf + v->off, err) < 0)
            return -1;
    }
    return 0;
}

/* Give the step its place, in the memory of the stream. */
static int place(flux_stream_t *s, double timeout, errmsg_t *err)
{
    uint64_t size = block_size(s->vars);
    void *buf;

    if (begin(s, size, timeout, &buf, err) < 0)
        return -1;
    s->placed = buf;
    return 0;
}

int flux_stream_place(flux_stream_t *s, double timeout, errmsg_t *err)
{
    if (s->mode != FLUX_STREAM_WRITE || s->placed)
        return errmsg_fail(err, EINVAL,
                           s->placed ? "step %" PRIu64 " of stream '%s' has its place already"
                                     : "step %" PRIu64 " of stream '%s' is read, not written",
                           s->step, s->name);
    if (stream_writer_settle(s, &timeout, err) < 0)
        return -1;
    if (!s->sifted)
        stream_attach_use(s);
    if (stream_writer_measure(s, err) < 0) {
        stream_writer_forget(s);
        return -1;
    }
    if ((s->chain && !s->sifted ? stream_sift_place(s, err) : place(s, timeout, err)) < 0) {
        if (errno != ETIMEDOUT)
            stream_writer_forget(s);
        return -1;
    }
    if (fill(s, s->placed, err) < 0) {
        stream_writer_forget(s);
        return -1;
    }
    return 0;
}

char *stream_writer_image(flux_stream_t *s, errmsg_t *err)
{
    char *image;

    if (stream_writer_measure(s, err) < 0)
        return NULL;
    if (!(image = calloc(1, block_size(s->vars)))) {
        errmsg_fail(err, ENOMEM, "out of memory for step %" PRIu64 " of stream '%s'", s->step,
                    s->name);
        return NULL;
    }
    if (fill(s, image, err) < 0) {
        int saved = errno;

        free(image);
        errno = saved;
        return NULL;
    }
    return image;
}

bool flux_stream_lasting(const flux_stream_t *s)
{
    return s->placed && s->placed != s->own;
}

void *flux_stream_at(flux_stream_t *s, const char *var)
{
    const struct block_var *v = s->placed ? block_find(s->vars, var) : NULL;

    return v ? s->placed + v->off : NULL;
}

void stream_writer_next(flux_stream_t *s)
{
    s->cleared = false;
    forget(s);
    s->step++;
    pass_seen(s);
}

/* Let the transforms make the step, once.  False: there is nothing to be published. */
static bool sift(flux_stream_t *s)
{
    bool seen = true;

    if (s->sifted)
        return true;
    if (!s->placed)
        stream_attach_use(s);
    if (s->own || (s->chain && (outlet_wanted(s->out) || s->pins || s->paused || s->limit > 0.)))
        seen = stream_sift(s);
    else if (s->chain)
        seen = false;
    s->sifted = true; /* as it is, if a reader comes now */
    return seen;
}

int stream_writer_end(flux_stream_t *s, double timeout, errmsg_t *err)
{
    int pin;

    if (stream_writer_settle(s, &timeout, err) < 0)
        return -1;
    if (!s->placed && s->reserved > 0)
        return errmsg_fail(err, EINVAL,
                           "step %" PRIu64 " of stream '%s' has variables without data: place it, "
                           "and write them",
                           s->step, s->name);
    if (!sift(s)) {
        stream_writer_next(s);
        outlet_pass(s->out, s->step);
        return stream_writer_report(s, err);
    }
    if ((s->paused || s->limit > 0.) && !s->cleared && hold(s, &timeout, err) < 0) {
        if (errno == ECANCELED)
            stream_writer_forget(s);
        return -1;
    }
    if (!s->placed && outlet_wanted(s->out) && flux_stream_place(s, timeout, err) < 0)
        return -1;
    if ((pin = stream_pin_update(s, err)) < 0) {
        stream_writer_forget(s);
        return -1;
    }
    if (pin > 0)
        outlet_pin_commit(s->out);
    if (s->placed)
        outlet_commit(s->out, block_size(s->vars));
    stream_writer_next(s);
    outlet_pass(s->out, s->step);
    return stream_writer_report(s, err);
}

int flux_stream_drop_step(flux_stream_t *s, errmsg_t *err)
{
    if (s->mode != FLUX_STREAM_WRITE)
        return errmsg_fail(err, EINVAL, "stream '%s' was opened for reading", s->name);
    if (!s->pending) /* else the thread of that step has the outlet, and this one no place there */
        outlet_abort(s->out);
    s->copied_pin = 0;
    stream_writer_next(s);
    if (!s->pending)
        outlet_pass(s->out, s->step);
    return stream_writer_report(s, err);
}

int flux_stream_drain(flux_stream_t *s, double timeout, errmsg_t *err)
{
    double until;
    double left;

    if (s->mode != FLUX_STREAM_WRITE)
        return errmsg_fail(err, EINVAL, "stream '%s' was opened for reading", s->name);
    if (stream_writer_settle(s, &timeout, err) < 0)
        return -1;
    until = timeout < 0. ? INFINITY : clock_now() + timeout;
    do { /* the module may say that a member that is awaited has left */
        left = until > clock_now() ? until - clock_now() : 0.;
        if (outlet_drain(s->out, left < LISTEN_SECONDS ? left : LISTEN_SECONDS, NULL) == 0)
            return 0;
        if (stream_writer_report(s, err) < 0)
            return -1;
    } while (left > 0.);
    return errmsg_fail(err, ETIMEDOUT,
                       "groups have not released all steps of stream '%s' within %g s", s->name,
                       timeout);
}

int flux_stream_define(flux_stream_t *s, const char *format, errmsg_t *err)
{
    struct stream_define d = {s->name, format, NULL};
    flux_future_t *f;
    int rc = -1;

    if (s->mode != FLUX_STREAM_WRITE)
        return errmsg_fail(err, EINVAL, "stream '%s' was opened for reading", s->name);
    if (!(f = flux_rpc_struct(s->h, "stream.define", &stream_define_schema, &d, FLUX_NODEID_ANY,
                              0)))
        errmsg_fail(err, errno, "the format of stream '%s' cannot be sent: %s", s->name,
                    strerror(errno));
    else
        rc = flux_rpc_wait_struct(f, STREAM_OPEN_TIMEOUT, NULL, NULL, err);
    flux_future_destroy(f);
    return rc;
}

/* job_stream.c - the client's side of a job's streams.
 *
 *    wrexec.listen, wrexec.run   the stream: notices, output, and the result
 *    wrexec.credit               how many responses, and how many bytes of output were received and
 *                                written here, since the beginning
 *    wrexec.stdin                bytes for the tasks and their position; a message without bytes
 *                                marks the end of input
 *
 * The last two are sent by a courier, in order, and again if the service had no room for them or a
 * broker on the way died; the service knows by the positions what it has.
 *
 *    state      meaning                                  left when (by)
 *    open       responses come                           the result, or an error has come
 *                                                        (response_cb): over; EHOSTUNREACH, since
 *                                                        a broker on the way died, or ECONNRESET,
 *                                                        since the own one did: resuming
 *    resuming   another request, with what has come so   it is answered: open; one of these errors
 *               far, is under way, or the timer runs     again, or EBUSY, since the service has not
 *               before the next one                      heard of the loss yet: the next one
 *    over       nothing will come                        never
 *
 * Invariants:
 *  1. The service counts the responses that have an effect once only, and so does `received`.
 *  2. A stream is resumed only by its id, so wrexec.run not before the first notice.
 *  3. A stream outlives the own broker only with a token, and while the handle may return to it
 *     (FLUX_O_RECONNECT); until then requests end with ECONNRESET.
 *  4. When it is known from elsewhere that the job has ended, each request is followed by one that
 *     asks for its end: the service may not know the job any more.
 *  5. The pause between two requests grows from PAUSE_MIN to PAUSE_MAX until a response comes.
 *
 * Failure: the stream itself reports the end of the job; credit and input that could not be
 * delivered by then are dropped.
 */
#include "config.h"
#include "job_stream.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "libflux/courier.h"
#include "libutil/le.h"

#define PAUSE_MIN 0.01
#define PAUSE_MAX 0.5

struct job_stream {
    flux_t *h;
    struct wrexec_listen
        listen; /* to resume it; the id is 0 before the first notice of a program */
    struct job_stream_cb cb;
    void *arg;
    flux_future_t *f;
    courier_t *courier; /* of credit and input */
    flux_watcher_t *timer;
    double pause;
    uint64_t bytes; /* of output that have come */
    uint64_t taken; /* bytes of input, as reported */
    uint64_t input; /* position of the next byte */
    bool away;      /* resuming, since the own broker died */
    bool over;
    flux_future_t *end; /* the question when it is known that the job has ended */
    bool *gone;         /* set when destroyed in a callback */
};

static void response_cb(flux_future_t *f, void *arg);

static int take_future(job_stream_t *s, flux_future_t *f)
{
    s->f = f;
    return f ? flux_future_then(f, -1., response_cb, s) : -1;
}

static int ask(job_stream_t *s)
{
    return take_future(s, flux_rpc_struct(s->h, "wrexec.listen", &wrexec_listen_schema, &s->listen,
                                          FLUX_NODEID_ROOT, FLUX_MSGF_STREAMING));
}

/* Nobody waits for the answer: it ends the stream if nothing else would. */
static void ask_end(job_stream_t *s)
{
    struct wrexec_listen l = {.id = s->listen.id, .token = s->listen.token, .ended = true};

    flux_future_destroy(s->end);
    s->end = flux_rpc_struct(s->h, "wrexec.listen", &wrexec_listen_schema, &l, FLUX_NODEID_ROOT,
                             FLUX_MSGF_STREAMING);
}

static void pause(job_stream_t *s)
{
    flux_future_destroy(s->f);
    s->f = NULL;
    flux_timer_start(s->timer, s->pause, 0.);
    s->pause = s->pause * 2 < PAUSE_MAX ? s->pause * 2 : PAUSE_MAX;
}

static void timer_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    job_stream_t *s = arg;

    if (ask(s) < 0)
        pause(s);
    else if (s->end)
        ask_end(s);
}

/* --- responses --- */

static void post_credit(job_stream_t *s)
{
    uint8_t *buf = malloc(WREXEC_CREDIT_SIZE);

    if (!buf)
        return;
    le_put64(buf, s->listen.id);
    le_put64(buf + 8, s->listen.token);
    le_put64(buf + 16, s->listen.received);
    le_put64(buf + 24, s->listen.paid);
    (void)courier_post(s->courier, "wrexec.credit", FLUX_NODEID_ROOT, buf, WREXEC_CREDIT_SIZE);
}

static void fail(job_stream_t *s, int errnum, const char *why)
{
    s->over = true;
    s->cb.failed(s->arg, errnum, why);
}

static void on_notice(job_stream_t *s, const char *json, size_t len)
{
    struct wrexec_notice n = {0};
    errmsg_t err;
    json_t *obj = flux_schema_decode(&wrexec_notice_schema, json, len, &n, &err);

    if (!obj) {
        fail(s, EPROTO, err.text);
        return;
    }
    s->listen.id = n.id;
    if (n.text || n.warning) {
        s->listen.received++;
        post_credit(s);
    }
    if (n.taken > s->taken) {
        uint64_t before = s->taken;

        s->taken = n.taken;
        n.taken -= before;
    } else {
        n.taken = 0;
    }
    s->cb.notice(s->arg, &n);
    json_decref(obj);
}

static bool resumes(const job_stream_t *s, int errnum, bool begun)
{
    return s->listen.id && (errnum == EHOSTUNREACH || (errnum == ECONNRESET && s->listen.token) ||
                            (errnum == EBUSY && begun));
}

static void response_cb(flux_future_t *f, void *arg)
{
    job_stream_t *s = arg;
    const flux_msg_t *msg = flux_rpc_get_msg(f);
    int errnum = flux_future_errnum(f);
    bool gone = false;
    const void *data;
    size_t len;

    if (resumes(s, errnum, s->pause > PAUSE_MIN)) {
        s->away = errnum == ECONNRESET;
        pause(s);
        return;
    }
    s->away = false;
    s->gone = &gone;
    if (errnum || !msg) {
        fail(s, errnum ? errnum : EPROTO, flux_future_error(f));
    } else {
        s->pause = PAUSE_MIN;
        data = flux_msg_payload(msg, &len);
        if (flux_msg_has_flag(msg, FLUX_MSGF_RAW)) {
            s->listen.received++;
            s->bytes += len;
            s->cb.output(s->arg, data, len);
        } else if (flux_msg_has_flag(msg, FLUX_MSGF_STREAMING)) {
            on_notice(s, data, len);
        } else {
            s->over = true;
            s->cb.result(s->arg, data, len);
        }
    }
    if (gone)
        return;
    s->gone = NULL;
    if (!s->over)
        flux_future_next(f);
}

void job_stream_ended(job_stream_t *s)
{
    if (!s->over)
        ask_end(s);
}

bool job_stream_away(const job_stream_t *s)
{
    return s->away;
}

/* --- credit and input --- */

void job_stream_pay(job_stream_t *s, size_t waiting)
{
    uint64_t owed = s->bytes - s->listen.paid;

    if (s->over || waiting > s->listen.window / 4 || owed < s->listen.window / 4)
        return;
    s->listen.paid = s->bytes;
    post_credit(s);
}

int job_stream_input(job_stream_t *s, const void *head, size_t headlen, const void *data,
                     size_t len)
{
    size_t n = WREXEC_STDIN_HEAD + headlen + len;
    uint8_t *p = malloc(n);

    if (!p)
        return -1;
    le_put64(p, s->listen.id);
    le_put64(p + 8, s->listen.token);
    le_put64(p + 16, s->input);
    if (headlen)
        memcpy(p + WREXEC_STDIN_HEAD, head, headlen);
    if (len)
        memcpy(p + WREXEC_STDIN_HEAD + headlen, data, len);
    if (courier_post(s->courier, "wrexec.stdin", FLUX_NODEID_ROOT, p, n) < 0)
        return -1;
    s->input += headlen + len;
    return 0;
}

/* --- start and end --- */

static job_stream_t *create(flux_t *h, const struct job_stream_cb *cb, void *arg)
{
    job_stream_t *s = calloc(1, sizeof(*s));

    if (!s)
        return NULL;
    s->h = h;
    s->cb = *cb;
    s->arg = arg;
    s->pause = PAUSE_MIN;
    s->timer = flux_timer_create(flux_get_reactor(h), timer_cb, s);
    s->courier = courier_create(h, FLUX_MSGF_IDEMPOTENT, NULL, NULL);
    if (s->timer && s->courier)
        return s;
    job_stream_destroy(s);
    errno = ENOMEM;
    return NULL;
}

void job_stream_destroy(job_stream_t *s)
{
    int saved = errno;

    if (!s)
        return;
    if (s->gone)
        *s->gone = true;
    flux_future_destroy(s->f);
    flux_future_destroy(s->end);
    flux_watcher_destroy(s->timer);
    courier_destroy(s->courier);
    free(s);
    errno = saved;
}

job_stream_t *job_stream_listen(flux_t *h, const struct wrexec_listen *l,
                                const struct job_stream_cb *cb, void *arg)
{
    job_stream_t *s = create(h, cb, arg);

    if (!s)
        return NULL;
    s->listen = *l;
    if (ask(s) == 0)
        return s;
    job_stream_destroy(s);
    errno = ENOMEM;
    return NULL;
}

job_stream_t *job_stream_run(flux_t *h, const void *data, size_t len, uint32_t window,
                             const struct job_stream_cb *cb, void *arg)
{
    job_stream_t *s = create(h, cb, arg);

    if (!s)
        return NULL;
    s->listen.window = window;
    s->listen.input = true;
    if (take_future(s, flux_rpc_raw(h, "wrexec.run", data, len, FLUX_NODEID_ROOT,
                                    FLUX_MSGF_STREAMING)) == 0)
        return s;
    job_stream_destroy(s);
    errno = ENOMEM;
    return NULL;
}

/* inlet_far.c - the reader's end of a stream whose writer is on another host.
 *
 * The messages are those of doc/stream-format.rst.  Each step has a place in memory of this
 * process, as large as the step, of which only what has come is ever touched: so a variable is
 * where it would be in the writer's memory.  Places are used again, which spares the kernel to
 * clear their pages.
 *
 * Where the policy of the queue takes no step back once it was offered, the writer announces steps
 * as they come, and they wait here.  Else (`asks`) this end asks for each one when it needs it, so
 * that the writer can still take back those that wait.
 *
 * What comes is read into a buffer; what is large, from there on, straight to where it belongs.
 *
 * Invariants:
 *  1. steps[number % LANE_SLOTS] is the step of this number, announced and not released.  Those in
 *     `queue` were not taken.
 *  2. At most one question for values is open (`pending`), and its answer is written only within
 *     the memory that was given with it; inlet_far_forget() lets it go nowhere.
 *
 * Failure: the end of the connection, and anything that a writer does not say, ends this inlet.
 * What was announced before can still be taken, and values that have come stay; others are an
 * error.
 */
#include "config.h"
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "libstream/block.h"
#include "libstream/copy.h"
#include "libstream/extent.h"
#include "libstream/far_addr.h"
#include "libstream/far_link.h"
#include "libstream/far_msg.h"
#include "libstream/inlet_far.h"
#include "libstream/lane.h"
#include "libutil/clock.h"
#include "libutil/invariant.h"
#include "libutil/list.h"

#define SPACE ((uint64_t)16 << 30)
#define SPACE_LEAST ((uint64_t)64 << 20)
#define BUFFER 65536
#define ANSWER_SECONDS 60. /* without a byte of an answer */
#define TAKE_SECONDS 0.1   /* that inlet_far_take() waits for an answer, at most */

struct step {
    struct list_node node; /* in `queue` until it is taken */
    uint64_t number;
    uint64_t step;
    uint64_t len;
    uint64_t first; /* bytes that are there, from the first one on */
    struct extent *e;
    uint64_t have[BLOCK_VARS_MAX / 64]; /* variables of which the value is there */
};

/* A question for values. */
struct pending {
    bool open;
    uint64_t number; /* of the step */
    uint64_t len;
    unsigned char *to; /* NULL: the answer is of no use any more */
    bool packed;       /* to `packed` first, and then to the box */
    struct stream_part part;
    void *box;
};

struct inlet_far {
    far_link_t *link;
    bool asks; /* for each step */
    bool asked;
    bool waits; /* for the next step, and the writer knows it */

    unsigned char *base; /* of the memory of steps */
    uint64_t size;
    extent_pool_t *pool;
    struct step *steps[LANE_SLOTS];
    struct list_node queue;
    uint64_t last;        /* number of the last one announced */
    unsigned char *first; /* first bytes of the last FAR_STEP */
    uint64_t first_len;

    unsigned char buf[BUFFER];
    size_t at, len;        /* what of it was not looked at */
    struct far_msg msg;    /* the message whose payload comes */
    unsigned char *to;     /* where to; NULL: nowhere */
    uint64_t left;         /* bytes of it */
    struct step *arriving; /* the step whose first bytes come */

    struct pending pending;
    unsigned char *packed;
    uint64_t packed_room;

    enum lane_end end;
    int errnum; /* of the connection: nothing is read or written any more */
    struct inlet_stats stats;
};

/* --- memory --- */

static int memory_open(inlet_far_t *f, errmsg_t *err)
{
    void *p;

    f->size = SPACE;
    while ((p = mmap(NULL, f->size, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)) == MAP_FAILED &&
           f->size > SPACE_LEAST)
        f->size /= 2;
    if (p == MAP_FAILED)
        return errmsg_fail(err, errno, "a reader of a stream has no addresses for its steps: %s",
                           strerror(errno));
    f->base = p;
    if (!(f->pool = extent_pool_create(f->size)))
        return errmsg_fail(err, ENOMEM, "out of memory");
    return 0;
}

static struct step *step_find(inlet_far_t *f, uint64_t number)
{
    struct step *st = f->steps[number % LANE_SLOTS];

    return st && st->number == number ? st : NULL;
}

static void step_free(inlet_far_t *f, struct step *st)
{
    list_remove(&st->node);
    if (f->arriving != st)
        f->steps[st->number % LANE_SLOTS] = NULL;
    extent_give(f->pool, st->e);
    free(st);
}

void inlet_far_destroy(inlet_far_t *f)
{
    int saved = errno;

    if (!f)
        return;
    if (f->arriving)
        step_free(f, f->arriving);
    f->arriving = NULL;
    for (unsigned i = 0; i < LANE_SLOTS; i++) {
        if (f->steps[i])
            step_free(f, f->steps[i]);
    }
    far_link_destroy(f->link);
    extent_pool_destroy(f->pool);
    if (f->base)
        munmap(f->base, f->size);
    free(f->first);
    free(f->packed);
    free(f);
    errno = saved;
}

/* --- what comes --- */

/* The connection has failed: 0 of recv(2), or errno. */
static int broken(inlet_far_t *f, int errnum)
{
    f->errnum = errnum > 0 ? errnum : ECONNRESET;
    shutdown(far_link_fd(f->link), SHUT_RDWR);
    errno = f->errnum;
    return -1;
}

/* A step is announced: make its place. */
static int step_begin(inlet_far_t *f)
{
    const struct far_msg *m = &f->msg;
    bool again = m->type == FAR_AGAIN;
    struct step *st;

    if (m->number <= f->last || f->steps[m->number % LANE_SLOTS] ||
        (again && (!f->first || f->first_len > m->len)))
        return broken(f, EPROTO);
    if (!(st = calloc(1, sizeof(*st))))
        return broken(f, ENOMEM);
    if (!(st->e = extent_take(f->pool, m->len > 0 ? m->len : 1))) {
        free(st);
        return broken(f, errno);
    }
    list_init(&st->node);
    st->number = f->last = m->number;
    st->step = m->step;
    st->len = m->len;
    st->first = again ? f->first_len : m->payload;
    if (again)
        memcpy(f->base + st->e->off, f->first, f->first_len);
    f->arriving = st;
    f->to = f->base + st->e->off;
    f->left = m->payload;
    return 0;
}

/* Its first bytes are there. */
static int step_ready(inlet_far_t *f)
{
    struct step *st = f->arriving;

    if (f->msg.type == FAR_STEP) {
        unsigned char *first = realloc(f->first, st->first > 0 ? st->first : 1);

        if (!first)
            return broken(f, ENOMEM);
        memcpy(first, f->base + st->e->off, st->first);
        f->first = first;
        f->first_len = st->first;
    }
    f->arriving = NULL;
    f->steps[st->number % LANE_SLOTS] = st;
    list_append(&f->queue, &st->node);
    f->asked = f->waits = false;
    return 0;
}

static int message_begin(inlet_far_t *f)
{
    const struct far_msg *m = &f->msg;

    f->left = 0;
    switch (m->type) {
    case FAR_STEP:
    case FAR_AGAIN:
        return step_begin(f);
    case FAR_DATA:
        if (!f->pending.open || m->number != f->pending.number || m->len != f->pending.len)
            return broken(f, EPROTO);
        f->to = f->pending.to;
        f->left = m->len;
        return 0;
    case FAR_NOTHING:
        f->asked = false;
        return 0;
    default: /* FAR_END, as far_msg_decode() knows */
        f->end = (enum lane_end)m->number;
        return 0;
    }
}

static int message_ready(inlet_far_t *f)
{
    struct pending *p = &f->pending;

    if (f->msg.type == FAR_STEP || f->msg.type == FAR_AGAIN)
        return step_ready(f);
    if (f->msg.type == FAR_DATA) {
        if (p->packed && p->to)
            stream_copy_unpack(&p->part, f->packed, p->box);
        p->open = false;
    }
    return 0;
}

/* More bytes: into the buffer, or straight to where they belong.  1; 0: nothing has come; -1. */
static int more(inlet_far_t *f)
{
    bool direct = f->left >= BUFFER && f->to;
    ssize_t n = far_link_recv(f->link, direct ? f->to : f->buf, direct ? f->left : BUFFER);

    if (n < 0 && errno == EAGAIN)
        return 0;
    if (n <= 0)
        return broken(f, n < 0 ? errno : 0);
    f->stats.moved += (uint64_t)n;
    if (direct) {
        f->to += n;
        f->left -= (uint64_t)n;
    } else {
        f->at = 0;
        f->len = (size_t)n;
    }
    return 1;
}

/* Of the payload, what is in the buffer. */
static void payload(inlet_far_t *f)
{
    size_t n = f->len - f->at;

    if (n > f->left)
        n = f->left;
    if (f->to && n > 0) {
        memcpy(f->to, f->buf + f->at, n);
        f->to += n;
    }
    f->at += n;
    f->left -= n;
}

/* The head of the next message, of which a part may be at the end of the buffer.  1, 0 or -1. */
static int head(inlet_far_t *f)
{
    while (f->len - f->at < FAR_HEAD_LEN) {
        ssize_t n;

        memmove(f->buf, f->buf + f->at, f->len - f->at);
        f->len -= f->at;
        f->at = 0;
        n = far_link_recv(f->link, f->buf + f->len, BUFFER - f->len);
        if (n < 0 && errno == EAGAIN)
            return 0;
        if (n <= 0)
            return broken(f, n < 0 ? errno : 0);
        f->stats.moved += (uint64_t)n;
        f->len += (size_t)n;
    }
    if (far_msg_decode(f->buf + f->at, true, &f->msg) < 0)
        return broken(f, EPROTO);
    f->at += FAR_HEAD_LEN;
    return 1;
}

/* Is a message begun whose payload has not come? */
static bool amid(const inlet_far_t *f)
{
    return f->msg.type != 0;
}

/* Look at what has come, without waiting, until `enough` (NULL: all of it).  0, or -1: the
 * connection has ended. */
static int pump(inlet_far_t *f, bool (*enough)(const inlet_far_t *))
{
    int rc;

    while (f->errnum == 0 && !(enough && enough(f))) {
        if (!amid(f)) {
            if ((rc = head(f)) <= 0)
                return rc;
            if (message_begin(f) < 0)
                return -1;
        }
        payload(f);
        if (f->left > 0) {
            if ((rc = more(f)) <= 0)
                return rc;
            continue;
        }
        if (message_ready(f) < 0)
            return -1;
        f->msg.type = 0;
    }
    errno = f->errnum;
    return f->errnum == 0 ? 0 : -1;
}

/* Wait until `enough`, for at most `seconds` in which no byte comes.  1; 0: not yet; -1. */
static int pump_until(inlet_far_t *f, bool (*enough)(const inlet_far_t *), double seconds)
{
    struct pollfd p = {.fd = far_link_fd(f->link), .events = POLLIN};
    double until = clock_now() + seconds;
    uint64_t moved = f->stats.moved;

    for (;;) {
        double left;

        if (pump(f, enough) < 0)
            return -1;
        if (enough(f))
            return 1;
        if (f->stats.moved != moved)
            until = clock_now() + seconds;
        moved = f->stats.moved;
        if ((left = until - clock_now()) <= 0.)
            return 0;
        poll(&p, 1, (int)(left * 1e3) + 1);
    }
}

/* --- what is said --- */

/* Send a message, which is small: the writer reads it even when it is busy.  Waits only for one
 * that was stopped long ago. */
static int say(inlet_far_t *f, const struct far_msg *m, const void *payload)
{
    unsigned char buf[FAR_HEAD_LEN + FAR_BOX_MAX];
    struct iovec iov = {buf, FAR_HEAD_LEN + m->payload};
    struct pollfd p = {.fd = far_link_fd(f->link), .events = POLLOUT};
    double until = clock_now() + ANSWER_SECONDS;

    if (f->errnum > 0) {
        errno = f->errnum;
        return -1;
    }
    far_msg_encode(m, buf);
    if (m->payload > 0)
        memcpy(buf + FAR_HEAD_LEN, payload, m->payload);
    while (iov.iov_len > 0 || far_link_waits(f->link)) {
        ssize_t n = iov.iov_len > 0 ? far_link_send(f->link, &iov, 1) : far_link_flush(f->link);

        if (n >= 0) {
            iov.iov_base = (char *)iov.iov_base + n;
            iov.iov_len -= (size_t)n;
        } else if (errno != EAGAIN || clock_now() > until)
            return broken(f, errno == EAGAIN ? ETIMEDOUT : errno);
        else
            poll(&p, 1, 1000);
    }
    return 0;
}

/* --- joining --- */

/* Receive exactly `len` bytes.  0, or -1. */
static int receive(inlet_far_t *f, void *buf, size_t len, double until)
{
    struct pollfd p = {.fd = far_link_fd(f->link), .events = POLLIN};
    size_t got = 0;

    while (got < len) {
        ssize_t n = far_link_recv(f->link, (char *)buf + got, len - got);
        double left = until - clock_now();

        if (n > 0)
            got += (size_t)n;
        else if (n == 0 || errno != EAGAIN || left <= 0.) {
            errno = n == 0 ? ECONNRESET : errno == EAGAIN ? ETIMEDOUT : errno;
            return -1;
        } else
            poll(&p, 1, left < 1e6 ? (int)(left * 1e3) + 1 : 1000000000);
    }
    return 0;
}

static int join(inlet_far_t *f, const struct inlet_far_opts *opts, const struct knock_want *want,
                double until, errmsg_t *err)
{
    struct far_hello h = {
        .secure = opts->secure, .want = *want, .reader = opts->reader, .expires = opts->expires};
    unsigned char greeting[FAR_GREETING_LEN];
    unsigned char hello[FAR_HELLO_LEN];
    unsigned char welcome[FAR_WELCOME_LEN];
    struct iovec iov = {hello, sizeof(hello)};
    struct far_welcome w;
    struct far_keys keys;

    if (receive(f, greeting, sizeof(greeting), until) < 0 || far_greeting_check(greeting) < 0)
        return errmsg_fail(err, errno, "no writer of a stream answers at %.100s: %s", opts->address,
                           strerror(errno));
    far_hello_make(hello, &h, opts->secret, greeting);
    if (far_link_send(f->link, &iov, 1) != (ssize_t)sizeof(hello))
        return errmsg_fail(err, errno, "cannot write to the writer of a stream at %.100s: %s",
                           opts->address, strerror(errno));
    if (receive(f, welcome, sizeof(welcome), until) < 0) {
        if (errno == ECONNRESET)
            return errmsg_fail(err, EACCES,
                               "the writer at %.100s refuses the capability: the stream may have "
                               "begun anew, or the clocks of the hosts differ",
                               opts->address);
        return errmsg_fail(err, errno, "the writer of a stream at %.100s does not answer: %s",
                           opts->address, strerror(errno));
    }
    if (far_welcome_read(welcome, &w, opts->secret, hello) < 0)
        return errmsg_fail(err, EPROTO, "the writer of a stream at %.100s is not the right one",
                           opts->address);
    if (w.errnum == EEXIST)
        return errmsg_fail(err, EEXIST,
                           "group '%s' of the stream has another key than '%s': all members have "
                           "the same",
                           want->group, want->key);
    if (w.errnum != 0)
        return errmsg_fail(err, w.errnum, "the writer does not admit this reader: %s",
                           strerror(w.errnum));
    if (opts->secure && !w.secure)
        return errmsg_fail(err, EPROTO, "the writer of a stream at %.100s does not encrypt",
                           opts->address);
    far_keys_make(&keys, opts->secret, hello, greeting);
    if (w.secure && far_link_secure(f->link, keys.to_writer, keys.to_reader) < 0)
        return errmsg_fail(err, errno, "a stream cannot be encrypted: %s", strerror(errno));
    return 0;
}

inlet_far_t *inlet_far_connect(const struct inlet_far_opts *opts, const struct knock_want *want,
                               double timeout, errmsg_t *err)
{
    double until = clock_now() + timeout;
    inlet_far_t *f = calloc(1, sizeof(*f));
    int fd;

    if (!f) {
        errmsg_fail(err, ENOMEM, "out of memory");
        return NULL;
    }
    list_init(&f->queue);
    f->asks = want->policy == KNOCK_LATEST || want->policy == KNOCK_DROP_OLDEST;
    if ((fd = far_addr_connect(opts->address, timeout, err)) < 0)
        goto fail;
    far_addr_setup(fd, opts->silence > 0. ? opts->silence : INLET_SILENCE, true);
    if (!(f->link = far_link_create(fd))) {
        close(fd);
        errmsg_fail(err, ENOMEM, "out of memory");
        goto fail;
    }
    if (join(f, opts, want, until, err) == 0 && memory_open(f, err) == 0)
        return f;
fail:
    inlet_far_destroy(f);
    return NULL;
}

void inlet_far_leave(inlet_far_t *f)
{
    shutdown(far_link_fd(f->link), SHUT_RDWR);
}

int inlet_far_fd(const inlet_far_t *f)
{
    return far_link_fd(f->link);
}

void inlet_far_count(const inlet_far_t *f, struct inlet_stats *st)
{
    *st = f->stats;
}

/* --- steps --- */

static int ended(const inlet_far_t *f, errmsg_t *err)
{
    if (f->end == LANE_CLOSED)
        return errmsg_fail(err, ENODATA, "the writer has closed the stream");
    if (f->end == LANE_EVICTED)
        return errmsg_fail(err, ESTALE,
                           "the writer has evicted this reader, which did not keep "
                           "up: release steps earlier, or choose another policy");
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
    struct step *st;

    if (f->asks && list_empty(&f->queue) && f->end == LANE_OPEN && !f->waits) {
        if (!f->asked && say(f, &take, NULL) == 0)
            f->asked = true;
        pump_until(f, answered, TAKE_SECONDS);
    } else if (list_empty(&f->queue))
        pump(f, NULL);
    if (list_empty(&f->queue))
        return f->end == LANE_OPEN && f->errnum == 0 ? 0 : ended(f, err);
    st = list_entry(list_first(&f->queue), struct step, node);
    INVARIANT(1, step_find(f, st->number) == st);
    list_remove(&st->node);
    *s = (struct inlet_step){st->number, st->step, f->base + st->e->off, st->len};
    return 1;
}

bool inlet_far_sleep(inlet_far_t *f)
{
    static const struct far_msg wait = {.type = FAR_WAIT};

    pump(f, NULL);
    if (!list_empty(&f->queue) || f->end != LANE_OPEN || f->errnum > 0)
        return false;
    if (f->asks && !f->asked && !f->waits)
        f->waits = say(f, &wait, NULL) == 0;
    return f->errnum == 0;
}

void inlet_far_wake(inlet_far_t *f)
{
    pump(f, NULL);
}

int inlet_far_release(inlet_far_t *f, const struct inlet_step *s)
{
    struct far_msg m = {.type = FAR_RELEASE, .number = s->number};
    struct step *st = step_find(f, s->number);

    if (!st || !list_empty(&st->node)) {
        errno = EINVAL;
        return -1;
    }
    if (f->pending.open && f->pending.number == s->number)
        inlet_far_forget(f);
    step_free(f, st);
    say(f, &m, NULL);
    return 0;
}

/* --- values --- */

static bool closed(const inlet_far_t *f)
{
    return !f->pending.open;
}

/* Why a value cannot be had. */
static int lost(const inlet_far_t *f, errmsg_t *err)
{
    if (f->errnum == ECONNRESET || f->errnum == EPIPE)
        return errmsg_fail(err, ECONNRESET,
                           "the writer of the stream has ended before a value was read");
    if (f->errnum == ETIMEDOUT)
        return errmsg_fail(err, ECONNRESET, "the writer of the stream does not answer any more");
    return ended(f, err);
}

int inlet_far_answer(inlet_far_t *f, errmsg_t *err)
{
    int rc = f->pending.open ? pump_until(f, closed, ANSWER_SECONDS) : 1;

    if (rc > 0)
        return 0;
    if (rc == 0)
        broken(f, ETIMEDOUT);
    return lost(f, err);
}

/* A question, whose answer goes to `to`, once the one before is answered. */
static int ask(inlet_far_t *f, const struct far_msg *m, const void *payload, uint64_t len,
               unsigned char *to, errmsg_t *err)
{
    if (inlet_far_answer(f, err) < 0)
        return -1;
    f->pending = (struct pending){.open = true, .number = m->number, .len = len, .to = to};
    if (say(f, m, payload) < 0) {
        f->pending.open = false;
        return lost(f, err);
    }
    f->stats.asked += len;
    return 0;
}

/* The step of a value, checked. */
static struct step *value_of(inlet_far_t *f, const struct inlet_step *s,
                             const struct inlet_value *v, errmsg_t *err)
{
    struct step *st = step_find(f, s->number);

    if (st && v->var < BLOCK_VARS_MAX && v->off <= st->len && v->len <= st->len - v->off)
        return st;
    errmsg_fail(err, EINVAL, "the step is not held, or the value is outside of it");
    return NULL;
}

static bool there(const struct step *st, const struct inlet_value *v)
{
    return v->len == 0 || st->first >= v->off + v->len ||
           (st->have[v->var / 64] >> v->var % 64 & 1) != 0;
}

int inlet_far_fetch(inlet_far_t *f, const struct inlet_step *s, const struct inlet_value *v,
                    errmsg_t *err)
{
    struct step *st = value_of(f, s, v, err);
    struct far_msg m = {.type = FAR_BYTES, .number = s->number, .step = v->off, .len = v->len};

    if (!st)
        return -1;
    if (there(st, v))
        return 0;
    if (ask(f, &m, NULL, v->len, f->base + st->e->off + v->off, err) < 0 ||
        inlet_far_answer(f, err) < 0)
        return -1;
    st->have[v->var / 64] |= (uint64_t)1 << v->var % 64;
    return 0;
}

int inlet_far_fetch_all(inlet_far_t *f, const struct inlet_step *s, errmsg_t *err)
{
    struct step *st = value_of(f, s, &(struct inlet_value){0}, err);
    struct far_msg m = {.type = FAR_BYTES, .number = s->number};

    if (!st || st->first == st->len)
        return st ? 0 : -1;
    m.step = st->first;
    m.len = st->len - st->first;
    if (ask(f, &m, NULL, m.len, f->base + st->e->off + st->first, err) < 0 ||
        inlet_far_answer(f, err) < 0)
        return -1;
    st->first = st->len;
    return 0;
}

/* Do the elements lie together in the box? */
static bool in_line(const struct stream_part *p)
{
    size_t step = p->to_elem;

    for (unsigned d = p->ndims; d-- > 0;) {
        if (p->dims[d].n > 1 && p->dims[d].to != step)
            return false;
        step *= p->dims[d].n;
    }
    return true;
}

static int packed_room(inlet_far_t *f, uint64_t len, errmsg_t *err)
{
    unsigned char *p;

    if (len <= f->packed_room)
        return 0;
    if (!(p = realloc(f->packed, len)))
        return errmsg_fail(err, ENOMEM, "out of memory for %llu bytes of a box",
                           (unsigned long long)len);
    f->packed = p;
    f->packed_room = len;
    return 0;
}

int inlet_far_ask(inlet_far_t *f, const struct inlet_step *s, const struct inlet_value *v,
                  const struct stream_box *box, const struct stream_part *part, void *buf,
                  errmsg_t *err)
{
    struct step *st = value_of(f, s, v, err);
    struct far_msg m = {.type = FAR_BOX, .number = s->number, .step = v->var};
    uint64_t len = part->elems * part->from_elem;
    uint8_t payload[FAR_BOX_MAX];
    bool line = in_line(part);

    if (!st)
        return -1;
    if (there(st, v)) {
        stream_copy(part, f->base + st->e->off + v->off, buf);
        return 0;
    }
    if (inlet_far_answer(f, err) < 0)
        return -1;
    if (!line && packed_room(f, len, err) < 0)
        return -1;
    m.payload = 24 * box->ndims;
    stream_select_encode(box, payload);
    if (ask(f, &m, payload, len, line ? (unsigned char *)buf + part->to : f->packed, err) < 0)
        return -1;
    f->pending.packed = !line;
    f->pending.part = *part;
    f->pending.box = buf;
    return 0;
}

void inlet_far_forget(inlet_far_t *f)
{
    if (!f->pending.open)
        return;
    f->pending.to = NULL;
    if (f->msg.type == FAR_DATA)
        f->to = NULL;
    INVARIANT(2, f->pending.to == NULL);
}

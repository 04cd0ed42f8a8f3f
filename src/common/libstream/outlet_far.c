/* outlet_far.c - readers on other hosts, for which the door's thread acts.
 *
 * A reader of another host has a lane like a reader of this host, in memory of this process only,
 * and the door's thread is at the reader's end of it: it takes steps, announces them, sends the
 * requested values directly from the memory of steps, and releases the steps that the reader has
 * released.  So queues, policies and eviction are those of outlet.c, for which both kinds of
 * readers are the same.
 *
 * The moment at which the thread takes a step from the lane decides whether a policy can still take
 * the step back.  With a policy that takes steps back (drop-oldest, latest), a step is taken when
 * the reader requests one; otherwise at once, so that the reader gets it without a request.
 *
 *    state       what has come           then
 *    greeted     hello, 320 bytes        admitted, if it shows a grant and proves it; else refused
 *                anything else           closed
 *    admitted    messages                answered; anything that a reader does not say: closed
 *    lost        a hello that resumes    the connection is that by which the hello has come
 *
 * Small messages and values are gathered in `out`, and sent together.  Large data (`bulk`: the
 * table of a step, values) are sent from the memory of steps, in their order there: as one run, as
 * many runs of a box (writev), or, if these are short, copied to `out` in turn.
 *
 * Invariants:
 *  1. held[number % LANE_SLOTS] is a step that was taken from the lane under this number and not
 *     released; its bytes stay as they are.  One whose bytes are being sent (bulk.number), or were
 *     asked for, is released only afterwards.
 *  2. Nothing is sent that is not inside a held step, or is pinned as of a step that was taken, and
 *     is announced next (`behind`).
 *  3. Memory for a connection that was not admitted is constant.
 *
 * A connection through relays (share.h) that is closed in both directions is lost, since a relay
 * has ended: the reader may live.  It keeps its lane and what it holds for half of the silence
 * after which a host is gone.  When it resumes, with the number of the last step that has come,
 * later steps that it holds are announced again, and it releases those that it does not hold.
 *
 * Failure: if another connection fails, or its host is silent, the reader counts as gone.
 */
#include "config.h"
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "libstream/block.h"
#include "libstream/copy.h"
#include "libstream/far_addr.h"
#include "libstream/far_link.h"
#include "libstream/far_msg.h"
#include "libstream/outlet_private.h"
#include "libutil/clock.h"
#include "libutil/invariant.h"

#define OTHER_CLOCK 60. /* seconds by which a message of the module is not late */
#define OUT 65536       /* bytes of gathered messages */
#define WHOLE 4096      /* maximum size of a step that is sent with its announcement */
#define SHORT 1024      /* runs that are shorter are copied */
#define RUNS 128        /* of a box, sent by one call */
#define TURN (4u << 20) /* bytes that one reader gets until it is the turn of others, */
#define MESSAGES 256    /* and messages of a reader that are handled in a turn */

struct held {
    struct lane_item item; /* number 0: unused */
    bool released;         /* by the reader, before all data that it had requested were sent */
    unsigned asked;        /* requests for its values that wait */
};

/* A request for values. */
struct question {
    struct far_msg msg;
    uint8_t payload[FAR_BOX_MAX];
};

/* Bytes of a step that are being sent. */
struct bulk {
    uint64_t number; /* 0: none */
    bool box;
    const unsigned char *p; /* one run; or the piece with the box */
    uint64_t left;
    struct stream_part part;
    struct stream_runs runs; /* of the part */
    struct iovec iov[RUNS];  /* the next of these runs */
    size_t at, n;
};

struct outlet_far {
    far_link_t *link; /* NULL: lost, */
    bool cut;         /* as this one is now, */
    double until;     /* and may be resumed until then */
    uint64_t expires; /* of the reader's grant */
    unsigned char greeting[FAR_GREETING_LEN];
    unsigned char in[FAR_HEAD_LEN + FAR_BOX_MAX]; /* head and payload of a message; or the hello,
                                                   * which is shorter */
    size_t got;
    bool want_out; /* the door polls for output */
    bool more;     /* a turn ended before all received messages were handled */

    /* After the admission: */
    lane_rx_t *rx;
    bool push;         /* steps are taken at once */
    bool member;       /* of a group, */
    bool acknowledged; /* to which a release is not yet acknowledged */
    uint64_t floor;    /* as the last FAR_NOTE had it, */
    uint64_t missing;  /* and its step, plus 1 */
    bool take;         /* the reader has requested a step, */
    bool wait;         /* or for the next one */
    bool ended;
    void *memory; /* the page of the lane, `held`, `questions` and `out` */
    struct held *held;
    unsigned nheld;
    uint64_t taken;  /* number of the last step that was taken from the lane */
    uint64_t redo;   /* after a loss: held steps from this number on are announced again, */
    uint64_t before; /* and up to this one, the reader releases those that it does not hold */
    struct question *questions; /* a ring of FAR_QUESTIONS, of which `nquestions` wait, */
    unsigned nquestions;
    unsigned question; /* and this one is the next */
    block_t *block;    /* of the last step in which a box was requested */
    uint64_t block_number;
    unsigned char *first; /* first bytes of the last FAR_STEP */
    uint64_t first_len;
    uint64_t pin;            /* number of the last FAR_PINNED */
    struct lane_item behind; /* held, and announced when that was sent; number 0: none */
    struct bulk bulk;
    size_t out_at, out_len;
    unsigned char *out;
};

static size_t memory_size(void)
{
    return lane_page_size() + LANE_SLOTS * sizeof(struct held) +
           FAR_QUESTIONS * sizeof(struct question) + OUT;
}

struct outlet_far *outlet_far_create(int fd)
{
    struct outlet_far *f = calloc(1, sizeof(*f));

    if (f && !(f->link = far_link_create(fd))) {
        free(f);
        f = NULL;
    }
    return f;
}

void outlet_far_destroy(struct outlet_far *f)
{
    if (!f)
        return;
    far_link_destroy(f->link);
    lane_rx_destroy(f->rx);
    block_destroy(f->block);
    free(f->first);
    if (f->memory)
        munmap(f->memory, memory_size());
    free(f);
}

int outlet_far_greet(struct outlet_conn *c)
{
    struct outlet_far *f = c->far;
    struct iovec iov = {f->greeting, sizeof(f->greeting)};

    far_greeting_make(f->greeting);
    return far_link_send(f->link, &iov, 1) == (ssize_t)sizeof(f->greeting) ? 0 : -1;
}

/* --- output --- */

static void put(struct outlet_far *f, const void *data, size_t len)
{
    memcpy(f->out + f->out_len, data, len);
    f->out_len += len;
}

static void put_msg(struct outlet_far *f, const struct far_msg *m)
{
    unsigned char head[FAR_HEAD_LEN];

    far_msg_encode(m, head);
    put(f, head, sizeof(head));
}

static struct held *held_find(struct outlet_far *f, uint64_t number)
{
    struct held *h = &f->held[number % LANE_SLOTS];

    return number > 0 && h->item.number == number ? h : NULL;
}

/* The number of first bytes with which a step is announced: all, or its table; 0 if it has no
 * table. */
static uint64_t first_of(const unsigned char *data, uint64_t len)
{
    uint64_t first = len <= WHOLE ? len : block_head_size(data, len);

    return first <= FAR_FIRST_MAX ? first : 0;
}

/* Are the first bytes those of the last step?  Otherwise they become so. */
static bool first_again(struct outlet_far *f, const unsigned char *data, uint64_t first)
{
    unsigned char *copy;

    if (f->first && first == f->first_len && memcmp(f->first, data, first) == 0)
        return true;
    if ((copy = realloc(f->first, first > 0 ? first : 1))) {
        memcpy(copy, data, first);
        f->first = copy;
        f->first_len = first;
    } else {
        free(f->first); /* the next one is sent in full */
        f->first = NULL;
    }
    return false;
}

/* Announce the pin block of a step that was taken. */
static void announce_pinned(outlet_t *o, struct outlet_far *f, const struct lane_item *item)
{
    struct far_msg m = {
        .type = FAR_PINNED, .number = item->pin, .payload = (uint32_t)item->pin_len};

    f->pin = item->pin;
    f->behind = *item;
    put_msg(f, &m);
    f->bulk.number = item->number;
    f->bulk.box = false;
    f->bulk.p = o->base + item->pin_off;
    f->bulk.left = item->pin_len;
}

static void announce(outlet_t *o, struct outlet_far *f, const struct lane_item *item)
{
    const unsigned char *data = o->base + item->off;
    uint64_t first = first_of(data, item->len);
    struct far_msg m = {
        .type = FAR_STEP, .number = item->number, .step = item->step, .len = item->len};

    f->take = f->wait = false;
    if (item->parts != 0)
        put_msg(f, &(struct far_msg){.type = FAR_PARTS, .step = item->parts});
    if (first_again(f, data, first)) {
        m.type = FAR_AGAIN;
        first = 0;
    }
    m.payload = (uint32_t)first;
    put_msg(f, &m);
    if (first <= OUT - f->out_len)
        put(f, data, first);
    else {
        f->bulk.number = item->number;
        f->bulk.box = false;
        f->bulk.p = data;
        f->bulk.left = first;
    }
}

/* Begin to send the elements of a box. */
static int box_of(outlet_t *o, struct outlet_far *f, const struct held *h, const struct question *q)
{
    static const struct stream_want want;
    const unsigned char *data = o->base + h->item.off;
    const struct block_var *v;
    struct stream_box box;
    stream_array_t *a;
    bool ok = false;

    if (f->block_number != h->item.number) {
        block_destroy(f->block);
        f->block = block_read(data, h->item.len, NULL);
        f->block_number = f->block ? h->item.number : 0;
    }
    if (!f->block || !(v = block_at(f->block, q->msg.step)) ||
        !(a = stream_array_decode(v->desc, v->desc_len, NULL)))
        return -1;
    if (stream_array_count(a) == 1 && stream_array_shape(a)->kind == STREAM_GLOBAL &&
        stream_array_piece(a, 0).elems * stream_array_shape(a)->elem == v->len &&
        stream_select_decode(stream_array_shape(a), q->payload, q->msg.payload, &box, NULL) == 0)
        ok = stream_select_piece(a, 0, &box, &want, &f->bulk.part);
    stream_array_destroy(a);
    f->bulk.box = true;
    f->bulk.p = data + v->off;
    f->bulk.left = f->bulk.part.elems * f->bulk.part.from_elem;
    f->bulk.runs = (struct stream_runs){0};
    f->bulk.at = f->bulk.n = 0;
    INVARIANT(2, v->off + v->len <= h->item.len);
    return ok ? 0 : -1;
}

/* Note a request for values.  -1: it is invalid. */
static int question_add(struct outlet_far *f, const struct far_msg *m)
{
    struct question *q = &f->questions[(f->question + f->nquestions) % FAR_QUESTIONS];
    struct held *h = held_find(f, m->number);

    if (!h || h->released || f->nquestions == FAR_QUESTIONS)
        return -1;
    f->nquestions++;
    h->asked++;
    q->msg = *m;
    memcpy(q->payload, f->in + FAR_HEAD_LEN, m->payload);
    return 0;
}

/* Begin to answer the oldest request for values.  -1: the request is invalid. */
static int question(outlet_t *o, struct outlet_far *f)
{
    const struct question *q = &f->questions[f->question];
    struct held *h = held_find(f, q->msg.number);
    struct far_msg m = {.type = FAR_DATA, .number = q->msg.number};

    INVARIANT(1, h && h->asked > 0);
    if (q->msg.type == FAR_BOX) {
        if (box_of(o, f, h, q) < 0)
            return -1;
    } else {
        if (q->msg.step > h->item.len || q->msg.len > h->item.len - q->msg.step)
            return -1;
        f->bulk.box = false;
        f->bulk.p = o->base + h->item.off + q->msg.step;
        f->bulk.left = q->msg.len;
    }
    m.len = f->bulk.left;
    put_msg(f, &m);
    f->bulk.number = m.number;
    h->asked--;
    f->nquestions--;
    f->question = (f->question + 1) % FAR_QUESTIONS;
    pthread_mutex_lock(&o->lock);
    o->stats.asked += m.len;
    pthread_mutex_unlock(&o->lock);
    return 0;
}

/* Send the reason why no more steps come. */
static void end(struct outlet_far *f, enum lane_end why)
{
    struct far_msg m = {.type = FAR_END, .number = (uint64_t)why};

    put_msg(f, &m);
    f->ended = true;
}

/* Announce a step that is held. */
static void offer(outlet_t *o, struct outlet_far *f, const struct lane_item *item)
{
    if (item->pin != f->pin && item->pin_len <= FAR_PINNED_MAX)
        announce_pinned(o, f, item);
    else
        announce(o, f, item);
}

/* The next step that is announced again; NULL: there are no more. */
static const struct held *redo(struct outlet_far *f)
{
    const struct held *h = NULL;

    while (!h && f->redo <= f->taken)
        h = held_find(f, f->redo++);
    return h;
}

/* Pass on the numbers of a group that have changed.  false: there are none. */
static bool note(struct outlet_far *f)
{
    uint64_t floor = lane_rx_floor(f->rx);
    uint64_t missing = lane_rx_missing(f->rx);
    struct far_msg m = {.type = FAR_NOTE, .step = KNOCK_NO_STEP, .len = floor};

    if (floor == f->floor && missing == f->missing)
        return false;
    if (missing != f->missing)
        m.step = missing - 1;
    f->floor = floor;
    f->missing = missing;
    put_msg(f, &m);
    return true;
}

/* Take the next step from the lane, if the reader may have one.  false: there is nothing to do
 * until the bell rings. */
static bool next(outlet_t *o, struct outlet_far *f)
{
    static const struct far_msg nothing = {.type = FAR_NOTHING};
    const struct held *h;
    struct lane_item item;
    enum lane_end why;

    if (f->ended)
        return false;
    if (f->behind.number > 0) {
        item = f->behind;
        f->behind.number = 0;
        announce(o, f, &item);
        return true;
    }
    if ((h = redo(f))) {
        offer(o, f, &h->item);
        return true;
    }
    if (note(f))
        return true;
    why = lane_rx_end(f->rx); /* before the lane is found empty */
    if (why == LANE_OPEN && !f->push && !f->take && !f->wait)
        return false;
    if (lane_rx_take(f->rx, &item) == 1) {
        f->held[item.number % LANE_SLOTS] = (struct held){.item = item};
        f->nheld++;
        f->taken = item.number;
        f->redo = item.number + 1;
        offer(o, f, &item);
    } else if (why != LANE_OPEN)
        end(f, why);
    else if (f->take) {
        f->take = false;
        put_msg(f, &nothing);
    } else
        return !lane_rx_sleep(f->rx);
    return true;
}

/* Copy short runs of a box to `out`. */
static void copy_runs(struct outlet_far *f)
{
    struct bulk *b = &f->bulk;
    struct iovec iov[RUNS];
    size_t max, n;

    while ((max = (OUT - f->out_len) / stream_copy_run(&b->part)) > 0 &&
           (n = stream_copy_runs(&b->part, b->p, &b->runs, iov, max < RUNS ? max : RUNS)) > 0) {
        for (size_t i = 0; i < n; i++)
            put(f, iov[i].iov_base, iov[i].iov_len);
        b->left -= n * iov[0].iov_len;
    }
}

static void release(struct outlet_far *f, struct held *h)
{
    lane_rx_release(f->rx, h->item.number);
    h->item.number = 0;
    f->nheld--;
    f->acknowledged = f->member;
}

static void bulk_end(struct outlet_far *f)
{
    struct held *h = held_find(f, f->bulk.number);

    f->bulk.number = 0;
    if (h && h->released && h->asked == 0)
        release(f, h);
}

/* Copy short data to `out`, so that many answers are sent together. */
static void copy_short(struct outlet_far *f)
{
    struct bulk *b = &f->bulk;
    bool few = b->left <= WHOLE && b->left <= OUT - f->out_len;

    if (b->number == 0)
        return;
    if (b->box && (stream_copy_run(&b->part) < SHORT || (few && b->n == 0)))
        copy_runs(f);
    else if (!b->box && few) {
        put(f, b->p, b->left);
        b->left = 0;
    }
    if (b->left == 0)
        bulk_end(f);
}

/* Gather the data to send: `iov` has RUNS + 1 elements.  Returns the number of elements; 0:
 * nothing.  -1: the reader has requested a value that does not exist. */
static int gather(outlet_t *o, struct outlet_far *f, struct iovec *iov)
{
    struct bulk *b = &f->bulk;
    int n = 0;

    if (f->out_at == f->out_len)
        f->out_at = f->out_len = 0;
    copy_short(f);
    while (b->number == 0 && OUT - f->out_len >= WHOLE + 3 * FAR_HEAD_LEN) {
        if (f->nquestions > 0) {
            if (question(o, f) < 0)
                return -1;
        } else if (!next(o, f))
            break;
        copy_short(f);
    }
    if (f->out_len > f->out_at)
        iov[n++] = (struct iovec){f->out + f->out_at, f->out_len - f->out_at};
    if (b->number == 0)
        return n;
    if (!b->box)
        iov[n++] = (struct iovec){(void *)b->p, b->left};
    else if (stream_copy_run(&b->part) >= SHORT) {
        if (b->at == b->n) {
            b->n = stream_copy_runs(&b->part, b->p, &b->runs, b->iov, RUNS);
            b->at = 0;
        }
        memcpy(iov + n, b->iov + b->at, (b->n - b->at) * sizeof(*iov));
        n += (int)(b->n - b->at);
    }
    return n;
}

/* Account for `len` bytes that were sent. */
static void sent(struct outlet_far *f, size_t len)
{
    struct bulk *b = &f->bulk;
    size_t n = f->out_len - f->out_at;

    if (n > len)
        n = len;
    f->out_at += n;
    len -= n;
    if (len == 0)
        return;
    INVARIANT(2, b->number > 0 && len <= b->left);
    b->left -= len;
    if (!b->box)
        b->p += len;
    while (b->box && len > 0) {
        struct iovec *v = &b->iov[b->at];

        n = len < v->iov_len ? len : v->iov_len;
        v->iov_base = (char *)v->iov_base + n;
        v->iov_len -= n;
        len -= n;
        if (v->iov_len == 0)
            b->at++;
    }
    if (b->left == 0)
        bulk_end(f);
}

/* Limit the data to those of one turn. */
static int cut(struct iovec *iov, int n)
{
    size_t left = TURN;

    for (int i = 0; i < n; i++) {
        if (iov[i].iov_len >= left) {
            iov[i].iov_len = left;
            return i + 1;
        }
        left -= iov[i].iov_len;
    }
    return n;
}

/* Send data, for one turn.  1: the rest waits for the connection; 0; -1: it has failed. */
static int push_out(outlet_t *o, struct outlet_far *f)
{
    uint64_t before = far_link_sent(f->link);
    int rc = 0;

    for (;;) {
        struct iovec iov[RUNS + 1];
        int n = cut(iov, gather(o, f, iov));
        ssize_t done;

        if (n < 0)
            return -1;
        if (n == 0 && !far_link_waits(f->link))
            break;
        done = n > 0 ? far_link_send(f->link, iov, (size_t)n) : far_link_flush(f->link);
        if (done < 0 && errno != EAGAIN) {
            f->cut = true;
            return -1;
        }
        if (done > 0)
            sent(f, (size_t)done);
        if (done < 0 || far_link_sent(f->link) - before >= TURN) {
            rc = 1;
            break;
        }
    }
    if (far_link_sent(f->link) != before) {
        pthread_mutex_lock(&o->lock);
        o->stats.sent += far_link_sent(f->link) - before;
        pthread_mutex_unlock(&o->lock);
        o->progress = clock_now();
    }
    return rc;
}

/* --- input --- */

/* Handle one message of the reader: 0, or -1: it is invalid. */
static int message(outlet_t *o, struct outlet_conn *c, const struct far_msg *m)
{
    struct outlet_far *f = c->far;
    struct knock_claim claim = {.step = m->step, .floor = m->len};
    struct held *h;

    switch (m->type) {
    case FAR_TAKE:
        f->take = true;
        return 0;
    case FAR_WAIT:
        f->wait = true;
        return 0;
    case FAR_RELEASE:
        if (!(h = held_find(f, m->number)) && m->number <= f->before)
            return 0; /* it was released before the loss */
        if (!h || h->released)
            return -1;
        h->released = true;
        if (m->number != f->bulk.number && h->asked == 0)
            release(f, h);
        o->progress = clock_now();
        return 0;
    case FAR_CLAIM:
        if (!c->want.follow)
            return -1;
        pthread_mutex_lock(&o->lock);
        outlet_follow_claim(o, c, &claim);
        pthread_mutex_unlock(&o->lock);
        return 0;
    default: /* FAR_BYTES, FAR_BOX */
        return question_add(f, m);
    }
}

/* Check a complete hello.  0 with the reader's secret; or -1: EPROTO, or EACCES if it is the hello
 * of a reader without a grant, or its time is over. */
static int hello_check(const outlet_t *o, const struct outlet_far *f, struct far_hello *h,
                       unsigned char *secret)
{
    struct far_grant g = {.stream = o->far.stream};

    if (far_hello_read(f->in, h) < 0)
        return -1;
    g.reader = h->reader;
    g.expires = h->expires;
    far_key_grant(secret, o->key, &g);
    /* Whoever resumes was admitted in time: resume() checks that. */
    if (far_hello_proves(f->in, secret, f->greeting) &&
        (h->resume || clock_boot() + atomic_load(&o->ahead) <= (double)h->expires))
        return 0;
    errno = EACCES;
    return -1;
}

void outlet_set_clock(outlet_t *o, double clock)
{
    double ahead = clock - clock_boot();
    double known = atomic_load(&o->ahead);

    /* What was read late seems to be early, and grants would be valid for longer; only the clock of
     * another broker at the root is much earlier. */
    if (!o->clocked || ahead > known || ahead < known - OTHER_CLOCK)
        atomic_store(&o->ahead, ahead);
    o->clocked = true;
}

static int answer_hello(struct outlet_far *f, const unsigned char buf[FAR_WELCOME_LEN])
{
    struct iovec iov = {(void *)buf, FAR_WELCOME_LEN};

    return far_link_send(f->link, &iov, 1) == FAR_WELCOME_LEN ? 0 : -1;
}

static void say_refused(struct outlet_far *f)
{
    unsigned char buf[FAR_WELCOME_LEN];

    far_refusal_make(buf);
    (void)answer_hello(f, buf);
}

static int welcome(struct outlet_far *f, const unsigned char *secret, int errnum, bool secure)
{
    struct far_welcome w = {.errnum = errnum, .secure = secure};
    unsigned char buf[FAR_WELCOME_LEN];
    struct far_keys keys;

    far_welcome_make(buf, &w, secret, f->in);
    if (answer_hello(f, buf) < 0)
        return -1;
    if (!secure)
        return 0;
    far_keys_make(&keys, secret, f->in, f->greeting);
    return far_link_secure(f->link, keys.to_reader, keys.to_writer);
}

/* Open a lane in memory of this process, of which a reader uses a small part at a time: the kernel
 * clears pages when they are touched. */
static int lane_open(struct outlet_conn *c)
{
    struct outlet_far *f = c->far;
    void *p = mmap(NULL, memory_size(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (p == MAP_FAILED)
        return -1;
    f->memory = p;
    f->held = (void *)((char *)p + lane_page_size());
    f->questions = (void *)(f->held + LANE_SLOTS);
    f->out = (unsigned char *)(f->questions + FAR_QUESTIONS);
    return (c->lane = lane_tx_create(p)) && (f->rx = lane_rx_create(p)) ? 0 : -1;
}

/* The connection that a reader wants to go on, whether its loss was noticed or not; NULL: it was
 * not admitted, or its time is over. */
static struct outlet_conn *lost_find(outlet_t *o, const struct far_hello *h)
{
    LIST_FOREACH(it, &o->fars)
    {
        struct outlet_conn *c = list_entry(it, struct outlet_conn, far_node);

        if (c->shared && c->want.reader == h->reader && c->far->expires == h->expires)
            return c;
    }
    return NULL;
}

/* Let a lost connection go on by the new one `c`, which is freed: 1.  -1: it cannot. */
static int resume(outlet_t *o, struct outlet_conn *c, const struct far_hello *h,
                  const unsigned char *secret)
{
    struct epoll_event ev = {.events = EPOLLIN | EPOLLRDHUP};
    struct outlet_conn *old = lost_find(o, h);
    struct outlet_far *f = c->far;

    if (welcome(f, secret, old ? 0 : ESTALE, old && (h->secure || o->far.secure)) < 0 || !old)
        return -1;
    if (old->far->link)
        outlet_far_lose(o, old);
    ev.data.ptr = old;
    if (epoll_ctl(o->epoll_fd, EPOLL_CTL_MOD, far_link_fd(f->link), &ev) < 0)
        return -1;
    old->far->link = f->link;
    old->far->before = h->have;
    old->far->redo = h->have + 1;
    old->far->floor = old->far->missing = 0; /* they are passed on again */
    old->far->more = true;
    old->shared = c->shared;
    f->link = NULL;
    list_remove(&c->node);
    o->nknocking_far--;
    outlet_conn_free(c);
    return 1;
}

/* 0; 1: the reader is one that has come back, and `c` is freed; -1. */
static int admit(outlet_t *o, struct outlet_conn *c)
{
    struct outlet_far *f = c->far;
    unsigned char secret[FAR_KEY_LEN];
    struct far_hello h;
    int errnum = 0;
    int rc;

    if (hello_check(o, f, &h, secret) < 0) {
        if (errno == EACCES)
            say_refused(f);
        return -1;
    }
    far_addr_setup(far_link_fd(f->link), o->far.silence, false);
    if (h.resume)
        return resume(o, c, &h, secret);
    f->expires = h.expires;
    if (c->late) /* the stream is closed */
        errnum = ECONNRESET;
    else if (o->nreaders >= OUTLET_READERS_MAX)
        errnum = EBUSY;
    else if (lane_open(c) < 0)
        errnum = ENOMEM;
    c->want = h.want;
    f->member = c->want.group[0] != '\0';
    pthread_mutex_lock(&o->lock);
    if (errnum == 0 && (errnum = outlet_enter(o, c)) == 0) {
        list_remove(&c->node);
        list_append(&o->fars, &c->far_node);
        o->nknocking_far--;
        /* First, so that a welcomed reader finds all kept steps. */
        outlet_joined(o, c);
    }
    pthread_mutex_unlock(&o->lock);
    rc = welcome(f, secret, errnum, errnum == 0 && (h.secure || o->far.secure));
    f->got = 0;
    return errnum == 0 ? rc : -1;
}

/* The number of bytes needed next: of the hello, the head of a message, or a whole message. */
static size_t need(const struct outlet_far *f, struct far_msg *m)
{
    if (!f->rx)
        return FAR_HELLO_LEN;
    if (f->got < FAR_HEAD_LEN)
        return FAR_HEAD_LEN;
    return far_msg_decode(f->in, false, m) < 0 ? 0 : FAR_HEAD_LEN + m->payload;
}

/* Has a connection through relays been closed in both directions, and not only by the reader? */
static bool hung(int fd)
{
    struct pollfd p = {.fd = fd};

    return poll(&p, 1, 0) == 1 && (p.revents & (POLLHUP | POLLERR)) != 0;
}

/* Read and handle input.  0; -1: the reader is gone, or has sent an invalid message; 1: see
 * admit(). */
static int pull_in(outlet_t *o, struct outlet_conn *c)
{
    struct outlet_far *f = c->far;
    int rc;

    f->more = false;
    for (unsigned turn = 0; !f->more; turn += f->got == 0) {
        struct far_msg m;
        size_t want = need(f, &m);
        ssize_t n;

        if (want == 0)
            return -1;
        if (f->got < want) {
            n = far_link_recv(f->link, f->in + f->got, want - f->got);
            if (n < 0 && errno == EAGAIN)
                return 0;
            if (n <= 0) {
                f->cut = n < 0 || hung(far_link_fd(f->link));
                return -1;
            }
            f->got += (size_t)n;
            continue;
        }
        f->more = turn == MESSAGES;
        if ((rc = f->rx ? message(o, c, &m) : admit(o, c)) != 0)
            return rc;
        f->got = 0;
    }
    return 0;
}

/* --- the door --- */

int outlet_far_fd(const struct outlet_conn *c)
{
    return far_link_fd(c->far->link);
}

bool outlet_far_more(const struct outlet_conn *c)
{
    return c->far->more;
}

int outlet_far_serve(outlet_t *o, struct outlet_conn *c, bool readable)
{
    struct epoll_event ev = {.events = EPOLLIN | EPOLLRDHUP, .data.ptr = c};
    struct outlet_far *f = c->far;
    int rc = 0;

    if (readable && (rc = pull_in(o, c)) != 0)
        return rc;
    pthread_mutex_lock(&o->lock); /* the policy may be changed concurrently */
    f->push = c->want.policy != KNOCK_LATEST && c->want.policy != KNOCK_DROP_OLDEST;
    pthread_mutex_unlock(&o->lock);
    if (f->rx && (rc = push_out(o, f)) < 0)
        return -1;
    if (f->acknowledged) {
        f->acknowledged = false;
        pthread_mutex_lock(&o->lock);
        if (c->group) /* the writer has not ended */
            outlet_group_reap(o, c);
        pthread_mutex_unlock(&o->lock);
    }
    if ((rc == 1) != f->want_out) {
        f->want_out = rc == 1;
        if (f->want_out)
            ev.events |= EPOLLOUT;
        epoll_ctl(o->epoll_fd, EPOLL_CTL_MOD, far_link_fd(f->link), &ev);
    }
    return 0;
}

bool outlet_far_cut(const struct outlet_conn *c)
{
    return c->shared && c->far->rx && c->far->cut;
}

bool outlet_far_lost(const struct outlet_conn *c)
{
    return !c->far->link;
}

void outlet_far_lose(outlet_t *o, struct outlet_conn *c)
{
    struct outlet_far *f = c->far;

    epoll_ctl(o->epoll_fd, EPOLL_CTL_DEL, far_link_fd(f->link), NULL);
    far_link_destroy(f->link);
    f->link = NULL;
    f->cut = f->more = f->want_out = f->take = f->wait = f->ended = false;
    f->nquestions = 0;
    f->until = clock_now() + o->far.silence / 2;
    f->got = f->out_at = f->out_len = 0;
    f->bulk.number = f->behind.number = f->pin = 0;
    free(f->first);
    f->first = NULL;
    for (size_t i = 0; i < LANE_SLOTS; i++) {
        f->held[i].asked = 0;
        if (f->held[i].item.number > 0 && f->held[i].released)
            release(f, &f->held[i]);
    }
}

bool outlet_far_silent(const outlet_t *o, const struct outlet_conn *c)
{
    if (!c->far->link)
        return clock_now() > c->far->until;
    return far_addr_silent(far_link_fd(c->far->link), o->far.silence);
}

bool outlet_far_done(const struct outlet_conn *c)
{
    const struct outlet_far *f = c->far;

    return lane_rx_end(f->rx) == LANE_EVICTED || (f->ended && f->nheld == 0 && !f->want_out);
}

/* inlet_far_ask.c - the values that a reader requests of a writer on another host.
 *
 * A value is requested as a whole, into its place in the step; or the elements of a box, into the
 * memory of the box.  Requests wait in the ring `pending`, and the writer answers them in their
 * order.  What is requested before the first answer is awaited goes together: the kernel holds the
 * messages back until inlet_far_push(), so that many parts cost one exchange, and wake the writer
 * once.
 *
 * A response whose elements are not contiguous in the box is received in `packed`, and unpacked
 * when it is whole.  Only one response arrives at a time, so all share this memory.
 *
 * Invariants:
 *  1. At most FAR_QUESTIONS requests are pending: a further one waits for the first response.
 *  2. A response is written only to the memory that the caller gave with its request, and, after
 *     inlet_far_forget() or the release of the step, nowhere.
 *
 * Failure: values that have not arrived when the connection ends are an error of
 * inlet_far_answer(), unless the connection is resumed (inlet_far_join.c), which sends all pending
 * requests again.
 */
#include "config.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "libstream/inlet_far_private.h"
#include "libutil/invariant.h"

/* --- the ring --- */

struct inlet_far_pending *inlet_far_pending(inlet_far_t *f, unsigned i)
{
    return &f->pending[(f->pending_first + i) & (f->pending_room - 1)];
}

void inlet_far_pending_pop(inlet_far_t *f)
{
    f->pending_first = (f->pending_first + 1) & (f->pending_room - 1);
    f->npending--;
}

/* Make room for one more.  0, or -1 with ENOMEM. */
static int ring_grow(inlet_far_t *f)
{
    unsigned room = f->pending_room > 0 ? 2 * f->pending_room : 1;
    struct inlet_far_pending *more;

    if (f->npending < f->pending_room)
        return 0;
    if (!(more = malloc(room * sizeof(*more))))
        return -1;
    for (unsigned i = 0; i < f->npending; i++)
        more[i] = *inlet_far_pending(f, i);
    free(f->pending);
    f->pending = more;
    f->pending_room = room;
    f->pending_first = 0;
    return 0;
}

/* Is the response to the oldest request coming? */
static bool coming(const inlet_far_t *f)
{
    return f->msg.type == FAR_DATA;
}

void inlet_far_ask_drop(inlet_far_t *f, uint64_t number)
{
    for (unsigned i = 0; i < f->npending; i++) {
        struct inlet_far_pending *p = inlet_far_pending(f, i);

        if (number != 0 && p->number != number)
            continue;
        p->to = NULL;
        p->box = NULL;
        if (i == 0 && coming(f))
            f->to = NULL;
    }
}

void inlet_far_forget(inlet_far_t *f)
{
    inlet_far_ask_drop(f, 0);
}

int inlet_far_data_begin(inlet_far_t *f)
{
    const struct inlet_far_pending *p = f->npending > 0 ? inlet_far_pending(f, 0) : NULL;

    if (!p || f->msg.number != p->number || f->msg.len != p->len)
        return -1;
    f->to = p->box ? f->packed : p->to;
    f->left = p->len;
    return 0;
}

void inlet_far_data_ready(inlet_far_t *f)
{
    const struct inlet_far_pending *p = inlet_far_pending(f, 0);
    struct inlet_far_step *st = inlet_far_step_find(f, p->number);

    INVARIANT(2, st || (!p->to && !p->box));
    if (p->box)
        stream_copy_unpack(&p->part, f->packed, p->box);
    else if (p->to && p->var != INLET_FAR_NO_VAR)
        st->have[p->var / 64] |= (uint64_t)1 << p->var % 64;
    inlet_far_pending_pop(f);
}

/* --- answers --- */

static bool none(const inlet_far_t *f)
{
    return f->npending == 0;
}

static bool has_room(const inlet_far_t *f)
{
    return f->npending < FAR_QUESTIONS;
}

/* The error message for a value that cannot be fetched. */
static int lost(const inlet_far_t *f, errmsg_t *err)
{
    if (f->errnum == ECONNRESET || f->errnum == EPIPE)
        return errmsg_fail(err, ECONNRESET,
                           "the writer of the stream has ended before a value was read");
    if (f->errnum == ETIMEDOUT)
        return errmsg_fail(err, ECONNRESET, "the writer of the stream does not answer any more");
    return inlet_far_ended(f, err);
}

static int await(inlet_far_t *f, bool (*enough)(const inlet_far_t *), errmsg_t *err)
{
    int rc = 1;

    if (!enough(f)) {
        inlet_far_push(f);
        rc = inlet_far_pump_until(f, enough, INLET_FAR_ANSWER);
    }
    if (rc > 0)
        return 0;
    if (rc == 0)
        inlet_far_broken(f, ETIMEDOUT);
    return lost(f, err);
}

int inlet_far_answer(inlet_far_t *f, errmsg_t *err)
{
    return await(f, none, err);
}

/* --- requests --- */

/* Send a request; it goes with others until inlet_far_push().  0, or -1 with an error message. */
static int ask(inlet_far_t *f, const struct inlet_far_pending *p, errmsg_t *err)
{
    if (await(f, has_room, err) < 0)
        return -1;
    if (ring_grow(f) < 0)
        return errmsg_fail(err, ENOMEM, "out of memory for requests of a stream");
    INVARIANT(1, f->npending < FAR_QUESTIONS);
    *inlet_far_pending(f, f->npending++) = *p;
    if (inlet_far_say_question(f, p) < 0) {
        f->npending--;
        return lost(f, err);
    }
    return 0;
}

/* The step of a value, after checks. */
static struct inlet_far_step *value_of(inlet_far_t *f, const struct inlet_step *s,
                                       const struct inlet_value *v, errmsg_t *err)
{
    struct inlet_far_step *st = inlet_far_step_find(f, s->number);

    if (st && v->var < BLOCK_VARS_MAX && v->off <= st->len && v->len <= st->len - v->off)
        return st;
    errmsg_fail(err, EINVAL, "the step is not held, or the value is outside of it");
    return NULL;
}

static bool there(const struct inlet_far_step *st, const struct inlet_value *v)
{
    return v->len == 0 || st->first >= v->off + v->len ||
           (st->have[v->var / 64] >> v->var % 64 & 1) != 0;
}

/* Has the value as a whole been requested? */
static bool requested(inlet_far_t *f, const struct inlet_far_step *st, const struct inlet_value *v)
{
    for (unsigned i = 0; i < f->npending; i++) {
        const struct inlet_far_pending *p = inlet_far_pending(f, i);

        if (p->number == st->number && p->var == v->var && p->to)
            return true;
    }
    return false;
}

int inlet_far_ask_value(inlet_far_t *f, const struct inlet_step *s, const struct inlet_value *v,
                        errmsg_t *err)
{
    struct inlet_far_step *st = value_of(f, s, v, err);
    struct inlet_far_pending p = {.number = s->number, .var = v->var, .len = v->len};

    if (!st)
        return -1;
    if (there(st, v) || requested(f, st, v))
        return 0;
    p.to = f->base + st->e->off + v->off;
    p.msg = (struct far_msg){.type = FAR_BYTES, .number = s->number, .step = v->off, .len = v->len};
    return ask(f, &p, err);
}

int inlet_far_fetch(inlet_far_t *f, const struct inlet_step *s, const struct inlet_value *v,
                    errmsg_t *err)
{
    return inlet_far_ask_value(f, s, v, err) == 0 && inlet_far_answer(f, err) == 0 ? 0 : -1;
}

int inlet_far_fetch_all(inlet_far_t *f, const struct inlet_step *s, errmsg_t *err)
{
    struct inlet_far_step *st = value_of(f, s, &(struct inlet_value){0}, err);
    struct inlet_far_pending p = {.number = s->number, .var = INLET_FAR_NO_VAR};

    if (!st || st->first == st->len)
        return st ? 0 : -1;
    p.len = st->len - st->first;
    p.to = f->base + st->e->off + st->first;
    p.msg =
        (struct far_msg){.type = FAR_BYTES, .number = s->number, .step = st->first, .len = p.len};
    if (ask(f, &p, err) < 0 || inlet_far_answer(f, err) < 0)
        return -1;
    st->first = st->len;
    return 0;
}

/* Are the elements contiguous in the box? */
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
    bool into = coming(f) && f->to && inlet_far_pending(f, 0)->box;
    size_t at = into ? (size_t)(f->to - f->packed) : 0;
    unsigned char *p;

    if (len <= f->packed_room)
        return 0;
    if (!(p = realloc(f->packed, len)))
        return errmsg_fail(err, ENOMEM, "out of memory for %llu bytes of a box",
                           (unsigned long long)len);
    f->packed = p;
    f->packed_room = len;
    if (into)
        f->to = p + at;
    return 0;
}

int inlet_far_ask(inlet_far_t *f, const struct inlet_step *s, const struct inlet_value *v,
                  const struct stream_box *box, const struct stream_part *part, void *buf,
                  errmsg_t *err)
{
    struct inlet_far_step *st = value_of(f, s, v, err);
    struct inlet_far_pending p = {.number = s->number, .var = INLET_FAR_NO_VAR, .part = *part};

    if (!st)
        return -1;
    if (there(st, v)) {
        stream_copy(part, f->base + st->e->off + v->off, buf);
        return 0;
    }
    p.len = part->elems * part->from_elem;
    if (in_line(part))
        p.to = (unsigned char *)buf + part->to;
    else if (packed_room(f, p.len, err) < 0)
        return -1;
    else
        p.box = buf;
    p.msg = (struct far_msg){
        .type = FAR_BOX, .payload = 24 * box->ndims, .number = s->number, .step = v->var};
    stream_select_encode(box, p.payload);
    return ask(f, &p, err);
}

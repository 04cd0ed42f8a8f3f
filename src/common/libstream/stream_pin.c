/* stream_pin.c - variables of which the newest value is kept for readers that come later.
 *
 * A writer pins a variable by its name.  When a step has such a variable, the writer makes a block
 * (block.h) of the newest values of all its pinned variables, the pin block, in the memory of its
 * steps, and copies the values that have not changed from the preceding pin block.  The new block
 * belongs to this step and to those after it (outlet_pin_begin()): a reader finds with each step
 * the pin block that belongs to it, however and whenever it gets the step, and uses it in place.
 * So pinning costs a copy of the pin block when one of these variables is put, and nothing
 * otherwise.
 *
 * The block is made also while nobody reads, so that the first reader finds it.
 *
 * Invariants:
 *  1. `pinned` is the current pin block, with each pinned variable that some step has had, once;
 *     its bytes are at `pinned_at`, and stay until they are replaced.
 *  2. A pin block has at most PINNED_MAX bytes.
 *
 * Failure: a step whose pinned variables have no room is not published: flux_stream_end_step().  A
 * block that is malformed is EPROTO for the reader.
 */
#include "config.h"
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "libstream/far_msg.h"
#include "libstream/stream_private.h"
#include "libutil/invariant.h"

#define PINNED_MAX ((uint64_t)64 << 20)

_Static_assert(PINNED_MAX <= FAR_PINNED_MAX, "it is sent as one message");

/* --- writing --- */

int flux_stream_pin(flux_stream_t *s, const char *var, errmsg_t *err)
{
    if (s->mode != FLUX_STREAM_WRITE)
        return errmsg_fail(err, EINVAL, "stream '%s' was opened for reading", s->name);
    if (!block_name_ok(var, strlen(var)))
        return errmsg_fail(err, EINVAL, "'%.127s' is not a name of a variable", var);
    if (s->pins && hmap_get(s->pins, var))
        return 0;
    if (s->pins && hmap_count(s->pins) >= BLOCK_VARS_MAX)
        return errmsg_fail(err, E2BIG, "stream '%s' has %d pinned variables already", s->name,
                           BLOCK_VARS_MAX);
    if ((!s->pins && !(s->pins = hmap_create_str(NULL))) || hmap_put(s->pins, var, s) < 0)
        return errmsg_fail(err, ENOMEM, "out of memory to pin variable '%s' of stream '%s'", var,
                           s->name);
    return 0;
}

/* Is one of the variables of the step pinned? */
static bool concerned(const flux_stream_t *s)
{
    const struct block_var *v;

    for (size_t i = 0; s->pins && (v = block_at(s->vars, i)); i++) {
        if (hmap_get(s->pins, v->name))
            return true;
    }
    return false;
}

/* The table of the next pin block: NULL with errno. */
static block_t *table_make(const flux_stream_t *s)
{
    block_t *b = block_create();
    const struct block_var *v;
    int rc = b ? 0 : -1;

    for (size_t i = 0; rc == 0 && s->pinned && (v = block_at(s->pinned, i)); i++) {
        if (!block_find(s->vars, v->name))
            rc = block_add(b, v->name, v->desc, v->desc_len, v->len);
    }
    for (size_t i = 0; rc == 0 && (v = block_at(s->vars, i)); i++) {
        if (hmap_get(s->pins, v->name))
            rc = block_add(b, v->name, v->desc, v->desc_len, v->len);
    }
    if (rc < 0) {
        block_destroy(b);
        b = NULL;
    }
    return b;
}

/* Copy the newest value of a pinned variable.  0, or -1 with an error message. */
static int newest(flux_stream_t *s, const char *name, void *to, errmsg_t *err)
{
    const struct block_var *v = block_find(s->vars, name);
    const char *from;

    if (v && !s->placed)
        return stream_writer_value(s, (size_t)(v - block_at(s->vars, 0)), to, err);
    from = s->placed;
    if (!v) {
        v = block_find(s->pinned, name);
        INVARIANT(1, v != NULL);
        from = s->pinned_at;
    }
    memcpy(to, from + v->off, v->len);
    s->copied += v->len;
    return 0;
}

int stream_pin_update(flux_stream_t *s, errmsg_t *err)
{
    const struct block_var *v;
    uint64_t size;
    errmsg_t why;
    block_t *b;
    void *buf;
    int rc;

    if (!concerned(s))
        return 0;
    if (!s->placed && stream_writer_measure(s, err) < 0)
        return -1;
    if (!(b = table_make(s)))
        return errmsg_fail(err, errno, "the variables of stream '%s' cannot be pinned: %s", s->name,
                           strerror(errno));
    size = block_size(b);
    if (size > PINNED_MAX)
        rc = errmsg_fail(err, ENOSPC,
                         "step %" PRIu64 " of stream '%s' would let %" PRIu64
                         " bytes be pinned: at most %" PRIu64 " can",
                         s->step, s->name, size, PINNED_MAX);
    else if ((rc = outlet_pin_begin(s->out, size, &buf, &why)) < 0)
        errmsg_fail(err, errno, "step %" PRIu64 " of stream '%s': %s", s->step, s->name, why.text);
    if (rc < 0) {
        block_destroy(b);
        return -1;
    }
    INVARIANT(2, size <= PINNED_MAX);
    block_write(b, buf);
    for (size_t i = 0; (v = block_at(b, i)); i++) {
        if (v->len > 0 && newest(s, v->name, (char *)buf + v->off, err) < 0) {
            block_destroy(b);
            return -1;
        }
    }
    block_destroy(s->pinned);
    s->pinned = b;
    s->pinned_at = buf;
    return 1;
}

/* --- reading --- */

int stream_pin_read(struct stream_source *src, errmsg_t *err)
{
    const struct inlet_step *head = &src->steps[0];

    if (head->pin == 0)
        return 0;
    if (!src->pinned || src->pin.number != head->pin) {
        block_destroy(src->pinned);
        src->pinned = block_read(head->pinned, head->pinned_len, err);
        src->pin =
            (struct inlet_step){.number = head->pin, .data = head->pinned, .len = head->pinned_len};
    }
    return src->pinned ? 1 : -1;
}

const char *flux_stream_pinned(flux_stream_t *s, uint32_t writer, size_t i)
{
    const struct block_var *v;
    size_t hidden = 0;

    if (!s->begun || writer >= s->nsources || stream_pin_read(&s->sources[writer], NULL) <= 0)
        return NULL;
    for (size_t k = 0; stream_view_on(s) && k <= i + hidden; k++) {
        if (!(v = block_at(s->sources[writer].pinned, k)))
            return NULL;
        hidden += stream_view_hides(s, v->name);
    }
    v = block_at(s->sources[writer].pinned, i + hidden);
    return v ? v->name : NULL;
}

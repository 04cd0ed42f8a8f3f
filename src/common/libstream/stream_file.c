/* stream_file.c - steps from readers to files, from files to readers, and from readers to writers.
 *
 * A recording is a reader whose sources have no writers.  Beginning a step makes the blocks of the
 * file (tape.h) the heads of the sources; all else is as for a stream with writers.  Recording a
 * step writes the blocks of all writers, after their tables have been verified, and before them
 * what they have pinned, and the formats of their records, as far as the file does not have them;
 * flux_stream_put_all() puts each variable of a block with its description, pins what is pinned,
 * and makes the format of records known.
 *
 * Failure: the begin of a damaged step fails with EPROTO.
 */
#include "config.h"
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "libstream/stream_file.h"
#include "libstream/stream_private.h"
#include "libutil/clock.h"

void stream_file_close(flux_stream_t *s)
{
    tape_destroy(s->tape);
    free(s->blocks);
    free(s->tape_pins);
    free(s->tape_owners);
}

/* Room for what a step of a file has of each writer.  0, or -1 with ENOMEM. */
static int room(flux_stream_t *s)
{
    if ((!s->blocks && !(s->blocks = calloc(s->nsources, sizeof(*s->blocks)))) ||
        (!s->tape_pins && !(s->tape_pins = calloc(s->nsources, sizeof(*s->tape_pins)))) ||
        (!s->tape_owners && !(s->tape_owners = calloc(s->nsources, sizeof(*s->tape_owners))))) {
        errno = ENOMEM;
        return -1;
    }
    return 0;
}

flux_stream_t *flux_stream_open_file(const char *path, errmsg_t *err)
{
    flux_stream_t *s = calloc(1, sizeof(*s));

    if (!s) {
        errmsg_fail(err, ENOMEM, "out of memory");
        return NULL;
    }
    s->mode = FLUX_STREAM_READ;
    if (!(s->tape = tape_open(path, err))) {
        flux_stream_close(s);
        return NULL;
    }
    if ((s->sources = calloc(tape_info(s->tape)->writers, sizeof(*s->sources))))
        s->nsources = tape_info(s->tape)->writers;
    if (!s->sources || !(s->name = strdup(tape_info(s->tape)->name)) || room(s) < 0) {
        flux_stream_close(s);
        errmsg_fail(err, ENOMEM, "out of memory for the recording %.120s", path);
        return NULL;
    }
    for (uint32_t w = 0; w < s->nsources; w++)
        s->sources[w].writer = w + 1; /* flux_stream_put_all() asks whether it is the same */
    return s;
}

int stream_file_begin(flux_stream_t *s, uint64_t which, uint64_t *step, errmsg_t *err)
{
    size_t count = tape_count(s->tape);
    size_t i = s->next;

    if (which < FLUX_STREAM_NEWEST) {
        i = tape_find(s->tape, which);
        if (i == count || tape_at(s->tape, i).number != which)
            return errmsg_fail(err, ENOENT,
                               "step %" PRIu64 " of stream '%s' is not in the recording", which,
                               s->name);
    } else if (i == count)
        return 0;
    else if (which == FLUX_STREAM_NEWEST)
        i = count - 1;
    if (tape_blocks(s->tape, i, s->blocks, err) < 0 || tape_pins(s->tape, i, s->tape_pins, err) < 0)
        return -1;
    s->step = tape_at(s->tape, i).number;
    s->next = i + 1;
    for (uint32_t w = 0; w < s->nsources; w++) {
        const struct tape_pin *pin = &s->tape_pins[w];

        s->sources[w].steps[0] = (struct inlet_step){.step = s->step,
                                                     .data = s->blocks[w].data,
                                                     .len = s->blocks[w].len,
                                                     .pin = pin->number,
                                                     .pinned = pin->block.data,
                                                     .pinned_len = pin->block.len};
        s->sources[w].has[0] = true;
    }
    s->begun = true;
    if (step)
        *step = s->step;
    return 1;
}

int flux_stream_file(const flux_stream_t *s, struct flux_stream_file *info)
{
    if (!s->tape) {
        errno = EINVAL;
        return -1;
    }
    *info = (struct flux_stream_file){tape_info(s->tape)->name, tape_info(s->tape)->format,
                                      tape_count(s->tape), tape_info(s->tape)->complete};
    return 0;
}

int flux_stream_file_step(const flux_stream_t *s, uint64_t i, uint64_t *step, double *time)
{
    if (!s->tape || i >= tape_count(s->tape)) {
        errno = s->tape ? ENOENT : EINVAL;
        return -1;
    }
    *step = tape_at(s->tape, i).number;
    *time = (double)tape_at(s->tape, i).time / 1e9;
    return 0;
}

/* Write the formats of the records that a writer has put.  0, or -1. */
static int record_formats(flux_stream_t *s, const block_t *b, tape_write_t *w, errmsg_t *err)
{
    const struct block_var *v;

    for (size_t i = 0; (v = block_at(b, i)); i++) {
        const stream_format_t *f;
        uint64_t id;

        if (stream_records_id(v->desc, v->desc_len, &id, err) < 0)
            return -1;
        if (id == 0 || tape_write_knows(w, id))
            continue;
        if (!(f = stream_records_format(s, id, err)) ||
            tape_write_records(w, id, stream_format_text(f), err) < 0)
            return -1;
    }
    return 0;
}

/* Find what a writer has pinned as of the step.  0, or -1. */
static int record_pinned(flux_stream_t *s, uint32_t i, tape_write_t *w, errmsg_t *err)
{
    struct stream_source *src = &s->sources[i];
    int rc = stream_view_on(s) ? 0 : stream_pin_read(src, err); /* else the step has them */

    s->tape_pins[i] = (struct tape_pin){{NULL, 0}, 0};
    s->tape_owners[i] = src->writer;
    if (rc <= 0)
        return rc;
    s->tape_pins[i] = (struct tape_pin){{src->pin.data, src->pin.len}, src->pin.number};
    return record_formats(s, src->pinned, w, err);
}

int stream_file_record(flux_stream_t *s, tape_write_t *w, errmsg_t *err)
{
    if (room(s) < 0)
        return errmsg_fail(err, ENOMEM, "out of memory to record stream '%s'", s->name);
    for (uint32_t i = 0; i < s->nsources; i++) {
        const void *data;
        uint64_t len;
        const block_t *b = stream_view_whole(s, i, &data, &len, err);

        if (!b || record_formats(s, b, w, err) < 0 || record_pinned(s, i, w, err) < 0)
            return -1;
        s->blocks[i] = (struct tape_block){data, len};
    }
    if (tape_write_pins(w, s->tape_pins, s->tape_owners, err) < 0)
        return -1;
    return tape_write_step(w, s->step, clock_wall_us() * 1000, s->blocks, err);
}

static int put_var(flux_stream_t *to, flux_stream_t *from, const struct block_var *v,
                   const void *data, errmsg_t *err)
{
    const stream_format_t *f;
    uint64_t id;

    if (stream_records_id(v->desc, v->desc_len, &id, err) < 0)
        return -1;
    if (id > 0 &&
        (!(f = stream_records_format(from, id, err)) || stream_records_define(to, f, err) < 0))
        return -1;
    return stream_writer_put(to, v->name, v->desc, v->desc_len, data, v->len, err);
}

/* Is the value that `to` keeps the one that a writer has pinned? */
static bool kept(const flux_stream_t *to, const struct stream_source *src,
                 const struct block_var *v)
{
    const struct block_var *k = to->pinned ? block_find(to->pinned, v->name) : NULL;

    return k && k->len == v->len && k->desc_len == v->desc_len &&
           (k->desc_len == 0 || memcmp(k->desc, v->desc, k->desc_len) == 0) &&
           memcmp(to->pinned_at + k->off, (const char *)src->pin.data + v->off, v->len) == 0;
}

/* Has `to` got all pin blocks of the source but that of the step `b`?  Then only the pinned
 * variables of this step have other values. */
static bool follows(const flux_stream_t *to, const struct stream_source *src, const block_t *b)
{
    const struct block_var *v;

    if (to->copied_from != src->writer || src->pin.number != to->copied_pin + 1)
        return to->copied_from == src->writer && src->pin.number == to->copied_pin;
    for (size_t i = 0; (v = block_at(src->pinned, i)); i++) {
        if (block_find(b, v->name))
            return true;
    }
    return false;
}

/* Pin what a writer has pinned by its step `b`, and add what `to` has not kept, since it has not
 * got the step with which that was pinned. */
static int put_pinned(flux_stream_t *to, flux_stream_t *from, uint32_t writer, const block_t *b,
                      errmsg_t *err)
{
    struct stream_source *src = &from->sources[writer];
    int rc = stream_pin_read(src, err);
    const struct block_var *v;
    bool next = rc > 0 && follows(to, src, b);

    for (size_t i = 0; rc > 0 && (v = block_at(src->pinned, i)); i++) {
        if (flux_stream_pin(to, v->name, err) < 0)
            return -1;
        if (!block_find(b, v->name) &&
            !(next ? to->pinned && block_find(to->pinned, v->name) : kept(to, src, v)) &&
            put_var(to, from, v, (const char *)src->pin.data + v->off, err) < 0)
            return -1;
    }
    if (rc > 0) {
        to->copied_from = src->writer;
        to->copied_pin = src->pin.number;
    }
    return rc < 0 ? -1 : 0;
}

int flux_stream_put_from(flux_stream_t *to, flux_stream_t *from, uint32_t writer, const char *var,
                         errmsg_t *err)
{
    struct stream_found f;
    const void *data;
    size_t len;
    int rc;

    if (to->mode != FLUX_STREAM_WRITE)
        return errmsg_fail(err, EINVAL, "stream '%s' was opened for reading", to->name);
    if (flux_stream_get(from, writer, var, &data, &len, err) < 0)
        return -1;
    rc = stream_reader_find(from, writer, var, &f, err);
    return rc < 0 ? -1 : put_var(to, from, f.var, data, err);
}

int flux_stream_put_all(flux_stream_t *to, flux_stream_t *from, uint32_t writer, errmsg_t *err)
{
    const void *data;
    uint64_t len;
    block_t *b = stream_view_whole(from, writer, &data, &len, err);

    if (!b)
        return -1;
    if (to->mode != FLUX_STREAM_WRITE)
        return errmsg_fail(err, EINVAL, "stream '%s' was opened for reading", to->name);
    for (size_t i = 0; i < block_count(b); i++) {
        const struct block_var *v = block_at(b, i);

        if (put_var(to, from, v, (const char *)data + v->off, err) < 0)
            return -1;
    }
    return stream_view_on(from) ? 0 : put_pinned(to, from, writer, b, err);
}

/* stream_schedule.c - boxes of arrays, one or several at a time.
 *
 * A request names a variable, a part of it, and the memory for its elements.  It is checked when it
 * is scheduled, as far as that needs nothing but the descriptions in the step.  Performing copies
 * what is on this host; writers on other hosts are asked before the first answer is awaited, so
 * that they send at the same time.  What one writer has to send is requested together, in one
 * exchange for all parts (inlet_far_ask.c).
 *
 * A box that one writer on this host has as a whole is also found where it is, with the distances
 * of its elements.
 *
 * A part of one writer is its piece of a global array, which is a box of that; or its own array,
 * which is fetched whole, into its place in the step, and copied from there.
 *
 * Invariants:
 *  1. Requests are of the step that is begun: the end of the step forgets them.
 *  2. Before a piece is read its value is known to have exactly the bytes of its elements.
 *  3. When performing has returned, nothing is outstanding, and nothing is written to the memory of
 *     the requests any more.
 *
 * Failure: performing ends with the first error, and forgets all requests.  Elements that no writer
 * has (ENODATA) are told when all others are there.
 */
#include "config.h"
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "libstream/copy.h"
#include "libstream/select.h"
#include "libstream/stream_private.h"

#define REQUESTS_MAX BLOCK_VARS_MAX

static const struct flux_stream_box all;

struct stream_request {
    char var[STREAM_VARIABLE_MAX + 1];
    uint32_t writer;       /* FLUX_STREAM_ALL: a box of a global array */
    bool own;              /* the array is one of the writer */
    stream_array_t *array; /* NULL: it has to be looked up again */
    struct stream_box box; /* of the global array, or of the array of the writer */
    stream_array_t *whole; /* the latter, as if it were a global one */
    stream_select_t *sel;
    size_t elem;
    void *buf;
};

static void request_clear(struct stream_request *r)
{
    stream_select_destroy(r->sel);
    stream_array_destroy(r->whole);
}

void stream_schedule_forget(flux_stream_t *s)
{
    while (s->nrequests > 0)
        request_clear(&s->requests[--s->nrequests]);
}

void stream_schedule_close(flux_stream_t *s)
{
    stream_schedule_forget(s);
    free(s->requests);
}

/* --- what is requested --- */

static void box_init(struct stream_box *box, unsigned ndims, const uint64_t *extents,
                     const uint64_t *start, const uint64_t *count, const uint64_t *stride)
{
    box->ndims = ndims;
    for (unsigned i = 0; i < ndims; i++) {
        box->start[i] = start ? start[i] : 0;
        box->count[i] = count ? count[i] : extents[i];
        box->stride[i] = stride ? stride[i] : 1;
    }
}

/* The piece of one writer, with strides from its first element on. */
static void box_of_piece(struct stream_box *box, const struct flux_stream_info *info,
                         const uint64_t *stride)
{
    box_init(box, info->ndims, info->count, info->global ? info->offset : NULL, NULL, stride);
    for (unsigned i = 0; i < box->ndims; i++) {
        if (box->stride[i] > 0) /* else it is refused later */
            box->count[i] = (info->count[i] - 1) / box->stride[i] + 1;
    }
}

/* The array of one writer as a global one with one piece.  0, or -1. */
static int whole_of(struct stream_request *r, const struct stream_shape *sh,
                    const struct flux_stream_info *info, errmsg_t *err)
{
    static const uint64_t zeros[STREAM_NDIMS_MAX];
    struct stream_shape as = *sh;

    as.kind = STREAM_GLOBAL;
    as.ndims = info->ndims;
    memcpy(as.extents, info->count, sizeof(as.extents));
    if (!(r->whole = stream_array_create(&as, err)) ||
        stream_array_add(r->whole, r->writer, zeros, info->count, err) < 0)
        return -1;
    return stream_array_seal(r->whole, err);
}

/* Check a request for what one writer has, which is not empty.  0, or -1. */
static int request_of_one(flux_stream_t *s, struct stream_request *r, const struct stream_shape *sh,
                          const struct flux_stream_box *b, errmsg_t *err)
{
    struct flux_stream_info info;
    errmsg_t why;

    if (b->start || b->count)
        return errmsg_fail(err, EINVAL,
                           "step %" PRIu64 " of stream '%s': of variable '%s' a box is requested, "
                           "or what one writer has, not both",
                           s->step, s->name, r->var);
    if (flux_stream_inquire(s, r->writer, r->var, &info, err) < 0)
        return -1;
    r->own = sh->kind != STREAM_GLOBAL;
    if (r->own && sh->id != 0)
        return errmsg_fail(err, EINVAL,
                           "step %" PRIu64 " of stream '%s': variable '%s' has records, which "
                           "flux_stream_get_records() gets",
                           s->step, s->name, r->var);
    if (info.ndims == 0) {
        info.ndims = 1;
        info.count[0] = 1;
    }
    box_of_piece(&r->box, &info, b->stride);
    if (r->own && whole_of(r, sh, &info, &why) < 0)
        return errmsg_fail(err, errno, "step %" PRIu64 " of stream '%s': %s", s->step, s->name,
                           why.text);
    return 0;
}

/* Check a request.  0, or -1 with an error message, and it is to be cleared in both cases. */
static int request_make(flux_stream_t *s, struct stream_request *r, const char *var,
                        uint32_t writer, const struct flux_stream_box *b, void *buf, size_t size,
                        errmsg_t *err)
{
    static const struct stream_want want;
    stream_array_t *a = stream_global_array(s, var, err);
    const struct stream_shape *sh;
    errmsg_t why;

    *r = (struct stream_request){.writer = writer, .buf = buf};
    if (!a)
        return -1;
    r->array = a;
    sh = stream_array_shape(a);
    r->elem = sh->elem;
    memcpy(r->var, var, strlen(var) + 1); /* there is such a variable */
    if (writer == FLUX_STREAM_ALL && sh->kind != STREAM_GLOBAL)
        return errmsg_fail(err, EINVAL,
                           "variable '%s' in step %" PRIu64 " of stream '%s' is not a global array",
                           var, s->step, s->name);
    if (writer == FLUX_STREAM_ALL)
        box_init(&r->box, sh->ndims, sh->extents, b->start, b->count, b->stride);
    else if (request_of_one(s, r, sh, b, err) < 0)
        return -1;
    if (!(r->sel = stream_select_create(r->own ? r->whole : a, &r->box, &want, &why)))
        return errmsg_fail(err, errno, "step %" PRIu64 " of stream '%s': %s", s->step, s->name,
                           why.text);
    if (stream_select_elems(r->sel) > size / sh->elem)
        return errmsg_fail(err, ENOBUFS,
                           "variable '%s' in step %" PRIu64 " of stream '%s': %" PRIu64
                           " elements need more than %zu bytes",
                           var, s->step, s->name, stream_select_elems(r->sel), size);
    return 0;
}

/* --- getting it --- */

/* Find the value in which a part is.  0, or -1. */
static int part_find(flux_stream_t *s, const stream_array_t *a, const char *var,
                     const struct stream_part *part, struct stream_found *f, errmsg_t *err)
{
    int rc = stream_reader_find(s, part->rank, var, f, err);

    if (rc < 0)
        return -1;
    if (rc == 0 || f->val.len != stream_array_piece(a, part->piece).elems * part->from_elem)
        return errmsg_fail(err, EPROTO,
                           "rank %u of the writers of stream '%s' has another number of bytes of "
                           "variable '%s' than it says in step %" PRIu64,
                           part->rank, s->name, var, s->step);
    return 0;
}

/* Request one part, or copy it now if its writer is on this host.  0, or -1. */
static int part_ask(flux_stream_t *s, const stream_array_t *a, const char *var,
                    const struct stream_box *box, const struct stream_part *part, void *buf,
                    errmsg_t *err)
{
    struct stream_found f;
    errmsg_t why;

    if (part_find(s, a, var, part, &f, err) < 0)
        return -1;
    if (inlet_ask(f.in, f.step, &f.val, box, part, buf, &why) < 0)
        return stream_reader_unread(s, part->rank, var, &why, err);
    return 0;
}

/* Request what one writer has, as a whole.  0, or -1. */
static int own_ask(flux_stream_t *s, const struct stream_request *r, errmsg_t *err)
{
    struct stream_found f;
    int rc = stream_reader_find(s, r->writer, r->var, &f, err);
    errmsg_t why;

    if (rc > 0 && inlet_ask_value(f.in, f.step, &f.val, &why) < 0)
        return stream_reader_unread(s, r->writer, r->var, &why, err);
    return rc < 0 ? -1 : 0; /* own_copy() misses it */
}

/* Ask for all parts of a request, and count those that were asked for.  0, or -1. */
static int request_ask(flux_stream_t *s, const struct stream_request *r, size_t *asked,
                       errmsg_t *err)
{
    stream_array_t *a;

    if (r->own) {
        *asked = 1;
        return own_ask(s, r, err);
    }
    if (!(a = r->array ? r->array : stream_global_array(s, r->var, err)))
        return -1;
    for (size_t i = 0; i < stream_select_count(r->sel); i++) {
        ++*asked;
        if (part_ask(s, a, r->var, &r->box, stream_select_part(r->sel, i), r->buf, err) < 0)
            return -1;
    }
    return 0;
}

/* Copy what one writer has.  0, or -1. */
static int own_copy(flux_stream_t *s, const struct stream_request *r, errmsg_t *err)
{
    const struct stream_part *part = stream_select_part(r->sel, 0);
    const void *data;
    size_t len;

    if (flux_stream_get(s, r->writer, r->var, &data, &len, err) < 0)
        return -1;
    if (len != stream_array_piece(r->whole, 0).elems * r->elem)
        return errmsg_fail(err, EPROTO,
                           "rank %u of the writers of stream '%s' has another number of bytes of "
                           "variable '%s' than it says in step %" PRIu64,
                           r->writer, s->name, r->var, s->step);
    stream_copy(part, data, r->buf);
    return 0;
}

static size_t parts(const struct stream_request *r)
{
    return stream_select_count(r->sel);
}

/* Where a part was asked for: the writer of the step, which may have been restarted since. */
static inlet_t *part_inlet(const flux_stream_t *s, const struct stream_request *r, size_t i)
{
    return s->sources[stream_select_part(r->sel, i)->rank].from;
}

/* Await the answers to the parts that were asked for; or, after an error, forget them. */
static int answers(flux_stream_t *s, const struct stream_request *r, size_t asked, int rc,
                   errmsg_t *err)
{
    for (size_t i = 0; i < asked; i++) {
        inlet_t *in = part_inlet(s, r, i);
        errmsg_t why;

        if (rc == 0 && (rc = inlet_answer(in, &why)) < 0)
            stream_reader_unread(s, stream_select_part(r->sel, i)->rank, r->var, &why, err);
        else if (rc < 0) {
            int saved = errno;

            inlet_forget(in);
            errno = saved;
        }
    }
    return rc;
}

/* What was requested, and is in no piece, is an error. */
static int count(flux_stream_t *s, const struct stream_request *r, errmsg_t *err)
{
    uint64_t elems = stream_select_elems(r->sel);
    uint64_t missing = stream_select_missing(r->sel);

    if (!r->own) /* else flux_stream_get() has counted it */
        stream_reader_asked(s, elems * r->elem, (elems - missing) * r->elem);
    if (missing == 0)
        return 0;
    return errmsg_fail(err, ENODATA,
                       "variable '%s' in step %" PRIu64 " of stream '%s': no writer has %" PRIu64
                       " of the %" PRIu64 " elements",
                       r->var, s->step, s->name, missing, elems);
}

/* Get all of `n` requests, which writers on other hosts send at the same time.  0, or -1. */
static int run(flux_stream_t *s, const struct stream_request *r, size_t n, errmsg_t *err)
{
    size_t begun = 0;
    size_t asked = 0; /* parts of the last request */
    int missing = 0;
    int rc = 0;

    for (; rc == 0 && begun < n; begun++) {
        asked = 0;
        rc = request_ask(s, &r[begun], &asked, err);
    }
    for (size_t i = 0; rc == 0 && i < begun; i++) {
        for (size_t k = 0; k < parts(&r[i]); k++)
            inlet_push(part_inlet(s, &r[i], k));
    }
    for (size_t i = 0; i < begun; i++) {
        rc = answers(s, &r[i], i + 1 < begun ? parts(&r[i]) : asked, rc, err);
    }
    for (size_t i = 0; rc == 0 && i < n; i++) {
        if (r[i].own)
            rc = own_copy(s, &r[i], err);
    }
    for (size_t i = 0; rc == 0 && i < n; i++) {
        if (count(s, &r[i], missing == 0 ? err : NULL) < 0)
            missing = errno;
    }
    if (rc == 0 && missing != 0) {
        errno = missing;
        return -1;
    }
    return rc;
}

int flux_stream_get_box(flux_stream_t *s, const char *var, const uint64_t *start,
                        const uint64_t *count, const uint64_t *stride, void *buf, size_t size,
                        errmsg_t *err)
{
    const struct flux_stream_box box = {start, count, stride};
    struct stream_request r;
    int rc = request_make(s, &r, var, FLUX_STREAM_ALL, &box, buf, size, err);

    if (rc == 0)
        rc = run(s, &r, 1, err);
    request_clear(&r);
    return rc;
}

/* How far apart the elements of the box are in the piece, in bytes. */
static void view_strides(const stream_array_t *a, const struct stream_part *part,
                         const struct stream_box *box, size_t *stride)
{
    const struct stream_shape *sh = stream_array_shape(a);
    const struct stream_piece p = stream_array_piece(a, part->piece);
    size_t step = sh->elem;

    for (unsigned i = 0; i < sh->ndims; i++) {
        unsigned d = sh->memory == STREAM_COLUMNS ? i : sh->ndims - 1 - i;

        stride[d] = box->count[d] > 1 ? step * box->stride[d] : step;
        step *= p.count[d];
    }
}

/* Find a box in the memory of its only writer.  1, 0 or -1. */
static int view_make(flux_stream_t *s, const struct stream_request *r,
                     struct flux_stream_view *view, errmsg_t *err)
{
    uint64_t elems = stream_select_elems(r->sel);
    const struct stream_part *part;
    struct stream_found f;

    if (stream_select_count(r->sel) != 1 || stream_select_missing(r->sel) > 0 ||
        stream_array_shape(r->array)->id != 0)
        return 0;
    part = stream_select_part(r->sel, 0);
    if (part_find(s, r->array, r->var, part, &f, err) < 0)
        return -1;
    if (!inlet_here(f.in))
        return 0;
    view->data = (const unsigned char *)f.step->data + f.val.off + part->from;
    view_strides(r->array, part, &r->box, view->stride);
    stream_reader_asked(s, elems * r->elem, 0);
    return 1;
}

int flux_stream_view_box(flux_stream_t *s, const char *var, const struct flux_stream_box *box,
                         struct flux_stream_view *view, errmsg_t *err)
{
    struct stream_request r;
    int rc = request_make(s, &r, var, FLUX_STREAM_ALL, box ? box : &all, NULL, SIZE_MAX, err);

    if (rc == 0)
        rc = view_make(s, &r, view, err);
    request_clear(&r);
    return rc;
}

int flux_stream_schedule(flux_stream_t *s, const char *var, uint32_t writer,
                         const struct flux_stream_box *box, void *buf, size_t size, errmsg_t *err)
{
    struct stream_request r;

    if (s->nrequests == REQUESTS_MAX)
        return errmsg_fail(err, E2BIG, "step %" PRIu64 " of stream '%s' has %d requests already",
                           s->step, s->name, REQUESTS_MAX);
    if (s->nrequests == s->requests_room) {
        size_t room = 2 * s->nrequests + 4;
        struct stream_request *more = realloc(s->requests, room * sizeof(*more));

        if (!more)
            return errmsg_fail(err, ENOMEM, "out of memory for requests of stream '%s'", s->name);
        s->requests = more;
        s->requests_room = room;
    }
    if (request_make(s, &r, var, writer, box ? box : &all, buf, size, err) < 0) {
        request_clear(&r);
        return -1;
    }
    r.array = NULL; /* others that are looked up may take its place */
    s->requests[s->nrequests++] = r;
    return 0;
}

int flux_stream_perform(flux_stream_t *s, errmsg_t *err)
{
    int rc = run(s, s->requests, s->nrequests, err);
    int saved = errno;

    stream_schedule_forget(s);
    errno = saved;
    return rc;
}

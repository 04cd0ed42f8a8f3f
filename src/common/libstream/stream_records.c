/* stream_records.c - records as variables of a step.
 *
 * The description of a variable of records (array.h) has the id of the writer's format; the value
 * is the body of the records (doc/stream-format.rst).  The text of the format goes another way: a
 * writer that puts records of a format for the first time defines it, by stream.define with an id,
 * and a reader that meets an id for the first time asks the module for it, by stream.format.  The
 * steps of a recording have their formats beside them in the file (tape.h).
 *
 * A reader plans the conversion of one format and byte order to another one once.  If the writer's
 * records are already the reader's structs, their bytes are only checked, in their place; otherwise
 * the structs are made in memory that belongs to the step.
 *
 * Invariants:
 *  1. A step is published only after the module has the formats of its records, unless another
 *     instance of the module has taken over meanwhile; that one is sent the formats again.
 *  2. At most FORMATS_MAX formats, and as many conversions, are kept by a reader; a reader forgets
 *     all of them together, between two steps.  A writer has no more than the module permits.
 *  3. Structs that were made for a step are freed when it ends.
 *
 * Failure: bytes that are not records of their format are EPROTO, with stream, variable and field;
 * a format that the session does not know is ENODATA.
 */
#include "config.h"
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libstream/convert.h"
#include "libstream/stream_private.h"
#include "libutil/clock.h"
#include "libutil/invariant.h"

#define FORMATS_MAX 1024
#define DEFINE_SECONDS 30.
#define LOOK_SECONDS \
    0.05                 /* between two questions for a format that the module does not know yet, */
#define KNOWN_SECONDS 5. /* for at most this time */

struct stream_converted {
    struct stream_converted *next;
    void *recs;
};

struct key {
    uint64_t from; /* ids */
    uint64_t to;
    uint64_t order;
};

static void format_free(void *val)
{
    stream_format_destroy(val);
}

static void convert_free(void *val)
{
    stream_convert_destroy(val);
}

static int no_memory(const flux_stream_t *s, errmsg_t *err)
{
    return errmsg_fail(err, ENOMEM, "out of memory for the records of stream '%s'", s->name);
}

/* Keep a reference to a format.  0, or -1. */
static int keep(flux_stream_t *s, const stream_format_t *f, errmsg_t *err)
{
    stream_format_t *mine = stream_format_incref(f);

    if ((!s->formats && !(s->formats = hmap_create_u64(format_free))) ||
        hmap_put_u64(s->formats, stream_format_id(f), mine) < 0) {
        stream_format_destroy(mine);
        return no_memory(s, err);
    }
    return 0;
}

int stream_records_know(flux_stream_t *s, const stream_format_t *f, errmsg_t *err)
{
    return s->formats && hmap_get_u64(s->formats, stream_format_id(f)) ? 0 : keep(s, f, err);
}

static void forget(flux_stream_t *s)
{
    hmap_destroy(s->converts);
    hmap_destroy(s->formats);
    hmap_destroy(s->natives);
    s->converts = s->formats = s->natives = NULL;
}

void stream_records_close(flux_stream_t *s)
{
    stream_records_release(s);
    forget(s);
}

/* --- writing --- */

static flux_future_t *define(flux_stream_t *s, const stream_format_t *f, int flags)
{
    char id[STREAM_ID_LEN + 1];
    struct stream_define d = {s->name, stream_format_text(f), id};

    snprintf(id, sizeof(id), "%016" PRIx64, stream_format_id(f));
    return flux_rpc_struct(s->h, "stream.define", &stream_define_schema, &d, FLUX_NODEID_ANY,
                           flags);
}

int stream_records_define(flux_stream_t *s, const stream_format_t *f, errmsg_t *err)
{
    flux_future_t *fut;
    int rc;

    if (s->formats && hmap_get_u64(s->formats, stream_format_id(f)))
        return 0;
    if (!(fut = define(s, f, 0)))
        return errmsg_fail(err, errno, "format %s of stream '%s' cannot be sent: %s",
                           stream_format_name(f), s->name, strerror(errno));
    rc = flux_rpc_wait_struct(fut, DEFINE_SECONDS, NULL, NULL, err);
    flux_future_destroy(fut);
    return rc < 0 ? -1 : keep(s, f, err);
}

void stream_records_repeat(flux_stream_t *s)
{
    size_t pos = 0;
    void *f;

    while (s->formats && hmap_next(s->formats, &pos, NULL, NULL, &f))
        flux_future_destroy(define(s, f, FLUX_MSGF_NORESPONSE));
}

int stream_records_id(const void *desc, size_t desc_len, uint64_t *id, errmsg_t *err)
{
    stream_array_t *a;

    *id = 0;
    if (desc_len == 0)
        return 0;
    if (!(a = stream_array_decode(desc, desc_len, err)))
        return errno == ENOMEM ? -1 : 0;
    *id = stream_array_shape(a)->id;
    stream_array_destroy(a);
    return 0;
}

/* --- formats of writers --- */

/* Ask the module.  NULL with an error message, and ENODATA if it does not know the format. */
static stream_format_t *ask(flux_stream_t *s, const char *id, errmsg_t *err)
{
    struct stream_ask_format q = {s->name, id};
    flux_future_t *f =
        flux_rpc_struct(s->h, "stream.format", &stream_ask_format_schema, &q, FLUX_NODEID_ANY, 0);
    stream_format_t *format = NULL;
    struct stream_text text;

    if (!f)
        errmsg_fail(err, errno, "a format of stream '%s' cannot be asked for: %s", s->name,
                    strerror(errno));
    else if (flux_rpc_wait_struct(f, DEFINE_SECONDS, &stream_text_schema, &text, err) == 0)
        format = stream_format_parse(text.format, strlen(text.format), err);
    flux_future_destroy(f);
    return format;
}

static stream_format_t *fetch(flux_stream_t *s, uint64_t id, errmsg_t *err)
{
    double until = clock_now() + KNOWN_SECONDS;
    char digits[STREAM_ID_LEN + 1];
    stream_format_t *f;

    snprintf(digits, sizeof(digits), "%016" PRIx64, id);
    if (s->tape) {
        const char *text = tape_record_format(s->tape, id);

        if (!text) {
            errmsg_fail(err, ENODATA, "the recording of stream '%s' does not have format %s",
                        s->name, digits);
            return NULL;
        }
        return stream_format_parse(text, strlen(text), err);
    }
    /* A module that was reloaded learns the formats when their writers hear of it. */
    while (!(f = ask(s, digits, err)) && errno == ENODATA && clock_now() < until) {
        if (stream_reader_hear(s, LOOK_SECONDS) < 0 && errno != ETIMEDOUT) {
            errno = ENODATA;
            break;
        }
    }
    return f;
}

const stream_format_t *stream_records_format(flux_stream_t *s, uint64_t id, errmsg_t *err)
{
    stream_format_t *f = s->formats ? hmap_get_u64(s->formats, id) : NULL;

    if (f)
        return f;
    if (!(f = fetch(s, id, err)))
        return NULL;
    if (stream_format_id(f) != id) {
        errmsg_fail(err, EPROTO, "a format of stream '%s' does not have the id %016" PRIx64,
                    s->name, id);
        stream_format_destroy(f);
        return NULL;
    }
    if (keep(s, f, err) < 0) {
        stream_format_destroy(f);
        return NULL;
    }
    stream_format_destroy(f); /* the stream has a reference */
    return f;
}

/* The format of a variable that is described as `a`. */
static const stream_format_t *format_of(flux_stream_t *s, const stream_array_t *a, errmsg_t *err)
{
    const struct stream_shape *sh = stream_array_shape(a);
    const stream_format_t *f;

    if (sh->type != STREAM_RECORD) {
        errmsg_fail(err, EINVAL,
                    "variable '%s' in step %" PRIu64
                    " of stream '%s' has elements of type %s, not records",
                    sh->name, s->step, s->name, stream_elem_name(sh->type));
        return NULL;
    }
    if (!(f = stream_records_format(s, sh->id, err)))
        return NULL;
    if (stream_format_size(f) != sh->elem) {
        errmsg_fail(err, EPROTO,
                    "variable '%s' in step %" PRIu64
                    " of stream '%s' has records of %zu bytes: format %s has %zu",
                    sh->name, s->step, s->name, sh->elem, stream_format_name(f),
                    stream_format_size(f));
        return NULL;
    }
    return f;
}

const stream_format_t *flux_stream_format(flux_stream_t *s, const char *var, errmsg_t *err)
{
    const stream_array_t *a = stream_global_array(s, var, err);

    return a ? format_of(s, a, err) : NULL;
}

const stream_format_t *stream_records_native(flux_stream_t *s, const stream_format_t *f,
                                             errmsg_t *err)
{
    stream_format_t *n = s->natives ? hmap_get_u64(s->natives, stream_format_id(f)) : NULL;

    if (n)
        return n;
    if (!(n = stream_format_native(f, err)))
        return NULL;
    if ((s->natives || (s->natives = hmap_create_u64(format_free))) &&
        hmap_put_u64(s->natives, stream_format_id(f), n) == 0)
        return n;
    stream_format_destroy(n);
    no_memory(s, err);
    return NULL;
}

/* --- conversion --- */

int stream_records_own(flux_stream_t *s, void *p, errmsg_t *err)
{
    struct stream_converted *c = malloc(sizeof(*c));

    if (!c) {
        free(p);
        return no_memory(s, err);
    }
    *c = (struct stream_converted){s->converted, p};
    s->converted = c;
    return 0;
}

void stream_records_release(flux_stream_t *s)
{
    while (s->converted) {
        struct stream_converted *c = s->converted;

        s->converted = c->next;
        free(c->recs);
        free(c);
    }
    if ((s->converts && hmap_count(s->converts) >= FORMATS_MAX) ||
        (s->mode == FLUX_STREAM_READ && s->formats && hmap_count(s->formats) >= FORMATS_MAX))
        forget(s);
}

/* The conversion of records of an array to `to`.  NULL with an error message. */
static const stream_convert_t *convert_of(flux_stream_t *s, const stream_array_t *a,
                                          const stream_format_t *to, errmsg_t *err)
{
    const struct stream_shape *sh = stream_array_shape(a);
    const struct key key = {sh->id, stream_format_id(to), sh->order};
    stream_convert_t *c = s->converts ? hmap_get(s->converts, &key) : NULL;
    const stream_format_t *f;
    errmsg_t why;

    if (c)
        return c;
    if (!(f = format_of(s, a, err)))
        return NULL;
    if (!(c = stream_convert_create(f, sh->order, to, &why))) {
        errmsg_fail(err, errno, "variable '%s' in step %" PRIu64 " of stream '%s': %s", sh->name,
                    s->step, s->name, why.text);
        return NULL;
    }
    if ((!s->converts && !(s->converts = hmap_create_bin(sizeof(key), convert_free))) ||
        hmap_put(s->converts, &key, c) < 0) {
        stream_convert_destroy(c);
        no_memory(s, err);
        return NULL;
    }
    return c;
}

int flux_stream_get_records(flux_stream_t *s, uint32_t writer, const char *var,
                            const stream_format_t *f, const void **recs, size_t *n, errmsg_t *err)
{
    stream_array_t *a = stream_global_array(s, var, err);
    const stream_convert_t *c = a ? convert_of(s, a, f, err) : NULL;
    void *mine;
    const void *data;
    errmsg_t why;
    uint64_t elems;
    size_t len, need;

    if (!c || flux_stream_get(s, writer, var, &data, &len, err) < 0)
        return -1;
    elems = stream_global_elems(a, writer);
    *n = elems;
    *recs = data;
    if (stream_convert_in_place(c)) {
        if (stream_convert_array_check(c, elems, data, len, &need, &why) == 0)
            return 0;
        goto bad;
    }
    if (!(mine = stream_convert_array(c, elems, data, len, SIZE_MAX / 4, 0, &why)))
        goto bad;
    if (stream_records_own(s, mine, err) < 0)
        return -1;
    *recs = mine;
    stream_reader_asked(s, 0, len);
    return 0;
bad:
    return errmsg_fail(err, errno,
                       "variable '%s' of rank %u in step %" PRIu64 " of stream '%s': %s", var,
                       writer, s->step, s->name, why.text);
}

int stream_records_structs(flux_stream_t *s, const struct block_var *v, const void *body,
                           const stream_format_t **f, const void **structs, void **own,
                           errmsg_t *err)
{
    stream_array_t *a = stream_array_decode(v->desc, v->desc_len, err);
    const stream_format_t *theirs = a ? format_of(s, a, err) : NULL;
    const stream_convert_t *c = NULL;
    uint64_t n = a && stream_array_count(a) > 0 ? stream_array_piece(a, 0).elems : 0;

    *own = NULL;
    *structs = body;
    if (theirs && (*f = stream_records_native(s, theirs, err)))
        c = convert_of(s, a, *f, err);
    if (c && !stream_convert_in_place(c))
        *structs = *own = stream_convert_array(c, n, body, v->len, SIZE_MAX / 4, 0, err);
    stream_array_destroy(a);
    return c && (stream_convert_in_place(c) || *own) ? 0 : -1;
}

int flux_stream_get_record_box(flux_stream_t *s, const char *var, const uint64_t *start,
                               const uint64_t *count, const uint64_t *stride,
                               const stream_format_t *f, void *buf, size_t size, errmsg_t *err)
{
    stream_array_t *a = stream_global_array(s, var, err);
    const stream_convert_t *c = a ? convert_of(s, a, f, err) : NULL;
    const struct stream_shape *sh = a ? stream_array_shape(a) : NULL;
    uint64_t n = 1;
    errmsg_t why;
    int errnum;
    void *raw;
    int rc;

    if (!c)
        return -1;
    if (sh->kind != STREAM_GLOBAL || !stream_format_flat(f))
        return errmsg_fail(err, EINVAL,
                           sh->kind != STREAM_GLOBAL
                               ? "variable '%s' in step %" PRIu64
                                 " of stream '%s' is not a global array"
                               : "variable '%s' in step %" PRIu64
                                 " of stream '%s': records of a box have no pointers",
                           var, s->step, s->name);
    for (unsigned i = 0; i < sh->ndims; i++)
        if (__builtin_mul_overflow(n, count ? count[i] : sh->extents[i], &n))
            n = UINT64_MAX;
    if (n > size / stream_format_size(f))
        return errmsg_fail(err, ENOBUFS,
                           "variable '%s' in step %" PRIu64 " of stream '%s': %" PRIu64
                           " records need more than %zu bytes",
                           var, s->step, s->name, n, size);
    if (!(raw = calloc(n > 0 ? n : 1, sh->elem)))
        return no_memory(s, err);
    rc = flux_stream_get_box(s, var, start, count, stride, raw, n * sh->elem, err);
    errnum = errno;
    if ((rc == 0 || errnum == ENODATA) &&
        stream_convert_array_into(c, n, raw, n * sh->elem, buf, size, 0, &why) < 0)
        rc =
            errmsg_fail(err, errnum = errno, "variable '%s' in step %" PRIu64 " of stream '%s': %s",
                        var, s->step, s->name, why.text);
    free(raw);
    errno = errnum;
    return rc;
}

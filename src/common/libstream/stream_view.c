/* stream_view.c - what a reader sees of a step when its subscription has transforms.
 *
 * When the reader begins a step, the chain (chain.h) runs, with the step as it has come as its
 * input, and that of the stream that the reader meets as the second one (stream_meet.c).  The
 * result is the step that the program sees: the variables that transforms have put belong to the
 * writer of rank 0, and are where the transforms have made them, except that records with pointers
 * are encoded, as if that writer had put them; those that are kept stay where their writers have
 * put them, and are not touched.  All functions that read a step look for a variable with
 * stream_reader_find(), which asks here first.
 *
 * A step that a transform drops is released at once, and the next one is begun.  In a group that is
 * an acknowledgment.
 *
 * Invariants:
 *  1. While the chain runs, the view is off: transforms see the step as it has come.
 *  2. A name that was put hides the variables of this name of all writers, pinned ones too.
 *  3. `arrays` are those of the step as it has come while the view is on, and those of the view
 *     while it is off: the descriptions of a name alternate with each step otherwise.
 *
 * Failure: ENOTRECOVERABLE with the step, the file and the line.  The reader leaves the stream, so
 * that writers do not wait for it; the step, if it is of a group, goes to another member.  A writer
 * on another host that dies while a value is fetched is ECONNRESET, as it is without transforms.
 */
#include "config.h"
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "libstream/chain.h"
#include "libstream/project.h"
#include "libstream/recast.h"
#include "libstream/stream_private.h"
#include "libutil/invariant.h"

/* What is shown of a writer. */
struct shown {
    const char **names; /* NULL: not asked for in this step */
    size_t n;
    block_t *block; /* of all that is shown, with its bytes: NULL: not asked for in this step */
    char *image;
};

/* The bytes of records with pointers. */
struct encoded {
    struct encoded *next;
    void *body;
};

struct stream_view {
    bool on;
    struct encoded *encoded;
    block_t *made;         /* the variables that transforms have put, */
    struct inlet_step *at; /* and where each is */
    size_t room;
    struct shown *shown; /* by rank of the writer */
    uint32_t nshown;
    hmap_t *arrays;
    bool failed;
    errmsg_t why; /* the subscription has ended */
};

/* --- the input of a chain --- */

static const char *reader_name(void *arg, size_t i)
{
    return flux_stream_var(arg, 0, i);
}

static bool reader_has(void *arg, const char *var)
{
    flux_stream_t *s = arg;
    struct stream_found f;

    for (uint32_t w = 0; w < s->nsources; w++) {
        if (stream_reader_find(s, w, var, &f, NULL) == 1)
            return true;
    }
    return false;
}

/* Join the pieces of all writers. */
static int whole_get(flux_stream_t *s, const char *var, struct flux_transform_array *out,
                     void **own, errmsg_t *err)
{
    if (out->size > SIZE_MAX / 2 || !(*own = malloc(out->size + 1)))
        return errmsg_fail(err, ENOMEM, "out of memory for the %zu bytes of variable '%s'",
                           out->size, var);
    out->data = *own;
    return flux_stream_get_box(s, var, NULL, NULL, NULL, *own, out->size, err);
}

/* The records of a writer, or of a whole global array, as structs. */
static int records_get(flux_stream_t *s, const char *var, uint32_t rank, bool all,
                       const struct flux_stream_info *in, const stream_format_t *want,
                       struct flux_transform_array *out, void **own, errmsg_t *err)
{
    const stream_format_t *f = flux_stream_format(s, var, err);
    uint64_t n = 1, piece = 1;
    size_t got;

    if (!f || (!want && !(want = stream_records_native(s, f, err))))
        return -1;
    *out = (struct flux_transform_array){.type = "record",
                                         .ndims = in->ndims,
                                         .columns = in->columns,
                                         .format = stream_format_text(want)};
    memcpy(out->count, all && in->global ? in->shape : in->count, sizeof(out->count));
    out->size = stream_format_size(want);
    for (unsigned i = 0; i < in->ndims; i++) {
        n *= out->count[i];
        piece *= in->count[i];
        if (__builtin_mul_overflow(out->size, out->count[i], &out->size))
            return errmsg_fail(err, E2BIG, "variable '%s' is too large", var);
    }
    if (rank != FLUX_TRANSFORM_ALL && (!all || n == piece))
        return flux_stream_get_records(s, rank, var, want, &out->data, &got, err);
    if (out->size > SIZE_MAX / 2 || !(*own = malloc(out->size + 1)))
        return errmsg_fail(err, ENOMEM, "out of memory for the %zu bytes of variable '%s'",
                           out->size, var);
    out->data = *own;
    return flux_stream_get_record_box(s, var, NULL, NULL, NULL, want, *own, out->size, err);
}

static int reader_get(void *arg, const char *var, uint32_t rank, const stream_format_t *want,
                      struct flux_transform_array *out, void **own, errmsg_t *err)
{
    flux_stream_t *s = arg;
    bool all = rank == FLUX_TRANSFORM_ALL;
    struct flux_stream_info in;
    size_t len;

    *out = (struct flux_transform_array){.type = "bytes", .ndims = 1};
    if (all && s->nsources == 1)
        rank = 0;
    if (flux_stream_inquire(s, rank, var, &in, err) < 0) {
        if (errno != ENOENT)
            return -1;
        if (rank == FLUX_TRANSFORM_ALL ||
            flux_stream_get(s, rank, var, &out->data, &out->size, NULL) < 0)
            return strchr(var, '.') ? project_get(s, var, rank, out, own, err) : -1;
        out->count[0] = out->size; /* it has no description */
        return 0;
    }
    if (in.format > 0)
        return records_get(s, var, rank, all, &in, want, out, own, err);
    if (all && in.global) /* the only writer has the whole array, or there are holes */
        memcpy(in.count, in.shape, sizeof(in.count));
    out->type = in.type;
    out->ndims = in.ndims;
    out->columns = in.columns;
    memcpy(out->count, in.count, sizeof(out->count));
    out->size = in.elem;
    for (unsigned i = 0; i < in.ndims; i++) {
        if (__builtin_mul_overflow(out->size, in.count[i], &out->size))
            return errmsg_fail(err, E2BIG, "variable '%s' is too large", var);
    }
    if (rank == FLUX_TRANSFORM_ALL)
        return whole_get(s, var, out, own, err);
    if (flux_stream_get(s, rank, var, &out->data, &len, err) < 0)
        return -1;
    if (len == out->size)
        return 0;
    if (all && in.global)
        return whole_get(s, var, out, own, err);
    return errmsg_fail(err, EPROTO,
                       "variable '%s' has another number of bytes than its writer says", var);
}

struct stream_chain_input stream_chain_reader(flux_stream_t *s)
{
    static const struct stream_chain_ops ops = {reader_name, reader_has, reader_get};

    return (struct stream_chain_input){&ops, s};
}

/* --- the view --- */

int stream_view_create(flux_stream_t *s, const char *transforms, errmsg_t *err)
{
    stream_chain_t *t = NULL;
    errmsg_t why;

    if ((!s->view && !(s->view = calloc(1, sizeof(*s->view)))) ||
        (!s->view->made && !(s->view->made = block_create())))
        return errmsg_fail(err, ENOMEM, "out of memory");
    if (*transforms && !(t = stream_chain_parse(transforms, &why)))
        return errmsg_fail(err, errno, "stream '%s': %s", s->name, why.text);
    stream_chain_destroy(s->chain);
    s->chain = t;
    return 0;
}

void stream_view_destroy(flux_stream_t *s)
{
    if (s->view) {
        stream_view_end(s);
        block_destroy(s->view->made);
        free(s->view->at);
        free(s->view->shown);
        hmap_destroy(s->view->arrays);
        free(s->view);
    }
    stream_chain_destroy(s->chain);
}

static void turn(flux_stream_t *s, bool on)
{
    hmap_t *arrays = s->arrays;

    if (s->view->on == on)
        return;
    s->view->on = on;
    s->arrays = s->view->arrays;
    s->view->arrays = arrays;
}

void stream_view_end(flux_stream_t *s)
{
    struct stream_view *v = s->view;

    if (!v)
        return;
    turn(s, false);
    for (uint32_t w = 0; w < v->nshown; w++) {
        free(v->shown[w].names);
        block_destroy(v->shown[w].block);
        free(v->shown[w].image);
        v->shown[w] = (struct shown){.names = NULL};
    }
    while (v->encoded) {
        struct encoded *e = v->encoded;

        v->encoded = e->next;
        free(e->body);
        free(e);
    }
}

/* Let records be read as if a writer had put them: *len bytes at *data.  0, or -1. */
static int made_records(flux_stream_t *s, const stream_format_t *f, const void **data,
                        uint64_t *len, errmsg_t *err)
{
    struct encoded *e = calloc(1, sizeof(*e));
    size_t bytes;

    if (!e)
        return errmsg_fail(err, ENOMEM, "out of memory for records");
    e->next = s->view->encoded;
    s->view->encoded = e;
    if (stream_records_know(s, f, err) < 0 ||
        recast_body(f, *data, *len / stream_format_size(f), data, &bytes, &e->body, err) < 0)
        return -1;
    *len = bytes;
    return 0;
}

/* Describe what the transforms have put.  0, or -1. */
static int made_add(flux_stream_t *s, const char *name, const struct flux_transform_array *a,
                    errmsg_t *err)
{
    struct stream_view *v = s->view;
    const stream_format_t *f = NULL;
    size_t n = block_count(v->made);
    uint8_t desc[BLOCK_DESC_MAX];
    const void *data = a->data;
    uint64_t bytes = a->size;
    size_t len;

    if (n == v->room) {
        size_t room = n > 0 ? 2 * n : 8;
        struct inlet_step *more = realloc(v->at, room * sizeof(*more));

        if (!more)
            return errmsg_fail(err, ENOMEM, "out of memory for variable '%s'", name);
        v->at = more;
        v->room = room;
    }
    if (a->format && (!(f = stream_chain_format(s->chain, a, err)) ||
                      made_records(s, f, &data, &bytes, err) < 0))
        return -1;
    if (stream_sift_describe(name, a, true, f, desc, &len, err) < 0)
        return -1;
    if (block_add(v->made, name, desc, len, bytes) < 0)
        return errmsg_fail(err, errno, "variable '%s': %s", name, strerror(errno));
    v->at[n] = (struct inlet_step){.data = data, .len = bytes};
    return 0;
}

static int show(flux_stream_t *s, errmsg_t *err)
{
    struct stream_view *v = s->view;
    const struct flux_transform_array *a;
    const char *name;

    if (!v->shown && !(v->shown = calloc(s->nsources, sizeof(*v->shown))))
        return errmsg_fail(err, ENOMEM, "out of memory for the %u writers", s->nsources);
    v->nshown = s->nsources;
    block_clear(v->made);
    for (size_t i = 0; (a = stream_chain_made(s->chain, i, &name)); i++) {
        if (made_add(s, name, a, err) < 0)
            return -1;
    }
    turn(s, true);
    return 1;
}

void stream_view_resized(flux_stream_t *s)
{
    struct stream_view *v = s->view;

    if (!v)
        return;
    INVARIANT(1, !v->on);
    free(v->shown);
    v->shown = NULL;
    v->nshown = 0;
}

int stream_view_begin(flux_stream_t *s, errmsg_t *err)
{
    struct stream_chain_input in[2] = {stream_chain_reader(s)};
    errmsg_t why;
    int rc;

    INVARIANT(1, !s->view->on);
    if (s->other)
        in[1] = stream_chain_reader(s->other);
    rc = stream_chain_run(s->chain, in, s->other ? 2 : 1, s->step, &why);
    if (rc > 0)
        rc = show(s, &why);
    if (rc > 0)
        return 1;
    if (rc == 0 || errno == ECONNRESET) { /* without the step, as by a program that gets no value */
        stream_reader_end(s, NULL);
        if (rc == 0 || s->stay)
            return 0;
        return errmsg_fail(err, ECONNRESET, "stream '%s': %s", s->name, why.text);
    }
    errmsg_set(&s->view->why, "step %" PRIu64 " of stream '%s': %s", s->step, s->name, why.text);
    s->view->failed = true;
    s->begun = false;
    stream_reader_leave(s);
    return stream_view_failed(s, err);
}

int stream_view_failed(const flux_stream_t *s, errmsg_t *err)
{
    if (!s->view || !s->view->failed)
        return 0;
    return errmsg_fail(err, ENOTRECOVERABLE, "%s", s->view->why.text);
}

bool stream_view_find(flux_stream_t *s, uint32_t writer, const char *var, struct stream_found *f,
                      int *rc)
{
    struct stream_view *v = s->view;
    const struct block_var *made;
    size_t i;

    if (!v || !v->on)
        return false;
    made = block_find(v->made, var);
    if (!made && stream_chain_keeps(s->chain, var))
        return false;
    *rc = made && writer == 0;
    if (*rc == 1) {
        i = (size_t)(made - block_at(v->made, 0));
        *f = (struct stream_found){
            .var = made, .step = &v->at[i], .val = {(uint32_t)i, 0, made->len}, .made = true};
    } else
        *f = (struct stream_found){.var = NULL};
    return true;
}

bool stream_view_on(const flux_stream_t *s)
{
    return s->view && s->view->on;
}

bool flux_stream_derived(const flux_stream_t *s, const char *var)
{
    return stream_view_on(s) && block_find(s->view->made, var);
}

bool stream_view_hides(const flux_stream_t *s, const char *var)
{
    return stream_view_on(s) && (flux_stream_derived(s, var) || !stream_chain_keeps(s->chain, var));
}

/* List the names that are shown of a writer.  0, or -1 with ENOMEM. */
static int names_make(flux_stream_t *s, uint32_t writer, struct shown *sh)
{
    block_t *b = stream_reader_block(s, writer, NULL);
    size_t nmade = writer == 0 ? block_count(s->view->made) : 0;
    const struct block_var *v;

    if (!b || !(sh->names = calloc(nmade + block_count(b) + 1, sizeof(const char *))))
        return -1;
    for (sh->n = 0; sh->n < nmade; sh->n++)
        sh->names[sh->n] = block_at(s->view->made, sh->n)->name;
    for (size_t i = 0; (v = block_at(b, i)); i++) {
        if (!stream_view_hides(s, v->name))
            sh->names[sh->n++] = v->name;
    }
    return 0;
}

const char *stream_view_name(flux_stream_t *s, uint32_t writer, size_t i)
{
    struct shown *sh;

    if (writer >= s->view->nshown)
        return NULL;
    sh = &s->view->shown[writer];
    if (!sh->names && names_make(s, writer, sh) < 0)
        return NULL;
    return i < sh->n ? sh->names[i] : NULL;
}

/* --- the whole of it --- */

typedef const char *(*names_f)(flux_stream_t *s, uint32_t writer, size_t i);

/* Add the variables of these names to the block.  0, or -1 with errno. */
static int whole_add(flux_stream_t *s, uint32_t writer, names_f names, block_t *b)
{
    const char *name;

    for (size_t i = 0; (name = names(s, writer, i)); i++) {
        struct stream_found f;
        int rc = block_find(b, name) ? 0 : stream_reader_find(s, writer, name, &f, NULL);

        if (rc < 0 || (rc > 0 && block_add(b, name, f.var->desc, f.var->desc_len, f.val.len) < 0))
            return -1;
    }
    return 0;
}

static int whole_make(flux_stream_t *s, uint32_t writer, struct shown *sh, errmsg_t *err)
{
    const struct block_var *v;

    if (!(sh->block = block_create()) || whole_add(s, writer, flux_stream_var, sh->block) < 0 ||
        whole_add(s, writer, flux_stream_pinned, sh->block) < 0 ||
        !(sh->image = calloc(1, block_size(sh->block))))
        return errmsg_fail(err, errno, "step %" PRIu64 " of stream '%s' cannot be copied: %s",
                           s->step, s->name, strerror(errno));
    block_write(sh->block, sh->image);
    for (size_t i = 0; (v = block_at(sh->block, i)); i++) {
        const void *data;
        size_t len;

        if (flux_stream_get(s, writer, v->name, &data, &len, err) < 0)
            return -1;
        memcpy(sh->image + v->off, data, v->len);
    }
    return 0;
}

block_t *stream_view_whole(flux_stream_t *s, uint32_t writer, const void **data, uint64_t *len,
                           errmsg_t *err)
{
    struct shown *sh;

    if (!stream_view_on(s)) {
        block_t *b = stream_reader_whole(s, writer, err);

        if (b) {
            *data = s->sources[writer].steps[0].data;
            *len = s->sources[writer].steps[0].len;
        }
        return b;
    }
    if (!stream_reader_block(s, writer, err))
        return NULL;
    sh = &s->view->shown[writer];
    if (!sh->image && whole_make(s, writer, sh, err) < 0) {
        block_destroy(sh->block);
        free(sh->image);
        sh->block = NULL;
        sh->image = NULL;
        return NULL;
    }
    *data = sh->image;
    *len = block_size(sh->block);
    return sh->block;
}

/* stream_mine.c - which records of a step are those of this reader.
 *
 * The members of a group that share the work by record get steps with a set of PARTS parts
 * (outlet_group.c).  The writer looks into no record: each member finds out which of them are in
 * its parts, and all members find the same.
 *
 *    no key    All records of a variable, one writer after the other, are cut into PARTS pieces,
 *              each writer counting alike.  So a member needs data of few writers.
 *    a key     The part of a record is the hash of the field's value modulo PARTS.  So records with
 *              equal values are in the same part of each step, whichever writer and variable they
 *              are of, and parts are given in order.
 *
 * The hash is that of the little-endian bytes of numbers, so that hosts of either byte order agree;
 * of a string, that of its text; an absent field counts as 0, or as an empty text.
 *
 * Invariants:
 *  1. Each record of a variable is in one part.
 *  2. Ranges rise, are not empty, and do not touch.
 *
 * Failure: see flux_stream_mine(); the step stays begun.
 */
#include "config.h"
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "libstream/format.h"
#include "libstream/project.h"
#include "libstream/stream_private.h"
#include "libutil/invariant.h"
#include "libutil/siphash.h"

#define PARTS 64
#define KEY_MAX 256 /* bytes of a value that is not a string */

struct mine {
    struct flux_stream_range *ranges;
    size_t n;
    size_t room;
};

/* Add the records from..to-1.  0, or -1 with ENOMEM. */
static int add(struct mine *m, uint64_t from, uint64_t to)
{
    struct flux_stream_range *last = m->n > 0 ? &m->ranges[m->n - 1] : NULL;

    if (from >= to)
        return 0;
    INVARIANT(2, !last || last->start + last->count <= from);
    if (last && last->start + last->count == from) {
        last->count += to - from;
        return 0;
    }
    if (m->n == m->room) {
        size_t room = 2 * m->room + PARTS / 2;
        struct flux_stream_range *more = realloc(m->ranges, room * sizeof(*more));

        if (!more)
            return -1;
        m->ranges = more;
        m->room = room;
    }
    m->ranges[m->n++] = (struct flux_stream_range){from, to - from};
    return 0;
}

/* The index of the first record in part `part` or behind it, of `n` that writer `w` of `writers`
 * has. */
static uint64_t first_in(unsigned part, uint64_t n, uint32_t w, uint32_t writers)
{
    unsigned __int128 at = ((unsigned __int128)part * writers * n + PARTS - 1) / PARTS;
    unsigned __int128 before = (unsigned __int128)w * n;

    return at <= before ? 0 : at - before < n ? (uint64_t)(at - before) : n;
}

static int by_index(struct mine *m, uint64_t parts, uint64_t n, uint32_t w, uint32_t writers)
{
    for (unsigned p = 0; p < PARTS; p++) {
        if (parts >> p & 1 &&
            add(m, first_in(p, n, w, writers), first_in(p + 1, n, w, writers)) < 0)
            return -1;
    }
    return 0;
}

/* The part of a value of `len` bytes in elements of `elem` bytes. */
static unsigned part_of(const void *value, size_t len, size_t elem)
{
    static const struct siphash_key any = {{3, 4}};
    unsigned char swapped[KEY_MAX];

    if (STREAM_NATIVE != STREAM_LITTLE && elem > 1) {
        for (size_t i = 0; i < len; i++)
            swapped[i] = ((const unsigned char *)value)[i / elem * elem + elem - 1 - i % elem];
        value = swapped;
    }
    return (unsigned)(siphash(&any, value, len) % PARTS);
}

/* The format of the key alone, in records of a variable: NULL with an error message. */
static stream_format_t *key_format(flux_stream_t *s, const char *var,
                                   const struct stream_field **fd, errmsg_t *err)
{
    const stream_format_t *theirs = flux_stream_format(s, var, err);
    errmsg_t why;
    stream_format_t *f = theirs ? project_format(theirs, s->want.key, fd, &why) : NULL;

    if (theirs && !f)
        errmsg_fail(err, errno,
                    "variable '%s' in step %" PRIu64 " of stream '%s' has no key '%s': %s", var,
                    s->step, s->name, s->want.key, why.text);
    else if (f && (((*fd)->type >= STREAM_F32 && (*fd)->type <= STREAM_C128) ||
                   ((*fd)->type != STREAM_STRING && stream_format_size(f) > KEY_MAX))) {
        errmsg_fail(err, EINVAL,
                    "variable '%s' in step %" PRIu64 " of stream '%s': the key '%s' is a number "
                    "with a fraction, or has more than %d bytes",
                    var, s->step, s->name, s->want.key, KEY_MAX);
        stream_format_destroy(f);
        f = NULL;
    }
    return f;
}

static int by_key(flux_stream_t *s, struct mine *m, uint64_t parts, uint32_t writer,
                  const char *var, errmsg_t *err)
{
    const struct stream_field *fd;
    stream_format_t *f = key_format(s, var, &fd, err);
    size_t size = f ? stream_format_size(f) : 0;
    bool text = f && fd->type == STREAM_STRING;
    size_t elem = f && !text ? stream_elem_size(fd->type) : 1;
    const unsigned char *recs;
    size_t n;
    int rc = f ? flux_stream_get_records(s, writer, var, f, (const void **)&recs, &n, err) : -1;

    for (size_t i = 0; rc == 0 && i < n; i++) {
        const void *value = recs + i * size;
        size_t len = size;

        if (text) {
            const char *t = *(const char *const *)value;

            value = t ? t : "";
            len = t ? strlen(t) : 0;
        }
        if (parts >> part_of(value, len, elem) & 1 && add(m, i, i + 1) < 0)
            rc = errmsg_fail(err, ENOMEM, "out of memory for the records of stream '%s'", s->name);
    }
    stream_format_destroy(f);
    return rc;
}

/* The number of records of a variable that was found.  0, or -1. */
static int count(flux_stream_t *s, uint32_t writer, const char *var, const struct stream_found *f,
                 uint64_t *n, errmsg_t *err)
{
    struct flux_stream_info in;

    *n = 1;
    if (f->var->desc_len == 0)
        return 0;
    if (flux_stream_inquire(s, writer, var, &in, err) < 0)
        return -1;
    for (unsigned d = 0; d < in.ndims; d++)
        *n *= in.count[d]; /* the elements are there: no overflow */
    return 0;
}

int flux_stream_mine(flux_stream_t *s, uint32_t writer, const char *var,
                     const struct flux_stream_range **ranges, size_t *n, errmsg_t *err)
{
    struct stream_found f;
    struct mine m = {.n = 0};
    int rc = stream_reader_find(s, writer, var, &f, err);
    uint64_t parts, records;

    if (rc == 0)
        return errmsg_fail(err, ENOENT,
                           "step %" PRIu64 " of stream '%s' has no variable '%.127s' of rank %u",
                           s->step, s->name, var, writer);
    if (rc < 0 || count(s, writer, var, &f, &records, err) < 0)
        return -1;
    parts = s->want.by_record ? s->sources[0].steps[0].parts : UINT64_MAX;
    if (!s->want.by_record || s->want.key[0] == '\0') {
        /* What a transform of this reader has put counts as that of the only writer. */
        rc = by_index(&m, parts, records, f.made ? 0 : writer, f.made ? 1 : s->nsources);
        if (rc < 0)
            errmsg_fail(err, ENOMEM, "out of memory for the records of stream '%s'", s->name);
    } else
        rc = by_key(s, &m, parts, writer, var, err);
    if (rc < 0) {
        int saved = errno;

        free(m.ranges);
        errno = saved;
        return -1;
    }
    *ranges = m.ranges;
    *n = m.n;
    return m.ranges ? stream_records_own(s, m.ranges, err) : 0;
}

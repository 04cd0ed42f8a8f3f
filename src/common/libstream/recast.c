/* recast.c - structs of records from one format to another, in memory.
 *
 * Structs become the bytes that a writer would send, and these the structs that a reader would get,
 * so that there is one set of rules for both.  Structs without pointers are those bytes already.
 *
 * Invariants:
 *  1. A format that was returned stays until recast_renew().
 *  2. There are at most FORMATS_MAX texts, and as many conversions.
 *
 * Failure: see each function; nothing is left to be freed.
 */
#include "config.h"
#include <errno.h>
#include <stdlib.h>

#include "libstream/convert.h"
#include "libstream/recast.h"
#include "libutil/hmap.h"

#define FORMATS_MAX 512

struct recast {
    hmap_t *formats;  /* by text */
    hmap_t *converts; /* by two ids */
};

static void format_free(void *val)
{
    stream_format_destroy(val);
}

static void convert_free(void *val)
{
    stream_convert_destroy(val);
}

recast_t *recast_create(void)
{
    recast_t *r = calloc(1, sizeof(*r));

    if (r && (r->formats = hmap_create_str(format_free)) &&
        (r->converts = hmap_create_bin(2 * sizeof(uint64_t), convert_free)))
        return r;
    recast_destroy(r);
    errno = ENOMEM;
    return NULL;
}

void recast_destroy(recast_t *r)
{
    int saved = errno;

    if (!r)
        return;
    hmap_destroy(r->converts);
    hmap_destroy(r->formats);
    free(r);
    errno = saved;
}

/* Empty a map that is full; if there is no memory for another one, it stays. */
static void renew(hmap_t **m, hmap_t *empty)
{
    if (!empty)
        return;
    hmap_destroy(*m);
    *m = empty;
}

void recast_renew(recast_t *r)
{
    if (hmap_count(r->converts) >= FORMATS_MAX)
        renew(&r->converts, hmap_create_bin(2 * sizeof(uint64_t), convert_free));
    if (hmap_count(r->formats) >= FORMATS_MAX)
        renew(&r->formats, hmap_create_str(format_free));
}

const stream_format_t *recast_format(recast_t *r, const char *text, errmsg_t *err)
{
    stream_format_t *f = hmap_get(r->formats, text);

    if (f)
        return f;
    if (hmap_count(r->formats) >= FORMATS_MAX) {
        errmsg_fail(err, E2BIG, "there are more than %d formats of records in a step", FORMATS_MAX);
        return NULL;
    }
    if (!(f = stream_format_sketch(text, err)))
        return NULL;
    if (stream_format_pointer(f) != sizeof(void *)) {
        errmsg_fail(err, EINVAL, "format %s is not one of structs of this host",
                    stream_format_name(f));
        stream_format_destroy(f);
        return NULL;
    }
    if (hmap_put(r->formats, text, f) < 0) {
        errmsg_fail(err, ENOMEM, "out of memory for format %s", stream_format_name(f));
        stream_format_destroy(f);
        return NULL;
    }
    return f;
}

/* The conversion of one format to another: NULL with an error message. */
static const stream_convert_t *convert_of(recast_t *r, const stream_format_t *from,
                                          const stream_format_t *to, errmsg_t *err)
{
    const uint64_t key[2] = {stream_format_id(from), stream_format_id(to)};
    stream_convert_t *c = hmap_get(r->converts, key);

    if (c)
        return c;
    if (hmap_count(r->converts) >= FORMATS_MAX) {
        errmsg_fail(err, E2BIG, "records are converted in more than %d ways in a step",
                    FORMATS_MAX);
        return NULL;
    }
    if (!(c = stream_convert_create(from, STREAM_NATIVE, to, err)))
        return NULL;
    if (hmap_put(r->converts, key, c) < 0) {
        errmsg_fail(err, ENOMEM, "out of memory for format %s", stream_format_name(to));
        stream_convert_destroy(c);
        return NULL;
    }
    return c;
}

int recast_body(const stream_format_t *f, const void *structs, uint64_t n, const void **body,
                size_t *len, void **own, errmsg_t *err)
{
    *own = NULL;
    *body = structs;
    if (stream_encode_array_size(f, structs, n, len, err) < 0)
        return -1;
    if (stream_format_flat(f))
        return 0;
    if (!(*own = malloc(*len + 1)))
        return errmsg_fail(err, ENOMEM, "out of memory for the %zu bytes of records", *len);
    if (stream_encode_array(f, structs, n, *own, *len, len, err) < 0) {
        int saved = errno;

        free(*own);
        *own = NULL;
        errno = saved;
        return -1;
    }
    *body = *own;
    return 0;
}

int recast_structs(recast_t *r, const stream_format_t *from, const stream_format_t *to,
                   const void *structs, uint64_t n, const void **out, void **own, errmsg_t *err)
{
    const stream_convert_t *c;
    const void *body;
    void *encoded;
    size_t len;

    *own = NULL;
    *out = structs;
    if (stream_format_id(from) == stream_format_id(to))
        return 0;
    if (!(c = convert_of(r, from, to, err)) ||
        recast_body(from, structs, n, &body, &len, &encoded, err) < 0)
        return -1;
    *own = stream_convert_array(c, n, body, len, SIZE_MAX / 4, 0, err);
    free(encoded);
    *out = *own;
    return *own ? 0 : -1;
}

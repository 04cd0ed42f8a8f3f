/* slice.c - slices of arrays, as text.
 *
 * Failure: see slice_parse().
 */
#include "config.h"
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "slice.h"

/* A number at *p, which is moved behind it; `missing` if there is none.  -1: too large. */
static int number(const char **p, uint64_t missing, uint64_t *out)
{
    char *end;

    *out = missing;
    if (**p < '0' || **p > '9')
        return 0;
    errno = 0;
    *out = strtoull(*p, &end, 10);
    *p = end;
    return errno == 0 ? 0 : -1;
}

/* One dimension.  0, or -1: malformed. */
static int dimension(const char **p, uint64_t shape, uint64_t *start, uint64_t *to,
                     uint64_t *stride)
{
    const char *begin = *p;

    *stride = 1;
    if (number(p, 0, start) < 0)
        return -1;
    if (**p != ':') {
        *to = *start + 1;
        return *p == begin ? -1 : 0;
    }
    (*p)++;
    if (number(p, shape, to) < 0)
        return -1;
    if (**p != ':')
        return 0;
    (*p)++;
    begin = *p;
    return number(p, 1, stride) < 0 || *p == begin || *stride == 0 ? -1 : 0;
}

int slice_parse(struct slice *sl, const char *text, const struct flux_stream_info *info,
                errmsg_t *err)
{
    const char *p = text;

    sl->elems = 1;
    for (unsigned i = 0; i < info->ndims; i++) {
        uint64_t to = info->shape[i];

        sl->start[i] = 0;
        sl->stride[i] = 1;
        if (*p && dimension(&p, info->shape[i], &sl->start[i], &to, &sl->stride[i]) < 0)
            goto malformed;
        if (*p == ',' && p[1] && i + 1 < info->ndims)
            p++;
        else if (*p)
            goto malformed;
        if (to > info->shape[i] || sl->start[i] >= to)
            return errmsg_fail(err, ERANGE,
                               "'%.80s': dimension %u of the array has %" PRIu64 " elements", text,
                               i + 1, info->shape[i]);
        sl->count[i] = (to - sl->start[i] - 1) / sl->stride[i] + 1; /* a stride may be large */
        sl->elems *= sl->count[i];
    }
    if (!*p)
        return 0;
malformed:
    return errmsg_fail(err, EINVAL,
                       "'%.80s' is not a slice of an array of %u dimensions: for each, write I, "
                       "FROM:TO, FROM:TO:STRIDE or :",
                       text, info->ndims);
}

static json_t *real(double x)
{
    return isfinite(x) ? json_real(x) : json_null();
}

static json_t *complex_pair(double re, double im)
{
    return json_pack("[o, o]", real(re), real(im));
}

json_t *slice_element(const char *type, const void *at)
{
    union {
        int8_t i8;
        int16_t i16;
        int32_t i32;
        int64_t i64;
        uint8_t u8;
        uint16_t u16;
        uint32_t u32;
        uint64_t u64;
        float f32[2];
        double f64[2];
    } v;
    static const struct {
        const char *name;
        size_t size;
    } sizes[] = {{"i8", 1},  {"i16", 2},   {"i32", 4},  {"i64", 8},  {"u8", 1},
                 {"u16", 2}, {"u32", 4},   {"u64", 8},  {"f32", 4},  {"f64", 8},
                 {"c64", 8}, {"c128", 16}, {"bool", 1}, {"char", 1}, {"bytes", 1}};
    size_t k = 0;

    while (strcmp(sizes[k].name, type) != 0) {
        if (++k == sizeof(sizes) / sizeof(sizes[0]))
            return json_null();
    }
    memcpy(&v, at, sizes[k].size);
    switch (k) {
    case 0:
        return json_integer(v.i8);
    case 1:
        return json_integer(v.i16);
    case 2:
        return json_integer(v.i32);
    case 3:
        return json_integer(v.i64);
    case 5:
        return json_integer(v.u16);
    case 6:
        return json_integer(v.u32);
    case 7:
        return v.u64 <= INT64_MAX ? json_integer((json_int_t)v.u64) : json_real((double)v.u64);
    case 8:
        return real(v.f32[0]);
    case 9:
        return real(v.f64[0]);
    case 10:
        return complex_pair(v.f32[0], v.f32[1]);
    case 11:
        return complex_pair(v.f64[0], v.f64[1]);
    case 12:
        return json_boolean(v.u8);
    default:
        return json_integer(v.u8);
    }
}

/* schema.c - JSON objects to C structs and back, by a table.
 *
 * Decoding uses jansson, which checks syntax, UTF-8 and nesting; the table then defines the valid
 * members.  Encoding appends text directly (jsonout.c): the usual message has a few members, and
 * building a tree just to print it costs several times more than printing.
 *
 *    type      JSON                              refused
 *    STR       string                            escaped NUL (jansson), bytes that are not UTF-8
 *    INT I64   integer                           outside the C type
 *    U32 U64   integer >= 0                      outside the C type; encoding U64 above 2^63-1
 *    DOUBLE    real or integer                   encoding NaN and infinities
 *    BOOL      true, false
 *    JSON      any value, including null
 *    OBJECT    object        ARRAY    array
 *
 * Invariants:
 *  1. A successful decoding has set all required members, and the optional ones that were present.
 *     No member is set from a refused value.
 *  2. The encoding of a struct decodes to an equal struct.
 *  3. A text that must have more values than the table allows is refused before it is parsed:
 *     parsed JSON takes up to 80 times the memory of its text.  Only a table with a JSON, OBJECT or
 *     ARRAY member allows any number; a caller that decodes such a table from untrusted senders has
 *     to count first (jsonsize.h).
 *
 * Failure: decoding returns EPROTO with an error message that names the field.  `out` may then be
 * partly filled, and its pointers must not be used.
 */
#include "config.h"
#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "jsonout.h"
#include "jsonsize.h"
#include "libutil/strbuf.h"
#include "schema.h"

#define FIELDS_MAX 64
#define SMALL 4096 /* bytes of text that may be parsed without counting its values */

static const char *const type_names[] = {
    [FLUX_T_STR] = "a string",
    [FLUX_T_INT] = "an integer",
    [FLUX_T_I64] = "an integer",
    [FLUX_T_U32] = "a non-negative integer",
    [FLUX_T_U64] = "a non-negative integer",
    [FLUX_T_DOUBLE] = "a number",
    [FLUX_T_BOOL] = "true or false",
    [FLUX_T_JSON] = "a value",
    [FLUX_T_OBJECT] = "an object",
    [FLUX_T_ARRAY] = "an array",
};

static int wrong_type(const struct flux_field *f, errmsg_t *err)
{
    return errmsg_fail(err, EPROTO, "field '%s' must be %s", f->name, type_names[f->type]);
}

static int out_of_range(const struct flux_field *f, json_int_t v, errmsg_t *err)
{
    return errmsg_fail(err, EPROTO, "field '%s' must be %s in its range, not %" JSON_INTEGER_FORMAT,
                       f->name, type_names[f->type], v);
}

static int decode_integer(const struct flux_field *f, const json_t *val, void *p, errmsg_t *err)
{
    json_int_t v;

    if (!json_is_integer(val))
        return wrong_type(f, err);
    v = json_integer_value(val);
    switch (f->type) {
    case FLUX_T_INT:
        if (v < INT_MIN || v > INT_MAX)
            return out_of_range(f, v, err);
        *(int *)p = (int)v;
        break;
    case FLUX_T_U32:
        if (v < 0 || v > (json_int_t)UINT32_MAX)
            return out_of_range(f, v, err);
        *(uint32_t *)p = (uint32_t)v;
        break;
    case FLUX_T_U64:
        if (v < 0)
            return out_of_range(f, v, err);
        *(uint64_t *)p = (uint64_t)v;
        break;
    default:
        *(int64_t *)p = v;
        break;
    }
    return 0;
}

static int decode_field(const struct flux_field *f, const json_t *val, void *out, errmsg_t *err)
{
    void *p = (char *)out + f->offset;

    switch (f->type) {
    case FLUX_T_STR:
        if (!json_is_string(val))
            return wrong_type(f, err);
        *(const char **)p = json_string_value(val);
        return 0;
    case FLUX_T_INT:
    case FLUX_T_I64:
    case FLUX_T_U32:
    case FLUX_T_U64:
        return decode_integer(f, val, p, err);
    case FLUX_T_DOUBLE:
        if (!json_is_number(val))
            return wrong_type(f, err);
        *(double *)p = json_number_value(val);
        return 0;
    case FLUX_T_BOOL:
        if (!json_is_boolean(val))
            return wrong_type(f, err);
        *(bool *)p = json_is_true(val);
        return 0;
    case FLUX_T_OBJECT:
        if (!json_is_object(val))
            return wrong_type(f, err);
        break;
    case FLUX_T_ARRAY:
        if (!json_is_array(val))
            return wrong_type(f, err);
        break;
    case FLUX_T_JSON:
        break;
    }
    *(json_t **)p = (json_t *)val;
    return 0;
}

static size_t count_fields(const struct flux_schema *desc)
{
    size_t n = 0;

    while (desc->fields[n].name)
        n++;
    assert(n <= FIELDS_MAX);
    return n;
}

int flux_schema_decode_json(const struct flux_schema *desc, const json_t *obj, void *out,
                            errmsg_t *err)
{
    const struct flux_field *fields = desc->fields;
    size_t n = count_fields(desc);
    uint64_t seen = 0;
    size_t next = 0; /* senders write members in the order of the table: check that place first */

    if (!json_is_object(obj))
        return errmsg_fail(err, EPROTO, "a JSON object is expected");
    for (void *it = json_object_iter((json_t *)obj); it;
         it = json_object_iter_next((json_t *)obj, it)) {
        const char *key = json_object_iter_key(it);
        size_t tried = 0;

        while (tried < n && strcmp(fields[next % n].name, key) != 0) {
            next++;
            tried++;
        }
        if (tried == n)
            return errmsg_fail(err, EPROTO, "field '%.64s' is unknown", key);
        next %= n;
        if (decode_field(&fields[next], json_object_iter_value(it), out, err) < 0)
            return -1;
        seen |= UINT64_C(1) << next;
        next++;
    }
    for (size_t i = 0; i < n; i++) {
        if (!(seen >> i & 1) && !(fields[i].flags & FLUX_FIELD_OPTIONAL))
            return errmsg_fail(err, EPROTO, "field '%s' is missing", fields[i].name);
    }
    return 0;
}

/* The maximum number of values and names that an object may have; SIZE_MAX: any number. */
static size_t values_max(const struct flux_schema *desc)
{
    size_t n = 0;

    for (; desc->fields[n].name; n++)
        if (desc->fields[n].type == FLUX_T_JSON || desc->fields[n].type == FLUX_T_OBJECT ||
            desc->fields[n].type == FLUX_T_ARRAY)
            return SIZE_MAX;
    return 2 * n + 2;
}

json_t *flux_schema_decode(const struct flux_schema *desc, const char *json, size_t len, void *out,
                           errmsg_t *err)
{
    size_t max = len > SMALL ? values_max(desc) : SIZE_MAX;
    json_error_t jerr;
    json_t *obj;

    if (max < SIZE_MAX && flux_json_count(json, len, max) > max) {
        errmsg_fail(err, EPROTO, "%zu bytes of JSON have more values than an object of %zu fields",
                    len, count_fields(desc));
        return NULL;
    }
    errno = 0;
    if (!(obj = json_loadb(json, len, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &jerr))) {
        if (errno == ENOMEM)
            errmsg_set(err, "out of memory for %zu bytes of JSON", len);
        else
            errmsg_fail(err, EPROTO, "not JSON: %s", jerr.text);
        return NULL;
    }
    if (flux_schema_decode_json(desc, obj, out, err) < 0) {
        json_decref(obj);
        errno = EPROTO;
        return NULL;
    }
    return obj;
}

char *flux_schema_encode(const struct flux_schema *desc, const void *in)
{
    strbuf_t *sb = strbuf_create(0);

    jsonout_struct(sb, NULL, desc, in);
    return strbuf_take(sb);
}

json_t *flux_schema_encode_json(const struct flux_schema *desc, const void *in)
{
    char *text = flux_schema_encode(desc, in);
    json_t *obj;

    if (!text)
        return NULL;
    obj = json_loads(text, 0, NULL);
    free(text);
    if (!obj)
        errno = ENOMEM;
    return obj;
}

/* jsonout.c - JSON text, appended to a buffer.
 *
 * The text is the only state: its last character shows whether a comma is needed.
 *
 *    last character        what follows
 *    none  {  [  LF        a first value: no comma
 *    any other             a further value: a comma before it
 *
 * A value ends with a quote, a digit, a letter or a bracket, so no value can be confused with the
 * first row.  A line feed separates consecutive texts in one buffer.
 *
 * Invariants:
 *  1. Text that was appended without an error, and closed, is valid JSON in UTF-8.
 *  2. A struct that is appended decodes to an equal struct.
 *
 * Failure: the buffer keeps the error, and then returns no text (strbuf.c).
 */
#include "config.h"
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "jsonout.h"
#include "libutil/strutil.h"
#include "schema.h"

/* Append what precedes a value: the comma and the name. */
static int lead(strbuf_t *sb, const char *key)
{
    size_t len = strbuf_len(sb);
    char last = len > 0 ? strbuf_str(sb)[len - 1] : '\n';

    if (last != '{' && last != '[' && last != '\n' && strbuf_addc(sb, ',') < 0)
        return -1;
    if (!key)
        return 0;
    strbuf_addc(sb, '"');
    strbuf_add(sb, key);
    return strbuf_addn(sb, "\":", 2);
}

int jsonout_object(strbuf_t *sb, const char *key)
{
    lead(sb, key);
    return strbuf_addc(sb, '{');
}

int jsonout_object_end(strbuf_t *sb)
{
    return strbuf_addc(sb, '}');
}

int jsonout_array(strbuf_t *sb, const char *key)
{
    lead(sb, key);
    return strbuf_addc(sb, '[');
}

int jsonout_array_end(strbuf_t *sb)
{
    return strbuf_addc(sb, ']');
}

int jsonout_strn(strbuf_t *sb, const char *key, const char *value, size_t len)
{
    size_t start = 0;

    if (str_utf8_span(value, len) != len)
        return strbuf_fail(sb, EINVAL);
    lead(sb, key);
    strbuf_addc(sb, '"');
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)value[i];

        if (c >= 0x20 && c != '"' && c != '\\')
            continue;
        strbuf_addn(sb, value + start, i - start);
        if (c == '"' || c == '\\')
            strbuf_addf(sb, "\\%c", c);
        else if (c == '\n')
            strbuf_add(sb, "\\n");
        else
            strbuf_addf(sb, "\\u%04x", c);
        start = i + 1;
    }
    strbuf_addn(sb, value + start, len - start);
    return strbuf_addc(sb, '"');
}

int jsonout_str(strbuf_t *sb, const char *key, const char *value)
{
    return jsonout_strn(sb, key, value, strlen(value));
}

static int add_digits(strbuf_t *sb, const char *key, bool negative, uint64_t value)
{
    char buf[24], *p = buf + sizeof(buf);

    do
        *--p = (char)('0' + value % 10);
    while ((value /= 10) > 0);
    if (negative)
        *--p = '-';
    lead(sb, key);
    return strbuf_addn(sb, p, (size_t)(buf + sizeof(buf) - p));
}

int jsonout_int(strbuf_t *sb, const char *key, int64_t value)
{
    return add_digits(sb, key, value < 0, value < 0 ? -(uint64_t)value : (uint64_t)value);
}

int jsonout_uint(strbuf_t *sb, const char *key, uint64_t value)
{
    if (value > INT64_MAX)
        return strbuf_fail(sb, EINVAL);
    return add_digits(sb, key, false, value);
}

int jsonout_bool(strbuf_t *sb, const char *key, bool value)
{
    lead(sb, key);
    return strbuf_add(sb, value ? "true" : "false");
}

static int add_real(strbuf_t *sb, const char *key, double value, const char *text)
{
    char buf[400], *comma;

    if (!isfinite(value))
        return strbuf_fail(sb, EINVAL);
    snprintf(buf, sizeof(buf), "%s", text);
    if ((comma = strchr(buf, ','))) /* if the program has set a locale */
        *comma = '.';
    if (!strpbrk(buf, ".e"))
        strcat(buf, ".0");
    lead(sb, key);
    return strbuf_add(sb, buf);
}

int jsonout_double(strbuf_t *sb, const char *key, double value)
{
    char text[40];

    snprintf(text, sizeof(text), "%.17g", value);
    return add_real(sb, key, value, text);
}

/* Print as "%.6f" does, in a tenth of the time: lists have many times. */
static int add_time(strbuf_t *sb, const char *key, double value)
{
    uint64_t seconds = (uint64_t)value;
    double rest = (value - (double)seconds) * 1e6;
    uint64_t us = (uint64_t)rest;
    char digits[32], *p = digits + sizeof(digits);

    rest -= (double)us;
    us += rest > 0.5 || (rest == 0.5 && us % 2 == 1);
    seconds += us / 1000000;
    us %= 1000000;
    for (int i = 0; i < 6; i++, us /= 10)
        *--p = (char)('0' + us % 10);
    *--p = '.';
    do
        *--p = (char)('0' + seconds % 10);
    while ((seconds /= 10) > 0);
    lead(sb, key);
    return strbuf_addn(sb, p, (size_t)(digits + sizeof(digits) - p));
}

int jsonout_time(strbuf_t *sb, const char *key, double value)
{
    char text[340];

    if (value >= 0. && value < 1e15)
        return add_time(sb, key, value);
    snprintf(text, sizeof(text), "%.6f", value);
    return add_real(sb, key, value, text);
}

static int dump_to_strbuf(const char *data, size_t len, void *sb)
{
    return strbuf_addn(sb, data, len);
}

int jsonout_json(strbuf_t *sb, const char *key, const json_t *value)
{
    lead(sb, key);
    if (json_dump_callback(value, dump_to_strbuf, sb, JSON_COMPACT | JSON_ENCODE_ANY) < 0)
        return strbuf_fail(sb, ENOMEM);
    return 0;
}

int jsonout_text(strbuf_t *sb, const char *key, const char *json)
{
    lead(sb, key);
    return strbuf_add(sb, json);
}

/* --- structs --- */

static int add_pointer(strbuf_t *sb, const struct flux_field *f, const void *value)
{
    if (!value)
        return f->flags & FLUX_FIELD_OPTIONAL ? 0 : strbuf_fail(sb, EINVAL);
    if (f->type == FLUX_T_STR)
        return jsonout_str(sb, f->name, value);
    if ((f->type == FLUX_T_OBJECT && !json_is_object((const json_t *)value)) ||
        (f->type == FLUX_T_ARRAY && !json_is_array((const json_t *)value)))
        return strbuf_fail(sb, EINVAL);
    return jsonout_json(sb, f->name, value);
}

static int add_field(strbuf_t *sb, const struct flux_field *f, const void *p)
{
    switch (f->type) {
    case FLUX_T_INT:
        return jsonout_int(sb, f->name, *(const int *)p);
    case FLUX_T_I64:
        return jsonout_int(sb, f->name, *(const int64_t *)p);
    case FLUX_T_U32:
        return jsonout_uint(sb, f->name, *(const uint32_t *)p);
    case FLUX_T_U64:
        return jsonout_uint(sb, f->name, *(const uint64_t *)p);
    case FLUX_T_DOUBLE:
        return jsonout_double(sb, f->name, *(const double *)p);
    case FLUX_T_BOOL:
        return jsonout_bool(sb, f->name, *(const bool *)p);
    case FLUX_T_STR:
    case FLUX_T_JSON:
    case FLUX_T_OBJECT:
    case FLUX_T_ARRAY:
        break;
    }
    return add_pointer(sb, f, *(void *const *)p);
}

int jsonout_members(strbuf_t *sb, const struct flux_schema *desc, const void *in)
{
    for (const struct flux_field *f = desc->fields; f->name; f++) {
        if (add_field(sb, f, (const char *)in + f->offset) < 0)
            return -1;
    }
    return 0;
}

int jsonout_struct(strbuf_t *sb, const char *key, const struct flux_schema *desc, const void *in)
{
    jsonout_object(sb, key);
    jsonout_members(sb, desc, in);
    return jsonout_object_end(sb);
}

/* JSON text, appended to a buffer one value at a time: no tree is built and no format string is used.
 *
 *    jsonout_object(sb, NULL);
 *    jsonout_uint(sb, "id", 7);
 *    jsonout_array(sb, "ranks");
 *    jsonout_uint(sb, NULL, 0);
 *    jsonout_array_end(sb);
 *    jsonout_object_end(sb);             {"id":7,"ranks":[0]}
 *
 * `key` is the name of a member of the object that is open, or NULL for an element of an array and for
 * the outermost value.  Commas are written where they belong.  Keys are ASCII without characters that
 * JSON escapes: they are constants of the program.
 *
 * Errors are kept by the buffer (strbuf.h): append without looking, and ask once, at the end.  Besides
 * ENOMEM and E2BIG there is EINVAL, for a value that JSON cannot carry: text that is not UTF-8, a number
 * that is not finite or above 2^63-1, a missing required member.
 *
 * Thread rules: those of the buffer.
 */
#ifndef SCHEMA_JSONOUT_H
#define SCHEMA_JSONOUT_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "libutil/strbuf.h"

struct flux_schema;

/* All of these return 0, or -1 with errno; then the buffer is useless. */
int jsonout_object(strbuf_t *sb, const char *key);
int jsonout_object_end(strbuf_t *sb);
int jsonout_array(strbuf_t *sb, const char *key);
int jsonout_array_end(strbuf_t *sb);

int jsonout_str(strbuf_t *sb, const char *key, const char *value);
int jsonout_strn(strbuf_t *sb, const char *key, const char *value, size_t len);
int jsonout_int(strbuf_t *sb, const char *key, int64_t value);
int jsonout_uint(strbuf_t *sb, const char *key, uint64_t value);
int jsonout_bool(strbuf_t *sb, const char *key, bool value);
int jsonout_null(strbuf_t *sb, const char *key);
/* In the fewest of 17 digits that "%.17g" prints, with a point or an exponent. */
int jsonout_double(strbuf_t *sb, const char *key, double value);
/* With six digits after the point: a time in seconds. */
int jsonout_time(strbuf_t *sb, const char *key, double value);
int jsonout_json(strbuf_t *sb, const char *key, const json_t *value);
/* Text that is one JSON value already. */
int jsonout_text(strbuf_t *sb, const char *key, const char *json);
/* An object made from the struct `in` by its description (schema.h). */
int jsonout_struct(strbuf_t *sb, const char *key, const struct flux_schema *desc, const void *in);
/* The members of that object, into the object that is open. */
int jsonout_members(strbuf_t *sb, const struct flux_schema *desc, const void *in);

#endif

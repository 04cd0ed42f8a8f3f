/* JSON text, appended to a buffer value by value: without a tree and without format strings.
 *
 *    jsonout_object(sb, NULL);
 *    jsonout_uint(sb, "id", 7);
 *    jsonout_array(sb, "ranks");
 *    jsonout_uint(sb, NULL, 0);
 *    jsonout_array_end(sb);
 *    jsonout_object_end(sb);             {"id":7,"ranks":[0]}
 *
 * `key` is the name of a member of the open object, or NULL for an element of an array and for the
 * outermost value.  Commas are inserted as needed.  Keys are constants of the program: ASCII
 * without characters that JSON escapes.
 *
 * The buffer keeps errors (strbuf.h), so callers append without checks and check once, at the end.
 * Besides ENOMEM and E2BIG there is EINVAL, for a value that JSON cannot represent: text that is
 * not UTF-8, a number that is not finite or above 2^63-1, a missing required member.
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

/* These return 0, or -1 with errno; then the buffer cannot be used any more. */
int jsonout_object(strbuf_t *sb, const char *key);
int jsonout_object_end(strbuf_t *sb);
int jsonout_array(strbuf_t *sb, const char *key);
int jsonout_array_end(strbuf_t *sb);

int jsonout_str(strbuf_t *sb, const char *key, const char *value);
int jsonout_strn(strbuf_t *sb, const char *key, const char *value, size_t len);
int jsonout_int(strbuf_t *sb, const char *key, int64_t value);
int jsonout_uint(strbuf_t *sb, const char *key, uint64_t value);
int jsonout_bool(strbuf_t *sb, const char *key, bool value);
/* Prints 17 significant digits at most ("%.17g"), with a point or an exponent. */
int jsonout_double(strbuf_t *sb, const char *key, double value);
/* Prints six digits after the point: a time in seconds. */
int jsonout_time(strbuf_t *sb, const char *key, double value);
int jsonout_json(strbuf_t *sb, const char *key, const json_t *value);
/* Append text that already is one JSON value. */
int jsonout_text(strbuf_t *sb, const char *key, const char *json);
/* An object made from the struct `in` by its schema (schema.h). */
int jsonout_struct(strbuf_t *sb, const char *key, const struct flux_schema *desc, const void *in);
/* The members of that object, appended to the open object. */
int jsonout_members(strbuf_t *sb, const struct flux_schema *desc, const void *in);

#endif

/* Records of streams as JSON, for people.
 *
 * Thread rules: one thread.
 */
#ifndef CMD_STREAM_RECORD_JSON_H
#define CMD_STREAM_RECORD_JSON_H

#include <jansson.h>

#include "libstream/format.h"

/* A struct of a format of this host as an object: a member for each field.  Numbers are as
 * slice_element() makes them; text, and arrays of `char`, are strings, bytes hexadecimal digits;
 * arrays are lists, nested for each dimension; what is absent is null.  NULL without memory. */
json_t *record_json(const stream_format_t *f, const void *rec);

#endif

/* jobspec_text.c - byte strings in a jobspec: arguments, paths, values of variables.
 *
 * The kernel accepts any bytes except NUL in them, JSON only UTF-8.  Therefore a string is
 *
 *    "TEXT"              if it is UTF-8
 *    {"bytes":"CHARS"}   in any case: each character, U+0001 to U+00FF, stands for one byte
 *
 * ASCII characters are the same in both forms, so that templates ({{id}}, {{cc}}) are found in
 * either.
 *
 * Invariants:
 *  1. The result of jobspec_text() is read back as the same bytes.
 *  2. The writer uses the second form only for texts that are not UTF-8.
 *
 * Failure: NULL with EINVAL for any other form, or ENOMEM.
 */
#include "config.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "jobspec_build.h"
#include "libutil/strutil.h"

static const char member_name[] = "bytes";

json_t *jobspec_text(const char *s)
{
    size_t len = strlen(s), n = 0;
    json_t *obj, *val;
    char *chars;

    if (str_utf8_span(s, len) == len)
        return json_stringn_nocheck(s, len);
    if (!(chars = malloc(2 * len)))
        return NULL;
    for (const unsigned char *p = (const unsigned char *)s; *p; p++) {
        if (*p < 0x80) {
            chars[n++] = (char)*p;
        } else {
            chars[n++] = (char)(0xc0 | *p >> 6);
            chars[n++] = (char)(0x80 | (*p & 0x3f));
        }
    }
    val = json_stringn_nocheck(chars, n);
    free(chars);
    obj = json_object();
    if (json_object_set_new_nocheck(obj, member_name, val) < 0) {
        json_decref(obj);
        return NULL;
    }
    return obj;
}

/* jansson has checked that the characters are UTF-8 and none is NUL. */
static char *bytes_of(const char *chars, size_t len)
{
    char *bytes = malloc(len + 1), *to = bytes;

    if (!bytes)
        return NULL;
    for (const unsigned char *p = (const unsigned char *)chars; *p; p++) {
        if (*p > 0xc3) {
            free(bytes);
            errno = EINVAL;
            return NULL;
        }
        if (*p < 0x80) {
            *to++ = (char)*p;
        } else {
            *to++ = (char)((unsigned)(p[0] & 3) << 6 | (p[1] & 0x3f));
            p++;
        }
    }
    *to = '\0';
    return bytes;
}

char *jobspec_text_get(const json_t *val)
{
    const json_t *chars = json_object_get(val, member_name);

    if (json_is_string(val))
        return strdup(json_string_value(val));
    if (json_object_size(val) != 1 || !json_is_string(chars)) {
        errno = EINVAL;
        return NULL;
    }
    return bytes_of(json_string_value(chars), json_string_length(chars));
}

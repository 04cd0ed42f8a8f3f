/* cmd_kvs_text.c - values of the key-value store as text in one line and as JSON.
 *
 *    value             in a listing             JSON
 *    text              with C escapes           string
 *    other bytes       <N bytes>                array of numbers, a byte each
 *    not read: large   <N bytes>                number of bytes
 *    link              -> target                array with one string
 *
 * The JSON forms have different types, so that a program can distinguish them.
 *
 * Failure: NULL when out of memory.
 */
#include "config.h"
#include <inttypes.h>
#include <string.h>

#include "cmd_kvs.h"
#include "libutil/strutil.h"

/* Is it text: UTF-8 without a NUL? */
static bool kvs_is_text(const char *data, size_t len)
{
    return str_utf8_span(data, len) == len && !memchr(data, 0, len);
}

void kvs_print_line(FILE *out, const char *data, uint64_t size)
{
    size_t len = (size_t)size;

    if (size > 0 && (!data || !kvs_is_text(data, len))) {
        fprintf(out, "<%" PRIu64 " bytes>", size);
        return;
    }
    for (size_t i = 0; i < len; i++) {
        unsigned char ch = (unsigned char)data[i];
        if (ch == '\n')
            fputs("\\n", out);
        else if (ch == '\\')
            fputs("\\\\", out);
        else if (ch < 0x20 || ch == 0x7f)
            fprintf(out, "\\x%02x", ch);
        else
            putc(ch, out);
    }
}

json_t *kvs_value_json(const char *data, uint64_t size)
{
    size_t len = (size_t)size;
    json_t *a;

    if (!data && size > 0)
        return json_integer((json_int_t)size);
    if (len == 0 || kvs_is_text(data, len))
        return json_stringn(data ? data : "", len);
    if (!(a = json_array()))
        return NULL;
    for (size_t i = 0; i < len; i++) {
        if (json_array_append_new(a, json_integer((unsigned char)data[i])) < 0) {
            json_decref(a);
            return NULL;
        }
    }
    return a;
}

json_t *kvs_link_json(const char *data, uint64_t size)
{
    json_t *a = json_array();

    if (a &&
        json_array_append_new(a, json_stringn(data ? data : "", data ? (size_t)size : 0)) < 0) {
        json_decref(a);
        return NULL;
    }
    return a;
}

const char *kvs_type_name(enum flux_kvs_type type)
{
    switch (type) {
    case FLUX_KVS_VALUE:
        return "value";
    case FLUX_KVS_DIR:
        return "dir";
    case FLUX_KVS_LINK:
        return "link";
    }
    return "?";
}

int kvs_put_json(struct cmd *c, json_t *val)
{
    int rc = val ? json_dumpf(val, stdout, JSON_ENCODE_ANY) : -1;

    json_decref(val);
    return rc < 0 ? cmd_error(c, "cannot print JSON: out of memory, or nowhere to write to")
                  : CMD_OK;
}

/* jm_json.c - members of answers that libschema's encoder (jsonout.h) does not write by itself.
 *
 * Failure: the strbuf_t records lack of memory; its taker sees it.
 */
#include "config.h"
#include "jm_private.h"

#include <string.h>

#include "libschema/jsonout.h"
#include "libutil/strutil.h"

void jm_json_text(strbuf_t *sb, const char *key, const char *text)
{
    size_t len = strlen(text);

    jsonout_strn(sb, key, text, str_utf8_span(text, len) == len ? len : 0);
}

void jm_json_ids(strbuf_t *sb, const char *key, const struct jm_ids *v, size_t n)
{
    jsonout_array(sb, key);
    for (size_t i = 0; i < n; i++)
        jsonout_uint(sb, NULL, v->ids[i]);
    jsonout_array_end(sb);
}

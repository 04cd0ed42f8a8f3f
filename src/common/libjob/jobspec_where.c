/* jobspec_where.c - the path of a syntax error in a JSON text.
 *
 * A JSON parser reports the byte at which it gave up.  jspec_json_where() walks the text up to that
 * byte, with only the grammar of strings, brackets, colons and commas, and returns the path of the
 * innermost object or array, and the member, that contain the byte.
 *
 * Invariants:
 *  1. The text is arbitrary: nothing is read beyond its end, and depth is bounded (deeper levels
 *     are not reported).
 */
#include "config.h"
#include <stdio.h>
#include <string.h>

#include "jobspec_private.h"

#define DEPTH 16
#define KEY_TEXT 48

struct level {
    bool array;
    bool in_value; /* in an object: behind the colon */
    size_t index;
    const char *key; /* NULL: none yet */
    size_t key_len;
};

/* The position behind the string that begins at text[at]. */
static size_t skip_string(const char *text, size_t end, size_t at)
{
    for (at++; at < end && text[at] != '"'; at++)
        if (text[at] == '\\')
            at++;
    return at < end ? at + 1 : end;
}

static void step(struct level *l, char c)
{
    if (c == ':')
        l->in_value = true;
    else if (c == ',') {
        l->in_value = false;
        l->index++;
        l->key = NULL;
    }
}

static const char *print(const struct level *levels, size_t depth, char *buf, size_t size)
{
    size_t n = 0;

    buf[0] = '\0';
    for (size_t i = 0; i < depth && n + 1 < size; i++) {
        const struct level *l = &levels[i];

        if (l->array)
            n += (size_t)snprintf(buf + n, size - n, "[%zu]", l->index);
        else if (l->key)
            n += (size_t)snprintf(buf + n, size - n, "%s%.*s", n ? "." : "",
                                  (int)(l->key_len < KEY_TEXT ? l->key_len : KEY_TEXT), l->key);
    }
    return buf;
}

const char *jspec_json_where(const char *text, size_t len, size_t pos, char *buf, size_t size)
{
    struct level levels[DEPTH];
    size_t depth = 0, end = pos < len ? pos : len;

    for (size_t at = 0; at < end;) {
        struct level *l = depth && depth <= DEPTH ? &levels[depth - 1] : NULL;
        char c = text[at];

        if (c == '"') {
            size_t next = skip_string(text, end, at);
            if (l && !l->array && !l->in_value) {
                l->key = text + at + 1;
                l->key_len = next - at > 2 ? next - at - 2 : 0;
            }
            at = next;
            continue;
        }
        if (c == '{' || c == '[') {
            if (depth++ < DEPTH)
                levels[depth - 1] = (struct level){.array = c == '['};
        } else if ((c == '}' || c == ']') && depth) {
            depth--;
        } else if (l) {
            step(l, c);
        }
        at++;
    }
    return print(levels, depth < DEPTH ? depth : DEPTH, buf, size);
}

/* stream_attr.c - attributes of streams, and of their variables: units, titles, what a reader needs
 * to know beside the values.
 *
 * An attribute is a pinned variable: "@VARIABLE/NAME", or "@NAME" of the stream itself.  So it
 * takes every way that variables take (recordings, other sessions, late readers, TCP), and programs
 * that do not know of attributes can get it.  A text is an array of `char`; bindings put numbers,
 * too.  Formats of records have attributes of their own, and so do their fields (format.h), which
 * readers find under the name of the variable and the path of the field, such as "atoms.at.x".
 *
 * Invariants:
 *  1. A value in `attrs` is not replaced while the step that it was put into has not ended.
 *
 * Failure: errno and an error message.
 */
#include "config.h"
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libstream/stream_private.h"

#define KEY_MAX 128 /* a name of a variable, with its NUL */

/* The name of the variable that has the attribute.  0, or -1 with EINVAL. */
static int key_make(const flux_stream_t *s, const char *var, const char *name, char key[KEY_MAX],
                    errmsg_t *err)
{
    int n = var ? snprintf(key, KEY_MAX, "@%s/%s", var, name) : snprintf(key, KEY_MAX, "@%s", name);

    if (*name && n < KEY_MAX && block_name_ok(key, (size_t)n))
        return 0;
    return errmsg_fail(err, EINVAL,
                       "step %" PRIu64 " of stream '%s': '%.127s' is not a name of an attribute%s"
                       "%.127s%s: with that of its variable it has at most %d characters without "
                       "blanks",
                       s->step, s->name, name, var ? " of variable '" : "", var ? var : "",
                       var ? "'" : "", KEY_MAX - 3);
}

int flux_stream_put_attr(flux_stream_t *s, const char *var, const char *name, const char *value,
                         errmsg_t *err)
{
    uint64_t len = strlen(value);
    struct flux_stream_array text = {.type = "char", .ndims = 1, .count = &len};
    char key[KEY_MAX];
    char *copy;

    if (s->mode != FLUX_STREAM_WRITE)
        return errmsg_fail(err, EINVAL, "stream '%s' was opened for reading", s->name);
    if (key_make(s, var, name, key, err) < 0)
        return -1;
    if (block_find(s->vars, key))
        return errmsg_fail(err, EEXIST,
                           "step %" PRIu64 " of stream '%s' has attribute '%s' already", s->step,
                           s->name, key);
    if (!(copy = strdup(value)) || (!s->attrs && !(s->attrs = hmap_create_str(free))) ||
        hmap_put(s->attrs, key, copy) < 0) {
        free(copy);
        return errmsg_fail(err, ENOMEM, "out of memory for attribute '%s' of stream '%s'", key,
                           s->name);
    }
    if (flux_stream_pin(s, key, err) < 0)
        return -1;
    return flux_stream_put_array(s, key, &text, copy, err);
}

void stream_attr_close(flux_stream_t *s)
{
    hmap_destroy(s->attrs);
}

/* --- reading --- */

/* The attribute of a field, at `path`, of records; NULL: there is none. */
static const char *field_attr(const stream_format_t *f, const char *path, const char *name)
{
    const struct stream_field *fd = NULL;

    while (f && path) {
        const char *dot = strchr(path, '.');
        char *part = dot ? strndup(path, (size_t)(dot - path)) : strdup(path);

        fd = part ? stream_format_find(f, part) : NULL;
        free(part);
        f = fd ? fd->of : NULL;
        path = fd && dot ? dot + 1 : NULL;
        if (!f && path)
            fd = NULL; /* what is not a record has no fields */
    }
    return fd ? stream_format_lookup(fd->attrs, name) : NULL;
}

/* The attribute of the format of a variable, or of a field of its records; NULL: there is none. */
static const char *format_attr(flux_stream_t *s, const char *var, const char *name)
{
    const stream_format_t *f = flux_stream_format(s, var, NULL);
    const char *value = f ? stream_format_attr(f, name) : NULL;

    for (const char *dot = strchr(var, '.'); !f && dot; dot = strchr(dot + 1, '.')) {
        char *outer = strndup(var, (size_t)(dot - var));

        if (outer && (f = flux_stream_format(s, outer, NULL)))
            value = field_attr(f, dot + 1, name);
        free(outer);
    }
    return value;
}

int flux_stream_attr(flux_stream_t *s, uint32_t writer, const char *var, const char *name,
                     const char **value, size_t *len, errmsg_t *err)
{
    uint32_t last = writer == FLUX_STREAM_ALL ? s->nsources : writer + 1;
    struct flux_stream_info info;
    struct stream_found f;
    char key[KEY_MAX];
    const void *data;

    if (key_make(s, var, name, key, err) < 0)
        return -1;
    for (uint32_t w = writer == FLUX_STREAM_ALL ? 0 : writer; w < last; w++) {
        int rc = stream_reader_find(s, w, key, &f, err);

        if (rc < 0)
            return -1;
        if (rc == 0)
            continue;
        if (flux_stream_inquire(s, w, key, &info, NULL) == 0 && strcmp(info.type, "char") != 0 &&
            strcmp(info.type, "bytes") != 0)
            return errmsg_fail(err, EINVAL,
                               "attribute '%s' in step %" PRIu64 " of stream '%s' is not a text, "
                               "but of type %s: get it as a variable",
                               key, s->step, s->name, info.type);
        if (flux_stream_get(s, w, key, &data, len, err) < 0)
            return -1;
        *value = data;
        return 0;
    }
    if (var && (*value = format_attr(s, var, name))) {
        *len = strlen(*value);
        return 0;
    }
    return errmsg_fail(err, ENOENT, "step %" PRIu64 " of stream '%s' has no attribute '%s'",
                       s->step, s->name, key + 1);
}

/* kvs_key.c - which strings are valid keys.
 *
 * A key is checked once where it enters: in the client, and again in the service, which trusts no
 * client; all other code splits keys without further checks.
 */
#include "config.h"
#include <errno.h>
#include <string.h>

#include "kvs_key.h"
#include "libutil/strutil.h"

/* Bytes of a key that an error message shows. */
#define SHOW 80

static int show(size_t len)
{
    return len > SHOW ? SHOW : (int)len;
}

bool kvs_key_is_root(const char *key, size_t len)
{
    return len == 1 && key[0] == '.';
}

size_t kvs_key_name(const char *key, size_t len, const char **rest, size_t *restlen)
{
    const char *dot = memchr(key, '.', len);
    size_t n = dot ? (size_t)(dot - key) : len;
    *rest = dot ? dot + 1 : NULL;
    *restlen = dot ? len - n - 1 : 0;
    return n;
}

int kvs_key_check(const char *key, size_t len, errmsg_t *err)
{
    if (len == 0)
        return errmsg_fail(err, EINVAL, "a key must not be empty");
    if (len > KVS_KEY_MAX)
        return errmsg_fail(err, ENAMETOOLONG, "key '%.*s...' is longer than %d bytes", SHOW, key,
                           KVS_KEY_MAX);
    if (kvs_key_is_root(key, len))
        return errmsg_fail(err, EINVAL, "'.' is the root directory, which cannot be written");
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)key[i];
        if (c < 0x20 || c == 0x7f)
            return errmsg_fail(err, EINVAL, "key has a control character at byte %zu", i);
    }
    if (str_utf8_span(key, len) != len)
        return errmsg_fail(err, EINVAL, "key is not well-formed UTF-8 at byte %zu",
                           str_utf8_span(key, len));
    unsigned depth = 0;
    const char *p = key;
    for (size_t left = len; p; depth++) {
        const char *rest;
        size_t n = kvs_key_name(p, left, &rest, &left);
        if (n == 0)
            return errmsg_fail(err, EINVAL, "key '%.*s' has an empty name between dots", show(len),
                               key);
        if (n > KVS_NAME_MAX)
            return errmsg_fail(err, ENAMETOOLONG, "a name in key '%.*s...' is longer than %d bytes",
                               show(len), key, KVS_NAME_MAX);
        p = rest;
    }
    if (depth > KVS_DEPTH_MAX)
        return errmsg_fail(err, ENAMETOOLONG, "key '%.*s...' has more than %d names", show(len),
                           key, KVS_DEPTH_MAX);
    return 0;
}

int kvs_ns_check(const char *name, size_t len, errmsg_t *err)
{
    if (len == 0 || len > KVS_NS_MAX)
        return errmsg_fail(err, EINVAL, "the name of a namespace has 1 to %d characters, not %zu",
                           KVS_NS_MAX, len);
    for (size_t i = 0; i < len; i++) {
        char c = name[i];
        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
              c == '.' || c == '_' || c == '-'))
            return errmsg_fail(
                err, EINVAL, "the name of a namespace has letters, digits, '.', '_' and '-' only");
    }
    return 0;
}

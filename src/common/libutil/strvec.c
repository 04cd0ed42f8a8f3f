/* strvec.c - growable vector of strings.
 *
 * Invariants:
 *  1. v->argv, once allocated, has a NULL at argv[n]; n < cap.
 *  2. Every string is the vector's own copy.
 *
 * Failure: ENOMEM; the vector is unchanged.
 */
#include "config.h"
#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "strbuf.h"
#include "strvec.h"

struct strvec {
    char **argv;
    size_t n;
    size_t cap;
};

strvec_t *strvec_create(void)
{
    strvec_t *v = calloc(1, sizeof(*v));

    if (!v)
        return NULL;
    v->cap = 8;
    v->argv = calloc(v->cap, sizeof(char *));
    if (!v->argv) {
        free(v);
        return NULL;
    }
    return v;
}

void strvec_destroy(strvec_t *v)
{
    int saved = errno;

    if (v) {
        for (size_t i = 0; i < v->n; i++)
            free(v->argv[i]);
        free(v->argv);
        free(v);
    }
    errno = saved;
}

/* Append `s`, which is taken over in any case. */
static int add_own(strvec_t *v, char *s)
{
    if (!v || !s) {
        free(s);
        errno = ENOMEM;
        return -1;
    }
    if (v->n + 1 == v->cap) {
        char **argv = reallocarray(v->argv, v->cap * 2, sizeof(char *));

        if (!argv) {
            free(s);
            errno = ENOMEM;
            return -1;
        }
        v->argv = argv;
        v->cap *= 2;
    }
    v->argv[v->n++] = s;
    v->argv[v->n] = NULL;
    return 0;
}

int strvec_add(strvec_t *v, const char *s)
{
    return add_own(v, v ? strdup(s) : NULL);
}

int strvec_addf(strvec_t *v, const char *fmt, ...)
{
    va_list ap;
    char *s;
    int n;

    va_start(ap, fmt);
    n = vasprintf(&s, fmt, ap);
    va_end(ap);
    return add_own(v, n < 0 ? NULL : s);
}

strvec_t *strvec_copy_argv(char *const argv[])
{
    strvec_t *v = strvec_create();

    for (size_t i = 0; v && argv && argv[i]; i++) {
        if (strvec_add(v, argv[i]) < 0) {
            strvec_destroy(v);
            return NULL;
        }
    }
    return v;
}

strvec_t *strvec_split(const char *s, char sep)
{
    strvec_t *v = strvec_create();

    if (!v || !s || !*s)
        return v;
    for (;;) {
        const char *end = strchrnul(s, sep);

        if (add_own(v, strndup(s, (size_t)(end - s))) < 0) {
            strvec_destroy(v);
            return NULL;
        }
        if (*end == '\0')
            return v;
        s = end + 1;
    }
}

void strvec_remove(strvec_t *v, size_t i)
{
    if (!v || i >= v->n)
        return;
    free(v->argv[i]);
    memmove(&v->argv[i], &v->argv[i + 1], (v->n - i) * sizeof(char *));
    v->n--;
}

size_t strvec_count(const strvec_t *v)
{
    return v ? v->n : 0;
}

const char *strvec_at(const strvec_t *v, size_t i)
{
    return v && i < v->n ? v->argv[i] : NULL;
}

char **strvec_argv(const strvec_t *v)
{
    return v->argv;
}

char *strvec_join(const strvec_t *v, const char *sep)
{
    strbuf_t *sb = strbuf_create(0);

    for (size_t i = 0; i < strvec_count(v); i++) {
        if (i > 0)
            strbuf_add(sb, sep);
        strbuf_add(sb, v->argv[i]);
    }
    return strbuf_take(sb);
}

/* Index of the entry "name=...", SIZE_MAX if there is none. */
static size_t find_env(const strvec_t *v, const char *name)
{
    size_t len = strlen(name);

    for (size_t i = 0; i < strvec_count(v); i++) {
        if (!strncmp(v->argv[i], name, len) && v->argv[i][len] == '=')
            return i;
    }
    return SIZE_MAX;
}

int strvec_setenv(strvec_t *v, const char *name, const char *value)
{
    size_t i;
    char *s;

    if (!name || !*name || strchr(name, '=') || !value) {
        errno = EINVAL;
        return -1;
    }
    i = find_env(v, name);
    if (i == SIZE_MAX)
        return strvec_addf(v, "%s=%s", name, value);
    if (asprintf(&s, "%s=%s", name, value) < 0) {
        errno = ENOMEM;
        return -1;
    }
    free(v->argv[i]);
    v->argv[i] = s;
    return 0;
}

void strvec_unsetenv(strvec_t *v, const char *name)
{
    size_t i;

    while ((i = find_env(v, name)) != SIZE_MAX)
        strvec_remove(v, i);
}

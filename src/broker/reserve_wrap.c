/* reserve_wrap.c - allocations of the program flux-broker, which the linker directs here (--wrap):
 * one that fails spends the reserve (reserve.c), and is tried again.
 */
#include "config.h"

#include <errno.h>
#include <ev.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "reserve.h"

void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t size);
char *__real_strdup(const char *s);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t size);
char *__wrap_strdup(const char *s);

void *__wrap_malloc(size_t size)
{
    void *p = __real_malloc(size);

    return p || size == 0 || !reserve_spend() ? p : __real_malloc(size);
}

void *__wrap_calloc(size_t n, size_t size)
{
    void *p = __real_calloc(n, size);

    return p || n == 0 || size == 0 || !reserve_spend() ? p : __real_calloc(n, size);
}

void *__wrap_realloc(void *old, size_t size)
{
    void *p = __real_realloc(old, size);

    return p || size == 0 || !reserve_spend() ? p : __real_realloc(old, size);
}

char *__wrap_strdup(const char *s)
{
    char *p = __real_strdup(s);

    return p || !reserve_spend() ? p : __real_strdup(s);
}

static void *ev_alloc(void *p, long size)
{
    if (size > 0)
        return realloc(p, (size_t)size);
    free(p);
    return NULL;
}

void reserve_libraries(void)
{
    json_set_alloc_funcs(malloc, free);
    ev_set_allocator(ev_alloc);
}

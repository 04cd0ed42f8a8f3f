/* fail_at.h - let an allocation fail.  Include it in one file of a test program that is linked with
 * -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc.
 */
#ifndef UTIL_FAIL_AT_H
#define UTIL_FAIL_AT_H

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

static unsigned fail_at; /* this allocation from now on fails; 0: none */
static size_t allocated; /* bytes so far */
static unsigned sparing; /* above 0: the test itself allocates, which does not fail or count */

void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t size);

static bool fails(size_t size)
{
    if (sparing > 0)
        return false;
    allocated += size;
    if (fail_at == 0 || --fail_at > 0)
        return false;
    errno = ENOMEM;
    return true;
}
void *__wrap_malloc(size_t size)
{
    return fails(size) ? NULL : __real_malloc(size);
}
void *__wrap_calloc(size_t n, size_t size)
{
    return fails(n * size) ? NULL : __real_calloc(n, size);
}
void *__wrap_realloc(void *p, size_t size)
{
    return fails(size) ? NULL : __real_realloc(p, size);
}

/* Returns how many allocations before the failing one were left. */
static unsigned stop_failing(void)
{
    unsigned left = fail_at;

    fail_at = 0;
    return left;
}

#endif

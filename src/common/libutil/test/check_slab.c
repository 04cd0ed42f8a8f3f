/* check_slab.c - memory of long-lived objects: no two share a byte, and what is freed is given
 * back. */
#include "config.h"
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "libutil/slab.h"
#include "libutil/test/suite.h"

#define OBJECTS 4000
#define STEPS 200000

struct object {
    unsigned char *p;
    size_t size;
    unsigned char mark;
};

static uint64_t next(uint64_t *x)
{
    *x ^= *x << 13;
    *x ^= *x >> 7;
    *x ^= *x << 17;
    return *x;
}

static void check(const struct object *o)
{
    size_t wrong = 0;

    for (size_t i = 0; i < o->size; i++)
        wrong += o->p[i] != o->mark;
    ck_assert_uint_eq(wrong, 0);
}

/* Mostly small, some in the larger blocks, and some that are malloc's. */
static const size_t limits[] = {300, 300, 300, 300, 300, 300, 300, 300, 300,  300,
                                300, 300, 300, 300, 300, 300, 300, 300, 3000, 45000};

/* Allocated and freed at random, each filled with a mark of its own. */
START_TEST(test_random)
{
    static struct object o[OBJECTS];
    uint64_t x = 88172645463325252ull + (uint64_t)_i;
    slab_t *s = slab_create();

    memset(o, 0, sizeof(o));
    ck_assert_ptr_nonnull(s);
    for (int step = 0; step < STEPS; step++) {
        struct object *k = &o[next(&x) % OBJECTS];

        if (k->p) {
            check(k);
            slab_free(s, k->p, k->size);
            k->p = NULL;
            continue;
        }
        k->size = next(&x) % limits[next(&x) % (sizeof(limits) / sizeof(limits[0]))];
        k->mark = (unsigned char)next(&x);
        ck_assert_ptr_nonnull(k->p = slab_alloc(s, k->size));
        ck_assert_uint_eq((uintptr_t)k->p % 16, 0);
        memset(k->p, k->mark, k->size);
    }
    for (size_t i = 0; i < OBJECTS; i++) {
        if (o[i].p && (i & 1)) {
            check(&o[i]);
            slab_free(s, o[i].p, o[i].size);
        } else if (o[i].p && o[i].size > SLAB_LARGEST) { /* malloc's */
            slab_free(s, o[i].p, o[i].size);
        }
    }
    slab_destroy(s);
}
END_TEST

static size_t mapped; /* bytes */

void *__real_mmap(void *addr, size_t len, int prot, int flags, int fd, off_t offset);
void *__wrap_mmap(void *addr, size_t len, int prot, int flags, int fd, off_t offset);
int __real_munmap(void *addr, size_t len);
int __wrap_munmap(void *addr, size_t len);

void *__wrap_mmap(void *addr, size_t len, int prot, int flags, int fd, off_t offset)
{
    mapped += len;
    return __real_mmap(addr, len, prot, flags, fd, offset);
}

int __wrap_munmap(void *addr, size_t len)
{
    mapped -= len;
    return __real_munmap(addr, len);
}

/* Memory goes back with the objects, not only when somebody tidies up. */
START_TEST(test_given_back)
{
    static const size_t sizes[] = {200, 2305, 32768, SLAB_LARGEST};
    static void *p[OBJECTS];
    slab_t *s = slab_create();
    size_t size = sizes[_i];
    size_t most;

    ck_assert_ptr_nonnull(s);
    slab_free(s, NULL, 100);
    for (int round = 0; round < 3; round++) {
        for (size_t i = 0; i < OBJECTS; i++)
            ck_assert_ptr_nonnull(p[i] = slab_alloc(s, size));
        most = mapped;
        for (size_t i = 0; i < OBJECTS; i++)
            slab_free(s, p[round & 1 ? OBJECTS - 1 - i : i], size);
        ck_assert_uint_le(mapped, most / 8);
    }
    slab_destroy(s);
    ck_assert_uint_eq(mapped, 0);
    slab_destroy(NULL);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("slab");

    tcase_add_loop_test(tc, test_random, 0, 3);
    tcase_add_loop_test(tc, test_given_back, 0, 4);
    return run_case("slab", tc);
}

/* fuzz_idset.c - any text as an idset, and set algebra on two of them. */
#include <stdlib.h>
#include <string.h>

#include "fuzz_must.h"
#include "libidset/idset.h"

/* What is formatted must parse to an equal set and to the same text. */
static void round_trip(const idset_t *ids, int flags)
{
    char *text = idset_format(ids, flags);
    idset_t *back = idset_parse(text, NULL);
    char *again = idset_format(back, flags);

    MUST(back && idset_equal(ids, back) && strcmp(text, again) == 0);
    free(again);
    idset_destroy(back);
    free(text);
}

static void algebra(const idset_t *a, const idset_t *b)
{
    idset_t *both = idset_intersect(a, b);
    idset_t *any = idset_union(a, b);
    idset_t *only = idset_difference(a, b);
    idset_t *sum = idset_union(only, both);

    MUST(idset_equal(sum, a));
    MUST(idset_count(any) + idset_count(both) == idset_count(a) + idset_count(b));
    MUST(idset_subset(both, a) && idset_subset(a, any) && idset_subset(only, a));
    MUST(idset_intersects(a, b) == !idset_empty(both) && !idset_intersects(only, b));
    MUST(idset_add(sum, b) == 0 && idset_equal(sum, any));
    MUST(idset_subtract(sum, b) == 0 && idset_equal(sum, only));
    round_trip(any, 0);
    round_trip(only, IDSET_BRACKETS);
    idset_destroy(sum);
    idset_destroy(only);
    idset_destroy(any);
    idset_destroy(both);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = strndup((const char *)data, size);
    char *second = strchr(text, ';');
    errmsg_t err;
    idset_t *a;
    idset_t *b;

    if (second)
        *second++ = '\0';
    a = idset_parse(text, &err);
    b = idset_parse(second ? second : "0-7,9", &err);
    if (a && b) {
        round_trip(a, 0);
        algebra(a, b);
        algebra(b, a);
    }
    idset_destroy(a);
    idset_destroy(b);
    free(text);
    return 0;
}

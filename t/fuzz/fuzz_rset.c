/* Fuzz target: R.  Whatever the text, it is a set that prints to the same again and obeys the laws
 * of sets, or refused with a sentence. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz_must.h"
#include "libresource/rset.h"

/* Nothing of `a` is missing in `b`. */
static void check_within(const rset_t *a, const rset_t *b)
{
    rset_t *none = rset_diff(a, b);

    MUST(none && rset_nnodes(none) == 0 && rset_npools(none) == 0);
    rset_destroy(none);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    errmsg_t err = {""};
    rset_t *rs = rset_parse((const char *)data, size, &err), *again = NULL, *twice = NULL;
    char *text, *text2;

    if (!rs) {
        MUST(err.text[0]);
        return 0;
    }
    if (rset_nnodes(rs) > 4096) { /* slow, and no different */
        rset_destroy(rs);
        return 0;
    }
    text = rset_format(rs);
    MUST(text && (again = rset_parse(text, strlen(text), &err)) != NULL);
    text2 = rset_format(again);
    MUST(strcmp(text, text2) == 0);
    check_within(rs, again);
    MUST((twice = rset_parse(text, strlen(text), &err)) && rset_add(twice, again) == 0);
    MUST(rset_nnodes(twice) == rset_nnodes(rs));
    check_within(rs, twice);
    MUST(rset_ncores(twice) == rset_ncores(rs));
    rset_destroy(twice);
    rset_destroy(again);
    rset_destroy(rs);
    free(text);
    free(text2);
    return 0;
}

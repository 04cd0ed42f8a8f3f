/* fuzz_hostlist.c - any text as a host list; small ones are checked host by host. */
#include <stdlib.h>
#include <string.h>

#include "fuzz_must.h"
#include "libidset/hostlist.h"

static void same_hosts(const hostlist_t *a, const hostlist_t *b)
{
    char x[HOSTLIST_NAME_MAX + 1];
    char y[HOSTLIST_NAME_MAX + 1];

    MUST(hostlist_count(a) == hostlist_count(b));
    for (size_t i = 0; i < hostlist_count(a); i++) {
        MUST(hostlist_nth(a, i, x, sizeof(x)) && hostlist_nth(b, i, y, sizeof(y)));
        MUST(strcmp(x, y) == 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = strndup((const char *)data, size);
    errmsg_t err;
    hostlist_t *hl = hostlist_parse(text, &err);

    if (hl && hostlist_count(hl) <= 200) {
        size_t count = hostlist_count(hl);
        char *s = hostlist_format(hl);
        hostlist_t *back = hostlist_parse(s, &err);

        MUST(back);
        same_hosts(hl, back);
        MUST(hostlist_unique(back) == 0);
        MUST(hostlist_count(back) <= count);
        MUST(hostlist_unique(hl) == 0);
        same_hosts(hl, back);
        hostlist_destroy(back);
        free(s);
    }
    hostlist_destroy(hl);
    free(text);
    return 0;
}

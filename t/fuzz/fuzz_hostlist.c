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
        MUST(hostlist_find(a, x) >= 0 && (size_t)hostlist_find(a, x) <= i);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = strndup((const char *)data, size);
    errmsg_t err;
    hostlist_t *hl = hostlist_parse(text, &err);

    if (hl && hostlist_count(hl) <= 200) {
        size_t count = hostlist_count(hl);
        char name[HOSTLIST_NAME_MAX + 1];
        char *s = hostlist_format(hl);
        hostlist_t *back = hostlist_parse(s, &err);

        MUST(back);
        same_hosts(hl, back);
        MUST(hostlist_unique(back) == 0 && hostlist_sort(back) == 0);
        MUST(hostlist_count(back) <= count);
        MUST(hostlist_sort(hl) == 0 && hostlist_count(hl) == count);
        MUST(hostlist_unique(hl) == 0);
        same_hosts(hl, back);
        while (hostlist_nth(hl, hostlist_count(hl) / 2, name, sizeof(name)))
            MUST(hostlist_remove(hl, name) == 0);
        MUST(hostlist_count(hl) == 0);
        hostlist_destroy(back);
        free(s);
    }
    hostlist_destroy(hl);
    free(text);
    return 0;
}

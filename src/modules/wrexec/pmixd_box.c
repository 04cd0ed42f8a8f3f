/* Names in a mailbox: see pmixd_box.h and pmixd_modex.c. */
#include "pmixd_box.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "libutil/strutil.h"

int box_name_parse(const char *name, struct box_name *out)
{
    char node[16];
    const char *dash;
    size_t n;

    *out = (struct box_name){0};
    if (str_starts(name, "r-")) {
        out->answer = true;
        if (str2u64(name + 2, &out->num) == 0)
            return 0;
    } else if (str_starts(name, "q-") && (dash = strchr(name + 2, '-')) != NULL &&
               (n = (size_t)(dash - name - 2)) < sizeof(node)) {
        memcpy(node, name + 2, n);
        node[n] = '\0';
        if (str2u32(node, &out->node) == 0 && str2u64(dash + 1, &out->num) == 0)
            return 0;
    }
    errno = EPROTO;
    return -1;
}

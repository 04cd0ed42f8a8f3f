/* fuzz_pmixd_wire.c - what the PMIx servers of a job say to each other; and spawn blocks of PMI-1.
 * What is accepted says the same when it is written again. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "libpmi/pmi_spawn.h"
#include "src/modules/wrexec/pmixd_wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void need(int cond)
{
    if (!cond)
        __builtin_trap();
}

static void spawn(const char *p, size_t left)
{
    struct pmi_spawn sp = {0};
    int rc = 1;

    while (rc == 1 && left > 0) {
        pmi_spawn_begin(&sp);
        for (rc = 0; rc == 0 && left > 0;) {
            ptrdiff_t n = pmi_wire_line(p, left);

            if (n < 0)
                return;
            rc = pmi_spawn_line(&sp, p, (size_t)n);
            p += n + 1;
            left -= (size_t)n + 1;
        }
        need(sp.done <= PMI_SPAWN_COMMANDS_MAX && sp.nprocs >= 0 &&
             sp.nprocs <= PMI_SPAWN_PROCS_MAX && (rc != 2 || sp.done == sp.total));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    const void *p = data;
    size_t left = size;
    struct box_name name;
    struct published pub;
    struct group_part part;

    if (!text)
        return 0;
    memcpy(text, data, size);
    text[size] = '\0';
    (void)box_name_parse(text, &name);
    if (published_parse(text, &pub) == 0) {
        char *again = published_format(&pub);
        struct published two;

        need(again && published_parse(again, &two) == 0);
        need(two.len == pub.len && two.rank == pub.rank && !memcmp(two.value, pub.value, two.len));
        free(two.value);
        free(again);
        free(pub.value);
    }
    while (group_part_next(&p, &left, &part) == 1)
        need(part.data + part.len <= data + size);
    spawn(text, size);
    free(text);
    return 0;
}

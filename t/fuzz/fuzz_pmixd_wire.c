/* fuzz_pmixd_wire.c - what the PMIx servers of a job say to each other; and spawn blocks of PMI-1.
 * What is accepted says the same when it is written again. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz_must.h"
#include "libpmi/pmi_spawn.h"
#include "src/pmixd/pmixd_wire.h"

/* What is complete can be read where it goes to. */
static void request(const struct pmi_spawn *sp)
{
    struct pmi_spawn_request req;
    errmsg_t err;
    size_t len;
    void *bytes = pmi_spawn_take(sp, &len);

    MUST(bytes && pmi_spawn_request_get(bytes, len, &req, &err) == 0);
    MUST(req.ncommands == (uint32_t)sp->total && req.nprocs == (uint32_t)sp->nprocs);
    pmi_spawn_request_clear(&req);
    free(bytes);
}

static void spawn(const char *p, size_t left)
{
    struct pmi_spawn sp = {0};
    ptrdiff_t n = 0;
    int rc = 1;

    while (rc == 1 && left > 0) {
        pmi_spawn_begin(&sp);
        for (rc = 0; rc == 0 && left > 0 && (n = pmi_wire_line(p, left)) >= 0;) {
            rc = pmi_spawn_line(&sp, p, (size_t)n);
            p += n + 1;
            left -= (size_t)n + 1;
        }
        MUST(sp.done <= PMI_SPAWN_COMMANDS_MAX && sp.nprocs >= 0 &&
             sp.nprocs <= PMI_SPAWN_PROCS_MAX && (rc != 2 || sp.done == sp.total));
    }
    if (rc == 2)
        request(&sp);
    pmi_spawn_clear(&sp);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    const void *p = data;
    size_t left = size;
    struct box_name name;
    struct published pub;
    struct group_part part;
    struct pmi_spawn_request req;
    errmsg_t err;

    if (!text)
        return 0;
    memcpy(text, data, size);
    text[size] = '\0';
    (void)pmixd_wire_box_name_parse(text, &name);
    if (pmixd_wire_published_parse(text, &pub) == 0) {
        char *again = pmixd_wire_published_format(&pub);
        struct published two;

        MUST(again && pmixd_wire_published_parse(again, &two) == 0);
        MUST(two.len == pub.len && two.rank == pub.rank && !memcmp(two.value, pub.value, two.len));
        free(two.value);
        free(again);
        free(pub.value);
    }
    while (pmixd_wire_group_part_next(&p, &left, &part) == 1)
        MUST(part.data + part.len <= data + size);
    if (pmi_spawn_request_get(data, size, &req, &err) == 0)
        pmi_spawn_request_clear(&req);
    spawn(text, size);
    free(text);
    return 0;
}

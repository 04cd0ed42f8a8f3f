/* Frames between module and launcher, requests to run something, output records.
 * What is accepted has to hold together: strings are walked to their ends. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "src/modules/wrexec/layout.h"
#include "src/modules/wrexec/proto.h"
#include "src/modules/wrexec/wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void walk(const char *p, size_t len, size_t count)
{
    const char *end = p + len;

    for (size_t i = 0; i < count; i++)
        p += strlen(p) + 1;
    if (p != end)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct wire_frame f;
    struct wire_run run;
    struct wire_record rec;
    struct jobreq req;
    errmsg_t err;
    const void *p = data;
    size_t left = size;
    ptrdiff_t n;

    for (size_t at = 0; (n = wire_parse(data + at, size - at, &f, &err)) > 0; at += (size_t)n)
        if (f.type == WIRE_RUN && wire_run_get(f.payload, f.len, &run, &err) == 0)
            walk(run.strings, run.strings_len, (size_t)WIRE_STRINGS + run.argc + run.envc);
    if (wire_run_get(data, size, &run, &err) == 0) {
        walk(run.strings, run.strings_len, (size_t)WIRE_STRINGS + run.argc + run.envc);
        if (layout_first(run.ntasks, run.nnodes, run.node) +
                layout_count(run.ntasks, run.nnodes, run.node) >
            run.ntasks)
            abort();
    }
    while (wire_record_next(&p, &left, &rec) == 1)
        if (rec.data + rec.len > data + size)
            abort();
    if (jobreq_decode(data, size, &req, &err) == 0)
        walk(req.strings, req.strings_len, (size_t)WIRE_STRINGS + req.argc + req.envc);
    return 0;
}

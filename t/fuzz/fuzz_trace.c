/* fuzz_trace.c - any file as a log of jobs; what was read is kept, derived, and written again. */
#include <stdlib.h>
#include <string.h>

#include "fuzz_must.h"
#include "libtrace/trace.h"
#include "libutil/test/text_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct trace_derive d = {
        .days = 30, .max_nodes = 256, .machine = 1296, .load = 0.83, .mult = 2};
    struct trace_dropped dropped;
    char path[] = TEXT_FILE;
    errmsg_t err;
    trace_t *t;
    size_t n;

    text_file_create(path, data, size);
    t = trace_read(path, 4, &err);
    unlink(path);
    if (!t)
        return 0;
    n = trace_count(t);
    MUST(n > 0);
    trace_keep(t, 1296, size & 1, 0, &dropped);
    MUST(trace_count(t) + dropped.runtime + dropped.processors + dropped.larger == n);
    for (size_t i = 0; i < trace_count(t); i++) {
        const struct trace_job *j = &trace_jobs(t)[i];

        MUST(j->runtime > 0 && j->runtime <= j->estimate && j->nodes > 0 && j->nodes <= 1296);
        MUST(i == 0 || j[-1].submit <= j->submit);
    }
    if (trace_derive(t, &d, &err) == 0)
        for (size_t i = 0; i < trace_count(t); i++)
            MUST(trace_jobs(t)[i].id == (int64_t)i + 1 && trace_jobs(t)[i].submit >= 0);
    trace_destroy(t);
    return 0;
}

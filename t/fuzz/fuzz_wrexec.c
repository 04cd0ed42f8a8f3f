/* Frames between module and launcher and between instances, requests to run something, jobs to be
 * launched, results, output records.
 * What is accepted has to hold together: strings are walked to their ends. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz_must.h"
#include "libexec/exec_layout.h"
#include "libexec/wrexec_wire.h"
#include "libexec/exec_result.h"
#include "libexec/exec_spec.h"
#include "libexec/exec_wire.h"

static void walk(const char *p, size_t len, size_t count)
{
    const char *end = p + len;

    for (size_t i = 0; i < count; i++)
        p += strlen(p) + 1;
    if (p != end)
        abort();
}

static void check_run(const struct wire_run *run)
{
    layout_t *l = exec_wire_run_layout(run, NULL);

    walk(run->strings, run->strings_len,
         (size_t)WIRE_NODE_STRINGS + WIRE_STRINGS + 2ull * run->nfiles + run->argc + run->envc);
    if (!l)
        abort();
    for (uint32_t i = 0; i < exec_layout_count(l, run->node) && i < 100; i++) {
        uint32_t local, task = exec_layout_task(l, run->node, i);

        if (task >= run->ntasks || exec_layout_node(l, task, &local) != run->node || local != i)
            abort();
    }
    exec_layout_destroy(l);
}

static void check_rec(const struct launchrec *rec)
{
    struct spec *s;
    struct exec_spec_node n;
    uint64_t id;
    errmsg_t err;

    walk(rec->strings, rec->strings_len, (size_t)WIRE_STRINGS + 2ull * rec->nfiles + rec->argc);
    walk(rec->env, rec->env_len, rec->envc);
    if ((s = exec_spec_create(rec->json, rec->json_len, 64, &id, &err)))
        exec_spec_node(s, idset_last(s->ranks), &n);
    exec_spec_destroy(s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct result *res = exec_result_create();
    struct wire_numbered numbered;
    struct wire_launch launch;
    struct wire_frame f;
    struct wire_run run;
    struct wire_record record;
    struct launchrec rec;
    struct jobreq req;
    errmsg_t err;
    const void *p = data;
    size_t left = size, pos = 0;
    ptrdiff_t n;

    for (size_t at = 0; (n = exec_wire_parse(data + at, size - at, &f, &err)) > 0;
         at += (size_t)n) {
        if (f.type == WIRE_RUN && exec_wire_run_get(f.payload, f.len, &run, &err) == 0)
            check_run(&run);
        if (f.type == WIRE_LAUNCH && exec_wire_launch_get(&f, &launch, &err) == 0 &&
            exec_launchrec_get(launch.job, launch.job_len, &rec, &err) == 0)
            check_rec(&rec);
        if (f.type == WIRE_NUMBERED && exec_wire_numbered_get(&f, &numbered) == 0 &&
            numbered.f.payload + numbered.f.len != f.payload + f.len)
            abort();
        if (f.type == WIRE_RESULT && res)
            exec_result_unpack(res, f.payload + WIRE_ROUND, f.len - WIRE_ROUND, &err);
    }
    exec_result_destroy(res);
    if (exec_wire_run_get(data, size, &run, &err) == 0)
        check_run(&run);
    while (exec_wire_record_next(&p, &left, &record) == 1)
        if (record.data + record.len > data + size)
            abort();
    if (wrexec_jobreq_decode(data, size, &req, &err) == 0)
        walk(req.strings, req.strings_len, (size_t)WIRE_STRINGS + req.argc + req.envc);
    while (exec_launchrec_next(data, size, &pos, &rec, &err) == 1)
        check_rec(&rec);
    return 0;
}

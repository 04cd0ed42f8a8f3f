/* Jobspecs.  What is accepted keeps the promises of its accessors, and is accepted again once it
 * was printed; what is refused has a sentence. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz_must.h"
#include "libjob/jobspec.h"
#include "libresource/rreq.h"

static void check(const jobspec_t *js)
{
    const struct rreq *r = jobspec_rreq(js);
    size_t argc, ndeps;
    const char *const *argv = jobspec_command(js, &argc);
    uint64_t nodes = r->nnodes ? r->nnodes : 1;
    uint64_t slots = nodes * r->nslots;

    /* The most of a range may be more than a job can have. */
    if (jobspec_min_slots(js) > r->nslots || (jobspec_min_slots(js) && jobspec_per_slot(js)) ||
        nodes * jobspec_min_slots(js) > JOBSPEC_TASKS_MAX)
        abort();
    if (jobspec_min_slots(js) && slots > JOBSPEC_TASKS_MAX)
        slots = JOBSPEC_TASKS_MAX;
    if (!argc || argv[argc] || !*argv[0] || !jobspec_name(js) || !r->cores || !r->nslots ||
        slots != jobspec_nslots(js) || !jobspec_ntasks(js) ||
        jobspec_ntasks(js) > JOBSPEC_TASKS_MAX || !(r->duration >= 0))
        abort();
    if (jobspec_per_slot(js) &&
        (uint64_t)jobspec_per_slot(js) * jobspec_nslots(js) != jobspec_ntasks(js))
        abort();
    jobspec_dependencies(js, &ndeps);
    if (ndeps > JOBSPEC_DEPS_MAX)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    errmsg_t err = {""};
    jobspec_t *js = jobspec_parse((const char *)data, size, &err);
    json_t *obj;
    char *text;
    size_t len;

    if (!js) {
        if (!err.text[0])
            abort();
        return 0;
    }
    check(js);
    jobspec_destroy(js);
    if ((obj = json_loadb((const char *)data, size, 0, NULL)) &&
        (text = jobspec_encode(obj, &len))) {
        if (!(js = jobspec_parse(text, len, &err)))
            abort();
        check(js);
        jobspec_destroy(js);
        free(text);
    }
    json_decref(obj);
    return 0;
}

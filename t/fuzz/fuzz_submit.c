/* Submissions of jobs.  All of an accepted frame is read, to its last byte and not beyond; written
 * again it says the same. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz_must.h"
#include "libjob/submit.h"

static uint64_t walk(struct submit_frame it, const uint8_t *data, size_t size)
{
    struct submit_env env;
    struct submit_job job;
    uint64_t sum = 0;

    while (submit_env_next(&it, &env)) {
        for (size_t i = 0; i < env.len; i++)
            sum = sum * 31 + (uint8_t)env.data[i];
        if (env.len && env.data[env.len - 1])
            abort();
    }
    while (submit_job_next(&it, &job)) {
        for (size_t i = 0; i < job.len; i++)
            sum = sum * 31 + (uint8_t)job.jobspec[i];
        if (!job.len || job.urgency > JOB_URGENCY_MAX)
            abort();
    }
    /* The number of the submission is last. */
    if (it.jobs != data + size - sizeof(uint64_t))
        abort();
    return sum;
}

static void write_again(const struct submit_frame *f)
{
    submit_writer_t *w = submit_writer_create();
    struct submit_frame it = *f, back;
    struct submit_job job;
    void *frame;
    size_t len;

    if (!w)
        return;
    for (uint32_t i = 0; i < f->nenvs; i++)
        if (submit_writer_env(w, NULL) != (int)i)
            abort();
    while (submit_job_next(&it, &job))
        if (submit_writer_job(w, (int)job.env, (int)job.urgency, job.flags, job.jobspec, job.len,
                              NULL) < 0)
            abort();
    if ((frame = submit_writer_frame(w, &len))) {
        if (submit_decode(frame, len, &back, NULL) < 0 || back.njobs != f->njobs)
            abort();
        free(frame);
    }
    submit_writer_destroy(w);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct submit_frame f;
    errmsg_t err = {""};

    if (submit_decode(data, size, &f, &err) < 0) {
        if (!err.text[0])
            abort();
        return 0;
    }
    walk(f, data, size);
    write_again(&f);
    return 0;
}

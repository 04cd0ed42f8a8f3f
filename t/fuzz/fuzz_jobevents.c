/* Event logs of jobs.  What is read is written again and read as the same; states that come of it
 * keep what the table promises. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz_must.h"
#include "libjob/events.h"
#include "libjob/jobstate.h"
#include "libutil/strbuf.h"

static void again(const struct job_event *ev)
{
    strbuf_t *sb = strbuf_create(0);
    struct job_event back;
    json_t *owner;

    if (job_event_write(sb, ev) == 0) {
        if (!(owner = job_event_read(strbuf_str(sb), strbuf_len(sb) - 1, &back, NULL)) ||
            back.event != ev->event || strcmp(back.name, ev->name) != 0 ||
            back.status != ev->status || back.severity != ev->severity ||
            back.urgency != ev->urgency || back.priority != ev->priority)
            abort();
        json_decref(owner);
    } else if (ev->timestamp <= 1e15 && sb) {
        abort();
    }
    strbuf_destroy(sb);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct job_log log;
    struct job_event ev;
    struct jobstate s = {0};
    errmsg_t err = {""};
    int rc;

    job_log_init(&log, (const char *)data, size);
    while ((rc = job_log_next(&log, &ev, &err)) == 1) {
        again(&ev);
        if (jobstate_apply(&s, &ev, &err) < 0 && !err.text[0])
            abort();
        if (s.state >= JOB_STATES ||
            (s.state == JOB_STATE_INACTIVE && jobstate_result(&s) == JOB_RESULT_NONE) ||
            (s.seen & 1u << JOB_EV_FREE && !(s.seen & 1u << JOB_EV_ALLOC)))
            abort();
        jobstate_code(&s);
    }
    if (rc < 0 && !err.text[0])
        abort();
    job_log_done(&log);
    return 0;
}

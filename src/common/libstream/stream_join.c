/* stream_join.c - the request by which a process takes part in a stream, and which stays open.
 *
 * Purpose: the request goes up the tree of brokers to the module `stream` (stream_wire.h).  If a
 * broker on its way is lost, it ends with EHOSTUNREACH, although both ends live.  Then the same
 * request is sent again, by another way, and the module recognizes the process by it
 * (src/modules/stream/away.c).  Data take no notice of this.  A reader that could not reach a
 * writer sends the request again, too, and so learns which writers there are by now.
 *
 * Invariants:
 *  1. There is a response between two repetitions, so they end when the module cannot be reached.
 *     Until the first response, brokers send the request again by themselves
 *     (FLUX_MSGF_IDEMPOTENT).
 *
 * Failure: without memory, the request has ended for good, as without the module.
 */
#include "config.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "libutil/strutil.h"
#include "stream_private.h"

static flux_future_t *ask(const flux_stream_t *s)
{
    return flux_rpc(s->h, s->mode == FLUX_STREAM_WRITE ? "stream.write" : "stream.read", s->join,
                    FLUX_NODEID_ANY, FLUX_MSGF_STREAMING | FLUX_MSGF_IDEMPOTENT);
}

int stream_join(flux_stream_t *s, const struct flux_schema *desc, const void *in, errmsg_t *err)
{
    if ((s->join = flux_schema_encode(desc, in)) && (s->f = ask(s)))
        return 0;
    return errmsg_fail(err, errno, "stream '%s' cannot be opened: %s", s->name, strerror(errno));
}

/* What a task starts, a session too, has the number of the job, but not that of the task. */
void stream_join_task(uint64_t *job, uint32_t *task)
{
    const char *j = getenv("FLUX_JOB_ID");
    const char *t = getenv("FLUX_TASK_RANK");

    if (!j || !t || str2u64(j, job) < 0 || str2u32(t, task) < 0)
        *job = *task = 0;
}

void stream_join_answered(flux_stream_t *s)
{
    s->answered = true;
}

int stream_join_anew(flux_stream_t *s)
{
    flux_future_t *f = ask(s);

    if (!f)
        return -1;
    s->answered = false;
    flux_future_destroy(s->f);
    s->f = f;
    stream_async_listen(s);
    return 0;
}

bool stream_join_again(flux_stream_t *s)
{
    return s->answered && flux_future_errnum(s->f) == EHOSTUNREACH && stream_join_anew(s) == 0;
}

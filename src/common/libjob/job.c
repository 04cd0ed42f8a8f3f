/* job.c - the client side of the job service.
 *
 * The functions build requests (job_wire.h, submit.h) and decode responses.  They keep no state
 * between calls.
 *
 * Failure: invalid arguments are detected here, before anything is sent; a response that violates
 * the protocol is EPROTO.
 */
#include "config.h"
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "job.h"

#define STREAM FLUX_MSGF_STREAMING

static flux_future_t *send_request(flux_t *h, const char *topic, const struct flux_schema *schema,
                                   const void *in, unsigned flags)
{
    return flux_rpc_struct(h, topic, schema, in, FLUX_NODEID_ANY, flags);
}

static flux_future_t *refuse(void)
{
    errno = EINVAL;
    return NULL;
}

/* --- submit --- */

flux_future_t *flux_job_submit_batch(flux_t *h, submit_writer_t *w)
{
    size_t len;
    void *frame = submit_writer_frame(w, &len);
    flux_future_t *f;

    if (!frame)
        return NULL;
    submit_frame_number(frame, len, flux_random(h));
    f = flux_rpc_raw(h, "job.submit", frame, len, FLUX_NODEID_ANY, FLUX_MSGF_IDEMPOTENT);
    free(frame);
    return f;
}

int flux_job_submit_batch_get(flux_future_t *f, struct job_submitted *out, errmsg_t *err)
{
    memset(out, 0, sizeof(*out));
    return flux_rpc_get_struct(f, &job_submitted_schema, out, err);
}

flux_future_t *flux_job_submit(flux_t *h, const char *jobspec, size_t len, const char *const *env,
                               int urgency, unsigned flags, errmsg_t *err)
{
    submit_writer_t *w = submit_writer_create();
    flux_future_t *f = NULL;
    int number = w ? submit_writer_env(w, env ? env : (const char *const *)environ) : -1;

    if (number < 0)
        errmsg_set(err, "%s",
                   errno == E2BIG ? "the environment is too large to be sent" : "out of memory");
    else if (submit_writer_job(w, number, urgency, flags, jobspec, len, err) == 0 &&
             !(f = flux_job_submit_batch(h, w)))
        errmsg_set(err, "the job cannot be sent: %s", strerror(errno));
    submit_writer_destroy(w);
    return f;
}

int flux_job_submit_get(flux_future_t *f, uint64_t *id, errmsg_t *err)
{
    struct job_submitted s;
    uint64_t number;
    const char *text;
    int errnum;

    if (flux_job_submit_batch_get(f, &s, err) < 0)
        return -1;
    if (s.count == 1 && s.first) {
        *id = s.first;
        return 0;
    }
    if (job_error_at(s.errors, 0, &number, &errnum, &text) < 0)
        return errmsg_fail(err, EPROTO, "the response to a submission is invalid");
    return errmsg_fail(err, errnum, "%s", text);
}

/* --- streams --- */

/* The array of a page. */
static int get_page(flux_future_t *f, const struct flux_schema *schema, json_t **array,
                    const json_t **out, errmsg_t *err)
{
    if (flux_rpc_get_struct(f, schema, array, err) < 0)
        return -1;
    *out = *array;
    return 0;
}

static const json_t *element(const json_t *array, size_t i, errmsg_t *err)
{
    const json_t *e = json_array_get(array, i);

    if (!e)
        errmsg_fail(err, ENOENT, "there is no element %zu", i);
    return e;
}

void flux_job_list_init(struct job_list *query)
{
    *query = (struct job_list){.user = -1};
}

flux_future_t *flux_job_list(flux_t *h, const struct job_list *query)
{
    struct job_list all;

    flux_job_list_init(&all);
    return send_request(h, "job.list", &job_list_schema, query ? query : &all,
                        STREAM | FLUX_MSGF_IDEMPOTENT | FLUX_MSGF_WHOLE);
}

int flux_job_list_get(flux_future_t *f, const json_t **jobs, errmsg_t *err)
{
    struct job_page page = {NULL};
    return get_page(f, &job_page_schema, &page.jobs, jobs, err);
}

int flux_job_list_at(const json_t *jobs, size_t i, struct job_info *info, errmsg_t *err)
{
    const json_t *e = element(jobs, i, err);

    memset(info, 0, sizeof(*info));
    info->canceled_by = -1;
    return e ? flux_schema_decode_json(&job_info_schema, e, info, err) : -1;
}

const char *flux_job_state_word(const struct job_info *info)
{
    int state = info->state ? job_state_parse(info->state) : -1;
    int result = info->result ? job_result_parse(info->result) : -1;
    const char *word = NULL;

    if (state == JOB_STATE_INACTIVE && info->result && result < 0)
        return info->result;
    if (state >= 0)
        word = job_state_word((enum job_state)state, info->urgency,
                              result > 0 ? (enum job_result)result : JOB_RESULT_NONE);
    if (!word)
        word = info->state ? info->state : "?";
    return word;
}

flux_future_t *flux_job_wait(flux_t *h, const char *ids)
{
    struct job_ids req = {ids};
    return send_request(h, "job.wait", &job_ids_schema, &req, STREAM | FLUX_MSGF_IDEMPOTENT);
}

int flux_job_wait_get(flux_future_t *f, const json_t **ended, errmsg_t *err)
{
    struct job_ended_page page = {NULL};
    return get_page(f, &job_ended_page_schema, &page.ended, ended, err);
}

int flux_job_wait_at(const json_t *ended, size_t i, struct job_ended *out, errmsg_t *err)
{
    const json_t *e = element(ended, i, err);

    memset(out, 0, sizeof(*out));
    out->canceled_by = -1;
    return e ? flux_schema_decode_json(&job_ended_schema, e, out, err) : -1;
}

flux_future_t *flux_job_watch(flux_t *h, const char *ids)
{
    struct job_ids req = {ids};
    return send_request(h, "job.watch", &job_ids_schema, &req, STREAM | FLUX_MSGF_IDEMPOTENT);
}

int flux_job_watch_get(flux_future_t *f, const json_t **transitions, errmsg_t *err)
{
    struct job_watch_page page = {NULL};
    return get_page(f, &job_watch_page_schema, &page.transitions, transitions, err);
}

int flux_job_watch_at(const json_t *transitions, size_t i, uint64_t *id, enum job_state *state,
                      double *t, errmsg_t *err)
{
    const json_t *e = element(transitions, i, err);
    const json_t *number = json_array_get(e, 0), *when = json_array_get(e, 2);
    int s;

    if (!e)
        return -1;
    s = job_state_parse(json_string_value(json_array_get(e, 1)));
    if (json_array_size(e) != 3 || !json_is_integer(number) || json_integer_value(number) < 1 ||
        s < 0 || !json_is_number(when))
        return errmsg_fail(err, EPROTO, "a transition is not [id, \"STATE\", time]");
    *id = (uint64_t)json_integer_value(number);
    *state = (enum job_state)s;
    *t = json_number_value(when);
    return 0;
}

/* --- act on jobs --- */

/* A request that may be sent again, since its number tells that it is the same. */
static flux_future_t *send_once(flux_t *h, const char *topic, const struct flux_schema *schema,
                                const void *in)
{
    return send_request(h, topic, schema, in, FLUX_MSGF_IDEMPOTENT);
}

uint64_t flux_job_number(flux_t *h)
{
    return flux_random(h) >> 1; /* an integer in JSON has a sign */
}

flux_future_t *flux_job_cancel(flux_t *h, const char *ids, const char *note)
{
    struct job_cancel req = {ids, note, flux_job_number(h)};
    return ids ? send_once(h, "job.cancel", &job_cancel_schema, &req) : refuse();
}

flux_future_t *flux_job_raise(flux_t *h, const char *ids, const char *type, int severity,
                              const char *note)
{
    struct job_raise req = {ids, type, severity, note, flux_job_number(h)};

    if (!ids || !type || severity < 0 || severity > JOB_SEVERITY_MAX)
        return refuse();
    return send_once(h, "job.raise", &job_raise_schema, &req);
}

flux_future_t *flux_job_kill(flux_t *h, const char *ids, int signum)
{
    struct job_kill req = {ids, signum, flux_job_number(h)};
    return ids ? send_once(h, "job.kill", &job_kill_schema, &req) : refuse();
}

flux_future_t *flux_job_urgency(flux_t *h, const char *ids, uint32_t urgency)
{
    struct job_urgency req = {ids, urgency, flux_job_number(h)};

    if (!ids || urgency > JOB_URGENCY_MAX)
        return refuse();
    return send_once(h, "job.urgency", &job_urgency_schema, &req);
}

int flux_job_acted_get(flux_future_t *f, struct job_acted *out, errmsg_t *err)
{
    memset(out, 0, sizeof(*out));
    return flux_rpc_get_struct(f, &job_acted_schema, out, err);
}

/* --- the queue, the history --- */

flux_future_t *flux_job_queue(flux_t *h, const char *op, const char *reason)
{
    struct job_queue req = {op, reason};
    unsigned flags = op && strcmp(op, "status") == 0 ? FLUX_MSGF_IDEMPOTENT : 0;

    return op ? send_request(h, "job.queue", &job_queue_schema, &req, flags) : refuse();
}

int flux_job_queue_get(flux_future_t *f, struct job_queue_status *out, errmsg_t *err)
{
    memset(out, 0, sizeof(*out));
    return flux_rpc_get_struct(f, &job_queue_status_schema, out, err);
}

flux_future_t *flux_job_purge(flux_t *h, const struct job_purge *what)
{
    return what ? send_request(h, "job.purge", &job_purge_schema, what, 0) : refuse();
}

int flux_job_purge_get(flux_future_t *f, uint32_t *purged, errmsg_t *err)
{
    struct job_purged out = {0};

    if (flux_rpc_get_struct(f, &job_purged_schema, &out, err) < 0)
        return -1;
    *purged = out.purged;
    return 0;
}

flux_future_t *flux_job_memo(flux_t *h, uint64_t id, const char *uri)
{
    struct job_memo req = {id, uri};
    return uri ? send_request(h, "job.memo", &job_memo_schema, &req, FLUX_MSGF_IDEMPOTENT)
               : refuse();
}

flux_future_t *flux_job_claim(flux_t *h, uint64_t id)
{
    struct job_claim req = {id};

    return send_request(h, "job.claim", &job_claim_schema, &req, FLUX_MSGF_IDEMPOTENT);
}

const char *flux_job_key(uint64_t id, const char *what, char *buf, size_t size)
{
    snprintf(buf, size, "job.%" PRIu64 ".%s", id, what);
    return buf;
}

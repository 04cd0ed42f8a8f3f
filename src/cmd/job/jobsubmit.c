/* jobsubmit.c - submission of many jobs.
 *
 * The first frame is small, so that the service has work while the next one is prepared; later
 * frames grow, because each costs the service a commit.  WINDOW frames are outstanding: while one
 * is written to the store, the next is decoded.
 *
 * Invariants:
 *  1. Results are passed to the caller in order of submission, whatever the order of the responses.
 *  2. The index numbers of a frame continue those of the preceding frame.
 *
 * Failure: a rejected job is a result; a frame that is rejected as a whole (no service, submission
 * disabled, queue full) ends the submission with the error message.
 */
#include "config.h"
#include "jobsubmit.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "libjob/job.h"

#define WINDOW 4
#define FRAME_FIRST 64
#define FRAME_JOBS 1000
#define FRAME_BYTES (1u << 20)

struct frame {
    flux_future_t *f;
    size_t first; /* index of its first job */
    size_t count;
};

struct jobsubmit {
    struct cmd *c;
    flux_t *h;
    submit_writer_t *w;
    int env;
    size_t base;  /* size of the writer without jobs */
    size_t limit; /* jobs of the frame that is being filled */
    size_t added;
    struct frame frame[WINDOW]; /* oldest first */
    size_t nframes;
    jobsubmit_f result;
    void *arg;
};

jobsubmit_t *jobsubmit_create(struct cmd *c, flux_t *h, char *const *env, jobsubmit_f result,
                              void *arg)
{
    jobsubmit_t *js = calloc(1, sizeof(*js));

    if (!js || !(js->w = submit_writer_create())) {
        cmd_error(c, "out of memory");
        free(js);
        return NULL;
    }
    js->c = c;
    js->h = h;
    js->limit = FRAME_FIRST;
    js->result = result;
    js->arg = arg;
    if ((js->env = submit_writer_env(js->w, (const char *const *)env)) < 0) {
        cmd_error(c, "the environment cannot be sent: %s", strerror(errno));
        jobsubmit_destroy(js);
        return NULL;
    }
    js->base = submit_writer_size(js->w);
    return js;
}

void jobsubmit_destroy(jobsubmit_t *js)
{
    int saved = errno;

    if (!js)
        return;
    for (size_t i = 0; i < js->nframes; i++)
        flux_future_destroy(js->frame[i].f);
    submit_writer_destroy(js->w);
    free(js);
    errno = saved;
}

/* Tell what became of each job of a frame. */
static int tell(jobsubmit_t *js, const struct frame *fr)
{
    struct job_submitted sub = {0};
    uint64_t id, number = 0;
    const char *text = NULL;
    size_t nerr = 0;
    bool more;
    int errnum = 0;
    errmsg_t err;

    if (flux_job_submit_batch_get(fr->f, &sub, &err) < 0) {
        cmd_error(js->c, "%s", err.text);
        return -1;
    }
    id = sub.first;
    more = job_error_at(sub.errors, nerr, &number, &errnum, &text) == 0;
    for (size_t i = 0; i < fr->count; i++) {
        if (more && number == i) {
            js->result(js->arg, fr->first + i, 0, errnum, text);
            more = job_error_at(sub.errors, ++nerr, &number, &errnum, &text) == 0;
        } else {
            js->result(js->arg, fr->first + i, id++, 0, NULL);
        }
    }
    if (id - sub.first != sub.count) {
        cmd_error(js->c,
                  "the service reported %u jobs instead of %zu: does it have another version?",
                  sub.count, (size_t)(id - sub.first));
        return -1;
    }
    return 0;
}

/* Wait for the oldest frame. */
static int take_oldest(jobsubmit_t *js)
{
    struct frame fr = js->frame[0];
    int rc = cmd_wait(js->c, fr.f, -1., "the jobs to be accepted");

    if (rc == 0)
        rc = tell(js, &fr);
    flux_future_destroy(fr.f);
    js->nframes--;
    memmove(js->frame, js->frame + 1, js->nframes * sizeof(*js->frame));
    return rc;
}

static int send_frame(jobsubmit_t *js)
{
    size_t count = submit_writer_count(js->w);
    flux_future_t *f;

    if (count == 0)
        return 0;
    if (js->nframes == WINDOW && take_oldest(js) < 0)
        return -1;
    if (!(f = flux_job_submit_batch(js->h, js->w)))
        return cmd_error(js->c, "out of memory"), -1;
    submit_writer_clear(js->w);
    js->frame[js->nframes++] = (struct frame){f, js->added - count, count};
    js->limit = FRAME_JOBS;
    /* What is answered already need not wait for the window to be full. */
    while (js->nframes > 0 && flux_future_ready(js->frame[0].f)) {
        if (take_oldest(js) < 0)
            return -1;
    }
    return 0;
}

int jobsubmit_add(jobsubmit_t *js, uint32_t urgency, uint32_t flags, const char *spec, size_t len)
{
    size_t count = submit_writer_count(js->w);
    errmsg_t err;

    if ((count >= js->limit || submit_writer_size(js->w) - js->base + len > FRAME_BYTES) &&
        send_frame(js) < 0)
        return -1;
    if (submit_writer_job(js->w, js->env, (int)urgency, flags, spec, len, &err) < 0) {
        if (errno != E2BIG || submit_writer_count(js->w) == 0 || send_frame(js) < 0 ||
            submit_writer_job(js->w, js->env, (int)urgency, flags, spec, len, &err) < 0) {
            cmd_error(js->c, "%s", err.text);
            return -1;
        }
    }
    js->added++;
    return 0;
}

int jobsubmit_finish(jobsubmit_t *js)
{
    if (send_frame(js) < 0)
        return -1;
    while (js->nframes > 0) {
        if (take_oldest(js) < 0)
            return -1;
    }
    return 0;
}

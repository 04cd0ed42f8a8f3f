/* jobfollow.c - jobs that are followed to their end.
 *
 * Output is the value job.ID.output, which only grows: records "TASK STREAM LENGTH\n" with LENGTH
 * bytes behind each.  It is read as fast as it can be shown: when more than ROOM bytes wait for the
 * reader of this program no more is asked for.
 *
 *    a job                      is over when
 *    without output             job.wait has told its end
 *    with output                that; and our broker has seen the store as it was then (an empty
 *                               commit says so); and as many bytes came as the value then has
 *
 * The service tells the end after the last output was committed, so nothing is missing; and
 * nothing waits for a change that will not come.
 *
 * Failure: a job that is not there (any more) ends with an error in struct job_ended; the store or
 * service that cannot be reached ends all.
 */
#include "config.h"
#include "jobfollow.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "joboutput.h"
#include "job_waitline.h"
#include "libjob/job.h"
#include "libkvs/kvs.h"
#include "libutil/hmap.h"
#include "libutil/list.h"
#include "outrec.h"
#include "taskout.h"

#define ROOM (1024 * 1024) /* bytes that wait for the reader */

struct followed {
    jobfollow_t *jf;
    uint64_t id;
    char prefix[24];
    taskout_t *out;
    joboutput_t *output;
    flux_future_t *size; /* of all its output, once it has ended */
    uint64_t total;
    bool total_known;
    struct outrec rec;
    /* end */
    bool has_ended;
    struct job_ended ended;
    char *result, *text;     /* copies for `ended`, which holds a reference to its `failed` */
    struct list_node node;   /* waits for the commit */
    struct list_node paused; /* waits for room */
};

struct jobfollow {
    struct cmd *c;
    flux_t *h;
    int flags;
    struct jobfollow_cb cb;
    hmap_t *jobs; /* id -> struct followed */
    idset_t *ids; /* that have not ended */
    job_waitline_t *tell;
    outsink_t *sink[2];
    flux_future_t *wait;
    flux_future_t *commit;       /* under way for those in `committing` */
    struct list_node committing; /* ended, and the commit was made after that */
    struct list_node next;       /* ended since: for the next commit */
    struct list_node paused;     /* jobs of which no output is asked for */
    bool stopped;
    int errnum;
};

static void stop(jobfollow_t *jf, int errnum)
{
    jf->stopped = true;
    if (!jf->errnum)
        jf->errnum = errnum;
    flux_reactor_stop(flux_get_reactor(jf->h), 0);
}

static void fail(jobfollow_t *jf, const char *text)
{
    cmd_error(jf->c, "%s", text);
    stop(jf, EIO);
}

static void sink_failed(void *arg, int errnum)
{
    jobfollow_t *jf = arg;

    if (errnum != EPIPE)
        cmd_error(jf->c, "cannot write output: %s", strerror(errnum));
    stop(jf, errnum);
}

static size_t waiting(const jobfollow_t *jf)
{
    return jf->sink[0] ? outsink_waiting(jf->sink[0]) + outsink_waiting(jf->sink[1]) : 0;
}

static struct list_node *list_take(struct list_node *head)
{
    struct list_node *n = list_first(head);

    if (n)
        list_remove(n);
    return n;
}

static void sink_drained(void *arg)
{
    jobfollow_t *jf = arg;
    struct list_node *n;

    if (waiting(jf) <= ROOM) {
        while ((n = list_take(&jf->paused)))
            joboutput_resume(list_entry(n, struct followed, paused)->output);
    }
    if (hmap_count(jf->jobs) == 0 && waiting(jf) == 0)
        stop(jf, 0);
}

static void followed_destroy(void *arg)
{
    struct followed *j = arg;

    joboutput_destroy(j->output);
    flux_future_destroy(j->size);
    taskout_destroy(j->out);
    list_remove(&j->node);
    list_remove(&j->paused);
    free(j->result);
    free(j->text);
    json_decref(j->ended.failed);
    free(j);
}

jobfollow_t *jobfollow_create(struct cmd *c, flux_t *h, int flags, const struct jobfollow_cb *cb)
{
    const struct outsink_cb scb = {sink_failed, sink_drained, NULL};
    jobfollow_t *jf = calloc(1, sizeof(*jf));

    if (!jf) {
        cmd_error(c, "out of memory");
        return NULL;
    }
    jf->c = c;
    jf->h = h;
    jf->flags = flags;
    jf->cb = *cb;
    list_init(&jf->committing);
    list_init(&jf->next);
    list_init(&jf->paused);
    jf->jobs = hmap_create_u64(followed_destroy);
    jf->ids = idset_create();
    for (int i = 0; i < 2 && flags & JOBFOLLOW_OUTPUT; i++) {
        struct outsink_cb own = scb;

        own.arg = jf;
        jf->sink[i] =
            outsink_create(flux_get_reactor(h), i == 0 ? STDOUT_FILENO : STDERR_FILENO, &own);
    }
    if (!jf->jobs || !jf->ids || (flags & JOBFOLLOW_OUTPUT && (!jf->sink[0] || !jf->sink[1]))) {
        cmd_error(c, "out of memory");
        jobfollow_destroy(jf);
        return NULL;
    }
    return jf;
}

void jobfollow_destroy(jobfollow_t *jf)
{
    int saved = errno;

    if (!jf)
        return;
    flux_future_destroy(jf->wait);
    flux_future_destroy(jf->commit);
    job_waitline_stop(jf->tell);
    hmap_destroy(jf->jobs);
    idset_destroy(jf->ids);
    outsink_destroy(jf->sink[0]);
    outsink_destroy(jf->sink[1]);
    free(jf);
    errno = saved;
}

/* --- output --- */

static void put_output(void *arg, uint32_t task, uint32_t stream, const void *data, size_t len)
{
    struct followed *j = arg;

    taskout_write(j->out, task, stream, data, len);
}

/* It has ended, and what it wrote was shown. */
static void job_over(struct followed *j)
{
    jobfollow_t *jf = j->jf;
    struct job_ended e = j->ended;

    if (j->out)
        taskout_finish(j->out);
    hmap_take_u64(jf->jobs, j->id);
    jf->cb.ended(jf->cb.arg, &e);
    followed_destroy(j);
    sink_drained(jf);
}

static void check_over(struct followed *j)
{
    if (j->has_ended && j->total_known && (!j->out || joboutput_seen(j->output) >= j->total))
        job_over(j);
}

static void output_failed(void *arg, const char *text)
{
    struct followed *j = arg;

    fail(j->jf, text);
}

static void output_data(void *arg, const char *data, size_t len, bool from_start)
{
    struct followed *j = arg;
    jobfollow_t *jf = j->jf;
    errmsg_t err;

    if (from_start)
        memset(&j->rec, 0, sizeof(j->rec));
    job_waitline_stop(jf->tell);
    jf->tell = NULL;
    if (jf->cb.output)
        jf->cb.output(jf->cb.arg, j->id);
    if (outrec_take(&j->rec, data, len, put_output, j, &err) < 0) {
        cmd_error(jf->c, "the output of job %" PRIu64 " in the key-value store is damaged: %s",
                  j->id, err.text);
        stop(jf, EPROTO);
        return;
    }
    if (waiting(jf) > ROOM && list_empty(&j->paused)) {
        joboutput_pause(j->output);
        list_append(&jf->paused, &j->paused);
    }
    check_over(j);
}

/* --- the end --- */

static void size_cb(flux_future_t *f, void *arg)
{
    struct followed *j = arg;
    struct flux_kvs_info info;
    errmsg_t err;

    if (flux_kvs_lookup_get_info(f, &info, &err) == 0) {
        j->total = info.size;
        joboutput_ended(j->output, info.size);
    } else if (errno != ENOENT) {
        fail(j->jf, err.text);
        return;
    }
    j->total_known = true;
    check_over(j);
}

static void commit_start(jobfollow_t *jf);

static void commit_cb(flux_future_t *f, void *arg)
{
    jobfollow_t *jf = arg;
    struct list_node *n;
    errmsg_t err;

    if (flux_kvs_commit_get(f, NULL, NULL, &err) < 0) {
        fail(jf, err.text);
        return;
    }
    while ((n = list_take(&jf->committing))) {
        struct followed *j = list_entry(n, struct followed, node);
        char key[FLUX_JOB_KEY_MAX];

        j->size = flux_kvs_lookup(jf->h, NULL, flux_job_key(j->id, "output", key, sizeof(key)),
                                  FLUX_KVS_INFO, NULL);
        if (!j->size || flux_future_then(j->size, -1., size_cb, j) < 0) {
            fail(jf, "out of memory");
            return;
        }
    }
    flux_future_destroy(jf->commit);
    jf->commit = NULL;
    commit_start(jf);
}

/* So that this broker knows the store as it was when these jobs ended. */
static void commit_start(jobfollow_t *jf)
{
    struct list_node *n;

    if (jf->commit || list_empty(&jf->next))
        return;
    while ((n = list_take(&jf->next)))
        list_append(&jf->committing, n);
    jf->commit = flux_kvs_commit(jf->h, NULL, NULL);
    if (!jf->commit || flux_future_then(jf->commit, -1., commit_cb, jf) < 0)
        fail(jf, "out of memory");
}

static int job_ended(jobfollow_t *jf, const struct job_ended *e)
{
    struct followed *j = hmap_get_u64(jf->jobs, e->id);

    if (!j || j->has_ended)
        return 0;
    if ((e->result && !(j->result = strdup(e->result))) ||
        (e->text && !(j->text = strdup(e->text))))
        return -1;
    j->ended = *e;
    j->ended.result = j->result;
    j->ended.text = j->text;
    json_incref(j->ended.failed);
    j->has_ended = true;
    (void)idset_clear(jf->ids, (uint32_t)e->id);
    cmd_progress_end(jf->c);
    if (!j->out || e->error) {
        j->total_known = true;
        check_over(j);
    } else {
        list_append(&jf->next, &j->node);
        commit_start(jf);
    }
    return 0;
}

static void wait_cb(flux_future_t *f, void *arg)
{
    jobfollow_t *jf = arg;
    const json_t *page;
    errmsg_t err;

    if (flux_job_wait_get(f, &page, &err) < 0) {
        if (errno != ENODATA)
            fail(jf, err.text);
        return;
    }
    for (size_t i = 0; i < json_array_size(page) && !jf->stopped; i++) {
        struct job_ended e = {0};

        if (flux_job_wait_at(page, i, &e, &err) < 0)
            fail(jf, err.text);
        else if (job_ended(jf, &e) < 0)
            fail(jf, "out of memory");
    }
    if (!jf->stopped)
        flux_future_next(f);
}

/* --- the whole --- */

int jobfollow_add(jobfollow_t *jf, uint64_t id)
{
    struct taskout_params p = {.label = jf->flags & (JOBFOLLOW_LABEL | JOBFOLLOW_LABEL_ID)};
    struct joboutput_cb cb = {output_data, output_failed, NULL};
    struct followed *j = NULL;

    if (id > IDSET_MAX)
        return cmd_error(jf->c, "%" PRIu64 " is not a job's id", id), -1;
    if (hmap_get_u64(jf->jobs, id))
        return 0;
    if (!(j = calloc(1, sizeof(*j))))
        goto nomem;
    j->jf = jf;
    j->id = id;
    cb.arg = j;
    list_init(&j->node);
    list_init(&j->paused);
    if (jf->flags & JOBFOLLOW_LABEL_ID) {
        snprintf(j->prefix, sizeof(j->prefix), "%" PRIu64 ".", id);
        p.prefix = j->prefix;
    }
    if (jf->flags & JOBFOLLOW_OUTPUT) {
        j->out = taskout_create(&p, jf->sink[0], jf->sink[1]);
        j->output = joboutput_create(jf->h, id, &cb);
        if (!j->out || !j->output)
            goto nomem;
    }
    if (idset_set(jf->ids, (uint32_t)id) < 0 || hmap_put_u64(jf->jobs, id, j) < 0)
        goto nomem;
    return 0;
nomem:
    if (j)
        followed_destroy(j);
    return cmd_error(jf->c, "out of memory"), -1;
}

void jobfollow_stop(jobfollow_t *jf)
{
    stop(jf, 0);
}

int jobfollow_run(jobfollow_t *jf)
{
    char *ids = NULL;

    if (hmap_count(jf->jobs) == 0)
        return 0;
    signal(SIGPIPE, SIG_IGN);
    if (!(ids = idset_format(jf->ids, 0)) || !(jf->wait = flux_job_wait(jf->h, ids)) ||
        flux_future_then(jf->wait, -1., wait_cb, jf) < 0) {
        free(ids);
        return cmd_error(jf->c, "out of memory"), -1;
    }
    free(ids);
    fflush(stdout);
    if (!(jf->flags & JOBFOLLOW_SILENT))
        jf->tell = job_waitline_start_set(jf->c, jf->h, jf->ids, "");
    if (flux_run(jf->h) < 0 && !jf->stopped)
        return cmd_error(jf->c, "the connection to the broker was lost"), -1;
    errno = jf->errnum;
    return jf->errnum ? -1 : 0;
}

/* jobfollow.c - follow jobs to their end.
 *
 * The output of a job is the value job.ID.output, which only grows: records "TASK STREAM LENGTH\n",
 * each followed by LENGTH bytes.  This program reads it as fast as it can print it: while more than
 * ROOM bytes wait for the reader of its output, it requests no more.
 *
 *    a job followed             is over when
 *    without its output         job.wait has reported its end
 *    with its output            job.wait has reported its end, this broker has seen the store as it
 *                               was then (an empty commit ensures that), and as many bytes have
 *                               arrived as the value then has
 *
 * The service reports the end after it has committed the last output, so no output is missed, and
 * this program does not wait for a change that never comes.
 *
 * Failure: a job that does not exist, or no longer, is reported with an error in struct job_ended.
 * When the store or the service cannot be reached, all jobs are given up.
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
#include "jobwait.h"
#include "libjob/job.h"
#include "libkvs/kvs.h"
#include "libutil/hmap.h"
#include "libutil/list.h"
#include "outrec.h"
#include "taskout.h"

#define ROOM (1024 * 1024) /* bytes that wait for the reader */

struct followed {
    struct jobfollow *jf;
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
    char *result, *text, *warning; /* copies for `ended`, which holds a reference to its `failed` */
    struct list_node node;         /* waits for the commit */
    struct list_node paused;       /* waits for room */
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
    jobwait_t *wait;
    flux_future_t *commit;       /* under way for those in `committing` */
    struct list_node committing; /* ended, and the commit was made after that */
    struct list_node next;       /* ended since: for the next commit */
    struct list_node paused;     /* jobs whose output is not requested now */
    bool stopped;
    int errnum;
};

static void stop(struct jobfollow *jf, int errnum)
{
    jf->stopped = true;
    if (!jf->errnum)
        jf->errnum = errnum;
    flux_reactor_stop(flux_get_reactor(jf->h), 0);
}

static void fail(struct jobfollow *jf, const char *text)
{
    cmd_error(jf->c, "%s", text);
    stop(jf, EIO);
}

static void sink_failed(void *arg, int errnum)
{
    struct jobfollow *jf = arg;

    if (errnum != EPIPE)
        cmd_error(jf->c, "cannot write output: %s", strerror(errnum));
    stop(jf, errnum);
}

static size_t waiting(const struct jobfollow *jf)
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
    struct jobfollow *jf = arg;
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
    free(j->warning);
    json_decref(j->ended.failed);
    free(j);
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
    struct jobfollow *jf = j->jf;
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
    struct jobfollow *jf = j->jf;
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

static void commit_start(struct jobfollow *jf);

static void commit_cb(flux_future_t *f, void *arg)
{
    struct jobfollow *jf = arg;
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
static void commit_start(struct jobfollow *jf)
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

static int job_ended(struct jobfollow *jf, const struct job_ended *e)
{
    struct followed *j = hmap_get_u64(jf->jobs, e->id);

    if (!j || j->has_ended)
        return 0;
    if ((e->result && !(j->result = strdup(e->result))) ||
        (e->text && !(j->text = strdup(e->text))) ||
        (e->warning && !(j->warning = strdup(e->warning))))
        return -1;
    j->ended = *e;
    j->ended.result = j->result;
    j->ended.text = j->text;
    j->ended.warning = j->warning;
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
    struct jobfollow *jf = arg;
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

/* --- setup --- */

static int open_sinks(struct jobfollow *jf)
{
    const struct outsink_cb cb = {sink_failed, sink_drained, jf};
    flux_reactor_t *r = flux_get_reactor(jf->h);

    jf->sink[0] = outsink_create(r, STDOUT_FILENO, &cb);
    jf->sink[1] = outsink_create(r, STDERR_FILENO, &cb);
    return jf->sink[0] && jf->sink[1] ? 0 : -1;
}

static int follow(struct jobfollow *jf, uint32_t id)
{
    struct taskout_params p = {.label = jf->flags & (JOBFOLLOW_LABEL | JOBFOLLOW_LABEL_ID)};
    struct joboutput_cb cb = {output_data, output_failed, NULL};
    struct followed *j = calloc(1, sizeof(*j));

    if (!j)
        return -1;
    j->jf = jf;
    j->id = id;
    cb.arg = j;
    list_init(&j->node);
    list_init(&j->paused);
    if (hmap_put_u64(jf->jobs, id, j) < 0) {
        followed_destroy(j);
        return -1;
    }
    if (!(jf->flags & JOBFOLLOW_OUTPUT))
        return 0;
    if (jf->flags & JOBFOLLOW_LABEL_ID) {
        snprintf(j->prefix, sizeof(j->prefix), "%" PRIu32 ".", id);
        p.prefix = j->prefix;
    }
    j->out = taskout_create(&p, jf->sink[0], jf->sink[1]);
    j->output = joboutput_create(jf->h, id, &cb);
    return j->out && j->output ? 0 : -1;
}

static int start(struct jobfollow *jf, const idset_t *ids)
{
    char *text = idset_format(ids, 0);
    int rc = text ? 0 : -1;

    jf->jobs = hmap_create_u64(followed_destroy);
    jf->ids = idset_copy(ids);
    if (!jf->jobs || !jf->ids || (jf->flags & JOBFOLLOW_OUTPUT && open_sinks(jf) < 0))
        rc = -1;
    for (uint32_t id = idset_first(ids); rc == 0 && id != IDSET_NONE; id = idset_next(ids, id))
        rc = follow(jf, id);
    if (rc == 0 && !(jf->wait = jobwait_create(jf->h, text, wait_cb, jf)))
        rc = -1;
    free(text);
    return rc;
}

static void clear(struct jobfollow *jf)
{
    jobwait_destroy(jf->wait);
    flux_future_destroy(jf->commit);
    job_waitline_stop(jf->tell);
    hmap_destroy(jf->jobs);
    idset_destroy(jf->ids);
    outsink_destroy(jf->sink[0]);
    outsink_destroy(jf->sink[1]);
}

int jobfollow_run(struct cmd *c, flux_t *h, const idset_t *ids, int flags,
                  const struct jobfollow_cb *cb)
{
    struct jobfollow jf = {.c = c, .h = h, .flags = flags, .cb = *cb};
    int code = CMD_OK;

    if (idset_empty(ids))
        return CMD_OK;
    list_init(&jf.committing);
    list_init(&jf.next);
    list_init(&jf.paused);
    signal(SIGPIPE, SIG_IGN);
    if (start(&jf, ids) < 0) {
        code = cmd_error(c, "out of memory");
    } else {
        fflush(stdout);
        if (!(flags & JOBFOLLOW_SILENT))
            jf.tell = job_waitline_start_set(c, h, jf.ids, "");
        if (flux_run(h) < 0 && !jf.stopped)
            code = cmd_error(c, "the connection to the broker was lost");
        else if (jf.errnum)
            code = jf.errnum == EPIPE ? 128 + SIGPIPE : CMD_FAIL;
    }
    clear(&jf);
    return code;
}

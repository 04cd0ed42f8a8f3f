/* submit.c - the frame of job.submit: its format is in submit.h.
 *
 * The reader checks the whole frame once, so the iteration afterwards cannot fail.  The writer
 * gathers environments and jobs in two buffers, and joins these at the end.
 *
 * Invariants:
 *  1. After submit_decode() every length and number of an environment in the frame is in bounds,
 *     and every byte belongs to an environment, a job or the header.
 *  2. A writer never makes a frame that submit_decode() refuses.
 *
 * Failure: EPROTO or EMSGSIZE with an error message that names the environment or job; a function
 * of a full writer fails with E2BIG and leaves it unchanged.
 */
#include "config.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "libutil/le.h"
#include "submit.h"

#define HEAD 16
#define ENV_HEAD 4
#define JOB_HEAD 16
#define TAIL 8

static const char magic[4] = {'F', 'J', 'S', '2'};

/* --- reading --- */

int submit_env_check(const char *data, size_t len, errmsg_t *err)
{
    size_t at = 0;

    while (at < len) {
        const char *nul = memchr(data + at, '\0', len - at);
        const char *eq;

        if (!nul)
            return errmsg_fail(err, EPROTO, "the last entry of an environment has no NUL");
        eq = memchr(data + at, '=', (size_t)(nul - data) - at);
        if (!eq || eq == data + at)
            return errmsg_fail(err, EPROTO, "an entry of an environment is not NAME=value");
        at = (size_t)(nul - data) + 1;
    }
    return 0;
}

static int check_envs(const struct submit_frame *f, size_t total, errmsg_t *err)
{
    const uint8_t *p = f->envs;

    for (uint32_t i = 0; i < f->nenvs; i++) {
        size_t len;

        if (total < ENV_HEAD || (len = le_get32(p)) > total - ENV_HEAD)
            return errmsg_fail(err, EPROTO, "environment %u of a submission is cut off", i);
        if (submit_env_check((const char *)p + ENV_HEAD, len, err) < 0)
            return -1;
        p += ENV_HEAD + len;
        total -= ENV_HEAD + len;
    }
    if (total)
        return errmsg_fail(err, EPROTO,
                           "the environments of a submission are followed by surplus bytes");
    return 0;
}

static int check_jobs(const struct submit_frame *f, errmsg_t *err)
{
    const uint8_t *p = f->jobs;
    size_t left = (size_t)(f->end - f->jobs);

    for (uint32_t i = 0; i < f->njobs; i++) {
        size_t len;

        if (left < JOB_HEAD || (len = le_get32(p + 12)) > left - JOB_HEAD)
            return errmsg_fail(err, EPROTO, "job %u of a submission is cut off", i);
        if (le_get32(p) >= f->nenvs)
            return errmsg_fail(err, EPROTO, "job %u of a submission has no environment", i);
        if (le_get32(p + 4) > JOB_URGENCY_MAX)
            return errmsg_fail(err, EPROTO, "the urgency of job %u must be 0 to %d", i,
                               JOB_URGENCY_MAX);
        if (le_get32(p + 8) & ~(uint32_t)JOB_FLAGS_ALL)
            return errmsg_fail(err, EPROTO, "flags %#x of job %u are not known", le_get32(p + 8),
                               i);
        if (!len)
            return errmsg_fail(err, EPROTO, "job %u of a submission has no jobspec", i);
        p += JOB_HEAD + len;
        left -= JOB_HEAD + len;
    }
    if (left)
        return errmsg_fail(err, EPROTO, "a submission has surplus bytes after its last job");
    return 0;
}

int submit_decode(const void *data, size_t len, struct submit_frame *f, errmsg_t *err)
{
    const uint8_t *p = data;
    size_t envs;

    if (len > SUBMIT_FRAME_MAX)
        return errmsg_fail(err, EMSGSIZE, "a submission has at most %u bytes, this one has %zu",
                           SUBMIT_FRAME_MAX, len);
    if (len < HEAD + TAIL || memcmp(p, magic, sizeof(magic)) != 0)
        return errmsg_fail(err, EPROTO, "this is not a submission of jobs");
    f->njobs = le_get32(p + 4);
    f->nenvs = le_get32(p + 8);
    envs = le_get32(p + 12);
    if (!f->njobs || f->njobs > SUBMIT_JOBS_MAX)
        return errmsg_fail(err, f->njobs ? EMSGSIZE : EPROTO,
                           "a submission has 1 to %d jobs, not %u", SUBMIT_JOBS_MAX, f->njobs);
    if (f->nenvs > SUBMIT_ENVS_MAX)
        return errmsg_fail(err, EMSGSIZE, "a submission has at most %d environments, not %u",
                           SUBMIT_ENVS_MAX, f->nenvs);
    if (envs > len - HEAD - TAIL)
        return errmsg_fail(err, EPROTO, "the environments of a submission are cut off");
    f->envs = p + HEAD;
    f->jobs = f->envs + envs;
    f->end = p + len - TAIL;
    f->number = le_get64(f->end);
    return check_envs(f, envs, err) < 0 || check_jobs(f, err) < 0 ? -1 : 0;
}

bool submit_env_next(struct submit_frame *it, struct submit_env *env)
{
    if (!it->nenvs)
        return false;
    it->nenvs--;
    env->len = le_get32(it->envs);
    env->data = (const char *)it->envs + ENV_HEAD;
    it->envs += ENV_HEAD + env->len;
    return true;
}

bool submit_job_next(struct submit_frame *it, struct submit_job *job)
{
    if (!it->njobs)
        return false;
    it->njobs--;
    job->env = le_get32(it->jobs);
    job->urgency = le_get32(it->jobs + 4);
    job->flags = le_get32(it->jobs + 8);
    job->len = le_get32(it->jobs + 12);
    job->jobspec = (const char *)it->jobs + JOB_HEAD;
    it->jobs += JOB_HEAD + job->len;
    return true;
}

/* --- writing --- */

struct bytes {
    uint8_t *data;
    size_t len;
    size_t size;
};

struct submit_writer {
    struct bytes envs;
    struct bytes jobs;
    uint32_t nenvs;
    uint32_t njobs;
};

/* Append room for `len` bytes.  Returns it, or NULL with ENOMEM. */
static uint8_t *bytes_room(struct bytes *b, size_t len)
{
    if (b->size - b->len < len) {
        size_t size = b->size * 2 + len + 256;
        uint8_t *p = realloc(b->data, size);

        if (!p)
            return NULL;
        b->data = p;
        b->size = size;
    }
    return b->data + b->len;
}

submit_writer_t *submit_writer_create(void)
{
    return calloc(1, sizeof(submit_writer_t));
}

void submit_writer_destroy(submit_writer_t *w)
{
    int saved = errno;

    if (!w)
        return;
    free(w->envs.data);
    free(w->jobs.data);
    free(w);
    errno = saved;
}

size_t submit_writer_count(const submit_writer_t *w)
{
    return w->njobs;
}

size_t submit_writer_size(const submit_writer_t *w)
{
    return HEAD + w->envs.len + w->jobs.len + TAIL;
}

static bool fits(const submit_writer_t *w, size_t more)
{
    return more <= SUBMIT_FRAME_MAX - submit_writer_size(w);
}

static bool is_entry(const char *s)
{
    return strchr(s, '=') > s;
}

int submit_writer_env(submit_writer_t *w, const char *const *environ)
{
    size_t len = 0;
    uint8_t *p;

    for (size_t i = 0; environ && environ[i]; i++)
        len += is_entry(environ[i]) ? strlen(environ[i]) + 1 : 0;
    if (w->nenvs >= SUBMIT_ENVS_MAX || !fits(w, ENV_HEAD + len)) {
        errno = E2BIG;
        return -1;
    }
    if (!(p = bytes_room(&w->envs, ENV_HEAD + len)))
        return -1;
    le_put32(p, (uint32_t)len);
    p += ENV_HEAD;
    for (size_t i = 0; environ && environ[i]; i++) {
        if (is_entry(environ[i])) {
            size_t n = strlen(environ[i]) + 1;
            memcpy(p, environ[i], n);
            p += n;
        }
    }
    w->envs.len += ENV_HEAD + len;
    return (int)w->nenvs++;
}

int submit_writer_job(submit_writer_t *w, int env, int urgency, unsigned flags, const char *jobspec,
                      size_t len, errmsg_t *err)
{
    uint8_t *p;

    if (env < 0 || (uint32_t)env >= w->nenvs)
        return errmsg_fail(err, EINVAL, "a job requires an environment that was added before");
    if (urgency < 0 || urgency > JOB_URGENCY_MAX)
        return errmsg_fail(err, EINVAL, "the urgency of a job must be 0 to %d, not %d",
                           JOB_URGENCY_MAX, urgency);
    if (flags & ~(unsigned)JOB_FLAGS_ALL || !jobspec || !len)
        return errmsg_fail(err, EINVAL, "a job requires a jobspec and known flags");
    if (w->njobs >= SUBMIT_JOBS_MAX || len > SUBMIT_FRAME_MAX || !fits(w, JOB_HEAD + len))
        return errmsg_fail(err, E2BIG, "the submission is full with %u jobs", w->njobs);
    if (!(p = bytes_room(&w->jobs, JOB_HEAD + len)))
        return errmsg_fail(err, ENOMEM, "out of memory for a submission");
    le_put32(p, (uint32_t)env);
    le_put32(p + 4, (uint32_t)urgency);
    le_put32(p + 8, flags);
    le_put32(p + 12, (uint32_t)len);
    memcpy(p + JOB_HEAD, jobspec, len);
    w->jobs.len += JOB_HEAD + len;
    w->njobs++;
    return 0;
}

void *submit_writer_frame(submit_writer_t *w, size_t *len)
{
    size_t size = submit_writer_size(w);
    uint8_t *p;

    if (!w->njobs) {
        errno = EINVAL;
        return NULL;
    }
    if (!(p = malloc(size + 1)))
        return NULL;
    memcpy(p, magic, sizeof(magic));
    le_put32(p + 4, w->njobs);
    le_put32(p + 8, w->nenvs);
    le_put32(p + 12, (uint32_t)w->envs.len);
    memcpy(p + HEAD, w->envs.data, w->envs.len);
    memcpy(p + HEAD + w->envs.len, w->jobs.data, w->jobs.len);
    *len = size;
    submit_frame_number(p, size, 0);
    return p;
}

void submit_frame_number(void *frame, size_t len, uint64_t number)
{
    le_put64((uint8_t *)frame + len - TAIL, number);
}

void submit_writer_clear(submit_writer_t *w)
{
    w->njobs = 0;
    w->jobs.len = 0;
}

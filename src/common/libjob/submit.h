/* The payload of job.submit: many jobs in one request.
 *
 *    "FJS2", u32 jobs, u32 environments, u32 bytes of all environments together;
 *    environments:  u32 length, then NAME=value, each followed by a NUL
 *    jobs:          u32 number of its environment, u32 urgency, u32 flags, u32 length, jobspec;
 *    u64 number of the submission
 *
 * Numbers are little-endian.  An environment is a sequence of bytes, as for processes, and occurs
 * only once for all jobs of the frame that share it.  A jobspec is opaque here (jobspec.h reads
 * it).  The number is random; a submission that arrives again, since a broker on its way has died,
 * gets the answer that the first one got.  0: none, such a submission is always a new one.
 *
 * The response is JSON: struct job_submitted of job_wire.h.
 *
 * Thread rules: functions use nothing but their arguments.
 */
#ifndef JOB_SUBMIT_H
#define JOB_SUBMIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "libutil/errmsg.h"

#define SUBMIT_FRAME_MAX (64u << 20)
#define SUBMIT_JOBS_MAX 10000
#define SUBMIT_ENVS_MAX 1000

#define JOB_URGENCY_HOLD 0
#define JOB_URGENCY_DEFAULT 16
#define JOB_URGENCY_MAX 31

enum {
    JOB_FLAG_CLIENT = 1,  /* output goes to the client, and the job ends with it (wreckrun) */
    JOB_FLAG_RETURNS = 2, /* such a client returns when its broker is started again */
    JOB_FLAGS_ALL = 3,
};

/* --- reading --- */

struct submit_frame {
    uint32_t njobs;
    uint32_t nenvs;
    const uint8_t *envs; /* for submit_env_next() only */
    const uint8_t *jobs; /* for submit_job_next() only */
    const uint8_t *end;
    uint64_t number;
};
struct submit_env {
    const char *data; /* NAME=value\0..., `len` bytes, the last of which is NUL; or len is 0 */
    size_t len;
};
struct submit_job {
    uint32_t env; /* below nenvs */
    uint32_t urgency;
    uint32_t flags;
    const char *jobspec; /* not NUL-terminated */
    size_t len;          /* at least 1 */
};

/* Check a whole payload.  Pointers lead into it.  -1 with EPROTO (EMSGSIZE beyond a bound) and an
 * error message.  A frame has at least one job; jobs may share an environment. */
int submit_decode(const void *data, size_t len, struct submit_frame *f, errmsg_t *err);
/* Iterate over a checked frame, until the functions return false:
 *    struct submit_frame it = frame;  while (submit_job_next(&it, &job)) ... */
bool submit_env_next(struct submit_frame *it, struct submit_env *env);
bool submit_job_next(struct submit_frame *it, struct submit_job *job);
/* Check an environment: entries with a '=' after at least one byte, each terminated by a NUL.  -1
 * with EPROTO and an error message. */
int submit_env_check(const char *data, size_t len, errmsg_t *err);

/* --- writing --- */

typedef struct submit_writer submit_writer_t;

submit_writer_t *submit_writer_create(void);    /* NULL with ENOMEM */
void submit_writer_destroy(submit_writer_t *w); /* NULL-safe, keeps errno */
/* Add an environment (NULL after the last entry; entries without a name are left out); returns its
 * number, or -1 with E2BIG or ENOMEM.  A client usually adds one, `environ`. */
int submit_writer_env(submit_writer_t *w, const char *const *environ);
/* Add a job.  -1 with EINVAL (no such environment, urgency, flags, empty text), E2BIG (the frame is
 * full: take it, and begin another one) or ENOMEM; then nothing was added. */
int submit_writer_job(submit_writer_t *w, int env, int urgency, unsigned flags, const char *jobspec,
                      size_t len, errmsg_t *err);
size_t submit_writer_count(const submit_writer_t *w);
size_t submit_writer_size(const submit_writer_t *w); /* bytes that the frame will have */
/* Give a frame a number. */
void submit_frame_number(void *frame, size_t len, uint64_t number);
/* The frame, with number 0, malloc'd, with one more byte of room for flux_msg_take_raw().  The
 * writer keeps its content; submit_writer_clear() drops the jobs and keeps the environments.  NULL
 * with ENOMEM, or EINVAL when there is no job. */
void *submit_writer_frame(submit_writer_t *w, size_t *len);
void submit_writer_clear(submit_writer_t *w);

#endif

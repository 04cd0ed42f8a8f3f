/* How the tasks of this rank ended, for whoever asks: wrexec.end (libexec/wrexec_wire.h).
 *
 * Thread rules: those of the module.
 */
#ifndef WREXEC_ENDS_H
#define WREXEC_ENDS_H

#include "libexec/exec_wire.h"
#include "libflux/handover.h"
#include "libflux/msg.h"

typedef struct ends ends_t;
struct ctx;
struct subjob;

ends_t *ends_create(struct ctx *ctx); /* NULL with ENOMEM */
void ends_destroy(ends_t *e);         /* NULL-safe; the jobs were freed before */

/* Handle a request wrexec.end. */
void ends_request(ends_t *e, const flux_msg_t *req);
/* Drop the requests of the sender of `msg`, or the one that it has canceled (matchtag not 0). */
void ends_gone(ends_t *e, const flux_msg_t *msg, uint32_t matchtag);
/* Handle a frame END from the launcher. */
void ends_frame(struct subjob *j, const struct wire_frame *f);
/* The tasks lo..hi of the job, which have run here, ended with this status; nothing of the job is
 * left here. */
void ends_past(struct subjob *j, int status, uint32_t lo, uint32_t hi);
/* Answer the requests about a job that is freed before its tasks have ended. */
void ends_job_free(struct subjob *j);

/* For a reload: the requests that wait for tasks of a job; and the ends that are remembered. */
void ends_job_save(const struct subjob *j, flux_handover_t *o);
void ends_job_load(struct subjob *j, flux_handover_t *o);
void ends_save(const ends_t *e, flux_handover_t *o);
void ends_load(ends_t *e, flux_handover_t *o);

#endif

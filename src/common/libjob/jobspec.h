/* Jobspec, for services: a strict parser from text of unknown origin to a jobspec_t.  A member that
 * is unknown, missing, doubled, of a wrong type or out of range is refused with an error message
 * that begins with its path ("attributes.system.duration: must be a number >= 0").
 *
 * A jobspec_t costs some kilobytes and about ten microseconds.  A service with many jobs therefore
 * keeps their text, copies the parts of the rreq that it uses often, and parses the text again when
 * it needs more.
 *
 * Thread rules: functions use nothing but their arguments; a jobspec_t does not change after its
 * creation.
 */
#ifndef JOB_JOBSPEC_H
#define JOB_JOBSPEC_H

#include "jobspec_build.h"

struct rreq; /* libresource/rreq.h */

typedef struct jobspec jobspec_t;

/* Parse and check.  NULL with EINVAL (refused), EMSGSIZE (longer than JOBSPEC_MAX) or ENOMEM, and
 * an error message in `err`, which may be NULL. */
jobspec_t *jobspec_parse(const char *text, size_t len, errmsg_t *err);
void jobspec_destroy(jobspec_t *js); /* NULL-safe, keeps errno */

/* The results of the accessors are borrowed and valid as long as the jobspec. */
const struct rreq *jobspec_rreq(const jobspec_t *js);
/* Arguments of the first program, at least one, NULL after the last.  `argc` may be NULL. */
const char *const *jobspec_command(const jobspec_t *js, size_t *argc);
/* All programs of the job, at least one, each with its number of tasks. */
const struct jobspec_program *jobspec_programs(const jobspec_t *js, size_t *n);
/* Slots and tasks of the whole job, both at least 1.  per_slot: tasks in each slot, or 0 when the
 * jobspec gives a total ("count":{"total":n}), which is spread over slots according to the
 * layout. */
uint32_t jobspec_nslots(const jobspec_t *js);
/* The minimum number of slots, when it is a range ("count":{"min":1,"max":n}): on each node or,
 * without nodes, of the whole job; jobspec_nslots() and the rreq then have the maximum.  0: it is
 * not a range.
 */
uint32_t jobspec_min_slots(const jobspec_t *js);
uint32_t jobspec_ntasks(const jobspec_t *js);
uint32_t jobspec_per_slot(const jobspec_t *js);
double jobspec_begin(const jobspec_t *js);      /* seconds since 1970; 0: at once */
const char *jobspec_cwd(const jobspec_t *js);   /* NULL: not given */
const char *jobspec_name(const jobspec_t *js);  /* job.name, else the command without its path */
const char *jobspec_hosts(const jobspec_t *js); /* host list it may run on; NULL: any */
const json_t *
jobspec_env(const jobspec_t *js); /* object: NAME to text, or null to unset; or NULL */
const json_t *jobspec_files(const jobspec_t *js); /* object: NAME to text; or NULL */
const struct jobspec_dep *jobspec_dependencies(const jobspec_t *js, size_t *n);
const struct joboptions *jobspec_options(const jobspec_t *js);

#endif

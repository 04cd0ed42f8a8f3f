/* How the tasks of a job ended: wait statuses, each with the set of tasks that have it.
 *
 * Results of different nodes merge without loss, and take little room when most tasks end alike, so
 * that one message a subtree can carry them.  Not thread-safe.
 */
#ifndef WREXEC_RESULT_H
#define WREXEC_RESULT_H

#include <jansson.h>
#include <stdint.h>

#include "libutil/errmsg.h"

struct result;

struct result *result_create(void);    /* NULL with ENOMEM */
void result_destroy(struct result *r); /* NULL-safe, keeps errno */

/* Tasks lo..hi ended with a wait(2) status.  -1 with ENOMEM. */
int result_add(struct result *r, int status, uint32_t lo, uint32_t hi);
/* Add what result_to_json() made elsewhere.  -1 with EPROTO and a sentence, or ENOMEM. */
int result_merge(struct result *r, const json_t *status, errmsg_t *err);
/* [[status, "tasks"], ...], by status; a new reference.  NULL with ENOMEM. */
json_t *result_to_json(const struct result *r);
/* The greatest exit code among them (128 + signal), 0 without tasks. */
int result_worst(const struct result *r);

#endif

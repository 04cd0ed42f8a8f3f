/* How the tasks of a job ended: the wait statuses, each with the set of tasks that ended so; when
 * the last task was started; and when the last task was reaped.
 *
 * Results of different nodes merge without loss, and are small when most tasks end alike, so one
 * message per subtree can carry them.  Not thread-safe.
 */
#ifndef EXEC_RESULT_H
#define EXEC_RESULT_H

#include <jansson.h>
#include <stdint.h>

#include "libutil/errmsg.h"
#include "exec_wire.h"

struct result;

struct result *exec_result_create(void);    /* NULL with ENOMEM */
void exec_result_destroy(struct result *r); /* NULL-safe, keeps errno */

/* Tasks lo..hi ended with a wait(2) status.  -1 with ENOMEM. */
int exec_result_add(struct result *r, int status, uint32_t lo, uint32_t hi);
/* Add the times of some of the tasks: the result has the latest of all times. */
void exec_result_add_times(struct result *r, const struct wire_times *t);
struct wire_times exec_result_times(const struct result *r);
/* [[status, "tasks"], ...], by status; a new reference.  NULL with ENOMEM. */
json_t *exec_result_to_json(const struct result *r);
/* The whole result as bytes, for messages between instances: times (struct wire_times), then for
 * each status i32, u32 length, set as text without NUL, all numbers little-endian.
 * exec_result_pack() returns malloc'd bytes, or NULL with ENOMEM.  exec_result_unpack() adds such
 * bytes to a result: -1 with EPROTO and an error message, or ENOMEM. */
void *exec_result_pack(const struct result *r, size_t *len);
int exec_result_unpack(struct result *r, const void *data, size_t len, errmsg_t *err);
/* The greatest exit code of all tasks (128 + signal), or 0 if there are none. */
int exec_result_worst(const struct result *r);

#endif

/* Where a session is that is a job: what its rank 0 tells the parent (job.memo).
 *
 *    flux://HOST/PATH?rank=R
 *
 * PATH is the socket of its rank 0, on HOST, where the parent's rank R is, too.
 *
 * Also a path through levels of sessions: "3", "3/1/2", job ids from the outside in.
 *
 * Thread rules: functions use nothing but their arguments.
 */
#ifndef CMD_NESTURI_H
#define CMD_NESTURI_H

#include <stddef.h>
#include <stdint.h>

#include "libutil/errmsg.h"

#define NESTURI_HOST_MAX 256
#define NESTURI_PATH_MAX 108 /* sun_path */

struct nesturi {
    char host[NESTURI_HOST_MAX];
    char path[NESTURI_PATH_MAX]; /* absolute */
    uint32_t rank;
};

/* -1 with EINVAL and an error message. */
int nesturi_parse(const char *text, struct nesturi *u, errmsg_t *err);

/* Ids of a path through levels, at most `max`; their number.  -1 with EINVAL and an error
 * message. */
#define NESTURI_LEVELS_MAX 64
int nesturi_path(const char *text, uint64_t *ids, size_t max, errmsg_t *err);

#endif

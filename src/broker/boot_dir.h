/* Directories for the sockets of a session: RUNDIR, and RUNDIR/RANK for each broker on this host.
 * Thread-safe.
 */
#ifndef BROKER_BOOT_DIR_H
#define BROKER_BOOT_DIR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "libutil/errmsg.h"

#define BOOT_PATH_MAX 108 /* sun_path */

/* Make sure that RUNDIR exists: `path` if it is not NULL (created if absent), else a new directory,
 * in FLUX_JOB_TMPDIR within a job, and otherwise where dir_create_runtime() creates it.  Writes the
 * name to `buf` of BOOT_PATH_MAX bytes, and to *made whether it was created.  -1 with EINVAL (path
 * not absolute, or too long for the sockets in it), EPERM (others can write to it), ENOTDIR or an
 * error of mkdir(2), and an error message. */
int boot_dir_session(const char *path, char *buf, bool *made, errmsg_t *err);

/* Create RUNDIR/RANK, or take over the directory of a dead broker, and lock it.  Writes the name to
 * `buf` as above.  Returns a descriptor that holds the lock; the caller closes it.  -1 with
 * EADDRINUSE (a living broker, or one of another host, has it), ENOTEMPTY (it contains files that
 * no broker created), or as above. */
int boot_dir_rank(const char *rundir, uint32_t rank, char *buf, errmsg_t *err);

/* Remove RUNDIR/RANK, unless a living broker uses it or no broker created it. */
void boot_dir_remove_rank(const char *rundir, uint32_t rank);

#endif

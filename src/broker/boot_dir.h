/* Directories for the sockets of a session: RUNDIR, and RUNDIR/RANK for each broker on this host.
 * Thread-safe. */
#ifndef BROKER_BOOT_DIR_H
#define BROKER_BOOT_DIR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "libutil/errmsg.h"

#define BOOT_PATH_MAX 108 /* sun_path */

/* Make sure of RUNDIR: `path` when it is not NULL (made when it is not there), else a fresh one.
 * A fresh one is made in FLUX_JOB_TMPDIR in a job, else where dir_create_runtime() does it.
 * Writes the name to `buf` of BOOT_PATH_MAX bytes and to *made whether it was made.  -1 with EINVAL
 * (path not absolute, or too long for the sockets in it), EPERM (others could change what is in
 * it), ENOTDIR or an error of mkdir(2), and a sentence. */
int boot_dir_session(const char *path, char *buf, bool *made, errmsg_t *err);

/* Make RUNDIR/RANK, or take over what a dead broker left, and lock it.  Writes the name to `buf` as
 * above.  The lock: a descriptor, to be closed at the end.  -1 with EADDRINUSE (a living broker, or
 * one of another host, has it), ENOTEMPTY (no broker made what is in it), or as above. */
int boot_dir_rank(const char *rundir, uint32_t rank, char *buf, errmsg_t *err);

/* Remove RUNDIR/RANK, unless a living broker has it or it is not a broker's. */
void boot_dir_remove_rank(const char *rundir, uint32_t rank);

#endif

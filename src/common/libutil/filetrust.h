/* Can users other than the effective user and root change what a path leads to?
 *
 * Check this before using, running or loading a file: configuration, policies, hooks, certificates,
 * shared objects, directories with state.  Thread-safe.
 */
#ifndef UTIL_FILETRUST_H
#define UTIL_FILETRUST_H

#include <stdbool.h>

#include "libutil/errmsg.h"

/* Do only the effective user and root control `path`?  The file itself, every directory above it,
 * every symbolic link on the way and every directory above those must
 *   - belong to the effective user or to root, and
 *   - deny writing to all others.  A directory with the sticky bit that is only passed through may
 *     let others write (/tmp); the owner's private group, which has no other members, may write to
 *     anything.
 * Users who can replace the calling program are trusted too, since that gives them the same power.
 *
 * Other users cannot exchange a path that exists and that is trusted here, so it may be opened
 * by name.
 *
 * True, or false with an error message in `err` (which may be NULL) that begins with the path and
 * names the offending file or directory, and errno: EPERM, or the error that prevented the check
 * (ENOENT, EACCES, ELOOP, ...). */
bool file_is_trusted(const char *path, errmsg_t *err);

#endif

/* Can anybody but us (and root) change what a path leads to?
 *
 * Ask before a file is believed, run or loaded: configuration, policies, hooks, certificates, shared
 * objects, directories with state.  Thread-safe.
 */
#ifndef UTIL_FILETRUST_H
#define UTIL_FILETRUST_H

#include <stdbool.h>

#include "libutil/errmsg.h"

/* Is `path` under the control of the effective user and of root alone?  The file itself, every
 * directory above it, every symbolic link on the way and every directory above those have to
 *   - belong to the effective user or to root, and
 *   - deny writing to everybody else.  A directory with the sticky bit may let others write when it
 *     is only passed through (/tmp); the owner's private group, of which nobody else is a member,
 *     may write to anything.
 * Whoever can replace the program that asks is trusted too, since that gives him the same power.
 *
 * A path that exists and that the function trusted cannot be exchanged by somebody else afterwards, so
 * it may be opened by name.
 *
 * true, or false with one sentence in `err` (which may be NULL) that begins with the path and names
 * the offending file or directory, and errno: EPERM, or what kept the function from looking (ENOENT, EACCES, ELOOP, ...). */
bool file_is_trusted(const char *path, errmsg_t *err);

#endif

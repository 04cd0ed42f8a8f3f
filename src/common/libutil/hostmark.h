/* Which start of which host is this?  For names of files that only a process of the same host, since it
 * was last started, may take for stale: on a shared file system others' look the same.  Thread-safe. */
#ifndef UTIL_HOSTMARK_H
#define UTIL_HOSTMARK_H

#define HOSTMARK_SIZE 9 /* eight hex digits and a NUL */

/* Write the mark: of the kernel's boot id, or, where there is none, of the host's name. */
void hostmark_get(char mark[HOSTMARK_SIZE]);

#endif

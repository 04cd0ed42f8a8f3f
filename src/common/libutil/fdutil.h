/* File descriptors, files and directories: the loops that everybody writes, once.  Thread-safe. */
#ifndef UTIL_FDUTIL_H
#define UTIL_FDUTIL_H

#include <stddef.h>
#include <sys/types.h>

#include "libutil/errmsg.h"

/* Read to the end of file.  *data receives a block that the caller frees, with a NUL after the
 * `*len` bytes.  A non-blocking descriptor is waited for.  0, or -1 with EFBIG (more than `max`
 * bytes), ENOMEM or an error of read(2). */
int fd_read_all(int fd, size_t max, char **data, size_t *len);

/* Write all of it; a non-blocking descriptor is waited for.  0, or -1 with an error of write(2). */
int fd_write_all(int fd, const void *data, size_t len);

/* Flags of a descriptor.  0, or -1 with an error of fcntl(2). */
int fd_set_cloexec(int fd, int on);
int fd_set_nonblock(int fd, int on);

/* Is the process at the other end of a connected UNIX socket to be trusted: does it run as this
 * process's effective user, or as root?  Asks the kernel (SO_PEERCRED: for the connecting side, who
 * called listen(2)).  `what` names the other end in the sentence ("the process that listens at
 * PATH").  0, or -1 with EPERM or an error of getsockopt(2). */
int fd_check_peer(int fd, const char *what, errmsg_t *err);

/* Call first in main(): when descriptor 0, 1 or 2 is closed, put something in its place that can
 * neither be read nor written (EBADF, as before).  Else the first socket would get its number, and
 * what is meant for standard output would go there. */
void fd_reserve_standard(void);

/* fd_read_all() of a regular file or fifo by path. */
int file_read_all(const char *path, size_t max, char **data, size_t *len);

/* Create or replace a file so that a reader sees the old or the new content and never a part:
 * written beside it, then renamed.  0, or -1 with errno; the old file then is as it was. */
int file_write_atomic(const char *path, const void *data, size_t len, mode_t mode);

/* Make a fresh directory of mode 0700 called PREFIX-XXXXXX, for sockets: in $XDG_RUNTIME_DIR, else
 * $TMPDIR, else /tmp, the first that is a writable directory and leaves room for a socket name in
 * sun_path.  Returns the path, to be freed by the caller.  NULL with errno and a sentence in `err`,
 * which may be NULL. */
char *dir_create_runtime(const char *prefix, errmsg_t *err);

/* Make a directory and its missing parents (mode as given, parents 0755 before umask); no error
 * when it exists.  What was made is durable, in its parent too.  0, or -1 with an error of mkdir(2) or
 * fsync(2). */
int dir_create_parents(const char *path, mode_t mode);

/* Remove a file, or a directory and everything below it.  Symbolic links are removed, not followed;
 * other file systems mounted below are not entered (EBUSY).  A tree may have any depth.  Goes on
 * after an error and reports the first one.  0 (also when `path` does not exist), or -1. */
int dir_remove_tree(const char *path);

#endif

/* File descriptors, files and directories: the usual loops, written once.  Thread-safe. */
#ifndef UTIL_FDUTIL_H
#define UTIL_FDUTIL_H

#include <stddef.h>
#include <sys/types.h>

#include "libutil/errmsg.h"

/* Read to the end of the file.  *data receives a block that the caller frees, with a NUL after its
 * `*len` bytes.  Waits for a non-blocking descriptor.  0, or -1 with EFBIG (more than `max` bytes),
 * ENOMEM or an error of read(2). */
int fd_read_all(int fd, size_t max, char **data, size_t *len);

/* Write all bytes; waits for a non-blocking descriptor.  0, or -1 with an error of write(2). */
int fd_write_all(int fd, const void *data, size_t len);

/* Flags of a descriptor.  0, or -1 with an error of fcntl(2). */
int fd_set_cloexec(int fd, int on);
int fd_set_nonblock(int fd, int on);

/* Can the process at the other end of a connected UNIX socket be trusted, that is, does it run as
 * this process's effective user, or as root?  Asks the kernel (SO_PEERCRED, which on the connecting
 * side names the caller of listen(2)).  `what` names the other end in the message ("the process
 * that listens at PATH").  0, or -1 with EPERM or an error of getsockopt(2). */
int fd_check_peer(int fd, const char *what, errmsg_t *err);

/* Call this first in main().  If descriptor 0, 1 or 2 is closed, opens /dev/null
 * in its place, for the wrong direction, so that reading from 0, and writing to 1 or 2,
 * fails with EBADF, as before.  Otherwise the first socket would get its number, and standard
 * output would go there. */
void fd_reserve_standard(void);

/* fd_read_all() for the path of a regular file or FIFO. */
int file_read_all(const char *path, size_t max, char **data, size_t *len);

/* Create a directory with mode 0700 and name PREFIX-XXXXXX, for sockets: in $XDG_RUNTIME_DIR, else
 * $TMPDIR, else /tmp, the first that is a writable directory and leaves room for a socket name in
 * sun_path.  Returns the path, which the caller frees.  NULL with errno and an error message in
 * `err`, which may be NULL. */
char *dir_create_runtime(const char *prefix, errmsg_t *err);

/* Create a directory and its missing parents (mode as given; parents 0755 before umask), if they do
 * not exist, and sync it and all directories above it.  0, or -1 with an error of mkdir(2) or
 * fsync(2). */
int dir_create_parents(const char *path, mode_t mode);

/* Sync the directory in which a file is, after the file was created, linked or renamed: without
 * this, a loss of power may remove the name, or restore the preceding file of that name.  0 (also
 * on a file system that cannot sync directories), or -1 with ENOMEM or an error of fsync(2). */
int file_sync_dir(const char *path);

/* Remove a file, or a directory and everything below it, however deep.  Symbolic links are removed,
 * not followed; other file systems mounted below are not entered (EBUSY).  Continues after an error
 * and reports the first one.  0 (also if `path` does not exist), or -1. */
int dir_remove_tree(const char *path);

#endif

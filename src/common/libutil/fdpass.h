/* Descriptors that are passed over a UNIX socket together with some bytes (unix(7), SCM_RIGHTS).
 *
 * Thread rules: none; every function works only on its arguments.
 */
#ifndef UTIL_FDPASS_H
#define UTIL_FDPASS_H

#include <stddef.h>
#include <sys/types.h>

/* Send `len` bytes, at least one, with a duplicate of `pass`, without waiting.  Returns what
 * sendmsg(2) returns: the number of bytes, which may be smaller on a stream socket (the descriptor
 * was sent with them), or -1 with errno. */
ssize_t fdpass_send(int fd, const void *data, size_t len, int pass);

/* Receive up to `len` bytes.  *pass is the descriptor that came with them (close-on-exec, owned by
 * the caller), or -1.  A stream socket may return earlier bytes together with those that carry a
 * descriptor, but no later ones.  Of several that came with them, the first is received, and the
 * kernel drops the others.  `flags` and result are those of recvmsg(2): the number of bytes,
 * 0 at the end, or -1 with errno; EMFILE if the descriptor was lost because this process may open
 * no more. */
ssize_t fdpass_recv(int fd, void *data, size_t len, int *pass, int flags);

/* The same for bytes that are of use without the descriptor: one that was lost is -1. */
ssize_t fdpass_recv_any(int fd, void *data, size_t len, int *pass, int flags);

#endif

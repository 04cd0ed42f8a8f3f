/* A connection between hosts as two streams of bytes, which may be encrypted.
 *
 *    far_link_t *l = far_link_create(fd);               a non-blocking socket
 *    far_link_secure(l, send_key, receive_key);         from here on
 *    n = far_link_send(l, iov, count);                  as sendmsg(2)
 *    n = far_link_recv(l, buf, len);                    as recv(2)
 *
 * Thread rules: one thread at a time.
 */
#ifndef STREAM_FAR_LINK_H
#define STREAM_FAR_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#define FAR_RECORD_MAX 65536 /* bytes of data in an encrypted record */

typedef struct far_link far_link_t;

/* Takes over the descriptor, which is closed with the link.  NULL with ENOMEM: the descriptor is
 * still open. */
far_link_t *far_link_create(int fd);
void far_link_destroy(far_link_t *l); /* NULL-safe, keeps errno */
int far_link_fd(const far_link_t *l);
/* Encrypt all data that are sent and received from now on.  0, or -1 with ENOMEM or ENOSYS. */
int far_link_secure(far_link_t *l, const unsigned char *send_key, const unsigned char *recv_key);

/* Send as much as possible without waiting.  Returns the number of accepted bytes, above 0; or -1
 * with EAGAIN (wait for POLLOUT) or an error of sendmsg(2). */
ssize_t far_link_send(far_link_t *l, const struct iovec *iov, size_t count);
/* The same for data that can wait until more are sent.  If nothing is, the kernel sends them after
 * a fraction of a second; far_link_push() sends them at once. */
ssize_t far_link_send_later(far_link_t *l, const struct iovec *iov, size_t count);
void far_link_push(far_link_t *l);
/* waits(): do accepted bytes wait to be sent?  flush(): send them: 0, or -1 as above. */
bool far_link_waits(const far_link_t *l);
int far_link_flush(far_link_t *l);
/* Number of bytes; 0 at the end of the connection; -1 with EAGAIN, EBADMSG (the received bytes were
 * not encrypted with this key) or an error of recv(2).  Receive until EAGAIN before poll(2),
 * because poll does not see bytes that were already decrypted. */
ssize_t far_link_recv(far_link_t *l, void *buf, size_t len);

uint64_t far_link_sent(const far_link_t *l); /* bytes that were passed to the kernel */

#endif

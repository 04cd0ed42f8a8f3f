/* One TCP connection between two hosts for all streams between them.
 *
 * On each host runs a relay (share_relay_run(), `flux stream relay`), which the first process that
 * needs it starts.  A writer registers with the relay of its host, and publishes where that is; a
 * reader of another host asks its own relay to connect it to the writer.  What the reader gets is a
 * stream of bytes, over which reader and writer say what they say by TCP: relays carry it, and know
 * nothing of it.
 *
 * Thread rules: a relay is for one thread; the other functions may be called by any thread.
 */
#ifndef STREAM_SHARE_H
#define STREAM_SHARE_H

#include <stdbool.h>

#include "libstream/far_addr.h"

#define SHARE_PREFIX "share://"
#define SHARE_KEY_LEN 16

/* The address of this host, for a relay that has to be started: one of the two, or neither, as for
 * far_addr_listen(). */
struct share_place {
    char address[64];
    char interface[64];
};

/* As what a relay is known to the processes that use it: a relay that takes the place of another
 * one takes over its address and key from the first process that comes. */
struct share_id {
    unsigned char key[SHARE_KEY_LEN];
    char address[FAR_ADDR_MAX]; /* "": not known */
};

/* Writer: register with the relay of this host, which is started if there is none.  `text` is the
 * address for readers of other hosts; if it is not "" before, the writer has had this address at a
 * relay that has ended, and keeps it if possible.  Returns a descriptor, which stays open as long
 * as readers may come; each of them is a descriptor that comes over it (fdpass_recv()).  -1 with an
 * error message and ENOENT (no relay can be started), EPERM (that of another user), ETIMEDOUT or
 * another errno. */
int share_register(const struct share_place *place, char text[FAR_ADDR_MAX], errmsg_t *err);
/* Reader: connect to a writer at such an address.  `own`: the relay of this host, as it was known
 * before, or zeros; it is set.  Returns a non-blocking descriptor, which ends when the writer, or a
 * relay, does.  -1 with the errors of share_register(), or EINVAL. */
int share_connect(const struct share_place *place, const char *text, struct share_id *own,
                  errmsg_t *err);

typedef struct share_relay share_relay_t;

/* Be the relay of this host, in this network namespace and for this user.  `address`, `interface`:
 * as for far_addr_listen().  NULL with an error message and EADDRINUSE (there is one) or another
 * errno. */
share_relay_t *share_relay_create(const char *address, const char *interface, errmsg_t *err);
void share_relay_destroy(share_relay_t *r); /* NULL-safe, keeps errno */
/* Until `stop_fd` is readable, or no process of this host has used the relay for `idle` seconds (0:
 * any time). */
void share_relay_run(share_relay_t *r, int stop_fd, double idle);

#endif

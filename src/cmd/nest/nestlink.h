/* The way into a session that is a job: directly to its socket where that is on this host, else by
 * a relay through its parent (relay.h).
 *
 * Thread rules: for programs with one thread.
 */
#ifndef CMD_NESTLINK_H
#define CMD_NESTLINK_H

#include <stdbool.h>

#include "libflux/handle.h"
#include "libjob/job.h"

typedef struct nestlink nestlink_t;

/* `parent_uri`: a broker of the parent session, "local://...".  `address`: where the session is
 * (nesturi.h).  `relay`: not directly, for tests.  `r`: reactor for the handle, NULL for one of its
 * own.  NULL with errno and an error message. */
nestlink_t *nestlink_open(const char *parent_uri, const char *address, bool relay,
                          flux_reactor_t *r, errmsg_t *err);
void nestlink_close(nestlink_t *l); /* NULL-safe, keeps errno */
flux_t *nestlink_handle(const nestlink_t *l);
/* "local://..." of a socket that leads there; valid until it is closed. */
const char *nestlink_uri(const nestlink_t *l);
bool nestlink_relayed(const nestlink_t *l);

/* Ask session `h` where its job `id` is: the address, to be freed.  NULL with errno and an error
 * message: ENOENT (no such job), EAGAIN (has not started, or has not said it yet), ESRCH (has
 * ended), or an error of the request. */
char *nestlink_find(flux_t *h, uint64_t id, errmsg_t *err);

/* A chain of sessions, from the outside in: `ids` as of nesturi_path().  Each is looked up in the
 * one before; the first in the session of FLUX_URI. */
struct nestchain {
    nestlink_t **links;
    size_t n;
};
/* `wait`: seconds to wait for each session to be there (0: not at all; < 0: for ever).  -1 with
 * errno and an error message; nothing is open then. */
int nestchain_open(struct nestchain *ch, flux_t *h, const uint64_t *ids, size_t n, bool relay,
                   double wait, errmsg_t *err);
void nestchain_close(struct nestchain *ch);

#endif

/* km_tombstone.h - aborted fences: the calls that arrive late for them, and the clients that know
 * of their end.
 *
 * Thread rules: those of the handle.
 */
#ifndef KM_TOMBSTONE_H
#define KM_TOMBSTONE_H

#include "km_ns.h"

struct km_tombstones;

struct km_tombstones *km_tombstone_create(void);                       /* NULL with ENOMEM */
void km_tombstone_destroy(struct km_ns *ns, struct km_tombstones *ts); /* NULL-safe */

/* Master: a fence of this generation was aborted when `left` calls had not come. */
void km_tombstone_add(struct km_ns *ns, const char *name, uint32_t nprocs, uint32_t left,
                      uint32_t generation, const char *why);
/* Master: is this call (or are these calls) late for it?  `after` is the last generation that the
 * callers know to be over, 0: none.  NULL when not; else the reason, which lives until the next
 * call of any of these functions, and *generation. */
const char *km_tombstone_refuse(struct km_ns *ns, const char *name, uint32_t nprocs, uint32_t count,
                                uint32_t after, uint32_t *generation);
/* Master: this many of the calls that had not come will not: they were notified elsewhere. */
void km_tombstone_discount(struct km_ns *ns, const char *name, uint32_t nprocs, uint32_t count);
/* Master: a later fence of that name was complete: nobody is late any more. */
void km_tombstone_remove(struct km_ns *ns, const char *name);

/* The client that sent `req` was notified that this generation is over. */
void km_tombstone_note_known(struct km_ns *ns, const char *name, const flux_msg_t *req,
                             uint32_t generation);
/* The generation of which the client that sends `req` was notified, once: 0 for nothing. */
uint32_t km_tombstone_take_known(struct km_ns *ns, const char *name, const flux_msg_t *req);

#endif

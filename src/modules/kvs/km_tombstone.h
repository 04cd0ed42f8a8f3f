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

/* Master: a fence of this generation was aborted when `left` of its calls had not arrived. */
void km_tombstone_add(struct km_ns *ns, const char *name, uint32_t nprocs, uint32_t left,
                      uint32_t generation, const char *why);
/* Master: are these `count` calls late for an aborted fence?  `after`: the last generation whose
 * end the callers know, or 0.  NULL: they are not late.  Else the reason for the abort, which is
 * valid until the next call of any of these functions, and *generation. */
const char *km_tombstone_refuse(struct km_ns *ns, const char *name, uint32_t nprocs, uint32_t count,
                                uint32_t after, uint32_t *generation);
/* Master: this many of the missing calls will not arrive: their clients were notified elsewhere. */
void km_tombstone_discount(struct km_ns *ns, const char *name, uint32_t nprocs, uint32_t count);
/* Master: a later fence of that name is complete: no call is late any more. */
void km_tombstone_remove(struct km_ns *ns, const char *name);

/* The client that sent `req` was notified of the end of this generation. */
void km_tombstone_note_known(struct km_ns *ns, const char *name, const flux_msg_t *req,
                             uint32_t generation);
/* Take the notice of the client that sent `req`: its generation, or 0 if there is no notice. */
uint32_t km_tombstone_take_known(struct km_ns *ns, const char *name, const flux_msg_t *req);

#endif

/* The state that one instance of a module leaves to the next when it is reloaded: a sequence of
 * numbers, bytes, strings, descriptors and messages, in a form that the module defines.
 *
 * The old instance puts items, and the new one gets them in the same order, specifying the kind of
 * each.  The first error stays: later puts and gets have no effect (a get returns 0, no bytes, -1
 * or NULL), so only flux_handover_end() must be checked.  put_fd duplicates descriptors, so each
 * side closes its own; those that were not taken are closed with the handover.
 *
 * Thread rules: one thread at a time.
 */
#ifndef FLUX_HANDOVER_H
#define FLUX_HANDOVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "libutil/errmsg.h"
#include "msg.h"

typedef struct flux_handover flux_handover_t;

/* The limits for bytes, descriptors and messages of one handover. */
#define FLUX_HANDOVER_MAX (512u << 20)
#define FLUX_HANDOVER_FDS_MAX 64
#define FLUX_HANDOVER_MSGS_MAX (1u << 20)

flux_handover_t *flux_handover_create(void);    /* NULL with ENOMEM */
void flux_handover_destroy(flux_handover_t *o); /* NULL-safe, keeps errno */

/* --- for the old instance --- */

/* A mark at the beginning of a part, which shows at once if the two sides disagree. */
void flux_handover_put_mark(flux_handover_t *o, const char *name);
void flux_handover_put(flux_handover_t *o, uint64_t value);
void flux_handover_put_data(flux_handover_t *o, const void *data, size_t len);
void flux_handover_put_str(flux_handover_t *o, const char *s); /* NULL: none */
void flux_handover_put_fd(flux_handover_t *o, int fd);         /* -1: none */
/* NULL: none.  A reference is kept, so the message must not change any more. */
void flux_handover_put_msg(flux_handover_t *o, const flux_msg_t *msg);

/* --- for the new instance --- */

void flux_handover_get_mark(flux_handover_t *o, const char *name);
/* A number above `max` is an error. */
uint64_t flux_handover_get(flux_handover_t *o, uint64_t max);
/* Pointers are valid as long as the handover. */
const void *flux_handover_get_data(flux_handover_t *o, size_t *len);
const char *flux_handover_get_str(flux_handover_t *o);
int flux_handover_get_fd(flux_handover_t *o);          /* the caller closes it */
flux_msg_t *flux_handover_get_msg(flux_handover_t *o); /* the caller destroys it */

/* --- for both --- */

/* Record another error. */
void flux_handover_fail(flux_handover_t *o, int errnum);
bool flux_handover_ok(const flux_handover_t *o);
/* Was everything valid, and (new instance) was everything taken?  0, or -1 with errno (EPROTO,
 * EFBIG, ENOMEM, or that of dup(2)) and an error message. */
int flux_handover_end(const flux_handover_t *o, errmsg_t *err);

#endif

/* What an instance of a module leaves to the one that takes its place when it is reloaded: a sequence
 * of numbers, bytes, strings, descriptors and messages, in a form of the module's own.
 *
 * The old instance puts them, the new one gets them in the same order; each is checked to be what is
 * asked for.  The first thing that goes wrong stays: puts and gets after it have no effect (a get gives
 * 0, no bytes, -1, NULL), so that only the end needs a look.  Descriptors are duplicated by put_fd, so
 * that each side closes its own; those that nobody got are closed with the handover.
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

/* Most bytes, descriptors and messages that one may hold. */
#define FLUX_HANDOVER_MAX (512u << 20)
#define FLUX_HANDOVER_FDS_MAX 64
#define FLUX_HANDOVER_MSGS_MAX (1u << 20)

flux_handover_t *flux_handover_create(void);    /* NULL with ENOMEM */
void flux_handover_destroy(flux_handover_t *o); /* NULL-safe, keeps errno */

/* --- for the old instance --- */

/* The beginning of a part, to find out at once when the two do not agree. */
void flux_handover_put_mark(flux_handover_t *o, const char *name);
void flux_handover_put(flux_handover_t *o, uint64_t value);
void flux_handover_put_data(flux_handover_t *o, const void *data, size_t len);
void flux_handover_put_str(flux_handover_t *o, const char *s); /* NULL: none */
void flux_handover_put_fd(flux_handover_t *o, int fd);         /* -1: none */
/* NULL: none.  Its reference is kept: the message must not change any more. */
void flux_handover_put_msg(flux_handover_t *o, const flux_msg_t *msg);

/* --- for the new instance --- */

void flux_handover_get_mark(flux_handover_t *o, const char *name);
/* Above `max` it is wrong. */
uint64_t flux_handover_get(flux_handover_t *o, uint64_t max);
/* Pointers live as long as the handover. */
const void *flux_handover_get_data(flux_handover_t *o, size_t *len);
const char *flux_handover_get_str(flux_handover_t *o);
int flux_handover_get_fd(flux_handover_t *o);          /* the caller's to close */
flux_msg_t *flux_handover_get_msg(flux_handover_t *o); /* the caller's to destroy */

/* --- for both --- */

/* Something else went wrong. */
void flux_handover_fail(flux_handover_t *o, int errnum);
bool flux_handover_ok(const flux_handover_t *o);
/* Is all as it has to be, and (new instance) was everything got?  0, or -1 with errno (EPROTO, EFBIG,
 * ENOMEM, or that of dup(2)) and a sentence. */
int flux_handover_end(const flux_handover_t *o, errmsg_t *err);

#endif

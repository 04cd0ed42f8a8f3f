/* Frames that an instance has for rank 0, kept until rank 0 has acknowledged them, so that they can
 * be sent again after the loss of a broker between.
 *
 *    retain_add(r, WIRE_OUTPUT, data, len);          gets the next number
 *    while (retain_next(r, &f)) { send f; retain_sent(r); }
 *    retain_ack(r, number);                          rank 0 has all up to this one
 *    retain_rewind(r);                               they may have been lost: retain_next() begins
 *                                                    with the first that is not acknowledged
 *
 * Not thread-safe.
 */
#ifndef WREXEC_RETAIN_H
#define WREXEC_RETAIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "libflux/handover.h"
#include "libexec/exec_wire.h"

typedef struct retain retain_t;

struct retained {
    uint64_t number; /* from 1 */
    enum wire_type type;
    size_t len;
    const uint8_t *data; /* valid until the next change */
};

retain_t *retain_create(void);    /* NULL with ENOMEM */
void retain_destroy(retain_t *r); /* NULL-safe, keeps errno */
/* Copy a payload.  -1 with ENOMEM; then it has no number. */
int retain_add(retain_t *r, enum wire_type type, const void *data, size_t len);
/* The next frame to send; false: there is none. */
bool retain_next(const retain_t *r, struct retained *f);
void retain_sent(retain_t *r);
void retain_rewind(retain_t *r);
/* Drop the frames up to this number.  Returns the bytes of their payloads. */
size_t retain_ack(retain_t *r, uint64_t number);
/* Bytes that are kept. */
size_t retain_bytes(const retain_t *r);

/* For a reload; retain_load() fills an empty one. */
void retain_save(const retain_t *r, flux_handover_t *o);
void retain_load(retain_t *r, flux_handover_t *o);

#endif

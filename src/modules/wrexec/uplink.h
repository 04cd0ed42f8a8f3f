/* The streams on which an instance is a child: its parents are the instances that have sent it a
 * request "wrexec.tree".  As a rule there is one; after a broker between was lost, or has come
 * back, there may be several, each with jobs of its own.
 *
 * A parent sends frames in requests "wrexec.down", which are answered when they have been handled;
 * frames to it go in the responses to its request "wrexec.tree", in batches.
 */
#ifndef WREXEC_UPLINK_H
#define WREXEC_UPLINK_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#include "libflux/module.h"
#include "libexec/exec_wire.h"

typedef struct uplinks uplinks_t;
typedef struct uplink uplink_t;

struct uplink_callbacks {
    /* Handle a frame from a parent. */
    void (*frame)(void *arg, uplink_t *u, const struct wire_frame *f);
    /* The stream has ended, and `u` is freed afterwards, or used for the next stream of the same
     * parent.  `on_purpose`: the parent has ended it, or there is no memory for what it has to be
     * told; otherwise the way to it is lost, and another instance may follow. */
    void (*lost)(void *arg, uplink_t *u, bool on_purpose);
};

uplinks_t *uplinks_create(flux_t *h, const struct uplink_callbacks *cbs, void *arg); /* or ENOMEM */
void uplinks_destroy(uplinks_t *us); /* NULL-safe, keeps errno */
/* When jobs can be launched: handle the requests of parents that have waited for that. */
void uplinks_ready(uplinks_t *us);

/* Handlers of "wrexec.tree" and "wrexec.down". */
void uplinks_tree(uplinks_t *us, const flux_msg_t *req);
void uplinks_down(uplinks_t *us, const flux_msg_t *msg);
/* Handle a client that has disconnected (matchtag 0) or has canceled one of its requests. */
void uplinks_gone(uplinks_t *us, const char *sender, uint32_t matchtag);

/* Queue a frame for a parent; NULL: it is lost.  The pieces are copied. */
void uplink_send(uplink_t *u, enum wire_type type, uint64_t job, const struct iovec *iov, int n);

/* For a reload: send what waits for the end of the pass, and save the state.  The next instance
 * finds a parent by its number. */
void uplinks_flush(uplinks_t *us);
void uplinks_save(const uplinks_t *us, flux_handover_t *o);
void uplinks_load(uplinks_t *us, flux_handover_t *o);
uint32_t uplink_number(const uplink_t *u);                  /* from 1; 0 for NULL */
uplink_t *uplinks_numbered(uplinks_t *us, uint32_t number); /* NULL: none */

#endif

/* RPC: send a request, and get a future for its response or responses.
 *
 *    flux_future_t *f = flux_rpc(h, "kvs.version", json, FLUX_NODEID_ANY, 0);
 *    flux_future_then(f, 5., cb, arg);          in a reactor, or
 *    if (flux_future_wait(f, 5.) < 0) ...       in a plain program
 *    const char *json; flux_rpc_get_json(f, &json, &err);
 *    flux_future_destroy(f);
 *
 * A future is ready when a response is there or the time is up.  One RPC to many ranks is a future
 * that is ready once per rank (flux_mrpc).  A streaming RPC is ready for each response in turn:
 * after having looked at one, flux_future_next() moves to the following.  The stream ends with
 * ENODATA. Destroying a future forgets the answer; for a streaming request it tells the service so.
 *
 * A request in flight to a rank that goes away ends with EHOSTUNREACH and a sentence.
 *
 * Thread rules: those of the handle.
 */
#ifndef FLUX_FUTURE_H
#define FLUX_FUTURE_H

#include <jansson.h>
#include "handle.h"
#include "libschema/schema.h"

typedef struct flux_future flux_future_t;
typedef void (*flux_future_f)(flux_future_t *f, void *arg);

/* Send a request.  `flags`: FLUX_MSGF_*.  `json` may be NULL (no payload).  NULL with errno only
 * when memory is out or an argument is bad; a failed send makes a future that is ready with the
 * error. With FLUX_MSGF_NORESPONSE the future is ready at once, and need not be looked at. */
flux_future_t *flux_rpc(flux_t *h, const char *topic, const char *json, uint32_t nodeid,
                        unsigned flags);
flux_future_t *flux_rpc_raw(flux_t *h, const char *topic, const void *data, size_t len,
                            uint32_t nodeid, unsigned flags);
/* Payload made from struct `in` by its description (schema.h). */
flux_future_t *flux_rpc_struct(flux_t *h, const char *topic, const struct flux_schema *desc,
                               const void *in, uint32_t nodeid, unsigned flags);
/* Send a request message prepared by the caller (taken over); its match tag is set here. */
flux_future_t *flux_rpc_msg(flux_t *h, flux_msg_t *req);

/* A request may be sent by one instance of a module and its answer be awaited by the next (hand_over in
 * module.h), which names it by its match tag and says again what it was: topic, rank and flags.  Tag 0,
 * of a request whose answer is there, or that could not be sent: a future that is ready with EIO.  NULL
 * with ENOMEM, also when the tag is taken: resume before anything is sent. */
uint32_t flux_rpc_tag(const flux_future_t *f);
flux_future_t *flux_rpc_resume(flux_t *h, const char *topic, uint32_t nodeid, unsigned flags,
                               uint32_t tag);

/* The same request to each of `nranks` ranks (array copied): ready once for every rank, in the
 * order in which they answer; flux_future_next() moves to the following result and fails with
 * ENODATA after the last.  flux_mrpc_rank() is the rank of the result at hand.  At most 4096 are
 * outstanding at a time. */
flux_future_t *flux_mrpc(flux_t *h, const char *topic, const char *json, const uint32_t *ranks,
                         size_t nranks, unsigned flags);
uint32_t flux_mrpc_rank(const flux_future_t *f);

void flux_future_destroy(
    flux_future_t *f); /* NULL-safe, keeps errno; allowed in its own callback */

/* Call back (from the reactor) each time the future is ready.  `timeout` seconds without a response
 * make it ready with ETIMEDOUT (<= 0: wait for ever).  -1 with ENOMEM. */
int flux_future_then(flux_future_t *f, double timeout, flux_future_f cb, void *arg);

/* Wait until ready, handling other messages meanwhile.  0 when ready (look at the result for
 * success); -1 with ETIMEDOUT, EPIPE, or EDEADLK inside a module. */
int flux_future_wait(flux_future_t *f, double timeout);
bool flux_future_ready(const flux_future_t *f);
/* Forget the result at hand, so that the next one can come.  0; -1 with ENODATA when none will. */
int flux_future_next(flux_future_t *f);

flux_t *flux_future_handle(const flux_future_t *f); /* that it was made with */
/* Error of the result at hand: 0 for success, else errno; and its sentence (never NULL). */
int flux_future_errnum(const flux_future_t *f);
const char *flux_future_error(const flux_future_t *f);

/* The result at hand; these do not wait.  -1 with the service's errno and sentence in `err`, EAGAIN
 * when not ready, EPROTO when the payload is not what was asked for.  Pointers live until the next
 * flux_future_next() or destroy. */
int flux_rpc_get(flux_future_t *f, errmsg_t *err); /* success or not, payload ignored */
int flux_rpc_get_json(flux_future_t *f, const char **json, errmsg_t *err);
int flux_rpc_get_raw(flux_future_t *f, const void **data, size_t *len, errmsg_t *err);
/* Decode strictly into struct `out`; strings and json_t in it live as long as the result. */
int flux_rpc_get_struct(flux_future_t *f, const struct flux_schema *desc, void *out, errmsg_t *err);
const flux_msg_t *flux_rpc_get_msg(flux_future_t *f); /* the response itself, or NULL */

/* flux_future_wait() and flux_rpc_get_struct() in one go, with the errors of both; for commands.
 * `desc` NULL: success or not, the payload is ignored. */
int flux_rpc_wait_struct(flux_future_t *f, double timeout, const struct flux_schema *desc,
                         void *out, errmsg_t *err);

#endif

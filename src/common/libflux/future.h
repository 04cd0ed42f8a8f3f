/* RPC: send a request, and get a future for its response or responses.
 *
 *    flux_future_t *f = flux_rpc(h, "kvs.version", json, FLUX_NODEID_ANY, 0);
 *    flux_future_then(f, 5., cb, arg);          in a reactor, or
 *    if (flux_future_wait(f, 5.) < 0) ...       in a plain program
 *    const char *json; flux_rpc_get_json(f, &json, &err);
 *    flux_future_destroy(f);
 *
 * A future is ready when a response has come or the timeout is over.  An RPC to many ranks is a
 * future that becomes ready once per rank (flux_mrpc).  A streaming RPC becomes ready for each
 * response; flux_future_next() moves from one to the next.  The stream ends with ENODATA.
 * Destroying a future discards its response; for a streaming request it also cancels the stream at
 * the service.
 *
 * A request to a rank that is lost ends with EHOSTUNREACH and an error message.
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

/* Send a request.  `flags`: FLUX_MSGF_*.  `json` may be NULL (no payload).  Returns NULL with errno
 * only without memory or for a bad argument; a failed send returns a future that is ready with the
 * error.  With FLUX_MSGF_NORESPONSE the future is ready at once, and may be ignored. */
flux_future_t *flux_rpc(flux_t *h, const char *topic, const char *json, uint32_t nodeid,
                        unsigned flags);
flux_future_t *flux_rpc_raw(flux_t *h, const char *topic, const void *data, size_t len,
                            uint32_t nodeid, unsigned flags);
/* The payload is made from struct `in` by its schema (schema.h). */
flux_future_t *flux_rpc_struct(flux_t *h, const char *topic, const struct flux_schema *desc,
                               const void *in, uint32_t nodeid, unsigned flags);
/* Send a request message that the caller has prepared (taken over); its match tag is set here. */
flux_future_t *flux_rpc_msg(flux_t *h, flux_msg_t *req);

/* One instance of a module may send a request, and the next one wait for its response (hand_over in
 * module.h).  It names the request by its match tag, and repeats its topic, rank and flags.  Tag 0,
 * of a request that was answered or could not be sent, yields a future that is ready, with EIO.
 * NULL with ENOMEM, or if the tag is taken: resume before sending anything. */
uint32_t flux_rpc_tag(const flux_future_t *f);
flux_future_t *flux_rpc_resume(flux_t *h, const char *topic, uint32_t nodeid, unsigned flags,
                               uint32_t tag);

/* Send the same request to each of `nranks` ranks (array copied).  The future is ready once
 * for every rank, in the order in which they answer.  flux_future_next() moves to the next result,
 * and fails with ENODATA after the last.  flux_mrpc_rank() is the rank of the current result.  At
 * most 4096 requests are outstanding at a time. */
flux_future_t *flux_mrpc(flux_t *h, const char *topic, const char *json, const uint32_t *ranks,
                         size_t nranks, unsigned flags);
uint32_t flux_mrpc_rank(const flux_future_t *f);

void flux_future_destroy(
    flux_future_t *f); /* NULL-safe, keeps errno; allowed in its own callback */

/* Call back (from the reactor) each time the future is ready.  After `timeout` seconds without a
 * response it is ready with ETIMEDOUT (<= 0: never).  -1 with ENOMEM. */
int flux_future_then(flux_future_t *f, double timeout, flux_future_f cb, void *arg);

/* Wait until the future is ready, handling other messages meanwhile.  0 when ready (check the
 * result for success); -1 with ETIMEDOUT, EPIPE, or EDEADLK inside a module. */
int flux_future_wait(flux_future_t *f, double timeout);
bool flux_future_ready(const flux_future_t *f);
/* Release the current result, so that the next one can come.  0; -1 with ENODATA if none will. */
int flux_future_next(flux_future_t *f);

flux_t *flux_future_handle(const flux_future_t *f); /* the handle of its request */
/* Error of the current result: 0 for success, else errno; and its error message (never NULL). */
int flux_future_errnum(const flux_future_t *f);
const char *flux_future_error(const flux_future_t *f);

/* Read the current result, without waiting.  -1 with the service's errno and error message in
 * `err`, EAGAIN if not ready, EPROTO if the payload is not of the requested kind.  Pointers are
 * valid until the next flux_future_next() or destroy. */
int flux_rpc_get(flux_future_t *f, errmsg_t *err); /* success or not, payload ignored */
int flux_rpc_get_json(flux_future_t *f, const char **json, errmsg_t *err);
int flux_rpc_get_raw(flux_future_t *f, const void **data, size_t *len, errmsg_t *err);
/* Decode strictly into struct `out`; its strings and json_t are valid as long as the result. */
int flux_rpc_get_struct(flux_future_t *f, const struct flux_schema *desc, void *out, errmsg_t *err);
const flux_msg_t *flux_rpc_get_msg(flux_future_t *f); /* the response itself, or NULL */

/* flux_future_wait() and flux_rpc_get_struct() in one call, with the errors of both; for commands.
 * `desc` NULL: only success matters, and the payload is ignored. */
int flux_rpc_wait_struct(flux_future_t *f, double timeout, const struct flux_schema *desc,
                         void *out, errmsg_t *err);

#endif

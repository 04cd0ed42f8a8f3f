/* Message handlers, in tables; and responses.
 *
 *    static const struct flux_handler tab[] = {
 *        {FLUX_MSG_REQUEST, "barrier.enter", enter_cb, FLUX_ROLE_OWNER | FLUX_ROLE_BROKER},
 *        {FLUX_MSG_EVENT, "hb", hb_cb, 0},
 *        FLUX_HANDLER_END,
 *    };
 *    handlers = flux_handlers_add(h, tab, ctx);
 *
 * Thread rules: those of the handle.
 */
#ifndef FLUX_DISPATCH_H
#define FLUX_DISPATCH_H

#include "handle.h"
#include "libschema/schema.h"

/* `msg` belongs to the caller and is valid until the handler returns.  To respond later, keep a
 * reference with flux_msg_incref(). */
typedef void (*flux_handler_f)(flux_t *h, const flux_msg_t *msg, void *arg);

struct flux_handler {
    enum flux_msg_type type;
    const char *topic; /* request: the whole topic, or "name.*"; event: a prefix */
    flux_handler_f cb;
    uint32_t rolemask; /* request: roles that may call; others get EPERM.  0: owner and broker */
};
#define FLUX_HANDLER_END \
    {                    \
        0, NULL, NULL, 0 \
    }

typedef struct flux_handlers flux_handlers_t;

/* The table must outlive the result.  NULL with ENOMEM, EEXIST (the topic has a handler), or EINVAL
 * (neither request nor event).  Does not subscribe to events: see event.h. */
flux_handlers_t *flux_handlers_add(flux_t *h, const struct flux_handler *tab, void *arg);
void flux_handlers_remove(flux_handlers_t *hs); /* NULL-safe, keeps errno */

/* Respond to a request.  Nothing is sent if the request has FLUX_MSGF_NORESPONSE.  0, or -1 with
 * the errno of flux_send(). */
int flux_respond(flux_t *h, const flux_msg_t *req, const char *json);
int flux_respond_raw(flux_t *h, const flux_msg_t *req, const void *data, size_t len);
/* The same, with FLUX_MSGF_LAZY set: for a response of which the client can make no use before a
 * second one comes, soon, so that both wake it once. */
int flux_respond_lazy(flux_t *h, const flux_msg_t *req, const char *json);
/* If `in` cannot be encoded, the response is an error. */
int flux_respond_struct(flux_t *h, const flux_msg_t *req, const struct flux_schema *desc,
                        const void *in);
/* As above, with FLUX_MSGF_STREAMING set: more responses follow.  End a stream with ENODATA (or any
 * error).
 */
int flux_respond_more(flux_t *h, const flux_msg_t *req, const char *json);
int flux_respond_more_raw(flux_t *h, const flux_msg_t *req, const void *data, size_t len);
/* Respond with an error number and an error message. */
int flux_respond_error(flux_t *h, const flux_msg_t *req, int errnum, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

/* Decode a request's JSON strictly.  On success, call json_decref(*owner) after using `out`.  On
 * failure returns -1; the request was then answered with EPROTO and an error message. */
int flux_request_decode(flux_t *h, const flux_msg_t *req, const struct flux_schema *desc, void *out,
                        json_t **owner);

/* The sender of a request, as a text that is the same for all requests of one client, module or
 * broker anywhere in the session, and unique in it.  A service uses it to store which sender owns
 * which state.  When the sender disconnects, the service gets a request "NAME.disconnect" (no
 * response) in its name.  It has FLUX_MSGF_IDEMPOTENT if not the sender is gone, but the way of its
 * requests, which have ended: a broker on it was lost.  `buf` has at least FLUX_SENDER_MAX bytes;
 * returns buf. */
#define FLUX_SENDER_MAX 256
const char *flux_msg_sender(const flux_msg_t *req, char *buf, size_t size);
/* Has this request ended with what NAME.disconnect says?  Its sender may have sent others by
 * another way before the notice comes by the old one. */
bool flux_request_ended(const flux_msg_t *req, const flux_msg_t *notice);
/* A number for the way of a request, or of a notice: the same for those that came the same way. */
uint64_t flux_msg_way(const flux_msg_t *msg);

#endif

/* Message handlers, in tables; and answering.
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

/* `msg` belongs to the caller and lives until the handler returns; to answer later keep a reference
 * with flux_msg_incref(). */
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

/* The table must outlive the result.  NULL with ENOMEM, EEXIST (topic taken), or EINVAL (neither
 * request nor event).  Does not subscribe to events: see event.h. */
flux_handlers_t *flux_handlers_add(flux_t *h, const struct flux_handler tab[], void *arg);
void flux_handlers_remove(flux_handlers_t *hs); /* NULL-safe, keeps errno */

/* Answer a request.  A request with FLUX_MSGF_NORESPONSE is quietly not answered.  0, or -1 with
 * the errno of flux_send(). */
int flux_respond(flux_t *h, const flux_msg_t *req, const char *json);
int flux_respond_raw(flux_t *h, const flux_msg_t *req, const void *data, size_t len);
/* `in` that cannot be encoded is answered with an error. */
int flux_respond_struct(flux_t *h, const flux_msg_t *req, const struct flux_schema *desc,
                        const void *in);
/* As above, with FLUX_MSGF_STREAMING set: more follow.  End a stream with ENODATA (or any error).
 */
int flux_respond_more(flux_t *h, const flux_msg_t *req, const char *json);
int flux_respond_more_raw(flux_t *h, const flux_msg_t *req, const void *data, size_t len);
/* Answer with an error and a sentence. */
int flux_respond_error(flux_t *h, const flux_msg_t *req, int errnum, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

/* Decode a request's JSON strictly.  On success `*owner` is to be json_decref'd after `out` was
 * used. On failure the request was answered with EPROTO and a sentence, and -1 is returned. */
int flux_request_decode(flux_t *h, const flux_msg_t *req, const struct flux_schema *desc, void *out,
                        json_t **owner);

/* Who sent it: a text that is the same for all requests of one client, module or broker anywhere in
 * the session, and differs from any other's.  A service uses it to remember whose state it keeps,
 * and gets a request "NAME.disconnect" (no response) with the same sender when that one is gone.
 * `buf` of at least FLUX_SENDER_MAX bytes; returns buf. */
#define FLUX_SENDER_MAX 256
const char *flux_msg_sender(const flux_msg_t *req, char *buf, size_t size);

#endif

/* Messages, which all parts of a session exchange.
 *
 * A message is a request, a response, an event or a control message.  It carries a topic
 * ("kvs.commit"), an optional payload (JSON text where people read it, raw bytes for bulk data), a
 * stack of route ids that leads a response back, and the credential of the sender.  The credential
 * is stamped where the message enters the session; a value from outside is never trusted.  The term
 * is stamped there, too: each root of a session has a term, and a broker accepts no message of
 * another term from its neighbors.
 *
 * The encoding (msg.c) is one contiguous frame, the same on overlays and on local sockets.
 *
 * Thread rules: a message has one owner at a time, and may pass from thread to thread.  A reference
 * from flux_msg_incref() may be used in another thread if nobody modifies the message; only
 * messages without routes (events) are shared in this way.
 */
#ifndef FLUX_MSG_H
#define FLUX_MSG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "libutil/errmsg.h"

typedef struct flux_msg flux_msg_t;

enum flux_msg_type {
    FLUX_MSG_REQUEST = 1,
    FLUX_MSG_RESPONSE = 2,
    FLUX_MSG_EVENT = 4,
    FLUX_MSG_CONTROL = 8, /* broker to broker, or connector to client; never routed */
};

enum flux_msg_flag {
    FLUX_MSGF_NORESPONSE = 1,  /* request: send no response */
    FLUX_MSGF_STREAMING = 2,   /* request: may get many responses, ended by an error (ENODATA:
                                 orderly end); response: more follow */
    FLUX_MSGF_UPSTREAM = 4,    /* request: skip the sender's own broker, for the first instance
                                 above */
    FLUX_MSGF_RING = 8,        /* request: go along the ring */
    FLUX_MSGF_RAW = 16,        /* payload is raw bytes, not JSON text */
    FLUX_MSGF_IDEMPOTENT = 32, /* request: may be handled twice without harm, so it may be sent
                                * again after a loss: by brokers while no response has passed, and
                                * by handles with FLUX_O_RECONNECT */
    FLUX_MSGF_LAZY = 64,       /* request: wakes no thread, which handles it together with the next
                                * message; response: may wait for the next message to its client
                                * while the broker's loop does not sleep */
    FLUX_MSGF_WHOLE = 128      /* request with STREAMING and IDEMPOTENT: its responses belong
                                * together (pages, a snapshot), so handles do not send it again
                                * either once there is a response */
};
#define FLUX_MSGF_ALL 255

/* Destination of a request: the nearest broker that has the service. */
#define FLUX_NODEID_ANY UINT32_MAX
/* Destination of a request: the broker that has the role of the root. */
#define FLUX_NODEID_ROOT 0u
/* The term of the first root of a session; 0: the message has not entered a session. */
#define FLUX_TERM_FIRST 1u
/* Largest rank. */
#define FLUX_RANK_MAX ((1u << 28) - 1)

/* Roles: bits stamped where a message enters the session. */
#define FLUX_ROLE_OWNER 1u  /* the user who owns the session, or root */
#define FLUX_ROLE_USER 2u   /* another authenticated user */
#define FLUX_ROLE_BROKER 4u /* a broker or module of the session itself */

#define FLUX_USERID_UNKNOWN UINT32_MAX
#define FLUX_MATCHTAG_NONE 0u

/* Limits of the encoding. */
#define FLUX_MSG_HEADER_SIZE 44
#define FLUX_MSG_TOPIC_MAX 255
#define FLUX_MSG_ROUTES_MAX 1024
#define FLUX_MSG_ERRNUM_MAX 4095
#define FLUX_MSG_PAYLOAD_MAX (256u * 1024 * 1024)

/* Create a message.  `topic` is copied.  NULL with ENOMEM, or EINVAL for a bad type or topic (a
 * topic is 1 to 255 printable ASCII characters without blanks). */
flux_msg_t *flux_msg_create(enum flux_msg_type type, const char *topic);

/* Create a response to `req`: the same topic, match tag and term, and a copy of its routes.  errnum
 * 0 is success.  NULL with ENOMEM, or EINVAL if `req` is not a request. */
flux_msg_t *flux_msg_response_create(const flux_msg_t *req, int errnum);

/* A deep copy (own routes and payload).  NULL with ENOMEM. */
flux_msg_t *flux_msg_copy(const flux_msg_t *msg);

flux_msg_t *flux_msg_incref(const flux_msg_t *msg); /* returns its argument, cast */
void flux_msg_destroy(flux_msg_t *msg);             /* drops a reference; NULL-safe, keeps errno */

/* Plain properties. */
enum flux_msg_type flux_msg_type(const flux_msg_t *msg);
const char *flux_msg_topic(const flux_msg_t *msg); /* never NULL; valid while msg lives */
unsigned flux_msg_flags(const flux_msg_t *msg);
void flux_msg_set_flags(flux_msg_t *msg, unsigned flags);
bool flux_msg_has_flag(const flux_msg_t *msg, unsigned flag);
uint32_t flux_msg_nodeid(const flux_msg_t *msg); /* request: destination rank or FLUX_NODEID_ANY;
                                                  * response: rank that answered; event: rank of the
                                                  * publisher */
void flux_msg_set_nodeid(flux_msg_t *msg, uint32_t nodeid);
uint32_t flux_msg_matchtag(const flux_msg_t *msg);
void flux_msg_set_matchtag(flux_msg_t *msg, uint32_t tag);
int flux_msg_errnum(const flux_msg_t *msg); /* response: 0 or a positive errno */
void flux_msg_set_errnum(flux_msg_t *msg, int errnum);
uint64_t flux_msg_seq(const flux_msg_t *msg); /* event: sequence from 1; else 0 */
void flux_msg_set_seq(flux_msg_t *msg, uint64_t seq);
/* Request: the incarnation of the broker where it has entered the session; 0: that is not known
 * yet, or the message is not a request. */
uint32_t flux_msg_incarnation(const flux_msg_t *msg);
void flux_msg_set_incarnation(flux_msg_t *msg, uint32_t incarnation);
/* The term of the root at the time when the message entered the session.  Events are in order of
 * (term, sequence). */
uint32_t flux_msg_term(const flux_msg_t *msg);
void flux_msg_set_term(flux_msg_t *msg, uint32_t term);
uint32_t flux_msg_userid(const flux_msg_t *msg);
uint32_t flux_msg_rolemask(const flux_msg_t *msg);
void flux_msg_set_cred(flux_msg_t *msg, uint32_t userid, uint32_t rolemask);

/* Payload.  Getters return pointers into the message, valid until it changes or is destroyed; the
 * bytes are followed by a NUL that does not count. */
const void *flux_msg_payload(const flux_msg_t *msg, size_t *len); /* NULL and 0 if there is none */
/* The payload as NUL-terminated JSON text.  NULL with EPROTO if there is none, or it is raw. */
const char *flux_msg_json(const flux_msg_t *msg);
/* Replace the payload with a copy.  len 0 removes it.  -1 with ENOMEM or EMSGSIZE. */
int flux_msg_set_json(flux_msg_t *msg, const char *json);
int flux_msg_set_raw(flux_msg_t *msg, const void *data, size_t len);
/* Replace the payload with malloc'd memory, which the message takes over on success and on failure.
 * The block must have one byte more than `len`, for the NUL. */
int flux_msg_take_raw(flux_msg_t *msg, void *data, size_t len);

/* The route stack of a request (pushed at each hop) or response (popped).  The broker defines the
 * ids.  push: -1 with ENOMEM, EOVERFLOW (1024 hops), or EINVAL (neither request nor response).  pop
 * and top: -1 with ENOENT if empty.
 */
int flux_msg_route_push(flux_msg_t *msg, uint32_t id);
int flux_msg_route_pop(flux_msg_t *msg, uint32_t *id);
int flux_msg_route_top(const flux_msg_t *msg, uint32_t *id);
size_t flux_msg_route_count(const flux_msg_t *msg);
uint32_t flux_msg_route_at(const flux_msg_t *msg, size_t i); /* 0: the origin */
void flux_msg_route_clear(flux_msg_t *msg);

/* The encoded size in bytes; and encode into a buffer of at least that size. */
size_t flux_msg_encoded_size(const flux_msg_t *msg);
void flux_msg_encode(const flux_msg_t *msg, void *buf);

/* Decode exactly `len` bytes, strictly.  NULL with EPROTO (and an error message) or ENOMEM. */
flux_msg_t *flux_msg_decode(const void *buf, size_t len, errmsg_t *err);

/* The size of the frame that begins at `buf`, of which `len` bytes have come: 0 if more bytes are
 * needed to tell, -1 with EPROTO if this is not a frame.  For stream sockets. */
ssize_t flux_msg_frame_size(const void *buf, size_t len, errmsg_t *err);

/* Does `topic` begin with `prefix` ("" matches all)?  Compares characters, as in
 * publish-subscribe. */
bool flux_topic_prefix(const char *topic, const char *prefix);

#endif

/* A client that follows a job, or has started a program, and the responses that it may not have
 * received.
 *
 * Not thread-safe.
 */
#ifndef WREXEC_COORD_LISTENER_H
#define WREXEC_COORD_LISTENER_H

#include "libexec/wrexec_wire.h"
#include "libflux/handover.h"
#include "libflux/module.h"
#include "libutil/list.h"
#include "retain.h"

struct client;
struct coord_job;

/* The first fields are those of coord_client.c, the others of coord_listener.c; `req`, `id` and
 * `input` may be read by all. */
struct listener {
    struct list_node node; /* in the list of its client */
    struct list_node over; /* in the list of those that are over */
    struct client *client;
    struct coord_job *rj; /* NULL: the job has not been launched yet, or is over */
    size_t bytes;         /* of one that is over: as counted */
    flux_t *h;
    flux_msg_t *req;
    uint64_t id;
    bool input;
    bool away;
    bool lost;      /* the broker of the client is lost, and the client may be, too */
    uint64_t token; /* see struct wrexec_listen; 0: none */
    uint32_t window;
    uint64_t sent, paid; /* bytes of output */
    uint64_t number;     /* of the last response that is counted */
    retain_t *kept;      /* NULL: it cannot be resumed */
    bool lacks_some;     /* some output could not be sent, and is not kept */
    char *last;          /* the last response, NULL: none yet */
    int errnum;          /* of that */
};

/* For a request that is answered like wrexec.listen.  NULL with ENOMEM. */
struct listener *coord_listener_create(flux_t *h, const flux_msg_t *req, uint64_t id,
                                       uint32_t window);
void coord_listener_destroy(struct listener *l); /* NULL-safe */
/* Is this request from its client, by its sender or by the token? */
bool coord_listener_is(const struct listener *l, const flux_msg_t *req, uint64_t token);
/* Can output be sent? */
bool coord_listener_room(const struct listener *l);
/* Send records.  Returns false if there is no room. */
bool coord_listener_output(struct listener *l, const void *data, size_t len);
void coord_listener_notice(struct listener *l, const struct wrexec_notice *n);
/* The client has received `received` responses in all, and has used `paid` bytes. */
void coord_listener_credit(struct listener *l, uint64_t received, uint64_t paid);
/* Send the last response: an error, or (errnum 0) JSON.  `lazy`: see flux_respond_lazy().  Returns
 * whether the stream may be resumed, and the listener is to be kept. */
bool coord_listener_end(struct listener *l, int errnum, const char *text, bool lazy);
/* Bytes of memory. */
size_t coord_listener_bytes(const struct listener *l);
/* The way to the client was lost.  Returns false if the stream cannot be resumed. */
bool coord_listener_away(struct listener *l);
/* The broker of the client was lost.  Returns false if the client cannot return. */
bool coord_listener_lost(struct listener *l);
/* The client resumes the stream: first take its request (-1 with errno and an error message), then
 * send what it has not received. */
int coord_listener_resume(struct listener *l, const flux_msg_t *req, const struct wrexec_listen *p,
                          errmsg_t *err);
void coord_listener_go_on(struct listener *l);

/* For a reload.  NULL: there is none, or an error. */
void coord_listener_save(const struct listener *l, flux_handover_t *o);
struct listener *coord_listener_load(flux_t *h, flux_handover_t *o);

#endif

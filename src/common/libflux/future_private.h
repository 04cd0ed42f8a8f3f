/* Declarations that future.c and pending.c share. */
#ifndef FLUX_FUTURE_PRIVATE_H
#define FLUX_FUTURE_PRIVATE_H

#include <stdbool.h>
#include <stdint.h>

#include "future.h"
#include "handle_private.h"
#include "libutil/list.h"

struct pending {
    flux_future_t *f;
    uint32_t tag;
    uint32_t rank;
    struct list_node node; /* in future.pendings */
    flux_msg_t *req;       /* kept to be sent again if the connection returns; else NULL */
    size_t unsent;         /* its bytes, while it waits for the connection; else 0 */
    bool heard;            /* of a stream: a response has come since the request was sent */
};

struct result {
    struct list_node node;
    flux_msg_t *msg;  /* NULL: an error made here */
    int errnum;       /* of an error made here */
    const char *text; /* constant; of an error made here */
    uint32_t rank;
    bool embedded;
};

struct flux_future {
    flux_t *h;
    struct list_node node;       /* in pending_table.futures */
    struct list_node ended_node; /* in pending_table.ended */
    struct list_node pendings;
    struct list_node results;
    struct pending pending0; /* saves an allocation in the usual case */
    struct result result0;
    bool pending0_used;
    bool result0_used;
    bool streaming;
    bool in_callback;
    bool filling;   /* sending to many ranks: responses may come before the send returns */
    bool taken;     /* the callback has released the result for which it was called */
    bool destroyed; /* to be freed once it is neither in its callback nor filling */
    flux_future_f cb;
    void *arg;
    double timeout;
    flux_watcher_t *timer;
    flux_watcher_t *defer; /* calls back for results that came before flux_future_then() */
    json_t *decoded;
    char *topic; /* streaming: for the cancel request; many-rank: for the remaining requests */
    uint32_t nodeid;
    /* many-rank */
    char *json;
    unsigned flags;
    uint32_t *ranks;
    size_t nranks;
    size_t next_rank;
    size_t outstanding;
};

/* --- future.c --- */

/* Queue a result.  `msg` is taken over. */
void future_add_result(flux_future_t *f, uint32_t rank, flux_msg_t *msg, int errnum,
                       const char *text);
/* Call back for each result, as long as the callback releases it (flux_future_next()). */
void future_call_back(flux_future_t *f);
bool future_more_to_come(const flux_future_t *f);
/* Send to as many ranks as may be outstanding. */
void future_fill(flux_future_t *f);

/* --- pending.c --- */

/* The future ends when the connection of its handle is lost. */
void pending_join(flux_future_t *f);
/* `tag`: that of a request sent by a previous instance; 0: choose one.  NULL: no memory, or the tag
 * is in use. */
struct pending *pending_add(flux_future_t *f, uint32_t rank, uint32_t tag);
/* Send `req` (taken over) as one of the future's requests. */
void pending_send(flux_future_t *f, flux_msg_t *req, uint32_t rank);
/* Drop the requests of the future that have no response yet. */
void pending_give_up(flux_future_t *f);
/* Cancel a streaming request at its service. */
void pending_cancel(flux_future_t *f);
/* The error message for a request that could not be sent. */
const char *pending_error_text(int errnum);

#endif

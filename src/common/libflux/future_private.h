/* Inside futures: what future.c and pending.c share. */
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
    flux_msg_t *req;       /* to be sent again if the connection returns; else NULL */
    size_t unsent;         /* its bytes, if it waits for that; else 0 */
    bool heard;            /* a stream: a response has come since it was sent */
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
    flux_watcher_t *defer; /* calls back for results that had come earlier */
    json_t *decoded;
    char *topic; /* streaming: for the cancel request; many-rank: to send the rest */
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
/* Nobody waits any more for the answers that have not come. */
void pending_give_up(flux_future_t *f);
/* Tell the service of a streaming request that nobody listens any more. */
void pending_cancel(flux_future_t *f);
/* Why a request could not be sent. */
const char *pending_error_text(int errnum);

#endif

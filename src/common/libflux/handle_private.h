/* The handle's declarations for handle.c, dispatch.c, future.c, pending.c, rpc.c, renew.c and
 * conn_local.c. Not installed. */
#ifndef FLUX_HANDLE_PRIVATE_H
#define FLUX_HANDLE_PRIVATE_H

#include "future.h"
#include "handle.h"
#include "libutil/hmap.h"
#include "libutil/list.h"

struct dispatch;
struct pending_table;

struct dispatch *dispatch_create(void);
void dispatch_destroy(struct dispatch *d);
void dispatch_deliver(struct dispatch *d, flux_t *h, const flux_msg_t *msg);

/* Pending requests, and the futures to which they belong. */
struct pending_table *pending_table_create(void);
void pending_table_destroy(struct pending_table *t);
void pending_deliver(struct pending_table *t, flux_msg_t *response); /* taken over */
/* `why` must be valid as long as the futures. */
void pending_fail_all(struct pending_table *t, int errnum, const char *why);
/* away(): the connection is lost; end the requests that cannot be sent again.  back(): it has
 * returned; send the others again. */
void pending_away(struct pending_table *t);
void pending_back(struct pending_table *t);

/* renew.c: the requests that are sent again, and the subscriptions of a handle that returns. */
struct renew;
struct renew *renew_create(void);
void renew_destroy(struct renew *r);
/* Is a copy of this request kept until it is answered? */
bool renew_keeps(const flux_msg_t *req);
/* Is it sent before the others?  An unsubscription must not overtake its subscription. */
bool renew_is_first(const flux_msg_t *req);
/* Note that such a request has succeeded, or that its future is gone. */
void renew_note(struct renew *r, const flux_msg_t *req);
/* The connection is back: take over the subscriptions of the last connection, to make them
 * again. */
void renew_take(struct renew *r);
void renew_subscribe(struct renew *r, flux_t *h);

/* Keep the decoded form of the current result (taken over) as long as that result. */
void future_keep_decoded(flux_future_t *f, json_t *obj);
/* Make a request without payload.  NULL with ENOMEM or EINVAL. */
flux_msg_t *rpc_make_request(const char *topic, uint32_t nodeid, unsigned flags);

struct dispatch *flux_handle_dispatch(flux_t *h);
struct pending_table *flux_handle_pending(flux_t *h);
bool flux_handle_is_lost(flux_t *h);
bool flux_handle_is_away(flux_t *h);
struct renew *flux_handle_renew(flux_t *h); /* NULL: the handle does not return */

#endif

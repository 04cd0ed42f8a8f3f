/* Declarations that the sources of the module resrc share. */
#ifndef RESRC_RESRC_H
#define RESRC_RESRC_H

#include "libflux/module.h"
#include "libresource/resrc_wire.h"
#include "libresource/resgraph.h"
#include "libservice/setup.h"
#include "libutil/list.h"
#include "resrc_probe.h"

struct root;
struct find;

/* These ranks have the same resources as rank `as`. */
struct like {
    uint32_t as;
    idset_t *ranks;
};

struct likes {
    struct like *list;
    size_t n;
};

/* Add ranks to a list of likes.  -1 with ENOMEM. */
int resrc_likes_add(struct likes *l, uint32_t as, const idset_t *ranks);
void resrc_likes_drop(struct likes *l, size_t i);
void resrc_likes_clear(struct likes *l);

struct ctx {
    flux_t *h;
    uint32_t rank;
    uint32_t size;
    flux_handlers_t *handlers;
    struct find *find;
    struct root *root; /* rank 0 only */
    /* Reports in transit; ranks other than 0 only. */
    resgraph_t *pending;
    struct likes likes;
    flux_watcher_t *defer;
    flux_watcher_t *again;
    flux_future_t *join; /* unanswered */
    char *sent;          /* its payload */
    uint64_t joins_in, joins_out;
    struct list_node xmls; /* requests for XML in progress */
    unsigned nxmls;
};

/* resrc.c: report nodes at or below this rank. */
void resrc_found(struct ctx *ctx, const resgraph_t *g);
void resrc_found_like(struct ctx *ctx, uint32_t as, const idset_t *ranks);

/* resrc_find.c: find this broker's resources; calls resrc_found() or resrc_found_like(), now or
 * later. */
struct find *resrc_find_create(struct ctx *ctx);
void resrc_find_destroy(struct find *f);
/* Find the resources again; `lost`: ranks on whose reports this one cannot rely (NULL: none). */
void resrc_find_again(struct find *f, const idset_t *lost);

/* resrc_xml.c */
void resrc_xml_request(flux_t *h, const flux_msg_t *req, void *arg);
void resrc_xml_clear(struct ctx *ctx);

/* resrc_root.c */
struct root *resrc_root_create(struct ctx *ctx, errmsg_t *err);
void resrc_root_destroy(struct root *r);
void resrc_root_found(struct root *r, const resgraph_t *g);
void resrc_root_found_like(struct root *r, uint32_t as, const idset_t *ranks);
void resrc_root_watch(flux_t *h, const flux_msg_t *req, void *arg);
void resrc_status_request(flux_t *h, const flux_msg_t *req, void *arg);
void resrc_drain_add(flux_t *h, const flux_msg_t *req, void *arg);
void resrc_drain_remove(flux_t *h, const flux_msg_t *req, void *arg);
void resrc_drain_leave(flux_t *h, const flux_msg_t *req, void *arg);
void resrc_confirm_request(flux_t *h, const flux_msg_t *req, void *arg);
void resrc_root_disconnect(flux_t *h, const flux_msg_t *req, void *arg);
void resrc_root_cancel(flux_t *h, const flux_msg_t *req, void *arg);
void resrc_root_stats(struct root *r, struct resrc_stats *st);

#endif

/* What the sources of the module resrc share. */
#ifndef RESRC_RESRC_H
#define RESRC_RESRC_H

#include "libflux/module.h"
#include "libresource/resrc_wire.h"
#include "libresource/resgraph.h"
#include "libutil/list.h"
#include "probe.h"

struct root;
struct find;

/* These ranks have what rank `as` has. */
struct like {
    uint32_t as;
    idset_t *ranks;
};

struct likes {
    struct like *list;
    size_t n;
};

/* Add ranks to a list of likes.  -1 with ENOMEM. */
int likes_add(struct likes *l, uint32_t as, const idset_t *ranks);
void likes_drop(struct likes *l, size_t i);
void likes_clear(struct likes *l);

struct ctx {
    flux_t *h;
    uint32_t rank;
    uint32_t size;
    flux_handlers_t *handlers;
    struct find *find;
    struct root *root; /* rank 0 only */
    /* On the way up; other ranks only. */
    resgraph_t *pending;
    struct likes likes;
    flux_watcher_t *defer;
    flux_watcher_t *again;
    flux_future_t *join; /* unanswered */
    char *sent;          /* what is in it */
    uint64_t joins_in, joins_out;
    struct list_node xmls; /* requests for XML that are being worked at */
    unsigned nxmls;
};

/* resrc.c: something is known about nodes at or below this rank. */
void resrc_found(struct ctx *ctx, const resgraph_t *g);
void resrc_found_like(struct ctx *ctx, uint32_t as, const idset_t *ranks);

/* find.c: what this broker has; tells resrc_found() or resrc_found_like(), now or later. */
struct find *find_create(struct ctx *ctx);
void find_destroy(struct find *f);
/* Look again; do not rely on what these ranks were to find (NULL: none). */
void find_again(struct find *f, const idset_t *lost);

/* xml.c */
void xml_request(flux_t *h, const flux_msg_t *req, void *arg);
void xml_clear(struct ctx *ctx);

/* root.c */
struct root *root_create(struct ctx *ctx, errmsg_t *err);
void root_destroy(struct root *r);
void root_found(struct root *r, const resgraph_t *g);
void root_found_like(struct root *r, uint32_t as, const idset_t *ranks);
void root_watch(flux_t *h, const flux_msg_t *req, void *arg);
void root_status(flux_t *h, const flux_msg_t *req, void *arg);
void root_drain(flux_t *h, const flux_msg_t *req, void *arg);
void root_undrain(flux_t *h, const flux_msg_t *req, void *arg);
void root_overlay_event(flux_t *h, const flux_msg_t *msg, void *arg);
/* The sender is gone, or (matchtag) no longer wants this answer. */
void root_gone(struct root *r, const char *sender, uint32_t matchtag);
void root_stats(struct root *r, struct resrc_stats *st);

#endif

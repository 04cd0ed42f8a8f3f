/* What the sources of the root's part share. */
#ifndef RESRC_ROOT_H
#define RESRC_ROOT_H

#include "libservice/early.h"
#include "libservice/session.h"
#include "resrc.h"

/* Nodes that are not to be used, for one reason since one time. */
struct record {
    idset_t *ranks;
    char *reason;
    double time;
};

struct drained {
    idset_t *ranks; /* of all records */
    struct record *list;
    size_t n;
};

struct root {
    struct ctx *ctx;
    /* What is. */
    resgraph_t *found;   /* said by the brokers, and pools of the configuration */
    resgraph_t *config;  /* nodes of the configuration, which then are all; or NULL */
    struct likes likes;  /* of ranks that have said nothing yet */
    idset_t *brokers_up; /* NULL: not known yet */
    resgraph_t *record;  /* the inventory in the store, or NULL */
    struct drained drained;
    /* What has to be known before anything is said. */
    bool config_known;
    bool topology_known;
    bool drained_known;
    bool record_known;
    bool running; /* the session: all ranks came up that will */
    bool settled;
    bool late;          /* loaded when the session was running already */
    bool divided;       /* what is found is no longer what was said: resrc_share.c */
    unsigned patience;  /* times the timer has asked for what is missing */
    bool config_is_own; /* resrc.config, which must have a section `resource` */
    probe_t *probe;
    struct topology *topology; /* resrc_topology.c */
    session_t *session;
    flux_future_t *attr_f, *drained_f, *record_f;
    flux_watcher_t *timer;
    flux_watcher_t *defer;
    /* What was said: to watchers, and to the store. */
    uint64_t version;
    bool changed, inventory_changed;
    struct list_node watchers;
    unsigned nwatchers;
    struct list_node askers; /* of resrc.status */
    unsigned naskers;
    early_t *early; /* changes asked for before everything is known */
    bool save_inventory, save_drained;
    flux_future_t *commit_f;
    struct list_node to_commit;  /* answered after the next commit */
    struct list_node committing; /* after the one that is under way */
    uint64_t commits;
    char *inventory; /* text of the one that was committed */
};

/* A request that waits. */
struct waiter {
    struct list_node node;
    flux_msg_t *req;
    flux_future_t *f;  /* status: asked whether nodes are in use */
    struct root *root; /* status */
    char *text;        /* drain: what is answered */
    bool told;         /* watch: it has had the first answer */
};
struct waiter *resrc_root_waiter_add(struct list_node *list, const flux_msg_t *req);
void resrc_root_waiter_free(struct waiter *w);

/* The nodes there are. */
static inline resgraph_t *root_graph(const struct root *r)
{
    return r->config ? r->config : r->found;
}
/* Those that can be used as far as brokers go; a new set, NULL with ENOMEM. */
idset_t *resrc_root_nodes_up(const struct root *r);
/* Something has changed: tell watchers and the store, once for all that one pass brings. */
void resrc_root_changed(struct root *r, bool inventory);
/* The module ends, and with it the start of the session. */
void resrc_root_fail(struct root *r, const char *error);

/* resrc_topology.c */
int resrc_topology_start(struct root *r); /* -1: out of memory */
/* Put the switches into the graph.  -1: they cannot be; said already. */
int resrc_topology_apply(struct root *r);
void resrc_topology_destroy(struct root *r);

/* resrc_drain.c: the list of what is drained. */
void resrc_drain_list_clear(struct drained *d);
/* 0, or -1 with ENOMEM.  What was drained already gets the new reason. */
int resrc_drain_list_add(struct drained *d, const idset_t *ranks, const char *reason, double time);
int resrc_drain_list_remove(struct drained *d, const idset_t *ranks);
char *resrc_drain_list_format(const struct drained *d); /* JSON, malloc'd */
int resrc_drain_list_parse(struct drained *d, const char *json, size_t len, errmsg_t *err);

/* resrc_store.c */
void resrc_store_load(struct root *r);
void resrc_store_save(struct root *r);
void resrc_store_stop(struct root *r);

/* resrc_share.c: brokers that have the same share of a job divide it.  0, or -1 with ENOMEM. */
int resrc_share_divide(resgraph_t **g);

/* resrc_status.c */
/* Answer who has waited for the inventory. */
void resrc_status_go_on(struct root *r);

#endif

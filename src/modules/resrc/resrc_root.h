/* Declarations shared by the sources of the root's part. */
#ifndef RESRC_ROOT_H
#define RESRC_ROOT_H

#include "libservice/claim.h"
#include "libservice/early.h"
#include "libservice/session.h"
#include "resrc.h"

/* Nodes that were drained together, with one reason and time. */
struct record {
    idset_t *ranks;
    char *reason;
    double time;
    bool leaves; /* their brokers leave, or have left: drained until these return */
};

struct drained {
    idset_t *ranks; /* of all records */
    struct record *list;
    size_t n;
};

struct confirm; /* resrc_confirm.c */

struct root {
    struct ctx *ctx;
    struct confirm *confirm;
    /* The inventory: */
    resgraph_t *found;   /* reported by the brokers, and pools of the configuration */
    resgraph_t *config;  /* nodes of the configuration, instead of the former; or NULL */
    resgraph_t *named;   /* places of the configuration, for nodes that are found; or NULL */
    struct likes likes;  /* "like" a rank that has not reported yet */
    idset_t *brokers_up; /* NULL: not known yet */
    resgraph_t *record;  /* the inventory in the store, or NULL */
    struct drained drained;
    /* Conditions for the states (resrc_root.c). */
    bool config_known;
    bool topology_known;
    bool loaded; /* the session may start */
    bool failed; /* the module ends */
    bool drained_known;
    bool record_known;
    bool running; /* the session runs: all ranks that will come up are up */
    bool settled;
    bool late;         /* this instance was loaded into a running session */
    idset_t *draining; /* brokers that are about to leave */
    idset_t *returned; /* brokers that were away, until the module is settled */
    bool divided;      /* `found` differs from the reports: resrc_share.c */
    unsigned patience; /* ticks that have passed while reports were missing */
    setup_t *setup;
    char *own_config; /* resrc.config, which must have a section `resource` */
    char *config_file, *topology_text;
    probe_t *probe;
    struct topology *topology; /* resrc_topology.c */
    session_t *session;
    flux_future_t *drained_f, *record_f;
    flux_watcher_t *timer;
    flux_watcher_t *defer;
    /* Updates to watchers, and to the store: */
    uint64_t version;
    bool changed, inventory_changed;
    struct claims *senders; /* of resrc.watch */
    struct list_node watchers;
    unsigned nwatchers;
    struct list_node askers; /* of resrc.status */
    unsigned naskers;
    early_t *early; /* requests that arrived before the module was settled */
    bool save_inventory, save_drained;
    bool saving_inventory, saving_drained; /* contents of the current commit */
    flux_watcher_t *again;                 /* after a commit that failed; NULL before the first */
    double pause;                          /* seconds until then; 0: the last commit succeeded */
    flux_future_t *commit_f;
    struct list_node to_commit;  /* requests that wait for the next commit */
    struct list_node committing; /* requests that wait for the current commit */
    uint64_t commits;
    char *inventory; /* text of the last inventory that was sent to the store */
    char *text;      /* text of the present graph; NULL: it must be made */
};

/* A request that waits. */
struct waiter {
    struct list_node node;
    struct root *root;
    flux_msg_t *req;
    flux_future_t *f;   /* status: request to the scheduler */
    char *text;         /* drain: the answer */
    struct claim claim; /* watch */
    bool begun;         /* watch: the first response has been sent */
};
struct waiter *resrc_root_waiter_add(struct root *r, struct list_node *list, const flux_msg_t *req);
void resrc_root_waiter_free(struct waiter *w);

/* The nodes of the session. */
static inline resgraph_t *root_graph(const struct root *r)
{
    return r->config ? r->config : r->found;
}
/* The nodes whose brokers are up; a new set, NULL with ENOMEM. */
idset_t *resrc_root_nodes_up(const struct root *r);
/* The nodes that an idset or a hostlist names.  NULL with errno and an error message. */
idset_t *resrc_root_nodes_named(const struct root *r, const char *text, errmsg_t *err);
/* The brokers of these nodes; a new set, NULL with ENOMEM. */
idset_t *resrc_root_brokers_of(const struct root *r, const idset_t *nodes);
/* The nodes of these brokers; a new set, NULL with ENOMEM. */
idset_t *resrc_root_nodes_of(const struct root *r, const idset_t *brokers);
/* The nodes whose brokers are up, but have to confirm the end of earlier processes first. */
idset_t *resrc_root_unconfirmed(const struct root *r);
/* Note a change: update watchers and the store, once at the end of the pass. */
void resrc_root_changed(struct root *r, bool inventory);
/* Text of the inventory, made once for all receivers; valid until the next change.  NULL with
 * ENOMEM. */
const char *resrc_root_text(struct root *r);
/* Configuration or switches are known; once both are, the module counts as started. */
void resrc_root_known(struct root *r);
/* End the module, and with it the start of the session. */
void resrc_root_fail(struct root *r, const char *error);

/* resrc_topology.c */
void resrc_topology_start(struct root *r); /* the setting is known */
/* Before the session starts: do the switches fit the nodes?  True: they do, or there are no
 * switches.  False: not enough is known yet; or they do not, and the module ends. */
bool resrc_topology_fits(struct root *r);
/* Put the switches into the graph.  -1: they do not fit, and the reason has been logged. */
int resrc_topology_apply(struct root *r);
void resrc_topology_destroy(struct root *r);

/* resrc_drain.c: the list of drained nodes. */
void resrc_drain_list_clear(struct drained *d);
char *resrc_drain_list_format(const struct drained *d); /* JSON, malloc'd */
/* These brokers were away and are up again: undrain nodes that were drained because they had
 * left. */
void resrc_drain_returned(struct root *r, const idset_t *brokers);
int resrc_drain_list_parse(struct drained *d, const char *json, size_t len, errmsg_t *err);

/* resrc_confirm.c */
struct confirm *resrc_confirm_create(struct root *r); /* NULL with ENOMEM */
void resrc_confirm_destroy(struct confirm *c);        /* NULL-safe */
/* Note that brokers are lost; have left, or were never up; are up again. */
void resrc_confirm_lost(struct confirm *c, const idset_t *brokers);
void resrc_confirm_left(struct confirm *c, const idset_t *brokers);
void resrc_confirm_back(struct confirm *c, const idset_t *brokers);
/* The brokers that may not be given work because of that. */
const idset_t *resrc_confirm_missing(const struct confirm *c);

/* resrc_store.c */
void resrc_store_load(struct root *r);
void resrc_store_save(struct root *r);
void resrc_store_stop(struct root *r);

/* resrc_share.c: divide shares among the brokers that have the same one.  0, or -1 with ENOMEM. */
int resrc_share_divide(resgraph_t **g);

/* resrc_status.c */
/* Answer the requests that have waited for the inventory. */
void resrc_status_go_on(struct root *r);

#endif

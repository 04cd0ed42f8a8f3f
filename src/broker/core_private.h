/* What the files of the broker core share.  core.c: life and endpoints; core_route.c: requests and
 * responses; core_inflight.c: who waits for whom; core_event.c: event order; core_overlay.c:
 * neighbours and the state machine; core_service.c: the broker's own services. */
#ifndef BROKER_CORE_PRIVATE_H
#define BROKER_CORE_PRIVATE_H

#include "core.h"
#include "libflux/dispatch.h"
#include "libflux/future.h"
#include "libflux/log.h"
#include "libflux/route.h"
#include "libutil/hmap.h"
#include "libutil/list.h"

/* A neighbour: the tree parent, a tree child, or an end of the ring. */
struct peer {
    uint32_t rank;
    enum core_plane plane; /* CORE_TREE or CORE_RING */
    bool is_child;
    bool up;       /* tree: welcomed; ring: usable */
    bool event_up; /* child: its event link is in place */
    bool lost;
    bool gone;             /* child: said goodbye */
    flux_msg_t *hello;     /* child: came before this broker was welcomed itself */
    struct list_node to;   /* inflight.to_node: requests sent to it */
    struct list_node from; /* inflight.from_node: requests that came from it */
    struct list_node held; /* requests for it that wait until it has joined, or has room */
    size_t held_count;
    size_t held_bytes;
};

struct used_service {
    uint32_t nodeid;
    unsigned flags;
    char name[];
};

/* What the clients of one process, or of one other rank, have waiting in queues of local endpoints.  It outlives
 * clients that have left requests there. */
struct account {
    uint32_t number;
    unsigned refs;   /* clients, and one while something waits */
    unsigned queued; /* weight of what waits */
    bool choked;     /* that was too much, and is not yet half of it (of a rank: said in the log) */
};

struct endpoint {
    core_t *core;
    uint32_t id;
    enum endpoint_kind kind;
    char *name;
    uint32_t userid;
    uint32_t rolemask;
    const struct endpoint_ops *ops;
    void *arg;
    unsigned inflight; /* requests from it that are not answered */
    size_t held_count; /* requests from it that wait for neighbours, and their bytes */
    size_t held_bytes;
    struct account *account; /* a client's */
    struct list_node to;     /* inflight.to_node */
    struct list_node from;   /* inflight.from_node */
    struct list_node subs;   /* struct subscription */
    unsigned nsubs;
    struct list_node sub_node; /* in core.subscribers when subs is not empty */
    uint64_t event_seen;       /* the last event that was looked at for it */
    hmap_t *used;              /* hash -> struct used_service */
};

struct inflight {
    uint64_t key;
    flux_msg_t *req; /* the request, or (large payload) a response template with its routes */
    struct endpoint *from_ep; /* NULL: came from a peer */
    struct endpoint *to_ep;   /* NULL: sent to a peer */
    struct peer *to_peer;
    struct list_node to_node;
    struct list_node from_node;
};

struct event_log; /* core_event.c */

struct core {
    struct core_config cfg;
    flux_reactor_t *r;
    struct core_callbacks cbs;
    void *cbs_arg;
    const struct core_link_ops *link;
    void *link_arg;
    topology_t *topo;
    enum core_state state;
    bool started;

    flux_t *h;
    endpoint_t *self;
    flux_handlers_t *handlers;
    hmap_t *endpoints; /* id -> endpoint */
    hmap_t *accounts;  /* number -> struct account */
    unsigned queued;   /* weight of what waits of clients of other ranks */
    uint32_t last_endpoint;
    hmap_t *services; /* name -> endpoint */
    hmap_t *inflight; /* key -> inflight */
    struct inflight *pool;
    size_t pool_count;

    struct peer *parent;
    struct peer *children;
    uint32_t nchildren;
    hmap_t *child_by_rank;
    struct peer ring_next;
    struct peer ring_prev;

    void (*relief_cb)(void *arg);
    void *relief_arg;

    struct list_node subscribers;
    uint64_t subscribers_left; /* how many have: a walk through them begins again */
    struct event_log *events;

    idset_t *up; /* ready in this subtree (root: in the session) */
    idset_t *lost;
    idset_t *unreported; /* ready here, not yet told to the parent */
    bool local_ready;
    bool reported_all;
    bool report_now; /* late: do not wait for the whole subtree */
    flux_watcher_t *join_timer;
    flux_watcher_t *report_timer;
    flux_watcher_t *orphan_timer;
    flux_watcher_t *down_timer;
    struct courier *orders; /* to the root; NULL until there is one */
    bool down_asked;        /* the root was asked to take the session down */
    bool held;              /* the owner will go on with the shutdown */
    bool down_told;         /* the parent said that the session goes down */
    bool down_local;        /* second phase of CORE_DOWN */
    int exit_code;

    uint64_t hash_seed;
    struct core_stats stats;
};

/* core.c */
void core_log(core_t *c, int level, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
void core_set_state(core_t *c, enum core_state state);
bool core_is_root(const core_t *c);

/* core_route.c */
void route_request(core_t *c, flux_msg_t *msg, endpoint_t *from_ep, struct peer *from_peer);
void route_response(core_t *c, flux_msg_t *msg);
void route_error(core_t *c, const flux_msg_t *req, int errnum, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
/* A neighbour has joined, has room, or is lost: try what is held for it again. */
/* Accounts are found by number: that of a process, ACCOUNT_OWN and a client's id, or CORE_ACCOUNT_RANK and a
 * rank.  NULL with ENOMEM. */
#define ACCOUNT_OWN 0x80000000u
struct account *account_join(core_t *c, uint32_t number);
void account_leave(core_t *c, struct account *a); /* NULL-safe */
void route_held(core_t *c, struct peer *p);
void route_held_destroy(core_t *c, struct peer *p);
int route_control(core_t *c, struct peer *p, flux_msg_t *msg); /* taken over */
/* Tell a service that the sender `routes` of `like` is gone. */
void route_disconnect(core_t *c, const flux_msg_t *like, endpoint_t *to_ep, struct peer *to_peer);
/* Length of the service part of a topic. */
size_t topic_service_len(const char *topic);

/* core_inflight.c */
struct inflight *inflight_add(core_t *c, flux_msg_t *req, endpoint_t *from_ep,
                              struct peer *from_peer, endpoint_t *to_ep, struct peer *to_peer);
struct inflight *inflight_find(core_t *c, const flux_msg_t *msg);
void inflight_remove(core_t *c, struct inflight *f);
void inflight_pool_destroy(core_t *c);
/* End all requests in list `to` with an error. */
void inflight_fail(core_t *c, struct list_node *to, int errnum, const char *text);
/* Forget all requests in list `from`, telling the services when `notify`. */
void inflight_forget(core_t *c, struct list_node *from, bool notify);

/* core_event.c */
int event_init(core_t *c);
void event_destroy(core_t *c);
void event_input(core_t *c, flux_msg_t *msg);                      /* taken over */
int event_publish_root(core_t *c, flux_msg_t *msg, uint64_t *seq); /* taken over */
int event_publish_json(core_t *c, const char *topic, const char *json);
void event_set_last(core_t *c, uint64_t seq); /* welcomed: what came before is of no concern */
void event_replay(core_t *c, struct peer *child, uint64_t from);
void event_replayed(core_t *c, uint64_t last);
void event_skip(core_t *c, uint64_t to);
void event_expect(core_t *c, uint64_t last); /* the parent has sent events up to `last` */
void event_cut(core_t *c, uint64_t last);    /* none comes after it, or (0) after what has come */
int event_subscribe(endpoint_t *ep, const char *prefix);
int event_unsubscribe(endpoint_t *ep, const char *prefix);
void event_unsubscribe_all(endpoint_t *ep);

/* core_overlay.c */
int overlay_init(core_t *c);
void overlay_destroy(core_t *c);
void overlay_control(core_t *c, struct peer *from, const flux_msg_t *msg);
void overlay_event(core_t *c, const flux_msg_t *event);
struct peer *overlay_tree_peer(core_t *c, uint32_t rank); /* NULL: no tree neighbour */
void overlay_shutdown(core_t *c, int rc, const char *reason);

/* core_service.c */
/* What is asked of rank 0 as broker.shutdown, and told down the tree as overlay.shutdown. */
struct shutdown_order {
    int rc;
    const char *reason; /* borrowed from what was decoded */
};
extern const struct flux_schema shutdown_order_schema;
int service_init(core_t *c);
void service_destroy(core_t *c);

#endif

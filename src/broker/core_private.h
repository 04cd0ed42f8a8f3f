/* Declarations that the files of the broker core share.
 *
 *     core.c           life and endpoints
 *     core_route.c     requests and responses
 *     core_inflight.c  pending requests
 *     core_event.c     the order of events
 *     core_join.c      how a session begins
 *     core_overlay.c   neighbors and the state machine
 *     core_live.c      ranks that join, are slow, or drain
 *     core_third.c     two brokers that do not hear each other, while others hear both
 *     core_return.c    ranks that come back
 *     core_successor.c the successor on the ring, when its rank comes back
 *     core_heal.c      subtrees that have lost the broker above them
 *     core_moves.c     who is below whom
 *     core_census.c    the incarnation of each rank
 *     core_stale.c     reports of brokers that are counted as lost
 *     core_view.c      what brokers that have missed events learn
 *     core_admit.c     whether the host of a rank has been added to the session
 *     core_late.c      ranks that join while the broker above them is dead
 *     core_keys.c      public keys of the ranks below
 *     core_cards.c     addresses of ranks that join, for the session map
 *     core_restore.c   subtrees that return to their places
 *     core_change.c    the change of the parent of this broker while both live
 *     core_former.c    earlier parents, which have answers to send
 *     core_spread.c    a broker with too many children
 *     core_service.c   services of the broker itself
 *     core_trace.c     observing messages
 */
#ifndef BROKER_CORE_PRIVATE_H
#define BROKER_CORE_PRIVATE_H

#include "broker_wire.h"
#include "control_wire.h"
#include "core.h"
#include "libflux/dispatch.h"
#include "libflux/future.h"
#include "libflux/log.h"
#include "libflux/overlay_wire.h"
#include "libflux/route.h"
#include "libutil/hmap.h"
#include "libutil/list.h"
#include "sessmap.h"

/* A neighbor: the tree parent, a tree child, or one end of the ring. */
struct peer {
    uint32_t rank;
    enum core_plane plane; /* CORE_TREE or CORE_RING */
    bool is_child;
    bool up;       /* tree: welcomed; ring: usable */
    bool event_up; /* child: its event link is in place */
    bool lost;
    bool gone;             /* child: said goodbye */
    bool leaving;          /* child: shuts down, and the session goes on */
    bool absent;           /* not connected, and the session does not count on its rank */
    bool stale;            /* ring: still connected, but the session counts its rank as lost */
    bool joins;            /* ring: another broker of its rank has connected, but is not up */
    bool former;           /* earlier parent or child: only answers to earlier requests pass */
    bool done;             /* former parent: it knows that no answer is pending */
    bool arriving;         /* child: welcomed, but not released by its earlier parent yet */
    bool late;             /* child: joins here, since the brokers between are down (core_late.c) */
    bool at_once;          /* child: it gets its subtree back, or returns itself, at once */
    bool raised;           /* child, arriving: it was below another child of this broker */
    double since;          /* child: time when it came back; 0: it was always there */
    double due;            /* child: earliest time for its move, or for the return of its subtree */
    double stays;          /* child: time before which it is not given to a host, or is none */
    uint32_t offered;      /* rank that it will give to this broker; 0: none */
    unsigned flaps;        /* child: number of times that it came back and was soon lost again */
    unsigned fails;        /* child: number of its moves that failed in a row, up to a bound */
    double joined;         /* child: time of its welcome in a running session; 0: earlier */
    double waits_since;    /* child: time from which its hello has to wait; 0: it does not */
    unsigned bounces;      /* child: number of times in a row that it joined and was soon lost */
    double not_before;     /* child: time before which it is not welcomed; 0: none */
    struct list_node node; /* former parent: core.formers */
    bool other_term;       /* it has sent a message of another term, which was logged */
    bool fresh;            /* child: adopted; it may not have got its welcome, and try elsewhere */
    bool waited;  /* child: its hello has waited for the end of its earlier way for long enough */
    bool doubted; /* child: it is silent, and others are asked whether they hear it */
    bool vouched; /* child: ... and one does */
    double lived; /* child: time when a broker above said that it lives; 0: none has */
    bool deaf;    /* child: it says that it hears nothing from this broker */
    bool awaits;  /* child: somebody there has subscribed to EVENT_OFFERED */
    bool refused; /* child: it is an orphan, and was refused on this connection */
    bool broken;  /* tree: a control message was lost, and the connection is about to end */
    bool unread;  /* child: its hello was not read, for lack of memory */
    flux_msg_t *hello; /* child: a hello that cannot be answered yet */
    uint32_t asking;   /* child: number of the question whether it may join; 0: none is open */
    bool admitted;     /* child: ... and it may, this time (core_admit.c) */
    uint64_t wants;    /* child: the next event for it from above (core_event.c); 0: none */
    idset_t *await;    /* child: lost ranks without an event that announces the loss; or NULL */
    idset_t *denied; /* child: lost ranks that it reports as moved, and is not believed; or NULL */
    struct list_node to;   /* inflight.to_node: requests sent to this peer */
    struct list_node from; /* inflight.from_node: requests that came from this peer */
    struct list_node held; /* requests that wait until this peer has joined or has room */
    size_t held_count;
    size_t held_bytes;
};

#define CORE_UNREAD_MAX 64

#define INFLIGHT_TAG 4 /* bytes of a match tag in a notice NAME.disconnect */

struct used_service {
    uint32_t nodeid;
    unsigned flags;
    uint8_t *tags; /* when its sender is gone: the match tags of the requests that are pending */
    size_t ntags;
    char name[];
};

/* The requests of the clients of one process, or of one other rank, that wait in the queues of
 * local endpoints.  An account outlives its clients while their requests wait. */
struct account {
    uint32_t number;
    unsigned refs;   /* one per client, and one while requests wait */
    unsigned queued; /* weight of the requests that wait */
    bool choked;     /* too many wait, until half of the limit (of a rank: was logged) */
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
    unsigned inflight; /* unanswered requests from it */
    size_t held_count; /* requests from it that wait for neighbors, and their bytes */
    size_t held_bytes;
    struct account *account; /* account of a client; else NULL */
    struct list_node to;     /* inflight.to_node */
    struct list_node from;   /* inflight.from_node */
    struct list_node subs;   /* struct subscription */
    unsigned nsubs;
    struct list_node sub_node; /* in core.subscribers when subs is not empty */
    uint64_t event_seen;       /* number of the last event that was considered for it */
    hmap_t *used;              /* hash -> struct used_service */
};

struct inflight {
    uint64_t key;
    flux_msg_t *req; /* the request; for a large payload, a response template with its routes */
    struct endpoint *from_ep; /* NULL: the request came from a peer */
    struct peer *from_peer;
    struct endpoint *to_ep; /* NULL: the request went to a peer */
    struct peer *to_peer;
    struct list_node to_node;
    struct list_node from_node;
    double asked;  /* value of the observer for the request; 0: none */
    size_t large;  /* bytes of its payload, if they count in core.kept_large */
    bool answered; /* a stream: a response has passed */
    bool canceled; /* NAME.cancel has passed */
};

#define CORE_ASKED_MAX 64

struct event_log; /* core_event.c */
struct join;      /* core_join.c */
struct late;      /* core_late.c */
struct live;      /* core_live.c */
struct restore;   /* core_restore.c */
struct third;     /* core_third.c */
struct census;    /* core_census.c */

struct core {
    struct core_config cfg;
    flux_reactor_t *r;
    struct core_callbacks cbs;
    void *cbs_arg;
    const struct core_link_ops *link;
    void *link_arg;
    topology_t *topo;
    uint32_t term;        /* term of the root; messages of other terms are refused */
    uint32_t incarnation; /* of this broker; 0: the session has not told yet */
    enum core_state state;
    bool started;

    flux_t *h;
    endpoint_t *self;
    flux_handlers_t *handlers;
    hmap_t *endpoints; /* id -> endpoint */
    hmap_t *accounts;  /* number -> struct account */
    unsigned queued;   /* weight of the waiting requests of clients of other ranks */
    bool several;      /* clients of this rank send at the same time */
    uint32_t last_endpoint;
    hmap_t *services;                  /* name -> endpoint */
    flux_msg_t *asked[CORE_ASKED_MAX]; /* requests for the tree that wait for the welcome */
    unsigned nasked;
    hmap_t *inflight; /* key -> inflight */
    struct inflight *pool;
    size_t pool_count;
    size_t kept_large; /* bytes of large requests that may be sent again */

    struct peer *parent;
    struct peer **children; /* children of the shape, and then adopted ones */
    uint32_t nchildren;
    hmap_t *child_by_rank;
    struct peer ring_next;
    struct peer ring_prev;
    bool ring_next_due;      /* its rank is up again, but the earlier broker is still connected */
    flux_future_t *ring_ask; /* it is asked for its address; or NULL */
    bool ring_ask_holds;     /* ... and requests to it wait for that */
    bool ring_ask_void;      /* ... and was lost since then ... */
    bool ring_ask_due;       /* ... and is up again */

    void (*relief_cb)(void *arg);
    void *relief_arg;
    void (*up_cb)(void *arg); /* ranks are ready, at the root */
    void *up_arg;

    struct list_node subscribers;
    uint64_t subscribers_left; /* number of subscribers that have left: a walk then starts again */
    struct event_log *events;
    /* The parent has been told that somebody here has subscribed to EVENT_OFFERED; the last hello
     * has said so. */
    bool awaited, awaited_hello;

    idset_t *up; /* ranks ready in this subtree (root: in the session) */
    idset_t *lost;
    idset_t *unreported; /* ranks ready here, but not reported to the parent */
    sessmap_t *map;      /* map of the root; NULL at other ranks */
    struct live *live;
    struct third *third;
    struct census *census;
    struct join *join;
    struct late *late;
    bool joined_late; /* the session ran already at the welcome */
    flux_watcher_t *orphan_timer;
    flux_watcher_t *down_timer;
    struct courier *orders; /* requests to the root; NULL until the first */

    /* core_moves.c */
    topology_t *tree;  /* the present tree; NULL: the shape */
    idset_t *moved;    /* ranks with another parent than in the shape */
    hmap_t *move_of;   /* rank -> number of its latest move that is known here */
    uint32_t moves;    /* number of moves of this broker */
    idset_t *unplaced; /* the root: lost guests that were not put back yet */
    idset_t *untold;   /* have moved below this broker, and no event has told that yet */
    idset_t *told;     /* ranks below, whose last moves are in the last hello */

    /* core_heal.c */
    json_t *above;       /* cards of the parent and its ancestors; NULL: none */
    json_t *cards;       /* cards of this broker and its ancestors, for its children; NULL: none */
    bool healing;        /* the parent is lost: this broker looks for another one ... */
    size_t heal_at;      /* ... with this card of `above` next */
    idset_t *heal_below; /* ranks that the last hello of this broker named */
    idset_t *pending;    /* ranks below a lost child that may connect here; NULL: none */
    struct peer unsettled; /* `held`: requests to pending or expected ranks */
    idset_t *unheard;      /* ranks reported as lost by this broker, but not by an event yet */
    idset_t *elsewhere;    /* have moved out of this subtree, or had before this broker joined */
    flux_watcher_t *heal_timer;
    flux_watcher_t *pending_timer;
    flux_watcher_t *broken_timer;        /* control messages were lost (core_broken.c) */
    flux_msg_t *unread[CORE_UNREAD_MAX]; /* events of the session */
    unsigned nunread;
    json_t *moves_again;           /* of a welcome */
    flux_watcher_t *passage_timer; /* for orphans whose hello waits */

    /* core_stale.c */
    idset_t *joined; /* ranks ready here that no event has announced as up yet */
    idset_t *named;  /* ranks that the parent was told are up here, and no event as lost since */

    /* core_restore.c */
    struct restore *restore;
    struct change *change;        /* core_change.c */
    struct peer *second;          /* the next parent; NULL: none */
    struct list_node formers;     /* struct peer: earlier parents, which have answers to send */
    flux_watcher_t *former_timer; /* one of them has answered all requests */
    idset_t *expected;            /* ranks that will be below this broker; NULL: none */

    hmap_t *keys;      /* core_keys.c: rank (this one or below) -> its public key; root: empty */
    hmap_t *key_users; /* key -> number of these ranks that have it */
    hmap_t *addresses; /* core_cards.c: rank in `joined` -> where it listens; the root: empty */

    bool down_asked;     /* the root was asked to shut down the session */
    bool held;           /* the owner will continue the shutdown */
    bool down_announced; /* the parent has announced the shutdown of the session */
    uint32_t admit_last; /* number of the last question whether a child may join (core_admit.c) */
    bool alone;          /* this broker leaves, without those below it */
    bool parent_left;    /* the parent has announced that it leaves, with its subtree ... */
    bool left_for_good;  /* ... and that this is not a failure */
    bool counted_lost;   /* the session counts this rank as lost, and it has learned that */
    bool down_local;     /* second phase of CORE_DOWN */
    int exit_code;

    core_trace_f trace;
    void *trace_arg;

    uint64_t hash_seed;
    uint64_t view;    /* newest event whose contents the parent has told (core_view.c) */
    uint64_t session; /* names this start of the session; 0: no welcome yet */
    struct core_stats stats;
};

/* core.c */
void core_log(core_t *c, int level, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
void core_set_state(core_t *c, enum core_state state);

/* core_route.c */
void route_request(core_t *c, flux_msg_t *msg, endpoint_t *from_ep, struct peer *from_peer);
void route_response(core_t *c, flux_msg_t *msg);
void route_error(core_t *c, const flux_msg_t *req, int errnum, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
/* Send a request once more, by another way: to the parent (`up`), or to another neighbor. */
void route_again(core_t *c, flux_msg_t *msg, endpoint_t *from_ep, struct peer *from_peer, bool up);
/* account_join() finds or creates the account of a number: a process id, ACCOUNT_OWN + the id of a
 * client, or CORE_ACCOUNT_RANK + a rank.  Returns NULL with ENOMEM. */
#define ACCOUNT_OWN 0x80000000u
struct account *account_join(core_t *c, uint32_t number);
void account_leave(core_t *c, struct account *a); /* NULL-safe */
/* Send the requests that are held for a neighbor again, which has joined, has room, or is lost. */
void route_held(core_t *c, struct peer *p);
void route_held_destroy(core_t *c, struct peer *p);
/* Forget the requests that are held for other neighbors on behalf of a neighbor that is gone: their
 * answers have no receiver. */
void route_held_forget(core_t *c, const struct peer *from);
/* The same for requests of senders at these ranks, which are lost: services would get them after
 * the event that announces the loss. */
void route_held_forget_ranks(core_t *c, const idset_t *ranks);
/* Return the rank of the sender of a request; FLUX_NODEID_ANY: it is at this broker. */
uint32_t route_sender(const flux_msg_t *msg);
/* Returns whether a request of this neighbor is held for another one. */
bool route_holds_from(const core_t *c, const struct peer *from);
int route_control(core_t *c, struct peer *p, flux_msg_t *msg); /* taken over */
/* Notify a service that the way from the sender described by the routes of `like` is lost. */
void route_disconnect(core_t *c, const flux_msg_t *like, endpoint_t *to_ep, struct peer *to_peer);
/* Return the length of the service part of a topic. */
size_t topic_service_len(const char *topic);

/* core_inflight.c */
struct inflight *inflight_add(core_t *c, flux_msg_t *req, endpoint_t *from_ep,
                              struct peer *from_peer, endpoint_t *to_ep, struct peer *to_peer);
struct inflight *inflight_find(core_t *c, const flux_msg_t *msg);
void inflight_remove(core_t *c, struct inflight *f);
void inflight_pool_destroy(core_t *c);
/* Fail all requests in list `to` with an error. */
void inflight_fail(core_t *c, struct list_node *to, int errnum, const char *text);
/* Move the requests that may be sent again from a list `to` to `again`, for inflight_again(). */
void inflight_set_aside(struct list_node *to, struct list_node *again);
void inflight_again(core_t *c, struct list_node *again);
/* Returns whether this broker leaves the session, and the neighbor from which this request came
 * sends it again another way. */
bool inflight_sent_again(const core_t *c, const flux_msg_t *req, const struct peer *from);
/* Forget such requests in list `to`. */
void inflight_leave(core_t *c, struct list_node *to);
/* A notice NAME.disconnect from a neighbor is about to be passed on: forget the requests of its
 * sender that it names. */
void inflight_ended(core_t *c, const flux_msg_t *notice, const struct peer *from,
                    const endpoint_t *to_ep, const struct peer *to_peer);
/* A request has passed that may be the cancel of another one of its sender. */
void inflight_canceled(core_t *c, const flux_msg_t *msg, const endpoint_t *from_ep,
                       const struct peer *from_peer);
/* Forget all requests in list `from`.  `notify`: send their services disconnect notices. */
void inflight_forget(core_t *c, struct list_node *from, bool notify);
/* Forget the requests of senders at these ranks, with notices. */
void inflight_forget_ranks(core_t *c, struct list_node *from, const idset_t *ranks);

/* core_event.c */
int event_init(core_t *c);
void event_destroy(core_t *c);
void event_input(core_t *c, flux_msg_t *msg);                      /* taken over */
int event_publish_root(core_t *c, flux_msg_t *msg, uint64_t *seq); /* taken over */
int event_publish_json(core_t *c, const char *topic, const char *json);
void event_set_last(core_t *c, uint64_t seq); /* at the welcome: earlier events do not matter */
void event_replay(core_t *c, struct peer *child, uint64_t from);
void event_replayed(core_t *c, uint64_t last);
void event_skip(core_t *c, const struct control_skip *skip);
void event_moving(core_t *c); /* the present parent will not answer any longer */
void event_moved(core_t *c,
                 uint64_t last); /* there is another parent, which has sent events to `last` */
void event_expect(core_t *c, uint64_t last); /* the parent has sent events up to `last` */
void event_cut(core_t *c, uint64_t last);    /* no event follows `last` (0: the newest one) */
int event_subscribe(endpoint_t *ep, const char *prefix);
int event_unsubscribe(endpoint_t *ep, const char *prefix);
void event_unsubscribe_all(endpoint_t *ep);
bool event_has_subscriber(const core_t *c, const char *topic); /* at this broker */

/* Handle a control message, decoded as a struct of control_wire.h. */
typedef void control_handler(core_t *c, struct peer *from, const void *in, const flux_msg_t *msg);

/* core_join.c */
int join_init(core_t *c);
void join_destroy(core_t *c);
void join_stop(core_t *c); /* the session goes down */
/* These ranks are ready; `again`: of these, those that were up before (core_stale.c), or NULL.
 * Returns -1 without memory: nothing is noted then. */
int join_ready(core_t *c, const idset_t *ranks, const idset_t *again);
void join_report(core_t *c); /* send the report that is due */
void join_lost(core_t *c);   /* ranks are lost: check whether others are awaited */
void join_run(core_t *c);    /* the session runs, and this broker with it */
/* Returns whether this broker is the root, and the session does not run for lack of ranks although
 * boot_timeout has passed. */
bool join_lacks_ranks(const core_t *c);
void join_hello_again(core_t *c, struct peer *p); /* handle the hello that was kept, if any */
/* Send a child away.  `elsewhere`: another broker may welcome it, or this one later. */
void join_refuse(core_t *c, struct peer *p, const char *reason, bool elsewhere);
/* A child that was up is lost: hold it off if that happens repeatedly. */
void join_bounced(core_t *c, struct peer *p);
void join_fill_hello(core_t *c, struct control_hello *h); /* common fields of hellos */
control_handler join_hello_cb, join_welcome_cb, join_refused_cb;

/* core_overlay.c */
int overlay_init(core_t *c);
void overlay_destroy(core_t *c);
void overlay_control(core_t *c, struct peer *from, const flux_msg_t *msg);
/* Send a control message (control_wire.h), encoded from the struct `in`.  Returns 0, or -1 after
 * logging. */
int overlay_send(core_t *c, struct peer *p, const struct flux_method *m, const void *in);
void overlay_event(core_t *c, const flux_msg_t *event);
/* Returns -1 if the event cannot be read for lack of memory, and has changed nothing. */
int overlay_read_event(core_t *c, const flux_msg_t *event);
bool overlay_is_leaving(const core_t *c, uint32_t child);
struct peer *overlay_tree_peer(core_t *c, uint32_t rank); /* NULL: not a tree neighbor */
void overlay_shutdown(core_t *c, int rc, const char *reason);
/* The session counts this broker as lost: it leaves, and those below it connect to a broker above,
 * as after its death, even while it has no parent. */
void overlay_counted_lost(core_t *c, const char *reason);

/* core_offer.c */
bool offer_awaited(const core_t *c); /* at this broker or below it */
void offer_tell(core_t *c);          /* tell the parent, if that has changed */
bool offer_in_hello(core_t *c);      /* for a hello */
void offer_again(core_t *c);         /* there is a parent, which had a hello: tell it what is new */
control_handler offer_awaited_cb;

/* core_broken.c */
int broken_init(core_t *c);
void broken_destroy(core_t *c);
/* A control message to or from this neighbor is lost for lack of memory: end the connection soon.
 */
void broken_note(core_t *c, struct peer *p);
/* There is no memory to read an event of the session, or an earlier one: try again soon. */
void broken_event(core_t *c, const flux_msg_t *event);
/* ... or to note the moves of a welcome. */
void broken_moves(core_t *c, json_t *list);
/* There is no memory to handle the hello of a child, or the welcome: keep it, and try again. */
void broken_hello(core_t *c, struct peer *p, const flux_msg_t *hello);

/* core_third.c */
int third_init(core_t *c);
void third_destroy(core_t *c);
/* A child has been silent for so long that it is slow, or was heard again. */
void third_slow(core_t *c, struct peer *p, bool slow);
/* The same of the parent. */
void third_parent_slow(core_t *c, bool slow);
/* The connection with a child has ended: returns whether the child lives, as a third broker or the
 * child itself has said, and only the link is bad. */
bool third_lives(const core_t *c, const struct peer *p);
void third_forget(struct peer *p); /* there is another connection with it */
control_handler third_deaf_cb;
control_handler third_unheard_cb;
control_handler third_lives_cb;
/* Handle the requests overlay.heard and overlay.vouch. */
void third_heard_cb(flux_t *h, const flux_msg_t *req, void *arg);
void third_vouch_cb(flux_t *h, const flux_msg_t *req, void *arg);

/* core_live.c */
int live_init(core_t *c);
void live_destroy(core_t *c);
/* Note that this rank below is in this state, according to rank `by`. */
void live_note(core_t *c, uint32_t rank, enum rank_state state, uint32_t by);
/* Note a change that a child has reported. */
void live_input(core_t *c, const idset_t *ranks, const struct overlay_change *change);
void live_begin(core_t *c); /* the session runs: note the children that are not ready yet */
void live_ready(core_t *c, const idset_t *ranks); /* ready: reported by another message */
void live_gone(core_t *c, const idset_t *ranks);  /* they are lost or have left, likewise */
void live_leaving(core_t *c); /* this broker shuts down, and the session continues */
/* After a welcome: the parent may not know the notes of this broker, or know states that are
 * over. */
void live_again(core_t *c);
/* An orphan: answer the welcome. */
void live_arrived(core_t *c);
/* The root: add to the record of verdicts. */
void live_verdict(core_t *c, const idset_t *ranks, enum rank_state state, uint32_t by,
                  const char *why);
json_t *live_verdicts(const core_t *c); /* array of struct overlay_verdict; NULL with ENOMEM */
struct peer *overlay_child_add(core_t *c, uint32_t rank); /* NULL with ENOMEM */
void overlay_peer_init(struct peer *p, uint32_t rank, enum core_plane plane);
/* Record that these ranks are lost, or have left, or are absent, and report it. */
void overlay_ranks_lost(core_t *c, const idset_t *ranks, enum rank_state how, uint32_t by,
                        const char *why);
void overlay_tell_lost(core_t *c, const idset_t *ranks); /* report to the parent, if there is one */
/* There is a parent again, which does not know that these ranks are lost. */
void overlay_caught_up(core_t *c, const idset_t *lost);
/* End the requests to and from this neighbor. */
void overlay_peer_over(core_t *c, struct peer *p, const char *text);

/* core_heal.c */
int heal_init(core_t *c);
void heal_destroy(core_t *c);
bool heal_can(const core_t *c); /* can subtrees move to another parent in this session? */
bool heal_now(const core_t *c); /* ... and may this broker do so in its state? */
/* Handle the loss of the parent.  Returns true if this broker looks for another one. */
bool heal_begin(core_t *c);
/* It has tried the root for long enough, and there is no other broker above: stop.  Returns whether
 * that is so. */
bool heal_without_root(core_t *c);
void heal_next(core_t *c, const char *why); /* the ancestor that was tried cannot be reached */
void heal_over(core_t *c, const struct control_welcome *n); /* ... has welcomed this broker */
/* Stop the search for a parent, and fail the requests that are held. */
void heal_stop(core_t *c);
/* Keep the cards, and the ranks that have moved, from a welcome; at the root both are NULL. */
void heal_welcomed(core_t *c, json_t *above, json_t *moved);
void heal_tell_above(core_t *c); /* pass the cards on to the brokers below, once more */
control_handler heal_above_cb;
/* Handle the loss of a child.  Returns true if only the ranks below it that are not up are lost
 * with it now, and this broker waits for the others. */
bool heal_child_lost(core_t *c, struct peer *p, enum rank_state how, const char *why);
void heal_here(core_t *c, const idset_t *ranks); /* these ranks are in this subtree (again) */
void heal_late(core_t *c); /* this broker has joined late: ranks of its subtree are elsewhere */
/* Returns whether these ranks may be below a child, or another rank below this broker: they belong
 * there, or have moved there.  `moving`: or they are anywhere below this broker, since the report
 * of the move may be lost. */
bool heal_may_report(const core_t *c, uint32_t rank, const idset_t *ranks, bool moving);
/* Return the ranks that are lost with this one: its subtree, without the ranks that have moved out
 * of the subtree of this broker.  (An event may have put a lost rank back into its place in the
 * shape; its orphans wait elsewhere.)  Returns NULL with ENOMEM. */
idset_t *heal_subtree(const core_t *c, uint32_t rank);
bool heal_accepts(core_t *c, struct peer *p, const struct control_hello *h, errmsg_t *why);
/* Returns whether a broker above may know better that a rank is not lost: no event has announced
 * its loss. */
bool heal_doubts(const core_t *c, uint32_t rank);
/* Returns whether an orphan must wait: the way to it leads through another child that is not lost
 * yet. */
bool heal_must_wait(core_t *c, const struct peer *p);
void heal_way_ended(core_t *c, bool late); /* a child is lost, or `late`: check orphans */
void heal_take_over(core_t *c, struct peer *p, const struct control_hello *h);
void heal_not_pending(core_t *c, const idset_t *ranks); /* these ranks are lost, or have arrived */
void heal_settled(core_t *c, const idset_t *ranks);     /* likewise; what is held stays so */
void heal_moved_below(core_t *c, struct peer *p, const struct control_moved *m);
void heal_hello(core_t *c, struct peer *p);
/* Note that the loss of `ranks` was reported to the parent: it is repeated until an event announces
 * it. */
void heal_note_lost(core_t *c, const idset_t *ranks);
/* An event has announced the loss of these ranks: they are not pending any longer. */
void heal_announced(core_t *c, const idset_t *ranks);
/* An event has announced the loss of these ranks; NULL: of all. */
void heal_heard(core_t *c, const idset_t *ranks);

/* core_moves.c */
int moves_init(core_t *c);
void moves_destroy(core_t *c);
const topology_t *overlay_tree(const core_t *c); /* the shape, with the ranks that have moved */
/* Note in the tree that a rank, and all ranks below it, are below this parent.  Returns false
 * without memory, which is logged. */
bool moves_place(core_t *c, uint32_t rank, uint32_t parent);
/* Note a move of this number.  Returns false if it, or a later one of this rank, is known, or
 * without memory. */
bool moves_note(core_t *c, uint32_t rank, uint32_t parent, uint32_t number);
bool moves_apply(core_t *c, const struct control_moved *m); /* likewise */
void moves_note_list(core_t *c, json_t *list);              /* likewise, of each of a list */
/* Return the last move of a rank that is known here. */
struct control_moved moves_last(const core_t *c, uint32_t rank);
/* Return an array of struct control_moved, which the caller releases.  NULL: none, or ENOMEM. */
json_t *moves_list(const core_t *c);
/* Likewise, with ranks that have returned to their places.  NULL: ENOMEM. */
json_t *moves_list_all(const core_t *c);
/* Likewise, those below of which a new parent may not know, to tell it in a hello.  NULL: none, or
 * ENOMEM, which is logged. */
json_t *moves_list_below(core_t *c);
void moves_below(core_t *c, struct peer *child, json_t *list); /* of the hello of a child */
void moves_take(core_t *c, json_t *list);            /* the session counts these ranks as moved */
int moves_event(core_t *c, const flux_msg_t *event); /* as overlay_read_event() */
int moves_up(core_t *c, const idset_t *ranks, uint32_t incarnation); /* according to an event */
/* These ranks have joined below this child: forget where earlier brokers of theirs were. */
void moves_joined(core_t *c, uint32_t child, const idset_t *joined);
void moves_gave_up(core_t *c, uint32_t rank); /* this rank, and those below it, are elsewhere */
void moves_put_back(core_t *c, const idset_t *lost); /* the root: these ranks are lost */
/* Report a move to the parent, if there is one; the root publishes it. */
void moves_report(core_t *c, const struct control_moved *m);
/* Report a move to the parent, and again to each later one until an event tells it. */
void moves_tell(core_t *c, const struct control_moved *m);
/* Another broker reports the move of this rank: report it to each later parent, likewise. */
void moves_remember(core_t *c, uint32_t rank);
void moves_tell_again(core_t *c); /* the same, to a parent: what was not in the last hello */
/* Return the number of the first move of the present incarnation of a rank. */
uint32_t moves_first(const core_t *c, uint32_t rank);
/* Return the number of the latest move of this broker, as in its hello. */
uint32_t moves_number(const core_t *c);
uint32_t moves_next(core_t *c); /* the number of another move of this broker */
/* Return the incarnation that has made the move of this number. */
uint32_t moves_incarnation(uint32_t number);

/* core_census.c: what events, and the welcome, say of all ranks */
int census_init(core_t *c);
void census_destroy(core_t *c);
/* These return -1 without memory, and may be repeated then. */
int census_note(core_t *c, const idset_t *ranks, uint32_t incarnation);
int census_up(core_t *c, const idset_t *ranks);
int census_down(core_t *c, const idset_t *ranks);
uint32_t census_incarnation(const core_t *c, uint32_t rank);
/* Returns whether the session counts the rank as lost, left or absent. */
bool census_is_gone(const core_t *c, uint32_t rank);
/* Returns whether this incarnation of a rank was lost, or has left.  0, one that is not known, was
 * not. */
bool census_is_past(const core_t *c, uint32_t rank, uint32_t incarnation);
const idset_t *census_gone(const core_t *c);
/* The incarnations above 1: an array of struct overlay_incarnation, which the caller releases, and
 * their use in a welcome.  NULL: none, or ENOMEM, which is logged. */
json_t *census_list(const core_t *c);
void census_take(core_t *c, json_t *list);

/* core_admit.c */

/* Keep the hello of a child that has to be admitted, and ask whether it may join.  Returns whether
 * the hello has to wait for the answer. */
bool admit_waits(core_t *c, struct peer *p, const struct control_hello *h, const flux_msg_t *msg);
/* The next hello of this child is another one. */
void admit_forget(struct peer *p);

/* core_late.c */
int late_init(core_t *c);
void late_destroy(core_t *c);
/* This broker has sent its hello to its parent.  Returns whether it may join elsewhere. */
bool late_begin(core_t *c);
void late_stop(core_t *c); /* this broker shuts down */
/* The parent is lost, or does not accept this broker, before the welcome.  Returns true if this
 * broker tries to join elsewhere. */
bool late_next(core_t *c);
void late_welcomed(core_t *c); /* this broker is welcome, at its parent or elsewhere */
/* Returns whether a rank whose place is below another broker may join here; if not, with the
 * reason. */
bool late_accepts(core_t *c, const struct peer *p, errmsg_t *why);
/* Returns whether the loss of the earlier broker of its rank has not been announced yet. */
bool late_must_wait(core_t *c, struct peer *p);
void late_take(core_t *c, struct peer *p); /* it was welcomed */
void late_lost(core_t *c, struct peer *p); /* a child is lost, perhaps one that has joined late */
/* Handle an event which announces that these ranks are not up, or up. */
void late_down(core_t *c, const idset_t *ranks);
void late_up(core_t *c, const idset_t *ranks);
void late_run(core_t *c);     /* the session runs, and this broker with it */
void late_missing(core_t *c); /* the root: boot_timeout has passed */

/* core_restore.c */
int restore_init(core_t *c);
void restore_destroy(core_t *c);
void restore_stop(core_t *c); /* the parent is lost */
void restore_end(core_t *c);  /* this broker shuts down */
/* Determine the next child that returns to its place, and the time. */
void restore_plan(core_t *c);
void restore_taken(core_t *c, struct peer *p); /* a child that has lost its parent was adopted */
/* Handle an event which announces that these ranks came back. */
void restore_back(core_t *c, const idset_t *ranks);
/* Handle the loss of a child, former child, next parent, or former parent.  Returns true if no
 * other handling is necessary.
 */
bool restore_lost(core_t *c, struct peer *p, const char *why);
/* Held requests for a neighbor were sent, or an event has arrived: continue a move that waited for
 * that. */
void restore_drained(core_t *c);
void restore_left(core_t *c, struct peer *p); /* this child says goodbye */
/* Return the second or a former parent of this rank, or NULL. */
struct peer *restore_peer(const core_t *c, uint32_t rank);
bool restore_expects(const core_t *c, uint32_t rank);
/* Handle the hello of an expected rank. */
void restore_hello(core_t *c, struct peer *p, const struct control_hello *h);
control_handler restore_expect_cb, restore_expected_cb, restore_leaving_cb, restore_given_cb,
    restore_arrived_cb;
/* Handle the request overlay.restore. */
void restore_request_cb(flux_t *h, const flux_msg_t *req, void *arg);

/* Can a broker change its parent while both live? */
bool restore_can(const core_t *c);
bool restore_raises(const core_t *c); /* is a child being given to the parent? */
/* Send a message about the parent of a rank. */
void restore_send(core_t *c, struct peer *p, const struct flux_method *m, uint32_t rank,
                  uint32_t parent, uint32_t number);

/* core_change.c */
int change_init(core_t *c);
void change_destroy(core_t *c);
void change_stop(core_t *c); /* the parent is lost, or this broker shuts down */
void change_welcomed(core_t *c, const struct control_welcome *n);
void change_refused(core_t *c, const char *why);
void change_above(core_t *c, json_t *above); /* the next parent has another parent */
/* Note an event of another broker than the parent: it may be the next parent. */
void change_ahead(core_t *c, uint32_t from, uint64_t seq);
void change_drained(core_t *c); /* like restore_drained() */
void change_given(core_t *c, const struct peer *p, const struct control_moved *m);
/* Returns whether the neighbor that was lost was the next parent. */
bool change_lost(core_t *c, const struct peer *p, const char *why);
control_handler change_go_cb;

/* core_former.c */
int former_init(core_t *c);
void former_destroy(core_t *c);
struct peer *former_find(const core_t *c, uint32_t rank); /* NULL: no former parent */
/* Connect to a broker above, beside the parent, until it sends overlay.over.  NULL, with an error
 * message: that is not possible. */
struct peer *former_visit(core_t *c, const struct control_card *card, errmsg_t *err);
/* The connection to a former parent is lost: it is freed. */
void former_lost(core_t *c, struct peer *p, const char *why);
/* This broker is an orphan, and connects to this rank: end the connections to former parents that
 * are that rank, since one connection carries a broker, or may be below it: it forgets what has
 * come from here by another way. */
void former_end_below(core_t *c, uint32_t rank);
void former_answered(core_t *c); /* a request is not pending any longer */
control_handler former_done_cb;

/* core_spread.c */
/* Returns whether this child is connected, and stays. */
bool spread_is_there(const struct peer *p);
/* Returns whether the place of a rank is not below this broker. */
bool spread_is_guest(const core_t *c, uint32_t rank);
/* Returns whether a rank may be below this parent: it is deeper in the shape. */
bool spread_is_deeper(const core_t *c, uint32_t rank, uint32_t parent);
/* Return the broker in which the way to the place of a guest begins, if a broker above this one can
 * give the guest to it, or is that broker; else TOPOLOGY_NONE. */
uint32_t spread_way_back(const core_t *c, uint32_t guest);
/* Return the child to which another one is to be given now, since this broker has too many.  NULL:
 * none, or not before `due`. */
struct peer *spread_host(core_t *c, double *due);
/* Returns whether this child, which cannot return to its place, may be given to a host. */
bool spread_may_go(const core_t *c, const struct peer *p);
/* Seconds for which a child stays that could not be given to a host, at first. */
#define SPREAD_AGAIN 30.

/* core_keys.c */
int keys_init(core_t *c);
void keys_destroy(core_t *c);
void keys_begin(core_t *c); /* the link is there: note the key of this broker */
/* Note the keys of these ranks, which follow one another in `keys`; NULL: keys are not used. */
void keys_note(core_t *c, const idset_t *ranks, const char *keys);
/* Note the key of one rank, unless it is NULL or "". */
void keys_note_one(core_t *c, uint32_t rank, const char *key);
/* Return the keys of these ranks, to be freed.  NULL: keys are not used, or ENOMEM, which is
 * logged. */
char *keys_text(core_t *c, const idset_t *ranks);

/* core_cards.c */
int cards_init(core_t *c);
void cards_destroy(core_t *c);
void cards_begin(core_t *c); /* the link is there: note where this broker listens */
/* Note the addresses of ranks that are reported ready, and have joined; NULL: none are known. */
void cards_note(core_t *c, const idset_t *joined, const char *text);
/* The same for ranks that an orphan has below it: those which are in the set `below`. */
void cards_note_below(core_t *c, const idset_t *below, const char *joined, const char *text);
/* Return the addresses of those of these ranks that are in `joined`, to be freed.  NULL: there are
 * none, or ENOMEM, which is logged. */
char *cards_text(core_t *c, const idset_t *ranks);
void cards_forget(core_t *c, const idset_t *ranks); /* they are not in `joined` any longer */
/* Handle the request overlay.map. */
void cards_map_cb(flux_t *h, const flux_msg_t *req, void *arg);

/* core_return.c */
/* Note which of these ranks, a child and all ranks below, need an event that announces their
 * loss. */
void return_await(core_t *c, struct peer *p, const idset_t *subtree);
/* The loss of these ranks was announced, or will not be, since they live elsewhere. */
void return_settled(core_t *c, const idset_t *ranks);
/* Returns whether it is too early to welcome this child. */
bool return_must_wait(const core_t *c, const struct peer *p, bool moved);
void return_runs(core_t *c); /* this broker is up; it may have joined late */
int return_down(core_t *c, const flux_msg_t *event); /* as overlay_read_event() */
/* Handle overlay.up, as overlay_read_event() does.  `run`: this broker is up, and the session runs.
 */
int return_up(core_t *c, const flux_msg_t *event, bool *run);
/* These ranks have moved elsewhere: what is held for those that were to join here goes on. */
void return_elsewhere(core_t *c, const idset_t *ranks);
/* These ranks are not up; `absent`: they have never been. */
void return_is_down(core_t *c, const idset_t *ranks, bool absent);
/* These ranks are up again; `lost`: all that are not up. */
void return_is_up(core_t *c, const idset_t *ranks, const idset_t *lost);
/* The root: publish that these ranks (the set is emptied), which were not up, are up. */
void return_publish(core_t *c, idset_t *back);

/* core_successor.c */
void successor_destroy(core_t *c);
/* The successor on the ring is lost: connect to the next broker of its rank, if that rank is up. */
void successor_lost(core_t *c);
/* Handle events which announce that these ranks are not up (`absent`: never were), or up. */
void successor_down(core_t *c, const idset_t *ranks, bool absent);
void successor_up(core_t *c, const idset_t *ranks);
/* Handle the request overlay.address. */
void successor_address_cb(flux_t *h, const flux_msg_t *req, void *arg);

/* core_stale.c */
int stale_init(core_t *c);
void stale_destroy(core_t *c);
/* These ranks are ready, and have joined, except those in `again` (NULL: none).  Returns -1 without
 * memory. */
int stale_note(core_t *c, const idset_t *ranks, const idset_t *again);
/* They are not up here any longer: this broker has reported their loss, or has given them away. */
void stale_forget(core_t *c, const idset_t *ranks);
/* Return the text of those ranks that have joined, or that were up before; NULL: there are none. */
char *stale_joined_text(const core_t *c, const idset_t *ranks);
char *stale_again_text(const core_t *c, const idset_t *ranks);
/* Ignore what this child reports of a lost rank, and refuse the requests of the rank. */
void stale_deny(core_t *c, struct peer *p, uint32_t rank);
void stale_allow(struct peer *p, const idset_t *ranks); /* no longer */
/* Remove the ranks that are lost here from those that a child has named, except those in `joined`
 * (NULL: none). */
void stale_drop(core_t *c, struct peer *p, idset_t *ranks, const idset_t *joined);
/* This broker tells its parent, in a hello or later, that these ranks are up below it. */
void stale_named(core_t *c, const idset_t *ranks, bool hello);
void stale_up(core_t *c, const idset_t *ranks); /* an event says that they are up */
void stale_down(core_t *c, const idset_t *ranks);
void stale_run(core_t *c);

/* core_view.c */
/* Tell a child what has happened in events up to `to`, which it does not get.  -1: nothing was
 * sent. */
int view_send(core_t *c, struct peer *child, uint64_t to);
void view_take(core_t *c, const struct control_skip *in);
/* Returns whether this broker knows what the event says. */
bool view_includes(const core_t *c, const flux_msg_t *event);

/* core_trace.c: each is called only when c->trace is not NULL */
/* The origin of a response; all NULL: this broker. */
struct trace_origin {
    const endpoint_t *ep;
    const struct peer *peer;
    double asked;
};
double trace_request(core_t *c, const flux_msg_t *msg, const endpoint_t *from_ep,
                     const struct peer *from_peer, const endpoint_t *to_ep,
                     const struct peer *to_peer);
void trace_response(core_t *c, const flux_msg_t *msg, const struct trace_origin *from,
                    const endpoint_t *to_ep, const struct peer *to_peer);
void trace_event(core_t *c, const flux_msg_t *msg);

/* core_service.c */
int service_init(core_t *c);
void service_destroy(core_t *c);
void service_welcomed(core_t *c); /* answer the requests that have waited for the welcome */

#endif

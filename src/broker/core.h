/* The core of a broker: routing, the order of events, and the life of a session, without threads,
 * sockets or a clock of its own.
 *
 * Purpose: the environment is plugged in.  A link carries messages to neighboring brokers
 * (link/transport.h: UNIX sockets or ZeroMQ in production; memory in a simulation), endpoints are
 * local clients and modules, and the reactor provides time.  All input enters through the
 * core_*_input() and core_peer_*() calls, and all output leaves through the operations of links and
 * endpoints, so a thousand cores can run in one thread.
 *
 * Drawing (session): the three overlays of a session of three brokers.
 *
 *            tree                      events                      ring
 *     requests, responses        from rank 0 to all         requests one way round,
 *                                                           responses the other way
 *           +---+                      +---+
 *           | 0 |                      | 0 |                  +---+     +---+
 *           +---+                      +---+              +-->| 0 |---->| 1 |---+
 *            ^ ^                        | |               |   +---+     +---+   |
 *            | |                        | |               |                     |
 *        +---+ +---+                +---+ +---+           |        +---+        |
 *        |         |                |         |           +--------| 2 |<-------+
 *        v         v                v         v                    +---+
 *      +---+     +---+            +---+     +---+
 *      | 1 |     | 2 |            | 1 |     | 2 |
 *      +---+     +---+            +---+     +---+
 *
 * Thread rules: a core, its link and its endpoints belong to one thread.
 */
#ifndef BROKER_CORE_H
#define BROKER_CORE_H

#include "libflux/handle.h"
#include "libidset/idset.h"
#include "libtopology/topology.h"
#include "sessmap.h"

typedef struct core core_t;
typedef struct endpoint endpoint_t;

/* --- the link: neighbors --- */

enum core_plane {
    CORE_TREE = 0,  /* to or from the tree parent or a tree child */
    CORE_EVENT = 1, /* from the parent to all children */
    CORE_RING = 2,  /* requests to the next rank of the ring, responses to the previous one */
};

struct control_card; /* control_wire.h */

struct core_link_ops {
    /* Send a message to neighbor `rank`.  Returns 0 and takes the message over.  Otherwise returns
     * -1 with EHOSTUNREACH (not a neighbor now) or EAGAIN (its queue is full), and the message
     * still belongs to the caller.  `force`: a response or control message, which may exceed the
     * bound of the queue.  The function must neither call back into the core nor let others change
     * the message. */
    int (*send)(void *arg, enum core_plane plane, uint32_t rank, flux_msg_t *msg, bool force);
    /* Send an event to all children whose event link is up.  The message is not taken over, but the
     * link may take a reference: events do not change after this call. */
    int (*publish)(void *arg, const flux_msg_t *event);
    /* Close the connection to this neighbor in order, for example to a child that said goodbye.
     * May be NULL. */
    void (*drop)(void *arg, enum core_plane plane, uint32_t rank);
    /* Connect again to a lost neighbor to which this broker had connected (CORE_RING), at the
     * address `tree` of its card (NULL: the earlier one) and with the earlier key.  If it is not
     * lost, but an attempt to connect to another address is under way, end that attempt: then
     * core_peer_lost() reports the loss later.  Returns 0, or -1 if that is not possible.  May be
     * NULL. */
    int (*again)(void *arg, enum core_plane plane, uint32_t rank, const char *tree);
    /* May the address of a neighbor be another one when its broker is started again? */
    bool readdress;
    /* Does this link admit a descendant by its public key (core_key_of())? */
    bool by_key;
    /* Get the data that descendants need to connect to this broker when the brokers between are
     * gone; valid until the link ends.  Returns 0 or -1.  NULL: descendants cannot connect. */
    int (*card)(void *arg, struct control_card *card);
    /* Connect to another parent, with its card, instead of the lost one.  If it cannot be reached,
     * core_peer_lost() reports that later.  Returns -1 with errno and an error message.  NULL: as
     * for card(). */
    int (*move)(void *arg, const struct control_card *card, errmsg_t *err);
    /* Connect to a second parent, with its card, beside the present one, and in the same way as
     * move().  drop() ends either connection.  NULL: ranks that have moved do not return. */
    int (*beside)(void *arg, const struct control_card *card, errmsg_t *err);
    /* Make the second parent, which has this rank, the parent from now on.  The earlier parent
     * stays connected until it is dropped.  If another link carries the second parent (link/mixed),
     * this one has no parent then. */
    void (*swap)(void *arg, uint32_t rank);
    /* Send no further events to this child, which gets them from another parent. */
    void (*quiet)(void *arg, uint32_t rank);
    /* Returns whether the connection to this neighbor, to which this broker connects, has been
     * made.  NULL: a broker joins at its parent only. */
    bool (*reached)(void *arg, enum core_plane plane, uint32_t rank);
    /* Returns the number of seconds since something has come from this neighbor, or -1 if it is not
     * connected.  NULL: that is not known. */
    double (*heard)(void *arg, enum core_plane plane, uint32_t rank);
    /* The largest number of bytes that have ever waited for one neighbor.  May be NULL. */
    size_t (*peak)(void *arg);

    /* Setup and destruction, for the owner of the broker: the core calls none of these functions.
     * A link that is set up in another way leaves them NULL.  They return -1 with errno and an
     * error message. */

    /* Listen for children and for the ring predecessor.  The addresses may contain wildcards. */
    int (*bind)(void *arg, const char *tree_uri, const char *event_uri, errmsg_t *err);
    /* The bound addresses, with wildcards resolved, for the neighbors that connect. */
    const char *(*tree_uri)(void *arg);
    const char *(*event_uri)(void *arg);
    /* Create named sockets again if their files were removed.  Returns 1 if it has created some,
     * else 0. */
    int (*rebind)(void *arg, errmsg_t *err);
    /* Allow this neighbor, which owns `public_key`, to connect.  Brokers that were not allowed are
     * refused. */
    int (*allow)(void *arg, uint32_t rank, const char *public_key, errmsg_t *err);
    /* CORE_TREE: connect to the parent, and to its events.  CORE_RING: connect to the ring
     * successor.  The key is NULL without CURVE.  An address "" is not known yet: the core is told
     * that the neighbor is lost; again() names the address of the ring successor.  A link without
     * `readdress` does not need to know such neighbors. */
    int (*connect)(void *arg, enum core_plane plane, uint32_t rank, const char *tree_uri,
                   const char *event_uri, const char *public_key, errmsg_t *err);
    /* Plug the link into the core and start it. */
    int (*start)(void *arg, errmsg_t *err);
    /* When the session runs: log how neighbors are connected, and end the parts of the link that no
     * neighbor needs.  May be NULL. */
    void (*running)(void *arg);
    /* NULL-safe, keeps errno.  Goodbyes that wait are still sent, for at most a second. */
    void (*destroy)(void *arg);
};

/* --- states and callbacks --- */

/* state         what happens                                     left when (by)
 * CORE_JOIN     hello was sent to the parent                     the welcome came (wired)
 * CORE_WIRED    waits for core_local_ready() and all children    the whole subtree is ready
 *                                                                (check_run, join_report), or the
 *                                                                session runs (join_run)
 * CORE_READY    the subtree was reported to the parent           the root publishes overlay.run
 *                                                                (join_run)
 * CORE_RUN      serves the session                               shutdown by the root, or orphaned
 * CORE_DOWN     children first, then modules, then goodbye       core_local_down_done()
 * CORE_EXIT     over; the owner ends the process                 never
 * Each of the first four ends by a shutdown, too (go_down).
 * Clients and modules are served from CORE_JOIN on; upstream requests are held until CORE_WIRED.
 */
enum core_state { CORE_JOIN, CORE_WIRED, CORE_READY, CORE_RUN, CORE_DOWN, CORE_EXIT };

#define CORE_KEY_SIZE 41

struct core_callbacks {
    void (*state)(core_t *c, enum core_state state, void *arg);
    /* Called at the root in CORE_RUN, when shutdown is requested for the first time.  Returns true
     * if the owner has work to do first, and calls core_shutdown_now() later; until then the
     * session keeps running.  May be NULL. */
    bool (*hold)(core_t *c, int rc, const char *reason, void *arg);
    /* Get the public key, in Z85, of a rank below this broker that has reported none.  Returns
     * false if it is not known.  May be NULL. */
    bool (*key)(core_t *c, uint32_t rank, char key[CORE_KEY_SIZE], void *arg);
    /* Find out whether a broker on this host may join below this one at `rank`, which is not one of
     * those that have a host from the start (core_config.named): call core_admitted() with the
     * number, now or later.  NULL: it may. */
    void (*admit)(core_t *c, uint32_t rank, const char *host, uint32_t number, void *arg);
    /* Log a message. */
    void (*log)(core_t *c, int level, const char *text, void *arg);
};

struct core_config {
    uint32_t rank;
    uint32_t size;
    const char *topology; /* specification of libtopology */
    uint32_t userid;      /* owner of the session */
    uint64_t seed;
    /* Seconds after which a broker without a welcome gives up; the root reports the missing ranks,
     * and keeps waiting. */
    double join_timeout;
    /* Seconds that the root waits for all ranks; then `quorum` ranks are enough.  0: no limit. */
    double boot_timeout;
    bool boot_default; /* boot_timeout was not set, and is what a quorum implies */
    uint32_t quorum;
    uint32_t expected;     /* the session begins without the ranks from this one on; 0: with all */
    uint32_t named;        /* a broker of a rank from this one on has to be admitted; 0: none has */
    const char *host;      /* name of this host, for the parent; not copied; NULL: not told */
    double orphan_timeout; /* seconds for which a broker without a parent keeps running */
    /* Seconds for the ranks below a lost broker to connect to a broker above it; 0: they are lost
     * with it. */
    double heal_timeout;
    /* Seconds that a broker that came back has to stay before it gets its subtree back; 0: only on
     * request (overlay.restore). */
    double settle;
    /* A broker with more children gives those that are not in their places to its other children.
     * 0: no limit. */
    uint32_t fanout_max;
    double shutdown_grace; /* seconds to wait for each level of children at shutdown */
    double beat;           /* seconds between reports of ranks that join, are slow, or drain */
    size_t event_buffer;   /* bytes of past events kept for children that have missed some */
    size_t event_backlog;  /* bytes kept while a child does not keep up with events */
    unsigned inflight_max; /* outstanding requests per endpoint */
};
void core_config_init(struct core_config *cfg); /* defaults */

/* NULL with errno and an error message.  `r` is not taken over. */
core_t *core_create(const struct core_config *cfg, flux_reactor_t *r,
                    const struct core_callbacks *cbs, void *arg, errmsg_t *err);
void core_destroy(core_t *c); /* NULL-safe, keeps errno */

/* Plug in the link, before core_start(). */
void core_set_link(core_t *c, const struct core_link_ops *ops, void *arg);
/* Before core_start(): add the card of the parent, and then those of its ancestors, the nearest
 * first, where this broker joins if those before are dead (the card is copied).  Returns 0, or -1
 * with ENOMEM. */
int core_ancestor_add(core_t *c, const struct control_card *card);
/* Send hello to the parent (the link must be able to carry it), or begin as the root. */
int core_start(core_t *c);
/* Log a message as the core does: link and boot do not have other access to the log. */
void core_say(core_t *c, int level, const char *text);
/* Answer the callback admit() with its number: 0, or an errno and the reason for the child.
 * EHOSTUNREACH and ETIMEDOUT: nobody could be asked, so the child tries again. */
void core_admitted(core_t *c, uint32_t rank, uint32_t number, int errnum, const char *why);
/* Report that the local modules are loaded: this rank is ready. */
void core_local_ready(core_t *c);
/* Begin an orderly shutdown of the whole session with exit code `rc`.  Any rank may call this
 * function: it forwards the request to the root. */
void core_shutdown(core_t *c, int rc, const char *reason);
/* Returns whether this broker can leave without the ranks below it, since these connect to the next
 * broker above. */
bool core_leaves_alone(const core_t *c);
/* Report that this rank, and the ready ranks below that leave with it, are about to leave: they are
 * in the state draining. */
void core_draining(core_t *c);
/* Leave the session, while it continues: shut down this rank with exit code `rc`, and the ranks
 * below it first, unless it leaves alone.  Not for rank 0. */
void core_leave(core_t *c, int rc, const char *reason);
/* Continue the shutdown that the `hold` callback held back, with its exit code. */
void core_shutdown_now(core_t *c);
/* When all children are gone in CORE_DOWN, the state callback is called a second time with
 * CORE_DOWN.  The owner then unloads its modules, and calls this function. */
void core_local_down_done(core_t *c);

/* --- input from the link --- */

/* Take a message from a neighbor (taken over).  Neighbors are trusted to be brokers of this
 * session, since the link has authenticated them, but not to be free of errors: bad messages are
 * logged and dropped. */
void core_link_input(core_t *c, enum core_plane plane, uint32_t from, flux_msg_t *msg);
/* Report that the event link of child `rank` is in place: events published from now on reach it. */
void core_child_event_up(core_t *c, uint32_t rank);
/* Report that a child does not keep up with its events: for a while, the core keeps more events,
 * and tells the children which events they should have.  `skipped`: events were sent without
 * waiting for that child any longer. */
void core_event_slow(core_t *c, bool skipped);
/* Report that a neighbor is gone.  Requests in flight to it end with EHOSTUNREACH; requests from it
 * are canceled. */
void core_peer_lost(core_t *c, enum core_plane plane, uint32_t rank, const char *why);
/* Report that rank `by`, the successor on the ring, refuses this broker since another one of its
 * rank is connected to it.  A root that has not begun a session yet shuts down: it would begin a
 * second one. */
void core_rank_taken(core_t *c, uint32_t by);
/* Report, before its first message, that a broker of the rank of a neighbor which was lost, or has
 * left, has connected again (a tree child, or the predecessor on the ring). */
void core_peer_back(core_t *c, enum core_plane plane, uint32_t rank);
/* A broker of this rank, which is not a neighbor by the shape, connects as a child: with the ticket
 * on the card of this broker, or with the key of its rank.  Returns true if it is admitted; it is a
 * child from then on. */
bool core_peer_adopt(core_t *c, uint32_t rank);
/* Returns whether a broker of another place than below this one may become a child, even if none is
 * below this one in the shape. */
bool core_hosts(const core_t *c);
/* Return the public key of a rank below this broker, in Z85, as the brokers between have reported
 * it, or NULL if it is not known. */
const char *core_key_of(const core_t *c, uint32_t rank);
/* Returns whether this is the public key of a rank below this broker. */
bool core_has_key(const core_t *c, const char *key);
/* Returns whether another broker may take the place of this neighbor although it is connected: the
 * session counts its rank as lost. */
bool core_peer_stale(const core_t *c, enum core_plane plane, uint32_t rank);
/* Report that this neighbor has been silent for so long that it is slow, or that it has been
 * received again. */
void core_peer_slow(core_t *c, enum core_plane plane, uint32_t rank, bool slow);
/* Returns whether silence of this neighbor does not mean that it is dead.  True for rank 0, whose
 * loss would end the session, and when a broker may be busy with its modules: while this broker or
 * a child joins or leaves, and on the ring, while another broker of the rank joins. */
bool core_peer_patient(const core_t *c, enum core_plane plane, uint32_t rank);
/* Report that the queue for a neighbor that returned EAGAIN has room again. */
void core_peer_writable(core_t *c, uint32_t rank);

/* Returns true for a notice by a broker or module that a client is gone, or does not want an answer
 * any longer.  Such a notice is sent once, and its loss would not be detected, so only a bound of
 * its own applies.  Clients cannot flood with such notices, because they lack the role. */
bool core_must_arrive(const flux_msg_t *msg);

/* Returns true when too many messages of this endpoint wait for neighbors or modules that do not
 * keep up: the caller should pause reading from it.  Other endpoints are not affected. */
bool core_endpoint_congested(const endpoint_t *ep);
/* Set whether several clients send at the same time.  The queues then hold fewer requests of each
 * client, so that a module is not busy with one client for long before it gets the requests of
 * another. */
void core_set_several(core_t *c, bool several);
/* Call back whenever core_endpoint_congested() becomes false for an endpoint.  NULL: no callback.
 * The callback may be called from inside any function of the core, so it must only make a note. */
void core_on_relief(core_t *c, void (*cb)(void *arg), void *arg);
/* At the root, call back whenever ranks have become ready (core_ranks_up()).  NULL: no callback. */
void core_on_up(core_t *c, void (*cb)(void *arg), void *arg);

/* --- local endpoints: clients and modules --- */

struct endpoint_ops {
    /* Deliver a message, and take it over.  This must not fail for responses: an endpoint whose
     * reader is too slow removes itself. */
    void (*send)(void *arg, flux_msg_t *msg);
    /* Deliver a client's request charged to account `from`, if the endpoint handles it later: the
     * endpoint then calls core_endpoint_taken().  Returns 0, or -1 when the request was refused
     * (and answered).  NULL: send() is used. */
    int (*queue)(void *arg, flux_msg_t *msg, uint32_t from);
};
/* The account of all clients of another rank.  Other accounts belong to local processes. */
#define CORE_ACCOUNT_RANK 0x40000000u /* or'ed with the rank */
/* Return the weight of a request while it waits in the queue of an endpoint. */
unsigned core_request_weight(const flux_msg_t *msg);
/* Report that requests charged to account `from`, of this total weight, do not wait any longer. */
void core_endpoint_taken(core_t *c, uint32_t from, unsigned weight);
/* A client that is not read because too many of its requests wait is read again, at the latest,
 * when their weight has fallen to this number.  While the requests of all clients together weigh no
 * more, core_endpoint_taken() may be called late. */
#define CORE_QUEUED_LOW 8

enum endpoint_kind { ENDPOINT_CLIENT, ENDPOINT_MODULE, ENDPOINT_BROKER };

/* Add an endpoint.  Messages from it are stamped with `userid` and `rolemask`.  `name` is for logs.
 * Returns NULL with ENOMEM. */
endpoint_t *core_endpoint_add(core_t *c, enum endpoint_kind kind, const char *name, uint32_t userid,
                              uint32_t rolemask, const struct endpoint_ops *ops, void *arg);
/* Set the process of a client.  All clients of one process share one account of the requests that
 * wait in queues, so further connections of the process yield no more room.  Returns 0, or -1 with
 * ENOMEM. */
int core_endpoint_set_process(endpoint_t *ep, uint32_t pid);
/* Take a message from the endpoint (taken over).  Bad messages are answered with an error where
 * possible.
 */
void core_endpoint_input(endpoint_t *ep, flux_msg_t *msg);
/* Remove an endpoint: its services end, requests that it has not answered fail with `errnum`, and
 * the services that it used get disconnect notices.  NULL-safe. */
void core_endpoint_remove(endpoint_t *ep, int errnum, const char *why);
/* For a reload: `fresh`, which has not sent a message yet, replaces `old`.  It takes over the
 * service names, the number (so that services of other brokers see the same sender, and do not get
 * a disconnect notice), and the unanswered requests, which are delivered again.  Requests that
 * `old` has sent are forgotten.  `whole`: `fresh` has the complete state of `old`: no request is
 * delivered again, and the answers to requests of `old` go to `fresh`. */
void core_endpoint_replace(endpoint_t *old, endpoint_t *fresh, bool whole);
/* Return the number of unanswered requests of this endpoint. */
unsigned core_endpoint_inflight(const endpoint_t *ep);

/* Deliver requests "NAME.*" to `ep`.  Returns -1 with EEXIST or ENOMEM. */
int core_service_add(core_t *c, const char *name, endpoint_t *ep);
/* Deliver requests "NAME.*" to the broker itself, whose handlers are on core_handle(). */
int core_service_add_self(core_t *c, const char *name);

/* --- observing messages --- */

/* An end of the way of a message through this broker. */
struct core_end {
    char name[80];      /* "client N", "module NAME", "broker", "rank N", "subscribers" */
    const char *module; /* NULL: not a module */
};

/* A message on its way: a request that has been handed on, or a response or an event that is about
 * to be. */
struct core_sight {
    const flux_msg_t *msg;
    struct core_end from;
    struct core_end to;
    /* Response: the value that the observer returned for the request; 0: it did not observe the
     * request. */
    double asked;
};

/* Returns a time that is given back with the response. */
typedef double (*core_trace_f)(void *arg, const struct core_sight *sight);

/* Call `cb` for each later request, response and event, except those of the service "trace".  NULL:
 * no callback.  The callback is called from inside the routing of the core, so it must not call
 * functions that send. */
void core_set_trace(core_t *c, core_trace_f cb, void *arg);

/* --- queries --- */

/* The core's own handle: the broker's services are handler tables on it. */
flux_t *core_handle(core_t *c);
enum core_state core_state(const core_t *c);
const char *core_state_name(enum core_state s);
/* Returns whether the session runs, as far as this broker knows.  A broker that joins a running
 * session knows that before it has reached CORE_RUN itself. */
bool core_session_runs(const core_t *c);
uint32_t core_rank(const core_t *c);
bool core_is_root(const core_t *c); /* whether this broker has the role of the root */
uint32_t core_size(const core_t *c);
uint32_t core_userid(const core_t *c);
const topology_t *core_topology(const core_t *c);
flux_reactor_t *core_reactor(core_t *c);
uint64_t core_event_seq(const core_t *c); /* last event accepted */
int core_exit_code(const core_t *c);
/* Returns whether this rank shut down because its parent announced the shutdown of the session. */
bool core_down_announced(const core_t *c);
/* Returns whether it shut down because its parent leaves, or was lost, or as the session counts
 * this rank as lost, while the session continues. */
bool core_parent_gone(const core_t *c);
/* Returns whether it shut down because its parent, or a broker above it, leaves without a
 * failure. */
bool core_left_for_good(const core_t *c);
const idset_t *core_ranks_up(const core_t *c); /* ready ranks known here; complete at the root */
const idset_t *core_ranks_lost(const core_t *c);
const sessmap_t *core_map(const core_t *c); /* the session map at rank 0, else NULL; for tests */

/* Counters, for `flux module stats broker` and for the simulator's messages per operation. */
struct core_stats {
    uint64_t tree_up, tree_down, ring, event_down; /* messages sent to neighbors */
    uint64_t requests, responses, events;          /* routed here */
    uint64_t unreachable, dropped, gaps, replays, events_lost;
    uint64_t inflight;
    uint64_t held_max, held_bytes_max; /* maximum of requests, and bytes, held for one neighbor */
    uint64_t link_bytes_max; /* maximum of bytes that waited in the link for one neighbor */
};
void core_get_stats(const core_t *c, struct core_stats *st);

/* Call `cb` for each request that has passed here, and whose last response has not; at index 0 of
 * its routes is the endpoint of its sender.  `cb` must not call the core.  For tests. */
void core_each_pending(const core_t *c, void (*cb)(const flux_msg_t *req, void *arg), void *arg);

#endif

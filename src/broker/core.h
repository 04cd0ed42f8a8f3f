/* The broker core: routing, event order, and the life of a session, with no thread, socket or clock
 * of its own.
 *
 * What is outside is plugged in: a link carries messages to neighbour brokers (link.h: ZeroMQ in
 * production, memory in a simulation), endpoints are local clients and modules, the reactor gives
 * time.  Everything enters through the core_*_input() and core_peer_*() calls and leaves through
 * the ops, so that a thousand cores can run in one thread.
 *
 * Thread rules: a core and all that is plugged into it belong to one thread.
 */
#ifndef BROKER_CORE_H
#define BROKER_CORE_H

#include "libflux/handle.h"
#include "libidset/idset.h"
#include "libtopology/topology.h"

typedef struct core core_t;
typedef struct endpoint endpoint_t;

/* --- the link: neighbours --- */

enum core_plane {
    CORE_TREE = 0,  /* to or from the tree parent or a tree child */
    CORE_EVENT = 1, /* from the parent to all children */
    CORE_RING = 2,  /* requests to the next rank of the ring, responses to the previous one */
};

struct core_link_ops {
    /* Send to neighbour `rank`.  Takes the message over when it returns 0.  -1 with EHOSTUNREACH
     * (no such neighbour now) or EAGAIN (its queue is full); then the message is still the
     * caller's. `force`: a response or control message, which may exceed the bound of the queue.
     * Must neither call back into the core nor let anybody else change the message. */
    int (*send)(void *arg, enum core_plane plane, uint32_t rank, flux_msg_t *msg, bool force);
    /* Send an event to all children whose event link is up.  Does not take the message over: takes
     * a reference if it must.  Events are not changed after this. */
    int (*publish)(void *arg, const flux_msg_t *event);
    /* Orderly end: cut the connection to this neighbour (a child that said goodbye, was
     * refused...). */
    void (*drop)(void *arg, enum core_plane plane, uint32_t rank);

    /* Setup and end, for the owner of the broker: the core calls none of these.  A link that is set
     * up by other means leaves them NULL.  -1 with errno and a sentence. */

    /* Listen for children and for the ring predecessor; the addresses may hold wildcards. */
    int (*bind)(void *arg, const char *tree_uri, const char *event_uri, errmsg_t *err);
    /* The addresses that were bound, resolved, for others to connect to. */
    const char *(*tree_uri)(void *arg);
    const char *(*event_uri)(void *arg);
    /* Make sockets with names again where somebody has removed them.  1: made some; 0: none. */
    int (*rebind)(void *arg, errmsg_t *err);
    /* A neighbour that may connect here, with its public key: all others are refused. */
    int (*allow)(void *arg, uint32_t rank, const char *public_key, errmsg_t *err);
    /* CORE_TREE: connect to the parent, and to its events; CORE_RING: to the ring successor.  The
     * key is NULL without CURVE. */
    int (*connect)(void *arg, enum core_plane plane, uint32_t rank, const char *tree_uri,
                   const char *event_uri, const char *public_key, errmsg_t *err);
    /* Plug into the core and start. */
    int (*start)(void *arg, errmsg_t *err);
    /* NULL-safe, keeps errno; goodbyes that wait are still sent, for at most a second. */
    void (*destroy)(void *arg);
};

/* --- life --- */

/* state         what happens                                     left when
 * CORE_JOIN     hello sent to the parent, waiting for welcome    welcome (root: at once)
 * CORE_WIRED    waiting for core_local_ready() and all children  whole subtree ready
 * CORE_READY    subtree reported upwards                         root says run
 * CORE_RUN      serving                                          shutdown from root, or orphaned
 * CORE_DOWN     children first, then modules, then goodbye       children gone, local_down_done
 * CORE_EXIT     over; the owner ends the process                 never
 * Clients and modules are served from CORE_JOIN on; requests upstream are held until CORE_WIRED.
 */
enum core_state { CORE_JOIN, CORE_WIRED, CORE_READY, CORE_RUN, CORE_DOWN, CORE_EXIT };

struct core_callbacks {
    void (*state)(core_t *c, enum core_state state, void *arg);
    /* Root in CORE_RUN: the end was asked for, the first time.  True: the owner has something to do
     * before, and calls core_shutdown_now() later; until then the session runs on.  May be NULL. */
    bool (*hold)(core_t *c, int rc, const char *reason, void *arg);
    /* A sentence for the log. */
    void (*log)(core_t *c, int level, const char *text, void *arg);
};

struct core_config {
    uint32_t rank;
    uint32_t size;
    const char *topology; /* libtopology's spec */
    uint32_t userid;      /* owner of the session */
    uint64_t seed;
    double join_timeout;   /* seconds until a broker that is not welcomed gives up; root: until it
                              reports who is missing (and goes on waiting) */
    double orphan_timeout; /* seconds a broker without a parent stays */
    double shutdown_grace; /* seconds to wait for children when going down */
    size_t event_buffer;   /* bytes of past events kept for children that missed some */
    size_t event_backlog;  /* the same while a child does not keep up with them */
    unsigned inflight_max; /* outstanding requests per endpoint */
};
void core_config_init(struct core_config *cfg); /* defaults */

/* NULL with errno and a sentence.  `r` is not taken over. */
core_t *core_create(const struct core_config *cfg, flux_reactor_t *r,
                    const struct core_callbacks *cbs, void *arg, errmsg_t *err);
void core_destroy(core_t *c); /* NULL-safe, keeps errno */

/* Plug in the link, before core_start(). */
void core_set_link(core_t *c, const struct core_link_ops *ops, void *arg);
/* Say hello to the parent (once the link can carry it), or begin as root. */
int core_start(core_t *c);
/* Log a sentence as the core does its own: link and boot have no other way to the log. */
void core_say(core_t *c, int level, const char *text);
/* Local modules are loaded: this rank is ready. */
void core_local_ready(core_t *c);
/* Begin an orderly shutdown of the whole session (any rank; passed on to the root) with exit code
 * `rc`. */
void core_shutdown(core_t *c, int rc, const char *reason);
/* Go on with the shutdown that was held back, with its exit code. */
void core_shutdown_now(core_t *c);
/* In CORE_DOWN with children gone, the state callback comes with CORE_DOWN a second time when it is
 * the owner's turn to unload modules; then it calls this. */
void core_local_down_done(core_t *c);

/* --- input from the link --- */

/* A message from a neighbour (taken over).  Neighbours are trusted to be brokers of this session
 * (the link authenticated them), not to be free of errors: bad messages are logged and dropped. */
void core_link_input(core_t *c, enum core_plane plane, uint32_t from, flux_msg_t *msg);
/* The event link of child `rank` is in place: events published from now on reach it. */
void core_child_event_up(core_t *c, uint32_t rank);
/* A child does not take its events: keep more of them, and tell the children how far they should
 * be, for a while.  `skipped`: they went out without waiting for it any longer. */
void core_event_slow(core_t *c, bool skipped);
/* A neighbour is gone for good.  Requests in flight to it end with EHOSTUNREACH, its own are
 * canceled. */
void core_peer_lost(core_t *c, enum core_plane plane, uint32_t rank, const char *why);
/* The queue towards a neighbour that gave EAGAIN has room again. */
void core_peer_writable(core_t *c, uint32_t rank);

/* A broker or a module says that a client is gone, or wants an answer no more: it is said once, and
 * nobody would notice if it were lost, so no bound but one of its own is for it.  Clients cannot flood
 * with it: they have not this role. */
bool core_must_arrive(const flux_msg_t *msg);

/* Much of what came from this endpoint waits for neighbours or modules that do not keep up: read no more from
 * it for now.  Others have no part in that, and are read on. */
bool core_endpoint_congested(const endpoint_t *ep);
/* Call back each time core_endpoint_congested() has become false again for some endpoint; NULL:
 * nobody.  The callback may be called from inside any function of the core, so it only takes a
 * note. */
void core_on_relief(core_t *c, void (*cb)(void *arg), void *arg);

/* --- local endpoints: clients and modules --- */

struct endpoint_ops {
    /* Deliver; takes the message over.  Must not fail for responses: an endpoint whose reader is
     * too slow gets rid of itself.  */
    void (*send)(void *arg, flux_msg_t *msg);
    /* The same for a client's request on the account `from`, to an endpoint that works on it later: it calls
     * core_endpoint_taken() when it does.  0, or -1 when the request was refused (and answered).  NULL: send()
     * is used. */
    int (*queue)(void *arg, flux_msg_t *msg, uint32_t from);
};
/* The account of all clients of another rank; others are those of processes here. */
#define CORE_ACCOUNT_RANK 0x40000000u /* and the rank */
/* What a request counts while it waits in an endpoint's queue. */
unsigned core_request_weight(const flux_msg_t *msg);
/* Requests on account `from` with this weight do not wait any more. */
void core_endpoint_taken(core_t *c, uint32_t from, unsigned weight);
/* A client that is not read since much of it waits is read again when no more than this does: until
 * more waits, of all clients, nothing depends on being told what was taken. */
#define CORE_QUEUED_LOW 128

enum endpoint_kind { ENDPOINT_CLIENT, ENDPOINT_MODULE, ENDPOINT_BROKER };

/* Messages that come from this endpoint are stamped with `userid` and `rolemask`.  `name` is for
 * logs. NULL with ENOMEM. */
endpoint_t *core_endpoint_add(core_t *c, enum endpoint_kind kind, const char *name, uint32_t userid,
                              uint32_t rolemask, const struct endpoint_ops *ops, void *arg);
/* This client belongs to that process, all of whose clients have one account of what waits in queues: who
 * connects again, or often, gets no more room.  0, or -1 with ENOMEM. */
int core_endpoint_set_process(endpoint_t *ep, uint32_t pid);
/* A message from the endpoint (taken over).  Bad ones are answered with an error where they can be.
 */
void core_endpoint_input(endpoint_t *ep, flux_msg_t *msg);
/* The endpoint is gone: its services end, requests it had not answered end with `errnum`, services
 * it used get disconnect notices.  NULL-safe. */
void core_endpoint_remove(endpoint_t *ep, int errnum, const char *why);
/* For a reload: `fresh`, which has sent nothing yet, takes the place of `old`: its service names,
 * its number (so that services elsewhere see the same sender, and are not told that it is gone),
 * and the requests it had not answered, which are delivered again.  What `old` had asked for is
 * forgotten.  `whole`: `fresh` knows all that `old` knew: nothing is delivered again, and answers to what
 * `old` had asked for come to `fresh`. */
void core_endpoint_replace(endpoint_t *old, endpoint_t *fresh, bool whole);
uint32_t core_endpoint_id(const endpoint_t *ep);
/* Requests this endpoint sent which are not yet answered. */
unsigned core_endpoint_inflight(const endpoint_t *ep);

/* Requests "NAME.*" go to `ep`.  -1 with EEXIST or ENOMEM. */
int core_service_add(core_t *c, const char *name, endpoint_t *ep);
/* The same for a service of the broker itself, whose handlers are on core_handle(). */
int core_service_add_self(core_t *c, const char *name);
void core_service_remove(core_t *c, const char *name);

/* --- looking --- */

/* The core's own handle: broker services are tables of handlers on it. */
flux_t *core_handle(core_t *c);
enum core_state core_state(const core_t *c);
const char *core_state_name(enum core_state s);
uint32_t core_rank(const core_t *c);
uint32_t core_size(const core_t *c);
uint32_t core_userid(const core_t *c);
const topology_t *core_topology(const core_t *c);
flux_reactor_t *core_reactor(core_t *c);
uint64_t core_event_seq(const core_t *c); /* last event accepted */
int core_exit_code(const core_t *c);
/* Did this rank go down because its parent said that the session does? */
bool core_was_told(const core_t *c);
const idset_t *core_ranks_up(const core_t *c); /* ready ranks as known here; complete at the root */
const idset_t *core_ranks_lost(const core_t *c);

/* Counters, for `flux module stats broker` and for the simulator's messages per operation. */
struct core_stats {
    uint64_t tree_up, tree_down, ring, event_down; /* messages sent to neighbours */
    uint64_t requests, responses, events;          /* routed here */
    uint64_t unreachable, dropped, gaps, replays, events_lost;
    uint64_t inflight;
};
void core_get_stats(const core_t *c, struct core_stats *st);

#endif

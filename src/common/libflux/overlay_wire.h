/* Messages of the service "overlay" (src/broker/core_service.c). */
#ifndef FLUX_OVERLAY_WIRE_H
#define FLUX_OVERLAY_WIRE_H

#include "libschema/schema.h"

/* Pointers refer to the decoded message. */
struct overlay_incarnation {
    uint32_t incarnation;
    const char *ranks; /* idset */
};
extern const struct flux_schema overlay_incarnation_schema;

struct overlay_status {
    uint32_t rank;
    uint32_t size;
    const char *state;
    const char *up;   /* idset */
    const char *lost; /* idset: not up any more, or not expected */
    const char *topology;
    /* Rank 0 only. */
    uint64_t map;         /* number of the session map */
    const char *left;     /* those of `lost` that have left in order; NULL: none */
    const char *absent;   /* those of `lost` that were never up; NULL: none */
    json_t *incarnations; /* array of struct overlay_incarnation, of those above 1; NULL: none */
    const char *joining;  /* idset: not up yet, but about to be; NULL: none */
    const char *slow;     /* those of `up` from which nothing has come for a while; NULL: none */
    const char *draining; /* those of `up` that are about to leave; NULL: none */
};
extern const struct flux_schema overlay_status_schema;

struct overlay_shape {
    const char *topology;
    uint32_t size;
    const char *file; /* the tree in topology file format */
    bool moved;       /* it is not that of `topology`: ranks have been moved */
};
extern const struct flux_schema overlay_shape_schema;

/* Event "overlay.run": all ranks are ready or lost. */
struct overlay_run {
    uint64_t up; /* number of ranks that are ready */
};
extern const struct flux_schema overlay_run_schema;

/* Event "overlay.down": these ranks are not up any more, or were never up. */
struct overlay_down {
    const char *ranks; /* idset */
    const char *state; /* "lost", "left" or "absent"; NULL: lost */
    uint64_t map;      /* number of the session map after this change; 0: not given */
};
extern const struct flux_schema overlay_down_schema;

/* Event "overlay.up": these ranks, which were not up, now are. */
struct overlay_up {
    const char *ranks; /* idset */
    uint32_t incarnation;
    const char *lost; /* idset: all ranks that are still not up */
    uint64_t map;
    const char *state; /* state of rank 0 when it published this; NULL: "run" */
};
extern const struct flux_schema overlay_up_schema;

/* The state of ranks, as one rank has noted it. */
struct overlay_change {
    const char *ranks; /* idset */
    const char *state; /* "joining", "slow", "draining"; "up", "lost": the end of such a state */
    uint32_t by;
};
extern const struct flux_schema overlay_change_schema;

/* Event "overlay.state": these ranks are joining, slow or draining, or that state has ended. */
struct overlay_state {
    const char *ranks; /* idset */
    const char *state;
    uint64_t map; /* number of the session map after this change */
};
extern const struct flux_schema overlay_state_schema;

struct overlay_verdict {
    uint64_t number; /* from 1 */
    double time;     /* wall clock of rank 0 */
    const char *ranks;
    const char *state;
    uint32_t by;     /* the rank that reported this */
    const char *why; /* NULL: not given */
};
extern const struct flux_schema overlay_verdict_schema;

struct overlay_history {
    json_t *verdicts; /* array of struct overlay_verdict, the oldest first */
};
extern const struct flux_schema overlay_history_schema;

/* The request overlay.map to rank 0. */
struct overlay_map_since {
    uint64_t since; /* number of the session map that the sender has; 0: none */
    uint32_t first; /* begin with this rank */
};
extern const struct flux_schema overlay_map_since_schema;

/* A rank in the session map. */
struct overlay_place {
    uint32_t rank;
    const char *state;
    uint32_t incarnation; /* 0: it was never up */
    uint32_t parent;      /* 0 for rank 0, which has none */
    /* The card of its latest broker; NULL: not known, or none is used. */
    const char *address;
    const char *event; /* address of its events; NULL: the same address */
    const char *key;   /* public */
};
extern const struct flux_schema overlay_place_schema;

struct overlay_map {
    uint64_t map;   /* number of the session map */
    json_t *places; /* array of struct overlay_place: those that have changed since */
    uint32_t next;  /* those from this rank on are missing: ask again; 0: none is */
};
extern const struct flux_schema overlay_map_schema;

/* The request broker.shutdown to rank 0. */
struct shutdown_order {
    int rc;
    const char *reason;
};
extern const struct flux_schema shutdown_order_schema;

/* The request overlay.leave to a rank other than 0: leave as after SIGTERM. */
struct overlay_leave {
    const char *reason;
    bool restart; /* it is to be started again: exit with OVERLAY_EXIT_AGAIN */
};
#define OVERLAY_EXIT_AGAIN 75
extern const struct flux_schema overlay_leave_schema;

/* The request overlay.restore to a broker that has taken over children of others. */
struct overlay_restore {
    const char *ranks; /* idset: children of that broker, which get their subtrees back */
};
extern const struct flux_schema overlay_restore_schema;

/* The request overlay.sender to the broker of a client or module. */
struct overlay_sender {
    uint32_t endpoint; /* flux_route_value() of the first route of its requests */
};
extern const struct flux_schema overlay_sender_schema;

struct overlay_present {
    bool present; /* false: it has ended, or never was */
};
extern const struct flux_schema overlay_present_schema;

struct overlay_restored {
    const char *moved; /* idset: these are below such a rank now */
    const char *why;   /* why others are not; NULL: all are */
};
extern const struct flux_schema overlay_restored_schema;

/* The requests overlay.heard to a neighbor of `rank` on the ring, and overlay.vouch to its
 * parent. */
struct overlay_heard {
    uint32_t rank;
};
extern const struct flux_schema overlay_heard_schema;

struct overlay_heard_ago {
    double ago; /* seconds since something has come from that rank */
};
extern const struct flux_schema overlay_heard_ago_schema;

/* The request overlay.add to rank 0: start a broker on this host, for a rank that has none yet. */
struct overlay_add {
    const char *host;
};
extern const struct flux_schema overlay_add_schema;

struct overlay_added {
    uint32_t rank; /* that of its broker */
    bool waits;    /* session by configuration file: the host has to start its broker itself */
};
extern const struct flux_schema overlay_added_schema;

/* May the broker on this host have this rank?  The answer is an empty object, or EPERM. */
struct overlay_admit {
    uint32_t rank;
    const char *host;
};
extern const struct flux_schema overlay_admit_schema;

/* The request overlay.address to the successor on the ring. */
struct overlay_address {
    const char *tree; /* where its neighbors connect to it */
};
extern const struct flux_schema overlay_address_schema;

/* Event "overlay.moved": this rank has another parent, since its own is lost; or goes back towards
 * its place; or has that of the shape again, when it is not up. */
struct overlay_moved {
    uint32_t rank;
    uint32_t parent;
    uint32_t move; /* number of this move of the rank: an event with a lower number is late */
    uint64_t map;  /* number of the session map after this change */
};
extern const struct flux_schema overlay_moved_schema;

extern const struct flux_method overlay_methods[];

#endif

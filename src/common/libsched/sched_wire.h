/* Messages of the service "sched" (src/modules/sched), at rank 0.
 *
 * Between the job module and the scheduler:
 *
 *  sched.attach  streaming, {"estimates"?:N}.  The first response has "attached": a number G.  A
 *    later response has it, too, when the scheduler was reloaded, or has restarted for another
 *    reason: it has lost its state, and the job module feeds it from the start, with the new
 *    number.  Other responses have the results of a pass in arrays:
 *      "alloc":    [{"id","R","t","switches"?,"hops"?}]   the job has these resources from now on;
 *                  if there are leaf switches: those of its nodes, as a hostlist, and the mean hops
 *                  between two of its nodes
 *      "deny":     [{"id","note"}]    can never run here, and was removed
 *      "estimate": [[id,t|null,why]]  for the first N jobs of the queue (N: see "estimates" above),
 *                  those that have changed, at most once a second
 *    One job module is attached at a time: another one that attaches ends the stream of the first
 *    with ENODATA.
 *
 *  sched.feed    {"generation":G,...} answered {} when it was applied.  At most SCHED_FEEDS_MAX
 *    may be unanswered, each with at most SCHED_FEED_ENTRIES entries in all its arrays, which are
 *    applied in this order:
 *      "running": [{"id","R","end"?}]  (after "attached") these jobs have resources already; end:
 *                 end of their time limit, 0 or absent: none
 *      "free":    [id]                 resources are returned: exactly once for each alloc and
 *                 running
 *      "add":     [{"id","urgency","t_submit","uid","req"}]   urgency 0: held
 *      "urgency": [[id,u]]
 *      "remove":  [id]                 no longer in the queue
 *      "enabled": bool                 start jobs, or do not; false after "attached", so that
 *                 nothing is allocated before all running jobs were reported
 *    "end" and "t_submit" are times of flux_reactor_now(), which both modules share: they remain
 *    right when the wall clock is set.  All other times are the wall clock's.
 *    An unknown id is ignored in urgency, remove and free, since messages may cross.  So an alloc
 *    may still come for a job after its remove was sent; its R is returned by "free".
 *    A feed of another generation is answered {} and otherwise ignored.  A malformed feed is
 *    answered with EPROTO and an error message, and not applied.
 *
 * For all clients:
 *
 *  sched.why        {"ids":[id..]} -> {"why":[[id,t|null,"reason"]..]}  t: expected start, seconds
 *                   since 1970; at most SCHED_WHY_MAX ids; unknown ones are left out
 *  sched.status     {} -> struct sched_status
 *  sched.resources  {} -> {"allocated":R,"free":R}   free: of nodes that are up and not drained
 *  sched.policy     {"queue"?:name,"node"?:name} -> {"queue","node"}: switch at run time (session
 *                   owner only); a name may have a path and, after ':', an argument
 *  sched.expiration {"expiration":t} -> the same: when the resources expire, 0: never
 *                   (session owner only).  EINVAL: an invalid time
 *
 * Thread rules: constant descriptions, any thread.
 */
#ifndef SCHED_WIRE_H
#define SCHED_WIRE_H

#include "libschema/schema.h"

#define SCHED_FEEDS_MAX 4
#define SCHED_FEED_ENTRIES 1000
#define SCHED_WHY_MAX 2000
#define SCHED_URGENCY_MAX 31

struct sched_attach {
    uint32_t estimates; /* optional: 0 */
};
extern const struct flux_schema sched_attach_schema;

/* Pointers of all these structs are borrowed from the decoded message; absent arrays are NULL. */
struct sched_answer {
    uint64_t attached; /* 0: not in this response */
    json_t *alloc;     /* of struct sched_wire_alloc */
    json_t *deny;      /* of struct sched_wire_deny */
    json_t *estimate;  /* see sched_wire_estimate_decode() */
};
/* Only the second schema leaves out "attached" when it is 0. */
extern const struct flux_schema sched_answer_schema;
extern const struct flux_schema sched_answer_more_schema;

struct sched_wire_alloc {
    uint64_t id;
    json_t *R;
    double t;
    const char *switches; /* optional */
    double hops;          /* optional: 0 */
};
extern const struct flux_schema sched_wire_alloc_schema;

struct sched_wire_deny {
    uint64_t id;
    const char *note;
};
extern const struct flux_schema sched_wire_deny_schema;

struct sched_feed {
    uint64_t generation;
    json_t *running; /* of struct sched_wire_running */
    json_t *free;    /* of ids */
    json_t *add;     /* of struct sched_wire_add */
    json_t *urgency; /* of [id,urgency] */
    json_t *remove;  /* of ids */
    json_t *enabled; /* true or false, or NULL: unchanged */
};
extern const struct flux_schema sched_feed_schema;

struct sched_wire_running {
    uint64_t id;
    json_t *R;
    double end; /* optional: 0 */
};
extern const struct flux_schema sched_wire_running_schema;

struct sched_wire_add {
    uint64_t id;
    uint32_t urgency;
    double t_submit;
    uint32_t uid;
    json_t *req; /* rreq_from_json() */
};
extern const struct flux_schema sched_wire_add_schema;

struct sched_why {
    json_t *ids;
};
extern const struct flux_schema sched_why_schema;

struct sched_reasons {
    json_t *why; /* see sched_wire_estimate_decode() */
};
extern const struct flux_schema sched_reasons_schema;

struct sched_status {
    const char *queue;  /* name of the queue policy */
    const char *node;   /* name of the node policy */
    bool attached;      /* is there a job module? */
    bool enabled;       /* does the job module want jobs to be started? */
    bool ready;         /* is the inventory known? */
    uint64_t queued;    /* including held jobs */
    uint64_t held;      /* urgency 0 */
    uint64_t running;   /* jobs that have resources */
    uint64_t nodes;     /* of the inventory */
    uint64_t nodes_up;  /* up and not drained */
    uint64_t passes;    /* number of passes over the queue that were begun */
    uint64_t slices;    /* slices of these passes */
    uint64_t decisions; /* jobs that were considered */
    uint64_t started;   /* allocations made */
    uint64_t denied;    /* jobs that can never run */
    double busy;        /* seconds spent in passes */
    double rate;        /* decisions per second of that */
    uint64_t reserved;  /* jobs that have a reservation now */
    uint64_t fallbacks; /* failures of a policy, after which the built-in behavior was used */
    double expiration;  /* when the resources expire, seconds since 1970; 0: never */
};
extern const struct flux_schema sched_status_schema;

struct sched_module_stats {
    uint64_t queued, running, shapes, reserved, passes, slices, decisions, planned, started, feeds,
        refused;
};
extern const struct flux_schema sched_module_stats_schema;

struct sched_resources {
    json_t *allocated;
    json_t *free;
};
extern const struct flux_schema sched_resources_schema;

struct sched_expiration {
    double expiration;
};
extern const struct flux_schema sched_expiration_schema;

struct sched_policy_names {
    const char *queue; /* optional */
    const char *node;  /* optional */
};
extern const struct flux_schema sched_policy_schema;

/* An entry [id, t|null, reason] of "estimate" and "why".  t < 0 stands for null. */
json_t *sched_wire_estimate_encode(uint64_t id, double t, const char *reason); /* NULL: ENOMEM */
/* 0, or -1 with EPROTO and an error message; `reason` is borrowed. */
int sched_wire_estimate_decode(const json_t *entry, uint64_t *id, double *t, const char **reason,
                               errmsg_t *err);
/* An entry [id, urgency]. */
int sched_wire_urgency_decode(const json_t *entry, uint64_t *id, uint32_t *urgency, errmsg_t *err);
/* An id as an element of an array. */
int sched_wire_id_decode(const json_t *entry, uint64_t *id, errmsg_t *err);

extern const struct flux_method sched_methods[];

#endif

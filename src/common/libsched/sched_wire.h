/* Messages of the service "sched" (src/modules/sched), at rank 0.
 *
 * Between the job module and the scheduler:
 *
 *  sched.attach  streaming, {"estimates"?:N}.  The first answer has "attached": a number G.  So
 *    has a later one when the scheduler was reloaded, or began anew for another reason: it has
 *    forgotten everything, and the job module feeds it from the start, with the new number.  Other
 *    answers tell in arrays what a pass has brought:
 *      "alloc":    [{"id","R","t","switches"?,"hops"?}]   the job has these resources from now on;
 *                  where there are leaf switches, those that it is on, as a hostlist, and the mean
 *                  hops between two of its nodes
 *      "deny":     [{"id","note"}]    can never run here; forgotten
 *      "estimate": [[id,t|null,why]]  of the first N jobs of the queue (asked for by "estimates"),
 *                  those that have changed, once a second at most
 *    One job module is attached at a time: another one that attaches ends the stream of the first
 *    with ENODATA.
 *
 *  sched.feed    {"generation":G,...} answered {} when it was taken in.  At most SCHED_FEEDS_MAX
 *    may be unanswered, each with at most SCHED_FEED_ENTRIES entries in all its arrays, which are
 *    taken in in this order:
 *      "running": [{"id","R","end"?}]  (after "attached") these jobs have resources already; end:
 *                 when their time is up, 0 or absent: never
 *      "free":    [id]                 resources come back: exactly once for each alloc and running
 *      "add":     [{"id","urgency","t_submit","uid","req"}]   urgency 0: held
 *      "urgency": [[id,u]]
 *      "remove":  [id]                 no longer in the queue
 *      "enabled": bool                 start jobs, or do not; false after "attached", so that
 *                 nothing is allocated before all that runs was reported
 *    "end" and "t_submit" are times of flux_reactor_now(), which both modules share: they remain
 *    right when the wall clock is set.  All other times are the wall clock's.
 *    An id that is not known (any more) is passed over in urgency, remove and free: messages cross.
 *    So an alloc may still come for a job after its remove was sent; its R is given back by "free".
 *    A feed of another generation is answered {} and otherwise ignored.  One that is malformed is
 *    answered with EPROTO and an error message, and nothing of it has been done.
 *
 * For anybody:
 *
 *  sched.why        {"ids":[id..]} -> {"why":[[id,t|null,"reason"]..]}  t: expected start, seconds
 *                   since 1970; at most SCHED_WHY_MAX ids; unknown ones are left out
 *  sched.status     {} -> struct sched_status
 *  sched.resources  {} -> {"allocated":R,"free":R}   free: of nodes that are up and not drained
 *  sched.policy     {"queue"?:name,"node"?:name} -> {"queue","node"}: switch at run time (session
 *                   owner only); a name may carry a path and, after ':', an argument
 *  sched.expiration {"expiration":t} -> the same: the resources are had until then, 0: for good
 *                   (session owner only).  EINVAL: no such time
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

/* Pointers of all these are borrowed from what was decoded; arrays that are absent are NULL. */
struct sched_answer {
    uint64_t attached; /* 0: not in this answer */
    json_t *alloc;     /* of struct sched_wire_alloc */
    json_t *deny;      /* of struct sched_wire_deny */
    json_t *estimate;  /* see sched_wire_estimate_decode() */
};
/* Encoding leaves out "attached" when it is 0 only with the second one. */
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
    json_t *enabled; /* true or false, or NULL: as it was */
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
    bool enabled;       /* does it want jobs started? */
    bool ready;         /* is the inventory known? */
    uint64_t queued;    /* held ones too */
    uint64_t held;      /* urgency 0 */
    uint64_t running;   /* jobs that have resources */
    uint64_t nodes;     /* of the inventory */
    uint64_t nodes_up;  /* up and not drained */
    uint64_t passes;    /* over the queue, begun */
    uint64_t slices;    /* parts they were done in */
    uint64_t decisions; /* jobs looked at: started or not */
    uint64_t started;   /* allocations made */
    uint64_t denied;    /* jobs that can never run */
    double busy;        /* seconds spent in passes */
    double rate;        /* decisions per second of that */
    uint64_t reserved;  /* jobs that have a reservation now */
    uint64_t fallbacks; /* times a policy failed and the built-in one decided */
    double expiration;  /* when the resources go, seconds since 1970; 0: never */
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

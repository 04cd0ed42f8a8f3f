/* Internal interface of the scheduler's parts.
 *
 * map      the nodes, their free resources, and indexes over them
 * claim    resources of one job: held now (running), or from some time on (a reservation)
 * shape    a request without its duration, shared by all jobs of the queue with the same request
 * job      one job of the queue
 * choice   a node found for a job, and the number of slots there
 */
#ifndef SCHED_PRIVATE_H
#define SCHED_PRIVATE_H

#include "libresource/resgraph_switches.h"
#include "libutil/hmap.h"
#include "libutil/list.h"
#include "sched.h"
#include "sched_place.h"
#include "sched_profile.h"
#include "sched_tree.h"
#include "sched_whole.h"

#define SCHED_EPSILON 1e-5 /* times that differ by less are the same */
#define SCHED_OVERDUE 1.   /* a job that overruns its time is assumed to end this long from now */
#define SCHED_NEVER 1e300

struct claim;

struct choice {
    uint32_t node;
    uint32_t slots;
    double from; /* planning: first time at which the node has room */
};

/* The part of a claim on one node.  bits: cores, then gpus (map->cw and map->gw words). */
struct piece {
    struct piece *next, *prev; /* of the same node: held ones by end, reserved ones by start */
    struct claim *claim;
    uint32_t node;
    uint32_t ncores, ngpus;
    bool whole; /* the whole node: no other job is on it */
    uint64_t memory;
    uint64_t bits[];
};

struct claim {
    uint64_t id;
    double start, end;
    struct sched_tree_node by_end;  /* held: in sched->ends */
    struct sched_tree_node by_pool; /* held, with pools: in sched->pool_ends */
    struct job *job;                /* reservation: whose */
    struct sched_plugin_job view;
    rset_t *outside;     /* reported as held, but not in the inventory */
    struct claim *later; /* released during a pass */
    uint64_t *pools;     /* amounts, one for each pool of the map; or NULL */
    uint64_t pass;       /* reservation: last pass that confirmed it */
    uint64_t moved;      /* reservation: sched->moved when it was planned */
    uint64_t ncores;     /* of all pieces; known when it is held or reserved */
    size_t npieces, stride;
    char *pieces;
    enum sched_crossing crosses; /* held, with a policy that selects: its marks; 0: none are set */
    struct sched_whole_job *whole; /* held: its job in the engine for whole nodes */
    bool shares;    /* shares nodes with other claims: the engine cannot release it */
    uint64_t round; /* the last round of sched_exchange.c that has placed it */
};

static inline struct piece *sched_claim_piece(const struct claim *c, size_t i)
{
    return (struct piece *)(void *)(c->pieces + i * c->stride);
}

struct node {
    struct piece *held, *held_last; /* by end */
    struct piece *reserved;         /* by start */
    uint32_t rank;
    uint32_t ncores, ngpus;
    uint32_t free_cores, free_gpus;
    uint32_t nheld;
    uint64_t memory; /* 0: not known, and not limited */
    uint64_t used_memory;
    uint64_t round;   /* the last round of sched_exchange.c that has placed a claim here */
    const char *host; /* of the graph */
    size_t kind;
    bool drained; /* false, for a node that is not usable: it is down */
    bool usable;
};

struct pool {
    const char *name; /* of the graph */
    uint64_t total, used;
};

/* Bitmaps over nodes have `words` words; only usable nodes are in them.  at_least[c * words ..]:
 * nodes with at least c free cores (0: all usable nodes); the same for gpus; empty: nodes without
 * held pieces. */
struct map {
    resgraph_t *graph;
    size_t n, words, cw, gw;
    struct node *nodes;
    uint64_t *all, *free; /* n times cw + gw words */
    uint32_t max_cores, max_gpus;
    uint64_t *at_least, *gpus_at_least, *empty, *touched; /* touched: has reservations */
    uint32_t *ncores_at_least, nempty;
    uint64_t free_cores, free_gpus; /* of usable nodes */
    size_t nusable;
    sched_switches_t *sw;
    struct resgraph_switches names; /* of switches */
    bool alike;                     /* all nodes are of one kind */
    struct pool *pools;
    size_t npools;
    /* Log of nodes whose resources were released, held or reserved: entry i (from 0) is at
     * given[i % given_room], a power of two, until it is overwritten. */
    uint32_t *given;
    uint64_t given_room, ngiven;
    uint64_t nholds; /* incremented with every change of held pieces, and of usable nodes */
};

/* NULL with ENOMEM. */
struct map *sched_map_create(const resgraph_t *g);
void sched_map_destroy(struct map *m);
void sched_map_set_usable(struct map *m, uint32_t n, bool usable);
/* Hold or release a claim's pieces; enter them as reserved, or remove them. */
void sched_map_hold(struct map *m, struct claim *c);
void sched_map_release(struct map *m, struct claim *c);
void sched_map_reserve(struct map *m, struct claim *c);
void sched_map_unreserve(struct map *m, struct claim *c);
/* Move the pieces of a reserved claim, which are all alike, to these nodes, one for each. */
void sched_map_move(struct map *m, struct claim *c, const struct choice *to);
/* The first node where resources of the claim are held already, or NULL. */
const struct node *sched_map_taken(const struct map *m, const struct claim *c);
/* Could the claim be held right now? */
bool sched_map_room(const struct map *m, const struct claim *c);
static inline uint64_t *sched_map_all(const struct map *m, uint32_t n)
{
    return m->all + (size_t)n * (m->cw + m->gw);
}
static inline uint64_t *sched_map_free(const struct map *m, uint32_t n)
{
    return m->free + (size_t)n * (m->cw + m->gw);
}

/* Create a claim with room for this many pieces, zeroed; NULL with ENOMEM. */
struct claim *sched_claim_create(const struct map *m, size_t npieces, bool pools);
void sched_claim_destroy(struct claim *c);
/* Create a claim to R; resources that the map does not have go to ->outside.  NULL with ENOMEM. */
struct claim *sched_claim_from_rset(const struct map *m, uint64_t id, const rset_t *R);
/* Convert a claim to a set of resources; NULL with ENOMEM. */
rset_t *sched_claim_rset(const struct map *m, const struct claim *c);
/* Add bits of a node to a set of resources: 0 or -1. */
int sched_claim_add_to_rset(const struct map *m, rset_t *R, uint32_t n, const uint64_t *bits,
                            uint64_t memory);

struct shape {
    struct rreq req; /* its duration is 0 */
    uint64_t hash;
    struct shape *next; /* of the same hash */
    struct list_node link;
    struct sched_tree jobs;    /* jobs that are not held and have a limit, by order; weight:
                             * duration */
    struct sched_tree endless; /* jobs that are not held and have no limit */
    size_t njobs;              /* including held jobs */
    uint32_t nslots;           /* at least 1 */
    uint32_t cores, gpus;      /* needed: on each node when req.nnodes > 0, else for a slot */
    uint64_t memory;           /* likewise */
    uint32_t *pools;           /* index in the map of each requested pool */
    uint64_t epoch;            /* of the inventory for which the following members were computed */
    uint64_t *allowed;         /* nodes that the request allows; NULL: any */
    bool possible;             /* a job could run if all nodes were up */
    bool available;            /* a job could run on the nodes that are up */
    bool missed;               /* it is not available, and that was logged */
    bool alike;                /* it takes whole nodes, any of them */
    uint64_t grown;            /* sched->grown when the shape did not fit (0: not known) */
    uint64_t counted;          /* sched->change when `count` was determined: */
    uint64_t count;            /* nodes (slots) that a job could use */
    /* Backfill of this pass: */
    double limit;                 /* longer jobs do not fit */
    struct sched_tree_key looked; /* the last job that was considered */
};

struct job {
    uint64_t id;
    uint32_t uid, urgency;
    double t_submit;
    double duration; /* SCHED_HORIZON: no limit */
    bool no_limit;
    struct shape *shape;
    struct sched_tree_node order; /* in sched->order, unless held; weight: limit, or -SCHED_NEVER */
    struct sched_tree_node among; /* in one of the shape's trees, unless held */
    struct list_node link;
    struct claim *reserved;
    struct sched_bound *bound; /* of its reservation, or NULL */
    double estimate;           /* expected start, of sched->estimated */
    uint64_t estimated;
    struct sched_whole_job *whole; /* in the engine for whole nodes */
    double too_late_for;           /* an expiration before which no start was found */
    char *refused;                 /* the reason that admit gave, or NULL */
};

/* See sched_bound.c. */
struct sched_bound {
    uint64_t epoch; /* of the inventory */
    uint64_t seen;  /* of map->given */
    double limit;
    uint32_t count;
    uint64_t bits[]; /* map->words */
};

/* The largest number of cores that can be free once all claims up to this end have ended. */
struct later_free {
    double end;
    uint64_t cores;
};

struct candidate {
    struct sched_tree_key key;
    struct shape *shape;
};

enum phase { PHASE_IDLE, PHASE_ORDER, PHASE_BACKFILL, PHASE_WHOLE };

/* Nodes that will be free at the time of a reservation.  See sched_swap.c. */
struct spare {
    bool known;
    uint64_t id, epoch; /* of the job that has the reservation; of the nodes */
    double when;
    size_t nodes;
};

/* Reservations that may get other nodes.  See sched_exchange.c. */
struct sched_exchange {
    struct sched_profile profile;
    bool valid;
    uint64_t round;
    unsigned failed[2]; /* in this pass, for jobs of whole nodes and others */
    double until; /* sched_exchange_room(): end of the time for which there would have been room */
};

struct sched {
    struct map *map;
    uint64_t epoch;                    /* inventory and state of nodes, from 1 */
    uint64_t grown;                    /* from 1; incremented whenever resources become free */
    uint64_t moved;                    /* incremented then, and when a reservation is given up */
    uint64_t moved_seen, moved_before; /* its values when this pass and the preceding one began */
    hmap_t *jobs;                      /* id -> struct job: the queue */
    hmap_t *held;                      /* id -> struct claim: running jobs */
    hmap_t *shapes;                    /* hash -> struct shape */
    struct list_node all_shapes, all_jobs;
    size_t nshapes;
    struct sched_tree order;
    struct sched_tree ends, pool_ends; /* held claims by end */
    struct claim **reserved;           /* by start */
    size_t nreserved, reserved_room;
    size_t nheld_back; /* jobs with urgency 0 */
    bool enabled;
    double expiration; /* SCHED_NEVER: none */
    double too_late;   /* the time from which it is too late for the job at which the last pass
                      * stopped */
    uint64_t stopped;  /* the id of that job, or 0 */
    unsigned nmissed;  /* shapes for which this pass has logged missing nodes */
    bool ready;        /* the inventory is known */
    bool unheard;      /* the states of nodes are not known at present */
    bool empty_shapes; /* some shape may have lost its last job during the pass */

    const struct sched_policy *queue, *node;
    void *queue_state, *node_state;
    char *queue_arg, *node_arg;
    bool no_priority, no_blocked, no_admit, no_score; /* failed: built-in */
    struct list_node *sweep; /* next job whose priority is computed again */
    double next_sweep;
    void (*log)(const char *text, void *arg);
    void *log_arg;

    enum phase phase;
    bool dirty;
    double now; /* of the pass */
    uint64_t pass;
    struct sched_tree_key cursor;
    bool cursor_set;
    uint32_t pass_reserved;
    size_t work, budget;
    struct claim *later; /* released during the pass */
    struct candidate *heap;
    size_t nheap, heap_room;

    struct sched_tree_key stop; /* backfill considers jobs before this one */
    struct choices *choices;    /* sched_choose.c: for policies that select, else NULL */

    /* See sched_alike.c. */
    sched_whole_t *whole;
    bool whole_valid;  /* it has all jobs that wait or run */
    bool whole_starts; /* a job is being started by it */
    bool whole_forget; /* when it is created again, reservations are not kept */

    struct later_free *frees; /* see sched_bound.c */
    size_t nfrees, frees_room;
    uint64_t frees_holds;  /* map->nholds when they were made */
    bool guessing;         /* estimates: reservations made now are removed at once */
    struct choice *choice; /* room for all nodes, twice */
    struct spare spare;    /* see sched_swap.c */
    struct sched_exchange exchange;
    double *times;
    uint64_t *bits;     /* scratch: the bits of one node */
    uint64_t change;    /* incremented with every change that can move an estimate */
    uint64_t estimated; /* ->change when estimates were made */
    double estimated_at;
    struct sched_stats stats;
};

static inline struct job *sched_job_of_order(struct sched_tree_node *n)
{
    return n ? list_entry(n, struct job, order) : NULL;
}

/* Does the job have to end by a certain time? */
static inline bool sched_job_bounded(const sched_t *s, const struct job *j)
{
    return !j->no_limit && s->expiration < SCHED_NEVER;
}
/* The last moment at which it may start. */
static inline double sched_job_latest(const sched_t *s, const struct job *j)
{
    return sched_job_bounded(s, j) ? s->expiration - j->duration : SCHED_NEVER;
}
/* Is it too late for the job? */
static inline bool sched_job_late(const sched_t *s, const struct job *j, double now)
{
    return now > sched_job_latest(s, j) + SCHED_EPSILON;
}

static inline struct job *sched_job_among(struct sched_tree_node *n)
{
    return n ? list_entry(n, struct job, among) : NULL;
}

/* --- sched.c --- */

void sched_say(sched_t *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Record a change that calls for a pass. */
void sched_touch(sched_t *s);
/* The view of a job that a policy gets. */
void sched_job_view(const struct job *j, struct sched_plugin_job *v);
/* Remove the job from the queue, and free it. */
void sched_job_destroy(sched_t *s, struct job *j);
void sched_job_enqueue(sched_t *s, struct job *j, double now);
void sched_job_dequeue(sched_t *s, struct job *j);
/* Hold the claim.  -1 with ENOMEM. */
int sched_hold(sched_t *s, struct claim *c);
void sched_release(sched_t *s, struct claim *c);
/* Compute priorities again.  True: those of all jobs were computed. */
bool sched_sweep(sched_t *s);

/* --- sched_shape.c --- */

/* The shape of a request, created if it is new; NULL with ENOMEM. */
struct shape *sched_shape_get(sched_t *s, const struct rreq *req);
/* Note that a job of the shape has gone. */
void sched_shape_put(sched_t *s, struct shape *sh);
void sched_shape_destroy(sched_t *s, struct shape *sh);
/* Update the data of the shape that depends on the inventory.  -1 with ENOMEM. */
int sched_shape_renew(sched_t *s, struct shape *sh);
/* Could the node be used for the shape if it were empty?  (Even if it is down or drained.) */
bool sched_shape_node_could(const struct map *m, const struct shape *sh, uint32_t n);
/* Number of nodes that are up and could be used for the shape if they were empty. */
size_t sched_shape_suited(const sched_t *s, const struct shape *sh);

/* --- sched_why.c --- */

/* Log that a shape's jobs wait for nodes that are down or drained, once until that changes. */
void sched_why_log_missing(sched_t *s, struct shape *sh);

/* --- sched_select.c --- */

/* The resources of a node that are free over a span of time. */
struct span {
    double from, to;
    double now;
    bool future;             /* from > now: claims that end by `from` are ignored */
    bool alone;              /* ignore all reservations */
    bool fixed;              /* ignore reservations that can have other nodes */
    size_t nreserved;        /* unless alone: consider only the first of this number */
    const struct claim *own; /* ignore this reservation */
};
struct avail {
    uint32_t cores, gpus;
    uint64_t memory;
    bool empty;
};
/* `bits` may be NULL. */
void sched_select_node_avail(const sched_t *s, uint32_t n, const struct span *sp, struct avail *a,
                             uint64_t *bits);
/* The number of slots of the shape that fit into free resources; for a shape with a number of
 * nodes: 1 or 0. */
uint32_t sched_select_shape_slots(const sched_t *s, const struct shape *sh, uint32_t n,
                                  const struct avail *a);
/* The assumed end of a held claim. */
static inline double sched_claim_end(const struct claim *c, double now)
{
    return c->end > now + SCHED_OVERDUE ? c->end : now + SCHED_OVERDUE;
}
/* The time from which the whole node is free. */
static inline double sched_node_free_from(const sched_t *s, const struct node *nd)
{
    return nd->held_last ? sched_claim_end(nd->held_last->claim, s->now) : 0.;
}
static inline bool sched_span_overlaps(const struct span *sp, const struct claim *c)
{
    return c->start + SCHED_EPSILON < sp->to && c->end > sp->from + SCHED_EPSILON;
}
/* Choose nodes for a job from now on, into s->choice.  Returns their number; 0: it does not fit. */
size_t sched_select_now(sched_t *s, const struct shape *sh, const struct job *j,
                        const struct span *sp);
/* Can a quick test, without visiting nodes, rule the shape out? */
bool sched_select_infeasible(const sched_t *s, const struct shape *sh);
/* Number of nodes (slots) that are free for the shape now, reservations ignored. */
uint64_t sched_select_count(sched_t *s, const struct shape *sh);
bool sched_select_pools(const sched_t *s, const struct shape *sh, const struct span *sp);
/* A claim to the chosen nodes.  NULL with ENOMEM. */
struct claim *sched_select_claim(sched_t *s, const struct job *j, size_t nchoice,
                                 const struct span *sp);

/* --- sched_plan.c --- */

/* Find the earliest time before `limit` at which the job fits beside all reservations but `own`,
 * and put the nodes into s->choice.  Returns their number, or 0. */
size_t sched_plan_find(sched_t *s, struct job *j, const struct claim *own, double limit,
                       double *when);
/* For a job that requests a number of nodes: does the node have room for it from some time before
 * `limit` on? */
bool sched_plan_node_before(sched_t *s, const struct job *j, uint32_t n, double limit);
/* Of n choices, put the `want` ones that become free last to the front, sorted by node. */
void sched_plan_latest(struct choice *choice, size_t n, size_t want);
void sched_plan_by_node(struct choice *choice, size_t n);

/* --- sched_reservation.c --- */

/* Index in s->reserved of the first reservation that starts later than this. */
size_t sched_reservation_place(const sched_t *s, double start);
/* Reserve the nodes of s->choice for the job from `when` on.  -1 with ENOMEM. */
int sched_reservation_add(sched_t *s, struct job *j, size_t nchoice, double when);
/* Make room for one more reservation: 0, or -1 with ENOMEM. */
int sched_reservation_room(sched_t *s);
/* Make the claim the reservation of the job, which has none; sched_reservation_room() was
 * called. */
void sched_reservation_enter(sched_t *s, struct job *j, struct claim *c);
/* Remove the job's reservation, and return its claim. */
struct claim *sched_reservation_take(sched_t *s, struct job *j);
/* Cancel the job's reservation, if it has one. */
void sched_reservation_cancel(sched_t *s, struct job *j);
void sched_reservation_cancel_all(sched_t *s);
/* Cancel the reservations of all jobs behind this one. */
void sched_reservation_cancel_behind(sched_t *s, const struct job *j);

/* --- sched_swap.c --- */

/* Is there a single reservation, of another job than this, that may move to other nodes? */
bool sched_swap_could(const sched_t *s, const struct job *j);
/* If so: are there enough nodes for that reservation beside the job, wherever the job is placed? */
bool sched_swap_room(sched_t *s, const struct job *j);
/* If so: are there enough nodes for it without the nodes of s->choice? */
bool sched_swap_leaves(sched_t *s, size_t nchoice);
/* If so: move it to nodes that the claim, which begins now, does not have.  -1: it stays. */
int sched_swap(sched_t *s, const struct claim *c);
/* The claim is about to be held, or was just released. */
void sched_swap_held(sched_t *s, const struct claim *c);
void sched_swap_released(sched_t *s, const struct claim *c);

/* --- sched_exchange.c --- */

/* May the reservation get other nodes? */
bool sched_exchange_movable(const sched_t *s, const struct claim *c);
/* Do other jobs than this have such reservations? */
bool sched_exchange_could(const sched_t *s, const struct job *j);
/* If so: may there be enough nodes for the job now, besides those of the reservations? */
bool sched_exchange_room(sched_t *s, const struct job *j);
/* If so: move reservations to make room.  Returns the claim with which the job can start; its
 * reservation is gone.  NULL: nothing has changed. */
struct claim *sched_exchange_start(sched_t *s, struct job *j);
/* Reserve nodes for the job at the earliest time that the numbers allow, if that is earlier than
 * its reservation. */
bool sched_exchange_reserve(sched_t *s, struct job *j);
/* Reserve nodes from `start` on for a job that has no reservation, if there are enough.  No
 * reservation may begin later. */
bool sched_exchange_place(sched_t *s, struct job *j, double start);
/* Note that the claim is about to be reserved (1), or is no longer reserved (-1). */
void sched_exchange_reserved(sched_t *s, const struct claim *c, int sign);
/* Note that the claim is about to be held. */
void sched_exchange_held(sched_t *s, const struct claim *c);
/* Discard the profile, at the begin and end of a pass. */
void sched_exchange_forget(sched_t *s);
void sched_exchange_destroy(sched_t *s);

/* --- sched_bound.c --- */

/* Could the job, which has the reservation `own`, start before `limit`?  True if unknown. */
bool sched_bound_left(sched_t *s, struct job *j, const struct claim *own, double limit);
/* Update the bound after a search has found no start before `limit`. */
void sched_bound_learn(sched_t *s, struct job *j, double limit);
void sched_bound_drop(struct job *j);
/* Quick test: may there be enough cores for the job's slots from t on, for its duration? */
bool sched_bound_at(sched_t *s, const struct job *j, const struct claim *own, double t);

/* --- sched_pass.c --- */

/* End the current pass, complete or not, and release the claims freed during it. */
void sched_pass_end(sched_t *s);

/* --- sched_alike.c: queues of jobs of whole nodes that are all alike --- */

/* Can the engine decide, given the waiting jobs and the policies?  If so, this updates the engine,
 * and denies jobs that can never run. */
bool sched_alike_begin(sched_t *s, const struct sched_ops *ops);
/* Run a slice of the engine's pass; true: the pass is complete. */
bool sched_alike_pass(sched_t *s, const struct sched_ops *ops);
/* Mark the engine's copy as out of date: the next pass creates a new one. */
void sched_alike_drop(sched_t *s);
void sched_alike_destroy(sched_t *s);
void sched_alike_added(sched_t *s, struct job *j);
void sched_alike_removed(sched_t *s, struct job *j);
void sched_alike_held(sched_t *s, struct claim *c);
void sched_alike_released(sched_t *s, struct claim *c);
/* The next time at which a pass is due without an event; negative: never. */
double sched_alike_next(const sched_t *s);
/* The number of jobs for which it has reservations. */
size_t sched_alike_reserved(const sched_t *s);

/* --- sched_choose.c: node policies that select a set --- */

/* Adapt to a new policy or inventory: 0, or -1 with ENOMEM. */
int sched_choose_renew(sched_t *s);
void sched_choose_destroy(sched_t *s);
void sched_choose_held(sched_t *s, struct claim *c);
void sched_choose_released(sched_t *s, struct claim *c);
/* Have the policy select from the candidates s->choice[0..n), with their slots.  Returns the number
 * of selected nodes, which are then in s->choice, or 0. */
size_t sched_choose_nodes(sched_t *s, const struct shape *sh, const struct job *j,
                          const struct span *sp, size_t n);
/* Nodes of a claim as ranges; 0, or -1 with ENOMEM. */
int sched_choose_set(const struct claim *c, struct sched_set *set);

/* --- sched_pass.c --- */

/* Start the job with the claim, which is taken over (NULL: memory is short).  0, or -1: it still
 * waits. */
int sched_pass_start(sched_t *s, struct job *j, struct claim *c, const struct sched_ops *ops);
void sched_pass_deny(sched_t *s, struct job *j, const struct sched_ops *ops);

/* --- sched_builtin.c --- */

/* Is it replan, which makes all reservations anew in each pass? */
bool sched_builtin_replans(const struct sched_policy *p);
/* The argument of easy:depth=N; 0: all jobs are considered. */
uint32_t sched_builtin_depth(const struct sched_policy *p, const void *state);
/* Is it conservative or replan? */
bool sched_builtin_reserves_all(const struct sched_policy *p);
/* Does the engine for whole nodes implement this policy? */
bool sched_builtin_whole(const struct sched_policy *p, const void *state,
                         enum sched_whole_queue *queue, uint32_t *reservations);

/* `create` of a policy that takes no argument. */
void *sched_builtin_no_argument(const char *arg, char *err, size_t size);
/* The answer of the built-in policy (EASY). */
enum sched_blocked sched_builtin_blocked(uint32_t reserved);
/* Is it fcfs, which lets no job pass the first one that does not fit? */
bool sched_builtin_strict(const struct sched_policy *p);

#endif

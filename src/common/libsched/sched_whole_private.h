/* Declarations that the parts of the engine for whole nodes share. */
#ifndef SCHED_WHOLE_PRIVATE_H
#define SCHED_WHOLE_PRIVATE_H

#include "sched_line.h"
#include "sched_place.h"
#include "sched_profile.h"
#include "sched_topology.h"
#include "sched_whole.h"

enum sched_whole_phase {
    SCHED_WHOLE_IDLE,
    SCHED_WHOLE_HEADS,  /* from the front: jobs that fit start */
    SCHED_WHOLE_BEHIND, /* easy: behind the first that does not fit */
};

struct sched_whole {
    sched_switches_t *sw;
    bool borrowed; /* sw and state belong to the caller */
    const struct sched_node_policy *policy;
    void *state; /* of the policy */
    enum sched_whole_queue queue_policy;
    uint32_t depth;
    uint32_t reservations; /* conservative: maximum number; UINT32_MAX: no limit */
    double overdue;        /* a job that overruns its time is assumed to end this long from now */

    struct sched_line queue;       /* waiting jobs */
    struct sched_line ends;        /* running jobs, by (end, id) */
    sched_place_t *place;          /* the present state */
    sched_place_t *empty;          /* the empty machine */
    sched_place_t *later;          /* policies that refuse: the state at the shadow */
    sched_place_t *beside;         /* policies that refuse: the present state with R taken */
    struct sched_whole_job *spare; /* free structs, linked by ->owner */

    /* The current pass: */
    enum sched_whole_phase phase;
    double now;
    size_t work, budget;
    double cursor_key, stop_key; /* the next job to consider, and the first beyond the depth */
    uint64_t cursor_id, stop_id;
    const struct sched_whole_job *head;
    bool known; /* shadow, and extra or R */
    double shadow;
    uint32_t extra;
    struct sched_set R;
    struct sched_limits limits[2]; /* for `place` and `beside` */
    bool limited;                  /* `limits` tells which jobs fit */

    /* conservative and replan: */
    struct sched_profile profile;
    bool ended;        /* a job has ended since the last pass */
    bool stirred;      /* a compression could move a reservation */
    bool stale;        /* the profile is wrong: the next pass builds it again */
    size_t unreserved; /* jobs that arrived since the last pass */
    double next;       /* the earliest reservation */
};

/* For sched_t: create an engine that borrows its switches, its policy and the policy's state, which
 * must outlive the engine.  `reservations`: limit for conservative, UINT32_MAX: none.  NULL:
 * ENOMEM. */
sched_whole_t *sched_whole_create_on(const sched_switches_t *sw,
                                     const struct sched_node_policy *policy, void *state,
                                     enum sched_whole_queue queue, uint32_t depth,
                                     uint32_t reservations);
/* Nodes without a bit are down or drained.  To be called once, before all other functions. */
void sched_whole_usable(sched_whole_t *w, const uint64_t *usable);
/* Add a running job: it holds `set` until it ends, and its marks are on the switches of the nodes
 * in `marks`.  Takes both over.  NULL with ENOMEM. */
struct sched_whole_job *sched_whole_run(sched_whole_t *w, uint64_t id, struct sched_set *set,
                                        struct sched_set *marks, double end, void *owner);
/* The first waiting job, or NULL. */
const struct sched_whole_job *sched_whole_head(const sched_whole_t *w);
/* End the current pass at once. */
void sched_whole_abort(sched_whole_t *w);

/* The assumed end of a running job. */
static inline double sched_whole_ends(const struct sched_whole *w, double end)
{
    return end > w->now ? end : w->now + w->overdue;
}

/* Start the waiting job at this place of the queue on ->set.  0, or -1. */
int sched_whole_start(sched_whole_t *w, struct sched_at *at, const struct sched_whole_ops *ops);
/* Find its set in the present state: 1, 0 or -1. */
int sched_whole_select(sched_whole_t *w, const sched_place_t *place, struct sched_whole_job *j,
                       double at, struct sched_set *set);
int sched_whole_fits(sched_whole_t *w, const sched_place_t *place, const struct sched_whole_job *j,
                     double at);

/* Release the nodes of a running job in `place`, and remove its marks. */
void sched_whole_give_back(sched_place_t *place, const struct sched_whole_job *j);

/* --- sched_easy.c --- */

/* Continue the pass behind the head, which is at `at`: up to the last job within the depth. */
void sched_easy_begin(sched_whole_t *w, struct sched_at at);
/* 1: the budget is used up; 0: the pass is complete; -1. */
int sched_easy_pass(sched_whole_t *w, const struct sched_whole_ops *ops);

/* --- sched_reserve.c: conservative and replan --- */

int sched_reserve_pass(sched_whole_t *w, const struct sched_whole_ops *ops);
/* Note that a waiting job is removed, or a running one ends. */
void sched_reserve_gone(sched_whole_t *w, const struct sched_whole_job *j);
void sched_reserve_ended(sched_whole_t *w, const struct sched_whole_job *j, double now);

#endif

/* Declarations that outlet.c (memory and steps), outlet_door.c (admission of readers), outlet_far.c
 * (readers on other hosts), outlet_group.c, outlet_follow.c and outlet_await.c (groups) share. */
#ifndef STREAM_OUTLET_PRIVATE_H
#define STREAM_OUTLET_PRIVATE_H

#include <pthread.h>
#include <stdatomic.h>

#include "libstream/extent.h"
#include "libstream/lane.h"
#include "libstream/outlet.h"
#include "libutil/hmap.h"
#include "libutil/list.h"

#define OUTLET_READERS_MAX 1024

/* A published step. */
struct outlet_step {
    uint64_t step;
    uint64_t len;
    struct extent *e;
    unsigned refs;          /* lanes that it was offered to; and one while it is kept */
    struct outlet_pin *pin; /* NULL: nothing is pinned */
};

/* The pin block of some steps: outlet_pin_begin(). */
struct outlet_pin {
    uint64_t number;
    uint64_t len;
    struct extent *e;
    unsigned refs; /* steps, and one while the next steps are to have it */
};

/* A share: a step that a group has (outlet_group.c, outlet_follow.c). */
struct outlet_share {
    struct list_node node; /* in outlet_group.waiting, or in outlet_conn.held */
    struct list_node open; /* in outlet_group.open */
    struct outlet_step *s;
    uint32_t bucket; /* of its key */
    uint64_t parts;  /* of the step, if members divide it, a set of bits; else 0 */
    bool again;      /* another member, or the group itself, has it, too */
};

struct outlet_group {
    struct list_node node; /* in outlet.groups */
    struct knock_want want;
    struct list_node members; /* members that have joined and are not evicted */
    struct list_node idle;
    unsigned users; /* number of members that have entered and not left */
    bool begun;     /* the first member has joined */
    struct list_node waiting;
    struct list_node open; /* the shares that count, by number of the step */
    unsigned live;         /* steps of these shares, */
    uint64_t bytes;
    double since;   /* start of the time in which the writer has waited and nothing was released; 0:
                     * it does not wait */
    bool gap;       /* steps were not given to the group, and members have not been told */
    uint64_t floor; /* as members have told: outlet_follow.c; or, if they divide steps, were told */
    /* Of a group that earlier writers have had: outlet_await.c. */
    bool resumed;                  /* it is such a group; */
    bool fresh;                    /* no member has joined yet: its options are not known */
    unsigned awaits;               /* members that have not joined yet */
    double until;                  /* the group is held until then; 0: it is not */
    uint64_t missed;               /* steps since then */
    uint64_t given;                /* all steps before it were given by earlier writers */
    struct outlet_bucket *buckets; /* NULL: the group has no key */
};

/* Readers that are offered the same steps: outlet_team.c. */
struct outlet_team {
    struct list_node node; /* in outlet.teams */
    char name[KNOCK_GROUP_MAX + 1];
    struct list_node members; /* those that are not gone */
    unsigned n;               /* number of them, */
    unsigned noff;            /* and of those that are off */
    bool begun;               /* all ranks have come */
    bool takes;               /* the step that is committed */
};

/* A connection; that of a reader has a lane. */
struct outlet_conn {
    struct list_node node;     /* in outlet.knocking, then in outlet.readers */
    int fd;                    /* -1 for a reader on another host */
    struct outlet_far *far;    /* for a reader on another host; else NULL */
    bool shared;               /* that has come through relays, */
    bool late;                 /* or after the end of the stream, and can only resume */
    struct list_node far_node; /* in outlet.fars after its admission */
    uint64_t from;             /* its network (outlet_door.c) */
    double deadline;           /* of its knock */
    struct knock_want want;
    void *page;
    lane_tx_t *lane;
    double since; /* start of the time in which the writer has waited for it; 0: it does not wait */
    unsigned live;              /* number of its steps at that time */
    bool evicted;               /* no more steps are offered */
    bool gone;                  /* the connection has ended */
    unsigned pins;              /* 1 while the writer waits for it */
    struct outlet_queue counts; /* since it joined: outlet_stats.c, */
    struct outlet_queue told;   /* and as far as outlet_get_queues() has returned them */

    struct outlet_team *team;   /* NULL: none */
    struct list_node team_node; /* in outlet_team.members */

    /* For a member of a group; else NULL and empty. */
    struct outlet_group *group;
    struct list_node member; /* in outlet_group.members */
    struct list_node idle;   /* in outlet_group.idle */
    struct list_node held;   /* shares, in the order in which they were given */
    uint64_t claim;          /* of a writer that follows: the step that it needs, if it */
    bool claims;             /* needs one that it was neither given nor told to be missing */
};

struct outlet {
    unsigned char key[KNOCK_KEY_LEN];
    char name[64];
    double evict;
    double knock; /* seconds that a connection has to knock */
    int mem;      /* descriptor, passed to readers */
    unsigned char *base;
    bool left; /* outlet_destroy() leaves the mapping */
    uint64_t size;

    pthread_mutex_t lock;  /* protects all members below */
    pthread_cond_t joined; /* a reader has joined; monotonic clock */
    extent_pool_t *pool;
    pthread_cond_t moved; /* a group may have room; the same clock */
    struct list_node readers;
    struct list_node groups;
    struct list_node teams;
    unsigned nreaders;
    unsigned noff;             /* those of them that are off */
    hmap_t *wants;             /* options set by outlet_want(), by number */
    hmap_t *awaits;            /* groups of the members that outlet_await() awaits, by number */
    struct outlet_step **kept; /* the last `keep` steps, in a ring */
    uint32_t keep;
    uint32_t depth;          /* as in outlet_opts */
    uint64_t nkept;          /* ever */
    struct outlet_pin *pin;  /* of the next steps; NULL: nothing is pinned */
    uint64_t npins;          /* ever */
    uint64_t seen;           /* the largest of knock_want.seen of readers without a group */
    uint64_t next_step;      /* the least number that the next step may have */
    atomic_uint_fast64_t at; /* the same, also while no step is wanted: outlet_pass() */
    struct outlet_stats stats;
    unsigned turn; /* outlet_get_queues(): readers before this one had their turn */
    bool ended;    /* no step follows */
    bool failed;   /* see outlet_fail() */

    struct outlet_step *open; /* begun and not committed: the caller's thread */
    uint64_t open_size;
    struct outlet_pin *pin_open; /* the same */
    atomic_bool wanted;          /* readers that are on, or steps to keep */

    /* The door: for its thread only, once that runs. */
    struct list_node knocking;
    unsigned nknocking;     /* of this host, */
    unsigned nknocking_far; /* and of others */
    struct list_node fars;
    bool clocked;               /* outlet_set_clock() was called */
    _Atomic double ahead;       /* of the clock of grants, before clock_boot() */
    struct outlet_far_opts far; /* listen is -1 without readers of other hosts */
    bool closing;               /* the writer has closed the stream */
    double progress;            /* the last time at which such a reader has got or released data */
    int listen_fd;
    int epoll_fd;
    int stop_fd;
    int bell_fd; /* rings for the readers of other hosts */
    pthread_t thread;
    bool running;
};

/* Take back what readers have released.  A thread that waits for one of these learns of it.  With
 * the lock. */
void outlet_reap(outlet_t *o);
/* What readers learn of a step. */
struct lane_item outlet_item(const struct outlet_step *s);
/* With the lock: */
void outlet_unref(outlet_t *o, struct outlet_step *s);
/* Set up a reader whose options are known: bound its queue, and enter its group.  0, and
 * outlet_joined() follows before the lock is released; or an errno: it is not admitted. */
int outlet_enter(outlet_t *o, struct outlet_conn *c);
/* A reader is about to be welcomed: from now on steps are wanted; offer it the kept steps. */
void outlet_joined(outlet_t *o, struct outlet_conn *c);
/* A reader is gone: free it, or mark it if the writer waits for it. */
void outlet_gone(outlet_t *o, struct outlet_conn *c);
/* Ring the reader's bell if it sleeps. */
void outlet_bell(outlet_t *o, struct outlet_conn *c);

/* Adapt outlet_wanted(), with the lock: readers, or groups, have changed. */
void outlet_set_wanted(outlet_t *o);

/* Is the queue of a reader full, for a step of this size? */
bool outlet_full(const struct outlet_conn *c, uint64_t size);

/* Teams: outlet_team.c; with the lock. */
/* Enter a reader into its team; it joins before the lock is released: 0, or an errno. */
int outlet_team_enter(outlet_t *o, struct outlet_conn *c);
/* A member has joined.  true: the team begins. */
bool outlet_team_joined(struct outlet_conn *c);
/* The number of members that have come of teams that have not begun. */
unsigned outlet_teams_waiting(const outlet_t *o);
/* Is a team offered this step if its members have room? */
bool outlet_team_wants(const struct outlet_team *t, uint64_t step);
/* Decide who is offered a step: outlet_team.takes. */
void outlet_team_decide(struct outlet_team *t, const struct outlet_step *s);
void outlet_teams_decide(outlet_t *o, const struct outlet_step *s);
/* The policy of a member has changed, and so that of all; a member was turned on or off. */
void outlet_team_want(struct outlet_team *t, const struct knock_want *w);
void outlet_team_off(struct outlet_team *t, bool off);
/* A member is gone.  No effect without a team. */
void outlet_team_leave(struct outlet_conn *c);

/* Groups: outlet_group.c. */
/* Enter a reader into its group; it joins before the lock is released: 0, or an errno. */
int outlet_group_enter(outlet_t *o, struct outlet_conn *c);
/* A member has joined. */
void outlet_group_joined(outlet_t *o, struct outlet_conn *c);
/* A member is gone: others get its steps.  No effect without a group. */
void outlet_group_leave(outlet_t *o, struct outlet_conn *c);
/* A member may have released steps. */
void outlet_group_reap(outlet_t *o, struct outlet_conn *c);
/* Give a step to each group that has members, or awaits some. */
void outlet_group_offer(outlet_t *o, struct outlet_step *s);
/* A group for which this step, of this size, has to wait, or NULL. */
struct outlet_group *outlet_group_full(outlet_t *o, uint64_t step, uint64_t size);
/* Does a group get steps, because it has members, awaits some, or is held? */
bool outlet_group_there(const struct outlet_group *g);
bool outlet_groups_held(const outlet_t *o);
/* A member has gone, or was evicted: hold the group if it was the last one. */
void outlet_group_hold(struct outlet_group *g);
/* Would a step of this size exceed the bound of the group's queue? */
bool outlet_group_beyond(const struct outlet_group *g, uint64_t size);
/* Give the group a share of a step: the caller adds it to a list.  NULL: memory is short, which
 * counts as dropped. */
struct outlet_share *outlet_group_share(outlet_t *o, struct outlet_group *g, struct outlet_step *s,
                                        uint32_t bucket);
/* Exclude a share from the counts: it was released, or another one has replaced it. */
void outlet_group_uncount(struct outlet_group *g, struct outlet_share *sh);
void outlet_group_share_free(outlet_t *o, struct outlet_share *sh);
void outlet_group_free(outlet_t *o, struct outlet_group *g);
/* Wait for room in the group until `until`, but not beyond the time of eviction; returns the time.
 * The lock is released meanwhile. */
double outlet_group_wait(outlet_t *o, struct outlet_group *g, double now, double until);
/* The writer ends: members get all waiting steps, regardless of their room. */
void outlet_groups_close(outlet_t *o);

/* The group of this name, or a new one for members that are awaited.  NULL: there is none, and no
 * room or memory for it. */
struct outlet_group *outlet_group_awaited(outlet_t *o, const char *name, bool follow);
/* A group awaits fewer members, or has learned more of what was given: hand out what it has. */
void outlet_group_resume(outlet_t *o, struct outlet_group *g);
/* Free a group that nobody needs. */
void outlet_group_unused(outlet_t *o, struct outlet_group *g);

/* Members that are awaited: outlet_await.c. */
/* A reader has joined, or left the stream: it is not awaited any more. */
void outlet_await_end(outlet_t *o, uint64_t reader);
/* The members of a group, or of all (NULL), are not awaited any more. */
void outlet_await_drop(outlet_t *o, const struct outlet_group *g);

/* Groups of a writer that does not hand out the steps: outlet_follow.c.  The functions of
 * outlet_group.c call these. */
void outlet_follow_offer(outlet_t *o, struct outlet_group *g, struct outlet_step *s);
/* Is the group, whose bound is exceeded, to wait with a step? */
bool outlet_follow_full(const struct outlet_group *g, uint64_t step);
void outlet_follow_reap(outlet_t *o, struct outlet_conn *c);
void outlet_follow_evict(outlet_t *o, struct outlet_group *g);
void outlet_follow_leave(outlet_t *o, struct outlet_conn *c);
void outlet_follow_close(outlet_t *o, struct outlet_group *g);
/* A member claims a step.  No effect after the writer has ended. */
void outlet_follow_claim(outlet_t *o, struct outlet_conn *c, const struct knock_claim *claim);
/* Does any group without members still take steps? */
bool outlet_follow_wants(const outlet_t *o);
/* The first step that the group keeps and no member has in its lane, or `step`. */
uint64_t outlet_follow_need(const struct outlet_group *g, uint64_t step);

/* Wait on a condition of the outlet until a time of clock_now(), which may be INFINITY. */
void outlet_cond_wait(outlet_t *o, pthread_cond_t *cond, double until);

/* Open the socket and begin to admit readers.  0, or -1 with errno and an error message. */
int outlet_door_open(outlet_t *o, errmsg_t *err);
/* Admit no more readers; those that are admitted stay.  NULL-safe for each part that was not
 * opened. */
void outlet_door_close(outlet_t *o);
void outlet_conn_free(struct outlet_conn *c);

/* --- readers on other hosts: outlet_far.c, for the door's thread --- */

/* Takes over the descriptor; NULL with ENOMEM: the descriptor is still open. */
struct outlet_far *outlet_far_create(int fd);
void outlet_far_destroy(struct outlet_far *f); /* NULL-safe */
/* Send the greeting to a new connection.  -1: it cannot be sent. */
int outlet_far_greet(struct outlet_conn *c);
/* Handle input, if `readable`, and send pending output.  0; -1: the reader is gone, or not
 * admitted; 1: a lost reader has come back by this connection, which is freed. */
int outlet_far_serve(outlet_t *o, struct outlet_conn *c, bool readable);
int outlet_far_fd(const struct outlet_conn *c);
/* Is there input that it has not read yet? */
bool outlet_far_more(const struct outlet_conn *c);
/* After -1: was the connection cut, so that the reader may come back? */
bool outlet_far_cut(const struct outlet_conn *c);
/* Close a connection until the reader comes back. */
void outlet_far_lose(outlet_t *o, struct outlet_conn *c);
bool outlet_far_lost(const struct outlet_conn *c);
/* Has its host stopped answering, or has it been lost for too long? */
bool outlet_far_silent(const outlet_t *o, const struct outlet_conn *c);
/* Has the reader got all steps and the end?  Or was it evicted, so that the writer does not wait
 * for it? */
bool outlet_far_done(const struct outlet_conn *c);

#endif

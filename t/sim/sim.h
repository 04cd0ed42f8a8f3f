/* A session in one thread: broker cores with their modules and clients on a virtual clock and an
 * in-memory network, all of it driven by one seed.
 *
 *    sim_t *s = sim_create(&cfg);
 *    sim_boot(s);                                every broker to CORE_RUN
 *    ... clients, requests, faults, sim_run_until() ...
 *    sim_check_quiet(s);                         everybody was answered
 *    sim_destroy(s);
 *
 * What must hold at all times is checked where messages pass (node.c); the first violation is kept
 * with its time and ends the run.  Not thread-safe.
 */
#ifndef SIM_SIM_H
#define SIM_SIM_H

#include "broker/core.h"
#include "broker/link/silence.h"
#include "clock.h"
#include "libflux/module.h"
#include "libutil/hmap.h"
#include "libutil/list.h"
#include "rng.h"

#define SIM_US INT64_C(1000)
#define SIM_MS INT64_C(1000000)
#define SIM_S INT64_C(1000000000)

typedef struct sim sim_t;
struct node;

/* Ways to break the link on purpose, to see whether it is noticed. */
enum sim_break { BREAK_NONE, BREAK_REORDER, BREAK_DUP, BREAK_DROP };

/* Faults planted in what services say to each other, to see whether they are noticed (plant.c,
 * exec.c). */
enum sim_plant {
    PLANT_NONE,
    PLANT_LOST_END,      /* the end of a job is never told */
    PLANT_WRONG_CODE,    /* another exit code is told */
    PLANT_IMMORTAL,      /* tasks survive SIGKILL */
    PLANT_DOUBLE_ALLOC,  /* a job is given what another one was given */
    PLANT_LOST_ALLOC,    /* an allocation is not told */
    PLANT_LOST_FREE,     /* nor is that resources are free again */
    PLANT_WRONG_ID,      /* a client is told another id */
    PLANT_NO_DEPENDENCY, /* dependencies are dropped from what is submitted */
    PLANT_NO_LIMIT,      /* so are time limits */
    PLANT_COMMIT_TWICE,  /* a commit that is sent again has no number */
    PLANT_LOST_TWICE,    /* the end of a job is on record twice */
    /* What the module `stream` says: */
    PLANT_LOST_JOIN,    /* a reader is not told of a writer */
    PLANT_DOUBLE_JOIN,  /* or twice */
    PLANT_LOST_LEAVE,   /* it is not told that one has left */
    PLANT_LOST_DEMAND,  /* a writer is not told what a reader wants */
    PLANT_WRONG_PAUSE,  /* it is told the opposite of what its stream is */
    PLANT_OLD_STEP,     /* it is told a step that was before */
    PLANT_WRONG_KEY,    /* a reader is told what admits somebody else */
    PLANT_OLD_EPOCH,    /* an epoch is not raised when a rank joins again */
    PLANT_OLD_RUN,      /* readers are not told that a run has begun, */
    PLANT_WRONG_SIZE,   /* or how many writers there are */
    PLANT_DOUBLE_LEAVE, /* they are told twice that a writer has left */
    PLANT_WRONG_STAYS,  /* a reader that stays is counted twice when it leaves */
    PLANT_LOST_REMOVAL, /* one that was away is not told that its stream was removed */
    /* In what brokers say while they heal (plant_heal.c, zombie.c). */
    PLANT_EVENT_TWICE,  /* an event is repeated below a broker that has moved */
    PLANT_ANSWER_TWICE, /* a request is answered twice */
    PLANT_FORGET,       /* a barrier forgets what a subtree has reported */
    PLANT_LYING,        /* a broker that moves does not name all ranks below, */
    PLANT_BOASTING,     /* ... or names one that is not there */
    PLANT_STALE,        /* an earlier incarnation of a rank is accepted */
    PLANT_ZOMBIE,       /* an earlier broker of a rank still writes */
    /* On the disk of rank 0 (storage.c, disk.c). */
    PLANT_EARLY, /* a commit is said to be durable before it is written */
    PLANT_LIES   /* the disk says that it has synced, and has not */
};

/* Modules. */
enum {
    SIM_MOD_BARRIER = 1,
    SIM_MOD_KVS = 2,
    SIM_MOD_LOG = 4,
    SIM_MOD_HB = 8,      /* at the root */
    SIM_MOD_JOB = 16,    /* job, sched, wrexec (emulated) at the root, resrc, attr */
    SIM_MOD_LAUNCH = 32, /* wrexec as it is, with emulated tasks */
    SIM_MOD_STREAM = 64  /* at the root */
};

/* How long a message takes on a link. */
struct sim_delay {
    int64_t base;
    int64_t jitter;      /* 0 .. jitter more, evenly */
    double spike_chance; /* of a message that takes spike more */
    int64_t spike;
};

struct sim_config {
    uint64_t seed;
    uint32_t size;
    const char *topology; /* NULL: chosen by the seed */
    bool alike;           /* all nodes have as many cores */
    bool even;            /* all clocks run at the same speed */
    bool event_lines;     /* events have connections of their own, which may fall silent alone */
    bool fixed;        /* all delays alike, all start at once, no bound on queues: for counting */
    unsigned modules;  /* SIM_MOD_*: loaded at every rank */
    double event_loss; /* chance of a message on the event plane to be lost */
    double heal;       /* seconds for those below a dead broker to connect above it; 0: they end */
    double settle;     /* ... until they return below a broker that is back; 0: on request only */
    uint32_t fanout_max; /* children, beyond which a broker gives some to others; 0: no limit */
    enum sim_break broken;
    enum sim_plant plant;
    const char *const *attrs; /* name, value..., NULL: see attrs.c */
    const char *sched_args[3];
    const struct silence_limits *live; /* NULL: who is silent is not lost */
    bool trace;                        /* print what happens */
};

/* A directed connection between two neighbors on one plane. */
struct chan {
    struct node *from;
    struct node *to;
    struct way *way;   /* NULL: on the ring */
    struct chan *back; /* the other direction */
    enum core_plane plane;
    int64_t last; /* arrival of the newest message */
    unsigned queued;
    unsigned news; /* of its end, on the way */
    bool blocked;  /* the sender was told EAGAIN */
    bool cut;      /* what is sent vanishes */
    bool mute;     /* the same, and nobody is told */
    bool begun;    /* something has come, and since then the other end is watched by this ... */
    struct silence_line line;
    bool closed;    /* the sender knows */
    unsigned epoch; /* messages of an earlier one are lost on arrival */
};

/* A connection on the tree plane, which a broker has made to one above. */
struct way {
    struct list_node child;      /* in `children` of the broker above */
    struct list_node other;      /* in `others` of the broker below */
    struct chan up, down, event; /* to the broker above, from it, events from it */
    bool there;                  /* the broker above has admitted it */
    bool event_link;
    bool quiet; /* it gets its events by another one */
};

/* A client or module of a broker: a flux handle with messages passing through the clock. */
struct sim_ep {
    struct list_node node; /* in node.eps */
    struct node *broker;
    enum endpoint_kind kind;
    char name[32];
    endpoint_t *ep;
    flux_t *h;
    int64_t last_in, last_out; /* first in, first out, both ways */
    bool gone;
    hmap_t *waiting; /* match tag -> topic of a request without its last answer */
    bool all_events; /* subscribed to everything: look for gaps */
    uint64_t last_event;
    bool cut_off; /* it was told that no further event comes */
    const struct flux_module *module;
    void *module_ctx;
    struct sim_ep *successor; /* the instance that has taken its place */
    bool succeeds;            /* it has taken the place of another */
    void *data;               /* of the scenario */
};

enum node_state { NODE_OFF, NODE_ON, NODE_EXITED, NODE_DEAD };

struct node {
    sim_t *sim;
    uint32_t rank;
    enum node_state state;
    struct vowner owner;
    double wall;         /* seconds that its wall clock is ahead */
    double rate;         /* of its clock */
    silence_t *silence;  /* NULL: it watches nobody */
    int64_t still_since; /* a scenario has stopped it; INT64_MAX: not */
    int64_t still_until; /* ... the last time */
    int64_t stood;       /* for so long absences have stopped it, all together */
    int64_t start_at;
    unsigned starts;  /* brokers of this rank so far */
    char address[32]; /* of the latest one */
    unsigned ends;    /* connections to a parent that have broken, or that the parent has ended */
    flux_reactor_t *reactor;
    core_t *core;
    struct list_node eps;      /* struct sim_ep */
    struct list_node children; /* struct way: those that are connected to it from below */
    struct way *way;           /* to the parent, which with sim_config.heal may be another than by
                                    the shape; NULL: it has none */
    struct list_node others;   /* struct way: to a second parent, and to earlier ones */
    struct chan ring_next, ring_prev; /* to the next rank, to the previous one */
    enum core_state last_state;
    int64_t run_at; /* when it came to CORE_RUN, -1 before */
    int exit_code;  /* -1 before the end */
    bool leaves;    /* it was asked to leave the session */
};

/* Messages sent on links. */
struct sim_tally {
    uint64_t up, down, event, ring;
};

struct sim {
    struct sim_config cfg;
    unsigned sessions; /* that have been here before */
    struct rng rng;
    vclock_t *clock;
    struct node *nodes;
    topology_t *topo;
    struct sim_delay link_delay;
    struct sim_delay local_delay;
    unsigned queue_max; /* messages on a link before EAGAIN; 0: no bound */
    struct sim_tally tally;
    uint64_t trace; /* hash of all that happened */
    uint64_t messages;
    double event_loss;
    size_t event_buffer; /* 0: default */
    enum sim_break broken;
    uint64_t broke;     /* how often the link was broken on purpose, or a fault planted */
    double store_fails; /* chance that a commit of the job module is refused, or seems to be */
    json_t *planted;    /* R of the last allocation (plant.c) */
    hmap_t *events;     /* sequence -> hash of the event, as first seen */
    uint64_t faults;
    bool *apart; /* of each rank: it is in the part that net_part() has cut off; NULL: never */
    unsigned apart_which; /* SILENT_* */
    int64_t apart_until;
    /* Broker `n` calls `of` slow, or lost: is that so?  NULL: any is. */
    void (*accused)(sim_t *s, const struct node *n, const struct chan *from, bool lost);
    /* Broker `n` starts the tasks of a job (tasks.c); NULL: nobody wants to know. */
    void (*task_starts)(const struct node *n, uint64_t job, void *arg);
    void *task_starts_arg;
    struct disk *disk;           /* of rank 0; NULL: none */
    struct kvs_storage *storage; /* its driver, while it is there */
    bool clock_set; /* the wall clock of the root: what is on record says nothing of durations */
    struct sim_block *blocks; /* of sim_alloc() */
    bool failed;
    char failure[400];
};

/* --- session (sim.c) --- */

/* NULL with a sentence on standard error. */
sim_t *sim_create(const struct sim_config *cfg);
void sim_destroy(sim_t *s);

/* Note a violation; only the first counts. */
void sim_fail(sim_t *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

int64_t sim_now(const sim_t *s);
/* Let things happen until cond(arg) holds (true), or `timeout` has passed, or something failed. */
typedef bool (*sim_cond_f)(sim_t *s, void *arg);
bool sim_run_until(sim_t *s, sim_cond_f cond, void *arg, int64_t timeout);
void sim_run_for(sim_t *s, int64_t time);
/* Call cb(arg, data) later, whatever broker is paused. */
void sim_at(sim_t *s, int64_t at, vevent_f cb, void *arg, void *data);

/* Start all brokers, each at its time. */
void sim_start(sim_t *s);
/* The same, and wait until all of them run.  false after a violation. */
bool sim_boot(sim_t *s);
/* When all brokers have ended, and nothing is on its way any more: the session is started anew, to
 * be booted. */
void sim_renew(sim_t *s);
/* Longest time that one message can take on a link. */
int64_t sim_max_delay(const sim_t *s);
/* The broker to which this one is connected as its parent, NULL for the root. */
struct node *sim_parent(const struct node *n);
/* Is the way from this rank to the root intact? */
bool sim_connected(const sim_t *s, uint32_t rank);
bool sim_alive(const sim_t *s, uint32_t rank);

/* Zeroed memory that lives as long as the session; the process ends when there is none. */
void *sim_alloc(sim_t *s, size_t size);

void sim_trace_add(sim_t *s, uint64_t what, uint64_t value);
/* A message in one line, for a trace or a failure; cut off at `size`. */
void sim_describe(const flux_msg_t *msg, char *buf, size_t size);
/* Time a message takes on its way: random. */
int64_t sim_draw(sim_t *s, const struct sim_delay *d);

/* --- the end of a scenario (quiet.c) --- */

/* Every request of a living client has had its last answer, or sim_fail().  Then all clients go,
 * and no broker may keep anything of what they have asked for. */
void sim_check_quiet(sim_t *s);

/* --- network (net.c) --- */

/* What does not arrive. */
enum { SILENT_UP = 1, SILENT_DOWN = 2, SILENT_EVENTS = 4, SILENT_ALL = 7 };

extern const struct core_link_ops sim_link_ops; /* arg: struct node */
void net_init(sim_t *s);
/* A broker has started: its event link comes into place. */
void net_started(struct node *n);
/* A broker is no more: its neighbors notice after a while.  `orderly`: all that it sent arrives.
 */
void net_lost(struct node *n, bool orderly);
/* The connection to the parent (or to the next of the ring) breaks; both notice. */
void net_break(struct node *n, enum core_plane plane);
/* Is this broker connected, or about to be, to that one as to a broker above? */
bool net_connects(const struct node *n, const struct node *to);
/* Until a moment, nothing that a broker of `part` (a flag for each rank, which the caller keeps)
 * sends to the others arrives (which & SILENT_UP), or nothing that the others send to it (&
 * SILENT_DOWN), or only no event of that (& SILENT_EVENTS): it arrives then, unless the connection
 * was given up. */
void net_part(sim_t *s, bool *part, unsigned which, int64_t until);
/* From now on, nothing arrives by this connection: what is sent up (which & SILENT_UP), what is
 * sent down (& SILENT_DOWN), and events (& SILENT_EVENTS, and with SILENT_DOWN where these have no
 * connection of their own). */
void net_silence(struct way *w, unsigned which);
/* This connection breaks. */
void net_break_way(struct way *w);
/* Have both ends of each connection of a broker noticed that it ended? */
bool net_settled(const struct node *n);
/* Another broker of this rank (not 0) is about to start: it gets new connections. */
void net_back(struct node *n);
/* A sign of life from the end of this channel. */
void net_sign(struct chan *ch);
/* The broker at the end of this channel gives the other one up. */
void net_give_up(struct chan *ch);
/* Free what an event of the clock that never happened would have used. */
void net_discard(vevent_f cb, void *data);
void node_discard(vevent_f cb, void *data);

/* --- signs of life (live.c) --- */

void live_start(struct node *n);
void live_stop(struct node *n);
void live_heard(struct chan *ch);

/* --- brokers, modules, clients (node.c) --- */

void node_start(struct node *n);
/* As by SIGKILL. */
void node_kill(struct node *n);
/* Another broker of its rank, when it is down and net_settled(); not of the root. */
void node_restart(struct node *n);
void node_free(struct node *n);
struct sim_ep *sim_client_add(sim_t *s, uint32_t rank, const char *name);
/* The client's process dies. */
void sim_client_remove(struct sim_ep *e);
struct sim_ep *node_ep_add(struct node *n, enum endpoint_kind kind, const char *name);
/* The core has a message (taken over) for a client or module. */
void node_deliver(struct sim_ep *e, flux_msg_t *msg);
/* Cores of a node, as the emulated inventory says (probe.c). */
unsigned sim_node_cores(const sim_t *s, uint32_t rank);

/* --- modules (module.c) --- */

/* `argv`: arguments, ended by NULL, or NULL.  NULL after sim_fail(). */
struct sim_ep *sim_module_add(sim_t *s, uint32_t rank, const struct flux_module *m,
                              const char *const *argv);
/* One that the session may have, by name, with its arguments. */
struct sim_ep *sim_module_load(sim_t *s, uint32_t rank, const char *name);
/* All that this broker is to have. */
void sim_modules_load(struct node *n);
/* A module that is loaded at this rank, or NULL. */
struct sim_ep *sim_module_find(sim_t *s, uint32_t rank, const char *name);
/* Unload it; with `reload`, another instance gets what it had not answered. */
void sim_module_stop(struct sim_ep *e, bool reload);

/* --- planted faults (plant.c) --- */

/* A message is about to reach a client or module: it may be changed (taken over, another one is
 * returned). */
flux_msg_t *plant_message(struct sim_ep *e, flux_msg_t *msg);
/* The same for faults of healing (plant_heal.c). */
flux_msg_t *plant_heal_message(struct sim_ep *e, flux_msg_t *msg);
/* A message is about to be sent to another broker. */
flux_msg_t *plant_heal_control(struct node *n, flux_msg_t *msg);

/* --- faults (fault.c) --- */

/* The parts a scenario asks for. */
enum {
    FAULT_DEATH = 1,
    FAULT_PAUSE = 2,
    FAULT_SPIKE = 4,
    FAULT_LINK = 8,   /* loss of a link */
    FAULT_CLOCK = 16, /* the wall clock is set */
    FAULT_ALL = 31,
};
/* Up to `count` random faults within the next `within` nanoseconds; never the root's death. */
void sim_faults(sim_t *s, unsigned kinds, unsigned count, int64_t within);
/* Start again who is down, if the way from the rank above to the root is intact.  false: nobody is
 * down. */
bool sim_start_some(sim_t *s);
/* Do that now and then within the next `within` nanoseconds. */
void sim_returns(sim_t *s, int64_t within);
/* Any rank whose broker runs; TOPOLOGY_NONE when there is none. */
uint32_t sim_random_alive(sim_t *s);

/* --- brokers that others do not hear for a while (absent.c) --- */

#define SIM_ABSENT_MAX (12 * SIM_S)
#define SIM_ROOT_STILL_MAX (55 * SIM_S) /* shorter than the patience of the children of rank 0 */
/* What a scenario with absences has in sim_config.live: the default limits of a session. */
extern const struct silence_limits sim_silence;
/* These limits, healing, and at most 64 brokers. */
void sim_tune_absences(struct sim_config *cfg, struct rng *rng);
/* Is this rank connected below that broker, or that broker itself? */
bool sim_is_below(const sim_t *s, uint32_t rank, const struct node *above);
void sim_stand_still(struct node *n, int64_t time);
/* Some subtree, or any ranks, or half of them, never rank 0; in one direction or both.  `events`:
 * they are cut off only from events. */
void sim_cut_off(sim_t *s, int64_t time, bool events);
/* Up to `count` times within the next `within` nanoseconds: some are cut off, or a broker stands
 * still, for up to SIM_ABSENT_MAX (rank 0: SIM_ROOT_STILL_MAX). */
void sim_absences(sim_t *s, unsigned count, int64_t within);
/* Is this broker connected to rank 0, and does that count it as up? */
bool sim_is_up(const sim_t *s, uint32_t rank);
/* Start brokers again until this one is up. */
void sim_bring_back(sim_t *s, uint32_t rank);
/* When the absences are over that have begun: all are started again, and are up. */
void sim_all_back(sim_t *s);

/* --- scenarios --- */

struct scenario {
    const char *name;
    const char *what;
    void (*run)(sim_t *s);                                 /* on a fresh session */
    void (*tune)(struct sim_config *cfg, struct rng *rng); /* may be NULL */
};
extern const struct scenario *const scenarios[]; /* ends with NULL */
extern const struct scenario scenario_apart, scenario_parted, scenario_bringup, scenario_routing,
    scenario_events, scenario_barrier, scenario_kvs, scenario_history, scenario_shutdown,
    scenario_log, scenario_jobs, scenario_feed, scenario_return, scenario_heal, scenario_many,
    scenario_live, scenario_launch, scenario_commit, scenario_streams, scenario_disk;

/* Print the table of messages per operation beside the formula.  0, or -1 when one exceeds it. */
int figures_print(uint32_t size, const char *topology);

#endif

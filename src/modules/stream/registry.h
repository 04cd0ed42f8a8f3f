/* Declarations that the files of the module `stream` share: stream.c (requests and writers),
 * registry.c (streams), readers.c, away.c, causes.c, formats.c, switches.c and listing.c.
 *
 * Thread rules: those of the module.
 */
#ifndef STREAM_REGISTRY_H
#define STREAM_REGISTRY_H

#include "libflux/dispatch.h"
#include "libflux/future.h"
#include "libidset/idset.h"
#include "libservice/claim.h"
#include "libservice/session.h"
#include "libstream/stream_wire.h"
#include "feed.h"
#include "libutil/hmap.h"
#include "libutil/list.h"
#include "libutil/strbuf.h"

#define MEMBERS_MAX 65536 /* writers and readers of all streams */
#define TRANSFORMS_MAX_LEN 4096
#define PLACE_MAX_LEN 255 /* bytes of a host, a place, an address, a key or a policy */

/* Work that is done in pieces. */
struct work {
    struct list_node node; /* in ctx.work, or in none */
    /* Do a piece of at least one step; call registry_work() if more steps remain. */
    void (*run)(struct work *w, struct flux_slice *s);
};

/* The request of a writer or reader, with its claim in ctx.claims: see away.c. */
struct away {
    flux_msg_t *req;
    flux_msg_t **earlier; /* copies of it that came before, by other ways, */
    unsigned nearlier;    /* and their number */
    struct claim claim;
    struct list_node node; /* in ctx.away, or in none */
    double until;
    bool lost;  /* the request has ended on its way, and was answered */
    bool reads; /* it is that of a reader */
};

struct ctx {
    flux_t *h;
    flux_handlers_t *handlers;
    session_t *session;
    struct claims *claims; /* of struct away */
    struct list_node away; /* writers and readers that cannot be reached, */
    unsigned nremoved;     /* and the requests of those whose streams were removed, which may be */
    flux_watcher_t *away_timer;
    struct claims *definers; /* the clients that have defined formats: formats.c */
    hmap_t *streams;         /* streams by name */
    struct stream **sorted;  /* the same streams, sorted by name */
    size_t room;             /* capacity of `sorted` */
    hmap_t *by_number;       /* writers by number */
    struct list_node work;   /* pieces of work, in the order in which they are done */
    flux_watcher_t *defer;
    flux_future_t *events;
    hmap_t *switches;       /* switches by name: switches.c */
    size_t idle;            /* number of switches that are on and without readers */
    struct list_node walks; /* requests for lists: listing.c */
    unsigned nwalks;
    uint64_t walked; /* number of lists that were begun */
    struct work walking;
    struct list_node junk; /* records of feeds that no longer exist */
    struct work sweep;
    struct list_node removing;
    uint64_t born;           /* see stream_members */
    flux_future_t *inherits; /* answered behind the requests that another instance has left */
    bool closing;
    unsigned ncauses;  /* requests for the causes of deaths: causes.c */
    unsigned nanswers; /* requests that wait for the notification of writers */
    struct {
        strbuf_t *sb;
        bool open;
        bool items;
    } page; /* the message to one listener of a feed */
    uint64_t writers;
    uint64_t readers;
    uint64_t left; /* writers and readers that have left while notices of it are pending */
    uint64_t opened;
    uint64_t last;  /* number of the last writer that joined any stream */
    size_t formats; /* bytes of all formats */
};

struct stream {
    struct ctx *ctx;
    char *name;
    struct list_node formats; /* what writers have defined: formats.c */
    unsigned nformats;        /* those of them that are formats of records */
    uint32_t size;
    struct list_node writers;
    struct list_node readers;
    uint64_t begin;  /* first step of the group */
    uint64_t job;    /* of all its writers; 0: several, or none */
    bool mixed;      /* they are of several jobs */
    uint64_t run;    /* see stream_member */
    idset_t *joined; /* ranks that have ever joined the group */
    idset_t *ranks;  /* ranks of the present writers */
    uint64_t epoch;  /* see flux_stream_epoch() */
    idset_t *taken;  /* ranks that have joined in this epoch */
    hmap_t *numbers; /* readers by number */
    uint32_t stays;  /* number of readers that stay, */
    uint32_t shares; /* and of those of them that are members of groups */
    uint64_t step;   /* larger than any step that writers or readers have counted */
    uint64_t need;   /* first step that groups may need of writers that have left since all were
                      * present; UINT64_MAX: none */
    bool paused;     /* state of which writers are notified: see stream_written */
    double limit;
    uint32_t attached;       /* transforms of writers, as in stream_written */
    char *transforms;        /* NULL: "" */
    uint32_t all_attached;   /* how often transforms were attached to all readers, */
    char *all_transforms;    /* and those; NULL: "" */
    char *cause;             /* cause of the last death; NULL: none, or a writer has joined since */
    struct list_node causes; /* causes that have been asked for: causes.c */
    struct feed members;     /* notifies readers of writers */
    struct work tell_readers;
    struct feed demands; /* notifies writers of readers whose policy or switch has changed */
    struct work tell_writers;
    flux_msg_t *removal; /* the request to remove the stream, while its processes are notified */
    struct work remove;
    struct list_node removing; /* in ctx.removing */
};

/* A writer or reader that has left, until all members have been notified of it. */
struct left {
    struct feed_record record;
    struct ctx *ctx;
    uint64_t number;
    uint32_t rank;
    const char *why;
    char *text; /* the cause, if it is known; NULL: only `why` */
    bool more;  /* a cause may follow */
};

struct writer {
    struct list_node node; /* in stream.writers */
    struct feed_item member;
    struct feed_listener listener; /* listens to stream.demands */
    struct left *left;
    struct away away;
    struct stream *s;
    uint64_t id;
    struct stream_member at; /* as readers in its place see it; the writer owns the strings */
    char *place;
    char *far;    /* address for readers in other places */
    bool task_of; /* the writer is a task of `job` */
    uint64_t job;
    uint32_t task;
    struct stream_count count;
    struct stream_queue queues[STREAM_QUEUES_MAX]; /* of the last count, */
    unsigned nqueues;                              /* and their number */
    double counted;                                /* time of the last count; 0: never */
    double rate;
};

struct reader {
    struct list_node node;         /* in stream.readers */
    struct feed_listener listener; /* listens to stream.members */
    struct feed_item demand; /* has a number if the policy or `off` has changed since it joined */
    struct left *left;
    struct away away;
    struct stream *s;
    uint64_t id; /* chosen by the reader */
    char *place;
    bool stay;
    bool shares; /* it stays, and is a member of a group */
    bool far;    /* it connects as from another place even in the place of the writer */
    char *host;
    uint32_t pid;
    char *policy;
    struct onoff *onoff;    /* the switch that turns the reader on and off; NULL: none */
    struct list_node turns; /* in a list of the switch */
    bool off;
    struct stream_took took;
    uint64_t job;      /* of which it is a task; 0: of none */
    uint32_t attached; /* transforms of this reader, as in stream_members */
    char *transforms;  /* NULL: "" */
    uint32_t all;      /* s->all_attached, of which it was told */
    uint64_t dropped;  /* as its writers have counted */
    double blocked;
    uint64_t walk;  /* number of the list of readers for which */
    uint64_t queue; /* this is the sum of what its writers have counted */
};

/* Find the stream that a request names.  Returns NULL after answering the request. */
struct stream *registry_find(struct ctx *ctx, const flux_msg_t *req, const char *name);
/* Find the stream of this name, or create it.  Returns NULL after answering the request. */
struct stream *registry_open(struct ctx *ctx, const flux_msg_t *req, const char *name);
/* Destroy a stream without writers and readers. */
void registry_unused(struct stream *s);
/* Queue a piece of work, to be done after the requests that have arrived, in turn with other
 * work. */
void registry_work(struct ctx *ctx, struct work *w);
void registry_work_init(struct work *w, void (*run)(struct work *w, struct flux_slice *s));
/* Queue the feeds of a stream in which something has changed. */
void registry_changed(struct stream *s);
/* Return the buffer of the message to the present listener.  The message is an object with the
 * array `gone` and then the array `items`; the next element is written to the latter, or to `gone`
 * if `items` is NULL. */
strbuf_t *registry_page(struct ctx *ctx, const char *items);
/* Send the message, with the members that were appended to its object, as a response that other
 * responses follow.  Returns -1 if the request was answered with ENOMEM instead. */
int registry_page_send(struct ctx *ctx, const flux_msg_t *req); /* NULL: discard it */
struct left *registry_left_create(struct ctx *ctx, uint64_t number, uint32_t rank);
void registry_left_free(struct feed *f, struct feed_record *r);
/* Answer a request when all writers of the stream have been notified of the change. */
void registry_answer(struct stream *s, const flux_msg_t *req);
void registry_answer_passed(struct feed *f, struct feed_listener *mark);
/* Check the number of requests that wait for such an answer.  Returns -1 after answering the
 * request if there are too many. */
int registry_answers_full(struct ctx *ctx, const flux_msg_t *req);
/* Notify the processes of a stream of its removal, and then answer the request. */
void registry_remove(struct stream *s, const flux_msg_t *req);
/* Do pieces of work: the callback of ctx.defer. */
void registry_run(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg);
/* Returns 0, or -1 with ENOMEM; registry_fini() follows in both cases. */
int registry_init(struct ctx *ctx);
void registry_fini(struct ctx *ctx);

int away_init(struct ctx *ctx); /* 0, or -1 with ENOMEM */
void away_fini(struct ctx *ctx);
/* The way from the sender of `msg` was lost: its writers and readers are away. */
void away_sender(struct ctx *ctx, const flux_msg_t *msg);
/* Begin with the request of a member.  -1 with ENOMEM. */
int away_join(struct ctx *ctx, struct away *a, const flux_msg_t *req,
              void (*gone)(struct claim *c, bool canceled));
/* The same for a request that comes again; the claim is dropped without memory, too. */
int away_renew(struct ctx *ctx, struct away *a, const flux_msg_t *req);
/* Answer the request with an error, as the member leaves. */
void away_answer(struct ctx *ctx, struct away *a, int errnum, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
/* The stream of a member is removed: answer its request, and once more if it comes again. */
void away_remove(struct ctx *ctx, struct away *a, const char *name);
/* Answer a request that comes again after its stream was removed.  Returns false for any other. */
bool away_removed(struct ctx *ctx, const flux_msg_t *req, const char *name);
/* registry_page_send() to a member; one that is away is told everything when it comes back. */
int away_page_send(struct ctx *ctx, const struct away *a);
/* The member is freed. */
void away_over(struct ctx *ctx, struct away *a);

extern const struct feed_ops stream_writers_feed_ops;
/* Take a writer out of its stream, and notify the readers of the reason. */
void stream_writer_remove(struct writer *w, const char *why);

extern const struct feed_ops readers_feed_ops;
/* Notify the writers that the policy or switch of a reader has changed since it joined. */
void readers_demand(struct reader *r);
void readers_free(struct reader *r);
/* Send a response that tells of no writers, to a copy of its request. */
void readers_answer(const struct reader *r, const flux_msg_t *req);
/* Return the number of steps that a reader is behind, according to the last counts. */
uint64_t readers_lag(const struct reader *r);
void readers_read_cb(flux_t *h, const flux_msg_t *req, void *arg);
void readers_took_cb(flux_t *h, const flux_msg_t *req, void *arg);
void readers_policy_cb(flux_t *h, const flux_msg_t *req, void *arg);
/* Attach transforms to a reader, and answer the request.  `transforms` is taken over. */
void readers_attach(struct stream *s, const flux_msg_t *req, uint64_t reader, char *transforms);
/* The same for all readers, which are told in turn. */
void readers_attach_all(struct stream *s, const flux_msg_t *req, char *transforms);
void readers_switch_cb(flux_t *h, const flux_msg_t *msg, void *arg);

/* The states of switches, and the readers that name them: switches.c. */
int switches_join(struct reader *r, const char *name); /* "": no switch; -1 with ENOMEM */
void switches_leave(struct reader *r);
void switches_turn(struct ctx *ctx, const struct stream_switch *sw);
void switches_fini(struct ctx *ctx); /* when no readers are left */
const char *switches_name(const struct reader *r);

/* The causes of the deaths of writers: causes.c. */
/* Ask for the cause of a writer that will be removed.  Returns true if the readers will be notified
 * of it again. */
bool causes_ask(const struct writer *w);
/* Keep this cause for lists; NULL: none. */
void causes_set(struct stream *s, const char *text);
/* Forget all causes. */
void causes_drop(struct stream *s);

/* What writers have defined: formats.c. */
void formats_forget(struct stream *s); /* the stream ends */
void formats_group(struct stream *s);  /* a group of writers begins */
void formats_define_cb(flux_t *h, const flux_msg_t *req, void *arg);
void formats_format_cb(flux_t *h, const flux_msg_t *req, void *arg);

/* Lists of streams and readers: listing.c. */
void listing_init(struct ctx *ctx);
void listing_fini(struct ctx *ctx);
/* Keep the walk in step when a stream has got, or will lose, this place in ctx.sorted. */
void listing_stream_new(struct ctx *ctx, size_t place);
void listing_stream_gone(struct ctx *ctx, const struct stream *s, size_t place);
/* Keep the walk in step when this node of stream.writers or stream.readers will be removed. */
void listing_member_gone(struct ctx *ctx, const struct list_node *n);
void listing_streams_cb(flux_t *h, const flux_msg_t *req, void *arg);
void listing_readers_cb(flux_t *h, const flux_msg_t *req, void *arg);

#endif

/* What stream.c (the module, and writers), registry.c (streams), readers.c, causes.c,
 * formats.c, switches.c and listing.c share.
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

#define NAME_MAX_LEN 128
#define MEMBERS_MAX 65536 /* writers and readers, of all streams */
#define PLACE_MAX_LEN 255 /* bytes of a host, an address, a key */

/* Something to be done piece by piece. */
struct work {
    struct list_node node; /* in ctx.work, or in none */
    /* Do a piece, of at least one step; registry_work() if there is more. */
    void (*run)(struct work *w, struct flux_slice *s);
};

struct ctx {
    flux_t *h;
    flux_handlers_t *handlers;
    session_t *session;
    struct claims *claims;
    struct claims *definers; /* who has defined the formats that there are: formats.c */
    hmap_t *streams;         /* by name */
    struct stream **sorted;  /* the same, sorted by name */
    size_t room;             /* of `sorted` */
    hmap_t *by_number;       /* writers */
    struct list_node work;   /* in turn */
    flux_watcher_t *defer;
    flux_future_t *events;
    hmap_t *switches;       /* by name: switches.c */
    size_t idle;            /* of these, on and without readers */
    struct list_node walks; /* requests for lists: listing.c */
    unsigned nwalks;
    struct work walking;
    struct list_node junk; /* records of feeds that are there no longer */
    struct work sweep;
    struct list_node removing;
    bool closing;
    unsigned ncauses;  /* requests for the reason why writers have died: causes.c */
    unsigned nanswers; /* to requests, that wait for writers to be notified */
    struct {
        strbuf_t *sb;
        bool open;
        bool items;
    } page; /* what a listener of a feed gets now */
    uint64_t writers;
    uint64_t readers;
    uint64_t left; /* writers and readers that are gone, and not all have been notified */
    uint64_t opened;
    uint64_t last;  /* number of the last writer that joined any stream */
    size_t formats; /* bytes of all */
};

struct stream {
    struct ctx *ctx;
    char *name;
    char *format;         /* of the group; NULL: not defined yet */
    struct claim definer; /* for whom the bytes of the format count */
    uint32_t size;
    struct list_node writers;
    struct list_node readers;
    uint64_t begin;  /* the step with which the group has begun */
    idset_t *joined; /* ranks of it that have joined, ever */
    idset_t *ranks;  /* of the writers that there are */
    uint64_t epoch;  /* see flux_stream_epoch() */
    idset_t *taken;  /* ranks that have joined in this epoch */
    hmap_t *numbers; /* readers */
    uint64_t step;   /* larger than all that were counted, by writers or readers */
    bool paused;     /* what writers are notified of: see stream_written */
    double limit;
    char *cause; /* why the last writer that died has; NULL: none, or its place was taken */
    struct list_node causes; /* that are asked for: causes.c */
    struct feed members;     /* tells readers of writers */
    struct work tell_readers;
    struct feed demands; /* tells writers of readers that want something else than at first */
    struct work tell_writers;
    flux_msg_t *removal; /* the request to remove it, while its processes are notified */
    struct work remove;
    struct list_node removing; /* in ctx.removing */
};

/* What is left of a writer or reader until all know that it is gone. */
struct left {
    struct feed_record record;
    struct ctx *ctx;
    uint64_t number;
    uint32_t rank;
    const char *why;
    char *text; /* the cause, once it is known; NULL: `why` only */
    bool more;  /* the cause may follow */
};

struct writer {
    struct list_node node; /* in stream.writers */
    struct feed_item member;
    struct feed_listener listener; /* of demands */
    struct left *left;
    struct claim claim;
    struct stream *s;
    flux_msg_t *req;
    uint64_t id;
    struct stream_member at; /* for readers of its place; its strings belong to it */
    char *place;
    char *far;    /* where readers of other places connect */
    bool task_of; /* a job: */
    uint64_t job;
    uint32_t task;
    struct stream_count count;
    double counted; /* when; 0: never */
    double rate;
};

struct reader {
    struct list_node node;         /* in stream.readers */
    struct feed_listener listener; /* of members */
    struct feed_item demand;       /* its policy or off may not be what it has come with */
    struct left *left;
    struct claim claim;
    struct stream *s;
    flux_msg_t *req;
    uint64_t id; /* which it has chosen */
    char *place;
    bool far; /* it goes the way of other places anyway */
    char *host;
    uint32_t pid;
    char *policy;
    struct onoff *onoff;    /* the switch that turns it on and off; NULL: none */
    struct list_node turns; /* of the switch */
    bool off;
    struct stream_took took;
};

/* The stream that a request is about, or NULL after answering it. */
struct stream *registry_find(struct ctx *ctx, const flux_msg_t *req, const char *name);
/* The same, made if it is new. */
struct stream *registry_open(struct ctx *ctx, const flux_msg_t *req, const char *name);
/* Forget a stream that nobody uses. */
void registry_unused(struct stream *s);
/* Do it when the requests that have come are handled, in turn with other work. */
void registry_work(struct ctx *ctx, struct work *w);
void registry_work_init(struct work *w, void (*run)(struct work *w, struct flux_slice *s));
/* Go on with the feeds of a stream in which something has changed. */
void registry_changed(struct stream *s);
/* What a listener gets now: an object with the array `gone`, and then the array `items`.  The
 * buffer in which to write an element of this array, or of `gone` if `items` is NULL. */
strbuf_t *registry_page(struct ctx *ctx, const char *items);
/* Send it as a response that is followed by others, with what was added to its object.  -1: the
 * request was answered with ENOMEM. */
int registry_page_send(struct ctx *ctx, const flux_msg_t *req);
struct left *registry_left_create(struct ctx *ctx, uint64_t number, uint32_t rank);
void registry_left_free(struct feed *f, struct feed_record *r);
/* Answer a request when all writers of the stream have been notified of what has changed. */
void registry_answer(struct stream *s, const flux_msg_t *req);
void registry_answer_passed(struct feed *f, struct feed_listener *mark);
/* Too many wait?  -1 after answering the request. */
int registry_answers_full(struct ctx *ctx, const flux_msg_t *req);
/* Tell the processes of a stream that it was removed, and then answer the request. */
void registry_remove(struct stream *s, const flux_msg_t *req);
/* Do pieces of work: for ctx.defer. */
void registry_run(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg);
/* 0, or -1 with ENOMEM; registry_fini() follows in both cases. */
int registry_init(struct ctx *ctx);
void registry_fini(struct ctx *ctx);

extern const struct feed_ops stream_writers_feed_ops;
/* Take a writer out of its stream, whose readers are informed why. */
void stream_writer_remove(struct writer *w, const char *why);

extern const struct feed_ops readers_feed_ops;
/* What a reader wants may differ from now on from what it has come with. */
void readers_demand(struct reader *r);
void readers_free(struct reader *r);
/* Steps that a reader is behind, as far as it is known. */
uint64_t readers_lag(const struct reader *r);
void readers_read_cb(flux_t *h, const flux_msg_t *req, void *arg);
void readers_took_cb(flux_t *h, const flux_msg_t *req, void *arg);
void readers_policy_cb(flux_t *h, const flux_msg_t *req, void *arg);
void readers_switch_cb(flux_t *h, const flux_msg_t *msg, void *arg);

/* Whether the readers that name a switch are on: switches.c. */
int switches_join(struct reader *r, const char *name); /* "": none; -1 with ENOMEM */
void switches_leave(struct reader *r);
void switches_turn(struct ctx *ctx, const struct stream_switch *sw);
void switches_fini(struct ctx *ctx); /* there are no readers any more */
const char *switches_name(const struct reader *r);

/* Why writers have died: causes.c */
/* Ask for the cause of a writer that will be removed; true: readers will be notified again. */
bool causes_ask(const struct writer *w);
/* Keep this cause, or none, for lists. */
void causes_set(struct stream *s, const char *text);
/* Forget all causes. */
void causes_drop(struct stream *s);

/* What writers say that their steps are: formats.c */
void formats_forget(struct stream *s);
void formats_define_cb(flux_t *h, const flux_msg_t *req, void *arg);
void formats_format_cb(flux_t *h, const flux_msg_t *req, void *arg);

/* Lists of streams and readers: listing.c. */
void listing_init(struct ctx *ctx);
void listing_fini(struct ctx *ctx);
/* A stream has got, or will lose, this place in ctx.sorted. */
void listing_stream_new(struct ctx *ctx, size_t place);
void listing_stream_gone(struct ctx *ctx, const struct stream *s, size_t place);
/* This node of stream.writers or stream.readers will be removed. */
void listing_member_gone(struct ctx *ctx, const struct list_node *n);
void listing_streams_cb(flux_t *h, const flux_msg_t *req, void *arg);
void listing_readers_cb(flux_t *h, const flux_msg_t *req, void *arg);

#endif

/* What stream.c (streams and writers) and readers.c share.
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
#include "libutil/hmap.h"
#include "libutil/list.h"

#define NAME_MAX_LEN 128
#define PLACE_MAX_LEN 255 /* bytes of a host, an address, a key */

struct ctx {
    flux_t *h;
    flux_handlers_t *handlers;
    session_t *session;
    struct claims *claims;
    hmap_t *streams; /* by name */
    struct list_node dirty;
    flux_watcher_t *defer;
    flux_future_t *events;
    hmap_t *on; /* names of switches that are on */
    uint64_t writers;
    uint64_t readers;
    uint64_t opened;
    uint64_t last;  /* number of the last writer that joined any stream */
    size_t formats; /* bytes of all */
};

struct stream {
    struct ctx *ctx;
    char *name;
    char *format; /* of the group; NULL: not defined yet */
    uint32_t size;
    struct list_node writers;
    struct list_node readers;
    uint64_t last;   /* number of the last writer that joined */
    uint64_t begin;  /* the step with which the group has begun */
    idset_t *joined; /* ranks of it that have joined, ever */
    uint64_t step;   /* larger than all that were counted */
    bool paused;     /* what writers are told: see stream_written */
    double limit;
    struct list_node dirty; /* in ctx.dirty while readers have to be told */
    json_t *gone;           /* of stream_gone: those that left in this pass */
};

struct writer {
    struct list_node node; /* in stream.writers */
    struct claim claim;
    struct stream *s;
    flux_msg_t *req;
    uint64_t id;
    struct stream_member at; /* for readers of its place; its strings belong to it */
    char *place;
    char *far; /* where readers of other places connect */
    struct stream_count count;
    double counted; /* when; 0: never */
    double rate;
};

struct reader {
    struct list_node node; /* in stream.readers */
    struct claim claim;
    struct stream *s;
    flux_msg_t *req;
    uint64_t id;   /* which it has chosen */
    uint64_t seen; /* the last writer that it was told of */
    char *place;
    bool far; /* it goes the way of other places anyway */
    char *host;
    uint32_t pid;
    char *policy;
    char *onoff; /* the switch that turns it on and off; "": none */
    bool off;
    bool changed; /* policy or off may not be what it has come with */
    struct stream_took took;
};

/* The stream that a request is about, or NULL after answering it. */
struct stream *registry_find(struct ctx *ctx, const flux_msg_t *req, const char *name);
/* The same, made if it is new. */
struct stream *registry_open(struct ctx *ctx, const flux_msg_t *req, const char *name);
/* Forget a stream that nobody uses. */
void registry_unused(struct stream *s);
/* Readers have to be told something. */
void registry_changed(struct stream *s);
/* Tell writers what they may do, and what readers want. */
void registry_writers_tell(struct stream *s);
/* A response that is followed by others.  -1: the request was answered with ENOMEM. */
int registry_respond_more(flux_t *h, const flux_msg_t *req, const struct flux_schema *desc,
                          const void *in);

/* Tell a reader what is new to it.  -1: it has no request any more. */
int readers_tell(struct reader *r);
void readers_free(struct reader *r);
/* Steps that a reader is behind, as far as it is known. */
uint64_t readers_lag(const struct reader *r);
void readers_read_cb(flux_t *h, const flux_msg_t *req, void *arg);
void readers_took_cb(flux_t *h, const flux_msg_t *req, void *arg);
void readers_list_cb(flux_t *h, const flux_msg_t *req, void *arg);
void readers_policy_cb(flux_t *h, const flux_msg_t *req, void *arg);
void readers_switch_cb(flux_t *h, const flux_msg_t *msg, void *arg);

#endif

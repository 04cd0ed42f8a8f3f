/* km_once.h - the commits that a master has received from other instances, and their outcomes, by
 * which it recognizes a commit that was sent again.
 *
 * Thread rules: those of the handle.
 */
#ifndef KM_ONCE_H
#define KM_ONCE_H

#include "libcontent/content.h"
#include "libkvs/kvs_wire.h"

/* The outcome of one or more commits: a new root, or an error. */
struct km_outcome {
    unsigned refs;
    int errnum; /* 0: applied; the root contains the commit */
    uint64_t version;
    uint8_t root[BLOBREF_DIGEST_MAX];
    char text[]; /* of the error */
};
/* With one reference.  `text` may be NULL.  NULL with ENOMEM. */
struct km_outcome *km_once_outcome(int errnum, const char *text);
struct km_outcome *km_once_ref(struct km_outcome *o);
void km_once_unref(struct km_outcome *o); /* NULL-safe, keeps errno */

struct km_once;
/* A table for at most `max` senders; the one that was silent for longest makes room.  Create: NULL
 * with ENOMEM.  Destroy: NULL-safe, keeps errno. */
struct km_once *km_once_create(size_t max);
void km_once_destroy(struct km_once *t);

/* A commit that may be pending or over. */
struct km_once_found {
    void *pending;                    /* as given to km_once_begin() */
    const struct km_outcome *outcome; /* valid until the next call */
};
enum km_once_state {
    KM_ONCE_NEW,     /* not seen before: km_once_begin() may follow */
    KM_ONCE_MISSING, /* the commit before it has not arrived */
    KM_ONCE_PENDING, /* it is in progress */
    KM_ONCE_OVER,    /* it has an outcome */
    KM_ONCE_UNKNOWN, /* it may have been applied, and its sender is not known */
    KM_ONCE_PAST,    /* its sender has an answer, or its outcome could not be kept */
};
/* What is known about a commit with KVS_NS_NUMBERED.  Outcomes that its sender has received are
 * dropped. */
enum km_once_state km_once_look(struct km_once *t, const struct kvs_ns_req *q,
                                struct km_once_found *found);
/* A new commit begins; `pending` (not NULL) represents it.  -1 with ENOMEM. */
int km_once_begin(struct km_once *t, const struct kvs_ns_req *q, void *pending);
/* It is over, with an outcome that is kept (a reference is taken), or (NULL, no memory) without
 * one.  Harmless for a commit that is not known. */
void km_once_end(struct km_once *t, uint64_t sender, uint64_t number, struct km_outcome *o);
size_t km_once_count(const struct km_once *t); /* commits that are kept */

#endif

/* What inlet_far.c (joining, steps, values) and inlet_far_io.c (messages) share. */
#ifndef STREAM_INLET_FAR_PRIVATE_H
#define STREAM_INLET_FAR_PRIVATE_H

#include "libstream/block.h"
#include "libstream/copy.h"
#include "libstream/extent.h"
#include "libstream/far_link.h"
#include "libstream/far_msg.h"
#include "libstream/inlet_far.h"
#include "libstream/lane.h"
#include "libutil/list.h"

#define INLET_FAR_BUFFER 65536
#define INLET_FAR_ANSWER 60. /* seconds without a byte of an answer */

/* What is pinned as of some steps. */
struct inlet_far_pin {
    uint64_t number;
    uint64_t len;
    struct extent *e;
    unsigned refs; /* steps, and one while it is that of the next steps, or arrives */
};

struct inlet_far_step {
    struct list_node node; /* in `queue` until it is taken */
    uint64_t number;
    uint64_t step;
    uint64_t len;
    uint64_t first; /* bytes that are there, from the first one on */
    struct extent *e;
    struct inlet_far_pin *pin;          /* NULL: nothing is pinned */
    uint64_t have[BLOCK_VARS_MAX / 64]; /* variables of which the value is there */
};

/* A question for values. */
struct inlet_far_pending {
    bool open;
    uint64_t number; /* of the step */
    uint64_t len;
    unsigned char *to; /* NULL: the answer is of no use any more */
    bool packed;       /* to `packed` first, and then to the box */
    struct stream_part part;
    void *box;
};

struct inlet_far {
    far_link_t *link;
    bool asks; /* for each step */
    bool asked;
    bool waits; /* for the next step, and the writer knows it */

    unsigned char *base; /* of the memory of steps */
    uint64_t size;
    extent_pool_t *pool;
    struct inlet_far_step *steps[LANE_SLOTS];
    struct list_node queue;
    uint64_t last;        /* number of the last one announced */
    unsigned char *first; /* first bytes of the last FAR_STEP */
    uint64_t first_len;

    unsigned char buf[INLET_FAR_BUFFER];
    size_t at, len;                  /* what of it was not handled */
    struct far_msg msg;              /* the message whose payload comes */
    unsigned char *to;               /* where to; NULL: nowhere */
    uint64_t left;                   /* bytes of it */
    struct inlet_far_step *arriving; /* the step whose first bytes come */
    struct inlet_far_pin *pin;       /* of the next steps; its bytes may be coming; NULL: none */

    struct inlet_far_pending pending;
    unsigned char *packed;
    uint64_t packed_room;

    enum lane_end end;
    int errnum;     /* of the connection: nothing is read or written any more */
    uint64_t moved; /* bytes that have come */
};

struct inlet_far_step *inlet_far_step_find(inlet_far_t *f, uint64_t number);
void inlet_far_step_free(inlet_far_t *f, struct inlet_far_step *st);
void inlet_far_pin_unref(inlet_far_t *f, struct inlet_far_pin *p); /* NULL-safe */

/* The connection has failed: 0 of recv(2), or errno.  Returns -1. */
int inlet_far_broken(inlet_far_t *f, int errnum);
/* Look at what has come, without waiting, until `enough` (NULL: all of it).  0, or -1: the
 * connection has ended. */
int inlet_far_pump(inlet_far_t *f, bool (*enough)(const inlet_far_t *));
/* Wait until `enough`, for at most `seconds` in which no byte comes.  1; 0: not yet; -1. */
int inlet_far_pump_until(inlet_far_t *f, bool (*enough)(const inlet_far_t *), double seconds);
/* Send a message, which is small: the writer reads it even when it is busy.  Waits only for one
 * that was stopped long ago.  0, or -1 with the error of the connection. */
int inlet_far_say(inlet_far_t *f, const struct far_msg *m, const void *payload);

#endif

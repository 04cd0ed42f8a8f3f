/* Declarations that inlet_far.c (steps, values), inlet_far_io.c (messages) and inlet_far_join.c
 * (joining) share. */
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
#define INLET_FAR_ANSWER 60. /* seconds without a byte of a response */

/* The pin block of some steps. */
struct inlet_far_pin {
    uint64_t number;
    uint64_t len;
    struct extent *e;
    unsigned refs; /* steps, and one while it is that of the next steps, or arrives */
};

struct inlet_far_step {
    struct list_node node; /* in `queue` until the step is taken */
    uint64_t number;
    uint64_t step;
    uint64_t len;
    uint64_t first; /* number of bytes, from the first one on, that have arrived */
    struct extent *e;
    struct inlet_far_pin *pin;          /* NULL: nothing is pinned */
    uint64_t have[BLOCK_VARS_MAX / 64]; /* variables of which the value is there */
};

/* A request for values. */
struct inlet_far_pending {
    bool open;
    uint64_t number; /* of the step */
    uint64_t len;
    unsigned char *to; /* NULL: the response is discarded */
    bool packed;       /* the response goes to `packed`, and then to the box */
    struct stream_part part;
    void *box;
    struct far_msg msg; /* the request, for the case that it has to be sent again */
    uint8_t payload[FAR_BOX_MAX];
};

struct inlet_far {
    far_link_t *link;
    bool left_it; /* this end has left the writer */
    bool asks;    /* this end requests each step */
    bool asked;
    bool waits; /* it waits for the next step, and has requested it */

    unsigned char *base; /* of the memory of steps */
    uint64_t size;
    extent_pool_t *pool;
    struct inlet_far_step *steps[LANE_SLOTS];
    struct list_node queue;
    uint64_t last;        /* number of the last announced step */
    unsigned char *first; /* first bytes of the last FAR_STEP */
    uint64_t first_len;

    unsigned char *buf;              /* INLET_FAR_BUFFER bytes */
    size_t at, len;                  /* what of it was not handled */
    struct far_msg msg;              /* the message whose payload comes */
    unsigned char *to;               /* where to; NULL: nowhere */
    uint64_t left;                   /* bytes of it */
    struct inlet_far_step *arriving; /* the step whose first bytes come */
    struct inlet_far_pin *pin;       /* of the next steps; its bytes may be coming; NULL: none */

    uint64_t floor;           /* of the last FAR_NOTE, */
    uint64_t missing;         /* and its step, plus 1; 0: none */
    bool noted;               /* it has come since the last inlet_far_sleep() */
    struct knock_claim claim; /* the last, if there was one (`claims`) */
    bool claims;

    struct inlet_far_pending pending;
    unsigned char *packed;
    uint64_t packed_room;

    /* Through relays (inlet_far_join.c): */
    bool shared;
    bool lost;             /* the connection is cut, and there is no link; or */
    bool gave_up;          /* it could not be resumed, */
    errmsg_t why;          /* for this reason */
    struct share_id relay; /* that of this host */
    struct share_place place;
    struct inlet_far_opts opts; /* those of joining, with memory of this struct */
    char *address;
    unsigned char secret[FAR_KEY_LEN];
    struct knock_want want;
    uint64_t have; /* number of the last step that has come whole */
    double since;  /* the time at which the connection was cut */
    double due;    /* the time of the next attempt */
    double pause;  /* after that */
    int wait_fd;   /* reports on the link, or that an attempt is due; -1: not shared */
    int timer_fd;

    enum lane_end end;
    int errnum;     /* error of the connection: nothing more is read or written */
    uint64_t moved; /* number of bytes received */
};

struct inlet_far_step *inlet_far_step_find(inlet_far_t *f, uint64_t number);
void inlet_far_step_free(inlet_far_t *f, struct inlet_far_step *st);
void inlet_far_pin_unref(inlet_far_t *f, struct inlet_far_pin *p); /* NULL-safe */

int inlet_far_memory_open(inlet_far_t *f, errmsg_t *err);

/* Record the failure of the connection: 0 from recv(2), or errno.  -1; 0: it may be resumed. */
int inlet_far_broken(inlet_far_t *f, int errnum);
/* Has the connection been cut by the end of a relay?  Then it is closed, and waits for
 * inlet_far_resume(): 1; 0: not yet; -1: it cannot be resumed. */
bool inlet_far_cut(inlet_far_t *f, int errnum);
int inlet_far_resume(inlet_far_t *f);
/* Process received messages, without waiting, until `enough` returns true (NULL: all).  0, or -1:
 * the connection has ended. */
int inlet_far_pump(inlet_far_t *f, bool (*enough)(const inlet_far_t *));
/* Wait until `enough` returns true, for at most `seconds` without a byte.  1; 0: not yet; -1. */
int inlet_far_pump_until(inlet_far_t *f, bool (*enough)(const inlet_far_t *), double seconds);
/* Send a small message; the writer reads it even when it is busy.  Waits only if the writer has
 * been stopped for long.  0, or -1 with the error of the connection. */
int inlet_far_say(inlet_far_t *f, const struct far_msg *m, const void *payload);

#endif

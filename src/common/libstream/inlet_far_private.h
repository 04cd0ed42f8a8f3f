/* Declarations that inlet_far.c (steps), inlet_far_ask.c (values), inlet_far_io.c (messages),
 * inlet_far_join.c (joining) and inlet_far_dial.c (attempts to connect) share. */
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
    uint64_t parts; /* see struct lane_item */
    struct extent *e;
    struct inlet_far_pin *pin;          /* NULL: nothing is pinned */
    uint64_t have[BLOCK_VARS_MAX / 64]; /* variables of which the value is there */
};

struct inlet_far_load {
    uint64_t steps, bytes;
};

#define INLET_FAR_NO_VAR UINT32_MAX

/* A request for values. */
struct inlet_far_pending {
    uint64_t number; /* of the step */
    uint32_t var;    /* the variable whose value is requested, or INLET_FAR_NO_VAR */
    uint64_t len;
    unsigned char *to; /* NULL: the response is discarded, or it is unpacked to `box`: */
    void *box;
    struct stream_part part;
    struct far_msg msg; /* the request, for the case that it has to be sent again */
    uint8_t payload[FAR_BOX_MAX];
};

/* How far an attempt to reach the writer has come: see inlet_far_dial.c. */
enum inlet_far_reached { NOBODY, SOMEBODY, WRITER };

struct inlet_far_dial {
    char address[FAR_ADDR_MAX];
    struct far_hello hello;
    double until;
    enum inlet_far_reached reached;
    size_t got; /* bytes of the message that is awaited */
    unsigned char greeting[FAR_GREETING_LEN];
    unsigned char said[FAR_HELLO_LEN];
    unsigned char welcome[FAR_WELCOME_LEN];
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
    struct inlet_far_load live;   /* steps that were announced, and not released */
    struct inlet_far_load unsaid; /* that were released, which the writer may not have heard yet */
    uint64_t last;                /* number of the last announced step */
    unsigned char *first;         /* first bytes of the last FAR_STEP */
    uint64_t first_len;
    uint64_t parts; /* of the step that is announced next; 0: it is not divided */

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

    struct inlet_far_pending *pending; /* requests without response: a ring */
    unsigned pending_room;             /* a power of two */
    unsigned pending_first;            /* the oldest */
    unsigned npending;
    unsigned char *packed; /* the response that comes, until it is whole */
    uint64_t packed_room;

    /* inlet_far_join.c: */
    struct inlet_far_search *search; /* NULL: the writer is found */
    struct inlet_far_dial dial;      /* the last attempt */
    struct inlet_far_opts opts;      /* those of joining, with memory of this struct */
    char *address;
    unsigned char secret[FAR_KEY_LEN];
    struct share_place place;
    struct knock_want want;

    /* Through relays: */
    bool shared;
    bool lost;             /* the connection is cut, and there is no link; or */
    bool gave_up;          /* it could not be resumed, */
    errmsg_t why;          /* for this reason */
    struct share_id relay; /* that of this host */
    uint64_t have;         /* number of the last step that has come whole */
    double since;          /* the time at which the connection was cut */
    double due;            /* the time of the next attempt */
    double pause;          /* after that */
    int wait_fd;           /* reports on the link, or that an attempt is due; -1: not shared */
    int timer_fd;

    enum lane_end end;
    int errnum;     /* error of the connection: nothing more is read or written */
    uint64_t moved; /* number of bytes received */
};

struct inlet_far_step *inlet_far_step_find(inlet_far_t *f, uint64_t number);
void inlet_far_step_free(inlet_far_t *f, struct inlet_far_step *st);
void inlet_far_pin_unref(inlet_far_t *f, struct inlet_far_pin *p); /* NULL-safe */

int inlet_far_memory_open(inlet_far_t *f, errmsg_t *err);

/* Begin an attempt at one address, until a point in time.  0, or -1 with an error message. */
int inlet_far_dial(inlet_far_t *f, const char *address, const struct far_hello *h, double until,
                   errmsg_t *err);
/* What it waits for: sets fd and events, and returns the time of its end. */
double inlet_far_dial_poll(const inlet_far_t *f, struct pollfd *p);
/* Go on with it.  1: the writer has answered; 0: not yet; -1 with an error message. */
int inlet_far_dial_on(inlet_far_t *f, struct far_welcome *w, errmsg_t *err);
/* Has a connection through relays been closed in both directions, and not by the writer? */
bool inlet_far_hung(int fd);

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
/* Say that a step was released.  `later`: it can wait until more is said; inlet_far_push() sends
 * it. */
void inlet_far_say_release(inlet_far_t *f, const struct inlet_far_step *st, bool later);
/* Send a request for values; it can wait as well. */
int inlet_far_say_question(inlet_far_t *f, const struct inlet_far_pending *p);

/* The request number `i` of those without response, from the oldest one on. */
struct inlet_far_pending *inlet_far_pending(inlet_far_t *f, unsigned i);
void inlet_far_pending_pop(inlet_far_t *f);
/* Discard the responses to requests of this step, or of all steps (0), that are still to come. */
void inlet_far_ask_drop(inlet_far_t *f, uint64_t number);
/* FAR_DATA comes: 0, or -1: it is not what was requested; its bytes have come. */
int inlet_far_data_begin(inlet_far_t *f);
void inlet_far_data_ready(inlet_far_t *f);
/* The error message when no more steps come: -1. */
int inlet_far_ended(const inlet_far_t *f, errmsg_t *err);

#endif

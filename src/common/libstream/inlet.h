/* The reader's end of a stream: the steps of one writer, in its memory, or on another host.
 *
 *    inlet_t *i = inlet_connect(name, key, &want, timeout, err);
 *    for (;;) {
 *        while (inlet_take(i, &s, err) == 1) {
 *            use s.data, s.len;                the writer's memory itself, read-only
 *            inlet_release(i, &s);
 *        }
 *        if (inlet_sleep(i)) { poll inlet_fd() for input; inlet_wake(i); }
 *    }
 *
 * Between hosts only the first bytes of a step come by themselves, which are its table (block.h),
 * or all of a small one.  Values come when they are requested: inlet_fetch(), inlet_ask().  On one
 * host these have nothing to do.  Pinned values (stream_pin.c) come by themselves, once.
 *
 * Thread rules: one thread at a time.
 */
#ifndef STREAM_INLET_H
#define STREAM_INLET_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "libstream/knock.h"
#include "libstream/select.h"
#include "libstream/share.h"
#include "libutil/errmsg.h"

typedef struct inlet inlet_t;

struct inlet_step {
    uint64_t number; /* for inlet_release() */
    uint64_t step;
    const void *data; /* valid until the step is released */
    uint64_t len;
    uint64_t pin;       /* number of the pin block of the step, from 1 on; 0: there is none */
    const void *pinned; /* its bytes, valid as long as `data`; equal numbers: the same bytes in the
                         * same place */
    uint64_t pinned_len;
    uint64_t parts; /* see struct lane_item */
};

/* Connect to a writer of this host.  `name`: from outlet_name().  NULL with an error message and
 * EACCES (wrong capability), EPERM (a process of another user), ECONNREFUSED (no writer),
 * ETIMEDOUT, EPROTO or another errno. */
inlet_t *inlet_connect(const char *name, const unsigned char *key, const struct knock_want *want,
                       double timeout, errmsg_t *err);
/* A writer on another host, with the grant of the module `stream`. */
struct inlet_far_opts {
    const char *address;         /* see far_addr.h */
    const unsigned char *secret; /* FAR_KEY_LEN bytes */
    uint64_t reader;
    uint64_t expires;
    bool secure;    /* insist on encryption; false: the writer decides */
    double silence; /* seconds of silence after which a host counts as gone; 0: INLET_SILENCE */
    /* Go through the relay of this host, which may have to be started, if the writer is at one
     * (share.h); NULL: no. */
    const struct share_place *share;
};
#define INLET_SILENCE 20.
/* Begin to connect to a writer of this host, or of another one, within `timeout` seconds, which
 * does not wait for its answer: so a reader can connect to many writers at the same time.  The
 * options are copied.  NULL with an error message, and EINVAL, ENOMEM or, on this host, another
 * errno of inlet_connect(). */
inlet_t *inlet_begin(const char *name, const unsigned char *key, const struct knock_want *want,
                     double timeout, errmsg_t *err);
inlet_t *inlet_begin_far(const struct inlet_far_opts *opts, const struct knock_want *want,
                         double timeout, errmsg_t *err);
/* Go on with that.  1: it is connected; 0: not yet; -1 with the errors of inlet_connect() or
 * inlet_connect_far().  Before it has returned 1, only inlet_joining_poll(), inlet_leave() and
 * inlet_destroy() may be called as well. */
int inlet_joining(inlet_t *i, errmsg_t *err);
/* When to call inlet_joining() again: when poll(2) reports `p`, which is set (fd -1: there is
 * nothing to wait for but the time), and not later than at the time (clock_now()) that is
 * returned. */
double inlet_joining_poll(const inlet_t *i, struct pollfd *p);
/* Connect to a writer of another host, and wait for that.  NULL with an error message and EACCES
 * (wrong or expired capability), ECONNREFUSED, EHOSTUNREACH, ETIMEDOUT, EPROTO or another errno. */
inlet_t *inlet_connect_far(const struct inlet_far_opts *opts, const struct knock_want *want,
                           double timeout, errmsg_t *err);
/* Releases all steps.  NULL-safe, keeps errno. */
void inlet_destroy(inlet_t *i);

/* Leave the writer, which no longer waits for this reader, and reuses the memory of its steps.  The
 * mapping stays until inlet_destroy(); inlet_release() has no effect any more. */
void inlet_leave(inlet_t *i);
/* After the writer is gone: make all steps that were taken read as zeros, without memory; only
 * inlet_destroy() may follow. */
void inlet_hollow(inlet_t *i);
/* Becomes readable after inlet_sleep(). */
int inlet_fd(const inlet_t *i);

/* Take the next step: 1; there is none yet: 0.  -1 with an error message and ENODATA (the writer
 * has closed the stream), ECONNRESET (it died), ESTALE (this reader was evicted, since it did not
 * keep up) or EPROTO; steps that were taken stay valid even then. */
int inlet_take(inlet_t *i, struct inlet_step *s, errmsg_t *err);
/* Call it before poll(2): false if there is a step to take. */
bool inlet_sleep(inlet_t *i);
/* Call it after poll(2). */
void inlet_wake(inlet_t *i);

/* Let the writer reuse the memory of a step.  The writer gets steps back in the order in which they
 * were taken: a step that is not released delays those after it.  0, or -1 with EINVAL: the step is
 * not held. */
int inlet_release(inlet_t *i, const struct inlet_step *s);

struct inlet_stats {
    bool far;          /* the writer is on another host */
    bool lost;         /* a relay on the way has ended, and the connection could not be resumed */
    uint64_t received; /* bytes that have come from there, of any kind */
};
void inlet_get_stats(const inlet_t *i, struct inlet_stats *st);

/* --- groups over several writers --- */

/* What a member has to know of a group: all steps before the number that this returns, from the
 * writer that hands out the steps, are done.  Outside of groups, none of them comes, beside those
 * that wait to be taken: UINT64_MAX while the reader is off. */
uint64_t inlet_floor(const inlet_t *i);
/* Claim a step of a writer that follows: either inlet_take() takes it, when the writer has it, or
 * inlet_missing() becomes true.  All steps before `floor` are done.  A later claim replaces one
 * that was not met.  `step` KNOCK_NO_STEP: no claim.  An error of the connection is one of
 * inlet_take(). */
void inlet_claim(inlet_t *i, const struct knock_claim *c);
/* Has the writer said that it does not have the step that was claimed, and will not? */
bool inlet_missing(const inlet_t *i, uint64_t step);

/* --- values between hosts --- */

struct inlet_value {
    uint32_t var; /* place of the variable in the table of the step */
    uint64_t off; /* of its value in the step */
    uint64_t len;
};
/* In the following functions, `i` is NULL for a step that is in memory of this process.
 *
 * Fetch the value into its place.  0, or -1 with ECONNRESET or EPROTO and an error message. */
int inlet_fetch(inlet_t *i, const struct inlet_step *s, const struct inlet_value *v, errmsg_t *err);
/* Are values in memory of this host, where they need not be fetched? */
bool inlet_here(const inlet_t *i);
/* Fetch all values of the step. */
int inlet_fetch_all(inlet_t *i, const struct inlet_step *s, errmsg_t *err);
/* Copy the elements of a part of a box of the variable to the box in `buf`; they are complete only
 * after inlet_answer().  Many requests may be outstanding, of several writers, which then answer at
 * the same time: inlet_push() sends all that one writer was asked for.  Nothing is written to `buf`
 * after inlet_answer(), which waits for all of a writer, or inlet_forget().  0, or -1 as above. */
int inlet_ask(inlet_t *i, const struct inlet_step *s, const struct inlet_value *v,
              const struct stream_box *box, const struct stream_part *part, void *buf,
              errmsg_t *err);
/* The same for a value as a whole: after inlet_answer() it is in its place. */
int inlet_ask_value(inlet_t *i, const struct inlet_step *s, const struct inlet_value *v,
                    errmsg_t *err);
void inlet_push(inlet_t *i);
int inlet_answer(inlet_t *i, errmsg_t *err);
void inlet_forget(inlet_t *i);

#endif

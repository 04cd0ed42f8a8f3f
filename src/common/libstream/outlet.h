/* The writer's end of a stream: memory that holds steps, and the readers that have joined, on this
 * host or, where opts.far says so, on others.
 *
 *    outlet_t *o = outlet_create(&opts, err);          readers connect to outlet_name(o)
 *    if (outlet_wanted(o)) {
 *        outlet_begin(o, step, size, timeout, &buf, err);      room for the step, in its place
 *        write at most size bytes to buf;
 *        outlet_commit(o, len);                                readers see it, as a whole
 *    }
 *    outlet_destroy(o);                                readers get the steps that were offered, and
 *                                                      the end
 *
 * Thread rules: one thread of the caller at a time, but for outlet_wait(), outlet_want(),
 * outlet_forget(), outlet_forget_all(), outlet_wanted() and outlet_get_stats(), which any may call.
 * A thread of its own admits readers and notices that they are gone.
 */
#ifndef STREAM_OUTLET_H
#define STREAM_OUTLET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "libstream/knock.h"
#include "libstream/share.h"
#include "libutil/errmsg.h"

typedef struct outlet outlet_t;

/* Readers on other hosts. */
struct outlet_far_opts {
    int listen; /* from far_addr_listen(), taken over even if outlet_create() fails; 0: no such
                 * readers */
    int share;  /* from share_register(), taken over in the same way; 0: none */
    struct share_place place;  /* with that: of the relay, if it has to be started again, */
    char shared[FAR_ADDR_MAX]; /* and the address of this writer at it */
    const char *stream;        /* the name for which readers have grants; copied */
    bool secure;               /* encrypt, even if a reader does not request it */
    double silence;            /* seconds of silence after which a host counts as gone; 0: 20 */
    double linger; /* maximum seconds that outlet_destroy() waits while a reader neither reads nor
                    * releases anything; 0: 30 */
};

struct outlet_opts {
    const unsigned char *key; /* capability: KNOCK_KEY_LEN bytes, copied */
    uint64_t space;           /* address space for steps, in bytes; 0: EXTENT_SPACE */
    double evict;             /* seconds without progress after which a reader that blocks the
                                 writer is evicted; 0: never */
    double knock;             /* seconds within which a connection has to knock; 0: 2 */
    uint32_t keep;  /* number of steps, at most LANE_SLOTS / 2, that are kept for later readers */
    uint32_t depth; /* maximum number of steps in the queue of a reader that is in no group, if it
                     * asks for more; 0: as many as it asks for */
    struct outlet_far_opts far;
};

/* NULL with errno and an error message. */
outlet_t *outlet_create(const struct outlet_opts *opts, errmsg_t *err);
/* NULL-safe, keeps errno.  Readers of this host continue with the memory that they have mapped; the
 * function waits until readers of other hosts have released all steps. */
void outlet_destroy(outlet_t *o);
/* Let outlet_destroy() leave the memory of steps mapped, `*len` bytes, which the caller unmaps. */
void *outlet_leave_memory(outlet_t *o, size_t *len);
/* The program has failed: what readers are told by outlet_destroy(). */
void outlet_fail(outlet_t *o);

/* The address for readers: a name in the abstract namespace of UNIX sockets. */
const char *outlet_name(const outlet_t *o);
/* Would any reader, now or later, see a step that is written now? */
bool outlet_wanted(const outlet_t *o);
/* The next step will have at least this number.  A reader learns it when it joins, and when it is
 * turned on, so that it does not wait for steps that other writers have offered it before. */
void outlet_pass(outlet_t *o, uint64_t step);

/* Wait until there are at least `readers`, at most `timeout` seconds (< 0: without limit).  0, or
 * -1 with ETIMEDOUT and an error message. */
int outlet_wait(outlet_t *o, unsigned readers, double timeout, errmsg_t *err);

/* This writer takes the place of another one that died: await a reader, a member of a group, which
 * the other writer may have given steps.  No step of the group is handed out before the reader has
 * joined, or is forgotten.  `follow`: see struct knock_want.  No effect if the reader is here. */
void outlet_await(outlet_t *o, uint64_t reader, const char *group, bool follow);
/* The first step that a group may still need of this writer; `step`, the next one, if there is none
 * before. */
uint64_t outlet_need(outlet_t *o, uint64_t step);

/* Number of the last complete step that the readers here have had of earlier writers, plus 1; 0:
 * none.  If groups were awaited: of the last step such that no group needs one before it. */
uint64_t outlet_seen(outlet_t *o);

/* Begin step number `step`, which is larger than those before, with room for `size` bytes.  Waits
 * for blocking readers, at most `timeout` seconds (< 0: without limit).  0, or -1 with an error
 * message and ETIMEDOUT (it may be tried again), ENOSPC, ENOMEM, or EINVAL (a step is begun
 * already). */
int outlet_begin(outlet_t *o, uint64_t step, uint64_t size, double timeout, void **buf,
                 errmsg_t *err);
/* Wait until members of groups have released all steps of the groups.  0, or -1 with ETIMEDOUT and
 * an error message. */
int outlet_drain(outlet_t *o, double timeout, errmsg_t *err);
/* Publish `len` bytes, at most the size given to outlet_begin().  0, or -1 with EINVAL. */
int outlet_commit(outlet_t *o, uint64_t len);
/* Discard the step, and what is pinned with it.  No effect if neither was begun. */
void outlet_abort(outlet_t *o);

/* Room for `size` bytes, more than 0, that belong to each step that is committed after
 * outlet_pin_commit(), until they are replaced in the same way; until then, those before stay as
 * they are.  0, or -1 with ENOSPC, ENOMEM or EINVAL (one was begun before), and an error
 * message. */
int outlet_pin_begin(outlet_t *o, uint64_t size, void **buf, errmsg_t *err);
void outlet_pin_commit(outlet_t *o);

/* The clock by which grants of readers of other hosts expire shows `clock`, or has shown it a short
 * time ago.  Until the first call, it is the wall clock. */
void outlet_set_clock(outlet_t *o, double clock);

/* What readers want now, by their numbers, instead of what they said when they joined; and what
 * those of these numbers want that join later, until the number is forgotten.  Members of a group
 * stay what they are.  Only policy, every and off are used.  Without memory, nothing changes for
 * those that join later. */
void outlet_want(outlet_t *o, const struct knock_want *wants, size_t n);
/* Forget a reader that has left, although it may still be connected: it will not join any more, and
 * is not awaited. */
void outlet_forget(outlet_t *o, uint64_t reader);
void outlet_forget_all(outlet_t *o);

struct outlet_stats {
    unsigned readers;
    uint64_t steps;       /* published */
    uint64_t bytes;       /* bytes of these steps */
    uint64_t offered;     /* steps, counted for each reader */
    uint64_t dropped;     /* steps that a reader did not get, by its policy */
    uint64_t evicted;     /* readers */
    uint64_t refused;     /* connections */
    uint64_t bells;       /* number of times that a sleeping reader was woken */
    double blocked;       /* seconds that outlet_begin() waited */
    uint64_t live;        /* bytes of steps that somebody needs */
    uint64_t pinned;      /* bytes of pin blocks that the next steps or these refer to */
    uint64_t asked;       /* bytes of values that readers of other hosts have asked for */
    uint64_t sent;        /* bytes that were sent to them, of any kind */
    unsigned connections; /* to readers of other hosts, by TCP */
};
void outlet_get_stats(outlet_t *o, struct outlet_stats *st);

/* What one reader means for this writer. */
struct outlet_queue {
    uint64_t reader;  /* its number */
    uint64_t bytes;   /* of steps that it was offered and has not released */
    uint64_t dropped; /* steps that it did not get, by its policy, */
    double blocked;   /* and seconds that outlet_begin() waited for it, both since the last call */
};
/* The readers whose queue is not empty, or was not at the last call, and those with new counts, at
 * most `max` of them.  If there are more, the next call begins with the others.  Returns their
 * number. */
size_t outlet_get_queues(outlet_t *o, struct outlet_queue *q, size_t max);

#endif

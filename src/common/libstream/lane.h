/* A lane passes steps from one writer to one reader, through a page that both have mapped.  The
 * writer can take back steps that the reader has not yet taken.
 *
 * The page holds only descriptions of steps; their bytes are elsewhere, where readers cannot write.
 *
 *    writer: lane_tx_offer(), lane_tx_drop(), lane_tx_reap(), lane_tx_wait()
 *    reader: lane_rx_take(), lane_rx_release(), lane_rx_sleep()
 *
 * Thread rules: each end belongs to one thread at a time; lane_tx_kick() may be called by any. The
 * other end is not trusted: whatever it writes into the page, the functions of this end return.
 */
#ifndef STREAM_LANE_H
#define STREAM_LANE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Descriptions in a page: a power of two.  This is the maximum number of steps in transit to a
 * reader. */
#define LANE_SLOTS 1024

/* Size of a page, whose bytes are zero at first, aligned to 64 bytes. */
size_t lane_page_size(void);

struct lane_item {
    uint64_t number; /* set by lane_rx_take(), for lane_rx_release() */
    uint64_t step;
    uint64_t off; /* of the step's bytes */
    uint64_t len;
    uint64_t pin; /* number of the pin block of the step, from 1 on; 0: there is none; its bytes: */
    uint64_t pin_off;
    uint64_t pin_len;
    uint64_t parts; /* of a step that members of a group divide: those of the reader, a set of bits;
                     * 0: the step is not divided */
};

/* The reason why no more steps come. */
enum lane_end {
    LANE_OPEN = 0,
    LANE_CLOSED,  /* the writer has closed the stream */
    LANE_EVICTED, /* the reader did not keep up */
    LANE_FAILED,  /* the program that writes has failed */
};

/* --- writer --- */

typedef struct lane_tx lane_tx_t;

/* NULL with ENOMEM.  The page still belongs to the caller. */
lane_tx_t *lane_tx_create(void *page);
void lane_tx_destroy(lane_tx_t *l); /* NULL-safe, keeps errno */

/* Offer a step.  `ref`, not NULL, is returned once, by reap, drop or forget, when the reader no
 * longer needs the bytes.  false: the page is full. */
bool lane_tx_offer(lane_tx_t *l, const struct lane_item *item, void *ref);
/* Would lane_tx_offer() have room? */
bool lane_tx_room(const lane_tx_t *l);
/* Take back the oldest step that the reader has not taken: returns its `ref`; NULL: there is
 * none. */
void *lane_tx_drop(lane_tx_t *l);
/* The `ref` of a step that the reader has released, in the order of offers; NULL: none. */
void *lane_tx_reap(lane_tx_t *l);
/* After the reader is gone: the `ref` of any step that was not returned yet; NULL: there are no
 * more. */
void *lane_tx_forget(lane_tx_t *l);

unsigned lane_tx_live(const lane_tx_t *l);  /* steps that were not returned */
uint64_t lane_tx_bytes(const lane_tx_t *l); /* bytes of these steps */

/* Does the reader wait for a bell?  True once for each time that the reader has gone to sleep. */
bool lane_tx_asleep(lane_tx_t *l);
/* Before waiting: false if lane_tx_reap() has something. */
bool lane_tx_sleep(lane_tx_t *l, uint32_t *seen);
/* Then wait until it has, for at most `seconds`, or until a kick; one since lane_tx_sleep() ends
 * the wait at once.  Another thread may use this end meanwhile. */
void lane_tx_wait(lane_tx_t *l, uint32_t seen, double seconds);
void lane_tx_kick(lane_tx_t *l);
/* Pass two numbers to the reader beside the steps: all steps before `floor` are done, or do not
 * come here; step `step` does not come here, which is for groups over several writers
 * (outlet_follow.c).  The caller rings the bell. */
void lane_tx_floor(lane_tx_t *l, uint64_t floor);
void lane_tx_missing(lane_tx_t *l, uint64_t step);
/* Report to the reader that no more steps come. */
void lane_tx_end(lane_tx_t *l, enum lane_end why);

/* --- reader --- */

typedef struct lane_rx lane_rx_t;

lane_rx_t *lane_rx_create(void *page);
void lane_rx_destroy(lane_rx_t *l);

/* Take the next step: 1; there is none: 0; -1 with EPROTO if the content of the page is invalid. */
int lane_rx_take(lane_rx_t *l, struct lane_item *item);
/* Release a step.  0, or -1 with EINVAL: it is not held. */
int lane_rx_release(lane_rx_t *l, uint64_t number);
/* Request a bell.  false: there is a step to take already, or the writer has passed a number since
 * the last call, and no bell was requested. */
bool lane_rx_sleep(lane_rx_t *l);
/* To be called after lane_rx_take() has found no step; take once more afterwards. */
enum lane_end lane_rx_end(const lane_rx_t *l);
/* What the writer has passed last, 0 if nothing: the floor, and the missing step, plus 1. */
uint64_t lane_rx_floor(const lane_rx_t *l);
uint64_t lane_rx_missing(const lane_rx_t *l);

#endif

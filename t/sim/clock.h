/* The virtual clock: what is to happen, in order of time.
 *
 * Time is in nanoseconds since the begin.  Events of the same time happen in the order in which
 * they were asked for, deferred ones after all others of that time.  Every event belongs to an
 * owner (a broker), which may be paused: its events then wait until it continues, in their order.
 * Not thread-safe.
 */
#ifndef SIM_CLOCK_H
#define SIM_CLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "libutil/list.h"

typedef struct vclock vclock_t;
typedef struct vevent vevent_t;
typedef void (*vevent_f)(void *arg, void *data);

struct vowner {
    bool paused;
    struct list_node stalled;
};

/* Before the first use of an owner, and when it ends (its events must be canceled or be harmless:
 * those that wait are run at the next step). */
void vowner_init(struct vowner *o);
void vowner_pause(struct vowner *o);
void vowner_continue(vclock_t *c, struct vowner *o);

vclock_t *vclock_create(void); /* NULL with ENOMEM */
void vclock_destroy(vclock_t *c, void (*discard)(vevent_f cb, void *arg, void *data));

int64_t vclock_now(const vclock_t *c);

/* Call cb(arg, data) at time `at` (now, when that is past).  NULL with ENOMEM.  `deferred`: after
 * everything else of that time. */
vevent_t *vclock_add(vclock_t *c, struct vowner *o, int64_t at, bool deferred, vevent_f cb,
                     void *arg, void *data);
/* Only for an event that has not happened; NULL-safe. */
void vclock_cancel(vclock_t *c, vevent_t *e);

/* Let the next event happen, if it is due at `until` at the latest.  false when there is none; the
 * time is then `until`. */
bool vclock_step(vclock_t *c, int64_t until);
uint64_t vclock_steps(const vclock_t *c);

#endif

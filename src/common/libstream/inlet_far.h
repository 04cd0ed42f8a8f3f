/* The reader's end of a stream whose writer is on another host.  The functions of inlet.h call
 * these.
 *
 * A step is announced with its first bytes, which list its variables.  Values are sent on request:
 * a whole variable, into its place in the step; or the elements of a box, into the memory of the
 * box.
 *
 * Thread rules: one thread at a time.
 */
#ifndef STREAM_INLET_FAR_H
#define STREAM_INLET_FAR_H

#include "libstream/inlet.h"

typedef struct inlet_far inlet_far_t;

/* As inlet_begin_far(), inlet_joining() and inlet_joining_poll(). */
inlet_far_t *inlet_far_begin(const struct inlet_far_opts *opts, const struct knock_want *want,
                             double timeout, errmsg_t *err);
int inlet_far_joining(inlet_far_t *f, errmsg_t *err);
double inlet_far_joining_poll(const inlet_far_t *f, struct pollfd *p);
void inlet_far_destroy(inlet_far_t *f); /* NULL-safe, keeps errno */
void inlet_far_leave(inlet_far_t *f);
void inlet_far_hollow(inlet_far_t *f);
int inlet_far_fd(const inlet_far_t *f);
bool inlet_far_lost(const inlet_far_t *f);         /* see struct inlet_stats */
uint64_t inlet_far_received(const inlet_far_t *f); /* bytes, without those of the handshake */
int inlet_far_take(inlet_far_t *f, struct inlet_step *s, errmsg_t *err);
bool inlet_far_sleep(inlet_far_t *f);
void inlet_far_wake(inlet_far_t *f);
int inlet_far_release(inlet_far_t *f, const struct inlet_step *s);
uint64_t inlet_far_floor(const inlet_far_t *f);
bool inlet_far_missing(const inlet_far_t *f, uint64_t step);
void inlet_far_claim(inlet_far_t *f, const struct knock_claim *c);
int inlet_far_fetch(inlet_far_t *f, const struct inlet_step *s, const struct inlet_value *v,
                    errmsg_t *err);
int inlet_far_fetch_all(inlet_far_t *f, const struct inlet_step *s, errmsg_t *err);
int inlet_far_ask_value(inlet_far_t *f, const struct inlet_step *s, const struct inlet_value *v,
                        errmsg_t *err);
int inlet_far_ask(inlet_far_t *f, const struct inlet_step *s, const struct inlet_value *v,
                  const struct stream_box *box, const struct stream_part *part, void *buf,
                  errmsg_t *err);
int inlet_far_answer(inlet_far_t *f, errmsg_t *err);
void inlet_far_push(inlet_far_t *f);
void inlet_far_forget(inlet_far_t *f);

#endif

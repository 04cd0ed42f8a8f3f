/* Both ends of a stream for tests: in shared memory, by TCP, or by TCP with encryption. */
#ifndef STREAM_TEST_ENDS_H
#define STREAM_TEST_ENDS_H

#include <check.h>

#include "inlet_next.h"
#include "libstream/far_addr.h"
#include "libstream/far_key.h"
#include "outlet_wait.h"

#define STEP_LEN 100000

enum way { RING, TCP, TCP_SECURE, WAYS };

extern const unsigned char ends_key[KNOCK_KEY_LEN];
extern enum way ends_way; /* of what is opened next */
extern errmsg_t err;

outlet_t *writer(double evict, uint32_t keep);
/* The address of a writer, for inlet_connect() or struct inlet_far_opts. */
const char *writer_address(const outlet_t *o);
/* NULL with errno. */
inlet_t *reader_try(const char *address, const struct knock_want *w);
inlet_t *reader(outlet_t *o, const char *policy, uint32_t depth);

int put_wait(outlet_t *o, uint64_t step, double timeout);
void put(outlet_t *o, uint64_t step);
void check(const struct inlet_step *s, uint64_t step);
struct inlet_step get(inlet_t *i, uint64_t step);
void get_release(inlet_t *i, uint64_t step);
void get_error(inlet_t *i, int errnum);

/* Accept a reader that was told `secret` at the listening socket `l`, and welcome it: its
 * connection, over which the test says what a writer does or does not say. */
int accept_reader(int l, const unsigned char *secret);

#endif

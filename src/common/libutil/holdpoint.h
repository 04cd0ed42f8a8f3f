/* Hold points: places in the code at which a test holds a thread, to kill the process there.
 *
 *    FLUX_HOLD_POINT=NAME:N:FILE
 *
 * The test creates FILE to begin the count.  The thread that then passes the point NAME for the Nth
 * time removes FILE, and stops there.  The test waits until FILE is gone, and ends the process with
 * SIGKILL.
 *
 *    HOLD_POINT_INIT(&s->hold);
 *    ...
 *    HOLD_POINT(&s->hold, "storage-committed");
 *
 * Builds configured with --enable-invariants have them; in others a point is empty, and the
 * variable is not read.  doc/testing-faults.rst lists the points.
 *
 * Thread rules: each point of one struct is passed by one thread.
 */
#ifndef UTIL_HOLDPOINT_H
#define UTIL_HOLDPOINT_H

struct holdpoint {
    char name[32]; /* "": none */
    unsigned left; /* passes until it holds */
    char path[256];
};

/* Parse the variable.  A malformed value ends the process with a message, because the test would
 * wait in vain. */
void holdpoint_init(struct holdpoint *hp);
void holdpoint_pass(struct holdpoint *hp, const char *name);

#ifdef WITH_INVARIANTS
#define HOLD_POINT_INIT(hp) holdpoint_init(hp)
#define HOLD_POINT(hp, name) holdpoint_pass(hp, name)
#else
#define HOLD_POINT_INIT(hp) ((void)(hp))
#define HOLD_POINT(hp, name) ((void)(hp), (void)sizeof(name))
#endif

#endif

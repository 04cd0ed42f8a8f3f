/* The nursery: all brokers of a session on one host, from one process.
 *
 * A broker that is started by exec pays for linking a dozen libraries and for its modules'
 * relocations each time, in time and in private memory.  The nursery pays once: it has loaded
 * everything, forks one child per rank, serves PMI to them while they find each other, and waits
 * for the end.
 *
 * Use it like fork(), before there is any thread, reactor or ZeroMQ context:
 *
 *   struct nursery_config nc = { .size = 64 };
 *   struct nursery_place place;
 *   switch (nursery_run(&nc, &place, &err)) {
 *   case 1: ... be a broker: boot_create() with attribute rundir = place.rundir ... _exit(code)
 *   case 0: ... the parent, when all is over: return place.exit_code ...
 *   default: ... error ...
 *   }
 *
 * Thread rules: one per process, from its only thread.
 */
#ifndef BROKER_BOOT_NURSERY_H
#define BROKER_BOOT_NURSERY_H

#include <stdbool.h>
#include <stdint.h>

#include "libutil/errmsg.h"

struct nursery_config {
    uint32_t size;      /* brokers, 1.. */
    const char *rundir; /* directory for sockets, which must exist; NULL: a fresh one is made, and
                           removed at the end */
    const char *prefix; /* what messages on standard error begin with: "flux start" */
    bool verbose;       /* say on standard error what happens */
    bool tolerant;      /* once all have met, the death of one is the session's own business */
    double grace;       /* seconds between rank 0's end and the others', and between asking and
                           killing; 0: 10 */
};

struct nursery_place {
    uint32_t rank;    /* child */
    char rundir[108]; /* both */
    int exit_code;    /* parent: rank 0's, or 128 + the signal that killed it */
};

/* 1 in a child, whose environment then has PMI_FD, PMI_RANK and PMI_SIZE, which gets SIGTERM when
 * the parent dies, and whose standard input is the parent's for rank 0, /dev/null for the others.
 * 0 in the parent when all children are gone.  -1 with errno and a sentence when they could not be
 * started; then none is left.
 *
 * The parent passes SIGINT, SIGTERM and SIGHUP on to rank 0 as SIGTERM, which shuts the session
 * down in order; at the second one it kills. */
int nursery_run(const struct nursery_config *cfg, struct nursery_place *place, errmsg_t *err);

#endif

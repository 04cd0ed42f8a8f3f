/* The nursery: the brokers of a session, forked from one process, or started by it through ssh.
 *
 * A broker that is started by exec links a dozen libraries and relocates its modules each time,
 * which costs time and private memory.  The nursery does that once: it loads all libraries and
 * modules, forks one child per rank, serves PMI while the brokers find each other, and waits for
 * their end.
 *
 * Use it like fork(), before creating any thread, reactor or ZeroMQ context:
 *
 *   struct nursery_config nc = { .size = 64 };
 *   struct nursery_place place;
 *   switch (boot_nursery_run(&nc, &place, &err)) {
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

#include "boot_ssh.h"
#include "libidset/idset.h"
#include "libutil/errmsg.h"

struct nursery_config {
    uint32_t size;      /* brokers, 1.., also of ranks that have no host yet (boot_hosts.h) */
    const char *rundir; /* directory for sockets, created if absent; NULL: a new one.  Removed at
                           the end if empty */
    const char *prefix; /* prefix of messages on standard error: "flux start" */
    bool verbose;       /* print progress messages to standard error */
    bool tolerant;      /* after PMI's barrier, the session handles the death of a broker */
    bool restart;       /* while the session runs, start another broker for one that has failed */
    /* Ranks whose brokers stay in the process group of the terminal (--wrap: a debugger reads from
     * it); NULL: none but rank 0. */
    const idset_t *foreground;
    const struct boot_ssh_config *ssh; /* brokers on other hosts; NULL: all are on this one */
    uint32_t quorum; /* with `ssh`: start if as many brokers can be; 0: only with all */
    /* Seconds between SIGTERM and SIGKILL, and at most 1 between the end of rank 0 and SIGTERM;
     * 0: 10. */
    double grace;
};

struct nursery_place {
    uint32_t rank;    /* child */
    char rundir[108]; /* both */
    int exit_code;    /* parent: rank 0's, or 128 + the signal that killed it */
};

/* Returns 1 in a child.  Its environment has PMI_FD, PMI_RANK and PMI_SIZE, it gets SIGTERM when
 * the parent dies, and its standard input is the parent's for rank 0, else /dev/null.  No child
 * returns for a broker on another host.  Returns 0 in the parent when all children are gone.  -1
 * with errno and an error message if they could not be
 * started; then none is left.
 *
 * The parent passes SIGINT, SIGTERM and SIGHUP to rank 0 as SIGTERM, which shuts the session down
 * in order.  After a second signal it kills the brokers. */
int boot_nursery_run(const struct nursery_config *cfg, struct nursery_place *place, errmsg_t *err);

#endif

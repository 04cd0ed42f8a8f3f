/* One broker on another host, started through ssh: the end on its host (flux-broker --remote).
 *
 * Use it like fork(), before creating any thread, reactor or ZeroMQ context.  Thread rules: one per
 * process, from its only thread.
 */
#ifndef BROKER_BOOT_REMOTE_H
#define BROKER_BOOT_REMOTE_H

#include <stdint.h>

#include "boot_dir.h"
#include "boot_ssh_wire.h"
#include "libutil/errmsg.h"

/* Greet the starter at standard input and output, wait for the arguments, and change to their
 * directory if it exists.  a->dir is NULL.  0, or -1 with errno and an error message. */
int boot_remote_open(struct boot_remote_args *a, errmsg_t *err);

struct boot_remote_place {
    char rundir[BOOT_PATH_MAX]; /* child: the directory to use */
    int exit_code;              /* parent: the broker's, or 128 + the signal that killed it */
};

/* Fork the broker; `rundir` as for the nursery.  Returns 1 in the child: its environment has
 * PMI_FD, PMI_RANK and PMI_SIZE, and it gets SIGTERM when the parent dies.  Returns 0 in the parent
 * when the child has ended.  -1 with errno and an error message. */
int boot_remote_run(const struct boot_remote_args *a, const char *rundir,
                    struct boot_remote_place *place, errmsg_t *err);

#endif

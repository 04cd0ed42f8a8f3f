/* How the tasks of a node are run: the module's side of the launcher.
 *
 * There is one object per instance of the module.  The first job starts the launcher; a lost
 * launcher is replaced (launchlink.c, invariant 4).  No function blocks, except that a function
 * which needs the process waits for a start that is under way.
 */
#ifndef WREXEC_LAUNCHLINK_H
#define WREXEC_LAUNCHLINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "libflux/handle.h"
#include "libflux/handover.h"
#include "libutil/errmsg.h"
#include "libexec/wrexec_wire.h"

typedef struct launchlink launchlink_t;

/* Called from the reactor.  Pointers are valid during the call. */
struct launchlink_callbacks {
    /* Handle a frame of the launcher about a job (exec_wire.h). */
    void (*frame)(void *arg, const struct wire_frame *f);
    /* Handle the loss of the launcher, and with it of all tasks of this node. */
    void (*lost)(void *arg, const char *why);
    /* The processes of the lost launcher have ended, except for this number of processes, which
     * cannot be ended. */
    void (*swept)(void *arg, uint32_t remain);
};

launchlink_t *launchlink_create(flux_t *h, const struct launchlink_callbacks *cbs,
                                void *arg); /* NULL with ENOMEM */
void launchlink_destroy(launchlink_t *x);   /* NULL-safe, keeps errno */

/* Have the launcher end all tasks and itself, and do not start another one.  Returns true if
 * `ended` is called once the launcher has ended, or hangs for some seconds; false if there is no
 * need to wait. */
bool launchlink_end(launchlink_t *x, void (*ended)(void *arg), void *arg);

/* Set one of the strings that the next launcher gets in its first frame.  The string is copied;
 * NULL: "". */
int launchlink_config(launchlink_t *x, enum wire_config what, const char *value);

/* When the strings are known and no launcher was inherited: end the processes that a lost broker of
 * this rank has left behind (launchlink.c, invariant 5).  Returns true if the callback `swept` will
 * follow, false if there are no such processes. */
bool launchlink_sweep(launchlink_t *x);

/* Start the local tasks of a job.  argv, files and environment are those of `rec`; `strings` are
 * those about this node.  Returns -1 with errno and an error message. */
int launchlink_run(launchlink_t *x, uint64_t job, struct wire_run *run,
                   const char *const strings[WIRE_NODE_STRINGS], const struct launchrec *rec,
                   errmsg_t *err);
/* Send a frame about a job (exec_wire.h).  Without a launcher, the call has no effect. */
void launchlink_send(launchlink_t *x, enum wire_type type, uint64_t job, const void *fixed,
                     size_t fixedlen, const void *data, size_t len);
/* Send a frame that may be large, and whose loss the caller can report.  Returns -1 with EMSGSIZE,
 * ENOBUFS (too many bytes wait for the launcher) or ENOMEM; the frame is then not sent. */
int launchlink_try_send(launchlink_t *x, enum wire_type type, uint64_t job, const void *fixed,
                        size_t fixedlen, const void *data, size_t len);

/* For a reload: wait until the start of a launcher has succeeded or failed; save the state that the
 * next instance needs to continue with this launcher; close it here without notice to the launcher;
 * load it into an object that does not have a launcher yet. */
void launchlink_settle(launchlink_t *x);
void launchlink_save(const launchlink_t *x, flux_handover_t *o);
void launchlink_leave(launchlink_t *x);
void launchlink_load(launchlink_t *x, flux_handover_t *o);

/* Return the process id of the launcher (0: there is none); return the number of launchers
 * started. */
int launchlink_pid(const launchlink_t *x);
unsigned launchlink_started(const launchlink_t *x);

#endif

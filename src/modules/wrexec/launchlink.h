/* How the tasks of a node are run: the module's side of the launcher.
 *
 * One object per instance of the module.  The first job starts the launcher; a lost launcher is
 * replaced (launchlink.c, 4).  Nothing here blocks, except that a function which needs the process
 * waits for its start if that is under way.
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
    /* The launcher has sent a frame about a job (exec_wire.h). */
    void (*frame)(void *arg, const struct wire_frame *f);
    /* The launcher is lost, and with it all tasks of this node. */
    void (*lost)(void *arg, const char *why);
    /* Of the launcher before, nothing is left but this number of processes, which cannot be
     * ended. */
    void (*swept)(void *arg, uint32_t remain);
};

launchlink_t *launchlink_create(flux_t *h, const struct launchlink_callbacks *cbs,
                                void *arg); /* NULL with ENOMEM */
void launchlink_destroy(launchlink_t *x);   /* NULL-safe, keeps errno */

/* Have the launcher end all tasks and itself, and start none any more.  True: `ended` is called
 * once it has ended, or hangs for some seconds.  False: it is not waited for. */
bool launchlink_end(launchlink_t *x, void (*ended)(void *arg), void *arg);

/* Set one of the strings that the next launcher gets in its first frame; copied, NULL: "". */
int launchlink_config(launchlink_t *x, enum wire_config what, const char *value);

/* The strings are known, and no launcher was inherited: end what a broker of this rank that was
 * lost has left behind (launchlink.c, 5).  true: the callback `swept` will come; false: there is
 * nothing. */
bool launchlink_sweep(launchlink_t *x);

/* Start the local tasks of a job; argv, files and environment are those of `rec`, `strings` those
 * about this node.  -1 with errno and a sentence. */
int launchlink_run(launchlink_t *x, uint64_t job, struct wire_run *run,
                   const char *const strings[WIRE_NODE_STRINGS], const struct launchrec *rec,
                   errmsg_t *err);
/* Send a frame about a job (exec_wire.h).  No effect without a launcher. */
void launchlink_send(launchlink_t *x, enum wire_type type, uint64_t job, const void *fixed,
                     size_t fixedlen, const void *data, size_t len);
/* The same for a frame that may be large, and whose loss the caller can report: -1 with EMSGSIZE,
 * ENOBUFS (too many bytes wait for the launcher) or ENOMEM, and nothing was sent. */
int launchlink_try_send(launchlink_t *x, enum wire_type type, uint64_t job, const void *fixed,
                        size_t fixedlen, const void *data, size_t len);

/* For a reload: wait until it is known whether the launcher was started; save what the next
 * instance needs to go on with this launcher; close it here without a word to the launcher; load it
 * into an object that has no launcher yet. */
void launchlink_settle(launchlink_t *x);
void launchlink_save(const launchlink_t *x, flux_handover_t *o);
void launchlink_leave(launchlink_t *x);
void launchlink_load(launchlink_t *x, flux_handover_t *o);

/* Process id of the launcher, 0 when there is none; how many were started. */
int launchlink_pid(const launchlink_t *x);
unsigned launchlink_started(const launchlink_t *x);

#endif

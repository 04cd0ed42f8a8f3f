/* Comms modules: services that a broker loads as shared objects, each with a thread, a reactor and
 * a handle of its own.
 *
 * A module named NAME is a file NAME.so that defines, with FLUX_MODULE(NAME, init, fini), its
 * description.  The host calls init in the module's thread, then runs the reactor, and calls fini
 * when the module is unloaded or its reactor was stopped.  Requests for topics "NAME.*" come to its
 * handlers.
 *
 * A module never blocks and does no input or output of its own except through its handle: the same
 * code runs in the simulator, many instances in one thread.  It has no mutable globals.
 *
 * A module ends itself with flux_reactor_stop(r, rc); rc < 0 is reported as a failure with the
 * sentence given to flux_module_fail().
 *
 * A module that would lose what it was trusted with says so in may_stop, which module.unload and
 * module.reload ask unless they are forced.  When the session goes down nobody is asked.
 */
#ifndef FLUX_MODULE_H
#define FLUX_MODULE_H

#include "dispatch.h"
#include "event.h"
#include "future.h"
#include "handle.h"
#include "log.h"

#define FLUX_MODULE_ABI 2

struct flux_module {
    int abi;
    const char *name;
    /* 0 with *ctx set, or -1 with errno and a sentence; nothing may be left behind on failure.  The
     * module counts as loaded when init has returned 0 (but see flux_module_starting()). */
    int (*init)(flux_t *h, int argc, char **argv, void **ctx, errmsg_t *err);
    void (*fini)(flux_t *h, void *ctx);
    /* NULL, or: may it be unloaded or reloaded now?  Called in the module's thread.  0, or -1 with
     * errno and a sentence: what would be lost. */
    int (*may_stop)(flux_t *h, void *ctx, errmsg_t *err);
};

#define FLUX_MODULE_THAT_MAY_REFUSE(NAME, INIT, FINI, MAY_STOP) \
    extern const struct flux_module flux_module_##NAME;         \
    const struct flux_module flux_module_##NAME = {FLUX_MODULE_ABI, #NAME, INIT, FINI, MAY_STOP}
#define FLUX_MODULE(NAME, INIT, FINI) FLUX_MODULE_THAT_MAY_REFUSE(NAME, INIT, FINI, NULL)

/* What a host tells the functions below, in the handle's aux data "module::host". */
struct flux_module_host {
    void (*started)(void *arg);
    void *arg;
    bool starting;
};

/* Say why the module is about to end itself. */
void flux_module_fail(flux_t *h, int errnum, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* For init: the module counts as loaded not when init returns but when flux_module_started() is
 * called.  If it ends itself before that, loading it fails with the sentence given to
 * flux_module_fail().  */
void flux_module_starting(flux_t *h);
void flux_module_started(flux_t *h); /* harmless without the former, and where there is no host */

/* true in an instance that was started to take the place of another (module.reload): requests the
 * other had not answered come first. */
bool flux_module_reloaded(flux_t *h);

#endif

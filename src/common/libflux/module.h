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
 *
 * A module whose work has to go on while it is reloaded hands over: the old instance writes down in
 * hand_over what it knows (handover.h), and the new one takes it from flux_module_inherited() in init.
 * For everybody else it is the same module all the time:
 *
 *  1. What hand_over leaves is all that the old instance knows: what it sends after that, in fini too,
 *     goes nowhere, and fini must not end what goes on.
 *  2. What the old instance has not yet seen comes to the new one, in order: requests, responses,
 *     events of the subscriptions it makes.
 *  3. Requests that it has seen and not answered are not delivered again: they are part of what is
 *     handed over (flux_handover_put_msg()).
 *  4. Answers to requests that it had sent come to the new one, which awaits them with
 *     flux_rpc_resume(); others are dropped, as are those that nobody awaits.
 *  5. The new instance sees its inheritance only if both have the same number in `handover`, which
 *     stands for the form; otherwise the reload is refused before anything was touched.
 */
#ifndef FLUX_MODULE_H
#define FLUX_MODULE_H

#include "dispatch.h"
#include "event.h"
#include "future.h"
#include "handle.h"
#include "handover.h"
#include "log.h"

#define FLUX_MODULE_ABI 3

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
    /* NULL, or: it is to be reloaded, and was not forced.  1: *o has all that the next instance needs,
     * and this one ends.  0: there is nothing to hand over, it may be reloaded like any other
     * (may_stop is asked).  -1 with errno and a sentence: it goes on, and nothing has changed. */
    int (*hand_over)(flux_t *h, void *ctx, flux_handover_t *o, errmsg_t *err);
    unsigned handover; /* number of the form that hand_over writes and init reads */
};

#define FLUX_MODULE_THAT_HANDS_OVER(NAME, INIT, FINI, MAY_STOP, HAND_OVER, FORM)           \
    extern const struct flux_module flux_module_##NAME;                                    \
    const struct flux_module flux_module_##NAME = {FLUX_MODULE_ABI, #NAME,     INIT, FINI, \
                                                   MAY_STOP,        HAND_OVER, FORM}
#define FLUX_MODULE_THAT_MAY_REFUSE(NAME, INIT, FINI, MAY_STOP) \
    FLUX_MODULE_THAT_HANDS_OVER(NAME, INIT, FINI, MAY_STOP, NULL, 0)
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
/* For init: what the instance before this one has left; NULL: nothing. */
flux_handover_t *flux_module_inherited(flux_t *h);

#endif

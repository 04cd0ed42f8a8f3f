/* Comms modules: services that a broker loads as shared objects, each with its own handle and
 * reactor.
 *
 * A module named NAME is a file NAME.so that defines its description with FLUX_MODULE(NAME, init,
 * fini).  The host calls init, runs the reactor, and calls fini when the module is unloaded or has
 * stopped its reactor.  Its handlers get the requests for topics "NAME.*".
 *
 * A module runs in a thread of its own, or on the broker's loop.  On the loop, a request need not
 * wake a thread, but all other work of the broker waits during each turn of the module: a module
 * belongs there if none of its turns takes long.  Its code is the same.
 *
 * A module never blocks, and does input and output only through its handle: the same code runs in
 * the simulator, with many instances in one thread.  It has no mutable globals.
 *
 * A module ends itself with flux_reactor_stop(r, rc); rc < 0 is reported as a failure, with the
 * message given to flux_module_fail().
 *
 * A module that would lose data reports that in may_stop, which module.unload and module.reload
 * call unless they are forced.  It is not called when the session shuts down.
 *
 * A module whose work must continue across a reload hands over: the old instance writes its state
 * in hand_over (handover.h), and the new one gets it from flux_module_inherited() in init.  For
 * clients and other modules it remains the same module:
 *
 *  1. hand_over must write the whole state of the old instance.  Messages that this instance sends
 *     afterwards, even in fini, are discarded, and fini must not end work that continues.
 *  2. Messages that the old instance has not seen go to the new one, in order: requests, responses,
 *     and events of the subscriptions that it makes.
 *  3. Requests that the old instance has seen and not answered are not delivered again: they are
 *     part of the state (flux_handover_put_msg()).
 *  4. Responses to requests that the old instance sent go to the new one, which awaits them with
 *     flux_rpc_resume().  All others are dropped.
 *  5. The new instance gets the state only if both have the same number in `handover`, which
 *     identifies its form.  Otherwise the reload is refused before anything has changed.
 */
#ifndef FLUX_MODULE_H
#define FLUX_MODULE_H

#include "dispatch.h"
#include "event.h"
#include "future.h"
#include "handle.h"
#include "handover.h"
#include "log.h"

#define FLUX_MODULE_ABI 5

enum flux_module_place { FLUX_PLACE_THREAD, FLUX_PLACE_LOOP };

struct flux_module {
    int abi;
    const char *name;
    /* 0 with *ctx set, or -1 with errno and an error message, leaving nothing behind.  The module
     * is loaded once init has returned 0 (but see flux_module_starting()). */
    int (*init)(flux_t *h, int argc, char **argv, void **ctx, errmsg_t *err);
    void (*fini)(flux_t *h, void *ctx);
    /* NULL, or: may the module be unloaded or reloaded now?  0, or -1 with errno and an error
     * message that names the data that would be lost. */
    int (*may_stop)(flux_t *h, void *ctx, errmsg_t *err);
    /* NULL, or: the module is to end, and gets no more messages.  True: it ends at once.  False: it
     * has to wait for something first, and then ends itself with flux_reactor_stop(). */
    bool (*stop)(flux_t *h, void *ctx);
    /* NULL, or: the module is about to be reloaded, without force.  1: *o has the state for the
     * next instance, and this one ends.  0: there is nothing to hand over, and it may be reloaded
     * like any other (may_stop is called).  -1 with errno and an error message: it continues
     * unchanged. */
    int (*hand_over)(flux_t *h, void *ctx, flux_handover_t *o, errmsg_t *err);
    unsigned handover;            /* identifies the form that hand_over writes and init reads */
    enum flux_module_place place; /* where it runs, unless its user decides otherwise */
    /* NULL, or: do the work that takes long and is the same for all instances in a process.  Called
     * in the broker's main thread when the file has been loaded, possibly more than once; also in a
     * process that forks brokers.  It starts no thread and opens no file. */
    void (*prepare)(void);
};

/* Further members may follow the two functions:
 *
 *     FLUX_MODULE(NAME, INIT, FINI, .place = FLUX_PLACE_LOOP, .may_stop = f)
 */
#define FLUX_MODULE(NAME, INIT, FINI, ...)              \
    extern const struct flux_module flux_module_##NAME; \
    const struct flux_module flux_module_##NAME = {     \
        .abi = FLUX_MODULE_ABI, .name = #NAME, .init = INIT, .fini = FINI, ##__VA_ARGS__}

/* Functions that a host provides for the functions below, in the handle's aux data
 * "module::host". */
struct flux_module_host {
    void (*started)(void *arg);
    void *arg;
    bool starting;
};

/* State the reason before the module ends itself. */
void flux_module_fail(flux_t *h, int errnum, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* For init: the module is loaded not when init returns but when it calls flux_module_started().  If
 * it ends itself before that, loading fails with the message given to flux_module_fail(). */
void flux_module_starting(flux_t *h);
void flux_module_started(flux_t *h); /* harmless without flux_module_starting(), and without a
                                        host */

/* True in an instance that replaces another (module.reload): it first gets the requests that the
 * other had not answered. */
bool flux_module_reloaded(flux_t *h);
/* For init: the state that the previous instance left; NULL: none. */
flux_handover_t *flux_module_inherited(flux_t *h);

#endif

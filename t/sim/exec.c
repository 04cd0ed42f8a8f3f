/* exec.c - the emulated launcher (t/emu/launcher.c) of simulated sessions: delays, requests that
 * find no room and planted faults come from the simulation's seed.
 */
#include "config.h"
#include <errno.h>
#include <stdlib.h>

#include "exec.h"

struct exec {
    sim_t *s;
    launcher_t *launcher;
};

size_t exec_running(const struct sim_ep *e)
{
    const struct exec *x = e->module_ctx;

    return x ? launcher_running(x->launcher) : 0;
}

double exec_ran(const struct sim_ep *e, uint64_t id)
{
    const struct exec *x = e->module_ctx;

    return x ? launcher_ran(x->launcher, id) : -1.;
}

static double delay(void *arg, double max)
{
    struct exec *x = arg;

    return rng_real(&x->s->rng) * max;
}

static bool no_room(void *arg, bool kill)
{
    struct exec *x = arg;

    return rng_chance(&x->s->rng, 0.1);
}

static bool plant(void *arg, enum launcher_fault fault)
{
    static const struct {
        enum sim_plant plant;
        double chance;
    } plants[] = {[LAUNCHER_LOST_END] = {PLANT_LOST_END, 0.1},
                  [LAUNCHER_WRONG_CODE] = {PLANT_WRONG_CODE, 0.1},
                  [LAUNCHER_IMMORTAL] = {PLANT_IMMORTAL, 1.}};
    struct exec *x = arg;

    if (x->s->cfg.plant != plants[fault].plant || !rng_chance(&x->s->rng, plants[fault].chance))
        return false;
    x->s->broke++;
    return true;
}

static void fail(void *arg, const char *why)
{
    struct exec *x = arg;

    sim_fail(x->s, "launcher: %s", why);
}

static const struct launcher_ops ops = {
    .delay = delay, .no_room = no_room, .plant = plant, .fail = fail};

static void exec_fini(flux_t *h, void *arg)
{
    struct exec *x = arg;

    launcher_destroy(x->launcher);
    free(x);
}

static int exec_init(flux_t *h, int argc, char **argv, void **arg, errmsg_t *err)
{
    struct sim_ep *e = flux_handle_impl(h);
    struct exec *x = calloc(1, sizeof(*x));

    if (!x)
        return errmsg_fail(err, ENOMEM, "out of memory for emulated tasks");
    x->s = e->broker->sim;
    if (!(x->launcher = launcher_create(h, &ops, x))) {
        free(x);
        return errmsg_fail(err, ENOMEM, "out of memory for emulated tasks");
    }
    *arg = x;
    return 0;
}

/* The real module wrexec is in the same program (tasks.c). */
extern const struct flux_module sim_module_launcher;
const struct flux_module sim_module_launcher = {
    .abi = FLUX_MODULE_ABI, .name = "wrexec", .init = exec_init, .fini = exec_fini};

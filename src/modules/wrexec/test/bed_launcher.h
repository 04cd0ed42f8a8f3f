/* A launcher of the test, in the place of launchlink.c: it notes what it is sent.  Include it after
 * bed.h or bed_memory.h. */
#ifndef WREXEC_TEST_BED_LAUNCHER_H
#define WREXEC_TEST_BED_LAUNCHER_H

#include "modules/wrexec/launchlink.h"

struct launchlink {
    const struct launchlink_callbacks *cbs;
    void *arg;
    bool runs;      /* a task */
    unsigned asked; /* number of frames ASK_END, */
    uint32_t task;  /* and the task of the last one */
};
static struct launchlink launcher;

launchlink_t *launchlink_create(flux_t *h, const struct launchlink_callbacks *cbs, void *arg)
{
    launcher = (struct launchlink){.cbs = cbs, .arg = arg};
    return &launcher;
}

void launchlink_destroy(launchlink_t *x)
{
}

bool launchlink_end(launchlink_t *x, void (*ended)(void *arg), void *arg)
{
    return false;
}

int launchlink_config(launchlink_t *x, enum wire_config what, const char *value)
{
    return 0;
}

bool launchlink_sweep(launchlink_t *x)
{
    return false;
}

int launchlink_run(launchlink_t *x, uint64_t job, struct wire_run *run,
                   const char *const strings[WIRE_NODE_STRINGS], const struct launchrec *rec,
                   errmsg_t *err)
{
    x->runs = true;
    return 0;
}

void launchlink_send(launchlink_t *x, enum wire_type type, uint64_t job, const void *fixed,
                     size_t fixedlen, const void *data, size_t len)
{
}

int launchlink_try_send(launchlink_t *x, enum wire_type type, uint64_t job, const void *fixed,
                        size_t fixedlen, const void *data, size_t len)
{
    if (type == WIRE_ASK_END) {
        x->asked++;
        x->task = exec_wire_u32(fixed);
    }
    return 0;
}

void launchlink_settle(launchlink_t *x)
{
}

void launchlink_save(const launchlink_t *x, flux_handover_t *o)
{
}

void launchlink_leave(launchlink_t *x)
{
}

void launchlink_load(launchlink_t *x, flux_handover_t *o)
{
}

int launchlink_pid(const launchlink_t *x)
{
    return 0;
}

unsigned launchlink_started(const launchlink_t *x)
{
    return 0;
}

#endif

/* module.c - what a module reports to its host.
 *
 * The reason of a failure is kept with the handle, where the host reads it after the reactor has
 * stopped.
 */
#include "config.h"
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "module.h"

void flux_module_fail(flux_t *h, int errnum, const char *fmt, ...)
{
    errmsg_t *e = malloc(sizeof(*e));
    va_list ap;

    if (!e)
        return;
    va_start(ap, fmt);
    vsnprintf(e->text, sizeof(e->text), fmt, ap);
    va_end(ap);
    if (flux_aux_set(h, "module::fail", e, free) < 0)
        free(e);
    errno = errnum;
}

void flux_module_starting(flux_t *h)
{
    struct flux_module_host *host = flux_aux_get(h, "module::host");

    if (host)
        host->starting = true;
}

void flux_module_started(flux_t *h)
{
    struct flux_module_host *host = flux_aux_get(h, "module::host");

    if (!host || !host->starting)
        return;
    host->starting = false;
    host->started(host->arg);
}

bool flux_module_reloaded(flux_t *h)
{
    return flux_aux_get(h, "module::reloaded") != NULL;
}

flux_handover_t *flux_module_inherited(flux_t *h)
{
    return flux_aux_get(h, "module::inherited");
}

/* connector_service.c - the service "connector": the counters of the local connector.
 *
 *    connector.stats  {}  -> counters (connector_wire.c)
 *
 * The connector works without this service, so that several connectors can share a core.
 *
 * Failure: a second service of a core with that name is refused with EEXIST.
 */
#include "config.h"
#include "connector.h"
#include "connector_wire.h"

static void stats_cb(flux_t *h, const flux_msg_t *req, void *arg)
{
    struct connector_stats st;

    connector_get_stats(arg, &st);
    flux_respond_struct(h, req, &connector_stats_schema, &st);
}

static const struct flux_handler handlers[] = {
    {FLUX_MSG_REQUEST, "connector.stats", stats_cb, 0},
    FLUX_HANDLER_END,
};

flux_handlers_t *connector_service_add(connector_t *cn, core_t *core)
{
    if (core_service_add_self(core, "connector") < 0)
        return NULL;
    return flux_handlers_add(core_handle(core), handlers, cn);
}

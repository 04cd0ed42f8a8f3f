/* fake_resrc.c - stands in for resrc: one node with four cores, for ever. */
#include "config.h"
#include <errno.h>
#include <stdlib.h>

#include "libflux/module.h"

static void watch_cb(flux_t *h, const flux_msg_t *req, void *arg)
{
    flux_respond_more(h, req,
                      "{\"inventory\":{\"nodes\":[{\"ranks\":\"0\",\"hosts\":\"one\","
                      "\"cores\":\"0-3\"}]},\"up\":\"0\",\"drained\":\"\",\"version\":1}");
}

static const struct flux_handler handlers[] = {
    {FLUX_MSG_REQUEST, "resrc.watch", watch_cb, 0},
    FLUX_HANDLER_END,
};

static void fake_fini(flux_t *h, void *arg)
{
    flux_handlers_remove(arg);
}

static int fake_init(flux_t *h, int argc, char **argv, void **arg, errmsg_t *err)
{
    *arg = flux_handlers_add(h, handlers, NULL);
    return *arg ? 0 : errmsg_fail(err, errno, "no handlers");
}

FLUX_MODULE(resrc, fake_init, fake_fini);

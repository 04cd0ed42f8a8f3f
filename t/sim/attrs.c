/* attrs.c - attributes of simulated brokers, for modules that ask for some when they start.
 *
 * Only those that the scenario has set (sim_config.attrs: name, value, name, value..., NULL) are
 * there.  "statedir" is listed, but cannot be asked for alone: it tells the job module to be
 * durable, and does not make the key-value store write files.
 */
#include "config.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "libflux/attr_wire.h"
#include "sim.h"

static void get_cb(flux_t *h, const flux_msg_t *req, void *arg)
{
    struct sim_ep *e = flux_handle_impl(h);
    const char *const *attrs = e->broker->sim->cfg.attrs;
    struct attr_pair a = {NULL, NULL};
    json_t *owner;

    if (flux_request_decode(h, req, &attr_name_schema, &a, &owner) < 0)
        return;
    while (attrs && attrs[0] && strcmp(attrs[0], a.name) != 0)
        attrs += 2;
    if (attrs && attrs[0] && strcmp(attrs[0], "statedir") != 0) {
        a.value = attrs[1];
        flux_respond_struct(h, req, &attr_pair_schema, &a);
    } else {
        flux_respond_error(h, req, ENOENT, "there is no such attribute");
    }
    json_decref(owner);
}

static void list_cb(flux_t *h, const flux_msg_t *req, void *arg)
{
    struct sim_ep *e = flux_handle_impl(h);
    const char *const *attrs = e->broker->sim->cfg.attrs;
    struct attr_all all = {.attrs = json_object()};

    for (; attrs && attrs[0]; attrs += 2)
        json_object_set_new(all.attrs, attrs[0], json_string(attrs[1]));
    flux_respond_struct(h, req, &attr_all_schema, &all);
    json_decref(all.attrs);
}

static const struct flux_handler handlers[] = {
    {FLUX_MSG_REQUEST, "attr.get", get_cb, FLUX_ROLE_OWNER | FLUX_ROLE_BROKER},
    {FLUX_MSG_REQUEST, "attr.list", list_cb, FLUX_ROLE_OWNER | FLUX_ROLE_BROKER},
    FLUX_HANDLER_END,
};

static void attr_fini(flux_t *h, void *arg)
{
    flux_handlers_remove(arg);
}

static int attr_init(flux_t *h, int argc, char **argv, void **arg, errmsg_t *err)
{
    *arg = flux_handlers_add(h, handlers, NULL);
    return *arg ? 0 : errmsg_fail(err, errno, "out of memory for attributes");
}

FLUX_MODULE(attr, attr_init, attr_fini);

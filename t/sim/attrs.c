/* attrs.c - attributes of simulated brokers, for modules that ask for some when they start.
 *
 * Only those that the scenario has set (sim_config.attrs: name, value, name, value..., NULL) are
 * there, and those by which barriers and fences that may have lost a participant end after two
 * seconds, and not after a minute.  "statedir" is listed, but without a disk it cannot be asked for
 * alone: it tells the job module to be durable, and does not make the key-value store write files.
 */
#include "config.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "libflux/attr_wire.h"
#include "sim.h"

static const char *const defaults[] = {"barrier.grace", "2s", "kvs.fence-grace", "2s", NULL};

/* NULL: there is no such attribute. */
static const char *value_of(const char *const *attrs, const char *name)
{
    for (; attrs && attrs[0]; attrs += 2) {
        if (strcmp(attrs[0], name) == 0)
            return attrs[1];
    }
    return NULL;
}

static void get_cb(flux_t *h, const flux_msg_t *req, void *arg)
{
    struct sim_ep *e = flux_handle_impl(h);
    const char *const *attrs = e->broker->sim->cfg.attrs;
    struct attr_pair a = {NULL, NULL};
    json_t *owner;

    if (flux_request_decode(h, req, &attr_name_schema, &a, &owner) < 0)
        return;
    if (strcmp(a.name, "statedir") != 0 || e->broker->sim->disk)
        a.value = value_of(attrs, a.name);
    if (!a.value)
        a.value = value_of(defaults, a.name);
    if (a.value) {
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

/* modhost_service.c - the handlers of module.load and the other requests: see modhost.c.
 *
 * Failure: a request that fails is answered with errno and an error message, and has no effect.
 */
#include "config.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "libflux/module_wire.h"
#include "modhost_private.h"

static void load_cb(flux_t *h, const flux_msg_t *req, void *arg)
{
    modhost_t *mh = arg;
    struct module_load in = {0};
    json_t *owner;
    struct module *m;
    char **argv = NULL;
    size_t argc;
    errmsg_t err = {""};

    if (flux_request_decode(h, req, &module_load_schema, &in, &owner) < 0)
        return;
    argc = json_array_size(in.args);
    argv = calloc(argc + 1, sizeof(*argv));
    for (size_t i = 0; argv && i < argc; i++) {
        if (!(argv[i] = (char *)json_string_value(json_array_get(in.args, i)))) {
            flux_respond_error(h, req, EPROTO, "module.load: argument %zu is not a string", i);
            goto done;
        }
    }
    if (!argv)
        flux_respond_error(h, req, ENOMEM, "out of memory for module %s", in.path);
    else if (mh->stop_done)
        flux_respond_error(h, req, ECANCELED, "rank %u is shutting down", flux_rank(h));
    else if ((m = modhost_load(mh, in.path, (int)argc, argv, in.place, &err)))
        m->load_req = flux_msg_incref(req);
    else
        flux_respond_error(h, req, errno, "%s", err.text);
done:
    free(argv);
    json_decref(owner);
}

static struct module *named(modhost_t *mh, flux_t *h, const flux_msg_t *req,
                            const struct flux_schema *schema, bool *force)
{
    struct module *m;
    struct module_name in = {0};
    json_t *owner;

    if (flux_request_decode(h, req, schema, &in, &owner) < 0)
        return NULL;
    *force = in.force;
    if (!(m = modhost_find(mh, in.name)))
        flux_respond_error(h, req, ENOENT, "module %.64s is not loaded at rank %u", in.name,
                           flux_rank(h));
    json_decref(owner);
    return m;
}

static void unload_or_reload(modhost_t *mh, flux_t *h, const flux_msg_t *req, bool reload)
{
    bool force;
    struct module *m = named(mh, h, req, &module_stop_schema, &force);
    enum code code;
    errmsg_t err;

    if (!m)
        return;
    code = force ? CODE_STOP : reload ? CODE_ASK_RELOAD : CODE_ASK;
    if (m->state != RUNNING)
        flux_respond_error(h, req, EBUSY, "module %s is being %s: try again later", m->name,
                           m->state == LOADING ? "loaded" : "unloaded");
    else if (code == CODE_ASK_RELOAD && m->desc->hand_over && modhost_may_follow(m, &err) < 0)
        flux_respond_error(h, req, errno, "module %s stays loaded: %s", m->name, err.text);
    else if (modhost_stop_one(m, code) < 0)
        flux_respond_error(h, req, errno, "module %s cannot be stopped: %s", m->name,
                           strerror(errno));
    else {
        m->reload = reload;
        m->stop_req = flux_msg_incref(req);
    }
}

static void unload_cb(flux_t *h, const flux_msg_t *req, void *arg)
{
    unload_or_reload(arg, h, req, false);
}

static void reload_cb(flux_t *h, const flux_msg_t *req, void *arg)
{
    unload_or_reload(arg, h, req, true);
}

static struct module_item describe(struct module *m)
{
    static const char *const states[] = {"loading", "running", "stopping"};

    return (struct module_item){.name = m->name,
                                .path = m->path,
                                .state = states[m->state],
                                .received = m->received,
                                .sent = m->sent,
                                .queued = mailbox_count(m->inbox),
                                .place = m->place->name,
                                .turns = m->turns.n,
                                .busy = (double)m->turns.ns * 1e-9,
                                .longest = (double)m->turns.longest * 1e-9,
                                .longer = m->turns.longer};
}

static void list_cb(flux_t *h, const flux_msg_t *req, void *arg)
{
    modhost_t *mh = arg;
    struct module_list list = {json_array()};
    bool ok = list.modules;

    LIST_FOREACH(it, &mh->modules)
    {
        struct module_item item = describe(list_entry(it, struct module, node));

        ok = ok && json_array_append_new(list.modules,
                                         flux_schema_encode_json(&module_item_schema, &item)) == 0;
    }
    if (ok)
        flux_respond_struct(h, req, &module_list_schema, &list);
    else
        flux_respond_error(h, req, ENOMEM, "rank %u is out of memory", flux_rank(h));
    json_decref(list.modules);
}

static void stats_cb(flux_t *h, const flux_msg_t *req, void *arg)
{
    bool force;
    struct module *m = named(arg, h, req, &module_name_schema, &force);

    if (m) {
        struct module_item item = describe(m);

        flux_respond_struct(h, req, &module_item_schema, &item);
    }
}

const struct flux_handler modhost_handlers[] = {
    {FLUX_MSG_REQUEST, "module.load", load_cb, 0},
    {FLUX_MSG_REQUEST, "module.unload", unload_cb, 0},
    {FLUX_MSG_REQUEST, "module.reload", reload_cb, 0},
    {FLUX_MSG_REQUEST, "module.list", list_cb, 0},
    {FLUX_MSG_REQUEST, "module.stats", stats_cb, 0},
    FLUX_HANDLER_END,
};

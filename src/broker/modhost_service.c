/* modhost_service.c - the requests that the module host answers: module.load and the rest, see
 * modhost.c.
 *
 * Failure: a request that cannot be fulfilled is answered with errno and a sentence, and nothing has
 * changed.
 */
#include "config.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "modhost_private.h"

struct request {
    const char *name;
    const char *path;
    json_t *args;
    bool force;
};
static const struct flux_field load_fields[] = {
    FLUX_FIELD_STR(struct request, path, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_ARRAY(struct request, args, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_END,
};
static const struct flux_schema load_schema = FLUX_SCHEMA(struct request, load_fields);
static const struct flux_field name_fields[] = {
    FLUX_FIELD_STR(struct request, name, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_END,
};
static const struct flux_schema name_schema = FLUX_SCHEMA(struct request, name_fields);
static const struct flux_field stop_fields[] = {
    FLUX_FIELD_STR(struct request, name, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_BOOL(struct request, force, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_END,
};
static const struct flux_schema stop_schema = FLUX_SCHEMA(struct request, stop_fields);

static void load_cb(flux_t *h, const flux_msg_t *req, void *arg)
{
    modhost_t *mh = arg;
    struct request in;
    json_t *owner;
    struct module *m;
    char **argv = NULL;
    size_t argc;
    errmsg_t err = {""};

    if (flux_request_decode(h, req, &load_schema, &in, &owner) < 0)
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
        flux_respond_error(h, req, ECANCELED, "rank %u is going down", flux_rank(h));
    else if ((m = modhost_load(mh, in.path, (int)argc, argv, &err)))
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
    struct request in = {0};
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
    struct module *m = named(mh, h, req, &stop_schema, &force);
    enum code code;
    errmsg_t err;

    if (!m)
        return;
    code = force ? CODE_STOP : reload ? CODE_ASK_RELOAD : CODE_ASK;
    if (m->state != RUNNING)
        flux_respond_error(h, req, EBUSY, "module %s is being %s: try again later", m->name,
                           m->state == LOADING ? "loaded" : "unloaded");
    else if (code == CODE_ASK_RELOAD && m->desc->hand_over && modhost_may_follow(m, &err) < 0)
        flux_respond_error(h, req, errno, "module %s stays: %s", m->name, err.text);
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

static json_t *describe(struct module *m)
{
    static const char *const states[] = {"loading", "running", "stopping"};
    json_t *o = json_object();

    if (!o || json_object_set_new(o, "name", json_string(m->name)) < 0 ||
        json_object_set_new(o, "path", json_string(m->path)) < 0 ||
        json_object_set_new(o, "state", json_string(states[m->state])) < 0 ||
        json_object_set_new(o, "received", json_integer((json_int_t)m->received)) < 0 ||
        json_object_set_new(o, "sent", json_integer((json_int_t)m->sent)) < 0 ||
        json_object_set_new(o, "queued", json_integer((json_int_t)mailbox_count(m->inbox))) < 0) {
        json_decref(o);
        return NULL;
    }
    return o;
}

static void respond_json(flux_t *h, const flux_msg_t *req, json_t *obj)
{
    char *text = obj ? json_dumps(obj, JSON_COMPACT) : NULL;

    if (text)
        flux_respond(h, req, text);
    else
        flux_respond_error(h, req, ENOMEM, "rank %u is out of memory", flux_rank(h));
    free(text);
    json_decref(obj);
}

static void list_cb(flux_t *h, const flux_msg_t *req, void *arg)
{
    modhost_t *mh = arg;
    json_t *obj = json_object();
    json_t *all = json_array();
    bool ok = obj && all && json_object_set(obj, "modules", all) == 0;

    LIST_FOREACH(it, &mh->modules)
    ok = ok && json_array_append_new(all, describe(list_entry(it, struct module, node))) == 0;
    json_decref(all);
    if (!ok) {
        json_decref(obj);
        obj = NULL;
    }
    respond_json(h, req, obj);
}

static void stats_cb(flux_t *h, const flux_msg_t *req, void *arg)
{
    bool force;
    struct module *m = named(arg, h, req, &name_schema, &force);

    if (m)
        respond_json(h, req, describe(m));
}

const struct flux_handler modhost_handlers[] = {
    {FLUX_MSG_REQUEST, "module.load", load_cb, 0},
    {FLUX_MSG_REQUEST, "module.unload", unload_cb, 0},
    {FLUX_MSG_REQUEST, "module.reload", reload_cb, 0},
    {FLUX_MSG_REQUEST, "module.list", list_cb, 0},
    {FLUX_MSG_REQUEST, "module.stats", stats_cb, 0},
    FLUX_HANDLER_END,
};

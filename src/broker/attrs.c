/* attrs.c - a broker's attributes (named strings), and the service for them.
 *
 *    attr.get   {"name"}          -> {"name","value"}
 *    attr.set   {"name","value"}  -> {}
 *    attr.list  (no payload)      -> {"attrs":{name: value, ...}}
 *    attr.sources (no payload)    -> {"attrs":{name: source of the value, ...}}
 *
 * Invariants:
 *  1. attr.set never changes a fixed attribute.
 *  2. A setting that attr.set has changed is pending until the module that reads it is loaded.  A
 *     setting that brokers read when they start stays pending.  The source of a pending setting
 *     reports that.
 *
 * Failure: ENOENT, EPERM or EINVAL, with an error message for the caller.
 */
#include "config.h"
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attrs.h"
#include "libflux/dispatch.h"
#include "libflux/attr_wire.h"
#include "libsettings/settings.h"
#include "libutil/hmap.h"
#include "libutil/strutil.h"

#define VALUE_MAX (64 * 1024)

struct attr {
    bool fixed;
    bool pending; /* changed while the session runs, and not read since then */
    char *value;
    char *source; /* NULL: the broker */
};

struct attrs {
    hmap_t *map;
    flux_handlers_t *handlers;
};

static void attr_free(void *val)
{
    struct attr *a = val;

    if (a) {
        free(a->value);
        free(a->source);
        free(a);
    }
}

attrs_t *attrs_create(void)
{
    attrs_t *a = calloc(1, sizeof(*a));

    if (a && !(a->map = hmap_create_str(attr_free))) {
        free(a);
        return NULL;
    }
    return a;
}

void attrs_unserve(attrs_t *a)
{
    flux_handlers_remove(a->handlers);
    a->handlers = NULL;
}

void attrs_destroy(attrs_t *a)
{
    if (a) {
        int saved = errno;
        hmap_destroy(a->map);
        free(a);
        errno = saved;
    }
}

static bool name_valid(const char *name)
{
    size_t len = strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_");

    return len >= 1 && len <= 64 && name[len] == '\0';
}

int attrs_set(attrs_t *attrs, const char *name, const char *value, bool fixed)
{
    size_t len = strlen(value);
    struct attr *a, *old;

    /* Values are sent as JSON text, which carries valid UTF-8 only. */
    if (!name_valid(name) || len > VALUE_MAX || str_utf8_span(value, len) != len) {
        errno = EINVAL;
        return -1;
    }
    if (!(a = calloc(1, sizeof(*a))))
        return -1;
    a->fixed = fixed;
    old = hmap_get(attrs->map, name);
    if (!(a->value = strdup(value)) || (old && old->source && !(a->source = strdup(old->source))) ||
        hmap_put(attrs->map, name, a) < 0) {
        attr_free(a);
        errno = ENOMEM;
        return -1;
    }
    return 0;
}

int attrs_setf(attrs_t *a, const char *name, bool fixed, const char *fmt, ...)
{
    char *value;
    va_list ap;
    int rc;

    va_start(ap, fmt);
    rc = vasprintf(&value, fmt, ap);
    va_end(ap);
    if (rc < 0) {
        errno = ENOMEM;
        return -1;
    }
    rc = attrs_set(a, name, value, fixed);
    free(value);
    return rc;
}

int attrs_set_source(attrs_t *attrs, const char *name, const char *source)
{
    struct attr *a = hmap_get(attrs->map, name);
    char *copy = strdup(source);

    if (!a || !copy) {
        free(copy);
        errno = a ? ENOMEM : ENOENT;
        return -1;
    }
    free(a->source);
    a->source = copy;
    return 0;
}

const char *attrs_get(const attrs_t *attrs, const char *name)
{
    struct attr *a = hmap_get(attrs->map, name);

    return a ? a->value : NULL;
}

static void get_cb(flux_t *h, const flux_msg_t *req, void *arg)
{
    attrs_t *attrs = arg;
    struct attr_pair in;
    json_t *owner;

    if (flux_request_decode(h, req, &attr_name_schema, &in, &owner) < 0)
        return;
    if (!(in.value = attrs_get(attrs, in.name)))
        flux_respond_error(h, req, ENOENT, "rank %u has no attribute '%.64s': see 'flux lsattr'",
                           flux_rank(h), in.name);
    else
        flux_respond_struct(h, req, &attr_pair_schema, &in);
    json_decref(owner);
}

/* Guards against misspelled settings, which would be stored and never read.  Names whose first part
 * is not in the table of settings are free. */
static bool is_misspelt(const char *name)
{
    size_t n = strcspn(name, ".");
    const struct setting *s;

    for (size_t i = 0; name[n] && (s = settings_at(i)); i++)
        if (strncmp(s->name, name, n + 1) == 0)
            return true;
    return false;
}

/* Does this value come too late for the reader of the setting? */
static bool is_pending(const char *name, const char *value, const struct attr *old)
{
    const struct setting *s = settings_find(name);
    const char *before = old ? old->value : s ? s->fallback : NULL;

    return s && (!before || strcmp(before, value) != 0 || (old && old->pending));
}

static void set_cb(flux_t *h, const flux_msg_t *req, void *arg)
{
    attrs_t *attrs = arg;
    struct attr_pair in;
    json_t *owner;
    struct attr *a;
    errmsg_t why;
    bool pending;

    if (flux_request_decode(h, req, &attr_pair_schema, &in, &owner) < 0)
        return;
    a = hmap_get(attrs->map, in.name);
    pending = is_pending(in.name, in.value, a);
    if (settings_check(in.name, in.value, &why) < 0 &&
        (errno == EINVAL || (errno == ENOENT && !a && is_misspelt(in.name))))
        flux_respond_error(h, req, EINVAL, "%s", why.text);
    else if (a && a->fixed)
        flux_respond_error(h, req, EPERM, "attribute %s is fixed once the broker has started",
                           in.name);
    else if (attrs_set(attrs, in.name, in.value, false) < 0)
        flux_respond_error(
            h, req, errno,
            "attribute '%.64s' cannot be set: %s (a name has 1 to 64 letters, digits, "
            "'.', '-' or '_')",
            in.name, strerror(errno));
    else {
        attrs_set_source(attrs, in.name, "setattr");
        a = hmap_get(attrs->map, in.name);
        a->pending = pending;
        flux_respond(h, req, "{}");
    }
    json_decref(owner);
}

void attrs_module_loads(attrs_t *attrs, const char *module)
{
    const void *key;
    void *val;
    size_t pos = 0;

    while (hmap_next(attrs->map, &pos, &key, NULL, &val)) {
        const struct setting *s = settings_find(key);

        if (s && s->reader && strcmp(s->reader, module) == 0)
            ((struct attr *)val)->pending = false;
    }
}

static json_t *source_of(const char *name, const struct attr *a)
{
    const struct setting *s = a->pending ? settings_find(name) : NULL;
    char text[80];

    if (!s)
        return json_string(a->source ? a->source : "broker");
    if (s->reader)
        snprintf(text, sizeof(text), "setattr; in effect when %s is reloaded", s->reader);
    else
        snprintf(text, sizeof(text), "setattr; not in effect: brokers read it when they start");
    return json_string(text);
}

static void respond_all(flux_t *h, const flux_msg_t *req, attrs_t *attrs, bool sources)
{
    json_t *obj = json_object();
    json_t *all = json_object();
    const void *key;
    void *val;
    size_t pos = 0;
    char *text = NULL;
    bool ok = obj && all && json_object_set(obj, "attrs", all) == 0;

    while (ok && hmap_next(attrs->map, &pos, &key, NULL, &val)) {
        struct attr *a = val;
        ok =
            json_object_set_new(all, key, sources ? source_of(key, a) : json_string(a->value)) == 0;
    }
    if (ok && (text = json_dumps(obj, JSON_COMPACT | JSON_SORT_KEYS)))
        flux_respond(h, req, text);
    else
        flux_respond_error(h, req, ENOMEM, "rank %u is out of memory", flux_rank(h));
    free(text);
    json_decref(all);
    json_decref(obj);
}

static void list_cb(flux_t *h, const flux_msg_t *req, void *arg)
{
    respond_all(h, req, arg, false);
}

static void sources_cb(flux_t *h, const flux_msg_t *req, void *arg)
{
    respond_all(h, req, arg, true);
}

static const struct flux_handler handlers[] = {
    {FLUX_MSG_REQUEST, "attr.get", get_cb, FLUX_ROLE_OWNER | FLUX_ROLE_USER | FLUX_ROLE_BROKER},
    {FLUX_MSG_REQUEST, "attr.set", set_cb, 0},
    {FLUX_MSG_REQUEST, "attr.list", list_cb, FLUX_ROLE_OWNER | FLUX_ROLE_USER | FLUX_ROLE_BROKER},
    {FLUX_MSG_REQUEST, "attr.sources", sources_cb,
     FLUX_ROLE_OWNER | FLUX_ROLE_USER | FLUX_ROLE_BROKER},
    FLUX_HANDLER_END,
};

int attrs_serve(attrs_t *a, core_t *core)
{
    if (core_service_add_self(core, "attr") < 0)
        return -1;
    return (a->handlers = flux_handlers_add(core_handle(core), handlers, a)) ? 0 : -1;
}

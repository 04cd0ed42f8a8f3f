/* sched_policies.c - the settings: arguments, attributes, sched.policy and sched.expiration.
 *
 *    attribute           argument       default    value
 *    sched.queue-policy  queue-policy=  easy       built-in policy[:ARG], plugin, or Lua file
 *    sched.node-policy   node-policy=   first-fit  likewise
 *    sched.plugin-path   plugin-path=              directories that are searched for plugins
 *    sched.expiration    expiration=    0          when resources expire, s since 1970; 0: never
 *
 * An argument overrides the attribute.  A replaced policy is unloaded once the new one is in use.
 *
 * Failure: a directory that does not exist, or a policy that cannot be loaded, is refused with an
 * error message.  If an argument or an attribute names it, the module does not load, and the
 * session does not start.  If a request names it, the request fails and the old policy stays; a new
 * queue policy in the same request stays set.
 */
#include "config.h"
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "libflux/paths.h"
#include "libsettings/settings.h"
#include "sched_module.h"

typedef int (*sched_set_f)(sched_t *s, const struct sched_policy *p, const char *arg,
                           errmsg_t *err);

static int use(struct ctx *ctx, sched_loaded_t **slot, enum sched_purpose purpose, sched_set_f set,
               const char *spec, errmsg_t *err)
{
    sched_loaded_t *l = sched_load(spec, purpose, ctx->plugin_path, flux_path_module, err);

    if (!l)
        return -1;
    if (set(ctx->s, sched_loaded_policy(l), sched_loaded_arg(l), err) < 0) {
        sched_load_destroy(l);
        return -1;
    }
    sched_load_destroy(*slot);
    *slot = l;
    sched_module_kick(ctx);
    return 0;
}

/* Use this policy: 0, or -1 with an error message. */
static int policies_set_queue(struct ctx *ctx, const char *spec, errmsg_t *err)
{
    return use(ctx, &ctx->queue, SCHED_FOR_QUEUE, sched_policy_set_queue, spec, err);
}

static int policies_set_node(struct ctx *ctx, const char *spec, errmsg_t *err)
{
    return use(ctx, &ctx->node, SCHED_FOR_NODES, sched_policy_set_nodes, spec, err);
}

static int set_path(void *arg, const char *value, errmsg_t *err)
{
    struct ctx *ctx = arg;
    char *copy;

    if (settings_check_dirs("sched.plugin-path", value, err) < 0)
        return -1;
    if (!(copy = strdup(value)))
        return errmsg_fail(err, ENOMEM, "the sched module is out of memory");
    free(ctx->plugin_path);
    ctx->plugin_path = copy;
    return 0;
}

#define LONG_AGO 1e-3 /* a time before the reactor's clock began */

/* The expiration is converted once, so later changes of the wall clock do not move it. */
static int expire(struct ctx *ctx, double wall)
{
    double t = wall;

    if (wall > 0.)
        t = flux_reactor_from_wall(flux_get_reactor(ctx->h), wall);
    return sched_set_expiration(ctx->s, wall > 0. && t <= 0. ? LONG_AGO : t);
}

double sched_policies_milliseconds(double t)
{
    return round(t * 1e3) / 1e3;
}

double sched_policies_expiration(const struct ctx *ctx)
{
    double t = sched_expiration(ctx->s);

    return t > 0. ? sched_policies_milliseconds(flux_reactor_to_wall(flux_get_reactor(ctx->h), t))
                  : 0.;
}

static int set_expiration(void *arg, const char *value, errmsg_t *err)
{
    struct ctx *ctx = arg;
    char *end;
    double t = value[0] >= '0' && value[0] <= '9' ? strtod(value, &end) : -1.;

    if (t < 0. || *end || expire(ctx, t) < 0)
        return errmsg_fail(err, EINVAL, "'%s' is not a time in seconds since 1970, or 0 for never",
                           value);
    sched_module_kick(ctx);
    return 0;
}

static int set_queue(void *arg, const char *value, errmsg_t *err)
{
    return policies_set_queue(arg, value, err);
}

static int set_node(void *arg, const char *value, errmsg_t *err)
{
    return policies_set_node(arg, value, err);
}

static void ready(void *arg)
{
    sched_module_kick(arg);
}

/* The path comes first, since policies are searched for in it.  A refused value ends the module, so
 * that no other policy than the chosen one decides. */
static const struct setup_row rows[] = {
    SETUP_CALL("sched.plugin-path", set_path),
    SETUP_CALL("sched.queue-policy", set_queue),
    SETUP_CALL("sched.node-policy", set_node),
    SETUP_CALL("sched.expiration", set_expiration),
    SETUP_END,
};
static const struct setup_table settings = {"sched", rows, ready, NULL};

int sched_policies_configure(struct ctx *ctx, int argc, char **argv, errmsg_t *err)
{
    return (ctx->setup = setup_create(ctx->h, &settings, ctx, argc, argv, err)) ? 0 : -1;
}

/* After the scheduler is destroyed. */
void sched_policies_fini(struct ctx *ctx)
{
    setup_destroy(ctx->setup);
    sched_load_destroy(ctx->queue);
    sched_load_destroy(ctx->node);
    free(ctx->plugin_path);
}

void sched_policies_cb(flux_t *h, const flux_msg_t *req, void *arg)
{
    struct ctx *ctx = arg;
    struct sched_policy_names in = {0};
    struct sched_policy_names out;
    json_t *owner;
    errmsg_t err;

    if (flux_request_decode(h, req, &sched_policy_schema, &in, &owner) < 0)
        return;
    if ((in.queue && policies_set_queue(ctx, in.queue, &err) < 0) ||
        (in.node && policies_set_node(ctx, in.node, &err) < 0))
        flux_respond_error(h, req, errno, "%s", err.text);
    else {
        out.queue = sched_policy_queue_name(ctx->s);
        out.node = sched_policy_nodes_name(ctx->s);
        flux_respond_struct(h, req, &sched_policy_schema, &out);
    }
    json_decref(owner);
}

void sched_policies_expiration_cb(flux_t *h, const flux_msg_t *req, void *arg)
{
    struct ctx *ctx = arg;
    struct sched_expiration in = {0};
    json_t *owner;

    if (flux_request_decode(h, req, &sched_expiration_schema, &in, &owner) < 0)
        return;
    if (expire(ctx, in.expiration) < 0)
        flux_respond_error(h, req, EINVAL,
                           "sched.expiration: a time in seconds since 1970, or 0 for never");
    else {
        sched_module_kick(ctx);
        flux_respond_struct(h, req, &sched_expiration_schema, &in);
    }
    json_decref(owner);
}

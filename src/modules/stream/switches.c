/* switches.c - the states of switches, and the readers that name them.
 *
 * Purpose: the event stream.switch turns a switch on or off.  The module keeps a switch while it
 * has readers, and also while it is on, so that a reader that joins later is on as well.  The
 * readers of a switch are turned one after the other, in pieces.
 *
 * Invariants:
 *  1. A reader is in one of the two lists of its switch.  A reader in `turned` has the state of the
 *     switch; a reader in `unturned` may still have the state before.
 *  2. A switch without readers is on, and counted in ctx.idle.
 *
 * Failure: at most SWITCHES_MAX switches without readers are kept.  An event that would turn on one
 * more is logged; a switch whose last reader leaves when the table is full is forgotten, so that
 * later readers that name it are off.
 */
#include "config.h"
#include <stdlib.h>
#include <string.h>
#include <syslog.h>

#include "libflux/log.h"
#include "libutil/invariant.h"
#include "registry.h"

#define SWITCHES_MAX 4096

struct onoff {
    struct ctx *ctx;
    struct work work;
    struct list_node turned;
    struct list_node unturned; /* readers that have still to be turned */
    bool on;
    char name[];
};

static bool has_readers(const struct onoff *o)
{
    return !list_empty(&o->turned) || !list_empty(&o->unturned);
}

/* Turn readers one after the other. */
static void turn_run(struct work *w, struct flux_slice *s)
{
    struct onoff *o = list_entry(w, struct onoff, work);

    do {
        struct list_node *n = list_first(&o->unturned);
        struct reader *r = n ? list_entry(n, struct reader, turns) : NULL;

        if (!r)
            return;
        list_remove(n);
        list_append(&o->turned, n);
        if (r->off == o->on) {
            r->off = !o->on;
            readers_demand(r);
        }
    } while (flux_slice_more(s));
    registry_work(o->ctx, &o->work);
}

static struct onoff *onoff_create(struct ctx *ctx, const char *name)
{
    size_t len = strlen(name) + 1;
    struct onoff *o = calloc(1, sizeof(*o) + len);

    if (!o)
        return NULL;
    o->ctx = ctx;
    registry_work_init(&o->work, turn_run);
    list_init(&o->turned);
    list_init(&o->unturned);
    memcpy(o->name, name, len);
    if (hmap_put(ctx->switches, name, o) < 0) {
        free(o);
        return NULL;
    }
    return o;
}

static void onoff_forget(struct onoff *o)
{
    list_remove(&o->work.node);
    (void)hmap_take(o->ctx->switches, o->name);
    free(o);
}

int switches_join(struct reader *r, const char *name)
{
    struct ctx *ctx = r->s->ctx;
    struct onoff *o = hmap_get(ctx->switches, name);

    if (!*name)
        return 0;
    if (o && !has_readers(o))
        ctx->idle--;
    if (!o && !(o = onoff_create(ctx, name)))
        return -1;
    list_append(&o->turned, &r->turns);
    r->onoff = o;
    r->off = !o->on;
    return 0;
}

void switches_leave(struct reader *r)
{
    struct onoff *o = r->onoff;

    if (!o)
        return;
    list_remove(&r->turns);
    r->onoff = NULL;
    if (has_readers(o))
        return;
    if (o->on && o->ctx->idle < SWITCHES_MAX)
        o->ctx->idle++;
    else
        onoff_forget(o);
}

void switches_turn(struct ctx *ctx, const struct stream_switch *sw)
{
    struct onoff *o = hmap_get(ctx->switches, sw->name);

    if (o && !has_readers(o)) {
        INVARIANT(2, o->on && ctx->idle > 0);
        if (!sw->on) {
            ctx->idle--;
            onoff_forget(o);
        }
    } else if (o) {
        o->on = sw->on;
        list_splice(&o->unturned, &o->turned);
        registry_work(ctx, &o->work);
    } else if (sw->on) {
        if (!stream_title_ok(sw->name, strlen(sw->name)) || ctx->idle >= SWITCHES_MAX ||
            !(o = onoff_create(ctx, sw->name))) {
            flux_log(ctx->h, LOG_ERR,
                     "switch '%.128s' is not remembered for readers that come later", sw->name);
            return;
        }
        o->on = true;
        ctx->idle++;
    }
}

void switches_fini(struct ctx *ctx)
{
    size_t pos = 0;
    void *val;

    while (ctx->switches && hmap_next(ctx->switches, &pos, NULL, NULL, &val))
        free(val);
    hmap_destroy(ctx->switches);
}

const char *switches_name(const struct reader *r)
{
    return r->onoff ? r->onoff->name : "";
}

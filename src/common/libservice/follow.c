/* follow.c - a stream of another service that is reopened when it ends.
 *
 *    state    what happens               event                  next     by
 *    open     responses are read         a valid response       open     response_cb
 *                                        an error, or invalid   pause    end
 *    pause    the timer runs             it expires             open     again_cb
 *
 * Invariant 1: there is a future, or the timer runs, never both.
 *
 * Failure: lack of memory ends the stream like any other error.
 */
#include "config.h"
#include <errno.h>
#include <stdlib.h>

#include "follow.h"
#include "libflux/reactor.h"
#include "libutil/invariant.h"

struct follow {
    flux_t *h;
    const struct follow_ops *ops;
    void *arg;
    flux_future_t *f;
    flux_watcher_t *timer;
    double pause;
    unsigned tries;
};

static void open_stream(follow_t *fo);

static void end(follow_t *fo, int errnum, const char *why)
{
    flux_future_destroy(fo->f);
    fo->f = NULL;
    fo->tries++;
    fo->pause = fo->pause > 0. ? 2. * fo->pause : fo->ops->again;
    if (fo->pause > fo->ops->again_max)
        fo->pause = fo->ops->again_max;
    flux_timer_start(fo->timer, fo->pause, 0.);
    fo->ops->ended(fo->arg, errnum, why, fo->tries);
}

static void response_cb(flux_future_t *f, void *arg)
{
    follow_t *fo = arg;
    errmsg_t err = {""};
    int errnum = flux_future_errnum(f);

    INVARIANT(1, fo->f && !flux_watcher_active(fo->timer));
    if (errnum != 0) {
        errmsg_set(&err, "%s", flux_future_error(f));
        end(fo, errnum, err.text);
        return;
    }
    fo->tries = 0;
    fo->pause = 0.;
    if (fo->ops->take(fo->arg, f, &err) < 0)
        end(fo, EPROTO, err.text);
    else
        flux_future_next(f);
}

static void open_stream(follow_t *fo)
{
    INVARIANT(1, !fo->f);
    fo->f = flux_rpc(fo->h, fo->ops->topic, "{}", FLUX_NODEID_ANY, FLUX_MSGF_STREAMING);
    if (!fo->f || flux_future_then(fo->f, -1., response_cb, fo) < 0)
        end(fo, ENOMEM, "out of memory");
}

static void again_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    flux_watcher_stop(w);
    open_stream(arg);
}

follow_t *follow_create(flux_t *h, const struct follow_ops *ops, void *arg)
{
    follow_t *fo = calloc(1, sizeof(*fo));

    if (!fo)
        return NULL;
    fo->h = h;
    fo->ops = ops;
    fo->arg = arg;
    if (!(fo->timer = flux_timer_create(flux_get_reactor(h), again_cb, fo)) ||
        !(fo->f = flux_rpc(h, ops->topic, "{}", FLUX_NODEID_ANY, FLUX_MSGF_STREAMING)) ||
        flux_future_then(fo->f, -1., response_cb, fo) < 0) {
        follow_destroy(fo);
        errno = ENOMEM;
        return NULL;
    }
    return fo;
}

void follow_destroy(follow_t *fo)
{
    int saved = errno;

    if (!fo)
        return;
    flux_future_destroy(fo->f);
    flux_watcher_destroy(fo->timer);
    free(fo);
    errno = saved;
}

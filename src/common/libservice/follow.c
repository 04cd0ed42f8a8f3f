/* follow.c - a stream of another service that is reopened when it ends.
 *
 *    state    what happens          event                           next           by
 *    closed   nothing               follow_open()                   open, pause    follow_open
 *    open     responses are read    a valid response                open           response_cb
 *                                   follow_open()                   open, pause    follow_open
 *                                   an error, invalid, follow_end() pause          end
 *    pause    the timer runs        it expires, follow_open()       open, pause    follow_open
 *
 * Opening leads to a pause while the user does not permit it.
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
    unsigned opened; /* number of times the stream was opened */
};

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
    unsigned opened = fo->opened;

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
    else if (fo->f && fo->opened == opened)
        flux_future_next(f);
}

void follow_open(follow_t *fo)
{
    flux_future_destroy(fo->f);
    fo->f = NULL;
    flux_watcher_stop(fo->timer);
    if (fo->ops->may_open && !fo->ops->may_open(fo->arg)) {
        flux_timer_start(fo->timer, fo->ops->again, 0.);
        return;
    }
    fo->opened++;
    fo->f = flux_rpc(fo->h, fo->ops->topic, "{}", FLUX_NODEID_ANY, FLUX_MSGF_STREAMING);
    if (!fo->f || flux_future_then(fo->f, -1., response_cb, fo) < 0)
        end(fo, ENOMEM, "out of memory");
}

void follow_end(follow_t *fo, int errnum, const char *why)
{
    if (fo->f)
        end(fo, errnum, why);
}

static void again_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    follow_open(arg);
}

follow_t *follow_create(flux_t *h, const struct follow_ops *ops, void *arg)
{
    follow_t *fo = calloc(1, sizeof(*fo));

    if (!fo)
        return NULL;
    fo->h = h;
    fo->ops = ops;
    fo->arg = arg;
    if (!(fo->timer = flux_timer_create(flux_get_reactor(h), again_cb, fo))) {
        free(fo);
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

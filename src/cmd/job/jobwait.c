/* jobwait.c - wait for the end of jobs: send the request again as long as the service has no room
 * for it, and when the way to the service was lost.
 *
 *    state       meaning                                    left when (by)
 *    asked       a request is under way                     it is answered (response_cb): pausing
 *                                                           for EAGAIN and EHOSTUNREACH, otherwise
 *                                                           answered
 *    pausing     the timer runs                             it is over (timer_cb): asked
 *    answered    cb was called; the future is the caller's  a broker on the way dies
 *                                                           (response_cb): pausing
 *
 * Invariants:
 *  1. There is a future in each state but pausing.
 *  2. The pause grows from PAUSE_MIN to PAUSE_MAX.
 *
 * Failure: when memory is exhausted at the end of a pause, the timer runs for another one.
 */
#include "config.h"
#include "jobwait.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "libflux/handle.h"
#include "libflux/reactor.h"
#include "libjob/job.h"

#define PAUSE_MIN 0.01
#define PAUSE_MAX 0.5

struct jobwait {
    flux_t *h;
    char *ids;
    flux_future_f cb;
    void *arg;
    flux_future_t *f;
    flux_watcher_t *timer;
    double pause;
    bool answered;
};

static int ask(jobwait_t *w);

static void response_cb(flux_future_t *f, void *arg)
{
    jobwait_t *w = arg;

    if (flux_future_errnum(f) == EAGAIN || flux_future_errnum(f) == EHOSTUNREACH) {
        flux_future_destroy(f);
        w->f = NULL;
        w->answered = false;
        flux_timer_start(w->timer, w->pause, 0.);
        w->pause = w->pause * 2 < PAUSE_MAX ? w->pause * 2 : PAUSE_MAX;
        return;
    }
    w->answered = true;
    w->cb(f, w->arg);
}

static void timer_cb(flux_reactor_t *r, flux_watcher_t *watcher, int revents, void *arg)
{
    jobwait_t *w = arg;

    if (ask(w) < 0)
        flux_timer_start(w->timer, w->pause, 0.);
}

static int ask(jobwait_t *w)
{
    if (!(w->f = flux_job_wait(w->h, w->ids)))
        return -1;
    if (flux_future_then(w->f, -1., response_cb, w) < 0) {
        flux_future_destroy(w->f);
        w->f = NULL;
        return -1;
    }
    return 0;
}

jobwait_t *jobwait_create(flux_t *h, const char *ids, flux_future_f cb, void *arg)
{
    jobwait_t *w = calloc(1, sizeof(*w));

    if (!w)
        return NULL;
    w->h = h;
    w->cb = cb;
    w->arg = arg;
    w->pause = PAUSE_MIN;
    w->ids = strdup(ids);
    w->timer = flux_timer_create(flux_get_reactor(h), timer_cb, w);
    if (!w->ids || !w->timer || ask(w) < 0) {
        jobwait_destroy(w);
        errno = ENOMEM;
        return NULL;
    }
    return w;
}

void jobwait_destroy(jobwait_t *w)
{
    if (w) {
        int saved = errno;

        flux_future_destroy(w->f);
        flux_watcher_destroy(w->timer);
        free(w->ids);
        free(w);
        errno = saved;
    }
}

flux_future_t *jobwait_answer(jobwait_t *w)
{
    return w->answered ? w->f : NULL;
}

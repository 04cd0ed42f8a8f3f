/* sigwatch.c - watch several signals with one function.
 *
 * A watcher of the reactor is for one signal and does not tell its function which one; here, each
 * signal has a structure of its own that does.
 *
 * Failure: ENOMEM, and no signal is watched.
 */
#include "config.h"
#include "sigwatch.h"

#include <errno.h>
#include <stdlib.h>

struct place {
    sigwatch_t *s;
    int signum;
    flux_watcher_t *w;
};

struct sigwatch {
    sigwatch_f cb;
    void *arg;
    size_t n;
    struct place places[];
};

static void signal_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    const struct place *p = arg;

    p->s->cb(p->signum, p->s->arg);
}

sigwatch_t *sigwatch_create(flux_reactor_t *r, const int signums[], size_t n, sigwatch_f cb,
                            void *arg)
{
    sigwatch_t *s = calloc(1, sizeof(*s) + n * sizeof(s->places[0]));

    if (!s)
        return NULL;
    s->cb = cb;
    s->arg = arg;
    for (size_t i = 0; i < n; i++) {
        struct place *p = &s->places[s->n++];

        p->s = s;
        p->signum = signums[i];
        if (!(p->w = flux_signal_watcher_create(r, signums[i], signal_cb, p))) {
            sigwatch_destroy(s);
            errno = ENOMEM;
            return NULL;
        }
        flux_watcher_start(p->w);
    }
    return s;
}

void sigwatch_destroy(sigwatch_t *s)
{
    int saved = errno;

    for (size_t i = 0; s && i < s->n; i++)
        flux_watcher_destroy(s->places[i].w);
    free(s);
    errno = saved;
}

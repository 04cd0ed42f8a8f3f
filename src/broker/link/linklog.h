/* The log of a transport, with a limited rate: a neighbor that misbehaves must not fill it.
 *
 * Thread rules: one thread.
 */
#ifndef BROKER_LINKLOG_H
#define BROKER_LINKLOG_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>

#include "libflux/reactor.h"

#define LINKLOG_PER_SECOND 5

struct linkpace {
    double since;
    unsigned count; /* lines since the period began */
};

/* Returns whether one more line may be logged now, at a rate of at most `max` lines in `period`
 * seconds. */
static inline bool linkpace_may(struct linkpace *p, double now, double period, unsigned max)
{
    if (now - p->since >= period) {
        p->since = now;
        p->count = 0;
    }
    return p->count++ < max;
}

struct linklog {
    flux_reactor_t *r;
    void (*log)(void *arg, int level, const char *text); /* may be NULL */
    void *arg;
    struct linkpace pace;
};

/* Log a line, at most LINKLOG_PER_SECOND of them per second. */
static inline void linklog(struct linklog *ll, int level, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
static inline void linklog(struct linklog *ll, int level, const char *fmt, ...)
{
    char text[320];
    va_list ap;

    if (!ll->log || !linkpace_may(&ll->pace, flux_reactor_now(ll->r), 1., LINKLOG_PER_SECOND))
        return;
    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    ll->log(ll->arg, level, text);
}

#endif

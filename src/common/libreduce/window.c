/* Windows of a reduction: see window.h. */
#include "libreduce/window.h"

void window_init(struct window *w, struct window_limits limits)
{
    *w = (struct window){.limits = limits};
}

bool window_add(struct window *w, size_t bytes, double now)
{
    if (w->count++ == 0)
        w->first = now;
    w->bytes += bytes;
    return window_due(w, now);
}

bool window_due(const struct window *w, double now)
{
    const struct window_limits *l = &w->limits;

    return w->count > 0 &&
           ((l->count && w->count >= l->count) || (l->bytes && w->bytes >= l->bytes) ||
            (l->age > 0 && now - w->first >= l->age));
}

double window_wait(const struct window *w, double now)
{
    double left;

    if (window_due(w, now))
        return 0;
    if (w->count == 0 || w->limits.age <= 0)
        return -1;
    left = w->limits.age - (now - w->first);
    return left > 0 ? left : 0;
}

bool window_empty(const struct window *w)
{
    return w->count == 0;
}

void window_reset(struct window *w)
{
    w->count = 0;
    w->bytes = 0;
}

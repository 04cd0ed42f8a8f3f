/* Windows of a reduction: see window.h. */
#include "libreduce/window.h"

void window_init(struct window *w, struct window_limits limits)
{
    *w = (struct window){.limits = limits};
}

bool window_add(struct window *w, size_t bytes)
{
    const struct window_limits *l = &w->limits;

    w->count++;
    w->bytes += bytes;
    return (l->count && w->count >= l->count) || (l->bytes && w->bytes >= l->bytes);
}

void window_reset(struct window *w)
{
    w->count = 0;
    w->bytes = 0;
}

/* A window of a reduction: when is what was gathered to be passed on?
 *
 * Results that come up a tree are gathered at each level and passed on together: at the end of the
 * pass of the loop that brought them, or as soon as the window is full, by number, by bytes, or by
 * the age of the oldest.  The window only counts: what is gathered belongs to the caller, and so
 * does the clock.
 *
 *    window_init(&w, (struct window_limits){.count = 10000, .bytes = 1 << 20});
 *    ... if (window_add(&w, len, now)) { send all; window_reset(&w); }
 *
 * Pure; not thread-safe.
 */
#ifndef REDUCE_WINDOW_H
#define REDUCE_WINDOW_H

#include <stdbool.h>
#include <stddef.h>

/* Zeros mean: no limit of that kind. */
struct window_limits {
    size_t count; /* entries */
    size_t bytes;
    double age; /* seconds since the first */
};

struct window {
    struct window_limits limits;
    size_t count;
    size_t bytes;
    double first; /* when the oldest entry came */
};

void window_init(struct window *w, struct window_limits limits);

/* An entry of so many bytes came, now: is the window full? */
bool window_add(struct window *w, size_t bytes, double now);
/* Is it to be passed on, full or old?  Never when it is empty. */
bool window_due(const struct window *w, double now);
/* Seconds from now until it is due by its age: 0 when it is due, -1 when no time makes it so. */
double window_wait(const struct window *w, double now);
bool window_empty(const struct window *w);
/* It was passed on. */
void window_reset(struct window *w);

#endif

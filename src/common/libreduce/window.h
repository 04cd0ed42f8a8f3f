/* A window of a reduction: decides when gathered results are passed on.
 *
 * Results that come up a tree are gathered at each level and passed on together: at the end of the
 * pass of the reactor that brought them, or as soon as the window is full, by number or by bytes.
 * The window only counts; the gathered results belong to the caller.
 *
 *    window_init(&w, (struct window_limits){.count = 10000, .bytes = 1 << 20});
 *    ... if (window_add(&w, len)) { send all; window_reset(&w); }
 *
 * Pure functions; not thread-safe.
 */
#ifndef REDUCE_WINDOW_H
#define REDUCE_WINDOW_H

#include <stdbool.h>
#include <stddef.h>

/* 0: no such limit. */
struct window_limits {
    size_t count; /* entries */
    size_t bytes;
};

struct window {
    struct window_limits limits;
    size_t count;
    size_t bytes;
};

void window_init(struct window *w, struct window_limits limits);

/* Count an entry of `bytes` bytes.  True: the window is full. */
bool window_add(struct window *w, size_t bytes);
/* The entries were passed on: the window is empty. */
void window_reset(struct window *w);

#endif

/* What the Python package adds to libflux: see glue.c.
 *
 * Thread rules: those of the handle.
 */
#ifndef PYFLUX_GLUE_H
#define PYFLUX_GLUE_H

#include "libflux/flux.h"
/* In the source tree, and as it is installed. */
#if __has_include("libstream/stream.h")
#include "libstream/stream.h"
#else
#include "stream.h"
#endif

typedef struct pyflux_queue pyflux_queue_t;
typedef struct pyflux_watch pyflux_watch_t;
typedef struct pyflux_events pyflux_events_t;

/* The queue of one handle, which must outlive it.  NULL with ENOMEM. */
pyflux_queue_t *pyflux_queue_create(flux_t *h);
/* Destroys the watches and the event queues that are left.  Before flux_close().  NULL-safe. */
void pyflux_queue_destroy(pyflux_queue_t *q);
/* The number of the next watch or event queue that has something, once each time; 0: none. */
uint64_t pyflux_queue_next(pyflux_queue_t *q);

/* Put `id` (not 0) into the queue each time the future becomes ready.  A result that is there
 * already does not count.  Destroy the watch before the future.  NULL with ENOMEM. */
pyflux_watch_t *pyflux_watch_create(pyflux_queue_t *q, flux_future_t *f, uint64_t id);
void pyflux_watch_destroy(pyflux_watch_t *w); /* NULL-safe */

/* Keep the events whose topic begins with `prefix` (copied), and event.lost: at most `max` events
 * of `max_bytes` bytes together, or one larger event; then the oldest are dropped and counted.
 * `id` is put into the queue when the first event comes.  NULL with ENOMEM. */
pyflux_events_t *pyflux_events_create(pyflux_queue_t *q, const char *prefix, size_t max,
                                      size_t max_bytes, uint64_t id);
void pyflux_events_destroy(pyflux_events_t *ev); /* NULL-safe */
/* The oldest event, which belongs to the caller; NULL: there is none. */
flux_msg_t *pyflux_events_take(pyflux_events_t *ev);
/* How many events were dropped since the last call. */
uint64_t pyflux_events_dropped(pyflux_events_t *ev);
/* Read JSON text.  NULL with EINVAL or ENOMEM. */
json_t *pyflux_json(const char *text, size_t len);
/* Leave a stream when the process exits, and then, if its status is not 0, because the program has
 * failed (flux_stream_fail()).  From now on nobody else uses the stream, or its handle, which are
 * not freed.  0, or -1 with ENOMEM. */
int pyflux_leave_at_exit(flux_stream_t *s);
/* The version of Flux with which the package was built. */
const char *pyflux_version(void);

#endif

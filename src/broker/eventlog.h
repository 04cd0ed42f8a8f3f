/* Past events that a broker can send again, encoded one after the other.  Thread rules: a log
 * belongs to one thread.
 */
#ifndef BROKER_EVENTLOG_H
#define BROKER_EVENTLOG_H

#include "libflux/msg.h"

typedef struct eventlog eventlog_t;

/* Keeps at most `limit` bytes of events, or a single event.  NULL with ENOMEM. */
eventlog_t *eventlog_create(size_t limit);
void eventlog_destroy(eventlog_t *l); /* NULL-safe, keeps errno */

/* Remove all events. */
void eventlog_clear(eventlog_t *l);
/* Append the newest event.  -1 with ENOMEM: all events are removed, including this one. */
int eventlog_append(eventlog_t *l, const flux_msg_t *msg);
size_t eventlog_count(const eventlog_t *l);

/* Keep at most `limit` bytes from now on. */
void eventlog_set_limit(eventlog_t *l, size_t limit);

/* Call cb() for the events after the oldest `skip`, from old to new.  cb() takes the message over,
 * must not change the log, and ends the walk by returning 1 (done) or -1 (error).  Returns -1 in
 * the latter case, and with ENOMEM. */
typedef int (*eventlog_f)(void *arg, flux_msg_t *msg);
int eventlog_each(const eventlog_t *l, size_t skip, eventlog_f cb, void *arg);

#endif

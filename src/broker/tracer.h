/* The service "trace": shows the messages that pass through this broker, for debugging.
 *
 * Thread rules: belongs to the broker's main thread.
 */
#ifndef BROKER_TRACER_H
#define BROKER_TRACER_H

#include "core.h"

typedef struct tracer tracer_t;

/* Serve trace.watch.  `path`: a file to which all messages are appended too, as lines of text,
 * created if it does not exist; brokers of one host may share it; NULL: none.  NULL with errno and
 * an error message. */
tracer_t *tracer_create(core_t *core, const char *path, errmsg_t *err);
void tracer_destroy(tracer_t *t); /* NULL-safe, keeps errno; before the core */

#endif

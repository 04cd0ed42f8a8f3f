/* Attributes: named strings of a broker (rank, size, uri, topology, and settings given by --set).
 * Services: "attr.get" {name}, "attr.set" {name,value}, "attr.list".
 *
 * Thread rules: those of the handle.
 */
#ifndef FLUX_ATTR_H
#define FLUX_ATTR_H

#include "future.h"

/* The value of an attribute of the local broker, malloc'd.  Blocks: for programs.  NULL with ENOENT
 * (no such attribute), ENOMEM or EPIPE (the broker is gone), and an error message. */
char *flux_attr_get(flux_t *h, const char *name, errmsg_t *err);
/* Asynchronous, for modules.  NULL with ENOMEM, or EINVAL (a text is not UTF-8).
 * flux_attr_future_get() returns a pointer that is valid as long as the future; -1 with errno and
 * an error message, EAGAIN if it is not ready. */
flux_future_t *flux_attr_get_async(flux_t *h, const char *name);
int flux_attr_future_get(flux_future_t *f, const char **value, errmsg_t *err);
/* Set an attribute: the future fails with EPERM if it is fixed, else as above. */
flux_future_t *flux_attr_set_async(flux_t *h, const char *name, const char *value);

#endif

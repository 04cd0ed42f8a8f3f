/* Attributes: named strings of a broker (rank, size, uri, topology...; settings given by --set).
 * Services: "attr.get" {name}, "attr.set" {name,value}, "attr.list".
 *
 * Thread rules: those of the handle.
 */
#ifndef FLUX_ATTR_H
#define FLUX_ATTR_H

#include "future.h"

/* Value of an attribute of the local broker, malloc'd; blocking, for programs.  NULL with ENOENT
 * (there is none of that name), ENOMEM, EPIPE (the broker is gone), and a sentence. */
char *flux_attr_get(flux_t *h, const char *name, errmsg_t *err);
/* Set it, blocking too.  0; -1 with EPERM for one that is fixed, else as above, and a sentence. */
int flux_attr_set(flux_t *h, const char *name, const char *value, errmsg_t *err);
/* Asynchronous, for modules: NULL with ENOMEM.  flux_attr_future_get() yields a pointer that lives
 * as long as the future; -1 with errno and a sentence, EAGAIN when it is not ready. */
flux_future_t *flux_attr_get_async(flux_t *h, const char *name);
int flux_attr_future_get(flux_future_t *f, const char **value, errmsg_t *err);

#endif

/* Attributes of a broker: named strings.  libflux/attr.h is the clients' side.
 *
 * Thread rules: belongs to the broker's main thread.
 */
#ifndef BROKER_ATTRS_H
#define BROKER_ATTRS_H

#include <stdbool.h>
#include "core.h"

typedef struct attrs attrs_t;

attrs_t *attrs_create(void);    /* NULL with ENOMEM */
void attrs_destroy(attrs_t *a); /* NULL-safe, keeps errno */

/* Set an attribute, from the command line or within the broker.  `fixed`: refuse attr.set.  -1 with
 * ENOMEM, or EINVAL for a bad name (not 1 to 64 letters, digits, '.', '-', '_') or a value that is
 * longer than 64 KiB or not UTF-8. */
int attrs_set(attrs_t *a, const char *name, const char *value, bool fixed);
int attrs_setf(attrs_t *a, const char *name, bool fixed, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
/* Store the place where the value was set ("--set", "FILE:LINE").  It is kept when the value is set
 * again. -1 with ENOENT or ENOMEM. */
int attrs_set_source(attrs_t *a, const char *name, const char *source);
/* Note that a module is about to be loaded, and will read its settings. */
void attrs_module_loads(attrs_t *a, const char *module);
/* The value, or NULL; valid until it is set again. */
const char *attrs_get(const attrs_t *a, const char *name);

/* Serve attr.get, attr.set, attr.list and attr.sources on the core's handle.  -1 with errno. */
int attrs_serve(attrs_t *a, core_t *core);
/* Stop serving, before the core is destroyed. */
void attrs_unserve(attrs_t *a);

#endif

/* Run flux-inventory and pass its output to a callback. */
#ifndef RESRC_PROBE_H
#define RESRC_PROBE_H

#include "libflux/handle.h"

typedef struct probe probe_t;

/* text: standard output, or NULL with an error message in `error`.  The probe may be destroyed in
 * the callback. */
typedef void (*probe_f)(probe_t *p, const char *text, size_t len, const char *error, void *arg);

/* arg1, arg2: arguments, may be NULL.  NULL with errno and an error message. */
probe_t *resrc_probe_start(flux_t *h, const char *arg1, const char *arg2, probe_f cb, void *arg,
                           errmsg_t *err);
void resrc_probe_destroy(probe_t *p); /* kills a running program; NULL-safe, keeps errno */

#endif

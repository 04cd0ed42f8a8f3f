/* Logging to the session's log (`flux dmesg`).
 *
 * Thread rules: those of the handle.
 */
#ifndef FLUX_LOG_H
#define FLUX_LOG_H

#include <syslog.h> /* LOG_EMERG .. LOG_DEBUG: the levels of RFC 5424 */
#include "handle.h"

/* The source of the lines ("kvs", "ping"); at most 31 bytes are kept.  Default: the name of the
 * module or program.
 */
void flux_log_set_source(flux_t *h, const char *name);
/* Log one line.  Never blocks and reports no error: sends "log.append" without response to the
 * local log service. */
void flux_log(flux_t *h, int level, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* "err" <-> LOG_ERR.  -1 with EINVAL; "?" for an unknown level. */
int flux_log_level_parse(const char *name);
const char *flux_log_level_name(int level);

#endif

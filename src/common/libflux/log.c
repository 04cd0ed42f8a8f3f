/* log.c - one line to the session's log.
 *
 * A line is a request "log.append" {"level","source","text"} without response to the nearest log
 * service, which adds rank and time.
 *
 * Failure: a line that cannot be sent is lost, and the caller gets no error, since it could do
 * nothing about it.  No decision depends on the log, and a broker that drops lines logs their
 * number (modhost.c).
 */
#include "config.h"
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libutil/strutil.h"
#include "log.h"
#include "log_wire.h"

#define AUX_SOURCE "flux::log_source"
#define SOURCE_MAX 31
#define LINE_MAX_BYTES 1024

static const char *const level_names[] = {
    "emerg", "alert", "crit", "err", "warning", "notice", "info", "debug",
};
#define LEVELS ((int)(sizeof(level_names) / sizeof(level_names[0])))

void flux_log_set_source(flux_t *h, const char *name)
{
    char *copy = strndup(name, SOURCE_MAX);

    if (!copy)
        return;
    str_clean(copy);
    if (flux_aux_set(h, AUX_SOURCE, copy, free) < 0)
        free(copy);
}

void flux_log(flux_t *h, int level, const char *fmt, ...)
{
    int saved = errno;
    char text[LINE_MAX_BYTES];
    const char *source = flux_aux_get(h, AUX_SOURCE);
    struct log_line line = {
        .level = level < 0         ? 0
                 : level >= LEVELS ? LEVELS - 1
                                   : level,
        .source = source ? source : program_invocation_short_name,
        .text = text,
    };
    flux_msg_t *msg;
    char *json;
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    str_clean(text);
    if ((json = flux_schema_encode(&log_line_schema, &line)) &&
        (msg = flux_msg_create(FLUX_MSG_REQUEST, "log.append"))) {
        flux_msg_set_flags(msg, FLUX_MSGF_NORESPONSE);
        if (flux_msg_set_json(msg, json) < 0)
            flux_msg_destroy(msg);
        else
            (void)flux_send(h, msg);
    }
    free(json);
    errno = saved;
}

int flux_log_level_parse(const char *name)
{
    for (int i = 0; i < LEVELS; i++) {
        if (strcmp(name, level_names[i]) == 0)
            return i;
    }
    if (strcmp(name, "error") == 0)
        return LOG_ERR;
    if (strcmp(name, "warn") == 0)
        return LOG_WARNING;
    errno = EINVAL;
    return -1;
}

const char *flux_log_level_name(int level)
{
    return level >= 0 && level < LEVELS ? level_names[level] : "?";
}

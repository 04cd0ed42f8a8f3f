/* stream_attach.c - transforms that are attached to a writer, or a reader, while it runs.
 *
 * The module `stream` sends their text with what else it says to the process (stream_wire.h), and a
 * number that rises with each change.  They take the place of the transforms that the process has,
 * those with which it opened the stream too, before its next step, since values of the present step
 * may be in their memory.  Another instance of the module says 0, and the process keeps what it
 * has.
 *
 * Failure: transforms that cannot be loaded change nothing; the log of the session says why, and a
 * writer counts that like one that has failed.
 */
#include "config.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "libflux/log.h"
#include "libstream/stream_private.h"

static void failed(flux_stream_t *s, const char *why)
{
    s->faults++;
    errmsg_set(&s->fault, "stream '%s': the transforms to be attached: %s", s->name, why);
    flux_log(s->h, LOG_ERR, "%s", s->fault.text);
}

void stream_attach_heard(flux_stream_t *s, uint32_t attached, const char *transforms)
{
    if (s->attached == attached)
        return;
    s->attached = attached;
    if (attached == 0)
        return;
    free(s->attach);
    if (!(s->attach = strdup(transforms ? transforms : "")))
        failed(s, "out of memory");
}

void stream_attach_use(flux_stream_t *s)
{
    stream_chain_t *t = NULL;
    errmsg_t err;
    int rc = 0;

    if (!s->attach)
        return;
    if (s->mode == FLUX_STREAM_READ)
        rc = stream_view_create(s, s->attach, &err);
    else if (*s->attach && !(t = stream_chain_parse(s->attach, &err)))
        rc = -1;
    else {
        stream_chain_destroy(s->chain);
        s->chain = t;
    }
    if (rc < 0)
        failed(s, err.text);
    free(s->attach);
    s->attach = NULL;
}

/* stream.c - opening and closing a stream, for a process of either side.
 *
 * A stream that is open is a request to the module `stream` that stays open (stream.write or
 * stream.read), and connections between the processes themselves: see stream_writer.c and
 * stream_reader.c.
 *
 * Failure: if a part of a stream cannot be opened, the stream is closed again.
 */
#include "config.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "libflux/event.h"
#include "libstream/stream_config.h"
#include "libstream/stream_private.h"
#include "libstream/stream_wire.h"

void flux_stream_close(flux_stream_t *s)
{
    int saved = errno;

    if (!s)
        return;
    stream_writer_close(s);
    stream_view_destroy(s);
    stream_reader_close(s);
    stream_file_close(s);
    stream_records_close(s);
    stream_schedule_close(s);
    stream_attr_close(s);
    flux_future_destroy(s->f);
    free(s->attach);
    free(s->join);
    free(s->name);
    free(s);
    errno = saved;
}

void flux_stream_leave(flux_stream_t *s)
{
    int saved = errno;

    if (s->mode == FLUX_STREAM_READ)
        stream_reader_leave(s);
    else
        stream_writer_leave(s);
    errno = saved;
}

/* The rank and size that the program has not said. */
static int rank_get(const char *name, struct flux_stream_opts *opts, errmsg_t *err)
{
    errmsg_t why;

    if (opts->rank > 0)
        return errmsg_fail(err, EINVAL,
                           "stream '%.128s': the option rank, %u, needs the option size", name,
                           opts->rank);
    if (flux_stream_rank(&opts->rank, &opts->size, &why) < 0)
        return errmsg_fail(err, errno, "stream '%.128s': %s", name, why.text);
    return 0;
}

static int start_check(const char *name, const char *start, errmsg_t *err)
{
    if (!start || strcmp(start, "append") == 0 || strcmp(start, "anew") == 0)
        return 0;
    return errmsg_fail(err, EINVAL,
                       "stream '%.128s': the option start is append or anew, not '%.32s'", name,
                       start);
}

static int writer_chain(flux_stream_t *s, const char *transforms, errmsg_t *err)
{
    errmsg_t why;

    if ((s->chain = stream_chain_parse(transforms, &why)))
        return 0;
    return errmsg_fail(err, errno, "stream '%s': %s", s->name, why.text);
}

flux_stream_t *flux_stream_open(flux_t *h, const char *name, enum flux_stream_mode mode,
                                const struct flux_stream_opts *opts, errmsg_t *err)
{
    struct flux_stream_opts own = opts ? *opts : (struct flux_stream_opts){0};
    bool launched;
    char *held = NULL;
    flux_stream_t *s;
    int rc;

    if (mode != FLUX_STREAM_WRITE && mode != FLUX_STREAM_READ) {
        errmsg_fail(err, EINVAL, "a stream is opened for writing or for reading");
        return NULL;
    }
    if (stream_config_file(name, mode, &own, &held, err) < 0) {
        free(held);
        return NULL;
    }
    launched = own.size == 0;
    if ((launched && (own.team || mode == FLUX_STREAM_WRITE) && rank_get(name, &own, err) < 0) ||
        start_check(name, own.start, err) < 0) {
        free(held);
        return NULL;
    }
    if (!(s = calloc(1, sizeof(*s))) || !(s->name = strdup(name))) {
        flux_stream_close(s);
        free(held);
        errmsg_fail(err, ENOMEM, "out of memory");
        return NULL;
    }
    s->h = h;
    s->mode = mode;
    s->launched = launched;
    rc = !own.transforms || !*own.transforms ? 0
         : mode == FLUX_STREAM_READ          ? stream_view_create(s, own.transforms, err)
                                             : writer_chain(s, own.transforms, err);
    if (rc == 0)
        rc = (mode == FLUX_STREAM_WRITE ? stream_writer_open : stream_reader_open)(s, &own, err);
    if (rc == 0 && mode == FLUX_STREAM_READ && own.join)
        rc = stream_meet_open(s, &own, err);
    free(held);
    if (rc < 0) {
        flux_stream_close(s);
        return NULL;
    }
    return s;
}

int flux_stream_switch(flux_t *h, const char *name, bool on, errmsg_t *err)
{
    if (!stream_title_ok(name, strlen(name)))
        return errmsg_fail(
            err, EINVAL,
            "'%.128s' is not the name of a switch: it has 1 to %d bytes without blanks", name,
            STREAM_TITLE_MAX);

    struct stream_switch sw = {name, on};
    char *json = flux_schema_encode(&stream_switch_schema, &sw);
    flux_future_t *f = json ? flux_event_publish(h, "stream.switch", json) : NULL;
    uint64_t seq;
    int rc = -1;

    if (!f)
        errmsg_fail(err, errno, "switch '%.128s' cannot be turned: %s", name, strerror(errno));
    else if (flux_future_wait(f, STREAM_OPEN_TIMEOUT) < 0)
        errmsg_fail(err, errno, "switch '%.128s' was not turned: %s", name, strerror(errno));
    else
        rc = flux_event_get_seq(f, &seq, err);
    flux_future_destroy(f);
    free(json);
    return rc;
}

int flux_stream_end_step(flux_stream_t *s, double timeout, errmsg_t *err)
{
    return s->mode == FLUX_STREAM_WRITE ? stream_writer_end(s, timeout, err)
                                        : stream_reader_end(s, err);
}

uint64_t flux_stream_step(const flux_stream_t *s)
{
    return s->step;
}

const char *flux_stream_fault(const flux_stream_t *s)
{
    return s->faults > 0 ? s->fault.text : NULL;
}

uint64_t flux_stream_epoch(const flux_stream_t *s)
{
    return s->epoch;
}

/* stream_connect.c - a reader connects to the writers that the module has named.
 *
 * A connection is one exchange with the writer, or several of them between hosts, and most of its
 * time passes until the writer has the processor.  So all connections are made at the same time.
 *
 * The writers of a run agree on their number, and the next run, which begins when all of them have
 * left, may have more writers, or fewer.  If a reader that is being opened learns of such a run, it
 * gives up the sources of the one before.  A reader that stays notes the writers of such a run
 * (`coming`), reads what all writers of the one before have published, and then does the same.
 *
 * Invariants:
 *  1. Outside of these functions, no source is `joining`.
 *  2. `coming` has the writers of the newest run that the module has named, if its size is another
 *     one than that of the run that is read; else no source has a writer that follows (`next`).
 *
 * Failure: if one writer cannot be reached, the others that were being connected are given up.
 * While a stream is opened, the module then names all of them once more (stream_open.c).
 */
#include "config.h"
#include <errno.h>
#include <math.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "libstream/stream_private.h"
#include "libstream/stream_wire.h"
#include "libutil/clock.h"
#include "libutil/hex.h"

/* The result of connecting; the error message gets the name of the stream. */
static inlet_t *named(const flux_stream_t *s, inlet_t *in, const errmsg_t *why, errmsg_t *err)
{
    if (!in)
        errmsg_fail(err, errno, "stream '%s': %s", s->name, why->text);
    return in;
}

/* Begin to connect by TCP.  NULL with an error message. */
static inlet_t *far_begin(flux_stream_t *s, const struct stream_member *m,
                          const unsigned char *secret, double timeout, errmsg_t *err)
{
    struct inlet_far_opts far = {.address = m->address,
                                 .secret = secret,
                                 .reader = m->reader,
                                 .expires = m->expires,
                                 .share = s->way.share ? &s->way.at : NULL,
                                 .silence = s->way.silence};
    errmsg_t why;

    if (!*m->address || s->way.ring) {
        errmsg_fail(err, EHOSTUNREACH,
                    s->way.ring
                        ? "stream '%s' is written on host %.80s, without shared memory"
                        : "stream '%s' is written on host %.80s, and only for readers there",
                    s->name, m->host);
        return NULL;
    }
    if (s->encrypts < 0 && (s->encrypts = stream_way_secure(s->h, s->secure, &why)) < 0) {
        errmsg_fail(err, errno, "stream '%s' cannot be opened: %s", s->name, why.text);
        return NULL;
    }
    far.secure = s->encrypts;
    return named(s, inlet_begin_far(&far, &s->want, timeout, &why), &why, err);
}

/* Go on with a connection: 1; 0: it is not there yet; -1 with an error message. */
static int source_join(flux_stream_t *s, struct stream_source *src, errmsg_t *err)
{
    errmsg_t why;
    int rc = inlet_joining(src->in, &why);

    if (rc < 0)
        return errmsg_fail(err, errno, "stream '%s': %s", s->name, why.text);
    src->joining = rc == 0;
    return rc;
}

/* Begin to connect to a writer.  0, or -1 with an error message. */
static int source_begin(flux_stream_t *s, const struct stream_member *m, double timeout,
                        errmsg_t *err)
{
    unsigned char key[KNOCK_KEY_LEN];
    struct stream_source *src = &s->sources[m->rank];
    errmsg_t why;

    if (m->rank >= s->nsources || strlen(m->key) != 2 * sizeof(key) ||
        hex_decode(key, m->key, sizeof(key)) < 0)
        return errmsg_fail(err, EPROTO, "stream '%s' has a writer that is malformed", s->name);
    inlet_destroy(src->in);
    src->in = NULL;
    src->joining = false;
    stream_group_reset(src);
    free(src->gone); /* the one before it */
    src->gone = NULL;
    src->more = false;
    free(src->address);
    if (s->took.run < m->run) { /* its numbers begin again */
        s->took.run = m->run;
        s->took.step = 0;
    }
    s->want.follow = s->want.group[0] != '\0' && m->rank > 0;
    s->want.seen = s->want.group[0] == '\0' ? s->took.step : s->want.follow ? 0 : src->last;
    src->writer = m->writer;
    src->epoch = m->epoch;
    src->last = src->run < m->run ? 0 : src->last;
    src->run = m->run;
    if (!(src->address = strdup(m->address)))
        return errmsg_fail(err, ENOMEM, "out of memory");
    src->in = m->far ? far_begin(s, m, key, timeout, err)
                     : named(s, inlet_begin(m->address, key, &s->want, timeout, &why), &why, err);
    if (!src->in)
        return -1;
    src->joining = true;
    return source_join(s, src, err) < 0 ? -1 : 0;
}

/* Go on with the connections for which poll(2) has reported something, or whose time is over.  0,
 * or -1 with an error message. */
static int sources_joining(flux_stream_t *s, const struct pollfd *p, errmsg_t *err)
{
    double now = clock_now();

    for (uint32_t i = 0; i < s->nsources; i++) {
        struct stream_source *src = &s->sources[i];
        struct pollfd again;

        if (src->joining && (p[i].revents != 0 || inlet_joining_poll(src->in, &again) <= now) &&
            source_join(s, src, err) < 0)
            return -1;
    }
    return 0;
}

/* Wait until all connections that were begun are there.  0, or -1 with an error message. */
static int sources_join(flux_stream_t *s, errmsg_t *err)
{
    struct pollfd *p = calloc(s->nsources, sizeof(*p));
    uint32_t left;
    int rc = 0;

    if (!p)
        return errmsg_fail(err, ENOMEM, "out of memory for the %u writers of stream '%s'",
                           s->nsources, s->name);
    do {
        double until = INFINITY;

        left = 0;
        for (uint32_t i = 0; i < s->nsources; i++) {
            p[i] = (struct pollfd){.fd = -1};
            if (s->sources[i].joining) {
                double end = inlet_joining_poll(s->sources[i].in, &p[i]);

                until = end < until ? end : until;
                left++;
            }
        }
        if (left > 0) {
            poll(p, s->nsources, clock_poll_ms(until - clock_now()));
            rc = sources_joining(s, p, err);
        }
    } while (left > 0 && rc == 0);
    free(p);
    return rc;
}

/* Give up the connections that are not there.  Keeps errno. */
static void sources_give_up(flux_stream_t *s)
{
    for (uint32_t i = 0; i < s->nsources; i++) {
        struct stream_source *src = &s->sources[i];

        if (src->joining) {
            inlet_destroy(src->in);
            src->in = NULL;
            src->joining = false;
        }
    }
}

int stream_connect_one(flux_stream_t *s, const struct stream_member *m, double timeout,
                       errmsg_t *err)
{
    if (source_begin(s, m, timeout, err) == 0 && sources_join(s, err) == 0)
        return 0;
    sources_give_up(s);
    return -1;
}

/* Connect to all writers of a response, except those to which this reader is connected. */
static int members_begin(flux_stream_t *s, const struct stream_members *ms, double timeout,
                         errmsg_t *err)
{
    struct stream_member m;
    json_t *item;
    size_t i;

    json_array_foreach(ms->writers, i, item)
    {
        if (flux_schema_decode_json(&stream_member_schema, item, &m, err) < 0)
            return -1;
        if (m.rank < s->nsources && s->sources[m.rank].in &&
            strcmp(m.address, s->sources[m.rank].address) == 0)
            stream_reader_known(s, &m); /* this reader has asked again */
        else if (source_begin(s, &m, timeout, err) < 0)
            return -1;
    }
    return 0;
}

int stream_connect_all(flux_stream_t *s, const struct stream_members *ms, double timeout,
                       errmsg_t *err)
{
    int missing = 0;

    if (!s->sources || (s->nsources != ms->size && json_array_size(ms->writers) > 0)) {
        stream_reader_forget(s);
        if (!(s->sources = calloc(ms->size, sizeof(*s->sources))))
            return errmsg_fail(err, ENOMEM, "out of memory for the %u writers of stream '%s'",
                               ms->size, s->name);
        s->nsources = ms->size;
    }
    stream_reader_instance(s, ms);
    s->want.off = ms->off;
    stream_attach_heard(s, ms->attached, ms->transforms);
    if (members_begin(s, ms, timeout, err) < 0 || sources_join(s, err) < 0) {
        sources_give_up(s);
        return -1;
    }
    for (uint32_t k = 0; k < s->nsources; k++)
        missing += !s->sources[k].in;
    return missing;
}

/* The writers of a run that was read are gone: end with them, but for what the program may still
 * have of their memory, and pass on to the sources of the next run what the next writers of these
 * ranks have to know. */
static int pass_on(flux_stream_t *s, struct stream_source *next, uint32_t n, errmsg_t *err)
{
    for (uint32_t i = 0; i < s->nsources; i++) {
        struct stream_source *src = &s->sources[i];

        stream_reader_drop(src);
        src->nparked = 0;
        if (src->old)
            inlet_hollow(src->old);
        src->old = NULL;
        if (src->in && stream_reader_lost(s, src, err) < 0)
            return -1;
        if (i < n) {
            next[i].last = src->last;
            next[i].run = src->run;
        }
    }
    return 0;
}

int stream_connect_resize(flux_stream_t *s, errmsg_t *err)
{
    struct stream_source *next = calloc(s->ncoming, sizeof(*next));
    struct stream_member m;
    json_t *item;
    size_t i;

    if (!next)
        return errmsg_fail(err, ENOMEM, "out of memory for the %u writers of stream '%s'",
                           s->ncoming, s->name);
    if (pass_on(s, next, s->ncoming, err) < 0) {
        free(next);
        return -1;
    }
    stream_reader_forget(s);
    s->sources = next;
    s->nsources = s->ncoming;
    json_array_foreach(s->coming, i, item)
    {
        if (flux_schema_decode_json(&stream_member_schema, item, &m, NULL) < 0 ||
            m.rank >= s->nsources)
            continue;
        json_decref(next[m.rank].next);
        next[m.rank].next = json_incref(item);
    }
    json_decref(s->coming);
    s->coming = NULL;
    stream_view_resized(s);
    return 0;
}

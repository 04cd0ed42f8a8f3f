/* stream.c - the streams of a session: who writes them, who reads them, and where.
 *
 * One instance, at the root.  Steps of data go from process to process (libstream) and are never
 * seen here; this module is asked when a process joins or leaves, and told once a second how far
 * writers are.  The messages are described in libstream/stream_wire.c.
 *
 * A writer is one of `size` processes that write a stream together, each with a rank of its own.
 * Its request stays open for as long as it writes; a reader's stays open too, and gets the writers
 * that there are, and then those that join or leave.  Whatever happens during one pass of the
 * reactor goes to a reader as one response.
 *
 * A reader of the writer's place, which is its host and network namespace, is told the writer's own
 * key, and joins through memory; one of another place gets a capability for this stream, this
 * reader and a limited time (libstream/far_key.h), with which it joins by TCP.
 *
 * Invariants:
 *  1. A stream exists as long as it has a writer or a reader.
 *  2. Writers are numbered across all streams, so that a number never means another writer as long
 *     as the module runs, and the list of a stream is in the order of its numbers: a reader has
 *     been told of exactly the writers up to `seen`.  Readers have chosen their numbers.
 *  3. No two writers of a stream have the same rank, and all agree about `size`.
 *  4. Writers that join a stream that has none form a group.  Each rank of it that joins for the
 *     first time begins with the same step, `begin`, however far the others are; one that was there
 *     before, with one that is larger than all that were counted.  `begin` is larger than all that
 *     groups before it have counted, as long as the stream exists.
 *  5. Every writer has been told whether the stream is paused, its limit, and what those readers
 *     want that do not want any longer what they have come with, by the last response to its
 *     request.
 *
 * A reload leaves requests unanswered, so that the next instance gets them, numbers the writers
 * anew, and tells them and readers so; it learns the steps with the next counts, and takes 0 for
 * the one with which a group has begun; formats, pauses, limits, changed policies, and which
 * switches are on, are forgotten: readers that name a switch are off again.
 *
 * Failure: a client that disconnects, or whose broker is lost (event overlay.down), leaves all its
 * streams; readers are told which writer that was, and why.  A lack of memory while a reader is
 * told ends its request with ENOMEM.
 */
#include "config.h"
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libflux/cancel_wire.h"
#include "libflux/module.h"
#include "libservice/setup.h"
#include "libstream/far_key.h"
#include "libutil/hex.h"
#include "libutil/invariant.h"
#include "registry.h"

#define FORMAT_MAX_LEN ((size_t)512 * 1024)
#define FORMATS_MAX_LEN ((size_t)64 * 1024 * 1024) /* of all streams */
#define STREAMS_MAX 16384
#define LIMIT_MIN 1e-6 /* steps a second */
#define LIMIT_MAX 1e9
#define MEMBERS_MAX 65536           /* writers and readers, of all streams */
#define SHARE_MAX (MEMBERS_MAX / 4) /* of these, one client's */

/* --- streams --- */

/* Takes over `format`, which may be NULL. */
static void format_set(struct stream *s, char *format)
{
    if (s->format)
        s->ctx->formats -= strlen(s->format);
    if (format)
        s->ctx->formats += strlen(format);
    free(s->format);
    s->format = format;
}

static void stream_free(void *val)
{
    struct stream *s = val;

    list_remove(&s->dirty);
    json_decref(s->gone);
    idset_destroy(s->joined);
    format_set(s, NULL);
    free(s->name);
    free(s);
}

/* The stream of this name, made if it is new.  NULL after answering the request. */
struct stream *registry_open(struct ctx *ctx, const flux_msg_t *req, const char *name)
{
    struct stream *s = hmap_get(ctx->streams, name);
    size_t len = strlen(name);

    if (ctx->writers + ctx->readers >= MEMBERS_MAX) {
        flux_respond_error(ctx->h, req, EBUSY, "the session has %d writers and readers of streams",
                           MEMBERS_MAX);
        return NULL;
    }
    if (claims_of_sender(ctx->claims, req) >= SHARE_MAX) {
        flux_respond_error(ctx->h, req, EBUSY, "a client has at most %d writers and readers",
                           SHARE_MAX);
        return NULL;
    }
    if (s)
        return s;
    if (len == 0 || len > NAME_MAX_LEN || strpbrk(name, " \t\r\n")) {
        flux_respond_error(ctx->h, req, EINVAL,
                           "the name of a stream has 1 to %d bytes without blanks", NAME_MAX_LEN);
        return NULL;
    }
    if (hmap_count(ctx->streams) >= STREAMS_MAX) {
        flux_respond_error(ctx->h, req, EBUSY, "the session has %d streams", STREAMS_MAX);
        return NULL;
    }
    if (!(s = calloc(1, sizeof(*s))))
        goto nomem;
    s->ctx = ctx;
    list_init(&s->writers);
    list_init(&s->readers);
    list_init(&s->dirty);
    if (!(s->name = strdup(name)) || !(s->gone = json_array()) || !(s->joined = idset_create()) ||
        hmap_put(ctx->streams, name, s) < 0)
        goto nomem;
    return s;
nomem:
    if (s)
        stream_free(s);
    flux_respond_error(ctx->h, req, ENOMEM, "out of memory for stream '%s'", name);
    return NULL;
}

/* Forget a stream that nobody uses. */
void registry_unused(struct stream *s)
{
    if (list_empty(&s->writers) && list_empty(&s->readers))
        hmap_del(s->ctx->streams, s->name);
}

/* Readers have to be told something. */
void registry_changed(struct stream *s)
{
    if (list_empty(&s->dirty))
        list_append(&s->ctx->dirty, &s->dirty);
    flux_watcher_start(s->ctx->defer);
}

/* The stream that a request is about, or NULL after answering it. */
struct stream *registry_find(struct ctx *ctx, const flux_msg_t *req, const char *name)
{
    struct stream *s = hmap_get(ctx->streams, name);

    if (!s)
        flux_respond_error(ctx->h, req, ENOENT, "there is no stream '%.128s'", name);
    return s;
}

/* --- writers --- */

static void writer_free(struct writer *w)
{
    flux_msg_destroy(w->req);
    free((char *)w->at.host);
    free((char *)w->at.address);
    free((char *)w->at.key);
    free(w->place);
    free(w->far);
    free(w);
}

/* Take a writer out of its stream, whose readers are told why. */
static void writer_remove(struct writer *w, const char *why)
{
    struct stream *s = w->s;
    char text[100];
    struct stream_gone gone = {w->id, text};
    json_t *o;

    snprintf(text, sizeof(text), "rank %u of the writers %s", w->at.rank, why);
    if ((o = flux_schema_encode_json(&stream_gone_schema, &gone)))
        json_array_append_new(s->gone, o);
    claim_drop(s->ctx->claims, &w->claim);
    list_remove(&w->node);
    s->ctx->writers--;
    registry_changed(s);
    writer_free(w);
}

static void writer_gone(struct claim *c, bool canceled)
{
    struct writer *w = list_entry(c, struct writer, claim);
    struct stream *s = w->s;

    flux_respond_error(s->ctx->h, w->req, ENODATA, "stream '%s' %s", s->name,
                       claim_gone_why(canceled));
    writer_remove(w, canceled ? "has closed its end" : "has died");
    registry_unused(s);
}

/* -1 after answering the request. */
static int write_check(struct ctx *ctx, const flux_msg_t *req, const struct stream_write *in)
{
    unsigned char key[FAR_KEY_LEN];

    if (!flux_msg_has_flag(req, FLUX_MSGF_STREAMING))
        return flux_respond_error(ctx->h, req, EPROTO, "stream.write must be a streaming request"),
               -1;
    if (in->rank >= in->size)
        return flux_respond_error(ctx->h, req, EINVAL,
                                  "stream '%.128s': rank %u is not below the number of writers, %u",
                                  in->name, in->rank, in->size),
               -1;
    if (in->size > MEMBERS_MAX)
        return flux_respond_error(ctx->h, req, EINVAL,
                                  "stream '%.128s': a stream has at most %d writers", in->name,
                                  MEMBERS_MAX),
               -1;
    if (strlen(in->host) > PLACE_MAX_LEN || strlen(in->address) > PLACE_MAX_LEN ||
        strlen(in->far) > PLACE_MAX_LEN || strlen(in->place) > PLACE_MAX_LEN)
        return flux_respond_error(ctx->h, req, EINVAL, "stream '%.128s': the address is too long",
                                  in->name),
               -1;
    if (strlen(in->key) != 2 * sizeof(key) || hex_decode(key, in->key, sizeof(key)) < 0)
        return flux_respond_error(ctx->h, req, EINVAL, "stream '%.128s': the key is malformed",
                                  in->name),
               -1;
    return 0;
}

/* Does a writer of this rank fit?  -1 after answering the request. */
static int write_fits(struct stream *s, const flux_msg_t *req, const struct stream_write *in)
{
    if (!list_empty(&s->writers) && s->size != in->size) {
        flux_respond_error(s->ctx->h, req, EINVAL,
                           "stream '%s' has %u writers, and cannot have %u as well", s->name,
                           s->size, in->size);
        return -1;
    }
    LIST_FOREACH(it, &s->writers)
    {
        if (list_entry(it, struct writer, node)->at.rank == in->rank) {
            flux_respond_error(s->ctx->h, req, EEXIST,
                               "stream '%s' is being written already: it has a writer of rank %u",
                               s->name, in->rank);
            return -1;
        }
    }
    return 0;
}

/* The next writer is the first of a group. */
static void group_begin(struct stream *s)
{
    s->begin = s->step;
    format_set(s, NULL);
    idset_range_clear(s->joined, 0, IDSET_MAX);
}

static struct writer *writer_create(struct stream *s, const flux_msg_t *req,
                                    const struct stream_write *in)
{
    struct writer *w = calloc(1, sizeof(*w));

    if (!w)
        return NULL;
    if (list_empty(&s->writers))
        group_begin(s);
    w->s = s;
    w->at.rank = in->rank;
    if (!(w->at.host = strdup(in->host)) || !(w->at.address = strdup(in->address)) ||
        !(w->at.key = strdup(in->key)) || !(w->place = strdup(in->place)) ||
        !(w->far = strdup(in->far)) ||
        claim_take(s->ctx->claims, &w->claim, req, writer_gone) < 0) {
        writer_free(w);
        return NULL;
    }
    w->count.step = idset_test(s->joined, in->rank) ? s->step : s->begin;
    if (idset_set(s->joined, in->rank) < 0) {
        claim_drop(s->ctx->claims, &w->claim);
        writer_free(w);
        return NULL;
    }
    w->req = flux_msg_incref(req);
    w->id = w->at.writer = s->last = ++s->ctx->last;
    list_append(&s->writers, &w->node);
    s->size = in->size;
    s->ctx->writers++;
    s->ctx->opened++;
    return w;
}

/* A response that is followed by others.  -1: the request was answered with ENOMEM. */
int registry_respond_more(flux_t *h, const flux_msg_t *req, const struct flux_schema *desc,
                          const void *in)
{
    char *json = flux_schema_encode(desc, in);

    if (!json)
        flux_respond_error(h, req, ENOMEM, "%s: out of memory", flux_msg_topic(req));
    else
        flux_respond_more(h, req, json);
    free(json);
    return json ? 0 : -1;
}

/* Tell a writer what it may do.  -1: its request was answered with an error. */
static int writer_tell(struct writer *w)
{
    struct stream_written out = {w->id, w->count.step, w->s->paused, w->s->limit, json_array()};
    int rc;

    LIST_FOREACH(it, &w->s->readers)
    {
        struct reader *r = list_entry(it, struct reader, node);
        struct stream_demand want = {r->id, r->policy, r->off};

        if (r->changed)
            json_array_append_new(out.readers,
                                  flux_schema_encode_json(&stream_demand_schema, &want));
    }
    rc = registry_respond_more(w->s->ctx->h, w->req, &stream_written_schema, &out);
    json_decref(out.readers);
    return rc;
}

void registry_writers_tell(struct stream *s)
{
    LIST_FOREACH_SAFE(it, tmp, &s->writers)
    {
        struct writer *w = list_entry(it, struct writer, node);

        if (writer_tell(w) < 0)
            writer_remove(w, "has died");
    }
}

static void write_cb(flux_t *h, const flux_msg_t *req, void *arg)
{
    struct ctx *ctx = arg;
    struct stream_write in;
    struct stream *s;
    struct writer *w;
    json_t *owner;

    if (flux_request_decode(h, req, &stream_write_schema, &in, &owner) < 0)
        return;
    if (write_check(ctx, req, &in) == 0 && (s = registry_open(ctx, req, in.name))) {
        if (write_fits(s, req, &in) < 0)
            ;
        else if (!(w = writer_create(s, req, &in)))
            flux_respond_error(h, req, ENOMEM, "out of memory for stream '%s'", s->name);
        else {
            registry_changed(s);
            if (writer_tell(w) < 0)
                writer_remove(w, "has died");
        }
        registry_unused(s);
    }
    json_decref(owner);
}

static struct writer *writer_find(struct stream *s, uint64_t id)
{
    LIST_FOREACH(it, &s->writers)
    {
        struct writer *w = list_entry(it, struct writer, node);

        if (w->id == id)
            return w;
    }
    return NULL;
}

static void count_cb(flux_t *h, const flux_msg_t *req, void *arg)
{
    struct ctx *ctx = arg;
    struct stream_count in;
    struct stream *s;
    struct writer *w;
    json_t *owner;
    double now = flux_now(h);

    if (flux_request_decode(h, req, &stream_count_schema, &in, &owner) < 0)
        return;
    if ((s = registry_find(ctx, req, in.name)) && (w = writer_find(s, in.writer))) {
        if (w->counted > 0. && now > w->counted && in.steps >= w->count.steps)
            w->rate = (double)(in.steps - w->count.steps) / (now - w->counted);
        w->counted = now;
        w->count = in;
        w->count.name = NULL;
        if (s->step < in.step)
            s->step = in.step;
    }
    json_decref(owner);
}

/* --- changes --- */

static void defer_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    struct ctx *ctx = arg;
    struct list_node *n;

    while ((n = list_first(&ctx->dirty))) {
        struct stream *s = list_entry(n, struct stream, dirty);

        list_remove(n);
        LIST_FOREACH_SAFE(it, tmp, &s->readers)
        {
            struct reader *rd = list_entry(it, struct reader, node);

            if (readers_tell(rd) < 0)
                readers_free(rd);
        }
        json_array_clear(s->gone);
        registry_unused(s);
    }
}

/* --- formats, list, removal --- */

static void define_cb(flux_t *h, const flux_msg_t *req, void *arg)
{
    struct ctx *ctx = arg;
    struct stream_define in;
    struct stream *s;
    size_t others;
    char *format;
    json_t *owner;

    if (flux_request_decode(h, req, &stream_define_schema, &in, &owner) < 0)
        return;
    if (strlen(in.format) > FORMAT_MAX_LEN)
        flux_respond_error(h, req, E2BIG, "stream '%.128s': the format has more than %zu bytes",
                           in.name, FORMAT_MAX_LEN);
    else if ((s = registry_find(ctx, req, in.name))) {
        others = ctx->formats - (s->format ? strlen(s->format) : 0);
        if (others + strlen(in.format) > FORMATS_MAX_LEN)
            flux_respond_error(h, req, EBUSY,
                               "stream '%s' cannot be defined: the formats of all streams of the "
                               "session have at most %zu bytes",
                               s->name, FORMATS_MAX_LEN);
        else if (!(format = strdup(in.format)))
            flux_respond_error(h, req, ENOMEM, "out of memory for stream '%s'", s->name);
        else {
            format_set(s, format);
            flux_respond(h, req, NULL);
        }
    }
    json_decref(owner);
}

static void format_cb(flux_t *h, const flux_msg_t *req, void *arg)
{
    struct ctx *ctx = arg;
    struct stream_name in;
    struct stream_text out;
    struct stream *s;
    json_t *owner;

    if (flux_request_decode(h, req, &stream_name_schema, &in, &owner) < 0)
        return;
    if ((s = registry_find(ctx, req, in.name))) {
        out.format = s->format;
        if (!s->format)
            flux_respond_error(h, req, ENODATA, "the writers of stream '%s' have not defined it",
                               s->name);
        else
            flux_respond_struct(h, req, &stream_text_schema, &out);
    }
    json_decref(owner);
}

static json_t *item_encode(struct stream *s)
{
    struct stream_item it = {
        .name = s->name, .size = s->size, .step = s->step, .paused = s->paused, .limit = s->limit};

    LIST_FOREACH(n, &s->readers)
    {
        const struct reader *r = list_entry(n, struct reader, node);

        it.readers++;
        it.asked += r->took.asked;
        it.copied += r->took.copied;
        if (!r->off && it.lag < readers_lag(r))
            it.lag = readers_lag(r);
    }
    LIST_FOREACH(n, &s->writers)
    {
        const struct writer *w = list_entry(n, struct writer, node);

        it.writers++;
        if (it.steps < w->count.steps)
            it.steps = w->count.steps;
        it.bytes += w->count.bytes;
        it.copied += w->count.copied;
        it.dropped += w->count.dropped;
        it.queue += w->count.queue;
        it.blocked += w->count.blocked;
        it.held += w->count.held;
        if (it.rate < w->rate)
            it.rate = w->rate;
    }
    return flux_schema_encode_json(&stream_item_schema, &it);
}

static int compare_names(const void *a, const void *b)
{
    return strcmp((*(struct stream *const *)a)->name, (*(struct stream *const *)b)->name);
}

static void list_cb(flux_t *h, const flux_msg_t *req, void *arg)
{
    struct ctx *ctx = arg;
    struct stream_list out = {json_array()};
    size_t n = hmap_count(ctx->streams);
    struct stream **sorted = calloc(n + 1, sizeof(*sorted));
    size_t pos = 0;
    size_t i = 0;
    void *val;
    int rc = out.streams && sorted ? 0 : -1;

    while (rc == 0 && hmap_next(ctx->streams, &pos, NULL, NULL, &val))
        sorted[i++] = val;
    if (rc == 0)
        qsort(sorted, n, sizeof(*sorted), compare_names);
    for (i = 0; rc == 0 && i < n; i++) {
        json_t *o = item_encode(sorted[i]);

        rc = o ? json_array_append_new(out.streams, o) : -1;
    }
    if (rc < 0)
        flux_respond_error(h, req, ENOMEM, "stream.list: out of memory");
    else
        flux_respond_struct(h, req, &stream_list_schema, &out);
    free(sorted);
    json_decref(out.streams);
}

static void pause_cb(flux_t *h, const flux_msg_t *req, void *arg)
{
    struct ctx *ctx = arg;
    struct stream_pause in;
    struct stream *s;
    json_t *owner;

    if (flux_request_decode(h, req, &stream_pause_schema, &in, &owner) < 0)
        return;
    if ((s = registry_find(ctx, req, in.name))) {
        s->paused = in.paused;
        registry_writers_tell(s);
        flux_respond(h, req, NULL);
        registry_unused(s);
    }
    json_decref(owner);
}

static void throttle_cb(flux_t *h, const flux_msg_t *req, void *arg)
{
    struct ctx *ctx = arg;
    struct stream_throttle in;
    struct stream *s;
    json_t *owner;

    if (flux_request_decode(h, req, &stream_throttle_schema, &in, &owner) < 0)
        return;
    if (!(in.limit >= 0.) || (in.limit > 0. && in.limit < LIMIT_MIN) || in.limit > LIMIT_MAX)
        flux_respond_error(h, req, EINVAL, "the limit of a stream is 0, or %g to %g steps a second",
                           LIMIT_MIN, LIMIT_MAX);
    else if ((s = registry_find(ctx, req, in.name))) {
        s->limit = in.limit;
        registry_writers_tell(s);
        flux_respond(h, req, NULL);
        registry_unused(s);
    }
    json_decref(owner);
}

static void remove_cb(flux_t *h, const flux_msg_t *req, void *arg)
{
    struct ctx *ctx = arg;
    struct stream_name in;
    struct stream *s;
    json_t *owner;

    if (flux_request_decode(h, req, &stream_name_schema, &in, &owner) < 0)
        return;
    if ((s = registry_find(ctx, req, in.name))) {
        LIST_FOREACH_SAFE(it, tmp, &s->readers)
        {
            struct reader *r = list_entry(it, struct reader, node);

            flux_respond_error(h, r->req, ECANCELED, "stream '%s' was removed", s->name);
            readers_free(r);
        }
        LIST_FOREACH_SAFE(it, tmp, &s->writers)
        {
            struct writer *w = list_entry(it, struct writer, node);

            flux_respond_error(h, w->req, ECANCELED, "stream '%s' was removed", s->name);
            writer_remove(w, "was removed");
        }
        registry_unused(s);
        flux_respond(h, req, NULL);
    }
    json_decref(owner);
}

/* --- the module --- */

static void stats_cb(flux_t *h, const flux_msg_t *req, void *arg)
{
    struct ctx *ctx = arg;
    struct stream_stats st = {hmap_count(ctx->streams), ctx->writers, ctx->readers, ctx->opened};

    flux_respond_struct(h, req, &stream_stats_schema, &st);
}

static void cancel_cb(flux_t *h, const flux_msg_t *req, void *arg)
{
    struct ctx *ctx = arg;
    uint32_t matchtag;

    if (cancel_decode(h, req, &matchtag) < 0)
        return;
    claims_cancel(ctx->claims, req, matchtag);
    flux_respond(h, req, NULL);
}

static void disconnect_cb(flux_t *h, const flux_msg_t *req, void *arg)
{
    struct ctx *ctx = arg;

    claims_disconnect(ctx->claims, req);
}

static void lost(void *arg, const idset_t *ranks, bool now)
{
    struct ctx *ctx = arg;

    claims_lost(ctx->claims, ranks);
}

static const struct session_ops session_ops = {.lost = lost};

static const struct flux_handler handlers[] = {
    {FLUX_MSG_REQUEST, "stream.write", write_cb, 0},
    {FLUX_MSG_REQUEST, "stream.count", count_cb, 0},
    {FLUX_MSG_REQUEST, "stream.define", define_cb, 0},
    {FLUX_MSG_REQUEST, "stream.format", format_cb, 0},
    {FLUX_MSG_REQUEST, "stream.read", readers_read_cb, 0},
    {FLUX_MSG_REQUEST, "stream.took", readers_took_cb, 0},
    {FLUX_MSG_REQUEST, "stream.readers", readers_list_cb, 0},
    {FLUX_MSG_REQUEST, "stream.policy", readers_policy_cb, 0},
    {FLUX_MSG_EVENT, "stream.switch", readers_switch_cb, 0},
    {FLUX_MSG_REQUEST, "stream.list", list_cb, 0},
    {FLUX_MSG_REQUEST, "stream.pause", pause_cb, 0},
    {FLUX_MSG_REQUEST, "stream.throttle", throttle_cb, 0},
    {FLUX_MSG_REQUEST, "stream.remove", remove_cb, 0},
    {FLUX_MSG_REQUEST, "stream.stats", stats_cb, 0},
    {FLUX_MSG_REQUEST, "stream.cancel", cancel_cb, 0},
    {FLUX_MSG_REQUEST, "stream.disconnect", disconnect_cb, 0},
    FLUX_HANDLER_END,
};

static void mod_fini(flux_t *h, void *arg)
{
    struct ctx *ctx = arg;
    size_t pos = 0;
    void *val;

    /* Not answered: the host ends the requests. */
    while (ctx->streams && hmap_next(ctx->streams, &pos, NULL, NULL, &val)) {
        struct stream *s = val;

        LIST_FOREACH_SAFE(it, tmp, &s->readers)
        {
            readers_free(list_entry(it, struct reader, node));
        }
        LIST_FOREACH_SAFE(it, tmp, &s->writers)
        {
            writer_remove(list_entry(it, struct writer, node), "is not known any longer");
        }
    }
    session_destroy(ctx->session);
    flux_watcher_destroy(ctx->defer);
    flux_future_destroy(ctx->events);
    hmap_destroy(ctx->on);
    hmap_destroy(ctx->streams);
    claims_destroy(ctx->claims);
    flux_handlers_remove(ctx->handlers);
    free(ctx);
}

static int mod_init(flux_t *h, int argc, char **argv, void **out, errmsg_t *err)
{
    struct ctx *ctx;

    if (setup_root_only(h, "stream", err) < 0 || setup_no_arguments("stream", argc, argv, err) < 0)
        return -1;
    if (!(ctx = calloc(1, sizeof(*ctx))))
        return errmsg_fail(err, ENOMEM, "out of memory");
    ctx->h = h;
    list_init(&ctx->dirty);
    if (!(ctx->streams = hmap_create_str(stream_free)) || !(ctx->on = hmap_create_str(NULL)) ||
        !(ctx->claims = claims_create()) ||
        !(ctx->defer = flux_defer_create(flux_get_reactor(h), defer_cb, ctx)) ||
        !(ctx->handlers = flux_handlers_add(h, handlers, ctx)) ||
        !(ctx->session = session_create(h, &session_ops, ctx)) ||
        !(ctx->events = flux_event_subscribe(h, "stream.switch"))) {
        mod_fini(h, ctx);
        return errmsg_fail(err, ENOMEM, "out of memory");
    }
    *out = ctx;
    return 0;
}

FLUX_MODULE(stream, mod_init, mod_fini, .place = FLUX_PLACE_LOOP);

/* log.c - the log of a session.
 *
 * Each rank keeps the last entries in a circular buffer.  Entries of a certain severity or a higher
 * one are also passed on, from instance to instance, to the root's buffer.
 *
 *    log.append  {"level","source","text","rank"?,"time"?}   usually without response; answered {}
 *                level: 0 (emerg) .. 7 (debug); rank and time: default the sender's, and now
 *    log.dump    {"level"?,"rank"?,"source"?,"count"?,"from"?,"to"?}
 *                ->  {"entries":[..],"dropped":n,"from":n,"to":n}   a page
 *                level: this and more important levels; rank: idset; from, to: only the entries
 *                with these numbers, oldest first; with a count: at most that number, newest first.
 *                The response has the numbers that are left for the next page: none if from > to
 *    log.follow  {"level"?,"rank"?,"source"?,"count"?}, streaming  ->  {"entries":[..],"dropped":n}
 *                first the present entries (possibly none), or only the last `count` of them, then
 *                new ones as they come, in any number of responses; ends by log.cancel or
 *                log.disconnect
 *    log.clear   {}  ->  {"cleared":n}
 *    log.stats   {}  ->  counters
 *    log.forward {"entries":[..],"dropped":n}    between instances, upstream; answered {}
 *
 * An entry in a response is {"seq","time","level","rank","source","text"}; "dropped" counts the
 * entries that were dropped since the beginning, from the buffer or in transit between ranks.
 *
 * Attributes (or arguments NAME=VALUE without "log."): log.ring-size, entries (1024);
 * log.ring-bytes (1M); log.forward-level, the least important level that goes to the root (warning;
 * "none": nothing does).
 *
 * Invariants:
 *  1. The buffer holds at most ring-size entries and ring-bytes bytes; at most FORWARD_MAX entries
 *     wait for the instance above: beyond, the newest are dropped and counted.
 *  2. At most one log.forward is unanswered, so a flood of entries becomes few messages.
 *  3. This module never logs a message: that would be a loop.
 *  4. However large the buffer is, no turn takes longer than a slice (libflux/slice.h), STRIDE
 *     entries and a batch for the instance above.  A page has the entries that one slice finds.
 *     Followers get their new entries in slices, in turn, and entries that were cleared are freed
 *     in slices.  Only the end of the module, or a smaller ring-size, frees many at once.
 *
 * Failure: a malformed entry is refused with an error message if the sender expects a response,
 * else counted as bad.  Text that is too long is cut.  When the instance above cannot be reached,
 * the entries of the current batch are counted as dropped, and the next batch is tried.
 */
#include "config.h"
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libflux/module.h"
#include "libflux/cancel_wire.h"
#include "libflux/log_wire.h"
#include "libflux/slice.h"
#include "libidset/idset.h"
#include "libschema/jsonout.h"
#include "libservice/setup.h"
#include "libsettings/settings.h"
#include "libutil/list.h"
#include "libutil/strutil.h"
#include "ring.h"

#define RING_BYTES ((uint64_t)1 << 20)
#define FORWARD_MAX 512  /* entries waiting for the instance above */
#define FORWARD_BATCH 64 /* entries in one message: with their text cut, 256 KiB at most */
#define SOURCE_MAX_LEN 31
#define TEXT_MAX_LEN 4096
#define FOLLOWERS_MAX 256
#define RESPONSE_BYTES (256 * 1024) /* maximum of one response, apart from its last entry */
#define STRIDE 8                    /* entries between two readings of the clock */
#define ANYBODY (FLUX_ROLE_OWNER | FLUX_ROLE_USER | FLUX_ROLE_BROKER)

struct filter {
    int level;
    uint32_t count; /* 0: all */
    char *source;   /* NULL: any */
    idset_t *ranks; /* NULL: all */
};

struct follower {
    struct list_node node;
    flux_msg_t *req;
    struct filter filter;
    uint64_t next; /* number of the first entry that it has not got */
    uint32_t left; /* number of matching entries that are still to be found before `next` */
    bool answered;
};

struct ctx {
    flux_t *h;
    flux_handlers_t *handlers;
    flux_watcher_t *defer;
    ring_t *ring;
    setup_t *setup;
    uint64_t ring_size;
    uint64_t ring_bytes;
    int forward_level; /* -1: none */
    ring_t *outbox;
    uint64_t outbox_dropped; /* dropped entries that were not yet reported to the instance above */
    uint64_t below_dropped;  /* entries that were lost on the way to here */
    flux_future_t *forward;  /* the unanswered request */
    uint64_t forward_count;  /* entries in it, and the number of dropped entries that it reported */
    struct list_node followers;
    unsigned nfollowers;
    uint64_t appended, forwarded, bad;
};

/* --- filters --- */

static void filter_clear(struct filter *f)
{
    free(f->source);
    idset_destroy(f->ranks);
}

/* Initialize from a request's payload, which may be missing: then `q` stays as it is.  -1 when the
 * request was answered with an error. */
static int filter_init(flux_t *h, const flux_msg_t *req, const struct flux_schema *desc,
                       struct log_query *q, struct filter *f)
{
    json_t *owner = NULL;
    size_t len;
    errmsg_t err;

    memset(f, 0, sizeof(*f));
    if (flux_msg_payload(req, &len) && flux_request_decode(h, req, desc, q, &owner) < 0)
        return -1;
    f->level = q->level;
    f->count = q->count;
    if (q->rank && !(f->ranks = idset_parse(q->rank, &err)))
        flux_respond_error(h, req, errno, "%s: %s", flux_msg_topic(req), err.text);
    else if (q->source && !(f->source = strdup(q->source)))
        flux_respond_error(h, req, ENOMEM, "%s: out of memory", flux_msg_topic(req));
    else {
        json_decref(owner);
        return 0;
    }
    filter_clear(f);
    json_decref(owner);
    return -1;
}

static bool filter_match(const struct filter *f, const struct log_entry *e)
{
    return e->level <= f->level && (!f->source || strcmp(f->source, e->source) == 0) &&
           (!f->ranks || idset_test(f->ranks, e->rank));
}

/* --- entries as JSON --- */

/* The buffer keeps errors (strbuf.h). */
static strbuf_t *entries_begin(void)
{
    strbuf_t *sb = strbuf_create(0);

    jsonout_object(sb, NULL);
    jsonout_array(sb, "entries");
    return sb;
}

static void entries_add(strbuf_t *sb, const struct log_entry *e)
{
    jsonout_struct(sb, NULL, &log_entry_schema, e);
}

static void entries_end(strbuf_t *sb, uint64_t dropped)
{
    jsonout_array_end(sb);
    jsonout_uint(sb, "dropped", dropped);
}

/* The text, to be freed; NULL with errno. */
static char *entries_take(strbuf_t *sb)
{
    jsonout_object_end(sb);
    return strbuf_take(sb);
}

static uint64_t dropped_total(const struct ctx *ctx)
{
    return ring_dropped(ctx->ring) + ctx->below_dropped;
}

/* Number of the oldest entry; that of the next one if there is none. */
static uint64_t first_seq(const struct ctx *ctx)
{
    return ring_last_seq(ctx->ring) + 1 - ring_count(ctx->ring);
}

static const struct log_entry *entry_of(const struct ctx *ctx, uint64_t seq)
{
    return ring_at(ctx->ring, (size_t)(seq - first_seq(ctx)));
}

/* May a walk, which has made `*steps` steps, make one more?  The first STRIDE steps are always
 * permitted. */
static bool go_on(struct flux_slice *slice, unsigned *steps)
{
    return ++*steps % STRIDE != 0 || flux_slice_more(slice);
}

/* --- towards the root --- */

static void forward_cb(flux_future_t *f, void *arg)
{
    struct ctx *ctx = arg;

    if (flux_future_errnum(f) != 0)
        ctx->outbox_dropped += ctx->forward_count;
    ctx->forward = NULL;
    flux_future_destroy(f);
    if (ring_count(ctx->outbox) > 0)
        flux_watcher_start(ctx->defer);
}

/* Send the oldest entries of the outbox, and remove them. */
static void forward_batch(struct ctx *ctx)
{
    strbuf_t *sb = entries_begin();
    const struct log_entry *e;
    size_t n = 0;
    char *json;

    for (; n < FORWARD_BATCH && (e = ring_at(ctx->outbox, 0)); n++) {
        entries_add(sb, e);
        ring_pop(ctx->outbox);
    }
    entries_end(sb, ctx->outbox_dropped);
    ctx->forward_count = ctx->outbox_dropped + n;
    ctx->outbox_dropped = 0;
    json = entries_take(sb);
    ctx->forward =
        json ? flux_rpc(ctx->h, "log.forward", json, FLUX_NODEID_ANY, FLUX_MSGF_UPSTREAM) : NULL;
    if (!ctx->forward || flux_future_then(ctx->forward, -1., forward_cb, ctx) < 0) {
        flux_future_destroy(ctx->forward);
        ctx->forward = NULL;
        ctx->outbox_dropped = ctx->forward_count;
    } else
        ctx->forwarded += n;
    free(json);
}

/* Put an entry into the outbox, unless it is full. */
static void forward_add(struct ctx *ctx, const struct log_entry *e)
{
    if (ring_count(ctx->outbox) >= FORWARD_MAX || ring_append(ctx->outbox, e) == 0)
        ctx->outbox_dropped++;
    else
        flux_watcher_start(ctx->defer);
}

/* --- followers --- */

static void follower_destroy(struct ctx *ctx, struct follower *fo)
{
    list_remove(&fo->node);
    ctx->nfollowers--;
    filter_clear(&fo->filter);
    flux_msg_destroy(fo->req);
    free(fo);
}

/* Move back from the newest entry to the first one for the follower.  False: not reached yet. */
static bool follower_seek(struct ctx *ctx, struct follower *fo, struct flux_slice *slice,
                          unsigned *steps)
{
    while (fo->left > 0 && fo->next > first_seq(ctx)) {
        if (!go_on(slice, steps))
            return false;
        fo->next--;
        if (filter_match(&fo->filter, entry_of(ctx, fo->next)))
            fo->left--;
    }
    fo->left = 0;
    return true;
}

/* Send new entries to a follower, at least some.  Entries that no longer exist are counted in
 * "dropped".  True: there are more. */
static bool follower_feed(struct ctx *ctx, struct follower *fo, struct flux_slice *slice)
{
    uint64_t last = ring_last_seq(ctx->ring);
    strbuf_t *sb = NULL;
    unsigned steps = 0;

    if (!follower_seek(ctx, fo, slice, &steps))
        return true;
    if (fo->next < first_seq(ctx))
        fo->next = first_seq(ctx);
    for (; fo->next <= last && go_on(slice, &steps); fo->next++) {
        const struct log_entry *e = entry_of(ctx, fo->next);

        if (!filter_match(&fo->filter, e))
            continue;
        if (!sb && !(sb = entries_begin()))
            break;
        if (strbuf_len(sb) >= RESPONSE_BYTES)
            break;
        entries_add(sb, e);
    }
    if (!sb && !fo->answered && fo->next > last)
        sb = entries_begin();
    if (sb) {
        char *json;

        entries_end(sb, dropped_total(ctx));
        if ((json = entries_take(sb)))
            flux_respond_more(ctx->h, fo->req, json);
        free(json);
        fo->answered = true;
    }
    return fo->next <= last;
}

/* True: a follower has more entries to get. */
static bool feed_all(struct ctx *ctx, struct flux_slice *slice)
{
    bool more = false;

    for (unsigned n = ctx->nfollowers; n > 0; n--) {
        struct list_node *it = list_first(&ctx->followers);

        if (!flux_slice_more(slice))
            return true;
        list_remove(it);
        list_append(&ctx->followers, it);
        more |= follower_feed(ctx, list_entry(it, struct follower, node), slice);
    }
    return more;
}

/* Free entries that were cleared.  True: there are more. */
static bool sweep(struct ctx *ctx, struct flux_slice *slice)
{
    unsigned steps = 0;

    while (ring_sweep(ctx->ring)) {
        if (!go_on(slice, &steps))
            return true;
    }
    return false;
}

static void defer_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    struct ctx *ctx = arg;
    struct flux_slice slice;
    bool more;

    if (!ctx->forward && ring_count(ctx->outbox) > 0)
        forward_batch(ctx);
    flux_slice_begin(&slice, r, FLUX_SLICE_SECONDS, FLUX_SLICE_THINGS);
    more = feed_all(ctx, &slice);
    more |= sweep(ctx, &slice);
    if (more)
        flux_watcher_start(ctx->defer);
}

/* --- new entries --- */

/* Cut to `max` bytes and to valid UTF-8, one printable line: in place.  Returns its argument. */
static char *clean(char *text, size_t max)
{
    size_t len = strlen(text);

    if (len > max)
        len = max;
    len = str_utf8_span(text, len);
    while (len > 0 && (text[len - 1] == '\n' || text[len - 1] == '\r'))
        len--;
    text[len] = '\0';
    for (size_t i = 0; i < len; i++) {
        if ((unsigned char)text[i] < 0x20 || text[i] == 0x7f)
            text[i] = ' ';
    }
    return text;
}

static void add_entry(struct ctx *ctx, const struct log_entry *e, bool forward)
{
    if (ring_append(ctx->ring, e) == 0) {
        ctx->below_dropped++;
        return;
    }
    ctx->appended++;
    if (forward && !flux_is_root(ctx->h))
        forward_add(ctx, e);
    if (ctx->nfollowers > 0)
        flux_watcher_start(ctx->defer);
}

/* The rank of a sender: "RANK.NUMBER" in its text, when it is not at this broker. */
static uint32_t sender_rank(flux_t *h, const flux_msg_t *req)
{
    char sender[FLUX_SENDER_MAX];
    uint32_t rank;

    flux_msg_sender(req, sender, sizeof(sender));
    sender[strcspn(sender, ".")] = '\0';
    return str2u32(sender, &rank) < 0 ? flux_rank(h) : rank;
}

static void append_cb(flux_t *h, const flux_msg_t *req, void *arg)
{
    struct ctx *ctx = arg;
    struct log_line in = {.rank = sender_rank(h, req), .time = flux_wall(h)};
    struct log_entry e;
    char *source;
    char *text;
    json_t *owner;

    if (flux_request_decode(h, req, &log_any_line_schema, &in, &owner) < 0) {
        ctx->bad++;
        return;
    }
    source = strdup(in.source);
    text = strdup(in.text);
    if (!source || !text) {
        ctx->below_dropped++;
        flux_respond_error(h, req, ENOMEM, "log.append: rank %u is out of memory", flux_rank(h));
    } else if (in.level < LOG_EMERG || in.level > LOG_DEBUG) {
        ctx->bad++;
        flux_respond_error(h, req, EINVAL, "log.append: level %d is none of 0 to 7", in.level);
    } else {
        e = (struct log_entry){0,
                               in.time,
                               in.level,
                               in.rank,
                               clean(source, SOURCE_MAX_LEN),
                               clean(text, TEXT_MAX_LEN)};
        add_entry(ctx, &e, e.level <= ctx->forward_level);
        flux_respond(h, req, "{}");
    }
    free(source);
    free(text);
    json_decref(owner);
}

static void forward_request_cb(flux_t *h, const flux_msg_t *req, void *arg)
{
    struct ctx *ctx = arg;
    struct log_entries in;
    json_t *owner;
    json_t *item;
    size_t i;

    if (flux_request_decode(h, req, &log_entries_schema, &in, &owner) < 0) {
        ctx->bad++;
        return;
    }
    if (flux_is_root(h))
        ctx->below_dropped += in.dropped;
    else
        ctx->outbox_dropped += in.dropped;
    json_array_foreach(in.entries, i, item)
    {
        struct log_entry e;
        if (flux_schema_decode_json(&log_entry_schema, item, &e, NULL) < 0)
            ctx->bad++;
        else if (flux_is_root(h))
            add_entry(ctx, &e, false);
        else
            forward_add(ctx, &e);
    }
    flux_respond(h, req, "{}");
    json_decref(owner);
}

/* --- queries --- */

static void dump_cb(flux_t *h, const flux_msg_t *req, void *arg)
{
    struct ctx *ctx = arg;
    struct log_query q = {.level = LOG_DEBUG, .to = UINT64_MAX};
    struct flux_slice slice;
    struct filter filter;
    strbuf_t *sb;
    unsigned steps = 0;
    uint32_t n = 0;
    char *json;

    if (filter_init(h, req, &log_dump_schema, &q, &filter) < 0)
        return;
    if (q.from < first_seq(ctx))
        q.from = first_seq(ctx);
    if (q.to > ring_last_seq(ctx->ring))
        q.to = ring_last_seq(ctx->ring);
    sb = entries_begin();
    flux_slice_begin(&slice, flux_get_reactor(h), FLUX_SLICE_SECONDS, FLUX_SLICE_THINGS);
    while (sb && q.from <= q.to && go_on(&slice, &steps) && strbuf_len(sb) < RESPONSE_BYTES) {
        const struct log_entry *e = entry_of(ctx, filter.count ? q.to-- : q.from++);

        if (!filter_match(&filter, e))
            continue;
        entries_add(sb, e);
        if (++n == filter.count)
            q.from = q.to + 1;
    }
    entries_end(sb, dropped_total(ctx));
    jsonout_uint(sb, "from", q.from);
    jsonout_uint(sb, "to", q.to);
    if ((json = entries_take(sb)))
        flux_respond(h, req, json);
    else
        flux_respond_error(h, req, ENOMEM, "log.dump: rank %u is out of memory", flux_rank(h));
    free(json);
    filter_clear(&filter);
}

static void follow_cb(flux_t *h, const flux_msg_t *req, void *arg)
{
    struct ctx *ctx = arg;
    struct log_query q = {.level = LOG_DEBUG};
    struct follower *fo;

    if (!flux_msg_has_flag(req, FLUX_MSGF_STREAMING)) {
        flux_respond_error(h, req, EPROTO, "log.follow must be a streaming request");
        return;
    }
    if (ctx->nfollowers >= FOLLOWERS_MAX) {
        flux_respond_error(h, req, EBUSY, "log.follow: rank %u has %d followers already",
                           flux_rank(h), FOLLOWERS_MAX);
        return;
    }
    if (!(fo = calloc(1, sizeof(*fo)))) {
        flux_respond_error(h, req, ENOMEM, "log.follow: rank %u is out of memory", flux_rank(h));
        return;
    }
    if (filter_init(h, req, &log_query_schema, &q, &fo->filter) < 0) {
        free(fo);
        return;
    }
    if ((fo->left = fo->filter.count) > 0)
        fo->next = ring_last_seq(ctx->ring) + 1;
    fo->req = flux_msg_incref(req);
    list_append(&ctx->followers, &fo->node);
    ctx->nfollowers++;
    flux_watcher_start(ctx->defer);
}

/* End the streams of the sender: all that ended with what `req` says, or the one with this match
 * tag. */
static void end_streams(struct ctx *ctx, const flux_msg_t *req, const uint32_t *tag)
{
    LIST_FOREACH_SAFE(it, tmp, &ctx->followers)
    {
        struct follower *fo = list_entry(it, struct follower, node);
        if (!flux_request_ended(fo->req, req))
            continue;
        if (tag && flux_msg_matchtag(fo->req) != *tag)
            continue;
        flux_respond_error(ctx->h, fo->req, ENODATA, "the stream was ended");
        follower_destroy(ctx, fo);
    }
}

static void cancel_cb(flux_t *h, const flux_msg_t *req, void *arg)
{
    uint32_t matchtag;

    if (cancel_decode(h, req, &matchtag) < 0)
        return;
    end_streams(arg, req, &matchtag);
    flux_respond(h, req, NULL);
}

static void disconnect_cb(flux_t *h, const flux_msg_t *req, void *arg)
{
    end_streams(arg, req, NULL);
}

static void clear_cb(flux_t *h, const flux_msg_t *req, void *arg)
{
    struct ctx *ctx = arg;
    struct log_cleared out = {ring_count(ctx->ring)};

    ring_clear(ctx->ring);
    flux_watcher_start(ctx->defer);
    flux_respond_struct(h, req, &log_cleared_schema, &out);
}

static void stats_cb(flux_t *h, const flux_msg_t *req, void *arg)
{
    struct ctx *ctx = arg;
    struct log_stats st = {
        .entries = ring_count(ctx->ring),
        .bytes = ring_bytes(ctx->ring),
        .appended = ctx->appended,
        .dropped = ring_dropped(ctx->ring),
        .forwarded = ctx->forwarded,
        .forward_dropped = ctx->below_dropped + ctx->outbox_dropped,
        .bad = ctx->bad,
        .followers = ctx->nfollowers,
    };

    flux_respond_struct(h, req, &log_stats_schema, &st);
}

static const struct flux_handler handlers[] = {
    {FLUX_MSG_REQUEST, "log.append", append_cb, ANYBODY},
    {FLUX_MSG_REQUEST, "log.forward", forward_request_cb, FLUX_ROLE_BROKER},
    {FLUX_MSG_REQUEST, "log.dump", dump_cb, 0},
    {FLUX_MSG_REQUEST, "log.follow", follow_cb, 0},
    {FLUX_MSG_REQUEST, "log.cancel", cancel_cb, ANYBODY},
    {FLUX_MSG_REQUEST, "log.disconnect", disconnect_cb, ANYBODY},
    {FLUX_MSG_REQUEST, "log.clear", clear_cb, 0},
    {FLUX_MSG_REQUEST, "log.stats", stats_cb, ANYBODY},
    FLUX_HANDLER_END,
};

/* --- settings --- */

static int set_bounds(void *arg, const char *value, errmsg_t *err)
{
    struct ctx *ctx = arg;

    if (ring_resize(ctx->ring, ctx->ring_size, ctx->ring_bytes) < 0)
        return errmsg_fail(err, ENOMEM, "out of memory for %" PRIu64 " log entries",
                           ctx->ring_size);
    return 0;
}

static int set_forward_level(void *arg, const char *value, errmsg_t *err)
{
    struct ctx *ctx = arg;

    if (settings_check("log.forward-level", value, err) < 0)
        return -1;
    ctx->forward_level = strcmp(value, "none") == 0 ? -1 : flux_log_level_parse(value);
    return 0;
}

/* Invariant 3 forbids flux_log() here. */
static void refused(void *arg, const char *sentence)
{
    struct ctx *ctx = arg;
    struct log_entry e = {0, flux_wall(ctx->h), LOG_ERR, flux_rank(ctx->h), "log", sentence};

    add_entry(ctx, &e, true);
}

static const struct setup_row rows[] = {
    SETUP_COUNT_THEN("log.ring-size", struct ctx, ring_size, set_bounds),
    SETUP_SIZE_THEN("log.ring-bytes", struct ctx, ring_bytes, set_bounds),
    SETUP_CALL("log.forward-level", set_forward_level),
    SETUP_END,
};
static const struct setup_table settings = {"log", rows, NULL, refused};

/* --- life --- */

static void log_fini(flux_t *h, void *arg)
{
    struct ctx *ctx = arg;

    /* Their requests are not answered: the host answers them, or hands them to the next
     * instance. */
    LIST_FOREACH_SAFE(it, tmp, &ctx->followers)
    {
        struct follower *fo = list_entry(it, struct follower, node);
        follower_destroy(ctx, fo);
    }
    flux_future_destroy(ctx->forward);
    setup_destroy(ctx->setup);
    flux_handlers_remove(ctx->handlers);
    flux_watcher_destroy(ctx->defer);
    ring_destroy(ctx->ring);
    ring_destroy(ctx->outbox);
    free(ctx);
}

static int log_init(flux_t *h, int argc, char **argv, void **arg, errmsg_t *err)
{
    struct ctx *ctx = calloc(1, sizeof(*ctx));

    if (!ctx)
        return errmsg_fail(err, ENOMEM, "the log module is out of memory");
    ctx->h = h;
    list_init(&ctx->followers);
    ctx->forward_level = LOG_WARNING;
    ctx->ring_size = 1;
    ctx->ring_bytes = RING_BYTES;
    if (!(ctx->ring = ring_create(ctx->ring_size, ctx->ring_bytes)) ||
        !(ctx->outbox = ring_create(FORWARD_MAX, RING_BYTES)) ||
        !(ctx->defer = flux_defer_create(flux_get_reactor(h), defer_cb, ctx)) ||
        !(ctx->handlers = flux_handlers_add(h, handlers, ctx)))
        errmsg_fail(err, ENOMEM, "the log module is out of memory");
    else if ((ctx->setup = setup_create(h, &settings, ctx, argc, argv, err))) {
        *arg = ctx;
        return 0;
    }
    int saved = errno;
    log_fini(h, ctx);
    errno = saved;
    return -1;
}

FLUX_MODULE(log, log_init, log_fini, .place = FLUX_PLACE_LOOP);

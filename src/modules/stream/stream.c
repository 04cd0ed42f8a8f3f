/* stream.c - the module `stream`: the writers and readers of the streams of a session.
 *
 * Purpose: one instance runs at the root.  Steps of data go directly from process to process
 * (libstream) and never pass this module.  A process sends it a request when it joins or leaves a
 * stream; once a second a writer reports its counts.  libstream/stream_wire.c describes the
 * messages.
 *
 * Members: a writer is one of `size` processes that write a stream together, each with a rank of
 * its own.  Its request stays open as long as it writes.  The request of a reader stays open as
 * well; its responses name the present writers first, and then each writer that joins or leaves.
 * The handler of a request only notes the change; members are notified afterwards, in pieces
 * (registry.c).
 *
 * Keys: the place of a process is its host and network namespace.  A reader in the place of the
 * writer is given the key of the writer and connects through shared memory.  A reader in another
 * place gets a capability that is valid for this stream, this reader and a limited time
 * (libstream/far_key.h), and connects by TCP.  The time is the module's, which a writer is told
 * with each response; it measures itself how much has passed since then.
 *
 * Invariants:
 *  1. Writers are numbered across all streams, and ctx.by_number maps the numbers to writers: as
 *     long as the module runs, a number never denotes two writers.  Readers choose their numbers
 *     themselves.
 *  2. No two writers of a stream have the same rank.  `ranks` holds these ranks, and all writers
 *     agree on `size`.
 *  3. Writers that join a stream without writers form a group, except for tasks of a job of which
 *     the others have left before these ranks have come.  Its first step is `begin`, which is
 *     larger than any step that an earlier group of the run has counted while the stream exists.  A
 *     rank that joins the group for the first time begins with step `begin`, however far the other
 *     ranks are; a rank that joins again begins with a step larger than any step counted.  But if
 *     members of groups of readers stay, no step comes before either number that a writer which has
 *     died had counted as needed by a group, or that one which has left has not written: these come
 *     again.
 *  4. No rank joins twice in an epoch, and none that was there when the epoch began joins in it.
 *     The epoch rises when a rank would do so, and when a group begins, except for the first group.
 *     A writer keeps the epoch in which it has joined.
 *  5. The last response to the request of a writer that does not wait for its turn carries the
 *     present pause, limit and transforms of the stream.  All responses together name the readers
 *     whose policy or switch differs from the state in which they joined, the members of groups
 *     that stay, and those of these readers that have left.
 *
 * Runs: a writer that begins anew, when all others have left, begins a group with step 0, and a
 * run.  Readers that stay are told of the run with its writers, and take their numbers as those of
 * other steps.  What they have counted of the former run does not count any more.
 *
 * Reload: requests stay unanswered, so the next instance receives them.  It gives the writers new
 * numbers and sends the numbers to writers and readers; it learns steps and epochs from the next
 * counts, and takes 0 as the first step of each group, and as the run.  Readers are told when the
 * instance began, and so notice that run 0 is the one that they read.  Formats, pauses, limits,
 * attached transforms, changed policies and the states of switches are forgotten: a reader that
 * names a switch is off again.  No inherited request is refused for its option start: whether that
 * was allowed depended on writers that may have left since then.  A writer that is away (away.c) is
 * unknown until it asks again, and is then refused if another one has taken its rank.
 *
 * Failure: a client that disconnects, or whose broker is lost (event overlay.down), leaves all its
 * streams; the readers are notified which writer has left, and why.  One whose requests were on
 * their way through a broker that was lost sends them again (away.c).  A lack of memory during the
 * notification of a writer or reader ends the request of this member with ENOMEM.
 */
#include "config.h"
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libflux/cancel_wire.h"
#include "libflux/module.h"
#include "libschema/jsonout.h"
#include "libservice/setup.h"
#include "libstream/far_key.h"
#include "libutil/hex.h"
#include "registry.h"

/* --- writers --- */

static void writer_free(struct writer *w)
{
    away_over(w->s->ctx, &w->away);
    free(w->left);
    free((char *)w->at.host);
    free((char *)w->at.address);
    free((char *)w->at.key);
    free(w->place);
    free(w->far);
    free(w);
}

/* Take a writer out of its stream, and notify the readers of the reason. */
void stream_writer_remove(struct writer *w, const char *why)
{
    struct stream *s = w->s;
    struct ctx *ctx = s->ctx;

    w->left->why = why;
    listing_member_gone(ctx, &w->node);
    list_remove(&w->node);
    idset_clear(s->ranks, w->at.rank);
    (void)hmap_take_u64(ctx->by_number, w->id);
    ctx->writers--;
    feed_listener_remove(&s->demands, &w->listener);
    feed_item_remove(&s->members, &w->member, &w->left->record);
    w->left = NULL;
    ctx->left++;
    registry_changed(s);
    writer_free(w);
}

/* Keep for lists how a writer has ended. */
static void writer_cause(struct writer *w, const char *how)
{
    char text[60];

    snprintf(text, sizeof(text), "rank %u of the writers %s", w->at.rank, how);
    causes_set(w->s, text);
}

/* Remove a writer that has left without closing its end of the stream. */
static void writer_died(struct writer *w)
{
    writer_cause(w, "has died");
    w->left->more = causes_ask(w);
    if (w->s->need > w->count.need)
        w->s->need = w->count.need;
    stream_writer_remove(w, "has died");
}

static void writer_gone(struct claim *c, bool canceled)
{
    struct writer *w = list_entry(c, struct writer, away.claim);
    struct stream *s = w->s;

    away_answer(s->ctx, &w->away, ENODATA, "stream '%s' %s", s->name, claim_gone_why(canceled));
    if (canceled) {
        if (s->need > w->count.step) /* its readers have got all before it */
            s->need = w->count.step;
        if (w->count.failed)
            writer_cause(w, "has failed");
        stream_writer_remove(w, w->count.failed ? "has failed" : "has closed its end");
    } else
        writer_died(w);
    registry_unused(s);
}

/* Check the fields of a request to write.  Returns -1 after answering the request. */
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

static bool begins_anew(const struct stream_write *in)
{
    return strcmp(in->start, "anew") == 0;
}

/* Check whether the stream can take a writer of this rank and size.  Returns -1 after answering the
 * request. */
static int write_fits(struct stream *s, const flux_msg_t *req, const struct stream_write *in)
{
    if (!list_empty(&s->writers) && s->size != in->size) {
        flux_respond_error(s->ctx->h, req, EINVAL,
                           "stream '%s' is written by a group of size %u, which a writer of a "
                           "group of size %u cannot join",
                           s->name, s->size, in->size);
        return -1;
    }
    if (idset_test(s->ranks, in->rank)) {
        flux_respond_error(s->ctx->h, req, EEXIST,
                           "stream '%s' is being written already: it has a writer of rank %u; wait "
                           "until it ends, use another name, or end it with 'flux stream rm'",
                           s->name, in->rank);
        return -1;
    }
    return 0;
}

/* Is this writer one that a group lacks, although the others have left: a task of the same job? */
static bool group_lacks(const struct stream *s, const struct stream_write *in)
{
    return in->job > 0 && in->job == s->job && in->size == s->size &&
           !idset_test(s->joined, in->rank);
}

/* The job of the last writers, for a sentence. */
static const char *owner(const struct stream *s, char buf[40])
{
    if (s->job == 0)
        return "processes outside of jobs";
    snprintf(buf, 40, "job %" PRIu64, s->job);
    return buf;
}

/* Check whether a writer that comes after others may begin as it wants to.  Returns -1 after
 * answering the request. */
static int write_starts(struct stream *s, const flux_msg_t *req, const struct stream_write *in)
{
    bool others = idset_count(s->joined) > 0 && !s->mixed && s->job != in->job;
    bool now = !list_empty(&s->writers);
    bool lacks = !now && group_lacks(s, in);
    char buf[40];
    int rc = -1;

    if (s->ctx->inherits) /* it writes already, and the stream may have changed since it joined */
        return 0;
    if (begins_anew(in) && idset_test(s->joined, in->rank) && now)
        flux_respond_error(s->ctx->h, req, EBUSY,
                           "stream '%s' cannot begin anew: a writer of another rank still writes "
                           "it; wait until all have ended, or let rank %u append",
                           s->name, in->rank);
    else if (begins_anew(in) && idset_count(s->joined) > 0 && !now && !lacks && s->shares > 0)
        flux_respond_error(s->ctx->h, req, EBUSY,
                           "stream '%s' cannot begin anew: %u members of groups stay, which count "
                           "its steps; append, or end these readers first",
                           s->name, s->shares);
    else if (others && !*in->start && now && in->launched)
        flux_respond_error(s->ctx->h, req, EEXIST,
                           "stream '%s' is being written already, by %s: wait until they end, use "
                           "another name, or end it with 'flux stream rm'",
                           s->name, owner(s, buf));
    else if (others && !*in->start && !now && s->stays > 0)
        flux_respond_error(s->ctx->h, req, EEXIST,
                           "stream '%s' was written by %s, and has readers that stay: open it with "
                           "start=append to continue its steps, or start=anew to begin with step 0",
                           s->name, owner(s, buf));
    else
        rc = 0;
    return rc;
}

/* 0; -1 with ENOMEM, and the epoch has begun for other ranks. */
static int epoch_begin(struct stream *s)
{
    s->epoch++;
    idset_range_clear(s->taken, 0, IDSET_MAX);
    return idset_add(s->taken, s->ranks);
}

/* The first step of a writer that comes after others. */
static uint64_t first_step(const struct stream *s)
{
    return s->shares > 0 && s->need < s->step ? s->need : s->step;
}

/* Begin a group, whose first member is the next writer. */
static void group_begin(struct stream *s, const struct stream_write *in)
{
    s->job = in->job;
    s->mixed = false;
    if (idset_count(s->taken) > 0)
        (void)epoch_begin(s); /* there is no other writer */
    if (begins_anew(in) && idset_count(s->joined) > 0) {
        uint64_t now = (uint64_t)(flux_now(s->ctx->h) * 1e3); /* rises over a reload, too */

        s->run = s->run < now ? now : s->run + 1;
        s->step = 0;
        s->need = UINT64_MAX;
    }
    s->begin = first_step(s);
    formats_group(s);
    idset_range_clear(s->joined, 0, IDSET_MAX);
}

static struct writer *writer_create(struct stream *s, const flux_msg_t *req,
                                    const struct stream_write *in)
{
    struct writer *w = calloc(1, sizeof(*w));

    if (!w)
        return NULL;
    if (list_empty(&s->writers) && !group_lacks(s, in))
        group_begin(s, in);
    if (s->job != in->job) {
        s->job = 0;
        s->mixed = true;
    }
    list_init(&w->away.node);
    w->s = s;
    w->at.rank = in->rank;
    if (!(w->at.host = strdup(in->host)) || !(w->at.address = strdup(in->address)) ||
        !(w->at.key = strdup(in->key)) || !(w->place = strdup(in->place)) ||
        !(w->far = strdup(in->far)) ||
        !(w->left = registry_left_create(s->ctx, s->ctx->last + 1, in->rank)) ||
        away_join(s->ctx, &w->away, req, writer_gone) < 0) {
        writer_free(w);
        return NULL;
    }
    w->task_of = in->job > 0;
    w->job = in->job;
    w->task = in->task;
    w->count.step = idset_test(s->joined, in->rank) ? first_step(s) : s->begin;
    w->count.need = w->count.step;
    if (idset_test(s->taken, in->rank) && epoch_begin(s) < 0) {
        writer_free(w);
        return NULL;
    }
    w->at.epoch = w->count.epoch = s->epoch;
    w->at.run = s->run;
    if (idset_set(s->joined, in->rank) < 0 || idset_set(s->taken, in->rank) < 0 ||
        idset_set(s->ranks, in->rank) < 0 ||
        hmap_put_u64(s->ctx->by_number, s->ctx->last + 1, w) < 0) {
        idset_clear(s->ranks, in->rank);
        writer_free(w);
        return NULL;
    }
    w->id = w->at.writer = ++s->ctx->last;
    list_append(&s->writers, &w->node);
    feed_item_set(&s->members, &w->member);
    causes_set(s, NULL);
    s->size = in->size;
    if (idset_count(s->ranks) == s->size)
        s->need = UINT64_MAX;
    s->ctx->writers++;
    s->ctx->opened++;
    return w;
}

/* Add a reader whose policy or switch has changed since it joined, or a member of a group that
 * stays, to the message to a writer. */
static void demand_tell(struct feed *f, struct feed_listener *l, struct feed_item *i)
{
    const struct reader *r = list_entry(i, struct reader, demand);
    struct stream_demand want = {r->id, r->policy, r->off};

    jsonout_struct(registry_page(r->s->ctx, "readers"), NULL, &stream_demand_schema, &want);
}

static void reader_gone_tell(struct feed *f, struct feed_listener *l, struct feed_record *r)
{
    const struct left *left = list_entry(r, struct left, record);

    jsonout_uint(registry_page(left->ctx, NULL), NULL, left->number);
}

/* Send a writer its number, and the pause and limit of its stream. */
static void writer_tell(struct feed *f, struct feed_listener *l, unsigned n)
{
    struct writer *w = list_entry(l, struct writer, listener);
    struct ctx *ctx = w->s->ctx;
    strbuf_t *sb = registry_page(ctx, "readers");

    jsonout_array_end(sb);
    jsonout_uint(sb, "writer", w->id);
    jsonout_uint(sb, "step", w->count.step);
    jsonout_uint(sb, "epoch", w->at.epoch);
    jsonout_double(sb, "clock", flux_now(ctx->h));
    jsonout_bool(sb, "paused", w->s->paused);
    jsonout_double(sb, "limit", w->s->limit);
    jsonout_uint(sb, "stays", w->s->stays);
    jsonout_uint(sb, "shares", w->s->shares);
    if (w->s->attached > 0) {
        jsonout_uint(sb, "attached", w->s->attached);
        jsonout_str(sb, "transforms", w->s->transforms ? w->s->transforms : "");
    }
    if (away_page_send(ctx, &w->away) < 0)
        writer_died(w);
}

const struct feed_ops stream_writers_feed_ops = {.item = demand_tell,
                                                 .gone = reader_gone_tell,
                                                 .tell = writer_tell,
                                                 .passed = registry_answer_passed,
                                                 .forget = registry_left_free};

/* Notify all writers of the pause and the limit of a stream, and then answer the request that has
 * changed them. */
static void writers_tell(struct stream *s, const flux_msg_t *req)
{
    feed_changed(&s->demands);
    registry_answer(s, req);
}

/* A request that comes again: see away.c. */
struct again {
    const struct stream *s;
    const struct stream_write *in;
    struct writer *found;
};

static void match(struct claim *c, void *arg)
{
    struct again *a = arg;
    struct writer *w = list_entry(c, struct writer, away.claim);

    if (c->gone == writer_gone && w->s == a->s && w->at.rank == a->in->rank &&
        strcmp(w->at.key, a->in->key) == 0)
        a->found = w;
}

/* Does the request come again from a writer that has been away?  It is told everything once more,
 * as it may have missed something.  The earlier request has ended on its way. */
static bool write_again(struct stream *s, const flux_msg_t *req, const struct stream_write *in)
{
    struct again a = {s, in, NULL};
    struct writer *w;

    if (idset_test(s->ranks, in->rank)) /* else it is not one that is known */
        claims_each(s->ctx->claims, req, match, &a);
    if (!(w = a.found))
        return false;
    if (away_renew(s->ctx, &w->away, req) < 0) {
        flux_respond_error(s->ctx->h, req, ENOMEM, "out of memory for stream '%s'", s->name);
        writer_died(w);
        return true;
    }
    feed_listener_remove(&s->demands, &w->listener);
    feed_listen(&s->demands, &w->listener);
    registry_changed(s);
    return true;
}

static void write_cb(flux_t *h, const flux_msg_t *req, void *arg)
{
    struct ctx *ctx = arg;
    struct stream_write in = {.start = ""};
    struct stream *s;
    struct writer *w;
    json_t *owner;

    if (flux_request_decode(h, req, &stream_write_schema, &in, &owner) < 0)
        return;
    if (write_check(ctx, req, &in) == 0 && !away_removed(ctx, req, in.name) &&
        (s = registry_open(ctx, req, in.name))) {
        if (write_again(s, req, &in) || write_fits(s, req, &in) < 0 ||
            write_starts(s, req, &in) < 0)
            ;
        else if (!(w = writer_create(s, req, &in)))
            flux_respond_error(h, req, ENOMEM, "out of memory for stream '%s'", s->name);
        else {
            feed_listen(&s->demands, &w->listener);
            registry_changed(s);
        }
        registry_unused(s);
    }
    json_decref(owner);
}

/* Adopt what a writer says about its readers.  Of a list that has a mistake, or is too long, the
 * first ones. */
static void count_queues(struct writer *w, const json_t *queues)
{
    struct stream_queue q;
    struct reader *r;
    json_t *item;
    size_t i;

    w->nqueues = 0;
    json_array_foreach(queues, i, item)
    {
        if (w->nqueues == STREAM_QUEUES_MAX ||
            flux_schema_decode_json(&stream_queue_schema, item, &q, NULL) < 0)
            break;
        if (!(r = hmap_get_u64(w->s->numbers, q.reader)))
            continue;
        r->dropped += q.dropped;
        r->blocked += q.blocked;
        if (q.queue > 0)
            w->queues[w->nqueues++] = q;
    }
}

static void count_cb(flux_t *h, const flux_msg_t *req, void *arg)
{
    struct ctx *ctx = arg;
    struct stream_count in = {.faults = 0};
    struct stream *s;
    struct writer *w;
    json_t *owner;
    double now = flux_now(h);

    if (flux_request_decode(h, req, &stream_count_schema, &in, &owner) < 0)
        return;
    s = registry_find(ctx, req, in.name);
    w = hmap_get_u64(ctx->by_number, in.writer);
    if (s && (!w || w->s != s)) {
        flux_respond_error(h, req, ENOENT, "stream '%s' has no writer %" PRIu64, s->name,
                           in.writer);
    } else if (s) {
        if (w->counted > 0. && now > w->counted && in.steps >= w->count.steps)
            w->rate = (double)(in.steps - w->count.steps) / (now - w->counted);
        w->counted = now;
        w->count = in;
        w->count.name = NULL;
        w->count.queues = NULL;
        count_queues(w, in.queues);
        if (s->step < in.step)
            s->step = in.step;
        if (s->epoch < in.epoch) /* the instance before a reload knew a later epoch */
            s->epoch = in.epoch;
        flux_respond(h, req, NULL);
    }
    json_decref(owner);
}

/* --- control, removal --- */

static void pause_cb(flux_t *h, const flux_msg_t *req, void *arg)
{
    struct ctx *ctx = arg;
    struct stream_pause in;
    struct stream *s;
    json_t *owner;

    if (flux_request_decode(h, req, &stream_pause_schema, &in, &owner) < 0)
        return;
    if ((s = registry_find(ctx, req, in.name)) && registry_answers_full(ctx, req) == 0) {
        s->paused = in.paused;
        writers_tell(s, req);
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
    if (!(in.limit >= 0.) || (in.limit > 0. && in.limit < STREAM_LIMIT_MIN) ||
        in.limit > STREAM_LIMIT_MAX)
        flux_respond_error(h, req, EINVAL, "the limit of a stream is 0, or %g to %g steps a second",
                           STREAM_LIMIT_MIN, STREAM_LIMIT_MAX);
    else if ((s = registry_find(ctx, req, in.name)) && registry_answers_full(ctx, req) == 0) {
        s->limit = in.limit;
        writers_tell(s, req);
    }
    json_decref(owner);
}

static void attach_cb(flux_t *h, const flux_msg_t *req, void *arg)
{
    struct ctx *ctx = arg;
    struct stream_attach in = {.reader = 0};
    struct stream *s;
    char *text;
    json_t *owner;

    if (flux_request_decode(h, req, &stream_attach_schema, &in, &owner) < 0)
        return;
    if (strlen(in.transforms) > TRANSFORMS_MAX_LEN)
        flux_respond_error(h, req, EINVAL, "the names of transforms have at most %d bytes",
                           TRANSFORMS_MAX_LEN);
    else if ((s = registry_find(ctx, req, in.name)) && registry_answers_full(ctx, req) == 0) {
        if (!(text = strdup(in.transforms)))
            flux_respond_error(h, req, ENOMEM, "out of memory for stream '%s'", s->name);
        else if (in.reader > 0)
            readers_attach(s, req, in.reader, text);
        else if (in.readers)
            readers_attach_all(s, req, text);
        else {
            free(s->transforms);
            s->transforms = text;
            s->attached++;
            writers_tell(s, req);
        }
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
    if ((s = registry_find(ctx, req, in.name)))
        registry_remove(s, req);
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

    if (flux_msg_has_flag(req, FLUX_MSGF_IDEMPOTENT)) {
        away_sender(ctx, req);
        return;
    }
    claims_disconnect(ctx->claims, req);
    claims_disconnect(ctx->definers, req);
}

static void lost(void *arg, const idset_t *ranks, bool now)
{
    struct ctx *ctx = arg;

    claims_lost(ctx->claims, ranks);
    claims_lost(ctx->definers, ranks);
}

static const struct session_ops session_ops = {.lost = lost};

static const struct flux_handler handlers[] = {
    {FLUX_MSG_REQUEST, "stream.write", write_cb, 0},
    {FLUX_MSG_REQUEST, "stream.count", count_cb, 0},
    {FLUX_MSG_REQUEST, "stream.define", formats_define_cb, 0},
    {FLUX_MSG_REQUEST, "stream.format", formats_format_cb, 0},
    {FLUX_MSG_REQUEST, "stream.read", readers_read_cb, 0},
    {FLUX_MSG_REQUEST, "stream.took", readers_took_cb, 0},
    {FLUX_MSG_REQUEST, "stream.readers", listing_readers_cb, 0},
    {FLUX_MSG_REQUEST, "stream.policy", readers_policy_cb, 0},
    {FLUX_MSG_EVENT, "stream.switch", readers_switch_cb, 0},
    {FLUX_MSG_REQUEST, "stream.list", listing_streams_cb, 0},
    {FLUX_MSG_REQUEST, "stream.pause", pause_cb, 0},
    {FLUX_MSG_REQUEST, "stream.throttle", throttle_cb, 0},
    {FLUX_MSG_REQUEST, "stream.attach", attach_cb, 0},
    {FLUX_MSG_REQUEST, "stream.remove", remove_cb, 0},
    {FLUX_MSG_REQUEST, "stream.stats", stats_cb, 0},
    {FLUX_MSG_REQUEST, "stream.cancel", cancel_cb, 0},
    {FLUX_MSG_REQUEST, "stream.disconnect", disconnect_cb, 0},
    FLUX_HANDLER_END,
};

static void mod_fini(flux_t *h, void *arg)
{
    struct ctx *ctx = arg;

    registry_fini(ctx);
    session_destroy(ctx->session);
    flux_future_destroy(ctx->events);
    flux_future_destroy(ctx->inherits);
    away_fini(ctx);
    claims_destroy(ctx->claims);
    claims_destroy(ctx->definers);
    flux_handlers_remove(ctx->handlers);
    free(ctx);
}

static void inherited_cb(flux_future_t *f, void *arg)
{
    struct ctx *ctx = arg;

    ctx->inherits = NULL;
    flux_future_destroy(f);
}

/* If another instance has left requests, learn when the last of them has come.  -1 with ENOMEM. */
static int inherit(struct ctx *ctx)
{
    if (!flux_module_reloaded(ctx->h))
        return 0;
    ctx->inherits = flux_rpc(ctx->h, "stream.stats", NULL, FLUX_NODEID_ANY, 0);
    return ctx->inherits ? flux_future_then(ctx->inherits, -1., inherited_cb, ctx) : -1;
}

static int mod_init(flux_t *h, int argc, char **argv, void **out, errmsg_t *err)
{
    struct ctx *ctx;

    if (setup_root_only(h, "stream", err) < 0 || setup_no_arguments("stream", argc, argv, err) < 0)
        return -1;
    if (!(ctx = calloc(1, sizeof(*ctx))))
        return errmsg_fail(err, ENOMEM, "out of memory");
    ctx->h = h;
    ctx->born = (uint64_t)(flux_now(h) * 1e3);
    if (registry_init(ctx) < 0 || away_init(ctx) < 0 || !(ctx->claims = claims_create()) ||
        !(ctx->definers = claims_create()) ||
        !(ctx->handlers = flux_handlers_add(h, handlers, ctx)) ||
        !(ctx->session = session_create(h, &session_ops, ctx)) ||
        !(ctx->events = flux_event_subscribe(h, "stream.switch")) || inherit(ctx) < 0) {
        mod_fini(h, ctx);
        return errmsg_fail(err, ENOMEM, "out of memory");
    }
    *out = ctx;
    return 0;
}

FLUX_MODULE(stream, mod_init, mod_fini, .place = FLUX_PLACE_LOOP);

/* listing.c - stream.list and stream.readers: lists that are made in pieces.
 *
 * Purpose: requests are answered one at a time, in the order of their arrival; at most WALKS_MAX
 * requests are in the queue.  A list of streams walks along ctx.sorted and, for each stream, along
 * its readers and its writers.  A list of readers walks along the writers of one stream, which
 * have counted the queues of readers, and then along its readers.
 *
 * Invariants:
 *  1. Only the first walk of ctx.walks has begun.
 *  2. `at` is the next reader or writer of the present stream, or the head of the list.  A stream
 *     that exists during the whole walk is listed once, and the streams are listed in the order of
 *     their names; a stream or member that joins or leaves during the walk may be missing.
 *
 * Failure: a list of readers ends with ENOENT if the stream goes during the walk.
 */
#include "config.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "libschema/jsonout.h"
#include "registry.h"

#define WALKS_MAX 64

struct walk {
    struct list_node node; /* in ctx.walks */
    flux_msg_t *req;
    char *name; /* the stream whose readers are listed; NULL: all streams */
    bool begun;
    strbuf_t *sb;
    size_t next;      /* the next stream, in ctx.sorted */
    struct stream *s; /* the present stream; NULL: between two streams, or the stream has gone */
    struct list_node *at;
    bool writers; /* `at` is in stream.writers */
    uint64_t id;
    struct stream_item sum;
};

static void walk_free(struct ctx *ctx, struct walk *k)
{
    list_remove(&k->node);
    ctx->nwalks--;
    flux_msg_destroy(k->req);
    strbuf_destroy(k->sb);
    free(k->name);
    free(k);
}

static struct walk *current(const struct ctx *ctx)
{
    struct list_node *n = list_first(&ctx->walks);

    return n ? list_entry(n, struct walk, node) : NULL;
}

void listing_stream_new(struct ctx *ctx, size_t place)
{
    struct walk *k = current(ctx);

    if (k && place < k->next)
        k->next++;
}

void listing_stream_gone(struct ctx *ctx, const struct stream *s, size_t place)
{
    struct walk *k = current(ctx);

    if (k && place < k->next)
        k->next--;
    if (k && k->s == s)
        k->s = NULL;
}

void listing_member_gone(struct ctx *ctx, const struct list_node *n)
{
    struct walk *k = current(ctx);

    if (k && k->s && k->at == n)
        k->at = n->next;
}

static void walk_enter(struct walk *k, struct stream *s)
{
    k->s = s;
    k->at = s->readers.next;
    k->writers = false;
    k->sum = (struct stream_item){.name = s->name};
}

static void reader_add(struct stream_item *sum, const struct reader *r)
{
    sum->readers++;
    sum->asked += r->took.asked;
    sum->copied += r->took.copied;
    if (!r->off && sum->lag < readers_lag(r))
        sum->lag = readers_lag(r);
}

static void writer_add(struct stream_item *sum, const struct writer *w)
{
    sum->writers++;
    if (sum->steps < w->count.steps)
        sum->steps = w->count.steps;
    sum->bytes += w->count.bytes;
    sum->copied += w->count.copied;
    sum->dropped += w->count.dropped;
    sum->queue += w->count.queue;
    sum->pinned += w->count.pinned;
    sum->blocked += w->count.blocked;
    sum->held += w->count.held;
    sum->faults += w->count.faults;
    sum->sent += w->count.sent;
    sum->connections += w->count.connections;
    if (sum->rate < w->rate)
        sum->rate = w->rate;
}

/* Do one step of a list of streams.  Returns false at the end of the list. */
static bool streams_step(struct ctx *ctx, struct walk *k)
{
    struct stream *s = k->s;

    if (!s) {
        if (k->next == hmap_count(ctx->streams))
            return false;
        walk_enter(k, ctx->sorted[k->next++]);
    } else if (!k->writers && k->at == &s->readers) {
        k->writers = true;
        k->at = s->writers.next;
    } else if (k->at == &s->writers) {
        k->sum.size = s->size;
        k->sum.step = s->step;
        k->sum.epoch = s->epoch;
        k->sum.paused = s->paused;
        k->sum.limit = s->limit;
        k->sum.transforms = s->transforms && *s->transforms ? s->transforms : NULL;
        k->sum.cause = s->cause;
        jsonout_struct(k->sb, NULL, &stream_item_schema, &k->sum);
        k->s = NULL;
    } else {
        if (k->writers)
            writer_add(&k->sum, list_entry(k->at, struct writer, node));
        else
            reader_add(&k->sum, list_entry(k->at, struct reader, node));
        k->at = k->at->next;
    }
    return true;
}

/* Add the queues at a writer to the sums of its readers. */
static void queues_add(const struct walk *k, const struct writer *w)
{
    for (unsigned i = 0; i < w->nqueues; i++) {
        struct reader *r = hmap_get_u64(k->s->numbers, w->queues[i].reader);

        if (!r)
            continue;
        if (r->walk != k->id)
            r->queue = 0;
        r->walk = k->id;
        r->queue += w->queues[i].queue;
    }
}

/* Do one step of a list of readers: first along the writers, then along the readers. */
static bool readers_step(struct ctx *ctx, struct walk *k)
{
    const struct reader *r;
    struct stream_reader item;

    if (k->s && k->writers && k->at == &k->s->writers) {
        k->writers = false;
        k->at = k->s->readers.next;
    } else if (k->s && k->writers) {
        queues_add(k, list_entry(k->at, struct writer, node));
        k->at = k->at->next;
        return true;
    }
    if (!k->s || k->at == &k->s->readers)
        return false;
    r = list_entry(k->at, struct reader, node);
    item = (struct stream_reader){.reader = r->id,
                                  .rank = claim_sender_rank(r->away.req),
                                  .host = r->host,
                                  .pid = r->pid,
                                  .policy = r->policy,
                                  .onoff = switches_name(r),
                                  .off = r->off,
                                  .step = r->took.step,
                                  .lag = readers_lag(r),
                                  .steps = r->took.steps,
                                  .asked = r->took.asked,
                                  .copied = r->took.copied,
                                  .waited = r->took.waited,
                                  .received = r->took.received,
                                  .connections = r->took.connections,
                                  .queue = r->walk == k->id ? r->queue : 0,
                                  .dropped = r->dropped,
                                  .blocked = r->blocked,
                                  .job = r->job,
                                  .transforms =
                                      r->transforms && *r->transforms ? r->transforms : NULL};
    if (item.rank == UINT32_MAX)
        item.rank = flux_rank(ctx->h);
    jsonout_struct(k->sb, NULL, &stream_reader_schema, &item);
    k->at = k->at->next;
    return true;
}

static void walk_begin(struct ctx *ctx, struct walk *k)
{
    struct stream *s = k->name ? hmap_get(ctx->streams, k->name) : NULL;

    k->begun = true;
    k->id = ++ctx->walked;
    k->sb = strbuf_create(0);
    jsonout_object(k->sb, NULL);
    jsonout_array(k->sb, k->name ? "readers" : "streams");
    if (s)
        walk_enter(k, s);
    if (s && k->name) {
        k->writers = true;
        k->at = s->writers.next;
    }
}

static void walk_end(struct ctx *ctx, struct walk *k)
{
    char *json;

    jsonout_array_end(k->sb);
    jsonout_object_end(k->sb);
    json = k->sb ? strbuf_take(k->sb) : NULL;
    k->sb = NULL;
    if (k->name && !k->s)
        flux_respond_error(ctx->h, k->req, ENOENT, "there is no stream '%.128s'", k->name);
    else if (!json)
        flux_respond_error(ctx->h, k->req, ENOMEM, "%s: out of memory", flux_msg_topic(k->req));
    else
        flux_respond(ctx->h, k->req, json);
    free(json);
    walk_free(ctx, k);
}

static void walking_run(struct work *w, struct flux_slice *s)
{
    struct ctx *ctx = list_entry(w, struct ctx, walking);

    do {
        struct walk *k = current(ctx);

        if (!k)
            return;
        if (!k->begun)
            walk_begin(ctx, k);
        else if (!(k->name ? readers_step : streams_step)(ctx, k))
            walk_end(ctx, k);
    } while (flux_slice_more(s));
    registry_work(ctx, w);
}

static void walk_request(struct ctx *ctx, const flux_msg_t *req, const char *name)
{
    struct walk *k;

    if (ctx->nwalks >= WALKS_MAX) {
        flux_respond_error(ctx->h, req, EAGAIN, "%d lists are being made already: try again",
                           WALKS_MAX);
        return;
    }
    if (!(k = calloc(1, sizeof(*k))) || (name && !(k->name = strdup(name)))) {
        free(k);
        flux_respond_error(ctx->h, req, ENOMEM, "%s: out of memory", flux_msg_topic(req));
        return;
    }
    k->req = flux_msg_incref(req);
    list_append(&ctx->walks, &k->node);
    ctx->nwalks++;
    registry_work(ctx, &ctx->walking);
}

void listing_streams_cb(flux_t *h, const flux_msg_t *req, void *arg)
{
    walk_request(arg, req, NULL);
}

void listing_readers_cb(flux_t *h, const flux_msg_t *req, void *arg)
{
    struct ctx *ctx = arg;
    struct stream_name in;
    json_t *owner;

    if (flux_request_decode(h, req, &stream_name_schema, &in, &owner) < 0)
        return;
    if (registry_find(ctx, req, in.name))
        walk_request(ctx, req, in.name);
    json_decref(owner);
}

void listing_init(struct ctx *ctx)
{
    list_init(&ctx->walks);
    registry_work_init(&ctx->walking, walking_run);
}

void listing_fini(struct ctx *ctx)
{
    struct walk *k;

    while ((k = current(ctx)))
        walk_free(ctx, k);
}

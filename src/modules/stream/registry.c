/* registry.c - the registry of streams, and the work that is done for them in pieces.
 *
 * Purpose: a stream has two feeds (feed.h).  The feed `members` notifies readers of writers; the
 * feed `demands` notifies writers of readers whose policy or switch has changed since they joined.
 * The handler of a request only notes the change.  Work that visits many members of a stream is
 * done later, in pieces, after the requests that have arrived: feeds, lists (listing.c), switches
 * (switches.c) and the removal of a stream.  Pieces of different work alternate; each pass of the
 * reactor spends one slice (libflux/slice.h) on them.
 *
 * Invariants:
 *  1. ctx.sorted holds the streams of ctx.streams, sorted by name.  Each of these streams has a
 *     writer or a reader.  A stream that is being removed is in ctx.removing instead.
 *  2. A request that changes the state of which writers are notified is answered when all writers
 *     have been notified of the change, or when the stream ends.
 *  3. A writer or reader that has left counts against MEMBERS_MAX until all members have been
 *     notified of its departure.
 *
 * Failure: a lack of memory during the notification of a writer or reader ends the request of this
 * member with ENOMEM.
 */
#include "config.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "libschema/jsonout.h"
#include "libutil/invariant.h"
#include "registry.h"

#define STREAMS_MAX 16384
#define ANSWERS_MAX 1024            /* requests that wait for the notification of writers */
#define SHARE_MAX (MEMBERS_MAX / 4) /* writers and readers of one client */

/* --- pieces of work --- */

void registry_work_init(struct work *w, void (*run)(struct work *w, struct flux_slice *s))
{
    list_init(&w->node);
    w->run = run;
}

void registry_work(struct ctx *ctx, struct work *w)
{
    if (list_empty(&w->node))
        list_append(&ctx->work, &w->node);
    flux_watcher_start(ctx->defer);
}

void registry_run(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    struct ctx *ctx = arg;
    struct flux_slice slice;
    struct list_node *n;

    flux_slice_begin(&slice, r, FLUX_SLICE_SECONDS, FLUX_SLICE_THINGS);
    while ((n = list_first(&ctx->work)) && flux_slice_more(&slice)) {
        list_remove(n);
        list_entry(n, struct work, node)->run(list_entry(n, struct work, node), &slice);
    }
    if (!list_empty(&ctx->work))
        flux_watcher_start(ctx->defer);
}

strbuf_t *registry_page(struct ctx *ctx, const char *items)
{
    if (!ctx->page.open) {
        ctx->page.sb = strbuf_create(0);
        jsonout_object(ctx->page.sb, NULL);
        jsonout_array(ctx->page.sb, "gone");
        ctx->page.open = true;
        ctx->page.items = false;
    }
    if (items && !ctx->page.items) {
        jsonout_array_end(ctx->page.sb);
        jsonout_array(ctx->page.sb, items);
        ctx->page.items = true;
    }
    return ctx->page.sb;
}

int registry_page_send(struct ctx *ctx, const flux_msg_t *req)
{
    char *json;

    jsonout_object_end(ctx->page.sb);
    json = ctx->page.sb ? strbuf_take(ctx->page.sb) : NULL;
    ctx->page.sb = NULL;
    ctx->page.open = false;
    if (json && req)
        flux_respond_more(ctx->h, req, json);
    else if (req)
        flux_respond_error(ctx->h, req, ENOMEM, "%s: out of memory", flux_msg_topic(req));
    free(json);
    return json || !req ? 0 : -1;
}

struct left *registry_left_create(struct ctx *ctx, uint64_t number, uint32_t rank)
{
    struct left *left = calloc(1, sizeof(*left));

    if (left)
        *left = (struct left){.ctx = ctx, .number = number, .rank = rank};
    return left;
}

void registry_left_free(struct feed *f, struct feed_record *r)
{
    struct left *left = list_entry(r, struct left, record);

    left->ctx->left--;
    free(left->text);
    free(left);
}

/* Free the records of feeds that no longer exist. */
static void sweep_run(struct work *w, struct flux_slice *s)
{
    struct ctx *ctx = list_entry(w, struct ctx, sweep);
    struct list_node *n;

    do {
        if (!(n = list_first(&ctx->junk)))
            return;
        list_remove(n);
        registry_left_free(NULL, list_entry(n, struct feed_record, node));
    } while (flux_slice_more(s));
    registry_work(ctx, w);
}

/* --- streams --- */

static void stream_free(struct stream *s)
{
    list_remove(&s->tell_readers.node);
    list_remove(&s->tell_writers.node);
    list_remove(&s->remove.node);
    causes_drop(s);
    feed_clear(&s->members, &s->ctx->junk);
    feed_clear(&s->demands, &s->ctx->junk);
    if (!list_empty(&s->ctx->junk))
        registry_work(s->ctx, &s->ctx->sweep);
    flux_msg_destroy(s->removal);
    hmap_destroy(s->numbers);
    idset_destroy(s->joined);
    idset_destroy(s->ranks);
    idset_destroy(s->taken);
    formats_forget(s);
    free(s->transforms);
    free(s->all_transforms);
    free(s->name);
    free(s);
}

/* Return the index of a name in ctx.sorted, or the index at which it belongs. */
static size_t stream_place(const struct ctx *ctx, const char *name)
{
    size_t low = 0;
    size_t high = hmap_count(ctx->streams);

    while (low < high) {
        size_t mid = low + (high - low) / 2;

        if (strcmp(ctx->sorted[mid]->name, name) < 0)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

/* Add a stream to the tables by name.  Returns 0, or -1 with ENOMEM. */
static int stream_enter(struct stream *s)
{
    struct ctx *ctx = s->ctx;
    size_t n = hmap_count(ctx->streams);
    size_t place = stream_place(ctx, s->name);

    if (n == ctx->room) {
        size_t room = n > 0 ? 2 * n : 16;
        struct stream **more = realloc(ctx->sorted, room * sizeof(struct stream *));

        if (!more)
            return -1;
        ctx->sorted = more;
        ctx->room = room;
    }
    if (hmap_put(ctx->streams, s->name, s) < 0)
        return -1;
    memmove(&ctx->sorted[place + 1], &ctx->sorted[place], (n - place) * sizeof(struct stream *));
    ctx->sorted[place] = s;
    listing_stream_new(ctx, place);
    return 0;
}

/* Take a stream out of the tables by name. */
static void stream_leave(struct stream *s)
{
    struct ctx *ctx = s->ctx;
    size_t place = stream_place(ctx, s->name);

    INVARIANT(1, ctx->sorted[place] == s);
    listing_stream_gone(ctx, s, place);
    (void)hmap_take(ctx->streams, s->name);
    memmove(&ctx->sorted[place], &ctx->sorted[place + 1],
            (hmap_count(ctx->streams) - place) * sizeof(struct stream *));
}

static void tell_readers_run(struct work *w, struct flux_slice *slice)
{
    struct stream *s = list_entry(w, struct stream, tell_readers);

    feed_run(&s->members, slice);
    if (feed_busy(&s->members))
        registry_work(s->ctx, w);
    registry_unused(s);
}

static void tell_writers_run(struct work *w, struct flux_slice *slice)
{
    struct stream *s = list_entry(w, struct stream, tell_writers);

    feed_run(&s->demands, slice);
    if (feed_busy(&s->demands))
        registry_work(s->ctx, w);
    registry_unused(s);
}

/* Notify one process of a stream that is being removed.  Returns false if no process is left. */
static bool remove_step(struct stream *s)
{
    struct list_node *n;

    if ((n = list_first(&s->readers))) {
        struct reader *r = list_entry(n, struct reader, node);

        away_remove(s->ctx, &r->away, s->name);
        readers_free(r);
    } else if ((n = list_first(&s->writers))) {
        struct writer *w = list_entry(n, struct writer, node);

        away_remove(s->ctx, &w->away, s->name);
        stream_writer_remove(w, "was removed");
    }
    return n;
}

static void remove_run(struct work *w, struct flux_slice *slice)
{
    struct stream *s = list_entry(w, struct stream, remove);

    do {
        if (!remove_step(s)) {
            flux_respond(s->ctx->h, s->removal, NULL);
            list_remove(&s->removing);
            stream_free(s);
            return;
        }
    } while (flux_slice_more(slice));
    registry_work(s->ctx, w);
}

/* Find the stream of this name, or create it.  Returns NULL after answering the request. */
struct stream *registry_open(struct ctx *ctx, const flux_msg_t *req, const char *name)
{
    struct stream *s = hmap_get(ctx->streams, name);
    size_t len = strlen(name);

    if (ctx->writers + ctx->readers + ctx->left >= MEMBERS_MAX) {
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
    if (!stream_title_ok(name, len)) {
        flux_respond_error(ctx->h, req, EINVAL,
                           "the name of a stream has 1 to %d bytes, without blanks and control "
                           "characters",
                           STREAM_TITLE_MAX);
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
    list_init(&s->causes);
    list_init(&s->formats);
    s->epoch = 1;
    s->need = UINT64_MAX;
    feed_init(&s->members, &readers_feed_ops);
    feed_init(&s->demands, &stream_writers_feed_ops);
    registry_work_init(&s->tell_readers, tell_readers_run);
    registry_work_init(&s->tell_writers, tell_writers_run);
    registry_work_init(&s->remove, remove_run);
    if (!(s->name = strdup(name)) || !(s->numbers = hmap_create_u64(NULL)) ||
        !(s->joined = idset_create()) || !(s->ranks = idset_create()) ||
        !(s->taken = idset_create()) || stream_enter(s) < 0)
        goto nomem;
    return s;
nomem:
    if (s)
        stream_free(s);
    flux_respond_error(ctx->h, req, ENOMEM, "out of memory for stream '%s'", name);
    return NULL;
}

/* Destroy a stream without writers and readers. */
void registry_unused(struct stream *s)
{
    if (!list_empty(&s->writers) || !list_empty(&s->readers) || s->removal)
        return;
    stream_leave(s);
    stream_free(s);
}

void registry_changed(struct stream *s)
{
    if (s->removal) /* the removal notifies its processes */
        return;
    if (feed_busy(&s->demands))
        registry_work(s->ctx, &s->tell_writers);
    if (feed_busy(&s->members))
        registry_work(s->ctx, &s->tell_readers);
}

/* A request whose answer waits for the notification of writers. */
struct answer {
    struct feed_listener mark;
    struct ctx *ctx;
    flux_msg_t *req;
};

void registry_answer(struct stream *s, const flux_msg_t *req)
{
    struct answer *a = calloc(1, sizeof(*a));

    if (!a) {
        flux_respond_error(s->ctx->h, req, ENOMEM, "%s: out of memory", flux_msg_topic(req));
        registry_changed(s);
        return;
    }
    a->ctx = s->ctx;
    a->req = flux_msg_incref(req);
    s->ctx->nanswers++;
    feed_mark(&s->demands, &a->mark);
    registry_changed(s);
}

void registry_answer_passed(struct feed *f, struct feed_listener *mark)
{
    struct answer *a = list_entry(mark, struct answer, mark);

    a->ctx->nanswers--;
    if (!a->ctx->closing)
        flux_respond(a->ctx->h, a->req, NULL);
    flux_msg_destroy(a->req);
    free(a);
}

int registry_answers_full(struct ctx *ctx, const flux_msg_t *req)
{
    if (ctx->nanswers < ANSWERS_MAX)
        return 0;
    flux_respond_error(ctx->h, req, EAGAIN, "%d changes of streams are under way: try again",
                       ANSWERS_MAX);
    return -1;
}

void registry_remove(struct stream *s, const flux_msg_t *req)
{
    struct ctx *ctx = s->ctx;

    stream_leave(s);
    list_append(&ctx->removing, &s->removing);
    list_remove(&s->tell_readers.node);
    list_remove(&s->tell_writers.node);
    s->removal = flux_msg_incref(req);
    registry_work(ctx, &s->remove);
}

/* Find the stream that a request names.  Returns NULL after answering the request. */
struct stream *registry_find(struct ctx *ctx, const flux_msg_t *req, const char *name)
{
    struct stream *s = hmap_get(ctx->streams, name);

    if (!s)
        flux_respond_error(ctx->h, req, ENOENT, "there is no stream '%.128s'", name);
    return s;
}

/* --- start and end --- */

int registry_init(struct ctx *ctx)
{
    list_init(&ctx->work);
    list_init(&ctx->junk);
    list_init(&ctx->removing);
    registry_work_init(&ctx->sweep, sweep_run);
    listing_init(ctx);
    if (!(ctx->streams = hmap_create_str(NULL)) || !(ctx->by_number = hmap_create_u64(NULL)) ||
        !(ctx->switches = hmap_create_str(NULL)) ||
        !(ctx->defer = flux_defer_create(flux_get_reactor(ctx->h), registry_run, ctx)))
        return -1;
    return 0;
}

/* Destroy a stream at the end of the module.  The requests of its processes are not answered: the
 * host of the module ends them. */
static void stream_drop(struct stream *s)
{
    LIST_FOREACH_SAFE(it, tmp, &s->readers)
    {
        readers_free(list_entry(it, struct reader, node));
    }
    LIST_FOREACH_SAFE(it, tmp, &s->writers)
    {
        stream_writer_remove(list_entry(it, struct writer, node), "is not known any longer");
    }
    stream_free(s);
}

void registry_fini(struct ctx *ctx)
{
    struct list_node *n;

    ctx->closing = true;
    listing_fini(ctx);
    while (ctx->streams && hmap_count(ctx->streams) > 0) {
        struct stream *s = ctx->sorted[hmap_count(ctx->streams) - 1];

        stream_leave(s);
        stream_drop(s);
    }
    while ((n = list_first(&ctx->removing))) {
        list_remove(n);
        stream_drop(list_entry(n, struct stream, removing));
    }
    while ((n = list_first(&ctx->junk))) {
        list_remove(n);
        registry_left_free(NULL, list_entry(n, struct feed_record, node));
    }
    flux_watcher_destroy(ctx->defer);
    switches_fini(ctx);
    hmap_destroy(ctx->by_number);
    hmap_destroy(ctx->streams);
    free(ctx->sorted);
}

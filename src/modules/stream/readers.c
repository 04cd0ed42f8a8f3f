/* readers.c - the readers of streams: their places, policies and progress.
 *
 * Purpose: the request of a reader stays open.  Its responses name the present writers, and then
 * each writer that joins or leaves; the reader is notified in turn with other readers and other
 * work, in one response or several.  Once a second a reader that takes steps reports its progress.
 *
 * Transforms: those that are attached to one reader are sent to it at once.  Those for all readers
 * are passed on as changes of the writers are, each reader in its turn, and with the first message
 * to a reader that joins later.
 *
 * Demands: two properties of a reader may change while it reads.  A request sets its policy; the
 * event stream.switch turns it on or off if it has named this switch (switches.c).  The writers are
 * notified of the change (stream.c) and carry it out.  A reader chooses its number itself, at
 * random: the writers know it by this number, which is still valid after a reload of the module.
 * A member of a group that stays is a demand from its beginning: a writer that is restarted has to
 * know which members the group has.
 *
 * Invariants:
 *  1. A reader that waits for its turn, or is being notified, has been notified of the writers up
 *     to listener.seen and of no other writer.
 *  2. No two readers of a stream have the same number: stream.numbers holds all readers by number.
 *
 * Failure: a lack of memory during the notification of a reader ends its request with ENOMEM.
 */
#include "config.h"
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <syslog.h>

#include "libflux/log.h"
#include "libschema/jsonout.h"
#include "libstream/far_key.h"
#include "libstream/knock.h"
#include "libutil/hex.h"
#include "libutil/strutil.h"
#include "registry.h"

#define SWITCH_BYTES 4096 /* bytes of an event that turns a switch */
#define GRANT_SECONDS 120 /* time in which a reader in another place has to connect to a writer */

static void reader_destroy(struct reader *r)
{
    switches_leave(r);
    away_over(r->s->ctx, &r->away);
    free(r->left);
    free(r->place);
    free(r->host);
    free(r->policy);
    free(r->transforms);
    free(r);
}

void readers_free(struct reader *r)
{
    struct stream *s = r->s;

    listing_member_gone(s->ctx, &r->node);
    list_remove(&r->node);
    s->stays -= r->stay;
    s->shares -= r->shares;
    (void)hmap_take_u64(s->numbers, r->id);
    s->ctx->readers--;
    feed_listener_remove(&s->members, &r->listener);
    if (feed_item_remove(&s->demands, &r->demand, &r->left->record)) {
        r->left = NULL;
        s->ctx->left++;
        registry_changed(s);
    }
    reader_destroy(r);
}

static void reader_gone(struct claim *c, bool canceled)
{
    struct reader *r = list_entry(c, struct reader, away.claim);
    struct stream *s = r->s;

    away_answer(s->ctx, &r->away, ENODATA, "stream '%s' %s", s->name, claim_gone_why(canceled));
    readers_free(r);
    registry_unused(s);
}

/* Add a writer to the message to a reader: its address, and the key or capability that the reader
 * presents to it. */
static void member_tell(struct feed *f, struct feed_listener *l, struct feed_item *i)
{
    const struct reader *r = list_entry(l, struct reader, listener);
    const struct writer *w = list_entry(i, struct writer, member);
    strbuf_t *sb = registry_page(r->s->ctx, "writers");
    struct far_grant g = {.stream = r->s->name, .reader = r->id};
    unsigned char key[FAR_KEY_LEN];
    unsigned char secret[FAR_KEY_LEN];
    char digits[2 * FAR_KEY_LEN + 1];
    struct stream_member m = w->at;

    if (!r->far && strcmp(r->place, w->place) == 0) {
        jsonout_struct(sb, NULL, &stream_member_schema, &m);
        return;
    }
    g.expires = (uint64_t)flux_now(r->s->ctx->h) + GRANT_SECONDS;
    hex_decode(key, w->at.key, sizeof(key));
    far_key_grant(secret, key, &g);
    *hex_encode(digits, secret, sizeof(secret)) = '\0';
    m.address = w->far;
    m.key = digits;
    m.far = true;
    m.reader = g.reader;
    m.expires = g.expires;
    jsonout_struct(sb, NULL, &stream_member_schema, &m);
}

static void gone_tell(struct feed *f, struct feed_listener *l, struct feed_record *r)
{
    const struct left *left = list_entry(r, struct left, record);
    char text[100];
    struct stream_gone gone = {left->number, left->text ? left->text : text, left->more};

    snprintf(text, sizeof(text), "rank %u of the writers %s", left->rank, left->why);
    jsonout_struct(registry_page(left->ctx, NULL), NULL, &stream_gone_schema, &gone);
}

/* Complete the message to a reader, which may name no writers. */
static void page_end(const struct reader *r)
{
    strbuf_t *sb = registry_page(r->s->ctx, "writers");

    jsonout_array_end(sb);
    jsonout_uint(sb, "size", r->s->size);
    jsonout_bool(sb, "off", r->off);
    if (r->attached > 0) {
        jsonout_uint(sb, "attached", r->attached);
        jsonout_str(sb, "transforms", r->transforms ? r->transforms : "");
    }
    jsonout_uint(sb, "born", r->s->ctx->born);
}

void readers_answer(const struct reader *r, const flux_msg_t *req)
{
    page_end(r);
    (void)registry_page_send(r->s->ctx, req);
}

static void page_send(struct reader *r)
{
    page_end(r);
    if (away_page_send(r->s->ctx, &r->away) < 0)
        readers_free(r);
}

/* Does the reader get the transforms of all readers, which it does not know? */
static bool all_take(struct reader *r)
{
    char *copy;

    if (r->all == r->s->all_attached || !(copy = strdup(r->s->all_transforms)))
        return false;
    free(r->transforms);
    r->transforms = copy;
    r->attached++;
    r->all = r->s->all_attached;
    return true;
}

static void reader_tell(struct feed *f, struct feed_listener *l, unsigned n)
{
    struct reader *r = list_entry(l, struct reader, listener);

    if (all_take(r) || n > 0)
        page_send(r);
}

void readers_attach_all(struct stream *s, const flux_msg_t *req, char *transforms)
{
    free(s->all_transforms);
    s->all_transforms = transforms;
    s->all_attached++;
    feed_changed(&s->members);
    flux_respond(s->ctx->h, req, NULL);
    registry_changed(s);
}

void readers_attach(struct stream *s, const flux_msg_t *req, uint64_t reader, char *transforms)
{
    struct reader *r = hmap_get_u64(s->numbers, reader);

    if (!r) {
        flux_respond_error(s->ctx->h, req, ENOENT, "stream '%s' has no reader %" PRIu64, s->name,
                           reader);
        free(transforms);
        return;
    }
    free(r->transforms);
    r->transforms = transforms;
    r->attached++;
    flux_respond(s->ctx->h, req, NULL);
    page_send(r);
    registry_unused(s);
}

const struct feed_ops readers_feed_ops = {
    .item = member_tell, .gone = gone_tell, .tell = reader_tell, .forget = registry_left_free};

void readers_demand(struct reader *r)
{
    feed_item_set(&r->s->demands, &r->demand);
    registry_changed(r->s);
}

static struct reader *reader_create(struct stream *s, const flux_msg_t *req,
                                    const struct stream_read *in)
{
    struct reader *r = calloc(1, sizeof(*r));

    if (!r)
        return NULL;
    list_init(&r->away.node);
    r->s = s;
    if (!(r->place = strdup(in->place)) || !(r->host = strdup(in->host)) ||
        !(r->policy = strdup(in->policy)) ||
        !(r->left = registry_left_create(s->ctx, in->reader, 0)) ||
        switches_join(r, in->onoff) < 0 || away_join(s->ctx, &r->away, req, reader_gone) < 0 ||
        hmap_put_u64(s->numbers, in->reader, r) < 0) {
        reader_destroy(r);
        return NULL;
    }
    r->id = in->reader;
    r->away.reads = true;
    r->far = in->far;
    r->took.step = s->step;
    r->pid = in->pid;
    r->job = in->job;
    if (!s->all_transforms || !*s->all_transforms)
        r->all = s->all_attached; /* it keeps its own */
    list_append(&s->readers, &r->node);
    r->stay = in->stay;
    s->stays += r->stay;
    r->shares = r->stay && str_starts(r->policy, "group:");
    s->shares += r->shares;
    feed_listen_later(&s->members, &r->listener);
    s->ctx->readers++;
    s->ctx->opened++;
    return r;
}

/* Handle the request of a reader that is known.  If it comes again (away.c), the reader is told of
 * all writers once more. */
static void read_again(struct reader *r, const flux_msg_t *req, const struct stream_read *in)
{
    struct stream *s = r->s;
    flux_t *h = s->ctx->h;

    if (r->pid != in->pid || strcmp(r->host, in->host) != 0 || strcmp(r->place, in->place) != 0) {
        flux_respond_error(h, req, EEXIST, "stream '%s' has a reader %" PRIu64 " already", s->name,
                           in->reader);
        return;
    }
    if (away_renew(s->ctx, &r->away, req) < 0) {
        flux_respond_error(h, req, ENOMEM, "out of memory for stream '%s'", s->name);
        readers_free(r);
        return;
    }
    feed_listener_remove(&s->members, &r->listener);
    feed_listen_later(&s->members, &r->listener);
    registry_changed(s);
}

void readers_read_cb(flux_t *h, const flux_msg_t *req, void *arg)
{
    struct ctx *ctx = arg;
    struct stream_read in = {.stay = false};
    struct stream *s;
    struct reader *r;
    json_t *owner;

    if (flux_request_decode(h, req, &stream_read_schema, &in, &owner) < 0)
        return;
    if (strlen(in.host) > PLACE_MAX_LEN || strlen(in.place) > PLACE_MAX_LEN ||
        strlen(in.policy) > PLACE_MAX_LEN ||
        (*in.onoff && !stream_title_ok(in.onoff, strlen(in.onoff))))
        flux_respond_error(h, req, EINVAL,
                           "stream '%.128s': a host, a place or a policy has at most %d bytes, and "
                           "the name of a switch %d, without blanks",
                           in.name, PLACE_MAX_LEN, STREAM_TITLE_MAX);
    else if (!flux_msg_has_flag(req, FLUX_MSGF_STREAMING))
        flux_respond_error(h, req, EPROTO, "stream.read must be a streaming request");
    else if (!away_removed(ctx, req, in.name) && (s = registry_open(ctx, req, in.name))) {
        if ((r = hmap_get_u64(s->numbers, in.reader)))
            read_again(r, req, &in);
        else if (!(r = reader_create(s, req, &in)))
            flux_respond_error(h, req, ENOMEM, "out of memory for stream '%s'", s->name);
        else {
            registry_changed(s);
            if (r->onoff || r->shares) /* its switch may have been on before a reload */
                readers_demand(r);
        }
        registry_unused(s);
    }
    json_decref(owner);
}

void readers_took_cb(flux_t *h, const flux_msg_t *req, void *arg)
{
    struct ctx *ctx = arg;
    struct stream_took in = {0};
    struct stream *s;
    struct reader *r;
    json_t *owner;

    if (flux_request_decode(h, req, &stream_took_schema, &in, &owner) < 0)
        return;
    if ((s = registry_find(ctx, req, in.name)) && (r = hmap_get_u64(s->numbers, in.reader))) {
        r->took = in;
        r->took.name = NULL;
        if (in.run < s->run) /* it has not come to this run */
            r->took.step = 0;
        else if (s->step < in.step) /* a writer has died before it counted these steps */
            s->step = in.step;
    }
    json_decref(owner);
}

/* Return the number of steps that a reader is behind, according to the last counts. */
uint64_t readers_lag(const struct reader *r)
{
    return r->s->step > r->took.step ? r->s->step - r->took.step : 0;
}

void readers_policy_cb(flux_t *h, const flux_msg_t *req, void *arg)
{
    struct ctx *ctx = arg;
    struct stream_policy in;
    struct knock_want want;
    errmsg_t err;
    struct stream *s;
    struct reader *r;
    char *policy;
    json_t *owner;

    if (flux_request_decode(h, req, &stream_policy_schema, &in, &owner) < 0)
        return;
    if (knock_policy_parse(&want, in.policy, &err) < 0)
        flux_respond_error(h, req, EINVAL, "%s", err.text);
    else if ((s = registry_find(ctx, req, in.name))) {
        if (!(r = hmap_get_u64(s->numbers, in.reader)))
            flux_respond_error(h, req, ENOENT, "stream '%s' has no reader %" PRIu64, s->name,
                               in.reader);
        else if (str_starts(r->policy, "group:"))
            flux_respond_error(h, req, EINVAL,
                               "reader %" PRIu64 " of stream '%s' is a member of a group: its "
                               "policy is that of the group",
                               r->id, s->name);
        else if (registry_answers_full(ctx, req) < 0)
            ;
        else if (!(policy = strdup(in.policy)))
            flux_respond_error(h, req, ENOMEM, "out of memory for stream '%s'", s->name);
        else {
            free(r->policy);
            r->policy = policy;
            readers_demand(r);
            registry_answer(s, req);
        }
    }
    json_decref(owner);
}

void readers_switch_cb(flux_t *h, const flux_msg_t *msg, void *arg)
{
    struct ctx *ctx = arg;
    struct stream_switch sw;
    size_t len;
    const char *json = flux_msg_payload(msg, &len);
    errmsg_t err;
    json_t *owner = NULL;

    if (!json || flux_msg_has_flag(msg, FLUX_MSGF_RAW))
        errmsg_set(&err, "it has no JSON payload");
    else if (len > SWITCH_BYTES)
        errmsg_set(&err, "a payload of %zu bytes is too large: the limit is %d", len, SWITCH_BYTES);
    else
        owner = flux_schema_decode(&stream_switch_schema, json, len, &sw, &err);
    if (!owner) {
        flux_log(h, LOG_ERR, "event stream.switch of rank %u: %s", flux_msg_nodeid(msg), err.text);
        return;
    }
    switches_turn(ctx, &sw);
    json_decref(owner);
}

/* readers.c - the readers of streams: who they are, what they want, and how far they are.
 *
 * A reader's request stays open, and gets the writers that there are, and then those that join or
 * leave.  Once a second a reader that takes steps says how far it is.
 *
 * What a reader wants may change while it reads: its policy, by a request, and whether it is on, by
 * the event stream.switch, if it has named that switch.  Writers are told (registry.h), and do what
 * is wanted.  The number of a reader is its own choice, at random, so that writers, which know it
 * by that number, still do after a reload of the module.
 *
 * Invariants:
 *  1. A reader has been told of exactly the writers up to `seen`.
 *  2. A reader that names a switch is off unless that switch is in `on`.
 *
 * Failure: a lack of memory while a reader is told ends its request with ENOMEM.
 */
#include "config.h"
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <syslog.h>

#include "libflux/log.h"
#include "libstream/far_key.h"
#include "libstream/knock.h"
#include "libutil/hex.h"
#include "libutil/invariant.h"
#include "libutil/strutil.h"
#include "registry.h"

#define SWITCHES_MAX 4096
#define GRANT_SECONDS 120 /* that a reader has to connect to a writer elsewhere */

void readers_free(struct reader *r)
{
    claim_drop(r->s->ctx->claims, &r->claim);
    list_remove(&r->node);
    r->s->ctx->readers--;
    flux_msg_destroy(r->req);
    free(r->place);
    free(r->host);
    free(r->policy);
    free(r->onoff);
    free(r);
}

static void reader_gone(struct claim *c, bool canceled)
{
    struct reader *r = list_entry(c, struct reader, claim);
    struct stream *s = r->s;

    flux_respond_error(s->ctx->h, r->req, ENODATA, "stream '%s' %s", s->name,
                       claim_gone_why(canceled));
    readers_free(r);
    registry_unused(s);
}

/* What a reader is told of a writer: where it is, and what the reader shows there. */
static json_t *member_encode(const struct reader *r, const struct writer *w)
{
    struct far_grant g = {.stream = r->s->name, .reader = r->id};
    unsigned char key[FAR_KEY_LEN];
    unsigned char secret[FAR_KEY_LEN];
    char digits[2 * FAR_KEY_LEN + 1];
    struct stream_member m = w->at;

    if (!r->far && strcmp(r->place, w->place) == 0)
        return flux_schema_encode_json(&stream_member_schema, &m);
    g.expires = (uint64_t)flux_reactor_wall(flux_get_reactor(r->s->ctx->h)) + GRANT_SECONDS;
    hex_decode(key, w->at.key, sizeof(key));
    far_key_grant(secret, key, &g);
    *hex_encode(digits, secret, sizeof(secret)) = '\0';
    m.address = w->far;
    m.key = digits;
    m.far = true;
    m.reader = g.reader;
    m.expires = g.expires;
    return flux_schema_encode_json(&stream_member_schema, &m);
}

/* Tell a reader what is new to it.  -1: it has no request any more. */
int readers_tell(struct reader *r)
{
    struct stream *s = r->s;
    struct stream_members out = {s->size, json_array(), json_array(), r->off};
    struct list_node *it = &s->writers;
    json_t *gone;
    size_t i;
    int rc = out.writers && out.gone ? 0 : -1;

    while (it->prev != &s->writers && list_entry(it->prev, struct writer, node)->id > r->seen)
        it = it->prev;
    for (; rc == 0 && it != &s->writers; it = it->next) {
        json_t *o = member_encode(r, list_entry(it, struct writer, node));

        rc = o ? json_array_append_new(out.writers, o) : -1;
    }
    json_array_foreach(s->gone, i, gone)
    {
        if (rc == 0 && (uint64_t)json_integer_value(json_object_get(gone, "writer")) <= r->seen)
            rc = json_array_append(out.gone, gone);
    }
    INVARIANT(2, r->seen <= s->last);
    r->seen = s->last;
    if (rc < 0)
        flux_respond_error(s->ctx->h, r->req, ENOMEM, "out of memory to tell who writes '%s'",
                           s->name);
    else if (json_array_size(out.writers) + json_array_size(out.gone) > 0)
        rc = registry_respond_more(s->ctx->h, r->req, &stream_members_schema, &out);
    json_decref(out.writers);
    json_decref(out.gone);
    return rc;
}

static struct reader *reader_create(struct stream *s, const flux_msg_t *req,
                                    const struct stream_read *in)
{
    struct reader *r = calloc(1, sizeof(*r));

    if (!r)
        return NULL;
    if (!(r->place = strdup(in->place)) || !(r->host = strdup(in->host)) ||
        !(r->policy = strdup(in->policy)) || !(r->onoff = strdup(in->onoff)) ||
        claim_take(s->ctx->claims, &r->claim, req, reader_gone) < 0) {
        free(r->place);
        free(r->host);
        free(r->policy);
        free(r->onoff);
        free(r);
        return NULL;
    }
    r->s = s;
    r->req = flux_msg_incref(req);
    r->id = in->reader;
    r->far = in->far;
    r->off = *in->onoff && !hmap_get(s->ctx->on, in->onoff);
    r->changed = *in->onoff; /* it may have been on before a reload */
    r->took.step = s->step;
    r->pid = in->pid;
    list_append(&s->readers, &r->node);
    s->ctx->readers++;
    s->ctx->opened++;
    return r;
}

static struct reader *reader_find(struct stream *s, uint64_t id)
{
    LIST_FOREACH(it, &s->readers)
    {
        struct reader *r = list_entry(it, struct reader, node);

        if (r->id == id)
            return r;
    }
    return NULL;
}

void readers_read_cb(flux_t *h, const flux_msg_t *req, void *arg)
{
    struct ctx *ctx = arg;
    struct stream_read in;
    struct stream *s;
    struct reader *r;
    json_t *owner;

    if (flux_request_decode(h, req, &stream_read_schema, &in, &owner) < 0)
        return;
    s = hmap_get(ctx->streams, in.name);
    if (strlen(in.host) > PLACE_MAX_LEN || strlen(in.place) > PLACE_MAX_LEN ||
        strlen(in.policy) > PLACE_MAX_LEN || strlen(in.onoff) > NAME_MAX_LEN ||
        strpbrk(in.onoff, " \t\r\n"))
        flux_respond_error(h, req, EINVAL,
                           "stream '%.128s': a host, a place or a policy has at most %d bytes, and "
                           "the name of a switch %d, without blanks",
                           in.name, PLACE_MAX_LEN, NAME_MAX_LEN);
    else if (!flux_msg_has_flag(req, FLUX_MSGF_STREAMING))
        flux_respond_error(h, req, EPROTO, "stream.read must be a streaming request");
    else if (!in.wait && (!s || list_empty(&s->writers)))
        flux_respond_error(h, req, ENOENT, "nobody writes a stream '%.128s'", in.name);
    else if ((s = registry_open(ctx, req, in.name))) {
        if (reader_find(s, in.reader))
            flux_respond_error(h, req, EEXIST, "stream '%s' has a reader %" PRIu64 " already",
                               s->name, in.reader);
        else if (!(r = reader_create(s, req, &in)))
            flux_respond_error(h, req, ENOMEM, "out of memory for stream '%s'", s->name);
        else {
            registry_changed(s);
            if (r->changed)
                registry_writers_tell(s);
        }
        registry_unused(s);
    }
    json_decref(owner);
}

void readers_took_cb(flux_t *h, const flux_msg_t *req, void *arg)
{
    struct ctx *ctx = arg;
    struct stream_took in;
    struct stream *s;
    struct reader *r;
    json_t *owner;

    if (flux_request_decode(h, req, &stream_took_schema, &in, &owner) < 0)
        return;
    if ((s = registry_find(ctx, req, in.name)) && (r = reader_find(s, in.reader))) {
        r->took = in;
        r->took.name = NULL;
    }
    json_decref(owner);
}

/* Steps that a reader is behind, as far as it is known. */
uint64_t readers_lag(const struct reader *r)
{
    return r->s->step > r->took.step ? r->s->step - r->took.step : 0;
}

void readers_list_cb(flux_t *h, const flux_msg_t *req, void *arg)
{
    struct ctx *ctx = arg;
    struct stream_name in;
    struct stream_readers out = {json_array()};
    struct stream *s;
    json_t *owner;

    if (flux_request_decode(h, req, &stream_name_schema, &in, &owner) < 0) {
        json_decref(out.readers);
        return;
    }
    if ((s = registry_find(ctx, req, in.name))) {
        LIST_FOREACH(it, &s->readers)
        {
            const struct reader *r = list_entry(it, struct reader, node);
            struct stream_reader item = {r->id,          claim_sender_rank(r->req),
                                         r->host,        r->pid,
                                         r->policy,      r->onoff,
                                         r->off,         r->took.step,
                                         readers_lag(r), r->took.steps,
                                         r->took.asked,  r->took.copied,
                                         r->took.waited};

            if (item.rank == UINT32_MAX)
                item.rank = flux_rank(h);
            json_array_append_new(out.readers,
                                  flux_schema_encode_json(&stream_reader_schema, &item));
        }
        flux_respond_struct(h, req, &stream_readers_schema, &out);
    }
    json_decref(out.readers);
    json_decref(owner);
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
        if (!(r = reader_find(s, in.reader)))
            flux_respond_error(h, req, ENOENT, "stream '%s' has no reader %" PRIu64, s->name,
                               in.reader);
        else if (str_starts(r->policy, "group:"))
            flux_respond_error(h, req, EINVAL,
                               "reader %" PRIu64 " of stream '%s' is a member of a group: its "
                               "policy is that of the group",
                               r->id, s->name);
        else if (!(policy = strdup(in.policy)))
            flux_respond_error(h, req, ENOMEM, "out of memory for stream '%s'", s->name);
        else {
            free(r->policy);
            r->policy = policy;
            r->changed = true;
            registry_writers_tell(s);
            flux_respond(h, req, NULL);
        }
    }
    json_decref(owner);
}

/* Turn the readers of a stream that name a switch. */
static void stream_turn(struct stream *s, const struct stream_switch *sw)
{
    bool any = false;

    LIST_FOREACH(it, &s->readers)
    {
        struct reader *r = list_entry(it, struct reader, node);

        if (strcmp(r->onoff, sw->name) == 0 && r->off == sw->on) {
            r->off = !sw->on;
            r->changed = any = true;
        }
    }
    if (any)
        registry_writers_tell(s);
}

void readers_switch_cb(flux_t *h, const flux_msg_t *msg, void *arg)
{
    struct ctx *ctx = arg;
    struct stream_switch sw;
    size_t len;
    const char *json = flux_msg_payload(msg, &len);
    size_t pos = 0;
    errmsg_t err;
    json_t *owner;
    void *val;

    owner = json ? flux_schema_decode(&stream_switch_schema, json, len, &sw, &err) : NULL;
    if (!owner) {
        flux_log(h, LOG_ERR, "event stream.switch: %s", json ? err.text : "it is empty");
        return;
    }
    if (!sw.on)
        hmap_del(ctx->on, sw.name);
    else if (strlen(sw.name) > NAME_MAX_LEN || hmap_count(ctx->on) >= SWITCHES_MAX ||
             hmap_put(ctx->on, sw.name, ctx) < 0)
        flux_log(h, LOG_ERR, "switch '%.128s' is not remembered for readers that come later",
                 sw.name);
    while (hmap_next(ctx->streams, &pos, NULL, NULL, &val))
        stream_turn(val, &sw);
    json_decref(owner);
}

/* formats.c - stream.define and stream.format: what writers have defined about their steps.
 *
 * Purpose: a stream keeps the description of its steps, in any words, until another group of
 * writers begins, so that readers which outlast the group can still ask for it.  It keeps the
 * formats of records by their ids; these are constant, so they outlast a group as long as the
 * stream has room: a later group may use them again, and readers may still have steps with them.
 *
 * Accounting: the bytes of a definition count for the client that has made it.  When this client
 * disconnects, they count for the client of the first remaining writer, or else of the first
 * reader.  If the definition would exceed the share of that client, or no member remains, it is
 * forgotten.
 *
 * Invariants:
 *  1. ctx.formats is the weight of all definitions, and at most FORMATS_MAX_LEN.
 *  2. A definition has a claim; the claims of one client weigh at most SHARE_MAX_LEN.
 *  3. A stream has at most RECORDS_MAX formats of records, and their ids differ.
 *
 * Failure: a definition that would exceed a bound is refused, and the one before it stays.
 */
#include "config.h"
#include <errno.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "libutil/hex.h"
#include "libutil/invariant.h"
#include "registry.h"

#define FORMAT_MAX_LEN ((size_t)512 * 1024)
#define FORMATS_MAX_LEN ((size_t)64 * 1024 * 1024) /* weight of the definitions of all streams */
#define SHARE_MAX_LEN (FORMATS_MAX_LEN / 4)        /* weight of those of one client */
#define RECORDS_MAX 256                            /* formats of records of a stream */
#define RECORDS_WEIGHT 256 /* that is added to the bytes of each, since they are many and small */

struct definition {
    struct list_node node; /* in stream.formats */
    struct claim claim;
    struct stream *s;
    char id[STREAM_ID_LEN + 1]; /* "": the description of the steps */
    bool old;                   /* of an earlier group */
    char text[];
};

static struct definition *definition_find(const struct stream *s, const char *id)
{
    LIST_FOREACH(it, &s->formats)
    {
        struct definition *d = list_entry(it, struct definition, node);

        if (strcmp(d->id, id) == 0)
            return d;
    }
    return NULL;
}

static size_t weight_of(const char *id, size_t len)
{
    return len + (*id ? RECORDS_WEIGHT : 0);
}

static void definition_free(struct definition *d)
{
    d->s->ctx->formats -= weight_of(d->id, strlen(d->text));
    d->s->nformats -= d->id[0] != '\0';
    list_remove(&d->node);
    free(d);
}

static void definition_forget(struct definition *d)
{
    if (!d)
        return;
    claim_drop(d->s->ctx->definers, &d->claim);
    definition_free(d);
}

void formats_forget(struct stream *s)
{
    LIST_FOREACH_SAFE(it, tmp, &s->formats)
    definition_forget(list_entry(it, struct definition, node));
}

void formats_group(struct stream *s)
{
    definition_forget(definition_find(s, ""));
    LIST_FOREACH(it, &s->formats)
    list_entry(it, struct definition, node)->old = true;
}

static void definer_gone(struct claim *c, bool canceled)
{
    struct definition *d = list_entry(c, struct definition, claim);
    struct stream *s = d->s;
    struct list_node *w = list_first(&s->writers);
    struct list_node *r = list_first(&s->readers);
    const flux_msg_t *heir = w   ? list_entry(w, struct writer, node)->away.req
                             : r ? list_entry(r, struct reader, node)->away.req
                                 : NULL;
    size_t weight = weight_of(d->id, strlen(d->text));

    if (heir && claims_weight_of_sender(s->ctx->definers, heir, NULL) + weight <= SHARE_MAX_LEN &&
        claim_take_sender(s->ctx->definers, c, heir, definer_gone) == 0) {
        claim_weigh(c, weight);
        return;
    }
    definition_free(d);
}

/* Add a definition.  Returns 0, or -1 with ENOMEM. */
static int definition_add(struct stream *s, const flux_msg_t *req, const char *id, const char *text)
{
    struct ctx *ctx = s->ctx;
    struct definition *d = calloc(1, sizeof(*d) + strlen(text) + 1);

    if (!d)
        return -1;
    d->s = s;
    strcpy(d->id, id);
    strcpy(d->text, text);
    if (claim_take_sender(ctx->definers, &d->claim, req, definer_gone) < 0) {
        free(d);
        return -1;
    }
    list_append(&s->formats, &d->node);
    claim_weigh(&d->claim, weight_of(id, strlen(text)));
    ctx->formats += d->claim.weight;
    s->nformats += *id != '\0';
    INVARIANT(1, ctx->formats <= FORMATS_MAX_LEN);
    INVARIANT(2, claims_weight_of_sender(ctx->definers, req, NULL) <= SHARE_MAX_LEN);
    INVARIANT(3, s->nformats <= RECORDS_MAX);
    return 0;
}

/* Is it the id of this text? */
static bool id_ok(const char *id, const char *text)
{
    unsigned char hash[crypto_hash_sha256_BYTES];
    char digits[STREAM_ID_LEN + 1];

    crypto_hash_sha256(hash, (const unsigned char *)text, strlen(text));
    *hex_encode(digits, hash, STREAM_ID_LEN / 2) = '\0';
    return strcmp(id, digits) == 0;
}

/* Is there room for a definition in the place of `old` (or NULL)?  Returns -1 after answering the
 * request. */
static int room_check(struct stream *s, const flux_msg_t *req, const struct definition *old,
                      size_t weight)
{
    struct ctx *ctx = s->ctx;

    if (ctx->formats - (old ? old->claim.weight : 0) + weight > FORMATS_MAX_LEN)
        return flux_respond_error(ctx->h, req, EBUSY,
                                  "stream '%s' cannot be defined: the formats of all streams of "
                                  "the session have at most %zu bytes",
                                  s->name, FORMATS_MAX_LEN),
               -1;
    if (claims_weight_of_sender(ctx->definers, req, old ? &old->claim : NULL) + weight >
        SHARE_MAX_LEN)
        return flux_respond_error(ctx->h, req, EBUSY,
                                  "stream '%s' cannot be defined: the formats that one client has "
                                  "defined have at most %zu bytes",
                                  s->name, SHARE_MAX_LEN),
               -1;
    return 0;
}

/* The definition in the place of which a new one comes: of the same id, or, when the stream has as
 * many formats as it may have, one that an earlier group has made.  *full: there is none. */
static struct definition *replaced_by(struct stream *s, const char *id, bool *full)
{
    struct definition *d = definition_find(s, id);

    *full = !d && *id && s->nformats == RECORDS_MAX;
    if (!*full)
        return d;
    LIST_FOREACH(it, &s->formats)
    {
        d = list_entry(it, struct definition, node);
        if (d->old && d->id[0]) {
            *full = false;
            return d;
        }
    }
    return NULL;
}

void formats_define_cb(flux_t *h, const flux_msg_t *req, void *arg)
{
    struct ctx *ctx = arg;
    struct stream_define in = {.id = NULL};
    struct definition *old;
    struct stream *s;
    const char *id;
    bool full;
    size_t len;
    json_t *owner;

    if (flux_request_decode(h, req, &stream_define_schema, &in, &owner) < 0)
        return;
    len = strlen(in.format);
    id = in.id ? in.id : "";
    if (len > FORMAT_MAX_LEN)
        flux_respond_error(h, req, E2BIG, "stream '%.128s': the format has more than %zu bytes",
                           in.name, FORMAT_MAX_LEN);
    else if (in.id && !id_ok(id, in.format))
        flux_respond_error(h, req, EINVAL, "stream '%.128s': the format does not have the id %.16s",
                           in.name, id);
    else if ((s = registry_find(ctx, req, in.name))) {
        old = replaced_by(s, id, &full);
        if (full)
            flux_respond_error(h, req, EBUSY, "stream '%s' has %d formats of records already",
                               s->name, RECORDS_MAX);
        else if (old && in.id && strcmp(old->id, id) == 0) {
            old->old = false;
            flux_respond(h, req, NULL);
        } else if (room_check(s, req, old, weight_of(id, len)) == 0) {
            definition_forget(old);
            if (definition_add(s, req, id, in.format) < 0)
                flux_respond_error(h, req, ENOMEM, "out of memory for stream '%s'", s->name);
            else
                flux_respond(h, req, NULL);
        }
    }
    json_decref(owner);
}

/* Answer with the description of the steps, and the ids of all formats of records. */
static void description_tell(struct stream *s, const flux_msg_t *req)
{
    const struct definition *d = definition_find(s, "");
    struct stream_text out = {d ? d->text : "", s->nformats > 0 ? json_array() : NULL};

    LIST_FOREACH(it, &s->formats)
    {
        d = list_entry(it, struct definition, node);
        if (d->id[0])
            json_array_append_new(out.ids, json_string(d->id));
    }
    if (!out.ids && s->nformats > 0)
        flux_respond_error(s->ctx->h, req, ENOMEM, "out of memory for stream '%s'", s->name);
    else
        flux_respond_struct(s->ctx->h, req, &stream_text_schema, &out);
    json_decref(out.ids);
}

void formats_format_cb(flux_t *h, const flux_msg_t *req, void *arg)
{
    struct ctx *ctx = arg;
    struct stream_ask_format in = {.id = NULL};
    const struct definition *d;
    struct stream *s;
    json_t *owner;

    if (flux_request_decode(h, req, &stream_ask_format_schema, &in, &owner) < 0)
        return;
    if ((s = registry_find(ctx, req, in.name))) {
        if (list_empty(&s->formats))
            flux_respond_error(h, req, ENODATA, "the writers of stream '%s' have not defined it",
                               s->name);
        else if (!in.id)
            description_tell(s, req);
        else if (!*in.id || !(d = definition_find(s, in.id)))
            flux_respond_error(h, req, ENODATA, "stream '%s' has no format of the id %.16s",
                               s->name, in.id);
        else
            flux_respond_struct(h, req, &stream_text_schema,
                                &(struct stream_text){.format = d->text, .ids = NULL});
    }
    json_decref(owner);
}

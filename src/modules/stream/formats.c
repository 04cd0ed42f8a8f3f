/* formats.c - stream.define and stream.format: the formats that writers have defined for their
 * steps.
 *
 * Purpose: a stream keeps the format that its group of writers has defined until another group
 * begins, so that readers which outlast the group can still ask for it.
 *
 * Accounting: the bytes of a format count for the client that has defined it.  When this client
 * disconnects, they count for the client of the first remaining writer, or else of the first
 * reader.  If the format would exceed the share of that client, or no member remains, the format is
 * forgotten.
 *
 * Invariants:
 *  1. ctx.formats is the number of bytes of all formats, and at most FORMATS_MAX_LEN.
 *  2. A stream with a format has a claim whose weight is the length of the format.  The claims of
 *     one client weigh at most SHARE_MAX_LEN.
 *
 * Failure: a definition that would exceed a bound is refused, and the format before it stays.  A
 * lack of memory for the claim leaves the stream without a format.
 */
#include "config.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "libutil/invariant.h"
#include "registry.h"

#define FORMAT_MAX_LEN ((size_t)512 * 1024)
#define FORMATS_MAX_LEN ((size_t)64 * 1024 * 1024) /* bytes of the formats of all streams */
#define SHARE_MAX_LEN (FORMATS_MAX_LEN / 4)        /* bytes of the formats of one client */

void formats_forget(struct stream *s)
{
    if (!s->format)
        return;
    s->ctx->formats -= s->definer.weight;
    claim_drop(s->ctx->definers, &s->definer);
    free(s->format);
    s->format = NULL;
}

static void definer_gone(struct claim *c, bool canceled)
{
    struct stream *s = list_entry(c, struct stream, definer);
    struct list_node *w = list_first(&s->writers);
    struct list_node *r = list_first(&s->readers);
    const flux_msg_t *heir = w   ? list_entry(w, struct writer, node)->req
                             : r ? list_entry(r, struct reader, node)->req
                                 : NULL;
    size_t len = strlen(s->format);

    if (heir && claims_weight_of_sender(s->ctx->definers, heir, NULL) + len <= SHARE_MAX_LEN &&
        claim_take_sender(s->ctx->definers, c, heir, definer_gone) == 0) {
        claim_weigh(c, len);
        return;
    }
    s->ctx->formats -= len;
    free(s->format);
    s->format = NULL;
}

/* Set the format of a stream, and take over `format`.  Returns 0, or -1 with ENOMEM. */
static int format_set(struct stream *s, const flux_msg_t *req, char *format)
{
    struct ctx *ctx = s->ctx;

    formats_forget(s);
    if (claim_take_sender(ctx->definers, &s->definer, req, definer_gone) < 0) {
        free(format);
        return -1;
    }
    s->format = format;
    claim_weigh(&s->definer, strlen(format));
    ctx->formats += s->definer.weight;
    INVARIANT(1, ctx->formats <= FORMATS_MAX_LEN);
    INVARIANT(2, claims_weight_of_sender(ctx->definers, req, NULL) <= SHARE_MAX_LEN);
    return 0;
}

void formats_define_cb(flux_t *h, const flux_msg_t *req, void *arg)
{
    struct ctx *ctx = arg;
    struct stream_define in;
    struct stream *s;
    size_t len;
    char *format;
    json_t *owner;

    if (flux_request_decode(h, req, &stream_define_schema, &in, &owner) < 0)
        return;
    len = strlen(in.format);
    if (len > FORMAT_MAX_LEN)
        flux_respond_error(h, req, E2BIG, "stream '%.128s': the format has more than %zu bytes",
                           in.name, FORMAT_MAX_LEN);
    else if ((s = registry_find(ctx, req, in.name))) {
        if (ctx->formats - (s->format ? s->definer.weight : 0) + len > FORMATS_MAX_LEN)
            flux_respond_error(h, req, EBUSY,
                               "stream '%s' cannot be defined: the formats of all streams of the "
                               "session have at most %zu bytes",
                               s->name, FORMATS_MAX_LEN);
        else if (claims_weight_of_sender(ctx->definers, req, &s->definer) + len > SHARE_MAX_LEN)
            flux_respond_error(h, req, EBUSY,
                               "stream '%s' cannot be defined: the formats that one client has "
                               "defined have at most %zu bytes",
                               s->name, SHARE_MAX_LEN);
        else if (!(format = strdup(in.format)) || format_set(s, req, format) < 0)
            flux_respond_error(h, req, ENOMEM, "out of memory for stream '%s'", s->name);
        else
            flux_respond(h, req, NULL);
    }
    json_decref(owner);
}

void formats_format_cb(flux_t *h, const flux_msg_t *req, void *arg)
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

/* coord_listener.c - the stream of responses to one client that follows a job, at rank 0.
 *
 * Purpose: send notices and output to the client, as far as it has credit, and keep what it may not
 * have received.  A broker between may die with them: then the client resumes its stream with
 * another request.
 *
 * Numbers: records of output, and notices with a sentence, are counted from 1; they are kept until
 * the client acknowledges them (wrexec.credit), which it does for output anyway.  Other notices are
 * not counted, since a resumed stream begins with all that they say.
 *
 *     state    meaning                                          left when (by)
 *     here     the client receives                              the way to it is lost
 *                                                               (coord_listener_away): away
 *     away     nothing is sent; output waits, and blocks the    the client resumes the stream
 *              tasks, as if there was no credit                 (coord_listener_resume): here
 *     lost     the same; the broker of the client was lost,     the client resumes the stream, by
 *              from `here` or `away` (coord_listener_lost)      another sender: here
 *
 * In all states the listener may be over: its last response is known.
 *
 * Invariants:
 *  1. A client at this broker has no way that could be lost: nothing is kept for it.
 *  2. paid <= sent, and `sent` exceeds `paid` by at most the window and one record.  So this bounds
 *     what is kept of output.
 *
 * Failure: what cannot be kept, for lack of memory or because the client acknowledges no sentences
 * (SENTENCES_MAX), cannot be repeated either: then the stream cannot be resumed, and ends.  What
 * is kept and cannot be sent for lack of memory is sent with what follows.  A stream of which some
 * output was never sent ends with ENOMEM.
 */
#include "config.h"
#include "coord_listener.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "libservice/claim.h"

#define WINDOW_MAX (4u << 20)
#define SENTENCES_MAX (1u << 20) /* bytes, beyond those of output */

struct listener *coord_listener_create(flux_t *h, const flux_msg_t *req, uint64_t id,
                                       uint32_t window)
{
    struct listener *l = calloc(1, sizeof(*l));

    if (!l)
        return NULL;
    l->h = h;
    l->req = flux_msg_incref(req);
    l->id = id;
    l->window = !window ? WREXEC_CLIENT_WINDOW : window < WINDOW_MAX ? window : WINDOW_MAX;
    list_init(&l->node);
    list_init(&l->over);
    if (claim_sender_rank(req) != UINT32_MAX && !(l->kept = retain_create())) {
        coord_listener_destroy(l);
        errno = ENOMEM;
        return NULL;
    }
    return l;
}

void coord_listener_destroy(struct listener *l)
{
    if (!l)
        return;
    list_remove(&l->node);
    list_remove(&l->over);
    flux_msg_destroy(l->req);
    retain_destroy(l->kept);
    free(l->last);
    free(l);
}

/* What is not kept ends the possibility to resume. */
static void keep(struct listener *l, enum wire_type type, const void *data, size_t len)
{
    struct retained f;

    l->number++;
    if (!l->kept)
        return;
    if (retain_bytes(l->kept) > l->window + SENTENCES_MAX ||
        retain_add(l->kept, type, data, len) < 0) {
        l->lacks_some |= retain_next(l->kept, &f);
        retain_destroy(l->kept);
        l->kept = NULL;
    }
}

static int send(struct listener *l, enum wire_type type, const void *data, size_t len)
{
    return type == WIRE_OUTPUT ? flux_respond_more_raw(l->h, l->req, data, len)
                               : flux_respond_more(l->h, l->req, data);
}

/* Send what is kept and was not sent.  Returns -1 if some is left, for lack of memory. */
static int send_kept(struct listener *l)
{
    struct retained f;

    while (l->kept && !l->away && retain_next(l->kept, &f)) {
        if (send(l, f.type, f.data, f.len) < 0)
            return -1;
        retain_sent(l->kept);
    }
    return 0;
}

bool coord_listener_room(const struct listener *l)
{
    return !l->away && l->sent < l->paid + l->window;
}

bool coord_listener_output(struct listener *l, const void *data, size_t len)
{
    if (!coord_listener_room(l))
        return false;
    l->sent += len;
    keep(l, WIRE_OUTPUT, data, len);
    if (l->kept)
        (void)send_kept(l);
    else if (send(l, WIRE_OUTPUT, data, len) < 0)
        l->lacks_some = true;
    return true;
}

void coord_listener_notice(struct listener *l, const struct wrexec_notice *n)
{
    char *json = flux_schema_encode(&wrexec_notice_schema, n);
    bool counted = n->text || n->warning;

    if (json && counted)
        keep(l, WIRE_NOTE, json, strlen(json) + 1);
    if (json && counted && l->kept)
        (void)send_kept(l);
    else if (json && !l->away)
        (void)send(l, WIRE_NOTE, json, 0);
    free(json);
}

static void send_last(struct listener *l, bool lazy)
{
    if (l->away || !l->last)
        return;
    if (l->errnum)
        flux_respond_error(l->h, l->req, l->errnum, "%s", l->last);
    else if (lazy)
        flux_respond_lazy(l->h, l->req, l->last);
    else
        flux_respond(l->h, l->req, l->last);
}

bool coord_listener_end(struct listener *l, int errnum, const char *text, bool lazy)
{
    l->errnum = errnum;
    if (send_kept(l) < 0 || l->lacks_some) {
        flux_respond_error(l->h, l->req, ENOMEM,
                           "out of memory for output of job %" PRIu64 ": some of it was not sent",
                           l->id);
        return false;
    }
    if (!(l->last = strdup(text))) {
        flux_respond_error(l->h, l->req, ENOMEM, "out of memory for the end of job %" PRIu64,
                           l->id);
        return false;
    }
    send_last(l, lazy);
    return l->kept != NULL;
}

size_t coord_listener_bytes(const struct listener *l)
{
    return (l->kept ? retain_bytes(l->kept) : 0) + (l->last ? strlen(l->last) : 0);
}

bool coord_listener_is(const struct listener *l, const flux_msg_t *req, uint64_t token)
{
    char sender[FLUX_SENDER_MAX], theirs[FLUX_SENDER_MAX];

    return (token && token == l->token) ||
           strcmp(flux_msg_sender(req, sender, sizeof(sender)),
                  flux_msg_sender(l->req, theirs, sizeof(theirs))) == 0;
}

bool coord_listener_away(struct listener *l)
{
    if (l->kept)
        l->away = true;
    return l->away;
}

bool coord_listener_lost(struct listener *l)
{
    l->lost = l->token && coord_listener_away(l);
    return l->lost;
}

static void credit(struct listener *l, uint64_t received, uint64_t paid)
{
    if (paid > l->paid)
        l->paid = paid < l->sent ? paid : l->sent;
    if (l->kept && received <= l->number)
        (void)retain_ack(l->kept, received);
}

void coord_listener_credit(struct listener *l, uint64_t received, uint64_t paid)
{
    credit(l, received, paid);
    (void)send_kept(l);
}

int coord_listener_resume(struct listener *l, const flux_msg_t *req, const struct wrexec_listen *p,
                          errmsg_t *err)
{
    if (!l->away)
        return errmsg_fail(err, EBUSY, "another request follows job %" PRIu64, l->id);
    if (!l->kept)
        return errmsg_fail(err, ENODATA, "not all output for this client could be kept");
    if (p->received > l->number)
        return errmsg_fail(err, EPROTO,
                           "received: %" PRIu64 " responses, but only %" PRIu64 " were sent",
                           p->received, l->number);
    flux_msg_destroy(l->req);
    l->req = flux_msg_incref(req);
    l->away = l->lost = false;
    credit(l, p->received, p->paid);
    retain_rewind(l->kept);
    return 0;
}

void coord_listener_go_on(struct listener *l)
{
    (void)send_kept(l);
    send_last(l, false);
}

/* --- reload --- */

void coord_listener_save(const struct listener *l, flux_handover_t *o)
{
    flux_handover_put_msg(o, l->req);
    flux_handover_put(o, l->id);
    flux_handover_put(o, l->window);
    flux_handover_put(o, l->sent);
    flux_handover_put(o, l->paid);
    flux_handover_put(o, l->number);
    flux_handover_put(o, l->input);
    flux_handover_put(o, l->away);
    flux_handover_put(o, l->lost);
    flux_handover_put(o, l->token);
    flux_handover_put(o, l->lacks_some);
    flux_handover_put(o, l->kept != NULL);
    if (l->kept)
        retain_save(l->kept, o);
    flux_handover_put_str(o, l->last);
    flux_handover_put(o, (uint64_t)l->errnum);
}

struct listener *coord_listener_load(flux_t *h, flux_handover_t *o)
{
    flux_msg_t *req = flux_handover_get_msg(o);
    struct listener *l = req ? coord_listener_create(h, req, 0, 0) : NULL;
    const char *last;

    flux_msg_destroy(req);
    if (!l) {
        if (req)
            flux_handover_fail(o, ENOMEM);
        return NULL;
    }
    l->id = flux_handover_get(o, UINT64_MAX);
    l->window = (uint32_t)flux_handover_get(o, WINDOW_MAX);
    l->sent = flux_handover_get(o, UINT64_MAX);
    l->paid = flux_handover_get(o, UINT64_MAX);
    l->number = flux_handover_get(o, UINT64_MAX);
    l->input = flux_handover_get(o, 1);
    l->away = flux_handover_get(o, 1);
    l->lost = flux_handover_get(o, 1);
    l->token = flux_handover_get(o, UINT64_MAX);
    l->lacks_some = flux_handover_get(o, 1);
    if (!flux_handover_get(o, 1)) {
        retain_destroy(l->kept);
        l->kept = NULL;
    } else if (l->kept) {
        retain_load(l->kept, o);
    } else {
        flux_handover_fail(o, EPROTO);
    }
    if ((last = flux_handover_get_str(o)) && !(l->last = strdup(last)))
        flux_handover_fail(o, ENOMEM);
    l->errnum = (int)flux_handover_get(o, FLUX_MSG_ERRNUM_MAX);
    return l;
}

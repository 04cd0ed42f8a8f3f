/* jm_hold.c - requests that come before the jobs have been read back from the store.
 *
 * Purpose: after a restart the module does not answer for jobs that it has not read yet
 * (jm_load.c). Requests that come meanwhile are held, and handled in their order when all jobs are
 * there.
 *
 * Invariant: at most HELD_MAX requests are held, with at most HELD_BYTES of payload.
 *
 * Failure: one request more, or one for which there is no memory, is answered with EAGAIN.
 */
#include "config.h"
#include "jm_private.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define HELD_MAX 65536
#define HELD_BYTES (256u << 20)

struct jm_hold {
    struct list_node held; /* struct held */
    size_t n, bytes;
};

struct held {
    struct list_node node;
    flux_msg_t *req;
    flux_handler_f cb;
    size_t bytes;
    bool gone; /* its client is, or wants it no more */
};

bool jm_hold(struct jm *jm, const flux_msg_t *req, flux_handler_f cb)
{
    struct held *hd;
    size_t bytes;

    if (jm->ready)
        return false;
    (void)flux_msg_payload(req, &bytes);
    if (jm->hold->n >= HELD_MAX || jm->hold->bytes + bytes > HELD_BYTES ||
        !(hd = calloc(1, sizeof(*hd)))) {
        flux_respond_error(jm->h, req, EAGAIN,
                           "jobs are still being read back, and too many requests wait: try again");
        return true;
    }
    hd->req = flux_msg_incref(req);
    hd->cb = cb;
    hd->bytes = bytes;
    list_append(&jm->hold->held, &hd->node);
    jm->hold->n++;
    jm->hold->bytes += bytes;
    return true;
}

static struct held *unhold(struct jm *jm)
{
    struct list_node *n = list_first(&jm->hold->held);

    if (!n)
        return NULL;
    list_remove(n);
    jm->hold->n--;
    jm->hold->bytes -= list_entry(n, struct held, node)->bytes;
    return list_entry(n, struct held, node);
}

static void held_free(struct held *hd)
{
    flux_msg_destroy(hd->req);
    free(hd);
}

void jm_hold_over(struct jm *jm)
{
    struct held *hd;

    while ((hd = unhold(jm))) {
        /* The end of a client that has disconnected was reported: no second report would come. */
        if (!hd->gone || flux_msg_has_flag(hd->req, FLUX_MSGF_NORESPONSE))
            hd->cb(jm->h, hd->req, jm);
        held_free(hd);
    }
}

void jm_hold_cancel(struct jm *jm, const flux_msg_t *msg, uint32_t matchtag)
{
    char sender[FLUX_SENDER_MAX];

    flux_msg_sender(msg, sender, sizeof(sender));
    LIST_FOREACH(it, &jm->hold->held)
    {
        struct held *hd = list_entry(it, struct held, node);

        if (flux_msg_has_flag(hd->req, FLUX_MSGF_STREAMING) &&
            flux_msg_matchtag(hd->req) == matchtag && jm_request_is_from(hd->req, sender, NULL))
            hd->gone = true;
    }
}

void jm_hold_gone(struct jm *jm, const char *sender, const idset_t *ranks)
{
    LIST_FOREACH(it, &jm->hold->held)
    {
        struct held *hd = list_entry(it, struct held, node);

        hd->gone |= jm_request_is_from(hd->req, sender, ranks);
    }
}

int jm_hold_create(struct jm *jm)
{
    struct jm_hold *p = calloc(1, sizeof(*p));

    if (!p)
        return -1;
    jm->hold = p;
    list_init(&p->held);
    return 0;
}

void jm_hold_destroy(struct jm *jm)
{
    struct jm_hold *p = jm->hold;
    struct held *hd;

    if (!p)
        return;
    while ((hd = unhold(jm)))
        held_free(hd);
    free(p);
    jm->hold = NULL;
}

void jm_hold_stats(const struct jm *jm, struct jm_stats *st)
{
    st->held = jm->hold->n;
}

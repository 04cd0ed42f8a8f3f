/* jm_request.c - helpers for the handlers of requests: the sender, its permissions, the ids.
 *
 * Failure: a request whose ids cannot be decoded is answered with the error.
 */
#include "config.h"
#include "jm_private.h"

#include <errno.h>
#include <string.h>

#include "libjob/job_wire.h"

bool jm_request_may(const flux_msg_t *req, uint32_t uid)
{
    return (flux_msg_rolemask(req) & (FLUX_ROLE_OWNER | FLUX_ROLE_BROKER)) ||
           flux_msg_userid(req) == uid;
}

idset_t *jm_request_ids(struct jm *jm, const flux_msg_t *req, const char *text)
{
    errmsg_t err;
    idset_t *ids = idset_parse(text, &err);

    if (!ids) {
        flux_respond_error(jm->h, req, errno, "ids: %s", err.text);
    } else if (idset_count(ids) > JM_IDS_MAX) {
        flux_respond_error(jm->h, req, E2BIG, "ids: %zu are too many, at most %u", idset_count(ids),
                           JM_IDS_MAX);
        idset_destroy(ids);
        ids = NULL;
    }
    return ids;
}

bool jm_request_stream(struct jm *jm, const flux_msg_t *req, flux_handler_f cb, size_t n,
                       size_t max, idset_t **ids)
{
    struct job_ids in = {0};
    bool ok = false;
    json_t *owner;

    *ids = NULL;
    if (jm_request_early(jm, req, cb) ||
        flux_request_decode(jm->h, req, &job_ids_schema, &in, &owner) < 0)
        return false;
    if (!flux_msg_has_flag(req, FLUX_MSGF_STREAMING))
        flux_respond_error(jm->h, req, EPROTO, "%s has to be a streaming request",
                           flux_msg_topic(req));
    else if (n >= max)
        flux_respond_error(jm->h, req, EAGAIN, "%zu requests for %s are open already", n,
                           flux_msg_topic(req));
    else
        ok = !in.ids || (*ids = jm_request_ids(jm, req, in.ids));
    json_decref(owner);
    return ok;
}

bool jm_request_early(struct jm *jm, const flux_msg_t *req, flux_handler_f cb)
{
    if (!jm->ready)
        early_put(jm->early, req, cb, jm);
    return !jm->ready;
}

bool jm_request_is_from(const flux_msg_t *req, const char *sender, const idset_t *ranks)
{
    char name[FLUX_SENDER_MAX];
    uint32_t rank;

    if (sender)
        return strcmp(flux_msg_sender(req, name, sizeof(name)), sender) == 0;
    rank = claim_sender_rank(req);
    return rank != UINT32_MAX && idset_test(ranks, rank);
}

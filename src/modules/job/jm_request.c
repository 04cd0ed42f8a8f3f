/* jm_request.c - what the handlers of requests ask about a request: who sent it, may they, and
 * which jobs does it name.
 *
 * Failure: a request whose ids cannot be read is answered with the error.
 */
#include "config.h"
#include "jm_private.h"

#include <errno.h>
#include <string.h>

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

bool jm_request_is_from(const flux_msg_t *req, const char *sender, const idset_t *ranks)
{
    char name[FLUX_SENDER_MAX];
    uint32_t rank;

    if (sender)
        return strcmp(flux_msg_sender(req, name, sizeof(name)), sender) == 0;
    rank = claim_sender_rank(req);
    return rank != UINT32_MAX && idset_test(ranks, rank);
}

/* rpc.c - requests to one rank in their various forms, and the decoding of responses.
 *
 * A thin layer: requests are made here and sent by flux_rpc_msg(); responses are read through their
 * future (future.c) and decoded strictly.  Decoded data is valid as long as the result to which it
 * belongs.
 *
 * Failure: a response of the wrong kind is EPROTO, with an error message that names it.
 */
#include "config.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "future.h"
#include "handle_private.h"

flux_msg_t *rpc_make_request(const char *topic, uint32_t nodeid, unsigned flags)
{
    flux_msg_t *msg = flux_msg_create(FLUX_MSG_REQUEST, topic);

    if (msg) {
        flux_msg_set_nodeid(msg, nodeid);
        flux_msg_set_flags(msg, flags);
    }
    return msg;
}

flux_future_t *flux_rpc(flux_t *h, const char *topic, const char *json, uint32_t nodeid,
                        unsigned flags)
{
    flux_msg_t *msg = rpc_make_request(topic, nodeid, flags);

    if (!msg)
        return NULL;
    if (json && flux_msg_set_json(msg, json) < 0) {
        flux_msg_destroy(msg);
        return NULL;
    }
    return flux_rpc_msg(h, msg);
}

flux_future_t *flux_rpc_raw(flux_t *h, const char *topic, const void *data, size_t len,
                            uint32_t nodeid, unsigned flags)
{
    flux_msg_t *msg = rpc_make_request(topic, nodeid, flags);

    if (!msg)
        return NULL;
    if (flux_msg_set_raw(msg, data, len) < 0) {
        flux_msg_destroy(msg);
        return NULL;
    }
    return flux_rpc_msg(h, msg);
}

flux_future_t *flux_rpc_struct(flux_t *h, const char *topic, const struct flux_schema *desc,
                               const void *in, uint32_t nodeid, unsigned flags)
{
    char *json = flux_schema_encode(desc, in);
    flux_future_t *f = json ? flux_rpc(h, topic, json, nodeid, flags) : NULL;

    free(json);
    return f;
}

int flux_rpc_get(flux_future_t *f, errmsg_t *err)
{
    int errnum = flux_future_errnum(f);

    return errnum ? errmsg_fail(err, errnum, "%s", flux_future_error(f)) : 0;
}

int flux_rpc_get_json(flux_future_t *f, const char **json, errmsg_t *err)
{
    const flux_msg_t *msg = flux_rpc_get_msg(f);

    if (flux_rpc_get(f, err) < 0)
        return -1;
    if (!msg || !(*json = flux_msg_json(msg)))
        return errmsg_fail(err, EPROTO, "the response to %s has no JSON payload",
                           msg ? flux_msg_topic(msg) : "the request");
    return 0;
}

int flux_rpc_get_raw(flux_future_t *f, const void **data, size_t *len, errmsg_t *err)
{
    const flux_msg_t *msg = flux_rpc_get_msg(f);

    if (flux_rpc_get(f, err) < 0)
        return -1;
    *data = NULL;
    *len = 0;
    if (msg) {
        *data = flux_msg_payload(msg, len);
        if (*data && !flux_msg_has_flag(msg, FLUX_MSGF_RAW))
            return errmsg_fail(err, EPROTO,
                               "the response to %s has a JSON payload: expected raw bytes",
                               flux_msg_topic(msg));
    }
    return 0;
}

int flux_rpc_get_struct(flux_future_t *f, const struct flux_schema *desc, void *out, errmsg_t *err)
{
    const char *json;
    json_t *obj;
    errmsg_t why;

    if (flux_rpc_get_json(f, &json, err) < 0)
        return -1;
    if (!(obj = flux_schema_decode(desc, json, strlen(json), out, &why)))
        return errmsg_fail(err, errno, "the response to %s is invalid: %s",
                           flux_msg_topic(flux_rpc_get_msg(f)), why.text);
    future_keep_decoded(f, obj);
    return 0;
}

int flux_rpc_wait_struct(flux_future_t *f, double timeout, const struct flux_schema *desc,
                         void *out, errmsg_t *err)
{
    if (flux_future_wait(f, timeout) < 0)
        return errmsg_fail(err, errno, "%s",
                           errno == ETIMEDOUT ? "no response came in time" : strerror(errno));
    return desc ? flux_rpc_get_struct(f, desc, out, err) : flux_rpc_get(f, err);
}

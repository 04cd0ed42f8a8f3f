/* msg.c - messages and their one wire format.
 *
 * A frame is contiguous and little-endian; the same bytes pass over overlays and local sockets:
 *
 *    offset size
 *    0      1    magic 0xf1
 *    1      1    version 2
 *    2      1    type (1 request, 2 response, 4 event, 8 control)
 *    3      1    flags (FLUX_MSGF_*)
 *    4      4    user id
 *    8      4    role mask
 *    12     4    node id
 *    16     4    match tag
 *    20     4    errnum (response only, else 0)
 *    24     8    event: sequence; request: incarnation of the broker where it entered the session,
 *                32 bits, 0: not known; else 0
 *    32     2    topic length t, 1..255
 *    34     2    route count r, 0..1024 (requests and responses only)
 *    36     4    payload length p
 *    40     4    term (0: has not entered a session)
 *    44     4r   routes, the origin's first
 *    44+4r  t    topic
 *    ...    p    payload: UTF-8 JSON text, or raw bytes with FLUX_MSGF_RAW; an error message in an
 *                error response
 *
 * Drawing (frame): the same, byte by byte.
 *
 *     0       1         2      3       4         8           12        16
 *    +-------+---------+------+-------+---------+-----------+---------+-----------+
 *    | magic | version | type | flags | user id | role mask | node id | match tag |
 *    +-------+---------+------+-------+---------+-----------+---------+-----------+
 *     20        24                    32               34              36                 40
 *    +---------+---------------------+----------------+---------------+------------------+------+
 *    | errnum  | seq. / incarnation  | topic length t | route count r | payload length p | term |
 *    +---------+---------------------+----------------+---------------+------------------+------+
 *     44                       44+4r              44+4r+t
 *    +------------------------+------------------+-----------------------+
 *    | r routes, 4 bytes each | topic, t bytes   | payload, p bytes      |
 *    +------------------------+------------------+-----------------------+
 *
 * There is one frame instead of one ZeroMQ part per field, because a CURVE connection encrypts and
 * authenticates every part separately: five parts would cost five times the cipher calls and five
 * times the pipe slots.
 *
 * Invariants:
 *  1. Every message can be encoded, and its encoding decodes to an equal message.
 *  2. Topic and payload are followed by a NUL that is not part of them.
 *  3. JSON payloads contain no NUL byte, so a C string cannot hide the rest.
 *  4. The route stack never has more than 1024 entries, which ends a routing loop.
 *
 * Failure: decoding returns NULL with EPROTO and an error message that names the field; the input
 * is unchanged.
 */
#include "config.h"
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libutil/le.h"
#include "msg.h"

#define MSG_MAGIC 0xf1
#define MSG_VERSION 2
#define ROUTES_INLINE 6

struct flux_msg {
    atomic_int refcount;
    uint8_t type;
    uint8_t flags;
    uint8_t topic_len;
    bool payload_owned; /* separate allocation */
    uint16_t nroutes;
    uint16_t routes_cap;
    uint32_t userid;
    uint32_t rolemask;
    uint32_t nodeid;
    uint32_t matchtag;
    int32_t errnum;
    uint32_t term;
    uint64_t seq;
    uint32_t *routes; /* routes_inline or malloc'd */
    void *payload;
    size_t payload_len;
    uint32_t routes_inline[ROUTES_INLINE];
    char topic[]; /* topic, NUL, and in a decoded message the payload and its NUL */
};

static bool topic_valid(const char *topic, size_t len)
{
    if (len < 1 || len > FLUX_MSG_TOPIC_MAX)
        return false;
    for (size_t i = 0; i < len; i++) {
        if (topic[i] <= ' ' || topic[i] >= 0x7f)
            return false;
    }
    return true;
}

static bool type_valid(unsigned type)
{
    return type == FLUX_MSG_REQUEST || type == FLUX_MSG_RESPONSE || type == FLUX_MSG_EVENT ||
           type == FLUX_MSG_CONTROL;
}

static flux_msg_t *msg_alloc(unsigned type, const char *topic, size_t topic_len, size_t tail)
{
    flux_msg_t *msg = malloc(sizeof(*msg) + topic_len + 1 + tail);

    if (!msg)
        return NULL;
    memset(msg, 0, offsetof(struct flux_msg, routes_inline));
    atomic_init(&msg->refcount, 1);
    msg->type = type;
    msg->topic_len = topic_len;
    msg->routes = msg->routes_inline;
    msg->routes_cap = ROUTES_INLINE;
    msg->nodeid = FLUX_NODEID_ANY;
    msg->userid = FLUX_USERID_UNKNOWN;
    memcpy(msg->topic, topic, topic_len);
    msg->topic[topic_len] = '\0';
    return msg;
}

flux_msg_t *flux_msg_create(enum flux_msg_type type, const char *topic)
{
    size_t len = topic ? strlen(topic) : 0;

    if (!type_valid(type) || !topic_valid(topic, len)) {
        errno = EINVAL;
        return NULL;
    }
    return msg_alloc(type, topic, len, 0);
}

static int copy_routes(flux_msg_t *dst, const flux_msg_t *src)
{
    if (src->nroutes > dst->routes_cap) {
        uint32_t *p = malloc(src->nroutes * sizeof(*p));
        if (!p)
            return -1;
        dst->routes = p;
        dst->routes_cap = src->nroutes;
    }
    if (src->nroutes > 0)
        memcpy(dst->routes, src->routes, src->nroutes * sizeof(*dst->routes));
    dst->nroutes = src->nroutes;
    return 0;
}

flux_msg_t *flux_msg_response_create(const flux_msg_t *req, int errnum)
{
    flux_msg_t *msg;

    if (req->type != FLUX_MSG_REQUEST || errnum < 0 || errnum > FLUX_MSG_ERRNUM_MAX) {
        errno = EINVAL;
        return NULL;
    }
    if (!(msg = msg_alloc(FLUX_MSG_RESPONSE, req->topic, req->topic_len, 0)))
        return NULL;
    msg->matchtag = req->matchtag;
    msg->nodeid = req->nodeid;
    msg->errnum = errnum;
    msg->term = req->term;
    if (copy_routes(msg, req) < 0) {
        flux_msg_destroy(msg);
        return NULL;
    }
    return msg;
}

flux_msg_t *flux_msg_copy(const flux_msg_t *msg)
{
    flux_msg_t *cpy =
        msg_alloc(msg->type, msg->topic, msg->topic_len, msg->payload ? msg->payload_len + 1 : 0);

    if (!cpy)
        return NULL;
    cpy->flags = msg->flags;
    cpy->userid = msg->userid;
    cpy->rolemask = msg->rolemask;
    cpy->nodeid = msg->nodeid;
    cpy->matchtag = msg->matchtag;
    cpy->errnum = msg->errnum;
    cpy->seq = msg->seq;
    cpy->term = msg->term;
    if (msg->payload) {
        cpy->payload = cpy->topic + cpy->topic_len + 1;
        cpy->payload_len = msg->payload_len;
        memcpy(cpy->payload, msg->payload, msg->payload_len + 1);
    }
    if (copy_routes(cpy, msg) < 0) {
        flux_msg_destroy(cpy);
        return NULL;
    }
    return cpy;
}

flux_msg_t *flux_msg_incref(const flux_msg_t *const_msg)
{
    flux_msg_t *msg = (flux_msg_t *)const_msg;

    atomic_fetch_add_explicit(&msg->refcount, 1, memory_order_relaxed);
    return msg;
}

void flux_msg_destroy(flux_msg_t *msg)
{
    if (msg && atomic_fetch_sub_explicit(&msg->refcount, 1, memory_order_acq_rel) == 1) {
        int saved = errno;
        if (msg->payload_owned)
            free(msg->payload);
        if (msg->routes != msg->routes_inline)
            free(msg->routes);
        free(msg);
        errno = saved;
    }
}

enum flux_msg_type flux_msg_type(const flux_msg_t *msg)
{
    return msg->type;
}

const char *flux_msg_topic(const flux_msg_t *msg)
{
    return msg->topic;
}

unsigned flux_msg_flags(const flux_msg_t *msg)
{
    return msg->flags;
}

void flux_msg_set_flags(flux_msg_t *msg, unsigned flags)
{
    /* RAW describes the payload; only the payload setters change it. */
    msg->flags = (flags & FLUX_MSGF_ALL & ~FLUX_MSGF_RAW) | (msg->flags & FLUX_MSGF_RAW);
}

bool flux_msg_has_flag(const flux_msg_t *msg, unsigned flag)
{
    return (msg->flags & flag) != 0;
}

uint32_t flux_msg_nodeid(const flux_msg_t *msg)
{
    return msg->nodeid;
}

void flux_msg_set_nodeid(flux_msg_t *msg, uint32_t nodeid)
{
    msg->nodeid = nodeid;
}

uint32_t flux_msg_matchtag(const flux_msg_t *msg)
{
    return msg->matchtag;
}

void flux_msg_set_matchtag(flux_msg_t *msg, uint32_t tag)
{
    msg->matchtag = tag;
}

int flux_msg_errnum(const flux_msg_t *msg)
{
    return msg->errnum;
}

void flux_msg_set_errnum(flux_msg_t *msg, int errnum)
{
    if (msg->type == FLUX_MSG_RESPONSE && errnum >= 0 && errnum <= FLUX_MSG_ERRNUM_MAX)
        msg->errnum = errnum;
}

uint64_t flux_msg_seq(const flux_msg_t *msg)
{
    return msg->type == FLUX_MSG_EVENT ? msg->seq : 0;
}

void flux_msg_set_seq(flux_msg_t *msg, uint64_t seq)
{
    if (msg->type == FLUX_MSG_EVENT)
        msg->seq = seq;
}

uint32_t flux_msg_incarnation(const flux_msg_t *msg)
{
    return msg->type == FLUX_MSG_REQUEST ? (uint32_t)msg->seq : 0;
}

void flux_msg_set_incarnation(flux_msg_t *msg, uint32_t incarnation)
{
    if (msg->type == FLUX_MSG_REQUEST)
        msg->seq = incarnation;
}

uint32_t flux_msg_term(const flux_msg_t *msg)
{
    return msg->term;
}

void flux_msg_set_term(flux_msg_t *msg, uint32_t term)
{
    msg->term = term;
}

uint32_t flux_msg_userid(const flux_msg_t *msg)
{
    return msg->userid;
}

uint32_t flux_msg_rolemask(const flux_msg_t *msg)
{
    return msg->rolemask;
}

void flux_msg_set_cred(flux_msg_t *msg, uint32_t userid, uint32_t rolemask)
{
    msg->userid = userid;
    msg->rolemask = rolemask;
}

const void *flux_msg_payload(const flux_msg_t *msg, size_t *len)
{
    if (len)
        *len = msg->payload ? msg->payload_len : 0;
    return msg->payload;
}

const char *flux_msg_json(const flux_msg_t *msg)
{
    if (!msg->payload || (msg->flags & FLUX_MSGF_RAW)) {
        errno = EPROTO;
        return NULL;
    }
    return msg->payload;
}

static void drop_payload(flux_msg_t *msg)
{
    if (msg->payload_owned)
        free(msg->payload);
    msg->payload = NULL;
    msg->payload_len = 0;
    msg->payload_owned = false;
    msg->flags &= ~FLUX_MSGF_RAW;
}

static int set_payload(flux_msg_t *msg, const void *data, size_t len, unsigned raw)
{
    char *p;

    if (len > FLUX_MSG_PAYLOAD_MAX) {
        errno = EMSGSIZE;
        return -1;
    }
    if (len == 0) {
        drop_payload(msg);
        return 0;
    }
    if (!(p = malloc(len + 1)))
        return -1;
    memcpy(p, data, len);
    p[len] = '\0';
    drop_payload(msg);
    msg->payload = p;
    msg->payload_len = len;
    msg->payload_owned = true;
    msg->flags |= raw;
    return 0;
}

int flux_msg_set_json(flux_msg_t *msg, const char *json)
{
    return set_payload(msg, json, json ? strlen(json) : 0, 0);
}

int flux_msg_set_raw(flux_msg_t *msg, const void *data, size_t len)
{
    return set_payload(msg, data, len, FLUX_MSGF_RAW);
}

int flux_msg_take_raw(flux_msg_t *msg, void *data, size_t len)
{
    if (len > FLUX_MSG_PAYLOAD_MAX) {
        free(data);
        errno = EMSGSIZE;
        return -1;
    }
    drop_payload(msg);
    if (len == 0) {
        free(data);
        return 0;
    }
    ((char *)data)[len] = '\0';
    msg->payload = data;
    msg->payload_len = len;
    msg->payload_owned = true;
    msg->flags |= FLUX_MSGF_RAW;
    return 0;
}

int flux_msg_route_push(flux_msg_t *msg, uint32_t id)
{
    if (msg->type != FLUX_MSG_REQUEST && msg->type != FLUX_MSG_RESPONSE) {
        errno = EINVAL;
        return -1;
    }
    if (msg->nroutes >= FLUX_MSG_ROUTES_MAX) {
        errno = EOVERFLOW;
        return -1;
    }
    if (msg->nroutes == msg->routes_cap) {
        size_t cap = msg->routes_cap * 2;
        bool inl = msg->routes == msg->routes_inline;
        uint32_t *p = realloc(inl ? NULL : msg->routes, cap * sizeof(*p));
        if (!p)
            return -1;
        if (inl)
            memcpy(p, msg->routes_inline, sizeof(msg->routes_inline));
        msg->routes = p;
        msg->routes_cap = cap;
    }
    msg->routes[msg->nroutes++] = id;
    return 0;
}

int flux_msg_route_pop(flux_msg_t *msg, uint32_t *id)
{
    if (flux_msg_route_top(msg, id) < 0)
        return -1;
    msg->nroutes--;
    return 0;
}

int flux_msg_route_top(const flux_msg_t *msg, uint32_t *id)
{
    if (msg->nroutes == 0) {
        errno = ENOENT;
        return -1;
    }
    if (id)
        *id = msg->routes[msg->nroutes - 1];
    return 0;
}

size_t flux_msg_route_count(const flux_msg_t *msg)
{
    return msg->nroutes;
}

uint32_t flux_msg_route_at(const flux_msg_t *msg, size_t i)
{
    return i < msg->nroutes ? msg->routes[i] : 0;
}

void flux_msg_route_clear(flux_msg_t *msg)
{
    msg->nroutes = 0;
}

size_t flux_msg_encoded_size(const flux_msg_t *msg)
{
    return FLUX_MSG_HEADER_SIZE + 4 * (size_t)msg->nroutes + msg->topic_len + msg->payload_len;
}

void flux_msg_encode(const flux_msg_t *msg, void *buf)
{
    uint8_t *p = buf;

    p[0] = MSG_MAGIC;
    p[1] = MSG_VERSION;
    p[2] = msg->type;
    p[3] = msg->flags;
    le_put32(p + 4, msg->userid);
    le_put32(p + 8, msg->rolemask);
    le_put32(p + 12, msg->nodeid);
    le_put32(p + 16, msg->matchtag);
    le_put32(p + 20, (uint32_t)msg->errnum);
    le_put64(p + 24, msg->seq);
    le_put16(p + 32, msg->topic_len);
    le_put16(p + 34, msg->nroutes);
    le_put32(p + 36, (uint32_t)msg->payload_len);
    le_put32(p + 40, msg->term);
    p += FLUX_MSG_HEADER_SIZE;
    for (size_t i = 0; i < msg->nroutes; i++, p += 4)
        le_put32(p, msg->routes[i]);
    memcpy(p, msg->topic, msg->topic_len);
    if (msg->payload_len > 0)
        memcpy(p + msg->topic_len, msg->payload, msg->payload_len);
}

/* Check what the header alone shows, and compute the size of the frame. */
static ssize_t check_header(const uint8_t *p, errmsg_t *err)
{
    uint32_t nroutes = le_get16(p + 34);
    uint32_t topic_len = le_get16(p + 32);
    uint32_t payload_len = le_get32(p + 36);
    unsigned type = p[2];

    if (!type_valid(type))
        return errmsg_fail(err, EPROTO, "message type %u is unknown", type);
    _Static_assert(FLUX_MSGF_ALL == UINT8_MAX, "all flags have a meaning, so none is refused");
    if (topic_len < 1 || topic_len > FLUX_MSG_TOPIC_MAX)
        return errmsg_fail(err, EPROTO, "topic length %u is not in 1-255", topic_len);
    if (nroutes > FLUX_MSG_ROUTES_MAX)
        return errmsg_fail(err, EPROTO, "message has %u routes, 1024 at most", nroutes);
    if (nroutes > 0 && type != FLUX_MSG_REQUEST && type != FLUX_MSG_RESPONSE)
        return errmsg_fail(err, EPROTO, "an event or control message has routes");
    if (payload_len > FLUX_MSG_PAYLOAD_MAX)
        return errmsg_fail(err, EPROTO, "payload of %u bytes is over the limit of %u", payload_len,
                           FLUX_MSG_PAYLOAD_MAX);
    if (le_get32(p + 20) > FLUX_MSG_ERRNUM_MAX ||
        (type != FLUX_MSG_RESPONSE && le_get32(p + 20) != 0))
        return errmsg_fail(err, EPROTO, "error number %u is not allowed here", le_get32(p + 20));
    if (type == FLUX_MSG_REQUEST ? le_get64(p + 24) > UINT32_MAX
                                 : type != FLUX_MSG_EVENT && le_get64(p + 24) != 0)
        return errmsg_fail(err, EPROTO,
                           "only an event has a sequence number, and only a request an incarnation "
                           "of 32 bits");
    return FLUX_MSG_HEADER_SIZE + 4 * (ssize_t)nroutes + topic_len + payload_len;
}

ssize_t flux_msg_frame_size(const void *buf, size_t len, errmsg_t *err)
{
    const uint8_t *p = buf;

    if (len >= 1 && p[0] != MSG_MAGIC)
        return errmsg_fail(err, EPROTO, "first byte 0x%02x does not begin a message", p[0]);
    if (len >= 2 && p[1] != MSG_VERSION)
        return errmsg_fail(
            err, EPROTO,
            "the message format is %u, and not %u: the sender is another version of Flux", p[1],
            MSG_VERSION);
    if (len < FLUX_MSG_HEADER_SIZE)
        return 0;
    return check_header(p, err);
}

flux_msg_t *flux_msg_decode(const void *buf, size_t len, errmsg_t *err)
{
    const uint8_t *p = buf;
    ssize_t size = flux_msg_frame_size(buf, len, err);
    const char *topic;
    size_t topic_len;
    size_t nroutes;
    size_t payload_len;
    flux_msg_t *msg;

    if (size < 0)
        return NULL;
    if (size == 0 || (size_t)size != len) {
        errmsg_fail(err, EPROTO, "message of %zu bytes is truncated or has extra bytes", len);
        return NULL;
    }
    topic_len = le_get16(p + 32);
    nroutes = le_get16(p + 34);
    payload_len = le_get32(p + 36);
    topic = (const char *)p + FLUX_MSG_HEADER_SIZE + 4 * nroutes;
    if (!topic_valid(topic, topic_len)) {
        errmsg_fail(err, EPROTO, "topic contains blanks or unprintable bytes");
        return NULL;
    }
    if (payload_len > 0 && !(p[3] & FLUX_MSGF_RAW) && memchr(topic + topic_len, 0, payload_len)) {
        errmsg_fail(err, EPROTO, "payload is marked as text but contains a NUL byte");
        return NULL;
    }
    if (!(msg = msg_alloc(p[2], topic, topic_len, payload_len > 0 ? payload_len + 1 : 0))) {
        errmsg_set(err, "out of memory for a message of %zu bytes", len);
        return NULL;
    }
    msg->flags = p[3];
    msg->userid = le_get32(p + 4);
    msg->rolemask = le_get32(p + 8);
    msg->nodeid = le_get32(p + 12);
    msg->matchtag = le_get32(p + 16);
    msg->errnum = (int32_t)le_get32(p + 20);
    msg->seq = le_get64(p + 24);
    msg->term = le_get32(p + 40);
    if (nroutes > ROUTES_INLINE) {
        if (!(msg->routes = malloc(nroutes * sizeof(*msg->routes)))) {
            msg->routes = msg->routes_inline;
            flux_msg_destroy(msg);
            errmsg_set(err, "out of memory for a message of %zu bytes", len);
            errno = ENOMEM;
            return NULL;
        }
        msg->routes_cap = nroutes;
    }
    for (size_t i = 0; i < nroutes; i++)
        msg->routes[i] = le_get32(p + FLUX_MSG_HEADER_SIZE + 4 * i);
    msg->nroutes = nroutes;
    if (payload_len > 0) {
        msg->payload = msg->topic + topic_len + 1;
        msg->payload_len = payload_len;
        memcpy(msg->payload, topic + topic_len, payload_len);
        ((char *)msg->payload)[payload_len] = '\0';
    }
    return msg;
}

bool flux_topic_prefix(const char *topic, const char *prefix)
{
    return strncmp(topic, prefix, strlen(prefix)) == 0;
}

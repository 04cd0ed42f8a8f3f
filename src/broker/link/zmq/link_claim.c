/* link_claim.c - the claims of connections, and the connections that carry a neighbor.
 *
 * Purpose: a frame names, by its routing id or as a subscription, the rank that has sent it, and
 * CURVE has proved the key of the sender.  This file decides whether that rank is, or becomes, a
 * neighbor that this connection carries.
 *
 * Format: see link.c for the routing ids, and for the topic of the subscription that is a claim.
 *
 * Invariants:
 *  1. A connection carries a neighbor only if its sender has the key of that rank: link_allow() has
 *     named the key, or, for a rank that has lost its parent, the brokers between have reported it
 *     (core_key_of()).
 *  2. A neighbor is carried by the connections of one attempt (link.attempt).  The first connection
 *     of a later attempt, whether it is for messages or events, takes the place of both: the core
 *     is notified that the neighbor was lost, and is back.
 *  3. The earlier attempt gives way when the neighbor is gone, when the session counts the rank as
 *     lost, or when the neighbor has lost its parent and was not welcomed: it has then given up the
 *     earlier attempt.  Otherwise the later attempt is refused.
 *  4. Connections of an attempt before the present one are not accepted.  Their sender has closed
 *     them, so nothing is logged, or cut off: the descriptor may be that of a later connection.
 *
 * Failure: a claim that is refused is logged, once for each attempt, and the connection is cut off
 * (link_gate.c).
 */
#include <stdio.h>
#include <string.h>
#include <syslog.h>
#include <zmq.h>

#include "libutil/hex.h"
#include "libutil/strutil.h"
#include "link_private.h"

#define UP_PREFIX "up."
#define REFUSAL_SIZE 160

/* --- claims --- */

/* Returns whether the peer owns the key of the rank that it claims.  CURVE has proved the key, and
 * zap.c has returned it as the user id. */
static bool owns(const link_t *l, const char *key, zmq_msg_t *frame)
{
    const char *user;

    if (!l->curve)
        return true;
    user = zmq_msg_gets(frame, "User-Id");
    return user && key && key[0] && strcmp(user, key) == 0;
}

static bool claim_ok(const struct link_peer *p, zmq_msg_t *frame)
{
    return owns(p->l, p->key, frame);
}

/* Admit a broker below this one that has lost its parent.  Returns NULL if the core does not adopt
 * it.  An earlier connection without a welcome gives way: the broker has given it up. */
static struct link_peer *adopt(link_t *l, uint32_t rank, zmq_msg_t *frame)
{
    const char *key = l->curve ? core_key_of(l->core, rank) : "";
    struct link_peer *p;

    if (!owns(l, key, frame) || !core_peer_adopt(l->core, rank))
        return NULL;
    if ((p = link_inbound(l, CORE_TREE, rank)) || (p = link_add_inbound(l, CORE_TREE, rank))) {
        p->adopted = true;
        snprintf(p->key, sizeof(p->key), "%s", key);
    }
    return p;
}

/* Returns whether this link, and no other one, carries the neighbor. */
static bool claimed(const struct link_peer *p)
{
    return !p->l->claim || p->l->claim(p->l->claim_arg, p->plane, p->rank);
}

/* --- refusals --- */

/* A word has too little room for advice, so each end adds it to what it logs. */
const char *link_refusal_advice(const char *why)
{
    static const struct {
        const char *why;
        const char *advice;
    } known[] = {
        {LINK_WHY_VERSION, "start the same version of Flux at all ranks"},
        {LINK_WHY_NO_BROKER, "let only brokers of this session connect to this address"},
        {LINK_WHY_NO_NEIGHBOR, "use the same configuration at all ranks"},
        {LINK_WHY_KEY, "start it with the key of its own rank (session.keyfile)"},
        {LINK_WHY_TAKEN, "stop one of the two brokers of this rank"},
    };

    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        if (strcmp(why, known[i].why) == 0)
            return known[i].advice;
    }
    return "see the messages of the other one";
}

static bool same_attempt(struct link_attempt a, struct link_attempt b)
{
    return a.broker == b.broker && a.number == b.number;
}

/* Log why a broker is refused, and what to do.  An attempt has two connections, and may send
 * several frames on each: it gets one line.  (Its number is 0 if the sender has not identified
 * itself.) */
static void log_refusal(link_t *l, int which, zmq_msg_t *frame, struct link_attempt at,
                        const char *why, const char *text)
{
    bool again = at.number > 0 && same_attempt(l->refused, at);

    l->stats.misclaimed++;
    l->refused = at;
    if (!again)
        linklog(&l->log, LOG_ERR, "refused a broker at %s: %s: %s",
                link_gate_address(l, which, frame), text, link_refusal_advice(why));
}

/* Refuse the sender: log `text`, send the reason `why`, and cut the connection off. */
static void turn_away(link_t *l, zmq_msg_t *id, zmq_msg_t *frame, struct link_attempt at,
                      const char *why, const char *text)
{
    void *sock = l->src[SRC_IN].sock;
    char word[LINK_WORD_MAX + 1];

    log_refusal(l, SRC_IN, frame, at, why, text);
    snprintf(word, sizeof(word), LINK_WORD_REFUSED "%s", why);
    if (zmq_send(sock, zmq_msg_data(id), zmq_msg_size(id), ZMQ_SNDMORE | ZMQ_DONTWAIT) >= 0)
        zmq_send(sock, word, strlen(word), ZMQ_DONTWAIT);
    link_gate_reject(l, SRC_IN, frame);
}

/* Drop a frame of an attempt that its broker has given up (invariant 4).  Returns true for such a
 * frame. */
static bool drop_outdated(link_t *l, const struct link_peer *p, struct link_attempt at)
{
    if (!p || p->attempt.broker != at.broker || at.number >= p->attempt.number)
        return false;
    l->stats.outdated++;
    return true;
}

/* Returns whether the neighbor has another connection, which does not give way. */
static bool is_taken(const struct link_peer *p, struct link_attempt at)
{
    return p->attempt.number && !same_attempt(p->attempt, at) && p->state != LINK_GONE &&
           !p->adopted && !core_peer_stale(p->l->core, p->plane, p->rank);
}

/* Return the peer of a connection of this attempt, which may become a child. */
static struct link_peer *expect(link_t *l, enum core_plane plane, uint32_t rank,
                                struct link_attempt at, zmq_msg_t *frame)
{
    struct link_peer *p = link_inbound(l, plane, rank);

    if (plane == CORE_TREE && (!p || (p->adopted && !same_attempt(p->attempt, at))))
        p = adopt(l, rank, frame);
    return p;
}

/* Give the peer a connection of this attempt, whose broker has the key of the rank. */
static void enter(struct link_peer *p, struct link_attempt at)
{
    link_t *l = p->l;
    bool first = p->attempt.number == 0;

    if (same_attempt(p->attempt, at))
        return;
    if (!first && p->state != LINK_GONE)
        link_peer_fail(p, "another broker has taken its place");
    p->attempt = at;
    if (first)
        return;
    link_report_lost(l); /* before the report that it is back */
    link_gate_forget(l, p);
    link_peer_renew(p);
    core_peer_back(l->core, p->plane, p->rank);
}

/* Return why a broker of this rank is refused, and say in `text` how it came to that, or return
 * NULL if it is not.  `p`: its peer, or NULL; `taken`, `ours`: what is known of its connections. */
static const char *why_refused(const link_t *l, const struct link_peer *p, uint32_t rank,
                               zmq_msg_t *frame, bool taken, bool ours, char *text, size_t size)
{
    if (!p) {
        snprintf(
            text, size,
            "it claims to be rank %u, which is not a neighbor of rank %u, and is not taken over",
            rank, l->rank);
        return LINK_WHY_NO_NEIGHBOR;
    }
    if (!claim_ok(p, frame)) {
        snprintf(text, size, "it claims to be rank %u but has the key of another rank", rank);
        return LINK_WHY_KEY;
    }
    if (taken) {
        snprintf(text, size, "it is rank %u, which has another connection to this broker", rank);
        return LINK_WHY_TAKEN;
    }
    if (!ours && !claimed(p)) {
        snprintf(text, size, "it is rank %u, which another link carries", rank);
        return LINK_WHY_TAKEN;
    }
    return NULL;
}

static uint32_t get_u32(const uint8_t *b)
{
    return (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
}

static struct link_attempt to_attempt(const uint8_t *b)
{
    return (struct link_attempt){get_u32(b), get_u32(b + 4)};
}

bool link_parse_id(const void *data, size_t len, enum core_plane *plane, uint32_t *rank,
                   struct link_attempt *at)
{
    const uint8_t *b = data;

    if (len != LINK_ID_SIZE || (b[0] != 'T' && b[0] != 'R'))
        return false;
    *plane = b[0] == 'R' ? CORE_RING : CORE_TREE;
    *rank = get_u32(b + 1);
    *at = to_attempt(b + LINK_ID_NAME);
    return at->number > 0;
}

struct link_peer *link_identify(link_t *l, zmq_msg_t *id, zmq_msg_t *frame)
{
    enum core_plane plane;
    struct link_attempt at = {0};
    struct link_peer *p;
    char text[REFUSAL_SIZE];
    const char *why;
    uint32_t rank;

    if (!link_parse_id(zmq_msg_data(id), zmq_msg_size(id), &plane, &rank, &at)) {
        turn_away(l, id, frame, at, LINK_WHY_NO_BROKER, "it does not identify itself as a broker");
        return NULL;
    }
    if (drop_outdated(l, link_inbound(l, plane, rank), at))
        return NULL;
    p = expect(l, plane, rank, at, frame);
    if ((why = why_refused(l, p, rank, frame, p && is_taken(p, at), p && p->named, text,
                           sizeof(text)))) {
        turn_away(l, id, frame, at, why, text);
        return NULL;
    }
    enter(p, at);
    if (p->greeted)
        return p;
    memcpy(p->id, zmq_msg_data(id), LINK_ID_SIZE);
    p->named = true;
    link_gate_admit(l, SRC_IN, frame, p);
    return p;
}

/* --- subscriptions --- */

static void child_event_up(struct link_peer *p)
{
    if (p->state == LINK_GONE || p->event_up)
        return;
    p->event_up = true;
    p->l->event_up++;
    core_child_event_up(p->l->core, p->rank);
}

/* "\1up.RANK.ATTEMPT", where ATTEMPT has 16 hexadecimal digits. */
bool link_parse_subscription(const void *frame, size_t len, uint32_t *rank, struct link_attempt *at)
{
    const char *data = frame;
    uint8_t bin[sizeof(*at)];
    char topic[40], *dot;

    if (len < 1 + strlen(UP_PREFIX) || len > sizeof(topic) || data[0] != 1 ||
        memcmp(data + 1, UP_PREFIX, strlen(UP_PREFIX)) != 0)
        return false; /* the subscription to "" */
    memcpy(topic, data + 1, len - 1);
    topic[len - 1] = '\0';
    if (!(dot = strrchr(topic, '.')))
        return false;
    *dot++ = '\0';
    if (strlen(dot) != 2 * sizeof(bin) || hex_decode(bin, dot, sizeof(bin)) < 0)
        return false;
    *at = to_attempt(bin);
    return at->number > 0 && str2u32(topic + strlen(UP_PREFIX), rank) == 0;
}

/* Take a subscription.  The monitor of the socket reports its end, because an unsubscription does
 * not name the child that it came from. */
void link_take_subscription(link_t *l, zmq_msg_t *frame)
{
    char text[REFUSAL_SIZE];
    struct link_attempt at;
    struct link_peer *p;
    const char *why;
    uint32_t rank;
    bool taken;

    if (!link_parse_subscription(zmq_msg_data(frame), zmq_msg_size(frame), &rank, &at))
        return;
    if (drop_outdated(l, link_inbound(l, CORE_TREE, rank), at))
        return;
    p = expect(l, CORE_TREE, rank, at, frame);
    taken = p && (is_taken(p, at) || (same_attempt(p->attempt, at) && p->connected));
    if ((why = why_refused(l, p, rank, frame, taken, false, text, sizeof(text)))) {
        log_refusal(l, SRC_PUB, frame, at, why, text);
        link_gate_reject(l, SRC_PUB, frame);
        return;
    }
    enter(p, at);
    p->connected = true;
    link_gate_admit(l, SRC_PUB, frame, p);
    child_event_up(p);
    if (p->state == LINK_GONE) {
        link_send_word(p, LINK_WORD_CUT);
        flux_watcher_start(l->flush);
    }
}

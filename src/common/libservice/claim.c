/* claim.c - the resources that each client of a service has there.
 *
 * A sender (flux_msg_sender()) gets an entry with its first claim, and loses it with its last.
 * Each sender has a number; (number, match tag) finds the claim to which a cancel refers.
 *
 * Invariants:
 *  1. A claim is in the list of exactly one sender, or has none.
 *  2. A sender without claims has no entry: clients that come and go leave nothing behind.
 *  3. `weight` of a sender is the sum of the weights of its claims.
 *  4. A claim is dropped before gone() is called, so its owner may free it there.
 *  5. The notice that a way was lost ends no claim of a request that came another way: a sender
 *     below a broker that was lost may have sent its requests again, past it, before the broker
 *     above notices the loss.
 *
 * Failure: a sender that uses one match tag for two requests can cancel only the later one; its
 * disconnect ends both.
 */
#include "config.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "claim.h"
#include "libflux/route.h"
#include "libutil/hmap.h"
#include "libutil/strvec.h"

struct claimant {
    struct list_node claims;
    size_t n;      /* number of these claims */
    size_t weight; /* of all claims together */
    uint32_t number;
    uint32_t rank;
    char name[];
};

struct claims {
    hmap_t *by_name;
    hmap_t *by_tag;
    uint32_t last;
};

struct claims *claims_create(void)
{
    struct claims *ss = calloc(1, sizeof(*ss));

    if (!ss)
        return NULL;
    ss->by_name = hmap_create_str(NULL);
    ss->by_tag = hmap_create_u64(NULL);
    if (!ss->by_name || !ss->by_tag) {
        claims_destroy(ss);
        errno = ENOMEM;
        return NULL;
    }
    return ss;
}

static uint64_t tag_key(const struct claimant *s, uint32_t matchtag)
{
    return (uint64_t)s->number << 32 | matchtag;
}

void claims_destroy(struct claims *ss)
{
    int saved = errno;
    size_t pos = 0;
    void *val;

    if (!ss)
        return;
    while (ss->by_name && hmap_next(ss->by_name, &pos, NULL, NULL, &val)) {
        struct claimant *s = val;
        LIST_FOREACH_SAFE(n, tmp, &s->claims)
        {
            list_remove(n);
            list_entry(n, struct claim, node)->s = NULL;
        }
        free(s);
    }
    hmap_destroy(ss->by_name);
    hmap_destroy(ss->by_tag);
    free(ss);
    errno = saved;
}

uint32_t claim_sender_rank(const flux_msg_t *msg)
{
    return flux_msg_route_count(msg) > 1 ? flux_route_value(flux_msg_route_at(msg, 1)) : UINT32_MAX;
}

static struct claimant *sender_new(struct claims *ss, const char *name, uint32_t rank)
{
    size_t len = strlen(name);
    struct claimant *s = malloc(sizeof(*s) + len + 1);

    if (!s)
        return NULL;
    list_init(&s->claims);
    s->n = s->weight = 0;
    s->number = ++ss->last;
    s->rank = rank;
    memcpy(s->name, name, len + 1);
    if (hmap_put(ss->by_name, name, s) < 0) {
        free(s);
        errno = ENOMEM;
        return NULL;
    }
    return s;
}

static void sender_settle(struct claims *ss, struct claimant *s)
{
    if (!list_empty(&s->claims))
        return;
    (void)hmap_take(ss->by_name, s->name);
    free(s);
}

int claim_take_sender(struct claims *ss, struct claim *c, const flux_msg_t *req,
                      void (*gone)(struct claim *c, bool canceled))
{
    char name[FLUX_SENDER_MAX];
    struct claimant *s;

    flux_msg_sender(req, name, sizeof(name));
    c->s = NULL;
    c->weight = 0;
    c->way = 0;
    c->matchtag = flux_msg_matchtag(req);
    list_init(&c->node);
    if (!(s = hmap_get(ss->by_name, name)) && !(s = sender_new(ss, name, claim_sender_rank(req))))
        return -1;
    c->s = s;
    c->gone = gone;
    list_append(&s->claims, &c->node);
    s->n++;
    return 0;
}

int claim_take(struct claims *ss, struct claim *c, const flux_msg_t *req,
               void (*gone)(struct claim *c, bool canceled))
{
    if (claim_take_sender(ss, c, req, gone) < 0)
        return -1;
    c->way = flux_msg_way(req);
    if (hmap_put_u64(ss->by_tag, tag_key(c->s, c->matchtag), c) < 0) {
        claim_drop(ss, c);
        errno = ENOMEM;
        return -1;
    }
    return 0;
}

void claim_weigh(struct claim *c, size_t weight)
{
    c->s->weight += weight - c->weight;
    c->weight = weight;
}

static void unlink_claim(struct claims *ss, struct claim *c)
{
    uint64_t key = tag_key(c->s, c->matchtag);

    if (hmap_get_u64(ss->by_tag, key) == c)
        (void)hmap_take_u64(ss->by_tag, key);
    list_remove(&c->node);
    claim_weigh(c, 0);
    c->s->n--;
    c->s = NULL;
}

void claim_drop(struct claims *ss, struct claim *c)
{
    struct claimant *s = c->s;

    if (!s)
        return;
    unlink_claim(ss, c);
    sender_settle(ss, s);
}

/* `way`: only the claims of requests that came this way; 0: all. */
static struct claim *claim_by_way(const struct claimant *s, uint64_t way)
{
    LIST_FOREACH(n, &s->claims)
    {
        struct claim *c = list_entry(n, struct claim, node);

        if (!way || !c->way || c->way == way)
            return c;
    }
    return NULL;
}

static void sender_gone(struct claims *ss, const char *name, uint64_t way)
{
    struct claimant *s;
    struct claim *c;

    /* The end of a claim may end others of the same sender: look it up anew. */
    while ((s = hmap_get(ss->by_name, name)) && (c = claim_by_way(s, way))) {
        claim_drop(ss, c);
        c->gone(c, false);
    }
}

void claims_disconnect(struct claims *ss, const flux_msg_t *notice)
{
    bool way_lost = flux_msg_has_flag(notice, FLUX_MSGF_IDEMPOTENT);
    char name[FLUX_SENDER_MAX];

    sender_gone(ss, flux_msg_sender(notice, name, sizeof(name)),
                way_lost ? flux_msg_way(notice) : 0);
}

static const struct claimant *sender_find(const struct claims *ss, const flux_msg_t *msg)
{
    char name[FLUX_SENDER_MAX];

    return hmap_get(ss->by_name, flux_msg_sender(msg, name, sizeof(name)));
}

void claims_each(const struct claims *ss, const flux_msg_t *msg,
                 void (*each)(struct claim *c, void *arg), void *arg)
{
    const struct claimant *s = sender_find(ss, msg);

    if (!s)
        return;
    LIST_FOREACH(n, &s->claims)
    {
        each(list_entry(n, struct claim, node), arg);
    }
}

void claim_expire(struct claims *ss, struct claim *c)
{
    claim_drop(ss, c);
    c->gone(c, false);
}

void claims_lost(struct claims *ss, const idset_t *ranks)
{
    strvec_t *names = strvec_create();
    size_t pos = 0;
    void *val;

    /* First find the senders, then end each, which may remove others from the map. */
    while (names && hmap_next(ss->by_name, &pos, NULL, NULL, &val)) {
        const struct claimant *s = val;
        if (s->rank != UINT32_MAX && idset_test(ranks, s->rank) && strvec_add(names, s->name) < 0)
            break; /* out of memory: the rest stay until they cancel */
    }
    for (size_t i = 0; names && i < strvec_count(names); i++)
        sender_gone(ss, strvec_at(names, i), 0);
    strvec_destroy(names);
}

void claims_cancel(struct claims *ss, const flux_msg_t *msg, uint32_t matchtag)
{
    char name[FLUX_SENDER_MAX];
    struct claimant *s;
    struct claim *c;

    flux_msg_sender(msg, name, sizeof(name));
    if (!(s = hmap_get(ss->by_name, name)) ||
        !(c = hmap_get_u64(ss->by_tag, tag_key(s, matchtag))) || c->s != s)
        return;
    claim_drop(ss, c);
    c->gone(c, true);
}

const char *claim_gone_why(bool canceled)
{
    return canceled ? "was canceled" : "has lost the client that requested it";
}

size_t claims_of_sender(const struct claims *ss, const flux_msg_t *msg)
{
    const struct claimant *s = sender_find(ss, msg);

    return s ? s->n : 0;
}

size_t claims_weight_of_sender(const struct claims *ss, const flux_msg_t *msg,
                               const struct claim *except)
{
    const struct claimant *s = sender_find(ss, msg);

    return s ? s->weight - (except && except->s == s ? except->weight : 0) : 0;
}

size_t claims_count(const struct claims *ss)
{
    return hmap_count(ss->by_name);
}

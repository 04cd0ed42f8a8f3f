/* mixlink.c - a link made of two: UNIX sockets and ZeroMQ.
 *
 * Purpose: in a session on several hosts, some of which have several brokers, those of one host are
 * neighbors without an I/O thread and encryption between them.
 *
 * A broker listens on both links, and each neighbor is carried by one of them.  The broker that
 * connects chooses, by the neighbor's address:
 *
 *    PLACE of the neighbor    its UNIX socket                         carried by
 *    another one, or none     -                                       ZeroMQ
 *    that of this broker      cannot be reached, or is another        ZeroMQ; the reason is logged
 *                             user's
 *    that of this broker      is reached                              UNIX sockets
 *
 * A socket cannot be reached, for example, from a container that shares the network of its host,
 * but not its directories.  All brokers listen before one of them knows an address (boot.c), so the
 * choice needs no second attempt.  The broker that listens follows: the link on which a neighbor
 * proves who it is carries it.
 *
 * Invariants:
 *  1. A neighbor is carried by one link for as long as the session lasts, also when another broker
 *     of its rank has taken its place.  The choice is made
 *     before anything is sent to it; a connection on the other link is refused (claim).
 *  2. Each link authenticates as it does alone: SO_PEERCRED and the keys of the session for UNIX
 *     sockets, CURVE for ZeroMQ.  Equal places only save an attempt that cannot succeed: they prove
 *     nothing, and nothing is granted for them.
 *  3. Both links call the core; this file only chooses between them.
 *  4. A broker whose neighbors are all connected, and by UNIX sockets, once the session runs ends
 *     ZeroMQ, and has none of its threads from then on.
 *
 * Failure: a broker that cannot listen on its UNIX socket listens on ZeroMQ only, and logs it.
 */
#include "config.h"
#include "mixlink.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <syslog.h>

#include "libidset/idset.h"
#include "libutil/hmap.h"
#include "libutil/strutil.h"
#include "src/broker/link/unix/ulink.h"

typedef struct mixlink mixlink_t;

struct half {
    mixlink_t *m;
    const struct core_link_ops *ops;
    void *arg; /* NULL: this broker does, or goes on, without it */
};

/* A neighbor to which this broker connects. */
struct outbound {
    struct half *by; /* NULL: there is none */
    uint32_t rank;
    char why[160]; /* it is on this host, and yet not carried by UNIX sockets; "": otherwise */
};

struct mixlink {
    core_t *core;
    struct half local, remote;
    char *place;     /* of this broker; NULL: not known */
    char *uri;       /* at which it listens */
    char why[160];   /* why not at a UNIX socket; "": it does, or was not asked to */
    hmap_t *inbound; /* plane << 32 | rank -> struct half: those that have connected */
    struct outbound parent, next;
    bool running; /* the session is */
    void (*log)(void *arg, int level, const char *text);
    void *log_arg;
};

/* --- addresses --- */

struct address {
    char *remote;
    char *local; /* unix://PATH; NULL: absent */
    char *place;
};

bool mixlink_is_address(const char *uri)
{
    return str_starts(uri, "tcp://") && strstr(uri, MIXLINK_LOCAL);
}

static void address_clear(struct address *a)
{
    free(a->remote);
    free(a->local);
    free(a->place);
}

/* -1 with ENOMEM; the result is to be cleared in any case. */
static int address_parse(const char *uri, struct address *a, errmsg_t *err)
{
    const char *local = strstr(uri, MIXLINK_LOCAL);
    const char *at = local ? strrchr(local, '@') : NULL; /* a path may have some, too */

    *a = (struct address){NULL, NULL, NULL};
    a->remote = strndup(uri, at ? (size_t)(local - uri) : strlen(uri));
    if (at) {
        a->local = strndup(local + 1, (size_t)(at - local - 1));
        a->place = strdup(at + 1);
    }
    if (!a->remote || (at && (!a->local || !a->place)))
        return errmsg_fail(err, ENOMEM, "out of memory for the address %.100s", uri);
    return 0;
}

/* --- who carries a neighbor --- */

static uint64_t key_of(enum core_plane plane, uint32_t rank)
{
    return (uint64_t)plane << 32 | rank;
}

/* NULL: it has not connected yet. */
static struct half *carrier(const mixlink_t *m, enum core_plane plane, uint32_t rank)
{
    const struct outbound *out = plane == CORE_RING ? &m->next : &m->parent;

    /* In a ring of two brokers either connection reaches the other one. */
    if (out->by && out->rank == rank)
        return out->by;
    return hmap_get_u64(m->inbound, key_of(plane, rank));
}

/* Have all neighbors connected, and by UNIX sockets? */
static bool all_local(const mixlink_t *m)
{
    const topology_t *topo = core_topology(m->core);
    size_t pos = 0;
    void *by;

    if (!m->local.arg || (m->parent.by && m->parent.by != &m->local) ||
        (m->next.by && m->next.by != &m->local) ||
        hmap_count(m->inbound) < topology_nchildren(topo, core_rank(m->core)) + 1u)
        return false;
    while (hmap_next(m->inbound, &pos, NULL, NULL, &by))
        if (by != &m->local)
            return false;
    return true;
}

/* Once the session runs: a neighbor that is lost comes back by the same link. */
static void end_remote(mixlink_t *m)
{
    if (!m->running || !m->remote.arg || !all_local(m))
        return;
    m->remote.ops->destroy(m->remote.arg);
    m->remote.arg = NULL;
}

static bool claim(void *arg, enum core_plane plane, uint32_t rank)
{
    struct half *h = arg, *by = hmap_get_u64(h->m->inbound, key_of(plane, rank));

    if (by)
        return by == h;
    if (hmap_put_u64(h->m->inbound, key_of(plane, rank), h) < 0)
        return false;
    if (h == &h->m->local)
        end_remote(h->m); /* the last one may come when the session runs already */
    return true;
}

static int mix_send(void *arg, enum core_plane plane, uint32_t rank, flux_msg_t *msg, bool force)
{
    struct half *h = plane == CORE_EVENT ? NULL : carrier(arg, plane, rank);

    if (h)
        return h->ops->send(h->arg, plane, rank, msg, force);
    errno = EHOSTUNREACH;
    return -1;
}

static int mix_publish(void *arg, const flux_msg_t *event)
{
    mixlink_t *m = arg;
    int near = m->local.arg ? m->local.ops->publish(m->local.arg, event) : 0;
    int far = m->remote.arg ? m->remote.ops->publish(m->remote.arg, event) : 0;

    return near < 0 || far < 0 ? -1 : 0;
}

static int mix_again(void *arg, enum core_plane plane, uint32_t rank)
{
    struct half *h = carrier(arg, plane, rank);

    return h && h->ops->again ? h->ops->again(h->arg, plane, rank) : -1;
}

/* On both: a neighbor that has not connected yet cannot do so later. */
static void mix_drop(void *arg, enum core_plane plane, uint32_t rank)
{
    mixlink_t *m = arg;

    if (m->local.arg)
        m->local.ops->drop(m->local.arg, plane, rank);
    if (m->remote.arg)
        m->remote.ops->drop(m->remote.arg, plane, rank);
}

/* --- the log --- */

static void mix_log(mixlink_t *m, int level, const char *text)
{
    if (m->log)
        m->log(m->log_arg, level, text);
}

static void log_outbound(mixlink_t *m, const struct outbound *out)
{
    errmsg_t line;

    if (!out->why[0])
        return;
    errmsg_set(&line, "rank %u is on the same host, but is reached by ZeroMQ: %s", out->rank,
               out->why);
    mix_log(m, LOG_WARNING, line.text);
}

static void sort(const struct half *by, const mixlink_t *m, uint32_t rank, idset_t *local,
                 idset_t *remote)
{
    if (by)
        (void)idset_set(by == &m->local ? local : remote, rank);
}

/* One line of all neighbors, unless all are on other hosts, and why some are carried by ZeroMQ
 * though they are on this one. */
static void mix_running(void *arg)
{
    mixlink_t *m = arg;
    idset_t *local = idset_create(), *remote = idset_create();
    char *near = NULL, *far = NULL;
    uint64_t key;
    size_t pos = 0;
    errmsg_t line;
    void *by;

    if (local && remote) {
        sort(m->parent.by, m, m->parent.rank, local, remote);
        sort(m->next.by, m, m->next.rank, local, remote);
        while (hmap_next(m->inbound, &pos, NULL, &key, &by))
            sort(by, m, (uint32_t)key, local, remote);
        near = idset_format(local, 0);
        far = idset_format(remote, 0);
    }
    if (near && far && near[0]) {
        errmsg_set(&line, "neighbors on this host, by UNIX sockets: %s; others, by ZeroMQ: %s",
                   near, far[0] ? far : "none");
        mix_log(m, LOG_INFO, line.text);
    }
    if (m->why[0])
        mix_log(m, LOG_WARNING, m->why);
    log_outbound(m, &m->parent);
    if (m->next.rank != m->parent.rank || !m->parent.by)
        log_outbound(m, &m->next);
    m->running = true;
    end_remote(m);
    free(near);
    free(far);
    idset_destroy(local);
    idset_destroy(remote);
}

/* --- setup --- */

static int mix_bind(void *arg, const char *tree_uri, const char *event_uri, errmsg_t *err)
{
    mixlink_t *m = arg;
    struct address a;
    errmsg_t why;
    int rc = -1;

    if (m->uri)
        return errmsg_fail(err, EINVAL, "this broker already listens at %s", m->uri);
    if (address_parse(tree_uri, &a, err) < 0 ||
        m->remote.ops->bind(m->remote.arg, a.remote, event_uri, err) < 0)
        goto done;
    if (a.local && m->local.ops->bind(m->local.arg, a.local, "", &why) == 0) {
        m->place = a.place;
        a.place = NULL;
    } else {
        if (a.local)
            snprintf(m->why, sizeof(m->why), "neighbors on this host are reached by ZeroMQ: %.100s",
                     why.text);
        m->local.ops->destroy(m->local.arg);
        m->local.arg = NULL;
    }
    if (asprintf(&m->uri, "%s%s%s%s%s", m->remote.ops->tree_uri(m->remote.arg), m->place ? "+" : "",
                 m->place ? m->local.ops->tree_uri(m->local.arg) : "", m->place ? "@" : "",
                 m->place ? m->place : "") < 0) {
        m->uri = NULL;
        errmsg_fail(err, ENOMEM, "out of memory while listening at %s", tree_uri);
        goto done;
    }
    rc = 0;
done:
    address_clear(&a);
    return rc;
}

static const char *mix_tree_uri(void *arg)
{
    const mixlink_t *m = arg;

    return m->uri;
}

static const char *mix_event_uri(void *arg)
{
    mixlink_t *m = arg;

    return m->remote.ops->event_uri(m->remote.arg);
}

static int mix_rebind(void *arg, errmsg_t *err)
{
    mixlink_t *m = arg;
    int near = m->local.arg ? m->local.ops->rebind(m->local.arg, err) : 0;
    int far = near < 0 ? -1 : m->remote.arg ? m->remote.ops->rebind(m->remote.arg, err) : 0;

    return far < 0 ? -1 : near > 0 || far > 0;
}

/* Of which link it makes use is for the neighbor to say. */
static int mix_allow(void *arg, uint32_t rank, const char *public_key, errmsg_t *err)
{
    mixlink_t *m = arg;

    if (m->local.arg && m->local.ops->allow(m->local.arg, rank, public_key, err) < 0)
        return -1;
    return m->remote.ops->allow(m->remote.arg, rank, public_key, err);
}

static struct half *choose(mixlink_t *m, const struct address *a, struct outbound *out)
{
    errmsg_t why;

    if (!m->local.arg || !a->local || strcmp(a->place, m->place) != 0)
        return &m->remote;
    if (ulink_reach(a->local, &why) == 0)
        return &m->local;
    snprintf(out->why, sizeof(out->why), "%.150s", why.text);
    return &m->remote;
}

static int mix_connect(void *arg, enum core_plane plane, uint32_t rank, const char *tree_uri,
                       const char *event_uri, const char *public_key, errmsg_t *err)
{
    mixlink_t *m = arg;
    struct outbound *out = plane == CORE_RING ? &m->next : &m->parent;
    struct address a;
    int rc = -1;

    if (out->by)
        return errmsg_fail(err, EINVAL, "this broker is already connected to %s", tree_uri);
    if (address_parse(tree_uri, &a, err) == 0) {
        out->rank = rank;
        out->by = choose(m, &a, out);
        rc = out->by->ops->connect(out->by->arg, plane, rank,
                                   out->by == &m->local ? a.local : a.remote, event_uri, public_key,
                                   err);
    }
    address_clear(&a);
    return rc;
}

static const struct core_link_ops mix_ops;

static int mix_start(void *arg, errmsg_t *err)
{
    mixlink_t *m = arg;

    if ((m->local.arg && m->local.ops->start(m->local.arg, err) < 0) ||
        m->remote.ops->start(m->remote.arg, err) < 0)
        return -1;
    core_set_link(m->core, &mix_ops, m);
    return 0;
}

/* --- life --- */

static void mix_destroy(void *arg)
{
    mixlink_t *m = arg;
    int saved = errno;

    if (!m)
        return;
    transport_unix.ops->destroy(m->local.arg);
    transport_zmq.ops->destroy(m->remote.arg);
    hmap_destroy(m->inbound);
    free(m->place);
    free(m->uri);
    free(m);
    errno = saved;
}

static int make_half(mixlink_t *m, struct half *h, const struct transport *t,
                     const struct link_config *cfg, errmsg_t *err)
{
    struct link_config own = *cfg;

    own.claim = claim;
    own.claim_arg = h;
    h->m = m;
    h->ops = t->ops;
    return (h->arg = t->create(m->core, &own, err)) ? 0 : -1;
}

static void *mix_create(core_t *core, const struct link_config *cfg, errmsg_t *err)
{
    mixlink_t *m = calloc(1, sizeof(*m));

    if (!m || !(m->inbound = hmap_create_u64(NULL))) {
        errmsg_fail(err, ENOMEM, "out of memory while preparing the broker's link");
        mix_destroy(m);
        return NULL;
    }
    m->core = core;
    m->log = cfg->log;
    m->log_arg = cfg->log_arg;
    if (make_half(m, &m->local, &transport_unix, cfg, err) < 0 ||
        make_half(m, &m->remote, &transport_zmq, cfg, err) < 0) {
        mix_destroy(m);
        return NULL;
    }
    return m;
}

static const struct core_link_ops mix_ops = {
    .send = mix_send,
    .publish = mix_publish,
    .drop = mix_drop,
    .again = mix_again,
    .bind = mix_bind,
    .tree_uri = mix_tree_uri,
    .event_uri = mix_event_uri,
    .rebind = mix_rebind,
    .allow = mix_allow,
    .connect = mix_connect,
    .start = mix_start,
    .running = mix_running,
    .destroy = mix_destroy,
};

const struct transport transport_mixed = {.name = "mixed",
                                          .child_files = 1, /* if it is on this host */
                                          .create = mix_create,
                                          .ops = &mix_ops};

/* ulink.c - the local link: start and end, addresses, keys.
 *
 * Purpose: carry messages between a broker and its neighbors on the same host: alone when all
 * brokers of the session are there, and beside ZeroMQ otherwise (link/mixed).  Each broker listens
 * on one socket, in a directory of its own, or with a name in the network namespace ("@NAME") if
 * neighbors compute the address.  Its children in the tree and its predecessor in the ring connect
 * to it.  After a hello and its answer (ulink_wire.c), a connection carries the messages of the
 * core (libflux/framer.h) in both directions, and the events to children.
 *
 * Compared with the link on ZeroMQ there is no thread, no copy between threads, no encryption and
 * no heartbeat behind a queue: the kernel reports the user and the end of the process at the other
 * end.
 *
 * Invariants:
 *  1. A connecting broker proves that it has the key that was registered for its rank (allow), and
 *     the broker that listens proves that it has its own key: only the brokers of the session know
 *     the keys.  Without keys, the user of the process decides.  A broker that has lost its parent
 *     proves that it is a descendant by a ticket: each broker makes up a ticket when it begins, and
 *     hands it down by welcomes.  A broker that joins while the brokers between are dead has no
 *     ticket: it proves that it has the key of its rank, which the core knows (core_key_of()).
 *  2. One connection carries a neighbor.  After its end another broker of the same rank, with the
 *     same key, may connect; the predecessor on the ring also while the end is not known here, but
 *     the session counts the rank as lost.  A broker connects again to its ring successor when the
 *     core asks for it.  It connects to another parent likewise, even before the welcome to an
 *     earlier attempt, and to a second parent beside the first one (beside()), which then takes its
 *     place (swap()).  A neighbor that another link carries (link/mixed) is refused here.
 *
 * Failure: see ulink_io.c and ulink_gate.c.
 */
#include "config.h"
#include "ulink.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <syslog.h>
#include <unistd.h>

#include "libutil/strutil.h"
#include "src/broker/control_wire.h"
#include "ulink_private.h"

#define BACKLOG 4096
#define LINGER 1.

struct ulink_peer *ulink_inbound(const ulink_t *l, enum core_plane plane, uint32_t rank)
{
    return hmap_get_u64(l->inbound, (uint64_t)plane << 32 | rank);
}

/* Return the file of a socket, or NULL if its name is abstract. */
static const char *file_of(const char *uri)
{
    const char *path = uri + strlen(ULINK_SCHEME);

    return path[0] == '/' ? path : NULL;
}

int ulink_address(const char *uri, struct sockaddr_un *sun, socklen_t *len, errmsg_t *err)
{
    const char *path = str_starts(uri, ULINK_SCHEME) ? uri + strlen(ULINK_SCHEME) : NULL;

    memset(sun, 0, sizeof(*sun));
    sun->sun_family = AF_UNIX;
    if (!path || (path[0] != '/' && path[0] != '@'))
        return errmsg_fail(err, EINVAL, "%.100s is not the address of a local socket", uri);
    if (strlen(path) >= sizeof(sun->sun_path))
        return errmsg_fail(err, ENAMETOOLONG,
                           "the path %.200s is too long for a socket: choose another directory "
                           "with TMPDIR",
                           path);
    memcpy(sun->sun_path, path, strlen(path));
    *len = sizeof(*sun);
    if (path[0] == '@') {
        sun->sun_path[0] = '\0';
        *len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(path));
    }
    return 0;
}

int ulink_check_peer(int fd, errmsg_t *err)
{
    struct ucred cred;
    socklen_t len = sizeof(cred);

    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) < 0)
        return errmsg_fail(err, errno, "its user is unknown: %s", strerror(errno));
    if (cred.uid != geteuid())
        return errmsg_fail(err, EPERM, "process %d runs as user %u, not as %u", (int)cred.pid,
                           (unsigned)cred.uid, (unsigned)geteuid());
    return 0;
}

/* Open a socket for this address, which is written to `sun`. */
static int open_socket(const char *uri, struct sockaddr_un *sun, socklen_t *len, errmsg_t *err)
{
    int fd;

    if (ulink_address(uri, sun, len, err) < 0)
        return -1;
    if ((fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) < 0)
        return errmsg_fail(err, errno, "cannot open a socket: %s", strerror(errno));
    return fd;
}

int ulink_reach(const char *uri, errmsg_t *err)
{
    struct sockaddr_un sun;
    socklen_t len;
    int fd;
    int rc;

    if ((fd = open_socket(uri, &sun, &len, err)) < 0)
        return -1;
    if (connect(fd, (struct sockaddr *)&sun, len) == 0)
        rc = ulink_check_peer(fd, err);
    else if (errno == EAGAIN) /* its queue of connections is full: a process listens */
        rc = 0;
    else
        rc = errmsg_fail(err, errno, "%s cannot be reached: %s", uri, strerror(errno));
    close(fd);
    return rc;
}

flux_msg_t *ulink_word_create(enum ulink_word word, const void *in)
{
    const struct flux_method *m = &ulink_words[word];
    flux_msg_t *msg = flux_msg_create(FLUX_MSG_REQUEST, m->topic);
    char *json = flux_schema_encode(m->request, in);

    if (!msg || !json || flux_msg_set_json(msg, json) < 0) {
        flux_msg_destroy(msg);
        msg = NULL;
        errno = ENOMEM;
    } else {
        flux_msg_set_cred(msg, (uint32_t)geteuid(), FLUX_ROLE_BROKER);
    }
    free(json);
    return msg;
}

bool ulink_is_word(const flux_msg_t *msg)
{
    /* The requests of clients have a route, and do not have the role of a broker. */
    return flux_msg_type(msg) == FLUX_MSG_REQUEST && flux_msg_route_count(msg) == 0 &&
           (flux_msg_rolemask(msg) & FLUX_ROLE_BROKER) && str_starts(flux_msg_topic(msg), "link.");
}

json_t *ulink_word_decode(enum ulink_word word, const flux_msg_t *msg, void *out, errmsg_t *err)
{
    const struct flux_method *m = &ulink_words[word];
    const char *json = flux_msg_json(msg);

    if (!ulink_is_word(msg) || strcmp(flux_msg_topic(msg), m->topic) != 0 || !json) {
        errmsg_fail(err, EPROTO, "it began with %.64s instead of %s", flux_msg_topic(msg),
                    m->topic);
        return NULL;
    }
    return flux_schema_decode(m->request, json, strlen(json), out, err);
}

bool ulink_same_key(const char *a, const char *b)
{
    unsigned char differ = strlen(a) != strlen(b);

    for (size_t i = 0; a[i] && b[i]; i++)
        differ |= (unsigned char)(a[i] ^ b[i]);
    return differ == 0;
}

/* --- peers --- */

void ulink_peer_free(void *val)
{
    struct ulink_peer *p = val;

    if (!p)
        return;
    ulink_peer_close(p);
    list_remove(&p->unreported);
    list_remove(&p->other);
    flux_watcher_destroy(p->retry);
    outq_destroy(p->out);
    explicit_bzero(p->key, sizeof(p->key));
    explicit_bzero(p->ticket, sizeof(p->ticket));
    free(p->uri);
    free(p);
}

static struct ulink_peer *peer_create(ulink_t *l, enum core_plane plane, uint32_t rank)
{
    struct ulink_peer *p = calloc(1, sizeof(*p));

    if (!p)
        return NULL;
    p->l = l;
    p->plane = plane;
    p->rank = rank;
    p->fd = -1;
    list_init(&p->dirty);
    list_init(&p->unread);
    list_init(&p->unreported);
    list_init(&p->other);
    if (!(p->out = outq_create())) {
        ulink_peer_free(p);
        return NULL;
    }
    return p;
}

struct ulink_peer *ulink_add_inbound(ulink_t *l, enum core_plane plane, uint32_t rank)
{
    struct ulink_peer *p = peer_create(l, plane, rank);

    if (p && hmap_put_u64(l->inbound, (uint64_t)plane << 32 | rank, p) == 0)
        return p;
    ulink_peer_free(p);
    return NULL;
}

static int expect_peers(ulink_t *l)
{
    const topology_t *topo = core_topology(l->core);
    uint32_t n = topology_nchildren(topo, l->rank);

    if (!(l->inbound = hmap_create_u64(ulink_peer_free)))
        return -1;
    for (uint32_t i = 0; i < n; i++)
        if (!ulink_add_inbound(l, CORE_TREE, topology_child_at(topo, l->rank, i)))
            return -1;
    if (core_size(l->core) > 1 &&
        !ulink_add_inbound(l, CORE_RING, topology_ring_prev(topo, l->rank)))
        return -1;
    return 0;
}

/* Make the ticket of this broker.  Returns -1 with errno. */
static int make_ticket(ulink_t *l)
{
    uint8_t bytes[(ULINK_KEY_SIZE - 1) / 2];

    if (getrandom(bytes, sizeof(bytes), 0) != (ssize_t)sizeof(bytes))
        return -1;
    for (size_t i = 0; i < sizeof(bytes); i++)
        snprintf(l->ticket + 2 * i, 3, "%02x", bytes[i]);
    explicit_bzero(bytes, sizeof(bytes));
    return 0;
}

/* --- start and end --- */

static void ulink_destroy(void *arg)
{
    ulink_t *l = arg;
    struct list_node *n;
    int saved = errno;

    if (!l)
        return;
    if (l->started)
        ulink_linger(l, LINGER);
    ulink_gate_stop(l);
    ulink_io_stop(l);
    ulink_peer_free(l->parent);
    ulink_peer_free(l->next);
    while ((n = list_first(&l->others)))
        ulink_peer_free(list_entry(n, struct ulink_peer, other));
    hmap_destroy(l->inbound);
    if (l->fd >= 0) {
        close(l->fd);
        if (file_of(l->uri))
            (void)unlink(file_of(l->uri));
    }
    free(l->uri);
    free(l->scratch);
    explicit_bzero(l->key, sizeof(l->key));
    explicit_bzero(l->ticket, sizeof(l->ticket));
    free(l);
    errno = saved;
}

static void *ulink_create(core_t *core, const struct link_config *cfg, errmsg_t *err)
{
    ulink_t *l = calloc(1, sizeof(*l));

    if (!l)
        goto nomem;
    l->fd = -1;
    list_init(&l->strangers);
    list_init(&l->dirty);
    list_init(&l->unread);
    list_init(&l->unreported);
    list_init(&l->others);
    l->core = core;
    l->r = core_reactor(core);
    l->rank = core_rank(core);
    if (cfg->curve)
        snprintf(l->key, sizeof(l->key), "%s", cfg->public_key);
    l->live = cfg->live;
    l->queue_max = cfg->queue_max > 0 ? cfg->queue_max : 1;
    l->log = (struct linklog){.r = l->r, .log = cfg->log, .arg = cfg->log_arg};
    l->claim = cfg->claim;
    l->claim_arg = cfg->claim_arg;
    if (!(l->scratch = malloc(ULINK_SCRATCH)) || expect_peers(l) < 0 || make_ticket(l) < 0)
        goto nomem;
    return l;
nomem:
    ulink_destroy(l);
    errmsg_fail(err, ENOMEM, "out of memory while preparing the broker's link");
    return NULL;
}

/* --- operations of the owner --- */

/* Returns whether this is the socket of a process that was killed. */
static bool stale(const struct sockaddr_un *sun)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    struct stat st;
    bool dead = fd >= 0 && lstat(sun->sun_path, &st) == 0 && S_ISSOCK(st.st_mode) &&
                connect(fd, (const struct sockaddr *)sun, sizeof(*sun)) < 0 &&
                errno == ECONNREFUSED;

    if (fd >= 0)
        close(fd);
    return dead;
}

static int listen_at(const char *uri, errmsg_t *err)
{
    struct sockaddr_un sun;
    socklen_t len;
    int fd;
    int rc;

    if ((fd = open_socket(uri, &sun, &len, err)) < 0)
        return -1;
    /* The file gets the mode of the socket, since a umask would apply to other threads, too. */
    (void)fchmod(fd, 0600);
    rc = bind(fd, (struct sockaddr *)&sun, len);
    if (rc < 0 && errno == EADDRINUSE) {
        if (file_of(uri) && stale(&sun) && unlink(sun.sun_path) == 0)
            rc = bind(fd, (struct sockaddr *)&sun, sizeof(sun));
        else
            errno = EADDRINUSE;
    }
    if (rc < 0 || listen(fd, BACKLOG) < 0) {
        errmsg_fail(err, errno, "cannot listen at %s: %s", uri, strerror(errno));
        close(fd);
        return -1;
    }
    return fd;
}

static int ulink_bind(void *arg, const char *tree_uri, const char *event_uri, errmsg_t *err)
{
    ulink_t *l = arg;

    if (l->fd >= 0)
        return errmsg_fail(err, EINVAL, "this broker already listens at %s", l->uri);
    free(l->uri);
    if (!(l->uri = strdup(tree_uri)))
        return errmsg_fail(err, ENOMEM, "out of memory while listening at %s", tree_uri);
    return (l->fd = listen_at(tree_uri, err)) < 0 ? -1 : 0;
}

static const char *ulink_tree_uri(void *arg)
{
    const ulink_t *l = arg;

    return l->uri;
}

/* Events use the connections of the tree. */
static const char *ulink_event_uri(void *arg)
{
    return "";
}

static int ulink_card(void *arg, struct control_card *card)
{
    const ulink_t *l = arg;

    card->tree = l->uri;
    card->event = "";
    card->key = l->key;
    card->ticket = l->ticket;
    return l->uri ? 0 : -1;
}

static int ulink_rebind(void *arg, errmsg_t *err)
{
    ulink_t *l = arg;
    int fd;

    if (!l->uri || !file_of(l->uri) || access(file_of(l->uri), F_OK) == 0)
        return 0;
    if ((fd = listen_at(l->uri, err)) < 0)
        return -1;
    /* A broker in the queue of the old socket tries again. */
    ulink_gate_stop(l);
    close(l->fd);
    l->fd = fd;
    if (l->started && ulink_gate_start(l) < 0)
        return errmsg_fail(err, ENOMEM, "out of memory while listening at %s", l->uri);
    return 1;
}

static int allow_one(ulink_t *l, enum core_plane plane, uint32_t rank, const char *key)
{
    struct ulink_peer *p = ulink_inbound(l, plane, rank);

    if (!p)
        return 0;
    p->allowed = true;
    if (l->key[0])
        snprintf(p->key, sizeof(p->key), "%s", key);
    return 1;
}

static int check_key(const ulink_t *l, uint32_t rank, const char *key, errmsg_t *err)
{
    if (l->key[0] && (!key || strlen(key) != ULINK_KEY_SIZE - 1))
        return errmsg_fail(err, EINVAL, "the key of rank %u is not a Z85 string of 40 characters",
                           rank);
    return 0;
}

static int ulink_allow(void *arg, uint32_t rank, const char *public_key, errmsg_t *err)
{
    ulink_t *l = arg;

    if (check_key(l, rank, public_key, err) < 0)
        return -1;
    if (allow_one(l, CORE_TREE, rank, public_key) + allow_one(l, CORE_RING, rank, public_key) == 0)
        return errmsg_fail(err, EINVAL,
                           "rank %u is not a neighbor of rank %u, and may not connect to it", rank,
                           l->rank);
    return 0;
}

static void retry_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    ulink_connect_peer(arg);
}

static struct ulink_peer *outbound_create(ulink_t *l, enum core_plane plane, uint32_t rank)
{
    struct ulink_peer *p = peer_create(l, plane, rank);

    if (p && !(p->retry = flux_timer_create(l->r, retry_cb, p))) {
        ulink_peer_free(p);
        return NULL;
    }
    if (p) {
        p->outbound = true;
        p->line.heard = flux_reactor_now(l->r);
    }
    return p;
}

struct ulink_peer *ulink_add_outbound(ulink_t *l, enum core_plane plane, uint32_t rank)
{
    return *(plane == CORE_RING ? &l->next : &l->parent) = outbound_create(l, plane, rank);
}

static int ulink_connect(void *arg, enum core_plane plane, uint32_t rank, const char *tree_uri,
                         const char *event_uri, const char *public_key, errmsg_t *err)
{
    ulink_t *l = arg;
    struct ulink_peer *p = plane == CORE_RING ? l->next : l->parent;
    struct sockaddr_un sun;
    socklen_t len;

    if (p)
        return errmsg_fail(err, EINVAL, "this broker is already connected to %s", tree_uri);
    if (ulink_address(tree_uri, &sun, &len, err) < 0 || check_key(l, rank, public_key, err) < 0)
        return -1;
    if (!(p = ulink_add_outbound(l, plane, rank)) || !(p->uri = strdup(tree_uri)))
        return errmsg_fail(err, ENOMEM, "out of memory while connecting to rank %u", rank);
    if (l->key[0])
        snprintf(p->key, sizeof(p->key), "%s", public_key);
    if (l->started)
        ulink_connect_peer(p);
    return 0;
}

static int ulink_beside(void *arg, const struct control_card *card, errmsg_t *err)
{
    ulink_t *l = arg;
    struct ulink_peer *p;
    struct sockaddr_un sun;
    socklen_t len;

    if (ulink_address(card->tree, &sun, &len, err) < 0)
        return -1;
    if (!(p = outbound_create(l, CORE_TREE, card->rank)) || !(p->uri = strdup(card->tree))) {
        ulink_peer_free(p);
        return errmsg_fail(err, ENOMEM, "out of memory while connecting to rank %u", card->rank);
    }
    snprintf(p->key, sizeof(p->key), "%s", card->key);
    snprintf(p->ticket, sizeof(p->ticket), "%s", card->ticket);
    p->tries = true;
    silence_begin(l->silence, &p->line);
    list_append(&l->others, &p->other);
    ulink_connect_peer(p);
    return 0;
}

static const struct core_link_ops ulink_ops;

static int ulink_start(void *arg, errmsg_t *err)
{
    ulink_t *l = arg;

    if (l->started)
        return errmsg_fail(err, EINVAL, "the broker's link is already running");
    if (ulink_io_start(l) < 0 || (l->fd >= 0 && ulink_gate_start(l) < 0))
        return errmsg_fail(err, errno, "cannot watch the broker's sockets: %s", strerror(errno));
    l->started = true;
    if (l->next)
        ulink_connect_peer(l->next);
    if (l->parent)
        ulink_connect_peer(l->parent);
    core_set_link(l->core, &ulink_ops, l);
    return 0;
}

static const struct core_link_ops ulink_ops = {
    .send = ulink_send,
    .publish = ulink_publish,
    .drop = ulink_drop,
    .again = ulink_again,
    .by_key = true,
    .card = ulink_card,
    .move = ulink_move,
    .beside = ulink_beside,
    .swap = ulink_swap,
    .quiet = ulink_quiet,
    .reached = ulink_reached,
    .heard = ulink_heard,
    .peak = ulink_peak,
    .bind = ulink_bind,
    .tree_uri = ulink_tree_uri,
    .event_uri = ulink_event_uri,
    .rebind = ulink_rebind,
    .allow = ulink_allow,
    .connect = ulink_connect,
    .start = ulink_start,
    .destroy = ulink_destroy,
};

static bool is_address(const char *uri)
{
    return str_starts(uri, ULINK_SCHEME);
}

static bool compose(const struct transport_place *place, char *tree_uri, char *event_uri)
{
    event_uri[0] = '\0'; /* events use the connections of the tree */
    return !place->remote && place->dir &&
           snprintf(tree_uri, place->size, ULINK_SCHEME "%s/tree", place->dir) < (int)place->size;
}

const struct transport transport_unix = {.name = "unix",
                                         .child_files = 1,
                                         .restarts = true,
                                         .compose = compose,
                                         .is_address = is_address,
                                         .create = ulink_create,
                                         .ops = &ulink_ops};

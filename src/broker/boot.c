/* Boot: the method, the directories, the keys, and the steps of phase 2.
 *
 * Phase 2 takes the same steps for every method:
 *     key pair (fresh, or from a file) -> transport.create, bind -> publish the card -> (barrier)
 *     -> cards of children and ring predecessor: allow -> cards of parent and ring successor:
 *     connect -> start
 * Phase 3, when the session runs: the launcher is notified that the boot is over.
 *
 * Invariants:
 *  1. With PMI, all brokers listen before any broker knows an address.  Links try again
 *     nevertheless: with a configuration file, peers may start later; and a socket whose file was
 *     removed is replaced.
 *  2. A broker fetches only the cards of its neighbors: parent, children, and two in the ring.  The
 *     exceptions are a broker that may join while its parent is dead (core_late.c), which fetches
 *     those of at most ABOVE_MAX ancestors, and one with children that are absent, which fetches
 *     those of the ranks below them.
 *  3. RUNDIR/RANK belongs to one broker (boot_dir.h), is created here and removed here.  The last
 *     broker to leave RUNDIR removes it if it is empty, whoever created it.
 *  4. The variables of the launcher that were used are removed from the environment: a program in
 *     this session must not take them for its own.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <syslog.h>
#include <unistd.h>

#include "boot_private.h"
#include "control_wire.h"
#include "libutil/fdutil.h"
#include "libutil/strutil.h"

#define DEFAULT_TOPOLOGY "kary:16"
#define DEFAULT_QUEUE 1000
#define ABOVE_MAX 15    /* nearest ancestors at which a broker may join, beside rank 0 */
#define FILES_BESIDE 64 /* descriptors for everything except children */

static int single_open(boot_t *b, errmsg_t *err)
{
    (void)err;
    b->rank = 0;
    b->size = 1;
    return 0;
}

static void single_close(boot_t *b)
{
    (void)b;
}

static const struct boot_ops single_ops = {
    .name = "single", .open = single_open, .close = single_close};

static const struct boot_ops *const methods[] = {&boot_pmi_ops, &boot_config_ops, &single_ops};

/* --- attributes --- */

static const char *given(const boot_t *b, const char *name)
{
    return b->cfg.attr ? b->cfg.attr(b->cfg.attr_arg, name) : NULL;
}

int boot_compose(const boot_t *b, const struct transport_place *place, char *tree_uri,
                 char *event_uri, errmsg_t *err)
{
    return transport_compose(boot_attr(b, "link.transport"), place, tree_uri, event_uri, err) ? 0
                                                                                              : -1;
}

int boot_attr_add(boot_t *b, const char *name, const char *value)
{
    /* Checked now, since the owner's attributes will soon include these. */
    if (given(b, name))
        return 0;
    return strvec_add(b->attrs, name) < 0 || strvec_add(b->attrs, value) < 0 ? -1 : 0;
}

const char *boot_attr(const boot_t *b, const char *name)
{
    const char *value = given(b, name);

    for (size_t i = 0; !value && i < strvec_count(b->attrs); i += 2) {
        if (strcmp(strvec_at(b->attrs, i), name) == 0)
            value = strvec_at(b->attrs, i + 1);
    }
    return value;
}

const char *boot_attr_at(const boot_t *b, size_t i, const char **name)
{
    if (2 * i + 1 >= strvec_count(b->attrs))
        return NULL;
    *name = strvec_at(b->attrs, 2 * i);
    return strvec_at(b->attrs, 2 * i + 1);
}

const char *boot_attr_source(const boot_t *b)
{
    return b->attr_source;
}

static int attr_bool(const boot_t *b, const char *name, bool *val, errmsg_t *err)
{
    const char *text = boot_attr(b, name);

    if (text && str2bool(text, val) < 0)
        return errmsg_fail(err, EINVAL, "attribute %s=%s: expected yes or no", name, text);
    return 0;
}

/* --- directories --- */

/* RUNDIR/local is a symbolic link to the socket of a broker on this host, whatever its rank:
 * programs find a system session by that name (FLUX_SYSTEM_SOCKET).  A dangling link that a killed
 * broker left is replaced.  The link is a convenience, so its failure is not an error. */
static void link_socket(const boot_t *b)
{
    char path[BOOT_PATH_MAX + 8], target[32];

    snprintf(path, sizeof(path), "%s/local", b->rundir);
    snprintf(target, sizeof(target), "%u/local", b->rank);
    if (b->ops != &boot_config_ops || !b->rundir_given)
        return;
    if (symlink(target, path) < 0 && errno == EEXIST && access(path, F_OK) < 0 && unlink(path) == 0)
        (void)!symlink(target, path);
}

static int make_dirs(boot_t *b, errmsg_t *err)
{
    const char *rundir = boot_attr(b, "rundir");
    bool made;

    b->rundir_given = rundir != NULL; /* later the attribute holds the result */
    if (boot_dir_session(rundir, b->rundir, &made, err) < 0 ||
        (b->dirlock = boot_dir_rank(b->rundir, b->rank, b->rankdir, err)) < 0) {
        if (made)
            rmdir(b->rundir);
        return -1;
    }
    link_socket(b);
    return 0;
}

/* Remove the link if it leads to the socket of this broker. */
static void unlink_socket(const boot_t *b)
{
    char path[BOOT_PATH_MAX + 8], want[32], target[32];
    ssize_t n;

    snprintf(path, sizeof(path), "%s/local", b->rundir);
    snprintf(want, sizeof(want), "%u/local", b->rank);
    n = readlink(path, target, sizeof(target) - 1);
    target[n > 0 ? n : 0] = '\0';
    if (strcmp(target, want) == 0)
        unlink(path);
}

static void remove_dirs(boot_t *b)
{
    if (b->dirlock < 0)
        return;
    unlink_socket(b);
    dir_remove_tree(b->rankdir);
    close(b->dirlock);
    rmdir(b->rundir); /* fails while other brokers use it; the last broker removes it */
}

int boot_restore_dirs(boot_t *b, errmsg_t *err)
{
    char rundir[BOOT_PATH_MAX];
    struct stat locked, there;
    bool made;
    int lock;

    if (fstat(b->dirlock, &locked) == 0 && lstat(b->rankdir, &there) == 0 &&
        locked.st_dev == there.st_dev && locked.st_ino == there.st_ino) {
        link_socket(b); /* the broker of the former link may have left */
        return 0;
    }
    if (boot_dir_session(b->rundir, rundir, &made, err) < 0 ||
        (lock = boot_dir_rank(rundir, b->rank, b->rankdir, err)) < 0)
        return -1;
    close(b->dirlock);
    b->dirlock = lock;
    link_socket(b);
    return 1;
}

/* --- phase 1 --- */

static const struct boot_ops *choose(const boot_t *b, errmsg_t *err)
{
    const char *name = boot_attr(b, "boot.method");

    if (!name)
        name = boot_attr(b, "config.file") ? "config" : boot_pmi_found() ? "pmi" : "single";
    for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++) {
        if (strcmp(methods[i]->name, name) == 0)
            return methods[i];
    }
    errmsg_fail(err, EINVAL, "boot.method=%s: expected pmi, config or single", name);
    return NULL;
}

static int learn(boot_t *b, errmsg_t *err)
{
    const char *topology;

    if (!(b->attrs = strvec_create()))
        return errmsg_fail(err, ENOMEM, "out of memory while booting");
    if (!(b->ops = choose(b, err)) || b->ops->open(b, err) < 0)
        return -1;
    if ((topology = given(b, "topology"))) {
        free(b->topology);
        b->topology = strdup(topology);
    } else if (!b->topology) {
        topology = boot_attr(b, "topology");
        b->topology = strdup(topology ? topology : DEFAULT_TOPOLOGY);
    }
    if (!b->topology)
        return errmsg_fail(err, ENOMEM, "out of memory while booting");
    b->curve = true;
    if (attr_bool(b, "curve", &b->curve, err) < 0)
        return -1;
    return make_dirs(b, err);
}

boot_t *boot_create(const struct boot_config *cfg, errmsg_t *err)
{
    boot_t *b = calloc(1, sizeof(*b));

    if (!b) {
        errmsg_fail(err, ENOMEM, "out of memory while booting");
        return NULL;
    }
    b->cfg = *cfg;
    b->dirlock = b->launcher = -1;
    if (learn(b, err) < 0) {
        boot_destroy(b);
        return NULL;
    }
    return b;
}

void boot_destroy(boot_t *b)
{
    int saved = errno;

    if (!b)
        return;
    if (b->ops)
        b->ops->close(b);
    remove_dirs(b);
    strvec_destroy(b->attrs);
    free(b->topology);
    boot_hosts_destroy(b->hosts);
    hmap_destroy(b->absent_keys);
    boot_cert_wipe(&b->cert);
    free(b);
    errno = saved;
}

int boot_launcher(boot_t *b)
{
    int fd = b->launcher;

    b->launcher = -1;
    return fd;
}

const char *boot_method(const boot_t *b)
{
    return b->ops->name;
}

uint32_t boot_rank(const boot_t *b)
{
    return b->rank;
}

uint32_t boot_size(const boot_t *b)
{
    return b->size;
}

const char *boot_topology(const boot_t *b)
{
    return b->topology;
}

boot_hosts_t *boot_listed(const boot_t *b)
{
    return b->hosts;
}

const char *boot_host(const boot_t *b)
{
    return b->host;
}

const char *boot_rundir(const boot_t *b)
{
    return b->rundir;
}

const char *boot_rankdir(const boot_t *b)
{
    return b->rankdir;
}

/* --- phase 2 --- */

static int nobody_send(void *arg, enum core_plane plane, uint32_t rank, flux_msg_t *msg, bool force)
{
    (void)arg, (void)plane, (void)rank, (void)msg, (void)force;
    errno = EHOSTUNREACH;
    return -1;
}

static int nobody_publish(void *arg, const flux_msg_t *event)
{
    (void)arg, (void)event;
    return 0;
}

static void nobody_drop(void *arg, enum core_plane plane, uint32_t rank)
{
    (void)arg, (void)plane, (void)rank;
}

static const struct core_link_ops nobody = {
    .send = nobody_send, .publish = nobody_publish, .drop = nobody_drop};

static void log_link(void *arg, int level, const char *text)
{
    core_say(arg, level, text);
}

/* Where others reach this broker, if a file says so: it may listen at any address. */
static void find_self(boot_t *b, struct boot_card *card, struct link_config *lc)
{
    if (b->ops != &boot_config_ops || b->ops->lookup(b, b->rank, card, NULL) < 0)
        return;
    lc->card_tree = card->tree_uri;
    lc->card_event = card->event_uri;
}

/* NULL with errno and an error message. */
static void *make_link(boot_t *b, const struct transport *t, core_t *core, errmsg_t *err)
{
    struct link_config lc = {
        .curve = b->curve,
        .queue_max = DEFAULT_QUEUE,
        .log = log_link,
        .log_arg = core,
    };
    struct boot_card card;
    const char *text;
    uint32_t n;

    if (silence_limits_parse(&lc.live, boot_attr(b, "live.probe"), boot_attr(b, "live.slow"),
                             boot_attr(b, "live.lost"), boot_attr(b, "live.patience"), err) < 0)
        return NULL;
    if ((text = boot_attr(b, "link.queue"))) {
        if (str2u32(text, &n) < 0 || n == 0) {
            errmsg_fail(err, EINVAL, "attribute link.queue=%s is not a number from 1 up", text);
            return NULL;
        }
        lc.queue_max = n;
    }
    if (b->curve && (b->ops->keys ? b->ops->keys(b, err) : boot_cert_generate(&b->cert, err)) < 0)
        return NULL;
    lc.public_key = b->cert.public_key;
    lc.secret_key = b->cert.secret_key;
    find_self(b, &card, &lc);
    return t->create(core, &lc, err);
}

static int listen_and_publish(boot_t *b, const struct transport_link *l, const char *tree_uri,
                              const char *event_uri, errmsg_t *err)
{
    struct boot_card card = {.key = ""};

    if (l->ops->bind(l->arg, tree_uri, event_uri, err) < 0) {
        errmsg_t why = *err;

        return errno != EADDRNOTAVAIL || strcmp(b->ops->name, "config") != 0
                   ? -1
                   : errmsg_fail(err, EADDRNOTAVAIL,
                                 "%s: the configuration file gives this address to rank %u; if its "
                                 "host has another one now, correct the file on all hosts",
                                 why.text, b->rank);
    }
    if (snprintf(card.tree_uri, BOOT_URI_MAX, "%s", l->ops->tree_uri(l->arg)) >= BOOT_URI_MAX ||
        snprintf(card.event_uri, BOOT_URI_MAX, "%s", l->ops->event_uri(l->arg)) >= BOOT_URI_MAX)
        return errmsg_fail(err, ENAMETOOLONG, "the address %.100s is too long",
                           l->ops->tree_uri(l->arg));
    if (b->curve)
        memcpy(card.key, b->cert.public_key, CERT_KEY_SIZE);
    return b->ops->publish(b, &card, err);
}

/* Look up a neighbor to connect to. */
static int find(boot_t *b, const struct transport *t, uint32_t rank, struct boot_card *card,
                errmsg_t *err)
{
    if (b->ops->lookup(b, rank, card, err) < 0)
        return -1;
    if (t->trim)
        t->trim(card->tree_uri);
    return 0;
}

/* Keep the keys of the ranks below an absent child: they may join here while it is absent. */
static int keep_keys(boot_t *b, const topology_t *topo, uint32_t rank, errmsg_t *err)
{
    for (uint32_t i = 0; i < topology_nchildren(topo, rank); i++) {
        uint32_t child = topology_child_at(topo, rank, i);
        struct boot_card card;
        char *key;

        if (b->ops->lookup(b, child, &card, err) < 0)
            return -1;
        if (!b->absent_keys && !(b->absent_keys = hmap_create_u64(free)))
            return errmsg_fail(err, ENOMEM, "out of memory while booting");
        if (!(key = strdup(card.key)) || hmap_put_u64(b->absent_keys, child, key) < 0) {
            free(key);
            return errmsg_fail(err, ENOMEM, "out of memory while booting");
        }
        if (card.absent && keep_keys(b, topo, child, err) < 0)
            return -1;
    }
    return 0;
}

/* Allow a neighbor to connect; `topo`: it is a child. */
static int allow(boot_t *b, const struct transport_link *l, uint32_t rank, const topology_t *topo,
                 errmsg_t *err)
{
    struct boot_card card;

    if (b->ops->lookup(b, rank, &card, err) < 0)
        return -1;
    if (topo && card.absent && keep_keys(b, topo, rank, err) < 0)
        return -1;
    return l->ops->allow(l->arg, rank, card.key, err);
}

static int add_ancestor(core_t *core, uint32_t rank, const struct boot_card *from, errmsg_t *err)
{
    const struct control_card card = {.rank = rank,
                                      .tree = from->tree_uri,
                                      .event = from->event_uri,
                                      .key = from->key,
                                      .ticket = ""};

    return core_ancestor_add(core, &card) < 0
               ? errmsg_fail(err, ENOMEM, "out of memory while booting")
               : 0;
}

/* Name the brokers at which this one may join if its parent is dead.  One whose address is not
 * known is left out. */
static int meet_above(boot_t *b, const struct transport *t, core_t *core,
                      const struct boot_card *parent, errmsg_t *err)
{
    const topology_t *topo = core_topology(core);
    uint32_t rank = topology_parent(topo, b->rank);
    struct boot_card card;

    if ((!parent->absent && !b->again && !b->ops->keeps) || rank == FLUX_NODEID_ROOT)
        return 0;
    if (add_ancestor(core, rank, parent, err) < 0)
        return -1;
    for (unsigned n = 1; rank != FLUX_NODEID_ROOT; n++) {
        rank = n < ABOVE_MAX ? topology_parent(topo, rank) : FLUX_NODEID_ROOT;
        if (find(b, t, rank, &card, NULL) == 0 && add_ancestor(core, rank, &card, err) < 0)
            return -1;
    }
    return 0;
}

static int meet(boot_t *b, const struct transport *t, const struct transport_link *l, core_t *core,
                errmsg_t *err)
{
    const topology_t *topo = core_topology(core);
    uint32_t parent = topology_parent(topo, b->rank);
    uint32_t next = topology_ring_next(topo, b->rank), prev = topology_ring_prev(topo, b->rank);
    struct boot_card card;

    for (uint32_t i = 0; i < topology_nchildren(topo, b->rank); i++) {
        if (allow(b, l, topology_child_at(topo, b->rank, i), topo, err) < 0)
            return -1;
    }
    if (allow(b, l, prev, NULL, err) < 0)
        return -1;
    if (find(b, t, next, &card, err) < 0 ||
        l->ops->connect(l->arg, CORE_RING, next, card.tree_uri, NULL, card.key, err) < 0)
        return -1;
    if (parent == TOPOLOGY_NONE)
        return 0;
    if ((parent != next && find(b, t, parent, &card, err) < 0) ||
        meet_above(b, t, core, &card, err) < 0)
        return -1;
    return l->ops->connect(l->arg, CORE_TREE, parent, card.tree_uri, card.event_uri, card.key, err);
}

/* Without them children could not connect, and ZeroMQ might end this process. */
static int check_files(const struct transport *t, const core_t *core, errmsg_t *err)
{
    uint32_t n = topology_nchildren(core_topology(core), core_rank(core));
    unsigned long need = FILES_BESIDE + (unsigned long)n * t->child_files;
    struct rlimit files;

    if (getrlimit(RLIMIT_NOFILE, &files) < 0 || files.rlim_cur >= need)
        return 0;
    return errmsg_fail(err, EMFILE,
                       "the limit on open files is %lu: rank %u with its %u children needs at "
                       "least %lu (ulimit -n)",
                       (unsigned long)files.rlim_cur, core_rank(core), n, need);
}

/* "tcp://ADDRESS:PORT": any port.  False if it is not such an address. */
static bool any_port(char *uri)
{
    char *colon = strrchr(uri, ':');

    if (!str_starts(uri, "tcp://") || !colon)
        return false;
    strcpy(colon, ":*");
    return true;
}

/* Make the link, and listen.  A broker that was absent listens at a free port if the one at which
 * others look for it is taken: they learn the address from the session. */
static int listen_late(boot_t *b, core_t *core, struct transport_link *l, char *tree_uri,
                       char *event_uri, errmsg_t *err)
{
    const struct transport *t = transport_at(tree_uri, err);
    errmsg_t why;

    if (!(l->arg = make_link(b, t, core, err)))
        return -1;
    if (listen_and_publish(b, l, tree_uri, event_uri, err) == 0)
        return 0;
    why = *err;
    if (!b->late || errno != EADDRINUSE || !any_port(tree_uri) || !any_port(event_uri))
        return -1;
    core_say(core, LOG_NOTICE, why.text);
    l->ops->destroy(l->arg);
    l->arg = make_link(b, t, core, err);
    return l->arg ? listen_and_publish(b, l, tree_uri, event_uri, err) : -1;
}

int boot_link(boot_t *b, core_t *core, struct transport_link *link, errmsg_t *err)
{
    char tree_uri[BOOT_URI_MAX], event_uri[BOOT_URI_MAX];
    const struct transport *t;
    struct transport_link l;

    *link = (struct transport_link){.ops = &nobody};
    if (transport_check(boot_attr(b, "link.transport"), err) < 0)
        return -1;
    if (b->size == 1) {
        core_set_link(core, &nobody, NULL);
        return 0;
    }
    if (b->ops->endpoints(b, tree_uri, event_uri, err) < 0)
        return -1;
    if (!(t = transport_at(tree_uri, err)))
        return -1;
    l.ops = t->ops;
    if (check_files(t, core, err) < 0)
        return -1;
    if (listen_late(b, core, &l, tree_uri, event_uri, err) < 0 || meet(b, t, &l, core, err) < 0 ||
        l.ops->start(l.arg, err) < 0) {
        l.ops->destroy(l.arg);
        core_set_link(core, &nobody, NULL); /* a part of it may have been set */
        return -1;
    }
    memcpy(b->public_key, b->cert.public_key, sizeof(b->public_key));
    boot_cert_wipe(&b->cert);
    *link = l;
    return 0;
}

int boot_finish(boot_t *b, errmsg_t *err)
{
    int rc = 0;

    if (!b->finished && b->ops->finish)
        rc = b->ops->finish(b, err);
    b->finished = true;
    if (!b->ops->keeps)
        b->ops->close(b);
    return rc;
}

bool boot_key(boot_t *b, uint32_t rank, char *key)
{
    const char *kept = b->absent_keys ? hmap_get_u64(b->absent_keys, rank) : NULL;

    if (!kept || !kept[0])
        return b->ops->key && b->ops->key(b, rank, key);
    memcpy(key, kept, CERT_KEY_SIZE);
    return true;
}

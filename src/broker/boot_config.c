/* Boot by configuration file: the section `session` (doc/man5/flux-config.rst).
 *
 *     field          type              meaning
 *     hosts          string, required  hostlist; the position of a host is its rank
 *     size           number            ranks, if more hosts may be added later
 *     address        text              tree endpoint of a broker        "tcp://%h:8050"
 *     event_address  text              event endpoint of a broker       port of `address` + 1
 *     bind           text              where a broker listens, if not at `address`
 *     event_bind     text              the same for events
 *     keyfile        text              certificate created by `flux keygen`
 *     curve          boolean           false: no authentication, no encryption
 *     topology       string            shape of the tree
 *     attrs          pairs             attributes for all brokers
 *
 * A text is a string in which %h stands for the host and %r for the rank, or a function of rank and
 * host.
 *
 * Invariants:
 *  1. All brokers read the same file, so cards are computed, not exchanged.
 *  2. If the keyfile is the same for all ranks, all brokers have both of its keys, and can claim
 *     any rank.  If it differs by rank (or host), each broker has its own and needs only the .pub
 *     files of the others, and can claim no rank but its own.
 *  3. A missing keyfile is an error unless curve is false.
 *  4. A broker also listens on a UNIX socket whose name is computed from its address, and uses that
 *     of a neighbor whose address is one of this network namespace (link/mixed).  Only if all ranks
 *     have the same keyfile, or none: UNIX sockets prove a key that those of different ranks know.
 *  5. A session that boots by another method would ignore the section: it is checked nevertheless,
 *     and the session does not start.
 *  6. The rank is boot.rank, or else the position of this host's name (boot.host) in `hosts`, where
 *     it must occur exactly once (with or without its domain).
 *  7. A rank from the number of `hosts` up to `size` has no host until one is added
 *     (boot_roster.h).  Its card has no address, which its neighbors learn from the session, and
 *     its keyfile does not depend on the host.  So files with a different number of hosts, of which
 *     one continues the other, make one session.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "boot_private.h"
#include "libconfig/config_file.h"
#include "libidset/hostlist.h"
#include "libsettings/settings.h"
#include "libutil/strutil.h"

#define SECTION "session"
#define DEFAULT_PORT 8050

static const struct config_field fields[] = {
    {SECTION, "hosts", CONFIG_STRING, true},     {SECTION, "size", CONFIG_NUMBER, false},
    {SECTION, "address", CONFIG_TEXT_OF, false}, {SECTION, "event_address", CONFIG_TEXT_OF, false},
    {SECTION, "bind", CONFIG_TEXT_OF, false},    {SECTION, "event_bind", CONFIG_TEXT_OF, false},
    {SECTION, "keyfile", CONFIG_TEXT_OF, false}, {SECTION, "curve", CONFIG_BOOL, false},
    {SECTION, "topology", CONFIG_STRING, false}, {SECTION, "attrs", CONFIG_PAIRS, false},
    {"resource", "*", CONFIG_ANY, false}, /* these two are for the module resrc */
    {"places", "*", CONFIG_ANY, false},          CONFIG_FIELD_END,
};

struct conf {
    config_t *file;
    hostlist_t *hosts;
    uint32_t listed;  /* number of these */
    uint32_t self;    /* rank of this broker ... */
    const char *host; /* ... and its host, if that is not listed */
    bool local;       /* UNIX sockets are used within a host */
};

static void conf_close(boot_t *b)
{
    struct conf *cf = b->state;

    if (!cf)
        return;
    b->state = NULL;
    config_destroy(cf->file);
    hostlist_destroy(cf->hosts);
    free(cf);
}

/* --- own rank --- */

static int find_host(boot_t *b, errmsg_t *err)
{
    const char *name = boot_attr(b, "boot.host");

    if (!name) {
        gethostname(b->host, sizeof(b->host) - 1);
        return 0;
    }
    if (!name[0] || strlen(name) >= sizeof(b->host) || strpbrk(name, " \n"))
        return errmsg_fail(err, EINVAL, "boot.host=%.64s is not the name of a host", name);
    strcpy(b->host, name);
    return 0;
}

static int find_self(boot_t *b, struct conf *cf, errmsg_t *err)
{
    char name[HOSTLIST_NAME_MAX + 1];
    const char *self = b->host;
    uint32_t found = 0;

    for (uint32_t i = 0; hostlist_nth(cf->hosts, i, name, sizeof(name)); i++) {
        if (!boot_hosts_same(name, self))
            continue;
        if (found++ > 0)
            return errmsg_fail(err, EINVAL,
                               "%s: this host, %s, occurs more than once in session.hosts; set its "
                               "rank with --set=boot.rank=N",
                               config_name(cf->file), self);
        b->rank = i;
    }
    if (found == 0 && b->hosts)
        return errmsg_fail(
            err, EINVAL,
            "%s: this host, %s, is not in session.hosts: after 'flux overlay add %s' in the "
            "session, set the rank that it prints (--set=boot.rank=RANK), or append the host there",
            config_name(cf->file), self, self);
    if (found == 0)
        return errmsg_fail(err, EINVAL,
                           "%s: this host, %s, is not in session.hosts; add it, or set its "
                           "rank with --set=boot.rank=N",
                           config_name(cf->file), self);
    return 0;
}

static int find_rank(boot_t *b, struct conf *cf, errmsg_t *err)
{
    const char *text = boot_attr(b, "boot.rank");

    if (find_host(b, err) < 0)
        return -1;
    if (!text)
        return find_self(b, cf, err);
    if (str2u32(text, &b->rank) < 0 || b->rank >= b->size)
        return errmsg_fail(err, EINVAL, "boot.rank=%s: %s has ranks 0 to %u", text,
                           config_name(cf->file), b->size - 1);
    if (b->rank < cf->listed && !hostlist_nth(cf->hosts, b->rank, b->host, sizeof(b->host)))
        return errmsg_fail(err, EINVAL, "%s: the name of host %u in session.hosts is too long",
                           config_name(cf->file), b->rank);
    return 0;
}

/* The number of ranks, and room for hosts that are added. */
static int find_size(boot_t *b, struct conf *cf, errmsg_t *err)
{
    double size = config_number(cf->file, SECTION, "size", cf->listed);
    char text[16];

    if (size < cf->listed || size > BOOT_HOSTS_MAX || size != floor(size))
        return errmsg_fail(err, EINVAL,
                           "%s: session.size is %g; expected a number from %u (that of "
                           "session.hosts) to %d",
                           config_name(cf->file), size, cf->listed, BOOT_HOSTS_MAX);
    b->size = (uint32_t)size;
    if (b->size == cf->listed)
        return 0;
    snprintf(text, sizeof(text), "%u", cf->listed);
    if (!boot_attr(b, "boot.hosts") && boot_attr_add(b, "boot.hosts", text) < 0)
        return errmsg_fail(err, ENOMEM, "out of memory while booting");
    return (b->hosts = boot_hosts_list(cf->hosts, err)) &&
                   boot_hosts_reserve(b->hosts, b->size, err) == 0
               ? 0
               : -1;
}

static int check_attrs(config_t *file, errmsg_t *err)
{
    char *key, *value;
    errmsg_t why;
    int rc, bad = 0;

    for (size_t i = 0; (rc = config_pair(file, SECTION, "attrs", i, &key, &value)) > 0; i++) {
        if (settings_check_here(key, value, &why) < 0)
            bad = errmsg_fail(err, EINVAL, "%s:%d: session.attrs: %s", config_name(file),
                              config_line(file, SECTION), why.text);
        free(key);
        free(value);
        if (bad < 0)
            return -1;
    }
    return rc < 0 ? errmsg_fail(err, ENOMEM, "out of memory while booting") : 0;
}

static int read_attrs(boot_t *b, struct conf *cf, errmsg_t *err)
{
    char *key, *value;
    int rc;

    if (check_attrs(cf->file, err) < 0)
        return -1;
    snprintf(b->attr_source, sizeof(b->attr_source), "%s:%d", config_name(cf->file),
             config_line(cf->file, SECTION));
    for (size_t i = 0; (rc = config_pair(cf->file, SECTION, "attrs", i, &key, &value)) > 0; i++) {
        rc = boot_attr_add(b, key, value);
        free(key);
        free(value);
        if (rc < 0)
            break;
    }
    if (rc == 0 && config_bool(cf->file, SECTION, "curve", true) == false &&
        boot_attr_add(b, "curve", "no") < 0)
        rc = -1;
    return rc < 0 ? errmsg_fail(err, ENOMEM, "out of memory while booting") : 0;
}

int boot_config_unused(const char *path, errmsg_t *err)
{
    config_t *file = config_load(path, fields, err);
    int rc = file ? config_has(file, SECTION) : -1;

    if (rc > 0 && check_attrs(file, err) < 0)
        rc = -1;
    config_destroy(file);
    return rc;
}

static int conf_open(boot_t *b, errmsg_t *err)
{
    const char *path = boot_attr(b, "config.file"), *topology;
    struct conf *cf = b->state = calloc(1, sizeof(*cf));
    errmsg_t why;

    if (!cf)
        return errmsg_fail(err, ENOMEM, "out of memory while booting");
    if (!path)
        return errmsg_fail(err, EINVAL, "boot.method=config needs config.file=FILE");
    if (!(cf->file = config_load(path, fields, err)))
        return -1;
    if (!config_has(cf->file, SECTION))
        return errmsg_fail(err, EINVAL, "%s: there is no section session { ... }", path);
    if (!(cf->hosts = hostlist_parse(config_string(cf->file, SECTION, "hosts"), &why)))
        return errmsg_fail(err, errno, "%s: session.hosts: %s", path, why.text);
    cf->listed = (uint32_t)hostlist_count(cf->hosts);
    if (cf->listed == 0)
        return errmsg_fail(err, EINVAL, "%s: session.hosts names no host", path);
    if (read_attrs(b, cf, err) < 0 || find_size(b, cf, err) < 0)
        return -1;
    topology = config_string(cf->file, SECTION, "topology");
    if (topology && !(b->topology = strdup(topology)))
        return errmsg_fail(err, ENOMEM, "out of memory while booting");
    if (find_rank(b, cf, err) < 0)
        return -1;
    cf->self = b->rank;
    cf->host = b->host;
    return 0;
}

/* Has this rank no host yet, as far as this broker knows? */
static bool is_vacant(const struct conf *cf, uint32_t rank)
{
    return rank >= cf->listed && rank != cf->self;
}

static int host_of(struct conf *cf, uint32_t rank, char *host, size_t size, errmsg_t *err)
{
    if (rank >= cf->listed && rank == cf->self && strlen(cf->host) < size) {
        strcpy(host, cf->host);
        return 0;
    }
    if (!hostlist_nth(cf->hosts, rank, host, size))
        return errmsg_fail(err, EINVAL, "%s: session.hosts has no rank %u", config_name(cf->file),
                           rank);
    return 0;
}

/* Expand a field for a rank.  1, 0 (absent) or -1. */
static int text_for(struct conf *cf, const char *name, uint32_t rank, char *buf, size_t size,
                    errmsg_t *err)
{
    char host[HOSTLIST_NAME_MAX + 1];

    if (host_of(cf, rank, host, sizeof(host), err) < 0)
        return -1;
    return config_text_of(cf->file, SECTION, name, rank, host, buf, size, err);
}

static int tree_address(struct conf *cf, uint32_t rank, char *uri, errmsg_t *err)
{
    char host[HOSTLIST_NAME_MAX + 1];
    int rc = text_for(cf, "address", rank, uri, BOOT_URI_MAX, err);

    if (rc != 0)
        return rc < 0 ? -1 : 0;
    if (host_of(cf, rank, host, sizeof(host), err) < 0)
        return -1;
    snprintf(uri, BOOT_URI_MAX, "tcp://%.255s:%d", host, DEFAULT_PORT);
    return 0;
}

/* The default event address: TREE-URI with port + 1, or its path with "-event". */
static int event_from_tree(struct conf *cf, const char *tree_uri, char *uri, errmsg_t *err)
{
    const char *colon = strrchr(tree_uri, ':');
    uint32_t port;
    int len;

    if (str_starts(tree_uri, "ipc://"))
        len = snprintf(uri, BOOT_URI_MAX, "%s-event", tree_uri);
    else if (colon && str2u32(colon + 1, &port) == 0 && port < 65535)
        len = snprintf(uri, BOOT_URI_MAX, "%.*s:%u", (int)(colon - tree_uri), tree_uri, port + 1);
    else
        return errmsg_fail(err, EINVAL, "%s: session.address is %s; expected tcp://HOST:PORT",
                           config_name(cf->file), tree_uri);
    return len < BOOT_URI_MAX
               ? 0
               : errmsg_fail(err, EINVAL, "%s: session.address is too long", config_name(cf->file));
}

/* Get the endpoints from the fields of "address" or of "bind". */
static int endpoint_pair(struct conf *cf, const char *name, const char *event_name, uint32_t rank,
                         char *tree_uri, char *event_uri, errmsg_t *err)
{
    int rc;

    if (strcmp(name, "bind") == 0) {
        if ((rc = text_for(cf, name, rank, tree_uri, BOOT_URI_MAX, err)) <= 0)
            return rc;
    } else if (tree_address(cf, rank, tree_uri, err) < 0) {
        return -1;
    }
    rc = text_for(cf, event_name, rank, event_uri, BOOT_URI_MAX, err);
    if (rc == 0)
        rc = event_from_tree(cf, tree_uri, event_uri, err) < 0 ? -1 : 1;
    return rc;
}

/* Replace host names by addresses; "*" and UNIX sockets remain. */
static int resolve(struct conf *cf, char *uri, errmsg_t *err)
{
    char numeric[BOOT_URI_MAX];
    errmsg_t why;

    if (str_starts(uri, "ipc://") || str_starts(uri, "tcp://*:"))
        return 0;
    if (boot_addr_resolve(uri, numeric, sizeof(numeric), &why) < 0)
        return errmsg_fail(err, errno, "%s: %s", config_name(cf->file), why.text);
    memcpy(uri, numeric, BOOT_URI_MAX);
    return 0;
}

/* --- keys --- */

/* Expand the field for a rank that may have any host. */
static int keyfile_vacant(struct conf *cf, uint32_t rank, char *path, size_t size, errmsg_t *err)
{
    char other[1024];
    int rc = config_text_of(cf->file, SECTION, "keyfile", rank, "a", path, size, err);

    if (rc <= 0 ||
        config_text_of(cf->file, SECTION, "keyfile", rank, "b", other, sizeof(other), err) < 0)
        return rc < 0 ? -1 : rc;
    if (strcmp(path, other) == 0)
        return 1;
    return errmsg_fail(err, EINVAL,
                       "%s: session.keyfile depends on the host, but rank %u has none yet: use one "
                       "for all, or that of the rank (%%r)",
                       config_name(cf->file), rank);
}

static int keyfile(boot_t *b, uint32_t rank, char *path, size_t size, errmsg_t *err)
{
    struct conf *cf = b->state;
    int rc = rank >= cf->listed ? keyfile_vacant(cf, rank, path, size, err)
                                : text_for(cf, "keyfile", rank, path, size, err);

    if (rc == 0)
        return errmsg_fail(err, EINVAL,
                           "%s: session.keyfile is missing; create one with 'flux keygen', or set "
                           "curve = false to run without encryption",
                           config_name(cf->file));
    return rc < 0 ? -1 : 0;
}

static int conf_keys(boot_t *b, errmsg_t *err)
{
    char path[1024];

    if (keyfile(b, b->rank, path, sizeof(path), err) < 0)
        return -1;
    return boot_cert_read(&b->cert, path, true, err);
}

/* Is the certificate of all ranks the same file? */
static bool same_keyfiles(boot_t *b)
{
    char own[1024], path[1024];
    bool same = keyfile(b, b->rank, own, sizeof(own), NULL) == 0;

    for (uint32_t rank = 0; rank < b->size && same; rank++)
        same = keyfile(b, rank, path, sizeof(path), NULL) == 0 && strcmp(own, path) == 0;
    return same;
}

/* Complete the configured address of a broker as its transport requires.  REACHED is the address
 * by which others know a broker of this host, from which its UNIX socket has its name; NULL: the
 * broker is reached by TCP only. */
static int complete(boot_t *b, char *tree_uri, const char *reached, errmsg_t *err)
{
    char remote[BOOT_URI_MAX], name[BOOT_URI_MAX + 8], event_uri[BOOT_URI_MAX];
    struct transport_place place = {.remote = remote, .size = BOOT_URI_MAX};

    if (!str_starts(tree_uri, "tcp://"))
        return 0;
    memcpy(remote, tree_uri, BOOT_URI_MAX);
    if (reached && str_starts(reached, "tcp://")) {
        snprintf(name, sizeof(name), "flux-%s", reached + strlen("tcp://"));
        place.name = name;
    }
    return boot_compose(b, &place, tree_uri, event_uri, err);
}

static int conf_endpoints(boot_t *b, char *tree_uri, char *event_uri, errmsg_t *err)
{
    struct conf *cf = b->state;
    char address[BOOT_URI_MAX];
    bool known;
    int rc = endpoint_pair(cf, "bind", "event_bind", b->rank, tree_uri, event_uri, err);

    if (rc == 0)
        rc = endpoint_pair(cf, "address", "event_address", b->rank, tree_uri, event_uri, err);
    if (rc < 0 || resolve(cf, tree_uri, err) < 0 || resolve(cf, event_uri, err) < 0)
        return -1;
    cf->local = !b->curve || same_keyfiles(b);
    /* Brokers that connect to this broker report an error in its address. */
    known = cf->local && tree_address(cf, b->rank, address, NULL) == 0 &&
            resolve(cf, address, NULL) == 0;
    return complete(b, tree_uri, known ? address : NULL, err);
}

/* Where others reach this rank. */
static int reached_at(boot_t *b, uint32_t rank, struct boot_card *card, errmsg_t *err)
{
    struct conf *cf = b->state;
    char address[BOOT_URI_MAX];

    if (endpoint_pair(cf, "address", "event_address", rank, card->tree_uri, card->event_uri, err) <
            0 ||
        resolve(cf, card->tree_uri, err) < 0 || resolve(cf, card->event_uri, err) < 0)
        return -1;
    memcpy(address, card->tree_uri, sizeof(address));
    return cf->local && boot_addr_is_here(address) ? complete(b, card->tree_uri, address, err) : 0;
}

static int conf_lookup(boot_t *b, uint32_t rank, struct boot_card *card, errmsg_t *err)
{
    struct conf *cf = b->state;
    char own[1024], path[1024];
    struct cert cert;

    memset(card, 0, sizeof(*card));
    if (is_vacant(cf, rank))
        card->absent = true;
    else if (reached_at(b, rank, card, err) < 0)
        return -1;
    if (!b->curve)
        return 0;
    if (keyfile(b, b->rank, own, sizeof(own), err) < 0 ||
        keyfile(b, rank, path, sizeof(path), err) < 0)
        return -1;
    if (strcmp(own, path) == 0) {
        memcpy(card->key, b->cert.public_key, CERT_KEY_SIZE);
        return 0;
    }
    if (boot_cert_read(&cert, path, false, err) < 0)
        return -1;
    memcpy(card->key, cert.public_key, CERT_KEY_SIZE);
    return 0;
}

static bool conf_key(boot_t *b, uint32_t rank, char *key)
{
    struct cert cert;
    char own[1024], path[1024];

    if (!b->curve || keyfile(b, b->rank, own, sizeof(own), NULL) < 0 ||
        keyfile(b, rank, path, sizeof(path), NULL) < 0)
        return false;
    if (strcmp(own, path) == 0) {
        memcpy(key, b->public_key, CERT_KEY_SIZE);
        return true;
    }
    if (boot_cert_read(&cert, path, false, NULL) < 0)
        return false;
    memcpy(key, cert.public_key, CERT_KEY_SIZE);
    boot_cert_wipe(&cert);
    return true;
}

static int conf_publish(boot_t *b, const struct boot_card *card, errmsg_t *err)
{
    (void)b, (void)card, (void)err;
    return 0;
}

static int conf_finish(boot_t *b, errmsg_t *err)
{
    (void)b, (void)err;
    return 0;
}

const struct boot_ops boot_config_ops = {
    .name = "config",
    .open = conf_open,
    .keys = conf_keys,
    .endpoints = conf_endpoints,
    .publish = conf_publish,
    .lookup = conf_lookup,
    .key = conf_key,
    .keeps = true,
    .finish = conf_finish,
    .close = conf_close,
};

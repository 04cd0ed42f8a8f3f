/* Hosts of a session: the order of its ranks.
 *
 * Format: a hostlist (libidset/hostlist.h).  A host that occurs several times gets several brokers.
 *
 * Invariants:
 *  1. With `flux start --hosts`, rank 0 is on this host, at the first place of the list that names
 *     it: by its host name (with or without domain), as "localhost", or by one of its addresses.
 *     The other ranks follow in the order of the list.  With a configuration file, the order is
 *     that of the list.
 *  2. Only the name of rank 0's place is taken for this host.  Another name is another host, even
 *     if it leads here: its broker is started through ssh.
 *  3. A rank beyond the list has no host until one is added, to which no other rank belongs then.
 *     Names are compared as they are written.
 *  4. Once a host has been added or looked for, `ranks` has the first rank of each name, and with a
 *     dot before it, with which no name begins, that of what precedes a domain: no host is compared
 *     with all others.
 *
 * Failure: a list without this host is refused, since the initial program, its input and its
 * output belong to the host on which rank 0 runs.
 */
#include "config.h"
#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "boot_hosts.h"
#include "boot_private.h"
#include "libidset/hostlist.h"
#include "libutil/hmap.h"

struct boot_hosts {
    char **names; /* NULL: the rank has no host */
    uint32_t size;
    uint32_t listed;
    uint32_t vacant; /* all added ranks below this one have a host */
    hmap_t *ranks;   /* name -> first rank + 1; NULL until it is needed */
    bool several;    /* more than one host */
};

static bool is_address(const char *name)
{
    struct in_addr bin;

    return inet_pton(AF_INET, name, &bin) == 1;
}

bool boot_hosts_same(const char *a, const char *b)
{
    size_t la = strcspn(a, "."), lb = strcspn(b, ".");

    if (strcasecmp(a, b) == 0)
        return true;
    return la == lb && (!a[la] || !b[lb]) && strncasecmp(a, b, la) == 0;
}

static bool is_here(const char *name, const char *self)
{
    char uri[HOSTLIST_NAME_MAX + sizeof("tcp://:9")];

    if (!is_address(name))
        return boot_hosts_same(name, self) || strcasecmp(name, "localhost") == 0;
    snprintf(uri, sizeof(uri), "tcp://%s:9", name);
    return boot_addr_is_here(uri);
}

/* Add the names: that of number `first`, then the others. */
static int add_names(boot_hosts_t *h, const hostlist_t *hl, size_t first)
{
    char name[HOSTLIST_NAME_MAX + 1];

    for (size_t i = 0; hostlist_nth(hl, i, name, sizeof(name)); i++) {
        if (!(h->names[i == first ? 0 : i < first ? i + 1 : i] = strdup(name)))
            return -1;
    }
    return 0;
}

boot_hosts_t *boot_hosts_create(const char *list, const char *self, errmsg_t *err)
{
    char name[HOSTLIST_NAME_MAX + 1];
    hostlist_t *hl = hostlist_parse(list, err);
    boot_hosts_t *h = NULL;
    size_t count, at = 0;

    if (!hl)
        return NULL;
    count = hostlist_count(hl);
    while (at < count && !is_here(hostlist_nth(hl, at, name, sizeof(name)), self))
        at++;
    if (count == 0)
        errmsg_fail(err, EINVAL, "the list of hosts is empty");
    else if (count > BOOT_HOSTS_MAX)
        errmsg_fail(err, E2BIG, "%zu hosts are too many: a session has at most %d brokers", count,
                    BOOT_HOSTS_MAX);
    else if (at == count)
        errmsg_fail(err, EADDRNOTAVAIL,
                    "this host, %.64s, is not in the list, but rank 0 and the command run here: "
                    "add it to the list, or run flux start on one of the hosts",
                    self);
    else if (!(h = calloc(1, sizeof(*h))) || !(h->names = calloc(count, sizeof(char *))) ||
             (h->size = h->listed = (uint32_t)count, add_names(h, hl, at) < 0)) {
        boot_hosts_destroy(h);
        h = NULL;
        errmsg_fail(err, ENOMEM, "out of memory for %zu hosts", count);
    }
    for (size_t i = 0; h && i < count; i++)
        h->several |= !boot_hosts_here(h, (uint32_t)i);
    hostlist_destroy(hl);
    return h;
}

boot_hosts_t *boot_hosts_list(const hostlist_t *list, errmsg_t *err)
{
    size_t count = hostlist_count(list);
    boot_hosts_t *h = NULL;

    if (count > BOOT_HOSTS_MAX)
        errmsg_fail(err, E2BIG, "%zu hosts are too many: a session has at most %d brokers", count,
                    BOOT_HOSTS_MAX);
    else if (!(h = calloc(1, sizeof(*h))) || !(h->names = calloc(count + 1, sizeof(char *))) ||
             (h->size = h->listed = (uint32_t)count, add_names(h, list, 0) < 0)) {
        boot_hosts_destroy(h);
        h = NULL;
        errmsg_fail(err, ENOMEM, "out of memory for %zu hosts", count);
    }
    return h;
}

void boot_hosts_destroy(boot_hosts_t *h)
{
    int saved = errno;

    if (!h)
        return;
    for (uint32_t i = 0; i < h->size; i++)
        free(h->names[i]);
    free(h->names);
    hmap_destroy(h->ranks);
    free(h);
    errno = saved;
}

int boot_hosts_reserve(boot_hosts_t *h, uint32_t size, errmsg_t *err)
{
    char **names;

    if (size < h->listed)
        return errmsg_fail(err, EINVAL, "there are %u hosts, but the size is %u", h->listed, size);
    if (size > BOOT_HOSTS_MAX)
        return errmsg_fail(err, E2BIG, "%u ranks are too many: a session has at most %d brokers",
                           size, BOOT_HOSTS_MAX);
    if (!(names = realloc(h->names, size * sizeof(char *))))
        return errmsg_fail(err, ENOMEM, "out of memory for %u hosts", size);
    memset(names + h->size, 0, (size - h->size) * sizeof(char *));
    h->names = names;
    h->several |= size > h->size;
    h->size = size;
    return 0;
}

struct key {
    char text[HOSTLIST_NAME_MAX + 1];
};

/* What precedes the domain, if there is one. */
static size_t label_len(const char *name)
{
    return is_address(name) ? strlen(name) : strcspn(name, ".");
}

/* Case does not matter.  The name has at most HOSTLIST_NAME_MAX bytes. */
static struct key key_of(const char *prefix, const char *name, size_t len)
{
    struct key key;

    snprintf(key.text, sizeof(key.text), "%s%.*s", prefix, (int)len, name);
    for (char *p = key.text; *p; p++)
        *p = (char)tolower((unsigned char)*p);
    return key;
}

/* The rank + 1; 0: none. */
static uint32_t get(const boot_hosts_t *h, const struct key *key)
{
    return (uint32_t)(uintptr_t)hmap_get(h->ranks, key->text);
}

static int put(boot_hosts_t *h, const struct key *key, uint32_t rank)
{
    return get(h, key) ? 0 : hmap_put(h->ranks, key->text, (void *)(uintptr_t)(rank + 1));
}

static int note(boot_hosts_t *h, uint32_t rank)
{
    const char *name = h->names[rank];
    const size_t label = label_len(name);
    const struct key whole = key_of("", name, strlen(name)), any = key_of(".", name, label);

    return put(h, &whole, rank) < 0 || (name[label] && put(h, &any, rank) < 0) ? -1 : 0;
}

static void forget(boot_hosts_t *h, uint32_t rank)
{
    const char *name = h->names[rank];
    const struct key keys[] = {key_of("", name, strlen(name)), key_of(".", name, label_len(name))};

    for (int i = 0; i < 2; i++) {
        if (get(h, &keys[i]) == rank + 1)
            (void)hmap_del(h->ranks, keys[i].text);
    }
}

/* A session in which no host is added or looked for does without the map. */
static int make_map(boot_hosts_t *h)
{
    int rc;

    if (h->ranks)
        return 0;
    rc = (h->ranks = hmap_create_str(NULL)) ? 0 : -1;
    for (uint32_t rank = 0; rc == 0 && rank < h->size; rank++) {
        if (h->names[rank])
            rc = note(h, rank);
    }
    if (rc < 0) {
        hmap_destroy(h->ranks);
        h->ranks = NULL;
    }
    return rc;
}

/* -1 with an error message: this is not the name of one host, or that has a rank. */
static int check_new(boot_hosts_t *h, const char *host, uint32_t *rank, errmsg_t *err)
{
    struct key key;
    uint32_t known;
    size_t count = 0;

    /* The name becomes an argument of ssh. */
    if (hostlist_check(host, &count, err) < 0 || count != 1 || strpbrk(host, "[], \n") ||
        host[0] == '-')
        return errmsg_fail(err, EINVAL, "'%.64s' is not the name of a host", host);
    if (make_map(h) < 0)
        return errmsg_fail(err, ENOMEM, "out of memory for host %.64s", host);
    key = key_of("", host, strlen(host));
    if (!(known = get(h, &key)))
        return 0;
    *rank = known - 1;
    return errmsg_fail(err, EEXIST, "host %.64s is rank %u of the session already", host, *rank);
}

static int place(boot_hosts_t *h, uint32_t rank, const char *host, errmsg_t *err)
{
    if ((h->names[rank] = strdup(host)) && note(h, rank) == 0)
        return 0;
    boot_hosts_remove(h, rank);
    return errmsg_fail(err, ENOMEM, "out of memory for host %.64s", host);
}

int boot_hosts_put(boot_hosts_t *h, uint32_t rank, const char *host, errmsg_t *err)
{
    uint32_t other;

    return check_new(h, host, &other, err) < 0 ? -1 : place(h, rank, host, err);
}

int boot_hosts_add(boot_hosts_t *h, const char *host, uint32_t *rank, errmsg_t *err)
{
    if (check_new(h, host, rank, err) < 0)
        return -1;
    if (h->vacant < h->listed)
        h->vacant = h->listed;
    while (h->vacant < h->size && h->names[h->vacant])
        h->vacant++;
    *rank = h->vacant;
    if (*rank == h->size)
        return errmsg_fail(err, ENOSPC,
                           "host %.64s cannot be added: all %u ranks of the session have a host "
                           "(flux start --size, or session.size of the configuration file)",
                           host, h->size);
    return place(h, *rank, host, err);
}

void boot_hosts_remove(boot_hosts_t *h, uint32_t rank)
{
    if (h->names[rank] && h->ranks)
        forget(h, rank);
    free(h->names[rank]);
    h->names[rank] = NULL;
    if (rank < h->vacant)
        h->vacant = rank;
}

uint32_t boot_hosts_find(boot_hosts_t *h, const char *host)
{
    size_t len = strlen(host), label = label_len(host);
    struct key whole, alike;
    uint32_t at, other;

    if (len > HOSTLIST_NAME_MAX || make_map(h) < 0)
        return h->size;
    whole = key_of("", host, len);
    alike = key_of(host[label] ? "" : ".", host, label); /* without a domain, or with any */
    at = get(h, &whole);
    other = get(h, &alike);
    if (at == 0 || (other > 0 && other < at))
        at = other;
    return at > 0 ? at - 1 : h->size;
}

uint32_t boot_hosts_size(const boot_hosts_t *h)
{
    return h->size;
}

uint32_t boot_hosts_listed(const boot_hosts_t *h)
{
    return h->listed;
}

const char *boot_hosts_name(const boot_hosts_t *h, uint32_t rank)
{
    return h->names[rank];
}

bool boot_hosts_here(const boot_hosts_t *h, uint32_t rank)
{
    return h->names[rank] && strcasecmp(h->names[rank], h->names[0]) == 0;
}

const char *boot_hosts_address(const boot_hosts_t *h, uint32_t rank)
{
    const char *name = boot_hosts_name(h, rank);

    return h->several && name && is_address(name) ? name : NULL;
}

bool boot_hosts_several(const boot_hosts_t *h)
{
    return h->several;
}

/* Hosts of a session: which rank runs on which host.
 *
 * Thread-safe for objects that nobody destroys.
 */
#ifndef BROKER_BOOT_HOSTS_H
#define BROKER_BOOT_HOSTS_H

#include <stdbool.h>
#include <stdint.h>

#include "libidset/hostlist.h"
#include "libutil/errmsg.h"

#define BOOT_HOSTS_MAX 65536 /* brokers of one session */

typedef struct boot_hosts boot_hosts_t;

/* Place one broker on each host of the hostlist `list`; `self` is the name of this host.  NULL with
 * errno and an error message: EINVAL (malformed, or empty), E2BIG, ENOMEM, or EADDRNOTAVAIL (this
 * host is not in the list). */
boot_hosts_t *boot_hosts_create(const char *list, const char *self, errmsg_t *err);
/* The hosts of a session by configuration file, in their order; the same host may occur several
 * times.  NULL with E2BIG or ENOMEM, and an error message. */
boot_hosts_t *boot_hosts_list(const hostlist_t *list, errmsg_t *err);
void boot_hosts_destroy(boot_hosts_t *h); /* NULL-safe, keeps errno */

/* Let the session have `size` ranks, of which those beyond the list have no host yet.  -1 with
 * errno and an error message: EINVAL (the list is longer), E2BIG, ENOMEM. */
int boot_hosts_reserve(boot_hosts_t *h, uint32_t size, errmsg_t *err);
/* Give the first rank without a host this one.  0; -1 with errno and an error message: EINVAL (that
 * is not the name of one host), EEXIST (*rank is that of the host), ENOSPC or ENOMEM. */
int boot_hosts_add(boot_hosts_t *h, const char *host, uint32_t *rank, errmsg_t *err);
/* Give this rank, which has no host, this one.  Otherwise as boot_hosts_add(). */
int boot_hosts_put(boot_hosts_t *h, uint32_t rank, const char *host, errmsg_t *err);
/* This rank, to which a host was added, has none any more. */
void boot_hosts_remove(boot_hosts_t *h, uint32_t rank);
/* The first rank of a host of this name, or of one that boot_hosts_same() takes for it.  The size:
 * there is none, or no memory to look for it. */
uint32_t boot_hosts_find(boot_hosts_t *h, const char *host);

uint32_t boot_hosts_size(const boot_hosts_t *h);
uint32_t boot_hosts_listed(const boot_hosts_t *h); /* ranks that have had a host from the start */
/* NULL: it has none */
const char *boot_hosts_name(const boot_hosts_t *h, uint32_t rank);

/* Is the broker of this rank started on this host? */
bool boot_hosts_here(const boot_hosts_t *h, uint32_t rank);

/* The address at which the broker has to listen: its host's name if that is an address, and if
 * there are other hosts.  NULL: the broker chooses. */
const char *boot_hosts_address(const boot_hosts_t *h, uint32_t rank);

/* Are these names of one host?  If one of them lacks a domain, domains are not compared. */
bool boot_hosts_same(const char *a, const char *b);

/* Are there other hosts, or may there be? */
bool boot_hosts_several(const boot_hosts_t *h);

#endif

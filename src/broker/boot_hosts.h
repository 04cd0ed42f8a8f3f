/* Hosts of a session that `flux start --hosts` starts: which rank runs on which host.
 *
 * Thread-safe for objects that nobody destroys.
 */
#ifndef BROKER_BOOT_HOSTS_H
#define BROKER_BOOT_HOSTS_H

#include <stdbool.h>
#include <stdint.h>

#include "libutil/errmsg.h"

#define BOOT_HOSTS_MAX 65536 /* brokers of one session */

typedef struct boot_hosts boot_hosts_t;

/* Place one broker on each host of the hostlist `list`; `self` is the name of this host.  NULL with
 * errno and an error message: EINVAL (malformed, or empty), E2BIG, ENOMEM, or EADDRNOTAVAIL (this
 * host is not in the list). */
boot_hosts_t *boot_hosts_create(const char *list, const char *self, errmsg_t *err);
void boot_hosts_destroy(boot_hosts_t *h); /* NULL-safe, keeps errno */

uint32_t boot_hosts_size(const boot_hosts_t *h);
const char *boot_hosts_name(const boot_hosts_t *h, uint32_t rank);

/* Is the broker of this rank started on this host? */
bool boot_hosts_here(const boot_hosts_t *h, uint32_t rank);

/* The address at which the broker has to listen: its host's name if that is an address, and if
 * there are other hosts.  NULL: the broker chooses. */
const char *boot_hosts_address(const boot_hosts_t *h, uint32_t rank);

/* Are there other hosts? */
bool boot_hosts_several(const boot_hosts_t *h);

#endif

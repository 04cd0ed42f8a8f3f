/* The hosts of a session by configuration file, at rank 0: those that the file lists, and those
 * that have been added since (`flux overlay add`).
 *
 * Thread rules: belongs to the broker's main thread.
 */
#ifndef BROKER_BOOT_ROSTER_H
#define BROKER_BOOT_ROSTER_H

#include "boot_hosts.h"
#include "libutil/errmsg.h"

typedef struct boot_roster boot_roster_t;

/* `hosts` are those that the file lists, with room for others (boot_hosts_reserve()); borrowed
 * until boot_roster_destroy().  Hosts that were added are kept in the file `hosts` of the directory
 * `statedir`, and read from there; NULL: they are forgotten with the session.  NULL with errno and
 * an error message: EINVAL (the file cannot be understood, or contradicts `hosts`), ENOMEM, an
 * error of the file. */
boot_roster_t *boot_roster_create(boot_hosts_t *hosts, const char *statedir, errmsg_t *err);
void boot_roster_destroy(boot_roster_t *r); /* NULL-safe, keeps errno */

/* Give a host the first rank that has none.  It has been added when boot_roster_save() has recorded
 * it, and is not admitted before.  -1 with errno and an error message: those of boot_hosts_add(),
 * or ENOMEM. */
int boot_roster_add(boot_roster_t *r, const char *host, uint32_t *rank, errmsg_t *err);
/* Record the hosts that have got a rank since the last time; this waits for the disk.  -1 with an
 * error of the file, and an error message: then none of them has been added. */
int boot_roster_save(boot_roster_t *r, errmsg_t *err);

/* May the broker on this host have this rank?  -1 with EPERM and an error message for it. */
int boot_roster_admit(const boot_roster_t *r, uint32_t rank, const char *host, errmsg_t *err);

#endif

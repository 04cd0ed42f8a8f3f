/* What brokers that start late need from the exchange of a session that flux start has begun: those
 * that are started again, whose hosts could not be reached, or whose hosts are added.
 *
 * Used by the nursery's only thread.  No call blocks, except that `send` may.
 */
#ifndef BROKER_BOOT_LATE_H
#define BROKER_BOOT_LATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "libpmi/pmi_server.h"
#include "libutil/errmsg.h"

typedef struct boot_late boot_late_t;

/* NULL with ENOMEM. */
boot_late_t *boot_late_create(uint32_t size);
void boot_late_destroy(boot_late_t *l); /* NULL-safe, keeps errno */

/* All brokers are on one host. */
void boot_late_set_one_host(boot_late_t *l, bool one);
/* Tell a PMI server whether that is so.  -1 with ENOMEM. */
int boot_late_mapping(const boot_late_t *l, struct pmi_server *s);

/* Make the card and the key pair of a rank whose broker is absent, and put the card into the common
 * server.  `host`: its name; NULL: it has none yet.  0, or -1 with errno and an error message. */
int boot_late_absent(boot_late_t *l, uint32_t rank, const char *host, struct pmi_server *common,
                     errmsg_t *err);
/* Was such a key pair made? */
bool boot_late_has_key(const boot_late_t *l, uint32_t rank);

/* Keep the pairs of the exchange (copied).  -1 with ENOMEM. */
int boot_late_keep(boot_late_t *l, const void *blob, size_t len);
/* Were they kept, so that brokers may start late? */
bool boot_late_possible(const boot_late_t *l);

/* The PMI dialog with one such broker. */
typedef struct boot_dialog boot_dialog_t;

/* `send` sends bytes to the broker: 0, or -1 with errno.  `l` must outlive the dialog.  NULL with
 * errno and an error message. */
boot_dialog_t *boot_dialog_create(boot_late_t *l, uint32_t rank,
                                  int (*send)(void *arg, const void *data, size_t len), void *arg,
                                  errmsg_t *err);
void boot_dialog_destroy(boot_dialog_t *d); /* NULL-safe, keeps errno */
/* As pmi_server_input() and pmi_server_eof(). */
int boot_dialog_input(boot_dialog_t *d, const void *data, size_t len);
void boot_dialog_eof(boot_dialog_t *d);

#endif

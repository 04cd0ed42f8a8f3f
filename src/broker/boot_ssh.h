/* One broker on another host, started through ssh: the end of the nursery.
 *
 * Used by the nursery's only thread, which waits for the descriptors.  No call blocks.
 */
#ifndef BROKER_BOOT_SSH_H
#define BROKER_BOOT_SSH_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "boot_hosts.h"
#include "libutil/errmsg.h"
#include "libutil/strvec.h"

typedef struct boot_ssh boot_ssh_t;

struct boot_ssh_config {
    boot_hosts_t *hosts;
    const char *program;     /* words of the command ssh, separated by spaces */
    const strvec_t *options; /* of flux-broker, for all brokers */
    bool addresses;          /* a broker listens at the address that names its host */
    bool verbose;            /* print what ssh says even if it works */
};

/* Fork and exec ssh for this rank.  `again`: the session has begun without it.  The signal mask of
 * ssh is `mask`.  NULL with errno and an error message. */
boot_ssh_t *boot_ssh_start(const struct boot_ssh_config *cfg, uint32_t rank, bool again,
                           const sigset_t *mask, errmsg_t *err);
/* Close the connection; does not wait for ssh.  NULL-safe, keeps errno. */
void boot_ssh_destroy(boot_ssh_t *s);

pid_t boot_ssh_pid(const boot_ssh_t *s);
int boot_ssh_fd(const boot_ssh_t *s);  /* readable: call boot_ssh_read() */
int boot_ssh_err(const boot_ssh_t *s); /* readable: call boot_ssh_read_err() */

/* Read what has come.  1; 0: nothing now; -1: the connection is closed (and the descriptor), or,
 * with an error message that is not empty, it is of no use any more. */
int boot_ssh_read(boot_ssh_t *s, errmsg_t *err);
/* The next part of the PMI dialog in what was read.  1: `data`, valid until the next call; 0: no
 * more; -1: the dialog is over. */
int boot_ssh_pmi_next(boot_ssh_t *s, const char **data, size_t *len);

/* Print what ssh and the broker have written to standard error, each line with the host's name. */
void boot_ssh_read_err(boot_ssh_t *s);

/* The last line of that ("": none): since the greeting, once that has come. */
const char *boot_ssh_last(const boot_ssh_t *s);

/* Send a part of the PMI dialog.  -1 with errno. */
int boot_ssh_pmi_send(boot_ssh_t *s, const void *data, size_t len);

/* Has the broker greeted?  Until then, there may be none. */
bool boot_ssh_greeted(const boot_ssh_t *s);

/* Send a signal to the broker; before it has greeted, end ssh. */
void boot_ssh_signal(boot_ssh_t *s, int signum);

/* End ssh: its host does not answer. */
void boot_ssh_cut(boot_ssh_t *s);

/* ssh has ended with this status.  Was that an end of the connection rather than of the broker?
 * Then there is an error message, with an errno. */
bool boot_ssh_lost(boot_ssh_t *s, int status, errmsg_t *err);

#endif

/* Declarations that the files of boot share.  boot.c: the method, directories, keys.  boot_pmi.c
 * and boot_config.c: two ways to find neighbors.  boot_addr.c: addresses of this host.
 */
#ifndef BROKER_BOOT_PRIVATE_H
#define BROKER_BOOT_PRIVATE_H

#include <limits.h>

#include "boot.h"
#include "boot_cert.h"
#include "boot_dir.h"
#include "libpmi/pmi_client.h"
#include "libutil/hmap.h"
#include "libutil/strvec.h"

#define BOOT_URI_MAX TRANSPORT_URI_MAX
/* Environment: set by the nursery for a broker that it starts again. */
#define BOOT_AGAIN "FLUX_BROKER_AGAIN"
/* Environment: set by the nursery for rank 0, a descriptor (boot_add.h). */
#define BOOT_LAUNCHER "FLUX_BROKER_LAUNCHER"
#define BOOT_ADDR_MAX 64
#define BOOT_ABSENT "absent" /* last part of the card of a broker that is absent */

/* The data about a broker that a neighbor must know. */
struct boot_card {
    char tree_uri[BOOT_URI_MAX];
    char event_uri[BOOT_URI_MAX]; /* "": it has no children */
    char key[CERT_KEY_SIZE];      /* "": no CURVE */
    bool absent;                  /* PMI: no broker could be started on its host */
};

struct boot_ops {
    const char *name;
    /* Phase 1: set rank and size, and other known members. */
    int (*open)(boot_t *b, errmsg_t *err);
    /* Phase 2.  Set b->cert.  NULL: a new key pair is used. */
    int (*keys)(boot_t *b, errmsg_t *err);
    /* Compose the addresses to listen at; a broker without children does not use the event URI. */
    int (*endpoints)(boot_t *b, char *tree_uri, char *event_uri, errmsg_t *err);
    /* Publish the card of this broker to all others. */
    int (*publish)(boot_t *b, const struct boot_card *card, errmsg_t *err);
    /* Get the card of a neighbor. */
    int (*lookup)(boot_t *b, uint32_t rank, struct boot_card *card, errmsg_t *err);
    /* Get the public key of a rank while the session runs.  Returns false if it is not known.
     * NULL: no key is known then. */
    bool (*key)(boot_t *b, uint32_t rank, char *key);
    bool keeps; /* the state is kept until the end: lookup() and key() remain possible */
    /* The session runs: notify the launcher, if it needs to know. */
    int (*finish)(boot_t *b, errmsg_t *err);
    void (*close)(boot_t *b); /* may be called at any time, also repeatedly */
};

struct boot {
    struct boot_config cfg;
    const struct boot_ops *ops;
    void *state; /* of the method */
    uint32_t rank;
    uint32_t size;
    char *topology;      /* set by the method; NULL: use the attribute or the default */
    boot_hosts_t *hosts; /* config: those listed, if there may be more of them; NULL: all */
    char host[HOST_NAME_MAX + 1]; /* config: name of this host */
    char attr_source[300];        /* place where `attrs` were set: FILE:LINE */
    strvec_t *attrs;              /* name, value, name, value ... */
    char rundir[BOOT_PATH_MAX];
    bool rundir_given; /* the user chose it, so programs may know it */
    char rankdir[BOOT_PATH_MAX];
    int dirlock; /* descriptor that locks rankdir; -1: none yet */
    bool curve;
    bool finished;
    bool again;   /* PMI: the session runs, and knows the card of this rank ... */
    bool late;    /* ... which was absent when it began */
    int launcher; /* PMI: connection of rank 0 to the nursery; -1: none */
    struct cert cert;
    char public_key[CERT_KEY_SIZE]; /* that of `cert`, when `cert` is wiped */
    hmap_t *absent_keys; /* rank below, with brokers between that are absent -> its key; or NULL */
};

extern const struct boot_ops boot_pmi_ops;
extern const struct boot_ops boot_config_ops;

/* The value of an attribute: from the command line, else from the configuration file, else NULL. */
const char *boot_attr(const boot_t *b, const char *name);

/* Set an attribute of the configuration file, unless the command line sets it.  -1 with ENOMEM. */
int boot_attr_add(boot_t *b, const char *name, const char *value);

/* The address to listen on: tcp.address, tcp.interface, or the first that is not loopback (IPv4
 * first), in the form of a URI: "10.1.2.3", "[fe00::1]". */
int boot_address(const boot_t *b, char *buf, size_t size, errmsg_t *err);
/* Look up HOST in "tcp://HOST:PORT", and replace it by its address. */
int boot_addr_resolve(const char *uri, char *buf, size_t size, errmsg_t *err);

/* Is it an address of this host, "tcp://ADDRESS:PORT", in this network namespace? */
bool boot_addr_is_here(const char *uri);

/* Compose the addresses at which the broker listens, each of BOOT_URI_MAX bytes, by the transport
 * that the setting link.transport names.  0; -1 with EINVAL and an error message. */
int boot_compose(const boot_t *b, const struct transport_place *place, char *tree_uri,
                 char *event_uri, errmsg_t *err);

/* Does the environment offer a PMI? */
bool boot_pmi_found(void);

/* What PMI holds for a broker that is absent, and may come: its card, which names the address at
 * which it will have to listen, and the secret key that belongs to it, for this broker alone. */
struct boot_absent {
    char card_key[32];
    char card[3 * BOOT_ADDR_MAX + CERT_KEY_SIZE]; /* it ends with BOOT_ABSENT */
    char secret_key[32];
    char secret[CERT_KEY_SIZE];
};
/* `host` is its name; NULL: it has none yet, and the card no address.  0, or -1 with errno and an
 * error message. */
int boot_pmi_absent(uint32_t rank, const char *host, struct boot_absent *a, errmsg_t *err);

/* boot_pmix.c: PMI-1 by a helper program where the launcher speaks only PMIx. */
bool boot_pmix_found(void);
/* Start the helper and the dialog.  *pid is for boot_pmix_close(), even on failure; 0: none.  NULL
 * with an error message. */
struct pmi_client *boot_pmix_open(pid_t *pid, errmsg_t *err);
void boot_pmix_close(pid_t pid);
/* Remove PMIX_* from the environment, and (`mpirun`) the other variables of mpirun that identify
 * this process. */
void boot_pmix_clean(bool mpirun);

#endif

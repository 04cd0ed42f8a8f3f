/* What the files of boot share.  boot.c: the method, directories, keys; boot_pmi.c and
 * boot_config.c: the two ways to find neighbours; boot_addr.c: addresses of this host. */
#ifndef BROKER_BOOT_PRIVATE_H
#define BROKER_BOOT_PRIVATE_H

#include "boot.h"
#include "boot_cert.h"
#include "boot_dir.h"
#include "libpmi/pmi_client.h"
#include "libutil/strvec.h"

#define BOOT_URI_MAX 300
#define BOOT_ADDR_MAX 64

/* What a neighbour has to know of a broker. */
struct boot_card {
    char tree_uri[BOOT_URI_MAX];
    char event_uri[BOOT_URI_MAX]; /* "": it has no children */
    char key[CERT_KEY_SIZE];      /* "": without CURVE */
};

struct boot_ops {
    const char *name;
    /* Phase 1: fill in rank and size, and what else is known. */
    int (*open)(boot_t *b, errmsg_t *err);
    /* Phase 2.  Fill in b->cert; NULL: a fresh key pair will do. */
    int (*keys)(boot_t *b, errmsg_t *err);
    /* Where to listen; the event URI is not used by a broker without children. */
    int (*endpoints)(boot_t *b, char *tree_uri, char *event_uri, errmsg_t *err);
    /* Show our card to all others. */
    int (*publish)(boot_t *b, const struct boot_card *card, errmsg_t *err);
    /* The card of a neighbour. */
    int (*lookup)(boot_t *b, uint32_t rank, struct boot_card *card, errmsg_t *err);
    /* The session is there: the launcher may be told so. */
    int (*finish)(boot_t *b, errmsg_t *err);
    void (*close)(boot_t *b); /* may be called at any time, more than once */
};

struct boot {
    struct boot_config cfg;
    const struct boot_ops *ops;
    void *state; /* of the method */
    uint32_t rank;
    uint32_t size;
    char *topology;        /* given by the method; NULL: the attribute's, or the default */
    char attr_source[300]; /* of these: FILE:LINE */
    strvec_t *attrs;       /* name, value, name, value ... */
    char rundir[BOOT_PATH_MAX];
    bool rundir_given; /* somebody chose it: programs may know where */
    char rankdir[BOOT_PATH_MAX];
    int dirlock; /* holds rankdir; -1: there is none yet */
    bool curve;
    bool finished;
    struct cert cert;
};

extern const struct boot_ops boot_pmi_ops;
extern const struct boot_ops boot_config_ops;

/* An attribute: the command line's, else the configuration file's, else NULL. */
const char *boot_attr(const boot_t *b, const char *name);

/* Set one of the configuration file, unless the command line did.  -1 with ENOMEM. */
int boot_attr_add(boot_t *b, const char *name, const char *value);

/* The address to listen on: tcp.address, tcp.interface, or the first that is not loopback (IPv4
 * first), as it stands in a URI: "10.1.2.3", "[fe00::1]". */
int boot_address(const boot_t *b, char *buf, size_t size, errmsg_t *err);
/* "tcp://HOST:PORT" with HOST looked up and put in numbers. */
int boot_resolve(const char *uri, char *buf, size_t size, errmsg_t *err);

/* Is there a PMI in the environment? */
bool boot_pmi_found(void);

/* boot_pmix.c: PMI-1 by a helper where the launcher speaks PMIx alone. */
bool boot_pmix_found(void);
/* Start the helper and the dialog: *pid is for boot_pmix_close(), also on failure, 0: none.  NULL with
 * a sentence. */
struct pmi_client *boot_pmix_open(pid_t *pid, errmsg_t *err);
void boot_pmix_close(pid_t pid);
/* Remove PMIX_* from the environment; and what else mpirun says there about this process. */
void boot_pmix_clean(bool mpirun);

#endif

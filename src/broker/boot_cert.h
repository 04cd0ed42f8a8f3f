/* Certificates: CURVE key pairs in files, as `flux keygen` makes them.
 *
 * FILE holds both keys and must be readable by its owner only; FILE.pub the public one.  Keys are
 * in Z85 (ZeroMQ RFC 32), 40 characters.  Thread-safe.
 */
#ifndef BROKER_BOOT_CERT_H
#define BROKER_BOOT_CERT_H

#include <stdbool.h>

#include "libutil/errmsg.h"

#define CERT_KEY_SIZE 41

struct cert {
    char public_key[CERT_KEY_SIZE];
    char secret_key[CERT_KEY_SIZE]; /* "": not there */
};

/* A fresh pair.  -1 with ENOTSUP and a sentence when ZeroMQ was built without CURVE. */
int cert_generate(struct cert *c, errmsg_t *err);

/* Write FILE (mode 0600) and FILE.pub (0644).  Without `force`, EEXIST when either exists. */
int cert_write(const struct cert *c, const char *path, bool force, errmsg_t *err);

/* Read FILE, or (`secret` false) FILE.pub.  EPERM: the secret can be read by others, or belongs to
 * somebody else; EINVAL: it is not a certificate. */
int cert_read(struct cert *c, const char *path, bool secret, errmsg_t *err);

/* Overwrite the secret. */
void cert_wipe(struct cert *c);

#endif

/* Certificates: CURVE key pairs in files, as `flux keygen` creates them.
 *
 * FILE holds both keys, and only its owner may read it.  FILE.pub holds the public key.  Keys are
 * strings of 40 characters in Z85 (ZeroMQ RFC 32).  Thread-safe.
 */
#ifndef BROKER_BOOT_CERT_H
#define BROKER_BOOT_CERT_H

#include <stdbool.h>

#include "libutil/errmsg.h"

#define CERT_KEY_SIZE 41

struct cert {
    char public_key[CERT_KEY_SIZE];
    char secret_key[CERT_KEY_SIZE]; /* "": absent */
};

/* Create a key pair.  -1 with ENOTSUP and an error message if ZeroMQ was built without CURVE. */
int boot_cert_generate(struct cert *c, errmsg_t *err);

/* Write FILE (mode 0600) and FILE.pub (0644).  Without `force`, EEXIST when either exists. */
int boot_cert_write(const struct cert *c, const char *path, bool force, errmsg_t *err);

/* Read FILE, or (`secret` false) FILE.pub.  EPERM: others can read the secret key, or the file
 * belongs to another user; EINVAL: it is not a certificate. */
int boot_cert_read(struct cert *c, const char *path, bool secret, errmsg_t *err);

/* Overwrite the keys in memory. */
void boot_cert_wipe(struct cert *c);

#endif

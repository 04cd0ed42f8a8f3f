/* Blobrefs: the names of objects, which are the hashes of their bytes.
 *
 * A context has one algorithm, fetched once.  Programs use binary digests of blobref_size() bytes;
 * people see text: "sha256-" and hexadecimal digits.
 *
 * sha1 is FIPS 180-4 (20 bytes), sha256 is FIPS 180-4 (32 bytes), blake2b is the first 32 bytes of
 * BLAKE2b-512 (RFC 7693), which differs from BLAKE2b with an output of 32 bytes.
 *
 * Thread rules: a context belongs to one thread at a time.
 */
#ifndef CONTENT_BLOBREF_H
#define CONTENT_BLOBREF_H

#include <stddef.h>
#include <stdint.h>

#include "libutil/errmsg.h"

#define BLOBREF_DIGEST_MAX 32
/* Longest text, including its NUL. */
#define BLOBREF_TEXT_MAX 80

typedef struct blobref blobref_t;

/* Context for "sha1", "sha256" or "blake2b".  NULL with EINVAL and an error message, or ENOMEM. */
blobref_t *blobref_create(const char *algorithm, errmsg_t *err);
void blobref_destroy(blobref_t *b); /* NULL-safe, keeps errno */

size_t blobref_size(const blobref_t *b); /* bytes of a digest, at most BLOBREF_DIGEST_MAX */

/* Hash `len` bytes.  `digest` has room for blobref_size() bytes.  0, or -1 with EIO if the library
 * fails. */
int blobref_hash(blobref_t *b, const void *data, size_t len, uint8_t *digest);

/* Digest to text.  `buf` has BLOBREF_TEXT_MAX bytes; returns buf. */
char *blobref_format(const blobref_t *b, const uint8_t *digest, char *buf);
/* Text to digest.  -1 with EINVAL and an error message for any other algorithm or text. */
int blobref_parse(const blobref_t *b, const char *text, size_t len, uint8_t *digest, errmsg_t *err);

#endif

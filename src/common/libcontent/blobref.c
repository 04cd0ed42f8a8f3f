/* blobref.c - names of objects: hashes by OpenSSL's EVP interface, and their text form.
 *
 * Fetching an algorithm and making a digest context cost more than hashing a small object, so both
 * are done once per context and reused.
 *
 * Format: ALGORITHM "-" and two lower-case hexadecimal digits per byte.  A digest has exactly one
 * text: upper-case digits are refused.
 *
 * Before version 3.3, OpenSSL cannot compute BLAKE2b with a length other than 64 bytes.  "blake2b"
 * is therefore the first half of that digest: any 32 bytes of it resist collisions as well as
 * another digest of 32 bytes.
 *
 * Failure: an unknown algorithm, or one that the system's policy forbids, is EINVAL with an error
 * message.
 */
#include "config.h"
#include <errno.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

#include "blobref.h"
#include "libutil/hex.h"

static const struct algorithm {
    const char *name;
    const char *evp;
    size_t size;
} algorithms[] = {
    {"sha1", "SHA1", 20},
    {"sha256", "SHA2-256", 32},
    {"blake2b", "BLAKE2B-512", 32},
};

struct blobref {
    const struct algorithm *alg;
    EVP_MD *md;
    EVP_MD_CTX *ctx;
};

blobref_t *blobref_create(const char *algorithm, errmsg_t *err)
{
    const struct algorithm *alg = NULL;
    for (size_t i = 0; i < sizeof(algorithms) / sizeof(algorithms[0]); i++) {
        if (algorithm && strcmp(algorithm, algorithms[i].name) == 0)
            alg = &algorithms[i];
    }
    if (!alg) {
        errmsg_fail(err, EINVAL, "hash '%s' is not known: take sha1, sha256 or blake2b",
                    algorithm ? algorithm : "");
        return NULL;
    }
    blobref_t *b = calloc(1, sizeof(*b));
    if (!b)
        return NULL;
    b->alg = alg;
    b->md = EVP_MD_fetch(NULL, alg->evp, NULL);
    if (!b->md) {
        errmsg_fail(err, EINVAL, "this system's OpenSSL does not offer %s: choose another hash",
                    alg->name);
        blobref_destroy(b);
        return NULL;
    }
    b->ctx = EVP_MD_CTX_new();
    if (!b->ctx) {
        errno = ENOMEM;
        blobref_destroy(b);
        return NULL;
    }
    return b;
}

void blobref_destroy(blobref_t *b)
{
    if (!b)
        return;
    int saved = errno;
    EVP_MD_CTX_free(b->ctx);
    EVP_MD_free(b->md);
    free(b);
    errno = saved;
}

size_t blobref_size(const blobref_t *b)
{
    return b->alg->size;
}

int blobref_hash(blobref_t *b, const void *data, size_t len, uint8_t *digest)
{
    uint8_t full[EVP_MAX_MD_SIZE];
    if (EVP_DigestInit_ex2(b->ctx, b->md, NULL) != 1 || EVP_DigestUpdate(b->ctx, data, len) != 1 ||
        EVP_DigestFinal_ex(b->ctx, full, NULL) != 1) {
        errno = EIO;
        return -1;
    }
    memcpy(digest, full, b->alg->size);
    return 0;
}

char *blobref_format(const blobref_t *b, const uint8_t *digest, char *buf)
{
    size_t n = strlen(b->alg->name);
    memcpy(buf, b->alg->name, n);
    char *p = buf + n;
    *p++ = '-';
    p = hex_encode(p, digest, b->alg->size);
    *p = '\0';
    return buf;
}

int blobref_parse(const blobref_t *b, const char *text, size_t len, uint8_t *digest, errmsg_t *err)
{
    size_t n = strlen(b->alg->name);
    if (len != n + 1 + 2 * b->alg->size || memcmp(text, b->alg->name, n) != 0 || text[n] != '-')
        goto bad;
    if (hex_decode(digest, text + n + 1, b->alg->size) == 0)
        return 0;
bad:
    return errmsg_fail(err, EINVAL,
                       "'%.*s' is not a reference: expected %s- and %zu hexadecimal digits",
                       len > 100 ? 100 : (int)len, text, b->alg->name, 2 * b->alg->size);
}

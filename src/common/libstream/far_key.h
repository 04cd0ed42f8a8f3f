/* Keys of a stream between hosts: the grant of a reader, proofs that both ends know its secret, and
 * the keys of an encrypted connection.
 *
 *    module `stream`: far_key_grant(secret, writer's key, &grant)   passed to the reader
 *    reader:          shows the grant, and proves with far_key_hash() that it knows the secret
 *    writer:          far_key_grant() again, from its own key and the grant
 *
 * Thread rules: any thread.
 */
#ifndef STREAM_FAR_KEY_H
#define STREAM_FAR_KEY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FAR_KEY_LEN 32

struct far_grant {
    const char *stream;
    uint64_t reader;  /* its number */
    uint64_t expires; /* the last moment to connect, in seconds of the module's clock */
};

/* Compute the secret of a grant, which requires the writer's key. */
void far_key_grant(unsigned char secret[FAR_KEY_LEN], const unsigned char *key,
                   const struct far_grant *g);
/* A keyed hash of two strings of bytes, for the purpose named by `label`. */
void far_key_hash(unsigned char out[FAR_KEY_LEN], const unsigned char *key, const char *label,
                  const void *a, size_t a_len, const void *b, size_t b_len);
/* Compares in constant time. */
bool far_key_equal(const unsigned char *a, const unsigned char *b);

#endif

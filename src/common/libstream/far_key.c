/* far_key.c - capabilities of streams between hosts.
 *
 * A writer draws a random key, and sends it only to the module `stream`.  For each reader on
 * another host the module computes a secret, a keyed hash (BLAKE2b) of the grant: the stream, the
 * number of the reader, and the last moment to connect.  A reader shows the grant, and proves that
 * it knows the secret without sending it; the writer computes the secret again.  So a secret is of
 * no use for another stream, another writer, in the name of another reader, or later; and one
 * reader cannot compute the secret of another one.
 *
 * All hashes have 32 bytes.  The hashed bytes begin with a label and NUL, so that a hash for one
 * purpose is useless for any other.
 *
 * Failure: none.
 */
#include "config.h"
#include <sodium.h>
#include <string.h>

#include "libstream/far_key.h"
#include "libutil/le.h"

void far_key_hash(unsigned char out[FAR_KEY_LEN], const unsigned char *key, const char *label,
                  const void *a, size_t a_len, const void *b, size_t b_len)
{
    crypto_generichash_state st;

    crypto_generichash_init(&st, key, FAR_KEY_LEN, FAR_KEY_LEN);
    crypto_generichash_update(&st, (const unsigned char *)label, strlen(label) + 1);
    crypto_generichash_update(&st, a, a_len);
    crypto_generichash_update(&st, b, b_len);
    crypto_generichash_final(&st, out, FAR_KEY_LEN);
}

void far_key_grant(unsigned char secret[FAR_KEY_LEN], const unsigned char *key,
                   const struct far_grant *g)
{
    unsigned char numbers[16];

    le_put64(numbers, g->reader);
    le_put64(numbers + 8, g->expires);
    far_key_hash(secret, key, "grant", numbers, sizeof(numbers), g->stream, strlen(g->stream));
}

bool far_key_equal(const unsigned char *a, const unsigned char *b)
{
    return sodium_memcmp(a, b, FAR_KEY_LEN) == 0;
}

/* SipHash-2-4 (Aumasson and Bernstein, 2012): a 64-bit hash with a key.  Without the key, inputs
 * that collide cannot be found, so it suits tables whose keys come from outside.
 *
 * It is implemented here rather than by libsodium's crypto_shorthash(), with which the test
 * compares it, because libutil is linked into programs that should not load a cryptographic
 * library, such as those that load libpmi.so.
 *
 * Thread rules: any thread.
 */
#ifndef UTIL_SIPHASH_H
#define UTIL_SIPHASH_H

#include <stddef.h>
#include <stdint.h>

struct siphash_key {
    uint64_t k[2];
};

/* A random key that differs between processes, and for each `salt` within one process. */
void siphash_key_random(struct siphash_key *key, uint64_t salt);
uint64_t siphash(const struct siphash_key *key, const void *data, size_t len);

#endif

/* SipHash-2-4 (Aumasson and Bernstein, 2012): a 64-bit hash with a key.  Who does not know the key
 * cannot find inputs that collide, so it is for tables whose keys come from outside.
 *
 * Here rather than by libsodium's crypto_shorthash(), which is what the test compares it with: libutil
 * is in programs, such as those that load libpmi.so, that should not load a cryptographic library.
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

/* A key that differs for each process, and for each `salt` in it.  The same key each time for one
 * salt. */
void siphash_key_random(struct siphash_key *key, uint64_t salt);
uint64_t siphash(const struct siphash_key *key, const void *data, size_t len);

#endif

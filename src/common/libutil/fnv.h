/* fnv.h - the hash FNV-1a with 64 bits, for names and numbers that nobody chooses to collide (for
 * others: siphash.h).
 */
#ifndef UTIL_FNV_H
#define UTIL_FNV_H

#include <stdint.h>

#define FNV64_BASIS UINT64_C(0xcbf29ce484222325)

static inline uint64_t fnv64_word(uint64_t hash, uint64_t word)
{
    return (hash ^ word) * UINT64_C(0x100000001b3);
}

static inline uint64_t fnv64_text(uint64_t hash, const char *s)
{
    for (; *s; s++)
        hash = fnv64_word(hash, (unsigned char)*s);
    return hash;
}

#endif

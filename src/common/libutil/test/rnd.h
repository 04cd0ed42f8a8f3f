/* rnd.h - random numbers from a seed, the same in every run: a linear congruential generator. */
#ifndef UTIL_TEST_RND_H
#define UTIL_TEST_RND_H

#include <stdint.h>

/* 31 bits. */
static inline uint32_t rnd(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*seed >> 33);
}

#endif

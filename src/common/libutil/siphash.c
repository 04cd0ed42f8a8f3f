/* siphash.c - SipHash-2-4.
 *
 * The state is four words, made of the key and constants.  Each word of eight bytes (little-endian)
 * of the input is mixed in between two rounds.  The last word holds the remaining bytes and, in its
 * highest byte, the length.  Four rounds end the computation.
 *
 * The key of a process is the sixteen random bytes that the kernel gives each program (AT_RANDOM),
 * hashed with a number from the caller.  One table thus reveals nothing about another's key, or
 * about other uses of these bytes.
 */
#include "config.h"
#include <string.h>
#include <sys/auxv.h>

#include "le.h"
#include "siphash.h"

struct state {
    uint64_t a, b, c, d;
};

static inline uint64_t rotate(uint64_t x, unsigned n)
{
    return x << n | x >> (64 - n);
}

static inline void rounds(struct state *s, unsigned n)
{
    while (n-- > 0) {
        s->a += s->b;
        s->c += s->d;
        s->b = rotate(s->b, 13) ^ s->a;
        s->d = rotate(s->d, 16) ^ s->c;
        s->a = rotate(s->a, 32);
        s->c += s->b;
        s->a += s->d;
        s->b = rotate(s->b, 17) ^ s->c;
        s->d = rotate(s->d, 21) ^ s->a;
        s->c = rotate(s->c, 32);
    }
}

static inline void word(struct state *s, uint64_t m)
{
    s->d ^= m;
    rounds(s, 2);
    s->a ^= m;
}

uint64_t siphash(const struct siphash_key *key, const void *data, size_t len)
{
    struct state s = {.a = key->k[0] ^ 0x736f6d6570736575,
                      .b = key->k[1] ^ 0x646f72616e646f6d,
                      .c = key->k[0] ^ 0x6c7967656e657261,
                      .d = key->k[1] ^ 0x7465646279746573};
    const uint8_t *p = data;
    uint8_t last[8] = {0};
    size_t left = len;

    for (; left >= 8; left -= 8, p += 8)
        word(&s, le_get64(p));
    if (left > 0)
        memcpy(last, p, left);
    last[7] = (uint8_t)len;
    word(&s, le_get64(last));
    s.c ^= 0xff;
    rounds(&s, 4);
    return s.a ^ s.b ^ s.c ^ s.d;
}

void siphash_key_random(struct siphash_key *key, uint64_t salt)
{
    unsigned long at = getauxval(AT_RANDOM);
    struct siphash_key process = {{0, 0}};
    uint64_t in[2] = {salt, 0};

    if (at)
        memcpy(&process, (const void *)at, sizeof(process));
    for (unsigned i = 0; i < 2; i++) {
        in[1] = i;
        key->k[i] = siphash(&process, in, sizeof(in));
    }
}

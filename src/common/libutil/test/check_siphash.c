/* check_siphash.c - the hash against libsodium's, for all short lengths; keys. */
#include "config.h"
#include <check.h>
#include <sodium.h>
#include <string.h>

#include "libutil/siphash.h"
#include "libutil/test/suite.h"

START_TEST(same_as_sodium)
{
    uint8_t key[crypto_shorthash_KEYBYTES], data[200], want[crypto_shorthash_BYTES];
    struct siphash_key k;

    _Static_assert(sizeof(k) == crypto_shorthash_KEYBYTES, "sizes of keys");
    for (size_t i = 0; i < sizeof(key); i++)
        key[i] = (uint8_t)(i * 7 + 1);
    for (size_t i = 0; i < sizeof(data); i++)
        data[i] = (uint8_t)(i * 13 + 5);
    memcpy(&k, key, sizeof(k));
    for (size_t len = 0; len <= sizeof(data) - 8; len++) {
        /* At any alignment. */
        uint64_t got = siphash(&k, data + len % 8, len);
        ck_assert_int_eq(crypto_shorthash(want, data + len % 8, len, key), 0);
        ck_assert_mem_eq(&got, want, sizeof(want));
    }
}
END_TEST

START_TEST(keys)
{
    struct siphash_key a, b, c;

    siphash_key_random(&a, 1);
    siphash_key_random(&b, 1);
    siphash_key_random(&c, 2);
    ck_assert_mem_eq(&a, &b, sizeof(a));
    ck_assert_mem_ne(&a, &c, sizeof(a));
    ck_assert_uint_ne(a.k[0], a.k[1]);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("core");

    tcase_add_test(tc, same_as_sodium);
    tcase_add_test(tc, keys);
    return run_case("siphash", tc);
}

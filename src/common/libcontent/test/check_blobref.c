/* check_blobref.c - hashes against published values, and their text form. */
#include "config.h"
#include <check.h>
#include <errno.h>
#include <string.h>

#include "libcontent/blobref.h"
#include "libutil/test/suite.h"

static const struct {
    const char *alg;
    const char *abc; /* of "abc" */
} known[] = {
    {"sha1", "sha1-a9993e364706816aba3e25717850c26c9cd0d89d"},
    {"sha256", "sha256-ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
    {"blake2b", "blake2b-ba80a53f981c4d0d6a2797b69f12f6e94c212f14685ac4b74b12bb6fdbffa2d1"},
};

START_TEST(vectors)
{
    errmsg_t err;
    blobref_t *b = blobref_create(known[_i].alg, &err);
    uint8_t d[BLOBREF_DIGEST_MAX], d2[BLOBREF_DIGEST_MAX];
    char text[BLOBREF_TEXT_MAX];

    ck_assert_ptr_nonnull(b);
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(blobref_hash(b, "abc", 3, d), 0);
        ck_assert_str_eq(blobref_format(b, d, text), known[_i].abc);
    }
    ck_assert_int_eq(blobref_parse(b, text, strlen(text), d2, &err), 0);
    ck_assert_mem_eq(d, d2, blobref_size(b));
    ck_assert_int_eq(blobref_parse(b, text, strlen(text) - 1, d2, &err), -1);
    ck_assert_int_eq(errno, EINVAL);
    text[strlen(text) - 1] = 'A';
    ck_assert_int_eq(blobref_parse(b, text, strlen(text), d2, &err), -1);
    text[0] = 'x';
    ck_assert_int_eq(blobref_parse(b, text, strlen(text), d2, &err), -1);
    ck_assert_int_eq(blobref_parse(b, "", 0, d2, NULL), -1);
    blobref_destroy(b);
}
END_TEST

START_TEST(unknown)
{
    errmsg_t err;
    ck_assert_ptr_null(blobref_create("md5", &err));
    ck_assert_int_eq(errno, EINVAL);
    ck_assert_ptr_nonnull(strstr(err.text, "md5"));
    ck_assert_ptr_null(blobref_create(NULL, &err));
    blobref_destroy(NULL);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("core");

    tcase_add_loop_test(tc, vectors, 0, 3);
    tcase_add_test(tc, unknown);
    return run_case("blobref", tc);
}

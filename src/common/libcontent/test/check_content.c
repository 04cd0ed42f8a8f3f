/* check_content.c - the object store: bound, order of dropping, holds, and joined waits. */
#include "config.h"
#include <check.h>
#include <errno.h>
#include <string.h>

#include "libcontent/content.h"

static blobref_t *blobref;
static content_t *content;

static void setup(void)
{
    blobref = blobref_create("sha256", NULL);
    content = content_create(blobref, 10000);
    ck_assert_ptr_nonnull(content);
}

static void teardown(void)
{
    content_destroy(content);
    blobref_destroy(blobref);
}

static struct content_obj *add(int n)
{
    char buf[840] = {0};
    memcpy(buf, &n, sizeof(n));
    return content_add(content, buf, sizeof(buf));
}

START_TEST(bound)
{
    uint8_t first[BLOBREF_DIGEST_MAX], held[BLOBREF_DIGEST_MAX];
    struct content_stats st;
    struct content_obj *o = add(0);
    memcpy(first, o->digest, sizeof(first));
    ck_assert_ptr_eq(add(0), o);
    struct content_obj *h = add(1);
    memcpy(held, h->digest, sizeof(held));
    content_hold(content, h);
    content_hold(content, h);
    content_release(content, h);
    for (int i = 2; i < 10; i++)
        add(i);
    content_trim(content);
    content_get_stats(content, &st);
    ck_assert_uint_eq(st.objects, 10);
    ck_assert_uint_eq(st.free_objects, 9);
    /* Used, so that it stays when others go. */
    ck_assert_ptr_nonnull(content_get(content, first));
    for (int i = 10; i < 18; i++)
        add(i);
    content_trim(content);
    content_get_stats(content, &st);
    ck_assert_uint_eq(st.free_objects, 10);
    ck_assert_uint_eq(st.objects, 11);
    ck_assert_ptr_nonnull(content_get(content, first));
    ck_assert_uint_eq(content_drop(content), 10);
    ck_assert_ptr_null(content_get(content, first));
    ck_assert_ptr_eq(content_get(content, held), h);
    content_release(content, h);
    content_set_limit(content, 0);
    content_trim(content);
    content_get_stats(content, &st);
    ck_assert_uint_eq(st.bytes, 0);
    ck_assert_uint_eq(st.objects, 0);
}
END_TEST

struct wait {
    struct content_waiter w;
    int calls;
    int errnum;
    bool again;
};

static uint8_t digest[BLOBREF_DIGEST_MAX];

static void waited(struct content_waiter *w, int errnum, const char *error)
{
    struct wait *x = list_entry(w, struct wait, w);
    x->calls++;
    x->errnum = errnum;
    if (x->again) {
        x->again = false;
        ck_assert_int_eq(content_wait(content, digest, &x->w, waited), 1);
    }
}

START_TEST(waiting)
{
    struct wait a = {.calls = 0}, b = {.calls = 0}, c = {.calls = 0};
    blobref_hash(blobref, "hello", 5, digest);

    ck_assert_int_eq(content_wait(content, digest, &a.w, waited), 1);
    ck_assert_int_eq(content_wait(content, digest, &b.w, waited), 0);
    ck_assert_int_eq(content_wait(content, digest, &c.w, waited), 0);
    content_waiter_cancel(&b.w);
    a.again = true;
    ck_assert_int_eq(content_supply(content, digest, "hullo", 5), -1);
    ck_assert_int_eq(errno, EPROTO);
    ck_assert_int_eq(a.calls, 1);
    ck_assert_int_eq(a.errnum, EPROTO);
    ck_assert_int_eq(b.calls, 0);
    ck_assert_int_eq(c.calls, 1);
    ck_assert_ptr_null(content_get(content, digest));
    ck_assert_int_eq(content_supply(content, digest, "hello", 5), 0);
    ck_assert_int_eq(a.calls, 2);
    ck_assert_int_eq(a.errnum, 0);
    ck_assert_mem_eq(content_get(content, digest)->data, "hello", 5);
    /* All gave up: the fetch goes on and is not done twice. */
    digest[0] ^= 1;
    ck_assert_int_eq(content_wait(content, digest, &a.w, waited), 1);
    content_waiter_cancel(&a.w);
    ck_assert_int_eq(content_wait(content, digest, &b.w, waited), 0);
    content_deny_all(content, EHOSTUNREACH, "gone");
    ck_assert_int_eq(b.errnum, EHOSTUNREACH);
    ck_assert_int_eq(a.calls, 2);
    content_deny(content, digest, ENOENT, "nobody waits");
}
END_TEST

int main(void)
{
    Suite *s = suite_create("content");
    TCase *tc = tcase_create("core");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, bound);
    tcase_add_test(tc, waiting);
    suite_add_tcase(s, tc);
    SRunner *sr = srunner_create(s);
    srunner_run_all(sr, CK_NORMAL);
    int failed = srunner_ntests_failed(sr);
    srunner_free(sr);
    return failed ? 1 : 0;
}

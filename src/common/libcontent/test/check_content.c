/* check_content.c - the object store: bound, order of dropping, holds, and joined waits. */
#include "config.h"
#include <check.h>
#include <errno.h>
#include <string.h>

#include "libcontent/content.h"
#include "libutil/test/suite.h"

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
    ck_assert_uint_eq(content_drop(content, 3), 3);
    ck_assert_uint_eq(content_drop(content, SIZE_MAX), 7);
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

/* Kept objects stay; of those that are backed the bytes may go, and come again. */
START_TEST(kept)
{
    struct content_stats st;
    uint8_t digest_of[BLOBREF_DIGEST_MAX], small[BLOBREF_DIGEST_MAX];
    static char big[5000];
    struct content_obj *o = content_add(content, big, sizeof(big));
    struct content_obj *s = add(1);

    memcpy(digest_of, o->digest, sizeof(digest_of));
    memcpy(small, s->digest, sizeof(small));
    content_keep(content, o);
    content_keep(content, s);
    ck_assert_uint_eq(content_drop(content, SIZE_MAX), 0);
    content_back(content, o);
    content_back(content, s); /* too small: no effect */
    content_get_stats(content, &st);
    ck_assert_uint_eq(st.free_objects, 1);
    ck_assert_uint_eq(st.free_bytes, sizeof(big));
    content_hold(content, o);
    ck_assert_uint_eq(content_drop(content, SIZE_MAX), 0);
    content_release(content, o);
    ck_assert_uint_eq(content_drop(content, SIZE_MAX), 1);
    ck_assert_ptr_null(content_get(content, digest_of));
    ck_assert_ptr_eq(content_find(content, digest_of), o);
    ck_assert_ptr_null(o->data);
    content_get_stats(content, &st);
    ck_assert_uint_eq(st.absent_objects, 1);
    ck_assert_int_eq(content_supply(content, digest_of, big, sizeof(big)), 0);
    ck_assert_ptr_eq(content_get(content, digest_of), o);
    content_drop(content, SIZE_MAX);
    ck_assert_ptr_eq(content_add(content, big, sizeof(big)), o);
    ck_assert_ptr_nonnull(o->data);
    /* Forgotten with its bytes it is an object as others; without, it is gone. */
    content_forget(content, o);
    content_forget(content, s);
    content_get_stats(content, &st);
    ck_assert_uint_eq(st.free_objects, 2);
    ck_assert_uint_eq(st.absent_objects, 0);
    content_keep(content, o);
    content_back(content, o);
    content_drop(content, SIZE_MAX);
    content_hold(content, o);
    content_forget(content, o);
    content_release(content, o);
    ck_assert_ptr_null(content_find(content, digest_of));
    ck_assert_ptr_null(content_find(content, small));
    /* A record of what is elsewhere. */
    ck_assert_ptr_null(content_add_record(content, digest_of, 100));
    o = content_add_record(content, digest_of, sizeof(big));
    ck_assert_ptr_nonnull(o);
    ck_assert_ptr_eq(content_add_record(content, digest_of, sizeof(big)), o);
    ck_assert_ptr_null(content_get(content, digest_of));
    ck_assert_int_eq(content_supply(content, digest_of, big, sizeof(big)), 0);
    ck_assert_ptr_nonnull(content_get(content, digest_of));
    content_get_stats(content, &st);
    ck_assert_uint_eq(st.absent_objects, 0);
    ck_assert_uint_eq(st.objects, 1);
}
END_TEST

START_TEST(expiry)
{
    struct content_stats st;
    uint8_t first[BLOBREF_DIGEST_MAX];

    content_set_limit(content, 1 << 20);
    memcpy(first, add(0)->digest, sizeof(first));
    for (int i = 1; i < 100; i++) {
        content_set_clock(content, (uint32_t)i);
        add(i);
    }
    ck_assert_ptr_nonnull(content_get(content, first)); /* at 99 */
    content_hold(content, add(5));
    ck_assert_uint_eq(content_expire(content, 0, 1000), 0);
    ck_assert_uint_eq(content_expire(content, 50, 1000), 48);
    ck_assert_uint_eq(content_expire(content, 50, 1000), 0);
    content_get_stats(content, &st);
    ck_assert_uint_eq(st.objects, 52);
    ck_assert_uint_eq(st.expired, 48);
    ck_assert_uint_eq(content_expire(content, 100, 1000), 51);
    content_get_stats(content, &st);
    ck_assert_uint_eq(st.objects, 1);
}
END_TEST

/* Many come and go: the index finds all that are there and nothing else. */
START_TEST(many)
{
    static uint8_t digests[20000][BLOBREF_DIGEST_MAX];
    struct content_stats st;

    content_set_limit(content, 100 << 20);
    for (int i = 0; i < 20000; i++)
        memcpy(digests[i], add(i)->digest, BLOBREF_DIGEST_MAX);
    for (int i = 0; i < 20000; i++) {
        struct content_obj *o = content_get(content, digests[i]);
        ck_assert_ptr_nonnull(o);
        if (i % 7 == 0)
            content_hold(content, o);
    }
    content_drop(content, SIZE_MAX);
    for (int i = 0; i < 20000; i++)
        ck_assert(!!content_get(content, digests[i]) == (i % 7 == 0));
    for (int i = 0; i < 20000; i += 7)
        content_release(content, content_get(content, digests[i]));
    content_drop(content, SIZE_MAX);
    content_get_stats(content, &st);
    ck_assert_uint_eq(st.objects, 0);
    ck_assert_uint_eq(st.bytes, 0);
    for (int i = 0; i < 20000; i++)
        ck_assert_ptr_null(content_find(content, digests[i]));
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("core");

    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, bound);
    tcase_add_test(tc, waiting);
    tcase_add_test(tc, kept);
    tcase_add_test(tc, expiry);
    tcase_add_test(tc, many);
    return run_case("content", tc);
}

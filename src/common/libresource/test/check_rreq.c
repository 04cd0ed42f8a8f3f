/* check_rreq.c - requests for resources: JSON there and back, what is refused, equality. */
#include "config.h"
#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "libresource/rreq.h"
#include "libutil/test/suite.h"

static int from_text(const char *text, struct rreq *out, errmsg_t *err)
{
    json_t *obj = json_loads(text, 0, NULL);
    int rc = rreq_from_json(obj, out, err);
    int saved = errno;

    ck_assert_ptr_nonnull(obj);
    json_decref(obj);
    errno = saved;
    return rc;
}

START_TEST(there_and_back)
{
    static const char *const texts[] = {
        "{}",
        "{\"nnodes\":2,\"nslots\":4,\"cores\":8,\"gpus\":1,\"memory\":4096}",
        "{\"nslots\":1,\"cores\":1,\"exclusive\":true}",
        "{\"pools\":[[\"lic\",3],[\"power\",100]],\"ranks\":\"0-3,7\"}",
        "{\"properties\":[\"^old\",\"bigmem\"],\"duration\":60.5}",
    };

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        struct rreq req, copy;
        errmsg_t err;
        json_t *obj;
        char *text;

        ck_assert_msg(from_text(texts[i], &req, &err) == 0, "%s: %s", texts[i], err.text);
        ck_assert_int_eq(rreq_copy(&copy, &req), 0);
        ck_assert(rreq_equal_resources(&req, &copy) && copy.duration == req.duration);
        ck_assert_uint_eq(rreq_hash(&req), rreq_hash(&copy));
        obj = rreq_to_json(&copy);
        text = json_dumps(obj, JSON_COMPACT);
        ck_assert_str_eq(text, texts[i]);
        free(text);
        json_decref(obj);
        rreq_clear(&req);
        rreq_clear(&copy);
    }
}
END_TEST

START_TEST(refused)
{
    static const struct {
        const char *text;
        const char *word;
    } tests[] = {
        {"[]", "object"},
        {"{\"nodes\":1}", "nodes"},
        {"{\"nnodes\":-1}", "nnodes"},
        {"{\"nnodes\":\"1\"}", "nnodes"},
        {"{\"cores\":16777217}", "cores"},
        {"{\"memory\":9007199254740993}", "memory"},
        {"{\"ranks\":\"3-1\"}", "ranks"},
        {"{\"duration\":-1}", "duration"},
        {"{\"pools\":[[\"power\"]]}", "pools[0]"},
        {"{\"pools\":[[\"power\",-1]]}", "pools[0]"},
        {"{\"pools\":[[\"a b\",1]]}", "a b"},
        {"{\"pools\":[[\"a\",9007199254740992],[\"a\",1]]}", "pool a"},
        {"{\"properties\":[1]}", "properties[0]"},
        {"{\"properties\":[\"^\"]}", "^"},
    };

    for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++) {
        struct rreq req;
        errmsg_t err = {""};

        ck_assert_msg(from_text(tests[i].text, &req, &err) == -1, "%s", tests[i].text);
        ck_assert_int_eq(errno, EPROTO);
        ck_assert_msg(strstr(err.text, tests[i].word) != NULL, "%s: %s", tests[i].text, err.text);
        ck_assert_ptr_null(req.pools);
        ck_assert_ptr_null(req.properties);
        ck_assert_ptr_null(req.ranks);
    }
}
END_TEST

START_TEST(sorted_and_added)
{
    struct rreq a = {0}, b = {0};

    ck_assert_int_eq(rreq_add_pool(&a, "b", 1, NULL), 0);
    ck_assert_int_eq(rreq_add_pool(&a, "a", 2, NULL), 0);
    ck_assert_int_eq(rreq_add_pool(&a, "b", 3, NULL), 0);
    ck_assert_int_eq(rreq_add_property(&a, "y", NULL), 0);
    ck_assert_int_eq(rreq_add_property(&a, "x", NULL), 0);
    ck_assert_int_eq(rreq_add_property(&a, "x", NULL), 0);
    ck_assert_uint_eq(a.npools, 2);
    ck_assert_str_eq(a.pools[0].name, "a");
    ck_assert_uint_eq(a.pools[1].count, 4);
    ck_assert_str_eq(a.properties[0], "x");
    ck_assert_str_eq(a.properties[1], "y");
    ck_assert_ptr_null(a.properties[2]);
    ck_assert(!rreq_equal_resources(&a, &b));
    ck_assert_uint_ne(rreq_hash(&a), rreq_hash(&b));
    ck_assert_int_eq(rreq_add_property(&b, "x", NULL), 0);
    ck_assert_int_eq(rreq_add_property(&b, "y", NULL), 0);
    ck_assert_int_eq(rreq_add_pool(&b, "a", 2, NULL), 0);
    ck_assert_int_eq(rreq_add_pool(&b, "b", 4, NULL), 0);
    ck_assert(rreq_equal_resources(&a, &b));
    ck_assert_uint_eq(rreq_hash(&a), rreq_hash(&b));
    b.duration = 5.;
    ck_assert(rreq_equal_resources(&a, &b));
    b.ranks = idset_create();
    ck_assert(!rreq_equal_resources(&a, &b)); /* no rank is not any rank */
    rreq_clear(&a);
    rreq_clear(&a);
    rreq_clear(&b);
    rreq_clear(NULL);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("core");

    tcase_add_test(tc, there_and_back);
    tcase_add_test(tc, refused);
    tcase_add_test(tc, sorted_and_added);
    return run_case("rreq", tc);
}

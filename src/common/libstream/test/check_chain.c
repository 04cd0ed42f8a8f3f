/* check_chain.c - chains of transforms: random ones in Lua beside a model of them, and what is
 * refused. */
#include "config.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "libstream/chain.h"
#include "libutil/test/suite.h"
#include "value.h"

#define NAMES 8
#define STAGES 4
#define ROUNDS 200

static errmsg_t err;
static char dir[] = "/tmp/flux-chain-XXXXXX";

/* A step: the value of each variable; NO_VALUE: there is none. */
#define NO_VALUE (-1)
struct step {
    int64_t value[NAMES];
    unsigned got; /* calls of get() */
};

static const char *const names[NAMES] = {"a", "b", "c", "d", "e", "f", "g", "h"};

static int number_of(const char *var)
{
    return strlen(var) == 1 && var[0] >= 'a' && var[0] < 'a' + NAMES ? var[0] - 'a' : -1;
}

static const char *in_name(void *arg, size_t i)
{
    const struct step *s = arg;

    for (int k = 0; k < NAMES; k++) {
        if (s->value[k] != NO_VALUE && i-- == 0)
            return names[k];
    }
    return NULL;
}

static bool in_has(void *arg, const char *var)
{
    const struct step *s = arg;
    int k = number_of(var);

    return k >= 0 && s->value[k] != NO_VALUE;
}

static int in_get(void *arg, const char *var, uint32_t rank, const stream_format_t *want,
                  struct flux_transform_array *out, void **own, errmsg_t *e)
{
    struct step *s = arg;
    int k = number_of(var);

    s->got++;
    if (k < 0 || s->value[k] == NO_VALUE || rank != FLUX_TRANSFORM_ALL)
        return errmsg_fail(e, k == NAMES - 1 ? ECONNRESET : ENOENT, "no %s", var);
    ck_assert((*own = malloc(8)) != NULL);
    memcpy(*own, &s->value[k], 8);
    *out = (struct flux_transform_array){.type = "i64", .data = *own, .size = 8};
    return 0;
}

static const struct stream_chain_ops ops = {in_name, in_has, in_get};

static const char *path_of(int i, char *path)
{
    sprintf(path, "%s/%d.lua", dir, i);
    return path;
}

static void file_write(int i, const char *text)
{
    char path[64];
    FILE *f = fopen(path_of(i, path), "w");

    ck_assert(f && fprintf(f, "transform(function(s) %s end)", text) > 0 && fclose(f) == 0);
}

/* A chain of one file. */
static stream_chain_t *chain_of(const char *text)
{
    stream_chain_t *t;
    char path[64];

    file_write(0, text);
    t = stream_chain_parse(path_of(0, path), &err);
    ck_assert_msg(t != NULL, "%s", err.text);
    return t;
}

/* Write a random transform, and do the same with the step of the model.  False: it drops it. */
static bool random_stage(struct chance *rng, int i, const struct step *from, struct step *to)
{
    char text[1024] = "";
    bool all = chance(rng, 3) == 0;
    size_t n = 0;

    for (int k = 0; k < NAMES; k++)
        to->value[k] = all ? from->value[k] : NO_VALUE;
    if (all)
        n += (size_t)sprintf(text + n, "s:keep() ");
    for (int k = 0; k < NAMES; k++) {
        unsigned what = (unsigned)chance(rng, 4);

        if (what == 0 && from->value[k] != NO_VALUE) {
            n += (size_t)sprintf(text + n, "s:keep('%s') ", names[k]);
            if (to->value[k] == NO_VALUE)
                to->value[k] = from->value[k];
        } else if (what == 1) {
            int other = (int)chance(rng, NAMES);

            if (from->value[other] == NO_VALUE)
                continue;
            n += (size_t)sprintf(text + n, "s:put('%s', s:get('%s')[0] + %d) ", names[k],
                                 names[other], i + 1);
            to->value[k] = from->value[other] + i + 1;
        }
    }
    if (chance(rng, 16) == 0) {
        strcpy(text + n, "return false");
        file_write(i, text);
        return false;
    }
    file_write(i, text);
    return true;
}

static void result_check(const stream_chain_t *t, const struct step *in, const struct step *want)
{
    const struct flux_transform_array *a;
    struct step got;
    const char *name;

    for (int k = 0; k < NAMES; k++) {
        got.value[k] =
            in->value[k] != NO_VALUE && stream_chain_keeps(t, names[k]) ? in->value[k] : NO_VALUE;
    }
    for (size_t i = 0; (a = stream_chain_made(t, i, &name)); i++) {
        ck_assert(!stream_chain_keeps(t, name));
        ck_assert_int_eq(got.value[number_of(name)], NO_VALUE);
        memcpy(&got.value[number_of(name)], a->data, 8);
    }
    for (int k = 0; k < NAMES; k++)
        ck_assert_int_eq(got.value[k], want->value[k]);
}

/* Chains of transforms that put and keep at random have the result of the model. */
START_TEST(model)
{
    struct chance rng = {.seed = 20261126};
    unsigned results = 0;

    for (int round = 0; round < (int)suite_runs(ROUNDS); round++) {
        int n = 1 + (int)chance(&rng, STAGES);
        struct step in = {.got = 0};
        struct step steps[STAGES + 1];
        struct stream_chain_input input = {&ops, &in};
        char text[STAGES * 80] = "";
        bool drop = false;
        stream_chain_t *t;

        for (int k = 0; k < NAMES; k++)
            in.value[k] = chance(&rng, 2) ? (int64_t)(100 * (k + 1)) : NO_VALUE;
        steps[0] = in;
        for (int i = 0; i < n; i++) {
            char path[64];

            drop = !random_stage(&rng, i, &steps[i], &steps[i + 1]);
            sprintf(text + strlen(text), "%s%s", i > 0 ? " | " : "", path_of(i, path));
            if (drop)
                break;
        }
        t = stream_chain_parse(text, &err);
        ck_assert_msg(t != NULL, "%s", err.text);
        for (int again = 0; again < 2; again++) {
            int rc = stream_chain_run(t, &input, 1, 7, &err);

            ck_assert_msg(rc == !drop, "%s", err.text);
            if (rc == 1)
                result_check(t, &in, &steps[n]);
            results += rc == 1;
        }
        stream_chain_destroy(t);
    }
    ck_assert_uint_gt(results, suite_runs(ROUNDS));
}
END_TEST

/* What is kept is not read. */
START_TEST(untouched)
{
    struct step in = {.value = {1, 2, 3, 4, 5, 6, 7, 8}};
    struct stream_chain_input input = {&ops, &in};
    stream_chain_t *t = chain_of("s:keep()");

    ck_assert_int_eq(stream_chain_run(t, &input, 1, 0, &err), 1);
    ck_assert(stream_chain_keeps(t, "a") && in.got == 0);
    stream_chain_destroy(t);
}
END_TEST

static void fails(const char *text, int errnum, const char *why)
{
    struct step in = {.value = {1, 2, NO_VALUE, 4, 5, 6, 7, NO_VALUE}};
    struct stream_chain_input input = {&ops, &in};
    stream_chain_t *t = chain_of(text);

    ck_assert_int_eq(stream_chain_run(t, &input, 1, 0, &err), -1);
    ck_assert_msg(errno == errnum && strstr(err.text, why), "%s: %s", strerror(errno), err.text);
    stream_chain_destroy(t);
}

START_TEST(mistakes)
{
    char long_name[200];
    char text[256];
    char path[64];

    fails("s:keep('c')", EINVAL, "0.lua:1: there is no variable 'c' to keep");
    fails("s:get('h')", ECONNRESET, "0.lua:1: no h");
    fails("s:put('a', 1) s:put('a', 2)", EINVAL, "'a' was put before");
    fails("s:put('a b', 1)", EINVAL, "'a b' is not a name");
    fails("s:put('', 1)", EINVAL, "'' is not a name");
    memset(long_name, 'x', 150);
    long_name[150] = '\0';
    sprintf(text, "s:put('%s', 1)", long_name);
    fails(text, EINVAL, "is not a name");
    fails("s.keep(1)", EINVAL, "step expected");
    ck_assert_ptr_null(stream_chain_parse("", &err));
    ck_assert_int_eq(errno, EINVAL);
    ck_assert_ptr_null(stream_chain_parse(" | ", &err));
    ck_assert_ptr_null(stream_chain_parse("/none/a.lua", &err));
    ck_assert_msg(strstr(err.text, "/none/a.lua") != NULL, "%s", err.text);
    ck_assert_ptr_null(stream_chain_parse("/none/a.so:x", &err));
    ck_assert_int_eq(errno, ENOENT);
    file_write(0, "");
    for (int i = 0; i < 17; i++) {
        char many[17 * 64] = "";
        stream_chain_t *t;

        for (int k = 0; k <= i; k++)
            sprintf(many + strlen(many), "%s%s", k > 0 ? "|" : "", path_of(0, path));
        t = stream_chain_parse(many, &err);
        ck_assert_msg((t != NULL) == (i < 16), "%s", err.text);
        stream_chain_destroy(t);
    }
    ck_assert_int_eq(errno, E2BIG);
    stream_chain_destroy(NULL);
}
END_TEST

/* The files are in a directory of the test's own, which each test, a process, removes. */
static void setup(void)
{
    strcpy(dir + strlen(dir) - 6, "XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
}

static void teardown(void)
{
    char path[64];

    for (int i = 0; i < STAGES; i++)
        unlink(path_of(i, path));
    ck_assert_int_eq(rmdir(dir), 0);
}

int main(void)
{
    TCase *tc = tcase_create("chain");

    tcase_set_timeout(tc, 60);
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, model);
    tcase_add_test(tc, untouched);
    tcase_add_test(tc, mistakes);
    return run_case("chain", tc);
}

/* check_settings.c - the table is sorted, its defaults are valid, and values are checked. */
#include "config.h"
#include <check.h>
#include <errno.h>
#include <string.h>

#include "libsettings/settings.h"
#include "libutil/nearest.h"
#include "libutil/test/suite.h"

START_TEST(table_is_sound)
{
    const struct setting *s, *last = NULL;
    char range[80];
    errmsg_t err;

    for (size_t i = 0; (s = settings_at(i)); i++, last = s) {
        ck_assert_msg(!last || strcmp(last->name, s->name) < 0, "%s: order", s->name);
        ck_assert_ptr_eq(settings_find(s->name), s);
        ck_assert_msg(!s->fallback || settings_check(s->name, s->fallback, &err) == 0, "%s: %s",
                      s->name, err.text);
        ck_assert_msg(s->what && s->what[0], "%s", s->name);
        ck_assert_ptr_nonnull(settings_type_name(s));
        ck_assert(strlen(settings_range(s, range, sizeof(range))) < sizeof(range) - 1);
    }
    ck_assert_ptr_null(settings_find("nothing"));
}
END_TEST

static const struct {
    const char *name, *value;
    int errnum;
    const char *says;
} cases[] = {
    {"sched.queue_policy", "easy", ENOENT, "did you mean sched.queue-policy?"},
    {"foo", "bar", ENOENT, "there is no setting 'foo'; 'flux config list'"},
    {"job.grcae", "1s", ENOENT, "did you mean job.grace?"},
    {"size", "3", EPERM,
     "size cannot be set: it is fixed (number of brokers; see flux start --size)"},
    {"job.grace", "foo", EINVAL, "job.grace=foo: "},
    {"job.grace", "10s", 0, NULL},
    {"job.purge-age", "never", 0, NULL},
    {"job.purge-age", "sometimes", EINVAL, "job.purge-age=sometimes"},
    {"curve", "flase", EINVAL, "curve=flase: expected yes or no"},
    {"curve", "off", 0, NULL},
    {"kvs.sync", "now", EINVAL, "expected one of commit,interval"},
    {"kvs.sync", "interval", 0, NULL},
    {"kvs.sync", "comm", EINVAL, "one of commit,interval; did you mean commit?"},
    {"log.forward-level", "wrn", EINVAL, "did you mean warn?"},
    {"log.forward-level", "none", 0, NULL},
    {"log.forward-level", "error", 0, NULL},
    {"wrexec.tmpdir", "tmp", EINVAL, "wrexec.tmpdir=tmp: expected a directory, from '/'"},
    {"wrexec.cgroup", "non", EINVAL, "expected a directory, from '/', or none"},
    {"wrexec.cgroup", "none", 0, NULL},
    {"wrexec.cgroup", "/nonexistent", 0, NULL},
    {"wrexec.prolog", "/nonexistent", 0, NULL},
    {"log.ring-size", "0", EINVAL, "the range is 1 to 1048576"},
    {"log.ring-bytes", "2G", EINVAL, "the range is 4K to 1G"},
    {"hb.period", "0", EINVAL, "the range is 1ms to"},
    {"wrexec.output-limit", "0", EINVAL, "the range is from 1"},
    {"job.max-queued", "-1", EINVAL, "expected a number"},
    {"user.anything", "at all", 0, NULL},
    {"", "", ENOENT, "no setting"},
};

START_TEST(values)
{
    errmsg_t err = {""};

    errno = 0;
    ck_assert_int_eq(settings_check(cases[_i].name, cases[_i].value, &err),
                     cases[_i].errnum ? -1 : 0);
    if (!cases[_i].errnum)
        return;
    ck_assert_int_eq(errno, cases[_i].errnum);
    ck_assert_msg(strstr(err.text, cases[_i].says) != NULL, "%s", err.text);
    ck_assert_int_eq(settings_check(cases[_i].name, cases[_i].value, NULL), -1);
}
END_TEST

static const struct {
    const char *module, *arg;
    int errnum;
    const char *says;
} arguments[] = {
    {"kvs", "sync=commit", 0, NULL},
    {"kvs", "sync=now", EINVAL, "kvs.sync=now: expected one of commit,interval"},
    {"kvs", "sync=", EINVAL, "one of commit,interval"},
    {"log", "ring-bytes=1M", 0, NULL},
    {"log", "ring-bytes=2G", EINVAL, "the range is 4K to 1G"},
    {"log", "ring-size=a=b", EINVAL, "log.ring-size=a=b"},
    {"log", "ring-sise=1", ENOENT, "module log has no setting 'ring-sise'; did you mean ring-size"},
    {"log", "log.ring-size=1", ENOENT, "no setting 'log.ring-size'"},
    {"log", "=1", ENOENT, "module log has no setting ''"},
    {"log", "ring-size", EINVAL, "an argument is NAME=VALUE, not 'ring-size'"},
    {"log", "", EINVAL, "an argument is NAME=VALUE, not ''"},
    {"lo", "anything", 0, NULL}, /* a module of one's own, whose name begins another's */
    {"mine", "what=it likes", 0, NULL},
    {"mine", "", 0, NULL},
};

START_TEST(module_arguments)
{
    errmsg_t err = {""};

    errno = 0;
    ck_assert_int_eq(settings_check_argument(arguments[_i].module, arguments[_i].arg, &err),
                     arguments[_i].errnum ? -1 : 0);
    if (!arguments[_i].errnum)
        return;
    ck_assert_int_eq(errno, arguments[_i].errnum);
    ck_assert_msg(strstr(err.text, arguments[_i].says) != NULL, "%s", err.text);
    ck_assert_int_eq(settings_check_argument(arguments[_i].module, arguments[_i].arg, NULL), -1);
}
END_TEST

/* What is looked for at the start only. */
static const struct {
    const char *name, *value;
    int errnum;
    const char *says;
} here[] = {
    {"wrexec.prolog", "", 0, NULL},
    {"wrexec.prolog", "/bin/sh", 0, NULL},
    {"wrexec.prolog", "/none/such", ENOENT, "wrexec.prolog=/none/such: No such file or directory"},
    {"wrexec.epilog", "/", EACCES, "wrexec.epilog=/: it is not a program that can be executed"},
    {"wrexec.epilog", "/etc/passwd", EACCES, "it is not a program"},
    {"wrexec.lua-path", "/:/etc", 0, NULL},
    {"wrexec.lua-path", "/:/none", ENOENT, "wrexec.lua-path: the directory /none: No such file"},
    {"wrexec.lua-path", "/etc/passwd:", ENOTDIR, "/etc/passwd is not a directory"},
    {"wrexec.tmpdir", "/none", ENOENT, "wrexec.tmpdir: the directory /none: "},
    {"wrexec.cgroup", "/none", ENOENT, "wrexec.cgroup: the directory /none: "},
    {"wrexec.cgroup", "none", 0, NULL},
    {"wrexec.cgroup", "none/", EINVAL, "from '/'"},
    {"job.grace", "foo", EINVAL, "job.grace=foo: "},
    {"nothing", "", ENOENT, "there is no setting"},
    {"user.dir", "/none", 0, NULL},
};

START_TEST(files)
{
    errmsg_t err = {""};

    errno = 0;
    ck_assert_int_eq(settings_check_here(here[_i].name, here[_i].value, &err),
                     here[_i].errnum ? -1 : 0);
    if (!here[_i].errnum)
        return;
    ck_assert_int_eq(errno, here[_i].errnum);
    ck_assert_msg(strstr(err.text, here[_i].says) != NULL, "%s", err.text);
}
END_TEST

START_TEST(nearest)
{
    static const char *const known[] = {"submit", "start", "stats", "stop", "jobs", "job"};
    struct nearest n;
    char words[80];

    ck_assert_uint_eq(nearest_distance("submit", "sumbit"), 1);
    ck_assert_uint_eq(nearest_distance("", "abc"), 3);
    nearest_init(&n, "sttas");
    for (size_t i = 0; i < 6; i++)
        nearest_feed(&n, known[i]);
    ck_assert_str_eq(nearest_words(&n, words, sizeof(words)), "; did you mean stats?");
    nearest_init(&n, "jobb"); /* both are one letter away; nothing farther is told */
    for (size_t i = 0; i < 6; i++)
        nearest_feed(&n, known[i]);
    ck_assert_str_eq(nearest_words(&n, words, sizeof(words)), "; did you mean jobs or job?");
    nearest_init(&n, "zzz");
    for (size_t i = 0; i < 6; i++)
        nearest_feed(&n, known[i]);
    ck_assert_str_eq(nearest_words(&n, words, sizeof(words)), "");
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("settings");

    tcase_add_test(tc, table_is_sound);
    tcase_add_loop_test(tc, values, 0, sizeof(cases) / sizeof(cases[0]));
    tcase_add_loop_test(tc, files, 0, sizeof(here) / sizeof(here[0]));
    tcase_add_loop_test(tc, module_arguments, 0, sizeof(arguments) / sizeof(arguments[0]));
    tcase_add_test(tc, nearest);
    return run_case("settings", tc);
}

/* Configuration files: what is accepted, what is refused with which message, and the limits. */
#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "broker/boot_cert.h"
#include "libconfig/config_file.h"
#include "libutil/fdutil.h"
#include "libutil/test/put_file.h"

static const struct config_field fields[] = {
    {"session", "hosts", CONFIG_STRING, true},
    {"session", "address", CONFIG_TEXT_OF, false},
    {"session", "curve", CONFIG_BOOL, false},
    {"session", "limit", CONFIG_NUMBER, false},
    {"session", "attrs", CONFIG_PAIRS, false},
    {"other", "name", CONFIG_STRING, false},
    {"group", "size", CONFIG_AMOUNT, false},
    {"group[]", "name", CONFIG_STRING, true},
    {"group[]", "size", CONFIG_AMOUNT, false},
    {"foreign", "*", CONFIG_ANY, false},
    CONFIG_FIELD_END,
};

static config_t *load(const char *text, errmsg_t *err)
{
    return config_load_text(text, strlen(text), "test.lua", fields, err);
}

START_TEST(test_values)
{
    config_t *c;
    errmsg_t err = {""};
    char buf[64], *key, *value;
    int pairs = 0;

    c = load("local n = 4\n"
             "session {\n"
             "  hosts = string.format('node[0-%d]', n - 1),\n"
             "  address = 'tcp://%h:80%r%%',\n"
             "  curve = false, limit = 2.5,\n"
             "  attrs = { ['hb.period'] = 3, verbose = true, x = ('y'):upper() },\n"
             "}\n",
             &err);
    ck_assert_msg(c != NULL, "%s", err.text);
    ck_assert(config_has(c, "session"));
    ck_assert_int_eq(config_line(c, "session"), 2);
    ck_assert_int_eq(config_line(c, "other"), 0);
    ck_assert(!config_has(c, "other"));
    ck_assert_str_eq(config_string(c, "session", "hosts"), "node[0-3]");
    ck_assert_ptr_null(config_string(c, "other", "name"));
    ck_assert(!config_bool(c, "session", "curve", true));
    ck_assert(config_number(c, "session", "limit", 0.) == 2.5);
    ck_assert(config_number(c, "session", "hosts", 7.) == 7.);
    ck_assert_int_eq(config_text_of(c, "session", "address", 5, "node5", buf, sizeof(buf), &err),
                     1);
    ck_assert_str_eq(buf, "tcp://node5:805%");
    ck_assert_int_eq(config_text_of(c, "session", "address", 5, "node5", buf, 8, &err), -1);
    ck_assert_int_eq(config_text_of(c, "other", "name", 5, "node5", buf, 8, &err), 0);
    for (size_t i = 0; config_pair(c, "session", "attrs", i, &key, &value) > 0; i++, pairs++) {
        if (strcmp(key, "hb.period") == 0)
            ck_assert_str_eq(value, "3");
        else if (strcmp(key, "verbose") == 0)
            ck_assert_str_eq(value, "yes");
        else
            ck_assert_str_eq(value, "Y");
        free(key);
        free(value);
    }
    ck_assert_int_eq(pairs, 3);
    config_destroy(c);
    config_destroy(NULL);
}
END_TEST

START_TEST(test_function)
{
    config_t *c;
    errmsg_t err = {""};
    char buf[64];

    c = load("session { hosts = 'a', address = function(rank, host)\n"
             "  if rank == 9 then error('nine') end\n"
             "  if rank == 8 then return {} end\n"
             "  while rank == 7 do end\n"
             "  return host .. ':' .. 8000 + 2 * rank\n"
             "end }",
             &err);
    ck_assert_msg(c != NULL, "%s", err.text);
    ck_assert_int_eq(config_text_of(c, "session", "address", 3, "h", buf, sizeof(buf), &err), 1);
    ck_assert_str_eq(buf, "h:8006");
    ck_assert_int_eq(config_text_of(c, "session", "address", 9, "h", buf, sizeof(buf), &err), -1);
    ck_assert_ptr_nonnull(strstr(err.text, "test.lua:2: nine"));
    ck_assert_int_eq(config_text_of(c, "session", "address", 8, "h", buf, sizeof(buf), &err), -1);
    ck_assert_int_eq(config_text_of(c, "session", "address", 7, "h", buf, sizeof(buf), &err), -1);
    ck_assert_ptr_nonnull(strstr(err.text, "too long"));
    ck_assert_int_eq(config_text_of(c, "session", "address", 3, "h", buf, sizeof(buf), &err), 1);
    config_destroy(c);
}
END_TEST

/* A text, and a part of the expected message. */
static const struct {
    const char *text, *says;
} bad[] = {
    {"session {", "test.lua:1"},
    {"\n\nsession { hosts = 'a', hots = 'b' }", "test.lua:3: session has no field \"hots\""},
    {"session { }", "session.hosts is missing"},
    {"session { hosts = 'a', curve = flase }", "no variable 'flase'; did you mean false?"},
    {"session { hosts = 'a', hots = 'b' }", "did you mean hosts?"},
    {"sessoin { hosts = 'a' }", "no variable 'sessoin'; did you mean session?"},
    {"session { hosts = 5 }", "session.hosts must be a string"},
    {"session { hosts = 'a\\0b' }", "session.hosts must be a string"},
    {"session { hosts = 'a', curve = 'no' }", "session.curve must be true or false"},
    {"session { hosts = 'a', limit = 0/0 }", "session.limit must be a number"},
    {"session { hosts = 'a', attrs = { 1, 2 } }", "session.attrs must be a table"},
    {"session { hosts = 'a', attrs = { x = {} } }", "session.attrs must be a table"},
    {"session { 'a' }", "unnamed entry"},
    {"session 'a'", "called with one table"},
    {"session()", "called with one table"},
    {"session { hosts = 'a' }\nsession { hosts = 'a' }",
     "test.lua:2: section session occurs twice"},
    {"sesion { hosts = 'a' }", "sesion"},
    {"error('my words')", "test.lua:1: my words"},
    {"error({})", "not text"},
    {"while true do end", "too long"},
    {"local function f() return f() end f()", "too long"},
    {"local t = {} for i = 1, 1e9 do t[i] = ('x'):rep(1000) end", "memory"},
    {"local s = 'x' while true do s = s .. s end", "memory"},
    {"local s = ('x'):rep(1000000) while true do s:upper() end", "too long"},
    {"os.exit(1)", "os"},
    {"io.open('/etc/passwd')", "io"},
    {"require 'os'", "require"},
    {"load('x = 1')()", "load"},
    {"dofile('/etc/passwd')", "dofile"},
    {"pcall(error)", "pcall"},
    {"setmetatable({}, {})", "setmetatable"},
    {"getmetatable('').__index = nil", "getmetatable"},
    {"string.dump(error)", "dump"},
    {"table.move({}, 1, 1 << 45, 1)", "too long"},
    {"string.rep('', 1 << 45) table.unpack({}, 1, 1 << 45)", "too long"},
    {"('a'):rep(3000):gsub('.-.-.-.-.-x', 'b')", "too long"},
    {"coroutine.wrap(print)", "coroutine"},
    {"print(1)", "print"},
    {"debug.sethook()", "debug"},
    {"math.random()", "random"},
    {"\033Lua", "test.lua: "},
};

START_TEST(test_refused)
{
    errmsg_t err = {""};

    ck_assert_ptr_null(load(bad[_i].text, &err));
    ck_assert_int_eq(errno, EINVAL);
    ck_assert_msg(strstr(err.text, bad[_i].says) != NULL, "%s: %s", bad[_i].text, err.text);
}
END_TEST

/* Changes of a table after its section was read have no effect. */
START_TEST(test_frozen)
{
    config_t *c;
    errmsg_t err = {""};
    char *key, *value;

    c = load("local a = { x = 'y' }\n"
             "local s = { hosts = 'a', attrs = a }\n"
             "session(s)\n"
             "a[1] = 2; a.x = {}; s.hosts = {}; s.attrs = 5\n",
             &err);
    ck_assert_msg(c != NULL, "%s", err.text);
    ck_assert_str_eq(config_string(c, "session", "hosts"), "a");
    ck_assert_int_eq(config_pair(c, "session", "attrs", 0, &key, &value), 1);
    ck_assert_str_eq(value, "y");
    free(key);
    free(value);
    ck_assert_int_eq(config_pair(c, "session", "attrs", 1, &key, &value), 0);
    config_destroy(c);
}
END_TEST

START_TEST(test_file)
{
    errmsg_t err = {""};

    ck_assert_ptr_null(config_load("/nonexistent/file.lua", fields, &err));
    ck_assert_int_eq(errno, ENOENT);
    ck_assert_ptr_nonnull(strstr(err.text, "/nonexistent/file.lua"));
}
END_TEST

START_TEST(test_cert)
{
    char *dir = dir_create_runtime("check-cert", NULL);
    char path[256], pub[256];
    struct cert a, b;
    struct stat st;
    errmsg_t err = {""};

    ck_assert_ptr_nonnull(dir);
    snprintf(path, sizeof(path), "%s/c", dir);
    snprintf(pub, sizeof(pub), "%s/c.pub", dir);
    ck_assert_int_eq(boot_cert_generate(&a, &err), 0);
    ck_assert_int_eq(boot_cert_write(&a, path, false, &err), 0);
    ck_assert_int_eq(stat(path, &st), 0);
    ck_assert_int_eq(st.st_mode & 0777, 0600);
    ck_assert_int_eq(boot_cert_read(&b, path, true, &err), 0);
    ck_assert_str_eq(a.public_key, b.public_key);
    ck_assert_str_eq(a.secret_key, b.secret_key);
    ck_assert_int_eq(boot_cert_read(&b, path, false, &err), 0);
    ck_assert_str_eq(a.public_key, b.public_key);
    ck_assert_str_eq(b.secret_key, "");
    ck_assert_int_eq(boot_cert_write(&a, path, false, &err), -1);
    ck_assert_int_eq(errno, EEXIST);
    ck_assert_int_eq(boot_cert_write(&a, path, true, &err), 0);
    ck_assert_int_eq(chmod(path, 0640), 0);
    ck_assert_int_eq(boot_cert_read(&b, path, true, &err), -1);
    ck_assert_int_eq(errno, EPERM);
    put_file(pub, "public-key abc\n", 15, 0600);
    ck_assert_int_eq(boot_cert_read(&b, path, false, &err), -1);
    ck_assert_ptr_nonnull(strstr(err.text, "line 1"));
    put_file(pub, "\n", 1, 0600);
    ck_assert_int_eq(boot_cert_read(&b, path, false, &err), -1);
    ck_assert_int_eq(errno, EINVAL);
    ck_assert_int_eq(unlink(pub), 0);
    ck_assert_int_eq(boot_cert_read(&b, path, false, &err), -1);
    ck_assert_int_eq(errno, ENOENT);
    snprintf(path, sizeof(path), "%s/none/c", dir);
    ck_assert_int_eq(boot_cert_write(&a, path, false, &err), -1);
    ck_assert_int_eq(dir_remove_tree(dir), 0);
    free(dir);
}
END_TEST

START_TEST(test_entries)
{
    static const char *const bad[] = {
        "group { 'text' }",
        "group { [2] = { name = 'x' } }",
        "group { {} }",
        "group { { name = 'x', other = 1 } }",
        "group { { name = 'x', size = true } }",
        "group { { name = 'x', { name = 'y' } } }",
        "session { hosts = 'a', { name = 'x' } }",
        "group { [{}] = 1 }",
        "local t = {} for i = 1, 1001 do t[i] = { name = 'x' } end group(t)",
    };
    errmsg_t err = {""};
    config_t *c = load("group { size = 3, { name = 'a', size = '4G' }, { name = 'b', size = 5 } }\n"
                       "foreign { 1, { x = 2 }, y = type, [true] = false }\n",
                       &err);

    ck_assert_msg(c != NULL, "%s", err.text);
    ck_assert_uint_eq(config_count(c, "group"), 2);
    ck_assert_uint_eq(config_count(c, "session"), 0);
    ck_assert(config_number(c, "group", "size", 0.) == 3.);
    ck_assert_str_eq(config_string(c, "group[1]", "name"), "a");
    ck_assert_str_eq(config_string(c, "group[1]", "size"), "4G");
    ck_assert_str_eq(config_string(c, "group[2]", "name"), "b");
    ck_assert_ptr_null(config_string(c, "group[2]", "size"));
    ck_assert(config_number(c, "group[2]", "size", 0.) == 5.);
    ck_assert_ptr_null(config_string(c, "group[3]", "name"));
    ck_assert(config_has(c, "foreign"));
    config_destroy(c);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        err.text[0] = '\0';
        ck_assert_msg(load(bad[i], &err) == NULL, "%s", bad[i]);
        ck_assert_int_eq(errno, EINVAL);
        ck_assert(err.text[0]);
    }
}
END_TEST

static Suite *config_file_suite(void)
{
    Suite *s = suite_create("config_file");
    TCase *tc = tcase_create("config_file");

    tcase_add_test(tc, test_entries);
    tcase_add_test(tc, test_values);
    tcase_add_test(tc, test_function);
    tcase_add_loop_test(tc, test_refused, 0, sizeof(bad) / sizeof(bad[0]));
    tcase_add_test(tc, test_frozen);
    tcase_add_test(tc, test_file);
    tcase_add_test(tc, test_cert);
    tcase_set_timeout(tc, 60);
    suite_add_tcase(s, tc);
    return s;
}

int main(void)
{
    SRunner *sr = srunner_create(config_file_suite());
    int failed;

    srunner_run_all(sr, CK_NORMAL);
    failed = srunner_ntests_failed(sr);
    srunner_free(sr);
    return failed ? 1 : 0;
}

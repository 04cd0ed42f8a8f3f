/* check_sandbox.c - endless computations are stopped, forbidden functions do not exist, and the
 * bounded functions do what Lua's own do.
 */
#include "config.h"
#include <check.h>
#include <lauxlib.h>
#include <lualib.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>

#include "libsandbox/sandbox.h"
#include "libutil/test/suite.h"

static const struct sandbox_limits limits = {.memory = 8u << 20, .steps = 2000000, .seconds = 30.};

/* Run a text; its first result as a string on the stack, or what it failed with. */
static int run(sandbox_t *sb, const char *text)
{
    int rc = sandbox_load(sb, text, strlen(text), "=t");

    if (rc == LUA_OK)
        rc = sandbox_call(sb, 0, 1);
    return rc;
}

static void fails_with(enum sandbox_kind kind, const char *text, const char *words)
{
    sandbox_t *sb = sandbox_create(&limits, kind);
    int rc;

    ck_assert_ptr_nonnull(sb);
    rc = run(sb, text);
    ck_assert_msg(rc != LUA_OK, "%s", text);
    ck_assert_msg(strstr(sandbox_error(sb, rc), words) != NULL, "%s: %s", text,
                  sandbox_error(sb, rc));
    /* It can be used again. */
    lua_settop(sandbox_lua(sb), 0);
    ck_assert_int_eq(run(sb, "return 1 + 1"), LUA_OK);
    sandbox_destroy(sb);
}

/* All but the last ones would take hours, or forever, in a plain interpreter. */
static const struct {
    const char *text, *words;
    enum sandbox_kind kind;
} endless[] = {
    {"while true do end", "too long", SANDBOX_PURE},
    {"table.move({}, 1, 1 << 45, 1)", "too long", SANDBOX_PURE},
    {"table.move({}, math.mininteger, 0, 1)", "too long", SANDBOX_PURE},
    {"local s = ('x'):rep(1 << 45)", "too large", SANDBOX_PURE},
    {"local s = ('x'):rep(1 << 29)", "", SANDBOX_PURE},
    {"for i = 1, 10 do local s = ('x'):rep(1000000) end for i = 1, 1e9 do end", "too long",
     SANDBOX_PURE},
    {"table.unpack({}, 1, 1 << 45)", "too long", SANDBOX_PURE},
    {"table.concat({}, '', 1, 1 << 45)", "too long", SANDBOX_PURE},
    {"local s = ('a'):rep(3000) return s:find('.-.-.-.-.-.-x')", "too long", SANDBOX_PURE},
    {"local s = ('a'):rep(3000) return s:match('(a*)*b') or s:match('a*a*a*a*a*b')", "too long",
     SANDBOX_PURE},
    {"local s = ('a'):rep(3000) for x in s:gmatch('.-.-.-.-.-x') do end", "too long", SANDBOX_PURE},
    {"local s = ('a'):rep(3000) return s:gsub('a*a*a*a*a*b', '')", "too long", SANDBOX_PURE},
    {"local s = ('('):rep(100000) return s:gsub('%b()', '')", "too long", SANDBOX_PURE},
    {"return ('a'):rep(300):find(('a?'):rep(300) .. ('a'):rep(300))", "", SANDBOX_PURE},
    {"local s, t = ('x'):rep(3000000), {} for i = 1, 10000 do t[i] = s end table.sort(t)",
     "too long", SANDBOX_PURE},
    {"local t = {} for i = 1, 100000 do t[i] = i end for i = 1, 1e6 do table.insert(t, 1, i) end",
     "too long", SANDBOX_PURE},
    {"local t = {} for i = 1, 100000 do t[i] = i end for i = 1, 1e6 do table.remove(t, 1) end",
     "too long", SANDBOX_PURE},
    {"local t = {} for i = 1, 50000 do t[i] = i % 7 end"
     " table.sort(t, function(a, b) return a * a * a < b * b * b end) table.sort(t, math.ult)"
     " for i = 1, 100 do table.sort(t, math.ult) end",
     "too long", SANDBOX_PURE},
    {"local t = setmetatable({}, {__len = function() return 1 << 60 end}) table.insert(t, 1, 0)",
     "too long", SANDBOX_HOOKS},
    {"local t = setmetatable({}, {__len = function() return 1 << 60 end}) table.remove(t, 1)",
     "too long", SANDBOX_HOOKS},
    {"local t = setmetatable({}, {__len = function() return 1 << 60 end,"
     " __index = function() return '' end}) table.concat(t)",
     "too long", SANDBOX_HOOKS},
    {"local t = setmetatable({}, {__len = function() return 1 << 30 end}) table.sort(t, rawequal)",
     "too long", SANDBOX_HOOKS},
    {"while true do pcall(function() while true do end end) end", "too long", SANDBOX_HOOKS},
    {"while true do pcall(table.move, {}, 1, 1 << 45, 1) end", "too long", SANDBOX_HOOKS},
    {"while true do pcall(string.find, ('a'):rep(3000), '.-.-.-.-.-.-x') end", "too long",
     SANDBOX_HOOKS},
    /* Hooks do not count in finalizers, so that there must be none. */
    {"setmetatable({}, {__gc = function() while true do end end}) collectgarbage()",
     "__gc is not allowed", SANDBOX_HOOKS},
    {"getmetatable(io.stdout).__gc = function() while true do end end", "index a boolean",
     SANDBOX_HOOKS},
    {"getmetatable('').__index = nil", "index a boolean", SANDBOX_HOOKS},
};

START_TEST(ends)
{
    fails_with(endless[_i].kind, endless[_i].text, endless[_i].words);
}
END_TEST

START_TEST(time_is_bounded)
{
    /* Few instructions, much work in each. */
    struct sandbox_limits l = {.memory = 64u << 20, .steps = INT64_MAX / 2, .seconds = 0.05};
    sandbox_t *sb = sandbox_create(&l, SANDBOX_PURE);
    int rc = run(sb, "local s = ('x'):rep(100000) while true do s:upper() end");

    ck_assert_int_ne(rc, LUA_OK);
    ck_assert_ptr_nonnull(strstr(sandbox_error(sb, rc), "longer than 0.05"));
    sandbox_destroy(sb);
}
END_TEST

/* No instruction ends while a pattern is matched. */
static const char endless_pattern[] = "return (('a'):rep(400)):find(('.-'):rep(12) .. 'b')";

START_TEST(time_of_a_pattern)
{
    struct sandbox_limits l = {.memory = 1u << 20, .steps = INT64_MAX / 2, .seconds = 0.05};
    sandbox_t *sb = sandbox_create(&l, SANDBOX_PURE);
    int rc = run(sb, endless_pattern);

    ck_assert_int_ne(rc, LUA_OK);
    ck_assert_ptr_nonnull(strstr(sandbox_error(sb, rc), "longer than 0.05"));
    sandbox_destroy(sb);
}
END_TEST

static sandbox_t *interrupted;

static void interrupt_it(int signum)
{
    (void)signum;
    sandbox_interrupt(interrupted);
}

START_TEST(interrupted_pattern)
{
    struct sandbox_limits l = {.memory = 1u << 20, .steps = INT64_MAX / 2, .seconds = 1000.};
    /* Repeatedly: the first one may come before the call has begun, and have no effect. */
    const struct itimerval often = {{.tv_usec = 20000}, {.tv_usec = 20000}}, never = {{0}, {0}};
    int rc;

    interrupted = sandbox_create(&l, SANDBOX_PURE);
    signal(SIGALRM, interrupt_it);
    setitimer(ITIMER_REAL, &often, NULL);
    rc = run(interrupted, endless_pattern);
    setitimer(ITIMER_REAL, &never, NULL);
    ck_assert_int_ne(rc, LUA_OK);
    ck_assert_ptr_nonnull(strstr(sandbox_error(interrupted, rc), "computes for too long"));
    sandbox_destroy(interrupted);
}
END_TEST

START_TEST(not_there)
{
    static const char *const names[] = {
        "os.exit", "os.execute", "os.setlocale", "io.popen", "string.dump", "debug",
        "require", "package",    "dofile",       "loadfile", "coroutine",   "string.nothing"};
    static const char *const impure[] = {
        "os",   "io",          "pcall",           "xpcall", "setmetatable",   "getmetatable",
        "load", "math.random", "math.randomseed", "print",  "collectgarbage", "rawset",
        "_G"};
    char text[128];

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        sandbox_t *sb = sandbox_create(&limits, SANDBOX_HOOKS);
        snprintf(text, sizeof(text), "return %s == nil", names[i]);
        ck_assert_int_eq(run(sb, text), LUA_OK);
        ck_assert_msg(lua_toboolean(sandbox_lua(sb), -1), "%s", names[i]);
        sandbox_destroy(sb);
    }
    for (size_t i = 0; i < sizeof(impure) / sizeof(impure[0]); i++) {
        sandbox_t *sb = sandbox_create(&limits, SANDBOX_PURE);
        snprintf(text, sizeof(text), "return %s == nil", impure[i]);
        ck_assert_int_eq(run(sb, text), LUA_OK);
        ck_assert_msg(lua_toboolean(sandbox_lua(sb), -1), "%s", impure[i]);
        sandbox_destroy(sb);
    }
    fails_with(SANDBOX_PURE, "return (''):dump()", "dump");
    fails_with(SANDBOX_HOOKS, "assert(load('\\27Lua', 'x', 'b'))",
               "attempt to load a binary chunk");
    fails_with(SANDBOX_PURE, "\033Lua", "binary");
}
END_TEST

/* Where an error is, as with Lua's own functions. */
START_TEST(positions)
{
    fails_with(SANDBOX_PURE, "\ntable.concat({{}})", "t:2: invalid value (table) at index 1");
    fails_with(SANDBOX_PURE, "\ntable.move(1, 1, 2, 3)", "t:2: bad argument #1 to 'move'");
    fails_with(SANDBOX_PURE, "\nstring.rep()", "t:2: bad argument #1 to 'rep'");
    fails_with(SANDBOX_PURE, "\nstring.find('a', '[a')", "t:2: malformed pattern (missing ']')");
    fails_with(SANDBOX_PURE, "\nstring.gsub('a', 'a', '%2')", "invalid capture index %2");
    fails_with(SANDBOX_PURE, "\nstring.gsub('a', 'a', true)", "string/function/table expected");
    fails_with(SANDBOX_PURE, "\nreturn ('a'):match('%1')", "invalid capture index %1");
    fails_with(SANDBOX_PURE, "\nreturn ('a'):match('a)')", "invalid pattern capture");
    fails_with(SANDBOX_PURE, "\nreturn ('a'):match('(a')", "unfinished capture");
}
END_TEST

/* --- the same as Lua's own --- */

static uint64_t seed = 88172645463325252u;

static unsigned below(unsigned n)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (unsigned)(seed >> 33) % n;
}

static void random_pattern(char *p, size_t max)
{
    static const char *const parts[] = {
        "a",     "b",      "c",   ".",    "%a",    "%A",    "%d",    "%s",  "%w",    "%W",
        "%p",    "%.",     "%%",  "[ab]", "[^ab]", "[a-c]", "[%a_]", "[]]", "[^]a]", "[a-]",
        "[-a]",  "[%-a]",  "(a)", "(",    ")",     "()",    "%1",    "%2",  "%b()",  "%bab",
        "%f[a]", "%f[%A]", "^",   "$",    "-",     "x",     " ",     "1"};
    static const char *const repeats[] = {"", "", "", "*", "+", "-", "?"};
    unsigned n = below(6);

    p[0] = '\0';
    if (below(5) == 0)
        strcat(p, "^");
    for (unsigned i = 0; i < n && strlen(p) + 8 < max; i++) {
        strcat(p, parts[below(sizeof(parts) / sizeof(parts[0]))]);
        strcat(p, repeats[below(sizeof(repeats) / sizeof(repeats[0]))]);
    }
    if (below(5) == 0)
        strcat(p, "$");
}

static void random_text(char *s)
{
    static const char letters[] = "aabbcc()x1 .%]-";
    unsigned n = below(12);

    for (unsigned i = 0; i < n; i++)
        s[i] = letters[below(sizeof(letters) - 1)];
    s[n] = '\0';
}

/* All that the four functions give for a text, a pattern and a replacement, as one string. */
static const char compare_text[] =
    "local s, p, r, init = ...\n"
    "local out = {}\n"
    "local function add(...)\n"
    "  for i = 1, select('#', ...) do out[#out + 1] = tostring((select(i, ...))) end\n"
    "  out[#out + 1] = '|'\n"
    "end\n"
    "add(string.find(s, p, init)) add(string.find(s, p, init, true)) add(string.match(s, p, "
    "init))\n"
    "for a, b, c in string.gmatch(s, p) do add(a, b, c) end\n"
    "add(string.gsub(s, p, r)) add(string.gsub(s, p, r, 2))\n"
    "add(string.gsub(s, p, function(x, y) if x ~= 'a' then return '<' .. tostring(y) .. '>' end "
    "end))\n"
    "add(string.gsub(s, p, {a = 'A', [1] = 'one', b = false}))\n"
    "return table.concat(out, ',')\n";

START_TEST(same_as_lua)
{
    static const char *const replacements[] = {"<%0>", "", "%%", "%1", "[%1%0]", "x"};
    sandbox_t *sb = sandbox_create(&limits, SANDBOX_PURE);
    lua_State *ours = sandbox_lua(sb), *lua = luaL_newstate();
    int same = 0, refused = 0;

    luaL_openlibs(lua);
    for (int i = 0; i < 20000; i++) {
        char p[128], s[32];
        const char *r = replacements[below(6)];
        int init = (int)below(9) - 4;
        int rc, want;

        random_pattern(p, sizeof(p));
        random_text(s);
        ck_assert_int_eq(luaL_loadstring(lua, compare_text), LUA_OK);
        ck_assert_int_eq(sandbox_load(sb, compare_text, strlen(compare_text), "=c"), LUA_OK);
        for (int k = 0; k < 2; k++) {
            lua_State *L = k ? lua : ours;
            lua_pushstring(L, s);
            lua_pushstring(L, p);
            lua_pushstring(L, r);
            lua_pushinteger(L, init);
        }
        want = lua_pcall(lua, 4, 1, 0);
        rc = sandbox_call(sb, 4, 1);
        if (want == LUA_OK && rc == LUA_OK) {
            ck_assert_msg(strcmp(lua_tostring(lua, -1), lua_tostring(ours, -1)) == 0,
                          "'%s' '%s' '%s' %d: %s, not %s", s, p, r, init, lua_tostring(ours, -1),
                          lua_tostring(lua, -1));
            same++;
        } else {
            /* What Lua refuses is refused; so is what is malformed where Lua does not get to. */
            ck_assert_msg(rc != LUA_OK, "'%s' '%s': only Lua refuses it: %s", s, p,
                          lua_tostring(lua, -1));
            ck_assert_msg(want != LUA_OK || strstr(lua_tostring(ours, -1), "pattern"),
                          "'%s' '%s': %s", s, p, lua_tostring(ours, -1));
            refused++;
        }
        lua_settop(lua, 0);
        lua_settop(ours, 0);
    }
    ck_assert_int_gt(same, 5000);
    ck_assert_int_gt(refused, 100);
    lua_close(lua);
    sandbox_destroy(sb);
}
END_TEST

START_TEST(functions_work)
{
    static const char text[] =
        "local t = {3, 1, 2}\n"
        "table.sort(t) assert(table.concat(t, ',') == '1,2,3')\n"
        "table.sort(t, function(a, b) return a > b end) assert(table.concat(t) == '321')\n"
        "table.insert(t, 9) table.insert(t, 1, 8) assert(table.concat(t) == '83219')\n"
        "assert(table.remove(t) == 9 and table.remove(t, 1) == 8)\n"
        "assert(select('#', table.unpack(t)) == 3 and select(2, table.unpack(t)) == 2)\n"
        "assert(table.concat(table.move(t, 1, 3, 2)) == '3321')\n"
        "assert(('ab'):rep(3, '-') == 'ab-ab-ab' and (''):rep(1 << 45) == '' and ('x'):rep(-1) == "
        "'')\n"
        "assert(('key = value'):match('^(%w+)%s*=%s*(%w+)$') == 'key')\n"
        "assert(utf8.len('h\\u{e9}') == 2 and #utf8.char(233) == 2)\n"
        "return 'fine'";
    sandbox_t *sb = sandbox_create(&limits, SANDBOX_PURE);
    int rc = run(sb, text);

    ck_assert_msg(rc == LUA_OK, "%s", rc == LUA_OK ? "" : sandbox_error(sb, rc));
    ck_assert_str_eq(lua_tostring(sandbox_lua(sb), -1), "fine");
    sandbox_destroy(sb);
    sandbox_destroy(NULL);
}
END_TEST

START_TEST(no_memory_for_it)
{
    struct sandbox_limits l = limits;

    l.memory = 1000;
    ck_assert_ptr_null(sandbox_create(&l, SANDBOX_PURE));
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("sandbox");

    tcase_set_timeout(tc, 120);
    tcase_add_loop_test(tc, ends, 0, sizeof(endless) / sizeof(endless[0]));
    tcase_add_test(tc, time_is_bounded);
    tcase_add_test(tc, time_of_a_pattern);
    tcase_add_test(tc, interrupted_pattern);
    tcase_add_test(tc, not_there);
    tcase_add_test(tc, positions);
    tcase_add_test(tc, same_as_lua);
    tcase_add_test(tc, functions_work);
    tcase_add_test(tc, no_memory_for_it);
    return run_case("sandbox", tc);
}

/* Configuration in Lua.
 *
 * A file is evaluated in the sandbox (libsandbox/sandbox.h) as SANDBOX_PURE: all brokers read the
 * same file and must get the same result.  Its globals are those that the sandbox allows, and the
 * sections.
 *
 * A section is a function with one table argument, which may be called once.  The table is checked
 * at once, so that errors have the line of the call, and stored in the registry under the section's
 * name; its unnamed entries are stored as "NAME[1]" and so on.  Functions in the table run later,
 * each call under the same limits.
 */
#include <errno.h>
#include <lauxlib.h>
#include <lua.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config_file.h"
#include "libsandbox/sandbox.h"
#include "libutil/fdutil.h"
#include "libutil/filetrust.h"
#include "libutil/nearest.h"
#include "libutil/strutil.h"

#define FILE_MAX_BYTES (1024u * 1024)
#define PAIRS_MAX 1000
#define ENTRIES_MAX 1000 /* unnamed entries of one section */

static const struct sandbox_limits limits = {.memory = 8u << 20, .steps = 2000000, .seconds = 2.};

struct config {
    sandbox_t *sb;
    lua_State *L; /* the state of `sb` */
    const struct config_field *fields;
    char *name;
};

static const char self_key = 's';   /* registry: the config_t */
static const char tables_key = 't'; /* registry: section name -> table */

static config_t *self(lua_State *L)
{
    config_t *c;

    lua_rawgetp(L, LUA_REGISTRYINDEX, &self_key);
    c = lua_touserdata(L, -1);
    lua_pop(L, 1);
    return c;
}

/* --- sections --- */

static const char *type_words(enum config_type type)
{
    static const char *const words[] = {
        [CONFIG_STRING] = "a string",
        [CONFIG_BOOL] = "true or false",
        [CONFIG_NUMBER] = "a number",
        [CONFIG_TEXT_OF] = "a string or a function",
        [CONFIG_PAIRS] = "a table of names and values",
        [CONFIG_AMOUNT] = "a number or a string",
        [CONFIG_ANY] = "anything",
    };

    return words[type];
}

static const struct config_field *find_field(const config_t *c, const char *section,
                                             const char *name)
{
    for (const struct config_field *f = c->fields; f->section; f++) {
        if (strcmp(f->section, section) == 0 && (!name || strcmp(f->name, name) == 0))
            return f;
    }
    return NULL;
}

/* Is the value a string without NUL bytes? */
static bool plain_string(lua_State *L, int index)
{
    size_t len;
    const char *s;

    if (lua_type(L, index) != LUA_TSTRING)
        return false;
    s = lua_tolstring(L, index, &len);
    return strlen(s) == len;
}

static bool plain_value(lua_State *L, int index)
{
    return lua_type(L, index) == LUA_TNUMBER || lua_type(L, index) == LUA_TBOOLEAN ||
           plain_string(L, index);
}

static bool pairs_ok(lua_State *L, int index)
{
    int count = 0;

    if (lua_type(L, index) != LUA_TTABLE)
        return false;
    index = lua_absindex(L, index);
    for (lua_pushnil(L); lua_next(L, index); lua_pop(L, 1)) {
        if (!plain_string(L, -2) || !plain_value(L, -1) || ++count > PAIRS_MAX) {
            lua_pop(L, 2);
            return false;
        }
    }
    return true;
}

static bool value_ok(lua_State *L, int index, enum config_type type)
{
    switch (type) {
    case CONFIG_AMOUNT:
        return plain_string(L, index) || value_ok(L, index, CONFIG_NUMBER);
    case CONFIG_ANY:
        return true;
    case CONFIG_STRING:
        return plain_string(L, index);
    case CONFIG_BOOL:
        return lua_type(L, index) == LUA_TBOOLEAN;
    case CONFIG_NUMBER:
        return lua_type(L, index) == LUA_TNUMBER && isfinite(lua_tonumber(L, index));
    case CONFIG_TEXT_OF:
        return plain_string(L, index) || lua_type(L, index) == LUA_TFUNCTION;
    case CONFIG_PAIRS:
        return pairs_ok(L, index);
    }
    return false;
}

static void copy_pairs(lua_State *L, int index)
{
    index = lua_absindex(L, index);
    lua_newtable(L);
    for (lua_pushnil(L); lua_next(L, index); lua_pop(L, 1)) {
        lua_pushvalue(L, -2);
        lua_pushvalue(L, -2);
        lua_rawset(L, -5);
    }
}

/* The field called `name`, else "*", else NULL. */
static const struct config_field *field_of(const config_t *c, const char *section, const char *name)
{
    const struct config_field *f = find_field(c, section, name);

    return f ? f : find_field(c, section, "*");
}

static int no_field(lua_State *L, const char *section, const char *shown, const char *name)
{
    struct nearest near;
    char words[160];

    nearest_init(&near, name);
    for (const struct config_field *f = self(L)->fields; f->section; f++) {
        if (strcmp(f->section, section) == 0)
            nearest_feed(&near, f->name);
    }
    return luaL_error(L, "%s has no field \"%s\"%s", shown, name,
                      nearest_words(&near, words, sizeof(words)));
}

/* The globals' __index: an unknown name is misspelled, and would count as absent (curve =
 * flase). */
static int no_variable(lua_State *L)
{
    const char *name = lua_type(L, 2) == LUA_TSTRING ? lua_tostring(L, 2) : "?";
    static const char *const constants[] = {"true", "false", "nil"};
    struct nearest near;
    char words[160];

    nearest_init(&near, name);
    for (size_t i = 0; i < sizeof(constants) / sizeof(constants[0]); i++)
        nearest_feed(&near, constants[i]);
    for (lua_pushnil(L); lua_next(L, 1); lua_pop(L, 1)) {
        if (lua_type(L, -2) == LUA_TSTRING)
            nearest_feed(&near, lua_tostring(L, -2)); /* the table keeps it alive */
    }
    return luaL_error(L, "there is no variable '%s'%s", name,
                      nearest_words(&near, words, sizeof(words)));
}

/* Check the table at `index` against the fields of `section` (`shown` in errors), and push a copy
 * without its unnamed entries, since the file may change its own table later.  Returns the number
 * of unnamed entries. */
static int take_fields(lua_State *L, int index, const char *section, const char *shown, bool lists)
{
    config_t *c = self(L);
    int copy, unnamed = 0;

    luaL_checkstack(L, 8, "too deep");
    lua_newtable(L);
    copy = lua_gettop(L);
    for (lua_pushnil(L); lua_next(L, index); lua_pop(L, 1)) {
        const struct config_field *f;

        if (!plain_string(L, -2)) {
            if (find_field(c, section, "*"))
                continue;
            if (!lists || lua_type(L, -2) != LUA_TNUMBER)
                return luaL_error(L, "%s has an unnamed entry", shown);
            unnamed++;
            continue;
        }
        if (!(f = field_of(c, section, lua_tostring(L, -2))))
            return no_field(L, section, shown, lua_tostring(L, -2));
        if (!value_ok(L, -1, f->type))
            return luaL_error(L, "%s.%s must be %s", shown, f->name, type_words(f->type));
        if (f->type == CONFIG_ANY)
            continue;
        if (f->type == CONFIG_PAIRS)
            copy_pairs(L, -1);
        else
            lua_pushvalue(L, -1);
        lua_setfield(L, copy, f->name);
    }
    for (const struct config_field *f = c->fields; f->section; f++) {
        if (!f->required || strcmp(f->section, section) != 0)
            continue;
        if (lua_getfield(L, copy, f->name) == LUA_TNIL)
            return luaL_error(L, "%s.%s is missing", shown, f->name);
        lua_pop(L, 1);
    }
    return unnamed;
}

/* Upvalues: the names of the section and of its unnamed entries.  Stack: 1 the argument, 2 the
 * registry's tables, 3 the copy. */
static int section_call(lua_State *L)
{
    config_t *c = self(L);
    const char *section = lua_tostring(L, lua_upvalueindex(1));
    const char *entries = lua_tostring(L, lua_upvalueindex(2));
    lua_Debug ar;
    int unnamed;

    if (lua_gettop(L) != 1 || lua_type(L, 1) != LUA_TTABLE)
        return luaL_error(L, "%s must be called with one table: %s { ... }", section, section);
    lua_rawgetp(L, LUA_REGISTRYINDEX, &tables_key);
    if (lua_getfield(L, -1, section) != LUA_TNIL)
        return luaL_error(L, "section %s occurs twice", section);
    lua_pop(L, 1);
    unnamed = take_fields(L, 1, section, section, find_field(c, entries, NULL) != NULL);
    if (unnamed > ENTRIES_MAX)
        return luaL_error(L, "%s has more than %d unnamed entries", section, ENTRIES_MAX);
    for (int i = 1; i <= unnamed; i++) {
        const char *name = lua_pushfstring(L, "%s[%d]", section, i);

        if (lua_rawgeti(L, 1, i) != LUA_TTABLE)
            return luaL_error(L, "%s must be a table", name);
        take_fields(L, lua_gettop(L), entries, name, false);
        lua_setfield(L, 2, name);
        lua_settop(L, 3);
    }
    lua_pushinteger(L, unnamed);
    lua_rawseti(L, 3, 1); /* number of unnamed entries; 1 and 2 are the only unnamed keys of the
                             copy */
    lua_pushinteger(L, lua_getstack(L, 1, &ar) && lua_getinfo(L, "l", &ar) ? ar.currentline : 0);
    lua_rawseti(L, 3, 2);
    lua_setfield(L, 2, section);
    return 0;
}

/* --- evaluation --- */

/* Runs protected; argument: the config_t. */
static int prepare(lua_State *L)
{
    config_t *c = lua_touserdata(L, 1);

    lua_pushlightuserdata(L, c);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &self_key);
    lua_newtable(L);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &tables_key);
    for (const struct config_field *f = c->fields; f->section; f++) {
        if (str_ends(f->section, "[]"))
            continue;
        lua_pushstring(L, f->section);
        lua_pushfstring(L, "%s[]", f->section);
        lua_pushcclosure(L, section_call, 2);
        lua_setglobal(L, f->section);
    }
    lua_pushglobaltable(L);
    lua_newtable(L);
    lua_pushcfunction(L, no_variable);
    lua_setfield(L, -2, "__index");
    lua_setmetatable(L, -2);
    return 0;
}

/* Turn the error of a failed call into an error message. */
static int lua_failed(config_t *c, int rc, errmsg_t *err)
{
    const char *text = sandbox_error(c->sb, rc);

    if (str_starts(text, c->name))
        errmsg_set(err, "%s", text);
    else
        errmsg_set(err, "%s: %s", c->name, text);
    lua_settop(c->L, 0);
    errno = EINVAL;
    return -1;
}

static int evaluate(config_t *c, const char *text, size_t len, errmsg_t *err)
{
    char chunk[256];
    int rc;

    lua_pushcfunction(c->L, prepare);
    lua_pushlightuserdata(c->L, c);
    if ((rc = sandbox_call(c->sb, 1, 0)) != LUA_OK)
        return lua_failed(c, rc, err);
    snprintf(chunk, sizeof(chunk), "@%s", c->name);
    if ((rc = sandbox_load(c->sb, text, len, chunk)) != LUA_OK ||
        (rc = sandbox_call(c->sb, 0, 0)) != LUA_OK)
        return lua_failed(c, rc, err);
    lua_settop(c->L, 0);
    return 0;
}

config_t *config_load_text(const char *text, size_t len, const char *name,
                           const struct config_field *fields, errmsg_t *err)
{
    config_t *c = calloc(1, sizeof(*c));

    if (!c || !(c->name = strdup(name)) || !(c->sb = sandbox_create(&limits, SANDBOX_PURE))) {
        errmsg_fail(err, ENOMEM, "out of memory while reading %s", name);
        config_destroy(c);
        return NULL;
    }
    c->L = sandbox_lua(c->sb);
    c->fields = fields;
    if (evaluate(c, text, len, err) < 0) {
        config_destroy(c);
        return NULL;
    }
    return c;
}

config_t *config_load(const char *path, const struct config_field *fields, errmsg_t *err)
{
    char *text;
    size_t len;
    config_t *c;

    errmsg_t why;

    if (!file_is_trusted(path, &why)) {
        errmsg_fail(err, errno, "configuration file %s", why.text);
        return NULL;
    }
    if (file_read_all(path, FILE_MAX_BYTES, &text, &len) < 0) {
        errmsg_fail(err, errno, "cannot read configuration file %s: %s", path, strerror(errno));
        return NULL;
    }
    c = config_load_text(text, len, path, fields, err);
    free(text);
    return c;
}

void config_destroy(config_t *c)
{
    int saved = errno;

    if (!c)
        return;
    sandbox_destroy(c->sb);
    free(c->name);
    free(c);
    errno = saved;
}

/* --- queries --- */

const char *config_name(const config_t *c)
{
    return c->name;
}

/* Push the field, or nil.  Runs protected, since Lua may lack the memory to create the strings. */
static int push_field(lua_State *L)
{
    lua_rawgetp(L, LUA_REGISTRYINDEX, &tables_key);
    lua_pushstring(L, lua_touserdata(L, 1));
    if (lua_rawget(L, -2) == LUA_TTABLE && lua_touserdata(L, 2)) {
        lua_pushstring(L, lua_touserdata(L, 2));
        lua_rawget(L, -2);
    }
    return 1;
}

static int get(config_t *c, const char *section, const char *name)
{
    lua_settop(c->L, 0);
    lua_pushcfunction(c->L, push_field);
    lua_pushlightuserdata(c->L, (void *)section);
    lua_pushlightuserdata(c->L, (void *)name);
    if (lua_pcall(c->L, 2, 1, 0) != LUA_OK) {
        lua_settop(c->L, 0);
        return LUA_TNIL;
    }
    return lua_type(c->L, -1);
}

bool config_has(config_t *c, const char *section)
{
    return get(c, section, NULL) == LUA_TTABLE;
}

size_t config_count(config_t *c, const char *section)
{
    if (get(c, section, NULL) != LUA_TTABLE)
        return 0;
    lua_rawgeti(c->L, -1, 1);
    return (size_t)lua_tointeger(c->L, -1);
}

int config_line(config_t *c, const char *section)
{
    if (get(c, section, NULL) != LUA_TTABLE)
        return 0;
    lua_rawgeti(c->L, -1, 2);
    return (int)lua_tointeger(c->L, -1);
}

const char *config_string(config_t *c, const char *section, const char *name)
{
    /* The table keeps the string alive. */
    return get(c, section, name) == LUA_TSTRING ? lua_tostring(c->L, -1) : NULL;
}

bool config_bool(config_t *c, const char *section, const char *name, bool absent)
{
    return get(c, section, name) == LUA_TBOOLEAN ? lua_toboolean(c->L, -1) : absent;
}

double config_number(config_t *c, const char *section, const char *name, double absent)
{
    return get(c, section, name) == LUA_TNUMBER ? lua_tonumber(c->L, -1) : absent;
}

/* --- texts for one host --- */

static int expand(config_t *c, const char *field, const char *s, uint32_t rank, const char *host,
                  char *buf, size_t size, errmsg_t *err)
{
    size_t len = 0;

    for (; *s; s++) {
        char digits[16], one[2] = {*s, '\0'};
        const char *part = one;

        if (*s == '%') {
            s++;
            snprintf(digits, sizeof(digits), "%u", rank);
            part = *s == 'h' ? host : *s == 'r' ? digits : *s == '%' ? "%" : NULL;
            if (!part)
                return errmsg_fail(err, EINVAL,
                                   "%s: %s: %% must be followed by h (host), r (rank) or %%",
                                   c->name, field);
        }
        if (len + strlen(part) >= size)
            return errmsg_fail(err, EINVAL, "%s: %s is too long", c->name, field);
        memcpy(buf + len, part, strlen(part));
        len += strlen(part);
    }
    buf[len] = '\0';
    return 1;
}

struct call {
    uint32_t rank;
    const char *host;
};

/* Runs protected; arguments: the function, struct call. */
static int call_function(lua_State *L)
{
    const struct call *call = lua_touserdata(L, 2);

    lua_pushvalue(L, 1);
    lua_pushinteger(L, call->rank);
    lua_pushstring(L, call->host);
    lua_call(L, 2, 1);
    return 1;
}

int config_text_of(config_t *c, const char *section, const char *name, uint32_t rank,
                   const char *host, char *buf, size_t size, errmsg_t *err)
{
    struct call call = {.rank = rank, .host = host};
    char field[64];
    int rc, type = get(c, section, name);

    snprintf(field, sizeof(field), "%s.%s", section, name);
    if (type == LUA_TNIL)
        return 0;
    if (type == LUA_TSTRING)
        return expand(c, field, lua_tostring(c->L, -1), rank, host, buf, size, err);
    lua_pushcfunction(c->L, call_function);
    lua_insert(c->L, -2);
    lua_pushlightuserdata(c->L, &call);
    if ((rc = sandbox_call(c->sb, 2, 1)) != LUA_OK)
        return lua_failed(c, rc, err);
    if (!plain_string(c->L, -1))
        return errmsg_fail(err, EINVAL, "%s: function %s returned no string for rank %u", c->name,
                           field, rank);
    if (snprintf(buf, size, "%s", lua_tostring(c->L, -1)) >= (int)size)
        return errmsg_fail(err, EINVAL, "%s: %s is too long", c->name, field);
    return 1;
}

/* --- pairs --- */

static char *value_text(lua_State *L, int index)
{
    char text[64];

    switch (lua_type(L, index)) {
    case LUA_TSTRING:
        return strdup(lua_tostring(L, index));
    case LUA_TBOOLEAN:
        return strdup(lua_toboolean(L, index) ? "yes" : "no");
    default:
        if (lua_isinteger(L, index))
            snprintf(text, sizeof(text), LUA_INTEGER_FMT, lua_tointeger(L, index));
        else
            snprintf(text, sizeof(text), "%.14g", lua_tonumber(L, index));
        return strdup(text);
    }
}

int config_pair(config_t *c, const char *section, const char *name, size_t i, char **key,
                char **value)
{
    *key = *value = NULL;
    if (get(c, section, name) != LUA_TTABLE)
        return 0;
    for (lua_pushnil(c->L); lua_next(c->L, 1); lua_pop(c->L, 1)) {
        if (i-- == 0) {
            *key = strdup(lua_tostring(c->L, -2));
            *value = value_text(c->L, -1);
            break;
        }
    }
    if (i != SIZE_MAX)
        return 0;
    if (*key && *value)
        return 1;
    free(*key);
    free(*value);
    errno = ENOMEM;
    return -1;
}

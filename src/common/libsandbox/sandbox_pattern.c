/* sandbox_pattern.c - string.find, match, gmatch and gsub with a matcher that charges for its
 * steps.
 *
 * Lua's own matcher backtracks without limit: ("a"):rep(30) .. "b" against ".-.-.-.-.-x" runs for
 * days in one call, which no hook can interrupt.  This one accepts the same patterns (Lua 5.3
 * manual, 6.4.1).  It compiles a pattern into an array of nodes, which run() matches by
 * backtracking, calling sandbox_charge() for each step.
 *
 *    node         from           matches
 *    ITEM         a %a [set] .   one byte of a set, with a repetition: none, ? * + -
 *    OPEN, CLOSE  ( )            nothing; begin and end a capture
 *    POSITION     ()             nothing; captures the position
 *    BACKREF      %1             the text of a capture again
 *    BALANCED     %bxy           from x to the matching y
 *    FRONTIER     %f[set]        nothing, between a byte outside the set and one inside
 *    AT_END       $ at the end   the end of the text
 *    ACCEPT       -              the end of the pattern
 *
 * Invariants:
 *  1. run() calls itself at most DEPTH_MAX levels deep.
 *  2. Between two charges at most one byte, or one set of the pattern, is examined.
 *
 * Failure: a Lua error.  Unlike Lua's matcher, this one refuses a malformed pattern even if the
 * text never reaches the malformed part.
 */
#include "config.h"
#include <ctype.h>
#include <lauxlib.h>
#include <stdbool.h>
#include <string.h>

#include "sandbox_private.h"

#define DEPTH_MAX 200
#define CAPTURES_MAX 32
#define SPECIALS "^$*+?.([%-"

enum kind { ITEM, OPEN, CLOSE, POSITION, BACKREF, BALANCED, FRONTIER, AT_END, ACCEPT };

struct node {
    uint8_t kind;
    char repeat;       /* ITEM: 0 or one of ? * + - */
    uint8_t ref;       /* BACKREF: number from 0 */
    const char *p, *e; /* ITEM, FRONTIER: the set in the pattern; BALANCED: the two bytes */
};

enum { LEN_OPEN = -1, LEN_POSITION = -2 };

struct match {
    lua_State *L;
    const struct node *nodes;
    const char *text, *end;
    int depth;
    int ncaptures;
    struct {
        const char *at;
        ptrdiff_t len; /* or LEN_... */
    } captures[CAPTURES_MAX];
};

/* --- compiler --- */

/* The end of the set or class at `p`: one byte, %x, or [...]. */
static const char *set_end(lua_State *L, const char *p, const char *end)
{
    if (*p == '%') {
        if (p + 1 == end)
            luaL_error(L, "malformed pattern (ends with '%%')");
        return p + 2;
    }
    if (*p != '[')
        return p + 1;
    p++;
    if (p < end && *p == '^')
        p++;
    for (bool first = true;; first = false) {
        if (p >= end)
            luaL_error(L, "malformed pattern (missing ']')");
        if (*p == ']' && !first)
            return p + 1;
        p += *p == '%' && p + 1 < end ? 2 : 1;
    }
}

/* Compile one node at `p`.  Returns where the next one begins. */
static const char *compile_one(lua_State *L, struct node *n, const char *p, const char *end)
{
    if (*p == '(') {
        bool position = p + 1 < end && p[1] == ')';
        n->kind = position ? POSITION : OPEN;
        return p + 1 + position;
    }
    if (*p == ')') {
        n->kind = CLOSE;
        return p + 1;
    }
    if (*p == '$' && p + 1 == end) {
        n->kind = AT_END;
        return end;
    }
    if (*p == '%' && p + 1 < end && p[1] == 'b') {
        if (end - p < 4)
            luaL_error(L, "malformed pattern (missing arguments to '%%b')");
        *n = (struct node){.kind = BALANCED, .p = p + 2};
        return p + 4;
    }
    if (*p == '%' && p + 1 < end && p[1] == 'f') {
        if (p + 2 >= end || p[2] != '[')
            luaL_error(L, "missing '[' after '%%f' in pattern");
        *n = (struct node){.kind = FRONTIER, .p = p + 2, .e = set_end(L, p + 2, end)};
        return n->e;
    }
    if (*p == '%' && p + 1 < end && isdigit((unsigned char)p[1])) {
        if (p[1] == '0')
            luaL_error(L, "invalid capture index %%0 in pattern");
        *n = (struct node){.kind = BACKREF, .ref = (uint8_t)(p[1] - '1')};
        return p + 2;
    }
    *n = (struct node){.kind = ITEM, .p = p, .e = set_end(L, p, end)};
    p = n->e;
    if (p < end && strchr("?*+-", *p) && *p)
        n->repeat = *p++;
    return p;
}

/* Compile a pattern into a userdatum that is left on the stack. */
static const struct node *compile(lua_State *L, const char *p, size_t len)
{
    struct node *nodes = lua_newuserdata(L, (len + 1) * sizeof(*nodes));
    const char *end = p + len;
    size_t n = 0;

    sandbox_charge(L, len / 8);
    memset(nodes, 0, (len + 1) * sizeof(*nodes));
    while (p < end)
        p = compile_one(L, &nodes[n++], p, end);
    nodes[n].kind = ACCEPT;
    return nodes;
}

/* --- matcher --- */

static bool in_class(int c, int class)
{
    bool in;

    switch (tolower(class)) {
    case 'a':
        in = isalpha(c);
        break;
    case 'c':
        in = iscntrl(c);
        break;
    case 'd':
        in = isdigit(c);
        break;
    case 'g':
        in = isgraph(c);
        break;
    case 'l':
        in = islower(c);
        break;
    case 'p':
        in = ispunct(c);
        break;
    case 's':
        in = isspace(c);
        break;
    case 'u':
        in = isupper(c);
        break;
    case 'w':
        in = isalnum(c);
        break;
    case 'x':
        in = isxdigit(c);
        break;
    case 'z':
        in = c == 0;
        break;
    default:
        return class == c;
    }
    return isupper(class) ? !in : in;
}

/* Is the byte in the set [p..e)? */
static bool in_set(int c, const char *p, const char *e)
{
    bool wanted = true;

    if (*p == '.')
        return true;
    if (*p == '%')
        return in_class(c, (unsigned char)p[1]);
    if (*p != '[')
        return (unsigned char)*p == c;
    e--; /* the ']' */
    p++;
    if (*p == '^') {
        wanted = false;
        p++;
    }
    while (p < e) {
        if (*p == '%') {
            if (in_class(c, (unsigned char)p[1]))
                return wanted;
            p += 2;
        } else if (p + 2 < e && p[1] == '-') {
            if ((unsigned char)p[0] <= c && c <= (unsigned char)p[2])
                return wanted;
            p += 3;
        } else if ((unsigned char)*p++ == c) {
            return wanted;
        }
    }
    return !wanted;
}

static bool one(struct match *m, const struct node *n, const char *s)
{
    sandbox_charge(m->L, 1 + (uint64_t)(n->e - n->p) / 8);
    return s < m->end && in_set((unsigned char)*s, n->p, n->e);
}

static const char *run(struct match *m, const struct node *n, const char *s);

static const char *run_repeat(struct match *m, const struct node *n, const char *s)
{
    const char *least = s, *r;

    switch (n->repeat) {
    case '?':
        if (one(m, n, s) && (r = run(m, n + 1, s + 1)))
            return r;
        return run(m, n + 1, s);
    case '-':
        while (!(r = run(m, n + 1, s))) {
            if (!one(m, n, s++))
                return NULL;
        }
        return r;
    default:
        if (n->repeat == '+') {
            if (!one(m, n, s))
                return NULL;
            least = ++s;
        }
        while (one(m, n, s))
            s++;
        for (;; s--) {
            if ((r = run(m, n + 1, s)))
                return r;
            if (s == least)
                return NULL;
        }
    }
}

static const char *balanced(struct match *m, const char *p, const char *s)
{
    size_t open = 1;

    if (s >= m->end || *s != p[0])
        return NULL;
    while (++s < m->end) {
        sandbox_charge(m->L, 1);
        if (*s == p[1]) {
            if (--open == 0)
                return s + 1;
        } else if (*s == p[0]) {
            open++;
        }
    }
    return NULL;
}

static bool at_frontier(struct match *m, const struct node *n, const char *s)
{
    int before = s == m->text ? 0 : (unsigned char)s[-1];
    int here = s == m->end ? 0 : (unsigned char)*s;

    return !in_set(before, n->p, n->e) && in_set(here, n->p, n->e);
}

static const char *same_again(struct match *m, unsigned ref, const char *s)
{
    ptrdiff_t len;

    if (ref >= (unsigned)m->ncaptures || m->captures[ref].len == LEN_OPEN)
        luaL_error(m->L, "invalid capture index %%%d", (int)ref + 1);
    len = m->captures[ref].len;
    if (len < 0) /* a position: as a length it exceeds any text */
        return NULL;
    sandbox_charge(m->L, (uint64_t)len / 64);
    return m->end - s >= len && memcmp(m->captures[ref].at, s, (size_t)len) == 0 ? s + len : NULL;
}

static const char *open_capture(struct match *m, const struct node *n, const char *s)
{
    const char *r;

    if (m->ncaptures >= CAPTURES_MAX)
        luaL_error(m->L, "too many captures");
    m->captures[m->ncaptures].at = s;
    m->captures[m->ncaptures].len = n->kind == POSITION ? LEN_POSITION : LEN_OPEN;
    m->ncaptures++;
    if (!(r = run(m, n + 1, s)))
        m->ncaptures--;
    return r;
}

static const char *close_capture(struct match *m, const struct node *n, const char *s)
{
    int i = m->ncaptures - 1;
    const char *r;

    while (i >= 0 && m->captures[i].len != LEN_OPEN)
        i--;
    if (i < 0)
        luaL_error(m->L, "invalid pattern capture");
    m->captures[i].len = s - m->captures[i].at;
    if (!(r = run(m, n + 1, s)))
        m->captures[i].len = LEN_OPEN;
    return r;
}

/* Match from node `n` at `s`.  Returns the end of the match, or NULL. */
static const char *run_here(struct match *m, const struct node *n, const char *s)
{
    for (;; n++) {
        switch ((enum kind)n->kind) {
        case ACCEPT:
            return s;
        case AT_END:
            return s == m->end ? s : NULL;
        case OPEN:
        case POSITION:
            return open_capture(m, n, s);
        case CLOSE:
            return close_capture(m, n, s);
        case BACKREF:
            s = same_again(m, n->ref, s);
            break;
        case BALANCED:
            s = balanced(m, n->p, s);
            break;
        case FRONTIER:
            sandbox_charge(m->L, 1 + (uint64_t)(n->e - n->p) / 4);
            if (!at_frontier(m, n, s))
                return NULL;
            break;
        case ITEM:
            if (n->repeat)
                return run_repeat(m, n, s);
            s = one(m, n, s) ? s + 1 : NULL;
            break;
        }
        if (!s)
            return NULL;
    }
}

static const char *run(struct match *m, const struct node *n, const char *s)
{
    const char *r;

    sandbox_charge(m->L, 1);
    if (++m->depth > DEPTH_MAX)
        luaL_error(m->L, "pattern too complex");
    r = run_here(m, n, s);
    m->depth--;
    return r;
}

static const char *match_at(struct match *m, const char *s)
{
    m->depth = 0;
    m->ncaptures = 0;
    return run(m, m->nodes, s);
}

/* --- captures --- */

/* Push capture number i; the whole match if there are no captures and i is 0. */
static void push_capture(struct match *m, int i, const char *s, const char *e)
{
    if (i >= m->ncaptures) {
        if (i > 0)
            luaL_error(m->L, "invalid capture index %%%d", i + 1);
        lua_pushlstring(m->L, s, (size_t)(e - s));
    } else if (m->captures[i].len == LEN_POSITION) {
        lua_pushinteger(m->L, m->captures[i].at - m->text + 1);
    } else if (m->captures[i].len == LEN_OPEN) {
        luaL_error(m->L, "unfinished capture");
    } else {
        lua_pushlstring(m->L, m->captures[i].at, (size_t)m->captures[i].len);
    }
}

/* Push all captures; if there are none and `whole`, the whole match. */
static int push_captures(struct match *m, const char *s, const char *e, bool whole)
{
    int n = m->ncaptures == 0 && whole ? 1 : m->ncaptures;

    luaL_checkstack(m->L, n, "too many captures");
    for (int i = 0; i < n; i++)
        push_capture(m, i, s, e);
    return n;
}

/* --- find and match --- */

static size_t first_position(lua_Integer init, size_t len)
{
    if (init > 0)
        return (size_t)init - 1;
    if (init == 0 || (lua_Unsigned)-init > len)
        return 0;
    return len + (size_t)init;
}

static bool is_plain(const char *p, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (p[i] && strchr(SPECIALS, p[i]))
            return false;
    }
    return true;
}

static int find_or_match(lua_State *L, bool find)
{
    size_t len, plen;
    const char *text = luaL_checklstring(L, 1, &len);
    const char *p = luaL_checklstring(L, 2, &plen);
    size_t init = first_position(luaL_optinteger(L, 3, 1), len);
    struct match m = {.L = L, .text = text, .end = text + len};
    bool anchor = plen > 0 && *p == '^';

    if (init > len) {
        lua_pushnil(L);
        return 1;
    }
    sandbox_charge(L, (len - init) / 64);
    if (find && (lua_toboolean(L, 4) || is_plain(p, plen))) {
        const char *at = plen ? memmem(text + init, len - init, p, plen) : text + init;
        if (!at) {
            lua_pushnil(L);
            return 1;
        }
        lua_pushinteger(L, at - text + 1);
        lua_pushinteger(L, at - text + (lua_Integer)plen);
        return 2;
    }
    m.nodes = compile(L, p + anchor, plen - anchor);
    for (const char *s = text + init; s <= m.end; s++) {
        const char *e = match_at(&m, s);
        if (e && find) {
            lua_pushinteger(L, s - text + 1);
            lua_pushinteger(L, e - text);
            return 2 + push_captures(&m, s, e, false);
        }
        if (e)
            return push_captures(&m, s, e, true);
        if (anchor)
            break;
    }
    lua_pushnil(L);
    return 1;
}

int sandbox_find(lua_State *L)
{
    return find_or_match(L, true);
}

int sandbox_match(lua_State *L)
{
    return find_or_match(L, false);
}

/* --- gmatch --- */

/* Upvalues: 1 text, 2 pattern, 3 its nodes, 4 where to continue, 5 end of the last match (-1:
 * none). */
static int next_match(lua_State *L)
{
    size_t len;
    const char *text = lua_tolstring(L, lua_upvalueindex(1), &len);
    struct match m = {
        .L = L, .nodes = lua_touserdata(L, lua_upvalueindex(3)), .text = text, .end = text + len};
    const char *last = text + lua_tointeger(L, lua_upvalueindex(5));

    for (const char *s = text + lua_tointeger(L, lua_upvalueindex(4)); s <= m.end; s++) {
        const char *e = match_at(&m, s);
        if (e && e != last) {
            lua_pushinteger(L, e - text);
            lua_copy(L, -1, lua_upvalueindex(4));
            lua_replace(L, lua_upvalueindex(5));
            return push_captures(&m, s, e, true);
        }
    }
    lua_pushinteger(L, (lua_Integer)len + 1);
    lua_replace(L, lua_upvalueindex(4));
    return 0;
}

int sandbox_gmatch(lua_State *L)
{
    size_t plen;
    const char *p;

    luaL_checkstring(L, 1);
    p = luaL_checklstring(L, 2, &plen);
    lua_settop(L, 2);
    compile(L, p, plen);
    lua_pushinteger(L, 0);
    lua_pushinteger(L, -1);
    lua_pushcclosure(L, next_match, 5);
    return 1;
}

/* --- gsub --- */

static void add_text(struct match *m, luaL_Buffer *b, const char *s, const char *e)
{
    size_t len;
    const char *r = lua_tolstring(m->L, 3, &len);

    sandbox_charge(m->L, len / 16);
    for (size_t i = 0; i < len; i++) {
        if (r[i] != '%') {
            luaL_addchar(b, r[i]);
        } else if (++i < len && r[i] == '%') {
            luaL_addchar(b, '%');
        } else if (i < len && r[i] == '0') {
            luaL_addlstring(b, s, (size_t)(e - s));
        } else if (i < len && isdigit((unsigned char)r[i])) {
            push_capture(m, r[i] - '1', s, e);
            luaL_tolstring(m->L, -1, NULL);
            lua_remove(m->L, -2);
            luaL_addvalue(b);
        } else {
            luaL_error(m->L, "invalid use of '%%' in replacement string");
        }
    }
}

/* Append the replacement of the match s..e. */
static void add_replacement(struct match *m, luaL_Buffer *b, const char *s, const char *e)
{
    lua_State *L = m->L;

    switch (lua_type(L, 3)) {
    case LUA_TFUNCTION:
        lua_pushvalue(L, 3);
        lua_call(L, push_captures(m, s, e, true), 1);
        break;
    case LUA_TTABLE:
        push_capture(m, 0, s, e);
        lua_gettable(L, 3);
        break;
    default:
        add_text(m, b, s, e);
        return;
    }
    if (!lua_toboolean(L, -1)) {
        lua_pop(L, 1);
        luaL_addlstring(b, s, (size_t)(e - s));
        return;
    }
    if (!lua_isstring(L, -1))
        luaL_error(L, "invalid replacement value (a %s)", luaL_typename(L, -1));
    luaL_addvalue(b);
}

int sandbox_gsub(lua_State *L)
{
    size_t len, plen;
    const char *text = luaL_checklstring(L, 1, &len);
    const char *p = luaL_checklstring(L, 2, &plen);
    int type = lua_type(L, 3);
    lua_Integer max = luaL_optinteger(L, 4, (lua_Integer)len + 1), n = 0;
    struct match m = {.L = L, .text = text, .end = text + len};
    bool anchor = plen > 0 && *p == '^';
    const char *s = text, *last = NULL;
    luaL_Buffer b;

    luaL_argcheck(L,
                  type == LUA_TNUMBER || type == LUA_TSTRING || type == LUA_TFUNCTION ||
                      type == LUA_TTABLE,
                  3, "string/function/table expected");
    if (type == LUA_TNUMBER) {
        lua_pushvalue(L, 3);
        lua_tostring(L, -1);
        lua_replace(L, 3);
    }
    lua_settop(L, 3);
    m.nodes = compile(L, p + anchor, plen - anchor);
    luaL_buffinit(L, &b);
    while (n < max) {
        const char *e = match_at(&m, s);
        if (e && e != last) {
            n++;
            add_replacement(&m, &b, s, e);
            s = last = e;
        } else if (s < m.end) {
            luaL_addchar(&b, *s++);
        } else {
            break;
        }
        if (anchor)
            break;
    }
    luaL_addlstring(&b, s, (size_t)(m.end - s));
    luaL_pushresult(&b);
    lua_pushinteger(L, n);
    return 2;
}

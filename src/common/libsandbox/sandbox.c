/* sandbox.c - a Lua interpreter with limits.
 *
 * There are three limits, enforced in different ways:
 *    memory        the allocator refuses, which Lua turns into an error
 *    steps         a hook counts every HOOK_STEP instructions; C functions call sandbox_charge()
 *                  for work beyond a bounded amount
 *    seconds       processor time, checked by the same hook: one instruction may copy as many
 *                  bytes as there is memory; and by sandbox_charge() every CLOCK_STEPS steps
 *
 * sandbox_interrupt() installs the hook of a limit that was exceeded; sandbox_charge() looks at it,
 * since no hook runs while C functions do.
 *
 * Invariants:
 *  1. Only text is compiled: byte code could break the interpreter.
 *  2. After a limit was exceeded every instruction fails until the call has ended, so a file cannot
 *     gain time by catching errors.
 *  3. No allowed function does work in one call that is neither bounded by the memory that it may
 *     touch nor charged for.
 *  4. Everything that may raise an error runs under lua_pcall().
 *
 * Failure: a Lua error with a message, which the caller of sandbox_call() gets.
 */
#include "config.h"
#include <errno.h>
#include <lauxlib.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "sandbox_private.h"

#define HOOK_STEP 200
#define CLOCK_STEPS 10000
#define EACH (LUA_MASKCALL | LUA_MASKRET | LUA_MASKLINE | LUA_MASKCOUNT)

static sandbox_t *self(lua_State *L)
{
    void *sb;

    lua_getallocf(L, &sb);
    return sb;
}

static double cpu_now(void)
{
    struct timespec ts = {0};

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
    return (double)ts.tv_sec + 1e-9 * (double)ts.tv_nsec;
}

static void *allocate(void *arg, void *ptr, size_t old, size_t size)
{
    sandbox_t *sb = arg;
    void *fresh;

    if (!ptr)
        old = 0; /* in that case `old` is a type, not a size */
    if (size == 0) {
        free(ptr);
        sb->memory -= old;
        return NULL;
    }
    if (size > old && sb->memory + (size - old) > sb->limits.memory)
        return NULL;
    if ((fresh = realloc(ptr, size)))
        sb->memory = sb->memory - old + size;
    return fresh;
}

/* --- steps and time --- */

/* Raise an error of the message on top, with the line where it happened: in a hook, the line of the
 * running function; else that of the function that called C. */
static void stop(lua_State *L, const lua_Debug *ar)
{
    luaL_where(L, ar ? 0 : 1);
    lua_insert(L, -2);
    lua_concat(L, 2);
    lua_error(L);
}

static void too_many(lua_State *L, lua_Debug *ar)
{
    char steps[32];

    lua_sethook(L, too_many, EACH, 1);
    snprintf(steps, sizeof(steps), "%lld", (long long)self(L)->limits.steps);
    lua_pushfstring(L, "it computes for too long: more than %s instructions", steps);
    stop(L, ar);
}

static void too_late(lua_State *L, lua_Debug *ar)
{
    lua_sethook(L, too_late, EACH, 1);
    lua_pushfstring(L, "it computes for too long: it takes longer than %f s",
                    self(L)->limits.seconds);
    stop(L, ar);
}

static void count(lua_State *L, lua_Debug *ar)
{
    sandbox_t *sb = self(L);

    sb->steps += HOOK_STEP;
    if (sb->steps > sb->limits.steps)
        too_many(L, ar);
    if (cpu_now() - sb->started > sb->limits.seconds)
        too_late(L, ar);
}

void sandbox_charge(lua_State *L, uint64_t steps)
{
    sandbox_t *sb = self(L);
    int64_t before = sb->steps;

    if (lua_gethook(L) == too_late)
        too_late(L, NULL);
    if (steps > (uint64_t)sb->limits.steps || (sb->steps += (int64_t)steps) > sb->limits.steps)
        too_many(L, NULL);
    if (sb->steps / CLOCK_STEPS != before / CLOCK_STEPS &&
        cpu_now() - sb->started > sb->limits.seconds)
        too_late(L, NULL);
}

void sandbox_interrupt(sandbox_t *sb)
{
    lua_sethook(sb->L, too_late, EACH, 1);
}

static void fresh_allowance(sandbox_t *sb)
{
    sb->steps = 0;
    sb->started = cpu_now();
    lua_sethook(sb->L, count, LUA_MASKCOUNT, HOOK_STEP);
}

/* --- life --- */

sandbox_t *sandbox_create(const struct sandbox_limits *limits, enum sandbox_kind kind)
{
    sandbox_t *sb = calloc(1, sizeof(*sb));

    if (!sb)
        return NULL;
    sb->limits = *limits;
    sb->kind = kind;
    if (!(sb->L = lua_newstate(allocate, sb)))
        goto fail;
    lua_pushcfunction(sb->L, sandbox_open_libs);
    lua_pushinteger(sb->L, kind);
    if (lua_pcall(sb->L, 1, 0, 0) != LUA_OK)
        goto fail;
    return sb;
fail:
    sandbox_destroy(sb);
    errno = ENOMEM;
    return NULL;
}

void sandbox_destroy(sandbox_t *sb)
{
    int saved = errno;

    if (!sb)
        return;
    if (sb->L) {
        fresh_allowance(sb);
        lua_close(sb->L);
    }
    free(sb);
    errno = saved;
}

lua_State *sandbox_lua(sandbox_t *sb)
{
    return sb->L;
}

/* --- calls --- */

int sandbox_load(sandbox_t *sb, const char *text, size_t len, const char *name)
{
    return luaL_loadbufferx(sb->L, text, len, name, "t");
}

int sandbox_call(sandbox_t *sb, int nargs, int nresults)
{
    int rc;

    fresh_allowance(sb);
    rc = lua_pcall(sb->L, nargs, nresults, 0);
    lua_sethook(sb->L, NULL, 0, 0);
    return rc;
}

const char *sandbox_error(sandbox_t *sb, int rc)
{
    if (rc == LUA_ERRMEM) {
        snprintf(sb->error, sizeof(sb->error), "it needs more than %zu MiB of memory",
                 sb->limits.memory >> 20);
        return sb->error;
    }
    if (lua_type(sb->L, -1) == LUA_TSTRING)
        return lua_tostring(sb->L, -1);
    return "it failed with an error that is not text";
}

/* The one sandbox for Lua: configuration files, scheduler policies, launcher hooks.
 *
 * An interpreter with bounds on memory, instructions and processor time, and with those functions of
 * Lua's library that the list in sandbox_list.c allows.  Functions in C whose work is not bounded by
 * their arguments' size are bounded, too: they pay for their work out of the allowance of instructions.
 *
 * Thread rules: one thread per object, but for sandbox_interrupt().
 */
#ifndef SANDBOX_SANDBOX_H
#define SANDBOX_SANDBOX_H

#include <lua.h>
#include <stddef.h>
#include <stdint.h>

typedef struct sandbox sandbox_t;

struct sandbox_limits {
    size_t memory;  /* bytes, of everything in the interpreter */
    int64_t steps;  /* instructions of each call */
    double seconds; /* processor time of each call, in its thread */
};

/* What a file may use. */
enum sandbox_kind {
    SANDBOX_PURE,  /* what computes, and gives the same result in each broker */
    SANDBOX_HOOKS, /* also files, the clock, metatables, pcall, load */
};

/* NULL with ENOMEM.  Its globals are what is allowed. */
sandbox_t *sandbox_create(const struct sandbox_limits *limits, enum sandbox_kind kind);
/* Runs finalizers (of hooks), under the bounds.  NULL-safe, keeps errno. */
void sandbox_destroy(sandbox_t *sb);

lua_State *sandbox_lua(sandbox_t *sb);
const struct sandbox_limits *sandbox_limits(const sandbox_t *sb);

/* Compile text (never byte code); the function is on the stack, else a message: as lua_load(). */
int sandbox_load(sandbox_t *sb, const char *text, size_t len, const char *name);
/* lua_pcall() with a fresh allowance.  Once that is used up each further instruction fails, so that a
 * file cannot go on by catching errors.  LUA_OK or an error of Lua, whose message is on the stack. */
int sandbox_call(sandbox_t *sb, int nargs, int nresults);
/* What sandbox_call() or sandbox_load() failed with, as words; lives until the stack changes. */
const char *sandbox_error(sandbox_t *sb, int rc);

/* Let what runs fail as if its time were over.  Async-signal-safe, in the sandbox's own thread. */
void sandbox_interrupt(sandbox_t *sb);

#endif

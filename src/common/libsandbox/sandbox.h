/* The one sandbox for Lua: configuration files, scheduler policies, launcher hooks.
 *
 * It is an interpreter with limits on memory, instructions and processor time, and with those
 * functions of Lua's library that the list in sandbox_list.c allows.  C functions whose work is not
 * bounded by the size of their arguments are limited too: their work counts as instructions.
 *
 * Thread rules: one thread per object, except for sandbox_interrupt().
 */
#ifndef SANDBOX_SANDBOX_H
#define SANDBOX_SANDBOX_H

#include <lua.h>
#include <stddef.h>
#include <stdint.h>

typedef struct sandbox sandbox_t;

struct sandbox_limits {
    size_t memory;  /* bytes, for everything in the interpreter */
    int64_t steps;  /* instructions per call */
    double seconds; /* processor time per call, of its thread */
};

/* The functions that a file may use. */
enum sandbox_kind {
    SANDBOX_PURE,  /* computations with the same result at each broker */
    SANDBOX_HOOKS, /* also files, the clock, metatables, pcall, load */
};

/* NULL with ENOMEM.  The globals are the allowed functions. */
sandbox_t *sandbox_create(const struct sandbox_limits *limits, enum sandbox_kind kind);
/* Runs finalizers (of hooks), under the limits.  NULL-safe, keeps errno. */
void sandbox_destroy(sandbox_t *sb);

lua_State *sandbox_lua(sandbox_t *sb);

/* Compile text (never byte code).  Leaves the function or a message on the stack, as lua_load()
 * does. */
int sandbox_load(sandbox_t *sb, const char *text, size_t len, const char *name);
/* lua_pcall() with fresh limits.  Once a limit is exceeded every further instruction fails, so a
 * file cannot continue by catching errors.  LUA_OK, or a Lua error with its message on the
 * stack. */
int sandbox_call(sandbox_t *sb, int nargs, int nresults);
/* The error of sandbox_call() or sandbox_load() in words; valid until the stack changes. */
const char *sandbox_error(sandbox_t *sb, int rc);

/* For C functions that a file may call: charge for work, as a number of instructions.  Raises an
 * error when the limit is exceeded. */
void sandbox_charge(lua_State *L, uint64_t steps);

/* Make the running call fail as if its time were over.  Async-signal-safe, in the sandbox's own
 * thread. */
void sandbox_interrupt(sandbox_t *sb);

#endif

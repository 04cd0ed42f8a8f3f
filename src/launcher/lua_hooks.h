/* Between the launcher and its shared object for Lua plugins (lua_hooks.c): what a hook is
 * shown, and what it may do.  The launcher maps the object only when there are plugins.
 *
 * Thread rules: what create() returned is used by one thread at a time, but by any.  From the first
 * create() on SIGALRM has a handler, so the object must stay mapped; callers do not block SIGALRM.
 */
#ifndef LAUNCHER_LUA_HOOKS_H
#define LAUNCHER_LUA_HOOKS_H

#include <stddef.h>
#include <stdint.h>

#define LUA_HOOKS_ABI 2
#define LUA_HOOKS_SYMBOL "flux_launcher_lua_hooks"

#define LUA_HOOKS_LATE (-2)

enum lua_hook { LUA_INIT, LUA_TASK_START, LUA_TASK_EXIT, LUA_FINISH, LUA_NHOOKS };

/* Pointers are valid during the call.  The functions are NULL where a hook may not do that. */
struct lua_job {
    uint64_t id;
    const char *name, *node, *cwd, *tmpdir, *cores, *gpus;
    uint32_t node_id, nnodes, ntasks, nlocal;
    char *const *argv;
    int code; /* LUA_FINISH: exit code of the worst task here */
    /* The task a hook is about; NULL: none. */
    const struct lua_task {
        uint32_t rank;
        uint32_t local;
        int status; /* LUA_TASK_EXIT: of wait(2) */
    } * task;
    void *handle;
    const char *(*getenv)(void *handle, const char *name);
    /* NAME=value sets, NAME removes; of the task, else of all tasks to come.  -1: no memory. */
    int (*change)(void *handle, const char *var);
    void (*note)(void *handle, const char *text);
};

struct lua_hooks {
    int abi;
    /* Read all plugins: files *.lua of the directories in `path`, by name.  Each file, and later
     * each hook, may take `seconds` (above 0).  NULL with an error message. */
    void *(*create)(const char *path, double seconds, char *err, size_t size);
    void (*destroy)(void *hooks);
    /* Call a hook of all plugins, in order.  -1, or LUA_HOOKS_LATE when it took too long, with an
     * error message: one refused or failed; those after it are not called. */
    int (*call)(void *hooks, enum lua_hook which, const struct lua_job *job, char *err,
                size_t size);
};

#endif

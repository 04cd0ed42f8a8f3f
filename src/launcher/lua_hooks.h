/* The interface between the launcher and its shared object for Lua plugins (lua_hooks.c): the data
 * and functions of a hook.  The launcher maps the object only when there are plugins.
 *
 * Thread rules: the result of create() is used by one thread at a time, but by any thread.  From
 * the first create() on SIGALRM has a handler, so the object must stay mapped; callers do not block
 * SIGALRM.
 */
#ifndef LAUNCHER_LUA_HOOKS_H
#define LAUNCHER_LUA_HOOKS_H

#include <stddef.h>
#include <stdint.h>

#define LUA_HOOKS_ABI 2
#define LUA_HOOKS_SYMBOL "flux_launcher_lua_hooks"

#define LUA_HOOKS_LATE (-2)

enum lua_hook { LUA_INIT, LUA_TASK_START, LUA_TASK_EXIT, LUA_FINISH, LUA_NHOOKS };

/* Pointers are valid during the call.  A function that a hook may not call is NULL. */
struct lua_job {
    uint64_t id;
    const char *name, *node, *cwd, *tmpdir, *cores, *gpus;
    uint32_t node_id, nnodes, ntasks, nlocal;
    char *const *argv;
    int code; /* LUA_FINISH: worst exit code of the tasks on this node */
    /* The task that a hook is called for; NULL: none. */
    const struct lua_task {
        uint32_t rank;
        uint32_t local;
        int status; /* LUA_TASK_EXIT: status of wait(2) */
    } * task;
    void *handle;
    const char *(*getenv)(void *handle, const char *name);
    /* Set a variable (NAME=value), or remove it (NAME), for the task, or without a task for all
     * later tasks.  Returns -1 with ENOMEM. */
    int (*change)(void *handle, const char *var);
    void (*note)(void *handle, const char *text);
};

struct lua_hooks {
    int abi;
    /* Read all plugins: the files *.lua of the directories in `path`, sorted by name.  Each file,
     * and later each hook, may take `seconds` (above 0).  Returns NULL with an error message. */
    void *(*create)(const char *path, double seconds, char *err, size_t size);
    void (*destroy)(void *hooks);
    /* Call a hook of all plugins, in order.  If one refuses the job or fails, the later plugins are
     * not called: returns -1, or LUA_HOOKS_LATE when the call took too long, with an error
     * message. */
    int (*call)(void *hooks, enum lua_hook which, const struct lua_job *job, char *err,
                size_t size);
};

#endif

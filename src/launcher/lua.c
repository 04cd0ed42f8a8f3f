/* Lua plugins: the launcher's side.
 *
 * The shared object that has the interpreter is mapped at the first job, if the directories of the
 * attribute wrexec.lua-path hold a file *.lua; a launcher without plugins never does.
 *
 * Failure: while the plugins cannot be read no job runs here, and each is told why; the next one
 * tries again.  A hook before the tasks that fails refuses the job, one at a task's start the task
 * and so the job; one afterwards is told as a note.  A hook that takes longer than SECONDS, or than
 * the prolog may where that is less, fails; all that runs here waits that long, so a job that has
 * one afterwards is done with its hooks.
 */
#include "config.h"
#include "launcher.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libsubprocess/spawn.h"
#include "libutil/strutil.h"
#include "lua_hooks.h"

#define OBJECT "launcher-lua.so"
#define SECONDS 5.

struct lua {
    void *dl;
    const struct lua_hooks *ops;
    void *hooks;
};

static bool dir_has_plugins(const char *dir, size_t len)
{
    char path[4096];
    struct dirent *de;
    bool found = false;
    DIR *d;

    snprintf(path, sizeof(path), "%.*s", (int)len, dir);
    if (!(d = opendir(path)))
        return false;
    while (!found && (de = readdir(d)))
        found = de->d_name[0] != '.' && str_ends(de->d_name, ".lua");
    closedir(d);
    return found;
}

static bool has_plugins(const char *path)
{
    while (*path) {
        size_t len = strcspn(path, ":");

        if (len && dir_has_plugins(path, len))
            return true;
        path += len + (path[len] == ':');
    }
    return false;
}

static double time_limit(const struct launcher *l)
{
    return l->hook_timeout > 0 && l->hook_timeout < SECONDS ? l->hook_timeout : SECONDS;
}

static struct lua *load(const struct launcher *l, errmsg_t *err)
{
    struct lua *lua = calloc(1, sizeof(*lua));
    errmsg_t why;

    if (!lua) {
        errmsg_set(err, "no memory for plugins");
        return NULL;
    }
    if (!(lua->dl = object_open(OBJECT, &why))) {
        errmsg_set(err, "plugins cannot be used: %s", why.text);
        free(lua);
        return NULL;
    }
    lua->ops = dlsym(lua->dl, LUA_HOOKS_SYMBOL);
    if (!lua->ops || lua->ops->abi != LUA_HOOKS_ABI)
        errmsg_set(err, "plugins cannot be used: " OBJECT " is of another version");
    else if ((lua->hooks =
                  lua->ops->create(l->luapath, time_limit(l), err->text, sizeof(err->text))))
        return lua;
    lua_unload(lua);
    return NULL;
}

void lua_unload(struct lua *lua)
{
    if (!lua)
        return;
    if (lua->hooks)
        lua->ops->destroy(lua->hooks);
    dlclose(lua->dl);
    free(lua);
}

/* --- hooks --- */

struct call {
    struct nodejob *j;
    char *const *env; /* what getenv() looks at */
    struct changes *changes;
};

static const char *on_getenv(void *handle, const char *name)
{
    struct call *c = handle;
    const char *val;

    if (c->changes && env_changes_find(c->changes, name, &val))
        return val;
    return env_get(c->env, name);
}

static int on_change(void *handle, const char *var)
{
    struct call *c = handle;

    return env_changes_set(c->changes, var);
}

static void on_note(void *handle, const char *text)
{
    struct call *c = handle;

    launcher_send_note(c->j, "%s (%s)", text, nodejob_node_name(c->j));
}

static int call(struct nodejob *j, enum lua_hook which, const struct task *t, char *const *env,
                struct changes *changes, errmsg_t *err)
{
    struct call c = {j, env, changes};
    char *cores = j->cores ? idset_format(j->cores, 0) : NULL;
    char *gpus = j->gpus ? idset_format(j->gpus, 0) : NULL;
    struct lua_task task = {0};
    struct lua_job job = {.id = task_job_number(j),
                          .name = j->name,
                          .node = nodejob_node_name(j),
                          .cwd = j->fixed[WIRE_S_CWD],
                          .tmpdir = j->dir,
                          .cores = cores ? cores : "",
                          .gpus = gpus ? gpus : "",
                          .node_id = j->run.node,
                          .nnodes = j->run.nnodes,
                          .ntasks = j->run.ntasks,
                          .nlocal = j->ntasks,
                          .argv = j->argv,
                          .handle = &c,
                          .getenv = on_getenv,
                          .change = changes ? on_change : NULL,
                          .note = on_note};
    struct lua *lua = j->l->lua;
    int rc;

    if (t) {
        task = (struct lua_task){t->rank, (uint32_t)(t - j->tasks), t->status};
        job.task = &task;
    }
    for (uint32_t i = 0; which == LUA_FINISH && i < j->ntasks; i++)
        if (spawn_status_to_code(j->tasks[i].status) > job.code)
            job.code = spawn_status_to_code(j->tasks[i].status);
    rc = lua->ops->call(lua->hooks, which, &job, err->text, sizeof(err->text));
    free(cores);
    free(gpus);
    return rc;
}

int lua_init(struct nodejob *j, errmsg_t *err)
{
    struct launcher *l = j->l;

    if (!l->luapath || (j->run.flags & WIRE_F_EXEC))
        return 0;
    if (!l->lua) {
        if (!has_plugins(l->luapath))
            return 0;
        if (!(l->lua = load(l, err)))
            return -1;
    }
    j->plugins = true;
    return call(j, LUA_INIT, NULL, j->env, &j->changes, err) < 0 ? -1 : 0;
}

int lua_task_start(struct nodejob *j, const struct task *t, char *const *env,
                   struct changes *changes, errmsg_t *err)
{
    return j->plugins && call(j, LUA_TASK_START, t, env, changes, err) < 0 ? -1 : 0;
}

void lua_task_exit(struct nodejob *j, const struct task *t)
{
    errmsg_t err;
    int rc;

    if (!j->plugins || (rc = call(j, LUA_TASK_EXIT, t, j->env, NULL, &err)) == 0)
        return;
    launcher_send_note(j, "%s", err.text);
    if (rc == LUA_HOOKS_LATE)
        j->plugins = false;
}

void lua_finish(struct nodejob *j)
{
    errmsg_t err;

    if (!j->plugins)
        return;
    if (call(j, LUA_FINISH, NULL, j->env, NULL, &err) < 0)
        launcher_send_note(j, "%s", err.text);
    j->plugins = false;
}

/* lua.c - Lua plugins: the part in the launcher.
 *
 * Purpose: if the directories of the attribute wrexec.lua-path hold a file *.lua, a job has an
 * interpreter of its own, in which the files are read before its tasks start.  Starters (starter.c)
 * read the files and call the hooks, so a hook that waits or computes delays its own job only:
 *
 *    init         a work in `first`, before the PMIx server and the tasks
 *    task_start   part of the work that starts the task
 *    task_exit    a work in `last`
 *    finish       a work in `last`, which then removes the interpreter
 *
 * Invariants:
 *  1. `lock` is held while the interpreter is used: task_start and task_exit of two tasks may be
 *     due at the same time.
 *  2. A hook only reads data that stay as long as its job has works.  Notes and changed variables
 *     are collected in the work; the loop sends the notes, and takes over the variables, in done().
 *  3. The shared object with the interpreter is mapped for the first job that has plugins, and
 *     stays mapped, since it handles a signal.  A launcher without plugins never maps it.
 *
 * Failure: when a file cannot be read, or init fails, the job is refused.  A task_start that fails
 * ends the job; a task_exit or finish that fails is recorded as a note.  A hook fails when it
 * exceeds the time wrexec.hook-timeout (by default SECONDS).  After a task_exit that was late, no
 * further hooks are called for the job.
 */
#include "config.h"
#include "launcher.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libsubprocess/spawn.h"
#include "libutil/strutil.h"
#include "lua_hooks.h"

#define OBJECT "launcher-lua.so"
#define SECONDS 5.
#define SECONDS_MAX 1e6
#define NOTES_MAX 101 /* one more than is sent, so that the excess is reported */

struct plugins {
    pthread_mutex_t lock; /* for the members below that change */
    const struct lua_hooks *ops;
    void *hooks; /* NULL: there are no plugins, or they have not been read yet */
    bool off;    /* no further hooks are called */
    char *path;
    double seconds;
    /* Used by the loop only: */
    bool finishing, finished;
};

/* A call of a hook by a starter, except of task_start, which is part of the start of the task. */
struct hookwork {
    struct work w;
    enum lua_hook which;
    struct lua_task task;
    int code; /* LUA_FINISH */
    int rc;
    struct changes changes;
    struct notes notes;
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
    if (l->hook_timeout > SECONDS_MAX)
        return SECONDS_MAX;
    return l->hook_timeout > 0 ? l->hook_timeout : SECONDS;
}

static int load(struct plugins *p, errmsg_t *err)
{
    errmsg_t why;
    void *dl;

    if (!has_plugins(p->path))
        return 0;
    if (!(dl = object_open(OBJECT, &why)))
        return errmsg_fail(err, ENOENT, "plugins cannot be used: %s", why.text);
    p->ops = dlsym(dl, LUA_HOOKS_SYMBOL);
    if (!p->ops || p->ops->abi != LUA_HOOKS_ABI)
        return errmsg_fail(err, EINVAL, "plugins cannot be used: " OBJECT " is of another version");
    p->hooks = p->ops->create(p->path, p->seconds, err->text, sizeof(err->text));
    return p->hooks ? 0 : -1;
}

/* --- notes --- */

static void notes_add(struct notes *n, const char *text)
{
    char **v = n->n < NOTES_MAX ? realloc(n->v, (n->n + 1) * sizeof(*v)) : NULL;

    if (!v)
        return;
    n->v = v;
    if ((v[n->n] = strdup(text)))
        n->n++;
}

static void notes_clear(struct notes *n)
{
    for (size_t i = 0; i < n->n; i++)
        free(n->v[i]);
    free(n->v);
    *n = (struct notes){0};
}

void lua_notes_send(struct nodejob *j, struct notes *n)
{
    for (size_t i = 0; !j->ghost && i < n->n; i++)
        launcher_send_note(j, "%s (%s)", n->v[i], nodejob_node_name(j));
    notes_clear(n);
}

/* --- calls of hooks, by starters --- */

struct call {
    char *const *env; /* the environment that getenv() reads */
    struct changes *changes;
    struct notes *notes;
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

    notes_add(c->notes, text);
}

/* Called with the lock held. */
static int call(struct nodejob *j, enum lua_hook which, const struct lua_task *task, int code,
                struct call *c, errmsg_t *err)
{
    struct plugins *p = j->plugins;
    char *cores = j->cores ? idset_format(j->cores, 0) : NULL;
    char *gpus = j->gpus ? idset_format(j->gpus, 0) : NULL;
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
                          .code = code,
                          .task = task,
                          .handle = c,
                          .getenv = on_getenv,
                          .change = c->changes ? on_change : NULL,
                          .note = on_note};
    int rc = 0;

    if (p->hooks && !p->off)
        rc = p->ops->call(p->hooks, which, &job, err->text, sizeof(err->text));
    free(cores);
    free(gpus);
    return rc;
}

static void unload(struct plugins *p)
{
    if (p->hooks)
        p->ops->destroy(p->hooks);
    p->hooks = NULL;
}

static void hook_run(struct work *w, pid_t *pid)
{
    struct hookwork *hw = (struct hookwork *)w;
    struct nodejob *j = w->job;
    struct plugins *p = j->plugins;
    struct call c = {j->env, hw->which == LUA_INIT ? &hw->changes : NULL, &hw->notes};

    pthread_mutex_lock(&p->lock);
    if (hw->which == LUA_INIT)
        hw->rc = load(p, &w->err);
    if (hw->rc == 0)
        hw->rc = call(j, hw->which, hw->which == LUA_TASK_EXIT ? &hw->task : NULL, hw->code, &c,
                      &w->err);
    if (hw->which == LUA_INIT)
        w->failed = hw->rc < 0;
    else if (hw->which == LUA_TASK_EXIT)
        p->off |= (hw->rc == LUA_HOOKS_LATE);
    else
        unload(p);
    pthread_mutex_unlock(&p->lock);
}

int lua_task_start(struct request *r)
{
    const struct task *t = r->task;
    struct nodejob *j = t->job;
    struct lua_task task = {.rank = t->rank, .local = (uint32_t)(t - j->tasks)};
    struct call c = {r->envp, &r->plugged, &r->notes};
    char **v;
    int rc;

    if (!j->plugins)
        return 0;
    pthread_mutex_lock(&j->plugins->lock);
    rc = call(j, LUA_TASK_START, &task, 0, &c, &r->w.err);
    pthread_mutex_unlock(&j->plugins->lock);
    if (rc < 0)
        return -1;
    if (r->plugged.n == 0)
        return 0;
    if (!(v = env_changes_apply(&r->plugged, r->envp)))
        return errmsg_fail(&r->w.err, ENOMEM, "no memory to start task %u", t->rank);
    free(r->envp);
    r->sp.envp = r->envp = v;
    return 0;
}

/* --- the loop's side --- */

static void hook_free(struct work *w)
{
    struct hookwork *hw = (struct hookwork *)w;

    env_changes_clear(&hw->changes);
    notes_clear(&hw->notes);
    free(hw);
}

static void hook_done(struct work *w)
{
    struct hookwork *hw = (struct hookwork *)w;
    struct nodejob *j = w->job;

    lua_notes_send(j, &hw->notes);
    if (hw->which == LUA_INIT) {
        if (j->state == JOB_STARTING && !j->killed_early) {
            j->changes = hw->changes;
            hw->changes = (struct changes){0};
        }
        nodejob_plugins_done(j, w->failed ? w->err.text : NULL);
    } else if (hw->rc < 0 && !j->ghost) {
        launcher_send_note(j, "%s", w->err.text);
    }
    if (hw->which == LUA_FINISH)
        j->plugins->finished = true;
    hook_free(w);
}

static struct hookwork *hook_create(struct nodejob *j, enum lua_hook which)
{
    struct hookwork *hw = calloc(1, sizeof(*hw));

    if (!hw) {
        launcher_send_note(j, "no memory to call plugins");
        return NULL;
    }
    hw->w = (struct work){.run = hook_run, .done = hook_done, .drop = hook_free};
    hw->which = which;
    return hw;
}

int lua_init(struct nodejob *j, errmsg_t *err)
{
    struct launcher *l = j->l;
    struct plugins *p;
    struct hookwork *hw;

    if (!l->luapath || (j->run.flags & WIRE_F_EXEC))
        return 0;
    if (!(p = calloc(1, sizeof(*p))) || !(p->path = strdup(l->luapath)) ||
        !(hw = hook_create(j, LUA_INIT))) {
        if (p)
            free(p->path);
        free(p);
        return errmsg_fail(err, ENOMEM, "no memory for plugins");
    }
    pthread_mutex_init(&p->lock, NULL);
    p->seconds = time_limit(l);
    j->plugins = p;
    nodejob_work(j, &j->first, &hw->w);
    return 1;
}

void lua_task_exit(struct nodejob *j, const struct task *t)
{
    struct hookwork *hw;

    if (!j->plugins || !(hw = hook_create(j, LUA_TASK_EXIT)))
        return;
    hw->task = (struct lua_task){t->rank, (uint32_t)(t - j->tasks), t->status};
    nodejob_work(j, &j->last, &hw->w);
}

bool lua_finish(struct nodejob *j)
{
    struct hookwork *hw;

    if (!j->plugins || j->plugins->finished)
        return true;
    if (j->plugins->finishing)
        return false;
    j->plugins->finishing = true;
    if (!(hw = hook_create(j, LUA_FINISH))) {
        j->plugins->finished = true;
        return true;
    }
    for (uint32_t i = 0; i < j->ntasks; i++)
        if (spawn_status_to_code(j->tasks[i].status) > hw->code)
            hw->code = spawn_status_to_code(j->tasks[i].status);
    nodejob_work(j, &j->last, &hw->w);
    return false;
}

void lua_destroy(struct nodejob *j)
{
    struct plugins *p = j->plugins;

    if (!p)
        return;
    unload(p);
    pthread_mutex_destroy(&p->lock);
    free(p->path);
    free(p);
    j->plugins = NULL;
}

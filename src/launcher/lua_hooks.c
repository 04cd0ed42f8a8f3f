/* lua_hooks.c - Lua plugins of the launcher: the shared object with the interpreter.
 *
 * Purpose: each file runs once, and returns a table with functions named after hooks
 * (flux-lua.d(5)).  All files of a job share one interpreter, but each file has globals of its own:
 * a global that a file assigns is visible in this file only.
 *
 * Invariants:
 *  1. The interpreter is a sandbox (libsandbox/sandbox.h) of SANDBOX_HOOKS.  A file, and each call
 *     of a hook, may execute INSTRUCTIONS instructions and take the number of seconds that the
 *     launcher sets; the files together may hold MEMORY bytes.  A call beyond these limits fails,
 *     so a plugin in an endless loop costs a job, not the launcher.
 *  2. Every Lua error is caught: each operation that can fail is inside sandbox_call().
 *  3. `job` is a new table for each call; its methods reach the structure of the call by a light
 *     user datum that is removed from the registry afterwards.  A `job` that a plugin keeps for
 *     later therefore has no effect.
 *  4. The seconds are elapsed time.  When they are over, the thread gets a signal, and TICKS
 *     further signals in the same time again: system calls that wait (for a fifo without a writer)
 *     fail with EINTR, and the interpreter then finds that it is late.  A call that has not
 *     returned after the last signal hangs in a system call that cannot be interrupted (a dead file
 *     server).  The launcher then ends itself, with a message that names the plugin, and its jobs
 *     fail: a launcher that hangs would be worse.
 *
 * Failure: an error message, and the value that lua_hooks.h specifies.
 */
#include "config.h"
#include "lua_hooks.h"

#include <dirent.h>
#include <errno.h>
#include <lauxlib.h>
#include <lua.h>
#include <math.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

#include "libsandbox/sandbox.h"
#include "libutil/fdutil.h"
#include "libutil/filetrust.h"

#define INSTRUCTIONS 10000000
#define MEMORY (64u << 20)
#define FILES_MAX 1000
#define FILE_MAX_BYTES (1024u * 1024)
#define TICKS 10 /* signals to a late call, during the same time again */

struct hooks {
    sandbox_t *sb;
    lua_State *L; /* interpreter of the sandbox */
    size_t n;
    char **names; /* names of the files */
    int *refs;    /* references to the tables that the files returned */
    double seconds;
    volatile sig_atomic_t ticks; /* number of signals to the present call */
    volatile sig_atomic_t closing;
    char farewell[256]; /* message when the call does not return */
};

static const char *const hook_names[LUA_NHOOKS] = {"init", "task_start", "task_exit", "finish"};

/* --- time limits --- */

/* The signal handler. */
static void late(int signum, siginfo_t *si, void *context)
{
    struct hooks *h = si->si_code == SI_TIMER ? si->si_value.sival_ptr : NULL;
    int errnum = errno;

    if (!h)
        return;
    if (!h->closing)
        sandbox_interrupt(h->sb);
    if (++h->ticks > TICKS) {
        if (write(STDERR_FILENO, h->farewell, strlen(h->farewell)) < 0)
            h->ticks = 0;
        _exit(1);
    }
    errno = errnum;
}

/* The present call. */
struct watch {
    struct hooks *h;
    bool armed;
    timer_t timer;
};

static struct timespec interval(double seconds)
{
    double whole = floor(seconds);

    return (struct timespec){.tv_sec = (time_t)whole, .tv_nsec = (long)((seconds - whole) * 1e9)};
}

/* Start the time limit of a call.  If no timer can be created, only instructions are counted. */
static void watch_begin(struct watch *w, struct hooks *h, const char *name, const char *what)
{
    struct sigevent ev = {
        .sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGALRM, .sigev_value = {.sival_ptr = h}};
    struct itimerspec its = {.it_value = interval(h->seconds),
                             .it_interval = interval(h->seconds / TICKS)};

    w->h = h;
    ev.sigev_notify_thread_id = gettid();
    h->ticks = 0;
    snprintf(h->farewell, sizeof(h->farewell),
             "flux-launcher: plugin %s does not come back from %s: leaving\n", name, what);
    w->armed = timer_create(CLOCK_MONOTONIC, &ev, &w->timer) == 0;
    if (w->armed)
        timer_settime(w->timer, 0, &its, NULL);
}

/* End the time limit of a call.  Returns whether the call was late. */
static bool watch_end(struct watch *w)
{
    /* A signal that has just been sent is handled before this returns. */
    if (w->armed)
        timer_delete(w->timer);
    return w->h->ticks > 0;
}

/* --- functions of a hook --- */

static const char current_key;

static const struct lua_job *current(lua_State *L)
{
    const struct lua_job *job;

    lua_rawgetp(L, LUA_REGISTRYINDEX, &current_key);
    job = lua_touserdata(L, -1);
    lua_pop(L, 1);
    if (!job)
        luaL_error(L, "a job can be used only while its hook runs");
    return job;
}

static const char *check_name(lua_State *L)
{
    const char *name = luaL_checkstring(L, 2);

    luaL_argcheck(L, name[0] && !strchr(name, '='), 2, "no name of a variable");
    return name;
}

static int job_getenv(lua_State *L)
{
    const struct lua_job *job = current(L);
    const char *val = job->getenv ? job->getenv(job->handle, check_name(L)) : NULL;

    lua_pushstring(L, val);
    return 1;
}

static int job_setenv(lua_State *L)
{
    const struct lua_job *job = current(L);
    const char *name = check_name(L);

    if (!job->change)
        return luaL_error(L, "it is too late to set variables");
    if (lua_isnoneornil(L, 3))
        lua_pushstring(L, name);
    else
        lua_pushfstring(L, "%s=%s", name, luaL_checkstring(L, 3));
    if (job->change(job->handle, lua_tostring(L, -1)) < 0)
        return luaL_error(L, "out of memory");
    return 0;
}

static int job_note(lua_State *L)
{
    const struct lua_job *job = current(L);

    job->note(job->handle, luaL_checkstring(L, 2));
    return 0;
}

/* The message of the plugin is the whole error message, without a position in the file. */
static int job_cancel(lua_State *L)
{
    current(L);
    lua_pushstring(L, luaL_optstring(L, 2, "a plugin refuses the job"));
    return lua_error(L);
}

static const luaL_Reg methods[] = {{"getenv", job_getenv},
                                   {"setenv", job_setenv},
                                   {"note", job_note},
                                   {"cancel", job_cancel},
                                   {NULL, NULL}};

/* --- data of a hook --- */

static void set_string(lua_State *L, const char *name, const char *val)
{
    if (!val)
        return;
    lua_pushstring(L, val);
    lua_setfield(L, -2, name);
}

static void set_integer(lua_State *L, const char *name, lua_Integer val)
{
    lua_pushinteger(L, val);
    lua_setfield(L, -2, name);
}

static void push_job(lua_State *L, const struct lua_job *job, enum lua_hook which)
{
    lua_newtable(L);
    luaL_setfuncs(L, methods, 0);
    set_integer(L, "id", (lua_Integer)job->id);
    set_string(L, "name", job->name);
    set_string(L, "node", job->node);
    set_string(L, "cwd", job->cwd);
    set_string(L, "tmpdir", job->tmpdir);
    set_string(L, "cores", job->cores);
    set_string(L, "gpus", job->gpus);
    set_integer(L, "node_id", job->node_id);
    set_integer(L, "nnodes", job->nnodes);
    set_integer(L, "ntasks", job->ntasks);
    set_integer(L, "ntasks_here", job->nlocal);
    lua_newtable(L);
    for (int i = 0; job->argv[i]; i++) {
        lua_pushstring(L, job->argv[i]);
        lua_rawseti(L, -2, i + 1);
    }
    lua_setfield(L, -2, "command");
    if (which == LUA_FINISH)
        set_integer(L, "code", job->code);
}

static void push_task(lua_State *L, const struct lua_task *t, enum lua_hook which)
{
    if (!t) {
        lua_pushnil(L);
        return;
    }
    lua_newtable(L);
    set_integer(L, "rank", t->rank);
    set_integer(L, "local_id", t->local);
    if (which != LUA_TASK_EXIT)
        return;
    if (WIFSIGNALED(t->status))
        set_integer(L, "signal", WTERMSIG(t->status));
    else
        set_integer(L, "code", WEXITSTATUS(t->status));
}

struct args {
    const struct lua_job *job;
    enum lua_hook which;
    int ref;
};

/* Called protected, since each of these operations may run out of memory. */
static int call_one(lua_State *L)
{
    struct args *a = lua_touserdata(L, 1);

    lua_rawgeti(L, LUA_REGISTRYINDEX, a->ref);
    lua_getfield(L, -1, hook_names[a->which]);
    if (lua_isnil(L, -1))
        return 0;
    push_job(L, a->job, a->which);
    push_task(L, a->job->task, a->which);
    lua_call(L, 2, 0);
    return 0;
}

static int hooks_call(void *arg, enum lua_hook which, const struct lua_job *job, char *err,
                      size_t size)
{
    struct hooks *h = arg;
    int rc = 0, failed;

    for (size_t i = 0; rc == 0 && i < h->n; i++) {
        struct args a = {job, which, h->refs[i]};
        struct watch w;

        lua_pushlightuserdata(h->L, (void *)job);
        lua_rawsetp(h->L, LUA_REGISTRYINDEX, &current_key);
        lua_pushcfunction(h->L, call_one);
        lua_pushlightuserdata(h->L, &a);
        watch_begin(&w, h, h->names[i], hook_names[which]);
        if ((failed = sandbox_call(h->sb, 1, 0)) != LUA_OK) {
            snprintf(err, size, "plugin %s, %s: %s", h->names[i], hook_names[which],
                     sandbox_error(h->sb, failed));
            rc = -1;
        }
        if (watch_end(&w) && rc < 0)
            rc = LUA_HOOKS_LATE;
        lua_settop(h->L, 0);
        lua_pushnil(h->L);
        lua_rawsetp(h->L, LUA_REGISTRYINDEX, &current_key);
    }
    return rc;
}

/* --- reading files --- */

/* Called protected; argument and result: a chunk.  Its globals become a table of their own, which
 * falls back to the common globals. */
static int own_globals(lua_State *L)
{
    lua_newtable(L);
    lua_newtable(L);
    lua_pushglobaltable(L);
    lua_setfield(L, -2, "__index");
    lua_setmetatable(L, -2);
    lua_setupvalue(L, -2, 1);
    return 1;
}

/* Run a file.  The table that it returned, or the reason of a failure, is on top of the stack. */
static int run_file(struct hooks *h, const char *path, const char *name)
{
    char chunk[4100], *text;
    struct watch w;
    size_t len;
    int rc;

    if (file_read_all(path, FILE_MAX_BYTES, &text, &len) < 0) {
        lua_pushnil(h->L);
        return LUA_ERRFILE;
    }
    watch_begin(&w, h, name, "being read");
    snprintf(chunk, sizeof(chunk), "@%s", path);
    if ((rc = sandbox_load(h->sb, text, len, chunk)) == LUA_OK) {
        lua_pushcfunction(h->L, own_globals);
        lua_insert(h->L, -2);
        if ((rc = sandbox_call(h->sb, 1, 1)) == LUA_OK)
            rc = sandbox_call(h->sb, 0, 1);
    }
    watch_end(&w);
    free(text);
    return rc;
}

static int load_file(struct hooks *h, const char *path, const char *name, char *err, size_t size)
{
    lua_State *L = h->L;
    int rc = run_file(h, path, name);

    if (rc == LUA_OK && lua_istable(L, -1)) {
        h->names[h->n] = strdup(name);
        h->refs[h->n] = luaL_ref(L, LUA_REGISTRYINDEX);
        if (h->names[h->n++])
            return 0;
        snprintf(err, size, "no memory for plugins");
        return -1;
    }
    snprintf(err, size, "plugin %s: %s", path,
             rc == LUA_OK        ? "it has to return a table of hooks"
             : rc == LUA_ERRFILE ? strerror(errno)
                                 : sandbox_error(h->sb, rc));
    lua_settop(L, 0);
    return -1;
}

static int is_plugin(const struct dirent *de)
{
    const char *dot = strrchr(de->d_name, '.');

    return de->d_name[0] != '.' && dot && strcmp(dot, ".lua") == 0;
}

static int load_dir(struct hooks *h, const char *dir, size_t len, char *err, size_t size)
{
    char path[4096];
    struct dirent **v;
    errmsg_t why;
    int n, rc = 0;

    snprintf(path, sizeof(path), "%.*s", (int)len, dir);
    n = scandir(path, &v, is_plugin, alphasort);
    for (int i = 0; i < n; i++) {
        if (rc == 0 && h->n >= FILES_MAX) {
            snprintf(err, size, "more than %d plugins", FILES_MAX);
            rc = -1;
        }
        if (rc == 0) {
            snprintf(path, sizeof(path), "%.*s/%s", (int)len, dir, v[i]->d_name);
            if (!file_is_trusted(path, &why)) {
                snprintf(err, size, "plugin %s", why.text);
                rc = -1;
            } else {
                rc = load_file(h, path, v[i]->d_name, err, size);
            }
        }
        free(v[i]);
    }
    if (n >= 0)
        free(v);
    return rc;
}

static void hooks_destroy(void *arg)
{
    struct hooks *h = arg;
    struct watch w;

    if (!h)
        return;
    if (h->sb) {
        /* Files that plugins left open are closed now. */
        h->closing = 1;
        watch_begin(&w, h, "(some)", "being unloaded");
        sandbox_destroy(h->sb);
        watch_end(&w);
    }
    for (size_t i = 0; h->names && i < h->n; i++)
        free(h->names[i]);
    free(h->names);
    free(h->refs);
    free(h);
}

static void *hooks_create(const char *path, double seconds, char *err, size_t size)
{
    struct sandbox_limits limits = {.memory = MEMORY, .steps = INSTRUCTIONS, .seconds = seconds};
    struct sigaction sa = {.sa_sigaction = late, .sa_flags = SA_SIGINFO};
    struct hooks *h = calloc(1, sizeof(*h));

    snprintf(err, size, "no memory for plugins");
    if (!h)
        return NULL;
    /* The handler stays for the life of the process, since other threads have timers too. */
    sigemptyset(&sa.sa_mask);
    sigaction(SIGALRM, &sa, NULL);
    h->seconds = seconds;
    h->names = calloc(FILES_MAX, sizeof(*h->names));
    h->refs = calloc(FILES_MAX, sizeof(*h->refs));
    h->sb = sandbox_create(&limits, SANDBOX_HOOKS);
    if (!h->names || !h->refs || !h->sb)
        goto fail;
    h->L = sandbox_lua(h->sb);
    while (path && *path) {
        size_t len = strcspn(path, ":");

        if (len && load_dir(h, path, len, err, size) < 0)
            goto fail;
        path += len + (path[len] == ':');
    }
    return h;
fail:
    hooks_destroy(h);
    return NULL;
}

extern const struct lua_hooks flux_launcher_lua_hooks;
const struct lua_hooks flux_launcher_lua_hooks = {LUA_HOOKS_ABI, hooks_create, hooks_destroy,
                                                  hooks_call};

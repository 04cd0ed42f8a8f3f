/* sched_lua.c - policies in Lua.
 *
 * A file is read once to find its fields (sched_lua_load), and once more, into an interpreter of
 * its own, for each use as a queue policy or a node policy (`create` of the tables).
 *
 * Both interpreters are sandboxes (libsandbox/sandbox.h, SANDBOX_PURE) with the additional global
 * `policy`: no files, no environment, no other code, no random numbers, no clock.
 *
 * Failure: priority, admit and score return -1 to the scheduler, which then uses its built-in
 * behavior.  An error in started or ended is ignored.  Error texts of Lua are dropped; a text that
 * admit returns is shown as the reason why the job waits.
 */
#include "config.h"
#include <errno.h>
#include <lauxlib.h>
#include <lua.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libsandbox/sandbox.h"
#include "libutil/fdutil.h"
#include "libutil/strutil.h"
#include "sched.h"
#include "sched_lua.h"

#define FILE_MAX_BYTES (256u * 1024)
#define DEPTH_MAX 10000

enum { F_NAME, F_BACKFILL, F_DEPTH, F_REORDER, F_PRIORITY, F_ADMIT, F_STARTED, F_ENDED, F_SCORE };
#define NFIELDS (F_SCORE + 1)

/* Their addresses are also the keys of the values in the registry. */
static const struct field {
    const char *name;
    int type;
    bool queue; /* makes the file a queue policy */
} fields[NFIELDS] = {
    [F_NAME] = {"name", LUA_TSTRING, false},
    [F_BACKFILL] = {"backfill", LUA_TSTRING, true},
    [F_DEPTH] = {"depth", LUA_TNUMBER, true},
    [F_REORDER] = {"reorder", LUA_TNUMBER, true},
    [F_PRIORITY] = {"priority", LUA_TFUNCTION, true},
    [F_ADMIT] = {"admit", LUA_TFUNCTION, true},
    [F_STARTED] = {"started", LUA_TFUNCTION, true},
    [F_ENDED] = {"ended", LUA_TFUNCTION, true},
    [F_SCORE] = {"score", LUA_TFUNCTION, false},
};

static const struct sandbox_limits limits = {
    .memory = SCHED_LUA_BYTES, .steps = SCHED_LUA_STEPS, .seconds = SCHED_LUA_SECONDS};

struct interp {
    sandbox_t *sb;
    lua_State *L; /* of `sb` */
    bool has[NFIELDS];
    double reorder;
    uint32_t depth; /* number of reservations; 0: no job passes the first one */
    char name[64];
    char why[128]; /* the reason that admit returned */
};

struct sched_lua {
    char name[64];
    struct sched_queue_policy queue;
    struct sched_node_policy node;
    struct sched_policy policy;
};

static const char policy_key = 'p'; /* registry: the table given to policy() */

/* --- the file --- */

static int policy_call(lua_State *L)
{
    if (lua_gettop(L) != 1 || lua_type(L, 1) != LUA_TTABLE)
        return luaL_error(L, "policy is called with one table: policy { ... }");
    if (lua_rawgetp(L, LUA_REGISTRYINDEX, &policy_key) != LUA_TNIL)
        return luaL_error(L, "policy is called twice");
    lua_pushvalue(L, 1);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &policy_key);
    return 0;
}

static int set_policy_function(lua_State *L)
{
    lua_pushcfunction(L, policy_call);
    lua_setglobal(L, "policy");
    return 0;
}

static void interp_destroy(void *arg)
{
    struct interp *in = arg;

    if (in)
        sandbox_destroy(in->sb);
    free(in);
}

static int failed(struct interp *in, const char *path, int rc, errmsg_t *err)
{
    errmsg_set(err, "policy %s: %s", path, sandbox_error(in->sb, rc));
    lua_settop(in->L, 0);
    errno = EINVAL;
    return -1;
}

static uint32_t depth_of(lua_State *L, const char *word, double depth)
{
    if (!(depth >= 1. && depth <= DEPTH_MAX))
        luaL_error(L, "policy.depth is 1 to %d", DEPTH_MAX);
    if (strcmp(word, "conservative") == 0)
        return (uint32_t)depth;
    if (strcmp(word, "easy") == 0)
        return 1;
    if (strcmp(word, "none") != 0)
        luaL_error(L, "policy.backfill is \"none\", \"easy\" or \"conservative\"");
    return 0;
}

static size_t field_number(lua_State *L, const char *key)
{
    size_t i = 0;

    while (i < NFIELDS && !(key && strcmp(fields[i].name, key) == 0))
        i++;
    if (i == NFIELDS)
        luaL_error(L, "policy has no field \"%s\"", key ? key : "(without a name)");
    return i;
}

/* Runs protected; argument: the struct interp.  Takes all values that are needed later out of the
 * table, so that no memory is allocated where an error could not be caught. */
static int extract(lua_State *L)
{
    struct interp *in = lua_touserdata(L, 1);
    const char *word = "easy";
    double depth = SCHED_DEPTH_DEFAULT;

    if (lua_rawgetp(L, LUA_REGISTRYINDEX, &policy_key) != LUA_TTABLE)
        return luaL_error(L, "it does not call policy { ... }");
    for (lua_pushnil(L); lua_next(L, 2); lua_pop(L, 1)) {
        size_t i = field_number(L, lua_type(L, 3) == LUA_TSTRING ? lua_tostring(L, 3) : NULL);

        if (lua_type(L, 4) != fields[i].type)
            return luaL_error(L, "policy.%s must be a %s", fields[i].name,
                              lua_typename(L, fields[i].type));
        in->has[i] = true;
        if (i == F_NAME)
            snprintf(in->name, sizeof(in->name), "%s", lua_tostring(L, 4));
        else if (i == F_BACKFILL)
            word = lua_tostring(L, 4);
        else if (i == F_DEPTH)
            depth = lua_tonumber(L, 4);
        else if (i == F_REORDER)
            in->reorder = lua_tonumber(L, 4);
        lua_pushvalue(L, 4);
        lua_rawsetp(L, LUA_REGISTRYINDEX, &fields[i]);
    }
    in->depth = depth_of(L, word, depth);
    return 0;
}

static int evaluate(struct interp *in, const char *path, const char *text, size_t len,
                    errmsg_t *err)
{
    char chunk[256];
    int rc;

    lua_pushcfunction(in->L, set_policy_function);
    snprintf(chunk, sizeof(chunk), "@%s", path);
    if ((rc = sandbox_call(in->sb, 0, 0)) != LUA_OK ||
        (rc = sandbox_load(in->sb, text, len, chunk)) != LUA_OK ||
        (rc = sandbox_call(in->sb, 0, 0)) != LUA_OK)
        return failed(in, path, rc, err);
    lua_pushcfunction(in->L, extract);
    lua_pushlightuserdata(in->L, in);
    if ((rc = sandbox_call(in->sb, 1, 0)) != LUA_OK)
        return failed(in, path, rc, err);
    lua_settop(in->L, 0);
    return 0;
}

static struct interp *interp_create(const char *path, errmsg_t *err)
{
    struct interp *in = calloc(1, sizeof(*in));
    char *text = NULL;
    size_t len = 0;

    if (!in || !(in->sb = sandbox_create(&limits, SANDBOX_PURE))) {
        interp_destroy(in);
        errmsg_fail(err, ENOMEM, "out of memory for policy %s", path);
        return NULL;
    }
    in->L = sandbox_lua(in->sb);
    if (file_read_all(path, FILE_MAX_BYTES, &text, &len) < 0)
        errmsg_fail(err, errno, "policy %s cannot be read: %s", path, strerror(errno));
    else if (evaluate(in, path, text, len, err) == 0) {
        free(text);
        return in;
    }
    int saved = errno;
    free(text);
    interp_destroy(in);
    errno = saved;
    return NULL;
}

/* --- calling it --- */

struct call {
    int function; /* F_... */
    const struct sched_plugin_job *job;
    const struct sched_plugin_node *node;
    double now;
};

static void set_number(lua_State *L, const char *name, double value)
{
    lua_pushnumber(L, value);
    lua_setfield(L, -2, name);
}

static void set_integer(lua_State *L, const char *name, uint64_t value)
{
    lua_pushinteger(L, (lua_Integer)value);
    lua_setfield(L, -2, name);
}

static void push_job(lua_State *L, const struct sched_plugin_job *job)
{
    lua_createtable(L, 0, 12);
    set_integer(L, "id", job->id);
    set_integer(L, "uid", job->uid);
    set_integer(L, "urgency", job->urgency);
    set_number(L, "t_submit", job->t_submit);
    set_number(L, "duration", job->duration);
    set_integer(L, "nnodes", job->nnodes);
    set_integer(L, "nslots", job->nslots);
    set_integer(L, "cores", job->cores);
    set_integer(L, "gpus", job->gpus);
    set_integer(L, "memory", job->memory);
    set_integer(L, "ncores", job->ncores);
    lua_pushboolean(L, job->exclusive);
    lua_setfield(L, -2, "exclusive");
}

static void push_node(lua_State *L, const struct sched_plugin_node *node)
{
    lua_createtable(L, 0, 8);
    set_integer(L, "rank", node->rank);
    lua_pushstring(L, node->host);
    lua_setfield(L, -2, "host");
    set_integer(L, "cores", node->cores);
    set_integer(L, "cores_free", node->cores_free);
    set_integer(L, "gpus", node->gpus);
    set_integer(L, "gpus_free", node->gpus_free);
    set_integer(L, "memory", node->memory);
    set_integer(L, "memory_free", node->memory_free);
}

/* Runs protected; argument: the struct call.  Leaves two results. */
static int call_protected(lua_State *L)
{
    const struct call *c = lua_touserdata(L, 1);

    lua_rawgetp(L, LUA_REGISTRYINDEX, &fields[c->function]);
    push_job(L, c->job);
    if (c->node)
        push_node(L, c->node);
    else
        lua_pushnumber(L, c->now);
    lua_call(L, 2, 2);
    return 2;
}

/* Call a function.  Leaves two results on the stack, for the caller to pop; or -1. */
static int call(struct interp *in, const struct call *c)
{
    lua_pushcfunction(in->L, call_protected);
    lua_pushlightuserdata(in->L, (void *)(uintptr_t)c);
    if (sandbox_call(in->sb, 1, 2) == LUA_OK)
        return 0;
    lua_settop(in->L, 0);
    return -1;
}

static int call_number(struct interp *in, const struct call *c, double *value)
{
    int rc;

    if (call(in, c) < 0)
        return -1;
    rc = lua_type(in->L, -2) == LUA_TNUMBER ? 0 : -1;
    if (rc == 0)
        *value = lua_tonumber(in->L, -2);
    lua_settop(in->L, 0);
    return rc;
}

static void *lua_create(const char *arg, char *text, size_t size)
{
    errmsg_t err = {"it needs the path of a file"};
    struct interp *in = arg ? interp_create(arg, &err) : NULL;

    if (!in)
        snprintf(text, size, "%s", err.text);
    return in;
}

static int lua_priority(void *state, const struct sched_plugin_job *job, double now,
                        double *priority)
{
    struct call c = {F_PRIORITY, job, NULL, now};

    return call_number(state, &c, priority);
}

static enum sched_blocked lua_blocked(void *state, const struct sched_plugin_job *job,
                                      uint32_t reserved, double now)
{
    const struct interp *in = state;

    if (in->depth == 0)
        return SCHED_BLOCKED_STOP;
    return reserved < in->depth ? SCHED_BLOCKED_RESERVE : SCHED_BLOCKED_BACKFILL;
}

static int lua_admit(void *state, const struct sched_plugin_job *job, double now, const char **why)
{
    struct call c = {F_ADMIT, job, NULL, now};
    struct interp *in = state;
    int rc = -1;

    if (call(in, &c) < 0)
        return -1;
    if (lua_type(in->L, -2) == LUA_TBOOLEAN)
        rc = lua_toboolean(in->L, -2);
    if (rc == 0 && lua_type(in->L, -1) == LUA_TSTRING) {
        size_t len;
        const char *text = lua_tolstring(in->L, -1, &len);

        if (len >= sizeof(in->why))
            len = sizeof(in->why) - 1;
        len = str_utf8_span(text, len);
        memcpy(in->why, text, len);
        in->why[len] = '\0';
        *why = in->why;
    }
    lua_settop(in->L, 0);
    return rc;
}

static void lua_notify(void *state, int function, const struct sched_plugin_job *job, double now)
{
    struct call c = {function, job, NULL, now};
    struct interp *in = state;

    if (call(in, &c) == 0)
        lua_settop(in->L, 0);
}

static void lua_started(void *state, const struct sched_plugin_job *job, double now)
{
    lua_notify(state, F_STARTED, job, now);
}

static void lua_ended(void *state, const struct sched_plugin_job *job, double now)
{
    lua_notify(state, F_ENDED, job, now);
}

static int lua_score(void *state, const struct sched_plugin_job *job,
                     const struct sched_plugin_node *node, double *score)
{
    struct call c = {F_SCORE, job, node, 0.};

    return call_number(state, &c, score);
}

/* --- the tables --- */

/* The name of the file, unless `name` is given. */
static void find_name(const struct interp *in, const char *path, char *name, size_t size)
{
    const char *base = strrchr(path, '/');

    base = in->name[0] ? in->name : base ? base + 1 : path;
    snprintf(name, size, "%.*s", (int)strcspn(base, "./: \t\n"), base);
}

sched_lua_t *sched_lua_load(const char *path, errmsg_t *err)
{
    struct interp *in = interp_create(path, err);
    sched_lua_t *l = in ? calloc(1, sizeof(*l)) : NULL;
    bool queue = false;

    if (!l) {
        if (in)
            errmsg_fail(err, ENOMEM, "out of memory for policy %s", path);
        interp_destroy(in);
        return NULL;
    }
    for (size_t i = 0; i < NFIELDS; i++)
        queue |= fields[i].queue && in->has[i];
    find_name(in, path, l->name, sizeof(l->name));
    l->queue = (struct sched_queue_policy){
        .create = lua_create,
        .destroy = interp_destroy,
        .priority = in->has[F_PRIORITY] ? lua_priority : NULL,
        .reorder = in->has[F_PRIORITY] ? in->reorder : 0.,
        .blocked = lua_blocked,
        .admit = in->has[F_ADMIT] ? lua_admit : NULL,
        .started = in->has[F_STARTED] ? lua_started : NULL,
        .ended = in->has[F_ENDED] ? lua_ended : NULL,
    };
    l->node = (struct sched_node_policy){
        .create = lua_create,
        .destroy = interp_destroy,
        .order = SCHED_NODES_BY_SCORE,
        .score = lua_score,
    };
    l->policy = (struct sched_policy){
        .abi = SCHED_PLUGIN_ABI,
        .name = l->name,
        .queue = queue ? &l->queue : NULL,
        .node = in->has[F_SCORE] ? &l->node : NULL,
    };
    interp_destroy(in);
    if (!l->policy.queue && !l->policy.node) {
        sched_lua_destroy(l);
        errmsg_fail(err, EINVAL, "policy %s: it has no function that decides anything", path);
        return NULL;
    }
    return l;
}

void sched_lua_destroy(sched_lua_t *l)
{
    int saved = errno;

    free(l);
    errno = saved;
}

const struct sched_policy *sched_lua_policy(const sched_lua_t *l)
{
    return &l->policy;
}

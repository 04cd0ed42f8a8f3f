/* sched_load.c - find a policy by name, and load its file.
 *
 * Failure: an error message that names the policy or its file and the error.  Nothing stays loaded.
 */
#include "config.h"
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "libutil/filetrust.h"
#include "libutil/nearest.h"
#include "libutil/strutil.h"
#include "sched.h"
#include "sched_load.h"
#include "sched_lua.h"

struct sched_loaded {
    char *spec;
    char *name; /* the spec without its argument */
    char *file;
    char *arg;
    void *dso;
    sched_lua_t *lua;
    const struct sched_policy *policy;
};

void sched_load_destroy(sched_loaded_t *l)
{
    int saved = errno;

    if (l) {
        sched_lua_destroy(l->lua);
        if (l->dso)
            dlclose(l->dso);
        free(l->spec);
        free(l->name);
        free(l->file);
        free(l->arg);
        free(l);
    }
    errno = saved;
}

/* A ':' behind the last '/' begins the argument. */
static int split(sched_loaded_t *l)
{
    const char *base = strrchr(l->spec, '/');
    const char *colon = strchr(base ? base : l->spec, ':');

    l->name = colon ? strndup(l->spec, (size_t)(colon - l->spec)) : strdup(l->spec);
    if (!l->name || (colon && !(l->arg = strdup(colon + 1)))) {
        errno = ENOMEM;
        return -1;
    }
    return 0;
}

/* DIR/PREFIX NAME SUFFIX, if it can be read. */
static char *in_dir(const char *dir, size_t len, const char *prefix, const char *name,
                    const char *suffix)
{
    char *path = NULL;

    if (len == 0 || asprintf(&path, "%.*s/%s%s%s", (int)len, dir, prefix, name, suffix) < 0)
        return NULL;
    if (access(path, R_OK) == 0)
        return path;
    free(path);
    return NULL;
}

static char *look_for(const char *name, const char *dirs,
                      char *(*modules)(const char *, errmsg_t *))
{
    char *path = NULL;
    char *module;

    for (const char *d = dirs ? dirs : ""; *d && !path;) {
        size_t len = strcspn(d, ":");

        if (!(path = in_dir(d, len, "policy-", name, ".so")))
            path = in_dir(d, len, "", name, ".lua");
        d += len + (d[len] == ':');
    }
    if (!path && modules && asprintf(&module, "policy-%s", name) >= 0) {
        path = modules(module, NULL);
        free(module);
    }
    return path;
}

static int load_object(sched_loaded_t *l, errmsg_t *err)
{
    if (!(l->dso = dlopen(l->file, RTLD_NOW | RTLD_LOCAL)))
        return errmsg_fail(err, EINVAL, "policy %s cannot be loaded: %s", l->name, dlerror());
    l->policy = dlsym(l->dso, "sched_policy");
    if (!l->policy)
        return errmsg_fail(err, EINVAL, "%s is not a policy: it does not export sched_policy",
                           l->file);
    if (l->policy->abi != SCHED_PLUGIN_ABI || !l->policy->name)
        return errmsg_fail(err, EINVAL,
                           "%s was built for version %d of the interface of policies, not %d",
                           l->file, l->policy->abi, SCHED_PLUGIN_ABI);
    return 0;
}

/* The error message for an unknown policy: lists the built-in policies for this purpose, and the
 * most similar names. */
static int not_found(const char *name, enum sched_purpose purpose, errmsg_t *err)
{
    char builtin[160] = "", words[120];
    const struct sched_policy *p;
    struct nearest near;
    size_t len = 0;

    nearest_init(&near, name);
    for (size_t i = 0; (p = sched_builtin_at(i)); i++) {
        if (purpose == SCHED_FOR_QUEUE ? !p->queue : !p->node)
            continue;
        nearest_feed(&near, p->name);
        if (len < sizeof(builtin))
            len += (size_t)snprintf(builtin + len, sizeof(builtin) - len, "%s%s", len ? ", " : "",
                                    p->name);
    }
    return errmsg_fail(err, ENOENT,
                       "no policy %.60s%s (built in: %s; policy-%.60s.so is neither in "
                       "sched.plugin-path nor with the modules)",
                       name, nearest_words(&near, words, sizeof(words)), builtin, name);
}

static int load(sched_loaded_t *l, enum sched_purpose purpose, const char *dirs,
                char *(*modules)(const char *, errmsg_t *), errmsg_t *err)
{
    bool path = strchr(l->name, '/') != NULL;
    errmsg_t why;

    if (!path && (l->policy = sched_builtin(l->name)))
        return 0;
    l->file = path ? strdup(l->name) : look_for(l->name, dirs, modules);
    if (!l->file)
        return not_found(l->name, purpose, err);
    if (access(l->file, R_OK) < 0)
        return errmsg_fail(err, ENOENT, "policy %s cannot be read: %s", l->file, strerror(errno));
    if (!file_is_trusted(l->file, &why))
        return errmsg_fail(err, errno, "policy %s", why.text);
    if (!str_ends(l->file, ".lua"))
        return load_object(l, err);
    if (!(l->lua = sched_lua_load(l->file, err)))
        return -1;
    l->policy = sched_lua_policy(l->lua);
    /* A policy in Lua gets its path as the argument. */
    free(l->arg);
    return (l->arg = strdup(l->file)) ? 0 : errmsg_fail(err, ENOMEM, "out of memory");
}

sched_loaded_t *sched_load(const char *spec, enum sched_purpose purpose, const char *dirs,
                           char *(*modules)(const char *name, errmsg_t *err), errmsg_t *err)
{
    sched_loaded_t *l = calloc(1, sizeof(*l));

    if (!l || !(l->spec = strdup(spec)) || split(l) < 0) {
        sched_load_destroy(l);
        errmsg_fail(err, ENOMEM, "out of memory for policy %s", spec);
        return NULL;
    }
    if (load(l, purpose, dirs, modules, err) < 0) {
        sched_load_destroy(l);
        return NULL;
    }
    return l;
}

const struct sched_policy *sched_loaded_policy(const sched_loaded_t *l)
{
    return l->policy;
}

const char *sched_loaded_arg(const sched_loaded_t *l)
{
    return l->arg;
}

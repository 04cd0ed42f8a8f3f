/* paths.c - where the parts of Flux are installed.
 *
 * The directory of the running program is compared with the directories given to configure:
 *
 *    the program is in                            then the tree is
 *    .../bin or .../libexec/flux as installed     that installation, moved or not: its root stands
 *                                                 for the common prefix of configured directories
 *    a directory at most 5 levels below one       that build tree
 *    with config.status and src/broker
 *    anywhere else                                the installation that was configured
 *
 * Invariants:
 *  1. No state is kept: a query is cheap (one readlink, a few calls of access) and rare.
 *  2. A name with '/' is a path or is refused; it never leads to another directory.
 *
 * Failure: NULL with errno and an error message that names the places searched.
 */
#include "config.h"
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "libutil/strbuf.h"
#include "libutil/strutil.h"
#include "paths.h"

/* The parts of an installation; configured values come from the Makefile. */
enum part {
    PART_BIN,
    PART_EXEC,
    PART_MODULES,
    PART_PMI,
    PART_MAN,
    PART_LUA,
    PART_PYTHON,
    PART_COUNT
};

static const char *const configured[PART_COUNT] = {
    [PART_BIN] = PATHS_BINDIR,         [PART_EXEC] = PATHS_EXECDIR,
    [PART_MODULES] = PATHS_MODULEDIR,  [PART_PMI] = PATHS_PMIDIR,
    [PART_MAN] = PATHS_MANDIR "/man1", [PART_LUA] = PATHS_LUADIR,
    [PART_PYTHON] = PATHS_PYTHONDIR,
};

/* The same within a build tree.  libtool keeps modules in .libs beside their sources. */
static const char *const built[PART_COUNT] = {
    [PART_BIN] = "src/cmd",
    [PART_EXEC] = "src/broker:src/cmd:src/launcher:src/modules:src/pmixd",
    [PART_MODULES] = "src/modules/.libs",
    [PART_PMI] = "src/common/libpmi/.libs",
    [PART_MAN] = "doc/man",
    [PART_LUA] = "src/bindings/lua/.libs",
    [PART_PYTHON] = "src/bindings/python/lib",
};

#define BUILD_LEVELS 5

/* Length of the common prefix of all configured directories, in whole components, without the last
 * '/'.  The Lua module and the Python package may be anywhere (--with-lua-cmoddir,
 * --with-python-dir), so they do not count. */
static size_t common_prefix(void)
{
    size_t len = 0;

    for (size_t i = 0; configured[0][i]; i++) {
        char c = configured[0][i];
        for (int part = 1; part < PART_LUA; part++) {
            if (configured[part][i] != c)
                return len;
        }
        if (c == '/')
            len = i;
    }
    return len;
}

/* If `dir` is an installation's directory `part`, shorten it to the installation's root. */
static bool cut_installed(char *dir, enum part part, size_t common)
{
    const char *tail = configured[part] + common;

    if (!*tail || !str_ends(dir, tail))
        return false;
    dir[strlen(dir) - strlen(tail)] = '\0';
    return true;
}

static bool is_build_tree(const char *dir)
{
    char path[PATH_MAX + 16];

    snprintf(path, sizeof(path), "%s/config.status", dir);
    if (access(path, F_OK) < 0)
        return false;
    snprintf(path, sizeof(path), "%s/src/broker", dir);
    return access(path, F_OK) == 0;
}

/* Find the root, and copy it to `root` (PATH_MAX bytes).  True if it is a build tree. */
static bool find_root(char *root, size_t common)
{
    char dir[PATH_MAX];
    char *slash;
    ssize_t n = readlink("/proc/self/exe", dir, sizeof(dir) - 1);

    if (n > 0) {
        dir[n] = '\0';
        if ((slash = strrchr(dir, '/')))
            *slash = '\0';
        strcpy(root, dir);
        if (cut_installed(root, PART_BIN, common) || cut_installed(root, PART_EXEC, common)) {
            char probe[PATH_MAX + 256];
            snprintf(probe, sizeof(probe), "%s%s", root, configured[PART_EXEC] + common);
            if (access(probe, F_OK) == 0)
                return false;
        }
        for (int level = 0; level < BUILD_LEVELS; level++) {
            if (is_build_tree(dir)) {
                strcpy(root, dir);
                return true;
            }
            if (!(slash = strrchr(dir, '/')) || slash == dir)
                break;
            *slash = '\0';
        }
    }
    snprintf(root, PATH_MAX, "%.*s", (int)common, configured[PART_BIN]);
    return false;
}

/* The directories of a part, separated by ':'.  NULL with ENOMEM. */
static char *part_dirs(enum part part, const char *env)
{
    const char *first = env ? getenv(env) : NULL;
    size_t common = common_prefix();
    strbuf_t *sb = strbuf_create(0);
    char root[PATH_MAX];

    if (first && *first) {
        strbuf_add(sb, first);
        strbuf_addc(sb, ':');
    }
    if (find_root(root, common)) {
        const char *p = built[part];
        for (;;) {
            size_t n = strcspn(p, ":");
            strbuf_addf(sb, "%s/%.*s", root, (int)n, p);
            if (!p[n])
                break;
            strbuf_addc(sb, ':');
            p += n + 1;
        }
    } else if (strncmp(configured[part], configured[PART_BIN], common) != 0)
        strbuf_add(sb, configured[part]);
    else
        strbuf_addf(sb, "%s%s", root, configured[part] + common);
    return strbuf_take(sb);
}

/* Try DIR/NAME SUFFIX, and for modules of a build tree also DIR/../NAME/.libs/NAME.so. */
static char *try_file(const char *dir, size_t dirlen, const char *name, const char *suffix,
                      int mode)
{
    char *path;

    if (dirlen == 0)
        return NULL;
    if (asprintf(&path, "%.*s/%s%s", (int)dirlen, dir, name, suffix) < 0)
        return NULL;
    if (access(path, mode) == 0)
        return path;
    free(path);
    return NULL;
}

static char *find_file(char *dirs, const char *name, const char *suffix, int mode, errmsg_t *err)
{
    char *path = NULL;

    if (!dirs) {
        errmsg_fail(err, ENOMEM, "out of memory");
        return NULL;
    }
    for (const char *p = dirs; !path;) {
        size_t n = strcspn(p, ":");

        path = try_file(p, n, name, suffix, mode);
        if (!path && n > 6 && strncmp(p + n - 6, "/.libs", 6) == 0) {
            char sub[NAME_MAX * 2];
            snprintf(sub, sizeof(sub), "%s/.libs/%s", name, name);
            path = try_file(p, n - 6, sub, suffix, mode);
        }
        if (!p[n])
            break;
        p += n + 1;
    }
    if (!path)
        errmsg_fail(err, ENOENT, "%s%s is not in %s", name, suffix, dirs);
    free(dirs);
    if (!path)
        errno = ENOENT;
    return path;
}

static bool name_valid(const char *name, errmsg_t *err)
{
    if (*name && *name != '.' && !strchr(name, '/') && strlen(name) < NAME_MAX / 2)
        return true;
    errmsg_fail(err, EINVAL, "'%.64s' is not a valid name of a program or module", name);
    return false;
}

char *flux_path_exec(const char *name, errmsg_t *err)
{
    if (!name_valid(name, err))
        return NULL;
    /* The program for users is not in the directory of its helpers. */
    if (strcmp(name, "flux") == 0)
        return find_file(part_dirs(PART_BIN, NULL), name, "", X_OK, err);
    return find_file(part_dirs(PART_EXEC, "FLUX_EXEC_PATH"), name, "", X_OK, err);
}

char *flux_path_module(const char *name, errmsg_t *err)
{
    if (strchr(name, '/')) {
        char *path;
        if (access(name, R_OK) < 0) {
            errmsg_fail(err, errno, "%s: %s", name, strerror(errno));
            return NULL;
        }
        if (!(path = strdup(name)))
            errmsg_set(err, "out of memory");
        return path;
    }
    if (!name_valid(name, err))
        return NULL;
    return find_file(part_dirs(PART_MODULES, "FLUX_MODULE_PATH"), name, ".so", R_OK, err);
}

char *flux_path_libpmi(errmsg_t *err)
{
    return find_file(part_dirs(PART_PMI, NULL), "libpmi", ".so", R_OK, err);
}

char *flux_path_man(const char *name, errmsg_t *err)
{
    if (!name_valid(name, err))
        return NULL;
    return find_file(part_dirs(PART_MAN, NULL), name, ".1", R_OK, err);
}

char *flux_path_bindir(void)
{
    return part_dirs(PART_BIN, NULL);
}

/* Make "NAME=ENTRY", followed by `sep` and the present value, or by `without` if that is empty.
 * The value is unchanged if the entry comes first already, as in a nested session.  `entry` is
 * taken over; NULL gives NULL with ENOMEM. */
static char *in_front(const char *name, char *entry, char sep, const char *without)
{
    const char *old = getenv(name);
    const char *rest = old && *old ? old : without;
    size_t len = entry ? strlen(entry) : 0;
    strbuf_t *sb;

    if (!entry) {
        errno = ENOMEM;
        return NULL;
    }
    sb = strbuf_create(0);
    strbuf_addf(sb, "%s=", name);
    if (!old || strncmp(old, entry, len) != 0 || (old[len] && old[len] != sep)) {
        strbuf_add(sb, entry);
        if (*rest)
            strbuf_addc(sb, sep);
    }
    strbuf_add(sb, rest);
    free(entry);
    return strbuf_take(sb);
}

char *flux_path_lua_env(void)
{
    char *dir = part_dirs(PART_LUA, NULL);
    char *entry = NULL;

    if (dir && asprintf(&entry, "%s/?.so", dir) < 0)
        entry = NULL;
    free(dir);
    /* ";;" stands for Lua's default path. */
    return in_front(getenv("LUA_CPATH_5_3") ? "LUA_CPATH_5_3" : "LUA_CPATH", entry, ';', ";");
}

char *flux_path_python_env(void)
{
    return in_front("PYTHONPATH", part_dirs(PART_PYTHON, NULL), ':', "");
}

/* cmd_env.c - flux env: the environment that programs of a session need.
 *
 *    PATH        has the directory of this flux in front
 *    FLUX_URI    as in flux's own environment, if it is set there
 *    LUA_CPATH   has the directory of the Lua module `flux` in front; LUA_CPATH_5_3, if that is set
 *    PYTHONPATH  has the directory of the Python package `flux` in front
 *
 * Modules, helper programs and libraries are found from where flux is, so nothing else is needed.
 */
#include "config.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd_all.h"
#include "libflux/paths.h"
#include "libsubprocess/spawn.h"

static const struct cmd_usage usage = {
    "[COMMAND [ARGUMENT...]]",
    "Print the environment variables by which programs find flux and the session, in a form that "
    "a\n"
    "shell can evaluate: eval \"$(flux env)\". With COMMAND, run it with these variables set.",
    NULL,
    "Exit code with COMMAND: that of COMMAND; 127 when it is not found, 126 when it cannot be\n"
    "executed.",
    CMD_STOP,
};

/* A word that any Bourne shell reads back as it is. */
static void print_quoted(const char *name, int len, const char *s)
{
    printf("export %.*s='", len, name);
    for (; *s; s++) {
        if (*s == '\'')
            fputs("'\\''", stdout);
        else
            putchar(*s);
    }
    puts("'");
}

/* PATH with `dir` in front, or as it is when `dir` comes first already.  NULL with ENOMEM. */
static char *make_path(const char *dir)
{
    const char *old = getenv("PATH");
    size_t len = strlen(dir);
    char *path;

    if (!old || !*old)
        return strdup(dir);
    if (strncmp(old, dir, len) == 0 && (old[len] == ':' || !old[len]))
        return strdup(old);
    return asprintf(&path, "%s:%s", dir, old) < 0 ? NULL : path;
}

/* Put NAME=VALUE into the environment.  -1 with ENOMEM. */
static int set_variable(const char *var)
{
    const char *eq = strchr(var, '=');
    char *name = strndup(var, (size_t)(eq - var));
    int rc = name ? setenv(name, eq + 1, 1) : -1;

    free(name);
    return rc;
}

static void print_variable(const char *var)
{
    const char *eq = strchr(var, '=');

    print_quoted(var, (int)(eq - var), eq + 1);
}

int cmd_env(struct cmd *c, int argc, char **argv)
{
    const char *uri = getenv("FLUX_URI");
    int key = cmd_option(c, &usage, argc, argv, NULL);
    char *dir;
    char *path, *lua, *python;
    int rc = CMD_OK;

    if (key < 0)
        return cmd_option_exit(key);
    dir = flux_path_bindir();
    path = dir ? make_path(dir) : NULL;
    lua = flux_path_lua_env();
    python = flux_path_python_env();
    free(dir);
    if (!path || !lua || !python) {
        rc = cmd_error(c, "out of memory");
    } else if (c->optind == argc) {
        print_quoted("PATH", 4, path);
        if (uri)
            print_quoted("FLUX_URI", 8, uri);
        print_variable(lua);
        print_variable(python);
    } else if (setenv("PATH", path, 1) < 0 || set_variable(lua) < 0 || set_variable(python) < 0)
        rc = cmd_error(c, "out of memory");
    else {
        execvp(argv[c->optind], argv + c->optind);
        rc = spawn_errno_to_code(errno);
        cmd_error(c, "cannot run %s: %s", argv[c->optind], strerror(errno));
    }
    free(path);
    free(lua);
    free(python);
    return rc;
}

/* Where the parts of Flux are, in an installed tree and in a build tree.
 *
 * The location of the running program (/proc/self/exe) decides, so an installation may be moved as
 * a whole, and a build tree needs no environment.  FLUX_EXEC_PATH and FLUX_MODULE_PATH, lists of
 * directories separated by ':', are searched first.
 *
 * Thread rules: any thread, while no thread changes the environment.
 */
#ifndef FLUX_PATHS_H
#define FLUX_PATHS_H

#include "libutil/errmsg.h"

/* Full path of the program `name` ("flux", "flux-broker") or the module `name` ("kvs"; a name with
 * a '/' is already a path), malloc'd.  NULL with ENOENT, EINVAL (not a possible name of a file) or
 * ENOMEM, and an error message in `err`, which may be NULL. */
char *flux_path_exec(const char *name, errmsg_t *err);
char *flux_path_module(const char *name, errmsg_t *err);

/* libpmi.so for MPI libraries that load one; malloc'd, NULL as above. */
char *flux_path_libpmi(errmsg_t *err);

/* The file of the manual page `name` of section 1 ("flux-kvs"); malloc'd, NULL as above. */
char *flux_path_man(const char *name, errmsg_t *err);

/* The directory of the programs for users, malloc'd.  NULL with ENOMEM. */
char *flux_path_bindir(void);

/* The environment variable that Lua 5.3 needs to find the module `flux`, as "NAME=VALUE", malloc'd:
 * its directory, followed by the present LUA_CPATH_5_3 or, if that is not set, LUA_CPATH.  NULL
 * with ENOMEM. */
char *flux_path_lua_env(void);
/* The same for Python and its package `flux`: PYTHONPATH. */
char *flux_path_python_env(void);

#endif

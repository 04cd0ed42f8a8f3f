/* Where the parts of Flux are, in an installed tree as in a build tree.
 *
 * The place of the running program (/proc/self/exe) tells: an installation may be moved as a whole,
 * and a build tree needs no environment.  FLUX_EXEC_PATH and FLUX_MODULE_PATH, lists of directories
 * with ':' between them, are looked at first.
 *
 * Thread rules: any thread, as long as none changes the environment.
 */
#ifndef FLUX_PATHS_H
#define FLUX_PATHS_H

#include "libutil/errmsg.h"

/* Full path of the program `name` ("flux", "flux-broker") or the module `name` ("kvs"; a name with
 * a '/' is a path already), malloc'd.  NULL with ENOENT, EINVAL (no name a file could have) or
 * ENOMEM and a sentence in `err`, which may be NULL. */
char *flux_path_exec(const char *name, errmsg_t *err);
char *flux_path_module(const char *name, errmsg_t *err);

/* libpmi.so for MPI libraries that load one; malloc'd, NULL as above. */
char *flux_path_libpmi(errmsg_t *err);

/* The file of the manual page `name` of section 1 ("flux-kvs"); malloc'd, NULL as above. */
char *flux_path_man(const char *name, errmsg_t *err);

/* The directory where programs are installed for users, malloc'd.  NULL with ENOMEM. */
char *flux_path_bindir(void);

/* What Lua 5.3 needs in its environment to find the module `flux`, as "NAME=VALUE", malloc'd: its
 * directory in front of what LUA_CPATH_5_3, if that is set, or LUA_CPATH has now.  NULL with
 * ENOMEM. */
char *flux_path_lua_env(void);

#endif

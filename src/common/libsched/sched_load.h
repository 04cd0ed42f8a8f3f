/* Policies by name: built-in ones, shared objects, and Lua files.
 *
 *    easy, conservative:64, first-fit...   built-in, with an argument after ':'
 *    NAME[:ARG]                            policy-NAME.so or NAME.lua in one of the directories
 *    /path/to/file.so[:ARG], dir/file.lua  that file
 *
 * Thread rules: one thread per object; a shared object is the same for all.
 */
#ifndef SCHED_LOAD_H
#define SCHED_LOAD_H

#include "libutil/errmsg.h"
#include "sched_plugin.h"

typedef struct sched_loaded sched_loaded_t;

enum sched_purpose { SCHED_FOR_QUEUE, SCHED_FOR_NODES };

/* `purpose`: the use of the policy, for a suggestion when no policy has this name.  `dirs`:
 * directories separated by ':', or NULL; modules: a function that finds a shared object by its name
 * among the modules (malloc'd path, or NULL), or NULL.  The result has to live as long as the
 * policy is in use.  NULL with an error message and ENOENT (the message lists the places), EINVAL
 * (not a policy) or ENOMEM. */
sched_loaded_t *sched_load(const char *spec, enum sched_purpose purpose, const char *dirs,
                           char *(*modules)(const char *name, errmsg_t *err), errmsg_t *err);
void sched_load_destroy(sched_loaded_t *l); /* NULL-safe, keeps errno */

const struct sched_policy *sched_loaded_policy(const sched_loaded_t *l);
const char *sched_loaded_arg(const sched_loaded_t *l); /* NULL: none */

#endif

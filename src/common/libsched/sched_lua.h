/* Policies written in Lua (5.3).  A file calls `policy` with a table:
 *
 *    policy {
 *        name = "fair",
 *        backfill = "easy",            -- "none" (fcfs), "easy", "conservative"
 *        depth = 32,                   -- reservations of conservative backfill
 *        reorder = 30,                 -- seconds until priorities are computed again
 *        priority = function(job, now) return job.urgency * 1000 - job.ncores end,
 *        admit = function(job, now) return job.ncores < 100, "is too large for the day" end,
 *        started = function(job, now) ... end,
 *        ended = function(job, now) ... end,
 *        score = function(job, node) return node.cores_free end,       -- lowest first
 *    }
 *
 * All fields are optional.  `job` and `node` are tables with the fields of struct sched_plugin_job
 * and struct sched_plugin_node.  A file is a queue policy if it has any of the fields from backfill
 * to ended, and a node policy if it has score.
 *
 * The file is evaluated in the sandbox (libsandbox/sandbox.h): it has no access to files, the
 * environment or the clock.  Each call has at most SCHED_LUA_STEPS instructions, and the
 * interpreter SCHED_LUA_BYTES of memory.  A call that fails or returns a value of the wrong type
 * turns that function off (sched_plugin.h).
 */
#ifndef SCHED_LUA_H
#define SCHED_LUA_H

#include "libutil/errmsg.h"
#include "sched_plugin.h"

#define SCHED_LUA_STEPS 100000
#define SCHED_LUA_SECONDS 2. /* of processor time */
#define SCHED_LUA_BYTES (8u << 20)

typedef struct sched_lua sched_lua_t;

/* Read a file, and find its fields.  NULL with an error message and ENOENT, EINVAL (invalid
 * content) or ENOMEM. */
sched_lua_t *sched_lua_load(const char *path, errmsg_t *err);
void sched_lua_destroy(sched_lua_t *l); /* NULL-safe, keeps errno */
/* The tables of the policies in the file, to be used with the path as argument, while the object
 * lives. */
const struct sched_policy *sched_lua_policy(const sched_lua_t *l);

#endif

/* Policies written in Lua (5.3).  A file calls `policy` with a table:
 *
 *    policy {
 *        name = "fair",
 *        backfill = "easy",            -- "none" (fcfs), "easy", "conservative"
 *        depth = 32,                   -- reservations of conservative backfill
 *        reorder = 30,                 -- seconds after which priorities are asked for again
 *        priority = function(job, now) return job.urgency * 1000 - job.ncores end,
 *        admit = function(job, now) return job.ncores < 100, "is too large for the day" end,
 *        started = function(job, now) ... end,
 *        ended = function(job, now) ... end,
 *        score = function(job, node) return node.cores_free end,       -- lowest first
 *    }
 *
 * All fields are optional.  `job` and `node` are tables with the fields of struct sched_plugin_job
 * and struct sched_plugin_node.  It is a policy for the queue if it has any of the fields from
 * backfill to ended, and one for nodes if it has score.
 *
 * The file is evaluated in the sandbox (libsandbox/sandbox.h): it computes,
 * and reaches nothing outside.  Each call has at most SCHED_LUA_STEPS instructions; all of it
 * SCHED_LUA_BYTES of memory.  A call that fails or gives something else than is asked for turns
 * that function off (sched_plugin.h).
 */
#ifndef SCHED_LUA_H
#define SCHED_LUA_H

#include "libutil/errmsg.h"
#include "sched_plugin.h"

#define SCHED_LUA_STEPS 100000
#define SCHED_LUA_SECONDS 2. /* of processor time */
#define SCHED_LUA_BYTES (8u << 20)

typedef struct sched_lua sched_lua_t;

/* Read a file, and see what is in it.  NULL with ENOENT, EINVAL (what is wrong with it) or ENOMEM
 * and an error message. */
sched_lua_t *sched_lua_load(const char *path, errmsg_t *err);
void sched_lua_destroy(sched_lua_t *l); /* NULL-safe, keeps errno */
/* Its tables, to be used with the path as argument, while the object lives. */
const struct sched_policy *sched_lua_policy(const sched_lua_t *l);

#endif

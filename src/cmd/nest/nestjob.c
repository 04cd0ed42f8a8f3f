/* nestjob.c - see nestjob.h.
 *
 *    flux start OPTION... -- flux-rsh --setup {{tmpdir}} PROGRAM...
 *
 * This command runs as one task on each node of the allocation.  The brokers find each other by
 * PMI, as all tasks do; rank 0 runs the program.  The exit code of the job is the greatest exit
 * code of all brokers, which is that of the program.  flux-rsh describes the allocation to plain
 * mpirun, and then executes the program.
 */
#include "config.h"
#include "nestjob.h"

#include <stdlib.h>

#include "libflux/paths.h"

char *nestjob_self(struct cmd *c)
{
    errmsg_t err;
    char *self = flux_path_exec("flux", &err);

    if (!self)
        cmd_error(c, "%s", err.text);
    return self;
}

int nestjob_command(struct cmd *c, jobopts_t *jo, const strvec_t *start, char *const *program)
{
    strvec_t *v = strvec_create();
    char *self = nestjob_self(c), *rsh = flux_path_exec("flux-rsh", NULL);
    int rc = self ? 0 : -1;

    if (rc == 0)
        rc = strvec_add(v, self) < 0 || strvec_add(v, "start") < 0;
    for (size_t i = 0; rc == 0 && start && i < strvec_count(start); i++)
        rc = strvec_add(v, strvec_at(start, i));
    if (rc == 0)
        rc = strvec_add(v, "--");
    if (rc == 0 && rsh)
        rc = strvec_add(v, rsh) < 0 || strvec_add(v, "--setup") < 0 ||
             strvec_add(v, "{{tmpdir}}") < 0;
    for (; rc == 0 && *program; program++)
        rc = strvec_add(v, *program);
    if (rc != 0 && self)
        cmd_error(c, "out of memory");
    if (rc == 0)
        rc = jobopts_command(jo, strvec_argv(v));
    if (rc == 0)
        rc = jobopts_setopt(jo, "nested", json_true());
    if (rc == 0)
        jobopts_one_task_per_node(jo);
    strvec_destroy(v);
    free(self);
    free(rsh);
    return rc == 0 ? 0 : -1;
}

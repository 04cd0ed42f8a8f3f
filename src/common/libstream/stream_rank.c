/* stream_rank.c - the place of this process among those that were started together.
 *
 * Launchers tell it in the environment: flux (FLUX_TASK_RANK, FLUX_JOB_SIZE), a process manager
 * with PMI (PMI_RANK, PMI_SIZE), and mpirun of Open MPI (OMPI_COMM_WORLD_RANK and _SIZE).  A
 * program that mpirun has started inside of a job with one task finds several of these, of which
 * those of the job tell the rank of mpirun; so the first one with more than one process counts.
 *
 * Failure: a value that is not a number, or a rank that is not below the size, is EINVAL, since a
 * wrong rank would mix up the pieces of an array.  A variable without the other one is ignored:
 * what a task starts, like a session, has the size of the job, but no rank in it.
 */
#include "config.h"
#include <errno.h>
#include <stdlib.h>

#include "libstream/stream_private.h"
#include "libutil/strutil.h"

static const struct launcher {
    const char *rank;
    const char *size;
} launchers[] = {
    {"FLUX_TASK_RANK", "FLUX_JOB_SIZE"},
    {"PMI_RANK", "PMI_SIZE"},
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
};

int flux_stream_rank(uint32_t *rank, uint32_t *size, errmsg_t *err)
{
    *rank = 0;
    *size = 1;
    for (size_t i = 0; i < sizeof(launchers) / sizeof(launchers[0]) && *size == 1; i++) {
        const struct launcher *l = &launchers[i];
        const char *r = getenv(l->rank);
        const char *n = getenv(l->size);
        uint32_t own, all;

        if (!r || !n)
            continue;
        if (str2u32(r, &own) < 0 || str2u32(n, &all) < 0 || own >= all)
            return errmsg_fail(err, EINVAL,
                               "%s=%.32s and %s=%.32s in the environment are not the rank of a "
                               "process and a larger number of processes",
                               l->rank, r, l->size, n);
        *rank = own;
        *size = all;
    }
    return 0;
}

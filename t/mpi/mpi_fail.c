/* One rank misbehaves, the others wait for it: the launcher has to end the job.
 *
 * Usage: mpi_fail abort|fatal|exit|crash|early|stay [CODE [RANK]]     (CODE: 42, RANK: the last)
 *    abort    it calls MPI_Abort with CODE
 *    fatal    it sends to a rank that does not exist: MPI_ERRORS_ARE_FATAL, MPI_ERR_RANK
 *    exit     it leaves with CODE, without MPI_Finalize
 *    crash    it dies by SIGSEGV
 *    early    it leaves with CODE before MPI_Init
 *    stay     it says so, and all wait for it until they are killed
 */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "abort";
    int code = argc > 2 ? atoi(argv[2]) : 42, rank, size, bad;
    const char *mine = getenv("PMI_RANK"), *all = getenv("PMI_SIZE");

    if (strcmp(what, "early") == 0 && mine && all && atoi(mine) == atoi(all) - 1)
        return code;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    bad = argc > 3 ? atoi(argv[3]) : size - 1;
    if (rank == 0) {
        printf("size %d\n", size);
        fflush(stdout);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == bad) {
        if (strcmp(what, "abort") == 0)
            MPI_Abort(MPI_COMM_WORLD, code);
        else if (strcmp(what, "fatal") == 0)
            MPI_Send(&rank, 1, MPI_INT, size, 0, MPI_COMM_WORLD);
        else if (strcmp(what, "exit") == 0)
            _Exit(code);
        if (strcmp(what, "stay") == 0) {
            printf("stays\n");
            fflush(stdout);
            for (;;)
                pause();
        }
        signal(SIGSEGV, SIG_DFL);
        raise(SIGSEGV);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    return 0;
}

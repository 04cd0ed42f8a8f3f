/* Rounds of an allreduce and a ring until there is the file STOP; every rank checks its
 * answers.
 *
 * Usage: mpi_rounds SIZE STOP
 * Rank 0 prints a line for each round, and every rank one at the end.  The exit code is 0 if all
 * answers are right, else 1 (by MPI_Abort).
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void check(int rank, const char *what, long got, long want)
{
    if (got == want)
        return;
    fprintf(stderr, "rank %d: %s: got %ld, want %ld\n", rank, what, got, want);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

int main(int argc, char **argv)
{
    int rank, size, stop = 0;
    long round = 0;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    check(rank, "size", size, argc > 1 ? atol(argv[1]) : size);
    while (!stop) {
        long mine = round * size + rank, sum, theirs;

        MPI_Allreduce(&mine, &sum, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
        check(rank, "sum", sum, round * size * size + (long)size * (size - 1) / 2);
        MPI_Sendrecv(&mine, 1, MPI_LONG, (rank + 1) % size, 1, &theirs, 1, MPI_LONG,
                     (rank + size - 1) % size, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        check(rank, "ring", theirs, round * size + (rank + size - 1) % size);
        if (rank == 0) {
            printf("round %ld\n", round);
            fflush(stdout);
            stop = argc > 2 && access(argv[2], F_OK) == 0;
            usleep(20000);
        }
        MPI_Bcast(&stop, 1, MPI_INT, 0, MPI_COMM_WORLD);
        round++;
    }
    printf("rank %d: right\n", rank);
    MPI_Finalize();
    return 0;
}

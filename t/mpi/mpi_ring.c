/* A ring, then an allreduce; every rank checks its own answers.
 *
 * Written for no launcher in particular.  A token goes once round the ring, and each rank adds its
 * number; then all ranks add up their squares, and exchange an array whose every element is
 * checked. Launchers that fail to bring the ranks together give N programs of one rank each that
 * succeed; so the size that is expected can be given as an argument, and another one is an error.
 *
 * Usage: mpi_ring [EXPECTED-SIZE]
 * Prints a line a rank; exit code 0 if all answers are right, else 1 (by MPI_Abort).
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { COUNT = 1024 };

static void wrong(int rank, const char *what, long got, long want)
{
    fprintf(stderr, "rank %d: %s: got %ld, want %ld\n", rank, what, got, want);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

/* Pass a token from 0 through all ranks back to 0.  Rank r receives 0 + 1 + ... + (r - 1). */
static long ring(int rank, int size)
{
    long token = 0;
    int next = (rank + 1) % size, prev = (rank + size - 1) % size;

    if (size == 1)
        return 0;
    if (rank > 0) {
        MPI_Recv(&token, 1, MPI_LONG, prev, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (token != (long)rank * (rank - 1) / 2)
            wrong(rank, "token", token, (long)rank * (rank - 1) / 2);
        token += rank;
    }
    MPI_Send(&token, 1, MPI_LONG, next, 7, MPI_COMM_WORLD);
    if (rank == 0) {
        MPI_Recv(&token, 1, MPI_LONG, prev, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (token != (long)size * (size - 1) / 2)
            wrong(rank, "token after the round", token, (long)size * (size - 1) / 2);
    }
    return token;
}

static long allreduce(int rank, int size)
{
    static long mine[COUNT], sum[COUNT];
    long square = (long)rank * rank, total = 0;
    long want = (long)(size - 1) * size * (2L * size - 1) / 6;

    MPI_Allreduce(&square, &total, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    if (total != want)
        wrong(rank, "sum of squares", total, want);
    for (int i = 0; i < COUNT; i++)
        mine[i] = (long)rank + i;
    MPI_Allreduce(mine, sum, COUNT, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    for (int i = 0; i < COUNT; i++) {
        want = (long)size * (size - 1) / 2 + (long)i * size;
        if (sum[i] != want)
            wrong(rank, "element of the sum", sum[i], want);
    }
    return total;
}

int main(int argc, char **argv)
{
    char host[MPI_MAX_PROCESSOR_NAME];
    int rank, size, len;
    long token, total;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Get_processor_name(host, &len);
    if (argc > 1 && atoi(argv[1]) != size)
        wrong(rank, "size", size, atoi(argv[1]));
    token = ring(rank, size);
    total = allreduce(rank, size);
    printf("rank %d of %d on %s: ring %ld, sum of squares %ld: right\n", rank, size, host, token,
           total);
    fflush(stdout);
    MPI_Finalize();
    return 0;
}

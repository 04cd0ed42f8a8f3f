/* One program of several: each rank says which of them it is.
 *
 * Usage: mpi_parts WORD
 *    "RANK of SIZE: WORD, program NUMBER, of RANKS, $PART", where RANKS is how many ranks have that
 *    number
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    const char *part = getenv("PART");
    int rank, size, there, *appnum, number = -1, same;
    MPI_Comm comm;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_APPNUM, &appnum, &there);
    if (there)
        number = *appnum;
    MPI_Comm_split(MPI_COMM_WORLD, number < 0 ? MPI_UNDEFINED : number, rank, &comm);
    if (comm == MPI_COMM_NULL)
        same = 0;
    else
        MPI_Comm_size(comm, &same);
    printf("%d of %d: %s, program %d, of %d, %s\n", rank, size, argc > 1 ? argv[1] : "", number,
           same, part ? part : "unset");
    if (comm != MPI_COMM_NULL)
        MPI_Comm_free(&comm);
    MPI_Finalize();
    return 0;
}

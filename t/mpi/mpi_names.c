/* Names that jobs publish for each other, by any MPI library.
 *
 * Usage: mpi_names publish NAME PORT     rank 0 publishes, all wait until standard input ends
 *        mpi_names once NAME PORT        publishes, fails to publish it again, takes it back, fails
 *                                        to find it
 *        mpi_names lookup NAME           prints the port; exit code 3 when there is none
 */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

static int refused(int rc, const char *what)
{
    char text[MPI_MAX_ERROR_STRING];
    int len;

    if (rc == MPI_SUCCESS)
        return 0;
    MPI_Error_string(rc, text, &len);
    fprintf(stderr, "%s: %s\n", what, text);
    return 1;
}

static int act(const char *what, const char *name, char *port)
{
    char found[MPI_MAX_PORT_NAME];

    if (strcmp(what, "lookup") == 0) {
        if (refused(MPI_Lookup_name(name, MPI_INFO_NULL, found), "look-up"))
            return 3;
        printf("found %s\n", found);
        return 0;
    }
    if (refused(MPI_Publish_name(name, MPI_INFO_NULL, port), "publishing"))
        return 4;
    printf("published\n");
    fflush(stdout);
    if (strcmp(what, "publish") == 0) {
        while (getchar() != EOF)
            ;
        return 0;
    }
    if (!refused(MPI_Publish_name(name, MPI_INFO_NULL, port), "publishing again"))
        return 5;
    if (refused(MPI_Unpublish_name(name, MPI_INFO_NULL, port), "taking back"))
        return 6;
    if (!refused(MPI_Lookup_name(name, MPI_INFO_NULL, found), "looking for what is gone"))
        return 7;
    return 0;
}

int main(int argc, char **argv)
{
    int rank, rc = 0;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    if (rank == 0 && argc > 2)
        rc = act(argv[1], argv[2], argc > 3 ? argv[3] : NULL);
    MPI_Bcast(&rc, 1, MPI_INT, 0, MPI_COMM_WORLD);
    MPI_Finalize();
    return rc;
}

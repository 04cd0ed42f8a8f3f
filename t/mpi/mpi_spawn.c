/* Dynamic processes of MPI:
 *
 *    mpi_spawn spawn N          all ranks together spawn N, merge with them, and all reduce
 *    mpi_spawn self N           each rank alone, one after the other, spawns N and does the same
 *    mpi_spawn multiple N M     N with "first" and M with "second" as their argument, in one spawn
 *    mpi_spawn refused N [PROG] a spawn that must fail, with an error that is returned
 *    mpi_spawn again N TIMES    N are spawned and leave, this many times
 *    mpi_spawn fails CODE       one that is spawned calls MPI_Abort(CODE)
 *    mpi_spawn exits CODE       ... exits with CODE after MPI_Finalize
 *    mpi_spawn stays N          all stay until somebody ends them
 *    mpi_spawn wdir DIR         one is spawned with the info "wdir", and says where it is
 *    mpi_spawn nested           the one that is spawned spawns another one
 *    mpi_spawn universe         print the attribute MPI_UNIVERSE_SIZE
 * Spawned ones are `mpi_spawn child HOW`. A line of a rank that found all right ends with "right".
 */
#include <mpi.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *self;
static int rank, size;

static void die(const char *what)
{
    fprintf(stderr, "mpi_spawn: %s\n", what);
    MPI_Abort(MPI_COMM_WORLD, 99);
}

/* Who is on both sides sums up 1 each, and the ranks. */
static void meet(MPI_Comm inter, int high, int expect, const char *name)
{
    MPI_Comm all;
    int mine[2] = {1, 0}, sum[2], n, me;

    MPI_Intercomm_merge(inter, high, &all);
    MPI_Comm_size(all, &n);
    MPI_Comm_rank(all, &me);
    mine[1] = me;
    MPI_Allreduce(mine, sum, 2, MPI_INT, MPI_SUM, all);
    if (sum[0] != n || sum[1] != n * (n - 1) / 2 || (expect && n != expect))
        die("the sum over all is wrong");
    printf("%s %d of %d: right\n", name, me, n);
    fflush(stdout);
    MPI_Comm_free(&all);
}

static MPI_Comm spawn(MPI_Comm comm, int n, const char *how, MPI_Info info)
{
    char *argv[3] = {(char *)"child", (char *)how, NULL};
    MPI_Comm inter;

    MPI_Comm_spawn((char *)self, argv, n, info, 0, comm, &inter, MPI_ERRCODES_IGNORE);
    return inter;
}

static void multiple(int n, int m)
{
    char *first[3] = {(char *)"child", (char *)"first", NULL};
    char *second[3] = {(char *)"child", (char *)"second", NULL};
    char *programs[2] = {(char *)self, (char *)self};
    char **argvs[2] = {first, second};
    int counts[2] = {n, m}, errors[64];
    MPI_Info infos[2] = {MPI_INFO_NULL, MPI_INFO_NULL};
    MPI_Comm inter;

    memset(errors, 1, sizeof(errors));
    MPI_Comm_spawn_multiple(2, programs, argvs, counts, infos, 0, MPI_COMM_WORLD, &inter, errors);
    for (int i = 0; rank == 0 && i < n + m; i++)
        if (errors[i] != MPI_SUCCESS)
            die("an error code is not 0");
    meet(inter, 0, size + n + m, "parent");
    MPI_Comm_disconnect(&inter);
}

static void refused(int n, const char *program)
{
    char *argv[3] = {(char *)"child", (char *)"meet", NULL}, text[MPI_MAX_ERROR_STRING];
    int *errors = calloc((size_t)n, sizeof(*errors)), rc, len;
    MPI_Comm inter;

    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    rc = MPI_Comm_spawn((char *)program, argv, n, MPI_INFO_NULL, 0, MPI_COMM_SELF, &inter, errors);
    if (rc == MPI_SUCCESS)
        die("a spawn that must fail did not");
    MPI_Error_string(rc, text, &len);
    fprintf(stderr, "%s\n", text);
    printf("refused: right\n");
    free(errors);
}

static void child(MPI_Comm parent, const char *how)
{
    int *appnum, found, code;

    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_APPNUM, &appnum, &found);
    if (strcmp(how, "first") == 0 || strcmp(how, "second") == 0)
        if (!found || *appnum != (how[0] == 's'))
            die("the number of the program is wrong");
    if (strcmp(how, "nested") == 0) {
        MPI_Comm inter = spawn(MPI_COMM_SELF, 1, "meet", MPI_INFO_NULL);

        meet(inter, 0, 2, "child and parent");
        MPI_Comm_disconnect(&inter);
    }
    if (strcmp(how, "wdir") == 0) {
        char dir[4096];

        printf("in %s\n", getcwd(dir, sizeof(dir)) ? dir : "?");
    }
    meet(parent, 1, 0, how);
    if (sscanf(how, "abort%d", &code) == 1 && rank == size - 1)
        MPI_Abort(MPI_COMM_WORLD, code);
    if (strcmp(how, "stay") == 0 || strncmp(how, "abort", 5) == 0)
        for (;;)
            pause();
    MPI_Comm_disconnect(&parent);
    MPI_Finalize();
    exit(sscanf(how, "exit%d", &code) == 1 ? code : 0);
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    int n = argc > 2 ? atoi(argv[2]) : 0;
    char how[32];
    MPI_Comm parent, inter;

    self = argv[0];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_get_parent(&parent);
    if (parent != MPI_COMM_NULL)
        child(parent, argv[2]);
    if (strcmp(what, "spawn") == 0) {
        inter = spawn(MPI_COMM_WORLD, n, "meet", MPI_INFO_NULL);
        meet(inter, 0, size + n, "parent");
        MPI_Comm_disconnect(&inter);
    } else if (strcmp(what, "self") == 0) {
        for (int i = 0; i < size; i++, MPI_Barrier(MPI_COMM_WORLD)) {
            if (i != rank)
                continue;
            inter = spawn(MPI_COMM_SELF, n, "meet", MPI_INFO_NULL);
            meet(inter, 0, 1 + n, "parent");
            MPI_Comm_disconnect(&inter);
        }
    } else if (strcmp(what, "again") == 0) {
        for (int i = 0; i < atoi(argv[3]); i++) {
            inter = spawn(MPI_COMM_WORLD, n, "meet", MPI_INFO_NULL);
            meet(inter, 0, size + n, "parent");
            MPI_Comm_disconnect(&inter);
        }
    } else if (strcmp(what, "multiple") == 0) {
        multiple(n, atoi(argv[3]));
    } else if (strcmp(what, "refused") == 0) {
        refused(n, argc > 3 ? argv[3] : self);
    } else if (strcmp(what, "fails") == 0 || strcmp(what, "exits") == 0) {
        snprintf(how, sizeof(how), "%s%d", what[0] == 'f' ? "abort" : "exit", n);
        inter = spawn(MPI_COMM_WORLD, 1, how, MPI_INFO_NULL);
        meet(inter, 0, size + 1, "parent");
        if (what[0] == 'f')
            for (;;)
                pause();
        MPI_Comm_disconnect(&inter);
    } else if (strcmp(what, "stays") == 0) {
        inter = spawn(MPI_COMM_WORLD, n, "stay", MPI_INFO_NULL);
        meet(inter, 0, size + n, "parent");
        printf("stays\n");
        fflush(stdout);
        for (;;)
            pause();
    } else if (strcmp(what, "wdir") == 0) {
        MPI_Info info;

        MPI_Info_create(&info);
        MPI_Info_set(info, "wdir", argv[2]);
        inter = spawn(MPI_COMM_WORLD, 1, "wdir", info);
        meet(inter, 0, size + 1, "parent");
        MPI_Comm_disconnect(&inter);
        MPI_Info_free(&info);
    } else if (strcmp(what, "nested") == 0) {
        inter = spawn(MPI_COMM_WORLD, 1, "nested", MPI_INFO_NULL);
        meet(inter, 0, size + 1, "parent");
        MPI_Comm_disconnect(&inter);
    } else if (strcmp(what, "universe") == 0) {
        int *universe, found;

        MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_UNIVERSE_SIZE, &universe, &found);
        printf("universe %d\n", found ? *universe : -1);
    } else {
        die("what?");
    }
    MPI_Finalize();
    return 0;
}

/* Boot by PMIx: the broker's end of flux-pmibridge, which speaks PMI-1 with the broker and PMIx
 * with the launcher (pmibridge.c).
 *
 * The bridge is a child of the broker during the boot.  When the dialog is over, or the boot fails,
 * it is killed and reaped: it has sent the launcher everything before it answers finalize.
 *
 * Failure: the error message comes from the bridge, or reports its end.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "boot_private.h"
#include "libflux/paths.h"
#include "libsubprocess/spawn.h"

#define BRIDGE "flux-pmibridge"
#define BRIDGE_FD 3

extern char **environ;

bool boot_pmix_found(void)
{
    return getenv("PMIX_NAMESPACE") && getenv("PMIX_RANK");
}

static pid_t start(int fd, errmsg_t *err)
{
    char *path = flux_path_exec(BRIDGE, NULL), *argv[] = {(char *)BRIDGE, NULL};
    struct spawn_fd fds[] = {{0, 0}, {1, 1}, {2, 2}, {fd, BRIDGE_FD}};
    struct spawn_params sp = {.path = path, .argv = argv, .envp = environ, .fds = fds, .nfds = 4};
    pid_t pid;

    if (!path)
        return errmsg_fail(err, ENOENT,
                           "started by a PMIx launcher (PMIX_NAMESPACE is set), but this Flux was "
                           "built without libpmix: start it by a launcher that speaks PMI-1, or "
                           "with --boot=single to be a session of its own");
    pid = spawn_process(&sp, err);
    free(path);
    return pid;
}

/* Read the first line: "RANK SIZE", or "!" and an error message. */
static int read_line(int fd, char *line, size_t cap)
{
    size_t len = 0;

    while (len + 1 < cap) {
        ssize_t n = recv(fd, line + len, 1, 0);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break;
        if (line[len] == '\n') {
            line[len] = '\0';
            return 0;
        }
        len++;
    }
    errno = EPROTO;
    return -1;
}

struct pmi_client *boot_pmix_open(pid_t *pid, errmsg_t *err)
{
    struct pmi_client *c = NULL;
    char line[sizeof(err->text) + 8], more;
    int sv[2], rank, size;

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sv) < 0) {
        errmsg_fail(err, errno, "cannot start " BRIDGE ": %s", strerror(errno));
        return NULL;
    }
    *pid = start(sv[1], err);
    close(sv[1]);
    if (*pid < 0)
        *pid = 0;
    else if (read_line(sv[0], line, sizeof(line)) < 0)
        errmsg_fail(err, EPROTO, BRIDGE " ended before it reached the launcher's PMIx");
    else if (line[0] == '!')
        errmsg_fail(err, EREMOTEIO, "%s", line + 1);
    else if (sscanf(line, "%d %d%c", &rank, &size, &more) != 2)
        errmsg_fail(err, EPROTO, BRIDGE " sent an unexpected line: '%.60s'", line);
    else if ((c = pmi_client_create_fd(sv[0], rank, size, err)))
        return c;
    else
        sv[0] = -1; /* closed with the client */
    if (sv[0] >= 0)
        close(sv[0]);
    return NULL;
}

void boot_pmix_close(pid_t pid)
{
    if (pid <= 0)
        return;
    kill(pid, SIGKILL);
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
}

/* --- variables that the launcher left in the environment --- */

/* Prefixes of variables of mpirun, besides PMIX_*, that identify this process within a job. */
static const char *const leftovers[] = {
    "OMPI_COMM_WORLD_",
    "OMPI_WORLD_",
    "OMPI_UNIVERSE_SIZE=",
    "OMPI_APP_CTX_NUM_PROCS=",
    "OMPI_FIRST_RANKS=",
    "OMPI_NUM_APP_CTX=",
    "OMPI_FILE_LOCATION=",
    "OMPI_ARGV=",
    "OMPI_COMMAND=",
    "OMPI_TOOL_NAME=",
    "OMPI_MCA_ess",
    "OMPI_MCA_orte_",
    "OMPI_MCA_pmix=",
    "OMPI_MCA_initial_wdir=",
    "OMPI_MCA_mpi_oversubscribe=",
    "OMPI_MCA_num_procs=",
    "PRTE_LAUNCHED=",
};

static bool is_leftover(const char *var, bool mpirun)
{
    if (strncmp(var, "PMIX_", 5) == 0)
        return strncmp(var, "PMIX_MCA_", 9) != 0;
    for (size_t i = 0; mpirun && i < sizeof(leftovers) / sizeof(leftovers[0]); i++)
        if (strncmp(var, leftovers[i], strlen(leftovers[i])) == 0)
            return true;
    return false;
}

void boot_pmix_clean(bool mpirun)
{
    char name[128];

    for (char **e = environ; *e;) {
        size_t n = strcspn(*e, "=");

        if (!is_leftover(*e, mpirun) || n >= sizeof(name)) {
            e++;
            continue;
        }
        memcpy(name, *e, n);
        name[n] = '\0';
        unsetenv(name); /* unsetenv() shifts the other variables */
    }
}

/* flux-rsh.c - support for plain mpirun and mpiexec in flux alloc and flux batch.
 *
 *    flux-rsh [OPTION...] HOST COMMAND...   run COMMAND on HOST, like ssh
 *    flux-rsh --setup DIR PROGRAM [ARG...]  describe the allocation to MPI launchers, then execute
 *                                           PROGRAM, the initial program of the session
 *
 * The launchers of MPICH (also Intel's) and Open MPI read from their environment which hosts to
 * use and which program starts processes there.  --setup writes the host files to DIR and sets
 * these variables; the program is flux-rsh, which passes the command to flux exec.
 *
 *    file      line of a host     read by
 *    hosts     NAME:CORES         HYDRA_HOST_FILE, I_MPI_HYDRA_HOST_FILE
 *    slots     NAME slots=CORES   OMPI_MCA_orte_default_hostfile, PRTE_MCA_prte_default_hostfile
 *
 * Brokers on the same host are one host for MPI, which has the cores of all of them; processes
 * that a launcher starts there run beside the first broker.
 *
 * Failure: --setup reports errors and executes PROGRAM nevertheless, because a program that uses
 * none of these launchers does not need the host files.
 */
#include "config.h"
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../cmd_private.h"
#include "../resource/cmd_res.h"
#include "libflux/paths.h"
#include "libidset/hostlist.h"
#include "libutil/hmap.h"
#include "libutil/strbuf.h"
#include "libutil/strvec.h"

/* --- remote --- */

/* Of ssh's and rsh's options those with a value; what they say does not matter here. */
static bool takes_value(char letter)
{
    return strchr("bcDeEFiIJlLmoOpQRSwW", letter) != NULL;
}

static int remote(struct cmd *c, char **argv)
{
    strvec_t *v = strvec_create();
    strbuf_t *sb = strbuf_create(0);
    const char *host;
    errmsg_t err;
    char *flux = flux_path_exec("flux", &err), *line;

    for (; *argv && **argv == '-'; argv++) {
        if (takes_value((*argv)[1]) && !(*argv)[2] && argv[1])
            argv++;
    }
    if (!(host = *argv) || !*++argv)
        return cmd_error(c, "a HOST and a COMMAND are required"), CMD_USAGE;
    for (; *argv; argv++) {
        strbuf_add(sb, *argv);
        strbuf_add(sb, argv[1] ? " " : "");
    }
    if (!flux)
        return cmd_error(c, "%s", err.text);
    line = strbuf_take(sb);
    if (!line || !v || strvec_add(v, flux) < 0 || strvec_add(v, "exec") < 0 ||
        strvec_add(v, "--noinput") < 0 || strvec_add(v, "--first") < 0 ||
        strvec_addf(v, "--rank=%s", host) < 0 || strvec_add(v, "/bin/sh") < 0 ||
        strvec_add(v, "-c") < 0 || strvec_add(v, line) < 0)
        return cmd_error(c, "out of memory");
    execv(flux, strvec_argv(v));
    return cmd_error(c, "cannot run %s: %s", flux, strerror(errno));
}

/* --- setup --- */

struct host {
    char *name;
    size_t cores;
};

static void host_destroy(void *arg)
{
    struct host *h = arg;

    free(h->name);
    free(h);
}

/* A file of DIR that a variable, or several, lead to. */
static int write_file(const char *dir, const char *name, const char *text,
                      const char *const variables[])
{
    char path[PATH_MAX];
    FILE *f;

    if ((size_t)snprintf(path, sizeof(path), "%s/%s", dir, name) >= sizeof(path)) {
        errno = ENAMETOOLONG;
        return -1;
    }
    if (!(f = fopen(path, "we")))
        return -1;
    if (fputs(text, f) < 0) {
        fclose(f);
        return -1;
    }
    if (fclose(f) != 0)
        return -1;
    for (size_t i = 0; variables[i]; i++)
        setenv(variables[i], path, 1);
    return 0;
}

static int set_agent(errmsg_t *err)
{
    static const char *const agents[] = {"HYDRA_LAUNCHER_EXEC", "I_MPI_HYDRA_BOOTSTRAP_EXEC",
                                         "OMPI_MCA_plm_rsh_agent", "PRTE_MCA_plm_ssh_agent"};
    char *self = flux_path_exec("flux-rsh", err);

    if (!self)
        return -1;
    for (size_t i = 0; i < sizeof(agents) / sizeof(agents[0]); i++)
        setenv(agents[i], self, 1);
    setenv("HYDRA_LAUNCHER", "rsh", 1);
    /* mpirun of Open MPI 4 takes itself for a task of a job when it sees FLUX_JOB_ID, and
     * crashes. */
    setenv("OMPI_MCA_pmix", "^flux", 1);
    setenv("I_MPI_HYDRA_BOOTSTRAP", "rsh", 1);
    free(self);
    return 0;
}

/* Hosts in the order of their ranks, each once. */
static int describe(const struct res *res, const char *dir, errmsg_t *err)
{
    static const char *const hydra[] = {"HYDRA_HOST_FILE", "I_MPI_HYDRA_HOST_FILE", NULL};
    static const char *const open_mpi[] = {"OMPI_MCA_orte_default_hostfile",
                                           "PRTE_MCA_prte_default_hostfile", NULL};
    hmap_t *hosts = hmap_create_str(host_destroy);
    strbuf_t *a = strbuf_create(0), *b = strbuf_create(0);
    size_t n = resgraph_nnodes(res->g), nhosts = 0;
    struct host **order = calloc(n + 1, sizeof(*order)), *h;
    hostlist_t *list = hostlist_create();
    struct resgraph_node node;
    char *text[3] = {NULL};
    int rc = hosts && order && list ? 0 : -1;

    for (size_t i = 0; rc == 0 && resgraph_node(res->g, i, &node); i++) {
        if (!(h = hmap_get(hosts, node.host))) {
            if (!(h = calloc(1, sizeof(*h))) || !(h->name = strdup(node.host)) ||
                hmap_put(hosts, h->name, h) < 0 || hostlist_append(list, h->name, err) < 0) {
                rc = -1;
                break;
            }
            order[nhosts++] = h;
        }
        h->cores += idset_count(node.cores);
    }
    for (size_t i = 0; rc == 0 && i < nhosts; i++) {
        strbuf_addf(a, "%s:%zu\n", order[i]->name, order[i]->cores);
        strbuf_addf(b, "%s slots=%zu\n", order[i]->name, order[i]->cores);
    }
    text[0] = strbuf_take(a);
    text[1] = strbuf_take(b);
    text[2] = list ? hostlist_format(list) : NULL;
    if (rc < 0 || !text[0] || !text[1] || !text[2])
        rc = errmsg_fail(err, ENOMEM, "out of memory");
    else if (write_file(dir, "hosts", text[0], hydra) < 0 ||
             write_file(dir, "slots", text[1], open_mpi) < 0)
        rc = errmsg_fail(err, errno, "cannot write to %s: %s", dir, strerror(errno));
    else
        setenv("FLUX_JOB_NODELIST", text[2], 1);
    for (int i = 0; i < 3; i++)
        free(text[i]);
    hostlist_destroy(list);
    free(order);
    hmap_destroy(hosts);
    return rc;
}

static void let_go(struct cmd *c)
{
    flux_close(c->priv->h);
    flux_reactor_destroy(c->priv->reactor);
    c->priv->h = NULL;
    c->priv->reactor = NULL;
}

static int setup(struct cmd *c, char **argv)
{
    const char *dir = argv[0];
    errmsg_t err = {"out of memory"};
    struct res res;

    if (!dir || !argv[1])
        return cmd_error(c, "--setup: DIR and PROGRAM are required"), CMD_USAGE;
    if (res_query(c, &res, false) == 0) {
        if (set_agent(&err) < 0 || describe(&res, dir, &err) < 0)
            cmd_error(c, "mpirun cannot find the allocation: %s", err.text);
        res_clear(&res);
    }
    let_go(c);
    execvp(argv[1], argv + 1);
    cmd_error(c, "cannot run %s: %s", argv[1], strerror(errno));
    return errno == ENOENT ? CMD_NOT_FOUND : 126;
}

int main(int argc, char **argv)
{
    struct cmd_private priv = {0};
    struct cmd c = {.name = "rsh", .priv = &priv};
    int code;

    if (argc > 1 && strcmp(argv[1], "--setup") == 0)
        code = setup(&c, argv + 2);
    else
        code = remote(&c, argv + 1);
    let_go(&c);
    return code;
}

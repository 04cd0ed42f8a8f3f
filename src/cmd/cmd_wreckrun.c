/* cmd_wreckrun.c - flux wreckrun: run a parallel program in the session.
 *
 * Everything the tasks need goes out in one request (runclient.c); output files without labels are
 * opened by the launchers, so that tasks write to them directly.
 */
#include "config.h"
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd_all.h"
#include "runclient.h"

extern char **environ;

#define KEY_ENV CMD_KEY(0)
#define KEY_CHDIR CMD_KEY(1)
#define KEY_STDIN CMD_KEY(2)

static const struct cmd_opt opts[] = {
    {'N', "nodes", "N", "run on N nodes (default: as many as there are, up to the tasks)"},
    {'n', "ntasks", "N", "start N tasks in all (default: one a node)"},
    {'c', "cores-per-task", "N", "cores each task will use (default: 1)"},
    {'l', "label-io", NULL, "put the number of its task before each line"},
    {'d', "detach", NULL,
     "print the job's id and leave; output goes to files, or to the\n"
     "key-value store (job.ID.output)"},
    {'t', "time-limit", "DURATION", "end the job after that time: SIGTERM, and SIGKILL 5s later"},
    {'i', "input", "FILE", "standard input of task 0, read on its node"},
    {'O', "output", "FILE",
     "standard output goes to FILE; {{id}}, {{task}} and {{node}} in it\n"
     "are replaced"},
    {'E', "error", "FILE", "the same for standard error"},
    {KEY_STDIN, "stdin", "WHO", "who reads standard input: first (task 0, the default), all, none"},
    {KEY_ENV, "env", "NAME=VALUE", "set a variable for the tasks; -NAME removes one"},
    {KEY_CHDIR, "chdir", "DIR", "working directory of the tasks (default: this one)"},
    CMD_OPT_END,
};
static const struct cmd_usage usage = {
    "[OPTION...] COMMAND [ARG...]",
    "Run a program as a parallel job: MPI programs of MPICH and Open MPI, or anything else.\n"
    "Output and exit code come here; standard input goes to task 0; SIGINT, SIGTERM, SIGHUP,\n"
    "SIGQUIT, SIGUSR1 and SIGUSR2 are passed on to all tasks; SIGINT twice within 2 s kills.",
    opts,
    "Exit code: the greatest of all tasks, 128 + N for signal N; 127 when the program is not\n"
    "found and 126 when it cannot be run; 142 after the time limit; what MPI_Abort said.\n",
    CMD_STOP,
};

/* Absolute, since the tasks start elsewhere.  To be freed. */
static char *absolute(struct cmd *c, const char *path)
{
    char *cwd = NULL, *full = NULL;

    if (path[0] == '/')
        full = strdup(path);
    else if (!(cwd = getcwd(NULL, 0)))
        cmd_error(c, "the working directory has no name: %s", strerror(errno));
    else if (asprintf(&full, "%s/%s", cwd, path) < 0)
        full = NULL;
    free(cwd);
    return full;
}

/* A file that all tasks share is emptied here, once, before anybody appends to it. */
static int empty_file(struct cmd *c, const char *path)
{
    int fd;

    if (strstr(path, "{{"))
        return 0;
    fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0666);
    if (fd < 0 && errno != ENXIO)
        return cmd_error(c, "cannot open '%s': %s", path, strerror(errno)), -1;
    if (fd >= 0)
        close(fd);
    return 0;
}

/* Where output goes: here with labels, else on the nodes.  -1 after a sentence. */
static int place_output(struct cmd *c, struct runclient_params *p, char *path, int which)
{
    if (!path)
        return 0;
    if (!p->label) {
        p->fixed[which] = path;
        return empty_file(c, path);
    }
    if (p->run.detach || strstr(path, "{{"))
        return cmd_usage_error(c, "--label-io does not go with --detach or a name with {{...}}"),
               -1;
    if (which == WIRE_S_OUT)
        p->out_path = path;
    else
        p->err_path = path;
    return 0;
}

struct args {
    char *in, *out, *err, *chdir;
    strvec_t *env;
};

static int set_path(struct cmd *c, char **dst, const char *val)
{
    free(*dst);
    *dst = absolute(c, val);
    return *dst ? 0 : -1;
}

static int parse(struct cmd *c, int argc, char **argv, struct runclient_params *p, struct args *a)
{
    const char *val;
    int key;

    while ((key = cmd_option(c, &usage, argc, argv, &val)) > 0) {
        int rc = 0;

        switch (key) {
        case 'N':
            rc = cmd_parse_u32(c, "--nodes", val, &p->run.nnodes);
            if (rc == 0 && p->run.nnodes == 0)
                return cmd_usage_error(c, "--nodes: at least one is needed");
            break;
        case 'n':
            rc = cmd_parse_u32(c, "--ntasks", val, &p->run.ntasks);
            if (rc == 0 && p->run.ntasks == 0)
                return cmd_usage_error(c, "--ntasks: at least one is needed");
            break;
        case 'c':
            rc = cmd_parse_u32(c, "--cores-per-task", val, &p->run.cores);
            if (rc == 0 && p->run.cores == 0)
                return cmd_usage_error(c, "--cores-per-task: at least one is needed");
            break;
        case 't':
            rc = cmd_parse_duration(c, "--time-limit", val, &p->run.limit);
            if (rc == 0 && p->run.limit <= 0)
                return cmd_usage_error(c, "--time-limit: has to be above 0");
            if (isinf(p->run.limit))
                p->run.limit = 0;
            break;
        case 'l':
            p->label = true;
            break;
        case 'd':
            p->run.detach = true;
            break;
        case 'i':
            rc = set_path(c, &a->in, val);
            break;
        case 'O':
            rc = set_path(c, &a->out, val);
            break;
        case 'E':
            rc = set_path(c, &a->err, val);
            break;
        case KEY_STDIN:
            if (strcmp(val, "first") != 0 && strcmp(val, "all") != 0 && strcmp(val, "none") != 0)
                return cmd_usage_error(c, "--stdin: '%s' is none of first, all, none", val);
            p->run.input = val;
            break;
        case KEY_ENV:
            rc = runclient_env(c, a->env, val);
            break;
        case KEY_CHDIR:
            rc = set_path(c, &a->chdir, val);
            break;
        }
        if (rc < 0)
            return CMD_USAGE;
    }
    return key < 0 ? cmd_option_exit(key) : -1;
}

static int run(struct cmd *c, int argc, char **argv, struct runclient_params *p, struct args *a)
{
    int code = parse(c, argc, argv, p, a);

    if (code >= 0)
        return code;
    if (argc - c->optind < 1)
        return cmd_usage_error(c, "a COMMAND is needed");
    if (p->run.ntasks && p->run.nnodes > p->run.ntasks)
        return cmd_usage_error(c, "%u tasks do not fill %u nodes: a node needs at least one",
                               p->run.ntasks, p->run.nnodes);
    if (!a->chdir && !(a->chdir = getcwd(NULL, 0)))
        return cmd_error(c, "the working directory has no name: %s", strerror(errno));
    p->argv = argv + c->optind;
    p->env = strvec_argv(a->env);
    p->fixed[WIRE_S_CWD] = a->chdir;
    p->fixed[WIRE_S_IN] = a->in;
    if (place_output(c, p, a->out, WIRE_S_OUT) < 0 || place_output(c, p, a->err, WIRE_S_ERR) < 0)
        return CMD_FAIL;
    return runclient(c, p);
}

int cmd_wreckrun(struct cmd *c, int argc, char **argv)
{
    struct runclient_params p = {.run.cores = 1, .print_id = true};
    struct args a = {.env = strvec_copy_argv(environ)};
    int code;

    runclient_standard_fds();
    code = a.env ? run(c, argc, argv, &p, &a) : cmd_error(c, "out of memory");
    strvec_destroy(a.env);
    free(a.in);
    free(a.out);
    free(a.err);
    free(a.chdir);
    return code;
}

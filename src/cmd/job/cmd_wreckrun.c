/* cmd_wreckrun.c - flux wreckrun: run a parallel program in the session and wait for it.
 *
 * The job is like any other, with two exceptions: its output is printed here, and it ends with
 * this program.  When the own broker dies, both go on with the next broker of this rank.  Three
 * requests are needed: job.submit, and as soon as the id is known, wrexec.listen and job.wait
 * concurrently (job_attach.c).
 */
#include "config.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../cmd_all.h"
#include "jobopts.h"
#include "job_attach.h"

static const struct cmd_opt opts[] = {
    CMD_OPT_HEADING("Run"),
    {'d', "detach", NULL, "print the job id and exit, like flux submit"},
    JOBOPTS_RESOURCES,
    JOBOPTS_TASKS,
    JOBOPTS_FILES,
    JOBOPTS_JOB,
    CMD_OPT_END,
};
static const struct cmd_usage usage = {
    "[OPTION...] COMMAND [ARG...] [: [-n N] [--env=...] COMMAND [ARG...]]...",
    "Run a program as a parallel job: an MPI program built with MPICH or Open MPI, or any other\n"
    "program. Output is printed here; standard input goes to task 0; SIGINT, SIGTERM, SIGHUP,\n"
    "SIGQUIT, SIGUSR1 and SIGUSR2 are forwarded to all tasks; SIGINT twice within 2 s kills them.",
    opts,
    "Exit code: the greatest exit code of all tasks, 128 + N for signal N; 127 when the program "
    "is\n"
    "not found, 126 when it cannot be executed; 124 after the time limit; the code passed to\n"
    "MPI_Abort; 130 when the job was canceled before it started.",
    CMD_STOP,
};

static int detach(struct cmd *c, jobopts_t *jo)
{
    uint64_t id;

    if (!jobopts_input(jo) && jobopts_set_stdin(jo, "none") < 0)
        return CMD_FAIL;
    cmd_hurries(c);
    if (jobopts_submit(jo, 0, &id) < 0)
        return jobopts_exit(jo);
    printf("%" PRIu64 "\n", id);
    return CMD_OK;
}

static int attached(struct cmd *c, jobopts_t *jo)
{
    const char *who = jobopts_stdin(jo);
    struct job_attach_how how = {0};
    bool reads =
        !jobopts_input(jo) && (!who || strcmp(who, "none") != 0) && job_attach_stdin_useful();
    uint64_t id;

    if (!reads && !jobopts_input(jo) && jobopts_set_stdin(jo, "none") < 0)
        return CMD_FAIL;
    cmd_hurries(c);
    cmd_returns(c);
    if (jobopts_submit(jo, JOBOPTS_CLIENT_OUTPUT | JOBOPTS_RETURNS, &id) < 0)
        return jobopts_exit(jo);
    how.label = jobopts_label(jo) && !jobopts_output(jo);
    how.reads = reads;
    return job_attach_job(c, cmd_handle(c), id, &how);
}

static int dry_run(struct cmd *c, jobopts_t *jo)
{
    char *spec = jobopts_jobspec(jo, false);
    int code = spec ? cmd_print_json(c, json_loads(spec, 0, NULL)) : jobopts_exit(jo);

    free(spec);
    return code;
}

static int run(struct cmd *c, int argc, char **argv, jobopts_t *jo)
{
    bool detached = false;
    const char *val;
    int key;

    while ((key = cmd_option(c, &usage, argc, argv, &val)) > 0) {
        if (key == 'd')
            detached = true;
        else if (jobopts_option(jo, key, val) < 0)
            return CMD_USAGE;
    }
    if (key < 0)
        return cmd_option_exit(key);
    if (argc == c->optind)
        return cmd_usage_error(c, "a COMMAND is required");
    if (jobopts_operands(jo, argv) < 0)
        return jobopts_exit(jo);
    if (jobopts_empty_files(jo) < 0)
        return CMD_FAIL;
    if (jobopts_dry_run(jo))
        return dry_run(c, jo);
    return detached ? detach(c, jo) : attached(c, jo);
}

int cmd_wreckrun(struct cmd *c, int argc, char **argv)
{
    jobopts_t *jo;
    int code;

    job_attach_standard_fds();
    jo = jobopts_create(c);
    code = jo ? run(c, argc, argv, jo) : CMD_FAIL;
    jobopts_destroy(jo);
    return code;
}

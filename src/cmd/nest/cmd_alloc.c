/* cmd_alloc.c - flux alloc: wait for an allocation, and work on it.
 *
 * The job is a session whose initial program is the command.  Where there is a terminal here, the
 * command gets a pseudo-terminal of its own (ptyend.c), and the job's standard streams connect the
 * two; otherwise the job's standard streams are this program's.  job_attach.c does the rest, as it
 * does for flux wreckrun, except that a signal cancels the job here:
 *
 *    state      what happens                                        left when (by)
 *    waiting    the job is in the queue; ^C cancels it              its launch is reported
 *                                                                   (on_started), or it has ended
 *    running    input and output are copied; the terminal is raw    it has ended (on_over)
 *    ending     a signal came, or the reader of the output is       it has ended, or a second
 *               gone: the job was canceled                          signal came (on_over)
 *
 * The job ends with this program: it was submitted as a client's, so the job service cancels it
 * when the connection is lost.  The terminal is restored on every way out (termraw.h).
 *
 * Failure: a job that is refused or never starts is reported in an error message; the exit code is
 * 1.
 */
#include "config.h"
#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "../cmd_all.h"
#include "../job/job_attach.h"
#include "../job/jobopts.h"
#include "nestjob.h"
#include "ptyend.h"
#include "ptyframe.h"
#include "termraw.h"

enum { KEY_NO_PTY = CMD_KEY(0), KEY_PTY_END };

static const struct cmd_opt opts[] = {
    CMD_OPT_HEADING("Session"),
    {KEY_NO_PTY, "no-pty", NULL, "do not allocate a pseudo-terminal for the command"},
    {KEY_PTY_END, "pty-end", NULL, "run as the remote end of a pseudo-terminal (internal use)"},
    NESTJOB_OPTION,
    JOBOPTS_RESOURCES,
    JOBOPTS_JOB,
    JOBOPTS_TASKS,
    CMD_OPT_END,
};
static const struct cmd_usage usage = {
    "[OPTION...] [COMMAND [ARG...]]",
    "Wait for an allocation, start a session on it with one broker per node, and run COMMAND, or "
    "a\n"
    "shell, in that session, with this terminal. The allocation is released when COMMAND or this\n"
    "program ends.",
    opts,
    "Exit code: that of COMMAND; 124 when the time limit was reached, 130 after ^C while the job "
    "was\n"
    "pending; 1 when there was no allocation. Without a terminal, standard input and output are\n"
    "passed through as in a pipe.",
    CMD_STOP,
};

struct alloc {
    struct cmd *c;
    bool pty;
    termraw_t *raw;
};

/* --- the terminal --- */

static void send_size(job_attach_t *ja)
{
    uint8_t frame[PTYFRAME_SIZE_LEN];
    struct winsize ws;

    if (ioctl(STDIN_FILENO, TIOCGWINSZ, &ws) < 0)
        ws = (struct winsize){.ws_row = 24, .ws_col = 80};
    job_attach_input(ja, frame, ptyframe_size(frame, ws.ws_row, ws.ws_col));
}

static void on_started(void *arg, job_attach_t *ja)
{
    struct alloc *a = arg;
    errmsg_t err;

    if (!(a->raw = termraw_start(STDIN_FILENO, &err)))
        cmd_error(a->c, "%s", err.text);
    a->c->raw = a->raw != NULL;
    send_size(ja);
}

static void on_signal(void *arg, job_attach_t *ja, int signum)
{
    struct alloc *a = arg;

    if (signum == SIGCONT)
        termraw_again(a->raw);
    send_size(ja);
}

static void on_over(void *arg)
{
    struct alloc *a = arg;

    termraw_stop(a->raw);
    a->raw = NULL;
    a->c->raw = false;
}

static size_t on_frame(void *arg, void *head, size_t len)
{
    if (len == 0)
        return ptyframe_hup(head);
    ptyframe_data(head, len);
    return PTYFRAME_HEAD;
}

static const struct job_attach_term term = {
    .max = PTYFRAME_DATA_MAX,
    .head = PTYFRAME_HEAD,
    .room = 2 * PTYFRAME_SIZE_LEN,
    .started = on_started,
    .signal = on_signal,
    .over = on_over,
    .frame = on_frame,
};

/* --- the whole --- */

/* [flux alloc --pty-end --] COMMAND, on its session. */
static int make_command(struct alloc *a, jobopts_t *jo, const strvec_t *start, char **argv)
{
    const char *shell = getenv("SHELL");
    char *const shell_argv[] = {(char *)(shell && *shell ? shell : "/bin/sh"), NULL};
    char *const *av = *argv ? argv : shell_argv;
    strvec_t *v = strvec_create();
    char *self = a->pty ? nestjob_self(a->c) : NULL;
    int rc = a->pty && !self ? -1 : 0;

    if (self)
        rc = strvec_add(v, self) < 0 || strvec_add(v, "alloc") < 0 ||
                     strvec_add(v, "--pty-end") < 0 || strvec_add(v, "--") < 0
                 ? -1
                 : 0;
    for (; rc == 0 && *av; av++)
        rc = strvec_add(v, *av);
    if (rc == 0)
        rc = nestjob_command(a->c, jo, start, strvec_argv(v));
    if (rc == 0 && !jobopts_name(jo))
        rc = jobopts_option(jo, JOBOPTS_KEY_NAME, *argv ? *argv : "alloc") < 0 ? -1 : 0;
    free(self);
    strvec_destroy(v);
    return rc;
}

static int alloc(struct alloc *a, jobopts_t *jo, strvec_t *start, int argc, char **argv)
{
    struct cmd *c = a->c;
    struct job_attach_how how = {
        .reads = true, .cancel_note = "flux alloc was interrupted", .arg = a};
    const char *val;
    bool far_end = false;
    uint64_t id;
    int key;

    a->pty = isatty(STDIN_FILENO) && isatty(STDOUT_FILENO);
    while ((key = cmd_option(c, &usage, argc, argv, &val)) > 0) {
        int rc = jobopts_option(jo, key, val);

        if (rc < 0)
            return CMD_USAGE;
        if (key == KEY_NO_PTY)
            a->pty = false;
        else if (key == KEY_PTY_END)
            far_end = true;
        else if (key == NESTJOB_KEY_START && strvec_add(start, val) < 0)
            return cmd_error(c, "out of memory");
    }
    if (key < 0)
        return cmd_option_exit(key);
    argv += c->optind;
    if (far_end)
        return *argv ? ptyend_run(argv) : cmd_usage_error(c, "--pty-end: a COMMAND is required");
    if (make_command(a, jo, start, argv) < 0)
        return CMD_FAIL;
    if (jobopts_dry_run(jo)) {
        char *spec = jobopts_jobspec(jo, false);
        if (spec)
            puts(spec);
        free(spec);
        return spec ? CMD_OK : CMD_FAIL;
    }
    cmd_returns(c);
    if (jobopts_submit(jo, JOBOPTS_CLIENT_OUTPUT | JOBOPTS_RETURNS, &id) < 0)
        return CMD_FAIL;
    how.term = a->pty ? &term : NULL;
    return job_attach_job(c, cmd_handle(c), id, &how);
}

int cmd_alloc(struct cmd *c, int argc, char **argv)
{
    struct alloc a = {.c = c};
    strvec_t *start = strvec_create();
    jobopts_t *jo;
    int rc = CMD_FAIL;

    job_attach_standard_fds();
    if (!start)
        return cmd_error(c, "out of memory");
    if ((jo = jobopts_create(c)))
        rc = alloc(&a, jo, start, argc, argv);
    jobopts_destroy(jo);
    strvec_destroy(start);
    return rc;
}

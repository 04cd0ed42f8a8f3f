/* cmd_alloc.c - flux alloc: wait for an allocation, and work on it.
 *
 * The job is a session; its initial program is the command, on a terminal of its own (ptyend.c)
 * that is joined to this one by the job's standard streams, or on these streams where there is no
 * terminal.
 *
 *    state      what happens                                           left when
 *    waiting    the job is in the queue; ^C cancels it                 notice of the launch, or its end
 *    running    bytes both ways; the terminal is raw                   result
 *    ending     it was canceled: SIGTERM, SIGHUP, output that nobody
 *               reads; a second signal does not wait for it            result
 *
 * The job goes with this program: it was submitted as a client's, so the service cancels it when
 * the connection is gone.  The terminal is given back on every way out (termraw.h).
 *
 * Failure: a job that is refused or never starts is a sentence and exit code 1.
 */
#include "config.h"
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "../cmd_all.h"
#include "../job/jobopts.h"
#include "../job/job_stdio.h"
#include "../job/job_waitline.h"
#include "libjob/job.h"
#include "libutil/fdutil.h"
#include "nestjob.h"
#include "ptyend.h"
#include "ptyframe.h"
#include "../job/job_attach.h"
#include "../sigwatch.h"
#include "termraw.h"

enum { KEY_NO_PTY = CMD_KEY(0), KEY_PTY_END };

static const struct cmd_opt opts[] = {
    CMD_OPT_HEADING("Session"),
    {KEY_NO_PTY, "no-pty", NULL, "no terminal for the command, also when there is one here"},
    {KEY_PTY_END, "pty-end", NULL, "be the far end of a terminal: used on the allocation"},
    NESTJOB_OPTION,
    JOBOPTS_RESOURCES,
    JOBOPTS_JOB,
    JOBOPTS_TASKS,
    CMD_OPT_END,
};
static const struct cmd_usage usage = {
    "[OPTION...] [COMMAND [ARG...]]",
    "Wait for an allocation, start a session on it, with one broker on each node, and run COMMAND\n"
    "in that, or a shell, with this terminal. The allocation is given back when it ends, or when\n"
    "this program does.",
    opts,
    "The exit code is COMMAND's; 124 when its time was up, 130 after ^C while it waited; 1 when\n"
    "there was no allocation. Without a terminal, standard input and output are COMMAND's.",
    CMD_STOP,
};

struct alloc {
    struct cmd *c;
    flux_t *h;
    struct job_stdio s;
    bool pty;
    bool running, ending, finished;
    int code;
    int signalled;
    termraw_t *raw;
    flux_future_t *listen, *wait, *cancel;
    flux_watcher_t *in;
    size_t room; /* for standard input */
    bool in_open;
    job_waitline_t *tell; /* that it waits */
    char *note;           /* what ended it */
    char *said;           /* the last notice: the end is not told twice */
};

static void finish(struct alloc *a, int code)
{
    a->finished = a->s.over = true;
    a->code = code;
    if (job_stdio_waiting(&a->s) == 0)
        flux_reactor_stop(flux_get_reactor(a->h), 0);
}

static void give_up(struct alloc *a, int code)
{
    a->finished = a->s.over = true;
    a->code = code;
    flux_reactor_stop(flux_get_reactor(a->h), 0);
}

static void stop_telling(struct alloc *a)
{
    job_waitline_stop(a->tell);
    a->tell = NULL;
}

/* In raw mode a line feed does not go back to the left. */
static const char *line_end(const struct alloc *a)
{
    return a->raw ? "\r\n" : "\n";
}

static void say(const struct alloc *a, const char *text)
{
    cmd_progress_end(a->c);
    fprintf(stderr, "flux alloc: job %" PRIu64 ": %s%s", a->s.id, text, line_end(a));
}

/* --- input --- */

static void send_stdin(struct alloc *a, const void *head, size_t headlen, const void *data,
                       size_t len)
{
    size_t n = headlen + len;

    (void)job_stdio_input(&a->s, head, headlen, data, len);
    a->room -= a->room < n ? a->room : n;
}

static void send_size(struct alloc *a)
{
    uint8_t frame[PTYFRAME_SIZE_LEN];
    struct winsize ws;

    if (!a->pty || !a->running || !a->in_open)
        return;
    if (ioctl(STDIN_FILENO, TIOCGWINSZ, &ws) < 0)
        ws = (struct winsize){.ws_row = 24, .ws_col = 80};
    send_stdin(a, frame, ptyframe_size(frame, ws.ws_row, ws.ws_col), NULL, 0);
}

static void input_over(struct alloc *a)
{
    uint8_t frame[PTYFRAME_HEAD];

    flux_watcher_stop(a->in);
    a->in_open = false;
    if (a->pty)
        send_stdin(a, frame, ptyframe_hup(frame), NULL, 0);
    send_stdin(a, NULL, 0, NULL, 0);
}

static void in_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    struct alloc *a = arg;
    char data[PTYFRAME_DATA_MAX];
    uint8_t head[PTYFRAME_HEAD];
    size_t spare = a->pty ? 2 * PTYFRAME_SIZE_LEN : 0; /* a SIZE always has room */
    size_t want = a->room > spare ? a->room - spare : 0;
    ssize_t n;

    if (want == 0) {
        flux_watcher_stop(w);
        return;
    }
    n = read(STDIN_FILENO, data, want < sizeof(data) ? want : sizeof(data));
    if (n < 0 && (errno == EINTR || errno == EAGAIN))
        return;
    if (n <= 0) {
        input_over(a);
        return;
    }
    if (a->pty)
        ptyframe_data(head, (size_t)n);
    send_stdin(a, head, a->pty ? sizeof(head) : 0, data, (size_t)n);
    if (a->room <= spare)
        flux_watcher_stop(w);
}

/* --- the beginning, the end --- */

static void begin(struct alloc *a)
{
    errmsg_t err;

    a->running = true;
    stop_telling(a);
    if (a->ending)
        return;
    if (a->pty && !(a->raw = termraw_start(STDIN_FILENO, &err)))
        say(a, err.text);
    a->room = WIRE_STDIN_WINDOW;
    a->in_open = true;
    send_size(a);
    if ((a->in =
             flux_fd_watcher_create(flux_get_reactor(a->h), STDIN_FILENO, FLUX_POLLIN, in_cb, a)))
        flux_watcher_start(a->in);
}

static void canceled_cb(flux_future_t *f, void *arg)
{
    struct alloc *a = arg;

    if (flux_future_errnum(f) && !a->finished)
        say(a, flux_future_error(f));
}

static void end_it(struct alloc *a, int signum)
{
    char ids[24];

    if (a->ending) {
        give_up(a, 128 + a->signalled);
        return;
    }
    a->ending = true;
    a->signalled = signum;
    flux_watcher_stop(a->in);
    snprintf(ids, sizeof(ids), "%" PRIu64, a->s.id);
    a->cancel = flux_job_cancel(a->h, ids, "flux alloc was interrupted");
    if (!a->cancel || flux_future_then(a->cancel, -1., canceled_cb, a) < 0)
        give_up(a, 128 + signum);
}

static void on_signal(int signum, void *arg)
{
    struct alloc *a = arg;

    if (signum == SIGCONT)
        termraw_again(a->raw);
    if (signum == SIGCONT || signum == SIGWINCH)
        send_size(a);
    else
        end_it(a, signum);
}

static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGWINCH, SIGCONT};

/* --- output --- */

static void sink_failed(void *arg, int errnum)
{
    struct alloc *a = arg;

    if (errnum != EPIPE && !a->ending)
        fprintf(stderr, "flux alloc: cannot write output: %s%s", strerror(errnum), line_end(a));
    if (a->finished)
        give_up(a, a->code);
    else if (!a->ending)
        end_it(a, SIGPIPE);
}

static void sink_drained(void *arg)
{
    struct alloc *a = arg;

    if (a->finished)
        finish(a, a->code);
    else
        job_stdio_pay_back(&a->s);
}

/* Of brokers that complain, while the terminal is raw. */
static void write_lines(struct alloc *a, const char *p, size_t len)
{
    while (len > 0) {
        const char *nl = memchr(p, '\n', len);
        size_t n = nl ? (size_t)(nl - p) : len;

        outsink_write(a->s.sink[1], p, n);
        if (nl) {
            outsink_write(a->s.sink[1], "\r\n", 2);
            n++;
        }
        p += n;
        len -= n;
    }
}

static void write_record(void *arg, const struct wire_record *rec)
{
    struct alloc *a = arg;

    if (rec->stream == 2 && a->raw)
        write_lines(a, (const char *)rec->data, rec->len);
    else
        outsink_write(a->s.sink[rec->stream - 1], rec->data, rec->len);
}

static void output(struct alloc *a, const void *data, size_t len)
{
    if (job_stdio_output(&a->s, data, len, write_record, a) < 0) {
        say(a, "output arrived damaged: the brokers are of another version?");
        give_up(a, CMD_FAIL);
    }
}

/* --- responses --- */

/* How it ended is what the job service says: the one result there is. */
static void ended_cb(flux_future_t *f, void *arg)
{
    struct alloc *a = arg;
    struct job_ended e = {0};
    const json_t *ended;
    errmsg_t err;
    int code;

    if (a->finished)
        return;
    if (flux_job_wait_get(f, &ended, &err) < 0 || flux_job_wait_at(ended, 0, &e, &err) < 0) {
        say(a, err.text);
        give_up(a, CMD_FAIL);
        return;
    }
    code = e.error ? CMD_FAIL : e.code;
    termraw_stop(a->raw);
    a->raw = NULL;
    stop_telling(a);
    if (a->ending)
        code = 128 + a->signalled;
    else if (!a->running && a->note && !e.text && !e.code)
        say(a, a->note);
    else
        job_waitline_ended(a->c, &e, a->said, JOBTELL_TASKS);
    finish(a, code);
}

static void wait_for_end(struct alloc *a)
{
    char ids[24];

    if (a->wait || a->finished)
        return;
    snprintf(ids, sizeof(ids), "%" PRIu64, a->s.id);
    a->wait = flux_job_wait(a->h, ids);
    if (!a->wait || flux_future_then(a->wait, -1., ended_cb, a) < 0) {
        say(a, "out of memory");
        give_up(a, CMD_FAIL);
    }
}

static void on_notice(struct alloc *a, const char *json, size_t len)
{
    struct wrexec_notice n = {0};
    json_t *obj = flux_schema_decode(&wrexec_notice_schema, json, len, &n, NULL);

    if (!obj)
        return;
    if (n.text && a->running) {
        say(a, n.text);
        free(a->said);
        a->said = strdup(n.text);
    }
    if (n.taken && a->in_open) {
        a->room += n.taken;
        flux_watcher_start(a->in);
    }
    if (!a->running)
        begin(a);
    json_decref(obj);
}

static void listen_cb(flux_future_t *f, void *arg)
{
    struct alloc *a = arg;
    const flux_msg_t *msg = flux_rpc_get_msg(f);
    const void *data;
    size_t len;

    if (flux_future_errnum(f) || !msg) {
        if (!a->note)
            a->note = strdup(flux_future_error(f));
        wait_for_end(a);
        return;
    }
    data = flux_msg_payload(msg, &len);
    if (flux_msg_has_flag(msg, FLUX_MSGF_RAW))
        output(a, data, len);
    else if (flux_msg_has_flag(msg, FLUX_MSGF_STREAMING))
        on_notice(a, data, len);
    else {
        wait_for_end(a);
        return;
    }
    if (!a->finished)
        flux_future_next(f);
}

/* --- the whole --- */

static int listen_to(struct alloc *a)
{
    struct wrexec_listen l = {.id = a->s.id, .window = WREXEC_CLIENT_WINDOW, .input = true};

    a->listen =
        flux_rpc_struct(a->h, "wrexec.listen", &wrexec_listen_schema, &l, 0, FLUX_MSGF_STREAMING);
    return a->listen && flux_future_then(a->listen, -1., listen_cb, a) == 0 ? 0 : -1;
}

static int relay(struct alloc *a)
{
    flux_reactor_t *r = flux_get_reactor(a->h);
    const struct outsink_cb cb = {sink_failed, sink_drained, a};
    sigwatch_t *w = sigwatch_create(r, signals, sizeof(signals) / sizeof(signals[0]), on_signal, a);

    signal(SIGPIPE, SIG_IGN);
    a->s.h = a->h;
    a->code = CMD_FAIL;
    a->tell = job_waitline_start(a->c, a->h, a->s.id, "^C cancels it");
    if (!w || job_stdio_open(&a->s, &cb) < 0 || listen_to(a) < 0)
        cmd_error(a->c, "out of memory");
    else if (flux_run(a->h) < 0 && !a->finished)
        say(a, "the connection to the broker was lost");
    stop_telling(a);
    termraw_stop(a->raw);
    flux_watcher_destroy(a->in);
    sigwatch_destroy(w);
    flux_future_destroy(a->listen);
    flux_future_destroy(a->wait);
    flux_future_destroy(a->cancel);
    job_stdio_close(&a->s);
    free(a->note);
    free(a->said);
    return a->code;
}

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
    const char *val;
    bool far_end = false;
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
        return *argv ? ptyend_run(argv) : cmd_usage_error(c, "--pty-end: a COMMAND is needed");
    if (make_command(a, jo, start, argv) < 0)
        return CMD_FAIL;
    if (jobopts_dry_run(jo)) {
        char *spec = jobopts_jobspec(jo, false);
        if (spec)
            puts(spec);
        free(spec);
        return spec ? CMD_OK : CMD_FAIL;
    }
    if (!(a->h = cmd_handle_signals(c)) ||
        jobopts_submit(jo, a->h, JOBOPTS_CLIENT_OUTPUT, &a->s.id) < 0)
        return CMD_FAIL;
    return relay(a);
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

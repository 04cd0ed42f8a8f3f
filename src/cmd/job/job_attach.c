/* job_attach.c - run something in the session, attached: a job (flux wreckrun, flux alloc) or
 * processes beside brokers (flux exec).
 *
 * A stream from rank 0 follows them (job_stream.c), which starts them, or has the id of a job that
 * was submitted.  It goes on when a broker on the way dies.
 *
 *    output        records of tasks; written, then paid back as credit
 *    stdin         read when the service has room (its window), sent to the tasks that read it
 *    SIGINT        forwarded; a second one within two seconds kills everything
 *    SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2   forwarded
 *
 * A job that waits for resources has no tasks yet: SIGINT, SIGTERM, SIGHUP and SIGQUIT cancel it,
 * the other signals are kept until it has started.  With a cancel_note (flux alloc) they cancel it
 * also while it runs, and a second one does not wait for its end.  Signals and cancels are sent by
 * a courier, in order, and again when their receiver had no room or a broker on their way died:
 * their numbers tell the receiver what it has already.  An error message reports one that could not
 * be delivered.
 *
 *    what arrives for a job      this program ends when
 *    the stream's result         the job service has reported its end, too: the record is complete
 *    ENOENT from the stream      the same: the job ended without having been started
 *    another error               at once
 *
 * Where its own broker dies, this program returns to the next one of the rank (cmd_returns()): the
 * stream is resumed, and a job that ends with this program is claimed again (job.claim).
 *
 * A terminal (struct job_attach_term) puts input into frames and is in raw mode while there are
 * tasks; c->raw then makes lines of error messages, and of the tasks' standard error, end with
 * CRLF.
 *
 * Output never blocks this program (taskout.c); queued output is bounded by the credit (1 MiB) of
 * the service.  When the reader of the output is gone (EPIPE), this program ends as by SIGPIPE, and
 * the service ends the job.
 */
#include "config.h"
#include "job_attach.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../resource/cmd_res.h"
#include "libflux/courier.h"
#include "libflux/sigwatch.h"
#include "libjob/job.h"
#include "libjob/job_wire.h"
#include "libsubprocess/spawn.h"
#include "libutil/fdutil.h"
#include "libutil/strutil.h"
#include "job_stream.h"
#include "job_waitline.h"
#include "jobwait.h"
#include "taskout.h"

#define SECOND_INTERRUPT 2.0
#define STDIN_READ 65536

struct job_attach {
    struct cmd *c;
    flux_t *h;
    uint64_t id; /* of the job, or program */
    job_stream_t *stream;
    outsink_t *sink[2];
    bool job;      /* else processes beside brokers */
    bool finished; /* the loop runs only for waiting output */
    bool result;   /* the stream is over */
    bool started;
    int code;
    char *text;  /* the stream's own sentence */
    char *said;  /* the last notice: the end is not reported twice */
    bool warned; /* what of its request is not done */
    bool name_failed;
    struct job_ended ended; /* of `wait` */
    taskout_t *out;
    bool label_rank;
    idset_t *ranks;
    flux_watcher_t *in;
    size_t in_room;
    bool in_open;
    struct job_attach_how how;
    double interrupted;
    int pending_signal;        /* came before there were tasks */
    uint32_t nsignals;         /* sent to processes beside brokers */
    int canceled_by;           /* signal, or 0 */
    courier_t *acts;           /* of signals and cancels */
    jobwait_t *wait;           /* the end of the job */
    flux_future_t *claim;      /* of the job, after a return to the broker; NULL: none */
    job_waitline_t *tell;      /* that it waits */
    struct wrexec_result *res; /* NULL: none */
    json_t *res_owner;
};

static void input_over(struct job_attach *rc)
{
    flux_watcher_stop(rc->in);
    rc->in_open = false;
    if (rc->how.term)
        rc->how.term->over(rc->how.arg);
}

static void stop(struct job_attach *rc, int code)
{
    input_over(rc);
    rc->finished = true;
    rc->code = code;
    flux_reactor_stop(flux_get_reactor(rc->h), 0);
}

/* Bytes of output that wait for room. */
static size_t waiting(const struct job_attach *rc)
{
    return outsink_waiting(rc->sink[0]) + outsink_waiting(rc->sink[1]);
}

/* The loop runs while output waits for its reader. */
static void finish(struct job_attach *rc, int code)
{
    rc->finished = true;
    rc->code = code;
    if (waiting(rc) == 0)
        stop(rc, code);
}

/* --- output --- */

static void cancel(struct job_attach *rc, int signum);

static void sink_failed(void *arg, int errnum)
{
    struct job_attach *rc = arg;

    if (rc->how.cancel_note) {
        if (errnum != EPIPE && !rc->canceled_by)
            cmd_error(rc->c, "cannot write output: %s", strerror(errnum));
        if (rc->finished)
            stop(rc, rc->code);
        else if (!rc->canceled_by)
            cancel(rc, SIGPIPE);
    } else if (errnum == EPIPE)
        stop(rc, 128 + SIGPIPE);
    else
        stop(rc, cmd_error(rc->c, "cannot write output: %s", strerror(errnum)));
}

static void sink_drained(void *arg)
{
    struct job_attach *rc = arg;

    job_stream_pay(rc->stream, waiting(rc));
    if (rc->finished)
        finish(rc, rc->code);
}

/* Complaints of brokers, while the terminal is raw. */
static void write_raw_lines(outsink_t *s, const char *p, size_t len)
{
    while (len > 0) {
        const char *nl = memchr(p, '\n', len);
        size_t n = nl ? (size_t)(nl - p) : len;

        outsink_write(s, p, n);
        if (nl) {
            outsink_write(s, "\r\n", 2);
            n++;
        }
        p += n;
        len -= n;
    }
}

static void write_record(struct job_attach *rc, const struct wire_record *rec)
{
    if (rec->stream == 2 && rc->c->raw)
        write_raw_lines(rc->sink[1], (const char *)rec->data, rec->len);
    else
        taskout_write(rc->out, rec->task, rec->stream, rec->data, rec->len);
}

static void on_output(void *arg, const void *data, size_t len)
{
    struct job_attach *rc = arg;
    struct wire_record rec;
    int ok;

    if (rc->finished)
        return;
    while ((ok = exec_wire_record_next(&data, &len, &rec)) == 1)
        write_record(rc, &rec);
    if (ok == 0)
        job_stream_pay(rc->stream, waiting(rc));
    else
        stop(rc,
             cmd_error(rc->c,
                       "the output was received damaged: do the brokers have another version?"));
}

static int open_output(struct job_attach *rc, bool label)
{
    const struct outsink_cb cb = {sink_failed, sink_drained, rc};
    const struct taskout_params p = {.label = label};

    rc->sink[0] = outsink_create(flux_get_reactor(rc->h), STDOUT_FILENO, &cb);
    rc->sink[1] = outsink_create(flux_get_reactor(rc->h), STDERR_FILENO, &cb);
    if (!rc->sink[0] || !rc->sink[1] || !(rc->out = taskout_create(&p, rc->sink[0], rc->sink[1])))
        return cmd_error(rc->c, "out of memory"), -1;
    return 0;
}

/* --- input --- */

static void send_input(struct job_attach *rc, const void *head, size_t headlen, const void *data,
                       size_t len)
{
    size_t n = headlen + len;

    (void)job_stream_input(rc->stream, head, headlen, data, len);
    rc->in_room -= rc->in_room < n ? rc->in_room : n;
}

void job_attach_input(job_attach_t *rc, const void *data, size_t len)
{
    if (rc->in_open)
        send_input(rc, NULL, 0, data, len);
}

static void stdin_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    static const struct job_attach_term plain = {.max = STDIN_READ};
    struct job_attach *rc = arg;
    const struct job_attach_term *t = rc->how.term ? rc->how.term : &plain;
    size_t kept = t->head + t->room, want = rc->in_room > kept ? rc->in_room - kept : 0;
    char data[STDIN_READ];
    uint8_t head[JOB_ATTACH_HEAD];
    ssize_t n;

    if (want == 0) {
        flux_watcher_stop(w);
        return;
    }
    n = read(STDIN_FILENO, data, want < t->max ? want : t->max);
    if (n < 0 && (errno == EINTR || errno == EAGAIN))
        return;
    if (n > 0) {
        send_input(rc, head, t->frame ? t->frame(rc->how.arg, head, (size_t)n) : 0, data,
                   (size_t)n);
        if (rc->in_room <= kept)
            flux_watcher_stop(w);
        return;
    }
    if (t->frame)
        send_input(rc, head, t->frame(rc->how.arg, head, 0), NULL, 0);
    send_input(rc, NULL, 0, NULL, 0);
    flux_watcher_stop(w);
    rc->in_open = false;
}

bool job_attach_stdin_useful(void)
{
    struct stat st;

    if (fstat(STDIN_FILENO, &st) < 0)
        return false;
    if (S_ISCHR(st.st_mode) && major(st.st_rdev) == 1 && minor(st.st_rdev) == 3)
        return false;
    /* In the background a terminal is not ours to read. */
    return !isatty(STDIN_FILENO) || tcgetpgrp(STDIN_FILENO) == getpgrp();
}

static void stdin_start(struct job_attach *rc)
{
    rc->in_room = WIRE_STDIN_WINDOW;
    rc->in_open = true;
    rc->in =
        flux_fd_watcher_create(flux_get_reactor(rc->h), STDIN_FILENO, FLUX_POLLIN, stdin_cb, rc);
    if (rc->how.term)
        rc->how.term->started(rc->how.arg, rc);
    if (rc->in)
        flux_watcher_start(rc->in);
}

/* --- signals --- */

static bool is_waiting(const struct job_attach *rc)
{
    return rc->job && !rc->started && !rc->result;
}

static char *id_text(const struct job_attach *rc, char buf[24])
{
    snprintf(buf, 24, "%" PRIu64, rc->id);
    return buf;
}

/* What was too late for tasks that are gone is not missed. */
static void act_failed(void *arg, const char *topic, int errnum, const char *why)
{
    struct job_attach *rc = arg;

    if (rc->finished || rc->result || errnum == ENOENT)
        return;
    cmd_error(rc->c, "%s: %s",
              strcmp(topic, "job.cancel") == 0 ? "the job has possibly not been canceled"
                                               : "a signal has possibly not reached the tasks",
              why);
}

static void act(struct job_attach *rc, const char *topic, uint32_t nodeid,
                const struct flux_schema *desc, const void *in)
{
    char *json = flux_schema_encode(desc, in);

    if (!json || courier_post_json(rc->acts, topic, nodeid, json) < 0)
        act_failed(rc, topic, ENOMEM, "out of memory");
}

static void forward(struct job_attach *rc, int signum)
{
    char id[24];
    struct job_cancel cancel = {id_text(rc, id), NULL, flux_job_number(rc->h)};
    struct job_kill sig = {id, signum, flux_job_number(rc->h)};
    struct wrexec_signal s = {rc->id, signum, rc->nsignals + 1};

    if (is_waiting(rc) && signum != SIGUSR1 && signum != SIGUSR2) {
        rc->canceled_by = signum == SIGKILL ? SIGINT : signum;
        act(rc, "job.cancel", FLUX_NODEID_ANY, &job_cancel_schema, &cancel);
    } else if (!rc->started) {
        rc->pending_signal = signum;
    } else if (rc->job) {
        act(rc, "job.kill", FLUX_NODEID_ANY, &job_kill_schema, &sig);
    } else {
        rc->nsignals++;
        act(rc, "wrexec.signal", 0, &wrexec_signal_schema, &s);
    }
}

static void cancel(struct job_attach *rc, int signum)
{
    char id[24];
    struct job_cancel cancel = {id_text(rc, id), rc->how.cancel_note, flux_job_number(rc->h)};

    input_over(rc);
    rc->canceled_by = signum;
    act(rc, "job.cancel", FLUX_NODEID_ANY, &job_cancel_schema, &cancel);
}

static void on_signal(const struct signalfd_siginfo *info, void *arg)
{
    struct job_attach *rc = arg;
    int signum = (int)info->ssi_signo;
    double now = flux_now(rc->h);

    if (signum == SIGWINCH || signum == SIGCONT) {
        if (rc->how.term)
            rc->how.term->signal(rc->how.arg, rc, signum);
        return;
    }
    if (rc->how.cancel_note) {
        if (rc->canceled_by)
            stop(rc, 128 + rc->canceled_by);
        else
            cancel(rc, signum);
        return;
    }
    if (signum == SIGINT && rc->interrupted > 0 && now - rc->interrupted < SECOND_INTERRUPT) {
        signum = SIGKILL;
        /* Its tasks are gone, or out of reach; or the broker is away: the job ends with this. */
        if ((rc->job && rc->result) || job_stream_away(rc->stream)) {
            stop(rc, 128 + SIGINT);
            return;
        }
    }
    if (signum == SIGINT) {
        rc->interrupted = now;
        if (isatty(STDERR_FILENO) && rc->started)
            fprintf(stderr,
                    "flux %s: interrupt sent to the tasks; a second one within 2 s kills them\n",
                    rc->c->name);
    }
    forward(rc, signum);
}

/* The last two go to the tasks, or say that the terminal is another. */
static const int task_signals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};
static const int term_signals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGWINCH, SIGCONT};
#define NSIGNALS (sizeof(task_signals) / sizeof(task_signals[0]))

/* --- responses --- */

/* Beside brokers: who failed, where and how.  When the loop is over, since hosts are asked for. */
static void print_ranks(struct job_attach *rc)
{
    json_t *failed = rc->res ? rc->res->failed : NULL, *one, *pair;
    struct res res = {0};
    size_t i, n = 0, all = 0;
    bool hosts;

    json_array_foreach(rc->res->status, i, pair)
    {
        idset_t *tasks = json_integer_value(json_array_get(pair, 0))
                             ? idset_parse(json_string_value(json_array_get(pair, 1)), NULL)
                             : NULL;

        all += idset_count(tasks);
        idset_destroy(tasks);
    }
    hosts = json_array_size(failed) > 0 && res_query(rc->c, &res, false) == 0;
    json_array_foreach(failed, i, one)
    {
        uint32_t rank = (uint32_t)json_integer_value(json_array_get(one, 1));
        int st = (int)json_integer_value(json_array_get(one, 2));
        const char *host = hosts ? res_host(&res, rank) : NULL;
        char text[128], where[160] = "";

        if (host)
            snprintf(where, sizeof(where), " on %.128s", host);
        spawn_status_text(st, text, sizeof(text));
        cmd_error(rc->c, "rank %u%s: %s", rank, where, text);
        n++;
    }
    if (n > 0 && all > n)
        cmd_error(rc->c, "%zu more ranks failed", all - n);
    if (hosts)
        res_clear(&res);
}

/* Everything is known: of a job also what its service says. */
static void conclude(struct job_attach *rc, const struct job_ended *e)
{
    int code = e ? e->code : rc->res ? rc->res->code : CMD_FAIL;

    if (rc->finished)
        return;
    job_waitline_stop(rc->tell);
    rc->tell = NULL;
    input_over(rc);
    if (rc->canceled_by)
        code = 128 + rc->canceled_by;
    else if (e && e->error)
        code = CMD_FAIL;
    else if (!e && rc->text && (!rc->said || strcmp(rc->said, rc->text) != 0))
        cmd_error(rc->c, "%s", rc->text);
    if (e)
        rc->ended = *e;
    if (rc->warned)
        rc->ended.warning = NULL;
    rc->name_failed = !rc->canceled_by && (e || (code && rc->res && !rc->text));
    finish(rc, code);
}

static void wait_cb(flux_future_t *f, void *arg)
{
    struct job_attach *rc = arg;
    const json_t *page;
    struct job_ended e = {0};
    errmsg_t err;

    if (rc->finished)
        return;
    /* The stream has what comes before the end; and `ended` points into what was read here. */
    if (!rc->result) {
        if (!flux_future_errnum(f))
            job_stream_ended(rc->stream);
        return;
    }
    if (flux_job_wait_get(f, &page, &err) < 0 || flux_job_wait_at(page, 0, &e, &err) < 0)
        stop(rc, cmd_error(rc->c, "%s", err.text));
    else
        conclude(rc, &e);
}

static void stream_over(struct job_attach *rc)
{
    flux_future_t *f;

    rc->result = true;
    taskout_finish(rc->out);
    if (rc->job && !rc->tell && !rc->how.cancel_note)
        rc->tell = job_waitline_start(rc->c, rc->h, rc->id, "^C twice detaches");
    if (!rc->job)
        conclude(rc, NULL);
    else if ((f = jobwait_answer(rc->wait)))
        wait_cb(f, rc);
}

static void on_result(void *arg, const char *json, size_t len)
{
    struct job_attach *rc = arg;
    static const struct wrexec_result none;
    errmsg_t err;

    if (rc->finished)
        return;
    if (!(rc->res = malloc(sizeof(*rc->res)))) {
        stop(rc, cmd_error(rc->c, "out of memory"));
        return;
    }
    *rc->res = none;
    rc->res_owner = flux_schema_decode(&wrexec_result_schema, json, len, rc->res, &err);
    if (!rc->res_owner) {
        stop(rc, cmd_error(rc->c, "%s", err.text));
        return;
    }
    rc->text = rc->res->text ? strdup(rc->res->text) : NULL;
    stream_over(rc);
}

static void on_notice(void *arg, const struct wrexec_notice *n)
{
    struct job_attach *rc = arg;

    if (rc->finished)
        return;
    if (n->text) {
        cmd_error(rc->c, "%s", n->text);
        free(rc->said);
        rc->said = strdup(n->text);
    }
    if (n->warning) {
        cmd_error(rc->c, "job %" PRIu64 ": warning: %s", rc->id, n->warning);
        rc->warned = true;
    }
    if (n->taken && rc->in && rc->in_open) {
        rc->in_room += n->taken;
        flux_watcher_start(rc->in);
    }
    if (!rc->started) {
        rc->started = true;
        rc->id = n->id;
        job_waitline_stop(rc->tell);
        rc->tell = NULL;
        if (n->ranks && rc->label_rank && (rc->ranks = idset_parse(n->ranks, NULL)))
            taskout_set_ranks(rc->out, rc->ranks);
        if (rc->pending_signal)
            forward(rc, rc->pending_signal);
        if (rc->how.reads && !(rc->how.cancel_note && rc->canceled_by))
            stdin_start(rc);
    }
}

/* Processes beside brokers end with the broker of this command.  Nobody can say how. */
static int broker_lost(struct job_attach *rc)
{
    const char *lost = "the connection to the broker was lost";

    if (rc->job)
        return cmd_error(rc->c, "%s", lost);
    return cmd_error(rc->c,
                     "the broker of rank %u, to which this command was connected, was lost: "
                     "its processes end, too, and their exit codes are not known",
                     flux_rank(rc->h));
}

static void on_failure(void *arg, int errnum, const char *why)
{
    struct job_attach *rc = arg;

    if (rc->finished)
        return;
    /* Nobody has its streams any more; what became of it its service tells. */
    if (rc->job && (rc->started || errnum == ENOENT))
        stream_over(rc);
    else
        stop(rc, errnum == EPIPE ? broker_lost(rc) : cmd_error(rc->c, "%s", why));
}

/* --- a broker that was started again --- */

static void claim_cb(flux_future_t *f, void *arg)
{
    struct job_attach *rc = arg;
    int errnum = flux_future_errnum(f);

    if (errnum && errnum != ENOENT && !rc->finished)
        cmd_error(rc->c, "the job does not end with this program: %s", flux_future_error(f));
}

/* Where the former broker was lost, the job waits for this. */
static void back(void *arg)
{
    struct job_attach *rc = arg;

    flux_future_destroy(rc->claim);
    rc->claim = flux_job_claim(rc->h, rc->id);
    if (!rc->claim || flux_future_then(rc->claim, -1., claim_cb, rc) < 0)
        cmd_error(rc->c, "the job does not end with this program: out of memory");
}

static const struct job_stream_cb stream_cb = {on_notice, on_output, on_result, on_failure};

/* --- the whole --- */

static int run_program(struct job_attach *rc, const struct job_attach_params *p,
                       struct wrexec_run *run)
{
    struct jobreq req = {0};
    char *json = flux_schema_encode(&wrexec_run_schema, run);
    char *strings = wrexec_jobreq_strings(p->fixed, p->argv, p->env, &req);
    void *payload = NULL;
    size_t len;

    if (json && strings) {
        req.json = json;
        req.json_len = strlen(json);
        payload = wrexec_jobreq_encode(&req, &len);
    }
    if (payload)
        rc->stream = job_stream_run(rc->h, payload, len, run->window, &stream_cb, rc);
    free(payload);
    free(strings);
    free(json);
    return rc->stream ? 0 : -1;
}

static int run_attached(struct job_attach *rc)
{
    const struct courier_callbacks cbs = {.failed = act_failed};
    sigwatch_t *w =
        sigwatch_create(flux_get_reactor(rc->h), rc->how.cancel_note ? term_signals : task_signals,
                        NSIGNALS, true, on_signal, rc);

    signal(SIGPIPE, SIG_IGN);
    rc->code = CMD_FAIL;
    rc->acts = courier_create(rc->h, FLUX_MSGF_IDEMPOTENT, &cbs, rc);
    if (!w || !rc->acts)
        cmd_error(rc->c, "out of memory");
    else if (flux_run(rc->h) < 0 && !rc->finished)
        broker_lost(rc);
    taskout_finish(rc->out); /* also where no result has come */
    if (rc->name_failed && rc->job)
        job_waitline_ended(rc->c, &rc->ended, rc->said, JOBTELL_TASKS);
    else if (rc->name_failed)
        print_ranks(rc);
    sigwatch_destroy(w);
    return rc->code;
}

static void clear(struct job_attach *rc)
{
    input_over(rc);
    cmd_on_return(rc->c, NULL, NULL);
    flux_future_destroy(rc->claim);
    jobwait_destroy(rc->wait);
    flux_watcher_destroy(rc->in);
    job_waitline_stop(rc->tell);
    taskout_destroy(rc->out);
    courier_destroy(rc->acts);
    job_stream_destroy(rc->stream);
    outsink_destroy(rc->sink[0]);
    outsink_destroy(rc->sink[1]);
    idset_destroy(rc->ranks);
    json_decref(rc->res_owner);
    free(rc->res);
    free(rc->text);
    free(rc->said);
}

int job_attach_job(struct cmd *c, flux_t *h, uint64_t id, const struct job_attach_how *how)
{
    struct job_attach rc = {.c = c, .h = h, .id = id, .job = true, .how = *how};
    struct wrexec_listen listen = {.id = id, .window = WREXEC_CLIENT_WINDOW, .input = how->reads};
    int code = CMD_FAIL;
    char text[24];

    if (cmd_may_return(c)) {
        listen.token = flux_job_number(h);
        cmd_on_return(c, back, &rc);
    }
    rc.stream = job_stream_listen(h, &listen, &stream_cb, &rc);
    rc.wait = jobwait_create(h, id_text(&rc, text), wait_cb, &rc);
    if (!rc.stream || !rc.wait) {
        cmd_error(c, "out of memory");
    } else if (open_output(&rc, how->label) == 0) {
        rc.tell = job_waitline_start(c, h, id, "^C cancels it");
        code = run_attached(&rc);
    }
    clear(&rc);
    return code;
}

void job_attach_standard_fds(void)
{
    int fd;

    do
        fd = open("/dev/null", O_RDWR);
    while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd >= 0)
        close(fd);
}

int job_attach_exec(struct cmd *c, const struct job_attach_params *p)
{
    struct job_attach rc = {.c = c, .label_rank = p->label_rank};
    struct wrexec_run run = p->run;
    int code = CMD_FAIL;

    if (!(rc.h = cmd_handle(c)))
        return CMD_FAIL;
    run.window = WREXEC_CLIENT_WINDOW;
    rc.how.reads = strcmp(run.input, "none") != 0 && job_attach_stdin_useful();
    if (!rc.how.reads)
        run.input = "none";
    if (open_output(&rc, p->label) == 0) {
        if (run_program(&rc, p, &run) < 0)
            cmd_error(c, "out of memory");
        else
            code = run_attached(&rc);
    }
    clear(&rc);
    return code;
}

/* runclient.c - run something in the session, attached.
 *
 * One streaming request to rank 0 starts it; the first response says the id.  Then
 *
 *    output        records of tasks; written where they go, then paid back as credit
 *    stdin         read when the service has room (its window), sent to the tasks that read it
 *    SIGINT        forwarded; a second one within two seconds kills everything
 *    SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2   forwarded
 *
 * Output never blocks this program, so that signals are heard while a reader of ours stands still:
 * a pipe or terminal that has no room is waited for in the loop, and written in pieces that fit.
 * What waits is bounded by the credit (1 MiB) that the service has.
 *
 * When the reader is gone (EPIPE) this program ends as by SIGPIPE, and the service ends the job.
 */
#include "config.h"
#include "runclient.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include "libsubprocess/spawn.h"
#include "libutil/buf.h"
#include "libutil/fdutil.h"
#include "libutil/hmap.h"
#include "libutil/le.h"
#include "libutil/strutil.h"

#define SECOND_INTERRUPT 2.0
#define STDIN_READ 65536

struct sink {
    struct runclient *rc;
    int fd;
    bool regular; /* never waited for */
    buf_t *buf;   /* what has no room yet */
    flux_watcher_t *w;
};

struct runclient {
    struct cmd *c;
    const struct runclient_params *p;
    flux_t *h;
    uint64_t id;
    bool started, finished;
    int code;
    struct sink out[2];
    hmap_t *lines; /* task * 2 + stream -> unfinished line */
    idset_t *ranks;
    size_t owed; /* credit to pay back */
    flux_watcher_t *in;
    size_t in_room;
    bool in_open;
    bool reads; /* standard input is forwarded */
    double interrupted;
    int pending_signal; /* came before the id */
};

static void stop(struct runclient *rc, int code)
{
    rc->finished = true;
    rc->code = code;
    flux_reactor_stop(flux_get_reactor(rc->h), 0);
}

/* --- output --- */

/* Credit for what came, once most of it has gone out. */
static void pay_back(struct runclient *rc)
{
    uint8_t buf[WREXEC_CREDIT_SIZE];
    size_t waiting = buf_len(rc->out[0].buf) + buf_len(rc->out[1].buf);

    if (rc->owed < WREXEC_CLIENT_WINDOW / 4 || waiting > WREXEC_CLIENT_WINDOW / 4 || rc->finished)
        return;
    le_put64(buf, rc->id);
    le_put32(buf + 8, (uint32_t)rc->owed);
    flux_future_destroy(
        flux_rpc_raw(rc->h, "wrexec.credit", buf, sizeof(buf), 0, FLUX_MSGF_NORESPONSE));
    rc->owed = 0;
}

static void output_failed(struct sink *s)
{
    if (errno == EPIPE)
        stop(s->rc, 128 + SIGPIPE);
    else
        stop(s->rc, cmd_error(s->rc->c, "cannot write output: %s", strerror(errno)));
    buf_consume(s->buf, buf_len(s->buf));
}

/* As much as goes without waiting; `len` or less, -1 after an error. */
static ssize_t write_some(struct sink *s, const char *p, size_t len)
{
    size_t done = 0;

    while (done < len) {
        struct pollfd pfd = {s->fd, POLLOUT, 0};
        size_t n = len - done;
        ssize_t w;

        if (!s->regular) {
            if (poll(&pfd, 1, 0) <= 0)
                break;
            if (n > PIPE_BUF)
                n = PIPE_BUF;
        }
        w = write(s->fd, p + done, n);
        if (w > 0)
            done += (size_t)w;
        else if (w < 0 && errno == EAGAIN)
            break;
        else if (w < 0 && errno != EINTR)
            return -1;
    }
    return (ssize_t)done;
}

static void sink_flush(struct sink *s)
{
    ssize_t n = write_some(s, buf_data(s->buf), buf_len(s->buf));

    if (n < 0) {
        output_failed(s);
        return;
    }
    buf_consume(s->buf, (size_t)n);
    pay_back(s->rc);
    if (buf_len(s->buf) == 0) {
        flux_watcher_stop(s->w);
        if (s->rc->finished)
            flux_reactor_stop(flux_get_reactor(s->rc->h), 0);
    }
}

static void sink_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    sink_flush(arg);
}

static void sink_write(struct sink *s, const void *data, size_t len)
{
    const char *p = data;

    if (s->fd < 0)
        return;
    if (buf_len(s->buf) == 0) {
        ssize_t n = write_some(s, p, len);

        if (n < 0) {
            output_failed(s);
            return;
        }
        p += n;
        len -= (size_t)n;
    }
    if (len == 0)
        return;
    if (buf_append(s->buf, p, len) < 0) {
        output_failed(s);
        return;
    }
    if (!s->w)
        s->w = flux_fd_watcher_create(flux_get_reactor(s->rc->h), s->fd, FLUX_POLLOUT, sink_cb, s);
    if (s->w)
        flux_watcher_start(s->w);
}

static void write_label(struct runclient *rc, struct sink *s, uint32_t task)
{
    char label[16];
    uint32_t num = task;

    if (rc->p->label_rank && rc->ranks)
        num = idset_nth(rc->ranks, task);
    sink_write(s, label, (size_t)snprintf(label, sizeof(label), "%u: ", num));
}

static void free_line(void *arg)
{
    buf_destroy(arg);
}

/* Whole lines only, each with its label; the rest waits for its end. */
static void output_lines(struct runclient *rc, struct sink *s, const struct wire_record *rec)
{
    uint64_t key = 2ull * rec->task + (rec->stream - 1);
    const char *p = (const char *)rec->data, *end = p + rec->len, *nl;
    buf_t *part = hmap_get_u64(rc->lines, key);

    while (p < end && (nl = memchr(p, '\n', (size_t)(end - p)))) {
        write_label(rc, s, rec->task);
        if (part && buf_len(part) > 0) {
            sink_write(s, buf_data(part), buf_len(part));
            buf_consume(part, buf_len(part));
        }
        sink_write(s, p, (size_t)(nl + 1 - p));
        p = nl + 1;
    }
    if (p == end)
        return;
    if (!part && (!(part = buf_create(0)) || hmap_put_u64(rc->lines, key, part) < 0)) {
        buf_destroy(part);
        return;
    }
    /* A line without end must not hold the credit back for ever. */
    if (buf_append(part, p, (size_t)(end - p)) == 0 && buf_len(part) >= STDIN_READ) {
        write_label(rc, s, rec->task);
        sink_write(s, buf_data(part), buf_len(part));
        sink_write(s, "\n", 1);
        buf_consume(part, buf_len(part));
    }
}

static void flush_lines(struct runclient *rc)
{
    size_t pos = 0;
    uint64_t key;
    void *val;

    while (rc->lines && hmap_next(rc->lines, &pos, NULL, &key, &val)) {
        struct sink *s = &rc->out[key & 1];

        if (buf_len(val) == 0)
            continue;
        write_label(rc, s, (uint32_t)(key / 2));
        sink_write(s, buf_data(val), buf_len(val));
        sink_write(s, "\n", 1);
    }
}

static void output(struct runclient *rc, const void *data, size_t len)
{
    struct wire_record rec;
    int ok;

    rc->owed += len;
    while ((ok = wire_record_next(&data, &len, &rec)) == 1) {
        struct sink *s = &rc->out[rec.stream - 1];

        if (rc->p->label)
            output_lines(rc, s, &rec);
        else
            sink_write(s, rec.data, rec.len);
    }
    if (ok < 0)
        stop(rc, cmd_error(rc->c, "output arrived damaged: the brokers are of another version?"));
    pay_back(rc);
}

static int sink_open(struct runclient *rc, struct sink *s, int fd, const char *path)
{
    struct stat st;

    s->rc = rc;
    s->fd = fd;
    if (path && (s->fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666)) < 0)
        return cmd_error(rc->c, "cannot open '%s': %s", path, strerror(errno)), -1;
    if (fstat(s->fd, &st) < 0)
        s->fd = -1;
    else
        s->regular = S_ISREG(st.st_mode) || (S_ISCHR(st.st_mode) && !isatty(s->fd));
    if (!(s->buf = buf_create(0)))
        return cmd_error(rc->c, "out of memory"), -1;
    return 0;
}

/* --- input --- */

static void send_stdin(struct runclient *rc, const void *data, size_t len)
{
    uint8_t *p = malloc(WREXEC_STDIN_HEAD + len);

    if (!p)
        return;
    le_put64(p, rc->id);
    if (len)
        memcpy(p + WREXEC_STDIN_HEAD, data, len);
    flux_future_destroy(
        flux_rpc_raw(rc->h, "wrexec.stdin", p, WREXEC_STDIN_HEAD + len, 0, FLUX_MSGF_NORESPONSE));
    free(p);
}

static void stdin_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    struct runclient *rc = arg;
    char data[STDIN_READ];
    size_t want = rc->in_room < sizeof(data) ? rc->in_room : sizeof(data);
    ssize_t n = read(STDIN_FILENO, data, want);

    if (n < 0 && (errno == EINTR || errno == EAGAIN))
        return;
    if (n <= 0) {
        flux_watcher_stop(w);
        rc->in_open = false;
        send_stdin(rc, NULL, 0);
        return;
    }
    send_stdin(rc, data, (size_t)n);
    rc->in_room -= (size_t)n;
    if (rc->in_room == 0)
        flux_watcher_stop(w);
}

/* Is there anything to read at all?  What reads /dev/null needs no messages for it. */
static bool stdin_useful(void)
{
    struct stat st;

    if (fstat(STDIN_FILENO, &st) < 0)
        return false;
    if (S_ISCHR(st.st_mode) && major(st.st_rdev) == 1 && minor(st.st_rdev) == 3)
        return false;
    /* In the background a terminal is not ours to read. */
    return !isatty(STDIN_FILENO) || tcgetpgrp(STDIN_FILENO) == getpgrp();
}

static void stdin_start(struct runclient *rc)
{
    rc->in_room = WIRE_STDIN_WINDOW;
    rc->in_open = true;
    rc->in =
        flux_fd_watcher_create(flux_get_reactor(rc->h), STDIN_FILENO, FLUX_POLLIN, stdin_cb, rc);
    if (rc->in)
        flux_watcher_start(rc->in);
}

/* --- signals --- */

static void forward(struct runclient *rc, int signum)
{
    struct wrexec_signal s = {rc->id, signum};

    if (!rc->started) {
        rc->pending_signal = signum;
        return;
    }
    flux_future_destroy(flux_rpc_struct(rc->h, "wrexec.signal", &wrexec_signal_schema, &s, 0,
                                        FLUX_MSGF_NORESPONSE));
}

static void on_signal(struct runclient *rc, int signum)
{
    double now = flux_now(rc->h);

    if (signum == SIGINT && rc->interrupted > 0 && now - rc->interrupted < SECOND_INTERRUPT)
        signum = SIGKILL;
    if (signum == SIGINT) {
        rc->interrupted = now;
        if (isatty(STDERR_FILENO))
            fprintf(stderr,
                    "flux %s: interrupt sent to the tasks; once more within 2 s kills them\n",
                    rc->c->name);
    }
    forward(rc, signum);
}

#define ON_SIGNAL(SIG)                                                                 \
    static void on_##SIG(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg) \
    {                                                                                  \
        on_signal(arg, SIG);                                                           \
    }
ON_SIGNAL(SIGINT)
ON_SIGNAL(SIGTERM)
ON_SIGNAL(SIGHUP)
ON_SIGNAL(SIGQUIT)
ON_SIGNAL(SIGUSR1)
ON_SIGNAL(SIGUSR2)

static const struct {
    int signum;
    flux_watcher_f cb;
} signals[] = {
    {SIGINT, on_SIGINT},   {SIGTERM, on_SIGTERM}, {SIGHUP, on_SIGHUP},
    {SIGQUIT, on_SIGQUIT}, {SIGUSR1, on_SIGUSR1}, {SIGUSR2, on_SIGUSR2},
};
#define NSIGNALS (sizeof(signals) / sizeof(*signals))

/* --- responses --- */

static void print_tasks(struct runclient *rc, const json_t *status)
{
    char text[128];
    json_t *pair;
    size_t i;

    json_array_foreach(status, i, pair)
    {
        int st = (int)json_integer_value(json_array_get(pair, 0));
        const char *tasks = json_string_value(json_array_get(pair, 1));

        if (WIFSIGNALED(st) && tasks)
            cmd_error(rc->c, "task%s %s: %s", strpbrk(tasks, ",-") ? "s" : "", tasks,
                      spawn_status_text(st, text, sizeof(text)));
    }
}

static void on_result(struct runclient *rc, const char *json, size_t len)
{
    struct wrexec_result res = {0};
    errmsg_t err;
    json_t *obj = flux_schema_decode(&wrexec_result_schema, json, len, &res, &err);

    flush_lines(rc);
    if (!obj) {
        stop(rc, cmd_error(rc->c, "%s", err.text));
        return;
    }
    if (res.text)
        cmd_error(rc->c, "job %" PRIu64 ": %s", rc->id, res.text);
    else if (res.code)
        print_tasks(rc, res.status);
    rc->finished = true;
    rc->code = res.code;
    json_decref(obj);
    /* The loop goes on while output waits for its reader. */
    if (buf_len(rc->out[0].buf) == 0 && buf_len(rc->out[1].buf) == 0)
        stop(rc, rc->code);
}

static void on_notice(struct runclient *rc, const char *json, size_t len)
{
    struct wrexec_notice n = {0};
    errmsg_t err;
    json_t *obj = flux_schema_decode(&wrexec_notice_schema, json, len, &n, &err);

    if (!obj) {
        stop(rc, cmd_error(rc->c, "%s", err.text));
        return;
    }
    if (n.text)
        cmd_error(rc->c, "%s", n.text);
    if (n.taken && rc->in && rc->in_open) {
        rc->in_room += n.taken;
        flux_watcher_start(rc->in);
    }
    if (!rc->started) {
        rc->started = true;
        rc->id = n.id;
        if (n.ranks && rc->p->label_rank)
            rc->ranks = idset_parse(n.ranks, NULL);
        if (rc->pending_signal)
            forward(rc, rc->pending_signal);
        if (rc->reads)
            stdin_start(rc);
    }
    json_decref(obj);
}

static void response_cb(flux_future_t *f, void *arg)
{
    struct runclient *rc = arg;
    const flux_msg_t *msg = flux_rpc_get_msg(f);
    const void *data;
    size_t len;

    if (flux_future_errnum(f) || !msg) {
        stop(rc, cmd_error(rc->c, "%s", flux_future_error(f)));
        return;
    }
    data = flux_msg_payload(msg, &len);
    if (flux_msg_has_flag(msg, FLUX_MSGF_RAW))
        output(rc, data, len);
    else if (flux_msg_has_flag(msg, FLUX_MSGF_STREAMING))
        on_notice(rc, data, len);
    else
        on_result(rc, data, len);
    if (!rc->finished)
        flux_future_next(f);
}

/* --- the whole --- */

static flux_future_t *send_request(struct runclient *rc, struct wrexec_run *run)
{
    const struct runclient_params *p = rc->p;
    struct jobreq req = {0};
    char *json = flux_schema_encode(&wrexec_run_schema, run);
    char *strings = jobreq_strings(p->fixed, p->argv, p->env, &req);
    flux_future_t *f = NULL;
    void *payload = NULL;
    size_t len;

    if (json && strings) {
        req.json = json;
        req.json_len = strlen(json);
        payload = jobreq_encode(&req, &len);
    }
    if (payload)
        f = flux_rpc_raw(rc->h, "wrexec.run", payload, len, 0,
                         run->detach ? 0 : FLUX_MSGF_STREAMING);
    free(payload);
    free(strings);
    free(json);
    return f;
}

static int run_detached(struct runclient *rc, flux_future_t *f)
{
    struct wrexec_notice n = {0};

    if (cmd_wait_struct(rc->c, f, -1., "the job to be started", &wrexec_notice_schema, &n) < 0)
        return CMD_FAIL;
    if (rc->p->print_id)
        printf("%" PRIu64 "\n", n.id);
    return CMD_OK;
}

static int run_attached(struct runclient *rc, flux_future_t *f)
{
    flux_reactor_t *r = flux_get_reactor(rc->h);
    flux_watcher_t *w[NSIGNALS] = {NULL};

    signal(SIGPIPE, SIG_IGN);
    for (size_t i = 0; i < NSIGNALS; i++)
        if ((w[i] = flux_signal_watcher_create(r, signals[i].signum, signals[i].cb, rc)))
            flux_watcher_start(w[i]);
    rc->code = CMD_FAIL;
    if (flux_future_then(f, -1., response_cb, rc) < 0)
        cmd_error(rc->c, "out of memory");
    else if (flux_run(rc->h) < 0 && !rc->finished)
        cmd_error(rc->c, "the connection to the broker was lost");
    for (size_t i = 0; i < NSIGNALS; i++)
        flux_watcher_destroy(w[i]);
    return rc->code;
}

void runclient_standard_fds(void)
{
    int fd;

    do
        fd = open("/dev/null", O_RDWR);
    while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd >= 0)
        close(fd);
}

int runclient(struct cmd *c, const struct runclient_params *p)
{
    struct runclient rc = {.c = c, .p = p};
    struct wrexec_run run = p->run;
    flux_future_t *f = NULL;
    int code = CMD_FAIL;

    if (!(rc.h = run.detach ? cmd_handle(c) : cmd_handle_signals(c)))
        return CMD_FAIL;
    run.window = WREXEC_CLIENT_WINDOW;
    if (!run.input)
        run.input = "first";
    if (!p->fixed[WIRE_S_IN]) {
        rc.reads = !run.detach && strcmp(run.input, "none") != 0 && stdin_useful();
        if (!rc.reads)
            run.input = "none";
    }
    if (p->label && !(rc.lines = hmap_create_u64(free_line))) {
        cmd_error(c, "out of memory");
        goto out;
    }
    if (sink_open(&rc, &rc.out[0], STDOUT_FILENO, p->out_path) < 0 ||
        sink_open(&rc, &rc.out[1], STDERR_FILENO, p->err_path) < 0)
        goto out;
    if (!(f = send_request(&rc, &run)))
        cmd_error(c, "out of memory");
    else
        code = run.detach ? run_detached(&rc, f) : run_attached(&rc, f);
out:
    flux_future_destroy(f);
    flux_watcher_destroy(rc.in);
    for (int i = 0; i < 2; i++) {
        flux_watcher_destroy(rc.out[i].w);
        buf_destroy(rc.out[i].buf);
        if (rc.out[i].fd > STDERR_FILENO)
            close(rc.out[i].fd);
    }
    hmap_destroy(rc.lines);
    idset_destroy(rc.ranks);
    return code;
}

int runclient_env(struct cmd *c, strvec_t *v, const char *spec)
{
    const char *eq = strchr(spec, '='), *val;
    char *name;
    int rc = 0;

    if (spec[0] == '-' && spec[1] && !eq) {
        strvec_unsetenv(v, spec + 1);
        return 0;
    }
    if (!eq) {
        val = getenv(spec);
        rc = val ? strvec_setenv(v, spec, val) : 0;
    } else {
        name = strndup(spec, (size_t)(eq - spec));
        rc = name ? strvec_setenv(v, name, eq + 1) : -1;
        free(name);
    }
    if (rc < 0)
        return cmd_usage_error(c, "--env: '%s' is not NAME=VALUE, NAME or -NAME", spec), -1;
    return 0;
}

/* stream.c - the standard streams of tasks.
 *
 * Output: it is read directly into the queue to the module, one record per read, up to 64 KiB and
 * the credit of the job.  A stream that is ready without credit leaves the loop, and the next
 * credit brings back all streams of the job.  Until then the pipe fills, and the task waits.
 *
 * Input: it is written as far as the pipe accepts it.  The rest waits in the buffer of the task,
 * bounded by the window of the protocol.  Input is acknowledged to the module when the slowest
 * reader has taken it, so a job whose tasks all read a copy proceeds at the pace of the slowest.  A
 * task that has closed its standard input, or has ended, counts as having read all input.
 */
#include "config.h"
#include "launcher.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#define READ_MAX 65536

enum got { GOT_DATA, GOT_NOTHING, GOT_EOF, NO_CREDIT };

/* Read output for a labeled file, which needs no credit. */
static enum got file_read(struct stream *s)
{
    char data[READ_MAX];
    ssize_t n;

    if (file_full(s))
        return NO_CREDIT;
    n = read(s->src.fd, data, sizeof(data));

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return GOT_NOTHING;
    file_output(s, data, n > 0 ? (size_t)n : 0);
    return n > 0 ? GOT_DATA : GOT_EOF;
}

static enum got stream_read(struct stream *s)
{
    struct nodejob *j = s->task->job;
    struct launcher *l = j->l;
    size_t want = READ_MAX, head = WIRE_HEADER + WIRE_RECORD;
    uint8_t *p;
    ssize_t n;

    if (s->file)
        return file_read(s);
    if (j->credit <= 0)
        return NO_CREDIT;
    if ((int64_t)want > j->credit)
        want = (size_t)j->credit;
    p = buf_reserve(l->out, head + want);
    if (!p)
        return GOT_NOTHING;
    n = read(s->src.fd, p + head, want);
    if (n > 0) {
        exec_wire_header(p, WIRE_OUTPUT, j->id, WIRE_RECORD + (uint32_t)n);
        exec_wire_record_header(p + WIRE_HEADER, task_number(s->task), (uint32_t)s->num,
                                (uint32_t)n);
        buf_commit(l->out, head + (size_t)n);
        j->credit -= WIRE_RECORD + n;
        return GOT_DATA;
    }
    return n < 0 && (errno == EAGAIN || errno == EINTR) ? GOT_NOTHING : GOT_EOF;
}

void stream_ready(struct source *src, uint32_t events)
{
    struct stream *s = (struct stream *)((char *)src - offsetof(struct stream, src));
    struct nodejob *j = s->task->job;

    switch (stream_read(s)) {
    case NO_CREDIT:
        j->paused = true;
        launcher_source_pause(j->l, src);
        break;
    case GOT_EOF:
        launcher_source_close(j->l, src);
        break;
    default:
        break;
    }
}

bool stream_drain(struct nodejob *j)
{
    for (uint32_t i = 0; i < j->ntasks; i++) {
        for (int k = 0; k < 2; k++) {
            struct stream *s = &j->tasks[i].out[k];
            enum got got = GOT_DATA;

            while (s->src.fd >= 0 && got == GOT_DATA)
                got = stream_read(s);
            if (got == NO_CREDIT)
                return false;
            if (s->file)
                file_output(s, NULL, 0);
            launcher_source_close(j->l, &s->src);
        }
    }
    return true;
}

void stream_credit(struct nodejob *j, uint32_t bytes)
{
    j->credit += bytes;
    if (!j->paused || j->credit <= 0)
        return;
    j->paused = false;
    for (uint32_t i = 0; i < j->ntasks; i++)
        for (int k = 0; k < 2; k++)
            launcher_source_resume(j->l, &j->tasks[i].out[k].src);
}

/* --- input --- */

/* Return the number of bytes that the slowest reader has still to take. */
static size_t stdin_pending(const struct nodejob *j)
{
    size_t most = 0;

    for (uint32_t i = 0; i < j->ntasks; i++) {
        const struct task *t = &j->tasks[i];

        if (t->in.fd >= 0 && t->inbuf && buf_len(t->inbuf) > most)
            most = buf_len(t->inbuf);
    }
    return most;
}

static void stdin_ack(struct nodejob *j, size_t before)
{
    size_t now = stdin_pending(j);
    uint32_t n = (uint32_t)(before - now);

    if (now < before)
        launcher_send_frame(j->l, WIRE_STDIN_ACK, j->id, &n, sizeof(n), NULL, 0);
}

void stream_stdin_close(struct task *t)
{
    launcher_source_close(t->job->l, &t->in);
    buf_destroy(t->inbuf);
    t->inbuf = NULL;
}

static void stdin_write(struct task *t)
{
    while (t->in.fd >= 0 && t->inbuf && buf_len(t->inbuf) > 0) {
        ssize_t n = write(t->in.fd, buf_data(t->inbuf), buf_len(t->inbuf));

        if (n >= 0)
            buf_consume(t->inbuf, (size_t)n);
        else if (errno == EAGAIN)
            break;
        else if (errno != EINTR)
            stream_stdin_close(t);
    }
    if (t->in.fd < 0)
        return;
    if (t->inbuf && buf_len(t->inbuf) > 0)
        launcher_source_resume(t->job->l, &t->in);
    else if (t->in_eof)
        stream_stdin_close(t);
    else
        launcher_source_pause(t->job->l, &t->in);
}

static void stdin_ready(struct source *src, uint32_t events)
{
    struct task *t = (struct task *)((char *)src - offsetof(struct task, in));
    size_t before = stdin_pending(t->job);

    stdin_write(t);
    stdin_ack(t->job, before);
}

/* Keep input that arrives before the tasks have started. */
static void hold(struct nodejob *j, uint32_t task, const void *data, size_t len)
{
    uint32_t head[2] = {task, (uint32_t)len};

    if ((!j->held && !(j->held = buf_create(0))) || buf_append(j->held, head, sizeof(head)) < 0 ||
        (len && buf_append(j->held, data, len) < 0))
        launcher_send_fail(j, 1, -1, 0, "no memory for standard input");
}

void stream_stdin_release(struct nodejob *j)
{
    buf_t *held = j->held;
    uint32_t head[2];

    j->held = NULL;
    while (held && buf_len(held) >= sizeof(head)) {
        memcpy(head, buf_data(held), sizeof(head));
        stream_stdin(j, head[0], (const char *)buf_data(held) + sizeof(head), head[1]);
        buf_consume(held, sizeof(head) + head[1]);
    }
    buf_destroy(held);
}

void stream_stdin(struct nodejob *j, uint32_t task, const void *data, size_t len)
{
    size_t before = stdin_pending(j) + len;

    if (j->state < JOB_RUNNING) {
        hold(j, task, data, len);
        return;
    }
    for (uint32_t i = 0; i < j->ntasks; i++) {
        struct task *t = &j->tasks[i];

        if (t->in.fd < 0 || (task != WIRE_ALL && t->rank != task))
            continue;
        if (!t->in.ready) {
            t->in.ready = stdin_ready;
            t->in.events = EPOLLOUT;
        }
        if (len == 0) {
            t->in_eof = true;
        } else if ((!t->inbuf && !(t->inbuf = buf_create(2 * WIRE_STDIN_WINDOW))) ||
                   buf_append(t->inbuf, data, len) < 0) {
            /* The task must not miss bytes in the middle, so its input ends here. */
            stream_stdin_close(t);
            continue;
        }
        stdin_write(t);
    }
    stdin_ack(j, before);
}

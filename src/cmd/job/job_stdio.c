/* job_stdio.c - the client's side of a job's streams.
 *
 *    wrexec.credit   number of bytes of output that were written here; sent when a quarter of the
 *                    window is due and no more than that is still queued
 *    wrexec.stdin    bytes for the tasks; a message without bytes marks the end of input
 *
 * Both are sent by a courier, in order, and again if the service had no room for them.
 *
 * Invariant: the output that is queued here never exceeds the window, which the service respects.
 *
 * Failure: the stream itself reports the end of the job; messages that could not be delivered by
 * then are dropped.
 */
#include "config.h"
#include "job_stdio.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "libutil/le.h"

int job_stdio_open(struct job_stdio *s, const struct outsink_cb *cb)
{
    flux_reactor_t *r = flux_get_reactor(s->h);

    s->sink[0] = outsink_create(r, STDOUT_FILENO, cb);
    s->sink[1] = outsink_create(r, STDERR_FILENO, cb);
    s->courier = courier_create(s->h, 0, NULL, NULL);
    return s->sink[0] && s->sink[1] && s->courier ? 0 : -1;
}

void job_stdio_close(struct job_stdio *s)
{
    for (int i = 0; i < 2; i++) {
        outsink_destroy(s->sink[i]);
        s->sink[i] = NULL;
    }
    courier_destroy(s->courier);
    s->courier = NULL;
}

size_t job_stdio_waiting(const struct job_stdio *s)
{
    return outsink_waiting(s->sink[0]) + outsink_waiting(s->sink[1]);
}

void job_stdio_pay_back(struct job_stdio *s)
{
    uint8_t *buf;

    if (s->owed < WREXEC_CLIENT_WINDOW / 4 || job_stdio_waiting(s) > WREXEC_CLIENT_WINDOW / 4 ||
        s->over || !(buf = malloc(WREXEC_CREDIT_SIZE)))
        return;
    le_put64(buf, s->id);
    le_put32(buf + 8, (uint32_t)s->owed);
    if (courier_post(s->courier, "wrexec.credit", FLUX_NODEID_ROOT, buf, WREXEC_CREDIT_SIZE) == 0)
        s->owed = 0;
}

int job_stdio_output(struct job_stdio *s, const void *data, size_t len, job_stdio_f write,
                     void *arg)
{
    struct wire_record rec;
    int ok;

    s->owed += len;
    while ((ok = exec_wire_record_next(&data, &len, &rec)) == 1)
        write(arg, &rec);
    if (ok == 0)
        job_stdio_pay_back(s);
    return ok;
}

int job_stdio_input(struct job_stdio *s, const void *head, size_t headlen, const void *data,
                    size_t len)
{
    size_t n = WREXEC_STDIN_HEAD + headlen + len;
    uint8_t *p = malloc(n);

    if (!p)
        return -1;
    le_put64(p, s->id);
    if (headlen)
        memcpy(p + WREXEC_STDIN_HEAD, head, headlen);
    if (len)
        memcpy(p + WREXEC_STDIN_HEAD + headlen, data, len);
    return courier_post(s->courier, "wrexec.stdin", FLUX_NODEID_ROOT, p, n);
}

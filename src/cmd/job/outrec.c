/* outrec.c - format of the output of a job in the key-value store. */
#include "config.h"
#include "outrec.h"

#include <errno.h>
#include <string.h>

/* Digits up to `stop`: the number, with *p behind that.  -1 for anything else. */
static int number(const char **p, char stop, uint64_t max, uint64_t *out)
{
    uint64_t n = 0;

    if (**p < '0' || **p > '9')
        return -1;
    for (; **p >= '0' && **p <= '9'; (*p)++) {
        uint64_t digit = (uint64_t)(**p - '0');

        if (digit > max || n > (max - digit) / 10)
            return -1;
        n = n * 10 + digit;
    }
    if (**p != stop)
        return -1;
    if (stop)
        (*p)++;
    *out = n;
    return 0;
}

static int take_head(struct outrec *r, errmsg_t *err)
{
    const char *p = r->head;
    uint64_t task, stream, len;

    r->head[r->nhead] = '\0';
    if (strlen(r->head) != r->nhead || number(&p, ' ', UINT32_MAX, &task) < 0 ||
        number(&p, ' ', 2, &stream) < 0 || stream == 0 || number(&p, '\0', INT64_MAX, &len) < 0)
        return errmsg_fail(err, EPROTO, "expected TASK STREAM LENGTH, not '%.40s'", r->head);
    r->task = (uint32_t)task;
    r->stream = (uint32_t)stream;
    r->left = len;
    r->nhead = 0;
    return 0;
}

int outrec_take(struct outrec *r, const void *data, size_t len,
                void (*put)(void *arg, uint32_t task, uint32_t stream, const void *data,
                            size_t len),
                void *arg, errmsg_t *err)
{
    const char *p = data, *end = p + len;

    while (p < end) {
        if (r->left > 0) {
            size_t n = (size_t)(end - p) < r->left ? (size_t)(end - p) : (size_t)r->left;

            put(arg, r->task, r->stream, p, n);
            r->left -= n;
            p += n;
        } else if (*p == '\n') {
            if (take_head(r, err) < 0)
                return -1;
            p++;
        } else if (r->nhead == OUTREC_HEAD_MAX - 1) {
            return errmsg_fail(err, EPROTO,
                               "expected TASK STREAM LENGTH, not a line of more than %d bytes",
                               OUTREC_HEAD_MAX - 1);
        } else {
            r->head[r->nhead++] = *p++;
        }
    }
    return 0;
}

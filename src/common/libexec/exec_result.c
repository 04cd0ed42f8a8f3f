/* exec_result.c - exit statuses, each with its set of tasks (format: exec_result.h).
 *
 * Invariants:
 *  1. The entries are sorted by status, each status once; a job has a few hundred at most.
 *  2. The times are the latest of all that were added.
 *
 * Failure: when memory is short, a status is missing and the caller gets an error.  Malformed bytes
 * are refused with EPROTO; entries before the malformed one have been added by then.
 */
#include "exec_result.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "libidset/idset.h"
#include "libsubprocess/spawn.h"
#include "libutil/buf.h"
#include "libutil/le.h"

struct entry {
    int status;
    idset_t *tasks;
};

/* Sorted by status; there are at most a few hundred different ones. */
struct result {
    struct entry *v;
    size_t n, cap;
    struct wire_times times;
};

struct result *exec_result_create(void)
{
    return calloc(1, sizeof(struct result));
}

void exec_result_destroy(struct result *r)
{
    int errnum = errno;

    if (!r)
        return;
    for (size_t i = 0; i < r->n; i++)
        idset_destroy(r->v[i].tasks);
    free(r->v);
    free(r);
    errno = errnum;
}

static struct entry *find(struct result *r, int status)
{
    size_t lo = 0, hi = r->n;

    while (lo < hi) {
        size_t mid = (lo + hi) / 2;

        if (r->v[mid].status < status)
            lo = mid + 1;
        else
            hi = mid;
    }
    if (lo < r->n && r->v[lo].status == status)
        return &r->v[lo];
    if (r->n == r->cap) {
        size_t cap = r->cap ? 2 * r->cap : 4;
        struct entry *v = realloc(r->v, cap * sizeof(*v));

        if (!v)
            return NULL;
        r->v = v;
        r->cap = cap;
    }
    idset_t *tasks = idset_create();

    if (!tasks)
        return NULL;
    memmove(&r->v[lo + 1], &r->v[lo], (r->n - lo) * sizeof(*r->v));
    r->v[lo] = (struct entry){status, tasks};
    r->n++;
    return &r->v[lo];
}

int exec_result_add(struct result *r, int status, uint32_t lo, uint32_t hi)
{
    struct entry *e = find(r, status);

    return e ? idset_range_set(e->tasks, lo, hi) : -1;
}

void exec_result_add_times(struct result *r, const struct wire_times *t)
{
    if (t->started > r->times.started)
        r->times.started = t->started;
    if (t->exited > r->times.exited)
        r->times.exited = t->exited;
}

struct wire_times exec_result_times(const struct result *r)
{
    return r->times;
}

void *exec_result_pack(const struct result *r, size_t *len)
{
    buf_t *b = buf_create(0);
    uint8_t head[8], times[WIRE_TIMES], *mem = NULL;

    exec_wire_times_put(times, &r->times);
    if (b && buf_append(b, times, sizeof(times)) < 0) {
        buf_destroy(b);
        b = NULL;
    }
    for (size_t i = 0; b && i < r->n; i++) {
        char *tasks = idset_format(r->v[i].tasks, 0);
        size_t n = tasks ? strlen(tasks) : 0;

        le_put32(head, (uint32_t)r->v[i].status);
        le_put32(head + 4, (uint32_t)n);
        if (!tasks || buf_append(b, head, sizeof(head)) < 0 || buf_append(b, tasks, n) < 0) {
            buf_destroy(b);
            b = NULL;
        }
        free(tasks);
    }
    if (b && (mem = malloc(buf_len(b) + 1))) {
        *len = buf_len(b);
        memcpy(mem, buf_data(b), *len);
    }
    buf_destroy(b);
    return mem;
}

static int unpack_one(struct result *r, int status, const char *text, size_t len, errmsg_t *err)
{
    char few[64], *copy = few;
    idset_t *tasks = NULL;
    struct entry *e;
    int rc = -1;

    if (len >= sizeof(few) && !(copy = malloc(len + 1)))
        return errmsg_fail(err, ENOMEM, "out of memory for the statuses of tasks");
    memcpy(copy, text, len);
    copy[len] = '\0';
    if (strlen(copy) != len)
        errmsg_fail(err, EPROTO, "a set of tasks contains a NUL byte");
    else if ((tasks = idset_parse(copy, err))) {
        e = find(r, status);
        rc = e ? idset_add(e->tasks, tasks) : -1;
        if (rc < 0)
            errmsg_fail(err, ENOMEM, "out of memory for the statuses of tasks");
    }
    idset_destroy(tasks);
    if (copy != few)
        free(copy);
    return rc;
}

int exec_result_unpack(struct result *r, const void *data, size_t len, errmsg_t *err)
{
    const uint8_t *p = data;
    struct wire_times times;

    if (len < WIRE_TIMES)
        return errmsg_fail(err, EPROTO, "the times of tasks are cut off");
    if (exec_wire_times_get(p, &times, err) < 0)
        return -1;
    exec_result_add_times(r, &times);
    p += WIRE_TIMES;
    len -= WIRE_TIMES;
    while (len > 0) {
        size_t n;

        if (len < 8 || (n = le_get32(p + 4)) > len - 8)
            return errmsg_fail(err, EPROTO, "the statuses of tasks are cut off");
        if (unpack_one(r, (int)le_get32(p), (const char *)p + 8, n, err) < 0)
            return -1;
        p += 8 + n;
        len -= 8 + n;
    }
    return 0;
}

json_t *exec_result_to_json(const struct result *r)
{
    json_t *arr = json_array();

    for (size_t i = 0; arr && i < r->n; i++) {
        char *tasks = idset_format(r->v[i].tasks, 0);
        json_t *pair = json_array();

        if (!tasks || json_array_append_new(pair, json_integer(r->v[i].status)) < 0 ||
            json_array_append_new(pair, json_string(tasks)) < 0) {
            free(tasks);
            json_decref(pair);
            json_decref(arr);
            return NULL;
        }
        free(tasks);
        if (json_array_append_new(arr, pair) < 0) {
            json_decref(arr);
            return NULL;
        }
    }
    return arr;
}

int exec_result_worst(const struct result *r)
{
    int worst = 0;

    for (size_t i = 0; i < r->n; i++) {
        int code = spawn_status_to_code(r->v[i].status);

        if (code > worst)
            worst = code;
    }
    return worst;
}

/* Statuses and the tasks that have them: see result.h. */
#include "result.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "libidset/idset.h"
#include "libsubprocess/spawn.h"

struct entry {
    int status;
    idset_t *tasks;
};

/* Sorted by status; there are at most a few hundred different ones. */
struct result {
    struct entry *v;
    size_t n, cap;
};

struct result *result_create(void)
{
    return calloc(1, sizeof(struct result));
}

void result_destroy(struct result *r)
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

int result_add(struct result *r, int status, uint32_t lo, uint32_t hi)
{
    struct entry *e = find(r, status);

    return e ? idset_range_set(e->tasks, lo, hi) : -1;
}

int result_merge(struct result *r, const json_t *status, errmsg_t *err)
{
    json_t *pair;
    size_t i;

    json_array_foreach(status, i, pair)
    {
        json_t *num = json_array_get(pair, 0), *set = json_array_get(pair, 1);
        idset_t *tasks;
        struct entry *e;
        int rc;

        if (json_array_size(pair) != 2 || !json_is_integer(num) || !json_is_string(set))
            return errmsg_fail(err, EPROTO, "a list of statuses is not in the right form");
        if (!(tasks = idset_parse(json_string_value(set), err)))
            return -1;
        e = find(r, (int)json_integer_value(num));
        rc = e ? idset_add(e->tasks, tasks) : -1;
        idset_destroy(tasks);
        if (rc < 0)
            return errmsg_fail(err, ENOMEM, "no memory for the statuses of tasks");
    }
    return 0;
}

json_t *result_to_json(const struct result *r)
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

int result_worst(const struct result *r)
{
    int worst = 0;

    for (size_t i = 0; i < r->n; i++) {
        int code = spawn_status_to_code(r->v[i].status);

        if (code > worst)
            worst = code;
    }
    return worst;
}

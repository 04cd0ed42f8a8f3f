/* verdicts.c - a record of the changes of the session map.
 *
 * Invariants:
 *  1. Verdicts have the numbers 1, 2..., and are kept in their order.
 *  2. The verdicts that are kept have at most BYTES_MAX bytes, unless there is only one.
 */
#include "config.h"
#include "verdicts.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "libflux/overlay_wire.h"
#include "libutil/list.h"

#define BYTES_MAX (256u * 1024)

struct verdict {
    struct list_node node;
    uint64_t number;
    double time;
    enum rank_state state;
    uint32_t by;
    size_t bytes;
    const char *why; /* in `text`, or NULL */
    char text[];     /* the ranks, and the reason */
};

struct verdicts {
    struct list_node list; /* the oldest first */
    uint64_t count;
    size_t bytes;
};

verdicts_t *verdicts_create(void)
{
    verdicts_t *v = calloc(1, sizeof(*v));

    if (v)
        list_init(&v->list);
    return v;
}

static void forget(verdicts_t *v, struct list_node *n)
{
    struct verdict *d = list_entry(n, struct verdict, node);

    list_remove(n);
    v->bytes -= d->bytes;
    free(d);
}

void verdicts_destroy(verdicts_t *v)
{
    int saved = errno;
    struct list_node *n;

    if (!v)
        return;
    while ((n = list_first(&v->list)))
        forget(v, n);
    free(v);
    errno = saved;
}

int verdicts_add(verdicts_t *v, double time, const char *ranks, enum rank_state state, uint32_t by,
                 const char *why)
{
    size_t len = strlen(ranks) + 1;
    size_t bytes = sizeof(struct verdict) + len + (why ? strlen(why) + 1 : 0);
    struct verdict *d = malloc(bytes);

    if (!d)
        return -1;
    *d = (struct verdict){.number = ++v->count,
                          .time = time,
                          .state = state,
                          .by = by,
                          .bytes = bytes,
                          .why = why ? d->text + len : NULL};
    memcpy(d->text, ranks, len);
    if (why)
        memcpy(d->text + len, why, strlen(why) + 1);
    list_init(&d->node);
    list_append(&v->list, &d->node);
    v->bytes += bytes;
    while (v->bytes > BYTES_MAX && list_first(&v->list) != &d->node)
        forget(v, list_first(&v->list));
    return 0;
}

json_t *verdicts_list(const verdicts_t *v)
{
    json_t *list = json_array();

    LIST_FOREACH(n, &v->list)
    {
        const struct verdict *d = list_entry(n, struct verdict, node);
        struct overlay_verdict out = {.number = d->number,
                                      .time = d->time,
                                      .ranks = d->text,
                                      .state = sessmap_state_name(d->state),
                                      .by = d->by,
                                      .why = d->why};
        json_t *o = list ? flux_schema_encode_json(&overlay_verdict_schema, &out) : NULL;

        if (!o || json_array_append_new(list, o) < 0) {
            json_decref(list);
            errno = ENOMEM;
            return NULL;
        }
    }
    return list;
}

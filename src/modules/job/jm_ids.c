/* jm_ids.c - a growing array of job ids.
 *
 * Failure: jm_ids_add() returns -1 with ENOMEM, and the array has not changed.
 */
#include "config.h"
#include "jm_private.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int jm_ids_add(struct jm_ids *v, uint64_t id)
{
    if (v->n == v->cap) {
        size_t cap = v->cap ? v->cap * 2 : 32;
        uint64_t *ids = realloc(v->ids, cap * sizeof(*ids));

        if (!ids) {
            errno = ENOMEM;
            return -1;
        }
        v->ids = ids;
        v->cap = cap;
    }
    v->ids[v->n++] = id;
    return 0;
}

void jm_ids_drop_first(struct jm_ids *v, size_t n)
{
    v->n -= n;
    if (v->n)
        memmove(v->ids, v->ids + n, v->n * sizeof(*v->ids));
}

void jm_ids_clear(struct jm_ids *v)
{
    free(v->ids);
    v->ids = NULL;
    v->n = v->cap = 0;
}

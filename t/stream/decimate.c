/* decimate.c - a transform in C: every N-th element of each variable of one dimension, and no step
 * of odd number; for t/stream-transform.t. */
#include <flux/stream_transform.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define VARS 8

struct state {
    uint64_t n;
    void *made[VARS];
};

static void *create(const char *arg, char *text, size_t size)
{
    struct state *s = calloc(1, sizeof(*s));

    if (s && arg && (s->n = strtoul(arg, NULL, 10)) > 0)
        return s;
    free(s);
    snprintf(text, size, "it needs a number");
    return NULL;
}

static void clear(struct state *s)
{
    for (int i = 0; i < VARS; i++) {
        free(s->made[i]);
        s->made[i] = NULL;
    }
}

static void destroy(void *state)
{
    clear(state);
    free(state);
}

static int step(void *state, const struct flux_transform_step *st, char *text, size_t size)
{
    struct state *s = state;
    const char *name;

    clear(s);
    if (st->number % 2 != 0)
        return 0;
    for (size_t i = 0; (name = st->name(st, 0, i)); i++) {
        struct flux_transform_array a;
        size_t elem;

        if (i >= VARS) {
            snprintf(text, size, "step %lu has too many variables", (unsigned long)st->number);
            return -1;
        }
        if (st->get(st, 0, name, FLUX_TRANSFORM_ALL, &a) < 0)
            return -1;
        if (a.ndims == 1 && a.count[0] > 0) {
            char *out = s->made[i] = malloc(a.size);

            elem = a.size / a.count[0];
            a.count[0] = (a.count[0] + s->n - 1) / s->n;
            for (uint64_t k = 0; k < a.count[0]; k++)
                memcpy(out + k * elem, (const char *)a.data + k * s->n * elem, elem);
            a.data = out;
            a.piece = false;
        }
        if (st->put(st, name, &a) < 0)
            return -1;
    }
    return 1;
}

const struct flux_transform flux_transform = {
    FLUX_TRANSFORM_ABI, "decimate", create, step, destroy,
};

/* heavy.c - a transform in C that makes, filters and projects records, for
 * t/stream-transform-records.t.
 *
 * Of "atom" it keeps the records that have a mass, as they are; "mark" are records of its own
 * struct of these, with fields that are nested, optional and of variable size; "name" is a
 * projection.  Of "cell" it makes "warm", with every field `hot` set.  With the argument "wrong=N"
 * it makes mistake number N instead.
 */
#include <flux/stream_transform.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ATOMS 16
#define CELLS 64

struct place {
    double x, y;
};
struct mark {
    uint64_t id;
    uint32_t n;
    double *near;
    char *name;
    double *mass;
    struct place at;
    struct mark *next;
};
static const char mark_format[] = "record place\n"
                                  "  field x f64\n"
                                  "  field y f64\n"
                                  "record mark\n"
                                  "  attr code \"heavy\"\n"
                                  "  field id u64\n"
                                  "  field n u32\n"
                                  "  field near f64[n]\n"
                                  "  field name string\n"
                                  "  field mass f64 optional\n"
                                  "  field at place\n"
                                  "  field next *mark\n";
struct cell {
    int16_t x;
    bool hot;
};
static const char cell_format[] = "record cell\nfield x i16\nfield hot bool\n";

struct state {
    int wrong;
    struct mark marks[ATOMS];
    struct mark more[ATOMS];
    struct cell cells[CELLS];
    char *atoms;
};

static void *create(const char *arg, char *text, size_t size)
{
    struct state *s = calloc(1, sizeof(*s));

    if (!s)
        snprintf(text, size, "out of memory");
    else if (arg && strncmp(arg, "wrong=", 6) == 0)
        s->wrong = atoi(arg + 6);
    return s;
}

static void destroy(void *state)
{
    struct state *s = state;

    free(s->atoms);
    free(s);
}

/* Mistakes, each with another message. */
static int wrong(struct state *s, const struct flux_transform_step *st)
{
    struct flux_transform_array a;

    memset(&a, 0, sizeof(a));
    a.type = "record";
    a.format = mark_format;
    a.data = s->marks;
    s->marks[0].name = (char *)"x";
    switch (s->wrong) {
    case 1:
        a.format = NULL;
        break;
    case 2:
        a.format = "record mark\nfield id u65\n";
        break;
    case 3:
        s->marks[0].name = NULL;
        break;
    case 4: /* a record that points to itself */
        s->marks[0].next = &s->marks[0];
        break;
    case 5:
        a.piece = true;
        a.ndims = 1;
        a.count[0] = a.shape[0] = 1;
        break;
    case 6:
        return st->get_records(st, 0, "atom", FLUX_TRANSFORM_ALL, "record atom\nfield id i8\n", &a);
    case 7:
        return st->get_records(st, 0, "number", 0, "record atom\nfield id u64\n", &a);
    case 8:
        a.format = "flux-format 1 pointers 4\nrecord r size 4 align 4\nfield s string at 0\n";
        break;
    case 9:
        s->marks[0].n = 1;
        break;
    default:
        a.ndims = 17;
    }
    return st->put(st, "mark", &a);
}

static int atoms(struct state *s, const struct flux_transform_step *st)
{
    struct flux_transform_array all, mine, out;
    const struct mark *m;
    size_t elem, n = 0;

    if (st->get(st, 0, "atom", FLUX_TRANSFORM_ALL, &all) < 0 ||
        st->get_records(st, 0, "atom", FLUX_TRANSFORM_ALL, mark_format, &mine) < 0)
        return -1;
    m = mine.data;
    elem = all.size / all.count[0];
    free(s->atoms);
    if (!(s->atoms = malloc(all.size + 1)))
        return -1;
    for (uint64_t i = 0; i < mine.count[0] && i < ATOMS; i++) {
        if (!m[i].mass)
            continue;
        memcpy(s->atoms + n * elem, (const char *)all.data + i * elem, elem);
        s->marks[n] = m[i];
        s->marks[n].at = (struct place){(double)m[i].id, -1.};
        s->marks[n].next = &s->more[n];
        s->more[n] = m[0];
        n++;
    }
    out = all;
    out.count[0] = n;
    out.data = s->atoms;
    if (st->put(st, "atom", &out) < 0)
        return -1;
    out.format = mark_format;
    out.data = s->marks;
    if (st->put(st, "mark", &out) < 0 ||
        st->get_records(st, 0, "atom", FLUX_TRANSFORM_ALL, "record name\nfield name string\n",
                        &out) < 0)
        return -1;
    return st->put(st, "name", &out);
}

static int step(void *state, const struct flux_transform_step *st, char *text, size_t size)
{
    struct state *s = state;
    struct flux_transform_array a;

    (void)text;
    (void)size;
    memset(s->marks, 0, sizeof(s->marks));
    memset(s->more, 0, sizeof(s->more));
    if (s->wrong)
        return wrong(s, st) < 0 ? -1 : 1;
    if (atoms(s, st) < 0 || st->get_records(st, 0, "cell", FLUX_TRANSFORM_ALL, cell_format, &a) < 0)
        return -1;
    for (uint64_t i = 0; i < a.count[0] && i < CELLS; i++)
        s->cells[i] = (struct cell){((const struct cell *)a.data)[i].x, true};
    a.data = s->cells;
    a.format = cell_format;
    return st->put(st, "warm", &a) < 0 ? -1 : 1;
}

const struct flux_transform flux_transform = {
    FLUX_TRANSFORM_ABI, "heavy", create, step, destroy,
};

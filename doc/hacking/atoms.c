/* atoms.c - records in a stream: "atoms write" writes some, "atoms read" reads them in a program
 * that was compiled with another struct. */
#include <stdio.h>
#include <string.h>

#include "flux/stream.h"

#define STEPS 3

static int fail(const char *what, const errmsg_t *err)
{
    fprintf(stderr, "atoms: %s: %s\n", what, err->text);
    return 1;
}

/* --- what the writer has --- */

struct atom {
    uint32_t id;
    uint32_t n;
    double *near; /* n distances */
    char *name;
};
static const struct stream_attr units[] = {{"units", "nm"}, {NULL, NULL}};
static const struct stream_row atom_rows[] = {
    STREAM_SCALAR(struct atom, id, U32),
    STREAM_SCALAR(struct atom, n, U32),
    STREAM_VECTOR(struct atom, near, F64, n, .attrs = units),
    STREAM_TEXT(struct atom, name, 0),
    STREAM_ROW_END,
};
static const struct stream_table atom_table = STREAM_TABLE(struct atom, "atom", atom_rows);

static int write_atoms(flux_t *h)
{
    const struct flux_stream_opts opts = {.readers = 1}; /* none of the steps is lost */
    errmsg_t err = {"out of memory"};
    stream_format_t *f = stream_format_create(&atom_table, &err);
    flux_stream_t *s = f ? flux_stream_open(h, "atoms", FLUX_STREAM_WRITE, &opts, &err) : NULL;
    const struct flux_stream_array one = {.format = f}; /* with ndims and count: as many */
    int rc = s ? 0 : fail("cannot open the stream", &err);

    for (uint32_t i = 0; rc == 0 && i < STEPS; i++) {
        double near[STEPS] = {0.5, 1.5, 2.5};
        struct atom a = {.id = i + 1, .n = i, .near = near, .name = "Cu"};

        if (flux_stream_put_array(s, "atom", &one, &a, &err) < 0 ||
            flux_stream_end_step(s, -1., &err) < 0)
            rc = fail("cannot write", &err);
    }
    flux_stream_close(s);
    stream_format_destroy(f);
    return rc;
}

/* --- what the reader wants --- */

struct later {
    char *name;
    uint64_t id;    /* more bits */
    int32_t charge; /* new: there is a default for atoms of old programs */
    uint64_t n;
    double *near;
};
static const struct stream_attr neutral[] = {{"default", "0"}, {NULL, NULL}};
static const struct stream_row later_rows[] = {
    STREAM_TEXT(struct later, name, 0),
    STREAM_SCALAR(struct later, id, U64),
    STREAM_SCALAR(struct later, charge, I32, .attrs = neutral),
    STREAM_SCALAR(struct later, n, U64),
    STREAM_VECTOR(struct later, near, F64, n),
    STREAM_ROW_END,
};
static const struct stream_table later_table = STREAM_TABLE(struct later, "atom", later_rows);

static int print_atom(flux_stream_t *s, const stream_format_t *mine, errmsg_t *err)
{
    const struct later *a;
    size_t n;

    if (flux_stream_get_records(s, 0, "atom", mine, (const void **)&a, &n, err) < 0)
        return -1;
    printf("atom %llu: %s, charge %d,", (unsigned long long)a->id, a->name, a->charge);
    for (uint64_t i = 0; i < a->n; i++)
        printf(" %g", a->near[i]);
    printf("\n");
    return 0;
}

static int read_atoms(flux_t *h)
{
    errmsg_t err = {"out of memory"};
    stream_format_t *f = stream_format_create(&later_table, &err);
    flux_stream_t *s = f ? flux_stream_open(h, "atoms", FLUX_STREAM_READ, NULL, &err) : NULL;
    int rc = s ? 0 : fail("cannot open the stream", &err);

    for (int i = 0; rc == 0 && i < STEPS; i++)
        if (flux_stream_begin_step(s, FLUX_STREAM_NEXT, 10., NULL, &err) != 1 ||
            print_atom(s, f, &err) < 0 || flux_stream_end_step(s, -1., &err) < 0)
            rc = fail("cannot read", &err);
    flux_stream_close(s);
    stream_format_destroy(f);
    return rc;
}

int main(int argc, char **argv)
{
    errmsg_t err;
    flux_t *h = flux_open(NULL, NULL, &err);
    int rc;

    if (!h)
        return fail("cannot connect", &err);
    rc = argc == 2 && strcmp(argv[1], "write") == 0 ? write_atoms(h) : read_atoms(h);
    flux_close(h);
    return rc;
}

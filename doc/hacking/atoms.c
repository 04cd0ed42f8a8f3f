/* atoms.c - records in a stream: "atoms write" writes some, "atoms read" reads them in a program
 * that was compiled with another struct. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "flux/stream.h"
#include "libstream/convert.h"

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

static int put_atom(flux_stream_t *s, const stream_format_t *f, const struct atom *a, errmsg_t *err)
{
    const char *text = stream_format_text(f);
    void *buf = NULL;
    size_t len;
    int rc = -1;

    if (stream_encode_size(f, a, &len, err) == 0 && (buf = malloc(len)) &&
        stream_encode(f, a, buf, len, &len, err) == 0 &&
        flux_stream_put(s, "atom.format", text, strlen(text), err) == 0 &&
        flux_stream_put(s, "atom", buf, len, err) == 0)
        rc = flux_stream_end_step(s, -1., err);
    free(buf);
    return rc;
}

static int write_atoms(flux_t *h)
{
    const struct flux_stream_opts opts = {.readers = 1}; /* none of the steps is lost */
    errmsg_t err = {"out of memory"};
    stream_format_t *f = stream_format_create(&atom_table, &err);
    flux_stream_t *s = f ? flux_stream_open(h, "atoms", FLUX_STREAM_WRITE, &opts, &err) : NULL;
    int rc = s ? 0 : fail("cannot open the stream", &err);

    for (uint32_t i = 0; rc == 0 && i < STEPS; i++) {
        double near[STEPS] = {0.5, 1.5, 2.5};
        struct atom a = {.id = i + 1, .n = i, .near = near, .name = "Cu"};

        if (put_atom(s, f, &a, &err) < 0)
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

/* What the writer's records need to become ours.  A program that reads many keeps it by id. */
static stream_convert_t *find_convert(flux_stream_t *s, const struct stream_header *head,
                                      const stream_format_t *mine, errmsg_t *err)
{
    stream_convert_t *c = NULL;
    stream_format_t *f = NULL;
    const void *text;
    size_t len;

    if (flux_stream_get(s, 0, "atom.format", &text, &len, err) == 0)
        f = stream_format_parse(text, len, err);
    if (f && stream_format_id(f) != head->id)
        errmsg_set(err, "the record has another format than the writer says");
    else if (f)
        c = stream_convert_create(f, head->order, mine, err);
    stream_format_destroy(f);
    return c;
}

static int print_atom(flux_stream_t *s, const stream_format_t *mine, errmsg_t *err)
{
    struct stream_header head;
    stream_convert_t *c = NULL;
    struct later *a = NULL;
    const void *data;
    size_t len;

    if (flux_stream_get(s, 0, "atom", &data, &len, err) == 0 &&
        stream_encode_open(data, len, &head, err) == 0 &&
        (c = find_convert(s, &head, mine, err)) != NULL)
        a = stream_convert(c, head.body, head.len, 1 << 20, 0, err);
    if (a) {
        printf("atom %llu: %s, charge %d,", (unsigned long long)a->id, a->name, a->charge);
        for (uint64_t i = 0; i < a->n; i++)
            printf(" %g", a->near[i]);
        printf("\n");
    }
    free(a);
    stream_convert_destroy(c);
    return a ? 0 : -1;
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

/* records.c - programs that record, write and read random records, for t/stream-records.t.
 *
 *    records record FILE SEED STEPS    a recording, in both byte orders and with all layouts
 *    records write NAME SEED STEPS [hold [STEP]]
 *                                      a stream, from structs of this host; hold: wait for a line
 *                                      of input before this step, or before the end
 *    records read NAME SEED STEPS      read a stream, and compare it with the values of the seed
 *    records atoms NAME READERS [RANK SIZE]
 *                                      a step of a few records, for readers as many
 *    records print SEED STEPS          what has to be read, as JSON: a line for each step
 *
 * A step has the variables "r0" to "r3": arrays of 1 to 3 records, each of a random format; those
 * of odd numbers are big-endian in a recording.  In JSON, arrays of `char` and `bytes` are strings
 * of hexadecimal digits after "hex:", and numbers that are not finite are null.
 */
#include "config.h"
#include <check.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libflux/handle.h"
#include "libstream/array.h"
#include "libstream/block.h"
#include "libstream/stream.h"
#include "libstream/tape_write.h"
#include "libstream/test/value.h"

#define VARS 4
#define RECORDS 3

struct var {
    stream_format_t *f; /* of the writer */
    struct record *r[RECORDS];
    uint64_t n;
};

static errmsg_t err;

static _Noreturn void die(void)
{
    printf("error: %s\n", err.text);
    exit(1);
}

static void make(struct chance *c, struct var *vars)
{
    for (int i = 0; i < VARS; i++) {
        if (!(vars[i].f = stream_format_create(value_table(c), &err)))
            die();
        vars[i].n = 1 + chance(c, RECORDS);
        for (uint64_t k = 0; k < vars[i].n; k++)
            vars[i].r[k] = value_record(c, vars[i].f);
    }
}

static void drop(struct var *vars)
{
    for (int i = 0; i < VARS; i++)
        stream_format_destroy(vars[i].f);
    value_free_all();
}

/* --- a recording --- */

static void add(block_t *b, const char *name, const struct var *v, enum stream_order order,
                size_t len)
{
    const struct stream_shape shape = {.name = name,
                                       .kind = STREAM_LOCAL,
                                       .type = STREAM_RECORD,
                                       .order = order,
                                       .memory = STREAM_ROWS,
                                       .id = stream_format_id(v->f),
                                       .elem = stream_format_size(v->f),
                                       .ndims = 1};
    stream_array_t *a = stream_array_create(&shape, &err);
    uint8_t desc[BLOCK_DESC_MAX];

    if (!a || stream_array_add(a, 0, NULL, &v->n, &err) < 0 || stream_array_seal(a, &err) < 0)
        die();
    stream_array_encode(a, desc);
    if (block_add(b, name, desc, stream_array_encoded(a), len) < 0)
        die();
    stream_array_destroy(a);
}

static void record_step(tape_write_t *w, uint64_t step, const struct var *vars)
{
    block_t *b = block_create();
    uint8_t *values[VARS];
    struct tape_block block;
    size_t len[VARS];
    char name[16];
    char *data;

    for (int i = 0; i < VARS; i++) {
        enum stream_order order = i % 2 ? STREAM_BIG : STREAM_LITTLE;

        values[i] = value_encode_array(vars[i].r, vars[i].n, vars[i].f, order, &len[i]);
        snprintf(name, sizeof(name), "r%d", i);
        add(b, name, &vars[i], order, len[i]);
        if (tape_write_records(w, stream_format_id(vars[i].f), stream_format_text(vars[i].f),
                               &err) < 0)
            die();
    }
    data = calloc(1, block_size(b));
    block_write(b, data);
    for (int i = 0; i < VARS; i++) {
        memcpy(data + block_at(b, (size_t)i)->off, values[i], len[i]);
        free(values[i]);
    }
    block = (struct tape_block){data, block_size(b)};
    if (tape_write_step(w, step, 1000000000 * step, &block, &err) < 0)
        die();
    free(data);
    block_destroy(b);
}

static void record(const char *path, struct chance *c, uint64_t steps)
{
    tape_write_t *w = tape_write_open(path, "random", 1, false, &err);

    if (!w)
        die();
    for (uint64_t i = 0; i < steps; i++) {
        struct var vars[VARS];

        make(c, vars);
        record_step(w, i, vars);
        drop(vars);
    }
    if (tape_write_end(w, &err) < 0)
        die();
    tape_write_destroy(w);
}

/* --- streams --- */

static void write_step(flux_stream_t *s, const struct var *vars)
{
    stream_format_t *native[VARS];
    char name[16];

    for (int i = 0; i < VARS; i++) {
        struct flux_stream_array a = {.ndims = 1, .count = &vars[i].n};

        if (!(native[i] = stream_format_native(vars[i].f, &err)))
            die();
        a.format = native[i];
        snprintf(name, sizeof(name), "r%d", i);
        if (flux_stream_put_array(s, name, &a, value_structs(vars[i].r, vars[i].n, native[i]),
                                  &err) < 0)
            die();
    }
    if (flux_stream_end_step(s, 60., &err) < 0)
        die();
    for (int i = 0; i < VARS; i++)
        stream_format_destroy(native[i]);
}

static void read_step(flux_stream_t *s, const struct var *vars)
{
    char name[16];

    for (int i = 0; i < VARS; i++) {
        stream_format_t *native = stream_format_native(vars[i].f, &err);
        const uint8_t *recs;
        size_t n;

        snprintf(name, sizeof(name), "r%d", i);
        if (!native ||
            flux_stream_get_records(s, 0, name, native, (const void **)&recs, &n, &err) < 0)
            die();
        if (n != vars[i].n) {
            errmsg_set(&err, "%s has %zu records, not %" PRIu64, name, n, vars[i].n);
            die();
        }
        for (size_t k = 0; k < n; k++)
            value_check(vars[i].r[k], native, recs + k * stream_format_size(native));
        stream_format_destroy(native);
    }
}

static void wait_input(void)
{
    char line[16];

    if (!fgets(line, sizeof(line), stdin))
        clearerr(stdin);
}

static void stream(const char *name, enum flux_stream_mode mode, struct chance *c, uint64_t steps,
                   uint64_t hold)
{
    const struct flux_stream_opts opts = {.readers = mode == FLUX_STREAM_WRITE};
    flux_t *h = flux_open(NULL, NULL, &err);
    flux_stream_t *s = h ? flux_stream_open(h, name, mode, &opts, &err) : NULL;

    if (!s)
        die();
    for (uint64_t i = 0; i < steps; i++) {
        struct var vars[VARS];

        make(c, vars);
        if (i == hold)
            wait_input();
        if (mode == FLUX_STREAM_WRITE)
            write_step(s, vars);
        else {
            if (flux_stream_begin_step(s, FLUX_STREAM_NEXT, 60., NULL, &err) != 1)
                die();
            read_step(s, vars);
            flux_stream_end_step(s, 0., NULL);
        }
        drop(vars);
    }
    if (hold == steps)
        wait_input();
    flux_stream_close(s);
    flux_close(h);
}

struct atom {
    uint64_t id;
    uint32_t n;
    double *near;
    char *name;
    double *mass;
};
static const struct stream_row atom_rows[] = {
    STREAM_SCALAR(struct atom, id, U64),      STREAM_SCALAR(struct atom, n, U32),
    STREAM_VECTOR(struct atom, near, F64, n), STREAM_TEXT(struct atom, name, 0),
    STREAM_OPTION(struct atom, mass, F64),    STREAM_ROW_END,
};
static const struct stream_table atom_table = STREAM_TABLE(struct atom, "atom", atom_rows);
struct cell {
    int16_t x;
    bool hot;
};
static const struct stream_row cell_rows[] = {
    STREAM_SCALAR(struct cell, x, I16),
    STREAM_SCALAR(struct cell, hot, BOOL),
    STREAM_ROW_END,
};
static const struct stream_table cell_table = STREAM_TABLE(struct cell, "cell", cell_rows);

static void atoms(const char *name, uint32_t readers, uint32_t rank, uint32_t size)
{
    const struct flux_stream_opts opts = {.readers = readers, .rank = rank, .size = size};
    flux_t *h = flux_open(NULL, NULL, &err);
    flux_stream_t *s = h ? flux_stream_open(h, name, FLUX_STREAM_WRITE, &opts, &err) : NULL;
    stream_format_t *atom = stream_format_create(&atom_table, &err);
    stream_format_t *cell = stream_format_create(&cell_table, &err);
    double near[] = {0.5, 1.5}, mass = 3.25;
    const struct atom two[] = {{1, 2, near, "Cu", NULL}, {2, 0, NULL, "Zn", &mass}};
    const struct cell cells[] = {{0, false}, {1, false}, {2, true}, {3, true}};
    const uint64_t count[] = {2, 4}, shape = 4 * size, offset = 4 * rank;
    const struct flux_stream_array a = {.format = atom, .ndims = 1, .count = count};
    const struct flux_stream_array g = {
        .format = cell, .ndims = 1, .count = count + 1, .shape = &shape, .offset = &offset};

    if (!s || !atom || !cell || flux_stream_put_array(s, "atom", &a, two, &err) < 0 ||
        flux_stream_put_array(s, "cell", &g, cells, &err) < 0 ||
        flux_stream_end_step(s, 60., &err) < 0)
        die();
    flux_stream_close(s);
    stream_format_destroy(atom);
    stream_format_destroy(cell);
    flux_close(h);
}

/* --- what has to be read --- */

static void print_record(const struct record *r);

static void print_real(double x)
{
    if (isfinite(x))
        printf("%.17g", x);
    else
        printf("null");
}

static void print_number(enum stream_type type, const uint8_t *at)
{
    float f[2];
    double d[2];
    uint64_t u = 0;
    size_t size = stream_elem_size(type);

    memcpy(&u, at, size > 8 ? 8 : size);
    memcpy(f, at, type == STREAM_C64 ? 8 : type == STREAM_F32 ? 4 : 0);
    memcpy(d, at, type == STREAM_C128 ? 16 : type == STREAM_F64 ? 8 : 0);
    switch (type) {
    case STREAM_BOOL:
        printf("%s", u ? "true" : "false");
        break;
    case STREAM_F32:
        print_real(f[0]);
        break;
    case STREAM_F64:
        print_real(d[0]);
        break;
    case STREAM_C64:
    case STREAM_C128:
        putchar('[');
        print_real(type == STREAM_C64 ? f[0] : d[0]);
        putchar(',');
        print_real(type == STREAM_C64 ? f[1] : d[1]);
        putchar(']');
        break;
    case STREAM_I8:
    case STREAM_I16:
    case STREAM_I32:
    case STREAM_I64:
        printf("%" PRId64, (int64_t)(u << (64 - 8 * size)) >> (64 - 8 * size));
        break;
    default:
        printf("%" PRIu64, u);
    }
}

/* The elements of dimension `d` and those behind it, from number *k on. */
static void print_elements(const struct value *v, const struct stream_field *fd, const uint64_t *n,
                           unsigned d, uint64_t *k)
{
    bool bytes = fd->type == STREAM_CHAR || fd->type == STREAM_BYTES;

    if (bytes && d + 1 >= fd->ndims) {
        printf("\"hex:");
        for (uint64_t i = 0; i < (fd->ndims > 0 ? n[d] : 1); i++)
            printf("%02x", v->bytes[(*k)++]);
        putchar('"');
    } else if (d < fd->ndims) {
        putchar('[');
        for (uint64_t i = 0; i < n[d]; i++) {
            if (i > 0)
                putchar(',');
            print_elements(v, fd, n, d + 1, k);
        }
        putchar(']');
    } else if (fd->type == STREAM_RECORD && !v->records[*k]) {
        printf("null");
        ++*k;
    } else if (fd->type == STREAM_RECORD)
        print_record(v->records[(*k)++]);
    else if (fd->type == STREAM_STRING)
        printf("\"%s\"", v->strings[(*k)++]);
    else
        print_number(fd->type, v->bytes + stream_elem_size(fd->type) * (*k)++);
}

static void print_record(const struct record *r)
{
    putchar('{');
    for (size_t i = 0; i < stream_format_count(r->f); i++) {
        const struct stream_field *fd = stream_format_field(r->f, i);
        const struct value *v = &r->values[i];
        uint64_t n[STREAM_DIMS_MAX], k = 0;
        bool empty = false;

        for (unsigned d = 0; d < fd->ndims; d++) {
            size_t size = fd->dims[d].field;

            n[d] = fd->dims[d].fixed;
            if (n[d] == 0)
                stream_elem_size_value(stream_format_field(r->f, size)->type, STREAM_NATIVE,
                                       r->values[size].bytes, &n[d]);
            empty |= n[d] == 0;
        }
        printf("%s\"%s\":", i > 0 ? "," : "", fd->name);
        if (v->absent && empty)
            printf("\"empty\"");
        else if (v->absent)
            printf("null");
        else
            print_elements(v, fd, n, 0, &k);
    }
    putchar('}');
}

static void print(struct chance *c, uint64_t steps)
{
    for (uint64_t i = 0; i < steps; i++) {
        struct var vars[VARS];

        make(c, vars);
        putchar('{');
        for (int v = 0; v < VARS; v++) {
            printf("%s\"r%d\":[", v > 0 ? "," : "", v);
            for (uint64_t k = 0; k < vars[v].n; k++) {
                if (k > 0)
                    putchar(',');
                print_record(vars[v].r[k]);
            }
            putchar(']');
        }
        printf("}\n");
        drop(vars);
    }
}

static int work(int argc, char **argv)
{
    enum flux_stream_mode mode;
    uint64_t steps, hold = UINT64_MAX;
    struct chance c = {.plain = true};

    if (argc < 4)
        return 2;
    if (strcmp(argv[1], "atoms") == 0) {
        atoms(argv[2], (uint32_t)strtoul(argv[3], NULL, 10),
              argc > 5 ? (uint32_t)strtoul(argv[4], NULL, 10) : 0,
              argc > 5 ? (uint32_t)strtoul(argv[5], NULL, 10) : 1);
        return 0;
    }
    if (strcmp(argv[1], "print") == 0) {
        c.seed = strtoull(argv[2], NULL, 10);
        print(&c, strtoull(argv[3], NULL, 10));
        return 0;
    }
    if (argc < 5)
        return 2;
    c.seed = strtoull(argv[3], NULL, 10);
    steps = strtoull(argv[4], NULL, 10);
    if (argc > 5)
        hold = argc > 6 ? strtoull(argv[6], NULL, 10) : steps;
    mode = strcmp(argv[1], "write") == 0 ? FLUX_STREAM_WRITE : FLUX_STREAM_READ;
    if (strcmp(argv[1], "record") == 0)
        record(argv[2], &c, steps);
    else
        stream(argv[2], mode, &c, steps, hold);
    return 0;
}

/* The assertions of value.c need a running test. */
static struct {
    int argc;
    char **argv;
    int rc;
} args;

START_TEST(all)
{
    args.rc = work(args.argc, args.argv);
}
END_TEST

int main(int argc, char **argv)
{
    Suite *suite = suite_create("records");
    TCase *tc = tcase_create("all");
    SRunner *sr = srunner_create(suite);
    TestResult **failed;

    args.argc = argc;
    args.argv = argv;
    tcase_set_timeout(tc, 0);
    tcase_add_test(tc, all);
    suite_add_tcase(suite, tc);
    srunner_set_fork_status(sr, CK_NOFORK);
    srunner_run_all(sr, CK_SILENT);
    if (srunner_ntests_failed(sr) > 0) {
        failed = srunner_failures(sr);
        fprintf(stderr, "%s\n", tr_msg(failed[0]));
        free(failed);
        args.rc = 1;
    }
    srunner_free(sr);
    return args.rc;
}

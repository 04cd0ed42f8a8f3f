/* bench_types.c - records and arrays of streams beside memcpy: no processes, no messages.
 *
 * Each figure is bytes of the result per second of processor time, the median of rounds that take
 * turns with rounds of memcpy(3) of 16 MiB, in memory that was touched before.  Small records are
 * counted, with the time for each.
 */
#include "config.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bench.h"
#include "libstream/convert.h"
#include "libstream/copy.h"

#define BYTES ((size_t)16 << 20)
#define ROUNDS 15
#define ROWS 1024
#define COLUMNS (BYTES / ROWS / sizeof(double))
#define SMALL 1000 /* small records of a round */

static uint8_t *from, *to;
static struct stream_part part;
static const stream_format_t *format;
static const stream_convert_t *convert;
static stream_elem_f elements;
static size_t elems;
static const void *record;
static const uint8_t *encoded;
static size_t encoded_len;

/* Nothing here waits, and other programs do not count. */
static double now_us(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
    return (double)ts.tv_sec * 1e6 + (double)ts.tv_nsec / 1e3;
}

static void *memory(size_t bytes)
{
    void *p = aligned_alloc(4096, bytes);

    if (!p)
        bench_die("out of memory");
    memset(p, 1, bytes);
    return p;
}

static double once(void (*fn)(void))
{
    double begin = now_us();

    fn();
    return now_us() - begin;
}

static void do_memcpy(void)
{
    memcpy(to, from, BYTES);
}

/* `bytes` are in the result of `fn`; `at_least`: of the speed of memcpy. */
static void figure(const char *name, void (*fn)(void), size_t bytes, double at_least)
{
    double us[ROUNDS], ref[ROUNDS];

    fn();
    for (int i = 0; i < ROUNDS; i++) {
        us[i] = once(fn);
        ref[i] = once(do_memcpy);
    }
    bench_print(
        &(struct bench_figure){.name = name,
                               .value = (double)bytes / 1e3 / bench_percentile(us, ROUNDS, 50),
                               .unit = "GB/s",
                               .ref_name = "memcpy of 16 MiB",
                               .ref = BYTES / 1e3 / bench_percentile(ref, ROUNDS, 50),
                               .ratio_at_least = at_least});
}

/* Time for each of SMALL. */
static void figure_each(const char *name, void (*fn)(void))
{
    double us[ROUNDS];

    fn();
    for (int i = 0; i < ROUNDS; i++)
        us[i] = once(fn) / SMALL;
    bench_print(&(struct bench_figure){
        .name = name, .value = bench_percentile(us, ROUNDS, 50), .unit = "us"});
}

/* --- elements --- */

static void do_elements(void)
{
    if (!elements(to, from, elems))
        bench_die("the conversion failed");
}

static void bench_elements(void)
{
    static const struct {
        const char *name;
        enum stream_type from, to;
        enum stream_order order;
    } cases[] = {{"f64 of the other byte order", STREAM_F64, STREAM_F64, STREAM_LITTLE},
                 {"f32 of the other byte order", STREAM_F32, STREAM_F32, STREAM_LITTLE},
                 {"f32 to f64", STREAM_F32, STREAM_F64, STREAM_NATIVE},
                 {"i32 to i64", STREAM_I32, STREAM_I64, STREAM_NATIVE},
                 {"u16 of the other byte order to f64", STREAM_U16, STREAM_F64, STREAM_LITTLE}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        enum stream_order order = cases[i].order;

        if (order == STREAM_LITTLE)
            order = STREAM_NATIVE == STREAM_LITTLE ? STREAM_BIG : STREAM_LITTLE;
        elements = stream_elem_converter(cases[i].from, order, cases[i].to);
        elems = BYTES / stream_elem_size(cases[i].to);
        figure(cases[i].name, do_elements, BYTES, 0.5);
    }
}

/* --- records --- */

struct mesh {
    uint64_t step;
    uint64_t n;
    double time;
    double *x;
};
static const struct stream_row mesh_rows[] = {
    STREAM_SCALAR(struct mesh, step, U64),
    STREAM_SCALAR(struct mesh, n, U64),
    STREAM_SCALAR(struct mesh, time, F64),
    STREAM_VECTOR(struct mesh, x, F64, n),
    STREAM_ROW_END,
};
static const struct stream_table mesh_table = STREAM_TABLE(struct mesh, "mesh", mesh_rows);

struct atom {
    uint64_t id;
    double x, y, z;
    uint32_t kind;
    char *name;
};
static const struct stream_row atom_rows[] = {
    STREAM_SCALAR(struct atom, id, U64),
    STREAM_SCALAR(struct atom, x, F64),
    STREAM_SCALAR(struct atom, y, F64),
    STREAM_SCALAR(struct atom, z, F64),
    STREAM_SCALAR(struct atom, kind, U32),
    STREAM_TEXT(struct atom, name, 0),
    STREAM_ROW_END,
};
static const struct stream_table atom_table = STREAM_TABLE(struct atom, "atom", atom_rows);

struct particle {
    double x, y, z;
    uint32_t kind, charge;
};
struct cloud {
    uint64_t n;
    struct particle *all;
};
static const struct stream_row particle_rows[] = {
    STREAM_SCALAR(struct particle, x, F64),      STREAM_SCALAR(struct particle, y, F64),
    STREAM_SCALAR(struct particle, z, F64),      STREAM_SCALAR(struct particle, kind, U32),
    STREAM_SCALAR(struct particle, charge, U32), STREAM_ROW_END,
};
static const struct stream_table particle_table =
    STREAM_TABLE(struct particle, "particle", particle_rows);
static const struct stream_row cloud_rows[] = {
    STREAM_SCALAR(struct cloud, n, U64),
    STREAM_NESTED_VECTOR(struct cloud, all, struct particle, &particle_table, n),
    STREAM_ROW_END,
};
static const struct stream_table cloud_table = STREAM_TABLE(struct cloud, "cloud", cloud_rows);

static stream_format_t *create(const struct stream_table *t)
{
    errmsg_t err;
    stream_format_t *f = stream_format_create(t, &err);

    if (!f)
        bench_die("%s", err.text);
    return f;
}

static void do_encode(void)
{
    errmsg_t err;
    size_t len;

    if (stream_encode(format, record, to, 2 * BYTES, &len, &err) < 0)
        bench_die("%s", err.text);
    encoded_len = len - STREAM_HEADER;
}

static void do_encode_small(void)
{
    for (int i = 0; i < SMALL; i++)
        do_encode();
}

static void do_convert(void)
{
    errmsg_t err;

    if (stream_convert_into(convert, encoded, encoded_len, to, 2 * BYTES, 0, &err) < 0)
        bench_die("%s", err.text);
}

static void do_convert_small(void)
{
    for (int i = 0; i < SMALL; i++)
        do_convert();
}

/* Both ways; with `reader` into another format. */
static void bench_record(const char *what, const struct stream_table *t, const void *rec,
                         bool small, const stream_format_t *reader)
{
    stream_format_t *f = create(t);
    stream_convert_t *c = stream_convert_create(f, STREAM_NATIVE, reader ? reader : f, NULL);
    char name[64];
    uint8_t *copy;

    format = f;
    record = rec;
    convert = c;
    snprintf(name, sizeof(name), "%s: encode", what);
    if (small)
        figure_each(name, do_encode_small);
    else
        figure(name, do_encode, BYTES, 0.8);
    do_encode(); /* memcpy was there, too */
    copy = memory((encoded_len + 4095) / 4096 * 4096);
    memcpy(copy, to + STREAM_HEADER, encoded_len);
    encoded = copy;
    snprintf(name, sizeof(name), "%s: check and convert", what);
    if (small)
        figure_each(name, do_convert_small);
    else
        figure(name, do_convert, BYTES, reader ? 0.3 : 0.8);
    free(copy);
    stream_convert_destroy(c);
    stream_format_destroy(f);
}

static void bench_records(void)
{
    struct mesh mesh = {.n = BYTES / sizeof(double), .x = (double *)from};
    struct cloud cloud = {.n = BYTES / sizeof(struct particle), .all = (struct particle *)from};
    struct atom atom = {.id = 1, .name = "Cu"};
    struct stream_row later[sizeof(particle_rows) / sizeof(particle_rows[0])];
    struct stream_row later_cloud[sizeof(cloud_rows) / sizeof(cloud_rows[0])];
    struct stream_table later_table = {.name = "particle", .rows = later};
    struct stream_table later_top = {.name = "cloud", .rows = later_cloud};
    stream_format_t *reader;

    bench_record("record with an array of 16 MiB", &mesh_table, &mesh, false, NULL);
    bench_record("record with 500,000 records", &cloud_table, &cloud, false, NULL);
    memcpy(later, particle_rows, sizeof(later));
    memcpy(later_cloud, cloud_rows, sizeof(later_cloud));
    later[0] = particle_rows[2];
    later[2] = particle_rows[0];
    later_cloud[1].of = &later_table;
    reader = create(&later_top);
    bench_record("the same, fields in another order", &cloud_table, &cloud, false, reader);
    stream_format_destroy(reader);
    bench_record("record of 50 bytes", &atom_table, &atom, true, NULL);
}

/* --- boxes --- */

static void do_copy(void)
{
    stream_copy(&part, from, to);
}
static void do_unpack(void)
{
    stream_copy_unpack(&part, from, to);
}

/* `at_least`: of the speed of memcpy; a quarter of it makes an eighth twice as fast as the whole.
 */
static void bench_box(const char *what, struct stream_box box, enum stream_memory memory,
                      double at_least)
{
    const struct stream_shape shape = {.name = "T",
                                       .kind = STREAM_GLOBAL,
                                       .type = STREAM_F64,
                                       .order = STREAM_NATIVE,
                                       .memory = STREAM_ROWS,
                                       .ndims = 2,
                                       .extents = {ROWS, COLUMNS}};
    const struct stream_want want = {.memory = memory};
    stream_array_t *a = stream_array_create(&shape, NULL);
    char name[64];

    box.ndims = 2;
    if (!a || stream_array_add(a, 0, (uint64_t[]){0, 0}, shape.extents, NULL) < 0 ||
        stream_array_seal(a, NULL) < 0 || !stream_select_piece(a, 0, &box, &want, &part))
        bench_die("there is no box");
    snprintf(name, sizeof(name), "%s: copy", what);
    figure(name, do_copy, part.elems * sizeof(double), at_least);
    snprintf(name, sizeof(name), "%s: unpack", what);
    figure(name, do_unpack, part.elems * sizeof(double), at_least);
    stream_array_destroy(a);
}

static void bench_boxes(void)
{
    bench_box("whole", (struct stream_box){0, {0, 0}, {ROWS, COLUMNS}, {1, 1}}, STREAM_ROWS, 0.8);
    bench_box("1/8 of the rows", (struct stream_box){0, {128, 0}, {ROWS / 8, COLUMNS}, {1, 1}},
              STREAM_ROWS, 0.8);
    bench_box("1/8 of the columns", (struct stream_box){0, {0, 256}, {ROWS, COLUMNS / 8}, {1, 1}},
              STREAM_ROWS, 0.25);
    bench_box("each second column", (struct stream_box){0, {0, 0}, {ROWS, COLUMNS / 2}, {1, 2}},
              STREAM_ROWS, 0.25);
    bench_box("rows to columns", (struct stream_box){0, {0, 0}, {ROWS, COLUMNS}, {1, 1}},
              STREAM_COLUMNS, 0.25);
}

/* --- descriptions --- */

static stream_array_t *pieces;

static void do_pieces(void)
{
    static uint8_t buf[65536];
    stream_array_t *a;
    size_t len = stream_array_encoded(pieces);

    if (len > sizeof(buf))
        bench_die("the description is too long");
    stream_array_encode(pieces, buf);
    if (!(a = stream_array_decode(buf, len, NULL)))
        bench_die("the description is not one");
    stream_array_destroy(a);
}

static void do_format(void)
{
    const char *text = stream_format_text(format);

    for (int i = 0; i < SMALL; i++)
        stream_format_destroy(stream_format_parse(text, strlen(text), NULL));
}

static void bench_descriptions(void)
{
    const struct stream_shape shape = {.name = "T",
                                       .kind = STREAM_GLOBAL,
                                       .type = STREAM_F64,
                                       .order = STREAM_NATIVE,
                                       .memory = STREAM_ROWS,
                                       .ndims = 2,
                                       .extents = {1024, 1024}};
    stream_format_t *f = create(&cloud_table);
    double us[ROUNDS];

    format = f;
    figure_each("text of a format with 7 fields: read", do_format);
    pieces = stream_array_create(&shape, NULL);
    for (uint32_t i = 0; pieces && i < 1024; i++)
        if (stream_array_add(pieces, i, (uint64_t[]){i / 32 * 32, i % 32 * 32},
                             (uint64_t[]){32, 32}, NULL) < 0)
            bench_die("a piece is refused");
    if (!pieces || stream_array_seal(pieces, NULL) < 0)
        bench_die("the pieces are refused");
    for (int i = 0; i < ROUNDS; i++)
        us[i] = once(do_pieces);
    bench_print(&(struct bench_figure){.name = "1024 pieces: write, read and check",
                                       .value = bench_percentile(us, ROUNDS, 50) / 1e3,
                                       .unit = "ms",
                                       .at_most = 15.});
    stream_array_destroy(pieces);
    stream_format_destroy(f);
}

int main(void)
{
    from = memory(2 * BYTES);
    to = memory(2 * BYTES);
    bench_title("types of streams, beside memcpy");
    bench_elements();
    bench_records();
    bench_boxes();
    bench_descriptions();
    free(from);
    free(to);
    return 0;
}

/* Formats of records in typed streams.
 *
 * A format describes a C struct, or the equivalent data of a program in another language: its
 * fields, their types, shapes and offsets, with attributes.  It has a canonical text, which is
 * documented in doc/stream-format.rst; the SHA-256 of the text identifies it, and the first eight
 * bytes of the hash, the *id*, go with the data.  Formats with equal ids have equal fields and
 * layouts; the byte order is not part of a format.
 *
 *    struct atom { uint64_t id; uint32_t n; double *near; };
 *    static const struct stream_attr meters[] = {{"units", "m"}, {NULL, NULL}};
 *    static const struct stream_row atom_rows[] = {
 *        STREAM_SCALAR(struct atom, id, U64),
 *        STREAM_SCALAR(struct atom, n, U32),
 *        STREAM_VECTOR(struct atom, near, F64, n, .attrs = meters),
 *        STREAM_ROW_END,
 *    };
 *    static const struct stream_table atom_table = STREAM_TABLE(struct atom, "atom", atom_rows);
 *
 *    stream_format_t *f = stream_format_create(&atom_table, &err);
 *
 * The macros check types and size fields at compile time.  Programs without a C struct leave `size`
 * of the table 0: the fields are then laid out as by a C compiler.
 *
 * Self-describing formats as the basis of publish and subscribe are the idea of FLEXPATH
 * [J. Dayal et al., "Flexpath: Type-Based Publish/Subscribe System for Large-Scale Science
 * Analytics", CCGrid 2014].
 *
 * Thread rules: a format is constant, and may be used and released by any thread.
 */
#ifndef STREAM_FORMAT_H
#define STREAM_FORMAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "libstream/elem.h"
#include "libutil/errmsg.h"

#define STREAM_NAME_MAX 63     /* bytes of a name: letters, digits, '_', no digit first */
#define STREAM_TEXT_MAX 262144 /* bytes of the text of a format */
#define STREAM_NEST_MAX 16     /* nested formats, including the outermost */
#define STREAM_RECORDS_MAX 256 /* formats in a text */
#define STREAM_FIELDS_MAX 1024 /* fields of a format */
#define STREAM_DIMS_MAX 8      /* dimensions of a field */
#define STREAM_SIZES_MAX 16    /* fields of a format that are sizes of arrays */
#define STREAM_SIZE_MAX ((size_t)1 << 30) /* bytes of a record, without data at pointers */

enum stream_flags {
    STREAM_OPTIONAL = 1, /* may be absent: a NULL pointer in a C struct */
    STREAM_POINTER = 2,  /* elements are pointers to records, each of which may be NULL */
};

/* --- tables --- */

/* Name and value; the value is UTF-8.  A list ends with a NULL name.  The attribute "default" of a
 * scalar number, truth value, character or string is the value for a reader whose writer does not
 * have the field; it must be a value of the type. */
struct stream_attr {
    const char *name;
    const char *value;
};

/* One dimension: a number, or the name of an integer field of the same record. */
struct stream_dim {
    uint64_t fixed;
    const char *field;
};

/* A field.  The member of the struct depends on dims and flags:
 *
 *    dims         flags       member
 *    none         0           T x            (a string: char *x)
 *    none         OPTIONAL    T *x           (a string: char *x)
 *    all fixed    0           T x[n]         the slowest dimension first
 *    all fixed    OPTIONAL    T *x
 *    otherwise    any         T *x           may be NULL if the array is empty
 *
 * where T of a string is char *, and T of records with POINTER is a pointer.  A struct to which two
 * pointers point, or one that points back to a struct around it, cannot be encoded: records are
 * trees.
 * A record may point to records of its own format (`of` is its own table). */
struct stream_row {
    const char *name; /* NULL: end of the table */
    enum stream_type type;
    unsigned flags;
    size_t offset;
    const struct stream_table *of;           /* RECORD: the format of the elements */
    struct stream_dim dims[STREAM_DIMS_MAX]; /* the first one of {0, NULL} ends the list */
    const struct stream_attr *attrs;         /* or NULL */
};

struct stream_table {
    const char *name;
    const struct stream_row *rows;
    size_t size;    /* of the struct; 0: lay out the fields, whatever their offsets say */
    size_t align;   /* of the struct: a power of two, at most 8 */
    size_t pointer; /* bytes of a pointer: 4, 8, or 0 for those of this host */
    const struct stream_attr *attrs; /* or NULL */
};

/* clang-format off */
#define STREAM_C_I8 int8_t
#define STREAM_C_I16 int16_t
#define STREAM_C_I32 int32_t
#define STREAM_C_I64 int64_t
#define STREAM_C_U8 uint8_t
#define STREAM_C_U16 uint16_t
#define STREAM_C_U32 uint32_t
#define STREAM_C_U64 uint64_t
#define STREAM_C_F32 float
#define STREAM_C_F64 double
#define STREAM_C_C64 float _Complex
#define STREAM_C_C128 double _Complex
#define STREAM_C_BOOL bool
#define STREAM_C_CHAR char
#define STREAM_C_BYTES uint8_t
#define STREAM_C_STRING char *
/* clang-format on */

/* offsetof(S, m), if `ok`; else an error of the compiler. */
#define STREAM_OFFSET_(S, m, ok) (offsetof(S, m) + 0 * sizeof(char[(ok) ? 1 : -1]))
#define STREAM_IS_(S, m, ctype) __builtin_types_compatible_p(__typeof__(((S *)0)->m), ctype)
/* A pointer to this type, or to a constant of it. */
#define STREAM_TO_(S, m, ctype) (STREAM_IS_(S, m, ctype *) || STREAM_IS_(S, m, const ctype *))
/* The size field of an array; the member must exist. */
#define STREAM_SIZE_(S, n)                        \
    {                                             \
        0 * sizeof(((S *)0)->n), (const char *)#n \
    }

/* Members in place: T x, T x[n], T x[n][k]. */
#define STREAM_SCALAR(S, m, T, ...)                                                 \
    {                                                                               \
        .name = #m, .type = STREAM_##T,                                             \
        .offset = STREAM_OFFSET_(S, m, STREAM_IS_(S, m, STREAM_C_##T)), __VA_ARGS__ \
    }
#define STREAM_FIXED(S, m, T, n, ...)                                                              \
    {                                                                                              \
        .name = #m, .type = STREAM_##T, .dims = {{n, NULL}},                                       \
        .offset = STREAM_OFFSET_(S, m, STREAM_IS_(S, m, __typeof__(STREAM_C_##T[n]))), __VA_ARGS__ \
    }
#define STREAM_FIXED2(S, m, T, n, k, ...)                                                 \
    {                                                                                     \
        .name = #m, .type = STREAM_##T, .dims = {{n, NULL}, {k, NULL}},                   \
        .offset = STREAM_OFFSET_(S, m, STREAM_IS_(S, m, __typeof__(STREAM_C_##T[n][k]))), \
        __VA_ARGS__                                                                       \
    }
/* Pointers to arrays whose sizes are in other members: T *x. */
#define STREAM_VECTOR(S, m, T, n, ...)                                              \
    {                                                                               \
        .name = #m, .type = STREAM_##T, .dims = {STREAM_SIZE_(S, n)},               \
        .offset = STREAM_OFFSET_(S, m, STREAM_TO_(S, m, STREAM_C_##T)), __VA_ARGS__ \
    }
#define STREAM_MATRIX(S, m, T, n, k, ...)                                                 \
    {                                                                                     \
        .name = #m, .type = STREAM_##T, .dims = {STREAM_SIZE_(S, n), STREAM_SIZE_(S, k)}, \
        .offset = STREAM_OFFSET_(S, m, STREAM_TO_(S, m, STREAM_C_##T)), __VA_ARGS__       \
    }
/* An optional number, truth value or character: T *x. */
#define STREAM_OPTION(S, m, T, ...)                                                 \
    {                                                                               \
        .name = #m, .type = STREAM_##T, .flags = STREAM_OPTIONAL,                   \
        .offset = STREAM_OFFSET_(S, m, STREAM_TO_(S, m, STREAM_C_##T)), __VA_ARGS__ \
    }
/* A string: char *x. */
#define STREAM_TEXT(S, m, fl, ...)                                          \
    {                                                                       \
        .name = #m, .type = STREAM_STRING, .flags = (fl),                   \
        .offset = STREAM_OFFSET_(S, m, STREAM_TO_(S, m, char)), __VA_ARGS__ \
    }
/* Records of type C, described by `table`: in place, pointed to, and an array that is pointed to.
 * */
#define STREAM_NESTED(S, m, C, table, ...)                               \
    {                                                                    \
        .name = #m, .type = STREAM_RECORD, .of = (table),                \
        .offset = STREAM_OFFSET_(S, m, STREAM_IS_(S, m, C)), __VA_ARGS__ \
    }
#define STREAM_LINK(S, m, C, table, ...)                                           \
    {                                                                              \
        .name = #m, .type = STREAM_RECORD, .flags = STREAM_POINTER, .of = (table), \
        .offset = STREAM_OFFSET_(S, m, STREAM_TO_(S, m, C)), __VA_ARGS__           \
    }
#define STREAM_NESTED_VECTOR(S, m, C, table, n, ...)                                    \
    {                                                                                   \
        .name = #m, .type = STREAM_RECORD, .of = (table), .dims = {STREAM_SIZE_(S, n)}, \
        .offset = STREAM_OFFSET_(S, m, STREAM_TO_(S, m, C)), __VA_ARGS__                \
    }
#define STREAM_ROW_END \
    {                  \
        .name = NULL   \
    }
#define STREAM_TABLE(S, text, list, ...)                                                     \
    {                                                                                        \
        .name = (text), .rows = (list), .size = sizeof(S), .align = _Alignof(S), __VA_ARGS__ \
    }

/* --- formats --- */

typedef struct stream_format stream_format_t;

/* Build the format that a table describes, with all formats inside it.  NULL with EINVAL and an
 * error message that names the field, E2BIG (a limit above) or ENOMEM.  The table is not used
 * afterwards. */
stream_format_t *stream_format_create(const struct stream_table *table, errmsg_t *err);
/* Parse canonical text, which need not end with NUL.  NULL with EPROTO for any other bytes, or
 * ENOMEM. */
stream_format_t *stream_format_parse(const char *text, size_t len, errmsg_t *err);
/* Parse a text that a person, or a program without C structs, has written: like the canonical one,
 * but what says how the records are laid out may be left out: the first line, `size` and `align` of
 * records, `at` of fields.  Lines may be indented, or empty.
 *
 *    record atom
 *      field id u64
 *      field n u32
 *      field near f64[n]
 *      attr units "nm"
 *      field charge i32 optional
 *
 * NULL with EINVAL and an error message that names the line or the field, E2BIG or ENOMEM. */
stream_format_t *stream_format_sketch(const char *text, errmsg_t *err);
/* A format of the same fields, laid out for C structs of this host.  NULL with E2BIG or ENOMEM. */
stream_format_t *stream_format_native(const stream_format_t *f, errmsg_t *err);
/* A format of some fields of records, laid out likewise: those at these paths, such as "id" or
 * "at.x", in the order of `f`, and the sizes of their arrays.  The fields of a path are named, and
 * nested, as in `f`, so that records can be converted.  NULL with ENOENT (there is no such field),
 * EINVAL (no field, or one that is not a record has fields) or the errors above, and an error
 * message. */
stream_format_t *stream_format_pick(const stream_format_t *f, const char *const *paths, size_t n,
                                    errmsg_t *err);
stream_format_t *stream_format_incref(const stream_format_t *f);
void stream_format_destroy(stream_format_t *f); /* a reference; NULL-safe, keeps errno */

/* The canonical text, its SHA-256 (32 bytes), and the first 8 bytes of that as a big-endian number,
 * so that "%016" PRIx64 prints the first digits of the hash.  Not for formats of fields. */
const char *stream_format_text(const stream_format_t *f);
const uint8_t *stream_format_hash(const stream_format_t *f);
uint64_t stream_format_id(const stream_format_t *f);

/* --- queries --- */

/* A dimension: a number, or the index of a field. */
struct stream_extent {
    uint64_t fixed; /* 0: the number is in field `field` */
    size_t field;
};

struct stream_field {
    const char *name;
    enum stream_type type;
    unsigned flags;
    size_t offset;
    const stream_format_t *of; /* RECORD: of the elements; borrowed */
    unsigned ndims;
    struct stream_extent dims[STREAM_DIMS_MAX];
    const struct stream_attr *attrs; /* ended by a NULL name; borrowed */
    size_t elem;                     /* bytes from one element to the next */
    uint64_t count; /* number of elements; of a variable array: product of its fixed dimensions */
    bool variable;  /* a dimension is given by a field */
    bool slot;      /* the record has a pointer to the elements */
    bool pointers;  /* each element is a pointer: strings, POINTER */
};

const char *stream_format_name(const stream_format_t *f);
size_t stream_format_size(const stream_format_t *f);    /* bytes of the struct */
size_t stream_format_align(const stream_format_t *f);   /* of the struct */
size_t stream_format_pointer(const stream_format_t *f); /* bytes of a pointer: 4 or 8 */
/* Are all fields in place, without pointers? */
bool stream_format_flat(const stream_format_t *f);
size_t stream_format_count(const stream_format_t *f); /* fields */
/* A field by its position, or by name; NULL: none.  Borrowed. */
const struct stream_field *stream_format_field(const stream_format_t *f, size_t i);
const struct stream_field *stream_format_find(const stream_format_t *f, const char *name);
/* The value of an attribute of the format, and in a list; NULL: none. */
const char *stream_format_attr(const stream_format_t *f, const char *name);
const struct stream_attr *stream_format_attrs(const stream_format_t *f); /* all; may be NULL */
const char *stream_format_lookup(const struct stream_attr *attrs, const char *name);

#endif

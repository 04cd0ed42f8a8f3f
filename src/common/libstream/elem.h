/* Types of elements in typed streams, and conversion of arrays of them.
 *
 * An element is a number, a truth value, a character, an opaque byte, a string or a record; each
 * type has a name in the text of formats (doc/stream-format.rst).  Elements of strings and records
 * have no size of their own: formats give it.
 *
 * Data come in the writer's byte order and type.  A converter is one loop for one pair of types and
 * one byte order; the choice is made once, not per element.  Only conversions without loss exist:
 * to a wider type of the same kind, from an unsigned to a wider signed one, from integers and truth
 * values to floats that represent all of them, from real to complex.
 *
 * Thread rules: any thread; there is no state.
 */
#ifndef STREAM_ELEM_H
#define STREAM_ELEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum stream_type {
    STREAM_I8 = 1,
    STREAM_I16,
    STREAM_I32,
    STREAM_I64,
    STREAM_U8,
    STREAM_U16,
    STREAM_U32,
    STREAM_U64,
    STREAM_F32,    /* IEEE 754 binary32 */
    STREAM_F64,    /* IEEE 754 binary64 */
    STREAM_C64,    /* complex: two F32, the real part first */
    STREAM_C128,   /* complex: two F64 */
    STREAM_BOOL,   /* one byte, 0 or 1 */
    STREAM_CHAR,   /* one byte of text */
    STREAM_BYTES,  /* one opaque byte, never converted */
    STREAM_STRING, /* text that ends with NUL */
    STREAM_RECORD, /* a record of another format */
};
#define STREAM_TYPES (STREAM_RECORD + 1)

/* Byte orders; the values are those of encoded headers. */
enum stream_order {
    STREAM_LITTLE = 1,
    STREAM_BIG = 2,
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    STREAM_NATIVE = STREAM_LITTLE,
#else
    STREAM_NATIVE = STREAM_BIG,
#endif
};

/* The name of a type ("i32"); and the type of a name (0: invalid; records have no name). */
const char *stream_elem_name(enum stream_type type);
enum stream_type stream_elem_by_name(const char *name);
/* Bytes of an element; 0 for strings and records. */
size_t stream_elem_size(enum stream_type type);
/* Is the type an integer, which can hold the size of an array? */
bool stream_elem_integer(enum stream_type type);

/* Convert `n` elements, which may be at any address; `dst` and `src` do not overlap.  The result
 * has this host's byte order.  False if an element is not a value of its type (a truth value other
 * than 0 and 1); `dst` is then filled nevertheless. */
typedef bool (*stream_elem_f)(void *dst, const void *src, size_t n);

/* The converter for elements of `from` in byte order `order`.  NULL, with errno unchanged, if a
 * value of `from` may not be a value of `to`, and for strings and records. */
stream_elem_f stream_elem_converter(enum stream_type from, enum stream_order order,
                                    enum stream_type to);
/* Is the conversion a plain copy, and every sequence of bytes valid? */
bool stream_elem_copies(enum stream_type from, enum stream_order order, enum stream_type to);

/* A number, truth value ("true", "false") or character (a string of one byte) from its text, in
 * this host's byte order: stream_elem_size() bytes at `out`.  0, or -1 with EINVAL (not a value of
 * the type, or the type has no text: complex, bytes, strings and records) or ENOMEM. */
int stream_elem_parse(enum stream_type type, const char *text, void *out);

/* Copy `n` elements of `elem` bytes, `to` and `from` bytes apart from each other. */
typedef void (*stream_elem_line_f)(uint8_t *dst, const uint8_t *src, uint64_t n, size_t to,
                                   size_t from, size_t elem);
/* The loop for elements of this size and these distances. */
stream_elem_line_f stream_elem_line(size_t to, size_t from, size_t elem);

/* Are all of these truth values 0 or 1? */
bool stream_elem_truth(const void *at, size_t n);

/* The value of an integer at any address, which is read only once, because other processes may
 * write there. False if it is negative.  Not for other types. */
bool stream_elem_size_value(enum stream_type type, enum stream_order order, const void *at,
                            uint64_t *out);
/* Write `value`, which the type can represent, in this host's byte order. */
void stream_elem_size_put(enum stream_type type, void *at, uint64_t value);

#endif

/* elem.c - types of elements: names, sizes, and the loops that convert arrays.
 *
 * A macro makes each loop, for one pair of types and one byte order.  Loops read and write by
 * memcpy(), because encoded data need not be aligned; compilers turn that into vector loads.
 *
 * Invariants:
 *  1. A converter loses nothing: converters[from][to] exists only if every value of `from` is
 *     a value of `to`.
 *  2. A converter reads n elements of `from`, writes n of `to`, and nothing else.
 *
 * Failure: only truth values have bytes that are not a value of the type; their loops check and
 * copy all bytes, and then report an error.
 */
#include "config.h"
#include <byteswap.h>
#include <errno.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>

#include "elem.h"

/* --- names and sizes --- */

static const struct {
    const char *name;
    size_t size;
} types[STREAM_TYPES] = {
    [STREAM_I8] = {"i8", 1},         [STREAM_I16] = {"i16", 2},       [STREAM_I32] = {"i32", 4},
    [STREAM_I64] = {"i64", 8},       [STREAM_U8] = {"u8", 1},         [STREAM_U16] = {"u16", 2},
    [STREAM_U32] = {"u32", 4},       [STREAM_U64] = {"u64", 8},       [STREAM_F32] = {"f32", 4},
    [STREAM_F64] = {"f64", 8},       [STREAM_C64] = {"c64", 8},       [STREAM_C128] = {"c128", 16},
    [STREAM_BOOL] = {"bool", 1},     [STREAM_CHAR] = {"char", 1},     [STREAM_BYTES] = {"bytes", 1},
    [STREAM_STRING] = {"string", 0}, [STREAM_RECORD] = {"record", 0},
};

static bool valid(enum stream_type type)
{
    return type >= STREAM_I8 && type <= STREAM_RECORD;
}

const char *stream_elem_name(enum stream_type type)
{
    return valid(type) ? types[type].name : "?";
}

enum stream_type stream_elem_by_name(const char *name)
{
    for (int t = STREAM_I8; t < STREAM_RECORD; t++)
        if (strcmp(types[t].name, name) == 0)
            return (enum stream_type)t;
    return (enum stream_type)0;
}

size_t stream_elem_size(enum stream_type type)
{
    return valid(type) ? types[type].size : 0;
}

bool stream_elem_integer(enum stream_type type)
{
    return type >= STREAM_I8 && type <= STREAM_U64;
}

/* --- loops --- */

typedef float f32;
typedef double f64;
typedef int8_t i8;
typedef int16_t i16;
typedef int32_t i32;
typedef int64_t i64;
typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;

static inline u8 swap_1(u8 v)
{
    return v;
}
static inline u16 swap_2(u16 v)
{
    return bswap_16(v);
}
static inline u32 swap_4(u32 v)
{
    return bswap_32(v);
}
static inline u64 swap_8(u64 v)
{
    return bswap_64(v);
}
static inline u8 keep_1(u8 v)
{
    return v;
}
static inline u16 keep_2(u16 v)
{
    return v;
}
static inline u32 keep_4(u32 v)
{
    return v;
}
static inline u64 keep_8(u64 v)
{
    return v;
}

/* A loop from type F (whose bits are of type B, W bytes) to type T; PARTS: number of T in one
 * element, of which the second one is 0. */
#define LOOP(name, F, B, W, ORDER, T, PARTS)                                 \
    static bool name(void *restrict dst, const void *restrict src, size_t n) \
    {                                                                        \
        u8 *d = dst;                                                         \
        const u8 *s = src;                                                   \
        for (size_t i = 0; i < n; i++) {                                     \
            B bits;                                                          \
            F from;                                                          \
            T to[PARTS];                                                     \
            memset(to, 0, sizeof(to));                                       \
            memcpy(&bits, s + i * sizeof(bits), sizeof(bits));               \
            bits = ORDER##_##W(bits);                                        \
            memcpy(&from, &bits, sizeof(from));                              \
            to[0] = (T)from;                                                 \
            memcpy(d + i * sizeof(to), to, sizeof(to));                      \
        }                                                                    \
        return true;                                                         \
    }
/* Both byte orders of a pair. */
#define PAIR(F, B, W, T)                         \
    LOOP(keep_##F##_to_##T, F, B, W, keep, T, 1) \
    LOOP(swap_##F##_to_##T, F, B, W, swap, T, 1)
#define TO_COMPLEX(F, B, W, T, C)                \
    LOOP(keep_##F##_to_##C, F, B, W, keep, T, 2) \
    LOOP(swap_##F##_to_##C, F, B, W, swap, T, 2)

/* The bytes of 2-byte and 4-byte words are swapped eight bytes at a time. */
static inline u64 swap_2_of_8(u64 v)
{
    return (v & 0x00ff00ff00ff00ffu) << 8 | (v >> 8 & 0x00ff00ff00ff00ffu);
}
static inline u64 swap_4_of_8(u64 v)
{
    v = bswap_64(v);
    return v << 32 | v >> 32;
}
#define SWAP(T, W, WORDS)                                                                 \
    static bool swap_##T##_to_##T(void *restrict dst, const void *restrict src, size_t n) \
    {                                                                                     \
        u8 *d = dst;                                                                      \
        const u8 *s = src;                                                                \
        u64 words;                                                                        \
        T one;                                                                            \
        for (; n >= WORDS; n -= WORDS, s += 8, d += 8) {                                  \
            memcpy(&words, s, 8);                                                         \
            words = swap_##W##_of_8(words);                                               \
            memcpy(d, &words, 8);                                                         \
        }                                                                                 \
        for (; n > 0; n--, s += W, d += W) {                                              \
            memcpy(&one, s, W);                                                           \
            one = swap_##W(one);                                                          \
            memcpy(d, &one, W);                                                           \
        }                                                                                 \
        return true;                                                                      \
    }
SWAP(u16, 2, 4)
SWAP(u32, 4, 2)

/* Conversions of integers of 8, 16 and 32 bits, and of floats. */
#define SMALL(F, B, W)            \
    PAIR(F, B, W, f32)            \
    PAIR(F, B, W, f64)            \
    TO_COMPLEX(F, B, W, f32, c64) \
    TO_COMPLEX(F, B, W, f64, c128)
#define MIDDLE(F, B, W) \
    PAIR(F, B, W, f64)  \
    TO_COMPLEX(F, B, W, f64, c128)

PAIR(u8, u8, 1, u16)
PAIR(u8, u8, 1, u32)
PAIR(u8, u8, 1, u64)
PAIR(u8, u8, 1, i16)
PAIR(u8, u8, 1, i32)
PAIR(u8, u8, 1, i64)
SMALL(u8, u8, 1)
PAIR(u16, u16, 2, u32)
PAIR(u16, u16, 2, u64)
PAIR(u16, u16, 2, i32)
PAIR(u16, u16, 2, i64)
SMALL(u16, u16, 2)
PAIR(u32, u32, 4, u64)
PAIR(u32, u32, 4, i64)
MIDDLE(u32, u32, 4)
LOOP(swap_u64_to_u64, u64, u64, 8, swap, u64, 1)
PAIR(i8, u8, 1, i16)
PAIR(i8, u8, 1, i32)
PAIR(i8, u8, 1, i64)
SMALL(i8, u8, 1)
PAIR(i16, u16, 2, i32)
PAIR(i16, u16, 2, i64)
SMALL(i16, u16, 2)
PAIR(i32, u32, 4, i64)
MIDDLE(i32, u32, 4)
PAIR(f32, u32, 4, f64)
TO_COMPLEX(f32, u32, 4, f32, c64)
TO_COMPLEX(f32, u32, 4, f64, c128)
TO_COMPLEX(f64, u64, 8, f64, c128)

/* Complex numbers are pairs of real ones. */
static bool swap_c64_to_c64(void *dst, const void *src, size_t n)
{
    return swap_u32_to_u32(dst, src, 2 * n);
}
static bool swap_c128_to_c128(void *dst, const void *src, size_t n)
{
    return swap_u64_to_u64(dst, src, 2 * n);
}
static bool keep_c64_to_c128(void *dst, const void *src, size_t n)
{
    return keep_f32_to_f64(dst, src, 2 * n);
}
static bool swap_c64_to_c128(void *dst, const void *src, size_t n)
{
    return swap_f32_to_f64(dst, src, 2 * n);
}

#define COPY(n)                                                                  \
    static bool copy_##n(void *restrict dst, const void *restrict src, size_t c) \
    {                                                                            \
        memcpy(dst, src, c *(n));                                                \
        return true;                                                             \
    }
COPY(1)
COPY(2)
COPY(4)
COPY(8)
COPY(16)

bool stream_elem_truth(const void *src, size_t n)
{
    const u8 *s = src;
    u8 any = 0;

    for (size_t i = 0; i < n; i++)
        any |= s[i];
    return any <= 1;
}
static bool bool_to_bool(void *restrict dst, const void *restrict src, size_t n)
{
    memcpy(dst, src, n);
    return stream_elem_truth(dst, n); /* check the copy: `src` may be memory that others write */
}
/* Truth values are converted to numbers like unsigned bytes. */
#define TRUTH(T)                                                                    \
    static bool bool_to_##T(void *restrict dst, const void *restrict src, size_t n) \
    {                                                                               \
        return keep_u8_to_##T(dst, src, n) && stream_elem_truth(src, n);            \
    }
TRUTH(u16)
TRUTH(u32)
TRUTH(u64)
TRUTH(i16)
TRUTH(i32)
TRUTH(i64)
TRUTH(f32)
TRUTH(f64)
TRUTH(c64)
TRUTH(c128)

/* --- elements with gaps --- */

#define LINE(size)                                                                          \
    static void line_##size(uint8_t *restrict dst, const uint8_t *restrict src, uint64_t n, \
                            size_t to, size_t from, size_t elem)                            \
    {                                                                                       \
        (void)elem;                                                                         \
        for (uint64_t i = 0; i < n; i++, dst += to, src += from)                            \
            memcpy(dst, src, size);                                                         \
    }
LINE(1)
LINE(2)
LINE(4)
LINE(8)
LINE(16)

static void line_any(uint8_t *restrict dst, const uint8_t *restrict src, uint64_t n, size_t to,
                     size_t from, size_t elem)
{
    for (uint64_t i = 0; i < n; i++, dst += to, src += from)
        memcpy(dst, src, elem);
}

static void line_together(uint8_t *restrict dst, const uint8_t *restrict src, uint64_t n, size_t to,
                          size_t from, size_t elem)
{
    (void)to;
    (void)from;
    memcpy(dst, src, n * elem);
}

stream_elem_line_f stream_elem_line(size_t to, size_t from, size_t elem)
{
    if (to == elem && from == elem)
        return line_together;
    switch (elem) {
    case 1:
        return line_1;
    case 2:
        return line_2;
    case 4:
        return line_4;
    case 8:
        return line_8;
    case 16:
        return line_16;
    default:
        return line_any;
    }
}

/* --- the choice --- */

#define SAME(T, n, s) [STREAM_##T][STREAM_##T] = {copy_##n, s}
#define TO(F, T, f, t) [STREAM_##F][STREAM_##T] = {keep_##f##_to_##t, swap_##f##_to_##t}
#define FLOATS(F, f) TO(F, F64, f, f64), TO(F, C128, f, c128)
#define ALL_FLOATS(F, f) TO(F, F32, f, f32), TO(F, C64, f, c64), FLOATS(F, f)
#define FROM_BOOL(T, t) [STREAM_BOOL][STREAM_##T] = {bool_to_##t, bool_to_##t}

/* By writer's and reader's type; [0] for this host's byte order, [1] for the other one. */
static const stream_elem_f converters[STREAM_TYPES][STREAM_TYPES][2] = {
    SAME(I8, 1, copy_1),
    SAME(I16, 2, swap_u16_to_u16),
    SAME(I32, 4, swap_u32_to_u32),
    SAME(I64, 8, swap_u64_to_u64),
    SAME(U8, 1, copy_1),
    SAME(U16, 2, swap_u16_to_u16),
    SAME(U32, 4, swap_u32_to_u32),
    SAME(U64, 8, swap_u64_to_u64),
    SAME(F32, 4, swap_u32_to_u32),
    SAME(F64, 8, swap_u64_to_u64),
    SAME(C64, 8, swap_c64_to_c64),
    SAME(C128, 16, swap_c128_to_c128),
    SAME(CHAR, 1, copy_1),
    SAME(BYTES, 1, copy_1),
    TO(U8, U16, u8, u16),
    TO(U8, U32, u8, u32),
    TO(U8, U64, u8, u64),
    TO(U8, I16, u8, i16),
    TO(U8, I32, u8, i32),
    TO(U8, I64, u8, i64),
    ALL_FLOATS(U8, u8),
    TO(U16, U32, u16, u32),
    TO(U16, U64, u16, u64),
    TO(U16, I32, u16, i32),
    TO(U16, I64, u16, i64),
    ALL_FLOATS(U16, u16),
    TO(U32, U64, u32, u64),
    TO(U32, I64, u32, i64),
    FLOATS(U32, u32),
    TO(I8, I16, i8, i16),
    TO(I8, I32, i8, i32),
    TO(I8, I64, i8, i64),
    ALL_FLOATS(I8, i8),
    TO(I16, I32, i16, i32),
    TO(I16, I64, i16, i64),
    ALL_FLOATS(I16, i16),
    TO(I32, I64, i32, i64),
    FLOATS(I32, i32),
    TO(F32, F64, f32, f64),
    TO(F32, C64, f32, c64),
    TO(F32, C128, f32, c128),
    TO(F64, C128, f64, c128),
    TO(C64, C128, c64, c128),
    [STREAM_BOOL][STREAM_BOOL] = {bool_to_bool, bool_to_bool},
    [STREAM_BOOL][STREAM_U8] = {bool_to_bool, bool_to_bool},
    [STREAM_BOOL][STREAM_I8] = {bool_to_bool, bool_to_bool},
    FROM_BOOL(U16, u16),
    FROM_BOOL(U32, u32),
    FROM_BOOL(U64, u64),
    FROM_BOOL(I16, i16),
    FROM_BOOL(I32, i32),
    FROM_BOOL(I64, i64),
    FROM_BOOL(F32, f32),
    FROM_BOOL(F64, f64),
    FROM_BOOL(C64, c64),
    FROM_BOOL(C128, c128),
};

stream_elem_f stream_elem_converter(enum stream_type from, enum stream_order order,
                                    enum stream_type to)
{
    return valid(from) && valid(to) ? converters[from][to][order != STREAM_NATIVE] : NULL;
}

bool stream_elem_copies(enum stream_type from, enum stream_order order, enum stream_type to)
{
    return from == to && from != STREAM_BOOL && types[from].size > 0 &&
           (order == STREAM_NATIVE || types[from].size == 1);
}

/* --- sizes of arrays --- */

#define READ_ONCE(T, at) (((const volatile struct __attribute__((packed)) { T v; } *)(at))->v)

bool stream_elem_size_value(enum stream_type type, enum stream_order order, const void *at,
                            uint64_t *out)
{
    bool swap = order != STREAM_NATIVE;
    uint64_t v;

    switch (types[type].size) {
    case 1:
        v = READ_ONCE(u8, at);
        break;
    case 2:
        v = READ_ONCE(u16, at);
        v = swap ? bswap_16((u16)v) : v;
        break;
    case 4:
        v = READ_ONCE(u32, at);
        v = swap ? bswap_32((u32)v) : v;
        break;
    default:
        v = READ_ONCE(u64, at);
        v = swap ? bswap_64(v) : v;
    }
    *out = v;
    return type > STREAM_I64 || !(v >> (8 * types[type].size - 1));
}

void stream_elem_size_put(enum stream_type type, void *at, uint64_t value)
{
    switch (types[type].size) {
    case 1:
        *(u8 *)at = (u8)value;
        break;
    case 2:
        memcpy(at, &(u16){(u16)value}, 2);
        break;
    case 4:
        memcpy(at, &(u32){(u32)value}, 4);
        break;
    default:
        memcpy(at, &value, 8);
    }
}

/* --- values from text --- */

/* Independent of the locale. */
static int parse_double(const char *text, double *out)
{
    locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    char *end;

    if (!c)
        return -1;
    *out = strtod_l(text, &end, c);
    freelocale(c);
    if (end == text || *end || strchr(" \t\n\v\f\r", text[0])) {
        errno = EINVAL;
        return -1;
    }
    return 0;
}

static int parse_integer(enum stream_type type, const char *text, void *out)
{
    bool is_signed = type <= STREAM_I64;
    unsigned bits = 8 * (unsigned)types[type].size;
    bool minus = is_signed && text[0] == '-';
    const char *p = text + minus;
    uint64_t max = is_signed ? (UINT64_MAX >> (65 - bits)) + minus : UINT64_MAX >> (64 - bits);
    uint64_t v = 0;

    errno = EINVAL;
    if (!*p)
        return -1;
    for (; *p; p++) {
        unsigned digit = (unsigned)(*p - '0');

        if (digit > 9 || v > (max - digit) / 10)
            return -1;
        v = v * 10 + digit;
    }
    if (minus)
        v = -v;
    stream_elem_size_put(type, out, v);
    return 0;
}

int stream_elem_parse(enum stream_type type, const char *text, void *out)
{
    double d;
    float f;

    if (stream_elem_integer(type))
        return parse_integer(type, text, out);
    switch (type) {
    case STREAM_F32:
        if (parse_double(text, &d) < 0)
            return -1;
        f = (float)d;
        memcpy(out, &f, sizeof(f));
        return 0;
    case STREAM_F64:
        if (parse_double(text, &d) < 0)
            return -1;
        memcpy(out, &d, sizeof(d));
        return 0;
    case STREAM_BOOL:
        if (strcmp(text, "true") == 0 || strcmp(text, "false") == 0) {
            *(u8 *)out = text[0] == 't';
            return 0;
        }
        break;
    case STREAM_CHAR:
        if (text[0] && !text[1]) {
            *(char *)out = text[0];
            return 0;
        }
        break;
    default:
        break;
    }
    errno = EINVAL;
    return -1;
}

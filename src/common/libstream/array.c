/* array.c - variables and their pieces: checked, sorted, encoded.
 *
 * Pieces stay in the order in which they were added.  For a global array, a second list has the
 * pieces sorted by their offset in one dimension, the *axis*: the dimension along which the fewest
 * pieces are side by side.  A sweep along the axis finds pieces that overlap, and a search in the
 * list finds the pieces that a box meets.
 *
 * Invariants:
 *  1. The bytes of an array, of a piece and of a box are numbers of 62 bits.
 *  2. In a sealed array no two pieces share an element, and each is inside the extents.
 *  3. `sorted` is sorted by offset along the axis; no piece is longer along it than `longest`.
 *
 * Failure: an array that could not be sealed can only be destroyed.  If on every axis a piece is
 * side by side with more than SWEEP_MAX others on average, the pieces are refused: a hostile
 * description could otherwise cause a sweep of seconds.
 */
#include "config.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "array.h"
#include "libutil/invariant.h"
#include "libutil/le.h"
#include "libutil/strutil.h"

#define BYTES_MAX ((uint64_t)1 << 62)
#define ELEM_MAX ((size_t)1 << 30) /* as of records in formats */
#define SWEEP_MAX 4096
#define HEADER 32

static const uint8_t magic[4] = {'F', 'S', 'V', 1};

struct stream_array {
    struct stream_shape shape;
    char name[STREAM_VARIABLE_MAX + 1];
    size_t n, space;
    uint32_t *ranks;
    uint64_t *numbers; /* of each piece: offsets if the array is global, counts */
    uint64_t *elems;
    uint32_t *sorted; /* numbers of pieces; NULL: not global, or not sealed */
    unsigned axis;
    uint64_t longest;
    bool sealed;
};

static bool global(const stream_array_t *a)
{
    return a->shape.kind == STREAM_GLOBAL;
}

/* The count of numbers of a piece. */
static unsigned width(const stream_array_t *a)
{
    return global(a) ? 2 * a->shape.ndims : a->shape.ndims;
}

static const uint64_t *offset_of(const stream_array_t *a, size_t i)
{
    return a->numbers + i * width(a);
}

static const uint64_t *count_of(const stream_array_t *a, size_t i)
{
    return a->numbers + i * width(a) + (global(a) ? a->shape.ndims : 0);
}

static int no_memory(errmsg_t *err)
{
    return errmsg_fail(err, ENOMEM, "out of memory for the pieces of a variable");
}

/* --- a variable --- */

static bool name_valid(const char *name, size_t len)
{
    if (len == 0 || len > STREAM_VARIABLE_MAX || str_utf8_span(name, len) != len)
        return false;
    for (size_t i = 0; i < len; i++)
        if ((unsigned char)name[i] < ' ' || name[i] == 0x7f)
            return false;
    return true;
}

static int check_shape(const struct stream_shape *s, errmsg_t *err)
{
    uint64_t bytes = s->elem;

    if (s->kind < STREAM_VALUE || s->kind > STREAM_GLOBAL)
        return errmsg_fail(err, EINVAL, "variable '%.64s' is of an unknown kind, %d", s->name,
                           (int)s->kind);
    if (s->type < STREAM_I8 || s->type > STREAM_RECORD || s->type == STREAM_STRING)
        return errmsg_fail(err, EINVAL, "variable '%.64s' cannot have elements of type %s", s->name,
                           stream_elem_name(s->type));
    if (s->type == STREAM_RECORD ? s->elem == 0 || s->elem > ELEM_MAX
                                 : s->elem != stream_elem_size(s->type) || s->id)
        return errmsg_fail(err, EINVAL,
                           "variable '%.64s' of type %s cannot have elements of %zu "
                           "bytes, or cannot have a format",
                           s->name, stream_elem_name(s->type), s->elem);
    if ((s->order != STREAM_LITTLE && s->order != STREAM_BIG) ||
        (s->memory != STREAM_ROWS && s->memory != STREAM_COLUMNS))
        return errmsg_fail(err, EINVAL, "variable '%.64s' is in an unknown order", s->name);
    if (s->ndims > STREAM_NDIMS_MAX || (s->ndims == 0) != (s->kind == STREAM_VALUE))
        return errmsg_fail(err, EINVAL, "variable '%.64s' cannot have %u dimensions", s->name,
                           s->ndims);
    for (unsigned d = 0; s->kind == STREAM_GLOBAL && d < s->ndims; d++)
        if (s->extents[d] > BYTES_MAX || __builtin_mul_overflow(bytes, s->extents[d], &bytes) ||
            bytes > BYTES_MAX)
            return errmsg_fail(err, E2BIG, "variable '%.64s' is too large", s->name);
    return 0;
}

stream_array_t *stream_array_create(const struct stream_shape *shape, errmsg_t *err)
{
    stream_array_t *a;

    if (!name_valid(shape->name, strlen(shape->name))) {
        errmsg_fail(err, EINVAL, "'%.64s' is not a valid name of a variable", shape->name);
        return NULL;
    }
    if (!(a = calloc(1, sizeof(*a)))) {
        no_memory(err);
        return NULL;
    }
    a->shape = *shape;
    strcpy(a->name, shape->name);
    a->shape.name = a->name;
    if (shape->elem == 0)
        a->shape.elem = stream_elem_size(shape->type);
    if (check_shape(&a->shape, err) < 0) {
        stream_array_destroy(a);
        return NULL;
    }
    return a;
}

void stream_array_destroy(stream_array_t *a)
{
    int saved_errno = errno;

    if (!a)
        return;
    free(a->ranks);
    free(a->numbers);
    free(a->elems);
    free(a->sorted);
    free(a);
    errno = saved_errno;
}

const struct stream_shape *stream_array_shape(const stream_array_t *a)
{
    return &a->shape;
}

size_t stream_array_count(const stream_array_t *a)
{
    return a->n;
}

struct stream_piece stream_array_piece(const stream_array_t *a, size_t i)
{
    return (struct stream_piece){.rank = a->ranks[i],
                                 .offset = global(a) ? offset_of(a, i) : NULL,
                                 .count = count_of(a, i),
                                 .elems = a->elems[i]};
}

/* --- pieces --- */

static int grow(stream_array_t *a, size_t space)
{
    uint32_t *ranks = realloc(a->ranks, space * sizeof(*ranks));
    uint64_t *elems, *numbers;

    if (ranks)
        a->ranks = ranks;
    if ((elems = realloc(a->elems, space * sizeof(*elems))))
        a->elems = elems;
    if ((numbers = realloc(a->numbers, (space * width(a) + 1) * sizeof(*numbers))))
        a->numbers = numbers;
    if (!ranks || !elems || !numbers)
        return -1;
    a->space = space;
    return 0;
}

int stream_array_add(stream_array_t *a, uint32_t rank, const uint64_t *offset,
                     const uint64_t *count, errmsg_t *err)
{
    const struct stream_shape *s = &a->shape;
    uint64_t bytes = s->elem, *to;

    for (unsigned d = 0; d < s->ndims; d++) {
        if (count[d] == 0)
            return errmsg_fail(err, EINVAL,
                               "a piece of variable '%.64s' of rank %u has no elements", s->name,
                               rank);
        if (global(a) && (offset[d] > s->extents[d] || count[d] > s->extents[d] - offset[d]))
            return errmsg_fail(err, EINVAL,
                               "a piece of variable '%.64s' of rank %u is not inside "
                               "the array in dimension %u",
                               s->name, rank, d);
        if (__builtin_mul_overflow(bytes, count[d], &bytes) || bytes > BYTES_MAX)
            return errmsg_fail(err, E2BIG, "a piece of variable '%.64s' of rank %u is too large",
                               s->name, rank);
    }
    if (a->n == STREAM_PIECES_MAX)
        return errmsg_fail(err, E2BIG, "variable '%.64s' has more than %d pieces", s->name,
                           STREAM_PIECES_MAX);
    if (a->n == a->space && grow(a, a->space ? 2 * a->space : 4) < 0)
        return no_memory(err);
    INVARIANT(1, bytes <= BYTES_MAX);
    to = a->numbers + a->n * width(a);
    if (global(a))
        memcpy(to, offset, s->ndims * sizeof(*to));
    if (s->ndims > 0)
        memcpy(to + (global(a) ? s->ndims : 0), count, s->ndims * sizeof(*to));
    a->ranks[a->n] = rank;
    a->elems[a->n++] = bytes / s->elem;
    return 0;
}

/* --- sealing --- */

static int by_rank(const void *x, const void *y, void *arg)
{
    const stream_array_t *a = arg;
    uint32_t p = a->ranks[*(const uint32_t *)x], q = a->ranks[*(const uint32_t *)y];

    return (p > q) - (p < q);
}

/* Order by offset along the axis. */
static int by_offset(const void *x, const void *y, void *arg)
{
    const stream_array_t *a = arg;
    uint64_t p = offset_of(a, *(const uint32_t *)x)[a->axis];
    uint64_t q = offset_of(a, *(const uint32_t *)y)[a->axis];

    return (p > q) - (p < q);
}

static void sort(stream_array_t *a, uint32_t *list,
                 int (*compare)(const void *, const void *, void *))
{
    for (size_t i = 0; i < a->n; i++)
        list[i] = (uint32_t)i;
    qsort_r(list, a->n, sizeof(*list), compare, a);
}

static int check_ranks(const stream_array_t *a, const uint32_t *list, errmsg_t *err)
{
    for (size_t i = 1; i < a->n; i++)
        if (a->ranks[list[i]] == a->ranks[list[i - 1]])
            return errmsg_fail(err, EINVAL, "rank %u has two of variable '%.64s'",
                               a->ranks[list[i]], a->shape.name);
    return 0;
}

/* Order by end along the axis. */
static int by_end(const void *x, const void *y, void *arg)
{
    const stream_array_t *a = arg;
    uint32_t p = *(const uint32_t *)x, q = *(const uint32_t *)y;
    uint64_t e = offset_of(a, p)[a->axis] + count_of(a, p)[a->axis];
    uint64_t f = offset_of(a, q)[a->axis] + count_of(a, q)[a->axis];

    return (e > f) - (e < f);
}

/* The number of pairs of pieces that are side by side along the axis, which a sweep compares.
 * Leaves the list sorted by offset. */
static uint64_t count_pairs(stream_array_t *a, uint32_t *ends)
{
    uint64_t pairs = 0;
    size_t ended = 0;

    sort(a, a->sorted, by_offset);
    sort(a, ends, by_end);
    for (size_t i = 0; i < a->n; i++) {
        uint64_t at = offset_of(a, a->sorted[i])[a->axis];

        while (ended < i &&
               offset_of(a, ends[ended])[a->axis] + count_of(a, ends[ended])[a->axis] <= at)
            ended++;
        pairs += i - ended;
    }
    return pairs;
}

/* Sort the pieces along the axis with the fewest such pairs. */
static int choose_axis(stream_array_t *a, uint32_t *scratch, errmsg_t *err)
{
    uint64_t best = UINT64_MAX;
    unsigned axis = 0;

    for (a->axis = 0; a->axis < a->shape.ndims && best > 0; a->axis++) {
        uint64_t pairs = count_pairs(a, scratch);

        if (pairs < best) {
            best = pairs;
            axis = a->axis;
        }
    }
    if (best > (uint64_t)SWEEP_MAX * a->n)
        return errmsg_fail(err, E2BIG, "variable '%.64s' has too many pieces side by side",
                           a->shape.name);
    if (axis + 1 != a->axis) {
        a->axis = axis;
        sort(a, a->sorted, by_offset);
    }
    a->axis = axis;
    for (size_t i = 0; i < a->n; i++)
        if (count_of(a, i)[axis] > a->longest)
            a->longest = count_of(a, i)[axis];
    return 0;
}

static bool overlap(const stream_array_t *a, size_t i, size_t j)
{
    const uint64_t *oi = offset_of(a, i), *oj = offset_of(a, j);
    const uint64_t *ci = count_of(a, i), *cj = count_of(a, j);

    for (unsigned d = 0; d < a->shape.ndims; d++)
        if (oi[d] >= oj[d] + cj[d] || oj[d] >= oi[d] + ci[d])
            return false;
    return true;
}

/* Compare pieces along the axis.  `active` lists the pieces that reach the current position. */
static int sweep(const stream_array_t *a, uint32_t *active, errmsg_t *err)
{
    size_t n = 0;

    for (size_t i = 0; i < a->n; i++) {
        uint32_t p = a->sorted[i];
        uint64_t at = offset_of(a, p)[a->axis];
        size_t kept = 0;

        for (size_t k = 0; k < n; k++) {
            uint32_t q = active[k];

            if (offset_of(a, q)[a->axis] + count_of(a, q)[a->axis] <= at)
                continue;
            active[kept++] = q;
            if (overlap(a, p, q))
                return errmsg_fail(err, EINVAL,
                                   "pieces of ranks %u and %u of variable '%.64s' overlap",
                                   a->ranks[q < p ? q : p], a->ranks[q < p ? p : q], a->shape.name);
        }
        n = kept;
        active[n++] = p;
    }
    return 0;
}

int stream_array_seal(stream_array_t *a, errmsg_t *err)
{
    uint32_t *list = malloc((a->n + 1) * sizeof(*list));
    int rc = -1;

    if (!list)
        return no_memory(err);
    if (!global(a)) {
        sort(a, list, by_rank);
        rc = check_ranks(a, list, err);
    } else if (!(a->sorted = malloc((a->n + 1) * sizeof(*a->sorted)))) {
        no_memory(err);
    } else {
        rc = choose_axis(a, list, err);
        if (rc == 0)
            rc = sweep(a, list, err);
    }
    free(list);
    a->sealed = rc == 0;
    return rc;
}

int stream_array_visit(const stream_array_t *a, const uint64_t *low, const uint64_t *high,
                       stream_array_f fn, void *arg)
{
    size_t from = 0, to = a->n;

    INVARIANT(3, a->sealed && a->sorted);
    while (from < to) { /* find the first piece that may reach to `low` */
        size_t mid = from + (to - from) / 2;

        if (offset_of(a, a->sorted[mid])[a->axis] + a->longest <= low[a->axis])
            from = mid + 1;
        else
            to = mid;
    }
    for (; from < a->n && offset_of(a, a->sorted[from])[a->axis] <= high[a->axis]; from++) {
        size_t piece = a->sorted[from];
        const uint64_t *offset = offset_of(a, piece), *count = count_of(a, piece);
        bool meets = true;
        int rc;

        for (unsigned d = 0; meets && d < a->shape.ndims; d++)
            meets = offset[d] <= high[d] && offset[d] + count[d] > low[d];
        if (meets && (rc = fn(piece, arg)) != 0)
            return rc;
    }
    return 0;
}

/* --- bytes --- */

static size_t name_room(size_t len)
{
    return (len + 7) & ~(size_t)7;
}

static size_t piece_bytes(const stream_array_t *a)
{
    return 8 + 8 * (size_t)width(a);
}

size_t stream_array_encoded(const stream_array_t *a)
{
    return HEADER + (global(a) ? 8 * (size_t)a->shape.ndims : 0) + name_room(strlen(a->name)) +
           a->n * piece_bytes(a);
}

void stream_array_encode(const stream_array_t *a, void *buf)
{
    const struct stream_shape *s = &a->shape;
    size_t name = strlen(a->name);
    uint8_t *p = buf;

    memset(p, 0, HEADER);
    memcpy(p, magic, sizeof(magic));
    p[4] = (uint8_t)s->kind;
    p[5] = (uint8_t)s->type;
    p[6] = (uint8_t)s->order;
    p[7] = (uint8_t)s->memory;
    p[8] = (uint8_t)s->ndims;
    p[9] = (uint8_t)name;
    le_put32(p + 12, (uint32_t)a->n);
    for (int i = 0; i < 8; i++)
        p[16 + i] = (uint8_t)(s->id >> (56 - 8 * i));
    le_put64(p + 24, s->elem);
    p += HEADER;
    for (unsigned d = 0; global(a) && d < s->ndims; d++, p += 8)
        le_put64(p, s->extents[d]);
    memset(p, 0, name_room(name));
    memcpy(p, a->name, name);
    p += name_room(name);
    for (size_t i = 0; i < a->n; i++) {
        le_put32(p, a->ranks[i]);
        le_put32(p + 4, 0);
        p += 8;
        for (unsigned k = 0; k < width(a); k++, p += 8)
            le_put64(p, offset_of(a, i)[k]);
    }
}

/* Decode the header and the name.  *pieces: offset of the first piece. */
static stream_array_t *decode_shape(const uint8_t *p, size_t len, uint32_t *n, size_t *pieces,
                                    errmsg_t *err)
{
    char name[STREAM_VARIABLE_MAX + 1] = "";
    struct stream_shape s = {.name = name};
    size_t at = HEADER;

    if (len < HEADER || memcmp(p, magic, sizeof(magic)) != 0 || p[8] > STREAM_NDIMS_MAX || p[10] ||
        p[11]) {
        errmsg_fail(err, EPROTO, "%zu bytes are not the description of a variable", len);
        return NULL;
    }
    s.kind = p[4];
    s.type = p[5];
    s.order = p[6];
    s.memory = p[7];
    s.ndims = p[8];
    for (int i = 0; i < 8; i++)
        s.id = s.id << 8 | p[16 + i];
    s.elem = le_get64(p + 24);
    *n = le_get32(p + 12);
    if (len - at < (s.kind == STREAM_GLOBAL ? 8 * s.ndims : 0) + name_room(p[9]) || s.elem == 0) {
        errmsg_fail(err, EPROTO, "the description of a variable is cut off");
        return NULL;
    }
    for (unsigned d = 0; s.kind == STREAM_GLOBAL && d < s.ndims; d++, at += 8)
        s.extents[d] = le_get64(p + at);
    memcpy(name, p + at, p[9]);
    for (size_t i = p[9]; i < name_room(p[9]); i++)
        if (p[at + i] != 0) {
            errmsg_fail(err, EPROTO, "the name of a variable is not filled up with zeros");
            return NULL;
        }
    if (!name_valid(name, p[9])) { /* also: a NUL in it */
        errmsg_fail(err, EPROTO, "the name of a variable is invalid");
        return NULL;
    }
    *pieces = at + name_room(p[9]);
    return stream_array_create(&s, err);
}

static int decode_pieces(stream_array_t *a, const uint8_t *p, size_t len, uint32_t n, errmsg_t *err)
{
    uint64_t numbers[2 * STREAM_NDIMS_MAX];

    if (n > STREAM_PIECES_MAX || len != n * piece_bytes(a))
        return errmsg_fail(err, EPROTO, "variable '%.64s' with %u pieces has a wrong length",
                           a->name, n);
    if (grow(a, n + 1) < 0)
        return no_memory(err);
    for (uint32_t i = 0; i < n; i++) {
        if (le_get32(p + 4) != 0)
            return errmsg_fail(err, EPROTO, "a piece of variable '%.64s' is invalid", a->name);
        for (unsigned k = 0; k < width(a); k++)
            numbers[k] = le_get64(p + 8 + 8 * (size_t)k);
        if (stream_array_add(a, le_get32(p), numbers, numbers + (global(a) ? a->shape.ndims : 0),
                             err) < 0)
            return -1;
        p += piece_bytes(a);
    }
    return stream_array_seal(a, err);
}

stream_array_t *stream_array_decode(const void *data, size_t len, errmsg_t *err)
{
    size_t at = 0;
    uint32_t n = 0;
    stream_array_t *a = decode_shape(data, len, &n, &at, err);

    if (!a || decode_pieces(a, (const uint8_t *)data + at, len - at, n, err) < 0) {
        int errnum = errno == ENOMEM ? ENOMEM : EPROTO;

        stream_array_destroy(a);
        errno = errnum;
        return NULL;
    }
    return a;
}

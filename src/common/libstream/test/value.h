/* Random formats, random records of them, and an encoder that is written after the documentation
 * only: it knows both byte orders and pointers of 4 and 8 bytes.
 *
 * All memory lasts until value_free_all().
 */
#ifndef STREAM_TEST_VALUE_H
#define STREAM_TEST_VALUE_H

#include "libstream/format.h"

struct chance {
    uint64_t seed;
    bool plain; /* values that any language can have: no u64 above those of i64, ... */
};
/* Below `n`, which is above 0. */
uint64_t chance(struct chance *c, uint64_t n);
/* Zeros, at least one byte, until value_free_all(). */
void *value_alloc(size_t bytes);
void value_free_all(void);

/* A table that stream_format_create() accepts. */
struct stream_table *value_table(struct chance *c);
/* The fields of another table as a later version of a program might have them: fewer, wider, in
 * another order, and new ones.  Names of records stay. */
struct stream_table *value_later(struct chance *c, const struct stream_table *t);

struct record;
struct value {
    bool absent;
    uint64_t n;
    uint8_t *bytes; /* of numbers and the like, this host's order */
    char **strings; /* each may be NULL if it is optional and the only one */
    struct record **records;
};
struct record {
    const stream_format_t *f;
    struct value *values; /* by field */
};

struct record *value_record(struct chance *c, const stream_format_t *f);
/* The body of a record; `f` has the same fields as that of the record, maybe in another layout. */
uint8_t *value_encode(const struct record *r, const stream_format_t *f, enum stream_order order,
                      size_t *len);
/* The same for `n` records: a body that begins with the fixed parts of all of them. */
uint8_t *value_encode_array(struct record *const *r, size_t n, const stream_format_t *f,
                            enum stream_order order, size_t *len);
/* A C struct with what it points to; `n` of them. */
void *value_struct(const struct record *r, const stream_format_t *f);
void *value_structs(struct record *const *r, size_t n, const stream_format_t *f);
/* Is this C struct of format `f` what a reader gets from the record?  Ends the test if not. */
void value_check(const struct record *r, const stream_format_t *f, const uint8_t *mem);

#endif

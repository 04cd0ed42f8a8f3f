/* Set of non-negative integers below 2^31 (ranks, cores, ...), held as sorted ranges.
 *
 * Text form: "0-3,7", or "[0-3,7]"; the empty set is "" or "[]".  Memory and time depend on the
 * number of ranges, not on the number of members: "0-2147483647" is as cheap as "0".
 * Not thread-safe; const functions may run side by side.
 */
#ifndef IDSET_IDSET_H
#define IDSET_IDSET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "libutil/errmsg.h"

#define IDSET_MAX 0x7fffffffU  /* largest member */
#define IDSET_NONE 0xffffffffU /* "no such member" */

enum {
    IDSET_BRACKETS = 1, /* idset_format(): "[...]" around anything but a single member */
};

typedef struct idset idset_t;

/* The empty set; the set lo..hi; a copy.  To be freed with idset_destroy().
 * NULL with ENOMEM, or EINVAL for lo > hi or hi > IDSET_MAX. */
idset_t *idset_create(void);
idset_t *idset_create_range(uint32_t lo, uint32_t hi);
idset_t *idset_copy(const idset_t *ids);
void idset_destroy(idset_t *ids); /* NULL-safe, keeps errno */

/* Add or remove one member, or all of lo..hi; no error if they are (not) there already.
 * Constant time at the upper end, else at most linear in the number of ranges.
 * 0, or -1 with EINVAL (as above) or ENOMEM; then nothing changed. */
int idset_set(idset_t *ids, uint32_t id);
int idset_range_set(idset_t *ids, uint32_t lo, uint32_t hi);
int idset_clear(idset_t *ids, uint32_t id);
int idset_range_clear(idset_t *ids, uint32_t lo, uint32_t hi);

/* Queries; a NULL set counts as empty.  test: logarithmic; count, empty: constant. */
bool idset_test(const idset_t *ids, uint32_t id);
size_t idset_count(const idset_t *ids);
bool idset_empty(const idset_t *ids);
bool idset_equal(const idset_t *a, const idset_t *b);
bool idset_subset(const idset_t *a, const idset_t *b);     /* is a within b? */
bool idset_intersects(const idset_t *a, const idset_t *b); /* any member in both? */

/* Smallest and largest member; nearest member above or below `id`; member number n (from 0).
 * IDSET_NONE when there is none.  For-each:
 *   for (uint32_t id = idset_first(s); id != IDSET_NONE; id = idset_next(s, id)) */
uint32_t idset_first(const idset_t *ids);
uint32_t idset_last(const idset_t *ids);
uint32_t idset_next(const idset_t *ids, uint32_t id);
uint32_t idset_prev(const idset_t *ids, uint32_t id);
uint32_t idset_nth(const idset_t *ids, size_t n);

/* Maximal ranges in ascending order: start with *pos = 0; false at the end. */
bool idset_next_range(const idset_t *ids, size_t *pos, uint32_t *lo, uint32_t *hi);

/* New sets (linear in the ranges of both).  NULL with ENOMEM. */
idset_t *idset_union(const idset_t *a, const idset_t *b);
idset_t *idset_intersect(const idset_t *a, const idset_t *b);
idset_t *idset_difference(const idset_t *a, const idset_t *b);

/* a = a | b, a = a & b, a = a - b.  0, or -1 with ENOMEM; then `a` is as before. */
int idset_add(idset_t *a, const idset_t *b);
int idset_keep(idset_t *a, const idset_t *b);
int idset_subtract(idset_t *a, const idset_t *b);

/* Text to set.  Items may come in any order and overlap; blanks, signs, leading zeros, empty items
 * and decreasing ranges are refused.  NULL with EINVAL or ENOMEM and an error message in `err`,
 * which may be NULL. */
idset_t *idset_parse(const char *s, errmsg_t *err);

/* Set to its canonical text, which the caller frees.  NULL with ENOMEM. */
char *idset_format(const idset_t *ids, int flags);

#endif

/* Which of the known words did somebody mean?  Thread-safe. */
#ifndef UTIL_NEAREST_H
#define UTIL_NEAREST_H

#include <stddef.h>

/* Number of letters to change, add, drop or swap with a neighbour to get from a to b (Damerau, "A
 * technique for computer detection and correction of spelling errors", 1964).  Words of more than 64
 * bytes are as far away as can be (64). */
unsigned nearest_distance(const char *a, const char *b);

/* Feed it all known words; then best[0..n) are those nearest to `word`, at most NEAREST_MAX with the same
 * distance, in the order in which they came.  A word that is too far away to be meant is not taken; one
 * that `word` is the beginning of is as near as one letter. */
#define NEAREST_MAX 4
struct nearest {
    const char *word;
    const char *best[NEAREST_MAX]; /* borrowed from who fed them */
    size_t n;
    unsigned distance;
};
void nearest_init(struct nearest *s, const char *word);
void nearest_feed(struct nearest *s, const char *known);

/* "; did you mean a, b or c?", or "" when nothing is near.  Returns `buf`. */
const char *nearest_words(const struct nearest *s, char *buf, size_t size);

#endif

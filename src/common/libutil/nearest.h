/* Finds the known words that a misspelled word may mean.  Thread-safe. */
#ifndef UTIL_NEAREST_H
#define UTIL_NEAREST_H

#include <stddef.h>

/* Number of letters to change, add, remove or swap with a neighbor to get from a to b (Damerau, "A
 * technique for computer detection and correction of spelling errors", 1964).  Words of more than
 * 64 bytes have the maximum distance (64). */
unsigned nearest_distance(const char *a, const char *b);

/* Feed it all known words; then best[0..n) are those nearest to `word`, at most NEAREST_MAX with
 * the same distance, in the order in which they came.  Words that are too far away are ignored; one
 * that begins with `word` has the distance of one letter. */
#define NEAREST_MAX 4
struct nearest {
    const char *word;
    const char *best[NEAREST_MAX]; /* owned by the caller of nearest_feed() */
    size_t n;
    unsigned distance;
};
void nearest_init(struct nearest *s, const char *word);
void nearest_feed(struct nearest *s, const char *known);

/* "; did you mean a, b or c?", or "" if no word is near.  Returns `buf`. */
const char *nearest_words(const struct nearest *s, char *buf, size_t size);

#endif

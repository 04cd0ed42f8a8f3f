/* nearest.c - suggestions for misspelled words. */
#include "config.h"
#include <stdio.h>
#include <string.h>

#include "libutil/nearest.h"

#define LEN_MAX 64

unsigned nearest_distance(const char *a, const char *b)
{
    size_t la = strlen(a), lb = strlen(b);
    unsigned d[LEN_MAX + 1][LEN_MAX + 1];

    if (la > LEN_MAX || lb > LEN_MAX)
        return LEN_MAX;
    for (size_t i = 0; i <= la; i++)
        d[i][0] = (unsigned)i;
    for (size_t j = 0; j <= lb; j++)
        d[0][j] = (unsigned)j;
    for (size_t i = 1; i <= la; i++) {
        for (size_t j = 1; j <= lb; j++) {
            unsigned best = d[i - 1][j - 1] + (a[i - 1] != b[j - 1]);

            if (d[i - 1][j] + 1 < best)
                best = d[i - 1][j] + 1;
            if (d[i][j - 1] + 1 < best)
                best = d[i][j - 1] + 1;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
                d[i - 2][j - 2] + 1 < best)
                best = d[i - 2][j - 2] + 1;
            d[i][j] = best;
        }
    }
    return d[la][lb];
}

void nearest_init(struct nearest *s, const char *word)
{
    *s = (struct nearest){.word = word, .distance = 1 + (unsigned)strlen(word) / 4};
}

void nearest_feed(struct nearest *s, const char *known)
{
    size_t len = strlen(s->word);
    unsigned d = nearest_distance(s->word, known);

    if (d > 1 && len >= 2 && strncmp(s->word, known, len) == 0)
        d = 1;
    if (d > s->distance)
        return;
    if (d < s->distance)
        s->n = 0;
    s->distance = d;
    if (s->n < NEAREST_MAX)
        s->best[s->n++] = known;
}

const char *nearest_words(const struct nearest *s, char *buf, size_t size)
{
    size_t len = 0;

    if (size > 0)
        buf[0] = '\0';
    for (size_t i = 0; i < s->n && len < size; i++)
        len += (size_t)snprintf(buf + len, size - len, "%s%s",
                                i == 0         ? "; did you mean "
                                : i + 1 < s->n ? ", "
                                               : " or ",
                                s->best[i]);
    if (s->n > 0 && len < size)
        snprintf(buf + len, size - len, "?");
    return buf;
}

/* invariant.c - the message about an invariant that does not hold.
 *
 * Its sentence is read from the essay of the source file, where it begins with " *  N. " or " *
 * Invariant N: ", and ends before the next number, an empty line of the comment, or the comment's
 * end.
 *
 * Failure: without the source only the expression is printed.
 */
#include "config.h"
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "invariant.h"

#ifndef INVARIANT_SOURCE
#define INVARIANT_SOURCE "."
#endif

/* Is this the first line of sentence `number`?  Returns its text. */
static const char *begins(const char *line, int number)
{
    const char *p = line;
    char *end;

    while (*p == ' ' || *p == '*')
        p++;
    if (strncmp(p, "Invariant ", 10) == 0)
        p += 10;
    if (!isdigit((unsigned char)*p) || strtol(p, &end, 10) != number)
        return NULL;
    return (*end == '.' || *end == ':') && end[1] == ' ' ? end + 2 : NULL;
}

static bool goes_on(const char *line)
{
    const char *p = line;

    if (strstr(line, "*/"))
        return false;
    while (*p == ' ' || *p == '*')
        p++;
    return *p && *p != '\n' && !isdigit((unsigned char)*p);
}

static void print_sentence(const char *file, int number)
{
    char path[4096], line[512];
    const char *text = NULL;
    FILE *f;

    while (strncmp(file, "../", 3) == 0)
        file += 3;
    snprintf(path, sizeof(path), "%s%s%s", file[0] == '/' ? "" : INVARIANT_SOURCE,
             file[0] == '/' ? "" : "/", file);
    if (!(f = fopen(path, "r")))
        return;
    while (!text && fgets(line, sizeof(line), f))
        text = begins(line, number);
    while (text) {
        while (*text == ' ' || *text == '*')
            text++;
        fprintf(stderr, "    %s", text);
        text = fgets(line, sizeof(line), f) && goes_on(line) ? line : NULL;
    }
    fclose(f);
}

void invariant_failed(const char *file, int line, const char *func, int number,
                      const char *expression)
{
    fprintf(stderr, "%s:%d: %s: invariant %d does not hold: %s\n", file, line, func, number,
            expression);
    print_sentence(file, number);
    fflush(stderr);
    abort();
}

void transition_failed(const char *file, int line, const char *func, int number, int from, int to)
{
    fprintf(stderr,
            "%s:%d: %s: invariant %d does not hold: no transition leads from state %d to %d\n",
            file, line, func, number, from, to);
    print_sentence(file, number);
    fflush(stderr);
    abort();
}

bool transition_allowed(const struct transition *table, int from, int to)
{
    for (; table->by; table++) {
        if (table->from == from && table->to == to)
            return true;
    }
    return false;
}

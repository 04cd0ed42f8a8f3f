/* Numbered invariants, checked at run time.
 *
 * The essay at the head of a file numbers its invariants.  INVARIANT(n, expression) checks one of
 * them where it must hold:
 *
 *    INVARIANT(2, b->njoins <= JOINS_MAX);
 *
 * Builds configured with --enable-invariants (./check, .ci, and so the simulator and the
 * sanitizers) evaluate the expression.  If it is false, they abort with a message: file, line,
 * number, expression, and the sentence of the essay if the source is available.  Other builds do
 * not evaluate it.
 *
 * The expression must have no side effects.  It may take time in proportion to the function's own
 * work, but must not raise the order of an algorithm.
 *
 * A state machine lists its transitions in a table, which is checked in the same way:
 *
 *    static const struct transition moves[] = {
 *        {JOINING, WIRED, "welcome_cb"},
 *        TRANSITION_END,
 *    };
 *    TRANSITION(1, moves, c->state, state);
 *
 * Thread rules: any thread.
 */
#ifndef UTIL_INVARIANT_H
#define UTIL_INVARIANT_H

#include <stdbool.h>

struct transition {
    int from, to;
    const char *by; /* the function that makes it; NULL: end of the table */
};
#define TRANSITION_END \
    {                  \
        0, 0, 0        \
    }

/* Is the transition in the table? */
bool transition_allowed(const struct transition *table, int from, int to);

/* Print a message, and abort. */
void invariant_failed(const char *file, int line, const char *func, int number,
                      const char *expression) __attribute__((noreturn, cold));
void transition_failed(const char *file, int line, const char *func, int number, int from, int to)
    __attribute__((noreturn, cold));

#ifdef WITH_INVARIANTS
#define INVARIANT(n, expression) \
    ((expression) ? (void)0 : invariant_failed(__FILE__, __LINE__, __func__, n, #expression))
#define TRANSITION(n, table, from, to)   \
    (transition_allowed(table, from, to) \
         ? (void)0                       \
         : transition_failed(__FILE__, __LINE__, __func__, n, (int)(from), (int)(to)))
#else
#define INVARIANT(n, expression) ((void)sizeof((expression) ? 1 : 0))
#define TRANSITION(n, table, from, to) ((void)(table), (void)sizeof((from) == (to)))
#endif

#endif

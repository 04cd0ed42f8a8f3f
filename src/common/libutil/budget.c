/* budget.c - a share of a thread's time.
 *
 * Invariants:
 *  1. The time that may be used never exceeds `most`, however long nothing was done.
 *  2. A caller that asks budget_wait() before each piece of work uses, in any interval, at most
 *     `share` of it, `most`, and one piece.
 *
 * Failure: none.
 */
#include "config.h"
#include "budget.h"
#include "invariant.h"

void budget_init(struct budget *b, double share, double most, double now)
{
    *b = (struct budget){.share = share, .most = most, .left = most, .at = now};
}

double budget_wait(struct budget *b, double now)
{
    if (now > b->at) {
        b->left += (now - b->at) * b->share;
        b->at = now;
    }
    if (b->left > b->most)
        b->left = b->most;
    INVARIANT(1, b->left <= b->most);
    return b->left > 0. ? 0. : -b->left / b->share + 1e-6;
}

void budget_use(struct budget *b, double seconds)
{
    b->left -= seconds;
}

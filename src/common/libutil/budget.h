/* A share of a thread's time, for work that may wait, such as work for late watchers, or for many
 * at once: it must not take the time that requests need.
 *
 *    struct budget b;
 *
 *    budget_init(&b, 0.1, 0.01, now);         a tenth of the time; at most 10 ms in one go
 *    if (budget_wait(&b, now) > 0.)
 *        continue after that number of seconds
 *    work for a while
 *    budget_use(&b, seconds that it took);
 *
 * This is a token bucket (RFC 2697 describes one for packets).  Times are seconds of any clock that
 * does not go backwards; on a virtual clock, where work takes no time, no work is delayed.
 *
 * Thread rules: one thread.
 */
#ifndef UTIL_BUDGET_H
#define UTIL_BUDGET_H

struct budget {
    double share; /* of the time, > 0 */
    double most;  /* maximum of seconds that may be saved up */
    double left;  /* seconds; < 0: more were used than were available */
    double at;    /* time of `left` */
};

/* Begins with `most` seconds. */
void budget_init(struct budget *b, double share, double most, double now);
/* Seconds from `now` until some time is available; 0: some is available now. */
double budget_wait(struct budget *b, double now);
/* Account for this many seconds of work. */
void budget_use(struct budget *b, double seconds);

#endif

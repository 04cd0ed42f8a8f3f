/* Who sends to whom in a parallel program: the patterns of flux sim network.
 *
 * Ranks are placed on the nodes of a job in ascending order, one on each.  Each rank sends at
 * most one unit of data, and the busiest one unit (ranks that do not fit into the grid apart).
 */
#ifndef CMD_SIM_PATTERN_H
#define CMD_SIM_PATTERN_H

#include <stddef.h>
#include <stdint.h>

enum sim_pattern {
    SIM_PATTERN_STENCIL, /* 4D grid that wraps around: 8 neighbors */
    SIM_PATTERN_MESH,    /* unstructured 3D mesh: 6 to 20 near ones */
    SIM_PATTERN_PAIRS,   /* random pairs */
    SIM_PATTERN_LINES,   /* 3D grid: everybody on the same line, in each of the three directions */
    SIM_PATTERN_COUNT,
};
extern const char *const sim_pattern_names[SIM_PATTERN_COUNT];

/* Call `send` for each message of a program of n ranks.  Randomness comes from `seed` alone.  0, or
 * -1 with what `send` left, or ENOMEM. */
int sim_pattern_messages(enum sim_pattern p, uint32_t n, uint64_t seed,
                         int (*send)(uint32_t from, uint32_t to, double size, void *arg),
                         void *arg);

/* A generator: the next number of a sequence [G. Steele et al., OOPSLA 2014], and one below n. */
uint64_t sim_pattern_random(uint64_t *state);
uint32_t sim_pattern_below(uint64_t *state, uint32_t n);

#endif

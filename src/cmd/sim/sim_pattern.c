/* sim_pattern.c - the communication patterns: grids, a mesh, pairs.
 *
 * A grid of n ranks has sides as equal as the factors of n allow.  If they differ too much (n is
 * prime, say), the grid has the largest smaller number of ranks with suitable factors, and each
 * remaining rank is connected to the previous one; otherwise the grid would be a line.
 *
 * Failure: ENOMEM; errors of `send`.
 */
#include "config.h"
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sim_pattern.h"

#define NEAR_MIN 6
#define NEAR_MAX 20

const char *const sim_pattern_names[SIM_PATTERN_COUNT] = {"4D stencil", "3D mesh", "random pairs",
                                                          "all-to-all on lines"};

typedef int (*send_f)(uint32_t from, uint32_t to, double size, void *arg);

uint64_t sim_pattern_random(uint64_t *state)
{
    uint64_t x = *state += UINT64_C(0x9E3779B97F4A7C15);

    x = (x ^ (x >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94D049BB133111EB);
    return x ^ (x >> 31);
}

uint32_t sim_pattern_below(uint64_t *state, uint32_t n)
{
    return (uint32_t)((sim_pattern_random(state) >> 32) * n >> 32);
}

/* --- grids --- */

/* The sides of a grid of n ranks: their product is n, and they are as equal as possible. */
static void sides(uint32_t n, uint32_t dims, uint32_t *side)
{
    for (uint32_t d = 0; d < dims; d++) {
        uint32_t want = (uint32_t)lround(pow(n, 1. / (dims - d)));
        uint32_t best = 1;

        for (uint32_t f = 1; f <= n && f <= want + want / 2; f++)
            if (n % f == 0 && labs((long)f - (long)want) < labs((long)best - (long)want))
                best = f;
        side[d] = dims - d == 1 ? n : best;
        n /= side[d];
    }
}

static uint32_t longest(const uint32_t *side, uint32_t dims)
{
    uint32_t m = 0;

    for (uint32_t d = 0; d < dims; d++)
        m = side[d] > m ? side[d] : m;
    return m;
}

/* The largest grid of at most n ranks whose sides do not differ much.  Returns its ranks. */
static uint32_t grid(uint32_t n, uint32_t dims, uint32_t *side)
{
    for (uint32_t m = n; m > 1; m--) {
        sides(m, dims, side);
        if ((double)longest(side, dims) <= 2 * pow(m, 1. / dims) + 1)
            return m;
    }
    sides(1, dims, side);
    return 1;
}

static int stencil(uint32_t n, send_f send, void *arg)
{
    uint32_t side[4], m = grid(n, 4, side), ways = 0;
    double size;

    for (int d = 0; d < 4; d++)
        ways += side[d] > 1 ? 2 : 0;
    size = ways > 0 ? 1. / ways : 1;
    for (uint32_t r = 0; r < m; r++) {
        uint32_t step = 1;

        for (int d = 0; d < 4; step *= side[d++]) {
            uint32_t at = r / step % side[d], base = r - at * step;
            uint32_t up = base + (at + 1) % side[d] * step;
            uint32_t down = base + (at + side[d] - 1) % side[d] * step;

            if ((up != r && send(r, up, size, arg) < 0) ||
                (down != r && send(r, down, size, arg) < 0))
                return -1;
        }
    }
    for (uint32_t r = m; r < n; r++)
        if (send(r, r - 1, size, arg) < 0 || send(r - 1, r, size, arg) < 0)
            return -1;
    return 0;
}

static int lines(uint32_t n, send_f send, void *arg)
{
    uint32_t side[3], m = grid(n, 3, side);
    uint32_t partners = side[0] + side[1] + side[2] - 3;
    double size = partners > 0 ? 1. / partners : 1;

    for (uint32_t r = 0; r < m; r++) {
        uint32_t step = 1;

        for (int d = 0; d < 3; step *= side[d++]) {
            uint32_t at = r / step % side[d], base = r - at * step;

            for (uint32_t i = 1; i < side[d]; i++)
                if (send(r, base + (at + i) % side[d] * step, size, arg) < 0)
                    return -1;
        }
    }
    for (uint32_t r = m; r < n; r++)
        if (send(r, r - 1, size, arg) < 0 || send(r - 1, r, size, arg) < 0)
            return -1;
    return 0;
}

/* --- random ones --- */

/* A mesh as partners of each rank, mutual. */
struct mesh {
    uint32_t n, side[3], grid; /* ranks, and those of them that are on the grid */
    uint32_t *partner;         /* NEAR_MAX of each rank */
    uint32_t *degree;
};

/* A point next to rank r in any direction, or r itself.  The mesh has a surface. */
static uint32_t near_one(const struct mesh *m, uint32_t r, uint64_t *rng)
{
    int64_t step = 1, to = 0, at = r < m->grid ? r : m->grid - 1;

    for (int d = 0; d < 3; step *= m->side[d++]) {
        int64_t x = at / step % m->side[d] + (int64_t)sim_pattern_below(rng, 3) - 1;

        x = x < 0 ? 0 : x >= m->side[d] ? (int64_t)m->side[d] - 1 : x;
        to += x * step;
    }
    return (uint32_t)to;
}

static void join(struct mesh *m, uint32_t a, uint32_t b)
{
    if (a == b || m->degree[a] == NEAR_MAX || m->degree[b] == NEAR_MAX)
        return;
    for (uint32_t i = 0; i < m->degree[a]; i++)
        if (m->partner[(size_t)a * NEAR_MAX + i] == b)
            return;
    m->partner[(size_t)a * NEAR_MAX + m->degree[a]++] = b;
    m->partner[(size_t)b * NEAR_MAX + m->degree[b]++] = a;
}

/* What two partners send to each other takes an equal share of the busier one's unit: nobody sends
 * or receives more than one. */
static int send_mesh(const struct mesh *m, send_f send, void *arg)
{
    for (uint32_t a = 0; a < m->n; a++)
        for (uint32_t i = 0; i < m->degree[a]; i++) {
            uint32_t b = m->partner[(size_t)a * NEAR_MAX + i];
            uint32_t most = m->degree[a] > m->degree[b] ? m->degree[a] : m->degree[b];

            if (send(a, b, 1. / most, arg) < 0)
                return -1;
        }
    return 0;
}

/* Points of a 3D grid: each rank has 6 to 20 partners among the 26 points around it. */
static int mesh(uint32_t n, uint64_t *rng, send_f send, void *arg)
{
    struct mesh m = {.n = n, .partner = calloc((size_t)n * NEAR_MAX, sizeof(*m.partner))};
    int rc = -1;

    m.degree = calloc(n, sizeof(*m.degree));
    m.grid = grid(n, 3, m.side);
    if (m.partner && m.degree) {
        for (uint32_t r = 0; r < n; r++) {
            uint32_t want = NEAR_MIN + sim_pattern_below(rng, NEAR_MAX - NEAR_MIN + 1);

            /* Others have joined it already; after some dozen tries there is hardly a new one. */
            for (int tries = 0; m.degree[r] < want && tries < 100; tries++)
                join(&m, r, near_one(&m, r, rng));
        }
        rc = send_mesh(&m, send, arg);
    }
    free(m.partner);
    free(m.degree);
    return rc;
}

static int pairs(uint32_t n, uint64_t *rng, send_f send, void *arg)
{
    uint32_t *order = calloc(n, sizeof(*order));
    int rc = 0;

    if (!order)
        return -1;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t k = sim_pattern_below(rng, i + 1);

        order[i] = order[k];
        order[k] = i;
    }
    for (uint32_t i = 0; i + 1 < n && rc == 0; i += 2) {
        rc = send(order[i], order[i + 1], 1, arg);
        if (rc == 0)
            rc = send(order[i + 1], order[i], 1, arg);
    }
    free(order);
    return rc;
}

int sim_pattern_messages(enum sim_pattern p, uint32_t n, uint64_t seed, send_f send, void *arg)
{
    uint64_t rng = seed;

    switch (p) {
    case SIM_PATTERN_STENCIL:
        return stencil(n, send, arg);
    case SIM_PATTERN_MESH:
        return mesh(n, &rng, send, arg);
    case SIM_PATTERN_PAIRS:
        return pairs(n, &rng, send, arg);
    default:
        return lines(n, send, arg);
    }
}

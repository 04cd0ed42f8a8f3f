/* Route ids: the entries of a message's route stack.
 *
 * A broker pushes one id onto each request that it gets: that of a neighboring broker (its rank and
 * overlay), or of a local endpoint (a client or module).  The four high bits are the kind.
 */
#ifndef FLUX_ROUTE_H
#define FLUX_ROUTE_H

#include <stdint.h>

#define FLUX_ROUTE_TREE 0u     /* + rank of the tree neighbor */
#define FLUX_ROUTE_ENDPOINT 1u /* + number of the local endpoint, never reused within 2^28 */
#define FLUX_ROUTE_RING 2u     /* + rank of the ring predecessor */

static inline uint32_t flux_route_make(uint32_t kind, uint32_t value)
{
    return kind << 28 | (value & 0x0fffffffu);
}

static inline uint32_t flux_route_kind(uint32_t id)
{
    return id >> 28;
}

static inline uint32_t flux_route_value(uint32_t id)
{
    return id & 0x0fffffffu;
}

#endif

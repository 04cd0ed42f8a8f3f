/* A service at rank 0 that notices who writes and should not (ledger.c). */
#ifndef SIM_LEDGER_H
#define SIM_LEDGER_H

#include "sim.h"

/* The payload of "ledger.write". */
struct ledger_entry {
    uint32_t rank;
    uint32_t broker; /* node.starts */
    uint32_t number; /* from 1 for each broker */
};

extern const struct flux_module flux_module_ledger;

void ledger_start(sim_t *s); /* load it */
/* A client of this rank writes, if its broker serves. */
void ledger_write(sim_t *s, uint32_t rank);
/* The incarnation of this rank that was announced last. */
uint32_t ledger_incarnation(const sim_t *s, uint32_t rank);

/* A broker of this rank that was counted as lost is back beside the one that is up (zombie.c). */
void zombie_visit(sim_t *s, uint32_t rank);

#endif

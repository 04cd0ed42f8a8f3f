/* Flows through a fat tree: how long does each take when all share the links fairly?
 *
 * The machine P,L,K is a full fat tree.  Each leaf has K uplinks, one to each level-2 switch of its
 * pod, each level-2 switch has K uplinks to core switches; all links carry one unit of data per
 * unit of time each way.  Routes are static (D-mod-k): the uplink of a leaf is destination mod K,
 * that of a level-2 switch floor(destination / K) mod K; the way down is then given.  [E. Zahavi,
 * "D-Mod-K routing providing non-blocking traffic for shift permutations on real life fat trees",
 * Technion CCIT 776, 2010]
 *
 * Rates are max-min fair: no flow can be faster without making one slower that is not faster than
 * it.  [D. Bertsekas, R. Gallager, "Data Networks", 6.5.2]
 *
 * Thread rules: one thread per object.
 */
#ifndef CMD_SIM_NET_H
#define CMD_SIM_NET_H

#include <stddef.h>
#include <stdint.h>

typedef struct sim_net sim_net_t;

sim_net_t *sim_net_create(uint32_t pods, uint32_t leaves, uint32_t k); /* NULL with ENOMEM */
void sim_net_destroy(sim_net_t *n);                                    /* NULL-safe, keeps errno */

/* A flow of `size` (> 0) from node to node (in range), which starts at time 0.  Its number, from 0;
 * SIZE_MAX with ENOMEM. */
size_t sim_net_add(sim_net_t *n, uint32_t from, uint32_t to, double size);

size_t sim_net_count(const sim_net_t *n); /* flows so far */

/* Run until all flows have ended; *finish of each is the time at which it did.  Flows that end
 * within the fraction `grain` of the time that has passed are taken out together, each at the time
 * at which its rate says: 0 is exact, 0.02 errs by less than 2 percent and is much faster.  0, or
 * -1 with ENOMEM.  `progress` may be NULL. */
int sim_net_run(sim_net_t *n, double grain, double *finish,
                void (*progress)(size_t done, size_t nflows, void *arg), void *arg);

#endif

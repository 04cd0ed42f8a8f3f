/* The driver of the store in a simulated session with a disk (disk.h): storage.c.
 *
 * Not thread-safe.
 */
#ifndef SIM_STORAGE_H
#define SIM_STORAGE_H

#include "disk.h"
#include "sim.h"

/* Attach a disk: the broker of rank 0 keeps its store there, if its attribute `statedir` is
 * disk_dir(). */
void storage_attach(sim_t *s, disk_t *d);
/* Close its files, at the end. */
void storage_detach(sim_t *s);
/* Has a group been executed of which the module was not told yet? */
bool storage_writes(const sim_t *s);
/* The host of rank 0 loses its power: its broker dies, and the disk has what it has. */
void storage_power_fails(sim_t *s);

#endif

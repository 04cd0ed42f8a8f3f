/* The disk of a simulated host, which loses what was not synced when the power fails: the files of
 * one directory, through SQLite's interface to the system (its "VFS").
 *
 *    disk_t *d = disk_create(&rng, &err);
 *    ... sqlfile.c opens, writes and syncs files in disk_dir(d) ...
 *    disk_told(d);              somebody has been told what was done: it was done by now
 *    disk_power_off(d, ...);    what is written from here on is lost
 *    ... close all files ...
 *    disk_power_on(d);          the files are what the disk has kept
 *    disk_destroy(d);
 *
 * One disk at a time.  Not thread-safe.
 */
#ifndef SIM_DISK_H
#define SIM_DISK_H

#include <stdbool.h>
#include <stdint.h>

#include "libutil/errmsg.h"
#include "rng.h"

typedef struct disk disk_t;

/* In a directory of its own, which is removed at the end.  `rng`: what is lost.  NULL with a
 * sentence. */
disk_t *disk_create(struct rng *rng, errmsg_t *err);
void disk_destroy(disk_t *d); /* NULL-safe */
const char *disk_dir(const disk_t *d);
/* The one that there is, or NULL. */
disk_t *disk_find(void);
/* For whoever uses it. */
void disk_set_user(disk_t *d, void *user);
void *disk_user(const disk_t *d);
/* It says that it has synced, and has not. */
void disk_set_lies(disk_t *d, bool lies);

/* The directory is synced: files that were removed before are not there any more. */
void disk_sync_dir(disk_t *d);
/* What was written and synced so far cannot be undone by a loss of power, as somebody knows. */
void disk_told(disk_t *d);
/* The power fails at a moment since the last disk_told(). */
void disk_power_off(disk_t *d);
/* All files must be closed.  -1 with errno when they cannot be written. */
int disk_power_on(disk_t *d);

struct disk_stats {
    uint64_t writes, syncs; /* that were done */
    uint64_t lost, torn;    /* writes, by losses of power */
};
const struct disk_stats *disk_stats(const disk_t *d);

#endif

/* sqlgroup.h - requests of the module executed on the file of the store (sqlfile.h), a group at a
 * time.  The driver content-sqlite does that in its thread, and the simulator on its clock.
 *
 * All functions block, and belong to one thread.
 */
#ifndef SQLGROUP_H
#define SQLGROUP_H

#include "kvs_storage.h"

typedef struct sqlgroup sqlgroup_t;

/* For the file KVS_STORAGE_FILE in `dir`, which the request OPEN opens.  deliver() takes executed
 * requests from the list `done`, with their results, and calls no function of the group but
 * sqlgroup_counts().  NULL with ENOMEM. */
sqlgroup_t *sqlgroup_create(const char *dir, const char *hash,
                            void (*deliver)(void *arg, struct list_node *done), void *arg);
/* Close the file.  NULL-safe, keeps errno. */
void sqlgroup_destroy(sqlgroup_t *g);

/* Execute the requests (kvs_storage_req.node) of a list, in order.  True: there may be something to
 * be tidied. */
bool sqlgroup_run(sqlgroup_t *g, struct list_node *group);

/* The work that is done when no request waits. */
enum sqlgroup_leisure { SQLGROUP_NOTHING, SQLGROUP_TIDY, SQLGROUP_PAUSE, SQLGROUP_SHRINK };
/* Do one step of it (TIDY or SHRINK).  Returns what is to be done next. */
enum sqlgroup_leisure sqlgroup_tidy(sqlgroup_t *g, enum sqlgroup_leisure what);

/* As in struct kvs_storage_stats. */
struct sqlgroup_counts {
    uint64_t commits, syncs, writes, failures, anew;
};
const struct sqlgroup_counts *sqlgroup_counts(const sqlgroup_t *g);
/* False: the file is not open. */
bool sqlgroup_sizes(sqlgroup_t *g, uint64_t *file, uint64_t *wal, uint64_t *unused);

/* As in struct kvs_storage_driver. */
bool sqlgroup_next(const struct kvs_storage_req *q, size_t *pos, struct kvs_storage_rec *rec);

#endif

/* Messages of the service "barrier" (src/modules/barrier). */
#ifndef FLUX_BARRIER_WIRE_H
#define FLUX_BARRIER_WIRE_H

#include "libschema/schema.h"

struct barrier_enter {
    const char *name; /* refers to the decoded message */
    uint32_t nprocs;
    const char *ranks; /* optional: the barrier fails if one of these is lost, even before a
                          participant of that rank has entered */
};
extern const struct flux_schema barrier_enter_schema; /* {"name","nprocs","ranks"} */

/* An unfinished barrier, as one instance knows it. */
struct barrier_item {
    const char *name;
    uint32_t nprocs;
    uint32_t entered;  /* participants at this broker */
    const char *ranks; /* the announced ranks, "" for none */
    double age;        /* seconds since this instance learned of it */
};
extern const struct flux_schema barrier_item_schema; /* {"name","nprocs","entered","ranks","age"} */

struct barrier_list {
    json_t *barriers; /* of barrier_item; refers to the decoded message */
};
extern const struct flux_schema barrier_list_schema; /* {"barriers"} */

struct barrier_stats {
    uint64_t barriers, entered, joins, completed, failed;
};
extern const struct flux_schema barrier_stats_schema;

/* --- between instances --- */

struct barrier_join {
    const char *name;
    uint32_t nprocs;
    uint32_t seq;   /* from 1 */
    uint64_t after; /* number of the last use of the name that ended, as far as the instances below
                     * know; 0: none */
    const char *entries; /* number of participants that have entered, by rank: "0-7:1,9:3" */
    const char *ranks;   /* the announced ranks */
};
extern const struct flux_schema barrier_join_schema;

struct barrier_joined {
    bool done;
    uint64_t use; /* done: the number of this use of the name */
};
extern const struct flux_schema barrier_joined_schema;

struct barrier_abort {
    const char *name;
    int errnum;
    const char *reason;
    const char *ranks; /* ranks below where participants have entered */
};
extern const struct flux_schema barrier_abort_schema;

extern const struct flux_method barrier_methods[];

#endif

/* Messages of the service "resrc" (src/modules/resrc), for the module and its clients.
 *
 *  resrc.watch   streaming, {} -> {"inventory":{..},"up":"0-3","drained":"2","version":n}, and
 *                again after each change; "inventory" (resgraph.h) only if it changed.  The first
 *                response comes when the resources of all ranks that are up are known (or a rank
 *                has not reported them for a long time), so that a scheduler can decide which jobs
 *                fit.
 *                up: ranks of nodes that can be used, without lost nodes.
 *                drained: nodes that get no more work, whether up or not.
 *                unconfirmed: nodes that were lost, whose brokers are up again, and that have not
 *                confirmed yet that no earlier process still runs there; they are not in `up`.
 *  resrc.status  {} -> {"nodes":[{"ranks","hosts","state","reason"?,"time"?,"down"?}..]}
 *                state: "up", "down", "unconfirmed", "drained", or "draining" while a job still
 *                runs there;
 *                reason and time (seconds since 1970) of drained nodes; down: the drained ranks
 *                that are down as well.
 *  resrc.drain   {"ranks","reason"?,"force"?} -> {"ranks"}   an idset, or a hostlist; EEXIST when
 *                one of them is drained already, unless forced: then time and reason are replaced.
 *                The response comes when the change is on record (KVS resource.drained).
 *  resrc.undrain {"ranks"} -> {"ranks"}    ENOENT when one of them is not drained
 *  resrc.confirm {"ranks"} -> {"ranks"}   the operator confirms that no process runs there any more
 *                that ran when these nodes were lost; ENOENT when one of them needs no confirmation
 *  resrc.leave   {"ranks","reason"} -> {"ranks"}   the brokers of these ranks are about to leave:
 *                their nodes are drained until they return, unless they are drained already.  The
 *                response names all nodes of these brokers, and comes when it is on record.
 *  resrc.xml     {"rank"?} -> {"xml"}      hwloc's XML of the machine of a broker (default: the
 *                broker that gets the request)
 *  resrc.stats   {} -> struct resrc_stats, of any instance
 *
 *  Between instances:
 *  resrc.join    {"inventory"?,"like"?:[[rank,"idset"]..]} upstream -> {}   the nodes below, and
 *                the ranks whose resources equal those of another rank, which reports its own
 *  resrc.find    {"lost":"idset"} no response: join (again); a rank whose resources were reported
 *                as those of a lost rank reports its own
 *
 * KVS: resource.inventory (resgraph.h), resource.drained {"nodes":[{"ranks","reason","time",
 * "leaves"?}..]}, where leaves means that the brokers of these nodes are leaving or have left.
 *
 * Thread rules: constant descriptions, any thread.
 */
#ifndef RESOURCE_RESRC_WIRE_H
#define RESOURCE_RESRC_WIRE_H

#include "libschema/schema.h"

#define RESRC_KEY_INVENTORY "resource.inventory"
#define RESRC_KEY_DRAINED "resource.drained"
#define RESRC_REASON_MAX 255 /* bytes; a longer one is refused */

/* Pointers are borrowed from the decoded message; optional pointers are NULL when absent. */
struct resrc_update {
    json_t *inventory; /* optional */
    const char *up;
    const char *drained;
    const char *unconfirmed; /* optional */
    uint64_t version;
};
extern const struct flux_schema resrc_update_schema;

struct resrc_status {
    json_t *nodes; /* of struct resrc_status_entry */
};
extern const struct flux_schema resrc_status_schema;

struct resrc_status_entry {
    const char *ranks;
    const char *hosts;
    const char *state;
    const char *reason; /* optional */
    double time;        /* optional: 0 */
    const char *down;   /* optional */
};
extern const struct flux_schema resrc_status_entry_schema;

struct resrc_drain {
    const char *ranks;
    const char *reason; /* optional */
    bool force;         /* optional */
};
extern const struct flux_schema resrc_drain_schema;

struct resrc_ranks {
    const char *ranks;
};
extern const struct flux_schema resrc_ranks_schema;

struct resrc_leave {
    const char *ranks;
    const char *reason;
};
extern const struct flux_schema resrc_leave_schema;

struct resrc_record {
    const char *ranks;
    const char *reason;
    double time;
    bool leaves; /* optional */
};
extern const struct flux_schema resrc_record_schema;

struct resrc_where {
    uint32_t rank; /* optional */
};
extern const struct flux_schema resrc_where_schema;

struct resrc_xml {
    const char *xml;
};
extern const struct flux_schema resrc_xml_schema;

struct resrc_join {
    json_t *inventory; /* optional */
    json_t *like;      /* optional */
};
extern const struct flux_schema resrc_join_schema;

struct resrc_lost {
    const char *lost;
};
extern const struct flux_schema resrc_lost_schema;

struct resrc_stats {
    uint64_t joins;    /* joins that came from instances below */
    uint64_t sent;     /* joins sent upstream */
    uint64_t nodes;    /* root: nodes of the inventory */
    uint64_t cores;    /* root: cores of all these nodes */
    uint64_t up;       /* root: nodes that are up */
    uint64_t drained;  /* root: nodes that are drained */
    uint64_t watchers; /* root */
    uint64_t commits;  /* root: commits of the inventory and of the drained nodes */
    uint64_t version;  /* root: changes so far */
};
extern const struct flux_schema resrc_stats_schema;

extern const struct flux_method resrc_methods[];

#endif

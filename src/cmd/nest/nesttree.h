/* The tree of sessions and their jobs, as flux pstree prints it.
 *
 * Thread rules: for programs with one thread.
 */
#ifndef CMD_NESTTREE_H
#define CMD_NESTTREE_H

#include <jansson.h>
#include <stdbool.h>

#include "libflux/handle.h"

struct nestnode {
    uint64_t id;   /* of the job that it is; 0: the session at the top */
    char *name;    /* NULL: the session at the top */
    char *state;   /* name of a state, or how it ended */
    char *address; /* of a session; NULL: it is none, or has not said so yet */
    char *error;   /* why it cannot be looked into */
    uint32_t nnodes, ntasks, ncores;
    uint32_t size;  /* brokers of a session that was looked into */
    uint32_t level; /* attribute instance-level */
    double t_run;
    double expiration; /* of a session: when its time is up; 0: never, or not known */
    struct nestnode *children;
    size_t nchildren;
};

struct nesttree_params {
    bool pending;   /* also jobs that wait */
    bool ended;     /* also those that have ended */
    bool sessions;  /* only jobs that are sessions */
    bool relay;     /* go into sessions by relays */
    unsigned depth; /* levels to look into, the top counts as one; 0: all */
};

/* Load the tree of sessions below session `h`, of which `uri` is a broker.  A session that cannot
 * be reached has an error and no children.  NULL with errno and an error message if that is the
 * top one. */
struct nestnode *nesttree_load(flux_t *h, const char *uri, const struct nesttree_params *p,
                               errmsg_t *err);
void nesttree_destroy(struct nestnode *n); /* NULL-safe, keeps errno */

/* Objects {"id","name","state","nodes","tasks","cores","uri","size","level","expiration","error",
 * "jobs":[...]}, without what is unknown.  NULL with ENOMEM. */
json_t *nesttree_json(const struct nestnode *n);

#endif

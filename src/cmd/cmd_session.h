/* What the session looks like, for commands that show it: shape, and which ranks are up. */
#ifndef CMD_CMD_SESSION_H
#define CMD_CMD_SESSION_H

#include "cmd.h"
#include "libtopology/topology.h"

struct session {
    uint32_t size;
    char *state;      /* of rank 0: "run", ... */
    char *spec;       /* NULL without topology */
    topology_t *topo; /* NULL without topology */
    idset_t *up;
    idset_t *lost;
};

/* Ask; `topology`: the shape, too.  0, or -1 after printing a sentence.  To be cleared. */
int session_query(struct cmd *c, struct session *s, bool topology);
void session_clear(struct session *s);
/* "up", "lost" or "absent" (not there yet). */
const char *session_rank_state(const struct session *s, uint32_t rank);
/* The shape alone: NULL after printing a sentence. */
topology_t *session_topology(struct cmd *c, flux_t *h, char **spec);

#endif

/* What the session looks like, for commands that show it: shape, and which ranks are up. */
#ifndef CMD_CMD_SESSION_H
#define CMD_CMD_SESSION_H

#include "../cmd.h"
#include "libflux/overlay_wire.h"
#include "libtopology/topology.h"

/* state      meaning
 * up         it serves
 * slow       it serves, but nothing has come from it for a while
 * draining   it serves, but is about to leave
 * joining    it has connected, and does not serve yet
 * lost       it was up, and cannot be reached
 * left       it was up, and has left in order
 * absent     it is not there yet
 */
enum session_state {
    SESSION_UP,
    SESSION_SLOW,
    SESSION_DRAINING,
    SESSION_JOINING,
    SESSION_LOST,
    SESSION_LEFT,
    SESSION_ABSENT,
    SESSION_NSTATES
};

struct session {
    uint32_t size;
    char *state;                  /* of rank 0: "run", ... */
    char *spec;                   /* NULL without topology */
    topology_t *topo;             /* NULL without topology */
    idset_t *up;                  /* all that serve, the slow and draining ones, too */
    idset_t *in[SESSION_NSTATES]; /* each rank is in one */
    uint64_t map;                 /* number of the session map */
    uint32_t *incarnation;        /* of each rank, if it is above 1; else 0 */
    json_t *places;               /* session_query_places(); else NULL */
};

/* Ask; `topology`: the shape, too.  0, or -1 after printing an error message.  To be cleared. */
int session_query(struct cmd *c, struct session *s, bool topology);
/* Ask for the session map, too.  0, or -1 after printing an error message, and clearing `s`. */
int session_query_places(struct cmd *c, struct session *s);
void session_clear(struct session *s);
const char *session_state_name(enum session_state state);
const char *session_rank_state(const struct session *s, uint32_t rank); /* its name */
/* How often a broker of this rank has joined: 0 if it is absent. */
uint32_t session_rank_incarnation(const struct session *s, uint32_t rank);
/* What the session map has of this rank, if that was asked for; else only NULL and 0. */
struct overlay_place session_rank_place(const struct session *s, uint32_t rank);
/* Options of commands that ask several ranks; session_rank_option() takes them. */
#define SESSION_RANK_OPTS                                                                     \
    {'r', "ranks", "IDSET", "operate at these ranks, or 'all' (default: the local rank)"},    \
        {'d', "depth", "D", "operate at all ranks down to this depth of the tree (0: root)"}, \
    {                                                                                         \
        'a', "all", NULL, "operate at all ranks"                                              \
    }
/* One of SESSION_RANK_OPTS: store its value for session_choose_ranks().  False: another option. */
bool session_rank_option(int key, const char *val, const char **set, const char **depth);
/* The ranks of the set, those down to a depth of the tree, or (both NULL) the local one.  CMD_OK,
 * with an array to be freed; else an exit code, after printing an error message. */
int session_choose_ranks(struct cmd *c, flux_t *h, const char *set, const char *depth,
                         uint32_t **ranks, size_t *count);

#endif

/* What the session has, for commands that show it: the inventory and the state of its nodes. */
#ifndef CMD_CMD_RES_H
#define CMD_CMD_RES_H

#include "../cmd.h"
#include "libresource/resgraph.h"

struct res {
    resgraph_t *g;
    idset_t *all;
    idset_t *up;          /* nodes, drained ones too */
    idset_t *drained;     /* nodes, up or not */
    idset_t *unconfirmed; /* nodes that were lost, and may still run what ran then; not up */
    rset_t *allocated;    /* empty where there is no scheduler; NULL unless asked for */
    uint64_t version;
};

/* Ask; `use`: what is allocated, too.  0, or -1 after printing an error message.  To be cleared. */
int res_query(struct cmd *c, struct res *res, bool use);
void res_clear(struct res *res);
/* Nodes by idset or hostlist; NULL after printing an error message. */
idset_t *res_parse_nodes(struct cmd *c, const struct res *res, const char *text);
/* The host of a rank; NULL when it is not known. */
const char *res_host(const struct res *res, uint32_t rank);
/* An idset as text in a cell. */
void res_cell_idset(table_t *t, const idset_t *ids);

#endif

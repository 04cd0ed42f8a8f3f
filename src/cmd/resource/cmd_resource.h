/* What cmd_resource.c has from cmd_resource_places.c. */
#ifndef CMD_CMD_RESOURCE_H
#define CMD_CMD_RESOURCE_H

#include "../cmd.h"
#include "cmd_res.h"

/* Print one line for each place of a level: its nodes that are free, allocated and unusable, its
 * pools, and which jobs are there.  An exit code; what is wrong was printed. */
int resource_list_by(struct cmd *c, const struct res *res, const char *level, bool json);

#endif

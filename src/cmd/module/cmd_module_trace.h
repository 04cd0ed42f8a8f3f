/* flux module trace. */
#ifndef CMD_CMD_MODULE_TRACE_H
#define CMD_CMD_MODULE_TRACE_H

#include "../cmd.h"

int cmd_module_trace(struct cmd *c, int argc, char **argv);

#endif

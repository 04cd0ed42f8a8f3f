/* Declarations of all command functions: included by the file of each. */
#ifndef CMD_CMD_ALL_H
#define CMD_CMD_ALL_H

#include "cmd.h"

#define CMD(name, fn, summary) int fn(struct cmd *c, int argc, char **argv);
#define EXTERNAL(name, summary)
#include "cmd_list.h"
#undef CMD
#undef EXTERNAL

#endif

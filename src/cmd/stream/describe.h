/* What the variables of a stream are: flux stream format.
 *
 * Thread rules: one thread.
 */
#ifndef CMD_STREAM_DESCRIBE_H
#define CMD_STREAM_DESCRIBE_H

#include "../cmd.h"

int stream_describe(struct cmd *c, int argc, char **argv);

#endif

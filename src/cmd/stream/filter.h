/* Streams that transforms make of other streams: flux stream transform.
 *
 * Thread rules: one thread.
 */
#ifndef CMD_STREAM_FILTER_H
#define CMD_STREAM_FILTER_H

#include "../cmd.h"

int filter_transform(struct cmd *c, int argc, char **argv);

#endif

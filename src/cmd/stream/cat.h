/* The steps of a stream, printed: flux stream cat.
 *
 * Thread rules: one thread.
 */
#ifndef CMD_STREAM_CAT_H
#define CMD_STREAM_CAT_H

#include "../cmd.h"

int stream_cat(struct cmd *c, int argc, char **argv);

#endif

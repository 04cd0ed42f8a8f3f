/* Steps of a stream to a file, from a file, and to another stream: flux stream record, replay and
 * tee.
 *
 * Thread rules: one thread.
 */
#ifndef CMD_STREAM_TRANSFER_H
#define CMD_STREAM_TRANSFER_H

#include "../cmd.h"

int transfer_record(struct cmd *c, int argc, char **argv);
int transfer_replay(struct cmd *c, int argc, char **argv);
int transfer_tee(struct cmd *c, int argc, char **argv);

/* A number of steps a second, above 0.  0, or -1 without a message. */
int transfer_rate(const char *text, double *rate);

#endif

/* The relay of a host: flux stream relay.
 *
 * Thread rules: one thread.
 */
#ifndef CMD_STREAM_RELAY_H
#define CMD_STREAM_RELAY_H

#include "../cmd.h"

int stream_relay(struct cmd *c, int argc, char **argv);

#endif

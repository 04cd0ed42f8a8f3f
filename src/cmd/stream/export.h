/* A stream of a session in another session: flux stream export.
 *
 * Thread rules: one thread.
 */
#ifndef CMD_STREAM_EXPORT_H
#define CMD_STREAM_EXPORT_H

#include "../cmd.h"

int stream_export(struct cmd *c, int argc, char **argv);

#endif

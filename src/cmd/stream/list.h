/* Streams and their readers: flux stream ls, stat and readers.
 *
 * Thread rules: one thread.
 */
#ifndef CMD_STREAM_LIST_H
#define CMD_STREAM_LIST_H

#include <stdint.h>

#include "../cmd.h"

int stream_list_ls(struct cmd *c, int argc, char **argv);
int stream_list_stat(struct cmd *c, int argc, char **argv);
int stream_list_readers(struct cmd *c, int argc, char **argv);

/* The number of the next step of a stream, as its writers have last reported it, in *step.  CMD_OK,
 * or CMD_FAIL after an error message. */
int stream_list_step(struct cmd *c, const char *name, uint64_t *step);

#endif

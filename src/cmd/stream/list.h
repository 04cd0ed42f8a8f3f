/* Streams and their readers: flux stream ls, stat and readers.
 *
 * Thread rules: one thread.
 */
#ifndef CMD_STREAM_LIST_H
#define CMD_STREAM_LIST_H

#include "../cmd.h"

int stream_list_ls(struct cmd *c, int argc, char **argv);
int stream_list_stat(struct cmd *c, int argc, char **argv);
int stream_list_readers(struct cmd *c, int argc, char **argv);

#endif

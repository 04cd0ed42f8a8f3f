/* Settings of streams in a file, which override the options of programs that open them.
 *
 *    <streams>
 *      <stream name="heat" policy="latest" depth="4"/>       readers of heat
 *      <stream name="sim.*" keep="3" evict="10s"/>           writers of others
 *    </streams>
 *
 * Thread rules: any thread.
 */
#ifndef STREAM_CONFIG_H
#define STREAM_CONFIG_H

#include "libstream/stream.h"

/* Change the options of a stream according to the first element whose name, or pattern of
 * fnmatch(3), matches.  *held, NULL before, is memory to be freed when `opts` is not used any
 * longer. 0, or -1 with EINVAL (an error message names the line) or ENOMEM. */
int stream_config_apply(const char *text, size_t len, const char *name, enum flux_stream_mode mode,
                        struct flux_stream_opts *opts, char **held, errmsg_t *err);
/* The same with the file that FLUX_STREAM_CONFIG names; no effect without it.  Also -1 with an
 * errno of reading the file. */
int stream_config_file(const char *name, enum flux_stream_mode mode, struct flux_stream_opts *opts,
                       char **held, errmsg_t *err);

#endif

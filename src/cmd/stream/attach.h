/* flux stream transform --at: transforms for programs that run. */
#ifndef STREAM_CMD_ATTACH_H
#define STREAM_CMD_ATTACH_H

#include "../cmd.h"

/* Attach transforms ("": none) to the writers or readers of a stream that `at` names.  An exit
 * code, after an error message. */
int attach_transforms(struct cmd *c, const char *name, const char *at, const char *transforms);

#endif

/* Options that several commands of flux stream have. */
#ifndef CMD_STREAM_OPTS_H
#define CMD_STREAM_OPTS_H

#include "../cmd_private.h"

#define STREAM_OPT_COUNT                        \
    {                                           \
        'c', "count", "N", "stop after N steps" \
    }
#define STREAM_OPT_POLICY                                                           \
    {                                                                               \
        'p', "policy", "POLICY",                                                    \
            "block, drop-oldest, drop-newest, latest or sample:K\n(default: block)" \
    }
#define STREAM_OPT_STAY                                                                     \
    {                                                                                       \
        'K', "stay", NULL, "go on with writers that take the place of those that have gone" \
    }
#define STREAM_OPT_START(key)                                              \
    {key, "append", NULL, "continue a stream that others have written"},   \
    {                                                                      \
        'N', "anew", NULL, "begin a new run of such a stream, with step 0" \
    }
#define STREAM_OPT_TIMEOUT                                                     \
    {                                                                          \
        't', "timeout", "DURATION", "give up when no step comes for this time" \
    }

#endif

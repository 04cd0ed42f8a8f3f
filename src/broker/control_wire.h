/* Control messages between a broker and its parent: see control_wire.c. */
#ifndef BROKER_CONTROL_WIRE_H
#define BROKER_CONTROL_WIRE_H

#include <stdbool.h>
#include <stdint.h>

#include "libschema/schema.h"

struct control_hello {
    uint32_t rank;
    uint32_t size;
    const char *topology; /* points into the decoded message */
    int version;
};

/* Each message with numbers has some of these. */
struct control_number {
    uint64_t seq;
    uint64_t from;
    uint64_t to;
    uint64_t last;
    int state;
};

/* Each message with text has one of these; it points into the decoded message. */
struct control_text {
    const char *ranks;
    const char *reason;
    /* overlay.lost */
    bool left;       /* they have left in order */
    uint32_t by;     /* the rank that says so ... */
    const char *why; /* ... and why; NULL: not told */
};

struct control_changes {
    json_t *changes; /* array of struct overlay_change */
    bool down;       /* the sender shuts down, and may be busy with its modules */
};

/* To a child: shut down with this exit code. */
struct control_down_order {
    int rc; /* leave: that of the broker that leaves; those below it exit with 1 */
    const char *reason;
    bool leave; /* the session goes on: it is the parent that leaves */
};

/* Places in the tables of messages to the parent, and of messages to a child. */
enum {
    CONTROL_HELLO,
    CONTROL_READY,
    CONTROL_LOST,
    CONTROL_STATE,
    CONTROL_GOODBYE,
    CONTROL_REPLAY,
    CONTROL_NUP
};
enum {
    CONTROL_WELCOME,
    CONTROL_REFUSED,
    CONTROL_SHUTDOWN,
    CONTROL_SKIP,
    CONTROL_REPLAYED,
    CONTROL_LAST,
    CONTROL_CUT,
    CONTROL_NDOWN
};
/* `request` describes the payload; FLUX_METHOD_END follows. */
extern const struct flux_method control_up[CONTROL_NUP + 1];
extern const struct flux_method control_down[CONTROL_NDOWN + 1];

#endif

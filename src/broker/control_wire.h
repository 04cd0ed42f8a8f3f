/* Control messages between a broker and its parent: see control_wire.c. */
#ifndef BROKER_CONTROL_WIRE_H
#define BROKER_CONTROL_WIRE_H

#include <stdbool.h>
#include <stdint.h>

#include "libschema/schema.h"

/* Pointers refer to the decoded message. */
struct control_hello {
    uint32_t rank;
    uint32_t size;
    const char *topology;
    int version;
    /* Only of a living broker that has lost its parent; else NULL and 0. */
    const char *below;  /* ranks that are up in its subtree ... */
    const char *joined; /* ... of these, the ones that no event has announced yet; NULL: none */
    uint32_t incarnation;
    uint32_t move;     /* number of this move: a later one has a higher number */
    const char *keys;  /* public keys of `below`, or of the child (core_keys.c); NULL: none */
    const char *cards; /* addresses of `joined` (core_cards.c); NULL: none */
    json_t *moved;     /* array of struct control_moved: earlier moves of `below`; NULL: none */
    bool guest;        /* it has a parent, which has told it to move here (overlay.go) */
    uint64_t session;  /* to which it belongs (control_welcome); 0: it joins */
    bool awaited;      /* as control_awaited says */
    const char *host;  /* its name, in a session to which hosts may be added; NULL: not told */
};

/* Addresses by which descendants reach a broker when brokers in between have died. */
struct control_card {
    uint32_t rank;
    const char *tree;   /* addresses */
    const char *event;  /* "": the address `tree` */
    const char *key;    /* public; "": none are used */
    const char *ticket; /* proves that they belong to its subtree */
};
extern const struct flux_schema control_card_schema;

/* This rank is a child of `parent`, not of its parent in the shape of the tree. */
struct control_moved {
    uint32_t rank;
    uint32_t parent;
    uint32_t move;
    const char *below;  /* ranks that are up in its subtree; NULL: unchanged */
    const char *keys;   /* their public keys, or overlay.expect: that of `rank`; NULL: none */
    const char *joined; /* as in control_hello */
    const char *cards;  /* the same */
};
extern const struct flux_schema control_moved_schema;

/* The sender will be the parent of `rank`, and holds what is for it. */
struct control_expected {
    uint32_t rank;
    json_t *cards; /* array of one struct control_card: that of the sender */
};

/* The sender, which has changed its parent, and the ranks above it now. */
struct control_above {
    json_t *above; /* array of struct control_card */
};

struct control_welcome {
    uint64_t seq;
    uint64_t session; /* drawn by the root: a session that is started anew has another one */
    int state;
    json_t *above; /* array of struct control_card: of the parent and the ranks above it; NULL:
                    * none */
    json_t *moved; /* array of struct control_moved; NULL: none */
    json_t *incarnations; /* array of struct overlay_incarnation, of those above 1; NULL: none */
};

/* Each message with numbers has one of these members. */
struct control_number {
    uint64_t from;
    uint64_t last;
};

/* Which events the child does not get, and what has happened up to the newest one (core_view.c). */
struct control_skip {
    uint64_t to;
    uint64_t seq;
    bool run;
    const char *gone;
    json_t *incarnations; /* array of struct overlay_incarnation; NULL: all are the first */
    json_t *moved;        /* array of struct control_moved */
};

/* Each message with text has one of these members, which points into the decoded message. */
struct control_text {
    const char *ranks;
    const char *reason;
    const char *keys;  /* overlay.ready: public keys of `ranks`; NULL: none */
    const char *again; /* overlay.ready: of `ranks`, those that were up before; NULL: none */
    const char *cards; /* overlay.ready: addresses of the others (core_cards.c); NULL: none */
    bool elsewhere; /* overlay.refused: another broker may welcome the child, or this one later */
    /* overlay.lost */
    bool left;       /* they have left in order */
    uint32_t by;     /* the rank that reports this ... */
    const char *why; /* ... and the reason; NULL: not reported */
};

struct control_changes {
    json_t *changes; /* array of struct overlay_change */
    bool down;       /* the sender shuts down, and may be busy with its modules */
};

/* To a child: shut down with this exit code. */
struct control_down_order {
    int rc; /* leave: exit code of the leaving broker; brokers below it exit with 1 */
    const char *reason;
    bool leave; /* the session continues: only the parent leaves, */
    bool alone; /* and the child is to find another one */
};

struct control_deaf {
    bool deaf;    /* the sender hears nothing from the other end; or does again */
    bool returns; /* it ends this connection, and connects again */
};

/* To a broker above the parent, which may not hear the sender. */
struct control_lives {
    uint32_t incarnation; /* of the sender */
    uint64_t session;     /* of its welcome */
};

struct control_awaited {
    bool awaited; /* somebody at the sender or below it has subscribed to EVENT_OFFERED */
};

/* Places in the tables of messages to the parent, and of messages to a child. */
enum {
    CONTROL_HELLO,
    CONTROL_READY,
    CONTROL_LOST,
    CONTROL_STATE,
    CONTROL_GOODBYE,
    CONTROL_REPLAY,
    CONTROL_MOVED,
    CONTROL_EXPECTED,
    CONTROL_LEAVING,
    CONTROL_ARRIVED,
    CONTROL_DONE,
    CONTROL_TAKE,
    CONTROL_GAVE,
    CONTROL_DEAF,
    CONTROL_LIVES,
    CONTROL_AWAITED,
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
    CONTROL_EXPECT,
    CONTROL_GO,
    CONTROL_GIVEN,
    CONTROL_OVER,
    CONTROL_TAKES,
    CONTROL_ABOVE,
    CONTROL_UNHEARD,
    CONTROL_NDOWN
};
/* `request` describes the payload; FLUX_METHOD_END follows. */
extern const struct flux_method control_up[CONTROL_NUP + 1];
extern const struct flux_method control_down[CONTROL_NDOWN + 1];

#endif

/* control_wire.c - the control messages that a broker and its parent send each other.
 *
 * They pass on the tree plane, with a strict JSON object as payload.  The broker sends and decodes
 * them by these tables (core_overlay.c), and doc/wiredoc.c prints them for doc/protocol.rst.
 */
#include "config.h"
#include "control_wire.h"

#include "libflux/overlay_wire.h"

static const struct flux_field moved_fields[] = {
    FLUX_FIELD_U32(struct control_moved, rank, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U32(struct control_moved, parent, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U32(struct control_moved, move, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_STR(struct control_moved, below, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_STR(struct control_moved, keys, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_STR(struct control_moved, joined, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_STR(struct control_moved, cards, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_END,
};
const struct flux_schema control_moved_schema = FLUX_SCHEMA(struct control_moved, moved_fields);

static const struct flux_field hello_fields[] = {
    FLUX_FIELD_U32(struct control_hello, rank, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U32(struct control_hello, size, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_STR(struct control_hello, topology, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_INT(struct control_hello, version, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_STR(struct control_hello, below, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_STR(struct control_hello, joined, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_U32(struct control_hello, incarnation, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_U32(struct control_hello, move, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_STR(struct control_hello, keys, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_STR(struct control_hello, cards, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_ARRAY_OF(struct control_hello, moved, FLUX_FIELD_OPTIONAL, &control_moved_schema),
    FLUX_FIELD_BOOL(struct control_hello, guest, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_U64(struct control_hello, session, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_BOOL(struct control_hello, awaited, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_STR(struct control_hello, host, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_END,
};
static const struct flux_schema hello_schema = FLUX_SCHEMA(struct control_hello, hello_fields);

static const struct flux_field card_fields[] = {
    FLUX_FIELD_U32(struct control_card, rank, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_STR(struct control_card, tree, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_STR(struct control_card, event, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_STR(struct control_card, key, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_STR(struct control_card, ticket, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_END,
};
const struct flux_schema control_card_schema = FLUX_SCHEMA(struct control_card, card_fields);

static const struct flux_field expected_fields[] = {
    FLUX_FIELD_U32(struct control_expected, rank, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_ARRAY_OF(struct control_expected, cards, FLUX_FIELD_REQUIRED, &control_card_schema),
    FLUX_FIELD_END,
};
static const struct flux_schema expected_schema =
    FLUX_SCHEMA(struct control_expected, expected_fields);

static const struct flux_field above_fields[] = {
    FLUX_FIELD_ARRAY_OF(struct control_above, above, FLUX_FIELD_REQUIRED, &control_card_schema),
    FLUX_FIELD_END,
};
static const struct flux_schema above_schema = FLUX_SCHEMA(struct control_above, above_fields);

static const struct flux_field welcome_fields[] = {
    FLUX_FIELD_U64(struct control_welcome, seq, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct control_welcome, session, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_INT(struct control_welcome, state, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_ARRAY_OF(struct control_welcome, above, FLUX_FIELD_OPTIONAL, &control_card_schema),
    FLUX_FIELD_ARRAY_OF(struct control_welcome, moved, FLUX_FIELD_OPTIONAL, &control_moved_schema),
    FLUX_FIELD_ARRAY_OF(struct control_welcome, incarnations, FLUX_FIELD_OPTIONAL,
                        &overlay_incarnation_schema),
    FLUX_FIELD_END,
};
static const struct flux_schema welcome_schema =
    FLUX_SCHEMA(struct control_welcome, welcome_fields);

static const struct flux_field from_fields[] = {
    FLUX_FIELD_U64(struct control_number, from, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_END,
};
static const struct flux_schema from_schema = FLUX_SCHEMA(struct control_number, from_fields);

static const struct flux_field skip_fields[] = {
    FLUX_FIELD_U64(struct control_skip, to, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct control_skip, seq, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_BOOL(struct control_skip, run, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_STR(struct control_skip, gone, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_ARRAY_OF(struct control_skip, incarnations, FLUX_FIELD_OPTIONAL,
                        &overlay_incarnation_schema),
    FLUX_FIELD_ARRAY_OF(struct control_skip, moved, FLUX_FIELD_REQUIRED, &control_moved_schema),
    FLUX_FIELD_END,
};
static const struct flux_schema skip_schema = FLUX_SCHEMA(struct control_skip, skip_fields);

static const struct flux_field last_fields[] = {
    FLUX_FIELD_U64(struct control_number, last, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_END,
};
static const struct flux_schema last_schema = FLUX_SCHEMA(struct control_number, last_fields);

static const struct flux_field ready_fields[] = {
    FLUX_FIELD_STR(struct control_text, ranks, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_STR(struct control_text, again, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_STR(struct control_text, keys, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_STR(struct control_text, cards, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_END,
};
static const struct flux_schema ready_schema = FLUX_SCHEMA(struct control_text, ready_fields);

static const struct flux_field lost_fields[] = {
    FLUX_FIELD_STR(struct control_text, ranks, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_BOOL(struct control_text, left, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_U32(struct control_text, by, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_STR(struct control_text, why, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_END,
};
static const struct flux_schema lost_schema = FLUX_SCHEMA(struct control_text, lost_fields);

static const struct flux_field changes_fields[] = {
    FLUX_FIELD_ARRAY_OF(struct control_changes, changes, FLUX_FIELD_REQUIRED,
                        &overlay_change_schema),
    FLUX_FIELD_BOOL(struct control_changes, down, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_END,
};
static const struct flux_schema changes_schema =
    FLUX_SCHEMA(struct control_changes, changes_fields);

static const struct flux_field order_fields[] = {
    FLUX_FIELD_INT(struct control_down_order, rc, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_STR(struct control_down_order, reason, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_BOOL(struct control_down_order, leave, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_BOOL(struct control_down_order, alone, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_END,
};
static const struct flux_schema order_schema = FLUX_SCHEMA(struct control_down_order, order_fields);

static const struct flux_field reason_fields[] = {
    FLUX_FIELD_STR(struct control_text, reason, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_BOOL(struct control_text, elsewhere, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_END,
};
static const struct flux_schema reason_schema = FLUX_SCHEMA(struct control_text, reason_fields);

static const struct flux_field deaf_fields[] = {
    FLUX_FIELD_BOOL(struct control_deaf, deaf, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_BOOL(struct control_deaf, returns, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_END,
};
static const struct flux_schema deaf_schema = FLUX_SCHEMA(struct control_deaf, deaf_fields);

static const struct flux_field lives_fields[] = {
    FLUX_FIELD_U32(struct control_lives, incarnation, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct control_lives, session, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_END,
};
static const struct flux_schema lives_schema = FLUX_SCHEMA(struct control_lives, lives_fields);

static const struct flux_field awaited_fields[] = {
    FLUX_FIELD_BOOL(struct control_awaited, awaited, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_END,
};
static const struct flux_schema awaited_schema =
    FLUX_SCHEMA(struct control_awaited, awaited_fields);

static const struct flux_field empty_fields[] = {FLUX_FIELD_END};
static const struct flux_schema empty_schema = {empty_fields};

const struct flux_method control_up[CONTROL_NUP + 1] = {
    [CONTROL_HELLO] = {.topic = "overlay.hello",
                       .request = &hello_schema,
                       .what = "first message of a child, which asks to join; below: it has lost "
                               "its parent, and these ranks of its subtree are up; joined: of "
                               "these, the ones that no event has announced yet; keys: the "
                               "public keys of `below`, or of the child; cards: the addresses of "
                               "`joined`; guest: it has a parent, "
                               "and answers to overlay.go; session: that of its welcome; host: its "
                               "name, in a session to which hosts may be added"},
    [CONTROL_READY] = {.topic = "overlay.ready",
                       .request = &ready_schema,
                       .what = "these ranks of the subtree are ready; again: of these, those "
                               "that were up before; keys: their public keys, one after the "
                               "other; cards: the addresses of those that were not, a line each"},
    [CONTROL_LOST] = {.topic = "overlay.lost",
                      .request = &lost_schema,
                      .what = "these ranks of the subtree were lost, or have left, as rank by "
                              "says"},
    [CONTROL_STATE] = {.topic = "overlay.state",
                       .request = &changes_schema,
                       .what = "ranks of the subtree that join, are slow, or are draining, or no "
                               "longer; at most once in a second, and only what has changed; "
                               "none: the answer of an orphan to its welcome; down: the child "
                               "leaves now"},
    [CONTROL_GOODBYE] = {.topic = "overlay.goodbye",
                         .request = &empty_schema,
                         .what = "the subtree has shut down"},
    [CONTROL_REPLAY] = {.topic = "event.replay",
                        .request = &from_schema,
                        .what = "send the events again, from this number on"},
    [CONTROL_MOVED] = {.topic = "overlay.moved",
                       .request = &control_moved_schema,
                       .what = "this rank of the subtree has lost its parent, and has this one "
                               "now; below: the ranks that are up there; joined: of these, the "
                               "ones that no event has announced yet; cards: their addresses"},
    [CONTROL_EXPECTED] = {.topic = "overlay.expected",
                          .request = &expected_schema,
                          .what = "answer to overlay.expect: from now on, requests for that rank "
                                  "are held here; with the card of the sender"},
    [CONTROL_LEAVING] = {.topic = "overlay.leaving",
                         .request = &control_moved_schema,
                         .what = "answer to overlay.go: this parent has welcomed the sender, which "
                                 "now holds its requests; or, with the parent of now, it stays"},
    [CONTROL_ARRIVED] = {.topic = "overlay.arrived",
                         .request = &control_moved_schema,
                         .what = "the earlier parent has let the sender go; below: the ranks that "
                                 "are up there; keys: their public keys"},
    [CONTROL_DONE] = {.topic = "overlay.done",
                      .request = &empty_schema,
                      .what = "to the earlier parent: nothing is left to be answered on this "
                              "connection"},
    [CONTROL_TAKE] = {.topic = "overlay.expect",
                      .request = &control_moved_schema,
                      .what = "this child of the sender, which has no place there, will be a child "
                              "of the receiver"},
    [CONTROL_GAVE] = {.topic = "overlay.given",
                      .request = &control_moved_schema,
                      .what = "that rank is below the receiver from now on; or, with the sender as "
                              "the parent, it stays where it is"},
    [CONTROL_DEAF] = {.topic = "overlay.deaf",
                      .request = &deaf_schema,
                      .what = "the child has heard nothing from its parent for live.slow, and may "
                              "be about to connect to a broker above; or hears it again; "
                              "returns: it ends this connection for lack of memory, and connects "
                              "again"},
    [CONTROL_LIVES] = {.topic = "overlay.lives",
                       .request = &lives_schema,
                       .what = "to a broker above the parent, instead of overlay.hello: the sender "
                               "lives, and may not be heard by its parent; session: that of its "
                               "welcome"},
    [CONTROL_AWAITED] = {.topic = "event.awaited",
                         .request = &awaited_schema,
                         .what = "somebody at the child or below it has subscribed to the "
                                 "heartbeat; or nobody has any longer"},
    [CONTROL_NUP] = FLUX_METHOD_END,
};

const struct flux_method control_down[CONTROL_NDOWN + 1] = {
    [CONTROL_WELCOME] = {.topic = "overlay.welcome",
                         .request = &welcome_schema,
                         .what = "the child has joined; seq: the last event before; session: "
                                 "drawn at its start; above: how to "
                                 "reach those above; moved: ranks that are not where the shape "
                                 "has them"},
    [CONTROL_REFUSED] = {.topic = "overlay.refused",
                         .request = &reason_schema,
                         .what =
                             "the child may not join, and exits; elsewhere: it may join at another "
                             "broker above, or here later"},
    [CONTROL_SHUTDOWN] = {.topic = "overlay.shutdown",
                          .request = &order_schema,
                          .what = "shut down, children first, with this exit code; leave: the "
                                  "session goes on without this subtree; alone: only the sender "
                                  "leaves, and the receiver connects to a broker above it"},
    [CONTROL_SKIP] = {.topic = "event.skip",
                      .request = &skip_schema,
                      .what = "the events up to this one are no longer kept; seq: the newest one, "
                              "up to which run (the session runs), gone (ranks that are not up), "
                              "incarnations and moved say what has happened"},
    [CONTROL_REPLAYED] = {.topic = "event.replayed",
                          .request = &last_schema,
                          .what = "end of a part of the replay; last is the newest event"},
    [CONTROL_LAST] = {.topic = "event.last",
                      .request = &last_schema,
                      .what = "all events up to this one have been sent by now"},
    [CONTROL_CUT] = {.topic = "event.cut",
                     .request = &last_schema,
                     .what = "no event follows this one: a broker above is lost"},
    [CONTROL_EXPECT] = {.topic = "overlay.expect",
                        .request = &control_moved_schema,
                        .what = "this other child of the sender will be a child of the receiver; "
                                "keys: its public key"},
    [CONTROL_GO] = {.topic = "overlay.go",
                    .request = &control_card_schema,
                    .what = "connect to this broker as well, and then leave the sender for it"},
    [CONTROL_GIVEN] = {.topic = "overlay.given",
                       .request = &control_moved_schema,
                       .what = "this rank is below this parent from now on; or, with the sender as "
                               "the parent, it stays where it is"},
    [CONTROL_OVER] = {.topic = "overlay.over",
                      .request = &empty_schema,
                      .what = "answer to overlay.done, or to overlay.lives: the connection may "
                              "end"},
    [CONTROL_TAKES] = {.topic = "overlay.expected",
                       .request = &expected_schema,
                       .what = "answer of the parent to overlay.expect: from now on, requests for "
                               "that rank are held here; with the card of the sender"},
    [CONTROL_ABOVE] = {.topic = "overlay.above",
                       .request = &above_schema,
                       .what = "a broker above has another parent: how to reach those above now"},
    [CONTROL_UNHEARD] = {.topic = "overlay.deaf",
                         .request = &deaf_schema,
                         .what = "the parent has heard nothing from the child for live.slow"},
    [CONTROL_NDOWN] = FLUX_METHOD_END,
};

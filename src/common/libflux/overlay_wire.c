/* overlay_wire.c - messages of the service "overlay". */
#include "config.h"
#include "overlay_wire.h"

static const struct flux_field incarnation_fields[] = {
    FLUX_FIELD_U32(struct overlay_incarnation, incarnation, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_STR(struct overlay_incarnation, ranks, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_END,
};
const struct flux_schema overlay_incarnation_schema =
    FLUX_SCHEMA(struct overlay_incarnation, incarnation_fields);

static const struct flux_field status_fields[] = {
    FLUX_FIELD_U32(struct overlay_status, rank, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U32(struct overlay_status, size, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_STR(struct overlay_status, state, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_STR(struct overlay_status, up, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_STR(struct overlay_status, lost, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_STR(struct overlay_status, topology, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct overlay_status, map, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_STR(struct overlay_status, left, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_STR(struct overlay_status, absent, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_ARRAY_OF(struct overlay_status, incarnations, FLUX_FIELD_OPTIONAL,
                        &overlay_incarnation_schema),
    FLUX_FIELD_STR(struct overlay_status, joining, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_STR(struct overlay_status, slow, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_STR(struct overlay_status, draining, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_END,
};
const struct flux_schema overlay_status_schema = FLUX_SCHEMA(struct overlay_status, status_fields);

static const struct flux_field shape_fields[] = {
    FLUX_FIELD_STR(struct overlay_shape, topology, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U32(struct overlay_shape, size, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_STR(struct overlay_shape, file, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_BOOL(struct overlay_shape, moved, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_END,
};
const struct flux_schema overlay_shape_schema = FLUX_SCHEMA(struct overlay_shape, shape_fields);

static const struct flux_field run_fields[] = {
    FLUX_FIELD_U64(struct overlay_run, up, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_END,
};
const struct flux_schema overlay_run_schema = FLUX_SCHEMA(struct overlay_run, run_fields);

static const struct flux_field down_fields[] = {
    FLUX_FIELD_STR(struct overlay_down, ranks, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_STR(struct overlay_down, state, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_U64(struct overlay_down, map, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_END,
};
const struct flux_schema overlay_down_schema = FLUX_SCHEMA(struct overlay_down, down_fields);

static const struct flux_field up_fields[] = {
    FLUX_FIELD_STR(struct overlay_up, ranks, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U32(struct overlay_up, incarnation, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_STR(struct overlay_up, lost, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct overlay_up, map, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_STR(struct overlay_up, state, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_END,
};
const struct flux_schema overlay_up_schema = FLUX_SCHEMA(struct overlay_up, up_fields);

static const struct flux_field change_fields[] = {
    FLUX_FIELD_STR(struct overlay_change, ranks, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_STR(struct overlay_change, state, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U32(struct overlay_change, by, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_END,
};
const struct flux_schema overlay_change_schema = FLUX_SCHEMA(struct overlay_change, change_fields);

static const struct flux_field state_fields[] = {
    FLUX_FIELD_STR(struct overlay_state, ranks, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_STR(struct overlay_state, state, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct overlay_state, map, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_END,
};
const struct flux_schema overlay_state_schema = FLUX_SCHEMA(struct overlay_state, state_fields);

static const struct flux_field verdict_fields[] = {
    FLUX_FIELD_U64(struct overlay_verdict, number, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_DOUBLE(struct overlay_verdict, time, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_STR(struct overlay_verdict, ranks, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_STR(struct overlay_verdict, state, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U32(struct overlay_verdict, by, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_STR(struct overlay_verdict, why, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_END,
};
const struct flux_schema overlay_verdict_schema =
    FLUX_SCHEMA(struct overlay_verdict, verdict_fields);

static const struct flux_field history_fields[] = {
    FLUX_FIELD_ARRAY_OF(struct overlay_history, verdicts, FLUX_FIELD_REQUIRED,
                        &overlay_verdict_schema),
    FLUX_FIELD_END,
};
const struct flux_schema overlay_history_schema =
    FLUX_SCHEMA(struct overlay_history, history_fields);

static const struct flux_field shutdown_fields[] = {
    FLUX_FIELD_INT(struct shutdown_order, rc, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_STR(struct shutdown_order, reason, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_END,
};
const struct flux_schema shutdown_order_schema =
    FLUX_SCHEMA(struct shutdown_order, shutdown_fields);

static const struct flux_field leave_fields[] = {
    FLUX_FIELD_STR(struct overlay_leave, reason, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_BOOL(struct overlay_leave, restart, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_END,
};
const struct flux_schema overlay_leave_schema = FLUX_SCHEMA(struct overlay_leave, leave_fields);

static const struct flux_field restore_fields[] = {
    FLUX_FIELD_STR(struct overlay_restore, ranks, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_END,
};
const struct flux_schema overlay_restore_schema =
    FLUX_SCHEMA(struct overlay_restore, restore_fields);

static const struct flux_field restored_fields[] = {
    FLUX_FIELD_STR(struct overlay_restored, moved, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_STR(struct overlay_restored, why, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_END,
};
const struct flux_schema overlay_restored_schema =
    FLUX_SCHEMA(struct overlay_restored, restored_fields);

static const struct flux_field map_since_fields[] = {
    FLUX_FIELD_U64(struct overlay_map_since, since, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_U32(struct overlay_map_since, first, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_END,
};
const struct flux_schema overlay_map_since_schema =
    FLUX_SCHEMA(struct overlay_map_since, map_since_fields);

static const struct flux_field place_fields[] = {
    FLUX_FIELD_U32(struct overlay_place, rank, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_STR(struct overlay_place, state, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U32(struct overlay_place, incarnation, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U32(struct overlay_place, parent, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_STR(struct overlay_place, address, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_STR(struct overlay_place, event, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_STR(struct overlay_place, key, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_END,
};
const struct flux_schema overlay_place_schema = FLUX_SCHEMA(struct overlay_place, place_fields);

static const struct flux_field map_fields[] = {
    FLUX_FIELD_U64(struct overlay_map, map, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_ARRAY_OF(struct overlay_map, places, FLUX_FIELD_REQUIRED, &overlay_place_schema),
    FLUX_FIELD_U32(struct overlay_map, next, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_END,
};
const struct flux_schema overlay_map_schema = FLUX_SCHEMA(struct overlay_map, map_fields);

static const struct flux_field sender_fields[] = {
    FLUX_FIELD_U32(struct overlay_sender, endpoint, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_END,
};
const struct flux_schema overlay_sender_schema = FLUX_SCHEMA(struct overlay_sender, sender_fields);

static const struct flux_field present_fields[] = {
    FLUX_FIELD_BOOL(struct overlay_present, present, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_END,
};
const struct flux_schema overlay_present_schema =
    FLUX_SCHEMA(struct overlay_present, present_fields);

static const struct flux_field heard_fields[] = {
    FLUX_FIELD_U32(struct overlay_heard, rank, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_END,
};
const struct flux_schema overlay_heard_schema = FLUX_SCHEMA(struct overlay_heard, heard_fields);

static const struct flux_field heard_ago_fields[] = {
    FLUX_FIELD_DOUBLE(struct overlay_heard_ago, ago, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_END,
};
const struct flux_schema overlay_heard_ago_schema =
    FLUX_SCHEMA(struct overlay_heard_ago, heard_ago_fields);

static const struct flux_field add_fields[] = {
    FLUX_FIELD_STR(struct overlay_add, host, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_END,
};
const struct flux_schema overlay_add_schema = FLUX_SCHEMA(struct overlay_add, add_fields);

static const struct flux_field added_fields[] = {
    FLUX_FIELD_U32(struct overlay_added, rank, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_BOOL(struct overlay_added, waits, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_END,
};
const struct flux_schema overlay_added_schema = FLUX_SCHEMA(struct overlay_added, added_fields);

static const struct flux_field admit_fields[] = {
    FLUX_FIELD_U32(struct overlay_admit, rank, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_STR(struct overlay_admit, host, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_END,
};
const struct flux_schema overlay_admit_schema = FLUX_SCHEMA(struct overlay_admit, admit_fields);

static const struct flux_field address_fields[] = {
    FLUX_FIELD_STR(struct overlay_address, tree, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_END,
};
const struct flux_schema overlay_address_schema =
    FLUX_SCHEMA(struct overlay_address, address_fields);

static const struct flux_field moved_fields[] = {
    FLUX_FIELD_U32(struct overlay_moved, rank, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U32(struct overlay_moved, parent, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U32(struct overlay_moved, move, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct overlay_moved, map, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_END,
};
const struct flux_schema overlay_moved_schema = FLUX_SCHEMA(struct overlay_moved, moved_fields);

const struct flux_method overlay_methods[] = {
    {.topic = "overlay.status",
     .response = &overlay_status_schema,
     .what = "state of this broker, and the ranks that it knows to be up and not to be (idsets); "
             "rank 0 says which of the latter left in order or never came, which ranks join, are "
             "slow, or are draining, and the incarnations above 1"},
    {.topic = "overlay.history",
     .response = &overlay_history_schema,
     .what = "at rank 0: the latest changes of the states of ranks, with the rank that said so and "
             "why"},
    {.topic = "overlay.map",
     .request = &overlay_map_since_schema,
     .response = &overlay_map_schema,
     .what = "at rank 0: the places of the session map that have changed since it had this number, "
             "with state, incarnation, parent, addresses and public key of each rank; at most 1024 "
             "in one answer, next: ask again from this rank on, with the same number"},
    {.topic = "overlay.topology",
     .response = &overlay_shape_schema,
     .what =
         "shape of the tree, and the tree as it is now in the form of a topology file; moved: it "
         "differs from the shape"},
    {.topic = "overlay.leave",
     .request = &overlay_leave_schema,
     .gives = "empty object",
     .what = "leave the session when no job runs here any more; restart: to be started again"},
    {.topic = "overlay.add",
     .request = &overlay_add_schema,
     .response = &overlay_added_schema,
     .what = "to rank 0: start a broker on this host, for the first rank that has none; the answer "
             "comes when it is up, or an error when it could not be started or has ended before; "
             "waits: it comes at once, since the host starts its broker itself"},
    {.topic = "overlay.admit",
     .request = &overlay_admit_schema,
     .gives = "empty object",
     .what = "to rank 0, from the parent of a broker that joins at a rank to which a host may be "
             "added: whether it is the host that was added; EPERM: it is not"},
    {.topic = "overlay.restore",
     .request = &overlay_restore_schema,
     .response = &overlay_restored_schema,
     .what = "to a broker that has taken over ranks whose parent was lost: its children of these "
             "ranks, which are back, get their subtrees back now"},
    {.topic = "overlay.sender",
     .request = &overlay_sender_schema,
     .response = &overlay_present_schema,
     .what = "to the broker of a sender whose way was lost: whether the sender is still there"},
    {.topic = "overlay.heard",
     .request = &overlay_heard_schema,
     .response = &overlay_heard_ago_schema,
     .what = "to a neighbor of this rank on the ring, from the parent of that rank, which does not "
             "hear it: how many seconds ago it was heard"},
    {.topic = "overlay.vouch",
     .request = &overlay_heard_schema,
     .what = "to the parent of this rank, from a broker above it, to which the rank has just said "
             "that it lives; there is no response"},
    {.topic = "overlay.address",
     .response = &overlay_address_schema,
     .what = "from the predecessor on the ring, when this rank is up again: where this broker "
             "listens"},
    {.topic = "overlay.run",
     .flags = FLUX_METHOD_EVENT,
     .request = &overlay_run_schema,
     .what = "all ranks are ready, or lost"},
    {.topic = "overlay.down",
     .flags = FLUX_METHOD_EVENT,
     .request = &overlay_down_schema,
     .what = "these ranks (an idset) are lost, have left, or are absent: the session begins "
             "without them; map: number of the session map"},
    {.topic = "overlay.up",
     .flags = FLUX_METHOD_EVENT,
     .request = &overlay_up_schema,
     .what = "these ranks, which were not up, are: brokers of this incarnation; all that are still "
             "not up are lost; state: that of rank 0"},
    {.topic = "overlay.state",
     .flags = FLUX_METHOD_EVENT,
     .request = &overlay_state_schema,
     .what = "these ranks (an idset) join, are slow or draining; up, lost: they are no longer"},
    {.topic = "overlay.moved",
     .flags = FLUX_METHOD_EVENT,
     .request = &overlay_moved_schema,
     .what = "this rank has this parent now, and those below it the same as before; move: number "
             "of the rank's move, "
             "map: of the session map"},
    FLUX_METHOD_END,
};

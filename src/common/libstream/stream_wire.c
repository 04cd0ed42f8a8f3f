/* stream_wire.c - messages of the service "stream". */
#include "config.h"
#include "libstream/stream_wire.h"

bool stream_title_ok(const char *name, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if ((unsigned char)name[i] <= ' ' || name[i] == 0x7f)
            return false;
    }
    return len > 0 && len <= STREAM_TITLE_MAX;
}

static const struct flux_field write_fields[] = {
    FLUX_FIELD_STR(struct stream_write, name, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U32(struct stream_write, rank, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U32(struct stream_write, size, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_STR(struct stream_write, host, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_STR(struct stream_write, place, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_STR(struct stream_write, address, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_STR(struct stream_write, far, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_STR(struct stream_write, key, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct stream_write, job, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_U32(struct stream_write, task, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_BOOL(struct stream_write, launched, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_STR(struct stream_write, start, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_END,
};
const struct flux_schema stream_write_schema = FLUX_SCHEMA(struct stream_write, write_fields);

static const struct flux_field demand_fields[] = {
    FLUX_FIELD_U64(struct stream_demand, reader, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_STR(struct stream_demand, policy, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_BOOL(struct stream_demand, off, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_END,
};
const struct flux_schema stream_demand_schema = FLUX_SCHEMA(struct stream_demand, demand_fields);

static const struct flux_field written_fields[] = {
    FLUX_FIELD_U64(struct stream_written, writer, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct stream_written, step, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct stream_written, epoch, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_DOUBLE(struct stream_written, clock, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_BOOL(struct stream_written, paused, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_DOUBLE(struct stream_written, limit, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U32(struct stream_written, stays, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_U32(struct stream_written, shares, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_U32(struct stream_written, attached, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_STR(struct stream_written, transforms, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_ARRAY_OF(struct stream_written, readers, FLUX_FIELD_REQUIRED, &stream_demand_schema),
    FLUX_FIELD_ARRAY(struct stream_written, gone, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_END,
};
const struct flux_schema stream_written_schema = FLUX_SCHEMA(struct stream_written, written_fields);

static const struct flux_field queue_fields[] = {
    FLUX_FIELD_U64(struct stream_queue, reader, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct stream_queue, queue, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct stream_queue, dropped, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_DOUBLE(struct stream_queue, blocked, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_END,
};
const struct flux_schema stream_queue_schema = FLUX_SCHEMA(struct stream_queue, queue_fields);

static const struct flux_field count_fields[] = {
    FLUX_FIELD_STR(struct stream_count, name, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct stream_count, writer, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct stream_count, step, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct stream_count, need, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct stream_count, epoch, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct stream_count, steps, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct stream_count, bytes, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct stream_count, copied, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct stream_count, dropped, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct stream_count, queue, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct stream_count, pinned, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_DOUBLE(struct stream_count, blocked, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_DOUBLE(struct stream_count, held, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U32(struct stream_count, faults, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_U64(struct stream_count, sent, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U32(struct stream_count, connections, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_BOOL(struct stream_count, failed, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_ARRAY_OF(struct stream_count, queues, FLUX_FIELD_REQUIRED, &stream_queue_schema),
    FLUX_FIELD_END,
};
const struct flux_schema stream_count_schema = FLUX_SCHEMA(struct stream_count, count_fields);

static const struct flux_field define_fields[] = {
    FLUX_FIELD_STR(struct stream_define, name, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_STR(struct stream_define, format, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_STR(struct stream_define, id, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_END,
};
const struct flux_schema stream_define_schema = FLUX_SCHEMA(struct stream_define, define_fields);

static const struct flux_field ask_format_fields[] = {
    FLUX_FIELD_STR(struct stream_ask_format, name, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_STR(struct stream_ask_format, id, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_END,
};
const struct flux_schema stream_ask_format_schema =
    FLUX_SCHEMA(struct stream_ask_format, ask_format_fields);

static const struct flux_field name_fields[] = {
    FLUX_FIELD_STR(struct stream_name, name, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_END,
};
const struct flux_schema stream_name_schema = FLUX_SCHEMA(struct stream_name, name_fields);

static const struct flux_field pause_fields[] = {
    FLUX_FIELD_STR(struct stream_pause, name, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_BOOL(struct stream_pause, paused, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_END,
};
const struct flux_schema stream_pause_schema = FLUX_SCHEMA(struct stream_pause, pause_fields);

static const struct flux_field throttle_fields[] = {
    FLUX_FIELD_STR(struct stream_throttle, name, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_DOUBLE(struct stream_throttle, limit, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_END,
};
const struct flux_schema stream_throttle_schema =
    FLUX_SCHEMA(struct stream_throttle, throttle_fields);

static const struct flux_field attach_fields[] = {
    FLUX_FIELD_STR(struct stream_attach, name, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct stream_attach, reader, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_BOOL(struct stream_attach, readers, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_STR(struct stream_attach, transforms, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_END,
};
const struct flux_schema stream_attach_schema = FLUX_SCHEMA(struct stream_attach, attach_fields);

static const struct flux_field text_fields[] = {
    FLUX_FIELD_STR(struct stream_text, format, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_ARRAY(struct stream_text, ids, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_END,
};
const struct flux_schema stream_text_schema = FLUX_SCHEMA(struct stream_text, text_fields);

static const struct flux_field read_fields[] = {
    FLUX_FIELD_STR(struct stream_read, name, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct stream_read, reader, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_STR(struct stream_read, place, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_BOOL(struct stream_read, far, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_STR(struct stream_read, host, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U32(struct stream_read, pid, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_STR(struct stream_read, policy, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_STR(struct stream_read, onoff, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_BOOL(struct stream_read, stay, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_U64(struct stream_read, job, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_END,
};
const struct flux_schema stream_read_schema = FLUX_SCHEMA(struct stream_read, read_fields);

static const struct flux_field took_fields[] = {
    FLUX_FIELD_STR(struct stream_took, name, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct stream_took, reader, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct stream_took, run, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_U64(struct stream_took, step, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct stream_took, steps, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct stream_took, asked, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct stream_took, copied, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_DOUBLE(struct stream_took, waited, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct stream_took, received, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U32(struct stream_took, connections, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_END,
};
const struct flux_schema stream_took_schema = FLUX_SCHEMA(struct stream_took, took_fields);

static const struct flux_field policy_fields[] = {
    FLUX_FIELD_STR(struct stream_policy, name, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct stream_policy, reader, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_STR(struct stream_policy, policy, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_END,
};
const struct flux_schema stream_policy_schema = FLUX_SCHEMA(struct stream_policy, policy_fields);

static const struct flux_field switch_fields[] = {
    FLUX_FIELD_STR(struct stream_switch, name, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_BOOL(struct stream_switch, on, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_END,
};
const struct flux_schema stream_switch_schema = FLUX_SCHEMA(struct stream_switch, switch_fields);

static const struct flux_field reader_fields[] = {
    FLUX_FIELD_U64(struct stream_reader, reader, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U32(struct stream_reader, rank, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_STR(struct stream_reader, host, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U32(struct stream_reader, pid, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_STR(struct stream_reader, policy, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_STR(struct stream_reader, onoff, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_BOOL(struct stream_reader, off, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct stream_reader, step, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct stream_reader, lag, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct stream_reader, steps, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct stream_reader, asked, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct stream_reader, copied, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_DOUBLE(struct stream_reader, waited, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct stream_reader, received, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U32(struct stream_reader, connections, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct stream_reader, queue, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct stream_reader, dropped, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_DOUBLE(struct stream_reader, blocked, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct stream_reader, job, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_STR(struct stream_reader, transforms, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_END,
};
const struct flux_schema stream_reader_schema = FLUX_SCHEMA(struct stream_reader, reader_fields);

static const struct flux_field readers_fields[] = {
    FLUX_FIELD_ARRAY_OF(struct stream_readers, readers, FLUX_FIELD_REQUIRED, &stream_reader_schema),
    FLUX_FIELD_END,
};
const struct flux_schema stream_readers_schema = FLUX_SCHEMA(struct stream_readers, readers_fields);

static const struct flux_field member_fields[] = {
    FLUX_FIELD_U64(struct stream_member, writer, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U32(struct stream_member, rank, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct stream_member, epoch, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct stream_member, run, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_STR(struct stream_member, host, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_STR(struct stream_member, address, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_STR(struct stream_member, key, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_BOOL(struct stream_member, far, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct stream_member, reader, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct stream_member, expires, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_END,
};
const struct flux_schema stream_member_schema = FLUX_SCHEMA(struct stream_member, member_fields);

static const struct flux_field gone_fields[] = {
    FLUX_FIELD_U64(struct stream_gone, writer, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_STR(struct stream_gone, why, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_BOOL(struct stream_gone, more, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_END,
};
const struct flux_schema stream_gone_schema = FLUX_SCHEMA(struct stream_gone, gone_fields);

static const struct flux_field members_fields[] = {
    FLUX_FIELD_U32(struct stream_members, size, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_ARRAY_OF(struct stream_members, writers, FLUX_FIELD_REQUIRED, &stream_member_schema),
    FLUX_FIELD_ARRAY_OF(struct stream_members, gone, FLUX_FIELD_REQUIRED, &stream_gone_schema),
    FLUX_FIELD_BOOL(struct stream_members, off, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct stream_members, born, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U32(struct stream_members, attached, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_STR(struct stream_members, transforms, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_END,
};
const struct flux_schema stream_members_schema = FLUX_SCHEMA(struct stream_members, members_fields);

static const struct flux_field item_fields[] = {
    FLUX_FIELD_STR(struct stream_item, name, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U32(struct stream_item, writers, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U32(struct stream_item, size, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U32(struct stream_item, readers, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct stream_item, step, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct stream_item, epoch, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct stream_item, steps, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct stream_item, bytes, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct stream_item, copied, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct stream_item, asked, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct stream_item, dropped, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct stream_item, queue, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct stream_item, pinned, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct stream_item, lag, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct stream_item, sent, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U32(struct stream_item, connections, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_DOUBLE(struct stream_item, blocked, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_DOUBLE(struct stream_item, held, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_DOUBLE(struct stream_item, rate, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_BOOL(struct stream_item, paused, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_DOUBLE(struct stream_item, limit, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U32(struct stream_item, faults, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_STR(struct stream_item, transforms, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_STR(struct stream_item, cause, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_END,
};
const struct flux_schema stream_item_schema = FLUX_SCHEMA(struct stream_item, item_fields);

static const struct flux_field list_fields[] = {
    FLUX_FIELD_ARRAY_OF(struct stream_list, streams, FLUX_FIELD_REQUIRED, &stream_item_schema),
    FLUX_FIELD_END,
};
const struct flux_schema stream_list_schema = FLUX_SCHEMA(struct stream_list, list_fields);

static const struct flux_field stats_fields[] = {
    FLUX_FIELD_U64(struct stream_stats, streams, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct stream_stats, writers, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct stream_stats, readers, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct stream_stats, opened, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_END,
};
const struct flux_schema stream_stats_schema = FLUX_SCHEMA(struct stream_stats, stats_fields);

const struct flux_method stream_methods[] = {
    {.topic = "stream.write",
     .flags = FLUX_METHOD_STREAM,
     .request = &stream_write_schema,
     .response = &stream_written_schema,
     .what =
         "a process begins to write a stream, and does so until it cancels the request or is "
         "gone; another response whenever the stream is paused, resumed or throttled, or the "
         "policy or switch of a reader changes; ends with ECANCELED when the stream is removed"},
    {.topic = "stream.count",
     .request = &stream_count_schema,
     .gives = "none",
     .what = "how far a writer is: at most once a second, without a response, and when it closes"},
    {.topic = "stream.define",
     .request = &stream_define_schema,
     .gives = "none",
     .what = "what a stream's steps are, or with an id the format of records in them, by a writer"},
    {.topic = "stream.format",
     .request = &stream_ask_format_schema,
     .response = &stream_text_schema,
     .what = "what a stream's steps are, and the ids of all formats of records; or the format with "
             "an id"},
    {.topic = "stream.read",
     .flags = FLUX_METHOD_STREAM,
     .request = &stream_read_schema,
     .response = &stream_members_schema,
     .what = "a process begins to read a stream, which need not have writers yet: its writers, and "
             "then each change; reader is a number that no other reader of the stream has, else "
             "EEXIST; ends with ECANCELED when the stream is removed"},
    {.topic = "stream.took",
     .flags = FLUX_METHOD_NORESPONSE,
     .request = &stream_took_schema,
     .what = "how far a reader is, at most once a second"},
    {.topic = "stream.readers",
     .request = &stream_name_schema,
     .response = &stream_readers_schema,
     .what = "all readers of a stream, in the order in which they have come"},
    {.topic = "stream.policy",
     .request = &stream_policy_schema,
     .gives = "none",
     .what = "change the policy of a reader"},
    {.topic = "stream.list",
     .response = &stream_list_schema,
     .what = "all streams that have a writer or a reader, by name"},
    {.topic = "stream.pause",
     .request = &stream_pause_schema,
     .gives = "none",
     .what = "let the writers of a stream publish no step, or publish steps again"},
    {.topic = "stream.throttle",
     .request = &stream_throttle_schema,
     .gives = "none",
     .what = "let the writers of a stream publish at most as many steps a second"},
    {.topic = "stream.attach",
     .request = &stream_attach_schema,
     .gives = "none",
     .what = "let the writers of a stream, or one reader, transform steps"},
    {.topic = "stream.remove",
     .request = &stream_name_schema,
     .gives = "none",
     .what = "end a stream: for its writers, and for its readers"},
    {.topic = "stream.stats",
     .response = &stream_stats_schema,
     .what = "how many there are, and how many writers and readers there were"},
    FLUX_METHOD_END,
};

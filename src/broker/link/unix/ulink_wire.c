/* ulink_wire.c - the messages of the local link itself.
 *
 * Format: they are requests with a strict JSON object as payload, on the same stream as the
 * messages of the core, which have other topics.  link.pulse carries a descriptor (unix(7),
 * SCM_RIGHTS) of the pulse of its sender (link/pulse.c), unless the kernel has refused to pass it.
 */
#include "config.h"
#include "ulink_wire.h"

static const struct flux_field hello_fields[] = {
    FLUX_FIELD_INT(struct ulink_hello, version, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U32(struct ulink_hello, rank, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_STR(struct ulink_hello, plane, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_STR(struct ulink_hello, key, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_END,
};
static const struct flux_schema hello_schema = FLUX_SCHEMA(struct ulink_hello, hello_fields);

static const struct flux_field key_fields[] = {
    FLUX_FIELD_STR(struct ulink_key, key, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_END,
};
static const struct flux_schema key_schema = FLUX_SCHEMA(struct ulink_key, key_fields);

static const struct flux_field reason_fields[] = {
    FLUX_FIELD_STR(struct ulink_reason, reason, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_END,
};
static const struct flux_schema reason_schema = FLUX_SCHEMA(struct ulink_reason, reason_fields);

static const struct flux_field empty_fields[] = {FLUX_FIELD_END};
static const struct flux_schema empty_schema = {empty_fields};

const struct flux_method ulink_words[ULINK_NWORDS + 1] = {
    [ULINK_HELLO] = {.topic = "link.hello",
                     .request = &hello_schema,
                     .what = "first message on a connection: who connects"},
    [ULINK_ACCEPTED] = {.topic = "link.accepted",
                        .request = &key_schema,
                        .what = "the answer: messages may follow in both directions"},
    [ULINK_REFUSED] = {.topic = "link.refused",
                       .request = &reason_schema,
                       .what = "the answer to one that may not connect"},
    [ULINK_BEAT] = {.topic = "link.beat",
                    .request = &empty_schema,
                    .what = "a sign of life, when nothing waits to be sent"},
    [ULINK_PULSE] = {.topic = "link.pulse",
                     .request = &empty_schema,
                     .what = "the first sign of life, with a descriptor of memory that shows "
                             "later ones"},
    [ULINK_VIEWED] = {.topic = "link.viewed",
                      .request = &empty_schema,
                      .what = "the sender sees signs of life in this memory, and needs no "
                              "link.beat"},
    [ULINK_NWORDS] = FLUX_METHOD_END,
};

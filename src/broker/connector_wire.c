/* connector_wire.c - messages of the service "connector", and control messages to clients. */
#include "config.h"
#include "connector.h"
#include "connector_wire.h"

#include <stdlib.h>

static const struct flux_field stats_fields[] = {
    FLUX_FIELD_U64(struct connector_stats, clients, 0),
    FLUX_FIELD_U64(struct connector_stats, accepted, 0),
    FLUX_FIELD_U64(struct connector_stats, refused, 0),
    FLUX_FIELD_U64(struct connector_stats, broken, 0),
    FLUX_FIELD_U64(struct connector_stats, cut, 0),
    FLUX_FIELD_U64(struct connector_stats, queued, 0),
    FLUX_FIELD_U64(struct connector_stats, queued_max, 0),
    FLUX_FIELD_U64(struct connector_stats, reading, 0),
    FLUX_FIELD_END,
};
const struct flux_schema connector_stats_schema = FLUX_SCHEMA(struct connector_stats, stats_fields);

const struct flux_method connector_methods[] = {
    {.topic = "connector.stats",
     .response = &connector_stats_schema,
     .what =
         "clients of this broker: connected, accepted, refused without permission, disconnected "
         "because of what they sent, disconnected because they did not read; bytes that wait "
         "for them, the most that ever waited for one, and memory for messages of which a part has "
         "come"},
    FLUX_METHOD_END,
};

flux_msg_t *connector_control(const char *topic, const struct flux_schema *desc, const void *in)
{
    char *json = flux_schema_encode(desc, in);
    flux_msg_t *msg = json ? flux_msg_create(FLUX_MSG_CONTROL, topic) : NULL;

    if (msg && flux_msg_set_json(msg, json) < 0) {
        flux_msg_destroy(msg);
        msg = NULL;
    }
    free(json);
    return msg;
}

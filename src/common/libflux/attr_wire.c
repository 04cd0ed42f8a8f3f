/* attr_wire.c - messages of the service "attr". */
#include "config.h"
#include "attr_wire.h"

static const struct flux_field name_fields[] = {
    FLUX_FIELD_STR(struct attr_pair, name, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_END,
};
const struct flux_schema attr_name_schema = FLUX_SCHEMA(struct attr_pair, name_fields);

static const struct flux_field pair_fields[] = {
    FLUX_FIELD_STR(struct attr_pair, name, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_STR(struct attr_pair, value, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_END,
};
const struct flux_schema attr_pair_schema = FLUX_SCHEMA(struct attr_pair, pair_fields);

static const struct flux_field all_fields[] = {
    FLUX_FIELD_OBJECT(struct attr_all, attrs, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_END,
};
const struct flux_schema attr_all_schema = FLUX_SCHEMA(struct attr_all, all_fields);

const struct flux_method attr_methods[] = {
    {.topic = "attr.get",
     .request = &attr_name_schema,
     .response = &attr_pair_schema,
     .what = "value of an attribute of this broker"},
    {.topic = "attr.set",
     .request = &attr_pair_schema,
     .gives = "empty object",
     .what = "set an attribute that is not fixed"},
    {.topic = "attr.list", .response = &attr_all_schema, .what = "all attributes, by name"},
    FLUX_METHOD_END,
};

/* attr_wire.c - messages of the service "attr".
 *
 *    attr.get   {"name"}          -> {"name","value"}
 *    attr.set   {"name","value"}  -> {}
 *    attr.list  {}                -> {"attrs":{name:value}}
 */
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

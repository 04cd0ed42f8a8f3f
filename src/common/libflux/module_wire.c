/* module_wire.c - messages of the service "module". */
#include "config.h"
#include "module_wire.h"

static const struct flux_field load_fields[] = {
    FLUX_FIELD_STR(struct module_load, path, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_ARRAY(struct module_load, args, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_STR(struct module_load, place, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_END,
};
const struct flux_schema module_load_schema = FLUX_SCHEMA(struct module_load, load_fields);

static const struct flux_field name_fields[] = {
    FLUX_FIELD_STR(struct module_name, name, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_END,
};
const struct flux_schema module_name_schema = FLUX_SCHEMA(struct module_name, name_fields);

static const struct flux_field stop_fields[] = {
    FLUX_FIELD_STR(struct module_name, name, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_BOOL(struct module_name, force, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_END,
};
const struct flux_schema module_stop_schema = FLUX_SCHEMA(struct module_name, stop_fields);

static const struct flux_field item_fields[] = {
    FLUX_FIELD_STR(struct module_item, name, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_STR(struct module_item, path, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_STR(struct module_item, state, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct module_item, received, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct module_item, sent, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct module_item, queued, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_STR(struct module_item, place, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct module_item, turns, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_DOUBLE(struct module_item, busy, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_DOUBLE(struct module_item, longest, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct module_item, longer, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_END,
};
const struct flux_schema module_item_schema = FLUX_SCHEMA(struct module_item, item_fields);

static const struct flux_field list_fields[] = {
    FLUX_FIELD_ARRAY_OF(struct module_list, modules, FLUX_FIELD_REQUIRED, &module_item_schema),
    FLUX_FIELD_END,
};
const struct flux_schema module_list_schema = FLUX_SCHEMA(struct module_list, list_fields);

const struct flux_method module_methods[] = {
    {.topic = "module.load",
     .request = &module_load_schema,
     .gives = "name: string",
     .what = "load a module; the response comes when it runs"},
    {.topic = "module.unload",
     .request = &module_stop_schema,
     .gives = "empty object",
     .what = "unload a module; the response comes when it is gone"},
    {.topic = "module.reload",
     .request = &module_stop_schema,
     .gives = "name: string",
     .what = "load a module again from its file; requests that it has not answered are kept"},
    {.topic = "module.list", .response = &module_list_schema, .what = "modules of this broker"},
    {.topic = "module.stats",
     .request = &module_name_schema,
     .response = &module_item_schema,
     .what = "one module"},
    FLUX_METHOD_END,
};

/* kvs_json_wire.c - descriptions of the JSON messages of the key-value store.
 *
 * All fields are required: both ends are of one version.
 */
#include "config.h"

#include "kvs_json_wire.h"

static const struct flux_field ns_only[] = {
    FLUX_FIELD_STR(struct kvs_ns_only, namespace, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_END,
};
const struct flux_schema kvs_ns_only_schema = FLUX_SCHEMA(struct kvs_ns_only, ns_only);

static const struct flux_field ns_version[] = {
    FLUX_FIELD_STR(struct kvs_ns_version, namespace, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct kvs_ns_version, version, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_END,
};
const struct flux_schema kvs_ns_version_schema = FLUX_SCHEMA(struct kvs_ns_version, ns_version);

static const struct flux_field ns_rootref[] = {
    FLUX_FIELD_STR(struct kvs_ns_rootref, namespace, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_STR(struct kvs_ns_rootref, rootref, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_END,
};
const struct flux_schema kvs_ns_rootref_schema = FLUX_SCHEMA(struct kvs_ns_rootref, ns_rootref);

static const struct flux_field version_answer[] = {
    FLUX_FIELD_U64(struct kvs_version_answer, version, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_STR(struct kvs_version_answer, rootref, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_END,
};
const struct flux_schema kvs_version_answer_schema =
    FLUX_SCHEMA(struct kvs_version_answer, version_answer);

static const struct flux_field ns_create[] = {
    FLUX_FIELD_STR(struct kvs_ns_create, namespace, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U32(struct kvs_ns_create, owner, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U32(struct kvs_ns_create, rank, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct kvs_ns_create, number, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_END,
};
const struct flux_schema kvs_ns_create_schema = FLUX_SCHEMA(struct kvs_ns_create, ns_create);

static const struct flux_field ns_list[] = {
    FLUX_FIELD_ARRAY(struct kvs_ns_list, namespaces, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_END,
};
const struct flux_schema kvs_ns_list_schema = FLUX_SCHEMA(struct kvs_ns_list, ns_list);

static const struct flux_field ns_item[] = {
    FLUX_FIELD_STR(struct kvs_ns_item, namespace, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U32(struct kvs_ns_item, owner, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U32(struct kvs_ns_item, rank, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_BOOL(struct kvs_ns_item, lost, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_END,
};
const struct flux_schema kvs_ns_item_schema = FLUX_SCHEMA(struct kvs_ns_item, ns_item);

static const struct flux_field dropped[] = {
    FLUX_FIELD_U64(struct kvs_dropped, dropped, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_END,
};
const struct flux_schema kvs_dropped_schema = FLUX_SCHEMA(struct kvs_dropped, dropped);

static const struct flux_field fence_list[] = {
    FLUX_FIELD_ARRAY(struct kvs_fence_list, fences, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_END,
};
const struct flux_schema kvs_fence_list_schema = FLUX_SCHEMA(struct kvs_fence_list, fence_list);

static const struct flux_field fence_item[] = {
    FLUX_FIELD_STR(struct kvs_fence_item, namespace, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_STR(struct kvs_fence_item, name, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U32(struct kvs_fence_item, nprocs, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U32(struct kvs_fence_item, entered, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_STR(struct kvs_fence_item, ranks, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_DOUBLE(struct kvs_fence_item, age, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_END,
};
const struct flux_schema kvs_fence_item_schema = FLUX_SCHEMA(struct kvs_fence_item, fence_item);

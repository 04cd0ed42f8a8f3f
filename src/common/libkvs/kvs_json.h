/* What kvs clients and instances say in JSON: one description per message, for both ends.
 *
 *    kvs.version, kvs.getroot, kvs.follow, kvs.gc,
 *    kvs.namespace-remove          {"namespace"}
 *    kvs.wait-version              {"namespace","version"}
 *    kvs.snapshot                  {"namespace","rootref"}        rootref "": the newest
 *    answers to kvs.version and
 *    kvs.wait-version              {"version","rootref"}
 *    kvs.namespace-create          {"namespace","owner","rank"}   owner 0xffffffff: who asks
 *    answer to kvs.namespace-list  {"namespaces":[{"namespace","owner","rank","lost"}, ...]}
 *    answer to kvs.dropcache       {"dropped"}
 *    answer to kvs.fences          {"fences":[{"namespace","name","nprocs","entered","ranks","age"},
 *                                  ...]}                          of this instance
 *
 * Thread rules: constants, for any thread.
 */
#ifndef KVS_JSON_H
#define KVS_JSON_H

#include "libschema/schema.h"

struct kvs_ns_only {
    const char *namespace;
};
extern const struct flux_schema kvs_ns_only_schema;

struct kvs_ns_version {
    const char *namespace;
    uint64_t version;
};
extern const struct flux_schema kvs_ns_version_schema;

struct kvs_ns_rootref {
    const char *namespace;
    const char *rootref;
};
extern const struct flux_schema kvs_ns_rootref_schema;

struct kvs_version_answer {
    uint64_t version;
    const char *rootref;
};
extern const struct flux_schema kvs_version_answer_schema;

struct kvs_ns_create {
    const char *namespace;
    uint32_t owner;
    uint32_t rank;
};
extern const struct flux_schema kvs_ns_create_schema;

struct kvs_ns_list {
    json_t *namespaces;
};
extern const struct flux_schema kvs_ns_list_schema;
struct kvs_ns_item {
    const char *namespace;
    uint32_t owner;
    uint32_t rank;
    bool lost; /* the rank of its master is gone */
};
extern const struct flux_schema kvs_ns_item_schema;

struct kvs_dropped {
    uint64_t dropped;
};
extern const struct flux_schema kvs_dropped_schema;

struct kvs_fence_list {
    json_t *fences;
};
extern const struct flux_schema kvs_fence_list_schema;
struct kvs_fence_item {
    const char *namespace;
    const char *name;
    uint32_t nprocs;
    uint32_t entered;  /* clients at this broker that wait */
    const char *ranks; /* where participants are, as far as somebody said so; "" for none */
    double age;        /* seconds since the first of them called, or calls from below came */
};
extern const struct flux_schema kvs_fence_item_schema;

#endif

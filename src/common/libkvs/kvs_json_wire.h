/* JSON payloads of the service "kvs", for both ends.  km_wire_methods[] (src/modules/kvs/km_wire.c)
 * names the messages that carry them.
 *
 * Thread rules: constants, for any thread.
 */
#ifndef KVS_JSON_WIRE_H
#define KVS_JSON_WIRE_H

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
    const char *rootref; /* "": the newest */
};
extern const struct flux_schema kvs_ns_rootref_schema;

struct kvs_version_answer {
    uint64_t version;
    const char *rootref;
};
extern const struct flux_schema kvs_version_answer_schema;

struct kvs_ns_create {
    const char *namespace;
    uint32_t owner; /* 0xffffffff: the user who sends the request */
    uint32_t rank;
    uint64_t number; /* random: the same when the request is sent again; 0: it is not */
};
extern const struct flux_schema kvs_ns_create_schema;

struct kvs_ns_list {
    json_t *namespaces; /* of struct kvs_ns_item */
};
extern const struct flux_schema kvs_ns_list_schema;
struct kvs_ns_item {
    const char *namespace;
    uint32_t owner;
    uint32_t rank;
    bool lost; /* the rank of its master is lost */
};
extern const struct flux_schema kvs_ns_item_schema;

struct kvs_dropped {
    uint64_t dropped;
};
extern const struct flux_schema kvs_dropped_schema;

struct kvs_fence_list {
    json_t *fences; /* of struct kvs_fence_item */
};
extern const struct flux_schema kvs_fence_list_schema;
struct kvs_fence_item {
    const char *namespace;
    const char *name;
    uint32_t nprocs;
    uint32_t entered;  /* clients at this broker that wait */
    const char *ranks; /* of participants, as far as they are known; "": none */
    double age;        /* seconds since the first call arrived here, from a client or from below */
};
extern const struct flux_schema kvs_fence_item_schema;

#endif

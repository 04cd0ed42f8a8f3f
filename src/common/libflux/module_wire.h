/* Messages of the service "module" (src/broker/modhost_service.c). */
#ifndef FLUX_MODULE_WIRE_H
#define FLUX_MODULE_WIRE_H

#include "libschema/schema.h"

/* Pointers refer to the decoded message. */
struct module_load {
    const char *path;
    json_t *args;      /* array of strings */
    const char *place; /* "loop" or "thread"; NULL: according to the session or the module */
};
extern const struct flux_schema module_load_schema;

struct module_name {
    const char *name;
    bool force; /* do not ask the module whether it can be unloaded */
};
extern const struct flux_schema module_name_schema; /* {"name"} */
extern const struct flux_schema module_stop_schema; /* {"name","force"?} */

struct module_list {
    json_t *modules; /* array of struct module_item */
};
extern const struct flux_schema module_list_schema;
struct module_item {
    const char *name;
    const char *path;
    const char *state; /* "loading", "running" or "stopping" */
    uint64_t received; /* messages, since it was loaded */
    uint64_t sent;
    uint64_t queued;   /* messages in its mailbox now */
    const char *place; /* "loop" or "thread" */
    uint64_t turns;    /* messages handled; on the loop also timers and files */
    double busy;       /* total seconds of these turns */
    double longest;    /* seconds of the longest turn */
    uint64_t longer;   /* number of turns that took longer than module.turn-max */
};
extern const struct flux_schema module_item_schema;

extern const struct flux_method module_methods[];

#endif

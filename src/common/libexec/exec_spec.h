/* A job as the instances of wrexec see it, read and checked once from its JSON in wrexec.launch.
 *
 * Not thread-safe while it is being created; constant afterwards.
 */
#ifndef EXEC_SPEC_H
#define EXEC_SPEC_H

#include "exec_layout.h"
#include "libidset/idset.h"
#include "wrexec_wire.h"

enum spec_output { SPEC_OUTPUT_KVS, SPEC_OUTPUT_CLIENT, SPEC_OUTPUT_NONE };

struct spec {
    uint64_t id;
    uint32_t flags; /* WIRE_F_* */
    enum spec_output output;
    struct wrexec_launch w; /* its pointers are valid as long as this object */
    idset_t *ranks;
    layout_t *layout;
    struct wire_limit limits[WIRE_LIMITS_MAX];
    uint32_t nlimits;
    struct wire_command *commands;
    uint32_t ncommands;
    uint32_t universe; /* tasks that the job has room for */
    json_t *owner;
    struct spec_group *groups; /* equal nodes */
    size_t ngroups;
};

/* NULL with an error message and EPROTO, EINVAL or ENOMEM.  *id is set as soon as it is known (else
 * 0), so that the caller can report the failure.  `size` is the size of the session. */
struct spec *exec_spec_create(const char *json, size_t len, uint32_t size, uint64_t *id,
                              errmsg_t *err);
void exec_spec_destroy(struct spec *s); /* NULL-safe, keeps errno */

/* The properties of one rank of the job. */
struct exec_spec_node {
    uint32_t node;  /* its number in the job */
    uint32_t count; /* number of tasks */
    const char *cores;
    const char *gpus;
    uint64_t memory;
    char name[256]; /* "": not given */
};
void exec_spec_node(const struct spec *s, uint32_t rank, struct exec_spec_node *n);

/* The number of tasks that a rank of a job has room for: one for each core of the job there, and at
 * least the tasks that it was given; with overcommit, as many as a node can have. */
uint32_t exec_spec_room(const struct spec *s, uint32_t rank);

#endif

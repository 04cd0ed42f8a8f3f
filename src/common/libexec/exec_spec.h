/* A job as the instances of wrexec see it: read from its JSON in wrexec.launch once, and checked.
 *
 * Not thread-safe; constant once made.
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
    struct wrexec_launch w; /* pointers live as long as this */
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

/* NULL with EPROTO, EINVAL or ENOMEM and an error message; *id is set as soon as it is known (else
 * 0), so that the failure can be reported.  `size`: of the session. */
struct spec *exec_spec_create(const char *json, size_t len, uint32_t size, uint64_t *id,
                              errmsg_t *err);
void exec_spec_destroy(struct spec *s); /* NULL-safe, keeps errno */

/* What is particular about a rank of the job. */
struct exec_spec_node {
    uint32_t node;  /* its number in the job */
    uint32_t count; /* tasks */
    const char *cores;
    const char *gpus;
    uint64_t memory;
    char name[256]; /* "": not given */
};
void exec_spec_node(const struct spec *s, uint32_t rank, struct exec_spec_node *n);

/* How many tasks a rank of a job has room for: one a core that the job has there, and no fewer than
 * it was given; with overcommit as many as a node can have. */
uint32_t exec_spec_room(const struct spec *s, uint32_t rank);

#endif

/* What jobopts.c (options) and jobopts_spec.c (the jobspec) share. */
#ifndef CMD_JOBOPTS_PRIVATE_H
#define CMD_JOBOPTS_PRIVATE_H

#include "jobopts.h"
#include "libjob/jobspec.h"

#define JOBOPTS_ITEMS_MAX 64 /* maximum number of different pools, and of limits */

/* Values that are checked with other options, or put into the jobspec one by one. */
struct jobopts {
    struct cmd *c;
    /* resources; 0: not given */
    uint32_t nnodes, ntasks, per_node, cores, gpus;
    uint64_t mem; /* MiB */
    bool exclusive, overcommit, one_per_node;
    struct jobspec_pool pools[JOBOPTS_ITEMS_MAX];
    size_t npools;
    strvec_t *properties;
    char *ranks, *hosts; /* as given */
    /* tasks */
    strvec_t *argv, *env;
    struct jobspec_program *programs; /* several, of `words`; then argv is ignored */
    strvec_t **words;
    size_t nprograms;
    char *chdir, *in, *out, *err;
    const char *who; /* standard input: "first", "all", "none" or NULL */
    struct joboptions options;
    struct job_rlimit rlimits[JOBOPTS_ITEMS_MAX], softlimits[JOBOPTS_ITEMS_MAX];
    bool no_softlimits; /* --rlimit=none */
    json_t *files;
    /* job */
    double limit; /* seconds; 0: none */
    double begin; /* seconds since 1970; 0: at once */
    uint32_t urgency;
    char *name;
    struct jobspec_dep *deps;
    size_t ndeps;
    json_t *settings; /* path below attributes -> value: --setattr, --setopt */
    bool dry_run;
    bool usage_error; /* of what went wrong last */
};

/* An absolute path, since tasks start elsewhere; NULL: this directory.  To be freed; NULL after a
 * sentence. */
char *jobopts_absolute(struct cmd *c, const char *path);

void jobopts_programs_clear(jobopts_t *jo);
int jobopts_no_memory(jobopts_t *jo); /* -1 after the sentence */

#endif

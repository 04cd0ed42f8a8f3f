/* What the parts of flux-sim share: the machine, one replay and what it came to, files.
 *
 *    flux-sim.c       main(): selects one of the commands below
 *    sim_replay.c     flux sim TRACE: options, the list of replays, the table
 *    sim_derive.c     flux sim derive
 *    sim_check.c      flux sim check; sim_schedule.c: its file
 *    sim_network.c    flux sim network; sim_flows.c: its --flows; sim_net.c: rates of flows;
 *                     sim_pattern.c: communication patterns
 *    sim_machine.c    --nodes, --tree, --topology
 *    sim_speedup.c    --speedup
 *    sim_run.c        one replay through libsched
 *    sim_metrics.c    the results of a replay, as numbers and as JSON
 *    sim_out.c        output files that are complete or absent
 *    sim_report.c     the page of --report; its figures: sim_figure.c, drawn by sim_plot.c
 *
 * Thread rules: one thread.
 */
#ifndef CMD_SIM_H
#define CMD_SIM_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "../cmd.h"
#include "libsched/sched_replay.h"
#include "libtopology/fattree.h"
#include "libtrace/trace.h"
#include "libutil/errmsg.h"

/* --- commands: exit codes of cmd.h --- */

int sim_replay(struct cmd *c, int argc, char **argv);
int sim_derive(struct cmd *c, int argc, char **argv);
int sim_check(struct cmd *c, int argc, char **argv);
int sim_network(struct cmd *c, int argc, char **argv);

/* --- the machine --- */

struct sim_machine {
    fattree_t *tree;          /* NULL: nodes alone, all on one switch */
    uint32_t nodes;           /* 0: not said yet */
    uint32_t pods, leaves, k; /* P,L,K; 0 when it was read from a file */
};
enum { SIM_OPT_NODES = CMD_KEY(900), SIM_OPT_TREE, SIM_OPT_TOPOLOGY, SIM_OPT_PPN };
#define SIM_MACHINE_OPTS                                                                         \
    {SIM_OPT_NODES, "nodes", "N", "the machine has N nodes on one switch"},                      \
        {SIM_OPT_TREE, "tree", "P,L,K", "a fat tree: P pods of L leaf switches of K nodes"},     \
    {                                                                                            \
        SIM_OPT_TOPOLOGY, "topology", "FILE", "the switches that FILE describes (topology.conf)" \
    }
/* Take one of these options.  0, or -1 after an error message, with the exit code in *code. */
int sim_machine_option(struct cmd *c, struct sim_machine *m, int key, const char *val, int *code);
/* P pods of L leaves of K nodes.  0, or -1 with errno and an error message. */
int sim_machine_create(struct sim_machine *m, uint32_t pods, uint32_t leaves, uint32_t nodes,
                       errmsg_t *err);
void sim_machine_clear(struct sim_machine *m);
/* "4,18,18 (1296 nodes)" */
void sim_machine_describe(const struct sim_machine *m, char *buf, size_t size);

/* --- messages from a file --- */

/* Print when each of the messages in `path` ends.  An exit code. */
int sim_flows(struct cmd *c, const struct sim_machine *m, const char *path, bool json);

/* --- speedups (doc/sim.rst, E12) --- */

/* Is it "none", "pctX", "V1" or "V2"? */
bool sim_speedup_known(const char *name);
/* The runtime of a job of `nodes` nodes when nobody shares its links. */
int64_t sim_speedup(const char *name, uint64_t seed, int64_t id, int64_t nodes, int64_t runtime);

/* --- one replay --- */

struct sim_policy {
    const char *queue, *select, *speedup; /* speedup: NULL when there is none */
    uint32_t depth;
    uint64_t seed;
};

struct sim_place {
    size_t at;      /* in `ranges` */
    uint32_t n;     /* this many of them */
    float hops;     /* average over pairs of nodes; -1: the policy does not choose nodes */
    uint32_t links; /* shared with a job that ran when it started */
};

struct sim_run {
    struct sim_policy policy;
    struct sched_replay_job *jobs; /* sorted by (submit, id), each with its start */
    size_t n, never; /* jobs; those that the policy could not place, which are not among them */
    struct sim_place *places;
    struct sched_range *ranges;
    size_t nranges, space;
    bool lists; /* the policy chooses nodes */
};

typedef void (*sim_progress_f)(size_t done, size_t njobs, void *arg);

/* Replay the jobs of `trace`, which trace_keep() was called for.  NULL with errno and an
 * error message. */
struct sim_run *sim_run(const trace_t *trace, const struct sim_machine *m,
                        const struct sim_policy *policy, sim_progress_f progress, void *arg,
                        errmsg_t *err);
void sim_run_destroy(struct sim_run *r); /* NULL-safe, keeps errno */
/* The columns job,submit,start,end,nodes,nodelist.  0, or -1 with errno. */
int sim_run_write(const struct sim_run *r, FILE *f);

/* --- metrics --- */

#define SIM_SIZES 6
extern const char *const sim_size_names[SIM_SIZES];
size_t sim_size_class(int64_t nodes);

struct sim_metrics {
    size_t jobs;
    uint32_t nodes;
    double makespan, mean_wait, max_wait; /* seconds */
    double util_mean, util_until;
    double util[5]; /* minimum, quartiles, maximum */
    double load;    /* NAN: all jobs came at once */
    int64_t sum_start;
    size_t by_size[SIM_SIZES];
    double wait_by_size[SIM_SIZES], hops_by_size[SIM_SIZES]; /* NAN: no such job */
    double hops;           /* over jobs of several nodes; NAN: none */
    uint64_t shared_links; /* see sim_place */
    size_t sharing_jobs;
};
/* What a table of metrics shows of each policy, one value a row (or column). */
struct sim_row {
    const char *title;
    const char *below; /* title where it follows the row that it is part of; NULL: the same */
    size_t offset;     /* of a double in struct sim_metrics */
    double unit;       /* of the value shown */
    int decimals;
};
#define SIM_ROWS 7
extern const struct sim_row sim_rows[SIM_ROWS];
/* Which of n sorted numbers is the quantile `quarter` / 4. */
size_t sim_quantile_index(size_t n, int quarter);
/* 0, or -1 with ENOMEM. */
int sim_metrics(const struct sim_run *r, const struct sim_machine *m, struct sim_metrics *out);
json_t *sim_metrics_json(const struct sim_run *r, const struct sim_metrics *m,
                         const struct trace_dropped *dropped); /* NULL: ENOMEM */

/* --- files --- */

struct sim_out {
    FILE *f;
    char *path, *temporary; /* temporary NULL: written in place (a device, a pipe) */
};
/* Begin a file.  0, or -1 with errno and an error message. */
int sim_out_open(struct sim_out *o, const char *path, errmsg_t *err);
/* End it.  With `ok` it takes the place of the old one; else, or when the disk is full, what was
 * written is removed.  0, or -1 with errno and an error message. */
int sim_out_close(struct sim_out *o, bool ok, errmsg_t *err);

#endif

/* The figures of the report (sim_report.h), written to a stream as scripts for sim_plot_draw().
 *
 * Thread rules: one thread.
 */
#ifndef CMD_SIM_FIGURE_H
#define CMD_SIM_FIGURE_H

#include "sim.h"

/* What a figure wants to know of a replay, which may be gone. */
struct sim_series {
    char label[160];
    struct sim_metrics metrics;
    double hops[SIM_SIZES][5]; /* minimum, quartiles, maximum of the jobs of a size; NAN: none */
};

/* 0, or -1 with ENOMEM. */
int sim_series(struct sim_series *s, const struct sim_run *run, const struct sim_metrics *m,
               const char *label);

/* The workload: nodes asked for per hour of submission, and how many jobs have how many nodes. */
int sim_figure_asked(FILE *f, const trace_t *t); /* 0, or -1 with ENOMEM */
int sim_figure_sizes(FILE *f, const trace_t *t); /* 0, or -1 with ENOMEM */

/* Comparisons of replays; at most SIM_FIGURE_SERIES of them are drawn. */
#define SIM_FIGURE_SERIES 8
void sim_figure_waits(FILE *f, const struct sim_series *s, size_t n);
void sim_figure_utilization(FILE *f, const struct sim_series *s, size_t n);
void sim_figure_makespan(FILE *f, const struct sim_series *s, size_t n);
void sim_figure_hops(FILE *f, const struct sim_series *s, size_t n);

/* Which job was where: a window of time about the middle of the replay, no longer than some
 * thousand marks fit into.  `number` makes its id different from those of other replays. */
void sim_figure_gantt(FILE *f, const struct sim_run *run, const struct sim_machine *m,
                      size_t number, const char *label);

#endif

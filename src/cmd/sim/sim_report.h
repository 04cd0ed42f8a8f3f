/* The page that flux sim --report writes: what the replays came to, with figures.
 *
 * Replays are added one by one, as they end; of each only what the page shows is kept.
 *
 * Thread rules: one thread.
 */
#ifndef CMD_SIM_REPORT_H
#define CMD_SIM_REPORT_H

#include "sim.h"

typedef struct sim_report sim_report_t;

struct sim_report_options {
    const char *trace_name;
    const trace_t *trace; /* after trace_keep() */
    const struct trace_dropped *dropped;
    const struct sim_machine *machine;
    /* Of the replays that the report makes itself. */
    const char *queue;
    uint32_t depth;
    uint64_t seed;
    void (*progress)(size_t done, size_t total, void *arg); /* may be NULL */
    void *arg;
};

/* NULL with ENOMEM.  What the options point to outlives the report. */
sim_report_t *sim_report_create(const struct sim_report_options *options);
void sim_report_destroy(sim_report_t *r); /* NULL-safe, keeps errno */

/* Add a replay that was asked for.  0, or -1 with ENOMEM. */
int sim_report_add(sim_report_t *r, const struct sim_run *run, const struct sim_metrics *m,
                   const char *label);

/* Make the replays that the figures compare beyond those asked for (a machine without switches has
 * none), and draw all figures; to be called once, last.  0, or -1 with errno and an error
 * message. */
int sim_report_finish(sim_report_t *r, errmsg_t *err);

/* Write the page, or each figure to DIRECTORY/NAME.svg and the script that draws it, with its
 * values, to DIRECTORY/NAME.gp.  0, or -1 with errno and an error message. */
int sim_report_write(const sim_report_t *r, const char *path, errmsg_t *err);
int sim_report_write_figures(const sim_report_t *r, const char *directory, errmsg_t *err);

#endif

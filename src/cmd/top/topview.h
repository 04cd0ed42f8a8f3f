/* What flux top shows, as lines of text: no terminal here.
 *
 * Thread rules: functions use nothing but their arguments.
 */
#ifndef CMD_TOPVIEW_H
#define CMD_TOPVIEW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct toprow {
    uint64_t id;
    char name[64];
    char state[12]; /* word of flux_job_state_word() */
    char why[96];   /* why it waits */
    uint32_t nnodes, ntasks, ncores;
    double t_run; /* since then; 0: does not run */
    double t_submit;
    double expiration; /* 0: no limit */
    bool session;
};

struct topmodel {
    char path[128]; /* ids of jobs that lead here; "" at the top */
    uint32_t size;  /* brokers */
    uint32_t level; /* of the session, from the outside */
    double now;     /* seconds since 1970 */
    uint32_t nodes_total, nodes_used;
    uint32_t cores_total, cores_used;                     /* total 0: unknown */
    uint32_t depend, priority, sched, held, run, cleanup; /* held: of those in sched */
    uint64_t inactive;
    bool accepting, scheduling, known; /* known: the job service has answered */
    struct toprow *rows;
    size_t nrows;
    size_t more; /* jobs that are not among the rows */
    size_t selected;
    bool help;
    bool away;         /* the broker is, and may return: what is shown is from before */
    char message[160]; /* at the bottom; "" none */
};

enum top_style { TOP_PLAIN, TOP_TITLE, TOP_HEADER, TOP_SELECTED, TOP_DIM, TOP_ERROR };

struct topline {
    enum top_style style;
    char text[512];
};

/* Fill `lines` (room for `rows`) with what a screen of that size shows; the number of lines.  The
 * part of the table around the selected row is shown.  rows 0 is taken as 1, cols at most 511. */
size_t topview_render(const struct topmodel *m, struct topline *lines, size_t rows, size_t cols);

/* "1:02:03", "12:03", "3d04h" of seconds; returns buf (16 bytes suffice). */
char *topview_time(double seconds, char *buf, size_t size);

#endif

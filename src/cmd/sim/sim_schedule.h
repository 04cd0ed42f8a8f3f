/* A schedule that flux sim --schedule has written, for flux sim check. */
#ifndef CMD_SIM_SCHEDULE_H
#define CMD_SIM_SCHEDULE_H

#include "sim.h"

/* Columns. */
enum { JOB, SUBMIT, START, END, NODES, LIST, NCOLUMNS };

/* A line: numbers, and a list of nodes. */
struct sim_schedule_row {
    int64_t value[LIST];
    size_t line;
    size_t at, n; /* of `ranges` */
};

struct sim_schedule_range {
    uint32_t first, last;
};

struct sim_schedule {
    char *text;
    struct sim_schedule_row *rows;
    size_t nrows, rows_space;
    struct sim_schedule_range *ranges;
    size_t nranges, ranges_space;
};

/* Read the file.  CMD_OK, or CMD_FAIL after an error message; to be cleared in any case. */
int sim_schedule_read(struct cmd *c, const char *path, struct sim_schedule *out);
void sim_schedule_clear(struct sim_schedule *s);
/* Make room for one more element in an array that has n elements of `size` bytes and room for
 * *space.  Returns the array, which may have moved; NULL with ENOMEM: it is unchanged. */
void *sim_schedule_grow(void *array, size_t *space, size_t n, size_t size);

#endif

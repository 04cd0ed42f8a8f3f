/* What jobs_table.c has from jobs_columns.c. */
#ifndef CMD_JOBS_COLUMNS_H
#define CMD_JOBS_COLUMNS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "libjob/job.h"

#define JOBS_CELL_MAX 1024

struct jobs_cell {
    char text[JOBS_CELL_MAX]; /* "" before it is filled */
    double now;               /* seconds since 1970 */
    /* the last user that was looked up */
    bool has_user;
    uint32_t uid;
    char user[64];
};

struct jobs_column {
    const char *name;
    const char *title;
    bool right;
    void (*fill)(struct jobs_cell *c, const struct job_info *i);
    const char *help;
    bool estimates; /* needs what the scheduler says */
};

/* In whatever case; NULL when there is none of that name. */
const struct jobs_column *jobs_column_find(const char *name, size_t len);

#endif

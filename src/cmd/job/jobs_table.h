/* A list of jobs as text: columns by name, or a template, with widths, colors and a header.
 *
 *    "id,name,state"              columns two blanks apart, as wide as their contents, or, of a
 *                                 column NAME:[<>]WIDTH.MAX, at least WIDTH and at most MAX
 *    "+why"                       the default columns and more
 *    "{id:>6} {name:12.12} ..."   a template: {COLUMN:[<>]WIDTH.MAX}
 *
 * Not thread-safe.
 */
#ifndef CMD_JOBS_TABLE_H
#define CMD_JOBS_TABLE_H

#include <stdio.h>

#include "libjob/job.h"

typedef struct jobs_table jobs_table_t;

/* `spec` as above; `defaults` is what "+..." adds to.  NULL with EINVAL or ENOMEM, and
 * a sentence. */
jobs_table_t *jobs_table_create(const char *spec, const char *defaults, errmsg_t *err);
void jobs_table_destroy(jobs_table_t *t); /* NULL-safe, keeps errno */
/* Take the job in: everything is copied.  `now`: seconds since 1970.  -1 with ENOMEM. */
int jobs_table_add(jobs_table_t *t, const struct job_info *info, double now);
size_t jobs_table_rows(const jobs_table_t *t);
/* Is what a column needs among them: expected starts and reasons? */
bool jobs_table_estimates(const jobs_table_t *t);

struct jobs_print {
    bool header;
    bool colors;
    unsigned width;   /* of the screen: longer lines are cut; 0: none */
    size_t rows;      /* at most; 0: all */
    const char *tail; /* at the end of each line before the newline; "" when NULL */
};
void jobs_table_print(const jobs_table_t *t, FILE *f, const struct jobs_print *p);
void jobs_table_clear(jobs_table_t *t);

/* Print the names of all columns, with what they say. */
void jobs_table_help(FILE *f);
/* Complete the JSON object of a job for output: adds the name of the user, and replaces `state` by
 * the word that the column STATE shows; `rawstate` keeps the name of the event log.  `info` was
 * decoded from the same object, and its `state` is invalid afterwards.  0; -1 when out of
 * memory. */
int jobs_json(json_t *json, const struct job_info *info);
/* Name of a user, or the user id if there is none.  `buf` is used for that. */
const char *jobs_user_name(uint32_t uid, char *buf, size_t size);
/* A time after this (the year 9999) is printed as "never". */
#define JOBS_TIME_MAX 253402300799.
/* Short text for a length of time: "45s", "12:30", "3:04:05", "2d03:04". */
char *jobs_time_text(double seconds, char *buf, size_t size);

#endif

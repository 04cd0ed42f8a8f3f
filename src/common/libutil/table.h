/* Table for command output: the same rows as aligned text or as a JSON array of objects.
 *
 *   table_t *t = table_create();
 *   table_column(t, "rank", "RANK", TABLE_RIGHT);
 *   table_column(t, "host", "HOST", TABLE_LEFT);
 *   table_row(t);
 *   table_u64(t, 0);
 *   table_str(t, "node0");
 *   table_print(t, stdout, json ? TABLE_JSON : 0);
 *
 * An allocation failure or usage error is remembered and reported by table_print() and
 * table_to_json(), so the calls in between need no check.  Not thread-safe.
 */
#ifndef UTIL_TABLE_H
#define UTIL_TABLE_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

typedef struct table table_t;

enum table_align { TABLE_LEFT, TABLE_RIGHT };

enum {
    TABLE_JSON = 1,      /* JSON array instead of text */
    TABLE_NO_HEADER = 2, /* text without the header line */
};

table_t *table_create(void);    /* NULL with ENOMEM; the calls below then fail with ENOMEM */
void table_destroy(table_t *t); /* NULL-safe, keeps errno */

/* Add a column: `key` in JSON objects, `title` in text.  Before the first row only. */
int table_column(table_t *t, const char *key, const char *title, enum table_align align);

/* Begin a row; then one call per cell, from left to right.  Omitted cells are null in JSON and "-"
 * in text.  All calls return 0, or -1 with ENOMEM, or EINVAL if there are too many cells. */
int table_row(table_t *t);
int table_str(table_t *t, const char *s); /* NULL: omitted */
int table_i64(table_t *t, int64_t n);
int table_u64(table_t *t, uint64_t n);              /* above INT64_MAX: a real number in JSON */
int table_real(table_t *t, double x, int decimals); /* not finite: text only, null in JSON */
int table_duration(table_t *t, double seconds);     /* seconds in JSON, "1.5h" in text */
int table_size(table_t *t, uint64_t bytes);         /* bytes in JSON, "1.5M" in text */
int table_null(table_t *t);

/* A cell whose JSON and text differ.  Takes over the reference to `value`, in any case. */
int table_cell(table_t *t, json_t *value, const char *text);

/* Print the table.  Text: columns separated by two blanks, no blanks at line ends, control
 * characters and malformed UTF-8 as '?'; nothing at all for a table without rows and
 * TABLE_NO_HEADER.  0, or -1 with the first error of the table or EIO. */
int table_print(const table_t *t, FILE *f, int flags);

/* The rows as a new JSON array.  NULL with the first error of the table or ENOMEM. */
json_t *table_to_json(const table_t *t);

#endif

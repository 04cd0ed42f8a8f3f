/* Projections of records: a field of all records of a variable, as an array of numbers.
 *
 * Thread rules: those of the stream.
 */
#ifndef STREAM_PROJECT_H
#define STREAM_PROJECT_H

#include "libstream/stream.h"
#include "libstream/stream_transform.h"

/* Get what `path` names in the step that was begun: the name of a variable of records, '.' and a
 * field of these, or a field of a record in that field, and so on.  The field is a number, `bool`,
 * `char` or `bytes`, or an array of a fixed shape of these, which adds its dimensions to those of
 * the variable.  Of a rank, or with FLUX_TRANSFORM_ALL a whole global array; then *own is memory
 * that the caller frees after use, else NULL, and the data are valid until the step is ended.  0;
 * or -1 with an error message and ENOENT (there is no such variable, or field), EINVAL (the field
 * is none of these), or the errors of flux_stream_get_records(). */
int project_get(flux_stream_t *s, const char *path, uint32_t rank, struct flux_transform_array *out,
                void **own, errmsg_t *err);

/* The same of structs of the format `f`.  `field` is a path without the variable.  *own is always
 * memory that the caller frees. */
int project_structs(const stream_format_t *f, const char *field,
                    const struct flux_transform_array *recs, struct flux_transform_array *out,
                    void **own, errmsg_t *err);

/* The format of records that have only what `path` names in records of `f`: a field as above, or
 * one string, in as many nested records.  *fd is that field in `f`.  NULL with an error message. */
stream_format_t *project_format(const stream_format_t *f, const char *path,
                                const struct stream_field **fd, errmsg_t *err);

#endif

/* The format of flux kvs dump and restore: text that a person can read and edit.
 *
 *    flux-kvs-archive 1
 *    # comments and empty lines may be anywhere
 *    a.b = "text with \n \t \r \" \\ and \xHH"
 *    a.bin = base64 AAEC/w==
 *    a.long =
 *      "a value is its pieces in a row:\n"
 *      "lines that begin with a blank go on with it\n"
 *      base64 AP8=
 *    a.link -> b.c
 *    a.empty.
 *    "a key with blanks" = "1"
 *    end
 *
 * A line is a value (=), a link (->), or an empty directory (a dot behind its key); other
 * directories are there because something is in them.  A key with blanks, quotes, backslashes or a
 * '#' in front stands in quotes, like a text.  Without the last line, "end", an archive is not
 * whole. A line has at most 1 MiB.
 */
#ifndef CMD_CMD_KVS_ARCHIVE_H
#define CMD_CMD_KVS_ARCHIVE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "libutil/errmsg.h"

/* --- writing: errors are those of the stream --- */

void archive_put_head(FILE *out, const char *comment);
void archive_put_dir(FILE *out, const char *key);
void archive_put_link(FILE *out, const char *key, const char *target, size_t len);
/* A value in pieces, each of any length; `size` is that of all. */
void archive_put_value(FILE *out, const char *key, uint64_t size);
void archive_put_piece(FILE *out, const char *data, size_t len);
/* A comment: this key is not in the archive. */
void archive_put_left_out(FILE *out, const char *key);
void archive_put_end(FILE *out);

/* --- reading --- */

/* What is found, in order.  Each returns 0, or -1 with an error message in `err`. */
struct archive_ops {
    int (*dir)(void *arg, const char *key, errmsg_t *err);
    int (*link)(void *arg, const char *key, const char *target, errmsg_t *err);
    int (*value)(void *arg, const char *key, errmsg_t *err);
    int (*piece)(void *arg, const void *data, size_t len, errmsg_t *err);
    int (*value_end)(void *arg, errmsg_t *err);
};
/* Read to the end.  0; -1 with an error message that begins with the number of the line. */
int archive_read(FILE *in, const struct archive_ops *ops, void *arg, errmsg_t *err);

#endif

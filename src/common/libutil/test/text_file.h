/* A text as a file, for unit tests and fuzz targets of what reads files. */
#ifndef UTIL_TEST_TEXT_FILE_H
#define UTIL_TEST_TEXT_FILE_H

#include <stdlib.h>
#include <unistd.h>

#include "libutil/fdutil.h"

#define TEXT_FILE "/tmp/flux-text-XXXXXX"

/* Write a text to a new file, which the caller removes.  `path` begins as TEXT_FILE and becomes the
 * file's name. */
static inline void text_file_create(char *path, const void *text, size_t len)
{
    int fd = mkstemp(path);

    if (fd < 0 || fd_write_all(fd, text, len) < 0)
        abort();
    close(fd);
}

#endif

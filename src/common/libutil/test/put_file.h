/* Write a file, for the unit tests of all directories. */
#ifndef UTIL_TEST_PUT_FILE_H
#define UTIL_TEST_PUT_FILE_H

#include <check.h>
#include <fcntl.h>
#include <unistd.h>

#include "libutil/fdutil.h"

/* Create `path` with this mode and these contents, or replace the contents. */
static inline void put_file(const char *path, const void *data, size_t len, mode_t mode)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);

    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(fd_write_all(fd, data, len), 0);
    close(fd);
}

#endif

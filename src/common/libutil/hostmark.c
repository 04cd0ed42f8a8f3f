/* hostmark.c - a mark of the host and of its last start.
 *
 * The kernel draws a random id at each start; its first eight digits are the mark.  Containers of one
 * host share it, as they share the locks of files.
 *
 * Failure: without /proc the host's name stands for it, which is the same after a restart.
 */
#include "config.h"
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "hostmark.h"

#define BOOT_ID "/proc/sys/kernel/random/boot_id"

void hostmark_get(char mark[HOSTMARK_SIZE])
{
    int fd = open(BOOT_ID, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, mark, HOSTMARK_SIZE - 1);
    uint32_t hash = 2166136261u;
    struct utsname u;

    if (fd >= 0)
        close(fd);
    mark[HOSTMARK_SIZE - 1] = '\0';
    if (n == HOSTMARK_SIZE - 1 && strspn(mark, "0123456789abcdef") == HOSTMARK_SIZE - 1)
        return;
    if (uname(&u) == 0) {
        for (const char *p = u.nodename; *p; p++)
            hash = (hash ^ (unsigned char)*p) * 16777619u;
    }
    snprintf(mark, HOSTMARK_SIZE, "%08x", hash);
}

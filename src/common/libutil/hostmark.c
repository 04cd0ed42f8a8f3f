/* hostmark.c - marks that identify the host and its last boot, and the resources that a process
 * shares with others of the host.
 *
 * The kernel draws a random id at each boot, whose first eight digits are the mark.  Containers of
 * one host have the same id, as they share file locks.
 *
 * Failure: without /proc the host's name is used, which stays the same after a reboot.
 */
#include "config.h"
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
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

void hostnet_get(char mark[HOSTNET_SIZE])
{
    char host[HOSTMARK_SIZE];
    struct stat net;

    hostmark_get(host);
    if (stat("/proc/self/ns/net", &net) < 0)
        net.st_ino = 0;
    snprintf(mark, HOSTNET_SIZE, "%s.%llx", host, (unsigned long long)net.st_ino);
}

void hostshare_get(char mark[HOSTSHARE_SIZE])
{
    char host[HOSTNET_SIZE];
    struct stat pid, shm;

    hostnet_get(host);
    if (stat("/proc/self/ns/pid", &pid) < 0)
        pid.st_ino = 0;
    if (stat("/dev/shm", &shm) < 0)
        shm.st_dev = 0;
    snprintf(mark, HOSTSHARE_SIZE, "%s.%llx.%llx", host, (unsigned long long)pid.st_ino,
             (unsigned long long)shm.st_dev);
}

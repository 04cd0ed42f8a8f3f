/* Identifies a boot of a host.  For names of files that only a process of the same host and boot
 * may regard as stale: on a shared file system, files of other hosts look the same.  Thread-safe.
 */
#ifndef UTIL_HOSTMARK_H
#define UTIL_HOSTMARK_H

#define HOSTMARK_SIZE 9 /* eight hex digits and a NUL */

#define HOSTNET_SIZE 32
#define HOSTSHARE_SIZE 80

/* Write the mark: from the kernel's boot id, or without one from the host's name. */
void hostmark_get(char mark[HOSTMARK_SIZE]);

/* Write a mark of the host and the network namespace, as text without spaces.  Only processes with
 * equal marks have the same addresses and UNIX sockets without a name in the file system. */
void hostnet_get(char mark[HOSTNET_SIZE]);

/* Write a mark of the resources that this process shares with others of its host, as text without
 * spaces: the mark of the host, the namespaces of network and processes, and the file system
 * /dev/shm.  Only processes with equal marks reach each other by loopback, abstract sockets,
 * process ids and shared memory.  A resource that cannot be determined counts as shared. */
void hostshare_get(char mark[HOSTSHARE_SIZE]);

#endif

/* Ordered list of host names with numbers folded: "node[0-15],login1,rack[1-2]n[01-16]".
 *
 * Several brackets multiply out, the last one fastest.  Zero padding is part of a name: "n1" and
 * "n01" are two hosts.  Names consist of letters, digits, '.', '-' and '_', begin with none of ".-"
 * and have at most 255 characters.  A list holds at most HOSTLIST_MAX hosts; a name may occur more
 * than once.  Not thread-safe; const functions may run side by side.
 */
#ifndef IDSET_HOSTLIST_H
#define IDSET_HOSTLIST_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "libutil/errmsg.h"

#define HOSTLIST_MAX (1U << 20)
#define HOSTLIST_NAME_MAX 255

typedef struct hostlist hostlist_t;

/* Create an empty list.  NULL with ENOMEM. */
hostlist_t *hostlist_create(void);
void hostlist_destroy(hostlist_t *hl); /* NULL-safe, keeps errno */

/* Text to list ("" is the empty one).  NULL with EINVAL (malformed), E2BIG (too many hosts, or too
 * much text when expanded) or ENOMEM, and an error message in `err`, which may be NULL. */
hostlist_t *hostlist_parse(const char *s, errmsg_t *err);

/* Number of hosts in a text, without expanding it: linear in its length.  0, or -1 with EINVAL or
 * E2BIG (more than HOSTLIST_MAX) and an error message. */
int hostlist_check(const char *s, size_t *count, errmsg_t *err);

/* Call fn with each name of a text, in order, without storing any.  A result of -1 with errno stops
 * the walk.  0, or -1 with that errno (`err` is unchanged), or with those of hostlist_check(): the
 * names before a malformed one were passed to fn by then. */
typedef int (*hostlist_walk_f)(const char *name, void *arg);
int hostlist_walk(const char *s, hostlist_walk_f fn, void *arg, errmsg_t *err);

/* List to compact text, in order, which the caller frees.  NULL with ENOMEM. */
char *hostlist_format(const hostlist_t *hl);

/* Append the hosts of a text.  0, or -1 with the errors of hostlist_parse(): nothing was added. */
int hostlist_append(hostlist_t *hl, const char *hosts, errmsg_t *err);

/* Number of hosts; a NULL list has none. */
size_t hostlist_count(const hostlist_t *hl);

/* Write name number n (from 0) to `name`, `size` bytes (HOSTLIST_NAME_MAX + 1 are always enough),
 * and return it.  Logarithmic.  NULL with ENOENT (no such host) or ENOSPC (name does not fit).
 * For-each: for (size_t i = 0; hostlist_nth(hl, i, name, sizeof(name)); i++) */
char *hostlist_nth(const hostlist_t *hl, size_t n, char *name, size_t size);

/* Remove all but the first of hosts with equal names, keeping the order.  0, or -1 with ENOMEM;
 * then nothing changed. */
int hostlist_unique(hostlist_t *hl);

#endif

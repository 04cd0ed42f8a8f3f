/* Is a text XML as hwloc 2 writes it, complete enough to be given to hwloc?
 *
 * hwloc trusts what it reads: files in which an attribute is missing can crash it.  So what it
 * needs is looked for first.  Any thread. */
#ifndef RESOURCE_RESHWLOC_CHECK_H
#define RESOURCE_RESHWLOC_CHECK_H

#include <stddef.h>

#include "libutil/errmsg.h"

/* 0, or -1 with EINVAL and an error message that names the line. */
int reshwloc_check(const char *xml, size_t len, errmsg_t *err);

#endif

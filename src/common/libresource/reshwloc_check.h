/* Is a text XML as hwloc 2 writes it, complete enough for hwloc's reader?
 *
 * hwloc trusts its input: a file in which an attribute is missing can crash it.  So this check
 * looks for all elements and attributes that hwloc requires.  Any thread. */
#ifndef RESOURCE_RESHWLOC_CHECK_H
#define RESOURCE_RESHWLOC_CHECK_H

#include <stddef.h>

#include "libutil/errmsg.h"

/* 0, or -1 with EINVAL and an error message that names the line. */
int reshwloc_check(const char *xml, size_t len, errmsg_t *err);

#endif

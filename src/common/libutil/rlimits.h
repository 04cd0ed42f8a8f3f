/* Names of the limits of setrlimit(2): "nofile", "core", "stack"...  Thread-safe. */
#ifndef UTIL_RLIMITS_H
#define UTIL_RLIMITS_H

/* RLIMIT_* for a name in lower case without that prefix; -1 with EINVAL (also for NULL). */
int rlimit_parse(const char *name);

#endif

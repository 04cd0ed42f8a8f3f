/* Keys: "job.1.state" names an entry `state` in directory `1` in directory `job`.  "." is the root
 * directory.  A name between dots has 1 to 255 bytes of well-formed UTF-8 without control
 * characters; a key has at most 1024 bytes and 64 names.
 *
 * Thread rules: any thread.
 */
#ifndef KVS_KEY_H
#define KVS_KEY_H

#include <stdbool.h>
#include <stddef.h>

#include "libutil/errmsg.h"

#define KVS_KEY_MAX 1024
#define KVS_NAME_MAX 255
#define KVS_DEPTH_MAX 64
#define KVS_NS_MAX 64
#define KVS_NS_PRIMARY "primary"

/* 0 when key[0..len) is a key other than the root; -1 with EINVAL, or ENAMETOOLONG, and an error
 * message.
 */
int kvs_key_check(const char *key, size_t len, errmsg_t *err);
/* Is it the root directory's key? */
bool kvs_key_is_root(const char *key, size_t len);

/* Split the first name off a key.  Returns the length of the name; *rest is the key behind its dot,
 * NULL after the last name. */
size_t kvs_key_name(const char *key, size_t len, const char **rest, size_t *restlen);

/* Names of namespaces have 1 to 64 letters, digits, '.', '_' and '-'.  0, or -1 with EINVAL and an
 * error message. */
int kvs_ns_check(const char *name, size_t len, errmsg_t *err);

#endif

/* Growable, NULL-terminated vector of strings: argument lists, environments.  Not thread-safe. */
#ifndef UTIL_STRVEC_H
#define UTIL_STRVEC_H

#include <stddef.h>

typedef struct strvec strvec_t;

/* An empty vector; one with copies of `argv` up to its NULL (argv may be NULL); one with the parts
 * of `s` between separator characters `sep`: "a,,b" has three parts, "" has none.  NULL with
 * ENOMEM. */
strvec_t *strvec_create(void);
strvec_t *strvec_copy_argv(char *const argv[]);
strvec_t *strvec_split(const char *s, char sep);
void strvec_destroy(strvec_t *v); /* NULL-safe, keeps errno */

/* Append a copy.  0, or -1 with ENOMEM; then nothing changed.  NULL `v` fails with ENOMEM. */
int strvec_add(strvec_t *v, const char *s);
int strvec_addf(strvec_t *v, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Remove number i; no effect when there is none. */
void strvec_remove(strvec_t *v, size_t i);

size_t strvec_count(const strvec_t *v);

/* String number i, NULL beyond the end; valid until the vector is changed there. */
const char *strvec_at(const strvec_t *v, size_t i);

/* The strings, NULL-terminated, as execv(3) wants them; owned by the vector, valid until it is
 * changed. */
char **strvec_argv(const strvec_t *v);

/* All strings with `sep` between them, to be freed by the caller.  NULL with ENOMEM. */
char *strvec_join(const strvec_t *v, const char *sep);

/* The vector as an environment ("NAME=value" strings): the value of `name`, or NULL; set, replacing
 * an earlier one (-1 with ENOMEM, or EINVAL for a name that is empty or contains '='); remove. */
const char *strvec_getenv(const strvec_t *v, const char *name);
int strvec_setenv(strvec_t *v, const char *name, const char *value);
void strvec_unsetenv(strvec_t *v, const char *name);

#endif

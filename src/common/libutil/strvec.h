/* Growable, NULL-terminated vector of strings: argument lists, environments.  Not thread-safe. */
#ifndef UTIL_STRVEC_H
#define UTIL_STRVEC_H

#include <stddef.h>

typedef struct strvec strvec_t;

/* Create an empty vector; one with copies of `argv` up to its NULL (argv may be NULL); one with the
 * parts of `s` between separator characters `sep`: "a,,b" has three parts, "" has none.  NULL with
 * ENOMEM. */
strvec_t *strvec_create(void);
strvec_t *strvec_copy_argv(char *const argv[]);
strvec_t *strvec_split(const char *s, char sep);
void strvec_destroy(strvec_t *v); /* NULL-safe, keeps errno */

/* Append a copy.  0, or -1 with ENOMEM; then nothing changed.  A NULL `v` fails with ENOMEM. */
int strvec_add(strvec_t *v, const char *s);
int strvec_addf(strvec_t *v, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Remove string number i; no effect if there is none. */
void strvec_remove(strvec_t *v, size_t i);

size_t strvec_count(const strvec_t *v);

/* String number i, NULL beyond the end; valid until the vector changes there. */
const char *strvec_at(const strvec_t *v, size_t i);

/* The strings, NULL-terminated, as for execv(3); owned by the vector, valid until it changes. */
char **strvec_argv(const strvec_t *v);

/* All strings joined by `sep`; the caller frees the result.  NULL with ENOMEM. */
char *strvec_join(const strvec_t *v, const char *sep);

/* Use the vector as an environment ("NAME=value" strings): set the value of `name`, replacing an
 * earlier one (-1 with ENOMEM, or EINVAL for a name that is empty or contains '='); remove it. */
int strvec_setenv(strvec_t *v, const char *name, const char *value);
void strvec_unsetenv(strvec_t *v, const char *name);

#endif

/* flux start --wrap: some brokers of a session on this host run under a debugger or a checker.
 *
 * Thread rules: before there is any thread.
 */
#ifndef BROKER_WRAP_H
#define BROKER_WRAP_H

#include "libidset/idset.h"
#include "libutil/errmsg.h"
#include "libutil/strvec.h"

typedef struct wrap wrap_t;

/* RANKS:COMMAND [ARGUMENT...], with spaces between the words.  NULL with EINVAL or ENOMEM and an
 * error message. */
wrap_t *wrap_parse(const char *text, errmsg_t *err);
void wrap_destroy(wrap_t *w); /* NULL-safe, keeps errno */

/* Ranks that run under the command. */
const idset_t *wrap_ranks(const wrap_t *w);

/* Become COMMAND, with this program and `args` as its last arguments; a PMI connection stays
 * open.  Returns only on failure: -1 with errno and an error message. */
int wrap_exec(const wrap_t *w, const strvec_t *args, errmsg_t *err);

#endif

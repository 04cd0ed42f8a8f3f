/* A job that is a session: what flux batch and flux alloc have in common.
 *
 * Thread rules: functions use nothing but their arguments.
 */
#ifndef CMD_NESTJOB_H
#define CMD_NESTJOB_H

#include "../job/jobopts.h"

/* The option of both: more options for flux start, gathered here. */
#define NESTJOB_KEY_START CMD_KEY(50)
#define NESTJOB_OPTION                                                   \
    {                                                                    \
        NESTJOB_KEY_START, "start-option", "OPTION",                     \
            "pass an option to the flux start of the session, such as\n" \
            "--topology=flat or --set=NAME=VALUE (may be repeated)"      \
    }

/* Make the job's command: one broker a node, `program` (up to its NULL) in the session.
 * `start`: options for flux start; may be NULL.  -1 after an error message. */
int nestjob_command(struct cmd *c, jobopts_t *jo, const strvec_t *start, char *const *program);
/* The file of `flux`: the brokers' hosts have the same.  To be freed; NULL after an error
 * message. */
char *nestjob_self(struct cmd *c);

#endif

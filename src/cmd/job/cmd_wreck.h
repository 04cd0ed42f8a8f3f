/* The parts of `flux wreck`, and what they share. */
#ifndef CMD_CMD_WRECK_H
#define CMD_CMD_WRECK_H

#include "../cmd.h"
#include "libjob/job.h"

int wreck_status(struct cmd *c, int argc, char **argv);
int wreck_timing(struct cmd *c, int argc, char **argv);
int wreck_eventlog(struct cmd *c, int argc, char **argv);
int wreck_attach(struct cmd *c, int argc, char **argv);

/* Have this broker know the store as it is now: a job that was just submitted is there then.  -1
 * after a sentence. */
int wreck_sync(struct cmd *c, flux_t *h);
/* Look up job.ID.WHAT: the future; its value as text, to be freed, with its length.  NULL after a
 * sentence, or (with *absent, which may be NULL) silently when it is not there.  `f` is taken
 * over. */
flux_future_t *wreck_ask(flux_t *h, uint64_t id, const char *what);
char *wreck_value(struct cmd *c, flux_future_t *f, uint64_t id, const char *what, size_t *len,
                  bool *absent);
/* The name of a file as the jobspec has it, with the id in the place of {{id}}; malloc'd.  NULL
 * with ENOMEM. */
char *wreck_file(uint64_t id, const char *name);

#endif
